"""Rows of the postpone bucket to real buckets.

Writers of such tables store rows in `bucket-postpone` in order of arrival. The files of one writer, whose name is part
of the file name, are read in the order in which they were made, so the rows of a key keep their order; the rows of
different writers have no order. The number of buckets is that of the partition, or is chosen for its first rows. The
sequence numbers of moved rows are above those of the bucket. The result is one COMPACT snapshot, as no row is new.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.commit_plan import live_files, select_partitions
from lakewright.commit.committer import Committer
from lakewright.compact.compaction_plan import CompactTask, Partitions, check_compactable, with_schema_of
from lakewright.compact.compaction_rounds import CompactResult, run_concurrently, run_rounds
from lakewright.compact.rewrite_output import BucketOutput
from lakewright.errors import InvalidInputError
from lakewright.formats.data_file_writer import FilePlan
from lakewright.lsm.merge_rows import MergeRules, merge_order
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_file_reader import KeyedFiles, explain_missing_files
from lakewright.read.manifest_scan import FileSchemas
from lakewright.spec.bucket_hash import bucket_ids, postponed_buckets
from lakewright.spec.manifest import DataFile, ManifestEntry
from lakewright.spec.option_values import ChangelogProducer
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.system_columns import VALUE_KIND, keyed_table
from lakewright.spec.table_options import TableOptions
from lakewright.spec.table_schema import POSTPONE, BucketMode

_WRITER_END = "-w-"  # the name of a file up to here is that of its writer


@dataclass(frozen=True, slots=True)
class PostponedRows:
    """The files in the postpone bucket of one partition, and the buckets that their rows go to."""

    partition: bytes
    writers: tuple[tuple[DataFile, ...], ...]  # the files of each, in the order they were made
    buckets: int
    next_numbers: Mapping[int, int]  # the first free sequence number of each bucket that has files


def distribute(store: TableStore, *, partitions: Partitions | Callable[[Snapshot], Partitions] = None) -> CompactResult:
    """Move the rows of the postpone bucket into real buckets, in the partitions that agree with a spec.

    A function chooses the partitions of the snapshot whose rows are moved.
    """
    check_compactable(store)
    if store.schema.bucket_mode is not BucketMode.POSTPONE:
        raise InvalidInputError(
            f"{store.name}: only tables with bucket=-2 postpone the choice of buckets; this one has "
            f"bucket={store.options.bucket}",
            table=store.name,
        )

    def produce(snapshot: Snapshot) -> list[CommitMessage]:
        chosen = partitions(snapshot) if callable(partitions) else partitions
        jobs = postponed_rows(store, live_files(store, snapshot, select_partitions(store, chosen)))
        with explain_missing_files(store, snapshot.id):
            return run_concurrently(store, jobs, lambda job, memory: _Distribution(store, job, memory).run())

    return run_rounds(store, produce, lambda messages, _: Committer(store, sole=True).commit(messages))


def postponed_tasks(store: TableStore, snapshot: Snapshot, partitions: Partitions) -> list[CompactTask]:
    """Return the files that wait in the postpone bucket as tasks, for an estimate alone."""
    jobs = postponed_rows(store, live_files(store, snapshot, select_partitions(store, partitions)))
    return [
        CompactTask(
            job.partition, POSTPONE, job.buckets, snapshot.id, tuple(f for some in job.writers for f in some), ()
        )
        for job in jobs
    ]


def postponed_rows(store: TableStore, entries: Iterable[ManifestEntry]) -> list[PostponedRows]:
    """Return the files in the postpone bucket of each partition, and how many buckets their rows go to."""
    waiting: dict[bytes, list[DataFile]] = {}
    totals: dict[bytes, int] = {}
    numbers: dict[bytes, dict[int, int]] = {}
    for entry in entries:
        if entry.bucket == POSTPONE:
            waiting.setdefault(entry.partition, []).append(entry.file)
            continue
        totals[entry.partition] = entry.total_buckets
        known = numbers.setdefault(entry.partition, {})
        known[entry.bucket] = max(known.get(entry.bucket, 0), entry.file.max_sequence_number + 1)
    return [
        PostponedRows(
            partition,
            by_writer(files),
            totals.get(partition) or _bucket_count(store.options, files),
            numbers.get(partition, {}),
        )
        for partition, files in sorted(waiting.items())
    ]


def by_writer(files: Iterable[DataFile]) -> tuple[tuple[DataFile, ...], ...]:
    """Group files by the writer that their names contain, each group in the order its files were made."""
    groups: dict[str, list[DataFile]] = {}
    for file in files:
        head, end, _ = file.file_name.partition(_WRITER_END)
        groups.setdefault(head + end, []).append(file)
    ordered = (sorted(group, key=lambda f: (f.creation_time or 0, _count(f), f.file_name)) for group in groups.values())
    return tuple(tuple(group) for group in ordered)


def _count(file: DataFile) -> int:
    """Return the number that ends a file's name: files of one moment were made in its order."""
    tail = file.file_name.partition(".")[0].rpartition("-")[2]
    return int(tail) if tail.isdecimal() else 0


def _bucket_count(options: TableOptions, files: Sequence[DataFile]) -> int:
    return postponed_buckets(options, sum(file.row_count for file in files), sum(file.file_size for file in files))


class _Distribution:
    """The work on one partition: rows are gathered by bucket and written as level-0 files whenever memory is full."""

    def __init__(self, store: TableStore, job: PostponedRows, memory_bytes: int) -> None:
        store = with_schema_of(store, [file for writer in job.writers for file in writer])
        self._store = store
        self._job = job
        self._memory = memory_bytes
        self._spec = MergeRules.of_schema(store.schema, table=store.name)
        self._write_id = str(uuid.uuid4())
        self._next = dict(job.next_numbers)
        self._gathered: dict[int, list[pa.Table]] = {}
        self._bytes = 0
        self._outputs: dict[int, BucketOutput] = {}
        self._files: dict[int, list[DataFile]] = {}
        self._changelog: dict[int, list[DataFile]] = {}

    def run(self) -> list[CommitMessage]:
        """Read all files, write those of the buckets, and return the commit messages."""
        store, job = self._store, self._job
        source = KeyedFiles(store, FileSchemas(store), job.partition, POSTPONE, store.schema.fields)
        try:
            for writer in job.writers:
                for rows in source.read_run(writer):
                    self._gather(rows)
            self._flush()
        except BaseException:
            for output in self._outputs.values():
                output.discard()
            raise
        done = [file for writer in job.writers for file in writer]
        taken = self._message(POSTPONE, POSTPONE, before=tuple(done))
        return [taken, *(self._message(bucket, job.buckets) for bucket in sorted(self._files))]

    def _gather(self, rows: pa.Table) -> None:
        schema = self._store.schema
        ids = bucket_ids(
            [rows.column(field.name) for field in schema.bucket_fields],
            [field.type for field in schema.bucket_fields],
            function="default",
            buckets=self._job.buckets,
        )
        for bucket, part in split_by_bucket(rows, ids):
            self._gathered.setdefault(bucket, []).append(self._number_rows(bucket, part))
        self._bytes += rows.nbytes
        if self._bytes >= self._memory:
            self._flush()

    def _number_rows(self, bucket: int, rows: pa.Table) -> pa.Table:
        first = self._next.get(bucket, 0)
        self._next[bucket] = first + len(rows)
        numbers = pa.array(np.arange(first, first + len(rows), dtype=np.int64))
        values = rows.select(self._store.schema.field_names)
        return keyed_table(values, numbers, rows.column(VALUE_KIND.name))

    def _flush(self) -> None:
        """Write one level-0 file per bucket; each is sorted by itself, so each flush begins new ones."""
        schema = self._store.schema
        with_changelog = self._store.options.changelog_producer is ChangelogProducer.INPUT
        for bucket, parts in sorted(self._gathered.items()):
            rows = pa.concat_tables(parts)
            output = self._output(bucket)
            for run in self._spec.fold_apart(merge_order(rows, self._spec)):
                sink = output.open(FilePlan.for_keyed_rows(schema, level=0))
                sink.write(run)
                self._files.setdefault(bucket, []).extend(sink.finish())
            if with_changelog:
                changelog = output.open(FilePlan.for_keyed_rows(schema, level=0, changelog=True))
                changelog.write(rows.take(pa.array(merge_order(rows, self._spec).order)))
                self._changelog.setdefault(bucket, []).extend(changelog.finish())
        self._gathered, self._bytes = {}, 0

    def _output(self, bucket: int) -> BucketOutput:
        if bucket not in self._outputs:
            self._outputs[bucket] = BucketOutput(self._store, (self._job.partition, bucket))
        return self._outputs[bucket]

    def _message(self, bucket: int, total: int, *, before: tuple[DataFile, ...] = ()) -> CommitMessage:
        store = self._store
        return CommitMessage(
            partition_bytes=self._job.partition,
            bucket=bucket,
            total_buckets=total,
            compact_before=before,
            compact_after=tuple(self._files.get(bucket, ())),
            compact_changelog_files=tuple(self._changelog.get(bucket, ())),
            table=store.identity,
            schema_id=store.schema.id,
            write_id=self._write_id,
            partition_types=tuple(str(dtype) for dtype in store.partition_types),
        )


def split_by_bucket(rows: pa.Table, ids: np.ndarray) -> list[tuple[int, pa.Table]]:
    """Cut rows by their buckets; the rows of a bucket keep their order."""
    if len(ids) == 0:
        return []
    if (ids == ids[0]).all():
        return [(int(ids[0]), rows)]
    order = np.argsort(ids, kind="stable")
    sorted_ids = ids[order]
    starts = np.flatnonzero(np.append(True, sorted_ids[1:] != sorted_ids[:-1]))
    ends = np.append(starts[1:], len(order))
    ordered = rows.take(pa.array(order))
    return [
        (int(sorted_ids[start]), ordered.slice(start, end - start)) for start, end in zip(starts, ends, strict=True)
    ]

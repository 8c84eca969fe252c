"""Another number of buckets.

The rows of an old bucket are merged and in key order, so those that a new bucket gets from it are a sorted run. If a
new bucket gets runs of several old ones, these are merged too. The new files are in the deepest level: they are visible
at once and have each key once. Changes that the changelog lacks are written by a compaction before. If the partitions
change meanwhile, the work begins again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pyarrow as pa

from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.commit_plan import live_files, select_partitions
from lakewright.commit.committer import Committer
from lakewright.compact.compaction_job import compact_table
from lakewright.compact.compaction_plan import (
    BucketFiles,
    PartitionSpec,
    check_compactable,
    live_buckets,
    with_schema_of,
)
from lakewright.compact.compaction_rounds import CompactResult, run_concurrently, run_rounds
from lakewright.compact.postponed_rows import distribute, split_by_bucket
from lakewright.compact.rewrite_output import BucketOutput, GroupedRows, deletions_of
from lakewright.errors import CommitContentionError, InvalidInputError, UnsupportedError
from lakewright.formats.data_file_writer import FilePlan
from lakewright.lsm.merge_rows import MergeRules, drop_retracts
from lakewright.lsm.sorted_runs import max_level, merge_runs, sections
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_file_reader import KeyedFiles, explain_missing_files
from lakewright.read.manifest_scan import FileSchemas
from lakewright.spec.bucket_hash import bucket_ids
from lakewright.spec.manifest import COMPACT, DataFile
from lakewright.spec.option_values import ChangelogProducer
from lakewright.spec.scalars import to_python
from lakewright.spec.schema import SchemaChange
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.table_options import TableOptions
from lakewright.spec.table_schema import POSTPONE, BucketMode

_GATHER_BYTES = 128 << 20  # rows of all new buckets of a partition that wait to be written


def rescale(store: TableStore, buckets: int, *, partitions: Sequence[PartitionSpec] | None = None) -> CompactResult:
    """Give the partitions that agree with a spec, or the whole table, another number of buckets.

    Of the whole table the number is stored in the option `bucket`; partitions of their own number are written with
    that number from then on only by writers that are told so.
    """
    _check(store, buckets)
    if store.schema.bucket_mode is BucketMode.POSTPONE:
        distribute(store, partitions=partitions)
    emptied: dict[bytes, int] = {}  # partitions without rows, and the snapshot that says so

    def produce(snapshot: Snapshot) -> list[CommitMessage]:
        _refuse_waiting(store, snapshot, partitions)
        old_buckets: dict[bytes, list[BucketFiles]] = {}
        for bucket in live_buckets(store, snapshot, partitions=partitions):
            if bucket.total_buckets != buckets:
                old_buckets.setdefault(bucket.place[0], []).append(bucket)

        if any(_lacks_changelog(store, bucket) for some in old_buckets.values() for bucket in some):
            compact_table(store, full=True, partitions=partitions)

        def work(old: list[BucketFiles], memory_bytes: int) -> list[CommitMessage]:
            return _Rescale(store, old, buckets, memory_bytes).run()

        with explain_missing_files(store, snapshot.id):
            made = run_concurrently(store, list(old_buckets.values()), work)
        emptied.clear()
        emptied.update(dict.fromkeys(old_buckets.keys() - {message.partition_bytes for message in made}, snapshot.id))
        return made

    def publish(messages: Sequence[CommitMessage], snapshot: Snapshot) -> Snapshot | None:
        # What is replaced are the partitions of the new files; without partitions, everything.
        return Committer(store, sole=True).overwrite(messages, dynamic=True, if_unchanged_since=snapshot.id)

    result = run_rounds(store, produce, publish)
    for partition, snapshot_id in sorted(emptied.items()):
        # All rows of the partition are deleted: without files it has no number of buckets.
        spec = _spec(store, partition)
        done = Committer(store, sole=True).overwrite(
            (), static_partition=spec, dynamic=False, if_unchanged_since=snapshot_id
        )
        result = result + CompactResult(None if done is None else done.id)
    if partitions is None and store.schema.bucket_mode is BucketMode.HASH_FIXED:
        change = SchemaChange.set_option(TableOptions.bucket.key(), buckets)
        has_snapshot = store.snapshots.latest_id() is not None
        store.schemas.evolve([change], has_snapshot=has_snapshot, time_millis=time.time_ns() // 1_000_000)
    return result


def _check(store: TableStore, buckets: int) -> None:
    if not store.schema.primary_keys:
        raise UnsupportedError(
            f"{store.name}: rescaling append tables is not supported yet; overwrite the table with bucket={buckets}",
            table=store.name,
        )
    check_compactable(store)
    if store.schema.bucket_mode not in {BucketMode.HASH_FIXED, BucketMode.POSTPONE}:
        raise InvalidInputError(
            f"{store.name}: the table has bucket={store.options.bucket} and chooses its buckets itself; only a fixed "
            "number of buckets can be changed",
            table=store.name,
        )
    if buckets < 1:
        raise InvalidInputError(f"{store.name}: a table has at least one bucket, not {buckets}", table=store.name)


def _refuse_waiting(store: TableStore, snapshot: Snapshot, partitions: Sequence[PartitionSpec] | None) -> None:
    """Raise CommitContentionError if the postpone bucket has rows, which the overwrite would delete."""
    if store.schema.bucket_mode is not BucketMode.POSTPONE:
        return
    if any(entry.bucket == POSTPONE for entry in live_files(store, snapshot, select_partitions(store, partitions))):
        raise CommitContentionError(
            f"{store.name}: new rows came into the postpone bucket in the meantime; rescale again", table=store.name
        )


def _lacks_changelog(store: TableStore, bucket: BucketFiles) -> bool:
    """Tell whether a compaction has still to write changes of a bucket into the changelog; an overwrite writes none."""
    producer = store.options.changelog_producer
    if producer is ChangelogProducer.LOOKUP:
        return any(file.level == 0 for file in bucket.files)
    deepest = max_level(store.options, bucket.files)
    return producer is ChangelogProducer.FULL_COMPACTION and any(file.level != deepest for file in bucket.files)


def _spec(store: TableStore, partition: bytes) -> dict[str, object]:
    fields = store.schema.partition_fields
    values = store.partition_values(partition)
    return {field.name: to_python(value, field.type) for field, value in zip(fields, values, strict=True)}


class _Rescale:
    """The work on one partition."""

    def __init__(self, store: TableStore, old: Sequence[BucketFiles], buckets: int, memory_bytes: int) -> None:
        store = with_schema_of(store, [file for bucket in old for file in bucket.files])
        self._store = store
        self._old = old
        self._partition = old[0].place[0]
        self._buckets = buckets
        self._memory = memory_bytes
        self._spec = MergeRules.of_schema(store.schema, table=store.name)
        level = store.options.level_count - 1
        self._plan = FilePlan.for_keyed_rows(store.schema, level=level, source=COMPACT)
        self._outputs: dict[int, BucketOutput] = {}

    def run(self) -> list[CommitMessage]:
        """Route the rows of all old buckets, and say which files came out."""
        try:
            runs: dict[int, list[tuple[DataFile, ...]]] = {}
            for bucket in self._old:
                for number, files in self._route_bucket(bucket).items():
                    runs.setdefault(number, []).append(files)
            made = {
                number: self._merge_bucket_runs(number, runs_of_bucket)
                for number, runs_of_bucket in sorted(runs.items())
            }
        except BaseException:
            for output in self._outputs.values():
                output.discard()
            raise
        return [self._message(number, files) for number, files in made.items()]

    def _route_bucket(self, bucket: BucketFiles) -> dict[int, tuple[DataFile, ...]]:
        """Write the rows of one old bucket to the new ones, as one sorted run each."""
        fields = self._store.schema.bucket_fields
        function = self._store.options.bucket_function_type
        if self._store.schema.bucket_mode is BucketMode.POSTPONE:
            function = "default"
        sinks: dict[int, GroupedRows] = {}
        for rows in self._rows(bucket):
            columns = [rows.column(field.name) for field in fields]
            ids = bucket_ids(columns, [f.type for f in fields], function=function, buckets=self._buckets)
            for number, part in split_by_bucket(rows, ids):
                if number not in sinks:
                    sinks[number] = self._output(number).open(self._plan, group_bytes=_GATHER_BYTES // self._buckets)
                sinks[number].write(part)
        return {number: sink.finish() for number, sink in sinks.items()}

    def _rows(self, bucket: BucketFiles) -> Iterator[pa.Table]:
        """Yield the rows of an old bucket as a read shows them once everything is compacted."""
        store = self._store
        deletions = deletions_of(store, bucket.place, bucket.vectors)
        files = KeyedFiles(store, FileSchemas(store), *bucket.place, store.schema.fields, deletions)
        for section in sections(bucket.files, [field.type for field in self._spec.key.fields]):
            runs = [files.read_run(run, level=self._spec.needs_lookup) for run in section.runs]
            yield from map(drop_retracts, merge_runs(runs, self._spec, memory_bytes=self._memory))

    def _merge_bucket_runs(self, number: int, runs: Sequence[tuple[DataFile, ...]]) -> tuple[DataFile, ...]:
        """Make one run of those that a new bucket got."""
        if len(runs) == 1:
            return runs[0]
        store = self._store
        files = KeyedFiles(store, FileSchemas(store), self._partition, number, store.schema.fields)
        sink = self._output(number).open(self._plan)
        for rows in merge_runs([files.read_run(run) for run in runs], self._spec, memory_bytes=self._memory):
            sink.write(rows)
        made = sink.finish()
        directory = store.partition_directory(self._partition)
        for file in (file for run in runs for file in run):
            # What cannot be removed is an orphan, which the removal of orphans finds.
            with suppress(OSError):
                store.storage.delete(store.layout.data_file(directory, number, file))
        return made

    def _output(self, number: int) -> BucketOutput:
        if number not in self._outputs:
            self._outputs[number] = BucketOutput(self._store, (self._partition, number))
        return self._outputs[number]

    def _message(self, number: int, files: tuple[DataFile, ...]) -> CommitMessage:
        store = self._store
        return CommitMessage(
            partition_bytes=self._partition,
            bucket=number,
            total_buckets=self._buckets,
            new_files=files,
            table=store.identity,
            schema_id=store.schema.id,
            write_id=self._outputs[number].stem,
            partition_types=tuple(str(dtype) for dtype in store.partition_types),
        )

"""Changes of groups of files on an engine's workers: groups and a decision in, messages and vectors to commit out.

A task takes some groups, finds the rows that change, and applies the change before it takes the next group, so rows
never travel. Workers write deletion vectors into index files, so the driver gets only names of files. If the job fails,
every file with its write id is removed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self, TypeAlias, TypeVar

import pyarrow as pa

from lakewright.commit.message.message import CommitMessage
from lakewright.distributed.job import Answers, Job, TaskId, Work, Workers, prepare_job
from lakewright.distributed.messages import pack, unpack, verified_messages
from lakewright.distributed.write_job import sharing_buckets, single_threaded
from lakewright.metadata.store import TableStore
from lakewright.read.splits.shares import shares
from lakewright.read.splits.split import DataSplit
from lakewright.spec.datafile import DELETION_VECTORS
from lakewright.update import methods
from lakewright.update.change import Applied, Bucket, ChangeJob, GroupChange, Vector, VectorFile
from lakewright.update.run import Decide, RunGroups
from lakewright.update.vectors import store_vectors
from lakewright.write.writer import TableWriter, WriteJob

GROUP, POSITION = "group", "position"  # columns of rows that are matched: the number of a group, the place in it

# The groups that a task gets, each with rows that say how it changes; rows without a group come first, with None.
GroupedRows: TypeAlias = Iterable[tuple[DataSplit | None, Iterable[pa.RecordBatch]]]
Changes: TypeAlias = Iterable[GroupChange | pa.Table]  # changes of groups, and tables of new rows
Rows = TypeVar("Rows")  # what a task gets

# Added to an attempt in the names of files with new rows, since the attempt may also write files of rows that move.
INSERTING = 1 << 40
_COUNTS = struct.Struct(">qqq")  # rows deleted, updated and inserted


@dataclass(frozen=True, slots=True)
class Changed:
    """The results of all tasks of a job."""

    messages: Sequence[CommitMessage]
    applied: tuple[Applied, ...]
    inserted: int


def groups_on(workers: Workers[Work]) -> RunGroups:
    """Return a function that changes groups on the workers of an engine."""
    return partial(_run, workers)


def _run(workers: Workers[Work], job: ChangeJob, parts: Sequence[DataSplit], decide: Decide) -> Sequence[Applied]:
    if not parts:
        return []
    apply = applying(job, partial(_decided, decide))
    blobs = [[part.serialize() for part in share] for share in shares(job.store, parts, at_least=workers.tasks_at_once)]
    work = workers.share_out(blobs, apply, description=description(job.store))
    return apply_changes(workers, job, work).applied


def _decided(decide: Decide, blobs: Iterator[bytes]) -> Iterator[GroupChange]:
    for blob in blobs:
        change = decide(DataSplit.deserialize(blob))
        if change is not None and not change.is_empty:
            yield change


def applying(
    job: ChangeJob, changes: Callable[[Rows], Changes], *, inserts: TableStore | None = None
) -> Callable[[TaskId, Rows], bytes]:
    """Return a task that applies the changes which `changes` makes of what the task gets, and writes new rows.

    `inserts` is the table with the schema of new rows, if there may be some.
    """
    inserting = _shared(WriteJob.new(inserts or job.store, write_id=job.write_id))

    def run(this: TaskId, rows: Rows) -> bytes:
        return _apply(job, inserting, this, changes(rows))

    return run


def apply_changes(workers: Workers[Work], job: ChangeJob, work: Work) -> Changed:
    """Run tasks that `applying` made, and return what is to be committed."""
    return prepare_job(workers, Job(job.store, job.write_id, work), partial(_verify, job))


def inserting_rows(job: WriteJob, made: Callable[[Rows], Changes]) -> Callable[[TaskId, Rows], bytes]:
    """Return a task that inserts the new rows which `made` makes of what it gets, into a table without a snapshot."""
    inserting = _shared(job)

    def run(this: TaskId, rows: Rows) -> bytes:
        with InsertedRows(inserting, this) as new:
            for change in new.write_inserts(made(rows)):
                raise AssertionError(f"there is nothing to change yet in {change.part}")
            return pack(new.finish())

    return run


def insert_rows(workers: Workers[Work], job: WriteJob, work: Work) -> Changed:
    """Run tasks that `inserting_rows` made, and return what is to be committed."""

    def verify(answers: Answers) -> Changed:
        messages = tuple(verified_messages(job, answers.payloads))
        inserted = sum(file.row_count for message in messages for file in message.new_files)
        return Changed(messages, (Applied(messages),), inserted)

    return prepare_job(workers, Job(job.store, job.write_id, work), verify)


def description(store: TableStore) -> str:
    """Return what an engine shows about tasks that change rows."""
    return f"change rows of {store.name}"


def _shared(job: WriteJob) -> WriteJob:
    return sharing_buckets(single_threaded(job))


def _apply(job: ChangeJob, inserting: WriteJob, this: TaskId, made: Changes) -> bytes:
    """Apply the changes of one task and write its new rows, on a worker."""
    with InsertedRows(inserting, this) as new:
        applied = methods.apply(job, new.write_inserts(made), this.number, this.attempt)
        applied = store_vectors(job, applied + Applied(tuple(new.finish())), this.number, this.attempt)
        return _pack_counts(job, applied, new.rows)


class InsertedRows:
    """Writes the rows that one attempt at a task inserts."""

    def __init__(self, job: WriteJob, this: TaskId) -> None:
        self.rows = 0
        self._job = job
        self._task = this
        self._writer: TableWriter | None = None

    def write_inserts(self, made: Changes) -> Iterator[GroupChange]:
        """Write new rows, and pass changes on."""
        for one in made:
            if isinstance(one, GroupChange):
                yield one
                continue
            if self._writer is None:
                self._writer = self._job.open_writer(self._task.number, self._task.attempt + INSERTING)
            self._writer.write(one)
            self.rows += one.num_rows

    def finish(self) -> list[CommitMessage]:
        """Finish the files and return what to commit."""
        return [] if self._writer is None else self._writer.prepare()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove files that `finish` did not return."""
        if self._writer is not None:
            self._writer.close()


def _pack_counts(job: ChangeJob, applied: Applied, inserted: int) -> bytes:
    return _COUNTS.pack(applied.deleted, applied.updated, inserted) + pack(_messages(job, applied))


def _messages(job: ChangeJob, applied: Applied) -> list[CommitMessage]:
    """Return the results of a task as messages; its vectors are in messages with index files."""
    stored = (job.message(one.bucket, new_index_files=(one.file,)) for one in applied.vector_files)
    return [*applied.messages, *stored]


def _verify(job: ChangeJob, answers: Answers) -> Changed:
    """Return the results of all tasks."""
    applied = tuple(_unpack_applied(job, payload) for payload in answers.payloads)
    messages = [message for some in applied for message in _messages(job, some)]
    return Changed(messages, applied, sum(_COUNTS.unpack_from(payload)[2] for payload in answers.payloads))


def _unpack_applied(job: ChangeJob, payload: bytes) -> Applied:
    """Return the results of a task from its payload; the vectors of removed files are removed too."""
    deleted, updated, _ = _COUNTS.unpack_from(payload)
    messages = unpack(payload[_COUNTS.size :])
    plain = tuple(message for message in messages if not message.new_index_files)
    files = tuple(VectorFile(_bucket(m), file) for m in messages for file in m.new_index_files)
    manifest = job.snapshot.index_manifest
    index = job.store.manifests.read_index(manifest) if manifest and any(m.deleted_files for m in plain) else []
    masked = {
        (entry.partition, entry.bucket, vector.data_file)
        for entry in index
        if entry.file.index_type == DELETION_VECTORS
        for vector in entry.file.deletion_ranges or ()
    }
    dropped = tuple(
        Vector(_bucket(m), file.file_name, 0, None)
        for m in plain
        for file in m.deleted_files
        if (m.partition_bytes, m.bucket, file.file_name) in masked
    )
    return Applied(plain, dropped, files, deleted, updated)


def _bucket(message: CommitMessage) -> Bucket:
    return message.partition_bytes, message.bucket, message.total_buckets

"""What every engine needs to write a table with tasks: a call in, one snapshot and a result out.

    checks of the call -> look for the job's own commit -> [the engine runs tasks that send messages home]
    -> check what came home -> commit once, in this process -> compact on the engine's workers

Always holds: tasks never commit, and a job with an id is committed once, whoever runs it. What was not published is
removed by the id of its write; once publishing has begun and nobody knows how it ended, nothing is removed.
"""

from __future__ import annotations

import struct
import time
import uuid
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

from lakewright.calls import check_mode, check_partitions
from lakewright.commit.committer import Committer
from lakewright.commit.files import files_of
from lakewright.commit.message.message import CommitMessage
from lakewright.commit.plan import select_partitions
from lakewright.commit.table_commit import BatchTableCommit, CommitResult, StreamTableCommit, WriteResult
from lakewright.compact.job import RunTasks, after_commit
from lakewright.errors import (
    CommitConflictError,
    CommitContentionError,
    InvalidInputError,
    InvalidMessageError,
    LakewrightError,
    LakewrightWarning,
    NotFoundError,
    TableNotExistException,
    UnsupportedError,
    counted,
)
from lakewright.metadata.store import TableStore
from lakewright.spec.options import CoreOptions
from lakewright.spec.schema.table_schema import BucketMode
from lakewright.spec.snapshot import Snapshot
from lakewright.table.table import FileStoreTable
from lakewright.table.write_builder import BatchTableWrite, TableWrite
from lakewright.update.merge.upsert import needs_lookup
from lakewright.write.job_run import JobRun, earlier_result, user_of_job
from lakewright.write.leftovers import remove_leftovers
from lakewright.write.reroute import rerouting
from lakewright.write.writer import WriteJob

SEQUENCE_STRIDE = 1 << 31  # rows that one task may write into one bucket in place
# The bucket of a key is decided while it is written, by the one who writes all rows of the key.
ONE_WRITER = frozenset({BucketMode.HASH_DYNAMIC, BucketMode.KEY_DYNAMIC})

_NOT_PUBLISHED = (InvalidInputError, CommitConflictError, CommitContentionError, TableNotExistException)
_DYNAMIC = CoreOptions.DYNAMIC_PARTITION_OVERWRITE.key()
_QUIET_SECONDS = 0.5  # a worker whose task was killed may close one more file
_SWEEPS_MAX = 10
_LENGTH = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Publication:
    """Under which name, and in which way, a write becomes a snapshot."""

    user: str | None = None  # None: one that is derived from the messages
    identifier: int | None = None  # of a batch of a stream
    replaced: Mapping[str, object] | None = None  # what an overwrite replaces, {} without a spec; None: append
    once_since: int | None = None  # user and identifier say what it is, and it is in no snapshot up to this one


@dataclass(frozen=True, slots=True)
class Written:
    """What the tasks of a write brought home."""

    messages: Sequence[CommitMessage]
    tasks: int
    way: str
    started: float  # on the monotonic clock


# ---- the call --------------------------------------------------------------------------------------------------------


def check_call(
    table: FileStoreTable,
    mode: str,
    *,
    partitions: Mapping[str, object] | None = None,
    schema_mode: str | None = None,
    concurrency: int | None = None,
    progress: object = None,
) -> None:
    """Refuse what no engine can do, before anything runs."""
    check_mode(table, mode, schema_mode)
    check_partitions(table, mode, partitions)
    check_concurrency(concurrency)
    check_progress(progress)


def check_concurrency(concurrency: int | None) -> None:
    """Raise InvalidInputError unless concurrency is a whole number of at least 1, or not given."""
    whole = isinstance(concurrency, int) and not isinstance(concurrency, bool)
    if concurrency is not None and (not whole or concurrency < 1):
        raise InvalidInputError(f"concurrency is a number of tasks, at least 1, not {concurrency!r}")


def check_progress(progress: object) -> None:
    """Raise InvalidInputError unless progress is a function, or says whether there is a bar."""
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise InvalidInputError(f"progress is a function that gets a Progress, True or False, not {progress!r}")


def refuse_lookup(table: FileStoreTable, columns: Sequence[str]) -> None:
    """Refuse an upsert that lacks columns of rows which are there, where nobody looks these up: they would be lost."""
    if needs_lookup(table.store, columns):
        lacking = [name for name in table.field_names if name not in columns]
        raise UnsupportedError(
            f"{table.name}: the data lacks {', '.join(map(repr, lacking))}, which must be looked up to stay as "
            "they are, and this write cannot do that; give all columns, or use mode='append', which makes them null "
            "or their default",
            table=table.name,
        )


def new_publication(
    mode: str, *, partitions: Mapping[str, object] | None = None, run: JobRun | None = None
) -> Publication:
    """Return how a call in one of the modes is committed; a run of a job once."""
    replaced = dict(partitions or {}) if mode == "overwrite" else None
    if run is None:
        return Publication(replaced=replaced)
    return Publication(run.user, replaced=replaced, once_since=run.since)


def new_job(table: FileStoreTable, mode: str, *, partitions: Mapping[str, object] | None = None) -> WriteJob:
    """Return the write of a call in one of the modes, as a value that workers open writers from."""
    target = table if partitions is None else table.copy({_DYNAMIC: "false"})
    return WriteJob.new(target.store, overwrite=mode == "overwrite", keys_only=mode == "delete")


def job_of_builder(write: TableWrite, *, overwrite: bool, instead: str) -> tuple[WriteJob, Publication]:
    """Return what a builder has chosen, for an engine that writes and commits; a stream should use `instead`."""
    store = write.job.store
    if not isinstance(write, BatchTableWrite):
        raise UnsupportedError(
            f"{store.name}: a stream write has no identifier to commit this under; use a batch write builder{instead}",
            table=store.name,
        )
    replaced = write.purpose.static_partition
    if replaced:
        select_partitions(store, [replaced])
    if overwrite and replaced is None:
        replaced = {}
    # Files of this job must not be mistaken for those of the writer, so it gets an id of its own.
    job = replace(write.job, write_id=str(uuid.uuid4()), overwrite=replaced is not None)
    return job, Publication(user=write.purpose.commit_user, replaced=replaced)


def sharing_buckets(job: WriteJob) -> WriteJob:
    """Return a write whose tasks add files to the same buckets: rows of a later task have the later numbers."""
    stride = SEQUENCE_STRIDE if job.store.schema.bucket_mode is BucketMode.HASH_FIXED else 0
    return replace(job, sequence_stride=stride)


def single_threaded(job: WriteJob) -> WriteJob:
    """Return the write with one thread per task, unless the table says otherwise: tasks share the cores already."""
    option, store = CoreOptions.LAKEWRIGHT_WRITE_THREADS, job.store
    if option.key() in store.schema.options:
        return job
    return replace(job, store=store.with_schema(store.schema.with_options({option.key(): "1"})))


# ---- messages --------------------------------------------------------------------------------------------------------


def pack(messages: Iterable[CommitMessage]) -> bytes:
    """Return commit messages as one run of bytes, compressed: a driver may hold those of many tasks at once."""
    frames = (message.serialize() for message in messages)
    return zlib.compress(b"".join(part for frame in frames for part in (_LENGTH.pack(len(frame)), frame)), level=1)


def unpack(payload: bytes) -> list[CommitMessage]:
    """Read what `pack` made; bytes that were cut or altered are refused."""
    messages, at = [], 0
    try:
        frames = zlib.decompress(payload)
        while at < len(frames):
            start = at + _LENGTH.size
            at = start + _LENGTH.unpack_from(frames, at)[0]
            messages.append(CommitMessage.deserialize(frames[start:at]))
    except (zlib.error, struct.error) as error:
        message = "the commit messages of a task were cut or altered on their way; write the data again"
        raise InvalidMessageError(message) from error
    return messages


def checked(job: WriteJob, payloads: Iterable[bytes]) -> list[CommitMessage]:
    """Return the messages of all tasks, once it is clear that they are of this write and that no row was lost."""
    messages = [message for payload in payloads for message in unpack(payload)]
    foreign = [message for message in messages if message.write_id != job.write_id]
    written = sum(file.row_count for message in messages for file in message.new_files)
    taken = sum(message.rows_in or 0 for message in messages)
    if foreign or written > taken or (written < taken and not job.store.schema.primary_keys):
        raise LakewrightError(
            f"{job.store.name}: the tasks took {counted(taken, 'row')} and wrote {written}, and "
            f"{len(foreign)} messages are of another write; nothing was committed, write the data again",
            table=job.store.name,
        )
    return messages


# ---- the commit ------------------------------------------------------------------------------------------------------


def publish(
    job: WriteJob, publication: Publication, written: Written, *, run: RunTasks | None, clean_up: Callable[[], None]
) -> WriteResult:
    """Commit what the tasks wrote in one snapshot, and let workers compact what it touched.

    `run` is how the engine runs compactions. `clean_up` removes the files of this write: where nothing was published,
    and where another driver did the same job meanwhile.
    """
    store = job.store
    try:
        committed = _commit(store, publication, written.messages, run)
    except _NOT_PUBLISHED as error:
        if "published_id" not in error.facts:
            clean_up()
        raise
    if publication.once_since is not None and (other := _overtaken(job, committed)) is not None:
        clean_up()
        return replayed(store, other, run=run)
    return WriteResult(
        committed.snapshot_id,
        committed.rows,
        committed.files,
        committed.bytes,
        time.monotonic() - written.started,
        committed.partitions,
        tasks=written.tasks,
        way=written.way,
    )


def _commit(
    store: TableStore, publication: Publication, messages: Sequence[CommitMessage], run: RunTasks | None
) -> CommitResult:
    committer = Committer(store, commit_user=publication.user, once_since=publication.once_since, sole=True)
    after = partial(after_commit, store, run=run) if store.schema.primary_keys else None
    identifier, replaced = publication.identifier, publication.replaced
    if identifier is None or publication.user is None:
        batch = BatchTableCommit(
            store, overwrite=replaced, committer=committer, after_commit=after, reroute=rerouting(store)
        )
        return batch.commit(messages)
    stream = StreamTableCommit(store, commit_user=publication.user, committer=committer, after_commit=after)
    if replaced is not None:
        return stream.overwrite(messages, identifier, replaced)
    return stream.commit(messages, identifier)


def _overtaken(job: WriteJob, committed: CommitResult) -> Snapshot | None:
    """Return the snapshot of another driver that did the same job while this one ran; None where it is our own."""
    if committed.snapshot_id is None or not committed.files:
        return None
    try:
        snapshot = job.store.snapshots.get(committed.snapshot_id)
        return None if holds(job.store, snapshot, job.write_id) else snapshot
    except NotFoundError:  # it expired already, so nobody can say
        return None


def holds(store: TableStore, snapshot: Snapshot, write_id: str) -> bool:
    """Say whether a snapshot is of this write, not of an earlier run of the same job or of another driver."""
    return any(write_id in entry.file.file_name for entry in store.manifests.delta(snapshot))


# ---- jobs that are done already --------------------------------------------------------------------------------------


def committed_job(table: FileStoreTable, job_id: str, *, run: RunTasks | None) -> WriteResult | None:
    """Return what an earlier run of a job brought into the table, None where no snapshot is of it."""
    found = snapshot_of_job(table, job_id)
    return None if found is None else replayed(table.store, found, run=run)


def snapshot_of_job(table: FileStoreTable, job_id: str) -> Snapshot | None:
    """Return the snapshot that a job committed, None where there is none, or none any more."""
    return table.store.snapshots.of_user(user_of_job(table.store, job_id))


def replayed(store: TableStore, found: Snapshot, *, run: RunTasks | None) -> WriteResult:
    """Return what an earlier run brought into the table, and do what it may not have come to: the compaction."""
    return WriteResult(**asdict(earlier_result(store, found, run=run)), way="an earlier run had committed it")


# ---- what tasks leave behind -----------------------------------------------------------------------------------------


def sweep(store: TableStore, write_id: str, *, quiet: float = _QUIET_SECONDS) -> None:
    """Remove the files of a write until none appear for some seconds: tasks that were killed may still close some."""
    try:
        remove_leftovers(store, write_id)
        for _ in range(_SWEEPS_MAX):
            time.sleep(quiet)
            if not remove_leftovers(store, write_id):
                return
    except (LakewrightError, OSError) as error:
        _warn(store, write_id, error)


def remove_all_but(store: TableStore, write_id: str, messages: Sequence[CommitMessage]) -> None:
    """Remove the files of a write that no message names, from the buckets that the messages touch."""
    keep = {file.name for file in files_of(store, messages)}
    places = {(message.partition_bytes, message.bucket) for message in messages}
    try:
        remove_leftovers(store, write_id, keep=keep, places=places)
    except (LakewrightError, OSError) as error:
        _warn(store, write_id, error)


def _warn(store: TableStore, write_id: str, error: Exception) -> None:
    warnings.warn(
        f"{store.name}: files of the write {write_id} may be left behind ({error}); no snapshot names them, and "
        "table.remove_orphan_files() removes them once they are old enough",
        LakewrightWarning,
        stacklevel=4,
    )

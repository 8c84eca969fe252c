"""One write with tasks, committed once; the result of an earlier run of a job."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.committer import Committer
from lakewright.commit.job_ids import JobRun, earlier_of_job, record_begin
from lakewright.commit.table_commit import BatchTableCommit, CommitResult, StreamTableCommit, WriteResult
from lakewright.compact.compaction_job import TaskRunner, compact_after_commit
from lakewright.compact.distributed_compaction import compaction_runner
from lakewright.engine.engine import Engine, Job, TaskResults, Work
from lakewright.engine.engine_job import JobEnd, complete_job, verified_messages
from lakewright.errors import NotFoundError
from lakewright.metadata.table_store import TableStore
from lakewright.spec.manifest import ADD, count_rows
from lakewright.spec.snapshot import SeenSnapshot, Snapshot
from lakewright.spec.table_options import TableOptions
from lakewright.spec.table_schema import BucketMode
from lakewright.write.table_writer import WriteJob, rerouting

# ---- Jobs that commit once -------------------------------------------------------------------------------------------
# look for the snapshot of the job -> there is one: its result -> else commit under the user of the job
#
# The look reads the records of the table (`metadata.job_records`), which outlive the snapshots. All runs of a job on
# one table commit under one user, so that any of them finds the snapshot of the first. Two runs at the same time may
# both look before either commits. So the commit looks again (`Committer.once_since`), and each run stores a unique
# token in its snapshot, by which the slower run detects that another run made the snapshot.


def earlier_result(store: TableStore, snapshot: Snapshot, *, run: TaskRunner | None = None) -> CommitResult:
    """Return the result of an earlier run that committed a snapshot, after compacting, which it may not have done."""
    started = time.monotonic()
    try:
        added = [entry for entry in store.manifests.delta(snapshot) if entry.kind == ADD]
    except NotFoundError:  # the snapshot has expired, and its files are not known any more
        rows = snapshot.delta_record_count or 0
        return CommitResult(snapshot.id, rows, 0, 0, time.monotonic() - started, 0, replayed=True)
    places = frozenset((entry.partition, entry.bucket) for entry in added)
    if places and store.schema.primary_keys:
        compact_after_commit(store, snapshot, places, run=run)
    return CommitResult(
        snapshot.id,
        count_rows(entry.file for entry in added),
        len(added),
        sum(entry.file.file_size for entry in added),
        time.monotonic() - started,
        len({partition for partition, _ in places}),
        replayed=True,
    )


# ---- The job of a write ----------------------------------------------------------------------------------------------

SEQUENCE_STRIDE = 1 << 31  # rows that one task may write into one bucket in place
# The bucket of a key is decided while it is written, by the one who writes all rows of the key.
SINGLE_WRITER_MODES = frozenset({BucketMode.HASH_DYNAMIC, BucketMode.KEY_DYNAMIC})

_DYNAMIC = TableOptions.dynamic_partition_overwrite.key()


@dataclass(frozen=True, slots=True)
class CommitTarget:
    """Under which name, and in which way, a write becomes a snapshot."""

    user: str | None = None  # None: one that is derived from the messages
    identifier: int | None = None  # of a batch of a stream
    replaced: Mapping[str, object] | None = None  # what an overwrite replaces, {} without a spec; None: append
    once_since: SeenSnapshot | None = None  # commit only if no snapshot after this one has the same user and identifier
    only_run: bool = False  # raise a conflict if the user committed anything else after that snapshot
    unchanged_since: int | None = None  # of an overwrite: raise a conflict if what it replaces changed after this one


def new_publication(
    mode: str, *, partitions: Mapping[str, object] | None = None, run: JobRun | None = None
) -> CommitTarget:
    """Return how a call in one of the modes is committed; a run of a job once."""
    replaced = dict(partitions or {}) if mode == "overwrite" else None
    if run is None:
        return CommitTarget(replaced=replaced)
    return CommitTarget(run.user, replaced=replaced, once_since=run.since)


def new_job(store: TableStore, mode: str, *, partitions: Mapping[str, object] | None = None) -> WriteJob:
    """Return the write of a call in one of the modes, as a value that workers open writers from."""
    if partitions is not None:
        store = replace(store, schema=store.schema.with_options({_DYNAMIC: "false"}))
    return WriteJob.new(store, overwrite=mode == "overwrite", keys_only=mode == "delete")


def with_shared_buckets(job: WriteJob) -> WriteJob:
    """Return a write whose tasks add files to the same buckets: rows of a later task have the later numbers."""
    stride = SEQUENCE_STRIDE if job.store.schema.bucket_mode is BucketMode.HASH_FIXED else 0
    return replace(job, sequence_stride=stride)


def with_one_thread(job: WriteJob) -> WriteJob:
    """Return the write with one thread per task, unless the table says otherwise: tasks share the cores already."""
    option, store = TableOptions.lakewright_write_threads, job.store
    if option.key() in store.schema.options:
        return job
    return replace(job, store=store.with_schema(store.schema.with_options({option.key(): "1"})))


# ---- Running a write -------------------------------------------------------------------------------------------------
# [the engine runs tasks that send messages] -> check the messages -> commit once, in this process
#     -> compact on the engine's workers
#
# Invariant: a job with an id is committed once, whoever runs it.


@dataclass(frozen=True, slots=True)
class _Written:
    """The messages of the tasks of a write, verified."""

    messages: Sequence[CommitMessage]
    tasks: int
    method: str


def write_once(
    workers: Engine[Work], job: WriteJob, work: Work, publication: CommitTarget, *, started: float
) -> WriteResult:
    """Have workers write, commit what they wrote in one snapshot, and let them compact what it touched.

    `started` is when the call began, on the monotonic clock. Where another driver committed the same job meanwhile,
    its result is returned, and what was written here is removed.
    """
    compact = compaction_runner(workers)
    if publication.user is not None and publication.identifier is None and publication.once_since is not None:
        record_begin(job.store, publication.user, publication.once_since)
    end = complete_job(
        workers,
        Job(job.store, job.write_id, work),
        partial(_verify, job),
        partial(_publish, job, publication, compact, started),
    )
    return end.result if end.overtaken_by is None else earlier_write_result(job.store, end.overtaken_by, run=compact)


def _verify(job: WriteJob, answers: TaskResults) -> _Written:
    results = answers.results
    return _Written(verified_messages(job, results), len(results), answers.method)


def _publish(
    job: WriteJob, publication: CommitTarget, compact: TaskRunner, started: float, written: _Written
) -> JobEnd[WriteResult]:
    tasks_ms = {"tasks": (time.monotonic() - started) * 1000}
    committed = commit_messages(job.store, publication, written.messages, compact, tasks_ms)
    timed = replace(committed, seconds=time.monotonic() - started)
    result = WriteResult(**asdict(timed), tasks=written.tasks, method=written.method)
    return JobEnd(result, None if publication.once_since is None else find_overtaking(job, committed))


def commit_messages(
    store: TableStore,
    publication: CommitTarget,
    messages: Sequence[CommitMessage],
    compact: TaskRunner | None,
    before_ms: Mapping[str, float],
) -> CommitResult:
    """Commit the messages of a write in one snapshot, and compact the buckets that it touched."""
    committer = Committer(
        store,
        commit_user=publication.user,
        once_since=publication.once_since,
        only_run=publication.only_run,
        sole=True,
    )
    committer.before.join(before_ms)
    after = partial(compact_after_commit, store, run=compact) if store.schema.primary_keys else None
    identifier, replaced = publication.identifier, publication.replaced
    if identifier is None or publication.user is None:
        reroute = rerouting(store)
        with BatchTableCommit(
            store, overwrite=replaced, committer=committer, after_commit=after, reroute=reroute
        ) as batch:
            return batch.commit(messages)
    with StreamTableCommit(store, commit_user=publication.user, committer=committer, after_commit=after) as stream:
        if replaced is not None:
            return stream.overwrite(messages, identifier, replaced, if_unchanged_since=publication.unchanged_since)
        return stream.commit(messages, identifier)


def find_overtaking(job: WriteJob, committed: CommitResult) -> Snapshot | None:
    """Return the snapshot of another driver that did the same job while this one ran; None where it is our own."""
    if committed.snapshot_id is None or not committed.files:
        return None
    try:
        snapshot = job.store.snapshots.get(committed.snapshot_id)
        return None if holds(job.store, snapshot, job.write_id) else snapshot
    except NotFoundError:  # it expired already, so its files are not known
        return None


def holds(store: TableStore, snapshot: Snapshot, write_id: str) -> bool:
    """Return whether a snapshot is of this write, not of an earlier run of the same job or of another driver."""
    return any(write_id in entry.file.file_name for entry in store.manifests.delta(snapshot))


# ---- jobs that were committed before ---------------------------------------------------------------------------------


def committed_job(store: TableStore, job_id: str, *, run: TaskRunner | None) -> WriteResult | None:
    """Return what an earlier run of a job brought into the table, None where no snapshot is of it."""
    snapshot = snapshot_of_job(store, job_id)
    return None if snapshot is None else earlier_write_result(store, snapshot, run=run)


def snapshot_of_job(store: TableStore, job_id: str) -> Snapshot | None:
    """Return the snapshot that a job committed, None where it committed nothing or its id is no longer remembered."""
    return earlier_of_job(store, job_id)


def earlier_write_result(store: TableStore, snapshot: Snapshot, *, run: TaskRunner | None) -> WriteResult:
    """Return what an earlier run brought into the table, and compact, which it may not have done."""
    return WriteResult(**asdict(earlier_result(store, snapshot, run=run)), method="an earlier run had committed it")

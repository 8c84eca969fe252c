"""One write with tasks: a job and its work in, one snapshot and a result out, or what an earlier run committed.

    [the engine runs tasks that send messages] -> check the messages -> commit once, in this process
    -> compact on the engine's workers

Always holds: a job with an id is committed once, whoever runs it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

from lakewright.commit.committer import Committer
from lakewright.commit.message.message import CommitMessage
from lakewright.commit.table_commit import BatchTableCommit, CommitResult, StreamTableCommit, WriteResult
from lakewright.compact.job import RunTasks, after_commit
from lakewright.distributed.compaction import compacting_on
from lakewright.distributed.job import Answers, Job, JobEnd, Work, Workers, complete_job
from lakewright.distributed.messages import verified_messages
from lakewright.distributed.write_job import Publication
from lakewright.errors import NotFoundError
from lakewright.metadata.store import TableStore
from lakewright.spec.snapshot import Snapshot
from lakewright.write.job_run import earlier_of_job, earlier_result, record_begin
from lakewright.write.reroute import rerouting
from lakewright.write.writer import WriteJob


@dataclass(frozen=True, slots=True)
class _Written:
    """The messages of the tasks of a write, verified."""

    messages: Sequence[CommitMessage]
    tasks: int
    way: str


def write_once(
    workers: Workers[Work], job: WriteJob, work: Work, publication: Publication, *, started: float
) -> WriteResult:
    """Have workers write, commit what they wrote in one snapshot, and let them compact what it touched.

    `started` is when the call began, on the monotonic clock. Where another driver committed the same job meanwhile,
    its result is returned, and what was written here is removed.
    """
    compact = compacting_on(workers)
    if publication.user is not None and publication.identifier is None and publication.once_since is not None:
        record_begin(job.store, publication.user, publication.once_since)
    end = complete_job(
        workers,
        Job(job.store, job.write_id, work),
        partial(_verify, job),
        partial(_publish, job, publication, compact, started),
    )
    return end.result if end.overtaken_by is None else replayed(job.store, end.overtaken_by, run=compact)


def _verify(job: WriteJob, answers: Answers) -> _Written:
    return _Written(verified_messages(job, answers.payloads), len(answers.payloads), answers.way)


def _publish(
    job: WriteJob, publication: Publication, compact: RunTasks, started: float, written: _Written
) -> JobEnd[WriteResult]:
    tasks_ms = {"tasks": (time.monotonic() - started) * 1000}
    committed = _commit(job.store, publication, written.messages, compact, tasks_ms)
    timed = replace(committed, seconds=time.monotonic() - started)
    result = WriteResult(**asdict(timed), tasks=written.tasks, way=written.way)
    return JobEnd(result, None if publication.once_since is None else _overtaken(job, committed))


def _commit(
    store: TableStore,
    publication: Publication,
    messages: Sequence[CommitMessage],
    compact: RunTasks,
    before_ms: Mapping[str, float],
) -> CommitResult:
    committer = Committer(store, commit_user=publication.user, once_since=publication.once_since, sole=True)
    committer.before.join(before_ms)
    after = partial(after_commit, store, run=compact) if store.schema.primary_keys else None
    identifier, replaced = publication.identifier, publication.replaced
    if identifier is None or publication.user is None:
        reroute = rerouting(store)
        with BatchTableCommit(
            store, overwrite=replaced, committer=committer, after_commit=after, reroute=reroute
        ) as batch:
            return batch.commit(messages)
    with StreamTableCommit(store, commit_user=publication.user, committer=committer, after_commit=after) as stream:
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
    except NotFoundError:  # it expired already, so its files are not known
        return None


def holds(store: TableStore, snapshot: Snapshot, write_id: str) -> bool:
    """Say whether a snapshot is of this write, not of an earlier run of the same job or of another driver."""
    return any(write_id in entry.file.file_name for entry in store.manifests.delta(snapshot))


# ---- jobs that were committed before ---------------------------------------------------------------------------------


def committed_job(store: TableStore, job_id: str, *, run: RunTasks | None) -> WriteResult | None:
    """Return what an earlier run of a job brought into the table, None where no snapshot is of it."""
    snapshot = snapshot_of_job(store, job_id)
    return None if snapshot is None else replayed(store, snapshot, run=run)


def snapshot_of_job(store: TableStore, job_id: str) -> Snapshot | None:
    """Return the snapshot that a job committed, None where it committed nothing or its id is no longer remembered."""
    return earlier_of_job(store, job_id)


def replayed(store: TableStore, snapshot: Snapshot, *, run: RunTasks | None) -> WriteResult:
    """Return what an earlier run brought into the table, and compact, which it may not have done."""
    return WriteResult(**asdict(earlier_result(store, snapshot, run=run)), way="an earlier run had committed it")

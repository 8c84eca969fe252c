"""Jobs that commit once, found again by their id.

look for the snapshot of the job -> there is one: its result -> else commit under the user of the job

The look reads the records of the table (`metadata.job_records`), which outlive the snapshots. All runs of a job on one
table commit under one user, so that any of them finds the snapshot of the first. Two runs at the same time may both
look before either commits. So the commit looks again (`Committer.once_since`), and each run stores a unique token in
its snapshot, by which the slower run detects that another run made the snapshot.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from lakewright.commit.committer import Committer
from lakewright.errors import CommitUnknownError, InvalidInputError
from lakewright.metadata.job_records import BegunJob, is_removed
from lakewright.metadata.table_store import TableStore
from lakewright.spec.snapshot import SeenSnapshot, Snapshot
from lakewright.storage.concurrency import CallGroup

_NAMESPACE = uuid.UUID("0b7c5a1e-9f43-4c06-8a52-6f1c3c8e2d94")
_TOKEN = "lakewright.run"  # noqa: S105 - the key of a snapshot property, no secret


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run of a job that commits once."""

    user: str  # the commit user of all runs of the job
    since: SeenSnapshot  # the newest when the run began; the commit looks at all that were published after it
    earlier: Snapshot | None  # the snapshot that an earlier run of the job committed
    token: str  # what this run alone writes into its snapshot
    is_first: bool = True  # no earlier run is recorded, or it is forgotten

    @classmethod
    def begin(cls, store: TableStore, job_id: str) -> JobRun:
        """Begin a run of a job, after looking for the snapshot that an earlier run committed.

        Raises CommitUnknownError if it can no longer be known whether an earlier run committed.
        """
        user, now = user_of_job(store, job_id), time.time_ns() // 1_000_000
        newest, earlier, begun = _look(store, user, job_id, now)
        is_first = begun is None or _is_old(store, begun.time_millis, now)
        return cls(user, SeenSnapshot.of(newest), earlier, str(uuid.uuid4()), is_first)

    @classmethod
    def of(cls, store: TableStore, job_id: str | None) -> JobRun | None:
        """Return the run of a call with a job id; None where it has none."""
        return None if job_id is None else cls.begin(store, job_id)

    def committer(self, store: TableStore) -> Committer:
        """Return a committer that commits this run only if no other run has committed since it began."""
        if self.is_first:
            record_begin(store, self.user, self.since)
        return Committer(store, commit_user=self.user, once_since=self.since, sole=True)

    def properties(self, facts: Mapping[str, object] | None = None) -> dict[str, str]:
        """Return the properties of this run's snapshot: its token, and facts that later runs of the job read."""
        return {_TOKEN: self.token, **{f"lakewright.{key}": str(value) for key, value in (facts or {}).items()}}

    def done_by_another(self, store: TableStore, published: Snapshot | None) -> Snapshot | None:
        """Return the snapshot of the job if another run committed it; None if this run did, or no run did.

        `published` is the snapshot that the commit of this run returned, None if it published nothing.
        """
        snapshot = store.snapshots.of_user(self.user) if published is None else published  # nothing was to commit
        return None if snapshot is None or self.has_committed(snapshot) else snapshot

    def has_committed(self, snapshot: Snapshot) -> bool:
        """Return whether this run committed a snapshot, and not another run of the same job."""
        return snapshot.properties.get(_TOKEN) == self.token


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def user_of_job(store: TableStore, job_id: str) -> str:
    """Return the commit user of a job: the same for every run of it, and another one for every table."""
    if not isinstance(job_id, str) or not job_id or not _is_unicode(job_id):
        raise InvalidInputError(
            f"{store.name}: a job id is a text that names one piece of work, not {job_id!r}", table=store.name
        )
    return str(uuid.uuid5(_NAMESPACE, f"{store.identity}\n{job_id}"))


def record_begin(store: TableStore, user: str, since: SeenSnapshot) -> None:
    """Record that the job of a commit user was begun, before anything is written that it may publish."""
    now = time.time_ns() // 1_000_000
    begun = store.jobs.find_begun(user)
    if begun is None or _is_old(store, begun.time_millis, now):
        store.jobs.begin(BegunJob(user, since, now), again=begun is not None)


def earlier_of_job(store: TableStore, job_id: str) -> Snapshot | None:
    """Return the snapshot that a job committed; None if it committed none, or its id is no longer remembered."""
    return _look(store, user_of_job(store, job_id), job_id, time.time_ns() // 1_000_000)[1]


@dataclass(frozen=True, slots=True)
class JobCommits:
    """The newest snapshot of a table, and the last one that a job which commits again and again has made."""

    newest: Snapshot | None
    last: Snapshot | None  # it may have expired; None: none is known
    is_whole: bool  # no snapshot has expired, so that without `last` the job committed nothing


def find_last_commit(store: TableStore, user: str, job_id: str) -> JobCommits:
    """Return what is known of the commits of a job that commits again and again, each time with another identifier.

    Raises CommitUnknownError if a run was begun and it can no longer be known whether it committed.
    """
    with CallGroup(store.storage) as calls:
        looked = calls.start(store.snapshots.latest)
        recorded = calls.start(partial(store.jobs.find_done, user))
        began = calls.start(partial(store.jobs.find_begun, user))
        newest, done, begun = looked.result(), recorded.result(), began.result()
    if newest is None:
        return JobCommits(None, None, is_whole=True)
    if done is not None and _is_removed(store, newest, done):
        done = None
    oldest, since = newest, None if begun is None else begun.since
    for oldest in store.snapshots.walk_back(newest.id):
        if oldest.commit_user == user:
            return JobCommits(newest, oldest, is_whole=False)
        if SeenSnapshot.of(oldest) == since:
            since = None  # the run that was begun then has not committed
            if done is not None:
                break
    is_whole = oldest.id == 1
    if since is not None and not is_whole:
        raise _unknown(store, user, job_id, since)
    return JobCommits(newest, done, is_whole)


def recorded_batch(store: TableStore, user: str, batch_id: int) -> Snapshot | None:
    """Return the snapshot of a batch of a stream, or of a later one, that is recorded although it has expired."""
    done = store.jobs.find_done(user)
    if done is None or done.commit_identifier < batch_id or _is_removed(store, store.snapshots.latest(), done):
        return None
    return done


def _look(
    store: TableStore, user: str, job_id: str, now: int
) -> tuple[Snapshot | None, Snapshot | None, BegunJob | None]:
    """Return the newest snapshot, the one that the job committed, and the record that the job was begun."""
    with CallGroup(store.storage) as errands:
        looked = errands.start(store.snapshots.latest)
        recorded = errands.start(partial(store.jobs.find_done, user))
        began = errands.start(partial(store.jobs.find_begun, user))
        newest, done, begun = looked.result(), recorded.result(), began.result()
    if done is not None and not _is_old(store, done.time_millis, now) and not _is_removed(store, newest, done):
        return newest, done, begun
    if newest is None:
        return None, None, begun
    if begun is None or _is_old(store, begun.time_millis, now):
        return newest, store.snapshots.of_user(user), begun
    return newest, _find_since(store, user, job_id, begun.since, newest), begun


def _find_since(store: TableStore, user: str, job_id: str, since: SeenSnapshot, newest: Snapshot) -> Snapshot | None:
    """Return the snapshot of a job that was begun after one that was seen, if it committed."""
    searched = 0
    for snapshot in store.snapshots.walk_back(newest.id):
        if SeenSnapshot.of(snapshot) == since:
            return None
        if snapshot.commit_user == user:
            return snapshot
        searched += 1
    if searched == newest.id:
        return None
    raise _unknown(store, user, job_id, since)


def _unknown(store: TableStore, user: str, job_id: str, since: SeenSnapshot) -> CommitUnknownError:
    return CommitUnknownError(
        f"{store.name}: it is unknown whether an earlier run of the job {job_id!r} committed: the snapshots after "
        f"{since.id}, the newest when it began, have expired. Check whether its rows are in the table; if not, run it "
        "under another job id",
        table=store.name,
        user=user,
    )


def _is_old(store: TableStore, millis: int, now: int) -> bool:
    return millis < now - store.options.lakewright_job_id_retention


def _is_removed(store: TableStore, newest: Snapshot | None, recorded: Snapshot) -> bool:
    found = store.snapshots.find(recorded.id)
    return is_removed(newest, found, store.snapshots.ids() if found is None else [], recorded)


def fact(snapshot: Snapshot, key: str) -> str | None:
    """Return a fact that the run which committed a snapshot stored in its properties; None if it stored none."""
    return snapshot.properties.get(f"lakewright.{key}")

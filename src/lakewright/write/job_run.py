"""Jobs that commit once: the id of a job in, what its commit needs, or the snapshot of an earlier run, out.

    look for the snapshot of the job -> there is one: its result -> else commit under the user of the job

All runs of a job on one table commit under one user, so that any of them finds the snapshot of the first. Two runs at
the same time may both look before either commits. So the commit looks again (`Committer.once_since`), and each run
stores a unique token in its snapshot, by which the slower run detects that another run made the snapshot.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from lakewright.commit.committer import Committer
from lakewright.commit.table_commit import CommitResult
from lakewright.compact.job import RunTasks, after_commit
from lakewright.errors import InvalidInputError
from lakewright.metadata.store import TableStore
from lakewright.spec.manifest import ADD
from lakewright.spec.snapshot import SeenSnapshot, Snapshot

_NAMESPACE = uuid.UUID("0b7c5a1e-9f43-4c06-8a52-6f1c3c8e2d94")
_TOKEN = "lakewright.run"  # noqa: S105 - the key of a snapshot property, no secret


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run of a job that commits once."""

    user: str  # the commit user of all runs of the job
    since: SeenSnapshot  # the newest when the run began; the commit looks at all that were published after it
    earlier: Snapshot | None  # the snapshot that an earlier run of the job committed
    token: str  # what this run alone writes into its snapshot

    @classmethod
    def begin(cls, store: TableStore, job_id: str) -> JobRun:
        """Begin a run of a job, after looking for the snapshot that an earlier run committed."""
        user = user_of_job(store, job_id)
        since = SeenSnapshot.of(store.snapshots.latest())
        return cls(user, since, store.snapshots.of_user(user), str(uuid.uuid4()))

    @classmethod
    def of(cls, store: TableStore, job_id: str | None) -> JobRun | None:
        """Return the run of a call with a job id; None where it has none."""
        return None if job_id is None else cls.begin(store, job_id)

    def committer(self, store: TableStore) -> Committer:
        """Return a committer that commits this run only if no other run has committed since it began."""
        return Committer(store, commit_user=self.user, once_since=self.since, sole=True)

    def properties(self, facts: Mapping[str, object] | None = None) -> dict[str, str]:
        """Return the properties of this run's snapshot: its token, and facts that later runs of the job read."""
        return {_TOKEN: self.token, **{f"lakewright.{key}": str(value) for key, value in (facts or {}).items()}}

    def done_by_another(self, store: TableStore, published: Snapshot | None) -> Snapshot | None:
        """Return the snapshot of the job if another run committed it; None if this run did, or no run did.

        `published` is the snapshot that the commit of this run returned, None if it published nothing.
        """
        snapshot = store.snapshots.of_user(self.user) if published is None else published
        return None if snapshot is None or self.made(snapshot) else snapshot

    def made(self, snapshot: Snapshot) -> bool:
        """Say whether this run committed a snapshot, and not another run of the same job."""
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


def fact(snapshot: Snapshot, key: str) -> str | None:
    """Return a fact that the run which committed a snapshot stored in its properties; None if it stored none."""
    return snapshot.properties.get(f"lakewright.{key}")


def earlier_result(store: TableStore, snapshot: Snapshot, *, run: RunTasks | None = None) -> CommitResult:
    """Return the result of an earlier run that committed a snapshot, after compacting, which it may not have done."""
    started = time.monotonic()
    added = [entry for entry in store.manifests.delta(snapshot) if entry.kind == ADD]
    places = frozenset((entry.partition, entry.bucket) for entry in added)
    if places and store.schema.primary_keys:
        after_commit(store, snapshot, places, run=run)
    return CommitResult(
        snapshot.id,
        sum(entry.file.row_count for entry in added),
        len(added),
        sum(entry.file.file_size for entry in added),
        time.monotonic() - started,
        len({partition for partition, _ in places}),
        replayed=True,
    )

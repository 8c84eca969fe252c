"""Records of jobs that commit once: which have begun, and which snapshot each committed (design/0014).

The history of a table tells whether a job was committed only while its snapshot is there. These small files, beside the
snapshots of the branch, remember it for longer: `begun-<job>` names the newest snapshot before the first run of a job,
`done-<job>` is the snapshot that the job committed. Other implementations do not see them.

Invariant: no snapshot up to the one in `begun-<job>` is of the job. Expiry and rollback keep that true.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from lakewright.errors import CorruptTableError
from lakewright.spec.snapshot import MAX_LONG, SeenSnapshot, Snapshot, is_same_commit, snapshot_from_json, to_json
from lakewright.storage.concurrency import map_concurrently
from lakewright.storage.storage import Storage
from lakewright.storage.table_layout import Layout

T = TypeVar("T")

_NAMESPACE = uuid.UUID("2f1b7a52-3c0e-4d6a-9b1f-6f1d0b3f8e77")
_BEGUN, _DONE = "begun-", "done-"


@dataclass(frozen=True, slots=True)
class BegunJob:
    """A job that was begun and is not known to be committed."""

    user: str  # the commit user of its runs
    since: SeenSnapshot  # no snapshot up to this one is of the job
    time_millis: int  # when the record was written


@dataclass(frozen=True, slots=True)
class JobRecords:
    """The records of one branch of a table."""

    storage: Storage
    layout: Layout

    def find_done(self, user: str) -> Snapshot | None:
        """Return the snapshot that the job of a commit user is recorded to have committed."""
        return _read(self.storage, self._path(_DONE, user), _snapshot_of)

    def find_begun(self, user: str) -> BegunJob | None:
        """Return the record that the job of a commit user was begun."""
        return _read(self.storage, self._path(_BEGUN, user), _begun_of)

    def begin(self, job: BegunJob, *, again: bool = False) -> None:
        """Record that a job was begun, unless another run has done so; with `again` write its record anew."""
        path, data = self._path(_BEGUN, job.user), _begun_to_json(job)
        if again:
            self.storage.replace(path, data)
        else:
            self.storage.create(path, data)

    def complete(self, user: str, snapshot: Snapshot, *, is_job: bool = True) -> None:
        """Record the snapshot that a job, or the newest batch of a stream, committed."""
        self.storage.replace(self._path(_DONE, user), to_json(snapshot).encode())
        if is_job:
            self.storage.delete(self._path(_BEGUN, user))

    def all_begun(self, *, expire_before_millis: int = 0) -> list[BegunJob]:
        """Return the jobs that were begun and are not known to be committed; remove records written before a time."""
        infos = list(self.storage.list(self.layout.job_directory))
        for info in infos:
            if info.modified_millis < expire_before_millis and _name(info.path).startswith((_BEGUN, _DONE)):
                with suppress(FileNotFoundError):
                    self.storage.delete(info.path)
        paths = sorted(info.path for info in infos if _name(info.path).startswith(_BEGUN))
        found = map_concurrently(self.storage, lambda path: _read(self.storage, path, _begun_of), paths)
        return [job for job in found if job is not None]

    def forget_removed(self, is_removed: Callable[[Snapshot], bool], since: SeenSnapshot, now_millis: int) -> None:
        """Remove the records of snapshots that were rolled back, so that their jobs can run again.

        Their jobs are begun from then on: a fast-forward may bring the rows of such a snapshot back, also without the
        snapshot itself. No snapshot up to `since` is one of them.
        """
        infos = list(self.storage.list(self.layout.job_directory))
        paths = sorted(info.path for info in infos if _name(info.path).startswith(_DONE))
        found = map_concurrently(self.storage, lambda path: _read(self.storage, path, _snapshot_of), paths)
        for path, snapshot in zip(paths, found, strict=True):
            if snapshot is not None and is_removed(snapshot):
                if snapshot.commit_identifier == MAX_LONG:  # of a job, not of a stream
                    self.begin(BegunJob(snapshot.commit_user, since, now_millis), again=True)
                self.storage.delete(path)

    def _path(self, prefix: str, user: str) -> str:
        return f"{self.layout.job_directory}/{prefix}{uuid.uuid5(_NAMESPACE, user)}"


def is_removed(newest: Snapshot | None, found: Snapshot | None, ids: list[int], recorded: Snapshot) -> bool:
    """Return whether a recorded snapshot was rolled back; one that expired was not.

    `found` is what has its id now, and `ids` are those of all snapshots.
    """
    if newest is None or newest.id < recorded.id:
        return True
    if found is not None:
        return not is_same_commit(found, recorded)
    return not ids or ids[0] < recorded.id  # expiry removes the oldest first


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _read(storage: Storage, path: str, parse: Callable[[bytes, str], T]) -> T | None:
    try:
        return parse(storage.read(path), path)
    except FileNotFoundError:
        return None


def _snapshot_of(data: bytes, path: str) -> Snapshot:
    return snapshot_from_json(data, path=path)


def _begun_to_json(job: BegunJob) -> bytes:
    since = [job.since.id, job.since.base_manifest_list, job.since.delta_manifest_list]
    return json.dumps({"version": 1, "user": job.user, "since": since, "timeMillis": job.time_millis}).encode()


def _begun_of(data: bytes, path: str) -> BegunJob:
    try:
        members = json.loads(data)
        number, base, delta = members["since"]
        user, millis = members["user"], members["timeMillis"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged_record(path) from error
    texts, numbers = (user, base, delta), (number, millis)
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(one, int) for one in numbers):
        raise _damaged_record(path)
    return BegunJob(user, SeenSnapshot(number, base, delta), millis)


def _damaged_record(path: str) -> CorruptTableError:
    return CorruptTableError(
        f"{path} cannot be read as the record of a job; look whether the job was committed, then delete the file",
        path=path,
    )

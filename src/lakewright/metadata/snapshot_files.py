"""Snapshot files, hints, changelogs.

Only the snapshot files decide which snapshots exist, and the newest is the one with the highest id. The hints `LATEST`
and `EARLIEST` may be empty, missing, too old or too new, and are written for readers that use them. A snapshot file
that is empty or cut short may still be being written by a writer that does not create it in one step, so it is read
again before it is reported as damaged.

Where a server owns the history, it alone says which snapshot is the newest: a file with a higher id belongs to a
snapshot that was rolled back.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from lakewright.errors import CorruptTableError, NotFoundError
from lakewright.metadata.authority import SnapshotAuthority
from lakewright.spec.snapshot import MIN_LONG, Snapshot, is_same_commit, snapshot_from_json
from lakewright.storage.concurrency import CallGroup
from lakewright.storage.storage import Storage
from lakewright.storage.table_layout import Layout, parse_numbered_names

_HINT_BYTES = 64  # a number of 64 bits has at most 20
HINT_READS_MAX = 3
HINT_WAIT_SECONDS = 0.001
BODY_READS_MAX = 10
BODY_WAIT_SECONDS = 0.2
EXPIRY_STEPS_MAX = 300  # how many snapshots may expire while the oldest is being opened
IDS_PER_SECOND_MAX = 1000  # more snapshots than any remote store creates one after the other
_LAST_SEEN_MAX = 4096
LATEST_LOOKS_MAX = 5  # how often a rollback may remove the newest snapshot while it is being opened

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Seen:
    """The newest snapshot that this process saw, which it was at some time: what to ask for early, not to believe."""

    snapshot_id: int
    began: float  # of the clock that never goes back


_last_seen: dict[str, _Seen] = {}  # by the directory


@dataclass(frozen=True, slots=True)
class SnapshotFiles:
    """The snapshots of one branch of a table."""

    storage: Storage
    layout: Layout
    owner: SnapshotAuthority | None = None  # None: the files decide
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False, compare=False)

    def latest(self) -> Snapshot | None:
        """Return the newest snapshot, None for a table that was never written."""
        if self.owner is not None:
            return self.owner.latest()
        for _ in range(LATEST_LOOKS_MAX):
            began = time.monotonic()
            newest, snapshot = self._look(self.find)
            if newest is None and self._hint(self.layout.latest_hint) is None:
                return None
            if newest is not None and (snapshot := snapshot or self.find(newest)) is not None:
                self._saw(newest, began)
                return snapshot
            if newest is None:
                # Of a rollback and an expiry at work, each may have removed the snapshot that the other one kept; the
                # rollback puts it back.
                self.sleep(HINT_WAIT_SECONDS)
        if newest is None:
            return None
        path = self.layout.snapshot_directory
        raise NotFoundError(f"the newest snapshot in {path} was removed again and again; try again later", path=path)

    def latest_id(self) -> int | None:
        """Return the id of the newest snapshot, None for a table that was never written."""
        if self.owner is not None:
            newest = self.owner.latest()
            return None if newest is None else newest.id
        began = time.monotonic()
        newest_id, _ = self._look(self.exists)
        if newest_id is not None:
            self._saw(newest_id, began)
        return newest_id

    def _look(self, ask: Callable[[int], T]) -> tuple[int | None, T | None]:
        """Return the highest id that exists, and the answer to a call about it if that was asked for early.

        Only a listing finds it. A file that exists below a gap may be of a snapshot that was rolled back, or that was
        published too late, so neither the hint nor an id that has no successor tells. On remote stores the snapshot
        that this process saw last is asked for beside the listing, because it mostly still is the newest.
        """
        if self.storage.requests_at_once > 1 and (seen := _last_seen.get(self.layout.snapshot_directory)) is not None:
            with CallGroup(self.storage) as errands:
                listed = errands.start(partial(self._highest, self._name_before(seen.snapshot_id)))
                answer = errands.start(partial(ask, seen.snapshot_id))
                newest = listed.result()
                if newest is not None and newest > seen.snapshot_id:
                    return newest, None
                if found := answer.result():
                    return seen.snapshot_id, found
        return self._highest(""), None

    def ids_above(self, snapshot_id: int) -> list[int]:
        """Return the ids that exist and are higher than one, in order."""
        names = self.storage.names(self.layout.snapshot_directory, after=self._name_before(snapshot_id))
        return [found for found in parse_numbered_names(names, "snapshot-") if found > snapshot_id]

    def hinted_earliest(self) -> int | None:
        """Return the id in the hint EARLIEST, None where there is none."""
        return self._hint(self.layout.earliest_hint)

    def _name_before(self, snapshot_id: int) -> str:
        """Return a name after which the names of all higher ids come; empty, the first name, where none is known.

        `snapshot-10` comes before `snapshot-9`: so only while no id of more digits can exist yet.
        """
        seen = _last_seen.get(self.layout.snapshot_directory)
        if seen is None:
            return ""
        possible = seen.snapshot_id + IDS_PER_SECOND_MAX * (1 + time.monotonic() - seen.began)
        return f"snapshot-{snapshot_id}" if possible < 10 ** len(str(snapshot_id)) else ""

    def expect(self, snapshot_id: int) -> None:
        """Let the next look for the newest snapshot ask for this one early: it has been created."""
        self._saw(snapshot_id)

    def _highest(self, after: str) -> int | None:
        ids = parse_numbered_names(self.storage.names(self.layout.snapshot_directory, after=after), "snapshot-")
        return ids[-1] if ids else None

    def _saw(self, snapshot_id: int, began: float | None = None) -> None:
        """Remember the newest snapshot, and when it was known to be that: `began`, or as the one before it."""
        if self.storage.requests_at_once > 1:
            if len(_last_seen) >= _LAST_SEEN_MAX:
                _last_seen.clear()
            directory = self.layout.snapshot_directory
            if began is None:
                before = _last_seen.get(directory)
                began = -math.inf if before is None else before.began
            _last_seen[directory] = _Seen(snapshot_id, began)

    def earliest(self) -> Snapshot | None:
        """Return the oldest snapshot, None for a table that was never written."""
        oldest = self.earliest_id()
        if oldest is None:
            return None
        for snapshot_id in range(oldest, oldest + EXPIRY_STEPS_MAX):
            # An expiry may be running: it removes the oldest snapshots first.
            with suppress(FileNotFoundError):
                return self._read(snapshot_id)
        raise self._missing(oldest)

    def earliest_id(self) -> int | None:
        """Return the id of the oldest snapshot, None for a table that was never written."""
        return min(self.ids(), default=None)

    def exists(self, snapshot_id: int) -> bool:
        """Return whether there is a snapshot of this id."""
        return self.storage.exists(self.layout.snapshot_file(snapshot_id))

    def ids(self) -> list[int]:
        """Return the ids of all snapshots, in order."""
        ids = parse_numbered_names(self.storage.names(self.layout.snapshot_directory), "snapshot-")
        if self.owner is None or not ids:
            return ids
        newest = self.latest_id() or 0
        return [snapshot_id for snapshot_id in ids if snapshot_id <= newest]

    def get(self, snapshot_id: int) -> Snapshot:
        """Return one snapshot."""
        try:
            return self._read(snapshot_id)
        except FileNotFoundError as error:
            raise self._missing(snapshot_id) from error

    def find(self, snapshot_id: int) -> Snapshot | None:
        """Return one snapshot, None where there is none of this id."""
        with suppress(FileNotFoundError):
            return self._read(snapshot_id)
        return None

    def holds(self, snapshot: Snapshot) -> bool:
        """Return whether this very snapshot is there, and not another one that got its id after a rollback."""
        found = self.find(snapshot.id)
        return found is not None and is_same_commit(found, snapshot)

    def walk_back(self, from_id: int) -> Iterator[Snapshot]:
        """Yield the snapshot of this id and those before it, newest first.

        Ids may be missing in between: a rollback removes snapshots, and a commit may happen while it does so.
        """
        snapshot_id = from_id
        while snapshot_id > 0:
            try:
                yield self._read(snapshot_id)
                snapshot_id -= 1
            except FileNotFoundError:
                older = bisect_left(ids := self.ids(), snapshot_id)
                if not older:
                    return
                snapshot_id = ids[older - 1]

    def of_user(self, user: str) -> Snapshot | None:
        """Return the newest snapshot that this user committed, None if there is none."""
        newest = self.latest_id()
        if newest is None:
            return None
        return next((snapshot for snapshot in self.walk_back(newest) if snapshot.commit_user == user), None)

    def at_timestamp(self, millis: int) -> Snapshot:
        """Return the newest snapshot that was committed at this time or before."""
        ids = self.ids()
        # An expired id counts as old enough; if it is chosen, `get` says that it expired.
        place = bisect_left(ids, True, key=lambda snapshot_id: self._time(snapshot_id) > millis)  # noqa: FBT003
        if place:
            return self.get(ids[place - 1])
        if not ids:
            raise NotFoundError(f"{self.layout.root} has no snapshot at all", path=self.layout.root)
        earliest = self.get(ids[0])
        raise NotFoundError(
            f"No snapshot found with timestamp earlier than or equal to {millis}ms ({_instant(millis)}) in "
            f"{self.layout.root}; the earliest, {earliest.id}, is of {_instant(earliest.time_millis)} "
            f"({earliest.time_millis})",
            path=self.layout.root,
            earliest_millis=earliest.time_millis,
        )

    def at_watermark(self, watermark: int) -> Snapshot:
        """Return the oldest snapshot whose watermark has reached this one."""
        highest: int | None = None
        for snapshot_id in self.ids():
            with suppress(FileNotFoundError):
                snapshot = self._read(snapshot_id)
                reached = snapshot.watermark
                if reached is None or reached == MIN_LONG:
                    continue
                if reached >= watermark:
                    return snapshot
                highest = reached
        raise NotFoundError(
            f"No snapshot found with watermark greater than or equal to {watermark} in {self.layout.root}; the highest "
            f"is {highest}",
            path=self.layout.root,
            highest_watermark=highest,
        )

    def up_to_watermark(self, watermark: int) -> Snapshot:
        """Return the newest snapshot whose watermark is not above this one; one without a watermark does not count."""
        for snapshot_id in reversed(self.ids()):
            found = self.find(snapshot_id)
            if found is not None and found.watermark not in {None, MIN_LONG} and (found.watermark or 0) <= watermark:
                return found
        raise NotFoundError(
            f"No snapshot found with watermark earlier than or equal to {watermark} in {self.layout.root}",
            path=self.layout.root,
        )

    def write_latest_hint(self, snapshot_id: int) -> None:
        """Tell other readers where to look first. A hint decides nothing, so a failure to write it is not an error.

        Where a server owns the history, hints are its own.
        """
        if self.owner is not None:
            return
        self._saw(snapshot_id)
        with suppress(OSError):
            self.storage.replace(self.layout.latest_hint, b"%d" % snapshot_id, durable=False)

    def write_earliest_hint(self, snapshot_id: int) -> None:
        """Tell readers which snapshot is the oldest; the same holds as for the latest."""
        if self.owner is not None:
            return
        with suppress(OSError):
            self.storage.replace(self.layout.earliest_hint, b"%d" % snapshot_id, durable=False)

    def _hint(self, path: str) -> int | None:
        """Return the number in a hint. A writer may be replacing it, so it is read again where there is none."""
        # An object is replaced at once, so there one look is enough.
        for attempt in range(HINT_READS_MAX if self.storage.renames_atomically else 1):
            if attempt:
                self.sleep(HINT_WAIT_SECONDS)
            with suppress(FileNotFoundError):
                text = self._hint_text(path).strip()
                if text.isdigit() and len(text) < 20:  # noqa: PLR2004 - the digits of a 64-bit number
                    return int(text)
        return None

    def _hint_text(self, path: str) -> bytes:
        """Return the beginning of a hint: what is no hint is not read whole, however large it is."""
        with self.storage.open_input(path, end_bytes=_HINT_BYTES) as file:
            return file.read(_HINT_BYTES)

    def _read(self, snapshot_id: int) -> Snapshot:
        path = self.layout.snapshot_file(snapshot_id)
        data = self.storage.read(path)
        for _ in range(BODY_READS_MAX):
            if not _looks_cut(data):
                break
            self.sleep(BODY_WAIT_SECONDS)
            data = self.storage.read(path)
        snapshot = snapshot_from_json(data, path=path)
        if snapshot.id != snapshot_id:
            raise CorruptTableError(f"{path} is the file of snapshot {snapshot.id}; restore it from a copy", path=path)
        return snapshot

    def _time(self, snapshot_id: int) -> int:
        try:
            return self._read(snapshot_id).time_millis
        except FileNotFoundError:
            return MIN_LONG

    def _missing(self, snapshot_id: int) -> NotFoundError:
        """Return the error for a snapshot that does not exist, with the reason."""
        ids = self.ids()
        if not ids:
            why = "the table has no snapshot"
        elif snapshot_id < 1 or snapshot_id > ids[-1]:
            why = f"it never existed; the newest is {ids[-1]}"
        else:
            why = f"it has expired; the earliest that is left is {next((i for i in ids if i > snapshot_id), ids[-1])}"
        return NotFoundError(
            f"Snapshot id '{snapshot_id}' doesn't exist in {self.layout.root}: {why}",
            path=self.layout.snapshot_file(snapshot_id),
            snapshot_id=snapshot_id,
        )


@dataclass(frozen=True, slots=True)
class Changelogs:
    """The expired snapshots of one branch of a table that are kept in `changelog/` for their changelog files.

    Of such a snapshot only the changelog manifest list and the files it names still exist; its data files are removed.
    """

    storage: Storage
    layout: Layout

    def ids(self) -> list[int]:
        """Return the ids of all long-lived changelogs, in order."""
        names = (info.path.rpartition("/")[2] for info in self.storage.list(self.layout.changelog_directory))
        return parse_numbered_names(names, "changelog-")

    def find(self, snapshot_id: int) -> Snapshot | None:
        """Return the snapshot of a long-lived changelog, None where there is none of this id."""
        path = self.layout.changelog_file(snapshot_id)
        try:
            snapshot = snapshot_from_json(self.storage.read(path), path=path)
        except FileNotFoundError:
            return None
        if snapshot.id != snapshot_id:
            raise CorruptTableError(f"{path} is the file of snapshot {snapshot.id}; restore it from a copy", path=path)
        return snapshot


def run_start(ids: list[int]) -> int:
    """Return the id at which the run begins that ends at the highest of some ids: those below it are below a gap."""
    start = ids[-1] if ids else 0
    for snapshot_id in reversed(ids[:-1]):
        if snapshot_id != start - 1:
            break
        start = snapshot_id
    return start


def _looks_cut(data: bytes) -> bool:
    return not data.rstrip().endswith(b"}")


def _instant(millis: int) -> str:
    try:
        return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(millis)

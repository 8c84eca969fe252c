"""Whether a commit was published before.

- The commit user of a batch is derived from the write ids of its messages; a stream has a user of its own. User,
  identifier and kind, together with the names of the files, identify a commit.
- Messages name a snapshot that was the newest before they were complete. Only later snapshots can be their commit, and
  those are read by id: no clock decides. Where that snapshot is gone, the outcome is known only if the whole history
  from the first snapshot on is there; else `CommitUnknownError` is raised.
- Where the same work may run again and write other files (a job with an id, a batch of a stream), user and identifier
  alone identify it. Who starts such work looks for it first, and the search begins at the snapshot of that look.
- The manifest of the new files (without any, that of the index) has a name derived from the same facts, the marker, and
  is written before the snapshot is published. It shows that other snapshots than those of the same user have to be
  compared by their files, and keeps `abort` from deleting files that another process may be committing.
- Messages of other implementations name no snapshot. If there is no marker and their files are young, they were not
  committed before; otherwise all snapshots are searched.

Invariant: snapshots up to the base of an attempt were searched or cannot be the commit, and no later snapshot exists
if the attempt succeeds, because it creates `base + 1`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias

from lakewright.commit.commit_changes import Change, origin_name, written_files
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.commit_plan import CommitRequest, PartitionSelection, live_files
from lakewright.errors import CommitConflictError, CommitUnknownError, InvalidMessageError
from lakewright.metadata.table_store import TableStore
from lakewright.spec.manifest import ADD, DELETE, ManifestEntry
from lakewright.spec.snapshot import CommitKind, SeenSnapshot, Snapshot, state_of
from lakewright.storage.concurrency import map_concurrently

_Trace: TypeAlias = tuple[int, str, int | None]  # added or deleted, the file's name, its level where that matters

_NAMESPACE = uuid.UUID("6d2c1f0e-58a4-4f0b-9d57-0d6e1f7c3b52")
_YOUNG_MILLIS = 10 * 60 * 1000
_BLOCK = 64  # snapshots that are read at a time


def batch_user(messages: Sequence[CommitMessage]) -> str | None:
    """Return the commit user of a batch, the same in every process; None if nothing identifies the batch."""
    identity = _write_ids(messages) or sorted(f.file_name for m in messages for f in written_files(m))
    return str(uuid.uuid5(_NAMESPACE, "\n".join(("user", *identity)))) if identity else None


def marker_of(messages: Sequence[CommitMessage], identifier: int, change: Change, kind: str) -> str:
    """Return the uuid in the name of the manifest of the new files."""
    identity = _write_ids(messages) or sorted(change.added_names)
    return str(uuid.uuid5(_NAMESPACE, "\n".join(("manifest", str(identifier), kind, *identity))))


def is_marked(store: TableStore, change: Change, marker: str) -> bool:
    """Return whether any process wrote the manifest of the new files, or of the new index files."""
    if not change.entries and not change.index:
        return False
    kind = "manifest" if change.entries else "index-manifest"
    return store.storage.exists(store.layout.manifest_file(f"{kind}-{marker}-0"))


def first_seen(messages: Sequence[CommitMessage]) -> SeenSnapshot | None:
    """Return the snapshot after which the messages were complete: the oldest that they name; None if one names none."""
    seen = [message.seen for message in messages]
    known = [mark for mark in seen if mark is not None]
    return min(known, key=lambda mark: mark.id) if known and len(known) == len(seen) else None


def is_published(
    store: TableStore, names: frozenset[str], partitions: frozenset[bytes], seen: SeenSnapshot | None
) -> bool:
    """Return whether a snapshot after the one that was seen names one of the data, changelog or index files."""
    manifests = store.manifests
    oldest: Snapshot | None = None
    for oldest in store.snapshots.walk_back(store.snapshots.latest_id() or 0):
        if SeenSnapshot.of(oldest) == seen:
            return False
        index = [] if oldest.index_manifest is None else manifests.read_index(oldest.index_manifest)
        added = {name for e in (*manifests.delta(oldest), *manifests.changelog(oldest)) for name in _files_of(e)}
        if not names.isdisjoint(added | {e.file.file_name for e in index}):
            return True
    if seen is not None and oldest is not None and oldest.id > 1:
        return True  # unknown: a snapshot that has expired may have published them
    live = [] if oldest is None else live_files(store, oldest, PartitionSelection(partitions=partitions))
    return any(name in names for e in live for name in _files_of(e))


def _files_of(entry: ManifestEntry) -> tuple[str, ...]:
    return (entry.file.file_name, origin_name(entry.file.file_name), *entry.file.extra_files)


@dataclass(slots=True)
class CommitSearch:
    """Looks for the snapshot of one intent, each snapshot once."""

    store: TableStore
    intent: CommitRequest
    now_millis: int
    claim: Callable[[], bool] | None = None  # writes the marker, True if it did not exist; None: only look for it
    tried: set[tuple[str, str]] = field(default_factory=set)  # the manifest lists of snapshots that were handed in
    since: SeenSnapshot | None = field(init=False)  # no snapshot up to this one is the commit; None: not known
    _marked: bool | None = None  # the marker was written before; None: not looked at yet

    def __post_init__(self) -> None:
        self.since = self.intent.seen if self.intent.once_since is None else self.intent.once_since

    @property
    def is_first(self) -> bool:
        """True if no commit of the same messages was tried before this one, as far as their marker shows."""
        return self._marked is False

    def skip(self, base: Snapshot | None, *, is_first: bool) -> None:
        """Take note of a base up to which the commit cannot have been published; the first time, write the marker."""
        self.since = SeenSnapshot.of(base)
        if is_first and self.claim is not None:
            self._marked = not self.claim()

    def find(self, base: Snapshot | None) -> Snapshot | None:
        """Return the snapshot that published the commit, if it is the base or an earlier one.

        The base must be read before the call: what is published after that competes with this commit for the next id.
        """
        since, self.since = self.since, SeenSnapshot.of(base)
        if since is None:
            self._marked = False  # unless the search below finds a marker; later attempts do not write it again
            return None if base is None else self._search_all(base)
        if self.intent.once_since is None and self._marked is None:
            self._marked = not self.claim() if self.claim is not None else None
        if since == self.since:
            return None
        if base is None:
            raise self._unknown(f"the table has no snapshot any more, and had snapshot {since.id} before")
        return self._search_since(since, base)

    def _search_since(self, since: SeenSnapshot, base: Snapshot) -> Snapshot | None:
        """Search the snapshots after one that was seen; where that is gone, all that there are."""
        if self._marked is None:
            self._marked = self.intent.once_since is None and is_marked(
                self.store, self.intent.change, self.intent.marker
            )
        ids = range(max(since.id, 1), base.id + 1)
        for start in range(0, len(ids), _BLOCK):
            block = ids[start : start + _BLOCK]
            found = map_concurrently(self.store.storage, lambda number: self._read(number, base), block)
            for number, snapshot in zip(block, found, strict=True):
                if snapshot is None or (number == since.id and SeenSnapshot.of(snapshot) != since):
                    return self._search_rest(since, base)
                if number > since.id:
                    self._refuse_another(snapshot)
                    if self._is_published_by(snapshot):
                        return snapshot
        return None if ids else self._search_rest(since, base)

    def _search_rest(self, since: SeenSnapshot, base: Snapshot) -> Snapshot | None:
        """Search all snapshots that there are; raise CommitUnknownError if one that may be the commit is gone."""
        searched, known = 0, {since}
        if self.intent.once_since is not None and (begun := self.store.jobs.find_begun(self.intent.user)) is not None:
            known.add(begun.since)  # an expiry has looked at what it removed
        for snapshot in self.store.snapshots.walk_back(base.id):
            if SeenSnapshot.of(snapshot) in known:
                return None  # expiry removes the oldest first, so that none between was removed by it
            self._refuse_another(snapshot)
            if self._is_published_by(snapshot):
                return snapshot
            searched += 1
        if searched == base.id:  # the whole history, from the first snapshot on
            return None
        raise self._unknown(
            f"snapshot {since.id}, after which it was prepared, has expired or was rolled back"
            if since.id
            else "the table had no snapshot when it was prepared, and the first ones have expired"
        )

    def _read(self, number: int, base: Snapshot) -> Snapshot | None:
        return base if number == base.id else self.store.snapshots.find(number)

    def _is_published_by(self, snapshot: Snapshot) -> bool:
        """Return whether a snapshot is the commit; raise InvalidMessageError if it committed a part of the files."""
        if self._is_ours(snapshot) or (self._marked and self.holds(snapshot)):
            return True
        names = _names(self.intent.change, adds_only=self.intent.replaced is not None) if self._marked else frozenset()
        shared = names & self._names_in(snapshot) if names else frozenset()
        if any(kind == ADD for kind, _, _ in shared):
            raise self._partly_committed(snapshot, shared)
        return False

    def _refuse_another(self, snapshot: Snapshot) -> None:
        """Raise CommitConflictError if the commit must be the only one of its user and a later snapshot is another."""
        intent, since = self.intent, self.intent.once_since
        is_later = intent.only_run and since is not None and snapshot.id > since.id
        if is_later and snapshot.commit_user == intent.user and snapshot.commit_identifier != intent.identifier:
            raise CommitConflictError(
                f"{self.store.name}: another run of the same job committed number {snapshot.commit_identifier} in "
                f"snapshot {snapshot.id} after this run had begun; this run published nothing, run it again",
                table=self.store.name,
                snapshot_id=snapshot.id,
                user=intent.user,
            )

    def _search_all(self, base: Snapshot) -> Snapshot | None:
        """Search every snapshot for messages that do not say when they were made, unless no marker shows an attempt."""
        created = [e.file.creation_time for e in self.intent.change.entries if e.kind == ADD]
        young = are_young(created, self.now_millis)
        if young and self.claim is not None:
            self._marked = not self.claim()
        else:
            self._marked = is_marked(self.store, self.intent.change, self.intent.marker)
        if young and not self._marked:
            return None
        oldest = base
        for snapshot in self.store.snapshots.walk_back(base.id):
            oldest = snapshot
            if self._is_published_by(snapshot):
                return snapshot
        if oldest.id > 1:
            ours = _names(self.intent.change, adds_only=self.intent.replaced is not None)
            self._search_expired(oldest, ours)
        return None

    def _search_expired(self, oldest: Snapshot, ours: frozenset[_Trace]) -> None:
        """Raise if an expired snapshot published the files: then they are live in the oldest one that is left."""
        live = live_files(self.store, oldest, PartitionSelection(partitions=self.intent.change.partitions))
        if any(trace in ours for e in live for trace in _traces(e)):
            raise self._unknown("a snapshot that has expired added these files already; do not commit them again")

    def _is_ours(self, snapshot: Snapshot) -> bool:
        if state_of(snapshot) in self.tried:
            return True
        intent = self.intent
        if intent.once_since is not None:
            compacts = CommitKind.COMPACT in {snapshot.commit_kind, intent.kind}
            named = (snapshot.commit_user, snapshot.commit_identifier) == (intent.user, intent.identifier)
            return named and (snapshot.commit_kind is intent.kind or not compacts)
        key = (snapshot.commit_user, snapshot.commit_identifier, snapshot.commit_kind)
        if key != (intent.user, intent.identifier, intent.kind):
            return False
        # One batch write may be committed in several parts under one user, so that the files decide.
        return self.holds(snapshot)

    def holds(self, snapshot: Snapshot) -> bool:
        """Return whether a snapshot made the changes of the intent."""
        change, overwrites = self.intent.change, self.intent.replaced is not None
        if not _names(change, adds_only=overwrites) <= self._names_in(snapshot):
            return False
        added = {e.file.file_name for e in change.index if e.kind == ADD}
        if not added:
            return True
        if snapshot.index_manifest is None:
            return False
        return added <= {e.file.file_name for e in self.store.manifests.read_index(snapshot.index_manifest)}

    def _names_in(self, snapshot: Snapshot) -> frozenset[_Trace]:
        entries = self.store.manifests.delta(snapshot)
        gone = {e.file.file_name for e in entries if e.kind == DELETE}
        # A compaction that upgrades a file names it again without having published it: only the levels differ.
        upgraded = gone & {e.file.file_name for e in entries if e.kind == ADD}
        return frozenset(trace for e in entries for trace in _traces(e)[e.file.file_name in upgraded :])

    def _partly_committed(self, snapshot: Snapshot, shared: frozenset[_Trace]) -> InvalidMessageError:
        files = tuple(sorted({name for _, name, _ in shared}))
        return InvalidMessageError(
            f"{self.store.name}: {len(files)} of the new files were committed by snapshot {snapshot.id} already "
            f"({files[0]}, ...); commit only the messages that are new",
            table=self.store.name,
            snapshot_id=snapshot.id,
            files=files,
        )

    def _unknown(self, why: str) -> CommitUnknownError:
        with suppress(OSError):
            self.store.check_same_table()  # raises for a table that has the place of the one that was written
        intent = self.intent
        return CommitUnknownError(
            f"{self.store.name}: it is unknown whether the commit {intent.identifier} of user {intent.user} "
            f"({intent.kind}) happened: {why}; delete none of its files",
            table=self.store.name,
            user=intent.user,
            identifier=intent.identifier,
            kind=intent.kind,
        )


def _names(change: Change, *, adds_only: bool) -> frozenset[_Trace]:
    """Return the traces that a change leaves in the snapshot that publishes it.

    An upgrade deletes and adds the same name, as do the commits that make the file and that delete it, so its trace has
    the level. Other traces leave the level out: an overwrite chooses it by options that may change.
    """
    gone = {e.file.file_name for e in change.entries if e.kind == DELETE}
    upgraded = gone & change.added_names
    return frozenset(_traces(e)[e.file.file_name in upgraded] for e in change.entries if e.kind == ADD or not adds_only)


def _traces(entry: ManifestEntry) -> tuple[_Trace, _Trace]:
    """Return the traces of an entry, without and with its level; a renumbered file has the name of its original."""
    name = origin_name(entry.file.file_name)
    return (entry.kind, name, None), (entry.kind, name, entry.file.level)


def _write_ids(messages: Sequence[CommitMessage]) -> list[str]:
    ids = {m.write_id for m in messages}
    return sorted(i for i in ids if i) if all(ids) else []


def are_young(created: Iterable[int | None], now_millis: int) -> bool:
    """Return whether all files were written just now, by any reading of the wall clock that made their times."""
    offset = datetime.fromtimestamp(now_millis / 1000, UTC).astimezone().utcoffset()
    local = now_millis + (0 if offset is None else int(offset.total_seconds() * 1000))
    return all(time is not None and min(abs(now_millis - time), abs(local - time)) <= _YOUNG_MILLIS for time in created)

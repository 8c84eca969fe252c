"""Whether a commit was published before: an intent in, its snapshot or None out. Committing twice must do no harm.

How a replay is told apart from a new commit, at the cost of one request:

- The commit user of a batch is made from the write ids of its messages; a stream has a user of its own. User,
  identifier and kind, together with the names of the files, identify a commit.
- Where the same work may run again and write other files (a job with an id, a batch of a stream), user and identifier
  alone identify it. Who starts such work looks for it first. Snapshots published after that are searched here, before
  every attempt, so that of two drivers at work one commits and the other finds that commit.
- The manifest of the new files (without any, that of the index) has a name made from the same facts, the marker, and is
  written before the snapshot is published. If there is no such manifest and the files are young, nobody has published
  these messages. An append writes it at this point, so that one request both asks and writes.
- If it exists, or if the files are so old that a manifest may have been deleted since, the snapshots are searched.

Always holds: snapshots up to the base of an attempt were searched or cannot be the commit, and no later snapshot exists
if the attempt succeeds, because it creates `base + 1`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias

from lakewright.commit.changes import Change, origin_name, written_files
from lakewright.commit.message.message import CommitMessage
from lakewright.commit.overwrite import PartitionSelection
from lakewright.commit.plan import Intent, live_files_in
from lakewright.errors import CommitUnknownError, InvalidMessageError, NotFoundError
from lakewright.metadata.store import TableStore
from lakewright.spec.manifest import ADD, DELETE, ManifestEntry
from lakewright.spec.snapshot import CommitKind, Snapshot, is_same_state, state_of

_Trace: TypeAlias = tuple[int, str, int | None]  # added or deleted, the file's name, its level where that matters

_NAMESPACE = uuid.UUID("6d2c1f0e-58a4-4f0b-9d57-0d6e1f7c3b52")
_YOUNG_MILLIS = 10 * 60 * 1000
_CLOCK_SLACK_MILLIS = 26 * 60 * 60 * 1000  # creation times are wall clocks of any zone, plus an hour or so of skew


def batch_user(messages: Sequence[CommitMessage]) -> str | None:
    """Return the commit user of a batch, the same in every process; None if nothing identifies the batch."""
    identity = _write_ids(messages) or sorted(f.file_name for m in messages for f in written_files(m))
    return str(uuid.uuid5(_NAMESPACE, "\n".join(("user", *identity)))) if identity else None


def marker_of(messages: Sequence[CommitMessage], identifier: int, change: Change, kind: str) -> str:
    """Return the uuid in the name of the manifest of the new files."""
    identity = _write_ids(messages) or sorted(change.added_names)
    return str(uuid.uuid5(_NAMESPACE, "\n".join(("manifest", str(identifier), kind, *identity))))


def is_marked(store: TableStore, change: Change, marker: str) -> bool:
    """Say whether any process wrote the manifest of the new files, or of the new index files."""
    if not change.entries and not change.index:
        return False
    kind = "manifest" if change.entries else "index-manifest"
    return store.storage.exists(store.layout.manifest_file(f"{kind}-{marker}-0"))


def is_published(store: TableStore, names: frozenset[str], partitions: frozenset[bytes], since_millis: int) -> bool:
    """Say whether any snapshot since a time names one of the files: of data, of changelogs or of indexes."""
    manifests = store.manifests
    oldest: Snapshot | None = None
    for oldest in store.snapshots.walk_back(store.snapshots.latest_id() or 0):
        index = [] if oldest.index_manifest is None else manifests.read_index(oldest.index_manifest)
        added = {name for e in (*manifests.delta(oldest), *manifests.changelog(oldest)) for name in _files_of(e)}
        if not names.isdisjoint(added | {e.file.file_name for e in index}):
            return True
        if oldest.time_millis < since_millis:
            break  # messages may give wrong times, so the live files are read below all the same
    live = [] if oldest is None else live_files_in(store, oldest, PartitionSelection(partitions=partitions))
    return any(name in names for e in live for name in _files_of(e))


def _files_of(entry: ManifestEntry) -> tuple[str, ...]:
    return (entry.file.file_name, origin_name(entry.file.file_name), *entry.file.extra_files)


@dataclass(slots=True)
class CommitSearch:
    """Looks for the snapshot of one intent, each snapshot once."""

    store: TableStore
    intent: Intent
    now_millis: int
    claim: Callable[[], bool] | None = None  # writes the marker, True if it did not exist; None: only look for it
    tried: set[tuple[str, str]] = field(default_factory=set)  # the manifest lists of snapshots that were handed in
    looked_up_to: int | None = None
    looked_at: Snapshot | None = None  # the base of the last look

    def find(self, base: Snapshot | None, seen: Sequence[Snapshot] = ()) -> Snapshot | None:
        """Return the snapshot that published the commit, if it is the base or an earlier one.

        Snapshots in `seen` are not read again. The base must be read before the call: what is published after that
        competes with this commit for the next id.
        """
        looked = None if self._went_back(base) else self.looked_up_to
        self.looked_up_to, self.looked_at = 0 if base is None else base.id, base
        if base is None:
            return None
        if looked is None:
            return self._search_all(base)
        known = {snapshot.id: snapshot for snapshot in (*seen, base)}
        for snapshot_id in range(looked + 1, base.id + 1):
            try:
                snapshot = known.get(snapshot_id) or self.store.snapshots.get(snapshot_id)
            except NotFoundError as expired:
                raise self._unknown(f"snapshot {snapshot_id} expired before it could be looked at") from expired
            if self._is_ours(snapshot):
                return snapshot
        return None

    def _went_back(self, base: Snapshot | None) -> bool:
        """Say whether snapshots that were looked at are gone since: a rollback removed them, and ids are used again.

        Asked only where a server owns the history. There a writer whose commit conflicts with a compaction rolls that
        back; files are rolled back only while no writer runs.
        """
        before = self.looked_at
        if before is None or self.store.home.history is None:
            return False
        if base is None or base.id < before.id:
            return True
        now = base if base.id == before.id else self.store.snapshots.find(before.id)
        return now is None or not is_same_state(now, before)

    def _search_all(self, base: Snapshot) -> Snapshot | None:
        """Search every snapshot that may be the commit, unless the marker shows that none is."""
        created = [e.file.creation_time for e in self.intent.change.entries if e.kind == ADD]
        young = are_young(created, self.now_millis)
        if young and self.claim is not None:
            marked = not self.claim()
        else:
            marked = is_marked(self.store, self.intent.change, self.intent.marker)
        if young and not marked:
            return None
        ours = _names(self.intent.change, adds_only=self.intent.replaced is not None)
        oldest = base
        for snapshot in self.store.snapshots.walk_back(base.id):
            oldest = snapshot
            if self._is_ours(snapshot) or (marked and self.holds(snapshot)):
                return snapshot
            shared = ours & self._names_in(snapshot) if marked else frozenset()
            if any(kind == ADD for kind, _, _ in shared):
                raise self._partly_committed(snapshot, shared)
            if snapshot.time_millis < earliest_millis(created, self.now_millis):
                return None
        if oldest.id > 1:
            self._search_expired(oldest, ours)
        return None

    def _search_expired(self, oldest: Snapshot, ours: frozenset[_Trace]) -> None:
        """Raise if an expired snapshot published the files: then they are live in the oldest one that is left."""
        live = live_files_in(self.store, oldest, PartitionSelection(partitions=self.intent.change.partitions))
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
        """Say whether a snapshot made the changes of the intent."""
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
        intent = self.intent
        return CommitUnknownError(
            f"{self.store.name}: nobody can say whether the commit {intent.identifier} of user {intent.user} "
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
    """Say whether all files were written just now, by any reading of the wall clock that made their times."""
    offset = datetime.fromtimestamp(now_millis / 1000, UTC).astimezone().utcoffset()
    local = now_millis + (0 if offset is None else int(offset.total_seconds() * 1000))
    return all(time is not None and min(abs(now_millis - time), abs(local - time)) <= _YOUNG_MILLIS for time in created)


def earliest_millis(created: Sequence[int | None], now_millis: int) -> int:
    """Return a time before which no snapshot can name the files."""
    if created and are_young(created, now_millis):
        return now_millis - 2 * _YOUNG_MILLIS
    return min((0 if time is None else time for time in created), default=0) - _CLOCK_SLACK_MILLIS

"""What must not have happened between the snapshot that a change was planned on and the one that it extends.

Messages that say what they were planned on come in, the first snapshot that breaks what they rely on goes out. What was
planned on the base itself is as it was planned; what a compaction did since is judged by the files alone. Where a
snapshot in between is gone, nobody can say what it did, and that counts as broken too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakewright.commit.changes import Change, Guard
from lakewright.commit.conflicts import PLAN_AGAIN, Conflict
from lakewright.commit.message import snapshot_name
from lakewright.commit.row_ranges import Rows, column_ids, overtaken_rows, touched_rows
from lakewright.errors import NotFoundError
from lakewright.metadata.store import TableStore
from lakewright.spec.datafile import DELETION_VECTORS
from lakewright.spec.manifest import IndexEntry, ManifestEntry
from lakewright.spec.snapshot import CommitKind, Snapshot

_CHANGES_NO_ROWS = frozenset({CommitKind.COMPACT, CommitKind.ANALYZE})


@dataclass(frozen=True, slots=True)
class Broken:
    """A conflict, and the snapshot that made it."""

    conflict: Conflict
    by: Snapshot | None


def broken_guard(
    store: TableStore, guards: Sequence[Guard], base: Snapshot | None, change: Change, live: Iterable[ManifestEntry]
) -> Broken | None:
    """Return the first snapshot up to a base by which a change is not what it was planned to be any more.

    `live` are the files of the base in the partitions of the change, which only data evolution asks for.
    """
    since = min((guard.since for guard in guards), default=0)
    history: dict[int, Snapshot] = {}
    for snapshot_id in range(max(since, 1), (0 if base is None else base.id) + 1):
        snapshot = base if base is not None and snapshot_id == base.id else store.snapshots.find(snapshot_id)
        if snapshot is None:
            return _unsayable(f"snapshot {snapshot_id} expired", base)
        history[snapshot_id] = snapshot
    for guard in guards:
        if guard.since and guard.since not in history:
            return _unsayable(f"snapshot {guard.since} was rolled back", base)
        if guard.planned_on is not None and guard.planned_on != snapshot_name(history.get(guard.since)):
            return _unsayable(f"snapshot {guard.since} is not the one that was read: the table was rolled back", base)
    try:
        return _first_break(store, guards, history, _rows_of(store, guards, history, base, change, live))
    except NotFoundError as error:  # an expiry is running
        return _unsayable(str(error), base)


def _unsayable(why: str, base: Snapshot | None) -> Broken:
    return Broken(Conflict(f"{why}, so nobody can say what changed since the work was planned", (), PLAN_AGAIN), base)


def _rows_of(
    store: TableStore,
    guards: Sequence[Guard],
    history: dict[int, Snapshot],
    base: Snapshot | None,
    change: Change,
    live: Iterable[ManifestEntry],
) -> Rows | None:
    """Return the rows of a table with data evolution that must be as they were; None: files say it all."""
    if base is None or not store.options.data_evolution_enabled() or all(g.since == base.id for g in guards):
        return None
    first = history.get(min(guard.since for guard in guards))
    reads = frozenset(name for guard in guards for name in guard.reads)
    read_ids = frozenset(field.id for field in store.schema.fields if field.name in reads)
    return touched_rows(
        change,
        live,
        vectors_of(store, base),
        columns_of=lambda file: column_ids(file, store.schemas),
        read_ids=read_ids,
        next_row_id=0 if first is None else first.next_row_id or 0,
    )


def _first_break(
    store: TableStore, guards: Sequence[Guard], history: dict[int, Snapshot], rows: Rows | None
) -> Broken | None:
    if rows is None and all(guard.unchanged is None for guard in guards):
        return None
    for snapshot_id, snapshot in history.items():
        watching = [guard for guard in guards if guard.since < snapshot_id]
        if not watching or snapshot.commit_kind in _CHANGES_NO_ROWS:
            continue
        entries = store.manifests.delta(snapshot)
        for guard in watching:
            files = _written_into(guard, entries, _changed_vectors(store, snapshot, history.get(snapshot_id - 1)))
            if files:
                place = f"the {guard.unchanged}" if guard.unchanged == "table" else f"its {guard.unchanged}"
                reason = f"rows of {place} were written after snapshot {guard.since}, on which the change was planned"
                return Broken(Conflict(reason, files), snapshot)
        conflict = None if rows is None else overtaken_rows(rows, entries, lambda f: column_ids(f, store.schemas))
        if conflict is not None:
            return Broken(conflict, snapshot)
    return None


def _written_into(guard: Guard, entries: Iterable[ManifestEntry], vectors: Iterable[IndexEntry]) -> tuple[str, ...]:
    names = [e.file.file_name for e in entries if guard.covers(e.partition, e.bucket)]
    names += [e.file.file_name for e in vectors if guard.covers(e.partition, e.bucket)]
    return tuple(dict.fromkeys(names))


def _changed_vectors(store: TableStore, snapshot: Snapshot, before: Snapshot | None) -> list[IndexEntry]:
    """Return the index files with deletion vectors that came or went: deleting rows changes no data file."""
    if before is not None and snapshot.index_manifest == before.index_manifest:
        return []
    was, now = ({e.file.file_name: e for e in vectors_of(store, s)} for s in (before, snapshot))
    return [entry for name, entry in {**was, **now}.items() if (name in was) != (name in now)]


def vectors_of(store: TableStore, snapshot: Snapshot | None) -> list[IndexEntry]:
    """Return the index files of a snapshot that hold deletion vectors."""
    if snapshot is None or snapshot.index_manifest is None:
        return []
    index = store.manifests.read_index(snapshot.index_manifest)
    return [entry for entry in index if entry.file.index_type == DELETION_VECTORS]

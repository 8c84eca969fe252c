"""Whether rows that a change relies on were changed after it was planned: guards in, the first broken one out.

A guard names the snapshot that a change was planned on, and where nobody may have written rows since. The snapshots
from there up to the base of the commit are read one by one. A compaction changes no rows, so it breaks no guard; the
checks of `conflicts` find files that it took away. Where a snapshot in between has expired, nobody can say what it did,
and the guard counts as broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from lakewright.commit.changes import Change, Guard
from lakewright.commit.conflicts import PLAN_AGAIN, Conflict
from lakewright.commit.message.message import snapshot_name
from lakewright.commit.row_ranges import ColumnsOf, Rows, column_ids, overtaken_rows, touched_rows
from lakewright.errors import NotFoundError
from lakewright.metadata.store import TableStore
from lakewright.spec.datafile import DELETION_VECTORS, DataFile
from lakewright.spec.manifest import IndexEntry, ManifestEntry
from lakewright.spec.snapshot import CommitKind, Snapshot

_CHANGES_NO_ROWS = frozenset({CommitKind.COMPACT, CommitKind.ANALYZE})
# What a guard watches around a bucket, by the value of `Guard.unchanged`.
_PLACES: Mapping[str, Callable[[bytes, int], tuple[object, ...]]] = {
    "table": lambda _partition, _bucket: (),
    "partition": lambda partition, _bucket: (partition,),
    "bucket": lambda partition, bucket: (partition, bucket),
}


@dataclass(frozen=True, slots=True)
class BrokenGuard:
    """A conflict, and the snapshot that caused it."""

    conflict: Conflict
    by: Snapshot | None


@dataclass(frozen=True, slots=True)
class _Change:
    """A change, with the live files of its partitions and the columns that files hold."""

    change: Change
    live: Iterable[ManifestEntry]
    columns_of: ColumnsOf


def find_broken_guard(
    store: TableStore, guards: Sequence[Guard], base: Snapshot | None, change: Change, live: Iterable[ManifestEntry]
) -> BrokenGuard | None:
    """Return the first snapshot up to a base that wrote rows which one of the guards watches; None if all guards hold.

    `live` are the files of the base in the partitions of the change, which only tables with data evolution need.
    """
    since = min((guard.since for guard in guards), default=0)
    history: dict[int, Snapshot] = {}
    for snapshot_id in range(max(since, 1), (0 if base is None else base.id) + 1):
        snapshot = base if base is not None and snapshot_id == base.id else store.snapshots.find(snapshot_id)
        if snapshot is None:
            return _unknown_history(f"snapshot {snapshot_id} expired", base)
        history[snapshot_id] = snapshot
    for guard in guards:
        if guard.since and guard.since not in history:
            return _unknown_history(f"snapshot {guard.since} was rolled back", base)
        if guard.planned_on is not None and guard.planned_on != snapshot_name(history.get(guard.since)):
            return _unknown_history(
                f"snapshot {guard.since} is not the one that was read: the table was rolled back", base
            )
    columns = cache(lambda schema_id, names: column_ids(store.schemas.get(schema_id).fields, names))

    def columns_of(file: DataFile) -> frozenset[int]:
        return columns(file.schema_id, file.write_cols)

    try:
        rows = _rows_of(store, guards, base, history.get(since), _Change(change, live, columns_of))
        return _first_break(store, guards, history, rows, columns_of)
    except NotFoundError as error:  # an expiry is running
        return _unknown_history(str(error), base)


def _unknown_history(why: str, base: Snapshot | None) -> BrokenGuard:
    return BrokenGuard(
        Conflict(f"{why}, so nobody can say what changed since the work was planned", (), PLAN_AGAIN), base
    )


def _first_break(
    store: TableStore,
    guards: Sequence[Guard],
    history: Mapping[int, Snapshot],
    rows: Rows | None,
    columns_of: ColumnsOf,
) -> BrokenGuard | None:
    """Walk through the snapshots since the plan; the files of a snapshot are read only if a guard is older than it."""
    if rows is None and all(guard.unchanged is None for guard in guards):
        return None
    for snapshot_id, snapshot in history.items():
        watching = [guard for guard in guards if guard.since < snapshot_id]
        if not watching or snapshot.commit_kind in _CHANGES_NO_ROWS:
            continue
        entries = store.manifests.delta(snapshot)
        conflict = _written_into(watching, entries, _changed_vectors(store, snapshot, history.get(snapshot_id - 1)))
        if conflict is None and rows is not None:
            conflict = overtaken_rows(rows, entries, columns_of)
        if conflict is not None:
            return BrokenGuard(conflict, snapshot)
    return None


def _rows_of(
    store: TableStore, guards: Sequence[Guard], base: Snapshot | None, since: Snapshot | None, on: _Change
) -> Rows | None:
    """Return the rows of a table with data evolution that must be unchanged; None: comparing files is enough."""
    if base is None or not store.options.data_evolution_enabled() or all(g.since == base.id for g in guards):
        return None
    reads = frozenset(name for guard in guards for name in guard.reads)
    return touched_rows(
        on.change,
        on.live,
        vectors_of(store, base),
        columns_of=on.columns_of,
        read_ids=frozenset(field.id for field in store.schema.fields if field.name in reads),
        next_row_id=0 if since is None else since.next_row_id or 0,
    )


def _written_into(
    guards: Iterable[Guard], entries: Iterable[ManifestEntry], vectors: Iterable[IndexEntry]
) -> Conflict | None:
    """Return the conflict of guards with what one snapshot wrote into the places that they watch."""
    watched: dict[tuple[object, ...], Guard] = {}
    for guard in guards:
        if guard.unchanged is not None:
            watched.setdefault(_PLACES[guard.unchanged](guard.partition, guard.bucket), guard)
    hit: Guard | None = None
    names: dict[str, None] = {}
    changed = [(e.partition, e.bucket, e.file.file_name) for e in entries]
    changed += [(e.partition, e.bucket, e.file.file_name) for e in vectors]
    for partition, bucket, name in changed:
        watcher = next((g for place in _PLACES.values() if (g := watched.get(place(partition, bucket)))), None)
        if watcher is not None:
            hit = hit or watcher
            names[name] = None
    if hit is None:
        return None
    place = f"the {hit.unchanged}" if hit.unchanged == "table" else f"its {hit.unchanged}"
    reason = f"rows of {place} were written after snapshot {hit.since}, on which the change was planned"
    return Conflict(reason, tuple(names))


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

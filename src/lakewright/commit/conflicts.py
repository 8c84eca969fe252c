"""Whether a change still fits the newest snapshot: files, rows, row ranges."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from operator import itemgetter
from typing import TypeAlias

from lakewright.commit.commit_changes import Change, Guard
from lakewright.commit.commit_message import snapshot_key
from lakewright.errors import CommitConflictError, NotFoundError, pluralize
from lakewright.formats.index_kinds import is_one_per_bucket
from lakewright.lsm.key_order import Key
from lakewright.metadata.table_store import TableStore
from lakewright.spec.manifest import (
    ADD,
    DELETE,
    DELETION_VECTORS,
    HASH,
    DataFile,
    FileIdentity,
    IndexEntry,
    ManifestEntry,
    is_side_file,
)
from lakewright.spec.snapshot import CommitKind, Snapshot
from lakewright.spec.types import DataField

# ---- Conflicts of files ----------------------------------------------------------------------------------------------
# Every check compares the change with the live files of the partitions it touches, in the snapshot that the commit is
# to extend. An append that only adds files is compared with none of them: appends never conflict with each other.

PLAN_AGAIN = "plan the work again on the newest snapshot"
WRITE_AGAIN = "write the data again on the newest snapshot"
OVERWRITE_BUCKETS = "the number of buckets of a partition changes only by overwriting it"
_NAMES_SHOWN = 5

KeyRange: TypeAlias = Callable[[DataFile], tuple[Key, Key]]  # the first and the last key of a file


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why a change does not fit the table, with the files it is about and what to do."""

    reason: str
    files: tuple[str, ...] = ()
    advice: str = PLAN_AGAIN
    misrouted: bool = False  # the same rows can be written again, into other buckets


def find_conflict(
    change: Change, live: Collection[ManifestEntry], *, replaces: bool, key_range: KeyRange | None = None
) -> Conflict | None:
    """Return the first conflict of a change with the live files of its partitions.

    `replaces` says that it empties its partitions, which may then get another number of buckets. With a `key_range`
    the files of a level, from level 1 on, must not share keys.
    """
    conflict = repeated_files(change.entries) or vanished_files(change.entries, live)
    if conflict is None and not replaces:
        gone = {e.identity for e in change.entries if e.kind == DELETE}
        added = (e for e in change.entries if e.kind == ADD)
        conflict = mixed_buckets(added, (e for e in live if e.identity not in gone))
    if conflict is None and key_range is not None:
        conflict = overlapping_files(change.entries, live, key_range)
    return conflict


def mixed_buckets(entries: Iterable[ManifestEntry], live: Iterable[ManifestEntry]) -> Conflict | None:
    """Return a conflict if one partition would have files written for different numbers of buckets."""
    totals: dict[bytes, int] = {}
    for entry in live:
        if entry.total_buckets > 0:
            totals.setdefault(entry.partition, entry.total_buckets)
    for entry in entries:
        if entry.total_buckets <= 0:
            continue
        total = totals.setdefault(entry.partition, entry.total_buckets)
        if total != entry.total_buckets:
            return Conflict(
                f"{entry.file.file_name} was written for {pluralize(entry.total_buckets, 'bucket')}, "
                f"its partition has {total}",
                (entry.file.file_name,),
                OVERWRITE_BUCKETS,
            )
    return None


def repeated_files(entries: Iterable[ManifestEntry]) -> Conflict | None:
    """Return a conflict if a change names one file twice."""
    counts = Counter(e.identity for e in entries)
    twice = tuple(_name(identity) for identity, count in counts.items() if count > 1)
    if not twice:
        return None
    return Conflict(f"{_count(twice)} named more than once", twice, "hand in each message once")


def vanished_files(entries: Iterable[ManifestEntry], live: Iterable[ManifestEntry]) -> Conflict | None:
    """Return a conflict if files to delete are not live any more, or files to add are live already."""
    live_files = {e.identity for e in live}
    changes = tuple(entries)
    gone = tuple(e.file.file_name for e in changes if e.kind == DELETE and e.identity not in live_files)
    if gone:
        return Conflict(f"{_count(gone)} to delete {'is' if len(gone) == 1 else 'are'} gone", gone)
    added = tuple(e.file.file_name for e in changes if e.kind == ADD and e.identity in live_files)
    if added:
        advice = "these messages were committed before: do not commit them again"
        return Conflict(
            f"{_count(added)} to add {'is' if len(added) == 1 else 'are'} in the table already", added, advice
        )
    return None


def overlapping_files(
    entries: Collection[ManifestEntry], live: Iterable[ManifestEntry], key_range: KeyRange
) -> Conflict | None:
    """Return a conflict if two files of one level would share keys: from level 1 on a level is one sorted run."""
    gone = {e.identity for e in entries if e.kind == DELETE}
    levels: dict[tuple[bytes, int, int], list[DataFile]] = {
        (e.partition, e.bucket, e.file.level): [] for e in entries if e.kind == ADD and e.file.level > 0
    }
    if not levels:
        return None
    for entry in (*live, *(e for e in entries if e.kind == ADD)):
        files_of_level = levels.get((entry.partition, entry.bucket, entry.file.level))
        if files_of_level is not None and entry.identity not in gone:
            files_of_level.append(entry.file)
    for (_, bucket, level), files in levels.items():
        ranges = sorted((*key_range(file), file.file_name) for file in files)
        for (_, last, name), (first, _, other) in pairwise(ranges):
            if not last < first:
                reason = f"two files of level {level} in bucket {bucket} would share keys"
                return Conflict(reason, (name, other))
    return None


def moved_hashes(bases: Iterable[tuple[bytes, tuple[str, ...]]], index: Iterable[IndexEntry]) -> Conflict | None:
    """Return a conflict if rows got their buckets from index files that are not those of their partition any more.

    Two writers that add keys to one index at the same time may put one key into two buckets.
    """
    current: dict[bytes, list[str]] = {}
    for entry in index:
        if entry.file.index_type == HASH:
            current.setdefault(entry.partition, []).append(entry.file.file_name)
    for partition, names in bases:
        now = current.get(partition, [])
        if sorted(now) != sorted(names):
            changed = tuple(sorted({*now} ^ {*names}))
            reason = "another writer chose buckets of the same partition at the same time"
            return Conflict(reason, changed, WRITE_AGAIN, misrouted=True)
    return None


def stale_vectors(index: Iterable[IndexEntry], change: Change, live: Iterable[ManifestEntry]) -> Conflict | None:
    """Return a conflict if a deletion vector would belong to a data file that is not live any more.

    A commit that deletes rows of a file fails when the file was rewritten in between, and a commit that rewrites a
    file fails when rows of it were deleted in between: either would bring deleted rows back.
    """
    before = {(e.partition, e.bucket, e.file.file_name) for e in live}
    names = before - {(e.partition, e.bucket, e.file.file_name) for e in change.entries if e.kind == DELETE}
    names |= {(e.partition, e.bucket, e.file.file_name) for e in change.entries if e.kind == ADD}
    touched = change.partitions
    own = {e.file.file_name for e in change.index if e.kind == ADD}
    # Java keeps the vectors of a file that it compacts to nothing; a vector that was stale before hides no row.
    stale = tuple(
        place[2]
        for entry in index
        if entry.file.index_type == DELETION_VECTORS and entry.partition in touched
        for place in ((entry.partition, entry.bucket, v.data_file) for v in entry.file.deletion_ranges or ())
        if place not in names and (place in before or entry.file.file_name in own)
    )
    if not stale:
        return None
    return Conflict(
        f"Deletion vector index conflict: rows of {_count(stale)} were deleted or rewritten at the same time", stale
    )


def combine_index(
    previous: Sequence[IndexEntry], changes: Sequence[IndexEntry], *, bucketed: bool, by_name: bool = False
) -> tuple[IndexEntry, ...] | Conflict:
    """Return the whole live set of index files after some changes, or why they do not fit.

    Key hashes, and the deletion vectors of tables with buckets, are one file per bucket, which a new file replaces.
    Other index files are independent, but a data file has one vector at most. An index file to delete must be live.
    With `by_name` a change replaces the vectors of a bucket only if it deletes the newest file of them by name, which
    shows that it was made from it.
    """
    left = {_index_key(e, bucketed=bucketed): e for e in previous}
    added: set[tuple[object, ...]] = set()
    for change in changes:
        key = _index_key(change, bucketed=bucketed)
        name = change.file.file_name
        if change.kind == DELETE:
            deleted = left.pop(key, None)
            if deleted is None or deleted.file.file_name != name:
                kind = "Deletion vector index conflict: " if change.file.index_type == DELETION_VECTORS else ""
                return Conflict(f"{kind}an index file to delete is gone", (name,))
        elif key in added or (key in left and len(key) == 1):
            return Conflict("an index file to add is in the table already", (name,))
        elif by_name and key in left and change.file.index_type == DELETION_VECTORS:
            unseen = left[key].file.file_name
            return Conflict(
                "Deletion vector index conflict: rows of a bucket were deleted by another commit at the same time",
                (unseen,),
            )
        else:
            left[key] = change
            added.add(key)
    vectors = Counter(
        (entry.partition, entry.bucket, vector.data_file)
        for entry in left.values()
        if entry.file.index_type == DELETION_VECTORS
        for vector in entry.file.deletion_ranges or ()
    )
    twice = tuple(name for (_, _, name), count in vectors.items() if count > 1)
    if twice:
        return Conflict(
            f"Deletion vector index conflict: rows of {_count(twice)} were deleted by another commit at the same time",
            twice,
        )
    return tuple(left.values())


def conflict_error(
    conflict: Conflict, *, table: str, user: str, kind: CommitKind, other: Snapshot | None
) -> CommitConflictError:
    """Return the error that names both commits, the files they conflict about, and what to do."""
    winner = "the table" if other is None else f"snapshot {other.id} by user {other.commit_user} ({other.commit_kind})"
    shown = ", ".join(conflict.files[:_NAMES_SHOWN])
    more = len(conflict.files) - _NAMES_SHOWN
    names = f": {shown}" + (f" and {more} more" if more > 0 else "") if shown else ""
    return CommitConflictError(
        f"{table}: commit of user {user} ({kind}) conflicts with {winner}: {conflict.reason}{names}; {conflict.advice}",
        table=table,
        user=user,
        kind=kind,
        snapshot_id=None if other is None else other.id,
        files=conflict.files,
        advice=conflict.advice,
        misrouted=conflict.misrouted,
    )


def _index_key(entry: IndexEntry, *, bucketed: bool) -> tuple[object, ...]:
    """Return what only one index file may have: a bucket and a kind of index, or its own name."""
    kind = entry.file.index_type
    if is_one_per_bucket(kind, bucketed=bucketed):
        return entry.partition, entry.bucket, kind
    return (entry.file.file_name,)


def _name(identity: FileIdentity) -> str:
    return identity[3]


def _count(names: Sequence[str]) -> str:
    return pluralize(len(names), "file")


# ---- Conflicts of row ranges -----------------------------------------------------------------------------------------
# Files with the same rows form a group: they have exactly the same range of row ids, and of each column the newest
# file counts. A change fits if every range that it names is that of a group, if no group is left with some of its
# files deleted, and if no other commit changed the columns that it was made from. Nothing here reads files.

Range: TypeAlias = tuple[int, int]  # the first row id, and the first after the last
ColumnsOf: TypeAlias = Callable[[DataFile], frozenset[int]]

_MERGES = "multiple 'MERGE INTO' or 'COMPACT' operations: "  # the words by which programs know such a conflict


@dataclass(frozen=True, slots=True)
class TouchedRows:
    """Rows that a change touches, and the columns of each that it read or wrote."""

    columns: tuple[tuple[Range, frozenset[int] | None], ...]  # None: all columns
    next_row_id: int  # when the change was planned: rows from there on did not exist


def range_of(file: DataFile) -> Range | None:
    """Return the row ids of a file; None where it has none of its own, or shares those of another as a side file."""
    return None if is_side_file(file) else _touched_range(file)


def _touched_range(file: DataFile) -> Range | None:
    """Return the row ids of which a file has columns; None where the commit is still to give them."""
    return None if file.first_row_id is None else (file.first_row_id, file.first_row_id + file.row_count)


def column_ids(fields: Iterable[DataField], names: Collection[str] | None) -> frozenset[int]:
    """Return the ids of the columns that a file of a schema holds; None: all of them."""
    return frozenset(field.id for field in fields if names is None or field.name in names)


def range_conflict(
    change: Change, live: Collection[ManifestEntry], *, next_row_id: int, compacts: bool, adds_rows: bool = False
) -> Conflict | None:
    """Return why a change would break the groups of files, given the live files of its partitions.

    With `adds_rows` it may hold new rows that its writer has numbered, if their numbers follow the rows that exist.
    """
    live_files = {e.identity: e.file for e in live}
    ranges = {rows for e in live if (rows := range_of(e.file)) is not None}
    if adds_rows:
        ranges |= _following(change, next_row_id)
    rewritten = [rows for e in change.entries if e.kind == DELETE and (rows := range_of(e.file)) is not None]
    for entry in change.entries:
        if entry.kind == DELETE:
            conflict = _changed_since_read(entry, live_files)
        elif _within(range_of(entry.file), rewritten):
            conflict = None
        else:
            conflict = _without_rows(entry.file, ranges, next_row_id, compacts=compacts)
        if conflict is not None:
            return conflict
    gone = {e.identity for e in change.entries if e.kind == DELETE}
    added = [e.file for e in change.entries if e.kind == ADD]
    left = [e.file for e in live if e.identity not in gone]
    broken = _overlapping_groups(left, added) or _half_group(
        left, added, [live_files[i] for i in gone if i in live_files]
    )
    return broken or _written_twice(added)


def _following(change: Change, next_row_id: int) -> set[Range]:
    """Return the ranges of new files that begin at the first free row id, and then one behind the other."""
    following: set[Range] = set()
    for rows in sorted({rows for e in change.entries if (rows := range_of(e.file)) is not None}):
        if rows[0] == next_row_id:
            following.add(rows)
            next_row_id = rows[1]
    return following


def _changed_since_read(entry: ManifestEntry, live_files: dict[FileIdentity, DataFile]) -> Conflict | None:
    file = live_files.get(entry.identity, entry.file)
    if (file.first_row_id, file.row_count) == (entry.file.first_row_id, entry.file.row_count):
        return None
    return Conflict(f"{file.file_name} holds other rows than those to delete", (file.file_name,))


def _without_rows(file: DataFile, ranges: set[Range], next_row_id: int, *, compacts: bool) -> Conflict | None:
    """Return a conflict if a file has columns of rows that are no group, or for a compaction no groups side by side."""
    rows = _touched_range(file)
    if rows is None or rows in ranges or (is_side_file(file) and _is_covered(rows, ranges)):
        return None
    names = (file.file_name,)
    if rows[1] > next_row_id:
        return Conflict(f"{file.file_name} holds columns of rows that do not exist: the table was rolled back", names)
    if compacts and _is_covered(rows, ranges):
        return None
    reason = f"{_MERGES}{file.file_name} holds columns of rows {_format_range(rows)}, which were rewritten"
    return Conflict(reason, names)


def _within(rows: Range | None, rewritten: Iterable[Range]) -> bool:
    """Return whether the rows of a new file are among those whose files the same change deletes."""
    return rows is not None and any(first <= rows[0] and rows[1] <= end for first, end in rewritten)


def _is_covered(rows: Range, ranges: Iterable[Range]) -> bool:
    reached = rows[0]
    for first, end in sorted(ranges):
        if first > reached:
            break
        reached = max(reached, end)
    return reached >= rows[1]


def _overlapping_groups(left: Iterable[DataFile], added: Iterable[DataFile]) -> Conflict | None:
    """Return a conflict if two files would share some rows, but not all."""
    named = sorted((r, file.file_name) for file in (*left, *added) if (r := range_of(file)) is not None)
    for (one, name), (other, other_name) in pairwise(named):
        if one != other and other[0] < one[1]:
            return Conflict(
                f"{_MERGES}files of rows {_format_range(one)} and {_format_range(other)} would overlap",
                (name, other_name),
            )
    return None


def _half_group(left: Iterable[DataFile], added: Iterable[DataFile], gone: Iterable[DataFile]) -> Conflict | None:
    """Return a conflict if only some files of a group would be deleted, and no new file has its rows."""
    kept = {range_of(file) for file in added}
    lost = {r for file in gone if (r := range_of(file)) is not None and r not in kept}
    names = tuple(file.file_name for file in left if range_of(file) in lost)
    return Conflict(f"{_MERGES}columns of the rows to rewrite were added at the same time", names) if names else None


def _written_twice(added: Iterable[DataFile]) -> Conflict | None:
    """Return a conflict if two new files have one column of the same rows: neither would be the newest."""
    seen: dict[Range, list[DataFile]] = {}
    for file in added:
        rows = range_of(file)
        if rows is None:
            continue
        for other in seen.setdefault(rows, []):
            if file.write_cols is None or other.write_cols is None or {*file.write_cols} & {*other.write_cols}:
                names = (other.file_name, file.file_name)
                reason = f"two changes of one column of rows {_format_range(rows)} are to be committed at once"
                return Conflict(reason, names, "commit one, and plan the other on what it leaves")
        seen[rows].append(file)
    return None


def touched_rows(
    change: Change,
    live: Iterable[ManifestEntry],
    vectors: Iterable[IndexEntry],
    *,
    columns_of: ColumnsOf,
    read_ids: frozenset[int],
    next_row_id: int,
) -> TouchedRows:
    """Return the rows that a change writes columns of, rewrites or deletes, each with the columns that it depends on.

    A rewrite depends on all columns. Deleting rows, by a vector that grew, depends on the columns that chose the rows.
    """
    out: list[tuple[Range, frozenset[int] | None]] = []
    for entry in change.entries:
        rows = _touched_range(entry.file)
        if rows is not None:
            out.append((rows, None if entry.kind == DELETE else columns_of(entry.file) | read_ids))
    known = {(v.data_file, v.cardinality) for e in vectors for v in e.file.deletion_ranges or ()}
    grown = {
        v.data_file
        for e in change.index
        if e.kind == ADD and e.file.index_type == DELETION_VECTORS
        for v in e.file.deletion_ranges or ()
        if (v.data_file, v.cardinality) not in known
    }
    deleted_in = (range_of(e.file) for e in live if e.file.file_name in grown)
    out += [(rows, read_ids) for rows in deleted_in if rows is not None]
    return TouchedRows(_join_ranges(out), next_row_id)


def _join_ranges(
    pairs: Iterable[tuple[Range, frozenset[int] | None]],
) -> tuple[tuple[Range, frozenset[int] | None], ...]:
    """Return ranges in order. Those that overlap but differ become one: a VECTOR file may have a part of a group."""
    out: list[tuple[Range, frozenset[int] | None]] = []
    for rows, columns in sorted(pairs, key=itemgetter(0)):
        if out and rows != out[-1][0] and rows[0] < out[-1][0][1]:
            (start, end), others = out[-1]
            both = None if columns is None or others is None else columns | others
            out[-1] = (start, max(end, rows[1])), both
        else:
            out.append((rows, columns))
    return tuple(out)


def overtaken_rows(rows: TouchedRows, entries: Iterable[ManifestEntry], columns_of: ColumnsOf) -> Conflict | None:
    """Return a conflict if another commit wrote columns that the change depends on, of the same rows."""
    names = []
    for entry in entries:
        written = _touched_range(entry.file) if entry.kind == ADD else None
        if written is None or written[0] >= rows.next_row_id:
            continue
        counting = [columns for _, columns in _overlapping(rows, written)]
        if any(columns is None or columns & columns_of(entry.file) for columns in counting):
            names.append(entry.file.file_name)
    if not names:
        return None
    return Conflict(f"{_MERGES}columns of the same rows were changed at the same time", tuple(names))


def _overlapping(rows: TouchedRows, written: Range) -> Iterable[tuple[Range, frozenset[int] | None]]:
    # The ranges of a change are those of groups, which do not overlap: their ends are in the order of their starts.
    start = bisect_left(rows.columns, written[0], key=lambda pair: pair[0][1] - 1)
    for place in range(start, len(rows.columns)):
        if rows.columns[place][0][0] >= written[1]:
            return
        yield rows.columns[place]


def _format_range(rows: Range) -> str:
    return f"{rows[0]} to {rows[1] - 1}"


# ---- Guards: rows that a change relies on ----------------------------------------------------------------------------
# A guard names the snapshot that a change was planned on, and where no other commit may have written rows since. The
# snapshots from there up to the base of the commit are read one by one. A compaction changes no rows, so it breaks no
# guard; the checks of `conflicts` find files that it took away. Where a snapshot in between has expired, it is unknown
# what it did, and the guard counts as broken.

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
        if guard.planned_on is not None and guard.planned_on != snapshot_key(history.get(guard.since)):
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
        Conflict(f"{why}, so it is unknown what changed since the work was planned", (), PLAN_AGAIN), base
    )


def _first_break(
    store: TableStore,
    guards: Sequence[Guard],
    history: Mapping[int, Snapshot],
    rows: TouchedRows | None,
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
) -> TouchedRows | None:
    """Return the rows of a table with data evolution that must be unchanged; None: comparing files is enough."""
    if base is None or not store.options.data_evolution_enabled or all(g.since == base.id for g in guards):
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

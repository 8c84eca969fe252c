"""Changes of tables with data evolution, where several files hold columns of the same rows: a conflict or None out.

Files with the same rows form a group: they have exactly the same range of row ids, and of each column the newest file
counts. A change fits if every range that it names is that of a group, if no group is left with some of its files
deleted, and if nobody changed the columns that it was made from. Nothing here reads files.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from lakewright.commit.changes import Change
from lakewright.commit.conflicts import Conflict
from lakewright.spec.datafile import DELETION_VECTORS, DataFile, is_side_file
from lakewright.spec.manifest import ADD, DELETE, FileIdentity, IndexEntry, ManifestEntry
from lakewright.spec.types import DataField

Range: TypeAlias = tuple[int, int]  # the first row id, and the first after the last
ColumnsOf: TypeAlias = Callable[[DataFile], frozenset[int]]

_MERGES = "multiple 'MERGE INTO' or 'COMPACT' operations: "  # the words by which programs know such a conflict


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that a change touches, and the columns of each that it read or wrote."""

    columns: tuple[tuple[Range, frozenset[int] | None], ...]  # None: all columns
    next_row_id: int  # when the change was planned: rows from there on did not exist


def range_of(file: DataFile) -> Range | None:
    """Return the row ids of a file; None where it has none of its own, or shares those of another as a side file."""
    if file.first_row_id is None or is_side_file(file):
        return None
    return file.first_row_id, file.first_row_id + file.row_count


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
    rows = range_of(file)
    if rows is None or rows in ranges:
        return None
    names = (file.file_name,)
    if rows[1] > next_row_id:
        return Conflict(f"{file.file_name} holds columns of rows that do not exist: the table was rolled back", names)
    if compacts and _covered(rows, ranges):
        return None
    reason = f"{_MERGES}{file.file_name} holds columns of rows {_shown(rows)}, which were rewritten"
    return Conflict(reason, names)


def _within(rows: Range | None, rewritten: Iterable[Range]) -> bool:
    """Say whether the rows of a new file are among those whose files the same change deletes."""
    return rows is not None and any(first <= rows[0] and rows[1] <= end for first, end in rewritten)


def _covered(rows: Range, ranges: Iterable[Range]) -> bool:
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
                f"{_MERGES}files of rows {_shown(one)} and {_shown(other)} would overlap", (name, other_name)
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
                reason = f"two changes of one column of rows {_shown(rows)} are to be committed at once"
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
) -> Rows:
    """Return the rows that a change writes columns of, rewrites or deletes, each with the columns that it depends on.

    A rewrite depends on all columns. Deleting rows, by a vector that grew, depends on the columns that chose the rows.
    """
    out: list[tuple[Range, frozenset[int] | None]] = []
    for entry in change.entries:
        rows = range_of(entry.file)
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
    return Rows(tuple(sorted(out, key=lambda pair: pair[0])), next_row_id)


def overtaken_rows(rows: Rows, entries: Iterable[ManifestEntry], columns_of: ColumnsOf) -> Conflict | None:
    """Return a conflict if another commit wrote columns that the change depends on, of the same rows."""
    names = []
    for entry in entries:
        written = range_of(entry.file) if entry.kind == ADD else None
        if written is None or written[0] >= rows.next_row_id:
            continue
        counting = [columns for _, columns in _overlapping(rows, written)]
        if any(columns is None or columns & columns_of(entry.file) for columns in counting):
            names.append(entry.file.file_name)
    if not names:
        return None
    return Conflict(f"{_MERGES}columns of the same rows were changed at the same time", tuple(names))


def _overlapping(rows: Rows, written: Range) -> Iterable[tuple[Range, frozenset[int] | None]]:
    # The ranges of a change are those of groups, which do not overlap: their ends are in the order of their starts.
    start = bisect_left(rows.columns, written[0], key=lambda pair: pair[0][1] - 1)
    for place in range(start, len(rows.columns)):
        if rows.columns[place][0][0] >= written[1]:
            return
        yield rows.columns[place]


def _shown(rows: Range) -> str:
    return f"{rows[0]} to {rows[1] - 1}"

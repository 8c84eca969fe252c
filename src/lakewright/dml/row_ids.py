"""Changes by row id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewright.commit.job_ids import JobRun
from lakewright.dml import file_group_strategy as column_files
from lakewright.dml import vector_updates
from lakewright.dml.assignments import without_defaults
from lakewright.dml.change_runner import (
    POSITION,
    Changes,
    MatchedRows,
    change_groups,
    check_columns_unchanged,
    run_change,
)
from lakewright.dml.row_changes import (
    ChangeJob,
    ChangeMethod,
    GroupChange,
    PreparedChange,
    RowPositions,
    UpdateResult,
    change_method,
)
from lakewright.dml.row_location import locate_rows, select_groups
from lakewright.errors import ColumnNotExistException, InvalidInputError, UnsupportedError
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.read.projection import ROW_TRACKING_FIELDS
from lakewright.spec.predicate import Predicate, PredicateBuilder
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.system_columns import ROW_ID
from lakewright.write.alignment import Aligner
from lakewright.write.input_data import ArrowData, batches_of, to_local_data

# ---- In one process --------------------------------------------------------------------------------------------------
# The ids of a file of new rows follow from the first one, which the manifest records. Rows that were moved have their
# ids in a column. So most ids are found by the ranges of the files, without reading data; only ids outside of all
# ranges are looked for in the columns of files with moved rows.
#
# Invariant: every id has exactly one position, or the call fails before anything is written.

Ids: TypeAlias = NDArray[np.int64]
RowIds: TypeAlias = Iterable[int] | ArrowData  # as callers give them
_NAMED_MAX = 5  # ids that an error names


@dataclass(frozen=True, slots=True)
class GroupRows:
    """The rows of one group with given ids: their positions, and which of the ids each has."""

    part: DataSplit
    positions: RowPositions  # ascending
    numbers: NDArray[np.int64]  # indexes into the given ids, one for each position


def delete_by_row_id(store: TableStore, ids: RowIds, job_id: str | None = None) -> UpdateResult:
    """Delete the rows with these ids; rows that are deleted already are ignored."""
    looked_for = to_ids(store, ids)
    return run_change(
        store, partial(prepare_delete, store, looked_for), operation="DELETE", job=JobRun.of(store, job_id)
    )


def update_by_row_id(
    store: TableStore, data: ArrowData, columns: Sequence[str] | None = None, job_id: str | None = None
) -> UpdateResult:
    """Set columns of rows by id: `data` has `_ROW_ID` and the columns to set; `columns` names them if it has more."""
    rows = NewValues.of(store, data, columns)
    return run_change(store, partial(prepare_update, store, rows), operation="UPDATE", job=JobRun.of(store, job_id))


def prepare_delete(store: TableStore, ids: Ids, base: Snapshot | None) -> PreparedChange:
    """Delete rows of a snapshot; `ids` are ascending and distinct."""
    located = locate_by_row_id(store, base, ids)
    if base is None or not located:
        return PreparedChange()
    places = {_group_key(one.part): one.positions for one in located}

    def decide(part: DataSplit) -> GroupChange:
        return GroupChange(part, deleted=live_positions(store, part, places[_group_key(part)]))

    return change_groups(ChangeJob.on(store, base), [one.part for one in located], decide)


def prepare_update(store: TableStore, rows: NewValues, base: Snapshot | None) -> PreparedChange:
    """Set columns of rows of a snapshot."""
    located = locate_by_row_id(store, base, rows.ids)
    if base is None or not located:
        return PreparedChange()
    places = {_group_key(one.part): one for one in located}

    def decide(part: DataSplit) -> GroupChange:
        one = places[_group_key(part)]
        check_live(store, part, one.positions, rows.ids[one.numbers])
        return GroupChange(part, updated=one.positions, values=rows.at(one.numbers))

    return change_groups(ChangeJob.on(store, base), [one.part for one in located], decide)


@dataclass(frozen=True, slots=True)
class NewValues:
    """New values of some columns, in the table's types, for rows by their ids; the ids are ascending."""

    ids: Ids
    values: pa.Table

    @classmethod
    def of(cls, store: TableStore, data: ArrowData, columns: Sequence[str] | None = None) -> NewValues:
        """Check and sort the caller's data; an id that occurs twice is refused."""
        _check_tracked(store)
        batches = [b if isinstance(b, pa.Table) else pa.Table.from_batches([b]) for b in batches_of(data, store.name)]
        table = pa.concat_tables(batches) if batches else _schema_of(data).empty_table()
        if ROW_ID.name not in table.column_names:
            raise InvalidInputError(
                f"table {store.name}: the data lacks the column {ROW_ID.name!r}, which says what rows to update; read "
                "it with the rows: with_projection([..., '_ROW_ID'])",
                table=store.name,
                column=ROW_ID.name,
            )
        names = _columns_to_change(store, table, columns)
        ids = _to_int64(store, table.column(ROW_ID.name))
        fields = without_defaults(field for field in store.schema.fields if field.name in names)
        values = Aligner(fields, table=store.name).align(table.select(names))
        if len(ids) > 1 and not (ids[1:] > ids[:-1]).all():
            order = np.argsort(ids, kind="stable")
            ids, values = ids[order], values.take(pa.array(order))
        twice = np.unique(ids[1:][ids[1:] == ids[:-1]])
        if len(twice):
            _refuse(store, twice, "is there twice", "are there twice", "give each row its values once")
        return cls(ids, values)

    def at(self, numbers: NDArray[np.int64]) -> pa.Table:
        """Return the values of some rows, by the indexes of their ids."""
        first, last = (numbers[0], numbers[-1] + 1) if len(numbers) else (0, 0)
        if last - first == len(numbers):
            return self.values.slice(first, len(numbers))
        return self.values.take(pa.array(numbers))


def to_ids(store: TableStore, given: RowIds) -> Ids:
    """Return the caller's row ids, ascending and distinct; given as a list, an array, or Arrow data with `_ROW_ID`."""
    _check_tracked(store)
    try:
        column = _as_column(to_local_data(given, store.name))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"table {store.name}: these are no row ids: {error}", table=store.name) from error
    if pa.types.is_struct(column.type):
        if column.type.get_field_index(ROW_ID.name) < 0:
            raise InvalidInputError(
                f"table {store.name}: the rows to delete lack the column {ROW_ID.name!r}", column=ROW_ID.name
            )
        column = pc.struct_field(column, ROW_ID.name)
    return np.unique(_to_int64(store, column))


def _as_column(given: Any) -> pa.Array | pa.ChunkedArray:  # noqa: ANN401 - a list, an array, or what exports one
    if hasattr(given, "__arrow_c_stream__"):
        return pa.chunked_array(given)
    if isinstance(given, np.ndarray) or hasattr(given, "__arrow_c_array__"):
        return pa.array(given)
    listed = list(given)
    return pa.array(listed, None if listed else pa.int64())


def locate_by_row_id(store: TableStore, base: Snapshot | None, ids: Ids) -> list[GroupRows]:
    """Return the positions of the rows with these ids in a snapshot, deleted rows included if their file still exists.

    `ids` are ascending and distinct. An id that no file has is an error.
    """
    if not len(ids):
        return []
    parts = [] if base is None else select_groups(store, base, _between(int(ids[0]), int(ids[-1])))
    located, missing = _find_in_ranges([part for part in parts if not has_id_column(part)], ids)
    moved = [part for part in parts if has_id_column(part)]
    # An updated row may be deleted in its old file, and have moved to another file with its id.
    left = missing | _deleted_ids(store, located, len(ids)) if moved else missing
    for part in moved:
        if left.any() and (one := _find_moved(store, part, ids, left)) is not None:
            located.append(one)
            left[one.numbers] = False
            missing[one.numbers] = False
            located[:-1] = [_without_ids(other, one.numbers) for other in located[:-1]]
    if missing.any():
        refuse_unknown(store, ids[missing])
    return [one for one in located if len(one.positions)]


def refuse_unknown(store: TableStore, ids: Ids) -> None:
    """Raise InvalidInputError for ids that the table does not have."""
    what = "does not belong to any valid range of row ids"
    remedy = "read the table again and take the ids it has now"
    _refuse(store, ids, f"is unknown: it {what}", f"are unknown: each {what}", remedy)


def live_positions(store: TableStore, part: DataSplit, positions: RowPositions) -> RowPositions:
    """Return the positions of rows that are not deleted."""
    deleted = vector_updates.deleted_positions(store, part)
    return positions if deleted is None else positions[~np.isin(positions, deleted)]


def check_live(store: TableStore, part: DataSplit, positions: RowPositions, ids: Ids) -> None:
    """Raise InvalidInputError if one of the rows is deleted."""
    deleted = vector_updates.deleted_positions(store, part)
    if deleted is not None and (hit := np.isin(positions, deleted)).any():
        refuse_deleted(store, ids[hit])


def refuse_deleted(store: TableStore, ids: Ids) -> None:
    """Raise InvalidInputError for ids of deleted rows, if there are any."""
    if len(ids):
        _refuse(store, ids, "is deleted", "are deleted", "update rows that are there")


def _deleted_ids(store: TableStore, located: Sequence[GroupRows], count: int) -> NDArray[np.bool_]:
    """Return a mask of the ids whose rows are deleted in the files that were found by range."""
    out = np.zeros(count, dtype=np.bool_)
    for one in located:
        deleted = vector_updates.deleted_positions(store, one.part)
        if deleted is not None:
            out[one.numbers[np.isin(one.positions, deleted)]] = True
    return out


def _without_ids(one: GroupRows, numbers: NDArray[np.int64]) -> GroupRows:
    stay = ~np.isin(one.numbers, numbers)
    return one if stay.all() else GroupRows(one.part, one.positions[stay], one.numbers[stay])


def _find_in_ranges(parts: Sequence[DataSplit], ids: Ids) -> tuple[list[GroupRows], NDArray[np.bool_]]:
    """Return the rows in files whose ids follow from the first one, and a mask of the ids that are in none of them."""
    firsts = np.array([part.files[0].first_row_id or 0 for part in parts], dtype=np.int64)
    ends = firsts + np.array([part.files[0].row_count for part in parts], dtype=np.int64)
    lows, highs = np.searchsorted(ids, firsts), np.searchsorted(ids, ends)  # ranges of files never overlap
    missing = np.ones(len(ids), dtype=np.bool_)
    located = []
    for at in np.nonzero(lows < highs)[0].tolist():
        low, high = int(lows[at]), int(highs[at])
        missing[low:high] = False
        located.append(GroupRows(parts[at], ids[low:high] - firsts[at], np.arange(low, high, dtype=np.int64)))
    return located, missing


def _find_moved(store: TableStore, part: DataSplit, ids: Ids, missing: NDArray[np.bool_]) -> GroupRows | None:
    """Look for ids in the id column of a file with moved rows."""
    looked_for = np.nonzero(missing)[0]
    within = _between(int(ids[looked_for[0]]), int(ids[looked_for[-1]]))
    positions: list[RowPositions] = []
    numbers: list[NDArray[np.int64]] = []
    for located in locate_rows(store, part, [ROW_ID.name], within):
        stored = located.rows.column(0).to_numpy()
        at = np.searchsorted(ids[looked_for], stored)
        hit = (at < len(looked_for)) & (ids[looked_for[np.minimum(at, len(looked_for) - 1)]] == stored)
        positions.append(located.positions[hit])
        numbers.append(looked_for[at[hit]])
    if not any(map(len, positions)):
        return None
    return GroupRows(part, np.concatenate(positions), np.concatenate(numbers))


def _group_key(part: DataSplit) -> str:
    """Return a name that is unique to the group."""
    return part.files[0].file_name


def has_id_column(part: DataSplit) -> bool:
    """Return whether the rows of a group have their ids in a column."""
    return part.files[0].first_row_id is None or ROW_ID.name in (part.files[0].write_cols or ())


def _between(low: int, high: int) -> Predicate:
    return PredicateBuilder(ROW_TRACKING_FIELDS).between(ROW_ID.name, low, high)


def _columns_to_change(store: TableStore, table: pa.Table, columns: Sequence[str] | None) -> list[str]:
    """Return the columns to change."""
    names = [n for n in table.column_names if n != ROW_ID.name] if columns is None else list(columns)
    for name in names:
        if name not in store.schema.field_names:
            raise ColumnNotExistException(
                f"table {store.name}: the column {name!r} to update is not in table schema; it has "
                f"{', '.join(store.schema.field_names)}",
                table=store.name,
                column=name,
            )
        if table.column_names.count(name) != 1:
            raise InvalidInputError(
                f"table {store.name}: the data must have the column {name!r} to update once", column=name
            )
    if not names or len(set(names)) != len(names):
        raise InvalidInputError(
            f"table {store.name}: name each column to update once, and at least one", table=store.name
        )
    if change_method(store) is ChangeMethod.COLUMNS:
        column_files.check_assignable(store, names)
    return names


def _to_int64(store: TableStore, column: pa.Array | pa.ChunkedArray) -> Ids:
    if column.null_count:
        raise InvalidInputError(
            f"table {store.name}: {column.null_count} of {len(column)} row ids are null; leave such rows out",
            table=store.name,
            column=ROW_ID.name,
        )
    try:
        if not pa.types.is_integer(column.type):
            raise InvalidInputError(f"table {store.name}: row ids are integers, not {column.type}", table=store.name)
        ids: Ids = column.cast(pa.int64()).to_numpy()
    except pa.ArrowException as error:
        raise InvalidInputError(f"table {store.name}: these are no row ids: {error}", table=store.name) from error
    return ids


def _check_tracked(store: TableStore) -> None:
    if not store.options.row_tracking_enabled:
        raise UnsupportedError(
            f"table {store.name} does not track its rows, so they have no ids; use delete(where) and update(...), or "
            "create the table with 'row-tracking.enabled' = 'true'",
            table=store.name,
            option="row-tracking.enabled",
        )


def _schema_of(data: ArrowData) -> pa.Schema:
    if isinstance(data, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return data.schema
    return pa.schema(data) if hasattr(data, "__arrow_c_schema__") else pa.schema([])


def _refuse(store: TableStore, ids: Ids, one: str, many: str, remedy: str) -> None:
    named = ", ".join(str(row_id) for row_id in ids[:_NAMED_MAX])
    more = f" and {len(ids) - _NAMED_MAX} more" if len(ids) > _NAMED_MAX else ""
    what = f"the row id {named} {one}" if len(ids) == 1 else f"the row ids {named}{more} {many}"
    raise InvalidInputError(
        f"table {store.name}: {what}; {remedy}",
        table=store.name,
        row_ids=tuple(int(row_id) for row_id in ids[:_NAMED_MAX]),
    )


# ---- On workers ------------------------------------------------------------------------------------------------------
# The ids of most groups follow from their first one, so a group is found by its range of ids; rows that were moved
# have their ids in a column, and an engine finds their group and position by a join with that column. What always
# holds: an id that is unknown or null, or in an update occurs twice or is deleted, is an error, and then nothing is
# committed.

ID = "id"  # the column of ids
NAMED_MAX = 6  # ids that come to the driver, to be named in an error


def value_name(place: int) -> str:
    """Return the name of a column of new values."""
    return f"v{place}"


class _Range(NamedTuple):
    """The ids that follow from the first id of a group."""

    first: int
    end: int
    group: int

    @classmethod
    def of(cls, number: int, part: DataSplit) -> _Range:
        first = part.files[0].first_row_id or 0
        return cls(first, first + part.files[0].row_count, number)


@dataclass(frozen=True, slots=True)
class GroupRanges:
    """The ranges of ids of groups, in ascending order."""

    firsts: np.ndarray
    ends: np.ndarray
    numbers: np.ndarray

    @classmethod
    def of(cls, parts: Sequence[DataSplit]) -> GroupRanges:
        """Return the ranges of the groups whose ids follow from the first one; a group is known by its place here."""
        ranges = sorted(_Range.of(number, part) for number, part in enumerate(parts) if not has_id_column(part))
        return cls(*np.array(ranges, np.int64).reshape(-1, 3).T)

    def find(self, ids: pa.Array) -> pa.Array:
        """Return the numbers of the groups of ids; null where an id is in no range."""
        if not len(self.firsts):
            return pa.nulls(len(ids), pa.int32())
        known = ids.fill_null(-1).to_numpy(zero_copy_only=False)
        at = np.maximum(np.searchsorted(self.firsts, known, side="right") - 1, 0)
        inside = (known >= self.firsts[at]) & (known < self.ends[at])
        return pa.array(self.numbers[at].astype(np.int32), mask=~inside)


@dataclass(frozen=True, slots=True)
class RowIdChange:
    """Turns the ids, and new values, that a task gets into changes of groups."""

    store: TableStore
    names: tuple[str, ...] = ()  # the columns to set; none: the rows are deleted
    written: TableStore | None = None  # the table with the schema of the files that are written

    def writing(self, store: TableStore) -> RowIdChange:
        """Return the same change for files that are written with the schema of a store."""
        return replace(self, written=store)

    def __call__(self, rows: MatchedRows) -> Changes:
        """Yield changes of groups; ids without a group are refused."""
        for part, runs in rows:
            if part is None:
                check_all_found(self.store, pa.chunked_array([run.column(ID) for run in runs]))
                continue
            given = pa.Table.from_batches(list(runs))
            change = self._change(part, given) if given.num_rows else None
            if change is not None and not change.is_empty:
                check_columns_unchanged(self.store, self.written or self.store, change)
                yield change

    def _change(self, part: DataSplit, rows: pa.Table) -> GroupChange:
        """Return the change of one group; the rows are ordered by their ids."""
        ids = rows.column(ID).to_numpy()
        positions = rows.column(POSITION).to_numpy() if has_id_column(part) else ids - (part.files[0].first_row_id or 0)
        if not self.names:
            return GroupChange(part, deleted=live_positions(self.store, part, np.unique(positions)))
        columns = [value_name(at) for at in range(len(self.names))]
        given = rows.select([ID, *columns]).rename_columns([ROW_ID.name, *self.names])
        new = NewValues.of(self.store, given, self.names)
        order = np.argsort(positions, kind="stable")
        check_live(self.store, part, positions[order], ids[order])
        return GroupChange(part, updated=positions[order], values=new.values.take(pa.array(order)))


def check_all_found(store: TableStore, ids: pa.Array | pa.ChunkedArray) -> None:
    """Raise InvalidInputError if an id is null or in no group."""
    if ids.null_count:
        raise InvalidInputError(
            f"table {store.name}: {ids.null_count} row ids are null; leave such rows out",
            table=store.name,
            column=ROW_ID.name,
        )
    if len(ids):
        refuse_unknown(store, np.unique(ids.to_numpy()))

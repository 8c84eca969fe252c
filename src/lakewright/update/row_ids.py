"""Rows by their ids: ids of a tracked table in; groups of files and positions, or a change of those rows, out.

A file of new rows implies their ids: the first one is recorded, and the others follow. Rows that were moved carry their
ids in a column. So most ids are found by their place among the first ids of the files, without reading anything; only
what is in no such range is looked for in the columns of files with moved rows.

What always holds: every id is found in exactly one place, or the call fails before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewright.errors import ColumnNotExistException, InvalidInputError, UnsupportedError
from lakewright.metadata.store import TableStore
from lakewright.read.projection import ROW_ID, ROW_TRACKING_FIELDS
from lakewright.read.splits.split import DataSplit
from lakewright.spec.predicate.predicate import Predicate, PredicateBuilder
from lakewright.spec.snapshot import Snapshot
from lakewright.update import columns as column_files
from lakewright.update import vectors
from lakewright.update.change import ChangeJob, GroupChange, Positions
from lakewright.update.find import groups, locate
from lakewright.update.result import UpdateResult
from lakewright.update.run import Prepared, change, change_groups
from lakewright.update.values import without_defaults
from lakewright.update.ways import Way, way_of
from lakewright.write.input.align import Aligner
from lakewright.write.input.frames import in_process
from lakewright.write.job_run import JobRun
from lakewright.write.writer import ArrowData, batches_of

Ids: TypeAlias = NDArray[np.int64]
RowIds: TypeAlias = Iterable[int] | ArrowData  # as callers give them
_NAMED_MAX = 5  # ids that an error names


@dataclass(frozen=True, slots=True)
class Found:
    """Rows of one group that were asked for: where they lie, and which of the ids each of them has."""

    part: DataSplit
    positions: Positions  # ascending
    numbers: NDArray[np.int64]  # of the ids, one for each position


def delete_by_row_id(store: TableStore, ids: RowIds, job_id: str | None = None) -> UpdateResult:
    """Delete the rows with these ids; those that are deleted already stay so."""
    wanted = to_ids(store, ids)
    return change(store, partial(prepare_delete, store, wanted), operation="DELETE", job=JobRun.of(store, job_id))


def update_by_row_id(
    store: TableStore, data: ArrowData, columns: Sequence[str] | None = None, job_id: str | None = None
) -> UpdateResult:
    """Give rows new values: `data` has `_ROW_ID` and the columns to change, or more of which `columns` names them."""
    rows = NewValues.of(store, data, columns)
    return change(store, partial(prepare_update, store, rows), operation="UPDATE", job=JobRun.of(store, job_id))


def prepare_delete(store: TableStore, ids: Ids, base: Snapshot | None) -> Prepared:
    """Delete rows of a snapshot; `ids` are ascending and each is there once."""
    found = by_row_id(store, base, ids)
    if base is None or not found:
        return Prepared()
    places = {_name(one.part): one.positions for one in found}

    def decide(part: DataSplit) -> GroupChange:
        return GroupChange(part, deleted=still_live(store, part, places[_name(part)]))

    return change_groups(ChangeJob.on(store, base), [one.part for one in found], decide)


def prepare_update(store: TableStore, rows: NewValues, base: Snapshot | None) -> Prepared:
    """Give rows of a snapshot new values."""
    found = by_row_id(store, base, rows.ids)
    if base is None or not found:
        return Prepared()
    places = {_name(one.part): one for one in found}

    def decide(part: DataSplit) -> GroupChange:
        one = places[_name(part)]
        check_live(store, part, one.positions, rows.ids[one.numbers])
        return GroupChange(part, updated=one.positions, values=rows.at(one.numbers))

    return change_groups(ChangeJob.on(store, base), [one.part for one in found], decide)


@dataclass(frozen=True, slots=True)
class NewValues:
    """New values of some columns, in the table's types, for rows by their ids; the ids are ascending."""

    ids: Ids
    values: pa.Table

    @classmethod
    def of(cls, store: TableStore, data: ArrowData, columns: Sequence[str] | None = None) -> NewValues:
        """Read what a caller gives; every id may be there once."""
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
        names = _names(store, table, columns)
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
        """Return the values of some of the rows, by the numbers of their ids."""
        first, last = (numbers[0], numbers[-1] + 1) if len(numbers) else (0, 0)
        if last - first == len(numbers):
            return self.values.slice(first, len(numbers))
        return self.values.take(pa.array(numbers))


def to_ids(store: TableStore, given: RowIds) -> Ids:
    """Return row ids that a caller gives, ascending and each once: a list, an array, or Arrow data with `_ROW_ID`."""
    _check_tracked(store)
    try:
        column = _as_column(in_process(given, store.name))
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


def by_row_id(store: TableStore, base: Snapshot | None, ids: Ids) -> list[Found]:
    """Return where the rows with these ids lie in a snapshot; deleted ones too where their file is still there.

    `ids` are ascending and each is there once. One that the table never gave, or that is gone, is an error.
    """
    if not len(ids):
        return []
    parts = [] if base is None else groups(store, base, _between(int(ids[0]), int(ids[-1])))
    found, missing = _in_ranges([part for part in parts if not holds_ids(part)], ids)
    moved = [part for part in parts if holds_ids(part)]
    # A row that was updated is deleted where it was, and has gone elsewhere with its id.
    left = missing | _gone(store, found, len(ids)) if moved else missing
    for part in moved:
        if left.any() and (one := _among_moved(store, part, ids, left)) is not None:
            found.append(one)
            left[one.numbers] = False
            missing[one.numbers] = False
            found[:-1] = [_without(other, one.numbers) for other in found[:-1]]
    if missing.any():
        refuse_unknown(store, ids[missing])
    return [one for one in found if len(one.positions)]


def refuse_unknown(store: TableStore, ids: Ids) -> None:
    """Raise the error of ids that are nowhere."""
    _refuse(store, ids, "is unknown", "are unknown", "read the table again and take the ids it has now")


def still_live(store: TableStore, part: DataSplit, positions: Positions) -> Positions:
    """Return the positions of rows that are not deleted."""
    gone = vectors.deleted_of(store, part)
    return positions if gone is None else positions[~np.isin(positions, gone)]


def check_live(store: TableStore, part: DataSplit, positions: Positions, ids: Ids) -> None:
    """Refuse rows that are deleted."""
    gone = vectors.deleted_of(store, part)
    if gone is not None and (hit := np.isin(positions, gone)).any():
        _refuse(store, ids[hit], "is deleted", "are deleted", "update rows that are there")


def _gone(store: TableStore, found: Sequence[Found], count: int) -> NDArray[np.bool_]:
    """Return which ids are those of rows that were deleted where they lay."""
    out = np.zeros(count, dtype=np.bool_)
    for one in found:
        gone = vectors.deleted_of(store, one.part)
        if gone is not None:
            out[one.numbers[np.isin(one.positions, gone)]] = True
    return out


def _without(one: Found, numbers: NDArray[np.int64]) -> Found:
    stay = ~np.isin(one.numbers, numbers)
    return one if stay.all() else Found(one.part, one.positions[stay], one.numbers[stay])


def _in_ranges(parts: Sequence[DataSplit], ids: Ids) -> tuple[list[Found], NDArray[np.bool_]]:
    """Return the rows that lie in files which imply the ids of their rows, and which ids are left."""
    firsts = np.array([part.files[0].first_row_id or 0 for part in parts], dtype=np.int64)
    ends = firsts + np.array([part.files[0].row_count for part in parts], dtype=np.int64)
    lows, highs = np.searchsorted(ids, firsts), np.searchsorted(ids, ends)  # ranges of files never overlap
    missing = np.ones(len(ids), dtype=np.bool_)
    found = []
    for at in np.nonzero(lows < highs)[0].tolist():
        low, high = int(lows[at]), int(highs[at])
        missing[low:high] = False
        found.append(Found(parts[at], ids[low:high] - firsts[at], np.arange(low, high, dtype=np.int64)))
    return found, missing


def _among_moved(store: TableStore, part: DataSplit, ids: Ids, missing: NDArray[np.bool_]) -> Found | None:
    """Look for ids in the column of a file with moved rows."""
    wanted = np.nonzero(missing)[0]
    within = _between(int(ids[wanted[0]]), int(ids[wanted[-1]]))
    positions: list[Positions] = []
    numbers: list[NDArray[np.int64]] = []
    for located in locate(store, part, [ROW_ID.name], within):
        stored = located.rows.column(0).to_numpy()
        at = np.searchsorted(ids[wanted], stored)
        hit = (at < len(wanted)) & (ids[wanted[np.minimum(at, len(wanted) - 1)]] == stored)
        positions.append(located.positions[hit])
        numbers.append(wanted[at[hit]])
    if not any(map(len, positions)):
        return None
    return Found(part, np.concatenate(positions), np.concatenate(numbers))


def _name(part: DataSplit) -> str:
    """Return what no other group of the table has."""
    return part.files[0].file_name


def holds_ids(part: DataSplit) -> bool:
    """Say whether the rows of a group carry their ids in a column."""
    return part.files[0].first_row_id is None or ROW_ID.name in (part.files[0].write_cols or ())


def _between(low: int, high: int) -> Predicate:
    return PredicateBuilder(ROW_TRACKING_FIELDS).between(ROW_ID.name, low, high)


def _names(store: TableStore, table: pa.Table, columns: Sequence[str] | None) -> list[str]:
    """Return the columns to change."""
    names = [n for n in table.column_names if n != ROW_ID.name] if columns is None else list(columns)
    for name in names:
        if name not in store.schema.field_names:
            raise ColumnNotExistException(
                f"table {store.name}: there is no column {name!r} to update; it has "
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
    if way_of(store) is Way.COLUMNS:
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
    if not store.options.row_tracking_enabled():
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

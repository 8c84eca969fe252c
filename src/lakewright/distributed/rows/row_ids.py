"""Changes by row id on an engine's workers: ids, and new values, by group of files in; changes of groups out.

The ids of most groups follow from their first one, so a group is found by its range of ids; rows that were moved have
their ids in a column, and an engine finds their group and position by a join with that column. What always holds: an id
that is unknown or null, or in an update occurs twice or is deleted, is an error, and then nothing is committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lakewright.distributed.rows.groups import POSITION, Changes, GroupedRows
from lakewright.errors import InvalidInputError
from lakewright.metadata.store import TableStore
from lakewright.read.projection import ROW_ID
from lakewright.read.splits.split import DataSplit
from lakewright.update.change import GroupChange
from lakewright.update.row_ids import NewValues, check_live, has_id_column, live_positions, refuse_unknown
from lakewright.update.run import check_columns_unchanged

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

    def __call__(self, rows: GroupedRows) -> Changes:
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

"""Steps: what each row of a key does to the value of one column, from the oldest row to the latest.

A merge function first decides from kinds and sequence fields alone what each row does to a column, then hands these
steps to the function of the column, which turns them into one value per key. Keys stand in ascending order and the
steps of a key one after the other, so all keys are worked on at once by comparing neighbouring steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakewright.lsm.functions.groups import Groups
from lakewright.lsm.images import Flags, Longs
from lakewright.spec.rows.binary_row import null_mask

Ops: TypeAlias = npt.NDArray[np.int8]

RESET: Final = 0  # the value of the row replaces all that the key has
ADD: Final = 1  # the value of the row comes after all that the key has
LATE: Final = 2  # the value of the row comes before all that the key has
RETRACT: Final = 3  # the value of the row is taken back
NONE: Final = -1  # of a position: there is none
_FEW = 4  # one row of so many is few


@dataclass(frozen=True, slots=True)
class Steps:
    """What happens to one column: step `i` does `ops[i]` with the value of row `rows[i]`, for the key `group[i]`."""

    rows: Longs
    ops: Ops
    group: Longs  # ascending; a key may have no step
    count: int  # of keys

    def __len__(self) -> int:
        return len(self.rows)

    def only(self, keep: Flags) -> Steps:
        """Return some of the steps."""
        if keep.all():
            return self
        return Steps(self.rows[keep], self.ops[keep], self.group[keep], self.count)

    def at(self, places: Longs) -> Steps:
        """Return the steps at some places, in their order."""
        return Steps(self.rows[places], self.ops[places], self.group[places], self.count)

    def has(self, op: int) -> bool:
        """Say whether any step has this op."""
        return bool(np.any(self.ops == op))

    def with_values(self, column: pa.Array) -> Steps:
        """Leave out the steps of rows that have no value."""
        nulls = null_mask(column)
        return self if nulls is None else self.only(~nulls[self.rows])

    def since_reset(self) -> Steps:
        """Leave out the steps before the last reset of each key."""
        if not self.has(RESET):
            return self
        resets = self.last(self.ops == RESET)
        return self.only(np.arange(len(self)) >= resets[self.group])

    def by_age(self) -> Steps:
        """Put each late step before all steps of its key that came earlier."""
        late = self.ops == LATE
        if not late.any():
            return self
        place = np.arange(len(self))
        return self.at(np.lexsort((np.where(late, -place, place), ~late, self.group)))

    @property
    def starts(self) -> Longs:
        """Where the steps of each key that has some begin."""
        return np.flatnonzero(np.append(True, self.group[1:] != self.group[:-1]))[: len(self)]

    def last(self, which: Flags | None = None) -> Longs:
        """Return of each key the place of its last step, of those asked for; -1 where it has none."""
        if len(self) == 0:
            return np.full(self.count, NONE, np.int64)
        starts = self.starts
        if which is None:
            return self._spread(np.append(starts[1:], len(self)) - 1, starts)
        return self._spread(np.maximum.reduceat(np.where(which, np.arange(len(self)), NONE), starts), starts)

    def first(self, which: Flags | None = None) -> Longs:
        """Return of each key the place of its first step, of those asked for; -1 where it has none."""
        if len(self) == 0:
            return np.full(self.count, NONE, np.int64)
        starts = self.starts
        if which is None:
            return self._spread(starts, starts)
        places = np.minimum.reduceat(np.where(which, np.arange(len(self)), len(self)), starts)
        return self._spread(np.where(places == len(self), NONE, places), starts)

    def _spread(self, places: Longs, starts: Longs) -> Longs:
        """Give each key its place; `places` has one for each key that has steps."""
        if len(starts) == self.count:
            return places
        out = np.full(self.count, NONE, np.int64)
        out[self.group[starts]] = places
        return out

    def rows_at(self, places: Longs) -> Longs:
        """Return the rows of some steps, -1 where a place is -1."""
        if len(self) == 0:
            return np.full(len(places), NONE, np.int64)
        return np.where(places >= 0, self.rows[places], NONE)


def picked(column: pa.Array, rows: Longs) -> pa.Array:
    """Return the values of some rows, null where a row is -1."""
    missing = rows < 0
    return column.take(pa.array(rows, mask=missing) if missing.any() else pa.array(rows))


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece."""
    joined = column.combine_chunks()
    return pa.concat_arrays(joined.chunks) if isinstance(joined, pa.ChunkedArray) else joined


def without_other_rows(groups: Groups) -> Groups:
    """Return the same groups; if most rows belong to no group, only rows of the groups are kept."""
    return groups.gathered() if len(groups.order) * _FEW < len(groups.rows) else groups

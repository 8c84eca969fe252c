"""Rows grouped by key and the steps of each column; the `MergeFunction` protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakewright.lsm.normalized_keys import Flags, UInt64Array
from lakewright.spec.arrow_take import take_rows
from lakewright.spec.binary_row import null_mask
from lakewright.spec.system_columns import DELETE, VALUE_KIND

# ---- Groups of rows by key -------------------------------------------------------------------------------------------
# A merge function sees only keys that have two rows or more, each in merge order: the oldest first, the latest last.
# It is made once per table from its schema; options that it does not support are refused then.

_TAKE_BYTES_MAX = 1 << 30  # texts of one array have 2 GB at most
_FEW_GROUPED = 16  # one row of so many is few


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """Keyed rows grouped by key: group `i` is the rows at `order[starts[i]:ends[i]]`, in merge order."""

    rows: pa.Table  # all rows of the merge, in any order and without `_LEVEL`; some belong to no group
    order: UInt64Array
    starts: UInt64Array
    ends: UInt64Array

    def __len__(self) -> int:
        return len(self.starts)

    def parts(self, rows_max: int) -> Iterator[KeyGroups]:
        """Cut the groups into ranges of about equal size, of about so many rows at most."""
        count = len(self.order)
        bounds = np.linspace(0, count, -(-count // rows_max) + 1).astype(np.int64)
        firsts = np.unique(np.searchsorted(self.starts, bounds))
        for first, last in pairwise(firsts.tolist()):
            start, end = int(self.starts[first]), int(self.ends[last - 1])
            yield KeyGroups(
                self.rows, self.order[start:end], self.starts[first:last] - start, self.ends[first:last] - start
            )

    def only(self, keep: Flags) -> KeyGroups:
        """Return the same groups without some places of their order; groups without rows are left out."""
        counts = np.add.reduceat(keep.astype(np.int64), self.starts) if len(self) else np.empty(0, np.int64)
        ends = np.cumsum(counts)
        starts = ends - counts
        filled = ends > starts
        return KeyGroups(self.rows, self.order[keep], starts[filled], ends[filled])

    def layers(self, new: Flags) -> list[KeyGroups]:
        """Cut groups into segments that begin at some places of the order, and return them by age, the oldest first.

        Each result has one segment of a group at most. The last has the latest segment of every group.
        """
        first = np.zeros(len(self.order), np.bool_)
        first[self.starts] = True
        starts = np.flatnonzero(first | new)
        ends = np.append(starts[1:], len(self.order))
        owner = np.cumsum(first)[starts]
        after = np.searchsorted(owner, owner, side="right") - 1 - np.arange(len(starts))  # later segments of the group
        layers = []
        for layer in range(int(after.max(initial=0)), -1, -1):
            at = after == layer
            counts = ends[at] - starts[at]
            places = np.repeat(starts[at] - np.append(0, np.cumsum(counts)[:-1]), counts) + np.arange(counts.sum())
            upto = np.cumsum(counts)
            layers.append(KeyGroups(self.rows, self.order[places], upto - counts, upto))
        return layers

    def gather_rows(self) -> KeyGroups:
        """Return the same groups with their rows, and no others, in order."""
        order = np.arange(len(self.order), dtype=np.int64)
        return KeyGroups(take_sorted_rows(self.rows, self.order), order, self.starts, self.ends)


class MergeFunction(Protocol):
    """What a merge engine does with the rows of one key, for all keys at once."""

    def needed_columns(self, columns: AbstractSet[str]) -> AbstractSet[str]:
        """Return the columns a merge must read, besides key and sequence fields, to give these."""

    def check_kinds(self, kinds: AbstractSet[int]) -> None:
        """Refuse kinds of rows that every merge would fail on."""

    def merge(self, groups: KeyGroups) -> pa.Table:
        """Return one row per group, in their order, with the columns of `groups.rows`."""

    @property
    def keeps_apart(self) -> bool:
        """Whether a retract may say more than one merged row can express as long as older rows are missing."""

    def merge_apart(self, groups: KeyGroups) -> list[pa.Table]:
        """Return what all rows of the groups do to older rows that are not here, as rows that follow each other.

        Each table has a group once at most, in their order; a later table has the later rows, and the last one all
        groups whose rows do anything. Merged with any older rows, the tables give what the rows themselves give. Groups
        of one row are allowed, unlike in `merge`.
        """


def merge_several(groups: KeyGroups, merge: Callable[[KeyGroups], pa.Table]) -> pa.Table:
    """Merge the keys of two rows or more by a function, and put the other rows between its results, in key order."""
    several = groups.ends - groups.starts > 1
    if not several.any():
        return take_sorted_rows(groups.rows, groups.order)
    counts = (groups.ends - groups.starts)[several]
    ends = np.cumsum(counts)
    at = np.repeat(several, groups.ends - groups.starts)
    merged = merge(KeyGroups(groups.rows, groups.order[at], ends - counts, ends))
    if several.all():
        return merged
    single = take_sorted_rows(groups.rows, groups.order[~at])
    place = np.empty(len(groups), np.int64)
    place[several] = np.arange(len(merged))
    place[~several] = np.arange(len(merged), len(groups))
    return take_sorted_rows(pa.concat_tables([merged, single]), place)


def split_at_deletes(groups: KeyGroups, deletes: Flags) -> list[KeyGroups]:
    """Return the latest row of each group that deletes its record, and the rows after it; older rows are left out.

    The first result has such rows alone, the last the rows that come after them, or the rows of groups without any.
    """
    owners = np.repeat(np.arange(len(groups)), groups.ends - groups.starts)
    last = np.full(len(groups), -1, np.int64)
    np.maximum.at(last, owners[deletes], np.flatnonzero(deletes))
    kept = groups.only(np.arange(len(owners)) >= last[owners])
    deleted = np.zeros(len(groups), np.bool_)
    deleted[owners[deletes]] = True
    new = np.zeros(len(kept.order), np.bool_)
    after = kept.starts[deleted] + 1
    new[after[after < kept.ends[deleted]]] = True
    return kept.layers(new)


def clear_deleted(rows: pa.Table, names: AbstractSet[str]) -> pa.Table:
    """Set columns of rows of kind -D to null: what follows must not begin with the values of a deleted row."""
    deletes = rows.column(VALUE_KIND.name).to_numpy() == DELETE
    places = pa.array(np.arange(len(rows)), mask=deletes)
    columns = [
        column.take(places) if field.name in names and field.nullable else column
        for field, column in zip(rows.schema, rows.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def take_sorted_rows(rows: pa.Table, positions: UInt64Array) -> pa.Table:
    """Return the rows at positions, without a copy where they follow each other."""
    if len(positions) == 0:
        return rows.slice(0, 0)
    first, last = int(positions[0]), int(positions[-1])
    if last - first == len(positions) - 1 and bool(np.all(positions[1:] > positions[:-1])):
        return rows.slice(first, len(positions))
    # Arrow puts the chunks of a table together before it takes rows, which costs too much for few of them, and which
    # cannot be done with very many bytes.
    wide = rows.nbytes > _TAKE_BYTES_MAX
    if not wide and (len(positions) > len(rows) // _FEW_GROUPED or all(c.num_chunks == 1 for c in rows.columns)):
        return take_rows(rows, positions)
    batches = rows.to_batches()
    parts = np.array_split(positions, 1 + rows.nbytes // _TAKE_BYTES_MAX if wide else 1)
    return pa.concat_tables([_take_by_chunk(batches, part) for part in parts if len(part)])


def _take_by_chunk(batches: Sequence[pa.RecordBatch], positions: UInt64Array) -> pa.Table:
    """Take the rows of each batch, then put them in order."""
    bounds = np.cumsum([0, *(len(batch) for batch in batches)])
    batch_of = np.searchsorted(bounds, positions, side="right") - 1
    by_batch = np.argsort(batch_of.astype(np.uint16) if len(batches) < 1 << 16 else batch_of, kind="stable")
    sorted_positions = positions.take(by_batch)
    cuts = np.searchsorted(batch_of.take(by_batch), np.arange(len(batches) + 1))
    taken = [
        take_rows(pa.Table.from_batches([batch]), sorted_positions[start:end] - bound)
        for batch, bound, (start, end) in zip(batches, bounds.tolist(), pairwise(cuts.tolist()), strict=False)
        if end > start
    ]
    back = np.empty(len(positions), np.int64)
    back[by_batch] = np.arange(len(positions))
    return take_rows(pa.concat_tables(taken), back)


# ---- Steps of a column -----------------------------------------------------------------------------------------------
# A merge function first decides from kinds and sequence fields alone what each row does to a column, then hands these
# steps to the function of the column, which turns them into one value per key. Keys stand in ascending order and the
# steps of a key one after the other, so all keys are worked on at once by comparing neighbouring steps.

Ops: TypeAlias = npt.NDArray[np.int8]

RESET: Final = 0  # the value of the row replaces all that the key has
ADD: Final = 1  # the value of the row comes after all that the key has
LATE: Final = 2  # the value of the row comes before all that the key has
RETRACT: Final = 3  # the value of the row is taken back
NONE: Final = -1  # of a position: there is none
_FEW_STEPS = 4  # one row of so many is few


@dataclass(frozen=True, slots=True)
class ColumnSteps:
    """What happens to one column: step `i` does `ops[i]` with the value of row `rows[i]`, for the key `group[i]`."""

    rows: UInt64Array
    ops: Ops
    group: UInt64Array  # ascending; a key may have no step
    count: int  # of keys

    def __len__(self) -> int:
        return len(self.rows)

    def only(self, keep: Flags) -> ColumnSteps:
        """Return some of the steps."""
        if keep.all():
            return self
        return ColumnSteps(self.rows[keep], self.ops[keep], self.group[keep], self.count)

    def at(self, places: UInt64Array) -> ColumnSteps:
        """Return the steps at some places, in their order."""
        return ColumnSteps(self.rows[places], self.ops[places], self.group[places], self.count)

    def has(self, op: int) -> bool:
        """Return whether any step has this op."""
        return bool(np.any(self.ops == op))

    def with_values(self, column: pa.Array) -> ColumnSteps:
        """Leave out the steps of rows that have no value."""
        nulls = null_mask(column)
        return self if nulls is None else self.only(~nulls[self.rows])

    def since_reset(self) -> ColumnSteps:
        """Leave out the steps before the last reset of each key."""
        if not self.has(RESET):
            return self
        resets = self.last(self.ops == RESET)
        return self.only(np.arange(len(self)) >= resets[self.group])

    def by_age(self) -> ColumnSteps:
        """Put each late step before all steps of its key that came earlier."""
        late = self.ops == LATE
        if not late.any():
            return self
        place = np.arange(len(self))
        return self.at(np.lexsort((np.where(late, -place, place), ~late, self.group)))

    @property
    def starts(self) -> UInt64Array:
        """Where the steps of each key that has some begin."""
        return np.flatnonzero(np.append(True, self.group[1:] != self.group[:-1]))[: len(self)]

    def last(self, which: Flags | None = None) -> UInt64Array:
        """Return of each key the place of its last step, of those asked for; -1 where it has none."""
        if len(self) == 0:
            return np.full(self.count, NONE, np.int64)
        starts = self.starts
        if which is None:
            return self._spread(np.append(starts[1:], len(self)) - 1, starts)
        return self._spread(np.maximum.reduceat(np.where(which, np.arange(len(self)), NONE), starts), starts)

    def first(self, which: Flags | None = None) -> UInt64Array:
        """Return of each key the place of its first step, of those asked for; -1 where it has none."""
        if len(self) == 0:
            return np.full(self.count, NONE, np.int64)
        starts = self.starts
        if which is None:
            return self._spread(starts, starts)
        places = np.minimum.reduceat(np.where(which, np.arange(len(self)), len(self)), starts)
        return self._spread(np.where(places == len(self), NONE, places), starts)

    def _spread(self, places: UInt64Array, starts: UInt64Array) -> UInt64Array:
        """Give each key its place; `places` has one for each key that has steps."""
        if len(starts) == self.count:
            return places
        out = np.full(self.count, NONE, np.int64)
        out[self.group[starts]] = places
        return out

    def rows_at(self, places: UInt64Array) -> UInt64Array:
        """Return the rows of some steps, -1 where a place is -1."""
        if len(self) == 0:
            return np.full(len(places), NONE, np.int64)
        return np.where(places >= 0, self.rows[places], NONE)


def pick_values(column: pa.Array, rows: UInt64Array) -> pa.Array:
    """Return the values of some rows, null where a row is -1."""
    missing = rows < 0
    return column.take(pa.array(rows, mask=missing) if missing.any() else pa.array(rows))


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece."""
    joined = column.combine_chunks()
    return pa.concat_arrays(joined.chunks) if isinstance(joined, pa.ChunkedArray) else joined


def without_other_rows(groups: KeyGroups) -> KeyGroups:
    """Return the same groups; if most rows belong to no group, only rows of the groups are kept."""
    return groups.gather_rows() if len(groups.order) * _FEW_STEPS < len(groups.rows) else groups

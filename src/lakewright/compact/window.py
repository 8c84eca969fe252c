"""One window of a merge: all rows of some keys in; rows to write, a changelog and outdated rows out. Reads no files.

The rows are keyed, with `_LEVEL`, and complete for their keys. Rows below the output level are only looked up. They
matter for keys that got a row from level 0: the nearest of them is merged with the new rows, and a table with
deletion vectors marks it as deleted in its file. The others are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakewright.lsm.changes import changelog_rows
from lakewright.lsm.functions.groups import Groups
from lakewright.lsm.merge import MergeSpec
from lakewright.spec.keyed_rows import LEVEL, VALUE_KIND
from lakewright.spec.options import MergeEngine

PLACE: Final = "_PLACE"  # int64: number of the file and position, of rows that are looked up; -1 of the others
POSITION_BITS: Final = 40

Flags = npt.NDArray[np.bool_]
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WindowRules:
    """How the windows of one compaction are merged, and which changelog they give."""

    output_level: int
    old_level: int | None  # of the rows that the changelog calls old; None: of the nearest level that is not 0
    changelog: bool
    deduplicate: bool  # leave keys out of the changelog whose values are as they were
    ignored: frozenset[str]  # columns that are not compared for this
    narrow: bool  # rows below the output level have nothing but their key
    alone: bool = False  # the merge function is applied to a retracting row of level 0 also if its key has no other row


@dataclass(frozen=True, slots=True)
class FoldedWindow:
    """A merged window, in key order."""

    rows: pa.Table  # one row per key; deletes are still in it
    changelog: pa.Table | None
    outdated: Longs  # the places of looked-up rows that newer rows replace


def fold_window(rows: pa.Table, spec: MergeSpec, rules: WindowRules) -> FoldedWindow:
    """Merge the rows of a window; return the rows to write, the changelog and the rows that are outdated."""
    keys = _Keys.of(rows, spec, rules)
    folded = keys.compacted if rules.narrow else keys.compacted | keys.looked_up
    if spec.engine is MergeEngine.FIRST_ROW:
        # A key that has a row below keeps it, so its new rows are dropped.
        folded &= ~keys.has(keys.looked_up)
    outdated = _places(rows, keys.looked_up)
    plain = rows.drop_columns([PLACE]) if PLACE in rows.column_names else rows
    if not rules.changelog and not rules.alone:
        return FoldedWindow(spec.fold(_select(plain, folded)), None, outdated)
    touched = keys.touched
    if spec.engine is MergeEngine.FIRST_ROW:
        touched = touched & ~keys.has(keys.old | keys.looked_up)
    after = spec.fold(_select(plain, folded & touched))
    if rules.alone:
        after = _merged_alone(after, spec)
    changelog = None
    if rules.changelog:
        before = _select(plain, keys.old & touched).drop_columns([LEVEL.name])
        changelog = changelog_rows(before, after, spec.key, deduplicate=rules.deduplicate, ignored=rules.ignored)
    if not (folded & ~touched).any():
        return FoldedWindow(after, changelog, outdated)
    both = pa.concat_tables([after, spec.fold(_select(plain, folded & ~touched))])
    return FoldedWindow(both.take(pa.array(spec.key.order(both))), changelog, outdated)


def _merged_alone(rows: pa.Table, spec: MergeSpec) -> pa.Table:
    """Apply the merge function to retracting rows whose keys have no other row: later rows meet the result."""
    lone = rows.column(VALUE_KIND.name).to_numpy() % 2 == 1  # -U and -D are the odd ones
    if spec.function is None or not lone.any():
        return rows
    numbers = np.arange(int(lone.sum()))
    merged = spec.function.merge(Groups(rows.filter(pa.array(lone)), numbers, numbers, numbers + 1))
    place = np.empty(len(rows), np.int64)
    place[~lone] = np.arange(len(rows) - len(numbers))
    place[lone] = np.arange(len(rows) - len(numbers), len(rows))
    return pa.concat_tables([rows.filter(pa.array(~lone)), merged]).take(pa.array(place))


@dataclass(frozen=True, slots=True)
class _Keys:
    """Which rows of a window are compacted, looked up, touched or old; flags are in the order of the rows."""

    group: Longs  # the number of each row's key
    compacted: Flags  # rows of the files that are compacted
    looked_up: Flags  # rows below them that matter
    touched: Flags  # rows of keys that got new rows
    old: Flags  # the row of each touched key that the new rows change

    @classmethod
    def of(cls, rows: pa.Table, spec: MergeSpec, rules: WindowRules) -> _Keys:
        by_key = spec.key.sorted(rows)
        group = np.empty(len(rows), np.int64)
        group[by_key.order] = np.cumsum(by_key.new) - 1
        count = int(by_key.new.sum())
        levels = rows.column(LEVEL.name).to_numpy().astype(np.int64)
        compacted = levels <= rules.output_level
        fresh = levels == 0 if rules.old_level is None else levels < rules.old_level
        touched = _of_group(group, count, fresh)
        looked_up = ~compacted & touched
        candidates = (compacted & (levels > 0)) | looked_up
        if rules.old_level is None:
            nearest = np.full(count, np.iinfo(np.int64).max)
            np.minimum.at(nearest, group[candidates], levels[candidates])
            old = candidates & (levels == nearest[group])
        else:
            old = levels == rules.old_level
        return cls(group, compacted, looked_up, touched, old & touched)

    def has(self, flags: Flags) -> Flags:
        """Say of each row whether its key has a row with the flag."""
        return _of_group(self.group, int(self.group.max(initial=-1)) + 1, flags)


def _of_group(group: Longs, count: int, flags: Flags) -> Flags:
    has_flag = np.zeros(count, np.bool_)
    has_flag[group[flags]] = True
    return has_flag[group]


def _select(rows: pa.Table, flags: Flags) -> pa.Table:
    return rows if flags.all() else rows.filter(pa.array(flags))


def _places(rows: pa.Table, flags: Flags) -> Longs:
    if PLACE not in rows.column_names or not flags.any():
        return np.empty(0, np.int64)
    places: Longs = rows.column(PLACE).to_numpy()[flags]
    return places

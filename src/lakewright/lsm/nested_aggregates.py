"""Aggregates of arrays, maps and bitmaps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from lakewright.errors import CorruptTableError, pluralize
from lakewright.lsm.column_functions import ColumnFunction
from lakewright.lsm.key_groups import LATE, RESET, RETRACT, ColumnSteps
from lakewright.lsm.key_order import SortColumn, sorted_rows
from lakewright.lsm.normalized_keys import Flags, UInt64Array
from lakewright.spec.types import row_parts

# ---- Equality inside arrays ------------------------------------------------------------------------------------------
# Null equals null, a NaN equals every NaN, 0.0 and -0.0 differ; rows are equal field by field, arrays element by
# element, and maps whatever the order of their entries.


def codes(values: pa.Array) -> UInt64Array:
    """Return a number for each value: the same for the same values, -1 for null.

    >>> codes(pa.array([7, None, 9, 7])).tolist()
    [0, -1, 1, 0]
    """
    if len(values) == 0:
        return np.zeros(0, np.int64)
    if pa.types.is_struct(values.type):
        numbers = row_codes([values.field(n) for n in range(values.type.num_fields)], len(values))
    elif pa.types.is_map(values.type):
        entries = row_codes([values.keys, values.items], len(values.keys)).tolist()
        numbers = _number_values([frozenset(part) for part in _parts(values, entries)])
    elif pa.types.is_list(values.type):
        numbers = _number_values([tuple(part) for part in _parts(values, codes(values.values).tolist())])
    elif pa.types.is_fixed_size_list(values.type):
        vectors = codes(values.flatten()).reshape(-1, values.type.list_size)  # without those that are null
        numbers = np.full(len(values), -1, np.int64)
        numbers[np.asarray(values.is_valid())] = np.unique(vectors, axis=0, return_inverse=True)[1].reshape(-1)
    else:
        numbers = _scalar_codes(values)
    if values.null_count:
        numbers = np.where(np.asarray(values.is_null()), -1, numbers)
    return numbers


def row_codes(columns: Sequence[pa.Array], count: int) -> UInt64Array:
    """Return a number for each row of some columns of one length: the same for the same rows."""
    out = np.zeros(count, np.int64)
    for column in columns:
        step = codes(column) + 1
        _, out = np.unique(out * (int(step.max(initial=0)) + 1) + step, return_inverse=True)
    return out.astype(np.int64)


def _scalar_codes(values: pa.Array) -> UInt64Array:
    if pa.types.is_floating(values.type):
        numbers = values.to_numpy(zero_copy_only=False)
        canonical = np.where(np.isnan(numbers), np.full(1, np.nan, numbers.dtype), numbers)
        values = pa.array(canonical.view(f"<i{canonical.dtype.itemsize}"))
    indices: UInt64Array = pc.fill_null(pc.dictionary_encode(values).indices, -1).to_numpy().astype(np.int64)
    return indices


def _parts(lists: pa.Array, elements: Sequence[Hashable]) -> list[Sequence[Hashable]]:
    offsets = lists.offsets.to_pylist()
    return [elements[begin:end] for begin, end in pairwise(offsets)]


def _number_values(values: Sequence[Hashable]) -> UInt64Array:
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], np.int64)


# ---- Aggregates of arrays, maps and bitmaps --------------------------------------------------------------------------
# The cells of a column are laid out as one long row of entries; an accumulator is a list of entry numbers, and
# entries are compared by codes that are equal exactly where entries are. So values are never converted to Python and
# back: the result is the entries of all accumulators, taken once. Concatenation, the common case, needs no
# accumulator at all.

Entries: TypeAlias = Sequence[int]


@dataclass(frozen=True, slots=True)
class _Cells:
    """The cells of steps, side by side: cell `i` is the entries from `offsets[i]` to `offsets[i + 1]`."""

    entries: pa.Array  # rows of key and value where the column is a map
    offsets: UInt64Array

    @classmethod
    def of(cls, column: pa.Array, rows: UInt64Array) -> _Cells:
        taken = column.take(pa.array(rows))
        offsets = taken.offsets.to_numpy().astype(np.int64)
        if pa.types.is_map(taken.type):
            return cls(pa.StructArray.from_arrays([taken.keys, taken.items], names=["key", "value"]), offsets)
        return cls(taken.values, offsets)


def list_of(values: pa.Array, owners: UInt64Array, present: Flags, kind: pa.DataType) -> pa.Array:
    """Return lists, or maps, of values that stand in the order of their owners; null where one is not present."""
    offsets = np.append(0, np.cumsum(np.bincount(owners, minlength=len(present))))
    missing = np.append(~present, False)
    ends = pa.array(offsets.astype(np.int32), pa.int32(), mask=missing if missing.any() else None)
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(ends, values.field(0), values.field(1), type=kind)
    return pa.ListArray.from_arrays(ends, values, type=kind)


def collect(column: pa.Array, steps: ColumnSteps, function: ColumnFunction) -> pa.Array:
    """Return the elements of all arrays of each key; `distinct` keeps the first of those that are the same."""
    steps = steps.since_reset().with_values(column)
    cells = _Cells.of(column, steps.rows)
    if not steps.has(RETRACT) and not function.distinct:
        owners = np.repeat(steps.group, np.diff(cells.offsets))
        return list_of(cells.entries, owners, _present(steps), column.type)
    same = codes(cells.entries).tolist()

    def combine(here: Entries, more: Entries) -> Entries:
        return _firsts([*here, *more], same) if function.distinct else [*here, *more]

    def remove(here: Entries, gone: Entries) -> Entries:
        left = list(here)
        for entry in gone:
            at = next((n for n, mine in enumerate(left) if same[mine] == same[entry]), None)
            if at is not None:
                del left[at]
        return left

    fold = _Fold(combine, remove, late_last=True, first=(lambda new: combine((), new)))
    return _build_lists(fold.run(cells, steps), cells, column.type)


def _firsts(entries: Entries, same: Sequence[int]) -> Entries:
    kept: dict[int, int] = {}
    for entry in entries:
        kept.setdefault(same[entry], entry)
    return list(kept.values())


def unmatched_retracts(column: pa.Array, steps: ColumnSteps) -> pa.Array:
    """Return the elements that the retracts of each key take away where no array before them has brought one."""
    cells = _Cells.of(column, steps.rows)
    same = codes(cells.entries).tolist()
    offsets = cells.offsets.tolist()
    held: list[Counter[int]] = [Counter() for _ in range(steps.count)]
    gone: list[list[int]] = [[] for _ in range(steps.count)]
    for at, (key, op) in enumerate(zip(steps.group.tolist(), steps.ops.tolist(), strict=True)):
        for entry in range(offsets[at], offsets[at + 1]):
            if op != RETRACT:
                held[key][same[entry]] += 1
            elif held[key][same[entry]]:
                held[key][same[entry]] -= 1
            else:
                gone[key].append(entry)
    return _build_lists([entries or None for entries in gone], cells, column.type)


def merge_map(column: pa.Array, steps: ColumnSteps, _: ColumnFunction) -> pa.Array:
    """Return the entries of all maps of each key; the later of two with one key wins."""
    steps = steps.since_reset().with_values(column)
    cells = _Cells.of(column, steps.rows)
    same = codes(cells.entries.field(0)).tolist()

    def combine(here: Entries, more: Entries) -> Entries:
        return list({same[entry]: entry for entry in (*here, *more)}.values())

    def remove(here: Entries, gone: Entries) -> Entries:
        keys = {same[entry] for entry in gone}
        return [entry for entry in here if same[entry] not in keys]

    return _build_lists(_Fold(combine, remove).run(cells, steps), cells, column.type)


def merge_map_with_keytime(column: pa.Array, steps: ColumnSteps, function: ColumnFunction) -> pa.Array:
    """Return the entries of all maps of each key; of two with one key the later time wins, and null removes."""
    steps = steps.since_reset().with_values(column)
    cells = _Cells.of(column, steps.rows)
    same = codes(cells.entries.field(0)).tolist()
    rows = cells.entries.field(1)
    valid = rows.is_valid().to_pylist()
    times = rows.field(rows.type.get_field_index(function.time_field)).cast(pa.binary()).to_pylist()

    def combine(here: Entries, more: Entries) -> Entries:
        kept = {same[entry]: entry for entry in here}
        for entry in more:
            mine = kept.get(same[entry])
            if not valid[entry]:
                kept.pop(same[entry], None)
            elif times[entry] is not None and (mine is None or not valid[mine] or _before(times[mine], times[entry])):
                kept[same[entry]] = entry
        return list(kept.values())

    return _build_lists(_Fold(combine, _never).run(cells, steps), cells, column.type)


def _before(time: bytes | None, other: bytes) -> bool:
    return time is None or time < other


def nested_update(column: pa.Array, steps: ColumnSteps, function: ColumnFunction) -> pa.Array:
    """Return the rows of all arrays of each key; with a nested key, the later of two rows with one key wins."""
    steps = steps.since_reset().with_values(column)
    cells = _Cells.of(column, steps.rows)
    valid = cells.entries.is_valid().to_pylist()
    keyed = bool(function.nested_key)
    same = (_part_codes(cells.entries, function.nested_key) if keyed else codes(cells.entries)).tolist()
    ages = _ages(cells.entries, function)
    limit = function.count_limit

    def upsert_entries(entries: Iterable[int]) -> Entries:
        kept: dict[int, int] = {}
        for entry in entries:
            mine = kept.get(same[entry])
            if valid[entry] and (mine is None or ages[entry] >= ages[mine]):
                kept[same[entry]] = entry
        return list(kept.values())

    def combine(here: Entries, more: Entries) -> Entries:
        if limit is not None:
            if len(here) >= limit:
                return here
            more = [entry for entry in more if valid[entry]][: limit - len(here)]
        both = (*here, *more)
        return upsert_entries(both) if keyed else [entry for entry in both if valid[entry]]

    def remove(here: Entries, gone: Entries) -> Entries:
        keys = {same[entry] for entry in gone if valid[entry]}
        mine = upsert_entries(here) if keyed else [entry for entry in here if valid[entry]]
        return [entry for entry in mine if same[entry] not in keys]

    return _build_lists(_Fold(combine, remove).run(cells, steps), cells, column.type)


def _part_codes(rows: pa.Array, names: Sequence[str]) -> UInt64Array:
    """Return a number for each row, the same where some of its fields are."""
    return row_codes([rows.field(rows.type.get_field_index(name)) for name in names], len(rows))


def _ages(rows: pa.Array, function: ColumnFunction) -> Sequence[int]:
    """Return numbers that compare as the sequence fields of rows do; all the same where there are none."""
    ages = np.zeros(len(rows), np.int64)
    if function.nested_sequence and len(rows):
        fields = [field for field in row_parts(function.type) if field.name in function.nested_sequence]
        fields.sort(key=lambda field: function.nested_sequence.index(field.name))
        parts = {field.name: rows.field(rows.type.get_field_index(field.name)) for field in fields}
        ordered = sorted_rows(pa.table(parts), [SortColumn(field) for field in fields])
        ages[ordered.order] = np.cumsum(ordered.new)
    numbers: list[int] = ages.tolist()
    return numbers


def nested_partial_update(column: pa.Array, steps: ColumnSteps, function: ColumnFunction) -> pa.Array:
    """Return the rows of all arrays of each key; fields that are not null go into the row of the same nested key."""
    steps = steps.since_reset().with_values(column)
    cells = _Cells.of(column, steps.rows)
    rows = cells.entries
    valid = rows.is_valid().to_pylist()
    same = _part_codes(rows, function.nested_key).tolist()
    parts = [rows.field(n) for n in range(rows.type.num_fields)]
    filled = [part.is_valid().to_pylist() for part in parts]
    sources: list[list[int]] = [[entry] * len(parts) for entry in range(len(rows))]  # of each field of each row

    def combine(here: Entries, more: Entries) -> Entries:
        kept: dict[int, int] = {}
        for entry in (*here, *more):
            if not valid[entry]:
                continue
            mine = kept.get(same[entry])
            if mine is None:
                kept[same[entry]] = entry
                continue
            kept[same[entry]] = len(sources)
            same.append(same[entry])
            valid.append(True)
            sources.append(
                [
                    new if filled[n][new] else old
                    for n, (old, new) in enumerate(zip(sources[mine], sources[entry], strict=True))
                ]
            )
        return list(kept.values())

    accumulators = _Fold(combine, _never).run(cells, steps)
    chosen = [entry for entries in accumulators if entries is not None for entry in entries]
    taken = [part.take(pa.array([sources[entry][n] for entry in chosen], pa.int64())) for n, part in enumerate(parts)]
    missing = pa.array([not valid[entry] for entry in chosen], pa.bool_())
    built = pa.StructArray.from_arrays(taken, fields=list(rows.type), mask=missing)
    return list_of(built, _owners(accumulators), _present(steps), column.type)


def bitmap_union(column: pa.Array, steps: ColumnSteps, function: ColumnFunction) -> pa.Array:
    """Return the union of the bitmaps of each key."""
    steps = steps.since_reset().with_values(column)
    out: list[bytes | None] = [None] * steps.count
    starts = steps.starts.tolist()
    cells = column.take(pa.array(steps.rows)).to_pylist()
    owners = steps.group.tolist()
    for begin, end in zip(starts, [*starts[1:], len(cells)], strict=True):
        if end - begin == 1:
            out[owners[begin]] = cells[begin]
            continue
        try:
            maps = [BitMap.deserialize(cell) for cell in cells[begin:end]]
        except ValueError as cause:
            raise CorruptTableError(
                f"a value of the column {function.column!r} is no bitmap: {cause}", column=function.column
            ) from cause
        union = BitMap.union(*maps)
        union.run_optimize()
        out[owners[begin]] = union.serialize()
    return pa.array(out, column.type)


def _never(here: Entries, gone: Entries) -> Entries:
    message = f"{pluralize(len(gone), 'entry')} of {len(here)} cannot be taken back"
    raise AssertionError(message)  # the caller refuses retracts of such functions


@dataclass(frozen=True, slots=True)
class _Fold:
    """How steps change the accumulator of a key."""

    combine: Callable[[Entries, Entries], Entries]
    remove: Callable[[Entries, Entries], Entries]
    late_last: bool = False  # late values go to the end too
    first: Callable[[Entries], Entries] = lambda new: new

    def run(self, cells: _Cells, steps: ColumnSteps) -> list[Entries | None]:
        """Return the entries that each key ends with, None where it has no value."""
        accumulators: list[Entries | None] = [None] * steps.count
        offsets = cells.offsets.tolist()
        for at, (key, op) in enumerate(zip(steps.group.tolist(), steps.ops.tolist(), strict=True)):
            new = range(offsets[at], offsets[at + 1])
            here = accumulators[key]
            if op == RESET:
                accumulators[key] = new
            elif here is None:
                accumulators[key] = None if op == RETRACT else self.first(new)
            elif op == RETRACT:
                accumulators[key] = self.remove(here, new)
            elif op == LATE and not self.late_last:
                accumulators[key] = self.combine(new, here)
            else:
                accumulators[key] = self.combine(here, new)
        return accumulators


def _owners(accumulators: Sequence[Entries | None]) -> UInt64Array:
    lengths = [0 if entries is None else len(entries) for entries in accumulators]
    return np.repeat(np.arange(len(accumulators)), lengths)


def _build_lists(accumulators: Sequence[Entries | None], cells: _Cells, kind: pa.DataType) -> pa.Array:
    chosen = [entry for entries in accumulators if entries is not None for entry in entries]
    present = np.array([entries is not None for entries in accumulators], np.bool_)
    return list_of(cells.entries.take(pa.array(chosen, pa.int64())), _owners(accumulators), present, kind)


def _present(steps: ColumnSteps) -> Flags:
    present = np.zeros(steps.count, np.bool_)
    present[steps.group] = True
    return present


NESTED: Mapping[str, Callable[[pa.Array, ColumnSteps, ColumnFunction], pa.Array]] = {
    "collect": collect,
    "merge_map": merge_map,
    "merge_map_with_keytime": merge_map_with_keytime,
    "nested_update": nested_update,
    "nested_partial_update": nested_partial_update,
    "rbm32": bitmap_union,
}

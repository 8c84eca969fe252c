"""The merge engine aggregation and its functions that select values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import InvalidInputError
from lakewright.lsm.column_functions import (
    LAST,
    LAST_NON_NULL,
    RETRACTABLE,
    ColumnFunction,
    check_takes_no_function,
    column_function,
    named_function,
    option_of,
)
from lakewright.lsm.key_groups import (
    ADD,
    LATE,
    NONE,
    RESET,
    RETRACT,
    ColumnSteps,
    KeyGroups,
    clear_deleted,
    merge_several,
    one_array,
    pick_values,
    split_at_deletes,
    take_sorted_rows,
    without_other_rows,
)
from lakewright.lsm.key_order import sort_layers
from lakewright.lsm.nested_aggregates import NESTED, list_of, unmatched_retracts
from lakewright.lsm.normalized_keys import UInt64Array, Words, column_parts, normalize_columns
from lakewright.lsm.numeric_aggregates import add_up, multiply
from lakewright.spec.binary_row import null_mask
from lakewright.spec.system_columns import DELETE, INSERT, RETRACTS, UPDATE_BEFORE, VALUE_KIND
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import DataType

# ---- Aggregate functions ---------------------------------------------------------------------------------------------
# Most functions choose one of the values of a key, so they work on positions and never look at a type: the result is
# a single `take`. A step that a function cannot take back is an error that names the column and the remedy.

Aggregate: TypeAlias = Callable[[pa.Array, ColumnSteps, ColumnFunction], pa.Array]


def aggregate_column(column: pa.Array, steps: ColumnSteps, function: ColumnFunction) -> pa.Array:
    """Return what a function makes of a column, one value per key."""
    if function.ignore_retract:
        steps = steps.only(steps.ops != RETRACT)
    elif steps.has(RETRACT):
        check_retractable(function)
    return AGGREGATES[function.name](column, steps, function)


def check_retractable(function: ColumnFunction) -> None:
    """Refuse a retract where the function can neither take a value back nor leave it."""
    if function.name not in RETRACTABLE and not function.ignore_retract:
        raise InvalidInputError(
            f"a row of kind -U or -D came, but the function {function.name!r} of the column {function.column!r} cannot"
            f" take a value back: leave such rows out ('ignore-delete' = true), or set"
            f" 'fields.{function.column}.ignore-retract' = true",
            column=function.column,
            option=function.option,
        )


def last_value(column: pa.Array, steps: ColumnSteps) -> pa.Array:
    """Return the value of the last row of each key, even null; null where that one was taken back."""
    steps = steps.since_reset()
    steps = steps.only(steps.ops != LATE)
    return _unless_retracted(column, steps, steps.last())


def last_non_null(column: pa.Array, steps: ColumnSteps) -> pa.Array:
    """Return the last value of each key that is not null; null where such a one was taken back."""
    steps = steps.since_reset()
    late = steps.ops == LATE
    if not late.any():
        nulls = null_mask(column)
        return _unless_retracted(column, steps, steps.last(None if nulls is None else ~nulls[steps.rows]))
    steps = steps.with_values(column)
    late = steps.ops == LATE
    # A late value counts only for a key without a value: no other step, or the last of them took the value back.
    latest = steps.last(~late)
    empty = (latest == NONE) | (steps.ops[latest] == RETRACT) if len(steps) else latest == NONE
    after = late & (np.arange(len(steps)) > latest[steps.group])
    return pick_values(column, steps.rows_at(np.where(empty, steps.first(after), latest)))


def _unless_retracted(column: pa.Array, steps: ColumnSteps, places: UInt64Array) -> pa.Array:
    rows = steps.rows_at(places)
    if steps.has(RETRACT):
        rows[steps.ops[places] == RETRACT] = NONE
    return pick_values(column, rows)


def first_value(column: pa.Array, steps: ColumnSteps) -> pa.Array:
    """Return the value of the first row of each key, even null."""
    return pick_values(column, steps.rows_at(_first_places(steps)))


def first_non_null(column: pa.Array, steps: ColumnSteps) -> pa.Array:
    """Return the first value of each key that is not null."""
    valid = np.asarray(column.is_valid())
    steps = steps.only(valid[steps.rows] | (steps.ops == RESET))
    rows = steps.rows_at(_first_places(steps))
    empty = (rows == NONE) | ~valid[rows]
    if empty.any() and (steps.has(RESET) or steps.has(LATE)):
        resets = steps.last(steps.ops == RESET)
        after = (steps.ops != RESET) & (np.arange(len(steps)) > resets[steps.group])
        rows = np.where(empty, steps.rows_at(steps.first(after)), rows)
    return pick_values(column, rows)


def _first_places(steps: ColumnSteps) -> UInt64Array:
    """Return the place of the step that is the first of each key.

    A row that is late comes before all others. A reset gives the value, but is itself not a first row: where none came
    before it, the next that comes is the first.
    """
    if not steps.has(LATE) and not steps.has(RESET):
        return steps.first()
    resets = steps.last(steps.ops == RESET)
    came = steps.first(steps.ops != RESET)
    takes = (came > resets) & (steps.ops[came] == ADD) if len(steps) else came > resets
    base = np.where(takes, came, resets)
    late = steps.last(steps.ops == LATE)
    return np.where(late > np.maximum(resets, came), late, base)


def _extreme(column: pa.Array, steps: ColumnSteps, dtype: DataType, reduce: np.ufunc) -> pa.Array:
    steps = steps.since_reset().with_values(column)
    if len(steps) == 0:
        return pa.nulls(steps.count, column.type)
    images = _images(column.take(pa.array(steps.rows)), dtype)
    starts = steps.starts
    best = reduce.reduceat(images, starts)
    lengths = np.diff(np.append(starts, len(steps)))
    return pick_values(column, steps.rows_at(steps.first(images == np.repeat(best, lengths))))


def _images(values: pa.Array, dtype: DataType) -> Words:
    """Return numbers that compare as values do."""
    layers = normalize_columns(column_parts(values, dtype))
    if not layers:
        return np.zeros(len(values), np.uint64)
    if len(layers) == 1:
        return layers[0].words()
    ordered = sort_layers(layers, len(values))
    out = np.empty(len(values), np.uint64)
    out[ordered.order] = np.cumsum(ordered.new)
    return out


def listagg(column: pa.Array, steps: ColumnSteps, function: ColumnFunction) -> pa.Array:
    """Return the texts of each key with the delimiter between them; empty ones count only where all are."""
    steps = steps.since_reset().with_values(column).by_age()
    if len(steps) == 0:
        return pa.nulls(steps.count, column.type)
    filled = np.asarray(pc.binary_length(column.take(pa.array(steps.rows)))) > 0
    blank = np.ones(steps.count, np.bool_)
    blank[steps.group[filled]] = False
    first = np.zeros(len(steps), np.bool_)
    first[steps.starts] = True
    steps = steps.only(filled | (first & blank[steps.group]))
    if function.distinct:
        return _distinct_texts(column, steps, function.delimiter)
    texts = list_of(column.take(pa.array(steps.rows)), steps.group, _present(steps), pa.list_(column.type))
    return pc.binary_join(texts, function.delimiter)


def _present(steps: ColumnSteps) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    present = np.zeros(steps.count, np.bool_)
    present[steps.group] = True
    return present


def _distinct_texts(column: pa.Array, steps: ColumnSteps, delimiter: str) -> pa.Array:
    """Join texts, leaving out parts that came before; the first text of a key stays as it is."""
    texts: Sequence[str] = column.take(pa.array(steps.rows)).to_pylist()
    out: list[str | None] = [None] * steps.count
    starts = steps.starts.tolist()
    owners = steps.group[steps.starts].tolist()
    for key, begin, end in zip(owners, starts, [*starts[1:], len(texts)], strict=True):
        seen = set(texts[begin].split(delimiter))
        new = dict.fromkeys(part for text in texts[begin + 1 : end] for part in text.split(delimiter))
        out[key] = delimiter.join([texts[begin], *(part for part in new if part and part not in seen)])
    return pa.array(out, column.type)


def lost_retracts(column: pa.Array, steps: ColumnSteps, function: ColumnFunction) -> pa.Array | None:
    """Return what the retracts of each key take from older rows that are not here, beyond what `aggregated` tells.

    The value, taken back from an older value before what `aggregated` returns is added to it, gives what all steps
    give one by one; null where nothing is lost, None where no key loses anything.
    """
    if function.ignore_retract or function.name not in _LOSSES or not steps.has(RETRACT):
        return None
    values = _LOSSES[function.name](column, steps.with_values(column), function)
    return values if values.null_count < len(values) else None


def _lost_last(column: pa.Array, steps: ColumnSteps, _: ColumnFunction) -> pa.Array:
    """Return the value that was taken back where nothing came after it: it leaves null, which no added row does."""
    places = steps.last()
    rows = steps.rows_at(places)
    if len(steps):
        rows[steps.ops[places] != RETRACT] = NONE
    return pick_values(column, rows)


def _lost_factor(column: pa.Array, steps: ColumnSteps, function: ColumnFunction) -> pa.Array:
    """Return the product of the divisors that come before the first factor: without a number they divide nothing."""
    added = steps.first(steps.ops != RETRACT)[steps.group] if len(steps) else steps.rows
    leading = steps.only((added == NONE) | (np.arange(len(steps)) < added))
    return multiply(column, _as_adds(leading), function)


def _lost_entries(column: pa.Array, steps: ColumnSteps, function: ColumnFunction) -> pa.Array:
    """Return all entries that were taken back: older rows lose them, whatever came in between."""
    gone = _as_adds(steps.only(steps.ops == RETRACT))
    return NESTED[function.name](column, gone, replace(function, count_limit=None))


def _lost_elements(column: pa.Array, steps: ColumnSteps, function: ColumnFunction) -> pa.Array:
    """Return the elements that were taken back although no row here had brought them."""
    return _lost_entries(column, steps, function) if function.distinct else unmatched_retracts(column, steps)


def _as_adds(steps: ColumnSteps) -> ColumnSteps:
    return ColumnSteps(steps.rows, np.full(len(steps), ADD, np.int8), steps.group, steps.count)


_NULL_COUNTS = frozenset({LAST, "first_value"})  # a row that adds null is not the same to these as no row
_LOSSES: Mapping[str, Aggregate] = {
    LAST_NON_NULL: _lost_last,
    "product": _lost_factor,
    "collect": _lost_elements,
    "merge_map": _lost_entries,
    "nested_update": _lost_entries,
}


def loses_retracts(function: ColumnFunction) -> bool:
    """Whether a retract is not told by the merged value alone, as long as older rows are missing."""
    return function.name in (_NULL_COUNTS if function.ignore_retract else _LOSSES)


def taken_back(column: pa.Array, steps: ColumnSteps, function: ColumnFunction) -> pa.Array:
    """Return the value that takes back what the steps of each key, which are all retracts, take back one by one."""
    if function.ignore_retract:
        return pa.nulls(steps.count, column.type)
    return AGGREGATES[function.name](column, _as_adds(steps), replace(function, count_limit=None))


# By the names of `column_functions.FITS`.
AGGREGATES: dict[str, Aggregate] = {
    "sum": add_up,
    "product": multiply,
    "max": lambda column, steps, function: _extreme(column, steps, function.type, np.maximum),
    "min": lambda column, steps, function: _extreme(column, steps, function.type, np.minimum),
    "bool_or": lambda column, steps, function: _extreme(column, steps, function.type, np.maximum),
    "bool_and": lambda column, steps, function: _extreme(column, steps, function.type, np.minimum),
    LAST: lambda column, steps, _: last_value(column, steps),
    LAST_NON_NULL: lambda column, steps, _: last_non_null(column, steps),
    "first_value": lambda column, steps, _: first_value(column, steps),
    "first_non_null_value": lambda column, steps, _: first_non_null(column, steps),
    "listagg": listagg,
    **NESTED,
}


# ---- The merge engine ------------------------------------------------------------------------------------------------
# Key columns keep their value, sequence fields that of the last row, and a column without a function the last value
# that is not null. A retract is taken back from each column; with `aggregation.remove-record-on-delete` a -D instead
# makes the record what its own row says, deleted.


@dataclass(frozen=True, slots=True)
class Aggregation:
    """How a table of the merge engine aggregation makes one row of several."""

    functions: Mapping[str, ColumnFunction]  # of all columns but those of the key
    remove_on_delete: bool
    sequence: tuple[str, ...]
    required: frozenset[str]  # columns that must not be null, whatever the type of the rows says

    @classmethod
    def of_schema(cls, schema: TableSchema) -> Aggregation:
        """Read the functions of all columns, and refuse what does not exist or does not fit."""
        options = schema.table_options
        sequence = options.sequence_field
        default = options.fields_default_aggregate_function or LAST_NON_NULL
        functions = {}
        for name in schema.field_names:
            if name not in schema.primary_keys:
                asked = LAST if name in sequence else named_function(schema, name) or default
                functions[name] = column_function(schema, name, asked)
        remove = options.aggregation_remove_record_on_delete
        ignoring = [name for name, function in functions.items() if function.ignore_retract]
        if remove and ignoring:
            raise InvalidInputError(
                "'aggregation.remove-record-on-delete' cannot be combined with"
                f" {option_of(ignoring[0], 'ignore-retract')!r}: remove one of them",
                column=ignoring[0],
                option="aggregation.remove-record-on-delete",
            )
        required = frozenset(field.name for field in schema.fields if not field.type.nullable)
        return cls(functions, remove, tuple(sequence), required)

    def needed_columns(self, columns: AbstractSet[str]) -> AbstractSet[str]:
        """Return the same columns: each is made from itself alone."""
        return columns

    def check_kinds(self, kinds: AbstractSet[int]) -> None:
        """Refuse rows that take something back where a function cannot; a -D that removes the record does not."""
        retracts = RETRACTS - {DELETE} if self.remove_on_delete else RETRACTS
        if not kinds.isdisjoint(retracts):
            for function in self.functions.values():
                check_retractable(function)

    @property
    def keeps_apart(self) -> bool:
        """Whether a retract may say more than one merged row can express as long as older rows are missing."""
        return self.remove_on_delete or any(map(loses_retracts, self.functions.values()))

    def merge_apart(self, groups: KeyGroups) -> list[pa.Table]:
        """Return the rows that remove a record, or take from older rows what these alone have, and the merged rows."""
        groups = without_other_rows(groups)
        kinds = groups.rows.column(VALUE_KIND.name).to_numpy()[groups.order]
        if self.remove_on_delete and bool((kinds == DELETE).any()):
            *older, latest = split_at_deletes(replace(groups, rows=self._clear_deleted(groups.rows)), kinds == DELETE)
            return [*(merge_several(layer, self.merge) for layer in older), *self._merge_latest(latest)]
        return self._merge_latest(groups)

    def _clear_deleted(self, rows: pa.Table) -> pa.Table:
        """Let rows that remove a record hold no values, or values from which later rows begin as if there were none."""
        rows = clear_deleted(rows, {*self.functions} - {*self.sequence} - self.required)
        deletes = rows.column(VALUE_KIND.name).to_numpy() == DELETE
        for at, field in enumerate(rows.schema):
            if field.name in self.required and field.name in self.functions and field.name not in self.sequence:
                values = one_array(rows.column(field.name))
                kept = values.take(pa.array(np.arange(len(rows)), mask=deletes))
                rows = rows.set_column(at, field, _without_nulls(kept, values, self.functions[field.name]))
        return rows

    def _merge_latest(self, groups: KeyGroups) -> list[pa.Table]:
        kinds = groups.rows.column(VALUE_KIND.name).to_numpy()[groups.order]
        adds = (kinds != UPDATE_BEFORE) & (kinds != DELETE)
        counts = groups.ends - groups.starts
        retract = np.repeat(~np.logical_or.reduceat(adds, groups.starts), counts) if len(groups) else adds
        merged = merge_several(groups.only(~retract), self.merge)
        if retract.any():  # the merged row of such rows would add
            lone = merge_several(groups.only(retract), self._merge_retracts)
            place = np.empty(len(groups), np.int64)
            place[np.append(np.flatnonzero(~retract[groups.starts]), np.flatnonzero(retract[groups.starts]))] = (
                np.arange(len(groups))
            )
            merged = take_sorted_rows(pa.concat_tables([merged, lone]), place)
        before = self._lost_rows(groups.only(~retract))
        return [merged] if before is None else [before, merged]

    def _merge_retracts(self, groups: KeyGroups) -> pa.Table:
        """Return a row of kind -U per group, whose rows all retract."""
        rows, steps = groups.rows, self._steps(groups)
        last = take_sorted_rows(rows, groups.order[groups.ends - 1])
        columns = []
        for field in rows.schema:
            column = one_array(last.column(field.name))
            if field.name == VALUE_KIND.name:
                columns.append(pa.array(np.full(len(groups), UPDATE_BEFORE, np.int8)))
            elif field.name not in self.functions or field.name in self.sequence:
                columns.append(column)
            else:
                function = self.functions[field.name]
                gone = taken_back(one_array(rows.column(field.name)), steps, function)
                columns.append(_without_nulls(gone, column, function) if field.name in self.required else gone)
        return pa.Table.from_arrays(columns, schema=rows.schema)

    def _lost_rows(self, groups: KeyGroups) -> pa.Table | None:
        """Return a row of kind -U for each key of several rows that take back what only older rows have."""
        several = groups.only(np.repeat(groups.ends - groups.starts > 1, groups.ends - groups.starts))
        rows = several.rows
        steps = self._steps(several)
        values = {name: lost_retracts(one_array(rows.column(name)), steps, f) for name, f in self.functions.items()}
        found = [array.is_valid().to_numpy(zero_copy_only=False) for array in values.values() if array is not None]
        if not found:
            return None
        keys = np.flatnonzero(np.logical_or.reduce(found))
        first = take_sorted_rows(rows, several.order[several.starts[keys]])
        columns = []
        for field in rows.schema:
            if field.name == VALUE_KIND.name:
                columns.append(pa.array(np.full(len(keys), UPDATE_BEFORE, np.int8)))
            elif field.name not in self.functions or field.name in self.sequence:
                columns.append(one_array(first.column(field.name)))
            else:
                array = values[field.name]
                gone = pa.nulls(len(keys), field.type) if array is None else array.take(pa.array(keys))
                columns.append(
                    gone
                    if field.name not in self.required
                    else _without_nulls(gone, one_array(first.column(field.name)), self.functions[field.name])
                )
        return pa.Table.from_arrays(columns, schema=rows.schema)

    def _steps(self, groups: KeyGroups) -> ColumnSteps:
        kinds = groups.rows.column(VALUE_KIND.name).to_numpy()[groups.order]
        ops = np.full(len(kinds), ADD, np.int8)
        ops[(kinds == UPDATE_BEFORE) | (kinds == DELETE)] = RETRACT
        if self.remove_on_delete:
            ops[kinds == DELETE] = RESET
        return ColumnSteps(
            groups.order, ops, np.repeat(np.arange(len(groups)), groups.ends - groups.starts), len(groups)
        )

    def merge(self, groups: KeyGroups) -> pa.Table:
        """Return one row per group."""
        groups = without_other_rows(groups)
        rows = groups.rows
        kinds = rows.column(VALUE_KIND.name).to_numpy()[groups.order]
        deleted = np.zeros(len(groups), np.bool_)
        if self.remove_on_delete:
            deleted = kinds[groups.ends - 1] == DELETE
        steps = self._steps(groups)
        last = pa.array(groups.order[groups.ends - 1])
        columns = []
        for name in rows.column_names:
            if name == VALUE_KIND.name:
                columns.append(pa.array(np.where(deleted, DELETE, INSERT).astype(np.int8)))
            elif name in self.sequence:
                # A retract has an age too. Without it the merged row would be the oldest of all.
                ages = replace(steps, ops=np.where(steps.ops == RETRACT, ADD, steps.ops))
                columns.append(aggregate_column(one_array(rows.column(name)), ages, self.functions[name]))
            elif name in self.functions:
                columns.append(aggregate_column(one_array(rows.column(name)), steps, self.functions[name]))
            else:
                columns.append(one_array(rows.column(name)).take(last))
        return pa.Table.from_arrays(columns, schema=rows.schema)


_NEUTRAL: Mapping[str, object] = {
    "sum": 0,
    "product": 1,
    "listagg": "",
    "collect": [],
    "merge_map": [],
    "nested_update": [],
}


def _without_nulls(values: pa.Array, others: pa.Array, function: ColumnFunction) -> pa.Array:
    """Replace nulls by a value that takes nothing away, or by another value of a function that does not look at it."""
    if function.name not in _NEUTRAL or function.ignore_retract:
        return pc.coalesce(values, others)
    neutral = pa.array([_NEUTRAL[function.name]], values.type)
    places = np.where(values.is_valid().to_numpy(zero_copy_only=False), np.arange(len(values)), len(values))
    return pa.concat_arrays([values, neutral]).take(pa.array(places))


def check_aggregation(schema: TableSchema) -> None:
    """Refuse options of a new table that would have no effect, besides those that cannot work."""
    made = Aggregation.of_schema(schema)
    sequence = schema.table_options.sequence_field
    check_takes_no_function(schema, sequence, "'sequence.field'")
    first = [name for name, function in made.functions.items() if function.name == "first_value"]
    if made.remove_on_delete and first:
        raise InvalidInputError(
            f"the column {first[0]!r} keeps the first value of a record even when the record is removed and comes back,"
            " until a compaction has forgotten the deleted record: use 'first_non_null_value', or remove"
            " 'aggregation.remove-record-on-delete'",
            column=first[0],
            option="aggregation.remove-record-on-delete",
        )

"""Aggregate functions: the steps of a column in, one value per key out.

Most functions choose one of the values of a key, so they work on positions and never look at a type: the result
is a single `take`. A step that a function cannot take back is an error that names the column and the remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import InvalidInputError
from lakewright.lsm.functions.arithmetic import add_up, multiply
from lakewright.lsm.functions.column_functions import LAST, LAST_NON_NULL, RETRACTABLE, ColumnFunction
from lakewright.lsm.functions.nested_aggregates import NESTED, list_of, unmatched
from lakewright.lsm.functions.steps import ADD, LATE, NONE, RESET, RETRACT, Steps, picked
from lakewright.lsm.images import Longs, Words, column_parts, layers_of
from lakewright.lsm.sorting import sort_layers
from lakewright.spec.rows.binary_row import null_mask
from lakewright.spec.types import DataType

Aggregate: TypeAlias = Callable[[pa.Array, Steps, ColumnFunction], pa.Array]


def aggregated(column: pa.Array, steps: Steps, function: ColumnFunction) -> pa.Array:
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


def last_value(column: pa.Array, steps: Steps) -> pa.Array:
    """Return the value of the last row of each key, even null; null where that one was taken back."""
    steps = steps.since_reset()
    steps = steps.only(steps.ops != LATE)
    return _unless_retracted(column, steps, steps.last())


def last_non_null(column: pa.Array, steps: Steps) -> pa.Array:
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
    return picked(column, steps.rows_at(np.where(empty, steps.first(after), latest)))


def _unless_retracted(column: pa.Array, steps: Steps, places: Longs) -> pa.Array:
    rows = steps.rows_at(places)
    if steps.has(RETRACT):
        rows[steps.ops[places] == RETRACT] = NONE
    return picked(column, rows)


def first_value(column: pa.Array, steps: Steps) -> pa.Array:
    """Return the value of the first row of each key, even null."""
    return picked(column, steps.rows_at(_first_places(steps)))


def first_non_null(column: pa.Array, steps: Steps) -> pa.Array:
    """Return the first value of each key that is not null."""
    valid = np.asarray(column.is_valid())
    steps = steps.only(valid[steps.rows] | (steps.ops == RESET))
    rows = steps.rows_at(_first_places(steps))
    empty = (rows == NONE) | ~valid[rows]
    if empty.any() and (steps.has(RESET) or steps.has(LATE)):
        resets = steps.last(steps.ops == RESET)
        after = (steps.ops != RESET) & (np.arange(len(steps)) > resets[steps.group])
        rows = np.where(empty, steps.rows_at(steps.first(after)), rows)
    return picked(column, rows)


def _first_places(steps: Steps) -> Longs:
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


def _extreme(column: pa.Array, steps: Steps, dtype: DataType, reduce: np.ufunc) -> pa.Array:
    steps = steps.since_reset().with_values(column)
    if len(steps) == 0:
        return pa.nulls(steps.count, column.type)
    images = _images(column.take(pa.array(steps.rows)), dtype)
    starts = steps.starts
    best = reduce.reduceat(images, starts)
    lengths = np.diff(np.append(starts, len(steps)))
    return picked(column, steps.rows_at(steps.first(images == np.repeat(best, lengths))))


def _images(values: pa.Array, dtype: DataType) -> Words:
    """Return numbers that compare as values do."""
    layers = layers_of(column_parts(values, dtype))
    if not layers:
        return np.zeros(len(values), np.uint64)
    if len(layers) == 1:
        return layers[0].words()
    ordered = sort_layers(layers, len(values))
    out = np.empty(len(values), np.uint64)
    out[ordered.order] = np.cumsum(ordered.new)
    return out


def listagg(column: pa.Array, steps: Steps, function: ColumnFunction) -> pa.Array:
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


def _present(steps: Steps) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    present = np.zeros(steps.count, np.bool_)
    present[steps.group] = True
    return present


def _distinct_texts(column: pa.Array, steps: Steps, delimiter: str) -> pa.Array:
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


def lost(column: pa.Array, steps: Steps, function: ColumnFunction) -> pa.Array | None:
    """Return what the retracts of each key take from older rows that are not here, beyond what `aggregated` tells.

    The value, taken back from an older value before what `aggregated` returns is added to it, gives what all steps
    give one by one; null where nothing is lost, None where no key loses anything.
    """
    if function.ignore_retract or function.name not in _LOSSES or not steps.has(RETRACT):
        return None
    values = _LOSSES[function.name](column, steps.with_values(column), function)
    return values if values.null_count < len(values) else None


def _lost_last(column: pa.Array, steps: Steps, _: ColumnFunction) -> pa.Array:
    """Return the value that was taken back where nothing came after it: it leaves null, which no added row does."""
    places = steps.last()
    rows = steps.rows_at(places)
    if len(steps):
        rows[steps.ops[places] != RETRACT] = NONE
    return picked(column, rows)


def _lost_factor(column: pa.Array, steps: Steps, function: ColumnFunction) -> pa.Array:
    """Return the product of the divisors that come before the first factor: without a number they divide nothing."""
    added = steps.first(steps.ops != RETRACT)[steps.group] if len(steps) else steps.rows
    leading = steps.only((added == NONE) | (np.arange(len(steps)) < added))
    return multiply(column, _as_adds(leading), function)


def _lost_entries(column: pa.Array, steps: Steps, function: ColumnFunction) -> pa.Array:
    """Return all entries that were taken back: older rows lose them, whatever came in between."""
    gone = _as_adds(steps.only(steps.ops == RETRACT))
    return NESTED[function.name](column, gone, replace(function, count_limit=None))


def _lost_elements(column: pa.Array, steps: Steps, function: ColumnFunction) -> pa.Array:
    """Return the elements that were taken back although no row here had brought them."""
    return _lost_entries(column, steps, function) if function.distinct else unmatched(column, steps)


def _as_adds(steps: Steps) -> Steps:
    return Steps(steps.rows, np.full(len(steps), ADD, np.int8), steps.group, steps.count)


_LOSSES: Mapping[str, Aggregate] = {
    LAST_NON_NULL: _lost_last,
    "product": _lost_factor,
    "collect": _lost_elements,
    "merge_map": _lost_entries,
    "nested_update": _lost_entries,
}


def loses_retracts(function: ColumnFunction) -> bool:
    """Whether a retract is not told by the merged value alone, as long as older rows are missing."""
    return function.name in _LOSSES and not function.ignore_retract


AGGREGATES: Mapping[str, Aggregate] = {
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

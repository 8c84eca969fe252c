"""Sums and products, exactly.

Integers never wrap around: a result that does not fit the type of its column is an error. A decimal that does not fit
becomes null, and the next value starts again from there. Floats are added and multiplied one after the other in merge
order, because another order gives other last bits. Keys whose result might not fit, and keys that divide, are worked
out step by step; all others at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakewright.errors import InvalidInputError
from lakewright.lsm.column_functions import ColumnFunction
from lakewright.lsm.key_groups import RETRACT, ColumnSteps
from lakewright.lsm.normalized_keys import Flags, UInt64Array, Words
from lakewright.spec.binary_row import fixed_values
from lakewright.spec.types import INTEGER_BITS, AtomicType

_Floats: TypeAlias = npt.NDArray[np.floating]
_Limbs: TypeAlias = list[UInt64Array]  # of a number: 32 bits each, the lowest first, the highest signed

_LIMB = 32
_MASK = (1 << _LIMB) - 1
_LONG_LIMIT = 1 << 63
_DECIMAL_BYTES = 16
_MARGIN = 1 - 1e-9  # what sums of doubles may be wrong by, and more


def add_up(column: pa.Array, steps: ColumnSteps, function: ColumnFunction) -> pa.Array:
    """Return the sum of each key; retracts are subtracted."""
    steps = steps.since_reset().with_values(column)
    dtype = _atomic(function)
    if dtype.root in INTEGER_BITS:
        return _integer_sums(column, steps, function)
    if dtype.root == "DECIMAL":
        return _decimal_sums(column, steps, dtype)
    values = _floats(column, steps, dtype)
    np.negative(values, out=values, where=steps.ops == RETRACT)
    return _spread(_one_by_one(np.add, values, steps), steps, column.type)


def multiply(column: pa.Array, steps: ColumnSteps, function: ColumnFunction) -> pa.Array:
    """Return the product of each key; retracts divide, and are lost where there is nothing to divide."""
    steps = steps.since_reset().with_values(column)
    dtype = _atomic(function)
    if dtype.root in INTEGER_BITS:
        return _integer_products(column, steps, function)
    if dtype.root == "DECIMAL":
        return _decimal_products(column, steps, function)
    values = _floats(column, steps, dtype)
    products = _one_by_one(np.multiply, values, steps)
    if steps.has(RETRACT):
        missing = np.zeros(len(products), np.bool_)
        for key, span in _spans(steps, np.bitwise_or.reduceat(steps.ops == RETRACT, steps.starts)):
            product = _float_product(values[span], steps.ops[span])
            missing[key] = product is None
            products[key] = 0 if product is None else product
        return _spread(products, steps, column.type, missing)
    return _spread(products, steps, column.type)


def _atomic(function: ColumnFunction) -> AtomicType:
    assert isinstance(function.type, AtomicType), "checked when the function was read"  # noqa: S101 - for the type
    return function.type


def _spread(
    values: npt.NDArray[np.generic], steps: ColumnSteps, kind: pa.DataType, missing: Flags | None = None
) -> pa.Array:
    """Give each key its number; a key without steps has none."""
    owners = steps.group[steps.starts]
    none = np.ones(steps.count, np.bool_)
    none[owners] = False if missing is None else missing
    out = np.zeros(steps.count, values.dtype)
    out[owners] = values
    return pa.array(out, kind, mask=none) if none.any() else pa.array(out, kind)


def _spans(steps: ColumnSteps, which: Flags) -> Iterable[tuple[int, slice]]:
    """Yield the number, and the places of the steps, of those keys with steps that are wanted."""
    starts = steps.starts
    ends = np.append(starts[1:], len(steps))
    for key in np.flatnonzero(which).tolist():
        yield key, slice(int(starts[key]), int(ends[key]))


def _floats(column: pa.Array, steps: ColumnSteps, dtype: AtomicType) -> _Floats:
    kind: np.dtype[np.floating] = np.dtype(np.float32 if dtype.root == "FLOAT" else np.float64)
    return fixed_values(column, kind)[steps.rows].view(kind)


def _one_by_one(operation: np.ufunc, values: _Floats, steps: ColumnSteps) -> _Floats:
    """Combine the values of each key from the first to the last, which `reduceat` would not promise."""
    starts = steps.starts
    out: _Floats = values[starts]
    if len(starts) == len(values):
        return out
    rest = np.ones(len(values), np.bool_)
    rest[starts] = False
    lengths = np.diff(np.append(starts, len(values)))
    owners = np.repeat(np.arange(len(starts)), lengths)
    with np.errstate(all="ignore"):
        operation.at(out, owners[rest], values[rest])
    return out


def _float_product(values: _Floats, ops: npt.NDArray[np.int8]) -> np.floating | None:
    product: np.floating | None = None
    with np.errstate(all="ignore"):
        for value, op in zip(values, ops.tolist(), strict=True):
            if op != RETRACT:
                product = value if product is None else product * value
            elif product is not None:
                product = product / value
    return product


def _integer_sums(column: pa.Array, steps: ColumnSteps, function: ColumnFunction) -> pa.Array:
    bits = INTEGER_BITS[_atomic(function).root]
    values = fixed_values(column, f"<i{bits // 8}")[steps.rows].astype(np.int64)
    if len(values) == 0:
        return _spread(values, steps, column.type)
    starts = steps.starts
    longest = int(np.diff(np.append(starts, len(values))).max())
    retracts = steps.ops == RETRACT
    if max(-int(values.min()), int(values.max())) * longest < _LONG_LIMIT:
        np.negative(values, out=values, where=retracts)
        sums = np.add.reduceat(values, starts)
        fits = True
    else:
        low, high = _propagate_carries(_limb_sums([values & _MASK, values >> _LIMB], retracts, starts))
        fits = bool(np.all(high == high.astype(np.int32)))
        sums = (high << _LIMB) | low
    limit = 1 << (bits - 1)
    if not fits or int(sums.min()) < -limit or int(sums.max()) >= limit:
        raise _overflow(function)
    return _spread(sums, steps, column.type)


def _limb_sums(limbs: _Limbs, retracts: Flags, starts: UInt64Array) -> _Limbs:
    """Add up the limbs of numbers, each by itself: 32 bits leave room for two thousand million of them."""
    sums = []
    for limb in limbs:
        signed = np.negative(limb, out=limb, where=retracts)
        sums.append(np.add.reduceat(signed, starts))
    return sums


def _propagate_carries(limbs: _Limbs) -> _Limbs:
    """Return the same numbers with all limbs but the highest between 0 and 2^32."""
    out = []
    carry: UInt64Array | int = 0
    for limb in limbs[:-1]:
        total = limb + carry
        out.append(total & _MASK)
        carry = total >> _LIMB
    return [*out, limbs[-1] + carry]


def _overflow(function: ColumnFunction) -> InvalidInputError:
    return InvalidInputError(
        f"the {function.name} of the column {function.column!r} does not fit its type {function.type}: give the column"
        f" a wider type, or choose another function in {function.option!r}",
        column=function.column,
        option=function.option,
    )


def _integer_products(column: pa.Array, steps: ColumnSteps, function: ColumnFunction) -> pa.Array:
    bits = INTEGER_BITS[_atomic(function).root]
    values = fixed_values(column, f"<i{bits // 8}")[steps.rows].astype(np.int64)
    if len(values) == 0:
        return _spread(values, steps, column.type)
    starts = steps.starts
    size = np.add.reduceat(np.log2(np.maximum(np.abs(values.astype(np.float64)), 1)), starts)
    doubtful = (size >= (bits - 1) * _MARGIN) | np.bitwise_or.reduceat(steps.ops == RETRACT, starts)
    products = np.multiply.reduceat(values, starts)
    missing = np.zeros(len(products), np.bool_)
    for key, span in _spans(steps, doubtful):
        product = _exact_product(values[span].tolist(), steps.ops[span].tolist(), function, 1 << (bits - 1))
        missing[key] = product is None
        products[key] = product or 0
    return _spread(products, steps, column.type, missing)


def _exact_product(values: Sequence[int], ops: Sequence[int], function: ColumnFunction, limit: int) -> int | None:
    product: int | None = None
    for value, op in zip(values, ops, strict=True):
        if op != RETRACT:
            product = value if product is None else product * value
        elif product is not None:
            product = _towards_zero(product, _divisor(value, function))
        if product is not None and not -limit <= product < limit:
            raise _overflow(function)
    return product


def _towards_zero(number: int, by: int) -> int:
    quotient = abs(number) // abs(by)
    return quotient if (number < 0) == (by < 0) else -quotient


def _divisor(value: int, function: ColumnFunction) -> int:
    if value == 0:
        raise InvalidInputError(
            f"a retract would divide the product of the column {function.column!r} by zero: set"
            f" 'fields.{function.column}.ignore-retract' = true, or choose another function in {function.option!r}",
            column=function.column,
            option=function.option,
        )
    return value


def _decimal_sums(column: pa.Array, steps: ColumnSteps, dtype: AtomicType) -> pa.Array:
    """Add up in four limbs; keys whose sum may leave the precision on its way are added one by one."""
    halves = fixed_values(column, "<i8", 2).reshape(-1, 2)[steps.rows].astype(np.int64)
    if len(halves) == 0:
        return pa.nulls(steps.count, column.type)
    starts = steps.starts
    retracts = steps.ops == RETRACT
    low, high = halves[:, 0].view(np.uint64), halves[:, 1]
    doubtful = np.add.reduceat(_sizes(low, high), starts) >= 10.0**dtype.precision * _MARGIN
    limbs = [(low & np.uint64(_MASK)).astype(np.int64), (low >> np.uint64(_LIMB)).astype(np.int64)]
    limbs += [high & _MASK, high >> _LIMB]
    first, second, third, fourth = _propagate_carries(_limb_sums(limbs, retracts, starts))
    sums = np.stack([(second << _LIMB) | first, (fourth << _LIMB) | third], axis=1)
    missing = np.zeros(len(sums), np.bool_)
    for key, span in _spans(steps, doubtful):
        total = _exact_sum(_unscaled_integers(halves[span]), steps.ops[span].tolist(), 10**dtype.precision)
        missing[key] = total is None
        sums[key] = np.frombuffer((total or 0).to_bytes(_DECIMAL_BYTES, "little", signed=True), np.int64)
    return _spread_decimals(sums, missing, steps, column.type)


def _sizes(low: Words, high: UInt64Array) -> npt.NDArray[np.float64]:
    """Return the absolute values of decimals as doubles, from their halves, each within a few of its last bits.

    The halves of a small number below zero are a large number and -2^64: their sum as doubles would be 0.
    """
    below = high < 0
    low_size = np.where(below, np.uint64(0) - low, low)
    high_size = np.where(below, ~high + (low == 0), high)
    sizes: npt.NDArray[np.float64] = high_size.astype(np.float64) * 2.0**64 + low_size.astype(np.float64)
    return sizes


def _exact_sum(values: Sequence[int], ops: Sequence[int], limit: int) -> int | None:
    total: int | None = None
    for value, op in zip(values, ops, strict=True):
        total = (total or 0) + (-value if op == RETRACT else value)
        if abs(total) >= limit:
            total = None
    return total


def _unscaled_integers(halves: UInt64Array) -> list[int]:
    """Return decimals as whole numbers, from their low and high halves."""
    return [(high << 64) | (low & (2**64 - 1)) for low, high in halves.tolist()]


def _spread_decimals(halves: UInt64Array, missing: Flags, steps: ColumnSteps, kind: pa.DataType) -> pa.Array:
    owners = steps.group[steps.starts]
    out = np.zeros((steps.count, 2), np.int64)
    out[owners] = halves
    present = np.zeros(steps.count, np.bool_)
    present[owners] = ~missing
    bitmap = pa.py_buffer(np.packbits(present, bitorder="little").tobytes())
    return pa.Array.from_buffers(kind, steps.count, [bitmap, pa.py_buffer(out.tobytes())])


def _decimal_products(column: pa.Array, steps: ColumnSteps, function: ColumnFunction) -> pa.Array:
    halves = fixed_values(column, "<i8", 2).reshape(-1, 2)[steps.rows].astype(np.int64)
    starts = steps.starts
    products = np.zeros((len(starts), 2), np.int64)
    missing = np.zeros(len(starts), np.bool_)
    for key, span in _spans(steps, np.ones(len(starts), np.bool_)):
        product = _exact_decimal_product(_unscaled_integers(halves[span]), steps.ops[span].tolist(), function)
        missing[key] = product is None
        products[key] = np.frombuffer((product or 0).to_bytes(_DECIMAL_BYTES, "little", signed=True), np.int64)
    return _spread_decimals(products, missing, steps, column.type)


def _exact_decimal_product(values: Sequence[int], ops: Sequence[int], function: ColumnFunction) -> int | None:
    """Multiply decimals of one scale; each result is rounded half up to that scale."""
    dtype = _atomic(function)
    one, limit = 10**dtype.scale, 10**dtype.precision
    product: int | None = None
    for value, op in zip(values, ops, strict=True):
        if op != RETRACT:
            product = value if product is None else _half_up(product * value, one)
        elif product is not None:
            product = _half_up(product * one, _divisor(value, function))
        if product is not None and abs(product) >= limit:
            product = None
    return product


def _half_up(number: int, by: int) -> int:
    quotient = (2 * abs(number) + abs(by)) // (2 * abs(by))
    return quotient if (number < 0) == (by < 0) else -quotient

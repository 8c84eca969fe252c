"""A comparison with any literal in, the equal comparison with a value of the column's type out.

A literal need not be a value of the column's type: 300 is no TINYINT, 2.5 no INT, 12:00:00.0001 no TIMESTAMP(3). But it
has a floor: the greatest value of the type that is not above it. Every comparison with the literal is equal to a
comparison with its floor, so that its result is right and it is never an error.

A number that is compared with a floating-point column is replaced by the nearest DOUBLE. A float of Python is converted
to the column's type, so 0.1 equals the FLOAT nearest to it; whole numbers and decimals keep their value, as in SQL.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lakewright.errors import InvalidInputError
from lakewright.spec.types import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    INTEGER_BITS,
    TEXT_ROOTS,
    TIMESTAMP_ROOTS,
    UNIT_NANOS,
    AtomicType,
    DataType,
    Value,
    time_unit,
)
from lakewright.spec.values import cast_text, to_value, zone_of

Comparison: TypeAlias = tuple[str, tuple[Value, ...]]  # a method and its literals

NEVER: Comparison = ("in", ())  # false for every value, unknown for null
ALWAYS: Comparison = ("notIn", ())  # true for every value, unknown for null
UNKNOWN: Comparison = ("in", (None,))  # unknown for every row, as SQL's comparison with NULL

_STRING, _BYTES = AtomicType("STRING"), AtomicType("BYTES")
_WIDE = Context(prec=120, Emax=999999, Emin=-999999)
_FLOAT_MAX = {"FLOAT": struct.unpack("<f", b"\xff\xff\x7f\x7f")[0], "DOUBLE": math.nextafter(math.inf, 0.0)}
_NUMBERS = FLOAT_ROOTS | frozenset(INTEGER_BITS) | {"DECIMAL"}
_COMPARABLE = TEXT_ROOTS | BINARY_ROOTS | TIMESTAMP_ROOTS | _NUMBERS | {"BOOLEAN", "DATE", "TIME"}
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Floor:
    """The greatest value of a type that is not above a literal; None where the literal is below all values."""

    value: Value
    exact: bool  # the literal is that value


def compare(method: str, literal: object, dtype: DataType, column: str, zone: str = "UTC") -> Comparison:
    """Return the comparison of a column with a literal as a comparison with a value of the column's type.

    >>> compare("lessThan", 2.5, AtomicType("INT"), "n")
    ('lessOrEqual', (2,))
    >>> compare("equal", 300, AtomicType("TINYINT"), "n")
    ('in', ())
    """
    if literal is None:
        check_comparable(dtype, column)
        return UNKNOWN
    floor = floor_of(literal, dtype, column, zone)
    if floor.exact:
        return method, (floor.value,)
    match method:
        case "equal":
            return NEVER
        case "notEqual":
            return ALWAYS
        case "lessThan" | "lessOrEqual":
            return NEVER if floor.value is None else ("lessOrEqual", (floor.value,))
        case _:
            return ALWAYS if floor.value is None else ("greaterThan", (floor.value,))


def floor_of(literal: object, dtype: DataType, column: str, zone: str = "UTC") -> Floor:
    """Return the floor of a literal among the values of a type; a literal of another kind is an InvalidInputError.

    `zone` is the zone of text without one, for columns WITH LOCAL TIME ZONE.
    """
    atomic = check_comparable(dtype, column)
    literal = _plain(literal)
    if atomic.root in _NUMBERS:
        number = _number(literal)
        if number is None:
            raise _wrong_kind(literal, dtype, column)
        return _number_floor(number, atomic, column)
    if atomic.root in TIMESTAMP_ROOTS:
        return _timestamp_floor(literal, atomic, column, zone)
    if atomic.root == "BOOLEAN" and not isinstance(literal, bool):
        raise _wrong_kind(literal, dtype, column)
    if atomic.root in TEXT_ROOTS and not isinstance(literal, str):
        raise _wrong_kind(literal, dtype, column)
    if atomic.root in BINARY_ROOTS and not isinstance(literal, bytes | bytearray | memoryview):
        raise _wrong_kind(literal, dtype, column)
    wide = _STRING if atomic.root in TEXT_ROOTS else _BYTES if atomic.root in BINARY_ROOTS else atomic
    return Floor(_value(literal, wide, dtype, column), exact=True)


def check_comparable(dtype: DataType, column: str) -> AtomicType:
    """Return the type if its values have an order, else raise an error that names the column."""
    if isinstance(dtype, AtomicType) and dtype.root in _COMPARABLE:
        return dtype
    raise InvalidInputError(f"column {column!r} of type {dtype} can only be tested for null", column=column)


def check_text(dtype: DataType, pattern: object, column: str) -> str:
    """Return the pattern of a text predicate, checked."""
    if not isinstance(dtype, AtomicType) or dtype.root not in TEXT_ROOTS:
        raise InvalidInputError(f"column {column!r} of type {dtype} is no text; a pattern needs text", column=column)
    pattern = _plain(pattern)
    if not isinstance(pattern, str):
        raise _wrong_kind(pattern, dtype, column)
    return pattern


def _plain(literal: object) -> object:
    """Return the Python value of a numpy or Arrow scalar, unless that would lose precision."""
    if isinstance(literal, pa.Scalar) and not pa.types.is_temporal(literal.type):
        return literal.as_py()
    if isinstance(literal, np.generic) and not isinstance(literal, np.datetime64 | np.timedelta64):
        return literal.item()
    return literal


def _number(literal: object) -> float | Decimal | None:
    if isinstance(literal, bool):
        return None
    if isinstance(literal, int | float | Decimal):
        return literal
    return None


def _number_floor(number: float | Decimal, dtype: AtomicType, column: str) -> Floor:
    if dtype.root in FLOAT_ROOTS:
        return _float_floor(number, dtype.root)
    if number != number:  # noqa: PLR0124 - the test for NaN that works for floats and decimals alike
        raise InvalidInputError(f"column {column!r} of type {dtype} has no NaN to compare with", column=column)
    if isinstance(number, float) and math.isfinite(number):
        number = Decimal(repr(number))  # the digits that the caller wrote, not the exact binary value
    if dtype.root == "DECIMAL":
        return _decimal_floor(number, dtype)
    top = 2 ** (INTEGER_BITS[dtype.root] - 1)
    if number > top - 1:
        return Floor(top - 1, exact=False)
    if number < -top:
        return Floor(None, exact=False)
    whole = math.floor(number)
    return Floor(whole, exact=whole == number)


def _decimal_floor(number: float | Decimal, dtype: AtomicType) -> Floor:
    top = Decimal(10**dtype.precision - 1).scaleb(-dtype.scale, _WIDE)
    if number > top:
        return Floor(top, exact=False)
    if number < -top:
        return Floor(None, exact=False)
    number = Decimal(number)
    try:
        units = math.floor(number.scaleb(dtype.scale, _WIDE))
    except InvalidOperation:  # an exponent far below the scale: next to zero
        units = -1 if number < 0 else 0
    value = Decimal(units).scaleb(-dtype.scale, _WIDE)
    if value < -top:
        return Floor(None, exact=False)
    return Floor(value, exact=value == number)


def _float_floor(number: float | Decimal, root: str) -> Floor:
    top = _FLOAT_MAX[root]
    if number in {math.inf, -math.inf} or number != number:  # noqa: PLR0124 - NaN, of a float or a decimal
        return Floor(float(number), exact=True)
    if number > top:
        return Floor(top, exact=False)
    if number < -top:
        return Floor(-math.inf, exact=False)
    value = float(number)
    if root == "DOUBLE":
        return Floor(value, exact=True)
    near = float(np.float32(value))
    if isinstance(number, float) or near == value:
        return Floor(near, exact=True)
    return Floor(near if near < value else float(np.nextafter(np.float32(near), np.float32(-math.inf))), exact=False)


def _timestamp_floor(literal: object, dtype: AtomicType, column: str, zone: str) -> Floor:
    # A datetime64 has no zone and means UTC; a datetime without a zone is no point in time.
    zoned = dtype.root == "TIMESTAMP_LTZ" and not isinstance(literal, np.datetime64)
    fine = AtomicType("TIMESTAMP_LTZ(9)" if zoned else "TIMESTAMP(9)")
    zone_of(zone)  # an unknown zone is reported before a wrong literal
    nanos = _value(literal, fine, dtype, column, zone)
    if not isinstance(nanos, int):
        raise _wrong_kind(literal, dtype, column)
    # Files store the unit of a precision, so TIMESTAMP(0) may hold milliseconds.
    step = UNIT_NANOS[time_unit(dtype.precision)]
    units = nanos // step
    if units > _LONG_MAX:
        return Floor(_LONG_MAX * step, exact=False)
    if units < _LONG_MIN:
        return Floor(None, exact=False)
    return Floor(units * step, exact=units * step == nanos)


def _value(literal: object, wide: AtomicType, dtype: DataType, column: str, zone: str = "UTC") -> Value:
    try:
        return cast_text(literal, wide, zone) if isinstance(literal, str) else to_value(literal, wide)
    except InvalidInputError as error:
        raise _wrong_kind(literal, dtype, column) from error


def _wrong_kind(literal: object, dtype: DataType, column: str) -> InvalidInputError:
    shown = repr(literal)
    return InvalidInputError(
        f"column {column!r} of type {dtype} cannot be compared with {shown if len(shown) < 80 else shown[:77] + '...'} "  # noqa: PLR2004
        f"({type(literal).__name__}); give a literal of the column's kind",
        column=column,
        type=str(dtype),
        literal=literal,
    )

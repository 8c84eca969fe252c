"""Comparing one column with literals: coercion, values, statistics, Arrow data."""

from __future__ import annotations

import math
import operator
import re
import struct
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import InvalidInputError
from lakewright.spec.arrow_types import to_arrow_type
from lakewright.spec.column_stats import ColumnStats, is_nan
from lakewright.spec.identifier import quote_identifier
from lakewright.spec.scalars import cast_text, to_array, to_text, to_value, zone_of
from lakewright.spec.types import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    INTEGER_BITS,
    PRECISION_MAX,
    TEXT_ROOTS,
    TIMESTAMP_ROOTS,
    UNIT_NANOS,
    AtomicType,
    DataType,
    Value,
    time_unit,
)

# ---- Comparisons -----------------------------------------------------------------------------------------------------
# A comparison is a method and literals of the column's type (made by `spec.comparison`). A comparison with
# null is unknown. Floating-point numbers compare as in Spark and Java: NaN equals NaN and is above every other
# number, and 0.0 equals -0.0.

PATTERNS = frozenset("startsWith endsWith contains like".split())
SYMBOLS = {
    "equal": "=",
    "notEqual": "<>",
    "lessThan": "<",
    "lessOrEqual": "<=",
    "greaterThan": ">",
    "greaterOrEqual": ">=",
}
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "equal": operator.eq,
    "notEqual": operator.ne,
    "lessThan": operator.lt,
    "lessOrEqual": operator.le,
    "greaterThan": operator.gt,
    "greaterOrEqual": operator.ge,
}
_ARROW = {
    "equal": pc.equal,
    "notEqual": pc.not_equal,
    "lessThan": pc.less,
    "lessOrEqual": pc.less_equal,
    "greaterThan": pc.greater,
    "greaterOrEqual": pc.greater_equal,
}
_OPPOSITE = {
    "notEqual": "equal",
    "lessOrEqual": "greaterThan",
    "greaterThan": "lessOrEqual",
    "greaterOrEqual": "lessThan",
}
# On which sides NaN makes these comparisons true, where Arrow returns false.
_TRUE_FOR_NAN = {"equal": (True, True), "lessThan": (False, True), "greaterThan": (True, False)}


def is_float(dtype: DataType | None) -> TypeGuard[AtomicType]:
    """Return whether values of the type may be NaN."""
    return isinstance(dtype, AtomicType) and dtype.root in FLOAT_ROOTS


def in_order(value: Any) -> tuple[bool, Any]:  # noqa: ANN401 - a Value
    """Return a key that sorts and compares values as filters do: NaN is one value, above all others."""
    return (True, 0.0) if is_nan(value) else (False, value)


def matches_value(method: str, literals: tuple[Any, ...], value: Any) -> bool | None:  # noqa: ANN401 - a Value
    """Return the result for one value; None is unknown."""
    if method in {"isNull", "isNotNull"}:
        return (value is None) == (method == "isNull")
    if value is None:
        return None
    if isinstance(value, float):
        value, literals = in_order(value), tuple(None if v is None else in_order(v) for v in literals)
    if method in _COMPARE:
        return _COMPARE[method](value, literals[0])
    if method in {"in", "notIn"}:
        is_member = value in literals
        return (is_member == (method == "in")) if is_member or None not in literals else None
    if method == "between":
        return bool(literals[0] <= value <= literals[1])
    if method == "notBetween":
        return bool(value < literals[0] or value > literals[1])
    return _matches_text(method, value, str(literals[0]))


def _matches_text(method: str, value: str, pattern: str) -> bool:
    match method:
        case "startsWith":
            return value.startswith(pattern)
        case "endsWith":
            return value.endswith(pattern)
        case "contains":
            return pattern in value
        case _:
            parts = (".*" if kind == "%" else "." if kind else re.escape(text) for kind, text in like_parts(pattern))
            return re.fullmatch("".join(parts), value, re.DOTALL) is not None


def like_parts(pattern: str) -> list[tuple[str, str]]:
    r"""Split a LIKE pattern into `("", text)`, `("_", "")` and `("%", "")`; `\` takes the next character literally.

    >>> like_parts("a\\%b%")
    [('', 'a%b'), ('%', '')]
    """
    parts: list[tuple[str, str]] = []
    escaped = False
    for char in pattern:
        if char == "\\" and not escaped:
            escaped = True
            continue
        if char in "%_" and not escaped:
            parts.append((char, ""))
        elif parts and not parts[-1][0]:
            parts[-1] = ("", parts[-1][1] + char)
        else:
            parts.append(("", char))
        escaped = False
    return [*parts, ("", "\\")] if escaped else parts


def all_null(stats: ColumnStats, row_count: int) -> bool:
    """Return whether the column is known to hold nothing but nulls."""
    return stats.null_count is not None and stats.null_count >= row_count


def may_match_stats(
    method: str,
    literals: tuple[Any, ...],
    dtype: DataType | None,
    stats: ColumnStats,
    row_count: int,
    *,
    may_be_nan: bool = True,
) -> bool:
    """Return whether a file with these statistics may hold a matching value. False is certain; True is not.

    Without `may_be_nan` only values that are not NaN are meant.
    """
    if method == "isNull":
        return stats.null_count != 0
    if all_null(stats, row_count):
        return False
    if is_float(dtype) and (any(map(is_nan, literals)) or (may_be_nan and matches_value(method, literals, math.nan))):
        return True  # some writers leave NaN out of the bounds, so every file may hold one
    low, high = _bounds(stats, dtype)
    if method in {"notEqual", "notIn"}:
        return None not in literals and (low is None or low != high or low not in literals)
    may_match = _WITHIN_BOUNDS.get(method)
    return may_match is None or may_match(low, high, literals)


def _bounds(stats: ColumnStats, dtype: DataType | None) -> tuple[Any, Any]:
    """Return the bounds that are reliable; None is unknown."""
    low, high = stats.min, stats.max
    low, high = None if is_nan(low) else low, None if is_nan(high) else high
    if isinstance(high, str) and high.endswith("?"):
        high = None  # a truncated bound that was rounded up to a surrogate is stored as `?`, which is below the data
    if isinstance(low, str) and isinstance(dtype, AtomicType) and dtype.root == "CHAR":
        # Bounds of ORC files are padded with blanks, which sort above control characters.
        low = re.split(r"[\x00-\x1f]", low, maxsplit=1)[0].rstrip(" ")
    return low, high


def _overlaps(low: Any, high: Any, lower: Any, upper: Any) -> bool:  # noqa: ANN401 - values of one type
    if lower > upper:
        return False
    return (low is None or low <= upper) and (high is None or high >= lower)


def _any_within(literals: tuple[Any, ...], low: Any, high: Any) -> bool:  # noqa: ANN401 - values of one type
    values = literals[:-1] if literals and literals[-1] is None else literals
    at = 0 if low is None else bisect_left(values, low)
    return at < len(values) and (high is None or values[at] <= high)


def _like_prefix(pattern: str) -> str:
    parts = like_parts(pattern)
    return parts[0][1] if parts and not parts[0][0] else ""


def _prefix_may_match(prefix: str, low: str | None, high: str | None) -> bool:
    return (low is None or low[: len(prefix)] <= prefix) and (high is None or high >= prefix)


# Each says whether values between `low` and `high`, None being unknown, may match the literals.
_WITHIN_BOUNDS: dict[str, Callable[[Any, Any, tuple[Any, ...]], bool]] = {
    "equal": lambda low, high, v: _overlaps(low, high, v[0], v[0]),
    "lessThan": lambda low, _, v: low is None or low < v[0],
    "lessOrEqual": lambda low, _, v: low is None or low <= v[0],
    "greaterThan": lambda _, high, v: high is None or high > v[0],
    "greaterOrEqual": lambda _, high, v: high is None or high >= v[0],
    "between": lambda low, high, v: _overlaps(low, high, v[0], v[1]),
    "notBetween": lambda low, high, v: low is None or high is None or low < v[0] or high > v[1],
    "in": lambda low, high, v: _any_within(v, low, high),
    "startsWith": lambda low, high, v: _prefix_may_match(v[0], low, high),
    "like": lambda low, high, v: _prefix_may_match(_like_prefix(v[0]), low, high),
}


def matches_arrow(
    method: str,
    literals: tuple[Value, ...],
    dtype: DataType,
    array: Any,  # noqa: ANN401 - an Arrow expression, or the column itself: pyarrow's functions take both
    arrow_type: pa.DataType | None,
) -> Any:  # noqa: ANN401 - what `array` was
    """Compare Arrow data, or return an expression that does; literals get the Arrow type if one is given."""
    if method == "isNull":
        return pc.is_null(array)
    if method == "isNotNull":
        return pc.is_valid(array)
    if method in PATTERNS:
        return _matches_pattern(method, array, str(literals[0]))
    if method in {"in", "notIn"}:
        return _is_member(method, literals, dtype, array, arrow_type)
    scalars = _arrow_literals(literals, dtype, arrow_type)
    compare = _with_nan if is_float(dtype) else _compare_plain
    if method == "between":
        return pc.and_kleene(compare("greaterOrEqual", array, scalars[0]), compare("lessOrEqual", array, scalars[1]))
    if method == "notBetween":
        return pc.or_kleene(compare("lessThan", array, scalars[0]), compare("greaterThan", array, scalars[1]))
    return compare(method, array, scalars[0])


def _compare_plain(method: str, left: Any, right: Any) -> Any:  # noqa: ANN401 - see `matches_arrow`
    return _ARROW[method](left, right)


def _with_nan(method: str, left: Any, right: Any) -> Any:  # noqa: ANN401 - see `matches_arrow`
    """Compare floating-point numbers; for Arrow, NaN is not equal to, above or below any number."""
    if isinstance(right, pa.Scalar) and not is_nan(right.as_py()):
        plain = method not in {"greaterThan", "greaterOrEqual"}
        return _ARROW[method](left, right) if plain else pc.invert(_ARROW[_OPPOSITE[method]](left, right))
    if method not in _TRUE_FOR_NAN:
        return pc.invert(_with_nan(_OPPOSITE[method], left, right))
    both = (
        pc.is_nan(side) if is_nan_side else pc.invert(pc.is_nan(side))
        for side, is_nan_side in zip((left, right), _TRUE_FOR_NAN[method], strict=True)
    )
    return pc.or_kleene(_ARROW[method](left, right), pc.and_kleene(*both))


def compare_arrow(method: str, left: Any, right: Any, common: DataType) -> Any:  # noqa: ANN401 - see `matches_arrow`
    """Compare two columns as values of a type that holds those of both."""
    arrow = to_arrow_type(common)
    return (_with_nan if is_float(common) else _compare_plain)(method, left.cast(arrow), right.cast(arrow))


def common_type(left: AtomicType, right: AtomicType) -> AtomicType | None:
    """Return a type that holds every value of both exactly, so that they can be compared; None where there is none.

    >>> str(common_type(AtomicType("SMALLINT"), AtomicType("DECIMAL(4, 3)")))
    'DECIMAL(8, 3)'
    >>> common_type(AtomicType("BIGINT"), AtomicType("DOUBLE")) is None
    True
    """
    for kind in (TEXT_ROOTS, BINARY_ROOTS):
        if left.root in kind and right.root in kind:
            return AtomicType("STRING" if kind is TEXT_ROOTS else "BYTES")
    if left.root == right.root and left.root != "DECIMAL":
        return left if left.precision >= right.precision else right
    roots = {left.root, right.root}
    if roots <= INTEGER_BITS.keys():
        return max(left, right, key=lambda dtype: INTEGER_BITS[dtype.root])
    if roots & FLOAT_ROOTS:
        return AtomicType("DOUBLE") if roots <= FLOAT_ROOTS | {"TINYINT", "SMALLINT", "INT"} else None
    if not roots <= INTEGER_BITS.keys() | {"DECIMAL"}:
        return None
    whole, scales = zip(*((_digits(dtype)) for dtype in (left, right)), strict=True)
    digits = max(whole) + max(scales)
    return AtomicType(f"DECIMAL({digits}, {max(scales)})") if digits <= PRECISION_MAX else None


def _digits(dtype: AtomicType) -> tuple[int, int]:
    """Return how many digits a number has before and after its point."""
    if dtype.root == "DECIMAL":
        return dtype.precision - dtype.scale, dtype.scale
    return len(str(2 ** (INTEGER_BITS[dtype.root] - 1))), 0


def _is_member(
    method: str,
    literals: tuple[Value, ...],
    dtype: DataType,
    array: Any,  # noqa: ANN401 - see `matches_arrow`
    arrow_type: pa.DataType | None,
) -> Any:  # noqa: ANN401 - see `matches_arrow`
    values = [v for v in literals if v is not None and not is_nan(v)]
    if is_float(dtype) and 0.0 in values:
        values += [-0.0, 0.0]  # Arrow's `is_in` distinguishes the two zeros, its comparison does not
    unknown = pa.scalar(None, pa.bool_())
    result = pc.is_in(array, value_set=_arrow_literals(values, dtype, arrow_type))
    if any(map(is_nan, literals)):
        result = pc.or_kleene(result, pc.is_nan(array))
    if None in literals:
        result = pc.if_else(result, pa.scalar(value=True), unknown)
    result = pc.if_else(pc.is_valid(array), result, unknown)
    return result if method == "in" else pc.invert(result)


def _matches_pattern(method: str, array: Any, pattern: str) -> Any:  # noqa: ANN401 - see `matches_arrow`
    match method:
        case "startsWith":
            return pc.starts_with(array, pattern)
        case "endsWith":
            return pc.ends_with(array, pattern)
        case "contains":
            return pc.match_substring(array, pattern)
        case _:
            parts = (".*" if kind == "%" else "." if kind else _quote(text) for kind, text in like_parts(pattern))
            return pc.match_substring_regex(array, rf"(?s)\A{''.join(parts)}\z")


def _quote(text: str) -> str:
    """Escape text for a regular expression of Arrow, which has fewer escapes than Python."""
    return "".join(c if c.isalnum() or not c.isascii() else f"\\x{{{ord(c):x}}}" for c in text)


def _arrow_literals(literals: Sequence[Value], dtype: DataType, arrow_type: pa.DataType | None) -> pa.Array:
    array = to_array(literals, dtype)
    return array if arrow_type is None or array.type == arrow_type else array.cast(arrow_type)


def show(method: str, name: str, literals: tuple[Value, ...], dtype: DataType | None) -> str:
    """Return the comparison as SQL that `spec.filter_text` reads back."""
    shown = [_show_literal(value, dtype) for value in literals]
    match method:
        case "isNull":
            return f"{name} IS NULL"
        case "isNotNull":
            return f"{name} IS NOT NULL"
        case "in":
            return f"{name} IN ({', '.join(shown)})"
        case "notIn":
            return f"{name} NOT IN ({', '.join(shown)})"
        case "between":
            return f"{name} BETWEEN {shown[0]} AND {shown[1]}"
        case "notBetween":
            return f"{name} NOT BETWEEN {shown[0]} AND {shown[1]}"
        case "like":
            return f"{name} LIKE {shown[0]}"
        case "startsWith" | "endsWith" | "contains":
            text = re.sub(r"([\\%_])", r"\\\1", str(literals[0]))
            before, after = "" if method == "startsWith" else "%", "" if method == "endsWith" else "%"
            return f"{name} LIKE {_show_literal(before + text + after, None)}"
        case _:
            return f"{name} {SYMBOLS[method]} {shown[0]}"


def show_name(path: tuple[str, ...]) -> str:
    """Return a column or a path into a ROW as text, quoted where necessary."""
    return ".".join(n if re.fullmatch(r"[A-Za-z_]\w*", n, re.ASCII) else quote_identifier(n) for n in path)


def _show_literal(value: Value, dtype: DataType | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        quoted = value.replace("'", "''")
        return f"'{quoted}'"
    if isinstance(dtype, AtomicType) and dtype.root in {"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"}:
        zone = "Z" if dtype.root == "TIMESTAMP_LTZ" else ""
        return f"{dtype.root.removesuffix('_LTZ')} '{to_text(value, dtype)}{zone}'"
    if isinstance(value, float) and not math.isfinite(value):
        return f"'{value}'"
    return str(value)


# ---- Coercion of literals --------------------------------------------------------------------------------------------
# A literal need not be a value of the column's type: 300 is no TINYINT, 2.5 no INT, 12:00:00.0001 no TIMESTAMP(3).
# But it has a floor: the greatest value of the type that is not above it. Every comparison with the literal is equal
# to a comparison with its floor, so that its result is right and it is never an error.
#
# A number that is compared with a floating-point column is replaced by the nearest DOUBLE. A float of Python is
# converted to the column's type, so 0.1 equals the FLOAT nearest to it; whole numbers and decimals keep their value,
# as in SQL.

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
    literal = _to_plain_literal(literal)
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
    pattern = _to_plain_literal(pattern)
    if not isinstance(pattern, str):
        raise _wrong_kind(pattern, dtype, column)
    return pattern


def _to_plain_literal(literal: object) -> object:
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

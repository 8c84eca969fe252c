"""One comparison of one column with literals: evaluated on a value, on statistics or on Arrow data, or shown as text.

A comparison is a method and literals of the column's type (made by `spec.predicate.literals`). A comparison with null
is unknown. Floating-point numbers compare as in Spark and Java: NaN equals NaN and is above every other number, and 0.0
equals -0.0.
"""

from __future__ import annotations

import math
import operator
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.spec.arrow import to_arrow_type
from lakewright.spec.stats import ColumnStats, is_nan
from lakewright.spec.types import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    INTEGER_BITS,
    PRECISION_MAX,
    TEXT_ROOTS,
    AtomicType,
    DataType,
    Value,
)
from lakewright.spec.values import to_array, to_text

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
    """Say whether values of the type may be NaN."""
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
    """Say whether the column is known to hold nothing but nulls."""
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
    """Say whether a file with these statistics may hold a matching value. False is certain; True is not.

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
    compare = _with_nan if is_float(dtype) else _plain
    if method == "between":
        return pc.and_kleene(compare("greaterOrEqual", array, scalars[0]), compare("lessOrEqual", array, scalars[1]))
    if method == "notBetween":
        return pc.or_kleene(compare("lessThan", array, scalars[0]), compare("greaterThan", array, scalars[1]))
    return compare(method, array, scalars[0])


def _plain(method: str, left: Any, right: Any) -> Any:  # noqa: ANN401 - see `matches_arrow`
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
    return (_with_nan if is_float(common) else _plain)(method, left.cast(arrow), right.cast(arrow))


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
    """Return the comparison as SQL that `spec.predicate.text` reads back."""
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
    return ".".join(n if re.fullmatch(r"[A-Za-z_]\w*", n, re.ASCII) else f"`{n.replace('`', '``')}`" for n in path)


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

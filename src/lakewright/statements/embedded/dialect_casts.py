"""Casts and arithmetic with Spark's meaning."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.spec.arrow_types import is_variant
from lakewright.spec.variant_paths import texts_of, variants_of
from lakewright.spec.variant_values import ARRAY, OBJECT, VariantNodes, combine, decode_variants, expand
from lakewright.statements.embedded.dialect_values import (
    BINARY,
    BOOLEAN,
    DATE,
    DAY_TIME,
    DAYS,
    DOUBLE,
    FLOAT,
    INT,
    INTERVALS,
    LONG,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    YEAR_MONTH,
    Binder,
    Functions,
    TypedSql,
    as_decimal,
    common_type,
    decimal_result,
    duckdb_type,
    is_decimal,
    is_integral,
    is_moment,
    is_number,
    quoted,
    spark_type,
    text_literal,
    with_field_names,
)

# ---- Conversions of single values ------------------------------------------------------------------------------------
# Invariant: a text that is no value of the type is an error, and so is a value that does not fit.

_SPACE = "".join(map(chr, range(33)))  # what Spark trims before it reads a value: controls and spaces
_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?")
_SPECIAL = {"nan": float("nan")} | {
    sign + name: float(sign + "inf") for sign in ("", "+", "-") for name in ("inf", "infinity")
}
_TRUE, _FALSE = {"t", "true", "y", "yes", "1"}, {"f", "false", "n", "no", "0"}
_DATE = re.compile(r"([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_MOMENT = re.compile(
    r"([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{0,9}))?)?)?\s*(.*)?)?)?)?",
    re.DOTALL,
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN_LOW, _PLAIN_HIGH = 1e-3, 1e7  # numbers between them are written without an exponent
_EXACT = Context(prec=120, rounding=ROUND_HALF_UP)


def _cast_error(value: object, kind: str) -> InvalidInputError:
    return InvalidInputError(f"the value {value!r} cannot be cast to {kind}; try_cast gives NULL for such values")


def integer_of(text: str, low: int, high: int, kind: str) -> int:
    """Return the whole number that a text shows."""
    plain = text.strip(_SPACE)
    if _INTEGER.fullmatch(plain) and low <= (found := int(plain)) <= high:
        return found
    raise _cast_error(text, kind)


def double_of(text: str) -> float:
    """Return the double that a text shows."""
    plain = text.strip(_SPACE)
    if plain.lower() in _SPECIAL:
        return _SPECIAL[plain.lower()]
    if not _FLOAT.fullmatch(plain):
        raise _cast_error(text, "DOUBLE")
    return float(plain.rstrip("fFdD"))


def float_of(text: str) -> float:
    """Return the float that a text shows."""
    return float(np.float32(double_of(text)))


def decimal_of(value: str | float, precision: int, scale: int) -> Decimal:
    """Return a text or a double as a decimal, rounded half up."""
    kind = f"DECIMAL({precision},{scale})"
    try:
        found = Decimal(value.strip(_SPACE) if isinstance(value, str) else repr(value))
    except InvalidOperation:
        raise _cast_error(value, kind) from None
    if not found.is_finite():
        raise _cast_error(value, kind)
    return fit_decimal(found, precision, scale)


def fit_decimal(value: Decimal, precision: int, scale: int) -> Decimal:
    """Return a decimal with that scale, rounded half up; one with too many digits is an error."""
    rounded = value.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    if rounded and rounded.adjusted() >= precision - scale:
        raise _cast_error(value, f"DECIMAL({precision},{scale})")
    return rounded


def boolean_of(text: str) -> bool:
    """Return the boolean that a text shows."""
    plain = text.strip(_SPACE).lower()
    if plain not in _TRUE | _FALSE:
        raise _cast_error(text, "BOOLEAN")
    return plain in _TRUE


def date_of(text: str) -> date:
    """Return the date that a text shows: a year, a month of it, or a day, after which a time may follow."""
    found = _DATE.fullmatch(text.strip(_SPACE))
    if found is None:
        raise _cast_error(text, "DATE")
    try:
        return date(*(int(part or 1) for part in found.groups()))
    except ValueError:
        raise _cast_error(text, "DATE") from None


def timestamp_of(text: str, zone: str | None) -> int:
    """Return the microseconds since 1970 of the moment that a text shows; without a zone, of the local time."""
    kind = "TIMESTAMP" if zone else "TIMESTAMP_NTZ"
    found = _MOMENT.fullmatch(text.strip(_SPACE))
    if found is None:
        raise _cast_error(text, kind)
    *parts, fraction, written = found.groups()
    year, month, day, hour, minute, second = (int(part or (at in {1, 2})) for at, part in enumerate(parts))
    micros = int(((fraction or "") + "000000")[:6])
    try:
        local = datetime(year, month, day, hour, minute, second, micros)  # noqa: DTZ001 - the zone follows
        offset = _zone_offset(local, written or "", zone)
    except (ValueError, KeyError, OSError):
        raise _cast_error(text, kind) from None
    return micros_of(local.replace(tzinfo=UTC) - offset)


def micros_of(moment: datetime) -> int:
    """Return the microseconds from 1970 to a moment."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _zone_offset(local: datetime, written: str, zone: str | None) -> timedelta:
    if zone is None:
        return timedelta(0)
    if written in {"Z", "z", "UTC", "GMT"}:
        return timedelta(0)
    if parts := _OFFSET.fullmatch(written):
        sign, hours, minutes = parts.groups()
        found = timedelta(hours=int(hours), minutes=int(minutes or 0))
        return -found if sign == "-" else found
    return local.replace(tzinfo=ZoneInfo(written or zone)).utcoffset() or timedelta(0)


# ---- numbers to texts


def double_text(value: float) -> str:
    """Return a double as Java writes it.

    >>> [double_text(one) for one in (1.0, 1e7, 0.00012, -0.0, float("inf"))]
    ['1.0', '1.0E7', '1.2E-4', '-0.0', 'Infinity']
    """
    return _float_text(value, repr(value))


def float_text(value: float) -> str:
    """Return a float as Java writes it."""
    return _float_text(value, str(np.float32(value)))


def _float_text(value: float, shortest: str) -> str:
    if value != value:  # noqa: PLR0124 - NaN
        return "NaN"
    if value in {float("inf"), float("-inf")}:
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(shortest).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + int(exponent)  # the value is 0.text * 10**point
    minus = "-" if sign else ""
    if not any(digits):
        return f"{minus}0.0"
    if _PLAIN_LOW <= abs(value) < _PLAIN_HIGH:
        whole, rest = (text[:point].ljust(point, "0"), text[point:]) if point > 0 else ("0", "0" * -point + text)
        return f"{minus}{whole}.{rest or '0'}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"


# ---- decimals


def divide_decimals(left: Decimal, right: Decimal, precision: int, scale: int) -> Decimal:
    """Return a quotient, rounded half up."""
    if not right:
        raise InvalidInputError("division by zero; try_divide gives NULL")
    return fit_decimal(_EXACT.divide(left, right), precision, scale)


def multiply_decimals(left: Decimal, right: Decimal, precision: int, scale: int) -> Decimal:
    """Return a product, rounded half up."""
    return fit_decimal(_EXACT.multiply(left, right), precision, scale)


def add_decimals(left: Decimal, right: Decimal, precision: int, scale: int) -> Decimal:
    """Return a sum, rounded half up."""
    return fit_decimal(_EXACT.add(left, right), precision, scale)


def rounded_half_even(value: Decimal, precision: int, scale: int) -> Decimal:
    """Return a decimal rounded to an even last digit where it is in the middle."""
    return fit_decimal(value.quantize(Decimal(1).scaleb(-scale), rounding="ROUND_HALF_EVEN"), precision, scale)


def rounded_double(value: float, digits: int, mode: str) -> float:
    """Return a double rounded by its decimal text."""
    if value != value or value in {float("inf"), float("-inf")}:  # noqa: PLR0124 - NaN
        return value
    exact = Decimal(repr(value))
    return float(exact.quantize(Decimal(1).scaleb(-digits), rounding=mode, context=Context(prec=400)))


def rounded_integer(value: int, digits: int, mode: str) -> int:
    """Return a whole number rounded to tens, hundreds ..."""
    return int(Decimal(value).quantize(Decimal(1).scaleb(-digits), rounding=mode, context=_EXACT))


def divide_decimals_down(left: Decimal, right: Decimal, precision: int, scale: int) -> Decimal:
    """Return a quotient without its digits after the point."""
    if not right:
        raise InvalidInputError("division by zero; try_divide gives NULL")
    return fit_decimal(_EXACT.divide_int(left, right), precision, scale)


# ---- Arithmetic ------------------------------------------------------------------------------------------------------
# Overflow and division by zero are errors. What DuckDB calculates otherwise (quotients of decimals, results with
# fewer digits than both operands have together) is calculated exactly in Python.

_ZERO = "error('division by zero; try_divide gives NULL')"


def calculate(binder: Binder, sign: str, left: TypedSql, right: TypedSql) -> TypedSql:
    """Return `left sign right`."""
    name = f"({left.name} {sign} {right.name})"
    if sign in "+-" and _is_time(left) | _is_time(right):
        return _shift_moment(binder, sign, left, right).with_name(_moved_name(sign, left, right, name))
    if left.type in INTERVALS or right.type in INTERVALS:
        return _combine_intervals(sign, left, right, name)
    left, right = _as_numbers(binder, left, right, name)
    if is_decimal(left.type) or is_decimal(right.type):
        return _decimals(binder, sign, left, right, name)
    if sign == "/":
        left, right = left.with_type(DOUBLE), right.with_type(DOUBLE)
        return TypedSql(_check_divisor(left, right, f"{left.sql} / {right.sql}"), DOUBLE, name)
    kind = common_type(left.type, right.type)
    left, right = left.with_type(kind), right.with_type(kind)
    if sign == "div":
        left, right = left.with_type(LONG), right.with_type(LONG)
        return TypedSql(_check_divisor(left, right, f"{left.sql} // {right.sql}"), LONG, name)
    sql = f"{left.sql} {sign} {right.sql}"
    return TypedSql(_check_divisor(left, right, sql) if sign == "%" else f"({sql})", kind, name)


def _check_divisor(left: TypedSql, right: TypedSql, sql: str) -> str:
    """Return a division, which is an error if the divisor is zero; the literal 2 is not looked at."""
    if right.literal:
        return f"({sql})"
    return f"CASE WHEN {right.sql} = 0 AND {left.sql} IS NOT NULL THEN {_ZERO} ELSE {sql} END"


def _as_numbers(binder: Binder, left: TypedSql, right: TypedSql, name: str) -> tuple[TypedSql, TypedSql]:
    """Return both as numbers: a text beside a number is read as one, and so is NULL."""
    kinds = {left.type, right.type}
    if kinds == {STRING}:
        raise InvalidInputError(f"{name} takes numbers, not texts")
    if kinds <= {NULL, STRING}:
        return binder.cast(left, DOUBLE), binder.cast(right, DOUBLE)
    if STRING in kinds or NULL in kinds:
        kind = common_type(left.type, right.type)
        if kind is not None and is_number(kind):
            to = kind if STRING in kinds else None
            return binder.cast(left, to or kind), binder.cast(right, to or kind)
    if not is_number(left.type) or not is_number(right.type):
        raise InvalidInputError(f"{name} takes numbers, not {spark_type(left.type)} and {spark_type(right.type)}")
    return left, right


# ---- decimals


def _decimals(binder: Binder, sign: str, left: TypedSql, right: TypedSql, name: str) -> TypedSql:
    if not {left.type, right.type}.isdisjoint({FLOAT, DOUBLE}):
        both = binder.cast(left, DOUBLE), binder.cast(right, DOUBLE)
        if sign == "div":
            raise InvalidInputError(f"{name} takes whole numbers and decimals")
        sql = f"{both[0].sql} {sign} {both[1].sql}"
        return TypedSql(_check_divisor(both[0], both[1], sql) if sign in "/%" else f"({sql})", DOUBLE, name)
    left, right = _as_decimal(left, right), _as_decimal(right, left)
    if sign == "div":
        quotient = divide_decimals_sql(binder, left, right, pa.decimal128(38, 0), rounding_down=True)
        return TypedSql(f"CAST({quotient} AS BIGINT)", LONG, name)
    gives = decimal_result(sign, left.type, right.type)
    if sign == "/":
        return TypedSql(divide_decimals_sql(binder, left, right, gives), gives, name)
    exact = left.type.scale + right.type.scale if sign == "*" else max(left.type.scale, right.type.scale)
    if sign == "%":
        wide = common_type(left.type, right.type)
        one, other = left.with_type(wide), right.with_type(wide)
        return TypedSql(
            f"CAST({_check_divisor(one, other, f'{one.sql} % {other.sql}')} AS {duckdb_type(gives)})", gives, name
        )
    if gives.scale != exact:
        run = {"*": multiply_decimals, "+": add_decimals, "-": add_decimals}[sign]
        other = TypedSql(f"(-({right.sql}))", right.type, "") if sign == "-" else right
        return TypedSql(binder.functions.call(run, gives, [left, other], gives.precision, gives.scale), gives, name)
    if sign in "+-":
        left, right = left.with_type(gives), right.with_type(gives)
    return TypedSql(f"CAST({left.sql} {sign} {right.sql} AS {duckdb_type(gives)})", gives, name)


def _as_decimal(value: TypedSql, other: TypedSql) -> TypedSql:
    """Return a whole number as a decimal; a literal takes only the digits that it has."""
    if is_decimal(value.type):
        return value
    if isinstance(value.literal, int) and is_decimal(other.type):
        return value.with_type(pa.decimal128(len(str(abs(value.literal))), 0))
    return value.with_type(as_decimal(value.type))


def divide_decimals_sql(
    binder: Binder, left: TypedSql, right: TypedSql, gives: pa.DataType, *, rounding_down: bool = False
) -> str:
    """Return the quotient of two decimals."""
    run = divide_decimals_down if rounding_down else divide_decimals
    return binder.functions.call(run, gives, [left, right], gives.precision, gives.scale)


# ---- dates, timestamps, intervals


def _is_time(value: TypedSql) -> bool:
    return value.type == DATE or is_moment(value.type)


def _moved_name(sign: str, left: TypedSql, right: TypedSql, name: str) -> str:
    if is_integral(left.type) or is_integral(right.type):
        return f"{'date_add' if sign == '+' else 'date_sub'}({left.name}, {right.name})"
    if right.type in INTERVALS:
        return f"{left.name} {sign} {right.name}"
    return name


def _shift_moment(binder: Binder, sign: str, left: TypedSql, right: TypedSql) -> TypedSql:
    if sign == "+" and not _is_time(left):
        left, right = right, left
    if _is_time(left) and _is_time(right):
        if sign == "+":
            raise InvalidInputError(f"{left.name} and {right.name} are moments, which cannot be added")
        return _between(binder, left, right)
    if not _is_time(left):
        raise InvalidInputError(f"{spark_type(right.type)} cannot be taken from {spark_type(left.type)}")
    if right.type in INTERVALS:
        kind = TIMESTAMP if left.type == DATE and right.type == DAY_TIME else left.type
        start = binder.cast(left, kind)
        return TypedSql(f"CAST({start.sql} {sign} {right.sql} AS {duckdb_type(kind)})", kind, "")
    if left.type == DATE and is_integral(right.type) and right.type != LONG:
        return TypedSql(f"({left.sql} {sign} {right.with_type(INT).sql})", DATE, "")
    raise InvalidInputError(f"{left.name} {sign} {right.name} takes an interval, not {spark_type(right.type)}")


def _between(binder: Binder, left: TypedSql, right: TypedSql) -> TypedSql:
    if left.type == DATE and right.type == DATE:
        return TypedSql(f"to_days(CAST({left.sql} - {right.sql} AS INTEGER))", DAYS, "")
    kind = common_type(left.type, right.type)
    one, other = binder.cast(left, kind), binder.cast(right, kind)
    return TypedSql(f"to_microseconds(epoch_us({one.sql}) - epoch_us({other.sql}))", DAY_TIME, "")


def _combine_intervals(sign: str, left: TypedSql, right: TypedSql, name: str) -> TypedSql:
    """Return the sum of two intervals, or an interval as often as a whole number says."""
    kinds = {left.type, right.type}
    if sign in "+-" and (YEAR_MONTH not in kinds or kinds == {YEAR_MONTH}) and kinds <= set(INTERVALS):
        kind = left.type if len(kinds) == 1 else DAY_TIME
        return TypedSql(f"({left.sql} {sign} {right.sql})", kind, name)
    interval, other = (left, right) if left.type in INTERVALS else (right, left)
    if sign == "*" and is_integral(other.type):
        kind = YEAR_MONTH if interval.type == YEAR_MONTH else DAY_TIME
        return TypedSql(f"({interval.sql} * {other.sql})", kind, name)
    raise InvalidInputError(f"{name} cannot be calculated: {spark_type(left.type)} and {spark_type(right.type)}")


# ---- Values of VARIANT -----------------------------------------------------------------------------------------------


def cast_found(nodes: VariantNodes, to: pa.DataType, zone: str, *, safe: bool) -> pa.Array:
    """Return VARIANT values as another type; what cannot become it is an error, or null with `safe`."""
    types = pa.types
    if is_variant(to):
        return variants_of(nodes).cast(to)
    if to == STRING:
        return texts_of(nodes, zone).cast(STRING)
    parts = [(np.zeros(0, np.int64), pa.array([], to))]
    fits = nodes.kinds == (ARRAY if types.is_list(to) else OBJECT if types.is_nested(to) else 0)
    if types.is_nested(to):
        chosen = np.flatnonzero(fits)
        parts.append((chosen, _cast_nested(nodes.take(chosen), to, zone, safe=safe)))
        fits |= nodes.kinds == 0
    else:
        fits |= nodes.kinds < OBJECT
        for places, values in nodes.scalar_arrays():
            if not types.is_null(values.type):
                parts.append((places, _cast_scalars(values, to, zone, safe=safe)))
    if not safe and not fits.all():
        raise _cast_error(texts_of(nodes.take(~fits), zone)[0].as_py(), spark_type(to))
    return combine(parts, len(nodes))


def _cast_nested(nodes: VariantNodes, to: pa.DataType, zone: str, *, safe: bool) -> pa.Array:
    members = expand(nodes)
    offsets = pa.array(np.append(0, np.cumsum(members.counts)).astype(np.int32))
    if pa.types.is_list(to):
        return pa.ListArray.from_arrays(offsets, cast_found(members.nodes, to.value_type, zone, safe=safe), type=to)
    if pa.types.is_map(to):
        if to.key_type != STRING:
            raise InvalidInputError(f"the keys of a variant are texts, so it cannot be cast to {spark_type(to)}")
        keys = nodes.keys.names.take(pa.array(members.names)).cast(STRING)
        values = cast_found(members.nodes, to.item_type, zone, safe=safe)
        return pa.MapArray.from_arrays(offsets, keys, values, type=to)
    columns = []
    for field in to:
        named = np.flatnonzero(np.asarray(pc.equal(nodes.keys.names, field.name)))
        chosen = np.flatnonzero(np.isin(members.names, named))
        found = cast_found(members.nodes.take(chosen), field.type, zone, safe=safe)
        columns.append(combine([(members.owners[chosen], found)], len(nodes)))
    return pa.StructArray.from_arrays(columns, fields=list(to))


def _cast_scalars(values: pa.Array, to: pa.DataType, zone: str, *, safe: bool) -> pa.Array:
    kind, types = values.type, pa.types
    same = (
        kind == to
        or (types.is_integer(kind) and (is_integral(to) or to in {DOUBLE, FLOAT} or is_decimal(to)))
        or (types.is_floating(kind) and to in {DOUBLE, FLOAT})
        or (types.is_large_binary(kind) and to == BINARY)
    )
    if same:
        try:
            return values.cast(to, safe=not types.is_floating(to))
        except pa.ArrowInvalid:
            pass  # one by one, which finds the values that do not fit
    read = {types.is_large_string(kind): _from_text_value}.get(True, _from_value)

    def one(value: object) -> object:
        try:
            return read(value, to, zone)
        except InvalidInputError:
            if safe:
                return None
            raise

    return pa.array([one(value) for value in values.to_pylist()], to)


def _from_text_value(text: Any, to: pa.DataType, zone: str) -> object:  # noqa: ANN401 - of any kind
    if is_integral(to):
        half = 1 << (to.bit_width - 1)
        return integer_of(text, -half, half - 1, spark_type(to))
    if is_decimal(to):
        return decimal_of(text, to.precision, to.scale)
    if is_moment(to):
        return timestamp_of(text, zone if to == TIMESTAMP else None)
    readers: dict[pa.DataType, Callable[[str], object]] = {
        DOUBLE: double_of,
        FLOAT: float_of,
        BOOLEAN: boolean_of,
        DATE: date_of,
        BINARY: str.encode,
    }
    return readers[to](text)


def _from_value(value: Any, to: pa.DataType, zone: str) -> object:  # noqa: ANN401 - of any kind
    """Return a boolean, a number or a time as another type."""
    if isinstance(value, bool | int | float | Decimal):
        return _from_number_value(value, to)
    if isinstance(value, datetime) and to == DATE:
        return (value.astimezone(ZoneInfo(zone)) if value.tzinfo else value).date()
    if isinstance(value, date) and is_moment(to):
        local = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)  # noqa: DTZ001
        if to == TIMESTAMP:
            return local if local.tzinfo else local.replace(tzinfo=ZoneInfo(zone))
        return local.astimezone(ZoneInfo(zone)).replace(tzinfo=None) if local.tzinfo else local
    raise _cast_error(value, spark_type(to))


def _from_number_value(value: float | Decimal, to: pa.DataType) -> object:
    if to == BOOLEAN:
        return value != 0
    if is_integral(to) and math.isfinite(value) and -(half := 1 << (to.bit_width - 1)) <= int(value) < half:
        return int(value)
    if is_decimal(to):
        return decimal_of(value if isinstance(value, float) else str(Decimal(value)), to.precision, to.scale)
    if to in {DOUBLE, FLOAT}:
        return float(value)
    raise _cast_error(value, spark_type(to))


# ---- Casts -----------------------------------------------------------------------------------------------------------

_EXACT_DIGITS = 15  # so many digits of a decimal are exact in a double


@dataclass(frozen=True, slots=True)
class Casts:
    """Casts of one query: the functions that it needs, and its time zone."""

    functions: Functions
    zone: str

    def cast(self, value: TypedSql, to: pa.DataType, *, safe: bool = False) -> TypedSql:
        """Return a value as another type; it keeps its name. With `safe`, what cannot be cast is null."""
        if value.type == to:
            return value
        sql = f"CAST(NULL AS {duckdb_type(to)})" if value.type == NULL else self._cast(value, to, safe)
        return replace(value, sql=sql, type=to)

    def with_field_names(self, value: TypedSql, like: pa.DataType) -> TypedSql:
        """Return a struct with the names of the fields of another type, in their order; other values as they are."""
        return self.cast(value, with_field_names(value.type, like))

    def _cast(self, value: TypedSql, to: pa.DataType, safe: bool) -> str:  # noqa: FBT001 - handed through
        if is_variant(value.type):
            return self._from_variant(value, to, safe)
        kind, word = value.type, "TRY_CAST" if safe else "CAST"
        plain = f"{word}({value.sql} AS {duckdb_type(to)})"
        if kind == STRING:
            return self._from_text(value, to, safe)
        if to == STRING:
            return self._to_text(value)
        if pa.types.is_nested(kind) and pa.types.is_nested(to):
            return self._cast_members(value, to, safe)
        if is_number(kind) or kind == BOOLEAN:
            return self._from_number(value, to, safe, plain)
        if is_moment(kind) or kind == DATE:
            if to == DATE or is_moment(to):
                return plain
            if kind == TIMESTAMP and is_integral(to):
                return f"{word}(CAST(floor(epoch({value.sql})) AS BIGINT) AS {duckdb_type(to)})"
            if kind == TIMESTAMP and to == DOUBLE:
                return f"epoch({value.sql})"
        raise no_cast(value, to)

    def _from_variant(self, value: TypedSql, to: pa.DataType, safe: bool) -> str:  # noqa: FBT001 - handed through
        zone = self.zone

        def run(column: pa.ChunkedArray) -> pa.Array:
            rows, nodes = decode_variants(column.combine_chunks())
            return combine([(rows, cast_found(nodes, to, zone, safe=safe))], len(column))

        return self.functions.call_columns("cast_variant", run, to, [value], safe)

    def _from_text(self, value: TypedSql, to: pa.DataType, safe: bool) -> str:  # noqa: FBT001 - handed through
        call = self.functions.call
        if is_integral(to):
            half = 1 << (to.bit_width - 1)
            return call(integer_of, to, [value], -half, half - 1, spark_type(to), safe=safe)
        if is_decimal(to):
            return call(decimal_of, to, [value], to.precision, to.scale, safe=safe)
        if to == BINARY:
            return f"encode({value.sql})"
        if to in {TIMESTAMP, TIMESTAMP_NTZ}:
            return call(timestamp_of, to, [value], self.zone if to == TIMESTAMP else None, safe=safe)
        readers = {
            DOUBLE: double_of,
            FLOAT: float_of,
            BOOLEAN: boolean_of,
            DATE: date_of,
        }
        if to not in readers:
            raise no_cast(value, to)
        return call(readers[to], to, [value], safe=safe)

    def _to_text(self, value: TypedSql) -> str:
        kind = value.type
        if kind in {DOUBLE, FLOAT}:
            writer = double_text if kind == DOUBLE else float_text
            return self.functions.call(writer, STRING, [value])
        if kind == BINARY:
            return f"decode({value.sql})"
        if kind == TIMESTAMP:
            return f"CAST(CAST({value.sql} AS TIMESTAMP) AS VARCHAR)"
        if pa.types.is_nested(kind) or kind in INTERVALS:
            raise no_cast(value, STRING)
        text = f"CAST({value.sql} AS VARCHAR)"
        if is_decimal(kind) and kind.precision == kind.scale:  # DuckDB writes no zero before the point
            return f"regexp_replace({text}, '^(-?)[.]', '\\10.')"
        return text

    def _from_number(self, value: TypedSql, to: pa.DataType, safe: bool, plain: str) -> str:  # noqa: FBT001
        kind, word = value.type, "TRY_CAST" if safe else "CAST"
        if to == BOOLEAN:
            return f"({value.sql} <> 0)"
        if kind == BOOLEAN and is_number(to):
            return f"CAST(CAST({value.sql} AS INTEGER) AS {duckdb_type(to)})"
        if is_integral(to):
            whole = value.sql if is_integral(kind) else f"trunc({value.sql})"
            return f"{word}({whole} AS {duckdb_type(to)})"
        if is_decimal(to) and kind in {DOUBLE, FLOAT}:
            return self.functions.call(decimal_of, to, [value], to.precision, to.scale, safe=safe)
        if to in {DOUBLE, FLOAT} and is_decimal(kind) and kind.precision > _EXACT_DIGITS:
            return f"CAST(CAST({value.sql} AS VARCHAR) AS {duckdb_type(to)})"
        if to == TIMESTAMP and is_integral(kind):
            return f"to_timestamp({value.sql})"
        if is_number(to):
            return plain
        raise no_cast(value, to)

    def _cast_members(self, value: TypedSql, to: pa.DataType, safe: bool) -> str:  # noqa: FBT001 - handed through
        kind, types = value.type, pa.types
        if types.is_list(kind) and types.is_list(to):
            inner = self._cast_inside("e", kind.value_type, to.value_type, safe)
            return f"list_transform({value.sql}, lambda e: {inner})"
        if types.is_map(kind) and types.is_map(to):
            key = self._cast_inside("e.key", kind.key_type, to.key_type, safe)
            item = self._cast_inside("e.value", kind.item_type, to.item_type, safe)
            entry = f"{{'key': {key}, 'value': {item}}}"
            return f"map_from_entries(list_transform(map_entries({value.sql}), lambda e: {entry}))"
        if types.is_struct(kind) and types.is_struct(to) and kind.num_fields == to.num_fields:
            fields = [
                f"{quoted(new.name)} := "
                + self._cast_inside(f"struct_extract({value.sql}, {text_literal(old.name)})", old.type, new.type, safe)
                for old, new in zip(kind, to, strict=True)
            ]
            return f"CASE WHEN {value.sql} IS NOT NULL THEN struct_pack({', '.join(fields)}) END"
        raise no_cast(value, to)

    def _cast_inside(self, sql: str, kind: pa.DataType, to: pa.DataType, safe: bool) -> str:  # noqa: FBT001
        return self.cast(TypedSql(sql, kind, ""), to, safe=safe).sql


def no_cast(value: TypedSql, to: pa.DataType) -> InvalidInputError | UnsupportedError:
    """Return the error for a cast that does not exist."""
    message = f"{value.name} is {spark_type(value.type)} and cannot be cast to {spark_type(to)}"
    if pa.types.is_nested(value.type) and to == STRING:
        return UnsupportedError(f"{message} in this process")
    return InvalidInputError(message)

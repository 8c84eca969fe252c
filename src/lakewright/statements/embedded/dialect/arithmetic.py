"""Arithmetic as Spark does it: two values in, one of the type that Spark gives the result out.

Overflow and division by zero are errors. What DuckDB calculates otherwise (quotients of decimals, results with fewer
digits than both operands have together) is calculated exactly in Python.
"""

from __future__ import annotations

import pyarrow as pa

from lakewright.errors import InvalidInputError
from lakewright.statements.embedded.dialect import conversions
from lakewright.statements.embedded.dialect.types import (
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
    YEAR_MONTH,
    as_decimal,
    common_type,
    decimal_result,
    duckdb_type,
    is_decimal,
    is_integral,
    is_moment,
    is_number,
    spark_type,
)
from lakewright.statements.embedded.dialect.values import Binder, Value

_ZERO = "error('division by zero; try_divide gives NULL')"


def calculated(binder: Binder, sign: str, left: Value, right: Value) -> Value:
    """Return `left sign right`."""
    name = f"({left.name} {sign} {right.name})"
    if sign in "+-" and _is_time(left) | _is_time(right):
        return _moved(binder, sign, left, right).called(_moved_name(sign, left, right, name))
    if left.type in INTERVALS or right.type in INTERVALS:
        return _scaled(sign, left, right, name)
    left, right = _as_numbers(binder, left, right, name)
    if is_decimal(left.type) or is_decimal(right.type):
        return _decimals(binder, sign, left, right, name)
    if sign == "/":
        left, right = left.typed(DOUBLE), right.typed(DOUBLE)
        return Value(_checked(left, right, f"{left.sql} / {right.sql}"), DOUBLE, name)
    kind = common_type(left.type, right.type)
    left, right = left.typed(kind), right.typed(kind)
    if sign == "div":
        left, right = left.typed(LONG), right.typed(LONG)
        return Value(_checked(left, right, f"{left.sql} // {right.sql}"), LONG, name)
    sql = f"{left.sql} {sign} {right.sql}"
    return Value(_checked(left, right, sql) if sign == "%" else f"({sql})", kind, name)


def _checked(left: Value, right: Value, sql: str) -> str:
    """Return a division, which is an error if the divisor is zero; the literal 2 is not looked at."""
    if right.literal:
        return f"({sql})"
    return f"CASE WHEN {right.sql} = 0 AND {left.sql} IS NOT NULL THEN {_ZERO} ELSE {sql} END"


def _as_numbers(binder: Binder, left: Value, right: Value, name: str) -> tuple[Value, Value]:
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


def _decimals(binder: Binder, sign: str, left: Value, right: Value, name: str) -> Value:
    if not {left.type, right.type}.isdisjoint({FLOAT, DOUBLE}):
        both = binder.cast(left, DOUBLE), binder.cast(right, DOUBLE)
        if sign == "div":
            raise InvalidInputError(f"{name} takes whole numbers and decimals")
        sql = f"{both[0].sql} {sign} {both[1].sql}"
        return Value(_checked(both[0], both[1], sql) if sign in "/%" else f"({sql})", DOUBLE, name)
    left, right = _as_decimal(left, right), _as_decimal(right, left)
    if sign == "div":
        quotient = divided(binder, left, right, pa.decimal128(38, 0), rounding_down=True)
        return Value(f"CAST({quotient} AS BIGINT)", LONG, name)
    gives = decimal_result(sign, left.type, right.type)
    if sign == "/":
        return Value(divided(binder, left, right, gives), gives, name)
    exact = left.type.scale + right.type.scale if sign == "*" else max(left.type.scale, right.type.scale)
    if sign == "%":
        wide = common_type(left.type, right.type)
        one, other = left.typed(wide), right.typed(wide)
        return Value(f"CAST({_checked(one, other, f'{one.sql} % {other.sql}')} AS {duckdb_type(gives)})", gives, name)
    if gives.scale != exact:
        run = {"*": conversions.multiplied, "+": conversions.added, "-": conversions.added}[sign]
        other = Value(f"(-({right.sql}))", right.type, "") if sign == "-" else right
        return Value(binder.functions.call(run, gives, [left, other], gives.precision, gives.scale), gives, name)
    if sign in "+-":
        left, right = left.typed(gives), right.typed(gives)
    return Value(f"CAST({left.sql} {sign} {right.sql} AS {duckdb_type(gives)})", gives, name)


def _as_decimal(value: Value, other: Value) -> Value:
    """Return a whole number as a decimal; a literal takes only the digits that it has."""
    if is_decimal(value.type):
        return value
    if isinstance(value.literal, int) and is_decimal(other.type):
        return value.typed(pa.decimal128(len(str(abs(value.literal))), 0))
    return value.typed(as_decimal(value.type))


def divided(binder: Binder, left: Value, right: Value, gives: pa.DataType, *, rounding_down: bool = False) -> str:
    """Return the quotient of two decimals."""
    run = conversions.divided_down if rounding_down else conversions.divided
    return binder.functions.call(run, gives, [left, right], gives.precision, gives.scale)


# ---- dates, timestamps, intervals


def _is_time(value: Value) -> bool:
    return value.type == DATE or is_moment(value.type)


def _moved_name(sign: str, left: Value, right: Value, name: str) -> str:
    if is_integral(left.type) or is_integral(right.type):
        return f"{'date_add' if sign == '+' else 'date_sub'}({left.name}, {right.name})"
    if right.type in INTERVALS:
        return f"{left.name} {sign} {right.name}"
    return name


def _moved(binder: Binder, sign: str, left: Value, right: Value) -> Value:
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
        return Value(f"CAST({start.sql} {sign} {right.sql} AS {duckdb_type(kind)})", kind, "")
    if left.type == DATE and is_integral(right.type) and right.type != LONG:
        return Value(f"({left.sql} {sign} {right.typed(INT).sql})", DATE, "")
    raise InvalidInputError(f"{left.name} {sign} {right.name} takes an interval, not {spark_type(right.type)}")


def _between(binder: Binder, left: Value, right: Value) -> Value:
    if left.type == DATE and right.type == DATE:
        return Value(f"to_days(CAST({left.sql} - {right.sql} AS INTEGER))", DAYS, "")
    kind = common_type(left.type, right.type)
    one, other = binder.cast(left, kind), binder.cast(right, kind)
    return Value(f"to_microseconds(epoch_us({one.sql}) - epoch_us({other.sql}))", DAY_TIME, "")


def _scaled(sign: str, left: Value, right: Value, name: str) -> Value:
    """Return the sum of two intervals, or an interval as often as a whole number says."""
    kinds = {left.type, right.type}
    if sign in "+-" and (YEAR_MONTH not in kinds or kinds == {YEAR_MONTH}) and kinds <= set(INTERVALS):
        kind = left.type if len(kinds) == 1 else DAY_TIME
        return Value(f"({left.sql} {sign} {right.sql})", kind, name)
    interval, other = (left, right) if left.type in INTERVALS else (right, left)
    if sign == "*" and is_integral(other.type):
        kind = YEAR_MONTH if interval.type == YEAR_MONTH else DAY_TIME
        return Value(f"({interval.sql} * {other.sql})", kind, name)
    raise InvalidInputError(f"{name} cannot be calculated: {spark_type(left.type)} and {spark_type(right.type)}")

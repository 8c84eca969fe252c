"""Functions on numbers, and those that choose between values."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from lakewright.errors import InvalidInputError
from lakewright.statements.embedded.dialect import arithmetic, conversions
from lakewright.statements.embedded.dialect.functions.templates import named, template
from lakewright.statements.embedded.dialect.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    NULL,
    STRING,
    TIMESTAMP,
    bounded,
    duckdb_type,
    is_decimal,
    is_integral,
    is_number,
    spark_type,
)
from lakewright.statements.embedded.dialect.values import Binder, Function, Value


def _number(binder: Binder, value: Value, name: str) -> Value:
    value = binder.cast(value, DOUBLE) if value.type in {STRING, NULL} else value
    if not is_number(value.type):
        raise InvalidInputError(f"{name} takes numbers, not {spark_type(value.type)}")
    return value


def _abs(binder: Binder, values: list[Value]) -> Value:
    value = _number(binder, values[0], "abs")
    return Value(f"CAST(abs({value.sql}) AS {duckdb_type(value.type)})", value.type, named("abs", values))


def _whole(name: str) -> Function:
    def function(binder: Binder, values: list[Value]) -> Value:
        if len(values) != 1:
            raise InvalidInputError(f"{name} takes 1 argument here, not {len(values)}")
        value = _number(binder, values[0], name)
        shown = f"{name.upper()}({values[0].name})"
        if is_integral(value.type):
            return Value(f"CAST({value.sql} AS BIGINT)", LONG, shown)
        if not is_decimal(value.type):
            return Value(f"CAST({name}({value.sql}) AS BIGINT)", LONG, shown)
        kind = bounded(value.type.precision - value.type.scale + 1, 0)
        return Value(f"CAST({name}({value.sql}) AS {duckdb_type(kind)})", kind, shown)

    return function


def _round(name: str) -> Function:
    mode = "ROUND_HALF_UP" if name == "round" else "ROUND_HALF_EVEN"

    def function(binder: Binder, values: list[Value]) -> Value:
        value = _number(binder, values[0], name)
        digits = values[1].literal if len(values) > 1 else 0
        if not isinstance(digits, int):
            raise InvalidInputError(f"{name}: the number of digits must be a literal")
        shown = f"{name}({values[0].name}, {digits})"
        if is_decimal(value.type):
            scale = min(max(digits, 0), value.type.scale)
            if digits < 0:
                raise InvalidInputError(f"{name} of a decimal to tens does not run here")
            kind = bounded(value.type.precision - value.type.scale + scale + 1, scale)
            if scale == value.type.scale or name == "round":
                return Value(value.typed(kind).sql, kind, shown)
            call = binder.functions.call(conversions.rounded_half_even, kind, [value], kind.precision, scale)
            return Value(call, kind, shown)
        if is_integral(value.type):
            if digits >= 0:
                return value.called(shown)
            return Value(
                binder.functions.call(conversions.rounded_integer, value.type, [value], digits, mode), value.type, shown
            )
        done = binder.functions.call(conversions.rounded_double, value.type, [value], digits, mode)
        return Value(done, value.type, shown)

    return function


def _arithmetic(name: str, sign: str) -> Function:
    def function(binder: Binder, values: list[Value]) -> Value:
        left, right = values
        return arithmetic.calculated(binder, sign, left, right).called(named(name, values))

    return function


def _pmod(binder: Binder, values: list[Value]) -> Value:
    rest = arithmetic.calculated(binder, "%", *values)
    divisor = binder.cast(values[1], rest.type) if not is_decimal(rest.type) else values[1]
    again = arithmetic.calculated(binder, "%", arithmetic.calculated(binder, "+", rest, divisor), divisor)
    sql = f"CASE WHEN {rest.sql} < 0 THEN {again.typed(rest.type).sql} ELSE {rest.sql} END"
    return Value(sql, rest.type, named("pmod", values))


def _try_divide(binder: Binder, values: list[Value]) -> Value:
    left, right = values
    safe = Value(f"nullif({right.sql}, 0)", right.type, right.name)
    return arithmetic.calculated(binder, "/", left, safe).called(named("try_divide", values))


def _negative(binder: Binder, values: list[Value]) -> Value:
    value = _number(binder, values[0], "negative")
    return Value(f"CAST(-({value.sql}) AS {duckdb_type(value.type)})", value.type, named("negative", values))


def _extreme(name: str) -> Function:
    def function(binder: Binder, values: list[Value]) -> Value:
        done = binder.common(values)
        return Value(f"{name}({', '.join(one.sql for one in done)})", done[0].type, named(name, values))

    return function


def _logarithm(binder: Binder, values: list[Value]) -> Value:
    done = [binder.cast(value, DOUBLE).sql for value in values]
    checks = " OR ".join(f"{one} <= 0" for one in done)
    sql = f"ln({done[0]})" if len(done) == 1 else f"(ln({done[1]}) / ln({done[0]}))"
    return Value(
        f"CASE WHEN {checks} THEN NULL ELSE {sql} END", DOUBLE, named("ln" if len(done) == 1 else "LOG", values)
    )


# ---- choices


def _coalesce(name: str) -> Function:
    def function(binder: Binder, values: list[Value]) -> Value:
        done = binder.common(values)
        return Value(f"coalesce({', '.join(one.sql for one in done)})", done[0].type, named(name, values))

    return function


def _nullif(binder: Binder, values: list[Value]) -> Value:
    left, right = values
    one, other = binder.common([left, right])
    sql = f"CASE WHEN {one.sql} = {other.sql} THEN NULL ELSE {left.sql} END"
    return Value(sql, left.type, named("nullif", values))


def _nvl2(binder: Binder, values: list[Value]) -> Value:
    test, *rest = values
    one, other = binder.common(rest)
    sql = f"CASE WHEN {test.sql} IS NOT NULL THEN {one.sql} ELSE {other.sql} END"
    return Value(sql, one.type, named("nvl2", values))


def _if(binder: Binder, values: list[Value]) -> Value:
    test, *rest = values
    one, other = binder.common(rest)
    sql = f"CASE WHEN {binder.cast(test, BOOLEAN).sql} THEN {one.sql} ELSE {other.sql} END"
    return Value(sql, one.type, f"(IF({', '.join(value.name for value in values)}))")


def _decode(binder: Binder, values: list[Value]) -> Value:
    given, *rest = values
    pairs = list(zip(rest[::2], rest[1::2], strict=False))
    results = [result for _, result in pairs] + ([rest[-1]] if len(rest) % 2 else [Value("NULL", NULL, "NULL")])
    done = binder.common(results)
    text = ""
    for (wanted, _), result in zip(pairs, done, strict=False):
        one, other = binder.common([given, wanted])
        text += f" WHEN {one.sql} IS NOT DISTINCT FROM {other.sql} THEN {result.sql}"
    return Value(f"CASE{text} ELSE {done[-1].sql} END", done[-1].type, named("decode", values))


def _equal_null(binder: Binder, values: list[Value]) -> Value:
    one, other = binder.common(values)
    return Value(f"({one.sql} IS NOT DISTINCT FROM {other.sql})", BOOLEAN, named("equal_null", values))


def _test(name: str, text: str) -> Function:
    return lambda _, values: Value(text.format(values[0].sql), BOOLEAN, f"({values[0].name} {name})")


def _cast(name: str, kind: pa.DataType) -> Function:
    def function(binder: Binder, values: list[Value]) -> Value:
        if len(values) != 1:
            raise InvalidInputError(f"{name} takes 1 argument, not {len(values)}")
        return binder.cast(values[0], kind).called(f"CAST({values[0].name} AS {spark_type(kind)})")

    return function


def _double(name: str, text: str) -> Function:
    return template(name, text, DOUBLE, DOUBLE)


_PLAIN = "exp sin cos tan asin acos atan sinh cosh tanh cbrt degrees radians".split()
_CASTS = {
    "boolean": BOOLEAN,
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": INT,
    "bigint": LONG,
    "float": FLOAT,
    "double": DOUBLE,
    "string": STRING,
    "binary": pa.binary(),
    "date": DATE,
    "timestamp": TIMESTAMP,
    "decimal": pa.decimal128(10, 0),
}

NUMBERS: Mapping[str, Function] = {
    "abs": _abs,
    "ceil": _whole("ceil"),
    "ceiling": _whole("ceil"),
    "floor": _whole("floor"),
    "round": _round("round"),
    "bround": _round("bround"),
    "mod": _arithmetic("mod", "%"),
    "div": _arithmetic("div", "div"),
    "pmod": _pmod,
    "try_divide": _try_divide,
    "negative": _negative,
    "positive": lambda binder, values: _number(binder, values[0], "positive").called(f"(+ {values[0].name})"),
    "greatest": _extreme("greatest"),
    "least": _extreme("least"),
    "sqrt": _double("SQRT", "CASE WHEN {0} < 0 THEN CAST('NaN' AS DOUBLE) ELSE sqrt({0}) END"),
    **{name: _double(name.upper(), f"{name}({{0}})") for name in _PLAIN},
    "ln": _logarithm,
    "log": _logarithm,
    "log10": _double("LOG10", "CASE WHEN {0} <= 0 THEN NULL ELSE log10({0}) END"),
    "log2": _double("LOG2", "CASE WHEN {0} <= 0 THEN NULL ELSE log2({0}) END"),
    "power": template("POWER", "pow({0}, {1})", DOUBLE, DOUBLE, DOUBLE),
    "pow": template("pow", "pow({0}, {1})", DOUBLE, DOUBLE, DOUBLE),
    "atan2": template("ATAN2", "atan2({0}, {1})", DOUBLE, DOUBLE, DOUBLE),
    "sign": _double("sign", "CAST(sign({0}) AS DOUBLE)"),
    "signum": _double("SIGNUM", "CAST(sign({0}) AS DOUBLE)"),
    "pi": template("PI", "pi()", DOUBLE),
    "e": template("E", "exp(CAST(1 AS DOUBLE))", DOUBLE),
    "isnan": template("isnan", "coalesce(isnan({0}), FALSE)", BOOLEAN, DOUBLE),
    "nanvl": template("nanvl", "CASE WHEN isnan({0}) THEN {1} ELSE {0} END", DOUBLE, DOUBLE, DOUBLE),
    **{name: _coalesce(name) for name in ("coalesce", "nvl", "ifnull")},
    "nullif": _nullif,
    "nvl2": _nvl2,
    "if": _if,
    "iff": _if,
    "decode": _decode,
    "equal_null": _equal_null,
    "isnull": _test("IS NULL", "({0} IS NULL)"),
    "isnotnull": _test("IS NOT NULL", "({0} IS NOT NULL)"),
    **{name: _cast(name, kind) for name, kind in _CASTS.items()},
}

"""Aggregate and window functions: the types of their results are Spark's, and overflow is an error."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from lakewright.errors import InvalidInputError
from lakewright.statements.embedded.dialect import arithmetic
from lakewright.statements.embedded.dialect.functions.templates import named
from lakewright.statements.embedded.dialect.types import (
    BOOLEAN,
    DOUBLE,
    INT,
    LONG,
    NULL,
    STRING,
    bounded,
    duckdb_type,
    is_decimal,
    is_integral,
    is_number,
    spark_type,
)
from lakewright.statements.embedded.dialect.values import Aggregate, Aggregation, Binder, Value


def _name(name: str, values: list[Value], how: Aggregation) -> str:
    return f"{name}({how.word}{', '.join(value.name for value in values)})"


def _number(binder: Binder, value: Value, name: str) -> Value:
    value = binder.cast(value, DOUBLE) if value.type in {STRING, NULL} else value
    if not is_number(value.type):
        raise InvalidInputError(f"{name} takes numbers, not {spark_type(value.type)}")
    return value


def _count(_: Binder, values: list[Value], how: Aggregation) -> Value:
    name = _name("count", values, how)
    if len(values) == 1:
        inner = "*" if values[0].literal is not None and not how.distinct else f"{how.word}{values[0].sql}"
        return Value(how.of(f"count({inner})"), LONG, name)
    nulls = " AND ".join(f"{value.sql} IS NOT NULL" for value in values)
    inner = f"DISTINCT ({', '.join(value.sql for value in values)})" if how.distinct else "*"
    return Value(how.of(f"count({inner})", f"({nulls})"), LONG, name)


def _sum_type(kind: pa.DataType) -> pa.DataType:
    if is_decimal(kind):
        return bounded(kind.precision + 10, kind.scale)
    return LONG if is_integral(kind) else DOUBLE


def _sum(binder: Binder, values: list[Value], how: Aggregation) -> Value:
    value = _number(binder, values[0], "sum")
    kind = _sum_type(value.type)
    total = how.of(f"sum({how.word}{value.sql})")
    return Value(f"CAST({total} AS {duckdb_type(kind)})", kind, _name("sum", values, how))


def _avg(shown: str) -> Aggregate:
    def function(binder: Binder, values: list[Value], how: Aggregation) -> Value:
        value, name = _number(binder, values[0], "avg"), _name(shown, values, how)
        if not is_decimal(value.type):
            inner = value if is_integral(value.type) else value.typed(DOUBLE)
            return Value(how.of(f"avg({how.word}{inner.sql})"), DOUBLE, name)
        total = _sum(binder, [value], how)
        count = Value(how.of(f"count({how.word}{value.sql})"), LONG, "")
        gives = bounded(value.type.precision + 4, value.type.scale + 4)
        count = Value(f"nullif({count.sql}, 0)", LONG, "")
        quotient = arithmetic.calculated(binder, "/", total, count)
        return Value(quotient.typed(gives).sql, gives, name)

    return function


def _extreme(name: str) -> Aggregate:
    def function(_: Binder, values: list[Value], how: Aggregation) -> Value:
        return Value(how.of(f"{name}({values[0].sql})"), values[0].type, _name(name, values, how))

    return function


def _by(name: str, own: str) -> Aggregate:
    def function(_: Binder, values: list[Value], how: Aggregation) -> Value:
        value, order = values
        sql = how.of(f"{own}({value.sql}, {order.sql})", f"{order.sql} IS NOT NULL")
        return Value(sql, value.type, _name(name, values, how))

    return function


def _first(name: str) -> Aggregate:
    own = "last" if name.startswith("last") else "first"

    def function(_: Binder, values: list[Value], how: Aggregation) -> Value:
        ignores = how.ignore_nulls or (len(values) > 1 and values[1].literal is True)
        value, shown = values[0], f"{name}({values[0].name})"
        if how.over:
            word = " IGNORE NULLS" if ignores else ""
            return Value(f"{own}_value({value.sql}{word}){how.over}", value.type, shown)
        return Value(how.of(f"{own}({value.sql})", f"{value.sql} IS NOT NULL" if ignores else ""), value.type, shown)

    return function


def _collected(name: str) -> Aggregate:
    def function(_: Binder, values: list[Value], how: Aggregation) -> Value:
        value = values[0]
        word = "DISTINCT " if name == "collect_set" or how.distinct else ""
        kind = pa.list_(value.type)
        found = how.of(f"list({word}{value.sql})", f"{value.sql} IS NOT NULL")
        return Value(f"coalesce({found}, CAST([] AS {duckdb_type(kind)}))", kind, _name(name, values, how))

    return function


def _double(name: str, own: str) -> Aggregate:
    def function(binder: Binder, values: list[Value], how: Aggregation) -> Value:
        texts = ", ".join(binder.cast(_number(binder, value, name), DOUBLE).sql for value in values)
        return Value(how.of(f"{own}({how.word}{texts})"), DOUBLE, _name(name, values, how))

    return function


def _percentile(name: str) -> Aggregate:
    def function(binder: Binder, values: list[Value], how: Aggregation) -> Value:
        value = binder.cast(_number(binder, values[0], name), DOUBLE)
        share = values[1].sql if name != "median" else "0.5"
        many = name != "median" and pa.types.is_list(values[1].type)
        kind = pa.list_(DOUBLE) if many else DOUBLE
        if name != "median" and not many and not is_number(values[1].type):
            raise InvalidInputError(f"{name} takes a number between 0 and 1")
        share = f"CAST({share} AS {duckdb_type(kind)})"
        shown = f"{name}({', '.join([one.name for one in values] + ['1'] * (name == 'percentile'))})"
        return Value(how.of(f"quantile_cont({value.sql}, {share})"), kind, shown)

    return function


def _boolean(name: str, own: str) -> Aggregate:
    def function(binder: Binder, values: list[Value], how: Aggregation) -> Value:
        return Value(how.of(f"{own}({binder.cast(values[0], BOOLEAN).sql})"), BOOLEAN, _name(name, values, how))

    return function


def _count_if(binder: Binder, values: list[Value], how: Aggregation) -> Value:
    test = binder.cast(values[0], BOOLEAN).sql
    return Value(how.of("count(*)", test), LONG, _name("count_if", values, how))


def _joined(binder: Binder, values: list[Value], how: Aggregation) -> Value:
    value = binder.cast(values[0], STRING).sql
    mark = binder.cast(values[1], STRING).sql if len(values) > 1 else "''"
    sql = how.of(f"string_agg({how.word}{value}, {mark}{how.order})")
    return Value(sql, STRING, named("listagg", values))


# ---- functions of windows alone


def _ranked(name: str, kind: pa.DataType) -> Aggregate:
    def function(_: Binder, values: list[Value], how: Aggregation) -> Value:
        if not how.over:
            raise InvalidInputError(f"{name} needs OVER (...)")
        shown = named(name.upper() if "rank" in name else name, values)
        texts = ", ".join(value.sql for value in values)
        return Value(f"CAST({name}({texts}){how.over} AS {duckdb_type(kind)})", kind, shown)

    return function


def _shifted(name: str) -> Aggregate:
    def function(binder: Binder, values: list[Value], how: Aggregation) -> Value:
        if not how.over:
            raise InvalidInputError(f"{name} needs OVER (...)")
        value = values[0]
        offset = binder.cast(values[1], INT) if len(values) > 1 else Value("1", INT, "1")
        word = " IGNORE NULLS" if how.ignore_nulls else ""
        default = f", {binder.cast(values[2], value.type).sql}" if len(values) > 2 else ""  # noqa: PLR2004
        shown = f"{name}({value.name}, {offset.name}, {values[2].name if default else 'NULL'})"
        return Value(f"{name}({value.sql}, {offset.sql}{default}{word}){how.over}", value.type, shown)

    return function


def _nth(binder: Binder, values: list[Value], how: Aggregation) -> Value:
    value, number = values[0], binder.cast(values[1], INT)
    return Value(f"nth_value({value.sql}, {number.sql}){how.over}", value.type, named("nth_value", values))


AGGREGATES: Mapping[str, Aggregate] = {
    "count": _count,
    "sum": _sum,
    "avg": _avg("avg"),
    "mean": _avg("mean"),
    "min": _extreme("min"),
    "max": _extreme("max"),
    "max_by": _by("max_by", "arg_max_null"),
    "min_by": _by("min_by", "arg_min_null"),
    **{name: _first(name) for name in ("first", "first_value", "last", "last_value", "any_value")},
    **{name: _collected(name) for name in ("collect_list", "array_agg", "collect_set")},
    "stddev": _double("stddev", "stddev_samp"),
    "std": _double("std", "stddev_samp"),
    "stddev_samp": _double("stddev_samp", "stddev_samp"),
    "stddev_pop": _double("stddev_pop", "stddev_pop"),
    "variance": _double("variance", "var_samp"),
    "var_samp": _double("var_samp", "var_samp"),
    "var_pop": _double("var_pop", "var_pop"),
    "percentile": _percentile("percentile"),
    "median": _percentile("median"),
    "bool_and": _boolean("bool_and", "bool_and"),
    "every": _boolean("every", "bool_and"),
    "bool_or": _boolean("bool_or", "bool_or"),
    "some": _boolean("some", "bool_or"),
    "any": _boolean("any", "bool_or"),
    "count_if": _count_if,
    "listagg": _joined,
    "string_agg": _joined,
    **{name: _ranked(name, INT) for name in ("row_number", "rank", "dense_rank", "ntile")},
    **{name: _ranked(name, DOUBLE) for name in ("percent_rank", "cume_dist")},
    "lag": _shifted("lag"),
    "lead": _shifted("lead"),
    "nth_value": _nth,
}

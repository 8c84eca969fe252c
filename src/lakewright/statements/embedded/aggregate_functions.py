"""Aggregates, windows, functions on arrays, maps, structs."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.statements.embedded import dialect_casts
from lakewright.statements.embedded.dialect_values import (
    BOOLEAN,
    DOUBLE,
    INT,
    LONG,
    NULL,
    STRING,
    Aggregate,
    AggregateCall,
    Binder,
    Function,
    TypedSql,
    bounded_decimal,
    common_type,
    duckdb_type,
    is_decimal,
    is_integral,
    is_number,
    quoted,
    spark_type,
)
from lakewright.statements.embedded.scalar_functions import spark_name

# ---- Aggregate and window functions ----------------------------------------------------------------------------------


def _name(name: str, values: list[TypedSql], how: AggregateCall) -> str:
    return f"{name}({how.word}{', '.join(value.name for value in values)})"


def _number(binder: Binder, value: TypedSql, name: str) -> TypedSql:
    value = binder.cast(value, DOUBLE) if value.type in {STRING, NULL} else value
    if not is_number(value.type):
        raise InvalidInputError(f"{name} takes numbers, not {spark_type(value.type)}")
    return value


def _count(_: Binder, values: list[TypedSql], how: AggregateCall) -> TypedSql:
    name = _name("count", values, how)
    if len(values) == 1:
        inner = "*" if values[0].literal is not None and not how.distinct else f"{how.word}{values[0].sql}"
        return TypedSql(how.of(f"count({inner})"), LONG, name)
    nulls = " AND ".join(f"{value.sql} IS NOT NULL" for value in values)
    inner = f"DISTINCT ({', '.join(value.sql for value in values)})" if how.distinct else "*"
    return TypedSql(how.of(f"count({inner})", f"({nulls})"), LONG, name)


def _sum_type(kind: pa.DataType) -> pa.DataType:
    if is_decimal(kind):
        return bounded_decimal(kind.precision + 10, kind.scale)
    return LONG if is_integral(kind) else DOUBLE


def _sum(binder: Binder, values: list[TypedSql], how: AggregateCall) -> TypedSql:
    value = _number(binder, values[0], "sum")
    kind = _sum_type(value.type)
    total = how.of(f"sum({how.word}{value.sql})")
    return TypedSql(f"CAST({total} AS {duckdb_type(kind)})", kind, _name("sum", values, how))


def _avg(shown: str) -> Aggregate:
    def function(binder: Binder, values: list[TypedSql], how: AggregateCall) -> TypedSql:
        value, name = _number(binder, values[0], "avg"), _name(shown, values, how)
        if not is_decimal(value.type):
            inner = value if is_integral(value.type) else value.with_type(DOUBLE)
            return TypedSql(how.of(f"avg({how.word}{inner.sql})"), DOUBLE, name)
        total = _sum(binder, [value], how)
        count = TypedSql(how.of(f"count({how.word}{value.sql})"), LONG, "")
        gives = bounded_decimal(value.type.precision + 4, value.type.scale + 4)
        count = TypedSql(f"nullif({count.sql}, 0)", LONG, "")
        quotient = dialect_casts.calculate(binder, "/", total, count)
        return TypedSql(quotient.with_type(gives).sql, gives, name)

    return function


def _extreme_aggregate(name: str) -> Aggregate:
    def function(_: Binder, values: list[TypedSql], how: AggregateCall) -> TypedSql:
        return TypedSql(how.of(f"{name}({values[0].sql})"), values[0].type, _name(name, values, how))

    return function


def _by(name: str, own: str) -> Aggregate:
    def function(_: Binder, values: list[TypedSql], how: AggregateCall) -> TypedSql:
        value, order = values
        sql = how.of(f"{own}({value.sql}, {order.sql})", f"{order.sql} IS NOT NULL")
        return TypedSql(sql, value.type, _name(name, values, how))

    return function


def _first(name: str) -> Aggregate:
    own = "last" if name.startswith("last") else "first"

    def function(_: Binder, values: list[TypedSql], how: AggregateCall) -> TypedSql:
        ignores = how.ignore_nulls or (len(values) > 1 and values[1].literal is True)
        value, shown = values[0], f"{name}({values[0].name})"
        if how.over:
            word = " IGNORE NULLS" if ignores else ""
            return TypedSql(f"{own}_value({value.sql}{word}){how.over}", value.type, shown)
        return TypedSql(how.of(f"{own}({value.sql})", f"{value.sql} IS NOT NULL" if ignores else ""), value.type, shown)

    return function


def _collect_function(name: str) -> Aggregate:
    def function(_: Binder, values: list[TypedSql], how: AggregateCall) -> TypedSql:
        value = values[0]
        word = "DISTINCT " if name == "collect_set" or how.distinct else ""
        kind = pa.list_(value.type)
        found = how.of(f"list({word}{value.sql})", f"{value.sql} IS NOT NULL")
        return TypedSql(f"coalesce({found}, CAST([] AS {duckdb_type(kind)}))", kind, _name(name, values, how))

    return function


def _double(name: str, own: str) -> Aggregate:
    def function(binder: Binder, values: list[TypedSql], how: AggregateCall) -> TypedSql:
        texts = ", ".join(binder.cast(_number(binder, value, name), DOUBLE).sql for value in values)
        return TypedSql(how.of(f"{own}({how.word}{texts})"), DOUBLE, _name(name, values, how))

    return function


def _percentile(name: str) -> Aggregate:
    def function(binder: Binder, values: list[TypedSql], how: AggregateCall) -> TypedSql:
        value = binder.cast(_number(binder, values[0], name), DOUBLE)
        share = values[1].sql if name != "median" else "0.5"
        many = name != "median" and pa.types.is_list(values[1].type)
        kind = pa.list_(DOUBLE) if many else DOUBLE
        if name != "median" and not many and not is_number(values[1].type):
            raise InvalidInputError(f"{name} takes a number between 0 and 1")
        share = f"CAST({share} AS {duckdb_type(kind)})"
        shown = f"{name}({', '.join([one.name for one in values] + ['1'] * (name == 'percentile'))})"
        return TypedSql(how.of(f"quantile_cont({value.sql}, {share})"), kind, shown)

    return function


def _boolean(name: str, own: str) -> Aggregate:
    def function(binder: Binder, values: list[TypedSql], how: AggregateCall) -> TypedSql:
        return TypedSql(how.of(f"{own}({binder.cast(values[0], BOOLEAN).sql})"), BOOLEAN, _name(name, values, how))

    return function


def _count_if(binder: Binder, values: list[TypedSql], how: AggregateCall) -> TypedSql:
    test = binder.cast(values[0], BOOLEAN).sql
    return TypedSql(how.of("count(*)", test), LONG, _name("count_if", values, how))


def _listagg(binder: Binder, values: list[TypedSql], how: AggregateCall) -> TypedSql:
    value = binder.cast(values[0], STRING).sql
    mark = binder.cast(values[1], STRING).sql if len(values) > 1 else "''"
    sql = how.of(f"string_agg({how.word}{value}, {mark}{how.order})")
    return TypedSql(sql, STRING, spark_name("listagg", values))


# ---- functions of windows alone


def _rank_function(name: str, kind: pa.DataType) -> Aggregate:
    def function(_: Binder, values: list[TypedSql], how: AggregateCall) -> TypedSql:
        if not how.over:
            raise InvalidInputError(f"{name} needs OVER (...)")
        shown = spark_name(name.upper() if "rank" in name else name, values)
        texts = ", ".join(value.sql for value in values)
        return TypedSql(f"CAST({name}({texts}){how.over} AS {duckdb_type(kind)})", kind, shown)

    return function


def _shift_function(name: str) -> Aggregate:
    def function(binder: Binder, values: list[TypedSql], how: AggregateCall) -> TypedSql:
        if not how.over:
            raise InvalidInputError(f"{name} needs OVER (...)")
        value = values[0]
        offset = binder.cast(values[1], INT) if len(values) > 1 else TypedSql("1", INT, "1")
        word = " IGNORE NULLS" if how.ignore_nulls else ""
        default = f", {binder.cast(values[2], value.type).sql}" if len(values) > 2 else ""  # noqa: PLR2004
        shown = f"{name}({value.name}, {offset.name}, {values[2].name if default else 'NULL'})"
        return TypedSql(f"{name}({value.sql}, {offset.sql}{default}{word}){how.over}", value.type, shown)

    return function


def _nth(binder: Binder, values: list[TypedSql], how: AggregateCall) -> TypedSql:
    value, number = values[0], binder.cast(values[1], INT)
    return TypedSql(f"nth_value({value.sql}, {number.sql}){how.over}", value.type, spark_name("nth_value", values))


AGGREGATES: Mapping[str, Aggregate] = {
    "count": _count,
    "sum": _sum,
    "avg": _avg("avg"),
    "mean": _avg("mean"),
    "min": _extreme_aggregate("min"),
    "max": _extreme_aggregate("max"),
    "max_by": _by("max_by", "arg_max_null"),
    "min_by": _by("min_by", "arg_min_null"),
    **{name: _first(name) for name in ("first", "first_value", "last", "last_value", "any_value")},
    **{name: _collect_function(name) for name in ("collect_list", "array_agg", "collect_set")},
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
    "listagg": _listagg,
    "string_agg": _listagg,
    **{name: _rank_function(name, INT) for name in ("row_number", "rank", "dense_rank", "ntile")},
    **{name: _rank_function(name, DOUBLE) for name in ("percent_rank", "cume_dist")},
    "lag": _shift_function("lag"),
    "lead": _shift_function("lead"),
    "nth_value": _nth,
}


# ---- Functions on arrays, maps and structs ---------------------------------------------------------------------------


def _list(value: TypedSql, name: str) -> pa.DataType:
    if not pa.types.is_list(value.type):
        raise InvalidInputError(f"{name} takes an array, not {spark_type(value.type)}")
    return value.type.value_type


def _map(value: TypedSql, name: str) -> pa.DataType:
    if not pa.types.is_map(value.type):
        raise InvalidInputError(f"{name} takes a map, not {spark_type(value.type)}")
    return value.type


def _array(binder: Binder, values: list[TypedSql]) -> TypedSql:
    done = binder.common(values) if values else []
    kind = pa.list_(done[0].type if done else pa.null())
    return TypedSql(f"[{', '.join(one.sql for one in done)}]", kind, spark_name("array", values))


def _make_map(binder: Binder, values: list[TypedSql]) -> TypedSql:
    if not values:
        raise UnsupportedError("an empty map() has no types of keys and values here; write NULL, or insert Arrow data")
    keys, items = binder.common(values[::2]), binder.common(values[1::2])
    if not keys or len(keys) != len(items):
        raise InvalidInputError("map takes keys and values by turns")
    sql = f"MAP([{', '.join(one.sql for one in keys)}], [{', '.join(one.sql for one in items)}])"
    return TypedSql(sql, pa.map_(keys[0].type, items[0].type), spark_name("map", values))


def _struct(_: Binder, values: list[TypedSql]) -> TypedSql:
    names = [
        value.name if value.literal is None and value.sql.startswith("r") else f"col{n}"
        for n, value in enumerate(values, 1)
    ]
    return _pack_struct(names, values, spark_name("struct", values))


def _named_struct(_: Binder, values: list[TypedSql]) -> TypedSql:
    names = [str(value.literal) for value in values[::2]]
    return _pack_struct(names, values[1::2], spark_name("named_struct", values))


def _pack_struct(names: list[str], values: list[TypedSql], shown: str) -> TypedSql:
    fields = ", ".join(f"{quoted(name)} := {value.sql}" for name, value in zip(names, values, strict=True))
    kind = pa.struct([(name, value.type) for name, value in zip(names, values, strict=True)])
    return TypedSql(f"struct_pack({fields})", kind, shown)


def _size(_: Binder, values: list[TypedSql]) -> TypedSql:
    value = values[0]
    if not pa.types.is_map(value.type):
        _list(value, "size")
    sql = f"cardinality({value.sql})" if pa.types.is_map(value.type) else f"len({value.sql})"
    return TypedSql(f"CAST({sql} AS INTEGER)", INT, spark_name("size", values))


def _array_contains(binder: Binder, values: list[TypedSql]) -> TypedSql:
    inner = _list(values[0], "array_contains")
    kind = common_type(inner, values[1].type)
    if kind is None:
        raise InvalidInputError(f"array_contains: {spark_type(inner)} and {spark_type(values[1].type)} do not fit")
    lists, wanted = binder.cast(values[0], pa.list_(kind)).sql, binder.cast(values[1], kind).sql
    has = f"list_contains({lists}, {wanted})"
    sql = f"CASE WHEN {lists} IS NULL OR {wanted} IS NULL THEN NULL WHEN {has} THEN TRUE"
    sql += f" WHEN len(list_filter({lists}, lambda e: e IS NULL)) > 0 THEN NULL ELSE FALSE END"
    return TypedSql(sql, BOOLEAN, spark_name("array_contains", values))


def _element_at(name: str) -> Function:
    def function(binder: Binder, values: list[TypedSql]) -> TypedSql:
        value, key = values
        shown = spark_name(name, values)
        if pa.types.is_map(value.type):
            return TypedSql(f"({value.sql})[{binder.cast(key, value.type.key_type).sql}]", value.type.item_type, shown)
        inner, at = _list(value, name), binder.cast(key, LONG).sql
        found = f"({value.sql})[{at}]"
        if name == "try_element_at":
            return TypedSql(found, inner, shown)
        wrong = f"error('the index ' || {at} || ' lies outside the array; try_element_at gives NULL')"
        outside = f"{value.sql} IS NOT NULL AND ({at} = 0 OR abs({at}) > len({value.sql}))"
        return TypedSql(f"CASE WHEN {outside} THEN {wrong} ELSE {found} END", inner, shown)

    return function


def _get(binder: Binder, values: list[TypedSql]) -> TypedSql:
    inner, at = _list(values[0], "get"), binder.cast(values[1], LONG).sql
    return TypedSql(f"CASE WHEN {at} >= 0 THEN ({values[0].sql})[{at} + 1] END", inner, spark_name("get", values))


def _of_list(name: str, text: str, gives: pa.DataType | None = None) -> Function:
    """Return a function of one array; without a type it gives an array of the same type."""

    def function(_: Binder, values: list[TypedSql]) -> TypedSql:
        _list(values[0], name)
        return TypedSql(
            text.format(*(value.sql for value in values)), gives or values[0].type, spark_name(name, values)
        )

    return function


def _extreme_element(name: str, text: str) -> Function:
    def function(_: Binder, values: list[TypedSql]) -> TypedSql:
        return TypedSql(text.format(values[0].sql), _list(values[0], name), spark_name(name, values))

    return function


def _sort_array(_: Binder, values: list[TypedSql]) -> TypedSql:
    _list(values[0], "sort_array")
    down = len(values) > 1 and values[1].literal is False
    order = "'DESC', 'NULLS LAST'" if down else "'ASC', 'NULLS FIRST'"
    shown = f"sort_array({values[0].name}, {'false' if down else 'true'})"
    return TypedSql(f"list_sort({values[0].sql}, {order})", values[0].type, shown)


def _array_sort(_: Binder, values: list[TypedSql]) -> TypedSql:
    _list(values[0], "array_sort")
    if len(values) > 1:
        raise InvalidInputError("array_sort with a comparison does not run here")
    return TypedSql(
        f"list_sort({values[0].sql}, 'ASC', 'NULLS LAST')", values[0].type, spark_name("array_sort", values)
    )


def _array_join(binder: Binder, values: list[TypedSql]) -> TypedSql:
    lists = binder.cast(values[0], pa.list_(STRING)).sql
    mark = binder.cast(values[1], STRING).sql
    if len(values) > 2:  # noqa: PLR2004 - what stands for null
        lists = f"list_transform({lists}, lambda e: coalesce(e, {binder.cast(values[2], STRING).sql}))"
    sql = f"CASE WHEN {lists} IS NOT NULL THEN coalesce(array_to_string({lists}, {mark}), '') END"
    return TypedSql(sql, STRING, spark_name("array_join", values))


def _slice(_: Binder, values: list[TypedSql]) -> TypedSql:
    _list(values[0], "slice")
    start, length = values[1].literal, values[2].literal
    if not isinstance(start, int) or not isinstance(length, int) or start < 1 or length < 0:
        raise InvalidInputError("slice takes a start of at least 1 and a length as literals here")
    return TypedSql(f"({values[0].sql})[{start}:{start + length - 1}]", values[0].type, spark_name("slice", values))


def _sequence(binder: Binder, values: list[TypedSql]) -> TypedSql:
    done = binder.common(values)
    if done[0].type not in {INT, LONG} or len(values) > 2:  # noqa: PLR2004 - first and last
        raise InvalidInputError("sequence takes two whole numbers here")
    first, last = (one.sql for one in done)
    step = f"CASE WHEN {first} <= {last} THEN 1 ELSE -1 END"
    kind = pa.list_(done[0].type)
    sql = f"generate_series(CAST({first} AS BIGINT), CAST({last} AS BIGINT), {step})"
    return TypedSql(binder.cast(TypedSql(sql, pa.list_(LONG), ""), kind).sql, kind, spark_name("sequence", values))


# ---- functions that take a function


def _lambda(value: TypedSql, name: str) -> exp.Lambda:
    if not isinstance(value.literal, exp.Lambda):
        raise InvalidInputError(f"{name} takes a lambda, such as x -> x + 1")
    return value.literal


def _transform(binder: Binder, values: list[TypedSql]) -> TypedSql:
    inner, node = _list(values[0], "transform"), _lambda(values[1], "transform")
    head, body = binder.lambda_body(node, inner, INT)
    if len(node.expressions) > 1:
        position = head.split(",")[1].strip(" :")
        body = TypedSql(body.sql.replace(position, f"CAST({position} - 1 AS INTEGER)"), body.type, body.name)
    return TypedSql(
        f"list_transform({values[0].sql}, {head} {body.sql})", pa.list_(body.type), spark_name("transform", values[:1])
    )


def _filter(binder: Binder, values: list[TypedSql]) -> TypedSql:
    head, body = binder.lambda_body(_lambda(values[1], "filter"), _list(values[0], "filter"))
    return TypedSql(
        f"list_filter({values[0].sql}, {head} {body.sql})", values[0].type, spark_name("filter", values[:1])
    )


# ---- maps


def _map_part(name: str, part: str) -> Function:
    def function(_: Binder, values: list[TypedSql]) -> TypedSql:
        kind = _map(values[0], name)
        gives = {"key": kind.key_type, "value": kind.item_type}.get(part)
        if gives is None:
            gives = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        return TypedSql(f"{name}({values[0].sql})", pa.list_(gives), spark_name(name, values))

    return function


def _map_contains_key(binder: Binder, values: list[TypedSql]) -> TypedSql:
    key = binder.cast(values[1], _map(values[0], "map_contains_key").key_type)
    return TypedSql(f"map_contains({values[0].sql}, {key.sql})", BOOLEAN, spark_name("map_contains_key", values))


def _map_from_arrays(_: Binder, values: list[TypedSql]) -> TypedSql:
    kind = pa.map_(_list(values[0], "map_from_arrays"), _list(values[1], "map_from_arrays"))
    return TypedSql(f"MAP({values[0].sql}, {values[1].sql})", kind, spark_name("map_from_arrays", values))


NESTED: Mapping[str, Function] = {
    "array": _array,
    "map": _make_map,
    "struct": _struct,
    "named_struct": _named_struct,
    **dict.fromkeys(("size", "cardinality", "array_size"), _size),
    "array_contains": _array_contains,
    "element_at": _element_at("element_at"),
    "try_element_at": _element_at("try_element_at"),
    "get": _get,
    "array_max": _extreme_element("array_max", "list_max({0})"),
    "array_min": _extreme_element("array_min", "list_min({0})"),
    "sort_array": _sort_array,
    "array_sort": _array_sort,
    "array_join": _array_join,
    "slice": _slice,
    "sequence": _sequence,
    "transform": _transform,
    "filter": _filter,
    "map_keys": _map_part("map_keys", "key"),
    "map_values": _map_part("map_values", "value"),
    "map_entries": _map_part("map_entries", "entry"),
    "map_contains_key": _map_contains_key,
    "map_from_arrays": _map_from_arrays,
}

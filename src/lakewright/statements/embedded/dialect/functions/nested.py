"""Functions on arrays, maps and structs."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.statements.embedded.dialect.functions.templates import named
from lakewright.statements.embedded.dialect.types import BOOLEAN, INT, LONG, STRING, common_type, quoted, spark_type
from lakewright.statements.embedded.dialect.values import Binder, Function, Value


def _list(value: Value, name: str) -> pa.DataType:
    if not pa.types.is_list(value.type):
        raise InvalidInputError(f"{name} takes an array, not {spark_type(value.type)}")
    return value.type.value_type


def _map(value: Value, name: str) -> pa.DataType:
    if not pa.types.is_map(value.type):
        raise InvalidInputError(f"{name} takes a map, not {spark_type(value.type)}")
    return value.type


def _array(binder: Binder, values: list[Value]) -> Value:
    done = binder.common(values) if values else []
    kind = pa.list_(done[0].type if done else pa.null())
    return Value(f"[{', '.join(one.sql for one in done)}]", kind, named("array", values))


def _make_map(binder: Binder, values: list[Value]) -> Value:
    if not values:
        raise UnsupportedError("an empty map() has no types of keys and values here; write NULL, or insert Arrow data")
    keys, items = binder.common(values[::2]), binder.common(values[1::2])
    if not keys or len(keys) != len(items):
        raise InvalidInputError("map takes keys and values by turns")
    sql = f"MAP([{', '.join(one.sql for one in keys)}], [{', '.join(one.sql for one in items)}])"
    return Value(sql, pa.map_(keys[0].type, items[0].type), named("map", values))


def _struct(_: Binder, values: list[Value]) -> Value:
    names = [
        value.name if value.literal is None and value.sql.startswith("r") else f"col{n}"
        for n, value in enumerate(values, 1)
    ]
    return _packed(names, values, named("struct", values))


def _named_struct(_: Binder, values: list[Value]) -> Value:
    names = [str(value.literal) for value in values[::2]]
    return _packed(names, values[1::2], named("named_struct", values))


def _packed(names: list[str], values: list[Value], shown: str) -> Value:
    fields = ", ".join(f"{quoted(name)} := {value.sql}" for name, value in zip(names, values, strict=True))
    kind = pa.struct([(name, value.type) for name, value in zip(names, values, strict=True)])
    return Value(f"struct_pack({fields})", kind, shown)


def _size(_: Binder, values: list[Value]) -> Value:
    value = values[0]
    if not pa.types.is_map(value.type):
        _list(value, "size")
    sql = f"cardinality({value.sql})" if pa.types.is_map(value.type) else f"len({value.sql})"
    return Value(f"CAST({sql} AS INTEGER)", INT, named("size", values))


def _array_contains(binder: Binder, values: list[Value]) -> Value:
    inner = _list(values[0], "array_contains")
    kind = common_type(inner, values[1].type)
    if kind is None:
        raise InvalidInputError(f"array_contains: {spark_type(inner)} and {spark_type(values[1].type)} do not fit")
    lists, wanted = binder.cast(values[0], pa.list_(kind)).sql, binder.cast(values[1], kind).sql
    has = f"list_contains({lists}, {wanted})"
    sql = f"CASE WHEN {lists} IS NULL OR {wanted} IS NULL THEN NULL WHEN {has} THEN TRUE"
    sql += f" WHEN len(list_filter({lists}, lambda e: e IS NULL)) > 0 THEN NULL ELSE FALSE END"
    return Value(sql, BOOLEAN, named("array_contains", values))


def _element_at(name: str) -> Function:
    def function(binder: Binder, values: list[Value]) -> Value:
        value, key = values
        shown = named(name, values)
        if pa.types.is_map(value.type):
            return Value(f"({value.sql})[{binder.cast(key, value.type.key_type).sql}]", value.type.item_type, shown)
        inner, at = _list(value, name), binder.cast(key, LONG).sql
        found = f"({value.sql})[{at}]"
        if name == "try_element_at":
            return Value(found, inner, shown)
        wrong = f"error('the index ' || {at} || ' lies outside the array; try_element_at gives NULL')"
        outside = f"{value.sql} IS NOT NULL AND ({at} = 0 OR abs({at}) > len({value.sql}))"
        return Value(f"CASE WHEN {outside} THEN {wrong} ELSE {found} END", inner, shown)

    return function


def _get(binder: Binder, values: list[Value]) -> Value:
    inner, at = _list(values[0], "get"), binder.cast(values[1], LONG).sql
    return Value(f"CASE WHEN {at} >= 0 THEN ({values[0].sql})[{at} + 1] END", inner, named("get", values))


def _of_list(name: str, text: str, gives: pa.DataType | None = None) -> Function:
    """Return a function of one array; without a type it gives an array of the same type."""

    def function(_: Binder, values: list[Value]) -> Value:
        _list(values[0], name)
        return Value(text.format(*(value.sql for value in values)), gives or values[0].type, named(name, values))

    return function


def _extreme(name: str, text: str) -> Function:
    def function(_: Binder, values: list[Value]) -> Value:
        return Value(text.format(values[0].sql), _list(values[0], name), named(name, values))

    return function


def _sort_array(_: Binder, values: list[Value]) -> Value:
    _list(values[0], "sort_array")
    down = len(values) > 1 and values[1].literal is False
    order = "'DESC', 'NULLS LAST'" if down else "'ASC', 'NULLS FIRST'"
    shown = f"sort_array({values[0].name}, {'false' if down else 'true'})"
    return Value(f"list_sort({values[0].sql}, {order})", values[0].type, shown)


def _array_sort(_: Binder, values: list[Value]) -> Value:
    _list(values[0], "array_sort")
    if len(values) > 1:
        raise InvalidInputError("array_sort with a comparison does not run here")
    return Value(f"list_sort({values[0].sql}, 'ASC', 'NULLS LAST')", values[0].type, named("array_sort", values))


def _array_join(binder: Binder, values: list[Value]) -> Value:
    lists = binder.cast(values[0], pa.list_(STRING)).sql
    mark = binder.cast(values[1], STRING).sql
    if len(values) > 2:  # noqa: PLR2004 - what stands for null
        lists = f"list_transform({lists}, lambda e: coalesce(e, {binder.cast(values[2], STRING).sql}))"
    sql = f"CASE WHEN {lists} IS NOT NULL THEN coalesce(array_to_string({lists}, {mark}), '') END"
    return Value(sql, STRING, named("array_join", values))


def _slice(_: Binder, values: list[Value]) -> Value:
    _list(values[0], "slice")
    start, length = values[1].literal, values[2].literal
    if not isinstance(start, int) or not isinstance(length, int) or start < 1 or length < 0:
        raise InvalidInputError("slice takes a start of at least 1 and a length as literals here")
    return Value(f"({values[0].sql})[{start}:{start + length - 1}]", values[0].type, named("slice", values))


def _sequence(binder: Binder, values: list[Value]) -> Value:
    done = binder.common(values)
    if done[0].type not in {INT, LONG} or len(values) > 2:  # noqa: PLR2004 - first and last
        raise InvalidInputError("sequence takes two whole numbers here")
    first, last = (one.sql for one in done)
    step = f"CASE WHEN {first} <= {last} THEN 1 ELSE -1 END"
    kind = pa.list_(done[0].type)
    sql = f"generate_series(CAST({first} AS BIGINT), CAST({last} AS BIGINT), {step})"
    return Value(binder.cast(Value(sql, pa.list_(LONG), ""), kind).sql, kind, named("sequence", values))


# ---- functions that take a function


def _lambda(value: Value, name: str) -> exp.Lambda:
    if not isinstance(value.literal, exp.Lambda):
        raise InvalidInputError(f"{name} takes a lambda, such as x -> x + 1")
    return value.literal


def _transform(binder: Binder, values: list[Value]) -> Value:
    inner, node = _list(values[0], "transform"), _lambda(values[1], "transform")
    head, body = binder.lambda_body(node, inner, INT)
    if len(node.expressions) > 1:
        position = head.split(",")[1].strip(" :")
        body = Value(body.sql.replace(position, f"CAST({position} - 1 AS INTEGER)"), body.type, body.name)
    return Value(
        f"list_transform({values[0].sql}, {head} {body.sql})", pa.list_(body.type), named("transform", values[:1])
    )


def _filter(binder: Binder, values: list[Value]) -> Value:
    head, body = binder.lambda_body(_lambda(values[1], "filter"), _list(values[0], "filter"))
    return Value(f"list_filter({values[0].sql}, {head} {body.sql})", values[0].type, named("filter", values[:1]))


# ---- maps


def _map_part(name: str, part: str) -> Function:
    def function(_: Binder, values: list[Value]) -> Value:
        kind = _map(values[0], name)
        gives = {"key": kind.key_type, "value": kind.item_type}.get(part)
        if gives is None:
            gives = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        return Value(f"{name}({values[0].sql})", pa.list_(gives), named(name, values))

    return function


def _map_contains_key(binder: Binder, values: list[Value]) -> Value:
    key = binder.cast(values[1], _map(values[0], "map_contains_key").key_type)
    return Value(f"map_contains({values[0].sql}, {key.sql})", BOOLEAN, named("map_contains_key", values))


def _map_from_arrays(_: Binder, values: list[Value]) -> Value:
    kind = pa.map_(_list(values[0], "map_from_arrays"), _list(values[1], "map_from_arrays"))
    return Value(f"MAP({values[0].sql}, {values[1].sql})", kind, named("map_from_arrays", values))


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
    "array_max": _extreme("array_max", "list_max({0})"),
    "array_min": _extreme("array_min", "list_min({0})"),
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

"""Functions on VARIANT values: parse_json, variant_get, to_json and their kin."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from lakewright import variant
from lakewright.errors import InvalidInputError
from lakewright.spec.arrow_types import is_variant
from lakewright.spec.variant_paths import find_values, parse_path
from lakewright.spec.variant_values import combine, decode_variants
from lakewright.statements.embedded.dialect_casts import cast_found
from lakewright.statements.embedded.dialect_values import (
    BOOLEAN,
    STRING,
    VARIANT,
    Binder,
    Constant,
    Function,
    TypedSql,
    spark_type,
)
from lakewright.statements.embedded.scalar_functions import literal_text, spark_name


def _check_variant(name: str, value: TypedSql) -> TypedSql:
    if not is_variant(value.type):
        raise InvalidInputError(f"{name} takes a VARIANT, and {value.name} is {spark_type(value.type)}: use parse_json")
    return value


def _parse(name: str, *, safe: bool) -> Function:
    def run(texts: pa.ChunkedArray, *_: Constant) -> pa.Array:
        try:
            return _whole(variant.from_json(texts))
        except InvalidInputError:
            if not safe:
                raise
        return pa.concat_arrays([_parsed_or_null(text) for text in texts.to_pylist()])

    def function(binder: Binder, values: list[TypedSql]) -> TypedSql:
        text = binder.cast(values[0], STRING)
        sql = binder.functions.call_columns(name, run, VARIANT, [text])
        return TypedSql(sql, VARIANT, spark_name(name, values[:1]))

    return function


def _parsed_or_null(text: str | None) -> pa.Array:
    try:
        return variant.from_json([text])
    except InvalidInputError:
        return variant.from_json([None])


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks else pa.array([], column.type)


def _get(name: str, *, safe: bool) -> Function:
    def function(binder: Binder, values: list[TypedSql]) -> TypedSql:
        value = _check_variant(name, values[0])
        path = parse_path(literal_text(name, values[1], "the path"))
        kind = binder.named_type(literal_text(name, values[2], "the type")) if len(values) > 2 else VARIANT  # noqa: PLR2004 - the third argument
        return extract_path(binder, value, path, kind, spark_name(name, values), safe=safe)

    return function


def extract_path(
    binder: Binder, value: TypedSql, path: tuple[str | int, ...], kind: pa.DataType, shown: str, *, safe: bool
) -> TypedSql:
    """Return what is at a path of a VARIANT, as some type."""
    zone = binder.zone

    def run(column: pa.ChunkedArray) -> pa.Array:
        rows, nodes = decode_variants(_whole(column))
        found, inner = find_values(nodes, path)
        return combine([(rows[found], cast_found(inner, kind, zone, safe=safe))], len(column))

    steps = tuple(f"{type(step).__name__} {step}" for step in path)
    return TypedSql(binder.functions.call_columns("variant_get", run, kind, [value], steps, safe), kind, shown)


def _to_json(binder: Binder, values: list[TypedSql]) -> TypedSql:
    zone = binder.zone

    def run(column: pa.ChunkedArray) -> pa.Array:
        return _whole(variant.to_json(column, timezone=zone))

    value = _check_variant("to_json", values[0])
    return TypedSql(
        binder.functions.call_columns("to_json", run, STRING, [value]), STRING, spark_name("to_json", values)
    )


def _is_null(binder: Binder, values: list[TypedSql]) -> TypedSql:
    def run(column: pa.ChunkedArray) -> pa.Array:
        rows, nodes = decode_variants(_whole(column))
        found = np.zeros(len(column), bool)
        found[rows] = nodes.kinds == 0
        return pa.array(found)

    value = _check_variant("is_variant_null", values[0])
    call = binder.functions.call_columns("is_variant_null", run, BOOLEAN, [value])
    return TypedSql(call, BOOLEAN, spark_name("is_variant_null", values))


VARIANTS: Mapping[str, Callable[[Binder, list[TypedSql]], TypedSql]] = {
    "parse_json": _parse("parse_json", safe=False),
    "try_parse_json": _parse("try_parse_json", safe=True),
    "variant_get": _get("variant_get", safe=False),
    "try_variant_get": _get("try_variant_get", safe=True),
    "to_json": _to_json,
    "is_variant_null": _is_null,
}

"""Casts as Spark does them under ANSI rules: an expression and a type in, an expression of that type out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.statements.embedded.dialect import conversions
from lakewright.statements.embedded.dialect.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTERVALS,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
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
from lakewright.statements.embedded.dialect.values import Functions, Value

_EXACT_DIGITS = 15  # so many digits of a decimal are exact in a double


@dataclass(frozen=True, slots=True)
class Casts:
    """Casts of one query: the functions that it needs, and its time zone."""

    functions: Functions
    zone: str

    def cast(self, value: Value, to: pa.DataType, *, safe: bool = False) -> Value:
        """Return a value as another type; it keeps its name. With `safe`, what cannot be cast is null."""
        if value.type == to:
            return value
        sql = f"CAST(NULL AS {duckdb_type(to)})" if value.type == NULL else self._cast(value, to, safe)
        return replace(value, sql=sql, type=to)

    def with_field_names(self, value: Value, like: pa.DataType) -> Value:
        """Return a struct with the names of the fields of another type, in their order; other values as they are."""
        return self.cast(value, with_field_names(value.type, like))

    def _cast(self, value: Value, to: pa.DataType, safe: bool) -> str:  # noqa: FBT001 - handed through
        kind, word = value.type, "TRY_CAST" if safe else "CAST"
        plain = f"{word}({value.sql} AS {duckdb_type(to)})"
        if kind == STRING:
            return self._from_text(value, to, safe)
        if to == STRING:
            return self._to_text(value)
        if pa.types.is_nested(kind) and pa.types.is_nested(to):
            return self._nested(value, to, safe)
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

    def _from_text(self, value: Value, to: pa.DataType, safe: bool) -> str:  # noqa: FBT001 - handed through
        call = self.functions.call
        if is_integral(to):
            half = 1 << (to.bit_width - 1)
            return call(conversions.integer_of, to, [value], -half, half - 1, spark_type(to), safe=safe)
        if is_decimal(to):
            return call(conversions.decimal_of, to, [value], to.precision, to.scale, safe=safe)
        if to == BINARY:
            return f"encode({value.sql})"
        if to in {TIMESTAMP, TIMESTAMP_NTZ}:
            return call(conversions.timestamp_of, to, [value], self.zone if to == TIMESTAMP else None, safe=safe)
        readers = {
            DOUBLE: conversions.double_of,
            FLOAT: conversions.float_of,
            BOOLEAN: conversions.boolean_of,
            DATE: conversions.date_of,
        }
        if to not in readers:
            raise no_cast(value, to)
        return call(readers[to], to, [value], safe=safe)

    def _to_text(self, value: Value) -> str:
        kind = value.type
        if kind in {DOUBLE, FLOAT}:
            writer = conversions.double_text if kind == DOUBLE else conversions.float_text
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

    def _from_number(self, value: Value, to: pa.DataType, safe: bool, plain: str) -> str:  # noqa: FBT001
        kind, word = value.type, "TRY_CAST" if safe else "CAST"
        if to == BOOLEAN:
            return f"({value.sql} <> 0)"
        if kind == BOOLEAN and is_number(to):
            return f"CAST(CAST({value.sql} AS INTEGER) AS {duckdb_type(to)})"
        if is_integral(to):
            whole = value.sql if is_integral(kind) else f"trunc({value.sql})"
            return f"{word}({whole} AS {duckdb_type(to)})"
        if is_decimal(to) and kind in {DOUBLE, FLOAT}:
            return self.functions.call(conversions.decimal_of, to, [value], to.precision, to.scale, safe=safe)
        if to in {DOUBLE, FLOAT} and is_decimal(kind) and kind.precision > _EXACT_DIGITS:
            return f"CAST(CAST({value.sql} AS VARCHAR) AS {duckdb_type(to)})"
        if to == TIMESTAMP and is_integral(kind):
            return f"to_timestamp({value.sql})"
        if is_number(to):
            return plain
        raise no_cast(value, to)

    def _nested(self, value: Value, to: pa.DataType, safe: bool) -> str:  # noqa: FBT001 - handed through
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
        return self.cast(Value(sql, kind, ""), to, safe=safe).sql


def no_cast(value: Value, to: pa.DataType) -> InvalidInputError | UnsupportedError:
    """Return the error for a cast that does not exist."""
    message = f"{value.name} is {spark_type(value.type)} and cannot be cast to {spark_type(to)}"
    if pa.types.is_nested(value.type) and to == STRING:
        return UnsupportedError(f"{message} in this process")
    return InvalidInputError(message)

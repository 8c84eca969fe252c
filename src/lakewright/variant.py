"""Columns of the type VARIANT as JSON and as Python objects, and back.

A VARIANT column is an Arrow array of structs with the fields `value` and `metadata`, as tables return it and take it.
Every function works on whole columns at once.

>>> import lakewright.variant
>>> column = lakewright.variant.from_json(['{"a": [1, 2.50]}', None])
>>> lakewright.variant.to_json(column).to_pylist()
['{"a":[1,2.5]}', None]
>>> lakewright.variant.to_python(column)
[{'a': [1, Decimal('2.50')]}, None]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa

from lakewright.errors import InvalidInputError
from lakewright.spec.variant_encoding import VARIANT_TYPE
from lakewright.spec.variant_json import format_json, parse_json
from lakewright.spec.variant_python import decode_python, encode_python
from lakewright.spec.variant_values import combine, decode_variants

Column: TypeAlias = "pa.Array | pa.ChunkedArray"

_PIECE_BYTES = 8 << 20  # intermediate results take several times as many


def to_json(column: Column, *, timezone: str = "UTC") -> Column:
    """Return VARIANT values as JSON texts; a null stays a null, and the null of VARIANT becomes `null`.

    Objects have their keys in sorted order, decimals no zeros at the end; timestamps are in the given time zone.

    >>> to_json(from_json(['{"b": 1, "a": null}'])).to_pylist()
    ['{"a":null,"b":1}']
    """

    def format_piece(piece: pa.StructArray) -> pa.Array:
        rows, nodes = decode_variants(piece)
        return combine([(rows, format_json(nodes, timezone).cast(pa.string()))], len(piece))

    return _map_pieces(_as_variants(column), format_piece, pa.string())


def from_json(texts: Column | Sequence[str | None]) -> Column:
    """Return JSON texts as a VARIANT column; a null stays a null. InvalidInputError names a row that is not JSON.

    Numbers with a fraction become decimals, those with an exponent doubles. Keys that appear twice are refused.

    >>> to_python(from_json(["1.5", "1e3"]))
    [Decimal('1.5'), 1000.0]
    """
    column = texts if isinstance(texts, pa.Array | pa.ChunkedArray) else pa.array(texts, pa.string())
    kinds = pa.types
    if not (kinds.is_string(column.type) or kinds.is_large_string(column.type) or kinds.is_string_view(column.type)):
        raise InvalidInputError(f"JSON is text, and the column has the type {column.type}; cast it to pa.string()")

    done = 0

    def parse_piece(piece: pa.Array) -> pa.Array:
        nonlocal done
        parsed = parse_json(piece.fill_null("null"), done)
        done += len(piece)
        return _with_nulls(parsed, piece.is_null())

    return _map_pieces(column.cast(pa.large_string()), parse_piece, VARIANT_TYPE)


def to_python(column: Column) -> list[object]:
    """Return VARIANT values as Python objects; a null and the null of VARIANT are None.

    The classes are dict, list, str, bytes, bool, int, float, Decimal, date, datetime and UUID.

    >>> to_python(from_json(['{"a": [1, 2.5]}', "null"]))
    [{'a': [1, Decimal('2.5')]}, None]
    """
    found: list[object] = []
    for piece in _pieces(_as_variants(column)):
        rows, nodes = decode_variants(piece)
        values: list[object] = [None] * len(piece)
        for row, value in zip(rows.tolist(), decode_python(nodes), strict=True):
            values[row] = value
        found += values
    return found


def from_python(values: Iterable[object]) -> pa.StructArray:
    """Return Python objects as a VARIANT column; None becomes a null, and inside a list or dict the null of VARIANT.

    >>> to_json(from_python([{"a": [None, 1.5]}, None])).to_pylist()
    ['{"a":[null,1.5]}', None]
    """
    objects = list(values)
    return _with_nulls(encode_python(objects), pa.array([value is None for value in objects], pa.bool_()))


def _as_variants(column: Column) -> Column:
    """Return a column with the fields of VARIANT in their canonical order."""
    dtype = column.type
    if isinstance(dtype, pa.BaseExtensionType) and dtype.extension_name == "arrow.parquet.variant":
        column = column.cast(dtype.storage_type)
        dtype = column.type
    if not pa.types.is_struct(dtype) or {field.name for field in dtype} != {"value", "metadata"}:
        raise InvalidInputError(
            f"a VARIANT column is a struct of value and metadata, and this one has the type {dtype}; make one with "
            "lakewright.variant.from_json or from_python"
        )
    return column


def _pieces(column: Column) -> Iterator[pa.Array]:
    """Yield slices of a column that have few enough bytes to be worked on at once."""
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        rows = max(1, len(chunk) * _PIECE_BYTES // max(_PIECE_BYTES, chunk.nbytes))
        for start in range(0, len(chunk), rows):
            yield chunk.slice(start, rows)


def _map_pieces(column: Column, function: Callable[[pa.Array], pa.Array], dtype: pa.DataType) -> Column:
    chunks = [function(piece) for piece in _pieces(column)]
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array(chunks, dtype)
    return pa.concat_arrays(chunks) if chunks else pa.array([], dtype)


def _with_nulls(column: pa.StructArray, mask: pa.BooleanArray) -> pa.StructArray:
    """Return a column with nulls at some rows, under which the fields keep values: they are never null."""
    parts = [column.field(number) for number in range(column.type.num_fields)]
    return pa.StructArray.from_arrays(parts, fields=list(column.type), mask=mask)

"""Nanosecond timestamps as parquet's INT96, for those columns only: design/0002 says why.

Arrow writes INT96 for all timestamp columns of a file or for none. So these columns are given to its writer as binaries
of 12 bytes, the images, and the footer is rewritten when the file is finished. That is enough, because plain pages and
dictionaries of FIXED_LEN_BYTE_ARRAY(12) and of INT96 are the same bytes, and no page header names a type.

An image is eight bytes with the nanoseconds of the day, never negative, and four bytes with the Julian day, both little
endian. Readers do not agree on an order of images, so the columns have null counts and no bounds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa

from lakewright.formats.conform import rebuild_list, rebuild_struct
from lakewright.formats.parquet.leaves import is_nanoseconds
from lakewright.formats.parquet.thrift import I32, Field, Struct, read_struct, struct_of, structs_of, write_struct
from lakewright.spec.arrow import to_arrow_type
from lakewright.spec.stats import COUNTS, NONE, StatsMode
from lakewright.spec.types import DataField

_IMAGE = np.dtype([("nanos", "<i8"), ("day", "<i4")])
_IMAGE_TYPE = pa.binary(_IMAGE.itemsize)
_DAY_NANOS = 86_400 * 10**9
_JULIAN_1970 = 2_440_588

# Numbers of the fields of parquet's structs that are read or changed here.
_SCHEMA, _ROW_GROUPS = 2, 4  # of FileMetaData
_TYPE, _TYPE_LENGTH, _CHILDREN = 1, 2, 5  # of SchemaElement
_COLUMNS = 1  # of RowGroup
_METADATA, _COLUMN_INDEX = 3, (6, 7)  # of ColumnChunk; the column index is an offset and a length
_STATISTICS, _BLOOM_FILTER = 12, (14, 15)  # of ColumnMetaData, whose field 1 is the type again
_NULL_COUNT = 3  # of Statistics
_INT96, _FIXED = Field(I32, 3), Field(I32, 7)


def without_bounds(fields: Sequence[DataField], modes: Sequence[StatsMode]) -> tuple[StatsMode, ...]:
    """Return the statistics modes of columns, with null counts only for those that are stored as INT96."""
    return tuple(
        COUNTS if mode != NONE and is_nanoseconds(to_arrow_type(field.type)) else mode
        for field, mode in zip(fields, modes, strict=True)
    )


def image_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema with binaries in place of nanosecond timestamps; names, ids and nullability stay."""
    return pa.schema([_image_field(field) for field in schema], schema.metadata)


def image_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with images in place of nanosecond timestamps, in the schema that `image_schema` gave."""
    columns = [
        column
        if column.type == field.type
        else pa.chunked_array([_images(chunk, field.type) for chunk in column.chunks], field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def int96_footer(footer: bytes, leaves: Collection[int]) -> bytes:
    """Return a footer with the type INT96 for these leaves, which were binaries of twelve bytes.

    Bounds, column indexes and bloom filters of the leaves are removed, because they compare images as bytes.
    """
    metadata, end = read_struct(footer)
    if end != len(footer):
        raise ValueError(f"a footer of {len(footer)} bytes ends at byte {end}")
    elements = [element for element in structs_of(metadata[_SCHEMA]) if _CHILDREN not in element]
    for leaf in leaves:
        element = elements[leaf]
        if element[_TYPE] != _FIXED or element[_TYPE_LENGTH].value != _IMAGE.itemsize:
            raise ValueError(f"leaf {leaf} of the footer holds no images: {element}")
        element[_TYPE] = _INT96
        _drop(element, _TYPE_LENGTH)
    for group in structs_of(metadata[_ROW_GROUPS]):
        chunks = structs_of(group[_COLUMNS])
        for leaf in leaves:
            _drop(chunks[leaf], *_COLUMN_INDEX)
            _retype(struct_of(chunks[leaf][_METADATA]))
    return write_struct(metadata)


def _retype(chunk: Struct) -> None:
    chunk[_TYPE] = _INT96
    _drop(chunk, *_BLOOM_FILTER)
    if _STATISTICS in chunk:
        statistics = struct_of(chunk[_STATISTICS])
        _drop(statistics, *(number for number in tuple(statistics) if number != _NULL_COUNT))


def _drop(fields: Struct, *numbers: int) -> None:
    for number in numbers:
        fields.pop(number, None)


def _image_field(field: pa.Field) -> pa.Field:
    return field.with_type(_image_type(field.type))


def _image_type(arrow: pa.DataType) -> pa.DataType:
    kinds = pa.types
    if kinds.is_struct(arrow):
        return pa.struct([_image_field(field) for field in arrow])
    if kinds.is_map(arrow):
        return pa.map_(_image_field(arrow.key_field), _image_field(arrow.item_field))
    if kinds.is_list(arrow):
        return pa.list_(_image_field(arrow.value_field))
    return _IMAGE_TYPE if is_nanoseconds(arrow) else arrow


def _images(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return an array with images in place of nanosecond timestamps at any depth; the rest is shared, not copied."""
    kinds = pa.types
    if array.type == target:
        return array
    if kinds.is_struct(target):
        children = [_images(array.field(number), field.type) for number, field in enumerate(target)]
        return rebuild_struct(array, target, children)
    if kinds.is_map(target):
        parts = [_images(array.keys, target.key_type), _images(array.items, target.item_type)]
        entries = pa.StructArray.from_arrays(parts, fields=[target.key_field, target.item_field])
        return rebuild_list(array, target, entries)
    if kinds.is_list(target):
        return rebuild_list(array, target, _images(array.values, target.value_type))
    return _leaf_images(array)


def _leaf_images(array: pa.Array) -> pa.Array:
    if not len(array):  # it may have no buffers
        return pa.array([], _IMAGE_TYPE)
    valid, nanos = array.buffers()
    whole, bits = divmod(array.offset, 8)  # the bitmap of nulls is shared, so the images start at the bit it starts at
    values = np.frombuffer(nanos, "<i8", len(array), array.offset * 8)
    images = np.zeros(bits + len(array), _IMAGE)
    days = np.floor_divide(values, _DAY_NANOS)
    images["nanos"][bits:] = values - days * _DAY_NANOS  # exact: what overflows in the product overflows back
    images["day"][bits:] = days + _JULIAN_1970
    shared = None if valid is None else valid.slice(whole)
    return pa.Array.from_buffers(_IMAGE_TYPE, len(array), [shared, pa.py_buffer(images)], array.null_count, bits)

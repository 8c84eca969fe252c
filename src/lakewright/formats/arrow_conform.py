"""Arrow arrays as files give them to canonical Arrow types.

Writers differ in widths, units, string types and the nullability and names inside nested types; the values are the
same. An array of the canonical type is returned as it is, nested arrays are rebuilt around the same buffers, and only
leaves of another physical type are converted. A conversion that would change a value is an `ArrowInvalid`, but
fractions of a second finer than the type are rounded down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import CorruptTableError
from lakewright.formats.variant_shredding import is_shredded, rebuild_variants
from lakewright.spec.arrow_types import is_variant
from lakewright.spec.types import UNIT_NANOS

Missing: TypeAlias = Callable[[str], None]  # called with the name of a ROW field that the file lacks; may raise


def conform_column(column: pa.ChunkedArray, target: pa.DataType, missing: Missing) -> pa.ChunkedArray:
    """Return a column with the canonical type."""
    if column.type == target:
        return column
    return pa.chunked_array([conform(chunk, target, missing) for chunk in column.chunks], target)


def conform(array: pa.Array, target: pa.DataType, missing: Missing) -> pa.Array:
    """Return an array with the canonical type; ROW fields are matched by name."""
    kinds = pa.types
    if array.type == target:
        return array
    if isinstance(array.type, pa.BaseExtensionType):
        return conform(array.storage, target, missing)
    if kinds.is_dictionary(array.type):
        return conform(array.dictionary_decode(), target, missing)
    if is_variant(target) and is_shredded(array.type):
        return _rebuild_shredded(array)
    if kinds.is_struct(target):
        return _struct(array, target, missing)
    if kinds.is_map(target):
        return _map(array, target, missing)
    if kinds.is_list(target):
        return _list(array, target, missing)
    if kinds.is_fixed_size_list(target):
        return lists_to_vectors(_list(array, pa.list_(target.value_field), missing), target)
    return _leaf(array, target)


def _rebuild_shredded(array: pa.StructArray) -> pa.StructArray:
    try:
        return rebuild_variants(array)
    except CorruptTableError as error:
        raise pa.ArrowInvalid(str(error)) from error  # the reader names the file


def _struct(array: pa.Array, target: pa.DataType, missing: Missing) -> pa.Array:
    if not pa.types.is_struct(array.type):
        raise _wrong_type(array.type, target)
    children = []
    for field in target:
        index = array.type.get_field_index(field.name)
        if index < 0:
            missing(field.name)
            children.append(pa.nulls(len(array), field.type))
        else:
            child = array.field(index)
            if pa.types.is_fixed_size_list(field.type) and array.null_count:
                children.append(_vectors_inside(array, child, field, missing))
            else:
                children.append(conform(child, field.type, missing))
    return rebuild_struct(array, target, children)


def _vectors_inside(rows: pa.Array, lists: pa.Array, field: pa.Field, missing: Missing) -> pa.Array:
    """Return a field of vectors of rows some of which are null: there parquet has no list, or one without elements."""
    lists = pc.if_else(rows.is_valid(), lists, pa.scalar(None, lists.type))
    vectors = conform(lists, field.type, missing)
    if field.nullable:
        return vectors
    return pa.Array.from_buffers(field.type, len(vectors), [None], 0, vectors.offset, children=[vectors.values])


def rebuild_struct(array: pa.Array, target: pa.DataType, children: list[pa.Array]) -> pa.Array:
    """Return a struct array with other children of the same length, and the nulls of the old one."""
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def fill_required(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column in which fields that are NOT NULL have values under null rows, as Arrow's parquet writer asks."""
    if not pa.types.is_nested(column.type):
        return column
    return pa.chunked_array([_fill_required(chunk) for chunk in column.chunks], column.type)


def _fill_required(array: pa.Array) -> pa.Array:
    kinds = pa.types
    if kinds.is_struct(array.type):
        children = [_fill_required(array.field(number)) for number in range(array.type.num_fields)]
        filled = [
            _without_nulls(child) if not field.nullable and _are_hidden(child, array) else child
            for field, child in zip(array.type, children, strict=True)
        ]
        return rebuild_struct(array, array.type, filled)
    if kinds.is_map(array.type):
        entries = pa.StructArray.from_arrays(
            [_fill_required(array.keys), _fill_required(array.items)],
            fields=[array.type.key_field, array.type.item_field],
        )
        return rebuild_list(array, array.type, entries)
    if kinds.is_list(array.type):
        return rebuild_list(array, array.type, _fill_required(array.values))
    return array


def _are_hidden(child: pa.Array, parent: pa.Array) -> bool:
    """Return whether a field has nulls, and all of them are under null rows."""
    return bool(child.null_count) and not pc.any(pc.and_(child.is_null(), parent.is_valid())).as_py()


def _without_nulls(array: pa.Array) -> pa.Array:
    if pa.types.is_struct(array.type):
        fields = [array.field(number) for number in range(array.type.num_fields)]
        return _fill_required(pa.StructArray.from_arrays(fields, fields=list(array.type)))
    values = [array.values] if pa.types.is_list(array.type) or pa.types.is_map(array.type) else None
    buffers = array.buffers()[1 : array.type.num_buffers]
    return pa.Array.from_buffers(array.type, len(array), [None, *buffers], 0, array.offset, children=values)


def rebuild_list(array: pa.Array, target: pa.DataType, values: pa.Array) -> pa.Array:
    """Return a list or map array with other values in place of all `array.values`, sharing offsets and nulls."""
    return pa.Array.from_buffers(
        target, len(array), array.buffers()[:2], array.null_count, array.offset, children=[values]
    )


def lists_to_vectors(lists: pa.ListArray, target: pa.DataType) -> pa.Array:
    """Return lists as vectors, without copying the elements if no list is null; all must have the right length."""
    if lists.null_count == len(lists):  # Arrow's cast crashes on lists whose elements have no buffer
        return pa.nulls(len(lists), target)
    lengths = pc.min_max(pc.list_value_length(lists)).as_py()
    for length in lengths.values():
        if length != target.list_size:
            raise pa.ArrowInvalid(f"a list of {length} elements where a vector has {target.list_size}")
    return lists.cast(target)


def _list(array: pa.Array, target: pa.DataType, missing: Missing) -> pa.Array:
    kinds = pa.types
    stored = array.type
    if kinds.is_large_list(stored) or kinds.is_list_view(stored) or kinds.is_fixed_size_list(stored):
        array = array.cast(pa.list_(stored.value_field))
    elif not kinds.is_list(stored):
        raise _wrong_type(stored, target)
    return rebuild_list(array, target, conform(array.values, target.value_type, missing))


def _map(array: pa.Array, target: pa.DataType, missing: Missing) -> pa.Array:
    if pa.types.is_map(array.type):
        keys, items = array.keys, array.items
    elif pa.types.is_list(array.type) and pa.types.is_struct(array.type.value_type):
        # A list of key and value that the file does not declare as a map.
        keys, items = array.values.field(0), array.values.field(1)
    else:
        raise _wrong_type(array.type, target)
    if keys.null_count:
        raise pa.ArrowInvalid("a map has a null key")
    parts = [conform(keys, target.key_type, missing), conform(items, target.item_type, missing)]
    entries = pa.StructArray.from_arrays(parts, fields=[target.key_field, target.item_field])
    return rebuild_list(array, target, entries)


def _leaf(array: pa.Array, target: pa.DataType) -> pa.Array:
    kinds = pa.types
    stored = array.type
    if kinds.is_timestamp(target) and kinds.is_timestamp(stored):
        return _with_unit(array, stored.unit, target)
    if kinds.is_time(target) and kinds.is_time(stored):
        return _with_unit(array, stored.unit, target)
    if kinds.is_time32(target) and kinds.is_int32(stored):
        return array.view(target)
    allowed = (
        (kinds.is_integer(target) and kinds.is_integer(stored))
        or (kinds.is_floating(target) and kinds.is_floating(stored))
        or (kinds.is_decimal(target) and (kinds.is_decimal(stored) or kinds.is_integer(stored)))
        or (kinds.is_date32(target) and (kinds.is_date(stored) or kinds.is_int32(stored)))
        or (_is_bytes(target) and _is_bytes(stored))
        or kinds.is_null(stored)
    )
    if not allowed:
        raise _wrong_type(stored, target)
    if kinds.is_date32(target) and kinds.is_int32(stored):
        return array.view(target)
    # Doubles in a FLOAT column are rounded, as other readers do; everything else must fit.
    return pc.cast(array, target, safe=not kinds.is_floating(target))


def _is_bytes(arrow: pa.DataType) -> bool:
    kinds = pa.types
    return (
        kinds.is_string(arrow)
        or kinds.is_large_string(arrow)
        or kinds.is_binary(arrow)
        or kinds.is_large_binary(arrow)
        or kinds.is_fixed_size_binary(arrow)
        or arrow in {pa.string_view(), pa.binary_view()}
    )


def _with_unit(array: pa.Array, unit: str, target: pa.DataType) -> pa.Array:
    """Return times or timestamps in another unit and zone; values count from 1970 UTC, whatever the zone."""
    if UNIT_NANOS[unit] < UNIT_NANOS[target.unit]:
        return _coarser(array, UNIT_NANOS[target.unit] // UNIT_NANOS[unit], target)
    numbers = pa.int32() if array.type.bit_width == 32 else pa.int64()  # noqa: PLR2004 - bits
    wide = array.view(numbers).cast(pa.int64())
    scaled = pc.multiply_checked(wide, UNIT_NANOS[unit] // UNIT_NANOS[target.unit])
    return scaled.cast(pa.int64() if target.bit_width == 64 else pa.int32()).view(target)  # noqa: PLR2004 - bits


def _coarser(array: pa.Array, factor: int, target: pa.DataType) -> pa.Array:
    bits = array.type.bit_width
    data = np.frombuffer(array.buffers()[1], dtype=f"<i{bits // 8}")[array.offset : array.offset + len(array)]
    units = np.floor_divide(data, factor).astype(f"<i{target.bit_width // 8}")
    valid = array.is_valid().buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(target, len(array), [valid, pa.py_buffer(units)], array.null_count)


def _wrong_type(stored: pa.DataType, target: pa.DataType) -> pa.ArrowInvalid:
    return pa.ArrowInvalid(f"a column has the type {stored} instead of {target}")

"""Arrow arrays of any type to the column's type, or the reason why not.

A conversion is exact or it fails: every value that comes out equals the value that went in. Two exceptions leave this
module, both caught by `align`: `Mismatch` (no value of this type can become the column's type; `UnknownField` if the
type only lacks a field) and `Misfit` (some value does not fit; `align` then finds the first row). Nested data is
matched by field name, and constraints (NOT NULL, lengths, UTF-8) hold at every depth.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import UnsupportedError
from lakewright.formats.arrow_conform import lists_to_vectors
from lakewright.formats.blob_values import BlobType
from lakewright.spec.arrow_types import VARIANT_FIELDS, to_arrow_type
from lakewright.spec.types import (
    UNBOUNDED,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    with_nullable,
)

types = pa.types

_COUNT = AtomicType("INT", nullable=False)  # how often an element is in a MULTISET
_SPLIT_BYTES = 2**31 - 1  # the highest 32-bit offset of an array


class Refusal(Exception):  # noqa: N818 - raised and caught inside this package, not an error of the library
    """Why the values of a column cannot be stored, and in which part of the column."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: tuple[str, ...] = ()  # below the column; `element` and `value` are the parts of arrays and maps
        self.dtype: DataType | None = None  # of the part that the path leads to
        self.arrow: pa.DataType | None = None  # of its values

    def within(self, name: str, dtype: DataType, arrow: pa.DataType) -> None:
        """Put the name of a part of the column in front of the path."""
        if not self.path:
            self.dtype, self.arrow = dtype, arrow
        self.path = (name, *self.path)

    def __str__(self) -> str:
        return f"field {'.'.join(self.path)!r} ({self.dtype}): {self.reason}" if self.path else self.reason


class TypeMismatch(Refusal):
    """Nothing of the input type can become the column's type."""


class ValueMismatch(Refusal):
    """At least one value does not fit the column."""


class UnknownField(TypeMismatch):
    """The input has a field inside a column that the column's type lacks."""

    def __init__(self, name: str, arrow: pa.DataType, similar: str | None = None) -> None:
        super().__init__(f"the type has no field named {name!r}")
        self.path, self.arrow = (name,), arrow
        self.similar = similar  # a field beside it whose name differs in case alone


def convert(array: pa.Array, dtype: DataType) -> pa.Array:
    """Return the array in the canonical Arrow type of `dtype`; the same object where nothing has to change."""
    if isinstance(array.type, BlobType) and not (isinstance(dtype, AtomicType) and dtype.root == "BLOB"):
        raise TypeMismatch("values that were read lazily fit a BLOB column only; read them with blobs='bytes'")
    array = _plain(array)
    if types.is_null(array.type):
        return pa.nulls(len(array), to_arrow_type(dtype))
    match dtype:
        case AtomicType():
            return _atomic(array, dtype)
        case ArrayType():
            return _list(array, dtype)
        case MapType():
            return _map(array, dtype, dtype.key, dtype.value)
        case MultisetType():
            return _map(array, dtype, dtype.element, _COUNT)
        case RowType():
            return _row(array, dtype)
        case VectorType():
            return _vector(array, dtype)


def check(array: pa.Array, dtype: DataType) -> None:
    """Raise `ValueMismatch` where a value breaks a constraint of `dtype`; the array has the canonical Arrow type."""
    if not dtype.nullable and array.null_count:
        raise ValueMismatch(f"a null where the type says NOT NULL ({dtype})")
    match dtype:
        case AtomicType():
            _check_length(array, dtype)
        case ArrayType():
            check(array.flatten(), dtype.element)
        case MapType():
            _check_map(array, dtype.key, dtype.value)
        case MultisetType():
            _check_map(array, dtype.element, _COUNT)
        case RowType():
            _check_row(array, dtype)
        case VectorType():
            if array.flatten().null_count:
                raise ValueMismatch("a null element; a vector may be null, but not one of its elements")


@lru_cache(maxsize=4096)
def is_constrained(dtype: DataType) -> bool:
    """Return whether the type has constraints that `check` must check."""
    if not dtype.nullable:
        return True
    match dtype:
        case AtomicType():
            return 0 < dtype.length < UNBOUNDED
        case ArrayType():
            return is_constrained(dtype.element)
        case RowType():
            return any(is_constrained(f.type) for f in dtype.fields)
        case _:
            return True


def is_trusted(arrow: pa.DataType) -> bool:
    """Return whether every bit pattern of this Arrow type is a legal value, so that there is nothing to validate."""
    return bool(
        types.is_boolean(arrow)
        or types.is_integer(arrow)
        or types.is_floating(arrow)
        or types.is_date32(arrow)
        or types.is_timestamp(arrow)
    )


def validate(array: pa.Array) -> None:
    """Raise `ValueMismatch` where the buffers of an array break Arrow's own rules (UTF-8, offsets, precision)."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise ValueMismatch(f"the Arrow data is not valid: {error}") from None


# ---- scalars ---------------------------------------------------------------------------------------------------------


def _plain(array: pa.Array) -> pa.Array:
    """Undo the encodings that carry no meaning: extension types, dictionaries and runs."""
    while True:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        elif types.is_dictionary(array.type):
            array = _decode_dictionary(array)
        elif types.is_run_end_encoded(array.type):
            array = pc.run_end_decode(array)
        else:
            return array


def _decode_dictionary(array: pa.DictionaryArray) -> pa.Array:
    """Return the values of a dictionary; Arrow cannot take from views, which polars' categories are."""
    values = array.dictionary
    if types.is_string_view(values.type) or types.is_binary_view(values.type):
        values = values.cast(pa.large_string() if types.is_string_view(values.type) else pa.large_binary())
    return values.take(array.indices)


def _atomic(array: pa.Array, dtype: AtomicType) -> pa.Array:
    target = to_arrow_type(dtype)
    if array.type == target and dtype.root != "VARIANT":
        return array
    rule = _RULES.get(dtype.root)
    if rule is None:
        raise UnsupportedError(f"columns of type {dtype} cannot be written")
    return rule(array, target)


def _mismatch(array: pa.Array) -> TypeMismatch:
    return TypeMismatch(f"values of Arrow type {array.type} cannot become it without changing their meaning")


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast with Arrow's own checks against overflow and loss."""
    try:
        return array.cast(target)
    except pa.ArrowInvalid as error:
        raise ValueMismatch(str(error)) from None


def _require(mask: pa.Array, reason: str) -> None:
    """Raise `ValueMismatch` unless every entry is true; an entry is null where the value is null, which fits."""
    if not pc.all(mask, min_count=0).as_py():
        raise ValueMismatch(reason)


def _to_boolean(array: pa.Array, _target: pa.DataType) -> pa.Array:
    raise _mismatch(array)


def _to_integer(array: pa.Array, target: pa.DataType) -> pa.Array:
    if types.is_integer(array.type) or types.is_decimal(array.type):
        return _cast(array, target)
    if not types.is_floating(array.type):
        raise _mismatch(array)
    wide = array.cast(pa.float64())
    limit = 2.0 ** (target.bit_width - 1)
    inside = pc.and_(pc.greater_equal(wide, -limit), pc.less(wide, limit))
    _require(inside, f"the number is outside the range of {target}")
    return _cast(wide, target)


def _to_floating(array: pa.Array, target: pa.DataType) -> pa.Array:
    if types.is_floating(array.type):
        if array.type.bit_width < target.bit_width:
            return array.cast(target)
        narrow = array.cast(target, safe=False)
        same = pc.or_(pc.equal(narrow.cast(array.type), array), pc.is_nan(array))
        _require(same, f"the number has no exact {target} value")
        return narrow
    if not types.is_integer(array.type):
        raise _mismatch(array)
    # Arrow's own check allows 2**53 at most; larger numbers may be exact too, so they are compared both ways.
    floats = array.cast(target, safe=False)
    signed = 0 if types.is_unsigned_integer(array.type) else 1
    inside = pc.less(floats, 2.0 ** (array.type.bit_width - signed))
    same = pc.and_(inside, pc.equal(floats.cast(array.type, safe=False), array))
    _require(same, f"the number has no exact {target} value")
    return floats


def _to_decimal(array: pa.Array, target: pa.DataType) -> pa.Array:
    if types.is_integer(array.type):
        # Arrow requires a decimal wide enough for all integers of the type; the second cast checks the actual values.
        digits = 20 + target.scale
        array = array.cast(pa.decimal128(38, target.scale) if digits <= 38 else pa.decimal256(76, target.scale))  # noqa: PLR2004 - the limits of Arrow's decimals
    if not types.is_decimal(array.type):
        raise _mismatch(array)
    return _cast(array, target)


def _to_string(array: pa.Array, target: pa.DataType) -> pa.Array:
    if not (types.is_string(array.type) or types.is_large_string(array.type) or types.is_string_view(array.type)):
        raise _mismatch(array)
    return _cast(array, target)


def _to_binary(array: pa.Array, target: pa.DataType) -> pa.Array:
    source = array.type
    if not (
        types.is_binary(source)
        or types.is_large_binary(source)
        or types.is_binary_view(source)
        or types.is_fixed_size_binary(source)
    ):
        raise _mismatch(array)
    return _cast(array, target)


def _to_date(array: pa.Array, target: pa.DataType) -> pa.Array:
    if types.is_date64(array.type):
        return _cast(array, target)
    if types.is_timestamp(array.type) and array.type.tz is None:
        days = array.cast(target, safe=False)
        _require(pc.equal(days.cast(array.type), array), "the timestamp is not the start of a day")
        return days
    raise _mismatch(array)


def _to_time(array: pa.Array, target: pa.DataType) -> pa.Array:
    if not types.is_time(array.type):
        raise _mismatch(array)
    return _cast(array, target)


def _to_timestamp(array: pa.Array, target: pa.DataType) -> pa.Array:
    if not types.is_timestamp(array.type):
        raise _mismatch(array)
    if (array.type.tz is None) != (target.tz is None):
        hint = "name its time zone" if array.type.tz is None else "convert it to local time"
        raise TypeMismatch(f"values of Arrow type {array.type} cannot become it: {hint} first")
    return _cast(array, target)


def _to_variant(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return a VARIANT with its fields in order, and none of them null; files and engines differ in both."""
    if not types.is_struct(array.type) or sorted(field.name for field in array.type) != sorted(VARIANT_FIELDS):
        raise _mismatch(array)
    parts = [_to_binary(array.field(name), pa.binary()) for name in VARIANT_FIELDS]
    parts = [_unmask_child(part, array) if part.null_count else part for part in parts]
    if any(part.null_count for part in parts):
        raise ValueMismatch("a variant lacks its value or its metadata")
    return pa.StructArray.from_arrays(parts, fields=list(target), mask=_mask(array))


_RULES: dict[str, Callable[[pa.Array, pa.DataType], pa.Array]] = {
    "BOOLEAN": _to_boolean,
    "TINYINT": _to_integer,
    "SMALLINT": _to_integer,
    "INT": _to_integer,
    "BIGINT": _to_integer,
    "FLOAT": _to_floating,
    "DOUBLE": _to_floating,
    "DECIMAL": _to_decimal,
    "CHAR": _to_string,
    "VARCHAR": _to_string,
    "BINARY": _to_binary,
    "VARBINARY": _to_binary,
    "BLOB": _to_binary,
    "DATE": _to_date,
    "TIME": _to_time,
    "TIMESTAMP": _to_timestamp,
    "TIMESTAMP_LTZ": _to_timestamp,
    "VARIANT": _to_variant,
}


def _check_length(array: pa.Array, dtype: AtomicType) -> None:
    if not 0 < dtype.length < UNBOUNDED:
        return
    longest = pc.max(pc.binary_length(array)).as_py()
    if longest is None or longest <= dtype.length:  # no text has more code points than bytes
        return
    unit = "bytes"
    if types.is_string(array.type):
        longest, unit = pc.max(pc.utf8_length(array)).as_py(), "characters"
    if longest > dtype.length:
        raise ValueMismatch(f"longer than the {dtype.length} {unit} of {dtype}")


# ---- nested types ----------------------------------------------------------------------------------------------------


def _offsets(array: pa.Array) -> pa.Array:
    """Return where each list begins in the result of `flatten`, which leaves out elements of null lists."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(array) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] > _SPLIT_BYTES:
        raise ValueMismatch("more elements in one batch than 32-bit offsets can number; write smaller batches")
    return pa.array(offsets.astype(np.int32))


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _list(array: pa.Array, dtype: ArrayType) -> pa.Array:
    source, target = array.type, to_arrow_type(dtype)
    if not (
        types.is_list(source)
        or types.is_large_list(source)
        or types.is_fixed_size_list(source)
        or types.is_list_view(source)
        or types.is_large_list_view(source)
    ):
        raise _mismatch(array)
    if source == target and not _holds_rows(dtype):
        return array
    elements = _part(array.flatten(), dtype.element, "element")
    return pa.ListArray.from_arrays(_offsets(array), elements, type=target, mask=_mask(array))


def _vector(array: pa.Array, dtype: VectorType) -> pa.Array:
    """Return lists of the right length as vectors, without a copy where the elements have their type already."""
    if types.is_fixed_size_list(array.type):
        if array.type.list_size != dtype.length:
            raise TypeMismatch(f"vectors of {array.type.list_size} elements cannot become it")
        array = array.cast(pa.list_(array.type.value_field))
    lists = _list(array, ArrayType(nullable=True, element_type=dtype.element))
    try:
        return lists_to_vectors(lists, to_arrow_type(dtype))
    except pa.ArrowInvalid as error:
        raise ValueMismatch(str(error)) from None


def _map(array: pa.Array, dtype: DataType, key: DataType, value: DataType) -> pa.Array:
    if not types.is_map(array.type):
        raise _mismatch(array)
    offsets, keys, items = _map_parts(array)
    if keys.null_count:
        raise ValueMismatch("a map has a null key")
    keys, items = _part(keys, key, "key"), _part(items, value, "value")
    # The full target type is given, because the types of keys and items alone do not return whether they are nullable.
    return pa.MapArray.from_arrays(offsets, keys, items, type=to_arrow_type(dtype), mask=_mask(array))


def _map_parts(array: pa.MapArray) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return offsets, keys and items, without entries outside the slice or under a null map."""
    if not (array.offset or array.null_count or len(array.keys) != array.offsets[-1].as_py()):
        return array.offsets.slice(0, len(array) + 1), array.keys, array.items
    # As lists, because Arrow neither flattens maps nor takes rows of maps with views, which are the texts of polars.
    entries, buffers = array.values, array.buffers()[:2]
    lists = pa.Array.from_buffers(pa.list_(entries.type), len(array), buffers, -1, array.offset, children=[entries])
    kept = lists.flatten()
    return _offsets(lists), kept.field(0), kept.field(1)


def _row(array: pa.Array, dtype: RowType) -> pa.Array:
    if not types.is_struct(array.type):
        raise _mismatch(array)
    names = [f.name for f in array.type]
    _check_names(array.type, dtype.fields)
    target = to_arrow_type(dtype)
    if not dtype.fields:
        return array
    children = []
    for field in dtype.fields:
        if field.name in names:
            child = _part(array.field(names.index(field.name)), field.type, field.name)
            children.append(child if field.type.nullable or not child.null_count else _unmask_child(child, array))
        elif field.type.nullable:
            children.append(pa.nulls(len(array), to_arrow_type(field.type)))
        else:
            raise TypeMismatch(f"the field {field.name!r} of type {field.type} is missing")
    return pa.StructArray.from_arrays(children, fields=list(target), mask=_mask(array))


def _unmask_child(child: pa.Array, parent: pa.Array) -> pa.Array:
    """Return a NOT NULL field without nulls, which file writers refuse, if all its nulls are under null rows."""
    if pc.any(pc.and_(child.is_null(), parent.is_valid())).as_py():
        return child  # `check` refuses it
    if types.is_struct(child.type):
        fields = [child.field(at) for at in range(child.type.num_fields)]
        return pa.StructArray.from_arrays(fields, fields=list(child.type))
    buffers = child.buffers()[1 : child.type.num_buffers]
    has_values = types.is_list(child.type) or types.is_map(child.type) or types.is_fixed_size_list(child.type)
    values = [child.values] if has_values else None
    return pa.Array.from_buffers(child.type, len(child), [None, *buffers], 0, child.offset, children=values)


def _part(array: pa.Array, dtype: DataType, name: str) -> pa.Array:
    """Convert a part of nested values; what is raised names the part."""
    try:
        return convert(array, dtype)
    except Refusal as error:
        error.within(name, dtype, array.type)
        raise


def _check_names(arrow: pa.StructType, fields: tuple[DataField, ...]) -> None:
    names = [field.name for field in arrow]
    if len(set(names)) != len(names):
        raise TypeMismatch(f"the fields {sorted({n for n in names if names.count(n) > 1})} appear twice")
    known = {f.name for f in fields}
    unknown = next((field for field in arrow if field.name not in known), None)
    if unknown is not None:
        similar = next((name for name in sorted(known) if name.casefold() == unknown.name.casefold()), None)
        raise UnknownField(unknown.name, unknown.type, similar)


@lru_cache(maxsize=4096)
def _holds_rows(dtype: DataType) -> bool:
    """Return whether the type contains a ROW or MAP, whose field names Arrow may ignore when it compares types."""
    if isinstance(dtype, ArrayType):
        return _holds_rows(dtype.element)
    return not isinstance(dtype, AtomicType)


def _check_map(array: pa.Array, key: DataType, value: DataType) -> None:
    _, keys, items = _map_parts(array)
    check(keys, with_nullable(key, nullable=False))
    check(items, value)


def _check_row(array: pa.Array, dtype: RowType) -> None:
    for field, child in zip(dtype.fields, array.flatten(), strict=True):
        # A flattened child is null under every null parent; any further null is the child's own.
        if not field.type.nullable and child.null_count > array.null_count:
            raise ValueMismatch(f"a null in the field {field.name!r}, which is NOT NULL")
        check(child, with_nullable(field.type, nullable=True))

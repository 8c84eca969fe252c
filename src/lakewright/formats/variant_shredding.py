"""Shredded VARIANT columns of parquet files: parts of the values in typed columns, the rest in their binary form.

A shredded value is a group of `value`, which is binary, and `typed_value`, which has the type that its writer chose;
each field of an object and each element of an array is such a group again. The keys of all are in the `metadata` of
the outermost group. `rebuild_variants` returns the values of any such column, `shred_variants` the column of a type
that `shredded_type` makes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import CorruptTableError, InvalidInputError, UnsupportedError
from lakewright.spec.arrow_types import to_arrow_schema, to_arrow_type
from lakewright.spec.types import (
    INTEGER_BITS,
    PRECISION_MAX,
    UNBOUNDED,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    RowType,
    parse_type,
    with_nullable,
)
from lakewright.spec.variant_encoding import encode_nested, encode_scalars, sort_ranks, variant_array
from lakewright.spec.variant_values import (
    ARRAY,
    OBJECT,
    Ints,
    KeyDictionaries,
    VariantNodes,
    combine,
    decode_keys,
    decode_variants,
    expand,
    nodes_of,
)

ShreddingTypes: TypeAlias = tuple[tuple[str, DataType], ...]  # the names of columns, and the types of their values

SCHEMA_OPTIONS = ("variant.shreddingSchema", "parquet.variant.shreddingSchema")
_METADATA, _VALUE, _TYPED = "metadata", "value", "typed_value"
_NO_KEYS = b"\x01\x00\x00"
_BYTES = AtomicType("BYTES")

# ---- Reading ---------------------------------------------------------------------------------------------------------


def is_shredded(stored: pa.DataType) -> bool:
    """Return whether a VARIANT column of a file has typed columns."""
    return bool(pa.types.is_struct(stored) and stored.get_field_index(_TYPED) >= 0)


def rebuild_variants(array: pa.StructArray) -> pa.StructArray:
    """Return the VARIANT values of a shredded column; their metadata stays as it is."""
    nulls = np.asarray(array.is_null())
    metadata = pc.if_else(
        pa.array(nulls), pa.scalar(_NO_KEYS, pa.large_binary()), array.field(_METADATA).cast(pa.large_binary())
    )
    dictionaries, keys = decode_keys(metadata)
    values = _Rebuilding(keys).rebuild(array, dictionaries)
    if np.any(np.asarray(values.is_null()) & ~nulls):
        raise _corrupt("it has neither a value nor a typed value")
    return variant_array(values, metadata, nulls)


class _Rebuilding:
    """Puts shredded values together; the values of all groups share the dictionaries of their rows."""

    def __init__(self, keys: KeyDictionaries) -> None:
        self._keys = keys
        self._ranks = sort_ranks(keys.names)

    def rebuild(self, group: pa.StructArray, dictionaries: Ints) -> pa.LargeBinaryArray:
        """Return the encoded values of a group, null where a value is absent."""
        parts = dict(zip((field.name for field in group.type), group.flatten(), strict=True))
        values = parts.get(_VALUE, pa.nulls(len(group), pa.binary())).cast(pa.large_binary())
        typed = parts.get(_TYPED)
        if typed is None:
            return values
        if pa.types.is_struct(typed.type):
            found = self._objects(typed, values, dictionaries)
        elif pa.types.is_list(typed.type):
            found = self._arrays(typed, dictionaries)
        else:
            found = encode_scalars(_natural(typed))
        return pc.coalesce(found, values)

    def _arrays(self, typed: pa.ListArray, dictionaries: Ints) -> pa.LargeBinaryArray:
        rows = np.flatnonzero(np.asarray(typed.is_valid()))
        counts = np.asarray(pc.list_value_length(typed).take(pa.array(rows))).astype(np.int64)
        elements = self.rebuild(typed.flatten(), np.repeat(dictionaries[rows], counts))
        if elements.null_count:
            raise _corrupt("an array lacks an element")
        nothing = np.zeros(len(elements), np.int64)
        kinds = np.full(len(rows), ARRAY, np.uint8)
        arrays = encode_nested(kinds, counts, nothing, np.arange(len(elements)), elements)
        return combine([(rows, arrays)], len(typed))

    def _objects(self, typed: pa.StructArray, values: pa.LargeBinaryArray, dictionaries: Ints) -> pa.LargeBinaryArray:
        valid = np.asarray(typed.is_valid())
        chosen = np.flatnonzero(valid)
        rows, names, parts = [], [], []
        for field in typed.type:
            inner = typed.field(field.name).take(pa.array(chosen))
            encoded = self.rebuild(inner, dictionaries[chosen])
            present = np.flatnonzero(np.asarray(encoded.is_valid()))
            parts.append(encoded.take(pa.array(present)))
            rows.append(chosen[present])
            names.append(self._find_key(field.name, dictionaries[chosen[present]]))
        left = np.flatnonzero(valid & np.asarray(values.is_valid()))
        others = expand(nodes_of(values.take(pa.array(left)), dictionaries[left], self._keys))
        if np.any(others.names < 0) or np.any(others.counts == 0):
            raise _corrupt("what is beside the typed fields of an object is not an object")
        parts.append(others.nodes.encoded)
        rows.append(left[others.owners])
        names.append(others.names)
        return self._encode(chosen, np.concatenate(rows), np.concatenate(names), pa.concat_arrays(parts), dictionaries)

    def _encode(
        self, chosen: Ints, rows: Ints, names: Ints, parts: pa.LargeBinaryArray, dictionaries: Ints
    ) -> pa.LargeBinaryArray:
        """Return objects of the members of some rows, null in the other rows."""
        order = np.lexsort((self._ranks[names], rows))
        rows, names = rows[order], names[order]
        if np.any((np.diff(rows) == 0) & (np.diff(names) == 0)):
            raise _corrupt("a field of an object is in a typed column and beside it")
        counts = np.bincount(rows, minlength=len(dictionaries))[chosen]
        ids = names - self._keys.first[dictionaries[rows]]
        kinds = np.full(len(chosen), OBJECT, np.uint8)
        objects = encode_nested(kinds, counts, ids, np.arange(len(order)), parts.take(pa.array(order)))
        return combine([(chosen, objects)], len(dictionaries))

    def _find_key(self, name: str, dictionaries: Ints) -> Ints:
        """Return where the dictionaries have a key."""
        places = np.flatnonzero(np.asarray(pc.equal(self._keys.names, name)))
        of_dictionary = np.full(len(self._keys.first), -1, np.int64)
        of_dictionary[np.searchsorted(self._keys.first, places, side="right") - 1] = places
        found: Ints = of_dictionary[dictionaries]
        if np.any(found < 0):
            raise _corrupt(f"its keys lack {name!r}, which has a typed column")
        return found


def _natural(typed: pa.Array) -> pa.Array:
    """Return a typed column in the type that VARIANT has for its values."""
    kinds, stored = pa.types, typed.type
    if kinds.is_string(stored):
        return typed.cast(pa.large_string())
    if kinds.is_binary(stored):
        return typed.cast(pa.large_binary())
    if kinds.is_timestamp(stored) and stored.unit in {"ms", "us"}:
        return typed.cast(pa.timestamp("us", "UTC" if stored.tz else None))
    if kinds.is_decimal(stored):
        return typed.cast(pa.decimal128(PRECISION_MAX, stored.scale))
    known = kinds.is_signed_integer(stored) or kinds.is_boolean(stored) or kinds.is_date32(stored)
    if known or stored in {pa.float32(), pa.float64(), pa.binary(16)}:
        return typed
    raise UnsupportedError(
        f"a shredded VARIANT has values of the type {stored}, which this version cannot read; select other columns"
    )


def _corrupt(reason: str) -> CorruptTableError:
    return CorruptTableError(f"a shredded variant is damaged: {reason}")


# ---- Types of shredded columns ---------------------------------------------------------------------------------------


def shredding_types(options: Mapping[str, str]) -> ShreddingTypes:
    """Return the types that options give for the values of VARIANT columns."""
    key = next((key for key in SCHEMA_OPTIONS if key in options), None)
    if key is None:
        return ()
    try:
        fields = json.loads(options[key])["fields"]
        return tuple((str(field["name"]), _parse_shredding(field["type"])) for field in fields)
    except (ValueError, TypeError, LookupError) as error:
        raise InvalidInputError(
            f"{key!r} is not the JSON of a ROW with a field for each VARIANT column: {error}", option=key
        ) from error


def _parse_shredding(data: object) -> DataType:
    """Return a type whose ROW fields need no ids."""
    if isinstance(data, Mapping) and "fields" in data:
        return RowType(
            nullable=True,
            fields=[DataField(0, field["name"], _parse_shredding(field["type"])) for field in data["fields"]],
        )
    if isinstance(data, Mapping) and "element" in data:
        return ArrayType(nullable=True, element_type=_parse_shredding(data["element"]))
    return with_nullable(parse_type(data), nullable=True)  # type: ignore[arg-type]  # it refuses what is no type


def shredded_fields(fields: Sequence[DataField], types: ShreddingTypes) -> tuple[DataField, ...]:
    """Return the columns of a file in which VARIANT columns are shredded."""
    chosen = dict(types)
    return tuple(
        DataField(field.id, field.name, shredded_type(chosen[field.name], nullable=field.type.nullable))
        if field.name in chosen and isinstance(field.type, AtomicType) and field.type.root == "VARIANT"
        else field
        for field in fields
    )


def shredded_type(dtype: DataType, *, nullable: bool) -> RowType:
    """Return the type in which VARIANT values are stored that have a type; every part has a field id, as Java needs."""
    ids = iter(range(1, 1 << 30))
    fields = [DataField(0, _METADATA, with_nullable(_BYTES, nullable=False)), DataField(1, _VALUE, _BYTES)]
    typed = _typed_value(dtype, ids)
    return RowType(nullable, fields if typed is None else [*fields, DataField(2, _TYPED, typed)])


def _typed_value(dtype: DataType, ids: Iterator[int]) -> DataType | None:
    """Return the type of `typed_value`; None for VARIANT, which has none."""
    match dtype:
        case RowType(fields=fields):
            return RowType(
                nullable=True,
                fields=[DataField(next(ids), field.name, _group(field.type, ids, nullable=False)) for field in fields],
            )
        case ArrayType(element=element):
            return ArrayType(nullable=True, element_type=_group(element, ids, nullable=True))
        case AtomicType(root="VARIANT"):
            return None
        case _:
            return dtype


def _group(dtype: DataType, ids: Iterator[int], *, nullable: bool) -> RowType:
    typed = _typed_value(dtype, ids)
    fields = [DataField(0, _VALUE, _BYTES)]
    return RowType(nullable, fields if typed is None else [*fields, DataField(1, _TYPED, typed)])


# ---- Writing ---------------------------------------------------------------------------------------------------------


def shred_table(table: pa.Table, fields: Sequence[DataField], stored: Sequence[DataField]) -> pa.Table:
    """Return a table with the columns of a file, which `shredded_fields` gave."""
    if tuple(fields) == tuple(stored):
        return table
    columns = list(table.columns)
    for number, (field, other) in enumerate(zip(fields, stored, strict=True)):
        if isinstance(other.type, RowType) and other.type != field.type:
            chunks = [shred_variants(chunk, other.type) for chunk in columns[number].chunks]
            columns[number] = pa.chunked_array(chunks, to_arrow_type(other.type))
    return pa.Table.from_arrays(columns, schema=to_arrow_schema(stored))


def shred_variants(column: pa.StructArray, target: RowType) -> pa.StructArray:
    """Return VARIANT values in a type that `shredded_type` made; what does not fit a typed column stays binary."""
    rows, nodes = decode_variants(column)
    parts = [column.field(_METADATA), *(combine([(rows, part)], len(column)) for part in _shred(nodes, target))]
    mask = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(parts, fields=list(to_arrow_type(target)), mask=mask)


def _shred(nodes: VariantNodes, group: DataType) -> list[pa.Array]:
    """Return the fields `value` and `typed_value` of a group, the second one if the group has it."""
    fields = group.fields if isinstance(group, RowType) else ()
    match next((field.type for field in fields if field.name == _TYPED), None):
        case RowType() as typed:
            left, typed_values = _shred_objects(nodes, typed)
        case ArrayType() as typed:
            left, typed_values = _shred_arrays(nodes, typed)
        case AtomicType() as typed:
            left, typed_values = _shred_scalars(nodes, typed)
        case _:
            return [nodes.encoded.cast(pa.binary())]
    return [left.cast(pa.binary()), typed_values]


def _shred_objects(nodes: VariantNodes, typed: RowType) -> tuple[pa.LargeBinaryArray, pa.StructArray]:
    """Return what stays binary, and the typed fields of objects; unknown fields make an object beside them."""
    is_object = nodes.kinds == OBJECT
    rows = np.flatnonzero(is_object)
    members = expand(nodes.take(rows))
    columns = []
    wanted = np.zeros(len(members.nodes), bool)
    for field in typed.fields:
        names = np.flatnonzero(np.asarray(pc.equal(nodes.keys.names, field.name)))
        chosen = np.flatnonzero(np.isin(members.names, names))
        wanted[chosen] = True
        columns.append(_shred_member(members.nodes.take(chosen), rows[members.owners[chosen]], len(nodes), field))
    others = np.flatnonzero(~wanted)
    counts = np.bincount(members.owners[others], minlength=len(rows))
    kept = counts > 0
    kinds = np.full(int(kept.sum()), OBJECT, np.uint8)
    encoded = members.nodes.take(others).encoded
    left = encode_nested(kinds, counts[kept], members.ids[others], np.arange(len(others)), encoded)
    whole = np.flatnonzero(~is_object)
    values = combine([(rows[kept], left), (whole, nodes.take(whole).encoded)], len(nodes))
    typed_values = pa.StructArray.from_arrays(columns, fields=list(to_arrow_type(typed)), mask=pa.array(~is_object))
    return values, typed_values


def _shred_member(nodes: VariantNodes, rows: Ints, count: int, field: DataField) -> pa.StructArray:
    """Return the group of one field of an object for all rows; where it is absent, its fields are null."""
    parts = [combine([(rows, part)], count) for part in _shred(nodes, field.type)]
    return pa.StructArray.from_arrays(parts, fields=list(to_arrow_type(field.type)))


def _shred_arrays(nodes: VariantNodes, typed: ArrayType) -> tuple[pa.LargeBinaryArray, pa.ListArray]:
    is_array = nodes.kinds == ARRAY
    members = expand(nodes.take(is_array))
    parts = _shred(members.nodes, typed.element)
    elements = pa.StructArray.from_arrays(parts, fields=list(to_arrow_type(typed.element)))
    lengths = np.zeros(len(nodes), np.int64)
    lengths[is_array] = members.counts
    offsets = pa.array(np.append(0, np.cumsum(lengths)).astype(np.int32))
    whole = np.flatnonzero(~is_array)
    values = combine([(whole, nodes.take(whole).encoded)], len(nodes))
    lists = pa.ListArray.from_arrays(offsets, elements, type=to_arrow_type(typed), mask=pa.array(~is_array))
    return values, lists


def _shred_scalars(nodes: VariantNodes, typed: AtomicType) -> tuple[pa.LargeBinaryArray, pa.Array]:
    target = to_arrow_type(typed)
    empty = pa.array([], target)
    parts = [(np.zeros(0, np.int64), empty)]
    for places, values in nodes.scalar_arrays():
        found = _as_typed(values, typed, target)
        if found is not None:
            fits = np.flatnonzero(np.asarray(found.is_valid()))
            parts.append((places[fits], found.take(pa.array(fits))))
    typed_values = combine(parts, len(nodes))
    whole = np.flatnonzero(np.asarray(typed_values.is_null()))
    return combine([(whole, nodes.take(whole).encoded)], len(nodes)), typed_values


def _as_typed(values: pa.Array, typed: AtomicType, target: pa.DataType) -> pa.Array | None:
    """Return scalars of one kind in a typed column's type, null where they do not fit; None if the kinds differ."""
    kinds = pa.types
    is_number = kinds.is_integer(values.type) or kinds.is_decimal(values.type)
    if is_number and (typed.root in INTEGER_BITS or typed.root == "DECIMAL"):
        return _as_number(values, typed, target)
    same = (
        (kinds.is_large_string(values.type) and typed.root == "VARCHAR" and typed.length == UNBOUNDED)
        or (kinds.is_large_binary(values.type) and typed.root == "VARBINARY" and typed.length == UNBOUNDED)
        or values.type == target  # booleans, floats of one width, dates, timestamps of microseconds
    )
    return values.cast(target) if same else None


def _as_number(values: pa.Array, typed: AtomicType, target: pa.DataType) -> pa.Array:
    """Return integers and decimals as integers or decimals that are equal to them, else null."""
    wide = values.cast(pa.decimal128(PRECISION_MAX, 0)) if pa.types.is_integer(values.type) else values
    scale = typed.scale if typed.root == "DECIMAL" else 0
    limit = (1 << INTEGER_BITS[typed.root] - 1) if typed.root in INTEGER_BITS else 10**typed.precision
    exact = wide.cast(pa.decimal256(2 * PRECISION_MAX, PRECISION_MAX))
    rounded = pc.round(exact, scale, "towards_zero")
    bound = pa.scalar(Decimal(limit).scaleb(-scale), exact.type)
    fits = pc.and_(pc.equal(exact, rounded), pc.and_(pc.less(exact, bound), pc.greater_equal(exact, pc.negate(bound))))
    if typed.root == "DECIMAL":
        fits = pc.and_(fits, pc.greater(exact, pc.negate(bound)))
    return pc.if_else(fits, exact, pa.scalar(None, exact.type)).cast(target)

"""Types of the format to Arrow types and back.

Each type of the format has one canonical Arrow type: what a read returns and what a writer casts to. Nullability is
kept on every level; map keys are never null in Arrow. Tables are created from Arrow schemas: every Arrow type whose
values all fit a type of the format is accepted, and for the others one error names the columns and the remedies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import NamedTuple

import pyarrow as pa

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.spec.types import (
    PRECISION_MAX,
    VECTOR_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    time_unit,
)

FIELD_ID = b"PARQUET:field_id"
DESCRIPTION = b"description"
# Spark marks the field `metadata` of a VARIANT with this, which tells it from a struct of the same fields.
VARIANT_MARK = {b"variant": b"true"}
VARIANT_FIELDS = ("value", "metadata")

# Ids of list elements, map keys and map values are derived from the nearest enclosing field: 1024 levels fit between
# two fields, and the ids of keys grow downwards so that they never equal those of values.
_DERIVED_BASE = 536870911
_DERIVED_STEP = 1024

_SIMPLE = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "CHAR": pa.string(),
    "VARCHAR": pa.string(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIME": pa.time32("ms"),
    "BLOB": pa.large_binary(),
    "GEOMETRY": pa.binary(),
    "GEOGRAPHY": pa.binary(),
}
_FROM_SIMPLE: dict[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.large_string(): "STRING",
    pa.string_view(): "STRING",
    pa.binary(): "BYTES",
    pa.binary_view(): "BYTES",
    pa.date32(): "DATE",
    pa.date64(): "DATE",
    pa.time32("s"): "TIME(0)",
    pa.time32("ms"): "TIME(3)",
    pa.time64("us"): "TIME(3)",
    pa.time64("ns"): "TIME(3)",
    # The narrowest types that hold every value; Spark reads unsigned columns of parquet files as the same ones.
    pa.uint8(): "SMALLINT",
    pa.uint16(): "INT",
    pa.uint32(): "BIGINT",
    pa.uint64(): "DECIMAL(20, 0)",
    pa.float16(): "FLOAT",
}
# Extension types whose storage says all that their values mean, by name.
_EXTENSIONS = {
    "arrow.uuid": "BINARY(16)",
    "arrow.json": "STRING",
    "arrow.parquet.variant": "VARIANT",
    "lakewright.blob": "BLOB",
}
_PRECISION = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_UNSUPPORTED: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_large_binary, "it would become a BLOB inside a column, which is not supported: use pa.binary()"),
)
_REFUSED: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_null, "a column needs a type: cast it, for example to pa.string(), or leave it out"),
    (pa.types.is_duration, "the format has no durations: cast it to pa.int64()"),
    (pa.types.is_interval, "the format has no intervals: store the numbers of months, days and nanoseconds"),
    (pa.types.is_fixed_size_list, "a VECTOR holds at least one number or boolean: use pa.list_() without a size"),
    (pa.types.is_union, "the format has no unions: use a struct with one field per member"),
    (pa.types.is_run_end_encoded, "decode it first (pyarrow.compute.run_end_decode)"),
    (
        lambda arrow: isinstance(arrow, pa.BaseExtensionType),
        "the format has no extension types: cast it to its storage type",
    ),
)
_DECIMALS = (
    f"decimals have at most {PRECISION_MAX} digits and a scale from 0 to their precision; cast it to such a decimal"
)


@lru_cache(maxsize=4096)
def to_arrow_type(dtype: DataType) -> pa.DataType:
    """Return the canonical Arrow type.

    >>> to_arrow_type(AtomicType("TIMESTAMP(6) WITH LOCAL TIME ZONE"))
    TimestampType(timestamp[us, tz=UTC])
    """
    return _type(dtype, None)


def to_arrow_field(field: DataField) -> pa.Field:
    """Return a column as an Arrow field; its description becomes metadata of the field."""
    return _field(field, numbered=False)


def to_arrow_schema(fields: Sequence[DataField]) -> pa.Schema:
    """Return columns as an Arrow schema."""
    return pa.schema([to_arrow_field(field) for field in fields])


def with_field_ids(fields: Sequence[DataField]) -> pa.Schema:
    """Return columns as an Arrow schema with the field id of every level, for a parquet writer."""
    return pa.schema([_field(field, numbered=True) for field in fields])


def from_arrow_schema(schema: pa.Schema, *, declared: bool = False) -> tuple[DataField, ...]:
    """Return Arrow fields as columns, numbered as Java numbers them: a column first, then the fields inside it.

    Columns that have no type of the format are refused together. The schema is that of some data, where `large_binary`
    is only a way to store bytes; with `declared` it says what a table should be, and `large_binary` stands for BLOB.

    >>> columns = from_arrow_schema(pa.schema({"a": pa.int64(), "b": pa.list_(pa.string())}))
    >>> [f"{column.id} {column.name} {column.type}" for column in columns]
    ['0 a BIGINT', '1 b ARRAY<STRING>']
    """
    blobs = {field.name for field in schema if declared and pa.types.is_large_binary(field.type)}
    others = (field for field in schema if field.name not in blobs)
    misfits = [one for field in others for one in _misfits(field.type, field.name, declared=declared)]
    if misfits:
        raise _refusal(misfits)
    ids = count()
    columns = []
    for field in schema:
        number = next(ids)
        dtype = _column_type(field.type, ids, nullable=field.nullable)
        dtype = AtomicType("BLOB", field.nullable) if field.name in blobs else dtype
        columns.append(DataField(number, field.name, dtype, _description(field)))
    return tuple(columns)


def from_arrow_type(
    arrow: pa.DataType, *, nullable: bool = True, ids: Iterator[int] | None = None, column: str = ""
) -> DataType:
    """Return the type of the format for an Arrow type; `ids` number the fields inside it, `column` is for messages."""
    misfits = list(_misfits(arrow, column, declared=False))
    if misfits:
        raise _refusal(misfits)
    return _column_type(arrow, count() if ids is None else ids, nullable=nullable)


def _column_type(arrow: pa.DataType, ids: Iterator[int], *, nullable: bool) -> DataType:
    """Return the type of the format for an Arrow type that `_misfits` finds nothing wrong with."""
    simple = _simple_type(arrow)
    if simple is not None:
        return AtomicType(simple, nullable)
    kinds = pa.types
    if kinds.is_dictionary(arrow):
        return _column_type(arrow.value_type, ids, nullable=nullable)
    if kinds.is_map(arrow):
        return MapType(nullable, _inside(arrow.key_field, ids), _inside(arrow.item_field, ids))
    if kinds.is_struct(arrow):
        return RowType(nullable, [_row_field(field, ids) for field in arrow])
    if kinds.is_fixed_size_list(arrow):
        # Elements of vectors are never null, so the nullability that an Arrow type states for them means nothing.
        return VectorType(nullable, _column_type(arrow.value_type, ids, nullable=True), arrow.list_size)
    return ArrayType(nullable, _inside(arrow.value_field, ids))


def _simple_type(arrow: pa.DataType) -> str | None:
    """Return the type of the format for an Arrow type without parts; None: it has parts, or no counterpart."""
    kinds = pa.types
    if isinstance(arrow, pa.BaseExtensionType):
        return _EXTENSIONS.get(arrow.extension_name)
    if kinds.is_large_binary(arrow):
        return "BYTES"
    if kinds.is_decimal(arrow):
        return f"DECIMAL({arrow.precision}, {arrow.scale})"
    if kinds.is_timestamp(arrow):
        zone = "" if arrow.tz is None else " WITH LOCAL TIME ZONE"
        return f"TIMESTAMP({_PRECISION[arrow.unit]}){zone}"
    if kinds.is_fixed_size_binary(arrow):
        return f"BINARY({arrow.byte_width})"
    if is_variant(arrow):
        return "VARIANT"
    return _FROM_SIMPLE.get(arrow)


def is_variant(arrow: pa.DataType) -> bool:
    """Return whether an Arrow type is that of VARIANT columns, and not of a ROW with the same fields."""
    if not pa.types.is_struct(arrow):
        return False
    marks = [field.metadata or {} for field in arrow if field.name == "metadata"]
    return {field.name for field in arrow} == set(VARIANT_FIELDS) and any(
        VARIANT_MARK.items() <= m.items() for m in marks
    )


def _inside(field: pa.Field, ids: Iterator[int]) -> DataType:
    return _column_type(field.type, ids, nullable=field.nullable)


def _row_field(field: pa.Field, ids: Iterator[int]) -> DataField:
    inner = _inside(field, ids)  # the fields inside are numbered before the field that holds them
    return DataField(next(ids), field.name, inner, _description(field))


# ---- Arrow types that no column can have -----------------------------------------------------------------------------


class _Misfit(NamedTuple):
    """A column, or a part of one, whose Arrow type has no counterpart."""

    column: str
    arrow: pa.DataType
    remedy: str
    is_unsupported: bool  # the format has the type, but this library does not write it


def _misfits(arrow: pa.DataType, column: str, *, declared: bool) -> Iterator[_Misfit]:
    """Yield the parts of an Arrow type that have no counterpart."""
    kinds = pa.types
    if kinds.is_dictionary(arrow):
        yield from _misfits(arrow.value_type, column, declared=declared)
    elif kinds.is_map(arrow):
        yield from _misfits(arrow.key_type, f"{column}.key", declared=declared)
        yield from _misfits(arrow.item_type, f"{column}.value", declared=declared)
    elif kinds.is_struct(arrow) and not is_variant(arrow):
        if arrow.num_fields == 0:
            yield _Misfit(column, arrow, "a struct without fields: give it at least one", is_unsupported=False)
        for field in arrow:
            yield from _misfits(field.type, f"{column}.{field.name}", declared=declared)
    elif _is_list(arrow):
        yield from _misfits(arrow.value_type, f"{column}.element", declared=declared)
    elif kinds.is_decimal(arrow):
        if arrow.precision > PRECISION_MAX or not 0 <= arrow.scale <= arrow.precision:
            yield _Misfit(column, arrow, _DECIMALS, is_unsupported=False)
    elif _has_no_counterpart(arrow, declared=declared):
        unsupported = next((text for applies, text in _UNSUPPORTED if applies(arrow)), None)
        remedy = next((text for applies, text in _REFUSED if applies(arrow)), "the format has no such type")
        yield _Misfit(column, arrow, unsupported or remedy, is_unsupported=unsupported is not None)


def _has_no_counterpart(arrow: pa.DataType, *, declared: bool) -> bool:
    if pa.types.is_fixed_size_list(arrow):
        return arrow.list_size < 1 or _FROM_SIMPLE.get(arrow.value_type) not in VECTOR_ROOTS
    return _simple_type(arrow) is None or (declared and pa.types.is_large_binary(arrow))


def _is_list(arrow: pa.DataType) -> bool:
    kinds = pa.types
    return bool(
        kinds.is_list(arrow)
        or kinds.is_large_list(arrow)
        or kinds.is_list_view(arrow)
        or kinds.is_large_list_view(arrow)
    )


def _refusal(misfits: Sequence[_Misfit]) -> InvalidInputError | UnsupportedError:
    """Return the error that names every column which cannot be stored."""
    texts = [f"the column {one.column!r} has the Arrow type {one.arrow}: {one.remedy}" for one in misfits]
    kind = UnsupportedError if all(one.is_unsupported for one in misfits) else InvalidInputError
    facts: dict[str, object] = {"column": misfits[0].column, "type": str(misfits[0].arrow)}
    if len(misfits) > 1:
        facts["columns"] = [one.column for one in misfits]
    return kind("; ".join(texts), **facts)


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a part without an id of its own: the field around it, and how deep it is inside."""

    field_id: int
    depth: int = 0

    def deeper(self) -> _Place:
        return _Place(self.field_id, self.depth + 1)

    def part_id(self, sign: int) -> int:
        return _DERIVED_BASE + sign * (_DERIVED_STEP * self.field_id + self.depth)


def _field(field: DataField, *, numbered: bool) -> pa.Field:
    metadata: dict[bytes, str] = {}
    if numbered:
        metadata[FIELD_ID] = str(field.id)
    elif field.description is not None:
        metadata[DESCRIPTION] = field.description
    inner = _type(field.type, _Place(field.id) if numbered else None)
    return pa.field(field.name, inner, nullable=field.type.nullable, metadata=metadata or None)


def _type(dtype: DataType, place: _Place | None) -> pa.DataType:
    match dtype:
        case AtomicType():
            return _atomic(dtype, place)
        case ArrayType():
            return pa.list_(_part("element", dtype.element, place, 1))
        case VectorType():
            # The files that have field ids hold vectors as lists.
            return pa.list_(_part("element", dtype.element, place, 1), -1 if place is not None else dtype.length)
        case MapType() | MultisetType():
            key = _part("key", dtype.key, place, -1).with_nullable(False)  # noqa: FBT003 - pyarrow's signature
            return pa.map_(key, _part("value", dtype.value, place, 1))
        case RowType():
            return pa.struct([_field(field, numbered=place is not None) for field in dtype.fields])


def _part(name: str, dtype: DataType, place: _Place | None, sign: int) -> pa.Field:
    """Return a list element, map key or map value as a field, with an id derived from its place."""
    below = None if place is None else place.deeper()
    metadata = None if below is None else {FIELD_ID: str(below.part_id(sign))}
    return pa.field(name, _type(dtype, below), nullable=dtype.nullable, metadata=metadata)


def _atomic(dtype: AtomicType, place: _Place | None) -> pa.DataType:
    match dtype.root:
        case "DECIMAL":
            return pa.decimal128(dtype.precision, dtype.scale)
        case "TIMESTAMP":
            return pa.timestamp(time_unit(dtype.precision))
        case "TIMESTAMP_LTZ":
            return pa.timestamp(time_unit(dtype.precision), tz="UTC")
        case "VARIANT":
            value, metadata = ({}, {}) if place is None else ({FIELD_ID: b"0"}, {FIELD_ID: b"1"})
            return pa.struct(
                [
                    pa.field("value", pa.binary(), nullable=False, metadata=value),
                    pa.field("metadata", pa.binary(), nullable=False, metadata={**metadata, **VARIANT_MARK}),
                ]
            )
        case "UNKNOWN":
            raise UnsupportedError(f"{dtype} is not a type that this release knows: select other columns")
        case root:
            return _SIMPLE[root]


def _description(field: pa.Field) -> str | None:
    text: bytes | None = (field.metadata or {}).get(DESCRIPTION)
    return None if text is None else text.decode("utf-8", "replace")

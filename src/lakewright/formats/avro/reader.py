"""Avro data files in, batches of the requested columns out.

fastavro decodes records without logical types, a whole block in one call: a block is an Avro array without its count
and its end, so it is decoded as one. A column that the file lacks reads as null.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from lakewright.errors import UnsupportedError
from lakewright.formats.avro.container import (
    decode_block,
    decode_header,
    encode_long,
    frames,
)
from lakewright.formats.avro.data_schema import AvroType
from lakewright.formats.avro.schemas import block_schema, branches, file_schema
from lakewright.formats.base import (
    Input,
    corrupt,
    decoding,
    empty_batch,
    overlap,
)
from lakewright.spec.arrow import to_arrow_schema, to_arrow_type
from lakewright.spec.predicate.predicate import Predicate
from lakewright.spec.types import (
    UNIT_NANOS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
)

_NANOS = {"millis": UNIT_NANOS["ms"], "micros": UNIT_NANOS["us"], "nanos": UNIT_NANOS["ns"]}


class AvroFileReader:
    """One Avro file being read. It is held in memory as a whole, compressed."""

    def __init__(self, source: Input, *, path: str, size: int, fields: Sequence[DataField]) -> None:
        self._source = source
        self._path = path
        self._fields = tuple(fields)
        self._schema = to_arrow_schema(fields)
        with decoding(path):
            self._data = bytes(source.read())
            if len(self._data) != size:
                raise corrupt(path, f"it has {len(self._data)} bytes instead of {size}")
            self._header = decode_header(self._data)
            schema = file_schema(json.loads(self._header.schema))
            self._types = _types(schema.record)
            self._block_schema = block_schema(schema)
            self._frames = tuple(frames(self._data, self._header))
            self._row_count = sum(frame.count for frame in self._frames)

    @property
    def row_count(self) -> int:
        """The number of rows in the file."""
        return self._row_count

    @property
    def stored_columns(self) -> tuple[str, ...]:
        """The names of all columns that the file holds, in its order, whichever are read."""
        return tuple(self._types)

    def starts(self, skip: Predicate | None = None) -> tuple[int, ...]:  # noqa: ARG002 - as for `batches`
        """Return the positions of the first rows of blocks."""
        return tuple(accumulate((frame.count for frame in self._frames[:-1]), initial=0)) if self._frames else ()

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def batches(
        self,
        *,
        skip: Predicate | None = None,  # noqa: ARG002 - Avro has no statistics to skip by
        batch_rows: int | None = None,
        within: range | None = None,
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches in file order, each with the position of its first row."""
        for position, frame in zip(self.starts(), self._frames, strict=True):
            if not overlap(position, frame.count, within):
                continue
            with decoding(self._path):
                block = decode_block(self._data, self._header, frame)
                if block.count == 0 and not block.data:
                    continue
                batch = self._batch(block.count, block.data)
            step = batch_rows or block.count
            for start in range(0, block.count, step):
                yield position + start, batch.slice(start, step)

    def _batch(self, count: int, data: bytes) -> pa.RecordBatch:
        stream = io.BytesIO(encode_long(count) + data + b"\x00")
        rows: Any = fastavro.schemaless_reader(stream, self._block_schema, None)
        if stream.read(1) or len(rows) != count:
            raise corrupt(self._path, "a block holds more or fewer bytes than its records")
        columns = []
        for field in self._fields:
            if field.name not in self._types:
                columns.append(pa.nulls(count, to_arrow_type(field.type)))
                continue
            columns.append(to_array([row[field.name] for row in rows], field.type, self._types[field.name]))
        if not columns:
            return empty_batch(self._schema, count)
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _types(record: AvroType) -> dict[str, AvroType]:
    """Return the types of a record's fields by their names."""
    return {field["name"]: field["type"] for field in _member(record, "record", "fields")}


def _without_null(schema: AvroType) -> AvroType:
    rest = [part for part in branches(schema) if part != "null"]
    if len(rest) != 1:
        raise ValueError("a union of several types has no meaning here")
    only: AvroType = rest[0]
    return only


def to_array(values: list[Any], dtype: DataType, schema: AvroType) -> pa.Array:
    """Return values of Avro's decoder as an array of the canonical type."""
    schema = _without_null(schema)
    target = to_arrow_type(dtype)
    match dtype:
        case AtomicType():
            return _atomic_array(values, dtype, schema)
        case ArrayType():
            flat = list(chain.from_iterable(value for value in values if value is not None))
            return _list_array(values, target, to_array(flat, dtype.element, _member(schema, "array", "items")))
        case MapType() | MultisetType():
            return _map_array(values, dtype, schema)
        case RowType():
            return _struct_array(values, dtype, schema)
        case VectorType():
            raise UnsupportedError(f"Avro files cannot hold {dtype}", type=str(dtype))


def _struct_array(values: list[Any], dtype: RowType, schema: AvroType) -> pa.Array:
    types = _types(schema)
    children = [
        to_array([None if row is None else row[field.name] for row in values], field.type, types[field.name])
        if field.name in types
        else pa.nulls(len(values), to_arrow_type(field.type))
        for field in dtype.fields
    ]
    mask = pa.array([row is None for row in values], pa.bool_()) if None in values else None
    return pa.StructArray.from_arrays(children, fields=list(to_arrow_type(dtype)), mask=mask)


def _map_array(values: list[Any], dtype: MapType | MultisetType, schema: AvroType) -> pa.Array:
    target = to_arrow_type(dtype)
    if isinstance(schema, Mapping) and schema.get("type") == "map":
        pairs = list(chain.from_iterable(value.items() for value in values if value is not None))
        keys, items = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        schemas: tuple[AvroType, ...] = ("string", _member(schema, "map", "values"))
    else:
        entries = list(chain.from_iterable(value for value in values if value is not None))
        keys, items = [entry["key"] for entry in entries], [entry["value"] for entry in entries]
        schemas = tuple(_types(_without_null(_member(schema, "array", "items"))).values())
    if None in keys:
        raise ValueError("a map has a null key")
    parts = [to_array(keys, dtype.key, schemas[0]), to_array(items, dtype.value, schemas[1])]
    entries_array = pa.StructArray.from_arrays(parts, fields=[target.key_field, target.item_field])
    return _list_array(values, target, entries_array)


def _list_array(values: list[Any], target: pa.DataType, flat: pa.Array) -> pa.Array:
    offsets = np.zeros(len(values) + 1, dtype=np.int32)
    np.cumsum([0 if value is None else len(value) for value in values], out=offsets[1:])
    valid, nulls = _validity(values)
    return pa.Array.from_buffers(target, len(values), [valid, pa.py_buffer(offsets)], nulls, children=[flat])


def _validity(values: list[Any]) -> tuple[pa.Buffer | None, int]:
    nulls = sum(value is None for value in values)
    return pa.array([value is not None for value in values], pa.bool_()).buffers()[1] if nulls else None, nulls


def _member(schema: AvroType, kind: str, member: str) -> Any:  # noqa: ANN401 - JSON
    if not isinstance(schema, Mapping) or schema.get("type") != kind:
        raise ValueError(f"its schema has {schema} instead of an Avro {kind}")
    return schema[member]


def _atomic_array(values: list[Any], dtype: AtomicType, schema: AvroType) -> pa.Array:
    target = to_arrow_type(dtype)
    logical = str(schema.get("logical", "")) if isinstance(schema, Mapping) else ""
    match dtype.root:
        case "DATE":
            return pa.array(values, pa.int32()).view(target)
        case "TIME":
            factor = 1_000_000 // _NANOS[logical.rpartition("-")[2] or "millis"]
            return pa.array([v if v is None else v // factor for v in values], pa.int32()).view(target)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            stored_unit = _NANOS[logical.rpartition("-")[2] or "millis"]
            target_unit = UNIT_NANOS[target.unit]
            if stored_unit != target_unit:
                values = [v if v is None else v * stored_unit // target_unit for v in values]
            return pa.array(values, pa.int64()).view(target)
        case "DECIMAL":
            return _decimal_array(values, target, schema)
        case _:
            return pa.array(values, target)


def _decimal_array(values: list[Any], target: pa.DataType, schema: AvroType) -> pa.Array:
    scale = schema.get("scale", 0) if isinstance(schema, Mapping) else 0
    if scale != target.scale:
        raise ValueError(f"it has decimals of scale {scale} instead of {target}")
    zero = bytes(16)
    limit = 10**target.precision
    parts = []
    for value in values:
        number = 0 if value is None else int.from_bytes(value, "big", signed=True)
        if abs(number) >= limit:
            raise ValueError(f"a number has too many digits for {target}")
        parts.append(number.to_bytes(16, "little", signed=True) if number else zero)
    valid, nulls = _validity(values)
    return pa.Array.from_buffers(target, len(values), [valid, pa.py_buffer(b"".join(parts))], nulls)

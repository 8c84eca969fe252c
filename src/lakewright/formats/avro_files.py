"""Avro data files: schema, reader, writer."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import Any, TypeAlias, cast

import fastavro
import numpy as np
import pyarrow as pa

from lakewright.errors import UnsupportedError
from lakewright.formats.arrow_conform import lists_to_vectors
from lakewright.formats.avro_container import (
    Codec,
    block_schema,
    branches,
    compress,
    decode_block,
    decode_header,
    encode_block,
    encode_header,
    encode_long,
    file_schema,
    frames,
)
from lakewright.formats.file_format import (
    Encoded,
    Input,
    OutputFile,
    StatsCollector,
    WriteOptions,
    WrittenFile,
    check_rows,
    corrupt_file_error,
    empty_batch,
    overlap,
    translate_decode_errors,
)
from lakewright.spec.arrow_types import to_arrow_schema, to_arrow_type
from lakewright.spec.predicate import Predicate
from lakewright.spec.types import (
    MICROS_PRECISION,
    MILLIS_PRECISION,
    TEXT_ROOTS,
    UNIT_NANOS,
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

# ---- Schemas of data files -------------------------------------------------------------------------------------------
# It follows Java: nullable means a union with null, small integers are `int`, decimals are bytes, maps with other
# than text keys are arrays of key and value, and the names of the two kinds of timestamps are swapped against Avro's
# own meaning.

AvroType: TypeAlias = "str | Mapping[str, Any] | Sequence[Any]"
NAMESPACE = "org.apache.paimon.avro.generated"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = {
    "BOOLEAN": "boolean",
    "TINYINT": "int",
    "SMALLINT": "int",
    "INT": "int",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "CHAR": "string",
    "VARCHAR": "string",
    "BINARY": "bytes",
    "VARBINARY": "bytes",
}


def avro_schema(fields: Sequence[DataField]) -> dict[str, Any]:
    """Return the Avro schema of a data file."""
    return {"type": "record", "name": "record", "namespace": NAMESPACE, "fields": _fields(fields, "record")}


def _fields(fields: Sequence[DataField], path: str) -> list[dict[str, Any]]:
    out = []
    for field in fields:
        if not _NAME.fullmatch(field.name):
            raise UnsupportedError(
                f"Avro files cannot have a column named {field.name!r}: only letters, digits and _ are allowed; rename "
                "it or use another file.format",
                column=field.name,
            )
        entry: dict[str, Any] = {"name": field.name, "type": _nullable(field.type, f"{path}_{field.name}")}
        if field.type.nullable:
            entry["default"] = None
        out.append(entry)
    return out


def _nullable(dtype: DataType, path: str) -> AvroType:
    plain = _type(dtype, path)
    return ["null", plain] if dtype.nullable else plain


def _type(dtype: DataType, path: str) -> AvroType:
    match dtype:
        case AtomicType():
            return _atomic_type(dtype, path)
        case ArrayType() | VectorType():
            return {"type": "array", "items": _nullable(dtype.element, path)}
        case MapType() | MultisetType():
            return _map_type(dtype.key, dtype.value, path)
        case RowType():
            return {"type": "record", "name": path, "fields": _fields(dtype.fields, path)}


def _map_type(key: DataType, value: DataType, path: str) -> AvroType:
    if is_text(key):
        return {"type": "map", "values": _nullable(value, path)}
    # Values of ROW type need names of their own beside that of the entry.
    entry: list[dict[str, Any]] = [
        {"name": "key", "type": _nullable(with_nullable(key, nullable=True), f"{path}_key")},
        {"name": "value", "type": _nullable(value, f"{path}_value")},
    ]
    if value.nullable:
        entry[1]["default"] = None
    return {"type": "array", "items": {"type": "record", "name": path, "fields": entry}, "logicalType": "map"}


def is_text(dtype: DataType) -> bool:
    """Return whether a type is one of text, whose maps are Avro's maps."""
    return isinstance(dtype, AtomicType) and dtype.root in TEXT_ROOTS


def _atomic_type(dtype: AtomicType, path: str) -> AvroType:
    if dtype.root in _PLAIN:
        return _PLAIN[dtype.root]
    match dtype.root:
        case "DECIMAL":
            return {"type": "bytes", "logicalType": "decimal", "precision": dtype.precision, "scale": dtype.scale}
        case "DATE":
            return {"type": "int", "logicalType": "date"}
        case "TIME" if dtype.precision <= MILLIS_PRECISION:
            return {"type": "int", "logicalType": "time-millis"}
        case "TIMESTAMP" | "TIMESTAMP_LTZ" if dtype.precision <= MICROS_PRECISION:
            unit = "millis" if dtype.precision <= MILLIS_PRECISION else "micros"
            local = "local-" if dtype.root == "TIMESTAMP_LTZ" else ""
            return {"type": "long", "logicalType": f"{local}timestamp-{unit}"}
        case _:
            raise UnsupportedError(
                f"Avro files cannot hold {dtype} (column {path.removeprefix('record_')!r}); lower its precision or use "
                "another file.format",
                type=str(dtype),
            )


# ---- Reading ---------------------------------------------------------------------------------------------------------
# fastavro decodes records without logical types, a whole block in one call: a block is an Avro array without its
# count and its end, so it is decoded as one. A column that the file lacks reads as null.

_NANOS = {"millis": UNIT_NANOS["ms"], "micros": UNIT_NANOS["us"], "nanos": UNIT_NANOS["ns"]}


class AvroFileReader:
    """One Avro file being read. It is held in memory as a whole, compressed."""

    def __init__(self, source: Input, *, path: str, size: int, fields: Sequence[DataField]) -> None:
        self._source = source
        self._path = path
        self._fields = tuple(fields)
        self._schema = to_arrow_schema(fields)
        with translate_decode_errors(path):
            self._data = bytes(source.read())
            if len(self._data) != size:
                raise corrupt_file_error(path, f"it has {len(self._data)} bytes instead of {size}")
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
            with translate_decode_errors(self._path):
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
            raise corrupt_file_error(self._path, "a block holds more or fewer bytes than its records")
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
            return lists_to_vectors(to_array(values, _as_array(dtype), schema), target)


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


# ---- Writing ---------------------------------------------------------------------------------------------------------
# Columns become records, which fastavro encodes without logical types, a whole block in one call: a block is an Avro
# array without its count and its end, so it is encoded as one.

_BLOCK_ROWS = 4096


class AvroEncoder:
    """Encodes rows as the blocks of a file."""

    def __init__(self, fields: Sequence[DataField], options: WriteOptions) -> None:
        self.codec = Codec.of(options.compression, options.zstd_level)
        self.avro_schema = avro_schema(fields)
        self._fields = tuple(fields)
        self._schema = to_arrow_schema(fields)
        self._modes = options.stats
        self._block_schema = block_schema(file_schema(self.avro_schema))

    def piece_rows(self, table: pa.Table) -> int:
        """Return all of them: encoding holds the lock of Python, so threads do not help."""
        return int(table.num_rows)

    def check(self, table: pa.Table) -> None:
        """Raise an error for rows that a file cannot hold."""
        check_rows(table, self._schema)

    def encode(self, table: pa.Table) -> Encoded:
        """Return rows as blocks of a few thousand, each with its row count and its compressed bytes."""
        self.check(table)
        stats = StatsCollector(self._fields, self._modes)
        stats.add(table)
        blocks = []
        for start in range(0, table.num_rows, _BLOCK_ROWS):
            rows = _records(table.slice(start, _BLOCK_ROWS), self._fields)
            out = io.BytesIO()
            fastavro.schemaless_writer(out, self._block_schema, rows)
            data = out.getvalue()[len(encode_long(len(rows))) : -1]
            blocks.append((len(rows), compress(data, self.codec)))
        return Encoded(blocks, sum(len(packed) for _, packed in blocks), stats)


class AvroFileWriter:
    """One Avro file being written."""

    def __init__(self, output: OutputFile, fields: Sequence[DataField], options: WriteOptions) -> None:
        self._output = output
        self._encoder = AvroEncoder(fields, options)
        self._stats = StatsCollector(fields, options.stats)
        schema = json.dumps(self._encoder.avro_schema, separators=(",", ":")).encode()
        header, self._sync = encode_header(schema, self._encoder.codec)
        self._size = self._output.write(header)

    def write(self, table: pa.Table) -> None:
        """Append rows, in blocks of a few thousand."""
        self.append(self._encoder.encode(table))

    def append(self, piece: Encoded) -> None:
        """Append rows that are encoded already."""
        for count, packed in cast("list[tuple[int, bytes]]", piece.content):
            self._size += self._output.write(encode_block(count, packed, self._sync))
        self._stats.include(piece.stats)

    def tell(self) -> int:
        """Return how many bytes were written so far."""
        return self._size

    def close(self) -> WrittenFile:
        """Finish the file."""
        self._output.close()
        return WrittenFile(self._size, self._stats.row_count, self._stats.result())

    def discard(self) -> None:
        """Abandon the file."""
        self._output.discard()


def _records(table: pa.Table, fields: Sequence[DataField]) -> list[dict[str, Any]]:
    columns = [
        to_values(column.combine_chunks() if column.num_chunks != 1 else column.chunk(0), field.type)
        for column, field in zip(table.columns, fields, strict=True)
    ]
    names = [field.name for field in fields]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def to_values(array: pa.Array, dtype: DataType) -> list[Any]:
    """Return the values of an array as Avro's encoder takes them."""
    match dtype:
        case ArrayType():
            return _cut(array, to_values(array.values, dtype.element))
        case MapType() | MultisetType():
            return _map_values(array, dtype)
        case RowType():
            names = [field.name for field in dtype.fields]
            columns = [to_values(array.field(i), field.type) for i, field in enumerate(dtype.fields)]
            rows: list[Any] = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
            return _with_nulls(array, rows)
        case AtomicType():
            return _atomic_values(array, dtype)
        case VectorType():
            lists = _as_array(dtype)
            return to_values(array.cast(to_arrow_type(lists)), lists)


def _as_array(dtype: VectorType) -> ArrayType:
    """Return the type of the lists that vectors are stored as."""
    return ArrayType(dtype.nullable, dtype.element)


def _atomic_values(array: pa.Array, dtype: AtomicType) -> list[Any]:
    match dtype.root:
        case "DATE" | "TIME":
            array = array.view(pa.int32())
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            array = array.view(pa.int64())
        case "DECIMAL":
            return _with_nulls(array, _decimal_values(array))
    values: list[Any] = array.to_pylist()
    return values


def _decimal_values(array: pa.Array) -> list[Any]:
    """Return unscaled numbers as big-endian bytes, as few as hold them."""
    data = array.buffers()[1].to_pybytes()
    out = []
    for at in range(array.offset * 16, (array.offset + len(array)) * 16, 16):
        number = int.from_bytes(data[at : at + 16], "little", signed=True)
        bits = number if number >= 0 else ~number
        out.append(number.to_bytes(bits.bit_length() // 8 + 1, "big", signed=True))
    return out


def _map_values(array: pa.Array, dtype: MapType | MultisetType) -> list[Any]:
    keys, values = to_values(array.keys, dtype.key), to_values(array.items, dtype.value)
    if is_text(dtype.key):
        return [None if pairs is None else dict(pairs) for pairs in _cut(array, list(zip(keys, values, strict=True)))]
    return _cut(array, [{"key": key, "value": value} for key, value in zip(keys, values, strict=True)])


def _cut(array: pa.Array, flat: list[Any]) -> list[Any]:
    """Cut the values of all lists into one list per row."""
    offsets = array.offsets.to_pylist()
    rows: list[Any] = [flat[start:end] for start, end in pairwise(offsets)]
    return _with_nulls(array, rows)


def _with_nulls(array: pa.Array, values: list[Any]) -> list[Any]:
    if array.null_count:
        for index in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
            values[index] = None
    return values

"""Rows in, Avro data files out.

Columns become records, which fastavro encodes without logical types, a whole block in one call: a block is an Avro
array without its count and its end, so it is encoded as one.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import fastavro
import numpy as np
import pyarrow as pa

from lakewright.errors import UnsupportedError
from lakewright.formats.avro.container import (
    Codec,
    compress,
    encode_block,
    encode_header,
    encode_long,
)
from lakewright.formats.avro.data_schema import avro_schema, is_text
from lakewright.formats.avro.schemas import block_schema, file_schema
from lakewright.formats.base import (
    Encoded,
    Output,
    StatsCollector,
    WriteOptions,
    WrittenFile,
    check_rows,
)
from lakewright.spec.arrow import to_arrow_schema
from lakewright.spec.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
)

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

    def __init__(self, output: Output, fields: Sequence[DataField], options: WriteOptions) -> None:
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
            raise UnsupportedError(f"Avro files cannot hold {dtype}", type=str(dtype))


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

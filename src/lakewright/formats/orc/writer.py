"""Rows in, ORC data files out, through Arrow.

ORC has no checksums, so each file has a seal between the stripes and the tail: the CRC-32 of every other byte of the
file. TIME has no type in ORC and is stored as milliseconds in an int.

Two kinds of timestamps are refused: those outside 1677 to 2262, because Arrow decodes timestamps as nanoseconds, and
fractions of seconds before 1970, because Arrow writes them as negative numbers, which no other reader understands.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as pa_orc

from lakewright.errors import UnsupportedError
from lakewright.formats.base import (
    Encoded,
    Output,
    StatsCollector,
    WriteOptions,
    WrittenFile,
    check_rows,
    codec_of,
)
from lakewright.formats.conform import rebuild_list, rebuild_struct
from lakewright.formats.orc.tail import (
    END_BYTES,
    TIMESTAMP_MILLIS_MAX,
    read_postscript,
    timestamp_out_of_range,
)
from lakewright.formats.seal import SEAL_BYTES, HoldingSink, make_seal
from lakewright.spec.arrow import to_arrow_schema
from lakewright.spec.types import (
    UNIT_NANOS,
    DataField,
)
from lakewright.spec.units import MIB

_CODECS = {
    "zstd": "zstd",
    "snappy": "snappy",
    "zlib": "zlib",
    "gzip": "zlib",
    "lz4": "lz4",
    "none": "uncompressed",
    "uncompressed": "uncompressed",
}
_STRIPE_BYTES_MAX = 64 * MIB
_DICTIONARY_THRESHOLD = 0.8  # of distinct values below which text gets a dictionary, as Java has it


class OrcEncoder:
    """Converts rows to the schema of the file; Arrow makes the stripes when the rows are appended.

    Unlike parquet's row groups, stripes are not encoded apart from each other: the tail of the file repeats the bounds
    of all stripes, in another form for each type.
    """

    def __init__(self, fields: Sequence[DataField], options: WriteOptions) -> None:
        codec_of(_CODECS, options.compression, "ORC")
        self.schema = to_arrow_schema(fields)
        self._fields = tuple(fields)
        self._modes = options.stats
        self._stored = pa.schema([pa.field(f.name, _stored_type(f.type), nullable=f.nullable) for f in self.schema])

    def piece_rows(self, table: pa.Table) -> int:
        """Return all of them: one thread writes the stripes."""
        return int(table.num_rows)

    def check(self, table: pa.Table) -> None:
        """Raise an error for rows that a file cannot hold."""
        check_rows(table, self.schema)
        for field, column in zip(self.schema, table.columns, strict=True):
            for chunk in column.chunks:
                _check_writable(chunk, field.name)

    def encode(self, table: pa.Table) -> Encoded:
        """Return rows in the schema of the file."""
        self.check(table)
        stats = StatsCollector(self._fields, self._modes)
        stats.add(table)
        stored = _reshape(table, self._stored)
        return Encoded(stored, stored.nbytes, stats)


class OrcFileWriter:
    """One ORC file being written."""

    def __init__(self, output: Output, fields: Sequence[DataField], options: WriteOptions) -> None:
        self._codec = codec_of(_CODECS, options.compression, "ORC")
        self._output = output
        self._encoder = OrcEncoder(fields, options)
        self._sink = HoldingSink(output, checksum=True)
        self._stats = StatsCollector(fields, options.stats)
        self._writer = pa_orc.ORCWriter(
            pa.PythonFile(self._sink, mode="w"),
            compression=self._codec,
            stripe_size=min(options.row_group_bytes, _STRIPE_BYTES_MAX),
            dictionary_key_size_threshold=_DICTIONARY_THRESHOLD,
        )
        self._opened = False

    def write(self, table: pa.Table) -> None:
        """Append rows; ORC makes stripes of them as they fill up."""
        self.append(self._encoder.encode(table))

    def append(self, piece: Encoded) -> None:
        """Append rows that are in the schema of the file already."""
        if piece.stats.row_count == 0 and self._opened:
            return
        self._opened = True
        self._writer.write(piece.content)
        self._stats.include(piece.stats)

    def tell(self) -> int:
        """Return how many bytes were written so far."""
        return self._sink.tell()

    def close(self) -> WrittenFile:
        """Finish the file: what is left of the last stripe, the seal, the tail."""
        if not self._opened:
            self.write(self._encoder.schema.empty_table())
        start = self._sink.tell()
        self._sink.hold()
        self._writer.close()
        held = self._sink.held()
        at = len(held) - read_postscript(held[-END_BYTES:]).tail_bytes
        self._output.write(held[:at] + make_seal(self._sink.checksum) + held[at:])
        self._output.close()
        return WrittenFile(start + len(held) + SEAL_BYTES, self._stats.row_count, self._stats.result())

    def discard(self) -> None:
        """Abandon the file."""
        self._sink.hold()
        self._output.discard()


def _stored_type(arrow: pa.DataType) -> pa.DataType:
    """Return the Arrow type that ORC's writer takes for a canonical one."""
    if pa.types.is_time(arrow):
        return pa.int32()
    if pa.types.is_struct(arrow):
        return pa.struct([field.with_type(_stored_type(field.type)) for field in arrow])
    if pa.types.is_map(arrow):
        return pa.map_(
            arrow.key_field.with_type(_stored_type(arrow.key_type)),
            arrow.item_field.with_type(_stored_type(arrow.item_type)),
        )
    if pa.types.is_list(arrow):
        return pa.list_(arrow.value_field.with_type(_stored_type(arrow.value_type)))
    return arrow


def _reshape(table: pa.Table, stored: pa.Schema) -> pa.Table:
    """Return rows in a form that Arrow's ORC writer writes correctly."""
    columns = [
        pa.chunked_array([_unsliced(_reshape_array(chunk, field.type)) for chunk in column.chunks], field.type)
        for column, field in zip(table.columns, stored, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=stored)


def _reshape_array(array: pa.Array, stored: pa.DataType) -> pa.Array:
    """Return an array in its stored type, with every field of a null ROW null.

    The writer would store a value below a null ROW as a value of a later row.
    """
    if pa.types.is_struct(stored):
        children = [_reshape_array(child, f.type) for child, f in zip(array.flatten(), stored, strict=True)]
        return rebuild_struct(array, stored, children)
    if pa.types.is_map(stored):
        parts = [_reshape_array(array.keys, stored.key_type), _reshape_array(array.items, stored.item_type)]
        fields = [stored.key_field, stored.item_field]
        return rebuild_list(array, stored, pa.StructArray.from_arrays(parts, fields=fields))
    if pa.types.is_list(stored):
        return rebuild_list(array, stored, _reshape_array(array.values, stored.value_type))
    return array if array.type == stored else array.view(stored)


def _unsliced(array: pa.Array) -> pa.Array:
    """Return a nested array that is no slice of a larger one: of a slice, the writer would use nulls of other rows."""
    return array.take(pa.array(np.arange(len(array)))) if _is_sliced(array) else array


def _is_sliced(array: pa.Array) -> bool:
    if pa.types.is_struct(array.type):
        parts = [array.field(i) for i in range(array.type.num_fields)]
    elif pa.types.is_map(array.type):
        parts = [array.keys, array.items]
    elif pa.types.is_list(array.type):
        parts = [array.values]
    else:
        return False
    return array.offset != 0 or any(part.offset != 0 or _is_sliced(part) for part in parts)


def _check_writable(array: pa.Array, column: str) -> None:
    """Raise UnsupportedError for timestamps that could not be read back, or not by other readers."""
    kind = array.type
    if pa.types.is_struct(kind):
        for child in array.flatten():
            _check_writable(child, column)
    elif pa.types.is_map(kind):
        _check_writable(array.keys, column)
        _check_writable(array.items, column)
    elif pa.types.is_list(kind):
        _check_writable(array.flatten(), column)
    elif pa.types.is_timestamp(kind):
        _check_times(array.view(pa.int64()), UNIT_NANOS[kind.unit], column)


def _check_times(units: pa.Array, unit_nanos: int, column: str) -> None:
    bounds = pc.min_max(units).as_py()
    if bounds["max"] is None:
        return
    if max(-bounds["min"], bounds["max"]) > TIMESTAMP_MILLIS_MAX * 1_000_000 // unit_nanos:
        raise timestamp_out_of_range(column, "the rows to write")
    if bounds["min"] < 0:
        second = 1_000_000_000 // unit_nanos
        early = units.drop_null().to_numpy()
        if bool(((early < 0) & (early % second != 0)).any()):
            raise UnsupportedError(
                f"the column {column!r} of the rows to write has times before 1970 with a fraction of a second, which "
                "the ORC codec writes so that others cannot read them; use file.format=parquet for such a table",
                column=column,
            )

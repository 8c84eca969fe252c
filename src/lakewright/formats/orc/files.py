"""ORC data files, through Arrow.

ORC has no checksums, so what lakewright writes carries a seal between the stripes and the tail: the CRC-32 of every
other byte of the file. A sealed file is read whole and checked before anything is decoded. Files of others are decoded
as they are; there a missing column reads as null.

Text of CHAR columns is padded with blanks by other writers and comes back without them. TIME has no type in ORC and is
stored as milliseconds in an int. Arrow decodes timestamps as nanoseconds, so files with times outside 1677 to 2262 are
refused on both ways; it writes fractions of seconds before 1970 as negative numbers, which nobody else reads, so those
are refused on the way in.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as pa_orc

from lakewright.errors import UnsupportedError, counted
from lakewright.formats.base import (
    Encoded,
    Input,
    Output,
    StatsCollector,
    WriteOptions,
    WrittenFile,
    check_rows,
    codec_of,
    corrupt,
    decoding,
    empty_batch,
    read_at,
    scalar_types,
)
from lakewright.formats.conform import conform, rebuild_list, rebuild_struct
from lakewright.formats.orc.tail import MAGIC, TAIL_BYTES_MAX, Postscript, read_postscript, timestamp_bounds
from lakewright.formats.seal import SEAL_BYTES, HoldingSink, make_seal, sealed_checksum
from lakewright.spec.arrow import to_arrow_schema
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
_END_BYTES = 256  # a postscript is at most 255 bytes
_DICTIONARY_THRESHOLD = 0.8  # of distinct values below which text gets a dictionary, as Java has it
_MILLIS_FAR = 9_223_372_036_854 - 1000  # timestamp[ns] ends here, a second kept clear for roundings


class OrcEncoder:
    """Prepares rows for a file. Stripes follow from all rows before them, so that they are made when rows are appended.

    Stripes are not put together from pieces as row groups are: the bounds of a whole file stand in its tail again, in
    a form of their own for each type.
    """

    def __init__(self, fields: Sequence[DataField], options: WriteOptions) -> None:
        codec_of(_CODECS, options.compression, "ORC")
        self.schema = to_arrow_schema(fields)
        self._fields = tuple(fields)
        self._modes = options.stats
        self._stored = pa.schema([pa.field(f.name, _stored_type(f.type), nullable=f.nullable) for f in self.schema])

    def encode(self, table: pa.Table) -> Encoded:
        """Return rows in the schema of the file."""
        check_rows(table, self.schema)
        for field, column in zip(self.schema, table.columns, strict=True):
            for chunk in column.chunks:
                _check_writable(chunk, field.name)
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
        at = len(held) - read_postscript(held[-_END_BYTES:]).tail_bytes
        self._output.write(held[:at] + make_seal(self._sink.checksum) + held[at:])
        self._output.close()
        return WrittenFile(start + len(held) + SEAL_BYTES, self._stats.row_count, self._stats.result())

    def discard(self) -> None:
        """Give the file up."""
        self._sink.hold()
        self._output.discard()


class OrcFileReader:
    """One ORC file being read."""

    def __init__(self, source: Input, *, path: str, size: int, fields: Sequence[DataField]) -> None:
        self._source = source
        self._path = path
        self._fields = tuple(fields)
        self._schema = to_arrow_schema(fields)
        with decoding(path):
            tail, postscript = self._tail(size)
            self._sealed, data = self._check_seal(size, postscript)
            self._file = pa_orc.ORCFile(pa.PythonFile(source, mode="r") if data is None else pa.BufferReader(data))
            found = self._file.schema
            self._check_columns(found)
            self._check_times(tail, postscript)

    @property
    def row_count(self) -> int:
        """The number of rows in the file."""
        return int(self._file.nrows)

    def close(self) -> None:
        """Let the file go."""
        self._source.close()

    def batches(
        self,
        *,
        skip: Predicate | None = None,  # noqa: ARG002 - Arrow does not show the statistics of stripes
        batch_rows: int | None = None,
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches in file order, each with the position of its first row."""
        position = 0
        for stripe in range(self._file.nstripes):
            with decoding(self._path):
                batch = self._decode(stripe)
            step = batch_rows or max(1, batch.num_rows)
            for start in range(0, batch.num_rows, step):
                part = batch.slice(start, step)
                yield position, part
                position += part.num_rows
        if position != self.row_count:
            raise corrupt(self._path, f"{counted(position, 'row')} where its footer announces {self.row_count}")

    def _tail(self, size: int) -> tuple[bytes, Postscript]:
        end = self._read_at(max(0, size - _END_BYTES), min(size, _END_BYTES))
        postscript = read_postscript(end)
        length = postscript.tail_bytes
        if length + len(MAGIC) > size or length > TAIL_BYTES_MAX:
            raise corrupt(self._path, "its tail is longer than it can be")
        return self._read_at(size - length, length), postscript

    def _check_seal(self, size: int, postscript: Postscript) -> tuple[bool, pa.Buffer | None]:
        """Look for a seal; a sealed file is returned whole, checked."""
        at = size - postscript.tail_bytes - SEAL_BYTES
        if at < len(MAGIC):
            return False, None
        checksum = sealed_checksum(self._read_at(at, SEAL_BYTES))
        if checksum is None:
            return False, None
        data = self._read_at(0, size)
        rest = memoryview(data)
        if zlib.crc32(rest[at + SEAL_BYTES :], zlib.crc32(rest[:at])) != checksum:
            raise corrupt(self._path, "its checksum does not match")
        return True, pa.py_buffer(data)

    def _read_at(self, offset: int, length: int) -> bytes:
        return read_at(self._source, offset, length, self._path)

    def _check_columns(self, found: pa.Schema) -> None:
        wanted = [field.name for field in self._fields if field.name in found.names]
        for field in self._fields:
            if field.name not in found.names:
                self._missing(field.name)
        # Arrow takes a dot for a path, so columns with one are found by reading all.
        self._columns = None if any("." in name for name in wanted) else wanted or found.names[:1]

    def _missing(self, name: str) -> None:
        if self._sealed:
            raise corrupt(self._path, f"it lacks the column {name!r} that its schema announces")

    def _check_times(self, tail: bytes, postscript: Postscript) -> None:
        if not any(_has_timestamp(field.type) for field in self._fields):
            return
        bounds = timestamp_bounds(tail, postscript)
        for field in self._fields:
            low, high = bounds.get(field.name, (0, 0))
            if _has_timestamp(field.type) and max(-low, high) > _MILLIS_FAR:
                raise _far(field.name, f"the file {self._path}", self._path)

    def _decode(self, stripe: int) -> pa.RecordBatch:
        batch = self._file.read_stripe(stripe, columns=self._columns)
        columns = []
        for field, target in zip(self._fields, self._schema, strict=True):
            index = batch.schema.get_field_index(field.name)
            if index < 0:
                columns.append(pa.nulls(batch.num_rows, target.type))
                continue
            array = conform(batch.column(index), target.type, self._missing)
            columns.append(_stripped(array, field.type) if _has_char(field.type) else array)
        if not columns:
            return empty_batch(self._schema, batch.num_rows)
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _far(column: str, where: str, path: str | None = None) -> UnsupportedError:
    return UnsupportedError(
        f"the column {column!r} of {where} has timestamps before 1677 or after 2262, which the ORC codec cannot hold; "
        "use file.format=parquet for such a table, or leave the column out",
        column=column,
        path=path,
    )


def _has_timestamp(dtype: DataType) -> bool:
    return any(leaf.root.startswith("TIMESTAMP") for leaf in scalar_types(dtype))


def _has_char(dtype: DataType) -> bool:
    return any(leaf.root == "CHAR" for leaf in scalar_types(dtype))


def _stripped(array: pa.Array, dtype: DataType) -> pa.Array:
    """Return an array without the blanks that pad CHAR values."""
    match dtype:
        case AtomicType():
            return pc.utf8_rtrim(array, " ") if dtype.root == "CHAR" else array
        case RowType():
            children = [_stripped(array.field(i), field.type) for i, field in enumerate(dtype.fields)]
            return rebuild_struct(array, array.type, children)
        case MapType() | MultisetType():
            parts = [_stripped(array.keys, dtype.key), _stripped(array.items, dtype.value)]
            fields = [array.type.key_field, array.type.item_field]
            return rebuild_list(array, array.type, pa.StructArray.from_arrays(parts, fields=fields))
        case ArrayType():
            return rebuild_list(array, array.type, _stripped(array.values, dtype.element))
        case _:
            return array


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
    """Return rows as Arrow's ORC writer takes them without harm."""
    columns = [
        pa.chunked_array([_whole(_reshape_array(chunk, field.type)) for chunk in column.chunks], field.type)
        for column, field in zip(table.columns, stored, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=stored)


def _reshape_array(array: pa.Array, stored: pa.DataType) -> pa.Array:
    """Return an array in its stored type, with every field of a null ROW null.

    The writer takes a value below a null ROW for one of the next rows, unless that ROW is itself in one with nulls.
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


def _whole(array: pa.Array) -> pa.Array:
    """Return a nested array that is no slice of a larger one: the writer would take the nulls of other rows."""
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
    """Refuse timestamps that would not come back, or that others would not read."""
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
    if max(-bounds["min"], bounds["max"]) > _MILLIS_FAR * 1_000_000 // unit_nanos:
        raise _far(column, "the rows to write")
    if bounds["min"] < 0:
        second = 1_000_000_000 // unit_nanos
        early = units.drop_null().to_numpy()
        if bool(((early < 0) & (early % second != 0)).any()):
            raise UnsupportedError(
                f"the column {column!r} of the rows to write has times before 1970 with a fraction of a second, which "
                "the ORC codec writes so that others cannot read them; use file.format=parquet for such a table",
                column=column,
            )

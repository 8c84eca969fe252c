"""ORC data files: reader and writer."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as pa_orc

from lakewright.errors import UnsupportedError, pluralize
from lakewright.formats.arrow_conform import conform, rebuild_list, rebuild_struct
from lakewright.formats.file_format import (
    SEAL_BYTES,
    Encoded,
    HoldingSink,
    Input,
    OutputFile,
    StatsCollector,
    WriteOptions,
    WrittenFile,
    check_rows,
    codec_of,
    corrupt_file_error,
    empty_batch,
    make_checksum_trailer,
    overlap,
    read_at,
    read_checksum_trailer,
    scalar_types,
    translate_decode_errors,
)
from lakewright.formats.orc_footer import (
    END_BYTES,
    MAGIC,
    TAIL_BYTES_MAX,
    TIMESTAMP_MILLIS_MAX,
    Postscript,
    read_postscript,
    stripe_rows,
    timestamp_bounds,
    timestamp_out_of_range,
)
from lakewright.formats.shared_maps import SharedMap, read_shared_map, schema_with_metadata
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.option_values import MIB
from lakewright.spec.predicate import Predicate
from lakewright.spec.types import UNIT_NANOS, ArrayType, AtomicType, DataField, DataType, MapType, MultisetType, RowType

# ---- Reading ---------------------------------------------------------------------------------------------------------
# A sealed file is read whole and its checksum is verified before anything is decoded. Files of other writers have no
# checksum, and a missing column in them reads as null. Other writers pad the text of CHAR columns with blanks, which
# are removed. Arrow decodes timestamps as nanoseconds, so a file with timestamps outside 1677 to 2262 is refused.


class OrcFileReader:
    """One ORC file being read."""

    def __init__(self, source: Input, *, path: str, size: int, fields: Sequence[DataField]) -> None:
        self._source = source
        self._path = path
        self._fields = tuple(fields)
        self._schema = to_arrow_schema(fields)
        with translate_decode_errors(path):
            tail, postscript = self._tail(size)
            self._sealed, data = self._check_seal(size, postscript)
            self._file = pa_orc.ORCFile(pa.PythonFile(source, mode="r") if data is None else pa.BufferReader(data))
            self._stripe_rows = stripe_rows(tail, postscript)
            if len(self._stripe_rows) != self._file.nstripes:
                raise corrupt_file_error(path, "its footer lists another number of stripes")
            self._check_columns(self._file.schema)
            self._check_times(tail, postscript)

    @property
    def row_count(self) -> int:
        """The number of rows in the file."""
        return int(self._file.nrows)

    @property
    def stored_columns(self) -> tuple[str, ...]:
        """The names of all columns that the file holds, in its order, whichever are read."""
        return tuple(self._file.schema.names)

    def starts(self, skip: Predicate | None = None) -> tuple[int, ...]:  # noqa: ARG002 - as for `batches`
        """Return the positions of the first rows of stripes."""
        return tuple(accumulate(self._stripe_rows[:-1], initial=0)) if self._stripe_rows else ()

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def batches(
        self,
        *,
        skip: Predicate | None = None,  # noqa: ARG002 - Arrow does not show the statistics of stripes
        batch_rows: int | None = None,
        within: range | None = None,
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches in file order, each with the position of its first row."""
        position = 0
        for stripe, rows in enumerate(self._stripe_rows):
            if not overlap(position, rows, within):
                position += rows
                continue
            with translate_decode_errors(self._path):
                batch = self._decode(stripe)
            if batch.num_rows != rows:
                raise corrupt_file_error(
                    self._path, f"a stripe of {pluralize(batch.num_rows, 'row')} that should have {rows}"
                )
            step = batch_rows or max(1, rows)
            for start in range(0, rows, step):
                part = batch.slice(start, step)
                yield position, part
                position += part.num_rows
        if position != self.row_count:
            raise corrupt_file_error(
                self._path, f"{pluralize(position, 'row')} where its footer announces {self.row_count}"
            )

    def _tail(self, size: int) -> tuple[bytes, Postscript]:
        end = self._read_at(max(0, size - END_BYTES), min(size, END_BYTES))
        postscript = read_postscript(end)
        length = postscript.tail_bytes
        if length + len(MAGIC) > size or length > TAIL_BYTES_MAX:
            raise corrupt_file_error(self._path, "its tail is longer than it can be")
        return self._read_at(size - length, length), postscript

    def _check_seal(self, size: int, postscript: Postscript) -> tuple[bool, pa.Buffer | None]:
        """Return whether the file has a checksum trailer, and then its bytes, whose checksum is verified."""
        at = size - postscript.tail_bytes - SEAL_BYTES
        if at < len(MAGIC):
            return False, None
        checksum = read_checksum_trailer(self._read_at(at, SEAL_BYTES))
        if checksum is None:
            return False, None
        data = self._read_at(0, size)
        view = memoryview(data)
        if zlib.crc32(view[at + SEAL_BYTES :], zlib.crc32(view[:at])) != checksum:
            raise corrupt_file_error(self._path, "its checksum does not match")
        return True, pa.py_buffer(data)

    def _read_at(self, offset: int, length: int) -> bytes:
        return read_at(self._source, offset, length, self._path)

    def _check_columns(self, stored: pa.Schema) -> None:
        names = [field.name for field in self._fields if field.name in stored.names]
        stored = schema_with_metadata(stored, self._file.metadata or {})
        self._shared_maps: dict[str, SharedMap] = {}
        for field in self._fields:
            if field.name not in stored.names:
                self._missing(field.name)
                continue
            shared = read_shared_map(field, stored.field(field.name), self._path)
            if shared is not None:
                self._shared_maps[field.name] = shared
        # Arrow reads a dot as a path into a ROW: with such a name among the columns, all are read.
        self._columns = None if any("." in name for name in names) else names or stored.names[:1]

    def _missing(self, name: str) -> None:
        if self._sealed:
            raise corrupt_file_error(self._path, f"it lacks the column {name!r} that its schema announces")

    def _check_times(self, tail: bytes, postscript: Postscript) -> None:
        if not any(_has_timestamp(field.type) for field in self._fields):
            return
        bounds = timestamp_bounds(tail, postscript)
        for field in self._fields:
            low, high = bounds.get(field.name, (0, 0))
            if _has_timestamp(field.type) and max(-low, high) > TIMESTAMP_MILLIS_MAX:
                raise timestamp_out_of_range(field.name, f"the file {self._path}", self._path)

    def _decode(self, stripe: int) -> pa.RecordBatch:
        batch = self._file.read_stripe(stripe, columns=self._columns)
        columns = []
        for field, target in zip(self._fields, self._schema, strict=True):
            index = batch.schema.get_field_index(field.name)
            if index < 0:
                columns.append(pa.nulls(batch.num_rows, target.type))
                continue
            to_canonical = self._shared_maps[field.name].to_maps if field.name in self._shared_maps else conform
            array = to_canonical(batch.column(index), target.type, self._missing)
            columns.append(_strip_padding(array, field.type) if _has_char(field.type) else array)
        if not columns:
            return empty_batch(self._schema, batch.num_rows)
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _has_timestamp(dtype: DataType) -> bool:
    return any(leaf.root.startswith("TIMESTAMP") for leaf in scalar_types(dtype))


def _has_char(dtype: DataType) -> bool:
    return any(leaf.root == "CHAR" for leaf in scalar_types(dtype))


def _strip_padding(array: pa.Array, dtype: DataType) -> pa.Array:
    """Return an array without the blanks that pad CHAR values."""
    match dtype:
        case AtomicType():
            return pc.utf8_rtrim(array, " ") if dtype.root == "CHAR" else array
        case RowType():
            children = [_strip_padding(array.field(i), field.type) for i, field in enumerate(dtype.fields)]
            return rebuild_struct(array, array.type, children)
        case MapType() | MultisetType():
            parts = [_strip_padding(array.keys, dtype.key), _strip_padding(array.items, dtype.value)]
            fields = [array.type.key_field, array.type.item_field]
            return rebuild_list(array, array.type, pa.StructArray.from_arrays(parts, fields=fields))
        case ArrayType():
            return rebuild_list(array, array.type, _strip_padding(array.values, dtype.element))
        case _:
            return array


# ---- Writing ---------------------------------------------------------------------------------------------------------
# ORC has no checksums, so each file has a checksum trailer between the stripes and the tail: the CRC-32 of every other
# byte of the file. TIME has no type in ORC and is stored as milliseconds in an int.
#
# Two kinds of timestamps are refused: those outside 1677 to 2262, because Arrow decodes timestamps as nanoseconds,
# and fractions of seconds before 1970, because Arrow writes them as negative numbers, which no other reader
# understands.

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

    def __init__(self, output: OutputFile, fields: Sequence[DataField], options: WriteOptions) -> None:
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
        """Finish the file: what is left of the last stripe, the checksum trailer, the tail."""
        if not self._opened:
            self.write(self._encoder.schema.empty_table())
        start = self._sink.tell()
        self._sink.hold()
        self._writer.close()
        held = self._sink.take_held()
        at = len(held) - read_postscript(held[-END_BYTES:]).tail_bytes
        self._output.write(held[:at] + make_checksum_trailer(self._sink.checksum) + held[at:])
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
        pa.chunked_array([_copy_slice(_reshape_array(chunk, field.type)) for chunk in column.chunks], field.type)
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


def _copy_slice(array: pa.Array) -> pa.Array:
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

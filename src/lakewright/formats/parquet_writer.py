"""Rows to parquet data files; nanosecond timestamps as INT96."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakewright.formats.arrow_conform import fill_required, rebuild_list, rebuild_struct
from lakewright.formats.file_format import (
    SEAL_BYTES,
    Encoded,
    OutputFile,
    StatsCollector,
    WriteOptions,
    WrittenFile,
    check_rows,
    codec_of,
    make_checksum_trailer,
    supported_options,
)
from lakewright.formats.parquet_columns import (
    dictionary_columns,
    is_nanoseconds,
    leaf_count,
    nanosecond_leaves,
    text_bound,
)
from lakewright.formats.parquet_footer import (
    END,
    I32,
    MAGIC,
    Field,
    JoinedTail,
    Struct,
    Tail,
    read_struct,
    struct_of,
    structs_of,
    write_struct,
)
from lakewright.formats.variant_shredding import shred_table, shredded_fields
from lakewright.spec.arrow_types import to_arrow_schema, to_arrow_type, with_field_ids
from lakewright.spec.column_stats import COUNTS, FULL, NONE, StatsMode, column_stats
from lakewright.spec.types import DataField, Value

# ---- INT96 timestamps ------------------------------------------------------------------------------------------------
# Arrow writes INT96 for all timestamp columns of a file or for none. So these columns are given to its writer as
# binaries of 12 bytes, the images, and the footer is rewritten when the file is finished. That is enough, because
# plain pages and dictionaries of FIXED_LEN_BYTE_ARRAY(12) and of INT96 are the same bytes, and no page header names a
# type.
#
# An image is eight bytes with the nanoseconds of the day, never negative, and four bytes with the Julian day, both
# little endian. Readers do not agree on an order of images, so the columns have null counts and no bounds.

_IMAGE = np.dtype([("nanos", "<i8"), ("day", "<i4")])
_IMAGE_TYPE = pa.binary(_IMAGE.itemsize)
_DAY_NANOS = 86_400 * 10**9
_JULIAN_1970 = 2_440_588

# Numbers of the fields of parquet's structs that are read or changed here.
_SCHEMA, _ROW_GROUPS = 2, 4  # of FileMetaData
_TYPE, _TYPE_LENGTH, _CHILDREN = 1, 2, 5  # of SchemaElement
_COLUMNS = 1  # of RowGroup
_METADATA, _COLUMN_INDEX = 3, (6, 7)  # of ColumnChunk; the column index is an offset and a length
_STATISTICS, _BLOOM_FILTER = 12, (14, 15)  # of ColumnMetaData, whose field 1 is the type again
_NULL_COUNT = 3  # of Statistics
_INT96, _FIXED = Field(I32, 3), Field(I32, 7)


def without_bounds(fields: Sequence[DataField], modes: Sequence[StatsMode]) -> tuple[StatsMode, ...]:
    """Return the statistics modes of columns, with null counts only for those that are stored as INT96."""
    return tuple(
        COUNTS if mode != NONE and is_nanoseconds(to_arrow_type(field.type)) else mode
        for field, mode in zip(fields, modes, strict=True)
    )


def image_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema with binaries in place of nanosecond timestamps; names, ids and nullability stay."""
    return pa.schema([_image_field(field) for field in schema], schema.metadata)


def image_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table in the schema that `image_schema` gave: with images in place of nanosecond timestamps.

    Vectors become lists, because older releases of Arrow cannot read files whose vectors are null.
    """
    columns = [
        column
        if column.type == field.type
        else pa.chunked_array([_images(chunk, field.type) for chunk in column.chunks], field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def int96_footer(footer: bytes, leaves: Collection[int]) -> bytes:
    """Return a footer with the type INT96 for these leaves, which were binaries of twelve bytes.

    Bounds, column indexes and bloom filters of the leaves are removed, because they compare images as bytes.
    """
    metadata, end = read_struct(footer)
    if end != len(footer):
        raise ValueError(f"a footer of {len(footer)} bytes ends at byte {end}")
    elements = [element for element in structs_of(metadata[_SCHEMA]) if _CHILDREN not in element]
    for leaf in leaves:
        element = elements[leaf]
        if element[_TYPE] != _FIXED or element[_TYPE_LENGTH].value != _IMAGE.itemsize:
            raise ValueError(f"leaf {leaf} of the footer holds no images: {element}")
        element[_TYPE] = _INT96
        _drop(element, _TYPE_LENGTH)
    for group in structs_of(metadata[_ROW_GROUPS]):
        chunks = structs_of(group[_COLUMNS])
        for leaf in leaves:
            _drop(chunks[leaf], *_COLUMN_INDEX)
            _retype(struct_of(chunks[leaf][_METADATA]))
    return write_struct(metadata)


def _retype(chunk: Struct) -> None:
    chunk[_TYPE] = _INT96
    _drop(chunk, *_BLOOM_FILTER)
    if _STATISTICS in chunk:
        statistics = struct_of(chunk[_STATISTICS])
        _drop(statistics, *(number for number in tuple(statistics) if number != _NULL_COUNT))


def _drop(fields: Struct, *numbers: int) -> None:
    for number in numbers:
        fields.pop(number, None)


def _image_field(field: pa.Field) -> pa.Field:
    return field.with_type(_image_type(field.type))


def _image_type(arrow: pa.DataType) -> pa.DataType:
    kinds = pa.types
    if kinds.is_struct(arrow):
        return pa.struct([_image_field(field) for field in arrow])
    if kinds.is_map(arrow):
        return pa.map_(_image_field(arrow.key_field), _image_field(arrow.item_field))
    if kinds.is_list(arrow):
        return pa.list_(_image_field(arrow.value_field))
    return _IMAGE_TYPE if is_nanoseconds(arrow) else arrow


def _images(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return an array with images in place of nanosecond timestamps at any depth; the rest is shared, not copied."""
    kinds = pa.types
    if array.type == target:
        return array
    if kinds.is_struct(target):
        children = [_images(array.field(number), field.type) for number, field in enumerate(target)]
        return rebuild_struct(array, target, children)
    if kinds.is_map(target):
        parts = [_images(array.keys, target.key_type), _images(array.items, target.item_type)]
        entries = pa.StructArray.from_arrays(parts, fields=[target.key_field, target.item_field])
        return rebuild_list(array, target, entries)
    if kinds.is_fixed_size_list(array.type):
        return array.cast(target)
    if kinds.is_list(target):
        return rebuild_list(array, target, _images(array.values, target.value_type))
    return _leaf_images(array)


def _leaf_images(array: pa.Array) -> pa.Array:
    if not len(array):  # it may have no buffers
        return pa.array([], _IMAGE_TYPE)
    valid, nanos = array.buffers()
    whole, bits = divmod(array.offset, 8)  # the bitmap of nulls is shared, so the images start at the bit it starts at
    values = np.frombuffer(nanos, "<i8", len(array), array.offset * 8)
    images = np.zeros(bits + len(array), _IMAGE)
    days = np.floor_divide(values, _DAY_NANOS)
    images["nanos"][bits:] = values - days * _DAY_NANOS  # exact: what overflows in the product overflows back
    images["day"][bits:] = days + _JULIAN_1970
    shared = None if valid is None else valid.slice(whole)
    return pa.Array.from_buffers(_IMAGE_TYPE, len(array), [shared, pa.py_buffer(images)], array.null_count, bits)


# ---- Writing ---------------------------------------------------------------------------------------------------------
# Written as Java writes them where Arrow can: field ids on every level, integers for small decimals, data pages of
# version 1. Every page has a checksum, and a checksum trailer before the footer holds the checksum of the footer, so
# that a reader can check every byte that decides a value.

_CODECS = {"zstd": "ZSTD", "snappy": "SNAPPY", "gzip": "GZIP", "lz4": "LZ4", "none": "NONE", "uncompressed": "NONE"}
_PAGE_ROWS_MAX = 1 << 20  # the size of a page is limited by its bytes, not by its rows
_GROUP_ROWS_MAX = (
    1 << 17
)  # readers skip whole row groups, so small ones help filters; still smaller ones make files larger
_WRITER_NEWER = supported_options(
    pq.ParquetWriter.__init__, {"write_time_adjusted_to_utc": True, "max_rows_per_page": _PAGE_ROWS_MAX}
)


class ParquetEncoder:
    """Encodes rows as parquet files in memory, whose row groups a writer puts into one file.

    The first rows decide which columns get a dictionary in all rows.
    """

    def __init__(self, fields: Sequence[DataField], options: WriteOptions) -> None:
        self.schema = to_arrow_schema(fields)
        self._stored_fields = shredded_fields(fields, options.shredding)
        stored = with_field_ids(self._stored_fields)
        self.int96 = nanosecond_leaves(stored)
        self._codec = codec_of(_CODECS, options.compression, "parquet")
        self._fields = tuple(fields)
        self._file_schema = image_schema(stored) if self.int96 else stored
        self._converts = self._file_schema.types != to_arrow_schema(self._stored_fields).types
        self._options = options
        self._bounds = EncoderBounds(fields, stored.types, options.stats)
        self._modes = without_bounds(fields, options.stats) if self.int96 else options.stats
        self._dictionary: list[str] | bool = False
        self._undecided = options.dictionary

    def piece_rows(self, table: pa.Table) -> int:
        """Return how many of the rows make a row group, if all groups get as many."""
        rows, size = int(table.num_rows), int(table.nbytes)
        groups = max(1, -(-rows // _GROUP_ROWS_MAX), -(-size // self._options.row_group_bytes))
        return max(1, -(-rows // groups))

    def check(self, table: pa.Table) -> None:
        """Raise an error for rows that a file cannot hold."""
        check_rows(table, self.schema)

    def encode(self, table: pa.Table) -> Encoded:
        """Return rows as one row group, or as more of equal size where they are too many for one."""
        self.check(table)
        group_rows = self.piece_rows(table)
        groups = max(1, -(-table.num_rows // group_rows))
        stored = shred_table(table, self._fields, self._stored_fields)
        stored = pa.Table.from_arrays([fill_required(column) for column in stored.columns], schema=stored.schema)
        if self._undecided:
            self._dictionary, self._undecided = dictionary_columns(stored.slice(0, group_rows)), False
        stats = StatsCollector(self._fields, self._modes)
        stats.add(table, bounds_later=self._bounds.columns)
        stored = image_table(stored, self._file_schema) if self._converts else stored
        pieces = []
        for number in range(groups):
            sink = pa.BufferOutputStream()  # one per row group: small buffers are used again
            writer = self._open(sink)
            if stored.num_rows:
                writer.write_table(stored.slice(number * group_rows, group_rows), row_group_size=group_rows)
            data_end = sink.tell()
            writer.close()
            self._bounds.add(writer.writer.metadata, table.slice(number * group_rows, group_rows), stats)
            pieces.append(EncodedParquet(sink.getvalue(), data_end, self.int96))
        return Encoded(pieces, sum(piece.data.size for piece in pieces), stats)

    def _open(self, sink: pa.NativeFile) -> pq.ParquetWriter:
        options = self._options
        return pq.ParquetWriter(
            sink,
            self._file_schema,
            compression=self._codec,
            compression_level=options.zstd_level if self._codec == "ZSTD" else None,
            use_dictionary=self._dictionary,
            data_page_size=options.page_bytes,
            write_page_checksum=True,
            write_page_index=True,
            store_decimal_as_integer=True,
            store_schema=False,
            **_WRITER_NEWER,
        )


@dataclass(frozen=True, slots=True)
class EncodedParquet:
    """A parquet file in memory: the magic, pages up to `data_end`, page indexes, the footer."""

    data: pa.Buffer
    data_end: int
    int96: frozenset[int]  # the leaves that become INT96 in the footer

    @property
    def tail(self) -> Tail:
        """The bytes behind the pages."""
        end = self.data.size - END.size
        at = end - END.unpack(self.data[end:])[0]
        return Tail(self.data_end, bytes(self.data[self.data_end : at]), bytes(self.data[at:end]))


class ParquetFileWriter:
    """One parquet file being written, row groups after row groups."""

    def __init__(self, output: OutputFile, fields: Sequence[DataField], options: WriteOptions) -> None:
        codec_of(_CODECS, options.compression, "parquet")
        self._output = output
        self._fields = tuple(fields)
        self._options = options
        self._stats = StatsCollector(fields, options.stats)
        self._int96: frozenset[int] = frozenset()
        self._encoder: ParquetEncoder | None = None
        self._first: Tail | None = None  # the tail of a file with one row group is that of its piece
        self._joined: JoinedTail | None = None
        self._position = 0

    def write(self, table: pa.Table) -> None:
        """Append rows; they become one row group, or more of equal size where they are too many for one."""
        if self._encoder is None:
            self._encoder = ParquetEncoder(self._fields, self._options)
        check_rows(table, self._encoder.schema)
        if table.num_rows:
            self.append(self._encoder.encode(table))

    def append(self, piece: Encoded) -> None:
        """Append rows that are encoded already."""
        for group in cast("list[EncodedParquet]", piece.content):
            start = 0
            if self._first is None:
                self._first = group.tail
                self._int96 = group.int96
            else:
                start = len(MAGIC)
                self._joined = self._joined or JoinedTail(self._first)
                self._joined.add(group.tail, self._position - start)
            self._output.write(cast("bytes", memoryview(group.data)[start : group.data_end]))
            self._position += group.data_end - start
        self._stats.include(piece.stats)

    def tell(self) -> int:
        """Return how many bytes were written so far."""
        return self._position

    def close(self) -> WrittenFile:
        """Finish the file: page indexes, the checksum trailer, the footer."""
        while self._first is None:
            encoder = ParquetEncoder(self._fields, self._options)
            self.append(encoder.encode(encoder.schema.empty_table()))
        indexes, footer = self._first.indexes, self._first.footer
        if self._joined is not None:
            indexes, footer = self._joined.finish(self._position)
        if self._int96:
            footer = int96_footer(footer, self._int96)
        end = footer + END.pack(len(footer), MAGIC)
        self._output.write(indexes + make_checksum_trailer(zlib.crc32(end)) + end)
        self._output.close()
        size = self._position + len(indexes) + SEAL_BYTES + len(end)
        return WrittenFile(size, self._stats.row_count, self._stats.result())

    def discard(self) -> None:
        """Abandon the file."""
        self._output.discard()


class EncoderBounds:
    """Takes the bounds of columns from Arrow's encoder, which has compared all values already.

    Not those of floating-point numbers, because the encoder passes over NaN, nor those of types that it stores as
    something else.
    """

    def __init__(self, fields: Sequence[DataField], types: Sequence[pa.DataType], modes: Sequence[StatsMode]) -> None:
        self._fields = tuple(fields)
        self._leaves: dict[int, int] = {}  # the number of the leaf of each column that needs bounds
        leaf = 0
        for index, (arrow, mode) in enumerate(zip(types, modes, strict=True)):
            if _is_stored_as_it_is(arrow) and mode not in {NONE, COUNTS}:
                self._leaves[index] = leaf
            leaf += leaf_count(arrow)

    @property
    def columns(self) -> Collection[int]:
        """The columns whose bounds the encoder finds."""
        return self._leaves.keys()

    def add(self, metadata: pq.FileMetaData, rows: pa.Table, stats: StatsCollector) -> None:
        """Add the bounds in the metadata of encoded rows to their statistics."""
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            for index, leaf in self._leaves.items():
                stored = group.column(leaf).statistics
                if stored is not None and stored.has_min_max:
                    stats.add_bounds(index, *_bounds(stored))
                elif rows.column(index).null_count < rows.num_rows:  # it leaves out the bounds of long values
                    own = column_stats(rows.column(index), self._fields[index].type, FULL)
                    stats.add_bounds(index, own.min, own.max)


def _is_stored_as_it_is(arrow: pa.DataType) -> bool:
    is_text = pa.types.is_string(arrow) or pa.types.is_binary(arrow)
    return bool(is_text or pa.types.is_signed_integer(arrow) or pa.types.is_date32(arrow))


def _bounds(stats: pq.Statistics) -> tuple[Value, Value]:
    if stats.logical_type.type != "STRING":
        return stats.min_raw, stats.max_raw
    low, high = text_bound(stats.min_raw), text_bound(stats.max_raw)
    return (None, None) if low is None or high is None else (low, high)

"""Rows in, parquet data files out.

Written as Java writes them where Arrow can: field ids on every level, integers for small decimals, data pages of
version 1. Every page has a checksum, and a seal before the footer holds the checksum of the footer, so that a reader
can check every byte that decides a value.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq

from lakewright.formats.base import (
    Encoded,
    Output,
    StatsCollector,
    WriteOptions,
    WrittenFile,
    check_rows,
    codec_of,
    supported_options,
)
from lakewright.formats.parquet.int96 import image_schema, image_table, int96_footer, without_bounds
from lakewright.formats.parquet.leaves import dictionary_columns, leaf_count, nanosecond_leaves
from lakewright.formats.parquet.stats import text_bound
from lakewright.formats.parquet.tail import END, MAGIC, JoinedTail, Tail
from lakewright.formats.seal import SEAL_BYTES, make_seal
from lakewright.spec.arrow import with_field_ids
from lakewright.spec.stats import COUNTS, FULL, NONE, StatsMode, column_stats
from lakewright.spec.types import DataField, Value

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
        self.schema = with_field_ids(fields)
        self.int96 = nanosecond_leaves(self.schema)
        self._codec = codec_of(_CODECS, options.compression, "parquet")
        self._fields = tuple(fields)
        self._file_schema = image_schema(self.schema) if self.int96 else self.schema
        self._options = options
        types = self.schema.types
        self._bounds = EncoderBounds(fields, types, options.stats)
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
        if self._undecided:
            self._dictionary, self._undecided = dictionary_columns(table.slice(0, group_rows)), False
        stats = StatsCollector(self._fields, self._modes)
        stats.add(table, bounds_later=self._bounds.columns)
        stored = image_table(table, self._file_schema) if self.int96 else table
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

    def __init__(self, output: Output, fields: Sequence[DataField], options: WriteOptions) -> None:
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
        """Finish the file: page indexes, the seal, the footer."""
        while self._first is None:
            encoder = ParquetEncoder(self._fields, self._options)
            self.append(encoder.encode(encoder.schema.empty_table()))
        indexes, footer = self._first.indexes, self._first.footer
        if self._joined is not None:
            indexes, footer = self._joined.finish(self._position)
        if self._int96:
            footer = int96_footer(footer, self._int96)
        end = footer + END.pack(len(footer), MAGIC)
        self._output.write(indexes + make_seal(zlib.crc32(end)) + end)
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

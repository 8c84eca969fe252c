"""Parquet data files.

Written as Java writes them where Arrow can: field ids on every level, integers for small decimals, data pages of
version 1. Every page has a checksum, and a seal before the footer covers the footer itself, so every byte that decides
a value is checked: pages by the decoder, the footer by us. A sealed file must hold every column that is asked for; in a
file of somebody else a missing column reads as null.
"""

from __future__ import annotations

import inspect
import math
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

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
from lakewright.formats.conform import Missing, conform_column
from lakewright.formats.parquet.int96 import image_schema, image_table, int96_footer, int96_leaves, without_bounds
from lakewright.formats.parquet.pages import CheckedSource, Chunk, check_pages
from lakewright.formats.parquet.pieces import JoinedTail, Tail
from lakewright.formats.parquet.stats import TextBounds, group_stats
from lakewright.formats.seal import SEAL_BYTES, make_seal, sealed_checksum
from lakewright.spec.arrow import to_arrow_schema, with_field_ids
from lakewright.spec.predicate.predicate import Predicate, may_match
from lakewright.spec.types import ArrayType, AtomicType, DataField, DataType, MapType, MultisetType, RowType
from lakewright.spec.units import MIB

_MAGIC = b"PAR1"
_END = struct.Struct("<I4s")  # the length of the footer and the magic: the last eight bytes
_CODECS = {"zstd": "ZSTD", "snappy": "SNAPPY", "gzip": "GZIP", "lz4": "LZ4", "none": "NONE", "uncompressed": "NONE"}
_PAGE_ROWS_MAX = 1 << 20  # pages end by their bytes, not by their rows
_GROUP_ROWS_MAX = 1 << 17  # what a filter cannot skip is decoded whole; smaller groups cost bytes and time elsewhere


def _known(function: Callable[..., object], options: dict[str, object]) -> dict[str, object]:
    """Return the options that the Arrow at hand knows; older ones do what these ask for, or do without."""
    names = inspect.signature(function).parameters
    return {name: value for name, value in options.items() if name in names}


_WRITER_NEWER = _known(
    pq.ParquetWriter.__init__, {"write_time_adjusted_to_utc": True, "max_rows_per_page": _PAGE_ROWS_MAX}
)
_READER_NEWER = _known(pq.ParquetFile.__init__, {"arrow_extensions_enabled": False})
_SAMPLE_ROWS = 2048
_SAMPLE_STRETCHES = 16
_DICTIONARY_BYTES = MIB // 2  # the encoder gives dictionaries up that become larger than a mebibyte
_TAIL_BYTES = 64 * 1024  # the footer of most files comes with the first read
_WHOLE_BYTES = MIB  # smaller files are read in one go: opening costs more than bytes
_DECODED_BYTES = 64 * MIB  # row groups are decoded together up to here; a bigger one is streamed
_DECODED_ROWS = 1 << 20  # and up to here, because repeated values take few bytes in a file
_FAR_SECONDS = 9_223_372_036  # timestamp[ns] ends here
_WRAP_SECONDS = 18_446_744_074  # 2^64 nanoseconds


class ParquetEncoder:
    """Encodes rows as parquet files in memory, of which a writer makes one file.

    Which columns get a dictionary is decided by the first rows, for all that follow.
    """

    def __init__(self, fields: Sequence[DataField], options: WriteOptions) -> None:
        self.schema = with_field_ids(fields)
        self.int96 = int96_leaves(self.schema)
        self._codec = codec_of(_CODECS, options.compression, "parquet")
        self._fields = tuple(fields)
        self._file_schema = image_schema(self.schema) if self.int96 else self.schema
        self._options = options
        types = self.schema.types
        self._text = TextBounds(types, [_leaf_count(arrow) for arrow in types], options.stats)
        self._modes = without_bounds(fields, options.stats) if self.int96 else options.stats
        self._dictionary: list[str] | bool = False
        self._undecided = options.dictionary

    def encode(self, table: pa.Table) -> Encoded:
        """Return rows as one row group, or as more of equal size where they are too many for one."""
        check_rows(table, self.schema)
        least = max(1, -(-table.num_rows // _GROUP_ROWS_MAX), -(-table.nbytes // self._options.row_group_bytes))
        group_rows = max(1, -(-table.num_rows // least))
        groups = max(1, -(-table.num_rows // group_rows))
        if self._undecided:
            self._dictionary, self._undecided = dictionary_columns(table.slice(0, group_rows)), False
        stats = StatsCollector(self._fields, self._modes)
        told = self._text.choose(table)
        stats.add(table, told=told)
        stored = image_table(table, self._file_schema) if self.int96 else table
        pieces = []
        for number in range(groups):
            sink = pa.BufferOutputStream()  # a small one each: its memory is used again at once
            writer = self._open(sink)
            if stored.num_rows:
                writer.write_table(stored.slice(number * group_rows, group_rows), row_group_size=group_rows)
            data_end = sink.tell()
            writer.close()
            self._text.tell(writer.writer.metadata, told, stats)
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
        """What comes behind the pages."""
        end = self.data.size - _END.size
        at = end - _END.unpack(self.data[end:])[0]
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
                start = len(_MAGIC)
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
        end = footer + _END.pack(len(footer), _MAGIC)
        self._output.write(indexes + make_seal(zlib.crc32(end)) + end)
        self._output.close()
        size = self._position + len(indexes) + SEAL_BYTES + len(end)
        return WrittenFile(size, self._stats.row_count, self._stats.result())

    def discard(self) -> None:
        """Give the file up."""
        self._output.discard()


def dictionary_columns(table: pa.Table) -> list[str]:
    """Return the leaves that a dictionary makes smaller: those of which a sample of the rows repeats itself.

    A dictionary of values that hardly repeat costs time and bytes, and one that outgrows its page is given up halfway.
    The sample is a few short stretches, so values that repeat only side by side count as well.
    """
    step = max(1, table.num_rows // _SAMPLE_STRETCHES)
    rows = _SAMPLE_ROWS // _SAMPLE_STRETCHES
    small = table.num_rows <= _SAMPLE_ROWS
    sample = table if small else pa.concat_tables(table.slice(at, rows) for at in range(0, table.num_rows, step))
    share = table.num_rows / max(1, sample.num_rows)
    chosen: list[str] = []
    for field, column in zip(table.schema, sample.columns, strict=True):
        for path, leaf in _leaves(field.name, column.combine_chunks()):
            if not pa.types.is_boolean(leaf.type) and _repeats(leaf, share):
                chosen.append(path)
    return chosen


def _repeats(sample: pa.Array, share: float) -> bool:
    """Say whether a sample is one of few enough values; `share` is how many times as long the column is."""
    sample = sample.drop_null()
    values = len(sample)
    if values == 0:
        return False
    counts = sample.value_counts().field(1).to_numpy()
    # So many values, all equally frequent, would be worth a dictionary. How many of them would such a sample show?
    most = min(values * share / 2, _DICTIONARY_BYTES * values / max(1, sample.nbytes))
    if len(counts) > most * -math.expm1(-values / most):
        return False
    # One value that is frequent must not hide that all others are not: the seldom ones tell how many more there are.
    once, twice = np.bincount(counts, minlength=3)[1:3].tolist()
    hidden = once * (once - 1) / (2 * (twice + 1))
    to_come = hidden * -math.expm1((1 - share) * once / hidden) if hidden else 0
    return bool(len(counts) + to_come <= most)


def _leaves(path: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Yield the leaves of a column with their paths inside a parquet schema."""
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if pa.types.is_struct(array.type):
        for field, child in zip(array.type, array.flatten(), strict=True):
            yield from _leaves(f"{path}.{field.name}", child)
    elif pa.types.is_map(array.type):
        yield from _leaves(f"{path}.key_value.key", array.keys)
        yield from _leaves(f"{path}.key_value.value", array.items)
    elif pa.types.is_list(array.type):
        yield from _leaves(f"{path}.list.element", array.flatten())
    else:
        yield path, array


@dataclass(frozen=True, slots=True)
class _Run:
    """Row groups that are decoded together."""

    groups: tuple[int, ...]
    position: int
    row_count: int
    decoded_bytes: int
    known: pa.Table = None  # the columns that are decoded already

    def takes(self, group: _Run, rows_max: int) -> bool:
        """Say whether a row group follows this one and is not too much in addition."""
        return (
            self.position + self.row_count == group.position
            and (self.known is None) == (group.known is None)
            and self.row_count + group.row_count <= min(rows_max, _DECODED_ROWS)
            and self.decoded_bytes + group.decoded_bytes <= _DECODED_BYTES
        )

    def with_next(self, group: _Run) -> _Run:
        """Return the run with one more row group."""
        rows, size = self.row_count + group.row_count, self.decoded_bytes + group.decoded_bytes
        known = None if self.known is None else pa.concat_tables([self.known, group.known])
        return _Run(self.groups + group.groups, self.position, rows, size, known)


class ParquetFileReader:
    """One parquet file being read."""

    def __init__(self, source: Input, *, path: str, size: int, fields: Sequence[DataField]) -> None:
        self._source = source
        self._path = path
        self._fields = tuple(fields)
        self._schema = to_arrow_schema(fields)
        with decoding(path):
            self._open(size)

    @property
    def row_count(self) -> int:
        """The number of rows in the file."""
        return int(self._metadata.num_rows)

    def close(self) -> None:
        """Let the file go."""
        self._source.close()

    def batches(
        self, *, skip: Predicate | None = None, batch_rows: int | None = None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches in file order, each with the position of its first row."""
        with decoding(self._path):
            runs = _packed(self._sifted(self._groups(skip), skip), batch_rows or _DECODED_ROWS)
        while True:
            with decoding(self._path):
                run = next(runs, None)
            if run is None:
                return
            position = run.position
            for batch in self._decode(run, batch_rows):
                yield position, batch
                position += batch.num_rows
            if position != run.position + run.row_count:
                raise corrupt(
                    self._path, f"{counted(position - run.position, 'row')} where its footer announces {run.row_count}"
                )

    def _open(self, size: int) -> None:
        """Read and check the footer, and find the leaves that hold the wanted fields."""
        self._whole: bytes | None = None
        self._checked: CheckedSource | None = None
        if size <= _WHOLE_BYTES:
            tail = self._whole = bytes(self._source.read())
            if len(tail) != size:
                raise corrupt(self._path, f"{len(tail)} bytes long where {size} belong")
        else:
            tail = self._read_at(size - _TAIL_BYTES, _TAIL_BYTES)
        footer_bytes, magic = _END.unpack(tail[-_END.size :])
        if magic != _MAGIC or footer_bytes + _END.size + len(_MAGIC) > size:
            raise corrupt(self._path, "it does not end like a parquet file")
        needed = min(size, footer_bytes + _END.size + SEAL_BYTES)
        if needed > len(tail):
            tail = self._read_at(size - needed, needed)
        footer = tail[len(tail) - footer_bytes - _END.size :]
        checksum = sealed_checksum(tail[len(tail) - needed : len(tail) - len(footer)])
        if checksum is not None and checksum != zlib.crc32(footer):
            raise corrupt(self._path, "the checksum of its footer does not match")
        self._sealed = checksum is not None
        if self._whole is not None:
            self._data: object = pa.py_buffer(self._whole)
            known = None
        else:
            self._checked = CheckedSource(self._source) if self._sealed else None
            self._data = self._checked or self._source
            known = pq.read_metadata(pa.BufferReader(footer))
        self._file = self._parquet_file(known)
        self._metadata = self._file.metadata
        self._select(self._file.schema_arrow)

    def _parquet_file(self, metadata: pq.FileMetaData | None, **options: object) -> pq.ParquetFile:
        return pq.ParquetFile(
            self._data if self._whole is None else pa.BufferReader(self._data),
            metadata=metadata,
            pre_buffer=self._whole is None,
            page_checksum_verification=True,
            **_READER_NEWER,
            **options,
        )

    def _read_at(self, offset: int, length: int) -> bytes:
        return read_at(self._source, offset, length, self._path)

    def _select(self, schema: pa.Schema) -> None:
        """Choose the leaves to read; they are numbered depth first, so names with dots are no matter."""
        first = {}
        leaf = 0
        for field in schema:
            if field.name in first:
                raise corrupt(self._path, f"it has two columns named {field.name!r}")
            first[field.name] = leaf
            leaf += _leaf_count(field.type)
        chosen: list[int] = []
        self._leaf: dict[str, int] = {}  # of the fields that are no nested ones
        for field in self._fields:
            if field.name not in first:
                self._missing(field.name)
                continue
            found = schema.field(field.name).type
            _check_variant(field, found, self._path)
            chosen += _select_leaves(found, field.type, first[field.name])
            if _leaf_count(found) == 1 and not pa.types.is_nested(found):
                self._leaf[field.name] = first[field.name]
        self._leaves = sorted(chosen)
        self._int96: list[int] = []  # those with times of others, which may be far ones
        if self._sealed:
            return
        if any(leaf.root.startswith("TIMESTAMP") for field in self._fields for leaf in scalar_types(field.type)):
            physical = self._metadata.schema
            self._int96 = [i for i in self._leaves if physical.column(i).physical_type == "INT96"]

    def _missing(self, name: str) -> None:
        if self._sealed:
            raise corrupt(self._path, f"it lacks the column {name!r} that its schema announces")

    def _groups(self, skip: Predicate | None) -> list[_Run]:
        """Return the row groups one by one, without those that by their statistics cannot match."""
        groups: list[_Run] = []
        position = 0
        for index in range(self._metadata.num_row_groups):
            group = self._metadata.row_group(index)
            rows = group.num_rows
            if skip is None or may_match(skip, group_stats(group, self._fields, self._leaf), rows):
                size = sum(group.column(leaf).total_uncompressed_size for leaf in self._leaves)
                groups.append(_Run((index,), position, rows, size))
            position += rows
        if position != self.row_count:
            raise corrupt(self._path, "the row counts in its footer contradict each other")
        return groups

    def _sifted(self, groups: Sequence[_Run], skip: Predicate | None) -> Iterator[_Run]:
        """Decode the columns of the filter first, and leave out the row groups in which nothing matches.

        It goes on as long as it spares about every second row group.
        """
        names = [] if skip is None else sorted(skip.columns())
        leaves = [self._leaf[name] for name in names if name in self._leaf and self._leaf[name] not in self._int96]
        if skip is None or len(leaves) < len(names) or 2 * len(leaves) > len(self._leaves):
            yield from groups
            return
        schema = pa.schema([self._schema.field(name) for name in names])
        looked = spared = 0
        for group in groups:
            if 2 * spared < looked - 1 or group.decoded_bytes > _DECODED_BYTES:
                yield group
                continue
            looked += 1
            self._expect_pages(group, leaves)
            known = self._file.reader.read_row_groups(list(group.groups), column_indices=leaves, use_threads=False)
            self._finish_pages()
            if pc.any(skip.mask(self._conform(known, schema))).as_py():
                yield replace(group, known=known)
            else:
                spared += 1

    def _decode(self, run: _Run, batch_rows: int | None) -> Iterator[pa.RecordBatch]:
        if not self._leaves:
            yield from self._without_data(run, batch_rows)
            return
        tables = self._tables(run, batch_rows)
        while True:
            with decoding(self._path):
                table = next(tables, None)
                if table is None:
                    return
                batches = self._conform(table, self._schema).to_batches(max_chunksize=batch_rows)
            yield from batches

    def _tables(self, run: _Run, batch_rows: int | None) -> Iterator[pa.Table]:
        if self._int96:
            self._check_far(run)
        known = [] if run.known is None else run.known.column_names
        leaves = sorted(set(self._leaves) - {self._leaf[name] for name in known})
        self._expect_pages(run, leaves)
        threads = run.decoded_bytes > MIB
        reader = self._file.reader
        if run.decoded_bytes <= _DECODED_BYTES and run.row_count <= (batch_rows or run.row_count):
            table = reader.read_row_groups(list(run.groups), column_indices=leaves, use_threads=threads)
            for name in known:
                table = table.append_column(name, run.known.column(name))
            yield table
        else:
            rows = batch_rows or max(1024, run.row_count * (_DECODED_BYTES // 2) // run.decoded_bytes)
            for batch in reader.iter_batches(rows, list(run.groups), column_indices=leaves, use_threads=threads):
                yield pa.Table.from_batches([batch])
        self._finish_pages()

    def _expect_pages(self, run: _Run, leaves: Sequence[int]) -> None:
        """Have the page headers of a sealed file checked: now if it is in memory, else when its bytes pass."""
        if not self._sealed:
            return
        groups = [self._metadata.row_group(index) for index in run.groups]
        chunks = [Chunk.of(group.column(leaf)) for group in groups for leaf in leaves]
        if self._checked is not None:
            self._checked.expect(chunks)
        elif self._whole is not None:
            data = memoryview(self._whole)
            for chunk in chunks:
                check_pages(data[chunk.start : chunk.start + chunk.byte_count], chunk)

    def _finish_pages(self) -> None:
        if self._checked is not None:
            self._checked.finish()

    def _without_data(self, run: _Run, batch_rows: int | None) -> Iterator[pa.RecordBatch]:
        """Yield rows of which no wanted column is in the file."""
        step = batch_rows or MIB
        for start in range(0, run.row_count, step):
            yield empty_batch(self._schema, min(step, run.row_count - start))

    def _conform(self, table: pa.Table, schema: pa.Schema) -> pa.Table:
        columns = []
        for field in schema:
            index = table.schema.get_field_index(field.name)
            if index < 0:
                columns.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
            else:
                columns.append(_conform_named(table.column(index), field, self._missing))
        return pa.Table.from_arrays(columns, schema=schema)

    def _check_far(self, run: _Run) -> None:
        """Refuse 96-bit timestamps outside timestamp[ns]: Arrow would wrap them around silently."""
        for leaf in self._int96:
            coarse = self._parquet_file(self._metadata, coerce_int96_timestamp_unit="s").reader.read_row_groups(
                list(run.groups), column_indices=[leaf], use_threads=False
            )
            for _, values in _leaves("", coarse.column(0).combine_chunks()):
                bounds = pc.min_max(values.view(pa.int64())).as_py()
                # Java counts times before 1970 backwards from the next midnight. Arrow takes the negative rest for a
                # huge one when it makes seconds of it, though not when it makes nanoseconds.
                if bounds["max"] is not None and not -_FAR_SECONDS < bounds["min"] <= bounds["max"] < _WRAP_SECONDS:
                    name = coarse.column_names[0]
                    raise UnsupportedError(
                        f"the column {name!r} of the file {self._path} has timestamps before 1677 or after 2262, which "
                        "nanoseconds cannot hold; change its type to TIMESTAMP(6) or leave the column out",
                        path=self._path,
                        column=name,
                    )


def _packed(groups: Iterable[_Run], rows_max: int) -> Iterator[_Run]:
    """Put neighbouring row groups together, up to a bound, to be decoded at once."""
    run: _Run | None = None
    for group in groups:
        if run is not None and run.takes(group, rows_max):
            run = run.with_next(group)
            continue
        if run is not None:
            yield run
        run = group
    if run is not None:
        yield run


def _conform_named(column: pa.ChunkedArray, field: pa.Field, missing: Missing) -> pa.ChunkedArray:
    try:
        return conform_column(column, field.type, missing)
    except pa.ArrowInvalid as error:
        raise pa.ArrowInvalid(f"column {field.name!r}: {error}") from error


def _check_variant(field: DataField, found: pa.DataType, path: str) -> None:
    if (
        isinstance(field.type, AtomicType)
        and field.type.root == "VARIANT"
        and pa.types.is_struct(found)
        and found.get_field_index("typed_value") >= 0
    ):
        raise UnsupportedError(
            f"the column {field.name!r} of the file {path} is a shredded VARIANT; leave the column out",
            path=path,
            column=field.name,
        )


def _leaf_count(arrow: pa.DataType) -> int:
    if pa.types.is_struct(arrow):
        return sum(_leaf_count(field.type) for field in arrow)
    if pa.types.is_map(arrow):
        return _leaf_count(arrow.key_type) + _leaf_count(arrow.item_type)
    if pa.types.is_nested(arrow):
        return _leaf_count(arrow.value_type)
    return 1


def _select_leaves(arrow: pa.DataType, dtype: DataType, first: int) -> list[int]:
    """Return the leaves of a column that hold the wanted part of it."""
    if pa.types.is_struct(arrow) and isinstance(dtype, RowType):
        wanted = {field.name: field.type for field in dtype.fields}
        chosen: list[int] = []
        leaf = first
        for field in arrow:
            if field.name in wanted:
                chosen += _select_leaves(field.type, wanted[field.name], leaf)
            leaf += _leaf_count(field.type)
        return chosen or [first]  # any leaf tells which rows are null
    if pa.types.is_map(arrow) and isinstance(dtype, MapType | MultisetType):
        keys = _leaf_count(arrow.key_type)
        inner = dtype.value if isinstance(dtype, MapType) else AtomicType("INT")
        return [*range(first, first + keys), *_select_leaves(arrow.item_type, inner, first + keys)]
    if pa.types.is_list(arrow) and isinstance(dtype, ArrayType):
        return _select_leaves(arrow.value_type, dtype.element, first)
    return list(range(first, first + _leaf_count(arrow)))

"""Parquet data files in, batches of the requested columns out.

In a sealed file every byte that decides a value is checked: the pages by Arrow's decoder, their headers and the footer
here. A sealed file must hold every requested column; in a file of another writer a missing column reads as null.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakewright.errors import UnsupportedError, counted
from lakewright.formats.base import (
    Input,
    corrupt,
    decoding,
    empty_batch,
    read_at,
    scalar_types,
    supported_options,
)
from lakewright.formats.conform import Missing, conform_column
from lakewright.formats.parquet.leaves import leaf_arrays, leaf_count, select_leaves
from lakewright.formats.parquet.pages import CheckedSource, Chunk, check_pages
from lakewright.formats.parquet.stats import group_stats
from lakewright.formats.parquet.tail import END, MAGIC
from lakewright.formats.seal import SEAL_BYTES, sealed_checksum
from lakewright.spec.arrow import to_arrow_schema
from lakewright.spec.predicate.predicate import Predicate, may_match
from lakewright.spec.types import AtomicType, DataField
from lakewright.spec.units import MIB

_READER_NEWER = supported_options(pq.ParquetFile.__init__, {"arrow_extensions_enabled": False})
_TAIL_BYTES = 64 * 1024  # the footer of most files comes with the first read
_WHOLE_BYTES = MIB  # smaller files are read in one go: opening costs more than bytes
_DECODED_BYTES = 64 * MIB  # row groups are decoded together up to here; a bigger one is streamed
_DECODED_ROWS = 1 << 20  # and up to here, because repeated values take few bytes in a file
_FAR_SECONDS = 9_223_372_036  # timestamp[ns] ends here
_WRAP_SECONDS = 18_446_744_074  # 2^64 nanoseconds


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
        footer_bytes, magic = END.unpack(tail[-END.size :])
        if magic != MAGIC or footer_bytes + END.size + len(MAGIC) > size:
            raise corrupt(self._path, "it does not end like a parquet file")
        needed = min(size, footer_bytes + END.size + SEAL_BYTES)
        if needed > len(tail):
            tail = self._read_at(size - needed, needed)
        footer = tail[len(tail) - footer_bytes - END.size :]
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
            leaf += leaf_count(field.type)
        chosen: list[int] = []
        self._leaf: dict[str, int] = {}  # of the fields that are no nested ones
        for field in self._fields:
            if field.name not in first:
                self._missing(field.name)
                continue
            found = schema.field(field.name).type
            _check_variant(field, found, self._path)
            chosen += select_leaves(found, field.type, first[field.name])
            if leaf_count(found) == 1 and not pa.types.is_nested(found):
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
            for _, values in leaf_arrays("", coarse.column(0).combine_chunks()):
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

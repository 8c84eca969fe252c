"""Parquet data files to batches; prefetch of column chunks."""

from __future__ import annotations

import math
import os
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import NamedTuple, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakewright.errors import UnsupportedError, pluralize
from lakewright.formats.arrow_conform import Missing, conform_column
from lakewright.formats.file_format import (
    SEAL_BYTES,
    Input,
    corrupt_file_error,
    empty_batch,
    overlap,
    read_at,
    read_checksum_trailer,
    scalar_types,
    supported_options,
    translate_decode_errors,
)
from lakewright.formats.parquet_columns import group_stats, leaf_arrays, leaf_count, select_leaves
from lakewright.formats.parquet_footer import END, MAGIC, CheckedSource, ColumnChunk, check_pages
from lakewright.formats.shared_maps import SharedMap, read_shared_map
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.option_values import KIB, MIB
from lakewright.spec.predicate import Predicate, may_match
from lakewright.spec.types import BYTES_ROOTS, TEXT_ROOTS, DataField

# ---- Prefetch of column chunks ---------------------------------------------------------------------------------------
# Arrow reads a file object of Python one range after the other, and each range of an object store takes 30 to 100 ms.
# So the chunks of the row groups that come next are asked for here, all at once, and Arrow finds them in memory.
# Chunks that lie close to each other are one request, because a request costs more than the bytes between them; long
# ranges are cut into parts, because one connection gives less than the store.
#
# Invariant: what was not asked for, or was forgotten, is read from the file as if nothing were asked for. Bytes
# are held from the request until `forget` names a later row group, so that the caller bounds the memory.

HOLE_BYTES = 256 * KIB  # up to this many bytes between two chunks are read with them
AHEAD_BYTES = 32 * MIB  # how much is asked for before it is needed
LATENCY_BYTES = 4 * MIB  # a connection brings about as many while another request would wait for its answer
_PART_BYTES = 8 * MIB
_REQUESTS_AT_ONCE = 32
_END_BYTES_MIN = 64 * KIB
_END_BYTES_MAX = 2 * MIB
_LEAF_BYTES = 128  # of the schema in a footer, for each column
_CHUNK_BYTES = 192  # of a footer, for each column of a row group, with its statistics
# Our row groups have at most as many rows and bytes in memory, those of others mostly more.
_GROUP_ROWS = 1 << 17
_GROUP_BYTES = 32 * MIB
_TEXTS = TEXT_ROOTS | BYTES_ROOTS | {"VARIANT"}
_TEXT_BYTES = 40  # of a value in memory
_NUMBER_BYTES = 8


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    """Return the threads of this process that wait for ranges, however many files are open."""
    return ThreadPoolExecutor(_REQUESTS_AT_ONCE, thread_name_prefix="lakewright-ahead")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a fork has no threads


@runtime_checkable
class RemoteInput(Protocol):
    """An open file that is far away: a read of it takes long, and several at once as long as one."""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to a position."""

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes."""

    def close(self) -> None:
        """Close the file."""

    def size(self) -> int:
        """Return the size of the file."""

    def read_range(self, start: int, end: int) -> bytes:
        """Return the bytes from `start` up to but not including `end`; several threads may call this at once."""


class Wanted(NamedTuple):
    """A range of bytes, and the row group that needs it."""

    start: int
    end: int
    group: int


def coalesce_ranges(wanted: Iterable[Wanted], hole_bytes: int) -> list[Wanted]:
    """Return fewer ranges that hold the same bytes and short holes; each names the last group that needs it.

    >>> coalesce_ranges([Wanted(0, 10, 0), Wanted(500, 510, 0), Wanted(12, 20, 1)], hole_bytes=2)
    [Wanted(start=0, end=20, group=1), Wanted(start=500, end=510, group=0)]
    """
    joined: list[Wanted] = []
    for one in sorted(wanted):
        last = joined[-1] if joined else None
        if last is not None and one.start - last.end <= hole_bytes:
            joined[-1] = Wanted(last.start, max(last.end, one.end), max(last.group, one.group))
        else:
            joined.append(one)
    return joined


def footer_bytes(size: int, row_count: int, fields: Sequence[DataField]) -> int:
    """Guess how many of its last bytes a file is read by first; 0 if all of it is read at once."""
    return 0 if size <= SINGLE_READ_BYTES else end_bytes(fields, row_count)


def end_bytes(fields: Iterable[DataField], row_count: int) -> int:
    """Guess how many bytes the footer of a file has, rather too many than too few: a second request costs more.

    >>> from lakewright.spec.types import AtomicType
    >>> columns = [DataField(n, f"c{n}", AtomicType("BIGINT")) for n in range(200)]
    >>> end_bytes(columns[:5], 1_000_000), end_bytes(columns, 1_000_000)
    (65536, 1868800)
    """
    leaves = [leaf.root for field in fields for leaf in scalar_types(field.type)]
    row_bytes = sum(_TEXT_BYTES if root in _TEXTS else _NUMBER_BYTES for root in leaves)
    groups = max(1, math.ceil(row_count / _GROUP_ROWS), math.ceil(row_count * row_bytes / _GROUP_BYTES))
    guess = len(leaves) * (_LEAF_BYTES + groups * _CHUNK_BYTES)
    return min(max(guess, _END_BYTES_MIN), _END_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class _Held:
    """A range that was asked for: its bytes once all parts have come."""

    wanted: Wanted
    parts: Sequence[Future[bytes | None]]
    target: pa.Buffer | None  # where the parts are put, if there are several

    def data(self, start: int, end: int) -> pa.Buffer:
        """Wait for the parts, and return the bytes from `start` up to `end` of the file without copying them."""
        received = [part.result() for part in self.parts]
        whole = pa.py_buffer(received[0]) if self.target is None else self.target
        if whole.size != self.wanted.end - self.wanted.start:
            raise ValueError(f"the store gave {whole.size} bytes for {self.wanted.end - self.wanted.start}")
        return whole.slice(start - self.wanted.start, end - start)


class AheadInput:
    """A file that is far away, and the ranges of it that were asked for."""

    def __init__(self, source: RemoteInput) -> None:
        self._source = source
        self._size = source.size()
        self._position = 0
        self._held: list[_Held] = []

    def ask(self, wanted: Iterable[Wanted]) -> None:
        """Ask for ranges, concurrently, unless they were asked for before; ranges outside of the file are left out."""
        new = [one for one in wanted if 0 <= one.start < one.end <= self._size and self._holding(*one[:2]) is None]
        self._held += [self._begin(one) for one in coalesce_ranges(new, HOLE_BYTES)]

    def forget(self, before: int) -> None:
        """Drop the ranges that no row group from `before` on needs."""
        self._held = [held for held in self._held if held.wanted.group >= before]

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to a position."""
        base = {0: 0, 1: self._position, 2: self._size}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes."""
        return bytes(self.read_buffer(size))

    def read_buffer(self, size: int = -1, /) -> pa.Buffer:
        """Return the next bytes, from memory if they were asked for."""
        start = min(self._position, self._size)
        end = self._size if size < 0 else min(start + size, self._size)
        self._position = end
        held = self._holding(start, end)
        if held is not None:
            return held.data(start, end)
        self._source.seek(start)
        return pa.py_buffer(self._source.read(end - start))

    def close(self) -> None:
        """Close the file; what is still asked for is not waited for."""
        for held in self._held:
            for part in held.parts:
                part.cancel()
        self._held = []
        self._source.close()

    def _holding(self, start: int, end: int) -> _Held | None:
        return next((held for held in self._held if held.wanted.start <= start and end <= held.wanted.end), None)

    def _begin(self, wanted: Wanted) -> _Held:
        start, end, _ = wanted
        pool = _pool()
        if end - start <= _PART_BYTES:
            return _Held(wanted, [pool.submit(self._source.read_range, start, end)], None)
        target = pa.allocate_buffer(end - start)
        step = math.ceil((end - start) / math.ceil((end - start) / _PART_BYTES))  # parts of about equal length
        places = [(first, min(first + step, end)) for first in range(start, end, step)]
        fill = partial(self._fill, memoryview(target).cast("B"), start)
        return _Held(wanted, [pool.submit(fill, *place) for place in places], target)

    def _fill(self, view: memoryview, offset: int, start: int, end: int) -> None:
        view[start - offset : end - offset] = self._source.read_range(start, end)


def remote_input(source: Input) -> AheadInput | None:
    """Return a file with ranges that can be asked for, None for a file that is near."""
    return AheadInput(source) if isinstance(source, RemoteInput) else None


# ---- Reading ---------------------------------------------------------------------------------------------------------
# In a sealed file every byte that decides a value is checked: the pages by Arrow's decoder, their headers and the
# footer here. A sealed file must hold every requested column; in a file of another writer a missing column reads as
# null.

_READER_NEWER = supported_options(pq.ParquetFile.__init__, {"arrow_extensions_enabled": False})
_TAIL_BYTES = 64 * 1024  # the footer of most files comes with the first read
SINGLE_READ_BYTES = MIB  # smaller files are read with one call: a call costs more than the bytes
_DECODED_BYTES = 64 * MIB  # row groups are decoded together up to here; a bigger one is streamed
_DECODED_ROWS = 1 << 20  # and up to this many rows, because repeated values take few bytes in a file
_FILTERED_GROUPS = 16  # the columns of a filter are asked for in this many row groups at a time
_FAR_SECONDS = 9_223_372_036  # timestamp[ns] ends here
_WRAP_SECONDS = 18_446_744_074  # 2^64 nanoseconds


@dataclass(frozen=True, slots=True)
class _Span:
    """Neighbouring row groups that are decoded together."""

    groups: tuple[int, ...]
    position: int
    row_count: int
    decoded_bytes: int
    decoded: pa.Table = None  # the columns that are decoded already

    def can_extend(self, group: _Span, rows_max: int) -> bool:
        """Return whether a row group follows these and the sizes of all together are within the limits."""
        return (
            self.position + self.row_count == group.position
            and (self.decoded is None) == (group.decoded is None)
            and self.row_count + group.row_count <= min(rows_max, _DECODED_ROWS)
            and self.decoded_bytes + group.decoded_bytes <= _DECODED_BYTES
        )

    def with_row_group(self, group: _Span) -> _Span:
        """Return the span with one more row group."""
        rows, size = self.row_count + group.row_count, self.decoded_bytes + group.decoded_bytes
        decoded = None if self.decoded is None else pa.concat_tables([self.decoded, group.decoded])
        return _Span(self.groups + group.groups, self.position, rows, size, decoded)


class ParquetFileReader:
    """One parquet file being read."""

    def __init__(self, source: Input, *, path: str, size: int, fields: Sequence[DataField]) -> None:
        self._source = source
        self._path = path
        self._fields = tuple(fields)
        self._schema = to_arrow_schema(fields)
        with translate_decode_errors(path):
            self._open(size)

    @property
    def row_count(self) -> int:
        """The number of rows in the file."""
        return int(self._metadata.num_rows)

    @property
    def stored_columns(self) -> tuple[str, ...]:
        """The names of all columns that the file holds, in its order, whichever are read."""
        return tuple(self._file.schema_arrow.names)

    def close(self) -> None:
        """Close the file."""
        (self._ahead or self._source).close()

    def starts(self, skip: Predicate | None = None) -> tuple[int, ...]:
        """Return the positions of the first rows of row groups that may hold a row matching `skip`."""
        with translate_decode_errors(self._path):
            return tuple(group.position for group in self._groups(skip, None))

    def batches(
        self, *, skip: Predicate | None = None, batch_rows: int | None = None, within: range | None = None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches in file order, each with the position of its first row."""
        with translate_decode_errors(self._path):
            spans = _join_spans(self._matching(self._groups(skip, within), skip), batch_rows or _DECODED_ROWS)
        while True:
            with translate_decode_errors(self._path):
                span = next(spans, None)
            if span is None:
                return
            position = span.position
            for batch in self._decode(span, batch_rows):
                yield position, batch
                position += batch.num_rows
            rows = position - span.position
            if rows != span.row_count:
                raise corrupt_file_error(
                    self._path, f"{pluralize(rows, 'row')} where its footer announces {span.row_count}"
                )

    def _open(self, size: int) -> None:
        """Read and check the footer, and find the leaves that hold the requested fields."""
        self._content: bytes | None = None  # of a small file
        self._checked: CheckedSource | None = None
        self._ahead: AheadInput | None = None
        self._certain: Sequence[_Span] = ()  # row groups that are decoded whatever the filter finds in others
        self._matched: list[int] = []  # row groups with a match that are not decoded yet
        if size <= SINGLE_READ_BYTES:
            tail = self._content = bytes(self._source.read())
            if len(tail) != size:
                raise corrupt_file_error(self._path, f"it has {len(tail)} bytes instead of {size}")
        else:
            tail = self._read_at(size - _TAIL_BYTES, _TAIL_BYTES)
        footer_bytes, magic = END.unpack(tail[-END.size :])
        if magic != MAGIC or footer_bytes + END.size + len(MAGIC) > size:
            raise corrupt_file_error(self._path, "it does not end like a parquet file")
        needed = min(size, footer_bytes + END.size + SEAL_BYTES)
        if needed > len(tail):
            tail = self._read_at(size - needed, needed)
        footer = tail[len(tail) - footer_bytes - END.size :]
        checksum = read_checksum_trailer(tail[len(tail) - needed : len(tail) - len(footer)])
        if checksum is not None and checksum != zlib.crc32(footer):
            raise corrupt_file_error(self._path, "the checksum of its footer does not match")
        self._sealed = checksum is not None
        if self._content is not None:
            self._data: object = pa.py_buffer(self._content)
            metadata = None
        else:
            self._ahead = remote_input(self._source)
            checked = CheckedSource(self._ahead or self._source)
            self._checked = checked if self._sealed else None
            self._data = checked if self._sealed or self._ahead else self._source
            metadata = pq.read_metadata(pa.BufferReader(footer))
        self._file = self._parquet_file(metadata)
        self._metadata = self._file.metadata
        self._select(self._file.schema_arrow)

    def _parquet_file(self, metadata: pq.FileMetaData | None, **options: object) -> pq.ParquetFile:
        return pq.ParquetFile(
            self._data if self._content is None else pa.BufferReader(self._data),
            metadata=metadata,
            pre_buffer=self._content is None and self._ahead is None,
            page_checksum_verification=True,
            **_READER_NEWER,
            **options,
        )

    def _read_at(self, offset: int, length: int) -> bytes:
        return read_at(self._source, offset, length, self._path)

    def _select(self, schema: pa.Schema) -> None:
        """Choose the leaves to read, by their numbers, because a name may contain a dot."""
        first = {}
        leaf = 0
        for field in schema:
            if field.name in first:
                raise corrupt_file_error(self._path, f"it has two columns named {field.name!r}")
            first[field.name] = leaf
            leaf += leaf_count(field.type)
        chosen: list[int] = []
        self._shared_maps: dict[str, SharedMap] = {}
        self._leaf: dict[str, int] = {}  # the leaf of each field that is not nested
        for field in self._fields:
            if field.name not in first:
                self._missing(field.name)
                continue
            stored = schema.field(field.name).type
            shared = read_shared_map(field, schema.field(field.name), self._path)
            if shared is not None:
                self._shared_maps[field.name] = shared
            chosen += select_leaves(stored, field.type, first[field.name])
            if leaf_count(stored) == 1 and not pa.types.is_nested(stored):
                self._leaf[field.name] = first[field.name]
        self._leaves = sorted(chosen)
        self._int96: list[int] = []  # leaves of other writers whose times may be out of range
        if self._sealed:
            return
        if any(leaf.root.startswith("TIMESTAMP") for field in self._fields for leaf in scalar_types(field.type)):
            physical = self._metadata.schema
            self._int96 = [i for i in self._leaves if physical.column(i).physical_type == "INT96"]

    def _missing(self, name: str) -> None:
        if self._sealed:
            raise corrupt_file_error(self._path, f"it lacks the column {name!r} that its schema announces")

    def _groups(self, skip: Predicate | None, within: range | None) -> list[_Span]:
        """Return the row groups one by one, without those outside a range or whose statistics exclude a match."""
        groups: list[_Span] = []
        position = 0
        for index in range(self._metadata.num_row_groups):
            group = self._metadata.row_group(index)
            rows = group.num_rows
            if overlap(position, rows, within) and (
                skip is None or may_match(skip, group_stats(group, self._fields, self._leaf), rows)
            ):
                size = sum(group.column(leaf).total_uncompressed_size for leaf in self._leaves)
                groups.append(_Span((index,), position, rows, size))
            position += rows
        if position != self.row_count:
            raise corrupt_file_error(self._path, "the row counts in its footer contradict each other")
        return groups

    def _matching(self, groups: Sequence[_Span], skip: Predicate | None) -> Iterator[_Span]:
        """Decode the columns of the filter first, and leave out the row groups in which no row matches.

        Stops decoding first, and yields the remaining groups, when fewer than about half of them are left out.
        """
        names = [] if skip is None else sorted(skip.columns())
        leaves = [self._leaf[name] for name in names if name in self._leaf and self._leaf[name] not in self._int96]
        if skip is None or len(leaves) < len(names) or 2 * len(leaves) > len(self._leaves):
            self._certain = groups
            yield from groups
            return
        schema = pa.schema([self._schema.field(name) for name in names])
        checked = skipped = asked = 0
        self._certain, self._matched = (), []
        for number, group in enumerate(groups):
            if 2 * skipped < checked - 1 or group.decoded_bytes > _DECODED_BYTES:
                self._certain = self._certain or groups[number:]
                yield group
                continue
            checked += 1
            asked = self._ask_filtered(groups, number, asked, leaves)
            self._expect_pages(group, leaves)
            decoded = self._file.reader.read_row_groups(list(group.groups), column_indices=leaves, use_threads=False)
            self._finish_pages()
            if pc.any(skip.mask(self._conform(decoded, schema))).as_py():
                self._matched += group.groups
                yield replace(group, decoded=decoded)
            else:
                skipped += 1

    def _decode(self, span: _Span, batch_rows: int | None) -> Iterator[pa.RecordBatch]:
        if not self._leaves:
            yield from self._without_data(span, batch_rows)
            return
        tables = self._tables(span, batch_rows)
        while True:
            with translate_decode_errors(self._path):
                table = next(tables, None)
                if table is None:
                    return
                batches = self._conform(table, self._schema).to_batches(max_chunksize=batch_rows)
            yield from batches

    def _tables(self, span: _Span, batch_rows: int | None) -> Iterator[pa.Table]:
        decoded = [] if span.decoded is None else span.decoded.column_names
        leaves = sorted(set(self._leaves) - {self._leaf[name] for name in decoded})
        self._ask(span, leaves)
        if self._int96:
            self._check_int96_range(span)
        self._expect_pages(span, leaves)
        threads = span.decoded_bytes > MIB
        reader = self._file.reader
        if span.decoded_bytes <= _DECODED_BYTES and span.row_count <= (batch_rows or span.row_count):
            tables = iter([reader.read_row_groups(list(span.groups), column_indices=leaves, use_threads=threads)])
        else:
            rows = batch_rows or max(1024, span.row_count * (_DECODED_BYTES // 2) // span.decoded_bytes)
            batches = reader.iter_batches(rows, list(span.groups), column_indices=leaves, use_threads=threads)
            tables = (pa.Table.from_batches([batch]) for batch in batches)
        yield from tables if span.decoded is None else _with_columns(tables, span.decoded)
        self._finish_pages()

    def _ask(self, span: _Span, leaves: Sequence[int]) -> None:
        """Ask for the column chunks of row groups, and for those that are decoded after them."""
        if self._ahead is None:
            return
        self._ahead.forget(before=span.groups[0])
        self._matched = [group for group in self._matched if group > span.groups[-1]]
        end = span.position + span.row_count
        self._certain = self._certain[bisect_left(self._certain, end, key=lambda group: group.position) :]
        self._ahead.ask(self._column_ranges(span.groups, leaves))
        self._ahead.ask(self._within_budget(self._certain, leaves, AHEAD_BYTES))

    def _ask_filtered(self, groups: Sequence[_Span], number: int, asked: int, leaves: Sequence[int]) -> int:
        """Ask for the columns of a filter in the next row groups; return the number of the first that is not asked for.

        When the last of them is half as far away as it was, more are asked for.
        """
        if self._ahead is None:
            return asked
        self._ahead.forget(before=min([*self._matched, *groups[number].groups]))
        if number + _FILTERED_GROUPS // 2 < asked:
            return asked
        upcoming = groups[max(asked, number) : number + _FILTERED_GROUPS]
        wanted = self._within_budget(upcoming, self._leaves, LATENCY_BYTES)
        if not wanted or wanted[-1].group < groups[-1].groups[0]:  # with the other columns they are too many bytes
            wanted = self._within_budget(upcoming, leaves, AHEAD_BYTES) or self._column_ranges(
                groups[number].groups, leaves
            )
        self._ahead.ask(wanted)
        last = max((one.group for one in wanted), default=-1)
        return max(asked, bisect_right(groups, last, key=lambda group: group.groups[0]))

    def _within_budget(self, groups: Iterable[_Span], leaves: Sequence[int], bytes_max: int) -> list[Wanted]:
        """Return the column chunks of the first row groups, as many as may be asked for before they are needed."""
        chosen: list[Wanted] = []
        size = rows = 0
        for group in groups:
            wanted = self._column_ranges(group.groups, leaves)
            size, rows = size + sum(one.end - one.start for one in wanted), rows + group.row_count
            if size > bytes_max or rows > _DECODED_ROWS:
                break
            chosen += wanted
        return chosen

    def _column_ranges(self, groups: Sequence[int], leaves: Sequence[int]) -> list[Wanted]:
        wanted = []
        for index in groups:
            group = self._metadata.row_group(index)
            chunks = [ColumnChunk.of(group.column(leaf)) for leaf in leaves]
            wanted += [Wanted(chunk.start, chunk.start + chunk.byte_count, index) for chunk in chunks]
        return wanted

    def _expect_pages(self, span: _Span, leaves: Sequence[int]) -> None:
        """Check the page headers of a sealed file: now if it is in memory, else when its bytes are read."""
        if not self._sealed:
            return
        groups = [self._metadata.row_group(index) for index in span.groups]
        chunks = [ColumnChunk.of(group.column(leaf)) for group in groups for leaf in leaves]
        if self._checked is not None:
            self._checked.expect(chunks)
        elif self._content is not None:
            data = memoryview(self._content)
            for chunk in chunks:
                check_pages(data[chunk.start : chunk.start + chunk.byte_count], chunk)

    def _finish_pages(self) -> None:
        if self._checked is not None:
            self._checked.finish()

    def _without_data(self, span: _Span, batch_rows: int | None) -> Iterator[pa.RecordBatch]:
        """Yield rows of nulls: the file has none of the requested columns."""
        step = batch_rows or MIB
        for start in range(0, span.row_count, step):
            yield empty_batch(self._schema, min(step, span.row_count - start))

    def _conform(self, table: pa.Table, schema: pa.Schema) -> pa.Table:
        columns = []
        for field in schema:
            index = table.schema.get_field_index(field.name)
            if index < 0:
                columns.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
            else:
                conform = (
                    self._shared_maps[field.name].conform_column if field.name in self._shared_maps else conform_column
                )
                columns.append(_conform_named(conform, table.column(index), field, self._missing))
        return pa.Table.from_arrays(columns, schema=schema)

    def _check_int96_range(self, span: _Span) -> None:
        """Raise UnsupportedError for 96-bit timestamps outside timestamp[ns]: Arrow would return wrong times."""
        for leaf in self._int96:
            coarse = self._parquet_file(self._metadata, coerce_int96_timestamp_unit="s").reader.read_row_groups(
                list(span.groups), column_indices=[leaf], use_threads=False
            )
            for _, values in leaf_arrays("", coarse.column(0).combine_chunks()):
                bounds = pc.min_max(values.view(pa.int64())).as_py()
                # Java stores times before 1970 as negative nanoseconds before the next midnight. Arrow reads those as
                # a huge unsigned number when it converts to seconds, though not when it converts to nanoseconds.
                if bounds["max"] is not None and not -_FAR_SECONDS < bounds["min"] <= bounds["max"] < _WRAP_SECONDS:
                    name = coarse.column_names[0]
                    raise UnsupportedError(
                        f"the column {name!r} of the file {self._path} has timestamps before 1677 or after 2262, which "
                        "nanoseconds cannot hold; change its type to TIMESTAMP(6) or leave the column out",
                        path=self._path,
                        column=name,
                    )


def _join_spans(groups: Iterable[_Span], rows_max: int) -> Iterator[_Span]:
    """Yield spans of neighbouring row groups, as large as the limits allow."""
    span: _Span | None = None
    for group in groups:
        if span is not None and span.can_extend(group, rows_max):
            span = span.with_row_group(group)
            continue
        if span is not None:
            yield span
        span = group
    if span is not None:
        yield span


def _with_columns(tables: Iterable[pa.Table], columns: pa.Table) -> Iterator[pa.Table]:
    """Yield tables with more columns, which hold the rows of all tables one after the other."""
    position = 0
    for table in tables:
        more = columns.slice(position, table.num_rows)
        position += table.num_rows
        yield pa.table([*table.columns, *more.columns], names=[*table.column_names, *more.column_names])


def _conform_named(
    conform: Callable[[pa.ChunkedArray, pa.DataType, Missing], pa.ChunkedArray],
    column: pa.ChunkedArray,
    field: pa.Field,
    missing: Missing,
) -> pa.ChunkedArray:
    try:
        return conform(column, field.type, missing)
    except pa.ArrowInvalid as error:
        raise pa.ArrowInvalid(f"column {field.name!r}: {error}") from error

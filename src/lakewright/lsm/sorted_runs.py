"""Levels, sorted runs, sections; merging runs piece by piece."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TypeAlias

import pyarrow as pa

from lakewright.errors import CorruptTableError
from lakewright.lsm.key_order import Key, KeyOrder
from lakewright.lsm.merge_rows import MergeRules
from lakewright.spec.binary_row import decode_row
from lakewright.spec.manifest import DataFile
from lakewright.spec.system_columns import LEVEL
from lakewright.spec.table_options import TableOptions
from lakewright.spec.types import DataField, DataType

# ---- Sorted runs and sections ----------------------------------------------------------------------------------------
# A *sorted run* is a list of files whose key ranges ascend and do not overlap: every file of level 0 alone, all files
# of a higher level together. A *section* holds files whose key ranges overlap, directly or through others, cut into
# as few runs as possible; sections never share a key, so each can be merged by itself. Nothing here opens a file.


@dataclass(frozen=True, slots=True)
class SortedRun:
    """One file of level 0, or all files of a higher level."""

    level: int
    files: tuple[DataFile, ...]

    @property
    def size(self) -> int:
        """How many bytes the files have."""
        return sum(file.file_size for file in self.files)


@dataclass(frozen=True, slots=True)
class Section:
    """Files whose keys overlap, directly or through others, as runs in which no two files overlap.

    The oldest run comes first, so that a stable sort by key mostly leaves nothing to be sorted by age.
    """

    runs: tuple[tuple[DataFile, ...], ...]

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The files of all runs."""
        return tuple(file for run in self.runs for file in run)

    @property
    def size(self) -> int:
        """How many bytes the files have."""
        return sum(file.file_size for file in self.files)

    @property
    def ages_are_apart(self) -> bool:
        """Whether every row of a run is older or younger than every row of another, by the files' numbers alone."""
        spans = sorted(
            (min(f.min_sequence_number for f in run), max(f.max_sequence_number for f in run)) for run in self.runs
        )
        return all(before[1] < after[0] for before, after in pairwise(spans))


def runs_of(files: Iterable[DataFile]) -> list[SortedRun]:
    """Return the sorted runs of a bucket, youngest first; files of a level stay in the order they are given in."""
    levels: dict[int, list[DataFile]] = {}
    for file in files:
        levels.setdefault(file.level, []).append(file)
    fresh = sorted(levels.pop(0, []), key=_age)
    deeper = (SortedRun(level, tuple(members)) for level, members in sorted(levels.items()))
    return [*(SortedRun(0, (file,)) for file in fresh), *deeper]


def _age(file: DataFile) -> tuple[int, int, int, str]:
    return -file.max_sequence_number, file.min_sequence_number, file.creation_time or 0, file.file_name


def sections(files: Iterable[DataFile], key_types: Sequence[DataType]) -> list[Section]:
    """Cut the files of one bucket into sections, in key order; files of bucket -2 have no key bounds and no sections.

    Equal bounds overlap: the two files may both hold that key.
    """
    # The bounds of a file are its own first and last key, so they are all that is needed to tell files apart.
    order = KeyOrder([DataField(at, f"key_{at}", dtype) for at, dtype in enumerate(key_types)])
    bounded = sorted(
        ((*_bounds(file, key_types, order), file) for file in files),
        key=lambda bounds: (bounds[0], bounds[1], bounds[2].level, _age(bounds[2])),
    )
    made: list[Section] = []
    current: list[tuple[Key, Key, DataFile]] = []
    highest: Key | None = None
    for low, high, file in bounded:
        if highest is not None and low > highest:
            made.append(_section(current))
            current, highest = [], None
        current.append((low, high, file))
        highest = high if highest is None else max(highest, high)
    return [*made, _section(current)] if current else made


def _bounds(file: DataFile, key_types: Sequence[DataType], order: KeyOrder) -> tuple[Key, Key]:
    try:
        low, high = decode_row(file.min_key, key_types), decode_row(file.max_key, key_types)
    except CorruptTableError as error:
        raise CorruptTableError(
            f"the first or the last key of the data file {file.file_name} is damaged: {error}", files=(file.file_name,)
        ) from error
    return order.key_of(low), order.key_of(high)


def _section(bounded: Sequence[tuple[Key, Key, DataFile]]) -> Section:
    """Put files that are ordered by their lower bound into as few runs as possible."""
    runs: list[list[DataFile]] = []
    ends: list[tuple[Key, int]] = []  # a heap: the last key of each run, and which run it is
    for low, high, file in bounded:
        if ends and low > ends[0][0]:
            number = ends[0][1]
            runs[number].append(file)
            heapq.heapreplace(ends, (high, number))
        else:
            heapq.heappush(ends, (high, len(runs)))
            runs.append([file])
    runs.sort(key=lambda run: min(file.min_sequence_number for file in run))
    return Section(tuple(tuple(run) for run in runs))


def max_level(options: TableOptions, files: Iterable[DataFile]) -> int:
    """Return the deepest level of a bucket: what `num-levels` says, or deeper where files are deeper."""
    return max((options.level_count - 1, *(file.level for file in files)))


# ---- Merging sorted runs piece by piece ------------------------------------------------------------------------------
# A run holds each key at most once, ascending. Of every run some rows are held in memory; up to the least of their
# last keys nothing more can come, so the rows up to that key, a window, are complete: they are merged and given out.
# A run that is not sorted, or holds a key twice, is an error, because merging it would give wrong rows without
# notice.

Each: TypeAlias = Callable[[Callable[[Sequence[pa.Table]], pa.Table], Iterable[Sequence[pa.Table]]], Iterable[pa.Table]]
_WINDOW_BYTES_MAX = 64 << 20  # larger windows leave the processor's caches, and merge slower
_FOLD_ROWS = 1 << 18  # a window of twice as many rows is cut
_PIECE_ROWS = 1 << 14  # smaller tables are joined before their keys are compared


def windows(runs: Sequence[Iterable[pa.Table]], spec: MergeRules, *, memory_bytes: int) -> Iterator[pa.Table]:
    """Cut sorted runs into windows: all rows of some keys, not merged and in no order; windows come in key order.

    About `memory_bytes` of rows are held at a time, and at least one table of each run.
    """
    for parts in _windows(runs, spec, memory_bytes):
        yield pa.concat_tables(parts)


def merge_runs(
    runs: Sequence[Iterable[pa.Table]], spec: MergeRules, *, memory_bytes: int, each: Each = map
) -> Iterator[pa.Table]:
    """Merge sorted runs to one; rows that delete are still in it.

    About `memory_bytes` of rows are held at a time, and at least one table of each run. `each` is `map`, or something
    that gives the same in the same order with several threads.
    """
    with closing(key_ranges(runs, spec, memory_bytes=memory_bytes)) as pieces:
        for rows in each(partial(_merge_parts, spec), pieces):
            if len(rows):
                yield rows


def key_ranges(
    runs: Sequence[Iterable[pa.Table]], spec: MergeRules, *, memory_bytes: int
) -> Generator[Sequence[pa.Table]]:
    """Cut sorted runs into ranges of keys that can be merged concurrently: of each the sorted rows of every run."""
    for parts in _windows(runs, spec, memory_bytes):
        yield from _cut(parts, spec.key)


def _merge_parts(spec: MergeRules, parts: Sequence[pa.Table]) -> pa.Table:
    """Return all rows of some keys as one row per key, in key order."""
    apart = in_key_order(parts, spec.key)
    rows = spec.fold(pa.concat_tables(parts)) if apart is None else pa.concat_tables(apart)
    return rows.drop_columns([LEVEL.name]) if LEVEL.name in rows.column_names else rows


def _cut(parts: list[pa.Table], key: KeyOrder) -> Iterator[list[pa.Table]]:
    """Cut a window into ranges of keys that can be merged concurrently, each small enough for caches."""
    count = sum(map(len, parts)) // _FOLD_ROWS
    longest = max(parts, key=len)
    for number in range(1, count):
        if not len(longest):
            break
        bound = key.key_at(longest, min(len(longest) - 1, len(longest) // (count - number + 1)))
        ends = [key.count_up_to(part, bound) for part in parts]
        yield [part.slice(0, end) for part, end in zip(parts, ends, strict=True) if end]
        longest = longest.slice(key.count_up_to(longest, bound))
        parts = [part.slice(end) for part, end in zip(parts, ends, strict=True) if end < len(part)]
    if parts:
        yield parts


def in_key_order(parts: Sequence[pa.Table], key: KeyOrder) -> list[pa.Table] | None:
    """Return sorted tables in key order if their key ranges do not overlap; None if they do."""
    if len(parts) == 1:
        return list(parts)
    ranges = sorted((key.key_at(rows, 0), key.key_at(rows, len(rows) - 1), n) for n, rows in enumerate(parts))
    if any(before[1] >= after[0] for before, after in pairwise(ranges)):
        return None
    return [parts[n] for _, _, n in ranges]


def _windows(runs: Sequence[Iterable[pa.Table]], spec: MergeRules, memory_bytes: int) -> Iterator[list[pa.Table]]:
    """Yield windows, each as the rows of every run that has some in it."""
    # The other half of the memory is for the merged rows of a window.
    budget = min(memory_bytes // 2, _WINDOW_BYTES_MAX)
    sources = [_Source(run, spec, budget // max(len(runs), 1)) for run in runs]
    with ExitStack() as stack:
        for source in sources:
            stack.callback(source.close)
        while sources:
            _refill(sources, budget)
            bound = min((source.last for source in sources if not source.ended), default=None)
            parts = [rows for source in sources if (rows := source.take_up_to(bound)) is not None]
            if parts:
                yield parts
            sources = [source for source in sources if not (source.ended and source.is_empty)]


def _refill(sources: Sequence[_Source], budget: int) -> None:
    """Read ahead: something of each run, then of the run with the least last key, while there is room in memory."""
    for source in sources:
        if source.is_empty:
            source.fill()
    held = sum(source.bytes for source in sources)
    waiting = [source for source in sources if not source.ended]
    while waiting and held < budget:
        source = min(waiting, key=lambda source: source.last)
        held -= source.bytes
        source.fill()
        held += source.bytes
        if source.ended:
            waiting.remove(source)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some rows of a run, and the key of the last of them."""

    rows: pa.Table
    last: Key
    bytes: int


class _Source:
    """One run: what is held of it, and whether more may come."""

    def __init__(self, run: Iterable[pa.Table], spec: MergeRules, piece_bytes: int) -> None:
        self._tables = iter(run)
        self._spec = spec
        self._piece_bytes = piece_bytes
        self._pieces: deque[_Piece] = deque()
        self._last: Key | None = None  # of all that was read
        self.bytes = 0  # that are held
        self.ended = False

    @property
    def is_empty(self) -> bool:
        """Whether no row is held."""
        return not self._pieces

    @property
    def last(self) -> Key:
        """The last key that is held."""
        return self._pieces[-1].last

    def fill(self) -> None:
        """Hold some more rows, or find the end of the run."""
        key = self._spec.key
        tables, rows, size = [], 0, 0
        for table in self._tables:
            if len(table):
                tables.append(table)
                rows, size = rows + len(table), size + table.nbytes
            if rows >= _PIECE_ROWS or size > self._piece_bytes:
                break
        else:
            self.ended = True
        if not tables:
            return
        piece = pa.concat_tables(tables)
        if not key.is_ascending(piece) or (self._last is not None and key.key_at(piece, 0) <= self._last):
            raise CorruptTableError(
                f"a file of the table {self._spec.table!r} is not sorted by its key {list(key.names)}, or holds a key"
                " twice: merged, it would give wrong rows; write its rows again",
                table=self._spec.table,
                columns=key.names,
            )
        self._last = key.key_at(piece, len(piece) - 1)
        self._pieces.append(_Piece(piece, self._last, size))
        self.bytes += size

    def take_up_to(self, bound: Key | None) -> pa.Table | None:
        """Remove and return the rows whose key is not above the bound, all if it is None; None if there are none."""
        taken: list[pa.Table] = []
        while self._pieces and (bound is None or self._pieces[0].last <= bound):
            taken.append(self._pieces.popleft().rows)
        if self._pieces and bound is not None:
            head = self._pieces[0]
            if count := self._spec.key.count_up_to(head.rows, bound):
                taken.append(head.rows.slice(0, count))
                rest = head.rows.slice(count)
                self._pieces[0] = _Piece(rest, head.last, rest.nbytes)
        self.bytes = sum(piece.bytes for piece in self._pieces)
        return pa.concat_tables(taken) if taken else None

    def close(self) -> None:
        """Close what the run has open."""
        if isinstance(self._tables, Generator):
            self._tables.close()

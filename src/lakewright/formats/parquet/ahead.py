"""Column chunks that are decoded soon in, requests for them side by side out, and their bytes when they are read.

Arrow reads a file object of Python one range after the other, and each range of an object store takes 30 to 100 ms. So
the chunks of the row groups that come next are asked for here, all at once, and Arrow finds them in memory. Chunks that
lie close to each other are one request, because a request costs more than the bytes between them; long ranges are cut
into parts, because one connection gives less than the store.

Always holds: what was not asked for, or was forgotten, is read from the file as if nothing were asked for. Bytes are
held from the request until `forget` names a later row group, so that whoever asks bounds the memory.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple, Protocol, runtime_checkable

import pyarrow as pa

from lakewright.formats.base import Input, scalar_types
from lakewright.spec.types import BYTES_ROOTS, TEXT_ROOTS, DataField
from lakewright.spec.units import KIB, MIB

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
class FarInput(Protocol):
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


def coalesced(wanted: Iterable[Wanted], hole_bytes: int) -> list[Wanted]:
    """Return fewer ranges that hold the same bytes and short holes; each names the last group that needs it.

    >>> coalesced([Wanted(0, 10, 0), Wanted(500, 510, 0), Wanted(12, 20, 1)], hole_bytes=2)
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

    def __init__(self, source: FarInput) -> None:
        self._source = source
        self._size = source.size()
        self._position = 0
        self._held: list[_Held] = []

    def ask(self, wanted: Iterable[Wanted]) -> None:
        """Ask for ranges, side by side, unless they were asked for before; ranges outside of the file are left out."""
        new = [one for one in wanted if 0 <= one.start < one.end <= self._size and self._holding(*one[:2]) is None]
        self._held += [self._begin(one) for one in coalesced(new, HOLE_BYTES)]

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


def far(source: Input) -> AheadInput | None:
    """Return a file with ranges that can be asked for, None for a file that is near."""
    return AheadInput(source) if isinstance(source, FarInput) else None

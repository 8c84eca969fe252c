"""Merging sorted runs piece by piece: streams of keyed tables in, merged keyed tables in key order out.

A run holds each key at most once, ascending. Of every run some tables are held in memory; up to the least of their last
keys nothing more can come, so the rows up to that key, a window, are complete: they are folded and handed on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from lakewright.errors import CorruptTableError
from lakewright.lsm.keys import Key
from lakewright.lsm.merge import MergeSpec
from lakewright.spec.keyed import LEVEL


def windows(runs: Sequence[Iterable[pa.Table]], spec: MergeSpec, *, memory_bytes: int) -> Iterator[pa.Table]:
    """Cut sorted runs into windows: all rows of some keys, not merged and in no order; windows come in key order.

    About `memory_bytes` of rows are held at a time, and at least one table of each run.
    """
    sources = [_Source(run, spec) for run in runs]
    try:
        yield from _windows(sources, memory_bytes)
    finally:
        for source in sources:
            source.close()


def merge_runs(runs: Sequence[Iterable[pa.Table]], spec: MergeSpec, *, memory_bytes: int) -> Iterator[pa.Table]:
    """Merge sorted runs to one; rows that delete are still in it.

    About `memory_bytes` of rows are held at a time, and at least one table of each run.
    """
    sources = [_Source(run, spec) for run in runs]
    try:
        if len(sources) == 1:
            yield from _alone(sources[0])
        else:
            yield from map(spec.fold, _windows(sources, memory_bytes))
    finally:
        for source in sources:
            source.close()


class _Source:
    """One run: what is buffered of it, and whether more may come."""

    def __init__(self, run: Iterable[pa.Table], spec: MergeSpec) -> None:
        self._tables = iter(run)
        self._spec = spec
        self._last: Key | None = None
        self.buffer: list[pa.Table] = []
        self.ended = False

    @property
    def bytes(self) -> int:
        return sum(table.nbytes for table in self.buffer)

    @property
    def last(self) -> Key:
        """The last key that is buffered."""
        if self._last is None:
            raise AssertionError("nothing was read yet")
        return self._last

    def fill(self) -> None:
        """Read one more table that has rows, or find the end."""
        key = self._spec.key
        for table in self._tables:
            if len(table) == 0:
                continue
            if not key.is_ascending(table) or (self._last is not None and key.key_at(table, 0) <= self._last):
                raise CorruptTableError(
                    f"a file of the table {self._spec.table!r} is not sorted by its key {list(key.names)}, or holds a"
                    " key twice: merged, it would give wrong rows; write the file again",
                    table=self._spec.table,
                )
            self._last = key.key_at(table, len(table) - 1)
            self.buffer.append(table)
            return
        self.ended = True

    def take_up_to(self, bound: Key | None) -> list[pa.Table]:
        """Take the buffered rows whose key is not above the bound, None for all."""
        taken: list[pa.Table] = []
        while self.buffer:
            head = self.buffer[0]
            count = len(head) if bound is None else self._spec.key.count_up_to(head, bound)
            taken.append(head.slice(0, count))
            if count < len(head):
                self.buffer[0] = head.slice(count)
                break
            self.buffer.pop(0)
        return [table for table in taken if len(table)]

    def close(self) -> None:
        close = getattr(self._tables, "close", None)
        if close is not None:
            close()


def _alone(source: _Source) -> Iterator[pa.Table]:
    """Pass on the tables of the only run."""
    while not source.ended:
        source.fill()
        for table in source.take_up_to(None):
            yield table.drop_columns([LEVEL.name]) if LEVEL.name in table.column_names else table


def _windows(sources: Sequence[_Source], memory_bytes: int) -> Iterator[pa.Table]:
    while True:
        _refill(sources, memory_bytes)
        open_ends = [source.last for source in sources if not source.ended]
        bound = min(open_ends) if open_ends else None
        window = [table for source in sources for table in source.take_up_to(bound)]
        if window:
            yield pa.concat_tables(window)
        if bound is None:
            return


def _refill(sources: Sequence[_Source], memory_bytes: int) -> None:
    """Read ahead: at least one table of each run, then evenly as long as there is room."""
    for source in sources:
        if not source.buffer and not source.ended:
            source.fill()
    while sum(source.bytes for source in sources) < memory_bytes:
        open_sources = [source for source in sources if not source.ended]
        if not open_sources:
            return
        min(open_sources, key=lambda source: source.last).fill()

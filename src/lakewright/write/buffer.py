"""Groups of rows in, finished data files out, within one memory budget over all partitions and buckets.

Rows wait in memory until they make a worthwhile row group, which is then written into the open file of their bucket.
Over budget, what waits goes to the local disk and comes back when its bucket has enough, or at the end: many
partitions cost disk, not memory, and do not become many small files. Encoding runs in a few threads, and closing files,
which is waiting for a disk or a store, in others; each open file belongs to a lane, and a lane does its work in order,
one piece at a time. Where order inside a bucket has no meaning, a bucket with much data gets several lanes.

`held` counts what the buffer really keeps alive: a batch counts in full until the last of its slices is gone.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from lakewright.formats.rolling import FinishedFile, RollingFile
from lakewright.write.routing import Group
from lakewright.write.spill import Spill
from lakewright.write.task import Place

ROW_GROUP_BYTES = 24 << 20  # in memory; a bucket with this much is written at once
_ROW_GROUP_BYTES_MIN = 4 << 20  # with more buckets than one, row groups may be smaller, but not tiny
_SPILLED_BYTES = 48 << 20  # a bucket with this much, on disk and in memory, is written
_CLOSERS = 8  # threads that close files
_CLOSING_MAX = 16  # files that wait to be closed keep what their store buffers; beyond these, encoders close their own
OPEN_FILES_MAX = 64  # an open file keeps its encoder and what its store buffers: one or two megabytes, or more


@dataclass(frozen=True, slots=True)
class BufferLimits:
    """How much a buffer may use."""

    budget_bytes: int
    threads: int = 1
    spillable: bool = True
    open_files_max: int = OPEN_FILES_MAX


@dataclass(frozen=True, slots=True)
class Written:
    """What a buffer made of the rows of one bucket."""

    files: tuple[FinishedFile, ...]
    changelog: tuple[FinishedFile, ...] = ()


class Buffer(Protocol):
    """Where routed rows wait until they are files. What `finish` returned is the buffer's own until `forget`."""

    @property
    def held_bytes(self) -> int:
        """How many bytes of rows the buffer keeps in memory."""

    def add(self, groups: list[Group]) -> None:
        """Take over the groups of one batch, and empty the list."""

    def settle(self) -> None:
        """Write what waits and close its files, because nothing is expected to follow; what follows gets new files."""

    def finish(self) -> dict[Place, Written]:
        """Write everything and close every file."""

    def forget(self) -> None:
        """Start afresh: the finished files belong to somebody else now."""

    def discard(self) -> list[FinishedFile]:
        """Stop, give up open files, and return the finished ones, which nobody will name any more."""

    def close(self) -> None:
        """Let the threads go."""

    def raise_failure(self) -> None:
        """Raise what a thread ran into since the last call."""


@dataclass(slots=True)
class _Parent:
    """One batch whose slices wait in buckets: it stays in memory until the last of them is gone."""

    bytes: int
    slices: int


@dataclass(frozen=True, slots=True)
class _Piece:
    rows: pa.Table
    bytes: int
    parent: _Parent


@dataclass(frozen=True, slots=True)
class _Work:
    """The rows of one row group: first those on disk, then those in memory."""

    spilled: list[tuple[Spill, int]]
    spilled_bytes: int
    pieces: list[_Piece]


@dataclass(slots=True)
class _Lane:
    """One rolling file and the work that waits for it. A None in the queue closes the file."""

    file: RollingFile
    queue: deque[_Work | None] = field(default_factory=deque)
    running: bool = False
    open: bool = False
    used: int = 0


@dataclass(slots=True)
class _Bucket:
    pieces: list[_Piece] = field(default_factory=list)
    bytes: int = 0
    spilled: list[tuple[Spill, int]] = field(default_factory=list)
    spilled_bytes: int = 0
    written_bytes: int = 0
    lanes: list[_Lane] = field(default_factory=list)


class WriteBuffer:
    """All rows of one writer that are not yet in a finished file."""

    def __init__(
        self, new_rolling_file: Callable[[Place], RollingFile], limits: BufferLimits, *, ordered: bool
    ) -> None:
        self._new_rolling_file = new_rolling_file
        self._limits = limits
        self._budget = limits.budget_bytes
        self._lanes_max = 1 if ordered else limits.threads
        self._inline = limits.threads == 1  # work is done in the caller's thread, in a fixed order
        self._buckets: dict[Place, _Bucket] = {}
        self._pools: tuple[ThreadPoolExecutor, ThreadPoolExecutor] | None = None  # encoders, closers
        self._changed = threading.Condition()
        self._held = 0
        self._running = 0
        self._closing = 0  # how many of the running lanes are with the closers
        self._open = 0
        self._tick = 0
        self._failure: BaseException | None = None

    @property
    def held_bytes(self) -> int:
        """How many bytes of rows the buffer keeps in memory."""
        return self._held

    def add(self, groups: list[Group]) -> None:
        """Take over the groups of one batch; write where there is enough for a row group, spill what is too much."""
        self.raise_failure()
        parent = _Parent(0, len(groups))
        places = []
        for group in groups:
            size = group.rows.nbytes
            parent.bytes += size
            place = (group.partition, group.bucket)
            bucket = self._buckets.setdefault(place, _Bucket())
            bucket.pieces.append(_Piece(group.rows, size, parent))
            bucket.bytes += size
            places.append(place)
        groups.clear()  # or the caller would keep the rows alive that are written and spilled below
        with self._changed:
            self._held += parent.bytes
        enough = self._row_group_bytes()
        for place in places:
            bucket = self._buckets[place]
            if bucket.bytes >= enough or bucket.bytes + bucket.spilled_bytes >= _SPILLED_BYTES:
                self._flush(place)
        if self._held > self._budget:
            self._shrink()

    def settle(self) -> None:
        """Write what waits and close its files; what follows gets new ones."""
        self.raise_failure()
        for place in sorted(self._buckets, key=lambda place: -self._buckets[place].bytes):
            self._flush(place, close=True)
        self._wait(lambda: self._held <= self._budget // 2 or self._running == 0)
        self.raise_failure()

    def finish(self) -> dict[Place, Written]:
        """Write everything, close every file and return the finished files by bucket. `forget` hands them over."""
        self.raise_failure()
        # One bucket with one piece of work is not worth a thread.
        self._inline = self._inline or (self._pools is None and len(self._buckets) == 1)
        for place in sorted(self._buckets, key=lambda place: -self._buckets[place].bytes):
            self._flush(place, close=True)
        self._wait(lambda: self._running == 0)
        self.close()
        self.raise_failure()
        out = {
            place: Written(tuple(done for lane in bucket.lanes for done in lane.file.files))
            for place, bucket in self._buckets.items()
        }
        return {place: written for place, written in out.items() if written.files}

    def forget(self) -> None:
        """Start afresh: the finished files belong to somebody else now."""
        self._buckets = {}
        self._inline = self._limits.threads == 1

    def discard(self) -> list[FinishedFile]:
        """Stop all work, give up open files, and return the finished ones, which nobody will name any more."""
        lanes = self._lanes()
        with self._changed:
            dropped = [work for lane in lanes for work in lane.queue if work is not None]
            for lane in lanes:
                lane.queue.clear()
        for work in dropped:
            _forget_spilled(work.spilled)
        for bucket in self._buckets.values():
            _forget_spilled(bucket.spilled)
        self._wait(lambda: self._running == 0)
        finished = []
        for lane in lanes:
            with suppress(OSError):  # an orphan at worst
                lane.file.discard()
            finished.extend(lane.file.files)
        self._buckets = {}
        self._held = self._open = 0
        return finished

    def close(self) -> None:
        """Let the threads go."""
        for pool in self._pools or ():
            pool.shutdown(wait=True)
        self._pools = None

    def raise_failure(self) -> None:
        """Raise what a thread ran into."""
        if self._failure is not None:
            raise self._failure

    # ---- deciding what to write --------------------------------------------------------------------------------------

    def _row_group_bytes(self) -> int:
        """Return how much of a bucket is worth a row group: less where a few buckets have to share the memory."""
        count = len(self._buckets)
        if count > self._limits.open_files_max:
            return ROW_GROUP_BYTES
        least = min(_ROW_GROUP_BYTES_MIN, self._budget // 4)
        return max(least, min(ROW_GROUP_BYTES, self._budget // (2 * count)))

    def _shrink(self) -> None:
        """Bring the held bytes under the budget: wait for the threads, spill what waits, or both."""
        waiting = sum(bucket.bytes for bucket in self._buckets.values())
        if 2 * waiting < self._held:
            self._wait(lambda: self._held <= self._budget or self._running == 0)
        if self._held > self._budget:
            self._evict()
            self._wait(lambda: self._held <= self._budget or self._running == 0)
        pa.default_memory_pool().release_unused()
        self.raise_failure()

    def _evict(self) -> None:
        """Move everything that waits out of memory."""
        places = [place for place, bucket in self._buckets.items() if bucket.pieces]
        if not self._limits.spillable:
            for place in places:
                self._flush(place)
            return
        if not places:
            return
        buckets = [self._buckets[place] for place in places]
        joined = ([pa.concat_tables(piece.rows for piece in bucket.pieces)] for bucket in buckets)
        spill = Spill(joined, buckets[0].pieces[0].rows.schema)
        for number, bucket in enumerate(buckets):
            bucket.spilled.append((spill, number))
            bucket.spilled_bytes += bucket.bytes
            self._release(bucket.pieces)
            bucket.pieces, bucket.bytes = [], 0

    def _flush(self, place: Place, *, close: bool = False) -> None:
        """Hand what waits in a bucket to one of its lanes."""
        bucket = self._buckets[place]
        if bucket.pieces or bucket.spilled:
            work = _Work(bucket.spilled, bucket.spilled_bytes, bucket.pieces)
            lane = self._lane(place, bucket)
            bucket.written_bytes += bucket.bytes + bucket.spilled_bytes
            bucket.pieces, bucket.spilled = [], []
            bucket.bytes = bucket.spilled_bytes = 0
            self._submit(lane, work)
        for lane in bucket.lanes if close else ():
            self._close_file(lane)

    def _lane(self, place: Place, bucket: _Bucket) -> _Lane:
        """Return the lane for the next row group: an idle one, else a new one, else the one with the least to do."""
        best = min(bucket.lanes, key=lambda lane: len(lane.queue) + lane.running, default=None)
        # Each further file must be worth it: as many row groups were written already as there are files.
        lanes_max = min(self._lanes_max, 1 + bucket.written_bytes // ROW_GROUP_BYTES)
        if best is None or ((best.running or best.queue) and len(bucket.lanes) < lanes_max):
            best = _Lane(self._new_rolling_file(place))
            bucket.lanes.append(best)
        if not best.open:
            if self._open >= self._limits.open_files_max:
                self._close_file(min((lane for lane in self._lanes() if lane.open), key=lambda lane: lane.used))
            best.open = True
            self._open += 1
        self._tick += 1
        best.used = self._tick
        return best

    def _close_file(self, lane: _Lane) -> None:
        if lane.open:
            lane.open = False
            self._open -= 1
            self._submit(lane, None)

    def _lanes(self) -> list[_Lane]:
        return [lane for bucket in self._buckets.values() for lane in bucket.lanes]

    # ---- doing it ----------------------------------------------------------------------------------------------------

    def _submit(self, lane: _Lane, work: _Work | None) -> None:
        with self._changed:
            lane.queue.append(work)
            if lane.running:
                return
            lane.running = True
            self._running += 1
        if self._inline:
            self._drain(lane)
            self.raise_failure()
        else:
            self._start(lane)

    def _start(self, lane: _Lane, *, closer: bool = False) -> None:
        """Have a thread go on with a lane."""
        if self._pools is None:
            self._pools = (
                ThreadPoolExecutor(self._limits.threads, thread_name_prefix="lakewright-write"),
                ThreadPoolExecutor(_CLOSERS, thread_name_prefix="lakewright-close"),
            )
        self._pools[closer].submit(self._drain, lane, closer=closer)

    def _drain(self, lane: _Lane, *, closer: bool = False) -> None:
        """Do the work of one lane until its queue is empty. Never raises: the caller's thread does, later."""
        while True:
            with self._changed:
                if not lane.queue:
                    lane.running = False
                    self._running -= 1
                    self._closing -= closer
                    self._changed.notify_all()
                    return
                if self._is_for_others(lane.queue[0], closer=closer):
                    self._closing += -1 if closer else 1
                    break
                work = lane.queue.popleft()
            try:
                if self._failure is None:
                    self._do(lane.file, work)
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                name_file(error, lane.file.path)
                self._failure = self._failure or error
            if work is not None:
                self._release(work.pieces)
                _forget_spilled(work.spilled)
        self._start(lane, closer=not closer)

    def _is_for_others(self, work: _Work | None, *, closer: bool) -> bool:
        if self._inline:
            return False
        return work is not None if closer else work is None and self._closing < _CLOSING_MAX

    def _do(self, file: RollingFile, work: _Work | None) -> None:
        if work is None:
            file.finish()
            return
        with self._changed:
            self._held += work.spilled_bytes
        try:
            tables = [spill.read(number) for spill, number in work.spilled]
            file.write(pa.concat_tables([*tables, *(piece.rows for piece in work.pieces)]))
        finally:
            with self._changed:
                self._held -= work.spilled_bytes

    def _release(self, pieces: Iterable[_Piece]) -> None:
        """Count slices that are gone."""
        with self._changed:
            for piece in pieces:
                piece.parent.slices -= 1
                if piece.parent.slices == 0:
                    self._held -= piece.parent.bytes
            self._changed.notify_all()

    def _wait(self, done: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(done)


def _forget_spilled(spilled: list[tuple[Spill, int]]) -> None:
    for spill, _ in spilled:
        spill.release()


def name_file(error: BaseException, path: str) -> None:
    """Add to an error which file was being written."""
    if isinstance(error, OSError) and error.errno is not None and error.filename is None:
        error.filename = path
    if path:
        error.add_note(f"while writing {path}")

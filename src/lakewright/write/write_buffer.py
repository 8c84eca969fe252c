"""Groups of rows to data files within one memory budget; spilling to the local disk."""

from __future__ import annotations

import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from lakewright.errors import LakewrightError
from lakewright.formats.data_file_writer import EncodedRows, FinishedFile, RollingFile
from lakewright.write.bucket_routing import RowGroup
from lakewright.write.write_task import PartitionBucket

# ---- Spilling to disk ------------------------------------------------------------------------------------------------
# Each spill is one file without a name, so it is removed once its last table is released, or the process ends. It is
# not compressed, because it is mostly read back from the page cache. A table that is given in parts can be read back
# in these parts, or as one table.


class Spill:
    """One file of spilled tables, read back by number."""

    def __init__(self, tables: Iterable[Iterable[pa.Table]], schema: pa.Schema) -> None:
        """Write tables of one schema, each given in parts; a part is written before the next is taken."""
        self._lock = threading.Lock()
        self._schema = schema
        self._bounds = [0]
        self._file = tempfile.TemporaryFile(prefix="lakewright-")  # noqa: SIM115 - closed with its last table
        try:
            with pa.ipc.new_file(pa.PythonFile(self._file, mode="w"), schema) as writer:
                for parts in tables:
                    self._bounds.append(self._bounds[-1] + sum(_write(part, writer) for part in parts))
            self._reader = pa.ipc.open_file(pa.PythonFile(self._file, mode="r"))
        except BaseException:
            self._file.close()
            raise
        self._left = len(self._bounds) - 1

    @property
    def count(self) -> int:
        """How many tables there are."""
        return len(self._bounds) - 1

    def close(self) -> None:
        """Remove the file, whatever was released."""
        self._file.close()

    def read(self, number: int) -> pa.Table:
        """Return a spilled table by its number, whole."""
        return pa.concat_tables([self._schema.empty_table(), *self.parts(number)])

    def parts(self, number: int) -> Iterator[pa.Table]:
        """Yield the parts of a spilled table, by its number."""
        for at in range(self._bounds[number], self._bounds[number + 1]):
            with self._lock:
                batch = self._reader.get_batch(at)
            yield pa.Table.from_batches([batch])

    def release(self) -> None:
        """Release one of the tables; once all are released, the file is removed."""
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._file.close()


def _write(part: pa.Table, writer: pa.ipc.RecordBatchFileWriter) -> int:
    batches = part.combine_chunks().to_batches()
    for batch in batches:
        writer.write_batch(batch)
    return len(batches)


# ---- The buffer ------------------------------------------------------------------------------------------------------
# Rows stay in memory until there are enough of one bucket for a row group, which is then written into the bucket's
# open file. Over the budget, rows in memory are moved to the local disk and read back when their bucket has enough,
# or at the end. So many partitions cost disk, not memory, and do not make many small files.
#
# Invariant: the rows of a bucket are in its files in order of arrival, whatever the number of threads. Every
# bucket has a lane with one open file. Threads take row groups from the lane in order and encode them at the same
# time; encoded bytes are written once those before them are in the file. Other threads close files, which is mostly
# waiting for the storage.
#
# `held` is the memory that the buffer keeps: a batch counts in full until its last slice is gone, and encoded bytes
# count until they are in their file.

ROW_GROUP_BYTES = 24 << 20  # a bucket with so many bytes of rows in memory is written at once
_ROW_GROUP_BYTES_MIN = 4 << 20  # with several buckets row groups may be smaller, but not smaller than this
_SPILLED_BYTES = 48 << 20  # a bucket with so many bytes on disk and in memory is written
_CLOSERS = 8  # threads that close files
_CLOSING_MAX = 16  # files that wait to be closed keep buffers of their storage; beyond these, encoders close their own
OPEN_FILES_MAX = 64  # an open file keeps its encoder and a buffer of its storage: one or two megabytes, or more


@dataclass(frozen=True, slots=True)
class BufferLimits:
    """How much a buffer may use."""

    budget_bytes: int
    threads: int = 1
    spillable: bool = True
    open_files_max: int = OPEN_FILES_MAX


@dataclass(frozen=True, slots=True)
class FinishedFiles:
    """The files that a buffer wrote for one bucket."""

    files: tuple[FinishedFile, ...]
    changelog: tuple[FinishedFile, ...] = ()


class Buffer(Protocol):
    """Takes routed rows and writes them into files. The files that `finish` returned belong to it until `forget`."""

    @property
    def held_bytes(self) -> int:
        """How many bytes of rows the buffer keeps in memory."""

    def add(self, groups: list[RowGroup]) -> None:
        """Take over the groups of one batch, and empty the list."""

    def flush_all(self) -> None:
        """Write all rows and close all files, because few more are expected; rows that follow get new files."""

    def finish(self) -> dict[PartitionBucket, FinishedFiles]:
        """Write everything and close every file."""

    def forget(self) -> None:
        """Begin again without files: the finished ones belong to the owner of the commit messages."""

    def discard(self) -> list[FinishedFile]:
        """Stop, discard open files, and return the finished ones, which the caller deletes."""

    def close(self) -> None:
        """End the threads."""

    def raise_failure(self) -> None:
        """Raise the error of a thread, if one failed."""


@dataclass(slots=True)
class _Batch:
    """One batch whose slices are in buckets: it stays in memory until its last slice is gone."""

    bytes: int
    slices: int


@dataclass(frozen=True, slots=True)
class _Slice:
    rows: pa.Table
    bytes: int
    batch: _Batch


@dataclass(slots=True)
class _Work:
    """The rows of one row group or more: first those on disk, then those in memory."""

    spilled: list[tuple[Spill, int]]
    spilled_bytes: int
    slices: list[_Slice]
    rows: pa.Table = None  # those that no thread has taken yet, once they are read
    taken: int = 0  # pieces that are being encoded


@dataclass(slots=True)
class _EncoderThread:
    """The files of one bucket, and the queue of rows to write to them. A None in the queue closes the open file."""

    file: RollingFile
    queue: deque[_Work | None] = field(default_factory=deque)
    threads: int = 0  # that work on the lane
    taking: bool = False  # one of them takes rows from the queue
    appending: bool = False  # one of them writes to the file
    closing: bool = False
    taken: int = 0  # how many pieces were taken from the queue
    appended: int = 0  # how many of them are in the file
    encoded: dict[int, EncodedRows] = field(default_factory=dict)  # by number, pieces that cannot be appended yet
    open: bool = False
    used: int = 0


@dataclass(slots=True)
class _Bucket:
    lane: _EncoderThread
    slices: list[_Slice] = field(default_factory=list)
    bytes: int = 0
    spilled: list[tuple[Spill, int]] = field(default_factory=list)
    spilled_bytes: int = 0


class WriteBuffer:
    """The buffer of append tables: rows of one writer that are not in a finished file yet."""

    def __init__(self, new_rolling_file: Callable[[PartitionBucket], RollingFile], limits: BufferLimits) -> None:
        self._new_rolling_file = new_rolling_file
        self._limits = limits
        self._budget = limits.budget_bytes
        self._inline = limits.threads == 1  # work is done in the caller's thread, in a fixed order
        self._buckets: dict[PartitionBucket, _Bucket] = {}
        self._pools: tuple[ThreadPoolExecutor, ThreadPoolExecutor] | None = None  # encoders, closers
        self._changed = threading.Condition()
        self._held = 0
        self._running = 0  # threads that work on a lane, or are submitted for it
        self._closing = 0  # files that the closers have to close
        self._open = 0
        self._tick = 0
        self._failure: BaseException | None = None

    @property
    def held_bytes(self) -> int:
        """How many bytes of rows the buffer keeps in memory."""
        return self._held

    def add(self, groups: list[RowGroup]) -> None:
        """Take the groups of one batch; write buckets that have enough for a row group, spill if memory is short."""
        self.raise_failure()
        batch = _Batch(0, len(groups))
        places = []
        for group in groups:
            size = group.rows.nbytes
            batch.bytes += size
            place = (group.partition, group.bucket)
            bucket = self._buckets.get(place)
            if bucket is None:
                bucket = self._buckets[place] = _Bucket(_EncoderThread(self._new_rolling_file(place)))
            bucket.slices.append(_Slice(group.rows, size, batch))
            bucket.bytes += size
            places.append(place)
        groups.clear()  # otherwise the caller's list keeps the rows in memory that are written and spilled below
        with self._changed:
            self._held += batch.bytes
        enough = self._row_group_bytes()
        for place in places:
            bucket = self._buckets[place]
            if bucket.bytes >= enough or bucket.bytes + bucket.spilled_bytes >= _SPILLED_BYTES:
                self._flush(place)
        if self._held > self._budget:
            self._shrink()

    def flush_all(self) -> None:
        """Write all rows and close all files; rows that follow get new files."""
        self.raise_failure()
        for place in sorted(self._buckets, key=lambda place: -self._buckets[place].bytes):
            self._flush(place, close=True)
        self._wait(lambda: self._held <= self._budget // 2 or self._running == 0)
        self.raise_failure()

    def finish(self) -> dict[PartitionBucket, FinishedFiles]:
        """Write everything, close every file and return the finished files by bucket. `forget` hands them over."""
        self.raise_failure()
        # A single bucket whose rows are all in memory is not worth a thread.
        self._inline = self._inline or (self._pools is None and len(self._buckets) == 1)
        for place in sorted(self._buckets, key=lambda place: -self._buckets[place].bytes):
            self._flush(place, close=True)
        self._wait(lambda: self._running == 0)
        self.close()
        self.raise_failure()
        out = {place: FinishedFiles(tuple(bucket.lane.file.files)) for place, bucket in self._buckets.items()}
        return {place: written for place, written in out.items() if written.files}

    def forget(self) -> None:
        """Begin again without files: the finished ones belong to the owner of the commit messages."""
        self._buckets = {}
        self._inline = self._limits.threads == 1

    def discard(self) -> list[FinishedFile]:
        """Stop all work, discard open files, and return the finished ones, which the caller deletes."""
        lanes = [bucket.lane for bucket in self._buckets.values()]
        with self._changed:
            for lane in lanes:
                self._drop(lane)
        for bucket in self._buckets.values():
            _release_spilled(bucket.spilled)
        self._wait(lambda: self._running == 0)
        finished = []
        for lane in lanes:
            with suppress(OSError):  # what cannot be deleted is found by the removal of orphans
                lane.file.discard()
            finished.extend(lane.file.files)
        self._buckets = {}
        self._held = self._open = 0
        return finished

    def close(self) -> None:
        """End the threads."""
        for pool in self._pools or ():
            pool.shutdown(wait=True)
        self._pools = None

    def raise_failure(self) -> None:
        """Raise the error of a thread, if one failed."""
        if self._failure is not None:
            raise self._failure

    # ---- deciding what to write --------------------------------------------------------------------------------------

    def _row_group_bytes(self) -> int:
        """Return how many bytes of a bucket are written as a row group: fewer where some buckets share the memory."""
        count = len(self._buckets)
        if count > self._limits.open_files_max:
            return ROW_GROUP_BYTES
        least = min(_ROW_GROUP_BYTES_MIN, self._budget // 4)
        return max(least, min(ROW_GROUP_BYTES, self._budget // (2 * count)))

    def _shrink(self) -> None:
        """Bring the held bytes under the budget: wait for the threads, spill rows that no thread has, or both."""
        waiting = sum(bucket.bytes for bucket in self._buckets.values())
        if 2 * waiting < self._held:
            self._wait(lambda: self._held <= self._budget or self._running == 0)
        if self._held > self._budget:
            self._evict()
            self._wait(lambda: self._held <= self._budget or self._running == 0)
        pa.default_memory_pool().release_unused()
        self.raise_failure()

    def _evict(self) -> None:
        """Spill all rows that no thread has; where spilling is forbidden, write them."""
        places = [place for place, bucket in self._buckets.items() if bucket.slices]
        if not self._limits.spillable:
            for place in places:
                self._flush(place)
            return
        if not places:
            return
        buckets = [self._buckets[place] for place in places]
        joined = ([pa.concat_tables(one.rows for one in bucket.slices)] for bucket in buckets)
        spill = Spill(joined, buckets[0].slices[0].rows.schema)
        for number, bucket in enumerate(buckets):
            bucket.spilled.append((spill, number))
            bucket.spilled_bytes += bucket.bytes
            with self._changed:
                self._release(bucket.slices)
            bucket.slices, bucket.bytes = [], 0

    def _flush(self, place: PartitionBucket, *, close: bool = False) -> None:
        """Put the rows of a bucket into the queue of its lane."""
        bucket = self._buckets[place]
        if bucket.slices or bucket.spilled:
            work = _Work(bucket.spilled, bucket.spilled_bytes, bucket.slices)
            bucket.slices, bucket.spilled = [], []
            bucket.bytes = bucket.spilled_bytes = 0
            self._use(bucket.lane)
            self._submit(bucket.lane, work)
        if close:
            self._close_file(bucket.lane)

    def _use(self, lane: _EncoderThread) -> None:
        """Count the file of a lane as open; if there are too many, close the one that was unused for longest."""
        if not lane.open:
            if self._open >= self._limits.open_files_max:
                lanes = (bucket.lane for bucket in self._buckets.values())
                self._close_file(min((one for one in lanes if one.open), key=lambda one: one.used))
            lane.open = True
            self._open += 1
        self._tick += 1
        lane.used = self._tick

    def _close_file(self, lane: _EncoderThread) -> None:
        if lane.open:
            lane.open = False
            self._open -= 1
            self._submit(lane, None)

    # ---- encoding and writing ----------------------------------------------------------------------------------------

    def _submit(self, lane: _EncoderThread, work: _Work | None) -> None:
        with self._changed:
            lane.queue.append(work)
            # The threads that work on the lane also close its file.
            if work is None and lane.threads:
                return
            starts = self._join(lane)
        if self._inline and starts:
            self._drain(lane)
            self.raise_failure()

    def _join(self, lane: _EncoderThread) -> bool:
        """Let one more thread work on a lane, unless it has the most it may have; the caller holds the lock."""
        if lane.threads >= (1 if self._inline else self._limits.threads) or lane.closing:
            return False
        lane.threads += 1
        self._running += 1
        if not self._inline:
            self._pool(closer=False).submit(self._drain, lane)
        return True

    def _pool(self, *, closer: bool) -> ThreadPoolExecutor:
        if self._pools is None:
            self._pools = (
                ThreadPoolExecutor(self._limits.threads, thread_name_prefix="lakewright-write"),
                ThreadPoolExecutor(_CLOSERS, thread_name_prefix="lakewright-close"),
            )
        return self._pools[closer]

    def _drain(self, lane: _EncoderThread) -> None:
        """Work on a lane until nothing is left to do. Errors are kept, and raised in the caller's thread later."""
        while True:
            with self._changed:
                step = self._next_step(lane)
                if step is None:
                    lane.threads -= 1
                    self._running -= 1
                    self._changed.notify_all()
                    return
            self._try(step, lane)

    def _try(self, step: Callable[[_EncoderThread], None], lane: _EncoderThread) -> None:
        try:
            step(lane)
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            name_file(error, lane.file.path)
            self._failure = self._failure or error

    def _next_step(self, lane: _EncoderThread) -> Callable[[_EncoderThread], None] | None:
        """Return the next step that a thread can take for a lane, and mark it as begun; the caller holds the lock."""
        if self._failure is not None:
            self._drop(lane)
            return None
        if lane.closing:
            return None
        if lane.appended in lane.encoded and not lane.appending:
            lane.appending = True
            return self._append
        under_way = lane.taken - lane.appended
        if lane.taking or not lane.queue or under_way > self._limits.threads:
            return None
        if lane.queue[0] is not None:
            lane.taking = True
            return self._encode
        if under_way:
            return None
        lane.queue.popleft()
        lane.closing = True
        if self._inline or self._closing >= _CLOSING_MAX:
            return self._finish_file
        self._closing += 1
        self._running += 1
        self._pool(closer=True).submit(self._finish_elsewhere, lane)
        return None

    def _encode(self, lane: _EncoderThread) -> None:
        """Take the next rows from the queue and encode them."""
        try:
            work, piece = self._take(lane)
        finally:
            with self._changed:
                number = lane.taken
                lane.taken += 1
                lane.taking = False
                if lane.queue:  # threads that found `taking` set have ended
                    self._join(lane)
        encoded = piece.encode()
        with self._changed:
            lane.encoded[number] = piece
            self._held += encoded.nbytes
            work.taken -= 1
            if work.taken == 0 and work.rows is None:
                self._release_work(work)

    def _take(self, lane: _EncoderThread) -> tuple[_Work, EncodedRows]:
        """Take as many rows from the head of the queue as go into one file together, reading spilled ones back."""
        work = lane.queue[0]
        if work is None:
            raise LakewrightError("a thread took rows where the file was to be closed")
        if work.rows is None:
            with self._changed:
                self._held += work.spilled_bytes
            tables = [spill.read(number) for spill, number in work.spilled]
            work.rows = pa.concat_tables([*tables, *(one.rows for one in work.slices)])
        piece = lane.file.next_piece(work.rows)
        left = work.rows.slice(piece.rows.num_rows)
        with self._changed:
            work.taken += 1
            work.rows = left if left.num_rows else None
            if work.rows is None:
                lane.queue.popleft()
        return work, piece

    def _append(self, lane: _EncoderThread) -> None:
        """Put the next encoded bytes into the file."""
        piece = lane.encoded[lane.appended]
        try:
            lane.file.append(piece)
        finally:
            with self._changed:
                self._held -= 0 if piece.encoded is None else piece.encoded.nbytes
                del lane.encoded[lane.appended]
                lane.appended += 1
                lane.appending = False
                if lane.queue:
                    self._join(lane)
                self._changed.notify_all()

    def _finish_file(self, lane: _EncoderThread) -> None:
        try:
            lane.file.finish()
        finally:
            with self._changed:
                lane.closing = False

    def _finish_elsewhere(self, lane: _EncoderThread) -> None:
        self._try(self._finish_file, lane)
        with self._changed:
            self._closing -= 1
            self._running -= 1
            if lane.queue:
                self._join(lane)
            self._changed.notify_all()

    def _drop(self, lane: _EncoderThread) -> None:
        """Empty the queue of a lane, and release what it spilled; the caller holds the lock."""
        for work in lane.queue:
            if work is not None and work.rows is None and not work.taken:
                _release_spilled(work.spilled)
        lane.queue.clear()

    def _release_work(self, work: _Work) -> None:
        """Release the rows of a queue item once all are encoded; the caller holds the lock."""
        self._held -= work.spilled_bytes
        self._release(work.slices)
        _release_spilled(work.spilled)

    def _release(self, slices: Iterable[_Slice]) -> None:
        """Subtract batches from `held` whose last slices these are; the caller holds the lock."""
        for one in slices:
            one.batch.slices -= 1
            if one.batch.slices == 0:
                self._held -= one.batch.bytes
        self._changed.notify_all()

    def _wait(self, done: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(done)


def _release_spilled(spilled: list[tuple[Spill, int]]) -> None:
    for spill, _ in spilled:
        spill.release()


def name_file(error: BaseException, path: str) -> None:
    """Add to an error which file was being written."""
    if isinstance(error, OSError) and error.errno is not None and error.filename is None:
        error.filename = path
    if path:
        error.add_note(f"while writing {path}")

"""Rows of a keyed table to sorted level-0 files.

Every row gets the next sequence number of its bucket when it arrives. With `retracts_first` rows that are added get
higher numbers than all rows that are taken away, so that their order of arrival does not matter.

Rows are held in memory. Once they exceed the budget, all of them are merged by key and spilled to the local disk as
sorted runs, one per bucket; at the end the runs of a bucket are merged into its files. So one commit makes one sorted
run per bucket, however much it writes. Where spilling is forbidden, the rows in memory are written to data files
instead, and a bucket gets several sorted runs. It also does where rows of one key can only be merged together with
older ones (`MergeSpec.fold_apart`).

Buckets are merged and encoded in a few threads, because sorting, gathering and encoding release Python's lock.

With `changelog-producer` = input all rows also go, unmerged, into changelog files, sorted by key and sequence number.
Rows that were spilled together are in one file, and later files hold later rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakewright.formats.data_file_writer import FinishedFile, RollingFile
from lakewright.lsm.key_groups import take_sorted_rows
from lakewright.lsm.merge_rows import MergeRules, has_retracts, merge_order
from lakewright.lsm.normalized_keys import UInt64Array
from lakewright.lsm.sorted_runs import merge_runs
from lakewright.spec.system_columns import SEQUENCE_NUMBER, VALUE_KIND
from lakewright.write.bucket_routing import RowGroup
from lakewright.write.write_buffer import BufferLimits, FinishedFiles, Spill, name_file
from lakewright.write.write_task import PartitionBucket

ADDITIONS_FROM = 1 << 31  # what is added to the numbers of added rows where retracts come first
RUNS_MAX = 64  # a bucket with more runs on disk is merged before it gets another
_CLOSERS = 8  # threads that close files; they mostly wait for the storage


@dataclass(frozen=True, slots=True)
class PartSize:
    """How many rows of a bucket, and how many bytes, are gathered and merged at a time."""

    rows: int
    bytes: int

    def rows_of(self, table: pa.Table) -> int:
        """Return how many rows of a table make a part."""
        fitting: int = self.bytes * table.num_rows // max(1, table.nbytes)
        return max(1, min(self.rows, fitting))


ROW_GROUP = PartSize(1 << 17, 24 << 20)
RUN_PART = PartSize(1 << 14, 1 << 20)  # what a merge reads of a spilled run at a time


@dataclass(frozen=True, slots=True)
class _Run:
    """A sorted run on the local disk."""

    spill: Spill
    number: int

    def parts(self) -> Iterator[pa.Table]:
        return self.spill.parts(self.number)


@dataclass(slots=True)
class _Piece:
    """Rows of one batch with their sequence numbers; `at`: only those at these positions belong to the bucket."""

    rows: pa.Table
    at: UInt64Array | None = None

    @property
    def count(self) -> int:
        return self.rows.num_rows if self.at is None else len(self.at)

    @property
    def nbytes(self) -> int:
        size: int = self.rows.nbytes
        return size if self.at is None else size * len(self.at) // max(1, self.rows.num_rows)


@dataclass(slots=True)
class _Bucket:
    """The rows of one bucket that are not yet in a file, and its files."""

    file: RollingFile
    changelog: RollingFile | None
    pieces: list[_Piece] = field(default_factory=list)
    runs: list[_Run] = field(default_factory=list)
    apart: list[list[pa.Table]] = field(default_factory=list)  # runs of older rows, the latest first, in parts

    def take_rows(self) -> _Piece:
        pieces, self.pieces = self.pieces, []
        return pieces[0] if len(pieces) == 1 else _Piece(pa.concat_tables([piece.rows for piece in pieces]))


class KeyedBuffer:
    """All rows of one writer of a primary-key table that are not yet in a finished file."""

    def __init__(
        self,
        spec: MergeRules,
        new_files: Callable[[PartitionBucket], tuple[RollingFile, RollingFile | None]],
        first_sequence: Callable[[PartitionBucket], int],
        limits: BufferLimits,
        *,
        retracts_first: bool = False,
    ) -> None:
        """Make a buffer; `new_files` opens a bucket's data and changelog files, `first_sequence` starts its numbers."""
        self._retracts_first = retracts_first
        self._spec = spec
        self._new_files = new_files
        self._first_sequence = first_sequence
        self._limits = limits
        self._next: dict[PartitionBucket, int] = {}  # the sequence number of the next row of a bucket
        self._buckets: dict[PartitionBucket, _Bucket] = {}
        self._held = 0

    @property
    def held_bytes(self) -> int:
        """How many bytes of rows the buffer keeps in memory."""
        return self._held

    def add(self, groups: list[RowGroup]) -> None:
        """Give the rows of one batch their sequence numbers and keep them; over the budget, move rows to a disk."""
        places = [(group.partition, group.bucket) for group in groups]
        for place in places:
            if place not in self._buckets:
                # Files that this writer finished before may not be in a snapshot yet, so their numbers count too.
                self._next[place] = max(self._next.get(place, 0), self._first_sequence(place))
                self._buckets[place] = _Bucket(*self._new_files(place))
        pieces = list(self._number_rows(places, groups))
        if self._held:  # rows of several batches are sorted together, so those of each are gathered by bucket first
            self._gather_held()
            pieces = _gathered_pieces(pieces)
        for place, piece in zip(places, pieces, strict=True):
            self._buckets[place].pieces.append(piece)
            self._held += piece.nbytes
        groups.clear()
        if self._held > self._limits.budget_bytes:
            self._shrink()

    def flush_all(self) -> None:
        """Merge all rows by key and write them into files; rows that follow in these buckets get new sorted runs."""
        self._write([bucket for bucket in self._buckets.values() if bucket.pieces or bucket.runs])
        pa.default_memory_pool().release_unused()

    def finish(self) -> dict[PartitionBucket, FinishedFiles]:
        """Merge and write all rows, and return the finished files by bucket; `forget` follows."""
        self._write([bucket for bucket in self._buckets.values() if bucket.pieces or bucket.runs])
        out = {
            place: FinishedFiles(tuple(bucket.file.files), tuple(bucket.changelog.files if bucket.changelog else ()))
            for place, bucket in self._buckets.items()
        }
        return {place: written for place, written in out.items() if written.files or written.changelog}

    def forget(self) -> None:
        """Start with no rows and no files: the finished files are in commit messages, and `discard` omits them."""
        self._buckets = {}

    def discard(self) -> list[FinishedFile]:
        """Drop all rows and unfinished files, and return the finished files, which the caller must remove."""
        buckets = self._buckets.values()
        for bucket in buckets:
            _release(bucket.runs)
        files = [file for bucket in buckets for file in (bucket.file, bucket.changelog) if file is not None]
        for file in files:
            with suppress(OSError):  # a file that cannot be removed is an orphan, which the removal of orphans finds
                file.discard()
        self._buckets = {}
        self._held = 0
        return [finished for file in files for finished in file.files]

    def close(self) -> None:
        """Do nothing: no thread outlives a call."""

    def raise_failure(self) -> None:
        """Do nothing: no work goes on between calls, so every failure is raised by the call itself."""

    # ---- rows in -----------------------------------------------------------------------------------------------------

    def _number_rows(self, places: Sequence[PartitionBucket], groups: Sequence[RowGroup]) -> Iterator[_Piece]:
        """Return the rows of groups with their sequence numbers; groups that share their rows still do."""
        shared = groups[0].rows if groups and groups[0].at is not None else None
        numbers = np.empty(0 if shared is None else shared.num_rows, np.int64)
        for place, group in zip(places, groups, strict=True):
            first = self._next[place]
            self._next[place] = first + group.count
            own = np.arange(first, first + group.count, dtype=np.int64)
            if shared is None:
                yield _Piece(_with_numbers(group.rows, self._order_numbers(group.rows, own)))
            else:
                numbers[group.at] = own
        if shared is not None:
            rows = _with_numbers(shared, self._order_numbers(shared, numbers))
            yield from (_Piece(rows, group.at) for group in groups)

    def _order_numbers(self, rows: pa.Table, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        if not self._retracts_first:
            return numbers
        adds: npt.NDArray[np.bool_] = (rows.column(VALUE_KIND.name).to_numpy() & 1) == 0  # -U and -D have odd numbers
        return numbers + np.where(adds, ADDITIONS_FROM, 0)

    def _gather_held(self) -> None:
        """Gather the rows of the first batch by bucket, if they still lie as they came."""
        buckets = [bucket for bucket in self._buckets.values() if bucket.pieces and bucket.pieces[0].at is not None]
        for bucket, piece in zip(buckets, _gathered_pieces([bucket.pieces[0] for bucket in buckets]), strict=True):
            bucket.pieces = [piece]

    def _shrink(self) -> None:
        """Move all rows out of memory: groups of one batch share memory, which is free once all of them are gone."""
        buckets = [bucket for bucket in self._buckets.values() if bucket.pieces]
        # Spilled runs are merged with each other, which loses what rows do that must stay apart.
        apart = [bucket for bucket in buckets if not self._limits.spillable or self._keeps_apart(bucket)]
        if apart:
            self._write(apart)
        if spilled := [bucket for bucket in buckets if bucket.pieces]:
            self._spill(spilled)
        self._held = 0
        pa.default_memory_pool().release_unused()

    # ---- spilling ----------------------------------------------------------------------------------------------------

    def _spill(self, buckets: Sequence[_Bucket]) -> None:
        schema = buckets[0].pieces[0].rows.schema
        spill = Spill((self._fold_in_memory(bucket, RUN_PART) for bucket in buckets), schema)
        for number, bucket in enumerate(buckets):
            bucket.runs.append(_Run(spill, number))
            if len(bucket.runs) >= RUNS_MAX:
                merged = Spill([self._merge_runs_in_budget(bucket.runs)], schema)
                _release(bucket.runs)
                bucket.runs = [_Run(merged, 0)]

    def _fold_in_memory(self, bucket: _Bucket, size: PartSize) -> Iterator[pa.Table]:
        """Merge the rows in memory, part by part in key order; with a changelog, first write each part unmerged to it.

        There is never a second copy of all rows: each part is gathered, merged and yielded before the next. Rows that
        cannot be merged with later ones of their key are not yielded, but gathered in `bucket.apart`.
        """
        piece = bucket.take_rows()
        for part in merge_order(piece.rows, self._spec, piece.at).parts(size.rows_of(piece.rows)):
            if bucket.changelog is None and self._spec.function is None:
                yield self._spec.fold_groups(part)  # gathers only the rows that win
                continue
            gathered = part.gather_rows()
            if bucket.changelog is not None:
                bucket.changelog.write(gathered.rows)
            *older, latest = self._spec.fold_apart(gathered)
            for back, rows in enumerate(reversed(older)):
                if back == len(bucket.apart):
                    bucket.apart.append([])
                bucket.apart[back].append(rows)
            yield latest
        if bucket.changelog is not None:
            bucket.changelog.finish()

    def _keeps_apart(self, bucket: _Bucket) -> bool:
        """Whether the rows in memory have some that cannot be merged without the older rows of their keys."""
        return self._spec.keeps_apart and any(has_retracts(piece.rows) for piece in bucket.pieces)

    def _merge_runs_in_budget(self, runs: Sequence[_Run], last: Iterable[pa.Table] = ()) -> Iterator[pa.Table]:
        streams = [*(run.parts() for run in runs), last]
        memory = self._limits.budget_bytes // (4 * self._limits.threads)
        return merge_runs(streams, self._spec, memory_bytes=memory)

    # ---- files out ---------------------------------------------------------------------------------------------------

    def _write(self, buckets: Sequence[_Bucket]) -> None:
        """Write all rows of some buckets, the largest first."""
        buckets = sorted(buckets, key=lambda bucket: -sum(piece.count for piece in bucket.pieces))
        threads = min(self._limits.threads, len(buckets))
        if threads <= 1:
            for bucket in buckets:
                self._encode(bucket)
                _close(bucket)
        else:
            self._write_in_threads(buckets, threads)
        self._held = 0

    def _write_in_threads(self, buckets: Sequence[_Bucket], threads: int) -> None:
        with (
            ThreadPoolExecutor(_CLOSERS, thread_name_prefix="lakewright-close") as closers,
            ThreadPoolExecutor(threads, thread_name_prefix="lakewright-write") as encoders,
        ):
            closing: list[Future[None]] = []

            def write(bucket: _Bucket) -> None:
                self._encode(bucket)
                closing.append(closers.submit(_close, bucket))

            encoding = [encoders.submit(write, bucket) for bucket in buckets]
            try:
                for future in encoding:
                    future.result()
                for future in closing:
                    future.result()
            except BaseException:
                for future in (*encoding, *closing):
                    future.cancel()
                raise

    def _encode(self, bucket: _Bucket) -> None:
        try:
            if bucket.runs and self._keeps_apart(bucket):
                for part in _gather_tables(self._merge_runs_in_budget(bucket.runs)):
                    bucket.file.write(part)
                bucket.file.finish()
                _release(bucket.runs)
                bucket.runs = []
            rows: Iterable[pa.Table] = self._fold_in_memory(bucket, ROW_GROUP) if bucket.pieces else ()
            if bucket.runs:
                rows = _gather_tables(self._merge_runs_in_budget(bucket.runs, rows))
            for part in rows:
                bucket.file.write(part)
            while bucket.apart:
                bucket.file.finish()  # each run begins a new file
                for part in bucket.apart.pop():
                    bucket.file.write(part)
        except BaseException as error:
            name_file(error, bucket.file.path)
            raise
        _release(bucket.runs)
        bucket.runs = []


def _with_numbers(rows: pa.Table, numbers: npt.NDArray[np.int64]) -> pa.Table:
    return pa.table([pa.array(numbers), *rows.columns], names=[SEQUENCE_NUMBER.name, *rows.column_names])


def _gathered_pieces(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Return the pieces of one batch by bucket: if they share their rows, all are gathered in one go."""
    shared = [piece.at for piece in pieces if piece.at is not None]
    if not shared:
        return list(pieces)
    rows, start = take_sorted_rows(pieces[0].rows, np.concatenate(shared)), 0
    gathered: list[_Piece] = []
    for piece in pieces:
        gathered.append(_Piece(rows.slice(start, piece.count)))
        start += piece.count
    return gathered


def _close(bucket: _Bucket) -> None:
    try:
        bucket.file.finish()
    except BaseException as error:
        name_file(error, bucket.file.path)
        raise


def _release(runs: Iterable[_Run]) -> None:
    for run in runs:
        run.spill.release()


def _gather_tables(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Join small tables into tables of about the size of a row group."""
    parts: list[pa.Table] = []
    for table in tables:
        parts.append(table)
        if sum(part.nbytes for part in parts) >= ROW_GROUP.bytes:
            yield pa.concat_tables(parts)
            parts = []
    if parts:
        yield pa.concat_tables(parts)

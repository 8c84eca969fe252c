"""Files and deletion vectors that a rewrite makes."""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakewright.commit.commit_changes import delete_files_of, files_of_messages
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.commit_plan import PartitionSelection, live_files
from lakewright.compact.compaction_plan import CompactTask, PartitionBucket, vectors_of
from lakewright.errors import LakewrightError
from lakewright.formats.data_file_writer import (
    EncodedRows,
    FilePlan,
    NewFile,
    RollingBlobFile,
    RollingFile,
    SequenceNumbers,
    wall_clock_ms,
)
from lakewright.formats.deletion_vectors import (
    Positions,
    decode_deletion_vector,
    distinct,
    encode_deletion_vectors,
    pack_records,
    read_deletion_vector,
    record_at,
)
from lakewright.metadata.table_store import TableStore
from lakewright.read.blob_columns import storages_of
from lakewright.read.data_split import DeletionFile
from lakewright.spec.manifest import DELETION_VECTORS, DataFile, DeletionRange, IndexFile
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.table_schema import BucketMode
from lakewright.storage.concurrency import map_in_order
from lakewright.storage.table_layout import check_file_name

# ---- Output files ----------------------------------------------------------------------------------------------------

GROUP_BYTES = 16 << 20  # rows are handed to a file in groups of this much memory


class BucketOutput:
    """The new files of one bucket: gives them names, and can delete them all."""

    def __init__(
        self,
        store: TableStore,
        place: tuple[bytes, int],
        clock_ms: Callable[[], int] = wall_clock_ms,
        new_uuid: Callable[[], uuid.UUID | str] = uuid.uuid4,
    ) -> None:
        store.check_new_files()
        self._store = store
        self._place = place
        self.directory = store.layout.bucket_directory(store.partition_directory(place[0]), place[1])
        self._clock_ms = clock_ms
        self.stem = str(new_uuid())
        self._counter = itertools.count()
        self._open: list[GroupedRows] = []
        self._other_paths: list[str] = []

    def open(
        self, plan: FilePlan, *, group_bytes: int = GROUP_BYTES, numbers: SequenceNumbers | None = None
    ) -> GroupedRows:
        """Return a sink of rows that become files of a plan; `numbers` are for rows without sequence numbers."""
        rolling = RollingFile(plan, self._new_file, numbers, self._clock_ms, storages_of(self._store))
        sink = GroupedRows(rolling, min(group_bytes, GROUP_BYTES))
        self._open.append(sink)
        return sink

    def write_blobs(self, plan: FilePlan, rows: pa.Table, kept: npt.NDArray[np.bool_] | None) -> DataFile:
        """Write the values of a BLOB column into one file; those that are `kept` are in older files."""
        rolling = RollingBlobFile(plan, self._new_file, self._clock_ms, storages_of(self._store))
        try:
            rolling.write(rows, kept)
            rolling.finish()
        except BaseException:
            rolling.discard()
            raise
        (done,) = rolling.files
        self.add_path(done.path)
        return done.facts

    def add_path(self, path: str) -> None:
        """Let `discard` delete a file too that was written by other means."""
        self._other_paths.append(path)

    def discard(self) -> None:
        """Remove everything that was written."""
        for sink in self._open:
            sink.rolling.discard()
        finished = [done.path for sink in self._open for done in sink.rolling.files]
        for path in (*finished, *self._other_paths):
            # What cannot be removed is an orphan, which the removal of orphans finds.
            with suppress(OSError):
                self._store.storage.delete(path)

    def _new_file(self, plan: FilePlan) -> NewFile:
        number = next(self._counter)
        name = check_file_name(plan.file_name(f"{self.stem}-{number}"))
        path, external = self._store.new_data_file(self._place, name, number)
        return NewFile(name, path, self._store.storage.open_output(path), external)


class GroupedRows:
    """Gathers rows, so that what comes in small pieces is not written in small row groups."""

    def __init__(self, rolling: RollingFile, group_bytes: int) -> None:
        self.rolling = rolling
        self._group_bytes = group_bytes
        self._waiting: list[pa.Table] = []
        self._bytes = 0

    def write(self, rows: pa.Table) -> None:
        """Take rows in the order of the file."""
        if rows.num_rows == 0:
            return
        self._waiting.append(rows)
        self._bytes += rows.nbytes
        if self._bytes >= self._group_bytes:
            self._flush()

    def write_encoded(self, groups: Iterator[pa.Table], threads: int) -> None:
        """Write large groups of rows, each a row group or more; threads encode some of them while others are made."""
        self._flush()
        for piece in map_in_order(threads, _encode_piece, self._pieces(groups)):
            self.rolling.append(piece)

    def _pieces(self, groups: Iterator[pa.Table]) -> Iterator[EncodedRows]:
        for rows in groups:
            start = 0
            while start < rows.num_rows:
                piece = self.rolling.next_piece(rows.slice(start))
                start += piece.rows.num_rows
                yield piece

    def finish(self) -> tuple[DataFile, ...]:
        """Write what waits, close the file and return all of them."""
        self._flush()
        self.rolling.finish()
        return tuple(done.facts for done in self.rolling.files)

    def _flush(self) -> None:
        if self._waiting:
            self.rolling.write(pa.concat_tables(self._waiting))
        self._waiting, self._bytes = [], 0


def _encode_piece(piece: EncodedRows) -> EncodedRows:
    piece.encode()
    return piece


# ---- Deletion vectors of a bucket ------------------------------------------------------------------------------------
# A bucket of a primary-key table has one index file with the vectors of all its data files. A compaction that changes
# any of them writes a new index file with all vectors: those it did not change are copied, those of files that it
# rewrote are left out. In an append table several compactions may change one index file, so the new one is written
# once, when all of them are done.


def deletions_of(
    store: TableStore, place: PartitionBucket, vectors: Iterable[IndexFile]
) -> dict[tuple[bytes, str], DeletionFile]:
    """Return where the deletion vectors of a bucket are stored, by partition and data file, for its reader."""
    directory = store.layout.bucket_directory(store.partition_directory(place[0]), place[1])
    return {
        (place[0], r.data_file): DeletionFile(
            store.layout.index_file(file, directory), r.offset, r.length, r.cardinality
        )
        for file in vectors
        for r in file.deletion_ranges or ()
    }


def write_vectors(store: TableStore, output: BucketOutput, vectors: Mapping[str, Positions]) -> IndexFile:
    """Write an index file with the vectors of some data files, named `index-<stem>-0` after the output."""
    bitmap64 = store.options.deletion_vectors_bitmap64
    data, ranges = encode_deletion_vectors(vectors, bitmap64=bitmap64)
    return write_index(store, output, data, ranges)


def write_index(store: TableStore, output: BucketOutput, data: bytes, ranges: tuple[DeletionRange, ...]) -> IndexFile:
    """Write the bytes of an index file."""
    file = IndexFile(DELETION_VECTORS, check_file_name(f"index-{output.stem}-0"), len(data), len(ranges), ranges)
    path = store.layout.index_file(file, output.directory)
    if not store.storage.create(path, data):
        raise LakewrightError(f"{store.name}: {path} exists already; compact again", path=path)
    output.add_path(path)
    return file


def fold_vectors(store: TableStore, snapshot: Snapshot, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
    """Return the messages of an append table with new index files, without the vectors of files that were rewritten.

    The other vectors of such an index file are copied unchanged, into one new file for each bucket. With a fixed number
    of buckets that file is written even without any vector, as other implementations do. If this fails, all files of
    the messages are removed.
    """
    gone: dict[PartitionBucket, set[str]] = {}
    for message in messages:
        place = message.partition_bytes, message.bucket
        gone.setdefault(place, set()).update(file.file_name for file in message.compact_before)
    folded: list[CommitMessage] = []
    outputs: list[BucketOutput] = []
    try:
        touched = _find_touched_indexes(store, snapshot, gone)
        live = _live_names(store, snapshot, touched)
        for message in messages:
            place = message.partition_bytes, message.bucket
            old = touched.pop(place, None)  # the first message of a bucket gets the index files of all its messages
            if old is None:
                folded.append(message)
                continue
            outputs.append(BucketOutput(store, place))
            new = _remaining(store, outputs[-1], old, live[place] - gone[place])
            added = (*message.compact_new_index_files, *(() if new is None else (new,)))
            folded.append(replace(message, compact_new_index_files=added, compact_deleted_index_files=tuple(old)))
    except BaseException:
        for output in outputs:
            output.discard()
        delete_files_of(store, files_of_messages(store, messages))
        raise
    return folded


def _find_touched_indexes(
    store: TableStore, snapshot: Snapshot, gone: Mapping[PartitionBucket, Collection[str]]
) -> dict[PartitionBucket, list[IndexFile]]:
    """Return the index files of each bucket that hold vectors of rewritten files."""
    touched: dict[PartitionBucket, list[IndexFile]] = {}
    for place, files in vectors_of(store, snapshot).items():
        names = gone.get(place, ())
        index_files = [file for file in files if any(r.data_file in names for r in file.deletion_ranges or ())]
        if index_files:
            touched[place] = index_files
    return touched


def _live_names(
    store: TableStore, snapshot: Snapshot, places: Collection[PartitionBucket]
) -> dict[PartitionBucket, set[str]]:
    names: dict[PartitionBucket, set[str]] = {place: set() for place in places}
    partitions = PartitionSelection(partitions=frozenset(partition for partition, _ in places))
    for entry in live_files(store, snapshot, partitions) if places else ():
        if (entry.partition, entry.bucket) in names:
            names[entry.partition, entry.bucket].add(entry.file.file_name)
    return names


def _remaining(
    store: TableStore, output: BucketOutput, old: Iterable[IndexFile], names: Collection[str]
) -> IndexFile | None:
    """Copy the vectors of the data files with these names from old index files into a new one."""
    records: dict[str, tuple[bytes, int]] = {}
    for file in old:
        path = store.layout.index_file(file, output.directory)
        kept = [r for r in file.deletion_ranges or () if r.data_file in names]
        data = store.storage.read(path) if kept else b""
        for vector in kept:
            record = record_at(data, vector, path=path)
            count = vector.cardinality
            if count is None:  # some writers do not record the number of deleted rows
                count = len(decode_deletion_vector(record, path=path))
            records[vector.data_file] = record, count
    if not records and store.schema.bucket_mode is not BucketMode.HASH_FIXED:
        return None
    return write_index(store, output, *pack_records(records))


class BucketVectors:
    """The deletion vectors of the bucket that a task compacts."""

    def __init__(self, store: TableStore, task: CompactTask) -> None:
        self._store = store
        self._file = task.vectors[0] if task.vectors else None
        ranges = () if self._file is None else self._file.deletion_ranges or ()
        self._ranges: Mapping[str, DeletionRange] = {r.data_file: r for r in ranges}
        partition = store.partition_directory(task.partition)
        self._directory = store.layout.bucket_directory(partition, task.bucket)
        self._outdated: dict[str, list[Positions]] = {}
        self._lock = threading.Lock()

    @property
    def masked(self) -> frozenset[str]:
        """The names of the data files that have deleted rows."""
        return frozenset(self._ranges)

    def mark(self, data_file: str, positions: npt.NDArray[np.int64]) -> None:
        """Mark rows of a file as deleted, because newer rows replace them."""
        with self._lock:
            self._outdated.setdefault(data_file, []).append(positions.astype(np.uint64))

    def write(self, output: BucketOutput, rewritten: Collection[str]) -> IndexFile | None:
        """Write the new index file of the bucket, without files that were rewritten; None where nothing changed."""
        if not self._outdated and not any(name in self._ranges for name in rewritten):
            return None
        kept = [name for name in {**self._ranges, **self._outdated} if name not in rewritten]
        return write_vectors(self._store, output, {name: self._positions(name) for name in kept})

    def _positions(self, name: str) -> Positions:
        parts = list(self._outdated.get(name, ()))
        stored = self._ranges.get(name)
        if stored is not None and self._file is not None:
            path = self._store.layout.index_file(self._file, self._directory)
            source = self._store.storage.open_input(path)
            try:
                parts.append(read_deletion_vector(source, stored, path=path))
            finally:
                source.close()
        return distinct(np.concatenate(parts))

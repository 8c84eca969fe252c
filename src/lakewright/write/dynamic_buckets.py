"""The router of dynamic buckets and its index files."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakewright.errors import AlreadyExistsError, CorruptTableError, NotFoundError
from lakewright.formats.hash_index import Hashes, decode_hashes, encode_hashes
from lakewright.metadata.table_store import TableStore
from lakewright.spec.bucket_hash import row_hashes
from lakewright.spec.manifest import HASH, IndexEntry, IndexFile
from lakewright.spec.snapshot import Snapshot
from lakewright.storage.table_layout import check_file_name
from lakewright.write.bucket_assignment import Assigner, BucketLimits, Buckets, HashArray, KeyHashes
from lakewright.write.bucket_routing import (
    IndexChange,
    Routing,
    RowGroup,
    group_rows,
    number_partitions,
    refuse_chosen_bucket,
    route,
    run_bounds,
    stable_order,
)
from lakewright.write.write_task import PartitionBucket, WriteTask

# ---- The router ------------------------------------------------------------------------------------------------------
# Index files say in which bucket a key is: each holds the hashes of the keys of one bucket. The files of a partition
# are read when its first row arrives. A bucket that got new keys gets a new file with all of its hashes when the
# writer prepares its messages. Two writers that read the same files could put one key into two buckets, so every
# message names the files that its writer read, and the committer raises a conflict if the partition has other files
# by then.
#
# A merge by workers looks keys up before they come to their writers (`WriteJob.looked_up_in`,
# `write.dynamic_buckets`). Then rows of known keys come with their bucket, and keys without one are in no index file
# of that snapshot; so only the files of buckets that grow are read.

_THREADS = 8  # index files are small, so most of the time is spent waiting for the storage

Names = tuple[str, ...]  # of the index files of a partition, sorted


@dataclass(slots=True)
class _Partition:
    """What a writer knows of one partition."""

    keys: KeyHashes
    files: dict[int, str]  # the index file of each bucket, once everything prepared so far is committed
    earlier: set[Names] = field(default_factory=set)  # the files before those of messages that may not be committed yet
    base: Names | None = None  # the files that were read for the rows since the last prepare; None in an overwrite
    unread: dict[int, IndexEntry] = field(default_factory=dict)  # of buckets whose hashes `keys` does not have

    @property
    def names(self) -> Names:
        return tuple(sorted(self.files.values()))

    def still_knows(self, current: Names) -> bool:
        """Tell whether the files of the table are those that this writer made last, or those before its own commits."""
        if current == self.names:
            self.earlier.clear()
            return True
        return current in self.earlier


class DynamicRouter:
    """Puts each key into the bucket that it has, and new keys into a bucket with free space."""

    def __init__(self, task: WriteTask, assigner: Assigner | None = None) -> None:
        store = task.store
        self._task = task
        self._store = store
        self._assigner = assigner or Assigner()
        self._limits = BucketLimits.of_options(store.options, self._assigner)
        self._routing = Routing(store.name, store.schema.partition_fields)
        self._key = store.schema.trimmed_primary_key_fields
        self._counter = itertools.count()
        self._index: HashFiles | None = None  # of the newest snapshot when the first row since `finish` arrived
        self._partitions: dict[bytes, _Partition] = {}
        self._touched: dict[bytes, set[int]] = {}  # buckets that got rows since `finish`

    def route(self, rows: pa.Table, *, bucket: int | None = None) -> list[RowGroup]:
        """Return the rows grouped by partition and bucket."""
        if bucket is not None and self._task.looked_up_in is not None:
            return route(rows, self._routing, bucket=bucket)
        refuse_chosen_bucket(self._store.name, bucket)
        partitions = number_partitions(rows, self._routing)
        hashes = row_hashes([rows.column(key.name) for key in self._key], [key.type for key in self._key])
        groups = group_rows(rows, self._routing, partitions, self._buckets(*partitions, hashes))
        for group in groups:
            self._touched[group.partition].add(group.bucket)
        return groups

    def total_buckets(self, partition: bytes) -> int | None:  # noqa: ARG002 - no partition has a fixed number
        """Return None: buckets are added as keys come."""
        return None

    def finish(self) -> Mapping[PartitionBucket, IndexChange]:
        """Write the index files of buckets that got new keys, and return them with the files that were read."""
        grown = {
            (partition, bucket): hashes
            for partition in self._touched
            for bucket, hashes in self._all_hashes(self._partitions[partition]).items()
        }
        files = write_hash_files(self._store, f"index-{self._task.stem}", self._counter, grown)
        changes: dict[PartitionBucket, IndexChange] = {}
        for partition, buckets in self._touched.items():
            state = self._partitions[partition]
            state.earlier.add(state.names)
            for bucket in buckets:
                file = files.get((partition, bucket))
                changes[partition, bucket] = IndexChange(() if file is None else (file,), state.base)
                if file is not None:
                    state.files[bucket] = file.file_name
            state.keys.mark_written()
        self._touched = {}
        self._index = None
        if self._assigner.count > 1 or self._task.looked_up_in is not None:
            self._partitions = {}  # keys of the other assigners are known once they are committed
        return changes

    def _all_hashes(self, state: _Partition) -> dict[int, Hashes]:
        """Return all hashes of each bucket that got new ones."""
        grown = state.keys.grown_buckets()
        unread = [state.unread[bucket] for bucket in grown if bucket in state.unread]
        before = self._index.read(unread) if self._index is not None and unread else {}
        return {b: np.concatenate([before[b], new]) if b in before else new for b, new in grown.items()}

    def _buckets(self, numbers: np.ndarray, partitions: Sequence[bytes], hashes: Hashes) -> Buckets:
        """Return the bucket of each row."""
        if len(partitions) == 1:
            return self._partition(partitions[0]).keys.assign(hashes)
        out = np.empty(len(hashes), np.int32)
        if len(hashes):
            order = stable_order(numbers)
            bounds = run_bounds(numbers[order])
            for rows in np.split(order, bounds[1:-1]):
                partition = self._partition(partitions[int(numbers[rows[0]])])
                out[rows] = partition.keys.assign(hashes[rows])
        return out

    def _partition(self, partition: bytes) -> _Partition:
        """Return what is known of a partition; its files are looked up again for the first row since `finish`."""
        state = self._partitions.get(partition)
        if state is not None and partition in self._touched:
            return state
        if self._index is None:
            self._index = self._hash_files()
        entries = self._index.of_partition(partition)
        current = tuple(sorted(entry.file.file_name for entry in entries))
        if state is None or not (self._task.overwrite or state.still_knows(current)):
            state = self._read(self._index, entries)
            self._partitions[partition] = state
        state.base = None if self._task.overwrite else state.names
        self._touched[partition] = set()
        return state

    def _hash_files(self) -> HashFiles:
        """Return the index files that say where keys are."""
        if self._task.overwrite:
            return HashFiles([], self._store, None)
        pinned = self._task.looked_up_in
        return HashFiles.newest(self._store) if pinned is None else HashFiles.of_snapshot(self._store, pinned)

    def _read(self, index: HashFiles, entries: Sequence[IndexEntry]) -> _Partition:
        """Return what the index files of a partition say."""
        files = {entry.bucket: entry.file.file_name for entry in entries}
        if self._task.looked_up_in is None:
            return _Partition(KeyHashes(index.read(entries), self._limits), files)
        counts = {entry.bucket: entry.file.row_count for entry in entries}
        unread = {entry.bucket: entry for entry in entries}
        return _Partition(KeyHashes({}, self._limits, others=counts), files, unread=unread)


class HashFiles:
    """The index files of dynamic buckets of one snapshot."""

    def __init__(self, entries: Iterable[IndexEntry], store: TableStore, snapshot_id: int | None) -> None:
        self._store = store
        self._snapshot_id = snapshot_id
        self._entries: dict[bytes, dict[int, IndexEntry]] = {}
        for entry in entries:
            buckets = self._entries.setdefault(entry.partition, {})
            if buckets.setdefault(entry.bucket, entry) is not entry:
                raise CorruptTableError(
                    f"table {store.name}: snapshot {snapshot_id} has two index files of key hashes for bucket "
                    f"{entry.bucket}; overwrite its partition",
                    table=store.name,
                    files=(buckets[entry.bucket].file.file_name, entry.file.file_name),
                )

    @classmethod
    def newest(cls, store: TableStore) -> HashFiles:
        """Return the index files of the newest snapshot."""
        return cls.of_snapshot(store, store.snapshots.latest())

    @classmethod
    def of_snapshot(cls, store: TableStore, snapshot: Snapshot | None) -> HashFiles:
        """Return the index files of a snapshot."""
        if snapshot is None or snapshot.index_manifest is None:
            return cls([], store, None)
        entries = store.manifests.read_index(snapshot.index_manifest)
        return cls((e for e in entries if e.file.index_type == HASH), store, snapshot.id)

    def covers(self, partition: bytes, bucket: int) -> bool:
        """Return whether a bucket has an index file."""
        return bucket in self._entries.get(partition, {})

    def of_partition(self, partition: bytes) -> list[IndexEntry]:
        """Return the entries of a partition."""
        return list(self._entries.get(partition, {}).values())

    def read(self, entries: Sequence[IndexEntry]) -> dict[int, Hashes]:
        """Return the hashes of each bucket."""
        threads = _threads(self._store, len(entries))
        if threads <= 1:
            return {entry.bucket: self._read(entry) for entry in entries}
        with ThreadPoolExecutor(threads) as pool:
            return dict(zip((e.bucket for e in entries), pool.map(self._read, entries), strict=True))

    def _read(self, entry: IndexEntry) -> Hashes:
        store = self._store
        path = hash_file_path(store, (entry.partition, entry.bucket), entry.file)
        try:
            return decode_hashes(store.storage.read(path), entry.file, path=path)
        except FileNotFoundError as error:
            gone = not store.storage.exists(store.layout.snapshot_file(self._snapshot_id or 0))
            if gone:
                raise NotFoundError(
                    f"table {store.name}: snapshot {self._snapshot_id} has expired and {path} with it; write again",
                    table=store.name,
                    path=path,
                    snapshot_id=self._snapshot_id,
                ) from error
            raise CorruptTableError(
                f"table {store.name}: {path} is missing, though the table names it; restore it from a copy",
                table=store.name,
                path=path,
            ) from error


def _threads(store: TableStore, files: int) -> int:
    """Return how many files to read or write at a time; a writer with one thread works in a fixed order."""
    return min(_THREADS if store.options.lakewright_write_threads > 1 else 1, files)


def hash_file_path(store: TableStore, place: PartitionBucket, file: IndexFile) -> str:
    """Return where an index file of a bucket is."""
    partition, bucket = place
    return store.layout.index_file(file, store.layout.bucket_directory(store.partition_directory(partition), bucket))


def write_hash_files(
    store: TableStore, stem: str, numbers: Iterable[int], hashes: Mapping[PartitionBucket, Hashes]
) -> dict[PartitionBucket, IndexFile]:
    """Write one index file per bucket; if one fails, none stays."""
    files = {
        place: IndexFile(HASH, check_file_name(f"{stem}-{number}"), 4 * len(values), len(values))
        for (place, values), number in zip(hashes.items(), numbers, strict=False)
    }
    if not files:
        return {}

    foreign: set[PartitionBucket] = set()

    def write(place: PartitionBucket) -> None:
        path = hash_file_path(store, place, files[place])
        if not store.storage.create(path, encode_hashes(hashes[place])):
            foreign.add(place)
            raise AlreadyExistsError(f"table {store.name}: {path} is there already; write again", path=path)

    try:
        with ThreadPoolExecutor(_threads(store, len(files))) as pool:
            list(pool.map(write, files))
    except BaseException:
        for place in files.keys() - foreign:
            # What cannot be removed is an orphan, which the removal of orphans finds.
            with suppress(OSError):
                store.storage.delete(hash_file_path(store, place, files[place]))
        raise
    return files


# ---- Buckets of existing keys ----------------------------------------------------------------------------------------
# Senders look up the keys of the rows that they send to the writers of dynamic buckets. There are far more keys in
# the index files than rows to look up, so the index is neither sorted nor kept as pairs: one pass over it leaves out
# nearly all hashes that were not asked for, by a table of the low bits of those that are asked for. Index files that
# were read stay in memory only up to a bound, so that the size of the table does not matter.

NEW = -1  # the bucket of keys that no index file has
_KEPT_BYTES_MAX = 64 << 20  # of index files, by one sender
_READ_AT_ONCE = 8  # index files
_LOW_BITS = (16, 22)  # of the table, at least and at most: it has about 16 places for each hash that is asked for


class KeyLookup:
    """Finds the buckets of keys in one snapshot; index files are read when keys of their partition are asked for."""

    def __init__(self, store: TableStore, snapshot: Snapshot | None, *, kept_bytes_max: int = _KEPT_BYTES_MAX) -> None:
        self._files = HashFiles.of_snapshot(store, snapshot)
        self._kept: dict[tuple[bytes, int], HashArray] = {}  # the first that were read, up to so many bytes
        self._left = kept_bytes_max

    def buckets(self, partition: bytes, hashes: HashArray) -> Buckets:
        """Return the lowest bucket of a partition that has each key, `NEW` for keys that none has."""
        asked = _Asked(hashes)
        entries = sorted(self._files.of_partition(partition), key=lambda entry: entry.bucket, reverse=True)
        for first in range(0, len(entries), _READ_AT_ONCE):
            some = entries[first : first + _READ_AT_ONCE]
            for bucket, known in self._read(partition, some).items():
                asked.look_in(bucket, known)
        return asked.buckets()

    def _read(self, partition: bytes, entries: Sequence[IndexEntry]) -> dict[int, HashArray]:
        """Return the hashes of some buckets, in the order in which they are given."""
        new = self._files.read([entry for entry in entries if (partition, entry.bucket) not in self._kept])
        read = {e.bucket: new[e.bucket] if e.bucket in new else self._kept[partition, e.bucket] for e in entries}
        for bucket, hashes in new.items():
            if hashes.nbytes <= self._left:
                self._left -= hashes.nbytes
                self._kept[partition, bucket] = hashes
        return read


class _Asked:
    """Hashes whose buckets are asked for.

    >>> asked = _Asked(np.array([5, -3, 5, 7], np.int32))
    >>> asked.look_in(1, np.array([5, 9], np.int32))
    >>> asked.look_in(0, np.array([-3], np.int32))
    >>> asked.buckets()
    array([ 1,  0,  1, -1], dtype=int32)
    """

    def __init__(self, hashes: HashArray) -> None:
        self._distinct, self._of_row = np.unique(hashes, return_inverse=True)
        self._found: Buckets = np.full(len(self._distinct), NEW, np.int32)
        low, high = _LOW_BITS
        self._mask = np.uint32((1 << min(high, max(low, (16 * len(self._distinct)).bit_length()))) - 1)
        self._is_asked = np.zeros(int(self._mask) + 1, np.bool_)
        self._is_asked[_low(self._distinct, self._mask)] = True

    def look_in(self, bucket: int, known: HashArray) -> None:
        """Note which of the hashes a bucket has."""
        kept = known[self._is_asked[_low(known, self._mask)]]
        at = np.searchsorted(self._distinct, kept)
        inside = at < len(self._distinct)
        at, kept = at[inside], kept[inside]
        self._found[at[self._distinct[at] == kept]] = bucket

    def buckets(self) -> Buckets:
        """Return the bucket that was noted last for each hash, `NEW` where none was."""
        buckets: Buckets = self._found[self._of_row]
        return buckets


def _low(hashes: HashArray, mask: np.uint32) -> npt.NDArray[np.uint32]:
    return hashes.view(np.uint32) & mask

"""Manifests, manifest lists, index manifests: read, write, merge, cache."""

from __future__ import annotations

import itertools
import os
import re
import threading
import uuid
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from lakewright.errors import AlreadyExistsError, CorruptTableError, NotFoundError, UnsupportedError
from lakewright.metadata.manifest_columns import (
    ENTRY_BYTES,
    EntryList,
    EntryPart,
    Keep,
    SelectedEntries,
    decode_entries,
    kept_entries,
    live_entries,
)
from lakewright.metadata.manifest_records import (
    ENTRY_SCHEMA,
    ENTRY_SCHEMA_SEQUENCES,
    ENTRY_VERSION,
    INDEX_SCHEMA,
    INDEX_SCHEMA_SOURCE,
    INDEX_VERSION,
    LIST_SCHEMA,
    LIST_VERSION,
    EntryRecord,
    FileRecord,
    Record,
    RecordEncoder,
    Schema,
    data_file,
    decode_records,
    entry_record,
    index_file,
    index_record,
    iterate_records,
    java_order,
    list_record,
    manifest_facts,
    manifest_file,
)
from lakewright.spec.binary_row import canonical_row, decode_row
from lakewright.spec.manifest import (
    ADD,
    DELETE,
    EMPTY_STATS,
    IndexEntry,
    ManifestEntry,
    ManifestFile,
    SimpleStats,
    merge_entries,
)
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.table_options import TableOptions
from lakewright.spec.types import DataType, Value
from lakewright.storage.concurrency import map_concurrently
from lakewright.storage.storage import Storage
from lakewright.storage.table_layout import Layout

if TYPE_CHECKING:
    from lakewright.metadata.manifest_records import IndexRecord, ListRecord


# ---- The cache -------------------------------------------------------------------------------------------------------
# The files are immutable, but a name may come again: a commit names its first manifest after the write job, so that a
# repeated commit finds it; after a rollback, or in a table that was made anew at the same place, a later commit of
# the job writes another file of that name. Names with a random uuid never come again, and lists have such names. So a
# file with a random name is believed by its name; any other only under the state (the list) that it was read for, and
# for another state its bytes are read and compared, which saves the decoding alone.
#
# A storage is part of the key, and its credentials are part of the storage: who may not read a file does not get it
# from here either. Whether a snapshot exists is never answered from here, so that an expired one is still missed.
#
# Invariant: all values together take no more bytes than the last caller allowed; those that were not used for
# longest go first.

Key: TypeAlias = tuple[Hashable, ...]

_RANDOM = re.compile(r"[a-z-]+-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-[0-9]+")
_STATES_MAX = 16  # for which a file is known to be the same


def is_random(name: str) -> bool:
    """Return whether a name contains a random uuid, so that no other file gets it.

    >>> is_random("manifest-90e50cd5-1d2a-4c67-8d3e-6b9f1c1e8a11-0")
    True
    >>> is_random("manifest-0d3a654d-d373-5200-8e24-b14c070c69e1-0")
    False
    """
    return _RANDOM.fullmatch(name) is not None


@dataclass(slots=True)
class _Kept:
    value: object
    memory: int
    size: int  # of the file
    digest: bytes  # of the file
    states: OrderedDict[str, None]  # under which the file is known to be this one

    def note(self, state: str | None) -> None:
        if state is not None:
            self.states[state] = None
            if len(self.states) > _STATES_MAX:
                self.states.popitem(last=False)


@dataclass(slots=True)
class ManifestCache:
    """Values by their keys, up to a number of bytes; any number of threads may use it."""

    size: int = 0  # of all values in memory, in bytes
    _kept: OrderedDict[Key, _Kept] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: Key, size: int | None, state: str | None) -> object | None:
        """Return what a file of a size holds; None: it is not here, or may be another one.

        `state` is the list that names the file, None where that is not known; it does not matter for random names.
        """
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or size not in {None, kept.size}:
                return None
            if state not in kept.states and not is_random(str(key[1]).rpartition("/")[2]):
                return None
            self._kept.move_to_end(key)
            return kept.value

    def get_same(self, key: Key, data: bytes, state: str | None) -> object | None:
        """Return what a file with these bytes holds; None: it is not here. From now on it is known in this state."""
        with self._lock:
            if key not in self._kept:
                return None
        digest = _digest(data)
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or kept.digest != digest:
                return None
            kept.note(state)
            self._kept.move_to_end(key)
            return kept.value

    def put(self, key: Key, data: bytes, state: str | None, kept: tuple[object, int], bytes_max: int) -> None:
        """Keep a value and its size in memory, unless it is too large, and drop others until all are small enough."""
        value, memory = kept
        if memory > bytes_max:
            return
        made = _Kept(value, memory, len(data), _digest(data), OrderedDict())
        made.note(state)
        with self._lock:
            before = self._kept.pop(key, None)
            self._kept[key] = made
            self.size += memory - (0 if before is None else before.memory)
            while self.size > bytes_max:
                self.size -= self._kept.popitem(last=False)[1].memory

    def drop(self, key: Key) -> None:
        """Drop the value of a file that is deleted."""
        with self._lock:
            kept = self._kept.pop(key, None)
            self.size -= 0 if kept is None else kept.memory

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._kept.clear()
            self.size = 0

    def after_fork(self) -> None:
        """Begin anew in a child process: a thread of the parent may have held the lock."""
        self._lock, self._kept, self.size = threading.Lock(), OrderedDict(), 0


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


CACHE = ManifestCache()
os.register_at_fork(after_in_child=CACHE.after_fork)


# ---- Which manifests a commit merges ---------------------------------------------------------------------------------
# Merging limits the number and the size of manifests as commits add one manifest after the other. It never changes
# which files are live: only the entries and their order decide that.


@dataclass(frozen=True, slots=True)
class MergeLimits:
    """When manifests are merged."""

    target_bytes: int  # the size that a manifest should reach
    count_min: int  # how many small manifests are merged at least
    full_bytes: int  # the size of small manifests and manifests with deletes from which on a merge is a full one


@dataclass(frozen=True, slots=True)
class MergePlan:
    """How to merge a list of manifests, given in order."""

    full: bool  # remove all deletes together with the entries they delete
    groups: tuple[tuple[ManifestFile, ...], ...]  # if not full: each group becomes one manifest; a group of one stays


def plan_merge(files: Sequence[ManifestFile], limits: MergeLimits) -> MergePlan:
    """Decide how to merge the manifests of a snapshot."""
    improvable_bytes = sum(f.file_size for f in files if is_improvable(f, limits))
    groups: list[tuple[ManifestFile, ...]] = []
    batch: list[ManifestFile] = []
    batch_bytes = 0
    for file in files:
        batch.append(file)
        batch_bytes += file.file_size
        if batch_bytes >= limits.target_bytes:
            groups.append(tuple(batch))
            batch, batch_bytes = [], 0
    if len(batch) >= limits.count_min:
        groups.append(tuple(batch))
    else:
        groups.extend((file,) for file in batch)
    return MergePlan(improvable_bytes >= limits.full_bytes, tuple(groups))


def is_improvable(file: ManifestFile, limits: MergeLimits) -> bool:
    """Return whether a full merge rewrites the manifest in any case: it is small or deletes files."""
    return file.num_deleted_files > 0 or file.file_size < limits.target_bytes


def may_contain_partitions(
    stats: SimpleStats, partitions: Collection[tuple[Value, ...]], types: Sequence[DataType]
) -> bool:
    """Return whether a manifest with these partition statistics may have entries of one of the partitions."""
    if not types or stats.min_values == EMPTY_STATS.min_values or len(stats.null_counts) != len(types):
        return bool(partitions)
    lows, highs = decode_row(stats.min_values, types), decode_row(stats.max_values, types)
    columns = list(zip(lows, highs, stats.null_counts, strict=True))
    return any(
        all(_in_range(value, *column) for value, column in zip(partition, columns, strict=True))
        for partition in partitions
    )


def _in_range(value: Value, low: Value, high: Value, nulls: int | None) -> bool:
    if value is None:
        return nulls is None or nulls > 0
    if low is None or high is None:
        return True
    return java_order(low) <= java_order(value) <= java_order(high)


def deleted_partitions(entries: Iterable[ManifestEntry], types: Sequence[DataType]) -> set[tuple[Value, ...]]:
    """Return the partitions in which the entries delete files."""
    return {decode_row(data, types) for data in {entry.partition for entry in entries if entry.kind != ADD}}


# ---- Reading and writing ---------------------------------------------------------------------------------------------
# A snapshot names two manifest lists, each list names manifests, each manifest holds entries that add or delete data
# files; all entries together, in order, say which files are live. Partition rows of other writers are converted to
# Java's form here, so that equal partitions have equal bytes everywhere else in the library.
#
# Invariant: a file is complete and durable under a new name before its name is returned; a file that is read has
# the size and the number of entries that are recorded in the file that names it, or CorruptTableError is raised.

_COLUMNS_MIN = 2_000  # entries; fewer are decoded one by one
_PLACE_BYTES = 300  # what the place of a deletion vector takes in memory, about

T = TypeVar("T")
R = TypeVar("R")
LiveEntries: TypeAlias = list[ManifestEntry] | SelectedEntries


class Namer:
    """Makes the names of new metadata files: a uuid for all of them, and a number for each kind of file.

    >>> namer = Namer(lambda: uuid.UUID(int=7))
    >>> namer.name("manifest"), namer.name("manifest")
    ('manifest-00000000-0000-0000-0000-000000000007-0', 'manifest-00000000-0000-0000-0000-000000000007-1')
    """

    def __init__(self, new_uuid: Callable[[], uuid.UUID] = uuid.uuid4) -> None:
        self._unique = str(new_uuid())
        self._lock = threading.Lock()
        self._counts: defaultdict[str, itertools.count[int]] = defaultdict(itertools.count)

    def name(self, kind: str) -> str:
        """Return a new name."""
        with self._lock:
            return f"{kind}-{self._unique}-{next(self._counts[kind])}"


@dataclass(frozen=True, slots=True)
class MergedManifests:
    """The manifests after merging, and which of them are new."""

    files: tuple[ManifestFile, ...]
    written: tuple[ManifestFile, ...]


@dataclass(frozen=True, slots=True)
class Manifests:
    """The manifests of a table."""

    storage: Storage
    layout: Layout
    partition_types: tuple[DataType, ...]
    options: TableOptions
    namer: Namer = field(default_factory=Namer, repr=False, compare=False)
    salt: bytes = field(default=b"", repr=False, compare=False)  # makes the bytes of new files unique to one writer
    from_storage: bool = False  # whether files are read anew that this process keeps decoded

    # Reading.

    def files_of(self, snapshot: Snapshot) -> list[ManifestFile]:
        """Return the manifests of a snapshot in order: those of its base, then those of its delta."""
        lists = (
            (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
            (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        )
        known = [self._recall(name, size) for name, size in lists]
        read = partial(self._read_list, snapshot_id=snapshot.id)
        parts = self._each(read, lists) if None in known else cast("list[tuple[ManifestFile, ...]]", known)
        return [file for part in parts for file in part]

    def live(
        self,
        snapshot: Snapshot,
        *,
        keep: Keep | None = None,
        keep_manifest: Callable[[ManifestFile], bool] | None = None,
    ) -> list[ManifestEntry]:
        """Return the entries of the files that are live in a snapshot and for which `keep` returns True.

        A manifest for which `keep_manifest` returns False is not read. Like `keep`, it may decide by partition, bucket
        and level only, because an entry that deletes a file must be kept or left out with the one that adds it.
        """
        files = [f for f in self.files_of(snapshot) if keep_manifest is None or keep_manifest(f)]
        found = self.live_of(files, snapshot, keep=keep)
        return found.entries() if isinstance(found, SelectedEntries) else found

    def live_columns(self, snapshot: Snapshot) -> SelectedEntries:
        """Return the entries of all files that are live in a snapshot, of which some facts are needed for all files."""
        found = self.live_of(self.files_of(snapshot), snapshot)
        return found if isinstance(found, SelectedEntries) else SelectedEntries.of(found)

    def live_of(
        self, files: Sequence[ManifestFile], snapshot: Snapshot, *, keep: Keep | None = None, all_are_here: bool = True
    ) -> LiveEntries:
        """Return the live entries of some manifests of a snapshot, in order: objects, or where they are many columns.

        Without `all_are_here`, entries are left out that delete a file which none of these manifests adds.
        """
        if sum(f.num_added_files + f.num_deleted_files for f in files) >= _COLUMNS_MIN:
            parts = self._parts(files, snapshot)
            found = live_entries(parts, keep, all_are_here=all_are_here)
            if found is not None:
                return found
            entries = merge_entries(entry for part in parts for entry in kept_entries(part, keep))
        else:
            entries = merge_entries(self._read_all(files, keep=keep, snapshot=snapshot))
        if not all_are_here:
            return [entry for entry in entries if entry.kind == ADD]
        for entry in entries:
            if entry.kind != ADD:
                raise CorruptTableError(
                    f"snapshot {snapshot.id} of {self.layout.root} deletes the data file {entry.file.file_name}, which "
                    "was never added; read an earlier snapshot or a tag of it",
                    path=self.layout.root,
                    snapshot_id=snapshot.id,
                    files=(entry.file.file_name,),
                )
        return entries

    def delta(self, snapshot: Snapshot, *, keep: Keep | None = None) -> list[ManifestEntry]:
        """Return the entries that a snapshot itself added, in order and not merged."""
        size = snapshot.delta_manifest_list_size
        files = self.read_list(snapshot.delta_manifest_list, size, snapshot_id=snapshot.id)
        return self._read_all(files, keep=keep, snapshot=snapshot)

    def changelog(self, snapshot: Snapshot, *, keep: Keep | None = None) -> list[ManifestEntry]:
        """Return the changelog files that a snapshot added."""
        if snapshot.changelog_manifest_list is None:
            return []
        size = snapshot.changelog_manifest_list_size
        files = self.read_list(snapshot.changelog_manifest_list, size, snapshot_id=snapshot.id)
        return self._read_all(files, keep=keep, snapshot=snapshot)

    def read_list(self, name: str, size: int | None = None, *, snapshot_id: int | None = None) -> list[ManifestFile]:
        """Return the manifests of a manifest list; its size is checked if it is given."""
        return list(self._read_list((name, size), snapshot_id=snapshot_id))

    def _read_list(
        self, name_and_size: tuple[str, int | None], *, snapshot_id: int | None = None
    ) -> tuple[ManifestFile, ...]:
        name, size = name_and_size
        known = self._recall(name, size)
        if known is not None:
            return cast("tuple[ManifestFile, ...]", known)
        path, data = self._load(name, size=size, snapshot_id=snapshot_id)
        records = decode_records(data, path, expected=LIST_SCHEMA)
        _check_versions(records, LIST_VERSION, path)
        files = tuple(manifest_file(record) for record in cast("list[ListRecord]", records))
        self._remember(name, data, files, ENTRY_BYTES * (1 + len(files)))
        return files

    def read(
        self, manifest: ManifestFile, *, keep: Keep | None = None, snapshot: Snapshot | None = None
    ) -> list[ManifestEntry]:
        """Return the entries of a manifest for which `keep` returns True, in order."""
        known = self._recall_part(manifest, snapshot)
        if known is not None:
            return kept_entries(known, keep)
        data = self._load_manifest(manifest, snapshot)
        known = self._recall_part(manifest, snapshot, data)
        if known is not None:
            return kept_entries(known, keep)
        if ENTRY_BYTES * (manifest.num_added_files + manifest.num_deleted_files) > self._cache_bytes:
            return self._decode(manifest, data, keep)
        part = EntryList(self._decode(manifest, data))
        self._remember_part(manifest, snapshot, data, part)
        return kept_entries(part, keep)

    def _decode(self, manifest: ManifestFile, data: bytes, keep: Keep | None = None) -> list[ManifestEntry]:
        path = self._path(manifest.file_name)
        canonical = _Canonical(self.partition_types, path)
        entries: list[ManifestEntry] = []
        counts = [0, 0]
        # Records are converted one by one: keeping all of them in memory with the entries would double the time.
        for record in iterate_records(data, path, expected=ENTRY_SCHEMA_SEQUENCES):
            kind, partition, bucket, total, file = _parts(cast("EntryRecord", record), path)
            counts[kind] += 1
            partition = canonical[partition]
            if keep is None or keep(partition, bucket, total, file["_LEVEL"]):
                entries.append(ManifestEntry(kind, partition, bucket, total, data_file(file)))
        _check_counts(manifest, counts, path)
        return entries

    def read_index(self, name: str, *, snapshot: Snapshot | None = None) -> list[IndexEntry]:
        """Return the entries of an index manifest, which lists all live index files; a `snapshot` names it."""
        state = None if snapshot is None else _state(snapshot)
        known = self._recall(name, None, state)
        if known is not None:
            return list(cast("tuple[IndexEntry, ...]", known))
        path, data = self._load(name)
        records = decode_records(data, path, expected=INDEX_SCHEMA_SOURCE)
        _check_versions(records, INDEX_VERSION, path)
        if any(record["_KIND"] != ADD for record in records):
            raise CorruptTableError(f"{path} deletes index files, but may list live ones only", path=path)
        canonical = _Canonical(self.partition_types, path)
        entries = tuple(
            IndexEntry(record["_KIND"], canonical[record["_PARTITION"]], record["_BUCKET"], index_file(record))
            for record in cast("list[IndexRecord]", records)
        )
        places = sum(len(entry.file.deletion_ranges or ()) for entry in entries)
        self._remember(name, data, entries, ENTRY_BYTES * (1 + len(entries)) + _PLACE_BYTES * places, state)
        return list(entries)

    # What this process keeps of files that it has read.

    def without_cache(self) -> Manifests:
        """Return the same manifests, read from the storage every time: for checks of what is stored."""
        return replace(self, from_storage=True)

    @property
    def _cache_bytes(self) -> int:
        """How many bytes of decoded files the process may keep."""
        can_be_key = isinstance(self.storage, Hashable) and not self.from_storage
        return self.options.lakewright_manifest_cache if can_be_key else 0

    def _recall(self, name: str, size: int | None, state: str | None = None) -> object | None:
        return CACHE.get(self._key(name), size, state) if self._cache_bytes else None

    def _remember(self, name: str, data: bytes, value: object, memory: int, state: str | None = None) -> None:
        if bytes_max := self._cache_bytes:
            CACHE.put(self._key(name), data, state, (value, memory), bytes_max)

    def _key(self, name: str) -> tuple[Hashable, ...]:
        # Partitions are kept in Java's form, which depends on their types.
        return cast("Hashable", self.storage), self._path(name), self.partition_types

    def _recall_part(
        self, manifest: ManifestFile, snapshot: Snapshot | None, data: bytes | None = None
    ) -> EntryPart | None:
        """Return what a manifest of a snapshot holds, where that is known; with its bytes it is known more often."""
        if not self._cache_bytes:
            return None
        key, state = self._key(manifest.file_name), None if snapshot is None else _state(snapshot)
        known = CACHE.get(key, manifest.file_size, state) if data is None else CACHE.get_same(key, data, state)
        counts, part = cast("tuple[tuple[int, int], EntryPart]", known or ((-1, -1), None))
        return part if counts == (manifest.num_added_files, manifest.num_deleted_files) else None

    def _remember_part(self, manifest: ManifestFile, snapshot: Snapshot | None, data: bytes, part: EntryPart) -> None:
        counts = manifest.num_added_files, manifest.num_deleted_files
        state = None if snapshot is None else _state(snapshot)
        self._remember(manifest.file_name, data, (counts, part), part.size, state)

    # Writing.

    def write(self, entries: Iterable[ManifestEntry], *, schema_id: int) -> list[ManifestFile]:
        """Write entries to as many manifests as their size requires, none if there are no entries.

        `schema_id` is that of the newest schema. If a write fails, the manifests written before it are removed.
        """
        entries = list(entries)
        sequenced = any(entry.file.write_cols_sequences is not None for entry in entries)
        schema = ENTRY_SCHEMA_SEQUENCES if sequenced else ENTRY_SCHEMA
        target = self.options.manifest_target_file_size
        written: list[ManifestFile] = []
        encoder, first = self._encoder(schema), 0
        try:
            for count, entry in enumerate(entries, start=1):
                encoder.add(entry_record(entry))
                if encoder.size >= target or count == len(entries):
                    name, size = self._store("manifest", encoder.finish())
                    part = entries[first:count]
                    types = self.partition_types
                    written.append(manifest_facts(part, types, name=name, size=size, schema_id=schema_id))
                    encoder, first = self._encoder(schema), count
        except Exception:
            self._delete_all(written)
            raise
        return written

    def write_list(self, files: Iterable[ManifestFile]) -> tuple[str, int]:
        """Write a manifest list, which may be empty, and return its name and size."""
        files = tuple(files)
        data = self._encode_records(LIST_SCHEMA, map(list_record, files))
        name, size = self._store("manifest-list", data)
        # The next commit of this process begins with what this one wrote.
        self._remember(name, data, files, ENTRY_BYTES * (1 + len(files)))
        return name, size

    def write_index(self, entries: Iterable[IndexEntry]) -> str:
        """Write an index manifest with all live index files, perhaps none, and return its name."""
        entries = list(entries)
        sourced = any(e.file.global_index is not None and e.file.global_index.source_meta is not None for e in entries)
        schema = INDEX_SCHEMA_SOURCE if sourced else INDEX_SCHEMA
        return self._store("index-manifest", self._encode_records(schema, map(index_record, entries)))[0]

    def delete(self, name: str) -> None:
        """Remove a manifest, manifest list or index manifest that no snapshot names."""
        if self._cache_bytes:
            CACHE.drop(self._key(name))
        self.storage.delete(self.layout.manifest_file(name))

    def merge(self, files: Sequence[ManifestFile]) -> MergedManifests:
        """Merge manifests, given in order, as the options of the table say. If it fails, new manifests are removed."""
        limits = MergeLimits(
            target_bytes=self.options.manifest_target_file_size,
            count_min=self.options.manifest_merge_min_count,
            full_bytes=self.options.manifest_full_compaction_threshold_size,
        )
        plan = plan_merge(files, limits)
        if plan.full and (merged := self._merge_fully(files, limits)) is not None:
            return merged
        merged_files: list[ManifestFile] = []
        written: list[ManifestFile] = []
        try:
            for group in plan.groups:
                if len(group) == 1:
                    merged_files.extend(group)
                    continue
                new = self._rewritten(merge_entries(self._read_all(group)), group)
                merged_files.extend(new)
                written.extend(new)
        except Exception:
            self._delete_all(written)
            raise
        return MergedManifests(tuple(merged_files), tuple(written))

    def _merge_fully(self, files: Sequence[ManifestFile], limits: MergeLimits) -> MergedManifests | None:
        """Rewrite the small manifests, those with deletes and those that may hold a deleted file; no deletes remain.

        Returns None if only one manifest would be rewritten.
        """
        read = {f.file_name: self.read(f) for f in files if is_improvable(f, limits)}
        types = self.partition_types
        partitions = deleted_partitions(itertools.chain.from_iterable(read.values()), types)
        rewrite = [
            f for f in files if f.file_name in read or may_contain_partitions(f.partition_stats, partitions, types)
        ]
        if len(rewrite) <= 1:
            return None
        entries = [e for f in rewrite for e in (read[f.file_name] if f.file_name in read else self.read(f))]
        left = merge_entries(entries)
        orphans = tuple(entry.file.file_name for entry in left if entry.kind == DELETE)
        if orphans:
            raise CorruptTableError(
                f"the manifests of {self.layout.root} delete data files that were never added, such as {orphans[0]}; "
                "read an earlier snapshot or a tag of it",
                path=self.layout.root,
                files=orphans,
            )
        rewritten = {f.file_name for f in rewrite}
        written = self._rewritten(left, rewrite)
        return MergedManifests((*(f for f in files if f.file_name not in rewritten), *written), tuple(written))

    def _rewritten(self, entries: Sequence[ManifestEntry], sources: Sequence[ManifestFile]) -> list[ManifestFile]:
        return self.write(entries, schema_id=max(source.schema_id for source in sources))

    def _delete_all(self, files: Iterable[ManifestFile]) -> None:
        for file in files:
            self.delete(file.file_name)

    def _read_all(
        self, files: Sequence[ManifestFile], *, keep: Keep | None = None, snapshot: Snapshot | None = None
    ) -> list[ManifestEntry]:
        """Return the entries of several manifests, in the order of the manifests."""
        known = [self._recall_part(file, snapshot) for file in files]
        read = partial(self.read, keep=keep, snapshot=snapshot)
        missing = [file for file, part in zip(files, known, strict=True) if part is None]
        entries = iter(self._each(read, missing))
        return [e for part in known for e in (next(entries) if part is None else kept_entries(part, keep))]

    def _parts(self, files: Sequence[ManifestFile], snapshot: Snapshot) -> list[EntryPart]:
        """Return what manifests hold, in order, each as columns where that is possible and worth while."""
        found = {file.file_name: part for file in files if (part := self._recall_part(file, snapshot)) is not None}
        missing = [file for file in files if file.file_name not in found]
        loaded = dict(zip(missing, self._each(partial(self._load_manifest, snapshot=snapshot), missing), strict=True))
        same = {file: self._recall_part(file, snapshot, data) for file, data in loaded.items()}
        new = [file for file, part in same.items() if part is None]
        canonical = _Canonical(self.partition_types, self.layout.root)
        decoded = decode_entries(new, [loaded[file] for file in new], canonical.__getitem__)
        for number, file in enumerate(new):
            part = same[file] = decoded.get(number) or EntryList(self._decode(file, loaded[file]))
            self._remember_part(file, snapshot, loaded[file], part)
        found |= {file.file_name: part for file, part in same.items() if part is not None}
        return [found[file.file_name] for file in files]

    def _load_manifest(self, manifest: ManifestFile, snapshot: Snapshot | None) -> bytes:
        snapshot_id = None if snapshot is None else snapshot.id
        return self._load(manifest.file_name, size=manifest.file_size, snapshot_id=snapshot_id)[1]

    def _each(self, read: Callable[[T], R], files: Sequence[T]) -> Iterable[R]:
        """Read several files: concurrently on an object store, whose latency is high, one by one on a disk."""
        return map(read, files) if self.storage.requests_at_once == 1 else map_concurrently(self.storage, read, files)

    def _load(self, name: str, *, size: int | None = None, snapshot_id: int | None = None) -> tuple[str, bytes]:
        """Return the path and the bytes of a file, which must have the recorded size."""
        path = self._path(name)
        try:
            data = self.storage.read(path)
        except FileNotFoundError as error:
            raise self._missing(path, snapshot_id) from error
        if size is not None and size != len(data):
            message = f"{path} has {len(data)} bytes, but the file that names it says {size}; restore it from a copy"
            raise CorruptTableError(message, path=path)
        return path, data

    def _path(self, name: str) -> str:
        return self.layout.manifest_file(name, origin=self.layout.manifest_directory)

    def _missing(self, path: str, snapshot_id: int | None) -> NotFoundError | CorruptTableError:
        """Return the error for a missing file: its snapshot has expired, or the table is damaged."""
        if snapshot_id is not None and not self.storage.exists(self.layout.snapshot_file(snapshot_id)):
            return NotFoundError(
                f"snapshot {snapshot_id} of {self.layout.root} has expired and {path} with it; read a newer snapshot",
                path=path,
                snapshot_id=snapshot_id,
            )
        return CorruptTableError(f"{path} is missing, though the table names it; restore it from a copy", path=path)

    def _encoder(self, schema: Schema) -> RecordEncoder:
        level = self.options.file_compression_zstd_level
        compression = self.options.manifest_compression
        return RecordEncoder(schema, compression, zstd_level=level, salt=self.salt)

    def _encode_records(self, schema: Schema, records: Iterable[Record]) -> bytes:
        encoder = self._encoder(schema)
        for record in records:
            encoder.add(record)
        return encoder.finish()

    def _store(self, kind: str, data: bytes) -> tuple[str, int]:
        """Create a file under a new name and return the name and the size."""
        name = self.namer.name(kind)
        path = self.layout.manifest_file(name)
        if not self.storage.create(path, data):
            raise AlreadyExistsError(f"{path} exists already; another writer uses the same names", path=path)
        return name, len(data)


def _state(snapshot: Snapshot) -> str:
    """Return a name of the state that a snapshot shows: no two states have the same lists."""
    return f"{snapshot.base_manifest_list} {snapshot.delta_manifest_list}"


class _Canonical(dict[bytes, bytes]):
    """A cache: partition rows as they are in a file, each with Java's form of it."""

    def __init__(self, types: Sequence[DataType], path: str) -> None:
        super().__init__()
        self._types, self._path = types, path

    def __missing__(self, partition: bytes) -> bytes:
        try:
            self[partition] = row = canonical_row(partition, self._types)
        except CorruptTableError as error:
            message = f"{self._path} has an entry whose partition cannot be read: {error}"
            raise CorruptTableError(message, path=self._path) from error
        return row


def _check_versions(records: Iterable[Record], version: int, path: str) -> None:
    for stored in {record["_VERSION"] for record in records}:
        if stored != version:
            raise UnsupportedError(f"{path} has records of version {stored}; lakewright knows {version}", path=path)


def _check_counts(manifest: ManifestFile, counts: Sequence[int], path: str) -> None:
    added, deleted = counts
    if (added, deleted) != (manifest.num_added_files, manifest.num_deleted_files):
        raise CorruptTableError(
            f"{path} adds {added} files and deletes {deleted}, but its manifest list says {manifest.num_added_files} "
            f"and {manifest.num_deleted_files}; restore it from a copy",
            path=path,
            counts=(added, deleted),
        )


def _parts(record: EntryRecord, path: str) -> tuple[int, bytes, int, int, FileRecord]:
    """Return the parts of the record of an entry, after a check of its version and kind."""
    kind, file = record["_KIND"], record["_FILE"]
    if record["_VERSION"] != ENTRY_VERSION:
        _check_versions([cast("Record", record)], ENTRY_VERSION, path)
    if kind not in {ADD, DELETE} or file is None:
        raise CorruptTableError(f"{path} has an entry that neither adds nor deletes a file", path=path)
    return kind, record["_PARTITION"], record["_BUCKET"], record["_TOTAL_BUCKETS"], file

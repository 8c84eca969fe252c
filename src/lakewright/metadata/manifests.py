"""Manifests, manifest lists and index manifests: entries in, Avro files out, and the reverse.

A snapshot names two manifest lists, each list names manifests, each manifest holds entries that add or delete data
files; all entries together, in order, say which files are live. Partition rows of other writers are converted to Java's
form here, so that equal partitions have equal bytes everywhere else in the library.

Always holds: a file is complete and durable under a new name before its name is returned; a file that is read has the
size and the number of entries that are recorded in the file that names it, or CorruptTableError is raised.
"""

from __future__ import annotations

import itertools
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar, cast

import numpy as np

from lakewright.errors import AlreadyExistsError, CorruptTableError, NotFoundError, UnsupportedError
from lakewright.formats.avro.columns import Longs
from lakewright.metadata.avro_files import Record, RecordEncoder, Schema, decode_records, iterate_records
from lakewright.metadata.entry_columns import EntryColumns, decode_entries
from lakewright.metadata.manifest_merge import (
    MergeLimits,
    deleted_partitions,
    is_improvable,
    may_hold,
    plan_merge,
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
    IndexRecord,
    ListRecord,
    data_file,
    entry_record,
    index_file,
    index_record,
    list_record,
    manifest_facts,
    manifest_file,
)
from lakewright.spec.manifest import ADD, DELETE, IndexEntry, ManifestEntry, ManifestFile, merge_entries
from lakewright.spec.options import CoreOptions
from lakewright.spec.rows.binary_row import canonical_row
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.types import DataType
from lakewright.storage.base import Storage
from lakewright.storage.layout import Layout
from lakewright.storage.side_by_side import each

_COLUMNS_MIN = 2_000  # entries; fewer are decoded one by one

T = TypeVar("T")
R = TypeVar("R")
Narrow: TypeAlias = Callable[[EntryColumns, Longs], Longs]  # numbers of entries in, some of them out
Keep: TypeAlias = Callable[[bytes, int, int, int], bool]  # partition, bucket, total buckets, level


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
    options: CoreOptions
    namer: Namer = field(default_factory=Namer, repr=False, compare=False)
    salt: bytes = field(default=b"", repr=False, compare=False)  # makes the bytes of new files unique to one writer

    # Reading.

    def files_of(self, snapshot: Snapshot) -> list[ManifestFile]:
        """Return the manifests of a snapshot in order: those of its base, then those of its delta."""
        lists = (
            (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
            (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        )
        parts = self._each(lambda name_and_size: self.read_list(*name_and_size, snapshot_id=snapshot.id), lists)
        return [file for part in parts for file in part]

    def live(
        self,
        snapshot: Snapshot,
        *,
        keep: Keep | None = None,
        keep_manifest: Callable[[ManifestFile], bool] | None = None,
        narrow: Narrow | None = None,
    ) -> list[ManifestEntry]:
        """Return the entries of the files that are live in a snapshot and for which `keep` returns True.

        A manifest for which `keep_manifest` returns False is not read. Like `keep`, it may decide by partition, bucket
        and level only, because an entry that deletes a file must be kept or left out with the one that adds it.
        `narrow` chooses among live entries before they become objects. It is asked only where there are many entries.
        """
        files = [f for f in self.files_of(snapshot) if keep_manifest is None or keep_manifest(f)]
        if sum(f.num_added_files + f.num_deleted_files for f in files) >= _COLUMNS_MIN:
            found = self._live_columns(files, keep, narrow, snapshot.id)
            if found is not None:
                return found
        entries = merge_entries(self._read_all(files, keep=keep, snapshot_id=snapshot.id))
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
        return self._read_all(files, keep=keep, snapshot_id=snapshot.id)

    def changelog(self, snapshot: Snapshot, *, keep: Keep | None = None) -> list[ManifestEntry]:
        """Return the changelog files that a snapshot added."""
        if snapshot.changelog_manifest_list is None:
            return []
        size = snapshot.changelog_manifest_list_size
        files = self.read_list(snapshot.changelog_manifest_list, size, snapshot_id=snapshot.id)
        return self._read_all(files, keep=keep, snapshot_id=snapshot.id)

    def read_list(self, name: str, size: int | None = None, *, snapshot_id: int | None = None) -> list[ManifestFile]:
        """Return the manifests of a manifest list; its size is checked if it is given."""
        path, data = self._load(name, size=size, snapshot_id=snapshot_id)
        records = decode_records(data, path, expected=LIST_SCHEMA)
        _check_versions(records, LIST_VERSION, path)
        return [manifest_file(record) for record in cast("list[ListRecord]", records)]

    def read(
        self, manifest: ManifestFile, *, keep: Keep | None = None, snapshot_id: int | None = None
    ) -> list[ManifestEntry]:
        """Return the entries of a manifest for which `keep` returns True, in order."""
        path, data = self._load(manifest.file_name, size=manifest.file_size, snapshot_id=snapshot_id)
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

    def read_index(self, name: str) -> list[IndexEntry]:
        """Return the entries of an index manifest, which lists all live index files."""
        path, data = self._load(name)
        records = decode_records(data, path, expected=INDEX_SCHEMA_SOURCE)
        _check_versions(records, INDEX_VERSION, path)
        if any(record["_KIND"] != ADD for record in records):
            raise CorruptTableError(f"{path} deletes index files, but may list live ones only", path=path)
        canonical = _Canonical(self.partition_types, path)
        return [
            IndexEntry(record["_KIND"], canonical[record["_PARTITION"]], record["_BUCKET"], index_file(record))
            for record in cast("list[IndexRecord]", records)
        ]

    # Writing.

    def write(self, entries: Iterable[ManifestEntry], *, schema_id: int) -> list[ManifestFile]:
        """Write entries to as many manifests as their size requires, none if there are no entries.

        `schema_id` is that of the newest schema. If a write fails, the manifests written before it are removed.
        """
        entries = list(entries)
        sequenced = any(entry.file.write_cols_sequences is not None for entry in entries)
        schema = ENTRY_SCHEMA_SEQUENCES if sequenced else ENTRY_SCHEMA
        target = self.options.get(CoreOptions.MANIFEST_TARGET_FILE_SIZE)
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
        return self._store("manifest-list", self._encoded(LIST_SCHEMA, map(list_record, files)))

    def write_index(self, entries: Iterable[IndexEntry]) -> str:
        """Write an index manifest with all live index files, perhaps none, and return its name."""
        entries = list(entries)
        sourced = any(e.file.global_index is not None and e.file.global_index.source_meta is not None for e in entries)
        schema = INDEX_SCHEMA_SOURCE if sourced else INDEX_SCHEMA
        return self._store("index-manifest", self._encoded(schema, map(index_record, entries)))[0]

    def delete(self, name: str) -> None:
        """Remove a manifest, manifest list or index manifest that no snapshot names."""
        self.storage.delete(self.layout.manifest_file(name))

    def merge(self, files: Sequence[ManifestFile]) -> MergedManifests:
        """Merge manifests, given in order, as the options of the table say. If it fails, new manifests are removed."""
        get = self.options.get
        limits = MergeLimits(
            target_bytes=get(CoreOptions.MANIFEST_TARGET_FILE_SIZE),
            count_min=get(CoreOptions.MANIFEST_MERGE_MIN_COUNT),
            full_bytes=get(CoreOptions.MANIFEST_FULL_COMPACTION_THRESHOLD_SIZE),
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
        rewrite = [f for f in files if f.file_name in read or may_hold(f.partition_stats, partitions, types)]
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
        self, files: Sequence[ManifestFile], *, keep: Keep | None = None, snapshot_id: int | None = None
    ) -> list[ManifestEntry]:
        """Return the entries of several manifests, in the order of the manifests."""

        def read(file: ManifestFile) -> list[ManifestEntry]:
            return self.read(file, keep=keep, snapshot_id=snapshot_id)

        return [entry for part in self._each(read, files) for entry in part]

    def _live_columns(
        self, files: Sequence[ManifestFile], keep: Keep | None, narrow: Narrow | None, snapshot_id: int
    ) -> list[ManifestEntry] | None:
        """Return the live entries of many manifests, decoded as columns; None: something is unusual or wrong."""
        loaded = self._each(lambda f: self._load(f.file_name, size=f.file_size, snapshot_id=snapshot_id)[1], files)
        canonical = _Canonical(self.partition_types, self.layout.root)
        columns = decode_entries(files, loaded, canonical.__getitem__)
        if columns is None:
            return None
        rows = np.arange(len(columns)) if keep is None else np.flatnonzero(columns.kept(keep))
        live = columns.live(rows)
        if live is None:
            return None
        try:
            return columns.entries(live if narrow is None else narrow(columns, live))
        except UnicodeDecodeError:
            return None

    def _each(self, read: Callable[[T], R], files: Sequence[T]) -> Iterable[R]:
        """Read several files: side by side on an object store, whose latency is high, one by one on a disk."""
        return map(read, files) if self.storage.requests_at_once == 1 else each(self.storage, read, files)

    def _load(self, name: str, *, size: int | None = None, snapshot_id: int | None = None) -> tuple[str, bytes]:
        """Return the path and the bytes of a file, which must have the recorded size."""
        path = self.layout.manifest_file(name, origin=self.layout.manifest_directory)
        try:
            data = self.storage.read(path)
        except FileNotFoundError as error:
            raise self._missing(path, snapshot_id) from error
        if size is not None and size != len(data):
            message = f"{path} has {len(data)} bytes, but the file that names it says {size}; restore it from a copy"
            raise CorruptTableError(message, path=path)
        return path, data

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
        level = self.options.get(CoreOptions.FILE_COMPRESSION_ZSTD_LEVEL)
        compression = self.options.get(CoreOptions.MANIFEST_COMPRESSION)
        return RecordEncoder(schema, compression, zstd_level=level, salt=self.salt)

    def _encoded(self, schema: Schema, records: Iterable[Record]) -> bytes:
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

"""Manifests and manifest lists: names in, their entries out, with findings about what does not fit.

Every file is read once, however many states name it. A file that is damaged gives None; one that has other sizes or
counts than recorded is a finding, and its entries are returned all the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lakewright.errors import CorruptTableError, counted
from lakewright.metadata.manifest_merge import may_hold
from lakewright.metadata.store import TableStore
from lakewright.spec.datafile import EMPTY_ROW, DataFile
from lakewright.spec.manifest import IndexEntry, ManifestEntry, ManifestFile
from lakewright.storage.base import Storage
from lakewright.verify.findings import Findings

ENTRIES_MAX = 200_000  # entries that are kept in memory for the states that name the same manifests


@dataclass(slots=True)
class Listing:
    """The sizes of files: directories are listed once, and a file that a listing lacks is asked for."""

    storage: Storage
    _sizes: dict[str, dict[str, int]] = field(default_factory=dict)

    def size(self, path: str) -> int | None:
        """Return the size of a file, None if it does not exist."""
        directory = path.rpartition("/")[0]
        if directory not in self._sizes:
            self._sizes[directory] = {info.path: info.size for info in self.storage.list(directory)}
        size = self._sizes[directory].get(path)
        # A file may have been written after its directory was listed.
        return self.storage.size(path) if size is None else size


@dataclass(slots=True)
class ManifestFiles:
    """Reads the manifests of a table for verification."""

    listing: Listing
    findings: Findings
    used: set[str] = field(default_factory=set)  # the names of all files that were named
    _lists: dict[str, list[ManifestFile] | None] = field(default_factory=dict)
    _indexes: dict[str, list[IndexEntry] | None] = field(default_factory=dict)
    _entries: OrderedDict[str, list[ManifestEntry] | None] = field(default_factory=OrderedDict)
    _kept: int = 0
    _checked: set[ManifestFile] = field(default_factory=set)
    _read: set[str] = field(default_factory=set)

    @property
    def count(self) -> int:
        """How many files were read."""
        return len(self._lists) + len(self._indexes) + len(self._read)

    def manifest_list(self, store: TableStore, name: str, size: int | None, state: str) -> list[ManifestFile] | None:
        """Return the manifests of a list that a state names, None if it cannot be read."""
        path = self._path(store, name, size, state)
        if name not in self._lists:
            self._lists[name] = None
            if path is not None:
                with self.findings.noting("damaged-metadata", path, state=state, missing="missing-metadata"):
                    self._lists[name] = store.manifests.without_cache().read_list(name)
        return self._lists[name]

    def index_manifest(self, store: TableStore, name: str, state: str) -> list[IndexEntry] | None:
        """Return the entries of an index manifest that a state names, None if it cannot be read."""
        path = self._path(store, name, None, state)
        if name not in self._indexes:
            self._indexes[name] = None
            if path is not None:
                with self.findings.noting("damaged-metadata", path, state=state, missing="missing-metadata"):
                    entries = self._indexes[name] = store.manifests.without_cache().read_index(name)
                    self.used.update(entry.file.file_name for entry in entries)
        return self._indexes[name]

    def entries(self, store: TableStore, manifest: ManifestFile, state: str) -> list[ManifestEntry] | None:
        """Return the entries of a manifest, None if it cannot be read."""
        path = self._path(store, manifest.file_name, manifest.file_size, state)
        if manifest.file_name not in self._entries:
            found = None if path is None else self._load(store, manifest, path, state)
            self._keep(manifest.file_name, found)
        self._entries.move_to_end(manifest.file_name)
        entries = self._entries[manifest.file_name]
        if entries is not None and manifest not in self._checked:
            self._checked.add(manifest)
            for text in _misfits(manifest, entries, store):
                self.findings.add("manifest-bounds", path or state, f"{path}: {text}", state=state)
        return entries

    def _load(self, store: TableStore, manifest: ManifestFile, path: str, state: str) -> list[ManifestEntry] | None:
        self._read.add(manifest.file_name)
        recorded = replace(manifest, file_size=self.listing.size(path) or 0)
        entries = None
        with self.findings.noting("damaged-metadata", path, state=state, missing="missing-metadata"):
            try:
                entries = store.manifests.without_cache().read(recorded)
            except CorruptTableError as error:
                if "counts" not in error.facts:
                    raise
                self.findings.add("manifest-counts", path, error.message, state=state)
                added, deleted = error.counts
                entries = store.manifests.without_cache().read(
                    replace(recorded, num_added_files=added, num_deleted_files=deleted)
                )
        for entry in entries or ():
            self.used.update((entry.file.file_name, *entry.file.extra_files))
        return entries

    def _keep(self, name: str, entries: list[ManifestEntry] | None) -> None:
        self._entries[name] = entries
        self._kept += len(entries or ())
        while self._kept > ENTRIES_MAX and len(self._entries) > 1:
            _, dropped = self._entries.popitem(last=False)
            self._kept -= len(dropped or ())

    def _path(self, store: TableStore, name: str, size: int | None, state: str) -> str | None:
        """Return the path of a file that exists, after a check of its size; None, and a finding, if it does not."""
        self.used.add(name)
        path: str | None = None
        with self.findings.noting("damaged-metadata", state, state=state):
            path = store.layout.manifest_file(name, origin=state)
        if path is None:
            return None
        actual = self.listing.size(path)
        if actual is None:
            self.findings.incomplete = True
            self.findings.add("missing-metadata", path, f"{path} is missing, though {state} needs it", state=state)
            return None
        if size is not None and actual != size:
            text = f"{path} has {counted(actual, 'byte')} where {size:,} are recorded"
            self.findings.add("wrong-size", path, text, state=state)
        return path


def _misfits(manifest: ManifestFile, entries: Sequence[ManifestEntry], store: TableStore) -> list[str]:
    """Return what a record of a manifest list says wrongly about the entries: readers prune by it."""
    if not entries:
        return []
    out = []
    files = [entry.file for entry in entries]
    for what, low, high, values in (
        ("buckets", manifest.min_bucket, manifest.max_bucket, [entry.bucket for entry in entries]),
        ("levels", manifest.min_level, manifest.max_level, [file.level for file in files]),
        ("row ids", manifest.min_row_id, manifest.max_row_id, [i for f in files for i in _row_ids(f)]),
    ):
        if values and ((low is not None and min(values) < low) or (high is not None and max(values) > high)):
            out.append(f"its {what} are {min(values)} to {max(values)}, and its manifest list says {low} to {high}")
    if manifest.partition_stats.min_values != EMPTY_ROW:
        types = store.partition_types
        out += [
            f"its manifest list excludes the partition {store.partition_name(partition)}"
            for partition in {entry.partition for entry in entries}
            if not may_hold(manifest.partition_stats, [store.partition_values(partition)], types)
        ]
    if manifest.schema_id < max(file.schema_id for file in files):
        out.append(f"its manifest list says that no file has a schema above {manifest.schema_id}")
    return out


def _row_ids(file: DataFile) -> tuple[int, ...]:
    return () if file.first_row_id is None else (file.first_row_id, file.first_row_id + file.row_count - 1)

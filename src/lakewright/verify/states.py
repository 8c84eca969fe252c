"""The states of a branch, oldest first: each in, its live files as tasks out, and findings about how they fit.

A state whose base has the manifests of the state before is built on that state's live files, so a long history is not
merged again and again. What always holds: every file is registered once, with the last state that needs it; where a
manifest cannot be read, what depends on all of them is not judged.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeAlias

from lakewright.errors import CorruptTableError, InvalidInputError
from lakewright.lsm.keys import Key, KeyOrder
from lakewright.spec.datafile import DELETION_VECTORS, HASH, DataFile, IndexFile, is_side_file
from lakewright.spec.manifest import ADD, FileIdentity, IndexEntry, ManifestEntry, ManifestFile
from lakewright.spec.options import CoreOptions
from lakewright.spec.rows.binary_row import decode_row
from lakewright.spec.schema.table_schema import BucketMode
from lakewright.spec.snapshot import COPY_OF
from lakewright.verify.findings import Findings
from lakewright.verify.history import Branch, State
from lakewright.verify.manifests import ManifestFiles
from lakewright.verify.tasks import FileTask

Place: TypeAlias = tuple[bytes, int]  # partition and bucket
Live: TypeAlias = dict[FileIdentity, ManifestEntry]


@dataclass(slots=True)
class Needed:
    """A file that states need: its task, its path, and the file of the last state that needs it."""

    task: FileTask
    path: str
    state: str


@dataclass(frozen=True, slots=True)
class IndexNeeded:
    """An index file that a state needs, and the number of rows of the data files that its vectors are about."""

    path: str
    file: IndexFile
    rows: tuple[tuple[str, int], ...]
    state: str
    place: Place


@dataclass(slots=True)
class Files:
    """All files that the states of a table need, each once."""

    data: dict[tuple[str, DataFile, bool], Needed] = field(default_factory=dict)
    index: dict[tuple[str, IndexFile], IndexNeeded] = field(default_factory=dict)


@dataclass(slots=True)
class BranchWalk:
    """Goes through the states of one branch."""

    branch: Branch
    manifests: ManifestFiles
    findings: Findings
    files: Files
    live: Live = field(default_factory=dict)  # of the last state
    index: list[IndexEntry] = field(default_factory=list)  # of the last state
    _names: frozenset[str] = frozenset()  # the manifests of the last state
    _last: State | None = None  # the last state, if all of it could be read
    _hashes: dict[Place, IndexFile] = field(default_factory=dict)
    _added: Live = field(default_factory=dict)  # by the state that is visited
    _is_on_last: bool = False  # the entries that are applied change the last state
    _lost: tuple[Live, str, str] | None = None  # the files of a state that the next one does not begin with; a finding

    def visit(self, state: State) -> None:
        """Check one state; states come in the order of their ids."""
        snapshot, path = state.snapshot, state.path
        self.branch.check_schema(snapshot.schema_id, self.findings, by=f"{state.name} ({path})")
        self._changelog(state)
        if state.is_changelog:
            return
        base = self._list(snapshot.base_manifest_list, snapshot.base_manifest_list_size, path)
        delta = self._list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size, path)
        touched, whole = self._base(base, state)
        entries, complete = self._entries(delta or (), state)
        whole = whole and complete and delta is not None
        places = self._apply(entries, state, judged=whole)
        self._check_lost(state)
        # Files of the base that the delta deletes are needed by the state before alone, which may have expired.
        for identity, entry in self._added.items():
            if identity in self.live:
                self._need(entry, state)
        self._added = {}
        if whole:
            self._check_totals(state, entries)
        self._index(state)
        self._check_state(state, None if touched is None else touched | places)
        self._statistics(state)
        self._names = frozenset(m.file_name for m in (*(base or ()), *(delta or ())))
        self._last = state if whole else None

    # Reading.

    def _list(self, name: str, size: int | None, state: str) -> list[ManifestFile] | None:
        return self.manifests.manifest_list(self.branch.store, name, size, state)

    def _entries(self, files: Iterable[ManifestFile], state: State) -> tuple[list[ManifestEntry], bool]:
        """Return the entries of manifests, and whether all could be read."""
        out: list[ManifestEntry] = []
        complete = True
        for manifest in files:
            self.branch.check_schema(manifest.schema_id, self.findings, by=f"the manifest {manifest.file_name}")
            entries = self.manifests.entries(self.branch.store, manifest, state.path)
            complete = complete and entries is not None
            out += entries or ()
        return out, complete

    def _base(self, base: Sequence[ManifestFile] | None, state: State) -> tuple[set[Place] | None, bool]:
        """Bring the live files to the base of a state; return the changed places (None: all), and if it is whole."""
        before = self._last
        # A tag may be of a line of history that was rolled back.
        follows = before is not None and not state.is_tag and before.snapshot.id + 1 == state.snapshot.id
        # Of a rollback or fast-forward at work, or one that was cut short, copies of the wanted state are in between.
        if before is not None and (COPY_OF in before.snapshot.properties or COPY_OF in state.snapshot.properties):
            follows = False
        self._is_on_last = before is not None and follows
        if before is not None and follows and base is not None and self._names == {m.file_name for m in base}:
            return set(), True
        old = self.live
        if before is not None and not follows:
            for entry in old.values():
                self._needed_by(entry, before)
        self.live, self._is_on_last = {}, False
        entries, complete = self._entries(base or (), state)
        whole = complete and base is not None
        self._apply(entries, state, judged=whole)
        self._is_on_last = before is not None and follows
        if before is not None and follows and whole and old.keys() != self.live.keys():
            lost = [entry for identity, entry in old.items() if identity not in self.live]
            path = self.branch.store.layout.manifest_file(state.snapshot.base_manifest_list)
            text = f"the base of {state.name} has {len(self.live):,} files and {before.name} has {len(old):,}"
            named = f"; it lacks {lost[0].file.file_name}" if lost else ""
            self._lost = old, path, text + named
        return None, whole

    def _check_lost(self, state: State) -> None:
        """Report that a state does not begin with the one before, unless it is the same in the end.

        A rollback or fast-forward publishes the wanted state on top, and then replaces the snapshots below it.
        """
        lost, self._lost = self._lost, None
        if lost is not None and lost[0].keys() != self.live.keys():
            self.findings.add("lost-entries", lost[1], lost[2], state=state.path)

    def _apply(self, entries: Iterable[ManifestEntry], state: State, *, judged: bool) -> set[Place]:
        """Add and delete files as entries say, in any order, and return the places that they touch."""
        deleted: Live = {}
        places: set[Place] = set()
        for entry in entries:
            identity = entry.identity
            places.add((entry.partition, entry.bucket))
            if entry.kind != ADD:
                gone = self.live.pop(identity, None)
                if gone is None:
                    deleted[identity] = entry
                elif self._last is not None and self._is_on_last:
                    self._needed_by(gone, self._last)
            elif identity in self.live:
                self._note("double-add", entry, f"{state.name} adds the file {entry.file.file_name} twice", state)
            elif deleted.pop(identity, None) is None:
                self.live[identity] = self._added[identity] = entry
        for entry in deleted.values() if judged else ():
            text = f"{state.name} deletes the file {entry.file.file_name}, which was never added"
            self._note("deleted-unknown", entry, text, state)
        return places

    def _changelog(self, state: State) -> None:
        snapshot, store = state.snapshot, self.branch.store
        if snapshot.changelog_manifest_list is None:
            return
        if state.is_tag and not store.storage.exists(store.layout.manifest_file(snapshot.changelog_manifest_list)):
            return
        files = self._list(snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size, state.path)
        entries, complete = self._entries(files or (), state)
        for entry in entries:
            self._need(entry, state, is_changelog=True)
        rows = sum(entry.file.row_count for entry in entries)
        recorded = snapshot.changelog_record_count
        if complete and files is not None and recorded is not None and recorded != rows:
            text = f"{state.name} says that its changelog has {recorded:,} rows; the manifests say {rows:,}"
            self.findings.add("snapshot-totals", state.path, text, state=state.path)

    # Registering files.

    def _note(self, kind: str, entry: ManifestEntry, text: str, state: State) -> None:
        self.findings.add(kind, self.path_of(entry, state) or state.path, text, state=state.path)

    def path_of(self, entry: ManifestEntry, state: State) -> str | None:
        """Return the path of a data file; None, and a finding, if it would lie outside the table."""
        store = self.branch.store
        try:
            directory = store.partition_directory(entry.partition)
            return store.layout.data_file(directory, entry.bucket, entry.file)
        except (CorruptTableError, InvalidInputError) as error:
            self.findings.add("outside-table", state.path, error.message, state=state.path)
            return None

    def _need(self, entry: ManifestEntry, state: State, *, is_changelog: bool = False) -> None:
        file, path = entry.file, self.path_of(entry, state)
        if path is None:
            return
        self.branch.check_schema(file.schema_id, self.findings, by=f"the data file {path}")
        if min(file.row_count, file.file_size, file.level, file.delete_row_count or 0) < 0:
            self._note("row-count", entry, f"{path} is recorded with a number below zero", state)
            return
        if file.row_count and file.min_sequence_number > file.max_sequence_number:
            text = f"{path} is recorded with sequence numbers from {file.min_sequence_number} to"
            self._note("sequence-range", entry, f"{text} {file.max_sequence_number}", state)
        if not _bucket_fits(entry):
            text = f"{path} is recorded in bucket {entry.bucket} of {entry.total_buckets}"
            self._note("wrong-bucket", entry, text, state)
            return
        key = path, replace(file, level=0), is_changelog
        task = FileTask(
            self.branch.store.layout.branch, entry.partition, entry.bucket, entry.total_buckets, file, is_changelog
        )
        known = self.files.data.setdefault(key, Needed(task, path, state.path))
        known.state = state.path

    def _needed_by(self, entry: ManifestEntry, state: State) -> None:
        """Note the last state that needs a file, and the index of keys that it has there."""
        path = self.path_of(entry, state)
        known = None if path is None else self.files.data.get((path, replace(entry.file, level=0), False))
        if known is not None:
            known.state = state.path
            index = self._hashes.get((entry.partition, entry.bucket))
            known.task = replace(known.task, hash_index=index)

    def finish(self) -> None:
        """Note that the files that are live now are needed by the last state."""
        if self._last is not None:
            for entry in self.live.values():
                self._needed_by(entry, self._last)

    # What must fit together.

    def _check_totals(self, state: State, delta: Sequence[ManifestEntry]) -> None:
        snapshot = state.snapshot
        changed = sum(e.file.row_count if e.kind == ADD else -e.file.row_count for e in delta)
        total = sum(entry.file.row_count for entry in self.live.values())
        for what, recorded, actual in (
            ("its delta changes the number of rows by", snapshot.delta_record_count, changed),
            ("its files have rows:", snapshot.total_record_count, total),
        ):
            if recorded is not None and recorded != actual:
                text = f"{state.name} says that {what} {recorded:,}; the manifests say {actual:,}"
                self.findings.add("snapshot-totals", state.path, text, state=state.path)

    def _check_state(self, state: State, touched: set[Place] | None) -> None:
        """Check levels, numbers of buckets and row ids of the live files, in the places that changed."""
        buckets: dict[Place, list[ManifestEntry]] = defaultdict(list)
        totals: dict[bytes, dict[int, ManifestEntry]] = defaultdict(dict)
        for entry in self.live.values():
            buckets[entry.partition, entry.bucket].append(entry)
            if entry.total_buckets > 0:
                totals[entry.partition].setdefault(entry.total_buckets, entry)
        for found in (one for one in totals.values() if len(one) > 1):
            text = f"one partition has files of {' and of '.join(map(str, sorted(found)))} buckets"
            self._note("wrong-bucket", found[max(found)], text, state)
        store = self.branch.store
        if store.schema.primary_keys and not store.options.get(CoreOptions.PK_CLUSTERING_OVERRIDE):
            for place, entries in buckets.items():
                if place[1] >= 0 and (touched is None or place in touched):
                    self._check_levels(state, entries)
        if touched is None or touched:
            self._check_row_ids(state)
        if store.schema.bucket_mode == BucketMode.HASH_DYNAMIC:
            self._check_hashed(state, buckets)

    def _check_hashed(self, state: State, buckets: dict[Place, list[ManifestEntry]]) -> None:
        """Every dynamic bucket has an index of its keys."""
        name = state.snapshot.index_manifest
        if name is not None and self.manifests.index_manifest(self.branch.store, name, state.path) is None:
            return  # which is reported already
        for place, entries in buckets.items():
            if place not in self._hashes:
                text = f"the bucket of {entries[0].file.file_name} has no index of its keys in {state.name}"
                self._note("hash-index", entries[0], text, state)

    def _check_levels(self, state: State, entries: Sequence[ManifestEntry]) -> None:
        """Files of one level above 0 must not share a key."""
        key = self.branch.store.schema.trimmed_primary_key_fields
        order, types = KeyOrder(key), [f.type for f in key]
        levels: dict[int, list[tuple[Key, Key, ManifestEntry]]] = defaultdict(list)
        for entry in entries:
            try:
                low, high = (order.key_of(decode_row(k, types)) for k in (entry.file.min_key, entry.file.max_key))
            except CorruptTableError as error:
                text = f"the recorded keys of {entry.file.file_name} cannot be read: {error}"
                self._note("key-range", entry, text, state)
                continue
            if low > high:
                text = f"the first recorded key of {entry.file.file_name} is above the last"
                self._note("key-range", entry, text, state)
            elif entry.file.level > 0:
                levels[entry.file.level].append((low, high, entry))
        for level, bounded in levels.items():
            bounded.sort(key=lambda bound: bound[:2])
            for (_, high, one), (low, _, other) in pairwise(bounded):
                if low <= high:
                    text = (
                        f"{one.file.file_name} and {other.file.file_name} of level {level} share keys in {state.name}"
                    )
                    self._note("overlapping-levels", other, text, state)

    def _check_row_ids(self, state: State) -> None:
        """Ranges of row ids must not overlap, except those of files that hold columns of the same rows."""
        store = self.branch.store
        if not store.options.get(CoreOptions.ROW_TRACKING_ENABLED):
            return
        shared = store.options.get(CoreOptions.DATA_EVOLUTION_ENABLED)
        entries = [e for e in self.live.values() if e.file.first_row_id is not None and not is_side_file(e.file)]
        entries.sort(key=lambda e: (e.file.first_row_id or 0, e.file.row_count))
        end, last = -1, None
        for entry in entries:
            span = (entry.file.first_row_id or 0, entry.file.row_count)
            if span[0] <= end and not (shared and span == last):
                text = f"the row ids of {entry.file.file_name} are those of other files too in {state.name}"
                self._note("row-ids", entry, text, state)
            end, last = max(end, sum(span) - 1), span
            limit = state.snapshot.next_row_id
            if limit is not None and sum(span) > limit:
                text = f"the row ids of {entry.file.file_name} reach {sum(span) - 1}, and {state.name} has the next as"
                self._note("row-ids", entry, f"{text} {limit}", state)

    # Index files and table statistics.

    def _index(self, state: State) -> None:
        self.index, self._hashes = [], {}
        name = state.snapshot.index_manifest
        if name is None:
            return
        store = self.branch.store
        self.index = self.manifests.index_manifest(store, name, state.path) or []
        path = f"{store.layout.manifest_directory}/{name}"
        rows = {(e.partition, e.bucket, e.file.file_name): e.file.row_count for e in self.live.values()}
        seen: set[tuple[bytes, int, str]] = set()
        places: set[tuple[bytes, int, str]] = set()
        for entry in self.index:
            key = entry.partition, entry.bucket, entry.file.index_type
            unaware = store.schema.bucket_mode == BucketMode.UNAWARE
            if key in places and (entry.file.index_type == HASH or not unaware) and entry.file.global_index is None:
                text = f"{path} has two entries of the type {key[2]} for one bucket, as {entry.file.file_name}"
                self.findings.add("index-entries", path, text, state=state.path)
            places.add(key)
            if entry.file.index_type == HASH:
                self._hashes[entry.partition, entry.bucket] = entry.file
            self._need_index(entry, rows, state)
            for vector in entry.file.deletion_ranges or ():
                place = entry.partition, entry.bucket, vector.data_file
                if place in seen:
                    text = f"{path} has two deletion vectors of {vector.data_file}"
                    self.findings.add("index-entries", path, text, state=state.path)
                seen.add(place)
                if place not in rows and not self.findings.incomplete:
                    text = f"it has a deletion vector of {vector.data_file}, which is not in {state.name}"
                    self.findings.add("dangling-vector", self._index_path(entry) or path, text, state=state.path)

    def _index_path(self, entry: IndexEntry) -> str | None:
        store = self.branch.store
        try:
            directory = store.layout.bucket_directory(store.partition_directory(entry.partition), entry.bucket)
            return store.layout.index_file(entry.file, directory)
        except (CorruptTableError, InvalidInputError):
            return None

    def _need_index(self, entry: IndexEntry, rows: dict[tuple[bytes, int, str], int], state: State) -> None:
        path = self._index_path(entry)
        if path is None:
            text = f"{state.name} names an index file outside the table: {entry.file.file_name!r}"
            self.findings.add("outside-table", state.path, text, state=state.path)
            return
        vectors = entry.file.deletion_ranges or ()
        named = (entry.partition, entry.bucket)
        known = tuple((v.data_file, rows[*named, v.data_file]) for v in vectors if (*named, v.data_file) in rows)
        key = path, entry.file
        before = self.files.index.get(key)
        if before is None or len(before.rows) <= len(known):
            self.files.index[key] = IndexNeeded(path, entry.file, known, state.path, named)
        if entry.file.index_type == DELETION_VECTORS and entry.file.row_count != len(vectors):
            text = f"{path} is recorded with {entry.file.row_count} deletion vectors and the places of {len(vectors)}"
            self.findings.add("deletion-vector", path, text, state=state.path)

    def _statistics(self, state: State) -> None:
        name, store = state.snapshot.statistics, self.branch.store
        if name is None:
            return
        self.manifests.used.add(name)
        path = f"{store.layout.statistics_directory}/{name}"
        with self.findings.noting("statistics", path, state=state.path, missing="missing-file"):
            path = store.layout.statistics_file(name, origin=state.path)
            try:
                body = json.loads(store.storage.read(path))
                schema_id, snapshot_id = int(body["schemaId"]), int(body["snapshotId"])
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise CorruptTableError(f"{path} holds no statistics of a table: {error}", path=path) from error
            if snapshot_id > state.snapshot.id:
                raise CorruptTableError(f"{path} is of snapshot {snapshot_id}, after {state.name}", path=path)
            self.branch.check_schema(schema_id, self.findings, by=f"the statistics file {path}")


def _bucket_fits(entry: ManifestEntry) -> bool:
    """Say whether a bucket is one of the buckets that its entry says there are."""
    if entry.total_buckets > 0:
        return 0 <= entry.bucket < entry.total_buckets
    return entry.bucket >= -2 and entry.total_buckets >= -2  # noqa: PLR2004 - the postponed bucket

"""States of a table and their manifests, walked and checked."""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeAlias

from lakewright.errors import CorruptTableError, InvalidInputError, LakewrightError, NotFoundError, pluralize
from lakewright.formats.index_kinds import is_one_per_bucket
from lakewright.lsm.key_order import Key, KeyOrder
from lakewright.maintenance.orphan_files import branch_layouts
from lakewright.maintenance.verify_findings import FileTask, Findings
from lakewright.metadata.manifest_files import may_contain_partitions
from lakewright.metadata.refs import Consumers, Tags
from lakewright.metadata.schema_files import SchemaFiles
from lakewright.metadata.snapshot_files import Changelogs, SnapshotFiles
from lakewright.metadata.table_store import TableStore, apply_layout_options
from lakewright.spec.binary_row import decode_row
from lakewright.spec.manifest import (
    ADD,
    DELETION_VECTORS,
    EMPTY_ROW,
    HASH,
    DataFile,
    FileIdentity,
    IndexEntry,
    IndexFile,
    ManifestEntry,
    ManifestFile,
    is_side_file,
)
from lakewright.spec.snapshot import COPY_OF, Snapshot, snapshot_from_json, state_of
from lakewright.spec.table_schema import BucketMode, TableSchema
from lakewright.storage.storage import Storage
from lakewright.storage.table_layout import Layout

# ---- The history of a table ------------------------------------------------------------------------------------------
# A state is a snapshot, a tag or a kept changelog of a branch. Hints, gaps between snapshots, schema files, tags,
# branches and consumers are checked here. Invariant: a file that cannot be read is a finding, and the others
# are still returned.


@dataclass(frozen=True, slots=True)
class State:
    """One state of a branch: what a snapshot, tag or kept changelog says."""

    path: str  # of the file that says it
    snapshot: Snapshot
    name: str  # for messages: "snapshot 7", "tag v1"
    is_changelog: bool = False  # of it only the changelog is kept
    is_tag: bool = False  # Java removes the changelog of an expired snapshot even if a tag names it


@dataclass(slots=True)
class Branch:
    """One branch of a table: how to read it, its schemas, and its states, oldest first."""

    store: TableStore
    schemas: dict[int, TableSchema] = field(default_factory=dict)
    states: list[State] = field(default_factory=list)

    def check_schema(self, schema_id: int, findings: Findings, *, by: str = "the table") -> bool:
        """Return whether a schema can be read, and add a finding if not; `by` says what needs it."""
        if schema_id not in self.schemas:
            path = self.store.layout.schema_file(schema_id)
            try:
                self.schemas[schema_id] = self.store.schemas.get(schema_id)
            except NotFoundError:
                findings.add("missing-schema", path, f"{by} needs schema {schema_id}, whose file does not exist")
            except LakewrightError as error:
                findings.add("damaged-metadata", path, error.message)
        return schema_id in self.schemas


def branch_store(store: TableStore, name: str) -> TableStore:
    """Return the store of a branch of the table, with its newest schema."""
    if name == store.layout.branch:
        return store
    layout = store.layout.for_branch(name)
    schema = SchemaFiles(store.storage, layout).latest()
    if schema is None:
        raise CorruptTableError(
            f"{store.name}: branch {name} has no schema, so it is unknown which files it uses",
            table=store.name,
            path=layout.schema_directory,
        )
    home = store.home.for_branch(name)
    return TableStore(store.name, store.storage, apply_layout_options(layout, schema), schema, None, home)


def newest_state(store: TableStore, findings: Findings) -> list[Branch]:
    """Return the branch of the store with its newest state alone."""
    branch = Branch(store)
    snapshots = SnapshotFiles(store.storage, store.layout, store.home.history)
    ids = snapshots.ids()
    _check_ids(store.layout, ids, findings)
    _check_hints(store, ids, findings)
    branch.check_schema(store.schema.id, findings)
    if snapshots.owner is not None:
        newest = snapshots.latest()
        if newest is not None:
            branch.states.append(_of_snapshot(store.layout, newest))
    elif ids:
        branch.states.extend(_read_snapshots(store, ids[-1:], findings))
    return [branch]


def all_states(store: TableStore, findings: Findings) -> list[Branch]:
    """Return all branches of the table with all their states."""
    found = []
    for layout in branch_layouts(store):
        with findings.noting("damaged-branch", layout.schema_directory):
            branch = Branch(branch_store(store, layout.branch))
            _check_schemas(branch, findings)
            branch.states.extend(_states_of(branch.store, findings))
            _check_consumers(branch.store, findings)
            found.append(branch)
    return found


def _states_of(store: TableStore, findings: Findings) -> Iterator[State]:
    """Yield the snapshots of a branch, oldest first, then the tags with other states, then the kept changelogs."""
    layout = store.layout
    snapshots = SnapshotFiles(store.storage, layout, store.home.history)
    ids = snapshots.ids()
    _check_ids(layout, ids, findings)
    _check_hints(store, ids, findings)
    states = list(_read_snapshots(store, ids, findings))
    newest = None if snapshots.owner is None else snapshots.latest()
    if newest is not None and newest.id not in ids:  # a server may keep it
        states.append(_of_snapshot(layout, newest))
    yield from states
    seen = {state_of(state.snapshot) for state in states}
    for state in _read_tags(store, findings):
        if state_of(state.snapshot) not in seen:
            seen.add(state_of(state.snapshot))
            yield state
    for snapshot_id in Changelogs(store.storage, layout).ids():
        path = layout.changelog_file(snapshot_id)
        with findings.noting("damaged-metadata", path):
            snapshot = Changelogs(store.storage, layout).find(snapshot_id)
            if snapshot is not None:
                yield State(path, snapshot, f"changelog {snapshot_id}", is_changelog=True)


def _of_snapshot(layout: Layout, snapshot: Snapshot) -> State:
    return State(layout.snapshot_file(snapshot.id), snapshot, f"snapshot {snapshot.id}")


def _read_snapshots(store: TableStore, ids: list[int], findings: Findings) -> Iterator[State]:
    for snapshot_id in ids:
        path = store.layout.snapshot_file(snapshot_id)
        with findings.noting("damaged-metadata", path, state=path):
            snapshot = snapshot_from_json(store.storage.read(path), path=path)
            if snapshot.id != snapshot_id:
                raise CorruptTableError(f"{path} is the file of snapshot {snapshot.id}", path=path)
            yield State(path, snapshot, f"snapshot {snapshot_id}")


def _read_tags(store: TableStore, findings: Findings) -> Iterator[State]:
    """Yield the tags: those that are files and, where a server owns the history, its own."""
    layout = store.layout
    owners = (None,) if store.home.history is None else (None, store.home.history)
    for tags in (Tags(store.storage, layout, owner) for owner in owners):
        for name in tags.list():
            path = f"{layout.tag_directory}/tag-{name}"
            with findings.noting("damaged-tag", path, state=path):
                yield State(path, tags.get(name).snapshot, f"tag {name}", is_tag=True)


def _check_ids(layout: Layout, ids: list[int], findings: Findings) -> None:
    for before, after in pairwise(ids):
        if after != before + 1:
            gone = f"snapshot {before + 1}" if after == before + 2 else f"snapshots {before + 1} to {after - 1}"
            text = f"{gone} of branch {layout.branch} do not exist, though earlier and later ones do"
            findings.add("snapshot-gap", layout.snapshot_file(before + 1), text.replace("do not", "does not", 1))


def _check_hints(store: TableStore, ids: list[int], findings: Findings) -> None:
    """Compare the hints with the snapshots; readers only use them to look at the right place first."""
    if store.home.history is not None or not ids:
        return
    for path, expected in ((store.layout.latest_hint, ids[-1]), (store.layout.earliest_hint, ids[0])):
        try:
            text = store.storage.read(path).strip()
        except FileNotFoundError:
            continue  # a hint may be absent
        if text != b"%d" % expected:
            said = text[:20].decode(errors="replace")
            findings.add("hint", path, f"the hint {path} says {said!r} where the snapshot is {expected}")


def _check_schemas(branch: Branch, findings: Findings) -> None:
    schemas = branch.store.schemas
    ids = schemas.ids()
    for schema_id in ids:
        branch.check_schema(schema_id, findings)
    for schema_id in sorted(set(range(ids[-1] if ids else 0)) - set(ids)):
        path = branch.store.layout.schema_file(schema_id)
        findings.add("schema-gap", path, f"there is no schema {schema_id}, though there are later ones")


def _check_consumers(store: TableStore, findings: Findings) -> None:
    consumers = Consumers(store.storage, store.layout, sleep=lambda _: None)
    ids = SnapshotFiles(store.storage, store.layout, store.home.history).ids()
    names = (info.path.rpartition("/")[2] for info in store.storage.list(store.layout.consumer_directory))
    for name in sorted(name.removeprefix("consumer-") for name in names if name.startswith("consumer-")):
        path = f"{store.layout.consumer_directory}/consumer-{name}"
        try:
            position = consumers.next_snapshot(name)
        except LakewrightError as error:
            findings.add("damaged-consumer", path, error.message)
            continue
        if position is not None and ids and not ids[0] <= position <= ids[-1] + 1:
            text = f"consumer {name} waits for snapshot {position}, and there are {ids[0]} to {ids[-1]}"
            findings.add("consumer", path, text)


# ---- Manifests -------------------------------------------------------------------------------------------------------
# Every file is read once, however many states name it. A file that is damaged gives None; one that has other sizes or
# counts than recorded is a finding, and its entries are returned all the same.

ENTRIES_MAX = 200_000  # entries that are kept in memory for the states that name the same manifests


@dataclass(slots=True)
class FileSizes:
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

    listing: FileSizes
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
            text = f"{path} has {pluralize(actual, 'byte')} where {size:,} are recorded"
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
            if not may_contain_partitions(manifest.partition_stats, [store.partition_values(partition)], types)
        ]
    if manifest.schema_id < max(file.schema_id for file in files):
        out.append(f"its manifest list says that no file has a schema above {manifest.schema_id}")
    return out


def _row_ids(file: DataFile) -> tuple[int, ...]:
    return () if file.first_row_id is None else (file.first_row_id, file.first_row_id + file.row_count - 1)


# ---- States of a branch ----------------------------------------------------------------------------------------------
# A state whose base has the manifests of the state before is built on that state's live files, so a long history is
# not merged again and again. Invariant: every file is registered once, with the last state that needs it;
# where a manifest cannot be read, what depends on all of them is not judged.

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
        """Return the path of a data file; None, and a finding, if it would be outside the table."""
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
        if store.schema.primary_keys and not store.options.pk_clustering_override:
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
        if not store.options.row_tracking_enabled:
            return
        shared = store.options.data_evolution_enabled
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
            bucketed = store.schema.bucket_mode != BucketMode.UNAWARE
            if key in places and is_one_per_bucket(entry.file.index_type, bucketed=bucketed):
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
    """Return whether a bucket is one of the buckets that its entry says there are."""
    if entry.total_buckets > 0:
        return 0 <= entry.bucket < entry.total_buckets
    return entry.bucket >= -2 and entry.total_buckets >= -2  # noqa: PLR2004 - the postponed bucket

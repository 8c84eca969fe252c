"""Files that no snapshot names.

A file is in use if a snapshot, tag or kept changelog of any branch names it, because branches share manifests and data.
Invariant: if any of these, or any manifest they name, cannot be read, nothing is deleted; only files inside the
table are deleted, found by listing the table's own directories without following links, and files of buckets below its
external paths where these are its own alone (`maintenance.external_directories`); and only files older than a limit,
because the
files of a running writer look like orphans until it commits.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace

from lakewright.display import HtmlRepr
from lakewright.errors import (
    CommitContentionError,
    CorruptTableError,
    InvalidInputError,
    LakewrightWarning,
    NotFoundError,
)
from lakewright.maintenance.external_directories import CLAIMS, claim_files, deletable, why_not_own
from lakewright.metadata.refs import HIDDEN_BRANCH, Tags, branches
from lakewright.metadata.schema_files import SchemaFiles
from lakewright.metadata.snapshot_files import SnapshotFiles
from lakewright.metadata.table_store import TableStore, apply_layout_options
from lakewright.spec.manifest import ManifestEntry, ManifestFile
from lakewright.spec.snapshot import Snapshot, Tag, snapshot_from_json
from lakewright.storage.concurrency import CallGroup, map_concurrently
from lakewright.storage.storage import FileInfo, Storage
from lakewright.storage.table_layout import MAIN_BRANCH, Layout, parse_numbered_names, plain_location

DAY_MILLIS = 24 * 60 * 60 * 1000
_HINTS = frozenset({"LATEST", "EARLIEST"})
_IN_BUCKET = re.compile(r"([01]{4}/[01]{4}/[01]{4}/[01]{8}/)?[^/]+")  # of a file outside: perhaps hashed directories
# What a writer that is killed leaves while it creates a file under a fixed name, on a disk and on an object store.
_TEMPORARY = re.compile(r"\..*\.tmp|\.create-once-[0-9a-f-]{36}")
_LOOKS_MAX = 10  # how often tags and branches may change while they are read


@dataclass(frozen=True, slots=True)
class OrphanResult(HtmlRepr):
    """The orphans that were found, or removed."""

    paths: tuple[str, ...]
    bytes: int
    dry_run: bool

    @property
    def count(self) -> int:
        """How many files there are."""
        return len(self.paths)


def find_orphans(store: TableStore, *, older_than_millis: int | None = None, now: int | None = None) -> OrphanResult:
    """Return the files that nothing names and that were last changed before a time (epoch ms; a day ago by default)."""
    return remove_orphans(store, older_than_millis=older_than_millis, now=now, dry_run=True)


def remove_orphans(
    store: TableStore,
    *,
    older_than_millis: int | None = None,
    now: int | None = None,
    dry_run: bool = False,
    committed: AbstractSet[str] = frozenset(),
) -> OrphanResult:
    """Delete the files that nothing names and that were last changed before a time (epoch ms; a day ago by default).

    Files of `committed` go whatever their age: snapshots named them until now, so no writer is about to commit them.
    """
    today = time.time_ns() // 1_000_000 if now is None else now
    limit = today - DAY_MILLIS if older_than_millis is None else older_than_millis
    if limit > today:
        raise InvalidInputError(
            f"{store.name}: older_than is in the future ({limit}); files of writers at work would be removed",
            table=store.name,
        )
    store.check_same_table()
    # List first and read the snapshots afterwards, so that files of a commit in between are seen as used.
    found = orphan_candidates(store)
    candidates = [info for info in found if info.modified_millis < limit or _name(info.path) in committed]
    used: set[str] = set()
    if candidates:
        while_named(store, lambda: _add_used_names(store, used))
    orphans = [info for info in candidates if _name(info.path) not in used]
    for info in orphans:
        check_inside(store, info.path)
    if not dry_run:
        store.check_same_table()
        for info in orphans:
            store.storage.delete(info.path)
        for directory in _hidden_branches(store):
            store.storage.prune_directory(directory, before_millis=limit)
    return OrphanResult(tuple(info.path for info in orphans), sum(info.size for info in orphans), dry_run)


def orphan_candidates(store: TableStore) -> Iterator[FileInfo]:
    """Yield every file that may be an orphan: metadata, index and data files, and strays beside named metadata."""
    layout = store.layout
    for directory in (layout.manifest_directory, layout.index_directory, layout.statistics_directory):
        yield from _list(store, directory)
    for branch in branch_layouts(store):
        for directory, prefix in ((branch.snapshot_directory, "snapshot-"), (branch.changelog_directory, "changelog-")):
            yield from (info for info in _list(store, directory) if _is_stray(_name(info.path), prefix))
        for directory in (branch.schema_directory, branch.tag_directory, branch.consumer_directory):
            yield from (info for info in _list(store, directory) if _TEMPORARY.fullmatch(_name(info.path)))
    for directory in _hidden_branches(store):
        yield from store.storage.walk(directory)
    if is_own(store, layout.data_root):
        yield from _data_files(store, layout.data_root, len(store.schema.partition_keys))
    inner = layout.data_root[len(layout.root) :]
    for outside in _own_external_directories(store):
        yield from _data_files(store, f"{outside}{inner}", len(store.schema.partition_keys), outside=True)


def _own_external_directories(store: TableStore) -> Iterator[str]:
    """Yield the external directories that are the table's alone; see `maintenance.external_directories`."""
    if not store.layout.reachable_directories:
        return
    taken = {path: name for name, paths in _external_paths_of_others(store) for path in paths}
    for directory in store.layout.reachable_directories:
        path, why = plain_location(directory).rstrip("/"), why_not_own(store, directory)
        sharer = next((name for other, name in taken.items() if f"{path}/".startswith(f"{other}/")), None)
        sharer = sharer or next((name for other, name in taken.items() if f"{other}/".startswith(f"{path}/")), None)
        if why is None and sharer is not None:
            why = f"the table at {sharer} has files there too"
        if why is None:
            yield directory.rstrip("/")
        else:
            text = f"{store.name}: orphans in {directory} are left alone, as {why}"
            warnings.warn(text, LakewrightWarning, stacklevel=5)


def _external_paths_of_others(store: TableStore) -> Iterator[tuple[str, list[str]]]:
    """Yield the place of each other table of the warehouse and its external directories."""
    root = store.layout.root.rstrip("/")
    warehouse = root.rpartition("/")[0].rpartition("/")[0]
    for database in store.storage.list_directories(warehouse) if warehouse else ():
        for place in store.storage.list_directories(database):
            schema = (
                None if place.rstrip("/") == root else SchemaFiles(store.storage, Layout(place.rstrip("/"))).latest()
            )
            if schema is not None:
                outside = apply_layout_options(Layout(place), schema).external_directories
                yield place, [plain_location(path).rstrip("/") for path in outside]


def external_files(storage: Storage, layout: Layout) -> tuple[str, ...]:
    """Return the data files outside a table that its snapshots, tags and changelogs name, for a drop of the table.

    Files that an unreadable snapshot or manifest names are left out: the table is dropped all the same.
    """
    schema = None
    with suppress(CorruptTableError, NotFoundError, OSError):
        schema = SchemaFiles(storage, layout).latest()
    if schema is None or not apply_layout_options(layout, schema).reachable_directories:
        return ()
    store = TableStore(layout.root, storage, apply_layout_options(layout, schema), schema)
    lists: set[str | None] = set()
    for branch in branch_layouts(store):
        with suppress(CorruptTableError, NotFoundError, OSError):
            for one in (*_snapshots(store, branch), *_kept_changelogs(store, branch)):
                lists |= {one.base_manifest_list, one.delta_manifest_list, one.changelog_manifest_list}
    manifests: dict[str, ManifestFile] = {}
    for name in filter(None, lists):
        with suppress(CorruptTableError, NotFoundError, OSError):
            manifests |= {manifest.file_name: manifest for manifest in store.manifests.without_cache().read_list(name)}
    named = deletable(store, (path for manifest in manifests.values() for path in _external_paths(store, manifest)))
    return (*sorted(named), *claim_files(store))


def _external_paths(store: TableStore, manifest: ManifestFile) -> Iterator[str]:
    with suppress(CorruptTableError, NotFoundError, OSError):
        for entry in store.manifests.without_cache().read(manifest):
            place, external = store.partition_directory(entry.partition), entry.file.external_path
            if external is not None and store.layout.is_external_file(place, entry.bucket, external):
                yield external


def _hidden_branches(store: TableStore) -> list[str]:
    """Return the directories that creations and drops of branches left when they were cut short."""
    place = store.layout.branches_directory
    inner = store.storage.list_directories(place) if is_own(store, place) else ()
    return [directory for directory in inner if _name(directory).startswith(HIDDEN_BRANCH)]


def _list(store: TableStore, directory: str) -> Iterator[FileInfo]:
    yield from store.storage.list(directory) if is_own(store, directory) else ()


def is_own(store: TableStore, directory: str) -> bool:
    """Return whether a directory is reached from the table's without a link: listings show real directories only."""
    return directory in own_directories(store, [directory])


def own_directories(store: TableStore, directories: Iterable[str]) -> frozenset[str]:
    """Return those of some directories that are reached from the table's without a link, or are at an external path."""
    steps = {directory: _steps(store.layout.root.rstrip("/"), directory) for directory in directories}
    parents = sorted({parent for way in steps.values() for _, parent in way or ()})
    listed = dict(zip(parents, map_concurrently(store.storage, store.storage.list_directories, parents), strict=True))
    inner = {parent: {path.rstrip("/") for path in found} for parent, found in listed.items()}
    return frozenset(
        directory
        for directory, way in steps.items()
        if (store.layout.may_lie_at(f"{directory}/") if way is None else all(step in inner[up] for step, up in way))
    )


def _steps(root: str, directory: str) -> list[tuple[str, str]] | None:
    """Return the directories from the table's down to another, each with its parent; None if it is not below."""
    if not f"{directory}/".startswith(f"{root}/"):
        return None
    steps = []
    while (directory := directory.rstrip("/")) != root:
        parent = directory.rpartition("/")[0]
        steps.append((directory, parent))
        directory = parent
    return steps


def _data_files(store: TableStore, directory: str, levels: int, *, outside: bool = False) -> Iterator[FileInfo]:
    """Yield the files in the bucket directories that are below as many partition directories as there are keys.

    Outside the table the directory of a bucket may have further ones, made from the hashes of file names.
    """
    for inner in store.storage.list_directories(directory):
        name = _name(inner)
        if outside and _is_others(store, inner):
            continue
        if levels:
            if "=" in name:  # directories of metadata are beside those of partitions, and have no '='
                yield from _data_files(store, inner, levels - 1, outside=outside)
        elif name.startswith("bucket-"):
            found = store.storage.walk(inner) if outside else store.storage.list(inner)
            yield from (
                info for info in found if not outside or _IN_BUCKET.fullmatch(info.path[len(inner.rstrip("/")) + 1 :])
            )


def _is_others(store: TableStore, directory: str) -> bool:
    """Return whether a directory below an external one is itself one of another table, or its place."""
    names = {_name(path) for path in store.storage.list_directories(directory)}
    return not names.isdisjoint({CLAIMS, "schema", "snapshot"})


def _is_stray(name: str, prefix: str) -> bool:
    return name not in _HINTS and not parse_numbered_names([name], prefix)


def branch_layouts(store: TableStore) -> list[Layout]:
    """Return the layouts of all branches, the main one first."""
    layout = replace(store.layout, branch=MAIN_BRANCH)
    return [layout, *(layout.for_branch(name) for name in branches(store.storage, layout))]


def while_named(store: TableStore, read: Callable[[], None]) -> None:
    """Read what all branches and tags name, again if one was made, renamed or dropped in the meantime.

    A branch that gets another name while branches are read one by one could be missed under both names, and so could a
    state that one name takes over from another. What was read before is kept, so `read` only adds.
    """
    for attempt in range(_LOOKS_MAX):
        names, states = _names_and_states(store)
        try:
            read()
        except (NotFoundError, CorruptTableError):
            if attempt == _LOOKS_MAX - 1 or _names_and_states(store) == (names, states):
                raise
            continue
        if _names_and_states(store)[0] == names:
            return
    raise CommitContentionError(
        f"{store.name}: its tags and branches change all the time; nothing was deleted, try again", table=store.name
    )


def _names_and_states(store: TableStore) -> tuple[object, object]:
    """Return the names of all branches and tags, and the ids of all snapshots."""

    def tags(layout: Layout) -> tuple[str, ...]:
        return (layout.branch, *Tags(store.storage, layout).list())

    def ids(layout: Layout) -> object:
        return SnapshotFiles(store.storage, layout).ids()

    with CallGroup(store.storage) as errands:
        main = replace(store.layout, branch=MAIN_BRANCH)
        main_tags, main_ids = errands.start(lambda: tags(main)), errands.start(lambda: ids(main))
        others = branch_layouts(store)[1:]
        other_ids = errands.start(lambda: map_concurrently(store.storage, ids, others))
        names = [main_tags.result(), *map_concurrently(store.storage, tags, others)]
        return names, [main_ids.result(), *other_ids.result()]


def _add_used_names(store: TableStore, used: set[str]) -> None:
    """Add the name of every file that a snapshot, tag or kept changelog of any branch needs."""
    read: set[str] = set()  # manifests whose entries are in `used` already
    for layout in branch_layouts(store):
        if not SchemaFiles(store.storage, layout).ids():
            raise CorruptTableError(
                f"{store.name}: branch {layout.branch} has no schema, so it is unknown which files it uses; "
                "repair or drop the branch first",
                table=store.name,
                path=layout.schema_directory,
            )
        for snapshot in _snapshots(store, layout):
            _add_snapshot(store, snapshot, used, read)
        for snapshot in _kept_changelogs(store, layout):
            _add_changelog(store, snapshot, used, read)


@dataclass(slots=True)
class KnownFiles:
    """The names of all files that commits of any branch made visible, as far as their metadata can be read."""

    store: TableStore
    names: set[str] = field(default_factory=set)
    _read: set[str] = field(default_factory=set)  # manifests whose entries are in `names` already

    def look(self) -> None:
        """Add what the snapshots, tags and kept changelogs name now. What cannot be read is left out."""
        store, unreadable = self.store, (CorruptTableError, NotFoundError, OSError)
        for layout in branch_layouts(store):
            snapshots = SnapshotFiles(store.storage, layout)
            with suppress(*unreadable):
                for tag in kept_tags(store, layout):
                    with suppress(*unreadable):
                        _add_snapshot(store, tag.snapshot, self.names, self._read)
            for snapshot_id in snapshots.ids():
                with suppress(*unreadable):
                    _add_snapshot(store, snapshots.get(snapshot_id), self.names, self._read)
            with suppress(*unreadable):
                for snapshot in _kept_changelogs(store, layout):
                    _add_changelog(store, snapshot, self.names, self._read)


def _snapshots(store: TableStore, layout: Layout) -> Iterator[Snapshot]:
    snapshots = SnapshotFiles(store.storage, layout)
    for snapshot_id in snapshots.ids():
        yield snapshots.get(snapshot_id)
    yield from (tag.snapshot for tag in kept_tags(store, layout))


def kept_tags(store: TableStore, layout: Layout) -> tuple[Tag, ...]:
    """Return the tags of a branch; where a server owns the history, its own and those that others wrote as files.

    Java removes the changelog of an expired snapshot even if a tag names it. Such a tag is returned without changelog.
    """
    tags = Tags(store.storage, layout).all()
    owner = store.home.for_branch(layout.branch).history
    found = tags if owner is None else (*tags, *Tags(store.storage, layout, owner).all())
    return tuple(_without_lost_changelog(store, tag) for tag in found)


def _without_lost_changelog(store: TableStore, tag: Tag) -> Tag:
    name = tag.snapshot.changelog_manifest_list
    if name is None or store.storage.exists(store.layout.manifest_file(name)):
        return tag
    return replace(tag, snapshot=replace(tag.snapshot, changelog_manifest_list=None))


def _kept_changelogs(store: TableStore, layout: Layout) -> Iterator[Snapshot]:
    names = (_name(info.path) for info in store.storage.list(layout.changelog_directory))
    for snapshot_id in parse_numbered_names(names, "changelog-"):
        path = layout.changelog_file(snapshot_id)
        yield snapshot_from_json(store.storage.read(path), path=path)


def _add_snapshot(store: TableStore, snapshot: Snapshot, used: set[str], read: set[str]) -> None:
    manifests = store.manifests.without_cache()
    used.update((snapshot.base_manifest_list, snapshot.delta_manifest_list))
    _add_manifests(store, manifests.files_of(snapshot), used, read)
    _add_changelog(store, snapshot, used, read)
    if snapshot.index_manifest is not None and snapshot.index_manifest not in read:
        read.add(snapshot.index_manifest)
        used.add(snapshot.index_manifest)
        used.update(entry.file.file_name for entry in manifests.read_index(snapshot.index_manifest))
    if snapshot.statistics is not None:
        used.add(snapshot.statistics)


def _add_changelog(store: TableStore, snapshot: Snapshot, used: set[str], read: set[str]) -> None:
    """Add the files of a changelog. The other manifest lists of a kept changelog are deleted, so they are not read."""
    if snapshot.changelog_manifest_list is not None:
        used.add(snapshot.changelog_manifest_list)
        _add_manifests(store, store.manifests.without_cache().read_list(snapshot.changelog_manifest_list), used, read)


def _add_manifests(store: TableStore, files: Iterable[ManifestFile], used: set[str], read: set[str]) -> None:
    for manifest in files:
        if manifest.file_name in read:
            continue
        read.add(manifest.file_name)
        used.add(manifest.file_name)
        # Entries that delete a file count as used too: an older snapshot that is read later may still need the file.
        for entry in store.manifests.without_cache().read(manifest):
            used.update(_names_of(entry))


def _names_of(entry: ManifestEntry) -> tuple[str, ...]:
    return (entry.file.file_name, *entry.file.extra_files)


def check_inside(store: TableStore, path: str) -> None:
    """Raise CorruptTableError if a file lies neither in the table's own directory nor below its external paths."""
    if not store.layout.may_lie_at(path) or ".." in path.split("/"):
        raise CorruptTableError(f"{store.name}: {path} lies outside the table; nothing was deleted", path=path)


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]

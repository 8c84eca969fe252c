"""Orphans: files that no snapshot names, left by writers that died, attempts that lost a race and jobs that failed.

A file is in use if a snapshot, tag or kept changelog of any branch names it, because branches share manifests and data.
Always holds: if any of these, or any manifest they name, cannot be read, nothing is deleted; only files inside the
table are deleted, found by listing the table's own directories without following links; and only files older than a
limit, because the files of a running writer look like orphans until it commits.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from lakewright.errors import CorruptTableError, InvalidInputError
from lakewright.metadata.refs import HIDDEN_BRANCH, Tags, branches
from lakewright.metadata.schemas import Schemas
from lakewright.metadata.snapshots import Snapshots
from lakewright.metadata.store import TableStore
from lakewright.spec.manifest import ManifestEntry, ManifestFile
from lakewright.spec.snapshot import Snapshot, snapshot_from_json
from lakewright.storage.base import FileInfo
from lakewright.storage.layout import MAIN_BRANCH, Layout, numbered

DAY_MILLIS = 24 * 60 * 60 * 1000
_HINTS = frozenset({"LATEST", "EARLIEST"})


@dataclass(frozen=True, slots=True)
class OrphanResult:
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
    store: TableStore, *, older_than_millis: int | None = None, now: int | None = None, dry_run: bool = False
) -> OrphanResult:
    """Delete the files that nothing names and that were last changed before a time (epoch ms; a day ago by default)."""
    today = time.time_ns() // 1_000_000 if now is None else now
    limit = today - DAY_MILLIS if older_than_millis is None else older_than_millis
    if limit > today:
        raise InvalidInputError(
            f"{store.name}: older_than lies in the future ({limit}); files of writers at work would be removed",
            table=store.name,
        )
    store.check_same_table()
    # List first and read the snapshots afterwards, so that files of a commit in between are seen as used.
    candidates = [info for info in _candidates(store) if info.modified_millis < limit]
    used = _used_names(store) if candidates else frozenset()
    orphans = [info for info in candidates if _name(info.path) not in used]
    for info in orphans:
        check_inside(store, info.path)
    if not dry_run:
        store.check_same_table()
        for info in orphans:
            store.storage.delete(info.path)
        for directory in _hidden_branches(store):
            store.storage.prune_directory(directory)
    return OrphanResult(tuple(info.path for info in orphans), sum(info.size for info in orphans), dry_run)


def _candidates(store: TableStore) -> Iterator[FileInfo]:
    """Yield every file that may be an orphan: metadata, index and data files, and strays among the snapshots."""
    layout = store.layout
    for directory in (layout.manifest_directory, layout.index_directory, layout.statistics_directory):
        yield from _list(store, directory)
    for branch in branch_layouts(store):
        for directory, prefix in ((branch.snapshot_directory, "snapshot-"), (branch.changelog_directory, "changelog-")):
            yield from (info for info in _list(store, directory) if _is_stray(_name(info.path), prefix))
    for directory in _hidden_branches(store):
        yield from store.storage.walk(directory)
    if is_own(store, layout.data_root):
        yield from _data_files(store, layout.data_root, len(store.schema.partition_keys))


def _hidden_branches(store: TableStore) -> list[str]:
    """Return the directories that creations and drops of branches left when they were cut short."""
    place = store.layout.branches_directory
    inner = store.storage.list_directories(place) if is_own(store, place) else ()
    return [directory for directory in inner if _name(directory).startswith(HIDDEN_BRANCH)]


def _list(store: TableStore, directory: str) -> Iterator[FileInfo]:
    yield from store.storage.list(directory) if is_own(store, directory) else ()


def is_own(store: TableStore, directory: str) -> bool:
    """Return whether a directory is reached from the table's without a link: listings show real directories only."""
    root = store.layout.root.rstrip("/")
    while directory.rstrip("/") != root:
        parent = directory.rstrip("/").rpartition("/")[0]
        if directory.rstrip("/") not in {path.rstrip("/") for path in store.storage.list_directories(parent)}:
            return False
        directory = parent
    return True


def _data_files(store: TableStore, directory: str, levels: int) -> Iterator[FileInfo]:
    """Yield the files in the bucket directories that lie below as many partition directories as there are keys."""
    for inner in store.storage.list_directories(directory):
        name = _name(inner)
        if levels:
            if "=" in name:  # directories of metadata lie beside those of partitions, and have no '='
                yield from _data_files(store, inner, levels - 1)
        elif name.startswith("bucket-"):
            yield from store.storage.list(inner)


def _is_stray(name: str, prefix: str) -> bool:
    return name not in _HINTS and not numbered([name], prefix)


def branch_layouts(store: TableStore) -> list[Layout]:
    """Return the layouts of all branches, the main one first."""
    layout = replace(store.layout, branch=MAIN_BRANCH)
    return [layout, *(layout.for_branch(name) for name in branches(store.storage, layout))]


def _used_names(store: TableStore) -> frozenset[str]:
    """Return the name of every file that a snapshot, tag or kept changelog of any branch needs."""
    used: set[str] = set()
    read: set[str] = set()  # manifests whose entries are in `used` already
    for layout in branch_layouts(store):
        if not Schemas(store.storage, layout).ids():
            raise CorruptTableError(
                f"{store.name}: branch {layout.branch} has no schema, so nobody can say which files it uses; "
                "repair or drop the branch first",
                table=store.name,
                path=layout.schema_directory,
            )
        for snapshot in _snapshots(store, layout):
            _add_snapshot(store, snapshot, used, read)
        for snapshot in _kept_changelogs(store, layout):
            _add_changelog(store, snapshot, used, read)
    return frozenset(used)


def _snapshots(store: TableStore, layout: Layout) -> Iterator[Snapshot]:
    snapshots = Snapshots(store.storage, layout)
    for snapshot_id in snapshots.ids():
        yield snapshots.get(snapshot_id)
    yield from (tag.snapshot for tag in Tags(store.storage, layout).all())


def _kept_changelogs(store: TableStore, layout: Layout) -> Iterator[Snapshot]:
    names = (_name(info.path) for info in store.storage.list(layout.changelog_directory))
    for snapshot_id in numbered(names, "changelog-"):
        path = layout.changelog_file(snapshot_id)
        yield snapshot_from_json(store.storage.read(path), path=path)


def _add_snapshot(store: TableStore, snapshot: Snapshot, used: set[str], read: set[str]) -> None:
    manifests = store.manifests
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
        _add_manifests(store, store.manifests.read_list(snapshot.changelog_manifest_list), used, read)


def _add_manifests(store: TableStore, files: Iterable[ManifestFile], used: set[str], read: set[str]) -> None:
    for manifest in files:
        if manifest.file_name in read:
            continue
        read.add(manifest.file_name)
        used.add(manifest.file_name)
        # Entries that delete a file count as used too: an older snapshot that is read later may still need the file.
        for entry in store.manifests.read(manifest):
            used.update(_names_of(entry))


def _names_of(entry: ManifestEntry) -> tuple[str, ...]:
    return (entry.file.file_name, *entry.file.extra_files)


def check_inside(store: TableStore, path: str) -> None:
    """Raise CorruptTableError if a file does not lie in the table's own directory."""
    root = store.layout.root.rstrip("/") + "/"
    if not path.startswith(root) or ".." in path.split("/"):
        raise CorruptTableError(f"{store.name}: {path} lies outside the table; nothing was deleted", path=path)


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]

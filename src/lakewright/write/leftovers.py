"""Files of one write that nothing names: of attempts that failed, that were killed, or that another attempt overtook.

Such attempts send no messages that would list their files; but the id of the write is part of the name of every file
that its tasks make. Always holds: only files of the table, and below its external paths, with that id in their name are
removed, and none that a snapshot names, not even one that an earlier attempt to commit has published. A caller whose
commit may still be published, because its outcome is unknown, must not call this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from lakewright.errors import InvalidInputError
from lakewright.metadata.store import TableStore
from lakewright.storage.base import FileInfo
from lakewright.write.task import Place

_ID_CHARACTERS_MIN = 16  # a shorter text could be part of a name by chance
_SLACK_MILLIS = 20 * 60 * 1000  # how far the clocks of the storage and of committers may differ


def remove_leftovers(
    store: TableStore, write_id: str, *, keep: Collection[str] = (), places: Collection[Place] | None = None
) -> int:
    """Delete the files of a write that no snapshot names and that are not to be kept, and return how many they were.

    `places` says which buckets the write touched, if that is known; otherwise the whole table is walked.
    """
    if len(write_id) < _ID_CHARACTERS_MIN:
        raise InvalidInputError(f"{store.name}: {write_id!r} is no id of a write, so no files can be found by it")
    # List the files before reading the snapshots, so that snapshots published in between are read too.
    written = {info.path: info for info in _files(store, places) if f"-{write_id}-" in _name(info.path)}
    if not written:
        return 0
    since = min(info.modified_millis for info in written.values()) - _SLACK_MILLIS
    named = {*keep, *_named_since(store, since)}
    leftovers = [path for path in written if _name(path) not in named]
    for path in leftovers:
        store.storage.delete(path)
    return len(leftovers)


def _files(store: TableStore, places: Collection[Place] | None) -> Iterator[FileInfo]:
    layout = store.layout
    if places is None:
        for directory in (layout.data_root, *layout.reachable_directories):
            yield from store.storage.walk(directory)
    else:
        for directory in {layout.bucket_directory(store.partition_directory(p), bucket) for p, bucket in places}:
            yield from store.storage.list(directory)
            for outside in layout.reachable_directories:
                yield from store.storage.walk(f"{outside.rstrip('/')}/{directory[len(layout.root) + 1 :]}")
    yield from store.storage.list(layout.index_directory)


def _named_since(store: TableStore, millis: int) -> set[str]:
    """Return the names of all files that snapshots since a time added, also of those that were removed later."""
    names: set[str] = set()
    manifests = store.manifests
    for snapshot in store.snapshots.walk_back(store.snapshots.latest_id() or 0):
        if snapshot.time_millis < millis:
            break
        for entry in (*manifests.delta(snapshot), *manifests.changelog(snapshot)):
            names.update((entry.file.file_name, *entry.file.extra_files))
        if snapshot.index_manifest is not None:
            names.update(entry.file.file_name for entry in manifests.read_index(snapshot.index_manifest))
    return names


def _name(path: str) -> str:
    return path.rpartition("/")[2]

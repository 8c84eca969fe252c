"""The past of a table, measured: snapshots and what they added, tags, branches, consumers, schemas, and expiry.

Always holds: only metadata is read, and a bounded number of files, whatever the length of the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import accumulate
from typing import TypeVar

from lakewright.display.words import in_time
from lakewright.errors import UnsupportedError, counted
from lakewright.maintenance.expire import ExpireResult, Retention, expire_snapshots
from lakewright.maintenance.orphans import branch_layouts
from lakewright.metadata.snapshots import Snapshots
from lakewright.metadata.store import TableStore
from lakewright.report.facts import Commit, Consumer, Expiry, SchemaVersion, Shortened, Tag
from lakewright.report.head import shortened
from lakewright.spec.manifest import ADD, ManifestEntry, ManifestFile
from lakewright.spec.schema.option_keys import without_secrets
from lakewright.spec.schema.table_schema import TableSchema
from lakewright.spec.snapshot import Snapshot

SNAPSHOTS_MAX = 1000  # of which the history shows what they added
ENTRIES_MAX = 200_000  # of their manifests, all together
EXPIRED_MAX = 1000  # snapshots whose expiry is tried at once
KEPT_FILES_MAX = 1_000_000  # that tags and branches name, all together, before the dry run of an expiry is left out
REFERENCES_MAX = 50
SCHEMAS_MAX = 30
CHANGES_MAX = 12
_THREADS = 16

T = TypeVar("T")
R = TypeVar("R")


# ---- snapshots -------------------------------------------------------------------------------------------------------


def commit_of(snapshot: Snapshot) -> Commit:
    """Return a snapshot without what its manifests say."""
    return Commit(
        id=snapshot.id,
        time_millis=snapshot.time_millis,
        kind=snapshot.commit_kind.value,
        user=shortened(snapshot.commit_user, 100),
        total_rows=snapshot.total_record_count,
        delta_rows=snapshot.delta_record_count,
    )


def history_of(store: TableStore, newest: Snapshot, live_bytes: int | None) -> Shortened[Commit]:
    """Return the newest snapshots, newest first; `live_bytes` are those of the newest, from which others follow."""
    ids = [snapshot_id for snapshot_id in store.snapshots.ids() if snapshot_id <= newest.id]
    found = _each(store, store.snapshots.find, ids[-SNAPSHOTS_MAX:])
    snapshots = sorted((one for one in found if one is not None), key=lambda one: -one.id)
    deltas = _each(store, lambda one: store.manifests.read_list(one.delta_manifest_list, snapshot_id=one.id), snapshots)
    sums = accumulate(sum(file.num_added_files + file.num_deleted_files for file in files) for files in deltas)
    affordable = sum(total <= ENTRIES_MAX for total in sums)
    changes = _each(store, lambda files: _added_and_removed(store, files), deltas[:affordable])
    return Shortened(tuple(_with_bytes(map(commit_of, snapshots), changes, live_bytes)), len(ids))


def _each(store: TableStore, read: Callable[[T], R], what: Sequence[T]) -> list[R]:
    """Read several files, in threads on an object store, whose latency is high."""
    if store.storage.renames_atomically:
        return list(map(read, what))
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(read, what))


def _added_and_removed(store: TableStore, files: Sequence[ManifestFile]) -> tuple[int, int]:
    """Return how many bytes a snapshot added and removed; a file that only changed its level counts in neither."""
    entries = [entry for file in files for entry in store.manifests.read(file)]
    added = {_place(entry): entry.file.file_size for entry in entries if entry.kind == ADD}
    removed = {_place(entry): entry.file.file_size for entry in entries if entry.kind != ADD}
    both = added.keys() & removed.keys()
    return tuple(sum(size for key, size in some.items() if key not in both) for some in (added, removed))  # type: ignore[return-value]


def _place(entry: ManifestEntry) -> tuple[bytes, int, str]:
    return entry.partition, entry.bucket, entry.file.file_name


def _with_bytes(
    commits: Iterator[Commit], changes: Sequence[tuple[int, int]], live_bytes: int | None
) -> Iterator[Commit]:
    """Yield commits, newest first, with bytes as far back as the changes are known."""
    total = live_bytes
    known = iter(changes)
    for commit in commits:
        change = next(known, None)
        if change is None:
            yield replace(commit, total_bytes=total)
            total = None
            continue
        added, removed = change
        yield replace(commit, added_bytes=added, removed_bytes=removed, total_bytes=total)
        total = None if total is None else max(0, total - added + removed)


# ---- expiry ----------------------------------------------------------------------------------------------------------


def expiry_of(store: TableStore, history: Shortened[Commit], *, files: int, now_millis: int) -> Expiry:
    """Return what an expiry by the table's options would remove; `files` are those of one snapshot, about."""
    _check_affordable(store, files)
    retention = replace(Retention.of_options(store.options, now_millis), limit=EXPIRED_MAX)
    found = expire_snapshots(store, retention, dry_run=True, now_millis=now_millis)
    return Expiry(
        snapshots=len(found.snapshot_ids),
        files=found.files,
        data_files=found.data_files,
        data_bytes=_freed_bytes(history, found),
        left=found.left,
        held_by=tuple(shortened(reason) for reason in found.held_by[:REFERENCES_MAX]),
    )


def _check_affordable(store: TableStore, files: int) -> None:
    """Raise an error if tags and branches name so many files that looking at all of them would take long."""
    count = 0
    for layout in branch_layouts(store):
        count += len(replace(store.tags, layout=layout).list())
        if layout.branch != store.layout.branch:
            count += len(Snapshots(store.storage, layout).ids())
    if count * files > KEPT_FILES_MAX:
        raise UnsupportedError(
            f"{counted(count, 'tag')} and snapshots of branches with about {counted(files, 'file')} each would have "
            "to be read; table.expire_snapshots(dry_run=True) does so"
        )


def _freed_bytes(history: Shortened[Commit], found: ExpireResult) -> int | None:
    """Return the bytes of data files that become free: those that later snapshots up to the first kept one removed."""
    if not found.snapshot_ids:
        return 0
    first, last = found.snapshot_ids[0], found.snapshot_ids[-1]
    later = sorted((one for one in history.shown if one.id > first), key=lambda one: one.id)
    kept = next((one.id for one in later if one.id > last), None)
    counted_in = [one.removed_bytes for one in later if kept is not None and one.id <= kept]
    complete = len(history.shown) == history.total and kept is not None and None not in counted_in
    return sum(size or 0 for size in counted_in) if complete else None


# ---- tags, branches, consumers ---------------------------------------------------------------------------------------


def tags_of(store: TableStore) -> Shortened[Tag]:
    """Return the tags, those of the newest snapshots first."""
    names = store.tags.list()
    found = _each(store, store.tags.get, names[-REFERENCES_MAX:])
    shown = sorted(found, key=lambda tag: (-tag.snapshot.id, tag.name))
    return Shortened(
        tuple(
            Tag(
                name=tag.name,
                snapshot_id=tag.snapshot.id,
                time_millis=tag.snapshot.time_millis,
                rows=tag.snapshot.total_record_count,
                kept="for ever"
                if tag.time_retained is None
                else f"for {in_time(tag.time_retained.total_seconds() * 1000)}",
            )
            for tag in shown
        ),
        len(names),
    )


def consumers_of(store: TableStore, newest_id: int) -> Shortened[Consumer]:
    """Return the consumers, those that are most behind first."""
    positions = sorted(store.consumers.all().items(), key=lambda item: (item[1], item[0]))
    shown = (Consumer(name, number, max(0, newest_id + 1 - number)) for name, number in positions[:REFERENCES_MAX])
    return Shortened(tuple(shown), len(positions))


def branches_of(store: TableStore) -> Shortened[str]:
    """Return the names of the branches beside `main`."""
    names = store.branches()
    return Shortened(tuple(names[:REFERENCES_MAX]), len(names))


# ---- schemas ---------------------------------------------------------------------------------------------------------


def schemas_of(store: TableStore) -> Shortened[SchemaVersion]:
    """Return the newest schemas, newest first, with what each of them changed."""
    ids = store.schemas.ids()
    found = _each(store, store.schemas.get, ids[-SCHEMAS_MAX - 1 :])
    older: list[TableSchema | None] = [*([None] if len(found) <= SCHEMAS_MAX else []), *found[:-1]]
    newer = found[-len(older) :] if older else []
    versions = [
        SchemaVersion(schema.id, schema.time_millis, len(schema.fields), _few(list(_changes(before, schema))))
        for before, schema in zip(older, newer, strict=True)
    ]
    return Shortened(tuple(reversed(versions)), len(ids))


def _few(changes: list[str]) -> tuple[str, ...]:
    shown = [shortened(change) for change in changes[:CHANGES_MAX]]
    more = len(changes) - len(shown)
    return (*shown, f"and {more:,} more") if more else tuple(shown)


def _changes(before: TableSchema | None, after: TableSchema) -> Iterator[str]:
    """Yield what a schema changed, in words."""
    if before is None:
        yield f"first schema that is kept, with {counted(len(after.fields), 'column')}"
        return
    old, new = ({field.id: field for field in schema.fields} for schema in (before, after))
    yield from (f"added {field.name} {field.type}" for key, field in new.items() if key not in old)
    yield from (f"dropped {field.name}" for key, field in old.items() if key not in new)
    for key in (key for key in new if key in old):
        one, other = old[key], new[key]
        if one.name != other.name:
            yield f"renamed {one.name} to {other.name}"
        if str(one.type) != str(other.type):
            yield f"{other.name} from {one.type} to {other.type}"
        if one.description != other.description:
            yield f"comment of {other.name}"
    if list(old) != list(new) and set(old) == set(new):
        yield "order of the columns"
    yield from _option_changes(before, after)


def _option_changes(before: TableSchema, after: TableSchema) -> Iterator[str]:
    for key, value in sorted(after.options.items()):
        if before.options.get(key) != value:
            yield f"{key} = {without_secrets(key, value)}"
    yield from (f"{key} is no longer set" for key in sorted(before.options.keys() - after.options.keys()))
    if before.comment != after.comment:
        yield "comment of the table"

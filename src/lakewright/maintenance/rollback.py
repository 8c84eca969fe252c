"""Rollback: the id of a snapshot or the name of a tag in; the table is at that state, and what came after it is gone.

Snapshot files, long-lived changelogs and tags with higher ids are removed. Manifests and data files stay until the
removal of orphans finds them, so a reader that has planned on a removed snapshot finishes its read.

Always holds: the target is read, with its manifest lists, before anything is removed, and it is never removed itself.
The newest snapshot goes first, so a rollback that is cut short leaves the table at some snapshot between, all of whose
files exist; the same rollback, called again, finishes. Writers should rest: a commit that was planned on a removed
snapshot and is published in the moment after the last look brings its rows back.

Where a server owns the history, it removes the later snapshots itself.
"""

from __future__ import annotations

import warnings
from contextlib import suppress

from lakewright.errors import (
    CommitConflictError,
    CommitContentionError,
    CorruptTableError,
    LakewrightWarning,
    NotFoundError,
)
from lakewright.metadata.store import TableStore
from lakewright.spec.snapshot import Snapshot, is_same_state, to_json

_LOOKS_MAX = 10  # how often others may commit while the newest snapshots are being removed


def rollback(store: TableStore, target: int | str, *, from_snapshot: int | None = None) -> None:
    """Bring a table back to a snapshot (by its id) or a tag (by its name).

    With `from_snapshot` only if that is the id of the newest snapshot.
    """
    snapshot = _target(store, target)
    store.manifests.files_of(snapshot)  # raises an error if the target cannot be read
    latest = store.snapshots.latest_id()
    if from_snapshot is not None and latest != from_snapshot:
        raise CommitConflictError(
            f"{store.name} was not rolled back: its newest snapshot is {latest}, not {from_snapshot}",
            table=store.name,
            snapshot_id=latest,
        )
    store.check_same_table()
    if store.home.history is not None:
        store.home.history.rollback(target, from_snapshot)
        _warn_of_consumers(store, snapshot.id)
        return
    stored = store.snapshots.find(snapshot.id)
    if stored is None or not is_same_state(stored, snapshot):
        # The tag's snapshot has expired, or another one has its id since a rollback that was cut short.
        if stored is not None:
            remove_snapshots_from(store, snapshot.id + 1)
        store.storage.replace(store.layout.snapshot_file(snapshot.id), to_json(snapshot).encode())
    remove_after(store, snapshot.id)
    _warn_of_consumers(store, snapshot.id)


def remove_after(store: TableStore, kept_id: int) -> None:
    """Remove the snapshots, long-lived changelogs and tags after a snapshot, which exists."""
    remove_snapshots_from(store, kept_id + 1)
    remove_changelogs_from(store, kept_id + 1)
    for tag in store.tags.all():
        if tag.snapshot.id > kept_id:
            store.storage.delete(store.layout.tag_file(tag.name))
    write_hints(store)


def remove_snapshots_from(store: TableStore, first_id: int) -> None:
    """Remove the snapshot files from an id on, newest first."""
    for _ in range(_LOOKS_MAX):
        newer = [snapshot_id for snapshot_id in store.snapshots.ids() if snapshot_id >= first_id]
        if not newer:
            return
        for snapshot_id in reversed(newer):
            store.storage.delete(store.layout.snapshot_file(snapshot_id))
    raise CommitContentionError(
        f"{store.name}: others commit while its newest snapshots are being removed; stop the writers and try again",
        table=store.name,
    )


def remove_changelogs_from(store: TableStore, first_id: int) -> None:
    """Remove the long-lived changelogs from an id on, newest first."""
    ids = store.changelogs.ids()
    newer = [snapshot_id for snapshot_id in ids if snapshot_id >= first_id]
    for snapshot_id in reversed(newer):
        store.storage.delete(store.layout.changelog_file(snapshot_id))
    if newer:
        newest = max((snapshot_id for snapshot_id in ids if snapshot_id < first_id), default=-1)
        store.storage.replace(f"{store.layout.changelog_directory}/LATEST", b"%d" % newest)


def write_hints(store: TableStore) -> None:
    """Write both hints of the snapshots that exist; this makes the removal of the others durable as well."""
    ids = store.snapshots.ids()
    if ids:
        store.storage.replace(store.layout.earliest_hint, b"%d" % ids[0], durable=False)
        store.storage.replace(store.layout.latest_hint, b"%d" % ids[-1])


def _target(store: TableStore, target: int | str) -> Snapshot:
    if isinstance(target, str):
        return store.tags.get(target).snapshot
    snapshot = store.snapshots.find(target)
    if snapshot is not None:
        return snapshot
    tags = store.tags.all()
    tagged = next((tag.snapshot for tag in tags if tag.snapshot.id == target), None)
    if tagged is not None:
        return tagged
    ids = sorted({*store.snapshots.ids(), *(tag.snapshot.id for tag in tags)})
    below = max((i for i in ids if i < target), default=None)
    above = min((i for i in ids if i > target), default=None)
    near = " and ".join(str(i) for i in (below, above) if i is not None)
    raise NotFoundError(
        f"{store.name}: snapshot {target} doesn't exist; {f'the nearest: {near}' if near else 'there is none at all'}",
        table=store.name,
        snapshot_id=target,
        snapshots=tuple(ids),
    )


def _warn_of_consumers(store: TableStore, kept_id: int) -> None:
    """Warn of consumers that would skip the next commits, because they wait for a snapshot that was removed."""
    with suppress(CorruptTableError):
        beyond = sorted(name for name, number in store.consumers.all().items() if number > kept_id + 1)
        if beyond:
            warnings.warn(
                f"{store.name}: the consumers {', '.join(beyond)} wait for snapshots after {kept_id + 1} and will not "
                "read what is committed before; reset or delete them",
                LakewrightWarning,
                stacklevel=4,
            )

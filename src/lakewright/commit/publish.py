"""One snapshot in, one of three outcomes out: it is published, another one was first, or the outcome is unknown.

Always holds: `Published` means that the snapshot file was created, or read back with its own manifest lists, or that
the server which owns the table said so; `metadata.home` says what the outcomes mean. A snapshot that turns out not to
belong to the history is taken back (`confirm_published`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from lakewright.errors import CorruptTableError, LakewrightError, NotFoundError
from lakewright.metadata.entry_parts import ChosenEntries
from lakewright.metadata.home import FILES, HistoryOwner, Home, LostRace, Outcome, Published, Unknown
from lakewright.metadata.store import TableStore
from lakewright.spec.manifest import ADD, DELETE, ManifestEntry
from lakewright.spec.snapshot import Snapshot, is_same_state, snapshot_from_json, to_json
from lakewright.storage.base import Storage, is_refusal
from lakewright.storage.layout import Layout
from lakewright.storage.side_by_side import Errands


class Publisher(Protocol):
    """What decides which of several writers gets a snapshot id: the table's storage, or the server of a catalog."""

    def publish(self, snapshot: Snapshot, base: Snapshot | None, entries: Sequence[ManifestEntry] = ()) -> Outcome:
        """Make a snapshot visible if it extends `base` (None: the table is empty) and nobody else did so first.

        `entries` are the files that it adds and deletes. An OSError means that it was refused: it is not and will
        not be visible.
        """


@dataclass(frozen=True, slots=True)
class SnapshotFiles:
    """Publishes by creating `snapshot-<id>` once, which is all that decides a race on a filesystem or object store."""

    storage: Storage
    layout: Layout
    home: Home = FILES

    def publish(
        self,
        snapshot: Snapshot,
        base: Snapshot | None,  # noqa: ARG002 - the name of the file says which base
        entries: Sequence[ManifestEntry] = (),  # noqa: ARG002
    ) -> Outcome:
        """Create the snapshot file unless it exists, and read it back if the answer is not certain."""
        with self.home.locked():
            return self._create(snapshot)

    def _create(self, snapshot: Snapshot) -> Outcome:
        path = self.layout.snapshot_file(snapshot.id)
        try:
            created = self.storage.create(path, to_json(snapshot).encode())
        except OSError as cause:
            return self._read_back(path, snapshot, cause)
        # Where files can be renamed over each other, writers of other implementations can replace the file that we
        # just created; one small read tells. On object stores nobody publishes that way, and a read is a round trip.
        if created and not self.storage.renames_atomically:
            return Published(snapshot.id)
        gone = FileNotFoundError(f"{path} was taken by somebody and is gone again")
        return self._read_back(path, snapshot, gone, created=created)

    def _read_back(self, path: str, snapshot: Snapshot, cause: OSError, *, created: bool = False) -> Outcome:
        """Return the outcome by the manifest lists of the snapshot that is at the path."""
        try:
            published = snapshot_from_json(self.storage.read(path), path=path)
        except FileNotFoundError:
            if created:
                return Published(snapshot.id)  # it was visible; others may have extended it before it expired
            if is_refusal(cause):
                raise cause from None
            return Unknown(cause)
        except (OSError, CorruptTableError) as unreadable:
            return Unknown(unreadable)
        if is_same_state(published, snapshot):
            return Published(snapshot.id)
        return LostRace(snapshot.id)


@dataclass(frozen=True, slots=True)
class ServerCommits:
    """Publishes by asking the server that owns the history."""

    store: TableStore
    owner: HistoryOwner

    def publish(self, snapshot: Snapshot, base: Snapshot | None, entries: Sequence[ManifestEntry] = ()) -> Outcome:
        """Send the snapshot with what it adds to each partition."""
        return self.owner.commit(snapshot, base, self.store.partition_counts(entries))


def publisher_of(store: TableStore) -> Publisher:
    """Return what publishes the snapshots of a table: its files, or the server that owns its history."""
    owner = store.home.history
    return SnapshotFiles(store.storage, store.layout, store.home) if owner is None else ServerCommits(store, owner)


def confirm_published(
    store: TableStore, base: Snapshot | None, own: Snapshot, entries: Sequence[ManifestEntry]
) -> Outcome:
    """Look whether a snapshot that was just created belongs to the history; if not, take it back: it has lost.

    A writer may be paused between planning and publishing. Meanwhile the snapshot that it planned on may be rolled
    back, or its own id may be used by others and expire, so that creating the file succeeds all the same. The history
    is the run of ids that ends at the highest one (design/0013). So a snapshot is in it if its base is there and no
    higher id exists, or if the next one was made on top of it. `entries` are the files that it adds and deletes.
    """
    if store.home.history is not None:
        return _confirm_on_server(store, store.home.history, base, own)
    snapshots = store.snapshots
    try:
        with Errands(store.storage) as errands:
            found = None if base is None else errands.start(partial(snapshots.find, base.id))
            listed = errands.start(partial(snapshots.ids_above, own.id - 1))
            kept = None if found is None else found.result()
            is_in_line = _is_in_line(store, base, kept, own, entries, listed.result())
        if is_in_line is None:
            gone = FileNotFoundError(f"{store.layout.snapshot_file(own.id)} and the snapshot after it are gone")
            return Unknown(gone, is_gone=False)
        if not is_in_line and snapshots.holds(own):
            store.storage.delete(store.layout.snapshot_file(own.id))
    except (OSError, CorruptTableError, NotFoundError) as cause:
        return Unknown(cause)
    # Its metadata stays for the removal of orphans: the snapshot was visible, and somebody may be reading it.
    return Published(own.id) if is_in_line else Unknown(OSError("it was taken back"), is_gone=True)


def _confirm_on_server(store: TableStore, owner: HistoryOwner, base: Snapshot | None, own: Snapshot) -> Outcome:
    """Look whether a server that does not check the base of a commit took one whose base was rolled back.

    Servers up to 1.4.2 compare only ids, and drop the uuid by which newer ones recognise the base.
    """
    if base is None or base.uuid is not None:
        return Published(own.id)
    try:
        kept = store.snapshots.find(base.id)
        if kept is not None and is_same_state(kept, base):
            return Published(own.id)
        older = [found for found in store.snapshots.ids_above(0) if found < own.id]
        if not older:
            return Published(own.id)  # the base has expired since: expiry removes the oldest first
        owner.rollback(older[-1], own.id)  # refused if others have committed on top
    except (OSError, LakewrightError) as cause:
        return Unknown(cause)
    return Unknown(OSError("it was taken back, as its base was rolled back"), is_gone=True)


def _is_in_line(
    store: TableStore,
    base: Snapshot | None,
    kept: Snapshot | None,
    own: Snapshot,
    entries: Sequence[ManifestEntry],
    listed: list[int],
) -> bool | None:
    """Say whether a snapshot belongs to the history; None if that cannot be known any more.

    `kept` is the snapshot that has the id of the base now, and `listed` are its own id and those that are higher.
    """
    is_same_base = base is None or (kept is not None and is_same_state(kept, base))
    if listed and listed[-1] > own.id:
        following = store.snapshots.find(own.id + 1)
        if following is not None:
            is_built = is_built_on(store, following, own, entries)
            return is_same_base if is_built is None else is_built
        # Snapshots expire from the oldest on: if the next one has expired, so has ours, unless it is below a gap.
        return False if store.snapshots.exists(own.id) else None
    if own.id not in listed and not store.snapshots.exists(own.id):
        return False  # it was rolled back
    if is_same_base:
        return True
    # The base is gone, or another snapshot has its id. It has expired, or it was rolled back: then an older snapshot is
    # kept. One that is older than the hint EARLIEST says is a stray that was published too late.
    earliest = store.snapshots.hinted_earliest() or 1
    older = [snapshot_id for snapshot_id in store.snapshots.ids() if earliest <= snapshot_id < own.id]
    return not older


def is_built_on(store: TableStore, following: Snapshot, own: Snapshot, entries: Sequence[ManifestEntry]) -> bool | None:
    """Say whether a snapshot was made on top of another one; None if that one changed no data file, so none tells."""
    manifests = store.manifests
    began_with = manifests.read_list(following.base_manifest_list)
    with suppress(NotFoundError, CorruptTableError):  # it has expired
        changed = {file.file_name for file in manifests.read_list(own.delta_manifest_list)}
        if changed and changed <= {file.file_name for file in began_with}:
            return True
    if not entries:
        return None
    # Manifests were merged, or written anew by a rollback: the files tell.
    partitions = {entry.partition for entry in entries}
    found = manifests.live_of(began_with, following, keep=lambda partition, *_: partition in partitions)
    live = {entry.identity for entry in (found.entries() if isinstance(found, ChosenEntries) else found)}
    added = {entry.identity for entry in entries if entry.kind == ADD}
    removed = {entry.identity for entry in entries if entry.kind == DELETE} - added
    return added <= live and live.isdisjoint(removed)

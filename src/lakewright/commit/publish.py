"""One snapshot in, one of three outcomes out: it is published, another one was first, or the outcome is unknown.

Always holds: `Published` means that the snapshot file was created, or read back with its own manifest lists, or that
the server which owns the table said so; `metadata.home` says what the outcomes mean. A snapshot whose base was rolled
back in the meantime is taken back.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from lakewright.errors import CorruptTableError
from lakewright.metadata.home import FILES, HistoryOwner, Home, LostRace, Outcome, Published, Unknown
from lakewright.metadata.store import TableStore
from lakewright.spec.manifest import ManifestEntry
from lakewright.spec.snapshot import Snapshot, is_same_state, snapshot_from_json, to_json
from lakewright.storage.base import Storage, is_refusal
from lakewright.storage.layout import Layout


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
            if is_refusal(cause):
                raise cause from None
            return Unknown(cause, is_gone=created)
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


def take_back_if_rolled_back(store: TableStore, base: Snapshot | None, own: Snapshot) -> bool:
    """Remove a snapshot that was just published if its base was rolled back before; then it must be planned again.

    Otherwise the rows that were rolled back would be there again. An expiry removes the oldest snapshots first, so a
    base that is gone while an older snapshot exists was rolled back. If another snapshot was made on top of ours, it
    stays. A look that fails changes nothing. A server checks the base itself.
    """
    if base is None or store.home.history is not None:
        return False
    snapshots = store.snapshots
    with suppress(OSError, CorruptTableError):
        found = snapshots.find(base.id)
        if found is not None and is_same_state(found, base):
            return False
        if found is None and not any(snapshot_id < base.id for snapshot_id in snapshots.ids()):
            return False
        if snapshots.exists(own.id + 1):
            return False
        if snapshots.holds(own):
            store.storage.delete(store.layout.snapshot_file(own.id))
        return True
    return False

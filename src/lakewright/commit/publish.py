"""One snapshot in, one of three outcomes out: it is published, another one was first, or the outcome is unknown.

Always holds: `Published` means that the snapshot file was created, or read back with its own uuid; `LostRace` that
another snapshot has the id. Everything else is `Unknown`: the snapshot may exist, so nothing of it may be deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from lakewright.errors import CorruptTableError
from lakewright.spec.snapshot import Snapshot, snapshot_from_json, to_json
from lakewright.storage.base import Storage, is_refusal
from lakewright.storage.layout import Layout


@dataclass(frozen=True, slots=True)
class Published:
    """The snapshot is visible to every reader."""

    snapshot_id: int


@dataclass(frozen=True, slots=True)
class LostRace:
    """Another writer published that id; ours is not and will not be visible."""

    winner_id: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """The reply was lost: the snapshot may be visible, or may still become so."""

    cause: Exception


Outcome: TypeAlias = Published | LostRace | Unknown


class Publisher(Protocol):
    """What decides which of several writers gets a snapshot id: the table's storage, or the server of a catalog."""

    def publish(self, snapshot: Snapshot, base: Snapshot | None) -> Outcome:
        """Make a snapshot visible if it extends `base` (None: the table is empty) and nobody else did so first.

        An OSError means that the storage refused it, so that it is not and will not be visible.
        """


@dataclass(frozen=True, slots=True)
class SnapshotFiles:
    """Publishes by creating `snapshot-<id>` once, which is all that decides a race on a filesystem or object store."""

    storage: Storage
    layout: Layout

    def publish(self, snapshot: Snapshot, base: Snapshot | None) -> Outcome:  # noqa: ARG002 - the name says which base
        """Create the snapshot file unless it exists, and read it back if the answer is not certain."""
        path = self.layout.snapshot_file(snapshot.id)
        try:
            created = self.storage.create(path, to_json(snapshot).encode())
        except OSError as cause:
            return self._read_back(path, snapshot, cause)
        # Where files can be renamed over each other, writers of other implementations can replace the file that we
        # just created; one small read tells. On object stores nobody publishes that way, and a read is a round trip.
        if created and not self.storage.renames_atomically:
            return Published(snapshot.id)
        return self._read_back(path, snapshot, FileNotFoundError(f"{path} was taken by somebody and is gone again"))

    def _read_back(self, path: str, snapshot: Snapshot, cause: OSError) -> Outcome:
        """Return the outcome by the uuid of the snapshot that is at the path."""
        try:
            published = snapshot_from_json(self.storage.read(path), path=path)
        except FileNotFoundError:
            if is_refusal(cause):
                raise cause from None
            return Unknown(cause)
        except (OSError, CorruptTableError) as unreadable:
            return Unknown(unreadable)
        if published.uuid is not None and published.uuid == snapshot.uuid:
            return Published(snapshot.id)
        return LostRace(snapshot.id)

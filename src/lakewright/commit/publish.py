"""One snapshot in, one of three outcomes out: it is published, somebody else was first, or we do not know.

Invariant: `Published` is said only of a snapshot that stood in the table under its own uuid, `LostRace` only when the
name is taken by another one. Everything else is `Unknown`: the snapshot may exist, so nothing of it may be deleted.
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
    """Whoever decides the race for a snapshot id: the table's storage, or the server of a catalog."""

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
        """Put the snapshot file only where none exists, and look again on any doubt."""
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
        """Tell by its uuid whose snapshot stands at the path."""
        try:
            there = snapshot_from_json(self.storage.read(path), path=path)
        except FileNotFoundError:
            if is_refusal(cause):
                raise cause from None
            return Unknown(cause)
        except (OSError, CorruptTableError) as unreadable:
            return Unknown(unreadable)
        if there.uuid is not None and there.uuid == snapshot.uuid:
            return Published(snapshot.id)
        return LostRace(snapshot.id)

"""Snapshots that expired but live on in `changelog/` for their changelog files: ids in, snapshots out.

Only what hangs on the changelog manifest list of such a snapshot still exists; its live files are gone.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.errors import CorruptTableError
from lakewright.spec.snapshot import Snapshot, snapshot_from_json
from lakewright.storage.base import Storage
from lakewright.storage.layout import Layout, numbered


@dataclass(frozen=True, slots=True)
class Changelogs:
    """The long-lived changelogs of one branch of a table."""

    storage: Storage
    layout: Layout

    def ids(self) -> list[int]:
        """Return the ids of all long-lived changelogs, in order."""
        names = (info.path.rpartition("/")[2] for info in self.storage.list(self.layout.changelog_directory))
        return numbered(names, "changelog-")

    def find(self, snapshot_id: int) -> Snapshot | None:
        """Return the snapshot of a long-lived changelog, None where there is none of this id."""
        path = self.layout.changelog_file(snapshot_id)
        try:
            snapshot = snapshot_from_json(self.storage.read(path), path=path)
        except FileNotFoundError:
            return None
        if snapshot.id != snapshot_id:
            raise CorruptTableError(f"{path} is the file of snapshot {snapshot.id}; restore it from a copy", path=path)
        return snapshot

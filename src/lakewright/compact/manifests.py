"""Manifest compaction: the manifests of the newest snapshot in, few full ones out, in a COMPACT snapshot of its own.

No data file is added, removed or read. Other writers go first: the manifests are merged again on what they published.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from lakewright.commit.committer import Committer
from lakewright.display.notebook import InNotebook
from lakewright.metadata.store import TableStore
from lakewright.spec.options import CoreOptions
from lakewright.spec.snapshot import Snapshot

# Every small manifest, and every one that deletes files, is merged, however few they are.
_ALL = {
    CoreOptions.MANIFEST_FULL_COMPACTION_THRESHOLD_SIZE.key(): "1 b",
    CoreOptions.MANIFEST_MERGE_MIN_COUNT.key(): "2",
}


@dataclass(frozen=True, slots=True)
class ManifestsResult(InNotebook):
    """What a manifest compaction did."""

    snapshot_id: int | None  # None: there was nothing to do
    manifests_before: int = 0
    manifests_after: int = 0
    seconds: float = 0.0

    @property
    def is_empty(self) -> bool:
        """Say whether there was nothing to do."""
        return self.snapshot_id is None


def compact_manifests(store: TableStore) -> ManifestsResult:
    """Merge the manifests of the newest snapshot."""
    started = time.monotonic()
    store.check_changeable()
    snapshot = store.snapshots.latest()
    store.check_same_table()
    before = [] if snapshot is None else store.manifests.files_of(snapshot)
    target = store.options.get(CoreOptions.MANIFEST_TARGET_FILE_SIZE)
    small = [file for file in before if file.file_size < target or file.num_deleted_files]
    if len(before) < 2 or (len(small) < 2 and not any(file.num_deleted_files for file in small)):  # noqa: PLR2004
        return ManifestsResult(None, len(before), len(before), time.monotonic() - started)
    published: Snapshot = Committer(store.with_schema(store.schema.with_options(_ALL)), sole=True).compact_manifests()
    after = store.manifests.files_of(published)
    return ManifestsResult(published.id, len(before), len(after), time.monotonic() - started)

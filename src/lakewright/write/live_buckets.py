"""Partitions in, their bucket counts and highest sequence numbers out, as the live files of the table have them.

The newest snapshot is read when the first rows of a partition arrive. An overwrite replaces the live files, so it needs
neither. Other writers may commit meanwhile: the commit messages name the snapshot that was read, and the committer
compares it with the newest one.
"""

from __future__ import annotations

from collections.abc import Collection

from lakewright.commit.message.message import snapshot_name
from lakewright.errors import InvalidInputError, counted
from lakewright.metadata.early_look import EarlyLook
from lakewright.metadata.manifest_merge import may_hold
from lakewright.metadata.store import TableStore
from lakewright.spec.manifest import ManifestEntry
from lakewright.spec.schema.table_schema import POSTPONE


class LiveBuckets:
    """The bucket counts and highest sequence numbers of the partitions that a writer has looked up."""

    def __init__(self, store: TableStore, buckets: int | None) -> None:
        """Begin with no partition; `buckets` is the number that every partition must have, None where it may grow."""
        self.base: str | None = None  # the name of the oldest snapshot that was read since the last `forget`
        self._store = store
        self._buckets = buckets
        self._totals: dict[bytes, int] = {}
        self._sequences: dict[tuple[bytes, int], int] = {}
        self._waiting: dict[bytes, dict[str, int]] = {}  # rows of the postpone bucket, by file
        self._known: set[bytes] = set()
        self._complete = False
        self._early_look = EarlyLook(store)
        self._early_look.begin()

    def look_up(self, partitions: Collection[bytes]) -> None:
        """Read the facts of new partitions; raise InvalidInputError for one with another number of buckets."""
        new = set() if self._complete else set(partitions) - self._known
        if new:
            # The first partitions are looked up alone; where more follow, one full read is cheaper than many.
            for entry in self._read(None if self._known else new):
                self._note(entry)
            self._complete = bool(self._known)
            self._known |= new
        for partition in partitions:
            self._check(partition)

    def forget(self) -> None:
        """Forget which partitions were read, so that the next rows read the newest snapshot."""
        self.base = None
        self._known.clear()
        self._complete = False

    def total(self, partition: bytes) -> int | None:
        """Return how many buckets a partition that was looked up has; None where it has no fixed number of them."""
        return self._totals.get(partition)

    def waiting(self, partition: bytes) -> int:
        """Return how many rows of a partition that was looked up wait for their bucket."""
        return sum(self._waiting.get(partition, {}).values())

    def next_sequence(self, partition: bytes, bucket: int) -> int:
        """Return the first free sequence number of a bucket."""
        return self._sequences.get((partition, bucket), -1) + 1

    def _read(self, partitions: set[bytes] | None) -> list[ManifestEntry]:
        snapshot = self._early_look.newest()
        self.base = snapshot_name(snapshot) if self.base is None else self.base
        if snapshot is None:
            return []
        if partitions is None:
            return self._store.manifests.live(snapshot)
        types = self._store.partition_types
        values = [self._store.partition_values(partition) for partition in partitions]
        return self._store.manifests.live(
            snapshot,
            keep=lambda partition, _bucket, _total, _level: partition in partitions,
            keep_manifest=lambda manifest: may_hold(manifest.partition_stats, values, types),
        )

    def _note(self, entry: ManifestEntry) -> None:
        if entry.total_buckets > 0:
            self._totals[entry.partition] = entry.total_buckets
        if entry.bucket == POSTPONE:
            self._waiting.setdefault(entry.partition, {})[entry.file.file_name] = entry.file.row_count
        place = (entry.partition, entry.bucket)
        self._sequences[place] = max(self._sequences.get(place, -1), entry.file.max_sequence_number)

    def _check(self, partition: bytes) -> None:
        total = self._totals.get(partition)
        if total is not None and self._buckets is not None and total != self._buckets:
            name = self._store.name
            where = self._store.partition_name(partition) or "the table"
            raise InvalidInputError(
                f"table {name}: {where} has {counted(total, 'bucket')}, but the option 'bucket' says {self._buckets}; "
                f"overwrite it or call table.rescale({self._buckets}) to change its buckets, or write "
                f"with bucket={total}",
                table=name,
                partition=where,
                buckets=total,
            )

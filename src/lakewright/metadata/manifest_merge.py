"""Which manifests a commit merges, and which may name files of some partitions. Decisions only, no storage.

Merging limits the number and the size of manifests as commits add one manifest after the other. It never changes which
files are live: only the entries and their order decide that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from lakewright.metadata.manifest_records import java_order
from lakewright.spec.datafile import EMPTY_STATS, SimpleStats
from lakewright.spec.manifest import ADD, ManifestEntry, ManifestFile
from lakewright.spec.rows.binary_row import decode_row
from lakewright.spec.types import DataType, Value


@dataclass(frozen=True, slots=True)
class MergeLimits:
    """When manifests are merged."""

    target_bytes: int  # the size that a manifest should reach
    count_min: int  # how many small manifests are merged at least
    full_bytes: int  # the size of small manifests and manifests with deletes from which on a merge is a full one


@dataclass(frozen=True, slots=True)
class MergePlan:
    """How to merge a list of manifests, given in order."""

    full: bool  # remove all deletes together with the entries they delete
    groups: tuple[tuple[ManifestFile, ...], ...]  # if not full: each group becomes one manifest; a group of one stays


def plan_merge(files: Sequence[ManifestFile], limits: MergeLimits) -> MergePlan:
    """Decide how to merge the manifests of a snapshot."""
    improvable_bytes = sum(f.file_size for f in files if is_improvable(f, limits))
    groups: list[tuple[ManifestFile, ...]] = []
    batch: list[ManifestFile] = []
    batch_bytes = 0
    for file in files:
        batch.append(file)
        batch_bytes += file.file_size
        if batch_bytes >= limits.target_bytes:
            groups.append(tuple(batch))
            batch, batch_bytes = [], 0
    if len(batch) >= limits.count_min:
        groups.append(tuple(batch))
    else:
        groups.extend((file,) for file in batch)
    return MergePlan(improvable_bytes >= limits.full_bytes, tuple(groups))


def is_improvable(file: ManifestFile, limits: MergeLimits) -> bool:
    """Say whether a full merge rewrites the manifest in any case: it is small or deletes files."""
    return file.num_deleted_files > 0 or file.file_size < limits.target_bytes


def may_hold(stats: SimpleStats, partitions: Collection[tuple[Value, ...]], types: Sequence[DataType]) -> bool:
    """Say whether a manifest with these partition statistics may have entries of one of the partitions."""
    if not types or stats.min_values == EMPTY_STATS.min_values or len(stats.null_counts) != len(types):
        return bool(partitions)
    lows, highs = decode_row(stats.min_values, types), decode_row(stats.max_values, types)
    columns = list(zip(lows, highs, stats.null_counts, strict=True))
    return any(
        all(_in_range(value, *column) for value, column in zip(partition, columns, strict=True))
        for partition in partitions
    )


def _in_range(value: Value, low: Value, high: Value, nulls: int | None) -> bool:
    if value is None:
        return nulls is None or nulls > 0
    if low is None or high is None:
        return True
    return java_order(low) <= java_order(value) <= java_order(high)


def deleted_partitions(entries: Iterable[ManifestEntry], types: Sequence[DataType]) -> set[tuple[Value, ...]]:
    """Return the partitions in which the entries delete files."""
    return {decode_row(data, types) for data in {entry.partition for entry in entries if entry.kind != ADD}}

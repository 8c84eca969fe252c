"""Which manifests a commit should merge, and what can be said of all entries of a manifest. Decisions only, no storage.

Merging keeps the number and the size of the manifests in bounds as commits add one manifest after the other. It never
changes which files are live: that is decided by the entries and their order alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from lakewright.spec.datafile import EMPTY_STATS, SimpleStats
from lakewright.spec.manifest import ADD, ManifestEntry, ManifestFile
from lakewright.spec.rows.binary_row import decode_row, encode_row
from lakewright.spec.types import DataType, Value


@dataclass(frozen=True, slots=True)
class MergeLimits:
    """When to merge."""

    target_bytes: int  # what a manifest should reach
    count_min: int  # how many small manifests are worth a merge
    full_bytes: int  # how much may be unsettled before everything is rewritten


@dataclass(frozen=True, slots=True)
class MergePlan:
    """What to do with a list of manifests, given in order."""

    full: bool  # settle all deletes now
    groups: tuple[
        tuple[ManifestFile, ...], ...
    ]  # without a full merge: what becomes one; a group of one stays as it is


def plan_merge(files: Sequence[ManifestFile], limits: MergeLimits) -> MergePlan:
    """Decide how to merge the manifests of a snapshot."""
    unsettled = sum(f.file_size for f in files if is_unsettled(f, limits))
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
    return MergePlan(unsettled >= limits.full_bytes, tuple(groups))


def is_unsettled(file: ManifestFile, limits: MergeLimits) -> bool:
    """Say whether a full merge would rewrite the manifest for its own sake: it is small or deletes files."""
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


def manifest_facts(
    entries: Sequence[ManifestEntry], types: Sequence[DataType], *, name: str, size: int, schema_id: int
) -> ManifestFile:
    """Return what a manifest list says of a manifest with these entries."""
    files = [entry.file for entry in entries]
    buckets, levels = [entry.bucket for entry in entries], [file.level for file in files]
    first_ids = [file.first_row_id for file in files]
    last_ids = [file.first_row_id + file.row_count - 1 for file in files if file.first_row_id is not None]
    whole = len(last_ids) == len(files)  # ids that are known for some files only say nothing of the manifest
    added = sum(entry.kind == ADD for entry in entries)
    return ManifestFile(
        file_name=name,
        file_size=size,
        num_added_files=added,
        num_deleted_files=len(entries) - added,
        partition_stats=_partition_stats(Counter(entry.partition for entry in entries), types),
        schema_id=max((file.schema_id for file in files), default=schema_id),
        min_bucket=min(buckets, default=None),
        max_bucket=max(buckets, default=None),
        min_level=min(levels, default=None),
        max_level=max(levels, default=None),
        min_row_id=min((i for i in first_ids if i is not None), default=None) if whole else None,
        max_row_id=max(last_ids, default=None) if whole else None,
    )


def _partition_stats(partitions: Counter[bytes], types: Sequence[DataType]) -> SimpleStats:
    """Return the bounds and null counts of the partition columns over all entries, never truncated."""
    if not types:
        return EMPTY_STATS
    rows = [(decode_row(data, types), count) for data, count in partitions.items()]
    lows: list[Value] = []
    highs: list[Value] = []
    nulls: list[int | None] = []
    for column in range(len(types)):
        values = [row[column] for row, _ in rows if row[column] is not None]
        lows.append(min(values, key=_order, default=None))
        highs.append(max(values, key=_order, default=None))
        nulls.append(sum(count for row, count in rows if row[column] is None))
    return SimpleStats(encode_row(lows, types), encode_row(highs, types), tuple(nulls))


def _order(value: Value) -> tuple[object, ...]:
    """Return what sorts values as Java does: NaN after every number, -0.0 before 0.0."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value, math.copysign(1, value))
    return (value,)


def _in_range(value: Value, low: Value, high: Value, nulls: int | None) -> bool:
    if value is None:
        return nulls is None or nulls > 0
    if low is None or high is None:
        return True
    return _order(low) <= _order(value) <= _order(high)


def deleted_partitions(entries: Iterable[ManifestEntry], types: Sequence[DataType]) -> set[tuple[Value, ...]]:
    """Return the partitions in which the entries delete files."""
    return {decode_row(data, types) for data in {entry.partition for entry in entries if entry.kind != ADD}}

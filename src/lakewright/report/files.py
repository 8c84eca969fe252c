"""The files of one snapshot, measured: live files in, sizes, partitions, buckets and what a compaction would do out.

Plain functions of metadata: nothing is opened. What a read of a bucket returns is an estimate where files hold several
versions of one key, because only their rows would tell: of each section the run with the most rows counts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from lakewright.compact import task
from lakewright.compact.append import AppendRules, picker
from lakewright.lsm.runs import Section, sections
from lakewright.metadata.store import TableStore
from lakewright.report.facts import (
    Bucket,
    Buckets,
    Compaction,
    Level,
    Partition,
    Partitions,
    Rewrite,
    Shortened,
    SizeBin,
    Sizes,
)
from lakewright.spec.datafile import DataFile, is_side_file
from lakewright.spec.manifest import ManifestEntry
from lakewright.spec.options import CoreOptions
from lakewright.spec.units import MAX_INT

TOP = 20
PROFILE_GROUPS = 48
RUNS_BINS = 12
_TENTH = 10
# Each bin is four times as wide as the one before it: files of a table spread over many orders of magnitude.
_BIN_EDGES = (0, *(1024 * 4**step for step in range(11)))


def partitions_of(store: TableStore, entries: Iterable[ManifestEntry]) -> Partitions:
    """Return the largest partitions, and how uneven all of them are."""
    grouped: dict[bytes, list[int]] = {}
    for entry in entries:
        counts = grouped.setdefault(entry.partition, [0, 0, 0])
        counts[0] += 1
        counts[1] += entry.file.row_count
        counts[2] += entry.file.file_size
    if not grouped:
        return Partitions()
    ordered = sorted(grouped.items(), key=lambda item: (-item[1][2], item[0]))
    sizes = [counts[2] for _, counts in ordered]
    largest = tuple(Partition(store.partition_name(partition), *counts) for partition, counts in ordered[:TOP])
    return Partitions(
        largest=Shortened(largest, len(ordered)),
        median_bytes=_median(sizes),
        profile=tuple(sum(group) // len(group) for group in _groups(sizes)),
        top_share=sum(sizes[: math.ceil(len(sizes) / _TENTH)]) / max(sum(sizes), 1),
    )


def _groups(sizes: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield neighbours in groups of nearly equal length."""
    count = min(PROFILE_GROUPS, len(sizes))
    for group in range(count):
        yield sizes[group * len(sizes) // count : (group + 1) * len(sizes) // count]


def _median(ordered: Sequence[int]) -> int:
    return ordered[len(ordered) // 2] if ordered else 0


def sizes_of(store: TableStore, entries: Sequence[ManifestEntry]) -> Sizes:
    """Return the sizes of the data files in bins, and how many are small."""
    keyed = bool(store.schema.primary_keys)
    target = store.options.target_file_size(has_primary_key=keyed)
    small_below = int(target * store.options.get(CoreOptions.COMPACTION_SMALL_FILE_RATIO))
    sizes = sorted(entry.file.file_size for entry in entries)
    bins: dict[int, list[int]] = {}
    for size in sizes:
        counts = bins.setdefault(_bin(size), [0, 0])
        counts[0] += 1
        counts[1] += size
    first, last = min(bins, default=0), max((*bins, _bin(target)), default=0)
    return Sizes(
        target=target,
        small_below=small_below,
        small_files=sum(size < small_below for size in sizes),
        median=_median(sizes),
        bins=tuple(
            SizeBin(_BIN_EDGES[at], (*_BIN_EDGES, 2**63)[at + 1], *bins.get(at, (0, 0)))
            for at in range(min(first, _bin(target)), last + 1)
        )
        if sizes
        else (),
    )


def _bin(size: int) -> int:
    return max(at for at, low in enumerate(_BIN_EDGES) if low <= size)


def buckets_of(store: TableStore, entries: Iterable[ManifestEntry], buckets: Sequence[task.Bucket]) -> Buckets:
    """Return what buckets hold and what reading them costs."""
    measured = [_measured(store, bucket) for bucket in buckets]
    postponed = [entry.file for entry in entries if entry.bucket < 0]
    hides = bool(store.schema.primary_keys) and store.options.hides_level_0()
    hidden = [file for bucket in buckets for file in bucket.files if hides and file.level == 0]
    runs = Counter(min(bucket.runs, RUNS_BINS) for bucket in measured)
    costly = sorted(measured, key=lambda one: (-one.runs, -one.files, -one.bytes, one.partition, one.bucket))
    deleted = [one for one in measured if one.deleted_rows or one.delete_rows]
    deleted.sort(key=lambda one: (-one.deleted_share, -one.rows, one.partition, one.bucket))
    return Buckets(
        costliest=Shortened(tuple(costly[:TOP]), len(costly)),
        most_deleted=Shortened(tuple(deleted[:TOP]), len(deleted)),
        runs=tuple(sorted(runs.items())),
        runs_max=max((one.runs for one in measured), default=0),
        files_max=max((one.files for one in measured), default=0),
        level_0_files=sum(level.files for one in measured for level in one.levels if level.level == 0),
        deleted_rows=sum(one.deleted_rows for one in measured),
        delete_rows=sum(one.delete_rows for one in measured),
        answered_rows=sum(one.answered_rows for one in measured),
        hidden_files=len(hidden),
        hidden_rows=sum(file.row_count for file in hidden),
        postponed_files=len(postponed),
        postponed_rows=sum(file.row_count for file in postponed),
        unknown_vectors=sum(count is None for bucket in buckets for count in bucket.deleted_rows.values()),
    )


def _measured(store: TableStore, bucket: task.Bucket) -> Bucket:
    levels: dict[int, list[DataFile]] = {}
    for file in bucket.files:
        levels.setdefault(file.level, []).append(file)
    deleted = sum(count or 0 for count in bucket.deleted_rows.values())
    delete_rows = sum(file.delete_row_count or 0 for file in bucket.files)
    runs, answered = _reading(store, bucket, deleted)
    return Bucket(
        partition=store.partition_name(bucket.place[0]),
        bucket=bucket.place[1],
        files=len(bucket.files),
        rows=_rows(bucket.files),
        bytes=_bytes(bucket.files),
        levels=tuple(Level(level, len(some), _rows(some), _bytes(some)) for level, some in sorted(levels.items())),
        runs=runs,
        deleted_rows=deleted,
        delete_rows=delete_rows,
        answered_rows=answered,
    )


def _reading(store: TableStore, bucket: task.Bucket, deleted: int) -> tuple[int, int]:
    """Return how many runs a read of a bucket merges at most, and an estimate of the rows that it returns."""
    if not store.schema.primary_keys:
        # Files with large values of other files' rows, or with some of their columns, hold no rows of their own.
        whole = [file for file in bucket.files if not is_side_file(file)]
        distinct = {file.first_row_id: file.row_count for file in whole if file.first_row_id is not None}
        evolved = store.options.data_evolution_enabled() and distinct
        return 1, max(0, (sum(distinct.values()) if evolved else _rows(whole)) - deleted)
    if store.options.hides_level_0():
        return 1, max(0, _rows(file for file in bucket.files if file.level > 0) - deleted)
    parts = sections(bucket.files, [field.type for field in store.schema.trimmed_primary_key_fields])
    runs = max((len(part.runs) for part in parts), default=1)
    return runs, max(0, sum(map(_answered, parts)) - deleted)


def _answered(section: Section) -> int:
    return max(sum(file.row_count - (file.delete_row_count or 0) for file in run) for run in section.runs)


def _rows(files: Iterable[DataFile]) -> int:
    return sum(file.row_count for file in files)


def _bytes(files: Iterable[DataFile]) -> int:
    return sum(file.file_size for file in files)


def compaction_of(store: TableStore, buckets: Sequence[task.Bucket], *, now_millis: int) -> Compaction:
    """Return what compactions would rewrite, as they would pick it; an error says why the table cannot be compacted."""
    task.check_compactable(store)
    groups = [list(_picked(store, buckets, full=full, now_millis=now_millis)) for full in (False, True)]
    return Compaction(*(_rewrite(store, some) for some in groups))


def _picked(
    store: TableStore, buckets: Sequence[task.Bucket], *, full: bool, now_millis: int
) -> Iterator[tuple[task.Place, Sequence[DataFile]]]:
    """Yield the files that would be rewritten together."""
    rules = AppendRules.of(store.options, full=full)
    for bucket in buckets:
        if store.schema.primary_keys:
            unit = task.unit_of(store, bucket, full=full, now_ms=now_millis)
            if unit is not None:
                yield bucket.place, unit.files
        else:
            for units in picker(store)(rules, bucket):
                yield bucket.place, [file for unit in units for file in unit.files]


def _rewrite(store: TableStore, groups: Sequence[tuple[task.Place, Sequence[DataFile]]]) -> Rewrite:
    target = min(store.options.target_file_size(has_primary_key=bool(store.schema.primary_keys)), MAX_INT)
    return Rewrite(
        buckets=len({place for place, _ in groups}),
        files=sum(len(files) for _, files in groups),
        files_after=sum(max(1, math.ceil(_bytes(files) / max(target, 1))) for _, files in groups),
        bytes=sum(_bytes(files) for _, files in groups),
    )

"""Live files to splits."""

from __future__ import annotations

import random
import threading
from bisect import bisect, bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeAlias, TypeVar

import numpy as np

from lakewright.errors import CorruptTableError, InvalidInputError, UnsupportedError
from lakewright.formats.avro_columns import Longs
from lakewright.lsm.sorted_runs import sections
from lakewright.metadata.manifest_columns import SelectedEntries, distinct
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit, DeletionFile, Deletions, deferred_splits
from lakewright.read.manifest_scan import keys_are_once
from lakewright.spec import argument_checks
from lakewright.spec.manifest import DELETION_VECTORS, DataFile, IndexEntry, ManifestEntry, is_side_file
from lakewright.spec.table_options import TableOptions
from lakewright.spec.table_schema import BucketMode

# ---- Many files in reading order -------------------------------------------------------------------------------------
# Only what decides which files are read together is taken from the columns: partition, bucket, size and sequence
# number. Objects are made page by page, when a file of a page is first asked for: making them one by one takes ten
# times as long.

BucketKey: TypeAlias = tuple[bytes, int, int]  # partition, bucket, total buckets
PAGE_FILES = 2_000
_PAGES_MAX = 8  # that are held; a split that was looked at holds its own files


@dataclass(frozen=True, slots=True)
class OrderedFiles:
    """Files, bucket by bucket in the order in which the manifests first name them."""

    entries: SelectedEntries
    order: Longs  # their positions among the entries
    sizes: Longs
    buckets: tuple[tuple[BucketKey, int, int], ...]  # each with the numbers of its first file and of the one after it
    _pages: dict[int, list[DataFile]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, entries: SelectedEntries, *, by_sequence: bool) -> OrderedFiles:
        """Put entries in order; those of one bucket by their sequence numbers, or as they are."""
        partitions, codes = entries.partitions()
        columns = codes, entries.buckets, entries.totals
        firsts, groups = distinct(columns)
        ranks = np.argsort(np.argsort(firsts)).take(groups)
        order = np.lexsort((entries.sequences, ranks)) if by_sequence else np.argsort(ranks, kind="stable")
        ends = np.cumsum(np.bincount(ranks, minlength=len(firsts))).tolist()
        keys = zip(*(column.take(np.sort(firsts)).tolist() for column in columns), strict=True)
        named = [(partitions[code], bucket, total) for code, bucket, total in keys]
        places = tuple(zip(named, [0, *ends], ends, strict=False))
        return cls(entries, order, entries.file_sizes.take(order), places)

    def bucket_at(self, number: int) -> BucketKey:
        """Return the bucket of a file."""
        return self.buckets[bisect(self.buckets, number, key=lambda bucket: bucket[1]) - 1][0]

    def files(self, start: int, stop: int) -> list[DataFile]:
        """Return the files from one number up to another."""
        found: list[DataFile] = []
        for number in range(start // PAGE_FILES, -(-stop // PAGE_FILES)):
            first = number * PAGE_FILES
            found += self._page(number)[max(0, start - first) : stop - first]
        return found

    def _page(self, number: int) -> list[DataFile]:
        with self._lock:
            page = self._pages.get(number)
            if page is None:
                positions = self.order[number * PAGE_FILES : (number + 1) * PAGE_FILES]
                page = self._pages[number] = [entry.file for entry in self.entries.at(positions)]
                if len(self._pages) > _PAGES_MAX:
                    del self._pages[next(iter(self._pages))]
            return page


# ---- Splits ----------------------------------------------------------------------------------------------------------
# Files of one bucket stay in the order of their rows: that of their sequence numbers, or of the manifests where every
# writer counts from 0; those of primary-key tables in the order of their keys. They are packed into bins of
# `source.split.target-size`. In tables with data evolution several files hold columns of the same rows, in
# primary-key tables those of one section hold versions of the same rows; such files stay in one split. Plans are
# deterministic: the same entries give the same splits, so shards and slices planned apart fit together.

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Packing:
    """How many bytes a split should have, and what opening a file counts at least."""

    target_bytes: int
    open_file_bytes: int

    @classmethod
    def of(cls, options: TableOptions) -> Packing:
        """Read from options how splits are packed."""
        return cls(options.source_split_target_size, options.source_split_open_file_cost)

    def weight(self, files: Iterable[DataFile]) -> int:
        """Return what files weigh in a bin."""
        return sum(max(file.file_size, self.open_file_bytes) for file in files)


def plan_splits(
    store: TableStore,
    snapshot_id: int,
    entries: Sequence[ManifestEntry] | SelectedEntries,
    deletions: Deletions,
    *,
    apart: bool = False,
) -> list[DataSplit]:
    """Pack live files into splits, bucket by bucket in the order in which the manifests first name them.

    A split whose rows are merged cannot be cut. For shares of equal size `apart` makes a split of each section.
    """
    options = store.options
    packing = Packing.of(options)
    evolves = options.data_evolution_enabled
    if isinstance(entries, SelectedEntries):
        if not evolves and not apart:
            return _DeferredSplits.of(store, snapshot_id, entries, deletions).splits()
        entries = entries.entries()
    splits: list[DataSplit] = []
    for key, files in _by_bucket(entries).items():
        if store.schema.primary_keys:
            bins = _keyed_bins(store, files, packing, apart=apart)
        else:
            groups = row_id_groups(files) if evolves else [(file,) for file in in_row_order(store, files)]
            bins = pack(groups, packing.weight, packing.target_bytes)
        splits.extend(split_of(store, snapshot_id, key, packed, deletions) for packed in bins)
    return splits


@dataclass(frozen=True, slots=True)
class _DeferredSplits:
    """The splits that `plan_splits` makes of many files, packed by their sizes alone and made when they are looked at.

    A bucket of a primary-key table of which several splits are made needs its keys; its splits are made at once.
    """

    store: TableStore
    snapshot_id: int
    deletions: Deletions
    ordered: OrderedFiles
    packing: Packing
    _directories: dict[bytes, str] = field(default_factory=dict)

    @classmethod
    def of(cls, store: TableStore, snapshot_id: int, entries: SelectedEntries, deletions: Deletions) -> _DeferredSplits:
        """Put the files in order."""
        by_sequence = not store.schema.primary_keys and sequence_is_order(store)
        ordered = OrderedFiles.of(entries, by_sequence=by_sequence)
        return cls(store, snapshot_id, deletions, ordered, Packing.of(store.options))

    def splits(self) -> list[DataSplit]:
        """Return all splits in reading order."""
        target = self.packing.target_bytes
        weights = np.maximum(self.ordered.sizes, self.packing.open_file_bytes).tolist()
        splits: list[DataSplit] = []
        for _, start, stop in self.ordered.buckets:
            if not self.store.schema.primary_keys:
                splits += deferred_splits(self._make, _packed_ranges(weights, start, stop, target))
            elif sum(weights[start:stop]) <= target:
                splits += deferred_splits(self._make, [(start, stop)])
            else:
                splits += self._make_splits(start, stop)
        return splits

    def _make(self, start: int, stop: int) -> DataSplit:
        (split,) = self._make_splits(start, stop)
        return split

    def _make_splits(self, start: int, stop: int) -> Iterator[DataSplit]:
        """Yield the splits of neighbouring files of one bucket."""
        key, files = self.ordered.bucket_at(start), self.ordered.files(start, stop)
        directory = self._directories.get(key[0])
        if directory is None:
            directory = self._directories[key[0]] = self.store.partition_directory(key[0])
        bins: Iterable[list[tuple[DataFile, ...]]] = [[(file,) for file in files]]
        if self.store.schema.primary_keys:
            bins = _keyed_bins(self.store, files, self.packing, apart=False)
        for packed in bins:
            yield split_of(self.store, self.snapshot_id, key, packed, self.deletions, directory)


def _packed_ranges(weights: Sequence[int], start: int, stop: int, target: int) -> Iterator[tuple[int, int]]:
    """Yield the bins that `pack` makes of neighbouring weights, as ranges of their numbers."""
    first, total = start, 0
    for at in range(start, stop):
        total += weights[at]
        if total > target and at > first:
            yield first, at
            first, total = at, weights[at]
    yield first, stop


def _keyed_bins(
    store: TableStore, files: Sequence[DataFile], packing: Packing, *, apart: bool
) -> Iterator[list[tuple[DataFile, ...]]]:
    """Pack the files of a bucket of a primary-key table, in key order; files that must be merged stay together."""
    parts = sections(files, [field.type for field in store.schema.trimmed_primary_key_fields])
    groups = [section.files for section in parts]
    if keys_are_once(store) and not any(_must_merge((file,)) for file in files):
        groups = [(file,) for group in groups for file in group]
    # Where sections are planned apart, only what can be cut again is packed together.
    runs = groupby(groups, key=_must_merge) if apart else [(False, groups)]
    for alone, some in runs:
        target = 0 if alone else packing.target_bytes
        yield from pack(some, lambda group: max(packing.open_file_bytes, _bytes(group)), target)


def _bytes(files: Iterable[DataFile]) -> int:
    return sum(file.file_size for file in files)


def _must_merge(files: Sequence[DataFile]) -> bool:
    """Return whether files of one section hold versions of one row, or rows that delete."""
    return len(files) > 1 or bool(files[0].delete_row_count)


def _by_bucket(entries: Sequence[ManifestEntry]) -> dict[BucketKey, list[DataFile]]:
    buckets: dict[BucketKey, list[DataFile]] = {}
    for entry in entries:
        buckets.setdefault((entry.partition, entry.bucket, entry.total_buckets), []).append(entry.file)
    return buckets


def in_sequence(files: Iterable[DataFile]) -> list[DataFile]:
    """Return files in the order in which their rows were written; files with equal numbers keep their order."""
    return sorted(files, key=lambda file: file.min_sequence_number)


def in_row_order(store: TableStore, files: Iterable[DataFile]) -> list[DataFile]:
    """Return the files of a bucket, given in the order of the manifests, in the order of their rows."""
    return in_sequence(files) if sequence_is_order(store) else list(files)


def sequence_is_order(store: TableStore) -> bool:
    """Return whether the sequence numbers of an append table's files show in which order their rows were written.

    Without buckets every writer counts from 0, and the files of two commits, or of two tasks, would be mixed; only row
    tracking numbers files at the commit.
    """
    return store.schema.bucket_mode is not BucketMode.UNAWARE or store.options.row_tracking_enabled


def row_id_groups(files: Sequence[DataFile]) -> list[tuple[DataFile, ...]]:
    """Group files that hold columns of the same rows, by their row ids: normal files first, newest first.

    All normal files of a group must hold exactly the same rows. BLOB and VECTOR files may hold a part of the rows of a
    group, or rows of several groups; without a normal file there are no rows.
    """
    loose = [(file,) for file in files if file.first_row_id is None and not is_side_file(file)]
    numbered = [file for file in files if file.first_row_id is not None and not is_side_file(file)]
    ordered = sorted(numbered, key=lambda f: (f.first_row_id or 0, -f.max_sequence_number, f.file_name))
    groups: list[list[DataFile]] = []
    end = -1
    for file in ordered:
        first = file.first_row_id or 0
        if first >= end:
            groups.append([file])
            end = first + file.row_count
        elif (first, file.row_count) == (groups[-1][0].first_row_id, groups[-1][0].row_count):
            groups[-1].append(file)
        else:
            raise CorruptTableError(
                f"the files {groups[-1][0].file_name} and {file.file_name} share some row ids but not all; compact the "
                "table with the implementation that wrote it",
                files=(groups[-1][0].file_name, file.file_name),
            )
    _add_side_files(groups, [file for file in files if is_side_file(file)])
    return [*loose, *(tuple(group) for group in groups)]


def _add_side_files(groups: Sequence[list[DataFile]], files: Iterable[DataFile]) -> None:
    """Put BLOB and VECTOR files into all groups with rows of theirs; the groups ascend."""
    starts = [group[0].first_row_id or 0 for group in groups]
    ends = [start + group[0].row_count for start, group in zip(starts, groups, strict=True)]
    for file in sorted(files, key=lambda f: (f.first_row_id or 0, -f.max_sequence_number, f.file_name)):
        first = file.first_row_id or 0
        for at in range(bisect(ends, first), bisect_left(starts, first + file.row_count)):
            groups[at].append(file)


def pack(items: Iterable[T], weight: Callable[[T], int], target: int) -> Iterator[list[T]]:
    """Fill bins in order; a bin is closed when the next item would make it heavier than the target.

    >>> list(pack([3, 4, 9, 1, 1], lambda item: item, 8))
    [[3, 4], [9], [1, 1]]
    """
    current: list[T] = []
    total = 0
    for item in items:
        added = weight(item)
        if current and total + added > target:
            yield current
            current, total = [], 0
        current.append(item)
        total += added
    if current:
        yield current


def split_of(
    store: TableStore,
    snapshot_id: int,
    key: BucketKey,
    groups: Sequence[tuple[DataFile, ...]],
    deletions: Deletions,
    directory: str | None = None,
) -> DataSplit:
    """Return the split of some files of one bucket, group after group, with their deletion vectors.

    `directory` is that of the partition, where it is known.
    """
    partition, bucket, total_buckets = key
    if directory is None:
        directory = store.partition_directory(partition)
    files = tuple(file for group in groups for file in group)
    vectors = tuple(deletions.get((partition, file.file_name)) for file in files) if deletions else ()
    where = store.layout.bucket_directory(directory, bucket)
    return DataSplit(
        snapshot_id,
        bucket,
        total_buckets,
        files,
        tuple(store.layout.file_in(where, file.file_name, file.external_path) for file in files),
        partition_bytes=partition,
        partition_types=store.partition_types,
        bucket_path=where,
        raw_convertible=not any(_must_merge(group) for group in groups),
        deletion_files=vectors if any(vectors) else (),
    )


def deletions_of(store: TableStore, entries: Iterable[IndexEntry]) -> dict[tuple[bytes, str], DeletionFile]:
    """Return where the deletion vector of each data file lies, from the entries of an index manifest."""
    deletions: dict[tuple[bytes, str], DeletionFile] = {}
    for entry in entries:
        if entry.file.index_type != DELETION_VECTORS or not entry.file.deletion_ranges:
            continue
        directory = store.layout.bucket_directory(store.partition_directory(entry.partition), entry.bucket)
        path = store.layout.index_file(entry.file, directory)
        for place in entry.file.deletion_ranges:
            key = entry.partition, place.data_file
            if key in deletions:
                raise CorruptTableError(
                    f"{store.name}: the data file {place.data_file} has two deletion vectors, in {deletions[key].path} "
                    f"and in {path}",
                    table=store.name,
                    path=path,
                    files=(place.data_file,),
                )
            deletions[key] = DeletionFile(path, place.offset, place.length, place.cardinality)
    return deletions


def limit_splits(splits: Sequence[DataSplit], limit: int) -> list[DataSplit]:
    """Return as many splits as surely hold this many rows; only for reads without a filter."""
    kept: list[DataSplit] = []
    rows = 0
    for split in splits:
        if rows >= limit:
            break
        kept.append(split)
        rows += split.merged_row_count() or 0
    return kept


def slice_splits(splits: Sequence[DataSplit], start: int, end: int) -> list[DataSplit]:
    """Return the rows from position `start` up to `end` of the whole plan, deleted rows counted."""
    if start < 0 or end < start:
        raise InvalidInputError(f"a slice runs from 0 or more up to its end, not from {start} to {end}")
    return _between(splits, start, end)


def _between(splits: Sequence[DataSplit], start: int, end: int, *, middles: bool = False) -> list[DataSplit]:
    """Return a stretch of the plan; a split that merges rows is whole where its first (or middle) row is."""
    kept: list[DataSplit] = []
    position = 0
    for split in splits:
        rows = split.row_count
        if middles and split.needs_merge:
            kept.extend([split] if start <= position + rows // 2 < end else [])
        elif position < end and position + rows > start:
            part = split.slice_rows(max(0, start - position), min(rows, end - position))
            kept.extend([part] if part is not None else [])
        position += rows
    return kept


def shard_splits(splits: Sequence[DataSplit], index: int, count: int) -> list[DataSplit]:
    """Return the share of one of `count` workers: shares are equal to the row, and together they are the plan.

    The first ones have one row more where the rows cannot be shared evenly.
    """
    check_shard(index, count)
    rows, more = divmod(sum(split.row_count for split in splits), count)
    start, end = (number * rows + min(number, more) for number in (index, index + 1))
    return _between(splits, start, end, middles=True)


def check_shard(index: int, count: int) -> None:
    """Raise InvalidInputError unless there is such a shard."""
    if count < 1 or not 0 <= index < count:
        raise InvalidInputError(f"shard {index} of {count} does not exist; shards count from 0")


def with_row_ids(splits: Sequence[DataSplit], ranges: Sequence[tuple[int, int]]) -> list[DataSplit]:
    """Return the rows whose ids are in one of the ranges, both ends included; the ranges ascend and do not overlap."""
    parts = (split.slice_rows(start, end) for split in splits for start, end in _places(split, ranges))
    return [part for part in parts if part is not None]


def _places(split: DataSplit, ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the positions inside a split, from the first up to the second, of the rows with ids of the ranges."""
    position = 0
    for group in split.row_groups():
        first, last = split.range_of(group)
        base = split.files[group[0]].first_row_id
        if base is None:
            raise InvalidInputError("rows are found by their ids only in tables with 'row-tracking.enabled'")
        cut = ((max(low - base, first), min(high + 1 - base, last)) for low, high in ranges)
        yield from ((position + start - first, position + end - first) for start, end in cut if start < end)
        position += last - first


def shuffle_splits(splits: Sequence[DataSplit], seed: int, chunk_rows: int) -> list[DataSplit]:
    """Return the plan cut into chunks of rows, in an order that only the seed decides."""
    if chunk_rows < 1:
        raise InvalidInputError(f"a chunk has at least one row, not {chunk_rows}")
    if any(split.needs_merge for split in splits):
        raise UnsupportedError(
            "rows of one key are in several files and are merged while they are read, so that they cannot be cut into "
            "chunks: compact the table first (table.compact(full=True)), or shuffle the rows that were read"
        )
    chunks: list[DataSplit] = []
    for split in splits:
        parts = (split.slice_rows(start, start + chunk_rows) for start in range(0, split.row_count, chunk_rows))
        chunks.extend(part for part in parts if part is not None)
    random.Random(seed).shuffle(chunks)  # noqa: S311 - a seed replays a run
    return chunks


def id_ranges(given: object) -> list[tuple[int, int]]:
    """Return ranges of row ids in order, those that overlap or touch as one."""
    ranges: list[tuple[int, int]] = []
    for one in argument_checks.items("row_ranges", given, "a list of ranges such as [(0, 9)]"):
        ends = argument_checks.items("row_ranges", one, "ranges of two numbers such as (0, 9)")
        if len(ends) != 2:  # noqa: PLR2004 - a range has two ends
            raise argument_checks.argument_error("row_ranges", "ranges of two numbers such as (0, 9)", one)
        ranges.append(
            (argument_checks.check_int("row_ranges", ends[0]), argument_checks.check_int("row_ranges", ends[1]))
        )
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged

"""Which files of an append table to rewrite together: facts of live files in, tasks out. Reads metadata alone.

Files much smaller than the target size, and files with many deleted rows, are rewritten. Without buckets any files of a
partition may be joined, in the order of their rows. With buckets the rows keep their place among the files of their
bucket, so only neighbours are joined. With data evolution only neighbours in the order of row ids are joined, because
the ids of a file count up from its first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lakewright.compact.task import (
    Bucket,
    CompactTask,
    Partitions,
    check_compactable,
    live_buckets,
    vectors_of_files,
)
from lakewright.metadata.store import TableStore
from lakewright.read.splits.plan import in_sequence, row_id_groups
from lakewright.spec.datafile import DataFile, is_side_file
from lakewright.spec.options import CoreOptions
from lakewright.spec.schema.table_schema import BucketMode
from lakewright.spec.snapshot import Snapshot

_BIN_FILES = 2  # a bin is full with the bytes of this many new files


@dataclass(frozen=True, slots=True)
class Unit:
    """Files that are rewritten together or not at all: one, or several that only make sense together."""

    files: tuple[DataFile, ...]
    urgent: bool  # to be rewritten, also alone
    worthwhile: bool  # to be rewritten if there are others to join it with


@dataclass(frozen=True, slots=True)
class AppendRules:
    """The options of an append table that decide which of its files are rewritten."""

    file_bytes: int  # of the files that come out
    small_bytes: int  # a smaller file is small, unless it has rows enough
    small_rows: int
    files_min: int  # so many files are worth a rewrite
    deleted_max: float  # a file that lost more than this part of its rows is rewritten
    open_file_bytes: int  # what a file counts at least, in a bin
    rewrites_all: bool

    @classmethod
    def of(cls, options: CoreOptions, *, full: bool) -> AppendRules:
        """Read the rules; with `full` every small file and every file with deleted rows is rewritten."""
        target = options.target_file_size(has_primary_key=False)
        ratio = options.get(CoreOptions.COMPACTION_SMALL_FILE_RATIO)
        return cls(
            file_bytes=target,
            small_bytes=int(target * ratio),
            small_rows=max(1, int(options.get(CoreOptions.TARGET_FILE_ROW_NUM) * ratio)),
            files_min=2 if full else max(2, options.get(CoreOptions.COMPACTION_MIN_FILE_NUM)),
            deleted_max=0.0 if full else options.get(CoreOptions.COMPACTION_DELETE_RATIO_THRESHOLD),
            open_file_bytes=0 if full else options.get(CoreOptions.SOURCE_SPLIT_OPEN_FILE_COST),
            rewrites_all=full and options.get(CoreOptions.COMPACTION_FORCE_REWRITE_ALL_FILES),
        )

    def is_small(self, file: DataFile) -> bool:
        """Say whether a file should be joined with others."""
        return file.file_size < self.small_bytes and file.row_count < self.small_rows

    def unit(self, files: Sequence[DataFile], deleted: Mapping[str, int | None], parts: int) -> Unit:
        """Return files that belong together as one unit; `parts` of them would better be one file."""
        urgent = self.rewrites_all or any(self._lost_many(file, deleted) for file in files)
        small = sum(file.file_size for file in files) < self.small_bytes and all(map(self.is_small, files))
        return Unit(tuple(files), urgent, urgent or small or parts >= self.files_min)

    def _lost_many(self, file: DataFile, deleted: Mapping[str, int | None]) -> bool:
        count = deleted.get(file.file_name, 0)
        # Where the number of deleted rows is not recorded, it counts as large.
        return count is None or count > self.deleted_max * file.row_count

    def bins(self, units: Iterable[Unit]) -> Iterator[list[Unit]]:
        """Yield bins of units in order, without bins that are not worth a rewrite."""
        current: list[Unit] = []
        weight = 0
        for unit in units:
            current.append(unit)
            weight += sum(max(file.file_size, self.open_file_bytes) for file in unit.files)
            if weight >= _BIN_FILES * self.file_bytes and self._is_worth_it(current):
                yield current
                current, weight = [], 0
        if self._is_worth_it(current, self.files_min):
            yield current

    @staticmethod
    def _is_worth_it(units: Sequence[Unit], files_min: int = 2) -> bool:
        return sum(len(unit.files) for unit in units) >= files_min or any(unit.urgent for unit in units)


def plan_append(
    store: TableStore,
    snapshot: Snapshot,
    *,
    full: bool = False,
    partitions: Partitions = None,
) -> list[CompactTask]:
    """Return what is worth compacting of an append table, in all partitions or in those that agree with a spec.

    `full` asks for every small file that has another one to go with, and for every file with deleted rows.
    """
    check_compactable(store)
    rules = AppendRules.of(store.options, full=full)
    return append_tasks(store, snapshot, rules, live_buckets(store, snapshot, partitions=partitions))


def append_tasks(
    store: TableStore, snapshot: Snapshot, rules: AppendRules, buckets: Iterable[Bucket]
) -> list[CompactTask]:
    """Return what rules pick of some buckets."""
    pick = picker(store)
    return [
        _task(snapshot.id, bucket, [file for unit in units for file in unit.files])
        for bucket in buckets
        for units in pick(rules, bucket)
    ]


def picker(store: TableStore) -> Callable[[AppendRules, Bucket], list[list[Unit]]]:
    """Return the function that picks files of a bucket of this table."""
    if store.options.data_evolution_enabled():
        return pick_ranges
    return pick_neighbours if store.schema.bucket_mode is BucketMode.HASH_FIXED else pick_any


def plan_order(
    store: TableStore, snapshot: Snapshot, order_by: tuple[str, ...], strategy: str, *, partitions: Partitions = None
) -> list[CompactTask]:
    """Return tasks that sort all rows of an append table without buckets, one for each partition."""
    check_compactable(store)
    tasks = []
    for bucket in live_buckets(store, snapshot, partitions=partitions):
        files = _plain(bucket.files)
        if files:
            tasks.append(replace(_task(snapshot.id, bucket, files), order_by=order_by, strategy=strategy))
    return tasks


def pick_any(rules: AppendRules, bucket: Bucket) -> list[list[Unit]]:
    """Pick files in their order; others may lie between them."""
    deleted = bucket.deleted_rows
    units = [rules.unit((file,), deleted, 1) for file in _plain(bucket.files)]
    return list(rules.bins(unit for unit in units if unit.worthwhile))


def pick_neighbours(rules: AppendRules, bucket: Bucket) -> list[list[Unit]]:
    """Pick files of a bucket that follow each other.

    Files whose numbers overlap have the order of their commits, which new files would not keep: they stay together.
    """
    together: list[list[DataFile]] = []
    highest = 0
    for file in in_sequence(_plain(bucket.files)):
        if together and file.min_sequence_number <= highest:
            together[-1].append(file)
        else:
            together.append([file])
        highest = max(highest, file.max_sequence_number)
    deleted = bucket.deleted_rows
    units = [rules.unit(some, deleted, sum(map(rules.is_small, some))) for some in together]
    return [units_of_bin for run in _runs(units, lambda _one, _next: True) for units_of_bin in rules.bins(run)]


def pick_ranges(rules: AppendRules, bucket: Bucket) -> list[list[Unit]]:
    """Pick groups of files whose row ids follow each other; deleted rows are kept there, so they are no reason."""
    files = [file for file in _plain(bucket.files) if file.first_row_id is not None]
    units = [rules.unit(group, {}, len(group)) for group in row_id_groups(files)]

    def touch(one: Unit, following: Unit) -> bool:
        first, second = one.files[0], following.files[0]
        return (first.first_row_id or 0) + first.row_count == second.first_row_id

    return [units_of_bin for run in _runs(units, touch) for units_of_bin in rules.bins(run)]


def _plain(files: Iterable[DataFile]) -> list[DataFile]:
    """Return files without those that hold large values of other files' rows, and those that a clustering sorted."""
    return [file for file in files if not is_side_file(file) and file.level == 0]


def _runs(units: Iterable[Unit], touch: Callable[[Unit, Unit], bool]) -> Iterator[list[Unit]]:
    """Yield neighbours that are all worth a rewrite."""
    run: list[Unit] = []
    for unit in units:
        if run and not (unit.worthwhile and touch(run[-1], unit)):
            yield run
            run = []
        if unit.worthwhile:
            run.append(unit)
    if run:
        yield run


def _task(snapshot_id: int, bucket: Bucket, files: Sequence[DataFile]) -> CompactTask:
    names = {file.file_name for file in files}
    return CompactTask(
        partition=bucket.place[0],
        bucket=bucket.place[1],
        total_buckets=bucket.total_buckets,
        snapshot_id=snapshot_id,
        files=tuple(files),
        vectors=tuple(index for index in vectors_of_files(bucket.vectors, names) if index.deletion_ranges),
    )

"""Which files to compact: tasks of keyed and append tables, picked runs, expired records."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.commit.commit_plan import PartitionSelection, live_files, select_partitions
from lakewright.commit.message_encoding import (
    BLOB,
    BUCKET,
    DATA_FILE,
    INDEX_FILE,
    NATURAL,
    NATURAL_INT,
    TEXT,
    TEXTS,
    FieldCodec,
    from_bytes,
    integer,
    record,
    to_bytes,
    tuple_of,
)
from lakewright.errors import InvalidInputError, with_table_name
from lakewright.lsm.key_order import Key, KeyOrder
from lakewright.lsm.merge_rows import MergeRules
from lakewright.lsm.sorted_runs import SortedRun, max_level, runs_of
from lakewright.metadata.table_store import TableStore
from lakewright.read.manifest_scan import FileSchemas
from lakewright.read.pruning import written_fields
from lakewright.read.split_planning import in_sequence, row_id_groups
from lakewright.spec.binary_row import decode_row
from lakewright.spec.column_stats import field_stats
from lakewright.spec.manifest import DELETION_VECTORS, DataFile, IndexFile, ManifestEntry, is_side_file
from lakewright.spec.schema_checks import check_supported_for_write
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.table_options import TableOptions
from lakewright.spec.table_schema import BucketMode, TableSchema
from lakewright.spec.types import AtomicType, DataField, Value, is_stored_apart

# ---- Picking sorted runs ---------------------------------------------------------------------------------------------
# Universal compaction. Runs come youngest first; what is picked is always the youngest part of them, because a row
# may only move past rows that are older than it. The output level is not above any picked run and above every run
# that stays, so a higher level is always older than a lower one, before and after. Nothing here opens a file or asks
# for the time.

_PERCENT = 100


@dataclass(frozen=True, slots=True)
class PickedFiles:
    """Files to compact together, youngest run first, and the level that their rows go to."""

    files: tuple[DataFile, ...]
    output_level: int


def pick(
    runs: Sequence[SortedRun], options: TableOptions, *, max_level: int, now_ms: int | None = None
) -> PickedFiles | None:
    """Return what is worth compacting now; `runs` are all runs of a bucket, youngest first.

    `now_ms` is the wall clock in the form of creation times; without it, `compaction.optimization-interval` is ignored.
    """
    trigger = options.num_sorted_run_compaction_trigger
    ratio = options.compaction_size_ratio
    count = 0
    if _is_early(runs, options, max_level, now_ms):
        count = len(runs)
    elif len(runs) >= trigger:
        count = _by_amplification(runs, options) or _by_ratio(runs, ratio, 1)
        if count <= 1:
            count = _by_ratio(runs, ratio, len(runs) - trigger + 1) if len(runs) > trigger else 0
    if count == 0 and (options.needs_lookup or options.compaction_force_up_level_0):
        fresh = sum(run.level == 0 for run in runs)
        count = _by_ratio(runs, ratio, fresh) if fresh else 0
    return _unit(runs, count, max_level) if count else None


def pick_full(
    runs: Sequence[SortedRun], *, max_level: int, masked: Collection[str] = (), rewrite_all: bool = False
) -> PickedFiles | None:
    """Return all there is to compact: everything goes to the deepest level.

    Where everything is there already, only files with deleted rows (`masked`, by name) are worth it, or all of them
    when `rewrite_all` says so.
    """
    if not runs:
        return None
    if len(runs) > 1 or runs[0].level != max_level:
        return _unit(runs, len(runs), max_level)
    files = tuple(f for f in runs[0].files if rewrite_all or f.file_name in masked or f.delete_row_count)
    return PickedFiles(files, max_level) if files else None


def _is_early(runs: Sequence[SortedRun], options: TableOptions, max_level: int, now_ms: int | None) -> bool:
    """Return whether everything should be compacted before the number of runs asks for it."""
    if len(runs) <= 1:
        return False
    interval = options.compaction_optimization_interval
    if interval is not None and now_ms is not None and now_ms - _last_full_ms(runs, max_level) > interval:
        return True
    total = sum(run.size for run in runs)
    small = options.compaction_total_size_threshold
    if small is not None and total < small:
        return True
    large = options.compaction_incremental_size_threshold
    return large is not None and sum(run.size for run in runs if run.level != max_level) > large


def _last_full_ms(runs: Sequence[SortedRun], max_level: int) -> int:
    """Return the newest creation time of a file of the deepest level; 0 if it has none."""
    return max((file.creation_time or 0 for run in runs if run.level == max_level for file in run.files), default=0)


def _by_amplification(runs: Sequence[SortedRun], options: TableOptions) -> int:
    """Return all runs where what is above the oldest one is large beside it, else 0."""
    limit = options.compaction_max_size_amplification_percent
    above = sum(run.size for run in runs[:-1])
    return len(runs) if above * _PERCENT > limit * runs[-1].size else 0


def _by_ratio(runs: Sequence[SortedRun], ratio: int, start: int) -> int:
    """Return how many runs to take: the first `start`, and further ones while they are not much larger than those."""
    size = sum(run.size for run in runs[:start])
    count = start
    for run in runs[start:]:
        fits = size * (_PERCENT + ratio) >= run.size * _PERCENT
        # If runs are compacted at all, those of level 0 and 1 are taken too: they would be picked again very soon.
        if not fits and not (count > start and run.level <= 1):
            break
        size += run.size
        count += 1
    return count


def _unit(runs: Sequence[SortedRun], count: int, max_level: int) -> PickedFiles | None:
    """Return the first `count` runs, or a few more, with the deepest level that is free for them."""
    level = max_level
    if count < len(runs):
        level = max(0, runs[count].level - 1)
        if level == 0:
            # Nothing may come out in level 0, so the rows join the first run that is deeper.
            while count < len(runs) and level == 0:
                level = runs[count].level
                count += 1
            level = level if count < len(runs) else max_level
    files = tuple(file for run in runs[:count] for file in run.files)
    if len(files) == 1 and files[0].level == level:
        return None
    return PickedFiles(files, level)


# ---- Expiry of records -----------------------------------------------------------------------------------------------
# The option `record-level.expire-time` says how long a row is kept, and `record-level.time-field` which column says
# since when: an INT in seconds, a BIGINT in seconds or milliseconds, or a TIMESTAMP. Reads return old rows until a
# compaction drops them. Invariant: each row is judged by itself before rows with equal keys are merged, as
# the others do, and a row without a time stays.

_MILLIS_MIN = 1_000_000_000_000  # a BIGINT of at least this is in milliseconds, a smaller one in seconds
_NANOS = 1_000_000_000
_ROOTS = frozenset({"INT", "BIGINT", "TIMESTAMP", "TIMESTAMP_LTZ"})


@dataclass(frozen=True, slots=True)
class RecordExpiry:
    """Which rows are too old: the column of their time, and the second since 1970 before which a row is dropped."""

    field: DataField
    oldest: int

    @classmethod
    def of(cls, schema: TableSchema, now_millis: int) -> RecordExpiry | None:
        """Return what the options of a table say; None: no row grows old."""
        options = schema.table_options
        kept, name = options.record_level_expire_time, options.record_level_time_field
        if kept is None:
            return None
        option = TableOptions.record_level_time_field.key()
        if name is None:
            raise InvalidInputError(f"'record-level.expire-time' needs {option!r}: the column of a row's time")
        field = schema.field(name)
        root = field.type.root if isinstance(field.type, AtomicType) else ""
        if root not in _ROOTS:
            raise InvalidInputError(
                f"{option!r} is the column {name!r} of type {field.type}, and must be INT, BIGINT or TIMESTAMP",
                option=option,
                column=name,
            )
        return cls(field, now_millis // 1000 - kept // 1000)

    def drop_expired(self, rows: pa.Table) -> pa.Table:
        """Return the rows that are not too old."""
        column = rows.column(self.field.name)
        if pa.types.is_timestamp(column.type):
            seconds = pc.divide(column.cast(pa.int64()), _PER_SECOND[column.type.unit])
        else:
            seconds = column.cast(pa.int64())
        if column.type == pa.int64():
            seconds = pc.if_else(pc.less(seconds, _MILLIS_MIN), seconds, pc.divide(seconds, 1000))
        return rows.filter(pc.fill_null(pc.greater_equal(seconds, self.oldest), fill_value=True))

    def is_old(self, least: Value) -> bool:
        """Return whether a row with this time, the least of a file, is too old; a time that is not known is not."""
        if not isinstance(least, int):
            return False
        root = self.field.type.root if isinstance(self.field.type, AtomicType) else ""
        if root.startswith("TIMESTAMP"):
            least = least // _NANOS
        elif root == "BIGINT" and least >= _MILLIS_MIN:
            least = least // 1000
        return least < self.oldest


_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": _NANOS}


# ---- Tasks of a primary-key table ------------------------------------------------------------------------------------
# A task names everything that its worker needs and nothing that is open, so it can be run by a thread, by another
# process or on another machine. It holds for the snapshot it was planned on: the commit refuses it when one of its
# files is gone.

PartitionBucket: TypeAlias = tuple[bytes, int]  # partition and bucket
PartitionSpec: TypeAlias = Mapping[str, object]
Partitions: TypeAlias = Sequence[PartitionSpec] | PartitionSelection | None  # None is the whole table
Bounds: TypeAlias = tuple[Key, Key]  # the least and the greatest key of a file


@dataclass(frozen=True, slots=True)
class CompactTask:
    """The compaction of some files of one bucket."""

    partition: bytes
    bucket: int
    total_buckets: int
    snapshot_id: int  # what it was planned on
    files: tuple[DataFile, ...]  # to be compacted; of an append table in the order of their rows
    vectors: tuple[IndexFile, ...]  # the deletion vectors of these files, in a primary-key table those of the bucket
    # For primary-key tables.
    deeper: tuple[DataFile, ...] = ()  # below the output level, where keys of level 0 are looked up
    output_level: int = 0
    deepest: int = 0  # the deepest level of the bucket
    drops_deletes: bool = False  # no deeper level has an older row of any key
    rewrites_all: bool = False  # also files that could stay as they are
    # For append tables whose rows are sorted.
    order_by: tuple[str, ...] = ()
    strategy: str = ""

    def serialize(self) -> bytes:
        """Return the task as bytes that `deserialize` checks."""
        return to_bytes(self, _CODEC)

    @classmethod
    def deserialize(cls, data: bytes) -> CompactTask:
        """Read a task."""
        return from_bytes(data, _CODEC)


_FLAG: FieldCodec[bool] = FieldCodec(int, lambda value, place: bool(integer(0, 1).decode(value, place)))
_CODEC = record(
    CompactTask,
    cast(
        "Mapping[str, FieldCodec[object]]",
        {
            "partition": BLOB,
            "bucket": BUCKET,
            "total_buckets": BUCKET,
            "snapshot_id": NATURAL,
            "files": tuple_of(DATA_FILE),
            "vectors": tuple_of(INDEX_FILE),
            "order_by": TEXTS,
            "strategy": TEXT,
            "deeper": tuple_of(DATA_FILE),
            "output_level": NATURAL_INT,
            "deepest": NATURAL_INT,
            "drops_deletes": _FLAG,
            "rewrites_all": _FLAG,
        },
    ),
)


@dataclass(frozen=True, slots=True)
class BucketFiles:
    """The live files of one bucket at one snapshot."""

    place: PartitionBucket
    total_buckets: int
    files: tuple[DataFile, ...]  # in the order of the manifests
    vectors: tuple[IndexFile, ...]  # one at most where a table has keys or a number of buckets

    @property
    def deleted_rows(self) -> dict[str, int | None]:
        """How many rows of a file are deleted, by its name; None if the number is not recorded."""
        return {r.data_file: r.cardinality for index in self.vectors for r in index.deletion_ranges or ()}


def plan_compaction(
    store: TableStore,
    snapshot: Snapshot,
    *,
    full: bool | Callable[[PartitionBucket], bool] = False,
    partitions: Partitions = None,
    only: Collection[PartitionBucket] | None = None,
    now_ms: int | None = None,
) -> list[CompactTask]:
    """Return what is worth compacting: in the partitions that agree with a spec, in the places of `only`, everywhere.

    `full` asks for everything to go to the deepest level, of the whole table or of single places.
    """
    check_compactable(store)
    is_full = full if callable(full) else lambda _place: full
    tasks = []
    for bucket in live_buckets(store, snapshot, partitions=partitions, only=only):
        old = files_with_old_rows(store, bucket.files)
        unit = unit_of(store, bucket, full=is_full(bucket.place), now_ms=now_ms, old=old)
        if unit is not None:
            rewrites_all = is_full(bucket.place) and store.options.compaction_force_rewrite_all_files
            tasks.append(_keyed_task(store, snapshot.id, bucket, unit, rewrites_all=rewrites_all))
    return tasks


def check_compactable(store: TableStore) -> None:
    """Raise an error if the table has a feature that compaction does not support."""
    with with_table_name(store.name):
        check_supported_for_write(store.schema)
    store.check_changeable()
    if store.schema.primary_keys:
        with with_table_name(store.name):
            RecordExpiry.of(store.schema, 0)


def live_buckets(
    store: TableStore,
    snapshot: Snapshot,
    *,
    partitions: Partitions = None,
    only: Collection[PartitionBucket] | None = None,
) -> list[BucketFiles]:
    """Return the buckets of a snapshot that hold files, in the order of their partitions."""
    selection = select_partitions(store, partitions)
    if only is not None:
        selection = PartitionSelection(partitions=frozenset(partition for partition, _ in only))
    live = live_files(store, snapshot, selection)
    return buckets_of(store, snapshot, (e for e in live if only is None or (e.partition, e.bucket) in only))


def buckets_of(store: TableStore, snapshot: Snapshot, live: Iterable[ManifestEntry]) -> list[BucketFiles]:
    """Return the buckets of live files of a snapshot, in the order of their partitions; postponed files have none."""
    entries: dict[PartitionBucket, list[ManifestEntry]] = {}
    for entry in live:
        if entry.bucket >= 0:
            entries.setdefault((entry.partition, entry.bucket), []).append(entry)
    vectors = vectors_of(store, snapshot)
    return [
        BucketFiles(
            place,
            max(e.total_buckets for e in group),
            tuple(e.file for e in group),
            vectors_of_files(vectors.get(place, ()), {e.file.file_name for e in group}),
        )
        for place, group in sorted(entries.items())
    ]


def vectors_of_files(vectors: Iterable[IndexFile], names: Collection[str]) -> tuple[IndexFile, ...]:
    """Return index files without vectors of other data files; vectors of deleted files may be left in them."""
    return tuple(
        replace(file, deletion_ranges=tuple(r for r in file.deletion_ranges or () if r.data_file in names))
        for file in vectors
    )


def vectors_of(store: TableStore, snapshot: Snapshot) -> dict[PartitionBucket, tuple[IndexFile, ...]]:
    """Return the index files with the deletion vectors of each bucket."""
    keyed = bool(store.schema.primary_keys)
    if snapshot.index_manifest is None or (keyed and not store.options.deletion_vectors_enabled):
        return {}
    vectors: dict[PartitionBucket, tuple[IndexFile, ...]] = {}
    for entry in store.manifests.read_index(snapshot.index_manifest):
        if entry.file.index_type == DELETION_VECTORS:
            place = entry.partition, entry.bucket
            vectors[place] = (*vectors.get(place, ()), entry.file)
    return vectors


def bounds_of(file: DataFile, key: KeyOrder) -> Bounds:
    """Return the least and the greatest key of a file."""
    types = [field.type for field in key.fields]
    return key.key_of(decode_row(file.min_key, types)), key.key_of(decode_row(file.max_key, types))


def overlapping(files: Iterable[DataFile], others: Iterable[DataFile], key: KeyOrder) -> tuple[DataFile, ...]:
    """Return the files that may hold a key which is between the bounds of one of the others."""
    ranges = [bounds_of(other, key) for other in others]
    overlaps = []
    for file in files:
        low, high = bounds_of(file, key)
        if any(low <= other_high and other_low <= high for other_low, other_high in ranges):
            overlaps.append(file)
    return tuple(overlaps)


def with_schema_of(store: TableStore, files: Iterable[DataFile]) -> TableStore:
    """Return the table with a schema that has all columns of some files.

    Files written after the handle was opened may have columns that its schema lacks, whose values must be kept.
    """
    needed = max((file.schema_id for file in files), default=0)
    if needed <= store.schema.id:
        return store
    return store.with_newest(store.schemas.latest() or store.schemas.get(needed))


def files_with_old_rows(store: TableStore, files: Iterable[DataFile]) -> frozenset[str]:
    """Return the names of the files whose statistics say that they hold rows which are too old."""
    expiry = RecordExpiry.of(store.schema, time.time_ns() // 1_000_000)
    if expiry is None:
        return frozenset()
    fields_of = cache(lambda schema_id: store.schemas.get(schema_id).fields)

    def is_old(file: DataFile) -> bool:
        fields: Sequence[DataField] = fields_of(file.schema_id)
        name = next((field.name for field in fields if field.id == expiry.field.id), None)
        stats = None if name is None else field_stats(file, name, fields)
        return stats is not None and expiry.is_old(stats.min)

    return frozenset(file.file_name for file in files if is_old(file))


def unit_of(
    store: TableStore, bucket: BucketFiles, *, full: bool, now_ms: int | None, old: frozenset[str] = frozenset()
) -> PickedFiles | None:
    """Return what is worth compacting in a bucket of a primary-key table; with `full`, all that can be.

    `old` are the names of files with rows that are too old.
    """
    options = store.options
    runs = runs_of(bucket.files)
    deepest = max_level(options, bucket.files)
    if not full:
        unit = pick(runs, options, max_level=deepest, now_ms=now_ms)
        if unit is None or all(file.delete_row_count == 0 for file in unit.files) or options.needs_lookup:
            return unit
        if not MergeRules.of_schema(store.schema, table=store.name).keeps_apart:
            return unit
        # Rows that retract are merged exactly only together with all older rows of their keys.
        return pick_full(runs, max_level=deepest)
    rewrite_all = options.compaction_force_rewrite_all_files
    return pick_full(runs, max_level=deepest, masked=old.union(bucket.deleted_rows), rewrite_all=rewrite_all)


def _keyed_task(
    store: TableStore, snapshot_id: int, bucket: BucketFiles, unit: PickedFiles, *, rewrites_all: bool
) -> CompactTask:
    options = store.options
    fresh = [file for file in unit.files if file.level == 0]
    deeper: tuple[DataFile, ...] = ()
    if fresh and options.needs_lookup:
        below = [file for file in bucket.files if file.level > unit.output_level]
        deeper = overlapping(below, fresh, KeyOrder(store.schema.trimmed_primary_key_fields))
    lowest = max(file.level for file in bucket.files)
    return CompactTask(
        partition=bucket.place[0],
        bucket=bucket.place[1],
        total_buckets=bucket.total_buckets,
        snapshot_id=snapshot_id,
        files=unit.files,
        deeper=deeper,
        output_level=unit.output_level,
        deepest=max_level(options, bucket.files),
        drops_deletes=unit.output_level > 0 and (unit.output_level >= lowest or options.deletion_vectors_enabled),
        rewrites_all=rewrites_all,
        vectors=bucket.vectors,
    )


# ---- Tasks of an append table ----------------------------------------------------------------------------------------
# Files much smaller than the target size, and files with many deleted rows, are rewritten. Without buckets any files
# of a partition may be joined, in the order of their rows. With buckets the rows keep their place among the files of
# their bucket, so only neighbours are joined. With data evolution only neighbours in the order of row ids are joined,
# because the ids of a file count up from its first.

_BIN_FILES = 2  # a bin is full with the bytes of this many new files


@dataclass(frozen=True, slots=True)
class AppendUnit:
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
    def of(cls, options: TableOptions, *, full: bool) -> AppendRules:
        """Read the rules; with `full` every small file and every file with deleted rows is rewritten."""
        target = options.data_file_size(has_primary_key=False)
        ratio = options.compaction_small_file_ratio
        return cls(
            file_bytes=target,
            small_bytes=int(target * ratio),
            small_rows=max(1, int(options.target_file_row_num * ratio)),
            files_min=2 if full else max(2, options.compaction_min_file_num),
            deleted_max=0.0 if full else options.compaction_delete_ratio_threshold,
            open_file_bytes=0 if full else options.source_split_open_file_cost,
            rewrites_all=full and options.compaction_force_rewrite_all_files,
        )

    def is_small(self, file: DataFile) -> bool:
        """Return whether a file should be joined with others."""
        return file.file_size < self.small_bytes and file.row_count < self.small_rows

    def unit(self, files: Sequence[DataFile], deleted: Mapping[str, int | None], parts: int) -> AppendUnit:
        """Return files that belong together as one unit; `parts` of them would better be one file."""
        urgent = self.rewrites_all or any(self._lost_many(file, deleted) for file in files)
        small = sum(file.file_size for file in files) < self.small_bytes and all(map(self.is_small, files))
        return AppendUnit(tuple(files), urgent, urgent or small or parts >= self.files_min)

    def _lost_many(self, file: DataFile, deleted: Mapping[str, int | None]) -> bool:
        count = deleted.get(file.file_name, 0)
        # Where the number of deleted rows is not recorded, it counts as large.
        return count is None or count > self.deleted_max * file.row_count

    def bins(self, units: Iterable[AppendUnit]) -> Iterator[list[AppendUnit]]:
        """Yield bins of units in order, without bins that are not worth a rewrite."""
        current: list[AppendUnit] = []
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
    def _is_worth_it(units: Sequence[AppendUnit], files_min: int = 2) -> bool:
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
    store: TableStore, snapshot: Snapshot, rules: AppendRules, buckets: Iterable[BucketFiles]
) -> list[CompactTask]:
    """Return what rules pick of some buckets."""
    pick = picker(store)
    return [
        _append_task(snapshot.id, bucket, [file for unit in units for file in unit.files])
        for bucket in buckets
        for units in pick(rules, bucket)
    ]


def picker(store: TableStore) -> Callable[[AppendRules, BucketFiles], list[list[AppendUnit]]]:
    """Return the function that picks files of a bucket of this table."""
    if store.options.data_evolution_enabled:
        return partial(pick_ranges, inline=partial(inline_columns, FileSchemas(store)))
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
            tasks.append(replace(_append_task(snapshot.id, bucket, files), order_by=order_by, strategy=strategy))
    return tasks


def pick_any(rules: AppendRules, bucket: BucketFiles) -> list[list[AppendUnit]]:
    """Pick files in their order; others may be between them."""
    deleted = bucket.deleted_rows
    units = [rules.unit((file,), deleted, 1) for file in _plain(bucket.files)]
    return list(rules.bins(unit for unit in units if unit.worthwhile))


def pick_neighbours(rules: AppendRules, bucket: BucketFiles) -> list[list[AppendUnit]]:
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


def pick_ranges(
    rules: AppendRules,
    bucket: BucketFiles,
    inline: Callable[[Iterable[DataFile]], frozenset[int]] = lambda _: frozenset(),
) -> list[list[AppendUnit]]:
    """Pick groups of files whose row ids follow each other; deleted rows are kept there, so they are no reason.

    Groups of which one has a BLOB or VECTOR column in its normal files, and the other does not, stay apart: new files
    would hide the values in files of the other's own.
    """
    files = [file for file in _plain(bucket.files) if file.first_row_id is not None]
    units = [rules.unit(group, {}, len(group)) for group in row_id_groups(files)]

    def touch(one: AppendUnit, following: AppendUnit) -> bool:
        first, second = one.files[0], following.files[0]
        follows = (first.first_row_id or 0) + first.row_count == second.first_row_id
        return follows and inline(one.files) == inline(following.files)

    return [units_of_bin for run in _runs(units, touch) for units_of_bin in rules.bins(run)]


def inline_columns(schemas: FileSchemas, files: Iterable[DataFile]) -> frozenset[int]:
    """Return the ids of the BLOB and VECTOR columns that normal files hold themselves."""
    return frozenset(
        field.id
        for file in files
        for field in written_fields(schemas.fields_of(file.schema_id), file.write_cols)
        if is_stored_apart(field.type)
    )


def _plain(files: Iterable[DataFile]) -> list[DataFile]:
    """Return files without those that hold large values of other files' rows, and those that a clustering sorted."""
    return [file for file in files if not is_side_file(file) and file.level == 0]


def _runs(units: Iterable[AppendUnit], touch: Callable[[AppendUnit, AppendUnit], bool]) -> Iterator[list[AppendUnit]]:
    """Yield neighbours that are all worth a rewrite."""
    run: list[AppendUnit] = []
    for unit in units:
        if run and not (unit.worthwhile and touch(run[-1], unit)):
            yield run
            run = []
        if unit.worthwhile:
            run.append(unit)
    if run:
        yield run


def _append_task(snapshot_id: int, bucket: BucketFiles, files: Sequence[DataFile]) -> CompactTask:
    names = {file.file_name for file in files}
    return CompactTask(
        partition=bucket.place[0],
        bucket=bucket.place[1],
        total_buckets=bucket.total_buckets,
        snapshot_id=snapshot_id,
        files=tuple(files),
        vectors=tuple(index for index in vectors_of_files(bucket.vectors, names) if index.deletion_ranges),
    )

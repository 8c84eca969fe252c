"""The plan of a compaction: one snapshot in, one task per bucket that is worth the work out. Reads metadata alone.

A task names everything that its worker needs and nothing that is open, so it can be run by a thread, by another process
or on another machine. It holds for the snapshot it was planned on: the commit refuses it when one of its files is gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeAlias, cast

from lakewright.commit.message.body import (
    BLOB,
    BUCKET,
    DATA_FILE,
    INDEX_FILE,
    NATURAL,
    NATURAL_INT,
    TEXT,
    TEXTS,
    Codec,
    from_bytes,
    integer,
    record,
    to_bytes,
    tuple_of,
)
from lakewright.commit.overwrite import PartitionSelection
from lakewright.commit.plan import live_files_in, select_partitions
from lakewright.errors import naming
from lakewright.lsm.keys import Key, KeyOrder
from lakewright.lsm.merge import MergeSpec
from lakewright.lsm.pick import Unit, pick, pick_full
from lakewright.lsm.record_expiry import RecordExpiry
from lakewright.lsm.runs import max_level, runs_of
from lakewright.metadata.store import TableStore
from lakewright.spec.datafile import DELETION_VECTORS, DataFile, IndexFile
from lakewright.spec.manifest import ManifestEntry
from lakewright.spec.options import CoreOptions
from lakewright.spec.rows.binary_row import decode_row
from lakewright.spec.schema.supported import check_supported_for_write
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.stats import field_stats
from lakewright.spec.types import DataField

Place: TypeAlias = tuple[bytes, int]  # partition and bucket
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


_FLAG: Codec[bool] = Codec(int, lambda value, place: bool(integer(0, 1).decode(value, place)))
_CODEC = record(
    CompactTask,
    cast(
        "Mapping[str, Codec[object]]",
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
class Bucket:
    """The live files of one bucket at one snapshot."""

    place: Place
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
    full: bool | Callable[[Place], bool] = False,
    partitions: Partitions = None,
    only: Collection[Place] | None = None,
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
            rewrites_all = is_full(bucket.place) and store.options.get(CoreOptions.COMPACTION_FORCE_REWRITE_ALL_FILES)
            tasks.append(_task(store, snapshot.id, bucket, unit, rewrites_all=rewrites_all))
    return tasks


def check_compactable(store: TableStore) -> None:
    """Raise an error if the table has a feature that compaction does not support."""
    with naming(store.name):
        check_supported_for_write(store.schema)
    store.check_changeable()
    if store.schema.primary_keys:
        with naming(store.name):
            RecordExpiry.of(store.schema, 0)


def live_buckets(
    store: TableStore,
    snapshot: Snapshot,
    *,
    partitions: Partitions = None,
    only: Collection[Place] | None = None,
) -> list[Bucket]:
    """Return the buckets of a snapshot that hold files, in the order of their partitions."""
    selection = select_partitions(store, partitions)
    if only is not None:
        selection = PartitionSelection(partitions=frozenset(partition for partition, _ in only))
    live = live_files_in(store, snapshot, selection)
    return buckets_of(store, snapshot, (e for e in live if only is None or (e.partition, e.bucket) in only))


def buckets_of(store: TableStore, snapshot: Snapshot, live: Iterable[ManifestEntry]) -> list[Bucket]:
    """Return the buckets of live files of a snapshot, in the order of their partitions; postponed files have none."""
    entries: dict[Place, list[ManifestEntry]] = {}
    for entry in live:
        if entry.bucket >= 0:
            entries.setdefault((entry.partition, entry.bucket), []).append(entry)
    vectors = vectors_of(store, snapshot)
    return [
        Bucket(
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


def vectors_of(store: TableStore, snapshot: Snapshot) -> dict[Place, tuple[IndexFile, ...]]:
    """Return the index files with the deletion vectors of each bucket."""
    keyed = bool(store.schema.primary_keys)
    if snapshot.index_manifest is None or (keyed and not store.options.deletion_vectors_enabled()):
        return {}
    vectors: dict[Place, tuple[IndexFile, ...]] = {}
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
    """Return the files that may hold a key which lies between the bounds of one of the others."""
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
    store: TableStore, bucket: Bucket, *, full: bool, now_ms: int | None, old: frozenset[str] = frozenset()
) -> Unit | None:
    """Return what is worth compacting in a bucket of a primary-key table; with `full`, all that can be.

    `old` are the names of files with rows that are too old.
    """
    options = store.options
    runs = runs_of(bucket.files)
    deepest = max_level(options, bucket.files)
    if not full:
        unit = pick(runs, options, max_level=deepest, now_ms=now_ms)
        if unit is None or all(file.delete_row_count == 0 for file in unit.files) or options.needs_lookup():
            return unit
        if not MergeSpec.of_schema(store.schema, table=store.name).keeps_apart:
            return unit
        # Rows that retract are merged exactly only together with all older rows of their keys.
        return pick_full(runs, max_level=deepest)
    rewrite_all = options.get(CoreOptions.COMPACTION_FORCE_REWRITE_ALL_FILES)
    return pick_full(runs, max_level=deepest, masked=old.union(bucket.deleted_rows), rewrite_all=rewrite_all)


def _task(store: TableStore, snapshot_id: int, bucket: Bucket, unit: Unit, *, rewrites_all: bool) -> CompactTask:
    options = store.options
    fresh = [file for file in unit.files if file.level == 0]
    deeper: tuple[DataFile, ...] = ()
    if fresh and options.needs_lookup():
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
        drops_deletes=unit.output_level > 0 and (unit.output_level >= lowest or options.deletion_vectors_enabled()),
        rewrites_all=rewrites_all,
        vectors=bucket.vectors,
    )

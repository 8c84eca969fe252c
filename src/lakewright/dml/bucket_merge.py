"""Merges of keyed tables bucket by bucket: routing source rows, matching in the task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lakewright.dml.assignments import ColumnRef, MergeSide
from lakewright.dml.change_plan import ChangePlan
from lakewright.dml.change_tasks import keyed_columns, pruning, source_name, source_rows, write_merge
from lakewright.dml.distributed_write import with_one_thread
from lakewright.dml.keyed_strategy import KeyedWriter, keyed_job, one_reader, read_merged, result_of
from lakewright.dml.upsert import newest_rows
from lakewright.engine.engine import TaskId, TaskResult
from lakewright.errors import InvalidInputError
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.read.manifest_scan import FileSchemas, entry_pruner
from lakewright.read.split_sharing import part_of
from lakewright.spec.arrow_types import from_arrow_type, to_arrow_type
from lakewright.spec.bucket_hash import row_hashes
from lakewright.spec.manifest import ADD, ManifestEntry
from lakewright.spec.predicate import TRUE, Predicate
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.table_schema import BucketMode
from lakewright.spec.types import BINARY_ROOTS, FLOAT_ROOTS, TEXT_ROOTS, AtomicType, DataField
from lakewright.write.bucket_assignment import Assigner, channels_of
from lakewright.write.bucket_routing import (
    Routing,
    RowGroup,
    group_rows,
    number_partitions,
    route,
    run_bounds,
    stable_order,
)
from lakewright.write.dynamic_buckets import NEW, KeyLookup
from lakewright.write.row_shuffle import ShuffleTargets
from lakewright.write.table_writer import WriteJob

# ---- Routing source rows to buckets ----------------------------------------------------------------------------------
# If the columns that must be equal hold the bucket and the partition of a row, a source row can match only rows of
# one bucket, and the row that is inserted for it belongs there too. Fixed buckets follow from the columns. Dynamic
# buckets are looked up by the hash of the key in the index files of the snapshot that the merge reads: a hash that is
# not there is that of a new key, whose rows go to the task that assigns buckets to such keys, as in a write.

_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})

Grouping: TypeAlias = Callable[[pa.Table], list[RowGroup]]  # source rows, in columns `s0`, `s1`, ..., by bucket


@dataclass(frozen=True, slots=True)
class BucketReceivers(ShuffleTargets):
    """The tasks of a merge: each has whole buckets, and new keys of some partitions.

    A group of new keys has a negative bucket: that of assigner `a` is `a - assigners`.
    """

    def of(self, group: RowGroup, mode: BucketMode) -> int:  # noqa: ARG002 - the number of the bucket says it
        """Return the number of the task that receives a group."""
        if group.bucket >= 0:
            return ShuffleTargets.of(self, group, BucketMode.HASH_FIXED)
        return ShuffleTargets.of(self, replace(group, bucket=group.bucket + self.assigners), BucketMode.HASH_DYNAMIC)


@dataclass(frozen=True, slots=True)
class BucketRoute:
    """Finds the bucket of the rows that a source row may match, by columns of the source."""

    routing: Routing  # of columns `k0`, `k1`, ... so that no name clashes with those of the source
    columns: tuple[tuple[DataField, str], ...]  # of each of them, and the column of the source that it is taken from
    keys: tuple[DataField, ...] = ()  # of dynamic buckets: those of the columns whose hash is looked up

    @classmethod
    def of(cls, store: TableStore, plan: ChangePlan, source: pa.Schema) -> BucketRoute | None:
        """Return the route of a merge; None: its condition does not say in which bucket the matches are."""
        schema, options, mode = store.schema, store.options, store.schema.bucket_mode
        if mode not in {BucketMode.HASH_FIXED, BucketMode.HASH_DYNAMIC}:
            return None
        is_dynamic = mode is BucketMode.HASH_DYNAMIC
        equal = {field.name: name for field, name in reversed(plan.on)}
        needed = (
            *schema.partition_fields,
            *(schema.trimmed_primary_key_fields if is_dynamic else schema.bucket_fields),
        )
        if not all(f.name in equal and _hash_alike(f, source.field(equal[f.name])) for f in needed):
            return None
        if not all(_stays(plan, field.name, equal[field.name]) for field in needed):
            return None
        named = tuple(replace(field, name=f"k{at}") for at, field in enumerate(needed))
        parts = len(schema.partition_fields)
        partition, bucketed = named[:parts], named[parts:]
        places = [source_name(plan.source_columns.index(equal[field.name])) for field in needed]
        columns = tuple(zip(named, places, strict=True))
        if is_dynamic:
            return cls(Routing(store.name, partition), columns, bucketed)
        function = options.bucket_function_type
        return cls(Routing(store.name, partition, bucketed, options.bucket, function), columns)

    def grouping(self, store: TableStore, base: Snapshot | None, assigners: int) -> Grouping:
        """Return what puts source rows into groups, in one task; dynamic buckets are those of a snapshot."""
        if not self.keys:
            return self._by_bucket
        lookup = KeyLookup(store, base)
        return lambda rows: self._by_known_bucket(rows, lookup, assigners)

    def _by_bucket(self, rows: pa.Table) -> list[RowGroup]:
        named = route(self._with_keys(rows), self.routing)
        return [replace(group, rows=group.rows.select(rows.column_names)) for group in named]

    def _by_known_bucket(self, rows: pa.Table, lookup: KeyLookup, assigners: int) -> list[RowGroup]:
        if not rows.num_rows:
            return []
        keyed = self._with_keys(rows)
        hashes = row_hashes([keyed.column(key.name) for key in self.keys], [key.type for key in self.keys])
        numbers, partitions = number_partitions(keyed, self.routing)
        buckets = np.empty(len(hashes), np.int32)
        order = stable_order(numbers)
        for at in np.split(order, run_bounds(numbers[order])[1:-1]):
            buckets[at] = lookup.buckets(partitions[int(numbers[at[0]])], hashes[at])
        # Rows are placed by numbers that are not negative: first those of the assigners, then those of the buckets.
        channels = channels_of(0, hashes, channels=assigners, assigners=assigners)
        places = np.where(buckets == NEW, channels, buckets + assigners)
        groups = group_rows(keyed, self.routing, (numbers, partitions), places)
        names = rows.column_names
        return [replace(group, bucket=group.bucket - assigners, rows=group.rows.select(names)) for group in groups]

    def _with_keys(self, rows: pa.Table) -> pa.Table:
        for field, source in self.columns:
            # A number that does not fit the key's type matches nothing, so it may go anywhere.
            rows = rows.append_column(field.name, rows.column(source).cast(to_arrow_type(field.type), safe=False))
        return rows


def _hash_alike(field: DataField, given: pa.Field) -> bool:
    """Return whether values of a source column that equal a key lead to the bucket of that key."""
    own = field.type
    try:
        other = from_arrow_type(given.type, column=given.name)
    except InvalidInputError:
        return False
    if not isinstance(own, AtomicType) or not isinstance(other, AtomicType) or own.root in FLOAT_ROOTS:
        return False  # the two zeros of floats are equal, and are in different buckets
    alike = any({own.root, other.root} <= roots for roots in (_INTEGERS, TEXT_ROOTS, BINARY_ROOTS))
    return alike or own.type == other.type


def _stays(plan: ChangePlan, column: str, source: str) -> bool:
    """Return whether every row that is inserted takes a column from a source column."""
    for rule in plan.not_matched:
        given = rule.assignments
        terms = {} if given is None else dict(zip(given.names, given.terms, strict=True))
        term = terms.get(column)
        if not (isinstance(term, ColumnRef) and term == ColumnRef(MergeSide.SOURCE, source)):
            return False
    return True


# ---- Merging in one bucket -------------------------------------------------------------------------------------------
# A source row can match only rows of one bucket (`bucket_route`). So a task that gets the files of a bucket and its
# source rows does the whole merge of the bucket, with the embedded code: the table is read once, and none of its rows
# travels.
#
# Invariant: all source rows of a bucket, in the order of the source, and all its files come to one task; an
# insert takes effect after every change, as embedded. Of dynamic buckets, the rows of a key that no index file has
# come to the one task that gives such keys a bucket. That may be a bucket which another task merges: then both add
# files to it, with different keys, and only the one that adds keys writes its index.

# The number of a bucket, its files, and its source rows in their order; the number of new keys is negative.
BucketRows: TypeAlias = tuple[int, Sequence[DataSplit], Sequence[pa.Table]]


@dataclass(frozen=True, slots=True)
class BucketMerge:
    """Merges the source rows of some buckets into them, on a worker."""

    store: TableStore
    plan: ChangePlan
    job: WriteJob
    schema: pa.Schema  # of source rows: columns `s0`, `s1`, ...
    newest: bool = False  # of source rows with one key only the newest counts, as in an upsert
    assigners: int = 1  # of dynamic buckets: how many tasks share the new keys of a partition

    @classmethod
    def of(
        cls, store: TableStore, plan: ChangePlan, source: pa.Schema, base: Snapshot | None, *, newest: bool = False
    ) -> BucketMerge:
        """Return the merge of a source with these columns into a snapshot."""
        fields = [source.field(name).with_name(source_name(at)) for at, name in enumerate(plan.source_columns)]
        return cls(store, plan, replace(keyed_job(store), looked_up_in=base), pa.schema(fields), newest)

    def for_tasks(self, receivers: ShuffleTargets, *, threads: bool) -> BucketMerge:
        """Return the work for tasks; with `threads` there are fewer of them than cores, so each uses several."""
        return replace(
            self,
            store=self.store if threads else one_reader(self.store),
            job=with_one_thread(self.job),
            assigners=receivers.assigners,
        )

    def grouping(self, route: BucketRoute) -> Grouping:
        """Return what puts source rows into groups for the tasks of their buckets, in one task."""
        return route.grouping(self.store, self.job.looked_up_in, self.assigners)

    def to_wire_types(self, rows: pa.Table) -> pa.Table:
        """Return source rows in the types in which they travel to their tasks."""
        known = source_rows(self.plan, rows)
        return pa.Table.from_arrays(known.columns, names=self.schema.names).cast(self.schema)

    def run(self, this: TaskId, buckets: Iterable[BucketRows]) -> TaskResult:
        """Merge into one bucket after the other."""
        held_max = max(1 << 20, self.store.options.write_buffer_size) // 4
        assigner = Assigner(this.number % self.assigners, self.assigners)
        is_looked_up = self.store.schema.bucket_mode is BucketMode.HASH_DYNAMIC
        with KeyedWriter(
            self.store, self.job, this.number, this.attempt, upserts=self.plan.upserts, assigner=assigner
        ) as writer:
            for bucket, splits, rows in buckets:
                with writer.into_bucket(bucket if is_looked_up and bucket >= 0 else None):
                    self._merge(writer, splits, rows)
                writer.flush_above(held_max)
            return result_of(writer.finish())

    def _merge(self, writer: KeyedWriter, splits: Sequence[DataSplit], rows: Sequence[pa.Table]) -> None:
        if not rows and not self.plan.by_source:
            return
        source = source_rows(self.plan, pa.concat_tables([self.schema.empty_table(), *rows]))
        matcher = self.plan.matcher(newest_rows(self.store, self.plan, source) if self.newest else source)
        predicate = pruning(self.plan, matcher)
        columns = keyed_columns(self.plan, writer.rules)
        target = read_merged(self.store, in_reach(self.store, splits, predicate), columns, predicate)
        write_merge(writer, self.plan, matcher, target)


def in_reach(store: TableStore, splits: Iterable[DataSplit], predicate: Predicate) -> list[DataSplit]:
    """Return splits of a primary-key table without the files that hold no key which fulfils a predicate."""
    if predicate == TRUE:
        return list(splits)
    pruner, schemas, keys = entry_pruner(store, predicate), FileSchemas(store), store.schema.trimmed_primary_key_fields
    found = []
    for split in splits:
        entries = (ManifestEntry(ADD, split.partition_bytes, split.bucket, split.total_buckets, f) for f in split.files)
        reached = (pruner.key_may_match(entry, schemas.fields_of(entry.file.schema_id), keys) for entry in entries)
        kept = [at for at, is_reached in enumerate(reached) if is_reached]
        found += [part_of(split, kept)] if kept else []
    return found

"""Merges into primary-key tables bucket by bucket: source rows of some buckets in, files of changed rows out.

A source row can match only rows of one bucket (`bucket_route`). So a task that gets the files of a bucket and its
source rows does the whole merge of the bucket, with the embedded code: the table is read once, and none of its rows
travels.

What always holds: all source rows of a bucket, in the order of the source, and all its files come to one task; an
insert takes effect after every change, as embedded. Of dynamic buckets, the rows of a key that no index file has come
to the one task that gives such keys a bucket. That may be a bucket which another task merges: then both add files to
it, with different keys, and only the one that adds keys writes its index.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from lakewright.distributed.job import TaskId
from lakewright.distributed.messages import pack
from lakewright.distributed.rows.bucket_route import BucketRoute, Grouping
from lakewright.distributed.rows.buckets import one_reader
from lakewright.distributed.rows.merge import pack_counts, source_name, source_rows
from lakewright.distributed.write_job import single_threaded
from lakewright.metadata.store import TableStore
from lakewright.read.scan import FileSchemas, entry_pruner
from lakewright.read.splits.shares import part_of
from lakewright.read.splits.split import DataSplit
from lakewright.spec.manifest import ADD, ManifestEntry
from lakewright.spec.options import CoreOptions
from lakewright.spec.predicate.predicate import TRUE, Predicate
from lakewright.spec.schema.table_schema import BucketMode
from lakewright.spec.snapshot import Snapshot
from lakewright.update.merge.clauses import MergePlan
from lakewright.update.merge.merge import keyed_columns, pruning, write_merge
from lakewright.update.merge.upsert import newest_rows
from lakewright.update.primary_key import KeyedWriter, keyed_job, read_merged
from lakewright.write.buckets.assign import Assigner
from lakewright.write.shuffle import Receivers
from lakewright.write.writer import WriteJob

# The number of a bucket, its files, and its source rows in their order; the number of new keys is negative.
BucketRows: TypeAlias = tuple[int, Sequence[DataSplit], Sequence[pa.Table]]


@dataclass(frozen=True, slots=True)
class BucketMerge:
    """Merges the source rows of some buckets into them, on a worker."""

    store: TableStore
    plan: MergePlan
    job: WriteJob
    schema: pa.Schema  # of source rows: columns `s0`, `s1`, ...
    newest: bool = False  # of source rows with one key only the newest counts, as in an upsert
    assigners: int = 1  # of dynamic buckets: how many tasks share the new keys of a partition

    @classmethod
    def of(
        cls, store: TableStore, plan: MergePlan, source: pa.Schema, base: Snapshot | None, *, newest: bool = False
    ) -> BucketMerge:
        """Return the merge of a source with these columns into a snapshot."""
        fields = [source.field(name).with_name(source_name(at)) for at, name in enumerate(plan.source_columns)]
        return cls(store, plan, replace(keyed_job(store), looked_up_in=base), pa.schema(fields), newest)

    def shipped(self, receivers: Receivers, *, threads: bool) -> BucketMerge:
        """Return the work for tasks; with `threads` there are fewer of them than cores, so each uses several."""
        return replace(
            self,
            store=self.store if threads else one_reader(self.store),
            job=single_threaded(self.job),
            assigners=receivers.assigners,
        )

    def grouping(self, route: BucketRoute) -> Grouping:
        """Return what puts source rows into groups for the tasks of their buckets, in one task."""
        return route.grouping(self.store, self.job.looked_up_in, self.assigners)

    def sent(self, rows: pa.Table) -> pa.Table:
        """Return source rows in the types in which they travel to their tasks."""
        known = source_rows(self.plan, rows)
        return pa.Table.from_arrays(known.columns, names=self.schema.names).cast(self.schema)

    def run(self, this: TaskId, buckets: Iterable[BucketRows]) -> bytes:
        """Merge into one bucket after the other."""
        held_max = max(1 << 20, self.store.options.get(CoreOptions.WRITE_BUFFER_SIZE)) // 4
        assigner = Assigner(this.number % self.assigners, self.assigners)
        is_looked_up = self.store.schema.bucket_mode is BucketMode.HASH_DYNAMIC
        with KeyedWriter(
            self.store, self.job, this.number, this.attempt, upserts=self.plan.upserts, assigner=assigner
        ) as writer:
            for bucket, splits, rows in buckets:
                with writer.into_bucket(bucket if is_looked_up and bucket >= 0 else None):
                    self._merge(writer, splits, rows)
                writer.flush_above(held_max)
            made = writer.finish()
        return pack_counts(made) + pack(made.messages)

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

"""Merges of Spark frames into primary-key tables: both sides in, messages of row kinds out.

    frame  --left join-->  merged rows of the table by their keys, with the numbers that they have in their split
           --shuffle---->  tasks: rows that met none are inserted; splits are read again, with the columns that it
                           takes, and the core decides what becomes of their rows
           --blocks----->  rows with kinds, as Arrow data, to the tasks that write their buckets

Rows of the table travel only as Arrow data in the table's own types, and only those that change. What always holds: an
insert counts after every change, as embedded, should it hit a key that is there; everything else is as for frames that
are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakewright.distributed.job import Answers, Job, prepare_job
from lakewright.distributed.messages import verified_messages
from lakewright.errors import LakewrightError, UnsupportedError
from lakewright.lsm.keys import SortColumn
from lakewright.metadata.store import TableStore
from lakewright.read.splits.shares import pieces
from lakewright.read.splits.split import DataSplit
from lakewright.spark.jobs.types import arrow_schema_of
from lakewright.spark.jobs.workers import SparkWork, SparkWorkers
from lakewright.spark.rows.located import POSITION, TASK, by_group, groups_in, located, task_count
from lakewright.spark.rows.merge_sides import Sides, gathered, source_rows, source_schema
from lakewright.spark.write.blocks import GroupMaker
from lakewright.spark.write.shuffle import Clustered, cluster, cluster_made, kinds_in
from lakewright.spec.keyed_rows import DELETE, INSERT, UPDATE_AFTER
from lakewright.spec.options import CoreOptions
from lakewright.spec.predicate.predicate import TRUE, Predicate
from lakewright.spec.snapshot import Snapshot
from lakewright.update.merge.clauses import MergePlan
from lakewright.update.merge.match import Pairs
from lakewright.update.merge.merge import chunked_rows, scope_of_absence
from lakewright.update.merge.upsert import kinds_column, needs_lookup, plan_upsert, sequence_order
from lakewright.update.primary_key import (
    KeyedRules,
    RowKindWriter,
    distribute_postponed,
    guard_scope,
    keyed_job,
    locate_merged,
    merged_splits,
)
from lakewright.update.run import Prepare, Prepared
from lakewright.update.ways import Way
from lakewright.write.buckets.routing import Group
from lakewright.write.shuffle import Receivers, Sender
from lakewright.write.writer import WriteJob

_CHANGES, _INSERTS = 0, 1  # ranks


def preparing_merge(
    df: DataFrame,
    store: TableStore,
    plan: MergePlan,
    *,
    last_by: Sequence[SortColumn] | None = None,
    concurrency: int | None = None,
) -> Prepare:
    """Check a merge into a primary-key table, and return what does it on a snapshot without committing it."""
    rules = KeyedRules.of(store, upserts=plan.upserts)
    if plan.deletes:
        rules.check_delete()
    if plan.assigned:
        rules.check_update(plan.assigned)
    # Rows are known by their numbers among those that are read, so that both readers must leave out the same.
    known = replace(plan, prunes=TRUE) if plan.by_source else plan
    return partial(_prepare, Sides.of(store, df, known, last_by=last_by), concurrency)


def _prepare(sides: Sides, concurrency: int | None, base: Snapshot | None) -> Prepared:
    """Merge into a snapshot of a primary-key table."""
    store, plan, spark = sides.store, sides.plan, sides.source.sparkSession
    base = distribute_postponed(store, base)
    asked = plan.prunes
    splits = [] if base is None else merged_splits(store, base, asked)
    with sides.keeping(sum(split.file_size for split in splits)) as kept:
        if base is not None and kept.is_kept and not plan.by_source:
            asked = kept.pruning()
            splits = merged_splits(store, base, asked)
        parts = [part for split in splits for part in pieces(store, split)]
        tasks = task_count(spark, store, parts, sides.bytes)
        find = partial(located, spark, store, dict(enumerate(parts)), predicate=asked)
        frame = kept.joined(find) if parts else kept.alone()
        frame = by_group(frame.select(kept.spread(tasks).alias(TASK), *kept.columns), parts, tasks, POSITION)
        work = _Work(store, plan, keyed_job(store), asked)
        prepared = _run(spark, work.job, cluster_made(frame, work, like=sides.source, concurrency=concurrency))
    scope = scope_of_absence(store, plan) if prepared.inserted else "bucket"
    return replace(prepared, unchanged=guard_scope(scope, store.schema.bucket_mode))


def preparing_upsert(df: DataFrame, store: TableStore) -> Prepare:
    """Check a frame against a primary-key table, and return what upserts it.

    Where writing the frame does not leave the columns that it lacks as they are, rows are looked up first.
    """
    columns = arrow_schema_of(df.schema)
    if needs_lookup(store, columns.names):
        return preparing_lookup(df, store)
    WriteJob.new(store).check_input(columns)

    def prepare(_base: Snapshot | None) -> Prepared:
        job = WriteJob.new(store)
        prepared = _run(df.sparkSession, job, cluster(df, job, concurrency=None, distribution=None), counted=False)
        return replace(prepared, counted=not any(message.rows_in for message in prepared.messages))

    return prepare


def preparing_lookup(df: DataFrame, store: TableStore, concurrency: int | None = None) -> Prepare:
    """Check an upsert of a frame that lacks columns, and return what looks rows up and does it."""
    source = source_schema(df, store.name)
    kinds = kinds_column(store, source.names)
    if kinds is not None or KeyedRules.of(store).folds:
        engine = f"the merge engine {store.options.get(CoreOptions.MERGE_ENGINE)}"
        why = engine if kinds is None else f"a column of row kinds ({kinds!r})"
        raise UnsupportedError(
            f"{store.name}: the frame lacks columns that must be looked up to stay as they are, which Spark cannot do "
            f"with {why}; give all columns, or upsert embedded, with df.toArrow()",
            table=store.name,
        )
    plan = plan_upsert(store, source, store.schema.primary_keys)
    return preparing_merge(df, store, plan, last_by=sequence_order(store, source.names), concurrency=concurrency)


def _run(spark: SparkSession, job: WriteJob, clustered: Clustered, *, counted: bool = True) -> Prepared:
    """Run the tasks that write, and return what is to be committed."""
    work = SparkWork(clustered.frame, clustered.task, f"change rows of {job.store.name}", settings=clustered.settings)

    def verify(answers: Answers) -> Prepared:
        counts = [kinds_in(payload) if counted else ((), payload) for payload in answers.payloads]
        messages = verified_messages(job, (body for _, body in counts))
        sums = [sum(kinds) for kinds in zip(*(kinds for kinds, _ in counts), strict=True)]
        deleted, updated, inserted = (sums[DELETE], sums[UPDATE_AFTER], sums[INSERT]) if sums else (0, 0, 0)
        return Prepared(tuple(messages), deleted, updated, inserted, Way.KEYED)

    return prepare_job(SparkWorkers(spark), Job(job.store, job.write_id, work), verify)


# ---- on an executor --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Work:
    """GroupMaker rows with kinds of the rows that a task gets."""

    store: TableStore
    plan: MergePlan
    job: WriteJob
    predicate: Predicate  # of the rows that are numbered

    def group_maker(self, receivers: Receivers) -> GroupMaker:
        """Return what makes the rows in a task, as groups for so many receivers."""
        return partial(self._made, receivers)

    def _made(self, receivers: Receivers, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Iterable[Group]]]:
        """Yield inserts, then changes: rows that are ordered by split come in, those that meet none first."""
        found = groups_in(batches)
        first = next(found, None)
        if first is not None and first[0] is None:
            yield _INSERTS, self._inserts(first[1], Sender(self.job, receivers))
            first = None
        yield _CHANGES, self._changes(chain([] if first is None else [first], found), Sender(self.job, receivers))

    def _inserts(self, batches: Iterator[pa.RecordBatch], sender: Sender) -> Iterator[Group]:
        rows = RowKindWriter(self.store, sender, upserts=self.plan.upserts)
        for some in gathered(batches):
            new = self.plan.inserts(source_rows(self.plan, some), np.arange(some.num_rows))
            if new is not None:
                rows.insert(new)
            yield from sender.groups()
        yield from sender.groups(last=True)

    def _changes(
        self, parts: Iterable[tuple[DataSplit | None, Iterator[pa.RecordBatch]]], sender: Sender
    ) -> Iterator[Group]:
        rows = RowKindWriter(self.store, sender, upserts=self.plan.upserts)
        columns = self._columns(rows.rules)
        for part, batches in parts:
            met = pa.Table.from_batches(list(batches))
            if part is None or not (met.num_rows or self.plan.by_source):
                continue
            for _ in self._decided(part, met, columns, rows):
                yield from sender.groups()
        yield from sender.groups(last=True)

    def _decided(self, part: DataSplit, met: pa.Table, columns: Sequence[str], rows: RowKindWriter) -> Iterator[None]:
        """Decide of the rows of one split, given the rows of the source that meet them; pause after each chunk."""
        numbers = met.column(POSITION).to_numpy()
        source = source_rows(self.plan, met)
        left = len(numbers)
        for positions, target in chunked_rows(locate_merged(self.store, part, columns, self.predicate)):
            first, end = np.searchsorted(numbers, (positions[0], positions[-1] + 1))
            left -= int(end - first)
            pairs = Pairs(numbers[first:end] - positions[0], np.arange(end - first, dtype=np.int64))
            made = self.plan.decide(target, source.slice(first, end - first), pairs)
            if len(made.deleted):
                rows.delete(target.take(pa.array(made.deleted)))
            if made.values is not None:
                rows.update(target.take(pa.array(made.updated)), made.values)
            yield
        if left:
            raise LakewrightError(f"{self.store.name}: {left} rows of {part.files[0].file_name} were not found again")

    def _columns(self, rules: KeyedRules) -> list[str]:
        """Return the columns that decide, and those that must be known of rows which change."""
        needed = {*self.plan.target_columns}
        needed |= {*rules.columns_to_delete()} if self.plan.deletes else set()
        needed |= {*rules.columns_to_update(self.plan.assigned)} if self.plan.assigned else set()
        return [name for name in self.store.schema.field_names if name in needed]

"""Merges of Spark frames into primary-key tables: both sides in, messages of rows with row kinds out.

    frame  --left join-->  merged rows of the table by their keys, with their positions in their split
           --shuffle---->  tasks: source rows without a match are inserted; splits are read again, with the columns
                           that are needed, and the core decides how their rows change
           --blocks----->  rows with row kinds, as Arrow data, to the tasks that write their buckets

Rows of the table travel only as Arrow data in the table's own types, and only those that change. What always holds: an
insert takes effect after every change, as embedded, even if its key exists; everything else is as for frames that are
written.
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
from lakewright.errors import UnsupportedError
from lakewright.lsm.keys import SortColumn
from lakewright.metadata.store import TableStore
from lakewright.read.splits.shares import pieces
from lakewright.read.splits.split import DataSplit
from lakewright.spark.jobs.types import arrow_schema_of
from lakewright.spark.jobs.workers import SparkWork, SparkWorkers
from lakewright.spark.rows.group_rows import POSITION, TASK, located_rows, shuffle_by_group, split_by_group, task_count
from lakewright.spark.rows.merge_sides import MergeSides, chunks, inserted_rows, source_schema
from lakewright.spark.write.blocks import GroupMaker
from lakewright.spark.write.shuffle import Clustered, cluster, cluster_made, kinds_in
from lakewright.spec.keyed_rows import DELETE, INSERT, UPDATE_AFTER
from lakewright.spec.options import CoreOptions
from lakewright.spec.predicate.predicate import TRUE, Predicate
from lakewright.spec.snapshot import Snapshot
from lakewright.update.merge.clauses import MergePlan
from lakewright.update.merge.match import Pairs
from lakewright.update.merge.merge import check_keyed_merge, keyed_columns, scope_of_absence, write_decision
from lakewright.update.merge.upsert import kinds_column, needs_lookup, plan_upsert, sequence_order
from lakewright.update.methods import ChangeMethod
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
from lakewright.write.buckets.routing import Group
from lakewright.write.shuffle import Receivers, Sender
from lakewright.write.writer import WriteJob

_CHANGES, _INSERTS = 0, 1  # ranks


def prepare_merge(
    df: DataFrame,
    store: TableStore,
    plan: MergePlan,
    *,
    last_by: Sequence[SortColumn] | None = None,
    concurrency: int | None = None,
) -> Prepare:
    """Check a merge into a primary-key table, and return a function that prepares it without committing it."""
    check_keyed_merge(store, plan)
    # A position counts the rows that are read, so both reads must use the same predicate.
    known = replace(plan, prunes=TRUE) if plan.by_source else plan
    return partial(_prepare, MergeSides.of(store, df, known, last_by=last_by), concurrency)


def _prepare(sides: MergeSides, concurrency: int | None, base: Snapshot | None) -> Prepared:
    """Merge into a snapshot of a primary-key table."""
    store, plan, spark = sides.store, sides.plan, sides.source.sparkSession
    base = distribute_postponed(store, base)
    predicate = plan.prunes
    splits = [] if base is None else merged_splits(store, base, predicate)
    with sides.persisted_if_small(sum(split.file_size for split in splits)) as kept:
        if base is not None and kept.is_persisted and not plan.by_source:
            predicate = kept.pruning()
            splits = merged_splits(store, base, predicate)
        parts = [part for split in splits for part in pieces(store, split)]
        tasks = task_count(spark, store, parts, sides.bytes)
        find = partial(located_rows, spark, store, dict(enumerate(parts)), predicate=predicate)
        frame = kept.join_target(find) if parts else kept.without_matches()
        frame = shuffle_by_group(
            frame.select(kept.task_of_row(tasks).alias(TASK), *kept.columns), parts, tasks, POSITION
        )
        task = _MergeTask(store, plan, keyed_job(store), predicate)
        prepared = _run(spark, task.job, cluster_made(frame, task, like=sides.source, concurrency=concurrency))
    scope = scope_of_absence(store, plan) if prepared.inserted else "bucket"
    return replace(prepared, unchanged=guard_scope(scope, store.schema.bucket_mode))


def prepare_upsert(df: DataFrame, store: TableStore) -> Prepare:
    """Check an upsert of a frame, and return a function that prepares it without committing it.

    Rows are looked up first if writing the frame would change the columns that it lacks.
    """
    columns = arrow_schema_of(df.schema)
    if needs_lookup(store, columns.names):
        return prepare_lookup(df, store)
    WriteJob.new(store).check_input(columns)

    def prepare(_base: Snapshot | None) -> Prepared:
        job = WriteJob.new(store)
        prepared = _run(df.sparkSession, job, cluster(df, job, concurrency=None, distribution=None), counted=False)
        return replace(prepared, counted=not any(message.rows_in for message in prepared.messages))

    return prepare


def prepare_lookup(df: DataFrame, store: TableStore, concurrency: int | None = None) -> Prepare:
    """Check an upsert that looks rows up, and return a function that prepares it without committing it."""
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
    return prepare_merge(df, store, plan, last_by=sequence_order(store, source.names), concurrency=concurrency)


def _run(spark: SparkSession, job: WriteJob, clustered: Clustered, *, counted: bool = True) -> Prepared:
    """Run the tasks that write, and return what to commit."""
    work = SparkWork(clustered.frame, clustered.task, f"change rows of {job.store.name}", settings=clustered.settings)

    def verify(answers: Answers) -> Prepared:
        counts = [kinds_in(payload) if counted else ((), payload) for payload in answers.payloads]
        messages = verified_messages(job, (body for _, body in counts))
        sums = [sum(kinds) for kinds in zip(*(kinds for kinds, _ in counts), strict=True)]
        deleted, updated, inserted = (sums[DELETE], sums[UPDATE_AFTER], sums[INSERT]) if sums else (0, 0, 0)
        return Prepared(tuple(messages), deleted, updated, inserted, ChangeMethod.KEYED)

    return prepare_job(SparkWorkers(spark), Job(job.store, job.write_id, work), verify)


# ---- on an executor --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _MergeTask:
    """Turns the rows that a task gets into rows with row kinds."""

    store: TableStore
    plan: MergePlan
    job: WriteJob
    predicate: Predicate  # positions count the rows that fulfil it

    def group_maker(self, receivers: Receivers) -> GroupMaker:
        """Return the function that a task runs on its rows, for these receivers."""
        return partial(self._rows_by_rank, receivers)

    def _rows_by_rank(
        self, receivers: Receivers, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[tuple[int, Iterable[Group]]]:
        """Yield inserts, then changes, for rows that are ordered by split; those without a match come first."""
        parts = split_by_group(batches)
        first = next(parts, None)
        if first is not None and first[0] is None:
            yield _INSERTS, self._inserts(first[1], Sender(self.job, receivers))
            first = None
        yield _CHANGES, self._changes(chain([] if first is None else [first], parts), Sender(self.job, receivers))

    def _inserts(self, batches: Iterator[pa.RecordBatch], sender: Sender) -> Iterator[Group]:
        writer = RowKindWriter(self.store, sender, upserts=self.plan.upserts)
        for new in inserted_rows(self.plan, batches):
            writer.insert(new)
            yield from sender.groups()
        yield from sender.groups(last=True)

    def _changes(
        self, parts: Iterable[tuple[DataSplit | None, Iterator[pa.RecordBatch]]], sender: Sender
    ) -> Iterator[Group]:
        writer = RowKindWriter(self.store, sender, upserts=self.plan.upserts)
        columns = keyed_columns(self.plan, writer.rules)
        for part, batches in parts:
            matched = pa.Table.from_batches(list(batches))
            if part is None or not (matched.num_rows or self.plan.by_source):
                continue
            for chunk in chunks(self.plan, part, matched, locate_merged(self.store, part, columns, self.predicate)):
                numbers = chunk.matches - chunk.positions[0]
                pairs = Pairs(numbers, np.arange(len(numbers), dtype=np.int64))
                write_decision(writer, chunk.target, self.plan.decide(chunk.target, chunk.source, pairs))
                yield from sender.groups()
        yield from sender.groups(last=True)

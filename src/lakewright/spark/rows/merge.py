"""Merge and upsert on Spark: a frame and clauses in, one snapshot and its counts out.

    frame  --left join-->  rows of the table by their keys, with group and position
           --shuffle---->  tasks: first source rows without a match, which are inserted, then one group of files after
                           the other with the source rows that match: decided and changed by the core's own code

The frame runs once in an attempt, and its rows never come to the driver; of one that is persisted (see `merge_sides`),
the bounds of its keys do. A task needs memory for the source rows that match one group. What always holds: rows match
exactly if they match embedded, or the call is refused before a row is read; rows that are inserted because they were
absent are committed only if nobody wrote meanwhile where they could have been written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame

from lakewright.catalog.open import opened
from lakewright.distributed.rows.groups import POSITION, Changed, insert_rows, inserting_rows
from lakewright.distributed.rows.merge import MergeTask, guarded_merge
from lakewright.spark.jobs.session import in_session_zone
from lakewright.spark.jobs.workers import SparkWork, SparkWorkers
from lakewright.spark.rows.group_rows import (
    TASK,
    changed_groups,
    located_rows,
    over_groups,
    shuffle_by_group,
    task_count,
)
from lakewright.spark.rows.merge_sides import MergeSides, source_schema
from lakewright.spark.rows.primary_key_merge import prepare_merge, prepare_upsert
from lakewright.spark.write.compaction import compacting_on
from lakewright.spark.write.frame import check_frame
from lakewright.spec.arguments import Path, Properties
from lakewright.spec.predicate.predicate import TRUE
from lakewright.spec.snapshot import Snapshot
from lakewright.table.table import FileStoreTable
from lakewright.update.change import ChangeJob
from lakewright.update.find import groups
from lakewright.update.merge.clauses import On
from lakewright.update.merge.merge import MergeBuilder
from lakewright.update.merge.upsert import plan_upsert, upsert_keys
from lakewright.update.methods import change_method
from lakewright.update.result import UpdateResult
from lakewright.update.run import Prepare, Prepared, change, fold_applied, with_all_columns
from lakewright.write.job_run import JobRun
from lakewright.write.writer import WriteJob


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameMerge(MergeBuilder):
    """A merge of a Spark frame."""

    source: DataFrame

    def execute(self, *, job_id: str | None = None, snapshot_properties: Properties | None = None) -> UpdateResult:
        """Run the merge: one snapshot in which the clauses hold for every row; a job id is committed only once."""
        store = self.store.with_snapshot_properties(snapshot_properties)
        run, job = compacting_on(self.source.sparkSession), JobRun.of(store, job_id)
        return change(store, replace(self, store=store).prepare(), operation="MERGE", run=run, job=job)

    def prepare(self) -> Prepare:
        """Check the merge, and return a function that prepares it on a snapshot without committing it."""
        plan = self.plan(source_schema(self.source, self.store.name))
        if self.store.schema.primary_keys:
            return prepare_merge(self.source, self.store, plan)
        return partial(_prepare, MergeSides.of(self.store, self.source, plan))


def merge(df: DataFrame, table: FileStoreTable | Path, on: On) -> MergeBuilder:
    """Start a merge of a frame into a table: add clauses, then `execute()`.

    `on` names columns that both have, or is a condition such as `t.id = s.id AND s.day > t.day`.
    """
    check_frame(df)
    return FrameMerge(store=in_session_zone(df.sparkSession, opened(table)).store, source=df, on=on)


def upsert(
    df: DataFrame,
    table: FileStoreTable | Path,
    keys: str | Sequence[str] | None = None,
    *,
    job_id: str | None = None,
    snapshot_properties: Properties | None = None,
) -> UpdateResult:
    """Update the rows whose keys the frame has, and insert the rest of it; of equal keys in the frame the last counts.

    Columns that the frame lacks stay as they are, and are null or their default in new rows. The keys of a primary-key
    table are its own; a frame with all its columns is written without looking up rows, and the counts are None.
    """
    check_frame(df)
    store = opened(table, snapshot_properties).store
    names = upsert_keys(store, keys)
    job = JobRun.of(store, job_id)
    if store.schema.primary_keys:
        run = compacting_on(df.sparkSession)
        return change(store, prepare_upsert(df, store), operation="WRITE", run=run, job=job)
    plan = plan_upsert(store, source_schema(df, store.name), names)
    return change(store, partial(_prepare, MergeSides.of(store, df, plan, last_by=())), operation="MERGE", job=job)


# ---- on the driver ---------------------------------------------------------------------------------------------------


def _prepare(sides: MergeSides, base: Snapshot | None) -> Prepared:
    """Merge into a snapshot of an append table."""
    done, prepared = _changed(sides, base) if base is not None else _inserted(sides)
    return guarded_merge(sides.store, sides.plan, prepared, done.inserted)


def _inserted(sides: MergeSides) -> tuple[Changed, Prepared]:
    """Merge into a table that has no snapshot."""
    store, frame = sides.store, sides.without_matches().select(*sides.columns)
    job = WriteJob.new(store)
    task = over_groups(inserting_rows(job, MergeTask(store, sides.plan)))
    done = insert_rows(SparkWorkers(frame.sparkSession), job, SparkWork(frame, task, f"insert rows into {store.name}"))
    return done, Prepared(tuple(message for one in done.applied for message in one.messages), way=change_method(store))


def _changed(sides: MergeSides, base: Snapshot) -> tuple[Changed, Prepared]:
    """Merge into a snapshot."""
    store, plan, spark = sides.store, sides.plan, sides.source.sparkSession
    parts = groups(store, base, TRUE if plan.by_source else plan.prunes)
    with sides.persisted_if_small(sum(file.file_size for part in parts for file in part.files)) as kept:
        if kept.is_persisted and not plan.by_source:
            parts = groups(store, base, kept.pruning())
        job = ChangeJob.on(store, base)
        known = with_all_columns(job, parts)
        tasks = task_count(spark, store, parts, sides.bytes)
        find = partial(located_rows, spark, store, dict(enumerate(parts)), predicate=plan.prunes)
        frame = kept.join_target(find) if parts else kept.without_matches()
        frame = frame.select(kept.task_of_row(tasks).alias(TASK), *sides.columns)
        done = changed_groups(
            shuffle_by_group(frame, parts, tasks, POSITION), known, MergeTask(store, plan, known.store), inserts=store
        )
    return done, fold_applied(job, done.applied)

"""Merge and upsert on Spark: a frame and clauses in, one snapshot and its counts out.

    frame  --left join-->  rows of the table by their keys, with the places where they lie
           --shuffle---->  tasks: first the rows that met none, which are inserted, then one group of files after the
                           other with the rows that met its rows: decided and changed by the core's own code

The frame runs once in an attempt, and its rows never come to the driver; of one that is kept (see `sides`), bounds of
its keys do. A task needs memory for the rows that meet one group. What always holds: what matches is what matches
embedded, or the call is refused before a row is read; rows that are inserted because they were absent are committed
only if nobody wrote where they could have come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from lakewright.catalog.open import opened
from lakewright.errors import LakewrightError
from lakewright.metadata.store import TableStore
from lakewright.read.scan import FileSchemas
from lakewright.read.splits.split import DataSplit
from lakewright.spark.jobs.session import in_session_zone
from lakewright.spark.rows.file_groups import Changed, apply_on, insert_on
from lakewright.spark.rows.located import POSITION, TASK, by_group, groups_in, located, task_count
from lakewright.spark.rows.merge_sides import Sides, gathered, source_rows, source_schema
from lakewright.spark.rows.primary_key_merge import preparing_merge, preparing_upsert
from lakewright.spark.write.compaction import compacting_on
from lakewright.spark.write.frame import check_frame
from lakewright.spec.arguments import Path
from lakewright.spec.predicate.predicate import TRUE
from lakewright.spec.snapshot import Snapshot
from lakewright.table.table import FileStoreTable
from lakewright.update.change import ChangeJob, GroupChange, Positions
from lakewright.update.find import groups, locate
from lakewright.update.merge.clauses import MergePlan, On
from lakewright.update.merge.match import Pairs, joined
from lakewright.update.merge.merge import MergeBuilder, chunked_rows, scope_of_absence
from lakewright.update.merge.upsert import plan_upsert, upsert_keys
from lakewright.update.result import UpdateResult
from lakewright.update.run import Prepare, Prepared, change, check_columns_unchanged, fold_applied, with_all_columns
from lakewright.update.ways import way_of
from lakewright.write.job_run import JobRun


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameMerge(MergeBuilder):
    """A merge of a Spark frame."""

    source: DataFrame

    def execute(self, *, job_id: str | None = None) -> UpdateResult:
        """Do it, once if there is a job id: one snapshot in which the clauses hold for every row, and its counts."""
        run, job = compacting_on(self.source.sparkSession), JobRun.of(self.store, job_id)
        return change(self.store, self.prepare(), operation="MERGE", run=run, job=job)

    def prepare(self) -> Prepare:
        """Check the merge, and return what does it on a snapshot without committing it."""
        plan = self.plan(source_schema(self.source, self.store.name))
        if self.store.schema.primary_keys:
            return preparing_merge(self.source, self.store, plan)
        return partial(_prepare, Sides.of(self.store, self.source, plan))


def merge(df: DataFrame, table: FileStoreTable | Path, on: On) -> MergeBuilder:
    """Begin a merge of a frame into a table: add clauses, then `execute()`.

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
) -> UpdateResult:
    """Update the rows whose keys the frame has, and insert the rest of it; of equal keys in the frame the last counts.

    Columns that the frame lacks stay as they are, and are null or their default in new rows. The keys of a primary-key
    table are its own; a frame with all its columns is written without a look at what is there, and the counts are None.
    """
    check_frame(df)
    store = opened(table).store
    names = upsert_keys(store, keys)
    job = JobRun.of(store, job_id)
    if store.schema.primary_keys:
        run = compacting_on(df.sparkSession)
        return change(store, preparing_upsert(df, store), operation="WRITE", run=run, job=job)
    plan = plan_upsert(store, source_schema(df, store.name), names)
    return change(store, partial(_prepare, Sides.of(store, df, plan, last_by=())), operation="MERGE", job=job)


# ---- on the driver ---------------------------------------------------------------------------------------------------


def _prepare(sides: Sides, base: Snapshot | None) -> Prepared:
    """Merge into a snapshot of an append table."""
    store, plan = sides.store, sides.plan
    done, prepared = _changed(sides, base) if base is not None else _inserted(sides)
    return replace(
        prepared,
        inserted=done.inserted,
        unchanged=scope_of_absence(store, plan) if done.inserted else None,
        reads=tuple(name for name in plan.target_columns if name in store.schema.field_names),
    )


def _inserted(sides: Sides) -> tuple[Changed, Prepared]:
    """Merge into a table that has no snapshot."""
    store, frame = sides.store, sides.alone().select(*sides.columns)
    done = insert_on(frame.sparkSession, frame, store, _Work(store, sides.plan))
    return done, Prepared(tuple(message for one in done.applied for message in one.messages), way=way_of(store))


def _changed(sides: Sides, base: Snapshot) -> tuple[Changed, Prepared]:
    """Merge into a snapshot."""
    store, plan, spark = sides.store, sides.plan, sides.source.sparkSession
    parts = groups(store, base, TRUE if plan.by_source else plan.prunes)
    with sides.keeping(sum(file.file_size for part in parts for file in part.files)) as kept:
        if kept.is_kept and not plan.by_source:
            parts = groups(store, base, kept.pruning())
        job = ChangeJob.on(store, base)
        known = with_all_columns(job, parts)
        tasks = task_count(spark, store, parts, sides.bytes)
        find = partial(located, spark, store, dict(enumerate(parts)), predicate=plan.prunes)
        frame = kept.joined(find) if parts else kept.alone()
        frame = frame.select(kept.spread(tasks).alias(TASK), *sides.columns)
        work = _Work(store, plan, known.store)
        done = apply_on(spark, by_group(frame, parts, tasks, POSITION), known, work, inserts=store)
    return done, fold_applied(job, done.applied)


# ---- on an executor --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Work:
    """Makes new rows, and changes of groups, of the rows that a task gets."""

    store: TableStore
    plan: MergePlan
    written: TableStore | None = None  # as changed files are written

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[GroupChange | pa.Table]:
        """Yield what becomes of rows that are ordered by group; those that meet none come first."""
        schemas = FileSchemas(self.store)
        for part, runs in groups_in(batches):
            if part is None:
                yield from self._inserts(runs)
                continue
            rows = pa.Table.from_batches(list(runs))
            found = self._change(part, rows, schemas) if rows.num_rows or self.plan.by_source else None
            if found is not None and not found.is_empty:
                check_columns_unchanged(self.store, self.written or self.store, found)
                yield found

    def _inserts(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        for rows in gathered(batches):
            made = self.plan.inserts(source_rows(self.plan, rows), np.arange(rows.num_rows))
            if made is not None:
                yield made

    def _change(self, part: DataSplit, rows: pa.Table, schemas: FileSchemas) -> GroupChange:
        """Return what becomes of one group, given the rows of the source that meet its rows."""
        met = rows.column(POSITION).to_numpy()
        source = source_rows(self.plan, rows)
        deleted: list[Positions] = []
        updated: list[Positions] = []
        values: list[pa.Table] = []
        left = len(met)
        for positions, target in chunked_rows(locate(self.store, part, self.plan.target_columns, schemas=schemas)):
            first, end = np.searchsorted(met, (positions[0], positions[-1] + 1))
            here, found = met[first:end], (positions, target)
            left -= len(here)
            if not self.plan.by_source:
                keep = np.isin(positions, here)
                found = positions[keep], target.filter(pa.array(keep))
            pairs = Pairs(np.searchsorted(found[0], here), np.arange(len(here), dtype=np.int64))
            made = self.plan.decide(found[1], source.slice(first, len(here)), pairs)
            deleted.append(found[0][made.deleted])
            updated.append(found[0][made.updated])
            values.extend([] if made.values is None else [made.values])
        if left:
            raise LakewrightError(f"{self.store.name}: {left} rows of {part.files[0].file_name} were not found again")
        return GroupChange(part, joined(deleted), joined(updated), pa.concat_tables(values) if values else None)

"""Merge and upsert on Ray: a dataset and clauses in, one snapshot and its counts out.

    dataset --match--> tasks: source rows without a match, which are inserted, and groups of files with the source rows
                       that match, decided and changed by the core's own code
            --rows-->  for a primary-key table: rows with row kinds, to the tasks that write their buckets

The dataset runs once, however many attempts there are, and its rows never come to the driver. What always holds: rows
match exactly if they match embedded; rows that are inserted because they were absent are committed only if nobody wrote
meanwhile where they could have been written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
import ray
from ray.data import Dataset

from lakewright.catalog.open import opened
from lakewright.distributed.compaction import compacting_on
from lakewright.distributed.job import Job, prepare_job
from lakewright.distributed.rows.groups import (
    Changed,
    apply_changes,
    applying,
    insert_rows,
    inserting_rows,
)
from lakewright.distributed.rows.merge import (
    CHANGES,
    INSERTS,
    KeyedMergeTask,
    MergeTask,
    checked_lookup,
    guarded_keyed_merge,
    guarded_merge,
    verify_keyed,
)
from lakewright.distributed.write_job import single_threaded
from lakewright.metadata.store import TableStore
from lakewright.ray.datasets import check_dataset
from lakewright.ray.rows.groups import over_tasks
from lakewright.ray.rows.match import FindGroups, Matched, Matching, TaskRows, match
from lakewright.ray.rows.source import Source
from lakewright.ray.tasks import (
    RECEIVE_COUNTED,
    ProgressReport,
    RayAnswers,
    RayWork,
    RayWorkers,
    Tasks,
    WriteSettings,
    our_errors,
)
from lakewright.ray.write import run_write
from lakewright.read.splits.shares import pieces
from lakewright.read.splits.split import DataSplit
from lakewright.spec.arguments import Path, Properties
from lakewright.spec.predicate.predicate import TRUE, Predicate
from lakewright.spec.snapshot import Snapshot
from lakewright.table.table import FileStoreTable
from lakewright.update.change import ChangeJob
from lakewright.update.find import groups
from lakewright.update.merge.clauses import MergePlan, On
from lakewright.update.merge.merge import MergeBuilder, check_keyed_merge
from lakewright.update.merge.upsert import needs_lookup, plan_upsert, upsert_keys
from lakewright.update.methods import change_method
from lakewright.update.primary_key import KeyedRules, distribute_postponed, keyed_job, merged_splits
from lakewright.update.result import UpdateResult
from lakewright.update.run import Prepare, Prepared, change, fold_applied, with_all_columns
from lakewright.write.job_run import JobRun
from lakewright.write.shuffle import Receivers, receivers_for
from lakewright.write.writer import WriteJob

_FETCH = "pa.concat_tables(ray.get(dataset.to_arrow_refs()))"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetMerge(MergeBuilder):
    """A merge of a dataset of Ray."""

    source: Dataset
    settings: WriteSettings = field(default_factory=WriteSettings)

    def execute(self, *, job_id: str | None = None, snapshot_properties: Properties | None = None) -> UpdateResult:
        """Run the merge: one snapshot in which the clauses hold for every row; a job id is committed only once."""
        store = self.store.with_snapshot_properties(snapshot_properties)
        run, job = compacting_on(RayWorkers(self.settings)), JobRun.of(store, job_id)
        return change(store, replace(self, store=store).prepare(), operation="MERGE", run=run, job=job)

    def prepare(self) -> Prepare:
        """Check the merge, and return a function that prepares it on a snapshot without committing it."""
        source = Source(self.source, self.store.name)
        return prepare_merge(source, self.store, self.plan(source.schema), self.settings)


def merge(
    dataset: Dataset,
    table: FileStoreTable | Path,
    on: On,
    *,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> MergeBuilder:
    """Start a merge of a dataset into a table: add clauses, then `execute()`.

    `on` names columns that both have, or is a condition such as `t.id = s.id AND s.day > t.day`.
    """
    check_dataset(dataset)
    settings = WriteSettings.of(concurrency, ray_remote_args)
    return DatasetMerge(store=opened(table).store, source=dataset, on=on, settings=settings)


def upsert(  # noqa: PLR0913 - each argument is one choice of the caller
    dataset: Dataset,
    table: FileStoreTable | Path,
    keys: str | Sequence[str] | None = None,
    *,
    job_id: str | None = None,
    snapshot_properties: Properties | None = None,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> UpdateResult:
    """Update the rows whose keys the dataset has, and insert the rest of it; of equal keys in it the last counts.

    Columns that the dataset lacks stay as they are, and are null or their default in new rows. The keys of a
    primary-key table are its own; a dataset with all its columns is written without looking up rows, and the counts are
    None.
    """
    check_dataset(dataset)
    settings = WriteSettings.of(concurrency, ray_remote_args)
    store = opened(table, snapshot_properties).store
    names = upsert_keys(store, keys)
    run, job = compacting_on(RayWorkers(settings)), JobRun.of(store, job_id)
    source = Source(dataset, store.name)
    if store.schema.primary_keys:
        return change(store, _prepare_upsert(dataset, source, store, settings), operation="WRITE", run=run, job=job)
    plan = plan_upsert(store, source.schema, names)
    prepare = prepare_merge(source, store, plan, settings, newest=True)
    return change(store, prepare, operation="MERGE", run=run, job=job)


def prepare_merge(
    source: Source, store: TableStore, plan: MergePlan, settings: WriteSettings, *, newest: bool = False
) -> Prepare:
    """Check a merge, and return a function that prepares it on a snapshot without committing it."""
    if not store.schema.primary_keys:
        return partial(_prepare, source, Matching.of(store, plan, source.schema, newest=newest), settings)
    check_keyed_merge(store, plan)
    # A position counts the rows that are read, so both reads must use the same predicate.
    known = replace(plan, prunes=TRUE) if plan.by_source else plan
    return partial(_prepare_keyed, source, Matching.of(store, known, source.schema, newest=newest), settings)


def prepare_lookup(source: Source, store: TableStore, settings: WriteSettings) -> Prepare:
    """Check an upsert that looks rows up, and return a function that prepares it without committing it."""
    plan = checked_lookup(store, source.schema, frame="dataset", fetch=_FETCH)
    return prepare_merge(source, store, plan, settings, newest=True)


def _prepare_upsert(dataset: Dataset, source: Source, store: TableStore, settings: WriteSettings) -> Prepare:
    """Check an upsert into a primary-key table; rows are looked up if a write would change columns that it lacks."""
    if needs_lookup(store, source.schema.names):
        return prepare_lookup(source, store, settings)
    if source.schema.names:  # a dataset without blocks has no columns
        WriteJob.new(store).check_input(source.schema)

    def prepare(_base: Snapshot | None) -> Prepared:
        job = WriteJob.new(store)

        def work(_: TableStore) -> RayAnswers:
            return run_write(dataset, job, settings)

        verify = partial(verify_keyed, job, counted=False)
        run: Job[RayWork] = Job(store, job.write_id, work)
        prepared = prepare_job(RayWorkers(settings), run, verify)
        return replace(prepared, counted=not any(message.rows_in for message in prepared.messages))

    return prepare


# ---- append tables ---------------------------------------------------------------------------------------------------


def _prepare(source: Source, matching: Matching, settings: WriteSettings, base: Snapshot | None) -> Prepared:
    """Merge into a snapshot of an append table."""
    store, plan = matching.store, matching.plan

    def find(predicate: Predicate) -> list[DataSplit]:
        return [] if base is None else groups(store, base, predicate)

    matched = _matched(source, matching, settings, find)
    done, prepared = _inserted(matched, settings) if base is None else _changed(matched, base, settings)
    return guarded_merge(store, plan, prepared, done.inserted)


def _matched(source: Source, matching: Matching, settings: WriteSettings, find: FindGroups) -> Matched:
    with our_errors(), Tasks(settings, ProgressReport(None)) as tasks:
        return match(tasks, source, matching, find, at_once=settings.running_max)


def _inserted(matched: Matched, settings: WriteSettings) -> tuple[Changed, Prepared]:
    """Merge into a table that has no snapshot."""
    store, workers = matched.matching.store, RayWorkers(settings)
    job = WriteJob.new(store)
    task = inserting_rows(job, MergeTask(store, matched.matching.plan))
    done = insert_rows(workers, job, over_tasks(settings, task, matched.tasks))
    return done, Prepared(tuple(message for one in done.applied for message in one.messages), way=change_method(store))


def _changed(matched: Matched, base: Snapshot, settings: WriteSettings) -> tuple[Changed, Prepared]:
    """Merge into a snapshot."""
    store = matched.matching.store
    job = ChangeJob.on(store, base)
    known = with_all_columns(job, matched.parts)
    task = applying(known, MergeTask(store, matched.matching.plan, known.store), inserts=store)
    done = apply_changes(RayWorkers(settings), known, over_tasks(settings, task, matched.tasks))
    return done, fold_applied(job, done.applied)


# ---- primary-key tables ----------------------------------------------------------------------------------------------


def _prepare_keyed(source: Source, matching: Matching, settings: WriteSettings, base: Snapshot | None) -> Prepared:
    """Merge into a snapshot of a primary-key table."""
    store, plan = matching.store, matching.plan
    base = distribute_postponed(store, base)

    def find(predicate: Predicate) -> list[DataSplit]:
        splits = [] if base is None else merged_splits(store, base, predicate)
        return [part for split in splits for part in pieces(store, split)]

    matched = _matched(source, matching, settings, find)
    task = KeyedMergeTask(store, plan, single_threaded(keyed_job(store)), matched.matching.predicate)
    writers = min(settings.running_max, max(1, len(matched.tasks)))
    receivers = receivers_for(task.job, writers=writers, rows=matched.source_rows, assigners_max=settings.concurrency)

    def work(_: TableStore) -> RayAnswers:
        return _write_keyed(task, receivers, matched.tasks, settings)

    job: Job[RayWork] = Job(store, task.job.write_id, work)
    prepared = prepare_job(RayWorkers(settings), job, partial(verify_keyed, task.job))
    return guarded_keyed_merge(store, plan, prepared)


def _write_keyed(
    task: KeyedMergeTask, receivers: Receivers, inputs: Sequence[TaskRows], settings: WriteSettings
) -> RayAnswers:
    """Make rows with row kinds in tasks, and write them in others, each with buckets of its own."""
    shared, job, count = ray.put(task), ray.put(task.job), receivers.count
    rules = KeyedRules.of(task.store, upserts=task.plan.upserts)
    with Tasks(settings, ProgressReport(None)) as tasks:
        sent = [tasks.send(MAKE_ROWS, 2 * count, shared, receivers, one) for one in inputs]
        tasks.wait_for_sent()
        for number in range(count):
            changes, inserts = ([to[rank * count + number] for to in sent] for rank in (CHANGES, INSERTS))
            tasks.start(RECEIVE_COUNTED, job, number, receivers.assigner(number), changes, inserts, rules)
        return RayAnswers(tasks.finish())


def make_rows(task: KeyedMergeTask, receivers: Receivers, rows: TaskRows) -> list[Any]:
    """Return how many rows with row kinds a task made, and for each receiver its changes, then for each its inserts."""
    mode, count = task.store.schema.bucket_mode, receivers.count
    parts: list[list[pa.Table]] = [[] for _ in range(2 * count)]
    for rank, made in task.rows_by_rank(receivers, rows.grouped()):
        for group in made:
            parts[rank * count + receivers.of(group, mode)].append(group.rows)
    made_rows = sum(part.num_rows for tables in parts for part in tables)
    return [made_rows, *(pa.concat_tables(tables) if tables else None for tables in parts)]


MAKE_ROWS = ray.remote(make_rows)

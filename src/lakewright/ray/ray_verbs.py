"""Verbs of `lakewright.ray`, rows by id among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import ray
from ray.data import Dataset

from lakewright.catalog.catalog import Catalog
from lakewright.catalog.database_compaction import DatabaseCompaction, DatabaseRequest
from lakewright.commit.job_ids import JobRun
from lakewright.commit.table_commit import WriteResult
from lakewright.compact.compaction_job import CompactRequest, Strategy, compact_request
from lakewright.compact.compaction_rounds import CompactResult
from lakewright.compact.distributed_compaction import compaction_runner, sorting_on
from lakewright.dml import delete_update
from lakewright.dml.change_plan import ChangePlan
from lakewright.dml.change_runner import (
    GROUP,
    POSITION,
    Changes,
    MatchedRows,
    SnapshotGroups,
    run_change,
    verify_change,
)
from lakewright.dml.change_tasks import (
    CHANGES,
    INSERTS,
    KeyedMergeTask,
    MergeTask,
    guarded_keyed_merge,
    guarded_merge,
    source_name,
)
from lakewright.dml.delete_update import upsert_by_lookup
from lakewright.dml.distributed_write import (
    CommitTarget,
    earlier_write_result,
    new_job,
    new_publication,
    with_one_thread,
)
from lakewright.dml.incremental_jobs import IncrementalJob, TransformResult, run_incremental_job
from lakewright.dml.keyed_rules import KeyedChangeRules
from lakewright.dml.keyed_strategy import distribute_postponed, keyed_job, plan_merged_splits
from lakewright.dml.merge import MergeBuilder, check_keyed_merge
from lakewright.dml.merge_clauses import On
from lakewright.dml.row_changes import Prepare, PreparedChange, UpdateResult
from lakewright.dml.row_ids import (
    ID,
    GroupRanges,
    NewValues,
    RowIdChange,
    check_all_found,
    refuse_deleted,
    to_ids,
    value_name,
)
from lakewright.dml.row_location import locate_rows, select_groups, system_fields
from lakewright.dml.upsert import checked_lookup, needs_lookup, plan_upsert, upsert_keys
from lakewright.engine.engine import Job
from lakewright.engine.engine_job import run_tasks
from lakewright.engine.job_progress import ProgressCallback
from lakewright.errors import with_table_name
from lakewright.metadata.table_store import TableStore
from lakewright.ray.dataset_read import to_ray
from lakewright.ray.dataset_write import run_write, write_dataset
from lakewright.ray.ray_datasets import RaySource, check_dataset, fetched_schema
from lakewright.ray.ray_engine import (
    RECEIVE_COUNTED,
    ProgressReport,
    RayAnswers,
    RayEngine,
    RayWork,
    RayWriteSettings,
    Tasks,
    our_errors,
)
from lakewright.ray.row_joins import FindGroups, Matched, Matching, TaskRows, match, over_tasks
from lakewright.read.data_split import DataSplit
from lakewright.read.manifest_scan import FileSchemas
from lakewright.read.projection import plan_projection
from lakewright.read.split_sharing import cut_split
from lakewright.read.table_read import TableRead
from lakewright.read.time_travel import resolve_snapshot
from lakewright.spec import argument_checks
from lakewright.spec.argument_checks import DurationLike, PathLike, Properties, SchemaMode, WriteMode
from lakewright.spec.filters import Filter
from lakewright.spec.predicate import TRUE, Predicate
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.system_columns import ROW_ID
from lakewright.table.file_store_table import FileStoreTable, Partitions
from lakewright.table.open_table import to_table
from lakewright.table.verbs import add_missing_columns, check_call
from lakewright.write.row_shuffle import ShuffleTargets, receivers_for
from lakewright.write.table_writer import WriteJob

# ---- merge, upsert ---------------------------------------------------------------------------------------------------
# dataset --match--> tasks: source rows without a match, which are inserted, and groups of files with the source rows
#                        that match, decided and changed by the core's own code
#             --rows-->  for a primary-key table: rows with row kinds, to the tasks that write their buckets
#
# The dataset runs once, however many attempts there are, and its rows never come to the driver. What always holds:
# rows match exactly if they match embedded; rows that are inserted because they were absent are committed only if
# no other commit wrote meanwhile where they could have been written.

_FETCH = "pa.concat_tables(ray.get(dataset.to_arrow_refs()))"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetMerge(MergeBuilder):
    """A merge of a dataset of Ray."""

    source: Dataset
    settings: RayWriteSettings = field(default_factory=RayWriteSettings)

    def execute(self, *, job_id: str | None = None, snapshot_properties: Properties | None = None) -> UpdateResult:
        """Run the merge: one snapshot in which the clauses hold for every row; a job id is committed only once."""
        store = self.store.with_snapshot_properties(snapshot_properties)
        run, job = compaction_runner(RayEngine(self.settings)), JobRun.of(store, job_id)
        return run_change(store, replace(self, store=store).prepare(), operation="MERGE", run=run, job=job)

    def prepare(self) -> Prepare:
        """Check the merge, and return a function that prepares it on a snapshot without committing it."""
        source = RaySource(self.source, self.store.name)
        return prepare_merge(source, self.store, self.plan(source.schema), self.settings)


def merge(
    dataset: Dataset,
    table: FileStoreTable | PathLike,
    on: On,
    *,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> MergeBuilder:
    """Start a merge of a dataset into a table: add clauses, then `execute()`.

    `on` names columns that both have, or is a condition such as `t.id = s.id AND s.day > t.day`.
    """
    check_dataset(dataset)
    settings = RayWriteSettings.of(concurrency, ray_remote_args)
    return DatasetMerge(store=to_table(table).store, source=dataset, on=on, settings=settings)


def upsert(  # noqa: PLR0913 - each argument is one choice of the caller
    dataset: Dataset,
    table: FileStoreTable | PathLike,
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
    settings = RayWriteSettings.of(concurrency, ray_remote_args)
    store = to_table(table, snapshot_properties).store
    names = upsert_keys(store, keys)
    run, job = compaction_runner(RayEngine(settings)), JobRun.of(store, job_id)
    source = RaySource(dataset, store.name)
    if store.schema.primary_keys:
        return run_change(store, _prepare_upsert(dataset, source, store, settings), operation="WRITE", run=run, job=job)
    plan = plan_upsert(store, source.schema, names)
    prepare = prepare_merge(source, store, plan, settings, newest=True)
    return run_change(store, prepare, operation="MERGE", run=run, job=job)


def prepare_merge(
    source: RaySource, store: TableStore, plan: ChangePlan, settings: RayWriteSettings, *, newest: bool = False
) -> Prepare:
    """Check a merge, and return a function that prepares it on a snapshot without committing it."""
    if not store.schema.primary_keys:
        return partial(_prepare_merge, source, Matching.of(store, plan, source.schema, newest=newest), settings)
    check_keyed_merge(store, plan)
    # A position counts the rows that are read, so both reads must use the same predicate.
    known = replace(plan, prunes=TRUE) if plan.by_source else plan
    return partial(_prepare_keyed, source, Matching.of(store, known, source.schema, newest=newest), settings)


def prepare_lookup(source: RaySource, store: TableStore, settings: RayWriteSettings) -> Prepare:
    """Check an upsert that looks rows up, and return a function that prepares it without committing it."""
    plan = checked_lookup(store, source.schema, frame="dataset", fetch=_FETCH)
    return prepare_merge(source, store, plan, settings, newest=True)


def _prepare_upsert(dataset: Dataset, source: RaySource, store: TableStore, settings: RayWriteSettings) -> Prepare:
    """Check an upsert into a primary-key table; rows are looked up if a write would change columns that it lacks."""
    if needs_lookup(store, source.schema.names):
        return prepare_lookup(source, store, settings)
    if source.schema.names:  # a dataset without blocks has no columns
        WriteJob.new(store).check_input(source.schema)

    def prepare(_base: Snapshot | None) -> PreparedChange:
        job = WriteJob.new(store)

        def work(_: TableStore) -> RayAnswers:
            return run_write(dataset, job, settings)

        run: Job[RayWork] = Job(store, job.write_id, work)
        prepared = run_tasks(RayEngine(settings), run, partial(verify_change, job))
        return replace(prepared, counted=not any(message.rows_in for message in prepared.messages))

    return prepare


# ---- append tables ---------------------------------------------------------------------------------------------------


def _prepare_merge(
    source: RaySource, matching: Matching, settings: RayWriteSettings, base: Snapshot | None
) -> PreparedChange:
    """Merge into a snapshot of an append table."""
    store, plan = matching.store, matching.plan

    def find(predicate: Predicate) -> list[DataSplit]:
        return [] if base is None else select_groups(store, base, predicate)

    matched = _match_source(source, matching, settings, find)
    groups = SnapshotGroups(store, base, matched.parts)
    work = partial(over_tasks, settings, inputs=matched.tasks)
    return guarded_merge(store, plan, groups.change(RayEngine(settings), partial(MergeTask, store, plan), work))


def _match_source(source: RaySource, matching: Matching, settings: RayWriteSettings, find: FindGroups) -> Matched:
    with our_errors(), Tasks(settings, ProgressReport(None)) as tasks:
        return match(tasks, source, matching, find, at_once=settings.running_max)


# ---- primary-key tables ----------------------------------------------------------------------------------------------


def _prepare_keyed(
    source: RaySource, matching: Matching, settings: RayWriteSettings, base: Snapshot | None
) -> PreparedChange:
    """Merge into a snapshot of a primary-key table."""
    store, plan = matching.store, matching.plan
    base = distribute_postponed(store, base)

    def find(predicate: Predicate) -> list[DataSplit]:
        splits = [] if base is None else plan_merged_splits(store, base, predicate)
        return [part for split in splits for part in cut_split(store, split)]

    matched = _match_source(source, matching, settings, find)
    task = KeyedMergeTask(store, plan, with_one_thread(keyed_job(store)), matched.matching.predicate)
    writers = min(settings.running_max, max(1, len(matched.tasks)))
    receivers = receivers_for(task.job, writers=writers, rows=matched.source_rows, assigners_max=settings.concurrency)

    def work(_: TableStore) -> RayAnswers:
        return _write_keyed(task, receivers, matched.tasks, settings)

    job: Job[RayWork] = Job(store, task.job.write_id, work)
    prepared = run_tasks(RayEngine(settings), job, partial(verify_change, task.job))
    return guarded_keyed_merge(store, plan, prepared)


def _write_keyed(
    task: KeyedMergeTask, receivers: ShuffleTargets, inputs: Sequence[TaskRows], settings: RayWriteSettings
) -> RayAnswers:
    """Make rows with row kinds in tasks, and write them in others, each with buckets of its own."""
    shared, job, count = ray.put(task), ray.put(task.job), receivers.count
    rules = KeyedChangeRules.of(task.store, upserts=task.plan.upserts)
    with Tasks(settings, ProgressReport(None)) as tasks:
        sent = [tasks.send(MAKE_ROWS, 2 * count, shared, receivers, one) for one in inputs]
        tasks.wait_for_sent()
        for number in range(count):
            changes, inserts = ([to[rank * count + number] for to in sent] for rank in (CHANGES, INSERTS))
            tasks.start(RECEIVE_COUNTED, job, number, receivers.assigner(number), changes, inserts, rules)
        return RayAnswers(tasks.finish())


def make_rows(task: KeyedMergeTask, receivers: ShuffleTargets, rows: TaskRows) -> list[Any]:
    """Return how many rows with row kinds a task made, and for each receiver its changes, then for each its inserts."""
    mode, count = task.store.schema.bucket_mode, receivers.count
    parts: list[list[pa.Table]] = [[] for _ in range(2 * count)]
    for rank, made in task.rows_by_rank(receivers, rows.group_matches()):
        for group in made:
            parts[rank * count + receivers.of(group, mode)].append(group.rows)
    made_rows = sum(part.num_rows for tables in parts for part in tables)
    return [made_rows, *(pa.concat_tables(tables) if tables else None for tables in parts)]


MAKE_ROWS = ray.remote(make_rows)


# ---- write_table, read_table -----------------------------------------------------------------------------------------


def write_table(  # noqa: PLR0913 - each argument is one choice of the caller
    dataset: Dataset,
    table: FileStoreTable | PathLike,
    mode: WriteMode = "append",
    *,
    partitions: Mapping[str, object] | None = None,
    schema_mode: SchemaMode | None = None,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
    job_id: str | None = None,
    snapshot_properties: Properties | None = None,
    progress: bool | ProgressCallback | None = None,
) -> WriteResult:
    """Write a dataset with Ray's workers and commit it in one snapshot.

    `mode` is append, upsert, overwrite or delete, as in `lakewright.write_table`: on a table with a primary key a row
    replaces the row with its key, and of two rows of one dataset the later one wins; `delete` takes the keys of rows to
    delete. An overwrite replaces the partitions of the rows, or those that `partitions` names, or the whole
    unpartitioned table. `schema_mode="merge"` first adds the columns, and widens the types, that the table lacks; Ray
    may have to run a part of the dataset to find them.

    A write with a `job_id` is committed once: if it is run again, after a crash or by another driver, it finds its
    snapshot, writes nothing, and says so (`earlier_write_result`). The id is remembered for
    `lakewright.job-id.retention` (90 days).

    `concurrency` is the largest number of tasks that write at a time, and `ray_remote_args` are what `ray.remote` takes
    for them. `progress` is a callback, or False for no bars of Ray.
    """
    check_dataset(dataset)
    target = to_table(table, snapshot_properties)
    check_call(target, mode, partitions=partitions, schema_mode=schema_mode, concurrency=concurrency, progress=progress)
    settings = replace(RayWriteSettings.of(concurrency, ray_remote_args), progress=progress)
    run = None if job_id is None else JobRun.begin(target.store, job_id)
    if run is not None and run.earlier is not None:
        return earlier_write_result(target.store, run.earlier, run=compaction_runner(RayEngine(settings)))
    publication = new_publication(mode, partitions=partitions, run=run)
    if schema_mode == "merge":
        target = add_missing_columns(target, fetched_schema(dataset))
    columns = fetched_schema(dataset).names if mode == "upsert" else []  # a dataset without blocks has none
    if columns and needs_lookup(target.store, columns):
        prepare = prepare_lookup(RaySource(dataset, target.name), target.store, settings)
        return upsert_by_lookup(RayEngine(settings), target.store, prepare, run, progress)
    return write_dataset(dataset, new_job(target.store, mode, partitions=partitions), publication, settings)


# ---- transform -------------------------------------------------------------------------------------------------------


def transform(  # noqa: PLR0913 - each argument is one choice of the caller
    source: FileStoreTable | PathLike,
    fn: Callable[[Dataset], Dataset],
    target: FileStoreTable | PathLike,
    *,
    job_id: str,
    full_refresh: bool = False,
    commit_every: int | None = None,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> TransformResult:
    """Bring what changed in a table since the last run of a job into another table, each change once.

    `fn` gets a dataset of the changed rows and returns a dataset of rows for the target; it is called once for each
    commit, in this process. All else is as in `lakewright.transform`, and `concurrency` and `ray_remote_args` as in
    `write_table`.
    """
    settings = RayWriteSettings.of(concurrency, ray_remote_args)
    job = IncrementalJob.of(to_table(source).store, to_table(target).store, job_id)
    argument_checks.check_callable("fn", fn)
    return run_incremental_job(_OnRay(settings), job, fn, full_refresh=full_refresh, commit_every=commit_every)


@dataclass(frozen=True, slots=True)
class _OnRay:
    """Runs an incremental job on Ray's workers."""

    settings: RayWriteSettings

    def read(self, read: TableRead, splits: Sequence[DataSplit]) -> Dataset:
        return to_ray(read, splits)

    def column_names(self, frame: Dataset) -> Sequence[str]:
        check_dataset(frame)
        names: list[str] = fetched_schema(frame).names
        return names

    def write(self, frame: Dataset, job: WriteJob, publication: CommitTarget) -> WriteResult:
        return write_dataset(frame, job, publication, self.settings)


# ---- Changes by row id -----------------------------------------------------------------------------------------------
# ids -> the group of files whose rows have them (`match`) -> tasks that change or read these groups -> one commit
#
# Invariant: an id that is unknown or null, or in an update occurs twice or is deleted, is an error, and then
# nothing is committed. Rows are read by each id once; ids of deleted rows are ignored there, and by deletes.


def delete_by_row_id(
    dataset: Dataset,
    table: FileStoreTable | PathLike,
    *,
    job_id: str | None = None,
    snapshot_properties: Properties | None = None,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> UpdateResult:
    """Delete the rows whose ids a dataset has in its column `_ROW_ID`; rows that are deleted already are ignored."""
    settings = RayWriteSettings.of(concurrency, ray_remote_args)
    store, source = _check_source(dataset, table, snapshot_properties)
    to_ids(store, source.schema.empty_table())
    prepare = partial(_prepare_row_ids, RowIdChange(store), source, settings)
    return run_change(store, prepare, operation="DELETE", job=JobRun.of(store, job_id))


def update_by_row_id(  # noqa: PLR0913 - each argument is one choice of the caller
    dataset: Dataset,
    table: FileStoreTable | PathLike,
    columns: str | Sequence[str] | None = None,
    *,
    job_id: str | None = None,
    snapshot_properties: Properties | None = None,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> UpdateResult:
    """Set columns of rows by id: a dataset has `_ROW_ID` and the columns to set, named by `columns` if it has more."""
    settings = RayWriteSettings.of(concurrency, ray_remote_args)
    store, source = _check_source(dataset, table, snapshot_properties)
    wanted = argument_checks.check_optional(argument_checks.check_names, "columns", columns)
    names = tuple(NewValues.of(store, source.schema.empty_table(), wanted).values.column_names)
    prepare = partial(_prepare_row_ids, RowIdChange(store, names), source, settings)
    return run_change(store, prepare, operation="UPDATE", job=JobRun.of(store, job_id))


def read_by_row_id(
    dataset: Dataset,
    table: FileStoreTable | PathLike,
    columns: str | Sequence[str] | None = None,
    *,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> Dataset:
    """Read the rows whose ids a dataset has in its column `_ROW_ID`, as a dataset of the columns and `_ROW_ID`.

    Each row is there once, however often its id is; ids of deleted rows are ignored, and unknown ids are an error. The
    rows are in no promised order. The snapshot is the newest, unless an option of the table names another.
    """
    settings = RayWriteSettings.of(concurrency, ray_remote_args)
    store, source = _check_source(dataset, table)
    to_ids(store, source.schema.empty_table())
    asked = argument_checks.check_optional(argument_checks.check_names, "columns", columns) or store.schema.field_names
    names = [*(name for name in dict.fromkeys(asked) if name != ROW_ID.name), ROW_ID.name]
    with with_table_name(store.name):
        schema = plan_projection(store.schema.fields, names, TRUE, hidden=system_fields(store)).schema
    matched, ranges = _match_row_ids(
        source, Matching.by_id(store, source.schema, newest=True), settings, resolve_snapshot(store)
    )
    task = ray.put(_Reading(store, tuple(names), ranges))
    with our_errors(), Tasks(settings, ProgressReport(None)) as tasks:
        made = [tasks.send(READ_ROWS, 1, task, rows)[0] for rows in matched.tasks]
        tasks.wait_for_sent()
    blocks: list[Any] = [ray.put(schema.empty_table()), *made]
    read: Dataset = ray.data.from_arrow_refs(blocks)
    return read


# ---- on the driver ---------------------------------------------------------------------------------------------------


def _check_source(
    dataset: Dataset, table: FileStoreTable | PathLike, snapshot_properties: Properties | None = None
) -> tuple[TableStore, RaySource]:
    check_dataset(dataset)
    store = to_table(table, snapshot_properties).store
    return store, RaySource(dataset, store.name)


def _match_row_ids(
    source: RaySource, matching: Matching, settings: RayWriteSettings, base: Snapshot | None
) -> tuple[Matched, GroupRanges]:
    """Match ids with the groups of a snapshot, and return the ranges of ids of these groups."""
    found: list[DataSplit] = []

    def find(predicate: Predicate) -> list[DataSplit]:
        found.extend([] if base is None else select_groups(matching.store, base, predicate))
        return found

    with our_errors(), Tasks(settings, ProgressReport(None)) as tasks:
        matched = match(tasks, source, matching, find, at_once=settings.running_max)
    return matched, GroupRanges.of(found)


def _prepare_row_ids(
    work: RowIdChange, source: RaySource, settings: RayWriteSettings, base: Snapshot | None
) -> PreparedChange:
    """Change rows of a snapshot."""
    store = work.store
    matched, ranges = _match_row_ids(source, Matching.by_id(store, source.schema, work.names), settings, base)
    if base is None:
        with our_errors(), Tasks(settings, ProgressReport(None)) as tasks:
            for rows in matched.tasks:  # which refuse their ids: all of them are unknown
                tasks.send(READ_ROWS, 1, _Reading(store, (ROW_ID.name,), ranges), rows)
            tasks.wait_for_sent()
        return PreparedChange()
    return SnapshotGroups(store, base, matched.parts).change(
        RayEngine(settings),
        lambda written: _Changing(work.writing(written), ranges),
        partial(over_tasks, settings, inputs=matched.tasks),
    )


# ---- on a worker -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Changing:
    """Names the columns that a task gets as `RowIdChange` takes them, and looks at ids that match no live row."""

    work: RowIdChange
    ranges: GroupRanges

    def __call__(self, rows: MatchedRows) -> Changes:
        return self.work(self._rename_columns(rows))

    def _rename_columns(self, rows: MatchedRows) -> Iterator[tuple[DataSplit, list[pa.RecordBatch]]]:
        names = [GROUP, POSITION, ID, *(value_name(at) for at in range(len(self.work.names)))]
        for part, batches in rows:
            given = pa.Table.from_batches(list(batches)).rename_columns(names)
            if part is None:
                deleted = _deleted_ids(self.work.store, self.ranges, given.column(ID))
                if self.work.names:
                    refuse_deleted(self.work.store, deleted)
                continue
            if given.num_rows:
                order = np.argsort(given.column(ID).to_numpy(), kind="stable")
                yield part, given.take(pa.array(order)).to_batches()


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reads columns of the rows that a task gets."""

    store: TableStore
    columns: tuple[str, ...]
    ranges: GroupRanges

    def __call__(self, rows: MatchedRows) -> Iterator[pa.Table]:
        schemas = FileSchemas(self.store)
        for part, batches in rows:
            given = pa.Table.from_batches(list(batches))
            if part is None:
                _deleted_ids(self.store, self.ranges, given.column(source_name(0)))
                continue
            wanted = given.column(POSITION).to_numpy()
            for located in locate_rows(self.store, part, self.columns, schemas=schemas) if len(wanted) else ():
                keep = np.isin(located.positions, wanted)
                if keep.any():
                    yield pa.Table.from_batches([located.rows.filter(pa.array(keep))])


def _deleted_ids(store: TableStore, ranges: GroupRanges, ids: pa.ChunkedArray) -> np.ndarray:
    """Return the ids of deleted rows among ids that match no live row; refuse the others, which are null or unknown."""
    column = pa.concat_arrays([pa.array([], pa.int64()), *(chunk.cast(pa.int64()) for chunk in ids.chunks)])
    group = ranges.find(column)
    check_all_found(store, column.filter(group.is_null()))
    return np.unique(column.to_numpy())


def read_rows(task: _Reading, rows: TaskRows) -> list[Any]:
    """Return how many rows a task read, and these rows."""
    schema = plan_projection(
        task.store.schema.fields, list(task.columns), TRUE, hidden=system_fields(task.store)
    ).schema
    table = pa.concat_tables([schema.empty_table(), *task(rows.group_matches())])
    return [table.num_rows, table]


READ_ROWS = ray.remote(read_rows)


# ---- delete, update, compact -----------------------------------------------------------------------------------------


def delete(
    table: FileStoreTable | PathLike,
    where: Filter,
    *,
    job_id: str | None = None,
    snapshot_properties: Properties | None = None,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> UpdateResult:
    """Delete the rows that fulfil a condition; the text `true` means all of them. With a job id, once.

    `concurrency` is the largest number of tasks that run at a time, and `ray_remote_args` are what `ray.remote` takes
    for them; so it is for every verb here.
    """
    workers = RayEngine(RayWriteSettings.of(concurrency, ray_remote_args))
    store = to_table(table, snapshot_properties).store
    return delete_update.delete(store, where, job_id=job_id, workers=workers)


def update(  # noqa: PLR0913 - each argument is one choice of the caller
    table: FileStoreTable | PathLike,
    assignments: Mapping[str, object],
    where: Filter | None = None,
    *,
    job_id: str | None = None,
    snapshot_properties: Properties | None = None,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> UpdateResult:
    """Give columns new values in the rows that fulfil a condition; without one in all rows. With a job id, once."""
    workers = RayEngine(RayWriteSettings.of(concurrency, ray_remote_args))
    store = to_table(table, snapshot_properties).store
    return delete_update.update(store, assignments, where, job_id=job_id, workers=workers)


def compact(  # noqa: PLR0913 - each argument is one choice of the caller
    table: FileStoreTable | PathLike,
    *,
    full: bool = False,
    partitions: Partitions | None = None,
    where: Filter | None = None,
    order_by: str | Sequence[str] | None = None,
    strategy: Strategy | None = None,
    idle: DurationLike | None = None,
    dry_run: bool = False,
    snapshot_properties: Properties | None = None,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> CompactResult:
    """Merge files where it is worth it, on Ray's workers; with `full`, all that can be: see `table.compact`."""
    settings = RayWriteSettings.of(concurrency, ray_remote_args)
    request = CompactRequest(full, partitions, where, order_by, strategy, idle, dry_run)
    return _compact(settings, to_table(table, snapshot_properties), request)


def compact_database(  # noqa: PLR0913 - each argument is one choice of the caller
    catalog: Catalog,
    database: str | None = None,
    *,
    including: str | None = None,
    excluding: str | None = None,
    full: bool = False,
    idle: DurationLike | None = None,
    dry_run: bool = False,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> DatabaseCompaction:
    """Compact the tables of a database, or of all, on Ray's workers: see `lakewright.compact_database`."""
    settings = RayWriteSettings.of(concurrency, ray_remote_args)
    request = DatabaseRequest(database, including, excluding, full, idle, dry_run)
    return request.run(catalog, partial(_compact, settings))


def _compact(settings: RayWriteSettings, table: FileStoreTable, request: CompactRequest) -> CompactResult:
    store = table.refreshed().store
    return compact_request(store, request.check_arguments(store), sorting_on(RayEngine(settings)))

"""Rows by their ids on Ray: a dataset with `_ROW_ID` in; one snapshot with changed rows, or a dataset of rows, out.

    ids -> the group of files whose rows have them (`match`) -> tasks that change or read these groups -> one commit

What always holds: an id that is unknown or null, or in an update occurs twice or is deleted, is an error, and then
nothing is committed. Rows are read by each id once; ids of deleted rows are ignored there, and by deletes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import ray
from ray.data import Dataset

from lakewright.catalog.open import opened
from lakewright.distributed.rows.groups import GROUP, POSITION, Changes, GroupedRows, apply_changes, applying
from lakewright.distributed.rows.merge import source_name
from lakewright.distributed.rows.row_ids import ID, GroupRanges, RowIdChange, check_all_found, value_name
from lakewright.errors import naming
from lakewright.metadata.store import TableStore
from lakewright.ray.datasets import check_dataset
from lakewright.ray.rows.groups import over_tasks
from lakewright.ray.rows.match import Matched, Matching, TaskRows, match
from lakewright.ray.rows.source import Source
from lakewright.ray.tasks import ProgressReport, RayWorkers, Tasks, WriteSettings, our_errors
from lakewright.read.projection import ROW_ID, plan_projection
from lakewright.read.scan import FileSchemas, pick_snapshot
from lakewright.read.splits.split import DataSplit
from lakewright.spec import arguments
from lakewright.spec.arguments import Path, Properties
from lakewright.spec.predicate.predicate import TRUE, Predicate
from lakewright.spec.snapshot import Snapshot
from lakewright.table.table import FileStoreTable
from lakewright.update.change import ChangeJob
from lakewright.update.find import groups, hidden_fields, locate
from lakewright.update.result import UpdateResult
from lakewright.update.row_ids import NewValues, refuse_deleted, to_ids
from lakewright.update.run import Prepared, change, fold_applied, with_all_columns
from lakewright.write.job_run import JobRun


def delete_by_row_id(
    dataset: Dataset,
    table: FileStoreTable | Path,
    *,
    job_id: str | None = None,
    snapshot_properties: Properties | None = None,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> UpdateResult:
    """Delete the rows whose ids a dataset has in its column `_ROW_ID`; rows that are deleted already are ignored."""
    settings = WriteSettings.of(concurrency, ray_remote_args)
    store, source = _checked(dataset, table, snapshot_properties)
    to_ids(store, source.schema.empty_table())
    prepare = partial(_prepare, RowIdChange(store), source, settings)
    return change(store, prepare, operation="DELETE", job=JobRun.of(store, job_id))


def update_by_row_id(  # noqa: PLR0913 - each argument is one choice of the caller
    dataset: Dataset,
    table: FileStoreTable | Path,
    columns: str | Sequence[str] | None = None,
    *,
    job_id: str | None = None,
    snapshot_properties: Properties | None = None,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> UpdateResult:
    """Set columns of rows by id: a dataset has `_ROW_ID` and the columns to set, named by `columns` if it has more."""
    settings = WriteSettings.of(concurrency, ray_remote_args)
    store, source = _checked(dataset, table, snapshot_properties)
    wanted = arguments.optional(arguments.names, "columns", columns)
    names = tuple(NewValues.of(store, source.schema.empty_table(), wanted).values.column_names)
    prepare = partial(_prepare, RowIdChange(store, names), source, settings)
    return change(store, prepare, operation="UPDATE", job=JobRun.of(store, job_id))


def read_by_row_id(
    dataset: Dataset,
    table: FileStoreTable | Path,
    columns: str | Sequence[str] | None = None,
    *,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> Dataset:
    """Read the rows whose ids a dataset has in its column `_ROW_ID`, as a dataset of the columns and `_ROW_ID`.

    Each row is there once, however often its id is; ids of deleted rows are ignored, and unknown ids are an error. The
    rows are in no promised order. The snapshot is the newest, unless an option of the table names another.
    """
    settings = WriteSettings.of(concurrency, ray_remote_args)
    store, source = _checked(dataset, table)
    to_ids(store, source.schema.empty_table())
    asked = arguments.optional(arguments.names, "columns", columns) or store.schema.field_names
    names = [*(name for name in dict.fromkeys(asked) if name != ROW_ID.name), ROW_ID.name]
    with naming(store.name):
        schema = plan_projection(store.schema.fields, names, TRUE, hidden=hidden_fields(store)).schema
    matched, ranges = _matched(
        source, Matching.by_id(store, source.schema, newest=True), settings, pick_snapshot(store)
    )
    task = ray.put(_Reading(store, tuple(names), ranges))
    with our_errors(), Tasks(settings, ProgressReport(None)) as tasks:
        made = [tasks.send(READ_ROWS, 1, task, rows)[0] for rows in matched.tasks]
        tasks.wait_for_sent()
    blocks: list[Any] = [ray.put(schema.empty_table()), *made]
    read: Dataset = ray.data.from_arrow_refs(blocks)
    return read


# ---- on the driver ---------------------------------------------------------------------------------------------------


def _checked(
    dataset: Dataset, table: FileStoreTable | Path, snapshot_properties: Properties | None = None
) -> tuple[TableStore, Source]:
    check_dataset(dataset)
    store = opened(table, snapshot_properties).store
    return store, Source(dataset, store.name)


def _matched(
    source: Source, matching: Matching, settings: WriteSettings, base: Snapshot | None
) -> tuple[Matched, GroupRanges]:
    """Match ids with the groups of a snapshot, and return the ranges of ids of these groups."""
    found: list[DataSplit] = []

    def find(predicate: Predicate) -> list[DataSplit]:
        found.extend([] if base is None else groups(matching.store, base, predicate))
        return found

    with our_errors(), Tasks(settings, ProgressReport(None)) as tasks:
        matched = match(tasks, source, matching, find, at_once=settings.running_max)
    return matched, GroupRanges.of(found)


def _prepare(work: RowIdChange, source: Source, settings: WriteSettings, base: Snapshot | None) -> Prepared:
    """Change rows of a snapshot."""
    store = work.store
    matched, ranges = _matched(source, Matching.by_id(store, source.schema, work.names), settings, base)
    if base is None:
        with our_errors(), Tasks(settings, ProgressReport(None)) as tasks:
            for rows in matched.tasks:  # which refuse their ids: all of them are unknown
                tasks.send(READ_ROWS, 1, _Reading(store, (ROW_ID.name,), ranges), rows)
            tasks.wait_for_sent()
        return Prepared()
    job = ChangeJob.on(store, base)
    known = with_all_columns(job, matched.parts)
    task = applying(known, _Changing(work.writing(known.store), ranges))
    return fold_applied(
        job, apply_changes(RayWorkers(settings), known, over_tasks(settings, task, matched.tasks)).applied
    )


# ---- on a worker -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Changing:
    """Names the columns that a task gets as `RowIdChange` takes them, and looks at ids that match no live row."""

    work: RowIdChange
    ranges: GroupRanges

    def __call__(self, rows: GroupedRows) -> Changes:
        return self.work(self._named(rows))

    def _named(self, rows: GroupedRows) -> Iterator[tuple[DataSplit, list[pa.RecordBatch]]]:
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

    def __call__(self, rows: GroupedRows) -> Iterator[pa.Table]:
        schemas = FileSchemas(self.store)
        for part, batches in rows:
            given = pa.Table.from_batches(list(batches))
            if part is None:
                _deleted_ids(self.store, self.ranges, given.column(source_name(0)))
                continue
            wanted = given.column(POSITION).to_numpy()
            for located in locate(self.store, part, self.columns, schemas=schemas) if len(wanted) else ():
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
        task.store.schema.fields, list(task.columns), TRUE, hidden=hidden_fields(task.store)
    ).schema
    table = pa.concat_tables([schema.empty_table(), *task(rows.grouped())])
    return [table.num_rows, table]


READ_ROWS = ray.remote(read_rows)

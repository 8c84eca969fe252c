"""One call to write a dataset: a dataset and a mode in, one snapshot out, like `lakewright.write_table` embedded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ray.data import Dataset

from lakewright.calls import ProgressCallback, merged_table
from lakewright.catalog.open import opened
from lakewright.commit.table_commit import WriteResult
from lakewright.distributed.call import check_call
from lakewright.distributed.compaction import compacting_on
from lakewright.distributed.rows.verbs import upsert_by_lookup
from lakewright.distributed.write import replayed
from lakewright.distributed.write_job import new_job, new_publication
from lakewright.ray.datasets import check_dataset, fetched_schema
from lakewright.ray.rows.merge import prepare_lookup
from lakewright.ray.rows.source import Source
from lakewright.ray.tasks import RayWorkers, WriteSettings
from lakewright.ray.write import write_dataset
from lakewright.spec.arguments import Path, Properties, SchemaMode, WriteMode
from lakewright.table.table import FileStoreTable
from lakewright.update.merge.upsert import needs_lookup
from lakewright.write.job_run import JobRun


def write_table(  # noqa: PLR0913 - each argument is one choice of the caller
    dataset: Dataset,
    table: FileStoreTable | Path,
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
    snapshot, writes nothing, and says so (`replayed`). The id is remembered for
    `lakewright.job-id.retention` (90 days).

    `concurrency` is the largest number of tasks that write at a time, and `ray_remote_args` are what `ray.remote` takes
    for them. `progress` is a callback, or False for no bars of Ray.
    """
    check_dataset(dataset)
    target = opened(table, snapshot_properties)
    check_call(target, mode, partitions=partitions, schema_mode=schema_mode, concurrency=concurrency, progress=progress)
    settings = replace(WriteSettings.of(concurrency, ray_remote_args), progress=progress)
    run = None if job_id is None else JobRun.begin(target.store, job_id)
    if run is not None and run.earlier is not None:
        return replayed(target.store, run.earlier, run=compacting_on(RayWorkers(settings)))
    publication = new_publication(mode, partitions=partitions, run=run)
    if schema_mode == "merge":
        target = merged_table(target, fetched_schema(dataset))
    columns = fetched_schema(dataset).names if mode == "upsert" else []  # a dataset without blocks has none
    if columns and needs_lookup(target.store, columns):
        prepare = prepare_lookup(Source(dataset, target.name), target.store, settings)
        return upsert_by_lookup(RayWorkers(settings), target.store, prepare, run, progress)
    return write_dataset(dataset, new_job(target.store, mode, partitions=partitions), publication, settings)

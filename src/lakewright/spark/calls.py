"""One call to write a frame: a frame and a mode in, one snapshot out, as `lakewright.write_table` has it embedded."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame

from lakewright.calls import ProgressCallback, merged_table
from lakewright.catalog.open import opened
from lakewright.commit.table_commit import WriteResult
from lakewright.distributed.call import check_call
from lakewright.distributed.rows.verbs import upsert_by_lookup
from lakewright.distributed.write import replayed
from lakewright.distributed.write_job import new_job, new_publication
from lakewright.spark.jobs.types import arrow_schema_of
from lakewright.spark.jobs.workers import SparkWorkers
from lakewright.spark.rows.primary_key_merge import prepare_lookup
from lakewright.spark.write.compaction import compacting_on
from lakewright.spark.write.frame import WriteSettings, check_frame, write_frame
from lakewright.spark.write.shuffle import check_distribution
from lakewright.spec.arguments import Distribution, Path, Properties, SchemaMode, WriteMode
from lakewright.table.table import FileStoreTable
from lakewright.update.merge.upsert import needs_lookup
from lakewright.write.job_run import JobRun


def write_table(  # noqa: PLR0913 - each argument is one choice of the caller
    df: DataFrame,
    table: FileStoreTable | Path,
    mode: WriteMode = "append",
    *,
    partitions: Mapping[str, object] | None = None,
    schema_mode: SchemaMode | None = None,
    concurrency: int | None = None,
    job_id: str | None = None,
    snapshot_properties: Properties | None = None,
    progress: bool | ProgressCallback | None = None,
    distribution: Distribution | None = None,
) -> WriteResult:
    """Write a frame with Spark's workers and commit it in one snapshot.

    `mode` is append, upsert, overwrite or delete, as in `lakewright.write_table`: on a table with a primary key a row
    replaces the row with its key, and of two rows of one frame the later one wins; `delete` takes the keys of rows to
    delete. An overwrite replaces the partitions of the rows, or those that `partitions` names, or the whole
    unpartitioned table. `schema_mode="merge"` first adds the columns, and widens the types, that the table lacks.

    A write with a `job_id` is committed once: if it is run again, after a crash or by another driver, it finds its
    snapshot, writes nothing, and says so (`replayed`). The id is remembered for
    `lakewright.job-id.retention` (90 days).

    `concurrency` is the largest number of tasks that write, `distribution` how rows are brought together for them, and
    `progress` a callback, or False for no bar.
    """
    check_frame(df)
    target = opened(table, snapshot_properties)
    check_call(target, mode, partitions=partitions, schema_mode=schema_mode, concurrency=concurrency, progress=progress)
    check_distribution(new_job(target.store, mode, partitions=partitions), distribution)
    run = None if job_id is None else JobRun.begin(target.store, job_id)
    if run is not None and run.earlier is not None:
        return replayed(target.store, run.earlier, run=compacting_on(df.sparkSession))
    publication = new_publication(mode, partitions=partitions, run=run)
    if schema_mode == "merge":
        target = merged_table(target, _nullable(arrow_schema_of(df.schema)))
    settings = WriteSettings(concurrency, distribution, progress)
    if mode == "upsert" and needs_lookup(target.store, arrow_schema_of(df.schema).names):
        prepare = prepare_lookup(df, target.store, concurrency)
        return upsert_by_lookup(SparkWorkers(df.sparkSession), target.store, prepare, run, progress)
    return write_frame(df, new_job(target.store, mode, partitions=partitions), publication, settings)


def _nullable(schema: pa.Schema) -> pa.Schema:
    """Return the columns as a table that has rows already can take them up."""
    return pa.schema([field.with_nullable(True) for field in schema])  # noqa: FBT003 - Arrow's own argument

"""Changes by row id on Spark: a frame with `_ROW_ID` in, one snapshot without those rows or with new values out.

    ids -> the group of files whose range or id column has them -> tasks -> one commit

If the ids of a group follow from its first one, workers find the group by its range of ids; rows that were moved are
found by a join with the id columns of their files. What always holds: an id that is unknown or null, or in an update
occurs twice or is deleted, is an error, and then nothing is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import IntegerType

from lakewright.catalog.open import opened
from lakewright.distributed.rows.groups import GROUP, POSITION
from lakewright.distributed.rows.row_ids import ID, NAMED_MAX, GroupRanges, RowIdChange, check_all_found, value_name
from lakewright.metadata.store import TableStore
from lakewright.read.projection import ROW_ID
from lakewright.read.splits.split import DataSplit
from lakewright.spark.jobs.estimate import size_of
from lakewright.spark.jobs.frames import with_column
from lakewright.spark.jobs.types import arrow_schema_of
from lakewright.spark.rows.group_rows import (
    TASK,
    changed_groups,
    column_name,
    located_rows,
    shuffle_by_group,
    task_count,
)
from lakewright.spark.write.frame import check_frame
from lakewright.spec.arguments import Path, Properties
from lakewright.spec.snapshot import Snapshot
from lakewright.table.table import FileStoreTable
from lakewright.update.change import ChangeJob
from lakewright.update.find import groups
from lakewright.update.result import UpdateResult
from lakewright.update.row_ids import (
    NewValues,
    has_id_column,
    to_ids,
)
from lakewright.update.run import Prepared, change, fold_applied, with_all_columns
from lakewright.write.job_run import JobRun


def delete_by_row_id(
    df: DataFrame,
    table: FileStoreTable | Path,
    *,
    job_id: str | None = None,
    snapshot_properties: Properties | None = None,
) -> UpdateResult:
    """Delete the rows whose ids a frame has in its column `_ROW_ID`; rows that are deleted already are ignored."""
    store, schema = _checked(df, table, snapshot_properties)
    to_ids(store, schema.empty_table())
    return change(store, partial(_prepare, RowIdChange(store), df), operation="DELETE", job=JobRun.of(store, job_id))


def update_by_row_id(
    df: DataFrame,
    table: FileStoreTable | Path,
    columns: Sequence[str] | None = None,
    *,
    job_id: str | None = None,
    snapshot_properties: Properties | None = None,
) -> UpdateResult:
    """Set columns of rows by id: a frame has `_ROW_ID` and the columns to set; `columns` names them if it has more."""
    store, schema = _checked(df, table, snapshot_properties)
    names = tuple(NewValues.of(store, schema.empty_table(), columns).values.column_names)
    return change(
        store, partial(_prepare, RowIdChange(store, names), df), operation="UPDATE", job=JobRun.of(store, job_id)
    )


def _checked(
    df: DataFrame, table: FileStoreTable | Path, snapshot_properties: Properties | None = None
) -> tuple[TableStore, pa.Schema]:
    check_frame(df)
    store = opened(table, snapshot_properties).store
    return store, arrow_schema_of(df.schema)


# ---- on the driver ---------------------------------------------------------------------------------------------------


def _prepare(work: RowIdChange, df: DataFrame, base: Snapshot | None) -> Prepared:
    """Change rows of a snapshot."""
    spark, store = df.sparkSession, work.store
    if base is None:
        some = _by_index(df, work.names).select(ID).limit(NAMED_MAX).collect()
        check_all_found(store, pa.array([row[0] for row in some], pa.int64()))
        return Prepared()
    parts = groups(store, base)
    job = ChangeJob.on(store, base)
    known = with_all_columns(job, parts)
    frame = _with_groups(store, _by_index(df, work.names), parts)
    # Ids without a group go to one task, which raises the error for all of them.
    frame = shuffle_by_group(
        frame.select("*", F.lit(0).alias(TASK)), parts, task_count(spark, store, parts, size_of(df)), ID
    )
    return fold_applied(job, changed_groups(frame, known, work.writing(known.store)).applied)


def _by_index(df: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return the ids and the new values of a frame, with columns named by their index."""
    names = df.columns
    frame = df.toDF(*(f"c{at}" for at in range(len(names))))
    values = [F.col(f"c{names.index(name)}").alias(value_name(at)) for at, name in enumerate(columns)]
    return frame.select(F.col(f"c{names.index(ROW_ID.name)}").cast("bigint").alias(ID), *values)


def _with_groups(store: TableStore, frame: DataFrame, parts: Sequence[DataSplit]) -> DataFrame:
    """Return ids with the group of each, and the position if it does not follow from the range of the group."""
    moved = {number: part for number, part in enumerate(parts) if has_id_column(part)}
    frame = with_column(frame, GROUP, IntegerType(), _group_finder(GroupRanges.of(parts)), ID)
    if not moved:
        return frame.select("*", F.lit(None).cast("bigint").alias(POSITION))
    # An updated row may be deleted in its old file, and have moved to another file with its id.
    known = located_rows(frame.sparkSession, store, moved, [ROW_ID.name])
    known = known.select(F.col(column_name(0)).alias("moved_id"), F.col(GROUP).alias("moved"), POSITION)
    frame = frame.join(known, F.col(ID) == F.col("moved_id"), "left")
    return frame.withColumn(GROUP, F.coalesce(F.col("moved"), F.col(GROUP))).drop("moved_id", "moved")


def _group_finder(ranges: GroupRanges) -> Callable[[pa.Array], pa.Array]:
    """Return a function that finds the groups of ids; Spark reads the hints of a plain function."""

    def find(ids: pa.Array) -> pa.Array:
        return ranges.find(ids)

    return find

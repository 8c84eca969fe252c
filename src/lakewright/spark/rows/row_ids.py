"""Changes by row id on Spark: a frame with `_ROW_ID` in, one snapshot without those rows or with new values out.

    ids -> the group of files whose range or id column has them -> tasks -> one commit

If the ids of a group follow from its first one, workers find the group by its range of ids; rows that were moved are
found by a join with the id columns of their files. What always holds: an id that is unknown or null, or in an update
occurs twice or is deleted, is an error, and then nothing is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.functions import arrow_udf

from lakewright.catalog.open import opened
from lakewright.errors import InvalidInputError
from lakewright.metadata.store import TableStore
from lakewright.read.projection import ROW_ID
from lakewright.read.splits.split import DataSplit
from lakewright.spark.jobs.estimate import size_of
from lakewright.spark.jobs.types import arrow_schema_of
from lakewright.spark.rows.file_groups import apply_changes
from lakewright.spark.rows.group_rows import (
    GROUP,
    POSITION,
    TASK,
    column_name,
    located_rows,
    shuffle_by_group,
    split_by_group,
    task_count,
)
from lakewright.spark.write.frame import check_frame
from lakewright.spec.arguments import Path
from lakewright.spec.snapshot import Snapshot
from lakewright.table.table import FileStoreTable
from lakewright.update.change import ChangeJob, GroupChange
from lakewright.update.find import groups
from lakewright.update.result import UpdateResult
from lakewright.update.row_ids import (
    NewValues,
    check_live,
    has_id_column,
    live_positions,
    refuse_unknown,
    to_ids,
)
from lakewright.update.run import Prepared, change, check_columns_unchanged, fold_applied, with_all_columns
from lakewright.write.job_run import JobRun

_ID = "id"
_NAMED_MAX = 6  # ids that come to the driver, to be named in an error


def delete_by_row_id(df: DataFrame, table: FileStoreTable | Path, *, job_id: str | None = None) -> UpdateResult:
    """Delete the rows whose ids a frame has in its column `_ROW_ID`; rows that are deleted already are ignored."""
    store, schema = _checked(df, table)
    to_ids(store, schema.empty_table())
    return change(store, partial(_prepare, _Change(store), df), operation="DELETE", job=JobRun.of(store, job_id))


def update_by_row_id(
    df: DataFrame,
    table: FileStoreTable | Path,
    columns: Sequence[str] | None = None,
    *,
    job_id: str | None = None,
) -> UpdateResult:
    """Set columns of rows by id: a frame has `_ROW_ID` and the columns to set; `columns` names them if it has more."""
    store, schema = _checked(df, table)
    names = tuple(NewValues.of(store, schema.empty_table(), columns).values.column_names)
    return change(store, partial(_prepare, _Change(store, names), df), operation="UPDATE", job=JobRun.of(store, job_id))


def _checked(df: DataFrame, table: FileStoreTable | Path) -> tuple[TableStore, pa.Schema]:
    check_frame(df)
    store = opened(table).store
    return store, arrow_schema_of(df.schema)


# ---- on the driver ---------------------------------------------------------------------------------------------------


def _prepare(work: _Change, df: DataFrame, base: Snapshot | None) -> Prepared:
    """Change rows of a snapshot."""
    spark, store = df.sparkSession, work.store
    if base is None:
        some = _by_index(df, work.names).select(_ID).limit(_NAMED_MAX).collect()
        _check_all_found(store, pa.array([row[0] for row in some], pa.int64()))
        return Prepared()
    parts = groups(store, base)
    job = ChangeJob.on(store, base)
    known = with_all_columns(job, parts)
    frame = _with_groups(store, _by_index(df, work.names), parts)
    # Ids without a group go to one task, which raises the error for all of them.
    frame = shuffle_by_group(
        frame.select("*", F.lit(0).alias(TASK)), parts, task_count(spark, store, parts, size_of(df)), _ID
    )
    return fold_applied(job, apply_changes(spark, frame, known, work.writing(known.store)).applied)


def _by_index(df: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return the ids and the new values of a frame, with columns named by their index."""
    names = df.columns
    frame = df.toDF(*(f"c{at}" for at in range(len(names))))
    values = [F.col(f"c{names.index(name)}").alias(_value_name(at)) for at, name in enumerate(columns)]
    return frame.select(F.col(f"c{names.index(ROW_ID.name)}").cast("bigint").alias(_ID), *values)


def _value_name(place: int) -> str:
    return f"v{place}"


def _with_groups(store: TableStore, frame: DataFrame, parts: Sequence[DataSplit]) -> DataFrame:
    """Return ids with the group of each, and the position if it does not follow from the range of the group."""
    moved = {number: part for number, part in enumerate(parts) if has_id_column(part)}
    implied = sorted(_Range.of(number, part) for number, part in enumerate(parts) if number not in moved)
    to_udf: Any = arrow_udf  # its overloads know no kind that is told by the hints of the function
    group = to_udf(_group_finder(*np.array(implied, np.int64).reshape(-1, 3).T), "int")(F.col(_ID))
    if not moved:
        return frame.select("*", group.alias(GROUP), F.lit(None).cast("bigint").alias(POSITION))
    # An updated row may be deleted in its old file, and have moved to another file with its id.
    known = located_rows(frame.sparkSession, store, moved, [ROW_ID.name])
    known = known.select(F.col(column_name(0)).alias("moved_id"), F.col(GROUP).alias("moved"), POSITION)
    frame = frame.join(known, F.col(_ID) == F.col("moved_id"), "left")
    return frame.withColumn(GROUP, F.coalesce(F.col("moved"), group)).drop("moved_id", "moved")


class _Range(NamedTuple):
    """The ids that follow from the first id of a group."""

    first: int
    end: int
    group: int

    @classmethod
    def of(cls, number: int, part: DataSplit) -> _Range:
        first = part.files[0].first_row_id or 0
        return cls(first, first + part.files[0].row_count, number)


def _group_finder(firsts: np.ndarray, ends: np.ndarray, numbers: np.ndarray) -> Callable[[pa.Array], pa.Array]:
    """Return a function that finds the groups of ids, given the ranges of the groups in ascending order."""

    def find(ids: pa.Array) -> pa.Array:
        if not len(firsts):
            return pa.nulls(len(ids), pa.int32())
        known = ids.fill_null(-1).to_numpy(zero_copy_only=False)
        at = np.maximum(np.searchsorted(firsts, known, side="right") - 1, 0)
        inside = (known >= firsts[at]) & (known < ends[at])
        return pa.array(numbers[at].astype(np.int32), mask=~inside)

    return find


# ---- on an executor --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Change:
    """Turns the ids, and new values, that a task gets into changes of groups."""

    store: TableStore
    names: tuple[str, ...] = ()  # the columns to set; none: the rows are deleted
    written: TableStore | None = None  # the table with the schema of the files that are written

    def writing(self, store: TableStore) -> _Change:
        """Return the same change for files that are written with the schema of a store."""
        return _Change(self.store, self.names, store)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[GroupChange]:
        """Yield changes of groups; ids without a group are refused."""
        for part, runs in split_by_group(batches):
            if part is None:
                _check_all_found(self.store, pa.chunked_array([run.column(_ID) for run in runs]))
                continue
            rows = pa.Table.from_batches(list(runs))
            change_ = self._change(part, rows) if rows.num_rows else None
            if change_ is not None and not change_.is_empty:
                check_columns_unchanged(self.store, self.written or self.store, change_)
                yield change_

    def _change(self, part: DataSplit, rows: pa.Table) -> GroupChange:
        """Return the change of one group; the rows are ordered by their ids."""
        ids = rows.column(_ID).to_numpy()
        positions = rows.column(POSITION).to_numpy() if has_id_column(part) else ids - (part.files[0].first_row_id or 0)
        if not self.names:
            return GroupChange(part, deleted=live_positions(self.store, part, np.unique(positions)))
        columns = [_value_name(at) for at in range(len(self.names))]
        given = rows.select([_ID, *columns]).rename_columns([ROW_ID.name, *self.names])
        new = NewValues.of(self.store, given, self.names)
        order = np.argsort(positions, kind="stable")
        check_live(self.store, part, positions[order], ids[order])
        return GroupChange(part, updated=positions[order], values=new.values.take(pa.array(order)))


def _check_all_found(store: TableStore, ids: pa.Array | pa.ChunkedArray) -> None:
    """Raise InvalidInputError if an id is null or in no group."""
    if ids.null_count:
        raise InvalidInputError(
            f"table {store.name}: {ids.null_count} row ids are null; leave such rows out",
            table=store.name,
            column=ROW_ID.name,
        )
    if len(ids):
        refuse_unknown(store, np.unique(ids.to_numpy()))

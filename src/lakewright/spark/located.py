"""Rows of a snapshot and where they lie: groups of files in, a frame with their numbers, positions and columns out.

Files that Spark's own scan reads exactly as the core does go through it, and tell the position of a row themselves;
all others through the core's reader, on the workers. What always holds: only live rows are there, a group's number is
its place in the list that was given, and columns are called by their places too, so that no name is in the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakewright.metadata.store import TableStore
from lakewright.read.builder import TableRead, TableScan
from lakewright.read.projection import plan_projection
from lakewright.read.scan import FileSchemas
from lakewright.read.shares import shares
from lakewright.read.split import DataSplit
from lakewright.spark.estimate import parallelism
from lakewright.spark.filters import to_column
from lakewright.spark.merged import over_shares
from lakewright.spark.scan import native_scan, native_splits
from lakewright.spark.types import spark_batches, spark_schema
from lakewright.spec.predicate import TRUE, Predicate
from lakewright.spec.types import AtomicType, DataField
from lakewright.update.find import hidden_fields, locate

GROUP, POSITION, PART = "group", "position", "part"

_PLACE = (
    DataField(0, GROUP, AtomicType("INT", nullable=False)),
    DataField(1, POSITION, AtomicType("BIGINT", nullable=False)),
)


def located(
    spark: SparkSession,
    store: TableStore,
    parts: Sequence[DataSplit],
    columns: Sequence[str],
    predicate: Predicate = TRUE,
) -> DataFrame:
    """Return the live rows of groups that fulfil a predicate, as `group`, `position` and the columns `t0`, `t1`, ..."""
    names = [GROUP, POSITION, *(column_name(at) for at in range(len(columns)))]
    known = {field.name: field for field in (*store.schema.fields, *hidden_fields(store))}
    fields = tuple(known[name] for name in columns)
    numbers = {part.file_paths[0]: number for number, part in enumerate(parts)}
    native, rest = _parted(store, parts, columns, predicate)
    frames = []
    if native:
        projection = plan_projection(store.schema.fields, list(columns), predicate)
        read = TableRead(store, projection, predicate, None, TableScan(store, predicate, None))
        frames.append(native_scan(spark, read, native, numbers=numbers).toDF(*names))
    if rest or not frames:
        left = {part.file_paths[0]: numbers[part.file_paths[0]] for part in rest}
        work = _Locating(store, tuple(columns), predicate, fields, left)
        found = shares(store, rest, at_least=parallelism(spark)) if rest else []
        frames.append(over_shares(spark, found, work, spark_schema(work.fields)).toDF(*names))
    return frames[0] if len(frames) == 1 else frames[0].union(frames[1])


def column_name(place: int) -> str:
    """Return what a located column is called."""
    return f"t{place}"


def numbered_parts(spark: SparkSession, parts: Sequence[DataSplit]) -> DataFrame:
    """Return groups as rows: `group`, and `part`, which is the group itself."""
    numbers = pa.array(range(len(parts)), pa.int32())
    data = pa.array([part.serialize() for part in parts], pa.binary())
    return spark.createDataFrame(pa.table({GROUP: numbers, PART: data}))


def _parted(
    store: TableStore, parts: Sequence[DataSplit], columns: Sequence[str], predicate: Predicate
) -> tuple[list[DataSplit], list[DataSplit]]:
    """Part groups into those that Spark's own scan reads, and the others."""
    hidden = {field.name for field in hidden_fields(store)}
    asked = {*columns, *(leaf.field for leaf in predicate.leaves() if leaf.field)}
    if asked & hidden:
        return [], list(parts)
    projection = plan_projection(store.schema.fields, list(columns), predicate)
    if to_column(predicate, projection.read_fields) is None:
        return [], list(parts)
    return native_splits(store, parts, projection)


@dataclass(frozen=True, slots=True)
class _Locating:
    """Finds the rows of groups on an executor."""

    store: TableStore
    columns: tuple[str, ...]
    predicate: Predicate
    read: tuple[DataField, ...]
    numbers: Mapping[str, int]

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns of the frame; two of the table may be called as those that tell the place."""
        named = (DataField(2 + at, column_name(at), field.type) for at, field in enumerate(self.read))
        return (*_PLACE, *named)

    def __call__(self, parts: Sequence[DataSplit]) -> Iterator[pa.RecordBatch]:
        """Yield where the rows of groups lie."""
        schemas, fields = FileSchemas(self.store), self.fields
        for part in parts:
            number = self.numbers[part.file_paths[0]]
            for found in locate(self.store, part, self.columns, self.predicate, schemas=schemas):
                groups = pa.array(np.full(len(found.positions), number, np.int32))
                columns = [groups, pa.array(found.positions), *found.rows.columns]
                batch = pa.RecordBatch.from_arrays(columns, names=[field.name for field in fields])
                yield from spark_batches(batch, fields)

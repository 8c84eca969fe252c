"""`format("lakewright")`: the Python Data Source through which Spark's own verbs and SQL reach a table.

Options of Spark come in (see `options`), partitions of Arrow batches or one snapshot go out. Spark calls a source in
processes of its own: one plans a read, one a write, one commits; none of them sees the session or its settings.

What always holds: a read gives exactly the schema that Spark was promised, of one snapshot, which is chosen when the
frame or view is used for the first time and stays. A write is published once, by the process that commits, after every
task's messages arrived.

Spark does not let a Python source read only the columns that a query needs, bring the rows of a bucket to one task, or
return a result to the caller; `lakewright.spark.read_table` and `write_table` can do these things. Filters are not
pushed down here although Spark offers it: releases up to 4.3 keep the filter of one use of a frame for its other uses,
so that the union of a frame with a part of it lacks rows. The option `filter` is safe.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as sql

from lakewright.catalog.system.views import RowsView, SystemReadBuilder
from lakewright.errors import InvalidInputError, NotFoundError, UnsupportedError
from lakewright.read.builder import ReadBuilder, TableRead
from lakewright.read.splits.cutting import cut_splits
from lakewright.read.splits.shares import shares
from lakewright.read.splits.split import DataSplit
from lakewright.spark.datasource.options import FORMAT, READ, READ_TASKS, SourceOptions
from lakewright.spark.datasource.stream_sink import STREAM_WRITE, stream_writer
from lakewright.spark.datasource.stream_source import STREAM_READ, stream_reader
from lakewright.spark.datasource.table_sink import SINK, WRITE, table_sink
from lakewright.spark.jobs.capabilities import Feature, require
from lakewright.spark.jobs.classes import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from lakewright.spark.jobs.types import fields_of, spark_batches, spark_schema
from lakewright.table.table import FileStoreTable

# Spark adds these to the options when it makes a table of its own catalog.
_OF_CATALOG_TABLE = {"provider", "location"}
_READ_WORDS = READ | {READ_TASKS}


class LakewrightSource(DataSource):
    """The class that Spark creates for `format("lakewright")`, with the options of one read or write."""

    bound: ClassVar[FileStoreTable | RowsView | None] = None  # the table of a format of one table: see `bound_format`

    @classmethod
    def name(cls) -> str:
        """Return the name behind `format` and `USING`."""
        return FORMAT

    def schema(self) -> sql.StructType:
        """Return the columns of the table, or those that the options ask for."""
        if self.options.keys() >= _OF_CATALOG_TABLE:
            raise UnsupportedError(
                "CREATE TABLE ... USING lakewright is not supported: Spark forgets the options of such a table. Use "
                "CREATE TEMPORARY VIEW v USING lakewright OPTIONS (path '...'), or lakewright.spark.attach"
            )
        # Spark does not say whether a read, a stream or a writable view asks, so the options of all three are allowed.
        options = self._given(_READ_WORDS | STREAM_READ | WRITE)
        try:
            builder = options.read()
        except NotFoundError:
            # A stream may begin at a snapshot or time that does not exist yet; a batch read raises this error later.
            lasting = {key: value for key, value in options.table.items() if not key.startswith("scan.")}
            builder = replace(options, table=lasting).read()
        return spark_schema(builder.read_type())

    def reader(self, schema: sql.StructType) -> DataSourceReader:
        """Plan a read of the columns of a schema, which is ours or what the user gave to `.schema(...)`."""
        options = self._given(_READ_WORDS | WRITE)
        builder = _projected(options.read(), schema)
        if isinstance(builder, SystemReadBuilder):
            return SystemReader(builder, schema)
        return TableReader(builder.new_read(), schema, options.number(READ_TASKS))

    def writer(self, schema: sql.StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's signature
        """Plan a write of a frame."""
        return table_sink(self._given(SINK), schema, overwrite=overwrite)

    def streamReader(self, schema: sql.StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Plan a stream of what changes in the table."""
        return stream_reader(self._given(STREAM_READ), schema)

    def streamWriter(self, schema: sql.StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802 - Spark's signature
        """Plan a stream into the table."""
        require(Feature.STREAM_SINK, f'writeStream.format("{FORMAT}")')
        return stream_writer(self._given(STREAM_WRITE), schema, overwrite)

    def _given(self, words: Collection[str]) -> SourceOptions:
        return SourceOptions.of(self.options, words, self.bound)


def bound_format(spark: SparkSession, table: FileStoreTable | RowsView) -> str:
    """Register a format of one table, and return its name: the same one for equal handles of the same table.

    The handle travels inside the format with its storage and its home, so no option has to say how to find them: the
    processes of Spark ask no catalog, and nothing secret stands in a plan.
    """
    own = table.table if isinstance(table, RowsView) else table
    handle = (own.store.identity, table.name, sorted(table.options.to_map().items()))
    name = f"{FORMAT}-{hashlib.sha256(repr(handle).encode()).hexdigest()[:16]}"

    class Bound(LakewrightSource):
        bound = table

        @classmethod
        def name(cls) -> str:
            return name

    spark.dataSource.register(Bound)
    return name


class TableReader(DataSourceReader):
    """Reads a table: plans on the driver, reads shares of the plan in tasks."""

    def __init__(self, read: TableRead, schema: sql.StructType, tasks: int | None) -> None:
        if tasks is not None and tasks < 1:
            raise InvalidInputError(f"the option {READ_TASKS!r} is at least 1, not {tasks}", option=READ_TASKS)
        self._read = read
        self._fields = fields_of(schema)
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        """Choose the snapshot and spread its files over tasks; called once for all uses of a frame or view."""
        read = self._read
        tasks = os.cpu_count() or 1
        splits = cut_splits(read.store, read.new_plan().splits(), read.predicate, self._tasks or tasks)
        task_shares = shares(read.store, splits, at_least=tasks, exactly=self._tasks)
        values = [tuple(split.serialize() for split in share) for share in task_shares]
        return [InputPartition(value) for value in values or [()]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one share in the types that Spark was promised."""
        splits = [DataSplit.deserialize(data) for data in partition.value]
        for batch in self._read.to_arrow_batch_reader(splits, parallelism=1):
            yield from spark_batches(batch, self._fields)


class SystemReader(DataSourceReader):
    """Reads a system table, such as `db.t$snapshots`: its few rows are gathered on the driver."""

    def __init__(self, builder: SystemReadBuilder, schema: sql.StructType) -> None:
        self._builder = builder
        self._fields = fields_of(schema)

    def partitions(self) -> list[InputPartition]:
        """Gather the rows."""
        return [InputPartition(self._builder.new_read().to_arrow())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the types that Spark was promised."""
        for batch in partition.value.to_batches():
            yield from spark_batches(batch, self._fields)


def _projected(builder: ReadBuilder | SystemReadBuilder, schema: sql.StructType) -> ReadBuilder | SystemReadBuilder:
    """Return a read of only the columns of a schema; it may leave columns out and order them, but not change them."""
    offered = spark_schema(builder.read_type())
    names = schema.fieldNames()
    if names != offered.fieldNames():
        kind = None if isinstance(builder, SystemReadBuilder) else builder.new_read().projection.kind
        builder = builder.with_projection([name for name in names if name != kind])
        offered = spark_schema(builder.read_type())
    known = {field.name: field for field in offered.fields}
    for field in schema.fields:
        column = known[field.name]
        if not _fits(column.dataType, field.dataType) or (column.nullable and not field.nullable):
            raise InvalidInputError(
                f"the column {field.name!r} is {_shown(column)}, not {_shown(field)}: .schema(...) may leave columns "
                "out, but cast them afterwards",
                column=field.name,
            )
    return builder


def _fits(offered: sql.DataType, requested: sql.DataType) -> bool:
    """Say whether all values of one type are allowed in a requested type, which may allow more nulls."""
    match offered, requested:
        case sql.ArrayType(), sql.ArrayType():
            return (requested.containsNull or not offered.containsNull) and _fits(
                offered.elementType, requested.elementType
            )
        case sql.MapType(), sql.MapType():
            return (
                (requested.valueContainsNull or not offered.valueContainsNull)
                and _fits(offered.keyType, requested.keyType)
                and _fits(offered.valueType, requested.valueType)
            )
        case sql.StructType(), sql.StructType():
            return offered.fieldNames() == requested.fieldNames() and all(
                (theirs.nullable or not ours.nullable) and _fits(ours.dataType, theirs.dataType)
                for ours, theirs in zip(offered.fields, requested.fields, strict=True)
            )
        case _:
            return offered == requested


def _shown(field: sql.StructField) -> str:
    return f"{field.dataType.simpleString()}{'' if field.nullable else ' NOT NULL'}"

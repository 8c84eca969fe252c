"""`format("lakewright")` and views of tables.

A read yields partitions of Arrow batches; a write makes one snapshot. Spark calls a source in
processes of its own: one plans a read, one a write, one commits; none of them sees the session or its settings.

Invariant: a read gives exactly the schema that Spark was promised, of one snapshot, which is chosen when the
frame or view is used for the first time and stays. A write is published once, by the process that commits, after every
task's messages arrived.

Spark does not let a Python source read only the columns that a query needs, bring the rows of a bucket to one task, or
return a result to the caller; `lakewright.spark.read_table` and `write_table` can do these things. Filters are not
pushed down here although Spark offers it: releases up to 4.3 keep the filter of one use of a frame for its other uses,
so that the union of a frame with a part of it lacks rows. The option `filter` is safe.

attach(spark, "/lake", "sales")
    spark.sql("SELECT region, sum(amount) FROM orders GROUP BY region")

Invariant: a view shows one snapshot of its table and cannot be written to by accident. The views of a plain
`attach` read as fast as `read_table` and cannot be written; their snapshots are those of the moment of the call. Views
that are `writable` take INSERT INTO and INSERT OVERWRITE and are slower to read, because Spark cannot prune columns
of them; each is pinned to the snapshot of its first use, and not even an insert through it changes what it shows.
Attaching again moves every view to the newest snapshot.
"""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as sql

from lakewright.catalog.catalog import Catalog
from lakewright.catalog.catalog_registry import CatalogFactory
from lakewright.errors import InvalidInputError, LakewrightError, LakewrightWarning, NotFoundError, UnsupportedError
from lakewright.read.data_split import DataSplit
from lakewright.read.read_builder import ReadBuilder
from lakewright.read.split_sharing import cut_splits, share_splits
from lakewright.read.table_read import TableRead
from lakewright.spark.data_sinks import SINK, STREAM_WRITE, WRITE, stream_writer, table_sink
from lakewright.spark.frame_read import read_table
from lakewright.spark.source_options import FORMAT, READ, READ_TASKS, SourceOptions
from lakewright.spark.spark_features import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Feature,
    InputPartition,
    require,
)
from lakewright.spark.spark_types import fields_of, spark_batches, spark_schema
from lakewright.spark.stream_source import STREAM_READ, stream_reader
from lakewright.spec import argument_checks
from lakewright.spec.identifier import Identifier, quote_identifier
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.table_views import RowView, SystemReadBuilder

# ---- format("lakewright") --------------------------------------------------------------------------------------------

# Spark adds these to the options when it makes a table of its own catalog.
_OF_CATALOG_TABLE = {"provider", "location"}
_READ_WORDS = READ | {READ_TASKS}


class LakewrightSource(DataSource):
    """The class that Spark creates for `format("lakewright")`, with the options of one read or write."""

    bound: ClassVar[FileStoreTable | RowView | None] = None  # the table of a format of one table: see `bound_format`

    @classmethod
    def name(cls) -> str:
        """Return the name behind `format` and `USING`."""
        return FORMAT

    def schema(self) -> sql.StructType:
        """Return the columns of the table, or those that the options ask for."""
        if self.options.keys() >= _OF_CATALOG_TABLE:
            raise UnsupportedError(
                "CREATE TABLE ... USING lakewright is not supported: Spark forgets the options of such a table. Use "
                "lakewright.spark.publish, CREATE TEMPORARY VIEW v USING lakewright OPTIONS (path '...'), or "
                "lakewright.spark.attach"
            )
        # Spark does not return whether a read, a stream or a writable view asks, so the options of all three are
        # allowed.
        options = self._parse_options(_READ_WORDS | STREAM_READ | WRITE)
        try:
            builder = options.read()
        except NotFoundError:
            # A stream may begin at a snapshot or time that does not exist yet; a batch read raises this error later.
            lasting = {key: value for key, value in options.table.items() if not key.startswith("scan.")}
            builder = replace(options, table=lasting).read()
        return spark_schema(builder.read_type())

    def reader(self, schema: sql.StructType) -> DataSourceReader:
        """Plan a read of the columns of a schema, which is ours or what the user gave to `.schema(...)`."""
        options = self._parse_options(_READ_WORDS | WRITE)
        builder = _project_schema(options.read(), schema)
        if isinstance(builder, SystemReadBuilder):
            return SystemReader(builder, schema)
        return TableReader(builder.new_read(), schema, options.number(READ_TASKS))

    def writer(self, schema: sql.StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's signature
        """Plan a write of a frame."""
        return table_sink(self._parse_options(SINK), schema, overwrite=overwrite)

    def streamReader(self, schema: sql.StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Plan a stream of what changes in the table."""
        return stream_reader(self._parse_options(STREAM_READ), schema)

    def streamWriter(self, schema: sql.StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802 - Spark's signature
        """Plan a stream into the table."""
        require(Feature.STREAM_SINK, f'writeStream.format("{FORMAT}")')
        return stream_writer(self._parse_options(STREAM_WRITE), schema, overwrite)

    def _parse_options(self, words: Collection[str]) -> SourceOptions:
        return SourceOptions.of(self.options, words, self.bound)


def bound_format(spark: SparkSession, table: FileStoreTable | RowView) -> str:
    """Register a format of one table, and return its name: the same one for equal handles of the same table.

    The handle travels inside the format with its storage and its home, so no option has to say how to find them: the
    processes of Spark ask no catalog, and nothing secret stands in a plan.
    """
    own = table.table if isinstance(table, RowView) else table
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
        task_shares = share_splits(read.store, splits, at_least=tasks, exactly=self._tasks)
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


def _project_schema(
    builder: ReadBuilder | SystemReadBuilder, schema: sql.StructType
) -> ReadBuilder | SystemReadBuilder:
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
                f"the column {field.name!r} is {_format_field(column)}, not {_format_field(field)}: .schema(...) may "
                "leave columns out, but cast them afterwards",
                column=field.name,
            )
    return builder


def _fits(offered: sql.DataType, requested: sql.DataType) -> bool:
    """Return whether all values of one type are allowed in a requested type, which may allow more nulls."""
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


def _format_field(field: sql.StructField) -> str:
    return f"{field.dataType.simpleString()}{'' if field.nullable else ' NOT NULL'}"


# ---- Views of tables -------------------------------------------------------------------------------------------------

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def attach(
    spark: SparkSession,
    catalog: Catalog | Mapping[str, object] | str,
    database: str,
    *,
    tables: Sequence[str] | None = None,
    prefix: str = "",
    writable: bool = False,
) -> list[str]:
    """Make a temp view of every table of a database, or of those named, and return the views as SQL spells them.

    A view is called like its table, behind `prefix`, and replaces a view of that name. `catalog` is a catalog, the
    options of one as for `CatalogFactory.create`, or the path of a warehouse. A table that Spark cannot read is left
    out with a warning. Call it again to see newer snapshots.

    `writable` makes views that also take INSERT INTO and INSERT OVERWRITE, but read every column of the table. DELETE,
    UPDATE and MERGE are refused by Spark itself: call `lakewright.spark.delete`, `update` and `merge` with the table.
    """
    source = find_catalog(catalog)
    if writable:
        require(Feature.PYTHON_SOURCE, "attach(writable=True)")
    names = source.list_tables(database) if tables is None else list(tables)
    views: dict[str, str] = {}
    for name in names:
        view = prefix + name
        if view.casefold() in views:
            _warn(f"{database}.{name} has no view of its own: Spark takes {view!r} and another table's name for one")
            continue
        try:
            table = source.get_table(Identifier.create(database, name))
            frame = _door(spark, table) if writable else _read_pinned(spark, table)
        except LakewrightError as error:
            _warn(f"{database}.{name} has no view: {error}")
            continue
        frame.createOrReplaceTempView(quote_identifier(view))
        views[view.casefold()] = view if _PLAIN_NAME.fullmatch(view) else quote_identifier(view)
    return list(views.values())


def find_catalog(given: Catalog | Mapping[str, object] | str) -> Catalog:
    """Return the catalog that a call names: itself, by its options, or by the path of a warehouse."""
    if isinstance(given, str | Mapping):
        return CatalogFactory.create({"warehouse": given} if isinstance(given, str) else given)
    expected = "a catalog, the options of one, or the path of a warehouse"
    return argument_checks.check_instance("catalog", given, Catalog, expected)  # type: ignore[type-abstract]


def _read_pinned(spark: SparkSession, table: FileStoreTable) -> DataFrame:
    # The selection costs nothing, and without it INSERT OVERWRITE would replace the files behind the plain scan.
    return read_table(spark, table).select("*")


def _door(spark: SparkSession, table: FileStoreTable) -> DataFrame:
    spark_schema(table.fields)  # refuses here, with an error of ours, what Spark has no types for
    return spark.read.format(bound_format(spark, table)).load()


def _warn(message: str) -> None:
    warnings.warn(message, LakewrightWarning, stacklevel=3)

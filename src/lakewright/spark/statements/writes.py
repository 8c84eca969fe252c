"""INSERT, CREATE TABLE AS and COPY INTO on Spark: a query or files in, one snapshot out.

The rows of the query are cast to the types of the table by the rules of store assignment, and written as
`lakewright.spark.write_table` writes a frame. A query reads its tables at the snapshots of its start, so that a
statement may read the table that it writes. What always holds: a statement that fails changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from lakewright.calls import merged_table
from lakewright.commit.table_commit import WriteResult
from lakewright.errors import InvalidInputError
from lakewright.spark.calls import write_table
from lakewright.spark.jobs.session import in_session_zone
from lakewright.spark.jobs.types import arrow_schema_of, spark_schema
from lakewright.spark.statements.evaluate import Evaluation
from lakewright.spec.options import CoreOptions
from lakewright.spec.types import DataField, with_nullable
from lakewright.statements.change.assign import Storing, quoted, sql_type
from lakewright.statements.change.copy import (
    CopySettings,
    FileVersion,
    copied_fields,
    is_overwrite,
    load_files,
    matched_columns,
    reader_options,
    writer_options,
)
from lakewright.statements.change.evolve import SchemaMerge
from lakewright.statements.change.insert import insert_query, plan_insert
from lakewright.statements.model import CopyIn, CopyOut, CreateTableAs, Insert
from lakewright.statements.query.places import Kind
from lakewright.statements.text import Fragment
from lakewright.table.table import FileStoreTable

_MODE = "spark.sql.sources.partitionOverwriteMode"
_DYNAMIC = CoreOptions.DYNAMIC_PARTITION_OVERWRITE.key()


def insert(evaluation: Evaluation, statement: Insert) -> WriteResult:
    """Write the rows of a query into a table."""
    spark = evaluation.spark
    table = in_session_zone(spark, evaluation.session.changeable(statement.table))
    rows = evaluation.query(insert_query(table.store, statement))
    merge = SchemaMerge.of(evaluation.session, evaluation.lookup, statement.table)
    is_merged = statement.by_name and merge.adds
    added = merge.columns(table, arrow_schema_of(rows.schema)) if is_merged else pa.schema([])
    table, before = merged_table(table, added, stored=False), table
    dynamic = str(spark.conf.get(_MODE, "static")).lower() == "dynamic"
    plan = plan_insert(table.store, statement, rows.columns, dynamic=dynamic)
    static = _values(evaluation, table, plan.static)
    frame = assigned(evaluation, table, rows, plan.columns, by_position=not statement.by_name, place=statement.query)
    own = [F.col(quoted(name)) for name in frame.columns]
    frame = frame.select(*own, *(value.alias(name) for name, (value, _) in static.items()))
    table = merged_table(before, added)
    if statement.replace_where is None and not statement.overwrite:
        return write_table(frame, table, progress=False)
    if plan.replaced is None:
        return write_table(frame, table.copy({_DYNAMIC: "true"}), "overwrite", progress=False)
    spec = {name: found for name, (_, found) in _values(evaluation, table, plan.replaced).items()}
    return write_table(frame, table, "overwrite", partitions=spec, progress=False)


def create_as(evaluation: Evaluation, statement: CreateTableAs) -> WriteResult | None:
    """Create a table and write the rows of a query into it; None: it exists, and stays as it is."""
    rows = evaluation.query(statement.query)
    name = statement.create.create_as(evaluation.session, arrow_schema_of(rows.schema))
    if name is None:
        return None
    try:
        done = write_table(rows, evaluation.session.table(name), progress=False)
        statement.create.finish(evaluation.session)
    except BaseException:
        statement.create.undo(evaluation.session)
        raise
    return done


def assigned(
    evaluation: Evaluation,
    table: FileStoreTable,
    rows: DataFrame,
    columns: Sequence[tuple[DataField, int]],
    *,
    by_position: bool,
    place: Fragment | None,
) -> DataFrame:
    """Return rows with the columns of the table that they fill, in its types."""
    spark = evaluation.spark
    named = rows.toDF(*(f"c{at}" for at in range(len(rows.columns))))
    types = arrow_schema_of(rows.schema, time_zone=str(spark.conf.get("spark.sql.session.timeZone")))
    casts_fail = str(spark.conf.get("spark.sql.ansi.enabled")).lower() == "true"
    storing = Storing(table.store.name, casts_fail, by_position)
    return named.select(
        *(
            F.expr(storing.value(f"c{at}", types.field(at).type, field, place)).alias(field.name)
            for field, at in columns
        )
    )


def _values(
    evaluation: Evaluation, table: FileStoreTable, given: Mapping[str, Fragment]
) -> dict[str, tuple[Column, object]]:
    """Return the value of each partition column, for Spark and for us."""
    out: dict[str, tuple[Column, object]] = {}
    for name, value in given.items():
        dtype = sql_type(table.schema.field(name).type)
        found = _value(evaluation, table.schema.field(name), value)
        out[name] = F.lit(found).cast(dtype), found
    return out


def _value(evaluation: Evaluation, field: DataField, value: Fragment) -> object:
    """Return the value of an expression without columns in the type of a column."""
    bound = evaluation.bind([(value, Kind.EXPRESSION)])
    frame = evaluation.run(bound, lambda written: f"SELECT {written(value)} AS v")
    is_null, found = frame.selectExpr("v IS NULL", f"try_cast(v AS {sql_type(field.type)})").collect()[0]
    if found is None and not is_null:  # some sessions would store a null, or another number
        message = f"the value does not fit the column {field.name!r} ({field.type})"
        raise value.error(message, kind=InvalidInputError, column=field.name)
    return found


# ---- files -----------------------------------------------------------------------------------------------------------


def copy_in(evaluation: Evaluation, statement: CopyIn) -> int:
    """Load files into a table, and return how many rows were loaded."""
    table = in_session_zone(evaluation.spark, evaluation.session.changeable(statement.table))
    settings = CopySettings.of(statement)

    def load(paths: Sequence[str], job_id: str | None) -> int:
        frame = _loaded(evaluation, table, statement, paths)
        return write_table(frame, table, job_id=job_id, progress=False).rows

    return load_files(table.store, settings, _files(evaluation, statement), load)


def _files(evaluation: Evaluation, statement: CopyIn) -> list[FileVersion]:
    """Return the files of a path."""
    reader = evaluation.spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    rows = reader.load(statement.path).select("path", F.expr("unix_millis(modificationTime)"), "length").collect()
    return [FileVersion(*row) for row in rows]


def _loaded(evaluation: Evaluation, table: FileStoreTable, statement: CopyIn, paths: Sequence[str]) -> DataFrame:
    """Return the rows of files with the columns of the table, in its types."""
    reader = evaluation.spark.read.format(statement.format).options(**reader_options(statement))
    if statement.format == "parquet":
        rows = reader.load(list(paths))
        columns = matched_columns(table.store, statement, rows.columns, paths[0])
        return assigned(evaluation, table, rows, columns, by_position=False, place=None)
    # Text is parsed as Spark's readers parse it; what does not fit is an error.
    fields = copied_fields(table.store, statement)
    schema = spark_schema(replace(field, type=with_nullable(field.type, nullable=True)) for field in fields)
    return reader.option("mode", "FAILFAST").schema(schema).load(list(paths))


def copy_out(evaluation: Evaluation, statement: CopyOut) -> int:
    """Write the rows of a query as files, and return how many there are."""
    rows = evaluation.query(statement.query)
    seen = Observation()
    counted = rows.observe(seen, F.count(F.lit(1)).alias("rows"))
    mode = "overwrite" if is_overwrite(statement) else "errorifexists"
    counted.write.format(statement.format).options(**writer_options(statement)).mode(mode).save(statement.path)
    return int(seen.get["rows"])

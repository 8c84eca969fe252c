"""`SQLContext` on Spark; INSERT, CREATE TABLE AS, COPY INTO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from typing import Self

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import StructType

from lakewright.commit.table_commit import WriteResult
from lakewright.compact.compaction_rounds import CompactResult
from lakewright.errors import AlreadyExistsError, InvalidInputError
from lakewright.maintenance.table_analysis import Columns
from lakewright.spark.frame_read import local_frame
from lakewright.spark.spark_session import REFUSALS, check_session, in_session_zone, is_connect, read_setting
from lakewright.spark.spark_sql_changes import (
    SparkChanges,
    SparkEvaluation,
    evaluate_text,
    explain_missing,
    frames_of,
    placeholder,
    syntax_error,
)
from lakewright.spark.spark_types import arrow_schema_of, spark_schema
from lakewright.spark.spark_verbs import analyze, compact, write_table
from lakewright.spec import argument_checks
from lakewright.spec.arrow_types import from_arrow_schema
from lakewright.spec.identifier import quote_identifier
from lakewright.spec.table_options import TableOptions
from lakewright.spec.types import DataField, with_nullable
from lakewright.statements.bind_tables import BoundStatement, bind, escape_braces
from lakewright.statements.change_statement import change_rows
from lakewright.statements.copy_into import (
    CopySettings,
    FileVersion,
    copied_fields,
    is_overwrite,
    load_files,
    matched_columns,
    reader_options,
    writer_options,
)
from lakewright.statements.insert_plan import SchemaMerge, insert_query, plan_insert
from lakewright.statements.parser import ResetAll, ShowSettings
from lakewright.statements.spark_grammar import FragmentKind
from lakewright.statements.sql_context import Context, counts
from lakewright.statements.sql_session import Catalogs, Session
from lakewright.statements.sql_text import Args, Fragment, Name
from lakewright.statements.statements import (
    CopyIn,
    CopyOut,
    CreatesTable,
    CreateTableAs,
    CreateView,
    Delete,
    DescribeQuery,
    Explain,
    Insert,
    MergeInto,
    Native,
    Statement,
    Update,
)
from lakewright.statements.store_assignment import StoreAssignment, sql_type
from lakewright.statements.table_lookup import SETTING
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.verbs import add_missing_columns

# ---- INSERT, CREATE TABLE AS, COPY INTO ------------------------------------------------------------------------------
# The rows of the query are cast to the types of the table by the rules of store assignment, and written as
# `lakewright.spark.write_table` writes a frame. A query reads its tables at the snapshots of its start, so that a
# statement may read the table that it writes. Invariant: a statement that fails changes nothing.

_MODE = "spark.sql.sources.partitionOverwriteMode"
_DYNAMIC = TableOptions.dynamic_partition_overwrite.key()


def insert(evaluation: SparkEvaluation, statement: Insert) -> WriteResult:
    """Write the rows of a query into a table."""
    table = evaluation.session.changeable(statement.table)
    return insert_rows(evaluation, statement, evaluation.query(insert_query(table.store, statement)))


def insert_rows(
    evaluation: SparkEvaluation, statement: Insert, rows: DataFrame, *, dynamic: bool | None = None
) -> WriteResult:
    """Write rows into a table as a statement says; the session decides whether partitions are overwritten singly."""
    spark = evaluation.spark
    table = in_session_zone(spark, evaluation.session.changeable(statement.table))
    merge = SchemaMerge.of(evaluation.session, evaluation.lookup, statement.table)
    is_merged = statement.by_name and merge.adds
    added = merge.columns(table, arrow_schema_of(rows.schema)) if is_merged else pa.schema([])
    table, before = add_missing_columns(table, added, stored=False), table
    dynamic = str(read_setting(spark, _MODE)).lower() == "dynamic" if dynamic is None else dynamic
    plan = plan_insert(table.store, statement, rows.columns, dynamic=dynamic)
    static = _values(evaluation, table, plan.static)
    frame = assign_columns(
        evaluation, table, rows, plan.columns, by_position=not statement.by_name, place=statement.query
    )
    own = [F.col(quote_identifier(name)) for name in frame.columns]
    frame = frame.select(*own, *(value.alias(name) for name, (value, _) in static.items()))
    table = add_missing_columns(before, added)
    if statement.replace_where is None and not statement.overwrite:
        return write_table(frame, table, progress=False)
    if plan.replaced is None:
        return write_table(frame, table.copy({_DYNAMIC: "true"}), "overwrite", progress=False)
    spec = {name: found for name, (_, found) in _values(evaluation, table, plan.replaced).items()}
    return write_table(frame, table, "overwrite", partitions=spec, progress=False)


def create_as(evaluation: SparkEvaluation, statement: CreateTableAs) -> WriteResult | None:
    """Create a table and write the rows of a query into it; None: it exists, and stays as it is."""
    return create_of(evaluation.session, statement.create, evaluation.query(statement.query))


def create_of(session: Session, create: CreatesTable, rows: DataFrame) -> WriteResult | None:
    """Create a table of the columns of a frame and write its rows; None: it exists, and stays as it is."""
    name = create.create_as(session, arrow_schema_of(rows.schema))
    if name is None:
        return None
    try:
        done = write_table(rows, session.table(name), progress=False)
        create.finish(session)
    except BaseException:
        create.undo(session)
        raise
    return done


def assign_columns(
    evaluation: SparkEvaluation,
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
    casts_fail = str(read_setting(spark, "spark.sql.ansi.enabled")).lower() == "true"
    storing = StoreAssignment(table.store.name, casts_fail, by_position)
    return named.select(
        *(
            F.expr(storing.value(f"c{at}", types.field(at).type, field, place)).alias(field.name)
            for field, at in columns
        )
    )


def _values(
    evaluation: SparkEvaluation, table: FileStoreTable, given: Mapping[str, Fragment]
) -> dict[str, tuple[Column, object]]:
    """Return the value of each partition column, for Spark and for us."""
    out: dict[str, tuple[Column, object]] = {}
    for name, value in given.items():
        dtype = sql_type(table.schema.field(name).type)
        found = _value(evaluation, table.schema.field(name), value)
        out[name] = F.lit(found).cast(dtype), found
    return out


def _value(evaluation: SparkEvaluation, field: DataField, value: Fragment) -> object:
    """Return the value of an expression without columns in the type of a column."""
    bound = evaluation.bind([(value, FragmentKind.EXPRESSION)])
    frame = evaluation.run(bound, lambda written: f"SELECT {written(value)} AS v")
    is_null, found = frame.selectExpr("v IS NULL", f"try_cast(v AS {sql_type(field.type)})").collect()[0]
    if found is None and not is_null:  # some sessions would store a null, or another number
        message = f"the value does not fit the column {field.name!r} ({field.type})"
        raise value.error(message, kind=InvalidInputError, column=field.name)
    return found


# ---- files -----------------------------------------------------------------------------------------------------------


def copy_in(evaluation: SparkEvaluation, statement: CopyIn) -> int:
    """Load files into a table, and return how many rows were loaded."""
    table = in_session_zone(evaluation.spark, evaluation.session.changeable(statement.table))
    settings = CopySettings.of(statement)

    def load(paths: Sequence[str], job_id: str | None) -> int:
        frame = _load_source_files(evaluation, table, statement, paths)
        return write_table(frame, table, job_id=job_id, progress=False).rows

    return load_files(table.store, settings, _files(evaluation, statement), load)


def _files(evaluation: SparkEvaluation, statement: CopyIn) -> list[FileVersion]:
    """Return the files of a path."""
    reader = evaluation.spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    rows = reader.load(statement.path).select("path", F.expr("unix_millis(modificationTime)"), "length").collect()
    return [FileVersion(*row) for row in rows]


def _load_source_files(
    evaluation: SparkEvaluation, table: FileStoreTable, statement: CopyIn, paths: Sequence[str]
) -> DataFrame:
    """Return the rows of files with the columns of the table, in its types."""
    reader = evaluation.spark.read.format(statement.format).options(**reader_options(statement))
    if statement.format == "parquet":
        rows = reader.load(list(paths))
        columns = matched_columns(table.store, statement, rows.columns, paths[0])
        return assign_columns(evaluation, table, rows, columns, by_position=False, place=None)
    # Text is parsed as Spark's readers parse it; what does not fit is an error.
    fields = copied_fields(table.store, statement)
    schema = spark_schema(replace(field, type=with_nullable(field.type, nullable=True)) for field in fields)
    return reader.option("mode", "FAILFAST").schema(schema).load(list(paths))


def copy_out(evaluation: SparkEvaluation, statement: CopyOut) -> int:
    """Write the rows of a query as files, and return how many there are."""
    rows = evaluation.query(statement.query)
    seen = Observation()
    counted = rows.observe(seen, F.count(F.lit(1)).alias("rows"))
    mode = "overwrite" if is_overwrite(statement) else "errorifexists"
    counted.write.format(statement.format).options(**writer_options(statement)).mode(mode).save(statement.path)
    return int(seen.get["rows"])


# ---- SQLContext ------------------------------------------------------------------------------------------------------
# Invariant: a frame that a query returns is pinned to the snapshots of the moment it was made; no setting of
# the session is changed by a query.

_ZONE = "spark.sql.session.timeZone"
_NO_ROWS = pa.table({})


class SQLContext(Context[DataFrame]):
    """Runs SQL statements on the tables of a catalog, or of several by their names, with a Spark session.

    Tables of Spark and temporary views can be used beside ours; of two with one name a temporary view comes first, then
    a table of ours. A query is evaluated by Spark when its frame is, but its snapshots are chosen at once.
    """

    def __init__(self, spark: SparkSession, catalog: Catalogs, database: str = "default") -> None:
        check_session(spark)
        super().__init__(catalog, database)
        self.spark = spark
        self._kept: set[str] = set()  # names of frames that stay views
        self._own_settings: dict[str, str] = {}  # for tables, where the session refuses them
        # Views over tables of ours by their names in lower case, with the catalog and database that were current.
        self._views: dict[str, tuple[CreateView, Args, tuple[str, str]]] = {}

    # ---- settings

    def settings(self) -> dict[str, str]:
        """Return everything that is set in the session, by key, as far as the session tells it."""
        with suppress(*REFUSALS):
            if hasattr(type(self.spark.conf), "getAll"):
                return dict(self.spark.conf.getAll) | self._own_settings
            return {row["key"]: row["value"] for row in self.spark.sql("SET").collect()} | self._own_settings
        return dict(self._own_settings)

    def set(self, key: str, value: str | None) -> None:
        """Set a key of the session; None takes the setting back. What is set for tables needs no consent of Spark."""
        try:
            self.spark.conf.unset(key) if value is None else self.spark.conf.set(key, value)
        except REFUSALS:
            if not key.startswith(SETTING):
                raise
            self._own_settings.pop(key, None)
            self._own_settings |= {} if value is None else {key: value}

    @contextmanager
    def with_frames(self, frames: Mapping[str, DataFrame]) -> Iterator[None]:
        """Make frames known as temporary views while a statement runs; a view of the same name is an error."""
        for name, frame in frames.items():
            if not hasattr(frame, "createOrReplaceTempView"):
                expected = "a frame of Spark; spark.createDataFrame makes one of other data"
                raise argument_checks.argument_error(name, expected, frame)
            if _is_temporary_view(self.spark, name) and name not in self._kept:
                raise AlreadyExistsError(f"there is a temporary view {name!r} already; give the frame another name")
        try:
            for name, frame in frames.items():
                frame.createOrReplaceTempView(name)
            yield
        finally:
            if is_connect(self.spark):  # there a frame looks its names up when it is evaluated
                self._kept |= frames.keys()
            else:
                for name in frames:
                    self.spark.catalog.dropTempView(name)

    def interrupt(self) -> None:
        """Stop the jobs of the session."""
        try:
            self.spark.interruptAll()
        except (PySparkException, RuntimeError, AttributeError):  # PySpark 3.5 has it for Connect alone
            with suppress(PySparkException, RuntimeError, AttributeError):
                self.spark.sparkContext.cancelAllJobs()

    def compact(self, table: FileStoreTable, **arguments: object) -> CompactResult:
        """Compact a table with Spark's workers."""
        return compact(self.spark, table, **arguments)  # type: ignore[arg-type]

    def analyze(self, table: FileStoreTable, columns: Columns) -> None:
        """Analyze a table with Spark's workers."""
        analyze(self.spark, table, columns)

    # ---- what is asked while names are looked up

    @property
    def zone(self) -> str:
        """The time zone of the session."""
        return str(self.spark.conf.get(_ZONE))

    def is_hidden(self, name: Name) -> bool:
        """Return whether a temporary view has the name of a table."""
        return len(name.parts) == 1 and _is_temporary_view(self.spark, name.parts[0])

    def refresh_view(self, name: str) -> None:
        """Bring a temporary view over Paimon tables up to date, if one has this name."""
        if name.lower() not in self._views:
            return
        if not _is_temporary_view(self.spark, name):
            del self._views[name.lower()]
            return
        view, args, home = self._views[name.lower()]
        self.at(*home)._view_frame(view, args).createOrReplaceTempView(quote_identifier(view.name))  # noqa: SLF001 - its own class

    def at(self, catalog: str, database: str) -> Self:
        """Return this context with another current catalog and database; the rest is shared."""
        other = copy(self)
        other.catalog_name, other.database = catalog, database
        return other

    def table_settings(self) -> Mapping[str, str]:
        """Return what is set for tables."""
        keys = _keys(self.spark)
        if keys is None:
            return {key: value for key, value in self.settings().items() if key.startswith(SETTING)}
        return {key: str(self.spark.conf.get(key)) for key in keys if key.startswith(SETTING)}

    def moment(self, expression: Fragment, args: Args) -> int:
        """Return the moment that an expression gives, in epoch milliseconds."""
        text = f"SELECT unix_millis(CAST(({expression.text}) AS TIMESTAMP))"
        found = evaluate_text(self.spark, text, args if isinstance(args, Mapping) else {}).collect()[0][0]
        if found is None:
            raise expression.error("the time is null")
        return int(found)

    # ---- statements

    def run(self, statement: Statement, args: Args) -> DataFrame:
        """Run a statement that was parsed."""
        check_session(self.spark)
        if isinstance(statement, ShowSettings | ResetAll):
            return evaluate_text(self.spark, statement.text.text, {})  # Spark also shows what has a default
        try:
            return super().run(statement, args)
        except ParseException as error:
            raise syntax_error(self.spark, statement.text, error) from None

    def rows(self, table: pa.Table) -> DataFrame:
        """Return a small table as a frame."""
        if not table.num_columns:
            return self.spark.createDataFrame([], StructType([]))
        return local_frame(self.spark, table, from_arrow_schema(table.schema))

    def query(self, query: Fragment, args: Args) -> DataFrame:
        """Run a query."""
        return self.evaluate(bind(self, self, [query], args), args)

    def evaluate(self, bound: BoundStatement, args: Args, *, before: str = "") -> DataFrame:
        """Return the rows of a query whose names are looked up; `before` is put before its text."""
        frames = frames_of(self.spark, bound.relations)
        text = (escape_braces(before) if frames else before) + bound.text(0, placeholder, escape_braces=bool(frames))
        try:
            return evaluate_text(self.spark, text, args, frames)
        except AnalysisException as error:
            explain_missing(bound, error)
            raise

    def write(self, statement: Insert | CreateTableAs | CopyIn | CopyOut, args: Args) -> pa.Table:
        """Write the rows of a query or of files, and return the counts."""
        evaluation = SparkEvaluation(self, self, statement.text, args, self.spark)
        match statement:
            case Insert():
                return counts(insert(evaluation, statement).rows)
            case CreateTableAs():
                done = create_as(evaluation, statement)
                return counts(0 if done is None else done.rows)
            case CopyIn():
                return counts(copy_in(evaluation, statement))
            case CopyOut():
                return counts(copy_out(evaluation, statement))

    def change(self, statement: Update | Delete | MergeInto, args: Args) -> pa.Table:
        """Change rows of a table in one snapshot, and return the counts."""
        done = change_rows(SparkChanges(SparkEvaluation(self, self, statement.text, args, self.spark)), statement)
        return counts(done.inserted, done.updated, done.deleted)

    def other(self, statement: Explain | DescribeQuery | CreateView | Native, args: Args) -> DataFrame:
        """Run EXPLAIN or DESCRIBE QUERY, make a temporary view, or hand a statement that is none of ours to Spark."""
        match statement:
            case Explain():
                bound = bind(self, self, [statement.query], args)
                return self.evaluate(bound, args, before=f"EXPLAIN {statement.mode} ")
            case DescribeQuery():
                return self.evaluate(bind(self, self, [statement.query], args), args, before="DESCRIBE QUERY ")
            case CreateView():
                return self._create_view(statement, args)
            case _:
                return evaluate_text(self.spark, statement.text.text, args)

    def _create_view(self, view: CreateView, args: Args) -> DataFrame:
        if not bind(self, self, [view.query], args).relations:
            # Spark looks its own tables up again whenever the view is used.
            return evaluate_text(self.spark, view.text.text, args)
        frame, name = self._view_frame(view, args), quote_identifier(view.name)
        if view.is_global:
            frame.createOrReplaceGlobalTempView(name) if view.replace else frame.createGlobalTempView(name)
        else:
            frame.createOrReplaceTempView(name) if view.replace else frame.createTempView(name)
            self._views[view.name.lower()] = view, args, (self.catalog_name, self.database)
        return self.rows(_NO_ROWS)

    def _view_frame(self, view: CreateView, args: Args) -> DataFrame:
        frame = self.query(view.query, args)
        return frame.toDF(*view.columns) if view.columns else frame


def sql(
    spark: SparkSession, text: str, args: Args | None = None, *, catalog: Catalogs, database: str = "default"
) -> DataFrame:
    """Run one statement with a Spark session and return its rows; see `SQLContext.sql`."""
    return SQLContext(spark, catalog, database).sql(text, args)


def _is_temporary_view(spark: SparkSession, name: str) -> bool:
    """Return whether a temporary view has this name: asked of the JVM where there is one, which takes no time."""
    if not is_connect(spark):
        state = spark._jsparkSession.sessionState().catalog()  # noqa: SLF001 - the public call takes 30 ms for a name
        return bool(state.getTempView(name).isDefined())
    found = spark.catalog.tableExists(quote_identifier(name))
    return found and bool(spark.catalog.getTable(quote_identifier(name)).isTemporary)


def _keys(spark: SparkSession) -> list[str] | None:
    """Return the keys that are set; None where they have to be asked for with their values."""
    if is_connect(spark):
        return None
    settings = spark._jsparkSession.sessionState().conf()  # noqa: SLF001 - the public call takes 200 ms
    return str(settings.getAllConfs().keySet().mkString("\n")).split("\n")

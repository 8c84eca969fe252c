"""Statements on a Spark session: text in, frames out; Spark evaluates what the user wrote, over frames of our tables.

What always holds: a frame that a query returns is pinned to the snapshots of the moment it was made; no setting of the
session is changed by a query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakewright.compact.rounds import CompactResult
from lakewright.errors import AlreadyExistsError
from lakewright.maintenance.statistics.analyze import Columns
from lakewright.spark.jobs.analysis import analyze
from lakewright.spark.jobs.session import check_session, is_connect
from lakewright.spark.read.frame import local_frame
from lakewright.spark.statements.changes import change_rows
from lakewright.spark.statements.evaluate import (
    Evaluation,
    evaluated,
    explain_missing,
    frames_of,
    placeholder,
    syntax_error,
)
from lakewright.spark.statements.writes import copy_in, copy_out, create_as, insert
from lakewright.spark.write.compaction import compact
from lakewright.spec import arguments
from lakewright.spec.arrow import from_arrow_schema
from lakewright.statements.context import Context, counts
from lakewright.statements.model import (
    CopyIn,
    CopyOut,
    CreateTableAs,
    CreateView,
    Delete,
    DescribeQuery,
    Explain,
    Insert,
    Merge,
    Native,
    Statement,
    Update,
)
from lakewright.statements.parse.queries import ResetAll, ShowSettings
from lakewright.statements.query.bind import Bound, bind, quoted
from lakewright.statements.query.tables import SETTING
from lakewright.statements.session import Catalogs
from lakewright.statements.text import Args, Fragment
from lakewright.table.table import FileStoreTable

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
        # Views over tables of ours by their names in lower case, with the catalog and database that were current.
        self._views: dict[str, tuple[CreateView, Args, tuple[str, str]]] = {}

    # ---- settings

    def settings(self) -> dict[str, str]:
        """Return everything that is set in the session, by key."""
        if hasattr(type(self.spark.conf), "getAll"):
            return dict(self.spark.conf.getAll)
        return {row["key"]: row["value"] for row in self.spark.sql("SET").collect()}

    def set(self, key: str, value: str | None) -> None:
        """Set a key of the session; None takes the setting back."""
        self.spark.conf.unset(key) if value is None else self.spark.conf.set(key, value)

    @contextmanager
    def with_frames(self, frames: Mapping[str, DataFrame]) -> Iterator[None]:
        """Make frames known as temporary views while a statement runs; a view of the same name is an error."""
        for name, frame in frames.items():
            if not hasattr(frame, "createOrReplaceTempView"):
                expected = "a frame of Spark; spark.createDataFrame makes one of other data"
                raise arguments.wrong(name, expected, frame)
            if self.is_view(name) and name not in self._kept:
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

    def is_view(self, name: str) -> bool:
        """Say whether a temporary view has this name; one over tables of ours is brought up to date."""
        exists = _is_temporary_view(self.spark, name)
        if not exists:
            self._views.pop(name.lower(), None)
        elif name.lower() in self._views:
            view, args, home = self._views[name.lower()]
            with self._current(home):
                self._view_frame(view, args).createOrReplaceTempView(quoted(view.name))
        return exists

    @contextmanager
    def _current(self, home: tuple[str, str]) -> Iterator[None]:
        """Let a catalog and a database be the current ones for the time of a block."""
        before = self.catalog_name, self.database
        self.catalog_name, self.database = home
        try:
            yield
        finally:
            self.catalog_name, self.database = before

    def table_settings(self) -> Mapping[str, str]:
        """Return what is set for tables."""
        keys = _keys(self.spark)
        if keys is None:
            return {key: value for key, value in self.settings().items() if key.startswith(SETTING)}
        return {key: str(self.spark.conf.get(key)) for key in keys if key.startswith(SETTING)}

    def moment(self, expression: Fragment, args: Args) -> int:
        """Return the moment that an expression gives, in epoch milliseconds."""
        text = f"SELECT unix_millis(CAST(({expression.text}) AS TIMESTAMP))"
        found = evaluated(self.spark, text, args if isinstance(args, Mapping) else {}).collect()[0][0]
        if found is None:
            raise expression.error("the time is null")
        return int(found)

    # ---- statements

    def run(self, statement: Statement, args: Args) -> DataFrame:
        """Run a statement that was parsed."""
        check_session(self.spark)
        if isinstance(statement, ShowSettings | ResetAll):
            return evaluated(self.spark, statement.text.text, {})  # Spark also shows what has a default
        try:
            return super().run(statement, args)
        except ParseException as error:
            raise syntax_error(self.spark, statement.text, error) from None

    def rows(self, table: pa.Table) -> DataFrame:
        """Return a small table as a frame."""
        if not table.num_columns:
            return self.spark.createDataFrame([], "")
        return local_frame(self.spark, table, from_arrow_schema(table.schema))

    def query(self, query: Fragment, args: Args) -> DataFrame:
        """Run a query."""
        return self.evaluate(bind(self, self, [query], args), args)

    def evaluate(self, bound: Bound, args: Args, *, before: str = "") -> DataFrame:
        """Return the rows of a query whose names are looked up; `before` is put before its text."""
        frames = frames_of(self.spark, bound.relations)
        text = before + bound.text(0, placeholder, escape_braces=bool(frames))
        try:
            return evaluated(self.spark, text, args, frames)
        except AnalysisException as error:
            explain_missing(bound, error)
            raise

    def write(self, statement: Insert | CreateTableAs | CopyIn | CopyOut, args: Args) -> pa.Table:
        """Write the rows of a query or of files, and return the counts."""
        evaluation = Evaluation(self, self, self.spark, statement.text, args)
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

    def change(self, statement: Update | Delete | Merge, args: Args) -> pa.Table:
        """Change rows of a table in one snapshot, and return the counts."""
        done = change_rows(Evaluation(self, self, self.spark, statement.text, args), statement)
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
                return evaluated(self.spark, statement.text.text, args)

    def _create_view(self, view: CreateView, args: Args) -> DataFrame:
        if not bind(self, self, [view.query], args).relations:
            # Spark looks its own tables up again whenever the view is used.
            return evaluated(self.spark, view.text.text, args)
        frame, name = self._view_frame(view, args), quoted(view.name)
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
    """Say whether a temporary view has this name: asked of the JVM where there is one, which takes no time."""
    if not is_connect(spark):
        state = spark._jsparkSession.sessionState().catalog()  # noqa: SLF001 - the public call takes 30 ms for a name
        return bool(state.getTempView(name).isDefined())
    found = spark.catalog.tableExists(quoted(name))
    return found and bool(spark.catalog.getTable(quoted(name)).isTemporary)


def _keys(spark: SparkSession) -> list[str] | None:
    """Return the keys that are set; None where they have to be asked for with their values."""
    if is_connect(spark):
        return None
    settings = spark._jsparkSession.sessionState().conf()  # noqa: SLF001 - the public call takes 200 ms
    return str(settings.getAllConfs().keySet().mkString("\n")).split("\n")

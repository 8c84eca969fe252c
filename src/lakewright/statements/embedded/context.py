"""Statements in this process: text in, Arrow tables out; DuckDB evaluates queries, the library writes the tables."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from lakewright.compact.rounds import CompactResult
from lakewright.display.notebook import GRID_ROWS, grid
from lakewright.errors import AlreadyExistsError, InvalidInputError, UnsupportedError
from lakewright.spec import arguments
from lakewright.spec.arrow import from_arrow_type
from lakewright.statements.context import Context, counts
from lakewright.statements.definitions.describe import described
from lakewright.statements.definitions.wording import shown_type
from lakewright.statements.embedded.changes import change_rows
from lakewright.statements.embedded.composed import Composed
from lakewright.statements.embedded.dialect.types import INTERVALS, NULL, spark_type
from lakewright.statements.embedded.evaluate import Evaluation
from lakewright.statements.embedded.files import copy_in, copy_out
from lakewright.statements.embedded.run import ZONE, interrupt, time_zone
from lakewright.statements.embedded.sources import ArrowRows, View
from lakewright.statements.embedded.writes import create_as, insert
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
    Update,
)
from lakewright.statements.parse.cursor import Cursor
from lakewright.statements.query.bind import Bound, bind
from lakewright.statements.query.places import Kind
from lakewright.statements.query.tables import SETTING
from lakewright.statements.session import Catalogs
from lakewright.statements.text import Args, Fragment
from lakewright.table.table import FileStoreTable
from lakewright.write.input.frames import ArrowData, batches_of

_NO_ROWS = pa.table({})


def show_as_grids(ipython: Any) -> None:  # noqa: ANN401 - the module, which need not be installed
    """Let a notebook show Arrow tables, as results are, as grids, unless it is told already how to show them."""
    shell = None if ipython is None else ipython.get_ipython()
    formatters = getattr(getattr(shell, "display_formatter", None), "formatters", {})
    html = formatters.get("text/html")
    if html is not None and pa.Table not in html.type_printers:
        html.for_type(pa.Table, _grid)


def _grid(rows: pa.Table) -> str:
    first = zip(*(column.to_pylist() for column in rows.slice(0, GRID_ROWS).columns), strict=True)
    return grid(rows.column_names, list(first), rows.num_rows)


class SQLContext(Context[pa.Table]):
    """Runs SQL statements in the dialect of Spark on the tables of a catalog, or of several by their names.

    Expressions mean what they mean in Spark with its ANSI rules, or are refused by name. The time zone is that of this
    machine, or what `SET spark.sql.session.timeZone` says; `SET duckdb.memory_limit`, `duckdb.threads` and
    `duckdb.temp_directory` say what a query may use.

    >>> import tempfile, lakewright as lw
    >>> ctx = lw.SQLContext({"warehouse": tempfile.mkdtemp()})
    >>> ctx.sql("SELECT 7 / 2 AS half, :day AS day", args={"day": "mon"}).to_pylist()
    [{'half': 3.5, 'day': 'mon'}]
    """

    def __init__(self, catalog: Catalogs, database: str = "default") -> None:
        super().__init__(catalog, database)
        show_as_grids(sys.modules.get("IPython"))
        self._settings: dict[str, str] = {}
        self._views: dict[str, View] = {}

    def register(self, name: str, data: ArrowData) -> None:
        """Make rows known under a name, as a temporary view: an Arrow table, a frame of pandas or polars, columns.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> ctx = lw.SQLContext({"warehouse": tempfile.mkdtemp()})
        >>> ctx.register("updates", pa.table({"id": [1, 2]}))
        >>> ctx.sql("SELECT sum(id) AS total FROM updates").to_pylist()
        [{'total': 3}]
        """
        view = arguments.text("name", name)
        expected = "an Arrow table or stream, a frame of pandas or polars, or a dict of columns of equal length"
        try:
            rows = pa.concat_tables(
                part if isinstance(part, pa.Table) else pa.table(part) for part in batches_of(data, view)
            )
        except (InvalidInputError, pa.ArrowInvalid) as error:
            message = f"data takes {expected}, not {arguments.shown(data)}: {error}"
            raise InvalidInputError(message, argument="data") from error
        self._views[view.lower()] = View(ArrowRows.of(rows.schema, rows.to_batches))

    @contextmanager
    def with_frames(self, frames: Mapping[str, ArrowData]) -> Iterator[None]:
        """Make frames known as temporary views while a statement runs; they hide views of the same names."""
        before = {name.lower(): self._views.get(name.lower()) for name in frames}
        try:
            for name, data in frames.items():
                self.register(name, data)
            yield
        finally:
            hidden = {name: view for name, view in before.items() if view is not None}
            self._views = {name: view for name, view in self._views.items() if name not in before} | hidden

    # ---- settings

    def settings(self) -> dict[str, str]:
        """Return what SET has set, by key."""
        return dict(self._settings)

    def set(self, key: str, value: str | None) -> None:
        """Set a key; None takes the setting back."""
        if value is None:
            self._settings.pop(key, None)
            return
        if key == ZONE:
            time_zone({key: value})
        self._settings[key] = value

    def compact(self, table: FileStoreTable, **arguments: object) -> CompactResult:
        """Compact a table in this process."""
        return table.compact(**arguments)  # type: ignore[arg-type]

    def interrupt(self) -> None:
        """Stop the queries that other threads run."""
        interrupt()

    # ---- what is asked while names are looked up

    @property
    def zone(self) -> str:
        """The time zone of the session."""
        return time_zone(self._settings)

    def is_view(self, name: str) -> bool:
        """Say whether a temporary view has this name."""
        return name.lower() in self._views

    def table_settings(self) -> Mapping[str, str]:
        """Return what is set for tables."""
        return {key: value for key, value in self._settings.items() if key.startswith(SETTING)}

    def moment(self, expression: Fragment, args: Args) -> int:
        """Return the moment that an expression gives, in epoch milliseconds."""
        evaluation = self._evaluation(expression, args)
        bound = evaluation.bind([(expression, Kind.EXPRESSION)])
        ready = evaluation.ready(bound, lambda text: f"SELECT unix_micros(CAST(({text(expression)}) AS TIMESTAMP))")
        with ready.rows() as rows:
            found = rows.read_all().column(0)[0].as_py()
        if found is None:
            raise expression.error("the time is null")
        return int(found) // 1000

    # ---- statements

    def rows(self, table: pa.Table) -> pa.Table:
        """Return a table as it is."""
        return table

    def query(self, query: Fragment, args: Args) -> pa.Table:
        """Run a query."""
        with self._evaluation(query, args).query(query).rows() as rows:
            return rows.read_all()

    def _evaluation(self, statement: Fragment, args: Args) -> Evaluation:
        return Evaluation(self, self, self._views, statement, args)

    def write(self, statement: Insert | CreateTableAs | CopyIn | CopyOut, args: Args) -> pa.Table:
        """Write the rows of a query or of files, and return the counts."""
        evaluation = self._evaluation(statement.text, args)
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
        done = change_rows(self._evaluation(statement.text, args), statement)
        return counts(done.inserted, done.updated, done.deleted)

    def other(self, statement: Explain | DescribeQuery | CreateView | Native, args: Args) -> pa.Table:
        """Run EXPLAIN or DESCRIBE QUERY, or make a temporary view; statements that only Spark knows are refused."""
        match statement:
            case Explain():
                return self._explain(statement, args)
            case DescribeQuery():
                columns = self._evaluation(statement.text, args).query(statement.query).columns
                return described((one.name, _shown_type(one.type)) for one in columns)
            case CreateView():
                return self._create_view(statement, args)
            case Native() if (name := _dropped_view(statement.text)) in self._views:
                self._views = {key: view for key, view in self._views.items() if key != name}
                return _NO_ROWS
        message = "the embedded SQL engine does not support this statement; lakewright.spark.SQLContext may run it"
        raise statement.text.error(message, kind=UnsupportedError)

    def _explain(self, statement: Explain, args: Args) -> pa.Table:
        ready = self._evaluation(statement.text, args).query(statement.query)
        return pa.table({"plan": [ready.explained()]})

    def _create_view(self, view: CreateView, args: Args) -> pa.Table:
        name = view.name.lower()
        if name in self._views and not view.replace:
            message = f"there is a temporary view {view.name!r} already; CREATE OR REPLACE takes its place"
            raise view.text.error(message, kind=AlreadyExistsError)
        names = self.catalog_name, self.database
        evaluation = self._evaluation(view.text, args)

        def looked_up() -> tuple[Bound, Fragment]:
            # The names of a view are those of the catalog and database that were current when it was made.
            now = self.catalog_name, self.database
            self.catalog_name, self.database = names
            try:
                bound = bind(self, self, [view.query], args)
                return bound, Composed.of(bound, view.query, {}, lambda parts: parts[0].text)
            finally:
                self.catalog_name, self.database = now

        evaluation.query(view.query)  # what cannot run is refused now
        self._views = {**self._views, name: View(query=looked_up, columns=view.columns)}
        return _NO_ROWS


def _shown_type(kind: pa.DataType) -> str:
    """Return how DESCRIBE spells the type of a column; nulls and intervals are types of queries only."""
    is_own = kind == NULL or kind in INTERVALS
    return spark_type(kind).lower() if is_own else shown_type(from_arrow_type(kind))


def _dropped_view(text: Fragment) -> str | None:
    """Return the name of the view that DROP VIEW drops."""
    cursor = Cursor(text)
    if not cursor.accept("DROP", "VIEW"):
        return None
    cursor.accept("IF", "EXISTS")
    return cursor.name("the name of a temporary view").lower()


def sql(text: str, args: Args | None = None, *, catalog: Catalogs, database: str = "default") -> pa.Table:
    """Run one statement in this process and return its rows; see `SQLContext.sql`.

    >>> import tempfile, lakewright as lw
    >>> lw.sql("SELECT 1 AS one", catalog=tempfile.mkdtemp()).to_pylist()
    [{'one': 1}]
    """
    return SQLContext(catalog, database).sql(text, args)

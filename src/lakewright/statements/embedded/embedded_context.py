"""`SQLContext` of this process; INSERT, CREATE TABLE AS."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from lakewright.commit.table_commit import CommitResult
from lakewright.compact.compaction_rounds import CompactResult
from lakewright.display import GRID_ROWS, grid
from lakewright.errors import AlreadyExistsError, InvalidInputError, UnsupportedError
from lakewright.spec import argument_checks
from lakewright.spec.arrow_types import from_arrow_type
from lakewright.spec.identifier import quote_identifier
from lakewright.spec.table_options import TableOptions
from lakewright.statements.bind_tables import BoundStatement, bind
from lakewright.statements.catalog_commands import describe_columns, shown_type
from lakewright.statements.change_statement import change_rows
from lakewright.statements.embedded.dialect_values import INTERVALS, NULL, spark_type
from lakewright.statements.embedded.duckdb_query import (
    ZONE,
    ArrowRows,
    Composed,
    DuckDBEvaluation,
    View,
    Written,
    interrupt,
    time_zone,
)
from lakewright.statements.embedded.embedded_changes import EmbeddedChanges, in_zone
from lakewright.statements.embedded.embedded_copy import copy_in, copy_out
from lakewright.statements.insert_plan import SchemaMerge, insert_query, plan_insert
from lakewright.statements.spark_grammar import FragmentKind
from lakewright.statements.sql_context import Context, counts
from lakewright.statements.sql_session import Catalogs
from lakewright.statements.sql_text import Args, Fragment, Name
from lakewright.statements.statements import (
    CopyIn,
    CopyOut,
    CreateTableAs,
    CreateView,
    Delete,
    DescribeQuery,
    Explain,
    Insert,
    MergeInto,
    Native,
    Update,
)
from lakewright.statements.store_assignment import StoreAssignment, sql_type
from lakewright.statements.table_lookup import SETTING
from lakewright.statements.token_cursor import TokenCursor
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.verbs import add_missing_columns, write_table
from lakewright.write.input_data import ArrowData, batches_of

# ---- INSERT, CREATE TABLE AS -----------------------------------------------------------------------------------------
# The rows of the query are cast to the types of the table by the rules of store assignment, and written batch by
# batch as `lakewright.write_table` writes them. A query reads its tables at the snapshots of its start, so that a
# statement may read the table that it writes. Invariant: a statement that fails changes nothing.

_MODE = "spark.sql.sources.partitionOverwriteMode"
_DYNAMIC = TableOptions.dynamic_partition_overwrite.key()


def insert(evaluation: DuckDBEvaluation, statement: Insert) -> CommitResult:
    """Write the rows of a query into a table."""
    table = in_zone(evaluation, evaluation.session.changeable(statement.table))
    query = insert_query(table.store, statement)
    bound = evaluation.bind([(query, FragmentKind.QUERY)])
    given = evaluation.ready(bound, lambda written: written(query)).columns
    by_name = pa.schema([(column.name, column.type) for column in given if statement.by_name])
    merge = SchemaMerge.of(evaluation.session, evaluation.lookup, statement.table)
    added = merge.columns(table, by_name)
    table, before = add_missing_columns(table, added, stored=False), table
    dynamic = evaluation.session.settings().get(_MODE, "static").lower() == "dynamic"
    plan = plan_insert(table.store, statement, [column.name for column in given], dynamic=dynamic)
    storing = StoreAssignment(table.store.name, by_position=not statement.by_name)
    chosen = [
        f"{storing.value(f'c{at}', given[at].type, field, statement.query)} AS {quote_identifier(field.name)}"
        for field, at in plan.columns
    ]
    static = _values(evaluation, table, plan.static)
    chosen += [f"{text} AS {quote_identifier(name)}" for name, (text, _) in static.items()]
    names = ", ".join(f"c{at}" for at in range(len(given)))

    def compose(written: Written) -> str:
        return f"SELECT {', '.join(chosen)} FROM ({written(query)}\n) AS _lw_rows({names})"  # noqa: S608 - bound later

    ready = evaluation.ready(bound, compose)
    table = add_missing_columns(before, added)
    with ready.rows() as rows:
        if statement.replace_where is None and not statement.overwrite:
            return write_table(rows, table, progress=False)
        if plan.replaced is None:
            return write_table(rows, table.copy({_DYNAMIC: "true"}), "overwrite", progress=False)
        spec = {name: found for name, (_, found) in _values(evaluation, table, plan.replaced).items()}
        return write_table(rows, table, "overwrite", partitions=spec, progress=False)


def create_as(evaluation: DuckDBEvaluation, statement: CreateTableAs) -> CommitResult | None:
    """Create a table and write the rows of a query into it; None: it exists, and stays as it is."""
    query = evaluation.query(statement.query)
    with query.rows() as rows:
        name = statement.create.create_as(evaluation.session, rows.schema)
        if name is None:
            return None
        try:
            done = write_table(rows, evaluation.session.table(name), progress=False)
            statement.create.finish(evaluation.session)
        except BaseException:
            statement.create.undo(evaluation.session)
            raise
        return done


def _values(
    evaluation: DuckDBEvaluation, table: FileStoreTable, given: Mapping[str, Fragment]
) -> dict[str, tuple[str, object]]:
    """Return the value of each partition column, as SQL text and as it is."""
    out: dict[str, tuple[str, object]] = {}
    for name, value in given.items():
        kind = sql_type(table.schema.field(name).type)
        bound = evaluation.bind([(value, FragmentKind.EXPRESSION)])

        def compose(written: Written, value: Fragment = value, kind: str = kind) -> str:
            return f"SELECT CAST({written(value)} AS {kind}) AS value"

        with evaluation.ready(bound, compose).rows() as rows:
            found: pa.Table = rows.read_all()
        text = found["value"].cast(pa.string())[0].as_py()
        shown = "NULL" if text is None else "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
        out[name] = f"CAST({shown} AS {kind})", found["value"][0].as_py()
    return out


# ---- SQLContext ------------------------------------------------------------------------------------------------------

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
        view = argument_checks.check_text("name", name)
        expected = "an Arrow table or stream, a frame of pandas or polars, or a dict of columns of equal length"
        try:
            rows = pa.concat_tables(
                part if isinstance(part, pa.Table) else pa.table(part) for part in batches_of(data, view)
            )
        except (InvalidInputError, pa.ArrowInvalid) as error:
            message = f"data takes {expected}, not {argument_checks.describe_value(data)}: {error}"
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

    def is_hidden(self, name: Name) -> bool:
        """Return whether a temporary view has the name of a table."""
        return len(name.parts) == 1 and name.parts[0].lower() in self._views

    def refresh_view(self, name: str) -> None:
        """Do nothing: the text of a view is run wherever the view is used."""

    def table_settings(self) -> Mapping[str, str]:
        """Return what is set for tables."""
        return {key: value for key, value in self._settings.items() if key.startswith(SETTING)}

    def moment(self, expression: Fragment, args: Args) -> int:
        """Return the moment that an expression gives, in epoch milliseconds."""
        evaluation = self._evaluation(expression, args)
        bound = evaluation.bind([(expression, FragmentKind.EXPRESSION)])
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

    def _evaluation(self, statement: Fragment, args: Args) -> DuckDBEvaluation:
        return DuckDBEvaluation(self, self, statement, args, self._views)

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

    def change(self, statement: Update | Delete | MergeInto, args: Args) -> pa.Table:
        """Change rows of a table in one snapshot, and return the counts."""
        done = change_rows(EmbeddedChanges(self._evaluation(statement.text, args)), statement)
        return counts(done.inserted, done.updated, done.deleted)

    def other(self, statement: Explain | DescribeQuery | CreateView | Native, args: Args) -> pa.Table:
        """Run EXPLAIN or DESCRIBE QUERY, or make a temporary view; statements that only Spark knows are refused."""
        match statement:
            case Explain():
                return self._explain(statement, args)
            case DescribeQuery():
                columns = self._evaluation(statement.text, args).query(statement.query).columns
                return describe_columns((one.name, _shown_type(one.type)) for one in columns)
            case CreateView():
                return self._create_view(statement, args)
            case Native() if (name := _dropped_view(statement.text)) in self._views:
                self._views = {key: view for key, view in self._views.items() if key != name}
                return _NO_ROWS
        message = "the embedded SQL engine does not support this statement; lakewright.spark.SQLContext may run it"
        raise statement.text.error(message, kind=UnsupportedError)

    def _explain(self, statement: Explain, args: Args) -> pa.Table:
        ready = self._evaluation(statement.text, args).query(statement.query)
        return pa.table({"plan": [ready.explain_plan()]})

    def _create_view(self, view: CreateView, args: Args) -> pa.Table:
        name = view.name.lower()
        if name in self._views and not view.replace:
            message = f"there is a temporary view {view.name!r} already; CREATE OR REPLACE takes its place"
            raise view.text.error(message, kind=AlreadyExistsError)
        names = self.catalog_name, self.database
        evaluation = self._evaluation(view.text, args)

        def looked_up() -> tuple[BoundStatement, Fragment]:
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
    cursor = TokenCursor(text)
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

"""Run a translated query on DuckDB; its tables and views."""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType
from sqlglot import exp

from lakewright.errors import (
    ColumnNotExistException,
    InvalidInputError,
    LakewrightError,
    SQLSyntaxError,
    TableNotExistException,
)
from lakewright.read.read_builder import ReadBuilder
from lakewright.statements.bind_tables import BoundStatement, BoundTable, Evaluation, TableState
from lakewright.statements.embedded.dialect_queries import Queries, QuerySource, Translated, translate
from lakewright.statements.embedded.dialect_values import (
    DAY_TIME,
    DAYS,
    INTERVALS,
    YEAR_MONTH,
    PythonFunction,
    ScopedColumn,
    duckdb_type,
    plain_type,
    quoted,
)
from lakewright.statements.spark_grammar import FragmentKind, args_by_name, marks_by_name, parse_fragment
from lakewright.statements.sql_text import Args, E, Fragment, caret_at, place_before

# ---- Names of relations ----------------------------------------------------------------------------------------------

ROWS = "$rows"


def relation_name(relation: BoundTable) -> str:
    """Return how the text of a statement names a relation."""
    return f"`{relation.name}{ROWS}`"


# ---- Statements made of fragments ------------------------------------------------------------------------------------
# Invariant: an error shows the text that the user wrote, never the names of relations that stand in the
# query.

_SHOWN_MAX = 500  # characters of a statement that an error without a place shows


@dataclass(frozen=True)
class TextPart:
    """A slice of the user's text as it stands in a query: with the names of relations, then with named parameters."""

    own: Fragment
    text: str
    changes: tuple[Mapping[tuple[int, int], str], ...]

    def error(self, message: str, at: int, kind: type[E], **facts: object) -> E:
        """Return an error that shows the place of the user's text that a place of this text came from."""
        for changes in reversed(self.changes):
            at = place_before(changes, at)
        return self.own.error(message, at, kind, **facts)


def part_of(bound: BoundStatement, number: int, statement: Fragment, args: Args) -> TextPart:
    """Return a slice of a statement as it is written for a query."""
    own = bound.pieces[number].fragment
    names = bound.changes(number, relation_name)
    text = own.replace_at(names)
    marks = marks_by_name(text, own, statement, args)
    return TextPart(own, Fragment(text, 0, len(text)).replace_at(marks), (names, marks))


@dataclass(frozen=True)
class Composed(Fragment):
    """The text of a query, whose errors show the slices of the user's text that it is made of."""

    statement: Fragment = field(kw_only=True)
    parts: tuple[TextPart, ...] = field(kw_only=True)

    @classmethod
    def of(
        cls, bound: BoundStatement, statement: Fragment, args: Args, compose: Callable[[list[TextPart]], str]
    ) -> Composed:
        """Return the text that `compose` makes of all slices."""
        parts = [part_of(bound, number, statement, args) for number in range(len(bound.pieces))]
        text = compose(parts)
        return cls(text, 0, len(text), statement=statement, parts=tuple(parts))

    def error(self, message: str, at: int = 0, kind: type[E] = SQLSyntaxError, **facts: object) -> E:  # type: ignore[assignment]
        """Return an error that shows the user's text, with the place where it is known."""
        plain = message.replace(ROWS, "")
        found = max(self._around(at), key=lambda one: len(one[0].text), default=None)
        if found is not None:
            part, start = found
            return part.error(plain, at - start, kind, **facts)
        text = self.statement.text.strip()
        line = caret_at(self.statement.whole, self.statement.start)[0]
        shown = f"{text[:_SHOWN_MAX]}{'...' if len(text) > _SHOWN_MAX else ''}"
        return kind(f"{plain}, in the statement on line {line}\n{shown}", line=line, **facts)

    def _around(self, at: int) -> Iterator[tuple[TextPart, int]]:
        """Yield the slices in which a place may stand, and where they begin."""
        for part in self.parts:
            start = self.whole.rfind(part.text, max(0, at - len(part.text)), at + len(part.text))
            if part.text and 0 <= start <= at:
                yield part, start


# ---- Running a query -------------------------------------------------------------------------------------------------
# Invariant: nothing of a statement is left when it ends, and DuckDB reads no file, no network and no variable
# of this program by itself.

ZONE = "spark.sql.session.timeZone"
_ARROW, _SPECIAL = PythonUDFType.ARROW, FunctionNullHandling.SPECIAL
_LIMITS = {
    "duckdb.memory_limit": "memory_limit",
    "duckdb.threads": "threads",
    "duckdb.temp_directory": "temp_directory",
}
_IN_PYTHON = re.compile(r"while executing the UDF: \w+: (.*)", re.DOTALL)
_PREFIX = re.compile(r"^(\w+ )*Error: ")


def time_zone(settings: Mapping[str, str]) -> str:
    """Return the time zone of a session: what SET has set, or that of this machine."""
    zone = settings.get(ZONE)
    if zone is None:
        return _local_zone()
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise InvalidInputError(
            f"{ZONE} is {zone!r}, which is no region such as Europe/Berlin or UTC", option=ZONE
        ) from error
    return zone


@cache
def _local_zone() -> str:
    with duckdb.connect() as connection:
        found = connection.execute("SELECT current_setting('TimeZone')").fetchone()
    return str(found[0]) if found else "UTC"


_OPEN: set[duckdb.DuckDBPyConnection] = set()  # in which queries may run
_OPEN_LOCK = threading.Lock()  # held by who interrupts, so that no connection is closed meanwhile


@contextmanager
def open_connection(settings: Mapping[str, str]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a connection for one statement; what it spills is removed with it."""
    with tempfile.TemporaryDirectory(prefix="lakewright-sql-", ignore_cleanup_errors=True) as spill:
        given: dict[str, str | bool | int | float | list[str]] = {"temp_directory": spill}
        given["python_enable_replacements"] = "false"
        given |= {name: settings[key] for key, name in _LIMITS.items() if key in settings}
        with failures(), duckdb.connect(":memory:", config=given) as connection:
            connection.execute(f"SET TimeZone = '{time_zone(settings)}'")
            connection.execute("SET enable_external_access = false")
            connection.execute("SET enable_progress_bar = false")  # after two seconds it would write to the terminal
            _OPEN.add(connection)
            try:
                yield connection
            finally:
                with _OPEN_LOCK:
                    _OPEN.discard(connection)


def interrupt() -> None:
    """Stop the queries that run now; each raises an error in its own thread. One that begins later is not stopped."""
    with _OPEN_LOCK:
        for connection in tuple(_OPEN):
            try:
                connection.interrupt()
            except duckdb.ConnectionException:  # closed, in a thread that was interrupted before it could say so
                _OPEN.discard(connection)


def add_functions(connection: duckdb.DuckDBPyConnection, functions: Iterable[PythonFunction]) -> None:
    """Make functions in Python known to a connection."""
    for one in functions:
        takes = [duckdb_type(kind) for kind in one.takes]
        # DuckDB counts the parameters of the function.
        run = _with_one(one.run) if len(takes) == 1 else _with_two(one.run)
        gives = duckdb_type(one.gives)
        connection.create_function(one.name, run, list(takes), gives, type=_ARROW, null_handling=_SPECIAL)


def _with_one(run: Callable[..., pa.Array]) -> Callable[[pa.ChunkedArray], pa.Array]:
    def function(only: pa.ChunkedArray) -> pa.Array:
        return run(only)

    return function


def _with_two(run: Callable[..., pa.Array]) -> Callable[[pa.ChunkedArray, pa.ChunkedArray], pa.Array]:
    def function(first: pa.ChunkedArray, second: pa.ChunkedArray) -> pa.Array:
        return run(first, second)

    return function


def read(connection: duckdb.DuckDBPyConnection, sql: str, columns: list[ScopedColumn]) -> pa.RecordBatchReader:
    """Run a query and return its rows as they come; the names and types of the columns are Spark's."""
    schema = pa.schema([pa.field(column.name, _result_type(column)) for column in columns])
    with failures():
        found = connection.sql(sql).to_arrow_reader(100_000)

    def batches() -> Iterator[pa.RecordBatch]:
        with failures():
            for batch in found:
                arrays = [_as(array, field.type) for array, field in zip(batch.columns, schema, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def explain(connection: duckdb.DuckDBPyConnection, sql: str) -> str:
    """Return the plan of a query in words."""
    with failures():
        return "\n".join(str(row[1]) for row in connection.execute(f"EXPLAIN {sql}").fetchall())


def _result_type(column: ScopedColumn) -> pa.DataType:
    if column.type == YEAR_MONTH:
        raise InvalidInputError(f"the column {column.name!r} is an interval of months, which a result cannot hold")
    return DAY_TIME if column.type == DAYS else column.type


def _as(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    if kind in INTERVALS:
        return pa.array(
            [
                None if one is None else (one.days * 86_400_000_000 + one.nanoseconds // 1000)
                for one in array.to_pylist()
            ],
            kind,
        )
    return array.cast(kind)


@contextmanager
def failures() -> Iterator[None]:
    """Turn errors of DuckDB into those of this library."""
    try:
        yield
    except LakewrightError:
        raise
    except (duckdb.Error, OSError, pa.ArrowInvalid) as error:  # Arrow has an OSError for what fails while rows are read
        text = str(error)
        inner = _IN_PYTHON.search(text)
        message = inner[1] if inner else _PREFIX.sub("", text).split("\n\nLINE")[0]
        if isinstance(error, duckdb.OutOfMemoryException):
            message += "; give it more: SET duckdb.memory_limit = '4GB'"
        raise InvalidInputError(f"the query failed: {message.strip()}") from error


# ---- Tables and views of a query -------------------------------------------------------------------------------------
# Invariant: values reach DuckDB exactly as they are stored. A type that DuckDB cannot hold is refused by the
# name of its column; a table is read in batches, never as a whole.


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """Rows that can be read again and again, in the types of the embedded engine."""

    schema: pa.Schema
    read: Callable[[], Iterable[pa.RecordBatch]]
    describe: Callable[[], str] | None = None

    @classmethod
    def of(
        cls,
        schema: pa.Schema,
        read: Callable[[], Iterable[pa.RecordBatch]],
        describe: Callable[[], str] | None = None,
    ) -> ArrowRows:
        """Return rows in the types of the embedded engine."""
        plain = pa.schema([(one.name, plain_type(one.type, one.name)) for one in schema])

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in read():
                arrays = [_plain(array, one.type) for array, one in zip(batch.columns, plain, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=plain)

        return cls(plain, read if plain.equals(schema) else batches, describe)

    def __arrow_c_schema__(self) -> object:
        """Return the columns."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows from the first on."""
        reader = pa.RecordBatchReader.from_batches(self.schema, iter(self.read()))
        return reader.__arrow_c_stream__(requested_schema)


def _plain(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_run_end_encoded(array.type):
        array = array.run_end_decode() if hasattr(array, "run_end_decode") else array
    return array if array.type == kind else array.cast(kind)


def relation_rows(relation: BoundTable) -> ArrowRows:
    """Return the rows of a table as a statement reads it."""
    builder = relation.builder()
    schema = pa.RecordBatchReader.from_stream(builder).schema
    describe = None
    if isinstance(builder, ReadBuilder):
        describe = lambda: f"{relation.name}: {builder.explain()}"  # noqa: E731 - one line

    def read() -> Iterator[pa.RecordBatch]:
        # Not by an Arrow stream, through which an error of the library would come as one of Arrow.
        now = relation.builder()
        if isinstance(now, ReadBuilder):
            yield from now.new_read().to_arrow_batch_reader(now.new_scan().plan().splits())
        else:
            yield from pa.RecordBatchReader.from_stream(now)

    return ArrowRows.of(schema, read, describe)


@dataclass(frozen=True, slots=True)
class View:
    """A temporary view: a query whose names are looked up, or rows."""

    rows: ArrowRows | None = None
    query: Callable[[], tuple[BoundStatement, Fragment]] | None = (
        None  # looks the names up, and returns them with the text
    )
    columns: tuple[str, ...] = ()


@dataclass(slots=True)
class StatementSources:
    """The tables and views that one statement may name."""

    views: Mapping[str, View]
    rows: dict[str, ArrowRows] = field(default_factory=dict)  # by their names in the text, in lower case
    missing: Callable[[exp.Table], Exception] | None = None
    raised: list[Exception] = field(default_factory=list)  # what went wrong while rows were read
    _opened: set[str] = field(default_factory=set)
    _views_open: tuple[str, ...] = ()

    def add(self, relations: Iterable[BoundTable]) -> None:
        """Make relations of a bound text known."""
        for relation in relations:
            self.rows[relation_name(relation).strip("`").lower()] = relation_rows(relation)

    def find(self, table: exp.Table, queries: Queries) -> QuerySource:
        """Return the table of a name."""
        name = table.name.lower()
        if not table.db and name in self.rows:
            self._opened.add(name)
            return _source(name, self.rows[name])
        if not table.db and name in self.views:
            return self._view(table, self.views[name], queries)
        if self.missing is not None:
            raise self.missing(table)
        raise queries.wrong(table, f"there is no table or view {table.sql('spark')}")

    def _view(self, table: exp.Table, view: View, queries: Queries) -> QuerySource:
        name = table.name.lower()
        if view.rows is not None:
            inner = f"{name}$view"
            self.rows[inner] = view.rows
            self._opened.add(inner)
            return replace(_source(inner, view.rows), qualifier=(table.name,))
        if name in self._views_open or view.query is None:
            raise queries.wrong(table, f"the view {table.name} reads itself")
        bound, fragment = view.query()
        own = StatementSources(self.views, {}, self.missing, _views_open=(*self._views_open, name))
        own.add(bound.relations)
        found = replace(queries, env=replace(queries.env, fragment=fragment), sources=own, ctes={}).query(
            parse_fragment(fragment)
        )
        columns = queries.rename_columns(table, found.columns, view.columns)
        # The relations of the view may have the names of others, so they get their own.
        sql = found.sql
        for used in own._opened:
            fresh = f"{name}${used}"
            sql = sql.replace(quoted(used), quoted(fresh))
            self.rows[fresh] = own.rows[used]
            self._opened.add(fresh)
        return QuerySource((table.name,), tuple((one.name, one.sql, one.type) for one in columns), f"({sql})")

    def describe_sources(self) -> list[str]:
        """Return what is read of each table."""
        return [one.describe() for name in sorted(self._opened) if (one := self.rows[name]).describe is not None]

    def register(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Make the rows that the query reads known to DuckDB."""
        for name in self._opened:
            connection.register(name, self._watch_errors(self.rows[name]))

    def _watch_errors(self, rows: ArrowRows) -> ArrowRows:
        """Return rows that note why they cannot be read: on its way through DuckDB an error becomes a text."""

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                yield from rows.read()
            except Exception as error:
                self.raised.append(error)
                raise

        return replace(rows, read=batches)


def _source(name: str, rows: ArrowRows) -> QuerySource:
    columns = tuple((one.name, quoted(one.name), one.type) for one in rows.schema)
    return QuerySource((name,), columns, quoted(name))


# ---- Queries over given rows -----------------------------------------------------------------------------------------
# Invariant: parameters are bound, never pasted. Those by place (`?`) become parameters by name, because the
# text of a change has the slices in another order, and some of them twice.

Written: TypeAlias = Callable[[str | Fragment], str]  # how own text, or a slice, is written for the query


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A query that can run."""

    translated: Translated
    sources: StatementSources
    settings: Mapping[str, str]

    @property
    def columns(self) -> list[ScopedColumn]:
        """The columns of the result."""
        return self.translated.bound.columns

    @contextmanager
    def rows(self) -> Iterator[pa.RecordBatchReader]:
        """Run the query and return its rows, which can be read while the `with` block lasts."""
        with self._connect() as connection:
            yield read(connection, self.translated.bound.sql, self.columns)

    def explain_plan(self) -> str:
        """Return the plan of DuckDB, and what is read of each table."""
        with self._connect() as connection:
            plan = explain(connection, self.translated.bound.sql)
        return "\n".join([plan, *self.sources.describe_sources()])

    @contextmanager
    def _connect(self) -> Iterator[duckdb.DuckDBPyConnection]:
        try:
            with open_connection(self.settings) as connection:
                self.sources.register(connection)
                add_functions(connection, self.translated.functions)
                yield connection
        except InvalidInputError:
            if self.sources.raised:
                raise self.sources.raised[0] from None
            raise


@dataclass(frozen=True, slots=True)
class DuckDBEvaluation(Evaluation):
    """Evaluates slices of one statement with DuckDB."""

    views: Mapping[str, View]

    def query(self, query: Fragment, at: TableState | None = None) -> PreparedQuery:
        """Return a query that can run."""
        return self.ready(self.bind([(query, FragmentKind.QUERY)], at), lambda written: written(query))

    def ready(
        self, bound: BoundStatement, compose: Callable[[Written], str], more: Mapping[str, ArrowRows] | None = None
    ) -> PreparedQuery:
        """Return the query of the text that `compose` makes of slices, over their relations and more rows by name."""

        def compose_parts(parts: Sequence[TextPart]) -> str:
            texts = {part.own: part.text for part in parts}
            return compose(lambda part: part if isinstance(part, str) else texts[part])

        text = Composed.of(bound, self.statement, self.args, compose_parts)
        sources = StatementSources(self.views, {name.lower(): rows for name, rows in (more or {}).items()})
        sources.missing = lambda table: self._missing(bound, table)
        sources.add(bound.relations)
        settings = self.session.settings()
        try:
            done = translate(text, args_by_name(self.args), sources, time_zone(settings))
        except ColumnNotExistException as error:
            raise bound.missing_column(str(error.column), getattr(error, "known", ())) from None
        return PreparedQuery(done, sources, settings)

    def _missing(self, bound: BoundStatement, table: exp.Table) -> Exception:
        parts = tuple(part.name.lower() for part in table.parts)
        for name in bound.left:
            if tuple(part.lower() for part in name.parts) == parts:
                return bound.missing(name)
        return TableNotExistException(f"there is no table or view {table.sql('spark')}", table=table.name)

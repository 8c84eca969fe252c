"""A query on DuckDB: SQL and sources in, Arrow batches out. Each statement has a connection of its own.

What always holds: nothing of a statement is left when it ends, and DuckDB reads no file, no network and no variable of
this program by itself.
"""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

from lakewright.errors import InvalidInputError, LakewrightError
from lakewright.statements.embedded.dialect.scope import Column
from lakewright.statements.embedded.dialect.types import DAY_TIME, DAYS, INTERVALS, YEAR_MONTH, duckdb_type
from lakewright.statements.embedded.dialect.values import PythonFunction

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
def connected(settings: Mapping[str, str]) -> Iterator[duckdb.DuckDBPyConnection]:
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


def read(connection: duckdb.DuckDBPyConnection, sql: str, columns: list[Column]) -> pa.RecordBatchReader:
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


def _result_type(column: Column) -> pa.DataType:
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

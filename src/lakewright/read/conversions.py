"""Rows in the forms of other libraries: Arrow data in, frames of pandas or polars, or a view of DuckDB, out."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.spec import arguments

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl


def optional_package(package: str, *, extra: str | None = None) -> Any:  # noqa: ANN401 - a module
    """Return a package that users install if they need it, or raise UnsupportedError that says how."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        remedy = f"pip install 'lakewright[{extra or package}]'"
        raise UnsupportedError(f"this needs {package}: {remedy}", package=package) from error


def pandas_frame(rows: Callable[[], pa.Table], *, arrow_backed: bool) -> pd.DataFrame:
    """Return rows as a frame of pandas; with `arrow_backed` its columns keep the types and nulls of Arrow."""
    pandas = optional_package("pandas")
    keeps_types = arguments.flag("arrow_backed", arrow_backed)
    frame: pd.DataFrame = rows().to_pandas(types_mapper=pandas.ArrowDtype if keeps_types else None)
    return frame


def polars_frame(rows: Callable[[], pa.Table]) -> pl.DataFrame:
    """Return rows as a frame of polars."""
    polars = optional_package("polars")
    frame: pl.DataFrame = polars.DataFrame(polars.from_arrow(rows()))
    return frame


def register_in_duckdb(
    rows: Callable[[], pa.Table], table_name: str, connection: duckdb.DuckDBPyConnection | None
) -> duckdb.DuckDBPyConnection:
    """Register rows as a view of a duckdb connection, a new one where none is given, and return the connection."""
    name = arguments.text("table_name", table_name)
    package = optional_package("duckdb")
    if connection is not None:
        arguments.instance("connection", connection, package.DuckDBPyConnection, "a connection of duckdb")
    read = rows()
    connection = package.connect() if connection is None else connection
    try:
        connection.register(name, read)
    except package.Error as error:
        raise InvalidInputError(f"duckdb cannot name a view {arguments.shown(name)}: {error}") from error
    return connection

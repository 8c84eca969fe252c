"""Contexts that run statements in tests: a catalog in, a context with a database `shop` out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakewright as lw
from support.rest_server import running_rest

CATALOGS = ("files", "rest", "sqlite")


@contextmanager
def running_context(directory: Path, kind: str = "files") -> Iterator[lw.SQLContext]:
    """Open a context on an empty catalog of a kind, with the current database `shop`."""
    if kind == "rest":
        with running_rest(str(directory / "data")) as server:
            yield _context(server.options)
        return
    options = {"warehouse": str(directory / "warehouse")}
    if kind == "sqlite":
        options |= {"metastore": "jdbc", "uri": f"jdbc:sqlite:{directory / 'names.db'}"}
    yield _context(options)


def _context(options: dict[str, str]) -> lw.SQLContext:
    catalog = lw.CatalogFactory.create(options)
    catalog.create_database("shop", ignore_if_exists=True)
    return lw.SQLContext(catalog, "shop")


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows of what a statement shows."""
    return [tuple(row.values()) for row in table.to_pylist()]


def table_of(context: lw.SQLContext, name: str) -> Any:  # noqa: ANN401 - a table or a system table
    """Return a table of the current database."""
    return context.catalog.get_table(f"{context.database}.{name}")


def fill(context: lw.SQLContext, table_name: str, /, **columns: list[Any]) -> None:
    """Append rows, given by columns, to a table."""
    table = table_of(context, table_name)
    wanted = [field for field in table.schema.arrow_schema if field.name in columns]
    lw.write_table(pa.table(columns, pa.schema(wanted)), table)

"""Statements in this process: text in, Arrow tables out; DuckDB evaluates queries, the library writes the tables."""

from __future__ import annotations

import pyarrow as pa

from lakewright.errors import UnsupportedError
from lakewright.statements.context import Context
from lakewright.statements.model import (
    CopyIn,
    CopyOut,
    CreateTableAs,
    CreateView,
    Delete,
    Explain,
    Insert,
    Merge,
    Native,
    Update,
)
from lakewright.statements.session import Catalogs
from lakewright.statements.text import Args, Fragment
from lakewright.table.table import FileStoreTable


class SQLContext(Context[pa.Table]):
    """Runs SQL statements in the dialect of Spark on the tables of a catalog, or of several by their names.

    >>> import tempfile, lakewright as lw
    >>> ctx = lw.SQLContext({"warehouse": tempfile.mkdtemp()})
    >>> ctx.database
    'default'
    """

    def __init__(self, catalog: Catalogs, database: str = "default") -> None:
        super().__init__(catalog, database)
        self._settings: dict[str, str] = {}

    def settings(self) -> dict[str, str]:
        """Return what SET has set, by key."""
        return dict(self._settings)

    def set(self, key: str, value: str | None) -> None:
        """Set a key; None takes the setting back."""
        if value is None:
            self._settings.pop(key, None)
        else:
            self._settings[key] = value

    def compact(self, table: FileStoreTable, **arguments: object) -> None:
        """Compact a table in this process."""
        table.compact(**arguments)  # type: ignore[arg-type]

    def rows(self, table: pa.Table) -> pa.Table:
        """Return a table as it is."""
        return table

    def query(self, query: Fragment, args: Args) -> pa.Table:
        """Run a query."""
        raise query.error("queries are not evaluated in this process yet", kind=UnsupportedError, args=args)

    def write(self, statement: Insert | CreateTableAs | CopyIn | CopyOut, args: Args) -> pa.Table:
        """Write the rows of a query or of files, and return the counts."""
        raise statement.text.error("rows are not written in this process yet", kind=UnsupportedError, args=args)

    def change(self, statement: Update | Delete | Merge, args: Args) -> pa.Table:
        """Change rows of a table in one snapshot, and return the counts."""
        raise statement.text.error("rows are not changed in this process yet", kind=UnsupportedError, args=args)

    def other(self, statement: Explain | CreateView | Native, args: Args) -> pa.Table:
        """Run EXPLAIN, or make a temporary view; statements that only Spark knows are refused."""
        raise statement.text.error("this statement does not run in this process", kind=UnsupportedError, args=args)


def sql(text: str, args: Args | None = None, *, catalog: Catalogs, database: str = "default") -> pa.Table:
    """Run one statement and return its rows; see `SQLContext.sql`."""
    return SQLContext(catalog, database).sql(text, args)

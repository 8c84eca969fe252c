"""`expr`: the text of an expression in SQL as the new value of a column, in an update or a merge on any engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from sqlglot import exp

from lakewright.dml.assignments import ColumnExpression, ColumnRef, ColumnScope, MergeSide
from lakewright.errors import ColumnNotExistException, InvalidInputError
from lakewright.spec import argument_checks
from lakewright.statements.change_query import mentioned_columns
from lakewright.statements.embedded.dialect_queries import translate
from lakewright.statements.embedded.duckdb_query import (
    ZONE,
    ArrowRows,
    StatementSources,
    add_functions,
    open_connection,
    read,
    time_zone,
)
from lakewright.statements.sql_text import Fragment

_ROW = "_lw_row"


@dataclass(frozen=True, slots=True)
class SQLExpression(ColumnExpression):
    """An expression in SQL over the columns of a row."""

    text: str
    zone: str  # of this session, also on the workers of an engine

    def needs(self, scope: ColumnScope) -> Iterable[ColumnRef]:
        """Return the columns whose names occur in it."""
        refs = scope.refs()
        names = mentioned_columns(
            [Fragment(self.text, 0, len(self.text))], list(dict.fromkeys(ref.name for ref in refs))
        )
        return [ref for ref in refs if ref.name in names]

    def evaluate(self, visible: pa.Table, sides: Mapping[MergeSide, pa.Table | None], rows: int) -> pa.ChunkedArray:
        """Return the value for each row; columns of a merge are `t.name`, `s.name`, or a name that one side has."""
        numbers = pa.array(np.arange(rows))
        given = {side.value: table for side, table in sides.items() if table is not None}
        tables = {
            name: pa.table({_ROW: numbers, **dict(zip(table.column_names, table.columns, strict=True))})
            for name, table in (given or {"t": pa.table({})}).items()
        }
        first, *rest = tables
        joins = "".join(f" JOIN {name} ON {first}.{_ROW} = {name}.{_ROW}" for name in rest)
        query = f"SELECT (\n{self.text}\n) AS value, {first}.{_ROW} FROM {first}{joins} ORDER BY {first}.{_ROW}"  # noqa: S608 - the text is SQL
        sources = StatementSources(
            {}, {name: ArrowRows.of(table.schema, table.to_batches) for name, table in tables.items()}
        )
        settings = {ZONE: self.zone}
        try:
            done = translate(Fragment(query, 0, len(query)), {}, sources, self.zone)
        except ColumnNotExistException as error:
            known = ", ".join(name for name in visible.column_names if name != _ROW)
            raise ColumnNotExistException(
                f"expr({self.text!r}) reads the column {error.column!r}, which is unknown here; there are {known}",
                column=error.column,
            ) from None
        with open_connection(settings) as connection:
            sources.register(connection)
            add_functions(connection, done.functions)
            return read(connection, done.bound.sql, done.bound.columns).read_all().column(0)


def expr(text: str) -> SQLExpression:
    """Return the value of an expression in SQL, in the dialect of Spark, for an update or a merge.

    It sees the columns of its row: by their names in an update, as `t.name` and `s.name` in a merge. It has no
    subqueries, aggregates or window functions.

    >>> import tempfile, pyarrow as pa, lakewright as lw
    >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
    >>> catalog.create_database("d")
    >>> catalog.create_table("d.t", pa.schema({"id": pa.int64(), "name": pa.string()}))
    >>> table = catalog.get_table("d.t")
    >>> _ = lw.write_table(pa.table({"id": [1, 2], "name": ["ann", "bob"]}), table)
    >>> _ = table.update({"name": lw.expr("upper(name) || id")}, "id = 1")
    >>> lw.read_table(table)["name"].to_pylist()
    ['ANN1', 'bob']
    """
    given = argument_checks.check_text("text", text)
    tree = Fragment(given, 0, len(given)).tree
    refused = (exp.Query, exp.Window, exp.AggFunc, exp.Star)
    found = next((node for node in tree.walk() if isinstance(node, refused)), None)
    if found is not None or not isinstance(tree, exp.Expression):
        raise InvalidInputError(
            f"expr({given!r}) takes an expression over one row: no query, aggregate, window function or star; use "
            "UPDATE or MERGE of lakewright.SQLContext",
            argument="text",
        )
    return SQLExpression(given, time_zone({}))

"""Slices of a statement over rows: text whose names are looked up in, a query that DuckDB runs out.

What always holds: parameters are bound, never pasted. Those by place (`?`) become parameters by name, because the text
of a change has the slices in another order, and some of them twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import duckdb
import pyarrow as pa
from sqlglot import exp

from lakewright.errors import ColumnNotExistException, InvalidInputError, TableNotExistException
from lakewright.statements.embedded.composed import Composed, Part
from lakewright.statements.embedded.dialect.scope import Column
from lakewright.statements.embedded.dialect.translate import Translated, translate
from lakewright.statements.embedded.run import add_functions, connected, explain, read, time_zone
from lakewright.statements.embedded.sources import ArrowRows, StatementSources, View
from lakewright.statements.query.bind import Bound, bind
from lakewright.statements.query.parameters import args_by_name
from lakewright.statements.query.places import Kind
from lakewright.statements.query.tables import Lookup
from lakewright.statements.session import Session
from lakewright.statements.text import Args, Fragment
from lakewright.table.table import FileStoreTable

Written: TypeAlias = Callable[[str | Fragment], str]  # how own text, or a slice, is written for the query
At: TypeAlias = tuple[FileStoreTable, int | None]


@dataclass(frozen=True, slots=True)
class Ready:
    """A query that can run."""

    translated: Translated
    sources: StatementSources
    settings: Mapping[str, str]

    @property
    def columns(self) -> list[Column]:
        """The columns of the result."""
        return self.translated.bound.columns

    @contextmanager
    def rows(self) -> Iterator[pa.RecordBatchReader]:
        """Run the query and return its rows, which can be read while the `with` block lasts."""
        with self._connected() as connection:
            yield read(connection, self.translated.bound.sql, self.columns)

    def explained(self) -> str:
        """Return the plan of DuckDB, and what is read of each table."""
        with self._connected() as connection:
            plan = explain(connection, self.translated.bound.sql)
        return "\n".join([plan, *self.sources.described()])

    @contextmanager
    def _connected(self) -> Iterator[duckdb.DuckDBPyConnection]:
        try:
            with connected(self.settings) as connection:
                self.sources.register(connection)
                add_functions(connection, self.translated.functions)
                yield connection
        except InvalidInputError:
            if self.sources.raised:
                raise self.sources.raised[0] from None
            raise


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Evaluates slices of one statement."""

    session: Session
    lookup: Lookup
    views: Mapping[str, View]
    statement: Fragment
    args: Args

    def bind(self, fragments: Sequence[tuple[Fragment, Kind]], at: At | None = None) -> Bound:
        """Look up the tables of some slices; `at` is a table whose snapshot is given."""
        return bind(self.session, self.lookup, fragments, self.args, at)

    def query(self, query: Fragment, at: At | None = None) -> Ready:
        """Return a query that can run."""
        return self.ready(self.bind([(query, Kind.QUERY)], at), lambda written: written(query))

    def ready(
        self, bound: Bound, compose: Callable[[Written], str], more: Mapping[str, ArrowRows] | None = None
    ) -> Ready:
        """Return the query of the text that `compose` makes of slices, over their relations and more rows by name."""

        def composed(parts: Sequence[Part]) -> str:
            texts = {part.own: part.text for part in parts}
            return compose(lambda part: part if isinstance(part, str) else texts[part])

        text = Composed.of(bound, self.statement, self.args, composed)
        sources = StatementSources(self.views, {name.lower(): rows for name, rows in (more or {}).items()})
        sources.missing = lambda table: self._missing(bound, table)
        sources.add(bound.relations)
        settings = self.session.settings()
        try:
            done = translate(text, args_by_name(self.args), sources, time_zone(settings))
        except ColumnNotExistException as error:
            raise bound.missing_column(str(error.column), getattr(error, "known", ())) from None
        return Ready(done, sources, settings)

    def _missing(self, bound: Bound, table: exp.Table) -> Exception:
        parts = tuple(part.name.lower() for part in table.parts)
        for name in bound.left:
            if tuple(part.lower() for part in name.parts) == parts:
                return bound.missing(name)
        return TableNotExistException(f"there is no table or view {table.sql('spark')}", table=table.name)

"""The tables and views of a query: names in, rows that DuckDB can read as often as it wants out.

What always holds: values reach DuckDB exactly as they are stored. A type that DuckDB cannot hold is refused by the name
of its column; a table is read in batches, never as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import duckdb
import pyarrow as pa
from sqlglot import exp

from lakewright.read.builder import ReadBuilder
from lakewright.statements.embedded.dialect.grammar import parsed
from lakewright.statements.embedded.dialect.queries import Queries, Source
from lakewright.statements.embedded.dialect.types import plain_type, quoted
from lakewright.statements.embedded.names import relation_name
from lakewright.statements.query.bind import Bound, Relation
from lakewright.statements.text import Fragment


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """Rows that can be read again and again, in the types of this room."""

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
        """Return rows in the types of this room."""
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


def relation_rows(relation: Relation) -> ArrowRows:
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
    query: Callable[[], tuple[Bound, Fragment]] | None = None  # looks the names up, and returns them with the text
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

    def add(self, relations: Iterable[Relation]) -> None:
        """Make relations of a bound text known."""
        for relation in relations:
            self.rows[relation_name(relation).strip("`").lower()] = relation_rows(relation)

    def find(self, table: exp.Table, queries: Queries) -> Source:
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

    def _view(self, table: exp.Table, view: View, queries: Queries) -> Source:
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
            parsed(fragment)
        )
        columns = queries.renamed(table, found.columns, view.columns)
        # The relations of the view may have the names of others, so they get their own.
        sql = found.sql
        for used in own._opened:
            fresh = f"{name}${used}"
            sql = sql.replace(quoted(used), quoted(fresh))
            self.rows[fresh] = own.rows[used]
            self._opened.add(fresh)
        return Source((table.name,), tuple((one.name, one.sql, one.type) for one in columns), f"({sql})")

    def described(self) -> list[str]:
        """Return what is read of each table."""
        return [one.describe() for name in sorted(self._opened) if (one := self.rows[name]).describe is not None]

    def register(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Make the rows that the query reads known to DuckDB."""
        for name in self._opened:
            connection.register(name, self._watched(self.rows[name]))

    def _watched(self, rows: ArrowRows) -> ArrowRows:
        """Return rows that note why they cannot be read: on its way through DuckDB an error becomes a text."""

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                yield from rows.read()
            except Exception as error:
                self.raised.append(error)
                raise

        return replace(rows, read=batches)


def _source(name: str, rows: ArrowRows) -> Source:
    columns = tuple((one.name, quoted(one.name), one.type) for one in rows.schema)
    return Source((name,), columns, quoted(name))

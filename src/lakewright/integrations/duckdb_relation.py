"""DuckDB relations; a module of its own because it imports duckdb.

DuckDB asks datasets of Arrow for columns and a filter, and relies on that filter: a `TableDataset` is such a dataset.
It takes the reader of what it is given. Arrow's own scanner would read many batches ahead of a query with a LIMIT.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lakewright.errors import LakewrightError
from lakewright.integrations.lazy_source import LazySource, lazy_source
from lakewright.spec import argument_checks
from lakewright.spec.argument_checks import PathLike, TimestampLike
from lakewright.spec.filters import pushed_from_arrow
from lakewright.table.table_views import ReadableTable


def duckdb_relation(
    table: ReadableTable | PathLike,
    connection: duckdb.DuckDBPyConnection | None = None,
    *,
    snapshot_id: int | None = None,
    tag: str | None = None,
    timestamp: TimestampLike | None = None,
) -> duckdb.DuckDBPyRelation:
    """Return a table as a relation of DuckDB: the newest snapshot as of this call, or the state an argument names.

    A query reads the columns it needs, and its filters leave out partitions, buckets and files. The relation belongs to
    `connection`, or to DuckDB's default one; the variable that holds it is a name in SQL, as with every relation.

    >>> import tempfile, pyarrow as pa, lakewright as lw
    >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
    >>> catalog.create_database("d")
    >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"id": pa.int64(), "n": pa.int64()})))
    >>> table = catalog.get_table("d.t")
    >>> _ = lw.write_table({"id": [1, 2, 3], "n": [5, 6, 7]}, table)
    >>> t = lw.duckdb_relation(table)
    >>> t.filter("id > 1").aggregate("sum(n)").fetchall()
    [(13,)]
    """
    if connection is not None:
        argument_checks.check_instance("connection", connection, duckdb.DuckDBPyConnection, "a connection of duckdb")
    dataset = TableDataset(lazy_source(table, snapshot_id, tag, timestamp))
    return duckdb.from_arrow(dataset) if connection is None else connection.from_arrow(dataset)


@dataclass(frozen=True, slots=True)
class Scan:
    """Rows that need no more filter, as DuckDB asks for them."""

    reader: pa.RecordBatchReader

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows; they can be read once."""
        return self.reader


class TableDataset(ds.Dataset):  # type: ignore[misc] # pyarrow has no types
    """A table as a dataset of Arrow, for readers that hand over columns and a filter."""

    def __new__(cls, _source: LazySource) -> Self:
        """Make a dataset without Arrow's constructor, which takes datasets of its own kinds alone."""
        made: Self = ds.Dataset.__new__(cls)
        return made

    def __init__(self, source: LazySource) -> None:
        self._source = source

    def __reduce__(self) -> tuple[type[TableDataset], tuple[LazySource]]:
        return TableDataset, (self._source,)

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._source.schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - the word of Arrow's datasets
        **_: object,
    ) -> Scan | ds.Scanner:
        """Return what reads some columns of the rows that fulfil a filter."""
        if filter is None:
            return Scan(self._source.batches(columns))
        try:
            pushed = pushed_from_arrow(filter, self._source.predicates())
        except LakewrightError:  # a form of expressions that is not known here: Arrow applies it
            return ds.Scanner.from_batches(self._source.batches(), columns=columns, filter=filter)
        if pushed.is_whole:
            return Scan(self._source.batches(columns, pushed.predicate))
        needed = None if columns is None else [*dict.fromkeys([*columns, *sorted(pushed.columns)])]
        rows = self._source.batches(needed, pushed.predicate)
        return ds.Scanner.from_batches(rows, columns=columns, filter=filter)

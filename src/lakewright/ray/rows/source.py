"""The source of a change on Ray: a dataset in, references to its blocks and its columns as the core reads them out.

A dataset runs once for all attempts at a change: its blocks stay in Ray's object store, which spills them to disk, and
none of its rows come to the driver. Always holds: blocks are in the order of the dataset, and `read_pieces` returns
their rows in the same types, whatever types single blocks have.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import ray
from ray.data import Dataset

from lakewright.errors import InvalidInputError
from lakewright.ray.datasets import arrow_schema_of, pieces_of, runs
from lakewright.ray.tasks import Piece, fetched, our_errors, rows_of
from lakewright.update.merge.clauses import read_source
from lakewright.write.input.frames import from_pandas

_SCHEMA_BYTES = 64 << 20  # of blocks that one task looks at for their columns


class Source:
    """A dataset that changes a table."""

    def __init__(self, dataset: Dataset, table: str) -> None:
        known = arrow_schema_of(dataset, fetch=False)
        self._dataset = dataset
        self._pieces: list[Piece] | None = None
        if known is None:
            known = self._schema_of_blocks(table)
        self.schema = read_source(known.empty_table(), table).schema

    @property
    def pieces(self) -> list[Piece]:
        """The blocks, in the order of the dataset, which runs when they are first asked for."""
        if self._pieces is None:
            self._pieces = list(pieces_of(self._dataset))
        return self._pieces

    def _schema_of_blocks(self, table: str) -> pa.Schema:
        """Return the columns of all blocks; one that is null in some of them has the type that it has in others."""
        asked = [SCHEMA_OF.remote(run, table) for run in runs(self.pieces, _SCHEMA_BYTES)]
        with our_errors():
            found = ray.get(asked)
        return pa.unify_schemas([pa.schema([]), *found], promote_options="permissive")

    @property
    def bytes(self) -> int:
        """How many bytes the blocks have, about."""
        return sum(piece.bytes for piece in self.pieces)


def schema_of(pieces: Sequence[Piece], table: str) -> pa.Schema:
    """Return the columns of pieces, on a worker."""
    blocks = (block if isinstance(block, pa.Table) else from_pandas(block, table) for block in fetched(pieces))
    schemas = [block.schema.remove_metadata() for block in blocks]
    return pa.unify_schemas([pa.schema([]), *schemas], promote_options="permissive")


def read_pieces(pieces: Sequence[Piece], schema: pa.Schema, table: str) -> pa.Table:
    """Return the rows of pieces with the columns and types of a schema, on a worker."""
    parts = [_in_schema(rows, schema, table) for rows in rows_of(fetched(pieces), table)]
    return pa.concat_tables([schema.empty_table(), *parts])


def _in_schema(rows: pa.Table, schema: pa.Schema, table: str) -> pa.Table:
    given = [name for name in schema.names if name in rows.column_names]
    known = read_source(rows.select(given), table)
    columns = []
    for field in schema:
        if field.name not in given:
            columns.append(pa.nulls(rows.num_rows, field.type))
            continue
        column = known.column(field.name)
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowException as error:
            raise InvalidInputError(
                f"table {table}: the column {field.name!r} is {column.type} in some blocks of the dataset and "
                f"{field.type} in others: {error}; cast it",
                table=table,
                column=field.name,
            ) from error
    return pa.Table.from_arrays(columns, schema=schema)


SCHEMA_OF = ray.remote(schema_of)

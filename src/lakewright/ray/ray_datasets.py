"""Datasets as a write takes them."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise
from typing import Any

import pandas as pd
import pyarrow as pa
import ray
import ray.data
from ray.data import Dataset

from lakewright.dml.merge_clauses import read_source
from lakewright.engine.job_progress import ProgressCallback
from lakewright.errors import InvalidInputError
from lakewright.ray.ray_engine import BlockSlice, fetch_blocks, our_errors, rows_of
from lakewright.write.input_data import from_pandas

# ---- Datasets as a write takes them ----------------------------------------------------------------------------------
# Invariant: blocks come in the order of the dataset, whatever its own settings say; these settings stay as they
# are.

_STARTING = threading.Lock()  # held while the settings of a dataset are changed


def pieces_of(dataset: Dataset) -> Iterator[BlockSlice]:
    """Run the dataset and return references to its blocks, in the order of the dataset."""
    with _STARTING, in_order(dataset):
        bundles = iter(dataset.iter_internal_ref_bundles())
    return (piece for bundle in bundles for piece in _blocks_of(bundle))


@contextmanager
def in_order(dataset: Dataset) -> Iterator[None]:
    """Let executions that start in this block give blocks in the order of the dataset."""
    context = dataset.context
    theirs = context.execution_options
    if theirs.preserve_order:
        yield
        return
    ordered = copy.copy(theirs)
    ordered.preserve_order = True
    context.execution_options = ordered
    try:
        yield
    finally:
        context.execution_options = theirs


def _blocks_of(bundle: Any) -> Iterator[BlockSlice]:  # noqa: ANN401 - Ray's own type
    cuts = getattr(bundle, "slices", None) or [None] * len(bundle.block_refs)
    for block, facts, cut in zip(bundle.block_refs, bundle.metadata, cuts, strict=True):
        start, end = (0, facts.num_rows) if cut is None else (cut.start_offset, cut.end_offset)
        yield BlockSlice(block, start, end, facts.size_bytes)


def runs(pieces: Iterable[BlockSlice], task_bytes: int) -> Iterator[list[BlockSlice]]:
    """Yield pieces that follow each other, in runs of about so many bytes; those that are far larger are cut."""
    run: list[BlockSlice] = []
    size = 0
    for piece in chain.from_iterable(_cut(piece, task_bytes) for piece in pieces):
        run.append(piece)
        size += piece.bytes
        if size >= task_bytes * 7 // 8:
            yield run
            run, size = [], 0
    if run:
        yield run


def _cut(piece: BlockSlice, task_bytes: int) -> Iterator[BlockSlice]:
    """Yield a piece in parts of the same size, if it is too large for one task."""
    parts = 1 if piece.end is None else min(piece.end - piece.start, round(piece.bytes / task_bytes))
    if piece.end is None or parts <= 1:
        yield piece
        return
    ends = [piece.start + (piece.end - piece.start) * part // parts for part in range(parts + 1)]
    yield from (BlockSlice(piece.block, start, end, piece.bytes // parts) for start, end in pairwise(ends))


@contextmanager
def bars(dataset: Dataset, progress: bool | ProgressCallback | None) -> Iterator[None]:  # noqa: FBT001 - a callback, or a flag
    """Switch Ray's bars off if `progress` is False."""
    context = dataset.context
    before = context.enable_progress_bars
    if progress is False:
        context.enable_progress_bars = False
    try:
        yield
    finally:
        context.enable_progress_bars = before


def to_dataset(source: object) -> Dataset | None:
    """Return a dataset as it is, and an Arrow table or a pandas frame as a dataset; None for anything else."""
    if isinstance(source, Dataset):
        return source
    made: Dataset | None = None
    if isinstance(source, pa.Table):
        made = ray.data.from_arrow(source)
    elif isinstance(source, pd.DataFrame):
        made = ray.data.from_pandas(source)
    return made


def check_dataset(dataset: Dataset) -> None:
    """Raise InvalidInputError unless this is a dataset of Ray."""
    if not isinstance(dataset, Dataset):
        raise InvalidInputError(
            f"a {type(dataset).__name__} is no dataset of Ray: write pandas, polars and Arrow data with "
            "lakewright.write_table, or make a dataset with ray.data.from_arrow"
        )


def arrow_schema_of(dataset: Dataset, *, fetch: bool = True) -> pa.Schema | None:
    """Return the columns of a dataset; None where it has none, or without `fetch` where Ray must run it to know."""
    known = dataset.schema(fetch_if_missing=fetch)
    if known is None or not known.names:
        return None
    if isinstance(known.base_schema, pa.Schema):
        return known.base_schema
    return pa.table(dataset.take_batch(1, batch_format="pyarrow")).schema if fetch else None  # of pandas


def fetched_schema(dataset: Dataset) -> pa.Schema:
    """Return the columns of a dataset, all nullable, so that they can be added to a table that has rows."""
    schema = arrow_schema_of(dataset) or pa.schema([])
    return pa.schema([field.with_nullable(True) for field in schema])  # noqa: FBT003 - Arrow's own argument


# ---- Sources of changes ----------------------------------------------------------------------------------------------
# A dataset runs once for all attempts at a change: its blocks stay in Ray's object store, which spills them to disk,
# and none of its rows come to the driver. Invariant: blocks are in the order of the dataset, and `read_pieces`
# returns their rows in the same types, whatever types single blocks have.

_SCHEMA_BYTES = 64 << 20  # of blocks that one task looks at for their columns


class RaySource:
    """A dataset that changes a table."""

    def __init__(self, dataset: Dataset, table: str) -> None:
        known = arrow_schema_of(dataset, fetch=False)
        self._dataset = dataset
        self._pieces: list[BlockSlice] | None = None
        if known is None:
            known = self._schema_of_blocks(table)
        self.schema = read_source(known.empty_table(), table).schema

    @property
    def pieces(self) -> list[BlockSlice]:
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


def schema_of(pieces: Sequence[BlockSlice], table: str) -> pa.Schema:
    """Return the columns of pieces, on a worker."""
    blocks = (block if isinstance(block, pa.Table) else from_pandas(block, table) for block in fetch_blocks(pieces))
    schemas = [block.schema.remove_metadata() for block in blocks]
    return pa.unify_schemas([pa.schema([]), *schemas], promote_options="permissive")


def read_pieces(pieces: Sequence[BlockSlice], schema: pa.Schema, table: str) -> pa.Table:
    """Return the rows of pieces with the columns and types of a schema, on a worker."""
    parts = [_in_schema(rows, schema, table) for rows in rows_of(fetch_blocks(pieces), table)]
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

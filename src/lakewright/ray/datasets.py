"""Datasets of Ray as a write takes them: a dataset in, references to its blocks, in its order, and its columns out.

Always holds: blocks come in the order of the dataset, whatever its own settings say; these settings stay as they are.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, pairwise
from typing import Any

import pandas as pd
import pyarrow as pa
import ray.data
from ray.data import Dataset

from lakewright.calls import ProgressCallback
from lakewright.errors import InvalidInputError
from lakewright.ray.tasks import Piece

_STARTING = threading.Lock()  # held while the settings of a dataset are changed


def pieces_of(dataset: Dataset) -> Iterator[Piece]:
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


def _blocks_of(bundle: Any) -> Iterator[Piece]:  # noqa: ANN401 - Ray's own type
    cuts = getattr(bundle, "slices", None) or [None] * len(bundle.block_refs)
    for block, facts, cut in zip(bundle.block_refs, bundle.metadata, cuts, strict=True):
        start, end = (0, facts.num_rows) if cut is None else (cut.start_offset, cut.end_offset)
        yield Piece(block, start, end, facts.size_bytes)


def runs(pieces: Iterable[Piece], task_bytes: int) -> Iterator[list[Piece]]:
    """Yield pieces that follow each other, in runs of about so many bytes; those that are far larger are cut."""
    run: list[Piece] = []
    size = 0
    for piece in chain.from_iterable(_cut(piece, task_bytes) for piece in pieces):
        run.append(piece)
        size += piece.bytes
        if size >= task_bytes * 7 // 8:
            yield run
            run, size = [], 0
    if run:
        yield run


def _cut(piece: Piece, task_bytes: int) -> Iterator[Piece]:
    """Yield a piece in parts of the same size, if it is too large for one task."""
    parts = 1 if piece.end is None else min(piece.end - piece.start, round(piece.bytes / task_bytes))
    if piece.end is None or parts <= 1:
        yield piece
        return
    ends = [piece.start + (piece.end - piece.start) * part // parts for part in range(parts + 1)]
    yield from (Piece(piece.block, start, end, piece.bytes // parts) for start, end in pairwise(ends))


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

"""Rows of one snapshot that fulfil a condition: which groups of files may hold them, and at which positions they lie.

What always holds: only live rows are found; positions count every row of a group, whatever was skipped or deleted
before; of a file only the columns of the condition and those asked for are read, and none where its statistics or its
partition say enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import naming
from lakewright.metadata.store import TableStore
from lakewright.read.plan import deletions_of, plan_splits
from lakewright.read.projection import ROW_TRACKING_FIELDS, plan_projection
from lakewright.read.reader import SplitReader
from lakewright.read.scan import FileSchemas, scan
from lakewright.read.shares import pieces
from lakewright.read.split import DataSplit
from lakewright.spec.options import CoreOptions
from lakewright.spec.predicate import FALSE, TRUE, Predicate, bind, normalise
from lakewright.spec.predicate_text import parse_predicate
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.types import DataField
from lakewright.update.change import Positions


@dataclass(frozen=True, slots=True)
class Located:
    """Some rows of a group that were found: where they lie, and the columns that were asked for."""

    part: DataSplit
    positions: Positions
    rows: pa.RecordBatch


def hidden_fields(store: TableStore) -> tuple[DataField, ...]:
    """Return the system columns that a condition may name."""
    return ROW_TRACKING_FIELDS if store.options.get(CoreOptions.ROW_TRACKING_ENABLED) else ()


def condition(store: TableStore, where: Predicate | str | None) -> Predicate:
    """Return a condition as a predicate on the table's columns; without one every row fulfils it."""
    if where is None:
        return TRUE
    fields = (*store.schema.fields, *hidden_fields(store))
    with naming(store.name):
        return normalise(parse_predicate(where, fields) if isinstance(where, str) else bind(where, fields))


def groups(store: TableStore, snapshot: Snapshot, predicate: Predicate = TRUE) -> list[DataSplit]:
    """Return the groups of files of a snapshot that may hold rows that fulfil a predicate, each as a split."""
    entries = scan(store, snapshot, predicate).entries
    index = [] if snapshot.index_manifest is None else store.manifests.read_index(snapshot.index_manifest)
    splits = plan_splits(store, snapshot.id, entries, deletions_of(store, index))
    return [part for split in splits for part in pieces(store, split)]


def locate(
    store: TableStore,
    part: DataSplit,
    columns: Sequence[str],
    predicate: Predicate = TRUE,
    *,
    schemas: FileSchemas | None = None,
) -> Iterator[Located]:
    """Yield the live rows of a group that fulfil a predicate, in batches with these columns.

    Columns may be `_ROW_ID` and `_SEQUENCE_NUMBER` where the table tracks its rows.
    """
    projection = plan_projection(store.schema.fields, list(columns), predicate, hidden=hidden_fields(store))
    reader = SplitReader(store, schemas or FileSchemas(store), projection, predicate)
    residual = reader.residual(part)
    if residual == FALSE:
        return
    for position, batch, live in reader.positioned(part, range(len(part.files)), residual):
        rows = projection.apply(batch)
        found = _matching(batch, live, residual)
        if found is None:
            yield Located(part, np.arange(position, position + batch.num_rows, dtype=np.int64), rows)
        elif len(found):
            yield Located(part, found + position, rows.take(pa.array(found)))


def _matching(batch: pa.RecordBatch, live: np.ndarray | None, residual: Predicate) -> Positions | None:
    """Return the numbers of the rows of a batch that are live and match; None: all of them."""
    mask = None if live is None else pa.array(live)
    if residual != TRUE:
        matched = residual.mask(batch)
        mask = matched if mask is None else pc.and_kleene(mask, matched)
    if mask is None:
        return None
    found: Positions = pc.indices_nonzero(mask).to_numpy().astype(np.int64)
    return found

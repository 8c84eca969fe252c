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
from lakewright.formats.deletion_vectors import live_mask
from lakewright.metadata.store import TableStore
from lakewright.read.projection import ROW_TRACKING_FIELDS, plan_projection
from lakewright.read.reader import SplitReader
from lakewright.read.scan import FileSchemas, scan
from lakewright.read.splits.plan import deletions_of, plan_splits
from lakewright.read.splits.shares import pieces
from lakewright.read.splits.split import DataSplit
from lakewright.spec.datafile import DataFile
from lakewright.spec.options import CoreOptions
from lakewright.spec.predicate.filters import Filter, to_predicate
from lakewright.spec.predicate.predicate import FALSE, TRUE, Predicate, assume, may_match, negate, normalise
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.stats import ColumnStats, field_stats
from lakewright.spec.types import TIMESTAMP_ROOTS, AtomicType, DataField
from lakewright.update.change import Positions
from lakewright.update.vectors import deleted_of


@dataclass(frozen=True, slots=True)
class Located:
    """Some rows of a group that were found: where they lie, and the columns that were asked for."""

    part: DataSplit
    positions: Positions
    rows: pa.RecordBatch


def hidden_fields(store: TableStore) -> tuple[DataField, ...]:
    """Return the system columns that a condition may name."""
    return ROW_TRACKING_FIELDS if store.options.get(CoreOptions.ROW_TRACKING_ENABLED) else ()


def condition(store: TableStore, where: Filter | None) -> Predicate:
    """Return a condition as a predicate on the table's columns; without one every row fulfils it."""
    if where is None:
        return TRUE
    fields = (*store.schema.fields, *hidden_fields(store))
    with naming(store.name):
        return normalise(to_predicate(where, fields, store.options.get(CoreOptions.LAKEWRIGHT_TIME_ZONE)))


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
    schemas = schemas or FileSchemas(store)
    residual = residual_of(store, part, predicate, schemas)
    if residual == FALSE:
        return
    projection = plan_projection(store.schema.fields, list(columns), residual, hidden=hidden_fields(store))
    if not projection.read_fields:
        yield from _all_live(store, part)
        return
    reader = SplitReader(store, schemas, projection, residual)
    for position, batch, live in reader.positioned(part, range(len(part.files)), residual):
        rows = projection.apply(batch)
        found = _matching(batch, live, residual)
        if found is None:
            yield Located(part, np.arange(position, position + batch.num_rows, dtype=np.int64), rows)
        elif len(found):
            yield Located(part, found + position, rows.take(pa.array(found)))


def residual_of(store: TableStore, part: DataSplit, predicate: Predicate, schemas: FileSchemas) -> Predicate:
    """Return what is left to ask of the rows of a group: nothing where its partition or its statistics say it all."""
    known = dict(zip(store.schema.partition_keys, store.partition_values(part.partition_bytes), strict=True))
    residual = assume(predicate, known)
    if residual in (TRUE, FALSE) or len(part.files) > 1 or not _matches_all(store, part.files[0], residual, schemas):
        return residual
    return TRUE


def _matches_all(store: TableStore, file: DataFile, predicate: Predicate, schemas: FileSchemas) -> bool:
    """Say whether every row of a file surely fulfils a predicate: none may fulfil its opposite, and none be unknown."""
    fields = schemas.fields_of(file.schema_id)
    today = {field.name: field for field in store.schema.fields}
    stats: dict[str, ColumnStats] = {}
    for leaf in predicate.leaves():
        column = today.get(leaf.field or "")
        stored = next((f for f in fields if column is not None and f.id == column.id), None)
        if column is None or stored is None or stored != column or not _is_plain(stored, file):
            return False
        if None in leaf.literals:  # what is unknown has no opposite
            return False
        found = field_stats(file, stored.name, fields)
        if found is None or found.null_count != 0:
            return False
        stats[column.name] = found
    return not may_match(negate(predicate), stats.get, file.row_count)


def _is_plain(field: DataField, file: DataFile) -> bool:
    """Say whether bounds of a column tell all of its values: numbers may be NaN, and ORC files move times."""
    if not isinstance(field.type, AtomicType) or field.type.root in {"FLOAT", "DOUBLE"}:
        return False
    return not (file.file_name.endswith(".orc") and field.type.root in TIMESTAMP_ROOTS)


def _all_live(store: TableStore, part: DataSplit) -> Iterator[Located]:
    """Yield all live rows of a group at once, without columns; no data file is opened."""
    start, end = part.range_of(range(len(part.files)))
    positions = np.arange(start, end, dtype=np.int64)
    gone = deleted_of(store, part)
    if gone is not None:
        positions = positions[live_mask(gone, start, end - start)]
    if len(positions):
        yield Located(part, positions, without_columns(len(positions)))


def without_columns(rows: int) -> pa.RecordBatch:
    """Return a batch of some rows and no columns."""
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["none"]).select([])


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

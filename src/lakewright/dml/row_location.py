"""Groups and positions of rows that fulfil a condition.

Invariant: only live rows are returned; positions count every row of a group, skipped and deleted ones included;
only the columns of the condition and those asked for are read, and none if statistics or the partition decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.dml.row_changes import RowPositions
from lakewright.dml.vector_updates import deleted_positions
from lakewright.errors import with_table_name
from lakewright.formats.deletion_vectors import live_mask
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.read.manifest_scan import FileSchemas, scan
from lakewright.read.projection import ROW_TRACKING_FIELDS, plan_projection
from lakewright.read.split_planning import deletions_of, plan_splits
from lakewright.read.split_reader import SplitReader
from lakewright.read.split_sharing import cut_split
from lakewright.spec.column_stats import ColumnStats, field_stats
from lakewright.spec.filters import Filter, to_predicate
from lakewright.spec.manifest import DataFile
from lakewright.spec.predicate import FALSE, TRUE, Predicate, may_match, negate, normalise, simplify
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.types import TIMESTAMP_ROOTS, AtomicType, DataField


@dataclass(frozen=True, slots=True)
class LocatedRows:
    """Some rows of a group: their positions, and the columns that were asked for."""

    part: DataSplit
    positions: RowPositions
    rows: pa.RecordBatch


def system_fields(store: TableStore) -> tuple[DataField, ...]:
    """Return the system columns that a condition may name."""
    return ROW_TRACKING_FIELDS if store.options.row_tracking_enabled else ()


def bind_condition(store: TableStore, where: Filter | None) -> Predicate:
    """Return a condition as a predicate on the table's columns; None matches every row."""
    if where is None:
        return TRUE
    fields = (*store.schema.fields, *system_fields(store))
    with with_table_name(store.name):
        return normalise(to_predicate(where, fields, store.options.lakewright_time_zone))


def select_groups(store: TableStore, snapshot: Snapshot, predicate: Predicate = TRUE) -> list[DataSplit]:
    """Return the groups of files of a snapshot that may hold rows that fulfil a predicate, each as a split."""
    entries = scan(store, snapshot, predicate).entries
    index = [] if snapshot.index_manifest is None else store.manifests.read_index(snapshot.index_manifest)
    splits = plan_splits(store, snapshot.id, entries, deletions_of(store, index))
    return [part for split in splits for part in cut_split(store, split)]


def locate_rows(
    store: TableStore,
    part: DataSplit,
    columns: Sequence[str],
    predicate: Predicate = TRUE,
    *,
    schemas: FileSchemas | None = None,
) -> Iterator[LocatedRows]:
    """Yield the live rows of a group that fulfil a predicate, in batches with these columns.

    Columns may be `_ROW_ID` and `_SEQUENCE_NUMBER` where the table tracks its rows.
    """
    schemas = schemas or FileSchemas(store)
    residual = residual_of(store, part, predicate, schemas)
    if residual == FALSE:
        return
    projection = plan_projection(store.schema.fields, list(columns), residual, hidden=system_fields(store))
    if not projection.read_fields:
        yield from _locate_all(store, part)
        return
    reader = SplitReader(store, schemas, projection, residual)
    for position, batch, live in reader.read_positions(part, range(len(part.files)), residual):
        rows = projection.apply(batch)
        matching = _matching(batch, live, residual)
        if matching is None:
            yield LocatedRows(part, np.arange(position, position + batch.num_rows, dtype=np.int64), rows)
        elif len(matching):
            yield LocatedRows(part, matching + position, rows.take(pa.array(matching)))


def residual_of(store: TableStore, part: DataSplit, predicate: Predicate, schemas: FileSchemas) -> Predicate:
    """Return the predicate that rows of a group must still be tested by, after its partition and statistics."""
    known = dict(zip(store.schema.partition_keys, store.partition_values(part.partition_bytes), strict=True))
    residual = simplify(predicate, known)
    if residual in (TRUE, FALSE) or len(part.files) > 1 or not _matches_all(store, part.files[0], residual, schemas):
        return residual
    return TRUE


def _matches_all(store: TableStore, file: DataFile, predicate: Predicate, schemas: FileSchemas) -> bool:
    """Return whether the statistics of a file prove that every row of it fulfils a predicate.

    They do if no row may fulfil the negated predicate and none is null.
    """
    fields = schemas.fields_of(file.schema_id)
    today = {field.name: field for field in store.schema.fields}
    stats: dict[str, ColumnStats] = {}
    for leaf in predicate.leaves():
        column = today.get(leaf.column or "")
        stored = next((f for f in fields if column is not None and f.id == column.id), None)
        if column is None or stored is None or stored != column or not _has_exact_bounds(stored, file):
            return False
        if None in leaf.literals:  # a comparison with null is never true, and neither is its negation
            return False
        bounds = field_stats(file, stored.name, fields)
        if bounds is None or bounds.null_count != 0:
            return False
        stats[column.name] = bounds
    return not may_match(negate(predicate), stats.get, file.row_count)


def _has_exact_bounds(field: DataField, file: DataFile) -> bool:
    """Return whether all values of a column are within its bounds: NaN does not, and ORC files shift times."""
    if not isinstance(field.type, AtomicType) or field.type.root in {"FLOAT", "DOUBLE"}:
        return False
    return not (file.file_name.endswith(".orc") and field.type.root in TIMESTAMP_ROOTS)


def _locate_all(store: TableStore, part: DataSplit) -> Iterator[LocatedRows]:
    """Yield all live rows of a group at once, without columns; no data file is opened."""
    start, end = part.range_of(range(len(part.files)))
    positions = np.arange(start, end, dtype=np.int64)
    deleted = deleted_positions(store, part)
    if deleted is not None:
        positions = positions[live_mask(deleted, start, end - start)]
    if len(positions):
        yield LocatedRows(part, positions, without_columns(len(positions)))


def without_columns(rows: int) -> pa.RecordBatch:
    """Return a batch of some rows and no columns."""
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["none"]).select([])


def _matching(batch: pa.RecordBatch, live: np.ndarray | None, residual: Predicate) -> RowPositions | None:
    """Return the positions in a batch of the rows that are live and match; None: all of them."""
    mask = None if live is None else pa.array(live)
    if residual != TRUE:
        matched = residual.mask(batch)
        mask = matched if mask is None else pc.and_kleene(mask, matched)
    if mask is None:
        return None
    matching: RowPositions = pc.indices_nonzero(mask).to_numpy().astype(np.int64)
    return matching

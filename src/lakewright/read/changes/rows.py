"""Changes as rows: streams of events and differences of two states in, batches with kinds out.

The rows of a streaming split of a primary-key table come one by one as its files hold them, in file order. A split
with `before` gives the difference of two states of a bucket: +I for a new key, -U and +U for one whose row changed, -D
for one that was deleted; rows that are the same in both states give nothing. Rows of an append table have no key,
so there a row that is in both states equally often gives nothing. Without a kind column only rows of the state
afterwards are given: +I and +U. Filters are applied to whole changes, after old and new rows were compared.

A projection into lists puts the old and the new row of an update into one row of kind +U: see `with_lists`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import UnsupportedError
from lakewright.lsm.changes import key_changes
from lakewright.lsm.functions.sameness import row_codes
from lakewright.lsm.functions.steps import one_array
from lakewright.lsm.keys import KeyOrder
from lakewright.lsm.merge import MergeSpec, drop_retracts
from lakewright.lsm.windows import windows
from lakewright.read.files import missing_files_explained
from lakewright.read.keyed_files import KeyedFiles
from lakewright.read.projection import Projection, plan_projection
from lakewright.read.reader import SplitReader, Unit
from lakewright.read.splits.split import DataSplit
from lakewright.spec.datafile import DataFile
from lakewright.spec.keyed_rows import DELETE, INSERT, KIND_NAMES, UPDATE_AFTER, UPDATE_BEFORE, VALUE_KIND
from lakewright.spec.options import CoreOptions
from lakewright.spec.predicate.evaluation import project
from lakewright.spec.predicate.predicate import TRUE

_SIDE = "_SIDE"  # of a row while two states are compared: 0 before, 1 after


def units_of(reader: SplitReader, split: DataSplit) -> list[Unit]:
    """Return the parts of any split that can be read side by side."""
    if reader.projection.rows is not None:
        return [partial(_read_lists, reader, reader.projection.rows, split)]
    if split.before is not None:
        keyed = bool(reader.store.schema.primary_keys)
        _check_columns(reader)
        after = replace(split, before=None)
        return [partial(_read_difference if keyed else _read_surplus, reader, split.before, after)]
    if split.streaming and reader.store.schema.primary_keys:
        return [partial(_read_events, reader, split, file) for file in split.files]
    return reader.units(split)


def _check_columns(reader: SplitReader) -> None:
    known = frozenset(field.name for field in reader.store.schema.fields)
    for field in reader.projection.read_fields:
        if field.name not in known:
            raise UnsupportedError(
                f"{reader.store.name}: {field.name} belongs to a stored row, and a row of a difference is none; leave "
                "it out, or read with 'incremental-between-scan-mode' = 'delta'",
                table=reader.store.name,
                column=field.name,
            )


def _read_events(reader: SplitReader, split: DataSplit, file: DataFile) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one file, without a merge."""
    fields = reader.projection.read_fields
    files = KeyedFiles(reader.store, reader.schemas, split.partition_bytes, split.bucket, fields)
    with (
        missing_files_explained(reader.store, split.snapshot_id),
        closing(files.read(file, skip=reader.predicate)) as tables,
    ):
        for rows in tables:
            yield from _finished(reader, rows)


def _read_difference(reader: SplitReader, before: DataSplit, after: DataSplit) -> Iterator[pa.RecordBatch]:
    """Yield how each key changed between two states, in key order."""
    schema = reader.store.schema
    spec = MergeSpec.of_schema(schema, table=reader.store.name)
    # A filter on other columns must see both rows of a key first; only the key is the same in both.
    all_columns = _whole_rows(reader, keep=(*schema.partition_keys, *spec.key.names))
    memory = reader.store.options.get(CoreOptions.LAKEWRIGHT_MERGE_MEMORY)
    states = [_state(all_columns, before, 0), _state(all_columns, after, 1)]
    for window in windows(states, spec, memory_bytes=memory):
        yield from _finished(reader, difference(window, spec.key))


def _whole_rows(reader: SplitReader, keep: tuple[str, ...]) -> SplitReader:
    """Return a reader of all columns, as all are compared, whose predicate is only about the columns `keep`."""
    fields = reader.store.schema.fields
    return replace(reader, projection=plan_projection(fields), predicate=project(reader.predicate, keep))


def _state(reader: SplitReader, split: DataSplit, side: int) -> Iterator[pa.Table]:
    """Yield the rows of a bucket in one state, in key order."""
    for batch in reader.read(split):
        marks = pa.repeat(pa.scalar(side, pa.int8()), batch.num_rows)
        yield pa.Table.from_batches([batch.append_column(_SIDE, marks)])


def difference(rows: pa.Table, key: KeyOrder) -> pa.Table:
    """Return the changes that lead from one state of some keys to the other, in key order, with their `_VALUE_KIND`.

    The column `_SIDE` says which state a row is of, 0 before and 1 after; each state has at most one row of a key.
    """
    values = rows.drop_columns([_SIDE])
    is_after = rows.column(_SIDE).to_numpy() > 0
    order, kinds = key_changes(values, is_after, key, values.column_names)
    return _with_kinds(values.take(pa.array(order)), kinds)


def _read_surplus(reader: SplitReader, before: DataSplit, after: DataSplit) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an append table that became more (+I) or fewer (-D); rows that only moved cancel out."""
    # Equal rows match equally, so both states can be filtered before they are compared.
    all_columns = replace(reader, projection=plan_projection(reader.store.schema.fields))
    parts = [[pa.Table.from_batches([batch]) for batch in all_columns.read(state)] for state in (before, after)]
    rows = pa.concat_tables([all_columns.projection.empty(), *parts[0], *parts[1]])
    gone = sum(part.num_rows for part in parts[0])
    weights = np.where(np.arange(rows.num_rows) < gone, -1, 1)
    _, firsts, numbers = np.unique(
        row_codes([one_array(column) for column in rows.columns], rows.num_rows), return_index=True, return_inverse=True
    )
    surplus = np.bincount(numbers, weights, minlength=len(firsts)).astype(np.int64)
    at = np.repeat(np.arange(len(surplus)), np.abs(surplus))
    kinds = np.where(surplus[at] > 0, INSERT, DELETE).astype(np.int8)
    yield from _finished(reader, _with_kinds(rows.take(pa.array(firsts[at])), kinds))


def _read_lists(reader: SplitReader, rows: Projection, split: DataSplit) -> Iterator[pa.RecordBatch]:
    """Yield the changes of a split as lists; an old row that ends a batch waits for the next one."""
    waiting: pa.RecordBatch | None = None
    for unit in units_of(replace(reader, projection=rows), split):
        for batch in unit():
            joined = batch if waiting is None else pa.concat_batches([waiting, batch])
            ends_old = joined.num_rows > 0 and joined.column(rows.kind)[-1].as_py() == KIND_NAMES[UPDATE_BEFORE]
            done = joined.num_rows - ends_old
            waiting = joined.slice(done) if ends_old else None
            if done:
                yield with_lists(joined.slice(0, done), reader.projection)
    if waiting is not None:
        yield with_lists(waiting, reader.projection)


def with_lists(rows: pa.RecordBatch, projection: Projection) -> pa.RecordBatch:
    """Return changes with their values in lists: two of an update whose old and new row are neighbours, else one."""
    kinds = rows.column(projection.kind)
    is_old = np.asarray(pc.equal(kinds, KIND_NAMES[UPDATE_BEFORE]))
    is_new = np.asarray(pc.equal(kinds, KIND_NAMES[UPDATE_AFTER]))
    has_new = np.zeros(rows.num_rows, np.bool_)
    has_new[:-1] = is_old[:-1] & is_new[1:]
    last = np.flatnonzero(~has_new)  # of each list
    offsets = pa.array(np.concatenate(([0], last + 1)).astype(np.int32))
    columns = [
        kinds.take(pa.array(last)) if field.name == projection.kind else _listed(field, offsets, rows)
        for field in projection.schema
    ]
    if not columns:
        return pa.record_batch({"": pa.array(last)}).select([])  # a batch without columns keeps its number of rows
    return pa.RecordBatch.from_arrays(columns, schema=projection.schema)


def _listed(field: pa.Field, offsets: pa.Array, rows: pa.RecordBatch) -> pa.Array:
    return pa.ListArray.from_arrays(offsets, rows.column(field.name), type=field.type)


def _with_kinds(values: pa.Table, kinds: npt.NDArray[np.int8]) -> pa.Table:
    return values.append_column(VALUE_KIND.name, pa.array(kinds))


def _finished(reader: SplitReader, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield the changes that match: with their kinds, or without those of kind -U and -D where no kind is asked for."""
    projection = reader.projection
    if projection.kind is None:
        rows = drop_retracts(rows)
    else:
        kinds = pa.array(KIND_NAMES).take(rows.column(VALUE_KIND.name).combine_chunks())
        rows = rows.append_column(projection.kind, kinds)
    for batch in rows.to_batches():
        kept = batch if reader.predicate == TRUE else batch.filter(reader.predicate.mask(batch))
        if kept.num_rows:
            yield projection.apply(kept)

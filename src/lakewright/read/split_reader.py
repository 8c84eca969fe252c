"""A split to batches: open, evolve, merge or drop deleted rows, filter, project.

Invariant: batches come in plan order with one schema; the values of partition columns come from the manifest,
never from a file; deletion vectors count rows as they are in the file, before anything is filtered; rows of a key are
merged before a filter sees them, so no filter brings an older version back. Nothing is read before the first batch is
asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import UnsupportedError
from lakewright.formats.deletion_vectors import Positions, live_mask
from lakewright.lsm.merge_rows import MergeRules, drop_retracts
from lakewright.lsm.sorted_runs import Section, merge_runs, sections
from lakewright.metadata.table_store import TableStore
from lakewright.read.blob_columns import in_form, storages_of
from lakewright.read.data_file_reader import BucketReader, KeyedFiles, begin_runs, explain_missing_files
from lakewright.read.data_split import DataSplit
from lakewright.read.group_columns import GroupColumns, record_batch
from lakewright.read.manifest_scan import FileSchemas
from lakewright.read.projection import Projection
from lakewright.spec.arrow_take import filter_rows
from lakewright.spec.arrow_types import to_arrow_type
from lakewright.spec.predicate import FALSE, TRUE, Predicate, project_columns, simplify
from lakewright.spec.scalars import to_array
from lakewright.spec.system_columns import BUCKET, FILE_PATH, METADATA_IDS, ROW_INDEX
from lakewright.spec.types import DataField, RowType, Value
from lakewright.storage.concurrency import map_in_order

Unit: TypeAlias = Callable[[], Iterator[pa.RecordBatch]]
# Of files with deleted rows so many are decoded at a time: they are still in the processor's caches when those that are
# left are copied, and the memory that they took is used again for the next ones.
_FILTERED_ROWS = 1 << 18


@dataclass(frozen=True, slots=True)
class SplitReader:
    """Reads splits of one table with one projection and one filter; it can be shared by threads."""

    store: TableStore
    schemas: FileSchemas
    projection: Projection
    predicate: Predicate = TRUE
    threads: int = 1  # that merge the rows of one section

    def read(self, split: DataSplit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split that fulfil the filter: in file order, or in key order where rows are merged."""
        for unit in self.units(split):
            yield from unit()

    def units(self, split: DataSplit) -> list[Unit]:
        """Return the parts of a split that can be read concurrently: files, or sections to be merged."""
        residual = self.residual(split)
        if residual == FALSE:
            return []
        if not split.needs_merge:
            return [partial(self._read_group, split, group, residual) for group in split.row_groups()]
        spec = MergeRules.of_schema(self.store.schema, table=self.store.name)
        types = [field.type for field in spec.key.fields]
        number_of = {file: at for at, file in enumerate(split.files)}
        units: list[Unit] = []
        for section in sections(split.files, types):
            if len(section.files) == 1 and not section.files[0].delete_row_count:
                # A file holds each of its keys once, and no other file of the split has one of them.
                units.append(partial(self._read_group, split, (number_of[section.files[0]],), residual))
            else:
                units.append(partial(self._read_section, split, section, spec, residual))
        return units

    def residual(self, split: DataSplit) -> Predicate:
        """Return the predicate that the rows of a split must still fulfil; FALSE means that none of them can match."""
        return simplify(self.predicate, self._partition_values(split))

    def _partition_values(self, split: DataSplit) -> Mapping[str, Value]:
        keys = self.store.schema.partition_keys
        return dict(zip(keys, self.store.partition_values(split.partition_bytes), strict=True))

    def _files(self, split: DataSplit) -> BucketReader:
        return BucketReader(self.store, self.schemas, split.partition_bytes, split.bucket)

    def _read_section(
        self, split: DataSplit, section: Section, spec: MergeRules, residual: Predicate
    ) -> Iterator[pa.RecordBatch]:
        """Yield the merged rows of files that share keys, in key order."""
        columns = self._merged_fields(spec)
        memory = self.store.options.lakewright_merge_memory
        share = memory // len(section.runs)
        place = split.partition_bytes, split.bucket
        exact = not section.ages_are_apart
        files = KeyedFiles(self.store, self.schemas, *place, columns, split.deletions(), share, exact, split.ranges())
        # A version of a row that does not match may hide one that does, so only the key, which all versions share, is
        # compared before the merge.
        skip = project_columns(residual, spec.key.names)
        runs = [files.read_run(run, skip=skip, level=spec.needs_lookup) for run in section.runs]
        with ExitStack() as stack:
            for run in runs:
                stack.enter_context(closing(run))
            stack.enter_context(explain_missing_files(self.store, split.snapshot_id))
            sources, threads = begin_runs(self.store.storage, runs), self.threads
            for rows in merge_runs(sources, spec, memory_bytes=memory // threads, each=partial(map_in_order, threads)):
                yield from self._finish_rows(drop_retracts(rows), residual)

    def _finish_rows(self, rows: pa.Table, residual: Predicate) -> Iterator[pa.RecordBatch]:
        """Yield merged rows that fulfil the filter, in the columns of the result."""
        names = [field.name for field in self.projection.read_fields]
        for batch in _batches(rows.select(names), rows.num_rows):
            out = self._select_rows(batch, None, residual)
            if out.num_rows:
                yield out

    def _merged_fields(self, spec: MergeRules) -> tuple[DataField, ...]:
        """Return the columns that a merge needs. If a merge keeps whole rows, a part of a ROW is enough."""
        parts = {field.name: field for field in self.projection.read_fields} if spec.engine.traits.keeps_one_row else {}
        needed = spec.needed_columns(field.name for field in self.projection.read_fields)
        return tuple(parts.get(name) or self.store.schema.field(name) for name in needed)

    def _read_group(self, split: DataSplit, group: Sequence[int], residual: Predicate) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one file of a split, or of the files that hold columns of the same rows."""
        for _, batch, live in self.read_positions(split, group, residual):
            out = self._select_rows(batch, live, residual)
            if out.num_rows:
                yield from in_form(out, self.projection.fields, self.projection.blobs, storages_of(self.store))

    def read_positions(
        self, split: DataSplit, group: Sequence[int], residual: Predicate = TRUE
    ) -> Iterator[tuple[int, pa.RecordBatch, np.ndarray | None]]:
        """Yield all columns to read of a group's rows: the position of the first, the batch, which rows are live.

        None stands for all of them. Values of BLOB columns are descriptors. What cannot match `residual` may be left
        out, a batch at a time.
        """
        known = self._partition_values(split)
        constants = [_constant(split, group, field, known) for field in self.projection.read_fields]
        with explain_missing_files(self.store, split.snapshot_id):
            deleted = self._deleted_positions(split, group)
            batch_rows = None if deleted is None else _FILTERED_ROWS
            for position, batch in self._rows(split, group, residual, batch_rows):
                live = None if deleted is None else live_mask(deleted, position, batch.num_rows)
                yield position, self._complete_columns(batch, constants, position), live

    def _rows(
        self, split: DataSplit, group: Sequence[int], residual: Predicate, batch_rows: int | None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the columns that files hold, with the positions of their first rows; all rows count."""
        keys = self.store.schema.partition_keys
        fields = tuple(f for f in self.projection.read_fields if f.name not in keys and f.id not in METADATA_IDS)
        within = split.ranges().get(split.files[group[0]].file_name)
        source = self._files(split)
        if len(group) == 1:
            file = split.files[group[0]]
            return source.rows(file, fields, residual, batch_rows=batch_rows, within=within)
        columns = GroupColumns.of(source, [split.files[at] for at in group], fields, within)
        return columns.batches(residual, batch_rows=batch_rows)

    def _deleted_positions(self, split: DataSplit, group: Sequence[int]) -> Positions | None:
        deletion = split.deletion_of(group)
        if deletion is None:
            return None
        anchor = next(at for at in group if split.deletion_files[at] is deletion)
        return self._files(split).deleted_positions(split.files[anchor], deletion)

    def _complete_columns(
        self, batch: pa.RecordBatch, constants: Sequence[pa.Scalar | None], position: int
    ) -> pa.RecordBatch:
        """Put the partition and metadata columns among those that the file holds."""
        stored = iter(batch.columns)
        rows, fields = batch.num_rows, self.projection.read_fields
        columns = []
        for field, scalar in zip(fields, constants, strict=True):
            if scalar is not None:
                columns.append(pa.repeat(scalar, rows))
            elif field.id == ROW_INDEX.id:
                columns.append(pa.array(np.arange(position, position + rows, dtype=np.int64)))
            else:
                columns.append(next(stored))
        return record_batch(columns, [field.name for field in fields], rows)

    def _select_rows(self, batch: pa.RecordBatch, live: np.ndarray | None, residual: Predicate) -> pa.RecordBatch:
        """Drop rows that are deleted or do not match, and keep the columns of the result."""
        mask = None if live is None or live.all() else pa.array(live)
        if residual != TRUE:
            matched = residual.mask(batch)
            mask = matched if mask is None else pc.and_kleene(mask, matched)
        out = self.projection.apply(batch)
        return out if mask is None else filter_rows(out, mask, pc.sum(mask).as_py() or 0)


def check_places_are_known(store: TableStore, projection: Projection, split: DataSplit) -> None:
    """Raise UnsupportedError if a metadata column is asked of rows that do not come from one file each."""
    named = [field for field in projection.read_fields if field.id in METADATA_IDS]
    if not named or split.before is not None:
        return
    if split.needs_merge or (split.streaming and store.schema.primary_keys):
        raise UnsupportedError(
            f"{store.name}: {named[0].name} says where a row is stored, but rows of this table are merged as they are "
            "read; leave it out, or compact the table first with table.compact(full=True)",
            table=store.name,
            column=named[0].name,
        )
    if FILE_PATH in named and any(len(group) > 1 for group in split.row_groups()):
        raise UnsupportedError(
            f"{store.name}: {FILE_PATH.name} is the file of a row, but columns of rows are stored in several files; "
            "leave it out, or compact the table first with table.compact(full=True)",
            table=store.name,
            column=FILE_PATH.name,
        )


def _constant(
    split: DataSplit, group: Sequence[int], field: DataField, partition: Mapping[str, Value]
) -> pa.Scalar | None:
    """Return the value that a column has in all rows of a group, as the manifest knows it; None: it differs."""
    if field.name in partition:
        return to_array([partition[field.name]], field.type)[0]
    if field.id == FILE_PATH.id:
        return pa.scalar(split.file_paths[group[0]])
    if field.id == BUCKET.id:
        return pa.scalar(split.bucket, pa.int32())
    if field.id in METADATA_IDS and isinstance(field.type, RowType):
        values = [to_array([partition[inner.name]], inner.type) for inner in field.type.fields]
        return pa.StructArray.from_arrays(values, fields=list(to_arrow_type(field.type)))[0]
    return None


def _batches(table: pa.Table, rows: int) -> list[pa.RecordBatch]:
    """Return a table as batches; one without columns still has rows."""
    if not table.column_names:
        return [record_batch([], [], rows)]
    batches: list[pa.RecordBatch] = table.to_batches()
    return batches

"""The file-group strategy: deletion vectors, column files, copy on write."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.commit.commit_message import CommitMessage
from lakewright.compact.rewrite_output import BucketOutput
from lakewright.dml import vector_updates
from lakewright.dml.assignments import without_defaults
from lakewright.dml.row_changes import (
    AppliedChanges,
    ChangeJob,
    ChangeMethod,
    GroupChange,
    bucket_of,
    change_method,
    keep_mask,
    updated_rows,
    with_updates,
)
from lakewright.dml.side_file_updates import SideColumns, write_side_files
from lakewright.errors import LakewrightError, UnsupportedError
from lakewright.formats.data_file_writer import FilePlan, SequenceNumbers, cap_sequence_numbers, preserved_fields
from lakewright.formats.deletion_vectors import distinct
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.read.manifest_scan import FileSchemas
from lakewright.read.projection import plan_projection
from lakewright.read.split_reader import SplitReader
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.manifest import APPEND, DataFile, is_side_file
from lakewright.spec.scalars import to_array
from lakewright.spec.system_columns import ROW_ID, SEQUENCE_NUMBER
from lakewright.write.row_intake import Intake
from lakewright.write.table_writer import TableWriter, WriteJob

# ---- Data evolution: files of changed columns ------------------------------------------------------------------------
# An update reads the changed columns of all rows of the group, deleted ones included, puts the new values in and
# writes one file with as many rows: `_FIRST_ROW_ID` is the group's, `_WRITE_COLS` names the columns, and positions
# stay. A delete marks rows in the vector of the oldest file. If the table has no deletion vectors, the rows that stay
# are written again with all columns, one file for each range of rows without a gap, and the files of the group are
# removed; too many ranges are refused.
#
# Invariant: rows that stay keep their ids; a file of changed columns has as many rows as its group, and is
# never split; if anything fails, no new file is left behind.

RowRange: TypeAlias = tuple[int, int]  # positions of rows without a gap: the first, and the first after the last
_RANGES_MAX = 100  # ranges of rows that stay in a group without deletion vectors; each becomes a small file
_UNBOUNDED = (1 << 62) - 1  # bytes or rows of a file that must not be split


def apply_columns(job: ChangeJob, changes: Iterable[GroupChange], task: int = 0, attempt: int = 0) -> AppliedChanges:
    """Apply changes of groups of a table with data evolution; `task` and `attempt` are part of every file name."""
    task_ = _ColumnFileTask(job, f"{job.write_id}-{task}-{attempt}-", FileSchemas(job.store))
    out = AppliedChanges()
    try:
        for change in changes:
            if not change.is_empty:
                out += task_.apply_change(change)
    except BaseException:
        task_.discard()
        raise
    return out


def check_assignable(store: TableStore, names: Iterable[str]) -> None:
    """Raise UnsupportedError for partition columns: data evolution cannot move a row to another partition."""
    for name in names:
        if name in store.schema.partition_keys:
            raise UnsupportedError(
                f"table {store.name}: {name!r} is a partition column, and rows of a table with data evolution cannot "
                "move to another partition; delete them and write them again",
                table=store.name,
                column=name,
            )


@dataclass(slots=True)
class _ColumnFileTask:
    """Applies the changes of one task, and removes its files if it fails."""

    job: ChangeJob
    stem: str
    schemas: FileSchemas
    outputs: list[BucketOutput] = field(default_factory=list)
    checked: frozenset[str] = frozenset()  # columns that are known to have no global index

    def apply_change(self, change: GroupChange) -> AppliedChanges:
        """Write the files and vectors of one changed group."""
        change = self._without_partition_columns(change)
        columns = frozenset(() if change.values is None else change.values.column_names)
        if not columns <= self.checked:
            self._check_not_indexed(columns)
            self.checked |= columns
        counts = AppliedChanges(deleted=len(change.deleted), updated=len(change.updated))
        if not len(change.deleted):
            return counts + self._write_column_file(change)
        if not self.job.store.options.deletion_vectors_enabled:
            return counts + self._rewrite_group(change)
        marked = vector_updates.mark_deleted(self.job, change.part, change.deleted)  # removes a group without live rows
        return counts + marked + (self._write_column_file(change) if len(change.updated) else AppliedChanges())

    def _without_partition_columns(self, change: GroupChange) -> GroupChange:
        """Return a change without assigned partition columns; their values may only be those they have already."""
        schema, values = self.job.store.schema, change.values
        known = self.job.store.partition_values(change.part.partition_bytes)
        for column, value in zip(schema.partition_fields, known, strict=True):
            if values is None or column.name not in values.column_names:
                continue
            actual = to_array([value], column.type)
            if set(pc.unique(values.column(column.name)).to_pylist()) - set(actual.to_pylist()):
                check_assignable(self.job.store, [column.name])
            values = values.drop_columns([column.name])
        return replace(change, values=values)

    def _check_not_indexed(self, columns: frozenset[str]) -> None:
        """Refuse to change columns with a global index, which would still find their old values."""
        store, manifest = self.job.store, self.job.snapshot.index_manifest
        ids = {column.id: column.name for column in store.schema.fields if column.name in columns}
        for entry in () if manifest is None else store.manifests.read_index(manifest):
            index = entry.file.global_index
            indexed = set() if index is None else {index.index_field_id, *(index.extra_field_ids or ())}
            for number in sorted(indexed & ids.keys()):
                raise UnsupportedError(
                    f"{store.name}: the column {ids[number]!r} has a global index ({entry.file.index_type}), which "
                    f"would still find the old values; drop it with table.drop_global_index({ids[number]!r}), and make "
                    "it again with the engine that made it",
                    table=store.name,
                    column=ids[number],
                )

    def _write_column_file(self, change: GroupChange) -> AppliedChanges:
        """Write the changed columns of a group into one file, and BLOB and VECTOR columns into files of their own."""
        assert change.values is not None  # noqa: S101 - rows are updated
        if not change.values.column_names:
            return AppliedChanges()
        side_columns = SideColumns.of(self.job, change, self.schemas)
        if not side_columns.names:
            return self._write_normal_columns(change)
        self._first_id(change.part)
        side_files = write_side_files(self.job, change, side_columns, self.schemas, self._new_output(change.part))
        out = AppliedChanges((self.job.message(bucket_of(change.part), new_files=side_files),))
        normal = change.values.drop_columns(side_columns.names)
        return out + self._write_normal_columns(replace(change, values=normal)) if normal.column_names else out

    def _write_normal_columns(self, change: GroupChange) -> AppliedChanges:
        """Write the changed columns of a group into one file."""
        assert change.values is not None  # noqa: S101 - rows are updated
        part, schema = change.part, self.job.store.schema
        plan = FilePlan.of_schema(schema, tuple(change.values.column_names))
        unbounded = replace(plan, file_bytes_max=_UNBOUNDED, file_rows_max=_UNBOUNDED)
        group, first_id = part.files[0], self._first_id(part)
        if len(change.updated) == group.row_count:
            rows: Iterator[pa.Table] = iter((change.values.select(list(plan.write_cols or ())),))
        else:
            rows = (with_updates(batch, at, change) for at, batch, _ in self._read(part, plan))
        written = self._write_files(part, unbounded, rows)
        if len(written) != 1 or written[0].row_count != group.row_count:
            raise LakewrightError(
                f"{self.job.store.name}: {sum(file.row_count for file in written)} rows of {group.file_name} were "
                f"written, which has {group.row_count}; nothing was committed",
                table=self.job.store.name,
            )
        file = replace(written[0], first_row_id=first_id)
        return AppliedChanges((self.job.message(bucket_of(part), new_files=(file,)),))

    def _rewrite_group(self, change: GroupChange) -> AppliedChanges:
        """Write the rows of a group that stay again, with their ids, and remove the files of the group."""
        part, store = change.part, self.job.store
        first_id = self._first_id(part)
        ranges = self._kept_ranges(change)
        if not ranges:
            return vector_updates.drop_group(self.job, part)
        if any(is_side_file(file) for file in part.files):
            raise UnsupportedError(
                f"{store.name}: rows with BLOB or VECTOR columns in files of their own can only be marked as deleted; "
                "set 'deletion-vectors.enabled' = 'true'",
                table=store.name,
                option="deletion-vectors.enabled",
            )
        plan = FilePlan.for_copied_rows(store.schema, source=APPEND)
        pieces = _rows_of_ranges(((at, with_updates(b, at, change)) for at, b, _ in self._read(part, plan)), ranges)
        written: list[DataFile] = []
        for (start, _), rows in groupby(pieces, key=itemgetter(0)):
            at = start
            for file in self._write_files(part, plan, (table for _, table in rows)):
                written.append(replace(file, first_row_id=first_id + at))
                at += file.row_count
        if not len(change.updated):  # updated rows get the sequence number of the snapshot
            low = min(file.min_sequence_number for file in part.files)
            high = max(file.max_sequence_number for file in part.files)
            written = [replace(file, min_sequence_number=low, max_sequence_number=high) for file in written]
        message = self.job.message(bucket_of(part), new_files=written, deleted_files=part.files)
        return AppliedChanges((message,), vector_updates.vectors_to_drop(part))

    def _kept_ranges(self, change: GroupChange) -> list[RowRange]:
        """Return the ranges of rows that stay; refuse too many of them."""
        rows = change.part.files[0].row_count
        before = vector_updates.deleted_positions(self.job.store, change.part)
        deleted = change.deleted if before is None else np.union1d(before.astype(np.int64), change.deleted)
        edges = np.concatenate([[-1], deleted, [rows]])
        ranges = [(int(one) + 1, int(end)) for one, end in pairwise(edges) if end - one > 1]
        if len(ranges) > _RANGES_MAX:
            raise UnsupportedError(
                f"{self.job.store.name}: {len(change.deleted)} rows to delete are in {len(ranges)} places of "
                f"{change.part.files[0].file_name}, and what is between them would need a file each to keep its ids; "
                "set 'deletion-vectors.enabled' = 'true', which marks rows where they are",
                table=self.job.store.name,
                option="deletion-vectors.enabled",
            )
        return ranges

    def _first_id(self, part: DataSplit) -> int:
        """Return the id of the first row of a group; refuse groups whose row ids are not consecutive."""
        group = part.files[0]
        if group.first_row_id is None:
            raise UnsupportedError(
                f"{self.job.store.name}: the rows of {group.file_name} were moved and have ids that do not follow each "
                "other, so no column file can be beside it; write the rows again",
                table=self.job.store.name,
                files=(group.file_name,),
            )
        return group.first_row_id

    def _read(self, part: DataSplit, plan: FilePlan) -> Iterator[tuple[int, pa.RecordBatch, np.ndarray | None]]:
        """Yield all rows of a group with the columns of a plan, in batches with positions and a mask of live rows."""
        store = self.job.store
        projection = plan_projection(store.schema.fields, [column.name for column in plan.fields])
        reader = SplitReader(store, self.schemas, projection)
        return reader.read_positions(part, range(len(part.files)))

    def _write_files(self, part: DataSplit, plan: FilePlan, rows: Iterator[pa.Table]) -> tuple[DataFile, ...]:
        """Write rows into new files of a group's bucket."""
        sink = self._new_output(part).open(plan)
        schema = to_arrow_schema(plan.fields)
        for table in rows:
            sink.write(pa.Table.from_arrays(table.columns, schema=schema))
        return sink.finish()

    def _new_output(self, part: DataSplit) -> BucketOutput:
        stem = f"{self.stem}{len(self.outputs)}"
        output = BucketOutput(self.job.store, (part.partition_bytes, part.bucket), new_uuid=lambda: stem)
        self.outputs.append(output)
        return output

    def discard(self) -> None:
        """Remove everything that was written."""
        for output in self.outputs:
            output.discard()


def _rows_of_ranges(
    batches: Iterable[tuple[int, pa.Table]], ranges: Iterable[RowRange]
) -> Iterator[tuple[RowRange, pa.Table]]:
    """Yield each range with its rows, from batches and the positions of their first rows; both are in order."""
    pending = deque(ranges)
    for at, batch in batches:
        while pending and pending[0][0] < at + batch.num_rows:
            start, end = pending[0]
            first = max(start, at)
            yield pending[0], batch.slice(first - at, min(end, at + batch.num_rows) - first)
            if end > at + batch.num_rows:
                break
            pending.popleft()


# ---- Copy on write ---------------------------------------------------------------------------------------------------
# A file is read batch by batch and replaced by one in the same order and with the same sequence numbers; if no row is
# left, it is removed. Rows that move are written to other files: those whose partition or bucket key is assigned and,
# in tables with deletion vectors, every updated row. In a table with row tracking rows carry their ids, and their
# sequence numbers unless they changed.
#
# Invariant: memory is bounded by a few batches, whatever the size of a file; if anything fails, no new file
# is left behind.


def apply_copies(job: ChangeJob, changes: Iterable[GroupChange], task: int = 0, attempt: int = 0) -> AppliedChanges:
    """Write the files of some groups again; `task` and `attempt` are part of every file name."""
    task_ = _CopyTask(job, f"{job.write_id}-{task}-{attempt}-c", MovedRows(job, task, attempt))
    try:
        out = [task_.apply_change(change) for change in changes if not change.is_empty]
        return AppliedChanges.sum_of((*out, AppliedChanges(task_.moved.finish())))
    except BaseException:
        task_.discard()
        raise


class MovedRows:
    """Writes the rows of one task that move to another file: an ordinary write, but rows keep their row ids."""

    def __init__(self, job: ChangeJob, task: int, attempt: int) -> None:
        self._job = job
        self._task = task, attempt
        self._carried = preserved_fields(job.store.schema, changes=True)
        self._intake: Intake | None = None
        self._writer: TableWriter | None = None

    def add(self, rows: pa.Table) -> None:
        """Add rows with all columns, as they are after the change, and with their ids if the table tracks rows."""
        if not rows.num_rows:
            return
        if self._intake is None or self._writer is None:
            store = self._job.store
            # Every column has a value here, so a null stays null instead of becoming the column's default.
            plain = replace(store.schema, fields=without_defaults(store.schema.fields))
            write_job = WriteJob.new(store.with_schema(plain), write_id=self._job.write_id)
            write_job = replace(write_job, carries_ids=bool(self._carried))
            self._intake, self._writer = write_job.new_intake(), write_job.open_writer(*self._task)
        aligned = self._intake.take(rows.select(self._job.store.schema.field_names), None, first_row=0)
        if self._carried:
            ids = rows.column(ROW_ID.name)
            schema = to_arrow_schema((*self._job.store.schema.fields, *self._carried))
            columns = [*aligned.columns, ids, pa.nulls(rows.num_rows, pa.int64())]
            aligned = pa.Table.from_arrays(columns, schema=schema)
        self._writer.take(aligned)

    def finish(self) -> tuple[CommitMessage, ...]:
        """Finish the files and return what to commit."""
        if self._writer is None:
            return ()
        messages = tuple(self._writer.prepare())
        self._writer.close()
        return messages

    def discard(self) -> None:
        """Remove everything that was written and not returned by `finish`."""
        if self._writer is not None:
            self._writer.close()


def changed_rows(job: ChangeJob, change: GroupChange, schemas: FileSchemas) -> Iterator[pa.Table]:
    """Yield the updated rows with their new values, all columns and their ids."""
    values = pa.table({}) if change.values is None else change.values
    names = [field.name for field in (*job.store.schema.fields, *preserved_fields(job.store.schema))]
    read = [name for name in names if name not in values.column_names]
    if not read:
        yield values.select(names)
        return
    for position, batch, _ in _read_group(job, change.part, schemas, read):
        at = updated_rows(change, position, batch.num_rows)
        if len(at):
            old = pa.Table.from_batches([batch.take(pa.array(at))])
            new = values.slice(int(np.searchsorted(change.updated, position)), len(at))
            yield pa.table({name: (old if name in read else new).column(name) for name in names})


@dataclass(slots=True)
class _CopyTask:
    """Applies the changes of one task, and removes its files if it fails."""

    job: ChangeJob
    stem: str
    moved: MovedRows
    outputs: list[BucketOutput] = field(default_factory=list)

    def apply_change(self, change: GroupChange) -> AppliedChanges:
        """Write the files of one group again."""
        store, part = self.job.store, change.part
        stem = f"{self.stem}{len(self.outputs)}"
        output = BucketOutput(store, (part.partition_bytes, part.bucket), new_uuid=lambda: stem)
        self.outputs.append(output)
        carried = preserved_fields(store.schema, changes=len(change.updated) > 0)
        plan = FilePlan.for_copied_rows(store.schema, carried, source=APPEND)
        schema = to_arrow_schema(plan.fields)
        first = min(file.min_sequence_number for file in part.files)
        sink = output.open(plan, numbers=SequenceNumbers(first))
        for rows in self._rows(change):
            sink.write(pa.Table.from_arrays(rows.columns, schema=schema))
        last = max(file.max_sequence_number for file in part.files)
        files = sink.finish()
        if not store.options.row_tracking_enabled:
            files = cap_sequence_numbers(files, last)
        message = self.job.message(bucket_of(part), new_files=files, deleted_files=part.files)
        return AppliedChanges(
            (message,), vector_updates.vectors_to_drop(part), deleted=len(change.deleted), updated=len(change.updated)
        )

    def _rows(self, change: GroupChange) -> Iterator[pa.Table]:
        """Yield the rows that stay in the group, with their new values."""
        moves = self._moves(change)
        for position, batch, live in _read_group(self.job, change.part, FileSchemas(self.job.store)):
            keep = keep_mask(change, position, batch.num_rows, live)
            rows = with_updates(batch, position, change)
            at = updated_rows(change, position, batch.num_rows)
            if len(at) and SEQUENCE_NUMBER.name in rows.column_names:
                rows = _clear_sequence_numbers(rows, at)
            if len(at) and moves:
                self.moved.add(rows.take(pa.array(at)))
                keep[at] = False
            yield rows if keep.all() else rows.filter(pa.array(keep))

    def _moves(self, change: GroupChange) -> bool:
        """Return whether a partition or bucket key is assigned, so that rows may move to another bucket."""
        schema = self.job.store.schema
        assigned = set() if change.values is None else set(change.values.column_names)
        return not assigned.isdisjoint((*schema.partition_keys, *schema.bucket_keys))

    def discard(self) -> None:
        """Remove everything that was written."""
        self.moved.discard()
        for output in self.outputs:
            output.discard()


def _read_group(
    job: ChangeJob, part: DataSplit, schemas: FileSchemas, names: Sequence[str] | None = None
) -> Iterator[tuple[int, pa.RecordBatch, np.ndarray | None]]:
    """Yield all rows of a group with some columns, or with all columns, ids and sequence numbers."""
    carried = preserved_fields(job.store.schema)
    names = [field.name for field in (*job.store.schema.fields, *carried)] if names is None else list(names)
    projection = plan_projection(job.store.schema.fields, names, hidden=carried)
    return SplitReader(job.store, schemas, projection).read_positions(part, range(len(part.files)))


def _clear_sequence_numbers(rows: pa.Table, at: np.ndarray) -> pa.Table:
    """Set the sequence numbers of changed rows to null: they get the number of the snapshot."""
    number = rows.column_names.index(SEQUENCE_NUMBER.name)
    changed = np.zeros(rows.num_rows, dtype=np.bool_)
    changed[at] = True
    values = rows.column(number).to_numpy()
    return rows.set_column(number, SEQUENCE_NUMBER.name, pa.array(values, pa.int64(), mask=changed))


# ---- Applying changes ------------------------------------------------------------------------------------------------
# `apply` runs in a thread or on a worker. It applies one change after the other, so that only one of them is in
# memory, and what it returns is small. If it fails, it leaves no file behind.


def apply_group_changes(
    job: ChangeJob, changes: Iterable[GroupChange], task: int = 0, attempt: int = 0
) -> AppliedChanges:
    """Apply changes of groups of an append table; `task` and `attempt` are part of every file name."""
    match change_method(job.store):
        case ChangeMethod.VECTORS:
            return _apply_vectors(job, changes, MovedRows(job, task, attempt))
        case ChangeMethod.COLUMNS:
            return apply_columns(job, changes, task, attempt)
        case ChangeMethod.COPY:
            return apply_copies(job, changes, task, attempt)
        case ChangeMethod.KEYED:
            raise UnsupportedError(
                f"{job.store.name}: rows of a primary-key table have no place to be changed in; they are replaced by "
                "rows with their keys",
                table=job.store.name,
            )


def _apply_vectors(job: ChangeJob, changes: Iterable[GroupChange], new: MovedRows) -> AppliedChanges:
    """Mark deleted and updated rows in deletion vectors, and write the updated ones into new files."""
    schemas = FileSchemas(job.store)
    out: list[AppliedChanges] = []
    try:
        for change in changes:
            positions = distinct(np.concatenate([change.deleted, change.updated]))
            if len(positions):
                marked = vector_updates.mark_deleted(job, change.part, positions)
                out.append(replace(marked, deleted=len(change.deleted), updated=len(change.updated)))
            for rows in changed_rows(job, change, schemas) if len(change.updated) else ():
                new.add(rows)
        return AppliedChanges.sum_of((*out, AppliedChanges(new.finish())))
    except BaseException:
        new.discard()
        raise

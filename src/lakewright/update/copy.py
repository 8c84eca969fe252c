"""Copy on write: changes of groups in, files without the deleted and with the changed rows out.

A file is read batch by batch and replaced by one in the same order and with the same sequence numbers; if no row is
left, it is removed. Rows that move are written to other files: those whose partition or bucket key is assigned and, in
tables with deletion vectors, every updated row. In a table with row tracking rows carry their ids, and their sequence
numbers unless they changed.

What always holds: memory is bounded by a few batches, whatever the size of a file; if anything fails, no new file is
left behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from lakewright.commit.message.message import CommitMessage
from lakewright.compact.append_rewrite import cap_sequence_numbers, carried_fields
from lakewright.compact.output import BucketOutput
from lakewright.datafiles.file_plan import FilePlan
from lakewright.datafiles.rolling import SequenceNumbers
from lakewright.read.projection import ROW_ID, plan_projection
from lakewright.read.reader import SplitReader
from lakewright.read.scan import FileSchemas
from lakewright.read.splits.split import DataSplit
from lakewright.spec.arrow import to_arrow_schema
from lakewright.spec.datafile import APPEND
from lakewright.spec.keyed_rows import SEQUENCE_NUMBER
from lakewright.update import vectors
from lakewright.update.change import Applied, ChangeJob, GroupChange, bucket_of, keep_mask, updated_rows, with_updates
from lakewright.update.values import without_defaults
from lakewright.write.input.intake import Intake
from lakewright.write.writer import TableWriter, WriteJob


def apply(job: ChangeJob, changes: Iterable[GroupChange], task: int = 0, attempt: int = 0) -> Applied:
    """Write the files of some groups again; `task` and `attempt` are part of every file name."""
    task_ = _CopyTask(job, f"{job.write_id}-{task}-{attempt}-c", MovedRows(job, task, attempt))
    try:
        out = [task_.apply_change(change) for change in changes if not change.is_empty]
        return Applied.joined((*out, Applied(task_.moved.finish())))
    except BaseException:
        task_.discard()
        raise


class MovedRows:
    """Writes the rows of one task that move to another file: an ordinary write, but rows keep their row ids."""

    def __init__(self, job: ChangeJob, task: int, attempt: int) -> None:
        self._job = job
        self._task = task, attempt
        self._carried = carried_fields(job.store.schema, changes=True)
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
    names = [field.name for field in (*job.store.schema.fields, *carried_fields(job.store.schema))]
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

    def apply_change(self, change: GroupChange) -> Applied:
        """Write the files of one group again."""
        store, part = self.job.store, change.part
        stem = f"{self.stem}{len(self.outputs)}"
        output = BucketOutput(store, (part.partition_bytes, part.bucket), new_uuid=lambda: stem)
        self.outputs.append(output)
        carried = carried_fields(store.schema, changes=len(change.updated) > 0)
        plan = FilePlan.moved(store.schema, carried, source=APPEND)
        schema = to_arrow_schema(plan.fields)
        first = min(file.min_sequence_number for file in part.files)
        sink = output.open(plan, numbers=SequenceNumbers(first))
        for rows in self._rows(change):
            sink.write(pa.Table.from_arrays(rows.columns, schema=schema))
        last = max(file.max_sequence_number for file in part.files)
        files = sink.finish()
        if not store.options.row_tracking_enabled():
            files = cap_sequence_numbers(files, last)
        message = self.job.message(bucket_of(part), new_files=files, deleted_files=part.files)
        return Applied(
            (message,), vectors.vectors_to_drop(part), deleted=len(change.deleted), updated=len(change.updated)
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
    carried = carried_fields(job.store.schema)
    names = [field.name for field in (*job.store.schema.fields, *carried)] if names is None else list(names)
    projection = plan_projection(job.store.schema.fields, names, hidden=carried)
    return SplitReader(job.store, schemas, projection).positioned(part, range(len(part.files)))


def _clear_sequence_numbers(rows: pa.Table, at: np.ndarray) -> pa.Table:
    """Set the sequence numbers of changed rows to null: they get the number of the snapshot."""
    number = rows.column_names.index(SEQUENCE_NUMBER.name)
    changed = np.zeros(rows.num_rows, dtype=np.bool_)
    changed[at] = True
    values = rows.column(number).to_numpy()
    return rows.set_column(number, SEQUENCE_NUMBER.name, pa.array(values, pa.int64(), mask=changed))

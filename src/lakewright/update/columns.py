"""Data evolution: changes of groups in; files that hold the changed columns alone, vectors and messages out.

An update reads what the group has in the changed columns, over its whole range and with deleted rows, puts the new
values in and writes one file of exactly these rows: `_FIRST_ROW_ID` is the group's, `_WRITE_COLS` names the columns,
and positions stay. A delete marks rows in the vector of the oldest file. Where the table has no deletion vectors the
live rows of the group are written again as new ones, which get new row ids, and its files go.

What always holds: a file of changed columns has as many rows as its group, and is never cut in two; if anything fails,
no file stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.commit.files import delete_written, files_of
from lakewright.errors import LakewrightError, UnsupportedError, naming
from lakewright.formats.rolling import FilePlan, RollingFile, SequenceNumbers, wall_clock_ms
from lakewright.metadata.store import TableStore
from lakewright.read.projection import plan_projection
from lakewright.read.reader import SplitReader
from lakewright.read.scan import FileSchemas
from lakewright.read.split import DataSplit
from lakewright.spec.arrow import to_arrow_schema
from lakewright.spec.datafile import DataFile
from lakewright.spec.supported import check_supported_for_write
from lakewright.update import vectors
from lakewright.update.change import Applied, ChangeJob, GroupChange, bucket_of
from lakewright.write.task import FileNames, WriteTask

_UNBOUNDED = (1 << 62) - 1  # bytes or rows of a file that must not be cut
_PIECE_BYTES = 64 << 20  # of rows that are handed to the encoder at once


def apply(job: ChangeJob, changes: Iterable[GroupChange], task: int = 0, attempt: int = 0) -> Applied:
    """Do what is decided of groups of a data-evolution table; `task` and `attempt` are part of every file name."""
    with naming(job.store.name):
        check_supported_for_write(job.store.schema)
    work = _Work(job, FileSchemas(job.store), FileNames(WriteTask(job.store, job.write_id, task, attempt)))
    out = Applied()
    try:
        for change in changes:
            if not change.is_empty:
                out += work.done(change)
    except BaseException:
        delete_written(job.store, files_of(job.store, out.messages))
        raise
    return out


def check_assignable(store: TableStore, names: Iterable[str]) -> None:
    """Refuse to assign columns that decide where a row lies: data evolution changes columns where they are."""
    for name in names:
        if name in store.schema.partition_keys:
            raise UnsupportedError(
                f"table {store.name}: {name!r} is a partition column, and rows of a table with data evolution cannot "
                "move to another partition; delete them and write them again",
                table=store.name,
                column=name,
            )


@dataclass(frozen=True, slots=True)
class _Work:
    """One attempt at some groups."""

    job: ChangeJob
    schemas: FileSchemas
    names: FileNames

    def done(self, change: GroupChange) -> Applied:
        """Write what one group needs."""
        columns = () if change.values is None else change.values.column_names
        check_assignable(self.job.store, columns)
        counts = Applied(deleted=len(change.deleted), updated=len(change.updated))
        if not len(change.deleted):
            return counts + self._beside(change)
        if not self.job.store.options.deletion_vectors_enabled():
            return counts + self._anew(change)
        marked = vectors.mark(self.job, change.part, change.deleted)  # may take away a group without live rows
        return counts + marked + (self._beside(change) if len(change.updated) else Applied())

    def _beside(self, change: GroupChange) -> Applied:
        """Write the changed columns of a group beside its files."""
        assert change.values is not None  # noqa: S101 - rows are updated
        part, schema = change.part, self.job.store.schema
        plan = FilePlan.of_schema(schema, tuple(change.values.column_names))
        whole = replace(plan, file_bytes_max=_UNBOUNDED, file_rows_max=_UNBOUNDED)
        group = part.files[0]
        if len(change.updated) == group.row_count:
            rows: Iterator[pa.Table] = iter((change.values.select(list(plan.write_cols or ())),))
        else:
            rows = (_substituted(batch, at, change) for at, batch, _ in self._read(part, plan))
        written = self._written(part, whole, rows)
        if len(written) != 1 or written[0].row_count != group.row_count:
            raise LakewrightError(
                f"{self.job.store.name}: {sum(file.row_count for file in written)} rows of {group.file_name} were "
                f"written, which has {group.row_count}; nothing was committed",
                table=self.job.store.name,
            )
        file = replace(written[0], first_row_id=group.first_row_id)
        return Applied((self.job.message(bucket_of(part), new_files=(file,)),))

    def _anew(self, change: GroupChange) -> Applied:
        """Write the live rows of a group once more, without those that are deleted."""
        part = change.part
        plan = FilePlan.of_schema(self.job.store.schema)
        rows = (_left(batch, at, live, change) for at, batch, live in self._read(part, plan))
        written = self._written(part, plan, rows)
        message = self.job.message(bucket_of(part), new_files=written, deleted_files=part.files)
        return Applied((message,), vectors.forget(part))

    def _read(self, part: DataSplit, plan: FilePlan) -> Iterator[tuple[int, pa.RecordBatch, np.ndarray | None]]:
        """Yield what a group has in the columns of a plan: every row, with its position and whether it is live."""
        store = self.job.store
        projection = plan_projection(store.schema.fields, [field.name for field in plan.fields])
        reader = SplitReader(store, self.schemas, projection)
        return reader.positioned(part, range(len(part.files)))

    def _written(self, part: DataSplit, plan: FilePlan, rows: Iterator[pa.Table]) -> list[DataFile]:
        """Write rows into files of a group's bucket."""
        new_file = partial(self.names.new_file, (part.partition_bytes, part.bucket), plan)
        out = RollingFile(plan, new_file, SequenceNumbers(0), wall_clock_ms)
        schema = to_arrow_schema(plan.fields)
        try:
            for piece in _pieces(rows):
                out.write(pa.Table.from_arrays(piece.columns, schema=schema))
            out.finish()
        except BaseException:
            out.discard()
            for done in out.files:
                self.job.store.storage.delete(done.path)
            raise
        return [done.facts for done in out.files]


def _pieces(rows: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Put small tables together: each one that is written begins a row group."""
    held: list[pa.Table] = []
    size = 0
    for table in rows:
        if table.num_rows:
            held.append(table)
            size += table.nbytes
        if size >= _PIECE_BYTES:
            yield pa.concat_tables(held)
            held, size = [], 0
    if held:
        yield pa.concat_tables(held)


def _substituted(batch: pa.RecordBatch, position: int, change: GroupChange) -> pa.Table:
    """Return rows of a group with the new values of those that are updated."""
    table = pa.Table.from_batches([batch])
    if change.values is None:
        return table
    low, high = np.searchsorted(change.updated, (position, position + batch.num_rows))
    if low == high:
        return table
    at = change.updated[low:high] - position
    values = change.values.slice(low, high - low)
    for name in values.column_names:
        number = table.column_names.index(name)
        put = _put(batch.column(number), at, values.column(name).combine_chunks())
        table = table.set_column(number, table.schema.field(number), put)
    return table


def _left(batch: pa.RecordBatch, position: int, live: np.ndarray | None, change: GroupChange) -> pa.Table:
    """Return the rows of a group that stay, with the new values of those that are updated."""
    low, high = np.searchsorted(change.deleted, (position, position + batch.num_rows))
    keep = np.ones(batch.num_rows, dtype=np.bool_) if live is None else live.copy()
    keep[change.deleted[low:high] - position] = False
    return _substituted(batch, position, change).filter(pa.array(keep))


def _put(column: pa.Array, at: np.ndarray, values: pa.Array) -> pa.Array:
    """Return a column with other values at some positions."""
    if len(at) == len(column):
        return values
    if pa.types.is_nested(column.type):
        order = np.arange(len(column), dtype=np.int64)
        order[at] = np.arange(len(column), len(column) + len(at))
        return pa.concat_arrays([column, values]).take(pa.array(order))
    mask = np.zeros(len(column), dtype=np.bool_)
    mask[at] = True
    return pc.replace_with_mask(column, pa.array(mask), values)

"""Data evolution: changes of groups in; files with only the changed columns, vectors and messages out.

An update reads the changed columns of all rows of the group, deleted ones included, puts the new values in and writes
one file with as many rows: `_FIRST_ROW_ID` is the group's, `_WRITE_COLS` names the columns, and positions stay. A
delete marks rows in the vector of the oldest file. If the table has no deletion vectors, the rows that stay are written
again with all columns, one file for each range of rows without a gap, and the files of the group are removed; too many
ranges are refused.

What always holds: rows that stay keep their ids; a file of changed columns has as many rows as its group, and is never
split; if anything fails, no new file is left behind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.compact.output import BucketOutput
from lakewright.datafiles.file_plan import FilePlan
from lakewright.errors import LakewrightError, UnsupportedError, naming
from lakewright.metadata.store import TableStore
from lakewright.read.projection import plan_projection
from lakewright.read.reader import SplitReader
from lakewright.read.scan import FileSchemas
from lakewright.read.splits.split import DataSplit
from lakewright.spec.arrow import to_arrow_schema
from lakewright.spec.datafile import APPEND, DataFile
from lakewright.spec.schema.supported import check_supported_for_write
from lakewright.spec.values import to_array
from lakewright.update import vectors
from lakewright.update.change import Applied, ChangeJob, GroupChange, bucket_of, with_updates

RowRange: TypeAlias = tuple[int, int]  # positions of rows without a gap: the first, and the first after the last
_RANGES_MAX = 100  # ranges of rows that stay in a group without deletion vectors; each becomes a small file
_UNBOUNDED = (1 << 62) - 1  # bytes or rows of a file that must not be split


def apply(job: ChangeJob, changes: Iterable[GroupChange], task: int = 0, attempt: int = 0) -> Applied:
    """Apply changes of groups of a table with data evolution; `task` and `attempt` are part of every file name."""
    with naming(job.store.name):
        check_supported_for_write(job.store.schema)
    task_ = _ColumnFileTask(job, f"{job.write_id}-{task}-{attempt}-", FileSchemas(job.store))
    out = Applied()
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

    def apply_change(self, change: GroupChange) -> Applied:
        """Write the files and vectors of one changed group."""
        change = self._without_partition_columns(change)
        columns = frozenset(() if change.values is None else change.values.column_names)
        if not columns <= self.checked:
            self._check_not_indexed(columns)
            self.checked |= columns
        counts = Applied(deleted=len(change.deleted), updated=len(change.updated))
        if not len(change.deleted):
            return counts + self._write_column_file(change)
        if not self.job.store.options.deletion_vectors_enabled():
            return counts + self._rewrite_group(change)
        marked = vectors.mark_deleted(self.job, change.part, change.deleted)  # removes a group without live rows
        return counts + marked + (self._write_column_file(change) if len(change.updated) else Applied())

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

    def _write_column_file(self, change: GroupChange) -> Applied:
        """Write the changed columns of a group into one file."""
        assert change.values is not None  # noqa: S101 - rows are updated
        if not change.values.column_names:
            return Applied()
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
        return Applied((self.job.message(bucket_of(part), new_files=(file,)),))

    def _rewrite_group(self, change: GroupChange) -> Applied:
        """Write the rows of a group that stay again, with their ids, and remove the files of the group."""
        part, store = change.part, self.job.store
        first_id = self._first_id(part)
        ranges = self._kept_ranges(change)
        plan = FilePlan.moved(store.schema, source=APPEND)
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
        return Applied((message,), vectors.vectors_to_drop(part))

    def _kept_ranges(self, change: GroupChange) -> list[RowRange]:
        """Return the ranges of rows that stay; refuse too many of them."""
        rows = change.part.files[0].row_count
        before = vectors.deleted_positions(self.job.store, change.part)
        deleted = change.deleted if before is None else np.union1d(before.astype(np.int64), change.deleted)
        edges = np.concatenate([[-1], deleted, [rows]])
        ranges = [(int(one) + 1, int(end)) for one, end in pairwise(edges) if end - one > 1]
        if len(ranges) > _RANGES_MAX:
            raise UnsupportedError(
                f"{self.job.store.name}: {len(change.deleted)} rows to delete lie in {len(ranges)} places of "
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
                "other, so no column file can lie beside it; write the rows again",
                table=self.job.store.name,
                files=(group.file_name,),
            )
        return group.first_row_id

    def _read(self, part: DataSplit, plan: FilePlan) -> Iterator[tuple[int, pa.RecordBatch, np.ndarray | None]]:
        """Yield all rows of a group with the columns of a plan, in batches with positions and a mask of live rows."""
        store = self.job.store
        projection = plan_projection(store.schema.fields, [column.name for column in plan.fields])
        reader = SplitReader(store, self.schemas, projection)
        return reader.positioned(part, range(len(part.files)))

    def _write_files(self, part: DataSplit, plan: FilePlan, rows: Iterator[pa.Table]) -> tuple[DataFile, ...]:
        """Write rows into new files of a group's bucket."""
        stem = f"{self.stem}{len(self.outputs)}"
        output = BucketOutput(self.job.store, (part.partition_bytes, part.bucket), new_uuid=lambda: stem)
        self.outputs.append(output)
        sink = output.open(plan)
        schema = to_arrow_schema(plan.fields)
        for table in rows:
            sink.write(pa.Table.from_arrays(table.columns, schema=schema))
        return sink.finish()

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

"""Columns of rows that have row ids: which file of a group holds a column, and the columns put together.

Columns of normal files and of VECTOR files are taken from the newest file that holds them, for each row; those of BLOB
files by the rule of `blob_columns`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from lakewright.read.blob_columns import BlobColumn
from lakewright.read.data_file_reader import BucketReader
from lakewright.read.pruning import written_fields
from lakewright.spec.manifest import DataFile, is_blob_file, is_side_file
from lakewright.spec.predicate import TRUE, Predicate, project_columns
from lakewright.spec.system_columns import ROW_ID, SEQUENCE_NUMBER
from lakewright.spec.types import DataField, blob_fields

_SYSTEM_IDS = frozenset({ROW_ID.id, SEQUENCE_NUMBER.id})


class _Stretch(NamedTuple):
    """Consecutive rows of a group whose columns are taken from one file."""

    file: DataFile
    rows: range  # positions in the group


@dataclass(frozen=True)
class GroupColumns:
    """Columns of a group of files that hold columns of the same rows, and from which files they are taken."""

    source: BucketReader
    fields: tuple[DataField, ...]
    first_row_id: int
    rows: range  # the positions to read
    takes: dict[tuple[_Stretch, ...], list[DataField]]
    blobs: dict[str, BlobColumn]  # by the names of the columns

    @classmethod
    def of(
        cls, source: BucketReader, files: Sequence[DataFile], fields: Sequence[DataField], within: range | None
    ) -> GroupColumns:
        """Decide for each column which files it is taken from; `within` are positions, None for all rows."""
        newest_first = sorted(files, key=lambda f: (-f.max_sequence_number, f.file_name))
        newest = next(file for file in newest_first if not is_side_file(file))
        first = newest.first_row_id or 0
        rows = range(newest.row_count) if within is None else within
        takes: dict[tuple[_Stretch, ...], list[DataField]] = {}
        blobs: dict[str, BlobColumn] = {}
        for field in fields:
            holders = [newest] if field.id in _SYSTEM_IDS else [f for f in newest_first if _holds(source, f, field)]
            of_blobs = tuple(file for file in holders if is_blob_file(file)) if blob_fields([field]) else ()
            if of_blobs:
                blobs[field.name] = BlobColumn(source, of_blobs, first, rows)
            else:
                takes.setdefault(tuple(_stretches([*holders, newest], first, rows)), []).append(field)
        return cls(source, tuple(fields), first, rows, takes or {(_Stretch(newest, rows),): []}, blobs)

    def batches(
        self, residual: Predicate = TRUE, *, batch_rows: int | None = None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the columns, with the positions of the first rows.

        What cannot match `residual` may be left out where one normal file holds all columns that are read.
        """
        alone = len(self.takes) == 1
        residual = project_columns(residual, [f.name for f in self.fields if f.name not in self.blobs])
        with ExitStack() as stack:
            sources = [
                stack.enter_context(closing(self._taken(stretches, fields, residual if alone else TRUE, batch_rows)))
                for stretches, fields in self.takes.items()
            ]
            aligned = ((at, [batch]) for at, batch in sources[0]) if alone else _side_by_side(sources, self.rows)
            for position, parts in aligned:
                rows = parts[0].num_rows
                columns = {
                    field.name: column
                    for fields, part in zip(self.takes.values(), parts, strict=True)
                    for field, column in zip(fields, part.columns, strict=True)
                }
                columns |= {name: blob.descriptors(position, rows) for name, blob in self.blobs.items()}
                names = [field.name for field in self.fields]
                yield position, record_batch([columns[name] for name in names], names, rows)

    def _taken(
        self, stretches: Sequence[_Stretch], fields: Sequence[DataField], residual: Predicate, batch_rows: int | None
    ) -> Generator[tuple[int, pa.RecordBatch]]:
        """Yield columns that are taken from the same files, with the positions of the first rows in the group."""
        for file, rows in stretches:
            shift = (file.first_row_id or 0) - self.first_row_id
            own = range(rows.start - shift, rows.stop - shift)
            within = None if own == range(file.row_count) else own
            for position, batch in self.source.rows(file, fields, residual, batch_rows=batch_rows, within=within):
                yield position + shift, batch


def _holds(source: BucketReader, file: DataFile, field: DataField) -> bool:
    written = written_fields(source.schemas.fields_of(file.schema_id), file.write_cols)
    return any(column.id == field.id for column in written)


def _stretches(files: Sequence[DataFile], first_row_id: int, rows: range) -> list[_Stretch]:
    """Return from which file each row is taken: the first of the files that covers it, and the last covers all."""
    found: list[_Stretch] = []
    open_rows = [rows] if rows else []
    for file in files:
        start = (file.first_row_id or 0) - first_row_id
        left: list[range] = []
        for stretch in open_rows:
            low, high = max(start, stretch.start), min(start + file.row_count, stretch.stop)
            if low < high:
                found.append(_Stretch(file, range(low, high)))
                left += [part for part in (range(stretch.start, low), range(high, stretch.stop)) if part]
            else:
                left.append(stretch)
        open_rows = left
    return sorted(found, key=lambda stretch: stretch.rows.start)


def _side_by_side(
    sources: Sequence[Iterator[tuple[int, pa.RecordBatch]]], rows_all: range
) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    """Cut streams of the same rows, those at a range of positions, into batches that end at the same positions."""
    if not rows_all:
        return
    current = [next(source)[1] for source in sources]
    position = rows_all.start
    while position < rows_all.stop:
        rows = min(batch.num_rows for batch in current)
        yield position, [batch.slice(0, rows) for batch in current]
        position += rows
        for at, source in enumerate(sources):
            left = current[at].slice(rows)
            current[at] = left if left.num_rows or position >= rows_all.stop else next(source)[1]


def record_batch(columns: Sequence[pa.Array], names: Sequence[str], rows: int) -> pa.RecordBatch:
    """Return columns as a batch; one without columns still has rows."""
    if not columns:
        return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["none"]).select([])
    return pa.RecordBatch.from_arrays(list(columns), names=list(names))

"""One data file as batches in today's schema: open, check, evolve, and find which of its rows are deleted.

What always holds: a batch comes with the position of its first row in the file, so that deletion vectors fit whatever
was skipped; a file that does not hold what the manifest says is an error that names it; a file is closed when its last
batch was taken, or when the reader leaves.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import CorruptTableError, NotFoundError, counted
from lakewright.formats.base import FileReader, file_format_of
from lakewright.formats.deletion_vectors import Positions, read_deletion_vector
from lakewright.formats.open import first_bytes, open_reader
from lakewright.metadata.store import TableStore
from lakewright.read.evolve import Evolution, plan_evolution
from lakewright.read.projection import ROW_ID
from lakewright.read.pruning.prune import devolve, holds_ids, written_fields
from lakewright.read.scan import FileSchemas
from lakewright.read.splits.split import DeletionFile
from lakewright.spec.datafile import DataFile, DeletionRange
from lakewright.spec.keyed_rows import KEYED_FIELDS, SEQUENCE_NUMBER
from lakewright.spec.predicate.predicate import FALSE, TRUE, Predicate
from lakewright.spec.types import DataField


@dataclass(frozen=True, slots=True)
class BucketFiles:
    """The data files of one bucket of one partition; it can be shared by threads."""

    store: TableStore
    schemas: FileSchemas
    partition: bytes
    bucket: int

    def rows(
        self,
        file: DataFile,
        fields: Sequence[DataField],
        residual: Predicate = TRUE,
        *,
        batch_rows: int | None = None,
        within: range | None = None,
    ) -> Generator[tuple[int, pa.RecordBatch]]:
        """Yield one file's batches as the read schema sees them; what cannot match `residual` may be left out.

        Fields may be columns of the table and the system columns that the file holds or, for row tracking, implies.
        Batches are as large as the reader of the format makes them, or have at most `batch_rows` rows. All rows have
        positions `within` a range, if one is given.
        """
        written, skip = self._written(file, residual)
        evolution = plan_evolution(written, fields)
        if skip == FALSE:
            return
        reader = self._open(file, evolution)
        try:
            chosen = None if skip == TRUE else skip
            batches = reader.batches(skip=chosen, batch_rows=batch_rows, within=within)
            for position, batch in batches if within is None else _between(batches, within):
                yield position, _with_ids(evolution.apply(batch), file, position)
        finally:
            reader.close()

    def starts(self, file: DataFile, residual: Predicate = TRUE) -> tuple[int, ...]:
        """Return the positions of a file's rows at which its decoding can begin.

        What cannot match `residual` may be left out.
        """
        asked = residual.columns()
        fields = [field for field in self.store.schema.fields if field.name in asked]
        written, skip = self._written(file, residual)
        if skip == FALSE:
            return ()
        reader = self._open(file, plan_evolution(written, fields))
        try:
            # Other writers may end a file with a row group that has no rows.
            return tuple(start for start in reader.starts(None if skip == TRUE else skip) if start < file.row_count)
        finally:
            reader.close()

    def _written(self, file: DataFile, residual: Predicate) -> tuple[tuple[DataField, ...], Predicate]:
        """Return the columns that a file holds, and a predicate as it is about them."""
        schema = self.schemas.fields_of(file.schema_id)
        written = (*written_fields(schema, file.write_cols), *self._system_fields(file))
        asked = (*self.store.schema.fields, ROW_ID) if holds_ids(file) else self.store.schema.fields
        return written, devolve(residual, asked, written)

    def _system_fields(self, file: DataFile) -> tuple[DataField, ...]:
        """Return the system columns that a file holds: rows that were moved carry their ids."""
        if self.store.schema.primary_keys:
            return KEYED_FIELDS
        return tuple(field for field in (ROW_ID, SEQUENCE_NUMBER) if field.name in (file.write_cols or ()))

    def _open(self, file: DataFile, evolution: Evolution) -> FileReader:
        path = self.store.layout.data_file(self.store.partition_directory(self.partition), self.bucket, file)
        file_format = file_format_of(file.file_name)
        fields = self.schemas.fields_of(file.schema_id)
        first = first_bytes(file_format, size=file.file_size, row_count=file.row_count, fields=fields)
        if self.schemas.opened is not None:
            self.schemas.opened[file.file_name] = file.file_size
        source = self.store.storage.open_input(path, size=file.file_size, end_bytes=first)
        try:
            reader = open_reader(file_format, source, path=path, size=file.file_size, fields=evolution.file_fields)
        except BaseException:
            source.close()
            raise
        if reader.row_count != file.row_count:
            reader.close()
            raise CorruptTableError(
                f"{self.store.name}: the file {path} holds {counted(reader.row_count, 'row')} where the manifest says "
                f"{file.row_count}; restore it from a copy",
                table=self.store.name,
                path=path,
            )
        return reader

    def deleted(self, file: DataFile, deletion: DeletionFile) -> Positions | None:
        """Return the positions of a file's rows that a deletion vector deletes; None where it deletes none."""
        directory = self.store.layout.bucket_directory(self.store.partition_directory(self.partition), self.bucket)
        path = self.store.layout.named_index_file(deletion.path, directory)
        place = DeletionRange(file.file_name, deletion.offset, deletion.length, deletion.cardinality)
        source = self.store.storage.open_input(path)
        try:
            positions = read_deletion_vector(source, place, path=path)
        finally:
            source.close()
        if len(positions) and int(positions[-1]) >= file.row_count:
            raise CorruptTableError(
                f"{self.store.name}: {path} deletes row {int(positions[-1])} of {file.file_name}, which has "
                f"{file.row_count}; restore it from a copy",
                table=self.store.name,
                path=path,
            )
        return positions if len(positions) else None


def _between(rows: Iterable[tuple[int, pa.RecordBatch]], within: range) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows whose positions lie within a range, and read no further."""
    for position, batch in rows:
        if position >= within.stop:
            return
        low, high = max(within.start - position, 0), min(within.stop - position, batch.num_rows)
        if low < high:
            is_all = (low, high) == (0, batch.num_rows)
            yield position + low, batch if is_all else batch.slice(low, high - low)


@contextmanager
def missing_files_explained(store: TableStore, snapshot_id: int) -> Iterator[None]:
    """Say of a file that is gone whether expiry took its snapshot away or the table is damaged."""
    try:
        yield
    except FileNotFoundError as error:
        path = error.filename or str(error)
        name = store.name
        if not store.snapshots.exists(snapshot_id):
            raise NotFoundError(
                f"{name}: snapshot {snapshot_id} has expired and {path} with it; read a newer snapshot, or "
                "keep the one you read with a tag",
                table=name,
                path=path,
                snapshot_id=snapshot_id,
            ) from error
        raise CorruptTableError(
            f"{name}: snapshot {snapshot_id} names the file {path}, which is missing; restore it from a copy, or "
            "roll back to a snapshot without it",
            table=name,
            path=path,
            snapshot_id=snapshot_id,
        ) from error


def _with_ids(batch: pa.RecordBatch, file: DataFile, position: int) -> pa.RecordBatch:
    """Fill in the row ids and sequence numbers that the file does not hold itself."""
    for at, name in enumerate(batch.schema.names):
        if name == ROW_ID.name:
            batch = batch.set_column(at, batch.schema.field(at), _row_ids(batch.column(at), file, position))
        elif name == SEQUENCE_NUMBER.name and batch.column(at).null_count:
            filled = pc.fill_null(batch.column(at), file.max_sequence_number)
            batch = batch.set_column(at, batch.schema.field(at), filled)
    return batch


def _row_ids(stored: pa.Array, file: DataFile, position: int) -> pa.Array:
    if not stored.null_count:
        return stored
    if file.first_row_id is None:
        raise CorruptTableError(
            f"the file {file.file_name} has neither row ids nor a first row id", files=(file.file_name,)
        )
    first = file.first_row_id + position
    return pc.coalesce(stored, pa.array(np.arange(first, first + len(stored), dtype=np.int64)))

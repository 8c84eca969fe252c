"""From splits to Arrow batches: open, evolve, drop deleted rows, filter, project.

What always holds: batches come in plan order with one schema; the values of partition columns come from the manifest,
never from a file; deletion vectors count rows as they lie in the file, before anything is filtered; a file that does
not hold what the manifest says is an error that names it. Nothing is read before the first batch is asked for.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import CorruptTableError, NotFoundError
from lakewright.formats.base import FileReader, file_format_of
from lakewright.formats.deletion_vectors import Positions, live_mask, read_deletion_vector
from lakewright.formats.open import open_reader
from lakewright.metadata.store import TableStore
from lakewright.read.evolve import Evolution, plan_evolution
from lakewright.read.projection import ROW_ID, Projection
from lakewright.read.prune import devolve, written_fields
from lakewright.read.scan import FileSchemas
from lakewright.read.split import DataSplit, DeletionFile
from lakewright.spec.datafile import DataFile, DeletionRange
from lakewright.spec.keyed import SEQUENCE_NUMBER
from lakewright.spec.predicate import FALSE, TRUE, Predicate, assume
from lakewright.spec.types import DataField
from lakewright.spec.values import to_array

_SYSTEM_IDS = frozenset({ROW_ID.id, SEQUENCE_NUMBER.id})


@dataclass(frozen=True, slots=True)
class SplitReader:
    """Reads splits of one table with one projection and one filter; it can be shared by threads."""

    store: TableStore
    schemas: FileSchemas
    projection: Projection
    predicate: Predicate = TRUE

    def read(self, split: DataSplit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split that fulfil the filter, in file order."""
        for group in split.row_groups():
            yield from self.read_group(split, group)

    def read_group(self, split: DataSplit, group: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one file of a split, or of the files that hold columns of the same rows."""
        known = dict(
            zip(self.store.schema.partition_keys, self.store.partition_values(split.partition_bytes), strict=True)
        )
        residual = assume(self.predicate, known)
        if residual == FALSE:
            return
        start, end = split.range_of(group)
        constants = [
            to_array([known[f.name]], f.type)[0] if f.name in known else None for f in self.projection.read_fields
        ]
        with self._explained(split):
            deleted = self._deleted(split, group)
            for position, batch in _between(self._rows(split, group, residual), start, end):
                live = None if deleted is None else live_mask(deleted, position, batch.num_rows)
                out = self._finish(batch, constants, live, residual)
                if out.num_rows:
                    yield out

    def _rows(
        self, split: DataSplit, group: Sequence[int], residual: Predicate
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the columns that files hold, with the positions of their first rows; all rows count."""
        files = [split.files[at] for at in group]
        paths = [self._path(split, file) for file in files]
        if len(files) == 1:
            return self._file_rows(files[0], paths[0], self._stored_fields(), residual)
        return self._zipped_rows(files, paths)

    def _stored_fields(self) -> tuple[DataField, ...]:
        keys = self.store.schema.partition_keys
        return tuple(field for field in self.projection.read_fields if field.name not in keys)

    def _file_rows(
        self, file: DataFile, path: str, fields: Sequence[DataField], residual: Predicate
    ) -> Generator[tuple[int, pa.RecordBatch]]:
        """Yield one file's batches as the read schema sees them."""
        schema = self.schemas.fields_of(file.schema_id)
        written = written_fields((*schema, *_system_fields(file)), file.write_cols)
        evolution = plan_evolution(written, fields)
        skip = devolve(residual, self.store.schema.fields, written)
        if skip == FALSE:
            return
        reader = self._open(file, path, evolution)
        try:
            for position, batch in reader.batches(skip=None if skip == TRUE else skip):
                yield position, _with_ids(evolution.apply(batch), file, position)
        finally:
            reader.close()

    def _zipped_rows(self, files: Sequence[DataFile], paths: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield rows whose columns lie in several files, each column from the newest file that has it."""
        fields = self._stored_fields()
        order = sorted(range(len(files)), key=lambda at: (-files[at].max_sequence_number, files[at].file_name))
        takes: dict[int, list[int]] = {} if fields else {order[0]: []}
        for number, field in enumerate(fields):
            holder = next((at for at in order if self._holds(files[at], field)), order[0])
            takes.setdefault(holder, []).append(number)
        numbers = [number for some in takes.values() for number in some]
        back = [numbers.index(number) for number in range(len(fields))]
        names = [field.name for field in fields]
        with ExitStack() as stack:
            sources = [
                stack.enter_context(closing(self._file_rows(files[at], paths[at], [fields[n] for n in some], TRUE)))
                for at, some in takes.items()
            ]
            for position, parts in _side_by_side(sources, files[0].row_count):
                columns = [column for part in parts for column in part.columns]
                yield position, _batch([columns[at] for at in back], names, parts[0].num_rows)

    def _holds(self, file: DataFile, field: DataField) -> bool:
        if field.id in _SYSTEM_IDS:
            return True  # the newest file tells
        written = written_fields(self.schemas.fields_of(file.schema_id), file.write_cols)
        return any(found.id == field.id for found in written)

    def _open(self, file: DataFile, path: str, evolution: Evolution) -> FileReader:
        source = self.store.storage.open_input(path)
        try:
            reader = open_reader(
                file_format_of(file.file_name), source, path=path, size=file.file_size, fields=evolution.file_fields
            )
        except BaseException:
            source.close()
            raise
        if reader.row_count != file.row_count:
            reader.close()
            raise CorruptTableError(
                f"{self.store.name}: the file {path} holds {reader.row_count} rows where the manifest says "
                f"{file.row_count}; restore it from a copy",
                table=self.store.name,
                path=path,
            )
        return reader

    def _path(self, split: DataSplit, file: DataFile) -> str:
        return self.store.layout.data_file(self.store.partition_directory(split.partition_bytes), split.bucket, file)

    def _deleted(self, split: DataSplit, group: Sequence[int]) -> Positions | None:
        deletion = split.deletion_of(group)
        if deletion is None:
            return None
        anchor = next(at for at in group if split.deletion_files[at] is deletion)
        directory = self.store.layout.bucket_directory(
            self.store.partition_directory(split.partition_bytes), split.bucket
        )
        path = self.store.layout.named_index_file(deletion.path, directory)
        return self._positions(replace(deletion, path=path), split.files[anchor])

    def _positions(self, deletion: DeletionFile, file: DataFile) -> Positions | None:
        place = DeletionRange(file.file_name, deletion.offset, deletion.length, deletion.cardinality)
        source = self.store.storage.open_input(deletion.path)
        try:
            found = read_deletion_vector(source, place, path=deletion.path)
        finally:
            source.close()
        if len(found) and int(found[-1]) >= file.row_count:
            raise CorruptTableError(
                f"{self.store.name}: {deletion.path} deletes row {int(found[-1])} of {file.file_name}, which has "
                f"{file.row_count}; restore it from a copy",
                table=self.store.name,
                path=deletion.path,
            )
        return found if len(found) else None

    def _finish(
        self, batch: pa.RecordBatch, constants: Sequence[pa.Scalar | None], live: np.ndarray | None, residual: Predicate
    ) -> pa.RecordBatch:
        """Add the partition columns, drop what is deleted or does not match, and keep what was asked for."""
        stored = iter(batch.columns)
        rows = batch.num_rows
        columns = [next(stored) if scalar is None else pa.repeat(scalar, rows) for scalar in constants]
        whole = _batch(columns, [f.name for f in self.projection.read_fields], rows)
        mask = None if live is None or live.all() else pa.array(live)
        if residual != TRUE:
            matched = residual.mask(whole)
            mask = matched if mask is None else pc.and_kleene(mask, matched)
        out = self.projection.apply(whole)
        if mask is None:
            return out
        kept = pc.sum(mask).as_py() or 0
        return out if kept == rows else out.slice(0, 0) if kept == 0 else out.filter(mask)

    @contextmanager
    def _explained(self, split: DataSplit) -> Iterator[None]:
        """Say of a file that is gone whether expiry took its snapshot away or the table is damaged."""
        try:
            yield
        except FileNotFoundError as error:
            path = error.filename or str(error)
            name, snapshot_id = self.store.name, split.snapshot_id
            if not self.store.snapshots.exists(snapshot_id):
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


def _system_fields(file: DataFile) -> tuple[DataField, ...]:
    """Return the row tracking columns that a file holds itself: rows that were moved carry their ids."""
    return tuple(field for field in (ROW_ID, SEQUENCE_NUMBER) if field.name in (file.write_cols or ()))


def _between(rows: Iterator[tuple[int, pa.RecordBatch]], start: int, end: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows from one position up to another, and read no further."""
    for position, batch in rows:
        if position >= end:
            return
        low, high = max(start - position, 0), min(end - position, batch.num_rows)
        if low < high:
            whole = (low, high) == (0, batch.num_rows)
            yield position + low, batch if whole else batch.slice(low, high - low)


def _with_ids(batch: pa.RecordBatch, file: DataFile, position: int) -> pa.RecordBatch:
    """Fill in the row ids and sequence numbers that the file does not hold itself."""
    for at, name in enumerate(batch.schema.names):
        if name == ROW_ID.name:
            batch = batch.set_column(at, batch.schema.field(at), _row_ids(batch.column(at), file, position))
        elif name == SEQUENCE_NUMBER.name:
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


def _side_by_side(
    sources: Sequence[Iterator[tuple[int, pa.RecordBatch]]], row_count: int
) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    """Cut streams of the same rows into batches that end at the same positions."""
    if row_count == 0:
        return
    current = [next(source)[1] for source in sources]
    position = 0
    while position < row_count:
        rows = min(batch.num_rows for batch in current)
        yield position, [batch.slice(0, rows) for batch in current]
        position += rows
        for at, source in enumerate(sources):
            left = current[at].slice(rows)
            current[at] = left if left.num_rows or position >= row_count else next(source)[1]


def _batch(columns: Sequence[pa.Array], names: Sequence[str], rows: int) -> pa.RecordBatch:
    if not columns:
        return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["none"]).select([])
    return pa.RecordBatch.from_arrays(list(columns), names=list(names))

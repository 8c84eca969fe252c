"""One data file as batches of today's schema; keyed files of a bucket."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import CorruptTableError, NotFoundError, pluralize
from lakewright.formats.deletion_vectors import Positions, live_mask, read_deletion_vector
from lakewright.formats.file_format import FileReader
from lakewright.formats.format_registry import file_format_of, load_format, open_reader
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DeletionFile, Deletions
from lakewright.read.file_evolution import Evolution, plan_evolution
from lakewright.read.manifest_scan import FileSchemas
from lakewright.read.pruning import devolve, holds_ids, written_fields
from lakewright.spec.arrow_take import filter_rows
from lakewright.spec.manifest import APPEND, DataFile, DeletionRange
from lakewright.spec.predicate import FALSE, TRUE, Predicate, simplify
from lakewright.spec.scalars import to_array
from lakewright.spec.system_columns import INSERT, KEYED_FIELDS, LEVEL, ROW_ID, SEQUENCE_NUMBER, VALUE_KIND
from lakewright.spec.types import AtomicType, DataField
from lakewright.storage.concurrency import map_concurrently
from lakewright.storage.storage import Storage

# ---- One data file ---------------------------------------------------------------------------------------------------
# Invariant: a batch comes with the position of its first row in the file, so that deletion vectors fit
# whatever was skipped; a file that does not hold what the manifest says is an error that names it; a file is closed
# when its last batch was taken, or when the reader leaves.


@dataclass(frozen=True, slots=True)
class BucketReader:
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
        written, skip = self._written_columns(file, residual)
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
        written, skip = self._written_columns(file, residual)
        if skip == FALSE:
            return ()
        reader = self._open(file, plan_evolution(written, fields))
        try:
            # Other writers may end a file with a row group that has no rows.
            return tuple(start for start in reader.starts(None if skip == TRUE else skip) if start < file.row_count)
        finally:
            reader.close()

    def _written_columns(self, file: DataFile, residual: Predicate) -> tuple[tuple[DataField, ...], Predicate]:
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

    def path_of(self, file: DataFile) -> str:
        """Return the path of a file of the bucket."""
        return self.store.layout.data_file(self.store.partition_directory(self.partition), self.bucket, file)

    @contextmanager
    def opened_input(self, file: DataFile, *, end_bytes: int) -> Iterator[tuple[BinaryIO, str]]:
        """Open the bytes of a file, of which the last ones are read first; return them with the path of the file."""
        path = self.path_of(file)
        if self.schemas.opened is not None:
            self.schemas.opened[file.file_name] = file.file_size
        with self.store.storage.open_input(path, size=file.file_size, end_bytes=end_bytes) as source:
            yield source, path

    def check_row_count(self, file: DataFile, rows: int, path: str) -> None:
        """Raise CorruptTableError unless a file holds as many rows as the manifest says."""
        if rows != file.row_count:
            raise CorruptTableError(
                f"{self.store.name}: the file {path} holds {pluralize(rows, 'row')} where the manifest says "
                f"{file.row_count}; restore it from a copy",
                table=self.store.name,
                path=path,
            )

    def _open(self, file: DataFile, evolution: Evolution) -> FileReader:
        path = self.path_of(file)
        file_format = file_format_of(file.file_name)
        fields = self.schemas.fields_of(file.schema_id)
        first = load_format(file_format).first_bytes(file.file_size, file.row_count, fields)
        if self.schemas.opened is not None:
            self.schemas.opened[file.file_name] = file.file_size
        source = self.store.storage.open_input(path, size=file.file_size, end_bytes=first)
        try:
            reader = open_reader(file_format, source, path=path, size=file.file_size, fields=evolution.file_fields)
        except BaseException:
            source.close()
            raise
        try:
            self.check_row_count(file, reader.row_count, path)
        except CorruptTableError:
            reader.close()
            raise
        return reader

    def deleted_positions(self, file: DataFile, deletion: DeletionFile) -> Positions | None:
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
    """Yield the rows whose positions are within a range, and read no further."""
    for position, batch in rows:
        if position >= within.stop:
            return
        low, high = max(within.start - position, 0), min(within.stop - position, batch.num_rows)
        if low < high:
            is_all = (low, high) == (0, batch.num_rows)
            yield position + low, batch if is_all else batch.slice(low, high - low)


@contextmanager
def explain_missing_files(store: TableStore, snapshot_id: int) -> Iterator[None]:
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


# ---- Files of a primary-key table ------------------------------------------------------------------------------------
# Rows come in file order, in chunks of about a row group; the values of partition columns come from the manifest,
# rows that a deletion vector deletes are left out before rows are merged, and nothing is read before the first chunk
# is asked for. Row kinds stay, also of rows that delete: the merge needs them.

POSITION: Final = DataField(-2, "_POSITION", AtomicType("BIGINT", nullable=False))  # in memory alone
_DECODED_TIMES = 3  # how much larger rows mostly are in memory than in a file
_CHUNK_ROWS_MIN = 1024


@dataclass(frozen=True, slots=True)
class KeyedFiles:
    """Reads the files of one bucket of a partition; it can be shared by threads.

    `columns` are columns of the table, in schema order. Chunks have about `chunk_bytes` at most, if that is given: a
    merge of many runs holds a chunk of each. Without `exact` the system columns are only good enough to merge runs
    whose sequence numbers do not overlap: every row of a file has the file's highest number, and every add is an
    insert. Of files that are named in `ranges` only the rows at these positions are read.
    """

    store: TableStore
    schemas: FileSchemas
    partition: bytes
    bucket: int
    columns: tuple[DataField, ...]
    deletions: Deletions = field(default_factory=dict)
    chunk_bytes: int | None = None
    exact: bool = True
    ranges: Mapping[str, range] = field(default_factory=dict)

    def read(
        self, file: DataFile, *, skip: Predicate = TRUE, level: bool = False, positions: bool = False
    ) -> Generator[pa.Table]:
        """Yield the live rows of a file, with `_LEVEL` and, last, `_POSITION` (int64) where they are asked for.

        Rows that cannot fulfil `skip` may be left out. What hides other rows of its key must not be left out, so
        where rows are merged `skip` may ask for nothing but columns of the key.
        """
        keys = self.store.schema.partition_keys
        known = dict(zip(keys, self.store.partition_values(self.partition), strict=True))
        constants = self._system_constants(file) | {
            column.name: to_array([known[column.name]], column.type)[0]
            for column in self.columns
            if column.name in known
        }
        names = [*(f.name for f in KEYED_FIELDS), *([LEVEL.name] if level else []), *(f.name for f in self.columns)]
        stored = [column for column in (*KEYED_FIELDS, *self.columns) if column.name not in constants]
        files = BucketReader(self.store, self.schemas, self.partition, self.bucket)
        deletion = self.deletions.get((self.partition, file.file_name))
        deleted = None if deletion is None else files.deleted_positions(file, deletion)
        within = self.ranges.get(file.file_name)
        sizes = self._chunk_rows(file)
        for position, batch in files.rows(file, stored, simplify(skip, known), batch_rows=sizes, within=within):
            rows = _complete_columns(batch, names, constants)
            if positions:
                here = np.arange(position, position + batch.num_rows, dtype=np.int64)
                rows = rows.append_column(POSITION.name, pa.array(here))
            if deleted is not None:
                live = live_mask(deleted, position, batch.num_rows)
                rows = filter_rows(rows, pa.array(live), int(np.count_nonzero(live)))
            if rows.num_rows:
                yield rows

    def read_run(
        self, files: Sequence[DataFile], *, skip: Predicate = TRUE, level: bool = False, positions: bool = False
    ) -> Generator[pa.Table]:
        """Yield the live rows of files one after the other, as those of one sorted run."""
        for file in files:
            yield from self.read(file, skip=skip, level=level, positions=positions)

    def _chunk_rows(self, file: DataFile) -> int | None:
        """Return how many rows a chunk may have; None: as many as the reader of the format gives."""
        if self.chunk_bytes is None or not file.row_count:
            return None
        rows = self.chunk_bytes * file.row_count // (_DECODED_TIMES * max(1, file.file_size))
        return None if rows >= file.row_count else max(_CHUNK_ROWS_MIN, rows)

    def _system_constants(self, file: DataFile) -> dict[str, pa.Scalar]:
        """Return the system columns that all rows of a file have in common, and that need not be read."""
        constants = {LEVEL.name: pa.scalar(file.level, pa.int8())}
        if not self.exact:
            constants[SEQUENCE_NUMBER.name] = pa.scalar(file.max_sequence_number, pa.int64())
            if file.delete_row_count == 0:
                constants[VALUE_KIND.name] = pa.scalar(INSERT, pa.int8())
        if file.file_source == APPEND and self.store.options.sequence_snapshot_ordering:
            # All rows of a commit have the number that their snapshot was given.
            constants[SEQUENCE_NUMBER.name] = pa.scalar(file.min_sequence_number, pa.int64())
        return constants


def begin_runs(storage: Storage, runs: Sequence[Iterator[pa.Table]]) -> list[Iterator[pa.Table]]:
    """Return runs of which the first chunks are read concurrently where the storage is remote.

    A merge holds a chunk of each run anyway, and begins with all of them.
    """
    if storage.requests_at_once == 1:
        return list(runs)
    firsts = map_concurrently(storage, lambda run: next(run, None), runs)
    return [iter(()) if first is None else chain([first], run) for first, run in zip(firsts, runs, strict=True)]


def _complete_columns(batch: pa.RecordBatch, names: Sequence[str], constants: Mapping[str, pa.Scalar]) -> pa.Table:
    """Return a batch as a table of these columns; those that it lacks are constants."""
    stored = set(batch.schema.names)
    columns = [batch.column(name) if name in stored else pa.repeat(constants[name], batch.num_rows) for name in names]
    return pa.table(columns, names=list(names))

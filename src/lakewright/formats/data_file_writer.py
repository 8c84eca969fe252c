"""Rolling data files with their recorded facts; the plan of their format, size and statistics."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import LakewrightError
from lakewright.formats.blob_files import NULL, PLACEHOLDER, BlobFileWriter
from lakewright.formats.blob_values import NO_STORAGES, BlobStorages, open_value
from lakewright.formats.file_format import Encoded, Encoder, FileWriter, OutputFile, WriteOptions, WrittenFile
from lakewright.formats.format_registry import open_encoder, open_writer
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.binary_row import encode_row
from lakewright.spec.blob_descriptors import BlobDescriptor, are_descriptors
from lakewright.spec.column_stats import COUNTS, FULL, NONE, ColumnStats, StatsMode, to_simple_stats, truncate
from lakewright.spec.file_formats import FORMAT_RULES
from lakewright.spec.manifest import APPEND, EMPTY_ROW, EMPTY_STATS, DataFile, SimpleStats
from lakewright.spec.option_values import ChangelogProducer
from lakewright.spec.scalars import from_scalar
from lakewright.spec.system_columns import ROW_ID, SEQUENCE_NUMBER, VALUE_KIND, stored_fields
from lakewright.spec.table_schema import KEY_PREFIX, TableSchema
from lakewright.spec.types import DataField, with_nullable

# ---- What a rewritten file keeps of its input ------------------------------------------------------------------------
# Invariant: a row keeps its id and its sequence number. With row tracking the new file stores both, in
# columns of their own. With data evolution ids are not stored: they count up from the first id of a file. So deleted
# rows are written too, and the new files get deletion vectors for them. Elsewhere deleted rows are left out.


def preserved_fields(schema: TableSchema, *, changes: bool = False) -> tuple[DataField, ...]:
    """Return the system columns that are written with rows which move to another file; none without row tracking.

    With `changes` some of the rows changed: their sequence number is null, and becomes that of the snapshot.
    """
    options = schema.table_options
    if not options.row_tracking_enabled or options.data_evolution_enabled:
        return ()
    number = replace(SEQUENCE_NUMBER, type=with_nullable(SEQUENCE_NUMBER.type, changes))
    return ROW_ID, number


def cap_sequence_numbers(files: Iterable[DataFile], highest: int) -> tuple[DataFile, ...]:
    """Limit the sequence numbers of new files, so that they stay below those of later files of the bucket.

    Some writers give all rows of a file one number, so that the rows have fewer numbers than there are rows.
    """
    return tuple(
        replace(
            file,
            min_sequence_number=min(file.min_sequence_number, highest),
            max_sequence_number=min(file.max_sequence_number, highest),
        )
        for file in files
    )


# ---- The plan of data files ------------------------------------------------------------------------------------------

_ROWS_MAX = (1 << 63) - 1
_EXTENSIONS = {"zstd": "zst", "zstandard": "zst", "gzip": "gz", "bzip2": "bz2"}
_KEY_STATS = StatsMode("truncate", 128)  # of key columns; no option changes it


def written_fields(schema: TableSchema, write_cols: Collection[str] | None) -> tuple[DataField, ...]:
    """Return the columns of a write that names some of them, in schema order; all columns for None."""
    return schema.fields if write_cols is None else tuple(f for f in schema.fields if f.name in write_cols)


@dataclass(frozen=True, slots=True)
class FilePlan:
    """What all data files of one writer have in common: format, columns, sizes, names, statistics."""

    fields: tuple[DataField, ...]  # of the files, in file order
    file_format: str
    options: WriteOptions
    schema_id: int
    file_bytes_max: int
    file_rows_max: int
    dense_stats: bool
    numbered_at_commit: bool = False  # row tracking: the committer assigns the sequence numbers
    write_cols: tuple[str, ...] | None = None  # the columns of `fields` where these are not all of the table's
    prefix: str = "data-"
    suffix: str = ""
    level: int = 0
    source: int = APPEND
    columns: KeyedColumns | None = None  # of a primary-key table
    later: tuple[tuple[str, WriteOptions], ...] = ()  # formats that a compaction may give the rows of these files
    side_plans: tuple[FilePlan, ...] = ()  # of the BLOB and VECTOR columns that come with the rows

    @classmethod
    def of_schema(cls, schema: TableSchema, write_cols: tuple[str, ...] | None = None) -> FilePlan:
        """Return the plan of an append table's files; `write_cols` names the columns of files that do not have all.

        Columns with files of their own come with the rows and are written to these.
        """
        fields = schema.fields if write_cols is None else tuple(f for f in schema.fields if f.name in write_cols)
        blobs, vectors = schema.blob_file_fields(fields), schema.vector_file_fields(fields)
        normal = tuple(field for field in fields if field not in (*blobs, *vectors))
        plan = cls._of_options(schema, normal, level=0)
        side_plans = tuple(cls.of_blobs(schema, field) for field in blobs)
        if vectors:
            side_plans += (cls.of_vectors(schema, vectors),)
        names = tuple(field.name for field in normal) if side_plans or write_cols is not None else None
        return replace(plan, write_cols=names, side_plans=side_plans)

    @classmethod
    def of_blobs(cls, schema: TableSchema, field: DataField) -> FilePlan:
        """Return the plan of the `.blob` files of a column."""
        plan = cls._of_options(schema, (field,), level=0)
        size = schema.table_options.blob_target_file_size or plan.file_bytes_max
        return replace(plan, write_cols=(field.name,), suffix=".blob", file_bytes_max=size, file_rows_max=_ROWS_MAX)

    @classmethod
    def of_vectors(cls, schema: TableSchema, fields: Sequence[DataField], file_format: str | None = None) -> FilePlan:
        """Return the plan of the `.vector.` files of some columns, which are in one file; they have no statistics."""
        plan = cls._of_options(schema, tuple(fields), level=0)
        options = schema.table_options
        name = file_format or options.vector_file_format or plan.file_format
        return replace(
            plan,
            file_format=name,
            options=replace(plan.options, stats=(NONE,) * len(fields)),
            write_cols=tuple(field.name for field in fields),
            suffix=f".vector.{name}",
            file_bytes_max=options.vector_target_file_size or plan.file_bytes_max,
            file_rows_max=_ROWS_MAX,
            dense_stats=True,
        )

    @classmethod
    def for_copied_rows(cls, schema: TableSchema, ids: Sequence[DataField] = (), *, source: int) -> FilePlan:
        """Return the plan of files for rows of an append table that are copied from other files.

        `ids` are the system columns that the rows keep; without them row tracking would give the rows new numbers.
        """
        plan = cls._of_options(schema, (*schema.fields, *ids), level=0)
        return replace(plan, write_cols=tuple(f.name for f in plan.fields) if ids else None, source=source)

    def without(self, fields: Collection[DataField]) -> FilePlan:
        """Return the plan of files that lack some columns."""
        if not fields:
            return self
        kept = [at for at, field in enumerate(self.fields) if field not in fields]
        return replace(
            self,
            fields=tuple(self.fields[at] for at in kept),
            options=replace(self.options, stats=tuple(self.options.stats[at] for at in kept)),
            write_cols=tuple(self.fields[at].name for at in kept),
        )

    @classmethod
    def for_keyed_rows(
        cls, schema: TableSchema, *, level: int, source: int = APPEND, changelog: bool = False
    ) -> FilePlan:
        """Return the plan of a primary-key table's data files of one level, or of its changelog files.

        Files are thin by default: they have no copies of the key columns, because every reader takes the key from the
        columns of the table.
        """
        options = schema.table_options
        fields = stored_fields(schema, thin=options.data_file_thin_mode)
        plan = cls._of_options(schema, fields, level=level, changelog=changelog)
        modes = plan.options.stats[-len(schema.fields) :]
        columns = KeyedColumns(schema.fields, schema.trimmed_primary_key_fields, modes)
        return replace(
            plan,
            options=replace(plan.options, stats=tuple(columns.mode_of(field) for field in plan.fields)),
            file_rows_max=plan.file_rows_max if source == APPEND else _ROWS_MAX,
            source=source,
            level=level,
            columns=columns,
            later=() if level or changelog else cls._later_formats(schema, plan),
        )

    @classmethod
    def _of_options(
        cls, schema: TableSchema, fields: tuple[DataField, ...], *, level: int, changelog: bool = False
    ) -> FilePlan:
        options = schema.table_options
        file_format = options.file_format_per_level.get(level) or options.file_format
        prefix = options.data_file_prefix
        write = WriteOptions.from_table_options(options, fields, level=level)
        if changelog:
            file_format = options.changelog_file_format or file_format
            prefix = options.changelog_file_prefix
            write = replace(write, compression=options.changelog_file_compression or write.compression)
        if file_format in FORMAT_RULES and not FORMAT_RULES[file_format].has_statistics:
            write = replace(write, stats=(NONE,) * len(write.stats))
        with_compression = options.file_suffix_include_compression
        return cls(
            fields=fields,
            file_format=file_format,
            options=write,
            schema_id=schema.id,
            file_bytes_max=options.data_file_size(has_primary_key=bool(schema.primary_keys)),
            file_rows_max=max(1, options.target_file_row_num),
            dense_stats=options.metadata_stats_dense_store,
            numbered_at_commit=options.row_tracking_enabled,
            prefix=prefix,
            suffix=_suffix(file_format, write.compression, with_compression=with_compression),
        )

    @classmethod
    def _later_formats(cls, schema: TableSchema, plan: FilePlan) -> tuple[tuple[str, WriteOptions], ...]:
        """Return the other formats, with their options, that a compaction writes rows of level 0 in."""
        options = schema.table_options
        differ = options.file_format_per_level or options.file_compression_per_level
        levels = range(1, options.level_count if differ else 1)
        plans = [cls._of_options(schema, plan.fields, level=level) for level in levels]
        if options.changelog_producer is not ChangelogProducer.NONE:
            plans += [cls._of_options(schema, plan.fields, level=level, changelog=True) for level in (0, *levels)]
        found = {(other.file_format, other.options.compression): other.options for other in plans}
        found.pop((plan.file_format, plan.options.compression), None)
        return tuple((file_format, write) for (file_format, _), write in found.items())

    def file_name(self, stem: str) -> str:
        """Return the name of a file from a stem that no other file has."""
        return f"{self.prefix}{stem}{self.suffix}"


def _suffix(file_format: str, compression: str, *, with_compression: bool) -> str:
    if not with_compression or compression in {"none", "null", "uncompressed"}:
        return f".{file_format}"
    return f".{_EXTENSIONS.get(compression, compression)}.{file_format}"


@dataclass(frozen=True, slots=True)
class KeyedColumns:
    """The columns of a primary-key table, and the statistics that its data files record of them."""

    fields: tuple[DataField, ...]
    key: tuple[DataField, ...]
    modes: tuple[StatsMode, ...]  # of the value statistics, one per field

    def mode_of(self, stored: DataField) -> StatsMode:
        """Return which statistics the encoder collects of a column of the file.

        The bounds of key columns are recorded twice, truncated to different lengths, so they are collected in full.
        """
        if stored.name == SEQUENCE_NUMBER.name or stored in self.key:
            return FULL
        return self.modes[self.fields.index(stored)] if stored in self.fields else NONE

    def key_stats(self, stats: Sequence[ColumnStats | None]) -> SimpleStats:
        """Return the statistics of the key columns, from those of all columns of the table."""
        of_key = [stats[self.fields.index(field)] for field in self.key]
        return to_simple_stats([_reduce_stats(column, _KEY_STATS) for column in of_key], self.key, dense=False)[0]

    def value_stats(
        self, stats: Sequence[ColumnStats | None], *, dense: bool
    ) -> tuple[SimpleStats, tuple[str, ...] | None]:
        """Return the statistics of the columns of the table."""
        reduced = [_reduce_stats(column, mode) for column, mode in zip(stats, self.modes, strict=True)]
        return to_simple_stats(reduced, self.fields, dense=dense)


def _reduce_stats(stats: ColumnStats | None, mode: StatsMode) -> ColumnStats | None:
    """Return the part of the statistics that a mode includes."""
    if stats is None or mode == NONE:
        return None
    if mode == COUNTS:
        return ColumnStats(None, None, stats.null_count)
    return truncate(stats, mode.length) if mode.kind == "truncate" else stats


# ---- Rolling files ---------------------------------------------------------------------------------------------------
# A file is closed when it has reached the target size on disk or the target number of rows, and the next one begins
# with the next row. Invariant: rows are in files in the order in which they were given, a file is listed in `files`
# only after its last byte is durable, and a file without rows is never opened.
#
# `write` does all of it. It consists of three steps, so that several threads can work on one file: `next_piece`
# decides how many rows go into which file, `Piece.encode` makes their bytes, `append` writes these to the file.
# Several pieces may be encoded at the same time; the other two steps take pieces one by one in the order of the rows,
# in any thread.
#
# Files of a primary-key table take keyed tables (`spec.system_columns`) sorted by key. Readers rely on three facts
# without a check: the first and the last key, the number of deletes, and the range of the sequence numbers.

_NEARLY_FULL = 0.95  # a file this close to its target is closed: one more row group would be tiny or too much
_SHRINK_MIN = 0.02  # some formats write their bytes late, so that a smaller ratio is an error of measurement


class SequenceNumbers:
    """The sequence numbers of one bucket, assigned to files in the order in which they are finished."""

    def __init__(self, first: int) -> None:
        self._next = first
        self._lock = threading.Lock()

    def take(self, count: int) -> tuple[int, int]:
        """Return the first and the last of the next `count` numbers."""
        with self._lock:
            first = self._next
            self._next += count
        return first, first + count - 1


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file to be written: its name, its full path and the output for its bytes."""

    name: str
    path: str
    output: OutputFile
    external_path: str | None = None  # the same path, if it is outside the table


@dataclass(frozen=True, slots=True)
class FinishedFile:
    """A file whose bytes are durable."""

    path: str
    facts: DataFile


class _KeyRange:
    """The first and last key and the number of deletes of a file of a primary-key table."""

    def __init__(self, columns: KeyedColumns) -> None:
        self._key = columns.key
        self._first: bytes | None = None
        self._last: pa.Table | None = None  # the last row
        self.delete_count = 0

    def add(self, rows: pa.Table) -> None:
        """Take rows into account, in file order."""
        if self._first is None:
            self._first = self._encode_key(rows, 0)
        last = rows.num_rows - 1
        self._last = rows.slice(last, 1)
        kinds = rows.column(VALUE_KIND.name).to_numpy()
        self.delete_count += int(np.count_nonzero(kinds & 1))  # -U and -D are the odd ones

    def bounds(self) -> tuple[bytes, bytes]:
        """Return the first and the last key."""
        if self._first is None:
            return EMPTY_ROW, EMPTY_ROW
        return self._first, self._encode_key(self._last, 0)

    def _encode_key(self, rows: pa.Table, row: int) -> bytes:
        values = [from_scalar(rows.column(field.name)[row], field.type) for field in self._key]
        return encode_row(values, [field.type for field in self._key])


@dataclass(slots=True, eq=False)
class _File:
    """The state of one file, from its first piece until it is finished."""

    encoder: Encoder
    later: tuple[Encoder, ...]  # of the files that a compaction makes of this one
    keys: _KeyRange | None
    rows: int = 0  # of all pieces, appended or not
    pending: int = 0  # pieces that are not appended yet
    expected_bytes: float = 0.0  # an estimate of the size of the pending pieces on disk
    memory: int = 0  # the size of the appended rows in memory, to estimate the size of others on disk
    new: NewFile | None = None
    writer: FileWriter | None = None

    @property
    def bytes(self) -> int:
        """How many bytes are written."""
        return 0 if self.writer is None else self.writer.tell()


@dataclass(slots=True, eq=False)
class EncodedRows:
    """Consecutive rows of one file: the rows first, their bytes after `encode`."""

    rows: pa.Table  # as they were given; None once they are not needed any more
    stored: pa.Table  # with the columns of the file; None once encoded
    apart: pa.Table  # the columns with files of their own
    file: _File
    memory: int
    expected_bytes: float
    encoded: Encoded | None = field(default=None)

    def encode(self) -> Encoded:
        """Encode the rows; any thread may call it. Rows that a later level cannot hold are refused now."""
        for later in self.file.later:
            later.check(self.stored)
        self.encoded = self.file.encoder.encode(self.stored)
        self.stored = None
        if self.file.keys is None:
            self.rows = None
        return self.encoded


class RollingFile:
    """The open data file of one bucket, and those that were finished before it.

    `numbers` are the sequence numbers of an append table's bucket; the rows of a primary-key table have their own.
    Columns with files of their own are written to these. Such files end with the file of the other columns, and follow
    it in `files`: by this order the commit gives them their row ids.
    """

    def __init__(
        self,
        plan: FilePlan,
        new_file: Callable[[FilePlan], NewFile],
        numbers: SequenceNumbers | None,
        clock_ms: Callable[[], int],
        storages: BlobStorages = NO_STORAGES,
    ) -> None:
        """Write files of a plan; `storages` hold what the descriptors in BLOB columns refer to."""
        self.files: list[FinishedFile] = []
        self._side_files: list[RollingBlobFile | RollingFile] = [
            RollingBlobFile(side, new_file, clock_ms, storages)
            if side.suffix == ".blob"
            else RollingFile(side, new_file, None, clock_ms)
            for side in plan.side_plans
        ]
        self._plan = plan
        self._schema = to_arrow_schema(plan.fields)
        self._new_file = new_file
        self._numbers = numbers
        self._clock_ms = clock_ms
        self._lock = threading.Lock()  # for the state that `next_piece` and `append` both change
        self._next: _File | None = None  # the file of the next rows
        self._open: _File | None = None
        self._shrink: float | None = None  # how much smaller rows of the last file were on disk than in memory

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns of the files."""
        return self._plan.fields

    @property
    def path(self) -> str:
        """The path of the open file, for messages."""
        return "" if self._open is None or self._open.new is None else self._open.new.path

    def write(self, rows: pa.Table) -> None:
        """Append rows as row groups, closing files as they fill."""
        start = 0
        while start < rows.num_rows:
            piece = self.next_piece(rows.slice(start))
            start += piece.rows.num_rows
            piece.encode()
            self.append(piece)

    def next_piece(self, rows: pa.Table) -> EncodedRows:
        """Return the first of the rows as a piece of a file: as many as it takes, and as are best encoded together."""
        with self._lock:
            if self._next is None or self._is_full(self._next):
                plan = self._plan
                encoder = open_encoder(plan.file_format, plan.fields, plan.options)
                later = tuple(open_encoder(name, plan.fields, options) for name, options in plan.later)
                self._next = _File(encoder, later, None if plan.columns is None else _KeyRange(plan.columns))
            file = self._next
            normal = rows.select(self._schema.names) if self._side_files else rows
            part = normal.slice(0, self._room(file, normal))
            part = part.slice(0, file.encoder.piece_rows(part))
            apart = rows.slice(0, part.num_rows) if self._side_files else None
            memory = part.nbytes
            file.rows += part.num_rows
            file.pending += 1
            expected = memory * self._shrink_of(file)
            file.expected_bytes += expected
        return EncodedRows(
            part, part if file.keys is None else self._with_stored_columns(part), apart, file, memory, expected
        )

    def cut(self, filled: float) -> None:
        """Let the next rows begin a new file, if the current one has this part of the target size or of the rows."""
        with self._lock:
            file, plan = self._next, self._plan
            if file is not None:
                size = file.bytes + file.expected_bytes
                if size >= filled * plan.file_bytes_max or file.rows >= filled * plan.file_rows_max:
                    self._next = None

    def append(self, piece: EncodedRows) -> None:
        """Write the bytes of the next piece to its file."""
        file = piece.file
        if piece.encoded is None:
            raise LakewrightError("a piece of a data file must be encoded before it is appended")
        if self._open is not file:
            self.finish()
        for side in self._side_files:
            side.write(piece.apart.select([field.name for field in side.fields]))
        self._open_file(file).append(piece.encoded)
        if file.keys is not None:
            file.keys.add(piece.rows)
        with self._lock:
            file.memory += piece.memory
            file.pending -= 1
            file.expected_bytes -= piece.expected_bytes
            self._shrink = self._shrink_of(file)
            full = file.pending == 0 and self._is_full(file)
            if full and self._next is file:
                self._next = None
        if full:
            self.finish()

    def finish(self) -> None:
        """Close the open file, if there is one; all of its pieces must be appended."""
        file = self._open
        if file is None or file.writer is None or file.new is None:
            return
        written = file.writer.close()
        self.files.append(FinishedFile(file.new.path, self._facts(file, file.new, written)))
        self._forget(file)
        for side in self._side_files:
            side.finish()
            self.files += side.files
            side.files.clear()

    def discard(self) -> None:
        """Abandon the open file; nothing of it stays."""
        file = self._open
        self._forget(file)
        if file is not None and file.writer is not None:
            file.writer.discard()
        for side in self._side_files:
            side.discard()
            self.files += side.files  # the caller deletes them
            side.files.clear()

    def _open_file(self, file: _File) -> FileWriter:
        if file.writer is None:
            self._open = file
            file.new = self._new_file(self._plan)
            try:
                file.writer = open_writer(
                    self._plan.file_format, file.new.output, self._plan.fields, self._plan.options
                )
            except Exception:
                file.new.output.discard()
                raise
        return file.writer

    def _with_stored_columns(self, rows: pa.Table) -> pa.Table:
        """Return keyed rows with the columns of the file; copies of the key are the same memory."""
        columns = [rows.column(field.name.removeprefix(KEY_PREFIX)) for field in self._plan.fields]
        return pa.Table.from_arrays(columns, schema=self._schema)

    def _forget(self, file: _File | None) -> None:
        with self._lock:
            self._open = None
            if self._next is file:
                self._next = None

    def _shrink_of(self, file: _File) -> float:
        """Return an estimate of how many bytes a byte of rows in memory takes on disk."""
        if file.memory:
            return max(file.bytes / file.memory, _SHRINK_MIN)
        return 1.0 if self._shrink is None else self._shrink

    def _room(self, file: _File, rows: pa.Table) -> int:
        """Return how many of some rows the file should take in one row group."""
        most: int = min(rows.num_rows, self._plan.file_rows_max - file.rows)
        left = float(self._plan.file_bytes_max)
        if file.rows:
            # The bytes on disk so far show how much smaller rows become; the first rows count with their full size.
            left = (left - file.bytes - file.expected_bytes) / self._shrink_of(file)
        return max(1, min(most, int(left / max(rows.nbytes / rows.num_rows, 0.001))))

    def _is_full(self, file: _File) -> bool:
        expected = file.bytes + file.expected_bytes
        return file.rows >= self._plan.file_rows_max or expected >= self._plan.file_bytes_max * _NEARLY_FULL

    def _facts(self, file: _File, new: NewFile, written: WrittenFile) -> DataFile:
        plan, keys = self._plan, file.keys
        if plan.columns is None:
            key_stats = EMPTY_STATS
            value_stats, stats_cols = to_simple_stats(written.stats, plan.fields, dense=plan.dense_stats)
        else:
            of_columns = written.stats[-len(plan.columns.fields) :]
            key_stats = plan.columns.key_stats(of_columns)
            value_stats, stats_cols = plan.columns.value_stats(of_columns, dense=plan.dense_stats)
        min_key, max_key = (EMPTY_ROW, EMPTY_ROW) if keys is None else keys.bounds()
        first, last = self._sequence_range(written)
        return DataFile(
            file_name=new.name,
            file_size=written.size,
            row_count=written.row_count,
            min_key=min_key,
            max_key=max_key,
            key_stats=key_stats,
            value_stats=value_stats,
            min_sequence_number=first,
            max_sequence_number=last,
            schema_id=plan.schema_id,
            level=plan.level,
            extra_files=(),
            creation_time=self._clock_ms(),
            delete_row_count=0 if keys is None else keys.delete_count,
            embedded_file_index=None,
            file_source=plan.source,
            value_stats_cols=stats_cols,
            external_path=new.external_path,
            first_row_id=None,
            write_cols=plan.write_cols,
        )

    def _sequence_range(self, written: WrittenFile) -> tuple[int, int]:
        """Return the least and the greatest sequence number: those of the rows, or the next ones of the bucket."""
        at = next((at for at, field in enumerate(self._plan.fields) if field.id == SEQUENCE_NUMBER.id), None)
        if at is not None:
            return self._numbers_of_rows(written.stats[at])
        if self._numbers is None or self._plan.numbered_at_commit:
            return 0, 0
        return self._numbers.take(written.row_count)

    def _numbers_of_rows(self, stats: ColumnStats | None) -> tuple[int, int]:
        """Return the range of the sequence numbers in a file; the commit gives the snapshot's to rows without one."""
        if stats is not None and stats.null_count and self._plan.columns is None:
            return stats.min if isinstance(stats.min, int) else 0, 0
        if stats is None or not isinstance(stats.min, int) or not isinstance(stats.max, int):
            raise LakewrightError(f"the encoder found no sequence numbers in {self.path}")
        return stats.min, stats.max


class RollingBlobFile:
    """The open `.blob` file of one column, and those that were finished before it.

    A value that is a descriptor stands for the bytes that it refers to, which are copied in chunks.
    """

    def __init__(
        self,
        plan: FilePlan,
        new_file: Callable[[FilePlan], NewFile],
        clock_ms: Callable[[], int],
        storages: BlobStorages,
    ) -> None:
        self.files: list[FinishedFile] = []
        self._plan = plan
        self._new_file = new_file
        self._clock_ms = clock_ms
        self._storages = storages
        self._new: NewFile | None = None
        self._writer: BlobFileWriter | None = None

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The column of the files."""
        return self._plan.fields

    def write(self, rows: pa.Table, kept: npt.NDArray[np.bool_] | None = None) -> None:
        """Append the values of the rows' only column; those that are `kept` are in older files."""
        for chunk in rows.column(0).chunks:
            marks = None if kept is None else kept[: len(chunk)].tolist()
            kept = None if kept is None else kept[len(chunk) :]
            self._write_chunk(chunk, marks)

    def _write_chunk(self, values: pa.Array, kept: Sequence[bool] | None) -> None:
        refers = pc.fill_null(are_descriptors(values), False).to_pylist()  # noqa: FBT003 - Arrow's signature
        for row, value in enumerate(values):
            writer = self._open_file()
            if kept is not None and kept[row]:
                writer.add_absent(PLACEHOLDER)
            elif not value.is_valid:
                writer.add_absent(NULL)
            elif refers[row]:
                one = BlobDescriptor.deserialize(value.as_py())
                writer.add(open_value(one.uri, one.offset, one.length, self._storages))
            else:
                writer.add((memoryview(value.as_buffer()),))
            if writer.tell() >= self._plan.file_bytes_max:
                self.finish()

    def finish(self) -> None:
        """Close the open file, if there is one."""
        if self._new is None or self._writer is None:
            return
        rows, size = self._writer.row_count, self._writer.close()
        facts = DataFile(
            file_name=self._new.name,
            file_size=size,
            row_count=rows,
            min_key=EMPTY_ROW,
            max_key=EMPTY_ROW,
            key_stats=EMPTY_STATS,
            value_stats=EMPTY_STATS,
            min_sequence_number=0,
            max_sequence_number=0,
            schema_id=self._plan.schema_id,
            level=0,
            extra_files=(),
            creation_time=self._clock_ms(),
            delete_row_count=0,
            embedded_file_index=None,
            file_source=self._plan.source,
            value_stats_cols=(),
            external_path=self._new.external_path,
            first_row_id=None,
            write_cols=self._plan.write_cols,
        )
        self.files.append(FinishedFile(self._new.path, facts))
        self._new = self._writer = None

    def discard(self) -> None:
        """Abandon the open file; nothing of it stays."""
        if self._writer is not None:
            self._writer.discard()
        self._new = self._writer = None

    def _open_file(self) -> BlobFileWriter:
        if self._writer is None:
            self._new = self._new_file(self._plan)
            self._writer = BlobFileWriter(self._new.output)
        return self._writer


def wall_clock_ms() -> int:
    """Return the local wall clock in milliseconds as if it were UTC: the format records creation times in this way."""
    now = time.time()
    return int(now * 1000) + (time.localtime(now).tm_gmtoff or 0) * 1000

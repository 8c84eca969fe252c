"""Rolling data files: tables of one bucket in, finished files with their `DataFile` facts out.

A file is closed once it reached the target size on disk or the target number of rows, and the next one begins with the
next row. Invariant: a file is listed in `files` only after its last byte is durable, and a file without rows is never
opened. One thread at a time may use a `RollingFile`; only the sequence numbers of a bucket are shared.

Files of a primary-key table take keyed tables (`spec.keyed`) sorted by key. Whoever reads them trusts three facts that
nobody checks again: the first and the last key, the number of deletes, and the range of the sequence numbers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lakewright.errors import LakewrightError
from lakewright.formats.base import FileWriter, Output, WriteOptions, WrittenFile
from lakewright.formats.open import open_writer
from lakewright.spec.arrow import to_arrow_schema
from lakewright.spec.datafile import APPEND, EMPTY_ROW, EMPTY_STATS, DataFile, SimpleStats
from lakewright.spec.keyed import SEQUENCE_NUMBER, VALUE_KIND, stored_fields
from lakewright.spec.options import CoreOptions
from lakewright.spec.rows import encode_row
from lakewright.spec.schema import KEY_PREFIX, TableSchema
from lakewright.spec.stats import COUNTS, FULL, NONE, ColumnStats, StatsMode, to_simple_stats, truncate
from lakewright.spec.types import DataField
from lakewright.spec.values import from_scalar

_NEARLY_FULL = 0.95  # a file this close to its target is closed: one more row group would be tiny or too much
_SHRINK_MIN = 0.02  # some formats write late; what they seem to save is not believed beyond this
_ROWS_MAX = (1 << 63) - 1
_EXTENSIONS = {"zstd": "zst", "zstandard": "zst", "gzip": "gz", "bzip2": "bz2"}


_KEY_STATS = StatsMode("truncate", 128)  # whatever the options say of other columns


@dataclass(frozen=True, slots=True)
class FilePlan:
    """What all data files of one writer have in common."""

    fields: tuple[DataField, ...]  # of the files, in file order
    file_format: str
    options: WriteOptions
    schema_id: int
    file_bytes_max: int
    file_rows_max: int
    dense_stats: bool
    numbered_at_commit: bool = False  # row tracking: the committer gives the sequence numbers
    write_cols: tuple[str, ...] | None = None  # the columns of `fields` where these are not all of the table's
    prefix: str = "data-"
    suffix: str = ""
    level: int = 0
    source: int = APPEND
    columns: KeyedColumns | None = None  # of a primary-key table

    @classmethod
    def of_schema(cls, schema: TableSchema, write_cols: tuple[str, ...] | None = None) -> FilePlan:
        """Read the plan of an append table's files; `write_cols` names the columns of partial files."""
        fields = schema.fields if write_cols is None else tuple(f for f in schema.fields if f.name in write_cols)
        plan = cls._of_options(schema, tuple(fields), level=0)
        return replace(plan, write_cols=None if write_cols is None else tuple(f.name for f in fields))

    @classmethod
    def moved(cls, schema: TableSchema, ids: Sequence[DataField] = (), *, source: int) -> FilePlan:
        """Read the plan of files for rows of an append table that lay in other files before.

        `ids` are the system columns that the rows bring along, without which row tracking would number them anew.
        """
        plan = cls._of_options(schema, (*schema.fields, *ids), level=0)
        return replace(plan, write_cols=tuple(f.name for f in plan.fields) if ids else None, source=source)

    @classmethod
    def keyed(cls, schema: TableSchema, *, level: int, source: int = APPEND, changelog: bool = False) -> FilePlan:
        """Read the plan of a primary-key table's data files of one level, or of its changelog files.

        Files are thin unless the option says otherwise: every reader takes the key from the table's own columns, so
        copies of the key would only cost time and space.
        """
        options = schema.core_options
        fields = stored_fields(schema, thin=options.get(CoreOptions.DATA_FILE_THIN_MODE, default=True))
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
        )

    @classmethod
    def _of_options(
        cls, schema: TableSchema, fields: tuple[DataField, ...], *, level: int, changelog: bool = False
    ) -> FilePlan:
        options = schema.core_options
        file_format = options.get(CoreOptions.FILE_FORMAT_PER_LEVEL).get(level) or options.file_format()
        prefix = options.get(CoreOptions.DATA_FILE_PREFIX)
        write = WriteOptions.from_core_options(options, fields, level=level)
        if changelog:
            file_format = options.get(CoreOptions.CHANGELOG_FILE_FORMAT) or file_format
            prefix = options.get(CoreOptions.CHANGELOG_FILE_PREFIX)
            write = replace(write, compression=options.get(CoreOptions.CHANGELOG_FILE_COMPRESSION) or write.compression)
        with_compression = options.get(CoreOptions.FILE_SUFFIX_INCLUDE_COMPRESSION)
        return cls(
            fields=fields,
            file_format=file_format,
            options=write,
            schema_id=schema.id,
            file_bytes_max=options.target_file_size(has_primary_key=bool(schema.primary_keys)),
            file_rows_max=max(1, options.get(CoreOptions.TARGET_FILE_ROW_NUM)),
            dense_stats=options.get(CoreOptions.METADATA_STATS_DENSE_STORE),
            numbered_at_commit=options.row_tracking_enabled(),
            prefix=prefix,
            suffix=_suffix(file_format, write.compression, with_compression=with_compression),
        )

    def file_name(self, stem: str) -> str:
        """Return the name of a file; the stem is what no other file has."""
        return f"{self.prefix}{stem}{self.suffix}"


def _suffix(file_format: str, compression: str, *, with_compression: bool) -> str:
    if not with_compression or compression in {"none", "null", "uncompressed"}:
        return f".{file_format}"
    return f".{_EXTENSIONS.get(compression, compression)}.{file_format}"


@dataclass(frozen=True, slots=True)
class KeyedColumns:
    """The columns of a primary-key table, and what its data files say of them."""

    fields: tuple[DataField, ...]
    key: tuple[DataField, ...]
    modes: tuple[StatsMode, ...]  # of the value statistics, one per field

    def mode_of(self, stored: DataField) -> StatsMode:
        """Return what the encoder is to find out about a column of the file.

        The bounds of key columns serve twice, cut to different lengths, so they are asked for in full.
        """
        if stored.name == SEQUENCE_NUMBER.name or stored in self.key:
            return FULL
        return self.modes[self.fields.index(stored)] if stored in self.fields else NONE

    def key_stats(self, stats: Sequence[ColumnStats | None]) -> SimpleStats:
        """Return the statistics of the key columns, from those of all columns of the table."""
        found = [stats[self.fields.index(field)] for field in self.key]
        return to_simple_stats([_cut(one, _KEY_STATS) for one in found], self.key, dense=False)[0]

    def value_stats(
        self, stats: Sequence[ColumnStats | None], *, dense: bool
    ) -> tuple[SimpleStats, tuple[str, ...] | None]:
        """Return the statistics of the columns of the table."""
        cut = [_cut(one, mode) for one, mode in zip(stats, self.modes, strict=True)]
        return to_simple_stats(cut, self.fields, dense=dense)


def _cut(stats: ColumnStats | None, mode: StatsMode) -> ColumnStats | None:
    """Return as much of the statistics as a mode asks for."""
    if stats is None or mode == NONE:
        return None
    if mode == COUNTS:
        return ColumnStats(None, None, stats.null_count)
    return truncate(stats, mode.length) if mode.kind == "truncate" else stats


class SequenceNumbers:
    """The sequence numbers of one bucket, given to files in the order in which they are finished."""

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
    """A file about to be written: its name, its full path and where its bytes go."""

    name: str
    path: str
    output: Output


@dataclass(frozen=True, slots=True)
class FinishedFile:
    """A file whose bytes are durable."""

    path: str
    facts: DataFile


class _KeyRange:
    """What a file of a primary-key table must know of its rows beyond the statistics of the encoder."""

    def __init__(self, columns: KeyedColumns) -> None:
        self._key = columns.key
        self._first: bytes | None = None
        self._last: pa.Table | None = None  # the last row
        self.delete_count = 0

    def add(self, rows: pa.Table) -> None:
        """Take rows into account, in file order."""
        if self._first is None:
            self._first = self._encoded(rows, 0)
        last = rows.num_rows - 1
        self._last = rows.slice(last, 1)
        kinds = rows.column(VALUE_KIND.name).to_numpy()
        self.delete_count += int(np.count_nonzero(kinds & 1))  # -U and -D are the odd ones

    def bounds(self) -> tuple[bytes, bytes]:
        """Return the first and the last key."""
        if self._first is None:
            return EMPTY_ROW, EMPTY_ROW
        return self._first, self._encoded(self._last, 0)

    def _encoded(self, rows: pa.Table, row: int) -> bytes:
        values = [from_scalar(rows.column(field.name)[row], field.type) for field in self._key]
        return encode_row(values, [field.type for field in self._key])


class RollingFile:
    """The open data file of one bucket, and those that were finished before it.

    `numbers` are the sequence numbers of an append table's bucket; the rows of a primary-key table have their own.
    """

    def __init__(
        self,
        plan: FilePlan,
        new_file: Callable[[], NewFile],
        numbers: SequenceNumbers | None,
        clock_ms: Callable[[], int],
    ) -> None:
        self.files: list[FinishedFile] = []
        self._plan = plan
        self._schema = to_arrow_schema(plan.fields)
        self._new_file = new_file
        self._numbers = numbers
        self._clock_ms = clock_ms
        self._file: NewFile | None = None
        self._writer: FileWriter | None = None
        self._keys: _KeyRange | None = None
        self._rows = 0  # of the open file
        self._memory = 0  # bytes that the open file's rows had in memory, to foretell their size on disk

    @property
    def path(self) -> str:
        """The path of the open file, for messages."""
        return "" if self._file is None else self._file.path

    def write(self, rows: pa.Table) -> None:
        """Append rows as row groups, closing files as they fill."""
        start = 0
        while start < rows.num_rows:
            writer = self._opened()
            piece = rows.slice(start, self._room(rows.num_rows - start, rows.nbytes / rows.num_rows))
            writer.write(piece if self._keys is None else self._stored(piece))
            if self._keys is not None:
                self._keys.add(piece)
            start += piece.num_rows
            self._rows += piece.num_rows
            self._memory += piece.nbytes
            if self._full():
                self.finish()

    def finish(self) -> None:
        """Close the open file, if there is one."""
        if self._writer is None or self._file is None:
            return
        written = self._writer.close()
        self.files.append(FinishedFile(self._file.path, self._facts(self._file.name, written)))
        self._forget()

    def discard(self) -> None:
        """Give up the open file; nothing of it stays."""
        writer = self._writer
        self._forget()
        if writer is not None:
            writer.discard()

    def _opened(self) -> FileWriter:
        if self._writer is None:
            self._file = self._new_file()
            try:
                self._writer = open_writer(
                    self._plan.file_format, self._file.output, self._plan.fields, self._plan.options
                )
            except Exception:
                self._file.output.discard()
                raise
            self._keys = None if self._plan.columns is None else _KeyRange(self._plan.columns)
        return self._writer

    def _stored(self, rows: pa.Table) -> pa.Table:
        """Return keyed rows with the columns of the file; copies of the key are the same memory."""
        columns = [rows.column(field.name.removeprefix(KEY_PREFIX)) for field in self._plan.fields]
        return pa.Table.from_arrays(columns, schema=self._schema)

    def _forget(self) -> None:
        self._writer = self._file = self._keys = None
        self._rows = self._memory = 0

    def _room(self, rows: int, row_bytes: float) -> int:
        """Return how many of the next rows the open file should take in one row group."""
        rows = min(rows, self._plan.file_rows_max - self._rows)
        left = self._plan.file_bytes_max
        if self._rows and self._writer is not None:
            # What is on disk tells how much smaller rows become there; the first rows are taken at their full size.
            shrink = max(self._writer.tell() / max(1, self._memory), _SHRINK_MIN)
            left = int((left - self._writer.tell()) / shrink)
        return max(1, min(rows, int(left / max(row_bytes, 0.001))))

    def _full(self) -> bool:
        written = 0 if self._writer is None else self._writer.tell()
        return self._rows >= self._plan.file_rows_max or written >= self._plan.file_bytes_max * _NEARLY_FULL

    def _facts(self, name: str, written: WrittenFile) -> DataFile:
        plan = self._plan
        if plan.columns is None:
            key_stats = EMPTY_STATS
            value_stats, stats_cols = to_simple_stats(written.stats, plan.fields, dense=plan.dense_stats)
        else:
            of_columns = written.stats[-len(plan.columns.fields) :]
            key_stats = plan.columns.key_stats(of_columns)
            value_stats, stats_cols = plan.columns.value_stats(of_columns, dense=plan.dense_stats)
        min_key, max_key = (EMPTY_ROW, EMPTY_ROW) if self._keys is None else self._keys.bounds()
        first, last = self._sequence_range(written)
        return DataFile(
            file_name=name,
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
            delete_row_count=0 if self._keys is None else self._keys.delete_count,
            embedded_file_index=None,
            file_source=plan.source,
            value_stats_cols=stats_cols,
            external_path=None,
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

    def _numbers_of_rows(self, found: ColumnStats | None) -> tuple[int, int]:
        """Return the range of the numbers in a file; rows without one get the snapshot's, at the commit."""
        if found is not None and found.null_count and self._plan.columns is None:
            return found.min if isinstance(found.min, int) else 0, 0
        if found is None or not isinstance(found.min, int) or not isinstance(found.max, int):
            raise LakewrightError(f"the encoder counted no sequence numbers in {self.path}")
        return found.min, found.max


def wall_clock_ms() -> int:
    """Return the local wall clock as if it were UTC, which is what the format's creation times hold."""
    now = time.time()
    return int(now * 1000) + (time.localtime(now).tm_gmtoff or 0) * 1000

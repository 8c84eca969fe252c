"""Rolling data files: tables of one bucket in, finished files with their `DataFile` facts out.

A file is closed once it reached the target size on disk or the target number of rows, and the next one begins with the
next row. Invariant: a file is listed in `files` only after its last byte is durable, and a file without rows is never
opened. One thread at a time may use a `RollingFile`; only the sequence numbers of a bucket are shared.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from lakewright.formats.base import FileWriter, Output, WriteOptions, WrittenFile
from lakewright.formats.open import open_writer
from lakewright.spec.datafile import APPEND, EMPTY_ROW, EMPTY_STATS, DataFile
from lakewright.spec.options import CoreOptions
from lakewright.spec.schema import TableSchema
from lakewright.spec.stats import to_simple_stats
from lakewright.spec.types import DataField

_NEARLY_FULL = 0.95  # a file this close to its target is closed: one more row group would be tiny or too much
_SHRINK_MIN = 0.02  # some formats write late; what they seem to save is not believed beyond this
_EXTENSIONS = {"zstd": "zst", "zstandard": "zst", "gzip": "gz", "bzip2": "bz2"}


@dataclass(frozen=True, slots=True)
class FilePlan:
    """What all data files of one writer have in common."""

    fields: tuple[DataField, ...]
    file_format: str
    options: WriteOptions
    schema_id: int
    file_bytes_max: int
    file_rows_max: int
    dense_stats: bool
    numbered_at_commit: bool  # row tracking: the committer gives the sequence numbers
    write_cols: tuple[str, ...] | None = None  # the columns of `fields` where these are not all of the table's

    @classmethod
    def of_schema(cls, schema: TableSchema, write_cols: tuple[str, ...] | None = None) -> FilePlan:
        """Read the plan from a table's schema and options; `write_cols` names the columns of partial files."""
        options = schema.core_options
        fields = schema.fields if write_cols is None else tuple(f for f in schema.fields if f.name in write_cols)
        return cls(
            fields=tuple(fields),
            file_format=options.get(CoreOptions.FILE_FORMAT_PER_LEVEL).get(0) or options.file_format(),
            options=WriteOptions.from_core_options(options, fields, level=0),
            schema_id=schema.id,
            file_bytes_max=options.target_file_size(has_primary_key=bool(schema.primary_keys)),
            file_rows_max=max(1, options.get(CoreOptions.TARGET_FILE_ROW_NUM)),
            dense_stats=options.get(CoreOptions.METADATA_STATS_DENSE_STORE),
            numbered_at_commit=options.row_tracking_enabled(),
            write_cols=None if write_cols is None else tuple(f.name for f in fields),
        )

    def extension(self, *, with_compression: bool) -> str:
        """Return how the names of the files end."""
        compression = self.options.compression
        if not with_compression or compression in {"none", "null", "uncompressed"}:
            return f".{self.file_format}"
        return f".{_EXTENSIONS.get(compression, compression)}.{self.file_format}"


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


class RollingFile:
    """The open data file of one bucket, and those that were finished before it."""

    def __init__(
        self,
        plan: FilePlan,
        new_file: Callable[[], NewFile],
        numbers: SequenceNumbers,
        clock_ms: Callable[[], int],
    ) -> None:
        self.files: list[FinishedFile] = []
        self._plan = plan
        self._new_file = new_file
        self._numbers = numbers
        self._clock_ms = clock_ms
        self._file: NewFile | None = None
        self._writer: FileWriter | None = None
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
            writer.write(piece)
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
        return self._writer

    def _forget(self) -> None:
        self._writer = self._file = None
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
        stats, stats_cols = to_simple_stats(written.stats, plan.fields, dense=plan.dense_stats)
        first, last = (0, 0) if plan.numbered_at_commit else self._numbers.take(written.row_count)
        return DataFile(
            file_name=name,
            file_size=written.size,
            row_count=written.row_count,
            min_key=EMPTY_ROW,
            max_key=EMPTY_ROW,
            key_stats=EMPTY_STATS,
            value_stats=stats,
            min_sequence_number=first,
            max_sequence_number=last,
            schema_id=plan.schema_id,
            level=0,
            extra_files=(),
            creation_time=self._clock_ms(),
            delete_row_count=0,
            embedded_file_index=None,
            file_source=APPEND,
            value_stats_cols=stats_cols,
            external_path=None,
            first_row_id=None,
            write_cols=plan.write_cols,
        )


def wall_clock_ms() -> int:
    """Return the local wall clock as if it were UTC, which is what the format's creation times hold."""
    now = time.time()
    return int(now * 1000) + (time.localtime(now).tm_gmtoff or 0) * 1000

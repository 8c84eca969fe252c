"""Lance data files: reader and writer, through the optional package pylance.

pylance opens files by their paths, with connectors of its own. So a file of an object store is copied into a temporary
file before it is read, and a new file is written to a temporary file first and then handed to the storage, which makes
it visible at once.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyarrow as pa

from lakewright.errors import UnsupportedError
from lakewright.formats.arrow_conform import conform
from lakewright.formats.file_format import (
    Encoded,
    Input,
    OutputFile,
    StatsCollector,
    WriteOptions,
    WrittenFile,
    check_rows,
    corrupt_file_error,
    empty_batch,
    read_at,
    translate_decode_errors,
)
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.option_values import MIB
from lakewright.spec.predicate import Predicate
from lakewright.spec.types import DataField, RowType, types_inside

try:
    import lance
    from lance.file import LanceFileReader as _LanceReader
    from lance.file import LanceFileWriter as _LanceWriter
except ImportError as cause:
    raise UnsupportedError(
        "file.format lance needs the package pylance: install it with pip install 'lakewright[lance]'", format="lance"
    ) from cause

_END = struct.Struct("<HH4s")  # the version of the file format, and the magic
_MAGIC = b"LANC"
_OLD_VERSION_MAX = (2, 1)  # pylance before 1.0 ends the process when it opens a newer file
_BATCH_ROWS = 8192
_COPY_BYTES = 8 * MIB


class LanceFileReader:
    """One Lance file being read."""

    def __init__(self, source: Input, *, path: str, size: int, fields: Sequence[DataField]) -> None:
        self._source = source
        self._path = path
        self._schema = to_arrow_schema(fields)
        self._check_version(size)
        self._copy = None if isinstance(source, pa.OSFile) and Path(path).is_file() else _copy_to_temporary(source)
        local = str(Path(path if self._copy is None else self._copy.name).absolute())
        with self._translate_errors():
            metadata = _LanceReader(local).metadata()
            self._names: tuple[str, ...] = tuple(metadata.schema.names)
            self._row_count = int(metadata.num_rows)
            chosen = [name for name in self._schema.names if name in self._names]
            self._file = _LanceReader(local, columns=chosen) if chosen else None

    @property
    def row_count(self) -> int:
        """The number of rows in the file."""
        return self._row_count

    @property
    def stored_columns(self) -> tuple[str, ...]:
        """The names of all columns that the file holds, in its order, whichever are read."""
        return self._names

    def starts(self, skip: Predicate | None = None) -> tuple[int, ...]:  # noqa: ARG002 - files have no statistics
        """Return where decoding can begin: at any row, so in steps of a batch."""
        return tuple(range(0, self._row_count, _BATCH_ROWS))

    def batches(
        self,
        *,
        skip: Predicate | None = None,  # noqa: ARG002 - files have no statistics
        batch_rows: int | None = None,
        within: range | None = None,
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches in file order, each with the position of its first row."""
        start, stop = (0, self._row_count) if within is None else (within.start, min(within.stop, self._row_count))
        step = batch_rows or _BATCH_ROWS
        if self._file is None:
            for position in range(start, stop, step):
                yield position, empty_batch(self._schema, min(step, stop - position))
            return
        if start >= stop:
            return
        with self._translate_errors():
            found = iter(self._file.read_range(start, stop - start, batch_size=step).to_batches())
        position = start
        while True:
            with self._translate_errors():
                batch = next(found, None)
                if batch is None:
                    break
                rows = self._conform(batch)
            yield position, rows
            position += rows.num_rows
        if position != stop:
            raise corrupt_file_error(self._path, f"{position} rows where {stop} were announced")

    def close(self) -> None:
        """Close the file."""
        self._file = None
        self._source.close()
        if self._copy is not None:
            self._copy.close()

    def _check_version(self, size: int) -> None:
        if size < _END.size:
            raise corrupt_file_error(self._path, "it does not end like a Lance file")
        major, minor, magic = _END.unpack(read_at(self._source, size - _END.size, _END.size, self._path))
        if magic != _MAGIC:
            raise corrupt_file_error(self._path, "it does not end like a Lance file")
        if (major, minor) > _OLD_VERSION_MAX and int(lance.__version__.split(".")[0]) < 1:
            raise UnsupportedError(
                f"the file {self._path} has the Lance version {major}.{minor}, which pylance {lance.__version__} "
                "cannot open: install pylance 1.0 or newer",
                path=self._path,
            )

    def _conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            conform(batch.column(field.name), field.type, lambda _: None)
            if field.name in batch.schema.names
            else pa.nulls(batch.num_rows, field.type)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn what pylance raises for damage into a `CorruptTableError`."""
        with translate_decode_errors(self._path):
            try:
                yield
            except RuntimeError as error:
                raise corrupt_file_error(self._path, str(error)) from error


def _copy_to_temporary(source: Input) -> IO[bytes]:
    """Return a temporary file with the bytes of another, which is removed when it is closed."""
    copy = tempfile.NamedTemporaryFile(prefix="lakewright-", suffix=".lance")  # noqa: SIM115 - the reader closes it
    source.seek(0)
    while part := source.read(_COPY_BYTES):
        copy.write(part)
    copy.flush()
    return copy


class LanceEncoder:
    """Passes rows on to the writer, which encodes them."""

    def __init__(self, fields: Sequence[DataField], options: WriteOptions) -> None:
        self.schema = to_arrow_schema(fields)
        self._fields = tuple(fields)
        self._modes = options.stats

    def piece_rows(self, table: pa.Table) -> int:
        """Return all of them: one thread writes the file."""
        return int(table.num_rows)

    def check(self, table: pa.Table) -> None:
        """Raise an error for rows that a file cannot hold."""
        check_rows(table, self.schema)

    def encode(self, table: pa.Table) -> Encoded:
        """Return the rows."""
        self.check(table)
        stats = StatsCollector(self._fields, self._modes)
        stats.add(table)
        return Encoded(table, table.nbytes, stats)


class LanceFileWriter:
    """One Lance file being written.

    It has the version 2.0, or 2.1 if a ROW may be null, which 2.0 forgets. Other implementations end their process
    when they open a file of a later version.
    """

    def __init__(self, output: OutputFile, fields: Sequence[DataField], options: WriteOptions) -> None:
        self._output = output
        self._encoder = LanceEncoder(fields, options)
        self._stats = StatsCollector(fields, options.stats)
        self._directory = tempfile.TemporaryDirectory(prefix="lakewright-")
        self._local = Path(self._directory.name, "data.lance")
        parts = (part for field in fields for part in types_inside(field.type))
        version = "2.1" if any(isinstance(part, RowType) and part.nullable for part in parts) else "2.0"
        self._writer = _LanceWriter(str(self._local), self._encoder.schema, version=version)

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        self.append(self._encoder.encode(table))

    def append(self, piece: Encoded) -> None:
        """Append rows."""
        if piece.stats.row_count:
            self._writer.write_batch(piece.content)
            self._stats.include(piece.stats)

    def tell(self) -> int:
        """Return how many bytes were written so far."""
        return self._local.stat().st_size if self._local.exists() else 0

    def close(self) -> WrittenFile:
        """Finish the file and hand it to the storage."""
        self._writer.close()
        size = self._local.stat().st_size
        with self._local.open("rb") as local:
            while part := local.read(_COPY_BYTES):
                self._output.write(part)
        self._output.close()
        self._directory.cleanup()
        return WrittenFile(size, self._stats.row_count, self._stats.result())

    def discard(self) -> None:
        """Abandon the file."""
        self._directory.cleanup()
        self._output.discard()

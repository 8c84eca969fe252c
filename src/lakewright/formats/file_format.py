"""The `FileFormat` interface: writer, reader, options, statistics, errors of damage, checksum trailer."""

from __future__ import annotations

import inspect
import struct
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from lakewright.errors import CorruptTableError, InvalidInputError, LakewrightError
from lakewright.formats.variant_shredding import ShreddingTypes, shredding_types
from lakewright.spec.column_stats import (
    FULL,
    NONE,
    ColumnStats,
    StatsMode,
    column_stats,
    merge_column_stats,
    parse_stats_mode,
    truncate,
)
from lakewright.spec.option_values import MIB, parse_memory
from lakewright.spec.predicate import Predicate
from lakewright.spec.table_options import TableOptions
from lakewright.spec.table_schema import KEY_PREFIX
from lakewright.spec.types import AtomicType, DataField, DataType, Value, VectorType, types_inside

# ---- Protocols -------------------------------------------------------------------------------------------------------
# A writer takes tables in the canonical Arrow schema of its fields. A reader gives batches in the canonical schema of
# the requested fields, in file order, each with the position of its first row in the file. A file that cannot be
# decoded is a `CorruptTableError` naming it; an `OSError` of the storage is raised unchanged.

_SYSTEM_MODES = {"_SEQUENCE_NUMBER": "full", "_VALUE_KIND": "full", "_ROW_ID": "full"}


class OutputFile(Protocol):
    """A new file as a storage opens it: nothing is visible until `close`."""

    def write(self, data: bytes, /) -> int:
        """Append bytes, or any object with the buffer protocol."""

    def close(self) -> None:
        """Make the file complete, durable and visible."""

    def discard(self) -> None:
        """Abandon the file."""


class Input(Protocol):
    """An open file with random access."""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to a position."""

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes."""

    def close(self) -> None:
        """Close the file."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a data file is written: compression, sizes inside the file, and which statistics each field gets."""

    stats: tuple[StatsMode, ...]
    compression: str = "zstd"
    zstd_level: int = 1
    row_group_bytes: int = 128 * MIB
    page_bytes: int = MIB
    dictionary: bool = True
    shredding: ShreddingTypes = ()  # of VARIANT columns, whose parts get typed columns

    @classmethod
    def from_table_options(cls, options: TableOptions, fields: Sequence[DataField], *, level: int = 0) -> WriteOptions:
        """Read a table's options, for files of one level."""
        text = options.values
        block = options.file_block_size
        own_block = text.get("parquet.block.size")
        page = text.get("parquet.page.size")
        return cls(
            stats=_stats_modes(options, fields, level),
            compression=options.file_compression_per_level.get(level) or options.file_compression,
            zstd_level=options.file_compression_zstd_level,
            row_group_bytes=block or (parse_memory(own_block) if own_block else 128 * MIB),
            page_bytes=parse_memory(page) if page else MIB,
            dictionary=text.get("parquet.enable.dictionary", "true").strip().lower() != "false",
            shredding=shredding_types(text),
        )


def _stats_modes(options: TableOptions, fields: Sequence[DataField], level: int) -> tuple[StatsMode, ...]:
    of_level = options.metadata_stats_mode_per_level.get(level)
    keep = options.metadata_stats_keep_first_n_columns
    modes = []
    columns = 0
    for field in fields:
        if field.name in _SYSTEM_MODES or field.name.startswith(KEY_PREFIX):
            # Key statistics obey no option.
            modes.append(parse_stats_mode(_SYSTEM_MODES.get(field.name, "truncate(128)")))
            continue
        columns += 1
        own = options.values.get(f"fields.{field.name}.stats-mode")
        text = own or of_level or options.stats_mode(field.name)
        left_out = isinstance(field.type, VectorType) or (0 <= keep < columns and not own)
        modes.append(parse_stats_mode("none" if left_out else text))
    return tuple(modes)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """The facts of a finished file; `stats` has one entry per field, None where its mode is `none`."""

    size: int
    row_count: int
    stats: tuple[ColumnStats | None, ...]


@dataclass(frozen=True, slots=True)
class Encoded:
    """Rows encoded in a file format, at no fixed place in a file yet, and their statistics."""

    content: object  # in a form that only the writer of the same format uses
    nbytes: int  # in memory
    stats: StatsCollector


class Encoder(Protocol):
    """Encodes the rows of one data file, piece by piece; any number of threads may use it at the same time."""

    def piece_rows(self, table: pa.Table) -> int:
        """Return how many of the rows are best encoded by themselves, while another thread encodes those after them."""

    def check(self, table: pa.Table) -> None:
        """Raise an error for rows that a file cannot hold."""

    def encode(self, table: pa.Table) -> Encoded:
        """Return rows, given in the canonical schema of the fields, in encoded form."""


class FileWriter(Protocol):
    """One data file being written."""

    def write(self, table: pa.Table) -> None:
        """Append rows in the canonical schema of the fields. One call makes at least one row group."""

    def append(self, piece: Encoded) -> None:
        """Append rows that an encoder for files of the same fields and options has encoded."""

    def tell(self) -> int:
        """Return how many bytes were written so far."""

    def close(self) -> WrittenFile:
        """Finish the file, make it durable and visible, and return its facts."""

    def discard(self) -> None:
        """Abandon the file: nothing stays at its path."""


class FileReader(Protocol):
    """One data file being read."""

    @property
    def row_count(self) -> int:
        """The number of rows in the file."""

    @property
    def stored_columns(self) -> tuple[str, ...]:
        """The names of all columns that the file holds, in its order, whichever are read."""

    def starts(self, skip: Predicate | None = None) -> tuple[int, ...]:
        """Return where decoding can begin: the positions of the first rows of row groups, stripes or blocks.

        Those of row groups that cannot hold a row matching `skip` may be left out.
        """

    def batches(
        self, *, skip: Predicate | None = None, batch_rows: int | None = None, within: range | None = None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches in file order, each with the position of its first row.

        Row groups that cannot hold a row matching `skip`, and those without a position `within` a range, may be left
        out; nothing else is filtered.
        """

    def close(self) -> None:
        """Close the file."""


def overlap(first: int, count: int, within: range | None) -> bool:
    """Return whether some of `count` rows from position `first` on are within a range; None is all rows.

    >>> overlap(4, 2, range(5, 9)), overlap(4, 2, range(6, 9)), overlap(4, 2, None)
    (True, False, True)
    """
    return within is None or (first < within.stop and within.start < first + count)


@contextmanager
def translate_decode_errors(path: str) -> Iterator[None]:
    """Turn any error that a decoder raises for damaged bytes into a `CorruptTableError`; errors of the storage pass."""
    try:
        yield
    except (LakewrightError, MemoryError):
        raise
    except OSError as error:
        # Arrow reports damage as an OSError without a number; a subclass, or one with a number, is of the storage.
        if type(error) is not OSError or error.errno is not None:
            raise
        raise corrupt_file_error(path, str(error)) from error
    except (
        pa.ArrowException,
        ValueError,
        TypeError,
        ArithmeticError,
        LookupError,
        EOFError,
        RecursionError,
        struct.error,
        zlib.error,
    ) as error:
        raise corrupt_file_error(path, str(error) or type(error).__name__) from error


def corrupt_file_error(path: str, reason: str) -> CorruptTableError:
    """Return the error for a file that breaks its format."""
    return CorruptTableError(
        f"the file {path} is damaged: {reason}. Restore it from a copy, or roll back to a snapshot without it",
        path=path,
    )


def codec_of(codecs: Mapping[str, str], compression: str, file_format: str) -> str:
    """Return the name that a format has for a compression."""
    if compression not in codecs:
        raise InvalidInputError(
            f"{file_format} files cannot be compressed with {compression!r}; use one of {', '.join(codecs)}",
            value=compression,
        )
    return codecs[compression]


def supported_options(function: Callable[..., object], options: dict[str, object]) -> dict[str, object]:
    """Return the options that a function of the installed Arrow has; older releases lack some of them."""
    names = inspect.signature(function).parameters
    return {name: value for name, value in options.items() if name in names}


def read_at(source: Input, offset: int, length: int, path: str) -> bytes:
    """Return exactly `length` bytes of a file from `offset` on."""
    source.seek(offset)
    data = bytes(source.read(length))
    if len(data) != length:
        raise corrupt_file_error(path, f"it ends {length - len(data)} bytes too early")
    return data


def scalar_types(dtype: DataType) -> Iterator[AtomicType]:
    """Yield the scalar types that a type is made of, depth first."""
    return (part for part in types_inside(dtype) if isinstance(part, AtomicType))


def check_rows(table: pa.Table, schema: pa.Schema) -> None:
    """Raise InvalidInputError unless rows have the schema of the writer and no nulls in NOT NULL columns."""
    if not table.schema.equals(schema, check_metadata=False):
        raise InvalidInputError(f"rows of the schema {table.schema} cannot be written to a file of {schema}")
    for field, column in zip(schema, table.columns, strict=True):
        if not field.nullable and column.null_count:
            raise InvalidInputError(
                f"the column {field.name!r} is NOT NULL and {column.null_count} of its values are null",
                column=field.name,
            )


def empty_batch(schema: pa.Schema, row_count: int) -> pa.RecordBatch:
    """Return a batch of `row_count` rows of nulls; the schema may have no columns."""
    if not schema.names:
        return pa.RecordBatch.from_arrays([pa.nulls(row_count)], names=["none"]).select([])
    return pa.RecordBatch.from_arrays([pa.nulls(row_count, field.type) for field in schema], schema=schema)


class StatsCollector:
    """Bounds and null counts of the rows written so far, one entry per field."""

    def __init__(self, fields: Sequence[DataField], modes: Sequence[StatsMode]) -> None:
        if len(fields) != len(modes):
            raise InvalidInputError(f"{len(fields)} fields need as many statistics modes, not {len(modes)}")
        self.row_count = 0
        self._fields = tuple(fields)
        self._modes = tuple(modes)
        self._stats: list[ColumnStats | None] = [None] * len(self._fields)

    def add(self, table: pa.Table, *, bounds_later: Collection[int] = ()) -> None:
        """Take rows into account; the bounds of the columns in `bounds_later` are given to `add_bounds` afterwards."""
        self.row_count += table.num_rows
        for index, (field, mode) in enumerate(zip(self._fields, self._modes, strict=True)):
            if mode == NONE:
                continue
            column = table.column(index)
            if index in bounds_later:
                self._merge(index, ColumnStats(None, None, column.null_count, all_null=True))
                continue
            # Bounds are truncated once, at the end: an upper bound that cannot be truncated becomes unknown.
            self._merge(index, column_stats(column, field.type, FULL if mode.kind == "truncate" else mode))

    def add_bounds(self, index: int, low: Value, high: Value) -> None:
        """Take into account the bounds of some rows of a column, as an encoder found them; None if it found none."""
        self._merge(index, ColumnStats(low, high, 0))

    def include(self, following: StatsCollector) -> None:
        """Take into account the rows that were added to another collector."""
        self.row_count += following.row_count
        for index, stats in enumerate(following._stats):
            if stats is not None:
                self._merge(index, stats)

    def _merge(self, index: int, stats: ColumnStats) -> None:
        known = self._stats[index]
        self._stats[index] = stats if known is None else merge_column_stats(known, stats)

    def result(self) -> tuple[ColumnStats | None, ...]:
        """Return the statistics, truncated to the lengths in the modes."""
        return tuple(
            truncate(stats, mode.length)
            if mode.kind == "truncate" and stats and isinstance(stats.max, str | bytes)
            else stats
            for stats, mode in zip(self._stats, self._modes, strict=True)
        )


# ---- Checksum trailers -----------------------------------------------------------------------------------------------
# Parquet and ORC readers find everything in a file by offsets counted from its start or its end. Bytes between the
# data and the footer are not referenced, so 16 of them hold a checksum trailer: `LWSEAL01`, a CRC-32 and four bytes of
# zero, little endian. A file whose checksum trailer does not match its bytes is damaged; a file without one is from
# another writer.

SEAL_BYTES = 16
_MAGIC = b"LWSEAL01"
_LAYOUT = struct.Struct("<8sII")


def make_checksum_trailer(checksum: int) -> bytes:
    """Return the sixteen bytes that hold a checksum."""
    return _LAYOUT.pack(_MAGIC, checksum, 0)


def read_checksum_trailer(data: bytes) -> int | None:
    """Return the checksum in a checksum trailer, None if the bytes are not one."""
    if len(data) != SEAL_BYTES or not data.startswith(_MAGIC):
        return None
    checksum: int = _LAYOUT.unpack(data)[1]
    return checksum


class HoldingSink:
    """A file object for Arrow's writers: bytes are passed on until `hold` is called, and kept in memory afterwards.

    The bytes that a format writes when it is closed are held, so that a checksum trailer can be written before its
    footer.
    """

    def __init__(self, output: OutputFile, *, checksum: bool = False) -> None:
        self.closed = False
        self.checksum = 0  # of all bytes written, if requested
        self._with_checksum = checksum
        self._output = output
        self._position = 0
        self._held: list[bytes] | None = None

    def write(self, data: bytes) -> int:
        """Pass bytes on, or hold them."""
        if self._with_checksum:
            self.checksum = zlib.crc32(data, self.checksum)
        if self._held is None:
            self._output.write(data)
        else:
            self._held.append(bytes(data))
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        """Return how many bytes the format has written."""
        return self._position

    def flush(self) -> None:
        """Do nothing: bytes count only once the file is closed."""

    def close(self) -> None:
        """Do nothing: the writer closes the output after it has added the checksum trailer."""

    def hold(self) -> None:
        """Keep everything that is written from now on in memory."""
        self._held = []

    def take_held(self) -> bytes:
        """Return the bytes written since `hold`."""
        return b"".join(self._held or ())

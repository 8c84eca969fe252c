"""File formats by name; the module of a format is loaded when one of its files is opened.

A format is a module with a reader, a writer and an encoder, an entry here, and its rules in `spec.file_formats`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from lakewright.errors import UnsupportedError
from lakewright.formats.file_format import Encoder, FileReader, FileWriter, Input, OutputFile, WriteOptions
from lakewright.spec.types import DataField

_COMPRESSION_ENDINGS = frozenset("zst zstd gz gzip snappy lz4 lzo br brotli zlib deflate bz2 xz none".split())


class OpenReader(Protocol):
    """Opens a data file."""

    def __call__(self, source: Input, /, *, path: str, size: int, fields: Sequence[DataField]) -> FileReader:
        """Return a reader of `fields`, which have the types of the file's own schema."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """The functions that read and write the files of one format.

    `first_bytes` guesses from the size, the number of rows and all fields of a file how many of its last bytes a
    reader needs before all others; 0 if it reads all, or begins elsewhere.
    """

    open_reader: OpenReader
    open_writer: Callable[[OutputFile, Sequence[DataField], WriteOptions], FileWriter]
    open_encoder: Callable[[Sequence[DataField], WriteOptions], Encoder]
    first_bytes: Callable[[int, int, Sequence[DataField]], int] = lambda _size, _row_count, _fields: 0


def _parquet() -> FileFormat:
    from lakewright.formats.parquet_reader import ParquetFileReader, footer_bytes  # noqa: PLC0415 - lazy
    from lakewright.formats.parquet_writer import ParquetEncoder, ParquetFileWriter  # noqa: PLC0415 - lazy

    return FileFormat(ParquetFileReader, ParquetFileWriter, ParquetEncoder, footer_bytes)


def _orc() -> FileFormat:
    from lakewright.formats.orc_files import OrcEncoder, OrcFileReader, OrcFileWriter  # noqa: PLC0415 - lazy

    return FileFormat(OrcFileReader, OrcFileWriter, OrcEncoder)


def _avro() -> FileFormat:
    from lakewright.formats.avro_files import AvroEncoder, AvroFileReader, AvroFileWriter  # noqa: PLC0415 - lazy

    return FileFormat(AvroFileReader, AvroFileWriter, AvroEncoder)


def _lance() -> FileFormat:
    from lakewright.formats.lance_files import LanceEncoder, LanceFileReader, LanceFileWriter  # noqa: PLC0415 - lazy

    return FileFormat(LanceFileReader, LanceFileWriter, LanceEncoder)


FORMATS: dict[str, Callable[[], FileFormat]] = {"parquet": _parquet, "orc": _orc, "avro": _avro, "lance": _lance}


@lru_cache(maxsize=16)
def load_format(name: str) -> FileFormat:
    """Return the functions of a file format, or raise UnsupportedError for one that is not known."""
    if name not in FORMATS:
        raise UnsupportedError(
            f"files of the format {name!r} are not supported; lakewright reads and writes {', '.join(FORMATS)}",
            format=name,
        )
    return FORMATS[name]()


def file_format_of(file_name: str) -> str:
    """Return the format of a data file, by the ending of its name.

    >>> file_format_of("data-1.parquet"), file_format_of("data-1.orc.zst")
    ('parquet', 'orc')
    """
    parts = file_name.lower().split(".")[1:]
    while len(parts) > 1 and parts[-1] in _COMPRESSION_ENDINGS:
        parts.pop()
    ending = parts[-1] if parts else ""
    if ending not in FORMATS:
        raise UnsupportedError(
            f"the data file {file_name} has the format {ending or 'unknown'!r}; lakewright reads {', '.join(FORMATS)}",
            path=file_name,
            format=ending,
        )
    return ending


def open_reader(file_format: str, source: Input, *, path: str, size: int, fields: Sequence[DataField]) -> FileReader:
    """Open a data file to read `fields`, which have the types of the file's own schema; the reader closes `source`."""
    try:
        return load_format(file_format).open_reader(source, path=path, size=size, fields=fields)
    except BaseException:
        source.close()
        raise


def open_writer(file_format: str, output: OutputFile, fields: Sequence[DataField], options: WriteOptions) -> FileWriter:
    """Begin a data file; the writer closes the output."""
    return load_format(file_format).open_writer(output, fields, options)


def open_encoder(file_format: str, fields: Sequence[DataField], options: WriteOptions) -> Encoder:
    """Return the encoder for the rows of one data file; its writer appends them in their order."""
    return load_format(file_format).open_encoder(fields, options)

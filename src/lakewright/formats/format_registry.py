"""File formats by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakewright.errors import UnsupportedError
from lakewright.formats.avro_files import AvroEncoder, AvroFileReader, AvroFileWriter
from lakewright.formats.file_format import FORMATS, Encoder, FileReader, FileWriter, Input, OutputFile, WriteOptions
from lakewright.formats.orc_files import OrcEncoder, OrcFileReader, OrcFileWriter
from lakewright.formats.parquet_reader import SINGLE_READ_BYTES, ParquetFileReader, end_bytes
from lakewright.formats.parquet_writer import ParquetEncoder, ParquetFileWriter
from lakewright.spec.types import DataField


def open_writer(file_format: str, output: OutputFile, fields: Sequence[DataField], options: WriteOptions) -> FileWriter:
    """Begin a data file; the writer closes the output."""
    match file_format:
        case "parquet":
            return ParquetFileWriter(output, fields, options)
        case "orc":
            return OrcFileWriter(output, fields, options)
        case "avro":
            return AvroFileWriter(output, fields, options)
        case _:
            raise _unsupported(file_format, "written")


def open_encoder(file_format: str, fields: Sequence[DataField], options: WriteOptions) -> Encoder:
    """Return the encoder for the rows of one data file; its writer appends them in their order."""
    match file_format:
        case "parquet":
            return ParquetEncoder(fields, options)
        case "orc":
            return OrcEncoder(fields, options)
        case "avro":
            return AvroEncoder(fields, options)
        case _:
            raise _unsupported(file_format, "written")


def first_bytes(file_format: str, *, size: int, row_count: int, fields: Sequence[DataField]) -> int:
    """Guess how many of its last bytes a reader needs before all others; 0 if it reads all, or begins elsewhere.

    `fields` are all that the file holds, whichever are read.
    """
    if file_format != "parquet" or size <= SINGLE_READ_BYTES:
        return 0
    return end_bytes(fields, row_count)


def open_reader(file_format: str, source: Input, *, path: str, size: int, fields: Sequence[DataField]) -> FileReader:
    """Open a data file to read `fields`, which have the types of the file's own schema; the reader closes `source`."""
    try:
        return _reader_of(file_format)(source, path=path, size=size, fields=fields)
    except BaseException:
        source.close()
        raise


def _reader_of(file_format: str) -> Callable[..., FileReader]:
    match file_format:
        case "parquet":
            return ParquetFileReader
        case "orc":
            return OrcFileReader
        case "avro":
            return AvroFileReader
        case _:
            raise _unsupported(file_format, "read")


def _unsupported(file_format: str, verb: str) -> UnsupportedError:
    return UnsupportedError(
        f"files of the format {file_format!r} cannot be {verb}; use one of {', '.join(FORMATS)}", format=file_format
    )

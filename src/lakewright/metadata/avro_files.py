"""Avro files of records, in memory: records in, bytes out, and the reverse.

Fields are found by the names in the file's own schema, because newer files have more fields, record names differ
between writers, and some put the record into a union. Always holds: either all records of a file are decoded, or
CorruptTableError is raised.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias, cast

import fastavro

from lakewright.formats.avro.container import (
    SYNC_BYTES,
    Block,
    Codec,
    compress,
    decode_blocks,
    decode_header,
    encode_file,
)
from lakewright.formats.avro.schemas import FileSchema, check_readable, file_schema, parsed
from lakewright.formats.base import decoding

Record: TypeAlias = dict[str, object]
Schema: TypeAlias = dict[str, object]

BLOCK_BYTES = 64_000  # a block is closed once its records reach this size, as Java does
FILE_BYTES_MAX = 2 << 30  # of all blocks together, decompressed


def decode_records(data: bytes, path: str, *, expected: Schema | None = None) -> list[Record]:
    """Return the records of an Avro file; `path` names it in errors.

    With `expected`, each of its fields must be in the file with a type that can be read as the expected one; only
    fields that have a default may be missing. A value may be None wherever the file's schema says so.
    """
    return list(iterate_records(data, path, expected=expected))


def iterate_records(data: bytes, path: str, *, expected: Schema | None = None) -> Iterator[Record]:
    """Yield the records one by one, as `decode_records` returns them. After an error, those before are invalid too."""
    with decoding(path):
        header = decode_header(data)
        coding = _coding(header.schema)
        if expected is not None:
            coding.check_readable(expected)
        total = 0
        for block in decode_blocks(data, header):
            total += len(block.data)
            if total > FILE_BYTES_MAX:
                raise ValueError(f"its records take more than {FILE_BYTES_MAX} bytes")
            yield from _records(block, coding.entry)


@dataclass(frozen=True, slots=True)
class _Coding:
    """The schema in the header of a file, in fastavro's form too, and the expected schemas it was checked against."""

    schema: FileSchema
    entry: Any
    readable_as: list[Schema] = field(default_factory=list)

    def check_readable(self, expected: Schema) -> None:
        """Check the schema once for all files that have it: the check can take longer than reading a file."""
        if not any(known is expected for known in self.readable_as):
            check_readable(self.schema.record, expected)
            self.readable_as.append(expected)


@lru_cache(maxsize=32)
def _coding(schema: bytes) -> _Coding:
    """Return a checked schema; cached, because most files of a table have the same one."""
    checked = file_schema(json.loads(schema))
    return _Coding(checked, parsed(checked.entry))


@lru_cache(maxsize=32)
def _writing(schema: bytes) -> Any:  # noqa: ANN401 - fastavro's own kind of schema
    """Return how records of a schema of ours are written; it needs none of the checks for files of others."""
    return fastavro.parse_schema(json.loads(schema))


def _records(block: Block, schema: Any) -> Iterator[Record]:  # noqa: ANN401 - fastavro's own kind of schema
    source = io.BytesIO(block.data)
    for _ in range(block.count):
        record = fastavro.schemaless_reader(source, schema, None)
        if record is None:
            raise ValueError("one of its records is null")
        yield cast("Record", record)
    if source.tell() != len(block.data):
        raise ValueError(f"a block has {len(block.data) - source.tell()} bytes after its last record")


class RecordEncoder:
    """Collects the records of one file and counts its bytes, so that the caller knows when to start another file."""

    def __init__(self, schema: Schema, compression: str, *, zstd_level: int = 1, salt: bytes = b"") -> None:
        self._codec = Codec.of(compression, zstd_level)
        self._schema = json.dumps(schema, separators=(",", ":")).encode()
        self._salt = salt
        self._entry = _writing(self._schema)
        self._pending = io.BytesIO()
        self._pending_count = 0
        self._blocks: list[tuple[int, bytes]] = []
        self._size = 0

    @property
    def size(self) -> int:
        """The bytes of the closed blocks, a little less than the size of the file."""
        return self._size

    def add(self, record: Mapping[str, object]) -> None:
        """Append one record."""
        fastavro.schemaless_writer(self._pending, self._entry, record)
        self._pending_count += 1
        if self._pending.tell() >= BLOCK_BYTES:
            self._close_block()

    def finish(self) -> bytes:
        """Return the whole file."""
        if self._pending_count:
            self._close_block()
        return encode_file(self._schema, self._codec, self._blocks, self._salt)

    def _close_block(self) -> None:
        block = compress(self._pending.getvalue(), self._codec)
        self._blocks.append((self._pending_count, block))
        self._size += len(block) + SYNC_BYTES
        self._pending = io.BytesIO()
        self._pending_count = 0

"""Whole Avro container files in memory: records in, bytes out, and the reverse.

The container (header, blocks, compression) is handled here, with a limit on everything that a damaged or hostile file
can ask for; single records are fastavro's work. Fields are found by the names in the file's own schema, because field
sets grow, record names differ between writers, and some wrap the record into a union.

A container is a magic of 4 bytes, a map of metadata, a sync marker of 16 bytes, then blocks: record count, byte size,
compressed records, sync marker. Files of ours carry one more metadata key, the seal: the CRC-32 of the whole file with
the eight digits of the seal as zeros. Other readers look away; we notice every flipped bit. Always holds: a file is
either decoded whole or refused with CorruptTableError.
"""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import lzma
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, cast

import fastavro
import pyarrow as pa
import zstandard
from fastavro.schema import SchemaParseException, UnknownType

from lakewright.errors import CorruptTableError, InvalidInputError
from lakewright.metadata.avro_schemas import FileSchema, check_readable, file_schema

Record: TypeAlias = dict[str, object]
Schema: TypeAlias = dict[str, object]

BLOCK_BYTES_MAX = 256 << 20  # of one block, decompressed
FILE_BYTES_MAX = 2 << 30  # of all blocks together, decompressed
BLOCK_BYTES = 64_000  # a block is closed once its records reach this size, as Java does
ZSTD_WINDOW_BYTES_MAX = 128 << 20

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_HEADER_KEYS_MAX = 1000
_LONG_BYTES_MAX = 10
_SEAL_KEY = "lakewright.seal"
_SEAL = re.compile(rb"crc32:[0-9a-f]{8}")
_UNSEALED = b"crc32:00000000"
_DIGITS = 8

# What the decoders of records and blocks raise on bytes that are not what they should be.
_DAMAGE = (
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    ArithmeticError,
    OSError,
    RecursionError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    zstandard.ZstdError,
    SchemaParseException,
    UnknownType,
)


def encode_records(schema: Schema, records: Iterable[Mapping[str, object]], codec: str) -> bytes:
    """Return an Avro file with these records, sealed."""
    encoder = RecordEncoder(schema, codec)
    for record in records:
        encoder.add(record)
    return encoder.finish()


def decode_records(data: bytes, path: str, *, expected: Schema | None = None) -> list[Record]:
    """Return the records of an Avro file; `path` names it in errors.

    With `expected`, each of its fields must be in the file with a type that can be read as the expected one; only
    fields that have a default may be missing. A value may be None wherever the file's schema says so.
    """
    return list(iterate_records(data, path, expected=expected))


def iterate_records(data: bytes, path: str, *, expected: Schema | None = None) -> Iterator[Record]:
    """Yield the records one by one, as `decode_records` returns them. What was yielded counts only if all are."""
    try:
        container = _open(data)
        if expected is not None:
            check_readable(container.schema.record, expected)
        yield from _records(container)
    except _DAMAGE as error:
        message = f"{path} is not a whole Avro file ({type(error).__name__}: {error}); restore it from a copy"
        raise CorruptTableError(message, path=path) from error


class RecordEncoder:
    """Collects records and keeps count of the bytes, so that the caller can start another file in time."""

    def __init__(self, schema: Schema, codec: str, *, zstd_level: int = 1) -> None:
        self._codec, self._compress = _compressor(codec, zstd_level)
        self._schema = json.dumps(schema, separators=(",", ":")).encode()
        self._parsed = fastavro.parse_schema(file_schema(schema).record)
        self._pending = io.BytesIO()
        self._pending_count = 0
        self._blocks: list[tuple[int, bytes]] = []
        self._size = 0

    @property
    def size(self) -> int:
        """The bytes of the blocks that are closed, which is a little less than the file would have."""
        return self._size

    def add(self, record: Mapping[str, object]) -> None:
        """Append one record."""
        fastavro.schemaless_writer(self._pending, self._parsed, record)
        self._pending_count += 1
        if self._pending.tell() >= BLOCK_BYTES:
            self._close_block()

    def finish(self) -> bytes:
        """Return the whole file."""
        if self._pending_count:
            self._close_block()
        # The marker must not occur by chance inside the data; taken from the content, it makes equal files equal bytes.
        digest = hashlib.sha256(self._schema)
        for _, block in self._blocks:
            digest.update(block)
        sync = digest.digest()[:_SYNC_BYTES]
        metadata = {"avro.schema": self._schema, "avro.codec": self._codec.encode(), _SEAL_KEY: _UNSEALED}
        entries = b"".join(_bytes(key.encode()) + _bytes(value) for key, value in metadata.items())
        header = _MAGIC + _long(len(metadata)) + entries + _long(0) + sync
        blocks = (_long(count) + _bytes(block) + sync for count, block in self._blocks)
        return _seal(header + b"".join(blocks))

    def _close_block(self) -> None:
        block = self._compress(self._pending.getvalue())
        self._blocks.append((self._pending_count, block))
        self._size += len(block) + _SYNC_BYTES
        self._pending = io.BytesIO()
        self._pending_count = 0


@dataclass(frozen=True, slots=True)
class _Container:
    schema: FileSchema
    decompress: Callable[[bytes], bytes]
    blocks: tuple[tuple[int, bytes], ...]  # record count, compressed records


@dataclass(slots=True)
class _Cursor:
    data: bytes
    position: int = 0

    def take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise EOFError(f"{size} bytes wanted at byte {self.position} of {len(self.data)}")
        piece = self.data[self.position : end]
        self.position = end
        return piece

    def long(self) -> int:
        """Read a variable-length zig-zag integer."""
        value = 0
        for index in range(_LONG_BYTES_MAX):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:  # noqa: PLR2004 - the high bit says that more follows
                return (value >> 1) ^ -(value & 1)
        raise ValueError(f"the integer before byte {self.position} has no end")


def _open(data: bytes) -> _Container:
    cursor = _Cursor(data)
    if cursor.take(len(_MAGIC)) != _MAGIC:
        raise ValueError("it does not begin like one")
    metadata, places = _metadata(cursor)
    _check_seal(data, metadata, places)
    sync = cursor.take(_SYNC_BYTES)
    blocks = []
    while cursor.position < len(data):
        count, block = cursor.long(), cursor.take(cursor.long())
        if count < 0 or cursor.take(_SYNC_BYTES) != sync:
            raise ValueError(f"the block before byte {cursor.position} does not end with the sync marker")
        blocks.append((count, block))
    codec = metadata.get("avro.codec", b"null").decode()
    if codec not in _DECOMPRESS:
        raise ValueError(f"its codec {codec!r} is unknown")
    return _Container(file_schema(json.loads(metadata["avro.schema"])), _DECOMPRESS[codec], tuple(blocks))


def _metadata(cursor: _Cursor) -> tuple[dict[str, bytes], dict[str, int]]:
    """Return the metadata of the header, and where in the file each value begins."""
    values: dict[str, bytes] = {}
    places: dict[str, int] = {}
    while (count := cursor.long()) != 0:
        if count < 0:
            cursor.long()  # a negative count is followed by the size of the map block in bytes
            count = -count
        if count + len(values) > _HEADER_KEYS_MAX:
            raise ValueError(f"its header has more than {_HEADER_KEYS_MAX} keys")
        for _ in range(count):
            key = cursor.take(cursor.long()).decode()
            values[key] = cursor.take(cursor.long())
            places[key] = cursor.position - len(values[key])
    return values, places


def _records(container: _Container) -> Iterator[Record]:
    schema = fastavro.parse_schema(container.schema.record)
    prefix = b"" if container.schema.branch is None else _long(container.schema.branch)
    total = 0
    for count, block in container.blocks:
        body = container.decompress(block)
        total += len(body)
        # A record takes at least one byte, so a true count cannot be larger.
        if count > len(body) or total > FILE_BYTES_MAX:
            raise ValueError(f"a block of {len(body)} bytes says that it has {count} records")
        source = io.BytesIO(body)
        for _ in range(count):
            if prefix and source.read(len(prefix)) != prefix:
                raise ValueError("one of its records is null")
            yield cast("Record", fastavro.schemaless_reader(source, schema, None))
        if source.tell() != len(body):
            raise ValueError(f"a block has {len(body) - source.tell()} bytes after its last record")


def _long(value: int) -> bytes:
    """Spell a number of at least zero as a variable-length zig-zag integer."""
    value <<= 1
    out = bytearray()
    while value >= 0x80:  # noqa: PLR2004 - seven bits in each byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes(value: bytes) -> bytes:
    return _long(len(value)) + value


def _seal(file: bytes) -> bytes:
    """Put the checksum of an unsealed file into the place that its header keeps for it."""
    _, places = _metadata(_Cursor(file, len(_MAGIC)))
    end = places[_SEAL_KEY] + len(_UNSEALED)
    return file[: end - _DIGITS] + f"{zlib.crc32(file):08x}".encode() + file[end:]


def _check_seal(data: bytes, metadata: Mapping[str, bytes], places: Mapping[str, int]) -> None:
    """Refuse a file that has a seal which does not fit it."""
    seal = metadata.get(_SEAL_KEY)
    if seal is None:
        return
    end = places[_SEAL_KEY] + len(_UNSEALED)
    crc = zlib.crc32(data[: end - _DIGITS])
    crc = zlib.crc32(b"0" * _DIGITS, crc)
    crc = zlib.crc32(data[end:], crc)
    if not _SEAL.fullmatch(seal) or int(seal[-_DIGITS:], 16) != crc:
        raise ValueError("it does not match its seal")


def _compressor(codec: str, zstd_level: int) -> tuple[str, Callable[[bytes], bytes]]:
    """Return Avro's name of a codec and the function that compresses a block."""
    match codec.lower():
        case "zstd" | "zstandard":
            # The checksum inside the frame is verified by every decoder, those of other implementations too.
            return "zstandard", zstandard.ZstdCompressor(level=zstd_level, write_checksum=True).compress
        case "null" | "none" | "uncompressed":
            return "null", bytes
        case "deflate":
            return "deflate", _deflate
        case "snappy":
            return "snappy", _snappy
        case "bzip2":
            return "bzip2", bz2.compress
        case "xz":
            return "xz", lzma.compress
        case _:
            raise InvalidInputError(
                f"manifest.compression {codec!r} is unknown; choose zstd, null, deflate, snappy, bzip2 or xz"
            )


def _deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


def _snappy(data: bytes) -> bytes:
    compressed: bytes = pa.compress(data, codec="snappy", asbytes=True)
    return compressed + zlib.crc32(data).to_bytes(4, "big")


def _limited(data: bytes) -> bytes:
    if len(data) > BLOCK_BYTES_MAX:
        raise ValueError(f"a block is larger than {BLOCK_BYTES_MAX} bytes")
    return data


def _unzstd(data: bytes) -> bytes:
    # Java's frames do not say how large their content is, so it is read as a stream.
    decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX)
    with decompressor.stream_reader(data, read_across_frames=True) as stream:
        return _limited(stream.read(BLOCK_BYTES_MAX + 1))


def _undeflate(data: bytes) -> bytes:
    return _whole(zlib.decompressobj(wbits=-zlib.MAX_WBITS), data)


def _unbzip2(data: bytes) -> bytes:
    return _whole(bz2.BZ2Decompressor(), data)


def _unxz(data: bytes) -> bytes:
    return _whole(lzma.LZMADecompressor(memlimit=BLOCK_BYTES_MAX), data)


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def _whole(decompressor: _Decompressor, data: bytes) -> bytes:
    out = _limited(decompressor.decompress(data, BLOCK_BYTES_MAX + 1))
    # Some writers leave a piece of a checksum behind their deflated blocks, so what follows is not looked at.
    if not decompressor.eof:
        raise ValueError("a compressed block is cut")
    return out


def _unsnappy(data: bytes) -> bytes:
    out = _sized(data[:-4], _snappy_size(data), "snappy")
    if zlib.crc32(out).to_bytes(4, "big") != data[-4:]:
        raise ValueError("a block does not match its checksum")
    return out


def _snappy_size(data: bytes) -> int:
    """Return the size that a snappy block says its content has."""
    size = 0
    for index, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:  # noqa: PLR2004 - the high bit says that more follows
            return size
    raise ValueError("a snappy block has no size")


def _unlz4(data: bytes) -> bytes:
    return _sized(data[4:], int.from_bytes(data[:4], "little"), "lz4_raw")


def _sized(data: bytes, size: int, codec: str) -> bytes:
    if size > BLOCK_BYTES_MAX:
        raise ValueError(f"a block is larger than {BLOCK_BYTES_MAX} bytes")
    out: bytes = pa.decompress(data, decompressed_size=size, codec=codec, asbytes=True)
    return out


_DECOMPRESS: Mapping[str, Callable[[bytes], bytes]] = {
    "null": _limited,
    "zstandard": _unzstd,
    "deflate": _undeflate,
    "snappy": _unsnappy,
    "bzip2": _unbzip2,
    "xz": _unxz,
    "lz4": _unlz4,
}

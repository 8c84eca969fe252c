r"""Avro object container files: the frame around blocks of encoded records, with checksums.

A file is `Obj\x01`, a map of metadata (schema and codec), a 16-byte sync marker, then blocks: the number of records,
the number of bytes, the bytes, the sync marker. What lakewright writes carries two checks that other readers look past:
zstd frames end with a content checksum, and the metadata key `lakewright.header-seal` holds the CRC-32 of all other
metadata and the sync marker. Records are opaque bytes here.
"""

from __future__ import annotations

import bz2
import lzma
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import zstandard

from lakewright.errors import InvalidInputError, UnsupportedError

MAGIC = b"Obj\x01"
SEAL_KEY = "lakewright.header-seal"
SYNC_BYTES = 16
_VARINT_BYTES_MAX = 10
_BLOCK_BYTES_MAX = 1 << 31
_CODECS = {
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "snappy": "snappy",
    "deflate": "deflate",
    "gzip": "deflate",
    "null": "null",
    "none": "null",
    "uncompressed": "null",
}


@dataclass(frozen=True, slots=True)
class Block:
    """Records as a file holds them: how many, and their bytes, decompressed."""

    count: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Header:
    """The metadata of a container file."""

    metadata: Mapping[str, bytes]
    sync: bytes
    end: int  # where the first block begins

    @property
    def codec(self) -> str:
        """The name of the compression."""
        return self.metadata.get("avro.codec", b"null").decode()


def codec_of(compression: str) -> str:
    """Return Avro's name of a compression.

    >>> codec_of("zstd")
    'zstandard'
    """
    try:
        return _CODECS[compression]
    except KeyError:
        raise InvalidInputError(
            f"Avro files cannot be compressed with {compression!r}; use one of {', '.join(_CODECS)}", value=compression
        ) from None


def encode_header(schema_json: bytes, codec: str, *, sync: bytes | None = None) -> tuple[bytes, bytes]:
    """Return the bytes that open a file, and its sync marker."""
    sync = os.urandom(SYNC_BYTES) if sync is None else sync
    metadata = {"avro.schema": schema_json, "avro.codec": codec.encode()}
    metadata[SEAL_KEY] = _seal(metadata, sync)
    out = bytearray(MAGIC) + encode_long(len(metadata))
    for key, value in metadata.items():
        name = key.encode()
        out += encode_long(len(name)) + name + encode_long(len(value)) + value
    return bytes(out + b"\x00" + sync), sync


def encode_block(count: int, data: bytes, codec: str, level: int, sync: bytes) -> bytes:
    """Return one block of encoded records."""
    packed = compress(data, codec, level)
    return encode_long(count) + encode_long(len(packed)) + packed + sync


def decode_header(data: bytes) -> Header:
    """Read what opens a file and check its seal, if it has one. Damage is a ValueError."""
    if data[: len(MAGIC)] != MAGIC:
        raise ValueError("it does not begin like an Avro file")
    at = len(MAGIC)
    metadata: dict[str, bytes] = {}
    count, at = decode_long(data, at)
    while count:
        if count < 0:  # a negative count is followed by the size of the block
            count, (_, at) = -count, decode_long(data, at)
        for _ in range(count):
            key, at = _bytes(data, at)
            metadata[key.decode()], at = _bytes(data, at)
        count, at = decode_long(data, at)
    sync = data[at : at + SYNC_BYTES]
    if len(sync) != SYNC_BYTES or "avro.schema" not in metadata:
        raise ValueError("its header is cut short")
    seal = metadata.pop(SEAL_KEY, None)
    if seal is not None and seal != _seal(metadata, sync):
        raise ValueError("the checksum of its header does not match")
    return Header(metadata, sync, at + SYNC_BYTES)


def count_records(data: bytes, header: Header) -> int:
    """Return the number of records in a file without decoding them."""
    return sum(count for count, _, _ in _frames(data, header))


def decode_blocks(data: bytes, header: Header) -> Iterator[Block]:
    """Yield the blocks of a file, decompressed. Damage is a ValueError."""
    for count, start, end in _frames(data, header):
        yield Block(count, decompress(data[start:end], header.codec))


def _frames(data: bytes, header: Header) -> Iterator[tuple[int, int, int]]:
    at = header.end
    while at < len(data):
        count, at = decode_long(data, at)
        size, at = decode_long(data, at)
        end = at + size
        if count < 0 or size < 0 or data[end : end + SYNC_BYTES] != header.sync:
            raise ValueError(f"the block before byte {at} is broken")
        yield count, at, end
        at = end + SYNC_BYTES


def _seal(metadata: Mapping[str, bytes], sync: bytes) -> bytes:
    checksum = zlib.crc32(sync)
    for key in sorted(metadata):
        checksum = zlib.crc32(b"%d:%b%d:%b" % (len(key), key.encode(), len(metadata[key]), metadata[key]), checksum)
    return b"%08x" % checksum


def compress(data: bytes, codec: str, level: int) -> bytes:
    """Compress the records of a block."""
    match codec:
        case "zstandard":
            return zstandard.ZstdCompressor(level=level, write_checksum=True).compress(data)
        case "snappy":
            packed: bytes = pa.Codec("snappy").compress(data, asbytes=True)
            return packed + zlib.crc32(data).to_bytes(4, "big")
        case "deflate":
            packer = zlib.compressobj(wbits=-15)
            return packer.compress(data) + packer.flush()
        case _:
            return data


def decompress(data: bytes, codec: str) -> bytes:
    """Decompress the records of a block; whatever is wrong with them is a ValueError."""
    match codec:
        case "null":
            return data
        case "zstandard":
            return _unzstd(data)
        case "snappy":
            return _unsnappy(data)
        case "deflate":
            unpacker = zlib.decompressobj(wbits=-15)
            out = unpacker.decompress(data, _BLOCK_BYTES_MAX)
            if not unpacker.eof:
                raise ValueError("a deflated block is cut short or too large")
            return out
        case "bzip2":
            return bz2.decompress(data)
        case "xz":
            return lzma.decompress(data)
        case _:
            raise UnsupportedError(f"the Avro codec {codec!r} is not supported", codec=codec)


def _unzstd(data: bytes) -> bytes:
    # Frames of other writers name no content size, so they are read as a stream.
    try:
        unpacker = zstandard.ZstdDecompressor().decompressobj()
        out = unpacker.decompress(data)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("a zstd frame does not fill its block")
    return out


def _unsnappy(data: bytes) -> bytes:
    size, _ = _unsigned(data, 0)
    if len(data) < SYNC_BYTES // 4 or size > _BLOCK_BYTES_MAX:
        raise ValueError("a snappy block has no sensible size")
    try:
        out: bytes = pa.Codec("snappy").decompress(data[:-4], decompressed_size=size, asbytes=True)
    except OSError as error:  # Arrow's word for damage
        raise ValueError(str(error)) from error
    if zlib.crc32(out) != int.from_bytes(data[-4:], "big"):
        raise ValueError("the checksum of a snappy block does not match")
    return out


def encode_long(value: int) -> bytes:
    """Return a number in Avro's zigzag form."""
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while rest > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def decode_long(data: bytes, at: int) -> tuple[int, int]:
    """Read a number in Avro's zigzag form; return it and the position behind it."""
    value, at = _unsigned(data, at)
    return (value >> 1) ^ -(value & 1), at


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(_VARINT_BYTES_MAX):
        if at + index >= len(data):
            raise ValueError("a number is cut short")
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if not byte & 0x80:
            return value, at + index + 1
    raise ValueError("a number has too many bytes")


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = decode_long(data, at)
    if size < 0 or at + size > len(data):
        raise ValueError("a text is cut short")
    return data[at : at + size], at + size

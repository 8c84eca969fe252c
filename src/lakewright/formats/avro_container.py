r"""Avro object container files: the frame around blocks of encoded records, with checksums.

A file is `Obj\x01`, a map of metadata (schema and codec), a 16-byte sync marker, then blocks: the number of records,
the number of bytes, the bytes, the sync marker. What lakewright writes carries checks that other readers look past: the
metadata key `lakewright.header-seal` holds the CRC-32 of all other metadata and the sync marker, and every block has a
checksum of its own. zstd frames and snappy blocks have room for one; behind a deflated block, where nobody looks,
stands the CRC-32 of its records. A block of the codec `null` has no such place, so records that are not to be
compressed are stored in deflated blocks of level 0, which every reader knows. Records are opaque bytes here.
"""

from __future__ import annotations

import bz2
import lzma
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import zstandard

from lakewright.errors import InvalidInputError, UnsupportedError

MAGIC = b"Obj\x01"
SEAL_KEY = "lakewright.header-seal"
SYNC_BYTES = 16
_VARINT_BYTES_MAX = 10
_BLOCK_BYTES_MAX = 512 << 20  # decompressed; writers close a block long before
_CRC_BYTES = 4
_ZSTD_WINDOW_BYTES_MAX = 128 << 20
_ZSTD_STEP_BYTES = 16 << 10
_CODECS = {
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "snappy": "snappy",
    "deflate": "deflate",
    "gzip": "deflate",
    "null": "deflate",
    "none": "deflate",
    "uncompressed": "deflate",
}
_UNCOMPRESSED = frozenset({"null", "none", "uncompressed"})


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
    sealed: bool  # by us, so that its blocks have checksums

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


def level_of(compression: str, zstd_level: int) -> int:
    """Return how hard the codec of a compression works, by its own count."""
    if compression in _UNCOMPRESSED:
        return 0
    return zstd_level if codec_of(compression) == "zstandard" else zlib.Z_DEFAULT_COMPRESSION


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
    return Header(metadata, sync, at + SYNC_BYTES, seal is not None)


def count_records(data: bytes, header: Header) -> int:
    """Return the number of records in a file without decoding them."""
    return sum(count for count, _, _ in _frames(data, header))


def decode_blocks(data: bytes, header: Header) -> Iterator[Block]:
    """Yield the blocks of a file, decompressed. Damage is a ValueError."""
    for count, start, end in _frames(data, header):
        block = Block(count, decompress(data[start:end], header.codec, sealed=header.sealed))
        if count > len(block.data):  # a record takes at least one byte
            raise ValueError(f"a block of {len(block.data)} bytes announces {count} records")
        yield block


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
            packer = zlib.compressobj(level, wbits=-15)
            return packer.compress(data) + packer.flush() + zlib.crc32(data).to_bytes(_CRC_BYTES, "big")
        case _:
            return data


def decompress(data: bytes, codec: str, *, sealed: bool = False) -> bytes:
    """Decompress the records of a block, which has a checksum if it is ours; damage is a ValueError."""
    match codec:
        case "null":
            return data
        case "zstandard":
            return _unzstd(data)
        case "snappy":
            return _unsnappy(data)
        case "deflate":
            return _undeflate(data, sealed=sealed)
        case "bzip2":
            return _whole(bz2.BZ2Decompressor(), data)
        case "xz":
            return _whole(lzma.LZMADecompressor(memlimit=_BLOCK_BYTES_MAX), data)
        case _:
            raise UnsupportedError(f"the Avro codec {codec!r} is not supported", codec=codec)


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def _whole(unpacker: _Decompressor, data: bytes) -> bytes:
    try:
        out = unpacker.decompress(data, _BLOCK_BYTES_MAX)
    except (OSError, lzma.LZMAError) as error:  # their words for damage
        raise ValueError(str(error)) from error
    if not unpacker.eof:
        raise ValueError("a compressed block is cut short or too large")
    return out


def _undeflate(data: bytes, *, sealed: bool) -> bytes:
    unpacker = zlib.decompressobj(wbits=-15)
    out = _whole(unpacker, data)
    # What others leave behind their blocks is not looked at.
    if sealed and unpacker.unused_data != zlib.crc32(out).to_bytes(_CRC_BYTES, "big"):
        raise ValueError("the checksum of a deflated block does not match")
    return out


def _unzstd(data: bytes) -> bytes:
    # Frames of other writers name no content size: they are fed in steps, so that none can grow far beyond the limit.
    out = bytearray()
    fed = 0
    try:
        known = zstandard.frame_content_size(data)
        unpacker = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX).decompressobj()
        step = _ZSTD_STEP_BYTES if known < 0 else len(data)
        while fed < len(data) and not unpacker.eof and max(known, len(out)) <= _BLOCK_BYTES_MAX:
            out += unpacker.decompress(data[fed : fed + step])
            fed += step
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
    if not unpacker.eof or unpacker.unused_data or fed < len(data):
        raise ValueError("a zstd frame does not fill its block, or is too large")
    return bytes(out)


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

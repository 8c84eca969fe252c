"""The tail of an ORC file: what Arrow does not tell.

A file is `ORC`, stripes, metadata, footer, postscript and one byte with the postscript's length; each of the last four
is found from the end. Metadata, footer and postscript are protobuf messages, the first two compressed in chunks with a
3-byte head (little endian: twice the length, plus one if the chunk is stored as it is).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import zstandard

from lakewright.errors import UnsupportedError

MAGIC = b"ORC"
TAIL_BYTES_MAX = 256 + 16 * 1024 * 1024  # of postscript, footer and metadata together
_FOOTER_BYTES, _COMPRESSION, _BLOCK_BYTES, _METADATA_BYTES, _PS_MAGIC = 1, 2, 3, 5, 8000  # of the postscript
_STRIPES, _TYPES, _STATISTICS = 3, 4, 7  # of the footer
_STRIPE_ROWS = 5  # of a stripe
_SUBTYPES, _FIELD_NAMES = 2, 3  # of a type
_TIMESTAMP_STATISTICS = 9  # of column statistics
END_BYTES = 256  # a postscript is at most 255 bytes
TIMESTAMP_MILLIS_MAX = 9_223_372_036_854 - 1000  # timestamp[ns] ends here, a second kept clear for roundings
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_HEAD_BYTES = 3


@dataclass(frozen=True, slots=True)
class Postscript:
    """The last message of a file: how long the others are and how they are compressed."""

    footer_bytes: int
    metadata_bytes: int
    compression: int
    block_bytes: int
    own_bytes: int  # with the length byte

    @property
    def tail_bytes(self) -> int:
        """The number of bytes behind the stripes, without a checksum trailer."""
        return self.metadata_bytes + self.footer_bytes + self.own_bytes


def read_postscript(end: bytes) -> Postscript:
    """Read the postscript from the last bytes of a file (256 suffice). Damage is a ValueError."""
    own = end[-1] if end else 0
    message = end[-1 - own : -1]
    numbers = {key: value for key, value in _fields(message) if isinstance(value, int)}
    texts = {key: value for key, value in _fields(message) if isinstance(value, bytes)}
    if len(message) != own or texts.get(_PS_MAGIC) != MAGIC:
        raise ValueError("it does not end like an ORC file")
    return Postscript(
        numbers.get(_FOOTER_BYTES, 0),
        numbers.get(_METADATA_BYTES, 0),
        numbers.get(_COMPRESSION, 0),
        numbers.get(_BLOCK_BYTES, 256 * 1024),
        own + 1,
    )


def stripe_rows(tail: bytes, postscript: Postscript) -> list[int]:
    """Return how many rows each stripe has."""
    stripes = [dict(_fields(value)) for key, value in _fields(_footer(tail, postscript)) if key == _STRIPES
               and isinstance(value, bytes)]  # fmt: skip
    counts = [stripe.get(_STRIPE_ROWS, 0) for stripe in stripes]
    return [count for count in counts if isinstance(count, int)]


def _footer(tail: bytes, postscript: Postscript) -> bytes:
    start = len(tail) - postscript.own_bytes - postscript.footer_bytes
    return _decompress(tail[start : start + postscript.footer_bytes], postscript)


def timestamp_bounds(tail: bytes, postscript: Postscript) -> dict[str, tuple[int, int]]:
    """Return, for each column with timestamps anywhere in it, their least and greatest millisecond in the file."""
    types: list[tuple[list[int], list[str]]] = []
    bounds: list[tuple[int, int] | None] = []
    for key, value in _fields(_footer(tail, postscript)):
        if key == _TYPES and isinstance(value, bytes):
            types.append(_type(value))
        elif key == _STATISTICS and isinstance(value, bytes):
            bounds.append(_bounds(value))
    if not types or len(types[0][0]) != len(types[0][1]):
        raise ValueError("its footer describes no columns")
    out: dict[str, tuple[int, int]] = {}
    for name, root in zip(types[0][1], types[0][0], strict=True):
        pairs = [pair for node in _subtree(types, root) if node < len(bounds) and (pair := bounds[node]) is not None]
        if pairs:
            out[name] = (min(low for low, _ in pairs), max(high for _, high in pairs))
    return out


def timestamp_out_of_range(column: str, where: str, path: str | None = None) -> UnsupportedError:
    """Return the error for timestamps that Arrow cannot decode; `where` says which rows or file has them."""
    return UnsupportedError(
        f"the column {column!r} of {where} has timestamps before 1677 or after 2262, which the ORC codec cannot hold; "
        "use file.format=parquet for such a table, or leave the column out",
        column=column,
        path=path,
    )


def _type(message: bytes) -> tuple[list[int], list[str]]:
    children: list[int] = []
    names: list[str] = []
    for key, value in _fields(message):
        if key == _SUBTYPES:
            children += [value] if isinstance(value, int) else _unpack_varints(value)
        elif key == _FIELD_NAMES and isinstance(value, bytes):
            names.append(value.decode())
    return children, names


def _subtree(types: list[tuple[list[int], list[str]]], root: int) -> list[int]:
    nodes = [root]
    for node in nodes:  # grows while it is walked; children come after their parents, so it ends
        nodes += [child for child in types[node][0] if child > node]
    return nodes


def _bounds(message: bytes) -> tuple[int, int] | None:
    for key, value in _fields(message):
        if key == _TIMESTAMP_STATISTICS and isinstance(value, bytes):
            # 1 and 2 are the bounds in the writer's zone, 3 and 4 in UTC; zigzag coded.
            millis = [(n >> 1) ^ -(n & 1) for k, n in _fields(value) if k <= 4 and isinstance(n, int)]  # noqa: PLR2004
            return (min(millis), max(millis)) if millis else None
    return None


def _decompress(data: bytes, postscript: Postscript) -> bytes:
    if postscript.compression == 0:
        return data
    out = bytearray()
    at = 0
    while at < len(data):
        head = int.from_bytes(data[at : at + _HEAD_BYTES], "little")
        at += _HEAD_BYTES
        chunk = data[at : at + (head >> 1)]
        if len(chunk) != head >> 1:
            raise ValueError("a chunk of its footer is cut short")
        out += chunk if head & 1 else _unpack(chunk, postscript)
        at += len(chunk)
    return bytes(out)


def _unpack(chunk: bytes, postscript: Postscript) -> bytes:
    match postscript.compression:
        case 1:
            return zlib.decompressobj(wbits=-15).decompress(chunk, postscript.block_bytes)
        case 5:
            try:
                return zstandard.ZstdDecompressor().decompress(chunk, max_output_size=postscript.block_bytes)
            except zstandard.ZstdError as error:
                raise ValueError(str(error)) from error
        case 2:
            size, _ = _varint(chunk, 0)
            if size > postscript.block_bytes:
                raise ValueError("a chunk of its footer is too large")
            return bytes(pa.Codec("snappy").decompress(chunk, decompressed_size=size, asbytes=True))
        case 4:
            size = _lz4_size(chunk)
            if size > postscript.block_bytes:
                raise ValueError("a chunk of its footer is too large")
            return bytes(pa.Codec("lz4_raw").decompress(chunk, decompressed_size=size, asbytes=True))
        case other:
            raise ValueError(f"the compression {other} of its footer is not known")


def _lz4_size(chunk: bytes) -> int:
    """Return the decompressed size of an LZ4 block, which is not stored: the sizes of its sequences are added up."""
    size = at = 0
    try:
        while at < len(chunk):
            token = chunk[at]
            literals, at = _lz4_count(chunk, at + 1, token >> 4)
            size, at = size + literals, at + literals
            if at < len(chunk):
                copied, at = _lz4_count(chunk, at + 2, token & 15)
                size += copied + 4
    except IndexError:
        raise ValueError("a chunk of its footer is cut short") from None
    return size


def _lz4_count(chunk: bytes, at: int, count: int) -> tuple[int, int]:
    """Return a count and the position after it: four bits, and if all are ones, bytes up to one below 255."""
    if count < 15:  # noqa: PLR2004
        return count, at
    while chunk[at] == 255:  # noqa: PLR2004
        count, at = count + 255, at + 1
    return count + chunk[at], at + 1


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        value: int | bytes
        if kind == _VARINT:
            value, at = _varint(message, at)
        elif kind in {_FIXED64, _FIXED32, _BYTES}:
            size, at = _varint(message, at) if kind == _BYTES else (8 if kind == _FIXED64 else 4, at)
            value = message[at : at + size]
            at += size
        else:
            raise ValueError("a message of its footer is broken")
        if at > len(message):
            raise ValueError("a message of its footer is cut short")
        yield tag >> 3, value


def _unpack_varints(data: bytes) -> list[int]:
    out = []
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        out.append(value)
    return out


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:  # noqa: PLR2004 - ten bytes of seven bits
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last byte
            return value, at
        shift += 7
    raise ValueError("a number of its footer is cut short")

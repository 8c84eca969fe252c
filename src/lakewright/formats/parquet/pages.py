"""Checks of the headers of parquet pages against the footer: the bytes of column chunks in, a ValueError for damage.

A page's checksum covers its data, not its header, and decoders trust the header: one flipped bit in a row count moves
every later value of the column by one row. The footer, which is sealed, has the number of values and bytes of a column
chunk and its encodings; headers that do not add up to these are damaged. Which of the encodings a page has follows from
the order in which Arrow writes: after a dictionary all pages refer to it, until it is too large and the remaining pages
are plain. Only files with a seal are checked, and they have the short headers that Arrow writes: one regular expression
reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from lakewright.formats.base import Input
from lakewright.formats.parquet.thrift import BINARY, Field, read_struct

# A page header is a Thrift struct in the compact form: type, uncompressed size, compressed size, checksum (numbers 1 to
# 4, each `15` and a varint), then either the header of a data page (5: values, encoding, and RLE for both levels) or of
# a dictionary page (7: values, encoding, and perhaps a flag for sorted entries).
_VARINT = rb"([\x80-\xff]{0,4}[\x00-\x7f])"
_HEADER = re.compile(
    b"\x15([\x00\x04])\x15" + _VARINT + b"\x15" + _VARINT + b"\x15(?:[\x80-\xff]{0,4}[\x00-\x7f])"
    b"(?:\x1c\x15" + _VARINT + b"\x15" + _VARINT + b"\x15\x06\x15\x06"
    b"|\x3c\x15" + _VARINT + b"\x15" + _VARINT + b"[\x11\x12]?)"
    b"\x00\x00",
    re.DOTALL,
)
_DATA = b"\x00"
_ABSENT = Field(BINARY, b"")
_PLAIN = 0
_DICTIONARY_BYTES_MAX = 1 << 20  # from this size on Arrow stops using the dictionary
_ENCODINGS = {"PLAIN": _PLAIN, "PLAIN_DICTIONARY": 2, "RLE": 3, "RLE_DICTIONARY": 8}


Buffer: TypeAlias = "bytes | pa.Buffer"


@dataclass(frozen=True, slots=True)
class Chunk:
    """One column of one row group, as the footer describes it."""

    start: int
    byte_count: int
    value_count: int
    encodings: frozenset[int]

    @classmethod
    def of(cls, column: pq.ColumnChunkMetaData) -> Chunk:
        """Return the facts of a column chunk."""
        start = column.dictionary_page_offset or column.data_page_offset
        known = frozenset(_ENCODINGS[name] for name in column.encodings if name in _ENCODINGS)
        return cls(start, column.total_compressed_size, column.num_values, known)


@dataclass(frozen=True, slots=True)
class _Page:
    data: bool  # or a dictionary
    byte_count: int
    value_count: int
    encoding: int
    start: int  # of its bytes, behind the header
    decoded_bytes: int


def check_pages(data: bytes | memoryview, chunk: Chunk) -> None:
    """Walk the pages of a column chunk; a ValueError if their headers contradict the footer."""
    at = values = 0
    dictionary_bytes: int | None = None
    plain = False  # whether the last page had plain values
    while at < len(data):
        page = _page(data, at)
        if not page.data:
            if at:
                raise ValueError(f"the dictionary at byte {chunk.start + at} does not come first")
            dictionary_bytes = page.decoded_bytes
        elif dictionary_bytes is not None:
            if (page.encoding == _PLAIN and dictionary_bytes < _DICTIONARY_BYTES_MAX) or (page.encoding and plain):
                raise ValueError(f"the page at byte {chunk.start + at} has an encoding that cannot be right")
            plain = page.encoding == _PLAIN
        if page.byte_count < 0 or page.value_count < 0:
            raise ValueError(f"the page at byte {chunk.start + at} has a size or a count below zero")
        if page.encoding not in chunk.encodings:
            raise ValueError(f"the page at byte {chunk.start + at} has an encoding that its column does not have")
        values += page.value_count if page.data else 0
        at = page.start + page.byte_count
    if at != len(data) or values != chunk.value_count:
        raise ValueError(f"the pages from byte {chunk.start} on hold {values} values instead of {chunk.value_count}")


def _page(data: bytes | memoryview, at: int) -> _Page:
    match = _HEADER.match(data, at)
    if match is None:
        return _rare_page(data, at)
    kind, decoded_size, size, count, encoding, entries, entry_encoding = match.groups()
    if (kind == _DATA) != (count is not None):
        raise ValueError("a page is of the wrong kind")
    return _Page(
        count is not None,
        _number(size),
        _number(count or entries),
        _number(encoding or entry_encoding),
        match.end(),
        _number(decoded_size),
    )


def _rare_page(data: bytes | memoryview, at: int) -> _Page:
    """Read a header with parts that Arrow does not write today: statistics, or data pages of version 2."""
    header, end = read_struct(data, at)
    for kind, member, encoding in ((0, 5, 2), (2, 7, 2), (3, 8, 4)):
        inner = header.get(member, _ABSENT).value
        if header.get(1, _ABSENT).value == kind and isinstance(inner, dict):
            places = ((header, 3), (inner, 1), (inner, encoding), (header, 2))
            values = [fields.get(number, _ABSENT).value for fields, number in places]
            numbers = [value for value in values if isinstance(value, int)]
            if len(numbers) == len(places):
                size, count, code, decoded_size = numbers
                return _Page(kind != 2, size, count, code, end, decoded_size)  # noqa: PLR2004 - a dictionary
    raise ValueError("a page has a broken header")


def _number(varint: bytes) -> int:
    """Return a signed number from its zigzag form."""
    value = 0
    for shift, byte in enumerate(varint):
        value |= (byte & 0x7F) << (7 * shift)
    return (value >> 1) ^ -(value & 1)


class CheckedSource:
    """A file object for Arrow's reader that checks the pages of column chunks when they are read."""

    def __init__(self, source: Input) -> None:
        self.closed = False
        self._source = source
        # Arrow's files read into memory that Arrow uses again, unlike the memory of a bytes object.
        self._read = getattr(source, "read_buffer", source.read)
        self._position = 0
        self._expected: dict[int, Chunk] = {}

    def expect(self, chunks: Iterable[Chunk]) -> None:
        """Set the chunks that will be read next."""
        self._expected = {chunk.start: chunk for chunk in chunks}

    def finish(self) -> None:
        """Check the chunks that were not read in one piece."""
        for chunk in list(self._expected.values()):
            self.seek(chunk.start)
            self.read_buffer(chunk.byte_count)
        if self._expected:
            raise ValueError("it ends before the last of its column chunks")

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        return bytes(self.read_buffer(size))

    def read_buffer(self, size: int = -1) -> Buffer:
        """Return the next bytes; this is what Arrow calls."""
        self._source.seek(self._position)
        data: Buffer = self._read(size)
        view = memoryview(data)
        start, end = self._position, self._position + view.nbytes
        self._position = end
        for chunk in [c for c in self._expected.values() if start <= c.start and c.start + c.byte_count <= end]:
            check_pages(view[chunk.start - start : chunk.start - start + chunk.byte_count], chunk)
            del self._expected[chunk.start]
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a position."""
        if whence == 0:
            self._position = offset
        elif whence == 1:
            self._position += offset
        else:
            self._position = self._source.seek(offset, whence)
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def close(self) -> None:
        """Do nothing: the reader closes the file."""

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def writable(self) -> bool:
        """Return False."""
        return False

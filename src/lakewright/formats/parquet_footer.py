"""Thrift of footers and page headers: checks, joining of footers."""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pyarrow.parquet as pq

from lakewright.formats.file_format import Input

if TYPE_CHECKING:
    import pyarrow as pa


# ---- Thrift, compact protocol ----------------------------------------------------------------------------------------
# A struct is a dict from field numbers to `Field`s in the order of the bytes, without the meaning of the fields: a
# struct that is read, changed in one place and written again keeps every field that is unknown here. The reader is
# strict: it accepts only the shortest form of every number and header, which is what writers make, so that writing a
# struct that was read gives the same bytes. Everything else is a ValueError, and so is a map: parquet has none.
#
# The form, as far as parquet uses it. A number is a varint (seven bits per byte, the lowest first), signed ones are
# zigzag coded first (0, -1, 1, -2 become 0, 1, 2, 3). A field starts with a byte of two halves: the difference of its
# number to the last one, and its kind; if the difference is not 1 to 15, the first half is 0 and the number follows,
# signed. A struct ends with a zero byte. A binary is its length and its bytes. A list starts with a byte of two
# halves, length and kind; a length from 15 on follows as a number. A boolean field has its value in its kind, a
# boolean in a list is a byte.

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, _MAP, STRUCT = range(1, 13)

_BITS = {I16: 16, I32: 32, I64: 64}
_VARINT_BYTES_MAX, _DOUBLE_BYTES = 10, 8
_MORE = 128  # this bit of a byte is set if another byte of the number follows
_SHORT_LENGTH_MAX = 14  # a longer list has 15 here and its length behind
_SHORT_STEP_MAX = 15
_DEPTH_MAX = 16


class Field(NamedTuple):
    """One value of a struct with its kind; `TRUE` and `FALSE` are kinds, their values are True and False."""

    kind: int
    value: Value


class Items(NamedTuple):
    """The elements of a list or a set, all of one kind; booleans and bytes are numbers here."""

    kind: int
    values: list[Value]


Struct: TypeAlias = dict[int, Field]
# A double is kept as its eight bytes, so that every NaN keeps its bits.
Value: TypeAlias = "bool | int | bytes | Items | Struct"


def read_struct(data: bytes | memoryview, at: int = 0, *, raw_from: int | None = None) -> tuple[Struct, int]:
    """Return the struct that starts at a position, and the position behind it.

    Structs that are nested in `raw_from` structs and lists stay bytes and are not checked, which is much faster.

    >>> read_struct(bytes.fromhex("150c18017800"))
    ({1: Field(kind=5, value=6), 2: Field(kind=8, value=b'x')}, 6)
    """
    try:
        return _read_struct(data, at, _Depth(0, raw_from))
    except IndexError:
        raise ValueError("a Thrift struct has no end") from None


def write_struct(fields: Struct) -> bytes:
    """Return the bytes of a struct.

    >>> write_struct({1: Field(I32, 6), 2: Field(BINARY, b"x")}).hex()
    '150c18017800'
    """
    out = bytearray()
    _write_struct(out, fields)
    return bytes(out)


def moved_struct(data: bytes, numbers: Collection[int], shift: int) -> bytes:
    """Return the bytes of a struct with `shift` added to the values of the fields with these numbers.

    >>> moved_struct(bytes.fromhex("150c18017800"), {1}, 2).hex()
    '151018017800'
    """
    out = bytearray()
    at = copied = number = 0
    while head := data[at]:
        at += 1
        kind = head & 15
        if head > kind:
            number += head >> 4
        else:
            number, at = _read_signed(data, at, I16)
        if number in numbers:
            out += data[copied:at]
            value, copied = _read_signed(data, at, kind)
            _write_unsigned(out, _zigzag(value + shift))
        at = at if kind in {TRUE, FALSE} else _skip(data, at, kind)
    return bytes(out + data[copied:])


def number_of(field: Field) -> int:
    """Return the number that a field holds."""
    if not isinstance(field.value, int):
        raise ValueError(f"a Thrift field has the kind {field.kind} instead of a number")  # noqa: TRY004 - bytes
    return field.value


def struct_of(field: Field) -> Struct:
    """Return the struct that a field holds."""
    if not isinstance(field.value, dict):
        raise ValueError(f"a Thrift field has the kind {field.kind} instead of a struct")  # noqa: TRY004 - bytes
    return field.value


def structs_of(field: Field) -> list[Struct]:
    """Return the structs of the list that a field holds."""
    values = field.value.values if isinstance(field.value, Items) else []
    return [value for value in values if isinstance(value, dict)]


class _Depth(NamedTuple):
    """The number of structs and lists around a value, and the depth at which structs are copied, not read."""

    at: int
    raw_from: int | None

    def below(self) -> _Depth:
        return _Depth(self.at + 1, self.raw_from)


def _read_struct(data: bytes | memoryview, at: int, depth: _Depth) -> tuple[Struct, int]:
    fields: Struct = {}
    number = 0
    below = depth.below()
    while head := data[at]:
        at += 1
        kind = head & 15
        if head > kind:
            number += head >> 4
        else:
            last = number
            number, at = _read_signed(data, at, I16)
            if 0 < number - last <= _SHORT_STEP_MAX or number in fields:
                raise ValueError(f"the number of field {number} of a Thrift struct is not in its shortest form")
        value: Value = kind == TRUE
        if kind not in {TRUE, FALSE}:
            value, at = _read_value(data, at, kind, below)
        fields[number] = Field(kind, value)
    return fields, at + 1


def _read_value(data: bytes | memoryview, at: int, kind: int, depth: _Depth) -> tuple[Value, int]:
    if kind in _BITS:
        return _read_signed(data, at, kind)
    if kind == BINARY:
        length, at = _read_unsigned(data, at)
        return _read_bytes(data, at, length)
    if kind == STRUCT and depth.at == depth.raw_from:
        end = _skip(data, at, kind)
        return bytes(data[at:end]), end
    if kind == STRUCT and depth.at <= _DEPTH_MAX:
        return _read_struct(data, at, depth)
    if kind in {LIST, SET} and depth.at <= _DEPTH_MAX:
        return _read_items(data, at, depth)
    if kind == DOUBLE:
        return _read_bytes(data, at, _DOUBLE_BYTES)
    if kind in {TRUE, FALSE, BYTE}:  # in a list
        return data[at], at + 1
    raise ValueError(f"a Thrift struct has a value of the kind {kind}, or is too deep")


def _read_items(data: bytes | memoryview, at: int, depth: _Depth) -> tuple[Items, int]:
    length, kind = data[at] >> 4, data[at] & 15
    at += 1
    if length > _SHORT_LENGTH_MAX:
        length, at = _read_unsigned(data, at)
        if length <= _SHORT_LENGTH_MAX:
            raise ValueError("the length of a Thrift list is not in its shortest form")
    values: list[Value] = []
    below = depth.below()
    for _ in range(length):  # an element takes at least one byte, so this ends with the data
        value, at = _read_value(data, at, kind, below)
        values.append(value)
    return Items(kind, values), at


def _skip(data: bytes | memoryview, at: int, kind: int) -> int:
    """Return the position behind a value, which must be well formed."""
    if kind in _BITS:
        while data[at] >= _MORE:
            at += 1
        return at + 1
    if kind == BINARY:
        length, at = _read_unsigned(data, at)
        return at + length
    if kind == STRUCT:
        while head := data[at]:
            kind = head & 15
            at = at + 1 if head > kind else _skip(data, at + 1, I16)
            if kind > FALSE:
                at = _skip(data, at, kind)
        return at + 1
    if kind in {LIST, SET}:
        length, kind = data[at] >> 4, data[at] & 15
        at += 1
        if length > _SHORT_LENGTH_MAX:
            length, at = _read_unsigned(data, at)
        for _ in range(length):
            at = _skip(data, at, kind)
        return at
    return at + (_DOUBLE_BYTES if kind == DOUBLE else 1)


def _read_bytes(data: bytes | memoryview, at: int, length: int) -> tuple[bytes, int]:
    if length > len(data) - at:
        raise ValueError("a Thrift binary has no end")
    return bytes(data[at : at + length]), at + length


def _read_signed(data: bytes | memoryview, at: int, kind: int) -> tuple[int, int]:
    number, at = _read_unsigned(data, at)
    if number >> _BITS[kind]:
        raise ValueError(f"a Thrift number has more than {_BITS[kind]} bits")
    return (number >> 1) ^ -(number & 1), at


def _read_unsigned(data: bytes | memoryview, at: int) -> tuple[int, int]:
    number = data[at]
    if number < _MORE:
        return number, at + 1
    number -= _MORE
    for place in range(1, _VARINT_BYTES_MAX):
        byte = data[at + place]
        number |= (byte & ~_MORE) << (7 * place)
        if byte < _MORE:
            if not byte:
                break
            return number, at + place + 1
    raise ValueError("a Thrift number is too long, or not in its shortest form")


def _write_struct(out: bytearray, fields: Struct) -> None:
    last = 0
    for number, field in fields.items():
        step = number - last
        last = number
        if 0 < step <= _SHORT_STEP_MAX:
            out.append(step << 4 | field.kind)
        else:
            out.append(field.kind)
            _write_unsigned(out, _zigzag(number))
        if field.kind > FALSE:
            _write_value(out, field.kind, field.value)
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Value) -> None:
    match value:
        case int() if kind in _BITS:
            _write_unsigned(out, _zigzag(value))
        case int() if kind <= BYTE:
            out.append(value)
        case bytes():
            if kind == BINARY:
                _write_unsigned(out, len(value))
            out += value
        case Items(inner, values):
            _write_items(out, inner, values)
        case dict():
            _write_struct(out, value)
        case _:
            raise ValueError(f"{value!r} cannot be written as a Thrift value of the kind {kind}")


def _write_items(out: bytearray, kind: int, values: list[Value]) -> None:
    out.append(min(len(values), _SHORT_LENGTH_MAX + 1) << 4 | kind)
    if len(values) > _SHORT_LENGTH_MAX:
        _write_unsigned(out, len(values))
    for value in values:
        _write_value(out, kind, value)


def _zigzag(number: int) -> int:
    return number << 1 if number >= 0 else ~(number << 1)


def _write_unsigned(out: bytearray, number: int) -> None:
    while number >= _MORE:
        out.append(number & 0xFF | _MORE)
        number >>= 7
    out.append(number)


# ---- Checks of page headers ------------------------------------------------------------------------------------------
# A page's checksum covers its data, not its header, and decoders trust the header: one flipped bit in a row count
# moves every later value of the column by one row. The footer, which is sealed, has the number of values and bytes of
# a column chunk and its encodings; headers that do not add up to these are damaged. Which of the encodings a page has
# follows from the order in which Arrow writes: after a dictionary all pages refer to it, until it is too large and
# the remaining pages are plain. Only files with a checksum trailer are checked, and they have the short headers that
# Arrow writes: one regular expression reads them.

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
class ColumnChunk:
    """One column of one row group, as the footer describes it."""

    start: int
    byte_count: int
    value_count: int
    encodings: frozenset[int]

    @classmethod
    def of(cls, column: pq.ColumnChunkMetaData) -> ColumnChunk:
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


def check_pages(data: bytes | memoryview, chunk: ColumnChunk) -> None:
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
        self._expected: dict[int, ColumnChunk] = {}

    def expect(self, chunks: Iterable[ColumnChunk]) -> None:
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


# ---- Joining footers -------------------------------------------------------------------------------------------------
# Row groups are encoded in several threads, each as a parquet file in memory, called a piece. The pages of the pieces
# are copied one behind the other; a page does not contain its place in the file. The footer and the offset indexes
# do: their offsets are changed here. The page indexes of all pieces come behind the last page, as in every other
# file, so that a reader gets them with one read.

MAGIC = b"PAR1"
END = struct.Struct("<I4s")  # the length of the footer and the magic: the last eight bytes of a file

# Fields of parquet's structs that hold an offset into the file, or count rows.
_NUM_ROWS, _ROW_GROUPS = 3, 4  # of FileMetaData
_COLUMNS, _GROUP_OFFSET, _ORDINAL = 1, 5, 7  # of RowGroup
_CHUNK_OFFSET, _METADATA, _OFFSET_INDEX, _OFFSET_INDEX_BYTES, _COLUMN_INDEX = 2, 3, 4, 5, 6  # of ColumnChunk
_CHUNK_METADATA_DEPTH = 5  # the footer, a list, a row group, a list, a chunk
_PAGE_OFFSETS = frozenset(
    {9, 10, 11}
)  # of ColumnMetaData: data page, index page, dictionary; there are no bloom filters
_LOCATIONS = 1  # of OffsetIndex
_LOCATION_OFFSET = 1  # of PageLocation


@dataclass(frozen=True, slots=True)
class Tail:
    """The bytes that follow the pages of a piece."""

    data_end: int  # where the pages of the piece end and its page indexes begin
    indexes: bytes
    footer: bytes  # without its length and the magic


class JoinedTail:
    """The tail of a file with the pages of several pieces."""

    def __init__(self, first: Tail) -> None:
        self._groups: list[Struct] = []
        self._indexes: list[tuple[list[Struct], bytes]] = []  # the chunks of each piece, and what they point to
        self._metadata, _ = read_struct(first.footer, raw_from=_CHUNK_METADATA_DEPTH)
        self._move(first, structs_of(self._metadata[_ROW_GROUPS]), 0)

    def add(self, tail: Tail, shift: int) -> None:
        """Add a piece whose pages lie `shift` bytes further on than in the piece."""
        metadata, _ = read_struct(tail.footer, raw_from=_CHUNK_METADATA_DEPTH)
        self._metadata[_NUM_ROWS] = Field(I64, number_of(self._metadata[_NUM_ROWS]) + number_of(metadata[_NUM_ROWS]))
        self._move(tail, structs_of(metadata[_ROW_GROUPS]), shift)

    def finish(self, data_end: int) -> tuple[bytes, bytes]:
        """Return the page indexes, which are behind the last page, and the footer."""
        out = bytearray()
        for chunks, indexes in self._indexes:
            for chunk in chunks:  # their offsets count from the first index of the piece
                for field in chunk.keys() & {_OFFSET_INDEX, _COLUMN_INDEX}:
                    chunk[field] = _shift_offset(chunk[field], data_end + len(out))
            out += indexes
        groups = self._metadata[_ROW_GROUPS]
        kind = groups.value.kind if isinstance(groups.value, Items) else STRUCT
        self._metadata[_ROW_GROUPS] = Field(groups.kind, Items(kind, list(self._groups)))
        return bytes(out), write_struct(self._metadata)

    def _move(self, tail: Tail, groups: list[Struct], shift: int) -> None:
        chunks = [chunk for group in groups for chunk in structs_of(group[_COLUMNS])]
        for group in groups:
            if _GROUP_OFFSET in group:
                group[_GROUP_OFFSET] = _shift_offset(group[_GROUP_OFFSET], shift)
            if _ORDINAL in group:
                group[_ORDINAL] = group[_ORDINAL]._replace(value=len(self._groups))
            self._groups.append(group)
        for chunk in chunks:
            if number_of(chunk.get(_CHUNK_OFFSET, _NONE)):  # zero means that it is not given
                chunk[_CHUNK_OFFSET] = _shift_offset(chunk[_CHUNK_OFFSET], shift)
            metadata = chunk[_METADATA].value
            if shift and isinstance(metadata, bytes):
                chunk[_METADATA] = Field(STRUCT, moved_struct(metadata, _PAGE_OFFSETS, shift))
        self._indexes.append((chunks, _moved_indexes(tail, chunks, shift)))


_NONE = Field(I64, 0)


def _moved_indexes(tail: Tail, chunks: list[Struct], shift: int) -> bytes:
    """Return the page indexes of a piece whose pages move by `shift` bytes.

    The offsets of the indexes in `chunks` then count from the start of the returned bytes.
    """
    out = bytearray()
    start = end = 0
    for chunk in chunks:  # column indexes hold no offsets
        if _COLUMN_INDEX in chunk:
            start = number_of(chunk[_COLUMN_INDEX]) - tail.data_end
            end = max(end, start + number_of(chunk[_COLUMN_INDEX + 1]))
            chunk[_COLUMN_INDEX] = _shift_offset(chunk[_COLUMN_INDEX], -tail.data_end)
    out += tail.indexes[:end]
    for chunk in chunks:
        if _OFFSET_INDEX in chunk:
            index, _ = read_struct(tail.indexes, number_of(chunk[_OFFSET_INDEX]) - tail.data_end)
            for location in structs_of(index[_LOCATIONS]):
                location[_LOCATION_OFFSET] = _shift_offset(location[_LOCATION_OFFSET], shift)
            data = write_struct(index)
            chunk[_OFFSET_INDEX] = Field(I64, len(out))
            chunk[_OFFSET_INDEX_BYTES] = chunk[_OFFSET_INDEX_BYTES]._replace(value=len(data))
            out += data
    return bytes(out)


def _shift_offset(field: Field, shift: int) -> Field:
    return field._replace(value=number_of(field) + shift)

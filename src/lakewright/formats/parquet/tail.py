"""The tails of several parquet files in, the tail of one file with all their row groups out.

Row groups are encoded in several threads, each as a parquet file in memory, called a piece. The pages of the pieces are
copied one behind the other; a page does not contain its place in the file. The footer and the offset indexes do: their
offsets are changed here. The page indexes of all pieces come behind the last page, as in every other file, so that a
reader gets them with one read.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from lakewright.formats.parquet.thrift import (
    I64,
    STRUCT,
    Field,
    Items,
    Struct,
    moved_struct,
    number_of,
    read_struct,
    structs_of,
    write_struct,
)

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
        """Return the page indexes, which lie behind the last page, and the footer."""
        out = bytearray()
        for chunks, indexes in self._indexes:
            for chunk in chunks:  # their offsets count from the first index of the piece
                for field in chunk.keys() & {_OFFSET_INDEX, _COLUMN_INDEX}:
                    chunk[field] = _moved(chunk[field], data_end + len(out))
            out += indexes
        groups = self._metadata[_ROW_GROUPS]
        kind = groups.value.kind if isinstance(groups.value, Items) else STRUCT
        self._metadata[_ROW_GROUPS] = Field(groups.kind, Items(kind, list(self._groups)))
        return bytes(out), write_struct(self._metadata)

    def _move(self, tail: Tail, groups: list[Struct], shift: int) -> None:
        chunks = [chunk for group in groups for chunk in structs_of(group[_COLUMNS])]
        for group in groups:
            if _GROUP_OFFSET in group:
                group[_GROUP_OFFSET] = _moved(group[_GROUP_OFFSET], shift)
            if _ORDINAL in group:
                group[_ORDINAL] = group[_ORDINAL]._replace(value=len(self._groups))
            self._groups.append(group)
        for chunk in chunks:
            if number_of(chunk.get(_CHUNK_OFFSET, _NONE)):  # zero means that it is not given
                chunk[_CHUNK_OFFSET] = _moved(chunk[_CHUNK_OFFSET], shift)
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
            chunk[_COLUMN_INDEX] = _moved(chunk[_COLUMN_INDEX], -tail.data_end)
    out += tail.indexes[:end]
    for chunk in chunks:
        if _OFFSET_INDEX in chunk:
            index, _ = read_struct(tail.indexes, number_of(chunk[_OFFSET_INDEX]) - tail.data_end)
            for location in structs_of(index[_LOCATIONS]):
                location[_LOCATION_OFFSET] = _moved(location[_LOCATION_OFFSET], shift)
            data = write_struct(index)
            chunk[_OFFSET_INDEX] = Field(I64, len(out))
            chunk[_OFFSET_INDEX_BYTES] = chunk[_OFFSET_INDEX_BYTES]._replace(value=len(data))
            out += data
    return bytes(out)


def _moved(field: Field, shift: int) -> Field:
    return field._replace(value=number_of(field) + shift)

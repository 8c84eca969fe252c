"""Descriptors of BLOB values: in which resource the bytes of a value are stored, and where in it.

A column of descriptors is a `large_binary` array in the serialised form of the format, so that it travels and is
filtered like any other column; only what asks for bytes reads them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewright.errors import InvalidInputError

TO_END = -1  # the length of a value that reaches to the end of its resource
MAGIC = b"CSEDBOLB"
_VERSION = 2
_HEAD = struct.Struct("<B8si")  # version, magic, length of the URI; version 1 has no magic
_FIRST_HEAD = struct.Struct("<Bi")
_PLACE = struct.Struct("<qq")  # offset, length


@dataclass(frozen=True, slots=True)
class BlobDescriptor:
    """Where one value is stored.

    >>> BlobDescriptor("file:/a.bin", 3, 8).serialize().hex()
    '0243534544424f4c420b00000066696c653a2f612e62696e03000000000000000800000000000000'
    """

    uri: str
    offset: int = 0
    length: int = TO_END

    def serialize(self) -> bytes:
        """Return the descriptor as the format stores it."""
        return _prefix(self.uri) + _PLACE.pack(self.offset, self.length)

    @classmethod
    def deserialize(cls, data: bytes) -> BlobDescriptor:
        """Read a descriptor from the bytes of `serialize`, or of version 1."""
        column = decode_descriptors(pa.array([data], pa.large_binary()))
        return cls(column.uris[0], int(column.offsets[0]), int(column.lengths[0]))


@dataclass(frozen=True, slots=True)
class DescriptorColumn:
    """A decoded column of descriptors."""

    uris: tuple[str, ...]
    uri_of: NDArray[np.int64]  # of each row the number of its URI; -1: the value is null
    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]


def encode_descriptors(uris: Sequence[str], uri_of: NDArray[np.int64], places: NDArray[np.int64]) -> pa.Array:
    """Return a column of descriptors; `places` has a pair of offset and length per row, -1 in `uri_of` is null."""
    prefixes = pa.array([_prefix(uri) for uri in uris], pa.large_binary())
    heads = prefixes.take(pa.array(uri_of, mask=uri_of < 0))
    data = pa.py_buffer(np.ascontiguousarray(places, dtype="<i8"))
    tails = pa.FixedSizeBinaryArray.from_buffers(pa.binary(_PLACE.size), len(uri_of), [None, data])
    empty = pa.scalar(b"", pa.large_binary())
    return pc.binary_join_element_wise(heads, tails.cast(pa.large_binary()), empty)


def decode_descriptors(column: pa.Array) -> DescriptorColumn:
    """Return where the values of a column are stored, or raise InvalidInputError for what is not a descriptor."""
    encoded = pc.binary_slice(column, 0, -_PLACE.size).dictionary_encode()
    uris = tuple(_uri_of(prefix.as_py()) for prefix in encoded.dictionary)
    uri_of = np.asarray(pc.fill_null(encoded.indices, -1)).astype(np.int64)
    places = np.full((len(column), 2), -1, dtype=np.int64)
    tails = pc.binary_slice(column.drop_null(), -_PLACE.size).cast(pa.binary(_PLACE.size))
    stored = np.frombuffer(tails.buffers()[1] or b"", dtype="<i8")
    places[uri_of >= 0] = stored[2 * tails.offset : 2 * (tails.offset + len(tails))].reshape(-1, 2)
    if (places[uri_of >= 0] < (0, TO_END)).any():
        raise InvalidInputError("a descriptor of a BLOB has a negative offset or length; write the value again")
    return DescriptorColumn(uris, uri_of, places[:, 0], places[:, 1])


def are_descriptors(column: pa.Array) -> pa.Array:
    """Return which values of a column begin as a descriptor does; null where the value is null."""
    heads = [bytes([version]) + MAGIC for version in range(_VERSION + 1)]
    return pc.if_else(
        column.is_valid(),
        pc.is_in(pc.binary_slice(column, 0, 1 + len(MAGIC)), value_set=pa.array(heads, column.type)),
        None,
    )


def _prefix(uri: str) -> bytes:
    text = uri.encode()
    return _HEAD.pack(_VERSION, MAGIC, len(text)) + text


def _uri_of(prefix: bytes) -> str:
    """Return the URI of a descriptor from its bytes before the offset."""
    head = _HEAD if prefix[1 : 1 + len(MAGIC)] == MAGIC else _FIRST_HEAD
    if len(prefix) < head.size or prefix[0] > _VERSION or head.unpack_from(prefix)[-1] != len(prefix) - head.size:
        raise InvalidInputError(
            f"{prefix[:40]!r} does not begin a descriptor of a BLOB; write the value as lakewright.Blob, or as bytes"
        )
    return prefix[head.size :].decode()

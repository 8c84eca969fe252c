"""`.blob` files: the values of one BLOB column, each with a checksum, and an index of their lengths at the end.

A value is an entry of magic, payload, length and CRC-32; a null, and a placeholder for a value that an older file has,
take no bytes. The index holds one length per row, so that any value is read with one request once it is known.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from lakewright.formats.file_format import Input, OutputFile, corrupt_file_error, read_at, translate_decode_errors

NULL, PLACEHOLDER = -1, -2  # lengths in the index of rows without an entry
_VERSION = 1
_MAGIC = struct.pack("<i", 1481511375)
_TRAILER = struct.Struct("<qI")  # length of the entry, CRC-32 of all bytes before it
_END = struct.Struct("<iB")  # length of the index, version
ENTRY_BYTES = len(_MAGIC) + _TRAILER.size
TAIL_BYTES = 1 << 16  # the index of a file with many thousands of rows is in the bytes that are read first
_PENDING_BYTES = 1 << 20
_CHECKED_BYTES = 4 << 20
_MORE = 0x80  # set in every byte of a varint but the last

# ---- The index -------------------------------------------------------------------------------------------------------


def encode_lengths(lengths: NDArray[np.int64]) -> bytes:
    """Return lengths as the zigzag varints of their differences.

    >>> encode_lengths(np.array([18, -1, 16])).hex()
    '242522'
    """
    deltas = lengths.astype(np.int64)
    deltas[1:] -= lengths[:-1]
    numbers = ((deltas << 1) ^ (deltas >> 63)).astype(np.uint64)
    groups = [numbers >> np.uint64(7 * at) for at in range(10)]
    sizes = np.ones(len(numbers), dtype=np.int64)
    for group in groups[1:]:
        sizes += group != 0
    starts = np.cumsum(sizes) - sizes
    out = np.zeros(int(sizes.sum()), dtype=np.uint8)
    for at, group in enumerate(groups):
        chosen = sizes > at
        more = np.where(sizes[chosen] > at + 1, _MORE, 0)
        out[starts[chosen] + at] = (group[chosen] & np.uint64(0x7F)).astype(np.uint8) | more.astype(np.uint8)
    return out.tobytes()


def decode_lengths(data: bytes) -> NDArray[np.int64]:
    """Return the lengths that `encode_lengths` made bytes of; ValueError for other bytes."""
    octets = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(octets < _MORE)
    if len(octets) and (not len(ends) or ends[-1] != len(octets) - 1):
        raise ValueError("the index ends within a number")
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    sizes = ends - starts + 1
    if (sizes > 10).any():  # noqa: PLR2004 - 64 bits in groups of seven
        raise ValueError("the index has a number of more than 64 bits")
    numbers = np.zeros(len(ends), dtype=np.uint64)
    for at in range(int(sizes.max(initial=0))):
        chosen = sizes > at
        numbers[chosen] |= (octets[starts[chosen] + at] & 0x7F).astype(np.uint64) << np.uint64(7 * at)
    deltas = (numbers >> np.uint64(1)).astype(np.int64) ^ -(numbers & np.uint64(1)).astype(np.int64)
    return np.cumsum(deltas)


@dataclass(frozen=True, slots=True)
class BlobIndex:
    """Where the values of a file are; an entry begins with its magic."""

    lengths: NDArray[np.int64]  # of the entries, or NULL or PLACEHOLDER
    starts: NDArray[np.int64]

    @property
    def row_count(self) -> int:
        """The number of rows, those without an entry included."""
        return len(self.lengths)

    def payloads(self) -> NDArray[np.int64]:
        """Return offset and length of each row's bytes; the length of a row without an entry means nothing."""
        return np.column_stack([self.starts + len(_MAGIC), self.lengths - ENTRY_BYTES])


def read_blob_index(source: Input, *, path: str, size: int) -> BlobIndex:
    """Read where the values of a file of `size` bytes are; nothing but the end of the file is read."""
    if size < _END.size:
        raise corrupt_file_error(path, f"it has {size} bytes")
    length, version = _END.unpack(read_at(source, size - _END.size, _END.size, path))
    if version != _VERSION:
        raise corrupt_file_error(path, f"it has the version {version} of .blob files, not {_VERSION}")
    start = size - _END.size - length
    if length < 0 or start < 0:
        raise corrupt_file_error(path, f"its index would have {length} bytes")
    with translate_decode_errors(path):
        lengths = decode_lengths(read_at(source, start, length, path))
    stored = np.where(lengths > 0, lengths, 0)
    if (lengths < PLACEHOLDER).any() or (stored[stored > 0] < ENTRY_BYTES).any() or (lengths == 0).any():
        raise corrupt_file_error(path, "its index holds lengths that no entry has")
    if int(stored.sum()) != start:
        raise corrupt_file_error(
            path, f"its entries have {int(stored.sum())} bytes in the index and {start} in the file"
        )
    return BlobIndex(lengths, np.cumsum(stored) - stored)


def check_entries(source: Input, index: BlobIndex, *, path: str) -> None:
    """Raise CorruptTableError unless every entry has its magic, its length and its checksum; all bytes are read."""
    for row in np.flatnonzero(index.lengths > 0).tolist():
        start, length = int(index.starts[row]), int(index.lengths[row])
        checksum, left = 0, length - 4
        source.seek(start)
        head = tail = b""
        while left:
            data = bytes(source.read(min(left, _CHECKED_BYTES)))
            if not data:
                raise corrupt_file_error(path, f"it ends within the value of row {row}")
            checksum = zlib.crc32(data, checksum)
            head = head or data[: len(_MAGIC)]
            tail = (tail + data)[-8:]
            left -= len(data)
        stored = bytes(source.read(4))
        if head != _MAGIC or tail + stored != _TRAILER.pack(length, checksum):
            raise corrupt_file_error(path, f"the value of row {row} does not match its checksum")


# ---- Writing ---------------------------------------------------------------------------------------------------------


class BlobFileWriter:
    """One `.blob` file being written; values may be given in chunks, of which one at a time is in memory."""

    def __init__(self, output: OutputFile) -> None:
        self._output = output
        self._lengths: list[int] = []
        self._pending = bytearray()  # small entries, which are written together
        self._written = 0

    @property
    def row_count(self) -> int:
        """How many rows were added."""
        return len(self._lengths)

    def tell(self) -> int:
        """Return how many bytes the entries have so far."""
        return self._written + len(self._pending)

    def add(self, chunks: Iterable[bytes | memoryview]) -> None:
        """Append a value, given in chunks."""
        start, checksum = self.tell(), 0
        for chunk in chain((_MAGIC,), chunks):
            checksum = zlib.crc32(chunk, checksum)
            self._put(chunk)
        length = self.tell() - start + _TRAILER.size
        checksum = zlib.crc32(_TRAILER.pack(length, 0)[:8], checksum)
        self._put(_TRAILER.pack(length, checksum))
        self._lengths.append(length)

    def add_absent(self, kind: int) -> None:
        """Append a row without an entry: NULL or PLACEHOLDER."""
        self._lengths.append(kind)

    def close(self) -> int:
        """Write the index, make the file durable and visible, and return its size."""
        index = encode_lengths(np.array(self._lengths, dtype=np.int64))
        self._put(index + _END.pack(len(index), _VERSION))
        self._flush()
        self._output.close()
        return self._written

    def discard(self) -> None:
        """Abandon the file: nothing stays at its path."""
        self._output.discard()

    def _put(self, data: bytes | memoryview) -> None:
        if len(data) < _PENDING_BYTES:
            self._pending += data
            if len(self._pending) >= _PENDING_BYTES:
                self._flush()
        else:
            self._flush()
            self._output.write(data)  # type: ignore[arg-type]
            self._written += len(data)

    def _flush(self) -> None:
        if self._pending:
            self._output.write(bytes(self._pending))
            self._written += len(self._pending)
            self._pending.clear()

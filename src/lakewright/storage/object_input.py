"""An object, or a file of HDFS, as a file to read: reads in, ranges asked of the store out.

What comes first is one request: the size and the last bytes, as many as the caller expects to need, all of a small
object. Whoever knows which ranges come next asks for them with `read_range`, in as many threads as it likes.
"""

from __future__ import annotations

import errno
import io
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, cast

import pyarrow as pa

from lakewright.spec.units import KIB, MIB

TAIL_BYTES = 64 * KIB  # read when an object is opened by somebody who does not say more
WHOLE_BYTES = MIB  # up to here an object is read whole when it is opened: a request costs more than the bytes
BLOCK_BYTES = MIB  # small reads fetch this much
_PART_BYTES = 8 * MIB
_PARALLEL_BYTES = 4 * _PART_BYTES  # larger reads are fetched in parts at the same time
_PARALLEL_READS = 4


class Ranges(Protocol):
    """What an input asks of a store."""

    def get_tail(self, key: str, length: int, size: int | None, /) -> tuple[int, bytes]:
        """Return the size of an object and some of its last bytes; `size` is what the caller believes it to be."""

    def get_range(self, key: str, start: int, end: int, /) -> bytes:
        """Return the bytes from `start` up to but not including `end`."""

    def path(self, key: str, /) -> str:
        """Return the full location of a key."""


class ObjectInput(io.RawIOBase):
    """An object as a file to read: its tail and the block read last are kept in memory."""

    def __init__(self, ranges: Ranges, key: str, *, size: int | None = None, end_bytes: int = 0) -> None:
        super().__init__()
        self.ranges = ranges
        self._key = key
        first = size if size is not None and size <= WHOLE_BYTES else max(end_bytes, TAIL_BYTES)
        self._size, self._tail = ranges.get_tail(key, max(first, 1), size)
        self._block = b""
        self._block_start = 0
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def size(self) -> int:
        """Return the size of the object."""
        return self._size

    def tell(self) -> int:
        """Return the position of the next read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to a position, without a request."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise OSError(errno.EINVAL, "cannot seek before the start", self.ranges.path(self._key))
        self._position = base + offset
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next `size` bytes, fewer only at the end of the object."""
        if self.closed:
            raise ValueError(f"{self.ranges.path(self._key)} is closed")
        start = min(self._position, self._size)
        end = self._size if size is None or size < 0 else min(start + size, self._size)
        data = self._bytes(start, end)
        self._position = start + len(data)
        return data

    def read_buffer(self, size: int | None = -1, /) -> pa.Buffer:
        """Return the next `size` bytes as a buffer of Arrow, which Arrow takes without copying it."""
        return pa.py_buffer(self.read(size))

    def readall(self) -> bytes:
        """Return everything from here to the end."""
        return self.read()

    def readinto(self, buffer: object, /) -> int:
        """Read into the caller's buffer."""
        view = memoryview(cast("bytearray", buffer)).cast("B")
        data = self.read(view.nbytes)
        view[: len(data)] = data
        return len(data)

    def read_range(self, start: int, end: int) -> bytes:
        """Return the bytes from `start` up to but not including `end`, in at most one request.

        The position of the next read stays as it is, and several threads may call this at the same time.
        """
        tail_start = self._size - len(self._tail)
        if start >= tail_start:
            return self._tail[start - tail_start : end - tail_start]
        if end > tail_start:
            return self.ranges.get_range(self._key, start, tail_start) + self._tail[: end - tail_start]
        return self.ranges.get_range(self._key, start, end)

    def _bytes(self, start: int, end: int) -> bytes:
        tail_start = self._size - len(self._tail)
        if start >= tail_start:
            return self._tail[start - tail_start : end - tail_start]
        block_end = self._block_start + len(self._block)
        if self._block_start <= start and end <= block_end:
            return self._block[start - self._block_start : end - self._block_start]
        if end - start >= BLOCK_BYTES or end > tail_start:
            return self._fetch(start, end)
        self._block_start, self._block = start, self.read_range(start, min(start + BLOCK_BYTES, self._size))
        return self._block[: end - start]

    def _fetch(self, start: int, end: int) -> bytes:
        if end - start <= _PARALLEL_BYTES:
            return self.read_range(start, end)
        starts = range(start, end, _PART_BYTES)
        with ThreadPoolExecutor(_PARALLEL_READS) as pool:
            return b"".join(pool.map(lambda first: self.read_range(first, min(first + _PART_BYTES, end)), starts))

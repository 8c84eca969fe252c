"""Bytes as Java's DataOutput writes them in, numbers, texts and pieces out; nothing is taken that is not there."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar

from lakewright.errors import InvalidMessageError


@dataclass(slots=True)
class JavaBytes:
    """Bytes that are read from front to back."""

    what: ClassVar[str] = "data"  # for errors

    data: bytes
    position: int = 0

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise InvalidMessageError(f"the {self.what} is cut or damaged at byte {self.position}")
        piece = self.data[self.position : end]
        self.position = end
        return piece

    def read_int(self) -> int:
        """Return a number of 4 bytes."""
        return int.from_bytes(self.take(4), "big", signed=True)

    def read_long(self) -> int:
        """Return a number of 8 bytes."""
        return int.from_bytes(self.take(8), "big", signed=True)

    def sized(self) -> bytes:
        """Return bytes whose length stands before them."""
        return self.take(self.read_int())

    def read_text(self) -> str:
        """Return text whose length in two bytes stands before it."""
        return from_modified_utf8(self.take(int.from_bytes(self.take(2), "big")))


def modified_utf8(text: str) -> bytes:
    r"""Encode text as Java does: NUL in two bytes, characters beyond the first plane as two surrogates.

    >>> modified_utf8("a\0").hex()
    '61c080'
    """
    units = struct.unpack(f">{len(text.encode('utf-16-be')) // 2}H", text.encode("utf-16-be"))
    return b"".join(b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass") for unit in units)


def from_modified_utf8(data: bytes) -> str:
    """Decode text that Java encoded."""
    halves = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return halves.encode("utf-16-be", "surrogatepass").decode("utf-16-be")

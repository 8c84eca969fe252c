"""The seal: a checksum in bytes of a file that no other reader uses.

Parquet and ORC readers find everything in a file by offsets counted from its start or its end. Bytes between the data
and the footer are not referenced, so 16 of them hold a seal: `LWSEAL01`, a CRC-32 and four bytes of zero, little
endian. A file whose seal does not match its bytes is damaged; a file without one is from another writer.
"""

from __future__ import annotations

import struct
import zlib

from lakewright.formats.base import Output

SEAL_BYTES = 16
_MAGIC = b"LWSEAL01"
_LAYOUT = struct.Struct("<8sII")


def make_seal(checksum: int) -> bytes:
    """Return the sixteen bytes that hold a checksum."""
    return _LAYOUT.pack(_MAGIC, checksum, 0)


def sealed_checksum(data: bytes) -> int | None:
    """Return the checksum in a seal, None if the bytes are no seal."""
    if len(data) != SEAL_BYTES or not data.startswith(_MAGIC):
        return None
    checksum: int = _LAYOUT.unpack(data)[1]
    return checksum


class HoldingSink:
    """A file object for Arrow's writers: bytes are passed on until `hold` is called, and kept in memory afterwards.

    The bytes that a format writes when it is closed are held, so that a seal can be written before its footer.
    """

    def __init__(self, output: Output, *, checksum: bool = False) -> None:
        self.closed = False
        self.checksum = 0  # of all bytes written, if requested
        self._with_checksum = checksum
        self._output = output
        self._position = 0
        self._held: list[bytes] | None = None

    def write(self, data: bytes) -> int:
        """Pass bytes on, or hold them."""
        if self._with_checksum:
            self.checksum = zlib.crc32(data, self.checksum)
        if self._held is None:
            self._output.write(data)
        else:
            self._held.append(bytes(data))
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        """Return how many bytes the format has written."""
        return self._position

    def flush(self) -> None:
        """Do nothing: bytes count only once the file is closed."""

    def close(self) -> None:
        """Do nothing: the writer closes the output after it has added the seal."""

    def hold(self) -> None:
        """Keep everything that is written from now on in memory."""
        self._held = []

    def held(self) -> bytes:
        """Return the bytes written since `hold`."""
        return b"".join(self._held or ())

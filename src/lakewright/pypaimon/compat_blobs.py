"""pypaimon's names for values of BLOB columns."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from typing import BinaryIO

from lakewright.errors import UnsupportedError
from lakewright.formats import blob_values
from lakewright.spec import blob_descriptors
from lakewright.spec.blob_descriptors import MAGIC, TO_END


class BlobDescriptor(blob_descriptors.BlobDescriptor):
    """Where a value is stored.

    >>> BlobDescriptor.deserialize(BlobDescriptor("file:/a", 1, 2).serialize()).uri
    'file:/a'
    """

    __slots__ = ()

    @property
    def version(self) -> int:
        """The version of the serialised form."""
        return 2

    @staticmethod
    def is_blob_descriptor(data: bytes) -> bool:
        """Return whether bytes begin as a descriptor does."""
        return data[1 : 1 + len(MAGIC)] == MAGIC


class Blob(ABC):
    """A value of a BLOB column."""

    @staticmethod
    def from_data(data: bytes) -> Blob:
        """Return a value of bytes."""
        return BlobData(data)

    @staticmethod
    def from_bytes(data: bytes | None) -> Blob | None:
        """Return the value that bytes are, or that a serialised descriptor refers to."""
        if data is None:
            return None
        if BlobDescriptor.is_blob_descriptor(data):
            return BlobRef(blob_values.Blob.from_descriptor(data))
        return BlobData(data)

    @staticmethod
    def from_local(file: str) -> Blob:
        """Return the value that a local file holds."""
        return BlobRef(blob_values.Blob.from_path(file.removeprefix("file://")))

    @staticmethod
    def from_file(file_io: object, file_path: str, offset: int, length: int) -> Blob:  # noqa: ARG004 - pypaimon's signature
        """Return the value that a part of a file holds."""
        return BlobRef(blob_values.Blob.from_uri(file_path, offset, None if length == TO_END else length))

    @staticmethod
    def from_http(uri: str) -> Blob:
        """Refuse values on web servers."""
        raise UnsupportedError(f"a BLOB cannot be read from {uri}: download it, and use Blob.from_local")

    @staticmethod
    def from_descriptor(uri_reader: object, descriptor: blob_descriptors.BlobDescriptor) -> Blob:  # noqa: ARG004 - pypaimon's signature
        """Return the value that a descriptor refers to."""
        return BlobRef(blob_values.Blob.from_descriptor(descriptor.serialize()))

    @abstractmethod
    def to_data(self) -> bytes:
        """Return the bytes of the value."""

    @abstractmethod
    def to_descriptor(self) -> BlobDescriptor:
        """Return where the value is stored."""

    @abstractmethod
    def new_input_stream(self) -> BinaryIO:
        """Open the value as a file."""


class BlobData(Blob):
    """A value in memory."""

    def __init__(self, data: bytes | bytearray | None = None) -> None:
        self.data = bytes(data or b"")

    def to_data(self) -> bytes:
        """Return the bytes of the value."""
        return self.data

    def to_descriptor(self) -> BlobDescriptor:
        """Refuse: a value in memory is not stored."""
        raise UnsupportedError("a BlobData has no descriptor, as its bytes are not stored: write it first")

    def new_input_stream(self) -> BinaryIO:
        """Open the value as a file."""
        return io.BytesIO(self.data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BlobData) and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.data)


class BlobRef(Blob):
    """A stored value, whose bytes are read when they are asked for."""

    def __init__(self, blob: blob_values.Blob) -> None:
        self.blob = blob

    def to_data(self) -> bytes:
        """Return the bytes of the value."""
        return self.blob.read()

    def to_descriptor(self) -> BlobDescriptor:
        """Return where the value is stored."""
        return BlobDescriptor.deserialize(self.blob.to_descriptor())  # type: ignore[return-value] # of this class

    def new_input_stream(self) -> BinaryIO:
        """Open the value as a file."""
        return self.blob.open()


def to_stored(value: object) -> object:
    """Return a value of a row as it is written: bytes, or a serialised descriptor."""
    return value.blob.to_descriptor() if isinstance(value, BlobRef) else getattr(value, "data", value)

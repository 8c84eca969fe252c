"""`Blob`, the value of a lazily read BLOB column; bytes of many values fetched with few requests."""

from __future__ import annotations

import io
import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, Self, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakewright.errors import InvalidInputError, NotFoundError
from lakewright.spec import argument_checks
from lakewright.spec.argument_checks import PathLike
from lakewright.spec.blob_descriptors import TO_END, BlobDescriptor, DescriptorColumn, decode_descriptors
from lakewright.storage.concurrency import map_concurrently
from lakewright.storage.storage import Storage
from lakewright.storage.storage_registry import open_storage
from lakewright.storage.table_layout import plain_location

# ---- Which storage holds a resource ----------------------------------------------------------------------------------

_DESCRIPTOR_OPTIONS = "blob-descriptor."  # options of the file systems that descriptors refer to begin with this
_HOMES_MAX = 256
_homes: dict[str, BlobStorages] = {}  # of tables whose blobs were read lazily, and of given options, by location
_given: dict[str, BinaryIO] = {}  # file objects whose bytes are still to be written, by URI
_given_numbers = itertools.count()
_GIVEN = "python-object:"
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class BlobStorages:
    """The storages that hold the values of a table: its own, and those that its descriptors refer to."""

    location: str = ""
    storage: Storage | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def open(self, uri: str) -> tuple[Storage, str]:
        """Return the storage of a resource, and its path there."""
        path = plain_location(uri)
        if self.storage is not None and _container(path) == _container(self.location):
            return self.storage, path
        given = _homes.get(_container(path), self).options  # those of `Blob.from_uri`, or of the table
        prefix = len(_DESCRIPTOR_OPTIONS)
        own = {key[prefix:]: value for key, value in given.items() if key.startswith(_DESCRIPTOR_OPTIONS)}
        return open_storage(uri, own)

    def register(self) -> None:
        """Let `Blob` values that refer to files of this table find its storage."""
        with _lock:
            _homes[self.location] = self
            if len(_homes) > _HOMES_MAX:
                del _homes[next(iter(_homes))]


NO_STORAGES = BlobStorages()


def _container(path: str) -> str:
    scheme, separator, rest = plain_location(path).partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if separator else "/"


def _home_of(uri: str) -> BlobStorages:
    path = plain_location(uri)
    with _lock:
        homes = [home for home in _homes.values() if _container(home.location) == _container(path)]
    inside = [home for home in homes if path.startswith(f"{home.location}/")]
    return max(inside or homes, key=lambda home: len(home.location), default=BlobStorages())


# ---- One value -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Blob:
    """A value of a BLOB column: where its bytes are stored. They are read when they are asked for.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.bin")
    >>> _ = path.write_bytes(b"0123456789")
    >>> Blob.from_path(path, offset=2, length=3).read()
    b'234'
    """

    uri: str
    offset: int = 0
    length: int | None = None  # None: to the end of the resource
    _storages: BlobStorages | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_path(cls, path: PathLike, offset: int = 0, length: int | None = None) -> Self:
        """Return the value that a local file holds, or a part of it."""
        location = Path(argument_checks.check_path("path", path)).absolute()
        return cls.from_uri(f"file:{location}", offset, length)

    @classmethod
    def from_uri(
        cls, uri: str, offset: int = 0, length: int | None = None, options: Mapping[str, str] | None = None
    ) -> Self:
        """Return the value that a file or object holds, such as `s3://bucket/a.jpg`; `options` are its storage's."""
        location = argument_checks.check_text("uri", uri)
        start = argument_checks.check_non_negative("offset", offset)
        size = argument_checks.check_optional(argument_checks.check_non_negative, "length", length)
        storages = None
        if options is not None:
            given = argument_checks.check_mapping("options", options)
            storages = BlobStorages(options={f"{_DESCRIPTOR_OPTIONS}{key}": str(given[key]) for key in given})
            replace(storages, location=_container(location)).register()
        return cls(location, start, size, storages)

    @classmethod
    def from_file(cls, file: BinaryIO) -> Self:
        """Return the value that a binary file object holds from its position on; it is read once, by a write."""
        if not hasattr(file, "read"):
            raise argument_checks.argument_error("file", "a binary file object", file)
        uri = f"{_GIVEN}{next(_given_numbers)}"
        with _lock:
            _given[uri] = file
        return cls(uri)

    @classmethod
    def from_descriptor(cls, data: bytes) -> Self:
        """Return the value that a serialised descriptor refers to."""
        one = BlobDescriptor.deserialize(argument_checks.check_instance("data", data, bytes, "bytes"))
        return cls(one.uri, one.offset, None if one.length == TO_END else one.length)

    def to_descriptor(self) -> bytes:
        """Return the serialised descriptor of the value."""
        return BlobDescriptor(self.uri, self.offset, TO_END if self.length is None else self.length).serialize()

    def read(self) -> bytes:
        """Return the bytes of the value."""
        with self.open() as file:
            return file.read()

    def open(self) -> BinaryIO:
        """Open the value as a file to read and seek; only what is read is requested from its storage."""
        given = _given.get(self.uri)
        if given is not None:
            return given
        if self.uri.startswith(_GIVEN):
            raise NotFoundError("the file object of a Blob was read before, or is in another process; use from_uri")
        storage, path = (self._storages or _home_of(self.uri)).open(self.uri)
        try:
            source = storage.open_input(path)
        except FileNotFoundError as error:
            raise missing_error(self.uri) from error
        size = source.seek(0, io.SEEK_END) if self.length is None else self.offset + self.length
        return cast("BinaryIO", io.BufferedReader(_Part(source, self.offset, max(size, self.offset))))


class _Part(io.RawIOBase):
    """A range of an open file as a file."""

    def __init__(self, source: BinaryIO, start: int, end: int) -> None:
        super().__init__()
        self._source, self._start, self._end = source, start, end
        self._at = start

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to a position of the range."""
        base = {io.SEEK_SET: self._start, io.SEEK_CUR: self._at, io.SEEK_END: self._end}[whence]
        self._at = max(self._start, base + offset)
        return self._at - self._start

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        """Read the next bytes of the range."""
        self._source.seek(self._at)
        data = self._source.read(max(0, min(len(buffer), self._end - self._at)))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        """Close the file."""
        self._source.close()
        super().close()


def missing_error(uri: str) -> NotFoundError:
    """Return the error for a resource that a descriptor refers to and that does not exist."""
    return NotFoundError(
        f"a BLOB refers to {uri}, which does not exist; restore it, or read the table with blobs='descriptor'", path=uri
    )


# ---- Columns of values -----------------------------------------------------------------------------------------------


class BlobScalar(pa.ExtensionScalar):  # type: ignore[misc]  # pyarrow has no types
    """A value of a column of blobs."""

    def as_py(self, **_: object) -> Blob | None:
        """Return the value as a `Blob`, None for a null."""
        return None if self.value is None else Blob.from_descriptor(self.value.as_py())


class BlobType(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """The Arrow type of a lazily read BLOB column: its values are descriptors, and `Blob` objects in Python."""

    def __init__(self) -> None:
        super().__init__(pa.large_binary(), "lakewright.blob")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> BlobType:
        return cls()

    def __arrow_ext_scalar_class__(self) -> type[BlobScalar]:
        return BlobScalar


pa.register_extension_type(BlobType())


def to_descriptors(values: Sequence[object]) -> pa.Array:
    """Return Python values, `Blob` or bytes or None, as an array of descriptors and bytes."""
    return pa.array([v.to_descriptor() if isinstance(v, Blob) else v for v in values], pa.large_binary())


# ---- Fetching --------------------------------------------------------------------------------------------------------
# Values that are close together in one resource are fetched with one request, bytes between them included. The bytes
# of one array are fetched at a time, so that callers bound the memory by the rows they ask for.

_GAP_BYTES = 1 << 16  # bytes between two values that cost less than another request
_RANGE_BYTES = 8 << 20
_COPY_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class _Range:
    """Consecutive bytes of a resource that hold values; `rows` are in the order of their offsets."""

    uri: str
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    rows: NDArray[np.int64]

    def fetch(self, storages: BlobStorages) -> pa.Array:
        """Return the values in the order of `rows`."""
        storage, path = storages.open(self.uri)
        first, last = int(self.starts[0]), int(self.ends[-1])
        try:
            source = storage.open_input(path)
        except FileNotFoundError as error:
            raise missing_error(self.uri) from error
        with source:
            source.seek(first)
            data = pa.py_buffer(source.read(last - first))
        if data.size != last - first:
            raise InvalidInputError(f"a BLOB refers to bytes {first} to {last} of {self.uri}, which is shorter")
        bounds = np.column_stack([self.starts, self.ends]).reshape(-1) - first
        # Every second element is what is between two values.
        apart = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), data])
        return apart.take(pa.array(np.arange(0, len(bounds), 2)))


def value_sizes(places: DescriptorColumn, storages: BlobStorages) -> NDArray[np.int64]:
    """Return how many bytes the values have; 0 for nulls. Sizes that descriptors do not say are asked of storages."""
    sizes = np.where(places.uri_of >= 0, places.lengths, 0)
    for number in np.unique(places.uri_of[sizes == TO_END]).tolist():
        storage, path = storages.open(places.uris[number])
        size = storage.size(path)
        if size is None:
            raise missing_error(places.uris[number])
        rows = (places.uri_of == number) & (sizes == TO_END)
        sizes[rows] = np.maximum(size - places.offsets[rows], 0)
    return sizes


def fetch_blobs(column: pa.Array, storages: BlobStorages, bytes_max: int) -> Iterator[tuple[int, pa.Array]]:
    """Yield the bytes of a column of descriptors in pieces of about `bytes_max`, each with its number of rows."""
    places = decode_descriptors(column)
    sizes = value_sizes(places, storages)
    start = 0
    for stop in _cuts(sizes, bytes_max):
        yield stop - start, _fetch_rows(places, sizes, range(start, stop), storages)
        start = stop


def _cuts(sizes: NDArray[np.int64], bytes_max: int) -> list[int]:
    """Return after which rows to cut so that each part has about `bytes_max` bytes, and one row at least."""
    ends = np.cumsum(sizes)
    cuts: list[int] = []
    base = 0
    while not cuts or cuts[-1] < len(sizes):
        stop = int(np.searchsorted(ends, base + bytes_max, side="right"))
        stop = min(max(stop, (cuts[-1] if cuts else 0) + 1), len(sizes))
        cuts.append(stop)
        if stop:
            base = int(ends[stop - 1])
    return cuts


def _fetch_rows(places: DescriptorColumn, sizes: NDArray[np.int64], rows: range, storages: BlobStorages) -> pa.Array:
    chosen = np.arange(rows.start, rows.stop)[places.uri_of[rows.start : rows.stop] >= 0]
    order = chosen[np.lexsort((places.offsets[chosen], places.uri_of[chosen]))]
    ranges = list(_ranges(places, sizes, order))
    storage = storages.storage
    fetch = partial(_Range.fetch, storages=storages)
    parts = list(map(fetch, ranges)) if storage is None else map_concurrently(storage, fetch, ranges)
    if len(order) == len(rows) and len(parts) == 1 and (order[1:] > order[:-1]).all():
        return parts[0]
    index = np.full(len(rows), -1, dtype=np.int64)
    index[order - rows.start] = np.arange(len(order))
    values = pa.concat_arrays([pa.array([], pa.large_binary()), *parts])
    return values.take(pa.array(index, mask=index < 0))


def _ranges(places: DescriptorColumn, sizes: NDArray[np.int64], order: NDArray[np.int64]) -> Iterator[_Range]:
    """Yield ranges of bytes that hold the values of rows, which are ordered by resource and offset."""
    starts = places.offsets[order]
    ends = starts + sizes[order]
    gaps = starts[1:] - ends[:-1]
    same = places.uri_of[order[1:]] == places.uri_of[order[:-1]]
    near = same & (gaps >= 0) & (gaps <= _GAP_BYTES)
    blocks = np.concatenate([[0], np.flatnonzero(~near) + 1, [len(order)]])
    for first, last in itertools.pairwise(blocks.tolist()):
        for at, stop in _blocks(ends, starts, first, last):
            uri = places.uris[int(places.uri_of[order[at]])]
            yield _Range(uri, starts[at:stop], ends[at:stop], order[at:stop])


def _blocks(ends: NDArray[np.int64], starts: NDArray[np.int64], first: int, last: int) -> Iterator[tuple[int, int]]:
    """Cut neighbouring values into ranges of about `_RANGE_BYTES`."""
    while first < last:
        stop = int(np.searchsorted(ends[first:last], starts[first] + _RANGE_BYTES, side="right")) + first
        stop = min(max(stop, first + 1), last)
        yield first, stop
        first = stop


def open_value(uri: str, offset: int, length: int, storages: BlobStorages) -> Iterator[bytes]:
    """Yield the bytes of one value in chunks; those of a file object are given once, and it is forgotten."""
    given = _given.pop(uri, None)
    if given is not None:
        yield from iter(partial(given.read, _COPY_BYTES), b"")
        return
    blob = Blob(uri, offset, None if length == TO_END else length, storages)
    left = length
    with blob.open() as file:
        for chunk in iter(partial(file.read, _COPY_BYTES), b""):
            left -= len(chunk)
            yield chunk
    if length != TO_END and left:
        raise InvalidInputError(f"a BLOB refers to {length} bytes of {uri}, which has {left} fewer")

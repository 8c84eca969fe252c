"""Objects in S3, GCS, Azure and compatible stores; range reads."""

from __future__ import annotations

import errno
import io
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol, cast

import obstore
import pyarrow as pa

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.spec.option_values import KIB, MIB
from lakewright.storage.credentials import ENDPOINT_VARIABLES, Credentials, Settings, StoreCredentials, store_settings
from lakewright.storage.object_client import ObjectClient, ObjectInfo, open_client
from lakewright.storage.storage import FileInfo, Output

# ---- Files for reading -----------------------------------------------------------------------------------------------
# What comes first is one request: the size and the last bytes, as many as the caller expects to need, all of a small
# object. A caller that knows the next ranges asks for them with `read_range`, in as many threads as it likes.

TAIL_BYTES = 64 * KIB  # read when an object is opened without a hint
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


# ---- The storage -----------------------------------------------------------------------------------------------------
# `create` raises UnsupportedError on a store without conditional puts. Amazon, GCS and Azure have them; at any other
# endpoint the first `create` of a process tests for them with a temporary object beside the new one, because some
# servers ignore the condition and would let every racing caller win.
#
# Directories do not exist: a prefix with objects below it counts as one, and `make_directory` puts a marker object.
# Objects are durable and visible as soon as a call returns.

SCHEME_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
REQUESTS_AT_ONCE = 32
MARKER = ".directory"  # makes an empty directory visible
PART_BYTES = 8 * MIB  # objects up to this size are one put
_DELETE_BATCH = 1000
_AMAZON = re.compile(r"https://([^/]+\.)?amazonaws\.com(\.cn)?/?")


@dataclass(frozen=True)
class ObjectStorage:
    """The storage of one container, named by a URL without a path, such as `s3://lake`.

    >>> ObjectStorage("s3://lake", {"s3.access-key": "AKIA", "s3.secret-key": "hush"})
    ObjectStorage(url='s3://lake')
    """

    url: str
    settings: Settings = field(repr=False)  # empty with credentials that renew themselves, which know them
    renewing: StoreCredentials | None = field(repr=False)

    def __init__(
        self, url: str, options: Mapping[str, str] | None = None, credentials: Credentials | None = None
    ) -> None:
        scheme, _, container = url.partition("://")
        scheme, container = SCHEME_ALIASES.get(scheme, scheme), container.rstrip("/")
        url = f"{scheme}://{container}"
        renewing = None if credentials is None else StoreCredentials.of(credentials, url, options or {})
        object.__setattr__(self, "url", url)
        object.__setattr__(self, "settings", () if renewing else store_settings(scheme, container, options or {}))
        object.__setattr__(self, "renewing", renewing)

    @property
    def renames_atomically(self) -> bool:
        """False: `rename_directory` copies object by object."""
        return False

    @property
    def requests_at_once(self) -> int:
        """Enough to hide the latency of the store."""
        return REQUESTS_AT_ONCE

    def open_input(self, path: str, *, size: int | None = None, end_bytes: int = 0) -> BinaryIO:
        """Open an object for random access; one request reads its size and its last bytes."""
        return cast("BinaryIO", ObjectInput(self._client, self._key(path), size=size, end_bytes=end_bytes))

    def open_output(self, path: str) -> Output:
        """Open a new object, visible once `close` returns; an existing one is a FileExistsError.

        A small object is one conditional put. For a large one, the upload begins after a check that no object has its
        name: that finds a name used twice by mistake, but if two callers race, both can succeed.
        """
        return ObjectOutput(self._client, self._key(path))

    def read(self, path: str) -> bytes:
        """Return a whole object."""
        return self._client.get(self._key(path))

    def create(self, path: str, data: bytes) -> bool:
        """Put a whole object only where none exists. False means that another process was first."""
        key = self._key(path)
        if not self._client.conditional_put_proven:
            self._prove_conditional_put(key)
        return self._client.put_once(key, data)

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:  # noqa: ARG002 - every put is durable
        """Put a whole object, replacing one that exists."""
        self._client.put(self._key(path), data)

    def exists(self, path: str) -> bool:
        """Return whether an object exists at the path."""
        return self.size(path) is not None

    def size(self, path: str) -> int | None:
        """Return the size of an object, None where there is none."""
        try:
            return self._client.head(self._key(path)).size
        except FileNotFoundError:
            return None

    def list(self, directory: str) -> Iterator[FileInfo]:
        """Yield the objects directly inside a directory, by name."""
        prefix = self._prefix(directory)
        objects, _ = self._client.list_level(prefix)
        yield from self._without_markers(sorted(objects, key=lambda info: info.key), prefix)

    def names(self, directory: str, *, after: str = "") -> Iterator[str]:
        """Yield the names of the objects directly inside a directory, by name."""
        prefix = self._prefix(directory).rstrip("/")
        offset = f"{prefix}/{after}".lstrip("/")
        objects = self._client.list(prefix, offset=offset) if after else self._client.list_level(prefix)[0]
        for info in self._without_markers(objects, prefix):
            inner, _, name = info.path.rpartition("/")
            if inner == self._client.path(prefix).rstrip("/"):
                yield name

    def list_directories(self, directory: str) -> Iterator[str]:
        """Yield the paths of the directories directly inside a directory, by name."""
        _, directories = self._client.list_level(self._prefix(directory))
        for inner in sorted(directories):
            yield self._client.path(inner)

    def walk(self, directory: str) -> Iterator[FileInfo]:
        """Yield every object below a directory."""
        prefix = self._prefix(directory)
        yield from self._without_markers(self._client.list(prefix), prefix)

    def make_directory(self, directory: str) -> None:
        """Put the marker object that makes an empty directory visible."""
        self._client.put(f"{self._key(directory)}/{MARKER}", b"")

    def delete(self, path: str, *, durable: bool = False) -> None:  # noqa: ARG002 - every deletion is durable
        """Remove an object. It is no error if the object does not exist."""
        self._delete_each([self._key(path)])

    def take(self, path: str) -> bytes | None:
        """Read an object and remove it: two requests, between which another process may replace it."""
        try:
            data = self.read(path)
        except FileNotFoundError:
            return None
        self.delete(path)
        return data

    def delete_directory(self, directory: str) -> None:
        """Remove everything below a directory; InvalidInputError for a whole container."""
        keys = list(self._keys_below(self._key(directory)))
        for start in range(0, len(keys), _DELETE_BATCH):
            batch = keys[start : start + _DELETE_BATCH]
            try:
                self._client.delete(batch)
            except FileNotFoundError:  # another process deletes the same objects
                self._delete_each(batch)

    def prune_directory(
        self,
        directory: str,
        *,
        before_millis: int | None = None,
    ) -> None:
        """Do nothing: a directory exists only while there are objects below it."""

    def rename_directory(self, source: str, target: str) -> None:
        """Copy a directory and delete the old one. NOT atomic: no writer may use either at the same time.

        If a copy fails, the copies are removed and the source stays as it was. A target that exists is a
        FileExistsError.
        """
        old, new = self._key(source), self._key(target)
        if next(self._keys_below(new), None) is not None:
            raise FileExistsError(errno.EEXIST, "the target directory exists", target)
        keys = list(self._keys_below(old))
        if not keys:
            raise FileNotFoundError(errno.ENOENT, "no such directory", source)
        try:
            for key in keys:
                self._client.copy(key, new + key[len(old) :])
        except BaseException:
            self.delete_directory(target)
            raise
        self.delete_directory(source)

    def link(self, source: str, target: str) -> None:
        """Raise UnsupportedError: an object has one name."""
        raise UnsupportedError(
            f"{source} cannot get the second name {target}: object stores must copy an object to move it", path=source
        )

    def identity(self, path: str) -> str | None:  # noqa: ARG002 - the protocol's signature
        """Return None: an object has one name."""
        return None

    @property
    def _client(self) -> ObjectClient:
        if self.renewing is None:
            return open_client(self.url, self.settings)
        return open_client(self.url, self.renewing.settings(), self.renewing)

    def _prefix(self, path: str) -> str:
        """Return the key of a directory, empty for the container itself."""
        scheme, separator, rest = path.partition("://")
        location = f"{SCHEME_ALIASES.get(scheme, scheme)}{separator}{rest}".rstrip("/")
        if location == self.url.rstrip("/"):
            return ""
        if not location.startswith(f"{self.url}/"):
            raise UnsupportedError(f"{path!r} lies outside {self.url}, the only store this table can reach", path=path)
        return location[len(self.url) + 1 :]

    def _key(self, path: str) -> str:
        key = self._prefix(path)
        if not key or path.endswith("/") or not {".", ".."}.isdisjoint(key.split("/")):
            raise InvalidInputError(f"{path!r} names no object of {self.url}", path=path)
        return key

    def _keys_below(self, prefix: str) -> Iterator[str]:
        """Yield every key below a directory, including those of markers."""
        return (info.key for info in self._client.list(prefix) if info.key != prefix)

    def _without_markers(self, objects: Iterable[ObjectInfo], prefix: str) -> Iterator[FileInfo]:
        # Other tools mark a directory by an object whose name ends in a slash: it is listed under the directory's name.
        for info in objects:
            if info.key != prefix and info.key.rpartition("/")[2] != MARKER:
                yield FileInfo(self._client.path(info.key), info.size, info.modified_millis)

    def _delete_each(self, keys: Iterable[str]) -> None:
        for key in keys:
            try:
                self._client.delete([key])
            except FileNotFoundError:
                continue

    def _prove_conditional_put(self, key: str) -> None:
        """Raise UnsupportedError if the endpoint ignores the condition of a put."""
        if self._is_unproven_endpoint():
            probe = f"{key.rpartition('/')[0]}/.create-once-{uuid.uuid4()}".lstrip("/")
            try:
                twice = self._client.put_once(probe, b"first") and self._client.put_once(probe, b"second")
            finally:
                with suppress(OSError):  # a caller without the right to delete can still commit
                    self._delete_each([probe])
            if twice:
                raise UnsupportedError(
                    f"the endpoint of {self.url} ignores {self._ignored_condition()}, or let a REST catalog commit",
                    url=self.url,
                )
        self._client.conditional_put_proven = True

    def _ignored_condition(self) -> str:
        """Return which condition of a put an endpoint ignores, what that does, and what to do about it."""
        if self.url.startswith("oss://"):
            header, remedy = (
                "x-oss-forbid-overwrite",
                "use a bucket without versioning, with which OSS ignores it",
            )
        else:
            header, remedy = "If-None-Match", "use a store with conditional puts"
        return f"{header!r}, so concurrent commits would overwrite each other: {remedy}"

    def _is_unproven_endpoint(self) -> bool:
        if not self.url.startswith(("s3://", "oss://")):
            return False
        endpoint = dict(self.renewing.settings() if self.renewing else self.settings).get("endpoint")
        endpoints = [endpoint] if endpoint else [os.environ[name] for name in ENDPOINT_VARIABLES if name in os.environ]
        return any(_AMAZON.fullmatch(endpoint) is None for endpoint in endpoints)


class ObjectOutput:
    """An object being written: kept in memory while small, uploaded in parts once it is large."""

    def __init__(self, client: ObjectClient, key: str) -> None:
        self._client = client
        self._key = key
        self._pending = bytearray()
        self._upload: obstore.WritableFile | None = None
        self._written = 0
        self._closed = False
        self._leftover = False  # whether a `close` that failed may have left an object

    @property
    def closed(self) -> bool:
        """Return whether `close` or `discard` was called."""
        return self._closed

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: bytes, /) -> int:
        """Append bytes, or any object with a buffer of bytes."""
        if self._closed:
            raise ValueError(f"{self._client.path(self._key)} is closed")
        view = memoryview(data).cast("B")
        self._pending += view
        if len(self._pending) > PART_BYTES:
            self._send()
        self._written += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._written

    def flush(self) -> None:
        """Do nothing: bytes count only once the object is closed."""

    def close(self) -> None:
        """Make the object complete and visible."""
        if self._closed:
            return
        if self._upload is None:
            self._closed = True
            self._put()
        else:
            self._send()
            self._closed = self._leftover = True
            self._client.call_translated(self._key, self._upload.close)
            self._leftover = False
        self._pending.clear()

    def discard(self) -> None:
        """Abandon the object: nothing stays at its path. After a `close` that returned, this does nothing."""
        self._pending.clear()
        if not self._closed and self._upload is not None:
            self._abort(self._upload)
        self._closed = True
        if self._leftover:
            self._leftover = False
            self._delete()

    def _put(self) -> None:
        data = bytes(self._pending)
        try:
            # A gateway may repeat the request and pass on the second answer, which says that the object exists.
            won = self._client.put_once(self._key, data) or self._client.get(self._key) == data
        except OSError as error:
            self._leftover = not isinstance(error, PermissionError | FileNotFoundError)
            raise
        if not won:
            raise FileExistsError(errno.EEXIST, "the object exists already", self._client.path(self._key))

    def _send(self) -> None:
        if self._upload is None:
            path = self._client.path(self._key)
            try:
                self._client.head(self._key)
            except FileNotFoundError:
                self._upload = self._client.open_writer(self._key, PART_BYTES)
            else:
                raise FileExistsError(errno.EEXIST, "the object exists already", path)
        upload, pending = self._upload, bytes(self._pending)
        self._pending.clear()
        self._client.call_translated(self._key, lambda: upload.write(pending))

    def _abort(self, upload: obstore.WritableFile) -> None:
        """End the upload as if an error had occurred, so that the store removes the uploaded parts."""
        reason = InterruptedError("discarded")
        self._client.call_translated(self._key, lambda: upload.__exit__(InterruptedError, reason, None))

    def _delete(self) -> None:
        try:
            self._client.delete([self._key])
        except FileNotFoundError:
            return

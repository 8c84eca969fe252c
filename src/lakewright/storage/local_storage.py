"""Files on a local disk.

`create` writes a temporary file, syncs it and links it to its final name: the kernel lets exactly one link of a name
succeed, and a file with that name is always complete. A rename would replace a file that another process has just
published.

With `durable` (the default) a file and the directory entries that lead to it are on disk before a call returns. Deletes
are not synced: after a power cut a deleted file may exist again, and every clean-up allows for that.

Listings and walks show regular files and real directories only. They leave out symbolic links and special files, so
deletes and other work that starts from a listing never leave the tree. Opening a path does follow links: a warehouse
may be reached through one.
"""

# ruff: noqa: PTH102, PTH104, PTH105, PTH108, PTH112, PTH114, PTH116, PTH120, PTH123

from __future__ import annotations

import ctypes
import errno
import io
import os
import shutil
import stat
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, cast

import pyarrow as pa

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.storage.storage import FileInfo, Output

if sys.platform == "darwin":
    import fcntl

_SMALL_BYTES = 64 * 1024  # writes below this are gathered
_PENDING_BYTES_MAX = 1024 * 1024
_NAME_BYTES_MAX = 255
_NO_HARD_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}
_NO_EXCLUSIVE_RENAME = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP}
_REMOVE_ATTEMPTS_MAX = 10
_AT_FDCWD = -100
_RENAME_NOREPLACE = 1


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """The storage of a local file system.

    `durable=False` skips every sync; a power cut may then lose files.
    """

    durable: bool = True

    @property
    def renames_atomically(self) -> bool:
        """True: `rename_directory` is atomic."""
        return True

    @property
    def requests_at_once(self) -> int:
        """1: starting a thread takes longer than a call."""
        return 1

    def open_input(self, path: str, *, size: int | None = None, end_bytes: int = 0) -> BinaryIO:  # noqa: ARG002 - near
        """Open a file for random access; reads do not hold Python's lock."""
        return cast("BinaryIO", pa.OSFile(_plain(path)))

    def open_output(self, path: str) -> Output:
        """Open a new file under its final name; an existing file is a FileExistsError."""
        target = _plain(path)
        return _LocalOutput(target, self._open_exclusive(target), durable=self.durable)

    def read(self, path: str) -> bytes:
        """Return a whole file."""
        with open(_plain(path), "rb", buffering=0) as file:
            return file.readall()

    def create(self, path: str, data: bytes) -> bool:
        """Put a whole file only where none exists, durably. False means that another process was first."""
        target = _plain(path)
        if os.path.lexists(target):
            return False  # saves writing the temporary file; the link below decides a race
        temporary = self._write_temporary(target, data, durable=self.durable)
        try:
            won = _link_once(temporary, target)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
        if won and self.durable:
            _sync_directory(os.path.dirname(target))
        return won

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Put a whole file, replacing one that exists; readers see either the old bytes or the new."""
        target = _plain(path)
        synced = durable and self.durable
        temporary = self._write_temporary(target, data, durable=synced)
        try:
            os.replace(temporary, target)
        except OSError:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        if synced:
            _sync_directory(os.path.dirname(target))

    def exists(self, path: str) -> bool:
        """Return whether a file exists at the path."""
        return self.size(path) is not None

    def size(self, path: str) -> int | None:
        """Return the size of a file, None where there is none."""
        try:
            status = os.stat(_plain(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def list(self, directory: str) -> Iterator[FileInfo]:
        """Yield the regular files directly inside a directory by name; nothing where it does not exist."""
        for entry in _entries(_plain(directory)):
            if entry.is_file(follow_symlinks=False) and (info := _file_info(entry)) is not None:
                yield info

    def names(self, directory: str, *, after: str = "") -> Iterator[str]:
        """Yield the names of the regular files directly inside a directory, in any order."""
        try:
            with os.scandir(_plain(directory).rstrip("/") or "/") as entries:
                yield from [e.name for e in entries if e.name > after and e.is_file(follow_symlinks=False)]
        except (FileNotFoundError, NotADirectoryError):
            return

    def list_directories(self, directory: str) -> Iterator[str]:
        """Yield the paths of the real directories directly inside a directory, by name."""
        for entry in _entries(_plain(directory)):
            if entry.is_dir(follow_symlinks=False):
                yield entry.path

    def walk(self, directory: str) -> Iterator[FileInfo]:
        """Yield every regular file below a directory, never through a link."""
        yield from self.list(directory)
        for inner in self.list_directories(directory):
            yield from self.walk(inner)

    def make_directory(self, directory: str) -> None:
        """Make a directory and its parents; one that exists is fine."""
        missing = []
        path = _plain(directory)
        while path and not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for path in reversed(missing):
            try:
                os.mkdir(path)
            except FileExistsError:
                if not os.path.isdir(path):
                    raise
            if self.durable:
                _sync_directory(os.path.dirname(path))

    def delete(self, path: str, *, durable: bool = False) -> None:
        """Remove a file, or a link but not what it points to. It is no error if the file does not exist."""
        with suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(_plain(path))
            if durable and self.durable:
                _sync_directory(os.path.dirname(_plain(path)))

    def take(self, path: str) -> bytes | None:
        """Remove a file and return what it held, None where there was none; no other process gets or removes it."""
        target = _plain(path)
        temporary = f"{os.path.dirname(target)}/.{uuid.uuid4()}.tmp"
        try:
            os.rename(target, temporary)
        except (FileNotFoundError, NotADirectoryError):
            return None
        data = self.read(temporary)
        os.unlink(temporary)
        return data

    def delete_directory(self, directory: str) -> None:
        """Remove a directory and everything below it, never following links out of it."""
        path = _plain(directory)
        if not path.strip("/") or not path.startswith("/") or ".." in path.split("/"):
            raise InvalidInputError(f"refused to delete the directory {directory!r}: name it by a full path", path=path)
        if os.path.islink(path.rstrip("/")):
            raise InvalidInputError(
                f"refused to delete {directory!r}: it is a symbolic link; delete what it points to", path=path
            )
        _remove_tree(path)
        if self.durable:
            with suppress(FileNotFoundError):
                _sync_directory(os.path.dirname(path.rstrip("/")))

    def prune_directory(self, directory: str, *, before_millis: int | None = None) -> None:
        """Remove a directory and those below it, except directories that hold a file; links are not followed."""
        found = [path for path, _, _ in os.walk(_plain(directory), topdown=False)]
        if before_millis is not None:  # asked of all first, as the removal of a directory changes the one above it
            found = [path for path in found if _is_older(path, before_millis)]
        for path in found:
            with suppress(OSError):  # it holds something, or another process removed it
                os.rmdir(path)  # noqa: PTH106 - paths are text here

    def rename_directory(self, source: str, target: str) -> None:
        """Move a directory in one step; a target that exists is a FileExistsError, even an empty one."""
        old, new = _plain(source), _plain(target)
        if os.path.islink(old.rstrip("/")):
            raise InvalidInputError(
                f"refused to move {source!r}: it is a symbolic link; move what it points to", path=old
            )
        _rename_exclusive(old, new)
        if self.durable:
            for parent in {os.path.dirname(old), os.path.dirname(new)}:
                _sync_directory(parent)

    def link(self, source: str, target: str) -> None:
        """Give a file a second name, a hard link; UnsupportedError across file systems and where there are none."""
        old, new = _plain(source), _plain(target)
        self.make_directory(os.path.dirname(new))
        try:
            os.link(old, new, follow_symlinks=False)
        except FileExistsError:
            raise
        except OSError as error:
            if error.errno != errno.EXDEV and error.errno not in _NO_HARD_LINKS:
                raise
            raise UnsupportedError(
                f"{source} cannot get the second name {target} without being copied: {error.strerror}", path=source
            ) from error
        if self.durable:
            _sync_directory(os.path.dirname(new))

    def identity(self, path: str) -> str | None:
        """Return the device and the inode of a regular file, None where there is none."""
        try:
            status = os.lstat(_plain(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return f"{status.st_dev}:{status.st_ino}" if stat.S_ISREG(status.st_mode) else None

    def _write_temporary(self, target: str, data: bytes, *, durable: bool) -> str:
        """Write a file beside the target and return its name."""
        directory, name = os.path.split(target)
        token = uuid.uuid4()
        temporary = f".{name}.{token}.tmp"
        if len(os.fsencode(temporary)) > _NAME_BYTES_MAX:
            temporary = f".{token}.tmp"
        path = f"{directory}/{temporary}"
        output = _LocalOutput(path, self._open_exclusive(path), durable=durable)
        try:
            output.write(data)
            output.sync_and_close()
        except BaseException:
            output.discard()
            raise
        return path

    def _open_exclusive(self, path: str) -> io.FileIO:
        try:
            return io.FileIO(path, "x")
        except FileNotFoundError:
            self.make_directory(os.path.dirname(path))
            return io.FileIO(path, "x")


class _LocalOutput:
    """A file being written under its own name: small writes are gathered, large ones are written at once."""

    __slots__ = ("_complete", "_durable", "_path", "_pending", "_raw", "_written")

    def __init__(self, path: str, raw: io.FileIO, *, durable: bool) -> None:
        self._path = path
        self._raw = raw
        self._durable = durable
        self._pending = bytearray()
        self._written = 0
        self._complete = False

    @property
    def closed(self) -> bool:
        """Return whether `close` or `discard` was called."""
        return self._raw.closed

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: bytes, /) -> int:
        """Append bytes, or any object with a buffer of bytes."""
        if self._raw.closed:
            raise ValueError(f"{self._path} is closed")
        view = memoryview(data).cast("B")
        self._written += view.nbytes
        if view.nbytes < _SMALL_BYTES:
            self._pending += view
            if len(self._pending) >= _PENDING_BYTES_MAX:
                self._drain()
        else:
            self._drain()
            _write_all(self._raw, view)
        return view.nbytes

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._written

    def flush(self) -> None:
        """Do nothing: bytes count only once the file is closed."""

    def close(self) -> None:
        """Make the file complete and durable."""
        if self._raw.closed:
            return
        self.sync_and_close()
        if self._durable:
            self._complete = False
            _sync_directory(os.path.dirname(self._path))
            self._complete = True

    def sync_and_close(self) -> None:
        """Sync the bytes to disk, but not the entry in the directory."""
        try:
            self._drain()
            if self._durable:
                _sync(self._raw.fileno())
        except OSError as error:  # some file systems notice only now that the disk is full
            error.filename = error.filename or self._path
            raise
        finally:
            self._raw.close()
        self._complete = True

    def discard(self) -> None:
        """Abandon the file: nothing stays at its path. After a `close` that returned, this does nothing."""
        if self._complete:
            return
        self._pending.clear()
        self._raw.close()
        with suppress(FileNotFoundError):
            os.unlink(self._path)

    def _drain(self) -> None:
        if self._pending:
            pending, self._pending = self._pending, bytearray()
            _write_all(self._raw, memoryview(pending))


def resolve_links(path: str) -> str:
    """Return a local path with its symbolic links resolved, and any other location as it is."""
    return os.path.realpath(path) if path.startswith("/") else path


def _is_older(path: str, millis: int) -> bool:
    try:
        return os.stat(path).st_mtime_ns // 1_000_000 < millis
    except OSError:
        return False  # another process removed it


def _plain(path: str) -> str:
    """Return a path as the kernel takes it; other writers also record paths as `file:` URIs."""
    if path.startswith("file:"):
        return "/" + path[5:].lstrip("/")
    return path


def _write_all(raw: io.FileIO, view: memoryview) -> None:
    while view.nbytes:
        try:
            view = view[raw.write(view) :]
        except OSError as error:  # of a full disk: the system does not say of which file
            error.filename = error.filename or raw.name
            raise


def _sync(descriptor: int) -> None:
    if sys.platform == "darwin":  # fsync there does not wait until the drive has stored the bytes
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _link_once(temporary: str, target: str) -> bool:
    """Give a file its final name if no other file has it."""
    try:
        os.link(temporary, target, follow_symlinks=False)
    except FileExistsError:
        # A network disk may repeat a request whose reply was lost: the existing link is then this one.
        with suppress(FileNotFoundError):
            return os.path.samestat(os.lstat(target), os.lstat(temporary))
        return False
    except OSError as error:
        if error.errno in _NO_HARD_LINKS:
            raise UnsupportedError(
                f"{target} cannot be published safely: its file system refuses hard links ({error.strerror}). "
                "Put the warehouse on a file system that has them, or in an object store with conditional puts",
                path=target,
            ) from error
        raise
    return True


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory.rstrip("/") or "/") as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _file_info(entry: os.DirEntry[str]) -> FileInfo | None:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None  # deleted since it was listed
    return FileInfo(entry.path, status.st_size, status.st_mtime_ns // 1_000_000)


def _remove_tree(path: str) -> None:
    """Remove a directory tree in which other processes may still create or delete files."""
    for attempt in range(_REMOVE_ATTEMPTS_MAX):
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            if not os.path.lexists(path):
                return
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or attempt == _REMOVE_ATTEMPTS_MAX - 1:
                raise
        else:
            return


def _rename_exclusive(old: str, new: str) -> None:
    """Rename a directory unless the target exists.

    The kernel decides this where it can. Elsewhere the target is checked first, and an empty directory that another
    process makes after the check is replaced.
    """
    if sys.platform == "linux":
        rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
        if rename is not None:
            if not rename(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), _RENAME_NOREPLACE):
                return
            code = ctypes.get_errno()
            if code not in _NO_EXCLUSIVE_RENAME:
                raise OSError(code, os.strerror(code), old, None, new)
    if os.path.lexists(new):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new)
    os.rename(old, new)

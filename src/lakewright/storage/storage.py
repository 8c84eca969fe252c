"""The `Storage` protocol through which all bytes pass.

All guarantees of the library rest on `create`: it puts a whole file only where none exists, and exactly one of any
number of racing callers gets True. Nothing else decides a race, but for tables whose history a server owns: there the
server decides which commit comes next.

Failures are OSErrors: FileNotFoundError for a file that does not exist, a refusal (`is_refusal`) for a call that the
storage rejected, any other OSError for a call whose effect is unknown.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

_REFUSALS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM})


def is_refusal(error: OSError) -> bool:
    """Return whether a storage rejected a call for lack of space or rights: the call had and will have no effect."""
    return isinstance(error, PermissionError) or error.errno in _REFUSALS


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One file as a listing shows it."""

    path: str
    size: int
    modified_millis: int


class Output(Protocol):
    """A file being written, with the methods that pyarrow and fastavro call."""

    @property
    def closed(self) -> bool:
        """Return whether `close` or `discard` was called."""

    def write(self, data: bytes, /) -> int:
        """Append bytes."""

    def tell(self) -> int:
        """Return how many bytes were written."""

    def flush(self) -> None:
        """Do nothing: bytes count only once the file is closed."""

    def close(self) -> None:
        """Make the file complete, durable and visible."""

    def discard(self) -> None:
        """Abandon the file: nothing stays at its path. After `close` this does nothing."""


class Storage(Protocol):
    """Reads, writes, lists and deletes files by their paths."""

    @property
    def renames_atomically(self) -> bool:
        """Return whether `rename_directory` is atomic: true of disks, false of object stores."""

    @property
    def requests_at_once(self) -> int:
        """How many calls to make at the same time where they do not depend on each other; 1 for a storage nearby."""

    def open_input(self, path: str, *, size: int | None = None, end_bytes: int = 0) -> BinaryIO:
        """Open a file for random access.

        Who knows its size says so, and how many of its last bytes will be read first: a storage that is far away then
        asks for them with its first request. Both are guesses; what is read does not depend on them.
        """

    def open_output(self, path: str) -> Output:
        """Open a new file; it is complete, durable and visible once `close` returns. An existing file is an error."""

    def read(self, path: str) -> bytes:
        """Return a whole file."""

    def create(self, path: str, data: bytes) -> bool:
        """Put a whole file only where none exists, durably. False means that another process was first."""

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Put a whole file, replacing one that exists. Only for files that decide no race: hints, tags, consumers.

        A hint may be lost in a power cut, so it is written with `durable=False`, which saves two syncs per commit.
        """

    def exists(self, path: str) -> bool:
        """Return whether a file exists at the path."""

    def size(self, path: str) -> int | None:
        """Return the size of a file, None where there is none."""

    def list(self, directory: str) -> Iterator[FileInfo]:
        """Yield the files directly inside a directory; nothing where it does not exist."""

    def names(self, directory: str, *, after: str = "") -> Iterator[str]:
        """Yield the names of the files directly inside a directory, in any order; cheaper than `list`.

        Names that do not come after `after`, compared by their bytes, may be left out.
        """

    def list_directories(self, directory: str) -> Iterator[str]:
        """Yield the paths of the directories directly inside a directory."""

    def walk(self, directory: str) -> Iterator[FileInfo]:
        """Yield every file below a directory."""

    def make_directory(self, directory: str) -> None:
        """Make a directory and its parents where the store has directories. On object stores: a marker object."""

    def delete(self, path: str, *, durable: bool = False) -> None:
        """Remove a file. It is no error if the file does not exist.

        After a power cut it may exist again, unless it was removed with `durable=True`.
        """

    def take(self, path: str) -> bytes | None:
        """Remove a file and return what it held, None where there was none. One step on local disks only."""

    def delete_directory(self, directory: str) -> None:
        """Remove a directory and everything below it, never following links out of it."""

    def prune_directory(self, directory: str, *, before_millis: int | None = None) -> None:
        """Remove a directory and those below it, except directories that hold a file. No effect on object stores.

        With `before_millis` a directory stays that was changed then or later: a writer may be about to fill it.
        """

    def rename_directory(self, source: str, target: str) -> None:
        """Move a directory. The target must not exist. Atomic on local disks only."""

    def link(self, source: str, target: str) -> None:
        """Give a file a second name, durably and without copying it; UnsupportedError where that is impossible.

        A target that exists is a FileExistsError. The file lives on until both names are deleted.
        """

    def identity(self, path: str) -> str | None:
        """Return what all names of one file have in common, None where there is no file or files have one name."""

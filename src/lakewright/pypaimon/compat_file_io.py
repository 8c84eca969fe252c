"""`FileIO` over a storage."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Self
from urllib.parse import urlparse

import pyarrow.fs as pafs

from lakewright.errors import InvalidInputError, LakewrightWarning
from lakewright.storage.storage import FileInfo, Output, Storage
from lakewright.storage.storage_registry import open_storage


@dataclass(frozen=True, slots=True)
class FileStatus:
    """One file or directory as a listing shows it."""

    path: str
    type: pafs.FileType
    size: int | None = None  # of a file
    mtime: float | None = None  # seconds since 1970; None where the storage does not say

    @property
    def base_name(self) -> str:
        """The last part of the path."""
        return self.path.rstrip("/").rpartition("/")[2]

    @property
    def is_file(self) -> bool:
        """Whether it is a file."""
        return bool(self.type == pafs.FileType.File)


class FileIO:
    """Reads, writes, lists and deletes files of one storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @property
    def storage(self) -> Storage:
        """The storage in which the files are."""
        return self._storage

    @staticmethod
    def get(path: str, catalog_options: Mapping[str, object] | None = None) -> FileIO:
        """Open the storage that a path is in."""
        return FileIO(open_storage(path, {key: str(value) for key, value in (catalog_options or {}).items()})[0])

    # Looking.

    def exists(self, path: str) -> bool:
        """Return whether there is a file or a directory."""
        return self._find(path) is not None

    def exists_batch(self, paths: Iterable[str]) -> dict[str, bool]:
        """Say of each path whether there is a file or a directory."""
        return {path: self.exists(path) for path in paths}

    def get_file_status(self, path: str) -> FileStatus:
        """Return what is known of a file or directory, or raise FileNotFoundError."""
        found = self._find(path)
        if found is None:
            raise FileNotFoundError(f"File {path} does not exist")
        return found

    def get_file_size(self, path: str) -> int:
        """Return the size of a file."""
        size = self.get_file_status(path).size
        if size is None:
            raise InvalidInputError(f"File size not available for {path}: it is a directory")
        return size

    def is_dir(self, path: str) -> bool:
        """Return whether a path is a directory."""
        return bool(self.get_file_status(path).type == pafs.FileType.Directory)

    def list_status(self, path: str) -> list[FileStatus]:
        """Return the files and directories directly inside a directory; a file is a list of itself."""
        place = self._place(path)
        directories = [
            FileStatus(one.rstrip("/"), pafs.FileType.Directory) for one in self._storage.list_directories(place)
        ]
        found = [*(_status(info) for info in self._storage.list(place)), *directories]
        if found:
            return found
        status = self._find(path)
        return [status] if status is not None and status.is_file else []

    # Reading.

    def new_input_stream(self, path: str) -> BinaryIO:
        """Open a file for reading."""
        return self._storage.open_input(self._place(path))

    def read_file_utf8(self, path: str) -> str:
        """Return a whole file as text."""
        return self._storage.read(self._place(path)).decode()

    def read_file_range(self, path: str, offset: int, length: int) -> bytes:
        """Return some bytes of a file; a negative length means all up to its end."""
        with self.new_input_stream(path) as source:
            source.seek(offset)
            return source.read() if length < 0 else source.read(length)

    # Writing.

    def new_output_stream(self, path: str) -> OutputStream:
        """Open a new file; it is visible once it is closed. A file at the path is replaced."""
        place = self._place(path)
        self._storage.delete(place)
        return OutputStream(self._storage.open_output(place))

    def try_to_write_atomic(self, path: str, content: str) -> bool:
        """Put a whole file only where none exists; False means that there is one."""
        return self._storage.create(self._place(path), content.encode())

    def write_file(self, path: str, content: str, overwrite: bool = False) -> None:  # noqa: FBT001, FBT002 - pypaimon's signature
        """Put a whole file; without `overwrite` an existing one is an error."""
        if overwrite:
            self.overwrite_file_utf8(path, content)
        elif not self.try_to_write_atomic(path, content):
            raise FileExistsError(f"File {path} already exists")

    def overwrite_file_utf8(self, path: str, content: str) -> None:
        """Put a whole file, replacing one that exists."""
        self._storage.replace(self._place(path), content.encode())

    def copy_file(self, source_path: str, target_path: str, overwrite: bool = False) -> None:  # noqa: FBT001, FBT002 - pypaimon's signature
        """Copy a file; without `overwrite` an existing target is an error."""
        data, target = self._storage.read(self._place(source_path)), self._place(target_path)
        if overwrite:
            self._storage.replace(target, data)
        elif not self._storage.create(target, data):
            raise FileExistsError(f"Target file {target_path} already exists and overwrite=False")

    def copy_files(self, source_directory: str, target_directory: str, overwrite: bool = False) -> None:  # noqa: FBT001, FBT002 - pypaimon's signature
        """Copy the files directly inside a directory."""
        for status in self.list_status(source_directory):
            if status.is_file:
                self.copy_file(status.path, f"{target_directory.rstrip('/')}/{status.base_name}", overwrite)

    # Directories, moving and removing.

    def mkdirs(self, path: str) -> bool:
        """Make a directory and its parents."""
        if self._storage.size(self._place(path)) is not None:
            raise FileExistsError(f"Path exists but is not a directory: {path}")
        self._storage.make_directory(self._place(path))
        return True

    def check_or_mkdirs(self, path: str) -> None:
        """Make a directory unless there is one; a file at the path is an error."""
        self.mkdirs(path)

    def rename(self, src: str, dst: str) -> bool:
        """Move a file or a directory; False where there is none, or where something is at the target."""
        source, target = self._find(src), self._place(dst)
        if source is None or self._find(dst) is not None:
            return False
        if not source.is_file:
            self._storage.rename_directory(self._place(src), target)
            return True
        if not self._storage.create(target, self._storage.read(self._place(src))):
            return False
        self._storage.delete(self._place(src))
        return True

    def delete(self, path: str, recursive: bool = False) -> bool:  # noqa: FBT001, FBT002 - pypaimon's signature
        """Remove a file, or a directory: with `recursive` all that is in it. False where there was nothing."""
        found, place = self._find(path), self._place(path)
        if found is None:
            return False
        if found.is_file:
            self._storage.delete(place)
        elif recursive:
            self._storage.delete_directory(place)
        elif self.list_status(path):
            raise OSError(f"Directory {path} is not empty")
        else:
            self._storage.prune_directory(place)
        return True

    def delete_quietly(self, path: str) -> None:
        """Remove a file; what goes wrong is a warning."""
        self._quietly(path, recursive=False)

    def delete_files_quietly(self, files: Iterable[str]) -> None:
        """Remove files; what goes wrong is a warning."""
        for path in files:
            self.delete_quietly(path)

    def delete_directory_quietly(self, directory: str) -> None:
        """Remove a directory and all that is in it; what goes wrong is a warning."""
        self._quietly(directory, recursive=True)

    def close(self) -> None:
        """Do nothing: nothing is held open."""

    def to_filesystem_path(self, path: str) -> str:
        """Return a path as the storage spells it."""
        return self._place(path)

    def _quietly(self, path: str, *, recursive: bool) -> None:
        try:
            self.delete(path, recursive)
        except OSError as error:
            warnings.warn(f"{path} was not deleted: {error}", LakewrightWarning, stacklevel=3)

    def _place(self, path: str) -> str:
        parsed = urlparse(path)
        return parsed.path if parsed.scheme == "file" else path

    def _find(self, path: str) -> FileStatus | None:
        """Return the file or directory at a path: a directory is one that its parent lists."""
        place = self._place(path).rstrip("/")
        parent = place.rpartition("/")[0]
        for info in self._storage.list(parent):
            if info.path.rstrip("/") == place:
                return _status(info)
        if any(one.rstrip("/") == place for one in self._storage.list_directories(parent)):
            return FileStatus(place, pafs.FileType.Directory)
        return None


class LocalFileIO(FileIO):
    """Files of the local disk."""

    def __init__(self, path: str | None = None, catalog_options: Mapping[str, object] | None = None) -> None:
        super().__init__(open_storage(path or "/", {key: str(v) for key, v in (catalog_options or {}).items()})[0])

    @staticmethod
    def create() -> LocalFileIO:
        """Return the files of the local disk."""
        return LocalFileIO()


class OutputStream:
    """A file that is being written; leaving it with an error leaves no file."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._output.discard()

    def write(self, data: bytes) -> int:
        """Append bytes."""
        return self._output.write(data)

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._output.tell()

    def flush(self) -> None:
        """Do nothing: bytes count once the file is closed."""

    def close(self) -> None:
        """Make the file complete and visible."""
        if not self._output.closed:
            self._output.close()


def _status(info: FileInfo) -> FileStatus:
    return FileStatus(info.path, pafs.FileType.File, info.size, info.modified_millis / 1000)

"""Storages for tests: one in memory that can simulate a power cut, and one that fails at chosen calls.

The files of a `MemoryStorage` are in the memory of this process, and all storages of one name share them. For each file
it keeps the bytes that readers see and the bytes that a power cut would leave. A `FaultyStorage` counts the calls that
pass through it and fails those in its plan; the same plan and the same seed give the same run.
"""

from __future__ import annotations

import errno
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO, TypeVar, cast

import pyarrow as pa

from contract.faulty_disk import Disk, File
from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.storage.storage import FileInfo, Output, Storage
from lakewright.storage.storage_registry import register_scheme

T = TypeVar("T")


_DISKS: dict[str, Disk] = {}
_DISKS_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class MemoryImage:
    """The files of a memory storage at one moment."""

    files: Mapping[str, bytes]
    directories: frozenset[str]


@dataclass(frozen=True, slots=True)
class MemoryStorage:
    """The storage of files in the memory of this process, at `memory://<name>/...`.

    With `durable`, everything but deletes survives a power cut once its call has returned; without, nothing is certain.
    Without `renames` it is like an object store: `rename_directory` counts as not atomic, and deletes are durable.
    """

    name: str
    durable: bool = True
    renames: bool = True
    requests_at_once: int = 1  # with more, the order of calls differs from run to run

    @property
    def renames_atomically(self) -> bool:
        """Say whether `rename_directory` is atomic."""
        return self.renames

    @property
    def root(self) -> str:
        """The location of the storage itself."""
        return f"memory://{self.name}"

    def open_input(self, path: str, *, size: int | None = None, end_bytes: int = 0) -> BinaryIO:  # noqa: ARG002 - near
        """Open a file for random access."""
        return cast("BinaryIO", pa.BufferReader(self.read(path)))

    def open_output(self, path: str) -> Output:
        """Open a new file; as on a disk its bytes are visible while they are written."""
        with self._disk.lock:
            if self.exists(path):
                raise FileExistsError(errno.EEXIST, "the file exists already", path)
            file = self._disk.put(self._checked(path), bytearray(), synced=False)
            return _MemoryOutput(self, path, file, self._disk.power_cuts)

    def read(self, path: str) -> bytes:
        """Return a whole file."""
        with self._disk.lock:
            file = self._disk.files.get(path)
            if file is None or file.data is None:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            return bytes(file.data)

    def create(self, path: str, data: bytes) -> bool:
        """Put a whole file only where none exists. False means that another process was first."""
        with self._disk.lock:
            if is_new := not self.exists(path):
                self._disk.put(self._checked(path), bytes(data), synced=self.durable)
            return is_new

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Put a whole file, whatever was there."""
        with self._disk.lock:
            self._disk.put(self._checked(path), bytes(data), synced=durable and self.durable)

    def exists(self, path: str) -> bool:
        """Say whether a file exists at the path."""
        return self.size(path) is not None

    def size(self, path: str) -> int | None:
        """Return the size of a file, None where there is none."""
        with self._disk.lock:
            file = self._disk.files.get(path)
            return None if file is None or file.data is None else len(file.data)

    def list(self, directory: str) -> Iterator[FileInfo]:
        """Yield the files directly inside a directory, by name."""
        return (info for info in self.walk(directory) if "/" not in info.path[len(_prefix(directory)) :])

    def names(self, directory: str, *, after: str = "") -> Iterator[str]:
        """Yield the names of the files directly inside a directory, by name."""
        names = (info.path.rpartition("/")[2] for info in self.list(directory))
        return (name for name in names if name > after)

    def list_directories(self, directory: str) -> Iterator[str]:
        """Yield the paths of the directories directly inside a directory, by name."""
        prefix = _prefix(directory)
        with self._disk.lock:
            made = {path + "/" for path in self._disk.directories if path.startswith(prefix)}
            used = {path for path, _, _ in self._disk.visible(prefix)}
        inner = {path[len(prefix) :].partition("/")[0] for path in made | used if "/" in path[len(prefix) :]}
        return iter([prefix + name for name in sorted(inner)])

    def walk(self, directory: str) -> Iterator[FileInfo]:
        """Yield every file below a directory, by path."""
        with self._disk.lock:
            files = self._disk.visible(_prefix(directory))
            return iter([FileInfo(path, size, file.modified_millis) for path, file, size in files])

    def make_directory(self, directory: str) -> None:
        """Make a directory; its parents come with it."""
        with self._disk.lock:
            self._disk.directories.add(self._checked(directory))

    def delete(self, path: str, *, durable: bool = False) -> None:
        """Remove a file, if it exists. Until its directory is synced, a power cut may undo it."""
        with self._disk.lock:
            self._disk.remove(path, synced=not self.renames or (durable and self.durable))
            if durable and self.durable:
                self._disk.sync_deletes(path)

    def take(self, path: str) -> bytes | None:
        """Remove a file and return what it held, None where there was none."""
        with self._disk.lock:
            try:
                data = self.read(path)
            except FileNotFoundError:
                return None
            self._disk.remove(path, synced=not self.renames)
            return data

    def delete_directory(self, directory: str) -> None:
        """Remove a directory and everything below it."""
        if self._checked(directory).rstrip("/") == self.root:
            raise InvalidInputError(f"refused to delete all of {self.root}", path=directory)
        prefix = _prefix(directory)
        with self._disk.lock:
            for path in [path for path, _, _ in self._disk.visible(prefix)]:
                self._disk.remove(path, synced=self.durable)
            self._disk.directories -= {path for path in self._disk.directories if _prefix(path).startswith(prefix)}

    def prune_directory(
        self,
        directory: str,
        *,
        before_millis: int | None = None,  # noqa: ARG002 - directories have no age here
    ) -> None:
        """Remove a directory and those below it, except directories that hold a file."""
        prefix = _prefix(self._checked(directory))
        with self._disk.lock:
            empty = {
                path
                for path in self._disk.directories
                if _prefix(path).startswith(prefix) and next(self._disk.visible(_prefix(path)), None) is None
            }
            self._disk.directories -= empty

    def rename_directory(self, source: str, target: str) -> None:
        """Move a directory atomically; a target that exists is a FileExistsError."""
        old, new = _prefix(self._checked(source)), _prefix(self._checked(target))
        with self._disk.lock:
            if self._is_directory(new):
                raise FileExistsError(errno.EEXIST, "the target directory exists", target)
            if not self._is_directory(old):
                raise FileNotFoundError(errno.ENOENT, "no such directory", source)
            moved = {path: file for path, file in self._disk.files.items() if path.startswith(old)}
            for path, file in moved.items():
                del self._disk.files[path]
                self._disk.files[new + path[len(old) :]] = file
            made = {path for path in self._disk.directories if _prefix(path).startswith(old)}
            self._disk.directories -= made
            self._disk.directories |= {(new + _prefix(path)[len(old) :]).rstrip("/") for path in made}

    def link(self, source: str, target: str) -> None:
        """Give a file a second name for the same object of bytes; UnsupportedError without `renames`."""
        if not self.renames:
            raise UnsupportedError(f"{source} cannot get the second name {target}", path=source)
        with self._disk.lock:
            self.read(source)
            if self.exists(target):
                raise FileExistsError(errno.EEXIST, "the file exists", target)
            file = self._disk.files[source]
            self._disk.put(target, file.data or b"", synced=False).kept = file.kept if self.durable else None

    def identity(self, path: str) -> str | None:
        """Return the number of the object that holds the bytes of a file."""
        file = self._disk.files.get(path)
        return None if file is None or file.data is None or not self.renames else str(id(file.data))

    def crash(self, seed: int) -> None:
        """Simulate a power cut: synced bytes stay; the seed decides which others stay, are cut short or are lost."""
        dice = random.Random(seed)
        with self._disk.lock:
            self._disk.power_cuts += 1
            for path in sorted(self._disk.files):
                left = _survivor(self._disk.files[path], dice)
                if left is None:
                    del self._disk.files[path]
                else:
                    self._disk.files[path].data = self._disk.files[path].kept = left

    def unsynced(self) -> tuple[str, ...]:
        """Return the paths that a power cut could change now."""
        return tuple(path for path, file in sorted(self._disk.files.items()) if file.data != file.kept)

    def image(self) -> MemoryImage:
        """Return all visible files, to be restored later."""
        with self._disk.lock:
            files = {path: bytes(file.data) for path, file in self._disk.files.items() if file.data is not None}
            return MemoryImage(files, frozenset(self._disk.directories))

    def restore(self, image: MemoryImage) -> None:
        """Replace all files by those of an image, as if they had been synced."""
        with self._disk.lock:
            self._disk.power_cuts += 1
            self._disk.files.clear()
            for path, data in image.files.items():
                self._disk.put(path, data, synced=True)
            self._disk.directories = set(image.directories)

    def clear(self) -> None:
        """Remove everything."""
        self.restore(MemoryImage({}, frozenset()))

    def age(self, millis: int) -> None:
        """Make every file older, for code that depends on the time of the last change."""
        with self._disk.lock:
            for file in self._disk.files.values():
                file.modified_millis -= millis

    @property
    def _disk(self) -> Disk:
        with _DISKS_LOCK:
            return _DISKS.setdefault(self.name, Disk())

    def _checked(self, path: str) -> str:
        if path != self.root and not path.startswith(f"{self.root}/"):
            raise InvalidInputError(f"{path!r} lies outside {self.root}", path=path)
        if ".." in path.split("/"):
            raise InvalidInputError(f"{path!r} climbs out of its directory", path=path)
        return path

    def _is_directory(self, prefix: str) -> bool:
        made = any(_prefix(path).startswith(prefix) for path in self._disk.directories)
        return made or next(self._disk.visible(prefix), None) is not None


class _MemoryOutput:
    """A file being written into memory."""

    def __init__(self, storage: MemoryStorage, path: str, file: File, power_cuts: int) -> None:
        self._storage = storage
        self._path = path
        self._file = file
        self._power_cuts = power_cuts
        self._written = 0
        self.closed = False

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: bytes, /) -> int:
        """Append bytes."""
        if self.closed:
            raise ValueError(f"{self._path} is closed")
        with self._alive().lock:
            view = memoryview(data).cast("B")
            cast("bytearray", self._file.data).extend(view)
            self._written += view.nbytes
            return view.nbytes

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._written

    def flush(self) -> None:
        """Do nothing: bytes count only once the file is closed."""

    def close(self) -> None:
        """Make the file complete and durable."""
        if self.closed:
            return
        with self._alive().lock:
            self.closed = True
            self._file.data = bytes(self._file.data or b"")
            if self._storage.durable:
                self._file.kept = self._file.data

    def discard(self) -> None:
        """Abandon the file: nothing stays at its path."""
        if self.closed:
            return
        with self._alive().lock:
            self.closed = True
            self._storage.delete(self._path)

    def _alive(self) -> Disk:
        disk = self._storage._disk
        if disk.power_cuts != self._power_cuts or self._file.data is None:
            raise OSError(errno.EIO, "the file was opened before the power cut, or is deleted", self._path)
        return disk


def _prefix(directory: str) -> str:
    return directory.rstrip("/") + "/"


def _survivor(file: File, dice: random.Random) -> bytes | None:
    """Return the bytes of a file after a power cut."""
    if file.data == file.kept:
        return file.kept
    fate = dice.choice(("keep", "cut", "fall back"))
    if fate == "fall back" or file.data is None:
        return file.kept if fate != "keep" else None
    return bytes(file.data) if fate == "keep" else bytes(file.data[: dice.randrange(len(file.data) + 1)])


def _open_memory(location: str, options: Mapping[str, str]) -> tuple[Storage, str]:
    name = location.partition("://")[2].partition("/")[0]
    storage = MemoryStorage(name, durable=options.get("lakewright.durable", "true") == "true")
    return storage, location.rstrip("/")


register_scheme("memory", _open_memory)


class Crash(BaseException):
    """A simulated crash of the process. `except Exception` does not catch it, and its storage takes no further call."""


class FaultKind(StrEnum):
    """How one call can fail."""

    ERROR_BEFORE = "error before"  # nothing happened
    ERROR_AFTER = "error after"  # it happened, the reply was lost
    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    SHORT_WRITE = "short write"  # half of the bytes, then an error; other calls: nothing happened
    DISK_FULL = "disk full"  # from here on nothing can be written
    CONFLICT = "409"  # `create` reports a loss though no file was created; other calls: nothing happened
    PRECONDITION = "412"  # `create` reports a loss though it won: its reply was lost and the put repeated
    UNAVAILABLE = "503"  # nothing happened
    SLOW = "slow"  # other writers act before it
    STALE_LISTING = "stale listing"  # a listing does not show what was created through this storage


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a plan: which call fails, counted from 1, and how."""

    call: int
    kind: FaultKind


@dataclass(frozen=True, slots=True)
class Call:
    """One call that reached the storage."""

    verb: str
    path: str


_WRITES = frozenset("create replace open_output write close make_directory rename_directory link".split())
_LISTINGS = frozenset("list names list_directories walk".split())
_ERRNO = {FaultKind.SHORT_WRITE: errno.ENOSPC, FaultKind.DISK_FULL: errno.ENOSPC, FaultKind.UNAVAILABLE: errno.EAGAIN}


class FaultyStorage:
    """A storage that counts its calls and fails those in the plan. `pause` runs in the middle of a slow call."""

    def __init__(self, inner: Storage, plan: Iterable[Fault] = (), *, pause: Callable[[], None] | None = None) -> None:
        self.inner = inner
        self.requests_at_once = inner.requests_at_once
        self.plan = {fault.call: fault.kind for fault in plan}
        self.calls: list[Call] = []
        self.dead = self._full = False
        self._pause = pause
        self._created: set[str] = set()
        self._lock = threading.Lock()

    @property
    def renames_atomically(self) -> bool:
        """The same as in the inner storage."""
        return self.inner.renames_atomically

    def open_input(self, path: str, *, size: int | None = None, end_bytes: int = 0) -> BinaryIO:
        """Open a file for random access; its reads are not counted."""
        return self.run("open_input", path, lambda: self.inner.open_input(path, size=size, end_bytes=end_bytes))

    def open_output(self, path: str) -> Output:
        """Open a new file whose writes and close count as calls."""
        output = self.run("open_output", path, lambda: self.inner.open_output(path))
        return _FaultyOutput(self, path, output)

    def read(self, path: str) -> bytes:
        """Return a whole file."""
        return self.run("read", path, lambda: self.inner.read(path))

    def create(self, path: str, data: bytes) -> bool:
        """Put a whole file only where none exists."""
        return self.run("create", path, lambda: self.inner.create(path, data))

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Put a whole file, whatever was there."""
        self.run("replace", path, lambda: self.inner.replace(path, data, durable=durable))

    def exists(self, path: str) -> bool:
        """Say whether a file exists at the path."""
        return self.run("exists", path, lambda: self.inner.exists(path))

    def size(self, path: str) -> int | None:
        """Return the size of a file, None where there is none."""
        return self.run("size", path, lambda: self.inner.size(path))

    def list(self, directory: str) -> Iterator[FileInfo]:
        """Yield the files directly inside a directory."""
        return iter(self.run("list", directory, lambda: [*self.inner.list(directory)]))

    def names(self, directory: str, *, after: str = "") -> Iterator[str]:
        """Yield the names of the files directly inside a directory."""
        return iter(self.run("names", directory, lambda: [*self.inner.names(directory, after=after)]))

    def list_directories(self, directory: str) -> Iterator[str]:
        """Yield the paths of the directories directly inside a directory."""
        return iter(self.run("list_directories", directory, lambda: [*self.inner.list_directories(directory)]))

    def walk(self, directory: str) -> Iterator[FileInfo]:
        """Yield every file below a directory."""
        return iter(self.run("walk", directory, lambda: [*self.inner.walk(directory)]))

    def make_directory(self, directory: str) -> None:
        """Make a directory and its parents."""
        self.run("make_directory", directory, lambda: self.inner.make_directory(directory))

    def delete(self, path: str, *, durable: bool = False) -> None:
        """Remove a file."""
        self.run("delete", path, lambda: self.inner.delete(path, durable=durable))

    def take(self, path: str) -> bytes | None:
        """Remove a file and return what it held."""
        return self.run("take", path, lambda: self.inner.take(path))

    def delete_directory(self, directory: str) -> None:
        """Remove a directory and everything below it."""
        self.run("delete_directory", directory, lambda: self.inner.delete_directory(directory))

    def prune_directory(self, directory: str, *, before_millis: int | None = None) -> None:
        """Remove directories that hold no file."""
        self.run(
            "prune_directory", directory, lambda: self.inner.prune_directory(directory, before_millis=before_millis)
        )

    def rename_directory(self, source: str, target: str) -> None:
        """Move a directory."""
        self.run("rename_directory", source, lambda: self.inner.rename_directory(source, target))

    def link(self, source: str, target: str) -> None:
        """Give a file a second name."""
        self.run("link", target, lambda: self.inner.link(source, target))

    def identity(self, path: str) -> str | None:
        """Return what all names of a file have in common."""
        return self.run("identity", path, lambda: self.inner.identity(path))

    def run(self, verb: str, path: str, effect: Callable[[], T], half: Callable[[], object] | None = None) -> T:
        """Count one call and make it, unless the plan has a fault for it; `half` is the effect of a short write."""
        kind = self._enter(verb, path)
        if verb == "create" and kind is FaultKind.CONFLICT:
            return cast("T", False)  # noqa: FBT003 - the reply of `create`
        self._before(kind, verb, path, half)
        result = effect()
        if verb in {"create", "replace", "open_output"}:
            self._created.add(path)
        match kind:
            case FaultKind.CRASH_AFTER:
                self._die(verb, path)
            case FaultKind.ERROR_AFTER:
                raise self._error(kind, verb, path)
            case FaultKind.PRECONDITION:
                return cast("T", False)  # noqa: FBT003 - the reply of `create`
            case FaultKind.STALE_LISTING if verb in _LISTINGS:
                return cast("T", self._stale(path, cast("Iterable[object]", result)))
        return result

    def _before(self, kind: FaultKind | None, verb: str, path: str, half: Callable[[], object] | None) -> None:
        """Apply a fault that comes before, or instead of, the effect of a call."""
        if kind is FaultKind.CRASH_BEFORE:
            self._die(verb, path)
        if kind is FaultKind.SLOW and self._pause is not None:
            self._pause()
        if kind is FaultKind.SHORT_WRITE and half is not None:
            half()
        if kind in _NOTHING_HAPPENS or (kind is FaultKind.PRECONDITION and verb != "create"):
            raise self._error(kind, verb, path)

    def _error(self, kind: FaultKind | None, verb: str, path: str) -> OSError:
        number = errno.EIO if kind is None else _ERRNO.get(kind, errno.EIO)
        return OSError(number, f"{kind} at call {len(self.calls)} ({verb})", path)

    def _enter(self, verb: str, path: str) -> FaultKind | None:
        with self._lock:
            if self.dead:
                raise Crash(f"{verb} {path}: this process is dead")
            self.calls.append(Call(verb, path))
            kind = self.plan.get(len(self.calls))
            if kind is FaultKind.DISK_FULL:
                self._full = True
            if self._full:
                return FaultKind.DISK_FULL if verb in _WRITES else None
            return kind

    def _die(self, verb: str, path: str) -> None:
        self.dead = True
        raise Crash(f"crashed at call {len(self.calls)}: {verb} {path}")

    def _stale(self, directory: str, listing: Iterable[object]) -> Sequence[object]:
        """Leave out what was created through this storage: files, directories by their paths, or names."""
        paths = [(one, one.path if isinstance(one, FileInfo) else str(one)) for one in listing]
        return [one for one, path in paths if self._created.isdisjoint({path, f"{directory}/{path}"})]


_NOTHING_HAPPENS = frozenset(
    {
        FaultKind.ERROR_BEFORE,
        FaultKind.SHORT_WRITE,
        FaultKind.DISK_FULL,
        FaultKind.CONFLICT,
        FaultKind.UNAVAILABLE,
    }
)


class _FaultyOutput:
    """A file being written through a faulty storage."""

    def __init__(self, storage: FaultyStorage, path: str, inner: Output) -> None:
        self._storage = storage
        self._path = path
        self._inner = inner

    @property
    def closed(self) -> bool:
        """Say whether `close` or `discard` was called."""
        return self._inner.closed

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: bytes, /) -> int:
        """Append bytes."""
        half = bytes(memoryview(data).cast("B")[: memoryview(data).nbytes // 2])
        return self._storage.run("write", self._path, lambda: self._inner.write(data), lambda: self._inner.write(half))

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._inner.tell()

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Make the file complete, durable and visible."""
        if not self._inner.closed:
            self._storage.run("close", self._path, self._inner.close)

    def discard(self) -> None:
        """Abandon the file."""
        self._storage.run("discard", self._path, self._inner.discard)

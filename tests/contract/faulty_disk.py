"""A disk in memory: bytes in, the bytes that readers see and those that a power cut would leave out."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class File:
    """One file: what readers see of it, and what a power cut would leave."""

    data: bytearray | bytes | None  # the bytes that readers see; None once it is deleted
    kept: bytes | None  # the synced bytes, which survive a power cut; None: nothing
    modified_millis: int


@dataclass(slots=True)
class Disk:
    """All files of a storage in memory; whoever uses it holds its lock."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    files: dict[str, File] = field(default_factory=dict)
    directories: set[str] = field(default_factory=set)
    power_cuts: int = 0  # files that were opened before the last one cannot be written any more

    def visible(self, prefix: str) -> Iterator[tuple[str, File, int]]:
        """Yield the files below a prefix with their sizes, by path."""
        for path in sorted(self.files):
            file = self.files[path]
            if path.startswith(prefix) and file.data is not None:
                yield path, file, len(file.data)

    def put(self, path: str, data: bytes | bytearray, *, synced: bool) -> File:
        """Write a file, replacing one that exists."""
        before = self.files.get(path)
        kept = bytes(data) if synced else before.kept if before else None
        self.files[path] = file = File(data, kept, time.time_ns() // 1_000_000)
        if synced:
            self.sync_deletes(path)
        return file

    def sync_deletes(self, path: str) -> None:
        """Make earlier deletes in the directory of a file durable: syncing a file syncs its directory too."""
        directory = path.rpartition("/")[0]
        for name in [name for name, file in self.files.items() if file.data is None]:
            if name.rpartition("/")[0] == directory:
                del self.files[name]

    def remove(self, path: str, *, synced: bool) -> None:
        """Remove a file, for good if that is synced."""
        file = self.files.get(path)
        if file is not None:
            file.data = None
            if synced or file.kept is None:
                del self.files[path]

"""Storages that do harm at a chosen call: in a worker, where they travel with the table, or in the driver."""

from __future__ import annotations

import errno
import os
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path

from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.storage import Output
from lakewright.table.file_store_table import FileStoreTable

_WAIT_SECONDS_MAX = 300
_DAWDLE_SECONDS = 1.5  # less than Spark gives a worker whose task it has killed


@dataclass(frozen=True)
class TrapStorage(LocalStorage):
    """A local disk where one call, as often as is wanted, does not end as it should.

    A file in the directory `marks` stands for each time; it holds the id of the process that was caught.
    """

    call: str = "open_output"
    name: str = "data-"  # how the names of the files begin that set it off
    moment: str = "after"
    deed: str = "exit"  # or fail, kill, wait, dawdle
    times: int = 1
    marks: str = ""

    def open_output(self, path: str) -> Output:
        """Open a file."""
        self._pass("open_output", path, "before")
        output = LocalStorage.open_output(self, path)
        self._pass("open_output", path, "after")
        return output

    def create(self, path: str, data: bytes) -> bool:
        """Put a file."""
        self._pass("create", path, "before")
        created = LocalStorage.create(self, path, data)
        self._pass("create", path, "after")
        return created

    def _pass(self, call: str, path: str, moment: str) -> None:
        if (call, moment) != (self.call, self.moment) or not path.rpartition("/")[2].startswith(self.name):
            return
        if not any(self._caught(number) for number in range(self.times)):
            return
        match self.deed:
            case "exit":
                os._exit(1)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "wait":
                self._wait()
            case "dawdle":
                time.sleep(_DAWDLE_SECONDS)
            case _:
                raise OSError(errno.EIO, "the disk is away", path)

    def _caught(self, number: int) -> bool:
        try:
            with (Path(self.marks) / str(number)).open("x") as mark:
                mark.write(str(os.getpid()))
        except FileExistsError:
            return False
        return True

    def _wait(self) -> None:
        """Wait for somebody to kill this process, or the one above it."""
        parent, deadline = os.getppid(), time.monotonic() + _WAIT_SECONDS_MAX
        while time.monotonic() < deadline and os.getppid() == parent:
            time.sleep(0.02)
        os._exit(1)


def trapped(table: FileStoreTable, trap: TrapStorage) -> FileStoreTable:
    """Return a table whose files are behind a trap."""
    Path(trap.marks).mkdir(parents=True, exist_ok=True)
    return replace(table, store=replace(table.store, storage=trap))


def caught(marks: Path, number: int = 0, *, seconds_max: float = 240) -> int:
    """Wait until a trap has sprung, and return the id of the process that was caught."""
    deadline = time.monotonic() + seconds_max
    mark = marks / str(number)
    while not (mark.exists() and mark.read_text()):
        assert time.monotonic() < deadline, "the trap was not sprung"
        time.sleep(0.02)
    return int(mark.read_text())

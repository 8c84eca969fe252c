"""Consumers: the position of each reader of a stream, one small file each.

`consumer/consumer-<id>` contains `{"nextSnapshot": n}`: snapshots before n are processed, and snapshots from n on must
be kept. Expiry uses `min_next_snapshot`. A file that cannot be read is an error and does not count as no consumer:
otherwise expiry could remove snapshots that a consumer still has to read.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from lakewright.errors import CorruptTableError, InvalidInputError
from lakewright.spec.snapshot import MAX_LONG
from lakewright.storage.base import Storage
from lakewright.storage.layout import Layout

BODY_READS_MAX = 10
BODY_WAIT_SECONDS = 0.2
_PREFIX = "consumer-"
_KEY = "nextSnapshot"


@dataclass(frozen=True, slots=True)
class Consumers:
    """The consumers of one branch of a table."""

    storage: Storage
    layout: Layout
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False, compare=False)

    def next_snapshot(self, consumer_id: str) -> int | None:
        """Return the first snapshot that a consumer has not processed; None if there is no such consumer."""
        path = self._path(consumer_id)
        try:
            data = self.storage.read(path)
            for _ in range(BODY_READS_MAX):
                if data.rstrip().endswith(b"}"):
                    break
                # Some writers do not create the file in one step.
                self.sleep(BODY_WAIT_SECONDS)
                data = self.storage.read(path)
        except FileNotFoundError:
            return None
        return _next_snapshot(data, path)

    def record(self, consumer_id: str, next_snapshot: int) -> None:
        """Record that a consumer has processed all snapshots before this one."""
        if next_snapshot < 1:
            raise InvalidInputError(
                f"consumer {consumer_id!r} cannot be at snapshot {next_snapshot}: snapshots count from 1",
                consumer=consumer_id,
                snapshot_id=next_snapshot,
            )
        self.storage.replace(self._path(consumer_id), json.dumps({_KEY: next_snapshot}).encode())

    def delete(self, consumer_id: str) -> None:
        """Remove a consumer; it is no error if it does not exist."""
        self.storage.delete(self._path(consumer_id))

    def list(self) -> list[str]:
        """Return the ids of all consumers, in order."""
        names = (info.path.rpartition("/")[2] for info in self.storage.list(self.layout.consumer_directory))
        return sorted(name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX) and name != _PREFIX)

    def all(self) -> dict[str, int]:
        """Return the next snapshot of every consumer."""
        positions = ((consumer_id, self.next_snapshot(consumer_id)) for consumer_id in self.list())
        return {consumer_id: number for consumer_id, number in positions if number is not None}

    def min_next_snapshot(self) -> int | None:
        """Return the oldest snapshot that a consumer still has to read; None if there is no consumer."""
        return min(self.all().values(), default=None)

    def expire(self, *, older_than_millis: int) -> tuple[str, ...]:
        """Remove the consumers whose last record is older than a time, and return their ids."""
        stale = []
        for info in self.storage.list(self.layout.consumer_directory):
            name = info.path.rpartition("/")[2]
            if name.startswith(_PREFIX) and name != _PREFIX and info.modified_millis < older_than_millis:
                with suppress(FileNotFoundError):
                    self.storage.delete(info.path)
                stale.append(name.removeprefix(_PREFIX))
        return tuple(sorted(stale))

    def _path(self, consumer_id: str) -> str:
        if not isinstance(consumer_id, str) or not consumer_id.strip():
            raise InvalidInputError(f"a consumer needs an id that is not blank, not {consumer_id!r}")
        return self.layout.consumer_file(consumer_id)


def _next_snapshot(data: bytes, path: str) -> int:
    try:
        number = json.loads(data)[_KEY]
    except (ValueError, KeyError, TypeError, RecursionError):
        number = None
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number < MAX_LONG:
        raise CorruptTableError(
            f"{path} does not say which snapshot comes next; delete the consumer, or record its position anew",
            path=path,
        )
    return number

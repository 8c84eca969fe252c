"""The lock of a table in a SQL database: whoever inserts its row holds it, as in Java, until the row is deleted.

A row is as old as the clock of the database says. One that is older than its time to live is of a holder that died,
and is replaced by whoever wants the lock next. A holder that was so slow deletes only its own row. The lock is not
reentrant.
"""

# ruff: noqa: S608 - statements are put together from names of this room; values are always passed beside them

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from lakewright.errors import CommitContentionError, InvalidInputError, LakewrightError
from lakewright.jdbc.database import Run, Value, database
from lakewright.jdbc.rows import LOCKS
from lakewright.jdbc.uri import Address

_FIRST_SLEEP_MILLIS = 100
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LockSettings:
    """How long to wait for a lock, and how it is asked for; the names are those of the catalog options."""

    acquire_timeout_millis: int = 8 * 60_000  # `lock-acquire-timeout`; a lock lives as long
    check_max_sleep_millis: int = 8_000  # `lock-check-max-sleep`
    key_max: int = 255  # `lock-key-max-length`
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)


@dataclass(frozen=True, slots=True)
class SqlLock:
    """A lock by its id, `<catalog key>.<database>.<table>`."""

    address: Address
    lock_id: str
    settings: LockSettings = LockSettings()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock, or raise CommitContentionError if others hold it for longer than the timeout."""
        acquired_at = self._wait()
        try:
            yield
        finally:
            self._release(acquired_at)

    def _wait(self) -> Value:
        settings = self.settings
        if len(self.lock_id) > settings.key_max:
            raise InvalidInputError(
                f"the lock {self.lock_id!r} has {len(self.lock_id)} characters, and 'lock-key-max-length' is "
                f"{settings.key_max}: use shorter names",
                lock_id=self.lock_id,
            )
        began, pause = settings.clock(), _FIRST_SLEEP_MILLIS
        while True:
            acquired_at = self._try()
            if acquired_at is not None:
                return acquired_at
            waited = int((settings.clock() - began) * 1000)
            if waited >= settings.acquire_timeout_millis:
                raise self._timed_out(waited)
            settings.sleep(min(pause, settings.acquire_timeout_millis - waited) / 1000)
            pause = min(pause * 2, settings.check_max_sleep_millis)

    def _try(self) -> Value | None:
        """Take the lock and return the time that its row got; None means that somebody else holds it."""
        place = database(self.address)
        expired = f"DELETE FROM {LOCKS} WHERE lock_id = ? AND {place.driver.age} > expire_time_seconds"
        insert = f"INSERT INTO {LOCKS} (lock_id, expire_time_seconds) VALUES (?, ?)"
        seconds = max(1, self.settings.acquire_timeout_millis // 1000)
        acquired: list[Value] = []

        def work(run: Run) -> list[int]:
            run(expired, (self.lock_id,))
            run(insert, (self.lock_id, seconds))
            acquired.append(run(f"SELECT acquired_at FROM {LOCKS} WHERE lock_id = ?", (self.lock_id,))[1][0][0])
            return []

        try:
            taken = place.transact(work) is None
        except CommitContentionError:  # the database is busy with others, perhaps with this very row
            return None
        return None if taken else acquired[0]

    def _release(self, acquired_at: Value) -> None:
        """Delete the row if it is still the one that was inserted. What was done under the lock stands in any case."""
        delete = (f"DELETE FROM {LOCKS} WHERE lock_id = ? AND acquired_at = ?", (self.lock_id, acquired_at))
        for _ in range(2):
            try:
                database(self.address).write(delete)
            except LakewrightError as error:
                _LOG.warning("the lock %s was not released, and expires by itself: %s", self.lock_id, error)
            else:
                return

    def _timed_out(self, waited: int) -> CommitContentionError:
        seconds = self.settings.acquire_timeout_millis // 1000
        return CommitContentionError(
            f"the lock {self.lock_id} was held by others for {waited / 1000:.0f} s, and 'lock-acquire-timeout' is "
            f"{seconds} s; nothing was published. Try again; if its holder has died, delete the row "
            f"lock_id = '{self.lock_id}' of {LOCKS} in {self.address}",
            lock_id=self.lock_id,
            waited_millis=waited,
        )

"""What a commit reads first, asked for while its files are still being written: a table in, its newest snapshot out.

A commit extends the newest snapshot, and compares its buckets with those of all schemas. On an object store it takes a
round trip or two to find them, which the upload of the last files takes as well. An answer that is old is not used:
others may have committed since, and then the commit would lose the race. Which answer is used decides nothing else,
because publishing creates the next snapshot once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from lakewright.metadata.store import TableStore
from lakewright.spec.schema.table_schema import TableSchema
from lakewright.spec.snapshot import Snapshot
from lakewright.storage.side_by_side import Errand

_AGE_SECONDS_MAX = 2.0


@dataclass(slots=True)
class EarlyLook:
    """One look at a table: answers to `begin` are used once and while they are fresh; else the table is asked again."""

    store: TableStore
    is_wanted: bool = False  # by a commit of this process: messages may also be committed elsewhere
    _newest: Errand[Snapshot | None] | None = field(default=None, repr=False)
    _schemas: Errand[list[TableSchema]] | None = field(default=None, repr=False)
    _began: float = 0.0

    def begin(self) -> None:
        """Ask for the newest snapshot, if the storage is far away; a server that owns the history is asked later."""
        if self._is_far:
            self._began = time.monotonic()
            self._newest = Errand(self.store.snapshots.latest, at_once=True)

    def begin_commit(self, newest: Snapshot | None = None) -> None:
        """Ask for all that a commit reads first, without the newest snapshot if the caller has just asked for it."""
        self.begin() if newest is None else self._know(newest)
        if self._is_far and self.store.options.bucket() > 0:
            self._schemas = Errand(self.store.schemas.all, at_once=True)

    def _know(self, newest: Snapshot) -> None:
        if self._is_far:
            self._began = time.monotonic()
            self._newest = Errand(lambda: newest, at_once=False)

    def seen(self) -> Snapshot | None:
        """Return a snapshot that was the newest at some time since `begin`; a commit may still use the answer."""
        return self.store.snapshots.latest() if self._newest is None else self._newest.result()

    def newest(self) -> Snapshot | None:
        """Return the newest snapshot."""
        asked, self._newest = self._newest, None
        return self.store.snapshots.latest() if asked is None or self._is_old else asked.result()

    def schemas(self) -> list[TableSchema]:
        """Return all schemas, in order."""
        asked, self._schemas = self._schemas, None
        return self.store.schemas.all() if asked is None or self._is_old else asked.result()

    @property
    def _is_far(self) -> bool:
        return self.store.storage.requests_at_once > 1 and self.store.home.history is None

    @property
    def _is_old(self) -> bool:
        return time.monotonic() - self._began > _AGE_SECONDS_MAX

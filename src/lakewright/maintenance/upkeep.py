"""Upkeep that options of the table ask for after a commit.

commit publishes -> schedule -> [a thread] tags -> old tags -> old partitions -> old snapshots and changelogs

A store in, nothing out: a failure is a warning that names the table, given to the caller who waits or commits next. A
table that is `write-only`, and one whose history a server owns, are left to those who maintain them. What always holds:
the commit is published before anything here begins, and nothing here is needed for it; one run at a time works on a
table, and commits that come meanwhile share the next run. The process does not end before the runs are done.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from lakewright.errors import LakewrightWarning
from lakewright.maintenance.partition_lifecycle import ExpiryRule, expire_partitions
from lakewright.maintenance.snapshot_expiry import Retention, expire_snapshots
from lakewright.maintenance.tag_lifecycle import BATCH, create_batch_tag, create_due_tags, expire_tags
from lakewright.metadata.table_store import TableStore
from lakewright.spec.snapshot import MAX_LONG
from lakewright.spec.table_options import CoreOptions

WAIT_SECONDS = 60.0  # how long closing a commit waits for the runs of its table
_EXPIRING = ("snapshot.num-retained.", "snapshot.time-retained", "snapshot.expire.", "changelog.", "consumer.exp")
_Place: TypeAlias = tuple[str, str]  # the root of a table, and the branch


def run_upkeep(store: TableStore, *, batch: bool = True, partitions: bool = True) -> list[str]:
    """Do once what the options of a table ask for; return what failed, in words.

    `batch`: the commit was one of a batch write. `partitions`: the time has come to look for old partitions.
    """
    options, failures = store.options, list[str]()

    def step(what: str, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - the commit is published, whatever fails after it
            failures.append(f"{store.name}: the commit is published, but {what} after it failed: {error!r}")

    tags = options.get(CoreOptions.TAG_AUTOMATIC_CREATION)
    if tags == BATCH and batch:
        step("the tag", lambda: create_batch_tag(store))
    step("the creation of tags", lambda: create_due_tags(store))
    timed = tags != "none" or options.get(CoreOptions.TAG_DEFAULT_TIME_RETAINED) is not None
    if timed and options.get(CoreOptions.TAG_TIME_EXPIRE_ENABLED):
        step("the expiry of tags", lambda: expire_tags(store))
    if partitions and options.get(CoreOptions.PARTITION_EXPIRATION_TIME) is not None and store.schema.partition_keys:
        step("the expiry of partitions", lambda: expire_partitions(store, ExpiryRule.of_options(options)))
    if any(key.startswith(_EXPIRING) for key in options.values):
        step("the expiry of snapshots", lambda: _expire_snapshots(store))
    return failures


def _expire_snapshots(store: TableStore) -> None:
    now = time.time_ns() // 1_000_000
    limit = store.options.get(CoreOptions.SNAPSHOT_EXPIRE_LIMIT)
    retention = Retention.of_options(store.options, now, max_deletes=limit)
    # After a commit the others look at the age of a snapshot itself, and tables are left as they leave them.
    young = now - store.options.get(CoreOptions.LAKEWRIGHT_EXPIRE_GRACE)
    expire_snapshots(store, replace(retention, by_successor=0, young_millis=young), now_millis=now)


class _Runs:
    """The runs of this process: what waits, what runs, and what failed."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.waiting: dict[_Place, tuple[TableStore, int]] = {}
        self.running: _Place | None = None
        self.thread: threading.Thread | None = None
        self.failures: dict[_Place, list[str]] = {}
        self.checked: dict[_Place, float] = {}  # when partitions were looked at last

    def add(self, store: TableStore, identifier: int) -> None:
        """Let the thread, which is started if need be, work on a table."""
        with self.changed:
            self.waiting[_place(store)] = store, identifier
            self.checked.setdefault(_place(store), time.monotonic())
            if self.thread is None:
                self.thread = threading.Thread(target=self._work, name="lakewright-upkeep", daemon=False)
                self.thread.start()

    def wait(self, store: TableStore, seconds: float) -> bool:
        """Wait until nothing works on a table, or time is over; return whether nothing does."""
        place = _place(store)
        if threading.current_thread() is self.thread:
            return True
        with self.changed:
            return self.changed.wait_for(lambda: place not in self.waiting and self.running != place, seconds)

    def taken_failures(self, store: TableStore) -> list[str]:
        """Return what failed on a table, once."""
        with self.changed:
            return self.failures.pop(_place(store), [])

    def wait_for_all(self) -> list[str]:
        """Wait until nothing works on any table; return what failed and nobody was told."""
        with self.changed:
            self.changed.wait_for(lambda: self.thread is None)
            failures = [failure for found in self.failures.values() for failure in found]
            self.failures.clear()
            return failures

    def _work(self) -> None:
        try:
            while (found := self._next()) is not None:
                self._run(*found)
        finally:
            with self.changed:
                if self.thread is threading.current_thread():  # something ended it: let nobody wait for it
                    self.waiting.clear()
                    self.running = self.thread = None
                self.changed.notify_all()

    def _run(self, store: TableStore, identifier: int) -> None:
        failures = run_upkeep(store, batch=identifier == MAX_LONG, partitions=self._due(store, identifier))
        with self.changed:
            if failures:
                self.failures[_place(store)] = failures
            self.running = None
            self.changed.notify_all()

    def _next(self) -> tuple[TableStore, int] | None:
        with self.changed:
            if not self.waiting:
                self.thread = None  # under the lock: a table that is added now starts another thread
                return None
            self.running = next(iter(self.waiting))
            return self.waiting.pop(self.running)

    def _due(self, store: TableStore, identifier: int) -> bool:
        """Return whether it is time to look for old partitions, and remember that it is done."""
        options, place, now = store.options, _place(store), time.monotonic()
        interval = options.get(CoreOptions.PARTITION_EXPIRATION_CHECK_INTERVAL)
        at_end = identifier == MAX_LONG and options.get(CoreOptions.END_INPUT_CHECK_PARTITION_EXPIRE)
        due = at_end or (now - self.checked[place]) * 1000 >= interval
        if due:
            self.checked[place] = now
        return due


_runs = _Runs()


def _place(store: TableStore) -> _Place:
    return store.layout.root, store.layout.branch


def schedule(store: TableStore, identifier: int) -> None:
    """Let the thread of this process do what the options of a table ask for. This does not wait for it."""
    _warn(store)
    if not store.options.get(CoreOptions.WRITE_ONLY) and store.home.history is None:
        _runs.add(store, identifier)


def wait(store: TableStore, seconds: float = WAIT_SECONDS) -> bool:
    """Wait until nothing is left to do about a table, and warn of what failed; False: it takes longer than that."""
    done = _runs.wait(store, seconds)
    _warn(store)
    return done


def _warn(store: TableStore) -> None:
    for failure in _runs.taken_failures(store):
        warnings.warn(f"{failure}; the next commit tries it again", LakewrightWarning, stacklevel=5)


def _finish() -> None:
    """Let the process end once the runs are done, and tell what failed."""
    for failure in _runs.wait_for_all():
        warnings.warn(f"{failure}; the next commit tries it again", LakewrightWarning, stacklevel=2)


# The process waits for the thread anyway, but closes all pools of threads before it does, and the runs use some. This
# is called before that, as it was registered after the pools; functions of `atexit` are called after it.
threading._register_atexit(_finish)  # type: ignore[attr-defined]  # noqa: SLF001 - there is no public one


def _forget() -> None:
    """Begin anew in a forked process, which has no thread."""
    global _runs  # noqa: PLW0603 - the state of the process
    _runs = _Runs()


os.register_at_fork(after_in_child=_forget)

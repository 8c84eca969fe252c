"""Upkeep that options of the table ask for: tags, and the expiry of tags, partitions, snapshots and changelogs.

It follows each commit in the thread of the caller, or runs in an explicit `Upkeep` beside writers that leave it out.

Invariant: the commit is published before anything here begins, and nothing here is needed for it, so a failure is a
warning that names the table. A table that is `write-only`, and one whose history a server owns, are left to those who
maintain them.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Protocol, Self, TypeAlias

from lakewright.errors import LakewrightError, LakewrightWarning
from lakewright.maintenance.partition_lifecycle import ExpiryRule, expire_partitions
from lakewright.maintenance.snapshot_expiry import Retention, expire_snapshots
from lakewright.maintenance.tag_lifecycle import BATCH, create_batch_tag, create_due_tags, expire_tags
from lakewright.metadata.table_store import TableStore
from lakewright.spec import argument_checks
from lakewright.spec.argument_checks import DurationLike
from lakewright.spec.snapshot import MAX_LONG

_EXPIRING = ("snapshot.num-retained.", "snapshot.time-retained", "snapshot.expire.", "changelog.", "consumer.exp")
_PLACES_MAX = 1000
_Place: TypeAlias = tuple[str, str]  # the root of a table, and the branch
_checked: dict[_Place, float] = {}  # when commits of this process last looked for old partitions


def run_upkeep(store: TableStore, *, batch: bool = True, partitions: bool = True) -> list[tuple[str, Exception]]:
    """Do once what the options of a table ask for; return what failed, and why.

    `batch`: the commit was one of a batch write. `partitions`: the time has come to look for old partitions.
    """
    options, failures = store.options, list[tuple[str, Exception]]()

    def step(what: str, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - the commit is published, whatever fails after it
            failures.append((what, error))

    tags = options.tag_automatic_creation
    if tags == BATCH and batch:
        step("the tag", lambda: create_batch_tag(store))
    step("the creation of tags", lambda: create_due_tags(store))
    timed = tags != "none" or options.tag_default_time_retained is not None
    if timed and options.tag_time_expire_enabled:
        step("the expiry of tags", lambda: expire_tags(store))
    if partitions and options.partition_expiration_time is not None and store.schema.partition_keys:
        step("the expiry of partitions", lambda: expire_partitions(store, ExpiryRule.of_options(options)))
    if any(key.startswith(_EXPIRING) for key in options.values):
        step("the expiry of snapshots", lambda: _expire_snapshots(store))
    return failures


def _expire_snapshots(store: TableStore) -> None:
    now = time.time_ns() // 1_000_000
    limit = store.options.snapshot_expire_limit
    retention = Retention.of_options(store.options, now, max_deletes=limit)
    # After a commit the others look at the age of a snapshot itself, and tables are left as they leave them.
    young = now - store.options.lakewright_expire_grace
    expire_snapshots(store, replace(retention, by_successor=0, young_millis=young), now_millis=now)


def upkeep_after_commit(store: TableStore, identifier: int) -> None:
    """Do what the options of a table ask for after a commit, and warn of what failed."""
    if store.options.write_only or store.home.history is not None:
        return
    looks = _is_time_for_partitions(store, identifier)
    for what, error in run_upkeep(store, batch=identifier == MAX_LONG, partitions=looks):
        text = f"{store.name}: the commit is published, but {what} after it failed: {error!r}"
        warnings.warn(f"{text}; the next commit tries it again", LakewrightWarning, stacklevel=6)


def _is_time_for_partitions(store: TableStore, identifier: int) -> bool:
    """Return whether it is time to look for old partitions, and remember that it is done."""
    options, place, now = store.options, (store.layout.root, store.layout.branch), time.monotonic()
    if len(_checked) >= _PLACES_MAX:
        _checked.clear()
    interval = options.partition_expiration_check_interval
    at_end = identifier == MAX_LONG and options.end_input_check_partition_expire
    due: bool = at_end or (now - _checked.setdefault(place, now)) * 1000 >= interval
    if due:
        _checked[place] = now
    return due


class HasStore(Protocol):
    """A table."""

    @property
    def store(self) -> TableStore:
        """The storage, schema and metadata of the table."""


class Upkeep:
    """Upkeep of a table on a thread of its own, beside writers in this process or elsewhere, while a block lasts.

    The thread does every `interval` what the options of the table ask for: it creates tags, and expires tags,
    partitions, snapshots and changelogs. Writers of a `write-only` table leave that to such a block. At its end the
    thread does it once more and ends; what it could not do last is a LakewrightError.

    >>> import tempfile, pyarrow as pa, lakewright as lw
    >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
    >>> catalog.create_database("d")
    >>> options = {"write-only": "true", "snapshot.num-retained.max": "1", "lakewright.expire.grace": "0 s"}
    >>> options |= {"snapshot.num-retained.min": "1"}
    >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()}), options=options))
    >>> table = catalog.get_table("d.t")
    >>> with Upkeep(table):
    ...     for n in range(3):
    ...         _ = lw.write_table(pa.table({"n": [n]}), table)
    >>> table.store.snapshots.ids()
    [3]
    """

    def __init__(self, table: HasStore, interval: DurationLike = timedelta(minutes=1)) -> None:
        self._table = table
        self._seconds = argument_checks.to_duration_millis("interval", interval) / 1000
        self._ended = threading.Event()
        self._failures: list[str] = []
        self._thread = threading.Thread(target=self._work, name="lakewright-upkeep", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        if self._failures and error is None:
            raise LakewrightError("; ".join(self._failures))

    def _work(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._ended.wait(self._seconds)
            try:
                failures = run_upkeep(self._table.store.refreshed(), batch=False)
            except Exception as error:  # noqa: BLE001 - it is tried again, and raised at the end
                failures = [("the upkeep", error)]
            self._failures = [f"{self._table.store.name}: {what} failed: {error!r}" for what, error in failures]

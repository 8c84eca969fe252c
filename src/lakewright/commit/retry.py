"""Changes that are planned again: how to prepare and how to publish in, what was published out, or the last error.

    newest snapshot -> check that the table is still the same -> prepare -> publish -> conflict? pause, begin again

A commit that conflicts has published nothing and cannot be published later: what it is based on has changed. Always
holds: the number of attempts is bounded, and an error that says nothing about the base ends the loop at once. Whoever
publishes removes what a lost attempt wrote.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from lakewright.errors import CommitConflictError, LakewrightError
from lakewright.metadata.store import TableStore
from lakewright.metrics import MetricsEvent, is_observed, tell
from lakewright.spec.options import CoreOptions
from lakewright.spec.snapshot import Snapshot
from lakewright.storage.side_by_side import Errands

_DOUBLINGS_MAX = 10

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Retries:
    """When a change is tried again, how often, and how long it pauses before that."""

    on: tuple[type[LakewrightError], ...]  # what publishing raises when a new plan may succeed
    retries_max: int
    timeout_ms: int | None = None  # no attempt begins later than this after the first
    wait_ms: tuple[int, int] = (0, 0)  # the first pause, which doubles each time, and the longest

    @classmethod
    def of(cls, store: TableStore) -> Retries:
        """Return what the options of a table say of conflicts."""
        options = store.options
        return cls(
            (CommitConflictError,),
            options.get(CoreOptions.COMMIT_MAX_RETRIES),
            options.get(CoreOptions.COMMIT_TIMEOUT),
            (options.get(CoreOptions.COMMIT_MIN_RETRY_WAIT), options.get(CoreOptions.COMMIT_MAX_RETRY_WAIT)),
        )

    def pause_seconds(self, attempt: int) -> float:
        """Return how long to pause: random, and longer after each attempt, so that rivals do not collide again."""
        shortest, longest = self.wait_ms
        return min(shortest << min(attempt, _DOUBLINGS_MAX), longest) * random.random() / 1000  # noqa: S311 - no secret


@dataclass(frozen=True, slots=True)
class Attempt(Generic[Made]):
    """The attempt that succeeded."""

    number: int  # from 1
    made: Made
    published: Snapshot | None  # None: there was nothing to publish


def publish_on_newest(
    store: TableStore,
    prepare: Callable[[Snapshot | None], Made],
    publish: Callable[[Made, Snapshot | None], Snapshot | None],
    retries: Retries,
) -> Attempt[Made]:
    """Prepare a change on the newest snapshot and publish it, from the start again as often as others publish first."""
    started, began = time.monotonic(), time.time_ns()
    for number in range(1, retries.retries_max + 2):
        with Errands(store.storage) as errands:
            same_table = errands.start(store.check_same_table)
            base = store.snapshots.latest()
            same_table.result()
        made = prepare(base)
        try:
            return Attempt(number, made, publish(made, base))
        except retries.on as error:
            why = type(error).__name__
            late = retries.timeout_ms is not None and (time.monotonic() - started) * 1000 >= retries.timeout_ms
            if number > retries.retries_max or late:
                raise
        pause = retries.pause_seconds(number)
        if is_observed("retry"):
            details = {"why": why, "wait_ms": round(pause * 1000, 3)}
            spent = time.monotonic() - started
            tell(MetricsEvent("retry", store.name, attempts=number, started_ns=began, seconds=spent, details=details))
        time.sleep(pause)
    raise AssertionError("the last attempt returns or raises")

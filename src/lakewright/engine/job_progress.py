"""`Progress` of a job, and the callbacks that receive it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from lakewright.errors import pluralize
from lakewright.spec import argument_checks


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a write has come. `tasks` and `tasks_done` are those of Spark or Ray."""

    rows: int
    bytes: int
    seconds: float
    tasks: int = 0
    tasks_done: int = 0


ProgressCallback: TypeAlias = Callable[[Progress], None]


def _reporter(progress: bool | ProgressCallback | None, clock: Callable[[], float]) -> Callable[[int, int], None]:  # noqa: FBT001
    """Return the function that is called with the rows and bytes written so far, after every batch."""
    started = clock()
    if not isinstance(progress, bool | None):
        argument_checks.check_callable("progress", progress)
    if callable(progress):
        return lambda rows, size: progress(Progress(rows, size, clock() - started))
    if not progress or not sys.stderr.isatty():
        return lambda _rows, _size: None

    def show(rows: int, size: int) -> None:
        seconds = clock() - started
        sys.stderr.write(f"\r{pluralize(rows, 'row')}, {size / 1e6:,.0f} MB, {rows / max(seconds, 1e-9):,.0f} rows/s ")
        sys.stderr.flush()

    return show

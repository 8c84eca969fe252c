"""`LocalEngine`: tasks in this process, whose results are handed over as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from lakewright.engine.engine import Job, ShareTask, TaskId, TaskResult

LocalWork: TypeAlias = Sequence[Callable[[], TaskResult]]  # the tasks of a job


@dataclass(frozen=True, slots=True)
class LocalResults:
    """What the tasks of a job in this process returned."""

    results: Sequence[TaskResult]
    method: str = ""

    def has_losers(self) -> bool:
        """Return False: a task has one attempt."""
        return False


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Threads of this process; one thread is that of the caller."""

    tasks_at_once: int = 1
    quiet_seconds: float = 0.0  # when `run` raises, no task runs any more

    def run(self, job: Job[LocalWork]) -> LocalResults:
        """Run all tasks of a job; if one fails, those that have not begun are left out."""
        if self.tasks_at_once <= 1 or len(job.work) <= 1:
            return LocalResults([task() for task in job.work])
        with ThreadPoolExecutor(self.tasks_at_once, thread_name_prefix="lakewright-task") as pool:
            futures = [pool.submit(task) for task in job.work]
            try:
                return LocalResults([future.result() for future in futures])
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def share_out(self, shares: Sequence[Sequence[bytes]], function: ShareTask, *, description: str) -> LocalWork:
        """Return the work of calling a function once for every share, each in a task of its own."""
        del description  # is for engines that show their tasks
        return [partial(function, TaskId(number, 0), iter(share)) for number, share in enumerate(shares)]

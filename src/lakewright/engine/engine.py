"""The interface of engines: tasks, their results, and the workers that run them.

run the tasks -> verify their answers -> publish -> remove the files of attempts that lost

An engine is a `Workers`: how to ship a function to workers and bring bytes to the driver. Invariant: tasks never
commit. What fails before publishing begins leaves no file behind; once it has begun and it is unknown how it ended,
nothing is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from lakewright.metadata.table_store import TableStore


@dataclass(frozen=True, slots=True)
class TaskId:
    """One attempt at one task."""

    number: int  # of the task, from 0
    attempt: int  # unique among all attempts, in every run of the job


Work = TypeVar("Work")  # what an engine runs, in its own terms
ShareTask: TypeAlias = Callable[[TaskId, Iterator[bytes]], bytes]  # one share in, a payload out
# One share in, blobs out, each with the number of the task that gets it.
SendTask: TypeAlias = Callable[[Iterator[bytes]], Iterator[tuple[int, pa.Buffer]]]


@dataclass(frozen=True, slots=True)
class Job(Generic[Work]):
    """Tasks that write files of one table; the id is in the names of all these files."""

    store: TableStore
    write_id: str
    work: Work


class TaskResults(Protocol):
    """The answers of the tasks of a job, one of each task."""

    @property
    def payloads(self) -> Sequence[bytes]:
        """One payload per task, by its number."""

    @property
    def method(self) -> str:
        """How the rows reached the tasks, in one sentence; empty where the caller knows."""

    def has_losers(self) -> bool:
        """Return whether attempts whose answers are not here may have left files; wait until none of them runs."""


class Engine(Protocol[Work]):
    """What an engine must be able to do."""

    @property
    def quiet_seconds(self) -> float:
        """How long after a file of a killed task another one may still appear."""

    @property
    def tasks_at_once(self) -> int:
        """How many tasks run at a time."""

    def run(self, job: Job[Work]) -> TaskResults:
        """Run all tasks of a job; when this raises, no task of it runs any more, as far as the engine can tell."""

    def share_out(self, shares: Sequence[Sequence[bytes]], function: ShareTask, *, description: str) -> Work:
        """Return the work of calling a function once for every share, each in a task of its own."""


class ExchangingWorkers(Engine[Work], Protocol[Work]):
    """What an engine must be able to do besides, so that tasks can send rows to each other."""

    def exchange(
        self,
        shares: Sequence[Sequence[bytes]],
        send: SendTask,
        receive: ShareTask,
        *,
        targets: int,
        description: str,
    ) -> Work:
        """Return the work of tasks that send blobs to so many others, which get those of all, in no order.

        The payloads are those of the receivers. One task holds only some of the blobs at a time.
        """

"""One job from its tasks to its end: work for an engine's workers in, what they made out, committed or to be committed.

    run the tasks -> verify their answers -> publish -> remove the files of attempts that lost

An engine is a `Workers`: how to ship a function to workers and bring bytes to the driver. Always holds: tasks never
commit. What fails before publishing begins leaves no file behind; once it has begun and it is unknown how it ended,
nothing is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from lakewright.commit.message.message import CommitMessage
from lakewright.distributed.cleanup import remove_all, remove_all_but
from lakewright.errors import (
    CommitConflictError,
    CommitContentionError,
    InvalidInputError,
    TableNotExistException,
)
from lakewright.metadata.store import TableStore
from lakewright.spec.snapshot import Snapshot

# What a commit raises when it is known that it published nothing, unless the error names a snapshot (`published_id`).
_NOT_PUBLISHED = (InvalidInputError, CommitConflictError, CommitContentionError, TableNotExistException)


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


class Answers(Protocol):
    """The answers of the tasks of a job, one of each task."""

    @property
    def payloads(self) -> Sequence[bytes]:
        """One payload per task, by its number."""

    @property
    def way(self) -> str:
        """How the rows reached the tasks, in one sentence; empty where the caller knows."""

    def has_losers(self) -> bool:
        """Say whether attempts whose answers are not here may have left files; wait until none of them runs."""


class Workers(Protocol[Work]):
    """What an engine must be able to do."""

    @property
    def quiet_seconds(self) -> float:
        """How long after a file of a killed task another one may still appear."""

    @property
    def tasks_at_once(self) -> int:
        """How many tasks run at a time."""

    def run(self, job: Job[Work]) -> Answers:
        """Run all tasks of a job; when this raises, no task of it runs any more, as far as the engine can tell."""

    def share_out(self, shares: Sequence[Sequence[bytes]], function: ShareTask, *, description: str) -> Work:
        """Return the work of calling a function once for every share, each in a task of its own."""


class ExchangingWorkers(Workers[Work], Protocol[Work]):
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


class HasMessages(Protocol):
    """What the payloads of a job say, once they are verified."""

    @property
    def messages(self) -> Sequence[CommitMessage]:
        """What is to be committed: it names every file that must stay."""


Made = TypeVar("Made", bound=HasMessages)
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class JobEnd(Generic[Result]):
    """How a job ended."""

    result: Result
    overtaken_by: Snapshot | None = None  # another driver committed the same job, so no file of this run is needed


def complete_job(
    workers: Workers[Work],
    job: Job[Work],
    verify: Callable[[Answers], Made],
    publish: Callable[[Made], JobEnd[Result]],
) -> JobEnd[Result]:
    """Run the tasks of a job, verify their answers, publish what they made, and remove the files that nobody needs."""
    clean_up = partial(remove_all, job.store, job.write_id, quiet_seconds=workers.quiet_seconds)
    try:
        answers = workers.run(job)
        made = verify(answers)
    except BaseException:
        clean_up()
        raise

    def remove_losers() -> None:
        if answers.has_losers():
            remove_all_but(job.store, job.write_id, made.messages)

    return publish_made(partial(publish, made), clean_up=clean_up, remove_losers=remove_losers)


def publish_made(
    publish: Callable[[], JobEnd[Result]], *, clean_up: Callable[[], None], remove_losers: Callable[[], None]
) -> JobEnd[Result]:
    """Publish what tasks made, and remove all files of the job, or those of lost attempts, that nobody needs then."""
    try:
        end = publish()
    except _NOT_PUBLISHED as error:
        if "published_id" not in error.facts:
            clean_up()
        raise
    if end.overtaken_by is not None:
        clean_up()
    else:
        remove_losers()
    return end


def prepare_job(workers: Workers[Work], job: Job[Work], verify: Callable[[Answers], Made]) -> Made:
    """Run and verify a job whose commit is left to the caller, who removes the files where nothing is published."""
    return complete_job(workers, job, verify, _leave_to_caller).result


def _leave_to_caller(made: Made) -> JobEnd[Made]:
    return JobEnd(made)

"""The interface of engines: tasks, their results, and the workers that run them.

run the tasks -> verify their answers -> publish -> remove the files of attempts that lost

An engine ships functions to workers and brings their results to the driver. Invariant: tasks never
commit. What fails before publishing begins leaves no file behind; once it has begun and it is unknown how it ended,
nothing is removed.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeAlias, TypeVar

import pyarrow as pa

from lakewright.commit.commit_message import CommitMessage
from lakewright.errors import InvalidMessageError
from lakewright.metadata.table_store import TableStore

_HEAD = struct.Struct(">IQ")  # how many counts follow, and the length of the messages
_LENGTH = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class TaskId:
    """One attempt at one task."""

    number: int  # of the task, from 0
    attempt: int  # unique among all attempts, in every run of the job


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task returns to the driver: messages to commit and counts, or data of another kind."""

    messages: Sequence[CommitMessage] = ()
    counts: tuple[int, ...] = ()  # what they mean is between the task and whoever reads its result
    data: bytes = b""

    def to_bytes(self) -> bytes:
        """Return the result as bytes, its messages compressed: a driver may hold those of many tasks at once."""
        frames = (message.serialize() for message in self.messages)
        joined = b"".join(part for frame in frames for part in (_LENGTH.pack(len(frame)), frame))
        messages = zlib.compress(joined, level=1)
        head = _HEAD.pack(len(self.counts), len(messages)) + struct.pack(f">{len(self.counts)}q", *self.counts)
        return b"".join((head, messages, self.data))

    @classmethod
    def from_bytes(cls, payload: bytes) -> Self:
        """Read what `to_bytes` made; messages that were cut or altered are refused."""
        try:
            count, length = _HEAD.unpack_from(payload)
            numbers = struct.Struct(f">{count}q")
            start = _HEAD.size + numbers.size
            messages = tuple(_read_messages(zlib.decompress(payload[start : start + length])))
            return cls(messages, numbers.unpack_from(payload, _HEAD.size), payload[start + length :])
        except (zlib.error, struct.error) as error:
            message = "the result of a task was cut or altered on its way; write the data again"
            raise InvalidMessageError(message) from error


def _read_messages(frames: bytes) -> Iterator[CommitMessage]:
    at = 0
    while at < len(frames):
        start = at + _LENGTH.size
        at = start + _LENGTH.unpack_from(frames, at)[0]
        yield CommitMessage.deserialize(frames[start:at])


Work = TypeVar("Work")  # what an engine runs, in its own terms
ShareTask: TypeAlias = Callable[[TaskId, Iterator[bytes]], TaskResult]  # for one share
# One share in, blobs out, each with the number of the task that gets it.
SendTask: TypeAlias = Callable[[Iterator[bytes]], Iterator[tuple[int, pa.Buffer]]]


@dataclass(frozen=True, slots=True)
class Job(Generic[Work]):
    """Tasks that write files of one table; the id is in the names of all these files."""

    store: TableStore
    write_id: str
    work: Work


class TaskResults(Protocol):
    """What the tasks of a job returned."""

    @property
    def results(self) -> Sequence[TaskResult]:
        """One result per task, by its number; an engine may read them anew at each access."""

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

        The results are those of the receivers. One task holds only some of the blobs at a time.
        """

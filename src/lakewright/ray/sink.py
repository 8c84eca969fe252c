"""A sink that writes any dataset into a table: blocks in, in Ray's own write tasks, and one snapshot out at their end.

    dataset.write_datasink(PaimonDatasink(table))

Each task writes the blocks it has, in place, and never commits; `on_write_complete` checks what the tasks wrote and
commits once. What always holds: if a task fails, the files of all tasks are removed; once publishing has begun and it
is unknown how it ended, nothing is removed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import pyarrow as pa
from ray.data import DataContext, Datasink

from lakewright.commit.message.message import CommitMessage
from lakewright.commit.plan import select_partitions
from lakewright.commit.table_commit import WriteResult
from lakewright.distributed.cleanup import remove_all
from lakewright.distributed.messages import pack
from lakewright.distributed.write import write_once
from lakewright.distributed.write_job import ONE_WRITER, Publication, sharing_buckets, single_threaded
from lakewright.errors import LakewrightError, UnsupportedError
from lakewright.metadata.store import TableStore
from lakewright.ray.tasks import RayAnswers, RayWork, RayWorkers, TaskAnswer, WriteSettings, was_tried_before
from lakewright.ray.write import write_blocks
from lakewright.spec import arguments
from lakewright.table.table import FileStoreTable
from lakewright.write.writer import WriteJob


class TaskMessages(list[CommitMessage]):
    """The commit messages of one write task."""

    def __init__(self, messages: Iterable[CommitMessage], number: int, *, retried: bool) -> None:
        super().__init__(messages)
        self.number = number
        self.retried = retried

    def __reduce__(self) -> tuple[Any, ...]:
        return _task_messages, (list(self), self.number, self.retried)


def _task_messages(messages: list[CommitMessage], number: int, retried: bool) -> TaskMessages:  # noqa: FBT001 - pickled
    return TaskMessages(messages, number, retried=retried)


class HasTaskNumber(Protocol):
    """What a write task is told by Ray."""

    task_idx: int


class HasReturns(Protocol):
    """What Ray tells the sink when all write tasks are done."""

    write_returns: list[list[CommitMessage]]


class PaimonDatasink(Datasink[list[CommitMessage]]):
    """Writes the dataset that is given to `write_datasink` into a table, and commits it in one snapshot.

    `overwrite` replaces the partitions of the rows, or the whole table where it has none; `static_partition` names the
    partitions that are replaced. After the write `result` says what was committed. Tables whose buckets are decided
    while rows are written (`bucket = -1` with a primary key) need `lakewright.ray.write_table` instead, which also
    keeps the order of the dataset: here, of two rows with one key in different blocks any may win.
    """

    def __init__(
        self,
        table: FileStoreTable,
        overwrite: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
        static_partition: Mapping[str, object] | None = None,
    ) -> None:
        self.table = arguments.instance("table", table, FileStoreTable, "a table of a catalog")
        self.overwrite = arguments.flag("overwrite", overwrite)
        self.static_partition = arguments.optional(arguments.mapping, "static_partition", static_partition)
        self.result: WriteResult | None = None
        self._started = time.monotonic()
        self._publishing = False
        self._job = self._new_job()

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        """Check the columns of the dataset, where Ray knows them, and that no block may be lost in silence."""
        if DataContext.get_current().max_errored_blocks != 0:
            raise UnsupportedError(
                f"{self.table.name}: Ray is set to skip blocks that failed (max_errored_blocks), and would commit the "
                "others; write the dataset with lakewright.ray.write_table, or set it to 0",
                table=self.table.name,
            )
        if isinstance(schema, pa.Schema) and schema.names:
            self._job.check_input(schema)

    def write(self, blocks: Iterable[object], ctx: HasTaskNumber) -> list[CommitMessage]:
        """Write the blocks of one task, on a worker, and return what is to be committed."""
        number = ctx.task_idx if isinstance(ctx.task_idx, int) else 0
        return TaskMessages(write_blocks(self._job, number, blocks), number, retried=was_tried_before())

    def on_write_complete(self, write_result: HasReturns) -> None:
        """Commit what all tasks wrote, on the driver."""
        returned = list(write_result.write_returns)
        self._check_once(returned)
        answers = [
            TaskAnswer(number, pack(messages), getattr(messages, "retried", True))
            for number, messages in enumerate(sorted(returned, key=lambda some: getattr(some, "number", 0)))
        ]

        def work(_: TableStore) -> RayAnswers:
            return RayAnswers(answers, "by the tasks of the dataset")

        self._publishing = True
        run: RayWork = work
        self.result = write_once(
            RayWorkers(WriteSettings()), self._job, run, self._publication(), started=self._started
        )
        self._publishing = False
        self._job = self._new_job()

    def on_write_failed(self, error: Exception) -> None:  # noqa: ARG002 - Ray raises it
        """Remove the files of all tasks, unless a commit of them has begun."""
        if not self._publishing:
            remove_all(self._job.store, self._job.write_id)

    def get_name(self) -> str:
        """Return the name under which Ray shows the write."""
        return "Paimon"

    @property
    def _replaces(self) -> bool:
        return self.overwrite or self.static_partition is not None

    def _publication(self) -> Publication:
        return Publication(replaced=(self.static_partition or {}) if self._replaces else None)

    def _new_job(self) -> WriteJob:
        store = self.table.store
        if self.static_partition:
            select_partitions(store, [self.static_partition])
        if store.schema.bucket_mode in ONE_WRITER:
            raise UnsupportedError(
                f"{store.name}: which bucket a row goes to is decided while it is written, and tasks of a sink do not "
                "know of each other; write the dataset with lakewright.ray.write_table or write_ray of a builder",
                table=store.name,
            )
        return sharing_buckets(single_threaded(WriteJob.new(store, overwrite=self._replaces)))

    def _check_once(self, returned: list[Any]) -> None:
        """Raise LakewrightError if Ray brought the messages of a task twice, or not at all."""
        numbers = [messages.number for messages in returned if isinstance(messages, TaskMessages)]
        if sorted(numbers) != list(range(len(numbers))):
            raise LakewrightError(
                f"{self.table.name}: Ray brought the answers of some tasks home twice or not at all; nothing was "
                "committed, write the dataset again",
                table=self.table.name,
            )

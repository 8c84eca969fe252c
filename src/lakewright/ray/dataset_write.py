"""A dataset to one snapshot; the datasink.

look for the job's own commit -> check the schema on the driver -> bring rows to the tasks that write their buckets
    -> run the tasks -> check the answers -> commit once, in this process -> compact on the workers

How rows reach the tasks that write them:

    append table without buckets     by a `Datasink`: the task that makes a block writes it; blocks that exist before
                                     go to tasks of our own, a few small ones or a part of a large one each
    postponed buckets                in place, by tasks of our own: later tasks have later rows
    everything else                  blocks go to one writer while they are few; else tasks take them apart by bucket
                                     (assigner, partition), and each writer gets its parts in the order of the dataset

Invariant: nothing is visible before the commit, and tasks never commit; rows keep the order of the dataset, and of
two rows with one key the later one wins. What fails before the commit leaves no file behind; once publishing has begun
and it is unknown how it ended, nothing is removed.

dataset.write_datasink(PaimonDatasink(table))

Each task writes the blocks it has, in place, and never commits; `on_write_complete` checks what the tasks wrote and
commits once. Invariant: if a task fails, the files of all tasks are removed; once publishing has begun and it
is unknown how it ended, nothing is removed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol

import pyarrow as pa
import ray
from ray.data import DataContext, Dataset, Datasink
from ray.data.dataset import MaterializedDataset

from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.commit_plan import select_partitions
from lakewright.commit.table_commit import WriteResult
from lakewright.dml.distributed_write import (
    SINGLE_WRITER_MODES,
    CommitTarget,
    with_one_thread,
    with_shared_buckets,
    write_once,
)
from lakewright.engine.engine import TaskResult
from lakewright.engine.engine_job import remove_all
from lakewright.errors import LakewrightError, UnsupportedError
from lakewright.metadata.table_store import TableStore
from lakewright.ray.ray_datasets import arrow_schema_of, bars, check_dataset, in_order, pieces_of, runs
from lakewright.ray.ray_engine import (
    RECEIVE,
    SEND,
    WRITE_PIECES,
    ProgressReport,
    RayAnswers,
    RayEngine,
    RayTaskResult,
    RayWork,
    RayWriteSettings,
    Tasks,
    answer_of,
    new_attempt,
    rows_of,
    was_tried_before,
)
from lakewright.spec import argument_checks
from lakewright.spec.option_values import WriteDistribution
from lakewright.spec.table_options import TableOptions
from lakewright.spec.table_schema import BucketMode
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.write_builder import TableWrite, job_of_builder
from lakewright.write.bucket_assignment import Assigner
from lakewright.write.row_shuffle import receivers_for
from lakewright.write.table_writer import WriteJob

# ---- Writes ----------------------------------------------------------------------------------------------------------

_ALONE_BYTES = 32 << 20  # of blocks that one writer writes alone; more are shared out
_TASK_BYTES = 64 << 20  # of blocks that are worth a task
_SEND_BYTES = 32 << 20  # of blocks that are taken apart together
_TASK_BYTES_MIN = 8 << 20  # of blocks that a task gets at least, where the dataset is small


# How rows reach fixed buckets, as distributions of the table; None: as the table says.
_PRECLUSTER = {"auto": None, "off": WriteDistribution.NONE, "map_groups": WriteDistribution.AUTO}


@dataclass(frozen=True, slots=True)
class Routed:
    """What a dataset replaces, and how its rows reach fixed buckets, as `TableWrite.write_ray` takes it."""

    overwrite: bool = False
    static_partition: Mapping[str, object] | None = None
    hash_fixed_precluster: str = "auto"

    def job(self, write: TableWrite) -> tuple[WriteJob, CommitTarget]:
        """Return the write that a builder has chosen, with what this says instead."""
        flag = argument_checks.check_bool("overwrite", self.overwrite)
        job, publication = job_of_builder(write, overwrite=flag, static_partition=self.static_partition, instead="")
        return self.route_rows(job), publication

    def route_rows(self, job: WriteJob) -> WriteJob:
        """Return a write whose rows reach their buckets as it is asked for."""
        way = _PRECLUSTER[
            argument_checks.check_one_of("hash_fixed_precluster", self.hash_fixed_precluster, _PRECLUSTER)
        ]
        if way is None or job.store.schema.bucket_mode is not BucketMode.HASH_FIXED:
            return job
        options = {TableOptions.lakewright_write_distribution.key(): way.value}
        return replace(job, store=job.store.with_schema(job.store.schema.with_options(options)))


def write_ray(
    write: TableWrite,
    dataset: Dataset,
    routed: Routed,
    *,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> WriteResult:
    """Write a dataset in the way that a builder has chosen, and commit it: what `TableWrite.write_ray` does."""
    check_dataset(dataset)
    settings = RayWriteSettings.of(concurrency, ray_remote_args)
    job, publication = routed.job(write)
    return write_dataset(dataset, job, publication, settings)


# ---- one write -------------------------------------------------------------------------------------------------------


def write_dataset(
    dataset: Dataset, job: WriteJob, publication: CommitTarget, settings: RayWriteSettings
) -> WriteResult:
    """Take a dataset from its schema to a snapshot."""
    started = time.monotonic()
    known = arrow_schema_of(dataset, fetch=False)
    if known is not None:
        job.check_input(known)

    def work(_: TableStore) -> RayAnswers:
        with bars(dataset, settings.progress):
            return run_write(dataset, job, settings)

    return write_once(RayEngine(settings), job, work, publication, started=started)


def run_write(dataset: Dataset, job: WriteJob, settings: RayWriteSettings) -> RayAnswers:
    """Have the rows written in the way that fits the table, and say which one that was."""
    store, schema, report = job.store, job.store.schema, ProgressReport(settings.progress)
    distribution = store.options.lakewright_write_distribution
    match schema.bucket_mode:
        case BucketMode.UNAWARE if distribution is not WriteDistribution.PARTITION or not schema.partition_keys:
            way = "in place: rows of this table may be in any file"
            # Where Ray is set to skip blocks that failed, it would also skip those of a failed write.
            tolerant = dataset.context.max_errored_blocks != 0
            write = _in_place if tolerant or isinstance(dataset, MaterializedDataset) else _by_sink
            return RayAnswers(write(dataset, job, settings, report), way)
        case BucketMode.HASH_FIXED if distribution is WriteDistribution.NONE:
            way = "in place as asked: each task adds files to each bucket"
            return RayAnswers(_in_place(dataset, with_shared_buckets(job), settings, report), way)
        case BucketMode.POSTPONE if not job.real_buckets and distribution is not WriteDistribution.PARTITION:
            way = "in place: the rows wait for their buckets"
            return RayAnswers(_in_place(dataset, job, settings, report), way)
        case _:
            return _together(dataset, job, settings, report)


# ---- by a sink -------------------------------------------------------------------------------------------------------


class RayTableSink(Datasink[RayTaskResult]):
    """Writes blocks in the tasks that make them, into files that no snapshot names yet.

    It only gathers the answers of the tasks. The commit follows after Ray's own write has ended, because Ray calls
    `on_write_failed` also where it is unknown how a commit ended, and does not call it for an interrupt.
    """

    def __init__(self, job: WriteJob) -> None:
        self._job = job
        self.answers: list[RayTaskResult] = []

    def write(self, blocks: Iterable[Any], ctx: Any) -> RayTaskResult:  # noqa: ANN401 - Ray's own types
        """Write the blocks of one task."""
        return answer_of(ctx.task_idx, TaskResult(write_blocks(self._job, ctx.task_idx, blocks)))

    def on_write_complete(self, write_result: Any) -> None:  # noqa: ANN401 - Ray's own type
        """Keep the answers of the tasks."""
        self.answers = sorted(write_result.write_returns, key=lambda answer: answer.number)

    def get_name(self) -> str:
        """Return the name under which Ray shows the write."""
        return "lakewright"


def write_blocks(job: WriteJob, number: int, blocks: Iterable[Any]) -> list[CommitMessage]:
    """Write the blocks of one attempt at a task, on a worker."""
    with job.open_writer(number, new_attempt()) as writer:
        for rows in rows_of(blocks, job.store.name):
            writer.write(rows)
        return writer.prepare()


def _by_sink(
    dataset: Dataset, job: WriteJob, settings: RayWriteSettings, report: ProgressReport
) -> list[RayTaskResult]:
    sink = RayTableSink(with_one_thread(job))
    arguments = dict(settings.remote_args or {})
    with in_order(dataset):  # Ray numbers its tasks as their blocks come, and the answers are put into that order
        dataset.write_datasink(sink, ray_remote_args=arguments, concurrency=settings.concurrency)
    if [answer.number for answer in sink.answers] != list(range(len(sink.answers))):
        raise LakewrightError(
            f"{job.store.name}: Ray brought the answers of some tasks home twice or not at all; nothing was committed, "
            "write the dataset again",
            table=job.store.name,
        )
    for answer in sink.answers:
        report.add_finished(answer, len(sink.answers))
    return sink.answers


# ---- by tasks of our own ---------------------------------------------------------------------------------------------


def _in_place(
    dataset: Dataset, job: WriteJob, settings: RayWriteSettings, report: ProgressReport
) -> list[RayTaskResult]:
    """Let each task write blocks that follow each other; later tasks have later rows."""
    shared, task_bytes = ray.put(with_one_thread(job)), _TASK_BYTES
    if isinstance(dataset, MaterializedDataset):  # its size is known, so all can have the same share
        task_bytes = min(task_bytes, max(_TASK_BYTES_MIN, int(dataset.size_bytes()) // settings.running_max))
    with Tasks(settings, report) as tasks:
        for number, run in enumerate(runs(pieces_of(dataset), task_bytes)):
            tasks.start(WRITE_PIECES, shared, number, Assigner(), run)
        return tasks.finish()


def _together(dataset: Dataset, job: WriteJob, settings: RayWriteSettings, report: ProgressReport) -> RayAnswers:
    """Let each writer have all rows of its buckets."""
    pieces = pieces_of(dataset)
    first, size, rows = [], 0, 0
    # The number of buckets for new keys is decided before the first of them gets one, so all rows are counted first.
    counts_all = job.store.schema.bucket_mode is BucketMode.HASH_DYNAMIC
    for piece in pieces:
        first.append(piece)
        size, rows = size + piece.bytes, rows + (piece.end or 0) - piece.start
        if size > _ALONE_BYTES and not counts_all:
            break
    writers = 1 if size <= _ALONE_BYTES else settings.running_max
    receivers = receivers_for(job, writers=writers, rows=rows)
    all_pieces = chain(first, pieces)
    with Tasks(settings, report) as tasks:
        if receivers.count == 1:
            tasks.start(WRITE_PIECES, ray.put(job), 0, Assigner(), list(all_pieces))
            return RayAnswers(tasks.finish(), "to one writer")
        shared = ray.put(with_one_thread(job))
        sent = [tasks.send(SEND, receivers.count, shared, receivers, run) for run in runs(all_pieces, _SEND_BYTES)]
        tasks.wait_for_sent()
        for number in range(receivers.count):
            parts = [to[number] for to in sent]
            tasks.start(RECEIVE, shared, number, receivers.assigner(number), parts)
        way = f"taken apart for {receivers.count} writers, each with buckets of its own"
        return RayAnswers(tasks.finish(), way)


# ---- The datasink ----------------------------------------------------------------------------------------------------


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
        self.table = argument_checks.check_instance("table", table, FileStoreTable, "a table of a catalog")
        self.overwrite = argument_checks.check_bool("overwrite", overwrite)
        self.static_partition = argument_checks.check_optional(
            argument_checks.check_mapping, "static_partition", static_partition
        )
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
            RayTaskResult(number, TaskResult(messages).to_bytes(), getattr(messages, "retried", True))
            for number, messages in enumerate(sorted(returned, key=lambda some: getattr(some, "number", 0)))
        ]

        def work(_: TableStore) -> RayAnswers:
            return RayAnswers(answers, "by the tasks of the dataset")

        self._publishing = True
        run: RayWork = work
        self.result = write_once(
            RayEngine(RayWriteSettings()), self._job, run, self._publication(), started=self._started
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

    def _publication(self) -> CommitTarget:
        return CommitTarget(replaced=(self.static_partition or {}) if self._replaces else None)

    def _new_job(self) -> WriteJob:
        store = self.table.store
        if self.static_partition:
            select_partitions(store, [self.static_partition])
        if store.schema.bucket_mode in SINGLE_WRITER_MODES:
            raise UnsupportedError(
                f"{store.name}: which bucket a row goes to is decided while it is written, and tasks of a sink do not "
                "know of each other; write the dataset with lakewright.ray.write_table or write_ray of a builder",
                table=store.name,
            )
        return with_shared_buckets(with_one_thread(WriteJob.new(store, overwrite=self._replaces)))

    def _check_once(self, returned: list[Any]) -> None:
        """Raise LakewrightError if Ray brought the messages of a task twice, or not at all."""
        numbers = [messages.number for messages in returned if isinstance(messages, TaskMessages)]
        if sorted(numbers) != list(range(len(numbers))):
            raise LakewrightError(
                f"{self.table.name}: Ray brought the answers of some tasks home twice or not at all; nothing was "
                "committed, write the dataset again",
                table=self.table.name,
            )

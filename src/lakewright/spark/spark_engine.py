"""`SparkEngine`: tasks with `mapInArrow`, exchange, retries, cleanup."""

from __future__ import annotations

import re
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, cast

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql import types as sql

from lakewright.compact import distributed_compaction
from lakewright.compact.compaction_job import TaskRunner
from lakewright.dml.change_runner import INSERTING
from lakewright.engine.engine import Job, SendTask, ShareTask, TaskId, TaskResult
from lakewright.engine.engine_job import QUIET_SECONDS, error_from_text, error_to_text, is_transient, remove_leftovers
from lakewright.errors import LakewrightError
from lakewright.metadata.table_store import TableStore
from lakewright.spark.frame_operations import TaskFunction, map_tasks, repartition_by_task
from lakewright.spark.spark_features import TimeType
from lakewright.spark.spark_progress import JOB_GROUP, JobProgress
from lakewright.spark.spark_session import has_spark_executors, heal_workers, is_connect, map_in_arrow, read_setting
from lakewright.spark.spark_session import settings as held_settings

# ---- Jobs over partitions --------------------------------------------------------------------------------------------
# The function runs on an executor, once for every partition, and what it returns goes to the driver as rows of bytes.
# Invariant: when `run_job` returns, it has exactly one answer of every task; when it raises, no task of the job
# runs any more, as far as Spark can tell. The frame behind a job never leaves this module, because a second action on
# it would run every task again.
#
# An error of ours that a task raises is what the caller gets, with its type and facts. It travels as an answer and
# not as a failure of the task: what is wrong with the input stays wrong at every retry. Failures of the storage, lost
# workers and everything else are Spark's to retry.
#
# A worker learns late, or never, that Spark has given its attempt up: if the stage that feeds it fails, its input
# ends as if it were complete. `is_answer_awaited` finds out by the state of the connection to the JVM, and
# `cleanup.self_cleaning` makes such attempts remove their files.

PIECE_BYTES = 48 << 20  # of a payload: one value in a row must stay well below what Arrow and Spark can carry
BATCH_BYTES = 128 << 20  # of rows on their way from the JVM to a worker
UNBOUNDED_ROWS = 4096  # in a batch of rows without a known maximal size
_BATCH_ROWS_MIN, _BATCH_ROWS_MAX = 64, 32768
_BYTES_PER_BATCH = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS_PER_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
_NO_LIMIT = str(2**31 - 1)  # switches off a check that costs more than everything else, once for every row
_LIMIT = str(64 << 20)  # Spark's own

_JOB_PROPERTIES = (JOB_GROUP, "spark.job.description", "spark.job.interruptOnCancel")
_IDLE_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.05

_ANSWER = pa.schema(
    [
        pa.field("task", pa.int32(), nullable=False),
        pa.field("attempt", pa.int64(), nullable=False),
        pa.field("retry", pa.int32(), nullable=False),
        pa.field("piece", pa.int32(), nullable=False),
        pa.field("pieces", pa.int32(), nullable=False),
        pa.field("payload", pa.binary()),
        pa.field("error", pa.string()),
    ]
)
_ANSWER_SQL = "task int, attempt long, retry int, piece int, pieces int, payload binary, error string"


@dataclass(frozen=True, slots=True)
class SparkTaskResult:
    """The answer of one task to the driver."""

    task: TaskId  # its number is that of the partition, its attempt is Spark's own id, unique in the application
    payload: bytes
    retry: int = 0  # how many attempts at the task failed before, in one run of its stage
    run: int = 0  # of the job: 1 where it had to be run again


Task: TypeAlias = Callable[[TaskId, Iterator[pa.RecordBatch]], TaskResult]
PayloadTask: TypeAlias = Callable[[TaskId, Iterator[pa.RecordBatch]], bytes]


def run_job(
    df: DataFrame,
    task: PayloadTask,
    *,
    group: str,
    description: str,
    progress: JobProgress | None = None,
    settings: Mapping[str, str] | None = None,
) -> list[SparkTaskResult]:
    """Run a function over the partitions of a frame and return the answers of all tasks, by task number.

    `settings` override those with which batches travel fast. A job whose batches grow beyond what Arrow can hold
    runs a second time with batches of bounded size.
    """
    spark = df.sparkSession
    heal_workers(spark)
    fast = {_BYTES_PER_BATCH: _NO_LIMIT, ROWS_PER_BATCH: str(batch_rows(df.schema)), **(settings or {})}
    answers = map_tasks(df, _answering(task), _ANSWER_SQL)
    run = 0
    with _shown_interrupts(), _plain_interrupts(), _named_jobs(spark, group, description):
        if progress is not None:
            progress.follow(spark)
        try:
            with held_settings(spark, fast, optional=True):
                rows = answers.collect()
        except Exception as error:
            if "OversizedAllocationException" not in str(error):
                raise
            stop_jobs(spark, group)
            run = 1
            with held_settings(spark, {**fast, _BYTES_PER_BATCH: _LIMIT}, optional=True):
                rows = answers.collect()
    return _complete(_join_payloads(rows, run), description, skips_empty=not has_spark_executors(spark))


def batch_rows(schema: sql.StructType) -> int:
    """Return how many rows of a frame should travel to a worker together."""
    width = _width(schema)
    if width is None:
        return UNBOUNDED_ROWS
    return max(_BATCH_ROWS_MIN, min(_BATCH_ROWS_MAX, BATCH_BYTES // max(1, width)))


def has_losers(done: Sequence[SparkTaskResult]) -> bool:
    """Return whether some attempts of a job may have lost: retries, copies, stages that ran again.

    Spark counts attempts up, so those of a stage that ran once follow each other; another job that runs at the same
    time looks like a stage that ran again. A speculative copy that lost cannot be seen, nor a stage of which no answer
    was kept.
    """
    attempts = [one.task.attempt for one in done]
    holes = bool(done) and max(attempts) - min(attempts) >= len(done)
    return holes or any(one.retry or one.run for one in done)


def ran_again(spark: SparkSession, group: str) -> bool:
    """Return whether a stage of a group ran more than once, or a task of it failed; Connect cannot tell."""
    if is_connect(spark):
        return False
    tracker = spark.sparkContext.statusTracker()
    infos = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group))
    stages = (tracker.getStageInfo(int(stage)) for info in infos if info is not None for stage in info.stageIds)
    return any(stage.currentAttemptId or stage.numFailedTasks for stage in stages if stage is not None)


# ---- on an executor --------------------------------------------------------------------------------------------------


def _answering(task: PayloadTask) -> TaskFunction:
    size = PIECE_BYTES

    def run(this: TaskId, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        retry = 0 if context is None else context.attemptNumber()
        try:
            payload = task(this, batches)
        except LakewrightError as error:
            if is_transient(error):
                raise
            yield _answer(this, retry, (0, 1), None, error_to_text(error))
            return
        pieces = max(1, -(-len(payload) // size))
        for piece in range(pieces):
            part = payload[piece * size : (piece + 1) * size]
            yield _answer(this, retry, (piece, pieces), part, None)

    return run


def is_answer_awaited() -> bool:
    """Return whether the JVM still holds the connection on which it gets the answer of this attempt.

    The JVM closes its end when it ends the attempt, before the driver knows of that, and its sending half when the
    stage that feeds this task fails. True where the connection cannot be found or asked.
    """
    frame = sys._getframe()  # noqa: SLF001 - PySpark has no public name for it: an argument of the worker's loop
    while frame is not None and "outfile" not in frame.f_locals:
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None or not hasattr(select, "POLLRDHUP"):
        return True
    poller = select.poll()
    try:
        poller.register(frame.f_locals["outfile"], select.POLLRDHUP | select.POLLHUP | select.POLLERR)
        return not poller.poll(0)
    except (OSError, TypeError, ValueError, AttributeError):
        return True


def _answer(
    this: TaskId, retry: int, piece: tuple[int, int], payload: bytes | None, error: str | None
) -> pa.RecordBatch:
    values = (this.number, this.attempt, retry, *piece, payload, error)
    arrays = [pa.array([value], field.type) for value, field in zip(values, _ANSWER, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ANSWER)


# ---- on the driver ---------------------------------------------------------------------------------------------------


def _join_payloads(rows: Sequence[Row], run: int) -> list[SparkTaskResult]:
    """Put payloads together again, or raise the error that the first of the failed tasks sent."""
    failed = [row for row in rows if row.error is not None]
    if failed:
        raise error_from_text(min(failed, key=lambda row: row.task).error)
    parts: dict[TaskId, list[Row]] = {}
    for row in rows:
        parts.setdefault(TaskId(row.task, row.attempt), []).append(row)
    done = []
    for task, task_rows in parts.items():
        pieces = sorted(task_rows, key=lambda row: row.piece)
        if [row.piece for row in pieces] != list(range(pieces[0].pieces)):
            message = f"task {task.number} sent {len(pieces)} of {pieces[0].pieces} pieces home; write the data again"
            raise LakewrightError(message, task=task.number)
        done.append(SparkTaskResult(task, b"".join(row.payload for row in pieces), pieces[0].retry, run))
    return done


def _complete(done: Sequence[SparkTaskResult], description: str, *, skips_empty: bool = False) -> list[SparkTaskResult]:
    """Return the answers in the order of the tasks; raise an error unless there is exactly one of every task.

    Where the session `skips_empty` tasks, numbers may be missing, but none comes twice.
    """
    ordered = sorted(done, key=lambda one: one.task.number)
    numbers = [one.task.number for one in ordered]
    if numbers != (sorted({*numbers}) if skips_empty else list(range(len(numbers)))):
        missing = sorted(set(range(len(numbers))) - set(numbers))
        raise LakewrightError(
            f"{description}: Spark brought the answers of some tasks home twice or not at all (missing: "
            f"{missing[:5]}); nothing was committed, run it again",
            tasks=tuple(missing),
        )
    return ordered


@contextmanager
def _plain_interrupts() -> Iterator[None]:
    """Let Ctrl-C be a plain KeyboardInterrupt: PySpark's own handler calls the JVM first, over a busy connection."""
    before = signal.getsignal(signal.SIGINT)
    theirs = str(getattr(before, "__module__", "")).startswith("pyspark")
    if not theirs or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _shown_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt in place of an error of PySpark that came up while it handled that interrupt."""
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, KeyboardInterrupt):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        raise KeyboardInterrupt from error


@contextmanager
def _named_jobs(spark: SparkSession, group: str, description: str) -> Iterator[None]:
    """Name the jobs of this thread, and cancel them and wait for them if the block does not end well.

    A group that a notebook or a stream has set for this thread before stays, so that they can still cancel by it.
    """
    context = None if is_connect(spark) else spark.sparkContext
    before: dict[str, str | None] = {}  # what to put back
    if context is not None and context.getLocalProperty(JOB_GROUP) is None:
        before = {key: context.getLocalProperty(key) for key in _JOB_PROPERTIES}
        context.setJobGroup(group, description)
    spark.addTag(_tag(group)) if context is None else context.addJobTag(_tag(group))
    try:
        yield
    except BaseException:
        stop_jobs(spark, group)
        raise
    finally:
        # If the JVM died this fails too, and that must not hide the first error.
        with suppress(Exception):
            spark.removeTag(_tag(group)) if context is None else context.removeJobTag(_tag(group))
            for key, value in before.items():
                spark.sparkContext.setLocalProperty(key, cast("str", value))  # None removes a property


def stop_jobs(spark: SparkSession, group: str) -> None:
    """Cancel the jobs of a group and wait until none of its tasks runs; Connect shows no tasks to wait for."""
    # A failure in here must not hide the error that is being raised.
    with suppress(Exception):
        # A classic session keeps its own tags by thread of the JVM, and after an interrupt that is another thread.
        stop = spark.interruptTag if is_connect(spark) else spark.sparkContext.cancelJobsWithTag
        stop(_tag(group))
    with suppress(Exception):
        wait_until_idle(spark, group)


def wait_until_idle(spark: SparkSession, group: str, *, seconds_max: float = _IDLE_SECONDS_MAX) -> bool:
    """Wait until no task of a group runs and return whether that was seen; Connect shows no tasks."""
    if is_connect(spark):
        return False
    context = spark.sparkContext
    group = context.getLocalProperty(JOB_GROUP) or group
    deadline = time.monotonic() + seconds_max
    tracker = context.statusTracker()
    while time.monotonic() < deadline:
        infos = [info for job in tracker.getJobIdsForGroup(group) if (info := tracker.getJobInfo(job)) is not None]
        stages = [stage for info in infos for s in info.stageIds if (stage := tracker.getStageInfo(int(s))) is not None]
        if not any(info.status == "RUNNING" for info in infos) and not any(s.numActiveTasks for s in stages):
            return True
        time.sleep(_POLL_SECONDS)
    return False


def _tag(group: str) -> str:
    return f"lakewright-{group}"


_WIDTHS: dict[type[sql.DataType], int] = {
    sql.BooleanType: 1,
    sql.ByteType: 1,
    sql.ShortType: 2,
    sql.IntegerType: 4,
    sql.FloatType: 4,
    sql.DateType: 4,
    sql.LongType: 8,
    sql.DoubleType: 8,
    sql.TimestampType: 8,
    sql.TimestampNTZType: 8,
    sql.DayTimeIntervalType: 8,
    TimeType: 8,
    sql.DecimalType: 16,
}


def _width(dtype: sql.DataType) -> int | None:
    """Return how many bytes a value takes, None where there is no bound."""
    if isinstance(dtype, sql.StructType):
        widths = [_width(field.dataType) for field in dtype.fields]
        return None if None in widths else sum(width for width in widths if width is not None)
    return _WIDTHS.get(type(dtype))


# ---- Cleanup of abandoned attempts -----------------------------------------------------------------------------------
# An attempt that Spark ended before it was done removes its files itself (`self_cleaning`). One that was done before
# has its files in place when the driver sees that no task runs any more, and the driver removes them
# (`lakewright.distributed.job`). Invariant: a failed removal hides no other error; what stays is an orphan.

_GIVEN_UP = "Spark has ended this attempt, so its files were removed"


def self_cleaning(store: TableStore, write_id: str, task: Task) -> PayloadTask:
    """Return a task that returns bytes, and whose attempts remove their files if these are not awaited any more."""

    def run(this: TaskId, batches: Iterator[pa.RecordBatch]) -> bytes:
        payload = task(this, complete_batches(batches)).to_bytes()
        remove_if_given_up(store, write_id, this)
        return payload

    return run


def complete_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, and fail at their end if they end because Spark gave the attempt up."""
    yield from batches
    if not is_answer_awaited():
        raise ConnectionAbortedError(_GIVEN_UP)


def remove_if_given_up(store: TableStore, write_id: str, this: TaskId) -> None:
    """Remove the files of an attempt that is done, and fail, if Spark has given it up."""
    if is_answer_awaited():
        return
    with suppress(LakewrightError, OSError):  # what stays is an orphan
        for attempt in (this.attempt, this.attempt + INSERTING):
            remove_leftovers(store, f"{write_id}-{this.number}-{attempt}")
    raise ConnectionAbortedError(_GIVEN_UP)


# ---- Estimates -------------------------------------------------------------------------------------------------------

_UNKNOWN_BYTES = 1 << 50  # Spark gives an enormous size to what it cannot estimate
_SIZE = re.compile(r"Statistics\(sizeInBytes=([0-9.E+]+) ?([KMGTPE]iB|B)")
_UNITS = {"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40, "PiB": 50, "EiB": 60}


def size_of(df: DataFrame) -> int | None:
    """Return how many bytes Spark expects a frame to have; None where it cannot say."""
    frame: Any = df  # the estimate is not part of the public API
    if is_connect(df.sparkSession):
        return size_in(frame._explain_string(mode="cost"))  # noqa: SLF001
    size = int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))  # noqa: SLF001
    return size if size < _UNKNOWN_BYTES else None


def size_in(plan: str) -> int | None:
    """Return how many bytes the first node of an explained plan is expected to have; None where it does not say."""
    match = _SIZE.search(plan)
    size = _UNKNOWN_BYTES if match is None else int(float(match[1]) * 2 ** _UNITS[match[2]])
    return size if size < _UNKNOWN_BYTES else None


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks the session runs at once."""
    if not is_connect(spark):
        return max(1, spark.sparkContext.defaultParallelism)
    # Spark cuts a range into as many parts as it runs tasks.
    parts = spark.range(1 << 16).select(F.spark_partition_id().alias("part")).distinct().count()
    return max(1, parts)


# ---- The engine ------------------------------------------------------------------------------------------------------
# Invariant: there is one answer of every task, or an error is raised and no task runs any more; the answers say
# whether attempts that failed or lost may have left files behind (`has_losers`).

# A worker whose task was killed may close one more file: Spark gives it two seconds, and Connect does not even show
# when the task is over.
_QUIET_SECONDS_CONNECT = 3.0
_LOSERS_SECONDS_MAX = 10.0
_BLOBS_PER_BATCH = 64  # of those on their way to a worker
_PACKED_BYTES = 16 << 20  # so much of blobs goes to Spark at a time
_BLOBS_SQL = "target int, blob binary, is_error boolean"
_BLOBS = pa.schema({"target": pa.int32(), "blob": pa.binary(), "is_error": pa.bool_()})


@dataclass(frozen=True, slots=True)
class SparkWork:
    """A function over the partitions of a frame, and how the job appears and runs."""

    frame: DataFrame
    task: Task
    description: str
    settings: Mapping[str, str] = field(default_factory=dict)  # of Spark, for the time of the job
    progress: JobProgress | None = None
    method: str = ""  # how the rows reach the tasks


@dataclass(frozen=True, slots=True)
class SparkAnswers:
    """The answers of the tasks of one Spark job."""

    spark: SparkSession
    group: str
    answers: Sequence[SparkTaskResult]
    method: str

    @property
    def results(self) -> list[TaskResult]:
        """One result per task, by its number."""
        return [TaskResult.from_bytes(answer.payload) for answer in self.answers]

    def has_losers(self) -> bool:
        """Return whether attempts that others overtook may have left files; wait until none of them runs."""
        speculates = read_setting(self.spark, "spark.speculation") == "true"
        known = has_spark_executors(self.spark)  # elsewhere the number of an attempt says nothing about others
        if known and not (speculates or has_losers(self.answers) or ran_again(self.spark, self.group)):
            return False
        wait_until_idle(self.spark, self.group, seconds_max=_LOSERS_SECONDS_MAX)
        return True


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """The workers of a session."""

    spark: SparkSession

    @property
    def quiet_seconds(self) -> float:
        """How long after a file of a killed task another one may still appear."""
        return _QUIET_SECONDS_CONNECT if is_connect(self.spark) else QUIET_SECONDS

    @property
    def tasks_at_once(self) -> int:
        """How many tasks run at a time."""
        return parallelism(self.spark)

    def run(self, job: Job[SparkWork]) -> SparkAnswers:
        """Run the function of a job over all partitions of its frame."""
        work = job.work
        answers = run_job(
            work.frame,
            self_cleaning(job.store, job.write_id, work.task),
            group=job.write_id,
            description=work.description,
            progress=work.progress,
            settings=work.settings,
        )
        return SparkAnswers(self.spark, job.write_id, answers, work.method)

    def share_out(self, shares: Sequence[Sequence[bytes]], function: ShareTask, *, description: str) -> SparkWork:
        """Return the work of calling a function once for every share: shares travel as rows, one partition each."""

        def task(this: TaskId, batches: Iterator[pa.RecordBatch]) -> TaskResult:
            return function(this, _blobs_of(batches))

        return SparkWork(self._frame(shares), task, description)

    def exchange(
        self, shares: Sequence[Sequence[bytes]], send: SendTask, receive: ShareTask, *, targets: int, description: str
    ) -> SparkWork:
        """Return the work of tasks that send blobs to so many others: blobs travel through Spark's shuffle."""

        def task(this: TaskId, batches: Iterator[pa.RecordBatch]) -> TaskResult:
            return receive(this, _receive_blobs(batches))

        sent = map_in_arrow(self._frame(shares), partial(_send_blobs, send), _BLOBS_SQL)
        settings = {ROWS_PER_BATCH: str(_BLOBS_PER_BATCH)}
        return SparkWork(repartition_by_task(sent, targets, "target"), task, description, settings)

    def _frame(self, shares: Sequence[Sequence[bytes]]) -> DataFrame:
        rows = [(number, [bytearray(blob) for blob in share]) for number, share in enumerate(shares)]
        return repartition_by_task(
            self.spark.createDataFrame(rows, "number int, share array<binary>"), len(rows), "number"
        )


# ---- on an executor --------------------------------------------------------------------------------------------------


def _blobs_of(batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    return (blob for batch in batches for blob in batch.column("share").flatten().to_pylist())


def _send_blobs(send: SendTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what a task sends; an error of ours travels as a blob, because it would come again at every retry."""
    waiting: list[tuple[int, pa.Buffer, bool]] = []
    size = 0
    try:
        for target, blob in send(_blobs_of(batches)):
            waiting.append((target, blob, False))
            size += blob.size
            if size >= _PACKED_BYTES:
                yield _pack_blobs(waiting)
                waiting, size = [], 0
    except LakewrightError as error:
        if is_transient(error):
            raise
        waiting = [(0, pa.py_buffer(error_to_text(error).encode()), True)]
    yield _pack_blobs(waiting)


def _pack_blobs(blobs: Sequence[tuple[int, pa.Buffer, bool]]) -> pa.RecordBatch:
    arrays = [
        pa.array([target for target, _, _ in blobs], pa.int32()),
        pa.array([blob.to_pybytes() for _, blob, _ in blobs], pa.binary()),
        pa.array([is_error for _, _, is_error in blobs], pa.bool_()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_BLOBS)


def _receive_blobs(batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    for batch in batches:
        for blob, is_error in zip(batch.column("blob"), batch.column("is_error").to_pylist(), strict=True):
            if is_error:
                raise error_from_text(blob.as_py().decode())
            yield blob.as_buffer()


# ---- Compaction ------------------------------------------------------------------------------------------------------


def compacting_on(spark: SparkSession) -> TaskRunner:
    """Return how compaction tasks are run by the workers of a session."""
    return distributed_compaction.compaction_runner(SparkEngine(spark))

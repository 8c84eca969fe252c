"""Spark's workers, as jobs of `lakewright.distributed` need them: a function over a frame in, payloads out.

Always holds: there is one answer of every task, or an error is raised and no task runs any more; the answers say
whether attempts that failed or lost may have left files behind (`has_losers`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakewright.distributed.cleanup import QUIET_SECONDS
from lakewright.distributed.faults import error_from_text, error_to_text, is_transient
from lakewright.distributed.job import Job, SendTask, ShareTask, TaskId
from lakewright.errors import LakewrightError
from lakewright.spark.jobs.cleanup import self_cleaning
from lakewright.spark.jobs.estimate import parallelism
from lakewright.spark.jobs.frames import placed
from lakewright.spark.jobs.progress import JobProgress
from lakewright.spark.jobs.run import ROWS_PER_BATCH, Task, TaskAnswer, has_losers, ran_again, run_job, wait_until_idle
from lakewright.spark.jobs.session import is_connect, map_in_arrow

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
    way: str = ""  # how the rows reach the tasks


@dataclass(frozen=True, slots=True)
class SparkAnswers:
    """The answers of the tasks of one Spark job."""

    spark: SparkSession
    group: str
    answers: Sequence[TaskAnswer]
    way: str

    @property
    def payloads(self) -> list[bytes]:
        """One payload per task, by its number."""
        return [answer.payload for answer in self.answers]

    def has_losers(self) -> bool:
        """Say whether attempts that others overtook may have left files; wait until none of them runs."""
        speculates = self.spark.conf.get("spark.speculation", "false") == "true"
        if not (speculates or has_losers(self.answers) or ran_again(self.spark, self.group)):
            return False
        wait_until_idle(self.spark, self.group, seconds_max=_LOSERS_SECONDS_MAX)
        return True


@dataclass(frozen=True, slots=True)
class SparkWorkers:
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
        return SparkAnswers(self.spark, job.write_id, answers, work.way)

    def share_out(self, shares: Sequence[Sequence[bytes]], function: ShareTask, *, description: str) -> SparkWork:
        """Return the work of calling a function once for every share: shares travel as rows, one partition each."""

        def task(this: TaskId, batches: Iterator[pa.RecordBatch]) -> bytes:
            return function(this, _blobs_of(batches))

        return SparkWork(self._frame(shares), task, description)

    def exchange(
        self, shares: Sequence[Sequence[bytes]], send: SendTask, receive: ShareTask, *, targets: int, description: str
    ) -> SparkWork:
        """Return the work of tasks that send blobs to so many others: blobs travel through Spark's shuffle."""

        def task(this: TaskId, batches: Iterator[pa.RecordBatch]) -> bytes:
            return receive(this, _received(batches))

        sent = map_in_arrow(self._frame(shares), partial(_sent, send), _BLOBS_SQL)
        settings = {ROWS_PER_BATCH: str(_BLOBS_PER_BATCH)}
        return SparkWork(placed(sent, targets, "target"), task, description, settings)

    def _frame(self, shares: Sequence[Sequence[bytes]]) -> DataFrame:
        rows = [(number, [bytearray(blob) for blob in share]) for number, share in enumerate(shares)]
        return placed(self.spark.createDataFrame(rows, "number int, share array<binary>"), len(rows), "number")


# ---- on an executor --------------------------------------------------------------------------------------------------


def _blobs_of(batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    return (blob for batch in batches for blob in batch.column("share").values.to_pylist())


def _sent(send: SendTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what a task sends; an error of ours travels as a blob, because it would come again at every retry."""
    waiting: list[tuple[int, pa.Buffer, bool]] = []
    size = 0
    try:
        for target, blob in send(_blobs_of(batches)):
            waiting.append((target, blob, False))
            size += blob.size
            if size >= _PACKED_BYTES:
                yield _packed(waiting)
                waiting, size = [], 0
    except LakewrightError as error:
        if is_transient(error):
            raise
        waiting = [(0, pa.py_buffer(error_to_text(error).encode()), True)]
    yield _packed(waiting)


def _packed(blobs: Sequence[tuple[int, pa.Buffer, bool]]) -> pa.RecordBatch:
    arrays = [
        pa.array([target for target, _, _ in blobs], pa.int32()),
        pa.array([blob.to_pybytes() for _, blob, _ in blobs], pa.binary()),
        pa.array([is_error for _, _, is_error in blobs], pa.bool_()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_BLOBS)


def _received(batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    for batch in batches:
        for blob, is_error in zip(batch.column("blob"), batch.column("is_error").to_pylist(), strict=True):
            if is_error:
                raise error_from_text(blob.as_py().decode())
            yield blob.as_buffer()

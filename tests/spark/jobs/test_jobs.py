"""Jobs bring one payload per task home, and errors as what they are."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as sql

from lakewright.commit.commit_message import CommitMessage
from lakewright.engine.engine import TaskId, TaskResult
from lakewright.engine.engine_job import (
    error_from_text,
    error_to_text,
    is_transient,
)
from lakewright.errors import CommitConflictError, InvalidInputError, InvalidMessageError, LakewrightError
from lakewright.spark import spark_engine as jobs
from lakewright.spark.spark_engine import SparkTaskResult, batch_rows, has_losers, run_job, wait_until_idle

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # workers cannot import tests

_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"
_GROUP = "spark.jobGroup.id"


def _count_rows(_this: TaskId, batches: Iterator[pa.RecordBatch]) -> bytes:
    return str(sum(batch.num_rows for batch in batches)).encode()


def _noted(directory: Path, this: TaskId) -> None:
    """Leave a trace of one attempt at a task."""
    (directory / f"{this.number}-{this.attempt}").touch()


def _run(df: DataFrame, task: jobs.PayloadTask) -> list[SparkTaskResult]:
    return run_job(df, task, group=f"group-{time.monotonic_ns()}", description="a test")


def test_every_task_answers_once_also_those_without_rows(spark: SparkSession) -> None:
    frame = spark.range(0, 10, numPartitions=5).where("id >= 4")
    before = {key: spark.conf.get(key) for key in (_SETTING, "spark.sql.execution.arrow.maxBytesPerBatch")}
    done = _run(frame, _count_rows)
    assert [(one.task.number, one.payload) for one in done] == list(enumerate([b"0", b"0", b"2", b"2", b"2"]))
    assert not has_losers(done)
    assert {key: spark.conf.get(key) for key in before} == before
    assert spark.sparkContext.getLocalProperty(_GROUP) is None
    assert not spark.getTags()


def test_a_frame_without_partitions_has_no_answers(spark: SparkSession) -> None:
    nothing = spark.sparkContext.emptyRDD()
    assert _run(spark.createDataFrame(nothing, "id long"), _count_rows) == []


def test_long_payloads_travel_in_pieces(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "PIECE_BYTES", 10)
    done = _run(spark.range(2, numPartitions=2), lambda this, _: bytes(range(this.number, this.number + 95)))
    assert [one.payload for one in done] == [bytes(range(95)), bytes(range(1, 96))]


def test_an_error_of_ours_arrives_as_what_it_is_and_is_not_tried_again(spark: SparkSession, tmp_path: Path) -> None:
    def task(this: TaskId, _: Iterator[pa.RecordBatch]) -> bytes:
        _noted(tmp_path, this)
        if this.number:
            raise CommitConflictError(f"task {this.number}: no", table="d.t", files=("a", "b"), key=b"\x01", n=None)
        return b""

    with pytest.raises(CommitConflictError, match="task 1: no") as raised:
        _run(spark.range(3, numPartitions=3), task)
    assert raised.value.facts == {"table": "d.t", "files": ("a", "b"), "key": b"\x01", "n": None}
    assert "raised by a task on a worker" in raised.value.__notes__[0]
    assert "in task" in raised.value.__notes__[0]
    assert len(list(tmp_path.iterdir())) == 3


def test_a_failure_of_the_storage_is_tried_again(spark: SparkSession, tmp_path: Path) -> None:
    def task(this: TaskId, _: Iterator[pa.RecordBatch]) -> bytes:
        _noted(tmp_path, this)
        if this.number == 1 and len(list(tmp_path.glob("1-*"))) == 1:
            raise LakewrightError("the disk is away") from OSError("input/output error")
        return b"done"

    done = _run(spark.range(3, numPartitions=3), task)
    assert [one.payload for one in done] == [b"done"] * 3
    assert len(list(tmp_path.iterdir())) == 4
    assert has_losers(done)
    assert {f"{one.task.number}-{one.task.attempt}" for one in done} < {path.name for path in tmp_path.iterdir()}


def test_a_worker_that_dies_is_replaced(spark: SparkSession, tmp_path: Path) -> None:
    def task(this: TaskId, batches: Iterator[pa.RecordBatch]) -> bytes:
        _noted(tmp_path, this)
        if this.number == 0 and len(list(tmp_path.glob("0-*"))) == 1:
            os._exit(1)
        return _count_rows(this, batches)

    done = _run(spark.range(4, numPartitions=2), task)
    assert [one.payload for one in done] == [b"2", b"2"]
    assert has_losers(done)


def test_a_job_that_fails_for_good_is_over_when_its_error_arrives(spark: SparkSession, tmp_path: Path) -> None:
    def task(this: TaskId, _: Iterator[pa.RecordBatch]) -> bytes:
        _noted(tmp_path, this)
        if this.number == 0:
            raise OSError("the disk is away")
        _beat(tmp_path / "beat", seconds=60)
        return b""

    with pytest.raises(PySparkException, match="the disk is away"):
        _run(spark.range(2, numPartitions=2), task)
    assert len(list(tmp_path.glob("0-*"))) == 3  # as often as the session allows
    _assert_still(tmp_path / "beat")


def test_an_interrupted_job_is_over_when_the_interrupt_arrives(spark: SparkSession, tmp_path: Path) -> None:
    def task(_this: TaskId, _: Iterator[pa.RecordBatch]) -> bytes:
        _beat(tmp_path / "beat", seconds=60)
        return b""

    interrupter = threading.Thread(target=_interrupt_when, args=(tmp_path / "beat",))
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        _run(spark.range(2, numPartitions=2), task)
    interrupter.join()
    _assert_still(tmp_path / "beat")
    assert [one.payload for one in _run(spark.range(2, numPartitions=1), _count_rows)] == [b"2"]


def test_an_interrupt_is_not_hidden_by_an_error_of_pyspark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise ConnectionError("the answer of the JVM is empty")  # as the end of PySpark's call sites does

    df = spark.range(2, numPartitions=1)
    monkeypatch.setattr(type(df), "collect", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _run(df, _count_rows)


def _beat(path: Path, *, seconds: float) -> None:
    """Write the time into a file again and again."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        path.write_text(str(time.monotonic_ns()))
        time.sleep(0.01)


def _interrupt_when(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGINT)


def _assert_still(path: Path) -> None:
    """Check that nobody writes a file any more; a worker that was killed may need a moment."""
    for _ in range(50):
        before = path.read_text() if path.exists() else ""
        time.sleep(0.1)
        if (path.read_text() if path.exists() else "") == before:
            return
    pytest.fail("a task of the job still runs")


def test_whoever_named_a_job_group_keeps_it(spark: SparkSession) -> None:
    context = spark.sparkContext
    context.setJobGroup("mine", "my work")
    try:
        _run(spark.range(2, numPartitions=2), _count_rows)
        assert context.getLocalProperty(_GROUP) == "mine"
        assert context.statusTracker().getJobIdsForGroup("mine")
        assert wait_until_idle(spark, "another")
    finally:
        for key in (_GROUP, "spark.job.description", "spark.job.interruptOnCancel"):
            context.setLocalProperty(key, cast("str", None))


def test_batches_that_grow_too_large_run_again_with_bounded_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[str] = []
    frame = _FakeFrame(limits)
    monkeypatch.setattr(jobs, "held_settings", frame.settings)
    monkeypatch.setattr(jobs, "is_connect", lambda _: True)
    monkeypatch.setattr(jobs, "heal_workers", lambda _: None, raising=False)
    done = _run(cast("DataFrame", frame), _count_rows)
    assert [int(limit) for limit in limits] == [2**31 - 1, 64 << 20]
    assert has_losers(done)  # the first run may have left files


class _FakeFrame:
    """A frame whose first batches outgrow Arrow."""

    def __init__(self, limits: list[str]) -> None:
        self._limits = limits
        self._limit = ""
        self.sparkSession = SimpleNamespace(addTag=len, removeTag=len, interruptTag=len)
        self.schema = sql.StructType([sql.StructField("text", sql.StringType())])

    def settings(self, _spark: object, values: dict[str, str], **_: object) -> _FakeFrame:
        self._limit = values["spark.sql.execution.arrow.maxBytesPerBatch"]
        return self

    def __enter__(self) -> None:
        self._limits.append(self._limit)

    def __exit__(self, *_: object) -> None:
        pass

    def mapInArrow(self, _task: object, _schema: str) -> _FakeFrame:  # noqa: N802 - Spark's name
        return self

    def collect(self) -> list[SimpleNamespace]:
        if len(self._limits) == 1:
            raise PySparkException("org.apache.arrow.vector.util.OversizedAllocationException: too large")
        return [SimpleNamespace(task=0, attempt=7, retry=0, piece=0, pieces=1, payload=b"", error=None)]


def _answer(task: int, attempt: int = 0, piece: int = 0, pieces: int = 1) -> SimpleNamespace:
    return SimpleNamespace(task=task, attempt=attempt, retry=0, piece=piece, pieces=pieces, payload=b"x", error=None)


@pytest.mark.parametrize(
    "rows",
    [
        [_answer(0), _answer(0, attempt=1)],
        [_answer(0), _answer(2)],
        [_answer(1)],
        [_answer(0, pieces=2)],
        [_answer(0, piece=1, pieces=2), _answer(0, piece=1, pieces=2)],
    ],
)
def test_answers_that_are_missing_or_there_twice_are_refused(rows: list[Any]) -> None:
    with pytest.raises(LakewrightError, match=r"home"):
        jobs._complete(jobs._join_payloads(rows, 0), "a test")


def test_only_attempts_that_follow_each_other_are_free_of_losers() -> None:
    def done(*attempts: int) -> list[SparkTaskResult]:
        return [SparkTaskResult(TaskId(number, attempt), b"") for number, attempt in enumerate(attempts)]

    assert not has_losers([])
    assert not has_losers(done(12, 10, 11))
    assert has_losers(done(10, 13, 12))
    assert has_losers([SparkTaskResult(TaskId(0, 12), b"", retry=1), SparkTaskResult(TaskId(1, 11), b"")])


def test_batch_sizes_follow_the_width_of_rows() -> None:
    def frame(*types: sql.DataType) -> sql.StructType:
        return sql.StructType([sql.StructField(f"c{number}", dtype) for number, dtype in enumerate(types)])

    assert batch_rows(frame(sql.LongType(), sql.DateType())) == 32768
    assert batch_rows(frame(sql.LongType(), sql.StringType())) == 4096
    assert batch_rows(frame(sql.ArrayType(sql.LongType()))) == 4096
    assert batch_rows(frame(frame(*[sql.DecimalType(38, 2)] * 2000))) == (128 << 20) // 32000
    assert batch_rows(frame(*[sql.DecimalType(38, 2)] * 1_000_000)) == 64


def test_cut_messages_are_refused() -> None:
    result = TaskResult((CommitMessage(partition_bytes=bytes(12), bucket=0, table="d.t", schema_id=0),) * 2, (3, -1))
    whole = result.to_bytes()
    assert TaskResult.from_bytes(whole) == result
    assert TaskResult.from_bytes(TaskResult(data=b"other").to_bytes()) == TaskResult(data=b"other")
    for broken in (b"", whole[:10], whole[:-1], b"x" + whole, whole[:40] + whole[41:]):
        with pytest.raises(InvalidMessageError, match="cut"):
            TaskResult.from_bytes(broken)


def test_an_error_comes_back_from_its_text() -> None:
    error = InvalidInputError("no", names=["a", ("b", 1)], path=Path("/x"), share=0.5, yes=True)
    again = error_from_text(error_to_text(error))
    assert type(again) is InvalidInputError
    assert again.facts == {"names": ["a", ("b", 1)], "path": "/x", "share": 0.5, "yes": True}
    assert (
        type(error_from_text(error_to_text(type("NewerError", (LakewrightError,), {})("no")))) is not InvalidInputError
    )


def test_what_the_storage_caused_may_pass() -> None:
    def caused_by(cause: Exception) -> LakewrightError:
        error = LakewrightError("no")
        error.__cause__ = cause
        return error

    assert is_transient(caused_by(ConnectionError("away")))
    assert not is_transient(caused_by(FileNotFoundError("gone")))
    assert not is_transient(caused_by(ValueError("wrong")))

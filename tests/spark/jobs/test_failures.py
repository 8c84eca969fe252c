"""Workers, executors and drivers are killed while they write: rows are there once, and no file is left behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lakewright as lw
from lakewright.compact.compaction_job import run_plan
from lakewright.compact.compaction_plan import plan_compaction
from lakewright.engine.engine_job import remove_all, remove_leftovers
from lakewright.spark import write_table
from lakewright.spark.spark_engine import compacting_on
from lakewright.spec.argument_checks import WriteMode
from support.effort import some
from support.spark_child import ROWS, ended, expected_rows, frame_of, shows_the_frame, started_child, table_for
from support.spark_traps import TrapStorage, caught, trapped
from support.spark_writes import assert_tidy, assert_tidy_after_cleanup, new_table, rows_of

# ---- workers, in the session of all tests ----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", some(["append", "upsert", "overwrite"], 1))
def test_a_worker_that_dies_with_open_files_is_replaced(spark: SparkSession, tmp_path: Path, mode: WriteMode) -> None:
    table = table_for(mode, tmp_path)
    trap = TrapStorage(durable=False, marks=str(tmp_path / "marks"))
    result = write_table(frame_of(spark), trapped(table, trap), mode)
    assert (tmp_path / "marks" / "0").exists()
    assert result.rows == ROWS
    assert rows_of(table) == expected_rows()
    assert_tidy(table)


@pytest.mark.nightly
def test_a_worker_that_dies_before_the_write_is_replaced(spark: SparkSession, tmp_path: Path) -> None:
    mark = tmp_path / "died"

    def die_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if not mark.exists():
                mark.touch()
                os._exit(1)
            yield batch

    table = table_for("upsert", tmp_path)
    frame = frame_of(spark)
    write_table(frame.mapInArrow(die_once, frame.schema), table)
    assert mark.exists()
    assert rows_of(table) == expected_rows()
    assert_tidy(table)


@pytest.mark.parametrize("mode", some(["append", "upsert"], 0))
def test_a_disk_that_fails_for_good_leaves_nothing(spark: SparkSession, tmp_path: Path, mode: WriteMode) -> None:
    table = table_for(mode, tmp_path)
    trap = TrapStorage(durable=False, deed="fail", times=100, marks=str(tmp_path / "marks"))
    with pytest.raises(PySparkException, match="the disk is away"):
        write_table(frame_of(spark), trapped(table, trap), mode)
    assert not shows_the_frame(table)
    assert_tidy(table)


@pytest.mark.parametrize("slow", some(["the task whose input fails", "another task"], 1))
def test_an_input_that_fails_leaves_nothing_of_slow_tasks(spark: SparkSession, tmp_path: Path, slow: str) -> None:
    """A worker is told late, or never, that its attempt is over: what it finishes afterwards, it removes."""
    started = tmp_path / "marks" / "0"

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if batch.column("id")[0].as_py() == 0:
                _wait_for(started, slow == "another task")
                raise ValueError("the input is bad")

    table = new_table(tmp_path)
    trap = TrapStorage(durable=False, deed="dawdle", times=100, marks=str(tmp_path / "marks"))
    schema = "id long, day string"
    rows = spark.range(4, numPartitions=2 if slow == "another task" else 1).selectExpr("id", "'x' AS day")
    frame = rows.mapInArrow(fail, schema)
    with pytest.raises(PySparkException, match="the input is bad"):
        write_table(frame, trapped(table, trap))
    time.sleep(3)
    assert_tidy(table)


def _wait_for(mark: Path, wanted: bool) -> None:
    """Wait until a file is there, at most for some seconds."""
    deadline = time.monotonic() + 20
    while wanted and not mark.exists() and time.monotonic() < deadline:
        time.sleep(0.02)


def test_a_worker_that_dies_in_the_compaction_is_replaced(spark: SparkSession, tmp_path: Path) -> None:
    table = table_for("upsert", tmp_path)
    write_table(frame_of(spark), table)
    store = trapped(table, TrapStorage(durable=False, marks=str(tmp_path / "marks"))).store
    result = run_plan(store, lambda newest: plan_compaction(store, newest, full=True), compacting_on(spark))
    assert (tmp_path / "marks" / "0").exists()
    assert (result.buckets, result.files_after, result.rows) == (2, 2, ROWS)
    assert rows_of(table) == expected_rows()
    assert_tidy(table)


# ---- left-overs ------------------------------------------------------------------------------------------------------


def test_left_overs_of_one_write_are_found_by_its_id(tmp_path: Path) -> None:
    table = table_for("append", tmp_path)
    store = table.store
    mine, other = "0123456789abcdef-mine", "0123456789abcdef-other"
    lw.write_table(pa.table({"id": [1], "day": ["x"]}), table)
    live = {path for path in tmp_path.rglob("*") if path.is_file()}
    strays = [f"day=x/bucket-0/data-{mine}-0-0-0.parquet", f"index/index-{mine}-0-0-0", "day=y/bucket-0/changelog-"]
    strays[2] += f"{mine}-1-0-0.parquet"
    kept = [f"day=x/bucket-0/data-{mine}-0-0-1.parquet", f"day=x/bucket-0/data-{other}-0-0-0.parquet"]
    for name in (*strays, *kept):
        path = Path(table.table_path) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert remove_leftovers(store, mine, keep={Path(kept[0]).name}) == 3
    assert {path for path in tmp_path.rglob("*") if path.is_file()} - live == {
        Path(table.table_path) / name for name in kept
    }
    remove_all(store, mine)
    remove_all(store, other)
    assert_tidy(table)
    with pytest.raises(lw.errors.InvalidInputError, match="no id of a write"):
        remove_leftovers(store, "")


def test_what_a_snapshot_names_is_never_a_left_over(tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=["id"], options={"bucket": "-1"})
    builder = table.new_batch_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        messages = write.write_arrow(pa.table({"id": [1, 2]})).prepare_commit()
        commit.commit(messages)
    table.compact(full=True)
    assert remove_leftovers(table.store, messages[0].write_id) == 0
    assert len(rows_of(table)) == 2


# ---- drivers and executors, in processes of their own ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "moment", "visible"),
    some([("append", "before", False), ("overwrite", "after", True), ("upsert", "before", False)], 1),
)
def test_a_driver_that_is_killed_at_its_commit_can_be_run_again(
    spark: SparkSession, tmp_path: Path, mode: WriteMode, moment: str, visible: bool
) -> None:
    table, log = table_for(mode, tmp_path), tmp_path / "log"
    name = "manifest-" if mode == "append" else "snapshot-"  # after the data files, or after the manifests too
    trap = {"call": "create", "name": name, "moment": moment, "deed": "kill", "marks": str(tmp_path / "marks")}
    with started_child(log, table=table.table_path, mode=mode, job_id="once", trap=trap) as child:
        assert ended(child, log) == -signal.SIGKILL, log.read_text()[-2000:]
    assert shows_the_frame(table) is visible
    result = write_table(frame_of(spark), table, mode, job_id="once")
    assert result.replayed is visible
    assert result.rows == ROWS
    assert rows_of(table) == expected_rows()
    assert bool(assert_tidy_after_cleanup(table)) is not visible
    assert rows_of(table) == expected_rows()


@pytest.mark.nightly
def test_an_interrupted_driver_leaves_nothing(tmp_path: Path) -> None:
    table, log = table_for("upsert", tmp_path), tmp_path / "log"
    trap = {"deed": "wait", "marks": str(tmp_path / "marks")}
    with started_child(log, table=table.table_path, mode="upsert", trap=trap) as child:
        caught(tmp_path / "marks")
        child.send_signal(signal.SIGINT)
        assert ended(child, log) != 0
    assert "KeyboardInterrupt" in log.read_text()
    assert not shows_the_frame(table)
    assert_tidy(table)

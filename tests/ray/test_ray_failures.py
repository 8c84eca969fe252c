"""Workers and drivers are killed, and disks fail, while they write: rows are there once, and no file is left behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
import ray
from ray.exceptions import RayError

from lakewright.compact.compaction_job import run_plan
from lakewright.compact.compaction_plan import plan_compaction
from lakewright.compact.distributed_compaction import compaction_runner
from lakewright.ray import dataset_write, ray_engine, write_table
from lakewright.ray.ray_engine import RayEngine, RayWriteSettings
from lakewright.spec.argument_checks import WriteMode
from support.effort import some
from support.ray_child import (
    ROWS,
    dataset_of,
    expected_rows,
    shows_the_rows,
    started_child,
    table_for,
)
from support.spark_writes import assert_tidy, assert_tidy_after_cleanup, new_table, rows_of
from support.traps import TrapStorage, trapped

pytestmark = pytest.mark.usefixtures("ray_session")


def _take_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let several writers share even a few rows."""
    monkeypatch.setattr(dataset_write, "_ALONE_BYTES", 0)
    monkeypatch.setattr(dataset_write, "_SEND_BYTES", 1)


# ---- workers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "apart"), some([("append", False), ("overwrite", False), ("upsert", True)], 0, 2))
def test_a_worker_that_dies_with_open_files_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: WriteMode, apart: bool
) -> None:
    if apart:
        _take_apart(monkeypatch)
    table = table_for(mode, tmp_path)
    trap = TrapStorage(durable=False, deed="kill", marks=str(tmp_path / "marks"))
    dataset = dataset_of()
    if mode == "append":  # the tasks that write are Ray's
        dataset = dataset.map_batches(lambda rows: rows, batch_format="pyarrow")
    result = write_table(dataset, trapped(table, trap), mode)
    assert (tmp_path / "marks" / "0").exists()
    assert result.rows == ROWS
    assert rows_of(table) == expected_rows()
    assert_tidy(table)


@pytest.mark.nightly
def test_a_worker_that_dies_before_the_write_is_replaced(tmp_path: Path) -> None:
    mark = tmp_path / "died"

    def die_once(rows: pa.Table) -> pa.Table:
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return rows

    table = table_for("append", tmp_path)
    write_table(dataset_of().map_batches(die_once, batch_format="pyarrow"), table)
    assert mark.exists()
    assert rows_of(table) == expected_rows()
    assert_tidy(table)


def test_a_worker_that_dies_in_the_compaction_is_replaced(tmp_path: Path) -> None:
    table = table_for("upsert", tmp_path)
    write_table(dataset_of(), table)
    store = trapped(table, TrapStorage(durable=False, deed="kill", marks=str(tmp_path / "marks"))).store
    workers = RayEngine(RayWriteSettings())
    result = run_plan(store, lambda newest: plan_compaction(store, newest, full=True), compaction_runner(workers))
    assert (tmp_path / "marks" / "0").exists()
    assert (result.buckets, result.rows) == (2, ROWS)
    assert rows_of(table) == expected_rows()
    assert_tidy(table)


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "apart"), some([("append", False), ("upsert", True)], 1))
def test_a_disk_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: WriteMode, apart: bool
) -> None:
    if apart:
        _take_apart(monkeypatch)
    table = table_for(mode, tmp_path)
    trap = TrapStorage(durable=False, deed="fail", times=100, marks=str(tmp_path / "marks"))
    with pytest.raises((RayError, OSError), match="the disk is away"):
        write_table(dataset_of(), trapped(table, trap), mode)
    assert not shows_the_rows(table)
    assert_tidy(table)


def test_an_error_of_the_user_leaves_nothing(tmp_path: Path) -> None:
    def refuse_the_last(rows: pa.Table) -> pa.Table:
        if rows.column("id")[-1].as_py() == ROWS - 1:
            raise RuntimeError("not this one")
        return rows

    dataset = dataset_of().map_batches(refuse_the_last, batch_format="pyarrow")
    for mode in ("append", "upsert"):
        table = table_for(mode, tmp_path / mode)
        with pytest.raises(RayError, match="not this one"):
            write_table(dataset, table, mode)
        assert not shows_the_rows(table)
        assert_tidy(table)


@pytest.mark.nightly
def test_blocks_that_ray_may_drop_are_not_those_of_a_failed_write(tmp_path: Path) -> None:
    def refuse_the_last(rows: pa.Table) -> pa.Table:
        if rows.column("id")[-1].as_py() == ROWS - 1:
            raise RuntimeError("not this one")
        return rows

    dataset = dataset_of().map_batches(refuse_the_last, batch_format="pyarrow")
    table = table_for("append", tmp_path)
    before = dataset.context.max_errored_blocks
    dataset.context.max_errored_blocks = 1
    try:
        assert write_table(dataset, table).rows == ROWS - 15  # the owner of the dataset wants it so
        trap = TrapStorage(durable=False, deed="fail", marks=str(tmp_path / "marks"))
        with pytest.raises((RayError, OSError), match="the disk is away"):
            write_table(dataset, trapped(table, trap))
    finally:
        dataset.context.max_errored_blocks = before
    assert len(rows_of(table)) == ROWS - 15
    assert_tidy(table)


@pytest.mark.parametrize("keys", some([[], ["id"]], 0), ids=str)
def test_an_interrupt_ends_the_tasks_and_leaves_nothing(tmp_path: Path, keys: list[str]) -> None:
    marks = tmp_path / "marks"
    table = new_table(tmp_path, keys=keys, options={"bucket": "2"} if keys else None)
    trap = TrapStorage(durable=False, deed="wait", marks=str(marks))

    def interrupt() -> None:
        deadline = time.monotonic() + 120
        while not (marks / "0").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets its background jobs ignore it
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            write_table(dataset_of().map_batches(lambda rows: rows, batch_format="pyarrow"), trapped(table, trap))
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert table.store.snapshots.latest_id() is None
    assert_tidy(table)


def test_short_tasks_are_not_cancelled_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray may abort the driver when it cancels a task at the moment when that starts or ends."""
    cancelled: list[object] = []
    monkeypatch.setattr(ray, "cancel", lambda task, **_: cancelled.append(task))
    monkeypatch.setattr(ray_engine, "_END_SECONDS_MAX", 120)

    def fail() -> None:
        with ray_engine.Tasks(RayWriteSettings(), ray_engine.ProgressReport(None)) as running:
            running.start(ray.remote(lambda: time.sleep(0.1)))
            raise ValueError("the input is bad")

    with pytest.raises(ValueError, match="the input is bad"):
        fail()
    assert cancelled == []


# ---- drivers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "moment", "visible"), some([("append", "before", False), ("upsert", "after", True)], 0)
)
def test_a_driver_that_is_killed_at_its_commit_can_be_run_again(
    tmp_path: Path, mode: WriteMode, moment: str, visible: bool
) -> None:
    table, log = table_for(mode, tmp_path), tmp_path / "log"
    trap = {"call": "create", "name": "snapshot-", "moment": moment, "deed": "kill", "marks": str(tmp_path / "marks")}
    with started_child(log, table=table.table_path, mode=mode, job_id="once", trap=trap) as child:
        assert child.wait(240) == -signal.SIGKILL, log.read_text()[-2000:]
    assert shows_the_rows(table) is visible
    result = write_table(dataset_of(), table, mode, job_id="once")
    assert result.replayed is visible
    assert result.rows == ROWS
    assert rows_of(table) == expected_rows()
    assert bool(assert_tidy_after_cleanup(table)) is not visible
    assert rows_of(table) == expected_rows()

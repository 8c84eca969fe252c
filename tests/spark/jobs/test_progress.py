"""How far a job is: counted in tasks and rows, told to callbacks and bars, and never in the way of the job."""

from __future__ import annotations

import io
import itertools
import os
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakewright as lw
from lakewright.engine.job_progress import Progress
from lakewright.spark import spark_progress as room
from lakewright.spark.spark_progress import (
    Counter,
    JobProgress,
    Notebook,
    Terminal,
    bar_text,
    final_line,
    following_progress,
    tasks_of,
)


def _result(**changes: object) -> SimpleNamespace:
    return SimpleNamespace(**{"snapshot_id": 7, "rows": 1, "files": 1, "bytes": 1500, "seconds": 0.04, **changes})


def test_the_final_line_says_what_was_written() -> None:
    assert final_line(_result(), "db.t") == "db.t: snapshot 7, 1 row, 1 file, 0.0 MB in 0.0 s"
    assert final_line(_result(snapshot_id=None), "db.t") == "db.t: nothing to commit, in 0.0 s"


def test_a_bar_fits_its_terminal_and_starts_empty() -> None:
    assert bar_text("w", Progress(0, 0, 0.0), 99) == "w [........................] starting"
    full = bar_text("w", Progress(8, 10**6, 2.0, 4, 4), 99)
    assert full == "w [########################] 4/4 tasks, 8 rows, 1.0 MB, 4 rows/s"
    assert len(bar_text("a long name " * 9, Progress(8, 1, 1.0, 4, 1), 40)) == 40


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ([], (0, 0)),
        ([(True, [(4, 0, 0), (6, 0, 0)])], (10, 0)),  # both wait
        ([(True, [(4, 2, 1), (6, 0, 0)])], (10, 1)),
        ([(False, [(4, 0, 4)]), (True, [(4, 0, 0), (6, 0, 0)])], (14, 4)),  # nobody knows yet that one is skipped
        ([(False, [(4, 0, 4)]), (True, [(4, 0, 0), (6, 1, 0)])], (10, 4)),
        ([(False, [(4, 0, 0), (6, 0, 6)])], (6, 6)),
    ],
)
def test_skipped_stages_do_not_count(jobs: list[room.Job], expected: tuple[int, int]) -> None:
    assert tasks_of(jobs) == expected


def test_a_classic_job_tells_tasks_rows_and_bytes(spark: SparkSession, tmp_path: Path) -> None:
    """The first task ends only after the callback has seen the second one done, so a poll has to fall between."""
    seen: list[Progress] = []
    gate = tmp_path / "gate"

    def note(now: Progress) -> None:
        seen.append(now)
        if now.tasks_done:
            gate.touch()

    spark.sparkContext.setJobGroup("mine", "an earlier job of the same group")
    spark.range(3).collect()
    try:
        with following_progress(spark, "unused", note, what="write to db.t") as job_progress:
            counter, way = job_progress.counter, str(gate)

            def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                for batch in batches:
                    counter.add(batch.num_rows, batch.nbytes)
                    first = batch.column(0)[0].as_py() == 0
                    for _ in range(600 if first else 0):
                        if os.path.exists(way):  # noqa: PTH110 - a path travels as text
                            break
                        time.sleep(0.05)
                    yield batch

            job_progress.follow(spark)
            spark.range(0, 10, 1, 2).mapInArrow(task, "id long").collect()
            job_progress.add_finished(10, 4_000_000)
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        spark.sparkContext.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
    halfway = [now for now in seen if (now.tasks, now.tasks_done) == (2, 1)]
    assert halfway
    assert {(now.rows, now.bytes) for now in halfway} <= {(0, 0), (5, 40)}
    last = seen[-1]
    assert (last.rows, last.bytes, last.tasks, last.tasks_done) == (10, 4_000_000, 2, 2)
    assert all(a.seconds <= b.seconds for a, b in itertools.pairwise(seen))


def test_a_failing_callback_is_reported_once_and_kills_nothing(spark: SparkSession) -> None:
    calls: list[int] = []

    def fail(_: Progress) -> None:
        calls.append(1)
        raise ZeroDivisionError

    said = "write to db.t: the progress callback failed"

    def watched() -> None:
        with following_progress(spark, "g", fail, what="write to db.t") as job_progress:
            for _ in range(3):
                job_progress.tell(4, 1)

    with pytest.warns(lw.errors.LakewrightWarning, match=said) as caught:
        watched()
    assert (len(calls), len(caught)) == (1, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with following_progress(spark, "g", fail, what="write to db.t"):
            pass


def test_an_error_in_the_job_passes_and_tells_no_end(spark: SparkSession) -> None:
    seen: list[Progress] = []

    def interrupted() -> None:
        with following_progress(spark, "g", seen.append, what="w") as job_progress:
            job_progress.tell(4, 1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [now.tasks_done for now in seen] == [1]


class _Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("wanted", [None, True, False])
def test_a_terminal_shows_a_bar_unless_told_not_to(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, wanted: bool | None
) -> None:
    stream = _Tty()
    monkeypatch.setattr(sys, "stderr", stream)
    with following_progress(spark, "g", wanted, what="write to db.t") as job_progress:
        job_progress.tell(4, 1)
        job_progress.conclude("db.t: snapshot 1")
    shown = stream.getvalue()
    if wanted is False:
        assert shown == ""
        return
    assert "\rwrite to db.t [######..................] 1/4 tasks" in shown
    assert shown.endswith("\rdb.t: snapshot 1\n")
    assert shown.count("\n") == 1


@pytest.mark.parametrize("wanted", [None, True])
def test_logs_stay_quiet(spark: SparkSession, capsys: pytest.CaptureFixture[str], wanted: bool | None) -> None:
    with following_progress(spark, "g", wanted, what="w") as job_progress:
        assert not job_progress.has_listeners
        assert job_progress.counter == Counter()
        job_progress.follow(spark)
        job_progress.tell(4, 1)
        job_progress.conclude("done")
    assert capsys.readouterr() == ("", "")


def test_a_shorter_bar_leaves_nothing_of_a_longer_one() -> None:
    stream = io.StringIO()
    terminal = Terminal(stream)
    terminal.show("a long text")
    terminal.show("short")
    terminal.close(None)
    assert stream.getvalue() == "\ra long text\rshort      \r     \r"


def test_a_notebook_shows_the_bar_in_its_cell(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    def display(data: dict[str, str], *, raw: bool, display_id: bool) -> SimpleNamespace:
        assert raw
        assert display_id
        shown.append(data["text/plain"])
        return SimpleNamespace(update=lambda new, *, raw: shown.append(new["text/plain"] * raw))

    shell = SimpleNamespace(kernel=object())
    fake = SimpleNamespace(get_ipython=lambda: shell, display=SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython", fake)
    assert isinstance(room._display(), Notebook)
    with following_progress(spark, "g", None, what="w") as job_progress:
        job_progress.tell(2, 1)
        job_progress.conclude("done")
    assert "1/2 tasks" in shown[0]
    assert shown[-1] == "done"


def test_connect_is_heard_only_in_the_thread_of_the_job(spark: SparkSession) -> None:
    seen: list[Progress] = []
    stage = SimpleNamespace(num_tasks=4, num_completed_tasks=3)
    job_progress = JobProgress("g", "w", listeners=[seen.append])
    job_progress.on_connect([stage], inflight_tasks=1, operation_id="x", done=False)
    assert seen == []
    job_progress.follow(spark)
    job_progress.on_connect([stage], inflight_tasks=1, operation_id="x", done=False)
    job_progress.on_connect(None, inflight_tasks=0, operation_id="x", done=True)
    job_progress.on_connect([stage, stage], inflight_tasks=1, operation_id="y", done=False)
    assert [(now.tasks, now.tasks_done) for now in seen] == [(4, 3), (12, 9)]


def test_a_stage_that_turns_out_to_be_skipped_leaves_the_count(spark: SparkSession) -> None:
    seen: list[Progress] = []
    with following_progress(spark, "g", seen.append, what="w") as job_progress:
        job_progress.tell(14, 4)
        job_progress.tell(10, 5)
    assert [(now.tasks, now.tasks_done) for now in seen][:2] == [(14, 4), (10, 5)]

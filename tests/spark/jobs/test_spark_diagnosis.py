"""The doctor on Spark: workers tell their Python and packages; and commits of the driver tell their figures."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

import lakewright as lw
import lakewright.spark as lws
from lakewright.spark.spark_session import check_workers, compare_workers
from lakewright.version import __version__

HERE = "{}.{}".format(*sys.version_info)


def test_workers_answer(spark: SparkSession) -> None:
    checks = {check.name: check for check in check_workers(spark, tasks=2)}
    assert {name: check.status for name, check in checks.items()} == {"spark.python": "ok", "spark.workers": "ok"}
    assert f"Python {HERE}" in checks["spark.python"].found


def test_workers_that_lack_the_library_or_have_another_python_fail() -> None:
    facts = {"python": "3.8.1", "version": "ModuleNotFoundError: No module named 'lakewright'", "host": "a"}
    checks = compare_workers([facts])
    assert [check.status for check in checks] == ["failed", "failed"]
    assert all(check.remedy for check in checks)
    good = {"python": f"{HERE}.9", "version": __version__, "host": "a"}
    assert [check.status for check in compare_workers([good])] == ["ok", "ok"]
    assert [check.status for check in compare_workers([good, {**good, "version": "0.0.1"}])] == ["ok", "failed"]


def test_a_session_that_does_not_answer_is_a_check() -> None:
    (check,) = check_workers(None)  # type: ignore[arg-type]
    assert (check.name, check.status) == ("spark.workers", "failed")


def test_the_driver_tells_of_its_commit(spark: SparkSession, tmp_path: Path) -> None:
    table = lw.create_table_from({"id": [1]}, "d.t", catalog=tmp_path)
    events: list[lw.MetricsEvent] = []
    lw.add_metrics_hook(events.append)
    try:
        result = lws.write_table(spark.range(5, 9), table)
    finally:
        lw.remove_metrics_hook(events.append)
    (event,) = [one for one in events if one.kind == "commit"]
    assert (event.table, event.snapshot_id, event.rows) == ("d.t", result.snapshot_id, 4)
    assert next(iter(event.stages_ms)) == next(iter(result.stages_ms)) == "tasks"

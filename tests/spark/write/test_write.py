"""Frames written by Spark's workers are what the embedded engine would have written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lakewright.compact import distributed_compaction
from lakewright.errors import InvalidInputError, LakewrightWarning, UnsupportedError
from lakewright.spark import read_table, spark_engine, write_table
from lakewright.spark.frame_operations import to_arrow
from lakewright.spark.frame_write import write_micro_batch
from lakewright.spec.argument_checks import WriteMode
from support.effort import some
from support.spark_writes import COLUMNS, assert_tidy, new_table, rows_of, sorted_rows

_ROWS = [(i % 40, f"2026-01-0{i % 3 + 1}", i, f"row {i}") for i in range(120)]  # every key three times
_MORE = [(i % 50, f"2026-01-0{i % 3 + 1}", 1000 + i, None) for i in range(50)]
_SQL = "id long, day string, n long, text string"


def _arrow(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(COLUMNS.names, row, strict=True)) for row in rows], COLUMNS)


def _frame(spark: SparkSession, rows: Sequence[tuple[Any, ...]], parts: int = 3) -> DataFrame:
    """Return rows as a frame of some partitions, in their order."""
    size = -(-len(rows) // parts)
    pieces = [list(rows[start : start + size]) for start in range(0, len(rows), size)]
    return spark.createDataFrame(spark.sparkContext.parallelize(pieces, len(pieces)).flatMap(list), _SQL)


@pytest.mark.parametrize("keys", some([[], ["id"]], 1), ids=str)
def test_files_go_to_external_paths(spark: SparkSession, tmp_path: Path, keys: list[str]) -> None:
    outside = tmp_path / "outside"
    options = {
        "data-file.external-paths": f"file://{outside}/one,file://{outside}/two",
        "data-file.external-paths.strategy": "entropy-inject",
        **({"bucket": "2"} if keys else {}),
    }
    table = new_table(tmp_path / "w", keys=keys, options=options)
    write_table(_frame(spark, _ROWS), table)
    assert sorted_rows(to_arrow(read_table(spark, table))) == rows_of(table)
    assert len(rows_of(table)) == (40 if keys else 120)
    assert not list((tmp_path / "w").rglob("data-*"))
    named = {path.name for path in outside.rglob("data-*")}
    splits = table.new_read_builder().new_scan().plan().splits()
    assert {file.file_name for split in splits for file in split.files} == named


def test_a_frame_may_read_the_table_that_it_overwrites(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=["id"], options={"bucket": "2"})
    write_table(_frame(spark, _ROWS), table)
    before = rows_of(table)
    frame = read_table(spark, table).selectExpr("id", "day", "n + 1 as n", "text")
    write_table(frame, table, "overwrite")
    assert rows_of(table) == [(row[0], row[1], cast("int", row[2]) + 1, row[3]) for row in before]


def test_what_a_schema_tells_is_refused_before_a_job_starts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_engine, "run_job", lambda *_, **__: pytest.fail("a job was started"))
    table = new_table(tmp_path, keys=["id"], options={"bucket": "2"})
    frame = _frame(spark, _ROWS)
    for wrong, mode, message in (
        (frame.selectExpr("id", "array(n) as n"), "append", "'n'"),
        (frame.selectExpr("*", "'+I' as _row_kind", "'+I' as row_kind"), "append", "both"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            write_table(wrong, table, cast("WriteMode", mode))
    with pytest.raises(InvalidInputError, match="no Spark frame"):
        write_table(cast("DataFrame", _arrow(_ROWS)), table)
    with pytest.raises(InvalidInputError, match="write_stream"):
        write_table(spark.readStream.format("rate").load(), table)
    with pytest.raises(InvalidInputError, match="at least 1"):
        write_table(frame, table, concurrency=0)
    assert_tidy(table)


# ---- the verb of builders --------------------------------------------------------------------------------------------


def test_builders_write_and_commit_frames(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, partitions=["day"])
    before = spark.conf.get("spark.sql.shuffle.partitions")
    frame = _frame(spark, _ROWS)
    with table.new_batch_write_builder().with_commit_user("me").new_write() as write:
        result = write.write_spark(frame, concurrency=2, spark_options={"spark.sql.shuffle.partitions": "2"})
    assert (result.rows, result.tasks) == (120, 2)
    assert table.store.snapshots.get(1).commit_user == "me"
    assert spark.conf.get("spark.sql.shuffle.partitions") == before
    table.new_batch_write_builder().new_write().write_spark(frame.where("day = '2026-01-01'"), overwrite=True)
    assert len(rows_of(table)) == 120
    static = table.copy({"dynamic-partition-overwrite": "false"}).new_batch_write_builder().overwrite()
    static.new_write().write_spark(frame.limit(1))
    assert len(rows_of(table)) == 1
    part = table.new_batch_write_builder().new_write().with_write_type(["id", "day"])
    part.write_spark(frame.select("id", "day"))
    assert len(rows_of(table)) == 121
    with pytest.raises(UnsupportedError, match="foreach_batch"):
        table.new_stream_write_builder().new_write().write_spark(frame)


def test_a_batch_of_a_stream_commits_once(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, partitions=["day"])
    frame = _frame(spark, _ROWS)
    first = write_micro_batch(frame, table, 0, commit_user="stream")
    assert (first.rows, first.replayed) == (120, False)
    assert write_micro_batch(frame, table, 0, commit_user="stream").replayed
    assert write_micro_batch(_frame(spark, _MORE), table, 1, commit_user="stream").rows == 50
    assert write_micro_batch(frame, table, 0, commit_user="stream").replayed
    assert len(rows_of(table)) == 170
    complete = write_micro_batch(_frame(spark, _MORE[:1]), table, 2, commit_user="stream", mode="overwrite")
    assert complete.rows == 1
    assert rows_of(table) == _MORE[:1]
    write_micro_batch(spark.createDataFrame([], _SQL), table, 3, commit_user="stream", mode="overwrite")
    assert rows_of(table) == []
    assert write_micro_batch(frame, table, 3, commit_user="stream").replayed
    newest = table.store.snapshots.latest()
    assert newest is not None
    assert (newest.commit_user, newest.commit_identifier) == ("stream", 3)


def test_a_compaction_that_fails_is_a_warning(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no disk")

    table = new_table(tmp_path, keys=["id"], options={"bucket": "1", "deletion-vectors.enabled": "true"})
    monkeypatch.setattr(distributed_compaction, "run_tasks", fail)
    with pytest.warns(LakewrightWarning, match="STAY HIDDEN"):
        result = write_table(_frame(spark, _ROWS), table, job_id="one")
    assert result.snapshot_id == 1
    assert_tidy(table)
    monkeypatch.undo()
    assert write_table(_frame(spark, _ROWS), table, job_id="one").replayed  # and the compaction is made up for
    assert len(rows_of(table)) == 40

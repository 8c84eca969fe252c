"""The verbs of the package take Spark frames, and have Spark's workers do the work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakewright as lw
import lakewright.spark as lws
from lakewright.errors import InvalidInputError
from support.spark_writes import assert_tidy, new_table, rows_of

_ROWS = "select id, concat('day ', id % 2) as day, id * 10 as n, 'x' as text from range({}, {}, 1, 3)"


def test_one_call_writes_frames_with_the_workers(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=["id", "day"], partitions=["day"], options={"bucket": "1"})
    seen: list[lw.Progress] = []
    first = lw.write_table(spark.sql(_ROWS.format(0, 6)), table, progress=seen.append, concurrency=2, job_id="one")
    assert isinstance(first, lws.WriteResult)
    assert (first.snapshot_id, first.rows, first.tasks) == (1, 6, 1)
    assert seen[-1].rows == 6
    again = lw.write_table(spark.sql(_ROWS.format(0, 6)), table, job_id="one")
    assert (again.replayed, again.snapshot_id, again.rows) == (True, 1, 6)
    lw.write_table(spark.sql(_ROWS.format(4, 8)), table.table_path, "upsert")
    lw.write_table(spark.sql("select 0L as id, 'day 0' as day"), table, mode="delete")
    nothing = spark.createDataFrame([], "id long, day string")
    lw.write_table(nothing, table, mode="overwrite", partitions={"day": "day 1"})
    lw.write_table(spark.sql(_ROWS.format(8, 9) + " ").selectExpr("*", "1 as m"), table, schema_mode="merge")
    assert [row[0] for row in rows_of(lw.open_table(table.table_path))] == [2, 4, 6, 8]
    assert_tidy(table)


def test_an_embedded_run_and_one_on_spark_are_the_same_job(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path)
    lw.write_table(pa.table({"id": [1]}), table, job_id="one")
    assert lw.write_table(spark.range(5), table, job_id="one").replayed
    lw.write_table(spark.range(5), table, job_id="two")
    assert lw.write_table(pa.table({"id": [1]}), table, job_id="two").replayed
    assert lw.read_table(table).num_rows == 6


def test_builders_refuse_frames_with_the_remedy(spark: SparkSession, tmp_path: Path) -> None:
    table, df = new_table(tmp_path, keys=["id"], options={"bucket": "1"}), spark.range(3)
    update: Any = table.new_batch_write_builder().new_update()
    with table.new_batch_write_builder().new_write() as write:
        calls: list[Any] = [write.write_arrow, write.write_arrow_batch, write.write_pandas, write.delete_arrow]
        calls += [
            lambda frame: lw.write_table([frame], table),
            lambda frame: update.upsert_by_arrow_with_key(frame, ["id"]),
        ]
        for call in calls:
            with pytest.raises(InvalidInputError, match=r"write_spark.*toArrow"):
                call(df)
    assert table.snapshot() is None

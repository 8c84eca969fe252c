"""Metadata columns on Spark are those of embedded reads."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakewright as lw
from lakewright.errors import UnsupportedError
from lakewright.spark import SQLContext, read_table
from lakewright.spark.frame_operations import to_arrow
from support.spark_writes import new_table, rows_of, sorted_rows

_ALL = ["__paimon_file_path", "__paimon_row_index", "__paimon_partition", "__paimon_bucket"]


def test_rows_say_where_they_are_stored(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, partitions=["day"])
    for start in (0, 10):
        rows = {"id": [start, start + 1], "day": ["a", "b"], "n": [1, 2], "text": ["x", "y"]}
        lw.write_table(pa.table(rows), table)
    wanted = sorted_rows(lw.read_table(table, columns=["id", *_ALL]))
    frame = read_table(spark, table, columns=["id", *_ALL])
    assert sorted_rows(to_arrow(frame)) == wanted
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path / "warehouse")})
    text = "SELECT id, __paimon_file_path, __paimon_row_index FROM d.t WHERE __paimon_partition.day = 'b'"
    found = SQLContext(spark, catalog).sql(text)
    assert sorted_rows(to_arrow(found)) == [row[:3] for row in wanted if row[3] == {"day": "b"}]
    assert len(rows_of(table)) == len(wanted)


def test_merged_rows_are_refused_before_a_job_starts(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=["id"], options={"bucket": "1"})
    for n in (1, 2):
        lw.write_table(pa.table({"id": [1], "day": ["a"], "n": [n], "text": ["x"]}), table)
    with pytest.raises(UnsupportedError, match="__paimon_row_index"):
        read_table(spark, table, columns=["id", "__paimon_row_index"])

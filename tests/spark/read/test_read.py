"""Frames of tables: the same rows as the embedded reader gives, whichever way they come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakewright as lw
from lakewright.errors import InvalidInputError
from lakewright.spark.frame_operations import to_arrow
from lakewright.spark.frame_read import read_table, to_spark
from lakewright.spark.spark_features import Feature
from support.branch_tables import fallback_table
from support.effort import some
from support.needs import needs
from support.read_cases import READS, read_catalog, sorted_rows


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> lw.Catalog:
    """Hold an append table and a keyed one, both with several snapshots and nested columns."""
    return read_catalog(tmp_path_factory.mktemp("warehouse"))


@pytest.mark.nightly  # the contract of engines has a read of every kind
@pytest.mark.parametrize("name", ["append", "keyed"])
@pytest.mark.parametrize("what", READS, ids=str)
def test_a_read_means_what_it_means_embedded(
    spark: SparkSession, catalog: lw.Catalog, name: str, what: dict[str, Any]
) -> None:
    table = catalog.get_table(f"d.{name}")
    want = lw.read_table(table, **what)
    frame = read_table(spark, table, **what)
    assert frame.columns == want.column_names
    assert sorted_rows(to_arrow(frame)) == sorted_rows(want)


def test_tags_times_and_paths(spark: SparkSession, catalog: lw.Catalog) -> None:
    table = catalog.get_table("d.append")
    second = table.snapshot(2)
    assert second is not None
    frames = [
        read_table(spark, table, tag="second"),
        read_table(spark, table.table_path, timestamp=second.time_millis),
        table.copy({"scan.snapshot-id": "2"}).new_read_builder().new_read().to_spark(),
    ]
    assert [frame.count() for frame in frames] == [4, 4, 4]


def test_limits_and_partitions(spark: SparkSession, catalog: lw.Catalog) -> None:
    for name in ("append", "keyed"):
        builder = catalog.get_table(f"d.{name}").new_read_builder()
        read = builder.new_read()
        splits = builder.new_scan().plan().splits()
        assert to_spark(builder.with_limit(3).new_read(), spark=spark).count() == 3
        assert _partitions(read.to_spark(override_num_partitions=3)) == 3
        assert sorted_rows(to_arrow(read.to_spark(splits[:1]))) == sorted_rows(read.to_arrow(splits[:1]))
        assert read.to_spark([]).count() == 0
        assert read_table(spark, catalog.get_table(f"d.{name}"), columns=[]).count() == read.to_arrow().num_rows
    with pytest.raises(InvalidInputError, match="at least 1 partition"):
        read.to_spark(override_num_partitions=0)


def _partitions(frame: DataFrame) -> int:
    return frame.rdd.getNumPartitions()


def test_shares_of_several_workers_are_whole(spark: SparkSession, catalog: lw.Catalog) -> None:
    builder = catalog.get_table("d.append").new_read_builder()
    shares = [builder.new_scan().with_shard(n, 2).plan().splits() for n in range(2)]
    read = builder.new_read()
    frames = [to_spark(read, share, spark=spark) for share in shares]
    assert sorted_rows(to_arrow(frames[0].union(frames[1]))) == sorted_rows(read.to_arrow())


@pytest.mark.parametrize("native", some(["local", "never"], 1))
@needs(Feature.PYTHON_SOURCE)
def test_partitions_of_a_fallback_branch(spark: SparkSession, tmp_path: Path, native: str) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    table = fallback_table(catalog).copy({"lakewright.native-scan": native})
    for what in ({}, {"filter": "k = 1"}, {"columns": ["r.a", "p"]}, {"filter": "p = 'z'", "columns": ["v"]}):
        want = sorted_rows(lw.read_table(table, **what))
        frame = read_table(spark, table, **what)
        assert sorted_rows(to_arrow(frame)) == want
    assert read_table(spark, table, limit=4).count() == 4
    assert _partitions(table.new_read_builder().new_read().to_spark(override_num_partitions=3)) == 3
    loaded = spark.read.format("lakewright").load(table.table_path)
    assert sorted(row["v"] for row in loaded.collect()) == ["newer", "other", "own", "own", "own"]


def test_row_tracking_columns(spark: SparkSession, tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"id": pa.int64()}), options=options))
    table = catalog.get_table("d.t")
    lw.write_table(pa.table({"id": [7, 8]}), table)
    got = to_arrow(read_table(spark, table, columns=["id", "_ROW_ID"]))
    assert sorted_rows(got) == sorted_rows(lw.read_table(table, columns=["id", "_ROW_ID"]))
    assert read_table(spark, table).count() == 2

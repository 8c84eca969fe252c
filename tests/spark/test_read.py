"""Frames of tables: the same rows as the embedded reader gives, whichever way they come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as sql

import lakewright as lw
from lakewright.errors import ColumnNotExistException, InvalidInputError
from lakewright.spark.read.frame import read_table, to_spark


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> lw.FileSystemCatalog:
    """Hold an append table of three snapshots and a keyed one of two, both with deleted columns and nested ones."""
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path_factory.mktemp("warehouse"))})
    made.create_database("d")
    columns = pa.schema({"id": pa.int64(), "p": pa.string(), "r": pa.struct({"a": pa.int32(), "b": pa.string()})})
    made.create_table("d.append", lw.Schema.from_pyarrow_schema(columns, partition_keys=["p"]))
    for n in range(3):
        rows = {"id": [n, n + 10], "p": ["x", str(n)], "r": [{"a": n, "b": "b"}, None]}
        lw.write_table(pa.table(rows, columns), made.get_table("d.append"))
    made.get_table("d.append").create_tag("second", 2)
    keyed = lw.Schema.from_pyarrow_schema(columns, primary_keys=["id"], options={"bucket": "2"})
    made.create_table("d.keyed", keyed)
    for ids in (range(8), range(4, 12)):
        rows = {"id": list(ids), "p": [f"{ids[0]}"] * 8, "r": [{"a": n, "b": None} for n in ids]}
        lw.write_table(pa.table(rows, columns), made.get_table("d.keyed"))
    lw.write_table(pa.table({"id": [5]}), made.get_table("d.keyed"), mode="delete")
    return made


def _rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


READS: list[dict[str, Any]] = [
    {},
    {"filter": "id > 2 AND p <> 'x'"},
    {"filter": "r.a >= 1 OR r IS NULL", "columns": ["p", "r.b", "id"]},
    {"columns": {"key": "id", "inner": "r.a"}},
    {"columns": ["r"]},
    {"snapshot_id": 2},
    {"incremental": (1, 3)},
    {"incremental": (1, 3), "incremental_mode": "delta", "row_kinds": True},
    {"incremental": (1, 3), "incremental_mode": "diff", "row_kinds": True},
    {"row_kinds": True, "columns": ["id"]},
]


@pytest.mark.parametrize("name", ["append", "keyed"])
@pytest.mark.parametrize("what", READS, ids=str)
def test_a_read_means_what_it_means_embedded(
    spark: SparkSession, catalog: lw.FileSystemCatalog, name: str, what: dict[str, Any]
) -> None:
    table = catalog.get_table(f"d.{name}")
    want = lw.read_table(table, **what)
    frame = read_table(spark, table, **what)
    assert frame.columns == want.column_names
    assert _rows(frame.toArrow()) == _rows(want)


def test_tags_times_and_paths(spark: SparkSession, catalog: lw.FileSystemCatalog) -> None:
    table = catalog.get_table("d.append")
    second = table.snapshot(2)
    assert second is not None
    frames = [
        read_table(spark, table, tag="second"),
        read_table(spark, table.table_path, timestamp=second.time_millis),
        table.copy({"scan.snapshot-id": "2"}).new_read_builder().new_read().to_spark(),
    ]
    assert [frame.count() for frame in frames] == [4, 4, 4]


def test_a_frame_stays_with_its_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"id": pa.int64()})))
    table = catalog.get_table("d.t")
    empty = read_table(spark, table)
    assert (empty.schema, empty.count()) == (sql.StructType([sql.StructField("id", sql.LongType())]), 0)
    lw.write_table(pa.table({"id": [1, 2]}), table)
    frame = read_table(spark, table)
    lw.write_table(pa.table({"id": [3]}), table)
    assert (empty.count(), frame.count(), read_table(spark, table).count()) == (0, 2, 3)


def test_limits_and_partitions(spark: SparkSession, catalog: lw.FileSystemCatalog) -> None:
    for name in ("append", "keyed"):
        builder = catalog.get_table(f"d.{name}").new_read_builder()
        read = builder.new_read()
        splits = builder.new_scan().plan().splits()
        assert to_spark(builder.with_limit(3).new_read(), spark=spark).count() == 3
        assert _partitions(read.to_spark(override_num_partitions=3)) == 3
        assert _rows(read.to_spark(splits[:1]).toArrow()) == _rows(read.to_arrow(splits[:1]))
        assert read.to_spark([]).count() == 0
        assert read_table(spark, catalog.get_table(f"d.{name}"), columns=[]).count() == read.to_arrow().num_rows
    with pytest.raises(InvalidInputError, match="at least 1 partition"):
        read.to_spark(override_num_partitions=0)


def _partitions(frame: DataFrame) -> int:
    return frame.rdd.getNumPartitions()


def test_shares_of_several_workers_are_whole(spark: SparkSession, catalog: lw.FileSystemCatalog) -> None:
    builder = catalog.get_table("d.append").new_read_builder()
    shares = [builder.new_scan().with_shard(n, 2).plan().splits() for n in range(2)]
    read = builder.new_read()
    frames = [to_spark(read, share, spark=spark) for share in shares]
    assert _rows(frames[0].union(frames[1]).toArrow()) == _rows(read.to_arrow())


def test_system_tables(spark: SparkSession, catalog: lw.FileSystemCatalog) -> None:
    snapshots = catalog.get_table("d.append$snapshots")
    frame = read_table(spark, snapshots, filter="snapshot_id > 1", columns=["snapshot_id", "commit_time"], limit=1)
    assert [row["snapshot_id"] for row in frame.collect()] == [2]
    assert read_table(spark, snapshots, filter="snapshot_id > 9").count() == 0
    log = read_table(spark, catalog.get_table("d.keyed$audit_log"), incremental=(2, 3), columns=["id"])
    assert [tuple(row) for row in log.collect()] == [("-D", 5)]
    with pytest.raises(InvalidInputError, match="only filter, columns and limit"):
        read_table(spark, snapshots, tag="second")


def test_row_tracking_columns(spark: SparkSession, tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"id": pa.int64()}), options=options))
    table = catalog.get_table("d.t")
    lw.write_table(pa.table({"id": [7, 8]}), table)
    got = read_table(spark, table, columns=["id", "_ROW_ID"]).toArrow()
    assert _rows(got) == _rows(lw.read_table(table, columns=["id", "_ROW_ID"]))
    assert read_table(spark, table).count() == 2


def test_mistakes_are_told_before_anything_runs(spark: SparkSession, catalog: lw.FileSystemCatalog) -> None:
    table = catalog.get_table("d.append")
    with pytest.raises(ColumnNotExistException):
        read_table(spark, table, columns=["nope"])
    with pytest.raises(InvalidInputError, match="give one of"):
        read_table(spark, table, tag="second", snapshot_id=1)

"""System tables, views of rows and ANALYZE on Spark: the same rows as in this process, by calls, SQL and streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakewright as lw
import lakewright.spark as lws
from lakewright.spark.spark_features import Feature, has
from support.effort import some

ROWS = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])
SECONDS_MAX = 120
VIEWS = ["log$ro", "log$audit_log", "log$binlog", "rows$row_tracking", "log$snapshots", "log$files", "rows$statistics"]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> lw.Catalog:
    """Return a table with a changelog of three snapshots and a compaction, and one that tracks its rows."""
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path_factory.mktemp("warehouse"))})
    made.create_database("d")
    options = {"bucket": "1", "changelog-producer": "input"}
    made.create_table("d.log", lw.Schema.from_pyarrow_schema(ROWS, primary_keys=["k"], options=options))
    log = made.get_table("d.log")
    for kinds, keys, values in (
        (["+I", "+I"], [1, 3], ["a", None]),
        (["-U", "+U", "+I"], [1, 1, 2], ["a", "b", "x"]),
        (["-D"], [2], ["x"]),
    ):
        lw.write_table(pa.table({"_row_kind": kinds, "k": pa.array(keys), "v": values}), log)
    log.compact(full=True)
    lw.write_table(pa.table({"_row_kind": ["+I"], "k": pa.array([9]), "v": ["late"]}), log)
    made.create_table("d.rows", lw.Schema.from_pyarrow_schema(ROWS, options={"row-tracking.enabled": "true"}))
    for number in range(3):
        lw.write_table(pa.table({"k": [number], "v": [None]}, schema=ROWS), made.get_table("d.rows"))
    made.get_table("d.rows").analyze("all")
    return made


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=str)


def _sorted(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=str)


@pytest.mark.parametrize("name", some(VIEWS, 2, 3, 5))
def test_a_view_has_the_same_rows_on_spark(spark: SparkSession, catalog: lw.Catalog, name: str) -> None:
    view = catalog.get_table(f"d.{name}")
    here = _sorted(lw.read_table(view))
    assert here
    assert _rows(lws.read_table(spark, view)) == here
    context = lws.SQLContext(spark, catalog, database="d")
    shown = context.sql(f"SELECT * FROM `{name}`")  # noqa: S608 - names of this module
    assert _rows(shown) == here
    assert shown.count() == len(here)
    if has(Feature.PYTHON_SOURCE):
        options = {"warehouse": catalog.warehouse, "table": f"d.`{name}`"}
        assert _rows(spark.read.format("lakewright").options(**options).load()) == here


@pytest.mark.parametrize("name", some(["audit_log", "binlog"], 0))
def test_changes_in_logs_are_the_same_on_spark(spark: SparkSession, catalog: lw.Catalog, name: str) -> None:
    view = catalog.get_table(f"d.log${name}")
    for mode in ("changelog", "diff"):
        here = lw.read_table(view, incremental=(1, 5), incremental_mode=mode, columns=["v", "rowkind"])
        there = lws.read_table(spark, view, incremental=(1, 5), incremental_mode=mode, columns=["v", "rowkind"])
        assert _rows(there) == _sorted(here)


def test_the_catalog_s_own_tables_by_sql(spark: SparkSession, catalog: lw.Catalog) -> None:
    context = lws.SQLContext(spark, catalog, database="d")
    query = "SELECT table_name, primary_key, record_count FROM sys.tables ORDER BY table_name"
    assert [tuple(row) for row in context.sql(query).collect()] == [("log", True, 3), ("rows", False, 3)]
    shown = lws.read_table(spark, catalog.get_table("sys.all_table_options"), filter="key = 'bucket'")
    assert [row["value"] for row in shown.collect()] == ["1"]
    with pytest.raises(lw.UnsupportedError, match="is a system table, which can only be read"):
        context.sql("DELETE FROM sys.tables WHERE table_name = 'log'")


@pytest.mark.parametrize(
    ("name", "changes"),
    some(
        [
            ("audit_log", [("-U", 1, "a"), ("+U", 1, "b"), ("+I", 2, "x"), ("-D", 2, "x"), ("+I", 9, "late")]),
            ("binlog", [("+U", [1, 1], ["a", "b"]), ("+I", [2], ["x"]), ("-D", [2], ["x"]), ("+I", [9], ["late"])]),
        ],
        1,
    ),
)
@pytest.mark.parametrize("bound", some([True, False], 0))
def test_logs_are_followed_on_spark(
    spark: SparkSession,
    catalog: lw.Catalog,
    tmp_path: Path,
    name: str,
    changes: list[tuple[object, ...]],
    bound: bool,
) -> None:
    if not has(Feature.PYTHON_SOURCE):
        pytest.skip("this release has no sources written in Python")
    if bound:
        stream = lws.read_stream(spark, catalog.get_table(f"d.log${name}"), from_snapshot=2)
    else:
        options = {"warehouse": catalog.warehouse, "table": f"d.`log${name}`", "scan.snapshot-id": "2"}
        stream = spark.readStream.format("lakewright").options(**{**options, "scan.mode": "from-snapshot"}).load()
    found: list[tuple[object, ...]] = []

    def keep(batch: DataFrame, _: int) -> None:
        found.extend(tuple(row) for row in batch.collect())

    writer = stream.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "c"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(SECONDS_MAX), "the query does not end"
    assert found == changes


def test_analyze_by_sql_counts_on_spark_what_it_counts_here(spark: SparkSession, catalog: lw.Catalog) -> None:
    table = catalog.get_table("d.log")
    here = table.analyze("all")
    lws.SQLContext(spark, catalog, database="d").sql("ANALYZE TABLE log COMPUTE STATISTICS FOR ALL COLUMNS")
    there = table.statistics()
    assert there is not None
    assert there.snapshot_id == here.snapshot_id  # counted was the snapshot that the first count had made
    assert (there.row_count, there.columns) == (here.rows, here.columns)

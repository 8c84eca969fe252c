"""Tables of REST servers and SQL catalogs on Spark: calls that take a table, options of `format`, views, streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakewright as lw
import lakewright.spark as lws
from lakewright.spark.spark_features import Feature
from support.needs import needs
from support.rest_server import RestServer, running_rest

pytestmark = needs(Feature.PYTHON_SOURCE)

pytestmark = pytest.mark.spark


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    with running_rest(str(tmp_path / "server")) as running:
        yield running


@pytest.fixture
def table(server: RestServer) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create(server.options)
    catalog.create_database("d")
    columns = pa.schema({"id": pa.int64(), "n": pa.int64()})
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, primary_keys=["id"], options={"bucket": "1"}))
    return catalog.get_table("d.t")


def test_frames_views_and_options(spark: SparkSession, server: RestServer, table: lw.FileStoreTable) -> None:
    lws.write_table(spark.range(4).selectExpr("id", "id * 10 AS n"), table, "upsert")
    assert lws.read_table(spark, table).count() == 4
    options = {**server.options, "table": "d.t"}
    spark.createDataFrame([(9, 90)], "id long, n long").coalesce(1).write.format("lakewright").options(**options).mode(
        "append"
    ).save()
    read = spark.read.format("lakewright").options(**options).load()
    assert sorted(row.id for row in read.collect()) == [0, 1, 2, 3, 9]
    lws.attach(spark, server.options, "d", prefix="w_", writable=True)
    spark.sql("INSERT INTO w_t SELECT /*+ COALESCE(1) */ 7L, 70L")
    lws.attach(spark, server.options, "d", prefix="r_")
    assert spark.sql("SELECT sum(n) FROM r_t").head() == (220,)
    newest = table.snapshot()
    assert newest is not None
    assert newest.id == 3
    commits = [entry for entry in server.log if entry.request.endswith("/commit")]
    assert len(commits) == 3


def test_tables_of_a_sql_catalog(spark: SparkSession, tmp_path: Path) -> None:
    uri = f"jdbc:sqlite:{tmp_path / 'names.db'}"
    options = {"metastore": "jdbc", "uri": uri, "warehouse": str(tmp_path / "w"), "lock.enabled": "true"}
    with lw.CatalogFactory.create(options) as catalog:
        catalog.create_database("d")
        catalog.create_table("d.t", pa.schema({"id": pa.int64(), "n": pa.int64()}))
        table = catalog.get_table("d.t")
    lws.write_table(spark.range(4).selectExpr("id", "id * 10 AS n"), table)
    named = {**options, "table": "d.t"}
    spark.range(9, 10).selectExpr("id", "id * 10 AS n").write.format("lakewright").options(**named).mode(
        "append"
    ).save()
    assert lws.delete(spark, table, "id = 1").deleted == 1
    read = spark.read.format("lakewright").options(**named).load()
    assert sorted(row.n for row in read.collect()) == [0, 20, 30, 90]
    # What the table has now flows into it once more.
    rows = lws.read_stream(spark, table).select("id", "n").writeStream.format("lakewright").options(**named)
    copied = rows.option("checkpointLocation", str(tmp_path / "c")).outputMode("append").trigger(availableNow=True)
    copied.start().awaitTermination()
    assert lws.read_table(spark, table).count() == 8
    lws.ingest(spark, "d.t", "d.copy", create=True, catalog=options)  # a source may be a table of the catalog
    assert lws.read_table(spark, lw.CatalogFactory.create(options).get_table("d.copy")).count() == 8
    newest = table.snapshot()
    assert newest is not None
    assert newest.id == 4

"""Tables of a REST server on Spark: calls that take a table, options of `format("lakewright")`, views and streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakewright as lw
import lakewright.spark as lws
from support.rest_server import RestServer, running_rest

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


def test_frames_views_options_and_streams(
    spark: SparkSession, server: RestServer, table: lw.FileStoreTable, tmp_path: Path
) -> None:
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
    stream = lws.read_stream(spark, table)
    query = stream.writeStream.format("memory").queryName("seen").trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination()
    assert spark.sql("SELECT count(*) FROM seen").head() == (6,)
    newest = table.snapshot()
    assert newest is not None
    assert newest.id == 3
    commits = [entry for entry in server.log if entry.request.endswith("/commit")]
    assert len(commits) == 3

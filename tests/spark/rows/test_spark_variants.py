"""VARIANT columns of frames: read, written and changed with Spark's own functions."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakewright as lw
from lakewright import variant
from lakewright.spark import SQLContext
from lakewright.spark.spark_features import Feature
from support.needs import needs

pytestmark = needs(Feature.VARIANT)

TEXTS = ['{"a":1,"b":{"c":[10,"x"]},"d":1.5}', "[1,2]", None, "null"]


@pytest.fixture
def table(tmp_path: Path) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    column = variant.from_json(TEXTS)
    rows = pa.table(
        {
            "id": pa.array(range(4), pa.int32()),
            "v": column,
            "r": pa.StructArray.from_arrays([column], fields=[pa.field("w", column.type)]),
        }
    )
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(rows.schema))
    lw.write_table(rows, catalog.get_table("d.t"))
    return catalog.get_table("d.t")


def texts(table: lw.FileStoreTable) -> list[str | None]:
    return list(variant.to_json(lw.read_table(table).sort_by("id")["v"]).to_pylist())


def test_frames_hold_variants_both_ways(spark: SparkSession, table: lw.FileStoreTable) -> None:
    frame = lw.spark.read_table(spark, table)
    found = frame.selectExpr("id", "to_json(v) j", "variant_get(r.w, '$.b.c[0]', 'int') c").orderBy("id").collect()
    assert [row.j for row in found] == TEXTS
    assert [row.c for row in found] == [10, None, None, None]
    assert frame.where("id = 0").collect()[0].v.toPython() == {"a": 1, "b": {"c": [10, "x"]}, "d": json.loads("1.5")}
    lw.write_table(frame.selectExpr("id + 10 AS id", "v", "r"), table)
    lw.write_table(spark.sql("SELECT 20 AS id, parse_json('{\"k\":[true]}') AS v, NULL AS r"), table)
    assert texts(table) == [*TEXTS, *TEXTS, '{"k":[true]}']


def test_statements_on_spark_take_and_find_variants(spark: SparkSession, tmp_path: Path) -> None:
    ctx = SQLContext(spark, {"warehouse": str(tmp_path)})
    ctx.sql("CREATE DATABASE d")
    ctx.sql("CREATE TABLE d.t (id INT, v VARIANT)")
    ctx.sql("INSERT INTO d.t VALUES (1, parse_json('{\"a\":5}')), (2, parse_json('[1]'))")
    ctx.sql("UPDATE d.t SET v = parse_json('{\"a\":6}') WHERE variant_get(v, '$.a', 'int') = 5")
    ctx.sql("DELETE FROM d.t WHERE try_variant_get(v, '$.a', 'int') IS NULL")
    found = ctx.sql("SELECT id, variant_get(v, '$.a', 'int') AS a, CAST(v AS STRING) AS s FROM d.t").collect()
    assert [tuple(row) for row in found] == [(1, 6, '{"a":6}')]

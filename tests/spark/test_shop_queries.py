"""Queries of the shape of TPC-H give the same rows on our tables as Spark gives on parquet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import lakewright as lw
import lakewright.spark as lws
from support.effort import some
from support.shop_queries import QUERIES
from support.shop_tables import KEYS, shop_tables

SCALE = 0.002
KEYED = ("customer", "supply", "orders", "item")  # with a primary key; the others are append tables


@dataclass(frozen=True)
class Shop:
    """The tables of ours, and views over parquet with the same rows."""

    spark: SparkSession
    catalog: lw.Catalog
    expected: dict[str, list[tuple[object, ...]]]

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """Return what Spark answers on parquet, once per query."""
        if query not in self.expected:
            frame = self.spark.sql(QUERIES[query].replace("shop.", "parquet_"))
            self.expected[query] = [tuple(row) for row in frame.collect()]
        return self.expected[query]


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    folder: Path = tmp_path_factory.mktemp("shop")
    catalog = lw.CatalogFactory.create({"warehouse": str(folder / "warehouse")})
    catalog.create_database("shop", ignore_if_exists=False)
    for name, table in shop_tables(SCALE).items():
        pq.write_table(table, folder / f"{name}.parquet")
        spark.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(f"parquet_{name}")
        keys = KEYS[name] if name in KEYED else []
        schema = lw.Schema.from_pyarrow_schema(
            table.schema, primary_keys=keys, options={"bucket": "2"} if keys else {"row-tracking.enabled": "true"}
        )
        catalog.create_table(f"shop.{name}", schema, ignore_if_exists=False)
        made = catalog.get_table(f"shop.{name}")
        half = table.num_rows // 2
        lw.write_table(table.slice(0, half), made)
        lw.write_table(table.slice(half), made)
    return Shop(spark, catalog, {})


@pytest.mark.parametrize("query", some(list(QUERIES), 8, 12, 20))
def test_spark_answers_as_it_does_on_parquet(query: str, shop: Shop) -> None:
    found = lws.SQLContext(shop.spark, shop.catalog).sql(QUERIES[query])
    assert [tuple(row) for row in found.collect()] == shop.rows(query)
    assert shop.rows(query), "the query finds something"


@pytest.mark.parametrize("query", some(list(QUERIES), 8, 12, 20))
def test_duckdb_answers_as_spark_does(query: str, shop: Shop) -> None:
    found = lw.SQLContext(shop.catalog).sql(QUERIES[query])
    assert [tuple(row.values()) for row in found.to_pylist()] == shop.rows(query)

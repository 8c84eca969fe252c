"""Frames of tables: the same rows as the embedded reader gives, whichever way they come."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakewright as lw
from lakewright.spark.read import read_table, to_spark


@pytest.fixture
def catalog(tmp_path: Path) -> lw.FileSystemCatalog:
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    made.create_database("d")
    return made


def _table(
    catalog: lw.FileSystemCatalog, name: str, rows: pa.Table, *, keys: list[str] | None = None, **options: str
) -> lw.FileStoreTable:
    partitions = options.pop("partition", "").split()
    schema = lw.Schema.from_pyarrow_schema(
        rows.schema,
        partition_keys=partitions,
        primary_keys=keys or [],
        options={key.replace("_", "-"): value for key, value in options.items()},
    )
    catalog.create_table(f"d.{name}", schema)
    table = catalog.get_table(f"d.{name}")
    lw.write_table(rows, table)
    return table


def _rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def test_an_append_table_reads_as_embedded(spark: SparkSession, catalog: lw.FileSystemCatalog) -> None:
    rows = pa.table({"id": [1, 2, 3], "day": ["a b", "x/y", "x/y"], "n": [1.5, None, 2.5]})
    table = _table(catalog, "t", rows, partition="day")
    frame = read_table(spark, table)
    assert frame.columns == ["id", "day", "n"]
    assert _rows(frame.toArrow()) == _rows(rows)


def test_rows_of_a_key_are_merged(spark: SparkSession, catalog: lw.FileSystemCatalog) -> None:
    table = _table(catalog, "t", pa.table({"id": [1, 2], "n": [1, 2]}), keys=["id"], bucket="1")
    lw.write_table(pa.table({"id": [2, 3], "n": [20, 30]}), table)
    read = table.new_read_builder().with_filter("n > 1").new_read()
    assert _rows(to_spark(read, spark=spark).toArrow()) == _rows(read.to_arrow())
    assert _rows(read.to_spark().toArrow()) == _rows(read.to_arrow())

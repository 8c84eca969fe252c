"""Verification on Spark's workers: the same findings as in one process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import lakewright as lw
from lakewright.spark import verify


def test_workers_find_what_one_process_finds(spark: SparkSession, tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    columns = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, primary_keys=["k"], options={"bucket": "3"}))
    table = catalog.get_table("d.t")
    for first in (0, 5):
        lw.write_table(pa.table({"k": range(first, first + 20), "v": ["x"] * 20}, columns), table, mode="upsert")
    sound = verify(spark, table, full=True, snapshots="all")
    assert sound.is_sound
    assert replace(sound, seconds=0.0) == replace(table.verify(full=True, snapshots="all"), seconds=0.0)
    path = next(Path(table.table_path).glob("bucket-*/data-*"))
    data = bytearray(path.read_bytes())
    data[-20] ^= 4  # in the footer
    path.write_bytes(data)
    found = verify(spark, table, full=True)
    assert not found.is_sound
    assert found.findings == table.verify(full=True).findings

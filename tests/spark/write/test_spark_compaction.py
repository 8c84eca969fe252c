"""Compaction of append tables by Spark's workers: the same tasks, the same rows, one commit."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakewright as lw
from contract.fault_enumerator import stray_files
from lakewright.compact.compaction_job import compact_table
from lakewright.spark.spark_engine import compacting_on
from support.effort import some

COLUMNS = pa.schema({"k": pa.int64(), "p": pa.int32()})
VECTORS = {"deletion-vectors.enabled": "true"}
EVOLUTION = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}


@pytest.mark.parametrize("options", some([VECTORS, {**EVOLUTION, **VECTORS}], 1), ids=str)
def test_workers_compact_append_tables(spark: SparkSession, tmp_path: Path, options: dict[str, str]) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    evolves = "row-tracking.enabled" in options
    partitions = [] if evolves else ["p"]  # whose rows have ids that follow each other
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, partitions, options=options))
    table = catalog.get_table("d.t")
    for number in range(2):
        keys = list(range(number * 10, number * 10 + 10))
        lw.write_table(pa.table({"k": keys, "p": [k % 2 for k in keys]}, COLUMNS), table)
    table.delete("k in (3, 4, 15)")
    names = ["k", "p", *(["_ROW_ID"] if evolves else [])]
    before = lw.read_table(table, columns=names).sort_by("k")
    result = compact_table(table.store, full=True, run=compacting_on(spark))
    assert (result.buckets, result.files_before, result.files_after) == ((1, 2, 1) if evolves else (2, 4, 2))
    assert lw.read_table(table, columns=names).sort_by("k").equals(before)
    table.delete("k = 5")
    assert lw.read_table(table).num_rows == 16
    assert stray_files(table.store) == set()

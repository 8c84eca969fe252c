"""One large file, or one merge, is read by several tasks: the rows are those of one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakewright as lw
import lakewright.spark as lws
from lakewright.formats import parquet_writer
from lakewright.read import split_sharing

KEYED = {"bucket": "1", "write-only": "true", "merge-engine": "partial-update"}
VECTORS = {"deletion-vectors.enabled": "true", "lakewright.native-scan": "never"}


@pytest.mark.parametrize(("keys", "options"), [(["k"], KEYED), ([], VECTORS)], ids=["merge", "deletion vectors"])
def test_several_tasks_read_one_file(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: list[str], options: dict[str, str]
) -> None:
    monkeypatch.setattr(parquet_writer, "_GROUP_ROWS_MAX", 16)
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    schema = pa.schema([pa.field("k", pa.int64(), nullable=not keys), ("v", pa.string())])
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(schema, primary_keys=keys, options=options))
    table = catalog.get_table("d.t")
    lw.write_table(pa.table({"k": range(300), "v": [str(n) for n in range(300)]}, schema), table)
    if keys:
        lw.write_table(pa.table({"k": range(0, 400, 3), "v": ["new"] * 134}, schema), table)
    else:
        table.delete("v LIKE '%7'")
    rows = lw.read_table(table).sort_by("k").to_pylist()
    assert lws.read_table(spark, table).rdd.getNumPartitions() == 1
    monkeypatch.setattr(split_sharing, "PIECE_BYTES_MIN", 64)

    frame = lws.read_table(spark, table)

    assert frame.rdd.getNumPartitions() > 1
    assert [row.asDict() for row in frame.sort("k").collect()] == rows

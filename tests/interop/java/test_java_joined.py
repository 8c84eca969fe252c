"""Java reads files whose row groups threads encoded apart and joined, also where it looks rows up by statistics."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakewright as lw
from support.java import Java

ROWS, WIDTH = 40_000, 2_000  # about 80 MB in memory, which is several pieces


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    started = Java()
    yield started
    started.close()


@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_java_reads_joined_files(java: Java, catalog: lw.Catalog, file_format: str) -> None:
    columns = pa.schema({"k": pa.int64(), "name": pa.string(), "s": pa.string()})
    options = {"file.format": file_format, "lakewright.write-threads": "2"}
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, options=options))
    table = catalog.get_table("d.t")
    text = random.Random(7).randbytes(ROWS * WIDTH // 8).hex()
    texts = [text[at * WIDTH // 4 : (at + 4) * WIDTH // 4] for at in range(ROWS - 4)]
    names = [f"row {at:05}" for at in range(len(texts))]
    lw.write_table(pa.table({"k": range(len(texts)), "name": names, "s": texts}, schema=columns), table)
    (path,) = Path(table.table_path).rglob(f"data-*.{file_format}")
    if file_format == "parquet":
        assert pq.read_metadata(path).num_row_groups > 2
    warehouse = Path(catalog.warehouse)
    assert [row[:2] for row in java.read(warehouse, "d.t")] == [[at, name] for at, name in enumerate(names)]
    for at in (0, len(names) // 2, len(names) - 1):
        assert java.find(warehouse, "d.t", "name", names[at]) == [[at, names[at], texts[at]]]

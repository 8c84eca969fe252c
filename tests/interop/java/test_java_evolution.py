"""Java reads rows that we changed by their ids: column files of data evolution, and rows that carry their ids along."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from support.java import Java

COLUMNS = pa.schema({"k": pa.int64(), "v": pa.int64(), "s": pa.string()})
TRACKED = {"row-tracking.enabled": "true"}
EVOLVING = {**TRACKED, "data-evolution.enabled": "true"}
ALL = [*COLUMNS.names, "_ROW_ID", "_SEQUENCE_NUMBER"]


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    started = Java()
    yield started
    started.close()


def _rows(low: int, high: int) -> pa.Table:
    return pa.table({"k": range(low, high), "v": range(low, high), "s": [f"s{n}" for n in range(low, high)]})


@pytest.mark.parametrize("keys", [None, ["s"]], ids=["whole", "partitioned"])
@pytest.mark.parametrize(
    "options", [EVOLVING, TRACKED, {**TRACKED, "deletion-vectors.enabled": "true"}], ids=["columns", "copy", "vectors"]
)
def test_java_reads_rows_changed_by_their_ids(
    java: Java, catalog: lw.FileSystemCatalog, options: dict[str, str], keys: list[str] | None
) -> None:
    for name in ("d.t", "d.source"):
        catalog.create_table(name, lw.Schema.from_pyarrow_schema(COLUMNS, partition_keys=keys, options=options))
    table = catalog.get_table("d.t")
    for low in (0, 10):
        lw.write_table(_rows(low, low + 10).set_column(2, "s", pa.array(["a", "b"] * 5)), table)
    lw.write_table(_rows(100, 103).set_column(2, "s", pa.array(["a", "b", "c"])), catalog.get_table("d.source"))
    warehouse = Path(catalog.warehouse)

    def agreed() -> list[list[object]]:
        ours = sorted(list(row.values()) for row in lw.read_table(table, columns=ALL).to_pylist())
        assert sorted(java.read(warehouse, "d.t$row_tracking")) == ours
        assert sorted(java.read(warehouse, "d.t")) == sorted(row[:3] for row in ours)
        return ours

    table.update_by_row_id(pa.table({"_ROW_ID": [3, 14, 15], "v": [-3, -14, -15]}))
    agreed()
    table.update_by_row_id(pa.table({"_ROW_ID": [14, 0], "k": [1400, 1000], "v": pa.array([None, 0], pa.int64())}))
    agreed()
    java.copy(warehouse, "d.source", "d.t")
    table.delete_by_row_id([5, 6, 21])
    table.update({"v": 77}, "k < 3")
    assert len(agreed()) == 20

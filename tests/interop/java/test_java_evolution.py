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
    java: Java, catalog: lw.Catalog, options: dict[str, str], keys: list[str] | None
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


def test_java_reads_rows_lists_and_maps_as_the_same_text(java: Java, catalog: lw.Catalog) -> None:
    inner = pa.struct([("x", pa.int32()), ("y", pa.string()), ("d", pa.float64()), ("t", pa.timestamp("us"))])
    columns = pa.schema(
        [("k", pa.int64()), ("r", inner), ("a", pa.list_(inner)), ("m", pa.map_(pa.string(), pa.list_(pa.date32())))]
    )
    catalog.create_table("d.text", lw.Schema.from_pyarrow_schema(columns))
    row = {"x": 1, "y": "x", "d": 1e10, "t": 1_500_000}
    rows = [
        {"k": 1, "r": row, "a": [row, None], "m": [("k", [20000, None])]},
        {"k": 2, "r": None, "a": None, "m": None},
        {"k": 3, "r": {"x": None, "y": "", "d": None, "t": None}, "a": [], "m": [("a", None), ("b", [])]},
    ]
    lw.write_table(pa.Table.from_pylist(rows, schema=columns), catalog.get_table("d.text"))
    catalog.alter_table("d.text", [lw.SchemaChange.update_column_type(name, "STRING") for name in "ram"])
    ours = [list(row.values()) for row in lw.read_table(catalog.get_table("d.text")).to_pylist()]
    assert sorted(java.read(Path(catalog.warehouse), "d.text")) == ours
    assert ours[2][1:] == ["{null, , null, null}", "[]", "{a -> null, b -> []}"]

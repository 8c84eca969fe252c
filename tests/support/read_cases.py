"""Two tables with nested columns, deleted rows and several snapshots, and reads of them that every engine answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import lakewright as lw

COLUMNS = pa.schema({"id": pa.int64(), "p": pa.string(), "r": pa.struct({"a": pa.int32(), "b": pa.string()})})
READS: list[dict[str, Any]] = [
    {},
    {"filter": "id > 2 AND p <> 'x'"},
    {"filter": "r.a >= 1 OR r IS NULL", "columns": ["p", "r.b", "id"]},
    {"columns": {"key": "id", "inner": "r.a"}},
    {"columns": ["r"]},
    {"filter": "id > 1000"},
    {"snapshot_id": 2},
    {"incremental": (1, 3)},
    {"incremental": (1, 3), "incremental_mode": "delta", "row_kinds": True},
    {"incremental": (1, 3), "incremental_mode": "diff", "row_kinds": True},
    {"row_kinds": True, "columns": ["id"]},
]


def read_catalog(root: Path) -> lw.Catalog:
    """Make `d.append`, an append table of three snapshots with a tag, and `d.keyed`, a primary-key table of three."""
    made = lw.CatalogFactory.create({"warehouse": str(root)})
    made.create_database("d")
    made.create_table("d.append", lw.Schema.from_pyarrow_schema(COLUMNS, partition_keys=["p"]))
    for n in range(3):
        rows = {"id": [n, n + 10], "p": ["x", str(n)], "r": [{"a": n, "b": "b"}, None]}
        lw.write_table(pa.table(rows, COLUMNS), made.get_table("d.append"))
    made.get_table("d.append").create_tag("second", 2)
    made.create_table("d.keyed", lw.Schema.from_pyarrow_schema(COLUMNS, primary_keys=["id"], options={"bucket": "2"}))
    for ids in (range(8), range(4, 12)):
        rows = {"id": list(ids), "p": [f"{ids[0]}"] * 8, "r": [{"a": n, "b": None} for n in ids]}
        lw.write_table(pa.table(rows, COLUMNS), made.get_table("d.keyed"))
    lw.write_table(pa.table({"id": [5]}), made.get_table("d.keyed"), mode="delete")
    return made


def sorted_rows(table: pa.Table) -> list[str]:
    """Return rows as text, in an order that does not depend on how they were stored."""
    return sorted(map(repr, table.to_pylist()))

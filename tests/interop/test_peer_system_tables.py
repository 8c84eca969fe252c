"""System tables show what pypaimon shows of the same table."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakewright as lw
from support.peers import Peers

COLUMNS = pa.schema(
    [
        pa.field("day", pa.date32(), nullable=False),
        pa.field("k", pa.int64(), nullable=False),
        pa.field("s", pa.string(), nullable=False),
        pa.field("v", pa.float64()),
    ]
)
SAME = "partition bucket file_path file_format schema_id level record_count file_size_in_bytes null_value_counts"
SAME += " min_sequence_number max_sequence_number deleteRowCount first_row_id write_cols"


def _rows(peers: Peers, catalog: lw.FileSystemCatalog, name: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    ours = lw.read_table(catalog.get_table(name))
    theirs = peers.read("pypaimon", Path(catalog.warehouse), name)
    assert theirs is not None
    assert ours.schema.names == theirs.schema.names
    return ours.to_pylist(), theirs.to_pylist()


@pytest.mark.parametrize("keys", [["day", "k", "s"], []], ids=["keyed", "append"])
def test_system_tables_agree(catalog: lw.FileSystemCatalog, peers: Peers, keys: list[str]) -> None:
    options = {"bucket": "2", "bucket-key": "k"}
    schema = lw.Schema.from_pyarrow_schema(
        COLUMNS, partition_keys=["day"], primary_keys=keys, options=options, comment="sold"
    )
    catalog.create_table("d.t", schema)
    table = catalog.get_table("d.t")
    days = [date(2026, 1, 9), date(2026, 1, 10)] * 5
    rows = [{"day": day, "k": k, "s": f"s{k}", "v": None if k == 3 else 0.5} for k, day in enumerate(days)]
    lw.write_table(pa.Table.from_pylist(rows, schema=COLUMNS), table)
    catalog.alter_table("d.t", [lw.SchemaChange.add_column("n", "INT"), lw.SchemaChange.rename_column("v", "w")])
    for name in ("snapshots", "options", "consumers"):
        ours, theirs = _rows(peers, catalog, f"d.t${name}")
        assert ours == theirs, name
    ours, theirs = _rows(peers, catalog, "d.t$schemas")
    for row in (*ours, *theirs):
        row["fields"] = json.loads(row["fields"])
    assert ours == theirs
    ours, theirs = _rows(peers, catalog, "d.t$files")
    assert [[row[name] for name in SAME.split()] for row in ours] == [[r[n] for n in SAME.split()] for r in theirs]
    assert {row["partition"] for row in ours} == {"day=2026-01-09", "day=2026-01-10"}
    for mine, other in zip(ours, theirs, strict=True):
        for key in ("min_key", "max_key"):
            shown = None if other[key] is None else f"[{', '.join(map(str, json.loads(other[key])))}]"
            assert mine[key] == shown
            assert (mine[key] is not None) == bool(keys)
        for bounds in ("min_value_stats", "max_value_stats"):
            assert json.loads(mine[bounds]).keys() == json.loads(other[bounds]).keys()

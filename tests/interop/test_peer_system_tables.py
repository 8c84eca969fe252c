"""System tables show what pypaimon shows of the same table."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakewright as lw
from support.effort import some
from support.peers import Peers

COLUMNS = pa.schema(
    [
        pa.field("day", pa.date32(), nullable=False),
        pa.field("k", pa.int64(), nullable=False),
        pa.field("s", pa.string(), nullable=False),
        pa.field("v", pa.float64()),
    ]
)
TABLES = "snapshots schemas options manifests files partitions buckets tags branches consumers file_key_ranges"
TABLES += " table_indexes"
SAME = "partition bucket file_path file_format schema_id level record_count file_size_in_bytes null_value_counts"
SAME += " min_sequence_number max_sequence_number deleteRowCount first_row_id write_cols"


def _rows(peers: Peers, catalog: lw.Catalog, name: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    ours = lw.read_table(catalog.get_table(name))
    theirs = peers.read("pypaimon", Path(catalog.warehouse), name)
    assert theirs is not None
    assert ours.schema.names == theirs.schema.names
    return ours.to_pylist(), theirs.to_pylist()


@pytest.mark.parametrize("keys", some([["day", "k", "s"], []], 0), ids=str)
def test_system_tables_agree(catalog: lw.Catalog, peers: Peers, keys: list[str]) -> None:
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
    table.create_tag("one", 1, time_retained="36 h")
    table.store.consumers.record("reader", 1)
    for name in ("snapshots", "options", "consumers", "manifests", "partitions", "buckets", "tags", "table_indexes"):
        ours, theirs = _rows(peers, catalog, f"d.t${name}")
        for row in ours if name == "buckets" else ():
            row["last_update_time"] = row["last_update_time"].replace(microsecond=0)  # pypaimon counts in seconds there
        assert ours == theirs, name
        assert (len(ours) > 0) == (name != "table_indexes")
    ours, theirs = _rows(peers, catalog, "d.t$file_key_ranges")
    assert [row["file_path"] for row in ours] == [row["file_path"] for row in theirs]
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


def _plain(dtype: object) -> object:
    """Return the JSON of a type without what pypaimon adds to the format's; rows in a list may be null, as Java's."""
    if isinstance(dtype, dict):
        plain = {key: _plain(value) for key, value in dtype.items() if key != "nullable"}
        return {**plain, "type": "ROW"} if plain.get("type") == "ROW NOT NULL" else plain
    return [_plain(part) for part in dtype] if isinstance(dtype, list) else dtype


def test_columns_and_keys_are_the_same(catalog: lw.Catalog, peers: Peers) -> None:
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS))
    for name in TABLES.split():
        theirs = peers.ask(op="describe", warehouse=str(catalog.warehouse), table=f"d.t${name}")
        view = catalog.get_table(f"d.t${name}")
        shown = [[field.id, field.name, json.dumps(field.type.to_dict())] for field in view.fields]
        assert shown == [[number, column, json.dumps(_plain(dtype))] for number, column, dtype in theirs["columns"]]
        assert list(view.primary_keys) == theirs["keys"], name


@pytest.mark.nightly
def test_index_files_agree(catalog: lw.Catalog, peers: Peers) -> None:
    schema = lw.Schema.from_pyarrow_schema(
        COLUMNS, partition_keys=["day"], options={"deletion-vectors.enabled": "true", "bucket": "1", "bucket-key": "k"}
    )
    catalog.create_table("d.t", schema)
    table = catalog.get_table("d.t")
    rows = [{"day": date(2026, 1, 9 + k % 2), "k": k, "s": "s", "v": 0.5} for k in range(10)]
    lw.write_table(pa.Table.from_pylist(rows, schema=COLUMNS), table)
    table.delete("k IN (1, 2, 4)")
    for name in ("table_indexes", "partitions"):
        ours, theirs = _rows(peers, catalog, f"d.t${name}")
        assert ours == theirs, name
    assert sorted(row["deleted_record_count"] for row in ours) == [1, 2]

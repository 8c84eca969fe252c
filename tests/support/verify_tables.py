"""Tables of every shape that lakewright writes, with some history each: commits, a tag, a branch, a compaction."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import lakewright as lw
from lakewright.spec.argument_checks import WriteMode

ROWS = pa.table(
    {
        "id": pa.array(range(60), pa.int64()),
        "part": pa.array([f"p{n % 3}" for n in range(60)]),
        "name": pa.array([None if n % 7 == 0 else f"name {n} of a rather long text" for n in range(60)]),
        "price": pa.array([n / 4 for n in range(60)], pa.float64()),
    }
)
KEYED: dict[str, object] = {"primary_keys": ["id"], "options": {"bucket": "2"}}
TRACKED = {"row-tracking.enabled": "true"}
SHAPES: dict[str, dict[str, object]] = {
    "append": {},
    "orc": {"options": {"file.format": "orc"}},
    "avro": {"options": {"file.format": "avro"}},
    "partitioned": {"partition_keys": ["part"]},
    "bucketed": {"options": {"bucket": "3", "bucket-key": "id"}},
    "keyed": KEYED,
    "keyed-partitioned": {"primary_keys": ["id", "part"], "partition_keys": ["part"], "options": {"bucket": "2"}},
    "thin": {"primary_keys": ["id"], "options": {"bucket": "1", "data-file.thin-mode": "true"}},
    "partial-update": {"primary_keys": ["id"], "options": {"bucket": "1", "merge-engine": "partial-update"}},
    "aggregation": {"primary_keys": ["id"], "options": {"bucket": "1", "merge-engine": "aggregation"}},
    "first-row": {"primary_keys": ["id"], "options": {"bucket": "1", "merge-engine": "first-row"}},
    "dynamic": {"primary_keys": ["id"], "options": {"dynamic-bucket.target-row-num": "20"}},
    "postpone": {"primary_keys": ["id"], "options": {"bucket": "-2"}},
    "vectors": {"primary_keys": ["id"], "options": {"bucket": "2", "deletion-vectors.enabled": "true"}},
    "vectors64": {
        "primary_keys": ["id"],
        "options": {"bucket": "1", "deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"},
    },
    "append-vectors": {"options": {"deletion-vectors.enabled": "true"}},
    "tracked": {"options": TRACKED},
    "evolution": {"options": {**TRACKED, "data-evolution.enabled": "true"}},
    "changelog-input": {"primary_keys": ["id"], "options": {"bucket": "1", "changelog-producer": "input"}},
    "changelog-lookup": {"primary_keys": ["id"], "options": {"bucket": "1", "changelog-producer": "lookup"}},
    "changelog-full": {"primary_keys": ["id"], "options": {"bucket": "1", "changelog-producer": "full-compaction"}},
    "indexed": {"options": {"file-index.bloom-filter.columns": "id"}},
    "ordered": {"primary_keys": ["id"], "options": {"bucket": "1", "sequence.field": "price"}},
}


def make_table(warehouse: Path, shape: str) -> lw.FileStoreTable:
    """Write a table of a shape: some commits, a compaction, row changes where it has them, a tag and a branch."""
    catalog = lw.CatalogFactory.create({"warehouse": str(warehouse)})
    catalog.create_database("d", ignore_if_exists=True)
    schema = lw.Schema.from_pyarrow_schema(ROWS.schema, **SHAPES[shape])  # type: ignore[arg-type]
    name = f"d.{shape.replace('-', '_')}"
    catalog.create_table(name, schema)
    table = catalog.get_table(name)
    mode: WriteMode = "upsert" if table.primary_keys else "append"
    for part in (ROWS.slice(0, 40), ROWS.slice(20, 40), ROWS.slice(10, 5)):
        lw.write_table(part, table, mode=mode)
    table.create_tag("v1")
    catalog.alter_table(name, [lw.SchemaChange.add_column("more", "INT")])
    table = catalog.get_table(name)
    if shape in {"tracked", "append-vectors", "append"}:
        table.delete("id < 5")
        table.update({"price": 1.5}, "id = 7")
    table.create_branch("dev", tag="v1")
    table.compact(full=True)
    table = catalog.get_table(name)
    lw.write_table(ROWS.slice(0, 6).append_column("more", pa.array([1] * 6, pa.int32())), table, mode=mode)
    return table

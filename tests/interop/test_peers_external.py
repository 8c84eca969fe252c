"""Data files outside the table: pypaimon reads ours, and we read, compact and expire its own."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from support.effort import some
from support.peers import Peers

STRATEGIES = ("round-robin", "specific-fs", "entropy-inject", "weight-robin")
COLUMNS = pa.schema([pa.field("k", pa.int64(), nullable=False), ("p", pa.string()), ("v", pa.string())])


@pytest.mark.parametrize(
    ("strategy", "keys"),
    some([(strategy, keys) for strategy in STRATEGIES for keys in (None, ["p", "k"])], 5),
    ids=str,
)
def test_pypaimon_and_we_share_external_paths(
    catalog: lw.Catalog, tmp_path: Path, peers: Peers, strategy: str, keys: list[str] | None
) -> None:
    options = {
        "data-file.external-paths": f"file://{tmp_path}/one,file://{tmp_path}/two",
        "data-file.external-paths.strategy": strategy,
        "data-file.external-paths.specific-fs": "file",
        "data-file.external-paths.weights": "2,1",
        "bucket": "1" if keys else "-1",
    }
    schema = lw.Schema.from_pyarrow_schema(COLUMNS, partition_keys=["p"], primary_keys=keys, options=options)
    catalog.create_table("d.t", schema)
    table = catalog.get_table("d.t")
    rows = [pa.table({"k": range(n, n + 20), "p": ["x", "y"] * 10, "v": [str(n)] * 20}, COLUMNS) for n in range(4)]
    warehouse = Path(catalog.warehouse)

    def agreed() -> int:
        ours = lw.read_table(table).select(COLUMNS.names).sort_by([("k", "ascending"), ("v", "ascending")])
        theirs = peers.read("pypaimon", warehouse, "d.t")
        assert theirs is not None
        theirs = theirs.select(COLUMNS.names).sort_by([("k", "ascending"), ("v", "ascending")])
        assert ours.to_pylist() == theirs.to_pylist()
        return len(ours)

    lw.write_table(rows[0], table)
    assert agreed() == 20
    peers.append("pypaimon", warehouse, "d.t", rows[1])
    lw.write_table(rows[2], table)
    count = agreed()
    table.compact(full=True)
    assert agreed() == count
    peers.append("pypaimon", warehouse, "d.t", rows[3])
    agreed()
    table.expire_snapshots(retain_max=1, retain_min=1)
    agreed()
    assert not [path for path in Path(table.table_path).rglob("*.parquet") if "bucket-" in str(path)]

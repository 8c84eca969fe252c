"""Peers read files whose row groups threads encoded apart and joined."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakewright as lw
from support.peers import Peers


@pytest.mark.nightly
@pytest.mark.parametrize("peer", ["pypaimon", "pypaimon-rust"])
def test_peers_read_joined_files(catalog: lw.Catalog, tmp_path: Path, peers: Peers, peer: str) -> None:
    rows = pa.table({f"c{n}": np.random.default_rng(n).integers(0, 2**60, 1_200_000) for n in range(6)})
    options = {"lakewright.write-threads": "2"}
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(rows.schema, options=options))
    table = catalog.get_table("d.t")
    lw.write_table(rows, table)
    (path,) = Path(table.table_path).rglob("data-*.parquet")
    assert pq.read_metadata(path).num_row_groups > 1
    read = peers.read(peer, tmp_path / "warehouse", "d.t")
    assert read is not None
    assert read.select(rows.column_names).equals(rows)

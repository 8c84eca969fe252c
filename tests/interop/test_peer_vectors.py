"""VECTOR columns that lakewright writes are read by both peers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from support.effort import some
from support.peers import Peers

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("v", pa.list_(pa.float32(), 3)),
        pa.field("b", pa.list_(pa.int8(), 2)),
    ]
)
FIRST = [
    {"id": 1, "v": [1.0, -0.0, 3.5], "b": [1, -2]},
    {"id": 2, "v": None, "b": None},
    {"id": 3, "v": None, "b": [7, 7]},
]
SECOND = [{"id": 3, "v": [float("inf"), 0.0, 1.0], "b": None}, {"id": 4, "v": None, "b": None}]
LAYOUTS = {"parquet": {}, "avro": {"file.format": "avro"}, "keyed": {"bucket": "1"}}


@pytest.mark.parametrize(
    ("layout", "peer"), some([(layout, peer) for layout in LAYOUTS for peer in ("pypaimon", "pypaimon-rust")], 0, 1, 4)
)
def test_peers_read_vectors(catalog: lw.Catalog, peers: Peers, layout: str, peer: str) -> None:
    keys = ["id"] if layout == "keyed" else []
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, primary_keys=keys, options=LAYOUTS[layout]))
    table = catalog.get_table("d.t")
    for rows in (FIRST, SECOND):
        lw.write_table(pa.Table.from_pylist(rows, COLUMNS), table)
    found = peers.read(peer, Path(catalog.warehouse), "d.t")
    assert found is not None
    ours = lw.read_table(table)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, ours.to_pylist()))
    assert ours.num_rows == (4 if keys else 5)

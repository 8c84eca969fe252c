"""pypaimon reads tables that files of other writers were moved into, and copies of tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import lakewright as lw
from support.peers import Peers


def test_pypaimon_reads_moved_files(catalog: lw.Catalog, tmp_path: Path, peers: Peers) -> None:
    for day, rows in {"2026-01-30": pa.table({"id": pa.array([1], pa.int32())}), "2026-01-31": {"id": [2**40]}}.items():
        (tmp_path / f"old/day={day}").mkdir(parents=True)
        pq.write_table(rows if isinstance(rows, pa.Table) else pa.table(rows), tmp_path / f"old/day={day}/x.parquet")
    lw.migrate(catalog, "d.moved", tmp_path / "old")
    theirs = peers.read("pypaimon", Path(catalog.warehouse), "d.moved")
    assert theirs is not None
    ours = lw.read_table(catalog.get_table("d.moved"))
    assert theirs.sort_by("id").to_pylist() == ours.sort_by("id").to_pylist()
    lw.copy_table(catalog.get_table("d.moved"), catalog, "d.copied")
    copied = peers.read("pypaimon", Path(catalog.warehouse), "d.copied")
    assert copied is not None
    assert copied.sort_by("id").to_pylist() == ours.sort_by("id").to_pylist()

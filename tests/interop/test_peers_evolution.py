"""Column files, vectors on anchors and row ids: ours read by the Python peers, theirs by us, all in turn."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from support.effort import some
from support.peers import NAMES, Peers

COLUMNS = pa.schema({"k": pa.int64(), "v": pa.float64(), "s": pa.string(), "p": pa.string()})
ALL = [*COLUMNS.names, "_ROW_ID", "_SEQUENCE_NUMBER"]
EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
VECTORS = {**EVOLVING, "deletion-vectors.enabled": "true"}


def _rows(low: int, high: int) -> pa.Table:
    k = list(range(low, high))
    return pa.table([k, [n / 2 for n in k], [f"s{n}" for n in k], [f"p{n % 2}" for n in k]], schema=COLUMNS)


def _table(catalog: lw.Catalog, options: dict[str, str], keys: list[str] | None) -> lw.FileStoreTable:
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, partition_keys=keys, options=options))
    table = catalog.get_table("d.t")
    for low in (0, 50, 100):
        lw.write_table(_rows(low, low + 50), table)
    return table


def _by_id(rows: pa.Table | None) -> dict[int, tuple[object, ...]]:
    assert rows is not None
    listed = rows.select(ALL).to_pylist()
    found: dict[int, tuple[object, ...]] = {row["_ROW_ID"]: tuple(row.values()) for row in listed}
    assert len(found) == len(listed)
    return found


def _agreed(table: lw.FileStoreTable, warehouse: Path, peers: Peers) -> dict[int, tuple[object, ...]]:
    """Return what everybody reads, with ids and sequence numbers; columns on their own too."""
    ours = _by_id(lw.read_table(table, columns=ALL))
    alone = sorted(lw.read_table(table, columns=["v"])["v"].to_pylist())
    for peer in NAMES:
        assert _by_id(peers.read(peer, warehouse, "d.t", ALL)) == ours, peer
        one = peers.read(peer, warehouse, "d.t", ["v"])
        assert one is not None
        assert sorted(one["v"].to_pylist()) == alone, peer
    return ours


def _ids(table: lw.FileStoreTable, keys: list[int]) -> list[int]:
    """Return the row ids of keys, in their order."""
    found = lw.read_table(table, columns=["k", "_ROW_ID"])
    place = dict(zip(found["k"].to_pylist(), found["_ROW_ID"].to_pylist(), strict=True))
    return [place[k] for k in keys]


@pytest.mark.parametrize("keys", some([None, ["p"]], 1), ids=str)
def test_peers_read_our_updates_and_deletes(
    catalog: lw.Catalog, tmp_path: Path, peers: Peers, keys: list[str] | None
) -> None:
    table = _table(catalog, VECTORS, keys)
    warehouse = tmp_path / "warehouse"
    ids = _ids(table, [3, 60, 140])
    table.update_by_row_id(pa.table({"_ROW_ID": ids, "v": [-1.0, -2.0, -3.0]}))
    _agreed(table, warehouse, peers)
    table.delete_by_row_id(_ids(table, [4, 5, 61]))
    table.update_by_row_id(pa.table({"_ROW_ID": ids, "v": [1.5, None, 3.5], "s": ["a", "b", None]}))
    table.delete("k BETWEEN 50 AND 70")
    table.update({"s": "all"}, "k < 20")
    rows = _agreed(table, warehouse, peers)
    assert len(rows) == 150 - 2 - 21
    assert rows[ids[0]][:3] == (3, 1.5, "all")


@pytest.mark.nightly
def test_peers_read_groups_that_we_wrote_anew(catalog: lw.Catalog, tmp_path: Path, peers: Peers) -> None:
    table = _table(catalog, EVOLVING, None)
    table.update_by_row_id(pa.table({"_ROW_ID": [7], "s": ["seven"]}))
    table.delete_by_row_id([8, 9])
    rows = _agreed(table, tmp_path / "warehouse", peers)
    assert rows.keys() == set(range(150)) - {8, 9}  # those that stay keep their ids
    assert rows[7][:4] == (7, 3.5, "seven", "p1")


@pytest.mark.parametrize(
    ("peer", "keys"), some([(peer, keys) for peer in NAMES for keys in (None, ["p"])], 0, 3), ids=str
)
def test_peers_and_we_change_one_table_in_turn(
    catalog: lw.Catalog, tmp_path: Path, peers: Peers, peer: str, keys: list[str] | None
) -> None:
    table = _table(catalog, VECTORS, keys)
    warehouse = tmp_path / "warehouse"
    theirs, mine = _ids(table, [1, 2, 70]), _ids(table, [2, 3, 71])
    peers.change_rows(peer, warehouse, "d.t", pa.table({"_ROW_ID": theirs, "v": [0.1, 0.2, 0.3]}))
    table.update_by_row_id(pa.table({"_ROW_ID": mine, "v": [9.1, 9.2, 9.3]}))
    peers.change_rows(peer, warehouse, "d.t", pa.table({"_ROW_ID": _ids(table, [10, 72])}), delete=True)
    table.delete_by_row_id(_ids(table, [11, 73, 120]))
    peers.change_rows(peer, warehouse, "d.t", pa.table({"_ROW_ID": _ids(table, [12, 121])}), delete=True)
    peers.change_rows(peer, warehouse, "d.t", pa.table({"_ROW_ID": mine[:1], "s": ["peer"]}))
    rows = _agreed(table, warehouse, peers)
    assert {row[0] for row in rows.values()} == set(range(150)) - {10, 11, 12, 72, 73, 120, 121}
    by_key = {row[0]: row[1:3] for row in rows.values()}
    assert [by_key[k] for k in (1, 2, 3, 70, 71)] == [
        (0.1, "s1"),
        (9.1, "peer"),
        (9.2, "s3"),
        (0.3, "s70"),
        (9.3, "s71"),
    ]

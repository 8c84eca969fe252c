"""Bucket modes of primary-key tables, written in turn by us and the Python peers: everybody reads the same rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.spec.bucket_hash import row_hashes
from lakewright.write.dynamic_buckets import HashFiles
from support.effort import some
from support.peers import NAMES, Peers

SCHEMA = pa.schema(
    [pa.field("p", pa.string(), nullable=False), pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())]
)
Rows = list[tuple[str, int, str]]


def _table(catalog: lw.Catalog, keys: list[str], **options: str) -> lw.FileStoreTable:
    catalog.create_table(
        "d.t", lw.Schema.from_pyarrow_schema(SCHEMA, partition_keys=["p"], primary_keys=keys, options=options)
    )
    return catalog.get_table("d.t")


def _rows(rows: Rows) -> pa.Table:
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)


def _write(catalog: lw.Catalog, peers: Peers, who: str, rows: Rows) -> None:
    if who != "lakewright":
        peers.append(who, Path(catalog.warehouse), "d.t", _rows(rows))
        return
    builder = catalog.get_table("d.t").new_batch_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(_rows(rows))
        commit.commit(write.prepare_commit())


def _read(catalog: lw.Catalog, peers: Peers, who: str) -> Rows:
    if who == "lakewright":
        builder = catalog.get_table("d.t").new_read_builder()
        found = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    else:
        found = peers.read(who, Path(catalog.warehouse), "d.t")
    if found is None:
        return []
    return sorted(zip(*(found[name].to_pylist() for name in ("p", "k", "v")), strict=True))


@pytest.mark.parametrize("write_only", some(["true", "false"], 1))
def test_one_dynamic_table_is_grown_in_turn(catalog: lw.Catalog, peers: Peers, write_only: str) -> None:
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "20", "write-only": write_only}
    table = _table(catalog, ["p", "k"], **options)
    model: dict[tuple[str, int], str] = {}
    writers = ("lakewright", *NAMES)
    for turn in range(9):
        who = writers[turn % 3]
        rows = [("ab"[k % 2], k, f"{who}-{turn}") for k in range(turn * 12, turn * 12 + 30)]
        _write(catalog, peers, who, rows)
        model |= {(p, k): v for p, k, v in rows}
        want = sorted((p, k, v) for (p, k), v in model.items())
        for reader in writers:
            assert _read(catalog, peers, reader) == want, (turn, reader)
    _check_hashes(table, model)


def _check_hashes(table: lw.FileStoreTable, model: dict[tuple[str, int], str]) -> None:
    """Every key has its hash in exactly one bucket of its partition, and no bucket has more than it may."""
    store = table.store
    files = HashFiles.newest(store)
    key = store.schema.field("k").type
    seen = 0
    for split in table.new_read_builder().new_scan().plan().splits():
        hashes = [h for found in files.read(files.of_partition(split.partition_bytes)).values() for h in found.tolist()]
        assert len(hashes) == len(set(hashes))
        partition = split.partition[0]
        keys = [k for p, k in model if p == partition]
        assert set(row_hashes([pa.array(keys)], [key]).tolist()) == set(hashes)
        assert all(len(found) <= 20 for found in files.read(files.of_partition(split.partition_bytes)).values())
        seen += 1
    assert seen


def test_keys_move_between_partitions_by_us_and_by_rust(catalog: lw.Catalog, peers: Peers) -> None:
    _table(catalog, ["k"], bucket="-1", **{"dynamic-bucket.target-row-num": "10", "write-only": "true"})
    model: dict[int, tuple[str, str]] = {}
    for turn, who in enumerate(["lakewright", "pypaimon-rust"] * 3):
        rows = [("abc"[(k + turn) % 3], k, f"{who}-{turn}") for k in range(turn * 5, turn * 5 + 25)]
        _write(catalog, peers, who, rows)
        model |= {k: (p, v) for p, k, v in rows}
        want = sorted((p, k, v) for k, (p, v) in model.items())
        for reader in ("lakewright", *NAMES):
            assert _read(catalog, peers, reader) == want, (turn, reader)


@pytest.mark.parametrize("reader", some(NAMES, 0))
def test_peers_do_not_see_rows_that_wait_for_their_bucket(catalog: lw.Catalog, peers: Peers, reader: str) -> None:
    table = _table(catalog, ["p", "k"], bucket="-2", **{"postpone.default-bucket-num": "2"})
    _write(catalog, peers, "lakewright", [("a", 1, "waits")])
    _write(catalog, peers, reader, [("a", 2, "waits")])
    for who in ("lakewright", *NAMES):
        assert _read(catalog, peers, who) == []
    builder = table.new_postpone_fixed_bucket_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(_rows([("a", k, "real") for k in range(20)]))
        commit.commit(write.prepare_commit())
    for who in ("lakewright", *NAMES):
        assert _read(catalog, peers, who) == sorted(("a", k, "real") for k in range(20))


@pytest.mark.parametrize("function", some(["mod", "hive"], 1))
def test_rust_finds_our_rows_by_their_buckets(catalog: lw.Catalog, peers: Peers, function: str) -> None:
    _table(catalog, ["p", "k"], bucket="3", **{"bucket-function.type": function})
    rows = [("a", k, str(k)) for k in range(-20, 20)]
    _write(catalog, peers, "lakewright", rows)
    _write(catalog, peers, "pypaimon-rust", [("a", k, "again") for k in range(-5, 5)])
    want = sorted(("a", k, "again" if -5 <= k < 5 else str(k)) for k in range(-20, 20))
    for who in ("lakewright", *NAMES):
        assert _read(catalog, peers, who) == want

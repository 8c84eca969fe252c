"""Tables that we compacted, read by the Python peers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from support.effort import some
from support.peers import NAMES, Peers

COLUMNS = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64()), ("w", pa.string())])
VECTORS = {"deletion-vectors.enabled": "true"}
TABLES: list[dict[str, str]] = [
    {},
    {"compaction.force-up-level-0": "true", "bucket": "2"},
    VECTORS,
    {**VECTORS, "changelog-producer": "lookup", "target-file-size": "4 kb"},
    {"changelog-producer": "lookup"},
    {"merge-engine": "first-row"},
    {"merge-engine": "partial-update", **VECTORS},
    {"bucket": "-1", **VECTORS},
    {"file.format": "orc"},
    {"file.format": "avro", **VECTORS},
]


def _by_key(table: pa.Table | None) -> dict[int, tuple[object, ...]]:
    rows = [] if table is None else table.to_pylist()
    found: dict[int, tuple[object, ...]] = {row["k"]: (row["v"], row["w"]) for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("options", some(TABLES, 3, 7), ids=str)
def test_peers_read_what_we_compacted(
    catalog: lw.Catalog, tmp_path: Path, peers: Peers, options: dict[str, str]
) -> None:
    schema = lw.Schema.from_pyarrow_schema(COLUMNS, primary_keys=["k"], options={"bucket": "1", **options})
    catalog.create_table("d.t", schema)
    table = catalog.get_table("d.t")
    deletes = options.get("merge-engine") is None
    for number in range(6):
        keys = list(range(300)) if number == 0 else list(range(number * 7, number * 7 + 20))
        rows = pa.table(
            {"k": keys, "v": [number] * len(keys), "w": [f"{number} {k * k}" for k in keys]}, schema=COLUMNS
        )
        kinds = ["-D" if deletes and number and k % 5 == 0 else "+I" for k in keys]
        builder = table.new_batch_write_builder()
        with builder.new_write() as write, builder.new_commit() as commit:
            write.write_arrow(rows, row_kinds=kinds)
            commit.commit(write.prepare_commit())
        if number == 3:
            table.compact()
    for full in (False, True):
        table.compact(full=full)
        ours = _by_key(pa.table(table))
        assert len(ours) >= 280
        for peer in NAMES:
            assert _by_key(peers.read(peer, tmp_path / "warehouse", "d.t")) == ours, peer


TRACKED = {"row-tracking.enabled": "true"}
EVOLUTION = {**TRACKED, "data-evolution.enabled": "true"}
BUCKETED = {"bucket": "2", "bucket-key": "k"}
APPEND_TABLES: list[dict[str, str]] = [
    {"target-file-size": "2 kb"},
    {"file.format": "orc"},
    {"file.format": "avro", **VECTORS},
    VECTORS,
    BUCKETED,
    {**BUCKETED, **VECTORS},
    TRACKED,
    {**TRACKED, **VECTORS},
    EVOLUTION,
    {**EVOLUTION, **VECTORS},
]


@pytest.mark.parametrize("options", some(APPEND_TABLES, 5), ids=str)
def test_peers_read_append_tables_that_we_compacted(
    catalog: lw.Catalog, tmp_path: Path, peers: Peers, options: dict[str, str]
) -> None:
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, options=options))
    table = catalog.get_table("d.t")
    for number in range(4):
        keys = list(range(number * 50, number * 50 + 50))
        lw.write_table(pa.table({"k": keys, "v": keys, "w": [f"{k * k}" for k in keys]}, schema=COLUMNS), table)
    if "deletion-vectors.enabled" in options:
        table.delete("k in (3, 4, 5, 60, 61, 199)")
    if "data-evolution.enabled" in options:
        table.update_by_row_id(pa.table({"_ROW_ID": [70, 198], "v": [-70, -198]}))
    ours = _by_key(pa.table(table))
    table.compact(full=True)
    assert _by_key(pa.table(table)) == ours
    snapshot = table.snapshot()
    assert snapshot is not None
    stored = {name for entry in table.store.manifests.live(snapshot) for name in entry.file.write_cols or ()}
    for peer in NAMES:
        if peer == "pypaimon-rust" and "_ROW_ID" in stored:
            continue  # it refuses files that hold the ids of their rows, also those of other writers
        assert _by_key(peers.read(peer, tmp_path / "warehouse", "d.t")) == ours, peer

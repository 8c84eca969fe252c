"""Random writes, deletes, updates and compactions of append tables: what is read is what a dict of rows holds."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from lakewright.compact.compaction_job import compact_table
from lakewright.dml.delete_update import delete
from lakewright.dml.row_ids import update_by_row_id
from lakewright.metadata.table_store import TableStore
from lakewright.read.read_builder import ReadBuilder
from support.effort import is_thin
from support.read_tables import append, new_table

pytestmark = pytest.mark.long

COLUMNS = pa.schema({"k": pa.int64(), "p": pa.int32(), "v": pa.string()})
VECTORS = {"deletion-vectors.enabled": "true"}
BITMAP64 = {**VECTORS, "deletion-vectors.bitmap64": "true"}
TRACKED = {"row-tracking.enabled": "true"}
EVOLUTION = {**TRACKED, "data-evolution.enabled": "true"}
BUCKETED = {"bucket": "2", "bucket-key": "k"}
KINDS = [
    ({**VECTORS}, []),
    ({**BITMAP64, "file.format": "orc"}, ["p"]),
    ({**VECTORS, **BUCKETED}, []),
    ({**BITMAP64, **BUCKETED}, ["p"]),
    ({**VECTORS, **TRACKED}, ["p"]),
    ({**VECTORS, **EVOLUTION}, []),
    ({**BITMAP64, **EVOLUTION, "file.format": "avro"}, []),
]
STEPS = 4 if is_thin() else 10


def _read(store: TableStore) -> list[dict[str, object]]:
    names = ["k", "p", "v", *(["_ROW_ID"] if store.options.row_tracking_enabled else [])]
    builder = ReadBuilder(store).with_projection(names)
    rows: list[dict[str, object]] = builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist()
    return rows


def _by_place(store: TableStore) -> dict[object, list[int]]:
    """Return the rows of each bucket, in their order where they have one."""
    builder = ReadBuilder(store)
    rows: dict[object, list[int]] = {}
    for split in builder.new_scan().plan().splits():
        place = split.partition, split.bucket
        rows[place] = rows.get(place, []) + builder.new_read().to_arrow([split])["k"].to_pylist()
    return rows if store.options.bucket > 0 else {place: sorted(some) for place, some in rows.items()}


def _compact(store: TableStore, rng: random.Random) -> None:
    """Compact with options of the moment."""
    before = _by_place(store)
    options = {
        "target-file-row-num": str(rng.choice([4, 25, 1000])),
        "compaction.min.file-num": str(rng.choice([2, 3])),
        "compaction.delete-ratio-threshold": str(rng.choice([0.1, 0.5])),
    }
    ids = {row["k"]: row.get("_ROW_ID") for row in _read(store)}
    compact_table(store.with_schema(store.schema.with_options(options)), full=rng.random() < 0.5)
    assert _by_place(store) == {place: some for place, some in before.items() if some}
    assert {row["k"]: row.get("_ROW_ID") for row in _read(store)} == ids


@pytest.mark.parametrize("seed", range(len(KINDS)))
def test_rows_are_those_of_a_dict(seed: int, tmp_path: Path) -> None:
    options, partitions = KINDS[seed]
    rng = random.Random(seed)
    store = new_table(tmp_path / "t", COLUMNS, partitions, options)
    model: dict[int, tuple[int, str]] = {}
    for step in range(STEPS):
        first = 100 * step
        rows = {k: (rng.randrange(2), f"{step}") for k in range(first, first + rng.randrange(1, 20))}
        append(
            store, pa.table({"k": list(rows), "p": [p for p, _ in rows.values()], "v": [v for _, v in rows.values()]})
        )
        model |= rows
        if rng.random() < 0.5:
            gone = rng.sample(sorted(model), len(model) // 4)
            delete(store, f"k in ({', '.join(map(str, gone))})" if gone else "k < 0")
            model = {k: row for k, row in model.items() if k not in gone}
        if store.options.data_evolution_enabled and model and rng.random() < 0.6:
            some = {row["k"]: row["_ROW_ID"] for row in _read(store) if rng.random() < 0.2}
            update_by_row_id(
                store, pa.table({"_ROW_ID": pa.array(some.values(), pa.int64()), "v": ["new"] * len(some)})
            )
            model |= {k: (model[k][0], "new") for k in map(int, map(str, some))}
        if rng.random() < 0.7:
            _compact(store, rng)
        assert {row["k"]: (row["p"], row["v"]) for row in _read(store)} == model
    assert any(store.snapshots.get(n).commit_kind == "COMPACT" for n in store.snapshots.ids())

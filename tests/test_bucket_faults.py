"""Every storage call of writes that choose buckets by what is there x six faults: clean, and no key lives twice."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakewright as lw
from contract.fault_enumerator import Action, Operation, enumerate_faults
from support.effort import is_thin

pytestmark = pytest.mark.long

FIELDS = [
    lw.DataField(0, "p", lw.AtomicType("INT")),
    lw.DataField(1, "k", lw.AtomicType("INT")),
    lw.DataField(2, "v", lw.AtomicType("STRING")),
]
DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "2", "write-only": "true"}
POSTPONE = {"bucket": "-2", "write-only": "true"}


def observe(catalog: lw.Catalog) -> object:
    """Return the rows of the newest snapshot, what waits for a bucket, and how many commits there were."""
    table = catalog.get_table("d.t")
    snapshot = table.store.snapshots.latest()
    assert snapshot is not None
    rows = lw.read_table(table)
    keys = rows.select(table.schema.primary_keys).to_pylist()
    assert len(set(map(repr, keys))) == len(keys), "a key lives twice"
    waiting = sum(e.file.row_count for e in table.store.manifests.live(snapshot) if e.bucket < 0)
    return sorted(map(repr, rows.to_pylist())), waiting, snapshot.id


def _batch(partition: int, keys: range, text: str) -> pa.Table:
    return pa.table({"p": [partition] * len(keys), "k": list(keys), "v": [text] * len(keys)})


def _upsert(catalog: lw.Catalog, rows: pa.Table) -> None:
    builder = catalog.get_table("d.t").new_batch_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(rows)
        commit.commit(write.prepare_commit())


def written(options: dict[str, str], key: list[str]) -> Action:
    def prepare(catalog: lw.Catalog) -> None:
        catalog.create_database("d")
        catalog.create_table("d.t", lw.Schema(FIELDS, ["p"], key, options))
        _upsert(catalog, _batch(0, range(3), "old"))

    return prepare


def upsert(catalog: lw.Catalog) -> None:
    _upsert(catalog, _batch(1, range(2, 4), "new"))


OPERATIONS = [
    Operation("dynamic buckets", written(DYNAMIC, ["p", "k"]), upsert),
    Operation("keys that move", written(DYNAMIC, ["k"]), upsert),
    Operation("rows that wait", written(POSTPONE, ["p", "k"]), upsert),
]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name.replace(" ", "-"))
def test_every_fault_leaves_the_table_whole(operation: Operation) -> None:
    report = enumerate_faults(operation, observe, thin=is_thin())
    assert report.calls > 0
    assert report.failures == ()

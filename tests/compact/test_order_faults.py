"""Every storage call of an order compaction and of a manifest compaction fails once; and races with other writers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

import lakewright as lw
from contract.fault_enumerator import Operation, enumerate_faults, stray_files
from contract.faulty_storage import Fault, FaultKind, FaultyStorage, MemoryStorage
from support.effort import each_once, is_thin

COLUMNS = pa.schema({"k": pa.int64(), "v": pa.int64()})
OPTIONS = {"deletion-vectors.enabled": "true", "target-file-row-num": "8", "lakewright.write-threads": "1"}
_names = itertools.count()


def observe(catalog: lw.Catalog) -> object:
    """Return the rows, how the files lie, and how many manifests name them."""
    table = catalog.get_table("d.t")
    snapshot = table.snapshot()
    assert snapshot is not None
    files = sorted(entry.file.row_count for entry in table.store.manifests.live(snapshot))
    return sorted(map(repr, lw.read_table(table).to_pylist())), files, snapshot.commit_kind


def unsorted(catalog: lw.Catalog) -> None:
    """Leave three files in no order, one with deleted rows."""
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, options=OPTIONS))
    table = catalog.get_table("d.t")
    for number in range(3):
        keys = [7 * n % 20 + number for n in range(6)]
        lw.write_table(pa.table({"k": keys, "v": keys}, COLUMNS), table)
    table.delete("k = 7")


def order(table: lw.FileStoreTable) -> object:
    return table.compact(order_by=["k", "v"], strategy="zorder")


def manifests(table: lw.FileStoreTable) -> object:
    return table.compact_manifests()


@pytest.mark.long
@pytest.mark.parametrize("compact", [order, manifests])
def test_every_fault_leaves_the_table_whole(compact: Callable[[lw.FileStoreTable], object]) -> None:
    def run(catalog: lw.Catalog) -> None:
        compact(catalog.get_table("d.t"))

    report = enumerate_faults(Operation(compact.__name__, unsorted, run), observe, thin=is_thin())
    assert report.calls > 0
    assert report.failures == ()


OTHERS: dict[str, Callable[[lw.FileStoreTable], object]] = {
    "append": lambda table: lw.write_table(pa.table({"k": [100], "v": [100]}, COLUMNS), table),
    "delete": lambda table: table.delete("k = 1"),
    "overwrite": lambda table: lw.write_table(pa.table({"k": [5], "v": [5]}, COLUMNS), table, mode="overwrite"),
    "order": order,
    "compact": lambda table: table.compact(full=True),
    "manifests": manifests,
}


@pytest.mark.parametrize(("other", "compact"), each_once(list(OTHERS), [order, manifests]))
def test_a_compaction_loses_to_other_writers(compact: Callable[[lw.FileStoreTable], object], other: str) -> None:
    memory = MemoryStorage(f"order-races-{next(_names)}")
    catalog = lw.FileSystemCatalog(memory, f"{memory.root}/w", {})
    unsorted(catalog)
    table = catalog.get_table("d.t")
    start = memory.image()
    OTHERS[other](table)
    expected = sorted(map(repr, lw.read_table(table).to_pylist()))
    memory.restore(start)
    counted = FaultyStorage(memory)
    compact(replace(table, store=replace(table.store, storage=counted)))
    published = [n for n, c in enumerate(counted.calls, 1) if c.verb == "create" and "/snapshot/snapshot-" in c.path]

    def write_meanwhile() -> None:
        OTHERS[other](table)

    for stop in sorted({max(1, published[0] // 2), published[0], published[0] + 1}):
        memory.restore(start)
        stopping = FaultyStorage(memory, [Fault(stop, FaultKind.SLOW)], pause=write_meanwhile)
        compact(replace(table, store=replace(table.store, storage=stopping)))
        assert sorted(map(repr, lw.read_table(table).to_pylist())) == expected
        memory.age(7 * 24 * 60 * 60 * 1000)
        table.remove_orphan_files()
        assert stray_files(table.store) == set()
    memory.clear()

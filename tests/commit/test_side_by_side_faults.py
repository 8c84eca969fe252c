"""Calls side by side: what they return, and every fault of a commit that makes them."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

import lakewright as lw
from contract.fault_enumerator import Operation, enumerate_faults
from contract.faulty_storage import FaultKind, MemoryStorage
from lakewright.storage.concurrency import CallGroup, map_concurrently
from support.effort import every_second, is_thin

NEAR = MemoryStorage("side-by-side")
FAR = MemoryStorage("side-by-side", requests_at_once=4)
KINDS = (
    FaultKind.ERROR_BEFORE,
    FaultKind.ERROR_AFTER,
    FaultKind.CRASH_BEFORE,
    FaultKind.CRASH_AFTER,
    FaultKind.CONFLICT,
    FaultKind.PRECONDITION,
)


def test_far_away_calls_are_made_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=30)
    with CallGroup(FAR) as errands:
        first, second = errands.start(both.wait), errands.start(both.wait)
        assert {first.result(), second.result()} == {0, 1}
    assert sorted(map_concurrently(FAR, lambda _: both.wait(), range(2))) == [0, 1]


def test_nearby_calls_are_made_in_the_order_of_asking() -> None:
    made: list[str] = []
    with CallGroup(NEAR) as errands:
        first = errands.start(lambda: made.append("first"))
        errands.start(lambda: made.append("nobody asks"))
        made.append("before")
        first.result()
        first.result()
    assert made == ["before", "first"]
    assert map_concurrently(NEAR, str, range(3)) == ["0", "1", "2"]


@pytest.mark.parametrize("storage", [NEAR, FAR], ids=["near", "far"])
def test_an_error_is_raised_where_the_answer_is_asked_for(storage: MemoryStorage) -> None:
    with CallGroup(storage) as errands:
        missing = errands.start(lambda: storage.read("memory://side-by-side/none"))
        fine = errands.start(lambda: 7)
        for _ in range(2):
            with pytest.raises(FileNotFoundError):
                missing.result()
        assert fine.result() == 7


def test_a_block_that_fails_is_left_when_all_its_calls_have_ended() -> None:
    begun, ended = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        ended.wait(0.05)
        ended.set()

    def failing() -> None:
        with CallGroup(FAR) as errands:
            errands.start(slow)
            assert begun.wait(30)
            raise LookupError

    with pytest.raises(LookupError):
        failing()
    assert ended.is_set()


def _rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "n": pa.array(ids, pa.int64())})


def _prepared(catalog: lw.Catalog, keys: tuple[str, ...], options: dict[str, str]) -> None:
    catalog.create_database("d")
    schema = lw.Schema.from_pyarrow_schema(_rows().schema, primary_keys=list(keys), options=options)
    catalog.create_table("d.t", schema)
    for number in range(3):
        lw.write_table(_rows(number, number + 10), catalog.get_table("d.t"))


def plain_table(catalog: lw.Catalog) -> None:
    _prepared(catalog, (), {"manifest.merge-min-count": "2"})


def keyed_table(catalog: lw.Catalog) -> None:
    _prepared(catalog, ("id",), {"bucket": "2", "changelog-producer": "input"})


def marked_table(catalog: lw.Catalog) -> None:
    _prepared(catalog, (), {"deletion-vectors.enabled": "true"})


def append(catalog: lw.Catalog) -> None:
    lw.write_table(_rows(7, 8, 9), catalog.get_table("d.t"))


def delete(catalog: lw.Catalog) -> None:
    catalog.get_table("d.t").delete("id >= 10")


def observe(catalog: lw.Catalog) -> object:
    """Return the rows of every snapshot."""
    table = catalog.get_table("d.t")
    found = (lw.read_table(table, snapshot_id=number) for number in table.store.snapshots.ids())
    return [sorted(map(repr, rows.to_pylist())) for rows in found]


OPERATIONS = [
    Operation("upsert", keyed_table, append),
    Operation("append", plain_table, append),
    Operation("delete", marked_table, delete),
]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::lakewright.LakewrightWarning")  # a compaction after a commit may fail
@pytest.mark.parametrize("operation", every_second(OPERATIONS), ids=lambda operation: operation.name)
def test_every_fault_side_by_side_leaves_the_table_whole(operation: Operation) -> None:
    report = enumerate_faults(operation, observe, KINDS, renames=False, at_once=4, thin=is_thin())
    assert report.failures == ()
    assert report.calls > 10

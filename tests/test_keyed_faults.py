"""Every storage call of the operations of primary-key tables fails: all clean, and nothing acknowledged is lost."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakewright as lw
from contract.fault_enumerator import SIX_FAULTS, Action, Operation, enumerate_faults
from contract.faulty_storage import FaultKind
from lakewright.spec.snapshot import CommitKind
from support.effort import is_thin

pytestmark = pytest.mark.long

FIELDS = [
    lw.DataField(0, "p", lw.AtomicType("INT")),
    lw.DataField(1, "k", lw.AtomicType("INT")),
    lw.DataField(2, "v", lw.AtomicType("STRING")),
]
RUNS = {"bucket": "1", "num-sorted-run.compaction-trigger": "2"}
VECTORS = {"bucket": "1", "deletion-vectors.enabled": "true"}
PRODUCER = {"bucket": "1", "changelog-producer": "lookup"}


def observe(catalog: lw.Catalog) -> object:
    """Return what a user sees: the rows after every commit, and the changelog, whatever was compacted meanwhile.

    Rows of level 0 that a table hides until they are compacted are looked at all the same.
    """
    seen = {}
    for name in catalog.list_tables("d"):
        table = catalog.get_table(f"d.{name}").copy({"deletion-vectors.merge-on-read": "true"})
        history: list[list[str]] = []
        for snapshot_id in table.store.snapshots.ids():
            rows = _rows(table, snapshot_id)
            compacted = table.store.snapshots.get(snapshot_id).commit_kind is CommitKind.COMPACT
            assert not (compacted and history) or history[-1] == rows, "a compaction changed rows"
            if not compacted or not history:
                history.append(rows)
        seen[name] = (sorted(table.schema.options.items()), history)
    return seen


def newest(catalog: lw.Catalog) -> object:
    """Return the newest rows alone: what neither expiry nor another number of buckets must change."""
    table = catalog.get_table("d.t")
    return _rows(table, table.store.snapshots.ids()[-1])


def _rows(table: lw.FileStoreTable, snapshot_id: int) -> list[str]:
    return sorted(map(repr, lw.read_table(table, snapshot_id=snapshot_id).to_pylist()))


def _batch(first: int, text: str) -> pa.Table:
    return pa.table({"p": [0, 0, 0], "k": [first, first + 1, 7], "v": [text, text, text]})


def written(options: dict[str, str], numbers: tuple[int, ...] = (0, 1)) -> Action:
    def prepare(catalog: lw.Catalog) -> None:
        catalog.create_database("d")
        catalog.create_table("d.t", lw.Schema(FIELDS, ["p"], ["p", "k"], options))
        for number in numbers:
            lw.write_table(_batch(number, f"{number}"), catalog.get_table("d.t"), mode="upsert")

    return prepare


def upsert(catalog: lw.Catalog) -> None:
    lw.write_table(_batch(2, "new"), catalog.get_table("d.t"), mode="upsert")


def delete(catalog: lw.Catalog) -> None:
    lw.write_table(_batch(1, "").select(["p", "k"]), catalog.get_table("d.t"), mode="delete")


def update(catalog: lw.Catalog) -> None:
    catalog.get_table("d.t").update({"v": "changed"}, "k = 1 OR v = '1'")


def overwrite(catalog: lw.Catalog) -> None:
    lw.write_table(_batch(5, "whole").slice(0, 2), catalog.get_table("d.t"), mode="overwrite")


def compact(catalog: lw.Catalog) -> None:
    catalog.get_table("d.t").compact(full=True)


def rescale(catalog: lw.Catalog) -> None:
    catalog.get_table("d.t").rescale(3)


def expire(catalog: lw.Catalog) -> None:
    catalog.get_table("d.t").expire_snapshots(retain_max=1, retain_min=1)


# What follows a commit fails in three ways; the commit and the compaction themselves fail in all six elsewhere.
THREE_FAULTS = (FaultKind.ERROR_BEFORE, FaultKind.CRASH_AFTER, FaultKind.DISK_FULL)
WRITE_ONLY = {"bucket": "1", "write-only": "true"}
ONE_BEFORE = (0,)  # where a second write before the operation would only make the history longer
OPERATIONS = [
    Operation("upsert", written(WRITE_ONLY, ONE_BEFORE), upsert),
    Operation("upsert with a compaction", written(RUNS, ONE_BEFORE), upsert),
    Operation("upsert with deletion vectors", written(VECTORS, ONE_BEFORE), upsert),
    Operation("upsert with a changelog", written(PRODUCER, ONE_BEFORE), upsert),
    Operation("update with a condition", written(WRITE_ONLY), update),
    Operation("overwrite", written(RUNS, ONE_BEFORE), overwrite),
    Operation("compact", written(WRITE_ONLY), compact, compact),
]
# A delete is an upsert of rows of another kind; upserts compact vectors and make a changelog too; dynamic buckets are
# those of test_bucket_faults.py.
AT_NIGHT = [
    Operation("upsert into dynamic buckets", written({"dynamic-bucket.target-row-num": "1"}), upsert),
    Operation("delete", written(WRITE_ONLY), delete),
    Operation("delete with deletion vectors", written(VECTORS, ONE_BEFORE), delete),
    Operation("compact deletion vectors", written(VECTORS | {"write-only": "true"}), compact, compact),
    Operation("compact, making a changelog", written(PRODUCER | {"write-only": "true"}), compact, compact),
]


@pytest.mark.parametrize(
    "operation",
    [*OPERATIONS, *(pytest.param(operation, marks=pytest.mark.nightly) for operation in AT_NIGHT)],
    ids=lambda operation: operation.name.replace(" ", "-"),
)
@pytest.mark.filterwarnings("ignore::lakewright.LakewrightWarning")
def test_every_fault_leaves_the_table_whole(operation: Operation) -> None:
    kinds = THREE_FAULTS if "with" in operation.name and not is_thin() else SIX_FAULTS
    # Each call of an upsert fails in every way per push, those of the others in one or two ways; in every way at night.
    thin = is_thin() and operation.name != "upsert"
    report = enumerate_faults(operation, observe, kinds, thin=thin)
    assert report.calls > 0
    assert report.failures == ()
    print(f"{report.operation}: {report.calls} calls, {report.runs} runs")


@pytest.mark.parametrize("run", [expire, rescale], ids=["expire", "rescale"])
def test_every_fault_of_an_expiry_or_rescale_keeps_the_rows(run: Action) -> None:
    """Rescaling stores an option and overwrites the table: between the two nothing can be written, but all be read."""
    report = enumerate_faults(Operation("keep", written(RUNS), run, run), newest, thin=is_thin())
    assert report.calls > 0
    assert report.failures == ()

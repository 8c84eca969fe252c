"""Every storage call of an expiry fails once, in every way: whatever snapshot is there can be read."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

import lakewright as lw
from contract.fault_enumerator import Operation, enumerate_faults
from contract.faulty_storage import FaultKind
from support.effort import some

pytestmark = pytest.mark.long

FIELDS = [lw.DataField(0, "k", lw.AtomicType("INT", nullable=False)), lw.DataField(1, "v", lw.AtomicType("INT"))]
VECTORS = {"bucket": "1", "deletion-vectors.enabled": "true", "changelog-producer": "input"}
LONG = {"bucket": "1", "changelog-producer": "input", "changelog.num-retained.max": "9"}


def observe(catalog: lw.Catalog) -> object:
    """Return the newest rows and those of the tag; read all that is there besides."""
    table = catalog.get_table("d.t")
    for snapshot_id in table.store.snapshots.ids():
        lw.read_table(table, snapshot_id=snapshot_id)
    tags = {tag: lw.read_table(table, tag=tag).sort_by("k").to_pylist() for tag in table.list_tags()}
    return lw.read_table(table).sort_by("k").to_pylist(), tags


@pytest.mark.parametrize(
    ("options", "kinds", "at_once"),
    [
        (VECTORS, some((FaultKind.CRASH_AFTER, FaultKind.ERROR_BEFORE), 0), 1),
        (LONG, (FaultKind.CRASH_BEFORE,), 1),
        (VECTORS, some((FaultKind.CRASH_AFTER, FaultKind.ERROR_BEFORE, FaultKind.ERROR_AFTER), 1), 4),
    ],
    ids=["vectors and changelog", "long-lived changelog", "concurrent calls"],
)
@pytest.mark.filterwarnings("ignore::lakewright.LakewrightWarning")
def test_every_fault_of_an_expiry_leaves_whole_snapshots(
    options: dict[str, str], kinds: Sequence[FaultKind], at_once: int
) -> None:
    def prepare(catalog: lw.Catalog) -> None:
        catalog.create_database("d")
        catalog.create_table("d.t", lw.Schema(FIELDS, None, ["k"], options))
        table = catalog.get_table("d.t")
        for number in range(3):
            rows = pa.table({"k": pa.array([number, 9], pa.int32()), "v": pa.array([number, number], pa.int32())})
            lw.write_table(rows, table, mode="upsert")
            if number == 1:
                table.create_tag("kept")

    def expire(catalog: lw.Catalog) -> None:
        catalog.get_table("d.t").expire_snapshots(retain_max=1)

    operation = Operation("expire", prepare, expire, expire)
    report = enumerate_faults(operation, observe, tuple(kinds), renames=at_once == 1, at_once=at_once)
    assert report.calls > 0
    assert report.failures == ()
    print(f"{report.operation}: {report.calls} calls, {report.runs} runs")

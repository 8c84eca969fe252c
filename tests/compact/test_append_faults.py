"""Every storage call of an append table's compaction fails once, in every way: the table stays whole."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakewright as lw
from contract.fault_enumerator import Operation, enumerate_faults
from support.effort import is_thin

pytestmark = pytest.mark.long

COLUMNS = pa.schema({"k": pa.int64(), "v": pa.int64()})
OPTIONS = {
    "deletion-vectors.enabled": "true",
    "row-tracking.enabled": "true",
    "data-evolution.enabled": "true",
    "compaction.min.file-num": "2",
    "target-file-row-num": "20",
}


def observe(catalog: lw.Catalog) -> object:
    """Return the rows and how the files lie."""
    table = catalog.get_table("d.t")
    snapshot = table.snapshot()
    assert snapshot is not None
    files = sorted(entry.file.row_count for entry in table.store.manifests.live(snapshot))
    index = table.store.manifests.read_index(snapshot.index_manifest) if snapshot.index_manifest else []
    deleted = sorted(r.cardinality or 0 for entry in index for r in entry.file.deletion_ranges or ())
    return sorted(map(repr, lw.read_table(table).to_pylist())), files, deleted


def with_groups(catalog: lw.Catalog) -> None:
    """Leave three groups, of which two are small; a vector of one of them is beside that of the third."""
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, options=OPTIONS))
    table = catalog.get_table("d.t")
    for low, high in ((0, 10), (10, 20), (20, 40)):
        keys = list(range(low, high))
        lw.write_table(pa.table({"k": keys, "v": keys}, COLUMNS), table)
    table.delete_by_row_id([3, 25])


def compact(catalog: lw.Catalog) -> None:
    catalog.get_table("d.t").compact()


def test_every_fault_leaves_the_table_whole() -> None:
    report = enumerate_faults(Operation("compact an append table", with_groups, compact), observe, thin=is_thin())
    assert report.calls > 0
    assert report.failures == ()

"""Every storage call of a compaction fails once, in every way: the table stays whole, and no file is left over."""

from __future__ import annotations

import warnings

import pyarrow as pa
import pytest

import lakewright as lw
from contract.fault_enumerator import Operation, enumerate_faults
from lakewright.errors import LakewrightWarning
from support.effort import is_thin

pytestmark = pytest.mark.long

COLUMNS = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.int32())])
VECTORS = {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"}


def observe(catalog: lw.Catalog) -> object:
    """Return the rows, how the files lie, and the buckets."""
    table = catalog.get_table("d.t")
    snapshot = table.snapshot()
    live = [] if snapshot is None else table.store.manifests.live(snapshot)
    levels = sorted((e.bucket, e.total_buckets, e.file.level, e.file.row_count) for e in live)
    changelog = [] if snapshot is None else table.store.manifests.changelog(snapshot)
    rows = sorted(map(repr, lw.read_table(table).to_pylist()))
    return rows, levels, len(changelog), table.options.bucket()


def with_vectors(catalog: lw.Catalog) -> None:
    catalog.create_database("d")
    stored = {"bucket": "1", "write-only": "true", **VECTORS}
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, primary_keys=["k"], options=stored))
    table = catalog.get_table("d.t")
    for number in range(3):
        keys = list(range(400)) if number == 0 else [number, number + 1, 500]
        builder = table.new_batch_write_builder()
        with warnings.catch_warnings(), builder.new_write() as write, builder.new_commit() as commit:
            warnings.simplefilter("ignore", LakewrightWarning)
            kinds = ["-D" if number == 2 and k == 2 else "+I" for k in keys]
            write.write_arrow(pa.table({"k": keys, "v": [number] * len(keys)}, schema=COLUMNS), row_kinds=kinds)
            commit.commit(write.prepare_commit())
        if number == 0:
            table.compact(full=True)


def compact(catalog: lw.Catalog) -> None:
    catalog.get_table("d.t").compact()


def test_every_fault_leaves_the_table_whole() -> None:
    report = enumerate_faults(Operation("with vectors and a changelog", with_vectors, compact), observe, thin=is_thin())
    assert report.calls > 0
    assert report.failures == ()

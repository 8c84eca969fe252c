"""Java reads append tables whose rows we deleted and updated: both forms of vectors, with and without buckets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakewright as lw
from support.java import Java

COLUMNS = pa.schema({"id": pa.int64(), "p": pa.string(), "n": pa.int64()})
COUNT = 9000  # enough for every kind of container in a bitmap


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    started = Java()
    yield started
    started.close()


@pytest.mark.parametrize("partitions", [None, ["p"]], ids=["whole", "partitioned"])
@pytest.mark.parametrize("buckets", [{}, {"bucket": "2", "bucket-key": "id"}], ids=["unaware", "buckets"])
@pytest.mark.parametrize("vectors", [None, "false", "true"], ids=["copies", "32", "64"])
def test_java_sees_what_we_deleted_and_updated(
    java: Java,
    catalog: lw.Catalog,
    vectors: str | None,
    buckets: dict[str, str],
    partitions: list[str] | None,
) -> None:
    forms = {} if vectors is None else {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": vectors}
    options = {**forms, **buckets}
    for name in ("d.t", "d.source"):
        catalog.create_table(name, lw.Schema.from_pyarrow_schema(COLUMNS, partition_keys=partitions, options=options))
    table = catalog.get_table("d.t")
    for first in (0, COUNT):
        ids = range(first, first + COUNT)
        lw.write_table(pa.table({"id": ids, "p": [f"p{i % 2}" for i in ids], "n": ids}), table)
    lw.write_table(pa.table({"id": [20000, 20001], "p": ["p0", "p1"], "n": [1, 2]}), catalog.get_table("d.source"))
    warehouse = Path(catalog.warehouse)

    def agreed() -> int:
        ours = sorted(list(row.values()) for row in lw.read_table(table).to_pylist())
        assert sorted(java.read(warehouse, "d.t")) == ours
        return len(ours)

    table.delete("id >= 100 AND id < 6000 OR id IN (8001, 8003, 9500)")
    assert agreed() == 2 * COUNT - 5903
    table.update({"n": pc.field("n") + 1}, "id > 8900 AND id < 9100")
    java.copy(warehouse, "d.source", "d.t")  # Java commits on top of our index
    table.delete(f"id < {COUNT} OR id = 20001")  # whole files go, in a bucket perhaps all that have a vector
    assert agreed() == COUNT - 1 + 1

"""Tables that only pypaimon lets anybody make: read, written on with a warning, or refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.errors import LakewrightWarning, UnsupportedError
from support.effort import some
from support.peers import Peers

COLUMNS = pa.schema([pa.field("p", pa.string()), pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])
ROWS = pa.table({"p": ["a", "b", "a", "b"], "k": [1, 2, 3, 4], "v": ["x"] * 4}, schema=COLUMNS)
MORE = pa.table({"p": ["a", "b"], "k": [5, 2], "v": ["y"] * 2}, schema=COLUMNS)


def _agreed(catalog: lw.Catalog, peers: Peers) -> list[tuple[Any, ...]]:
    ours = lw.read_table(catalog.get_table("d.t"))
    theirs = peers.read("pypaimon", Path(catalog.warehouse), "d.t")
    assert theirs is not None
    rows = [sorted(zip(*table.to_pydict().values(), strict=True)) for table in (ours, theirs)]
    assert rows[0] == rows[1]
    return rows[0]


@pytest.mark.parametrize(
    ("made", "warning", "count"),
    some(
        [
            ({"options": {"bucket": "3"}}, "no 'bucket-key', so all rows", 8),
            ({"options": {"bucket": "3"}, "partition_keys": ["p"]}, "no 'bucket-key', so all rows", 8),
            ({"options": {"bucket": "3", "bucket-key": "p"}, "partition_keys": ["p"]}, None, 8),
            (
                {"options": {"bucket": "3"}, "partition_keys": ["p"], "primary_keys": ["k"]},
                "unique in its partition",
                5,
            ),
        ],
        3,
    ),
    ids=str,
)
def test_odd_keys_are_written_as_pypaimon_does(
    catalog: lw.Catalog, peers: Peers, made: dict[str, Any], warning: str | None, count: int
) -> None:
    warehouse = Path(catalog.warehouse)
    peers.create(warehouse, "d.t", ROWS, **made)
    peers.append("pypaimon", warehouse, "d.t", ROWS)
    before = {path.parent for path in warehouse.glob("d.db/t/**/*.parquet")}
    if warning is None:
        lw.write_table(MORE, catalog.get_table("d.t"))
    else:
        with pytest.warns(LakewrightWarning, match=warning):
            lw.write_table(MORE, catalog.get_table("d.t"))
    if "no key" in str(warning):
        assert {path.parent for path in warehouse.glob("d.db/t/**/*.parquet")} == before
    peers.append("pypaimon", warehouse, "d.t", MORE)
    assert len(_agreed(catalog, peers)) == count
    assert lw.read_table(catalog.get_table("d.t"), filter="k = 5")["v"].to_pylist()[0] == "y"


@pytest.mark.parametrize("kind", some([pa.binary(), pa.binary(2)], 0), ids=str)
def test_binary_partitions_are_refused_by_name(catalog: lw.Catalog, peers: Peers, kind: pa.DataType) -> None:
    rows = pa.table({"p": pa.array([b"ab", b"\0\xff"], kind), "k": [1, 2]})
    warehouse = Path(catalog.warehouse)
    peers.create(warehouse, "d.t", rows, partition_keys=["p"])
    peers.append("pypaimon", warehouse, "d.t", rows)
    table = catalog.get_table("d.t")
    for call in (lambda: lw.read_table(table), lambda: lw.write_table(rows, table), lambda: table.compact(full=True)):
        with pytest.raises(UnsupportedError, match=r"'p' of type .* cannot be a partition key"):
            call()
    assert not table.remove_orphan_files(dry_run=True).paths
    with pytest.raises(UnsupportedError, match="'p'"):
        catalog.create_table("d.ours", lw.Schema.from_pyarrow_schema(rows.schema, partition_keys=["p"]))

"""Java Paimon reads the VARIANT columns that we write, plain, shredded and inside of other types, and copies them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright import variant
from support.golden import in_order, normalised, spelled
from support.java import Java

TEXTS = [
    '{"u":{"id":1,"ok":true},"l":[1,2,3],"d":1.25,"x":0.5e0,"raw":{"q":1},"s":"é"}',
    '{"u":{"id":"s","more":1},"l":[1,"a",null],"d":1.255,"x":1e300}',
    '{"u":5,"l":{},"raw":[1],"z":{"a":{"b":[[]]}}}',
    "{}",
    "[1, 2]",
    "null",
    None,
    '"text"',
    "3000000000",
]
FIELDS = [
    {
        "name": "u",
        "type": {"type": "ROW", "fields": [{"name": "id", "type": "BIGINT"}, {"name": "ok", "type": "BOOLEAN"}]},
    },
    {"name": "l", "type": {"type": "ARRAY", "element": "INT"}},
    {"name": "d", "type": "DECIMAL(10, 2)"},
    {"name": "x", "type": "DOUBLE"},
    {"name": "raw", "type": "VARIANT"},
    {"name": "s", "type": "STRING"},
]
SHREDDING = {"type": "ROW", "fields": [{"name": "v", "type": {"type": "ROW", "fields": FIELDS}}]}


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    started = Java()
    yield started
    started.close()


@pytest.mark.parametrize("is_shredded", [False, True], ids=["plain", "shredded"])
def test_java_reads_our_variants(java: Java, catalog: lw.Catalog, is_shredded: bool) -> None:
    column = variant.from_json(TEXTS)
    numbers = pa.array(range(len(TEXTS)), pa.int32())
    row = pa.StructArray.from_arrays([column], fields=[pa.field("w", column.type)])
    rows = pa.table({"id": numbers, "v": column, "r": row})
    options = {"parquet.variant.shreddingSchema": json.dumps(SHREDDING)} if is_shredded else {}
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(rows.schema, options=options))
    table = catalog.get_table("d.t")
    lw.write_table(rows, table)
    got = normalised(java.read(Path(catalog.warehouse), "d.t"), table.fields)
    assert in_order(got) == in_order(spelled(rows, table.fields))

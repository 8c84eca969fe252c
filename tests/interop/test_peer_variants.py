"""VARIANT columns that we write, plain and shredded, are read by the Python peers, and theirs by us."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright import variant
from support.peers import NAMES, Peers

TEXTS = [
    '{"age":35,"city":"Chicago","l":[1,2]}',
    '{"age":45,"city":null,"other":[1,2],"l":["a",null]}',
    '{"age":"old","city":"Rome"}',
    '{"age":3000000000,"x":1.25}',
    "{}",
    "[1,2]",
    "null",
    None,
]
FIELDS = [
    {"name": "age", "type": "INT"},
    {"name": "city", "type": "STRING"},
    {"name": "l", "type": {"type": "ARRAY", "element": "INT"}},
]
COLUMNS = [{"name": "v", "type": {"type": "ROW", "fields": FIELDS}}]
SHREDDED = {"variant.shreddingSchema": json.dumps({"type": "ROW", "fields": COLUMNS})}


def rows(texts: Sequence[str | None]) -> pa.Table:
    return pa.table({"id": pa.array(range(len(texts)), pa.int32()), "v": variant.from_json(list(texts))})


def values(found: pa.Table | None) -> list[object]:
    """Return parsed JSON in the order of the ids."""
    assert found is not None
    return [
        None if text is None else json.loads(text) for text in variant.to_json(found.sort_by("id")["v"]).to_pylist()
    ]


@pytest.mark.parametrize("options", [{}, SHREDDED], ids=["plain", "shredded"])
def test_peers_read_our_variants(catalog: lw.Catalog, peers: Peers, options: dict[str, str]) -> None:
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(rows([]).schema, options=options))
    lw.write_table(rows(TEXTS), catalog.get_table("d.t"))
    want = values(rows(TEXTS))
    for peer in NAMES:
        assert values(peers.read(peer, Path(catalog.warehouse), "d.t")) == want, peer


@pytest.mark.parametrize("peer", NAMES)
def test_we_read_variants_of_peers(catalog: lw.Catalog, peers: Peers, peer: str) -> None:
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(rows([]).schema))
    peers.append(peer, Path(catalog.warehouse), "d.t", rows(TEXTS))
    assert values(lw.read_table(catalog.get_table("d.t"))) == values(rows(TEXTS))

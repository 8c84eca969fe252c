"""Primary-key tables that we write, the Python peers read; and all of us upsert the same keys in turn."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.types import DataField
from support.effort import some
from support.golden import in_order, spelled
from support.peers import NAMES, Peers
from support.rows import NANOSECONDS, scalar_fields, scalar_rows


def _table(
    catalog: lw.Catalog,
    fields: Sequence[DataField],
    keys: Sequence[str],
    partition_keys: Sequence[str] = (),
    **options: str,
) -> lw.FileStoreTable:
    stored = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    stored = {"bucket": "2", "write-only": "true", **stored}
    catalog.create_table("d.t", lw.Schema(list(fields), list(partition_keys), list(keys), options=stored))
    return catalog.get_table("d.t")


def _rows(table: pa.Table | None, fields: Sequence[DataField]) -> list[str]:
    assert table is not None
    target = to_arrow_schema(fields)
    columns = [table[field.name].cast(field.type) for field in target]
    loose = pa.schema([field.with_nullable(True) for field in target])  # noqa: FBT003 - pyarrow's signature
    return in_order(spelled(pa.table(columns, schema=loose), fields))


SIMPLE = [
    DataField(0, "k", lw.AtomicType("BIGINT")),
    DataField(1, "name", lw.AtomicType("STRING")),
    DataField(2, "n", lw.AtomicType("INT")),
]


@pytest.mark.parametrize(
    ("peer", "file_format", "thin"),
    some(list(itertools.product(NAMES, ["parquet", "orc", "avro"], ["true", "false"])), 0, 9),
)
def test_peers_read_our_upserts_and_deletes(
    catalog: lw.Catalog, peers: Peers, peer: str, file_format: str, thin: str
) -> None:
    table = _table(catalog, SIMPLE, ["k"], file__format=file_format, data_file__thin_mode=thin)
    chance = random.Random(3)
    model: dict[int, tuple[str | None, int]] = {}
    for turn in range(3):
        keys = chance.sample(range(200), 120)
        rows = {k: (None if k % 7 == 0 else f"name {k}", turn) for k in keys}
        lw.write_table(
            pa.table({"k": keys, "name": [rows[k][0] for k in keys], "n": pa.array([turn] * 120, pa.int32())}), table
        )
        model |= rows
        gone = chance.sample(sorted(model), 20)
        lw.write_table(pa.table({"k": gone}), table, "delete")
        model = {k: v for k, v in model.items() if k not in gone}
    want = pa.table(
        {"k": list(model), "name": [v[0] for v in model.values()], "n": [v[1] for v in model.values()]},
        schema=pa.schema({"k": pa.int64(), "name": pa.string(), "n": pa.int32()}),
    )
    assert _rows(lw.read_table(table), SIMPLE) == _rows(want, SIMPLE)
    assert _rows(peers.read(peer, Path(catalog.warehouse), "d.t"), SIMPLE) == _rows(want, SIMPLE)


@pytest.mark.parametrize(("peer", "column"), some([(peer, column) for column in range(1, 25) for peer in NAMES], 17))
def test_peers_read_keys_of_any_type(catalog: lw.Catalog, peers: Peers, peer: str, column: int) -> None:
    fields = scalar_fields()
    if column >= len(fields):
        pytest.skip("no such column")
    key = fields[column]
    if peer == "pypaimon" and str(key.type) in NANOSECONDS:
        pytest.skip("pypaimon 2.1.0 cuts the nanoseconds of merged rows")
    pair = [DataField(0, "k", key.type), DataField(1, "id", lw.AtomicType("INT"))]
    rows = scalar_rows(fields).select([key.name, "id"]).rename_columns(["k", "id"]).slice(1, 2)
    table = _table(catalog, pair, ["k"])
    lw.write_table(rows, table)
    again = rows.set_column(1, "id", pa.array([12, 13], pa.int32()))
    lw.write_table(again, table)
    stored = table.fields
    assert _rows(lw.read_table(table), stored) == _rows(again, stored)
    assert _rows(peers.read(peer, Path(catalog.warehouse), "d.t"), stored) == _rows(again, stored)


def test_all_write_the_same_keys_in_turn(catalog: lw.Catalog, peers: Peers) -> None:
    fields = [DataField(0, "p", lw.AtomicType("STRING")), *(DataField(f.id + 1, f.name, f.type) for f in SIMPLE)]
    table = _table(catalog, fields, ["p", "k", "name"], ["p"], bucket="3")
    chance = random.Random(4)
    model: dict[tuple[str, int, str], int] = {}
    warehouse = Path(catalog.warehouse)
    for turn in range(3):
        for writer in ("lakewright", *NAMES):
            keys = [(chance.choice("ab"), k, f"name {k % 3}") for k in chance.sample(range(60), 40)]
            number = 10 * turn + len(writer)
            rows = pa.table(
                {
                    "p": [k[0] for k in keys],
                    "k": [k[1] for k in keys],
                    "name": [k[2] for k in keys],
                    "n": pa.array([number] * len(keys), pa.int32()),
                }
            )
            if writer == "lakewright":
                lw.write_table(rows, table)
            else:
                peers.append(writer, warehouse, "d.t", rows)
            model |= dict.fromkeys(keys, number)
    want = pa.table(
        {
            "p": [k[0] for k in model],
            "k": [k[1] for k in model],
            "name": [k[2] for k in model],
            "n": pa.array(list(model.values()), pa.int32()),
        }
    )
    stored = table.fields
    assert _rows(lw.read_table(table), stored) == _rows(want, stored)
    for peer in NAMES:
        assert _rows(peers.read(peer, warehouse, "d.t"), stored) == _rows(want, stored)


@pytest.mark.parametrize(("peer", "function"), some(list(itertools.product(NAMES, ["default", "mod", "hive"])), 0))
def test_peers_find_rows_in_the_buckets_we_chose(catalog: lw.Catalog, peers: Peers, peer: str, function: str) -> None:
    if peer == "pypaimon" and function != "default":
        pytest.skip("pypaimon 2.1.0 knows only the default bucket function")
    table = _table(catalog, SIMPLE, ["k"], bucket="4", bucket_function__type=function)
    rows = pa.table({"k": list(range(-20, 20)), "name": ["ours"] * 40, "n": pa.array([1] * 40, pa.int32())})
    lw.write_table(rows, table)
    # A peer that took another bucket for a key would leave two rows of it.
    theirs = rows.set_column(1, "name", pa.array(["theirs"] * 40))
    peers.append(peer, Path(catalog.warehouse), "d.t", theirs)
    assert _rows(lw.read_table(table), table.fields) == _rows(theirs, table.fields)

"""Lance files, where pylance is installed: `make nightly PART=lance` runs this in an environment that has it."""

from __future__ import annotations

import importlib.util
import io
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.errors import CorruptTableError, UnsupportedError
from lakewright.formats.format_registry import load_format
from lakewright.spec.arrow_types import from_arrow_schema
from support.data_files import read, write

needs_pylance = pytest.mark.skipif(importlib.util.find_spec("lance") is None, reason="needs pylance")
VERSIONS = {False: bytes.fromhex("00000300"), True: bytes.fromhex("02000100")}  # 2.0, and 2.1 where a ROW may be null
COLUMNS: dict[str, pa.Array] = {
    "yes": pa.array([True, None, False]),
    "tiny": pa.array([1, None, -128], pa.int8()),
    "big": pa.array([1, None, -(2**63)]),
    "single": pa.array([1.5, None, float("-inf")], pa.float32()),
    "double": pa.array([1.1, None, 5e-324]),
    "amount": pa.array([None, 1, 2], pa.decimal128(38, 4)),
    "text": pa.array(["ä", None, ""]),
    "bytes": pa.array([b"\0", None, b""]),
    "day": pa.array([1, None, -1], pa.date32()),
    "clock": pa.array([1, None, 86_399_999], pa.time32("ms")),
    "micros": pa.array([1, None, -1], pa.timestamp("us")),
    "nanos": pa.array([1, None, -1], pa.timestamp("ns")),
    "list": pa.array([[1, None], None, []], pa.list_(pa.field("element", pa.int32()))),
    "vector": pa.array([[1, 2], None, [3, -0.0]], pa.list_(pa.field("element", pa.float32()), 2)),
}


@pytest.fixture
def catalog(tmp_path: Path) -> lw.Catalog:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path / "a b%20c")})
    catalog.create_database("d", ignore_if_exists=True)
    return catalog


@needs_pylance
@pytest.mark.parametrize("with_rows", [False, True])
def test_every_allowed_type_comes_back(*, with_rows: bool) -> None:
    columns = COLUMNS
    if with_rows:
        columns = {**COLUMNS, "row": pa.array([{"x": 1}, None, {"x": None}], pa.struct([("x", pa.int32())]))}
    table = pa.table(columns)
    fields = from_arrow_schema(table.schema)
    data, facts = write("lance", [table, table.slice(1)], fields)
    assert data[-8:-4] == VERSIONS[with_rows]
    assert facts.row_count == 5
    rows, positions = read("lance", data, fields, batch_rows=2)
    assert rows.to_pylist() == pa.concat_tables([table, table.slice(1)]).to_pylist()
    assert positions == [0, 1, 2, 3, 4]
    rows, _ = read("lance", data, (fields[6], fields[0]))
    assert rows.column_names == ["text", "yes"]
    rows, _ = read("lance", data, from_arrow_schema(pa.schema({"later": pa.int32()})))
    assert rows["later"].null_count == 5


@needs_pylance
def test_rows_within_a_range_are_read() -> None:
    table = pa.table({"id": range(100)})
    fields = from_arrow_schema(table.schema)
    data, _ = write("lance", [table], fields)
    reader = load_format("lance").open_reader(io.BytesIO(data), path="memory", size=len(data), fields=fields)
    found = [(at, batch["id"].to_pylist()) for at, batch in reader.batches(within=range(40, 45), batch_rows=3)]
    assert found == [(40, [40, 41, 42]), (43, [43, 44])]
    reader.close()


@needs_pylance
def test_damage_is_noticed_where_lance_notices_it() -> None:
    table = pa.table({"id": range(100)})
    fields = from_arrow_schema(table.schema)
    data, _ = write("lance", [table], fields)
    for broken in (data[:-1], data[:7], data[: len(data) // 2] + b"LANC", bytes(len(data) - 8) + data[-8:]):
        with pytest.raises(CorruptTableError, match="memory"):
            read("lance", broken, fields)


@needs_pylance
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bucket": "1", "changelog-producer": "lookup"},
        {"bucket": "1", "deletion-vectors.enabled": "true"},
        {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"},
    ],
    ids=str,
)
def test_tables_of_lance_files_change_as_others_do(catalog: lw.Catalog, options: dict[str, str]) -> None:
    columns = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("v", pa.list_(pa.float32(), 2)), ("s", pa.string())]
    )
    keys = ["id"] if "bucket" in options else []
    schema = lw.Schema.from_pyarrow_schema(columns, primary_keys=keys, options={"file.format": "lance", **options})
    catalog.create_table("d.t", schema, ignore_if_exists=False)
    table = catalog.get_table("d.t")
    rows: list[dict[str, Any]] = [{"id": n, "v": [n, -n] if n % 3 else None, "s": str(n)} for n in range(50)]
    lw.write_table(pa.Table.from_pylist(rows[:30], columns), table)
    lw.write_table(pa.Table.from_pylist(rows[30:], columns), table)
    table.update({"s": "changed"}, "id >= 40")
    table.delete("id < 10")
    catalog.alter_table("d.t", [lw.SchemaChange.rename_column("s", "text"), lw.SchemaChange.add_column("n", "INT")])
    table = catalog.get_table("d.t")
    table.compact(full=True)
    wanted = [
        {"id": r["id"], "v": r["v"], "text": "changed" if r["id"] >= 40 else r["s"], "n": None} for r in rows[10:]
    ]
    assert lw.read_table(table).sort_by("id").to_pylist() == wanted
    assert lw.read_table(table, columns=["text"], filter="id = 12").to_pylist() == [{"text": "12"}]
    assert table.verify(full=True).is_sound
    snapshot = table.snapshot()
    assert snapshot is not None
    for entry in table.store.manifests.live(snapshot):
        assert entry.file.value_stats_cols == ()
        assert (len(entry.file.min_key) > 12) == bool(keys)


@pytest.mark.parametrize("arrow", [pa.map_(pa.string(), pa.int32()), pa.timestamp("us", tz="UTC")], ids=str)
def test_types_that_lance_files_cannot_hold_are_refused_at_creation(catalog: lw.Catalog, arrow: pa.DataType) -> None:
    schema = lw.Schema.from_pyarrow_schema(pa.schema({"x": arrow}), options={"file.format": "lance"})
    with pytest.raises(UnsupportedError, match=r"'x' .*Lance files cannot hold"):
        catalog.create_table("d.t", schema)


def test_the_package_is_named_where_it_is_missing(catalog: lw.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lance", None)
    monkeypatch.delitem(sys.modules, "lakewright.formats.lance_files", raising=False)
    load_format.cache_clear()
    options = {"file.format": "lance"}
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"a": pa.int32()}), options=options))
    table = catalog.get_table("d.t")
    with pytest.raises(UnsupportedError, match="pylance"):
        lw.write_table({"a": [1]}, table)
    assert table.snapshot() is None
    load_format.cache_clear()

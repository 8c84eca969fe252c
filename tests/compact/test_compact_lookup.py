"""Keys of every type are found in deeper levels, and only rows that may match are looked at."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewright.compact import keyed_compaction
from lakewright.compact.compaction_job import compact_table
from lakewright.compact.keyed_compaction import ANY, read_lookup_keys
from lakewright.lsm.key_order import KeyOrder
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_file_reader import KeyedFiles
from lakewright.read.manifest_scan import FileSchemas
from lakewright.read.read_builder import ReadBuilder
from lakewright.spec.manifest import EMPTY_ROW
from lakewright.spec.system_columns import DELETE, INSERT
from support.effort import each_once
from support.keyed_tables import commit_rows, keyed_store, levels, live

_START = dt.datetime(1969, 12, 31, 23, 59, 58)  # noqa: DTZ001 - a local timestamp
TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), list(range(-50, 350))),
    "text": (pa.string(), [f"key {n * n} é" for n in range(400)]),
    "bytes": (pa.binary(), [n.to_bytes(3, "big") for n in range(400)]),
    "date": (pa.date32(), [dt.date(1969, 6, 1) + dt.timedelta(n) for n in range(400)]),
    "timestamp": (pa.timestamp("us"), [_START + dt.timedelta(microseconds=7 * n) for n in range(400)]),
    "nanoseconds": (pa.timestamp("ns"), [pa.scalar(n - 200, pa.timestamp("ns")) for n in range(400)]),
    "decimal": (pa.decimal128(20, 2), [Decimal(n - 100) / 4 for n in range(400)]),
    "double": (pa.float64(), [-0.0, 0.0, float("-inf"), *(n / 8 - 20.05 for n in range(1, 398))]),
}


def _rows(store: TableStore) -> dict[Any, int]:
    builder = ReadBuilder(store)
    table = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    return {_plain(key): value.as_py() for key, value in zip(table["k"], table["v"], strict=True)}


def _plain(key: Any) -> str:  # noqa: ANN401 - any scalar
    scalar = key if isinstance(key, pa.Scalar) else pa.scalar(key)
    return repr(scalar.value if pa.types.is_timestamp(scalar.type) else scalar.as_py())


@pytest.mark.parametrize(("kind", "held"), each_once(list(TYPES), [True, False]))
def test_keys_of_every_type_are_found(tmp_path: Path, kind: str, held: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not held:
        monkeypatch.setattr(keyed_compaction, "_KEYS_MAX", 0)
    dtype, keys = TYPES[kind]
    schema = pa.schema([pa.field("k", dtype, nullable=False), ("v", pa.int64())])
    store = keyed_store(tmp_path / "t", {"deletion-vectors.enabled": "true"}, schema)
    keys = [pa.scalar(key, dtype) for key in keys]
    commit_rows(store, [(INSERT, key, 0) for key in keys])
    compact_table(store)
    commit_rows(store, [(INSERT, key, 1) for key in keys[:3]] + [(DELETE, keys[7], None)])
    compact_table(store)
    assert levels(store) == {5: 1, 4: 1}
    newest = store.snapshots.latest()
    assert newest is not None
    assert newest.index_manifest is not None
    (index,) = store.manifests.read_index(newest.index_manifest)
    assert [r.cardinality for r in index.file.deletion_ranges or ()] == [4]
    found = _rows(store)
    assert len(found) == 399
    assert {key for key, v in found.items() if v == 1} == {_plain(key) for key in keys[:3]}


def test_composite_keys_are_found(tmp_path: Path) -> None:
    schema = pa.schema(
        [pa.field("a", pa.string(), nullable=False), pa.field("b", pa.int32(), nullable=False), ("v", pa.int64())]
    )
    store = keyed_store(tmp_path / "t", {"deletion-vectors.enabled": "true"}, schema, ("a", "b"))
    commit_rows(store, [(INSERT, f"a{n % 10}", n // 10, 0) for n in range(500)])
    compact_table(store)
    commit_rows(store, [(INSERT, "a1", 2, 1), (INSERT, "a2", 1, 1), (INSERT, "a9", 99, 1)])
    compact_table(store)
    builder = ReadBuilder(store)
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist()
    assert len(rows) == 501
    assert {(row["a"], row["b"]) for row in rows if row["v"]} == {("a1", 2), ("a2", 1), ("a9", 99)}


def test_only_keys_of_level_0_are_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = keyed_store(tmp_path / "t")
    commit_rows(store, [(INSERT, k, 0, "a") for k in (3, 9, 5)])
    (entry,) = live(store)
    files = KeyedFiles(store, FileSchemas(store), EMPTY_ROW, 0, store.schema.fields)
    key = KeyOrder(store.schema.trimmed_primary_key_fields)
    wanted = read_lookup_keys(files, [entry.file], key)
    assert str(wanted.skip) == "k IN (3, 5, 9)"
    rows = pa.table({"k": pa.array([1, 3, 4, 9], pa.int32())})
    assert wanted.filter(rows)["k"].to_pylist() == [3, 9]
    monkeypatch.setattr(keyed_compaction, "_LITERALS_MAX", 2)
    assert "BETWEEN" in str(read_lookup_keys(files, [entry.file], key).skip)
    monkeypatch.setattr(keyed_compaction, "_KEYS_MAX", 2)
    assert read_lookup_keys(files, [entry.file], key) == ANY
    assert ANY.filter(rows) is rows

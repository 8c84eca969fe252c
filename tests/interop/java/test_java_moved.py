"""Java reads tables that files of other writers were moved into, and copies of tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.orc as pa_orc
import pyarrow.parquet as pq
import pytest

import lakewright as lw
from support.java import Java


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    started = Java()
    yield started
    started.close()


def _write(rows: pa.Table, path: Path, kind: str) -> None:
    path.parent.mkdir(parents=True)
    if kind == "parquet":
        pq.write_table(rows, path)
    elif kind == "orc":
        pa_orc.write_table(rows, str(path))
    else:
        kinds = {pa.int32(): "int", pa.int64(): "long", pa.string(): "string"}
        fields = [{"name": one.name, "type": ["null", kinds[one.type]]} for one in rows.schema]
        with path.open("wb") as out:
            fastavro.writer(out, {"type": "record", "name": "r", "fields": fields}, rows.to_pylist())


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_java_reads_moved_files(java: Java, catalog: lw.Catalog, tmp_path: Path, kind: str) -> None:
    old = tmp_path / "old"
    _write(pa.table({"id": pa.array([1, None], pa.int32())}), old / "day=2026-01-30/city=a%2Fb/x", kind)
    _write(pa.table({"id": [2**40], "note": ["n"]}), old / "day=2026-01-31/city=__HIVE_DEFAULT_PARTITION__/x", kind)
    lw.migrate(catalog, "d.moved", old)
    table, warehouse = catalog.get_table("d.moved"), Path(catalog.warehouse)
    wanted = [[1, None, "2026-01-30", "a/b"], [2**40, "n", "2026-01-31", None], [None, None, "2026-01-30", "a/b"]]
    assert sorted(java.read(warehouse, "d.moved"), key=str) == wanted
    assert java.find(warehouse, "d.moved", "note", "n") == [wanted[1]]
    ours = [[row["id"], row["note"], str(row["day"]), row["city"]] for row in lw.read_table(table).to_pylist()]
    assert sorted(ours, key=str) == wanted


def test_java_reads_a_copy_with_deletion_vectors(java: Java, catalog: lw.Catalog) -> None:
    options = {"deletion-vectors.enabled": "true"}
    columns = pa.schema({"k": pa.int64(), "s": pa.string()})
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, options=options))
    table = catalog.get_table("d.t")
    lw.write_table(pa.table({"k": range(5), "s": list("abcde")}), table)
    table.delete("k = 2")
    lw.copy_table(table, catalog, "d.copied")
    assert sorted(java.read(Path(catalog.warehouse), "d.copied")) == [[0, "a"], [1, "b"], [3, "d"], [4, "e"]]

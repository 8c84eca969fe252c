"""Views of a table's rows: `$ro` without a merge, `$row_tracking` with ids."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw

ROWS = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])


def catalog_of(warehouse: Path) -> lw.Catalog:
    catalog = lw.CatalogFactory.create({"warehouse": str(warehouse)})
    catalog.create_database("d")
    return catalog


def rows(**values: list[object]) -> pa.Table:
    return pa.table(values, schema=ROWS)


@pytest.mark.parametrize("options", [{}, {"merge-engine": "partial-update"}])
def test_read_optimized_shows_the_highest_level(tmp_path: Path, options: dict[str, str]) -> None:
    catalog = catalog_of(tmp_path)
    catalog.create_table(
        "d.t", lw.Schema.from_pyarrow_schema(ROWS, primary_keys=["k"], options={"bucket": "1", **options})
    )
    table = catalog.get_table("d.t")
    lw.write_table(rows(k=[1, 2], v=["a", "b"]), table)
    table.compact(full=True)
    last = table.snapshot()
    lw.write_table(rows(k=[2, 3], v=["B", "C"]), table.copy({"write-only": "true"}))
    view = catalog.get_table("d.t$ro")
    assert (view.name, view.field_names, list(view.primary_keys)) == ("d.t$ro", ["k", "v"], ["k"])
    assert lw.read_table(view) == rows(k=[1, 2], v=["a", "b"])
    assert lw.read_table(view, filter="v = 'b'", columns=["k"])["k"].to_pylist() == [2]
    assert lw.read_table(view, filter="v = 'B'").num_rows == 0
    table.compact(full=True)
    assert lw.read_table(catalog.get_table("d.t$ro")) == rows(k=[1, 2, 3], v=["a", "B", "C"])
    assert last is not None
    assert lw.read_table(catalog.get_table("d.t$ro"), snapshot_id=last.id) == rows(k=[1, 2], v=["a", "b"])
    assert lw.sql("SELECT v FROM d.`t$ro` WHERE k > 1 ORDER BY k", catalog=catalog)["v"].to_pylist() == ["B", "C"]


def test_read_optimized_of_a_table_without_a_key_is_the_table(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(ROWS))
    lw.write_table(rows(k=[1], v=["a"]), catalog.get_table("d.t"))
    assert lw.read_table(catalog.get_table("d.t$ro")) == rows(k=[1], v=["a"])


def test_rows_with_their_ids(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(ROWS, options={"row-tracking.enabled": "true"}))
    for number in (7, 8):
        lw.write_table(rows(k=[number], v=["x"]), catalog.get_table("d.t"))
    view = catalog.get_table("d.t$row_tracking")
    assert view.field_names == ["k", "v", "_ROW_ID", "_SEQUENCE_NUMBER"]
    found = lw.read_table(view)
    assert found.select(["k", "_ROW_ID", "_SEQUENCE_NUMBER"]).to_pydict() == {
        "k": [7, 8],
        "_ROW_ID": [0, 1],
        "_SEQUENCE_NUMBER": [1, 2],
    }
    assert lw.read_table(view, columns=["_ROW_ID"], filter="_ROW_ID = 1").to_pydict() == {"_ROW_ID": [1]}


@pytest.mark.parametrize("name", ["d.t$ro", "d.t$row_tracking", "d.t$audit_log"])
def test_views_are_never_written(tmp_path: Path, name: str) -> None:
    catalog = catalog_of(tmp_path)
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(ROWS, options={"row-tracking.enabled": "true"}))
    with pytest.raises(lw.UnsupportedError, match="read-only"):
        catalog.get_table(name).new_batch_write_builder()


def test_a_table_without_row_ids_has_no_view_of_them(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(ROWS))
    with pytest.raises(lw.UnsupportedError, match="does not track rows"):
        catalog.get_table("d.t$row_tracking")

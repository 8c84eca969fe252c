"""Every table that Java wrote reads equal, at every snapshot, tag and branch."""

from __future__ import annotations

from typing import Any

import pytest

import lakewright as lw
from lakewright.errors import UnsupportedError
from support.golden import WAREHOUSE, expected, expected_rows, in_order, normalised, spelled

TABLES = sorted(expected())


@pytest.fixture(scope="module")
def catalog() -> lw.Catalog:
    return lw.CatalogFactory.create({"warehouse": str(WAREHOUSE)})


def _assert_reads(table: lw.FileStoreTable, spec: dict[str, Any], numbers: list[int]) -> None:
    builder = table.new_read_builder()
    fields = builder.read_type()
    unordered = [n for n, field in enumerate(fields) if field.name in spec.get("unorderedArrays", ())]
    got = spelled(builder.new_read().to_arrow(), fields)
    want = normalised(expected_rows(spec, numbers), fields)
    assert in_order(got, unordered) == in_order(want, unordered)


def _read_or_refuse(table: lw.FileStoreTable, spec: dict[str, Any], numbers: list[int]) -> None:
    """Compare; a table that may be refused must be refused with the right error, naming what is not supported."""
    try:
        _assert_reads(table, spec, numbers)
    except UnsupportedError:
        if not spec.get("mayRefuse"):
            raise


@pytest.mark.parametrize("name", TABLES)
def test_latest(catalog: lw.Catalog, name: str) -> None:
    spec = expected()[name]
    table = catalog.get_table(name)
    columns = [[field.id, field.name, str(field.type)] for field in table.fields]
    assert columns == spec["columns"]
    _read_or_refuse(table, spec, spec["rows"])


@pytest.mark.parametrize("name", [n for n in TABLES if expected()[n]["snapshots"]])
def test_every_snapshot(catalog: lw.Catalog, name: str) -> None:
    spec = expected()[name]
    table = catalog.get_table(name)
    assert table.store.snapshots.ids() == [s["id"] for s in spec["snapshots"]]
    for snapshot in spec["snapshots"]:
        stored = table.snapshot(snapshot["id"])
        assert stored is not None
        assert (stored.commit_kind, stored.schema_id) == (snapshot["kind"], snapshot["schemaId"])
        assert stored.total_record_count == snapshot["totalRecordCount"]
        _read_or_refuse(table.copy({"scan.snapshot-id": str(snapshot["id"])}), spec, snapshot["rows"])


@pytest.mark.parametrize("name", [n for n in TABLES if expected()[n].get("tags")])
def test_every_tag(catalog: lw.Catalog, name: str) -> None:
    spec = expected()[name]
    table = catalog.get_table(name)
    assert sorted(table.list_tags()) == sorted(spec["tags"])
    for tag, numbers in spec["tags"].items():
        _assert_reads(table.copy({"scan.tag-name": tag}), spec, numbers)


@pytest.mark.parametrize("name", [n for n in expected() if expected()[n].get("branches")])
def test_every_branch_is_there(catalog: lw.Catalog, name: str) -> None:
    spec = expected()[name]
    assert catalog.list_branches(name) == sorted(spec["branches"])
    for branch, numbers in spec["branches"].items():
        table = catalog.get_table(f"{name}$branch_{branch}")
        assert table.snapshot() is not None
        _assert_reads(table, spec, numbers)


@pytest.mark.parametrize("name", [n for n in TABLES if expected()[n].get("files")])
def test_live_files(catalog: lw.Catalog, name: str) -> None:
    rows = lw.read_table(catalog.get_table(f"{name}$files")).to_pylist()
    got = sorted((r["file_path"].rsplit("/")[-1], r["bucket"], r["level"], r["record_count"]) for r in rows)
    want = sorted((f["file"], f["bucket"], f["level"], f["rows"]) for f in expected()[name]["files"])
    assert got == want


@pytest.mark.parametrize("name", [n for n in TABLES if expected()[n].get("rowTracking")])
def test_row_ids(catalog: lw.Catalog, name: str) -> None:
    spec = expected()[name]
    table = catalog.get_table(name)
    names = [*table.field_names, "_ROW_ID", "_SEQUENCE_NUMBER"]
    try:
        builder = table.new_read_builder().with_projection(names)
        got = builder.new_read().to_arrow()
    except UnsupportedError:
        assert spec.get("mayRefuse")
        return
    fields = builder.read_type()
    want = normalised(expected_rows(spec, spec["rowTracking"]), fields)
    assert in_order(spelled(got, fields)) == in_order(want)

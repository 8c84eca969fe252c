"""Copies of tables: the same rows, vectors, indexes and schemas in another table, whatever was cut short before."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from contract.fault_enumerator import Operation, enumerate_faults
from contract.faulty_storage import MemoryStorage
from lakewright.catalog.filesystem_catalog import FileSystemCatalog
from lakewright.errors import DatabaseNotExistException, TableAlreadyExistException
from support.effort import is_thin
from support.s3 import S3Server

COLUMNS = pa.schema({"k": pa.int64(), "p": pa.string()})
CASES: dict[str, tuple[list[str], dict[str, str]]] = {
    "append": ([], {"deletion-vectors.enabled": "true"}),
    "keyed": (["p", "k"], {"bucket": "2"}),
    "dynamic": (["p", "k"], {"bucket": "-1"}),
    "tracked": ([], {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}),
}


def catalog_at(place: Path) -> lw.Catalog:
    made = lw.CatalogFactory.create({"warehouse": str(place)})
    made.create_database("d")
    return made


def filled(catalog: lw.Catalog, kind: str) -> lw.FileStoreTable:
    keys, options = CASES[kind]
    schema = lw.Schema.from_pyarrow_schema(COLUMNS, partition_keys=["p"], primary_keys=keys, options=options)
    catalog.create_table("d.t", schema)
    for low in (0, 5):
        lw.write_table(pa.table({"k": range(low, low + 10), "p": ["a", "b"] * 5}), catalog.get_table("d.t"))
    catalog.alter_table("d.t", [lw.SchemaChange.add_column("new", "INT")])
    table = catalog.get_table("d.t")
    rows = pa.table({"k": [3], "p": ["b"], "new": pa.array([7], pa.int32())})
    lw.write_table(rows, table)
    if kind == "tracked":
        table.update_by_row_id(pa.table({"_ROW_ID": [1], "k": [100]}))
    else:
        table.delete("k = 4")
    return table


def rows(table: lw.FileStoreTable) -> list[str]:
    return sorted(map(str, lw.read_table(table).to_pylist()))


@pytest.mark.parametrize("kind", CASES)
def test_a_copy_has_the_same_rows_and_goes_on(tmp_path: Path, kind: str) -> None:
    table, there = filled(catalog_at(tmp_path / "here"), kind), catalog_at(tmp_path / "there")
    planned = lw.copy_table(table, there, "d.c", dry_run=True)
    assert there.list_tables("d") == []
    done = lw.copy_table(table, there, "d.c")
    assert (done.files, done.rows, done.snapshot_id) == (planned.files, planned.rows, 1)
    copied = there.get_table("d.c")
    assert rows(copied) == rows(table)
    assert copied.schema.options == table.schema.options
    for one in (table, copied):
        lw.write_table(pa.table({"k": [4, 900], "p": ["a", "b"], "new": pa.array([1, 2], pa.int32())}), one)
        one.compact(full=True)
    assert rows(copied) == rows(table)
    with pytest.raises(TableAlreadyExistException):
        lw.copy_table(table, there, "d.c")


def test_a_tag_a_snapshot_and_some_partitions_can_be_copied(tmp_path: Path) -> None:
    catalog = catalog_at(tmp_path)
    table = filled(catalog, "append")
    table.create_tag("first", 1)
    assert lw.copy_table(table, catalog, "d.tagged", tag="first").rows == 10
    assert lw.copy_table(table, catalog, "d.second", snapshot_id=2, where="p = 'a'").rows == 10
    assert set(lw.read_table(catalog.get_table("d.second"))["p"].to_pylist()) == {"a"}
    with pytest.raises(lw.InvalidInputError):
        lw.copy_table(table, catalog, "d.third", where="k = 1")
    with pytest.raises(DatabaseNotExistException):
        lw.copy_table(table, catalog, "absent.t")


@pytest.mark.s3
@pytest.mark.parametrize("kind", [pytest.param("append", marks=pytest.mark.nightly), "keyed"])
def test_a_copy_goes_from_storage_to_storage(tmp_path: Path, s3_server: S3Server, kind: str) -> None:
    """A local table is copied to S3, from there to memory, and back to the disk."""
    table = filled(catalog_at(tmp_path), kind)
    wanted, memory = rows(table), MemoryStorage(f"copies-{kind}")
    bucket = {"warehouse": f"s3://{s3_server.make_bucket()}/w", **s3_server.options}
    homes: list[lw.Catalog] = [
        lw.CatalogFactory.create(bucket),
        FileSystemCatalog(memory, f"{memory.root}/w", {}),
        lw.CatalogFactory.create({"warehouse": str(tmp_path / "back")}),
    ]
    for number, catalog in enumerate(homes):
        catalog.create_database("d")
        assert lw.copy_table(table, catalog, "d.c").snapshot_id == 1, number
        table = catalog.get_table("d.c")
        assert rows(table) == wanted
        assert table.verify(full=True).findings == ()
    memory.clear()


@pytest.mark.long
@pytest.mark.parametrize("renames", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_every_fault_leaves_a_whole_copy_or_none(*, renames: bool) -> None:
    def prepare(catalog: lw.Catalog) -> None:
        catalog.create_database("d")
        catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS))
        lw.write_table(pa.table({"k": [1, 2], "p": ["a", "b"]}), catalog.get_table("d.t"))

    def run(catalog: lw.Catalog) -> None:
        lw.copy_table(catalog.get_table("d.t"), catalog, "d.c")

    def observe(catalog: lw.Catalog) -> list[str]:
        if "c" not in catalog.list_tables("d"):
            return []
        copied = catalog.get_table("d.c")
        assert copied.verify(full=True, snapshots="all").is_sound
        return rows(copied)

    report = enumerate_faults(Operation("copy", prepare, run), observe, renames=renames, thin=is_thin())
    assert report.calls > 10
    assert report.failures == ()


def test_statistics_of_the_rows_that_are_copied_come_along(tmp_path: Path) -> None:
    source, target = (lw.CatalogFactory.create({"warehouse": str(tmp_path / name)}) for name in ("from", "to"))
    for catalog in (source, target):
        catalog.create_database("d")
    columns = pa.schema({"p": pa.string(), "n": pa.int64()})
    source.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, partition_keys=["p"]))
    table = source.get_table("d.t")
    lw.write_table(pa.table({"p": ["a", "b"], "n": [1, 2]}), table)
    counted = table.analyze("all")
    assert lw.copy_table(table, target, "d.whole").snapshot_id == 1
    copy = target.get_table("d.whole")
    found = copy.statistics()
    assert found is not None
    assert (found.snapshot_id, found.row_count, found.columns) == (1, 2, counted.columns)
    assert copy.verify(full=True).is_sound
    lw.copy_table(table, target, "d.part", where="p = 'a'")
    lw.write_table(pa.table({"p": ["a"], "n": [3]}), table)
    lw.copy_table(table, target, "d.later")
    assert [target.get_table(name).statistics() for name in ("d.part", "d.later")] == [None, None]
    assert table.statistics() is not None


def test_a_copy_does_without_statistics_that_are_damaged(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", pa.schema({"n": pa.int64()}))
    table = catalog.get_table("d.t")
    lw.write_table(pa.table({"n": [1]}), table)
    table.analyze()
    for path in Path(table.table_path, "statistics").iterdir():
        path.write_text("{")
    with pytest.warns(lw.LakewrightWarning, match=r"copied without its statistics .* call table.analyze\(\)"):
        assert lw.copy_table(table, catalog, "d.copy").rows == 1
    assert catalog.get_table("d.copy").statistics() is None

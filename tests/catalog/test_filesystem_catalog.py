from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from contract.faulty_storage import MemoryStorage
from lakewright.catalog.filesystem_catalog import open_filesystem
from lakewright.errors import (
    BranchNotExistException,
    ColumnNotExistException,
    DatabaseNotEmptyException,
    DatabaseNotExistException,
    TableAlreadyExistException,
    TableNotExistException,
    TagAlreadyExistException,
    TagNotExistException,
)

ID = lw.DataField(0, "id", lw.AtomicType("BIGINT"))
DAY = lw.DataField(1, "day", lw.AtomicType("STRING"))


@pytest.fixture(params=["local", "memory"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> lw.FileSystemCatalog:
    if request.param == "local":
        return open_filesystem({"warehouse": str(tmp_path / "warehouse")})
    storage = MemoryStorage(f"catalog-{tmp_path.name}")
    return lw.FileSystemCatalog(storage, f"{storage.root}/warehouse")


def _make(catalog: lw.Catalog, name: str = "d.t", **options: str) -> lw.FileStoreTable:
    catalog.create_database(name.partition(".")[0], ignore_if_exists=True)
    catalog.create_table(name, lw.Schema([ID, DAY], ["day"], options=options))
    return catalog.get_table(name)


def _rows(*ids: int, day: str = "a") -> pa.Table:
    return pa.table({"id": list(ids), "day": [day] * len(ids)})


def test_databases_are_created_listed_and_dropped(catalog: lw.FileSystemCatalog) -> None:
    assert catalog.list_databases() == []
    for name in ("b", "a"):
        catalog.create_database(name)
    catalog.create_database("a", ignore_if_exists=True)
    assert catalog.list_databases() == ["a", "b"]
    assert catalog.get_database("a").name == "a"
    _make(catalog, "a.t")
    with pytest.raises(DatabaseNotEmptyException, match="cascade"):
        catalog.drop_database("a")
    catalog.drop_database("a", cascade=True)
    catalog.drop_database("a", ignore_if_not_exists=True)
    with pytest.raises(DatabaseNotExistException):
        catalog.drop_database("a")
    assert catalog.list_databases() == ["b"]


def test_a_dropped_property_is_told(catalog: lw.FileSystemCatalog) -> None:
    with pytest.warns(lw.LakewrightWarning, match="owner"):
        catalog.create_database("d", properties={"owner": "me"})


@pytest.mark.parametrize("name", ["", "a/b", "..", "a\x00b", "x" * 300])
def test_hostile_names_are_refused(catalog: lw.Catalog, name: str) -> None:
    with pytest.raises(lw.InvalidInputError):
        catalog.create_database(name)
    catalog.create_database("d")
    with pytest.raises(lw.InvalidInputError):
        catalog.create_table(lw.Identifier.create("d", name), lw.Schema([ID]))


def test_create_and_drop(catalog: lw.FileSystemCatalog) -> None:
    table = _make(catalog)
    lw.write_table(_rows(1), table)
    with pytest.raises(TableAlreadyExistException, match=r"d\.t"):
        catalog.create_table("d.t", lw.Schema([ID]))
    catalog.create_table("d.t", lw.Schema([ID]), ignore_if_exists=True)
    assert catalog.get_table("d.t").field_names == ["id", "day"]
    catalog.drop_table("d.t")
    assert catalog.list_tables("d") == []
    with pytest.raises(TableNotExistException):
        catalog.drop_table("d.t")
    catalog.drop_table("d.t", ignore_if_not_exists=True)
    assert lw.read_table(_make(catalog)).num_rows == 0, "a table made again starts empty"


def test_the_leftovers_of_a_drop_that_was_cut_short_do_not_come_back(catalog: lw.FileSystemCatalog) -> None:
    table = _make(catalog)
    lw.write_table(_rows(1), table)
    catalog.storage.delete(table.store.layout.schema_file(0))
    assert catalog.list_tables("d") == []
    with pytest.raises(lw.InvalidInputError, match="drop_table"):
        catalog.create_table("d.t", lw.Schema([ID]))
    catalog.drop_table("d.t")
    assert lw.read_table(_make(catalog)).num_rows == 0


def test_a_renamed_table_keeps_its_rows(catalog: lw.FileSystemCatalog) -> None:
    lw.write_table(_rows(1, 2), _make(catalog))
    _make(catalog, "e.taken")
    with pytest.raises(TableAlreadyExistException):
        catalog.rename_table("d.t", "e.taken")
    with pytest.raises(DatabaseNotExistException):
        catalog.rename_table("d.t", "nowhere.t")
    catalog.rename_table("d.t", "e.moved")
    assert catalog.list_tables("d") == []
    assert lw.read_table(catalog.get_table("e.moved")).num_rows == 2
    with pytest.raises(TableNotExistException):
        catalog.rename_table("d.t", "d.u")
    catalog.rename_table("d.t", "d.u", ignore_if_not_exists=True)


def test_a_schema_change_is_stored_as_a_new_schema(catalog: lw.FileSystemCatalog) -> None:
    _make(catalog)
    added = lw.SchemaChange.add_column("n", lw.AtomicType("INT"), move=lw.Move.first("n"))
    catalog.alter_table("d.t", [added, lw.SchemaChange.set_option("write-only", "true")])
    table = catalog.get_table("d.t")
    assert (table.field_names, table.schema.id) == (["n", "id", "day"], 1)
    with pytest.raises(TableNotExistException):
        catalog.alter_table("d.none", [added])
    catalog.alter_table("d.none", [added], ignore_if_not_exists=True)
    with pytest.raises(lw.InvalidInputError):
        catalog.alter_table("d.t", [lw.SchemaChange.drop_column("day")])
    assert catalog.get_table("d.t").schema.id == 1


def test_default_options_of_the_catalog(tmp_path: Path) -> None:
    options = {"warehouse": str(tmp_path), "table-default.file.format": "orc", "table-default.write-only": "true"}
    table = _make(lw.CatalogFactory.create(options), **{"write-only": "false"})
    assert table.schema.options == {"file.format": "orc", "write-only": "false"}


def test_partitions_are_listed_in_pages(catalog: lw.FileSystemCatalog) -> None:
    table = _make(catalog)
    for day in ("a", "b", "c"):
        lw.write_table(_rows(1, 2, day=day), table)
    lw.write_table(pa.table({"id": [9], "day": pa.array([None], pa.string())}), table)
    first = catalog.list_partitions_paged("d.t", max_results=2)
    rest = catalog.list_partitions_paged("d.t", page_token=first.next_page_token)
    specs = [partition.spec["day"] for page in (first, rest) for partition in page.elements]
    assert specs == ["__DEFAULT_PARTITION__", "a", "b", "c"]
    assert rest.next_page_token is None
    (only,) = catalog.list_partitions_paged("d.t", partition_name_pattern="day=b%").elements
    assert (only.record_count, only.file_count, only.total_buckets) == (2, 1, -1)
    catalog.drop_partitions("d.t", [{"day": "a"}, {"day": "__DEFAULT_PARTITION__"}])
    assert sorted(set(lw.read_table(table)["day"].to_pylist())) == ["b", "c"]


def test_a_tag_stays_as_long_as_the_table_says_unless_the_call_does(catalog: lw.FileSystemCatalog) -> None:
    table = _make(catalog).copy({"tag.default-time-retained": "2 d"})
    lw.write_table(_rows(1), table)
    table.create_tag("default")
    table.create_tag("own", time_retained="1 h")
    table.create_tag("replaced", time_retained="1 h")
    table.replace_tag("replaced")
    kept = {name: table.store.tags.get(name).time_retained for name in table.list_tags()}
    assert kept == {"default": timedelta(days=2), "own": timedelta(hours=1), "replaced": timedelta(days=2)}


def test_tags_are_created_listed_and_deleted(catalog: lw.FileSystemCatalog) -> None:
    table = _make(catalog)
    with pytest.raises(lw.NotFoundError, match="write something first"):
        catalog.create_tag("d.t", "one")
    lw.write_table(_rows(1), table)
    lw.write_table(_rows(2), table)
    catalog.create_tag("d.t", "one", snapshot_id=1, time_retained="1 d")
    catalog.create_tag("d.t", "two")
    with pytest.raises(TagAlreadyExistException):
        catalog.create_tag("d.t", "one")
    assert catalog.list_tags_paged("d.t", tag_name_prefix="t").elements == ["two"]
    assert catalog.get_tag("d.t", "one").snapshot.id == 1
    table.replace_tag("one", 2)
    assert table.snapshot(tag="one") == table.snapshot(2)
    table.rename_tag("one", "uno")
    catalog.delete_tag("d.t", "two")
    assert table.list_tags() == ["uno"]
    with pytest.raises(TagNotExistException, match="uno"):
        catalog.get_tag("d.t", "two")


def test_system_tables(catalog: lw.FileSystemCatalog) -> None:
    table = _make(catalog, bucket="2", **{"bucket-key": "id"})
    lw.write_table(_rows(1, 2, 3), table)
    lw.write_table(_rows(4, day="b"), table, mode="overwrite")
    snapshots = lw.read_table(catalog.get_table("d.t$snapshots"))
    assert snapshots["commit_kind"].to_pylist() == ["APPEND", "OVERWRITE"]
    assert snapshots["total_record_count"].to_pylist() == [3, 4]
    filtered = lw.read_table(catalog.get_table("d.t$snapshots"), filter="snapshot_id = 2", columns=["schema_id"])
    assert filtered.to_pylist() == [{"schema_id": 0}]
    schemas = lw.read_table(catalog.get_table("d.t$schemas")).to_pylist()
    assert [(row["schema_id"], row["partition_keys"]) for row in schemas] == [(0, '["day"]')]
    options = lw.read_table(catalog.get_table("d.t$options")).to_pylist()
    assert {row["key"]: row["value"] for row in options} == {"bucket": "2", "bucket-key": "id"}
    files = lw.read_table(catalog.get_table("d.t$files")).to_pylist()
    assert sum(row["record_count"] for row in files) == 4
    assert {row["partition"] for row in files} == {"day=a", "day=b"}
    assert '"id":"4"' in next(row["max_value_stats"] for row in files if row["partition"] == "day=b")
    at_first = catalog.get_table("d.t$files")
    assert len(at_first.row_type().fields) == len(lw.read_table(at_first).schema)
    with pytest.raises(lw.NotFoundError, match=r"\$snapshots"):
        catalog.get_table("d.t$nothing")
    with pytest.raises(ColumnNotExistException):
        lw.read_table(catalog.get_table("d.t$options"), columns=["nothing"])


def test_catalog_options_are_checked(tmp_path: Path) -> None:
    with pytest.raises(lw.InvalidInputError, match="warehouse"):
        lw.CatalogFactory.create({})
    with pytest.raises(lw.UnsupportedError, match="hive"):
        lw.CatalogFactory.create({"warehouse": str(tmp_path), "metastore": "hive"})


def test_a_table_opened_by_its_path_is_the_same(catalog: lw.FileSystemCatalog) -> None:
    table = _make(catalog)
    lw.write_table(_rows(7), table.table_path)
    opened = lw.open_table(table.table_path)
    assert (opened.name, opened.schema) == (table.name, table.schema)
    assert lw.read_table(opened)["id"].to_pylist() == [7]
    with pytest.raises(TableNotExistException):
        lw.open_table(table.table_path + "x")
    with pytest.raises(BranchNotExistException):
        catalog.get_table("d.t$branch_b")


@pytest.mark.parametrize(
    ("name", "keys"),
    [("snapshots", ["snapshot_id"]), ("options", ["key"]), ("files", ["file_path"]), ("audit_log", [])],
)
def test_system_tables_have_the_properties_of_tables(tmp_path: Path, name: str, keys: list[str]) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": tmp_path})
    catalog.create_database("d")
    catalog.create_table("d.t", pa.schema({"id": pa.int64()}))
    owner, view = catalog.get_table("d.t"), catalog.get_table(f"d.t${name}")
    assert view.name == f"d.t${name}"
    assert view.identifier.get_full_name() == view.name
    assert view.field_names == [field.name for field in view.fields] == list(view.schema.field_names)
    assert (view.primary_keys, view.partition_keys) == (keys, [])
    assert view.primary_keys() == keys  # type: ignore[operator] # as pypaimon's users write it
    assert (list(view.schema.primary_keys), view.comment()) == (keys, None)
    assert (view.table_path, view.options.to_map()) == (owner.table_path, owner.options.to_map())
    assert [field.name for field in view.row_type().fields] == view.field_names


def test_databases_and_tables_come_in_pages(catalog: lw.FileSystemCatalog) -> None:
    for name in ("a1", "a2", "b1"):
        catalog.create_database(name)
        catalog.create_table(f"a1.{name}", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()})))
    first = catalog.list_databases_paged(2)
    assert (first.elements, first.next_page_token) == (["a1", "a2"], "a2")
    assert catalog.list_databases_paged(2, first.next_page_token).elements == ["b1"]
    assert catalog.list_databases_paged(database_name_pattern="a*").elements == ["a1", "a2"]
    assert catalog.list_tables_paged("a1", table_name_pattern="%1").elements == ["a1", "b1"]
    assert catalog.list_tables_paged("a1", 1, "a1").elements == ["a2"]
    with pytest.raises(DatabaseNotExistException):
        catalog.list_tables_paged("no")


def test_a_file_is_not_a_warehouse(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path / "file")})
    for call in (catalog.list_databases, lambda: catalog.create_database("d"), lambda: catalog.get_table("d.t")):
        with pytest.raises(lw.InvalidInputError, match=r"/file is not a directory .*'warehouse'"):
            call()


@pytest.mark.parametrize("call", [lw.read_table, lambda name: lw.write_table({"a": [1]}, name)], ids=["read", "write"])
def test_a_name_in_place_of_a_path_is_noticed(call: Callable[[str], object]) -> None:
    with pytest.raises(lw.NotFoundError, match=r"'d\.a' is taken for a path: give catalog\.get_table\('d\.a'\)"):
        call("d.a")

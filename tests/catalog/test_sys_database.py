"""The database `sys` of a catalog: what it says of all tables, and that nobody else can have it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.errors import DatabaseNotExistException, TableNotExistException

ROWS = pa.schema([pa.field("day", pa.string()), pa.field("id", pa.int64(), nullable=False)])


@pytest.fixture(params=["files", "jdbc"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> lw.Catalog:
    options = {"warehouse": str(tmp_path), "s3.secret-key": "hidden"}
    if request.param == "jdbc":
        options |= {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/names.db"}
    made = lw.CatalogFactory.create(options)
    made.create_database("d")
    made.create_database("e")
    made.create_table("d.plain", lw.Schema.from_pyarrow_schema(ROWS, options={"owner": "ada"}))
    parted = lw.Schema.from_pyarrow_schema(ROWS, ["day"], ["day", "id"], options={"bucket": "1"})
    made.create_table("e.parted", parted)
    lw.write_table(pa.table({"day": ["a", "b", "b"], "id": [1, 2, 3]}, schema=ROWS), made.get_table("e.parted"))
    return made


def test_sys_tables_lists_all_tables(catalog: lw.Catalog) -> None:
    found = lw.read_table(catalog.get_table("sys.tables")).to_pylist()
    columns = ("database_name", "table_name", "table_type", "partitioned", "primary_key", "owner", "created_by")
    assert [tuple(row[name] for name in columns) for row in found] == [
        ("d", "plain", "table", False, False, "ada", None),
        ("e", "parted", "table", True, True, None, None),
    ]
    assert [row["record_count"] for row in found] == [None, 3]


def test_sys_partitions_and_options_list_those_of_all_tables(catalog: lw.Catalog) -> None:
    found = lw.read_table(catalog.get_table("sys.partitions"), filter="record_count > 1").to_pylist()
    [files] = lw.read_table(catalog.get_table("e.parted$files"), filter="partition = 'day=b'").to_pylist()
    assert [tuple(row.values()) for row in found] == [
        ("e", "parted", "day=b", 2, files["file_size_in_bytes"], 1, found[0]["last_file_creation_time"], False)
    ]
    options = lw.read_table(catalog.get_table("sys.all_table_options")).to_pylist()
    assert ("e", "parted", "bucket", "1") in [tuple(row.values()) for row in options]
    place = catalog.get_table("e.parted").table_path
    assert ("e", "parted", "path", place) in [tuple(row.values()) for row in options]


def test_options_of_the_catalog_show_no_secrets(catalog: lw.Catalog) -> None:
    rows = lw.read_table(catalog.get_table("sys.catalog_options")).to_pylist()
    assert {row["key"]: row["value"] for row in rows}["s3.secret-key"] == "***"


def test_it_is_described_and_read_by_sql(catalog: lw.Catalog) -> None:
    names = ["all_table_options", "catalog_options", "partitions", "tables"]
    assert catalog.list_tables("sys") == names
    assert "sys" not in catalog.list_databases()
    assert catalog.get_database("sys").name == "sys"
    context = lw.SQLContext(catalog, database="d")
    assert context.sql("SELECT table_name FROM sys.tables WHERE primary_key")["table_name"].to_pylist() == ["parted"]
    query = "SELECT p.partition_name FROM sys.partitions p JOIN sys.tables t USING (database_name, table_name)"
    assert context.sql(f"{query} ORDER BY 1")["partition_name"].to_pylist() == ["day=a", "day=b"]
    assert context.sql("SHOW TABLES IN sys")["tableName"].to_pylist() == names
    with pytest.raises(lw.InvalidInputError, match="it has no past states"):
        context.sql("SELECT * FROM sys.tables VERSION AS OF 1")
    with pytest.raises(TableNotExistException, match="sys has all_table_options, catalog_options"):
        catalog.get_table("sys.table")


def test_nobody_else_has_it(catalog: lw.Catalog) -> None:
    with pytest.raises(lw.InvalidInputError, match="belongs to the catalog"):
        catalog.create_database("sys")
    with pytest.raises(lw.UnsupportedError, match="read-only"):
        catalog.get_table("sys.tables").new_batch_write_builder()
    with pytest.raises((TableNotExistException, DatabaseNotExistException)):
        catalog.drop_table("sys.tables")


def test_a_table_that_cannot_be_opened_is_listed_by_its_name(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    for name in ("bad", "good"):
        catalog.create_table(f"d.{name}", ROWS)
    Path(catalog.get_table("d.bad").table_path, "schema", "schema-0").write_text("{")
    rows = lw.read_table(catalog.get_table("sys.tables")).to_pylist()
    assert [(row["table_name"], row["table_type"]) for row in rows] == [("bad", None), ("good", "table")]
    options = lw.read_table(catalog.get_table("sys.all_table_options"))
    assert set(options["table_name"].to_pylist()) == {"good"}

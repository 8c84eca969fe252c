"""pypaimon's catalogs on a server: their class names, verbs and managers, which ask the server and not the files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright.pypaimon as face
from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.pypaimon.compat_server_catalogs import RESTCatalog
from support.rest_server import RestServer, running_rest

COLUMNS = pa.schema({"dt": pa.string(), "n": pa.int64()})


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    with running_rest(str(tmp_path)) as running:
        yield running


@pytest.fixture
def catalog(server: RestServer) -> RESTCatalog:
    made = face.CatalogFactory.create(server.options)
    assert isinstance(made, RESTCatalog)
    made.create_database("d", properties={"owner": "ann"})
    made.create_table("d.t", face.Schema.from_pyarrow_schema(COLUMNS, partition_keys=["dt"]))
    return made


def write(table: face.FileStoreTable, dt: str, n: int) -> None:
    builder = table.new_batch_write_builder()
    with builder.new_write() as writer, builder.new_commit() as commit:
        commit.commit(writer.write_arrow(pa.table({"dt": [dt], "n": [n]}, schema=COLUMNS)).prepare_commit())


def test_a_table_of_a_server_has_pypaimons_shapes(catalog: RESTCatalog) -> None:
    table = catalog.get_table("d.t")
    assert isinstance(catalog, face.Catalog)
    assert isinstance(table, face.FileStoreTable)
    write(table, "a", 1)
    reading = table.new_read_builder()
    assert reading.new_read().to_arrow(reading.new_scan().plan().splits()).to_pylist() == [{"dt": "a", "n": 1}]


def test_the_managers_of_a_table_ask_the_server(catalog: RESTCatalog, server: RestServer) -> None:
    table = catalog.get_table("d.t")
    write(table, "a", 1)
    write(table, "b", 2)
    server.log.clear()
    newest = table.snapshot_manager().get_latest_snapshot()
    assert newest is not None
    assert newest.id == 2
    table.tag_manager().create_tag(newest, "good")
    assert table.tag_manager().list_tags() == ["good"]
    table.branch_manager().create_branch("b")
    assert table.branch_manager().branches() == ["b"]
    assert table.schema_manager.commit_changes(face.SchemaChange.set_option("target-file-size", "9 mb")).id == 1
    asked = {entry.request.split("?")[0].rpartition("/tables/t")[2] for entry in server.log}
    assert {"/snapshot", "/tags", "/branches", ""} <= asked
    with pytest.raises(UnsupportedError, match="belong to a server: call commit_changes"):
        table.schema_manager.commit(table.table_schema)


def test_a_server_knows_the_newest_snapshot(catalog: RESTCatalog) -> None:
    assert catalog.supports_version_management()
    assert catalog.load_snapshot("d.t") is None
    write(catalog.get_table("d.t"), "a", 1)
    found = catalog.load_snapshot("d.t")
    assert found is not None
    assert (found.snapshot.id, found.record_count, found.file_count) == (1, 1, 1)
    assert found.file_size_in_bytes > 0


def test_a_snapshot_is_committed_as_it_is(catalog: RESTCatalog) -> None:
    write(catalog.get_table("d.t"), "a", 1)
    first = catalog.load_snapshot("d.t")
    assert first is not None
    # Its id is taken.
    assert catalog.commit_snapshot("d.t", None, None, first.snapshot, []) is False


def test_properties_of_a_database_change(catalog: RESTCatalog) -> None:
    changes = [face.PropertyChange.set_property("team", "x"), face.PropertyChange.remove_property("owner")]
    catalog.alter_database("d", changes)
    options = catalog.get_database("d").options
    assert options["team"] == "x"
    assert "owner" not in options


def test_a_table_is_rolled_back_to_an_instant(catalog: RESTCatalog) -> None:
    table = catalog.get_table("d.t")
    for n in (1, 2, 3):
        write(table, "a", n)
    catalog.create_tag("d.t", "two", 2)
    catalog.rollback_to("d.t", face.Instant.tag("two"))
    newest = catalog.get_table("d.t").snapshot_manager().get_latest_snapshot()
    assert newest is not None
    assert newest.id == 2


def test_other_kinds_are_refused_with_pypaimons_words(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"Unknown catalog identifier: hive\. Use filesystem, rest, jdbc"):
        face.CatalogFactory.create({"metastore": "hive", "warehouse": str(tmp_path)})
    with pytest.raises(InvalidInputError, match="'warehouse' path must be set"):
        face.CatalogFactory.create({"metastore": "rest", "uri": "http://127.0.0.1:1"})


def test_options_of_catalogs_have_names() -> None:
    assert face.CatalogOptions.METASTORE.key() == "metastore"
    assert face.CatalogOptions.METASTORE.default_value() == "filesystem"
    assert face.CatalogOptions.DATA_TOKEN_ENABLED.default_value() is False
    assert face.S3Options.S3_ACCESS_KEY_SECRET.key() == "fs.s3.accessKeySecret"
    assert face.JdbcCatalogOptions.CATALOG_KEY.default_value() == "jdbc"

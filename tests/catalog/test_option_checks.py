"""No option is ignored in silence, whichever way it reaches a table: it works, is refused, or is warned about once."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.errors import InvalidInputError, LakewrightWarning, UnsupportedError
from lakewright.spec.option_checks import check_catalog_options
from lakewright.spec.option_table import is_of_storage
from lakewright.storage.credentials import setting_names

COLUMNS = pa.schema({"id": pa.int64(), "n": pa.int64()})
ROWS = pa.table({"id": [1], "n": [2]})


@pytest.fixture
def catalog(tmp_path: Path) -> lw.Catalog:
    made = lw.CatalogFactory.create({"warehouse": tmp_path})
    made.create_database("d")
    made.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS))
    lw.write_table(ROWS, made.get_table("d.t"))
    return made


def stored(catalog: lw.Catalog, options: dict[str, str]) -> None:
    """Put options into the schema file of `d.t`, as another implementation would."""
    path = Path(catalog.get_table("d.t").table_path) / "schema" / "schema-0"
    schema = json.loads(path.read_text())
    schema.pop("checksum", None)
    path.write_text(json.dumps({**schema, "options": {**schema["options"], **options}}))


def create(catalog: lw.Catalog, options: dict[str, str]) -> None:
    catalog.create_table("d.new", lw.Schema.from_pyarrow_schema(COLUMNS, options=options))


def create_by_default(catalog: lw.Catalog, options: dict[str, str]) -> None:
    defaults = {f"table-default.{key}": value for key, value in options.items()}
    other = lw.CatalogFactory.create({"warehouse": catalog.warehouse, **defaults})
    other.create_table("d.new", lw.Schema.from_pyarrow_schema(COLUMNS))


def alter(catalog: lw.Catalog, options: dict[str, str]) -> None:
    catalog.alter_table("d.t", [lw.SchemaChange.set_option(key, value) for key, value in options.items()])


def copy(catalog: lw.Catalog, options: dict[str, str]) -> None:
    catalog.get_table("d.t").copy(options)


def open_path(catalog: lw.Catalog, options: dict[str, str]) -> None:
    lw.open_table(catalog.get_table("d.t").table_path, options)


def open_stored(catalog: lw.Catalog, options: dict[str, str]) -> None:
    stored(catalog, options)
    catalog.get_table("d.t")


GIVEN = [create, create_by_default, alter, copy, open_path]
Way = Callable[[lw.Catalog, dict[str, str]], None]


@pytest.mark.parametrize("way", [*GIVEN, open_stored])
def test_an_unknown_key_is_warned_about_once_with_the_nearest_one(catalog: lw.Catalog, way: Way) -> None:
    with pytest.warns(LakewrightWarning, match="'target-file-sise'.*did you mean 'target-file-size'") as caught:
        way(catalog, {"target-file-sise": "1 mb"})
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if catalog.list_tables("d") == ["t"]:
            catalog.get_table("d.t").copy({"target-file-sise": "1 mb"})


@pytest.mark.parametrize("way", GIVEN)
@pytest.mark.parametrize(
    ("key", "value", "remedy"),
    [
        ("query-auth.enabled", "true", "an engine that asks the server"),
        ("chain-table.enabled", "true", "read it with Java"),
        ("scan.bucket", "1", "filter by the bucket key"),
        ("blob-view-field", "n", "the engine that made it"),
        ("pk-btree.index.columns", "n", "write the table with Java"),
    ],
)
def test_what_cannot_be_ignored_is_refused_where_it_is_given(
    catalog: lw.Catalog, way: Way, key: str, value: str, remedy: str
) -> None:
    with pytest.raises(UnsupportedError, match=f"table d.(t|new): the option '{key}' = '{value}'.*{remedy}") as caught:
        way(catalog, {key: value})
    assert caught.value.facts["option"] == key
    assert catalog.list_tables("d") == ["t"]
    assert key not in catalog.get_table("d.t").schema.options


@pytest.mark.parametrize("kind", ["format-table", "object-table", "iceberg-table", "lance-table"])
def test_tables_of_another_type_are_refused_by_name(catalog: lw.Catalog, kind: str) -> None:
    with pytest.raises(UnsupportedError, match=f"'type' = '{kind}'.*the engine that made it"):
        create(catalog, {"type": kind})
    stored(catalog, {"type": kind})
    table = catalog.get_table("d.t")
    with pytest.raises(UnsupportedError, match=f"table d.t: the option 'type' = '{kind}'"):
        lw.read_table(table)
    with pytest.raises(UnsupportedError, match=f"table d.t: the option 'type' = '{kind}'"):
        lw.write_table(ROWS, table)


@pytest.mark.parametrize("way", GIVEN)
def test_values_that_ask_for_nothing_and_harmless_keys_pass(catalog: lw.Catalog, way: Way) -> None:
    way(
        catalog, {"query-auth.enabled": "false", "read.allow.fullScan": "TRUE", "lookup.cache-rows": "5", "owner": "me"}
    )


def test_a_stored_option_is_refused_when_read_or_only_when_written(catalog: lw.Catalog) -> None:
    stored(catalog, {"pk-btree.index.columns": "n"})
    table = catalog.get_table("d.t")
    assert lw.read_table(table).num_rows == 1
    for change in (lambda: lw.write_table(ROWS, table), lambda: table.delete("id = 1"), table.compact):
        with pytest.raises(UnsupportedError, match=r"'pk-btree\.index\.columns'"):
            change()
    stored(catalog, {"incremental-to-auto-tag": "2026-01-09"})
    table = catalog.get_table("d.t")
    with pytest.raises(UnsupportedError, match=r"incremental-to-auto-tag.*'incremental-between'"):
        lw.read_table(table)
    with pytest.raises(UnsupportedError, match="incremental-to-auto-tag"):
        table.new_read_builder().new_scan().plan()
    with pytest.raises(UnsupportedError, match="incremental-to-auto-tag"):
        table.new_stream_read_builder().new_read()


def test_an_option_of_readers_does_not_stop_writers(catalog: lw.Catalog) -> None:
    stored(catalog, {"scan.plan-sort-partition": "true"})
    table = catalog.get_table("d.t")
    lw.write_table(ROWS, table)
    with pytest.raises(UnsupportedError, match=r"'scan.plan-sort-partition' = 'true'.*sort them"):
        lw.read_table(table)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"partition.end-input-to-done": "true"}, "'partition.end-input-to-done' = 'true'.*mark_partition_done"),
        ({"metadata.iceberg.storage": "table-location"}, "Iceberg.*read it as a Paimon table"),
        ({"commit.callbacks": "com.x.Y", "commit.callback.com.x.Y.param": "z"}, "add_commit_callback"),
        ({"metastore.partitioned-table": "true"}, "repair the table there"),
    ],
)
def test_what_a_commit_does_not_do_is_said_once(catalog: lw.Catalog, options: dict[str, str], said: str) -> None:
    alter(catalog, options)
    table = catalog.get_table("d.t")
    with pytest.warns(LakewrightWarning, match=f"table d.t: a commit does nothing about .*{said}") as caught:
        lw.write_table(ROWS, table)
    assert len(caught) == 1
    lw.write_table(ROWS, catalog.get_table("d.t"))  # a second warning would be an error here
    assert lw.read_table(table).num_rows == 3


def test_a_stored_list_with_a_blank_name_is_refused(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": tmp_path})
    catalog.create_database("d")
    options = {"bucket": 1, "write-only": "true"}
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, primary_keys="id", options=options))
    stored(catalog, {"sequence.field": "n,"})  # as Java reads it: one name
    for _ in range(2):  # two files, which a read merges
        lw.write_table(ROWS, catalog.get_table("d.t"))
    assert lw.read_table(catalog.get_table("d.t")).num_rows == 1
    stored(catalog, {"sequence.field": "n,,id"})
    table = catalog.get_table("d.t")
    for use in (lambda: lw.read_table(table), lambda: lw.write_table(ROWS, table)):
        with pytest.raises(lw.InvalidInputError, match=r"'sequence.field' cannot be 'n,,id': .*none of them blank"):
            use()


def test_the_default_asks_a_commit_for_nothing(catalog: lw.Catalog) -> None:
    alter(catalog, {"tag.automatic-creation": "none", "metadata.iceberg.storage": "disabled"})
    lw.write_table(ROWS, catalog.get_table("d.t"))


def test_a_write_only_table_leaves_expiry_to_others(catalog: lw.Catalog) -> None:
    alter(catalog, {"write-only": "true", "snapshot.num-retained.max": "2", "tag.automatic-creation": "watermark"})
    lw.write_table(ROWS, catalog.get_table("d.t"))


def test_the_same_key_of_two_tables_is_said_twice(catalog: lw.Catalog) -> None:
    for number in range(2):
        with pytest.warns(LakewrightWarning, match=f"table d.n{number}: unknown option 'my.own'"):
            catalog.create_table(f"d.n{number}", lw.Schema.from_pyarrow_schema(COLUMNS, options={"my.own": "x"}))


# ---- options of catalogs, storages and paths -------------------------------------------------------------------------


def test_options_of_storages_are_not_warned_about(tmp_path: Path) -> None:
    assert [name for name in setting_names() if not is_of_storage(name)] == []
    storage = {"s3.endpoint": "x", "fs.oss.endpoint": "y", "AWS_REGION": "z", "cache-enabled": "false"}
    lw.CatalogFactory.create({"warehouse": tmp_path, "metastore": "filesystem", **storage})


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("warehose", "x", "unknown option 'warehose'.*'warehouse'"),
        ("s3.acces-key", "x", "unknown storage option 's3.acces-key', which has no effect.*'s3.access-key'"),
        ("s3.endpont", "x", "unknown storage option 's3.endpont'.*'s3.endpoint'"),
        ("fs.s3a.secret", "x", "unknown storage option 'fs.s3a.secret', which has no effect"),
        ("scan.snapshot-id", "1", "'table-default.scan.snapshot-id' for new tables, or to table.copy"),
        ("lock.enabled", "true", "no lock is taken"),
        ("uri", "http://localhost", "it is for catalogs with metastore=jdbc or metastore=rest"),
        ("dlf.region", "x", "it is for catalogs with metastore=rest, and the metastore here is 'filesystem'"),
        ("jdbc.user", "x", "it is for catalogs with metastore=jdbc, and"),
    ],
)
def test_options_that_do_nothing_for_a_catalog_are_said_once(tmp_path: Path, key: str, value: str, said: str) -> None:
    with pytest.warns(LakewrightWarning, match=f"catalog at {tmp_path}: .*{said}") as caught:
        lw.CatalogFactory.create({"warehouse": tmp_path, key: value})
    assert len(caught) == 1
    lw.CatalogFactory.create({"warehouse": tmp_path, key: value})


OF_REST = {
    "uri": "http://localhost:1",
    "token.provider": "bear",
    "token": "t0p",
    "prefix": "p",
    "data-token.enabled": "true",
    "dlf.access-key-secret": "s3cr3t",
    "header.X-Team": "a",
    "table-default.bucket": "1",
}
OF_JDBC = {
    "uri": "jdbc:sqlite:x",
    "catalog-key": "c",
    "jdbc.password": "pa55",
    "sync-all-properties": "false",
    "lock.enabled": "true",
    "lock.type": "jdbc",
    "lock-acquire-timeout": "1 min",
    "lock-check-max-sleep": "1 s",
    "lock-key-max-length": "99",
    "client-pool-size": "3",
    "table-default.bucket": "1",
}
SHARED = {"uri", "table-default.bucket"}


@pytest.mark.parametrize(
    ("metastore", "own", "others"), [("rest", OF_REST, OF_JDBC), ("jdbc", OF_JDBC, OF_REST)], ids=["rest", "jdbc"]
)
def test_a_catalog_takes_its_own_options_and_warns_of_those_of_another_kind(
    metastore: str, own: dict[str, str], others: dict[str, str], request: pytest.FixtureRequest
) -> None:
    check_catalog_options(request.node.name, {"metastore": metastore, **own}, setting_names())
    with pytest.warns(LakewrightWarning) as caught:
        check_catalog_options(request.node.name, {"metastore": metastore, **others}, setting_names())
    said = [str(one.message) for one in caught]
    assert [key for key in others if any(f"the option '{key}' does nothing" in text for text in said)] == [
        key for key in others if key not in SHARED
    ]
    assert not [text for text in said if any(value in text for value in ("t0p", "s3cr3t", "pa55"))]


@pytest.mark.parametrize("metastore", ["hive", "glue", "paimon"])
def test_other_kinds_of_catalogs_are_refused_by_name(metastore: str) -> None:
    with pytest.raises(UnsupportedError, match=f"'{metastore}' is not supported; use one of filesystem, rest, jdbc"):
        lw.CatalogFactory.create({"warehouse": "w", "metastore": metastore})


@pytest.mark.parametrize("metastore", ["rest", "jdbc"])
def test_a_path_is_not_opened_past_the_catalog_that_the_options_name(catalog: lw.Catalog, metastore: str) -> None:
    path = catalog.get_table("d.t").table_path
    with pytest.raises(InvalidInputError, match=f"metastore {metastore!r}.*CatalogFactory.create"):
        lw.open_table(path, {"metastore": metastore, "uri": "x"})


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [("case-sensitive", "false", "compared with their case"), ("table.type", "external", "drop_table deletes")],
)
def test_options_that_a_catalog_cannot_ignore_are_refused(catalog: lw.Catalog, key: str, value: str, said: str) -> None:
    with pytest.raises(UnsupportedError, match=f"'{key}' = '{value}' is not supported: .*{said}"):
        lw.CatalogFactory.create({"warehouse": catalog.warehouse, key: value})
    with pytest.raises(UnsupportedError, match=said):
        open_path(catalog, {key: value})


def test_the_options_of_open_table_hold_for_the_table(catalog: lw.Catalog) -> None:
    table = catalog.get_table("d.t")
    lw.write_table(ROWS, table)
    options = {"scan.snapshot-id": 1, "s3.endpoint": "x", "warehouse": "w", "table-default.bucket": "1"}
    old = lw.open_table(table.table_path, options)
    assert lw.read_table(old).num_rows == 1
    assert dict(old.schema.options) == {"scan.snapshot-id": "1"}

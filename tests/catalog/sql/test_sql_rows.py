"""The rows of a catalog: the same as Java's, in databases that others made with fewer tables too."""

from __future__ import annotations

import pytest

from lakewright.catalog.sql_database import CatalogRows, database, table_properties
from lakewright.catalog.sql_drivers import parse_address
from lakewright.errors import InvalidInputError
from lakewright.spec.schema import Schema, new_table_schema
from lakewright.spec.types import AtomicType, DataField

ALL = "SELECT * FROM {} ORDER BY 1, 2, 3"


def rows_of(options: dict[str, str], key: str = "jdbc", *, properties: bool = True) -> CatalogRows:
    made = CatalogRows(parse_address(options), key)
    made.prepare(properties=properties, lock_key_max=None)
    return made


def stored(rows: CatalogRows, table: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in database(rows.address).read(ALL.format(table))]


def test_a_database_is_its_properties(sql: dict[str, str]) -> None:
    rows = rows_of(sql)
    assert rows.databases() == []
    assert rows.create_database("d", {"location": "/lake/d.db", "owner": "ann"})
    assert not rows.create_database("d", {"owner": "bob"})
    assert rows.database_properties("d") == {"location": "/lake/d.db", "owner": "ann"}
    assert ("jdbc", "d", "exists", "true") in stored(rows, "paimon_database_properties")
    rows.change_database("d", {"owner": "eve", "team": "a"}, ["location", "absent"])
    assert rows.database_properties("d") == {"owner": "eve", "team": "a"}
    assert rows.databases() == ["d"]
    rows.drop_database("d")
    assert not rows.has_database("d")


def test_a_table_is_a_row_and_a_copy_of_its_options(sql: dict[str, str]) -> None:
    rows = rows_of(sql)
    assert rows.insert_table("d", "t", {"bucket": "1", "primary-key": "a,b"})
    assert not rows.insert_table("d", "t", {"bucket": "2"})
    assert rows.has_database("d")  # a row of a table is enough
    assert rows.tables("d") == ["t"]
    assert stored(rows, "paimon_table_properties") == [
        ("jdbc", "d", "t", "bucket", "1"),
        ("jdbc", "d", "t", "primary-key", "a,b"),
    ]
    rows.set_table_properties("d", "t", {"bucket": "3"})
    assert rows.insert_table("d", "other", None)
    assert not rows.rename_table(("d", "t"), ("d", "other"))
    assert not rows.rename_table(("d", "absent"), ("d", "new"))
    assert rows.rename_table(("d", "t"), ("e", "u"))
    assert stored(rows, "paimon_table_properties") == [("jdbc", "e", "u", "bucket", "3")]
    assert rows.has_table("e", "u")
    assert not rows.has_table("d", "t")
    assert rows.delete_table("e", "u")
    assert not rows.delete_table("e", "u")
    assert stored(rows, "paimon_table_properties") == []


def test_catalogs_with_other_keys_share_a_database_and_nothing_else(sql: dict[str, str]) -> None:
    first, second = rows_of(sql), rows_of(sql, "other")
    first.insert_table("d", "t", {})
    assert second.databases() == []
    assert second.insert_table("d", "t", {})
    assert first.delete_table("d", "t")
    assert second.tables("d") == ["t"]


def test_tables_that_others_left_out_are_not_needed(sql: dict[str, str]) -> None:
    rows = rows_of(sql, properties=False)
    assert rows.insert_table("d", "t", None)
    assert rows.rename_table(("d", "t"), ("d", "u"))
    assert rows.delete_table("d", "u")
    assert rows.views("d") == []
    assert "paimon_table_properties" not in rows._present()
    rows.prepare(properties=True, lock_key_max=40)
    assert {"paimon_table_properties", "paimon_distributed_locks"} <= rows._present()


def test_views_that_others_made_count(sql: dict[str, str]) -> None:
    rows = rows_of(sql)
    columns = "catalog_key VARCHAR(255), database_name VARCHAR(255), view_name VARCHAR(255), view_schema TEXT"
    database(rows.address).write(
        (f"CREATE TABLE paimon_views ({columns})", ()),
        ("INSERT INTO paimon_views VALUES (?, ?, ?, ?)", ("jdbc", "d", "v", "{}")),
    )
    assert rows.databases() == ["d"]
    assert rows.views("d") == ["v"]
    rows.drop_database("d")
    assert rows.databases() == []


def test_names_are_values_and_never_part_of_a_statement(sql: dict[str, str]) -> None:
    rows = rows_of(sql)
    hostile = "t'; DROP TABLE paimon_tables; --%s?"
    assert rows.insert_table("d", hostile, {"k": hostile})
    assert rows.tables("d") == [hostile]


def test_long_values_are_refused_by_name_where_the_database_cannot_hold_them(sql: dict[str, str]) -> None:
    rows = rows_of(sql)
    if "sqlite" in sql["uri"]:
        assert rows.insert_table("d", "t", {"comment": "x" * 5000})
        return
    with pytest.raises(InvalidInputError, match=r"d\.t: the property 'comment'.*sync-all-properties"):
        rows.insert_table("d", "t", {"comment": "x" * 1001})
    assert rows.tables("d") == []


def test_the_copied_properties_of_a_schema() -> None:
    fields = [DataField(0, "p", AtomicType("INT")), DataField(1, "a", AtomicType("INT", nullable=False))]
    keyed = Schema(fields, ["p"], ["p", "a"], {"bucket": "2"})
    assert table_properties(new_table_schema(keyed, time_millis=1)) == {
        "bucket": "2",
        "primary-key": "p,a",
        "partition": "p",
        "bucket-key": "a",
    }
    assert table_properties(new_table_schema(Schema(fields), time_millis=1)) == {}

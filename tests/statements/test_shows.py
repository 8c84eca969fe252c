"""SHOW and DESCRIBE: the columns and rows that Spark shows with Java's connector."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import lakewright as lw
from lakewright.errors import InvalidInputError, NotFoundError
from support.sql_sessions import fill, rows, running_context, table_of

ORDERS = (
    "CREATE TABLE orders (id BIGINT NOT NULL COMMENT 'the key', amount DECIMAL(10,2), note STRING, day STRING)"
    " PARTITIONED BY (day) TBLPROPERTIES ('primary-key' = 'day,id', 'bucket' = '2') COMMENT 'orders of the shop'"
)
PLAIN = (
    "CREATE TABLE plain (a INT, s STRUCT<x:INT,y:STRING>, m MAP<STRING,INT>, l ARRAY<DOUBLE>, t TIMESTAMP,"
    " tn TIMESTAMP_NTZ, bi BINARY, c CHAR(3), v VARCHAR(9))"
)


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lw.SQLContext]:
    with running_context(Path(tmp_path_factory.mktemp("w"))) as context:
        context.sql(ORDERS)
        context.sql(PLAIN)
        fill(context, "orders", id=[1, 2], day=["2026-01-02", "2026-01-01"])
        yield context


def shape(ctx: lw.SQLContext, text: str) -> list[tuple[str, str, bool]]:
    return [(field.name, str(field.type), field.nullable) for field in ctx.sql(text).schema]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SHOW DATABASES", ["namespace"]),
        ("SHOW TABLES", ["namespace", "tableName", "isTemporary"]),
        ("SHOW TABLES LIKE 'none'", ["namespace", "tableName", "isTemporary"]),
        ("SHOW VIEWS", ["namespace", "viewName", "isTemporary"]),
        ("SHOW TABLE EXTENDED LIKE '*'", ["namespace", "tableName", "isTemporary", "information"]),
        ("SHOW COLUMNS FROM orders", ["column"]),
        ("SHOW PARTITIONS orders", ["partition"]),
        ("SHOW CREATE TABLE orders", ["createtab_stmt"]),
        ("SHOW TBLPROPERTIES orders", ["key", "value"]),
        ("SHOW TAGS orders", ["tag"]),
        ("SHOW CATALOGS", ["catalog"]),
        ("SHOW CURRENT NAMESPACE", ["catalog", "namespace"]),
        ("DESCRIBE orders", ["col_name", "data_type", "comment"]),
        ("DESCRIBE orders id", ["info_name", "info_value"]),
        ("DESCRIBE DATABASE shop", ["info_name", "info_value"]),
        ("REFRESH TABLE orders", []),
        ("USE shop", []),
    ],
)
def test_the_columns_of_what_is_shown(ctx: lw.SQLContext, text: str, names: list[str]) -> None:
    null = {"comment", "column"} | ({"info_value"} if "DATABASE" in text else set())
    assert shape(ctx, text) == [(n, "bool" if n == "isTemporary" else "string", n in null) for n in names]


def test_names_are_shown_by_patterns(ctx: lw.SQLContext) -> None:
    ctx.sql("CREATE DATABASE other")
    assert rows(ctx.sql("SHOW SCHEMAS LIKE 'S*|x'")) == [("shop",)]
    assert rows(ctx.sql("SHOW NAMESPACES IN paimon")) == [("other",), ("shop",)]
    assert rows(ctx.sql("SHOW TABLES IN paimon.shop 'OR*'")) == [("shop", "orders", False)]
    assert rows(ctx.sql("SHOW TABLES FROM other")) == []
    assert rows(ctx.sql("SHOW VIEWS IN shop LIKE '*'")) == []
    assert rows(ctx.sql("SHOW COLUMNS IN orders IN shop")) == [("id",), ("amount",), ("note",), ("day",)]
    with pytest.raises(NotFoundError, match=r"'othr' does not exist; did you mean 'other'.*column 16"):
        ctx.sql("SHOW TABLES IN othr")


def test_describe_shows_columns_and_partition_columns(ctx: lw.SQLContext) -> None:
    columns = [("id", "bigint", "the key"), ("amount", "decimal(10,2)", None), ("note", "string", None)]
    head = [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
    plain = [*columns, ("day", "string", None), *head, ("day", "string", None)]
    assert rows(ctx.sql("DESCRIBE orders")) == rows(ctx.sql("DESC TABLE orders")) == plain
    assert [row[1] for row in rows(ctx.sql("DESC plain"))] == [
        *("int", "struct<x:int,y:string>", "map<string,int>", "array<double>", "timestamp", "timestamp_ntz"),
        *("binary", "char(3)", "varchar(9)"),
    ]
    path = table_of(ctx, "orders").table_path
    assert rows(ctx.sql("DESCRIBE FORMATTED orders")) == [
        *plain,
        ("", "", ""),
        ("# Detailed Table Information", "", ""),
        ("Name", "shop.orders", ""),
        ("Type", "MANAGED", ""),
        ("Comment", "orders of the shop", ""),
        ("Provider", "paimon", ""),
        ("Table Properties", f"[bucket=2,path={path},primary-key=day,id]", ""),
    ]
    assert rows(ctx.sql("DESCRIBE orders AMOUNT")) == [
        ("col_name", "amount"),
        ("data_type", "decimal(10,2)"),
        ("comment", "NULL"),
    ]
    assert rows(ctx.sql("DESC plain s.y"))[1] == ("data_type", "string")
    assert rows(ctx.sql("DESCRIBE `orders$snapshots`"))[0] == ("snapshot_id", "bigint", None)
    found = rows(ctx.sql("DESCRIBE orders PARTITION (day = '2026-01-01')"))
    assert found[-1] == ("Partition Values", "[day=2026-01-01]", "")


def test_show_create_table_and_properties(ctx: lw.SQLContext) -> None:
    ((text,),) = rows(ctx.sql("SHOW CREATE TABLE orders"))
    assert text == (
        "CREATE TABLE paimon.shop.orders (\n  id BIGINT NOT NULL COMMENT 'the key',\n  amount DECIMAL(10,2),\n"
        "  note STRING,\n  day STRING NOT NULL)\nUSING paimon\nPARTITIONED BY (day)\nCOMMENT 'orders of the shop'\n"
        "TBLPROPERTIES (\n  'bucket' = '2',\n  'primary-key' = 'day,id')\n"
    )
    path = table_of(ctx, "orders").table_path
    properties = [("bucket", "2"), ("path", path), ("primary-key", "day,id")]
    assert rows(ctx.sql("SHOW TBLPROPERTIES orders")) == properties
    assert rows(ctx.sql("SHOW TBLPROPERTIES orders (primary-key)")) == [properties[2]]
    missing = "Table paimon.shop.orders does not have property: x"
    assert rows(ctx.sql("SHOW TBLPROPERTIES orders ('x')")) == [("x", missing)]


def test_show_table_extended(ctx: lw.SQLContext) -> None:
    (row,) = rows(ctx.sql("SHOW TABLE EXTENDED IN shop LIKE 'ord*'"))
    assert row[:3] == ("shop", "orders", False)
    assert "Table: orders\nType: MANAGED\nComment: orders of the shop\nProvider: paimon\n" in row[3]
    assert "Partition Columns: [day]\nSchema: root\n |-- id: bigint (nullable = false)\n" in row[3]
    shown = rows(ctx.sql("SHOW TABLE EXTENDED LIKE 'orders' PARTITION (day = '2026-01-02')"))
    assert shown == [("shop", "orders", False, "Partition Values: [day=2026-01-02]\n")]


def test_a_table_without_partitions_shows_none(ctx: lw.SQLContext) -> None:
    with pytest.raises(InvalidInputError, match=r"shop.plain has no partitions \(line 1, column 17\)"):
        ctx.sql("SHOW PARTITIONS plain")
    with pytest.raises(InvalidInputError, match=r"'dy' is no partition column of shop.orders; did you mean 'day'"):
        ctx.sql("SHOW PARTITIONS orders PARTITION (dy = 1)")

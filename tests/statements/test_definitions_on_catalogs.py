"""The same statements on catalogs of files, of a REST server and of a SQL database."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakewright as lw
from lakewright.errors import DatabaseNotEmptyException, InvalidInputError, TableNotExistException
from support.sql_sessions import CATALOGS, fill, rows, running_context, table_of


@pytest.mark.parametrize("kind", CATALOGS)
def test_a_table_lives_on_every_catalog(tmp_path: Path, kind: str) -> None:
    with running_context(tmp_path, kind) as ctx:
        ctx.sql("CREATE TABLE t (id INT COMMENT 'key', s STRUCT<x: INT>, day STRING) PARTITIONED BY (day) COMMENT 'c'")
        fill(ctx, "t", id=[1, 2], day=["a", "b"])
        ctx.sql("ALTER TABLE t ADD COLUMNS (v INT AFTER id, s.y STRING)")
        ctx.sql("ALTER TABLE t RENAME COLUMN v TO w")
        ctx.sql("ALTER TABLE t SET TBLPROPERTIES ('write-only' = 'true', 'comment' = 'd')")
        ctx.sql("ALTER TABLE t CREATE TAG v1 RETAIN 2 DAYS")
        ctx.sql("ALTER TABLE t DROP PARTITION (day = 'a')")
        assert [row[:2] for row in rows(ctx.sql("DESCRIBE t"))[:4]] == [
            *(("id", "int"), ("w", "int"), ("s", "struct<x:int,y:string>"), ("day", "string"))
        ]
        assert rows(ctx.sql("SHOW PARTITIONS t")) == [("day=b",)]
        assert rows(ctx.sql("SHOW TAGS t")) == [("v1",)]
        assert (table_of(ctx, "t").comment(), lw.read_table(table_of(ctx, "t"))["id"].to_pylist()) == ("d", [2])
        ((text,),) = rows(ctx.sql("SHOW CREATE TABLE t"))
        ctx.sql("ALTER TABLE t RENAME TO u")
        ctx.sql(text)
        assert table_of(ctx, "t").fields[1:3] != table_of(ctx, "u").fields[1:3]  # numbered anew
        assert rows(ctx.sql("DESCRIBE t")) == rows(ctx.sql("DESCRIBE u"))
        ctx.sql("CREATE OR REPLACE TABLE u (z INT)")
        assert table_of(ctx, "u").field_names == ["z"]
        ctx.sql("TRUNCATE TABLE u")
        with pytest.raises(InvalidInputError, match=r"table shop.u: .*line 1, column 40"):
            ctx.sql("REPLACE TABLE u (z INT) TBLPROPERTIES ('bucket' = 'x')")
        assert rows(ctx.sql("SHOW TABLES")) == [("shop", "t", False), ("shop", "u", False)]
        with pytest.raises(DatabaseNotEmptyException, match="CASCADE"):
            ctx.sql("DROP DATABASE shop")
        ctx.sql("DROP TABLE t")
        with pytest.raises(TableNotExistException, match="line 1, column 12"):
            ctx.sql("DROP TABLE t")
        ctx.sql("DROP DATABASE shop CASCADE")


@pytest.mark.parametrize("kind", ["rest", "sqlite"])
def test_databases_have_properties_where_a_catalog_stores_them(tmp_path: Path, kind: str) -> None:
    with running_context(tmp_path, kind) as ctx:
        ctx.sql("CREATE DATABASE d COMMENT 'one' WITH DBPROPERTIES ('team' = 'x')")
        ctx.sql("ALTER DATABASE d SET DBPROPERTIES ('floor' = 2)")
        ctx.sql("ALTER DATABASE d UNSET DBPROPERTIES ('team')")
        ctx.sql("COMMENT ON DATABASE d IS 'two'")
        shown = dict(rows(ctx.sql("DESCRIBE DATABASE EXTENDED d")))
        assert (shown["Comment"], shown["Properties"]) == ("two", "((floor,2))")

"""CREATE, ALTER, DROP, TRUNCATE and tags, on a catalog of files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.errors import (
    DatabaseNotEmptyException,
    InvalidInputError,
    LakewrightWarning,
    NotFoundError,
    TableAlreadyExistException,
    TableNotExistException,
    TagAlreadyExistException,
    TagNotExistException,
    UnsupportedError,
)
from lakewright.statements.parser import parse_statement
from lakewright.statements.statements import CreateTableAs
from support.sql_sessions import fill, rows, running_context, table_of


@pytest.fixture
def ctx(tmp_path: Path) -> Iterator[lw.SQLContext]:
    with running_context(tmp_path) as context:
        yield context


def columns(ctx: lw.SQLContext, name: str) -> list[str]:
    return [f"{field.name} {field.type}" for field in table_of(ctx, name).fields]


# ---- databases


def test_databases_are_created_used_and_dropped(ctx: lw.SQLContext) -> None:
    assert ctx.sql("CREATE DATABASE a").num_columns == 0
    ctx.sql("CREATE SCHEMA IF NOT EXISTS a")
    with pytest.warns(LakewrightWarning, match="comment"):
        ctx.sql("CREATE NAMESPACE b COMMENT 'x' WITH DBPROPERTIES ('k' = 'v', n = 1)")
    ctx.sql("USE a")
    ctx.sql("CREATE TABLE t (x INT)")
    ctx.sql("USE paimon.b")
    assert rows(ctx.sql("SHOW CURRENT DATABASE")) == [("paimon", "b")]
    with pytest.raises(DatabaseNotEmptyException, match=r"1 table \(t\).*CASCADE \(line 1, column 15\)"):
        ctx.sql("DROP DATABASE a RESTRICT")
    ctx.sql("DROP DATABASE a CASCADE")
    ctx.sql("DROP SCHEMA IF EXISTS a")
    assert ctx.catalog.list_databases() == ["b", "shop"]
    with pytest.raises(NotFoundError, match="did you mean 'shop'"):
        ctx.sql("DROP DATABASE shp")
    with pytest.raises(UnsupportedError, match="LOCATION"):
        ctx.sql("CREATE DATABASE c LOCATION '/x'")
    with pytest.raises(UnsupportedError, match=r"stores no properties.*line 1"):
        ctx.sql("ALTER DATABASE shop SET DBPROPERTIES ('a' = 'b')")


def test_the_default_database_is_always_there(tmp_path: Path) -> None:
    ctx = lw.SQLContext(str(tmp_path))
    assert rows(ctx.sql("SHOW TABLES")) == []
    assert ctx.catalog.list_databases() == ["default"]
    for number, text in enumerate(("CREATE TABLE t (a INT)", "USE default", "CREATE OR REPLACE TABLE t (a INT)")):
        lw.SQLContext(str(tmp_path / str(number))).sql(text)
        assert lw.CatalogFactory.create({"warehouse": str(tmp_path / str(number))}).list_databases() == ["default"]


def test_several_catalogs_by_name(tmp_path: Path) -> None:
    ctx = lw.SQLContext({name: str(tmp_path / name) for name in ("prod", "dev")})
    ctx.sql("CREATE DATABASE dev.d")
    ctx.sql("CREATE TABLE dev.d.t (x INT)")
    assert rows(ctx.sql("SHOW TABLES IN dev.d")) == [("d", "t", False)]
    assert rows(ctx.sql("SHOW DATABASES")) == []
    ctx.sql("USE dev.d")
    ctx.sql("DESCRIBE t")
    ctx.sql("USE CATALOG prod")
    assert ctx.catalog_name == "prod"
    ctx.sql("USE dev")
    assert rows(ctx.sql("SHOW CATALOGS")) == [("dev",), ("prod",)]
    with pytest.raises(NotFoundError, match=r"no catalog 'prd'; did you mean 'prod'.*column 14"):
        ctx.sql("DESC CATALOG prd")


# ---- tables


def test_types_are_those_of_the_connector_of_java(ctx: lw.SQLContext) -> None:
    ctx.sql(
        "CREATE TABLE t (a TINYINT, b SHORT, c INTEGER, d LONG NOT NULL, e REAL, f DOUBLE PRECISION, g DECIMAL,"
        " h NUMERIC(20,3), i CHAR(3), j VARCHAR(9), k STRING, l BINARY, m DATE, n TIMESTAMP, o TIMESTAMP_NTZ,"
        " p TIMESTAMP_LTZ, q BOOLEAN, r TIME, s ARRAY<ARRAY<INT>>, u MAP<STRING,"
        " STRUCT<`a b`: INT NOT NULL COMMENT 'x',"
        " c: MAP<INT, DATE>>>)"
    )
    assert columns(ctx, "t") == [
        *("a TINYINT", "b SMALLINT", "c INT", "d BIGINT NOT NULL", "e FLOAT", "f DOUBLE", "g DECIMAL(10, 0)"),
        *("h DECIMAL(20, 3)", "i CHAR(3)", "j VARCHAR(9)", "k STRING", "l BYTES", "m DATE"),
        *("n TIMESTAMP(6) WITH LOCAL TIME ZONE", "o TIMESTAMP(6)", "p TIMESTAMP(6) WITH LOCAL TIME ZONE", "q BOOLEAN"),
        *("r TIME(3)", "s ARRAY<ARRAY<INT>>"),
        "u MAP<STRING NOT NULL, ROW<`a b` INT NOT NULL, `c` MAP<INT NOT NULL, DATE>>>",
    ]


def test_keys_partitions_options_defaults_and_comments(ctx: lw.SQLContext) -> None:
    ctx.sql(
        "CREATE TABLE t (id BIGINT COMMENT 'the key', v INT DEFAULT -5, s STRING DEFAULT 'it\\'s', day DATE)"
        " USING paimon PARTITIONED BY (DAY) COMMENT 'all' TBLPROPERTIES ('primary-key' = 'Day, id', bucket = 2,"
        " write-buffer-size = '1 mb') OPTIONS (snapshot.num-retained.min = 3)"
    )
    table = table_of(ctx, "t")
    assert (table.partition_keys, table.primary_keys, table.comment()) == (["day"], ["day", "id"], "all")
    assert dict(table.schema.options) == {"bucket": "2", "write-buffer-size": "1 mb", "snapshot.num-retained.min": "3"}
    assert [(f.description, f.default_value) for f in table.fields[:3]] == [
        ("the key", None),
        (None, "-5"),
        (None, "it's"),
    ]
    ctx.sql("CREATE TABLE q (a INT, s STRING DEFAULT '\\'q\\'')")
    fill(ctx, "q", a=[1])
    assert lw.read_table(table_of(ctx, "q")).to_pylist() == [{"a": 1, "s": "'q'"}]
    ctx.sql("CREATE TABLE u (a INT, CONSTRAINT k PRIMARY KEY (A) NOT ENFORCED) PARTITIONED BY (p STRING COMMENT 'c')")
    assert columns(ctx, "u") == ["a INT NOT NULL", "p STRING"]
    assert table_of(ctx, "u").primary_keys == ["a"]
    ctx.sql("CREATE TABLE w (a INT PRIMARY KEY, from STRING)")
    assert table_of(ctx, "w").primary_keys == ["a"]


def test_a_default_that_java_stored_with_its_quotes(ctx: lw.SQLContext) -> None:
    quoted = lw.DataField(1, "s", lw.AtomicType("STRING"), None, "'it is'")
    day = lw.DataField(2, "d", lw.AtomicType("DATE"), None, "'2026-01-31'")
    ctx.catalog.create_table("shop.t", lw.Schema([lw.DataField(0, "a", lw.AtomicType("INT")), quoted, day]))
    fill(ctx, "t", a=[1])
    assert lw.read_table(table_of(ctx, "t")).to_pylist() == [{"a": 1, "s": "it is", "d": date(2026, 1, 31)}]
    assert "s STRING DEFAULT 'it is',\n  d DATE DEFAULT '2026-01-31'" in rows(ctx.sql("SHOW CREATE TABLE t"))[0][0]


def test_a_table_exists_once(ctx: lw.SQLContext) -> None:
    ctx.sql("CREATE TABLE t (a INT)")
    ctx.sql("CREATE TABLE IF NOT EXISTS t (b STRING)")
    with pytest.raises(TableAlreadyExistException, match=r"IF NOT EXISTS.*line 1, column 14"):
        ctx.sql("CREATE TABLE t (b STRING)")
    assert columns(ctx, "t") == ["a INT"]
    with pytest.raises(TableNotExistException, match="CREATE OR REPLACE"):
        ctx.sql("REPLACE TABLE other (a INT)")


def test_a_replaced_table_is_another_one(ctx: lw.SQLContext) -> None:
    ctx.sql("CREATE OR REPLACE TABLE t (a INT)")
    fill(ctx, "t", a=[1])
    ctx.sql("CREATE OR REPLACE TABLE t (b STRING) PARTITIONED BY (b)")
    assert columns(ctx, "t") == ["b STRING"]
    assert table_of(ctx, "t").snapshot() is None
    ctx.sql("REPLACE TABLE t (c INT) TBLPROPERTIES ('primary-key' = 'c')")
    assert columns(ctx, "t") == ["c INT NOT NULL"]
    with pytest.raises(InvalidInputError, match="bucket"):
        ctx.sql("REPLACE TABLE t (d INT) TBLPROPERTIES ('bucket' = 'many')")
    assert columns(ctx, "t") == ["c INT NOT NULL"]
    assert ctx.catalog.list_tables("shop") == ["t"]


def created(text: str) -> CreateTableAs:
    statement = parse_statement(text)
    assert isinstance(statement, CreateTableAs)
    return statement


def test_create_as_makes_the_columns_of_a_query(ctx: lw.SQLContext) -> None:
    query = pa.schema(
        [
            pa.field("a", pa.int64(), nullable=False),
            pa.field("m", pa.map_(pa.string(), pa.int32())),
            pa.field("t", pa.timestamp("us", "UTC")),
            pa.field("s", pa.struct([pa.field("x", pa.large_string(), nullable=False)])),
        ]
    )
    statement = created("CREATE TABLE t PARTITIONED BY (a) TBLPROPERTIES ('k' = 'v') AS (SELECT 1)")
    assert statement.query.text == "(SELECT 1)"
    with pytest.warns(LakewrightWarning):
        name = statement.create.create_as(ctx, query)
    statement.create.finish(ctx)
    assert str(name) == "t"
    assert columns(ctx, "t") == [
        "a BIGINT",
        "m MAP<STRING NOT NULL, INT>",
        "t TIMESTAMP(6) WITH LOCAL TIME ZONE",
        "s ROW<`x` STRING>",
    ]
    assert created("CREATE TABLE IF NOT EXISTS t AS SELECT 1").create.create_as(ctx, query) is None
    statement = created("CREATE TABLE gone SELECT 1 AS a")
    statement.create.create_as(ctx, query)
    statement.create.undo(ctx)
    assert ctx.catalog.list_tables("shop") == ["t"]


def test_a_table_is_replaced_when_its_successor_is_filled(ctx: lw.SQLContext) -> None:
    ctx.sql("CREATE TABLE t (a INT)")
    fill(ctx, "t", a=[1])
    statement = created("CREATE OR REPLACE TABLE t AS SELECT a AS b FROM t")
    name = statement.create.create_as(ctx, pa.schema({"b": pa.int64()}))
    assert name is not None
    assert columns(ctx, "t") == ["a INT"]
    statement.create.undo(ctx)
    assert ctx.catalog.list_tables("shop") == ["t"]
    name = statement.create.create_as(ctx, pa.schema({"b": pa.int64()}))
    assert name is not None
    lw.write_table(pa.table({"b": [7]}), ctx.table(name))
    statement.create.finish(ctx)
    assert lw.read_table(table_of(ctx, "t")).to_pylist() == [{"b": 7}]
    assert ctx.catalog.list_tables("shop") == ["t"]


def test_a_table_like_another(ctx: lw.SQLContext) -> None:
    ctx.sql("CREATE TABLE s (a INT COMMENT 'x', p STRING) PARTITIONED BY (p) COMMENT 'c' TBLPROPERTIES ('bucket' = -1)")
    ctx.sql("CREATE TABLE t LIKE s TBLPROPERTIES ('file.format' = 'orc')")
    ctx.sql("CREATE TABLE IF NOT EXISTS t LIKE s")
    table = table_of(ctx, "t")
    assert (columns(ctx, "t"), table.partition_keys, table.comment()) == (["a INT", "p STRING"], ["p"], "c")
    assert dict(table.schema.options) == {"bucket": "-1", "file.format": "orc"}
    ctx.sql("CREATE TABLE u LIKE s$snapshots")
    assert table_of(ctx, "u").field_names[0] == "snapshot_id"


def test_tables_are_renamed_and_dropped(ctx: lw.SQLContext) -> None:
    ctx.sql("CREATE DATABASE other")
    ctx.sql("CREATE TABLE other.t (a INT)")
    ctx.sql("ALTER TABLE other.t RENAME TO u")
    assert ctx.catalog.list_tables("other") == ["u"]
    ctx.sql("ALTER TABLE other.u RENAME TO shop.u")
    with pytest.raises(InvalidInputError, match="names a catalog"):
        ctx.sql("ALTER TABLE u RENAME TO paimon.shop.w")
    ctx.sql("CREATE TABLE w (a INT)")
    with pytest.raises(TableAlreadyExistException, match="choose another name"):
        ctx.sql("ALTER TABLE w RENAME TO u")
    ctx.sql("DROP TABLE u PURGE")
    ctx.sql("DROP TABLE IF EXISTS u")
    ctx.sql("DROP TABLE IF EXISTS nowhere.u")
    assert ctx.catalog.list_tables("shop") == ["w"]


# ---- columns and options


def test_columns_are_added_in_their_places(ctx: lw.SQLContext) -> None:
    ctx.sql("CREATE TABLE t (a INT, s STRUCT<x: INT>, l ARRAY<STRUCT<x: INT>>, m MAP<INT, STRUCT<x: INT>>)")
    fill(ctx, "t", a=[1])
    before = table_of(ctx, "t").schema.id
    ctx.sql(
        "ALTER TABLE t ADD COLUMNS (b STRING COMMENT 'c' AFTER A, z INT FIRST, S.y STRING FIRST, l.element.y INT,"
        " m.value.y INT, d INT)"
    )
    table = table_of(ctx, "t")
    assert table.schema.id == before + 1
    assert columns(ctx, "t") == [
        *("z INT", "a INT", "b STRING", "s ROW<`y` STRING, `x` INT>", "l ARRAY<ROW<`x` INT, `y` INT>>"),
        *("m MAP<INT NOT NULL, ROW<`x` INT, `y` INT>>", "d INT"),
    ]
    assert lw.read_table(table)["d"].to_pylist() == [None]
    ctx.sql("ALTER TABLE t ADD COLUMN e INT")
    with pytest.raises(UnsupportedError, match=r"SET DEFAULT .*column 26"):
        ctx.sql("ALTER TABLE t ADD COLUMN f INT DEFAULT 5")
    with pytest.raises(InvalidInputError, match=r"NOT NULL: rows that exist.*column 26"):
        ctx.sql("ALTER TABLE t ADD COLUMN f INT NOT NULL")


def test_columns_are_changed_together_or_not_at_all(ctx: lw.SQLContext) -> None:
    ctx.sql("CREATE TABLE t (a INT, b INT NOT NULL, s STRUCT<x: INT, y: INT>, gone INT, too STRING)")
    fill(ctx, "t", a=[1], b=[2], gone=[3], too=["z"])
    before = table_of(ctx, "t").schema.id
    ctx.sql("ALTER TABLE t ALTER COLUMN a TYPE BIGINT COMMENT 'wide' AFTER b, s.y FIRST, b DROP NOT NULL")
    ctx.sql("ALTER TABLE t DROP COLUMNS (gone, TOO)")
    ctx.sql("ALTER TABLE t RENAME COLUMN s.x TO z")
    ctx.sql("ALTER TABLE t CHANGE COLUMN b c BIGINT COMMENT 'was b' FIRST")
    ctx.sql("ALTER TABLE t ALTER COLUMN a SET DEFAULT 7")
    table = table_of(ctx, "t")
    assert (columns(ctx, "t"), table.schema.id) == (["c BIGINT", "a BIGINT", "s ROW<`y` INT, `z` INT>"], before + 5)
    assert [f.description for f in table.fields] == ["was b", "wide", None]
    assert table.fields[1].default_value == "7"
    assert lw.read_table(table).to_pylist() == [{"c": 2, "a": 1, "s": None}]
    ctx.sql("ALTER TABLE t ALTER COLUMN a DROP DEFAULT")
    with pytest.raises(NotFoundError, match=r"'nope' does not exist.*line 1, column 32"):
        ctx.sql("ALTER TABLE t DROP COLUMNS (a, nope)")
    ctx.sql("ALTER TABLE t DROP COLUMN IF EXISTS nope")
    assert columns(ctx, "t")[1] == "a BIGINT"


def test_replaced_columns_keep_the_values_of_their_names(ctx: lw.SQLContext) -> None:
    ctx.sql("CREATE TABLE t (a INT, b STRING, c INT)")
    fill(ctx, "t", a=[1], b=["x"], c=[3])
    ctx.sql("ALTER TABLE t REPLACE COLUMNS (c BIGINT COMMENT 'n', d INT, A INT)")
    assert lw.read_table(table_of(ctx, "t")).to_pylist() == [{"c": 3, "d": None, "a": 1}]


def test_options_and_comments_are_set_and_removed(ctx: lw.SQLContext) -> None:
    ctx.sql("CREATE TABLE t (a INT)")
    ctx.sql("ALTER TABLE t SET TBLPROPERTIES ('write-buffer-size' = '1 mb', 'comment' = 'one', write-only = true)")
    assert dict(table_of(ctx, "t").schema.options) == {"write-buffer-size": "1 mb", "write-only": "true"}
    assert table_of(ctx, "t").comment() == "one"
    ctx.sql("ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS ('write-buffer-size', 'comment', 'never.set')")
    assert dict(table_of(ctx, "t").schema.options) == {"write-only": "true"}
    assert table_of(ctx, "t").comment() is None
    ctx.sql("COMMENT ON TABLE t IS 'two'")
    assert table_of(ctx, "t").comment() == "two"
    ctx.sql("COMMENT ON TABLE t IS NULL")
    assert table_of(ctx, "t").comment() is None


def test_a_branch_is_changed_by_its_name(ctx: lw.SQLContext) -> None:
    ctx.sql("CREATE TABLE t (a INT)")
    fill(ctx, "t", a=[1])
    ctx.sql("ALTER TABLE t CREATE TAG v1")
    table_of(ctx, "t").create_branch("dev", "v1")
    ctx.sql("ALTER TABLE t$branch_dev ADD COLUMN b INT")
    assert columns(ctx, "t") == ["a INT"]
    assert columns(ctx, "t$branch_dev") == ["a INT", "b INT"]
    assert rows(ctx.sql("SHOW BRANCHES t")) == [("dev",)]
    with pytest.raises(InvalidInputError, match="name the table itself"):
        ctx.sql("DROP TABLE t$branch_dev")


# ---- partitions and tags


def test_partitions_are_shown_dropped_and_truncated(ctx: lw.SQLContext) -> None:
    ctx.sql("CREATE TABLE t (a INT, day DATE, h STRING) PARTITIONED BY (day, h)")
    days = pa.array(["2026-01-01", "2026-01-01", "2026-01-02", None]).cast(pa.date32()).to_pylist()
    fill(ctx, "t", a=[1, 2, 3, 4], day=days, h=["7", "a/b", "7", "9"])
    names = ["day=2026-01-01/h=7", "day=2026-01-01/h=a%2Fb", "day=2026-01-02/h=7", "day=null/h=9"]
    assert rows(ctx.sql("SHOW PARTITIONS t")) == [(name,) for name in names]
    assert rows(ctx.sql("SHOW PARTITIONS t PARTITION (h = 7)")) == [(names[0],), (names[2],)]
    assert rows(ctx.sql("SHOW PARTITIONS t PARTITION (DAY = :d, h)", {"d": days[2]})) == [(names[2],)]
    assert rows(ctx.sql("SHOW PARTITIONS t PARTITION (day = ?)", [days[2]])) == [(names[2],)]
    before = table_of(ctx, "t").snapshot().id
    ctx.sql("ALTER TABLE t DROP PARTITION (day = NULL), PARTITION (day = DATE '2026-01-01', h = 'a/b')")
    assert table_of(ctx, "t").snapshot().id == before + 1
    assert rows(ctx.sql("SHOW PARTITIONS t")) == [(names[0],), (names[2],)]
    with pytest.raises(NotFoundError, match=r"no such partition; there are day=2026-01-01/h=7.*column 20"):
        ctx.sql("ALTER TABLE t DROP PARTITION (day = '2030-01-01')")
    ctx.sql("ALTER TABLE t DROP IF EXISTS PARTITION (day = '2030-01-01')")
    ctx.sql("TRUNCATE TABLE t PARTITION (day = '2026-01-01')")
    assert lw.read_table(table_of(ctx, "t"))["a"].to_pylist() == [3]
    ctx.sql("TRUNCATE TABLE t")
    assert lw.read_table(table_of(ctx, "t")).num_rows == 0


def test_tags(ctx: lw.SQLContext) -> None:
    ctx.sql("CREATE TABLE t (a INT)")
    with pytest.raises(NotFoundError, match="write something first"):
        ctx.sql("ALTER TABLE t CREATE TAG early")
    for number in (1, 2):
        fill(ctx, "t", a=[number])
    ctx.sql("ALTER TABLE t CREATE TAG `TAG-1` AS OF VERSION 1 RETAIN 12 HOURS")
    ctx.sql("ALTER TABLE t CREATE TAG two RETAIN 7 DAYS")
    ctx.sql("ALTER TABLE t CREATE TAG IF NOT EXISTS two AS OF VERSION 1")
    ctx.sql("ALTER TABLE t CREATE OR REPLACE TAG three")
    tags = table_of(ctx, "t").store.tags
    assert (tags.get("TAG-1").snapshot.id, tags.get("two").snapshot.id) == (1, 2)
    assert tags.get("TAG-1").time_retained == timedelta(hours=12)
    ctx.sql("ALTER TABLE t REPLACE TAG two AS OF VERSION 1")
    assert tags.get("two").snapshot.id == 1
    with pytest.raises(TagAlreadyExistException, match=r"OR REPLACE TAG \(line 1, column 26\)"):
        ctx.sql("ALTER TABLE t CREATE TAG two")
    with pytest.raises(TagNotExistException, match="no tag 'tow'; did you mean 'two'"):
        ctx.sql("ALTER TABLE t REPLACE TAG tow")
    with pytest.raises(NotFoundError, match="99"):
        ctx.sql("ALTER TABLE t CREATE TAG four AS OF VERSION 99")
    ctx.sql("ALTER TABLE t RENAME TAG two TO second")
    assert rows(ctx.sql("SHOW TAGS t")) == [("TAG-1",), ("second",), ("three",)]
    with pytest.raises(TagNotExistException):
        ctx.sql("ALTER TABLE t DELETE TAG `second,none`")
    ctx.sql("ALTER TABLE t DELETE TAG `second,three`")
    ctx.sql("ALTER TABLE t DELETE TAG IF EXISTS none")
    assert rows(ctx.sql("SHOW TAGS IN t")) == [("TAG-1",)]

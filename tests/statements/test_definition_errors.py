"""What cannot be done is refused at its place, with the nearest name or the remedy, and nothing is changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakewright as lw
from lakewright.errors import (
    ColumnAlreadyExistException,
    ColumnNotExistException,
    DatabaseNotExistException,
    InvalidInputError,
    LakewrightError,
    NotFoundError,
    SQLSyntaxError,
    TableNotExistException,
    UnsupportedError,
)
from support.sql_sessions import fill, running_context, table_of

SYNTAX = [
    ("CREATE TABLE x (a INTT)", 19, "no type INTT; did you mean 'INT'"),
    ("CREATE TABLE x (a DECIMAL(99,1))", 19, "outside the limits"),
    ("CREATE TABLE x (a VARCHAR)", 26, "VARCHAR needs a length"),
    ("CREATE TABLE x (a STRUCT<>)", 25, "at least one field"),
    ("CREATE TABLE x (a STRUCT<b: INT, b: INT>)", 34, "the field b is there twice"),
    ("CREATE TABLE x (a INT(3))", 22, "has no parameters"),
    ("CREATE TABLE x ()", 17, "expected"),
    ("CREATE TABLE x", 15, "the columns in brackets"),
    ("CREATE TABLE x (a INT COMMENT 'b' COMMENT 'c')", 35, "COMMENT is there twice"),
    ("CREATE TABLE x (a INT) COMMENT 'b' COMMENT 'c'", 36, "COMMENT is there twice"),
    ("CREATE TABLE x (a INT) TBLPROPERTIES ('k' = '1', 'k' = '2')", 50, "'k' is there twice"),
    ("CREATE TABLE x (a INT) TBLPROPERTIES ('k')", 42, "a value"),
    ("CREATE TABLE x (a INT) AS SELECT 1 AS a", 16, "leave the list of columns out"),
    ("CREATE OR REPLACE TABLE IF NOT EXISTS x (a INT)", 25, "IF NOT EXISTS"),
    ("CREATE TABLE x (a INT, b INT) PARTITIONED BY (a, c INT)", 47, "a type, or none"),
    ("CREATE TABLE x (a INT FIRST)", 17, "FIRST and AFTER are for ALTER TABLE"),
    ("CREATE TABLE x (a.b INT)", 17, "has a dot"),
    ("CREATE TABLE a.b.c.d (x INT)", 14, "4 parts"),
    ("ALTER TABLE t ADD COLUMN", 25, "the name of a column"),
    ("ALTER TABLE t ALTER COLUMN a", 29, "TYPE, COMMENT"),
    ("ALTER TABLE t MELT", 15, "ADD, DROP, RENAME"),
    ("ALTER TABLE t CREATE TAG v RETAIN 3 MOONS", 37, "DAYS, HOURS"),
    ("ALTER TABLE t CREATE TAG v AS OF VERSION x", 42, "the id of a snapshot"),
    ("SHOW TABLE EXTENDED", 20, "expected LIKE"),
    ("DROP TABLE t t2", 14, "the end of the statement"),
    ("DESCRIBE DATABASE a.b.c", 19, "too many parts"),
]
REFUSED = [
    ("CREATE TABLE x (a INT) USING delta", 30, "USING delta.*spark.sql"),
    ("CREATE TABLE x (a INT) LOCATION '/x'", 24, "leave LOCATION out"),
    ("CREATE TABLE x (a INT) CLUSTERED BY (a) INTO 4 BUCKETS", 24, "'bucket-key' = 'id'"),
    ("CREATE TABLE x (a INT) PARTITIONED BY (bucket(4, a))", 40, "name a column"),
    ("CREATE TABLE x (a INT) STORED AS ORC", 24, "file.format"),
    ("CREATE TABLE x (a INT GENERATED ALWAYS AS (1))", 23, "cannot be generated"),
    ("CREATE TABLE x (a INTERVAL)", 19, "no columns of the type INTERVAL"),
    ("CREATE TABLE x (a INT DEFAULT 1 + 1)", 31, "must be a literal"),
    ("CREATE TABLE x (a INT, CHECK (a > 1))", 24, "only PRIMARY KEY"),
    ("CREATE EXTERNAL TABLE x (a INT)", 1, "leave EXTERNAL out"),
    ("CREATE TEMPORARY TABLE x (a INT)", 1, "CREATE TEMPORARY VIEW"),
    ("ALTER TABLE t ADD PARTITION (p = 'a')", 15, "INSERT INTO"),
    ("ALTER TABLE t PARTITION (p = 'a') RENAME TO PARTITION (p = 'b')", 15, "cannot be renamed"),
    ("ALTER TABLE t RECOVER PARTITIONS", 15, "snapshots"),
    ("ALTER TABLE t SET LOCATION '/x'", 15, "places"),
    ("ALTER TABLE t DROP PARTITION (p > 'a')", 33, "DELETE FROM"),
    ("ALTER DATABASE shop SET LOCATION '/x'", 21, "cannot be moved"),
    ("ANALYZE TABLE t COMPUTE STATISTICS NOSCAN", 36, "leave NOSCAN out"),
    ("ANALYZE TABLE t PARTITION (p = 'a') COMPUTE STATISTICS", 17, "statistics are those of the whole table"),
    ("ANALYZE TABLE t$files COMPUTE STATISTICS", 15, "system table"),
    ("MSCK REPAIR TABLE t", 1, "MSCK REPAIR TABLE is not supported"),
    ("ALTER TABLE t$files ADD COLUMN x INT", 13, "system table"),
    ("TRUNCATE TABLE t$snapshots", 16, "system table"),
]
WRONG: list[tuple[str, int, type[LakewrightError], str]] = [
    ("CREATE TABLE shp.x (a INT)", 14, DatabaseNotExistException, "did you mean 'shop'"),
    ("CREATE TABLE x (a INT, A INT)", 24, ColumnAlreadyExistException, "'A' is there twice"),
    ("CREATE TABLE x (a INT) PARTITIONED BY (b)", 40, ColumnNotExistException, "'b' does not exist"),
    ("CREATE TABLE x (a INT) TBLPROPERTIES ('primary-key' = 'b')", 14, ColumnNotExistException, "'b' does not exist"),
    ("CREATE TABLE x (a INT) TBLPROPERTIES ('k.x' = '1', 'bucket' = 'x')", 52, InvalidInputError, "number of buckets"),
    ("CREATE TABLE x (a INT, b DATE DEFAULT 'soon')", 24, InvalidInputError, "default of the column 'b'"),
    ("CREATE TABLE x LIKE tt", 21, TableNotExistException, "did you mean 't'"),
    ("DROP TABLE tt", 12, TableNotExistException, "did you mean 't'"),
    ("ALTER TABLE tt ADD COLUMN x INT", 13, TableNotExistException, "did you mean 't'"),
    ("ALTER TABLE t ADD COLUMNS (x INT, A INT)", 35, ColumnAlreadyExistException, "'A' is there twice"),
    ("ALTER TABLE t ADD COLUMN x INT AFTER nme", 26, NotFoundError, "'nme' does not exist"),
    ("ALTER TABLE t DROP COLUMN nme", 27, ColumnNotExistException, "did you mean 'name'"),
    ("ALTER TABLE t DROP COLUMN p", 27, InvalidInputError, "cannot be dropped"),
    ("ALTER TABLE t RENAME COLUMN name TO a", 29, ColumnAlreadyExistException, "already exists"),
    ("ALTER TABLE t ALTER COLUMN name TYPE INT", 28, InvalidInputError, "name"),
    ("ALTER TABLE t ALTER COLUMN s.z TYPE INT", 28, ColumnNotExistException, "s.z"),
    ("ALTER TABLE t ALTER COLUMN a COMMENT 'x', b COMMENT 'y'", 43, ColumnNotExistException, "'b'"),
    ("ALTER TABLE t SET TBLPROPERTIES ('write-only' = 'true', 'bucket' = 'x')", 57, InvalidInputError, "bucket"),
    ("ALTER TABLE t DROP PARTITION (q = 1)", 20, InvalidInputError, "no partition column"),
    ("ALTER TABLE t DROP PARTITION (p)", 20, InvalidInputError, "name the value"),
    ("SHOW PARTITIONS t PARTITION (p = :p)", 34, InvalidInputError, "no value for :p"),
    ("DESCRIBE t nme", 12, ColumnNotExistException, "did you mean 'name'"),
    ("SHOW TABLES IN shp", 16, DatabaseNotExistException, "did you mean 'shop'"),
    ("USE dev.shop", 5, NotFoundError, "no catalog 'dev'"),
]


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lw.SQLContext]:
    with running_context(Path(tmp_path_factory.mktemp("w"))) as context:
        context.sql("CREATE TABLE t (a INT, name STRING, s STRUCT<x: INT>, p STRING) PARTITIONED BY (p)")
        fill(context, "t", a=[1], name=["not a number"], p=["x"])
        yield context


@pytest.mark.parametrize(
    ("text", "column", "kind", "message"),
    [
        *((text, at, SQLSyntaxError, message) for text, at, message in SYNTAX),
        *((text, at, UnsupportedError, message) for text, at, message in REFUSED),
        *WRONG,
    ],
)
def test_the_error_shows_the_place(
    ctx: lw.SQLContext, text: str, column: int, kind: type[LakewrightError], message: str
) -> None:
    before = table_of(ctx, "t").schema, table_of(ctx, "t").snapshot(), ctx.catalog.list_tables("shop")
    with pytest.raises(kind, match=message) as caught:
        ctx.sql(text)
    assert (caught.value.line, caught.value.column_number) == (1, column)
    assert str(caught.value).endswith(f"\n{text}\n{' ' * (column - 1)}^")
    assert (table_of(ctx, "t").schema, table_of(ctx, "t").snapshot(), ctx.catalog.list_tables("shop")) == before


def test_an_error_in_a_script_shows_its_line(ctx: lw.SQLContext) -> None:
    message = re.compile(r"statement 2 of 2, on line 2: .*\(line 3, column 3\)", re.DOTALL)
    with pytest.raises(ColumnNotExistException, match=message):
        ctx.script("SHOW TABLES;\nALTER TABLE t DROP COLUMN\n  nme")

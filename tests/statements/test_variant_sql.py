"""VARIANT in SQL in this process: functions, paths, casts, changes, and what is refused."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

import lakewright as lw

TEXT = '{"a":1,"b":{"c":[10,"x"]},"d":1.5,"t":"2024-01-02","big":3000000000,"n":null}'


@pytest.fixture
def ctx(tmp_path: Path) -> lw.SQLContext:
    context = lw.SQLContext(tmp_path)
    context.catalog.create_database("default", ignore_if_exists=True)
    context.sql("CREATE TABLE t (id INT, v VARIANT, r STRUCT<w: VARIANT>, l ARRAY<VARIANT>)")
    context.sql(
        f"INSERT INTO t SELECT 1, parse_json('{TEXT}'), named_struct('w', parse_json('5')), array(parse_json('\"z\"'))"
    )
    context.sql("INSERT INTO t VALUES (2, parse_json('[1,2]'), NULL, NULL), (3, NULL, NULL, NULL)")
    return context


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("variant_get(v, '$.a', 'int')", 1),
        ("variant_get(v, '$.a', 'string')", "1"),
        ("variant_get(v, '$.d', 'decimal(5,2)')", Decimal("1.50")),
        ("variant_get(v, '$.d', 'int')", 1),
        ("variant_get(v, '$.t', 'date')", date(2024, 1, 2)),
        ("variant_get(v, '$.b[\"c\"][1]', 'string')", "x"),
        ("variant_get(v, '$.missing', 'int')", None),
        ("variant_get(v, '$.n', 'int')", None),
        ("variant_get(v, '$.b', 'struct<c: array<string>, e: int>')", {"c": ["10", "x"], "e": None}),
        ("map_keys(variant_get(v, '$.b', 'map<string, string>'))", ["c"]),
        ("try_variant_get(v, '$.big', 'int')", None),
        ("try_variant_get(v, '$.b', 'int')", None),
        ("to_json(variant_get(v, '$.b'))", '{"c":[10,"x"]}'),
        ("v:b.c[0]::bigint", 10),
        ("CAST(v:['t'] AS STRING)", "2024-01-02"),
        ("CAST(v:b AS STRING)", '{"c":[10,"x"]}'),
        ("CAST(r.w AS DOUBLE)", 5.0),
        ("CAST(l AS ARRAY<STRING>)", ["z"]),
        ("is_variant_null(v:n)", True),
        ("to_json(try_parse_json('{'))", None),
    ],
)
def test_expressions(ctx: lw.SQLContext, expression: str, value: object) -> None:
    assert ctx.sql(f"SELECT {expression} AS x FROM t WHERE id = 1")["x"].to_pylist() == [value]  # noqa: S608 - an expression of this file


def test_changes_take_and_find_variants(ctx: lw.SQLContext) -> None:
    ctx.sql("UPDATE t SET v = v:b WHERE v:a::int = 1")
    ctx.sql("DELETE FROM t WHERE v IS NULL")
    ctx.sql("CREATE TABLE u AS SELECT id, v FROM t")
    assert str(ctx.catalog.get_table("default.u").fields[1].type) == "VARIANT"
    found = ctx.sql("SELECT id, to_json(v) AS v FROM u ORDER BY id").to_pylist()
    assert found == [{"id": 1, "v": '{"c":[10,"x"]}'}, {"id": 2, "v": "[1,2]"}]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT variant_get(v, '$.b', 'int') FROM t", "cannot be cast to INT"),
        ("SELECT variant_get(v, '$.big', 'int') FROM t", "3000000000 cannot be cast to INT"),
        ("SELECT variant_get(v, 'a', 'int') FROM t", "not a path"),
        ("SELECT variant_get(id, '$.a', 'int') FROM t", "takes a VARIANT, and id is INT"),
        ("SELECT parse_json('{')", "is not JSON"),
        ("SELECT id FROM t WHERE v > parse_json('1')", "no order"),
        (
            "CREATE TABLE bad (id INT, v VARIANT) TBLPROPERTIES ('file.format' = 'orc')",
            "column 'v'.*file.format=parquet",
        ),
        ("CREATE TABLE bad (v VARIANT) TBLPROPERTIES ('primary-key' = 'v')", "column 'v' cannot be part"),
        ("CREATE TABLE bad (id INT, v VARIANT) PARTITIONED BY (v)", "column 'v' cannot be part"),
    ],
)
def test_errors_say_what_to_do(ctx: lw.SQLContext, statement: str, message: str) -> None:
    with pytest.raises(lw.LakewrightError, match=message):
        ctx.sql(statement)

"""Expressions and queries of Spark mean the same embedded: values, types and errors are those that Spark gave."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pytest
from sqlglot import exp

import lakewright as lw
from lakewright.statements.embedded.dialect_expressions import Expressions
from lakewright.statements.embedded.dialect_values import TypedSql
from support.spark_answers import ANSWERS, ERRORS, ROWS


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> lw.SQLContext:
    context = lw.SQLContext(tmp_path_factory.mktemp("warehouse"))
    context.set("spark.sql.session.timeZone", "UTC")
    context.set("duckdb.threads", "1")
    return context


def _with_rows(query: str) -> str:
    return query.replace("$ROWS", ROWS)


def _text(kind: pa.DataType) -> str:
    text = str(kind).replace("element:", "item:").replace(" ('item')", "").replace("entries", "")
    return text.replace(" not null", "")


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-14) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


_EXPRESSIONS = [answer for answer in ANSWERS if "$ROWS" not in answer[0] and " from " not in answer[0]]
_PLAIN = [answer for answer in _EXPRESSIONS if len(answer[1]) == 1 and answer[0].startswith("select ")]
_QUERIES = [answer for answer in ANSWERS if answer not in _PLAIN]


def test_expressions_have_the_values_and_types_of_spark(ctx: lw.SQLContext) -> None:
    plain = [one for one in _PLAIN if not any(word in one[0] for word in (" union ", " intersect ", " except "))]
    found = ctx.sql("SELECT " + ", ".join(query.removeprefix("select ") for query, _, _ in plain))
    wrong = [
        (query, _text(column.type), types[0], column.to_pylist(), values[0])
        for (query, types, values), column in zip(plain, found.columns, strict=True)
        if _text(column.type) != types[0] or not _same(column.to_pylist(), values[0])
    ]
    assert len(plain) > 300
    assert wrong == []


@pytest.mark.parametrize(("query", "types", "columns"), _QUERIES, ids=[query[:60] for query, _, _ in _QUERIES])
def test_a_query_answers_what_spark_answers(
    ctx: lw.SQLContext, query: str, types: list[str], columns: list[list[object]]
) -> None:
    found = ctx.sql(_with_rows(query))
    assert [_text(field.type) for field in found.schema] == types
    assert _same([column.to_pylist() for column in found.columns], columns)


@pytest.mark.parametrize("query", ERRORS)
def test_what_spark_refuses_is_refused(ctx: lw.SQLContext, query: str) -> None:
    with pytest.raises(lw.LakewrightError):
        ctx.sql(_with_rows(query))


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("(a <> 7) AND ", ""),
        ("(a = 7) OR ", ""),
        ("NOT ", ""),
        ("if(", ", true, false)"),
        ("CASE WHEN ", " THEN true ELSE false END"),
        ("CASE ", " WHEN true THEN true WHEN false THEN false END"),
    ],
)
def test_each_part_of_an_expression_is_bound_once(
    ctx: lw.SQLContext, first: str, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If one level bound its parts twice, ten levels would bind a thousand times, and forty never end."""
    bound, bind = list[object](), Expressions.bind

    def counted(self: Expressions, node: exp.Expr) -> TypedSql:
        bound.append(node)
        return bind(self, node)

    monkeypatch.setattr(Expressions, "bind", counted)
    levels = 8
    found = ctx.sql(f"SELECT {first * levels} a > 0 {last * levels} AS x FROM (SELECT 1 AS a)")  # noqa: S608 - no input
    assert found.to_pylist() == [{"x": True}]
    assert len(bound) <= 7 * (levels + 1)


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> lw.SQLContext:
    context = lw.SQLContext(tmp_path_factory.mktemp("numbers"))
    lw.create_table_from({"id": list(range(300)), "v": [0] * 300}, "default.t", catalog=context.catalog)
    return context


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (" AND ".join(f"id <> {number}" for number in range(200)), 100),
        (" OR ".join(f"id = {number}" for number in range(200)), 200),
        (f"NOT ({' AND '.join(f'id <> {number}' for number in range(200))})", 200),
        (f"CASE {' '.join(f'WHEN id = {number} THEN true' for number in range(200))} ELSE false END", 200),
        (f"id IN ({', '.join(map(str, range(200)))})", 200),
    ],
    ids=["and", "or", "not", "case", "in"],
)
def test_two_hundred_conditions_are_no_harder_than_one(numbers: lw.SQLContext, condition: str, found: int) -> None:
    assert numbers.sql(f"SELECT count(*) AS n FROM t WHERE {condition}")["n"].to_pylist() == [found]  # noqa: S608
    assert numbers.sql(f"UPDATE t SET v = v + 1 WHERE {condition}")["num_updated_rows"].to_pylist() == [found]  # noqa: S608


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("NOT ", ""),
        ("(", ")"),
        ("NOT (", ")"),
        ("if(", ", true, false)"),
        ("CASE WHEN ", " THEN true ELSE false END"),
        ("(id >= 0 AND ", ")"),
        ("(id < 0 OR ", ")"),
        ("abs(", ") > -1"),
        ("coalesce(", ", false)"),
    ],
)
@pytest.mark.parametrize("depth", [10, 50, 500])
@pytest.mark.parametrize("text", ["SELECT id FROM t WHERE {}", "UPDATE t SET v = 1 WHERE {}", "SELECT {} FROM t"])
def test_deep_nesting_works_or_is_an_error_that_says_how_deep(
    numbers: lw.SQLContext, text: str, depth: int, first: str, last: str
) -> None:
    is_number = first == "abs("
    inner = (
        f"abs({'abs(' * (depth - 1)}id{')' * (depth - 1)}{last}"
        if is_number
        else f"{first * depth}id >= 0{last * depth}"
    )
    try:
        numbers.sql(text.format(inner))
    except lw.UnsupportedError as error:
        assert depth > 10
        assert int(str(error.facts["depth"])) >= depth  # noqa: PT017
        assert "nested" in str(error)  # noqa: PT017


def test_result_columns_are_named_as_spark_names_them(ctx: lw.SQLContext) -> None:
    found = ctx.sql("SELECT A, A + 1, upper('x'), -a, a = 1, CASE WHEN a > 1 THEN 2 END, a AS a FROM VALUES (1) t(a)")
    expected = ["A", "(A + 1)", "upper(x)", "(- a)", "(a = 1)", "CASE WHEN (a > 1) THEN 2 END", "a"]
    assert found.column_names == expected
    assert ctx.sql("SELECT count(*), sum(a) FROM VALUES (1) t(a)").column_names == ["count(1)", "sum(a)"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT percentile_approx(a, 0.5) FROM VALUES (1) t(a)",
        "SELECT no_such_function(1)",
        "SELECT a FROM VALUES (1) t(a) TABLESAMPLE (10 PERCENT)",
        "SELECT a FROM VALUES (1) t(a) QUALIFY row_number() OVER (ORDER BY a) = 1",
        "SELECT regexp_extract('ab', '(?<=a)b', 0)",
        "SELECT date_format(DATE '2020-01-01', 'VV')",
        "WITH RECURSIVE r AS (SELECT 1) SELECT * FROM r",
    ],
)
def test_what_has_not_been_checked_is_refused_by_name(ctx: lw.SQLContext, query: str) -> None:
    with pytest.raises((lw.UnsupportedError, lw.InvalidInputError)):
        ctx.sql(query)


def test_an_unknown_function_names_those_that_are_near(ctx: lw.SQLContext) -> None:
    with pytest.raises(lw.UnsupportedError, match=r"the function substrin .* near are substring"):
        ctx.sql("SELECT substrin('a', 1)")


def test_timestamps_are_of_the_zone_of_the_session(tmp_path: Path) -> None:
    ctx = lw.SQLContext(tmp_path)
    ctx.sql("SET spark.sql.session.timeZone = Europe/Berlin")
    text = "SELECT TIMESTAMP '2020-07-01 12:00:00' AS t, hour(TIMESTAMP '2020-07-01 10:00:00Z') AS h"
    row = ctx.sql(f"{text}, CAST(TIMESTAMP '2020-07-01 10:00:00Z' AS STRING) AS s").to_pylist()[0]
    assert row["t"].isoformat() == "2020-07-01T10:00:00+00:00"
    assert (row["h"], row["s"]) == (12, "2020-07-01 12:00:00")

"""Rows of values, and subqueries over nulls, mean embedded what they mean on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakewright as lw
from support.null_answers import CONDITIONS, IDS, REFUSED, TABLES, truth_query


@pytest.fixture
def ctx(tmp_path: Path) -> lw.SQLContext:
    context = lw.SQLContext(tmp_path)
    context.set("duckdb.threads", "1")
    context.sql("CREATE DATABASE d")
    context.sql("USE d")
    for name, (columns, rows) in TABLES.items():
        context.sql(f"CREATE TABLE {name} ({columns})")
        if rows:
            context.sql(f"INSERT INTO {name} VALUES {rows}")  # noqa: S608 - no input
    return context


def test_conditions_are_true_false_and_null_as_on_spark(ctx: lw.SQLContext) -> None:
    found = ctx.sql(truth_query([condition for condition, _, _ in CONDITIONS]))
    wrong = {}
    for (condition, true, null), column in zip(CONDITIONS, found.columns[1:], strict=True):
        expected = [True if number in true else None if number in null else False for number in IDS]
        if column.to_pylist() != expected:
            wrong[condition] = (column.to_pylist(), expected)
    assert wrong == {}


def test_conditions_choose_the_rows_that_spark_chooses(ctx: lw.SQLContext) -> None:
    chosen = {
        condition: ctx.sql(f"SELECT id FROM t WHERE {condition} ORDER BY id")["id"].to_pylist()  # noqa: S608 - no input
        for condition, _, _ in CONDITIONS
    }
    assert chosen == {condition: true for condition, true, _ in CONDITIONS}


@pytest.mark.parametrize(
    "condition",
    [
        "(n, b) IN (SELECT n, b FROM s)",
        "(n, b) NOT IN (SELECT n, b FROM s)",
        "(n, b) NOT IN (SELECT n, b FROM s2)",
        "n NOT IN (SELECT n FROM s)",
        "NOT ((n, b) IN (SELECT n, b FROM s2))",
        "(n, b) = (1, 'a')",
        "(n, b) <> (1, CAST(null AS STRING))",
    ],
)
def test_a_delete_takes_the_rows_that_the_condition_chooses(ctx: lw.SQLContext, condition: str) -> None:
    chosen = ctx.sql(f"SELECT id FROM t WHERE {condition}")["id"].to_pylist()  # noqa: S608 - no input
    ctx.sql(f"DELETE FROM t WHERE {condition}")  # noqa: S608 - no input
    assert sorted(ctx.sql("SELECT id FROM t")["id"].to_pylist()) == sorted(set(IDS) - set(chosen))


@pytest.mark.parametrize("condition", REFUSED)
def test_what_spark_refuses_is_refused(ctx: lw.SQLContext, condition: str) -> None:
    with pytest.raises(lw.LakewrightError):
        ctx.sql(f"SELECT id FROM t WHERE {condition}")  # noqa: S608 - no input


def test_rows_and_their_tests_are_named_as_spark_names_them(ctx: lw.SQLContext) -> None:
    found = ctx.sql(
        "SELECT (n, b), (n + 1, 'a'), (n, b) = (1, 'a'), n NOT IN (SELECT n FROM t), (n, b) IN (SELECT n, b FROM t), "
        "NOT (n IS NULL AND b IS NULL), n IS NOT NULL FROM t"
    )
    assert found.column_names == [
        "named_struct(n, n, b, b)",
        "named_struct(col1, (n + 1), col2, a)",
        "(named_struct(n, n, b, b) = named_struct(col1, 1, col2, a))",
        "(NOT (n IN (listquery())))",
        "(named_struct('n', n, 'b', b) IN (listquery()))",
        "(NOT ((n IS NULL) AND (b IS NULL)))",
        "(n IS NOT NULL)",
    ]


def test_nulls_inside_of_values_take_the_types_of_the_column(ctx: lw.SQLContext) -> None:
    ctx.sql("CREATE TABLE n (id INT, r STRUCT<a: INT, b: STRING>, l ARRAY<STRUCT<a: INT>>, m MAP<STRING, INT>)")
    ctx.sql("INSERT INTO n VALUES (1, named_struct('a', null, 'b', null), array(struct(null)), map('x', null))")
    ctx.sql("INSERT INTO n BY NAME SELECT 2 AS id, named_struct('b', null, 'a', 5) AS r")
    ctx.sql("UPDATE n SET l = array(named_struct('a', null)) WHERE id = 2")
    assert ctx.sql("SELECT * FROM n ORDER BY id").to_pylist() == [
        {"id": 1, "r": {"a": None, "b": None}, "l": [{"a": None}], "m": [("x", None)]},
        {"id": 2, "r": {"a": 5, "b": None}, "l": [{"a": None}], "m": None},
    ]

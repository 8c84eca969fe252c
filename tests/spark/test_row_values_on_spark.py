"""Rows of values, and subqueries over nulls, by SQL on Spark: the recorded answers are those of Spark itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import lakewright as lw
import lakewright.spark as lws
from lakewright.spark.frame_operations import from_arrow
from support.effort import is_thin, some
from support.null_answers import CONDITIONS, IDS, REFUSED, TABLES, truth_query

pytestmark = pytest.mark.spark

_AT_ONCE = 30  # conditions in one query
_CONDITIONS = CONDITIONS[:: 3 if is_thin() else 1]
_DELETED = [
    "(n, b) NOT IN (SELECT n, b FROM s2)",
    "(n, b) IN (SELECT n, b FROM s)",
    "NOT ((n, b) IN (SELECT n, b FROM s2))",
    "(n, b) <> (1, CAST(null AS STRING))",
]


@pytest.fixture
def context(spark: SparkSession, tmp_path: Path) -> lws.SQLContext:
    made = lws.SQLContext(spark, {"warehouse": str(tmp_path)})
    made.sql("CREATE DATABASE d")
    made.sql("USE d")
    for name, (columns, rows) in TABLES.items():
        made.sql(f"CREATE TABLE {name} ({columns})")
        if rows:
            made.sql(f"INSERT INTO {name} VALUES {rows}")  # noqa: S608 - no input
    return made


def _answers(sql: Callable[[str], DataFrame]) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {}
    for first in range(0, len(_CONDITIONS), _AT_ONCE):
        conditions = [condition for condition, _, _ in _CONDITIONS[first : first + _AT_ONCE]]
        rows = sql(truth_query(conditions)).collect()
        found |= {condition: [row[number] for row in rows] for number, condition in enumerate(conditions, 1)}
    return found


def test_conditions_are_true_false_and_null_as_recorded(spark: SparkSession, context: lws.SQLContext) -> None:
    expected = {
        condition: [True if number in true else None if number in null else False for number in IDS]
        for condition, true, null in _CONDITIONS
    }
    assert _answers(context.sql) == expected
    for name in TABLES:
        from_arrow(spark, lw.read_table(context.catalog.get_table(f"d.{name}"))).createOrReplaceTempView(name)
    try:
        assert _answers(spark.sql) == expected
        for condition in REFUSED[:: 6 if is_thin() else 1]:
            with pytest.raises(PySparkException):
                spark.sql(f"SELECT id FROM t WHERE {condition}").collect()  # noqa: S608 - no input
    finally:
        for name in TABLES:
            spark.catalog.dropTempView(name)


@pytest.mark.parametrize("condition", some(_DELETED, 0))
def test_a_delete_takes_the_rows_that_the_condition_chooses(context: lws.SQLContext, condition: str) -> None:
    chosen = [row.id for row in context.sql(f"SELECT id FROM t WHERE {condition}").collect()]  # noqa: S608 - no input
    context.sql(f"DELETE FROM t WHERE {condition}")  # noqa: S608 - no input
    assert {row.id for row in context.sql("SELECT id FROM t").collect()} == set(IDS) - set(chosen)

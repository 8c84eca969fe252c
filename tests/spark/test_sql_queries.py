"""Queries on Spark over tables of ours: the same rows as Spark itself gives over the same data."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import lakewright as lw
import lakewright.spark as lws
from lakewright.catalog.catalog import Catalog
from lakewright.errors import AlreadyExistsError, InvalidInputError, NotFoundError, SQLSyntaxError
from lakewright.spark.frame_operations import from_arrow
from support.effort import some

pytestmark = pytest.mark.spark

ORDERS = pa.table({
    "id": pa.array([1, 2, 3, 4, 5], pa.int64()),
    "who": pa.array(["ann", "bob", "ann", None, "cid"]),
    "total": pa.array([10.0, 20.5, None, 5.0, float("nan")]),
    "tags": pa.array([["a", "b"], [], None, ["c"], ["a"]], pa.list_(pa.string())),
    "at": pa.array([{"city": "x"}, {"city": "y"}, None, {"city": "x"}, {}], pa.struct({"city": pa.string()})),
})  # fmt: skip
PEOPLE = pa.table({"who": ["ann", "bob", "dan"], "age": pa.array([30, None, 50], pa.int32())})

QUERIES = [
    "SELECT * FROM orders WHERE id > 2",
    "SELECT who, count(*) AS n, sum(total) FROM orders GROUP BY who HAVING count(*) > 0",
    "SELECT o.id, p.age FROM orders o LEFT JOIN people p ON o.who = p.who AND p.age > 20 WHERE o.id < 5",
    "SELECT o.id FROM orders o LEFT JOIN people p ON o.who = p.who WHERE p.age IS NULL",
    "SELECT * FROM orders NATURAL JOIN people",
    "SELECT x.id FROM orders x JOIN orders y ON x.id = y.id + 1 WHERE y.who = 'ann'",
    "WITH orders AS (SELECT who FROM orders WHERE id < 3) SELECT * FROM orders, people",
    "SELECT id, tag FROM orders LATERAL VIEW explode(tags) e AS tag WHERE tag = 'a'",
    "SELECT * FROM (SELECT who, at.city AS city, id FROM orders) PIVOT (count(id) FOR city IN ('x', 'y'))",
    "FROM orders SELECT id WHERE at.city = 'x'",
    "TABLE people",
    "SELECT id FROM orders WHERE who IN (SELECT who FROM people) UNION ALL (SELECT age FROM people)",
    "SELECT id, row_number() OVER (PARTITION BY who ORDER BY id) AS r FROM orders",
    "SELECT p.who, (SELECT max(o.id) FROM orders o WHERE o.who = p.who) AS m FROM people p",
    "SELECT * FROM VALUES (1, 'x'), (2, 'y') AS v(id, z) JOIN orders USING (id)",
    "SELECT total = 'NaN', nanvl(total, 0) FROM orders WHERE total > 10",
    "SELECT '{}' AS braces, '{who}' AS more, map('a', 1)['a'] FROM people",
    "SELECT id FROM orders LEFT ANTI JOIN people ON orders.who = people.who",
    "SELECT transform(tags, t -> upper(t)) FROM orders",
    "SELECT grouping(who), who, sum(id) FROM orders GROUP BY CUBE (who)",
]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path_factory.mktemp("lake"))})
    made.create_database("shop")
    for name, rows in (("orders", ORDERS), ("people", PEOPLE)):
        made.create_table(f"shop.{name}", rows.schema)
        lw.write_table(rows, made.get_table(f"shop.{name}"))
    made.create_database("past")
    made.create_table("past.t", pa.schema({"id": pa.int64(), "n": pa.int64()}))
    for number in (1, 2):
        lw.write_table({"id": [number], "n": [number]}, made.get_table("past.t"))
    made.get_table("past.t").create_tag("first", 1)
    return made


@pytest.fixture(scope="module")
def context(spark: SparkSession, catalog: Catalog) -> lws.SQLContext:
    return lws.SQLContext(spark, {"lake": catalog}, "shop")


@pytest.fixture(scope="module")
def plain(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the tables of Spark's own that hold the same rows, by the names that queries use."""
    names = {}
    for name, rows in (("orders", ORDERS), ("people", PEOPLE)):
        path = str(tmp_path_factory.mktemp("plain") / name)
        from_arrow(spark, rows).write.parquet(path)
        names[name] = f"parquet.`{path}`"
    return names


def rows_of(frame: DataFrame) -> list[str]:
    return sorted(repr(tuple(row)) for row in frame.collect())


@pytest.mark.parametrize("text", some(QUERIES, 1, 2, 6, 7, 8, 13))
def test_a_query_gives_the_rows_that_spark_gives(
    spark: SparkSession, context: lws.SQLContext, plain: dict[str, str], text: str
) -> None:
    found = context.sql(text)
    for name, path in plain.items():
        spark.sql(f"SELECT * FROM {path}").createOrReplaceTempView(name)  # noqa: S608 - a path of this test
    try:
        expected = spark.sql(text)
        assert found.columns == expected.columns
        assert rows_of(found) == rows_of(expected)
    finally:
        for name in plain:
            spark.catalog.dropTempView(name)


def ids(context: lws.SQLContext, text: str, args: object = None) -> list[int]:
    return sorted(row[0] for row in context.sql(text, args).collect())  # type: ignore[arg-type]


def test_time_travel_options_settings_and_system_tables(spark: SparkSession, context: lws.SQLContext) -> None:
    for text in (
        "SELECT id FROM past.t VERSION AS OF 1",
        "SELECT x.id FROM lake.past.t FOR SYSTEM_VERSION AS OF 'first' AS x",
        "SELECT id FROM past.t /*+ OPTIONS('scan.snapshot-id'='1') */",
        "SELECT /*+ OPTIONS('scan.tag-name'='first') */ id FROM past.t",
        "SELECT id FROM paimon_incremental_query('past.t', 0, 1)",
    ):
        assert ids(context, text) == [1], text
    assert ids(context, "SELECT id FROM past.t TIMESTAMP AS OF current_timestamp() + INTERVAL 1 DAY x") == [1, 2]
    assert ids(context, "SELECT snapshot_id FROM past.`t$snapshots` WHERE snapshot_id > 1") == [2]
    assert ids(context, "SELECT count(*) FROM past.t$files") == [2]
    context.sql("SET spark.paimon.past.t.scan.snapshot-id=1")
    assert ids(context, "SELECT id FROM past.t") == [1]
    context.sql("RESET spark.paimon.past.t.scan.snapshot-id")
    assert ids(context, "SELECT id FROM past.t") == [1, 2]
    assert spark.conf.get("spark.paimon.past.t.scan.snapshot-id", None) is None


def test_a_frame_stays_at_its_snapshot_and_a_view_follows_the_table(
    spark: SparkSession, context: lws.SQLContext, catalog: Catalog
) -> None:
    catalog.create_table("past.grows", pa.schema({"id": pa.int64()}))
    lw.write_table({"id": [1]}, catalog.get_table("past.grows"))
    frame = context.sql("SELECT x.id FROM past.grows x JOIN past.grows y ON x.id = y.id")
    context.sql("CREATE TEMP VIEW seen (number) AS SELECT id FROM past.grows")
    lw.write_table({"id": [2]}, catalog.get_table("past.grows"))
    assert [row[0] for row in frame.collect()] == [1]
    assert ids(context, "SELECT number FROM seen") == [1, 2]
    with pytest.raises(AnalysisException, match="already exists"):
        context.sql("CREATE TEMP VIEW seen AS SELECT id FROM past.grows")
    assert context.sql("CREATE OR REPLACE TEMP VIEW seen AS SELECT id + 1 FROM past.grows").collect() == []
    assert ids(context, "SELECT * FROM seen") == [2, 3]
    context.sql("CREATE TEMP VIEW near AS SELECT count(*) FROM people")
    context.use(database="past")
    assert ids(context, "SELECT * FROM near") == [3]  # of the database in which the view was made
    context.use(database="shop")
    context.sql("DROP VIEW near")
    context.sql("DROP VIEW seen")
    with pytest.raises(NotFoundError, match="no table or view seen"):
        context.sql("SELECT * FROM seen")
    assert not spark.catalog.tableExists("seen")


def test_views_of_spark_come_before_tables_and_its_tables_after_them(
    spark: SparkSession, context: lws.SQLContext
) -> None:
    spark.range(7).createOrReplaceTempView("people")
    spark.range(3).write.saveAsTable("own")
    try:
        assert ids(context, "SELECT count(*) FROM people") == [7]
        assert ids(context, "SELECT count(*) FROM shop.people") == [3]
        assert ids(context, "SELECT own.id FROM own JOIN orders ON own.id = orders.id") == [1, 2]
        assert ids(context, "SELECT id FROM spark_catalog.default.own") == [0, 1, 2]
    finally:
        spark.catalog.dropTempView("people")
        spark.sql("DROP TABLE own")


def test_parameters_are_bound(context: lws.SQLContext) -> None:
    assert ids(context, "SELECT id FROM orders WHERE id > :low AND who = :who", {"low": 1, "who": "ann"}) == [3]
    assert ids(context, "SELECT id FROM orders WHERE id > ? AND who = ?", [1, "ann"]) == [3]
    assert ids(context, "SELECT id FROM orders WHERE who = :who", {"who": "x' OR 1=1 --"}) == []


def test_plans_show_that_files_and_columns_are_left_out(context: lws.SQLContext) -> None:
    plan = context.sql("EXPLAIN SELECT n FROM past.t WHERE id = 2").collect()[0][0]
    assert "InMemoryFileIndex(1 paths)" in plan
    assert "ReadSchema: struct<id:bigint,n:bigint>" in plan
    assert "mapInArrow" not in plan
    assert "== Parsed Logical Plan ==" in context.sql("EXPLAIN EXTENDED SELECT 1 FROM orders").collect()[0][0]


def test_statements_of_spark_run_as_they_are(spark: SparkSession, context: lws.SQLContext) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        context.sql("SET TIME ZONE 'Asia/Tokyo'")
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
        assert context.sql("SET spark.sql.session.timeZone").collect()[0]["value"] == "Asia/Tokyo"
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    assert context.sql("SHOW FUNCTIONS LIKE 'upper'").count() == 1


def test_errors_show_the_place_or_are_those_of_spark(
    spark: SparkSession, context: lws.SQLContext, catalog: Catalog, tmp_path: Path
) -> None:
    with pytest.raises(NotFoundError, match=r"'orders'\? \(line 2, column 6\)\nFROM oders o\n     \^"):
        context.sql("SELECT *\nFROM oders o")
    with pytest.raises(NotFoundError, match="did you mean 'shop'"):
        context.sql("SELECT * FROM shp.orders")
    with pytest.raises(NotFoundError, match=r"'o\.whoo'.*'who'\? \(line 1, column 8\)\nSELECT o.whoo.*\n       \^"):
        context.sql("SELECT o.whoo FROM orders o JOIN people p ON o.who = p.who")
    with pytest.raises(SQLSyntaxError, match="line 1"):
        context.sql("SELECT (1")
    for text, place in (
        ("SELEC id FROM orders", r"line 1, column 1\)\nSELEC id"),
        ("SELECT id\nFROM orders GROUP BY", r"line 2, column 19\)"),
        ("SELECT count(id,) FROM orders", r"line 1, column 16\)"),
        ("SELECT @id FROM orders", r"line 1, column 8\)"),
    ):
        with pytest.raises(SQLSyntaxError, match=place):
            context.sql(text)
    with pytest.raises(InvalidInputError, match="Spark session"):
        lws.SQLContext("spark", catalog)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="args"):
        lws.sql(spark, "SELECT 1", 5, catalog=str(tmp_path))  # type: ignore[arg-type]
    assert lws.sql(spark, "SELECT 1 AS one", catalog=str(tmp_path)).collect()[0].one == 1


def test_frames_are_given_by_keyword_for_one_statement(spark: SparkSession, context: lws.SQLContext) -> None:
    new = spark.range(2, 9)
    joined = context.sql("SELECT o.id FROM new JOIN orders o USING (id)", new=new)
    assert sorted(row.id for row in joined.collect()) == [2, 3, 4, 5]
    assert context.sql("SELECT count(*) AS n FROM {new}", new=new).collect()[0].n == 7
    with pytest.raises((AnalysisException, NotFoundError)):
        context.sql("SELECT * FROM new")
    with pytest.raises(InvalidInputError, match="a frame of Spark"):
        context.sql("SELECT * FROM new", new=pa.table({"id": [1]}))
    new.createOrReplaceTempView("new")
    with pytest.raises(AlreadyExistsError, match="'new' already"):
        context.sql("SELECT * FROM new", new=new)
    spark.catalog.dropTempView("new")

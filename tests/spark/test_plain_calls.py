"""The contract of plain calls: what users of PySpark write finds tables of installed catalogs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.functions import expr

import lakewright as lw
import lakewright.spark as lws
from lakewright.errors import AlreadyExistsError, InvalidInputError, LakewrightError, NotFoundError, UnsupportedError
from lakewright.spark.plain_calls import TableWriter
from lakewright.spark.spark_features import Feature
from lakewright.spark.spark_session import is_connect
from support.needs import needs

ROWS = [(1, "north", 10), (2, "south", 20), (3, None, 30)]
SECONDS_MAX = 120


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> lw.Catalog:
    return lw.CatalogFactory.create({"warehouse": str(tmp_path_factory.mktemp("plain") / "lake")})


@pytest.fixture(scope="module")
def shop(spark: SparkSession, catalog: lw.Catalog) -> Iterator[SparkSession]:
    """Return a session whose current catalog is ours, with tables of ours and of Spark."""
    catalog.create_database("sales", ignore_if_exists=True)
    lws.install(spark, {"paimon": catalog}, default="paimon.sales")
    spark.sql("CREATE TABLE orders (id BIGINT, region STRING, amount INT)")
    spark.sql("INSERT INTO orders VALUES (1, 'north', 10), (2, 'south', 20), (3, NULL, 30)")
    spark.sql("CREATE TABLE keyed (id BIGINT, n INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    spark.sql("INSERT INTO keyed VALUES (1, 1), (2, 2)")
    spark.sql("CREATE TABLE days (id BIGINT, day STRING) PARTITIONED BY (day)")
    spark.sql("CREATE DATABASE spark_catalog.shop")
    for name, value in (("own", 5), ("both", 777)):
        spark.sql(f"CREATE TABLE spark_catalog.shop.{name} USING parquet AS SELECT {value}L AS id")
    spark.sql("CREATE DATABASE shop")
    spark.sql("CREATE TABLE paimon.shop.both (id BIGINT)")
    spark.createDataFrame([(2, "two")], "id long, word string").createOrReplaceTempView("words")
    yield spark
    lws.uninstall()
    spark.sql("DROP DATABASE spark_catalog.shop CASCADE")
    spark.catalog.dropTempView("words")


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def one(frame: DataFrame) -> Any:  # noqa: ANN401 - a row
    (row,) = frame.collect()
    return row


def ids(frame: DataFrame) -> list[int]:
    return sorted(row["id"] for row in frame.select("id").collect())


# ---- statements that read --------------------------------------------------------------------------------------------

QUERIES: dict[str, list[tuple[Any, ...]]] = {
    "SELECT * FROM orders": ROWS,
    "SELECT * FROM sales.orders": ROWS,
    "SELECT o.id FROM paimon.sales.orders o WHERE amount > 15": [(2,), (3,)],
    "SELECT orders.id FROM orders WHERE orders.region = 'north'": [(1,)],
    "SELECT sales.orders.id FROM sales.orders WHERE id = 1": [(1,)],
    "TABLE keyed": [(1, 1), (2, 2)],
    "FROM keyed SELECT id": [(1,), (2,)],
    "WITH keyed AS (SELECT 9 AS id) SELECT id FROM keyed": [(9,)],
    "WITH c AS (SELECT * FROM keyed) SELECT count(*) FROM c": [(2,)],
    "SELECT (SELECT max(n) FROM keyed) AS m": [(2,)],
    "SELECT id FROM orders WHERE id IN (SELECT id FROM keyed)": [(1,), (2,)],
    "SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM keyed k WHERE k.id = o.id AND k.n = 2)": [(2,)],
    "SELECT word FROM orders JOIN words USING (id)": [("two",)],
    "SELECT id FROM spark_catalog.shop.both": [(777,)],
    "SELECT id FROM shop.own": [(5,)],
    "SELECT o.id FROM orders o LEFT ANTI JOIN keyed k ON o.id = k.id": [(3,)],
    "SELECT id FROM keyed UNION ALL SELECT id FROM shop.own": [(1,), (2,), (5,)],
    "SELECT id FROM words": [(2,)],
    "SELECT 1": [(1,)],
    "VALUES (1), (2)": [(1,), (2,)],
    "SELECT count(*) FROM orders VERSION AS OF 1": [(3,)],
    "SELECT count(*) FROM orders$snapshots": [(1,)],
    "SELECT current_database(), current_catalog()": [("sales", "paimon")],
    "SELECT upper(current_schema())": [("SALES",)],
    "SELECT id FROM keyed WHERE current_database() = 'sales'": [(1,), (2,)],
    "SHOW CATALOGS": [("paimon",), ("spark_catalog",)],
    "SHOW DATABASES LIKE 's*'": [("sales",), ("shop",)],
    "SHOW TABLES LIKE 'k*'": [("sales", "keyed", False)],
    "SHOW TABLES IN shop": [("shop", "both", False)],
    "SHOW TABLES IN spark_catalog.shop LIKE 'own'": [("shop", "own", False)],
    "SHOW CURRENT NAMESPACE": [("paimon", "sales")],
    "SHOW COLUMNS IN keyed": [("id",), ("n",)],
    "DESCRIBE keyed": [("id", "bigint", None), ("n", "int", None)],
    "DESCRIBE QUERY SELECT id FROM keyed": [("id", "bigint", None)],
}


@pytest.mark.parametrize("text", list(QUERIES))
def test_a_statement_reads_the_tables_that_it_names(shop: SparkSession, text: str) -> None:
    found = rows(shop.sql(text))
    views = [row for row in found if row[-1] is True]  # SHOW TABLES of Spark lists temporary views
    assert [row for row in found if row not in views] == QUERIES[text]


def test_columns_of_a_query_are_named_as_in_spark(shop: SparkSession) -> None:
    assert shop.sql("SELECT current_database()").columns == ["current_database()"]
    assert "keyed" in str(shop.sql("SHOW CREATE TABLE keyed").collect()[0][0])
    assert "Physical Plan" in str(shop.sql("EXPLAIN SELECT * FROM keyed").collect()[0][0])


def test_values_of_parameters_and_frames_are_given_as_in_spark(shop: SparkSession) -> None:
    assert ids(shop.sql("SELECT id FROM orders WHERE id > :low", args={"low": 1})) == [2, 3]
    assert ids(shop.sql("SELECT id FROM orders WHERE id = ?", args=[2])) == [2]
    if not is_connect(shop) or Feature.CONNECT_SQL_FRAMES.value.is_there():
        given = shop.range(2, 4)
        assert ids(shop.sql("SELECT id FROM orders JOIN {new} USING (id)", new=given)) == [2, 3]
        assert ids(shop.sql("SELECT id FROM {new}", new=given)) == [2, 3]
        assert ids(shop.sql("SELECT id FROM {new} JOIN orders USING (id) WHERE id > {low}", new=given, low=2)) == [3]


# ---- calls that read -------------------------------------------------------------------------------------------------

READS: dict[str, tuple[Callable[[SparkSession], object], object]] = {
    "table": (lambda s: rows(s.table("keyed")), [(1, 1), (2, 2)]),
    "table by three parts": (lambda s: ids(s.table("paimon.sales.keyed")), [1, 2]),
    "table of a view": (lambda s: ids(s.table("words")), [2]),
    "table of Spark": (lambda s: ids(s.table("spark_catalog.shop.both")), [777]),
    "system table": (lambda s: s.table("`keyed$files`").count() > 0, True),
    "read.table": (lambda s: ids(s.read.table("keyed")), [1, 2]),
    "read.table of Spark": (lambda s: ids(s.read.table("shop.own")), [5]),
    "read.option.table": (lambda s: ids(s.read.option("snapshot_id", 1).table("orders")), [1, 2, 3]),
    "read.options.table": (lambda s: ids(s.read.options(filter="id = 2", columns="id").table("orders")), [2]),
    "format": (lambda s: s.read.format("parquet").schema("a int").load([]).columns, ["a"]),
    "join": (lambda s: ids(s.table("keyed").join(s.table("words"), "id")), [2]),
    "where": (lambda s: ids(s.table("orders").where("amount BETWEEN 15 AND 25")), [2]),
    "where with a subquery of Spark": (
        lambda s: ids(s.range(9).where("id IN (SELECT id FROM spark_catalog.shop.own)")),
        [5],
    ),
    "selectExpr": (lambda s: rows(s.table("keyed").selectExpr("id + n AS m")), [(2,), (4,)]),
    "expr": (lambda s: rows(s.table("keyed").select(expr("id * 2"))), [(2,), (4,)]),
    "newSession": (lambda s: ids(s.newSession().table("paimon.sales.keyed")), [1, 2]),
    "getOrCreate": (lambda _: ids(SparkSession.builder.getOrCreate().table("paimon.sales.keyed")), [1, 2]),
    "sparkSession of a frame": (lambda s: ids(s.range(1).sparkSession.table("keyed")), [1, 2]),
}


@pytest.mark.parametrize("name", list(READS))
def test_a_call_reads_the_table_that_it_names(shop: SparkSession, name: str) -> None:
    if name in {"newSession", "getOrCreate"} and is_connect(shop):
        pytest.skip("not with a session of Connect that was given its server by the builder")
    call, expected = READS[name]
    assert call(shop) == expected


def test_threads_read_at_the_same_time(shop: SparkSession) -> None:
    def read(start: int) -> list[int]:
        return ids(shop.sql("SELECT :start + id AS id FROM keyed", args={"start": start}))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(read, range(4))) == [[start + 1, start + 2] for start in range(4)]


# ---- spark.catalog ---------------------------------------------------------------------------------------------------

CATALOG: dict[str, tuple[Callable[[Any], object], object]] = {
    "currentCatalog": (lambda c: c.currentCatalog(), "paimon"),
    "currentDatabase": (lambda c: c.currentDatabase(), "sales"),
    "listCatalogs": (lambda c: {x.name for x in c.listCatalogs()} >= {"paimon", "spark_catalog"}, True),
    "listDatabases": (lambda c: [x.name for x in c.listDatabases()], ["default", "sales", "shop"]),
    "getDatabase": (lambda c: c.getDatabase("sales").catalog, "paimon"),
    "databaseExists": (lambda c: [c.databaseExists(one) for one in ("sales", "default", "no")], [True, True, False]),
    "listTables": (lambda c: {t.name for t in c.listTables()} >= {"keyed", "orders", "days", "words"}, True),
    "listTables of": (lambda c: [t.name for t in c.listTables("paimon.shop") if not t.isTemporary], ["both"]),
    "getTable": (lambda c: c.getTable("keyed").namespace, ["sales"]),
    "getTable of Spark": (lambda c: c.getTable("spark_catalog.shop.own").name, "own"),
    "tableExists": (
        lambda c: [c.tableExists(t) for t in ("keyed", "words", "no", "shop.own")],
        [True, True, False, True],
    ),
    "tableExists in": (lambda c: c.tableExists("keyed", "sales"), True),
    "listColumns": (
        lambda c: [(x.name, x.isPartition) for x in c.listColumns("days")],
        [("id", False), ("day", True)],
    ),
    "functionExists": (lambda c: c.functionExists("upper"), True),
    "isCached": (lambda c: c.isCached("keyed"), False),
    "refreshTable": (lambda c: c.refreshTable("keyed"), None),
}


@pytest.mark.parametrize("name", list(CATALOG))
def test_the_catalog_shows_what_there_is(shop: SparkSession, name: str) -> None:
    call, expected = CATALOG[name]
    assert call(shop.catalog) == expected


def test_the_catalog_makes_and_drops_tables_and_databases(shop: SparkSession) -> None:
    schema = shop.range(1).schema
    assert shop.catalog.createTable("made", schema=schema, description="why").columns == ["id"]
    assert shop.catalog.getTable("made").description == "why"
    if hasattr(shop.catalog, "dropTable"):
        shop.catalog.createDatabase("paimon.short")
        shop.catalog.dropDatabase("paimon.short")
        shop.catalog.truncateTable("made")
        assert shop.catalog.getTableProperties("made") is not None
        assert "made" in shop.catalog.getCreateTableString("made")
        shop.catalog.dropTable("made")
        assert not shop.catalog.tableExists("made")
    with pytest.raises(UnsupportedError, match=r"spark\.table\(\"keyed\"\)\.cache"):
        shop.catalog.cacheTable("keyed")


def test_the_current_catalog_and_database_change(shop: SparkSession) -> None:
    try:
        shop.sql("USE shop")
        assert shop.catalog.currentDatabase() == "shop"
        shop.sql("USE spark_catalog")
        assert shop.catalog.currentCatalog() == "spark_catalog"
        shop.sql("USE spark_catalog.shop")
        assert ids(shop.table("both")) == [777]
        assert shop.sql("SELECT current_database()").collect()[0][0] == "shop"
        shop.catalog.setCurrentCatalog("paimon")
        assert (shop.catalog.currentCatalog(), shop.catalog.currentDatabase()) == ("paimon", "default")
        shop.catalog.setCurrentDatabase("sales")
        with pytest.raises(LakewrightError, match="nowhere"):
            shop.sql("USE nowhere")
    finally:
        shop.sql("USE spark_catalog.default")
        shop.sql("USE paimon.sales")


# ---- writes ----------------------------------------------------------------------------------------------------------


def pair(spark: SparkSession, *values: tuple[int, str]) -> DataFrame:
    """Return rows whose columns stand in another order than in the table."""
    return spark.createDataFrame([(day, at) for at, day in values], "day string, id long")


def test_statements_change_rows(shop: SparkSession) -> None:
    assert shop.sql("CREATE TABLE t1 AS SELECT id, n FROM keyed").collect() == []
    assert shop.sql("INSERT INTO t1 SELECT id + 10, n FROM t1").collect() == []
    assert one(shop.sql("UPDATE t1 SET n = 0 WHERE id = 1")).num_updated_rows == 1
    assert one(shop.sql("DELETE FROM t1 WHERE id = 11")).num_deleted_rows == 1
    shop.sql("MERGE INTO t1 USING words w ON t1.id = w.id WHEN MATCHED THEN UPDATE SET n = 7")
    assert rows(shop.table("t1")) == [(1, 0), (12, 2), (2, 7)]
    shop.sql("ALTER TABLE t1 ADD COLUMN more STRING")
    shop.sql("INSERT OVERWRITE t1 VALUES (5, 5, 'x')")
    assert rows(shop.table("t1")) == [(5, 5, "x")]
    shop.sql("DROP TABLE t1")
    assert not shop.catalog.tableExists("t1")


def test_tables_of_spark_are_written_from_ours(shop: SparkSession) -> None:
    shop.sql("CREATE TABLE spark_catalog.shop.copy USING parquet AS SELECT id FROM keyed")
    shop.sql("INSERT INTO spark_catalog.shop.copy SELECT id + 5 FROM keyed")
    assert ids(shop.table("spark_catalog.shop.copy")) == [1, 2, 6, 7]
    shop.range(3).write.saveAsTable("spark_catalog.shop.plain")
    shop.range(3).write.insertInto("spark_catalog.shop.plain")
    assert shop.table("spark_catalog.shop.plain").count() == 6


def test_write_to_matches_columns_by_name(shop: SparkSession) -> None:
    writer = pair(shop, (1, "a"), (2, "b")).writeTo("w1")
    writer.using("paimon").partitionedBy(F.col("day")).tableProperty("file.format", "orc").create()
    pair(shop, (3, "b")).writeTo("w1").append()
    pair(shop, (4, "b")).writeTo("w1").overwritePartitions()
    assert rows(shop.sql("SELECT id, day FROM w1")) == [(1, "a"), (4, "b")]
    pair(shop, (5, "a")).writeTo("w1").overwrite(F.col("day") == "a")
    assert ids(shop.table("w1")) == [4, 5]
    pair(shop, (6, "c")).writeTo("w1").overwrite(F.lit(True))  # noqa: FBT003 - as Spark has it
    assert ids(shop.table("w1")) == [6]
    shop.range(2).writeTo("w1").replace()
    assert shop.table("w1").columns == ["id"]
    shop.range(3).writeTo("paimon.sales.w1").createOrReplace()
    assert shop.table("w1").count() == 3
    with pytest.raises(AlreadyExistsError):
        shop.range(3).writeTo("w1").create()
    with pytest.raises(LakewrightError, match="more"):
        shop.range(3).withColumn("more", F.lit(1)).writeTo("w1").append()


def test_save_as_table_makes_appends_and_replaces_rows(shop: SparkSession) -> None:
    pair(shop, (1, "a")).write.partitionBy("day").option("file.format", "avro").saveAsTable("s1")
    assert one(shop.sql("SHOW CREATE TABLE s1"))[0].count("PARTITIONED BY (day)") == 1
    pair(shop, (2, "b")).select("id", "day").write.mode("append").saveAsTable("s1")
    shop.createDataFrame([(3, "c")], "id int, day string").write.saveAsTable("s1", mode="append")
    assert ids(shop.table("s1")) == [1, 2, 3]
    pair(shop, (9, "a")).write.mode("ignore").saveAsTable("s1")
    with pytest.raises(AlreadyExistsError, match="mode"):
        pair(shop, (9, "a")).write.saveAsTable("s1")
    pair(shop, (4, "d")).write.mode("overwrite").format("paimon").saveAsTable("paimon.sales.s1")
    assert rows(shop.table("s1").select("id", "day")) == [(4, "d")]
    with pytest.raises(UnsupportedError, match="format"):
        pair(shop, (4, "d")).write.mode("append").format("csv").saveAsTable("s1")


def test_insert_into_matches_columns_by_position(shop: SparkSession) -> None:
    pair(shop, (7, "x")).select("id", "day").toDF("p", "q").write.insertInto("days")
    assert rows(shop.table("days").select("id", "day")) == [(7, "x")]
    pair(shop, (8, "y")).select("id", "day").write.insertInto("days", overwrite=True)
    assert rows(shop.table("days").select("id", "day")) == [(8, "y")]
    twice = shop.range(1).selectExpr("id AS a", "'z' AS a")
    twice.write.insertInto("days")
    assert (0, "z") in rows(shop.table("days").select("id", "day"))
    with pytest.raises(InvalidInputError):
        shop.range(1).write.insertInto("days")


@pytest.mark.nightly
@needs(Feature.PYTHON_SOURCE)
def test_streams_read_and_write_tables(shop: SparkSession, tmp_path: Path) -> None:
    stream = shop.readStream.table("keyed").selectExpr("id", "n + 1 AS m")
    writer = stream.writeStream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    query = writer.toTable("streamed")
    query.awaitTermination(SECONDS_MAX)
    assert query.exception() is None
    assert rows(shop.table("streamed")) == [(1, 2), (2, 3)]
    with pytest.raises(InvalidInputError, match="checkpointLocation"):
        stream.writeStream.toTable("streamed")


# ---- names that are refused ------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Callable[[SparkSession], object], type[Exception], str]] = {
    "statement": (lambda s: s.sql("SELECT * FROM shop.both"), InvalidInputError, "ambiguous"),
    "subquery": (lambda s: s.sql("SELECT * FROM keyed WHERE id IN (TABLE shop.both)"), InvalidInputError, "ambiguous"),
    "insert": (lambda s: s.sql("INSERT INTO shop.both VALUES (1)"), InvalidInputError, "ambiguous"),
    "table": (lambda s: s.table("shop.both"), InvalidInputError, "spark_catalog.shop.both"),
    "where, in both": (lambda s: s.range(3).where("id IN (SELECT id FROM shop.both)"), InvalidInputError, "ambiguous"),
    "where": (lambda s: s.range(3).where("id IN (SELECT id FROM keyed)"), UnsupportedError, "keyed"),
    "filter": (lambda s: s.range(3).filter("id IN (SELECT id FROM paimon.sales.keyed)"), UnsupportedError, "join"),
    "selectExpr": (lambda s: s.range(3).selectExpr("(SELECT max(id) FROM keyed)"), UnsupportedError, "keyed"),
    "expr": (lambda s: s.range(3).select(expr("(SELECT max(id) FROM keyed)")), UnsupportedError, "keyed"),
    "no table": (lambda s: s.sql("SELECT * FROM nothing").collect(), AnalysisException, "nothing"),
    "no table with ours": (lambda s: s.sql("SELECT * FROM keyed JOIN nothing").collect(), LakewrightError, "nothing"),
    "table that is missing": (lambda s: s.table("paimon.sales.nothing"), LakewrightError, "nothing"),
    "cache": (lambda s: s.sql("CACHE TABLE paimon.sales.keyed"), UnsupportedError, "cache"),
    "persistent view": (lambda s: s.sql("CREATE VIEW v AS SELECT * FROM keyed"), UnsupportedError, "CREATE VIEW"),
    "typing error": (lambda s: s.sql("SELEC 1"), PySparkException, "SELEC"),
    "typing error in ours": (lambda s: s.sql("SELECT FROM WHERE keyed"), Exception, "."),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_name_that_some_paths_would_read_elsewhere_is_refused(shop: SparkSession, name: str) -> None:
    call, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text):
        call(shop)


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_a_frame_whose_files_are_gone_ends_in_a_sentence(shop: SparkSession, kind: str) -> None:
    shop.sql(f"CREATE TABLE old (id BIGINT) TBLPROPERTIES ('file.format' = '{kind}')")
    shop.sql("INSERT INTO old VALUES (1)")
    expired = shop.table("old")
    shop.sql("INSERT OVERWRITE old VALUES (2)")
    shop.sql("CALL paimon.sys.expire_snapshots(table => 'sales.old', retain_max => 1)")
    dropped = shop.table("old")
    with pytest.raises(NotFoundError, match=r"old.*snapshot 1 has expired") as first:
        expired.collect()
    shop.sql("DROP TABLE old")
    with pytest.raises(NotFoundError, match="old") as second:
        dropped.collect()
    assert all(str(error.value).count("\n") < 5 for error in (first, second))


# ---- install, uninstall ----------------------------------------------------------------------------------------------


def _attributes(spark: SparkSession) -> dict[object, dict[str, object]]:
    owners = [type(one) for one in (spark, spark.range(1), spark.read, spark.range(1).write, spark.catalog)]
    return {owner: dict(vars(owner)) for owner in owners}


def test_uninstall_restores_every_class(shop: SparkSession, catalog: lw.Catalog) -> None:
    lws.uninstall()
    before = _attributes(shop)
    try:
        lws.install(shop, {"other": catalog})
        assert _attributes(shop) != before
        assert ids(shop.table("other.sales.keyed")) == [1, 2]
        with pytest.raises(AnalysisException):
            shop.table("sales.keyed").collect()  # Spark's catalog is the current one
        shop.range(2).createOrReplaceTempView("two")
        assert one(shop.sql("SELECT count(*) FROM two"))[0] == 2
        assert not isinstance(shop.range(1).writeTo("shop.own"), TableWriter)
        kept = shop.table
        lws.uninstall()
        assert _attributes(shop) == before
        with pytest.raises(PySparkException):
            kept("other.sales.keyed").collect()
        with pytest.raises(PySparkException):
            shop.table("other.sales.keyed").collect()
    finally:
        lws.uninstall()
        lws.install(shop, {"paimon": catalog}, default="paimon.sales")


def test_what_is_installed_is_checked(spark: SparkSession, catalog: lw.Catalog) -> None:
    with pytest.raises(InvalidInputError, match="catalogs by name"):
        lws.install(spark, {})
    with pytest.raises(InvalidInputError, match="'other'"):
        lws.install(spark, {"paimon": catalog}, default="other")
    with pytest.raises(InvalidInputError, match="no database 'none'"):
        lws.install(spark, {"paimon": catalog}, default="paimon.none")

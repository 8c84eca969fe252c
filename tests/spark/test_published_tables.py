"""Tables of Spark's own catalog that `publish` makes: live rows, inserts, and no column that is silently missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lakewright as lw
import lakewright.spark as lws
from support.effort import some

COLUMNS = pa.schema({"id": pa.int64(), "name": pa.string(), "at": pa.timestamp("us"), "tags": pa.list_(pa.string())})


def new_catalog(root: Path) -> lw.Catalog:
    catalog = lw.CatalogFactory.create({"warehouse": str(root / "warehouse")})
    catalog.create_database("shop")
    catalog.create_table("shop.log", lw.Schema.from_pyarrow_schema(COLUMNS))
    keyed = lw.Schema.from_pyarrow_schema(COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    catalog.create_table("shop.keyed", keyed)
    return catalog


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory on the path for the generated modules."""
    directory = tmp_path / "modules"
    directory.mkdir()
    monkeypatch.syspath_prepend(str(directory))
    return directory


@pytest.fixture
def published(spark: SparkSession, tmp_path: Path, modules: Path) -> Iterator[lw.Catalog]:
    """Publish the tables of a database, and remove them from Spark's catalog afterwards."""
    catalog = new_catalog(tmp_path)
    assert lws.publish(spark, catalog, "shop", modules=modules) == ["shop.keyed", "shop.log"]
    assert len(list(modules.glob("pyspark_lakewright_shop_*.py"))) == 2
    yield catalog
    spark.sql("DROP DATABASE IF EXISTS spark_catalog.shop CASCADE")


def ids(spark: SparkSession, table: str) -> list[int]:
    return sorted(row.id for row in spark.table(table).collect())


def test_every_statement_sees_the_newest_rows(spark: SparkSession, published: lw.Catalog) -> None:
    lw.write_table(pa.table({"id": [1]}), published.get_table("shop.log"))
    assert ids(spark, "shop.log") == [1]
    spark.sql("INSERT INTO shop.log VALUES (2, 'b', TIMESTAMP_NTZ '2026-01-02 03:04:05', array('x'))")
    spark.sql("INSERT INTO shop.log (name, id) VALUES ('c', 3)")
    spark.sql("INSERT INTO shop.log SELECT * FROM shop.log WHERE id = 3")
    assert ids(spark, "shop.log") == [1, 2, 3, 3]
    assert [row["id"] for row in spark.sql("SELECT * FROM shop.log WITH (snapshot_id = 1)").collect()] == [1]
    spark.sql("INSERT OVERWRITE shop.log SELECT * FROM shop.log WHERE id = 2")
    assert lw.read_table(published.get_table("shop.log")).drop_columns(["at"]).to_pylist() == [
        {"id": 2, "name": "b", "tags": ["x"]}
    ]
    spark.table("shop.log").writeTo("shop.keyed").append()
    spark.table("shop.log").write.insertInto("shop.keyed")
    assert ids(spark, "shop.keyed") == [2]


def test_changed_columns_are_refused_until_the_table_is_published_again(
    spark: SparkSession, published: lw.Catalog, modules: Path
) -> None:
    changes = [
        lw.SchemaChange.add_column("more", lw.AtomicType("INT")),
        lw.SchemaChange.update_column_type("more", lw.AtomicType("BIGINT")),
        lw.SchemaChange.drop_column("more"),
    ]
    for change in some(changes, 0):
        published.alter_table("shop.log", [change])
        with pytest.raises(PySparkException, match="publish again"):
            ids(spark, "shop.log")
        if change != changes[1]:  # Spark casts what it inserts to the type that it knows
            with pytest.raises(PySparkException, match="publish again"):
                spark.sql("INSERT INTO shop.log (id) VALUES (1)")
        lws.publish(spark, published, "shop", ["log"], modules=modules)
        assert ids(spark, "shop.log") == []


@pytest.mark.nightly
def test_what_cannot_be_published_is_refused_before_anything_is_made(
    spark: SparkSession, published: lw.Catalog, modules: Path, tmp_path: Path
) -> None:
    spark.sql("DROP TABLE shop.log")
    spark.sql("CREATE TABLE shop.log (a INT) USING parquet")
    with pytest.raises(lw.AlreadyExistsError, match="parquet"):
        lws.publish(spark, published, "shop", modules=modules)
    assert spark.table("shop.log").columns == ["a"]
    with pytest.raises(lw.InvalidInputError, match="PYTHONPATH"):
        lws.publish(spark, published, "shop", ["keyed"], modules=tmp_path)
    secret = {"warehouse": str(tmp_path / "warehouse"), "s3.secret-key": "abc"}
    with pytest.raises(lw.InvalidInputError, match="secret"):
        lws.publish(spark, secret, "shop", ["keyed"], modules=modules)
    with pytest.raises(lw.NotFoundError):
        lws.publish(spark, published, "shop", ["absent"], modules=modules)


@pytest.mark.nightly
def test_a_plain_table_of_the_format_is_refused_with_the_remedy(spark: SparkSession, published: lw.Catalog) -> None:
    path = published.get_table("shop.log").table_path
    with pytest.raises(PySparkException, match="publish"):
        spark.sql(f"CREATE TABLE shop.plain USING lakewright OPTIONS (path '{path}')")
    spark.sql(f"CREATE TABLE shop.plain (id BIGINT) USING lakewright OPTIONS (path '{path}')")  # Spark asks no source
    for statement in ("SELECT * FROM shop.plain", "INSERT INTO shop.plain VALUES (1)"):
        with pytest.raises(PySparkException, match="publish"):
            spark.sql(statement).collect()

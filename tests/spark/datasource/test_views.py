"""A database as temp views: plain SQL over all of its tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lakewright as lw
from lakewright.catalog import catalog as catalog_module
from lakewright.errors import LakewrightWarning
from lakewright.spark.data_source import attach
from lakewright.spark.spark_features import Feature
from support.needs import needs


@pytest.fixture
def catalog(tmp_path: Path) -> lw.Catalog:
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    made.create_database("d")
    return made


@pytest.fixture(autouse=True)
def _no_views_left(spark: SparkSession) -> Iterator[None]:
    yield
    for view in spark.catalog.listTables():
        if view.isTemporary:
            spark.catalog.dropTempView(f"`{view.name}`")


def _table(catalog: lw.Catalog, name: str, rows: pa.Table, keys: list[str] | None = None) -> lw.FileStoreTable:
    options = {"bucket": "1"} if keys else {}
    schema = lw.Schema.from_pyarrow_schema(rows.schema, primary_keys=keys or [], options=options)
    catalog.create_table(f"d.`{name}`", schema)
    table = catalog.get_table(f"d.`{name}`")
    lw.write_table(rows, table)
    return table


def _values(spark: SparkSession, query: str) -> list[tuple[object, ...]]:
    return sorted(map(tuple, spark.sql(query).collect()))


def test_every_table_has_a_view_that_stays_where_it_is(spark: SparkSession, catalog: lw.Catalog) -> None:
    orders = _table(catalog, "orders", pa.table({"id": [1, 2], "who": ["a", "b"]}), ["id"])
    _table(catalog, "odd-name.x", pa.table({"who": ["a"], "n": [7]}))
    assert attach(spark, catalog, "d", prefix="v_") == ["`v_odd-name.x`", "v_orders"]
    query = "SELECT id, n FROM v_orders JOIN `v_odd-name.x` USING (who)"
    assert _values(spark, query) == [(1, 7)]
    lw.write_table(pa.table({"id": [2, 3], "who": ["a", "c"]}), orders)
    assert _values(spark, query) == [(1, 7)]
    assert attach(spark, catalog.warehouse, "d", prefix="v_", tables=["orders"]) == ["v_orders"]
    assert _values(spark, query) == [(1, 7), (2, 7)]


@pytest.mark.parametrize("statement", ["INSERT INTO", "INSERT OVERWRITE"])
def test_nobody_writes_through_a_view_of_files(
    spark: SparkSession, catalog: lw.Catalog, tmp_path: Path, statement: str
) -> None:
    table = _table(catalog, "plain", pa.table({"id": [1]}))
    attach(spark, catalog, "d")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(PySparkException):
        spark.sql(f"{statement} plain VALUES (2)")
    assert sorted(tmp_path.rglob("*")) == before
    assert lw.read_table(table).to_pylist() == [{"id": 1}]


@needs(Feature.PYTHON_SOURCE)
def test_a_writable_view_takes_inserts(spark: SparkSession, catalog: lw.Catalog) -> None:
    table = _table(catalog, "t", pa.table({"id": [1, 2], "n": [1, 2]}), ["id"])
    assert attach(spark, catalog, "d", writable=True) == ["t"]
    spark.sql("INSERT INTO t SELECT id, n * 10 FROM t WHERE id > 1")
    assert sorted(row["n"] for row in lw.read_table(table).to_pylist()) == [1, 20]
    attach(spark, catalog, "d", writable=True)
    assert _values(spark, "SELECT * FROM t") == [(1, 1), (2, 20)]


@needs(Feature.PYTHON_SOURCE)
def test_a_table_without_a_view_is_named(
    spark: SparkSession, catalog: lw.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    _table(catalog, "same", pa.table({"id": [1]}))
    _table(catalog, "SAME", pa.table({"id": [2]}))
    columns = [lw.DataField(0, "id", lw.AtomicType("INT")), lw.DataField(1, "v", lw.AtomicType("GEOMETRY"))]
    monkeypatch.setattr(catalog_module, "check_column_types", lambda _: None)  # as other implementations do
    catalog.create_table("d.places", lw.Schema(columns))
    for writable in (False, True):
        with pytest.warns(LakewrightWarning) as told:
            assert attach(spark, catalog, "d", writable=writable) == ["SAME"]
        messages = [str(warning.message) for warning in told]
        assert sorted(message.split(" has no view")[0] for message in messages) == ["d.places", "d.same"]
        assert "GEOMETRY" in " ".join(messages)


@pytest.mark.parametrize("writable", [False, True])
@needs(Feature.PYTHON_SOURCE)
def test_what_spark_refuses_of_a_view_changes_nothing(spark: SparkSession, catalog: lw.Catalog, writable: bool) -> None:
    """The words are Spark's own, which nobody can change without an extension of the session; the docs list them."""
    table = _table(catalog, "v", pa.table({"id": [1, 2], "n": [5, 6]}))
    attach(spark, catalog, "d", writable=writable)
    refused = {
        "DELETE FROM v WHERE id = 1": "deletes|Py4J|error occurred",
        "UPDATE v SET n = 0 WHERE id = 1": "does not support UPDATE TABLE",
        "MERGE INTO v USING (SELECT 1L AS id) s ON v.id = s.id WHEN MATCHED THEN DELETE": "does not support MERGE INTO",
        "TRUNCATE TABLE v": "expects a table but `v` is a view",
    }
    if not writable:
        refused["INSERT INTO v VALUES (9L, 9L)"] = "UNSUPPORTED_INSERT|Can't insert"
    for statement, said in refused.items():
        with pytest.raises(Exception, match=said):
            spark.sql(statement)
    assert lw.read_table(table).to_pylist() == [{"id": 1, "n": 5}, {"id": 2, "n": 6}]

"""What PySpark can do is asked for in one place, and where it cannot, the other way gives the same rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import IntegerType

import lakewright as lw
import lakewright.spark as lws
from lakewright.errors import UnsupportedError
from lakewright.spark import spark_features
from lakewright.spark.frame_operations import (
    from_arrow,
    numbers_of_tasks,
    repartition_by_task,
    spark_hash,
    to_arrow,
    with_column,
)
from lakewright.spark.spark_features import Feature, has, present, require
from lakewright.spark.spark_types import spark_schema
from lakewright.spec.arrow_types import from_arrow_schema
from support.effort import some
from support.needs import needs
from support.spark_writes import new_table
from support.versions_page import PAGE, with_versions_table

Lack = Callable[..., None]


@pytest.fixture
def lack(monkeypatch: pytest.MonkeyPatch) -> Lack:
    """Pretend that PySpark lacks features."""

    def pretend(*features: Feature) -> None:
        left = present() - frozenset(features)
        monkeypatch.setattr(spark_features, "present", lambda: left)

    return pretend


def test_a_release_has_the_features_that_came_before_it(spark: SparkSession) -> None:
    release = tuple(map(int, spark.version.split(".")[:2]))
    since = {feature: tuple(map(int, feature.since.split("."))) for feature in Feature}
    assert present() == {feature for feature, first in since.items() if first <= release}


def test_the_page_about_versions_says_what_each_release_can_do() -> None:
    page = PAGE.read_text()
    assert page == with_versions_table(page), "outdated: run `python -m support.versions_page` in tests/"


def test_a_missing_feature_is_refused_by_name_with_the_remedy(lack: Lack) -> None:
    lack(*Feature)
    for feature in Feature:
        with pytest.raises(UnsupportedError) as caught:
            require(feature, "the view 'v'", view="v")
        text = str(caught.value)
        assert text.startswith("the view 'v': PySpark ")
        assert all(part in text for part in (feature.what, f"PySpark {feature.since} ", feature.instead))
        assert caught.value.facts["view"] == "v"


@pytest.mark.parametrize("tasks", some([1, 2, 3, 7, 64, 1000], 3, 5))
def test_every_task_has_a_number_that_its_hash_leads_to(spark: SparkSession, tasks: int) -> None:
    numbers = numbers_of_tasks(tasks)
    frame = from_arrow(spark, pa.table({"n": pa.array(numbers, pa.int32())}))
    hashed = frame.select(F.hash("n").alias("h"), F.pmod(F.hash("n"), F.lit(tasks)).alias("place")).collect()
    assert [row.h for row in hashed] == spark_hash(np.array(numbers, np.int32)).tolist()
    assert [row.place for row in hashed] == list(range(tasks))


def _places(frame: DataFrame) -> dict[int, set[int]]:
    """Return the numbers of rows by the task that has them."""
    places: dict[int, set[int]] = {}
    for row in frame.select("n", F.spark_partition_id().alias("task")).collect():
        places.setdefault(row.task, set()).add(row.n)
    return places


@pytest.mark.parametrize("tasks", some([1, 2, 5, 33], 0, 2))
def test_rows_reach_the_task_with_their_number(spark: SparkSession, lack: Lack, tasks: int) -> None:
    frame = spark.range(0, 400, 1, 3).select(F.col("id").alias("n"), (F.col("id") % tasks).cast("int").alias("target"))
    expected = {task: {n for n in range(400) if n % tasks == task} for task in range(tasks)}
    own = repartition_by_task(frame, tasks, "target")
    assert _places(own) == expected
    lack(Feature.PLACEMENT)
    other = repartition_by_task(frame, tasks, "target")
    assert _places(other) == expected
    assert other.rdd.getNumPartitions() == own.rdd.getNumPartitions() == tasks


@needs(Feature.PLACEMENT)
def test_numbers_beyond_the_tasks_are_placed_as_spark_places_them(spark: SparkSession, lack: Lack) -> None:
    frame = spark.range(-50, 50, 1, 3).select(F.col("id").alias("n"), F.col("id").cast("int").alias("target"))
    own = _places(repartition_by_task(frame, 7, "target"))
    lack(Feature.PLACEMENT)
    assert _places(repartition_by_task(frame, 7, "target")) == own


ROWS = pa.table(
    {
        "id": pa.array([1, None, 2**62 + 1], pa.int64()),
        "small": pa.array([1, 2, None], pa.int8()),
        "exact": pa.array([Decimal("1.10"), None, Decimal("-99999999999999999999.99")], pa.decimal128(22, 2)),
        "day": pa.array([dt.date(1, 1, 1), dt.date(2026, 2, 28), None]),
        "clock": pa.array([dt.datetime(1900, 1, 1), None, dt.datetime(2026, 3, 29, 2, 30)], pa.timestamp("us")),  # noqa: DTZ001 - without a zone
        "moment": pa.array([0, None, 1774751400000001], pa.timestamp("us", "UTC")),
        "text": pa.array(["", None, "\u00e4"]),
        "raw": pa.array([b"\x00", b"", None]),
        "list": pa.array([[1, None], [], None], pa.list_(pa.int32())),
        "map": pa.array([[("a", 1.5)], [], None], pa.map_(pa.string(), pa.float64())),
        "row": pa.array([{"x": 1}, {"x": None}, None], pa.struct([("x", pa.int16())])),
    }
)


def test_arrow_rows_become_a_frame_and_rows_again(spark: SparkSession, lack: Lack) -> None:
    schema = spark_schema(from_arrow_schema(ROWS.schema))
    own = from_arrow(spark, ROWS, schema)
    expected = to_arrow(own)
    lack(Feature.ARROW_ROWS)
    frame = from_arrow(spark, ROWS, schema)
    assert frame.schema.simpleString() == own.schema.simpleString()
    found = to_arrow(frame)
    assert found.to_pylist() == expected.to_pylist() == ROWS.to_pylist()
    assert found.schema.types == expected.schema.types
    assert to_arrow(from_arrow(spark, ROWS.slice(0, 0), schema)).num_rows == 0
    assert to_arrow(frame.where("id = 0")).schema.types == expected.schema.types


def test_a_function_over_arrow_adds_a_column(spark: SparkSession, lack: Lack) -> None:
    def signs(ids: pa.Array) -> pa.Array:
        return pa.array([None if one is None else int(one > 1) for one in ids.to_pylist()], pa.int32())

    frame = from_arrow(spark, ROWS.select(["id", "moment"]))
    own = with_column(frame, "sign", IntegerType(), signs, "id")
    lack(Feature.ARROW_FUNCTION)
    other = with_column(frame, "sign", IntegerType(), signs, "id")
    assert other.columns == own.columns == ["id", "moment", "sign"]
    assert other.collect() == own.collect()
    assert [row.sign for row in other.collect()] == [0, None, 1]


def test_deleted_rows_are_left_out_without_scalar_subqueries(spark: SparkSession, tmp_path: Path, lack: Lack) -> None:
    table = new_table(tmp_path, options={"deletion-vectors.enabled": "true", "bucket": "-1"})
    for start in (0, 1000, 2000):
        lws.write_table(spark.range(start, start + 500 + start // 10, 1, 1), table)
    lws.delete(spark, table, "id between 100 and 163 or id in (0, 499, 1001, 1599, 2698)")
    expected = sorted(row.id for row in lws.read_table(spark, table).select("id").collect())
    lack(Feature.SCALAR, Feature.ARROW_ROWS)
    frame = lws.read_table(spark, table).select("id")
    assert sorted(row.id for row in frame.collect()) == expected
    assert len(expected) == 1800 - 64 - 5


def test_rows_change_without_the_features_of_later_releases(spark: SparkSession, tmp_path: Path, lack: Lack) -> None:
    lack(*Feature)
    table = new_table(tmp_path, keys=["id"], options={"bucket": "4"})
    lws.write_table(spark.range(0, 100, 1, 5).select("id"), table)
    lws.delete(spark, table, "id >= 50")
    lws.write_table(spark.range(48, 52), table, "upsert")
    assert sorted(row.id for row in lws.read_table(spark, table).select("id").collect()) == list(range(52))


def test_what_has_no_other_way_is_refused(spark: SparkSession, tmp_path: Path, lack: Lack) -> None:
    table = new_table(tmp_path, keys=["id"], options={"bucket": "1"})
    lack(Feature.PYTHON_SOURCE)
    with pytest.raises(UnsupportedError, match=r"read_stream: PySpark .* lacks data sources written in Python"):
        lws.read_stream(spark, table)
    with pytest.raises(UnsupportedError, match=r"attach\(writable=True\): .*PySpark 4.0 is the first that has it"):
        lws.attach(spark, str(tmp_path), "db", writable=True)


def test_time_columns_need_a_type_of_spark(lack: Lack) -> None:
    lack(Feature.TIME)
    fields = [lw.DataField(0, "at", lw.AtomicType("TIME(3)"))]
    with pytest.raises(UnsupportedError, match=r"the column 'at' is TIME\(3\): .*leave such columns out"):
        spark_schema(fields)


def test_has_asks_what_is_present(lack: Lack) -> None:
    lack(Feature.TIME)
    assert not has(Feature.TIME)
    assert has(Feature.SCALAR) == (Feature.SCALAR in present())

"""Merges into tables with keys, by verbs and by SQL: the table is read once, bucket by bucket, as embedded."""

from __future__ import annotations

import random
from pathlib import Path
from unittest.mock import MagicMock

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakewright as lw
import lakewright.spark as lws
from lakewright.errors import InvalidInputError
from lakewright.spark import row_matching, spark_sql_changes
from lakewright.spark.frame_operations import from_arrow
from lakewright.spark.row_matching import located_rows
from lakewright.write.dynamic_buckets import HashFiles
from support.effort import some

pytestmark = pytest.mark.spark

BUCKETS = {"fixed": {"bucket": "2"}, "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}}
COLUMNS = pa.schema({"k": pa.string(), "p": pa.string(), "v": pa.int32(), "w": pa.int64()})
SOURCE = pa.table(
    {
        "k": ["key-01", "key-04", "key-07", "key-90", "key-91"],
        "p": ["b", "a", "b", "a", "b"],
        "v": pa.array([100, 400, None, 900, 910], pa.int32()),
        "w": [1, 2, 3, 4, 5],
    }
)
ON = "MERGE INTO {t} t USING src s ON t.k = s.k AND s.p = t.p"
STATEMENTS = {
    "upsert": "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "conditions of either side": (
        "WHEN MATCHED AND s.w = 1 THEN DELETE WHEN MATCHED AND t.v >= 50 THEN UPDATE SET v = -1 "
        "WHEN MATCHED THEN UPDATE SET v = s.v "
        "WHEN NOT MATCHED AND s.v < 905 THEN INSERT (k, p, w) VALUES (s.k, s.p, s.w)"
    ),
    "rows of the target alone": (
        "WHEN NOT MATCHED BY SOURCE AND v < 30 THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET w = 7"
    ),
    "one delete": "WHEN MATCHED THEN DELETE",
}


def _merge(table: str, clauses: str) -> str:
    return f"{ON.format(t=table)} {clauses}"


def _catalog(path: Path, *names: str, options: dict[str, str]) -> lw.Catalog:
    catalog = lw.CatalogFactory.create({"warehouse": str(path)})
    catalog.create_database("d")
    keys = ["k", "p"]
    for name in names:
        schema = lw.Schema.from_pyarrow_schema(COLUMNS, partition_keys=["p"], primary_keys=keys, options=options)
        catalog.create_table(f"d.{name}", schema)
        for first in (0, 5):
            ids = range(first, first + 5)
            data = [[f"key-{i:02}" for i in ids], ["ab"[i % 2] for i in ids], [i * 10 for i in ids], list(ids)]
            lw.write_table(pa.table(data, schema=COLUMNS), catalog.get_table(f"d.{name}"))
    return catalog


def _rows(catalog: lw.Catalog, name: str) -> list[dict[str, object]]:
    rows = lw.read_table(catalog.get_table(f"d.{name}")).to_pylist()
    return sorted(rows, key=lambda row: (str(row["k"]), str(row["p"])))


@pytest.fixture
def _one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where rows of the table would be located by a first read."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the table is read twice")

    monkeypatch.setattr(row_matching, "located_rows", refuse)
    monkeypatch.setattr(spark_sql_changes, "located_rows", refuse)


@pytest.mark.usefixtures("_one_read")
@pytest.mark.parametrize("buckets", some(list(BUCKETS), 1))
def test_statements_and_verbs_do_what_the_embedded_statement_does(
    spark: SparkSession, tmp_path: Path, buckets: str
) -> None:
    catalog = _catalog(tmp_path, "spark", "embedded", "verbs", options=BUCKETS[buckets])
    on_spark, embedded = lws.SQLContext(spark, catalog), lw.SQLContext(catalog)
    from_arrow(spark, SOURCE).createOrReplaceTempView("src")
    embedded.register("src", SOURCE)
    for title, text in STATEMENTS.items():
        one = on_spark.sql(_merge("d.spark", text)).collect()[0]
        other = embedded.sql(_merge("d.embedded", text))
        assert tuple(one) == tuple(other.to_pylist()[0].values()), title
        assert _rows(catalog, "spark") == _rows(catalog, "embedded"), title
        if title == "upsert":
            builder = lws.merge(from_arrow(spark, SOURCE), catalog.get_table("d.verbs"), ["k", "p"])
            result = builder.when_matched_update().when_not_matched_insert().execute()
            assert (result.updated, result.inserted) == (3, 2)
            assert _rows(catalog, "verbs") == _rows(catalog, "embedded")
    assert len(_rows(catalog, "spark")) > 0
    for name in ("spark", "verbs"):
        assert catalog.get_table(f"d.{name}").verify(full=True).findings == ()


@pytest.mark.usefixtures("_one_read")
@pytest.mark.parametrize("buckets", some(list(BUCKETS), 0))
def test_an_ambiguous_merge_changes_nothing(spark: SparkSession, tmp_path: Path, buckets: str) -> None:
    catalog = _catalog(tmp_path, "t", options=BUCKETS[buckets])
    before = _rows(catalog, "t")
    twice = pa.concat_tables([SOURCE, SOURCE.slice(0, 1)])
    from_arrow(spark, twice).createOrReplaceTempView("src")
    with pytest.raises(InvalidInputError, match="k = 'key-01', p = 'b' is matched by 2 rows of the source"):
        lws.SQLContext(spark, catalog).sql(_merge("d.t", "WHEN MATCHED AND s.w = 9 THEN DELETE")).collect()
    assert _rows(catalog, "t") == before
    assert tuple(lws.SQLContext(spark, catalog).sql(_merge("d.t", STATEMENTS["one delete"])).collect()[0])[-1] == 3


@pytest.mark.nightly
@pytest.mark.usefixtures("_one_read")
def test_random_merges_into_dynamic_buckets_are_the_embedded_ones(spark: SparkSession, tmp_path: Path) -> None:
    """Keys come, go and come again, into an empty table and into partitions that are new."""
    chance = random.Random(19)
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "40", "dynamic-bucket.initial-buckets": "2"}
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    schema = lw.Schema.from_pyarrow_schema(COLUMNS, partition_keys=["p"], primary_keys=["k", "p"], options=options)
    for name in ("spark", "embedded"):
        catalog.create_table(f"d.{name}", schema)
    on_spark, embedded = (catalog.get_table(f"d.{name}") for name in ("spark", "embedded"))
    for partitions in ("a", "a", "ab", "abc"):
        numbers = chance.sample(range(300), 120)
        data = [
            [f"key-{number:03}" for number in numbers],
            [chance.choice(partitions) for _ in numbers],
            [chance.randrange(100) for _ in numbers],
            [chance.randrange(100) for _ in numbers],
        ]
        source = pa.table(data, schema=COLUMNS)
        results = [
            builder.when_matched_delete("s.w < 20")
            .when_matched_update({"v": lw.source_col("v")}, "s.w < 60 AND t.v > 10")
            .when_not_matched_insert(condition="s.v > 5")
            .execute()
            for builder in (
                lws.merge(from_arrow(spark, source).repartition(3), on_spark, ["k", "p"]),
                embedded.merge(source, ["k", "p"]),
            )
        ]
        one, other = ((result.deleted, result.updated, result.inserted) for result in results)
        assert one == other
        assert _rows(catalog, "spark") == _rows(catalog, "embedded")
        both = pa.table([["key-000", "key-301"], ["a", "a"], [1, 2], [3, 4]], schema=COLUMNS)
        for table in (on_spark, embedded):  # a writer that follows finds every key in its bucket
            lw.write_table(both, table, mode="upsert")
        assert on_spark.verify(full=True).findings == ()
    assert len({*lw.read_table(catalog.get_table("d.spark$files"))["bucket"].to_pylist()}) > 2


def test_a_bucket_without_an_index_is_looked_through(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = _catalog(tmp_path, "t", options=BUCKETS["dynamic"])
    seen = MagicMock(wraps=located_rows)
    monkeypatch.setattr(row_matching, "located_rows", seen)
    monkeypatch.setattr(HashFiles, "covers", lambda *_: False)
    builder = lws.merge(from_arrow(spark, SOURCE), catalog.get_table("d.t"), ["k", "p"])
    assert builder.when_matched_update().execute().updated == 3
    assert seen.called

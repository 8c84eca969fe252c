"""Spark: merges into primary-key tables of ours, by SQL and by the verbs, beside Delta Lake; one session, interleaved.

A merge takes 200,000 rows of which half have a key of the table, into a table of 3 million rows. Keys are numbers or
texts. All tables go through the same merges and must hold the same rows in the end. `--engines` leaves some out:
without Delta Lake any PySpark will do. `dynamic` and `dynamic-sql` merge into dynamic buckets; `twice` does so in the
way of merges whose keys do not tell the bucket, which read the table twice.

    PYTHONPATH=tests .venvs/spark-4.1/bin/python -m bench.spark_merge
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyspark
from bench.spark import BUCKETS, noop, rows_of
from bench.spark_peers import Race, SqlEngine, markdown_changes, session
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

import lakewright as lw
import lakewright.spark as lws
from lakewright.spark import row_matching

TEXT_KEY = "concat('customer-', lpad(cast(k as string), 12, '0'))"


class OursBySql(SqlEngine):
    """Ours, by SQL."""

    def __init__(self, spark: SparkSession, catalog: lw.Catalog, key: str, buckets: int) -> None:
        super().__init__(lws.SQLContext(spark, catalog).sql)
        self.name = f"SQL, {key}, {buckets} buckets"
        self.table = f"d.sql_{key}_{abs(buckets)}"
        self.key = key
        self.definition = f"TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '{buckets}')"

    def create(self) -> None:
        self._run(f"DROP TABLE IF EXISTS {self.table}")
        self._run(f"CREATE TABLE {self.table} (k {self.key}, s string, d double, i int, dt date) {self.definition}")


class OursByVerbs(OursBySql):
    """Ours, by the verbs of `lakewright.spark`."""

    def __init__(self, spark: SparkSession, catalog: lw.Catalog, key: str, buckets: int) -> None:
        super().__init__(spark, catalog, key, buckets)
        self.name = self.name.replace("SQL", "verbs")
        self.table = f"d.verbs_{key}_{abs(buckets)}"
        self._spark, self._catalog = spark, catalog

    def merge(self, view: str) -> None:
        builder = lws.merge(self._spark.table(view), self._catalog.get_table(self.table), "k")
        builder.when_matched_update().when_not_matched_insert().execute()


class ReadTwice(OursByVerbs):
    """Ours, by the verbs, with rows of the table that are looked for by a read of their own."""

    def __init__(self, spark: SparkSession, catalog: lw.Catalog, key: str, buckets: int) -> None:
        super().__init__(spark, catalog, key, buckets)
        self.name = self.name.replace("verbs", "read twice")
        self.table = f"d.twice_{key}_{abs(buckets)}"

    def merge(self, view: str) -> None:
        with patch.object(row_matching, "fits", lambda *_: False):
            super().merge(view)


class Embedded(OursByVerbs):
    """Ours, without Spark: the rows of the source are fetched first, which is not counted."""

    def __init__(self, spark: SparkSession, catalog: lw.Catalog, key: str, buckets: int) -> None:
        super().__init__(spark, catalog, key, buckets)
        self.name = self.name.replace("verbs", "embedded")
        self.table = f"d.embedded_{key}_{abs(buckets)}"
        self._fetched: dict[str, Any] = {}

    def fetch(self, view: str) -> None:
        """Bring the rows of a source here."""
        self._fetched[view] = self._spark.table(view).toArrow()

    def merge(self, view: str) -> None:
        builder = self._catalog.get_table(self.table).merge(self._fetched[view], "k")
        builder.when_matched_update().when_not_matched_insert().execute()


class Delta(SqlEngine):
    """Delta Lake as it comes."""

    def __init__(self, spark: SparkSession, key: str) -> None:
        super().__init__(spark.sql)
        self.name = f"Delta Lake, {key}"
        self.table = f"delta_{key}"
        self.key = key

    def create(self) -> None:
        self._run(f"DROP TABLE IF EXISTS {self.table}")
        self._run(f"CREATE TABLE {self.table} (k {self.key}, s string, d double, i int, dt date) USING delta")


def keyed(frame: DataFrame, key: str) -> DataFrame:
    """Return rows with keys of a type."""
    return frame if key == "bigint" else frame.withColumn("k", F.expr(TEXT_KEY))


def source(spark: SparkSession, rows: int, merged: int, repeat: int) -> DataFrame:
    """Return the rows of one merge: every second has a key that the table has."""
    place = F.col("id")
    known, new = (place * (rows // merged) + repeat) % rows, F.lit(rows * (repeat + 1)) + place
    return spark.range(0, merged, 1, 4).select(
        F.when(place % 2 == 0, known).otherwise(new).cast("bigint").alias("k"),
        F.concat(F.lit("merged-"), F.xxhash64(place).cast("string")).alias("s"),
        (F.xxhash64(place, F.lit(repeat)) / float(2**63)).alias("d"),
        F.lit(1000 + repeat).cast("int").alias("i"),
        F.lit("2026-12-01").cast("date").alias("dt"),
    )


def run(spark: SparkSession, root: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Merge into the tables of all engines, and compare what they hold."""
    catalog = lw.CatalogFactory.create({"warehouse": str(root / "warehouse")})
    catalog.create_database("d", ignore_if_exists=True)
    makers: dict[str, Callable[[str], Any]] = {
        "sql": lambda key: OursBySql(spark, catalog, key, BUCKETS),
        "verbs": lambda key: OursByVerbs(spark, catalog, key, BUCKETS),
        "dynamic": lambda key: OursByVerbs(spark, catalog, key, -1),
        "dynamic-sql": lambda key: OursBySql(spark, catalog, key, -1),
        "twice": lambda key: ReadTwice(spark, catalog, key, -1),
        "embedded": lambda key: Embedded(spark, catalog, key, BUCKETS),
        "delta": lambda key: Delta(spark, key),
    }
    engines: list[Any] = []
    for name in arguments.engines.split(","):
        kind, _, key = name.partition(":")
        engines.append(makers[kind](key or "bigint"))
    data = rows_of(spark, arguments.rows)
    noop(data)
    for engine in engines:
        engine.create()
        engine.append(keyed(data, engine.key))
    data.unpersist()
    race = Race(engines, arguments.repeats)
    repeats = range(1 + arguments.repeats)
    for key in {engine.key for engine in engines}:
        for repeat in repeats:
            frame = keyed(source(spark, arguments.rows, arguments.merged, repeat), key).cache()
            noop(frame)
            frame.createOrReplaceTempView(f"merged_{key}_{repeat}")
    for engine in engines:
        if isinstance(engine, Embedded):
            for repeat in repeats:
                engine.fetch(f"merged_{engine.key}_{repeat}")
    title = f"merge {arguments.merged:,} rows into {arguments.rows:,}"
    race.run(title, lambda engine, repeat: engine.merge(f"merged_{engine.key}_{repeat}"))  # type: ignore[attr-defined]
    for key in {engine.key for engine in engines}:
        found = {engine.name: digest(engine.read()) for engine in engines if engine.key == key}
        if len(set(found.values())) > 1:
            raise SystemExit(f"the tables do not hold the same rows: {found}")
    return race.results


def digest(frame: DataFrame) -> tuple[object, ...]:
    """Return the number of rows and a sum over all their values."""
    whole = F.sum(F.xxhash64("k", "s", "d", "i", "dt").cast("decimal(38,0)"))
    return tuple(frame.select(F.count("*"), whole).first() or ())


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--merged", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", default="4g")
    parser.add_argument("--engines", default="sql,verbs,embedded,delta,sql:string,delta:string")
    arguments = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="bench-spark-merge-"))
    try:
        with session(root, arguments.memory, peers="delta" in arguments.engines) as spark:
            results = run(spark, root, arguments)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    sys.stderr.write(f"PySpark {pyspark.__version__}, {os.cpu_count()} cores, load {os.getloadavg()}\n")
    for title, row in results.items():
        for name, one in row.items():
            seen = ", ".join(f"{wall:.2f} ({cpu:.2f})" for wall, cpu in one["all"])
            sys.stderr.write(f"{title}, {name}: {seen}\n")
    print(markdown_changes(results))


if __name__ == "__main__":
    main()

"""The main job on embedded Spark and local files: a million orders in files, ingested, changed, read back, queried."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

import lakewright as lw
import lakewright.spark as lws

ROWS, FILES = 1_000_000, 5
CHANGED, DELETED, REPLACED = 50_000, 10_000, 1_000
DAYS = [f"2026-11-{day:02d}" for day in range(1, 9)]


@contextmanager
def step(what: str) -> Iterator[list[str]]:
    """Print one line of the story with its time; what the step adds to the list stands behind it."""
    more: list[str] = []
    started = time.perf_counter()
    yield more
    print(f"{time.perf_counter() - started:6.2f} s  {what}{': ' if more else ''}{', '.join(more)}", flush=True)


def orders(rows: int, seed: int) -> pa.Table:
    """Return random orders spread over eight days, which the ids say."""
    random = np.random.default_rng(seed)
    ids = np.arange(rows)
    return pa.table(
        {
            "ID": pa.array(ids),
            "day": pa.array(np.array(DAYS)[ids % len(DAYS)]),
            "customer": pa.array(random.integers(0, 50_000, rows)),
            "price": pa.array(np.round(random.gamma(2.0, 20.0, rows), 2)),
        }
    )


def make_files(data: pa.Table, directory: Path) -> list[str]:
    """Write all but the last part of the orders to parquet files and the last to a csv file."""
    parts = directory / "parquet"
    parts.mkdir()
    size = ROWS // FILES
    for number in range(FILES - 1):
        pq.write_table(data.slice(number * size, size), parts / f"{number}.parquet")
    csv.write_csv(data.slice((FILES - 1) * size), directory / "rest.csv")
    return [str(parts), str(directory / "rest.csv")]


def main() -> None:
    """Run the story in a temporary directory."""
    with tempfile.TemporaryDirectory() as directory:
        with step("started Spark") as more:
            spark = lws.local_session("demo")
            more.append(f"version {spark.version}, from wheels alone")
        try:
            catalog = lw.CatalogFactory.create({"warehouse": f"{directory}/warehouse"})
            data = orders(ROWS, seed=1)
            table = ingest(spark, catalog, data, Path(directory))
            change(spark, table)
            query(spark, catalog, table, data)
        finally:
            spark.stop()


def ingest(spark: SparkSession, catalog: lw.Catalog, data: pa.Table, directory: Path) -> lw.FileStoreTable:
    """Bring files into a table that is made from them."""
    with step(f"made {ROWS:,} orders in {FILES - 1} parquet files and a csv file"):
        files = make_files(data, directory)
    with step("ingested them into sales.orders, with a primary key, 8 partitions, 2 buckets in each") as more:
        result = lws.ingest(
            spark,
            files,
            "sales.orders",
            catalog=catalog,
            create=True,
            primary_keys=["id", "day"],
            partition_keys=["day"],
            options={"bucket": "2"},
            renames={"ID": "id"},
        )
        more.append(f"snapshot {result.snapshot_id}, {result.files} files, {result.bytes / 1e6:.1f} MB")
    assert (result.snapshot_id, result.rows) == (1, ROWS)
    table = catalog.get_table("sales.orders")
    table.create_tag("as-delivered", snapshot_id=1)
    return table


def change(spark: SparkSession, table: lw.FileStoreTable) -> None:
    """Upsert, delete, and overwrite one partition: a commit each."""
    day_of_id = F.concat(F.lit(DAYS[0][:-1]), F.col("id") % len(DAYS) + 1)
    with step(f"upserted {CHANGED:,} rows") as more:
        cheaper = lws.read_table(spark, table, filter=f"id < {CHANGED}").withColumn("price", F.lit(1.0))
        more.append(f"snapshot {lws.write_table(cheaper, table, mode='upsert').snapshot_id}")
    with step(f"deleted {DELETED:,} rows by their keys") as more:
        gone = spark.range(CHANGED, CHANGED + DELETED).withColumn("day", day_of_id)
        more.append(f"snapshot {lws.write_table(gone, table, mode='delete').snapshot_id}")
    with step(f"overwrote the partition {DAYS[-1]} with {REPLACED:,} rows") as more:
        fresh = spark.range(REPLACED).selectExpr(
            "id * 8 + 7 AS id", f"'{DAYS[-1]}' AS day", "id AS customer", "5e0 AS price"
        )
        more.append(f"snapshot {lws.write_table(fresh, table, mode='overwrite').snapshot_id}")


def query(spark: SparkSession, catalog: lw.Catalog, table: lw.FileStoreTable, data: pa.Table) -> None:
    """Read with a filter, in SQL, at an earlier time, and without Spark."""
    large = f"day = '{DAYS[0]}' AND price > 200"
    with step("read the large orders of one day") as more:
        found = lws.read_table(spark, table, filter=large, columns=["id", "price"]).count()
        more.append(f"{found:,}")
    untouched = data.slice(CHANGED + DELETED)
    expected = pc.and_(pc.equal(untouched["day"], DAYS[0]), pc.greater(untouched["price"], 200))
    assert found == pc.sum(expected).as_py()

    with step("asked SQL for the rows and the turnover of each day") as more:
        lws.attach(spark, catalog, "sales")
        days = spark.sql(
            "SELECT day, count(*) AS orders, round(sum(price)) AS turnover FROM orders GROUP BY day ORDER BY day"
        )
        rows = days.collect()
        more.append(f"{sum(row.orders for row in rows):,} orders on {len(rows)} days")
    per_day = ROWS // len(DAYS)
    assert sum(row.orders for row in rows) == ROWS - DELETED - (per_day - DELETED // len(DAYS)) + REPLACED

    with step("looked back at the orders as they were delivered") as more:
        more.append(f"{lws.read_table(spark, table, tag='as-delivered').count():,}")
    assert more == [f"{ROWS:,}"]
    with step("read the same table without Spark") as more:
        here = lw.read_table(table, filter=large, columns=["id", "price"])
        more.append(f"{here.num_rows:,} large orders")
    assert here.num_rows == found
    history = lw.read_table(catalog.get_table("sales.orders$snapshots"), columns=["commit_kind"])
    assert history["commit_kind"].to_pylist() == ["APPEND", "APPEND", "APPEND", "OVERWRITE"]


if __name__ == "__main__":
    main()

"""A driver of its own on a local cluster: it uses tables of a catalog until their tokens have expired several times.

The JSON on stdin says how to reach the catalog, the cluster and for how many seconds; facts are printed as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import lakewright as lw
from lakewright.spark import compact, delete, local_session, read_table, upsert, write_stream, write_table
from lakewright.spark.spark_session import map_in_arrow

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int64())])
ROWS = 2000


def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Hand rows on after a while."""
    time.sleep(0.5)
    yield from batches


def frame(spark: SparkSession, begin: int) -> DataFrame:
    """Return rows that take some seconds to come."""
    return map_in_arrow(spark.range(begin, begin + ROWS, 1, 16), slowly, "id long").selectExpr("id", "id as n")


def run(said: dict[str, object]) -> dict[str, object]:
    """Append, upsert, delete, compact, stream and read, round after round."""
    spark = local_session("tokens", master=str(said["master"]), memory="1g", config={"spark.executor.memory": "512m"})
    catalog = lw.CatalogFactory.create(said["options"])  # type: ignore[arg-type]
    catalog.create_database("d")
    for name, keys in (("append", []), ("keyed", ["id"])):
        options = {"bucket": "2"} if keys else {}
        catalog.create_table(f"d.{name}", lw.Schema.from_pyarrow_schema(COLUMNS, primary_keys=keys, options=options))
    plain, keyed = catalog.get_table("d.append"), catalog.get_table("d.keyed")
    begin, rounds = time.time(), 0
    while time.time() - begin < float(str(said["seconds"])):
        write_table(frame(spark, rounds * ROWS), plain)
        upsert(frame(spark, 0), keyed)
        delete(spark, keyed, f"id < {rounds}")
        rounds += 1
    compact(spark, plain)
    compact(spark, keyed)
    source = Path(str(said["source"]))
    spark.range(100).selectExpr("id + 1000000 as id", "id as n").write.parquet(str(source))
    stream = spark.readStream.schema("id long, n long").parquet(str(source))
    write_stream(stream, plain, checkpoint=f"{source}-checkpoint", trigger={"availableNow": True}).awaitTermination()
    counts = [read_table(spark, table).count() for table in (plain, keyed)]
    seconds = time.time() - begin
    spark.stop()
    return {"rounds": rounds, "counts": counts, "seconds": seconds}


if __name__ == "__main__":
    print(json.dumps(run(json.load(sys.stdin))))

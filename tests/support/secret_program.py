"""A driver of its own whose traces are searched for secrets: it writes, reads and streams as the JSON on stdin says.

Spark writes its event log, Python logs everything it can, and plans, messages and splits are printed as they are.
"""

from __future__ import annotations

import json
import logging
import pickle
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import lakewright as lw
from lakewright.spark import compact, local_session, read_stream, read_table, write_stream, write_table
from lakewright.storage.storage_registry import open_storage
from support.sessions import SessionProvider

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int64())])


def frame(spark: SparkSession, start: int, end: int) -> DataFrame:
    """Return some rows."""
    return spark.range(start, end, 1, 2).selectExpr("id", "id * 2 as n")


def show(title: str, *values: object) -> None:
    """Print values in every form that a log may have."""
    for value in values:
        print(title, value, repr(value), flush=True)


def use_table(spark: SparkSession, table: lw.FileStoreTable, name: str) -> None:
    """Write and read a table, and show what travels."""
    write_table(frame(spark, 0, 100), table)
    read = read_table(spark, table, filter="id < 500")
    read.explain(extended=True)
    show(name, table, table.store, read.count(), table.new_read_builder().explain(verbose=True))
    splits = table.new_read_builder().new_scan().plan().splits()
    writer = table.new_batch_write_builder().new_write()
    writer.write_arrow(pa.table({"id": [1000], "n": [1]}, COLUMNS))
    messages = writer.prepare_commit()
    show(name, *splits, *messages, *(pickle.dumps(part) for part in (splits, messages)))
    table.new_batch_write_builder().new_commit().commit(messages)
    compact(spark, table)
    show(name, table.table_path, read_table(spark, table).count())


def use_stream(spark: SparkSession, table: lw.FileStoreTable, name: str, checkpoints: Path) -> None:
    """Stream a table into itself, once."""
    rows = read_stream(spark, table).selectExpr("id + 10000 as id", "n")
    rows.explain(extended=True)
    trigger = {"availableNow": True}
    write_stream(rows, table, checkpoint=str(checkpoints / name), trigger=trigger).awaitTermination()
    show(name, read_table(spark, table).count())


def use_format(spark: SparkSession, place: dict[str, str], checkpoints: Path) -> None:
    """Write, read and stream through `format("lakewright")`, with options as text."""
    frame(spark, 2000, 2010).write.format("lakewright").options(**place).mode("append").save()
    read = spark.read.format("lakewright").options(**place).load()
    read.explain(extended=True)
    read.createOrReplaceTempView("v")
    show("format", spark.sql("SELECT count(*) FROM v").collect())
    rows = spark.readStream.format("lakewright").options(**place).load()
    query = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoints / f"format-{len(place)}"))
    query.trigger(availableNow=True).start().awaitTermination()


def fail(spark: SparkSession, table: lw.FileStoreTable) -> None:
    """Fail on the driver and on a worker, and show the errors."""
    for call in (lambda: write_table(frame(spark, 0, 5), table), lambda: read_table(spark, table).collect()):
        try:
            call()
        except Exception as error:
            show("error", error, getattr(error, "facts", ""))
            logging.getLogger("program").exception("failed")


def broken_table(said: dict[str, Any], options: dict[str, str]) -> lw.FileStoreTable:
    """Return a table that was opened with good options, and whose storage has others since."""
    good = lw.open_table(said["path"], said["good"])
    storage, _ = open_storage(said["path"], options)
    return lw.FileStoreTable(good.identifier, replace(good.store, storage=storage))


def run(said: dict[str, Any]) -> None:
    """Do everything that the parent asks for."""
    logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.INFO)  # it would show every argument of every call to the JVM
    events, checkpoints = Path(said["events"]), Path(said["checkpoints"])
    events.mkdir()
    confs = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "INFO",
        **said.get("conf", {}),
    }
    spark = local_session("secrets", master=said.get("master", "local[2]"), memory="1g", config=confs)
    begin = time.time()
    try:
        for name, given in said["catalogs"].items():
            provider = SessionProvider(given["provider"], name) if "provider" in given else None
            catalog = lw.CatalogFactory.create(given["options"], credentials=provider)
            show(name, catalog)
            catalog.create_database("d", ignore_if_exists=True)
            catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS))
            use_table(spark, catalog.get_table("d.t"), name)
            if name in said["streamed"]:
                use_stream(spark, catalog.get_table("d.t"), name, checkpoints)
        for place in said.get("formats", []):
            use_format(spark, place, checkpoints)
        for options in said.get("failing", []):
            fail(spark, broken_table(said, options))
        show("seconds", time.time() - begin)
    finally:
        spark.stop()


if __name__ == "__main__":
    run(json.load(sys.stdin))

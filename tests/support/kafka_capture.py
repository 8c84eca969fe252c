"""The program of the Kafka proof: writes change events into a topic, applies them, or compares the tables with a model.

The events are a function of their number, as SQL. The model is computed from the same numbers by Spark alone: of the
events of a key, the one with the highest place in the log of the source wins.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import lakewright as lw
from lakewright.spark.change_capture import cdc
from lakewright.spark.frame_read import read_table
from lakewright.spark.spark_session import local_session

TOPIC = "shop"
LATE = 50_000  # by how many events one in a thousand is late
_EVENTS = {
    "key": "pmod(xxhash64(id, 'key'), {keys})",
    "name": "CASE WHEN id % 3 = 0 THEN 'items' ELSE 'orders' END",
    "op": "CASE pmod(xxhash64(id, 'op'), 10) WHEN 0 THEN 'd' WHEN 1 THEN 'c' ELSE 'u' END",
    # Every place is another one.
    "pos": "CASE WHEN id % 1000 = 7 THEN 2 * (id - {late}) + 1 ELSE 2 * id END",
    "kind": "CASE WHEN id % 5000 = 11 THEN 'garbage' WHEN id % 5000 = 12 THEN 'misfit' ELSE 'good' END",
    # Columns change while the stream runs: one is added, and one gets a field.
    "extra": "CASE WHEN id > {events} / 3 THEN named_struct('a', id, 'b', if(id > {events} / 2, 'x', NULL)) END",
}


def events(spark: SparkSession, wish: dict[str, object]) -> DataFrame:
    """Return what happened: one row for each event."""
    numbers = {"keys": wish["keys"], "late": LATE, "events": wish["events"]}
    return spark.range(int(str(wish["events"]))).selectExpr(
        "id", *(f"{sql.format(**numbers)} AS {name}" for name, sql in _EVENTS.items())
    )


def produce(spark: SparkSession, wish: dict[str, object]) -> None:
    """Write the events into the topic as Debezium does; events of a key are in one partition, in their order."""
    row = (
        "named_struct('id', key, 'n', CASE WHEN kind = 'misfit' THEN 'many' ELSE cast(id AS STRING) END, "
        "'at', timestamp_millis(id), 'extra', extra)"
    )
    # JSON of structs leaves out nulls, so columns appear when they have values. Numbers are no texts.
    after = f'regexp_replace(to_json({row}), \'"n":"([0-9]+)"\', \'"n":$1\')'
    source = "to_json(named_struct('db', 'shop', 'table', name, 'pos', pos))"
    key = "concat('{\"id\":', key, '}')"
    body = (
        f"concat('{{\"op\":\"', op, '\",\"before\":', CASE WHEN op = 'd' THEN {key} ELSE 'null' END, "
        f"',\"after\":', CASE WHEN op = 'd' THEN 'null' ELSE {after} END, ',\"source\":', {source}, '}}')"
    )
    records = events(spark, wish).selectExpr(
        f"'{TOPIC}' AS topic",
        f"{key} AS key",
        f"CASE WHEN kind = 'garbage' THEN concat('{{', id) ELSE {body} END AS value",
    )
    # One task writes, so that the events of a key stay in their order.
    writer = records.coalesce(1).write.format("kafka").option("kafka.bootstrap.servers", str(wish["broker"]))
    writer.option("topic", TOPIC).save()


def run(spark: SparkSession, wish: dict[str, object]) -> None:
    """Apply the events until killed, or until all are applied."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", str(wish["broker"]))
    reader = reader.option("subscribe", TOPIC).option("startingOffsets", "earliest")
    stream = reader.option("maxOffsetsPerTrigger", str(wish["batch"])).load()
    root = Path(str(wish["root"]))
    trigger: dict[str, str | bool] = {"availableNow": True} if wish["drain"] else {"processingTime": "0 seconds"}
    catalog = _catalog(root)
    query = cdc(
        stream,
        catalog,
        order="source.pos",
        deletes="mark",
        dead_letters="shop.letters",
        checkpoint=str(root / "checkpoint"),
        trigger=trigger,
    )
    query.awaitTermination()


def check(spark: SparkSession, wish: dict[str, object]) -> None:
    """Compare the tables and the dead letters with the model."""
    catalog, of = _catalog(Path(str(wish["root"]))), events(spark, wish)
    # An event does not fit if it has a row: a delete is only a key.
    bad = "kind = 'garbage' OR (kind = 'misfit' AND op <> 'd')"
    letters = read_table(spark, catalog.get_table("shop.letters"))
    assert letters.count() == letters.select("partition", "offset").distinct().count() == of.where(bad).count()
    for name in ("orders", "items"):
        newest = of.where(f"name = '{name}' AND NOT ({bad})").groupBy("key")
        last = newest.agg({"pos": "max"}).withColumnRenamed("max(pos)", "pos").join(of, ["key", "pos"])
        expected = last.selectExpr(
            "key AS id",
            "CASE WHEN op <> 'd' THEN id END AS n",
            "CASE WHEN op <> 'd' THEN extra END AS extra",
            "op = 'd' AS deleted",
            "pos",
        )
        table = catalog.get_table(f"shop.{name}")
        found = read_table(spark, table).selectExpr("id", "n", "extra", "_deleted", "_cdc_order")
        assert found.exceptAll(expected).isEmpty(), f"{name} has rows that the model has not"
        assert expected.exceptAll(found).isEmpty(), f"{name} lacks rows of the model"
        snapshots = list(table.store.snapshots.walk_back(table.store.snapshots.latest_id() or 0))
        batches = [s.commit_identifier for s in snapshots if s.commit_kind == "APPEND"]
        assert len(set(batches)) == len(batches), f"{name}: a batch is there twice"


def _catalog(root: Path) -> lw.Catalog:
    return lw.CatalogFactory.create({"warehouse": str(root / "warehouse"), "table-default.bucket": "4"})


def main(wish: dict[str, object]) -> None:
    """Do what is wished."""
    config = {
        "spark.sql.shuffle.partitions": "4",
        "spark.jars": str(wish["jars"]),
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" if not wish["drain"] else "",
    }
    spark = local_session("capture", master="local[2,3]", memory="3g", config=config)
    {"produce": produce, "run": run, "check": check}[str(wish["do"])](spark, wish)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

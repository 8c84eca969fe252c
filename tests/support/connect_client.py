"""A program that talks to a Spark Connect server: it uses every verb once and prints what it saw as JSON.

It is a process of its own, because a process that has a classic session cannot have a remote one. What it prints are
plain facts; `tests/spark/test_connect.py` says what they should be.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import pandas as pd
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.streaming.query import StreamingQuery

import lakewright as lw
from contract.fault_enumerator import stray_files
from lakewright.engine.job_progress import Progress
from lakewright.spark import spark_features
from lakewright.spark.data_source import attach
from lakewright.spark.frame_read import read_table
from lakewright.spark.spark_features import Feature, present
from lakewright.spark.spark_session import read_setting
from lakewright.spark.spark_sql_context import SQLContext
from lakewright.spark.spark_verbs import delete, merge, update, upsert, write_table
from lakewright.spark.stream_verbs import read_stream, write_stream
from support.spark_writes import new_table, rows_of

NOW = {"availableNow": True}
SECONDS_MAX = 120
SETTING = "spark.sql.execution.arrow.maxBytesPerBatch"
COLUMNS = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string()), pa.field("n", pa.int64())]
)


class Client:
    """One session and one warehouse; every method is a chapter and returns what it saw."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.root = root

    def frame(self, start: int, end: int, n: int, parts: int = 2) -> DataFrame:
        """Return rows (id, day, n) of some ids."""
        rows = self.spark.range(start, end, numPartitions=parts)
        return rows.select(
            "id", F.concat(F.lit("d"), (F.col("id") % 2).cast("string")).alias("day"), F.lit(n).cast("long").alias("n")
        )

    def table(self, name: str, *, keys: bool = False, partitioned: bool = False) -> lw.FileStoreTable:
        """Make a table."""
        options = {"bucket": "2", "write-only": "true"} if keys else {}
        return new_table(
            self.root, keys=["day", "id"] if keys else [], partitions=["day"] if partitioned else [],
            options=options, name=name, columns=COLUMNS,
        )  # fmt: skip

    def modes(self) -> dict[str, object]:
        """Append, upsert, overwrite and delete."""
        heard: list[Progress] = []
        before = read_setting(self.spark, SETTING)
        plain = self.table("plain", partitioned=True)
        appended = write_table(self.frame(0, 6, 1), plain, progress=heard.append)
        replaced = write_table(self.frame(0, 1, 9), plain, "overwrite", partitions={"day": "d0"})
        keyed = self.table("keyed", keys=True, partitioned=True)
        for first, last, n in ((0, 8, 1), (4, 10, 2)):
            write_table(self.frame(first, last, n), keyed, "upsert")
        deleted = write_table(self.frame(0, 2, 0).select("day", "id"), keyed, "delete")
        return {
            "appended": [appended.rows, appended.snapshot_id],
            "replaced": [replaced.rows, replaced.snapshot_id],
            "deleted": deleted.snapshot_id,
            "plain": rows_of(plain),
            "keyed": rows_of(keyed),
            "heard": [[now.rows, now.tasks, now.tasks_done] for now in heard[-1:]],
            "settings": [before, read_setting(self.spark, SETTING)],
        }

    def reads(self) -> dict[str, object]:
        """Read both ways, with filters, columns and time travel."""
        found: dict[str, object] = {}
        for name in ("plain", "keyed"):
            table = self.opened(name)
            by_python = table.copy({"lakewright.native-scan": "never"})
            found[name] = collected(read_table(self.spark, table))
            found[f"{name} in tasks"] = collected(read_table(self.spark, by_python))
            found[f"{name} filtered"] = collected(read_table(self.spark, table, filter="n > 1", columns=["id"]))
            found[f"{name} earlier"] = read_table(self.spark, table, snapshot_id=1).count()
        return found

    def statements(self) -> dict[str, object]:
        """Run SQL: a join of our tables and a view, time travel, a setting, a view of ours, changes, a wrong name."""
        context = SQLContext(self.spark, str(self.root / "warehouse"), "d")
        self.frame(0, 3, 7).createOrReplaceTempView("own")
        text = "SELECT p.id, k.n, own.n AS m FROM plain p JOIN keyed k ON p.id = k.id LEFT JOIN own ON own.id = p.id"
        found: dict[str, object] = {"joined": collected(context.sql(f"{text} WHERE p.id > :low", {"low": 1}))}
        older = present() - {Feature.CONNECT_SQL_FRAMES}
        with patch.object(spark_features, "present", lambda: older):
            found["joined in another way"] = collected(context.sql(f"{text} WHERE p.id > :low", {"low": 1}))
        found["earlier"] = context.sql("SELECT * FROM plain VERSION AS OF 1").count()
        context.sql("SET spark.paimon.d.plain.scan.snapshot-id=1")
        found["set"] = context.sql("SELECT count(*) FROM plain").collect()[0][0]
        context.sql("RESET spark.paimon.d.plain.scan.snapshot-id")
        context.sql("CREATE TEMP VIEW seen AS SELECT id + 1 AS j FROM plain WHERE id = 5")
        found["view"] = collected(context.sql("SELECT seen.j FROM seen"))
        context.sql("CREATE TABLE made AS SELECT id, n FROM plain")
        text = "MERGE INTO made m USING own ON m.id = own.id WHEN MATCHED THEN UPDATE SET n = own.n + m.n"
        found["merged"] = collected(context.sql(f"{text} WHEN NOT MATCHED THEN INSERT *"))
        found["deleted"] = collected(context.sql("DELETE FROM made WHERE id > :low", {"low": 3}))
        found["made"] = collected(context.sql("SELECT * FROM made"))
        found["wrong"] = caught(lambda: context.sql("SELECT * FROM plian").collect())
        return found

    def once(self) -> dict[str, object]:
        """Run one job id twice."""
        table = self.table("once")
        results = [write_table(self.frame(0, 3, 1), table, job_id="load") for _ in range(2)]
        return {
            "replayed": [r.replayed for r in results],
            "snapshots": [r.snapshot_id for r in results],
            "rows": rows_of(table),
        }

    def errors(self) -> dict[str, object]:
        """Offer what the schema refuses before a job, and what only a task can see."""
        table = self.table("refused")
        unknown = caught(lambda: write_table(self.frame(0, 3, 1).withColumn("more", F.lit(1)), table))
        null = self.frame(0, 3, 1).withColumn("id", F.when(F.col("id") != 1, F.col("id")))
        in_task = caught(lambda: write_table(null, table))
        return {
            "unknown": unknown,
            "in_task": in_task,
            "snapshot": table.store.snapshots.latest_id(),
            "stray": stray(table),
        }

    def door(self) -> dict[str, object]:
        """Use format("lakewright"), which the server finds by itself, and SQL."""
        table = self.table("door")
        self.frame(0, 3, 1).write.format("lakewright").mode("append").save(table.table_path)
        loaded = collected(self.spark.read.format("lakewright").load(table.table_path))
        views = attach(self.spark, str(self.root / "warehouse"), "d", tables=["plain", "keyed"])
        (row,) = self.spark.sql("SELECT count(*), sum(k.n) FROM keyed k JOIN plain p USING (id)").collect()
        return {"loaded": loaded, "views": sorted(views), "sql": list(row)}

    def changes(self) -> dict[str, object]:
        """Delete, update, merge and upsert, with and without a primary key."""
        found: dict[str, object] = {}
        for name, keys in (("changed", None), ("changed by key", ["day", "id"])):
            table = self.table(name.replace(" ", "_"), keys=keys is not None, partitioned=True)
            write_table(self.frame(0, 6, 1), table)
            gone = delete(self.spark, table, "id < 2")
            changed = update(self.spark, table, {"n": 5}, "id = 3")
            merging = merge(self.frame(5, 8, 9), table, on=["day", "id"])
            merged = merging.when_matched_update().when_not_matched_insert().execute()
            upserted = upsert(self.frame(7, 9, 4), table, keys or ["day", "id"])
            found[name] = rows_of(table)
            found[f"{name}: counts"] = [
                gone.deleted, changed.updated, merged.updated, merged.inserted, upserted.rows,
            ]  # fmt: skip
        return found

    def stream(self) -> dict[str, object]:
        """Stream a table into another: both ends of a query run beside the server."""
        source, target = self.table("source"), self.table("target", keys=True)
        write_table(self.frame(0, 3, 1), source)
        query = self.started(source, target)
        ended = query.awaitTermination(SECONDS_MAX)
        return {"ended": ended, "error": str(query.exception()), "rows": rows_of(target)}

    def started(self, source: lw.FileStoreTable, target: lw.FileStoreTable, tries: int = 5) -> StreamingQuery:
        """Start a query; a server gives its Python ten seconds to start, which a busy machine may take longer for."""
        stream = read_stream(self.spark, source)
        try:
            return write_stream(stream, target, checkpoint=str(self.root / "checkpoint"), mode="upsert", trigger=NOW)
        except PySparkException as error:
            if tries > 1 and "failed to connect back" in str(error):
                return self.started(source, target, tries - 1)
            raise

    def interrupt(self) -> dict[str, object]:
        """Press Ctrl-C while one task still runs and others have written their files."""
        table = self.table("interrupted")
        slow = self.frame(0, 3, 1, parts=3).mapInPandas(waits_for_ever, "id long, day string, n long")
        bucket = Path(table.table_path) / "bucket-0"

        def press() -> None:
            deadline = time.monotonic() + SECONDS_MAX
            while len(list(bucket.glob("data-*.parquet"))) < 2 and time.monotonic() < deadline:
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=press, daemon=True).start()
        try:
            write_table(slow, table)
            ended = "returned"
        except KeyboardInterrupt:
            ended = "KeyboardInterrupt"
        again = write_table(self.frame(0, 3, 1), table)
        return {"ended": ended, "stray": stray(table), "rows": rows_of(table), "snapshot": again.snapshot_id}

    def opened(self, name: str) -> lw.FileStoreTable:
        """Open a table that an earlier chapter has made."""
        return lw.CatalogFactory.create({"warehouse": str(self.root / "warehouse")}).get_table(f"d.{name}")


def waits_for_ever(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Hand rows on; the task of row 2 does not come to an end."""
    for frame in frames:
        yield frame
        if (frame["id"] == 2).any():
            time.sleep(10 * SECONDS_MAX)


def collected(frame: DataFrame) -> list[list[object]]:
    """Return the rows of a frame, sorted."""
    return sorted(list(row) for row in frame.collect())


def caught(call: Callable[[], object]) -> list[str]:
    """Return the type of the error that a call raises, and the names of its facts."""
    try:
        call()
    except lw.LakewrightError as error:
        return [type(error).__name__, *sorted(error.facts)]
    return ["nothing"]


def stray(table: lw.FileStoreTable) -> list[str]:
    """Return the files that nothing names."""
    return sorted(stray_files(table.store))


def main(remote: str, root: str, *chapters: str) -> None:
    """Run every chapter, or those named, and print what it saw."""
    client = Client(SparkSession.builder.remote(remote).getOrCreate(), Path(root))
    seen = {}
    for chapter in chapters or (
        "modes",
        "reads",
        "statements",
        "once",
        "errors",
        "changes",
        "door",
        "stream",
        "interrupt",
    ):
        started = time.monotonic()
        seen[chapter] = getattr(client, chapter)()
        print(f"{chapter}: {time.monotonic() - started:.1f} s", file=sys.stderr)
    print(json.dumps(seen))
    client.spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A driver on a cluster whose executors lack lakewright: it ships the library, writes, reads and prints facts.

It is a process of its own with a session of its own; `tests/soak/test_spark_cluster.py` starts the cluster and says
what the facts should be.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import lakewright as lw
from contract.fault_enumerator import stray_files
from lakewright.commit.table_commit import WriteResult
from lakewright.spark.frame_read import read_table
from lakewright.spark.spark_verbs import write_table
from lakewright.table.file_store_table import FileStoreTable
from support.spark_writes import new_table

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int64())])
ROWS = "id long, n long"
MANY = 5_000_000
PARTS = 4
SMALL = {"target-file-size": "256 kb", "write-buffer-size": "4 mb"}  # so that a task begins files before its end
LAST = MANY // PARTS - 1  # of the first part
SECONDS_MAX = 120
CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "4",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
}
Frames = Callable[[Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]


def once(marker: str, bucket: str, disturbance: Callable[[], None]) -> Frames:
    """Return what hands rows on; the first task to come to row LAST is disturbed, once it has files in the bucket."""

    def run(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield frame
            if not (frame["id"] == LAST).any():
                continue
            try:
                Path(marker).touch(exist_ok=False)
            except FileExistsError:
                continue
            context = TaskContext.get()
            mine = "none" if context is None else f"data-*-{context.partitionId()}-{context.taskAttemptId()}-*"
            deadline = time.monotonic() + SECONDS_MAX
            while not (files := len(list(Path(bucket).glob(mine)))) and time.monotonic() < deadline:
                time.sleep(0.1)
            Path(marker).write_text(str(files))
            disturbance()

    return run


def straggle() -> None:
    """Sleep longer than anybody waits."""
    time.sleep(3600)


def kill_executor() -> None:
    """Kill the executor: the JVM is the parent of the daemon that is the parent of this worker."""
    status = Path(f"/proc/{os.getppid()}/stat").read_text()
    os.kill(int(status.rpartition(")")[2].split()[1]), signal.SIGKILL)


def imports(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield whether a worker can import the library."""
    yield pa.record_batch({"found": [importlib.util.find_spec("lakewright") is not None]})


def main(master: str, library: str, root: str) -> None:
    """Use the cluster, and print what was seen."""
    builder = SparkSession.builder.master(master).appName("cluster")
    for key, value in CONF.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    seen: dict[str, object] = {}
    seen["before"] = spark.range(0, 2, numPartitions=2).mapInArrow(imports, "found boolean").distinct().collect()
    spark.sparkContext.addPyFile(library)
    plain = new_table(Path(root), name="plain", columns=COLUMNS, options=SMALL)
    keyed = new_table(Path(root), name="keyed", keys=["id"], columns=COLUMNS, options={"bucket": "2"})

    def frame(end: int, n: int, disturbed: Frames | None = None) -> DataFrame:
        rows = spark.range(0, end, numPartitions=PARTS).selectExpr("id", f"{n}L AS n")
        return rows if disturbed is None else rows.mapInPandas(disturbed, ROWS)

    write_table(frame(100, 1), plain)
    for end, n in ((100, 1), (50, 2)):
        write_table(frame(end, n), keyed, "upsert")
    seen["plain"] = read_table(spark, plain).selectExpr("count(*)", "sum(n)").first()
    seen["keyed"] = read_table(spark, keyed).selectExpr("count(*)", "sum(n)").first()
    in_tasks = keyed.copy({"lakewright.native-scan": "never"})
    seen["in tasks"] = read_table(spark, in_tasks).selectExpr("count(*)", "sum(n)").first()
    for name, disturbance in (("speculation", straggle), ("executor lost", kill_executor)):
        disturbed = once(f"{root}/{name}", f"{plain.table_path}/bucket-0", disturbance)
        result = write_table(frame(MANY, 3, disturbed), plain)
        seen[name] = disturbed_facts(plain, result, Path(root, name))
    spark.stop()
    seen["rows"] = lw.read_table(plain).num_rows
    print(json.dumps(seen))


def disturbed_facts(table: FileStoreTable, result: WriteResult, marker: Path) -> dict[str, object]:
    """Return what a disturbed write brought into the table, what it had begun, and what it left behind."""
    begun = int(marker.read_text())
    return {"rows": result.rows, "begun": begun, "stray": len(stray_files(table.store)), "seconds": result.seconds}


if __name__ == "__main__":
    main(*sys.argv[1:])

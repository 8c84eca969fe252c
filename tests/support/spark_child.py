"""A driver of its own, in a process that can be killed: writes one frame as told by the JSON in its argument."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, SparkSession

import lakewright as lw
from lakewright.spark import write_table
from lakewright.spark.spark_session import local_session
from lakewright.table.file_store_table import FileStoreTable
from support.jvm import SHORT_LIVED
from support.spark_traps import TrapStorage, trapped
from support.spark_writes import new_table, rows_of

ROWS = 60
_WORK = Path(pyspark.__file__).parent / "work"  # where a local cluster leaves the logs of its executors


def frame_of(spark: SparkSession, rows: int = ROWS) -> DataFrame:
    """Return the frame that every driver writes."""
    day, text = "concat('2026-01-0', id % 3 + 1)", "concat('row ', id)"
    return spark.range(0, rows, numPartitions=4).selectExpr("id", f"{day} as day", "id * 2 as n", f"{text} as text")


def expected_rows(rows: int = ROWS) -> list[tuple[object, ...]]:
    """Return the rows of that frame, sorted."""
    return sorted(((i, f"2026-01-0{i % 3 + 1}", i * 2, f"row {i}") for i in range(rows)), key=repr)


@contextmanager
def started_child(log: Path, **said: Any) -> Iterator[subprocess.Popen[bytes]]:  # noqa: ANN401 - what JSON can hold
    """Start a driver, and end it if it has not ended by itself."""
    command = [sys.executable, "-m", "support.spark_child", json.dumps(said)]
    works = set(_WORK.glob("app-*"))
    with log.open("wb") as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=Path(__file__).parent.parent)
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        for work in set(_WORK.glob("app-*")) - works:
            shutil.rmtree(work, ignore_errors=True)


def ended(child: subprocess.Popen[bytes], log: Path, *, seconds_max: float = 300) -> int:
    """Wait for a driver to end and return how it ended."""
    try:
        return child.wait(seconds_max)
    except subprocess.TimeoutExpired:
        child.kill()
        raise AssertionError(log.read_text()[-2000:]) from None


def table_for(mode: str, root: Path) -> FileStoreTable:
    """Make a table for a mode; an upsert finds old rows of its keys, an overwrite finds rows to replace."""
    if mode == "append":
        return new_table(root, partitions=["day"])
    table = new_table(root, keys=["id"], options={"bucket": "2"})
    old = range(ROWS) if mode == "upsert" else range(5, 2 * ROWS)
    lw.write_table(pa.table({"id": list(old), "text": ["old"] * len(old)}), table)
    return table


def shows_the_frame(table: FileStoreTable) -> bool:
    """Say whether the rows of the frame are there; a mixture of old and new ones is a failure."""
    texts = {str(row[3]).split()[0] for row in rows_of(table)}
    assert len(texts) <= 1, "some rows are new and some are old"
    return texts == {"row"}


def main() -> None:
    """Write the frame and print what came of it."""
    said = json.loads(sys.argv[1])
    java = {"spark.driver.extraJavaOptions": SHORT_LIVED}
    config = {"spark.sql.shuffle.partitions": "4", **java, **said.get("config", {})}
    spark = local_session("child", master=said.get("master", "local[2,3]"), memory="1g", config=config)
    table = lw.open_table(said["table"])
    if "trap" in said:
        table = trapped(table, TrapStorage(**said["trap"]))
    result = write_table(frame_of(spark), table, said["mode"], job_id=said.get("job_id"))
    print(json.dumps({"snapshot_id": result.snapshot_id, "rows": result.rows, "replayed": result.replayed}))
    spark.stop()


if __name__ == "__main__":
    main()

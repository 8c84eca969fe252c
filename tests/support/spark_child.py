"""A driver of its own, in a process that can be killed: writes one frame as told by the JSON in its argument."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import lakewright as lw
from lakewright.spark import write_table
from lakewright.spark.session import local_session
from support.spark_traps import TrapStorage, trapped

ROWS = 60


def frame_of(spark: SparkSession, rows: int = ROWS) -> DataFrame:
    """Return the frame that every driver writes."""
    day, text = "concat('2026-01-0', id % 3 + 1)", "concat('row ', id)"
    return spark.range(0, rows, numPartitions=4).selectExpr("id", f"{day} as day", "id * 2 as n", f"{text} as text")


def expected_rows(rows: int = ROWS) -> list[tuple[object, ...]]:
    """Return the rows of that frame, sorted."""
    return sorted(((i, f"2026-01-0{i % 3 + 1}", i * 2, f"row {i}") for i in range(rows)), key=repr)


def start_child(log: Path, **said: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401 - whatever JSON can hold
    """Start a driver."""
    command = [sys.executable, "-m", "support.spark_child", json.dumps(said)]
    with log.open("wb") as out:
        return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=Path(__file__).parent.parent)


def main() -> None:
    """Write the frame and print what came of it."""
    said = json.loads(sys.argv[1])
    config = {"spark.sql.shuffle.partitions": "4", **said.get("config", {})}
    spark = local_session("child", master=said.get("master", "local[2,3]"), memory="1g", config=config)
    table = lw.open_table(said["table"])
    if "trap" in said:
        table = trapped(table, TrapStorage(**said["trap"]))
    result = write_table(frame_of(spark), table, said["mode"], job_id=said.get("job_id"))
    print(json.dumps({"snapshot_id": result.snapshot_id, "rows": result.rows, "replayed": result.replayed}))
    spark.stop()


if __name__ == "__main__":
    main()

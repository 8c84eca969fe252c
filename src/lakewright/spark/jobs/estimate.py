"""What Spark estimates of a frame and of its workers before a job runs. Nothing here runs the frame."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from lakewright.spark.jobs.session import is_connect

_UNKNOWN_BYTES = 1 << 50  # Spark gives an enormous size to what it cannot estimate
_SIZE = re.compile(r"Statistics\(sizeInBytes=([0-9.E+]+) ?([KMGTPE]iB|B)")
_UNITS = {"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40, "PiB": 50, "EiB": 60}


def size_of(df: DataFrame) -> int | None:
    """Return how many bytes Spark expects a frame to have; None where it cannot say."""
    frame: Any = df  # the estimate is not part of the public API
    if is_connect(df.sparkSession):
        return size_in(frame._explain_string(mode="cost"))  # noqa: SLF001
    size = int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))  # noqa: SLF001
    return size if size < _UNKNOWN_BYTES else None


def size_in(plan: str) -> int | None:
    """Return how many bytes the first node of an explained plan is expected to have; None where it does not say."""
    match = _SIZE.search(plan)
    size = _UNKNOWN_BYTES if match is None else int(float(match[1]) * 2 ** _UNITS[match[2]])
    return size if size < _UNKNOWN_BYTES else None


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks the session runs at once."""
    if not is_connect(spark):
        return max(1, spark.sparkContext.defaultParallelism)
    # Spark cuts a range into as many parts as it runs tasks.
    parts = spark.range(1 << 16).select(F.spark_partition_id().alias("part")).distinct().count()
    return max(1, parts)

"""Compaction on Spark's workers: a table in, one COMPACT snapshot out."""

from __future__ import annotations

from pyspark.sql import SparkSession

from lakewright.catalog.open import opened
from lakewright.compact.job import RunTasks, compact_table
from lakewright.compact.rounds import CompactResult
from lakewright.distributed import compaction
from lakewright.errors import naming
from lakewright.spark.jobs.session import check_session
from lakewright.spark.jobs.workers import SparkWorkers
from lakewright.spec import arguments
from lakewright.spec.arguments import Path
from lakewright.table.table import FileStoreTable, Partitions


def compact(
    spark: SparkSession,
    table: FileStoreTable | Path,
    *,
    full: bool = False,
    partitions: Partitions | None = None,
) -> CompactResult:
    """Merge files where it is worth it, on Spark's workers; with `full`, all that can be: see `table.compact`."""
    check_session(spark)
    store = opened(table).store
    with naming(store.name):
        specs = arguments.optional(arguments.specs, "partitions", partitions)
        return compact_table(store, full=full, partitions=specs, run=compacting_on(spark))


def compacting_on(spark: SparkSession) -> RunTasks:
    """Return how compaction tasks are run by the workers of a session."""
    return compaction.compacting_on(SparkWorkers(spark))

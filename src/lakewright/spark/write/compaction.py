"""Compaction on Spark's workers: a table in, one COMPACT snapshot out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pyspark.sql import SparkSession

from lakewright.catalog.base import Catalog
from lakewright.catalog.compaction import DatabaseCompaction, DatabaseRequest
from lakewright.catalog.open import opened
from lakewright.compact.job import RunTasks, compact_chosen
from lakewright.compact.request.choice import CompactRequest, Strategy
from lakewright.compact.rounds import CompactResult
from lakewright.distributed import compaction
from lakewright.spark.jobs.session import check_session
from lakewright.spark.jobs.workers import SparkWorkers
from lakewright.spec.arguments import Age, Path, Properties
from lakewright.spec.predicate.filters import Filter
from lakewright.table.table import FileStoreTable, Partitions


def compact(  # noqa: PLR0913 - each argument is one choice of the caller
    spark: SparkSession,
    table: FileStoreTable | Path,
    *,
    full: bool = False,
    partitions: Partitions | None = None,
    where: Filter | None = None,
    order_by: str | Sequence[str] | None = None,
    strategy: Strategy | None = None,
    idle: Age | None = None,
    dry_run: bool = False,
    snapshot_properties: Properties | None = None,
) -> CompactResult:
    """Merge files where it is worth it, on Spark's workers; with `full`, all that can be: see `table.compact`."""
    check_session(spark)
    request = CompactRequest(full, partitions, where, order_by, strategy, idle, dry_run)
    return _compact(spark, opened(table, snapshot_properties), request)


def compact_database(  # noqa: PLR0913 - each argument is one choice of the caller
    spark: SparkSession,
    catalog: Catalog,
    database: str | None = None,
    *,
    including: str | None = None,
    excluding: str | None = None,
    full: bool = False,
    idle: Age | None = None,
    dry_run: bool = False,
) -> DatabaseCompaction:
    """Compact the tables of a database, or of all, on Spark's workers: see `lakewright.compact_database`."""
    check_session(spark)
    request = DatabaseRequest(database, including, excluding, full, idle, dry_run)
    return request.run(catalog, partial(_compact, spark))


def _compact(spark: SparkSession, table: FileStoreTable, request: CompactRequest) -> CompactResult:
    store = table.refreshed().store
    return compact_chosen(store, request.checked(store), compaction.sorting_on(SparkWorkers(spark)))


def compacting_on(spark: SparkSession) -> RunTasks:
    """Return how compaction tasks are run by the workers of a session."""
    return compaction.compacting_on(SparkWorkers(spark))

"""ANALYZE on Spark's workers: a table in, one snapshot that names the statistics of its rows and columns out."""

from __future__ import annotations

from pyspark.sql import SparkSession

from lakewright.catalog.open import opened
from lakewright.distributed.statistics import counting_on
from lakewright.errors import naming
from lakewright.maintenance.statistics.analyze import AnalyzeResult, Columns, analyze_table
from lakewright.spark.jobs.session import check_session
from lakewright.spark.jobs.workers import SparkWorkers
from lakewright.spec.arguments import Path
from lakewright.table.table import FileStoreTable


def analyze(spark: SparkSession, table: FileStoreTable | Path, columns: Columns = None) -> AnalyzeResult:
    """Count the rows of a table, and the values of columns, on Spark's workers: see `table.analyze`."""
    check_session(spark)
    store = opened(table).store
    with naming(store.name):
        return analyze_table(store, columns, count=counting_on(SparkWorkers(spark)))

"""Delete and update on Spark: the same as embedded, by the workers of a session, in one snapshot."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from lakewright.catalog.open import opened
from lakewright.distributed.rows.verbs import delete_on, update_on
from lakewright.spark.jobs.session import in_session_zone
from lakewright.spark.jobs.workers import SparkWorkers
from lakewright.spec.arguments import Path, Properties
from lakewright.spec.predicate.filters import Filter
from lakewright.table.table import FileStoreTable
from lakewright.update.result import UpdateResult


def delete(
    spark: SparkSession,
    table: FileStoreTable | Path,
    where: Filter,
    *,
    job_id: str | None = None,
    snapshot_properties: Properties | None = None,
) -> UpdateResult:
    """Delete the rows that fulfil a condition; the text `true` means all of them. With a job id, once."""
    return delete_on(
        SparkWorkers(spark), in_session_zone(spark, opened(table, snapshot_properties)).store, where, job_id=job_id
    )


def update(
    spark: SparkSession,
    table: FileStoreTable | Path,
    assignments: Mapping[str, object],
    where: Filter | None = None,
    *,
    job_id: str | None = None,
    snapshot_properties: Properties | None = None,
) -> UpdateResult:
    """Give columns new values in the rows that fulfil a condition; without one in all rows. With a job id, once."""
    store = in_session_zone(spark, opened(table, snapshot_properties)).store
    return update_on(SparkWorkers(spark), store, assignments, where, job_id=job_id)

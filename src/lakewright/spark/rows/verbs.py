"""Delete and update on Spark: the same as embedded, by the workers of a session, in one snapshot.

    condition -> groups of files that may hold such rows -> tasks find the rows and change them -> one commit

A task has groups of files, or whole buckets of a primary-key table. The core's own code finds rows, decides and applies
the change; the driver plans, folds vectors and commits. If somebody else changed the same rows meanwhile, the change
starts again from the newest snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pyspark.sql import SparkSession

from lakewright.catalog.open import opened
from lakewright.spark.jobs.session import in_session_zone
from lakewright.spark.rows.file_groups import groups_on_workers
from lakewright.spark.rows.primary_key import buckets_on_workers
from lakewright.spark.write.compaction import compacting_on
from lakewright.spec.arguments import Path
from lakewright.spec.predicate.filters import Filter
from lakewright.table.table import FileStoreTable
from lakewright.update import verbs
from lakewright.update.find import condition
from lakewright.update.result import UpdateResult
from lakewright.update.run import change
from lakewright.write.job_run import JobRun


def delete(
    spark: SparkSession, table: FileStoreTable | Path, where: Filter, *, job_id: str | None = None
) -> UpdateResult:
    """Delete the rows that fulfil a condition; the text `true` means all of them. With a job id, once."""
    store = in_session_zone(spark, opened(table)).store
    predicate = verbs.checked_delete(store, where)
    prepare = partial(
        verbs.prepare_delete, store, predicate, run=groups_on_workers(spark), run_buckets=buckets_on_workers(spark)
    )
    return change(store, prepare, operation="DELETE", run=compacting_on(spark), job=JobRun.of(store, job_id))


def update(
    spark: SparkSession,
    table: FileStoreTable | Path,
    assignments: Mapping[str, object],
    where: Filter | None = None,
    *,
    job_id: str | None = None,
) -> UpdateResult:
    """Give columns new values in the rows that fulfil a condition; without one in all rows. With a job id, once."""
    store = in_session_zone(spark, opened(table)).store
    predicate = condition(store, where)
    checked = verbs.checked_update(store, assignments)
    prepare = partial(
        verbs.prepare_update,
        store,
        checked,
        predicate,
        run=groups_on_workers(spark),
        run_buckets=buckets_on_workers(spark),
    )
    return change(store, prepare, operation="UPDATE", run=compacting_on(spark), job=JobRun.of(store, job_id))

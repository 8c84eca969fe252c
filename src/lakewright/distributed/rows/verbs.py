"""Delete and update by an engine's workers: the same as embedded, in one snapshot.

    condition -> groups of files that may hold such rows -> tasks find the rows and change them -> one commit

A task has groups of files, or whole buckets of a primary-key table. The core's own code finds rows, decides and applies
the change; the driver plans, folds vectors and commits. If somebody else changed the same rows meanwhile, the change
starts again from the newest snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from lakewright.calls import Progress, ProgressCallback
from lakewright.commit.table_commit import WriteResult
from lakewright.distributed.compaction import compacting_on
from lakewright.distributed.job import Work, Workers
from lakewright.distributed.rows.buckets import buckets_on
from lakewright.distributed.rows.groups import groups_on
from lakewright.distributed.write import replayed
from lakewright.metadata.store import TableStore
from lakewright.spec.predicate.filters import Filter
from lakewright.update import verbs
from lakewright.update.find import condition
from lakewright.update.result import UpdateResult
from lakewright.update.run import Prepare, change
from lakewright.write.job_run import JobRun


def delete_on(workers: Workers[Work], store: TableStore, where: Filter, *, job_id: str | None = None) -> UpdateResult:
    """Delete the rows that fulfil a condition, by workers."""
    predicate = verbs.checked_delete(store, where)
    prepare = partial(verbs.prepare_delete, store, predicate, run=groups_on(workers), run_buckets=buckets_on(workers))
    return change(store, prepare, operation="DELETE", run=compacting_on(workers), job=JobRun.of(store, job_id))


def update_on(
    workers: Workers[Work],
    store: TableStore,
    assignments: Mapping[str, object],
    where: Filter | None = None,
    *,
    job_id: str | None = None,
) -> UpdateResult:
    """Give columns new values in the rows that fulfil a condition, by workers; without one in all rows."""
    predicate = condition(store, where)
    checked = verbs.checked_update(store, assignments)
    prepare = partial(
        verbs.prepare_update, store, checked, predicate, run=groups_on(workers), run_buckets=buckets_on(workers)
    )
    return change(store, prepare, operation="UPDATE", run=compacting_on(workers), job=JobRun.of(store, job_id))


def upsert_by_lookup(
    workers: Workers[Work],
    store: TableStore,
    prepare: Prepare,
    run: JobRun | None,
    progress: bool | ProgressCallback | None,  # noqa: FBT001 - a callback, or a flag
) -> WriteResult:
    """Write rows that lack columns, which stay as they are in the rows that are there."""
    compact = compacting_on(workers)
    done = change(store, prepare, operation="WRITE", run=compact, job=run)
    if done.replayed and done.snapshot_id is not None:
        return replayed(store, store.snapshots.get(done.snapshot_id), run=compact)
    if callable(progress):
        progress(Progress(done.written, done.bytes, done.seconds))
    way = "rows that are there were looked up, and written with the columns that the data lacks"
    made = WriteResult(done.snapshot_id, done.written, done.files, done.bytes, done.seconds, done.partitions, way=way)
    return replace(made, attempts=done.attempts, stages_ms=done.stages_ms)

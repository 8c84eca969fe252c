"""Delete, update and compact on Ray: the same as embedded, by the workers of the cluster, in one snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from lakewright.catalog.base import Catalog
from lakewright.catalog.compaction import DatabaseCompaction, DatabaseRequest
from lakewright.catalog.open import opened
from lakewright.compact.job import compact_chosen
from lakewright.compact.request.choice import CompactRequest, Strategy
from lakewright.compact.rounds import CompactResult
from lakewright.distributed.compaction import sorting_on
from lakewright.distributed.rows.verbs import delete_on, update_on
from lakewright.ray.tasks import RayWorkers, WriteSettings
from lakewright.spec.arguments import Age, Path, Properties
from lakewright.spec.predicate.filters import Filter
from lakewright.table.table import FileStoreTable, Partitions
from lakewright.update.result import UpdateResult


def delete(
    table: FileStoreTable | Path,
    where: Filter,
    *,
    job_id: str | None = None,
    snapshot_properties: Properties | None = None,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> UpdateResult:
    """Delete the rows that fulfil a condition; the text `true` means all of them. With a job id, once.

    `concurrency` is the largest number of tasks that run at a time, and `ray_remote_args` are what `ray.remote` takes
    for them; so it is for every verb here.
    """
    workers = RayWorkers(WriteSettings.of(concurrency, ray_remote_args))
    return delete_on(workers, opened(table, snapshot_properties).store, where, job_id=job_id)


def update(  # noqa: PLR0913 - each argument is one choice of the caller
    table: FileStoreTable | Path,
    assignments: Mapping[str, object],
    where: Filter | None = None,
    *,
    job_id: str | None = None,
    snapshot_properties: Properties | None = None,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> UpdateResult:
    """Give columns new values in the rows that fulfil a condition; without one in all rows. With a job id, once."""
    workers = RayWorkers(WriteSettings.of(concurrency, ray_remote_args))
    return update_on(workers, opened(table, snapshot_properties).store, assignments, where, job_id=job_id)


def compact(  # noqa: PLR0913 - each argument is one choice of the caller
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
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> CompactResult:
    """Merge files where it is worth it, on Ray's workers; with `full`, all that can be: see `table.compact`."""
    settings = WriteSettings.of(concurrency, ray_remote_args)
    request = CompactRequest(full, partitions, where, order_by, strategy, idle, dry_run)
    return _compact(settings, opened(table, snapshot_properties), request)


def compact_database(  # noqa: PLR0913 - each argument is one choice of the caller
    catalog: Catalog,
    database: str | None = None,
    *,
    including: str | None = None,
    excluding: str | None = None,
    full: bool = False,
    idle: Age | None = None,
    dry_run: bool = False,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> DatabaseCompaction:
    """Compact the tables of a database, or of all, on Ray's workers: see `lakewright.compact_database`."""
    settings = WriteSettings.of(concurrency, ray_remote_args)
    request = DatabaseRequest(database, including, excluding, full, idle, dry_run)
    return request.run(catalog, partial(_compact, settings))


def _compact(settings: WriteSettings, table: FileStoreTable, request: CompactRequest) -> CompactResult:
    store = table.refreshed().store
    return compact_chosen(store, request.checked(store), sorting_on(RayWorkers(settings)))

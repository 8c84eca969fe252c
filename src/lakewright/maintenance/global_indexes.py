"""Global indexes of other engines: taken off the newest snapshot in one commit, so that their columns can change.

Such indexes are neither built nor used here. Their files go with the snapshots that still name them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakewright.commit.commit_loop import RetryPolicy, plan_and_publish
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.commit_plan import partition_selector, select_partitions
from lakewright.commit.committer import Committer
from lakewright.display import HtmlRepr
from lakewright.dml.row_changes import ChangeJob
from lakewright.errors import ColumnNotExistException, NotFoundError
from lakewright.metadata.table_store import TableStore
from lakewright.spec import argument_checks
from lakewright.spec.manifest import IndexEntry
from lakewright.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class DropIndexResult(HtmlRepr):
    """The index files that were taken off the newest snapshot, or would be."""

    snapshot_id: int | None  # None: nothing was published
    files: tuple[str, ...]
    columns: tuple[str, ...]  # those that are not indexed any more
    dry_run: bool = False


def drop_global_index(
    store: TableStore,
    column: str,
    index_type: str | None = None,
    *,
    partitions: Sequence[Mapping[str, object]] | None = None,
    dry_run: bool = False,
) -> DropIndexResult:
    """Take every global index that holds a column off the newest snapshot, in one commit.

    With `index_type` only those of a kind such as `btree`, with `partitions` only those of partitions that have these
    values. An index of several columns goes as a whole.
    """
    number = _field_id(store, column)
    is_chosen = partition_selector(store, select_partitions(store, partitions))
    found: list[IndexEntry] = []

    def prepare(base: Snapshot | None) -> tuple[CommitMessage, ...]:
        entries = [] if base is None else _entries(store, base)
        found[:] = [one for one in entries if number in _fields(one) and index_type in {None, one.file.index_type}]
        if not found:
            kind = "global index" if index_type is None else f"global index of the type {index_type!r}"
            raise NotFoundError(f"{store.name}: the column {column!r} has no {kind}", table=store.name, column=column)
        found[:] = [one for one in found if is_chosen(one.partition)]
        if base is None or not found:
            return ()
        job, buckets = ChangeJob.on(store, base), store.options.bucket
        return tuple(job.message((one.partition, one.bucket, buckets), deleted_index_files=[one.file]) for one in found)

    def publish(messages: tuple[CommitMessage, ...], _: Snapshot | None) -> Snapshot | None:
        return Committer(store, sole=True).commit(messages, operation="DROP INDEX") if messages else None

    if dry_run:
        store.check_same_table()
        prepare(store.snapshots.latest())
        return _result(store, None, found, dry_run=True)
    published = plan_and_publish(store, prepare, publish, RetryPolicy.of(store)).published
    return _result(store, None if published is None else published.id, found, dry_run=False)


def _field_id(store: TableStore, column: str) -> int:
    for field in store.schema.fields:
        if field.name == column:
            return field.id
    raise ColumnNotExistException(
        f"{store.name} has no column {column!r}; {argument_checks.suggest_name(column, store.schema.field_names)}",
        table=store.name,
        column=column,
    )


def _entries(store: TableStore, snapshot: Snapshot) -> list[IndexEntry]:
    name = snapshot.index_manifest
    return [] if name is None else store.manifests.read_index(name, snapshot=snapshot)


def _fields(entry: IndexEntry) -> set[int]:
    index = entry.file.global_index
    return set() if index is None else {index.index_field_id, *(index.extra_field_ids or ())}


def _result(
    store: TableStore, snapshot_id: int | None, found: Sequence[IndexEntry], *, dry_run: bool
) -> DropIndexResult:
    ids = {number for entry in found for number in _fields(entry)}
    columns = tuple(field.name for field in store.schema.fields if field.id in ids)
    return DropIndexResult(snapshot_id, tuple(entry.file.file_name for entry in found), columns, dry_run)

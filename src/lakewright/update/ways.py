"""How rows that are there can be changed: the cheapest correct way that a table allows, and the door to each.

`apply` runs wherever the changes are, in a thread or on a worker. It takes one change after the other, so only one of
them must be in memory; what it returns is small. If it fails, it leaves no file behind.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum

from lakewright.errors import UnsupportedError
from lakewright.metadata.store import TableStore
from lakewright.update import vectors
from lakewright.update.change import Applied, ChangeJob, GroupChange


class Way(StrEnum):
    """How rows that are there are changed."""

    KEYED = "row kinds"  # rows that delete or replace those with their keys
    VECTORS = "deletion vectors"  # rows are marked as deleted; what was updated is written to new files
    COLUMNS = "column files"  # changed columns are written beside the others
    COPY = "copied files"  # the files that hold the rows are written again


def way_of(store: TableStore) -> Way:
    """Return the way that a table allows."""
    if store.schema.primary_keys:
        return Way.KEYED
    if store.options.data_evolution_enabled():
        return Way.COLUMNS
    return Way.VECTORS if store.options.deletion_vectors_enabled() else Way.COPY


def apply(job: ChangeJob, changes: Iterable[GroupChange], task: int = 0, attempt: int = 0) -> Applied:
    """Do what is decided of groups of an append table; `task` and `attempt` are part of every file name."""
    match way_of(job.store):
        case Way.VECTORS:
            return _marked(job, changes)
        case way:
            raise UnsupportedError(f"{job.store.name}: {way} are not written yet", table=job.store.name)


def _marked(job: ChangeJob, changes: Iterable[GroupChange]) -> Applied:
    out = Applied()
    for change in changes:
        if not change.is_empty:
            out += replace(vectors.mark(job, change.part, change.deleted), deleted=len(change.deleted))
    return out

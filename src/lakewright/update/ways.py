"""How rows that are there can be changed: the cheapest correct way that a table allows, and the door to each.

`apply` runs wherever the changes are, in a thread or on a worker. It takes one change after the other, so only one of
them must be in memory; what it returns is small. If it fails, it leaves no file behind.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum

import numpy as np

from lakewright.errors import UnsupportedError
from lakewright.formats.deletion_vectors import distinct
from lakewright.metadata.store import TableStore
from lakewright.read.scan import FileSchemas
from lakewright.update import columns, copy, vectors
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
            return _marked(job, changes, copy.NewRows(job, task, attempt))
        case Way.COLUMNS:
            return columns.apply(job, changes, task, attempt)
        case Way.COPY:
            return copy.apply(job, changes, task, attempt)
        case Way.KEYED:
            raise UnsupportedError(
                f"{job.store.name}: rows of a primary-key table have no place to be changed in; they are replaced by "
                "rows with their keys",
                table=job.store.name,
            )


def _marked(job: ChangeJob, changes: Iterable[GroupChange], new: copy.NewRows) -> Applied:
    """Mark rows as deleted, and write those that changed into new files."""
    schemas = FileSchemas(job.store)
    out: list[Applied] = []
    try:
        for change in changes:
            gone = distinct(np.concatenate([change.deleted, change.updated]))
            if len(gone):
                marked = vectors.mark(job, change.part, gone)
                out.append(replace(marked, deleted=len(change.deleted), updated=len(change.updated)))
            for rows in copy.changed_rows(job, change, schemas) if len(change.updated) else ():
                new.add(rows)
        return Applied.joined((*out, Applied(new.finish())))
    except BaseException:
        new.discard()
        raise

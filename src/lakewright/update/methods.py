"""Changes of groups in, what to commit out: rows are changed in the cheapest way that the table allows.

`apply` runs in a thread or on a worker. It applies one change after the other, so that only one of them is in memory,
and what it returns is small. If it fails, it leaves no file behind.
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


class ChangeMethod(StrEnum):
    """How existing rows are changed."""

    KEYED = "row kinds"  # new rows are written that delete or replace the rows with their keys
    VECTORS = "deletion vectors"  # rows are marked as deleted; updated rows are written to new files
    COLUMNS = "column files"  # new files hold the changed columns only
    COPY = "copied files"  # the files that hold the rows are written again


def change_method(store: TableStore) -> ChangeMethod:
    """Return how the rows of a table are changed."""
    if store.schema.primary_keys:
        return ChangeMethod.KEYED
    if store.options.data_evolution_enabled():
        return ChangeMethod.COLUMNS
    return ChangeMethod.VECTORS if store.options.deletion_vectors_enabled() else ChangeMethod.COPY


def apply(job: ChangeJob, changes: Iterable[GroupChange], task: int = 0, attempt: int = 0) -> Applied:
    """Apply changes of groups of an append table; `task` and `attempt` are part of every file name."""
    match change_method(job.store):
        case ChangeMethod.VECTORS:
            return _apply_vectors(job, changes, copy.MovedRows(job, task, attempt))
        case ChangeMethod.COLUMNS:
            return columns.apply(job, changes, task, attempt)
        case ChangeMethod.COPY:
            return copy.apply(job, changes, task, attempt)
        case ChangeMethod.KEYED:
            raise UnsupportedError(
                f"{job.store.name}: rows of a primary-key table have no place to be changed in; they are replaced by "
                "rows with their keys",
                table=job.store.name,
            )


def _apply_vectors(job: ChangeJob, changes: Iterable[GroupChange], new: copy.MovedRows) -> Applied:
    """Mark deleted and updated rows in deletion vectors, and write the updated ones into new files."""
    schemas = FileSchemas(job.store)
    out: list[Applied] = []
    try:
        for change in changes:
            positions = distinct(np.concatenate([change.deleted, change.updated]))
            if len(positions):
                marked = vectors.mark_deleted(job, change.part, positions)
                out.append(replace(marked, deleted=len(change.deleted), updated=len(change.updated)))
            for rows in copy.changed_rows(job, change, schemas) if len(change.updated) else ():
                new.add(rows)
        return Applied.joined((*out, Applied(new.finish())))
    except BaseException:
        new.discard()
        raise

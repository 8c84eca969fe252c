"""Changes of a group of files as values; `ChangeMethod`; `UpdateResult`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewright.commit.commit_message import CommitMessage, with_guards
from lakewright.display import HtmlRepr
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.spec.manifest import DataFile, IndexFile
from lakewright.spec.snapshot import Snapshot

# ---- Changes of groups of files --------------------------------------------------------------------------------------
# A group is a split with the files of one group of rows only (`read.split_sharing.part_of`). Positions count all rows
# of the group in the order of its files, deleted rows included; they are ascending, and each occurs once. Everything
# here is a plain value that travels between workers and the driver.

RowPositions: TypeAlias = NDArray[np.int64]  # ascending, each once
Bucket: TypeAlias = tuple[bytes, int, int | None]  # the partition, the bucket's number, how many there are


def no_positions() -> RowPositions:
    """Return the positions of no rows."""
    return np.empty(0, dtype=np.int64)


def bucket_of(part: DataSplit) -> Bucket:
    """Return the bucket that a group is in."""
    return part.partition_bytes, part.bucket, part.total_buckets


@dataclass(frozen=True, slots=True)
class GroupChange:
    """How the rows of one group change: some are deleted, some get new values in some columns."""

    part: DataSplit
    deleted: RowPositions = field(default_factory=no_positions)
    updated: RowPositions = field(default_factory=no_positions)  # none of them deleted
    values: pa.Table | None = None  # the assigned columns alone, in the table's types, a row for each of `updated`

    @property
    def is_empty(self) -> bool:
        """Whether no row changes."""
        return not len(self.deleted) and not len(self.updated)


def updated_rows(change: GroupChange, position: int, rows: int) -> RowPositions:
    """Return the rows of a batch that are updated, by their positions in the batch."""
    low, high = np.searchsorted(change.updated, (position, position + rows))
    return change.updated[low:high] - position


def keep_mask(change: GroupChange, position: int, rows: int, live: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    """Return a mask of the rows of a batch that stay: those that are live and that the change does not delete."""
    low, high = np.searchsorted(change.deleted, (position, position + rows))
    keep = np.ones(rows, dtype=np.bool_) if live is None else live.copy()
    keep[change.deleted[low:high] - position] = False
    return keep


def with_updates(batch: pa.RecordBatch, position: int, change: GroupChange) -> pa.Table:
    """Return the rows of a batch with the new values of those that are updated."""
    table = pa.Table.from_batches([batch])
    at = updated_rows(change, position, batch.num_rows)
    if change.values is None or not len(at):
        return table
    first = int(np.searchsorted(change.updated, position))
    for field_, column in zip(change.values.schema, change.values.slice(first, len(at)).columns, strict=True):
        number = table.column_names.index(field_.name)
        table = table.set_column(number, table.schema.field(number), _replace_at(batch.column(number), at, column))
    return table


def _replace_at(column: pa.Array, at: RowPositions, values: pa.ChunkedArray) -> pa.Array:
    """Return a column with other values at some positions."""
    joined = values.combine_chunks()
    if len(at) == len(column):
        return joined
    if _is_number(column.type) and not column.null_count and not joined.null_count:
        numbers = column.to_numpy().copy()
        numbers[at] = joined.to_numpy()
        return pa.array(numbers)
    if pa.types.is_nested(column.type) or not pa.types.is_primitive(column.type):
        order = np.arange(len(column), dtype=np.int64)
        order[at] = np.arange(len(column), len(column) + len(at))
        return pa.concat_arrays([column, joined]).take(pa.array(order))
    mask = np.zeros(len(column), dtype=np.bool_)
    mask[at] = True
    return pc.replace_with_mask(column, pa.array(mask), joined)


def _is_number(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow) or pa.types.is_floating(arrow))


@dataclass(frozen=True, slots=True)
class ChangeJob:
    """One attempt at a change of rows: the table, and the snapshot whose rows are read."""

    store: TableStore
    snapshot: Snapshot
    write_id: str  # unique to the attempt, part of the names of its files

    @classmethod
    def on(cls, store: TableStore, snapshot: Snapshot) -> ChangeJob:
        """Begin an attempt on a snapshot."""
        return cls(store, snapshot, str(uuid.uuid4()))

    def message(
        self,
        bucket: Bucket,
        *,
        new_files: Iterable[DataFile] = (),
        deleted_files: Iterable[DataFile] = (),
        new_index_files: Iterable[IndexFile] = (),
        deleted_index_files: Iterable[IndexFile] = (),
    ) -> CommitMessage:
        """Return the commit message of one bucket."""
        partition, number, total_buckets = bucket
        return CommitMessage(
            partition_bytes=partition,
            bucket=number,
            total_buckets=total_buckets,
            new_files=tuple(new_files),
            deleted_files=tuple(deleted_files),
            new_index_files=tuple(new_index_files),
            deleted_index_files=tuple(deleted_index_files),
            table=self.store.identity,
            schema_id=self.store.schema.id,
            write_id=self.write_id,
            partition_types=tuple(str(dtype) for dtype in self.store.partition_types),
        )


@dataclass(frozen=True, slots=True)
class Vector:
    """The deletion vector that a data file gets: of all its deleted rows, those deleted before included."""

    bucket: Bucket
    data_file: str
    cardinality: int
    record: bytes | None  # as an index file holds it; None: the data file is removed, and its vector too


@dataclass(frozen=True, slots=True)
class VectorFile:
    """An index file that a worker has written with complete vectors; no snapshot names it yet."""

    bucket: Bucket
    file: IndexFile


@dataclass(frozen=True, slots=True)
class AppliedChanges:
    """What applying changes wrote: messages to commit, and vectors that the driver folds into those of the table."""

    messages: tuple[CommitMessage, ...] = ()
    vectors: tuple[Vector, ...] = ()
    vector_files: tuple[VectorFile, ...] = ()
    deleted: int = 0
    updated: int = 0

    @classmethod
    def sum_of(cls, parts: Iterable[AppliedChanges]) -> AppliedChanges:
        """Return the sum of several results."""
        results = list(parts)
        return cls(
            tuple(message for part in results for message in part.messages),
            tuple(vector for part in results for vector in part.vectors),
            tuple(file for part in results for file in part.vector_files),
            sum(part.deleted for part in results),
            sum(part.updated for part in results),
        )

    def __add__(self, other: AppliedChanges) -> AppliedChanges:
        return AppliedChanges.sum_of((self, other))


# ---- The method of a change ------------------------------------------------------------------------------------------
# `apply` runs in a thread or on a worker. It applies one change after the other, so that only one of them is in
# memory, and what it returns is small. If it fails, it leaves no file behind.


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
    if store.options.data_evolution_enabled:
        return ChangeMethod.COLUMNS
    return ChangeMethod.VECTORS if store.options.deletion_vectors_enabled else ChangeMethod.COPY


# ---- Results ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UpdateResult(HtmlRepr):
    """What one delete, update, upsert or merge did to the table.

    If no row had to change there is no new snapshot. The counts are None if the rows of the table were not looked up:
    an upsert that writes whole rows into a primary-key table, or whose merge engine folds rows. `written`, `files` and
    `bytes` are those of the data files it wrote; deletes by deletion vectors write none.
    """

    snapshot_id: int | None  # None: nothing had to be changed
    deleted: int | None = 0
    updated: int | None = 0
    inserted: int | None = 0
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    partitions: int = 0  # that got, lost or changed rows
    method: str = ""  # how rows were changed: one of the texts of `dml.row_changes.ChangeMethod`
    attempts: int = 1  # how often the change was planned; more than once if others changed the same rows meanwhile
    written: int = 0  # rows in the data files, copied rows and rows that delete others included
    replayed: bool = False  # an earlier run of the same job made the snapshot; this run wrote nothing
    # Where the time went: `prepare` finds and changes rows, the rest are the stages of the commit.
    stages_ms: Mapping[str, float] = field(default_factory=dict, repr=False, compare=False)

    @property
    def rows(self) -> int | None:
        """How many rows were deleted, updated or inserted."""
        if self.deleted is None or self.updated is None or self.inserted is None:
            return None
        return self.deleted + self.updated + self.inserted

    @property
    def is_empty(self) -> bool:
        """Whether nothing had to be changed."""
        return self.snapshot_id is None


# ---- Prepared changes ------------------------------------------------------------------------------------------------
# newest snapshot -> prepare: find, decide, apply -> commit -> conflict? remove the files, start again
#
# Invariant: if no row has to change there is no snapshot; files of an attempt are removed only if it is
# certain that no snapshot names them; if it is unknown whether a commit was published, nothing is removed.


@dataclass(frozen=True, slots=True)
class PreparedChange:
    """One attempt at a change of rows, ready to be committed."""

    messages: tuple[CommitMessage, ...] = ()
    deleted: int = 0
    updated: int = 0
    inserted: int = 0
    method: str = ""
    unchanged: str | None = (
        None  # the guard: no other commit wrote rows to the "bucket", the "partition" or the "table" since
    )
    reads: tuple[str, ...] = ()  # the columns that conditions and expressions read
    counted: bool = True  # False: existing rows were not looked up, so the counts are unknown

    def planned_on(self, base: Snapshot | None) -> tuple[CommitMessage, ...]:
        """Return the messages with guards: they are committed only if what was read of the snapshot still holds."""
        return tuple(
            with_guards(message, base, unchanged=self.unchanged, reads=self.reads)
            for message in self.messages
            if not message.is_empty
        )


Prepare: TypeAlias = Callable[[Snapshot | None], PreparedChange]

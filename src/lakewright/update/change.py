"""The values of a row-level change: what changes in a group of files, and what workers return for the commit.

A group is a split with the files of one group of rows only (`read.splits.shares.part_of`). Positions count all rows of
the group in the order of its files, deleted rows included; they are ascending, and each occurs once. Everything here is
a plain value that travels between workers and the driver.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewright.commit.message.message import CommitMessage
from lakewright.metadata.store import TableStore
from lakewright.read.splits.split import DataSplit
from lakewright.spec.datafile import DataFile, IndexFile
from lakewright.spec.snapshot import Snapshot

Positions: TypeAlias = NDArray[np.int64]  # ascending, each once
Bucket: TypeAlias = tuple[bytes, int, int | None]  # the partition, the bucket's number, how many there are


def no_positions() -> Positions:
    """Return the positions of no rows."""
    return np.empty(0, dtype=np.int64)


def bucket_of(part: DataSplit) -> Bucket:
    """Return the bucket that a group lies in."""
    return part.partition_bytes, part.bucket, part.total_buckets


@dataclass(frozen=True, slots=True)
class GroupChange:
    """How the rows of one group change: some are deleted, some get new values in some columns."""

    part: DataSplit
    deleted: Positions = field(default_factory=no_positions)
    updated: Positions = field(default_factory=no_positions)  # none of them deleted
    values: pa.Table | None = None  # the assigned columns alone, in the table's types, a row for each of `updated`

    @property
    def is_empty(self) -> bool:
        """Whether no row changes."""
        return not len(self.deleted) and not len(self.updated)


def updated_rows(change: GroupChange, position: int, rows: int) -> Positions:
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


def _replace_at(column: pa.Array, at: Positions, values: pa.ChunkedArray) -> pa.Array:
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
class Applied:
    """What applying changes wrote: messages to commit, and vectors that the driver folds into those of the table."""

    messages: tuple[CommitMessage, ...] = ()
    vectors: tuple[Vector, ...] = ()
    vector_files: tuple[VectorFile, ...] = ()
    deleted: int = 0
    updated: int = 0

    @classmethod
    def joined(cls, parts: Iterable[Applied]) -> Applied:
        """Return the sum of several results."""
        results = list(parts)
        return cls(
            tuple(message for part in results for message in part.messages),
            tuple(vector for part in results for vector in part.vectors),
            tuple(file for part in results for file in part.vector_files),
            sum(part.deleted for part in results),
            sum(part.updated for part in results),
        )

    def __add__(self, other: Applied) -> Applied:
        return Applied.joined((self, other))

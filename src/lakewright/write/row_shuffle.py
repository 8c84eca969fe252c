"""Rows on their way to the task that writes their bucket.

The first half of a write in two steps. `send` takes rows in as a writer does (aligned, with their kinds, keys
checked) and puts rows that one writer must get into one group; the receiver of a group passes it to
`TableWriter.take`, which finds the buckets again by itself. Which rows form a group depends on the bucket mode:

    fixed buckets, or none     the rows of one bucket
    dynamic buckets            the rows of one assigner: a key always goes to the same one
    postponed, real buckets    the rows of one partition, whose number of buckets one writer decides
    keys across partitions     everything: where a key lives is known to one writer only

Rows keep their order inside a group, and groups are given in the order in which their rows arrived.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import pyarrow as pa

from lakewright.spec.bucket_hash import row_hashes
from lakewright.spec.manifest import EMPTY_ROW
from lakewright.spec.table_schema import BucketMode, TableSchema
from lakewright.write.bucket_assignment import BUCKETS_MAX, Assigner, channels_of
from lakewright.write.bucket_routing import HashRouter, Routing, RowGroup, group_rows, number_partitions, route
from lakewright.write.row_intake import GivenKinds
from lakewright.write.table_writer import WriteJob

INTAKE_BYTES = 4 << 20  # batches are aligned together, up to this much
STAGE_BYTES = 32 << 20  # and grouped together, up to this much

_Grouping: TypeAlias = Callable[[pa.Table], list[RowGroup]]


@dataclass(frozen=True, slots=True)
class ShuffleTargets:
    """How many writers receive groups of rows; they are numbered from 0.

    With dynamic buckets, the rows of each partition go to `assigners` of these writers.
    """

    count: int
    assigners: int = 1

    def assigner(self, number: int) -> Assigner:
        """Return which of the assigners of its partitions the writer with this number is."""
        return Assigner(number % self.assigners, self.assigners)

    def of(self, group: RowGroup, mode: BucketMode) -> int:
        """Return the number of the writer that receives a group."""
        match mode:
            case BucketMode.KEY_DYNAMIC:
                return 0
            case BucketMode.HASH_DYNAMIC:
                first = zlib.crc32(group.partition) % max(1, self.count // self.assigners) * self.assigners
                return first + group.bucket
            case _:
                return (zlib.crc32(group.partition) + group.bucket) % self.count


def receivers_for(job: WriteJob, *, writers: int, rows: int | None, assigners_max: int | None = None) -> ShuffleTargets:
    """Return how many of the available writers receive rows: not more than have work to do.

    Each assigner of dynamic buckets starts buckets of its own, so there are at most as many as the rows fill.
    """
    options, schema = job.store.options, job.store.schema
    match schema.bucket_mode:
        case BucketMode.KEY_DYNAMIC:
            return ShuffleTargets(1)
        case BucketMode.HASH_FIXED if not schema.partition_keys:
            return ShuffleTargets(max(1, min(writers, options.bucket)))
        case BucketMode.HASH_DYNAMIC:
            initial = options.dynamic_bucket_initial_buckets
            if initial is None and schema.partition_keys:
                initial = 1
            elif initial is None:
                bucket_rows = options.dynamic_bucket_target_row_num
                initial = writers if rows is None else min(writers, -(-rows // max(1, bucket_rows)))
            buckets_max = options.dynamic_bucket_max_buckets
            buckets_max = buckets_max if buckets_max > 0 else BUCKETS_MAX
            assigners = max(1, min(initial, assigners_max or BUCKETS_MAX, buckets_max))
            groups = max(1, writers // assigners) if schema.partition_keys else 1
            return ShuffleTargets(assigners * groups, assigners)
        case _:
            return ShuffleTargets(max(1, writers))


def send(
    batches: Iterable[pa.RecordBatch], job: WriteJob, receivers: ShuffleTargets, *, stage_bytes: int = STAGE_BYTES
) -> Iterator[RowGroup]:
    """Align and check the rows of one task, and yield them in groups for their writers, `stage_bytes` at a time."""
    intake, grouped = job.new_intake(), _grouping(job, receivers)
    stage: list[pa.Table] = []
    size = rows = 0
    for table in join_batches(batches, bytes_max=min(INTAKE_BYTES, stage_bytes)):
        stage.append(intake.take(table, None, first_row=rows))
        rows += table.num_rows
        size += stage[-1].nbytes
        if size >= stage_bytes:
            yield from grouped(pa.concat_tables(stage))
            stage, size = [], 0
    if stage:
        yield from grouped(pa.concat_tables(stage))


class Sender:
    """Takes rows with kinds as a writer of a primary-key table does, and returns them in groups for their writers."""

    def __init__(self, job: WriteJob, receivers: ShuffleTargets, *, stage_bytes: int = STAGE_BYTES) -> None:
        self._rows = job.new_intake()
        self._keys = replace(job, keys_only=True).new_intake()
        self._grouped = _grouping(job, receivers)
        self._table = job.store.name
        self._stage_bytes = stage_bytes
        self._stage: list[pa.Table] = []

    def write(self, data: pa.Table, *, row_kinds: pa.Array | None = None) -> int:
        """Take rows with their row kinds, and return how many there were."""
        given = None if row_kinds is None else GivenKinds(row_kinds, table=self._table)
        self._stage.append(self._rows.take(data, given, first_row=0))
        return len(data)

    def delete(self, keys: pa.Table) -> int:
        """Take the keys of rows to delete, and return how many there were."""
        self._stage.append(self._keys.take(keys, None, first_row=0))
        return len(keys)

    def groups(self, *, last: bool = False) -> list[RowGroup]:
        """Return the rows taken so far in groups, if they fill a stage or no more will follow (`last`)."""
        if not self._stage or not (last or sum(rows.nbytes for rows in self._stage) >= self._stage_bytes):
            return []
        rows = pa.concat_tables(self._stage)
        self._stage = []
        return self._grouped(rows)


def join_batches(batches: Iterable[pa.RecordBatch], *, bytes_max: int = INTAKE_BYTES) -> Iterator[pa.Table]:
    """Join small batches into tables, because aligning a batch has a fixed cost, however few rows it has."""
    parts: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        parts.append(batch)
        size += batch.nbytes
        if size >= bytes_max:
            yield pa.Table.from_batches(parts)
            parts, size = [], 0
    if parts:
        yield pa.Table.from_batches(parts)


def _grouping(job: WriteJob, receivers: ShuffleTargets) -> _Grouping:
    schema, name = job.store.schema, job.store.name
    match schema.bucket_mode:
        case BucketMode.KEY_DYNAMIC:
            return _together
        case BucketMode.HASH_DYNAMIC:
            return partial(_by_assigner, Routing(name, schema.partition_fields), schema, receivers.assigners)
        case BucketMode.POSTPONE:
            return partial(route, routing=Routing(name, schema.partition_fields))
        case BucketMode.UNAWARE | BucketMode.HASH_FIXED:
            return HashRouter(schema, table=name).route


def _together(rows: pa.Table) -> list[RowGroup]:
    return [RowGroup(EMPTY_ROW, 0, rows)]


def _by_assigner(routing: Routing, schema: TableSchema, assigners: int, rows: pa.Table) -> list[RowGroup]:
    """Group rows by partition, and by the assigner of their key."""
    if assigners == 1:
        return route(rows, routing)
    key = schema.trimmed_primary_key_fields
    hashes = row_hashes([rows.column(field.name) for field in key], [field.type for field in key])
    numbers = channels_of(0, hashes, channels=assigners, assigners=assigners)
    return group_rows(rows, routing, number_partitions(rows, routing), numbers)

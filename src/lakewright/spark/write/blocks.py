"""Arrow blocks: groups of rows in, a few binary rows that Spark can shuffle out, and the rows again at the other end.

Spark shuffles rows one by one, which is slow; here the rows of one group become Arrow messages of about as many bytes
as a batch of blocks allows. A block says which task gets it (`target`), to which bucket its rows belong (`place`), and
where they were in the frame (`task`, `chunk`): sorted by these, the rows of a place come together, in the order of the
frame.

An error of ours on the sending side travels as a block too, to receiver 0 and before all others: what is wrong with
the input stays wrong at every retry, so the task itself must not fail.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count, groupby
from operator import itemgetter
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from lakewright.distributed.faults import error_from_text, error_to_text, is_transient
from lakewright.errors import LakewrightError
from lakewright.spec.schema.table_schema import BucketMode
from lakewright.write.buckets.routing import Group
from lakewright.write.shuffle import Receivers, send
from lakewright.write.writer import WriteJob

BLOCKS_SQL = "target int, place binary, task int, chunk int, blob binary"
BLOCKS_ORDER = ("place", "task", "chunk")
_BLOCKS = pa.schema(
    {"target": pa.int32(), "place": pa.binary(), "task": pa.int32(), "chunk": pa.int32(), "blob": pa.binary()}
)
_BUCKET = struct.Struct(">i")
_ERROR = b""  # the place of errors: places of rows are never empty, so they sort behind it
_BEFORE_ROWS = -1  # the task of blocks that come before those of rows
_NO_ROWS = pa.table({})
_TASKS_MAX = 1 << 24
_PACKED_BYTES = 64 << 20  # so much of blocks goes to Spark at a time


# The rows of one task in, ranks and the groups of each out.
GroupMaker: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterable[tuple[int, Iterable[Group]]]]


class RowWriter(Protocol):
    """What writes the rows of blocks."""

    @property
    def held_bytes(self) -> int:
        """How many bytes wait in memory to be written."""

    def flush(self) -> None:
        """Write what waits: no more rows of these buckets are expected."""

    def take(self, rows: pa.Table) -> None:
        """Take rows that an intake let in already."""


@dataclass(frozen=True, slots=True)
class _Block:
    target: int
    place: bytes
    chunk: int
    blob: pa.Buffer


def sending(
    job: WriteJob, receivers: Receivers, *, block_bytes: int, make_groups: GroupMaker | None = None
) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Return what a task does with the rows of the frame: it makes blocks of them, of about so many bytes.

    `make_groups` replaces that: it yields groups of rows that were checked already, by rank. Rows of a
    higher rank come after those of a lower one, whichever task has made them; each rank is given once.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        try:
            for rank, groups in [(0, send(batches, job, receivers))] if make_groups is None else make_groups(batches):
                yield from _packed(_blocks(groups, receivers, job, block_bytes), task + rank * _TASKS_MAX)
        except LakewrightError as error:
            if is_transient(error):
                raise
            yield _batch([_Block(0, _ERROR, 0, pa.py_buffer(error_to_text(error).encode()))], task)

    return run


def blocks_of_values(values: Iterable[tuple[bytes, int, bytes]], receivers: Receivers) -> pa.Table:
    """Return values that come before the rows of their buckets: each with partition, bucket and bytes."""
    mode = BucketMode.HASH_FIXED
    blocks = [
        _Block(
            receivers.of(Group(partition, bucket, _NO_ROWS), mode), _place(partition, bucket), at, pa.py_buffer(data)
        )
        for at, (partition, bucket, data) in enumerate(values)
    ]
    return pa.Table.from_batches([_batch(blocks, _BEFORE_ROWS)])


def by_place(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, list[pa.Buffer], list[pa.Buffer]]]:
    """Yield one bucket after the other: its number, the blocks of values, then those of rows, both in their order."""
    for place, found in groupby(_flat(batches), key=itemgetter(0)):
        blocks = list(found)
        if place == _ERROR:
            raise error_from_text(blocks[0][2].to_pybytes().decode())
        values = [blob for _, task, blob in blocks if task == _BEFORE_ROWS]
        yield _bucket_of(place), values, [blob for _, task, blob in blocks if task != _BEFORE_ROWS]


def _flat(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[bytes, int, pa.Buffer]]:
    for batch in batches:
        places, tasks, blobs = (batch.column(name) for name in ("place", "task", "blob"))
        for at, (place, task) in enumerate(zip(places.to_pylist(), tasks.to_pylist(), strict=True)):
            yield place, task, blobs[at].as_buffer()


def receive(batches: Iterable[pa.RecordBatch], writer: RowWriter, schema: pa.Schema, *, flush_bytes: int) -> None:
    """Hand the rows of sorted blocks to a writer, and have it write what is complete once it holds so many bytes."""
    last: bytes | None = None
    for batch in batches:
        places, blobs = batch.column("place").to_pylist(), batch.column("blob")
        for place, indexes in groupby(range(len(places)), places.__getitem__):
            numbers = list(indexes)
            if place == _ERROR:
                raise error_from_text(blobs[numbers[0]].as_py().decode())
            if place != last and writer.held_bytes >= flush_bytes:
                writer.flush()
            last = place
            rows = [pa.ipc.read_record_batch(blobs[number].as_buffer(), schema) for number in numbers]
            writer.take(pa.Table.from_batches(rows, schema))


def _blocks(groups: Iterable[Group], receivers: Receivers, job: WriteJob, block_bytes: int) -> Iterator[_Block]:
    mode, chunks = job.store.schema.bucket_mode, count()
    for group in groups:
        target = receivers.of(group, mode)
        place = _place(group.partition, group.bucket)
        rows = group.rows
        step = max(1, rows.num_rows * block_bytes // max(1, rows.nbytes))
        for part in rows.combine_chunks().to_batches(max_chunksize=step):
            yield _Block(target, place, next(chunks), part.serialize())


def _place(partition: bytes, bucket: int) -> bytes:
    return partition + _BUCKET.pack(bucket)


def _bucket_of(place: bytes) -> int:
    bucket: int = _BUCKET.unpack_from(place, len(place) - _BUCKET.size)[0]
    return bucket


def _packed(blocks: Iterable[_Block], task: int) -> Iterator[pa.RecordBatch]:
    """Put blocks together into batches for Spark."""
    waiting: list[_Block] = []
    size = 0
    for block in blocks:
        waiting.append(block)
        size += block.blob.size
        if size >= _PACKED_BYTES:
            yield _batch(waiting, task)
            waiting, size = [], 0
    if waiting:
        yield _batch(waiting, task)


def _batch(blocks: list[_Block], task: int) -> pa.RecordBatch:
    ends = np.zeros(len(blocks) + 1, np.int32)
    np.cumsum([block.blob.size for block in blocks], out=ends[1:])
    data = pa.py_buffer(b"".join([block.blob for block in blocks]))
    return pa.RecordBatch.from_arrays(
        [
            pa.array([block.target for block in blocks], pa.int32()),
            pa.array([block.place for block in blocks], pa.binary()),
            pa.array(np.full(len(blocks), task, np.int32)),
            pa.array([block.chunk for block in blocks], pa.int32()),
            pa.Array.from_buffers(pa.binary(), len(blocks), [None, pa.py_buffer(ends), data]),
        ],
        schema=_BLOCKS,
    )

"""Rows of a frame to the task that writes their bucket."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count, groupby
from operator import itemgetter
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from lakewright.dml.change_tasks import CountingWriter
from lakewright.dml.distributed_write import SINGLE_WRITER_MODES, with_one_thread, with_shared_buckets
from lakewright.engine.engine import TaskId, TaskResult
from lakewright.engine.engine_job import error_from_text, error_to_text, is_transient
from lakewright.errors import InvalidInputError, LakewrightError
from lakewright.spark.frame_operations import TaskFunction, map_tasks, rebalance, repartition_by_task
from lakewright.spark.spark_engine import BATCH_BYTES, ROWS_PER_BATCH, Task, batch_rows, parallelism, size_of
from lakewright.spec.option_values import WriteDistribution
from lakewright.spec.table_options import TableOptions
from lakewright.spec.table_schema import BucketMode
from lakewright.write.bucket_routing import RowGroup
from lakewright.write.row_shuffle import ShuffleTargets, join_batches, receivers_for, send
from lakewright.write.table_writer import WriteJob

# ---- Blocks of rows --------------------------------------------------------------------------------------------------
# Spark shuffles rows one by one, which is slow; here the rows of one group become Arrow messages of about as many
# bytes as a batch of blocks allows. A block says which task gets it (`target`), to which bucket its rows belong
# (`place`), and where they were in the frame (`task`, `chunk`): sorted by these, the rows of a place come together,
# in the order of the frame.
#
# An error of ours on the sending side travels as a block too, to receiver 0 and before all others: what is wrong with
# the input stays wrong at every retry, so the task itself must not fail.

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
GroupMaker: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterable[tuple[int, Iterable[RowGroup]]]]


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
    job: WriteJob, receivers: ShuffleTargets, *, block_bytes: int, make_groups: GroupMaker | None = None
) -> TaskFunction:
    """Return what a task does with the rows of the frame: it makes blocks of them, of about so many bytes.

    `make_groups` replaces that: it yields groups of rows that were checked already, by rank. Rows of a
    higher rank come after those of a lower one, whichever task has made them; each rank is given once.
    """

    def run(this: TaskId, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = this.number
        try:
            for rank, groups in [(0, send(batches, job, receivers))] if make_groups is None else make_groups(batches):
                yield from _pack_blocks(_blocks(groups, receivers, job, block_bytes), task + rank * _TASKS_MAX)
        except LakewrightError as error:
            if is_transient(error):
                raise
            yield _batch([_Block(0, _ERROR, 0, pa.py_buffer(error_to_text(error).encode()))], task)

    return run


def blocks_of_values(values: Iterable[tuple[bytes, int, bytes]], receivers: ShuffleTargets) -> pa.Table:
    """Return values that come before the rows of their buckets: each with partition, bucket and bytes."""
    mode = BucketMode.HASH_FIXED
    blocks = [
        _Block(
            receivers.of(RowGroup(partition, bucket, _NO_ROWS), mode), _place(partition, bucket), at, pa.py_buffer(data)
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


def _blocks(groups: Iterable[RowGroup], receivers: ShuffleTargets, job: WriteJob, block_bytes: int) -> Iterator[_Block]:
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


def _pack_blocks(blocks: Iterable[_Block], task: int) -> Iterator[pa.RecordBatch]:
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


# ---- Rows to tasks ---------------------------------------------------------------------------------------------------
# There are two ways. Either every task writes the rows it has, in place. Or rows travel as Arrow blocks to the one
# task that writes their bucket, which gets them bucket by bucket, in the order of the frame; so it needs memory for
# one bucket only, and a bucket that is larger than that spills.
#
#     append table without buckets     in place; distribution = partition: as blocks, a large partition to many tasks
#     fixed buckets                    as blocks; with distribution = none in place: each task adds files to each bucket
#     dynamic buckets                  as blocks, to the assigner of the key
#     keys across partitions           as blocks, to one task
#     postponed buckets                in place; as blocks where rows go to real buckets
#
# Invariant: where one frame has a key twice, the later row wins. In place, later tasks number their rows higher
# (`WriteJob.sequence_stride`); blocks are put into the order of the tasks that sent them.

_TASK_BYTES = 64 << 20  # that are worth a task of their own
_BLOCKS_MAX = 1024  # in a batch on its way to a worker
_BLOCKS_WAYS = {
    BucketMode.KEY_DYNAMIC: "as blocks to one task, which knows where each key lives",
    BucketMode.HASH_DYNAMIC: "as blocks to {}, by the assigner of the key",
    BucketMode.HASH_FIXED: "as blocks to {}, by bucket",
    BucketMode.POSTPONE: "as blocks to {}, by partition",
}


@dataclass(frozen=True, slots=True)
class ClusteredFrame:
    """A frame whose tasks can write, and what they do."""

    frame: DataFrame
    task: Task
    method: str  # in one sentence
    settings: Mapping[str, str] = field(default_factory=dict)


def cluster(df: DataFrame, job: WriteJob, *, concurrency: int | None, distribution: str | None) -> ClusteredFrame:
    """Return a frame that holds the same rows in the tasks that write them.

    `concurrency` is the largest number of tasks that write, `distribution` overrides the table's own
    `lakewright.write-distribution`.
    """
    job = with_one_thread(job)
    chosen = check_distribution(job, distribution)
    mode, schema = job.store.schema.bucket_mode, job.store.schema
    match mode:
        case BucketMode.UNAWARE if chosen is WriteDistribution.PARTITION and schema.partition_keys:
            return _by_partition(df, job, concurrency)
        case BucketMode.UNAWARE:
            return _in_place(df, job, concurrency, "in place: rows of this table may be in any file")
        # With fewer tasks than the frame has partitions the order of rows is lost, which decides between rows of a key.
        case BucketMode.HASH_FIXED if chosen is WriteDistribution.NONE and not (concurrency and schema.primary_keys):
            return _in_place(
                df, with_shared_buckets(job), concurrency, "in place as asked: each task adds files to each bucket"
            )
        case BucketMode.POSTPONE if not job.real_buckets and chosen is not WriteDistribution.PARTITION:
            return _in_place(df, job, concurrency, "in place: the rows wait for their buckets")
        case _:
            receivers = receivers_of(df, job, concurrency)
            way = _BLOCKS_WAYS[mode].format("1 task" if receivers.count == 1 else f"{receivers.count} tasks")
            return _as_blocks(df, job, receivers, way)


def cluster_made(
    df: DataFrame,
    job: WriteJob,
    group_maker: Callable[[ShuffleTargets], GroupMaker],
    *,
    like: DataFrame,
    concurrency: int | None = None,
) -> ClusteredFrame:
    """Return a frame that holds, in the tasks that write them, the rows which tasks of a frame make.

    The table has a primary key, and the rows are about as many as those of the frame `like`. `group_maker` returns what
    makes the rows in a task, as groups for so many receivers. The payload of a task begins with how many rows of each
    kind it got.
    """
    job = with_one_thread(job)
    receivers = receivers_of(like, job, concurrency)
    clustered = _as_blocks(df, job, receivers, "as blocks", group_maker(receivers))
    return replace(clustered, task=_receiving(job, receivers, counts=True))


def receivers_of(df: DataFrame, job: WriteJob, concurrency: int | None) -> ShuffleTargets:
    """Return who takes the blocks of a frame."""
    mode = job.store.schema.bucket_mode
    if mode is BucketMode.KEY_DYNAMIC:
        return ShuffleTargets(1)
    writers = _writers(df, job, concurrency)
    if mode is BucketMode.HASH_DYNAMIC:
        return receivers_for(job, writers=writers, rows=_rows(df), assigners_max=concurrency)
    return ShuffleTargets(writers)


def check_distribution(job: WriteJob, distribution: str | None) -> WriteDistribution:
    """Return the distribution that the caller or the table asks for; refuse one that the table cannot be written in."""
    option = TableOptions.lakewright_write_distribution
    if distribution is not None and not isinstance(distribution, str):
        raise InvalidInputError(f"distribution takes {option.kind.allowed}, not {distribution!r}")
    chosen = job.store.options.lakewright_write_distribution if distribution is None else option.parse(distribution)
    dynamic = job.store.schema.bucket_mode in SINGLE_WRITER_MODES
    if distribution is not None and chosen is WriteDistribution.NONE and (dynamic or job.real_buckets):
        raise InvalidInputError(
            f"{job.store.name}: where the rows of this table go is decided while they are written, so those of one key "
            "must come together; leave the distribution out, or make a table with a fixed number of buckets",
            table=job.store.name,
            distribution=distribution,
        )
    return chosen


# ---- how many tasks --------------------------------------------------------------------------------------------------


def _writers(df: DataFrame, job: WriteJob, concurrency: int | None) -> int:
    """Return how many tasks share the buckets: not more than there are buckets, or than the size of the frame needs."""
    size, most = size_of(df), 2 * parallelism(df.sparkSession)
    if size is not None:
        most = max(min(most, -(-size // _TASK_BYTES)), size // (16 * _TASK_BYTES), 1)
    schema = job.store.schema
    if schema.bucket_mode is BucketMode.HASH_FIXED and not schema.partition_keys:
        most = min(most, job.store.options.bucket)
    return max(1, most if concurrency is None else min(most, concurrency))


def _rows(df: DataFrame) -> int | None:
    """Return about how many rows the frame has, as far as Spark can tell."""
    size = size_of(df)
    return None if size is None else size // (8 + 8 * len(df.columns))


# ---- the ways --------------------------------------------------------------------------------------------------------


def _in_place(df: DataFrame, job: WriteJob, concurrency: int | None, way: str) -> ClusteredFrame:
    def task(this: TaskId, batches: Iterator[pa.RecordBatch]) -> TaskResult:
        with job.open_writer(this.number, this.attempt) as writer:
            for rows in join_batches(batches):
                writer.write(rows)
            return TaskResult(writer.prepare())

    return ClusteredFrame(df if concurrency is None else df.coalesce(concurrency), task, way)


def _as_blocks(
    df: DataFrame, job: WriteJob, receivers: ShuffleTargets, way: str, make_groups: GroupMaker | None = None
) -> ClusteredFrame:
    blocks, settings = blocks_of(df, job, receivers, make_groups)
    frame = repartition_by_task(blocks, receivers.count, "target", *BLOCKS_ORDER)
    return ClusteredFrame(frame, _receiving(job, receivers), way, settings)


def _by_partition(df: DataFrame, job: WriteJob, concurrency: int | None) -> ClusteredFrame:
    """Bring the blocks of a partition together; Spark gives a large one to several tasks, and small ones to one."""
    receivers = ShuffleTargets(1)  # the target is not looked at
    blocks, settings = blocks_of(df, job, receivers)
    frame = rebalance(blocks, "place")
    frame = frame if concurrency is None else frame.coalesce(concurrency)
    way = "as blocks, by partition; a large partition goes to several tasks"
    return ClusteredFrame(frame.sortWithinPartitions(*BLOCKS_ORDER), _receiving(job, receivers), way, settings)


def blocks_of(
    df: DataFrame, job: WriteJob, receivers: ShuffleTargets, make_groups: GroupMaker | None = None
) -> tuple[DataFrame, dict[str, str]]:
    """Return the frame as blocks, and the settings under which they travel.

    One setting holds for rows and for blocks, so the size of blocks follows from how many rows make a batch.
    """
    records = min(batch_rows(df.schema), _BLOCKS_MAX)
    send = sending(job, receivers, block_bytes=BATCH_BYTES // records, make_groups=make_groups)
    return map_tasks(df, send, BLOCKS_SQL), {ROWS_PER_BATCH: str(records)}


def _receiving(job: WriteJob, receivers: ShuffleTargets, *, counts: bool = False) -> Task:
    flush_bytes = max(1 << 20, job.store.options.write_buffer_size) // 4

    def task(this: TaskId, batches: Iterator[pa.RecordBatch]) -> TaskResult:
        with job.open_writer(this.number, this.attempt, assigner=receivers.assigner(this.number)) as writer:
            counting = CountingWriter(writer)
            schema = job.new_intake().schema
            receive(batches, counting if counts else writer, schema, flush_bytes=flush_bytes)
            return counting.finish() if counts else TaskResult(writer.prepare())

    return task

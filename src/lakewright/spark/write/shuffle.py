"""How the rows of a frame reach the task that writes their bucket: a frame and a write in, a frame and a task out.

There are two ways. Either every task writes the rows it has, in place. Or rows travel as Arrow blocks to the one task
that writes their bucket, which gets them bucket by bucket, in the order of the frame; so it needs memory for one bucket
only, and a bucket that is larger than that spills.

    append table without buckets     in place; with distribution = partition as blocks, a large partition to many tasks
    fixed buckets                    as blocks; with distribution = none in place: each task adds files to each bucket
    dynamic buckets                  as blocks, to the assigner of the key
    keys across partitions           as blocks, to one task
    postponed buckets                in place; as blocks where rows go to real buckets

Always holds: where one frame has a key twice, the later row wins. In place, later tasks number their rows higher
(`WriteJob.sequence_stride`); blocks are put into the order of the tasks that sent them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import DataFrame

from lakewright.distributed.job import TaskId
from lakewright.distributed.messages import pack
from lakewright.distributed.rows.merge import CountingWriter
from lakewright.distributed.write_job import ONE_WRITER, sharing_buckets, single_threaded
from lakewright.errors import InvalidInputError
from lakewright.spark.jobs.estimate import parallelism, size_of
from lakewright.spark.jobs.frames import placed, rebalanced
from lakewright.spark.jobs.run import BATCH_BYTES, ROWS_PER_BATCH, Task, batch_rows
from lakewright.spark.jobs.session import map_in_arrow
from lakewright.spark.write.blocks import BLOCKS_ORDER, BLOCKS_SQL, GroupMaker, receive, sending
from lakewright.spec.options import CoreOptions, WriteDistribution
from lakewright.spec.schema.table_schema import BucketMode
from lakewright.write.shuffle import Receivers, joined, receivers_for
from lakewright.write.writer import WriteJob

_TASK_BYTES = 64 << 20  # that are worth a task of their own
_BLOCKS_MAX = 1024  # in a batch on its way to a worker
_BLOCKS_WAYS = {
    BucketMode.KEY_DYNAMIC: "as blocks to one task, which knows where each key lives",
    BucketMode.HASH_DYNAMIC: "as blocks to {}, by the assigner of the key",
    BucketMode.HASH_FIXED: "as blocks to {}, by bucket",
    BucketMode.POSTPONE: "as blocks to {}, by partition",
}


@dataclass(frozen=True, slots=True)
class Clustered:
    """A frame whose tasks can write, and what they do."""

    frame: DataFrame
    task: Task
    way: str  # in one sentence
    settings: Mapping[str, str] = field(default_factory=dict)


def cluster(df: DataFrame, job: WriteJob, *, concurrency: int | None, distribution: str | None) -> Clustered:
    """Return a frame that holds the same rows in the tasks that write them.

    `concurrency` is the largest number of tasks that write, `distribution` overrides the table's own
    `lakewright.write-distribution`.
    """
    job = single_threaded(job)
    chosen = check_distribution(job, distribution)
    mode, schema = job.store.schema.bucket_mode, job.store.schema
    match mode:
        case BucketMode.UNAWARE if chosen is WriteDistribution.PARTITION and schema.partition_keys:
            return _by_partition(df, job, concurrency)
        case BucketMode.UNAWARE:
            return _in_place(df, job, concurrency, "in place: rows of this table may lie in any file")
        # With fewer tasks than the frame has partitions the order of rows is lost, which decides between rows of a key.
        case BucketMode.HASH_FIXED if chosen is WriteDistribution.NONE and not (concurrency and schema.primary_keys):
            return _in_place(
                df, sharing_buckets(job), concurrency, "in place as asked: each task adds files to each bucket"
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
    group_maker: Callable[[Receivers], GroupMaker],
    *,
    like: DataFrame,
    concurrency: int | None = None,
) -> Clustered:
    """Return a frame that holds, in the tasks that write them, the rows which tasks of a frame make.

    The table has a primary key, and the rows are about as many as those of the frame `like`. `group_maker` returns what
    makes the rows in a task, as groups for so many receivers. The payload of a task begins with how many rows of each
    kind it got.
    """
    job = single_threaded(job)
    receivers = receivers_of(like, job, concurrency)
    clustered = _as_blocks(df, job, receivers, "as blocks", group_maker(receivers))
    return replace(clustered, task=_receiving(job, receivers, counts=True))


def receivers_of(df: DataFrame, job: WriteJob, concurrency: int | None) -> Receivers:
    """Return who takes the blocks of a frame."""
    mode = job.store.schema.bucket_mode
    if mode is BucketMode.KEY_DYNAMIC:
        return Receivers(1)
    writers = _writers(df, job, concurrency)
    if mode is BucketMode.HASH_DYNAMIC:
        return receivers_for(job, writers=writers, rows=_rows(df), assigners_max=concurrency)
    return Receivers(writers)


def check_distribution(job: WriteJob, distribution: str | None) -> WriteDistribution:
    """Return the distribution that the caller or the table asks for; refuse one that the table cannot be written in."""
    option = CoreOptions.LAKEWRIGHT_WRITE_DISTRIBUTION
    if distribution is not None and not isinstance(distribution, str):
        raise InvalidInputError(f"distribution takes {option.kind.allowed}, not {distribution!r}")
    chosen = job.store.options.get(option) if distribution is None else option.parse(distribution)
    dynamic = job.store.schema.bucket_mode in ONE_WRITER
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
        most = min(most, job.store.options.bucket())
    return max(1, most if concurrency is None else min(most, concurrency))


def _rows(df: DataFrame) -> int | None:
    """Return about how many rows the frame has, as far as Spark can tell."""
    size = size_of(df)
    return None if size is None else size // (8 + 8 * len(df.columns))


# ---- the ways --------------------------------------------------------------------------------------------------------


def _in_place(df: DataFrame, job: WriteJob, concurrency: int | None, way: str) -> Clustered:
    def task(this: TaskId, batches: Iterator[pa.RecordBatch]) -> bytes:
        with job.open_writer(this.number, this.attempt) as writer:
            for rows in joined(batches):
                writer.write(rows)
            return pack(writer.prepare())

    return Clustered(df if concurrency is None else df.coalesce(concurrency), task, way)


def _as_blocks(
    df: DataFrame, job: WriteJob, receivers: Receivers, way: str, make_groups: GroupMaker | None = None
) -> Clustered:
    blocks, settings = blocks_of(df, job, receivers, make_groups)
    frame = placed(blocks, receivers.count, "target").sortWithinPartitions(*BLOCKS_ORDER)
    return Clustered(frame, _receiving(job, receivers), way, settings)


def _by_partition(df: DataFrame, job: WriteJob, concurrency: int | None) -> Clustered:
    """Bring the blocks of a partition together; Spark gives a large one to several tasks, and small ones to one."""
    receivers = Receivers(1)  # the target is not looked at
    blocks, settings = blocks_of(df, job, receivers)
    frame = rebalanced(blocks, "place")
    frame = frame if concurrency is None else frame.coalesce(concurrency)
    way = "as blocks, by partition; a large partition goes to several tasks"
    return Clustered(frame.sortWithinPartitions(*BLOCKS_ORDER), _receiving(job, receivers), way, settings)


def blocks_of(
    df: DataFrame, job: WriteJob, receivers: Receivers, make_groups: GroupMaker | None = None
) -> tuple[DataFrame, dict[str, str]]:
    """Return the frame as blocks, and the settings under which they travel.

    One setting holds for rows and for blocks, so the size of blocks follows from how many rows make a batch.
    """
    records = min(batch_rows(df.schema), _BLOCKS_MAX)
    send = sending(job, receivers, block_bytes=BATCH_BYTES // records, make_groups=make_groups)
    return map_in_arrow(df, send, BLOCKS_SQL), {ROWS_PER_BATCH: str(records)}


def _receiving(job: WriteJob, receivers: Receivers, *, counts: bool = False) -> Task:
    flush_bytes = max(1 << 20, job.store.options.get(CoreOptions.WRITE_BUFFER_SIZE)) // 4

    def task(this: TaskId, batches: Iterator[pa.RecordBatch]) -> bytes:
        with job.open_writer(this.number, this.attempt, assigner=receivers.assigner(this.number)) as writer:
            counted = CountingWriter(writer)
            schema = job.new_intake().schema
            receive(batches, counted if counts else writer, schema, flush_bytes=flush_bytes)
            messages = pack(writer.prepare())
            return counted.packed() + messages if counts else messages

    return task

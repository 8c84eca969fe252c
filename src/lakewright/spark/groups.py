"""Changes of groups of files on Spark's workers: groups and a decision in, what the workers made of them out.

A task takes some groups, finds the rows that change, and applies what becomes of them before it takes the next, so
rows never travel. Deletion vectors are put into index files by the workers: what comes home is as small as the number
of files. If the job fails, everything that carries the id of the write is removed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from lakewright.commit.message import CommitMessage
from lakewright.distributed import pack, unpack
from lakewright.read.shares import shares
from lakewright.read.split import DataSplit
from lakewright.spark.cleanup import clean_up, remove_losers
from lakewright.spark.estimate import parallelism
from lakewright.spark.jobs import Task, TaskId, run_job
from lakewright.spec.datafile import DELETION_VECTORS
from lakewright.update import ways
from lakewright.update.change import Applied, Bucket, ChangeJob, GroupChange, Vector, VectorFile
from lakewright.update.run import Decide, RunGroups
from lakewright.update.vectors import store_vectors

Changes = Callable[[Iterator[pa.RecordBatch]], Iterable[GroupChange]]  # from the rows that a task gets

_COUNTS = struct.Struct(">qq")  # rows deleted and updated


def changing_on(spark: SparkSession) -> RunGroups:
    """Return how groups are changed by the workers of a session."""
    return partial(_run, spark)


def _run(spark: SparkSession, job: ChangeJob, parts: Sequence[DataSplit], decide: Decide) -> Sequence[Applied]:
    found = shares(job.store, parts, at_least=parallelism(spark)) if parts else []
    if not found:
        return []
    rows = [(number, [bytearray(part.serialize()) for part in share]) for number, share in enumerate(found)]
    frame = spark.createDataFrame(rows, "number int, parts array<binary>").repartitionById(len(rows), F.col("number"))
    return apply_on(spark, frame, job, partial(_decided, decide))


def _decided(decide: Decide, batches: Iterator[pa.RecordBatch]) -> Iterator[GroupChange]:
    for batch in batches:
        for data in batch.column("parts").values.to_pylist():
            change = decide(DataSplit.deserialize(data))
            if change is not None and not change.is_empty:
                yield change


def apply_on(spark: SparkSession, frame: DataFrame, job: ChangeJob, changes: Changes) -> list[Applied]:
    """Have the tasks of a frame apply the changes that they make of its rows."""
    what = f"change rows of {job.store.name}"
    try:
        done = run_job(frame, _task(job, changes), group=job.write_id, description=what)
        applied = [_unpacked(job, one.payload) for one in done]
    except BaseException:
        clean_up(spark, job.store, job.write_id)
        raise
    messages = [message for some in applied for message in _messages(job, some)]
    remove_losers(spark, job.store, job.write_id, done, messages)
    return applied


def _task(job: ChangeJob, changes: Changes) -> Task:
    def run(this: TaskId, batches: Iterator[pa.RecordBatch]) -> bytes:
        applied = ways.apply(job, changes(batches), this.number, this.attempt)
        return _packed(job, store_vectors(job, applied, this.number, this.attempt))

    return run


def _packed(job: ChangeJob, applied: Applied) -> bytes:
    return _COUNTS.pack(applied.deleted, applied.updated) + pack(_messages(job, applied))


def _messages(job: ChangeJob, applied: Applied) -> list[CommitMessage]:
    """Return what a task made as messages; its vectors are those with index files."""
    stored = (job.message(found.bucket, new_index_files=(found.file,)) for found in applied.vector_files)
    return [*applied.messages, *stored]


def _unpacked(job: ChangeJob, payload: bytes) -> Applied:
    """Return what a task brought home; files that leave the table take their vectors with them."""
    deleted, updated = _COUNTS.unpack_from(payload)
    messages = unpack(payload[_COUNTS.size :])
    plain = tuple(message for message in messages if not message.new_index_files)
    files = tuple(VectorFile(_bucket(m), file) for m in messages for file in m.new_index_files)
    manifest = job.snapshot.index_manifest
    index = job.store.manifests.read_index(manifest) if manifest and any(m.deleted_files for m in plain) else []
    masked = {
        (entry.partition, entry.bucket, found.data_file)
        for entry in index
        if entry.file.index_type == DELETION_VECTORS
        for found in entry.file.deletion_ranges or ()
    }
    gone = tuple(
        Vector(_bucket(m), file.file_name, 0, None)
        for m in plain
        for file in m.deleted_files
        if (m.partition_bytes, m.bucket, file.file_name) in masked
    )
    return Applied(plain, gone, files, deleted, updated)


def _bucket(message: CommitMessage) -> Bucket:
    return message.partition_bytes, message.bucket, message.total_buckets

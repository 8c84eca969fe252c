"""Deletes and updates of primary-key tables on an engine's workers: a change and splits in, messages and counts out.

A task takes whole buckets: it reads their merged rows with the core's own reader and writes the changed rows into the
same buckets, since no change moves a key. So rows never travel and keep their types, and a bucket gets one sorted run,
as from an embedded change. If the job fails, every file with its write id is removed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from lakewright.distributed.job import Answers, Job, TaskId, Work, Workers, prepare_job
from lakewright.distributed.messages import pack, verified_messages
from lakewright.distributed.rows.groups import description
from lakewright.distributed.write_job import single_threaded
from lakewright.metadata.store import TableStore
from lakewright.read.splits.shares import Share, bucket_shares
from lakewright.read.splits.split import DataSplit
from lakewright.spec.options import CoreOptions
from lakewright.spec.schema.table_schema import BucketMode
from lakewright.update.primary_key import KeyedChange, RunBuckets
from lakewright.update.run import Prepared

_COUNTS = struct.Struct(">qqq")  # rows deleted, updated and inserted


def buckets_on(workers: Workers[Work]) -> RunBuckets:
    """Return a function that changes buckets of a primary-key table on the workers of an engine."""
    return partial(_run, workers)


def _run(workers: Workers[Work], change: KeyedChange, splits: Sequence[DataSplit]) -> list[Prepared]:
    store, write_id = change.store, change.job.write_id
    shipped = replace(change, store=one_reader(store), job=single_threaded(change.job))
    blobs = [[split.serialize() for split in share] for share in _shares(store, splits, workers.tasks_at_once)]
    work = workers.share_out(blobs, partial(_apply, shipped), description=description(store))
    return [prepare_job(workers, Job(store, write_id, work), partial(_verify, change))]


def _verify(change: KeyedChange, answers: Answers) -> Prepared:
    messages = verified_messages(change.job, map(_body, answers.payloads))
    deleted, updated, inserted = map(sum, zip(*map(_counts, answers.payloads), strict=True))
    return Prepared(tuple(messages), deleted, updated, inserted)


def _shares(store: TableStore, splits: Sequence[DataSplit], at_least: int) -> list[Share]:
    # If a key may be in any partition, one writer must write all of them.
    if store.schema.bucket_mode is BucketMode.KEY_DYNAMIC:
        return [tuple(splits)]
    return bucket_shares(store, splits, at_least=at_least)


def _apply(change: KeyedChange, this: TaskId, blobs: Iterator[bytes]) -> bytes:
    """Change the rows of one share of splits, on a worker."""
    return _pack_counts(change.apply([DataSplit.deserialize(blob) for blob in blobs], this.number, this.attempt))


def _pack_counts(made: Prepared) -> bytes:
    return _COUNTS.pack(made.deleted, made.updated, made.inserted) + pack(made.messages)


def _counts(payload: bytes) -> tuple[int, ...]:
    return _COUNTS.unpack_from(payload)


def _body(payload: bytes) -> bytes:
    return payload[_COUNTS.size :]


def one_reader(store: TableStore) -> TableStore:
    """Return the table with one thread per read, unless its options set another number: tasks use all cores already."""
    option = CoreOptions.LAKEWRIGHT_READ_THREADS.key()
    given = {option, CoreOptions.READ_PARALLELISM.key()} & store.schema.options.keys()
    return store if given else store.with_schema(store.schema.with_options({option: "1"}))

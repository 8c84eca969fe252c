"""Rows and values counted by an engine's workers: splits in, one count of all of them out. Nothing is written."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from functools import partial

from lakewright.distributed.job import Job, TaskId, Work, Workers
from lakewright.maintenance.statistics.analyze import CountRows, count_here
from lakewright.maintenance.statistics.columns import RowCounts
from lakewright.metadata.store import TableStore
from lakewright.read.splits.shares import shares
from lakewright.read.splits.split import DataSplit
from lakewright.spec.types import DataField


def counting_on(workers: Workers[Work]) -> CountRows:
    """Return how rows are counted by workers."""
    return partial(_run, workers)


def _run(
    workers: Workers[Work], store: TableStore, splits: Sequence[DataSplit], columns: Sequence[DataField]
) -> RowCounts:
    parts = [[split.serialize() for split in share] for share in shares(store, splits, at_least=workers.tasks_at_once)]
    what = f"analyze {store.name}"
    work = workers.share_out(parts, partial(_count, store, tuple(columns)), description=what)
    counts = RowCounts.of(columns)
    for payload in workers.run(Job(store, str(uuid.uuid4()), work)).payloads:
        counts.merge(RowCounts.deserialize(payload, columns))
    return counts


def _count(store: TableStore, columns: Sequence[DataField], _this: TaskId, splits: Iterator[bytes]) -> bytes:
    """Count the rows of one share, on a worker."""
    return count_here(store, [DataSplit.deserialize(split) for split in splits], columns).serialize()

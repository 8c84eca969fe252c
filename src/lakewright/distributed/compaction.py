"""Compaction tasks on an engine's workers: tasks of a snapshot in, one commit message each out, nothing committed.

Tasks are spread over shares of about equal size, the largest first. A partition to be sorted that is larger than others
is divided over several workers (`sorting`). Always holds: if the job fails, or an attempt of it lost, the files of the
attempts that sent no message are removed, by the id that all their names carry.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from lakewright.commit.files import delete_written, files_of
from lakewright.commit.message.message import CommitMessage
from lakewright.compact.job import RunTasks
from lakewright.compact.order.divide import part_counts
from lakewright.compact.rewrite import run_task
from lakewright.compact.task import CompactTask
from lakewright.distributed.job import Answers, ExchangingWorkers, Job, TaskId, Work, Workers, prepare_job
from lakewright.distributed.messages import pack, unpack
from lakewright.distributed.sorting import sort_divided
from lakewright.metadata.store import TableStore
from lakewright.read.splits.plan import Packing
from lakewright.read.splits.shares import spread

_SHARES_PER_WORKER = 4  # so that a share that takes longer than others does not keep all waiting
_SHARE_BYTES_MAX = 1 << 30  # of files that one attempt rewrites


@dataclass(frozen=True, slots=True)
class _Compacted:
    messages: list[CommitMessage]


def compacting_on(workers: Workers[Work]) -> RunTasks:
    """Return how compaction tasks are run by workers, each by one: for compactions after commits, which never sort."""
    return partial(_run, workers)


def sorting_on(workers: ExchangingWorkers[Work]) -> RunTasks:
    """Return how compaction tasks are run by workers, where several may sort one large partition."""
    return partial(_run_sorting, workers)


def shares_of(store: TableStore, tasks: Sequence[CompactTask], workers: int) -> list[list[CompactTask]]:
    """Spread tasks over shares of about as many bytes each; the largest share comes first."""
    packing = Packing.of(store.options)
    weights = [packing.weight((*task.files, *task.deeper)) for task in tasks]
    count = max(workers * _SHARES_PER_WORKER, -(-sum(weights) // _SHARE_BYTES_MAX))
    return [[tasks[at] for at in some] for some in spread(weights, count)]


def _run_sorting(
    workers: ExchangingWorkers[Work], store: TableStore, tasks: Sequence[CompactTask]
) -> list[CommitMessage]:
    counts = part_counts(store, tasks, workers.tasks_at_once)
    whole = [task for task, count in zip(tasks, counts, strict=True) if count == 1]
    divided = [(task, count) for task, count in zip(tasks, counts, strict=True) if count > 1]
    messages = _run(workers, store, whole) if whole else []
    if not divided:
        return messages
    try:
        return [*messages, *sort_divided(workers, store, divided)]
    except BaseException:
        delete_written(store, files_of(store, messages))
        raise


def _run(workers: Workers[Work], store: TableStore, tasks: Sequence[CompactTask]) -> list[CommitMessage]:
    write_id = str(uuid.uuid4())
    count = len({(task.partition, task.bucket) for task in tasks})
    what = f"compact {count} bucket{'s' if count > 1 else ''} of {store.name}"
    shares = [[task.serialize() for task in share] for share in shares_of(store, tasks, workers.tasks_at_once)]
    work = workers.share_out(shares, partial(_compact, store, write_id), description=what)
    return prepare_job(workers, Job(store, write_id, work), _read).messages


def _read(answers: Answers) -> _Compacted:
    return _Compacted([message for payload in answers.payloads for message in unpack(payload)])


def _compact(store: TableStore, write_id: str, this: TaskId, tasks: Iterator[bytes]) -> bytes:
    """Run the compaction tasks of one share, on a worker."""
    names = (f"{write_id}-{this.number}-{this.attempt}-{file}" for file in range(1 << 31))
    compactions = (CompactTask.deserialize(task) for task in tasks)
    return pack(run_task(store, task, new_uuid=partial(str, next(names))) for task in compactions)

"""Compaction tasks on an engine's workers: tasks of a snapshot in, one commit message each out, nothing committed.

Each task is a share of its own. Always holds: if the job fails, or an attempt of it lost, the files of the attempts
that sent no message are removed, by the id that all their names carry.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from lakewright.commit.message.message import CommitMessage
from lakewright.compact.job import RunTasks
from lakewright.compact.rewrite import run_task
from lakewright.compact.task import CompactTask
from lakewright.distributed.job import Answers, Job, TaskId, Work, Workers, prepare_job
from lakewright.distributed.messages import pack, unpack
from lakewright.metadata.store import TableStore


@dataclass(frozen=True, slots=True)
class _Compacted:
    messages: list[CommitMessage]


def compacting_on(workers: Workers[Work]) -> RunTasks:
    """Return how compaction tasks are run by workers."""
    return partial(_run, workers)


def _run(workers: Workers[Work], store: TableStore, tasks: Sequence[CompactTask]) -> list[CommitMessage]:
    write_id = str(uuid.uuid4())
    what = f"compact {len(tasks)} bucket{'s' if len(tasks) > 1 else ''} of {store.name}"
    shares = [[task.serialize()] for task in tasks]
    work = workers.share_out(shares, partial(_compact, store, write_id), description=what)
    return prepare_job(workers, Job(store, write_id, work), _read).messages


def _read(answers: Answers) -> _Compacted:
    return _Compacted([message for payload in answers.payloads for message in unpack(payload)])


def _compact(store: TableStore, write_id: str, this: TaskId, tasks: Iterator[bytes]) -> bytes:
    """Run the compaction tasks of one share, on a worker."""
    names = (f"{write_id}-{this.number}-{this.attempt}-{file}" for file in range(1 << 31))
    compactions = (CompactTask.deserialize(task) for task in tasks)
    return pack(run_task(store, task, new_uuid=partial(str, next(names))) for task in compactions)

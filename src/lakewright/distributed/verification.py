"""Checks of data files on an engine's workers: tasks in, one report each out, in the same order. Nothing is written."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from functools import partial

from lakewright.distributed.job import Job, TaskId, Work, Workers
from lakewright.metadata.store import TableStore
from lakewright.verify.data_files import FileChecker
from lakewright.verify.run import RunChecks
from lakewright.verify.tasks import FileReport, FileTask

SHARES_PER_WORKER = 4  # so that a share of large files does not keep all others waiting


def checking_on(workers: Workers[Work]) -> RunChecks:
    """Return how data files are checked by workers."""
    return partial(_run, workers)


def _run(workers: Workers[Work], store: TableStore, tasks: Sequence[FileTask], depth: str) -> list[FileReport]:
    if not tasks:
        return []
    count = min(len(tasks), SHARES_PER_WORKER * workers.tasks_at_once)
    shares = [[task.serialize() for task in tasks[first::count]] for first in range(count)]
    what = f"verify {len(tasks)} files of {store.name}"
    work = workers.share_out(shares, partial(_check, store, depth), description=what)
    answers = workers.run(Job(store, str(uuid.uuid4()), work)).payloads
    reports: dict[int, FileReport] = {}
    for first, payload in enumerate(answers):
        reports |= {first + n * count: FileReport.deserialize(one) for n, one in enumerate(payload.split(b"\n"))}
    return [reports[number] for number in range(len(tasks))]


def _check(store: TableStore, depth: str, _this: TaskId, tasks: Iterator[bytes]) -> bytes:
    """Check the files of one share, on a worker; JSON has no line breaks, so these part the reports."""
    checker = FileChecker(store, depth)
    return b"\n".join(checker.check(FileTask.deserialize(task)).serialize() for task in tasks)

"""Tasks that change groups of files on Ray: what each task gets in, one answer per task out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import ray

from lakewright.distributed.job import TaskId
from lakewright.distributed.rows.groups import GroupedRows
from lakewright.metadata.store import TableStore
from lakewright.ray.rows.match import TaskRows
from lakewright.ray.tasks import (
    ProgressReport,
    RayAnswers,
    RayWork,
    TaskAnswer,
    Tasks,
    WriteSettings,
    new_attempt,
    was_tried_before,
)

ChangeTask: TypeAlias = Callable[[TaskId, GroupedRows], bytes]


def over_tasks(settings: WriteSettings, task: ChangeTask, inputs: Sequence[TaskRows]) -> RayWork:
    """Return the work of calling a function for each of the inputs, in a task of its own."""

    def work(_: TableStore) -> RayAnswers:
        shared = ray.put(task)
        with Tasks(settings, ProgressReport(None)) as tasks:
            for number, one in enumerate(inputs):
                tasks.start(CHANGE_GROUPS, shared, number, one)
            return RayAnswers(tasks.finish())

    return work


def change_groups(task: ChangeTask, number: int, rows: TaskRows) -> TaskAnswer:
    """Call the function of a job for what one task gets, on a worker."""
    return TaskAnswer(number, task(TaskId(number, new_attempt()), rows.grouped()), was_tried_before())


CHANGE_GROUPS = ray.remote(change_groups)

"""Compaction and large sorts by the tasks of an engine."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lakewright.commit.commit_changes import delete_files_of, files_of_messages
from lakewright.commit.commit_message import CommitMessage
from lakewright.compact.compaction_job import TaskRunner
from lakewright.compact.compaction_plan import CompactTask, check_compactable, with_schema_of
from lakewright.compact.keyed_compaction import run_task
from lakewright.compact.rewrite_output import BucketOutput
from lakewright.compact.sort_compaction import (
    SAMPLE_FILES,
    SAMPLE_ROWS,
    Division,
    joined_message,
    part_counts,
    rows_of_parts,
    sample_files,
    sample_of,
    sort_part,
    with_files,
)
from lakewright.engine.engine import Engine, ExchangingWorkers, Job, TaskId, TaskResult, TaskResults, Work
from lakewright.engine.engine_job import run_tasks
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_file_reader import explain_missing_files
from lakewright.read.split_planning import Packing
from lakewright.read.split_sharing import spread

# ---- Sorting large partitions on several workers ---------------------------------------------------------------------
# sample on workers -> choose where parts end, on the driver -> send each row to the worker of its part, who writes it
#
# Rows are read once and travel once, through the engine. Invariant: a partition has one message, which names the
# files of all its parts; if the job fails, no file of it stays.

_FILES_PER_PART = 4  # are sampled, at least, so that files that are sorted already show where the rows lie
_BLOB_BYTES = 1 << 20  # of rows that travel together


@dataclass(frozen=True, slots=True)
class _Sorted:
    messages: list[CommitMessage]


def sort_divided(
    workers: ExchangingWorkers[Work], store: TableStore, tasks: Sequence[tuple[CompactTask, int]]
) -> list[CommitMessage]:
    """Sort each task by about so many workers, and return a message for each."""
    store = with_schema_of(store, (file for task, _ in tasks for file in task.files))
    check_compactable(store)
    divisions: list[Division] = []
    for (task, count), sample in zip(tasks, _samples(workers, store, tasks), strict=True):
        first = divisions[-1].parts.stop if divisions else 0
        divisions.append(Division.of_sample(store, task, sample, count, first))
    by_partition = {division.task.partition: division for division in divisions}
    shares = [[part.serialize()] for task, count in tasks for part in _parts_of(store, task, count)]
    write_id = str(uuid.uuid4())
    parts = divisions[-1].parts.stop
    work = workers.exchange(
        shares,
        partial(_send, store, by_partition),
        partial(_receive, store, divisions, write_id),
        targets=parts,
        description=f"sort {len(tasks)} partition{'s' if len(tasks) > 1 else ''} of {store.name} in {parts} parts",
    )

    def read(answers: TaskResults) -> _Sorted:
        made = [result.messages[0] for result in answers.results]
        return _Sorted(
            [
                joined_message(store, task, made[division.parts.start : division.parts.stop])
                for (task, _), division in zip(tasks, divisions, strict=True)
            ]
        )

    return run_tasks(workers, Job(store, write_id, work), read).messages


def _samples(workers: Engine[Work], store: TableStore, tasks: Sequence[tuple[CompactTask, int]]) -> Iterator[pa.Table]:
    """Yield a sample of the rows of each task, in the columns to sort by, that workers read."""
    chosen = [with_files(task, sample_files(task, max(SAMPLE_FILES, _FILES_PER_PART * count))) for task, count in tasks]
    parts = [_parts_of(store, some, workers.tasks_at_once) for some in chosen]
    shares = [[part.serialize()] for some in parts for part in some]
    rows = {task.partition: sum(file.row_count for file in task.files) for task in chosen}
    what = f"sample {len(shares)} parts of {store.name}"
    work = workers.share_out(shares, partial(_sample, store, rows), description=what)
    answers = iter(workers.run(Job(store, str(uuid.uuid4()), work)).results)
    for some in parts:
        yield pa.concat_tables(pa.ipc.open_stream(next(answers).data).read_all() for _ in some)


def _parts_of(store: TableStore, task: CompactTask, count: int) -> list[CompactTask]:
    """Return a task as about so many tasks with some of its files each."""
    packing = Packing.of(store.options)
    groups = spread([packing.weight([file]) for file in task.files], count)
    return [with_files(task, [task.files[at] for at in some]) for some in groups]


# ---- on a worker -----------------------------------------------------------------------------------------------------


def _sample(store: TableStore, rows: dict[bytes, int], _this: TaskId, tasks: Iterator[bytes]) -> TaskResult:
    """Read a sample of some files of one task."""
    (task,) = map(CompactTask.deserialize, tasks)
    count = SAMPLE_ROWS * sum(file.row_count for file in task.files) // max(1, rows[task.partition])
    with explain_missing_files(store, task.snapshot_id):
        return TaskResult(data=_stream(sample_of(store, task, count)).to_pybytes())


def _send(
    store: TableStore, divisions: dict[bytes, Division], tasks: Iterator[bytes]
) -> Iterator[tuple[int, pa.Buffer]]:
    """Read files, and yield their rows in blobs for the part that they belong to."""
    memory = store.options.lakewright_merge_memory
    for task in map(CompactTask.deserialize, tasks):
        for number, rows in rows_of_parts(store, divisions[task.partition], task, memory):
            step = max(1, len(rows) * _BLOB_BYTES // max(1, rows.nbytes))
            for start in range(0, len(rows), step):
                yield number, _stream(rows.slice(start, step))


def _receive(
    store: TableStore, divisions: Sequence[Division], write_id: str, this: TaskId, blobs: Iterator[bytes]
) -> TaskResult:
    """Sort the rows of one part, and write its files."""
    division = next(division for division in divisions if this.number in division.parts)
    stem = f"{write_id}-{this.number}-{this.attempt}-0"
    output = BucketOutput(store, (division.task.partition, division.task.bucket), new_uuid=lambda: stem)
    batches = (batch for blob in blobs for batch in pa.ipc.open_stream(blob))
    memory = store.options.lakewright_merge_memory
    return TaskResult((sort_part(store, division, this.number, batches, output, memory),))


def _stream(rows: pa.Table) -> pa.Buffer:
    """Return rows as bytes that say themselves which columns they have."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue()


# ---- Compaction tasks on workers -------------------------------------------------------------------------------------
# Tasks are spread over shares of about equal size, the largest first. A partition to be sorted that is larger than
# others is divided over several workers (`sorting`). Invariant: if the job fails, or an attempt of it lost, the
# files of the attempts that sent no message are removed, by the id that all their names carry.

_SHARES_PER_WORKER = 4  # so that a share that takes longer than others does not keep all waiting
_SHARE_BYTES_MAX = 1 << 30  # of files that one attempt rewrites


@dataclass(frozen=True, slots=True)
class _Compacted:
    messages: list[CommitMessage]


def compaction_runner(workers: Engine[Work]) -> TaskRunner:
    """Return how compaction tasks are run by workers, each by one: for compactions after commits, which never sort."""
    return partial(_run, workers)


def sorting_on(workers: ExchangingWorkers[Work]) -> TaskRunner:
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
        delete_files_of(store, files_of_messages(store, messages))
        raise


def _run(workers: Engine[Work], store: TableStore, tasks: Sequence[CompactTask]) -> list[CommitMessage]:
    write_id = str(uuid.uuid4())
    count = len({(task.partition, task.bucket) for task in tasks})
    what = f"compact {count} bucket{'s' if count > 1 else ''} of {store.name}"
    shares = [[task.serialize() for task in share] for share in shares_of(store, tasks, workers.tasks_at_once)]
    work = workers.share_out(shares, partial(_compact, store, write_id), description=what)
    return run_tasks(workers, Job(store, write_id, work), _read).messages


def _read(answers: TaskResults) -> _Compacted:
    return _Compacted([message for result in answers.results for message in result.messages])


def _compact(store: TableStore, write_id: str, this: TaskId, tasks: Iterator[bytes]) -> TaskResult:
    """Run the compaction tasks of one share, on a worker."""
    names = (f"{write_id}-{this.number}-{this.attempt}-{file}" for file in range(1 << 31))
    compactions = (CompactTask.deserialize(task) for task in tasks)
    return TaskResult([run_task(store, task, new_uuid=partial(str, next(names))) for task in compactions])

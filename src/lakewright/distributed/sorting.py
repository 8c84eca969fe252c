"""Large partitions that several workers sort together: tasks in, one commit message each out, nothing committed.

    sample on workers -> choose where parts end, on the driver -> send each row to the worker of its part, who writes it

Rows are read once and travel once, through the engine. Always holds: a partition has one message, which names the files
of all its parts; if the job fails, no file of it stays.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lakewright.commit.message.message import CommitMessage
from lakewright.compact.order.divide import Division, joined_message, rows_of_parts, sort_part, with_files
from lakewright.compact.order.sort import SAMPLE_FILES, SAMPLE_ROWS, sample_files, sample_of
from lakewright.compact.output import BucketOutput
from lakewright.compact.task import CompactTask, check_compactable, with_schema_of
from lakewright.distributed.job import Answers, ExchangingWorkers, Job, TaskId, Work, Workers, prepare_job
from lakewright.distributed.messages import pack, unpack
from lakewright.metadata.store import TableStore
from lakewright.read.files import missing_files_explained
from lakewright.read.splits.plan import Packing
from lakewright.read.splits.shares import spread
from lakewright.spec.options import CoreOptions

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

    def read(answers: Answers) -> _Sorted:
        made = [unpack(payload)[0] for payload in answers.payloads]
        return _Sorted(
            [
                joined_message(store, task, made[division.parts.start : division.parts.stop])
                for (task, _), division in zip(tasks, divisions, strict=True)
            ]
        )

    return prepare_job(workers, Job(store, write_id, work), read).messages


def _samples(workers: Workers[Work], store: TableStore, tasks: Sequence[tuple[CompactTask, int]]) -> Iterator[pa.Table]:
    """Yield a sample of the rows of each task, in the columns to sort by, that workers read."""
    chosen = [with_files(task, sample_files(task, max(SAMPLE_FILES, _FILES_PER_PART * count))) for task, count in tasks]
    parts = [_parts_of(store, some, workers.tasks_at_once) for some in chosen]
    shares = [[part.serialize()] for some in parts for part in some]
    rows = {task.partition: sum(file.row_count for file in task.files) for task in chosen}
    what = f"sample {len(shares)} parts of {store.name}"
    work = workers.share_out(shares, partial(_sample, store, rows), description=what)
    answers = iter(workers.run(Job(store, str(uuid.uuid4()), work)).payloads)
    for some in parts:
        yield pa.concat_tables(pa.ipc.open_stream(next(answers)).read_all() for _ in some)


def _parts_of(store: TableStore, task: CompactTask, count: int) -> list[CompactTask]:
    """Return a task as about so many tasks with some of its files each."""
    packing = Packing.of(store.options)
    groups = spread([packing.weight([file]) for file in task.files], count)
    return [with_files(task, [task.files[at] for at in some]) for some in groups]


# ---- on a worker -----------------------------------------------------------------------------------------------------


def _sample(store: TableStore, rows: dict[bytes, int], _this: TaskId, tasks: Iterator[bytes]) -> bytes:
    """Read a sample of some files of one task."""
    (task,) = map(CompactTask.deserialize, tasks)
    count = SAMPLE_ROWS * sum(file.row_count for file in task.files) // max(1, rows[task.partition])
    with missing_files_explained(store, task.snapshot_id):
        payload: bytes = _stream(sample_of(store, task, count)).to_pybytes()
        return payload


def _send(
    store: TableStore, divisions: dict[bytes, Division], tasks: Iterator[bytes]
) -> Iterator[tuple[int, pa.Buffer]]:
    """Read files, and yield their rows in blobs for the part that they belong to."""
    memory = store.options.get(CoreOptions.LAKEWRIGHT_MERGE_MEMORY)
    for task in map(CompactTask.deserialize, tasks):
        for number, rows in rows_of_parts(store, divisions[task.partition], task, memory):
            step = max(1, len(rows) * _BLOB_BYTES // max(1, rows.nbytes))
            for start in range(0, len(rows), step):
                yield number, _stream(rows.slice(start, step))


def _receive(
    store: TableStore, divisions: Sequence[Division], write_id: str, this: TaskId, blobs: Iterator[bytes]
) -> bytes:
    """Sort the rows of one part, and write its files."""
    division = next(division for division in divisions if this.number in division.parts)
    stem = f"{write_id}-{this.number}-{this.attempt}-0"
    output = BucketOutput(store, (division.task.partition, division.task.bucket), new_uuid=lambda: stem)
    batches = (batch for blob in blobs for batch in pa.ipc.open_stream(blob))
    memory = store.options.get(CoreOptions.LAKEWRIGHT_MERGE_MEMORY)
    return pack([sort_part(store, division, this.number, batches, output, memory)])


def _stream(rows: pa.Table) -> pa.Buffer:
    """Return rows as bytes that say themselves which columns they have."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue()

"""One large partition sorted by several workers: a task in, a division of its rows into parts, and the parts out.

A sample of the columns to sort by says where the parts end (`Division`). Workers read the files of the task and send
each row to the worker of its part (`rows_of_parts`), who sorts what comes and writes the files of this part
(`sort_part`). The files of all parts become one commit message (`joined_message`), so that a partition is replaced as a
whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import cycle

import pyarrow as pa

from lakewright.commit.message.message import CommitMessage
from lakewright.compact.append_rewrite import carried_fields, read_rows, task_message, task_split
from lakewright.compact.order.key import OrderKey
from lakewright.compact.order.sort import SortedFiles, by_range, file_count, order_key, sort_rows
from lakewright.compact.output import BucketOutput
from lakewright.compact.task import CompactTask, vectors_of_files
from lakewright.errors import LakewrightError, counted
from lakewright.metadata.store import TableStore
from lakewright.read.files import missing_files_explained
from lakewright.spec.datafile import DataFile

PART_BYTES_MIN = 256 << 20  # of files that are worth a worker of their own: sending rows costs more than sorting them
PART_BYTES_MAX = 1 << 30
_PARTS_PER_WORKER = 2  # so that a part that is larger than the others does not keep all waiting
_SEND_PARTS = 4  # of the memory: rows, for a moment the same rows in one piece, and those on their way


@dataclass(frozen=True, slots=True)
class Division:
    """The parts into which the rows of one task are divided."""

    task: CompactTask  # without its files
    key: OrderKey
    count: int  # of parts that were asked for; there may be fewer
    first: int  # the number of the first part, among those of all tasks
    rows: int

    @classmethod
    def of_sample(cls, store: TableStore, task: CompactTask, sample: pa.Table, count: int, first: int) -> Division:
        """Divide the rows of a task of which a sample is known."""
        rows = sum(file.row_count for file in task.files)
        return cls(replace(task, files=(), vectors=()), order_key(store, task, sample), count, first, rows)

    @property
    def parts(self) -> range:
        """The numbers of the parts."""
        return range(self.first, self.first + self.key.part_key(self.count).ranges)


def part_counts(store: TableStore, tasks: Sequence[CompactTask], workers: int) -> list[int]:
    """Return into how many parts each task is divided: 1 for tasks that do not sort, and for those of few rows.

    Parts are about as large as other tasks. None is smaller than a file, because each begins files of its own.
    """
    sizes = [sum(file.file_size for file in task.files) for task in tasks]
    even = sum(sizes) / (workers * _PARTS_PER_WORKER)
    each = min(max(even, PART_BYTES_MIN), PART_BYTES_MAX)
    return [
        max(1, min(round(size / each), int(file_count(store, task)))) if task.order_by else 1
        for task, size in zip(tasks, sizes, strict=True)
    ]


def with_files(task: CompactTask, files: Sequence[DataFile]) -> CompactTask:
    """Return the task with some of its files alone."""
    vectors = vectors_of_files(task.vectors, {file.file_name for file in files})
    return replace(task, files=tuple(files), vectors=tuple(index for index in vectors if index.deletion_ranges))


def rows_of_parts(
    store: TableStore, division: Division, task: CompactTask, memory_bytes: int
) -> Iterator[tuple[int, pa.Table]]:
    """Yield live rows of some files of the task, each time those of one part with its number."""
    key = division.key.part_key(division.count)
    with (
        missing_files_explained(store, task.snapshot_id),
        closing(read_rows(store, task_split(store, task))) as batches,
    ):
        parts = by_range(batches, key, max(1, memory_bytes // _SEND_PARTS))
        yield from ((number, part) for number, part in zip(cycle(division.parts), parts, strict=False) if len(part))


def sort_part(
    store: TableStore,
    division: Division,
    number: int,
    batches: Iterator[pa.RecordBatch],
    output: BucketOutput,
    memory_bytes: int,
) -> CommitMessage:
    """Write the rows of a part in order to new files; the message names only these."""
    keys = division.key.parts(division.count)
    key = keys[number - division.first]
    share = key.counts.sum() / max(1, division.key.counts.sum())
    try:
        files = SortedFiles(store, division.task, output, memory_bytes)
        sort_rows(files, batches, lambda _rows: key, int(division.rows * share))
        return task_message(store, division.task, output, files.finish())
    except BaseException:
        output.discard()
        raise


def joined_message(store: TableStore, task: CompactTask, parts: Sequence[CommitMessage]) -> CommitMessage:
    """Return one message that puts the files of all parts, in their order, in the place of the task's own."""
    files = [file for part in parts for file in part.compact_after]
    _check_rows(store, task, sum(file.row_count for file in files))
    if not carried_fields(store.schema):
        files = _numbered(files, min(file.min_sequence_number for file in task.files))
    return replace(parts[0], compact_before=task.files, compact_after=tuple(files))


def _numbered(files: Sequence[DataFile], first: int) -> list[DataFile]:
    """Return files with sequence numbers that count up, because the writers of the parts do not know each other's."""
    numbered = []
    for file in files:
        last = first + file.row_count - 1
        numbered.append(replace(file, min_sequence_number=first, max_sequence_number=last))
        first = last + 1
    return numbered


def _check_rows(store: TableStore, task: CompactTask, rows: int) -> None:
    """Raise an error unless as many rows came out as live rows went in; nothing is known if an index has no counts."""
    deleted = [found.cardinality for index in task.vectors for found in index.deletion_ranges or ()]
    if None in deleted:
        return
    expected = sum(file.row_count for file in task.files) - sum(count or 0 for count in deleted)
    if rows != expected:
        raise LakewrightError(
            f"{store.name}: {counted(expected, 'row')} were to be sorted and {rows} came out; nothing was committed, "
            "compact again",
            table=store.name,
        )

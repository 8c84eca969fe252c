"""Files of a partition sorted by columns, by one task or many."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import cycle, pairwise

import numpy as np
import pyarrow as pa

from lakewright.commit.commit_message import CommitMessage
from lakewright.compact.append_compaction import read_rows, task_message, task_split
from lakewright.compact.clustering_key import OrderKey
from lakewright.compact.compaction_plan import CompactTask, vectors_of_files
from lakewright.compact.rewrite_output import GROUP_BYTES, BucketOutput
from lakewright.errors import LakewrightError, pluralize
from lakewright.formats.data_file_writer import FilePlan, SequenceNumbers, preserved_fields
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_file_reader import explain_missing_files
from lakewright.spec.arrow_take import take_rows
from lakewright.spec.column_stats import StatsMode
from lakewright.spec.manifest import COMPACT, DataFile
from lakewright.spec.types import DataField
from lakewright.write.write_buffer import Spill

# ---- Sorting in one process ------------------------------------------------------------------------------------------
# Rows are read once. If all of them fit the memory of the task, they are sorted there. Otherwise a sample of the
# columns to sort by is read, which says how the rows divide into ranges; the rows go to one unnamed file on the local
# disk, and each range is read back, sorted and written. A range that is larger than expected is sorted in parts, so
# that memory stays bounded whatever the rows are. Rows keep their ids and sequence numbers where the table tracks
# rows.

SAMPLE_ROWS = 1 << 18
_SAMPLE_BYTES = 64 << 20
SAMPLE_FILES = 64
# Texts that have their beginning in common are told apart by it; as long as the format's bounds of keys.
_ORDER_STATS = StatsMode("truncate", 128)
_MEMORY_PARTS = 4  # rows, for a moment the same rows in one piece, their sort keys, and what is being written
_GROUPS = 4  # of rows that are encoded at a time, in this part of the memory
_SLACK = 1.25  # ranges are made smaller than the memory, because a sample is not exact
_FILLED = 0.9  # of the target size of a file is planned for, because rows in another order take other space
_FILLED_MIN = 0.5  # a file that turns out smaller takes the rows of the next range too


class SortedFiles:
    """The files that the sorted rows of a task become: rows in order in, data files out."""

    def __init__(self, store: TableStore, task: CompactTask, output: BucketOutput, memory_bytes: int) -> None:
        first = min((file.min_sequence_number for file in task.files), default=0)
        self.held_bytes = max(1, memory_bytes // _MEMORY_PARTS)  # of rows that are sorted at a time
        self._sink = output.open(sorted_plan(store, task), numbers=SequenceNumbers(first))
        self._group_bytes = max(1, min(GROUP_BYTES, self.held_bytes // _GROUPS))
        self._threads = store.options.lakewright_write_threads
        self._cell = 0

    def write(self, key: OrderKey, rows: pa.Table) -> None:
        """Sort rows that are in memory, and write them, with files that end where the key says; threads encode them."""
        if len(rows) == 0:
            return
        order, ends = key.order_rows(rows)
        step = max(1, len(rows) * self._group_bytes // max(1, rows.nbytes))

        def groups() -> Iterator[pa.Table]:
            for cell, (low, high) in enumerate(pairwise([0, *ends, len(rows)])):
                if low < high and cell != self._cell:
                    self._sink.rolling.cut(_FILLED_MIN)
                    self._cell = cell
                for start in range(low, high, step):
                    yield take_rows(rows, order[start : min(start + step, high)])

        self._sink.write_encoded(groups(), self._threads)

    def finish(self) -> tuple[DataFile, ...]:
        """Close the last file and return all of them."""
        return self._sink.finish()


def sort_append(store: TableStore, task: CompactTask, output: BucketOutput, memory_bytes: int) -> CommitMessage:
    """Write the live rows of a task's files in order to new files; about `memory_bytes` are in use at a time."""
    files = SortedFiles(store, task, output, memory_bytes)

    def key_of(rows: pa.Table | None) -> OrderKey:
        some = replace(task, files=sample_files(task))
        return order_key(store, task, sample_of(store, some) if rows is None else sample_rows(rows))

    with closing(read_rows(store, task_split(store, task))) as batches:
        sort_rows(files, batches, key_of, sum(file.row_count for file in task.files))
    return task_message(store, task, output, files.finish())


def sort_rows(
    files: SortedFiles, batches: Iterator[pa.RecordBatch], key_of: Callable[[pa.Table | None], OrderKey], rows: int
) -> None:
    """Sort batches of about so many rows, in memory or by ranges; `key_of` is given all rows where they are few."""
    held, is_all = _take_batches(batches, files.held_bytes)
    if is_all:
        files.write(key_of(held), held)
        return
    ranges = int(rows * held.nbytes / len(held) * _SLACK // files.held_bytes) + 1
    key = key_of(None)
    coarse = key.coarser(ranges)
    schema, waiting = held.schema, [held]
    del held  # only `by_range` holds them, until they are spilled
    with closing(Spill(([part] for part in by_range(batches, coarse, files.held_bytes, waiting)), schema)) as spill:
        for number in range(coarse.ranges):
            parts = map(spill.read, range(number, spill.count, coarse.ranges))
            for part in _in_parts((part for part in parts if len(part)), files.held_bytes):
                files.write(key, part)


def sorted_plan(store: TableStore, task: CompactTask) -> FilePlan:
    """Return the plan of sorted files: the bounds of texts to sort by are longer than others, unless an option says."""
    plan = FilePlan.for_copied_rows(store.schema, preserved_fields(store.schema), source=COMPACT)
    free = {name for name in task.order_by if f"fields.{name}.stats-mode" not in store.options.values}
    modes = tuple(
        _ORDER_STATS if field.name in free and mode.kind == "truncate" and mode.length < _ORDER_STATS.length else mode
        for field, mode in zip(plan.fields, plan.options.stats, strict=True)
    )
    return replace(plan, options=replace(plan.options, stats=modes))


def file_count(store: TableStore, task: CompactTask) -> float:
    """Return about how many files the rows of a task fill."""
    plan = sorted_plan(store, task)
    size, rows = sum(file.file_size for file in task.files), sum(file.row_count for file in task.files)
    return max(size / (plan.file_bytes_max * _FILLED), rows / plan.file_rows_max)


def order_key(store: TableStore, task: CompactTask, sample: pa.Table) -> OrderKey:
    """Return the order of the rows of a task, and where it can be cut."""
    return OrderKey.of_sample(task.strategy, _fields(store, task), sample, file_count(store, task))


def sample_files(task: CompactTask, count: int = SAMPLE_FILES) -> tuple[DataFile, ...]:
    """Return so many files of a task, evenly chosen, or all."""
    count = min(count, len(task.files))
    return tuple(task.files[at * len(task.files) // count] for at in range(count))


def sample_of(store: TableStore, task: CompactTask, count: int = SAMPLE_ROWS) -> pa.Table:
    """Read about so many rows of a task's files, in the columns to sort by; fewer, if they are long texts."""
    names = [field.name for field in _fields(store, task)]
    rows_of_all = max(1, sum(file.row_count for file in task.files))
    tables = []
    with closing(read_rows(store, task_split(store, task), names)) as batches:
        for batch in batches:
            most = _SAMPLE_BYTES * count // SAMPLE_ROWS * len(batch) // max(1, batch.nbytes)
            share = max(1, min(count, most) * len(batch) // rows_of_all)
            tables.append(sample_rows(pa.Table.from_batches([batch]), share))
    schema = pa.schema([store.schema.arrow_schema.field(name) for name in names])
    return pa.concat_tables(tables) if tables else schema.empty_table()


def sample_rows(rows: pa.Table, count: int = SAMPLE_ROWS) -> pa.Table:
    """Return so many rows, chosen at random, the same ones each time."""
    if len(rows) <= count:
        return rows
    at = np.sort(np.random.default_rng(len(rows)).integers(0, len(rows), count))
    return rows.take(pa.array(at))


def by_range(
    batches: Iterator[pa.RecordBatch], key: OrderKey, held_bytes: int, waiting: list[pa.Table] | None = None
) -> Iterator[pa.Table]:
    """Take rows, about so many bytes at a time, and yield a table for each range, empty ones too; then take the next.

    `waiting` are rows that were taken before; the list is emptied.
    """
    waiting = [_take_batches(batches, held_bytes)[0]] if waiting is None else waiting
    while waiting and len(waiting[0]):
        yield from _by_range(waiting.pop(), key)
        waiting.append(_take_batches(batches, held_bytes)[0])


def _by_range(rows: pa.Table, key: OrderKey) -> Iterator[pa.Table]:
    numbers = key.range_of(rows)
    ends = np.cumsum(np.bincount(numbers, minlength=key.ranges)).tolist()
    order = np.argsort(numbers, kind="stable")
    for start, end in pairwise([0, *ends]):
        yield take_rows(rows, order[start:end])


def _fields(store: TableStore, task: CompactTask) -> list[DataField]:
    return [store.schema.field(name) for name in task.order_by]


def _take_batches(batches: Iterator[pa.RecordBatch], size_max: int) -> tuple[pa.Table, bool]:
    """Take batches until they have so many bytes; return them in one piece, and return whether these are all."""
    held: list[pa.Table] = []
    size = 0
    for batch in batches:
        held.append(pa.Table.from_batches([batch]))
        size += batch.nbytes
        if size >= size_max:
            return _join_tables(held), False
    return _join_tables(held) if held else pa.table({}), True


def _in_parts(tables: Iterator[pa.Table], size_max: int) -> Generator[pa.Table]:
    """Join tables as far as they have so many bytes together."""
    held: list[pa.Table] = []
    size = 0
    for table in tables:
        if held and size + table.nbytes > size_max:
            yield _join_tables(held)
            size = 0
        held.append(table)
        size += table.nbytes
    if held:
        yield _join_tables(held)


def _join_tables(tables: list[pa.Table]) -> pa.Table:
    """Return tables in one piece, and empty the list, so that the rows are not held twice."""
    rows = pa.concat_tables(tables)
    tables.clear()
    return rows.combine_chunks()


# ---- Dividing a partition for several workers ------------------------------------------------------------------------
# A sample of the columns to sort by says where the parts end (`Division`). Workers read the files of the task and
# send each row to the worker of its part (`rows_of_parts`), who sorts what comes and writes the files of this part
# (`sort_part`). The files of all parts become one commit message (`joined_message`), so that a partition is replaced
# as a whole or not at all.

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
        explain_missing_files(store, task.snapshot_id),
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
    if not preserved_fields(store.schema):
        files = _number_files(files, min(file.min_sequence_number for file in task.files))
    return replace(parts[0], compact_before=task.files, compact_after=tuple(files))


def _number_files(files: Sequence[DataFile], first: int) -> list[DataFile]:
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
            f"{store.name}: {pluralize(expected, 'row')} were to be sorted and {rows} came out; nothing was committed, "
            "compact again",
            table=store.name,
        )

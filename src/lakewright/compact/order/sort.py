"""Sorted files of an append table's partition: a task in, the commit message of files with the same live rows out.

Rows are read once. If all of them fit the memory of the task, they are sorted there. Otherwise a sample of the columns
to sort by is read, which says how the rows divide into ranges; the rows go to unnamed files on the local disk, range by
range, and each range is read back, sorted and written. A range that is larger than expected is sorted in parts, so that
memory stays bounded whatever the rows are. Rows keep their ids and sequence numbers where the table tracks rows.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lakewright.commit.message.message import CommitMessage
from lakewright.compact.append_rewrite import carried_fields, read_rows, task_message, task_split
from lakewright.compact.order.key import OrderKey
from lakewright.compact.output import GROUP_BYTES, BucketOutput, GroupedRows
from lakewright.compact.task import CompactTask
from lakewright.datafiles.file_plan import FilePlan
from lakewright.datafiles.rolling import SequenceNumbers
from lakewright.datafiles.spill import Spill
from lakewright.metadata.store import TableStore
from lakewright.spec.datafile import COMPACT
from lakewright.spec.options import CoreOptions
from lakewright.spec.types import DataField

MEMORY_PARTS = 3  # rows that are held, the same in one piece, and what is being written
SAMPLE_ROWS = 1 << 18
_SAMPLE_FILES = 64
_SLACK = 1.25  # ranges are made smaller than the memory, because a sample is not exact
_FILLED = 0.9  # of the target size of a file is planned for, because rows in another order take other space
_FILLED_MIN = 0.5  # a file that turns out smaller takes the rows of the next range too


def sort_append(store: TableStore, task: CompactTask, output: BucketOutput, memory_bytes: int) -> CommitMessage:
    """Write the live rows of a task's files in order to new files; about `memory_bytes` of rows are held at a time."""
    sink = sorted_sink(store, task, output)
    budget = max(1, memory_bytes // MEMORY_PARTS)
    threads = store.options.get(CoreOptions.LAKEWRIGHT_WRITE_THREADS)
    with closing(read_rows(store, task_split(store, task))) as batches:
        held, is_all = gather(batches, budget)
        if is_all:
            write_sorted(sink, key_of(store, task, sampled(held, SAMPLE_ROWS)), held, threads)
        else:
            per_row = held.nbytes / len(held)
            rows = sum(file.row_count for file in task.files)
            ranges = int(rows * per_row * _SLACK // budget) + 1
            key = key_of(store, task, sample_of(store, task), ranges)
            spills = _spilled(batches, held, key.coarser(ranges), budget)
            del held
            for part in _ranges(spills, key.coarser(ranges).ranges, budget):
                write_sorted(sink, key, part, threads)
    return task_message(store, task, output, sink.finish())


def sorted_sink(store: TableStore, task: CompactTask, output: BucketOutput) -> GroupedRows:
    """Return what writes the sorted files of a task."""
    plan = FilePlan.moved(store.schema, carried_fields(store.schema), source=COMPACT)
    first = min(file.min_sequence_number for file in task.files)
    return output.open(plan, numbers=SequenceNumbers(first))


def key_of(store: TableStore, task: CompactTask, sample: pa.Table, ranges: int = 1) -> OrderKey:
    """Return the order of the rows of a task, and where it is cut into files."""
    plan = FilePlan.moved(store.schema, carried_fields(store.schema), source=COMPACT)
    size, rows = sum(file.file_size for file in task.files), sum(file.row_count for file in task.files)
    files = max(size / (plan.file_bytes_max * _FILLED), rows / plan.file_rows_max)
    return OrderKey.of_sample(task.strategy, _fields(store, task), sample, ranges, files)


def sample_of(store: TableStore, task: CompactTask) -> pa.Table:
    """Read some rows of a task's files, in the columns to sort by; of many files some, evenly chosen."""
    count = min(_SAMPLE_FILES, len(task.files))
    files = [task.files[at * len(task.files) // count] for at in range(count)]
    names = [field.name for field in _fields(store, task)]
    part = replace(task, files=tuple(files))
    rows_of_all = sum(file.row_count for file in files)
    tables = []
    with closing(read_rows(store, task_split(store, part), names)) as batches:
        for batch in batches:
            share = max(1, SAMPLE_ROWS * len(batch) // max(rows_of_all, 1))
            tables.append(sampled(pa.Table.from_batches([batch]), share))
    schema = pa.schema([store.schema.arrow_schema.field(name) for name in names])
    return pa.concat_tables(tables) if tables else schema.empty_table()


def sampled(rows: pa.Table, count: int) -> pa.Table:
    """Return so many rows, chosen at random, the same ones each time."""
    if len(rows) <= count:
        return rows
    at = np.sort(np.random.default_rng(len(rows)).integers(0, len(rows), count))
    return rows.take(pa.array(at))


def gather(batches: Iterator[pa.RecordBatch], budget: int) -> tuple[pa.Table, bool]:
    """Take batches until they have so many bytes, and say whether these are all."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= budget:
            return pa.Table.from_batches(held), False
    return pa.Table.from_batches(held) if held else pa.table({}), True


def write_sorted(sink: GroupedRows, key: OrderKey, rows: pa.Table, threads: int) -> None:
    """Sort rows that are in memory, and write them, with files that end where the key says; threads encode them."""
    if len(rows) == 0:
        return
    rows = rows.combine_chunks()
    order, ends = key.arranged(rows)
    step = max(1, len(rows) * GROUP_BYTES // max(1, rows.nbytes))

    def groups() -> Iterator[pa.Table]:
        for low, high in pairwise([0, *ends, len(rows)]):
            for start in range(low, high, step):
                yield rows.take(pa.array(order[start : min(start + step, high)]))
            if ends and high > low:
                sink.rolling.cut(_FILLED_MIN)

    sink.write_encoded(groups(), threads)


def by_range(rows: pa.Table, key: OrderKey) -> list[pa.Table]:
    """Return the rows of each range, in the order they came."""
    numbers = key.range_of(rows)
    order = np.argsort(numbers, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=key.ranges))])
    rows = rows.combine_chunks()
    return [
        rows.take(pa.array(order[start:end])) for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    ]


def in_parts(tables: Iterable[pa.Table], budget: int) -> Generator[pa.Table]:
    """Join tables as far as they have so many bytes together."""
    held: list[pa.Table] = []
    size = 0
    for table in tables:
        if held and size + table.nbytes > budget:
            yield pa.concat_tables(held)
            held, size = [], 0
        held.append(table)
        size += table.nbytes
    if held:
        yield pa.concat_tables(held)


def _fields(store: TableStore, task: CompactTask) -> list[DataField]:
    return [store.schema.field(name) for name in task.order_by]


def _spilled(batches: Iterator[pa.RecordBatch], first: pa.Table, key: OrderKey, budget: int) -> list[Spill]:
    """Write all rows to files on the local disk, each with a table per range."""
    spills: list[Spill] = []
    rows, is_all = first, False
    while len(rows):
        spills.append(Spill(([table] for table in by_range(rows, key)), rows.schema))
        rows, is_all = (rows.slice(0, 0), True) if is_all else gather(batches, budget)
    return spills


def _ranges(spills: Sequence[Spill], ranges: int, budget: int) -> Iterator[pa.Table]:
    """Yield the rows of one range after the other; a range that is too large in parts."""
    for number in range(ranges):
        parts = (spill.read(number) for spill in spills)
        yield from in_parts((part for part in parts if len(part)), budget)
        for spill in spills:
            spill.release()

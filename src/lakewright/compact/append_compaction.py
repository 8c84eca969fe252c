"""Live rows of append files into new files in the same order.

Invariant: a row keeps its id and its sequence number. With row tracking the new file stores both, in columns of
their own. With data evolution ids are not stored: they count up from the first id of a file. So deleted rows are
written too, and the new files get deletion vectors for them. Elsewhere deleted rows are left out.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakewright.commit.commit_message import CommitMessage
from lakewright.compact.compaction_plan import CompactTask, inline_columns
from lakewright.compact.rewrite_output import BucketOutput, deletions_of, write_vectors
from lakewright.formats.data_file_writer import FilePlan, SequenceNumbers, cap_sequence_numbers, preserved_fields
from lakewright.formats.deletion_vectors import Positions
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_file_reader import BucketReader
from lakewright.read.data_split import DataSplit
from lakewright.read.manifest_scan import FileSchemas
from lakewright.read.projection import plan_projection
from lakewright.read.split_planning import row_id_groups, split_of
from lakewright.read.split_reader import SplitReader
from lakewright.spec.manifest import APPEND, COMPACT, DataFile, IndexFile
from lakewright.spec.table_schema import BucketMode
from lakewright.spec.types import is_stored_apart
from lakewright.storage.concurrency import in_order

_FILES_READ = 2  # at a time, so that decoding goes on while rows are written
_AHEAD_BATCHES = 2
_UNBOUNDED = (1 << 62) - 1  # bytes or rows of a file that must not be split


def read_rows(store: TableStore, split: DataSplit, columns: Sequence[str] | None = None) -> Generator[pa.RecordBatch]:
    """Yield the live rows of a split in file order: some columns, or all and those of `preserved_fields`.

    If the split names no deletion vectors, deleted rows come too. While the rows of one file are used, the next file is
    decoded, if the table's option allows two threads.
    """
    carried = preserved_fields(store.schema)
    names = columns or [field.name for field in (*store.schema.fields, *carried)]
    # Descriptors are copied as they are: those of columns without files of their own are stored in the rows.
    projection = replace(plan_projection(store.schema.fields, names, hidden=carried), blobs="descriptor")
    units = SplitReader(store, FileSchemas(store), projection).units(split)
    threads = min(_FILES_READ, store.options.lakewright_write_threads)
    return in_order(units, threads=threads, ahead_max=_AHEAD_BATCHES)


def write_rows(
    output: BucketOutput, plan: FilePlan, rows: Generator[pa.RecordBatch], *, first_number: int | None = None
) -> tuple[DataFile, ...]:
    """Write rows as files of a plan; with `first_number` they get sequence numbers that count up from it."""
    sink = output.open(plan, numbers=None if first_number is None else SequenceNumbers(first_number))
    with closing(rows):
        for batch in rows:
            sink.write(pa.Table.from_batches([batch]))
    return sink.finish()


def rewrite_append(store: TableStore, task: CompactTask, output: BucketOutput) -> CommitMessage:
    """Write the rows of a task's files to new files, in order; `fold_vectors` adds old index files to the message."""
    evolves = store.options.data_evolution_enabled
    split = task_split(store, task)
    index: IndexFile | None = None
    if evolves:
        files = _in_range(store, task, output, replace(split, deletion_files=()))
        index = _moved_vectors(store, task, output, split, files)
    else:
        plan = FilePlan.for_copied_rows(store.schema, preserved_fields(store.schema), source=COMPACT)
        first = task.files[0].min_sequence_number
        files = write_rows(output, plan, read_rows(store, split), first_number=first)
        if store.schema.bucket_mode is BucketMode.HASH_FIXED:
            files = cap_sequence_numbers(files, max(file.max_sequence_number for file in task.files))
    message = task_message(store, task, output, files)
    return message if index is None else replace(message, compact_new_index_files=(index,))


def task_split(store: TableStore, task: CompactTask) -> DataSplit:
    """Return the files of a task as a split whose rows can be read."""
    groups = row_id_groups(task.files) if store.options.data_evolution_enabled else [(file,) for file in task.files]
    deletions = deletions_of(store, (task.partition, task.bucket), task.vectors)
    return split_of(store, task.snapshot_id, (task.partition, task.bucket, task.total_buckets), groups, deletions)


def task_message(
    store: TableStore, task: CompactTask, output: BucketOutput, files: tuple[DataFile, ...]
) -> CommitMessage:
    """Return the message of a task that puts new files in the place of its own."""
    return CommitMessage(
        partition_bytes=task.partition,
        bucket=task.bucket,
        total_buckets=task.total_buckets,
        compact_before=task.files,
        compact_after=files,
        table=store.identity,
        schema_id=store.schema.id,
        write_id=output.stem,
        partition_types=tuple(str(dtype) for dtype in store.partition_types),
    )


def _in_range(
    store: TableStore,
    task: CompactTask,
    output: BucketOutput,
    split: DataSplit,
) -> tuple[DataFile, ...]:
    """Write neighbouring groups as files with all columns, each with the id of its first row.

    Columns in BLOB and VECTOR files stay there: these files keep their row ids. Other readers expect that such a file
    has rows of one normal file, so the rows of a task become one file.
    """
    # The source is APPEND although a compaction makes them, as in other implementations.
    inline = inline_columns(FileSchemas(store), task.files)
    apart = [field for field in store.schema.fields if is_stored_apart(field.type) and field.id not in inline]
    plan = FilePlan.for_copied_rows(store.schema, source=APPEND).without(apart)
    if apart:
        plan = replace(plan, file_bytes_max=_UNBOUNDED, file_rows_max=_UNBOUNDED)
    low = min(file.min_sequence_number for file in task.files)
    high = max(file.max_sequence_number for file in task.files)
    row_id = split.files[0].first_row_id or 0
    files = []
    columns = [field.name for field in plan.fields]
    for file in write_rows(output, plan, read_rows(store, split, columns)):
        files.append(replace(file, first_row_id=row_id, min_sequence_number=low, max_sequence_number=high))
        row_id += file.row_count
    return tuple(files)


def _moved_vectors(
    store: TableStore, task: CompactTask, output: BucketOutput, split: DataSplit, files: Iterable[DataFile]
) -> IndexFile | None:
    """Write the deletion vectors of the groups for the new files, in which the same row ids stay deleted."""
    source = BucketReader(store, FileSchemas(store), task.partition, task.bucket)
    ids: list[Positions] = []
    for group in split.row_groups():
        deletion = split.deletion_of(group)
        positions = None if deletion is None else source.deleted_positions(split.files[group[0]], deletion)
        if positions is not None:
            ids.append(positions + np.uint64(split.files[group[0]].first_row_id or 0))
    if not ids:
        return None
    deleted = np.concatenate(ids)  # groups are in the order of their ids
    vectors: dict[str, Positions] = {}
    for file in files:
        first = file.first_row_id or 0
        low, high = np.searchsorted(deleted, np.array([first, first + file.row_count], np.uint64))
        if low < high:
            vectors[file.file_name] = deleted[low:high] - np.uint64(first)
    return write_vectors(store, output, vectors)

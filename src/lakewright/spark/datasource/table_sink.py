"""The sink behind `write.format("lakewright")` and `INSERT INTO` a view: the rows of a frame in, one snapshot out.

Every task writes the rows it has (`sink`): rows of a bucket come in files of several tasks, in disjoint ranges of
sequence numbers, so the later row of a key wins.

Always holds: a frame is published once or not at all, and after every task's messages arrived. Columns that do not fit
are refused before any task runs. Nothing is removed once somebody began to publish.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import types as sql

from lakewright.calls import merged_table
from lakewright.commit.message.message import CommitMessage
from lakewright.commit.plan import select_partitions
from lakewright.commit.table_commit import CommitResult
from lakewright.distributed.cleanup import remove_all, remove_all_but
from lakewright.distributed.job import JobEnd, publish_made
from lakewright.distributed.write_job import ONE_WRITER, sharing_buckets
from lakewright.errors import InvalidInputError, LakewrightError, UnsupportedError
from lakewright.spark.datasource.options import FORMAT, READ, READ_TASKS, SourceOptions
from lakewright.spark.datasource.sink import TaskWritten, changes_in, task_context, write_rows, written_in
from lakewright.spark.jobs.classes import DataSourceArrowWriter, WriterCommitMessage
from lakewright.spark.jobs.run import has_losers
from lakewright.spark.jobs.types import arrow_schema_of
from lakewright.spec.options import CoreOptions
from lakewright.table.table import FileStoreTable
from lakewright.write.writer import WriteJob

OVERWRITE_MODE, PARTITIONS, MERGE_SCHEMA = "partitionoverwritemode", "partitions", "mergeschema"
WRITE = frozenset({OVERWRITE_MODE, PARTITIONS, MERGE_SCHEMA})
SINK = WRITE | READ | {READ_TASKS}  # the words of reads are refused with a reason
_DYNAMIC = CoreOptions.DYNAMIC_PARTITION_OVERWRITE.key()


def table_sink(given: SourceOptions, schema: sql.StructType, *, overwrite: bool) -> TableSink:
    """Return the sink of one write, or say why the frame cannot be written."""
    if given.travels:
        raise InvalidInputError(
            "a view of an older snapshot, of changes, or of some columns or rows cannot be written: write through "
            "a view without these options, or with lakewright.spark.write_table(df, table)"
        )
    table = given.open()
    columns = arrow_schema_of(schema)
    if PARTITIONS in given.words and not overwrite:
        raise InvalidInputError(
            "the option 'partitions' says what an overwrite replaces; leave it out of mode('append') and INSERT INTO",
            option=PARTITIONS,
        )
    replaced = _replaced(given, table) if overwrite else None
    if given.switch(MERGE_SCHEMA):
        table = merged_table(table, pa.schema([field.with_nullable(True) for field in columns]))  # noqa: FBT003 - Arrow's
    if replaced is not None:
        table = table.copy({_DYNAMIC: str(replaced.dynamic).lower()})
    job = sharing_buckets(WriteJob.new(table.store, overwrite=overwrite))
    job.check_input(columns)
    return TableSink(table, job, replaced)


@dataclass(frozen=True, slots=True)
class ReplacedPartitions:
    """What an overwrite replaces: the partitions that a spec names, those of the new rows, or the whole table."""

    spec: Mapping[str, object]
    dynamic: bool


class TableSink(DataSourceArrowWriter):
    """Writes a frame: as a writer in tasks, and as the one who commits on the driver."""

    def __init__(self, table: FileStoreTable, job: WriteJob, replaced: ReplacedPartitions | None) -> None:
        self._table = table
        self._job = job
        self._replaced = replaced

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        """Write the rows of one task into files that no snapshot names yet."""
        context = task_context(self._table.name)
        rows = iterator if context.partitionId() == 0 else self._refused_if_any(iterator)
        return write_rows(self._job, context, rows)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Publish what all tasks wrote in one snapshot; where that fails, Spark calls `abort`."""
        written = written_in(messages)
        if len(written) != len(messages):
            raise LakewrightError(
                f"{self._table.name}: {len(messages) - len(written)} of {len(messages)} tasks sent no message; nothing "
                "was committed, write the frame again",
                table=self._table.name,
            )
        changes = changes_in(written)

        def remove_losers() -> None:
            if has_losers([task.answer for task in written]):
                remove_all_but(self._job.store, self._job.write_id, changes)

        clean_up = partial(remove_all, self._job.store, self._job.write_id)
        publish_made(partial(self._publish, changes), clean_up=clean_up, remove_losers=remove_losers)

    def _publish(self, changes: Sequence[CommitMessage]) -> JobEnd[CommitResult]:
        builder = self._table.new_batch_write_builder()
        if self._replaced is not None:
            builder = builder.overwrite(self._replaced.spec)
        with builder.new_commit() as commit:
            return JobEnd(commit.commit(changes))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove what the tasks wrote, unless somebody began to publish it.

        Nothing is published where a message is missing, so then all files of this write are removed, also those
        of attempts that sent no message. After a commit that failed all messages are here, and files that may have been
        published stay.
        """
        written = written_in(messages)
        if len(written) < len(messages):
            remove_all(self._job.store, self._job.write_id)
            return
        with self._table.new_batch_write_builder().new_commit() as commit:
            commit.abort(changes_in(written))

    def _refused_if_any(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task that is not the first; any row is an error where one task must write all rows."""
        for batch in batches:
            self._refuse_second_writer()
            yield batch

    def _refuse_second_writer(self) -> None:
        if self._table.schema.bucket_mode not in ONE_WRITER:
            return
        raise UnsupportedError(
            f"{self._table.name} has dynamic buckets, which need rows of a key to meet in one task, and "
            f'format("{FORMAT}") cannot ask Spark for that: use lakewright.spark.write_table(df, table), or let one '
            "task write with df.coalesce(1), in SQL SELECT /*+ COALESCE(1) */",
            table=self._table.name,
        )


def _replaced(given: SourceOptions, table: FileStoreTable) -> ReplacedPartitions:
    mode = given.words.get(OVERWRITE_MODE, "static").strip().lower()
    if mode not in {"static", "dynamic"}:
        raise InvalidInputError(f"partitionOverwriteMode is static or dynamic, not {mode!r}", option=OVERWRITE_MODE)
    spec = _spec(given.words.get(PARTITIONS))
    dynamic = mode == "dynamic"
    if OVERWRITE_MODE not in given.words and _DYNAMIC in given.table:
        dynamic = table.options.get(CoreOptions.DYNAMIC_PARTITION_OVERWRITE)
    if spec and dynamic:
        raise InvalidInputError(
            "the option 'partitions' names what is replaced, and partitionOverwriteMode=dynamic takes it from the "
            "rows: give one of them",
            table=table.name,
        )
    select_partitions(table.store, [spec])
    return ReplacedPartitions(spec, dynamic)


def _spec(text: str | None) -> dict[str, object]:
    """Read a partition spec: a JSON object, or `dt=2026-01-01/hour=3` with commas or slashes between."""
    if text is None or not text.strip():
        return {}
    if text.lstrip().startswith("{"):
        try:
            spec = json.loads(text)
        except json.JSONDecodeError as error:
            raise InvalidInputError(f"the option 'partitions' is no JSON object: {error}", option=PARTITIONS) from error
        return {str(key): value for key, value in spec.items()}
    pairs = [part.split("=", 1) for part in text.replace("/", ",").split(",")]
    if any(len(pair) != 2 for pair in pairs):  # noqa: PLR2004 - a name and a value
        raise InvalidInputError(
            f"the option 'partitions' is a JSON object or dt=2026-01-01/hour=3, not {text!r}", option=PARTITIONS
        )
    return {name.strip(): value.strip() for name, value in pairs}

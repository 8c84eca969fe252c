"""The sink behind `write.format("lakewright")` and `INSERT INTO` a view: the rows of a frame in, one snapshot out.

Spark plans the write in one process, sends the sink to the tasks, and lets a third process commit; all that the last
one knows of the tasks is in their messages. Every task writes the rows it has, into files of its own: rows of a bucket
come in files of several tasks, in disjoint ranges of sequence numbers, so the later row of a key wins.

Always holds: a frame is published once or not at all, and after every task's messages arrived. Columns that do not fit
are refused before any task runs. Nothing is removed once somebody began to publish.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as sql
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lakewright.calls import merged_table
from lakewright.commit.plan import select_partitions
from lakewright.distributed.cleanup import remove_all, remove_all_but
from lakewright.distributed.job import TaskId
from lakewright.distributed.messages import pack, unpack
from lakewright.distributed.write_job import ONE_WRITER, sharing_buckets
from lakewright.errors import InvalidInputError, LakewrightError, UnsupportedError
from lakewright.spark.datasource.options import FORMAT, READ, READ_TASKS, DoorOptions
from lakewright.spark.jobs.cleanup import drop_if_unheard, whole
from lakewright.spark.jobs.run import TaskAnswer, has_losers
from lakewright.spark.jobs.types import arrow_schema_of
from lakewright.spec.options import CoreOptions
from lakewright.table.table import FileStoreTable
from lakewright.write.writer import WriteJob

OVERWRITE_MODE, PARTITIONS, MERGE_SCHEMA = "partitionoverwritemode", "partitions", "mergeschema"
WRITE = frozenset({OVERWRITE_MODE, PARTITIONS, MERGE_SCHEMA})
_DYNAMIC = CoreOptions.DYNAMIC_PARTITION_OVERWRITE.key()


@dataclass
class TaskWritten(WriterCommitMessage):
    """What one task sends to the one who commits."""

    done: TaskAnswer


def table_sink(options: Mapping[str, str], schema: sql.StructType, *, overwrite: bool) -> TableSink:
    """Return the sink of one write, or say why the frame cannot be written."""
    said = DoorOptions.of(options, WRITE | READ | {READ_TASKS})
    if said.travels:
        raise InvalidInputError(
            "a view of an older snapshot, of changes, or of some columns or rows cannot be written: write through "
            "a view without these options, or with lakewright.spark.write_table(df, table)"
        )
    table = said.open()
    columns = arrow_schema_of(schema)
    if PARTITIONS in said.words and not overwrite:
        raise InvalidInputError(
            "the option 'partitions' says what an overwrite replaces; leave it out of mode('append') and INSERT INTO",
            option=PARTITIONS,
        )
    replaced = _replaced(said, table) if overwrite else None
    if said.switch(MERGE_SCHEMA):
        table = merged_table(table, pa.schema([field.with_nullable(True) for field in columns]))  # noqa: FBT003 - Arrow's
    if replaced is not None:
        table = table.copy({_DYNAMIC: str(replaced.dynamic).lower()})
    job = sharing_buckets(WriteJob.new(table.store, overwrite=overwrite))
    job.check_input(columns)
    return TableSink(table, job, replaced)


@dataclass(frozen=True, slots=True)
class Replaced:
    """What an overwrite replaces: the partitions that a spec names, those of the new rows, or the whole table."""

    spec: Mapping[str, object]
    dynamic: bool


class TableSink(DataSourceArrowWriter):
    """Writes a frame: as a writer in tasks, and as the one who commits on the driver."""

    def __init__(self, table: FileStoreTable, job: WriteJob, replaced: Replaced | None) -> None:
        self._table = table
        self._job = job
        self._replaced = replaced

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        """Write the rows of one task into files that no snapshot names yet."""
        context = TaskContext.get()
        if context is None:
            raise LakewrightError(f'{self._table.name}: format("{FORMAT}") writes in tasks of Spark, not elsewhere')
        this = TaskId(context.partitionId(), context.taskAttemptId())
        with self._job.open_writer(this.number, this.attempt) as writer:
            for batch in whole(iterator):
                if this.number > 0:
                    self._refuse_second_writer()
                writer.write(batch)
            payload = pack(writer.prepare())
        drop_if_unheard(self._job.store, self._job.write_id, this)
        return TaskWritten(TaskAnswer(this, payload))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Publish what all tasks wrote in one snapshot."""
        done = _done(messages)
        if len(done) != len(messages):
            raise LakewrightError(
                f"{self._table.name}: {len(messages) - len(done)} of {len(messages)} tasks sent no message; nothing "
                "was committed, write the frame again",
                table=self._table.name,
            )
        changes = [message for one in done for message in unpack(one.payload)]
        builder = self._table.new_batch_write_builder()
        if self._replaced is not None:
            builder = builder.overwrite(self._replaced.spec)
        with builder.new_commit() as commit:
            commit.commit(changes)
        if has_losers(done):
            remove_all_but(self._job.store, self._job.write_id, changes)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove what the tasks wrote, unless somebody began to publish it.

        Spark lets nobody publish where a message is missing, so then everything of this write can go, also what
        attempts that sent no message left behind. After a commit that failed all messages are here, and what may have
        been published stays.
        """
        done = _done(messages)
        if len(done) < len(messages):
            remove_all(self._job.store, self._job.write_id)
            return
        with self._table.new_batch_write_builder().new_commit() as commit:
            commit.abort([message for one in done for message in unpack(one.payload)])

    def _refuse_second_writer(self) -> None:
        if self._table.schema.bucket_mode not in ONE_WRITER:
            return
        raise UnsupportedError(
            f"{self._table.name} has dynamic buckets, which need rows of a key to meet in one task, and "
            f'format("{FORMAT}") cannot ask Spark for that: use lakewright.spark.write_table(df, table), or let one '
            "task write with df.coalesce(1), in SQL SELECT /*+ COALESCE(1) */",
            table=self._table.name,
        )


def _done(messages: Sequence[WriterCommitMessage | None]) -> list[TaskAnswer]:
    return [message.done for message in messages if isinstance(message, TaskWritten)]


def _replaced(said: DoorOptions, table: FileStoreTable) -> Replaced:
    mode = said.words.get(OVERWRITE_MODE, "static").strip().lower()
    if mode not in {"static", "dynamic"}:
        raise InvalidInputError(f"partitionOverwriteMode is static or dynamic, not {mode!r}", option=OVERWRITE_MODE)
    spec = _spec(said.words.get(PARTITIONS))
    dynamic = mode == "dynamic"
    if OVERWRITE_MODE not in said.words and _DYNAMIC in said.table:
        dynamic = table.options.get(CoreOptions.DYNAMIC_PARTITION_OVERWRITE)
    if spec and dynamic:
        raise InvalidInputError(
            "the option 'partitions' names what is replaced, and partitionOverwriteMode=dynamic takes it from the "
            "rows: give one of them",
            table=table.name,
        )
    select_partitions(table.store, [spec])
    return Replaced(spec, dynamic)


def _spec(text: str | None) -> dict[str, object]:
    """Read a partition spec: a JSON object, or `dt=2026-01-01/hour=3` with commas or slashes between."""
    if text is None or not text.strip():
        return {}
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text)
        except json.JSONDecodeError as error:
            raise InvalidInputError(f"the option 'partitions' is no JSON object: {error}", option=PARTITIONS) from error
        return {str(key): value for key, value in found.items()}
    pairs = [part.split("=", 1) for part in text.replace("/", ",").split(",")]
    if any(len(pair) != 2 for pair in pairs):  # noqa: PLR2004 - a name and a value
        raise InvalidInputError(
            f"the option 'partitions' is a JSON object or dt=2026-01-01/hour=3, not {text!r}", option=PARTITIONS
        )
    return {name.strip(): value.strip() for name, value in pairs}

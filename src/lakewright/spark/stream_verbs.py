"""`foreach_batch`, `write_stream`, `read_stream`.

query = write_stream(df, table, checkpoint="/lake/checkpoints/orders", mode="upsert")
    changes = read_stream(spark, table, row_kinds=True)

Invariant: every row of a stream is in the table once, however often the query was stopped, killed or restarted from
its checkpoint. A stream commits under the id of its query, which Spark keeps in the checkpoint, and the number of the
batch: a batch that was committed already is not written again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakewright.dml.distributed_write import new_job
from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.read.projection import ROW_KIND
from lakewright.spark.data_sinks import stream_user
from lakewright.spark.data_source import bound_format
from lakewright.spark.frame_columns import with_table_names
from lakewright.spark.frame_write import write_micro_batch
from lakewright.spark.spark_features import Feature, require
from lakewright.spark.spark_session import in_session_zone, require_spark_executors
from lakewright.spark.spark_types import arrow_schema_of, spark_schema
from lakewright.spark.stream_source import stream_read
from lakewright.spec import argument_checks
from lakewright.spec.argument_checks import PathLike, SchemaMode, TimestampLike, WriteMode
from lakewright.spec.filter_text import parse_predicate
from lakewright.spec.filters import Filter, to_predicate
from lakewright.spec.table_options import TableOptions
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.open_table import open_table
from lakewright.table.table_views import AuditLog
from lakewright.table.verbs import check_concurrency, check_write_mode, refuse_lookup

_OUTPUT_MODES = {"append": "append", "upsert": "update", "delete": "update", "overwrite": "complete"}
_IGNORE_EMPTY = TableOptions.snapshot_ignore_empty_commit.key()


@dataclass
class BatchWriter:
    """Writes each batch of a streaming query into a table, once; a function for `foreachBatch`.

    Over Spark Connect it is pickled and runs beside the server: lakewright must be installed there, and the table and
    its storage reachable.
    """

    table: FileStoreTable
    checkpoint: str
    mode: WriteMode = "append"
    concurrency: int | None = None
    schema_mode: SchemaMode | None = None
    _query_id: str | None = field(default=None, init=False, repr=False)

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Write one batch and commit it under the query's name and the batch's number."""
        if self._query_id is None:
            self._query_id = query_id_of(df.sparkSession, self.checkpoint)
        user = stream_user(self._query_id, self.mode)
        write_micro_batch(
            df,
            self.table,
            batch_id,
            commit_user=user,
            mode=self.mode,
            concurrency=self.concurrency,
            schema_mode=self.schema_mode,
        )


def foreach_batch(
    table: FileStoreTable | PathLike,
    *,
    checkpoint: str,
    mode: WriteMode = "append",
    concurrency: int | None = None,
    schema_mode: SchemaMode | None = None,
) -> BatchWriter:
    """Return a function for `writeStream.foreachBatch(...)` that writes every batch into a table, once.

    `checkpoint` is the `checkpointLocation` of the query. `mode` is append, upsert, delete or overwrite: the rows of a
    batch update those with their keys, are the keys of rows to delete, or replace the whole table, as a query in
    complete mode wants it. Rows are brought to the tasks that write their buckets, `concurrency` of them at most, so
    every kind of table can be written. A column `_row_kind` says what happens to each row. `schema_mode="merge"` first
    adds the columns, and widens the types, that a batch has and the table lacks.

    A function of your own may call several of these for one batch: one per table, or for one table two, of which one
    has the mode delete and the other another mode.
    """
    target = open_table(table) if isinstance(table, str | os.PathLike) else table
    check_write_mode(target, mode, schema_mode)
    check_concurrency(concurrency)
    if not checkpoint or not isinstance(checkpoint, str | PurePath):
        raise InvalidInputError(f"{target.name}: checkpoint is the location of the query's state, not {checkpoint!r}")
    if _IGNORE_EMPTY not in target.schema.options:
        target = target.copy({_IGNORE_EMPTY: "true"})  # an empty batch that is run again is empty again
    return BatchWriter(target, str(checkpoint), mode, concurrency, schema_mode)


def write_stream(  # noqa: PLR0913 - each argument is one choice of the caller
    df: DataFrame,
    table: FileStoreTable | PathLike,
    *,
    checkpoint: str,
    mode: WriteMode = "append",
    trigger: Mapping[str, str | bool] | None = None,
    output_mode: str | None = None,
    query_name: str | None = None,
    concurrency: int | None = None,
) -> StreamingQuery:
    """Start a query that writes a streaming frame into a table, every row once, and return it.

    `trigger` is what `DataStreamWriter.trigger` takes: `{"availableNow": True}` or `{"processingTime": "10 seconds"}`.
    The output mode is update for upserts and deletes, complete for overwrites, and append otherwise, unless it is
    given. Start the query again with the same checkpoint to go on where it stopped.
    """
    if not getattr(df, "isStreaming", False):
        raise InvalidInputError("this frame is no stream: write it with lakewright.spark.write_table(df, table)")
    require_spark_executors(df.sparkSession, "write_stream", "use lakewright.spark.write_table with a job_id")
    writes = foreach_batch(table, checkpoint=checkpoint, mode=mode, concurrency=concurrency)
    if trigger is not None and not isinstance(trigger, Mapping):
        raise InvalidInputError(f"trigger is a mapping such as {{'availableNow': True}}, not {trigger!r}")
    columns = arrow_schema_of(with_table_names(df, writes.table.store).schema)
    new_job(writes.table.store, mode).check_input(columns)
    if mode == "upsert":
        refuse_lookup(writes.table, columns.names)
    writer = df.writeStream.outputMode(output_mode or _OUTPUT_MODES[mode])
    writer = writer.option("checkpointLocation", writes.checkpoint).foreachBatch(writes)
    if query_name is not None:
        writer = writer.queryName(query_name)
    if trigger is not None:
        writer = writer.trigger(**trigger)  # type: ignore[arg-type]
    return writer.start()


def read_stream(  # noqa: PLR0913 - each argument is one way to say what to read
    spark: SparkSession,
    table: FileStoreTable | AuditLog | PathLike,
    *,
    from_snapshot: int | None = None,
    from_timestamp: TimestampLike | None = None,
    latest: bool = False,
    filter: Filter | None = None,  # noqa: A002 - the word every reader of tables uses
    columns: Sequence[str] | None = None,
    row_kinds: bool = False,
    consumer_id: str | None = None,
    max_files_per_trigger: int | None = None,
    max_rows_per_trigger: int | None = None,
    max_bytes_per_trigger: int | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return a streaming frame of a table: what it holds, then what every new snapshot changes.

    `latest` leaves out the rows that the table holds now, `from_snapshot` begins with the changes of a snapshot,
    `from_timestamp` with the first snapshot of that time or later; the table's option `scan.mode` has more choices.
    `row_kinds` puts a column `_row_kind` first, and only with it rows that are deleted or replaced are read; the logs
    `db.t$audit_log` and `db.t$binlog` have the kinds in a column of their own. With a
    `consumer_id` the progress is recorded in the table, and snapshots that are still to be read do not expire. The
    limits of a batch need PySpark 4.2.

    `options` are those of the storage, for a table that is given by its path.
    """
    require(Feature.PYTHON_SOURCE, "read_stream")
    require_spark_executors(spark, "read_stream", "use lakewright.spark.read_table(..., incremental=...)")
    given_table = open_table(table, options) if isinstance(table, str | os.PathLike) else table
    log = type(given_table) if isinstance(given_table, AuditLog) else None
    own = in_session_zone(spark, given_table.table if isinstance(given_table, AuditLog) else given_table)
    target = own if log is None else log(own)
    fields = columns if columns is not None else target.field_names
    names = [ROW_KIND, *fields] if row_kinds and log is None else list(fields)
    condition = _text(own, filter)
    read = stream_read(target, names, condition)  # refuses what it does not understand before Spark is asked
    given = {
        "filter": condition,
        "maxFilesPerTrigger": max_files_per_trigger,
        "maxRowsPerTrigger": max_rows_per_trigger,
        "maxBytesPerTrigger": max_bytes_per_trigger,
        TableOptions.consumer_id.key(): consumer_id,
    }
    source_options = {key: str(value) for key, value in given.items() if value is not None}
    source_options |= _start(own, from_snapshot, from_timestamp, latest=latest)
    reader = spark.readStream.format(bound_format(spark, target)).schema(spark_schema(read.projection.fields))
    return reader.options(**source_options).load()


def query_id_of(spark: SparkSession, checkpoint: str) -> str:
    """Return the id of the query of a checkpoint: Spark writes it into the checkpoint before the first batch."""
    try:
        (row,) = spark.read.text(f"{checkpoint}/metadata", wholetext=True).collect()
        return str(json.loads(row[0])["id"])
    except (AnalysisException, ValueError, KeyError) as error:
        raise InvalidInputError(
            f"there is no streaming query with its checkpoint in {checkpoint!r}: give foreach_batch the same location "
            "as the option checkpointLocation of the query",
            checkpoint=checkpoint,
        ) from error


def _text(table: FileStoreTable, condition: Filter | None) -> str | None:
    """Return a filter as text, which is all that an option can carry."""
    if condition is None or isinstance(condition, str):
        return condition
    predicate = to_predicate(condition, table.fields)
    text = str(predicate)
    try:
        same = parse_predicate(text, table.fields) == predicate
    except InvalidInputError:
        same = False
    if not same:
        raise UnsupportedError(
            f"{table.name}: the filter {text} cannot be handed on to Spark's processes as it is; give it as text",
            table=table.name,
        )
    return text


def _start(
    table: FileStoreTable, snapshot: int | None, moment: TimestampLike | None, *, latest: bool
) -> dict[str, str]:
    """Return where to begin, as options of the table."""
    millis = argument_checks.check_optional(argument_checks.to_epoch_millis, "from_timestamp", moment)
    ways = {
        "from-snapshot": (TableOptions.scan_snapshot_id, snapshot),
        "from-timestamp": (TableOptions.scan_timestamp_millis, millis),
    }
    chosen = {mode: (option.key(), str(value)) for mode, (option, value) in ways.items() if value is not None}
    if len(chosen) + latest > 1:
        raise InvalidInputError(f"{table.name}: give one of from_snapshot, from_timestamp and latest, not several")
    if latest:
        return {TableOptions.scan_mode.key(): "latest"}
    return {key: text for mode, named in chosen.items() for key, text in ((TableOptions.scan_mode.key(), mode), named)}

"""Streams in both directions: frames that grow into a table, and a table that grows into a frame.

    query = write_stream(df, table, checkpoint="/lake/checkpoints/orders", mode="upsert")
    changes = read_stream(spark, table, row_kinds=True)

Always holds: every row of a stream is in the table once, however often the query was stopped, killed or restarted from
its checkpoint. A stream commits under the id of its query, which Spark keeps in the checkpoint, and the number of the
batch: a batch that is there already is not written again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakewright.catalog.open import open_table
from lakewright.errors import InvalidInputError
from lakewright.spark.sink import stream_user, stream_writer
from lakewright.spark.stream_source import stream_reader
from lakewright.spark.write import write_micro_batch
from lakewright.table import FileStoreTable

__all__ = ["foreach_batch", "stream_reader", "stream_writer", "write_stream"]

_OUTPUT_MODES = {"append": "append", "upsert": "update", "delete": "update", "overwrite": "complete"}


@dataclass
class BatchWriter:
    """Writes each batch of a streaming query, once; what `foreachBatch` takes.

    Over Spark Connect it is pickled and runs beside the server, where the table must be reachable and lakewright
    installed.
    """

    table: FileStoreTable
    checkpoint: str
    mode: str = "append"
    concurrency: int | None = None
    _query_id: str | None = field(default=None, init=False, repr=False)

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Write one batch and commit it under the query's name and the batch's number."""
        if self._query_id is None:
            self._query_id = query_id_of(df.sparkSession, self.checkpoint)
        user = stream_user(self._query_id, self.mode)
        write_micro_batch(df, self.table, batch_id, commit_user=user, mode=self.mode, concurrency=self.concurrency)


def foreach_batch(
    table: FileStoreTable | str,
    *,
    checkpoint: str,
    mode: str = "append",
    concurrency: int | None = None,
) -> BatchWriter:
    """Return a function for `writeStream.foreachBatch(...)` that writes every batch into a table, once."""
    target = open_table(table) if isinstance(table, str) else table
    return BatchWriter(target, checkpoint, mode, concurrency)


def write_stream(  # noqa: PLR0913 - each argument is one choice of the caller
    df: DataFrame,
    table: FileStoreTable | str,
    *,
    checkpoint: str,
    mode: str = "append",
    trigger: Mapping[str, object] | None = None,
    output_mode: str | None = None,
    query_name: str | None = None,
    concurrency: int | None = None,
) -> StreamingQuery:
    """Start a streaming query that writes a frame into a table, every row once."""
    if mode not in _OUTPUT_MODES:
        raise InvalidInputError(f"mode {mode!r} is none of {', '.join(_OUTPUT_MODES)}")
    writer = (
        df.writeStream.outputMode(output_mode or _OUTPUT_MODES[mode])
        .option("checkpointLocation", checkpoint)
        .foreachBatch(foreach_batch(table, checkpoint=checkpoint, mode=mode, concurrency=concurrency))
    )
    if query_name is not None:
        writer = writer.queryName(query_name)
    if trigger is not None:
        writer = writer.trigger(**trigger)  # type: ignore[call-overload]
    return writer.start()


def query_id_of(spark: SparkSession, checkpoint: str) -> str:
    """Return the id of the query that has a checkpoint, which Spark writes there before the first batch."""
    try:
        (row,) = spark.read.text(f"{checkpoint}/metadata", wholetext=True).collect()
        return str(json.loads(row[0])["id"])
    except (AnalysisException, ValueError, KeyError) as error:
        raise InvalidInputError(
            f"there is no streaming query with its checkpoint in {checkpoint!r}; give foreach_batch the same location "
            "as the option checkpointLocation of the query",
            checkpoint=checkpoint,
        ) from error

"""The Spark engine: distributed writes with one atomic commit, reads at Spark's own speed, streams and SQL."""

from lakewright.commit.table_commit import WriteResult
from lakewright.spark.calls import write_table
from lakewright.spark.datasource.streams import BatchWriter, foreach_batch, read_stream, write_stream
from lakewright.spark.datasource.views import attach
from lakewright.spark.ingestion.run import ingest
from lakewright.spark.jobs.session import local_session
from lakewright.spark.read.frame import read_table
from lakewright.spark.rows.merge import merge, upsert
from lakewright.spark.rows.row_ids import delete_by_row_id, update_by_row_id
from lakewright.spark.rows.verbs import delete, update
from lakewright.spark.statements.context import SQLContext, sql
from lakewright.spark.write.compaction import compact

__all__ = [
    "BatchWriter",
    "SQLContext",
    "WriteResult",
    "attach",
    "compact",
    "delete",
    "delete_by_row_id",
    "foreach_batch",
    "ingest",
    "local_session",
    "merge",
    "read_stream",
    "read_table",
    "sql",
    "update",
    "update_by_row_id",
    "upsert",
    "write_stream",
    "write_table",
]

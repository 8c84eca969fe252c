"""The Spark engine: distributed writes with one atomic commit, reads at Spark's own speed, streams and SQL."""

from lakewright.distributed import WriteResult
from lakewright.spark.compaction import compact
from lakewright.spark.ingestion import ingest, pipeline
from lakewright.spark.merging import merge, upsert
from lakewright.spark.read import read_table
from lakewright.spark.row_ids import delete_by_row_id, update_by_row_id
from lakewright.spark.rows import delete, update
from lakewright.spark.session import local_session
from lakewright.spark.streams import foreach_batch, read_stream, write_stream
from lakewright.spark.views import attach
from lakewright.spark.write import write_table

__all__ = [
    "WriteResult",
    "attach",
    "compact",
    "delete",
    "delete_by_row_id",
    "foreach_batch",
    "ingest",
    "local_session",
    "merge",
    "pipeline",
    "read_stream",
    "read_table",
    "update",
    "update_by_row_id",
    "upsert",
    "write_stream",
    "write_table",
]

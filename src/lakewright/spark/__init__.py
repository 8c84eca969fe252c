"""The Spark engine: distributed writes with one atomic commit, reads at Spark's own speed, streams and SQL."""

from lakewright.distributed import WriteResult
from lakewright.spark.ingest import pipeline
from lakewright.spark.merge import merge, upsert
from lakewright.spark.read import read_table
from lakewright.spark.session import local_session
from lakewright.spark.streams import foreach_batch, read_stream, write_stream
from lakewright.spark.views import attach
from lakewright.spark.write import write_table

__all__ = [
    "WriteResult",
    "attach",
    "foreach_batch",
    "local_session",
    "merge",
    "pipeline",
    "read_stream",
    "read_table",
    "upsert",
    "write_stream",
    "write_table",
]

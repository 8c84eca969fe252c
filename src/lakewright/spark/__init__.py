"""The Spark engine: distributed writes with one atomic commit, reads at Spark's own speed, streams and SQL."""

import importlib
import warnings
from typing import TYPE_CHECKING

from lakewright.commit.table_commit import WriteResult
from lakewright.errors import UnsupportedError
from lakewright.spark.data_source import attach
from lakewright.spark.frame_read import read_table
from lakewright.spark.published_tables import publish
from lakewright.spark.spark_ingest import ingest
from lakewright.spark.spark_session import local_session
from lakewright.spark.spark_verbs import (
    analyze,
    compact,
    compact_database,
    delete,
    delete_by_row_id,
    merge,
    transform,
    update,
    update_by_row_id,
    upsert,
    verify,
    write_table,
)
from lakewright.spark.stream_verbs import BatchWriter, foreach_batch, read_stream, write_stream

# PySpark 4.3 warns on nearly every call that it does not know pandas 3 yet. Rows travel as Arrow data here; this can go
# when a release of PySpark knows it.
warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)

__all__ = [
    "BatchWriter",
    "WriteResult",
    "analyze",
    "attach",
    "cdc",
    "compact",
    "compact_database",
    "delete",
    "delete_by_row_id",
    "foreach_batch",
    "ingest",
    "local_session",
    "merge",
    "publish",
    "read_stream",
    "read_table",
    "transform",
    "update",
    "update_by_row_id",
    "upsert",
    "verify",
    "write_stream",
    "write_table",
]

# Loaded when they are asked for. The statements are not in `__all__`: they load sqlglot, which programs without SQL do
# not need.
if TYPE_CHECKING:
    from lakewright.spark.change_capture import cdc as cdc
    from lakewright.spark.plain_calls import install as install
    from lakewright.spark.plain_calls import uninstall as uninstall
    from lakewright.spark.spark_sql_context import SQLContext as SQLContext
    from lakewright.spark.spark_sql_context import sql as sql
else:
    _LAZY = {
        "SQLContext": "spark_sql_context",
        "cdc": "change_capture",
        "install": "plain_calls",
        "sql": "spark_sql_context",
        "uninstall": "plain_calls",
    }

    def __getattr__(name: str) -> object:
        """Load SQL statements and change data capture when they are asked for."""
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            return getattr(importlib.import_module(f"lakewright.spark.{_LAZY[name]}"), name)
        except ModuleNotFoundError as cause:
            if cause.name != "sqlglot":
                raise
            msg = f"lakewright.spark.{name} needs the package sqlglot: pip install 'lakewright[sql]'"
            raise UnsupportedError(msg, extra="sql") from cause

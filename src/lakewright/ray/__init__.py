"""The Ray engine: lazy datasets of a table's rows, and distributed writes and changes with one atomic commit."""

from lakewright.commit.table_commit import WriteResult
from lakewright.ray.calls import write_table
from lakewright.ray.join import bucket_join
from lakewright.ray.read import read_table
from lakewright.ray.rows.merge import merge, upsert
from lakewright.ray.rows.row_ids import delete_by_row_id, read_by_row_id, update_by_row_id
from lakewright.ray.rows.verbs import compact, compact_database, delete, update
from lakewright.ray.sink import PaimonDatasink

__all__ = [
    "PaimonDatasink",
    "WriteResult",
    "bucket_join",
    "compact",
    "compact_database",
    "delete",
    "delete_by_row_id",
    "merge",
    "read_by_row_id",
    "read_table",
    "update",
    "update_by_row_id",
    "upsert",
    "write_table",
]

"""The Ray engine: lazy datasets of a table's rows, and distributed writes and changes with one atomic commit."""

from lakewright.commit.table_commit import WriteResult
from lakewright.ray.bucket_join import bucket_join
from lakewright.ray.dataset_read import read_table
from lakewright.ray.dataset_write import PaimonDatasink
from lakewright.ray.ray_verbs import (
    compact,
    compact_database,
    delete,
    delete_by_row_id,
    merge,
    read_by_row_id,
    transform,
    update,
    update_by_row_id,
    upsert,
    write_table,
)

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
    "transform",
    "update",
    "update_by_row_id",
    "upsert",
    "write_table",
]

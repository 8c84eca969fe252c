"""The Ray engine: lazy datasets of a table's rows, and distributed writes and changes with one atomic commit."""

from lakewright.commit.table_commit import WriteResult
from lakewright.ray.read import read_table
from lakewright.ray.rows.verbs import compact, delete, update
from lakewright.ray.write import write_table

__all__ = ["WriteResult", "compact", "delete", "read_table", "update", "write_table"]

"""The Ray engine: lazy datasets of a table's rows, and distributed writes with one atomic commit."""

from lakewright.commit.table_commit import WriteResult
from lakewright.ray.read import read_table
from lakewright.ray.write import write_table

__all__ = ["WriteResult", "read_table", "write_table"]

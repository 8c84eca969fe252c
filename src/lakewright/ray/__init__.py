"""The Ray engine: lazy datasets of a table's rows, and distributed writes and changes with one atomic commit."""

from lakewright.commit.table_commit import WriteResult
from lakewright.ray.calls import write_table
from lakewright.ray.read import read_table
from lakewright.ray.rows.merge import merge, upsert
from lakewright.ray.rows.verbs import compact, delete, update

__all__ = ["WriteResult", "compact", "delete", "merge", "read_table", "update", "upsert", "write_table"]

"""The Ray engine: lazy datasets of a table's rows, and distributed writes with one atomic commit."""

from lakewright.ray.read import read_table

__all__ = ["read_table"]

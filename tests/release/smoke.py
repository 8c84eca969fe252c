"""What a user does first, run by the Python that has nothing but the installed wheel: write a table and read it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pyarrow as pa

import lakewright as lw

with tempfile.TemporaryDirectory() as warehouse:
    catalog = lw.CatalogFactory.create({"warehouse": warehouse})
    catalog.create_database("d")
    for name, keys in (("appended", []), ("keyed", ["id"])):
        schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
        catalog.create_table(f"d.{name}", lw.Schema.from_pyarrow_schema(schema, primary_keys=keys))
        table = catalog.get_table(f"d.{name}")
        rows = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}, schema=schema)
        lw.write_table(rows, table)
        assert lw.read_table(table, filter="id > 1").sort_by("id").equals(rows.slice(1))

assert Path(lw.__file__).is_relative_to(sys.prefix), "the sources were read, not the installed wheel"

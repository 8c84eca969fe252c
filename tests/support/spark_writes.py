"""Tables, rows and checks for the tests of writes on Spark."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

import lakewright as lw
from contract.fault_enumerator import stray_files
from lakewright.table.file_store_table import FileStoreTable

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("day", pa.string()),
        pa.field("n", pa.int64()),
        pa.field("text", pa.string()),
    ]
)


def new_table(
    root: Path,
    *,
    keys: Sequence[str] = (),
    partitions: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    name: str = "t",
    columns: pa.Schema = COLUMNS,
) -> FileStoreTable:
    """Make a table in a warehouse below a directory."""
    catalog = lw.CatalogFactory.create({"warehouse": str(root / "warehouse")})
    catalog.create_database("d", True)  # noqa: FBT003 - pypaimon's order of arguments
    schema = lw.Schema.from_pyarrow_schema(
        columns, partition_keys=list(partitions), primary_keys=list(keys), options=dict(options or {})
    )
    catalog.create_table(f"d.{name}", schema, False)  # noqa: FBT003
    return catalog.get_table(f"d.{name}")


def rows_of(table: FileStoreTable) -> list[tuple[object, ...]]:
    """Return the rows of a table, sorted."""
    return sorted_rows(lw.read_table(table))


def sorted_rows(data: pa.Table) -> list[tuple[object, ...]]:
    """Return rows in an order of their own."""
    return sorted((tuple(row.values()) for row in data.to_pylist()), key=repr)


def assert_tidy(table: FileStoreTable) -> None:
    """Check that no file is left that nothing names, before any clean-up."""
    assert stray_files(table.store) == set()


def assert_tidy_after_cleanup(table: FileStoreTable) -> int:
    """Check that the removal of orphans finds every file that nothing names; return how many these were."""
    time.sleep(0.01)  # files of this very millisecond are too young
    removed = table.remove_orphan_files(older_than=time.time_ns() // 1_000_000).count
    assert_tidy(table)
    return removed

"""Small tables to read, made by the writer, and the golden tables opened without a catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from lakewright.metadata.schema_files import SchemaFiles
from lakewright.metadata.table_store import TableStore
from lakewright.spec.schema import Schema, new_table_schema
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.table_layout import Layout
from lakewright.table.write_builder import BatchWriteBuilder
from support.golden import WAREHOUSE


def new_table(
    root: Path,
    schema: pa.Schema,
    partition_keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    primary_keys: Sequence[str] = (),
) -> TableStore:
    """Make a table, of rows that are appended unless it gets primary keys."""
    wish = Schema.from_pyarrow_schema(schema, partition_keys, primary_keys, options or {})
    table_schema = new_table_schema(wish, time_millis=1)
    storage, layout = LocalStorage(durable=False), Layout(str(root))
    storage.make_directory(layout.schema_directory)
    assert storage.create(layout.schema_file(0), table_schema.to_json().encode())
    return TableStore("db.t", storage, layout, table_schema)


def append(store: TableStore, rows: pa.Table) -> None:
    """Commit rows."""
    builder = BatchWriteBuilder(store)
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(rows)
        commit.commit(write.prepare_commit())


def golden_store(name: str, options: Mapping[str, str] | None = None, branch: str = "main") -> TableStore:
    """Open a golden table with the schema that its options travel to."""
    database, table = name.split(".")
    storage, root = LocalStorage(), str(WAREHOUSE / f"{database}.db" / table)
    schema = SchemaFiles(storage, Layout(root, branch)).latest()
    assert schema is not None
    schema = schema.with_options(options or {})
    found = schema.table_options
    layout = Layout(
        root,
        branch,
        found.data_file_path_directory,
        found.index_file_in_data_file_dir,
    )
    return TableStore(name, storage, layout, schema)

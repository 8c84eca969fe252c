"""Primary-key tables of every bucket mode, and commits of nothing but index files."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.table_commit import BatchTableCommit
from lakewright.metadata.table_store import TableStore
from lakewright.read.read_builder import ReadBuilder
from lakewright.spec.schema import Schema, new_table_schema
from lakewright.spec.system_columns import VALUE_KIND
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.storage import Storage
from lakewright.storage.table_layout import Layout
from lakewright.table.write_builder import BatchWriteBuilder
from lakewright.write.bucket_routing import IndexChange
from lakewright.write.write_task import PartitionBucket, WriteTask


def keyed_store(
    root: Path,
    schema: pa.Schema,
    keys: tuple[Sequence[str], Sequence[str]],
    options: Mapping[str, object] | None = None,
    storage: Storage | None = None,
) -> TableStore:
    """Make a table; `keys` are its primary key and its partition key."""
    wish = Schema.from_pyarrow_schema(schema, primary_keys=keys[0], partition_keys=keys[1], options=options or {})
    table_schema = new_table_schema(wish, time_millis=1)
    found = table_schema.table_options
    layout = Layout(str(root), index_in_data_directory=found.index_file_in_data_file_dir)
    inner = LocalStorage(durable=False)
    inner.make_directory(layout.schema_directory)
    assert inner.create(layout.schema_file(0), table_schema.to_json().encode())
    return TableStore("db.t", storage or inner, layout, table_schema)


def new_task(store: TableStore, *, overwrite: bool = False) -> WriteTask:
    """Return the only task of a write."""
    return WriteTask(store, str(uuid.uuid4()), overwrite=overwrite)


def with_kinds(rows: pa.Table, kinds: Sequence[int] | None = None) -> pa.Table:
    """Put a column of row kinds before rows, as a router gets them."""
    column = pa.array(kinds or [0] * rows.num_rows, pa.int8())
    return rows.add_column(0, VALUE_KIND.name, column)


def index_messages(store: TableStore, changes: Mapping[PartitionBucket, IndexChange]) -> list[CommitMessage]:
    """Return messages of index files alone."""
    return [
        CommitMessage(
            partition_bytes=partition,
            bucket=bucket,
            new_index_files=change.new_index_files,
            hash_base=change.hash_base,
            table=store.identity,
            schema_id=store.schema.id,
            write_id="test",
            partition_types=tuple(str(dtype) for dtype in store.partition_types),
        )
        for (partition, bucket), change in changes.items()
    ]


def commit_index(store: TableStore, changes: Mapping[PartitionBucket, IndexChange], *, overwrite: bool = False) -> None:
    """Commit index files alone."""
    with BatchTableCommit(store, overwrite={} if overwrite else None, commit_user=str(uuid.uuid4())) as commit:
        commit.commit(index_messages(store, changes))


def committed(
    builder: BatchWriteBuilder, rows: pa.Table, row_kinds: Sequence[str] | str | None = None
) -> list[CommitMessage]:
    """Write and commit rows, and return the messages."""
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(rows, row_kinds=row_kinds)
        messages = write.prepare_commit()
        commit.commit(messages)
    return messages


def read_all(store: TableStore) -> pa.Table:
    """Read a whole table."""
    builder = ReadBuilder(store)
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())

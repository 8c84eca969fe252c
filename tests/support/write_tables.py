"""Small tables for the tests of this room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakewright.commit.commit_message import CommitMessage
from lakewright.metadata.table_store import TableStore
from lakewright.spec.schema import Schema, new_table_schema
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.storage import Storage
from lakewright.storage.table_layout import Layout


def new_store(
    root: Path,
    schema: pa.Schema,
    partition_keys: Sequence[str] = (),
    options: Mapping[str, object] | None = None,
    storage: Storage | None = None,
) -> TableStore:
    """Make an append table."""
    wish = Schema.from_pyarrow_schema(schema, partition_keys=partition_keys, options=options or {})
    table_schema = new_table_schema(wish, time_millis=1)
    inner = LocalStorage(durable=False)
    layout = Layout(str(root))
    inner.make_directory(layout.schema_directory)
    assert inner.create(layout.schema_file(0), table_schema.to_json().encode())
    return TableStore("db.t", storage or inner, layout, table_schema)


def paths(store: TableStore, messages: Sequence[CommitMessage]) -> list[str]:
    """Return the paths of the files that messages name, in order."""
    return [
        store.layout.data_file(store.partition_directory(m.partition_bytes), m.bucket, file)
        for m in messages
        for file in m.new_files
    ]


def written(store: TableStore, messages: Sequence[CommitMessage]) -> pa.Table:
    """Read back what messages name."""
    return pa.concat_tables([pq.ParquetFile(path).read() for path in paths(store, messages)])


def data_files(root: Path) -> list[Path]:
    """Return every file below the buckets of a table."""
    return sorted(p for p in root.rglob("bucket-*/*") if p.is_file())

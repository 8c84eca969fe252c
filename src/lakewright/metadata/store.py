"""One table as seen by a worker: where it is, how to reach it, its schema and options. Small, frozen, serialisable.

Writers, readers and committers all start from this value; it holds no session, no catalog and no open file. A commit
message carries the identity of the table it was written for, so that it cannot be committed to another one: a table
that was dropped and made again at the same place has another schema-0, and is another table.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, replace
from functools import lru_cache

from lakewright.errors import NotFoundError
from lakewright.metadata.changelogs import Changelogs
from lakewright.metadata.consumers import Consumers
from lakewright.metadata.manifests import Manifests
from lakewright.metadata.refs import Tags
from lakewright.metadata.schemas import Schemas
from lakewright.metadata.snapshots import Snapshots
from lakewright.spec.options import CoreOptions
from lakewright.spec.rows import decode_row
from lakewright.spec.schema import TableSchema
from lakewright.spec.types import DataType, Value
from lakewright.storage.base import Storage
from lakewright.storage.layout import Layout, partition_text

_IDENTITIES_MAX = 4096
_identities: dict[tuple[object, ...], str] = {}
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class TableStore:
    """A table's name, place, schema and options."""

    name: str  # "database.table", for messages
    storage: Storage
    layout: Layout
    schema: TableSchema  # the schema to read and write with; its options are the effective ones

    @property
    def identity(self) -> str:
        """The SHA-256 of the table's location and its first schema file, in hexadecimal."""
        # The schema's own time and columns are part of the key: a table made anew at this place has others.
        key = (self.layout.root, self.layout.branch, self.schema.id, self.schema.time_millis, self.schema.fields)
        found = _identities.get(key)
        if found is None:
            found = _digest(self)
            with _lock:
                if len(_identities) >= _IDENTITIES_MAX:
                    _identities.clear()
                _identities[key] = found
        return found

    @property
    def options(self) -> CoreOptions:
        """The effective options: those of the schema with the handle's own laid over them."""
        return self.schema.core_options

    @property
    def schemas(self) -> Schemas:
        """The table's schema files."""
        return Schemas(self.storage, self.layout)

    @property
    def snapshots(self) -> Snapshots:
        """The table's snapshot files and hints."""
        return Snapshots(self.storage, self.layout)

    @property
    def tags(self) -> Tags:
        """The table's tags."""
        return Tags(self.storage, self.layout)

    @property
    def consumers(self) -> Consumers:
        """How far the readers of streams have come."""
        return Consumers(self.storage, self.layout)

    @property
    def changelogs(self) -> Changelogs:
        """The expired snapshots that live on for their changelog."""
        return Changelogs(self.storage, self.layout)

    @property
    def manifests(self) -> Manifests:
        """The table's manifests and manifest lists."""
        return Manifests(self.storage, self.layout, self.partition_types, self.options)

    @property
    def partition_types(self) -> tuple[DataType, ...]:
        """The types of the partition columns, in partition key order."""
        return self.schema.partition_types

    def partition_values(self, partition: bytes) -> tuple[Value, ...]:
        """Decode a partition row."""
        return _decode(partition, self.partition_types)

    def partition_directory(self, partition: bytes) -> str:
        """Return the partition part of a data file's path, such as `dt=2026-01-01/hour=7`; empty without partitions."""
        options = self.options
        return partition_text(
            self.partition_values(partition),
            self.schema.partition_fields,
            default_name=options.get(CoreOptions.PARTITION_DEFAULT_NAME),
            legacy=options.get(CoreOptions.PARTITION_LEGACY_NAME),
        )

    def with_schema(self, schema: TableSchema) -> TableStore:
        """Return the same place seen with another schema."""
        return replace(self, schema=schema)


@lru_cache(maxsize=65536)
def _decode(partition: bytes, types: tuple[DataType, ...]) -> tuple[Value, ...]:
    return decode_row(partition, types)


def _digest(store: TableStore) -> str:
    path = store.layout.schema_file(0)
    try:
        first = store.storage.read(path)
    except FileNotFoundError:
        first = _root_schema(store)
    return hashlib.sha256(store.layout.branch_root.encode() + b"\0" + first).hexdigest()


def _root_schema(store: TableStore) -> bytes:
    """Return the first schema of the table itself: a branch keeps only those schemas that it was made with."""
    path = store.layout.for_branch("main").schema_file(0)
    try:
        return store.storage.read(path)
    except FileNotFoundError:
        raise NotFoundError(
            f"table {store.name}: its first schema is missing at {path}; was the table dropped?",
            table=store.name,
            path=path,
        ) from None

"""One table as seen by a worker: where it is, how to reach it, its schema and options. Small, frozen, serialisable.

Writers, readers and committers all start from this value; it holds no session, no catalog and no open file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

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


@dataclass(frozen=True, slots=True)
class TableStore:
    """A table's name, place, schema and options."""

    name: str  # "database.table", for messages
    storage: Storage
    layout: Layout
    schema: TableSchema  # the schema to read and write with; its options are the effective ones

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
    def manifests(self) -> Manifests:
        """The table's manifests and manifest lists."""
        return Manifests(self.storage, self.layout, self.partition_types, self.options)

    @property
    def partition_types(self) -> tuple[DataType, ...]:
        """The types of the partition columns, in partition key order."""
        return tuple(field.type for field in self.schema.partition_fields)

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

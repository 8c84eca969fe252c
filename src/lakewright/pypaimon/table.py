"""pypaimon's table: lakewright's, with the attributes and managers that scripts for pypaimon use."""

from __future__ import annotations

from typing import ClassVar

from lakewright.pypaimon.history.managers import ManagedTable
from lakewright.pypaimon.read.builder import ReadBuilder, StreamReadBuilder
from lakewright.pypaimon.values.options import CoreOptions
from lakewright.pypaimon.write import BatchWriteBuilder, PostponeFixedBucketWriteBuilder, StreamWriteBuilder
from lakewright.read import builder
from lakewright.read.changes import stream
from lakewright.spec.types import DataField


class FileStoreTable(ManagedTable):
    """A table with pypaimon's shapes."""

    __slots__ = ()
    _read_builder_class: ClassVar[type[builder.ReadBuilder]] = ReadBuilder
    _stream_read_builder_class: ClassVar[type[stream.StreamReadBuilder]] = StreamReadBuilder

    def new_batch_write_builder(self) -> BatchWriteBuilder:
        """Start a batch write: one writer (or many), one commit."""
        return BatchWriteBuilder(self)

    def new_write_builder(self) -> BatchWriteBuilder:
        """Start a batch write, under pypaimon-rust's name."""
        return BatchWriteBuilder(self)

    def new_stream_write_builder(self) -> StreamWriteBuilder:
        """Start a stream write: many commits, each with an identifier."""
        return StreamWriteBuilder(self)

    def new_postpone_fixed_bucket_write_builder(self) -> PostponeFixedBucketWriteBuilder:
        """Start a batch write straight into real buckets of a table that postpones them (`bucket` = -2)."""
        return PostponeFixedBucketWriteBuilder(self)

    @property
    def options(self) -> CoreOptions:
        """The effective options."""
        return CoreOptions(self.store.options.to_map())

    @property
    def is_primary_key_table(self) -> bool:
        """Whether the table has a primary key."""
        return bool(self.schema.primary_keys)

    @property
    def total_buckets(self) -> int:
        """The number of buckets that the option `bucket` says."""
        return self.store.options.bucket()

    @property
    def cross_partition_update(self) -> bool:
        """Whether an update may move a key to another partition."""
        return self.schema.crosses_partitions

    @property
    def trimmed_primary_keys(self) -> list[str]:
        """The primary key without the partition columns."""
        return list(self.schema.trimmed_primary_keys)

    @property
    def field_dict(self) -> dict[str, DataField]:
        """The columns by their names."""
        return {field.name: field for field in self.fields}

    @property
    def primary_keys_fields(self) -> list[DataField]:
        """The columns of the primary key."""
        return [self.field_dict[name] for name in self.primary_keys]

    @property
    def trimmed_primary_keys_fields(self) -> list[DataField]:
        """The columns of the primary key that are no partition columns."""
        return [self.field_dict[name] for name in self.trimmed_primary_keys]

    @property
    def partition_keys_fields(self) -> list[DataField]:
        """The partition columns."""
        return [self.field_dict[name] for name in self.partition_keys]

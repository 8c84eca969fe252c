"""pypaimon's table: lakewright's, with the attributes and managers that scripts for pypaimon use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, cast

from lakewright.catalog.open import open_at
from lakewright.errors import InvalidInputError, LakewrightError, TableNotExistException, UnsupportedError
from lakewright.metadata.store import placed
from lakewright.pypaimon.history.managers import ManagedTable
from lakewright.pypaimon.read.builder import ReadBuilder, StreamReadBuilder
from lakewright.pypaimon.values.identifier import Identifier
from lakewright.pypaimon.values.options import CoreOptions
from lakewright.pypaimon.values.table_schema import BucketMode, ShownSchema, TableSchema
from lakewright.pypaimon.values.types import field_from_core
from lakewright.pypaimon.values.words import TABLE_WORDS, speaking
from lakewright.pypaimon.write import BatchWriteBuilder, PostponeFixedBucketWriteBuilder, StreamWriteBuilder
from lakewright.read import builder
from lakewright.read.changes import stream
from lakewright.read.scan import travels, with_travelled_schema
from lakewright.spec import arguments
from lakewright.spec.types import DataField
from lakewright.storage.layout import Layout
from lakewright.storage.open import open_storage


@speaking(TABLE_WORDS)
class FileStoreTable(ManagedTable):
    """A table with pypaimon's shapes."""

    __slots__ = ()
    _read_builder_class: ClassVar[type[builder.ReadBuilder]] = ReadBuilder
    _stream_read_builder_class: ClassVar[type[stream.StreamReadBuilder]] = StreamReadBuilder

    @classmethod
    def from_path(cls, table_path: str, file_io_options: Mapping[str, object] | None = None) -> FileStoreTable:
        """Open the table at a path; the options are those of the storage. It is named `default.table`."""
        options = {key: str(value) for key, value in (file_io_options or {}).items()}
        storage, location = open_storage(table_path, options)
        name = Identifier.create("default", "table")
        try:
            return cls(name, open_at(name, storage, Layout(location.rstrip("/"))).store)
        except TableNotExistException as error:
            raise InvalidInputError(f"No schema found at path: {table_path}", path=table_path) from error

    @property
    def schema(self) -> ShownSchema:
        """The schema that reads and writes use; `schema()` returns it in pypaimon's form."""
        return ShownSchema.of(self.store.schema)

    @property
    def table_schema(self) -> TableSchema:  # type: ignore[override] # pypaimon's form
        """The schema that reads and writes use, with the effective options."""
        return TableSchema.of(self.store.schema)

    @property
    def fields(self) -> list[DataField]:
        """The columns in order."""
        return [field_from_core(field) for field in self.store.schema.fields]

    def bucket_mode(self) -> BucketMode:
        """Return how the bucket of a row is chosen."""
        return BucketMode.of(self.store.schema.bucket_mode)

    def copy(self, options: Mapping[str, object]) -> FileStoreTable:
        """Return the same table with more options; None removes one.

        With options that name a snapshot the table has the columns of that snapshot.
        """
        table = self.copy_without_time_travel(options)
        if not travels(table.store):
            return table
        try:
            store = with_travelled_schema(table.store)
        except LakewrightError:  # a read says what is wrong
            return table
        return table if store is None else replace(table, store=store)

    def copy_without_time_travel(self, options: Mapping[str, object]) -> FileStoreTable:
        """Return the same table with the same columns and more options; None removes one. Buckets stay as they are."""
        bucket = arguments.mapping("options", options).get("bucket") or self.total_buckets
        if str(bucket) != str(self.total_buckets):
            raise InvalidInputError(
                f"table {self.name}: Cannot change bucket number: it is {self.total_buckets}, and not {bucket}"
            )
        removed = {key for key, value in options.items() if value is None}
        kept = {key: value for key, value in self.store.schema.options.items() if key not in removed}
        schema = replace(self.store.schema, options=kept)
        base = replace(self, store=replace(self.store, schema=schema, layout=placed(self.store.layout, schema)))
        given = {key: value for key, value in options.items() if value is not None}
        return cast("FileStoreTable", super(FileStoreTable, base).copy(given))

    def drop_global_index(  # type: ignore[override] # pypaimon's arguments and result
        self,
        index_column: str,
        index_type: str = "btree",
        partition_filter: object = None,
        partitions: Mapping[str, object] | Sequence[Mapping[str, object]] | None = None,
        dry_run: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> int:
        """Drop the global indexes of a column, and return the number of their files."""
        if partition_filter is not None:
            raise UnsupportedError(f"{self.name}: drop_global_index takes no partition_filter here; give partitions")
        dropped = super().drop_global_index(index_column, index_type, partitions=partitions, dry_run=dry_run)
        return len(dropped.files)

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

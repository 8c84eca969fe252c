"""One table as seen by a worker: where it is, how to reach it, its schema and options. Small, frozen, serialisable.

Writers, readers and committers all start from this value; it holds no session, no catalog and no open file. It knows
from the moment it was opened which table it stands for: a table that was dropped and made again at the same place is
another one, and whoever reads or changes it through an old handle gets TableReplacedError. A commit message carries the
identity of the table it was written for, so that it cannot be committed to another one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache

from lakewright.errors import NotFoundError, TableNotExistException, naming
from lakewright.metadata.changelogs import Changelogs
from lakewright.metadata.consumers import Consumers
from lakewright.metadata.manifests import Manifests
from lakewright.metadata.refs import Tags
from lakewright.metadata.schemas import Origin, Schemas
from lakewright.metadata.snapshots import Snapshots
from lakewright.spec.options import CoreOptions
from lakewright.spec.rows import decode_row
from lakewright.spec.schema import TableSchema
from lakewright.spec.types import DataType, Value
from lakewright.storage.base import Storage
from lakewright.storage.layout import MAIN_BRANCH, Layout, partition_text

_IDENTITIES_MAX = 4096
_identities: dict[Origin, str] = {}
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class TableStore:
    """A table's name, place, schema and options."""

    name: str  # "database.table", for messages
    storage: Storage
    layout: Layout
    schema: TableSchema  # the schema to read and write with; its options are the effective ones
    origin: Origin | None = None  # which table it is; None: one that is only planned, of which nothing is checked

    @property
    def identity(self) -> str:
        """The SHA-256 of the table's location and its first schema file, in hexadecimal."""
        origin = self.origin
        if origin is None:
            return _first_digest(self)
        if origin.schema_id == 0:
            return origin.digest
        found = _identities.get(origin)
        if found is None:
            found = _first_digest(self)
            self.check_same_table()  # after the look at the first schema, which may be one of another table by now
            with _lock:
                if len(_identities) >= _IDENTITIES_MAX:
                    _identities.clear()
                _identities[origin] = found
        return found

    def check_same_table(self) -> None:
        """Raise TableReplacedError if another table has taken this one's place, TableNotExistException if it is gone.

        One small file is read.
        """
        with naming(self.name):
            self.schemas.check_origin()

    @contextmanager
    def naming_replaced(self) -> Iterator[None]:
        """Where a snapshot, tag or schema is missing because another table is there, raise that instead."""
        try:
            yield
        except NotFoundError:
            self.check_same_table()
            raise

    @property
    def options(self) -> CoreOptions:
        """The effective options: those of the schema with the handle's own laid over them."""
        return self.schema.core_options

    @property
    def schemas(self) -> Schemas:
        """The table's schema files."""
        return Schemas(self.storage, self.layout, self.origin)

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


def _first_digest(store: TableStore) -> str:
    """Return the digest of the first schema: of the branch, or of the table itself where the branch lacks it."""
    for layout in (store.layout, store.layout.for_branch(MAIN_BRANCH)):
        path = layout.schema_file(0)
        try:
            return store.schemas.digest(store.storage.read(path))
        except FileNotFoundError:
            continue
    raise TableNotExistException(
        f"table {store.name}: its first schema is missing at {path}; was the table dropped?",
        table=store.name,
        path=path,
    )

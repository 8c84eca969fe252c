"""System tables as pypaimon prints them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time
from typing import ClassVar, Self

from lakewright.pypaimon.compat_file_io import FileIO
from lakewright.pypaimon.compat_read import known_columns
from lakewright.pypaimon.compat_values import Identifier
from lakewright.spec.binary_row import decode_row
from lakewright.spec.manifest import EMPTY_ROW
from lakewright.spec.scalars import to_python
from lakewright.spec.types import DataType
from lakewright.table import system_tables, table_views
from lakewright.table.file_store_table import FileStoreTable

_SOURCES = {"APPEND": "0", "COMPACT": "1"}
_BUCKET_COLUMN = 9  # `total_buckets` of `$partitions`
_SOURCE_COLUMN = 17  # `file_source` of `$files`


class SystemReadBuilder(table_views.SystemReadBuilder):
    """Says what to read of a system table; columns that it lacks are left out with a warning."""

    def with_projection(self, projection: str | Sequence[str]) -> Self:
        """Keep only some columns, in this order."""
        if not projection:
            self._columns = None
            return self
        if isinstance(projection, str):
            return super().with_projection(projection)
        known = {field.name: field for field in self.source.columns}
        return super().with_projection(known_columns(self.source.name, projection, known))


class SystemTable(table_views.TableSystemTable):
    """One system table of one table."""

    __slots__ = ()
    system: ClassVar[str]
    null_partition: ClassVar[str] = "None"  # how a partition without a value is shown

    def __init__(self, base_table: FileStoreTable) -> None:
        made = system_tables.system_table(base_table, self.system)
        assert isinstance(made, table_views.TableSystemTable)  # noqa: S101 - the names of the classes below are those of tables
        super().__init__(self.system, made.columns, made.keys, base_table, made.rows)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.table,)

    @property
    def base_table(self) -> FileStoreTable:
        """The table that it tells about."""
        return self.table

    @property
    def file_io(self) -> FileIO:
        """The files of the storage in which the table lies."""
        return FileIO(self.table.store.storage)

    @property
    def identifier(self) -> Identifier:
        """The name in its parts."""
        owner = self.table.identifier
        made = Identifier.create(owner.database, owner.get_table_name(), owner.get_branch_name(), self.system)
        return Identifier.of(made)

    def new_read_builder(self) -> SystemReadBuilder:
        """Start a read."""
        return SystemReadBuilder(self)

    def _gather_rows(self) -> Iterator[tuple[object, ...]]:
        """Yield the rows with partitions as pypaimon writes them."""
        table = self.table
        default = table.store.options.partition_default_name
        at_partition = self.columns[0].name == "partition"
        for row in self.rows_of(table):
            name = row[0]
            if at_partition and isinstance(name, str):
                parts = (
                    f"{part.removesuffix(default)}{self.null_partition}" if part.endswith(f"={default}") else part
                    for part in name.split("/")
                )
                yield ("/".join(parts), *row[1:])
            else:
                yield row

    def rows_of(self, table: FileStoreTable) -> Iterator[tuple[object, ...]]:
        """Yield lakewright's rows."""
        return self.rows(table)


class SnapshotsTable(SystemTable):
    """The snapshots."""

    __slots__ = ()
    system = "snapshots"


class SchemasTable(SystemTable):
    """The schemas."""

    __slots__ = ()
    system = "schemas"


class OptionsTable(SystemTable):
    """The options."""

    __slots__ = ()
    system = "options"


class ManifestsTable(SystemTable):
    """The manifests of the newest snapshot."""

    __slots__ = ()
    system = "manifests"

    def rows_of(self, table: FileStoreTable) -> Iterator[tuple[object, ...]]:
        """Yield the manifests of the rows, without those of the changelog."""
        return system_tables.manifests(table, changelog=False)


class FilesTable(SystemTable):
    """The data files of the newest snapshot."""

    __slots__ = ()
    system = "files"

    def rows_of(self, table: FileStoreTable) -> Iterator[tuple[object, ...]]:
        """Yield the files with keys as JSON and sources by number."""
        for row in system_tables.files(table, json_key):
            source = _SOURCES.get(str(row[_SOURCE_COLUMN]))
            yield (*row[:_SOURCE_COLUMN], source, *row[_SOURCE_COLUMN + 1 :])


class PartitionsTable(SystemTable):
    """The partitions of the newest snapshot."""

    __slots__ = ()
    system = "partitions"

    def rows_of(self, table: FileStoreTable) -> Iterator[tuple[object, ...]]:
        """Yield the partitions with the number of their buckets that have files."""
        filled = Counter(row[0] for row in system_tables.buckets(table))
        for row in self.rows(table):
            yield (*row[:_BUCKET_COLUMN], filled[row[0]], *row[_BUCKET_COLUMN + 1 :])


class BucketsTable(SystemTable):
    """The buckets of the newest snapshot."""

    __slots__ = ()
    system = "buckets"
    null_partition = "__NULL__"


class TagsTable(SystemTable):
    """The tags."""

    __slots__ = ()
    system = "tags"


class BranchesTable(SystemTable):
    """The branches."""

    __slots__ = ()
    system = "branches"


class FileKeyRangesTable(SystemTable):
    """The data files of the newest snapshot and the ranges of their keys."""

    __slots__ = ()
    system = "file_key_ranges"

    def rows_of(self, table: FileStoreTable) -> Iterator[tuple[object, ...]]:
        """Yield the files with keys as JSON."""
        return system_tables.file_key_ranges(table, json_key)


class TableIndexesTable(SystemTable):
    """The index files of the newest snapshot."""

    __slots__ = ()
    system = "table_indexes"


class ConsumersTable(SystemTable):
    """The positions of readers of streams."""

    __slots__ = ()
    system = "consumers"


SYSTEM_TABLE_LOADERS: Mapping[str, type[SystemTable]] = {
    made.system: made
    for made in (
        SnapshotsTable,
        SchemasTable,
        OptionsTable,
        ManifestsTable,
        FilesTable,
        PartitionsTable,
        BucketsTable,
        TagsTable,
        BranchesTable,
        FileKeyRangesTable,
        TableIndexesTable,
        ConsumersTable,
    )
}
SYSTEM_TABLES = tuple(SYSTEM_TABLE_LOADERS)


def load(name: str, base_table: FileStoreTable) -> SystemTable | None:
    """Return a system table of a table; None where there is none of that name."""
    made = SYSTEM_TABLE_LOADERS.get(name)
    return None if made is None else made(base_table)


def json_key(key: bytes, types: Sequence[DataType]) -> str | None:
    """Return a key as JSON, such as `[1,"a"]`; None for tables without a primary key."""
    if not types or key == EMPTY_ROW:
        return None
    pairs = zip(decode_row(key, types), types, strict=True)
    values = [None if value is None else _plain(to_python(value, dtype)) for value, dtype in pairs]
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False, default=str)


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value.isoformat() if isinstance(value, date | time) else value

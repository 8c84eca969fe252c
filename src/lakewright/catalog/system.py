"""System tables: what a table's metadata says, as rows. `db.t$snapshots`, `$schemas`, `$options`, `$files` and others.

A system table is read like any other table: builder, filter, projection, limit, scan, splits. `db.t$audit_log` holds
the rows of the table itself, each with its row kind.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import pyarrow as pa

from lakewright.errors import ColumnNotExistException, InvalidInputError, NotFoundError, naming
from lakewright.read.builder import ReadBuilder
from lakewright.read.request import ReadRequest
from lakewright.read.scan import pick_snapshot
from lakewright.spec import arguments
from lakewright.spec.arrow import from_arrow_schema
from lakewright.spec.datafile import EMPTY_ROW, DataFile
from lakewright.spec.identifier import Identifier
from lakewright.spec.manifest import ManifestEntry
from lakewright.spec.options import CoreOptions
from lakewright.spec.predicate.builder import PredicateBuilder
from lakewright.spec.predicate.filters import Filter, to_predicate
from lakewright.spec.predicate.predicate import Predicate
from lakewright.spec.rows.binary_row import decode_row
from lakewright.spec.schema.table_schema import TableSchema
from lakewright.spec.stats import ColumnStats, field_stats
from lakewright.spec.types import DataField, DataType, RowType
from lakewright.spec.values import to_text
from lakewright.table.table import FileStoreTable

if TYPE_CHECKING:
    import pandas as pd

_AUDIT_LOG = "audit_log"
_LONG, _TEXT, _TIME = pa.int64(), pa.string(), pa.timestamp("ms")
_SNAPSHOTS = pa.schema(
    [
        pa.field("snapshot_id", _LONG, nullable=False),
        pa.field("schema_id", _LONG, nullable=False),
        pa.field("commit_user", _TEXT, nullable=False),
        pa.field("commit_identifier", _LONG, nullable=False),
        pa.field("commit_kind", _TEXT, nullable=False),
        pa.field("commit_time", _TIME, nullable=False),
        ("base_manifest_list", _TEXT),
        ("delta_manifest_list", _TEXT),
        ("changelog_manifest_list", _TEXT),
        ("total_record_count", _LONG),
        ("delta_record_count", _LONG),
        ("changelog_record_count", _LONG),
        ("watermark", _LONG),
        ("next_row_id", _LONG),
        ("writer_version", _TEXT),
    ]
)
_SCHEMAS = pa.schema(
    [
        pa.field("schema_id", _LONG, nullable=False),
        pa.field("fields", _TEXT, nullable=False),
        pa.field("partition_keys", _TEXT, nullable=False),
        pa.field("primary_keys", _TEXT, nullable=False),
        pa.field("options", _TEXT, nullable=False),
        ("comment", _TEXT),
        pa.field("update_time", _TIME, nullable=False),
    ]
)
_OPTIONS = pa.schema([pa.field("key", _TEXT, nullable=False), pa.field("value", _TEXT, nullable=False)])
_CONSUMERS = pa.schema(
    [pa.field("consumer_id", _TEXT, nullable=False), pa.field("next_snapshot_id", _LONG, nullable=False)]
)
_FILES = pa.schema(
    [
        ("partition", _TEXT),
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("file_path", _TEXT, nullable=False),
        pa.field("file_format", _TEXT, nullable=False),
        pa.field("schema_id", _LONG, nullable=False),
        pa.field("level", pa.int32(), nullable=False),
        pa.field("record_count", _LONG, nullable=False),
        pa.field("file_size_in_bytes", _LONG, nullable=False),
        ("min_key", _TEXT),
        ("max_key", _TEXT),
        pa.field("null_value_counts", _TEXT, nullable=False),
        pa.field("min_value_stats", _TEXT, nullable=False),
        pa.field("max_value_stats", _TEXT, nullable=False),
        ("min_sequence_number", _LONG),
        ("max_sequence_number", _LONG),
        ("creation_time", _TIME),
        ("deleteRowCount", _LONG),
        ("file_source", _TEXT),
        ("first_row_id", _LONG),
        ("write_cols", pa.list_(_TEXT)),
    ]
)


def system_table(table: FileStoreTable, name: str) -> SystemTable | AuditLog:
    """Return the system table of that name."""
    if name == _AUDIT_LOG:
        return AuditLog(table)
    if name not in _ROWS:
        known = ", ".join(f"${n}" for n in (*_ROWS, _AUDIT_LOG))
        raise NotFoundError(f"{table.name} has no system table ${name} (there are {known})", table=table.name)
    schema, rows = _ROWS[name]
    return SystemTable(table, name, schema, rows)


class KeyNames(list[str]):
    """The names of key columns: a list, as of other tables, that can also be called, as in pypaimon's system tables."""

    def __call__(self) -> list[str]:
        """Return the names."""
        return list(self)


class TableView(ABC):
    """What system tables show of themselves, under the names that a `FileStoreTable` has."""

    __slots__ = ()
    table: FileStoreTable

    @property
    @abstractmethod
    def name(self) -> str:
        """The full name, `database.table$name`."""

    @property
    @abstractmethod
    def fields(self) -> list[DataField]:
        """The columns in order."""

    @property
    @abstractmethod
    def primary_keys(self) -> KeyNames:
        """The columns that identify a row; empty where there are none. pypaimon's `primary_keys()` works as well."""

    @property
    def identifier(self) -> Identifier:
        """The name in its parts."""
        owner = self.table.identifier
        return Identifier(owner.database, owner.table, owner.branch, self.name.rpartition("$")[2])

    @property
    def field_names(self) -> list[str]:
        """The names of the columns in order."""
        return [field.name for field in self.fields]

    @property
    def partition_keys(self) -> list[str]:
        """No columns: a system table has no partitions."""
        return []

    @property
    def schema(self) -> TableSchema:
        """The columns and keys as a schema, with the id and the options of the table's own schema."""
        fields, own = tuple(self.fields), self.table.schema
        highest = max((field.id for field in fields), default=-1)
        return TableSchema(own.id, fields, highest, primary_keys=tuple(self.primary_keys), options=own.options)

    @property
    def options(self) -> CoreOptions:
        """The options of the table."""
        return self.table.options

    @property
    def table_path(self) -> str:
        """Where the table lies."""
        return self.table.table_path

    def comment(self) -> str | None:
        """Return nothing: system tables have no comment."""
        return None

    def row_type(self) -> RowType:
        """Return the columns as one ROW type."""
        return RowType(False, self.fields)  # noqa: FBT003 - a table's row is never null


@dataclass(frozen=True, slots=True)
class SystemTable(TableView):
    """One system table of one table."""

    table: FileStoreTable
    system_name: str
    arrow_schema: pa.Schema
    rows: Callable[[FileStoreTable], Iterator[tuple[object, ...]]]

    @property
    def name(self) -> str:
        """The full name, `database.table$name`."""
        return f"{self.table.name}${self.system_name}"

    @property
    def fields(self) -> list[DataField]:
        """The columns in order."""
        return list(from_arrow_schema(self.arrow_schema))

    @property
    def primary_keys(self) -> KeyNames:
        """The column that identifies a row; empty for `$files`. pypaimon's `primary_keys()` works as well."""
        return KeyNames([self.arrow_schema.names[0]] if self.system_name != "files" else [])

    def new_read_builder(self) -> SystemReadBuilder:
        """Start a read."""
        return SystemReadBuilder(self)

    def read_builder(self, request: ReadRequest) -> SystemReadBuilder:
        """Start the read that a request describes; system tables have no past states and no row kinds."""
        if request.travel_options(self.name) or request.row_kinds:
            raise InvalidInputError(f"{self.name} shows the table as it is: only filter, columns and limit fit it")
        builder = self.new_read_builder()
        if request.filter is not None:
            builder = builder.with_filter(request.filter)
        if request.columns is not None:
            builder = builder.with_projection(arguments.names("columns", request.columns))
        return builder.with_limit(request.limit)

    def to_arrow(self) -> pa.Table:
        """Return all rows."""
        columns = list(zip(*self.rows(self.table), strict=True)) or [()] * len(self.arrow_schema)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, self.arrow_schema, strict=True)]
        return pa.table(arrays, schema=self.arrow_schema)


@dataclass(frozen=True, slots=True)
class AuditLog(TableView):
    """The rows of a table with a first column `rowkind`; with `incremental-between` deleted rows too."""

    table: FileStoreTable
    kind_column: ClassVar[str] = "rowkind"

    @property
    def name(self) -> str:
        """The full name, `database.table$audit_log`."""
        return f"{self.table.name}${_AUDIT_LOG}"

    @property
    def fields(self) -> list[DataField]:
        """The columns in order."""
        return self.new_read_builder().read_type()

    @property
    def primary_keys(self) -> KeyNames:
        """No columns: the log may have several rows of one key."""
        return KeyNames()

    def copy(self, options: Mapping[str, object]) -> AuditLog:
        """Return the same log with more options, such as `{"incremental-between": "3,7"}`."""
        return AuditLog(self.table.copy(options))

    def new_read_builder(self) -> ReadBuilder:
        """Start a read."""
        return self.table.new_read_builder().with_include_row_kind(column=self.kind_column)

    def to_arrow(self) -> pa.Table:
        """Return all rows."""
        return self.new_read_builder().new_read().to_arrow()


ReadableTable: TypeAlias = FileStoreTable | SystemTable | AuditLog


@dataclass(frozen=True, slots=True)
class SystemReadBuilder:
    """Filter, projection and limit over a system table; builder, scan, plan and read in one small value."""

    source: SystemTable
    predicate: Predicate | None = None
    projection: tuple[str, ...] | None = None
    limit: int | None = None

    def with_filter(self, predicate: Filter) -> SystemReadBuilder:
        """Keep only matching rows."""
        with naming(self.source.name):
            return replace(self, predicate=to_predicate(predicate, self.source.fields))

    def with_projection(self, projection: str | Sequence[str]) -> SystemReadBuilder:
        """Keep only some columns."""
        names, known = arguments.names("columns", projection), self.source.arrow_schema.names
        for name in names:
            if name not in known:
                hint = arguments.did_you_mean(name, known)
                raise ColumnNotExistException(f"{self.source.name} has no column {name!r}; {hint}", column=name)
        return replace(self, projection=names)

    def with_limit(self, limit: int | None) -> SystemReadBuilder:
        """Keep only the first rows."""
        return replace(self, limit=arguments.optional(arguments.count, "limit", limit))

    def new_predicate_builder(self) -> PredicateBuilder:
        """Return a builder for predicates over the columns."""
        return PredicateBuilder(self.source.fields)

    def read_type(self) -> list[DataField]:
        """Return the columns of the result."""
        return [f for f in self.source.fields if self.projection is None or f.name in self.projection]

    def new_scan(self) -> SystemReadBuilder:
        """Return the scan, which is the builder itself."""
        return self

    def plan(self) -> SystemReadBuilder:
        """Return the plan, which is the builder itself."""
        return self

    def splits(self) -> list[SystemReadBuilder]:
        """Return the one split."""
        return [self]

    def new_read(self) -> SystemReadBuilder:
        """Return the reader, which is the builder itself."""
        return self

    def to_arrow(self, splits: Sequence[SystemReadBuilder] | None = None, parallelism: int | None = None) -> pa.Table:
        """Return the rows."""
        del splits, parallelism  # there is only one split
        rows = self.source.to_arrow()
        if self.predicate is not None:
            rows = rows.filter(self.predicate.to_arrow(rows.schema))
        if self.projection is not None:
            rows = rows.select(list(self.projection))
        return rows if self.limit is None else rows.slice(0, self.limit)

    def to_pandas(
        self, splits: Sequence[SystemReadBuilder] | None = None, parallelism: int | None = None
    ) -> pd.DataFrame:
        """Return the rows as a pandas frame."""
        frame: pd.DataFrame = self.to_arrow(splits, parallelism).to_pandas()
        return frame

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows as an Arrow stream."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def _snapshots(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    for snapshot_id in table.store.snapshots.ids():
        s = table.store.snapshots.get(snapshot_id)
        yield (
            s.id,
            s.schema_id,
            s.commit_user,
            s.commit_identifier,
            s.commit_kind.value,
            s.time_millis,
            s.base_manifest_list,
            s.delta_manifest_list,
            s.changelog_manifest_list,
            s.total_record_count,
            s.delta_record_count,
            s.changelog_record_count,
            s.watermark,
            s.next_row_id,
            s.writer_version,
        )


def _schemas(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    for schema in table.store.schemas.all():
        yield (
            schema.id,
            _compact([field.to_dict() for field in schema.fields]),
            _compact(list(schema.partition_keys)),
            _compact(list(schema.primary_keys)),
            _compact(dict(schema.options)),
            schema.comment,
            schema.time_millis,
        )


def _options(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    yield from sorted(table.schema.options.items())


def _consumers(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    yield from sorted(table.store.consumers.all().items())


def _files(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    snapshot = pick_snapshot(table.store)
    table.store.check_same_table()
    for entry in () if snapshot is None else table.store.manifests.live(snapshot):
        yield _file_row(table, entry)


def _file_row(table: FileStoreTable, entry: ManifestEntry) -> tuple[object, ...]:
    file = entry.file
    stats = _stats(table, file)
    keys = [field.type for field in table.schema.trimmed_primary_key_fields]
    return (
        table.store.partition_name(entry.partition) or None,
        entry.bucket,
        file.external_path or file.file_name,
        file.file_name.rsplit(".", 1)[-1],
        file.schema_id,
        file.level,
        file.row_count,
        file.file_size,
        _key_text(file.min_key, keys),
        _key_text(file.max_key, keys),
        _compact({f.name: None if s is None else s.null_count for f, s in stats.items()}),
        _compact({f.name: _bound(f, s, lower=True) for f, s in stats.items()}),
        _compact({f.name: _bound(f, s, lower=False) for f, s in stats.items()}),
        file.min_sequence_number,
        file.max_sequence_number,
        file.creation_time,
        file.delete_row_count,
        None if file.file_source is None else ("APPEND", "COMPACT")[file.file_source],
        file.first_row_id,
        None if file.write_cols is None else list(file.write_cols),
    )


def _stats(table: FileStoreTable, file: DataFile) -> dict[DataField, ColumnStats | None]:
    """Return the statistics of each current column, in the type that the file has; a column that it lacks is null."""
    written = table.store.schemas.get(file.schema_id).fields
    by_id = {field.id: field for field in written}
    stats: dict[DataField, ColumnStats | None] = {}
    for field in table.fields:
        stored = by_id.get(field.id)
        if stored is None:
            stats[field] = ColumnStats(None, None, file.row_count, all_null=True)
        else:
            stats[replace(stored, name=field.name)] = field_stats(file, stored.name, written)
    return stats


def _key_text(key: bytes, types: Sequence[DataType]) -> str | None:
    """Return a key in Java's text form, such as `[1, a]`; None for tables without a primary key."""
    if not types or key == EMPTY_ROW:
        return None
    values = zip(decode_row(key, types), types, strict=True)
    return f"[{', '.join('null' if value is None else to_text(value, dtype) for value, dtype in values)}]"


def _bound(field: DataField, stats: ColumnStats | None, *, lower: bool) -> str | None:
    value = None if stats is None else stats.min if lower else stats.max
    return None if value is None else to_text(value, field.type)


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


_ROWS: dict[str, tuple[pa.Schema, Callable[[FileStoreTable], Iterator[tuple[object, ...]]]]] = {
    "snapshots": (_SNAPSHOTS, _snapshots),
    "schemas": (_SCHEMAS, _schemas),
    "options": (_OPTIONS, _options),
    "files": (_FILES, _files),
    "consumers": (_CONSUMERS, _consumers),
}

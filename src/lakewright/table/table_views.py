"""System tables and views as readable tables: `$ro`, `$audit_log`, `$binlog`, `$row_tracking`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NoReturn, Self, TypeAlias

import pyarrow as pa

from lakewright.display import GRID_ROWS, grid
from lakewright.errors import (
    ColumnNotExistException,
    InvalidInputError,
    LakewrightError,
    UnsupportedError,
    with_table_name,
)
from lakewright.metadata.table_store import TableStore
from lakewright.read.fallback_branch import OtherBranch
from lakewright.read.projection import ROW_TRACKING_FIELDS, Projection, to_columns
from lakewright.read.read_builder import ReadBuilder, ReadRequest
from lakewright.read.stream_read import StreamReadBuilder
from lakewright.read.table_read import pandas_frame, polars_frame, register_in_duckdb
from lakewright.spec import argument_checks
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.filters import Filter, to_predicate
from lakewright.spec.identifier import Identifier
from lakewright.spec.predicate import TRUE, Predicate, PredicateBuilder, and_predicates, normalise
from lakewright.spec.table_options import CoreOptions, TableOptions
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import DataField, RowType
from lakewright.table.file_store_table import FileStoreTable

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl


# ---- The audit log ---------------------------------------------------------------------------------------------------
# The kind is a column like the others here: it can be named in a projection, and is left out by one that does not
# name it. In the binary log every other column is a list: the old and the new value of an update, else one value.

KIND_COLUMN = "rowkind"


class LogReadBuilder(ReadBuilder):
    """Says what to read of a log."""

    def __init__(self, store: TableStore, other: OtherBranch | None = None) -> None:
        super().__init__(store, other)
        self._names: tuple[str, ...] | None = None  # of the result, that of the kind included; None: all
        self.with_include_row_kind()

    def with_filter(self, predicate: Filter | None) -> Self:
        """Keep changes whose row fulfils a predicate on the columns of the table; calls add up."""
        try:
            return super().with_filter(predicate)
        except ColumnNotExistException as error:
            if error.facts.get("column") != KIND_COLUMN:
                raise
            raise UnsupportedError(
                f"{self._store.name}: a read cannot filter by {KIND_COLUMN}: filter what was read, or use SQL",
                table=self._store.name,
                column=KIND_COLUMN,
            ) from None

    def with_projection(self, projection: str | Sequence[str] | Mapping[str, str] | None) -> Self:
        """Read some columns, in this order; `rowkind` is one of them."""
        if projection is None or isinstance(projection, Mapping):
            self._names = None
            return super().with_projection(projection)
        given = to_columns("columns", projection) or ()
        own = [name for name in dict.fromkeys(given) if name != KIND_COLUMN]
        super().with_projection(own or [self._store.schema.fields[0].name])
        labels = dict(zip(own, (field.name for field in self._rows().fields[1:]), strict=False))
        self._names = tuple(dict.fromkeys(labels.get(name, name) for name in given))
        return self

    def with_include_row_kind(self, include: bool = True, column: str = KIND_COLUMN) -> Self:  # noqa: ARG002, FBT001, FBT002 - pypaimon's signature
        """Do nothing: a log always has the kinds, in its own column."""
        return super().with_include_row_kind(column=KIND_COLUMN)

    def _projection(self) -> Projection:
        made = self._rows()
        return made if self._names is None else made.with_columns(self._names)

    def _rows(self) -> Projection:
        """Return the projection before columns are left out and ordered."""
        return super()._projection()


class BinaryLogReadBuilder(LogReadBuilder):
    """Says what to read of a log in which an update is one row."""

    def with_filter(self, predicate: Filter | None) -> Self:
        """Keep changes by their partition and primary key, which the old and the new row of an update share."""
        if predicate is not None:
            schema = self._store.schema
            bound = LogReadBuilder(self._store).with_filter(predicate).predicate
            for name in sorted(bound.columns() - {*schema.partition_keys, *schema.primary_keys}):
                raise UnsupportedError(
                    f"{self._store.name}: {name} may differ in the two rows of an update, and a row of a binary log "
                    "holds both: filter what was read, or filter by the partition and the primary key",
                    table=self._store.name,
                    column=name,
                )
        return super().with_filter(predicate)

    def _rows(self) -> Projection:
        return super()._rows().in_lists()


class LogStreamReadBuilder(StreamReadBuilder):
    """Says what of a log to follow."""

    _builder_class: ClassVar[type[ReadBuilder]] = LogReadBuilder


class BinaryLogStreamReadBuilder(StreamReadBuilder):
    """Says what to follow of a log in which an update is one row."""

    _builder_class: ClassVar[type[ReadBuilder]] = BinaryLogReadBuilder


# ---- Views and their readers -----------------------------------------------------------------------------------------
# The rows of a system table are few: a plan gathers all of them, as one split. `db.t$audit_log` holds the rows of the
# table itself, each with its row kind.

AUDIT_LOG = "audit_log"
RowSource: TypeAlias = Callable[[FileStoreTable], Iterator[tuple[object, ...]]]
ColumnSource: TypeAlias = Callable[[FileStoreTable], Sequence[Sequence[object]]]


class KeyNames(list[str]):
    """The names of key columns: a list, as of other tables, that can also be called, as in pypaimon's system tables."""

    def __call__(self) -> list[str]:
        """Return the names."""
        return list(self)


class TableView(ABC):
    """What system tables show of themselves, under the names that a `FileStoreTable` has."""

    __slots__ = ()

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
    @abstractmethod
    def identifier(self) -> Identifier:
        """The name in its parts."""

    @property
    @abstractmethod
    def options(self) -> CoreOptions:
        """The options of what it is about."""

    @property
    @abstractmethod
    def table_path(self) -> str:
        """Where what it is about lies."""

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
        fields, options = tuple(self.fields), self.options.to_map()
        highest = max((field.id for field in fields), default=-1)
        keys = tuple(self.primary_keys)
        return TableSchema(self._schema_id(), fields, highest, primary_keys=keys, options=options)

    def _schema_id(self) -> int:
        return 0

    def comment(self) -> str | None:
        """Return nothing: system tables have no comment."""
        return None

    def row_type(self) -> RowType:
        """Return the columns as one ROW type."""
        return RowType(False, self.fields)  # noqa: FBT003 - a table's row is never null

    def new_batch_write_builder(self) -> NoReturn:
        """Raise UnsupportedError: a system table is never written."""
        raise self._read_only()

    def new_stream_write_builder(self) -> NoReturn:
        """Raise UnsupportedError: a system table is never written."""
        raise self._read_only()

    def new_stream_read_builder(self) -> StreamReadBuilder:
        """Raise UnsupportedError: only tables themselves and their logs are followed."""
        raise self._read_only()

    def _read_only(self) -> UnsupportedError:
        return UnsupportedError(
            f"System table is read-only: {self.name} can be read with new_read_builder(){self._remedy()}"
        )

    def _remedy(self) -> str:
        return ""


class ViewOfTable(TableView):
    """A view of one table, whose options and place it shows as its own."""

    __slots__ = ()
    table: FileStoreTable

    @property
    def identifier(self) -> Identifier:
        """The name in its parts."""
        owner = self.table.identifier
        return Identifier(owner.database, owner.table, owner.branch, self.name.rpartition("$")[2])

    @property
    def options(self) -> CoreOptions:
        """The options of the table."""
        return self.table.options

    @property
    def table_path(self) -> str:
        """Where the table lies."""
        return self.table.table_path

    def _schema_id(self) -> int:
        return self.table.schema.id

    def _remedy(self) -> str:
        return f"; write or follow {self.table.name} itself"


@dataclass(frozen=True, slots=True)
class SystemTable(TableView):
    """A table whose rows are gathered from metadata: one of a table, such as `db.t$files`, or of a catalog."""

    system_name: str
    columns: tuple[DataField, ...]
    keys: tuple[str, ...]

    @property
    def fields(self) -> list[DataField]:
        """The columns in order."""
        return list(self.columns)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns as an Arrow schema."""
        return to_arrow_schema(self.columns)

    @property
    def primary_keys(self) -> KeyNames:
        """The columns that identify a row. pypaimon's `primary_keys()` works as well."""
        return KeyNames(self.keys)

    def _repr_html_(self) -> str | None:
        """Show the first rows in a notebook."""
        with suppress(LakewrightError, OSError):
            rows = self.to_arrow()
            first = zip(*(column.to_pylist() for column in rows.slice(0, GRID_ROWS).columns), strict=True)
            return grid(rows.column_names, list(first), rows.num_rows)
        return None  # then the notebook shows the text

    def system_table_name(self) -> str:
        """Return the name behind the `$`."""
        return self.system_name

    def new_read_builder(self) -> SystemReadBuilder:
        """Start a read."""
        return SystemReadBuilder(self)

    def read_builder(self, request: ReadRequest) -> SystemReadBuilder:
        """Start the read that a request describes; system tables have no past states and no row kinds."""
        if request.travel_options(self.name) or request.row_kinds:
            raise InvalidInputError(f"{self.name} shows the table as it is: only filter, columns and limit fit it")
        builder = self.new_read_builder().with_filter(request.filter)
        if request.columns is not None:
            builder.with_projection(argument_checks.check_names("columns", request.columns))
        return builder.with_limit(request.limit)

    @abstractmethod
    def _gather_rows(self) -> Iterator[tuple[object, ...]]:
        """Yield all rows."""

    def to_arrow(self) -> pa.Table:
        """Return all rows."""
        schema = self.arrow_schema
        columns = self._columns() or [()] * len(schema)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        return pa.table(arrays, schema=schema)

    def _columns(self) -> Sequence[Sequence[object]]:
        """Return all rows, column by column; nothing where there are no rows."""
        return list(zip(*self._gather_rows(), strict=True))


@dataclass(frozen=True, slots=True)
class TableSystemTable(SystemTable, ViewOfTable):
    """One system table of one table."""

    table: FileStoreTable
    rows: RowSource
    columns_of: ColumnSource | None = None  # the same rows by columns, where they may be many

    @property
    def name(self) -> str:
        """The full name, `database.table$name`."""
        return f"{self.table.name}${self.system_name}"

    def _gather_rows(self) -> Iterator[tuple[object, ...]]:
        return self.rows(self.table)

    def _columns(self) -> Sequence[Sequence[object]]:
        return [*zip(*self._gather_rows(), strict=True)] if self.columns_of is None else self.columns_of(self.table)


@dataclass(frozen=True, slots=True)
class RowView(ViewOfTable):
    """The rows of a table, shown in another way; options of the table say of which state."""

    table: FileStoreTable
    suffix: ClassVar[str]

    @property
    def name(self) -> str:
        """The full name, `database.table$name`."""
        return f"{self.table.name}${self.suffix}"

    @property
    def fields(self) -> list[DataField]:
        """The columns in order."""
        return self.new_read_builder().read_type()

    def refreshed(self) -> Self:
        """Return the view of the table with its newest schema."""
        return type(self)(self.table.refreshed())

    def copy(self, options: Mapping[str, object]) -> Self:
        """Return the same view with more options, such as `{"incremental-between": "3,7"}`."""
        return type(self)(self.table.copy(options))

    def new_read_builder(self) -> ReadBuilder:
        """Start a read."""
        return self.configure_read(self.table.new_read_builder())

    def builder_of(self, store: TableStore) -> ReadBuilder:
        """Start a read of the view of the same table in another state."""
        return self.configure_read(ReadBuilder(store))

    @abstractmethod
    def configure_read(self, builder: ReadBuilder) -> ReadBuilder:
        """Return a read of the table as one of the view."""

    def to_arrow(self) -> pa.Table:
        """Return all rows."""
        return self.new_read_builder().new_read().to_arrow()


@dataclass(frozen=True, slots=True)
class ReadOptimized(RowView):
    """The rows of a table that can be read without a merge: those of the highest level; without a primary key all."""

    suffix: ClassVar[str] = "ro"
    _top: ClassVar[dict[str, str]] = {TableOptions.lakewright_read_optimized.key(): "true"}

    @property
    def primary_keys(self) -> KeyNames:
        """The primary key of the table."""
        return KeyNames(self.table.primary_keys)

    @property
    def partition_keys(self) -> list[str]:
        """The columns by which the table is partitioned."""
        return self.table.partition_keys

    def new_read_builder(self) -> ReadBuilder:
        """Start a read."""
        return self.table.copy(self._top).new_read_builder()

    def builder_of(self, store: TableStore) -> ReadBuilder:
        """Start a read of the view of the same table in another state."""
        return ReadBuilder(store.with_schema(store.schema.with_options(self._top)))

    def configure_read(self, builder: ReadBuilder) -> ReadBuilder:
        """Return the read as it is: an option of the table chooses the files."""
        return builder


@dataclass(frozen=True, slots=True)
class RowTracking(RowView):
    """The rows of a table with their ids and sequence numbers, as the last two columns."""

    suffix: ClassVar[str] = "row_tracking"

    def __post_init__(self) -> None:
        if not self.table.options.row_tracking_enabled():
            raise UnsupportedError(
                f"{self.table.name} does not track rows, so that there is no {self.name}: tables have it that are made "
                "with 'row-tracking.enabled' = 'true'",
                table=self.table.name,
            )

    @property
    def primary_keys(self) -> KeyNames:
        """No columns: tables that track rows have no primary key."""
        return KeyNames()

    def configure_read(self, builder: ReadBuilder) -> ReadBuilder:
        """Return a read of all columns and those of row tracking."""
        return builder.with_projection([*self.table.field_names, *(field.name for field in ROW_TRACKING_FIELDS)])


@dataclass(frozen=True, slots=True)
class AuditLog(RowView):
    """The rows of a table with a first column `rowkind`; with `incremental-between` deleted rows too."""

    suffix: ClassVar[str] = AUDIT_LOG
    kind_column: ClassVar[str] = KIND_COLUMN

    @property
    def primary_keys(self) -> KeyNames:
        """No columns: the log may have several rows of one key."""
        return KeyNames()

    def configure_read(self, builder: ReadBuilder) -> ReadBuilder:
        """Return a read with the kinds of rows."""
        return builder.started_as(LogReadBuilder)

    def new_stream_read_builder(self) -> StreamReadBuilder:
        """Start to follow the log: the rows of the table, then what every new snapshot changes."""
        return LogStreamReadBuilder(self.table.refreshed().store)


@dataclass(frozen=True, slots=True)
class BinaryLog(AuditLog):
    """The audit log with all other columns as lists: an update is one row `+U` with the old and the new values."""

    suffix: ClassVar[str] = "binlog"

    def configure_read(self, builder: ReadBuilder) -> ReadBuilder:
        """Return a read with the kinds of rows and lists of values."""
        return builder.started_as(BinaryLogReadBuilder)

    def new_stream_read_builder(self) -> StreamReadBuilder:
        """Start to follow the log: the rows of the table, then what every new snapshot changes."""
        return BinaryLogStreamReadBuilder(self.table.refreshed().store)


ReadableTable: TypeAlias = FileStoreTable | SystemTable | RowView


class SystemReadBuilder:
    """Says what to read of a system table: a filter, some columns, a limit. It changes in place and returns itself."""

    def __init__(self, source: SystemTable) -> None:
        self.source = source
        self._predicate = TRUE
        self._columns: tuple[str, ...] | None = None
        self._limit: int | None = None

    def with_filter(self, predicate: Filter | None) -> Self:
        """Keep only matching rows; calls add up."""
        if predicate is not None:
            with with_table_name(self.source.name):
                bound = to_predicate(predicate, self.source.fields)
            self._predicate = normalise(and_predicates((self._predicate, bound)))
        return self

    def with_projection(self, projection: str | Sequence[str]) -> Self:
        """Keep only some columns, in this order."""
        names, known = argument_checks.check_names("columns", projection), [field.name for field in self.source.columns]
        for name in names:
            if name not in known:
                hint = argument_checks.suggest_name(name, known)
                raise ColumnNotExistException(f"{self.source.name} has no column {name!r}; {hint}", column=name)
        self._columns = names
        return self

    def with_limit(self, limit: int | None) -> Self:
        """Keep only the first rows."""
        self._limit = argument_checks.check_optional(argument_checks.check_non_negative, "limit", limit)
        return self

    def new_predicate_builder(self) -> PredicateBuilder:
        """Return a builder for predicates over the columns."""
        return PredicateBuilder(self.source.fields)

    def read_type(self) -> list[DataField]:
        """Return the columns of the result."""
        if self._columns is None:
            return self.source.fields
        known = {field.name: field for field in self.source.columns}
        return [known[name] for name in self._columns]

    def new_scan(self) -> SystemTableScan:
        """Return what gathers the rows."""
        return SystemTableScan(self.source)

    def new_read(self) -> SystemTableRead:
        """Return what filters the rows and converts them."""
        return SystemTableRead(self.source, tuple(self.read_type()), self._predicate, self._limit)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows as an Arrow stream."""
        stream: object = self.new_read().to_arrow().__arrow_c_stream__(requested_schema)
        return stream


@dataclass(frozen=True, slots=True)
class SystemSplit:
    """All rows of a system table, with the facts that every split has."""

    rows: pa.Table

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return int(self.rows.num_rows)

    @property
    def files(self) -> list[object]:
        """No files: the rows are here."""
        return []

    @property
    def partition(self) -> None:
        """No partition."""
        return

    @property
    def bucket(self) -> int:
        """No bucket, which is -1."""
        return -1

    def merged_row_count(self) -> None:
        """Return None: no rows are merged."""

    def arrow_table(self) -> pa.Table:
        """Return the rows."""
        return self.rows


@dataclass(frozen=True, slots=True)
class SystemPlan:
    """The one split of a system table."""

    _splits: tuple[SystemSplit, ...]

    def splits(self) -> list[SystemSplit]:
        """Return the splits."""
        return list(self._splits)


@dataclass(frozen=True, slots=True)
class SystemTableScan:
    """Gathers the rows of a system table."""

    source: SystemTable

    def plan(self) -> SystemPlan:
        """Gather the rows as they are now."""
        return SystemPlan((SystemSplit(self.source.to_arrow()),))


@dataclass(frozen=True, slots=True)
class SystemTableRead:
    """Filters the rows of a system table, keeps some columns and converts them."""

    source: SystemTable
    fields: tuple[DataField, ...]
    predicate: Predicate
    limit: int | None

    def read_type(self) -> list[DataField]:
        """Return the columns of the result."""
        return list(self.fields)

    def to_arrow(self, splits: Sequence[SystemSplit] | None = None, parallelism: int | None = None) -> pa.Table:
        """Return the rows of splits, of a fresh plan where none are given."""
        argument_checks.check_optional(
            argument_checks.check_positive, "parallelism", parallelism
        )  # the rows are few: one thread takes them
        if splits is None:
            splits = SystemTableScan(self.source).plan().splits()
        given = argument_checks.check_instances("splits", splits, SystemSplit, "splits of a plan of this system table")
        rows = pa.concat_tables([self.source.arrow_schema.empty_table(), *(split.rows for split in given)])
        if self.predicate != TRUE:
            rows = rows.filter(self.predicate.to_arrow(rows.schema))
        rows = rows.select([field.name for field in self.fields])
        return rows if self.limit is None else rows.slice(0, self.limit)

    def to_arrow_batch_reader(
        self, splits: Sequence[SystemSplit] | None = None, parallelism: int | None = None
    ) -> pa.RecordBatchReader:
        """Return the rows batch by batch."""
        return self.to_arrow(splits, parallelism).to_reader()

    def to_record_batch_iterator(self, splits: Sequence[SystemSplit] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows batch by batch."""
        yield from self.to_arrow(splits).to_batches()

    def to_iterator(self, splits: Sequence[SystemSplit] | None = None) -> Iterator[dict[str, object]]:
        """Yield the rows as dicts by column name."""
        yield from self.to_arrow(splits).to_pylist()

    def to_pandas(
        self,
        splits: Sequence[SystemSplit] | None = None,
        parallelism: int | None = None,
        *,
        arrow_backed: bool = False,
    ) -> pd.DataFrame:
        """Return the rows as a pandas frame; with `arrow_backed` columns keep the types and the nulls of Arrow."""
        return pandas_frame(lambda: self.to_arrow(splits, parallelism), arrow_backed=arrow_backed)

    def to_polars(self, splits: Sequence[SystemSplit] | None = None, parallelism: int | None = None) -> pl.DataFrame:
        """Return the rows as a polars frame."""
        return polars_frame(lambda: self.to_arrow(splits, parallelism))

    def to_duckdb(
        self,
        splits: Sequence[SystemSplit] | None,
        table_name: str,
        connection: duckdb.DuckDBPyConnection | None = None,
        parallelism: int | None = None,
    ) -> duckdb.DuckDBPyConnection:
        """Register the rows as a view of a duckdb connection, a new one where none is given."""
        return register_in_duckdb(lambda: self.to_arrow(splits, parallelism), table_name, connection)

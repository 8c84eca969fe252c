"""`ReadBuilder`; the arguments of one read call.

    builder = table.new_read_builder().with_filter("id > 3").with_projection(["id", "name"])
    plan = builder.new_scan().plan()
    rows = builder.new_read().to_arrow(plan.splits())

A builder changes in place and returns itself. A plan pins one snapshot; splits and reads can go to other processes.

Embedded reads, Spark, Ray and the Spark data source each build one `ReadRequest` and pass it on, so an argument means
the same on every engine. Invariant: at most one argument names a state or a range of snapshots, and the read sees
the columns of that state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar, Self, TypeAlias, TypeVar, get_args

from lakewright.errors import InvalidInputError, LakewrightError, UnsupportedError, with_table_name
from lakewright.metadata.table_statistics import read_statistics
from lakewright.metadata.table_store import TableStore
from lakewright.read.explain import ExplainResult, explain, split_info
from lakewright.read.fallback_branch import OtherBranch
from lakewright.read.projection import ROW_KIND, ROW_TRACKING_FIELDS, Projection, plan_projection, to_columns
from lakewright.read.table_read import TableRead
from lakewright.read.table_scan import TableScan, _shard
from lakewright.spec import argument_checks
from lakewright.spec.argument_checks import BlobForm, TimestampLike
from lakewright.spec.filters import Filter, to_predicate
from lakewright.spec.predicate import TRUE, Predicate, PredicateBuilder, and_predicates, normalise
from lakewright.spec.schema_checks import check_supported_for_read
from lakewright.spec.system_columns import METADATA_IDS, metadata_fields
from lakewright.spec.table_options import TableOptions
from lakewright.spec.types import DataField, with_nullable

# ---- Builders --------------------------------------------------------------------------------------------------------

B = TypeVar("B", bound="ReadBuilder")


class ReadBuilder:
    """Says what to read: a filter, some columns, a limit."""

    _scan_class: ClassVar[type[TableScan]] = TableScan
    _read_class: ClassVar[type[TableRead]] = TableRead

    def __init__(self, store: TableStore, other: OtherBranch | None = None) -> None:
        self._store = store
        self._other = other
        self._predicate = TRUE
        self._columns: Sequence[str] | Mapping[str, str] | None = None
        self._limit: int | None = None
        self._shard: tuple[int, int] | None = None
        self._kind_column: str | None = None
        self._blobs: BlobForm | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: a builder holds nothing open."""

    def started_as(self, builder_class: type[B]) -> B:
        """Return a builder of another class for the same state of the same table; nothing is chosen in it yet."""
        return builder_class(self._store, self._other)

    def __repr__(self) -> str:
        columns = ", ".join(field.name for field in self._projection().fields)
        condition = "" if self._predicate == TRUE else f"; filter {self._predicate}"
        limit = "" if self._limit is None else f"; limit {self._limit}"
        return f"{type(self).__name__}({self._store.name}: {columns}{condition}{limit})"

    @property
    def predicate(self) -> Predicate:
        """What the rows must fulfil."""
        return self._predicate

    def with_filter(self, predicate: Filter | None) -> Self:
        """Keep rows that fulfil a predicate, or a filter text such as `id > 3 AND name LIKE 'a%'`; calls add up.

        Expressions of Arrow (`pc.field("id") > 3`) and polars (`pl.col("id") > 3`) mean the same.
        """
        if predicate is None:
            return self
        zone = self._store.options.lakewright_time_zone
        with with_table_name(self._store.name):
            bound = to_predicate(predicate, self._all_fields(), zone)
        self._predicate = normalise(and_predicates((self._predicate, bound)))
        return self

    def with_projection(self, projection: str | Sequence[str] | Mapping[str, str] | None) -> Self:
        """Read some columns, in this order. `a.b` gives the field of a ROW as column `a_b`; a mapping names columns."""
        with with_table_name(self._store.name):
            columns = to_columns("columns", projection)
            plan_projection(self._store.schema.fields, columns, hidden=self._named_fields(columns))
        self._columns = columns
        return self

    def with_partition_filter(self, partition_filter: Filter | None) -> Self:
        """Read only partitions that fulfil a predicate on the partition columns; adds to the filter."""
        if partition_filter is None:
            return self
        with with_table_name(self._store.name):
            bound = to_predicate(partition_filter, self._store.schema.partition_fields)
        self._predicate = normalise(and_predicates((self._predicate, bound)))
        return self

    def with_read_type(self, read_type: Sequence[DataField]) -> Self:
        """Read the columns of these fields, as `read_type()` of a builder or `fields` of a table give them."""
        wanted = argument_checks.check_instances("read_type", read_type, DataField, "fields of the table")
        known = {field.name: field for field in self._all_fields()}
        for one in wanted:
            if one.name in known and with_nullable(known[one.name].type, one.type.nullable) != one.type:
                raise UnsupportedError(
                    f"{self._store.name}: the column {one.name!r} is {known[one.name].type}, not {one.type}; for a "
                    "part of a ROW name its fields, as in with_projection(['a.b']), and cast other columns afterwards"
                )
        return self.with_projection([one.name for one in wanted])

    def with_limit(self, limit: int | None) -> Self:
        """Read no more than this many rows."""
        self._limit = argument_checks.check_optional(argument_checks.check_non_negative, "limit", limit)
        return self

    def with_shard(self, idx_of_this_subtask: int, number_of_para_subtasks: int) -> Self:
        """Read the share of one of several workers only."""
        self._shard = _shard(idx_of_this_subtask, number_of_para_subtasks)
        return self

    def with_include_row_kind(self, include: bool = True, column: str = ROW_KIND) -> Self:  # noqa: FBT001, FBT002 - pypaimon's signature
        """Begin the result with a column that says what happened to a row: `+I`, `-U`, `+U` or `-D`.

        Reads of what changed give rows that went away only where this column can say so.
        """
        named = argument_checks.check_text("column", column)
        self._kind_column = named if argument_checks.check_bool("include", include) else None
        self._projection()  # a column of that name is refused here
        return self

    def with_blobs(self, form: BlobForm | None) -> Self:
        """Choose what the values of BLOB columns come as: bytes, `Blob` objects ("lazy") or serialised descriptors.

        None is what the table option `blob-as-descriptor` says.
        """
        if form is not None:
            argument_checks.check_one_of("blobs", form, get_args(BlobForm))
        self._blobs = form
        return self

    def new_predicate_builder(self) -> PredicateBuilder:
        """Return a builder of predicates on the table's columns."""
        return PredicateBuilder(self._all_fields(), self._store.options.lakewright_time_zone)

    def read_type(self) -> list[DataField]:
        """Return the columns of the result."""
        return list(self._projection().fields)

    def new_scan(self) -> TableScan:
        """Return what plans this read."""
        made = self._scan_class(self._store, self._predicate, self._limit, self._other)
        return made if self._shard is None else made.with_shard(*self._shard)

    def new_read(self) -> TableRead:
        """Return what reads the splits of a plan."""
        projection = self._projection()
        with with_table_name(self._store.name):
            stored = [f for f in projection.read_fields if f not in ROW_TRACKING_FIELDS and f.id not in METADATA_IDS]
            check_supported_for_read(self._store.schema, [f.name for f in stored])
            if self._other is not None:
                self._other.projection(projection)  # a column that the other branch lacks is refused here
        return self._read_class(self._store, projection, self._predicate, self._limit, self.new_scan())

    def explain(self, verbose: bool = False) -> ExplainResult:  # noqa: FBT001, FBT002 - pypaimon's signature
        """Plan the read and say what it would do."""
        listed = argument_checks.check_bool("verbose", verbose)
        plan = self.new_read().new_plan()
        statistics = None
        with suppress(LakewrightError, OSError):  # a plan is shown also where its statistics are damaged
            statistics = read_statistics(self._store, plan.snapshot)
        result = explain(self._store, plan.snapshot, plan.funnel, plan.splits(), self._predicate, statistics)
        names = None if self._columns is None else [f.name for f in self._projection().fields]
        splits = [split_info(split, self._store.schema.partition_keys) for split in plan.splits()] if listed else None
        return replace(result, projection=names, limit=self._limit, splits=splits)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows as an Arrow stream, so that polars, DuckDB and others read them without a copy."""
        splits = self.new_scan().plan().splits()
        stream: object = self.new_read().to_arrow_batch_reader(splits).__arrow_c_stream__(requested_schema)
        return stream

    def _projection(self) -> Projection:
        fields = self._store.schema.fields
        made = plan_projection(fields, self._columns, self._predicate, hidden=self._named_fields(self._columns))
        as_descriptors = self._store.options.blob_as_descriptor
        made = replace(made, blobs=self._blobs or ("descriptor" if as_descriptors else "bytes"))
        return made if self._kind_column is None else made.with_kinds(self._kind_column)

    def _hidden_fields(self) -> tuple[DataField, ...]:
        return ROW_TRACKING_FIELDS if self._store.options.row_tracking_enabled else ()

    def _named_fields(self, columns: Sequence[str] | Mapping[str, str] | None) -> tuple[DataField, ...]:
        """Return the columns that these may name beside those of the table."""
        named = columns.values() if isinstance(columns, Mapping) else columns or ()
        heads = {name.partition(".")[0] for name in named}
        metadata = (field for field in metadata_fields(self._store.schema) if field.name in heads)
        return (*self._hidden_fields(), *metadata)

    def _all_fields(self) -> tuple[DataField, ...]:
        return (*self._store.schema.fields, *self._hidden_fields())


# ---- Arguments of one read call --------------------------------------------------------------------------------------

Columns: TypeAlias = str | Sequence[str] | Mapping[str, str]  # one name, several, or new names for some
SnapshotRange: TypeAlias = str | tuple[int | str, int | str]  # two ids or tags; the first snapshot is left out


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """Which rows and columns to read, of which state of the table or of which changes; as the caller gave them."""

    filter: Filter | None = None
    columns: Columns | None = None
    limit: int | None = None
    snapshot_id: int | None = None
    tag: str | None = None
    timestamp: TimestampLike | None = None
    incremental: SnapshotRange | None = None
    incremental_mode: str | None = None
    row_kinds: bool = False
    blobs: BlobForm | None = None

    def travel_options(self, table: str) -> dict[str, str]:
        """Return the table options that name the state, or the changes, to read; none for the newest state.

        >>> ReadRequest(incremental=(3, 7), incremental_mode="diff").travel_options("d.t")
        {'incremental-between': '3,7', 'incremental-between-scan-mode': 'diff'}
        """
        optional = argument_checks.check_optional
        states = {
            TableOptions.scan_snapshot_id.key(): optional(argument_checks.check_int, "snapshot_id", self.snapshot_id),
            TableOptions.scan_tag_name.key(): optional(argument_checks.check_text, "tag", self.tag),
            TableOptions.scan_timestamp_millis.key(): optional(
                argument_checks.to_epoch_millis, "timestamp", self.timestamp
            ),
            TableOptions.incremental_between.key(): optional(_range_text, "incremental", self.incremental),
        }
        options = {key: str(value) for key, value in states.items() if value is not None}
        if len(options) > 1:
            raise InvalidInputError(
                f"{table}: give one of snapshot_id, tag, timestamp and incremental, not {len(options)}"
            )
        if self.incremental_mode is not None:
            mode = argument_checks.check_text("incremental_mode", self.incremental_mode)
            options[TableOptions.incremental_between_scan_mode.key()] = mode
        return options

    def apply_to(self, builder: ReadBuilder) -> ReadBuilder:
        """Set row kinds, filter, columns and limit of a builder; its table's options name the state to read."""
        if argument_checks.check_bool("row_kinds", self.row_kinds):
            builder = builder.with_include_row_kind()
        if self.filter is not None:
            builder = builder.with_filter(self.filter)
        if self.columns is not None:
            builder = builder.with_projection(self.columns)
        if self.limit is not None:
            builder = builder.with_limit(self.limit)
        return builder.with_blobs(self.blobs)


def _range_text(argument: str, value: object) -> str:
    """Return a range of snapshots as its option has it, from a pair of ids or tags or from text with a comma."""
    expected = "two snapshots or tags, such as (3, 7) or '3,7'"
    pair = value.split(",") if isinstance(value, str) else argument_checks.items(argument, value, expected)
    if len(pair) != 2:  # noqa: PLR2004 - a pair
        raise argument_checks.argument_error(argument, expected, value)
    ends = [end if isinstance(end, str) else str(argument_checks.check_int(argument, end)) for end in pair]
    if any(not end.strip() or "," in end for end in ends):
        raise argument_checks.argument_error(argument, expected, value)
    return ",".join(end.strip() for end in ends)

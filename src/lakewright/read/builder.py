"""The read path as callers see it: a builder, a scan that plans splits, a read that turns splits into Arrow.

    builder = table.new_read_builder().with_filter("id > 3").with_projection(["id", "name"])
    plan = builder.new_scan().plan()
    rows = builder.new_read().to_arrow(plan.splits())

A builder changes in place and returns itself. A plan pins one snapshot; splits and reads can go to other processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

import pyarrow as pa

from lakewright.display.notebook import InNotebook
from lakewright.errors import InvalidInputError, LakewrightError, UnsupportedError, naming
from lakewright.metadata.statistics import read_statistics
from lakewright.metadata.store import TableStore
from lakewright.metrics import is_observed
from lakewright.read.branches import OtherBranch
from lakewright.read.changes.incremental import plan_between
from lakewright.read.changes.rows import units_of
from lakewright.read.changes.snapshots import asks_for_changes
from lakewright.read.conversions import optional_package, pandas_frame, polars_frame, register_in_duckdb
from lakewright.read.explain import ExplainResult, explain, split_info
from lakewright.read.lanes import in_order
from lakewright.read.projection import ROW_KIND, ROW_TRACKING_FIELDS, Projection, plan_projection, to_columns
from lakewright.read.reader import SplitReader
from lakewright.read.scan import FileSchemas, Funnel, ScanResult, check_readable, created_since, pick_snapshot
from lakewright.read.scan import scan as scan_snapshot
from lakewright.read.splits.cutting import cut_splits
from lakewright.read.splits.observe import told
from lakewright.read.splits.plan import (
    deletions_of,
    id_ranges,
    limited,
    plan_splits,
    sharded,
    shuffled,
    sliced,
    with_row_ids,
)
from lakewright.read.splits.split import DataSplit, Row
from lakewright.spec import arguments
from lakewright.spec.options import CoreOptions
from lakewright.spec.predicate.builder import PredicateBuilder
from lakewright.spec.predicate.filters import Filter, to_predicate
from lakewright.spec.predicate.predicate import TRUE, Predicate, and_predicates, normalise
from lakewright.spec.schema.supported import check_supported_for_read
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.types import DataField, with_nullable

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame
    from ray.data import Dataset
    from torch.utils.data import Dataset as TorchDataset

_LANES_BYTES = 32 << 20  # of files that are read at the same time only to hide latency
_THREADS_MAX = 1024
_PIECE_BYTES = 16 << 20  # of a file, where another thread must not be far ahead of the reader
_AHEAD_BATCHES = 2  # how far each file may be decoded ahead of a reader that takes batch by batch

Shape = Callable[[Sequence[DataSplit]], list[DataSplit]]
B = TypeVar("B", bound="ReadBuilder")


@dataclass(frozen=True, slots=True)
class Plan(InNotebook):
    """The splits of a read, at one snapshot."""

    snapshot_id: int | None
    _splits: tuple[DataSplit, ...]
    snapshot: Snapshot | None = None
    funnel: Funnel = field(default_factory=Funnel)

    def splits(self) -> list[DataSplit]:
        """Return the splits in reading order."""
        return list(self._splits)

    @property
    def row_count(self) -> int:
        """How many rows the files of the plan hold, deleted and filtered ones included."""
        return sum(split.row_count for split in self._splits)

    def _shown_facts(self) -> dict[str, object]:
        files = [file for split in self._splits for file in split.files]
        size, known = sum(file.file_size for file in files), self.funnel.files_total
        counts = {"splits": len(self._splits), "files": len(files), "bytes": size, "rows_in_files": self.row_count}
        return {"snapshot_id": self.snapshot_id, **counts, "files_of_the_snapshot": known or None}

    def __repr__(self) -> str:
        return f"Plan({', '.join(f'{key}={value}' for key, value in self._shown_facts().items())})"


class TableScan:
    """Plans a read."""

    _cuts_buckets = True  # whether shares may part the files of one bucket of a primary-key table

    def __init__(
        self, store: TableStore, predicate: Predicate, limit: int | None, other: OtherBranch | None = None
    ) -> None:
        self._store = store
        self._predicate = predicate
        self._limit = limit
        self._other = other
        self._shapes: list[Shape] = []

    @property
    def other_branch(self) -> OtherBranch | None:
        """The branch that is read beside the table's own."""
        return self._other

    def with_shard(self, idx_of_this_subtask: int, number_of_para_subtasks: int) -> Self:
        """Plan the share of one of several workers only; the shares have equally many rows."""
        index, count = _shard(idx_of_this_subtask, number_of_para_subtasks)
        return self._shaped(partial(sharded, index=index, count=count))

    def with_slice(self, start_pos: int, end_pos: int) -> Self:
        """Plan only the rows from one position of the whole plan up to another."""
        start, end = arguments.whole("start_pos", start_pos), arguments.whole("end_pos", end_pos)
        return self._shaped(partial(sliced, start=start, end=end))

    def with_chunk_shuffle(self, seed: int, chunk_size: int) -> Self:
        """Plan chunks of so many rows in an order that only the seed decides."""
        rows = arguments.whole("chunk_size", chunk_size)
        return self._shaped(partial(shuffled, seed=arguments.whole("seed", seed), chunk_rows=rows))

    def with_row_ranges(self, row_ranges: Sequence[tuple[int, int]]) -> Self:
        """Plan only the rows whose `_ROW_ID` lies in one of the ranges `(first, last)`, both ends included."""
        with naming(self._store.name):
            if not self._store.options.get(CoreOptions.ROW_TRACKING_ENABLED):
                raise InvalidInputError(
                    f"{self._store.name}: rows have ids only with 'row-tracking.enabled'; use with_slice or a filter",
                    table=self._store.name,
                )
            return self._shaped(partial(with_row_ids, ranges=id_ranges(row_ranges)))

    def _shaped(self, shape: Shape) -> Self:
        shape([])  # a shape that cannot be is refused here, not when the plan is made
        self._shapes.append(shape)
        return self

    def plan(self) -> Plan:
        """Pick the snapshot and plan its splits; the plan of a table that was never written has none."""
        check_readable(self._store)
        if asks_for_changes(self._store.options):
            self._refuse_changes_of_branches()
            changes = plan_between(self._store, self._predicate)
            return self._plan(changes.snapshot, list(changes.splits), changes.funnel)
        if self._other is not None:
            return self._plan_branches(self._other)
        snapshot = pick_snapshot(self._store)
        if snapshot is None:
            self._store.check_same_table()
            return Plan(None, ())
        result = created_since(self._store, scan_snapshot(self._store, snapshot, self._predicate))
        return self._plan(snapshot, self._splits(self._store, snapshot, result), result.funnel)

    def _splits(self, store: TableStore, snapshot: Snapshot, result: ScanResult) -> list[DataSplit]:
        name = snapshot.index_manifest
        index = [] if name is None else store.manifests.read_index(name, snapshot=snapshot)
        apart = self._cuts_buckets and bool(self._shapes)
        return plan_splits(store, snapshot.id, result.found, deletions_of(store, index), apart=apart)

    def _plan_branches(self, other: OtherBranch) -> Plan:
        """Plan the partitions of the branch that comes first, then those that only the other one has."""
        check_readable(other.store)
        shown: Snapshot | None = None
        splits: list[DataSplit] = []
        funnel, taken = Funnel(), frozenset[bytes]()
        for store in (other.store, self._store) if other.comes_first else (self._store, other.store):
            snapshot = pick_snapshot(store)
            if snapshot is None:
                store.check_same_table()
                continue
            result = scan_snapshot(store, snapshot, self._predicate, without=taken, list_partitions=True)
            taken |= result.partitions
            funnel += result.funnel
            is_own = store is self._store
            shown = snapshot if is_own else shown
            found = self._splits(store, snapshot, created_since(store, result))
            splits += found if is_own else [replace(split, branch=other.name) for split in found]
        return self._plan(shown, splits, funnel)

    def _refuse_changes_of_branches(self) -> None:
        if self._other is not None:
            raise UnsupportedError(
                f"{self._store.name}: what changed between two snapshots is known of one branch alone, and the table "
                f"is read together with {self._other.name}; read the changes of a copy with 'scan.fallback-branch' and "
                "'scan.primary-branch' set to ''",
                table=self._store.name,
                branch=self._other.name,
            )

    def _plan(self, snapshot: Snapshot | None, splits: list[DataSplit], funnel: Funnel) -> Plan:
        """Give splits the shapes that were asked for, and stop where they surely hold enough rows."""
        with naming(self._store.name):
            for shape in self._shapes:
                splits = shape(splits)
        if self._limit is not None and self._predicate == TRUE:
            splits = limited(splits, self._limit)
        return Plan(None if snapshot is None else snapshot.id, tuple(splits), snapshot, funnel)


class TableRead:
    """Turns splits into rows; small enough to be pickled and sent to a worker."""

    def __init__(
        self, store: TableStore, projection: Projection, predicate: Predicate, limit: int | None, scan: TableScan
    ) -> None:
        self._store = store
        self._scan = scan
        self._projection = projection
        self._predicate = predicate
        self._limit = limit

    @property
    def store(self) -> TableStore:
        """The table that is read."""
        return self._store

    @property
    def projection(self) -> Projection:
        """The columns of the result."""
        return self._projection

    @property
    def predicate(self) -> Predicate:
        """What the rows must fulfil."""
        return self._predicate

    @property
    def limit(self) -> int | None:
        """How many rows there may be."""
        return self._limit

    def unfiltered(self) -> TableRead:
        """Return a read of the same columns that keeps every row of its splits."""
        return TableRead(self._store, self._projection, TRUE, self._limit, self._scan)

    def by_branch(self, splits: Sequence[DataSplit]) -> list[tuple[TableRead, list[DataSplit]]]:
        """Return a read for each branch that splits are of, with these splits; it needs to know no other branch."""
        splits = arguments.instances("splits", splits, DataSplit, "splits of a plan")
        own = [split for split in splits if split.branch is None]
        others = [replace(split, branch=None) for split in splits if split.branch is not None]
        if not others:
            return [(self, own)]
        other = self._checked_other(splits)
        scan = TableScan(other.store, self._predicate, self._limit)
        read = TableRead(other.store, other.projection(self._projection), self._predicate, self._limit, scan)
        return [(self, own), (read, others)] if own else [(read, others)]

    def _checked_other(self, splits: Sequence[DataSplit]) -> OtherBranch:
        other = self._scan.other_branch
        for split in splits:
            if split.branch is not None and (other is None or split.branch != other.name):
                raise InvalidInputError(
                    f"{self._store.name}: a split is of the branch {split.branch}, which this read does not know; read "
                    "it with a read builder of the table that it was planned with",
                    table=self._store.name,
                    branch=split.branch,
                )
        if other is None:
            raise InvalidInputError(f"{self._store.name}: this read knows no other branch", table=self._store.name)
        return other

    def new_plan(self) -> Plan:
        """Plan the read on the newest snapshot, or the one that the table's options name."""
        return self._scan.plan()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: a read holds nothing open between calls."""

    def read_type(self) -> list[DataField]:
        """Return the columns of the result."""
        return list(self._projection.fields)

    def to_arrow(self, splits: Sequence[DataSplit] | None = None, parallelism: int | None = None) -> pa.Table:
        """Read splits, all of a fresh plan where none are given, into one Arrow table in plan order."""
        batches = list(self._batches(splits, self._threads(parallelism), None))
        return pa.Table.from_batches(batches, schema=self._projection.schema)

    def to_arrow_batch_reader(
        self, splits: Sequence[DataSplit] | None = None, parallelism: int | None = None
    ) -> pa.RecordBatchReader:
        """Read splits lazily, batch by batch, with a bounded number of batches decoded ahead."""
        batches = self._batches(splits, self._threads(parallelism), _AHEAD_BATCHES)
        return pa.RecordBatchReader.from_batches(self._projection.schema, batches)

    def to_iterator(self, splits: Sequence[DataSplit] | None = None) -> Iterator[Row]:
        """Yield rows as tuples of Python values."""
        for batch in self._batches(splits, self._threads(None), _AHEAD_BATCHES):
            yield from map(Row, zip(*(column.to_pylist() for column in batch.columns), strict=True))

    def to_pandas(
        self,
        splits: Sequence[DataSplit] | None = None,
        parallelism: int | None = None,
        *,
        arrow_backed: bool = False,
    ) -> pd.DataFrame:
        """Read splits into a pandas DataFrame; with `arrow_backed` columns keep the types and the nulls of Arrow."""
        return pandas_frame(lambda: self.to_arrow(splits, parallelism), arrow_backed=arrow_backed)

    def to_polars(self, splits: Sequence[DataSplit] | None = None, parallelism: int | None = None) -> pl.DataFrame:
        """Read splits into a polars DataFrame; `lakewright.scan_polars` is lazy, and reads what a query needs."""
        return polars_frame(lambda: self.to_arrow(splits, parallelism))

    def to_duckdb(
        self,
        splits: Sequence[DataSplit] | None,
        table_name: str,
        connection: duckdb.DuckDBPyConnection | None = None,
        parallelism: int | None = None,
    ) -> duckdb.DuckDBPyConnection:
        """Read splits and register them as a view of a duckdb connection, a new one where none is given."""
        return register_in_duckdb(lambda: self.to_arrow(splits, parallelism), table_name, connection)

    def to_spark(
        self, splits: Sequence[DataSplit] | None = None, override_num_partitions: int | None = None
    ) -> DataFrame:
        """Read splits, all of a fresh plan where none are given, as a frame of the active Spark session."""
        optional_package("pyspark", extra="spark")
        from lakewright.spark.read.frame import to_spark  # noqa: PLC0415 - a door

        return to_spark(self, splits, override_num_partitions)

    def to_ray(
        self,
        splits: Sequence[DataSplit] | None = None,
        ray_remote_args: Mapping[str, object] | None = None,
        concurrency: int | None = None,
        override_num_blocks: int | None = None,
        *,
        per_task_row_limit: int | None = None,
        **read_args: object,
    ) -> Dataset:
        """Read splits, all of a fresh plan where none are given, as a dataset of Ray.

        `ray_remote_args` are what `ray.remote` takes for the tasks, of which `concurrency` run at a time at most.
        `override_num_blocks` is the number of blocks, `per_task_row_limit` the largest number of rows of a task, and
        `read_args` are further arguments of `ray.data.read_datasource`.
        """
        optional_package("ray")
        from lakewright.ray.read import to_ray  # noqa: PLC0415 - a door

        return to_ray(
            self,
            splits,
            ray_remote_args,
            concurrency,
            override_num_blocks,
            per_task_row_limit=per_task_row_limit,
            **read_args,
        )

    def to_torch(
        self,
        splits: Sequence[DataSplit] | None = None,
        streaming: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
        prefetch_concurrency: int = 1,
        **settings: object,
    ) -> TorchDataset[object]:
        """Return a PyTorch dataset of splits: rows by number, or with `streaming` a share for each rank and worker.

        `settings` of streams: `batch_format` ("row", "pyarrow" or "torch"), `batch_size`, `to_tensor_fn`, `shuffle`,
        `seed`, `buffer_size`, `max_buffer_input_splits`, `auto_detect_rank`, `sharding_rank`, `sharding_world_size`.
        """
        optional_package("torch")
        from lakewright.torch import to_torch  # noqa: PLC0415 - a door

        return to_torch(self, splits, settings, streaming=streaming, threads=prefetch_concurrency)

    def _threads(self, parallelism: int | None) -> int:
        if parallelism is None:
            return self._store.options.read_threads()
        return arguments.whole("parallelism", parallelism, 1, _THREADS_MAX)

    def _lanes(self, splits: Sequence[DataSplit], sources: int) -> int:
        """Return how many files to read at the same time so that they do not wait for a storage that is far away.

        What is read ahead stays small: large files keep a thread busy anyway.
        """
        far, size = self._store.storage.requests_at_once, sum(f.file_size for split in splits for f in split.files)
        return min(far, sources, _LANES_BYTES * sources // max(size, 1)) if far > 1 else 1

    def _readers(self, splits: Sequence[DataSplit], opened: dict[str, int] | None) -> dict[str | None, SplitReader]:
        """Return what reads splits, by their branch, None is the table's own, and notes the files that it opens."""
        stores: dict[str | None, TableStore] = {None: self._store}
        projections: dict[str | None, Projection] = {None: self._projection}
        if any(split.branch is not None for split in splits):
            other = self._checked_other(splits)
            stores[other.name], projections[other.name] = other.store, other.projection(self._projection)
        schemas = {branch: FileSchemas(store, opened) for branch, store in stores.items()}
        return {at: SplitReader(stores[at], schemas[at], projections[at], self._predicate) for at in stores}

    def _batches(
        self, splits: Sequence[DataSplit] | None, threads: int, ahead_max: int | None
    ) -> Iterator[pa.RecordBatch]:
        if splits is None:
            splits = self.new_plan().splits()
        splits = arguments.instances("splits", splits, DataSplit, "splits of a plan")
        opened: dict[str, int] | None = {} if is_observed("read") else None
        readers = self._readers(splits, opened)
        if self._limit is not None:
            threads, ahead_max = 1, 1  # a limit is mostly small; what is decoded ahead is mostly thrown away
        piece_bytes = 0 if ahead_max is None else _PIECE_BYTES
        parts = cut_splits(self._store, splits, self._predicate, threads, piece_bytes=piece_bytes)
        sources = [unit for part in parts for unit in units_of(readers[part.branch], part)]
        if self._limit is None:
            threads = max(threads, self._lanes(splits, len(sources)))
        if len(sources) < threads:
            spare = {branch: replace(reader, threads=threads) for branch, reader in readers.items()}
            sources = [unit for part in parts for unit in units_of(spare[part.branch], part)]
        columns = [field.name for field in self._projection.read_fields]
        with closing(in_order(sources, threads=threads, ahead_max=ahead_max)) as batches:
            rows = batches if self._limit is None else _first(batches, self._limit)
            yield from told(rows, self._store.name, columns, splits, opened)


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
        zone = self._store.options.get(CoreOptions.LAKEWRIGHT_TIME_ZONE)
        with naming(self._store.name):
            bound = to_predicate(predicate, self._all_fields(), zone)
        self._predicate = normalise(and_predicates((self._predicate, bound)))
        return self

    def with_projection(self, projection: str | Sequence[str] | Mapping[str, str] | None) -> Self:
        """Read some columns, in this order. `a.b` gives the field of a ROW as column `a_b`; a mapping names columns."""
        with naming(self._store.name):
            columns = to_columns("columns", projection)
            plan_projection(self._store.schema.fields, columns, hidden=self._hidden_fields())
        self._columns = columns
        return self

    def with_partition_filter(self, partition_filter: Filter | None) -> Self:
        """Read only partitions that fulfil a predicate on the partition columns; adds to the filter."""
        if partition_filter is None:
            return self
        with naming(self._store.name):
            bound = to_predicate(partition_filter, self._store.schema.partition_fields)
        self._predicate = normalise(and_predicates((self._predicate, bound)))
        return self

    def with_read_type(self, read_type: Sequence[DataField]) -> Self:
        """Read the columns of these fields, as `read_type()` of a builder or `fields` of a table give them."""
        wanted = arguments.instances("read_type", read_type, DataField, "fields of the table")
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
        self._limit = arguments.optional(arguments.count, "limit", limit)
        return self

    def with_shard(self, idx_of_this_subtask: int, number_of_para_subtasks: int) -> Self:
        """Read the share of one of several workers only."""
        self._shard = _shard(idx_of_this_subtask, number_of_para_subtasks)
        return self

    def with_include_row_kind(self, include: bool = True, column: str = ROW_KIND) -> Self:  # noqa: FBT001, FBT002 - pypaimon's signature
        """Begin the result with a column that says what happened to a row: `+I`, `-U`, `+U` or `-D`.

        Reads of what changed give rows that went away only where this column can say so.
        """
        named = arguments.text("column", column)
        self._kind_column = named if arguments.flag("include", include) else None
        self._projection()  # a column of that name is refused here
        return self

    def new_predicate_builder(self) -> PredicateBuilder:
        """Return a builder of predicates on the table's columns."""
        return PredicateBuilder(self._all_fields(), self._store.options.get(CoreOptions.LAKEWRIGHT_TIME_ZONE))

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
        with naming(self._store.name):
            check_supported_for_read(
                self._store.schema, [f.name for f in projection.read_fields if f not in ROW_TRACKING_FIELDS]
            )
            if self._other is not None:
                self._other.projection(projection)  # a column that the other branch lacks is refused here
        return self._read_class(self._store, projection, self._predicate, self._limit, self.new_scan())

    def explain(self, verbose: bool = False) -> ExplainResult:  # noqa: FBT001, FBT002 - pypaimon's signature
        """Plan the read and say what it would do."""
        listed = arguments.flag("verbose", verbose)
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
        made = plan_projection(fields, self._columns, self._predicate, hidden=self._hidden_fields())
        return made if self._kind_column is None else made.with_kinds(self._kind_column)

    def _hidden_fields(self) -> tuple[DataField, ...]:
        return ROW_TRACKING_FIELDS if self._store.options.get(CoreOptions.ROW_TRACKING_ENABLED) else ()

    def _all_fields(self) -> tuple[DataField, ...]:
        return (*self._store.schema.fields, *self._hidden_fields())


def _shard(index: object, count: object) -> tuple[int, int]:
    return arguments.whole("idx_of_this_subtask", index), arguments.whole("number_of_para_subtasks", count)


def _first(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    left = limit
    while left > 0:
        batch = next(batches, None)
        if batch is None:
            return
        yield batch.slice(0, left)
        left -= batch.num_rows

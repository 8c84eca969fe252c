"""`TableRead`: splits to Arrow, pandas, polars and DuckDB, and the metrics of reads."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.metadata.table_store import TableStore
from lakewright.metrics import MetricsEvent, emit, has_listeners
from lakewright.read.data_split import DataSplit, Row
from lakewright.read.fallback_branch import OtherBranch
from lakewright.read.incremental import units_of
from lakewright.read.manifest_scan import FileSchemas
from lakewright.read.projection import Projection
from lakewright.read.split_reader import SplitReader, check_places_are_known
from lakewright.read.split_sharing import cut_splits
from lakewright.read.table_scan import Plan, TableScan
from lakewright.spec import argument_checks
from lakewright.spec.predicate import TRUE, Predicate
from lakewright.spec.types import DataField
from lakewright.storage.concurrency import in_order

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame
    from ray.data import Dataset
    from torch.utils.data import Dataset as TorchDataset


# ---- pandas, polars, DuckDB ------------------------------------------------------------------------------------------


def optional_package(package: str, *, extra: str | None = None) -> Any:  # noqa: ANN401 - a module
    """Return a package that users install if they need it, or raise UnsupportedError that says how."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        remedy = f"pip install 'lakewright[{extra or package}]'"
        raise UnsupportedError(f"this needs {package}: {remedy}", package=package) from error


def pandas_frame(rows: Callable[[], pa.Table], *, arrow_backed: bool) -> pd.DataFrame:
    """Return rows as a frame of pandas; with `arrow_backed` its columns keep the types and nulls of Arrow."""
    pandas = optional_package("pandas")
    keeps_types = argument_checks.check_bool("arrow_backed", arrow_backed)
    frame: pd.DataFrame = rows().to_pandas(types_mapper=pandas.ArrowDtype if keeps_types else None)
    return frame


def polars_frame(rows: Callable[[], pa.Table]) -> pl.DataFrame:
    """Return rows as a frame of polars."""
    polars = optional_package("polars")
    frame: pl.DataFrame = polars.DataFrame(polars.from_arrow(rows()))
    return frame


def register_in_duckdb(
    rows: Callable[[], pa.Table], table_name: str, connection: duckdb.DuckDBPyConnection | None
) -> duckdb.DuckDBPyConnection:
    """Register rows as a view of a duckdb connection, a new one where none is given, and return the connection."""
    name = argument_checks.check_text("table_name", table_name)
    package = optional_package("duckdb")
    if connection is not None:
        argument_checks.check_instance("connection", connection, package.DuckDBPyConnection, "a connection of duckdb")
    read = rows()
    connection = package.connect() if connection is None else connection
    try:
        connection.register(name, read)
    except package.Error as error:
        raise InvalidInputError(f"duckdb cannot name a view {argument_checks.describe_value(name)}: {error}") from error
    return connection


# ---- Metrics of reads ------------------------------------------------------------------------------------------------


def with_read_metrics(
    batches: Iterator[pa.RecordBatch],
    table: str,
    columns: Sequence[str],
    splits: Sequence[DataSplit],
    opened: Mapping[str, int] | None,
) -> Iterator[pa.RecordBatch]:
    """Return batches, and tell listeners how many rows of which columns and files they were once they are read.

    `opened` are the names and sizes of the files that were opened until then; None: no hook listens.
    """
    return batches if opened is None else _count_batches(batches, table, columns, splits, opened)


def _count_batches(
    batches: Iterator[pa.RecordBatch],
    table: str,
    columns: Sequence[str],
    splits: Sequence[DataSplit],
    opened: Mapping[str, int],
) -> Generator[pa.RecordBatch]:
    began, started, rows = time.time_ns(), time.perf_counter(), 0
    try:
        for batch in batches:
            rows += batch.num_rows
            yield batch
    finally:
        emit(
            MetricsEvent(
                "read",
                table,
                snapshot_id=splits[0].snapshot_id if splits else None,
                rows=rows,
                files=len(opened),  # a read that ends early opens some of the files of its plan alone
                bytes=sum(tuple(opened.values())),  # a copy: threads may still open files
                started_ns=began,
                seconds=time.perf_counter() - started,
                details={"columns": tuple(columns), "splits": len(splits)},
            )
        )


# ---- Reads -----------------------------------------------------------------------------------------------------------

_LANES_BYTES = 32 << 20  # of files that are read at the same time only to hide latency
_THREADS_MAX = 1024
_PIECE_BYTES = 16 << 20  # of a file, where another thread must not be far ahead of the reader
_AHEAD_BATCHES = 2  # how far each file may be decoded ahead of a reader that takes batch by batch


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

    def without_filter(self) -> TableRead:
        """Return a read of the same columns that keeps every row of its splits."""
        return TableRead(self._store, self._projection, TRUE, self._limit, self._scan)

    def by_branch(self, splits: Sequence[DataSplit]) -> list[tuple[TableRead, list[DataSplit]]]:
        """Return a read for each branch that splits are of, with these splits; it needs to know no other branch."""
        splits = argument_checks.check_instances("splits", splits, DataSplit, "splits of a plan")
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
        from lakewright.spark.frame_read import to_spark  # noqa: PLC0415 - lazy

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
        from lakewright.ray.dataset_read import to_ray  # noqa: PLC0415 - lazy

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
        from lakewright.integrations.torch_datasets import to_torch  # noqa: PLC0415 - lazy

        return to_torch(self, splits, settings, streaming=streaming, threads=prefetch_concurrency)

    def _threads(self, parallelism: int | None) -> int:
        if parallelism is None:
            return self._store.options.read_threads
        return argument_checks.check_int("parallelism", parallelism, 1, _THREADS_MAX)

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
        splits = argument_checks.check_instances("splits", splits, DataSplit, "splits of a plan")
        opened: dict[str, int] | None = {} if has_listeners("read") else None
        readers = self._readers(splits, opened)
        for split in splits:
            check_places_are_known(self._store, self._projection, split)
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
            yield from with_read_metrics(rows, self._store.name, columns, splits, opened)


def _first(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    left = limit
    while left > 0:
        batch = next(batches, None)
        if batch is None:
            return
        yield batch.slice(0, left)
        left -= batch.num_rows

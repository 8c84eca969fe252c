"""One call to read a table and one to write it, for those who need no builder."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast, get_args

import pyarrow as pa

from lakewright.catalog.open import opened, read_builder
from lakewright.catalog.system.views import ReadableTable
from lakewright.commit.files import delete_written, files_of
from lakewright.commit.plan import select_partitions
from lakewright.commit.table_commit import CommitResult
from lakewright.errors import InvalidInputError, UnsupportedError, counted, naming
from lakewright.maintenance.alter import alter
from lakewright.read.request import Columns, ReadRequest, SnapshotRange
from lakewright.spec import arguments
from lakewright.spec.arguments import IncrementalMode, Moment, Path, Properties, SchemaMode, WriteMode
from lakewright.spec.arrow import from_arrow_schema
from lakewright.spec.predicate.filters import Filter
from lakewright.spec.schema.changes import SchemaChange
from lakewright.spec.schema.evolution import apply_changes
from lakewright.spec.schema.merging import missing_changes
from lakewright.spec.schema.table_schema import TableSchema
from lakewright.spec.types import DataField
from lakewright.table.table import FileStoreTable
from lakewright.table.write_builder import BatchWriteBuilder
from lakewright.update.merge.upsert import check_same_columns, needs_lookup, upsert
from lakewright.write.input.frames import ArrowData, batches_of, engine_verb, memory_bytes
from lakewright.write.input.kinds import kind_column
from lakewright.write.job_run import JobRun, earlier_result

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from ray.data import Dataset


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a write has come. `tasks` and `tasks_done` are those of Spark or Ray."""

    rows: int
    bytes: int
    seconds: float
    tasks: int = 0
    tasks_done: int = 0


ProgressCallback: TypeAlias = Callable[[Progress], None]


def read_table(  # noqa: PLR0913 - each argument is one way to say what to read
    table: ReadableTable | Path,
    *,
    filter: Filter | None = None,  # noqa: A002 - the word every reader of tables uses
    columns: Columns | None = None,
    limit: int | None = None,
    snapshot_id: int | None = None,
    tag: str | None = None,
    timestamp: Moment | None = None,
    incremental: SnapshotRange | None = None,
    incremental_mode: IncrementalMode | None = None,
    row_kinds: bool = False,
) -> pa.Table:
    """Read a table, or a system table, or the table at a path, into Arrow: its newest snapshot, unless said otherwise.

    - `filter`: text such as `id > 3`, a `Predicate`, or an expression of Arrow or polars.
    - `columns`: one name, several, or a mapping that gives columns new names; `limit`: the largest number of rows.
    - `snapshot_id`, `tag` or `timestamp`: the state to read; of a time, the last snapshot that is not later. A time is
      a `datetime`, a `date`, ISO text or epoch milliseconds; without a zone it is one of the local zone.
    - `incremental=(3, 7)`: what changed after snapshot 3, up to snapshot 7; tags do as well. `incremental_mode` says
      where changes are found: `delta`, `changelog`, `diff`, or `auto`, which is what fits the table.
    - `row_kinds`: begin with a column `_row_kind`; only with it are deleted rows part of the changes.

    >>> import tempfile, pyarrow as pa, lakewright as lw
    >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
    >>> catalog.create_database("d")
    >>> columns = pa.schema({"id": pa.int64(), "n": pa.int64()})
    >>> schema = lw.Schema.from_pyarrow_schema(columns, primary_keys=["id"], options={"bucket": 1})
    >>> catalog.create_table("d.t", schema)
    >>> table = catalog.get_table("d.t")
    >>> for rows in ({"id": [1, 2], "n": [5, 5]}, {"id": [2], "n": [6]}):
    ...     _ = lw.write_table(pa.table(rows), table)
    >>> read_table(table, filter="id = 2").to_pylist()
    [{'id': 2, 'n': 6}]
    >>> read_table(table, incremental=(1, 2), incremental_mode="diff", row_kinds=True).to_pylist()
    [{'_row_kind': '-U', 'id': 2, 'n': 5}, {'_row_kind': '+U', 'id': 2, 'n': 6}]
    """
    request = ReadRequest(
        filter=filter,
        columns=columns,
        limit=limit,
        snapshot_id=snapshot_id,
        tag=tag,
        timestamp=timestamp,
        incremental=incremental,
        incremental_mode=incremental_mode,
        row_kinds=row_kinds,
    )
    return read_builder(table, request).new_read().to_arrow()


def write_table(  # noqa: PLR0913 - each argument is one choice of the caller
    data: ArrowData | DataFrame | Dataset,
    table: FileStoreTable | Path,
    mode: WriteMode = "append",
    *,
    partitions: Mapping[str, object] | None = None,
    schema_mode: SchemaMode | None = None,
    progress: bool | ProgressCallback | None = None,
    concurrency: int | None = None,
    job_id: str | None = None,
    snapshot_properties: Properties | None = None,
) -> CommitResult:
    """Write rows into a table and commit them in one snapshot.

    `data` is an Arrow table, batch or stream, a list of these, a polars or pandas frame (named levels of its index are
    columns), a dict of columns, a list of rows (dicts), a Spark frame or a Ray dataset. The last two are written by the
    workers in at most `concurrency` tasks: `lakewright.spark.write_table`, `lakewright.ray.write_table`. The `mode` is

    - `append`: add the rows. With a primary key they replace rows with equal keys; missing columns are null or default.
    - `upsert`: as append, but missing columns keep the values that the replaced rows have.
    - `delete`: delete the rows with the keys that `data` has.
    - `overwrite`: replace the partitions of the data, or those that `partitions` names, or a whole unpartitioned table.

    `schema_mode="merge"` first adds the columns, and widens the types, that the data has and the table lacks.
    `progress` is a function that gets a `Progress` after each batch, or True for a line on the terminal. With a
    `job_id` a write is committed once: run again, it finds its commit (for `lakewright.job-id.retention`, 90 days) and
    writes nothing (`replayed`).

    >>> import tempfile, pyarrow as pa, lakewright as lw
    >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
    >>> catalog.create_database("d")
    >>> columns = pa.schema({"id": pa.int64(), "n": pa.int64()})
    >>> schema = lw.Schema.from_pyarrow_schema(columns, primary_keys=["id"], options={"bucket": 1})
    >>> catalog.create_table("d.t", schema)
    >>> table = catalog.get_table("d.t")
    >>> write_table(pa.table({"id": [1, 2], "n": [1, 2]}), table).rows
    2
    >>> write_table(pa.table({"id": [1]}), table, mode="delete").snapshot_id
    2
    >>> lw.read_table(table).to_pylist()
    [{'id': 2, 'n': 2}]
    """
    if (on_workers := engine_verb(data, "write_table")) is not None:
        options: dict[str, object] = {"partitions": partitions, "schema_mode": schema_mode, "concurrency": concurrency}
        options |= {"job_id": job_id, "snapshot_properties": snapshot_properties, "progress": progress}
        return cast("CommitResult", on_workers(data, table, mode, **options))
    target = opened(table, snapshot_properties)
    check_mode(target, mode, schema_mode)
    partitions = arguments.optional(arguments.mapping, "partitions", partitions)
    check_partitions(target, mode, partitions)
    _check_no_concurrency(target, concurrency)
    run = None if job_id is None else JobRun.begin(target.store, job_id)
    if run is not None and run.earlier is not None:
        return earlier_result(target.store, run.earlier)
    report = _reporter(progress, time.monotonic)
    batches = _with_same_columns(target, data) if mode == "upsert" else iter(batches_of(data, target.name))
    if {mode, schema_mode} & {"upsert", "merge"} and (first := next(batches, None)) is not None:
        target = merged_table(target, first.schema) if schema_mode == "merge" else target
        batches = itertools.chain([first], batches)
        if mode == "upsert" and needs_lookup(target.store, first.schema.names):
            return _upsert_batches(target, batches, run, report=report)
    builder = _overwrite_builder(target, partitions) if mode == "overwrite" else BatchWriteBuilder(target.store)
    return _write_batches(builder, batches, run, deletes=mode == "delete", report=report)


def _overwrite_builder(table: FileStoreTable, partitions: Mapping[str, object] | None) -> BatchWriteBuilder:
    """Return the builder of a write that replaces the partitions of its rows, or those that a spec names."""
    if partitions is None:
        return BatchWriteBuilder(table.store).overwrite()
    static = table.copy({"dynamic-partition-overwrite": "false"})
    return BatchWriteBuilder(static.store).overwrite(dict(partitions))


def _check_no_concurrency(table: FileStoreTable, concurrency: int | None) -> None:
    if concurrency is not None:
        raise InvalidInputError(
            f"{table.name}: 'concurrency' is a number of tasks of Spark or Ray; data in this process is written by "
            "threads, as many as the table option 'lakewright.write-threads' says",
            table=table.name,
        )


def _write_batches(
    builder: BatchWriteBuilder,
    batches: Iterable[pa.Table | pa.RecordBatch],
    run: JobRun | None,
    *,
    deletes: bool,
    report: Callable[[int, int], None],
) -> CommitResult:
    """Write batches, or delete the rows with their keys, and commit; of several runs of a job one commits."""
    builder = builder.keeping_messages() if run is None else builder.with_job(run)
    with builder.new_write() as write, builder.new_commit() as commit:
        rows = size = 0
        for batch in batches:
            write.delete_arrow(batch) if deletes else write.write_arrow(batch)
            rows, size = rows + batch.num_rows, size + memory_bytes(batch)
            report(rows, size)
        messages = write.prepare_commit()
        store = write.job.store
        result = commit.commit(messages, None if run is None else run.properties())
    if run is None or result.snapshot_id is None or run.made(snapshot := store.snapshots.get(result.snapshot_id)):
        return result
    delete_written(store, files_of(store, messages))
    return earlier_result(store, snapshot)


def _with_same_columns(table: FileStoreTable, data: object) -> Iterator[pa.Table | pa.RecordBatch]:
    """Yield batches; raise InvalidInputError for one that lacks columns which others have."""
    first: pa.Schema | None = None
    for batch in batches_of(data, table.name):
        if first is None:
            first = batch.schema
        elif batch.schema is not first:
            check_same_columns(table.store, first.names, batch.schema.names)
        yield batch


def _upsert_batches(
    table: FileStoreTable,
    batches: Iterable[pa.Table | pa.RecordBatch],
    run: JobRun | None,
    *,
    report: Callable[[int, int], None],
) -> CommitResult:
    """Upsert rows that lack columns: those keep the values that the table has for the same keys."""
    parts: list[pa.Table | pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        parts.append(batch)
        rows, size = rows + batch.num_rows, size + memory_bytes(batch)
        report(rows, size)
    with naming(table.name):
        done = upsert(table.store, parts, job=run)
    if done.replayed and done.snapshot_id is not None:
        return earlier_result(table.store, table.store.snapshots.get(done.snapshot_id))
    return CommitResult(
        done.snapshot_id,
        done.written,
        done.files,
        done.bytes,
        done.seconds,
        done.partitions,
        attempts=done.attempts,
        stages_ms=done.stages_ms,
    )


class HasKeys(Protocol):
    """A table, or one that will be created."""

    @property
    def name(self) -> str:
        """The full name."""

    @property
    def primary_keys(self) -> Sequence[str]:
        """The primary key columns."""


def check_mode(table: HasKeys, mode: str, schema_mode: str | None) -> None:
    """Raise an error unless the modes are known, and the table has the primary key that upsert and delete need."""
    with naming(table.name):
        arguments.one_of("mode", mode, get_args(WriteMode))
        if schema_mode is not None:
            arguments.one_of("schema_mode", schema_mode, get_args(SchemaMode))
    if mode in {"upsert", "delete"} and not table.primary_keys:
        raise UnsupportedError(
            f"{table.name} has no primary key, so mode {mode!r} cannot find rows: create the table with primary_keys, "
            "or use append and overwrite",
            table=table.name,
        )


def check_partitions(table: FileStoreTable, mode: str, partitions: Mapping[str, object] | None) -> None:
    """Raise InvalidInputError unless `partitions` is a partition spec of this table, and the mode is overwrite."""
    if partitions is None:
        return
    if mode != "overwrite":
        raise InvalidInputError(
            f"{table.name}: 'partitions' says what an overwrite replaces; leave it out of mode {mode!r}",
            table=table.name,
        )
    if not isinstance(partitions, Mapping):
        raise InvalidInputError(
            f"{table.name}: 'partitions' is a mapping such as {{'dt': '2026-01-01'}}, not {partitions!r}",
            table=table.name,
        )
    with naming(table.name):
        select_partitions(table.store, [partitions])


def merged_table(table: FileStoreTable, schema: pa.Schema, *, stored: bool = True) -> FileStoreTable:
    """Add the columns and widen the types that the data needs, and return the table with its new schema.

    The same holds for the fields inside columns. What another writer adds or widens concurrently is not changed again.
    Without `stored` nothing changes: the table that is returned is as it would be.
    """
    known = set(table.field_names)
    given = from_arrow_schema(pa.schema([f for f in schema if not (f.name in known and pa.types.is_null(f.type))]))

    def lacking(newest: TableSchema) -> list[SchemaChange]:
        return _missing_changes(newest, given, table.name)

    with naming(table.name):
        if not lacking(table.schema):
            return table
        now = int(time.time() * 1000)
        if not stored:
            asked = apply_changes(table.schema, lacking(table.schema), has_snapshot=True, time_millis=now)
            return replace(table, store=table.store.with_newest(asked))
        evolved = alter(table.store, lacking, time_millis=now)
    return replace(table, store=table.store.with_newest(evolved))


def _missing_changes(schema: TableSchema, given: Sequence[DataField], table: str) -> list[SchemaChange]:
    """Return the schema changes that a table needs to hold data with some columns; row kinds are not stored."""
    known = {field.name: field for field in schema.fields}
    kinds = kind_column([field.name for field in given], known, table=table) if schema.primary_keys else None
    return list(missing_changes(known, [field for field in given if field.name != kinds]))


def _reporter(progress: bool | ProgressCallback | None, clock: Callable[[], float]) -> Callable[[int, int], None]:  # noqa: FBT001
    """Return the function that is called with the rows and bytes written so far, after every batch."""
    started = clock()
    if not isinstance(progress, bool | None):
        arguments.function("progress", progress)
    if callable(progress):
        return lambda rows, size: progress(Progress(rows, size, clock() - started))
    if not progress or not sys.stderr.isatty():
        return lambda _rows, _size: None

    def show(rows: int, size: int) -> None:
        seconds = clock() - started
        sys.stderr.write(f"\r{counted(rows, 'row')}, {size / 1e6:,.0f} MB, {rows / max(seconds, 1e-9):,.0f} rows/s ")
        sys.stderr.flush()

    return show

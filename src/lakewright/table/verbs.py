"""`read_table`, `write_table`, `transform`; checks of a call that all engines share."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, cast, get_args

import pyarrow as pa

from lakewright.commit.commit_changes import delete_files_of, files_of_messages
from lakewright.commit.commit_plan import select_partitions
from lakewright.commit.job_ids import JobRun
from lakewright.commit.table_commit import CommitResult
from lakewright.dml.distributed_write import (
    CommitTarget,
    commit_messages,
    earlier_result,
    find_overtaking,
)
from lakewright.dml.incremental_jobs import IncrementalJob, TransformResult, run_incremental_job
from lakewright.dml.upsert import check_same_columns, needs_lookup, upsert
from lakewright.engine.job_progress import ProgressCallback, _reporter
from lakewright.engine_registry import engine_verb
from lakewright.errors import InvalidInputError, UnsupportedError, with_table_name
from lakewright.maintenance.schema_alteration import alter
from lakewright.read.data_split import DataSplit
from lakewright.read.read_builder import Columns, ReadRequest, SnapshotRange
from lakewright.read.table_read import TableRead
from lakewright.spec import argument_checks
from lakewright.spec.argument_checks import (
    BlobForm,
    IncrementalMode,
    PathLike,
    Properties,
    SchemaMode,
    TimestampLike,
    WriteMode,
)
from lakewright.spec.arrow_types import from_arrow_schema
from lakewright.spec.filters import Filter
from lakewright.spec.schema import SchemaChange
from lakewright.spec.schema_evolution import apply_changes
from lakewright.spec.schema_merging import missing_changes
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import DataField
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.open_table import read_builder, to_table
from lakewright.table.table_views import ReadableTable
from lakewright.table.write_builder import BatchWriteBuilder
from lakewright.write.input_data import ArrowData, batches_of, memory_bytes
from lakewright.write.row_intake import kind_column
from lakewright.write.table_writer import WriteJob

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from ray.data import Dataset


# ---- read_table, write_table -----------------------------------------------------------------------------------------


def read_table(  # noqa: PLR0913 - each argument is one way to say what to read
    table: ReadableTable | PathLike,
    *,
    filter: Filter | None = None,  # noqa: A002 - the word every reader of tables uses
    columns: Columns | None = None,
    limit: int | None = None,
    snapshot_id: int | None = None,
    tag: str | None = None,
    timestamp: TimestampLike | None = None,
    incremental: SnapshotRange | None = None,
    incremental_mode: IncrementalMode | None = None,
    row_kinds: bool = False,
    blobs: BlobForm | None = None,
) -> pa.Table:
    """Read a table, or a system table, or the table at a path, into Arrow: its newest snapshot, unless said otherwise.

    - `filter`: text such as `id > 3`, a `Predicate`, or an expression of Arrow or polars.
    - `columns`: one name, several, or a mapping that gives columns new names; `limit`: the largest number of rows.
    - `snapshot_id`, `tag` or `timestamp`: the state to read; of a time, the last snapshot that is not later. A time is
      a `datetime`, a `date`, ISO text or epoch milliseconds; without a zone it is one of the local zone.
    - `incremental=(3, 7)`: what changed after snapshot 3, up to snapshot 7; tags do as well. `incremental_mode` says
      where changes are found: `delta`, `changelog`, `diff`, or `auto`, which is what fits the table.
    - `row_kinds`: begin with a column `_row_kind`; only with it are deleted rows part of the changes.
    - `blobs`: what BLOB columns come as: `bytes`, `lazy` (values are `Blob` objects, read when asked) or `descriptor`.

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
        blobs=blobs,
    )
    return read_builder(table, request).new_read().to_arrow()


def write_table(  # noqa: PLR0913 - each argument is one choice of the caller
    data: ArrowData | DataFrame | Dataset,
    table: FileStoreTable | PathLike,
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
    target = to_table(table, snapshot_properties)
    check_write_mode(target, mode, schema_mode)
    partitions = argument_checks.check_optional(argument_checks.check_mapping, "partitions", partitions)
    check_partitions(target, mode, partitions)
    _check_no_concurrency(target, concurrency)
    run = None if job_id is None else JobRun.begin(target.store, job_id)
    if run is not None and run.earlier is not None:
        return earlier_result(target.store, run.earlier)
    report = _reporter(progress, time.monotonic)
    batches = _with_same_columns(target, data) if mode == "upsert" else iter(batches_of(data, target.name))
    if {mode, schema_mode} & {"upsert", "merge"} and (first := next(batches, None)) is not None:
        target = add_missing_columns(target, first.schema) if schema_mode == "merge" else target
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
    if (
        run is None
        or result.snapshot_id is None
        or run.has_committed(snapshot := store.snapshots.get(result.snapshot_id))
    ):
        return result
    delete_files_of(store, files_of_messages(store, messages))
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
    with with_table_name(table.name):
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


def check_write_mode(table: HasKeys, mode: str, schema_mode: str | None) -> None:
    """Raise an error unless the modes are known, and the table has the primary key that upsert and delete need."""
    with with_table_name(table.name):
        argument_checks.check_one_of("mode", mode, get_args(WriteMode))
        if schema_mode is not None:
            argument_checks.check_one_of("schema_mode", schema_mode, get_args(SchemaMode))
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
    with with_table_name(table.name):
        select_partitions(table.store, [partitions])


def add_missing_columns(table: FileStoreTable, schema: pa.Schema, *, stored: bool = True) -> FileStoreTable:
    """Add the columns and widen the types that the data needs, and return the table with its new schema.

    The same holds for the fields inside columns. What another writer adds or widens concurrently is not changed again.
    Without `stored` nothing changes: the table that is returned is as it would be.
    """
    known = set(table.field_names)
    given = from_arrow_schema(pa.schema([f for f in schema if not (f.name in known and pa.types.is_null(f.type))]))

    def lacking(newest: TableSchema) -> list[SchemaChange]:
        return _missing_changes(newest, given, table.name)

    with with_table_name(table.name):
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


# ---- transform -------------------------------------------------------------------------------------------------------


def transform(
    source: FileStoreTable | PathLike,
    fn: Callable[[pa.Table], ArrowData],
    target: FileStoreTable | PathLike,
    *,
    job_id: str,
    full_refresh: bool = False,
    commit_every: int | None = None,
) -> TransformResult:
    """Bring what changed in a table since the last run of a job into another table, each change once.

    `fn` gets the changed rows as one Arrow table and returns rows of the target. If the source has a primary key, the
    column `_row_kind` says what happened to a row: `+I`, `-D`, or `-U` and `+U` for the old and the new row of an
    update. `fn` returns that column too, so that a row which a filter no longer lets through is deleted from the
    target. It works row by row, or by key: rows that did not change are not given to it again.

    The first run gets the whole source. `full_refresh=True` replaces all that the job wrote by the whole source;
    it is needed where the progress of the job or the snapshots of the source are gone (`FullRefreshRequiredError`).
    `commit_every` divides what is new into commits of so many snapshots of the source. Without it a run makes one
    commit, and none if there is nothing new.

    >>> import tempfile, pyarrow as pa, lakewright as lw
    >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
    >>> catalog.create_database("d")
    >>> columns = pa.schema({"id": pa.int64(), "n": pa.int64()})
    >>> schema = lw.Schema.from_pyarrow_schema(columns, primary_keys=["id"], options={"bucket": 1})
    >>> for name in ("d.orders", "d.large"):
    ...     catalog.create_table(name, schema)
    >>> orders, large = catalog.get_table("d.orders"), catalog.get_table("d.large")
    >>> def keep_large(rows):
    ...     return rows.filter(pa.compute.field("n") > 10)
    >>> _ = lw.write_table(pa.table({"id": [1, 2], "n": [5, 50]}), orders)
    >>> lw.transform(orders, keep_large, large, job_id="large orders").rows
    1
    >>> _ = lw.write_table(pa.table({"id": [1, 2], "n": [60, 6]}), orders)
    >>> lw.transform(orders, keep_large, large, job_id="large orders").rows
    2
    >>> lw.read_table(large).to_pylist()
    [{'id': 1, 'n': 60}]
    """
    target = to_table(target)
    job = IncrementalJob.of(to_table(source).store, target.store, job_id)
    argument_checks.check_callable("fn", fn)
    return run_incremental_job(
        _InProcess(),
        job,
        lambda rows: _one_table(fn(rows), target.name),
        full_refresh=full_refresh,
        commit_every=commit_every,
    )


class _InProcess:
    """Runs an incremental job in this process."""

    def read(self, read: TableRead, splits: Sequence[DataSplit]) -> pa.Table:
        return read.to_arrow(splits)

    def column_names(self, frame: pa.Table) -> Sequence[str]:
        names: list[str] = frame.column_names
        return names

    def write(self, frame: pa.Table, job: WriteJob, publication: CommitTarget) -> CommitResult:
        started = time.monotonic()
        with job.open_writer() as writer:
            writer.write(frame)
            messages = writer.prepare()
        result = commit_messages(job.store, publication, messages, None, {})
        overtaken = find_overtaking(job, result) is not None
        if overtaken:
            delete_files_of(job.store, files_of_messages(job.store, messages))
        return replace(result, seconds=time.monotonic() - started, replayed=overtaken)


def _one_table(data: ArrowData, table: str) -> pa.Table:
    """Return data in any Arrow form as one table."""
    batches = batches_of(data, table)
    parts = [pa.Table.from_batches([part]) if isinstance(part, pa.RecordBatch) else part for part in batches]
    return pa.concat_tables(parts) if parts else pa.table({})


# ---- Checks of a call ------------------------------------------------------------------------------------------------


def check_call(
    table: FileStoreTable,
    mode: str,
    *,
    partitions: Mapping[str, object] | None = None,
    schema_mode: str | None = None,
    concurrency: int | None = None,
    progress: object = None,
) -> None:
    """Refuse what no engine can do, before anything runs."""
    check_write_mode(table, mode, schema_mode)
    check_partitions(table, mode, partitions)
    check_concurrency(concurrency)
    check_progress(progress)


def check_concurrency(concurrency: int | None) -> None:
    """Raise InvalidInputError unless concurrency is a whole number of at least 1, or not given."""
    is_integer = isinstance(concurrency, int) and not isinstance(concurrency, bool)
    if concurrency is not None and (not is_integer or concurrency < 1):
        raise InvalidInputError(f"concurrency is a number of tasks, at least 1, not {concurrency!r}")


def check_progress(progress: object) -> None:
    """Raise InvalidInputError unless progress is a function, or says whether there is a bar."""
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise InvalidInputError(f"progress is a function that gets a Progress, True or False, not {progress!r}")


def refuse_lookup(table: FileStoreTable, columns: Sequence[str]) -> None:
    """Refuse an upsert whose data lacks columns, if this write would lose the values of existing rows in them."""
    if needs_lookup(table.store, columns):
        lacking = [name for name in table.field_names if name not in columns]
        raise UnsupportedError(
            f"{table.name}: the data lacks {', '.join(map(repr, lacking))}, which must be looked up to stay as "
            "they are, and this write cannot do that; give all columns, or use mode='append', which makes them null "
            "or their default",
            table=table.name,
        )

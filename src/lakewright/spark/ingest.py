"""Ingest: sources in, one snapshot of one table out, with a report of what happened to the columns on their way.

The steps: find the sources, open them, fit their columns to the table (which is made from them if that was asked for),
write with Spark's workers, commit once. Everything that names and types can tell is checked before the write starts; a
dry run ends there and has changed nothing. A job id makes a second run harmless: what was committed under it is found
before anything is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as sql

from lakewright.calls import ProgressCallback, check_mode
from lakewright.catalog.filesystem import CatalogFactory, FileSystemCatalog
from lakewright.catalog.open import open_table
from lakewright.distributed import WriteResult, committed_job
from lakewright.errors import InvalidInputError, NotFoundError, naming
from lakewright.metadata.store import TableStore
from lakewright.spark.cluster import cluster
from lakewright.spark.compaction import compacting_on
from lakewright.spark.fit import WIDENED, Change, Fit, Wish, check_renames, fit
from lakewright.spark.inputs import Given, Source, find_sources
from lakewright.spark.load import LOAD_SETTINGS, Opened, fitted, open_source, reading, types_of, united
from lakewright.spark.session import settings
from lakewright.spark.types import arrow_schema_of, fields_of, spark_schema
from lakewright.spark.write import write_table
from lakewright.spec.identifier import Identifier
from lakewright.spec.schema import Schema, TableSchema, new_table_schema
from lakewright.spec.supported import check_supported_for_write
from lakewright.spec.types import AtomicType, DataField, parse_type
from lakewright.spec.values import cast_text
from lakewright.storage.layout import Layout, database_directory
from lakewright.table import FileStoreTable
from lakewright.write.align import Aligner
from lakewright.write.writer import WriteJob

_TIME = {"spark.sql.timeType.enabled": "true"}  # without it Spark parses no times of day


@dataclass(frozen=True, slots=True)
class SourceReport:
    """One source: how much it is, and what happens to its columns."""

    name: str
    format: str
    files: int | None  # None: nobody counted
    bytes: int | None
    changes: tuple[Change, ...]


def _size(source: SourceReport) -> str:
    if source.files is None:
        return ""
    return f", {source.files:,} file{'' if source.files == 1 else 's'}, {(source.bytes or 0) / 1e6:,.1f} MB"


@dataclass(frozen=True, slots=True)
class IngestPlan:
    """What an ingest is about to do."""

    table: str
    mode: str
    creates: bool  # the table is not there yet
    columns: Mapping[str, str]  # names and types of the table
    primary_keys: tuple[str, ...]
    partition_keys: tuple[str, ...]
    partitions: Mapping[str, str] | None  # the partition that is replaced
    sources: tuple[SourceReport, ...]
    job_id: str | None = None
    way: str | None = None  # how the rows will reach the tasks that write them; only a dry run asks

    def lines(self) -> list[str]:
        """Return the plan as text."""
        keys = f" primary key ({', '.join(self.primary_keys)})" if self.primary_keys else ""
        parts = f" partitioned by ({', '.join(self.partition_keys)})" if self.partition_keys else ""
        verb = {"append": "append to", "upsert": "upsert into", "delete": "delete from"}.get(self.mode, self.mode)
        place = "" if self.partitions is None else f" partition {dict(self.partitions)}"
        new = " (new)" if self.creates else ""
        out = [f"{verb} {self.table}{new}{place}{keys}{parts}"]
        for source in self.sources:
            out.append(f"from {source.name} ({source.format}{_size(source)})")
            out += [f"  {change}" for change in source.changes]
        if self.way is not None:
            width = max(map(len, self.columns))
            out += ["columns", *(f"  {name:<{width}}  {dtype}" for name, dtype in self.columns.items())]
            out.append(f"rows would be written {self.way}")
        return out


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What an ingest did; a dry run has a plan and nothing else."""

    plan: IngestPlan
    written: WriteResult | None  # None: a dry run
    seconds: float

    @property
    def dry_run(self) -> bool:
        """Whether nothing was meant to be written."""
        return self.written is None

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that holds the rows."""
        return None if self.written is None else self.written.snapshot_id

    @property
    def rows(self) -> int:
        """How many rows were written."""
        return 0 if self.written is None else self.written.rows

    @property
    def files(self) -> int:
        """How many files were written."""
        return 0 if self.written is None else self.written.files

    @property
    def bytes(self) -> int:
        """How large these files are."""
        return 0 if self.written is None else self.written.bytes

    @property
    def partitions(self) -> int:
        """How many partitions got rows."""
        return 0 if self.written is None else self.written.partitions

    @property
    def replayed(self) -> bool:
        """Whether an earlier run under the same job id had committed already."""
        return self.written is not None and self.written.replayed

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain values, for JSON."""
        return {
            "snapshot_id": self.snapshot_id,
            "rows": self.rows,
            "files": self.files,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "partitions": self.partitions,
            "replayed": self.replayed,
            "dry_run": self.dry_run,
            "way": self.plan.way if self.written is None else self.written.way,
            "plan": asdict(self.plan),
        }


@dataclass(frozen=True, slots=True)
class _Creation:
    """How a table is made that is not there."""

    primary_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)  # of some columns; the others are as the first source's


@dataclass(frozen=True, slots=True)
class _Manner:
    """How the rows are read and written, and who hears about it."""

    concurrency: int | None
    distribution: str | None
    progress: bool | ProgressCallback | None
    reader_options: Mapping[str, str]
    say: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Job:
    """Everything that a call says besides sources and table."""

    mode: str
    wish: Wish
    creation: _Creation
    manner: _Manner
    schema_mode: str | None
    id: str | None
    dry_run: bool

    @property
    def replaced(self) -> Mapping[str, object] | None:
        """The partition that an overwrite replaces; None: those that get rows."""
        return self.wish.constants if self.mode == "overwrite" and self.wish.constants else None


@dataclass(frozen=True, slots=True)
class Target:
    """The table, or the place where it will be made."""

    name: str
    table: FileStoreTable | None
    identifier: Identifier | None = None
    catalog: FileSystemCatalog | None = None
    schema: TableSchema | None = None  # of a table that is not there yet
    declared: Schema | None = field(default=None, repr=False)

    @property
    def known(self) -> TableSchema:
        """The columns, of the table that is there or of the one that will be."""
        found = self.table.schema if self.table is not None else self.schema
        if found is None:
            raise InvalidInputError(f"the columns of {self.name} are not known yet", table=self.name)
        return found

    @property
    def primary_keys(self) -> Sequence[str]:
        """The primary key columns, of the table that is there or of the one that will be."""
        return self.known.primary_keys

    @property
    def store(self) -> TableStore:
        """The table as a value, of the one that is there or of the one that will be."""
        if self.table is not None:
            return self.table.store
        if self.catalog is None or self.identifier is None:
            raise InvalidInputError(f"{self.name} cannot be made without a catalog", table=self.name)
        database = database_directory(self.catalog.warehouse, self.identifier.get_database_name())
        layout = Layout(f"{database}/{self.identifier.get_table_name()}")
        return TableStore(self.name, self.catalog.storage, layout, self.known)

    def made(self) -> FileStoreTable:
        """Return the table, which is there from now on."""
        if self.table is not None:
            return self.table
        if self.catalog is None or self.identifier is None or self.declared is None:
            raise InvalidInputError(f"{self.name} cannot be made without a catalog", table=self.name)
        self.catalog.create_database(self.identifier.get_database_name(), ignore_if_exists=True)
        self.catalog.create_table(self.identifier, self.declared, ignore_if_exists=True)
        return self.catalog.get_table(self.identifier)


def pipeline(  # noqa: PLR0913 - each argument is one choice of the caller
    spark: SparkSession,
    source: Given | Sequence[Given],
    table: FileStoreTable | str,
    *,
    mode: str = "append",
    catalog: FileSystemCatalog | Mapping[str, str] | None = None,
    format: str | None = None,  # noqa: A002 - what every reader of files calls it
    reader_options: Mapping[str, str] | None = None,
    columns: Sequence[str] | None = None,
    renames: Mapping[str, str] | None = None,
    ignore_extra: bool = False,
    partitions: Mapping[str, str] | None = None,
    create: bool = False,
    primary_key: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    types: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    schema_mode: str | None = None,
    concurrency: int | None = None,
    distribution: str | None = None,
    job_id: str | None = None,
    dry_run: bool = False,
    progress: bool | ProgressCallback | None = None,
    say: Callable[[str], None] | None = None,
) -> IngestResult:
    """Load files, tables or frames, fit them to a table, write them with Spark's workers and commit once.

    `source` is a path, a pattern, a directory, a table (its path, or `db.t` of the catalog), a frame, or several of
    these. `table` is a table, its path, or `db.t` of `catalog` (a catalog, or its options). With `create` a table that
    is not there is made with the columns of the first source (`types` says otherwise of some, as
    `{"price": "DECIMAL(10, 2)"}`), `primary_key`, `partition_by` and `options`.

    Columns are matched by name, without regard to case where no exact match is there; `renames` come first, `columns`
    chooses some of the source. A column that the table lacks is an error, unless `ignore_extra` or
    `schema_mode="merge"` says what to do. `partitions` gives values to partition columns that the source lacks, and is
    the partition that `overwrite` replaces. `say` gets the report, line by line, before the write starts.
    """
    wish = Wish(
        columns=None if columns is None else tuple(columns),
        renames=dict(renames or {}),
        constants=dict(partitions or {}),
        ignore_extra=ignore_extra,
        add_extra=schema_mode == "merge",
        keys_only=mode == "delete",
    )
    creation = _Creation(tuple(primary_key), tuple(partition_by), dict(options or {}), dict(types or {}))
    manner = _Manner(concurrency, distribution, progress, dict(reader_options or {}), say or _quiet)
    job = _Job(mode, wish, creation if create else _Creation(), manner, schema_mode, job_id, dry_run)
    where = CatalogFactory.create(catalog) if isinstance(catalog, Mapping) else catalog
    return _ingest(
        spark,
        find_target(table, where, create=create),
        job,
        partial(find_sources, source, format=format, catalog=where),
    )


def _ingest(spark: SparkSession, target: Target, job: _Job, find: Callable[[], list[Source]]) -> IngestResult:
    """Go from sources, which are looked for only if nobody has done the job, to a snapshot."""
    started = time.monotonic()
    if job.id is not None and target.table is not None:
        earlier = committed_job(target.table, job.id, run=compacting_on(spark))
        if earlier is not None:
            return IngestResult(_plan(target, (), job), earlier, time.monotonic() - started)
    sources = find()
    with ExitStack() as stack:
        stack.enter_context(settings(spark, LOAD_SETTINGS))
        opened = _open(spark, sources, job.manner.reader_options)
        target = _settled(spark, target, opened[0], job)
        if any(isinstance(f.type, AtomicType) and f.type.root == "TIME" for f in target.known.fields):
            stack.enter_context(settings(spark, _TIME))
        plan, frame = _fitted(spark, target, opened, job)
        if job.dry_run:
            plan = replace(plan, way=_way(target, frame, job))
        for line in plan.lines():
            job.manner.say(line)
        if job.dry_run:
            return IngestResult(plan, None, time.monotonic() - started)
        with reading(" + ".join(one.name for one in sources)):
            written = write_table(
                frame,
                target.made(),
                job.mode,
                partitions=job.replaced,
                schema_mode=job.schema_mode,
                concurrency=job.manner.concurrency,
                job_id=job.id,
                progress=job.manner.progress,
                distribution=job.manner.distribution,
            )
    return IngestResult(plan, written, time.monotonic() - started)


def _way(target: Target, frame: DataFrame, job: _Job) -> str:
    """Say how the rows would be written, without running anything."""
    # A table that is not there has no identity yet, and what is only planned needs none.
    write = WriteJob(target.store, "", "", overwrite=job.mode == "overwrite", keys_only=job.mode == "delete")
    clustered = cluster(frame, write, concurrency=job.manner.concurrency, distribution=job.manner.distribution)
    return clustered.way


def _quiet(_line: str) -> None:
    """Say nothing."""


# ---- the table -------------------------------------------------------------------------------------------------------


def find_target(table: FileStoreTable | str, catalog: FileSystemCatalog | None, *, create: bool) -> Target:
    """Return the table that a call names, or with `create` the place for it."""
    if not isinstance(table, str):
        return Target(table.name, table)
    if "/" in table or catalog is None:
        try:
            return Target(table, open_table(table, {} if catalog is None else catalog.options))
        except NotFoundError:
            if not create:
                raise
        return _place_of(table, catalog)
    name = Identifier.from_string(table)
    try:
        return Target(name.get_full_name(), catalog.get_table(name), name, catalog)
    except NotFoundError as error:
        if create:
            return Target(name.get_full_name(), None, name, catalog)
        raise type(error)(f"{error}; create it first, or ask for it (create)", **error.facts) from None


def _place_of(path: str, catalog: FileSystemCatalog | None) -> Target:
    """Read `<warehouse>/<database>.db/<table>` as a table of a catalog, so that it can be made."""
    warehouse, _, rest = path.rstrip("/").rpartition("/")
    warehouse, _, database = warehouse.rpartition("/")
    if not database.endswith(".db"):
        raise InvalidInputError(
            f"{path!r} cannot be made: a new table needs a catalog and a name (db.table), or a path that ends with "
            "<database>.db/<table>",
            table=path,
        )
    options = {} if catalog is None else dict(catalog.options)
    made = CatalogFactory.create({**options, "warehouse": warehouse or "."})
    name = Identifier.create(database.removesuffix(".db"), rest)
    return Target(name.get_full_name(), None, name, made)


def _settled(spark: SparkSession, target: Target, first: Opened, job: _Job) -> Target:
    """Return the target with the columns of a new table, or check that the table there is what was asked for."""
    creation = job.creation
    if target.table is not None:
        _check_same(target.table, creation)
        return target
    with reading(first.source.name):
        fields = _new_fields(types_of(spark, first), job.wish, creation.types)
    declared = Schema(fields, list(creation.partition_by), list(creation.primary_key), dict(creation.options))
    with naming(target.name):
        made = new_table_schema(declared, time_millis=int(time.time() * 1000))
    return Target(target.name, None, target.identifier, target.catalog, made, declared)


def _check_same(table: FileStoreTable, creation: _Creation) -> None:
    stored = table.options.to_map()
    wanted: list[tuple[str, object, object]] = [
        ("primary key", list(creation.primary_key), table.primary_keys),
        ("partition", list(creation.partition_by), table.partition_keys),
        *((f"option {key!r}", value, stored.get(key)) for key, value in creation.options.items()),
    ]
    for what, asked, there in wanted:
        if asked and asked != there:
            raise InvalidInputError(
                f"table {table.name} exists, and its {what} is {there!r}, not {asked!r}; leave that out, or use "
                "another name",
                table=table.name,
            )


def _new_fields(found: sql.StructType, wish: Wish, types: Mapping[str, str]) -> list[DataField]:
    chosen = [one for one in found.fields if wish.columns is None or one.name in wish.columns]
    renamed = [sql.StructField(wish.renames.get(f.name, f.name), f.dataType, f.nullable, f.metadata) for f in chosen]
    names = {one.name for one in renamed}
    missing = [sql.StructField(name, sql.StringType()) for name in wish.constants if name not in names]
    unknown = [name for name in types if name not in names and name not in wish.constants]
    if unknown:
        raise InvalidInputError(
            f"there is no column {unknown[0]!r} to give a type; the new table has {', '.join(sorted(names))}",
            column=unknown[0],
        )
    fields = fields_of(sql.StructType([*renamed, *missing]))
    return [replace(f, type=parse_type(types[f.name])) if f.name in types else f for f in fields]


# ---- the columns -----------------------------------------------------------------------------------------------------


def _open(spark: SparkSession, sources: Sequence[Source], options: Mapping[str, str]) -> list[Opened]:
    opened = []
    for source in sources:
        with reading(source.name):
            opened.append(open_source(spark, source, options))
    return opened


def _fitted(spark: SparkSession, target: Target, opened: Sequence[Opened], job: _Job) -> tuple[IngestPlan, DataFrame]:
    """Return the plan, and the rows of all sources under the names of the table."""
    wish = job.wish
    schema = target.known
    check_mode(target, job.mode, job.schema_mode)
    with naming(target.name):
        check_supported_for_write(schema)
    _check_constants(target.name, schema, wish)
    check_renames([one.frame.columns for one in opened], wish)
    types = {one.name: one.dataType for one in spark_schema(schema.fields).fields}
    keys = {*schema.primary_keys, *schema.partition_keys} if schema.primary_keys else set()
    reports, frames = [], []
    for one in opened:
        fits = fit(one.frame.columns, schema.fields, keys, wish, name=target.name)
        with reading(one.source.name):
            frame = fitted(spark, one, fits, types)
        _check_types(frame, schema, keys, wish, target.name)
        frames.append(frame)
        reports.append(_report(one, fits, frame, types))
    plan = _plan(target, tuple(reports), job)
    return plan, united(frames, [one.source.name for one in opened])


def _plan(target: Target, sources: tuple[SourceReport, ...], job: _Job) -> IngestPlan:
    schema = target.known
    return IngestPlan(
        target.name,
        job.mode,
        target.table is None,
        {field.name: str(field.type) for field in schema.fields},
        tuple(schema.primary_keys),
        tuple(schema.partition_keys),
        None if job.replaced is None else {name: str(value) for name, value in job.replaced.items()},
        sources,
        job.id,
    )


def _check_constants(table: str, schema: TableSchema, wish: Wish) -> None:
    for name, value in wish.constants.items():
        if name not in schema.partition_keys:
            raise InvalidInputError(
                f"table {table}: {name!r} is no partition column; it has {', '.join(schema.partition_keys) or 'none'}",
                table=table,
                column=name,
            )
        with naming(table):
            cast_text(str(value), schema.field(name).type)


def _check_types(frame: DataFrame, schema: TableSchema, keys: set[str], wish: Wish, table: str) -> None:
    """Align nothing to the table: what can never fit is an error before any row is read."""
    if wish.add_extra:
        return  # the table will change; the write looks at this
    names = {f.name for f in schema.fields}
    known = sql.StructType([one for one in frame.schema.fields if one.name in names])
    aligner = Aligner(schema.fields, table=table, needed=keys if wish.keys_only else None)
    aligner.align(arrow_schema_of(known).empty_table())


def _report(opened: Opened, fits: Fit, frame: DataFrame, types: Mapping[str, sql.DataType]) -> SourceReport:
    source = opened.source
    widened = [
        Change(WIDENED, one.name, f"{one.dataType.simpleString()} to {types[one.name].simpleString()}")
        for one in frame.schema.fields
        if one.name in types and one.dataType.simpleString() != types[one.name].simpleString()
    ]
    return SourceReport(source.name, source.format, source.files, source.bytes, (*fits.changes, *widened))

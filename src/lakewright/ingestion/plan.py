"""The values of an ingest: the arguments of the call, the plan, the result, and the table or the place for a new one.

Arguments and a table's name in, frozen values out. Nothing is created or written but by `Target.create_if_missing`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import cast

from lakewright.catalog.base import Catalog
from lakewright.catalog.factory import CatalogFactory
from lakewright.catalog.open import open_table
from lakewright.commit.table_commit import WriteResult
from lakewright.display.notebook import InNotebook
from lakewright.errors import (
    InvalidInputError,
    LakewrightError,
    LakewrightWarning,
    NotFoundError,
    TableAlreadyExistException,
)
from lakewright.ingestion.columns import ColumnChange, ColumnRequest
from lakewright.metadata.store import TableStore
from lakewright.spec import arguments
from lakewright.spec.arguments import Path, SchemaMode, WriteMode
from lakewright.spec.identifier import Identifier
from lakewright.spec.schema.declaration import Schema
from lakewright.spec.schema.table_schema import TableSchema
from lakewright.spec.types import parse_type, with_nullable
from lakewright.storage.layout import Layout
from lakewright.storage.local import LocalStorage
from lakewright.table.table import FileStoreTable

# ---- the call --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Creation:
    """How a table is created that does not exist."""

    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of an ingest besides sources and table, checked."""

    mode: WriteMode = "append"
    column_request: ColumnRequest = field(default_factory=ColumnRequest)
    creation: Creation = field(default_factory=Creation)
    types: Mapping[str, str] = field(default_factory=dict)  # of new columns; the others are guessed from the data
    reader_options: Mapping[str, str] = field(default_factory=dict)
    header: bool = True  # the first line of a csv file names the columns
    schema_mode: SchemaMode | None = None
    bad_rows: str | None = None  # the directory for rows that cannot be read; None: the first one is an error
    job_id: str | None = None
    dry_run: bool = False
    say: Callable[[str], None] | None = None  # gets the lines of the report; None: only warnings, as Python's

    def report(self, plan: IngestPlan) -> None:
        """Hand the plan to `say`, line by line; without `say`, issue its warnings as Python warnings."""
        if self.say is None:
            for warning in (f"{one.name}: {text}" for one in plan.sources for text in one.warnings):
                warnings.warn(warning, LakewrightWarning, stacklevel=5)  # at the caller of `ingest`
            return
        for line in plan.lines():
            self.say(line)

    @property
    def overwritten_partition(self) -> Mapping[str, object] | None:
        """The partition that an overwrite replaces; None: every partition that gets rows."""
        constants = self.column_request.constants
        return constants if self.mode == "overwrite" and constants else None


def make_call(given: Mapping[str, object]) -> Call:
    """Check the arguments of `ingest`, given by name, and return them as one value. Other names are ignored."""
    types = _texts("types", given["types"])
    for dtype in types.values():
        parse_type(dtype)
    reader_options = _texts("reader_options", given["reader_options"])
    has_header = reader_options.pop("header", "true").lower() != "false"
    mode, schema_mode, say = given["mode"], given["schema_mode"], given["say"]
    request = ColumnRequest(
        chosen=arguments.optional(arguments.names, "columns", given["columns"]),
        renames=_texts("renames", given["renames"]),
        constants=_texts("partitions", given["partitions"]),
        ignore_extra=arguments.flag("ignore_extra", given["ignore_extra"]),
        add_extra=schema_mode == "merge",
        keys_only=mode == "delete",
        keeps_missing=mode == "upsert",
    )
    creation = Creation(
        arguments.names("primary_keys", given["primary_keys"]),
        arguments.names("partition_keys", given["partition_keys"]),
        _texts("options", given["options"]),
    )
    return Call(
        cast("WriteMode", mode),  # `check_mode` refuses what is no mode
        request,
        creation if arguments.flag("create", given["create"]) else Creation(),
        types,
        reader_options,
        arguments.flag("header", given["header"]) and has_header,
        cast("SchemaMode | None", schema_mode),
        arguments.optional(arguments.path, "bad_rows", given["bad_rows"]),
        arguments.optional(arguments.text, "job_id", given["job_id"]),
        arguments.flag("dry_run", given["dry_run"]),
        None if say is None else cast("Callable[[str], None]", arguments.function("say", say)),
    )


def _texts(argument: str, value: object) -> dict[str, str]:
    return {} if value is None else arguments.text_map(argument, value)


# ---- what is reported ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SourceReport:
    """One source: its size, and what happens to its columns."""

    name: str
    format: str
    files: int | None  # None: not counted
    bytes: int | None
    changes: tuple[ColumnChange, ...]
    warnings: tuple[str, ...] = ()


def _size(source: SourceReport) -> str:
    if source.files is None:
        return ""
    return f", {source.files:,} file{'' if source.files == 1 else 's'}, {(source.bytes or 0) / 1e6:,.1f} MB"


@dataclass(frozen=True, slots=True)
class IngestPlan:
    """What an ingest will do, before anything is written."""

    table: str
    mode: WriteMode
    creates: bool  # the table does not exist yet
    columns: Mapping[str, str]  # names and types of the table
    primary_keys: tuple[str, ...]
    partition_keys: tuple[str, ...]
    partitions: Mapping[str, str] | None  # the partition that is replaced
    sources: tuple[SourceReport, ...]
    job_id: str | None = None
    way: str | None = None  # how rows reach the tasks that write them; only a dry run sets it

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
            out += [f"  warning: {warning}" for warning in source.warnings]
            out += [f"  {change}" for change in source.changes]
        if self.way is not None:
            width = max(map(len, self.columns))
            out += ["columns", *(f"  {name:<{width}}  {dtype}" for name, dtype in self.columns.items())]
            out.append(f"rows would be written {self.way}")
        return out


@dataclass(frozen=True, slots=True)
class IngestResult(InNotebook):
    """What an ingest did; a dry run has a plan and nothing else."""

    plan: IngestPlan
    written: WriteResult | None  # None: a dry run
    seconds: float
    bad_rows: int = 0  # rows that do not fit the table and were left out
    bad_rows_file: str | None = None  # the file that holds them
    duplicates: int | None = None  # rows whose key an earlier row of the same sources had; None: not counted

    @property
    def dry_run(self) -> bool:
        """Whether only the plan was asked for."""
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
            "bad_rows": self.bad_rows,
            "bad_rows_file": self.bad_rows_file,
            "duplicates": self.duplicates,
            "replayed": self.replayed,
            "dry_run": self.dry_run,
            "way": self.plan.way if self.written is None else self.written.way,
            "plan": asdict(self.plan),
        }


# ---- the table -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Target:
    """The table that rows go to, or the place where it will be created."""

    name: str
    table: FileStoreTable | None
    identifier: Identifier | None = None
    catalog: Catalog | None = None
    new_schema: TableSchema | None = None  # of a table that does not exist yet
    declared: Schema | None = field(default=None, repr=False)

    @property
    def table_schema(self) -> TableSchema:
        """The schema of the table, or of the one that will be created."""
        schema = self.table.schema if self.table is not None else self.new_schema
        if schema is None:
            raise InvalidInputError(f"the columns of {self.name} are not known yet", table=self.name)
        return schema

    @property
    def primary_keys(self) -> Sequence[str]:
        """The primary key columns of the table, or of the one that will be created."""
        return self.table_schema.primary_keys

    @property
    def store(self) -> TableStore:
        """The store of the table. Of one that will be created it is good for planning only.

        A server says where a table is when it is created, and a plan of its write looks at no file.
        """
        if self.table is not None:
            return self.table.store
        return TableStore(self.name, LocalStorage(), Layout(f"/{self.name}"), self.table_schema)

    def _no_catalog(self) -> InvalidInputError:
        return InvalidInputError(f"{self.name} cannot be made without a catalog", table=self.name)

    def create_if_missing(self) -> Created:
        """Create the table, and its database, unless they exist."""
        if self.table is not None:
            return Created(self.table)
        if self.catalog is None or self.identifier is None or self.declared is None:
            raise self._no_catalog()
        with suppress(TableAlreadyExistException):  # another call creates it at the same time
            return create_table(self.catalog, self.identifier, self.declared)
        return Created(self.catalog.get_table(self.identifier))


@dataclass(frozen=True, slots=True)
class Created:
    """A table to write into, and what was created for it."""

    table: FileStoreTable
    catalog: Catalog | None = None  # where the table was created; None: it existed
    identifier: Identifier | None = None
    with_database: bool = False

    def take_back(self) -> None:
        """Drop what was created, unless another writer has committed to it meanwhile."""
        if self.catalog is None or self.identifier is None:
            return
        with suppress(LakewrightError, OSError):
            if self.table.snapshot() is None:
                self.catalog.drop_table(self.identifier, ignore_if_not_exists=True)
                _drop_database(self.catalog, self.identifier, made=self.with_database)


def create_table(catalog: Catalog, identifier: Identifier, declared: Schema) -> Created:
    """Create a table, and its database if that does not exist; TableAlreadyExistException if the table does."""
    database = identifier.get_database_name()
    made = False
    try:
        catalog.get_database(database)
    except NotFoundError:
        catalog.create_database(database, ignore_if_exists=True)
        made = True
    try:
        catalog.create_table(identifier, declared)
        return Created(catalog.get_table(identifier), catalog, identifier, made)
    except TableAlreadyExistException:
        raise
    except BaseException:
        _drop_database(catalog, identifier, made=made)
        raise


def _drop_database(catalog: Catalog, identifier: Identifier, *, made: bool) -> None:
    if made:
        with suppress(LakewrightError, OSError):  # it stays if others have put tables into it
            catalog.drop_database(identifier.get_database_name())


def find_target(table: FileStoreTable | Path, catalog: Catalog | None, *, create: bool) -> Target:
    """Return the table that a call names, or with `create` the place where it will be created."""
    if isinstance(table, FileStoreTable):
        return Target(table.name, table)
    table = arguments.path("table", table)
    if "/" in table or catalog is None:
        try:
            return Target(table, open_table(table, {} if catalog is None else catalog.options))
        except NotFoundError:
            if not create:
                raise
        return _new_table_at(table, catalog)
    name = Identifier.from_string(table)
    try:
        found = catalog.get_table(name)
    except NotFoundError as error:
        if create:
            return Target(name.get_full_name(), None, name, catalog)
        raise type(error)(f"{error}; create it first, or ask for it (create=True, --create)", **error.facts) from None
    if not isinstance(found, FileStoreTable):
        raise InvalidInputError(
            f"{found.name} is a system table, which can only be read; name the table itself", table=found.name
        )
    return Target(name.get_full_name(), found, name, catalog)


def _new_table_at(path: str, catalog: Catalog | None) -> Target:
    """Return the place for a new table at `<warehouse>/<database>.db/<table>`, with a catalog of that warehouse."""
    warehouse, _, rest = path.rstrip("/").rpartition("/")
    warehouse, _, database = warehouse.rpartition("/")
    if not database.endswith(".db"):
        raise InvalidInputError(
            f"{path!r} cannot be made: a new table needs a catalog and a name (db.table), or a path that ends with "
            "<database>.db/<table>",
            table=path,
        )
    options = {} if catalog is None else dict(catalog.options)
    owner = CatalogFactory.create({**options, "warehouse": warehouse or "."})
    name = Identifier.create(database.removesuffix(".db"), rest)
    return Target(name.get_full_name(), None, name, owner)


def check_matches_table(table: FileStoreTable, creation: Creation, types: Mapping[str, str]) -> None:
    """Raise InvalidInputError if the call describes keys, options or types that an existing table does not have."""
    stored = table.options.to_map()
    known = {f.name: f.type for f in table.fields}
    for column, dtype in types.items():
        if column in known and with_nullable(parse_type(dtype), nullable=True) != with_nullable(
            known[column], nullable=True
        ):
            raise InvalidInputError(
                f"table {table.name} has the column {column!r} already, as {known[column]}, not {dtype}; leave the "
                "type out, or alter the table first",
                table=table.name,
                column=column,
            )
    described: list[tuple[str, object, object]] = [
        ("primary key", list(creation.primary_keys), table.primary_keys),
        ("partition", list(creation.partition_keys), table.partition_keys),
        *((f"option {key!r}", value, stored.get(key)) for key, value in creation.options.items()),
    ]
    for what, asked, actual in described:
        if asked and asked != actual:
            raise InvalidInputError(
                f"table {table.name} exists, and its {what} is {actual!r}, not {asked!r}; leave that out, or use "
                "another name",
                table=table.name,
            )

"""What an ingest is told and what it says: the call as values, the table or its place, the plan and the result."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import cast

from lakewright.catalog.filesystem import CatalogFactory, FileSystemCatalog
from lakewright.catalog.open import open_table
from lakewright.commit.table_commit import WriteResult
from lakewright.errors import InvalidInputError, LakewrightWarning, NotFoundError
from lakewright.ingestion.columns import Change, Wish
from lakewright.metadata.store import TableStore
from lakewright.spec import arguments
from lakewright.spec.identifier import Identifier
from lakewright.spec.schema.table_schema import Schema, TableSchema
from lakewright.spec.types import parse_type, with_nullable
from lakewright.storage.layout import Layout, database_directory
from lakewright.table.table import FileStoreTable

# ---- the call --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Creation:
    """How a table is made that is not there."""

    primary_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call:
    """Everything that a call says besides sources and table."""

    mode: str = "append"
    wish: Wish = field(default_factory=Wish)
    creation: Creation = field(default_factory=Creation)
    types: Mapping[str, str] = field(default_factory=dict)  # of new columns; the data shows the others
    reader_options: Mapping[str, str] = field(default_factory=dict)
    header: bool = True  # the first line of a csv file names the columns
    schema_mode: str | None = None
    bad_rows: str | None = None  # the directory for rows that cannot be read; None: the first one is an error
    job_id: str | None = None
    dry_run: bool = False
    say: Callable[[str], None] | None = None  # gets the report; None: only warnings are given, as Python's

    def report(self, plan: IngestPlan) -> None:
        """Say what is about to be done."""
        if self.say is None:
            for warning in (f"{one.name}: {text}" for one in plan.sources for text in one.warnings):
                warnings.warn(warning, LakewrightWarning, stacklevel=4)
            return
        for line in plan.lines():
            self.say(line)

    @property
    def replaced(self) -> Mapping[str, object] | None:
        """The partition that an overwrite replaces; None: those that get rows."""
        return self.wish.constants if self.mode == "overwrite" and self.wish.constants else None


def make_call(  # noqa: PLR0913 - each argument is one choice of the caller
    *,
    mode: str = "append",
    reader_options: Mapping[str, str] | None = None,
    header: bool = True,
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
    bad_rows: str | None = None,
    job_id: str | None = None,
    dry_run: bool = False,
    say: Callable[[str], None] | None = None,
) -> Call:
    """Return the choices of a caller as one value, with types that are types."""
    said = _texts("types", types)
    for dtype in said.values():
        parse_type(dtype)
    given = _texts("reader_options", reader_options)
    no_header = given.pop("header", "true").lower() == "false"
    wish = Wish(
        columns=arguments.optional(arguments.names, "columns", columns),
        renames=_texts("renames", renames),
        constants=_texts("partitions", partitions),
        ignore_extra=arguments.flag("ignore_extra", ignore_extra),
        add_extra=schema_mode == "merge",
        keys_only=mode == "delete",
        keeps=mode == "upsert",
    )
    creation = Creation(
        arguments.names("primary_key", primary_key),
        arguments.names("partition_by", partition_by),
        _texts("options", options),
    )
    return Call(
        mode,
        wish,
        creation if arguments.flag("create", create) else Creation(),
        said,
        given,
        arguments.flag("header", header) and not no_header,
        schema_mode,
        arguments.optional(arguments.path, "bad_rows", bad_rows),
        arguments.optional(arguments.text, "job_id", job_id),
        arguments.flag("dry_run", dry_run),
        None if say is None else cast("Callable[[str], None]", arguments.function("say", say)),
    )


def _texts(argument: str, value: object) -> dict[str, str]:
    return {} if value is None else arguments.text_map(argument, value)


# ---- what is reported ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SourceReport:
    """One source: how much it is, and what happens to its columns."""

    name: str
    format: str
    files: int | None  # None: nobody counted
    bytes: int | None
    changes: tuple[Change, ...]
    warnings: tuple[str, ...] = ()


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
            out += [f"  warning: {warning}" for warning in source.warnings]
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
    bad_rows: int = 0  # rows that were set aside
    bad_rows_file: str | None = None  # where they are
    duplicates: int | None = None  # rows whose key an earlier row of the same sources had; None: nobody counted

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


def find_target(table: FileStoreTable | str, catalog: FileSystemCatalog | None, *, create: bool) -> Target:
    """Return the table that a call names, or with `create` the place for it."""
    if isinstance(table, FileStoreTable):
        return Target(table.name, table)
    table = arguments.path("table", table)
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


def check_same(table: FileStoreTable, creation: Creation, types: Mapping[str, str]) -> None:
    """Refuse a call that describes the table otherwise than it is."""
    stored = table.options.to_map()
    known = {f.name: f.type for f in table.fields}
    for column, wanted in types.items():
        if column in known and with_nullable(parse_type(wanted), nullable=True) != with_nullable(
            known[column], nullable=True
        ):
            raise InvalidInputError(
                f"table {table.name} has the column {column!r} already, as {known[column]}, not {wanted}; leave the "
                "type out, or alter the table first",
                table=table.name,
                column=column,
            )
    described: list[tuple[str, object, object]] = [
        ("primary key", list(creation.primary_key), table.primary_keys),
        ("partition", list(creation.partition_by), table.partition_keys),
        *((f"option {key!r}", value, stored.get(key)) for key, value in creation.options.items()),
    ]
    for what, asked, there in described:
        if asked and asked != there:
            raise InvalidInputError(
                f"table {table.name} exists, and its {what} is {there!r}, not {asked!r}; leave that out, or use "
                "another name",
                table=table.name,
            )

"""Arguments, mapping of columns, target and result of an ingest."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import cast

from lakewright.catalog.catalog import Catalog
from lakewright.catalog.catalog_registry import CatalogFactory
from lakewright.commit.table_commit import WriteResult
from lakewright.display import HtmlRepr
from lakewright.errors import (
    InvalidInputError,
    LakewrightError,
    LakewrightWarning,
    NotFoundError,
    TableAlreadyExistException,
)
from lakewright.metadata.table_store import TableStore
from lakewright.spec import argument_checks
from lakewright.spec.argument_checks import PathLike, SchemaMode, WriteMode
from lakewright.spec.identifier import Identifier
from lakewright.spec.schema import Schema
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import DataField, parse_type, with_nullable
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.table_layout import Layout
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.open_table import open_table
from lakewright.write.row_intake import kind_column

# ---- Mapping of columns ----------------------------------------------------------------------------------------------
# Renames of the caller come first, then names that are equal, then names that differ only in case. Every column of
# the source goes to a column of the table, is ignored because the caller asked for it, or is an error; every column
# of the table gets values, nulls or its default, or is an error. Positions and values play no part.

RENAMED, WIDENED, NARROWED, FILLED = "renamed", "widened", "narrowed", "filled"
KEPT, IGNORED, ADDED = "kept", "ignored", "added"


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """One difference between a column of the source and the column of the table that it fills."""

    kind: str  # renamed, widened, narrowed, filled, kept, ignored or added
    column: str  # of the table; of the source where it is ignored
    detail: str

    def __str__(self) -> str:
        return f"{self.kind:<8} {self.column}: {self.detail}"


@dataclass(frozen=True, slots=True)
class ColumnRequest:
    """What the caller asked for about columns."""

    chosen: tuple[str, ...] | None = None  # columns of the source to load; None: all
    renames: Mapping[str, str] = field(default_factory=dict)  # from names of the source to names of the table
    constants: Mapping[str, object] = field(default_factory=dict)  # for columns that the source lacks
    ignore_extra: bool = False
    add_extra: bool = False  # the table gets the columns that it lacks
    keys_only: bool = False  # only the key columns are needed
    keeps_missing: bool = False  # rows of the table keep their values in columns that the source lacks


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """Which columns of one source become which columns of the table."""

    pairs: tuple[tuple[str, str], ...]  # (name in the source, name in the table)
    constants: Mapping[str, object]  # by column of the table
    changes: tuple[ColumnChange, ...]


def check_renames(columns: Sequence[Collection[str]], request: ColumnRequest) -> None:
    """Raise InvalidInputError if a rename or a choice names a column that no source has."""
    known = {name for names in columns for name in names}
    for name in (*request.renames, *(request.chosen or ())):
        if name not in known:
            raise InvalidInputError(
                f"no source has a column {name!r}; there are {', '.join(sorted(known))}", column=name
            )


def map_columns(
    names: Sequence[str], table: Sequence[DataField], keys: Collection[str], request: ColumnRequest, *, name: str
) -> ColumnMapping:
    """Map the columns of one source to those of the table `name`; `keys` are the columns that a delete needs."""
    chosen = _chosen_columns(names, request, name)
    targets = _targets(chosen, [f.name for f in table], request, name)
    kinds = kind_column(chosen, [f.name for f in table], table=name) if keys else None
    extra = [column for column in chosen if column not in targets and column != kinds]
    changes = [
        ColumnChange(RENAMED, target, f"was {column!r}") for column, target in targets.items() if column != target
    ]
    pairs = dict(targets) if kinds is None else {**targets, kinds: kinds}
    if extra and not (request.ignore_extra or request.add_extra):
        raise InvalidInputError(
            f"table {name}: the source has the column {extra[0]!r}, which the table lacks (its columns: "
            f"{', '.join(f.name for f in table)}); rename it (--rename), leave it out (--ignore-extra) "
            "or add it to the table (--schema-mode merge); if a csv file has no header line, say so (header=False, "
            "--no-header), and if its fields end with another sign than a comma, name it (--source-option 'sep=;')",
            table=name,
            column=extra[0],
        )
    for column in extra:
        if request.add_extra and not request.ignore_extra:
            pairs[column] = column
            changes.append(ColumnChange(ADDED, column, "new column of the table"))
        else:
            changes.append(ColumnChange(IGNORED, column, "the table has no such column"))
    mapped = set(pairs.values())
    fills = [_fill_change(column, keys, request, name) for column in table if column.name not in mapped]
    changes += [change for change in fills if change is not None]
    constants = {column: value for column, value in request.constants.items() if column not in mapped}
    return ColumnMapping(tuple(pairs.items()), constants, tuple(changes))


def _chosen_columns(names: Sequence[str], request: ColumnRequest, table: str) -> list[str]:
    twice = [column for column, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidInputError(
            f"table {table}: the source has two columns named {twice[0]!r}; rename or drop one",
            table=table,
            column=twice[0],
        )
    return [column for column in names if request.chosen is None or column in request.chosen]


def _targets(chosen: Sequence[str], known: Sequence[str], request: ColumnRequest, table: str) -> dict[str, str]:
    """Return the column of the table for each column of the source, in the order of the table."""
    targets: dict[str, str] = {}
    for column in chosen:
        target = request.renames.get(column)
        if target is not None and target not in known and not request.add_extra:
            raise InvalidInputError(
                f"table {table}: {column!r} cannot become {target!r}, which is no column; the table has "
                f"{', '.join(known)}",
                table=table,
                column=target,
            )
        if target is not None:
            _add_target(targets, column, target, table)
    for column in chosen:
        if column in known and column not in targets and column not in targets.values():
            _add_target(targets, column, column, table)
    for target in known:
        alike = [c for c in chosen if c not in targets and c.casefold() == target.casefold()]
        if target not in targets.values() and alike:
            for column in alike:
                _add_target(targets, column, target, table)
    order = {target: number for number, target in enumerate(known)}
    return dict(sorted(targets.items(), key=lambda pair: order.get(pair[1], len(order))))


def _add_target(targets: dict[str, str], column: str, target: str, table: str) -> None:
    other = next((taken for taken, of in targets.items() if of == target), None)
    if other is not None:
        raise InvalidInputError(
            f"table {table}: the columns {other!r} and {column!r} of the source would both become {target!r}; choose "
            "one by a rename or by naming the columns",
            table=table,
            column=target,
        )
    targets[column] = target


def _fill_change(column: DataField, keys: Collection[str], request: ColumnRequest, table: str) -> ColumnChange | None:
    """Return what a column is filled with that the source lacks; None: its values are not used."""
    if column.name in request.constants:
        return ColumnChange(FILLED, column.name, f"with {request.constants[column.name]!r} for every row")
    if request.keys_only and column.name not in keys:
        return None
    if column.default_value is not None or column.type.nullable:
        value = "null" if column.default_value is None else f"its default {column.default_value!r}"
        kept = ColumnChange(KEPT, column.name, f"as it is; {value} in new rows")
        return kept if request.keeps_missing else ColumnChange(FILLED, column.name, f"with {value}")
    raise InvalidInputError(
        f"table {table}: the source lacks the column {column.name!r} ({column.type}), which has no default and may not "
        "be null; add it, or rename the column that holds it",
        table=table,
        column=column.name,
    )


# ---- Arguments, plan and result --------------------------------------------------------------------------------------
# Arguments and a table's name in, frozen values out. Nothing is created or written but by `Target.create_if_missing`.

# ---- the call --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Creation:
    """How a table is created that does not exist."""

    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IngestCall:
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


def make_call(given: Mapping[str, object]) -> IngestCall:
    """Check the arguments of `ingest`, given by name, and return them as one value. Other names are ignored."""
    types = _texts("types", given["types"])
    for dtype in types.values():
        parse_type(dtype)
    reader_options = _texts("reader_options", given["reader_options"])
    has_header = reader_options.pop("header", "true").lower() != "false"
    mode, schema_mode, say = given["mode"], given["schema_mode"], given["say"]
    request = ColumnRequest(
        chosen=argument_checks.check_optional(argument_checks.check_names, "columns", given["columns"]),
        renames=_texts("renames", given["renames"]),
        constants=_texts("partitions", given["partitions"]),
        ignore_extra=argument_checks.check_bool("ignore_extra", given["ignore_extra"]),
        add_extra=schema_mode == "merge",
        keys_only=mode == "delete",
        keeps_missing=mode == "upsert",
    )
    creation = Creation(
        argument_checks.check_names("primary_keys", given["primary_keys"]),
        argument_checks.check_names("partition_keys", given["partition_keys"]),
        _texts("options", given["options"]),
    )
    return IngestCall(
        cast("WriteMode", mode),  # `check_mode` refuses what is no mode
        request,
        creation if argument_checks.check_bool("create", given["create"]) else Creation(),
        types,
        reader_options,
        argument_checks.check_bool("header", given["header"]) and has_header,
        cast("SchemaMode | None", schema_mode),
        argument_checks.check_optional(argument_checks.check_path, "bad_rows", given["bad_rows"]),
        argument_checks.check_optional(argument_checks.check_text, "job_id", given["job_id"]),
        argument_checks.check_bool("dry_run", given["dry_run"]),
        None if say is None else cast("Callable[[str], None]", argument_checks.check_callable("say", say)),
    )


def _texts(argument: str, value: object) -> dict[str, str]:
    return {} if value is None else argument_checks.check_text_mapping(argument, value)


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
    method: str | None = None  # how rows reach the tasks that write them; only a dry run sets it

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
        if self.method is not None:
            width = max(map(len, self.columns))
            out += ["columns", *(f"  {name:<{width}}  {dtype}" for name, dtype in self.columns.items())]
            out.append(f"rows would be written {self.method}")
        return out


@dataclass(frozen=True, slots=True)
class IngestResult(HtmlRepr):
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
            "method": self.plan.method if self.written is None else self.written.method,
            "plan": asdict(self.plan),
        }


# ---- the table -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IngestTarget:
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


def find_target(table: FileStoreTable | PathLike, catalog: Catalog | None, *, create: bool) -> IngestTarget:
    """Return the table that a call names, or with `create` the place where it will be created."""
    if isinstance(table, FileStoreTable):
        return IngestTarget(table.name, table)
    table = argument_checks.check_path("table", table)
    if "/" in table or catalog is None:
        try:
            return IngestTarget(table, open_table(table, {} if catalog is None else catalog.options))
        except NotFoundError:
            if not create:
                raise
        return _new_table_at(table, catalog)
    name = Identifier.from_string(table)
    try:
        found = catalog.get_table(name)
    except NotFoundError as error:
        if create:
            return IngestTarget(name.get_full_name(), None, name, catalog)
        raise type(error)(f"{error}; create it first, or ask for it (create=True, --create)", **error.facts) from None
    if not isinstance(found, FileStoreTable):
        raise InvalidInputError(
            f"{found.name} is a system table, which can only be read; name the table itself", table=found.name
        )
    return IngestTarget(name.get_full_name(), found, name, catalog)


def _new_table_at(path: str, catalog: Catalog | None) -> IngestTarget:
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
    return IngestTarget(name.get_full_name(), None, name, owner)


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

"""A directory of data files becomes a table without a copy."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cmp_to_key
from itertools import pairwise
from typing import TypeAlias
from urllib.parse import unquote

import pyarrow as pa

from lakewright.catalog.catalog import Catalog, plain_identifier
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.committer import Committer
from lakewright.display import HtmlRepr
from lakewright.errors import (
    CommitUnknownError,
    InvalidInputError,
    LakewrightError,
    TableAlreadyExistException,
    TableNotExistException,
    UnsupportedError,
)
from lakewright.formats.data_file_writer import wall_clock_ms
from lakewright.ingestion.foreign_files import FileContent, format_of, read_content
from lakewright.ingestion.text_values import STRING, guess
from lakewright.metadata.table_store import TableStore
from lakewright.spec import argument_checks
from lakewright.spec.argument_checks import PathLike
from lakewright.spec.arrow_types import from_arrow_type, to_arrow_type
from lakewright.spec.binary_row import encode_row
from lakewright.spec.column_stats import to_simple_stats
from lakewright.spec.identifier import Identifier
from lakewright.spec.manifest import APPEND, EMPTY_ROW, EMPTY_STATS, DataFile
from lakewright.spec.option_table import storage_options
from lakewright.spec.scalars import cast_text
from lakewright.spec.schema import Schema, SchemaChange
from lakewright.spec.table_options import TableOptions
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import AtomicType, DataType, parse_type
from lakewright.storage.storage import FileInfo, Storage
from lakewright.storage.storage_registry import open_storage
from lakewright.table.file_store_table import FileStoreTable

# ---- Listing data files ----------------------------------------------------------------------------------------------
# Directories are either all of the form `column=value`, as Hive and Spark write them, or none is. Names that begin
# with `_` or `.` are not data. A directory that belongs to a table of another kind is refused: which of its files
# count is said elsewhere.

_NULL = ("__HIVE_DEFAULT_PARTITION__", "__DEFAULT_PARTITION__")
_OWNERS = {
    "_delta_log": "a Delta Lake table",
    ".hoodie": "a Hudi table",
    "_spark_metadata": "the sink of a Spark stream",
    "_temporary": "a job that is still writing, or was cut short",
}


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A data file, and the texts of its partition values by the names of the columns; None is null."""

    path: str
    size: int
    values: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class DirectoryListing:
    """What a directory holds."""

    directory: str
    files: tuple[FoundFile, ...]
    left: tuple[str, ...]  # files that are not data

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the partition columns."""
        return tuple(self.files[0].values) if self.files else ()


def list_files(storage: Storage, directory: str) -> DirectoryListing:
    """Return the data files below a directory; raise InvalidInputError if they cannot be one table."""
    _check_not_owned(storage, directory)
    found, left = [], []
    for info in sorted(storage.walk(directory), key=lambda info: info.path):
        *parents, name = info.path.removeprefix(f"{directory.rstrip('/')}/").split("/")
        if any(_is_hidden(part) for part in (*parents, name)):
            left.append(info.path)
            continue
        found.append(_file_of(info, parents))
    if not found:
        raise InvalidInputError(f"there are no data files in {directory}: check the path", path=directory)
    keys = tuple(found[0].values)
    for file in found:
        if tuple(file.values) != keys:
            raise InvalidInputError(
                f"{file.path} is in partitions by {_format_keys(tuple(file.values))}, and {found[0].path} by "
                f"{_format_keys(keys)}: move one kind into a directory of its own",
                path=file.path,
            )
    return DirectoryListing(directory, tuple(found), tuple(left))


def _check_not_owned(storage: Storage, directory: str) -> None:
    names = {path.rstrip("/").rpartition("/")[2] for path in storage.list_directories(directory)}
    owner = next((owner for name, owner in _OWNERS.items() if name in names), None)
    if owner is None and {"schema", "snapshot"} <= names:
        owner = "a Paimon table, which needs no migration"
    if owner is None and "metadata" in names:
        inside = storage.list(f"{directory.rstrip('/')}/metadata")
        owner = "an Iceberg table" if any(info.path.endswith(".metadata.json") for info in inside) else None
    if owner is not None:
        raise InvalidInputError(
            f"{directory} belongs to {owner}: not all of its files are rows of today; read it with its own library "
            "and write the rows",
            path=directory,
        )


def _file_of(info: FileInfo, parents: Sequence[str]) -> FoundFile:
    pairs = [part.partition("=") for part in parents]
    plain = [part for part, (name, sign, _) in zip(parents, pairs, strict=True) if not sign or not name]
    if plain and len(plain) < len(parents):
        raise InvalidInputError(
            f"{info.path}: the directory {plain[0]!r} stands among partitions named column=value; move its files",
            path=info.path,
        )
    values = {} if plain else {unquote(name): None if text in _NULL else unquote(text) for name, _, text in pairs}
    if not plain and len(values) != len(parents):
        raise InvalidInputError(f"{info.path}: a partition column occurs twice; move its files", path=info.path)
    return FoundFile(info.path, info.size, values)


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _format_keys(keys: Sequence[str]) -> str:
    return ", ".join(keys) or "nothing"


# ---- One schema for all files ----------------------------------------------------------------------------------------
# The table has every column of any file; a file that lacks one reads as null there. Where files have a column in
# several types that only widen (INT and BIGINT, FLOAT and DOUBLE, decimals with more digits), the table gets one
# schema for each combination of types, from the narrowest to the widest, as if the column had been changed over time:
# every reader knows how to read a file with the schema it was written with. Any other difference is an error.

Columns: TypeAlias = Mapping[str, pa.DataType]

_LADDERS = ([pa.int8(), pa.int16(), pa.int32(), pa.int64()], [pa.float32(), pa.float64()])


def reconcile(files: Mapping[str, Columns]) -> list[dict[str, pa.DataType]]:
    """Return the columns of the table as they change from the first schema to the last; `files` are by their paths.

    >>> a, b = {"id": pa.int32()}, {"id": pa.int64(), "note": pa.string()}
    >>> [{name: str(arrow) for name, arrow in one.items()} for one in reconcile({"a": a, "b": b})]
    [{'id': 'int32', 'note': 'string'}, {'id': 'int64', 'note': 'string'}]
    """
    types: dict[str, list[tuple[pa.DataType, str]]] = {}  # of each column, every type and the first file with it
    for path, columns in files.items():
        for name, arrow in columns.items():
            known = types.setdefault(name, [])
            if not any(arrow.equals(other) for other, _ in known):
                known.append((arrow, path))
    _check_spelling(types)
    for name, known in list(types.items()):
        first, first_path = known[0]
        for arrow, path in known[1:]:
            if _step(first, arrow) is None:
                raise _differs(name, path, arrow, first_path, first)
        types[name] = sorted(known, key=cmp_to_key(_compare))
    ranks = {name: {str(arrow): rank for rank, (arrow, _) in enumerate(known)} for name, known in types.items()}
    return _chain(files, types, ranks)


def _check_spelling(types: Mapping[str, Sequence[tuple[pa.DataType, str]]]) -> None:
    """Raise InvalidInputError for columns of two files that differ in case alone: most engines take them for one."""
    spelled: dict[str, str] = {}
    for name, known in types.items():
        other = spelled.setdefault(name.casefold(), name)
        path, other_path = known[0][1], types[other][0][1]
        if path != other_path:
            raise InvalidInputError(
                f"a column is named {name!r} in {path} and {other!r} in {other_path}, and most engines take them for "
                "one: load one of the files with `lakewright ingest`, which matches names without case",
                column=name,
                path=path,
                other_path=other_path,
            )


def _chain(
    files: Mapping[str, Columns],
    types: Mapping[str, Sequence[tuple[pa.DataType, str]]],
    ranks: Mapping[str, Mapping[str, int]],
) -> list[dict[str, pa.DataType]]:
    """Return the distinct combinations of types, each at least as wide as the one before in every column."""
    combinations: dict[tuple[int, ...], str] = {}
    for path, columns in files.items():
        place = tuple(ranks[name][str(columns[name])] if name in columns else 0 for name in types)
        combinations.setdefault(place, path)
    ordered = sorted(combinations, key=lambda place: (sum(place), place))
    for before, after in pairwise(ordered):
        for at, name in enumerate(types):
            if after[at] < before[at]:
                narrow, wide = types[name][after[at]][0], types[name][before[at]][0]
                raise _differs(name, combinations[after], narrow, combinations[before], wide)
    return [{name: types[name][rank][0] for name, rank in zip(types, place, strict=True)} for place in ordered]


def _step(first: pa.DataType, other: pa.DataType) -> int | None:
    """Return how much wider a type is than another, negative if it is narrower; None if neither widens to the other."""
    if pa.types.is_decimal(first) and pa.types.is_decimal(other) and first.scale == other.scale:
        return int(other.precision - first.precision)
    for ladder in _LADDERS:
        if first in ladder and other in ladder:
            return ladder.index(other) - ladder.index(first)
    return None


def _compare(one: tuple[pa.DataType, str], other: tuple[pa.DataType, str]) -> int:
    return _step(other[0], one[0]) or 0


def fits(columns: Columns, schema: Mapping[str, pa.DataType]) -> bool:
    """Return whether a schema describes the columns of a file: it has each of them in its type."""
    return all(name in schema and arrow.equals(schema[name]) for name, arrow in columns.items())


def _differs(column: str, path: str, arrow: pa.DataType, other_path: str, other: pa.DataType) -> InvalidInputError:
    return InvalidInputError(
        f"the column {column!r} is {_type(arrow)} in {path} and {_type(other)} in {other_path}: no schema describes "
        "both files; load one of them with `lakewright ingest`, which converts values",
        column=column,
        path=path,
        other_path=other_path,
    )


def _type(arrow: pa.DataType) -> DataType:
    return from_arrow_type(arrow)


# ---- Migration -------------------------------------------------------------------------------------------------------
# list the files -> read their footers -> reconcile their columns -> [a dry run ends here] -> create the table
#     -> give every file a second name in the table -> commit once, on an empty table -> delete the old names
#
# Invariant: a file has its old name until a snapshot that names it is published. A call that fails, or is
# killed, leaves all files where they were, and at most an empty table with second names that nothing mentions
# (orphans). The same call, made again, goes on; after the commit it deletes the old names that are left. Two calls at
# once cannot add rows twice, because the commit takes place only on a table without snapshots. Storages without
# second names (object stores, other file systems) must copy, which the caller asks for; then the old files stay.

_FORMATS = ("parquet", "orc", "avro")
_THREADS = 16
_COPY_BYTES = 8 << 20
_NOT_HERE = {  # options of tables whose files have more than their rows, or lie elsewhere
    "bucket": "-1",
    "row-tracking.enabled": "false",
    "data-evolution.enabled": "false",
    "data-file.external-paths": "",
}


@dataclass(frozen=True, slots=True)
class MigrateResult(HtmlRepr):
    """What a migration did, or would do."""

    table: str
    snapshot_id: int | None  # None: nothing was published by this call
    files: int
    rows: int
    bytes: int
    partitions: int
    columns: tuple[str, ...]  # as `name TYPE`
    left: tuple[str, ...]  # files that stay where they are: not data, or without rows
    copied: bool  # the old files stay as well
    dry_run: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class _Moving:
    """One file on its way into the table."""

    found: FoundFile
    content: FileContent
    partition: bytes = EMPTY_ROW
    target: str = ""
    facts: DataFile | None = None


@dataclass(slots=True)
class _Migration:
    """One call: what is given, and what is found out step by step."""

    catalog: Catalog
    name: Identifier
    storage: Storage  # of the source
    listing: DirectoryListing
    copy: bool
    options: Mapping[str, str]
    types: dict[str, DataType] = field(default_factory=dict)  # of the partition columns
    files: list[_Moving] = field(default_factory=list)
    schemas: list[dict[str, pa.DataType]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def migrate(  # noqa: PLR0913 - the call of a user
    catalog: Catalog,
    identifier: str | Identifier,
    source: PathLike,
    *,
    format: str | None = None,  # noqa: A002 - what every reader of files calls it
    partition_types: Mapping[str, str] | None = None,
    options: Mapping[str, object] | None = None,
    copy: bool = False,
    dry_run: bool = False,
) -> MigrateResult:
    """Make a table of the parquet, ORC or Avro files below a directory, without copying them.

    Directories `column=value` become partitions; the types of these columns are guessed unless `partition_types` gives
    them (`{"day": "DATE"}`). All footers are read first: files that cannot be one table are an error, and nothing has
    changed. Then the files move into the table, in one commit. Files whose names begin with `_` or `.` stay.

    `copy=True` copies the files and leaves the old ones: object stores and other file systems need that. `options` are
    those of the new table, which has no primary key and no buckets. With `dry_run` the result says what would be done.

    If it fails or is killed, no file is lost: run the same call again.

    >>> import os, tempfile, pyarrow as pa, pyarrow.parquet as pq, lakewright as lw
    >>> place = tempfile.mkdtemp()
    >>> catalog = lw.CatalogFactory.create({"warehouse": f"{place}/lake"})
    >>> catalog.create_database("d")
    >>> for day in ("2026-01-30", "2026-01-31"):
    ...     os.makedirs(f"{place}/old/day={day}")
    ...     pq.write_table(pa.table({"n": [1, 2]}), f"{place}/old/day={day}/part-0.parquet")
    >>> result = lw.migrate(catalog, "d.t", f"{place}/old")
    >>> result.files, result.rows, result.columns
    (2, 4, ('n BIGINT', 'day DATE'))
    >>> lw.read_table(catalog.get_table("d.t"), filter="day > '2026-01-30'").to_pylist()
    [{'n': 1, 'day': datetime.date(2026, 1, 31)}, {'n': 2, 'day': datetime.date(2026, 1, 31)}]
    """
    started = time.monotonic()
    check_catalog(catalog)
    name = plain_identifier(identifier)
    wanted = None if format is None else argument_checks.check_one_of("format", format, _FORMATS)
    given_types = _given_types(partition_types)
    given_options = _checked_options(
        argument_checks.check_optional(argument_checks.check_text_mapping, "options", options) or {}
    )
    is_copy, is_dry = argument_checks.check_bool("copy", copy), argument_checks.check_bool("dry_run", dry_run)
    storage, directory = _source_storage(catalog, argument_checks.check_path("source", source))
    catalog.get_database(name.get_database_name())
    existing = _existing(catalog, name)
    if existing is not None and existing.snapshot() is not None:
        return _finish(existing, storage, directory, started=started, dry_run=is_dry)
    migration = _Migration(catalog, name, storage, list_files(storage, directory), is_copy, given_options)
    _look_into(migration, wanted)
    _decide_partitions(migration, given_types)
    _decide_schemas(migration)
    if is_dry:
        return _result(migration, None, started=started, dry_run=True)
    table = _create_target(migration, existing)
    _place(migration, table.store)
    snapshot_id = _commit(migration, table.store)
    if not is_copy:
        _remove_old_names(migration.storage, [(one.found.path, one.target) for one in migration.files])
        _prune(migration.storage, directory)
    return _result(migration, snapshot_id, started=started, dry_run=False)


# ---- what is given ---------------------------------------------------------------------------------------------------


def check_catalog(catalog: object) -> None:
    """Raise InvalidInputError unless an argument is a catalog."""
    if not isinstance(catalog, Catalog):
        raise argument_checks.argument_error("catalog", "a catalog, as CatalogFactory.create returns it", catalog)


def _given_types(types: Mapping[str, str] | None) -> dict[str, DataType]:
    parsed: dict[str, DataType] = {}
    for key, text in (
        argument_checks.check_optional(argument_checks.check_text_mapping, "partition_types", types) or {}
    ).items():
        dtype = parse_type(text)
        if not isinstance(dtype, AtomicType):
            raise InvalidInputError(f"a partition column cannot have the type {dtype}: give a plain type", column=key)
        parsed[key] = dtype
    return parsed


def _checked_options(options: Mapping[str, str]) -> dict[str, str]:
    for key in ("primary-key", "partition"):
        if key in options:
            raise InvalidInputError(
                f"the option {key!r} does not fit a migration: the new table has no primary key, and the directories "
                "say its partitions",
                option=key,
            )
    for key, allowed in _NOT_HERE.items():
        if key in options and options[key].strip().lower() != allowed:
            raise UnsupportedError(
                f"{key} = {options[key]!r}: files that are taken as they are make an append table without buckets and "
                "row ids; leave the option out, or load the files with `lakewright ingest`",
                option=key,
            )
    return dict(options)


def _source_storage(catalog: Catalog, source: str) -> tuple[Storage, str]:
    """Return the storage of the source: that of the warehouse itself where both are one."""
    storage, directory = open_storage(source, storage_options(catalog.options))
    own: Storage | None = getattr(catalog, "storage", None)
    if own is not None and _container(directory) == _container(catalog.warehouse):
        return own, directory
    return storage, directory


def _container(location: str) -> str:
    scheme, separator, rest = location.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if separator and scheme != "file" else ""


def _existing(catalog: Catalog, name: Identifier) -> FileStoreTable | None:
    try:
        return catalog.get_table(name)
    except TableNotExistException:
        return None


# ---- what the files hold ---------------------------------------------------------------------------------------------


def _look_into(migration: _Migration, wanted: str | None) -> None:
    """Read the footers of all files."""

    def content(file: FoundFile) -> FileContent:
        with migration.storage.open_input(file.path) as source:
            found = format_of(source.read(4)) if file.size else None
            if found is None or wanted not in {None, found}:
                what = "is empty" if not file.size else f"is {'no data file' if found is None else found}"
                raise InvalidInputError(
                    f"{file.path} {what}, not {wanted or 'parquet, orc or avro'}: move it away, or give its format",
                    path=file.path,
                )
            source.seek(0)
            return read_content(source, found, path=file.path)

    with ThreadPoolExecutor(_THREADS) as pool:
        contents = list(pool.map(content, migration.listing.files))
    pairs = list(zip(migration.listing.files, contents, strict=True))
    migration.left = [*migration.listing.left, *(file.path for file, found in pairs if not found.rows)]
    migration.files = [_Moving(file, found) for file, found in pairs if found.rows]
    if not migration.files:
        raise InvalidInputError(f"the files of {migration.listing.directory} hold no rows", path=pairs[0][0].path)


def _decide_partitions(migration: _Migration, given: Mapping[str, DataType]) -> None:
    """Find the types of the partition columns, and the partition of each file."""
    keys = migration.listing.keys
    unknown = [key for key in given if key not in keys]
    if unknown:
        raise InvalidInputError(
            f"partition_types names {unknown[0]!r}, which no directory of {migration.listing.directory} has"
            f"{argument_checks.suggest_name(unknown[0], keys)}",
            column=unknown[0],
        )
    for key in keys:
        inside = next((one.found.path for one in migration.files if key in one.content.columns), None)
        if inside is not None:
            raise InvalidInputError(
                f"{inside} holds the column {key!r}, which its directory names too: readers take the value of the "
                "directory; rename the directory, or load the files with `lakewright ingest`",
                path=inside,
                column=key,
            )
        migration.types[key] = given.get(key) or _guess_partition_type(
            [one.found.values[key] for one in migration.files]
        )
    migration.files = [replace(one, partition=_partition(one.found, migration.types)) for one in migration.files]


def _guess_partition_type(texts: Sequence[str | None]) -> AtomicType:
    """Return BIGINT or DATE if all texts are such values as they would be written, else STRING."""
    dtype = STRING if "" in texts else guess(pa.array(texts, pa.string())).type
    return dtype if dtype.root in {"BIGINT", "DATE"} else STRING


def _partition(file: FoundFile, types: Mapping[str, DataType]) -> bytes:
    values = []
    for key, text in file.values.items():
        try:
            values.append(None if text is None else cast_text(text, types[key]))
        except InvalidInputError as error:
            raise InvalidInputError(
                f"{file.path}: the partition value {text!r} is not of the type {types[key]} of {key!r}: "
                f"{error.message}; give another type in partition_types",
                path=file.path,
                column=key,
            ) from error
    return encode_row(values, list(types.values())) if types else EMPTY_ROW


def _decide_schemas(migration: _Migration) -> None:
    migration.schemas = reconcile({one.found.path: one.content.columns for one in migration.files})


# ---- the table -------------------------------------------------------------------------------------------------------


def _declared_schema(migration: _Migration, columns: Mapping[str, pa.DataType]) -> Schema:
    partition = {key: to_arrow_type(dtype) for key, dtype in migration.types.items()}
    whole = Schema.from_pyarrow_schema(pa.schema({**columns, **partition}))
    fields = [
        replace(one, type=migration.types[one.name]) if one.name in migration.types else one for one in whole.fields
    ]
    formats = {one.content.format for one in migration.files}
    options = {TableOptions.file_format.key(): next(iter(formats)), **migration.options}
    return Schema(fields, list(migration.types), [], options)


def _create_target(migration: _Migration, existing: FileStoreTable | None) -> FileStoreTable:
    """Create the table, or take the empty one that an earlier call left, with all schemas that the files need."""
    catalog, name = migration.catalog, migration.name
    first, *more = migration.schemas
    if existing is None:
        with suppress(TableAlreadyExistException):  # another call for the same files makes it now
            catalog.create_table(name, _declared_schema(migration, first))
    table = catalog.get_table(name)
    _check_empty(migration, table)
    for before, after in zip(migration.schemas, more, strict=False):
        if any(all(_has(schema, key, arrow) for key, arrow in after.items()) for schema in table.store.schemas.all()):
            continue
        changed = {key: arrow for key, arrow in after.items() if not arrow.equals(before[key])}
        changes = [SchemaChange.update_column_type(key, str(from_arrow_type(arrow))) for key, arrow in changed.items()]
        catalog.alter_table(name, changes)
    return catalog.get_table(name)


def _has(schema: TableSchema, name: str, arrow: pa.DataType) -> bool:
    return any(one.name == name and to_arrow_type(one.type).equals(arrow) for one in schema.fields)


def _check_empty(migration: _Migration, table: FileStoreTable) -> None:
    """Raise TableAlreadyExistException unless the table is the empty one that the files need."""
    wanted = [*migration.schemas[0], *migration.types]
    same = table.field_names == wanted and table.partition_keys == list(migration.types) and not table.primary_keys
    if table.snapshot() is not None or not same or table.options.bucket() != -1:
        raise TableAlreadyExistException(
            f"table {table.name} already exists, and is not the empty one that a migration of "
            f"{migration.listing.directory} leaves when it is cut short; choose another name, or drop it",
            table=table.name,
            identifier=migration.name,
        )


# ---- the files -------------------------------------------------------------------------------------------------------


def _place(migration: _Migration, store: TableStore) -> None:
    """Give each file its name in the table, and find out what the manifest says of it."""
    run, schemas = uuid.uuid4(), store.schemas.all()
    columns = {one.id: dict(zip(one.arrow_schema.names, one.arrow_schema.types, strict=True)) for one in schemas}
    placed = []
    for number, one in enumerate(migration.files):
        name = f"{store.options.data_file_prefix}{run}-{number}.{one.content.format}"
        schema = next(schema for schema in schemas if fits(one.content.columns, columns[schema.id]))
        target = f"{store.layout.bucket_directory(store.partition_directory(one.partition), 0)}/{name}"
        placed.append(replace(one, target=target, facts=_facts(name, one, schema)))
    migration.files = placed
    try:
        with ThreadPoolExecutor(_THREADS if len(placed) > 1 else 1) as pool:
            for _ in pool.map(lambda one: _bring(migration, store, one), placed):
                pass
    except (LakewrightError, OSError):
        _undo(store, placed)
        raise


def _facts(name: str, one: _Moving, schema: TableSchema) -> DataFile:
    stats = [one.content.stats.get(column.name) for column in schema.fields]
    value_stats, columns = to_simple_stats(stats, schema.fields, dense=True)
    return DataFile(
        file_name=name,
        file_size=one.found.size,
        row_count=one.content.rows,
        min_key=EMPTY_ROW,
        max_key=EMPTY_ROW,
        key_stats=EMPTY_STATS,
        value_stats=value_stats,
        min_sequence_number=0,
        max_sequence_number=one.content.rows - 1,
        schema_id=schema.id,
        level=0,
        extra_files=(),
        creation_time=wall_clock_ms(),
        delete_row_count=0,
        embedded_file_index=None,
        file_source=APPEND,
        value_stats_cols=columns,
        external_path=None,
        first_row_id=None,
        write_cols=None,
    )


def _bring(migration: _Migration, store: TableStore, one: _Moving) -> None:
    if migration.copy:
        copy_file(migration.storage, one.found.path, store.storage, one.target, size=one.found.size)
        return
    if _container(one.found.path) != _container(one.target):
        raise _must_copy(one.found.path)
    try:
        store.storage.link(one.found.path, one.target)
    except UnsupportedError as error:
        raise _must_copy(one.found.path) from error


def _must_copy(path: str) -> UnsupportedError:
    return UnsupportedError(
        f"{path} cannot move into the table without being copied: the table is in an object store or on another file "
        "system; copy=True (--copy) copies the files and leaves the old ones",
        path=path,
    )


def copy_file(source: Storage, path: str, storage: Storage, target: str, *, size: int) -> None:
    """Copy a file between storages, and raise InvalidInputError if another number of bytes arrives."""
    output = storage.open_output(target)
    try:
        with source.open_input(path) as data:
            while chunk := data.read(_COPY_BYTES):
                output.write(chunk)
        _check_size(path, output.tell(), size)
        output.close()
    except BaseException:
        output.discard()
        raise


def _check_size(path: str, found: int, expected: int) -> None:
    if found != expected:
        raise InvalidInputError(
            f"{path} has {found} bytes, where {expected} were expected: another process is writing to it", path=path
        )


def _undo(store: TableStore, files: Sequence[_Moving]) -> None:
    """Delete the new names, which nothing mentions; the old ones are all there."""
    with suppress(OSError):
        for one in files:
            store.storage.delete(one.target)


def _commit(migration: _Migration, store: TableStore) -> int:
    """Publish all files in one snapshot of a table that has none, and return its id."""
    by_partition: dict[bytes, list[DataFile]] = {}
    for one in migration.files:
        if one.facts is not None:
            by_partition.setdefault(one.partition, []).append(one.facts)
    messages = [
        CommitMessage(
            partition_bytes=partition,
            bucket=0,
            new_files=tuple(files),
            check_from_snapshot=0,
            unchanged="table",
            table=store.identity,
            schema_id=store.schema.id,
        )
        for partition, files in by_partition.items()
    ]
    try:
        published = Committer(store).commit(messages)
    except CommitUnknownError:
        raise  # the new names stay: a snapshot may mention them
    except (LakewrightError, OSError):
        _undo(store, migration.files)
        raise
    if published is None or published.total_record_count != sum(one.content.rows for one in migration.files):
        raise LakewrightError(f"{store.name}: the snapshot of the migration has another number of rows than its files")
    return published.id


def _remove_old_names(storage: Storage, pairs: Sequence[tuple[str, str]]) -> int:
    """Delete the old names of files that the table has; a file that is no longer the same stays."""
    removed = 0
    for old, new in pairs:
        identity = storage.identity(new)
        if identity is not None and storage.identity(old) == identity:
            storage.delete(old)
            removed += 1
    return removed


def _prune(storage: Storage, directory: str) -> None:
    with suppress(OSError):  # only empty directories are left
        storage.prune_directory(directory)


# ---- how it ends -----------------------------------------------------------------------------------------------------


def _finish(table: FileStoreTable, storage: Storage, directory: str, *, started: float, dry_run: bool) -> MigrateResult:
    """Delete the old names that a migration left when it was killed after its commit."""
    store = table.store
    snapshot = store.snapshots.latest()
    entries = [] if snapshot is None else store.manifests.live(snapshot)
    names: dict[str, str] = {}  # the identity of each file of the table
    for entry in entries:
        path = store.layout.data_file(store.partition_directory(entry.partition), entry.bucket, entry.file)
        if (identity := store.storage.identity(path)) is not None:
            names[identity] = path
    pairs = [(info, names.get(storage.identity(info.path) or "")) for info in storage.walk(directory)]
    moved = [(info.path, target) for info, target in pairs if target is not None]
    if not moved:
        raise TableAlreadyExistException(
            f"table {table.name} already exists and has rows, and none of its files is one of {directory}; choose "
            "another name, or drop it",
            table=table.name,
            identifier=table.identifier,
        )
    if not dry_run:
        _remove_old_names(storage, moved)
        _prune(storage, directory)
    files = {target for _, target in moved}
    kept = [entry.file for entry in entries if entry.file.file_name in {path.rpartition("/")[2] for path in files}]
    return MigrateResult(
        table=table.name,
        snapshot_id=None,
        files=len(kept),
        rows=sum(file.row_count for file in kept),
        bytes=sum(file.file_size for file in kept),
        partitions=len({entry.partition for entry in entries if entry.file in kept}),
        columns=tuple(f"{one.name} {one.type}" for one in table.fields),
        left=tuple(info.path for info, target in pairs if target is None),
        copied=False,
        dry_run=dry_run,
        seconds=time.monotonic() - started,
    )


def _result(migration: _Migration, snapshot_id: int | None, *, started: float, dry_run: bool) -> MigrateResult:
    columns = {name: str(from_arrow_type(arrow)) for name, arrow in migration.schemas[-1].items()}
    columns |= {name: str(dtype) for name, dtype in migration.types.items()}
    return MigrateResult(
        table=migration.name.get_full_name(),
        snapshot_id=snapshot_id,
        files=len(migration.files),
        rows=sum(one.content.rows for one in migration.files),
        bytes=sum(one.found.size for one in migration.files),
        partitions=len({one.partition for one in migration.files}) if migration.types else 0,
        columns=tuple(f"{name} {dtype}" for name, dtype in columns.items()),
        left=tuple(migration.left),
        copied=migration.copy,
        dry_run=dry_run,
        seconds=time.monotonic() - started,
    )

"""The `Catalog` base: checks, listing, tables as files of a warehouse."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import pyarrow as pa

from lakewright.catalog.listing import PagedList, page, partitions_of
from lakewright.catalog.sys_database import catalog_table
from lakewright.errors import (
    BranchNotExistException,
    CommitContentionError,
    DatabaseNotExistException,
    InvalidInputError,
    TableAlreadyExistException,
    TableNotExistException,
    UnsupportedError,
    with_table_name,
)
from lakewright.lsm.merge_rows import check_merging
from lakewright.maintenance.branches import FastForwardResult
from lakewright.maintenance.external_directories import check_external_paths, claim, release
from lakewright.maintenance.orphan_files import external_files
from lakewright.maintenance.schema_alteration import alter
from lakewright.metadata.schema_files import SchemaFiles
from lakewright.metadata.table_store import apply_layout_options, format_partition_spec
from lakewright.spec import argument_checks
from lakewright.spec.argument_checks import DurationLike
from lakewright.spec.identifier import Identifier
from lakewright.spec.manifest import Partition
from lakewright.spec.option_checks import warn_unknown_options
from lakewright.spec.option_table import TABLE_DEFAULT
from lakewright.spec.schema import Schema, SchemaChange, new_table_schema
from lakewright.spec.schema_checks import check_column_types
from lakewright.spec.snapshot import Tag
from lakewright.spec.table_schema import TableSchema
from lakewright.storage.storage import Storage
from lakewright.storage.table_layout import Layout, check_name, database_directory
from lakewright.table.file_store_table import FileStoreTable, Partitions
from lakewright.table.system_tables import system_table

# ---- The interface of catalogs ---------------------------------------------------------------------------------------
# A catalog says which databases and tables there are and who owns their history (`metadata.authority`). Everything
# about
# one table is then done by the table, so that it is the same for every catalog.


@dataclass(frozen=True, slots=True)
class Database:
    """A database; `options` are its properties, where the catalog stores any."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None


class Catalog(ABC):
    """Databases and tables by their names: the verbs of every catalog. `CatalogFactory.create` opens one."""

    __slots__ = ()

    warehouse: str  # a directory, or the name that a server knows it by
    options: Mapping[str, str]  # with which it was opened; they may hold secrets

    # Databases.

    @abstractmethod
    def list_databases(self) -> list[str]:
        """Return the names of the databases, in order."""

    def list_databases_paged(
        self,
        max_results: int | None = None,
        page_token: str | None = None,
        database_name_pattern: str | None = None,
    ) -> PagedList[str]:
        """Return a page of the names of the databases, those that match a pattern such as `sales_*`."""
        return page(self.list_databases(), max_results, page_token, pattern=database_name_pattern)

    @abstractmethod
    def create_database(
        self,
        name: str,
        ignore_if_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
        properties: Mapping[str, object] | None = None,
    ) -> None:
        """Create a database."""

    @abstractmethod
    def get_database(self, name: str) -> Database:
        """Return a database, or raise DatabaseNotExistException."""

    def database_exists(self, name: str) -> bool:
        """Return True if there is a database of this name."""
        try:
            self.get_database(name)
        except DatabaseNotExistException:
            return False
        return True

    def alter_database(self, name: str, changes: Mapping[str, object | None]) -> None:  # noqa: ARG002
        """Set properties of a database; None removes one."""
        raise UnsupportedError(f"{type(self).__name__} stores no properties of databases: nothing can be changed")

    @abstractmethod
    def drop_database(
        self,
        name: str,
        ignore_if_not_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
        cascade: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Drop a database; one that holds tables only with `cascade`."""

    # Tables.

    @abstractmethod
    def list_tables(self, database_name: str) -> list[str]:
        """Return the names of the tables of a database, in order."""

    def list_tables_paged(
        self,
        database_name: str,
        max_results: int | None = None,
        page_token: str | None = None,
        table_name_pattern: str | None = None,
    ) -> PagedList[str]:
        """Return a page of the names of the tables of a database, those that match a pattern such as `orders_*`."""
        return page(self.list_tables(database_name), max_results, page_token, pattern=table_name_pattern)

    @abstractmethod
    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        ignore_if_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Create a table. An Arrow schema stands for a table of these columns without keys and options."""

    def get_table(self, identifier: str | Identifier) -> FileStoreTable:
        """Return a table; `db.t$snapshots` names a system table of it, `db.t$branch_b` its branch `b`.

        `sys.tables`, `sys.partitions`, `sys.all_table_options` and `sys.catalog_options` are about the whole catalog.
        System tables (`SystemTable`, `RowsView`) can be read and described like tables, and not be written.
        """
        name = as_identifier(identifier)
        own = catalog_table(self, name)
        if own is not None:
            return own  # type: ignore[return-value]
        table = self._table(name)
        suffix = name.get_system_table_name()
        return table if suffix is None else system_table(table, suffix)  # type: ignore[return-value]

    def table_exists(self, identifier: str | Identifier) -> bool:
        """Return True if there is a table, a branch or a system table of this name, also one that cannot be read here.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> catalog.create_table("d.t", pa.schema({"id": pa.int64()}))
        >>> catalog.table_exists("d.t"), catalog.table_exists("d.other"), catalog.table_exists("no_database.t")
        (True, False, False)
        """
        try:
            self.get_table(identifier)
        except (TableNotExistException, DatabaseNotExistException, BranchNotExistException):
            return False
        except UnsupportedError:
            return True
        return True

    @abstractmethod
    def _table(self, name: Identifier) -> FileStoreTable:
        """Open the table, or branch of one, that a name stands for; what it says of a system table is left out."""

    @abstractmethod
    def drop_table(
        self,
        identifier: str | Identifier,
        ignore_if_not_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Drop a table with all its files."""

    @abstractmethod
    def rename_table(
        self,
        source_identifier: str | Identifier,
        target_identifier: str | Identifier,
        ignore_if_not_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Give a table another name."""

    def alter_table(
        self,
        identifier: str | Identifier,
        changes: SchemaChange | Sequence[SchemaChange],
        ignore_if_not_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Change the schema: all of the changes in one new schema, or none.

        A new type, or NOT NULL, that some row of the newest snapshot does not fit is refused with an example; see
        `SchemaChange.update_column_type` for how to ask for a change that loses values.
        """
        name = as_identifier(identifier)
        checked = argument_checks.check_instances("changes", changes, SchemaChange, "changes that SchemaChange makes")
        ignored = argument_checks.check_bool("ignore_if_not_exists", ignore_if_not_exists)
        try:
            table = self._table(name)
        except (TableNotExistException, DatabaseNotExistException):
            if ignored:
                return
            raise
        with with_table_name(name.get_full_name()):
            alter(table.store, list(checked), time_millis=now_millis())

    # Partitions, tags, branches.

    def list_partitions_paged(
        self,
        identifier: str | Identifier,
        max_results: int | None = None,
        page_token: str | None = None,
        partition_name_pattern: str | None = None,
    ) -> PagedList[Partition]:
        """Return the partitions of the newest snapshot with their counts, in the order of their names.

        A name is `k1=v1/k2=v2`; in a pattern, such as `dt=2024-02*`, a `*` stands for any text.
        """
        store = self._table(as_identifier(identifier)).store
        named = {format_partition_spec(p.spec): p for p in partitions_of(store)}
        names = page(sorted(named), max_results, page_token, pattern=partition_name_pattern)
        return PagedList([named[name] for name in names.elements], names.next_page_token)

    def drop_partitions(self, identifier: str | Identifier, partitions: Partitions) -> None:
        """Remove all rows of some partitions in one snapshot."""
        table = self._table(as_identifier(identifier))
        with table.new_batch_write_builder().new_commit() as commit:
            commit.truncate_partitions(partitions)

    def create_tag(
        self,
        identifier: str | Identifier,
        tag_name: str,
        snapshot_id: int | None = None,
        time_retained: DurationLike | None = None,
        ignore_if_exists: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Give a snapshot a name that keeps its files from expiring; the arguments are those of `table.create_tag`."""
        self._table(as_identifier(identifier)).create_tag(tag_name, snapshot_id, ignore_if_exists, time_retained)

    def get_tag(self, identifier: str | Identifier, tag_name: str) -> Tag:
        """Return a tag, or raise TagNotExistException."""
        return self._table(as_identifier(identifier)).store.tags.get(tag_name)

    def delete_tag(self, identifier: str | Identifier, tag_name: str) -> None:
        """Delete a tag."""
        self._table(as_identifier(identifier)).delete_tag(tag_name)

    def list_tags_paged(
        self,
        identifier: str | Identifier,
        max_results: int | None = None,
        page_token: str | None = None,
        tag_name_prefix: str | None = None,
    ) -> PagedList[str]:
        """Return the names of the tags, in order."""
        prefix = argument_checks.check_optional(argument_checks.check_text, "tag_name_prefix", tag_name_prefix) or ""
        tags = sorted(tag for tag in self._table(as_identifier(identifier)).list_tags() if tag.startswith(prefix))
        return page(tags, max_results, page_token, pattern=None)

    def create_branch(self, identifier: str | Identifier, branch_name: str, tag_name: str | None = None) -> None:
        """Make a branch at the state of a tag; without a tag, an empty one with the table's columns and options."""
        self._table(as_identifier(identifier)).create_branch(branch_name, tag_name)

    def drop_branch(self, identifier: str | Identifier, branch_name: str) -> None:
        """Drop a branch."""
        self._table(as_identifier(identifier)).drop_branch(branch_name)

    def rename_branch(self, identifier: str | Identifier, from_branch: str, to_branch: str) -> None:
        """Give a branch another name."""
        self._table(as_identifier(identifier)).rename_branch(from_branch, to_branch)

    def fast_forward(
        self,
        identifier: str | Identifier,
        branch_name: str,
        allow_loss: bool = False,  # noqa: FBT001, FBT002 - as `table.fast_forward`
        dry_run: bool = False,  # noqa: FBT001, FBT002
    ) -> FastForwardResult:
        """Bring the table to the state of a branch; see `table.fast_forward`."""
        return self._table(as_identifier(identifier)).fast_forward(branch_name, allow_loss, dry_run)

    def list_branches(self, identifier: str | Identifier) -> list[str]:
        """Return the names of the branches beside `main`."""
        return self._table(as_identifier(identifier)).list_branches()

    def rollback_to(self, identifier: str | Identifier, target: int | str, from_snapshot: int | None = None) -> None:
        """Bring a table back to a snapshot or tag; with `from_snapshot` only if that is its newest snapshot."""
        self._table(as_identifier(identifier)).rollback_to(target, from_snapshot=from_snapshot)

    # Its end.

    def close(self) -> None:  # noqa: B027 - most catalogs hold no connection
        """Let go of connections; a catalog that is used again opens them again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def as_identifier(identifier: object) -> Identifier:
    """Return the name of a table, which may be given as text."""
    return identifier if isinstance(identifier, Identifier) else Identifier.from_string(identifier)


def as_schema(schema: object) -> Schema:
    """Return the schema of a new table, which may be given as an Arrow schema."""
    if isinstance(schema, pa.Schema):
        return Schema.from_pyarrow_schema(schema)
    expected = "a Schema (Schema.from_pyarrow_schema makes one of Arrow columns) or a pyarrow schema"
    return argument_checks.check_instance("schema", schema, Schema, expected)


def plain_identifier(identifier: object) -> Identifier:
    """Return the name of a table itself, not of a branch or a system table of it."""
    name = as_identifier(identifier)
    if name.is_system_table() or name.get_branch_name() is not None:
        raise InvalidInputError(f"{name.get_full_name()} is a view of a table; name the table itself")
    return name


def with_defaults(schema: Schema, catalog_options: Mapping[str, str]) -> Schema:
    """Return the schema of a new table with the `table-default.` options of its catalog where it has none itself."""
    given = {k.removeprefix(TABLE_DEFAULT): v for k, v in catalog_options.items() if k.startswith(TABLE_DEFAULT)}
    options = given | dict(schema.options)
    return Schema(schema.fields, schema.partition_keys, schema.primary_keys, options, schema.comment)


def table_exists(name: Identifier) -> TableAlreadyExistException:
    """Return the error for a name that is taken."""
    full = name.get_full_name()
    remedy = "choose another name, or keep it (ignore_if_exists=True, --if-not-exists)"
    return TableAlreadyExistException(f"table {full} already exists; {remedy}", table=full, identifier=name)


def now_millis() -> int:
    """Return the time in epoch milliseconds."""
    return int(time.time() * 1000)


# ---- Tables as files of a warehouse ----------------------------------------------------------------------------------
# What the catalogs share whose tables are at `<warehouse>/<database>.db/<table>`.

_CREATES_MAX = 10


def layout_of(warehouse: str, name: Identifier) -> Layout:
    """Return where a table lies; what a name says of a branch or a system table is left out."""
    check_name("table", name.get_table_name())
    return Layout(f"{database_directory(warehouse, name.get_database_name())}/{name.get_table_name()}")


def has_schema(storage: Storage, layout: Layout) -> bool:
    """Return whether a table is there: it has a schema file."""
    return storage.exists(layout.schema_file(0)) or bool(SchemaFiles(storage, layout).ids())


def has_snapshot(storage: Storage, layout: Layout) -> bool:
    """Return whether there are snapshots, which a table without a schema has if its drop was cut short."""
    return next(iter(storage.list(layout.snapshot_directory)), None) is not None


def first_schema(
    name: Identifier, declared: Schema, options: Mapping[str, str], storage: Storage, layout: Layout
) -> TableSchema:
    """Return the first schema of a new table; `options` are those of the catalog, with defaults for tables."""
    with with_table_name(name.get_full_name()):
        schema = new_table_schema(with_defaults(declared, options), time_millis=now_millis())
        check_merging(schema)
        check_column_types(schema)
        check_external_paths(storage, layout, schema)
    warn_unknown_options(f"table {name.get_full_name()}", layout.root, schema.options)
    return schema


def create_first(storage: Storage, layout: Layout, schema: TableSchema) -> bool:
    """Create the first schema file, after the table's claims of external directories; False if another was faster."""
    schemas = SchemaFiles(storage, layout)
    identity = schemas.digest(schema.to_json().encode())
    claim(storage, layout, schema, identity)
    for attempt in range(_CREATES_MAX):
        try:
            if schemas.create(schema):
                return True
            break
        except FileNotFoundError as cause:  # a drop of the table that was here before took the directory away
            if attempt == _CREATES_MAX - 1:
                raise CommitContentionError(
                    f"the directory {layout.root} was dropped {_CREATES_MAX} times while a table was created there;"
                    " nothing was created: create it again",
                    path=layout.root,
                ) from cause
    release(storage, apply_layout_options(layout, schema).reachable_directories, identity)
    return False


def wait_for_distinct_timestamp(schema: TableSchema) -> None:
    """Return later than the time of a schema: it identifies a table, so the next one here must get a later time."""
    if now_millis() == schema.time_millis:
        time.sleep(0.001)


def remove_table(storage: Storage, warehouse: str, layout: Layout) -> None:
    """Delete all files of a table, those outside of it too."""
    outside = external_files(storage, layout)
    if storage.renames_atomically:
        hidden = f"{warehouse}/.dropped-{uuid.uuid4()}"
        storage.rename_directory(layout.root, hidden)
        storage.delete_directory(hidden)
    else:
        for schema_id in sorted(SchemaFiles(storage, layout).ids(), reverse=True):
            storage.delete(layout.schema_file(schema_id))
        storage.delete_directory(layout.root)
    for path in outside:
        storage.delete(path)

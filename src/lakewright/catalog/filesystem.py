"""The filesystem catalog: databases and tables are directories, a table exists while it has a schema file.

Creating a table is one atomic create of `schema-0`. Dropping one first renames its directory if the storage can rename
in one step, so that nobody opens a table that is half deleted; on object stores the schema is deleted first, and an
interrupted drop is finished by dropping again.
"""

from __future__ import annotations

import time
import uuid
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakewright.catalog.listing import PagedList, Partition, page, partitions_of
from lakewright.catalog.open import open_at
from lakewright.catalog.system.tables import system_table
from lakewright.errors import (
    DatabaseAlreadyExistException,
    DatabaseNotEmptyException,
    DatabaseNotExistException,
    InvalidInputError,
    LakewrightWarning,
    NotFoundError,
    TableAlreadyExistException,
    TableNotExistException,
    UnsupportedError,
    counted,
    naming,
)
from lakewright.lsm.merge import check_merging
from lakewright.maintenance.alter import alter
from lakewright.maintenance.orphans import external_files
from lakewright.metadata.schemas import Schemas
from lakewright.metadata.store import spec_name
from lakewright.spec import arguments
from lakewright.spec.arguments import Age
from lakewright.spec.identifier import Identifier
from lakewright.spec.schema.changes import SchemaChange
from lakewright.spec.schema.declaration import Schema, new_table_schema
from lakewright.spec.schema.option_keys import TABLE_DEFAULT, check_catalog_options, warn_of_unknown
from lakewright.spec.snapshot import Tag
from lakewright.storage.base import Storage
from lakewright.storage.layout import Layout, check_name, database_directory
from lakewright.storage.open import open_storage
from lakewright.table.table import FileStoreTable, Partitions

_DB_SUFFIX = ".db"


@dataclass(frozen=True, slots=True)
class Database:
    """A database. The filesystem catalog stores nothing about it but its directory."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class FileSystemCatalog:
    """Databases and tables below one directory, the warehouse.

    >>> import tempfile, lakewright
    >>> catalog = lakewright.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
    >>> catalog.create_database("sales")
    >>> catalog.list_databases()
    ['sales']
    """

    storage: Storage = field(repr=False)
    warehouse: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    # Databases.

    def list_databases(self) -> list[str]:
        """Return the names of the databases."""
        names = (path.rsplit("/", 1)[-1] for path in self.storage.list_directories(self.warehouse))
        return sorted(name.removesuffix(_DB_SUFFIX) for name in names if name.endswith(_DB_SUFFIX))

    def list_databases_paged(
        self,
        max_results: int | None = None,
        page_token: str | None = None,
        database_name_pattern: str | None = None,
    ) -> PagedList[str]:
        """Return a page of the names of the databases, those that match a pattern such as `sales_*`."""
        return page(self.list_databases(), max_results, page_token, pattern=database_name_pattern)

    def create_database(
        self,
        name: str,
        ignore_if_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
        properties: Mapping[str, object] | None = None,
    ) -> None:
        """Create a database."""
        check_name("database", name)
        arguments.flag("ignore_if_exists", ignore_if_exists)
        if properties is not None and arguments.text_map("properties", properties):
            warnings.warn(
                f"database {name}: the filesystem catalog stores no properties; {sorted(properties)} are dropped",
                LakewrightWarning,
                stacklevel=2,
            )
        if self._has_database(name):
            if ignore_if_exists:
                return
            raise DatabaseAlreadyExistException(f"database {name} already exists", database=name)
        self.storage.make_directory(database_directory(self.warehouse, name))

    def get_database(self, name: str) -> Database:
        """Return a database, or raise DatabaseNotExistException."""
        self._require_database(name)
        return Database(name)

    def drop_database(
        self,
        name: str,
        ignore_if_not_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
        cascade: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Drop a database; one that holds tables only with `cascade`."""
        check_name("database", name)
        arguments.flag("ignore_if_not_exists", ignore_if_not_exists)
        arguments.flag("cascade", cascade)
        if not self._has_database(name):
            if ignore_if_not_exists:
                return
            raise self._no_database(name)
        tables = self.list_tables(name)
        if tables and not cascade:
            raise DatabaseNotEmptyException(
                f"database {name} holds {counted(len(tables), 'table')} ({', '.join(tables[:5])}); "
                "drop them or pass cascade=True",
                database=name,
                tables=tuple(tables),
            )
        for table in tables:
            self.drop_table(Identifier.create(name, table))
        self.storage.delete_directory(database_directory(self.warehouse, name))

    # Tables.

    def list_tables(self, database_name: str) -> list[str]:
        """Return the names of the tables of a database."""
        self._require_database(database_name)
        directory = database_directory(self.warehouse, database_name)
        names = (path.rsplit("/", 1)[-1] for path in self.storage.list_directories(directory))
        return sorted(name for name in names if self._exists(Layout(f"{directory}/{name}")))

    def list_tables_paged(
        self,
        database_name: str,
        max_results: int | None = None,
        page_token: str | None = None,
        table_name_pattern: str | None = None,
    ) -> PagedList[str]:
        """Return a page of the names of the tables of a database, those that match a pattern such as `orders_*`."""
        return page(self.list_tables(database_name), max_results, page_token, pattern=table_name_pattern)

    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        ignore_if_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Create a table, by creating its schema file in one step.

        An Arrow schema stands for a table of these columns without keys and options.
        """
        name = self._plain(identifier)
        declared = _schema(schema)
        arguments.flag("ignore_if_exists", ignore_if_exists)
        self._require_database(name.get_database_name())
        layout = self._layout(name)
        if self._exists(layout):
            if ignore_if_exists:
                return
            raise _table_exists(name)
        if next(iter(self.storage.list(layout.snapshot_directory)), None) is not None:
            raise InvalidInputError(
                f"{name.get_full_name()}: {layout.root} holds the files of a table whose drop was cut short; "
                f"call drop_table once more, then create it",
                table=name.get_full_name(),
            )
        with naming(name.get_full_name()):
            new_schema = new_table_schema(self._with_defaults(declared), time_millis=_now())
            check_merging(new_schema)
        warn_of_unknown(f"table {name.get_full_name()}", layout.root, new_schema.options)
        if not Schemas(self.storage, layout).create(new_schema):
            if ignore_if_exists:
                return
            raise _table_exists(name)
        if _now() == new_schema.time_millis:
            time.sleep(
                0.001
            )  # a table is identified by its creation time, so the next table at this path must get a later one

    def get_table(self, identifier: str | Identifier) -> FileStoreTable:
        """Return a table; `db.t$snapshots` names a system table of it, `db.t$branch_b` its branch `b`.

        System tables (`SystemTable`, `AuditLog`) can be read and described like tables, and not be written.
        """
        name = _identifier(identifier)
        table = self._table(name)
        suffix = name.get_system_table_name()
        return table if suffix is None else system_table(table, suffix)  # type: ignore[return-value]

    def drop_table(
        self,
        identifier: str | Identifier,
        ignore_if_not_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Drop a table with all its files."""
        name = self._plain(identifier)
        arguments.flag("ignore_if_not_exists", ignore_if_not_exists)
        layout = self._layout(name)
        if not self._exists(layout) and next(iter(self.storage.walk(layout.root)), None) is None:
            if ignore_if_not_exists:
                return
            raise self._no_table(name)
        self._check_own(name)
        outside = external_files(self.storage, layout)
        self._remove(layout)
        for path in outside:
            self.storage.delete(path)

    def rename_table(
        self,
        source_identifier: str | Identifier,
        target_identifier: str | Identifier,
        ignore_if_not_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Give a table another name. On object stores the files are copied one by one: let no writer run meanwhile."""
        source, target = self._plain(source_identifier), self._plain(target_identifier)
        arguments.flag("ignore_if_not_exists", ignore_if_not_exists)
        if not self._exists(self._layout(source)):
            if ignore_if_not_exists:
                return
            raise self._no_table(source)
        self._check_own(source)
        self._require_database(target.get_database_name())
        if self._exists(self._layout(target)):
            raise _table_exists(target)
        self.storage.rename_directory(self._layout(source).root, self._layout(target).root)

    def alter_table(
        self,
        identifier: str | Identifier,
        changes: SchemaChange | Sequence[SchemaChange],
        ignore_if_not_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Change the schema: all of the changes in one new schema file, or none.

        A new type, or NOT NULL, that some row of the newest snapshot does not fit is refused with an example; see
        `SchemaChange.update_column_type` for how to ask for a change that loses values.
        """
        name = _identifier(identifier)
        checked = arguments.instances("changes", changes, SchemaChange, "changes that SchemaChange makes")
        if arguments.flag("ignore_if_not_exists", ignore_if_not_exists) and not self._exists(self._layout(name)):
            return
        with naming(name.get_full_name()):
            alter(self._table(name).store, list(checked), time_millis=_now())

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
        store = self._table(_identifier(identifier)).store
        named = {spec_name(p.spec): p for p in partitions_of(store)}
        names = page(sorted(named), max_results, page_token, pattern=partition_name_pattern)
        return PagedList([named[name] for name in names.elements], names.next_page_token)

    def drop_partitions(self, identifier: str | Identifier, partitions: Partitions) -> None:
        """Remove all rows of some partitions in one snapshot."""
        table = self._table(_identifier(identifier))
        with table.new_batch_write_builder().new_commit() as commit:
            commit.truncate_partitions(partitions)

    def create_tag(
        self,
        identifier: str | Identifier,
        tag_name: str,
        snapshot_id: int | None = None,
        time_retained: Age | None = None,
        ignore_if_exists: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Give a snapshot a name that keeps its files from expiring; the arguments are those of `table.create_tag`."""
        self._table(_identifier(identifier)).create_tag(tag_name, snapshot_id, ignore_if_exists, time_retained)

    def get_tag(self, identifier: str | Identifier, tag_name: str) -> Tag:
        """Return a tag, or raise TagNotExistException."""
        return self._table(_identifier(identifier)).store.tags.get(tag_name)

    def delete_tag(self, identifier: str | Identifier, tag_name: str) -> None:
        """Delete a tag."""
        self._table(_identifier(identifier)).delete_tag(tag_name)

    def list_tags_paged(
        self,
        identifier: str | Identifier,
        max_results: int | None = None,
        page_token: str | None = None,
        tag_name_prefix: str | None = None,
    ) -> PagedList[str]:
        """Return the names of the tags, in order."""
        prefix = arguments.optional(arguments.text, "tag_name_prefix", tag_name_prefix) or ""
        tags = sorted(tag for tag in self._table(_identifier(identifier)).list_tags() if tag.startswith(prefix))
        return page(tags, max_results, page_token, pattern=None)

    def create_branch(self, identifier: str | Identifier, branch_name: str, tag_name: str | None = None) -> None:
        """Make a branch at the state of a tag; without a tag, an empty one with the table's columns and options."""
        self._table(_identifier(identifier)).create_branch(branch_name, tag_name)

    def drop_branch(self, identifier: str | Identifier, branch_name: str) -> None:
        """Drop a branch."""
        self._table(_identifier(identifier)).drop_branch(branch_name)

    def rename_branch(self, identifier: str | Identifier, from_branch: str, to_branch: str) -> None:
        """Give a branch another name."""
        self._table(_identifier(identifier)).rename_branch(from_branch, to_branch)

    def fast_forward(self, identifier: str | Identifier, branch_name: str) -> None:
        """Bring the table to the state of a branch; see `table.fast_forward`."""
        self._table(_identifier(identifier)).fast_forward(branch_name)

    def list_branches(self, identifier: str | Identifier) -> list[str]:
        """Return the names of the branches beside `main`."""
        return self._table(_identifier(identifier)).list_branches()

    def rollback_to(self, identifier: str | Identifier, target: int | str, from_snapshot: int | None = None) -> None:
        """Bring a table back to a snapshot or tag; with `from_snapshot` only if that is its newest snapshot."""
        self._table(_identifier(identifier)).rollback_to(target, from_snapshot=from_snapshot)

    # From names to directories.

    def _layout(self, name: Identifier) -> Layout:
        check_name("table", name.get_table_name())
        return Layout(f"{database_directory(self.warehouse, name.get_database_name())}/{name.get_table_name()}")

    def _has_database(self, name: str) -> bool:
        directory = database_directory(self.warehouse, name)
        return any(path.rstrip("/") == directory for path in self.storage.list_directories(self.warehouse))

    def _exists(self, layout: Layout) -> bool:
        return self.storage.exists(layout.schema_file(0)) or bool(Schemas(self.storage, layout).ids())

    def _table(self, name: Identifier) -> FileStoreTable:
        layout = self._layout(name)
        plain = Identifier.create(name.get_database_name(), name.get_table_name(), name.get_branch_name())
        try:
            return open_at(plain, self.storage, layout)
        except NotFoundError:
            if self._exists(layout):
                raise
        self._require_database(name.get_database_name())
        raise self._no_table(name)

    def _plain(self, identifier: str | Identifier) -> Identifier:
        name = _identifier(identifier)
        if name.is_system_table() or name.get_branch_name() is not None:
            raise InvalidInputError(f"{name.get_full_name()} is a view of a table; name the table itself")
        return name

    def _with_defaults(self, schema: Schema) -> Schema:
        given = {k.removeprefix(TABLE_DEFAULT): v for k, v in self.options.items() if k.startswith(TABLE_DEFAULT)}
        options = given | dict(schema.options)
        return Schema(schema.fields, schema.partition_keys, schema.primary_keys, options, schema.comment)

    def _check_own(self, name: Identifier) -> None:
        """Refuse to move or remove a table whose database is a link: it belongs to another warehouse."""
        if not self._has_database(name.get_database_name()):
            raise InvalidInputError(
                f"{name.get_full_name()} is reached through a symbolic link; open a catalog on the directory that its "
                "database really lies in",
                table=name.get_full_name(),
            )

    def _remove(self, layout: Layout) -> None:
        if self.storage.renames_atomically:
            hidden = f"{self.warehouse}/.dropped-{uuid.uuid4()}"
            self.storage.rename_directory(layout.root, hidden)
            self.storage.delete_directory(hidden)
            return
        schemas = Schemas(self.storage, layout)
        for schema_id in sorted(schemas.ids(), reverse=True):
            self.storage.delete(layout.schema_file(schema_id))
        self.storage.delete_directory(layout.root)

    def _require_database(self, name: str) -> None:
        check_name("database", name)
        if not self._has_database(name):
            raise self._no_database(name)

    def _no_database(self, name: str) -> DatabaseNotExistException:
        known = ", ".join(self.list_databases()[:10]) or "none yet"
        return DatabaseNotExistException(f"database {name} does not exist in {self.warehouse} ({known})", database=name)

    def _no_table(self, name: Identifier) -> TableNotExistException:
        database = name.get_database_name()
        known = ", ".join(self.list_tables(database)[:10]) if self._has_database(database) else ""
        return TableNotExistException(
            f"table {name.get_full_name()} does not exist in {self.warehouse} (in {database}: {known or 'no tables'})",
            table=name.get_full_name(),
            identifier=name,
        )


class CatalogFactory:
    """Creates catalogs from Paimon's option keys."""

    @staticmethod
    def create(catalog_options: Mapping[str, object]) -> FileSystemCatalog:
        """Open a catalog: `warehouse` says where, storage options (`s3.endpoint`, ...) say how to get there.

        A warehouse may be a `pathlib.Path`.

        >>> import tempfile
        >>> CatalogFactory.create({"warehouse": tempfile.mkdtemp()}).list_databases()
        []
        """
        options = arguments.text_map("catalog_options", catalog_options)
        metastore = options.get("metastore", "filesystem")
        if metastore != "filesystem":
            raise UnsupportedError(f"metastore {metastore!r} is not supported; use 'filesystem'", metastore=metastore)
        if not options.get("warehouse", "").strip():
            raise InvalidInputError("the catalog option 'warehouse' is missing: give the directory of the databases")
        storage, warehouse = open_storage(options["warehouse"], options)
        check_catalog_options(warehouse, options)
        return FileSystemCatalog(storage, warehouse.rstrip("/") or "/", options)


def _identifier(identifier: object) -> Identifier:
    return identifier if isinstance(identifier, Identifier) else Identifier.from_string(identifier)


def _schema(schema: object) -> Schema:
    """Return the schema of a new table, which may be given as an Arrow schema."""
    if isinstance(schema, pa.Schema):
        return Schema.from_pyarrow_schema(schema)
    expected = "a Schema (Schema.from_pyarrow_schema makes one of Arrow columns) or a pyarrow schema"
    return arguments.instance("schema", schema, Schema, expected)


def _table_exists(name: Identifier) -> TableAlreadyExistException:
    full = name.get_full_name()
    remedy = "pass ignore_if_exists=True to keep it"
    return TableAlreadyExistException(f"table {full} already exists; {remedy}", table=full, identifier=name)


def _now() -> int:
    return int(time.time() * 1000)

"""Databases and tables as directories.

Creating a table is one atomic create of `schema-0`. Dropping one first renames its directory if the storage can rename
in one step, so that no reader opens a table that is half deleted; on object stores the schema is deleted first, and an
interrupted drop is finished by dropping again.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lakewright.catalog.catalog import (
    Catalog,
    Database,
    as_schema,
    create_first,
    first_schema,
    has_schema,
    has_snapshot,
    layout_of,
    plain_identifier,
    remove_table,
    table_exists,
    wait_for_distinct_timestamp,
)
from lakewright.catalog.sys_database import check_not_system, is_system, system_database_tables
from lakewright.errors import (
    DatabaseAlreadyExistException,
    DatabaseNotEmptyException,
    DatabaseNotExistException,
    InvalidInputError,
    LakewrightWarning,
    NotFoundError,
    TableNotExistException,
    pluralize,
)
from lakewright.maintenance.external_directories import move_claims
from lakewright.spec import argument_checks
from lakewright.spec.identifier import Identifier
from lakewright.spec.option_checks import check_catalog_options
from lakewright.spec.schema import Schema
from lakewright.storage.credentials import Credentials, setting_names
from lakewright.storage.storage import Storage
from lakewright.storage.storage_registry import open_storage
from lakewright.storage.table_layout import Layout, check_name, database_directory
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.open_table import open_layout

_DB_SUFFIX = ".db"


@dataclass(frozen=True, slots=True)
class FileSystemCatalog(Catalog):
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
        names = [path.rsplit("/", 1)[-1] for path in self.storage.list_directories(self.warehouse)]
        if not names and self.storage.size(self.warehouse) is not None:
            raise self._bad_warehouse("it is a file")
        return sorted(name.removesuffix(_DB_SUFFIX) for name in names if name.endswith(_DB_SUFFIX))

    def create_database(
        self,
        name: str,
        ignore_if_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
        properties: Mapping[str, object] | None = None,
    ) -> None:
        """Create a database."""
        check_name("database", name)
        check_not_system(name)
        argument_checks.check_bool("ignore_if_exists", ignore_if_exists)
        if properties is not None and argument_checks.check_text_mapping("properties", properties):
            warnings.warn(
                f"database {name}: the filesystem catalog stores no properties; {sorted(properties)} are dropped",
                LakewrightWarning,
                stacklevel=2,
            )
        if self._has_database(name):
            if ignore_if_exists:
                return
            raise DatabaseAlreadyExistException(
                f"database {name} already exists; choose another name, or keep it (ignore_if_exists=True, "
                "--if-not-exists)",
                database=name,
            )
        try:
            self.storage.make_directory(database_directory(self.warehouse, name))
        except (FileExistsError, FileNotFoundError, NotADirectoryError) as error:
            raise self._bad_warehouse(str(error)) from error

    def get_database(self, name: str) -> Database:
        """Return a database, or raise DatabaseNotExistException."""
        if not is_system(name):
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
        argument_checks.check_bool("ignore_if_not_exists", ignore_if_not_exists)
        argument_checks.check_bool("cascade", cascade)
        if not self._has_database(name):
            if ignore_if_not_exists:
                return
            raise self._no_database(name)
        tables = self.list_tables(name)
        if tables and not cascade:
            raise DatabaseNotEmptyException(
                f"database {name} holds {pluralize(len(tables), 'table')} ({', '.join(tables[:5])}); "
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
        if is_system(database_name):
            return system_database_tables()
        self._require_database(database_name)
        directory = database_directory(self.warehouse, database_name)
        names = (path.rsplit("/", 1)[-1] for path in self.storage.list_directories(directory))
        return sorted(name for name in names if self._exists(Layout(f"{directory}/{name}")))

    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        ignore_if_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Create a table, by creating its schema file in one step.

        An Arrow schema stands for a table of these columns without keys and options.
        """
        name = plain_identifier(identifier)
        declared = as_schema(schema)
        argument_checks.check_bool("ignore_if_exists", ignore_if_exists)
        self._require_database(name.get_database_name())
        layout = self._layout(name)
        if self._exists(layout):
            if ignore_if_exists:
                return
            raise table_exists(name)
        if has_snapshot(self.storage, layout):
            raise InvalidInputError(
                f"{name.get_full_name()}: {layout.root} holds the files of a table whose drop was cut short; "
                f"call drop_table once more, then create it",
                table=name.get_full_name(),
            )
        new_schema = first_schema(name, declared, self.options, self.storage, layout)
        if not create_first(self.storage, layout, new_schema):
            if ignore_if_exists:
                return
            raise table_exists(name)
        wait_for_distinct_timestamp(new_schema)

    def drop_table(
        self,
        identifier: str | Identifier,
        ignore_if_not_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Drop a table with all its files."""
        name = plain_identifier(identifier)
        argument_checks.check_bool("ignore_if_not_exists", ignore_if_not_exists)
        layout = self._layout(name)
        if not self._exists(layout) and next(iter(self.storage.walk(layout.root)), None) is None:
            if ignore_if_not_exists:
                return
            raise self._no_table(name)
        self._check_own(name)
        try:
            remove_table(self.storage, self.warehouse, layout)
        except FileNotFoundError as cause:  # another call has dropped or renamed it
            if not ignore_if_not_exists:
                raise self._no_table(name) from cause

    def rename_table(
        self,
        source_identifier: str | Identifier,
        target_identifier: str | Identifier,
        ignore_if_not_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Give a table another name. On object stores the files are copied one by one: let no writer run meanwhile."""
        source, target = plain_identifier(source_identifier), plain_identifier(target_identifier)
        argument_checks.check_bool("ignore_if_not_exists", ignore_if_not_exists)
        if not self._exists(self._layout(source)):
            if ignore_if_not_exists:
                return
            raise self._no_table(source)
        self._check_own(source)
        self._require_database(target.get_database_name())
        if self._exists(self._layout(target)):
            raise table_exists(target)
        try:
            self.storage.rename_directory(self._layout(source).root, self._layout(target).root)
        except FileNotFoundError as cause:
            raise self._no_table(source) from cause
        except FileExistsError as cause:
            raise table_exists(target) from cause
        move_claims(self.storage, self._layout(source).root, self._layout(target))

    # From names to directories.

    def _layout(self, name: Identifier) -> Layout:
        return layout_of(self.warehouse, name)

    def _has_database(self, name: str) -> bool:
        directory = database_directory(self.warehouse, name)
        return any(path.rstrip("/") == directory for path in self.storage.list_directories(self.warehouse))

    def _exists(self, layout: Layout) -> bool:
        return has_schema(self.storage, layout)

    def _table(self, name: Identifier) -> FileStoreTable:
        layout = self._layout(name)
        plain = Identifier.create(name.get_database_name(), name.get_table_name(), name.get_branch_name())
        try:
            return open_layout(plain, self.storage, layout)
        except NotFoundError:
            if self._exists(layout):
                raise
        self._require_database(name.get_database_name())
        raise self._no_table(name)

    def _check_own(self, name: Identifier) -> None:
        """Refuse to move or remove a table whose database is a link: it belongs to another warehouse."""
        if not self._has_database(name.get_database_name()):
            raise InvalidInputError(
                f"{name.get_full_name()} is reached through a symbolic link; open a catalog on the directory that its "
                "database really is in",
                table=name.get_full_name(),
            )

    def _bad_warehouse(self, reason: str) -> InvalidInputError:
        return InvalidInputError(
            f"the warehouse {self.warehouse} is not a directory that can hold databases: {reason}; give the directory "
            "of the databases as the option 'warehouse'",
            option="warehouse",
            path=self.warehouse,
        )

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


def open_filesystem(options: Mapping[str, str], credentials: Credentials | None = None) -> FileSystemCatalog:
    """Open the catalog of a warehouse; the storage options (`s3.endpoint`, ...) say how to get there."""
    if not options.get("warehouse", "").strip():
        raise InvalidInputError("the catalog option 'warehouse' is missing: give the directory of the databases")
    storage, warehouse = open_storage(options["warehouse"], options, credentials)
    check_catalog_options(warehouse, options, setting_names())
    return FileSystemCatalog(storage, warehouse.rstrip("/") or "/", options)

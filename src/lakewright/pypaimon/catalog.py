"""pypaimon's catalogs: lakewright's, whose tables have pypaimon's shapes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias, cast

import pyarrow as pa

from lakewright.catalog import filesystem
from lakewright.catalog.system import views
from lakewright.errors import (
    BranchNotExistException,
    ColumnNotExistException,
    DatabaseNotExistException,
    InvalidInputError,
    LakewrightWarning,
    TableNotExistException,
    UnsupportedError,
)
from lakewright.pypaimon.history.catalog import CatalogHistory
from lakewright.pypaimon.read.system import load
from lakewright.pypaimon.table import FileStoreTable
from lakewright.pypaimon.values.changes import SchemaChange, core_changes
from lakewright.pypaimon.values.errors import AlterTableError
from lakewright.pypaimon.values.identifier import Identifier
from lakewright.pypaimon.values.schema import Schema
from lakewright.pypaimon.values.words import CATALOG_WORDS, said, speaking
from lakewright.spec import arguments
from lakewright.spec import identifier as core_identifier
from lakewright.spec.schema import changes as core_change
from lakewright.spec.schema import declaration
from lakewright.table import table as core

AnyChange: TypeAlias = SchemaChange | core_change.SchemaChange


@speaking(CATALOG_WORDS)
class FileSystemCatalog(CatalogHistory):
    """Databases and tables below one directory, as pypaimon has them."""

    __slots__ = ()

    def get_table(self, identifier: str | core_identifier.Identifier) -> FileStoreTable:
        """Return a table with pypaimon's shapes; `db.t$snapshots` names a system table, `db.t$branch_b` a branch."""
        name = Identifier.of(identifier)
        try:
            table = super().get_table(name)
        except (DatabaseNotExistException, BranchNotExistException) as error:
            raise TableNotExistException(str(error), table=name.get_full_name(), identifier=name) from error
        except TableNotExistException as error:
            error.facts["identifier"] = name
            raise
        if isinstance(table, core.FileStoreTable):
            return FileStoreTable(name, table.store)
        shown: object = table
        if isinstance(shown, views.SystemTable):
            owner = FileStoreTable(Identifier.of(shown.table.identifier), shown.table.store)
            return cast("FileStoreTable", load(shown.system_name, owner))  # read as a table is
        return table

    def create_database(
        self,
        name: str,
        ignore_if_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
        properties: Mapping[str, object] | None = None,
    ) -> None:
        """Create a database, which lies in the warehouse."""
        if self.DB_LOCATION_PROP in (properties or {}):
            raise InvalidInputError("Cannot specify location for a database when using fileSystem catalog.")
        super().create_database(name, ignore_if_exists, properties)

    def create_table(
        self,
        identifier: str | core_identifier.Identifier,
        schema: declaration.Schema | pa.Schema,
        ignore_if_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Create a table."""
        declared = schema.to_core() if isinstance(schema, Schema) else schema
        given = declared.options if isinstance(declared, declaration.Schema) else {}
        if str(given.get("auto-create", "false")).lower() == "true":
            raise InvalidInputError("The value of auto-create property should be False: create the table, then write")
        if str(given.get("target-file-row-num", "1")) == "0":
            raise InvalidInputError("target-file-row-num should be at least 1, not 0")
        super().create_table(Identifier.of(identifier), declared, ignore_if_exists)

    def alter_table(
        self,
        identifier: str | core_identifier.Identifier,
        changes: AnyChange | Iterable[AnyChange],
        ignore_if_not_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Change the schema. A new type that values do not fit is taken with a warning, as pypaimon takes it."""
        name, asked = Identifier.of(identifier), core_changes(changes)
        try:
            self._alter(name, asked, ignore_if_not_exists)
        except (InvalidInputError, ColumnNotExistException, UnsupportedError) as error:
            full = name.get_full_name()
            said(error, CATALOG_WORDS)
            raise AlterTableError(f"Failed to alter table {full}: {error}", **error.facts) from error

    def _alter(self, name: Identifier, asked: list[core_change.SchemaChange], ignore: bool) -> None:  # noqa: FBT001
        try:
            super().alter_table(name, asked, ignore)
        except InvalidInputError as error:
            lossy = [replace(c, allow_lossy=True) if isinstance(c, core_change.UpdateType) else c for c in asked]
            if lossy == asked or "example" not in error.facts:
                raise
            warnings.warn(f"{error}; pypaimon changes the type all the same", LakewrightWarning, stacklevel=3)
            super().alter_table(name, lossy, ignore)


Catalog = FileSystemCatalog  # pypaimon's name for any catalog


class CatalogFactory:
    """Creates catalogs from Paimon's option keys."""

    @staticmethod
    def create(catalog_options: Mapping[str, object]) -> FileSystemCatalog:
        """Open a catalog: `warehouse` says where, storage options (`s3.endpoint`, ...) say how to get there.

        >>> import tempfile
        >>> CatalogFactory.create({"warehouse": tempfile.mkdtemp()}).list_databases()
        []
        """
        given = arguments.mapping("catalog_options", catalog_options)
        if "warehouse" not in given:
            raise InvalidInputError("Paimon 'warehouse' path must be set: give the directory of the databases")
        kind = given.get("metastore", "filesystem")
        if kind != "filesystem":
            raise UnsupportedError(f"Unknown catalog identifier: {kind}. Use 'filesystem'", metastore=kind)
        catalog = filesystem.open_filesystem(arguments.text_map("catalog_options", catalog_options))
        return FileSystemCatalog(catalog.storage, catalog.warehouse, catalog.options)

"""pypaimon's catalogs: lakewright's, whose tables have pypaimon's shapes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, TypeAlias, cast

import pyarrow as pa

from lakewright.catalog import factory, filesystem
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
from lakewright.pypaimon.history.catalog import CatalogHistory, DirectoryPaths, parts_of
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
from lakewright.storage.credentials import Provider
from lakewright.table import table as core

AnyChange: TypeAlias = SchemaChange | core_change.SchemaChange
_KINDS = ("filesystem", "rest", "jdbc")


class Catalog(CatalogHistory):
    """What every catalog of pypaimon does, whatever kind of catalog is mixed in: its tables have pypaimon's shapes."""

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
        if isinstance(shown, views.TableFacts):
            owner = FileStoreTable(Identifier.of(shown.table.identifier), shown.table.store)
            # Those that pypaimon does not know are lakewright's own.
            return cast("FileStoreTable", load(shown.system_name, owner) or shown)  # read as a table is
        return table

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
        super().create_table(Identifier.of(identifier), declared, ignore_if_exists)  # type: ignore[safe-super] # mixed in

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


@speaking(CATALOG_WORDS)
class FileSystemCatalog(DirectoryPaths, Catalog, filesystem.FileSystemCatalog):
    """Databases and tables below one directory, as pypaimon has them."""

    __slots__ = ()
    _kind: ClassVar[str] = "filesystem"

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


class CatalogFactory:
    """Creates catalogs from Paimon's option keys."""

    @staticmethod
    def create(catalog_options: Mapping[str, object], *, credentials: Provider | None = None) -> Catalog:
        """Open a catalog: `metastore` says which kind, `warehouse` where, storage options how to get there.

        `credentials` is a function that returns keys of an object store, as `lakewright.CatalogFactory.create` has it.

        >>> import tempfile
        >>> CatalogFactory.create({"warehouse": tempfile.mkdtemp()}).list_databases()
        []
        """
        given = arguments.mapping("catalog_options", catalog_options)
        kind = str(given.get("metastore", "filesystem"))
        if kind not in _KINDS:
            raise UnsupportedError(f"Unknown catalog identifier: {kind}. Use {', '.join(_KINDS)}", metastore=kind)
        if "warehouse" not in given:
            raise InvalidInputError("Paimon 'warehouse' path must be set: give the directory of the databases")
        opened = factory.CatalogFactory.create(catalog_options, credentials=credentials)
        if isinstance(opened, filesystem.FileSystemCatalog):
            return FileSystemCatalog(**parts_of(opened))
        made: Catalog = on_server(type(opened).__name__)(**parts_of(opened))
        return made


def on_server(name: str) -> Any:  # noqa: ANN401 - a class of catalogs, which is loaded here
    """Return a class of catalogs on servers or in SQL databases; most scripts do not need what it loads."""
    if name not in {"RESTCatalog", "JdbcCatalog"}:
        raise AttributeError(f"module 'lakewright.pypaimon' has no attribute {name!r}")
    from lakewright.pypaimon import servers  # noqa: PLC0415 - the door to HTTP clients and database drivers

    return getattr(servers, name)

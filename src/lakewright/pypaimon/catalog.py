"""pypaimon's catalogs: lakewright's, whose tables have pypaimon's shapes."""

from __future__ import annotations

from collections.abc import Mapping

from lakewright.catalog import filesystem
from lakewright.pypaimon.table import FileStoreTable
from lakewright.spec.identifier import Identifier
from lakewright.table import table as core


class FileSystemCatalog(filesystem.FileSystemCatalog):
    """Databases and tables below one directory, as pypaimon has them."""

    __slots__ = ()

    def get_table(self, identifier: str | Identifier) -> FileStoreTable:
        """Return a table with pypaimon's shapes; `db.t$snapshots` names a system table, `db.t$branch_b` a branch."""
        table = super().get_table(identifier)
        if isinstance(table, core.FileStoreTable):
            return FileStoreTable(table.identifier, table.store)
        return table


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
        catalog = filesystem.CatalogFactory.create(catalog_options)
        return FileSystemCatalog(catalog.storage, catalog.warehouse, catalog.options)

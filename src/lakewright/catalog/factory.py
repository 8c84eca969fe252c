"""The way in: options become a catalog."""

from __future__ import annotations

from collections.abc import Mapping

from lakewright.catalog.filesystem import FileSystemCatalog
from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.storage.open import open_storage


class CatalogFactory:
    """Makes catalogs from Paimon's option keys."""

    @staticmethod
    def create(catalog_options: Mapping[str, str]) -> FileSystemCatalog:
        """Open a catalog: `warehouse` says where, storage options (`s3.endpoint`, ...) say how to get there.

        >>> import tempfile
        >>> CatalogFactory.create({"warehouse": tempfile.mkdtemp()}).list_databases()
        []
        """
        options = {str(key): str(value) for key, value in catalog_options.items()}
        metastore = options.get("metastore", "filesystem")
        if metastore != "filesystem":
            raise UnsupportedError(f"metastore {metastore!r} is not supported; use 'filesystem'", metastore=metastore)
        if not options.get("warehouse"):
            raise InvalidInputError("the catalog option 'warehouse' is missing: give the directory of the databases")
        storage, warehouse = open_storage(options["warehouse"], options)
        return FileSystemCatalog(storage, warehouse.rstrip("/") or "/", options)

"""Catalog options in, a catalog out: the `metastore` says which kind."""

from __future__ import annotations

from collections.abc import Mapping

from lakewright.catalog.base import Catalog
from lakewright.catalog.filesystem import open_filesystem
from lakewright.errors import UnsupportedError
from lakewright.spec import arguments

_KINDS = ("filesystem", "rest", "jdbc")


class CatalogFactory:
    """Creates catalogs from Paimon's option keys."""

    @staticmethod
    def create(catalog_options: Mapping[str, object]) -> Catalog:
        """Open a catalog: `metastore` says which kind, `warehouse` where, storage options how to get there.

        A `filesystem` catalog, which is the default, has databases as directories of its warehouse, which may be a
        `pathlib.Path`. A `rest` catalog is a server at `uri`, a `jdbc` catalog a SQL database.

        >>> import tempfile
        >>> CatalogFactory.create({"warehouse": tempfile.mkdtemp()}).list_databases()
        []
        """
        options = arguments.text_map("catalog_options", catalog_options)
        metastore = options.get("metastore", "filesystem").strip().lower()
        if metastore == "filesystem":
            return open_filesystem(options)
        raise UnsupportedError(
            f"metastore {metastore!r} is not supported; use one of {', '.join(_KINDS)}", metastore=metastore
        )

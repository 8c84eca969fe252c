"""Catalog options in, a catalog out: the `metastore` says which kind."""

from __future__ import annotations

from collections.abc import Mapping

from lakewright.catalog.base import Catalog
from lakewright.catalog.filesystem import open_filesystem
from lakewright.errors import UnsupportedError
from lakewright.spec import arguments
from lakewright.storage.credentials import Provider, credentials_of

_KINDS = ("filesystem", "rest", "jdbc")


class CatalogFactory:
    """Creates catalogs from Paimon's option keys."""

    @staticmethod
    def create(catalog_options: Mapping[str, object], *, credentials: Provider | None = None) -> Catalog:
        """Open a catalog: `metastore` says which kind, `warehouse` where, storage options how to get there.

        A `filesystem` catalog, which is the default, has databases as directories of its warehouse, which may be a
        `pathlib.Path`. A `rest` catalog is a server at `uri`, a `jdbc` catalog a SQL database.

        `credentials` is a function without arguments that returns the keys of an object store as storage options, and
        when they expire: `expires_at`, a datetime with a zone, or `expiresAtMillis`. It is called in each process, also
        on workers of Spark and Ray, once per life of the keys; so it must be one that can be sent there: a function of
        a module, an object with plain values, or, with engines that send code along, any function.

        >>> import tempfile
        >>> CatalogFactory.create({"warehouse": tempfile.mkdtemp()}).list_databases()
        []
        """
        options = arguments.text_map("catalog_options", catalog_options)
        metastore = options.get("metastore", "filesystem").strip().lower()
        if metastore == "filesystem":
            return open_filesystem(options, credentials_of(credentials, options.get("warehouse", "")))
        if metastore == "rest":
            from lakewright.catalog.rest import open_rest  # noqa: PLC0415 - the door to servers, which need urllib3

            return open_rest(options, credentials_of(credentials, options.get("uri", "")))
        if metastore == "jdbc":
            from lakewright.catalog.jdbc import open_jdbc  # noqa: PLC0415 - the door to SQL databases

            return open_jdbc(options, credentials_of(credentials, options.get("warehouse", "")))
        raise UnsupportedError(
            f"metastore {metastore!r} is not supported; use one of {', '.join(_KINDS)}", metastore=metastore
        )

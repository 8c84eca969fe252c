"""Catalogs on REST servers and in SQL databases, loaded when they are asked for.

Only `CatalogFactory` and scripts that name these classes import this module: it loads what servers and databases need.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from lakewright.catalog import rest_catalog, sql_catalog
from lakewright.catalog.listing import entries_by_partition
from lakewright.pypaimon.compat_catalog import AnyIdentifier, Catalog, DirectoryPaths
from lakewright.pypaimon.compat_errors import CATALOG_WORDS, translate_errors
from lakewright.pypaimon.compat_table import TableSnapshot
from lakewright.pypaimon.compat_values import Identifier
from lakewright.spec import manifest
from lakewright.spec.snapshot import Snapshot


@translate_errors(CATALOG_WORDS)
class RESTCatalog(Catalog, rest_catalog.RESTCatalog):  # type: ignore[misc] # pypaimon's results
    """A catalog on a server, as pypaimon has it."""

    __slots__ = ()
    _kind: ClassVar[str] = "REST"

    def supports_version_management(self) -> bool:
        """Return whether the catalog itself keeps snapshots: the server does."""
        return True

    def load_snapshot(self, identifier: AnyIdentifier) -> TableSnapshot | None:
        """Return the newest snapshot of a table with sums over its files, None where nothing was written."""
        store = self._table(Identifier.of(identifier)).store
        newest = store.snapshots.latest()
        if newest is None:
            return None
        files = [entry.file for entries in entries_by_partition(store).values() for entry in entries]
        return TableSnapshot(
            newest,
            sum(file.row_count for file in files),
            sum(file.file_size for file in files),
            len(files),
            max((file.creation_time or 0 for file in files), default=0),
        )

    def commit_snapshot(
        self,
        identifier: AnyIdentifier,
        table_uuid: str | None,
        base_snapshot_uuid: str | None,
        snapshot: Snapshot,
        statistics: Sequence[manifest.Partition],
    ) -> bool:
        """Ask the server to make a snapshot the newest one, and return whether it says that it did.

        An error may mean that the snapshot is there all the same; `table.new_batch_write_builder().new_commit()` finds
        out.
        """
        name = Identifier.of(identifier)
        table_id = table_uuid if table_uuid is not None else self.api.get_table(name).id
        return self.api.commit(name, table_id, base_snapshot_uuid, snapshot, statistics)


@translate_errors(CATALOG_WORDS)
class JdbcCatalog(DirectoryPaths, Catalog, sql_catalog.JdbcCatalog):  # type: ignore[misc] # pypaimon's results
    """A catalog whose names are in a SQL database, as pypaimon has it."""

    __slots__ = ()
    _kind: ClassVar[str] = "jdbc"

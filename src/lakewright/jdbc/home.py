"""The home of a table in a SQL catalog: files decide, under the lock of the catalog where others publish by renaming.

A home holds no connection and can be sent to a worker. What it holds of secrets it does not show.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from lakewright.errors import LakewrightError
from lakewright.jdbc.lock import LockSettings, SqlLock
from lakewright.jdbc.rows import Rows, table_properties
from lakewright.metadata.home import Home
from lakewright.spec.schema.table_schema import TableSchema
from lakewright.storage.layout import MAIN_BRANCH

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SqlHome(Home):
    """The home of one branch of a table that a SQL catalog names."""

    rows: Rows
    database: str
    table: str
    lock: LockSettings | None = None  # None: publishing takes no lock
    copies_properties: bool = True  # option `sync-all-properties`
    branch: str = MAIN_BRANCH

    def locked(self) -> AbstractContextManager[None]:
        """Hold the lock of the branch, which Java holds while it publishes a snapshot or a schema."""
        if self.lock is None:
            return nullcontext()
        name = self.table if self.branch == MAIN_BRANCH else f"{self.table}$branch_{self.branch}"
        lock_id = f"{self.rows.catalog_key}.{self.database}.{name}"
        return SqlLock(self.rows.address, lock_id, self.lock).held()

    def schema_changed(self, schema: TableSchema) -> None:
        """Copy the options of a new schema into the database. The schema file counts: a failure changes nothing."""
        if not self.copies_properties or self.branch != MAIN_BRANCH:
            return
        try:
            self.rows.set_table_properties(self.database, self.table, table_properties(schema))
        except LakewrightError as error:
            _LOG.warning("%s.%s: its options were not copied into the catalog: %s", self.database, self.table, error)

    def for_branch(self, branch: str) -> SqlHome:
        """Return the home of another branch of the same table."""
        return replace(self, branch=branch)

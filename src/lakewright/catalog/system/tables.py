"""From names to system tables: `db.t$snapshots`, `$files` and others, and views of the rows, such as `$audit_log`."""

from __future__ import annotations

from lakewright.catalog.system import files, history
from lakewright.catalog.system.columns import fields_of, keys_of
from lakewright.catalog.system.views import (
    AuditLog,
    BinaryLog,
    ColumnSource,
    ReadOptimized,
    RowSource,
    RowsView,
    RowTracking,
    TableFacts,
)
from lakewright.errors import TableNotExistException
from lakewright.spec.identifier import Identifier
from lakewright.table.table import FileStoreTable

_ROWS: dict[str, RowSource] = {
    "snapshots": history.snapshots,
    "schemas": history.schemas,
    "options": history.options,
    "manifests": files.manifests,
    "files": files.files,
    "partitions": files.partitions,
    "buckets": files.buckets,
    "tags": history.tags,
    "branches": history.branches,
    "file_key_ranges": files.file_key_ranges,
    "table_indexes": files.table_indexes,
    "consumers": history.consumers,
    "statistics": history.statistics,
    "aggregation_fields": history.aggregation_fields,
}
_COLUMNS: dict[str, ColumnSource] = {"files": files.file_columns, "file_key_ranges": files.key_range_columns}

_VIEWS: dict[str, type[RowsView]] = {view.suffix: view for view in (AuditLog, BinaryLog, ReadOptimized, RowTracking)}


def system_table(table: FileStoreTable, name: str) -> TableFacts | RowsView:
    """Return the system table of that name."""
    if name in _VIEWS:
        return _VIEWS[name](table)
    if name not in _ROWS:
        known = ", ".join(f"${n}" for n in (*_ROWS, *_VIEWS))
        raise TableNotExistException(
            f"the system table ${name} of {table.name} does not exist (there are {known})",
            table=f"{table.name}${name}",
            identifier=Identifier(table.identifier.database, table.identifier.get_object_name(), system_table=name),
        )
    return TableFacts(name, fields_of(name), keys_of(name), table, _ROWS[name], _COLUMNS.get(name))

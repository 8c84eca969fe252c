"""Tables as files of a warehouse: names in, their places out; the first schema of a new table; the end of one.

What the catalogs share whose tables lie at `<warehouse>/<database>.db/<table>`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping

from lakewright.catalog.base import now_millis, with_defaults
from lakewright.errors import CommitContentionError, naming
from lakewright.lsm.merge import check_merging
from lakewright.maintenance.external import check_external_paths, claim, release
from lakewright.maintenance.orphans import external_files
from lakewright.metadata.schemas import Schemas
from lakewright.metadata.store import placed
from lakewright.spec.identifier import Identifier
from lakewright.spec.schema.declaration import Schema, new_table_schema
from lakewright.spec.schema.option_keys import warn_of_unknown
from lakewright.spec.schema.supported import check_column_types
from lakewright.spec.schema.table_schema import TableSchema
from lakewright.storage.base import Storage
from lakewright.storage.layout import Layout, check_name, database_directory

_CREATES_MAX = 10


def layout_of(warehouse: str, name: Identifier) -> Layout:
    """Return where a table lies; what a name says of a branch or a system table is left out."""
    check_name("table", name.get_table_name())
    return Layout(f"{database_directory(warehouse, name.get_database_name())}/{name.get_table_name()}")


def has_schema(storage: Storage, layout: Layout) -> bool:
    """Say whether a table is there: it has a schema file."""
    return storage.exists(layout.schema_file(0)) or bool(Schemas(storage, layout).ids())


def has_snapshot(storage: Storage, layout: Layout) -> bool:
    """Say whether there are snapshots, which a table without a schema has if its drop was cut short."""
    return next(iter(storage.list(layout.snapshot_directory)), None) is not None


def first_schema(
    name: Identifier, declared: Schema, options: Mapping[str, str], storage: Storage, layout: Layout
) -> TableSchema:
    """Return the first schema of a new table; `options` are those of the catalog, with defaults for tables."""
    with naming(name.get_full_name()):
        schema = new_table_schema(with_defaults(declared, options), time_millis=now_millis())
        check_merging(schema)
        check_column_types(schema)
        check_external_paths(storage, layout, schema)
    warn_of_unknown(f"table {name.get_full_name()}", layout.root, schema.options)
    return schema


def create_first(storage: Storage, layout: Layout, schema: TableSchema) -> bool:
    """Create the first schema file, after the table's claims of external directories. False: somebody was first."""
    schemas = Schemas(storage, layout)
    identity = schemas.digest(schema.to_json().encode())
    claim(storage, layout, schema, identity)
    for attempt in range(_CREATES_MAX):
        try:
            if schemas.create(schema):
                return True
            break
        except FileNotFoundError as cause:  # a drop of the table that was here before took the directory away
            if attempt == _CREATES_MAX - 1:
                raise CommitContentionError(
                    f"the directory {layout.root} was dropped {_CREATES_MAX} times while a table was created there;"
                    " nothing was created: create it again",
                    path=layout.root,
                ) from cause
    release(storage, placed(layout, schema).reachable_directories, identity)
    return False


def let_a_millisecond_pass(schema: TableSchema) -> None:
    """Return later than the time of a schema: it identifies a table, so the next one here must get a later time."""
    if now_millis() == schema.time_millis:
        time.sleep(0.001)


def remove_table(storage: Storage, warehouse: str, layout: Layout) -> None:
    """Delete all files of a table, those outside of it too."""
    outside = external_files(storage, layout)
    if storage.renames_atomically:
        hidden = f"{warehouse}/.dropped-{uuid.uuid4()}"
        storage.rename_directory(layout.root, hidden)
        storage.delete_directory(hidden)
    else:
        for schema_id in sorted(Schemas(storage, layout).ids(), reverse=True):
            storage.delete(layout.schema_file(schema_id))
        storage.delete_directory(layout.root)
    for path in outside:
        storage.delete(path)

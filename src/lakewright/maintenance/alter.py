"""Schema changes that depend on the rows: a store and changes in, the new schema out.

The rows of the newest snapshot are checked before the new schema file is created, once more if a write came in between,
and again afterwards: a schema and a snapshot are two files, and the format has no step that creates both. If a write
came in between after all, a warning says so; its values are in its files, and can be read again once the type is
changed back.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from lakewright.errors import InvalidInputError, LakewrightWarning, naming
from lakewright.lsm.merge import check_merging_kept
from lakewright.maintenance.external import check_external_paths, claim, identity_at, places_files
from lakewright.metadata.schemas import PlanChanges
from lakewright.metadata.store import TableStore, placed
from lakewright.read.fit import check_values_fit
from lakewright.spec.schema.changes import SchemaChange
from lakewright.spec.schema.evolution import apply_changes, without_lossy
from lakewright.spec.schema.option_keys import warn_of_unknown
from lakewright.spec.schema.supported import check_column_types
from lakewright.spec.schema.table_schema import TableSchema
from lakewright.storage.layout import MAIN_BRANCH

_ROUNDS_MAX = 3


def alter(store: TableStore, changes: Sequence[SchemaChange] | PlanChanges, *, time_millis: int) -> TableSchema:
    """Apply changes to the newest schema and return it; refuse those that would change stored values.

    Changes may be a function of the newest schema, as for `Schemas.evolve`.
    """
    has_snapshot = store.snapshots.latest_id() is not None
    checked: list[tuple[int | None, TableStore, TableSchema]] = []

    def check(old: TableSchema, new: TableSchema) -> None:
        check_merging_kept(old, new)
        check_column_types(new, old)
        _check_external(store, old, new)
        warn_of_unknown(f"table {store.name}", store.layout.root, new.options.keys() - old.options.keys())
        asked = without_lossy(changes(old) if callable(changes) else changes)
        new_schema = apply_changes(old, asked, has_snapshot=has_snapshot, time_millis=time_millis)
        old_store = store.with_schema(old)
        checked[:] = [(_checked_rows(old_store, new_schema), old_store, new_schema)]

    evolved = store.schemas.evolve(changes, has_snapshot=has_snapshot, time_millis=time_millis, check=check)
    for snapshot_id, old_store, new_schema in checked:
        if old_store.snapshots.latest_id() != snapshot_id:
            _warn_of_misfits(old_store, new_schema)
    return evolved


def _check_external(store: TableStore, old: TableSchema, new: TableSchema) -> None:
    """Check new external paths, and claim them before the schema names them."""
    main = store.layout.for_branch(MAIN_BRANCH)
    are_new = placed(main, new).external_directories != placed(main, old).external_directories
    if are_new:
        with naming(store.name):
            check_external_paths(store.storage, main, new)
    if places_files(new) and (are_new or not places_files(old)):
        claim(store.storage, main, new, identity_at(store.storage, main))


def _checked_rows(store: TableStore, new_schema: TableSchema) -> int | None:
    """Check that the newest rows fit a schema; return the id of their snapshot."""
    snapshot_id: int | None = None
    for _ in range(_ROUNDS_MAX):
        newest = store.snapshots.latest()
        if newest is None or newest.id == snapshot_id:
            break
        check_values_fit(store, newest, new_schema)
        snapshot_id = newest.id
    return snapshot_id


def _warn_of_misfits(store: TableStore, new_schema: TableSchema) -> None:
    try:
        _checked_rows(store, new_schema)
    except InvalidInputError as error:
        warnings.warn(
            f"{store.name}: a write came in while the schema was changed: {error}; or change the type back",
            LakewrightWarning,
            stacklevel=4,
        )

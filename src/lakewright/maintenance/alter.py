"""Changes of a table's schema that look at its rows first: a store and changes in, the new schema out.

The rows of the newest snapshot are checked before the new schema file is created, once more if a write came in between,
and again afterwards: a schema and a snapshot are two files, and no step of the format creates both. A write that slips
in is therefore told of by a warning; its values are in its files, and read as they were once the type is changed back.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from lakewright.errors import InvalidInputError, LakewrightWarning
from lakewright.lsm.merge import check_merging_kept
from lakewright.metadata.schemas import Wanted
from lakewright.metadata.store import TableStore
from lakewright.read.fit import check_values_fit
from lakewright.spec.schema.evolution import SchemaChange, apply_changes, without_lossy
from lakewright.spec.schema.table_schema import TableSchema

_ROUNDS_MAX = 3


def alter(store: TableStore, changes: Sequence[SchemaChange] | Wanted, *, time_millis: int) -> TableSchema:
    """Apply changes to the newest schema and return it; refuse those that would change stored values unasked.

    Changes may be a function of the newest schema, as for `Schemas.evolve`.
    """
    has_snapshot = store.snapshots.latest_id() is not None
    checked: list[tuple[int | None, TableStore, TableSchema]] = []

    def check(old: TableSchema, new: TableSchema) -> None:
        check_merging_kept(old, new)
        asked = without_lossy(changes(old) if callable(changes) else changes)
        kept = apply_changes(old, asked, has_snapshot=has_snapshot, time_millis=time_millis)
        seen = store.with_schema(old)
        checked[:] = [(_checked_rows(seen, kept), seen, kept)]

    evolved = store.schemas.evolve(changes, has_snapshot=has_snapshot, time_millis=time_millis, check=check)
    for snapshot_id, seen, kept in checked:
        if seen.snapshots.latest_id() != snapshot_id:
            _warn_of_misfits(seen, kept)
    return evolved


def _checked_rows(store: TableStore, wanted: TableSchema) -> int | None:
    """Refuse what does not fit the newest rows; return the id of the snapshot that they are of."""
    snapshot_id: int | None = None
    for _ in range(_ROUNDS_MAX):
        newest = store.snapshots.latest()
        if newest is None or newest.id == snapshot_id:
            break
        check_values_fit(store, newest, wanted)
        snapshot_id = newest.id
    return snapshot_id


def _warn_of_misfits(store: TableStore, wanted: TableSchema) -> None:
    try:
        _checked_rows(store, wanted)
    except InvalidInputError as error:
        warnings.warn(
            f"{store.name}: a write came in while the schema was changed: {error}; or change the type back",
            LakewrightWarning,
            stacklevel=4,
        )

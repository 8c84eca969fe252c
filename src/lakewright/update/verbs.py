"""The verbs that change rows which are there: a condition in, one snapshot and its counts out.

A verb finds rows in the newest snapshot, decides what becomes of them, has it done in the way that the table allows,
and commits once. If somebody else changed the same rows in the meantime, it begins again from what is there then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakewright.errors import naming
from lakewright.metadata.store import TableStore
from lakewright.read.scan import FileSchemas
from lakewright.read.split import DataSplit
from lakewright.spec.predicate import Predicate
from lakewright.spec.snapshot import Snapshot
from lakewright.update import keyed
from lakewright.update.change import ChangeJob, GroupChange, Positions, no_positions
from lakewright.update.find import Located, condition, groups, locate
from lakewright.update.result import UpdateResult
from lakewright.update.run import Prepared, change, change_groups
from lakewright.update.values import Assignments, Scope, check_assignments
from lakewright.update.ways import Way, way_of


def delete(store: TableStore, where: Predicate | str | None) -> UpdateResult:
    """Delete the rows that fulfil a condition; None means all of them."""
    predicate = condition(store, where)
    if way_of(store) is Way.KEYED:
        keyed.KeyedRules.of(store).check_delete()
        return change(store, lambda base: keyed.prepare_delete(store, base, predicate), operation="DELETE")

    def prepare(base: Snapshot | None) -> Prepared:
        if base is None:
            return Prepared(way=way_of(store))
        schemas = FileSchemas(store)

        def decide(part: DataSplit) -> GroupChange:
            found = [located.positions for located in locate(store, part, (), predicate, schemas=schemas)]
            return GroupChange(part, _joined(found))

        prepared = change_groups(ChangeJob.on(store, base), groups(store, base, predicate), decide)
        return replace(prepared, reads=tuple(predicate.columns()))

    return change(store, prepare, operation="DELETE")


def update(store: TableStore, assignments: Mapping[str, object], where: Predicate | str | None = None) -> UpdateResult:
    """Give columns new values in the rows that fulfil a condition; without one in all rows."""
    predicate = condition(store, where)
    fields = store.schema.fields
    with naming(store.name):
        checked = check_assignments(assignments, Scope(fields), fields, table=store.name)
    if way_of(store) is Way.KEYED:
        keyed.KeyedRules.of(store).check_update(checked.names)
        return change(store, lambda base: keyed.prepare_update(store, base, checked, predicate), operation="UPDATE")

    def prepare(base: Snapshot | None) -> Prepared:
        if base is None:
            return Prepared(way=way_of(store))
        schemas = FileSchemas(store)

        def decide(part: DataSplit) -> GroupChange:
            found = list(locate(store, part, checked.target_columns, predicate, schemas=schemas))
            values = [_values(checked, located) for located in found]
            positions = _joined([located.positions for located in found])
            return GroupChange(part, updated=positions, values=pa.concat_tables(values) if values else None)

        prepared = change_groups(ChangeJob.on(store, base), groups(store, base, predicate), decide)
        return replace(prepared, reads=(*predicate.columns(), *checked.target_columns))

    return change(store, prepare, operation="UPDATE")


def _values(assignments: Assignments, located: Located) -> pa.Table:
    """Return the new values of rows that were found."""
    return assignments.evaluate(len(located.positions), pa.Table.from_batches([located.rows]))


def _joined(positions: list[Positions]) -> Positions:
    return np.concatenate(positions) if positions else no_positions()

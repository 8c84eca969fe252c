"""The verbs that change rows which are there: a condition in, one snapshot and its counts out.

A verb finds rows in the newest snapshot, decides what becomes of them, has it done in the way that the table allows,
and commits once. If somebody else changed the same rows in the meantime, it begins again from what is there then.
"""

from __future__ import annotations

import numpy as np

from lakewright.metadata.store import TableStore
from lakewright.read.scan import FileSchemas
from lakewright.read.split import DataSplit
from lakewright.spec.predicate import Predicate
from lakewright.spec.snapshot import Snapshot
from lakewright.update.change import ChangeJob, GroupChange, Positions
from lakewright.update.find import condition, groups, locate
from lakewright.update.result import UpdateResult
from lakewright.update.run import Prepared, change, change_groups


def delete(store: TableStore, where: Predicate | str | None) -> UpdateResult:
    """Delete the rows that fulfil a condition; None means all of them."""
    predicate = condition(store, where)

    def prepare(base: Snapshot | None) -> Prepared:
        if base is None:
            return Prepared()
        job = ChangeJob.on(store, base)
        schemas = FileSchemas(store)

        def decide(part: DataSplit) -> GroupChange:
            found = [located.positions for located in locate(store, part, (), predicate, schemas=schemas)]
            return GroupChange(part, _joined(found))

        return change_groups(job, groups(store, base, predicate), decide)

    return change(store, prepare, operation="DELETE")


def _joined(positions: list[Positions]) -> Positions:
    return np.concatenate(positions) if positions else np.empty(0, dtype=np.int64)

"""The verbs that change rows which are there: a condition in, one snapshot and its counts out.

A verb finds rows in the newest snapshot, decides what becomes of them, has it done in the way that the table allows,
and commits once. If somebody else changed the same rows in the meantime, it begins again from what is there then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from lakewright.errors import InvalidInputError, naming
from lakewright.metadata.store import TableStore
from lakewright.read.scan import FileSchemas
from lakewright.read.splits.split import DataSplit
from lakewright.spec.predicate.filters import Filter
from lakewright.spec.predicate.predicate import Predicate
from lakewright.spec.snapshot import Snapshot
from lakewright.update import columns
from lakewright.update import primary_key as keyed
from lakewright.update.change import ChangeJob, GroupChange
from lakewright.update.find import Located, condition, groups, hidden_fields, locate
from lakewright.update.merge.match import joined
from lakewright.update.result import UpdateResult
from lakewright.update.run import Prepared, RunGroups, change, change_groups
from lakewright.update.values import Assignments, Scope, check_assignments, refuse_names_as_text
from lakewright.update.ways import Way, way_of
from lakewright.write.job_run import JobRun


def delete(store: TableStore, where: Filter, job_id: str | None = None) -> UpdateResult:
    """Delete the rows that fulfil a condition; with a job id, once."""
    predicate = checked_delete(store, where)
    prepare = partial(prepare_delete, store, predicate)
    return change(store, prepare, operation="DELETE", job=JobRun.of(store, job_id))


def update(
    store: TableStore, assignments: Mapping[str, object], where: Filter | None = None, job_id: str | None = None
) -> UpdateResult:
    """Give columns new values in the rows that fulfil a condition; without one in all rows; with a job id, once."""
    predicate = condition(store, where)
    checked = checked_update(store, assignments)
    prepare = partial(prepare_update, store, checked, predicate)
    return change(store, prepare, operation="UPDATE", job=JobRun.of(store, job_id))


def checked_delete(store: TableStore, where: Filter) -> Predicate:
    """Return the condition of a delete; refuse, before anything is read, a missing one and what the table cannot do."""
    if where is None:  # perhaps a variable that nobody set
        raise InvalidInputError(
            f"{store.name}: a delete needs a condition; to delete all rows write delete('true'), or truncate the table "
            "with new_batch_write_builder().new_commit().truncate_table()",
            table=store.name,
        )
    predicate = condition(store, where)
    if way_of(store) is Way.KEYED:
        keyed.KeyedRules.of(store).check_delete()
    return predicate


def checked_update(
    store: TableStore, assignments: Mapping[str, object], read: Sequence[str] | None = None
) -> Assignments:
    """Check assignments against the table, before anything is read; functions see the columns of `read`, or all."""
    fields = store.schema.fields
    scope = Scope(fields if read is None else (*fields, *hidden_fields(store)))
    with naming(store.name):
        if isinstance(assignments, Mapping):
            refuse_names_as_text(assignments, scope, table=store.name)
        checked = check_assignments(assignments, scope, fields, table=store.name, read=read or ())
    way = way_of(store)
    if way is Way.KEYED:
        keyed.KeyedRules.of(store).check_update(checked.names)
    elif way is Way.COLUMNS:
        columns.check_assignable(store, checked.names)
    return checked


def prepare_delete(
    store: TableStore,
    predicate: Predicate,
    base: Snapshot | None,
    run: RunGroups | None = None,
    run_buckets: keyed.RunBuckets | None = None,
) -> Prepared:
    """Delete the rows of a snapshot that fulfil a predicate; nothing is committed.

    An engine may hand in how to change groups of files, and buckets of a primary-key table, on its workers.
    """
    way = way_of(store)
    if way is Way.KEYED:
        return keyed.prepare_delete(store, base, predicate, run_buckets)
    if base is None:
        return Prepared(way=way)
    schemas = FileSchemas(store)

    def decide(part: DataSplit) -> GroupChange:
        found = [located.positions for located in locate(store, part, (), predicate, schemas=schemas)]
        return GroupChange(part, joined(found))

    prepared = change_groups(ChangeJob.on(store, base), groups(store, base, predicate), decide, run)
    return replace(prepared, reads=tuple(predicate.columns()))


def prepare_update(
    store: TableStore,
    checked: Assignments,
    predicate: Predicate,
    base: Snapshot | None,
    run: RunGroups | None = None,
    run_buckets: keyed.RunBuckets | None = None,
) -> Prepared:
    """Give rows of a snapshot that fulfil a predicate new values; nothing is committed."""
    way = way_of(store)
    if way is Way.KEYED:
        return keyed.prepare_update(store, base, checked, predicate, run_buckets)
    if base is None:
        return Prepared(way=way)
    schemas = FileSchemas(store)

    def decide(part: DataSplit) -> GroupChange:
        found = list(locate(store, part, checked.target_columns, predicate, schemas=schemas))
        values = [_values(checked, located) for located in found]
        positions = joined(located.positions for located in found)
        return GroupChange(part, updated=positions, values=pa.concat_tables(values) if values else None)

    prepared = change_groups(ChangeJob.on(store, base), groups(store, base, predicate), decide, run)
    return replace(prepared, reads=(*predicate.columns(), *checked.target_columns))


def _values(assignments: Assignments, located: Located) -> pa.Table:
    """Return the new values of rows that were found."""
    return assignments.evaluate(len(located.positions), pa.Table.from_batches([located.rows]))

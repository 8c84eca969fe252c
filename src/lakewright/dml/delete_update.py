"""Delete and update by a condition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from lakewright.commit.job_ids import JobRun
from lakewright.commit.table_commit import WriteResult
from lakewright.compact.compaction_job import TaskRunner
from lakewright.compact.distributed_compaction import compaction_runner
from lakewright.dml import file_group_strategy, keyed_rules
from lakewright.dml import keyed_strategy as keyed
from lakewright.dml.assignments import Assignments, ColumnScope, check_assignments, refuse_names_as_text
from lakewright.dml.change_runner import change_groups, run_change
from lakewright.dml.distributed_write import earlier_write_result
from lakewright.dml.matching import concat_positions
from lakewright.dml.row_changes import (
    ChangeJob,
    ChangeMethod,
    GroupChange,
    Prepare,
    PreparedChange,
    UpdateResult,
    change_method,
)
from lakewright.dml.row_location import LocatedRows, bind_condition, locate_rows, select_groups, system_fields
from lakewright.engine.engine import Engine, Work
from lakewright.engine.job_progress import Progress, ProgressCallback
from lakewright.errors import InvalidInputError, UnsupportedError, pluralize, with_table_name
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.read.manifest_scan import FileSchemas
from lakewright.spec.filters import Filter
from lakewright.spec.predicate import Predicate
from lakewright.spec.snapshot import Snapshot

# ---- Delete, update --------------------------------------------------------------------------------------------------
# condition -> groups of files that may hold such rows -> find the rows and change them -> one commit
#
# Each finds rows in the newest snapshot, decides how they change, applies that in the way that the table allows, and
# commits once. If another commit changed the same rows meanwhile, it starts again from the newest snapshot. Threads of
# this process do that, or the tasks of an engine: each has groups of files, or whole buckets of a primary-key table.


def delete(
    store: TableStore, where: Filter, *, job_id: str | None = None, workers: Engine[Work] | None = None
) -> UpdateResult:
    """Delete the rows that fulfil a condition; a job id is committed only once."""
    predicate = checked_delete(store, where)
    prepare = partial(prepare_delete, store, predicate, workers=workers)
    return run_change(store, prepare, operation="DELETE", run=_compaction_on(workers), job=JobRun.of(store, job_id))


def update(
    store: TableStore,
    assignments: Mapping[str, object],
    where: Filter | None = None,
    *,
    job_id: str | None = None,
    workers: Engine[Work] | None = None,
) -> UpdateResult:
    """Set columns of the rows that fulfil a condition, or of all rows; a job id is committed only once."""
    predicate = bind_condition(store, where)
    checked = checked_update(store, assignments)
    prepare = partial(prepare_update, store, checked, predicate, workers=workers)
    return run_change(store, prepare, operation="UPDATE", run=_compaction_on(workers), job=JobRun.of(store, job_id))


def _compaction_on(workers: Engine[Work] | None) -> TaskRunner | None:
    return None if workers is None else compaction_runner(workers)


def checked_delete(store: TableStore, where: Filter) -> Predicate:
    """Return the condition of a delete as a predicate, after checking that the table can delete.

    A missing condition is refused: it may be a variable that was never set.
    """
    if where is None:
        raise InvalidInputError(
            f"{store.name}: a delete needs a condition; to delete all rows write delete('true'), or truncate the table "
            "with new_batch_write_builder().new_commit().truncate_table()",
            table=store.name,
        )
    predicate = bind_condition(store, where)
    if change_method(store) is ChangeMethod.KEYED:
        keyed_rules.KeyedChangeRules.of(store).check_delete()
    return predicate


def checked_update(
    store: TableStore, assignments: Mapping[str, object], read: Sequence[str] | None = None, *, in_order: bool = False
) -> Assignments:
    """Check assignments against the schema, before anything is read; functions see the columns of `read`, or all.

    With `in_order` an Arrow array has one value for each row that is updated, in the order in which they are read.
    """
    fields = store.schema.fields
    scope = ColumnScope(fields if read is None else (*fields, *system_fields(store)))
    with with_table_name(store.name):
        if isinstance(assignments, Mapping):
            refuse_names_as_text(assignments, scope, table=store.name)
        checked = check_assignments(assignments, scope, fields, table=store.name, read=read or (), in_order=in_order)
    way = change_method(store)
    if way is ChangeMethod.KEYED and checked.row_values:
        raise UnsupportedError(
            f"table {store.name}: rows of a primary-key table have no order that an array of values could follow; "
            "assign a function of the rows, or upsert them",
            table=store.name,
        )
    if way is ChangeMethod.KEYED:
        keyed_rules.KeyedChangeRules.of(store).check_update(checked.names)
    elif way is ChangeMethod.COLUMNS:
        file_group_strategy.check_assignable(store, checked.names)
    return checked


def prepare_delete(
    store: TableStore,
    predicate: Predicate,
    base: Snapshot | None,
    workers: Engine[Work] | None = None,
) -> PreparedChange:
    """Delete the rows of a snapshot that fulfil a predicate, without committing it."""
    way = change_method(store)
    if way is ChangeMethod.KEYED:
        return keyed.prepare_delete(store, base, predicate, workers)
    if base is None:
        return PreparedChange(method=way)
    schemas = FileSchemas(store)

    def decide(part: DataSplit) -> GroupChange:
        positions = [located.positions for located in locate_rows(store, part, (), predicate, schemas=schemas)]
        return GroupChange(part, concat_positions(positions))

    prepared = change_groups(ChangeJob.on(store, base), select_groups(store, base, predicate), decide, workers)
    return replace(prepared, reads=tuple(predicate.columns()))


def prepare_update(
    store: TableStore,
    checked: Assignments,
    predicate: Predicate,
    base: Snapshot | None,
    workers: Engine[Work] | None = None,
) -> PreparedChange:
    """Set columns of the rows of a snapshot that fulfil a predicate, without committing it."""
    way = change_method(store)
    if way is ChangeMethod.KEYED:
        return keyed.prepare_update(store, base, checked, predicate, workers)
    if base is None:
        return PreparedChange(method=way)
    schemas = FileSchemas(store)

    def find(part: DataSplit) -> list[LocatedRows]:
        return list(locate_rows(store, part, checked.target_columns, predicate, schemas=schemas))

    def decide(part: DataSplit) -> GroupChange:
        return _assign_values(part, find(part), checked)

    parts = select_groups(store, base, predicate)
    in_order = _in_order(parts, find, checked) if checked.row_values else None
    prepared = change_groups(ChangeJob.on(store, base), parts, in_order or decide, workers)
    return replace(prepared, reads=(*predicate.columns(), *checked.target_columns))


def _assign_values(part: DataSplit, matches: Sequence[LocatedRows], checked: Assignments) -> GroupChange:
    """Return the new values of rows of a group."""
    values, first = [], 0
    for located in matches:
        rows = len(located.positions)
        values.append(checked.at(first, rows).evaluate(rows, pa.Table.from_batches([located.rows])))
        first += rows
    positions = concat_positions(located.positions for located in matches)
    return GroupChange(part, updated=positions, values=pa.concat_tables(values) if values else None)


def _in_order(
    parts: Sequence[DataSplit], find: Callable[[DataSplit], list[LocatedRows]], checked: Assignments
) -> Callable[[DataSplit], GroupChange]:
    """Find the rows of all groups, so that each gets its share of the given values, and check how many there are."""
    found: dict[str, tuple[int, list[LocatedRows]]] = {}  # by the first file of the group
    rows = 0
    for part in parts:
        matches = find(part)
        found[part.files[0].file_name] = rows, matches
        rows += sum(len(located.positions) for located in matches)
    for name, column in checked.row_values.items():
        if rows and len(column) != rows:
            raise InvalidInputError(
                f"the array for the column {name!r} has the length {len(column)}, "
                f"and {pluralize(rows, 'row')} matched; "
                "give one value for each, in the order in which a read returns the rows",
                column=name,
            )

    def decide(part: DataSplit) -> GroupChange:
        first, matches = found[part.files[0].file_name]
        return _assign_values(part, matches, checked.at(first, sum(len(located.positions) for located in matches)))

    return decide


# ---- Upserts that look rows up ---------------------------------------------------------------------------------------


def upsert_by_lookup(
    workers: Engine[Work],
    store: TableStore,
    prepare: Prepare,
    run: JobRun | None,
    progress: bool | ProgressCallback | None,  # noqa: FBT001 - a callback, or a flag
) -> WriteResult:
    """Write rows that lack columns, which stay as they are in the rows that are there."""
    compact = compaction_runner(workers)
    done = run_change(store, prepare, operation="WRITE", run=compact, job=run)
    if done.replayed and done.snapshot_id is not None:
        return earlier_write_result(store, store.snapshots.get(done.snapshot_id), run=compact)
    if callable(progress):
        progress(Progress(done.written, done.bytes, done.seconds))
    way = "rows that are there were looked up, and written with the columns that the data lacks"
    made = WriteResult(
        done.snapshot_id, done.written, done.files, done.bytes, done.seconds, done.partitions, method=way
    )
    return replace(made, attempts=done.attempts, stages_ms=done.stages_ms)

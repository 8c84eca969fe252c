"""`MergeBuilder`: a merge with its clauses.

The target is read group by group, with only the columns that conditions and assignments need; a group is matched,
decided and changed before the next one is read, in as many threads as the table writes with. Rows of the source without
a match are inserted last. Invariant: rows that are inserted because they were absent are committed only if
no other commit wrote to their partition since the snapshot that was read, or to the table if the keys do not name the
partition.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NoReturn, Self

import numpy as np
import pyarrow as pa

from lakewright.commit.commit_changes import delete_files_of, files_of_messages
from lakewright.commit.job_ids import JobRun
from lakewright.dml.assignments import ColumnScope
from lakewright.dml.change_plan import ChangePlan, Decision
from lakewright.dml.change_runner import change_groups, run_change
from lakewright.dml.change_tasks import (
    chunked_rows,
    group_change,
    guarded_merge,
    keyed_columns,
    pruning,
    scope_of_absence,
    write_merge,
    write_rows,
)
from lakewright.dml.keyed_rules import KeyedChangeRules
from lakewright.dml.keyed_strategy import KeyedWriter, distribute_postponed, merged_rows
from lakewright.dml.matching import Matcher
from lakewright.dml.merge_clauses import ClauseKind, ConditionText, MergeClause, On, plan_merge, read_source
from lakewright.dml.row_changes import ChangeJob, GroupChange, Prepare, PreparedChange, UpdateResult, change_method
from lakewright.dml.row_location import locate_rows, select_groups, system_fields
from lakewright.errors import InvalidInputError
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.read.manifest_scan import FileSchemas
from lakewright.spec.argument_checks import Properties
from lakewright.spec.snapshot import Snapshot
from lakewright.write.input_data import ArrowData

_NAMES_IN_DELTA = {
    "when_matched_update_all": "when_matched_update",
    "whenMatchedUpdateAll": "when_matched_update",
    "when_not_matched_insert_all": "when_not_matched_insert",
    "whenNotMatchedInsertAll": "when_not_matched_insert",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeBuilder(ABC):
    """A merge with the clauses so far: every clause returns a new builder, and each call of `execute` runs the merge.

    `on` names columns that both sides have, or is a condition over `t.` and `s.` with at least one equality. A subclass
    adds the source and prepares the merge.
    """

    store: TableStore
    on: On
    clauses: tuple[MergeClause, ...] = ()

    def __getattr__(self, name: str) -> NoReturn:
        """Point from the names that Delta Lake has to those of this class."""
        ours = _NAMES_IN_DELTA.get(name)
        hint = f"; without assignments, {ours}() sets all columns" if ours else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=self)

    def when_matched_update(
        self, assignments: Mapping[str, object] | None = None, condition: ConditionText = None
    ) -> Self:
        """Set columns of rows that a source row matches; without assignments all columns, from the source by name."""
        return self._with(MergeClause(ClauseKind.MATCHED, "update", assignments, condition))

    def when_matched_delete(self, condition: ConditionText = None) -> Self:
        """Delete rows that a source row matches."""
        return self._with(MergeClause(ClauseKind.MATCHED, "delete", None, condition))

    def when_not_matched_insert(
        self, assignments: Mapping[str, object] | None = None, condition: ConditionText = None
    ) -> Self:
        """Insert source rows that match no row; without assignments all columns that the source has, by name."""
        return self._with(MergeClause(ClauseKind.NOT_MATCHED, "insert", assignments, condition))

    def when_not_matched_by_source_update(
        self, assignments: Mapping[str, object], condition: ConditionText = None
    ) -> Self:
        """Set columns of rows that no source row matches."""
        if assignments is None:
            raise InvalidInputError(
                f"{self.store.name}: rows that no source row matches have nothing to take values from; give assignments"
            )
        return self._with(MergeClause(ClauseKind.NOT_MATCHED_BY_SOURCE, "update", assignments, condition))

    def when_not_matched_by_source_delete(self, condition: ConditionText = None) -> Self:
        """Delete rows that no source row matches."""
        return self._with(MergeClause(ClauseKind.NOT_MATCHED_BY_SOURCE, "delete", None, condition))

    def execute(self, *, job_id: str | None = None, snapshot_properties: Properties | None = None) -> UpdateResult:
        """Run the merge: one snapshot in which the clauses hold for every row, and the counts of changed rows.

        A job id is committed only once: a second run finds the snapshot of the first, and returns its result.
        """
        store = self.store.with_snapshot_properties(snapshot_properties)
        prepare = replace(self, store=store).prepare()
        return run_change(store, prepare, operation="MERGE", job=JobRun.of(store, job_id))

    @abstractmethod
    def prepare(self) -> Prepare:
        """Check the merge, and return a function that prepares it on a snapshot without committing it."""

    def plan(self, source: pa.Schema) -> ChangePlan:
        """Check the merge against the columns of the source."""
        store = self.store
        fields = store.schema.fields
        both = ColumnScope((*fields, *system_fields(store)), source, store.options.lakewright_time_zone)
        return plan_merge(store.name, fields, both, self.on, self.clauses)

    def _with(self, clause: MergeClause) -> Self:
        given = clause.assignments
        if given is not None and not isinstance(given, Mapping):
            raise InvalidInputError(
                f"{self.store.name}: {clause.name} takes a mapping from columns to values, not {given!r}",
                table=self.store.name,
            )
        return replace(self, clauses=(*self.clauses, clause))


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowMerge(MergeBuilder):
    """A merge of a source in memory."""

    source: pa.Table

    def prepare(self) -> Prepare:
        """Check the merge, and return a function that prepares it on a snapshot without committing it."""
        return prepare_merge(self.store, self.plan(self.source.schema), self.source)


def merge(store: TableStore, source: ArrowData, on: On) -> MergeBuilder:
    """Start a merge of a source into the table."""
    return ArrowMerge(store=store, source=read_source(source, store.name), on=on)


def prepare_merge(store: TableStore, plan: ChangePlan, source: pa.Table) -> Prepare:
    """Return a function that prepares a checked merge on a snapshot without committing it."""
    matcher = plan.matcher(source)
    if not store.schema.primary_keys:
        return lambda base: _prepare(store, base, plan, matcher)
    check_keyed_merge(store, plan)
    return lambda base: _prepare_keyed(store, base, plan, matcher)


def _prepare(store: TableStore, base: Snapshot | None, plan: ChangePlan, matcher: Matcher) -> PreparedChange:
    """Merge into a snapshot of an append table."""
    matched = np.zeros(matcher.source.num_rows, np.bool_)
    prepared = PreparedChange(method=change_method(store))
    if base is not None:
        work = _GroupMerge(store, plan, matcher, matched, FileSchemas(store))
        parts = select_groups(store, base, pruning(plan, matcher))
        prepared = change_groups(ChangeJob.on(store, base), parts, work.decide)
    try:
        rows = plan.inserts(matcher.source, np.flatnonzero(~matched))
        messages = [] if rows is None else write_rows(store, rows)
    except BaseException:
        delete_files_of(store, files_of_messages(store, prepared.messages))
        raise
    inserted = 0 if rows is None else rows.num_rows
    return guarded_merge(store, plan, replace(prepared, messages=(*prepared.messages, *messages), inserted=inserted))


@dataclass(frozen=True, slots=True)
class _GroupMerge:
    """Matches and decides the rows of groups, in any thread."""

    store: TableStore
    plan: ChangePlan
    matcher: Matcher
    matched: np.ndarray  # for each source row whether a row of the target matches it; threads only ever set True
    schemas: FileSchemas

    def decide(self, part: DataSplit) -> GroupChange:
        """Match the rows of a group and return how they change."""
        located = locate_rows(self.store, part, self.plan.target_columns, schemas=self.schemas)
        return group_change(part, [(positions, self._decide(rows)) for positions, rows in chunked_rows(located)])

    def _decide(self, rows: pa.Table) -> Decision:
        pairs = self.matcher.match(rows)
        self.matched[pairs.source] = True
        return self.plan.decide(rows, self.matcher.source, pairs)


def _prepare_keyed(store: TableStore, base: Snapshot | None, plan: ChangePlan, matcher: Matcher) -> PreparedChange:
    """Merge into a snapshot of a primary-key table."""
    base = distribute_postponed(store, base)
    with KeyedWriter(store, upserts=plan.upserts) as writer:
        columns = keyed_columns(plan, writer.rules)
        target = () if base is None else merged_rows(store, base, columns, pruning(plan, matcher))
        inserted = write_merge(writer, plan, matcher, target)
        prepared = writer.finish(unchanged=scope_of_absence(store, plan) if inserted else "bucket")
        return replace(prepared, counted=not plan.folds)


def check_keyed_merge(store: TableStore, plan: ChangePlan) -> None:
    """Raise an error if the merge engine of a primary-key table does not allow the changes of a merge."""
    rules = KeyedChangeRules.of(store, upserts=plan.upserts)
    if plan.deletes:
        rules.check_delete()
    if plan.assigned:
        rules.check_update(plan.assigned)

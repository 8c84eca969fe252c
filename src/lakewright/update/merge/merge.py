"""Merge: a source in memory and clauses in, one snapshot and its counts out.

The target is read group by group, with only the columns that conditions and assignments need; a group is matched,
decided and changed before the next one is read, in as many threads as the table writes with. Rows of the source without
a match are inserted last. What always holds: rows that are inserted because they were absent are committed only if
nobody wrote to their partition since the snapshot that was read, or to the table if the keys do not name the partition.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn, Self, TypeVar

import numpy as np
import pyarrow as pa

from lakewright.commit.files import delete_written, files_of
from lakewright.commit.message.message import CommitMessage
from lakewright.errors import InvalidInputError
from lakewright.metadata.store import TableStore
from lakewright.read.scan import FileSchemas
from lakewright.read.splits.split import DataSplit
from lakewright.spec.arguments import Properties
from lakewright.spec.options import CoreOptions
from lakewright.spec.predicate.predicate import TRUE, Predicate, and_predicates
from lakewright.spec.schema.table_schema import BucketMode
from lakewright.spec.snapshot import Snapshot
from lakewright.update.change import ChangeJob, GroupChange, Positions
from lakewright.update.find import LocatedRows, groups, hidden_fields, locate
from lakewright.update.merge.clauses import (
    Clause,
    ConditionText,
    DecidesRows,
    Decision,
    MergePlan,
    On,
    When,
    plan_merge,
    read_source,
)
from lakewright.update.merge.match import Matcher, joined
from lakewright.update.methods import change_method
from lakewright.update.primary_key import KeyedRules, KeyedWriter, RowKindWriter, distribute_postponed, merged_rows
from lakewright.update.result import UpdateResult
from lakewright.update.run import Prepare, Prepared, change, change_groups
from lakewright.update.values import Scope
from lakewright.write.input.frames import ArrowData
from lakewright.write.job_run import JobRun
from lakewright.write.writer import WriteJob

T = TypeVar("T")
_CHUNK_ROWS = 1 << 20  # rows of the target that are matched at once


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
    clauses: tuple[Clause, ...] = ()

    def __getattr__(self, name: str) -> NoReturn:
        """Point from the names that Delta Lake has to those of this class."""
        ours = _NAMES_IN_DELTA.get(name)
        hint = f"; without assignments, {ours}() sets all columns" if ours else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=self)

    def when_matched_update(
        self, assignments: Mapping[str, object] | None = None, condition: ConditionText = None
    ) -> Self:
        """Set columns of rows that a source row matches; without assignments all columns, from the source by name."""
        return self._with(Clause(When.MATCHED, "update", assignments, condition))

    def when_matched_delete(self, condition: ConditionText = None) -> Self:
        """Delete rows that a source row matches."""
        return self._with(Clause(When.MATCHED, "delete", None, condition))

    def when_not_matched_insert(
        self, assignments: Mapping[str, object] | None = None, condition: ConditionText = None
    ) -> Self:
        """Insert source rows that match no row; without assignments all columns that the source has, by name."""
        return self._with(Clause(When.NOT_MATCHED, "insert", assignments, condition))

    def when_not_matched_by_source_update(
        self, assignments: Mapping[str, object], condition: ConditionText = None
    ) -> Self:
        """Set columns of rows that no source row matches."""
        if assignments is None:
            raise InvalidInputError(
                f"{self.store.name}: rows that no source row matches have nothing to take values from; give assignments"
            )
        return self._with(Clause(When.NOT_MATCHED_BY_SOURCE, "update", assignments, condition))

    def when_not_matched_by_source_delete(self, condition: ConditionText = None) -> Self:
        """Delete rows that no source row matches."""
        return self._with(Clause(When.NOT_MATCHED_BY_SOURCE, "delete", None, condition))

    def execute(self, *, job_id: str | None = None, snapshot_properties: Properties | None = None) -> UpdateResult:
        """Run the merge: one snapshot in which the clauses hold for every row, and the counts of changed rows.

        A job id is committed only once: a second run finds the snapshot of the first, and returns its result.
        """
        store = self.store.with_snapshot_properties(snapshot_properties)
        prepare = replace(self, store=store).prepare()
        return change(store, prepare, operation="MERGE", job=JobRun.of(store, job_id))

    @abstractmethod
    def prepare(self) -> Prepare:
        """Check the merge, and return a function that prepares it on a snapshot without committing it."""

    def plan(self, source: pa.Schema) -> MergePlan:
        """Check the merge against the columns of the source."""
        store = self.store
        fields = store.schema.fields
        both = Scope((*fields, *hidden_fields(store)), source, store.options.get(CoreOptions.LAKEWRIGHT_TIME_ZONE))
        return plan_merge(store.name, fields, both, self.on, self.clauses)

    def _with(self, clause: Clause) -> Self:
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


def prepare_merge(store: TableStore, plan: MergePlan, source: pa.Table) -> Prepare:
    """Return a function that prepares a checked merge on a snapshot without committing it."""
    matcher = plan.matcher(source)
    if not store.schema.primary_keys:
        return lambda base: _prepare(store, base, plan, matcher)
    check_keyed_merge(store, plan)
    return lambda base: _prepare_keyed(store, base, plan, matcher)


def _prepare(store: TableStore, base: Snapshot | None, plan: MergePlan, matcher: Matcher) -> Prepared:
    """Merge into a snapshot of an append table."""
    matched = np.zeros(matcher.source.num_rows, np.bool_)
    prepared = Prepared(way=change_method(store))
    if base is not None:
        work = _GroupMerge(store, plan, matcher, matched, FileSchemas(store))
        parts = groups(store, base, pruning(plan, matcher))
        prepared = change_groups(ChangeJob.on(store, base), parts, work.decide)
    try:
        rows = plan.inserts(matcher.source, np.flatnonzero(~matched))
        messages = [] if rows is None else write_rows(store, rows)
    except BaseException:
        delete_written(store, files_of(store, prepared.messages))
        raise
    return replace(
        prepared,
        messages=(*prepared.messages, *messages),
        inserted=0 if rows is None else rows.num_rows,
        unchanged=None if rows is None else scope_of_absence(store, plan),
        reads=tuple(name for name in plan.target_columns if name in store.schema.field_names),
    )


def _prepare_keyed(store: TableStore, base: Snapshot | None, plan: MergePlan, matcher: Matcher) -> Prepared:
    """Merge into a snapshot of a primary-key table."""
    base = distribute_postponed(store, base)
    with KeyedWriter(store, upserts=plan.upserts) as writer:
        columns = keyed_columns(plan, writer.rules)
        target = () if base is None else merged_rows(store, base, columns, pruning(plan, matcher))
        inserted = write_merge(writer, plan, matcher, target)
        prepared = writer.finish(unchanged=scope_of_absence(store, plan) if inserted else "bucket")
        return replace(prepared, counted=not plan.folds)


def write_merge(writer: RowKindWriter, plan: MergePlan, matcher: Matcher, target: Iterable[pa.Table]) -> bool:
    """Write the changes of rows of a primary-key table, then the new rows, and return whether there were new ones.

    `target` has the columns that `keyed_columns` names of every row that a source row may match.
    """
    matched = np.zeros(matcher.source.num_rows, np.bool_)
    for rows in map(pa.concat_tables, gathered(target, lambda part: part.num_rows, _CHUNK_ROWS)):
        pairs = matcher.match(rows)
        matched[pairs.source] = True
        write_decision(writer, rows, plan.decide(rows, matcher.source, pairs))
    new = plan.inserts(matcher.source, np.flatnonzero(~matched))
    if new is not None:
        writer.rules.check_inserted(new)
        writer.insert(new)
    return new is not None


def check_keyed_merge(store: TableStore, plan: MergePlan) -> None:
    """Raise an error if the merge engine of a primary-key table does not allow the changes of a merge."""
    rules = KeyedRules.of(store, upserts=plan.upserts)
    if plan.deletes:
        rules.check_delete()
    if plan.assigned:
        rules.check_update(plan.assigned)


def keyed_columns(plan: DecidesRows, rules: KeyedRules) -> list[str]:
    """Return the columns of a primary-key table that a merge reads: those it decides by, and those it writes again."""
    needed = {*plan.target_columns}
    needed |= {*rules.columns_to_delete()} if plan.deletes else set()
    needed |= {*rules.columns_to_read(plan.assigned)} if plan.assigned else set()
    return [name for name in rules.store.schema.field_names if name in needed]


def write_decision(writer: RowKindWriter, rows: pa.Table, decision: Decision) -> None:
    """Write the deletes and updates that were decided for some rows of a primary-key table."""
    if len(decision.deleted):
        writer.delete(rows.take(pa.array(decision.deleted)))
    if decision.values is not None:
        writer.update(rows.take(pa.array(decision.updated)), decision.values)


@dataclass(frozen=True, slots=True)
class _GroupMerge:
    """Matches and decides the rows of groups, in any thread."""

    store: TableStore
    plan: MergePlan
    matcher: Matcher
    matched: np.ndarray  # for each source row whether a row of the target matches it; threads only ever set True
    schemas: FileSchemas

    def decide(self, part: DataSplit) -> GroupChange:
        """Match the rows of a group and return how they change."""
        located = locate(self.store, part, self.plan.target_columns, schemas=self.schemas)
        return group_change(part, [(positions, self._decide(rows)) for positions, rows in chunked_rows(located)])

    def _decide(self, rows: pa.Table) -> Decision:
        pairs = self.matcher.match(rows)
        self.matched[pairs.source] = True
        return self.plan.decide(rows, self.matcher.source, pairs)


def group_change(part: DataSplit, decisions: Sequence[tuple[Positions, Decision]]) -> GroupChange:
    """Return the change of a group from the decisions about chunks of its rows, each with the rows' positions."""
    values = [decision.values for _, decision in decisions if decision.values is not None]
    return GroupChange(
        part,
        joined(positions[decision.deleted] for positions, decision in decisions),
        joined(positions[decision.updated] for positions, decision in decisions),
        pa.concat_tables(values) if values else None,
    )


def chunked_rows(located: Iterable[LocatedRows]) -> Iterator[tuple[Positions, pa.Table]]:
    """Yield located rows in chunks that are large enough to be matched at once."""
    for some in gathered(located, lambda one: len(one.positions), _CHUNK_ROWS):
        yield joined(one.positions for one in some), pa.Table.from_batches([one.rows for one in some])


def gathered(parts: Iterable[T], row_count: Callable[[T], int], rows_min: int) -> Iterator[list[T]]:
    """Yield lists of parts that have at least `rows_min` rows together; the last list may have fewer."""
    some: list[T] = []
    rows = 0
    for part in parts:
        some.append(part)
        rows += row_count(part)
        if rows >= rows_min:
            yield some
            some, rows = [], 0
    if some:
        yield some


def pruning(plan: MergePlan, matcher: Matcher) -> Predicate:
    """Return a predicate that every row of the target fulfils which the merge may change."""
    return TRUE if plan.by_source else and_predicates((matcher.pruning_predicate(), plan.prunes))


def scope_of_absence(store: TableStore, plan: MergePlan) -> str:
    """Return the scope in which a row that was absent may have been written since: bucket, partition or table."""
    return scope_without(store, {field.name for field, _ in plan.on})


def scope_without(store: TableStore, columns: Iterable[str]) -> str:
    """Return the scope in which a row may have been written that equals a new row in these columns."""
    keys, schema = set(columns), store.schema
    if schema.bucket_mode is BucketMode.HASH_FIXED and schema.primary_keys and keys >= set(schema.primary_keys):
        return "bucket"
    return "partition" if schema.partition_keys and keys >= set(schema.partition_keys) else "table"


def write_rows(store: TableStore, rows: ArrowData) -> list[CommitMessage]:
    """Write new rows."""
    with WriteJob.new(store).open_writer() as writer:
        writer.write(rows)
        return writer.prepare()

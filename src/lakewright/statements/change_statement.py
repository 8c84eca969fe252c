"""UPDATE, DELETE and MERGE on any engine.

rows of the table with their places, the source --change query of the engine--> rows that change, with their new values
           --> applied group by group with the core's own code --> one commit

Simple statements that the verbs of the library do exactly alike (`change_pushdown`) need no query. Any other statement
is prepared anew for each attempt at the commit, and reads the table at the snapshot of the attempt, also in subqueries.
Invariant: a statement that fails leaves no file behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from lakewright.compact.distributed_compaction import compaction_runner
from lakewright.dml import delete_update
from lakewright.dml.change_runner import run_change
from lakewright.dml.keyed_strategy import distribute_postponed, plan_merged_splits
from lakewright.dml.row_changes import PreparedChange, UpdateResult
from lakewright.dml.row_location import select_groups
from lakewright.engine.engine import Engine
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.read.split_sharing import cut_split
from lakewright.spec.predicate import Predicate
from lakewright.spec.snapshot import Snapshot
from lakewright.statements.bind_tables import BoundStatement, BoundTable, Evaluation, TableState
from lakewright.statements.change_pushdown import Verb, guard, pruning, verb_of
from lakewright.statements.change_query import ChangeQuery, plan_delete, plan_merge, plan_update
from lakewright.statements.insert_plan import SchemaMerge
from lakewright.statements.spark_grammar import FragmentKind
from lakewright.statements.sql_text import Args
from lakewright.statements.statements import Delete, MergeInto, Update
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.verbs import add_missing_columns

RowStatement: TypeAlias = Update | Delete | MergeInto


class MergeSource(Protocol):
    """The source of a MERGE at one state."""

    @property
    def columns(self) -> Sequence[str]:
        """The names of its columns."""

    @property
    def relations(self) -> Sequence[BoundTable]:
        """The tables that it reads."""

    def arrow_schema(self) -> pa.Schema:
        """Return its columns with their types."""


Source = TypeVar("Source", bound=MergeSource)


@dataclass(frozen=True, slots=True)
class ChangeAttempt:
    """One attempt at a statement, on one snapshot of its table."""

    table: FileStoreTable
    statement: RowStatement
    plan: ChangeQuery
    bound: BoundStatement
    base: Snapshot | None
    predicate: Predicate  # every row of the target that may change fulfils it

    @property
    def store(self) -> TableStore:
        """The table."""
        return self.table.store

    def parts(self, predicate: Predicate) -> list[DataSplit]:
        """Return the groups of files that may hold rows which fulfil a predicate."""
        if self.base is None:
            return []
        if not self.store.schema.primary_keys:
            return select_groups(self.store, self.base, predicate)
        splits = plan_merged_splits(self.store, self.base, predicate)
        return [part for split in splits for part in cut_split(self.store, split)]


class ChangeEngine(Protocol[Source]):
    """What an engine does of a statement that changes rows."""

    @property
    def evaluation(self) -> Evaluation:
        """What evaluates the expressions of the statement."""

    @property
    def inlines_source(self) -> bool:
        """Whether the source of a MERGE is written into the change query, and not a frame of its own."""

    @property
    def workers(self) -> Engine[Any] | None:
        """What runs deletes, updates and compactions; None: this process."""

    def in_zone(self, table: FileStoreTable) -> FileStoreTable:
        """Return a table whose conditions take a time without a zone as a time in the zone of the session."""

    def read_source(self, merge: MergeInto, at: TableState) -> Source:
        """Return the source of a merge."""

    def check(self, attempt: ChangeAttempt) -> None:
        """Raise an error if the change query cannot run; an engine may leave that to the run."""

    def apply(self, attempt: ChangeAttempt, source: Source | None) -> PreparedChange:
        """Find the rows that change and apply what happens to them."""


def change_rows(engine: ChangeEngine[Source], statement: RowStatement) -> UpdateResult:
    """Change the rows of a table as a statement says, in one snapshot."""
    table = engine.in_zone(engine.evaluation.session.changeable(statement.table))
    if isinstance(statement, MergeInto):
        table = _add_source_columns(engine, table, statement)
    change = ChangeStatement(engine, table, statement)
    verb, workers = change.verb(), engine.workers
    if verb is not None and verb.values is None:
        return delete_update.delete(table.store, verb.where, workers=workers)
    if verb is not None and verb.values is not None:
        return delete_update.update(table.store, verb.values, verb.where, workers=workers)
    run = None if workers is None else compaction_runner(workers)
    return run_change(table.store, change.prepare, operation=type(statement).__name__.upper(), run=run)


def _add_source_columns(engine: ChangeEngine[Source], table: FileStoreTable, merge: MergeInto) -> FileStoreTable:
    """Add the columns of the source that the table lacks, for clauses that take all columns."""
    evaluation = engine.evaluation
    schema_merge = SchemaMerge.of(evaluation.session, evaluation.lookup, merge.table, always=merge.evolve)
    if not schema_merge.adds or all(clause.assignments is not None for clause in merge.clauses):
        return table
    added = schema_merge.columns(table, engine.read_source(merge, (table, None)).arrow_schema())
    if added:
        # A statement that cannot run on the new columns must not add them.
        engine.check(ChangeStatement(engine, add_missing_columns(table, added, stored=False), merge).attempt(None)[0])
    return add_missing_columns(table, added)


@dataclass(frozen=True, slots=True)
class ChangeStatement(Generic[Source]):
    """A statement that changes rows, prepared for the snapshot of each attempt."""

    engine: ChangeEngine[Source]
    table: FileStoreTable
    statement: RowStatement

    def prepare(self, base: Snapshot | None) -> PreparedChange:
        """Change rows of a snapshot."""
        store = self.table.store
        base = distribute_postponed(store, base) if store.schema.primary_keys else base
        attempt, source = self.attempt(base)
        prepared, plan = self.engine.apply(attempt, source), attempt.plan
        relations = (*(() if source is None else source.relations), *attempt.bound.relations)
        return replace(
            prepared,
            unchanged=guard(self.table, plan, relations, inserted=bool(prepared.inserted)),
            reads=tuple(name for name in plan.reads if name in store.schema.field_names),
        )

    def verb(self) -> Verb | None:
        """Return the verb of the library that does the same without a query, if there is one."""
        if isinstance(self.statement, MergeInto):
            return None
        attempt, _ = self.attempt(None)
        return verb_of(attempt.plan, attempt.bound, *self._given)

    def attempt(self, base: Snapshot | None) -> tuple[ChangeAttempt, Source | None]:
        """Plan the statement on a snapshot, and return the source of a merge with it."""
        at = self.table, None if base is None else base.id
        merge = self.statement if isinstance(self.statement, MergeInto) else None
        source = None if merge is None else self.engine.read_source(merge, at)
        plan = self._plan(source)
        fragments = [(fragment, FragmentKind.EXPRESSION) for fragment in plan.fragments]
        if merge is not None and self.engine.inlines_source:
            fragments.insert(0, (merge.source, FragmentKind.RELATION))
        bound = self.engine.evaluation.bind(fragments, at)
        predicate = pruning(plan, bound, *self._given)
        return ChangeAttempt(self.table, self.statement, plan, bound, base, predicate), source

    @property
    def _given(self) -> tuple[Args, str]:
        return self.engine.evaluation.args, self.engine.evaluation.lookup.zone

    def _plan(self, source: Source | None) -> ChangeQuery:
        match self.statement:
            case Update():
                return plan_update(self.table.store, self.statement)
            case Delete():
                return plan_delete(self.table.store, self.statement)
            case MergeInto():
                return plan_merge(self.table.store, self.statement, () if source is None else source.columns)

"""UPDATE, DELETE and MERGE in one process.

rows of the table with their places, the source --change query on DuckDB, ordered by group and position--> rows that
           change, with their new values --> applied group by group with the core's own code --> one commit

Simple statements that the verbs of the library do exactly alike (`statements.change_pushdown`) need no query. Any other
statement is prepared anew for each attempt at the commit, and reads the table at the snapshot of the attempt, also
in subqueries. Invariant: memory is bounded by what DuckDB may use and by the changes of one group of files; a
statement that fails leaves no file behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from operator import itemgetter

import numpy as np
import pyarrow as pa

from lakewright.dml import delete_update
from lakewright.dml.change_runner import (
    GROUP,
    POSITION,
    MatchedRows,
    apply_changes,
    change_task,
    fold_applied,
    insert_rows,
    inserting_rows,
    run_change,
    with_all_columns,
)
from lakewright.dml.change_tasks import MergeTask, chunks, inserted_rows, keyed_columns, source_name, write_decision
from lakewright.dml.keyed_strategy import KeyedWriter, distribute_postponed, locate_merged, plan_merged_splits
from lakewright.dml.matching import Pairs
from lakewright.dml.row_changes import ChangeJob, PreparedChange, UpdateResult, change_method
from lakewright.dml.row_location import LocatedRows, locate_rows, select_groups, system_fields
from lakewright.engine.engine import Job, ShareTask, TaskId
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.read.manifest_scan import FileSchemas
from lakewright.read.split_sharing import cut_split
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.predicate import Predicate
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.table_options import TableOptions
from lakewright.statements import change_query as planned
from lakewright.statements.bind_tables import BoundStatement
from lakewright.statements.change_pushdown import Verb, guard, pruning, verb_of
from lakewright.statements.change_query import ChangeQuery, RowSource, Text
from lakewright.statements.embedded.duckdb_query import ArrowRows, DuckDBEvaluation, PreparedQuery, Written
from lakewright.statements.insert_plan import SchemaMerge
from lakewright.statements.spark_grammar import FragmentKind
from lakewright.statements.statements import Delete, MergeInto, Update
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.verbs import add_missing_columns
from lakewright.write.table_writer import WriteJob

_TARGET = "_lw_target"  # how the text of a change query names the rows of the table
_PLACES = (pa.field(planned.GROUP, pa.int32()), pa.field(planned.POSITION, pa.int64()))
_ONLY = TaskId(0, 0)


def in_zone(evaluation: DuckDBEvaluation, table: FileStoreTable) -> FileStoreTable:
    """Return a table whose conditions take a time without a zone as a time in the zone of the session."""
    return table.copy({TableOptions.lakewright_time_zone.key(): evaluation.lookup.zone})


def change_rows(evaluation: DuckDBEvaluation, statement: Update | Delete | MergeInto) -> UpdateResult:
    """Change the rows of a table as a statement says, in one snapshot."""
    table = in_zone(evaluation, evaluation.session.changeable(statement.table))
    if isinstance(statement, MergeInto):
        table = _evolve_target(evaluation, table, statement)
    work = _Change(evaluation, table, statement)
    verb = None if isinstance(statement, MergeInto) else work.verb()
    if verb is not None and verb.values is None:
        return delete_update.delete(table.store, verb.where)
    if verb is not None and verb.values is not None:
        return delete_update.update(table.store, verb.values, verb.where)
    return run_change(table.store, work.prepare, operation=type(statement).__name__.upper())


def _evolve_target(evaluation: DuckDBEvaluation, table: FileStoreTable, merge: MergeInto) -> FileStoreTable:
    """Add the columns of the source that the table lacks, for clauses that take all columns."""
    how = SchemaMerge.of(evaluation.session, evaluation.lookup, merge.table, always=merge.evolve)
    if not how.adds or all(clause.assignments is not None for clause in merge.clauses):
        return table
    source = _source(evaluation, evaluation.bind([(merge.source, FragmentKind.RELATION)]), merge)
    given = pa.schema([(one.name, one.type) for one in source.columns])
    added = how.columns(table, given)
    if added:
        _Change(evaluation, add_missing_columns(table, added, stored=False), merge).check()
    return add_missing_columns(table, added)


def _source(evaluation: DuckDBEvaluation, bound: BoundStatement, merge: MergeInto) -> PreparedQuery:
    return evaluation.ready(bound, lambda written: _source_text(merge, written))


def _source_text(merge: MergeInto, written: Written) -> str:
    return "".join(written(part) for part in planned.source_query(merge) if not isinstance(part, RowSource))


@dataclass(frozen=True, slots=True)
class _Change:
    """A statement that changes rows, prepared for the snapshot of each attempt."""

    evaluation: DuckDBEvaluation
    table: FileStoreTable
    statement: Update | Delete | MergeInto

    @property
    def store(self) -> TableStore:
        return self.table.store

    def prepare(self, base: Snapshot | None) -> PreparedChange:
        """Change rows of a snapshot."""
        is_keyed = bool(self.store.schema.primary_keys)
        base = distribute_postponed(self.store, base) if is_keyed else base
        attempt = self._attempt(base)
        prepared, plan = attempt.apply(), attempt.plan
        reads = tuple(name for name in plan.reads if name in self.store.schema.field_names)
        unchanged = guard(self.table, plan, attempt.bound.relations, inserted=bool(prepared.inserted))
        return replace(prepared, unchanged=unchanged, reads=reads)

    def verb(self) -> Verb | None:
        """Return the verb of the library that does the same without a query, if there is one."""
        attempt = self._attempt(None)
        return verb_of(attempt.plan, attempt.bound, self.evaluation.args, self.evaluation.lookup.zone)

    def check(self) -> None:
        """Raise an error if the statement cannot run on the columns of the table."""
        self._attempt(None).query(())

    def _attempt(self, base: Snapshot | None) -> _Attempt:
        at = self.table, None if base is None else base.id
        own = [(self.statement.source, FragmentKind.RELATION)] if isinstance(self.statement, MergeInto) else []
        plan = self._plan(self.evaluation.bind(own, at))
        bound = self.evaluation.bind([*own, *((fragment, FragmentKind.EXPRESSION) for fragment in plan.fragments)], at)
        predicate = pruning(plan, bound, self.evaluation.args, self.evaluation.lookup.zone)
        return _Attempt(self.evaluation, self.statement, plan, bound, base, predicate)

    def _plan(self, source: BoundStatement) -> ChangeQuery:
        match self.statement:
            case Update():
                return planned.plan_update(self.store, self.statement)
            case Delete():
                return planned.plan_delete(self.store, self.statement)
            case MergeInto():
                names = [column.name for column in _source(self.evaluation, source, self.statement).columns]
                return planned.plan_merge(self.store, self.statement, names)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One attempt at a change, on one snapshot."""

    evaluation: DuckDBEvaluation
    statement: Update | Delete | MergeInto
    plan: ChangeQuery
    bound: BoundStatement
    base: Snapshot | None
    predicate: Predicate  # every row of the target that may change fulfils it

    @property
    def store(self) -> TableStore:
        return self.plan.store

    def apply(self) -> PreparedChange:
        """Find the rows that change and apply what happens to them."""
        store, plan = self.store, self.plan
        parts = self._parts()
        query = self.query(parts)
        if not parts and not plan.inserts:
            return PreparedChange(method=change_method(store))
        with query.rows() as rows:
            names = [GROUP, POSITION, *(source_name(at) for at in range(len(plan.decided.source_columns)))]
            grouped = _group_by_part((batch.rename_columns(names) for batch in rows), parts)
            if store.schema.primary_keys:
                return self._write_keyed_changes(grouped)
            if self.base is None:
                return self._insert_into_empty(grouped)
            job = ChangeJob.on(store, self.base)
            known = with_all_columns(job, parts)
            task = change_task(known, MergeTask(store, plan.decided, known.store), inserts=store)
            done = apply_changes(_Here(), known, lambda: task(_ONLY, grouped))
            return replace(fold_applied(job, done.applied), inserted=done.inserted)

    def _parts(self) -> list[DataSplit]:
        """Return the groups of files that may hold rows which change."""
        if self.base is None:
            return []
        if not self.store.schema.primary_keys:
            return select_groups(self.store, self.base, self.predicate)
        splits = plan_merged_splits(self.store, self.base, self.predicate)
        return [part for split in splits for part in cut_split(self.store, split)]

    # ---- the change query

    def query(self, parts: Sequence[DataSplit]) -> PreparedQuery:
        """Return the change query over some groups of files."""
        text, values = self.plan.type_query()
        target = {_TARGET: self._target(parts)}
        types = [column.type for column in self._ready(text, target).columns][: len(values)]
        # New rows come first, or last where they have to take effect after the changes.
        nulls = "LAST" if self.store.schema.primary_keys else "FIRST"
        order = f") AS _lw_rows ORDER BY `group` ASC NULLS {nulls}, `position`"
        return self._ready(("SELECT * FROM (", *self.plan.query(types), order), target)

    def _ready(self, text: Text, more: dict[str, ArrowRows]) -> PreparedQuery:
        def compose(written: Written) -> str:
            def relation(which: RowSource) -> str:
                if which is RowSource.TARGET or not isinstance(self.statement, MergeInto):
                    return _TARGET
                return f"({_source_text(self.statement, written)})"

            return self.plan.write(text, written, relation)

        return self.evaluation.ready(self.bound, compose, more)

    def _target(self, parts: Sequence[DataSplit]) -> ArrowRows:
        """Return the live rows of groups, with their places."""
        store, columns = self.store, list(self.plan.reads)
        known = {field.name: field for field in (*store.schema.fields, *system_fields(store))}
        schema = pa.schema([*_PLACES, *to_arrow_schema([known[name] for name in columns])])
        schema = pa.schema([field.remove_metadata().with_nullable(True) for field in schema])  # noqa: FBT003 - Arrow's own

        def batches() -> Iterator[pa.RecordBatch]:
            schemas = FileSchemas(store)
            for number, part in enumerate(parts):
                for one in self._locate_part_rows(part, columns, schemas):
                    place = [pa.array(np.full(len(one.positions), number), pa.int32()), pa.array(one.positions)]
                    values = [one.rows.column(name) for name in columns]
                    yield pa.RecordBatch.from_arrays([*place, *values], schema=schema)

        return ArrowRows.of(schema, batches)

    def _locate_part_rows(self, part: DataSplit, columns: list[str], schemas: FileSchemas) -> Iterator[LocatedRows]:
        if self.store.schema.primary_keys:
            return locate_merged(self.store, part, columns or self.store.schema.primary_keys, self.predicate)
        return locate_rows(self.store, part, columns, self.predicate, schemas=schemas)

    # ---- applying it

    def _insert_into_empty(self, rows: MatchedRows) -> PreparedChange:
        """Insert rows into a table that has no snapshot."""
        job = WriteJob.new(self.store)
        task = inserting_rows(job, MergeTask(self.store, self.plan.decided))
        done = insert_rows(_Here(), job, lambda: task(_ONLY, rows))
        messages = tuple(message for one in done.applied for message in one.messages)
        return PreparedChange(messages, inserted=done.inserted, method=change_method(self.store))

    def _write_keyed_changes(self, rows: MatchedRows) -> PreparedChange:
        """Write the changes of a primary-key table, then its new rows."""
        decided = self.plan.decided
        with KeyedWriter(self.store) as writer:
            columns = keyed_columns(decided, writer.rules)
            for part, batches in rows:
                if part is None:
                    self._insert(writer, batches)
                else:
                    self._change(writer, part, pa.Table.from_batches(list(batches)), columns)
            return writer.finish()

    def _insert(self, writer: KeyedWriter, batches: Iterable[pa.RecordBatch]) -> None:
        keys: list[pa.Table] = []
        for new in inserted_rows(self.plan.decided, batches):
            keys.append(new.select(list(self.store.schema.primary_keys)))
            writer.insert(new)
        if keys:
            writer.rules.check_inserted(pa.concat_tables(keys))

    def _change(self, writer: KeyedWriter, part: DataSplit, matched: pa.Table, columns: Sequence[str]) -> None:
        decided = self.plan.decided
        for chunk in chunks(decided, part, matched, locate_merged(self.store, part, columns, self.predicate)):
            numbers = chunk.matches - chunk.positions[0]
            pairs = Pairs(numbers, np.arange(len(numbers), dtype=np.int64))
            write_decision(writer, chunk.target, decided.decide(chunk.target, chunk.source, pairs))


def _group_by_part(batches: Iterable[pa.RecordBatch], parts: Sequence[DataSplit]) -> MatchedRows:
    """Yield groups with their rows, given rows ordered by group; each must be consumed before the next one."""
    for number, runs in groupby(_runs(batches), key=itemgetter(0)):
        yield (None if number is None else parts[number]), (run for _, run in runs)


def _runs(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int | None, pa.RecordBatch]]:
    for batch in batches:
        if not batch.num_rows:
            continue
        numbers = batch.column(GROUP).fill_null(-1).to_numpy(zero_copy_only=False)
        edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        for first, end in pairwise(edges):
            number = int(numbers[first])
            yield (None if number < 0 else number), batch.slice(first, end - first)


class _Here:
    """Runs the one task of a job in this process."""

    quiet_seconds = 0.0
    tasks_at_once = 1

    def run(self, job: Job[Callable[[], bytes]]) -> _Answer:
        """Run the task."""
        return _Answer([job.work()])

    def share_out(
        self, shares: Sequence[Sequence[bytes]], function: ShareTask, *, description: str
    ) -> Callable[[], bytes]:
        """Return the work of calling a function for all shares."""
        del description
        return lambda: function(_ONLY, (blob for share in shares for blob in share))


@dataclass(frozen=True, slots=True)
class _Answer:
    payloads: Sequence[bytes]
    method: str = ""

    def has_losers(self) -> bool:
        return False

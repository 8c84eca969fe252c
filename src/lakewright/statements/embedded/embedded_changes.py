"""UPDATE, DELETE and MERGE in one process: see `statements.change_statement`.

The change query runs on DuckDB, and its rows come ordered by group and position. Invariant: memory is bounded by what
DuckDB may use and by the changes of one group of files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter

import numpy as np
import pyarrow as pa

from lakewright.dml.change_runner import (
    GROUP,
    POSITION,
    GroupTask,
    MatchedRows,
    SnapshotGroups,
)
from lakewright.dml.change_tasks import KeyedMergeTask, MergeTask, source_name
from lakewright.dml.keyed_strategy import KeyedWriter, keyed_job, locate_merged
from lakewright.dml.row_changes import PreparedChange, change_method
from lakewright.dml.row_location import LocatedRows, locate_rows, system_fields
from lakewright.engine.engine import TaskId
from lakewright.engine.local_engine import LocalEngine, LocalWork
from lakewright.read.data_split import DataSplit
from lakewright.read.manifest_scan import FileSchemas
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.table_options import TableOptions
from lakewright.statements import change_query as planned
from lakewright.statements.bind_tables import BoundTable, TableState
from lakewright.statements.change_query import RowSource, Text
from lakewright.statements.change_statement import ChangeAttempt
from lakewright.statements.embedded.duckdb_query import ArrowRows, DuckDBEvaluation, PreparedQuery, Written
from lakewright.statements.spark_grammar import FragmentKind
from lakewright.statements.statements import MergeInto
from lakewright.table.file_store_table import FileStoreTable

_TARGET = "_lw_target"  # how the text of a change query names the rows of the table
_PLACES = (pa.field(planned.GROUP, pa.int32()), pa.field(planned.POSITION, pa.int64()))
_TASK = TaskId(0, 0)  # the only one: rows come ordered by group, one group after the other


def in_zone(evaluation: DuckDBEvaluation, table: FileStoreTable) -> FileStoreTable:
    """Return a table whose conditions take a time without a zone as a time in the zone of the session."""
    return table.copy({TableOptions.lakewright_time_zone.key(): evaluation.lookup.zone})


@dataclass(frozen=True, slots=True)
class SourceQuery:
    """The source of a merge, as a query."""

    query: PreparedQuery
    relations: tuple[BoundTable, ...]

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return [column.name for column in self.query.columns]

    def arrow_schema(self) -> pa.Schema:
        """Return its columns with their types."""
        return pa.schema([(column.name, column.type) for column in self.query.columns])


@dataclass(frozen=True, slots=True)
class EmbeddedChanges:
    """Runs statements that change rows in this process: DuckDB evaluates their expressions."""

    evaluation: DuckDBEvaluation

    inlines_source = True
    workers = None  # all runs in this process

    def in_zone(self, table: FileStoreTable) -> FileStoreTable:
        """Return a table whose conditions take a time without a zone as a time in the zone of the session."""
        return in_zone(self.evaluation, table)

    def read_source(self, merge: MergeInto, at: TableState) -> SourceQuery:
        """Return the source of a merge."""
        bound = self.evaluation.bind([(merge.source, FragmentKind.RELATION)], at)
        query = self.evaluation.ready(bound, lambda written: _source_text(merge, written))
        return SourceQuery(query, bound.relations)

    def check(self, attempt: ChangeAttempt) -> None:
        """Raise an error if the change query cannot run."""
        self._query(attempt, ())

    def apply(self, attempt: ChangeAttempt, source: SourceQuery | None) -> PreparedChange:
        """Find the rows that change and apply what happens to them."""
        del source  # is written into the query
        store, plan, parts = attempt.store, attempt.plan, attempt.parts(attempt.predicate)
        query = self._query(attempt, parts)
        if not parts and not plan.inserts:
            return PreparedChange(method=change_method(store))
        with query.rows() as rows:
            names = [GROUP, POSITION, *(source_name(at) for at in range(len(plan.decided.source_columns)))]
            grouped = _group_by_part((batch.rename_columns(names) for batch in rows), parts)
            if store.schema.primary_keys:
                return _write_keyed(attempt, grouped)

            def work(task: GroupTask[MatchedRows]) -> LocalWork:
                return [partial(task, _TASK, grouped)]

            changes = partial(MergeTask, store, plan.decided)
            return SnapshotGroups(store, attempt.base, parts).change(LocalEngine(), changes, work)

    # ---- the change query

    def _query(self, attempt: ChangeAttempt, parts: Sequence[DataSplit]) -> PreparedQuery:
        """Return the change query over some groups of files."""
        text, values = attempt.plan.type_query()
        target = {_TARGET: _target_rows(attempt, parts)}
        types = [column.type for column in self._ready(attempt, text, target).columns][: len(values)]
        # New rows come first, or last where they have to take effect after the changes.
        nulls = "LAST" if attempt.store.schema.primary_keys else "FIRST"
        order = f") AS _lw_rows ORDER BY `group` ASC NULLS {nulls}, `position`"
        return self._ready(attempt, ("SELECT * FROM (", *attempt.plan.query(types), order), target)

    def _ready(self, attempt: ChangeAttempt, text: Text, more: dict[str, ArrowRows]) -> PreparedQuery:
        def compose(written: Written) -> str:
            def relation(which: RowSource) -> str:
                if which is RowSource.TARGET or not isinstance(attempt.statement, MergeInto):
                    return _TARGET
                return f"({_source_text(attempt.statement, written)})"

            return attempt.plan.write(text, written, relation)

        return self.evaluation.ready(attempt.bound, compose, more)


def _source_text(merge: MergeInto, written: Written) -> str:
    return "".join(written(part) for part in planned.source_query(merge) if not isinstance(part, RowSource))


def _target_rows(attempt: ChangeAttempt, parts: Sequence[DataSplit]) -> ArrowRows:
    """Return the live rows of groups, with their places."""
    store, columns = attempt.store, list(attempt.plan.reads)
    known = {field.name: field for field in (*store.schema.fields, *system_fields(store))}
    schema = pa.schema([*_PLACES, *to_arrow_schema([known[name] for name in columns])])
    schema = pa.schema([field.remove_metadata().with_nullable(True) for field in schema])  # noqa: FBT003 - Arrow's own

    def batches() -> Iterator[pa.RecordBatch]:
        schemas = FileSchemas(store)
        for number, part in enumerate(parts):
            for one in _locate_part_rows(attempt, part, columns, schemas):
                place = [pa.array(np.full(len(one.positions), number), pa.int32()), pa.array(one.positions)]
                values = [one.rows.column(name) for name in columns]
                yield pa.RecordBatch.from_arrays([*place, *values], schema=schema)

    return ArrowRows.of(schema, batches)


def _locate_part_rows(
    attempt: ChangeAttempt, part: DataSplit, columns: list[str], schemas: FileSchemas
) -> Iterator[LocatedRows]:
    store = attempt.store
    if store.schema.primary_keys:
        return locate_merged(store, part, columns or store.schema.primary_keys, attempt.predicate)
    return locate_rows(store, part, columns, attempt.predicate, schemas=schemas)


# ---- Writing the rows ------------------------------------------------------------------------------------------------


def _write_keyed(attempt: ChangeAttempt, rows: MatchedRows) -> PreparedChange:
    """Write the changes of a primary-key table, then its new rows."""
    task = KeyedMergeTask(attempt.store, attempt.plan.decided, keyed_job(attempt.store), attempt.predicate)
    with KeyedWriter(attempt.store, task.job) as writer:
        for part, batches in rows:
            for _ in task.write_inserts(writer, batches) if part is None else task.write_changes(writer, part, batches):
                pass  # nothing waits to be sent
        return writer.finish()


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

"""What a task does with its groups and matching rows: decide, then hand over to a strategy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from lakewright.commit.commit_message import CommitMessage
from lakewright.dml.change_plan import ChangePlan, Decision, RowDecider
from lakewright.dml.change_runner import POSITION, Changes, MatchedRows, check_columns_unchanged
from lakewright.dml.keyed_rules import KeyedChangeRules
from lakewright.dml.keyed_strategy import RowKindWriter, guard_scope, locate_merged
from lakewright.dml.matching import Matcher, Pairs, concat_positions
from lakewright.dml.merge_clauses import read_source
from lakewright.dml.row_changes import GroupChange, PreparedChange, RowPositions
from lakewright.dml.row_location import LocatedRows, locate_rows
from lakewright.engine.engine import TaskResult
from lakewright.errors import LakewrightError
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.read.manifest_scan import FileSchemas
from lakewright.spec.predicate import TRUE, Predicate, and_predicates
from lakewright.spec.system_columns import DELETE, INSERT, KIND_NAMES, UPDATE_AFTER, VALUE_KIND
from lakewright.spec.table_schema import BucketMode
from lakewright.write.bucket_routing import RowGroup
from lakewright.write.input_data import ArrowData
from lakewright.write.row_shuffle import Sender, ShuffleTargets
from lakewright.write.table_writer import TableWriter, WriteJob

# ---- Merging in one process ------------------------------------------------------------------------------------------
# The target is read group by group, with only the columns that conditions and assignments need; a group is matched,
# decided and changed before the next one is read, in as many threads as the table writes with. Rows of the source
# without a match are inserted last. Invariant: rows that are inserted because they were absent are committed
# only if no other commit wrote to their partition since the snapshot that was read, or to the table if the keys do not
# name the partition.

T = TypeVar("T")
_TARGET_CHUNK_ROWS = 1 << 20  # rows of the target that are matched at once


def write_merge(writer: RowKindWriter, plan: ChangePlan, matcher: Matcher, target: Iterable[pa.Table]) -> bool:
    """Write the changes of rows of a primary-key table, then the new rows, and return whether there were new ones.

    `target` has the columns that `keyed_columns` names of every row that a source row may match.
    """
    matched = np.zeros(matcher.source.num_rows, np.bool_)
    for rows in map(pa.concat_tables, gather_parts(target, lambda part: part.num_rows, _TARGET_CHUNK_ROWS)):
        pairs = matcher.match(rows)
        matched[pairs.source] = True
        write_decision(writer, rows, plan.decide(rows, matcher.source, pairs))
    new = plan.inserts(matcher.source, np.flatnonzero(~matched))
    if new is not None:
        writer.rules.check_inserted(new)
        writer.insert(new)
    return new is not None


def keyed_columns(plan: RowDecider, rules: KeyedChangeRules) -> list[str]:
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


def group_change(part: DataSplit, decisions: Sequence[tuple[RowPositions, Decision]]) -> GroupChange:
    """Return the change of a group from the decisions about chunks of its rows, each with the rows' positions."""
    values = [decision.values for _, decision in decisions if decision.values is not None]
    return GroupChange(
        part,
        concat_positions(positions[decision.deleted] for positions, decision in decisions),
        concat_positions(positions[decision.updated] for positions, decision in decisions),
        pa.concat_tables(values) if values else None,
    )


def chunked_rows(located: Iterable[LocatedRows]) -> Iterator[tuple[RowPositions, pa.Table]]:
    """Yield located rows in chunks that are large enough to be matched at once."""
    for some in gather_parts(located, lambda one: len(one.positions), _TARGET_CHUNK_ROWS):
        yield concat_positions(one.positions for one in some), pa.Table.from_batches([one.rows for one in some])


def gather_parts(parts: Iterable[T], row_count: Callable[[T], int], rows_min: int) -> Iterator[list[T]]:
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


def pruning(plan: ChangePlan, matcher: Matcher) -> Predicate:
    """Return a predicate that every row of the target fulfils which the merge may change."""
    return TRUE if plan.by_source else and_predicates((matcher.pruning_predicate(), plan.prunes))


def scope_of_absence(store: TableStore, plan: ChangePlan) -> str:
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


# ---- Merging on workers ----------------------------------------------------------------------------------------------
# An engine joins the source with the rows of the table and hands each task some groups of files, each with the source
# rows that match, ordered by position, and before them source rows without a match. The tasks read the groups with
# the core's own reader and decide with the core's own code. Columns of the source are named by their index (`s0`,
# `s1`, ...), so that no name of the table can clash.
#
# Rows of a primary-key table become rows with row kinds, which go to the writers of their buckets (`KeyedMergeTask`).
# Invariant: an insert takes effect after every change, as embedded, even if its key exists.

_SOURCE_CHUNK_ROWS = 1 << 16  # source rows that are handled together
CHANGES, INSERTS = 0, 1  # ranks: rows of a higher rank are written after those of a lower one

RankedGroups: TypeAlias = Iterable[tuple[int, Iterable[RowGroup]]]  # ranks, and the rows of each in groups for writers


def source_name(place: int) -> str:
    """Return the name of a column of the source."""
    return f"s{place}"


def source_rows(plan: RowDecider, rows: pa.Table) -> pa.Table:
    """Return the source rows that a task got, with their own column names and in the types of the core."""
    names = list(plan.source_columns)
    columns = rows.select([source_name(at) for at in range(len(names))])
    return read_source(columns.rename_columns(names), plan.table)


def inserted_rows(plan: RowDecider, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows to insert for source rows without a match, which a task got."""
    for some in gather_parts(batches, lambda batch: batch.num_rows, _SOURCE_CHUNK_ROWS):
        rows = pa.Table.from_batches(some)
        new = plan.inserts(source_rows(plan, rows), np.arange(rows.num_rows))
        if new is not None:
            yield new


@dataclass(frozen=True, slots=True)
class MatchedChunk:
    """Some rows of a group with the source rows that match them."""

    positions: RowPositions
    target: pa.Table
    matches: RowPositions  # the position that each source row matches, ascending
    source: pa.Table


def chunks(
    plan: RowDecider, part: DataSplit, matched: pa.Table, located: Iterable[LocatedRows]
) -> Iterator[MatchedChunk]:
    """Yield the rows of a group in chunks, given the source rows that match them, ordered by position."""
    matches = matched.column(POSITION).to_numpy()
    source = source_rows(plan, matched)
    left = len(matches)
    for positions, target in chunked_rows(located):
        first, end = np.searchsorted(matches, (positions[0], positions[-1] + 1))
        left -= int(end - first)
        yield MatchedChunk(positions, target, matches[first:end], source.slice(first, end - first))
    if left:
        raise LakewrightError(f"{plan.table}: {left} rows of {part.files[0].file_name} were not found again")


# ---- append tables ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Turns the rows that a task gets into new rows and changes of groups of an append table."""

    store: TableStore
    plan: RowDecider
    written: TableStore | None = None  # the table with the schema of the files that are written

    def __call__(self, rows: MatchedRows) -> Changes:
        """Yield inserts and changes for rows by group; those without a match come first."""
        schemas = FileSchemas(self.store)
        for part, runs in rows:
            if part is None:
                yield from inserted_rows(self.plan, runs)
                continue
            matched = pa.Table.from_batches(list(runs))
            change = self._change(part, matched, schemas) if matched.num_rows or self.plan.by_source else None
            if change is not None and not change.is_empty:
                check_columns_unchanged(self.store, self.written or self.store, change)
                yield change

    def _change(self, part: DataSplit, matched: pa.Table, schemas: FileSchemas) -> GroupChange:
        """Return the change of one group, given the source rows that match its rows."""
        decisions: list[tuple[RowPositions, Decision]] = []
        located = locate_rows(self.store, part, self.plan.target_columns, schemas=schemas)
        for chunk in chunks(self.plan, part, matched, located):
            positions, target = chunk.positions, chunk.target
            if not self.plan.by_source:
                keep = np.isin(positions, chunk.matches)
                positions, target = positions[keep], target.filter(pa.array(keep))
            pairs = Pairs(np.searchsorted(positions, chunk.matches), np.arange(len(chunk.matches), dtype=np.int64))
            decisions.append((positions, self.plan.decide(target, chunk.source, pairs)))
        return group_change(part, decisions)


def guarded_merge(store: TableStore, plan: ChangePlan, prepared: PreparedChange) -> PreparedChange:
    """Return a merge into an append table with what must not have changed meanwhile."""
    return replace(
        prepared,
        unchanged=scope_of_absence(store, plan) if prepared.inserted else None,
        reads=tuple(name for name in plan.target_columns if name in store.schema.field_names),
    )


# ---- primary-key tables ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeyedMergeTask:
    """Turns the rows that a task gets into rows with row kinds."""

    store: TableStore
    plan: RowDecider
    job: WriteJob
    predicate: Predicate  # positions count the rows that fulfil it

    def rows_by_rank(self, receivers: ShuffleTargets, rows: MatchedRows) -> RankedGroups:
        """Yield inserts, then changes, for rows by split; those without a match come first."""
        parts = iter(rows)
        first = next(parts, None)
        if first is not None and first[0] is None:
            yield INSERTS, self._inserts(first[1], Sender(self.job, receivers))
            first = None
        yield CHANGES, self._changes(chain([] if first is None else [first], parts), Sender(self.job, receivers))

    def _inserts(self, batches: Iterable[pa.RecordBatch], sender: Sender) -> Iterator[RowGroup]:
        writer = RowKindWriter(self.store, sender, upserts=self.plan.upserts)
        for _ in self.write_inserts(writer, batches):
            yield from sender.groups()
        yield from sender.groups(last=True)

    def _changes(self, parts: MatchedRows, sender: Sender) -> Iterator[RowGroup]:
        writer = RowKindWriter(self.store, sender, upserts=self.plan.upserts)
        for part, batches in parts:
            for _ in () if part is None else self.write_changes(writer, part, batches):
                yield from sender.groups()
        yield from sender.groups(last=True)

    def write_inserts(self, writer: RowKindWriter, batches: Iterable[pa.RecordBatch]) -> Iterator[None]:
        """Write the rows to insert for source rows without a match; yield whenever some were written."""
        keys: list[pa.Table] = []
        for new in inserted_rows(self.plan, batches):
            keys += [] if self.plan.upserts else [new.select(list(self.store.schema.primary_keys))]
            writer.insert(new)
            yield
        if keys:
            writer.rules.check_inserted(pa.concat_tables(keys))

    def write_changes(
        self, writer: RowKindWriter, part: DataSplit, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[None]:
        """Write the changes of a split, given the source rows that match its rows; yield whenever some were written."""
        matched = pa.Table.from_batches(list(batches))
        if not (matched.num_rows or self.plan.by_source):
            return
        columns = keyed_columns(self.plan, writer.rules)
        for chunk in chunks(self.plan, part, matched, locate_merged(self.store, part, columns, self.predicate)):
            numbers = chunk.matches - chunk.positions[0]
            pairs = Pairs(numbers, np.arange(len(numbers), dtype=np.int64))
            write_decision(writer, chunk.target, self.plan.decide(chunk.target, chunk.source, pairs))
            yield


class CountingWriter:
    """A writer that counts the rows of each kind that it gets."""

    def __init__(self, writer: TableWriter) -> None:
        self._writer = writer
        self._kinds = np.zeros(len(KIND_NAMES), np.int64)

    @property
    def held_bytes(self) -> int:
        """How many bytes wait in memory to be written."""
        return self._writer.held_bytes

    def flush(self) -> None:
        """Write what waits."""
        self._writer.flush()

    def take(self, rows: pa.Table) -> None:
        """Take rows that an intake let in already."""
        self._kinds += np.bincount(rows.column(VALUE_KIND.name).to_numpy(), minlength=len(self._kinds))
        self._writer.take(rows)

    def finish(self) -> TaskResult:
        """Finish the files; return what to commit, and how many rows were deleted, updated and inserted."""
        counts = self._kinds.tolist()
        return TaskResult(self._writer.prepare(), (counts[DELETE], counts[UPDATE_AFTER], counts[INSERT]))


def guarded_keyed_merge(store: TableStore, plan: ChangePlan, prepared: PreparedChange) -> PreparedChange:
    """Return a merge into a primary-key table with what must not have changed meanwhile."""
    scope = scope_of_absence(store, plan) if prepared.inserted else "bucket"
    return replace(prepared, unchanged=guard_scope(scope, store.schema.bucket_mode))

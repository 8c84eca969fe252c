"""Merges on an engine's workers: rows of the source with group and position of their matches in, changes out.

An engine joins the source with the rows of the table and hands each task some groups of files, each with the source
rows that match, ordered by position, and before them source rows without a match. The tasks read the groups with the
core's own reader and decide with the core's own code. Columns of the source are named by their index (`s0`, `s1`, ...),
so that no name of the table can clash.

Rows of a primary-key table become rows with row kinds, which go to the writers of their buckets (`KeyedMergeTask`).
What always holds: an insert takes effect after every change, as embedded, even if its key exists.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lakewright.distributed.job import Answers
from lakewright.distributed.messages import verified_messages
from lakewright.distributed.rows.groups import POSITION, Changes, GroupedRows
from lakewright.errors import LakewrightError, UnsupportedError
from lakewright.metadata.store import TableStore
from lakewright.read.scan import FileSchemas
from lakewright.read.splits.split import DataSplit
from lakewright.spec.keyed_rows import DELETE, INSERT, KIND_NAMES, UPDATE_AFTER, VALUE_KIND
from lakewright.spec.options import CoreOptions
from lakewright.spec.predicate.predicate import Predicate
from lakewright.update.change import GroupChange, Positions
from lakewright.update.find import LocatedRows, locate
from lakewright.update.merge.clauses import DecidesRows, Decision, MergePlan, read_source
from lakewright.update.merge.match import Pairs
from lakewright.update.merge.merge import (
    chunked_rows,
    gathered,
    group_change,
    keyed_columns,
    scope_of_absence,
    write_decision,
)
from lakewright.update.merge.upsert import kinds_column, plan_upsert
from lakewright.update.methods import ChangeMethod
from lakewright.update.primary_key import KeyedRules, RowKindWriter, guard_scope, locate_merged
from lakewright.update.run import Prepared, check_columns_unchanged
from lakewright.write.buckets.routing import Group
from lakewright.write.shuffle import Receivers, Sender
from lakewright.write.writer import TableWriter, WriteJob

_CHUNK_ROWS = 1 << 16  # source rows that are handled together
_KINDS = struct.Struct(f">{len(KIND_NAMES)}q")
CHANGES, INSERTS = 0, 1  # ranks: rows of a higher rank are written after those of a lower one

RankedGroups: TypeAlias = Iterable[tuple[int, Iterable[Group]]]  # ranks, and the rows of each in groups for writers


def source_name(place: int) -> str:
    """Return the name of a column of the source."""
    return f"s{place}"


def source_rows(plan: DecidesRows, rows: pa.Table) -> pa.Table:
    """Return the source rows that a task got, with their own column names and in the types of the core."""
    names = list(plan.source_columns)
    columns = rows.select([source_name(at) for at in range(len(names))])
    return read_source(columns.rename_columns(names), plan.table)


def inserted_rows(plan: DecidesRows, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows to insert for source rows without a match, which a task got."""
    for some in gathered(batches, lambda batch: batch.num_rows, _CHUNK_ROWS):
        rows = pa.Table.from_batches(some)
        new = plan.inserts(source_rows(plan, rows), np.arange(rows.num_rows))
        if new is not None:
            yield new


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a group with the source rows that match them."""

    positions: Positions
    target: pa.Table
    matches: Positions  # the position that each source row matches, ascending
    source: pa.Table


def chunks(plan: DecidesRows, part: DataSplit, matched: pa.Table, located: Iterable[LocatedRows]) -> Iterator[Chunk]:
    """Yield the rows of a group in chunks, given the source rows that match them, ordered by position."""
    matches = matched.column(POSITION).to_numpy()
    source = source_rows(plan, matched)
    left = len(matches)
    for positions, target in chunked_rows(located):
        first, end = np.searchsorted(matches, (positions[0], positions[-1] + 1))
        left -= int(end - first)
        yield Chunk(positions, target, matches[first:end], source.slice(first, end - first))
    if left:
        raise LakewrightError(f"{plan.table}: {left} rows of {part.files[0].file_name} were not found again")


# ---- append tables ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Turns the rows that a task gets into new rows and changes of groups of an append table."""

    store: TableStore
    plan: DecidesRows
    written: TableStore | None = None  # the table with the schema of the files that are written

    def __call__(self, rows: GroupedRows) -> Changes:
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
        decisions: list[tuple[Positions, Decision]] = []
        located = locate(self.store, part, self.plan.target_columns, schemas=schemas)
        for chunk in chunks(self.plan, part, matched, located):
            positions, target = chunk.positions, chunk.target
            if not self.plan.by_source:
                keep = np.isin(positions, chunk.matches)
                positions, target = positions[keep], target.filter(pa.array(keep))
            pairs = Pairs(np.searchsorted(positions, chunk.matches), np.arange(len(chunk.matches), dtype=np.int64))
            decisions.append((positions, self.plan.decide(target, chunk.source, pairs)))
        return group_change(part, decisions)


def guarded_merge(store: TableStore, plan: MergePlan, prepared: Prepared, inserted: int) -> Prepared:
    """Return a merge into an append table with its inserts counted, and with what must not have changed meanwhile."""
    return replace(
        prepared,
        inserted=inserted,
        unchanged=scope_of_absence(store, plan) if inserted else None,
        reads=tuple(name for name in plan.target_columns if name in store.schema.field_names),
    )


# ---- primary-key tables ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeyedMergeTask:
    """Turns the rows that a task gets into rows with row kinds."""

    store: TableStore
    plan: DecidesRows
    job: WriteJob
    predicate: Predicate  # positions count the rows that fulfil it

    def rows_by_rank(self, receivers: Receivers, rows: GroupedRows) -> RankedGroups:
        """Yield inserts, then changes, for rows by split; those without a match come first."""
        parts = iter(rows)
        first = next(parts, None)
        if first is not None and first[0] is None:
            yield INSERTS, self._inserts(first[1], Sender(self.job, receivers))
            first = None
        yield CHANGES, self._changes(chain([] if first is None else [first], parts), Sender(self.job, receivers))

    def _inserts(self, batches: Iterable[pa.RecordBatch], sender: Sender) -> Iterator[Group]:
        writer = RowKindWriter(self.store, sender, upserts=self.plan.upserts)
        keys: list[pa.Table] = []
        for new in inserted_rows(self.plan, batches):
            keys += [] if self.plan.upserts else [new.select(list(self.store.schema.primary_keys))]
            writer.insert(new)
            yield from sender.groups()
        if keys:
            writer.rules.check_inserted(pa.concat_tables(keys))
        yield from sender.groups(last=True)

    def _changes(self, parts: GroupedRows, sender: Sender) -> Iterator[Group]:
        writer = RowKindWriter(self.store, sender, upserts=self.plan.upserts)
        columns = keyed_columns(self.plan, writer.rules)
        for part, batches in parts:
            matched = pa.Table.from_batches(list(batches))
            if part is None or not (matched.num_rows or self.plan.by_source):
                continue
            for chunk in chunks(self.plan, part, matched, locate_merged(self.store, part, columns, self.predicate)):
                numbers = chunk.matches - chunk.positions[0]
                pairs = Pairs(numbers, np.arange(len(numbers), dtype=np.int64))
                write_decision(writer, chunk.target, self.plan.decide(chunk.target, chunk.source, pairs))
                yield from sender.groups()
        yield from sender.groups(last=True)


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

    def packed(self) -> bytes:
        """Return the counts, as the payload of a task begins with them."""
        return _KINDS.pack(*self._kinds.tolist())


def pack_counts(made: Prepared) -> bytes:
    """Return the counts of a change as those of row kinds, as the payload of its task begins with them."""
    counts = {DELETE: made.deleted, UPDATE_AFTER: made.updated, INSERT: made.inserted}
    return _KINDS.pack(*(counts.get(kind, 0) for kind in range(len(KIND_NAMES))))


def verify_keyed(job: WriteJob, answers: Answers, *, counted: bool = True) -> Prepared:
    """Return what the tasks of a change wrote; with `counted`, each payload begins with the counts of row kinds."""
    size = _KINDS.size if counted else 0
    messages = verified_messages(job, (payload[size:] for payload in answers.payloads))
    counts = [_KINDS.unpack_from(payload) for payload in answers.payloads] if counted else []
    sums = [sum(kinds) for kinds in zip(*counts, strict=True)]
    deleted, updated, inserted = (sums[DELETE], sums[UPDATE_AFTER], sums[INSERT]) if sums else (0, 0, 0)
    return Prepared(tuple(messages), deleted, updated, inserted, ChangeMethod.KEYED)


def guarded_keyed_merge(store: TableStore, plan: MergePlan, prepared: Prepared) -> Prepared:
    """Return a merge into a primary-key table with what must not have changed meanwhile."""
    scope = scope_of_absence(store, plan) if prepared.inserted else "bucket"
    return replace(prepared, unchanged=guard_scope(scope, store.schema.bucket_mode))


def checked_lookup(store: TableStore, source: pa.Schema, *, frame: str, fetch: str) -> MergePlan:
    """Check an upsert of a frame that lacks columns, and return it as a merge that looks rows up.

    `frame` is what the engine calls its data, and `fetch` how a user brings it into this process.
    """
    kinds = kinds_column(store, source.names)
    if kinds is not None or KeyedRules.of(store).folds:
        engine = f"the merge engine {store.options.get(CoreOptions.MERGE_ENGINE)}"
        why = engine if kinds is None else f"a column of row kinds ({kinds!r})"
        raise UnsupportedError(
            f"{store.name}: the {frame} lacks columns that must be looked up to stay as they are, which workers cannot "
            f"do with {why}; give all columns, or upsert embedded, with {fetch}",
            table=store.name,
        )
    return plan_upsert(store, source, store.schema.primary_keys)

"""The keyed strategy: rows with row kinds, per bucket, on any engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.compact.postponed_rows import distribute
from lakewright.dml.assignments import Assignments, without_defaults
from lakewright.dml.change_runner import description, verify_change
from lakewright.dml.distributed_write import with_one_thread
from lakewright.dml.keyed_rules import KeyedChangeRules
from lakewright.dml.row_changes import ChangeMethod, PreparedChange
from lakewright.dml.row_location import LocatedRows
from lakewright.engine.engine import Engine, Job, TaskId, TaskResult, Work
from lakewright.engine.engine_job import run_tasks
from lakewright.errors import UnsupportedError, pluralize
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.read.manifest_scan import scan
from lakewright.read.read_builder import ReadBuilder
from lakewright.read.split_planning import deletions_of, plan_splits
from lakewright.read.split_sharing import Share, bucket_shares
from lakewright.spec.predicate import TRUE, Predicate
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.system_columns import DELETE, INSERT, KIND_NAMES, UPDATE_AFTER, UPDATE_BEFORE
from lakewright.spec.table_options import TableOptions
from lakewright.spec.table_schema import POSTPONE, BucketMode
from lakewright.write.alignment import Aligner
from lakewright.write.bucket_assignment import Assigner
from lakewright.write.table_writer import TableWriter, WriteJob

# ---- In one process --------------------------------------------------------------------------------------------------
# A row is deleted by writing a row of kind -D with its key, and updated by writing a whole row of kind +U; the
# table's merge function does the rest. A change that the merge function would undo is refused before anything is
# read, so every row that is written takes effect. If the changelog producer is `input`, the old rows are written too.
#
# Rows are read as a merge of all files, level 0 included even where batch reads leave it out, so that a change
# applies to the newest version of a row. Rows that wait for a bucket (postpone bucket mode) get one first.

_MERGE_ON_READ = {TableOptions.deletion_vectors_merge_on_read.key(): "true"}


class RowSink(Protocol):
    """Takes rows with row kinds: a writer, or a sender to a writer."""

    def write(self, data: pa.Table, *, row_kinds: pa.Array | None = None) -> int:
        """Write rows; without `row_kinds`, a column of the table holds them."""

    def delete(self, keys: pa.Table) -> int:
        """Write deletes for keys; other columns may be missing."""


class RowKindWriter:
    """Turns deletes, updates and inserts into rows with row kinds, for a sink; `upserts` is of `KeyedChangeRules`."""

    def __init__(self, store: TableStore, sink: RowSink, *, upserts: bool = False) -> None:
        self.rules = KeyedChangeRules.of(store, upserts=upserts)
        self.counts = {DELETE: 0, UPDATE_AFTER: 0, INSERT: 0}
        self._sink = sink
        self._schema = store.schema.arrow_schema
        self._new_rows = Aligner(store.schema.fields, table=store.name)

    def delete(self, old: pa.Table) -> None:
        """Delete rows; `old` has at least the columns that `rules.columns_to_delete` names."""
        self.rules.check_deleted(old)
        self._sink.delete(old.select(self.rules.columns_to_delete()))
        self.counts[DELETE] += old.num_rows

    def update(self, old: pa.Table, values: pa.Table) -> None:
        """Set columns of rows; `old` has at least the columns that `rules.columns_to_read` names.

        Rows of an upsert that are older than those of the table change nothing, as in a write.
        """
        names = self.rules.columns_to_update(values.column_names)
        old = old.select([name for name in names if name in old.column_names])
        if not self.rules.upserts:
            self.rules.check_updated(old, values)
        elif not self.rules.folds and (older := self.rules.is_older(old, values)).any():
            newer = pa.array(~older)
            old, values = old.filter(newer), values.filter(newer)
        given = {name: (values if name in values.column_names else old).column(name) for name in names}
        new = self._with_all_columns(pa.table(given))
        if self.rules.writes_old_rows:
            before = self._with_all_columns(old).filter(self._stays_in_partition(old, new))
            kinds = np.repeat(np.array([UPDATE_BEFORE, UPDATE_AFTER], np.int8), (before.num_rows, new.num_rows))
            self._write(pa.concat_tables([before, new]), kinds)
        else:
            self._write(new, np.full(new.num_rows, UPDATE_AFTER, np.int8))
        self.counts[UPDATE_AFTER] += old.num_rows

    def insert(self, rows: pa.Table) -> None:
        """Add rows with new keys; columns that they lack get their defaults."""
        self._write(self._new_rows.align(rows), np.full(rows.num_rows, INSERT, np.int8))
        self.counts[INSERT] += rows.num_rows

    def _stays_in_partition(self, old: pa.Table, new: pa.Table) -> pa.Array:
        """Return which rows stay in their partition: for those that leave it the writer itself writes the delete."""
        stay = np.ones(old.num_rows, np.bool_)
        for name in self.rules.store.schema.partition_keys:
            both = (old.column(name), new.column(name))
            same = pc.or_kleene(pc.equal(*both), pc.and_(pc.is_null(both[0]), pc.is_null(both[1])))
            stay &= pc.fill_null(same, fill_value=False).to_numpy()
        return pa.array(stay)

    def _with_all_columns(self, rows: pa.Table) -> pa.Table:
        """Return rows with all columns of the table, null in those they lack, which the merge function keeps."""
        given = rows.column_names
        columns = [rows.column(f.name) if f.name in given else pa.nulls(rows.num_rows, f.type) for f in self._schema]
        return pa.Table.from_arrays(columns, schema=self._schema)

    def _write(self, rows: pa.Table, kinds: np.ndarray[tuple[int, ...], np.dtype[np.int8]]) -> None:
        field = self.rules.kind_field
        if field is None:
            self._sink.write(rows, row_kinds=pa.array(kinds))
            return
        at = rows.column_names.index(field)
        texts = pa.array(KIND_NAMES).take(pa.array(kinds)).cast(rows.schema.field(at).type)
        self._sink.write(rows.set_column(at, rows.schema.field(at), texts))


class _BucketSink:
    """Passes rows to a writer, with the bucket that they have, if it is known."""

    def __init__(self, writer: TableWriter) -> None:
        self.bucket: int | None = None
        self._writer = writer

    def write(self, data: pa.Table, *, row_kinds: pa.Array | None = None) -> int:
        return self._writer.write(data, bucket=self.bucket, row_kinds=row_kinds)

    def delete(self, keys: pa.Table) -> int:
        return self._writer.delete(keys, bucket=self.bucket)


class KeyedWriter(RowKindWriter):
    """Writes the changes of rows of one snapshot of a primary-key table, in one attempt."""

    def __init__(
        self,
        store: TableStore,
        job: WriteJob | None = None,
        task: int = 0,
        attempt: int = 0,
        *,
        upserts: bool = False,
        assigner: Assigner | None = None,
    ) -> None:
        """Open the writer of a whole job, or of one attempt at one of its tasks; `assigner` as in `open_writer`."""
        self._mode = store.schema.bucket_mode
        self._writer = (job or keyed_job(store)).open_writer(task, attempt, assigner=assigner)
        self._placed = _BucketSink(self._writer)
        super().__init__(store, self._placed, upserts=upserts)

    @contextmanager
    def into_bucket(self, bucket: int | None) -> Iterator[None]:
        """Write the rows within a `with` block into a bucket; None: the writer finds their buckets."""
        self._placed.bucket = bucket
        try:
            yield
        finally:
            self._placed.bucket = None

    def flush_above(self, bytes_max: int) -> None:
        """Write the rows in memory if they are many: no more rows of these buckets are expected."""
        if self._writer.held_bytes >= bytes_max:
            self._writer.flush()

    def finish(self, *, unchanged: str = "bucket", reads: Iterable[str] = ()) -> PreparedChange:
        """Finish the files; the commit fails if another wrote to the scope `unchanged`, or wider if keys may move."""
        messages = tuple(self._writer.prepare())
        deleted, updated, inserted = self.counts.values()
        scope = guard_scope(unchanged, self._mode)
        return PreparedChange(messages, deleted, updated, inserted, ChangeMethod.KEYED, scope, tuple(reads))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()  # removes files that `finish` did not return


def guard_scope(unchanged: str, mode: BucketMode) -> str:
    """Return the scope in which no other commit may write meanwhile; it is wider where a key has no fixed bucket."""
    if mode is BucketMode.KEY_DYNAMIC or unchanged == "table":
        return "table"
    return "partition" if mode is BucketMode.POSTPONE else unchanged


@dataclass(frozen=True, slots=True)
class KeyedChange:
    """A delete or update of the rows that fulfil a predicate, in one attempt; workers get it as a value."""

    store: TableStore
    job: WriteJob
    predicate: Predicate
    assignments: Assignments | None = None  # None: the rows are deleted

    def apply(self, splits: Sequence[DataSplit], task: int = 0, attempt: int = 0) -> PreparedChange:
        """Change the rows of whole buckets."""
        given = self.assignments
        with KeyedWriter(self.store, self.job, task, attempt) as writer:
            names = writer.rules.columns_to_delete() if given is None else writer.rules.columns_to_read(given.names)
            needed = {*names, *(() if given is None else given.target_columns)}
            columns = [name for name in self.store.schema.field_names if name in needed]
            for rows in read_merged(self.store, splits, columns, self.predicate):
                if given is None:
                    writer.delete(rows)
                else:
                    writer.update(rows, given.evaluate(rows.num_rows, rows))
            return writer.finish()


def keyed_job(store: TableStore) -> WriteJob:
    """Return a write of whole rows and of deletes, in which null does not become the column's default."""
    schema = store.schema
    plain = store.with_schema(replace(schema, fields=without_defaults(schema.fields)))
    return WriteJob.new(plain, real_buckets=schema.bucket_mode is BucketMode.POSTPONE)


def prepare_delete(
    store: TableStore, base: Snapshot | None, predicate: Predicate, workers: Engine[Work] | None = None
) -> PreparedChange:
    """Delete the rows of a snapshot that fulfil a predicate."""
    return _prepare(KeyedChange(store, keyed_job(store), predicate), base, workers)


def prepare_update(
    store: TableStore,
    base: Snapshot | None,
    assignments: Assignments,
    predicate: Predicate,
    workers: Engine[Work] | None = None,
) -> PreparedChange:
    """Set columns of the rows of a snapshot that fulfil a predicate."""
    return _prepare(KeyedChange(store, keyed_job(store), predicate, assignments), base, workers)


def _prepare(change: KeyedChange, base: Snapshot | None, workers: Engine[Work] | None) -> PreparedChange:
    """Change rows of a snapshot, in this process or on workers, where a task has whole buckets."""
    base = distribute_postponed(change.store, base)
    splits = () if base is None else plan_merged_splits(change.store, base, change.predicate)
    if not splits:
        return PreparedChange(method=ChangeMethod.KEYED)
    if workers is None:
        return change.apply(splits)
    scope = guard_scope("bucket", change.store.schema.bucket_mode)
    return replace(_run(workers, change, splits), unchanged=scope)


def merged_rows(
    store: TableStore, base: Snapshot, columns: Sequence[str], predicate: Predicate = TRUE
) -> Iterator[pa.Table]:
    """Yield the merged rows of a snapshot that fulfil a predicate, always with level 0."""
    yield from read_merged(store, plan_merged_splits(store, base, predicate), columns, predicate)


def plan_merged_splits(store: TableStore, base: Snapshot, predicate: Predicate = TRUE) -> list[DataSplit]:
    """Return the splits of a snapshot that may hold rows which fulfil a predicate, always with level 0."""
    prepare_merge = _merging_all_levels(store)
    entries = scan(prepare_merge, base, predicate).entries
    index = [] if base.index_manifest is None else store.manifests.read_index(base.index_manifest)
    return plan_splits(prepare_merge, base.id, entries, deletions_of(prepare_merge, index))


def read_merged(
    store: TableStore, splits: Sequence[DataSplit], columns: Sequence[str], predicate: Predicate = TRUE
) -> Iterator[pa.Table]:
    """Yield the merged rows of such splits, in an order that does not depend on the columns."""
    read = ReadBuilder(_merging_all_levels(store)).with_filter(predicate).with_projection(list(columns)).new_read()
    for batch in read.to_arrow_batch_reader(splits):
        if batch.num_rows:
            yield pa.Table.from_batches([batch])


def locate_merged(
    store: TableStore, part: DataSplit, columns: Sequence[str], predicate: Predicate = TRUE
) -> Iterator[LocatedRows]:
    """Yield the merged rows of a split that fulfil a predicate; a position is a row's number in that order."""
    at = 0
    for rows in read_merged(store, [part], columns, predicate):
        for batch in rows.to_batches():
            yield LocatedRows(part, np.arange(at, at + batch.num_rows), batch)
            at += batch.num_rows


def _merging_all_levels(store: TableStore) -> TableStore:
    """Return the table with options that make reads merge all levels."""
    return store.with_schema(store.schema.with_options(_MERGE_ON_READ)) if store.options.hides_level_0 else store


def distribute_postponed(store: TableStore, base: Snapshot | None) -> Snapshot | None:
    """Distribute rows that wait for a bucket to buckets, in a commit of its own; return a snapshot without such rows.

    That is the given snapshot if no rows wait.
    """
    if base is None or store.schema.bucket_mode is not BucketMode.POSTPONE:
        return base
    waiting = store.manifests.live(base, keep=lambda _partition, bucket, _total, _level: bucket == POSTPONE)
    if not waiting:
        return base
    if store.options.write_only:
        raise UnsupportedError(
            f"{store.name}: rows wait for a bucket in {pluralize(len(waiting), 'file')}, where no read finds "
            "them, and the table is 'write-only' = 'true'; compact it first, with "
            "table.copy({'write-only': 'false'}).compact()",
            table=store.name,
            option="write-only",
        )
    distribute(store)
    return store.snapshots.latest()


# ---- On workers ------------------------------------------------------------------------------------------------------
# A task takes whole buckets: it reads their merged rows with the core's own reader and writes the changed rows into
# the same buckets, since no change moves a key. So rows never travel and keep their types, and a bucket gets one
# sorted run, as from an embedded change. If the job fails, every file with its write id is removed.


def _run(workers: Engine[Work], change: KeyedChange, splits: Sequence[DataSplit]) -> PreparedChange:
    store, write_id = change.store, change.job.write_id
    shipped = replace(change, store=one_reader(store), job=with_one_thread(change.job))
    blobs = [[split.serialize() for split in share] for share in _shares(store, splits, workers.tasks_at_once)]
    work = workers.share_out(blobs, partial(_apply, shipped), description=description(store))
    return run_tasks(workers, Job(store, write_id, work), partial(verify_change, change.job))


def _shares(store: TableStore, splits: Sequence[DataSplit], at_least: int) -> list[Share]:
    # If a key may be in any partition, one writer must write all of them.
    if store.schema.bucket_mode is BucketMode.KEY_DYNAMIC:
        return [tuple(splits)]
    return bucket_shares(store, splits, at_least=at_least)


def _apply(change: KeyedChange, this: TaskId, blobs: Iterator[bytes]) -> TaskResult:
    """Change the rows of one share of splits, on a worker."""
    return result_of(change.apply([DataSplit.deserialize(blob) for blob in blobs], this.number, this.attempt))


def result_of(made: PreparedChange) -> TaskResult:
    """Return what a task did, as `verify_change` reads it."""
    return TaskResult(made.messages, (made.deleted, made.updated, made.inserted))


def one_reader(store: TableStore) -> TableStore:
    """Return the table with one thread per read, unless its options set another number: tasks use all cores already."""
    option = TableOptions.lakewright_read_threads.key()
    given = {option, TableOptions.read_parallelism.key()} & store.schema.options.keys()
    return store if given else store.with_schema(store.schema.with_options({option: "1"}))

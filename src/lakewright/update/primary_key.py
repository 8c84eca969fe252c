"""Changes of rows of primary-key tables: rows and how they change in, files of rows with row kinds and messages out.

A row is deleted by writing a row of kind -D with its key, and updated by writing a whole row of kind +U; the table's
merge function does the rest. A change that the merge function would undo is refused before anything is read, so every
row that is written takes effect. If the changelog producer is `input`, the old rows are written too.

Rows are read as a merge of all files, level 0 included even where batch reads leave it out, so that a change applies to
the newest version of a row. Rows that wait for a bucket (postpone bucket mode) get one first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.compact.postpone import distribute
from lakewright.errors import InvalidInputError, UnsupportedError, counted
from lakewright.lsm.functions.aggregation import Aggregation
from lakewright.lsm.functions.column_functions import LAST, REPEATABLE, ColumnFunction
from lakewright.lsm.functions.partial_update import PartialUpdate
from lakewright.lsm.images import Flags
from lakewright.lsm.keys import KeyOrder, sorted_rows
from lakewright.lsm.merge import MergeSpec
from lakewright.metadata.store import TableStore
from lakewright.read.builder import ReadBuilder
from lakewright.read.scan import scan
from lakewright.read.splits.plan import deletions_of, plan_splits
from lakewright.read.splits.split import DataSplit
from lakewright.spec.keyed_rows import DELETE, INSERT, KIND_NAMES, UPDATE_AFTER, UPDATE_BEFORE
from lakewright.spec.options import ChangelogProducer, CoreOptions, MergeEngine
from lakewright.spec.predicate.predicate import TRUE, Predicate
from lakewright.spec.schema.table_schema import POSTPONE, BucketMode
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.types import DataField
from lakewright.update.find import LocatedRows
from lakewright.update.methods import ChangeMethod
from lakewright.update.run import Prepared
from lakewright.update.values import Assignments, without_defaults
from lakewright.write.buckets.assign import Assigner
from lakewright.write.input.align import Aligner
from lakewright.write.writer import TableWriter, WriteJob

_MERGE_ON_READ = {CoreOptions.DELETION_VECTORS_MERGE_ON_READ.key(): "true"}
_REPLACE = "write the rows again with mode='overwrite'"


@dataclass(frozen=True, slots=True)
class KeyedRules:
    """Which changes the merge engine of a primary-key table allows, and which columns of a row they need.

    An update replaces values, so an engine that folds rows refuses it. An upsert (`upserts`) adds rows as a write does:
    the engine folds them in, and of two versions the one with the newer `sequence.field` wins.
    """

    store: TableStore
    spec: MergeSpec
    upserts: bool = False

    @classmethod
    def of(cls, store: TableStore, *, upserts: bool = False) -> KeyedRules:
        """Read the rules from the schema of a table."""
        return cls(store, MergeSpec.of_schema(store.schema, table=store.name), upserts)

    @property
    def _keys(self) -> frozenset[str]:
        return frozenset((*self.store.schema.primary_keys, *self.store.schema.partition_keys))

    @property
    def _sequence(self) -> frozenset[str]:
        return frozenset(field.name for field in self.spec.sequence_fields)

    @property
    def _partial(self) -> PartialUpdate | None:
        return self.spec.function if isinstance(self.spec.function, PartialUpdate) else None

    @property
    def _removing(self) -> frozenset[str]:
        """The sequence fields of groups whose deletes remove the record."""
        groups = () if self._partial is None else self._partial.groups
        return frozenset(name for group in groups if group.removes for name in group.names)

    @property
    def writes_old_rows(self) -> bool:
        """Whether old rows are written too, because the rows that are written are the changelog."""
        producer = self.store.options.get(CoreOptions.CHANGELOG_PRODUCER)
        return producer is ChangelogProducer.INPUT and self.spec.engine is MergeEngine.DEDUPLICATE

    @property
    def writes_whole_rows(self) -> bool:
        """Whether an update writes all columns: not where functions or groups would fold unchanged values in again."""
        return self._partial is None or not (self._partial.groups or self._partial.functions)

    @property
    def kind_field(self) -> str | None:
        """The column of the table that holds row kinds; None: they are passed beside the columns."""
        return self.store.options.get(CoreOptions.ROWKIND_FIELD)

    def columns_to_delete(self) -> tuple[str, ...]:
        """Return the columns that a row of kind -D needs: without its sequence fields the old row would win."""
        if self.writes_old_rows:
            return self.store.schema.field_names
        return self._in_order(self._keys | self._sequence | self._removing)

    @property
    def folds(self) -> bool:
        """Whether the engine computes a row from all rows of a key, so that none of them may be left out."""
        return self.spec.function is not None

    @property
    def _functions(self) -> Mapping[str, ColumnFunction]:
        function = self.spec.function
        return function.functions if isinstance(function, PartialUpdate | Aggregation) else {}

    def columns_to_keep(self, given: Collection[str]) -> frozenset[str]:
        """Return the columns, other than the given ones, that an upsert must write again so that they stay."""
        schema = self.store.schema
        known = {*given, *schema.primary_keys, self.kind_field}
        missing = [field for field in schema.fields if field.name not in known]
        if self.spec.engine is MergeEngine.FIRST_ROW:
            return frozenset()
        if not self.folds:
            return frozenset(field.name for field in missing)
        kept = self._sequence | {*schema.partition_keys}
        return frozenset(f.name for f in missing if f.name in kept or not f.type.nullable or self._takes_null(f, given))

    def _takes_null(self, field: DataField, given: Collection[str]) -> bool:
        """Return whether an engine that folds rows would set a column to null, for a row of the given columns."""
        function = self._functions.get(field.name)
        if function is not None and function.name != LAST:
            return False
        if self._partial is None:
            return function is not None
        return any(
            field.name in group.columns and not {*given}.isdisjoint(group.names) for group in self._partial.groups
        )

    def needs_lookup(self, given: Collection[str]) -> bool:
        """Return whether an upsert of some columns must look up existing rows, to keep their other columns.

        An engine that folds rows keeps columns that a row lacks; but defaults must only be set in rows that are new.
        """
        if self.columns_to_keep(given):
            return True
        missing = (field for field in self.store.schema.fields if field.name not in given)
        return self.folds and any(field.default_value is not None for field in missing)

    def columns_to_read(self, assigned: Collection[str]) -> tuple[str, ...]:
        """Return the columns of a row that must be read to set some of them: not those that are set, if it can be."""
        written = self.columns_to_update(assigned)
        if self.writes_old_rows or self._partial is not None:
            return written  # the old row is written too, or is compared with the new values
        return self._in_order(({*written} - {*assigned}) | self._keys | self._sequence)

    def columns_to_update(self, assigned: Collection[str]) -> tuple[str, ...]:
        """Return the columns of the row that is written to set some of them; the others are null in it."""
        if self.upserts:
            return self._in_order(self._keys | self._sequence | self.columns_to_keep(assigned) | {*assigned})
        if self.writes_whole_rows:
            return self.store.schema.field_names
        required = {field.name for field in self.store.schema.fields if not field.type.nullable}
        return self._in_order(self._keys | self._sequence | required | {*assigned})

    def _in_order(self, names: Collection[str]) -> tuple[str, ...]:
        return tuple(name for name in self.store.schema.field_names if name in names)

    def check_delete(self) -> None:
        """Raise UnsupportedError if the table ignores or cannot express deletes."""
        options, engine = self.store.options, self.spec.engine
        if options.get(CoreOptions.IGNORE_DELETE):
            raise self._refused("delete", "ignore-delete", f"reset 'ignore-delete', or {_REPLACE}")
        partial, aggregates = self._partial, MergeEngine.AGGREGATION
        removes = CoreOptions.PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE
        if partial is not None and not (partial.remove_on_delete or self._removing):
            raise self._refused("delete", "merge-engine", f"set {removes.key()!r} = 'true', or {_REPLACE}")
        removes = CoreOptions.AGGREGATION_REMOVE_RECORD_ON_DELETE
        if engine is aggregates and not options.get(removes):
            raise self._refused("delete", "merge-engine", f"set {removes.key()!r} = 'true', or {_REPLACE}")
        if engine is MergeEngine.FIRST_ROW:
            raise self._refused("delete", "merge-engine", _REPLACE)

    def check_update(self, assigned: Collection[str]) -> None:
        """Refuse to assign columns that identify the row, or that the merge engine computes."""
        if self.upserts:
            self._check_upsert(assigned)
            return
        identifying = {*self._keys, self.kind_field}
        fixed = tuple(name for name in self.store.schema.field_names if name in identifying and name in assigned)
        if fixed:
            raise InvalidInputError(
                f"{self.store.name}: {', '.join(map(repr, fixed))} cannot be assigned: key and partition columns, and "
                "the one that 'rowkind.field' names, tell which row it is; delete the row and write the new one",
                table=self.store.name,
                columns=fixed,
            )
        if self.spec.engine in {MergeEngine.AGGREGATION, MergeEngine.FIRST_ROW}:
            raise self._refused("update", "merge-engine", _REPLACE)
        for name in assigned:
            self._check_assignable(name)

    def _check_assignable(self, name: str) -> None:
        if self._partial is None:
            return
        group = next((g for g in self._partial.groups if name in {*g.names, *g.columns}), None)
        if group is not None:
            option = f"fields.{','.join(group.names)}.sequence-group"
            advice = f"write rows with {name!r} and a newer {group.names[0]!r}, which is how its group is changed"
            raise self._refused(f"update {name!r} of", option, advice)
        function = self._partial.functions.get(name)
        if function is not None and function.name != "last_non_null_value":
            raise self._refused(f"update {name!r} of", function.option, "write rows that the function folds in")

    def _check_upsert(self, given: Collection[str]) -> None:
        """Refuse to upsert some columns if the engine cannot keep the others."""
        for group in () if self._partial is None else self._partial.groups:
            missing = [name for name in group.names if name not in given]
            touched = [name for name in (*group.names, *sorted(group.columns)) if name in given]
            if touched and missing:
                option = f"fields.{','.join(group.names)}.sequence-group"
                advice = f"add {missing[0]!r} to the data, which says whether {touched[0]!r} is newer"
                raise self._refused(f"upsert {touched[0]!r} without {missing[0]!r} into", option, advice)
        kept = self.columns_to_keep(given)
        for field in self.store.schema.fields:
            function = self._functions.get(field.name)
            if field.name in given or function is None or function.name in REPEATABLE:
                continue
            if field.name in kept or field.default_value is not None:
                advice = f"{function.name!r} would count a value of it once more; add the column to the data"
                raise self._refused(f"upsert without {field.name!r} into", function.option, advice)

    def _refused(self, verb: str, option: str, advice: str) -> UnsupportedError:
        value = self.store.schema.options.get(option, "true")
        return UnsupportedError(
            f"{self.store.name}: cannot {verb} a table with {option!r} = {value!r}, which would not do it; {advice}",
            table=self.store.name,
            option=option,
        )

    def check_deleted(self, old: pa.Table) -> None:
        """Refuse rows that a delete would not remove: those with null in the sequence fields of removing groups."""
        if not self._removing or self._partial is None or self._partial.remove_on_delete:
            return
        unset = np.ones(old.num_rows, np.bool_)
        for name in self._removing:
            unset &= old.column(name).is_null().to_numpy()
        if unset.any():
            option = CoreOptions.PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP.key()
            raise self._refused(f"delete rows without {', '.join(sorted(self._removing))} from", option, _REPLACE)

    def check_updated(self, old: pa.Table, values: pa.Table) -> None:
        """Refuse new values that would not take effect: a null that the engine ignores, or an older sequence field."""
        if self._partial is not None:
            for name in values.column_names:
                lost = pc.and_(pc.is_null(values.column(name)), pc.is_valid(old.column(name)))
                if pc.any(lost).as_py():
                    advice = f"'merge-engine' = 'partial-update' keeps the value that is there; {_REPLACE}"
                    raise UnsupportedError(
                        f"{self.store.name}: the column {name!r} cannot become null: {advice}",
                        table=self.store.name,
                        column=name,
                        option="merge-engine",
                    )
        if self.is_older(old, values).any():
            moved = [name for name in values.column_names if name in self._sequence]
            raise InvalidInputError(
                f"{self.store.name}: {', '.join(map(repr, moved))} would become older than it is, and of two rows with "
                "one key the one with the newer 'sequence.field' wins; assign a value that is not older",
                table=self.store.name,
                columns=tuple(moved),
                option="sequence.field",
            )

    def check_inserted(self, rows: pa.Table) -> None:
        """Refuse several new rows with one key, unless the engine folds them: only one of them would stay."""
        if self.folds or self.upserts or rows.num_rows <= 1:
            return
        fields = [self.store.schema.field(name) for name in self.store.schema.primary_keys]
        by_key = KeyOrder(fields).sorted(rows)
        again = np.flatnonzero(~by_key.new)
        if len(again):
            at = int(by_key.order[again[0]])
            key = {field.name: rows.column(field.name)[at].as_py() for field in fields}
            shown = ", ".join(f"{name} = {value!r}" for name, value in key.items())
            raise InvalidInputError(
                f"{self.store.name}: several rows with the key {shown} would be inserted, of which one would stay; "
                "keep one source row for each key, or use upsert. Nothing was changed.",
                table=self.store.name,
                key=key,
            )

    def is_older(self, old: pa.Table, values: pa.Table) -> Flags:
        """Return which rows would get older sequence fields than they have, so that the old row would win."""
        moved = [name for name in values.column_names if name in self._sequence]
        if not moved or not old.num_rows:
            return np.zeros(old.num_rows, np.bool_)
        names = [field.name for field in self.spec.sequence_fields]
        before = old.select(names)
        both = pa.concat_tables([before, _with_values(before, values.select(moved))])
        by_age = sorted_rows(both, self.spec.sequence)
        ranks = np.empty(len(both), np.int64)
        ranks[by_age.order] = np.cumsum(by_age.new)
        return ranks[old.num_rows :] < ranks[: old.num_rows]


class RowSink(Protocol):
    """Takes rows with row kinds: a writer, or a sender to a writer."""

    def write(self, data: pa.Table, *, row_kinds: pa.Array | None = None) -> int:
        """Write rows; without `row_kinds`, a column of the table holds them."""

    def delete(self, keys: pa.Table) -> int:
        """Write deletes for keys; other columns may be missing."""


class RowKindWriter:
    """Turns deletes, updates and inserts into rows with row kinds, for a sink; `upserts` is that of `KeyedRules`."""

    def __init__(self, store: TableStore, sink: RowSink, *, upserts: bool = False) -> None:
        self.rules = KeyedRules.of(store, upserts=upserts)
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

    def finish(self, *, unchanged: str = "bucket", reads: Iterable[str] = ()) -> Prepared:
        """Finish the files; the commit fails if somebody wrote to the scope `unchanged`, or wider if keys may move."""
        messages = tuple(self._writer.prepare())
        deleted, updated, inserted = self.counts.values()
        scope = guard_scope(unchanged, self._mode)
        return Prepared(messages, deleted, updated, inserted, ChangeMethod.KEYED, scope, tuple(reads))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()  # removes files that `finish` did not return


def guard_scope(unchanged: str, mode: BucketMode) -> str:
    """Return the scope in which nobody may write meanwhile; it is wider where a key has no fixed bucket."""
    if mode is BucketMode.KEY_DYNAMIC or unchanged == "table":
        return "table"
    return "partition" if mode is BucketMode.POSTPONE else unchanged


def _with_values(rows: pa.Table, values: pa.Table) -> pa.Table:
    """Return rows with some columns replaced."""
    columns = [values.column(n) if n in values.column_names else rows.column(n) for n in rows.column_names]
    return pa.Table.from_arrays(columns, schema=rows.schema)


@dataclass(frozen=True, slots=True)
class KeyedChange:
    """A delete or update of the rows that fulfil a predicate, in one attempt; workers get it as a value."""

    store: TableStore
    job: WriteJob
    predicate: Predicate
    assignments: Assignments | None = None  # None: the rows are deleted

    def apply(self, splits: Sequence[DataSplit], task: int = 0, attempt: int = 0) -> Prepared:
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


RunBuckets: TypeAlias = Callable[[KeyedChange, Sequence[DataSplit]], Iterable[Prepared]]  # applies it, on workers


def keyed_job(store: TableStore) -> WriteJob:
    """Return a write of whole rows and of deletes, in which null does not become the column's default."""
    schema = store.schema
    plain = store.with_schema(replace(schema, fields=without_defaults(schema.fields)))
    return WriteJob.new(plain, real_buckets=schema.bucket_mode is BucketMode.POSTPONE)


def prepare_delete(
    store: TableStore, base: Snapshot | None, predicate: Predicate, run: RunBuckets | None = None
) -> Prepared:
    """Delete the rows of a snapshot that fulfil a predicate."""
    return _prepare(KeyedChange(store, keyed_job(store), predicate), base, run)


def prepare_update(
    store: TableStore,
    base: Snapshot | None,
    assignments: Assignments,
    predicate: Predicate,
    run: RunBuckets | None = None,
) -> Prepared:
    """Set columns of the rows of a snapshot that fulfil a predicate."""
    return _prepare(KeyedChange(store, keyed_job(store), predicate, assignments), base, run)


def _prepare(change: KeyedChange, base: Snapshot | None, run: RunBuckets | None) -> Prepared:
    """Change rows of a snapshot, in this process or with `run` on workers, where a task has whole buckets."""
    base = distribute_postponed(change.store, base)
    splits = () if base is None else merged_splits(change.store, base, change.predicate)
    if not splits:
        return Prepared(way=ChangeMethod.KEYED)
    if run is None:
        return change.apply(splits)
    parts = list(run(change, splits))
    return Prepared(
        tuple(message for part in parts for message in part.messages),
        sum(part.deleted for part in parts),
        sum(part.updated for part in parts),
        way=ChangeMethod.KEYED,
        unchanged=guard_scope("bucket", change.store.schema.bucket_mode),
    )


def merged_rows(
    store: TableStore, base: Snapshot, columns: Sequence[str], predicate: Predicate = TRUE
) -> Iterator[pa.Table]:
    """Yield the merged rows of a snapshot that fulfil a predicate, always with level 0."""
    yield from read_merged(store, merged_splits(store, base, predicate), columns, predicate)


def merged_splits(store: TableStore, base: Snapshot, predicate: Predicate = TRUE) -> list[DataSplit]:
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
    return store.with_schema(store.schema.with_options(_MERGE_ON_READ)) if store.options.hides_level_0() else store


def distribute_postponed(store: TableStore, base: Snapshot | None) -> Snapshot | None:
    """Distribute rows that wait for a bucket to buckets, in a commit of its own; return a snapshot without such rows.

    That is the given snapshot if no rows wait.
    """
    if base is None or store.schema.bucket_mode is not BucketMode.POSTPONE:
        return base
    waiting = store.manifests.live(base, keep=lambda _partition, bucket, _total, _level: bucket == POSTPONE)
    if not waiting:
        return base
    if store.options.get(CoreOptions.WRITE_ONLY):
        raise UnsupportedError(
            f"{store.name}: rows wait for a bucket in {counted(len(waiting), 'file')}, where no read finds "
            "them, and the table is 'write-only' = 'true'; compact it first, with "
            "table.copy({'write-only': 'false'}).compact()",
            table=store.name,
            option="write-only",
        )
    distribute(store)
    return store.snapshots.latest()

"""Merges into primary-key tables bucket by bucket: source rows of some buckets in, files of changed rows out.

If the columns that must be equal hold the bucket and the partition of a row, a source row can match only rows of one
bucket, and the row that is inserted for it belongs there too. So a task that gets the files of a bucket and its source
rows does the whole merge of the bucket, with the embedded code: the table is read once, and no row of it travels.

What always holds: all source rows of a bucket, in the order of the source, and all its files come to one task; an
insert takes effect after every change, as embedded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakewright.distributed.job import TaskId
from lakewright.distributed.messages import pack
from lakewright.distributed.rows.buckets import one_reader
from lakewright.distributed.rows.merge import pack_counts, source_name, source_rows
from lakewright.distributed.write_job import single_threaded
from lakewright.errors import InvalidInputError
from lakewright.metadata.store import TableStore
from lakewright.read.scan import FileSchemas, entry_pruner
from lakewright.read.splits.shares import part_of
from lakewright.read.splits.split import DataSplit
from lakewright.spec.arrow import from_arrow_type, to_arrow_type
from lakewright.spec.manifest import ADD, ManifestEntry
from lakewright.spec.options import CoreOptions
from lakewright.spec.predicate.predicate import TRUE, Predicate
from lakewright.spec.schema.table_schema import BucketMode
from lakewright.spec.types import BINARY_ROOTS, FLOAT_ROOTS, TEXT_ROOTS, AtomicType, DataField
from lakewright.update.merge.clauses import MergePlan
from lakewright.update.merge.merge import keyed_columns, pruning, write_merge
from lakewright.update.merge.upsert import newest_rows
from lakewright.update.primary_key import KeyedWriter, keyed_job, read_merged
from lakewright.update.values import ColumnRef, Side
from lakewright.write.buckets.routing import Group, Routing, route
from lakewright.write.writer import WriteJob

_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})


@dataclass(frozen=True, slots=True)
class BucketRoute:
    """Finds the bucket of the rows that a source row may match, by columns of the source."""

    routing: Routing  # of columns `k0`, `k1`, ... so that no name clashes with those of the source
    columns: tuple[tuple[DataField, str], ...]  # of each of them, and the column of the source that it is taken from

    @classmethod
    def of(cls, store: TableStore, plan: MergePlan, source: pa.Schema) -> BucketRoute | None:
        """Return the route of a merge; None: its condition does not say in which bucket the matches are."""
        schema, options = store.schema, store.options
        if schema.bucket_mode is not BucketMode.HASH_FIXED:
            return None
        equal = {field.name: name for field, name in reversed(plan.on)}
        needed = (*schema.partition_fields, *schema.bucket_fields)
        if not all(f.name in equal and _hash_alike(f, source.field(equal[f.name])) for f in needed):
            return None
        if not all(_stays(plan, field.name, equal[field.name]) for field in needed):
            return None
        named = [replace(field, name=f"k{at}") for at, field in enumerate(needed)]
        parts = len(schema.partition_fields)
        routing = Routing(
            store.name,
            tuple(named[:parts]),
            tuple(named[parts:]),
            options.bucket(),
            options.get(CoreOptions.BUCKET_FUNCTION_TYPE),
        )
        places = [source_name(plan.source_columns.index(equal[field.name])) for field in needed]
        return cls(routing, tuple(zip(named, places, strict=True)))

    def groups(self, rows: pa.Table) -> list[Group]:
        """Return source rows, in columns `s0`, `s1`, ..., by the bucket in which they may match."""
        names = rows.column_names
        for field, source in self.columns:
            # A number that does not fit the key's type matches nothing, so it may go anywhere.
            rows = rows.append_column(field.name, rows.column(source).cast(to_arrow_type(field.type), safe=False))
        return [replace(group, rows=group.rows.select(names)) for group in route(rows, self.routing)]


@dataclass(frozen=True, slots=True)
class BucketMerge:
    """Merges the source rows of some buckets into them, on a worker."""

    store: TableStore
    plan: MergePlan
    job: WriteJob
    schema: pa.Schema  # of source rows: columns `s0`, `s1`, ...
    newest: bool = False  # of source rows with one key only the newest counts, as in an upsert

    @classmethod
    def of(cls, store: TableStore, plan: MergePlan, source: pa.Schema, *, newest: bool = False) -> BucketMerge:
        """Return the merge of a source with these columns."""
        fields = [source.field(name).with_name(source_name(at)) for at, name in enumerate(plan.source_columns)]
        return cls(store, plan, keyed_job(store), pa.schema(fields), newest)

    def shipped(self, *, threads: bool) -> BucketMerge:
        """Return the work for tasks; with `threads` there are fewer of them than cores, so each uses several."""
        return replace(self, store=self.store if threads else one_reader(self.store), job=single_threaded(self.job))

    def sent(self, rows: pa.Table) -> pa.Table:
        """Return source rows in the types in which they travel to their tasks."""
        known = source_rows(self.plan, rows)
        return pa.Table.from_arrays(known.columns, names=self.schema.names).cast(self.schema)

    def run(self, this: TaskId, buckets: Iterable[tuple[Sequence[DataSplit], Sequence[pa.Table]]]) -> bytes:
        """Merge into one bucket after the other; each comes with its files and its source rows, in their order."""
        held_max = max(1 << 20, self.store.options.get(CoreOptions.WRITE_BUFFER_SIZE)) // 4
        with KeyedWriter(self.store, self.job, this.number, this.attempt, upserts=self.plan.upserts) as writer:
            for splits, rows in buckets:
                self._merge(writer, splits, rows)
                writer.flush_above(held_max)
            made = writer.finish()
        return pack_counts(made) + pack(made.messages)

    def _merge(self, writer: KeyedWriter, splits: Sequence[DataSplit], rows: Sequence[pa.Table]) -> None:
        if not rows and not self.plan.by_source:
            return
        source = source_rows(self.plan, pa.concat_tables([self.schema.empty_table(), *rows]))
        matcher = self.plan.matcher(newest_rows(self.store, self.plan, source) if self.newest else source)
        predicate = pruning(self.plan, matcher)
        columns = keyed_columns(self.plan, writer.rules)
        target = read_merged(self.store, in_reach(self.store, splits, predicate), columns, predicate)
        write_merge(writer, self.plan, matcher, target)


def in_reach(store: TableStore, splits: Iterable[DataSplit], predicate: Predicate) -> list[DataSplit]:
    """Return splits of a primary-key table without the files that hold no key which fulfils a predicate."""
    if predicate == TRUE:
        return list(splits)
    pruner, schemas, keys = entry_pruner(store, predicate), FileSchemas(store), store.schema.trimmed_primary_key_fields
    found = []
    for split in splits:
        entries = (ManifestEntry(ADD, split.partition_bytes, split.bucket, split.total_buckets, f) for f in split.files)
        reached = (pruner.key_may_match(entry, schemas.fields_of(entry.file.schema_id), keys) for entry in entries)
        kept = [at for at, is_reached in enumerate(reached) if is_reached]
        found += [part_of(split, kept)] if kept else []
    return found


def _hash_alike(field: DataField, given: pa.Field) -> bool:
    """Return whether values of a source column that equal a key lead to the bucket of that key."""
    own = field.type
    try:
        other = from_arrow_type(given.type, column=given.name)
    except InvalidInputError:
        return False
    if not isinstance(own, AtomicType) or not isinstance(other, AtomicType) or own.root in FLOAT_ROOTS:
        return False  # the two zeros of floats are equal, and are in different buckets
    alike = any({own.root, other.root} <= roots for roots in (_INTEGERS, TEXT_ROOTS, BINARY_ROOTS))
    return alike or own.type == other.type


def _stays(plan: MergePlan, column: str, source: str) -> bool:
    """Return whether every row that is inserted takes a column from a source column."""
    for rule in plan.not_matched:
        given = rule.assignments
        terms = {} if given is None else dict(zip(given.names, given.terms, strict=True))
        term = terms.get(column)
        if not (isinstance(term, ColumnRef) and term == ColumnRef(Side.SOURCE, source)):
            return False
    return True

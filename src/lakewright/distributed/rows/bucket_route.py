"""Which bucket a source row of a merge belongs to: rows of the source in, groups of rows that one task must get out.

If the columns that must be equal hold the bucket and the partition of a row, a source row can match only rows of one
bucket, and the row that is inserted for it belongs there too. Fixed buckets follow from the columns. Dynamic buckets
are looked up by the hash of the key in the index files of the snapshot that the merge reads: a hash that is not there
is that of a new key, whose rows go to the task that assigns buckets to such keys, as in a write.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lakewright.distributed.rows.merge import source_name
from lakewright.errors import InvalidInputError
from lakewright.metadata.store import TableStore
from lakewright.spec.arrow import from_arrow_type, to_arrow_type
from lakewright.spec.buckets import row_hashes
from lakewright.spec.options import CoreOptions
from lakewright.spec.schema.table_schema import BucketMode
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.types import BINARY_ROOTS, FLOAT_ROOTS, TEXT_ROOTS, AtomicType, DataField
from lakewright.update.merge.clauses import MergePlan
from lakewright.update.values import ColumnRef, Side
from lakewright.write.buckets.assign import channels_of
from lakewright.write.buckets.lookup import NEW, KeyLookup
from lakewright.write.buckets.routing import (
    Group,
    Routing,
    number_partitions,
    place_rows,
    route,
    run_bounds,
    stable_order,
)
from lakewright.write.shuffle import Receivers

_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})

Grouping: TypeAlias = Callable[[pa.Table], list[Group]]  # source rows, in columns `s0`, `s1`, ..., by bucket


@dataclass(frozen=True, slots=True)
class BucketReceivers(Receivers):
    """The tasks of a merge: each has whole buckets, and new keys of some partitions.

    A group of new keys has a negative bucket: that of assigner `a` is `a - assigners`.
    """

    def of(self, group: Group, mode: BucketMode) -> int:  # noqa: ARG002 - the number of the bucket says it
        """Return the number of the task that receives a group."""
        if group.bucket >= 0:
            return Receivers.of(self, group, BucketMode.HASH_FIXED)
        return Receivers.of(self, replace(group, bucket=group.bucket + self.assigners), BucketMode.HASH_DYNAMIC)


@dataclass(frozen=True, slots=True)
class BucketRoute:
    """Finds the bucket of the rows that a source row may match, by columns of the source."""

    routing: Routing  # of columns `k0`, `k1`, ... so that no name clashes with those of the source
    columns: tuple[tuple[DataField, str], ...]  # of each of them, and the column of the source that it is taken from
    keys: tuple[DataField, ...] = ()  # of dynamic buckets: those of the columns whose hash is looked up

    @classmethod
    def of(cls, store: TableStore, plan: MergePlan, source: pa.Schema) -> BucketRoute | None:
        """Return the route of a merge; None: its condition does not say in which bucket the matches are."""
        schema, options, mode = store.schema, store.options, store.schema.bucket_mode
        if mode not in {BucketMode.HASH_FIXED, BucketMode.HASH_DYNAMIC}:
            return None
        is_dynamic = mode is BucketMode.HASH_DYNAMIC
        equal = {field.name: name for field, name in reversed(plan.on)}
        needed = (
            *schema.partition_fields,
            *(schema.trimmed_primary_key_fields if is_dynamic else schema.bucket_fields),
        )
        if not all(f.name in equal and _hash_alike(f, source.field(equal[f.name])) for f in needed):
            return None
        if not all(_stays(plan, field.name, equal[field.name]) for field in needed):
            return None
        named = tuple(replace(field, name=f"k{at}") for at, field in enumerate(needed))
        parts = len(schema.partition_fields)
        partition, bucketed = named[:parts], named[parts:]
        places = [source_name(plan.source_columns.index(equal[field.name])) for field in needed]
        columns = tuple(zip(named, places, strict=True))
        if is_dynamic:
            return cls(Routing(store.name, partition), columns, bucketed)
        function = options.get(CoreOptions.BUCKET_FUNCTION_TYPE)
        return cls(Routing(store.name, partition, bucketed, options.bucket(), function), columns)

    def grouping(self, store: TableStore, base: Snapshot | None, assigners: int) -> Grouping:
        """Return what puts source rows into groups, in one task; dynamic buckets are those of a snapshot."""
        if not self.keys:
            return self._by_bucket
        lookup = KeyLookup(store, base)
        return lambda rows: self._by_known_bucket(rows, lookup, assigners)

    def _by_bucket(self, rows: pa.Table) -> list[Group]:
        named = route(self._with_keys(rows), self.routing)
        return [replace(group, rows=group.rows.select(rows.column_names)) for group in named]

    def _by_known_bucket(self, rows: pa.Table, lookup: KeyLookup, assigners: int) -> list[Group]:
        if not rows.num_rows:
            return []
        keyed = self._with_keys(rows)
        hashes = row_hashes([keyed.column(key.name) for key in self.keys], [key.type for key in self.keys])
        numbers, partitions = number_partitions(keyed, self.routing)
        buckets = np.empty(len(hashes), np.int32)
        order = stable_order(numbers)
        for at in np.split(order, run_bounds(numbers[order])[1:-1]):
            buckets[at] = lookup.buckets(partitions[int(numbers[at[0]])], hashes[at])
        # Rows are placed by numbers that are not negative: first those of the assigners, then those of the buckets.
        channels = channels_of(0, hashes, channels=assigners, assigners=assigners)
        places = np.where(buckets == NEW, channels, buckets + assigners)
        groups = place_rows(keyed, self.routing, (numbers, partitions), places)
        names = rows.column_names
        return [replace(group, bucket=group.bucket - assigners, rows=group.rows.select(names)) for group in groups]

    def _with_keys(self, rows: pa.Table) -> pa.Table:
        for field, source in self.columns:
            # A number that does not fit the key's type matches nothing, so it may go anywhere.
            rows = rows.append_column(field.name, rows.column(source).cast(to_arrow_type(field.type), safe=False))
        return rows


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

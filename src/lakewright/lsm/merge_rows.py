"""Rows of one key become one: deduplicate and first-row; registry of folding engines.

Merge order, inside a key: the sequence fields (null is the oldest), then the sequence number, then retracts before
adds. A key with one row passes untouched, whatever the engine and the kind of the row. Folding the oldest rows first
and the result with the rest later gives what folding all of them gives. Where older rows are missing, as in a write
buffer, this holds for rows that add; those that retract are folded with `fold_apart`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lakewright.errors import InvalidInputError, LakewrightError, UnsupportedError, with_table_name
from lakewright.lsm.aggregation import Aggregation, check_aggregation
from lakewright.lsm.key_groups import KeyGroups, MergeFunction, merge_several, take_sorted_rows
from lakewright.lsm.key_order import KeyOrder, SortColumn, Sorted, table_parts
from lakewright.lsm.normalized_keys import Flags, UInt64Array, normalize_columns, number_part
from lakewright.lsm.partial_update import PartialUpdate, check_partial_update
from lakewright.spec.arrow_take import take_rows
from lakewright.spec.merge_engine import MergeEngine
from lakewright.spec.option_values import SortOrder
from lakewright.spec.system_columns import DELETE, LEVEL, RETRACTS, SEQUENCE_NUMBER, UPDATE_BEFORE, VALUE_KIND
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import DataField


class FoldingEngine(NamedTuple):
    """How the merge function of an engine is made from a schema, and what checks the options of a new table."""

    make: Callable[[TableSchema], MergeFunction]
    check: Callable[[TableSchema], None]


# Merge engines that compute a row from several.
MERGE_FUNCTIONS: Mapping[MergeEngine, FoldingEngine] = {
    MergeEngine.PARTIAL_UPDATE: FoldingEngine(PartialUpdate.of_schema, check_partial_update),
    MergeEngine.AGGREGATION: FoldingEngine(Aggregation.of_schema, check_aggregation),
}
_MERGE_COLUMNS = frozenset({SEQUENCE_NUMBER.name, VALUE_KIND.name, LEVEL.name})  # their values decide on the order


@dataclass(frozen=True, slots=True)
class MergeRules:
    """How the rows of one table are merged."""

    table: str  # its name, for messages
    schema: TableSchema
    key: KeyOrder
    engine: MergeEngine
    sequence: tuple[SortColumn, ...]
    ignore_delete: bool
    needs_lookup: bool
    function: MergeFunction | None  # None where a merge keeps one of the rows as it is

    @classmethod
    def of_schema(cls, schema: TableSchema, *, table: str = "") -> MergeRules:
        """Read from a schema how its rows are merged, and refuse what is not supported."""
        options = schema.table_options
        engine = options.merge_engine
        if not engine.traits.keeps_one_row and engine not in MERGE_FUNCTIONS:
            raise UnsupportedError(f"the merge engine {engine.value!r} is not supported", table=table)
        descending = options.sequence_field_sort_order is SortOrder.DESCENDING
        return cls(
            table=table,
            schema=schema,
            key=KeyOrder(schema.trimmed_primary_key_fields),
            engine=engine,
            sequence=tuple(SortColumn(schema.field(name), descending) for name in options.sequence_field),
            ignore_delete=options.ignore_delete,
            needs_lookup=options.needs_lookup and not engine.traits.keeps_first_row,
            function=_function(schema, engine, table),
        )

    @property
    def sequence_fields(self) -> tuple[DataField, ...]:
        """The sequence fields of the table."""
        return tuple(column.field for column in self.sequence)

    def needed_columns(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return the columns that a merge must read to give these, in schema order."""
        names = frozenset(columns)
        names |= {*self.key.names, *(field.name for field in self.sequence_fields)}
        if self.function is not None:
            names |= self.function.needed_columns(names)
        return tuple(name for name in self.schema.field_names if name in names)

    def fold(self, rows: pa.Table) -> pa.Table:
        """Merge rows in any order to one row per key, in key order; kinds stay, `_LEVEL` goes."""
        return self.fold_groups(merge_order(rows, self))

    def fold_groups(self, groups: KeyGroups) -> pa.Table:
        """Merge rows that stand in merge order already."""
        if self.function is None:
            return take_sorted_rows(groups.rows, _winners(groups, self))
        with with_table_name(self.table):
            return merge_several(groups, self.function.merge)

    @property
    def keeps_apart(self) -> bool:
        """Whether rows that retract are only merged exactly together with all older rows of their keys."""
        return self.function is not None and self.function.keeps_apart

    def fold_apart(self, groups: KeyGroups) -> list[pa.Table]:
        """Merge rows in merge order whose older rows are elsewhere, to tables with one row per key at most, by age.

        There is one table, unless rows retract what only older rows tell. The last has all keys but those whose rows do
        nothing, whatever the older ones are.
        """
        if self.function is None or not self.keeps_apart or not has_retracts(groups.rows):
            return [self.fold_groups(groups)]
        with with_table_name(self.table):
            return self.function.merge_apart(groups)

    @property
    def keeps_rows(self) -> bool:
        """Whether a merge keeps one row of each key as it is, and only leaves the others out."""
        return self.function is None

    def winners(self, rows: pa.Table) -> UInt64Array:
        """Return the positions of the rows, in any order, that a merge keeps and that do not delete; by key."""
        if not self.keeps_rows:
            raise UnsupportedError(
                f"the merge engine {self.engine.value!r} of the table {self.table!r} computes rows from several: no "
                "row wins as it is",
                table=self.table,
            )
        winners = _winners(merge_order(rows, self), self)
        retracts = _retracts(rows)
        return winners[~retracts.take(winners)] if retracts.any() else winners

    def check_kinds(self, kinds: AbstractSet[int]) -> None:
        """Refuse kinds of rows that no merge can take.

        A key with one row is not merged, so without this check such a row would be written, and every later merge of
        its key would fail.
        """
        if not self.engine.traits.accepts_deletes and not kinds.isdisjoint(RETRACTS) and not self.ignore_delete:
            raise _no_retracts(self)
        if self.function is not None:
            with with_table_name(self.table):
                self.function.check_kinds(kinds)


def _function(schema: TableSchema, engine: MergeEngine, table: str) -> MergeFunction | None:
    if engine not in MERGE_FUNCTIONS:
        return None
    with with_table_name(table):
        return MERGE_FUNCTIONS[engine].make(schema)


def check_merging(schema: TableSchema) -> None:
    """Refuse a new table whose options for merging contradict each other, cannot work or would do nothing."""
    if not schema.primary_keys:
        return
    engine = MergeRules.of_schema(schema).engine
    if engine in MERGE_FUNCTIONS:
        MERGE_FUNCTIONS[engine].check(schema)


def check_merging_kept(old: TableSchema, new: TableSchema) -> None:
    """Refuse changes after which rows cannot be merged any more; a table that could not be merged before may change."""
    try:
        check_merging(new)
    except LakewrightError:
        if _can_merge(old):
            raise


def _can_merge(schema: TableSchema) -> bool:
    try:
        check_merging(schema)
    except LakewrightError:
        return False
    return True


def merge_order(rows: pa.Table, spec: MergeRules, at: UInt64Array | None = None) -> KeyGroups:
    """Order rows by key and, inside a key, from the oldest to the latest; without rows that the lookup rule hides.

    With `at` only the rows at these positions are merged.
    """
    if at is not None:
        return _order_of_some(rows, spec, at)
    ordered = spec.key.sort_rows(rows)
    if spec.needs_lookup and LEVEL.name in rows.column_names:
        ordered = _nearest(ordered, rows.column(LEVEL.name).to_numpy())
    starts = np.flatnonzero(ordered.new)
    if len(starts) < len(ordered.order):
        _order_by_age(ordered, rows, spec)
    if LEVEL.name in rows.column_names:
        rows = rows.drop_columns([LEVEL.name])
    return KeyGroups(rows, ordered.order, starts, np.append(starts, len(ordered.order))[1:])


def _order_of_some(rows: pa.Table, spec: MergeRules, at: UInt64Array) -> KeyGroups:
    """Order the rows at some positions; where all keys differ, nothing but the keys is looked at."""
    ordered = spec.key.sort_rows(take_rows(rows.select(spec.key.names), at))
    if LEVEL.name not in rows.column_names and bool(ordered.new.all()):
        starts = np.arange(len(at))
        return KeyGroups(rows, at.take(ordered.order), starts, starts + 1)
    compared = {*spec.key.names, *(field.name for field in spec.sequence_fields), *_MERGE_COLUMNS}
    some = merge_order(take_rows(rows.select([name for name in rows.column_names if name in compared]), at), spec)
    rest = rows.drop_columns([LEVEL.name]) if LEVEL.name in rows.column_names else rows
    return KeyGroups(rest, at.take(some.order), some.starts, some.ends)


def drop_retracts(rows: pa.Table) -> pa.Table:
    """Leave out the rows of kind -U and -D."""
    retracts = _retracts(rows)
    return rows.filter(pa.array(np.logical_not(retracts))) if retracts.any() else rows


def has_retracts(rows: pa.Table) -> bool:
    """Whether any row is of kind -U or -D."""
    return bool(_retracts(rows).any())


def _retracts(rows: pa.Table) -> Flags:
    kinds = rows.column(VALUE_KIND.name).to_numpy()
    flags: Flags = (kinds == UPDATE_BEFORE) | (kinds == DELETE)
    return flags


def _order_by_age(ordered: Sorted, rows: pa.Table, spec: MergeRules) -> None:
    """Put the rows of each key from the oldest to the latest."""
    numbers, retracts = rows.column(SEQUENCE_NUMBER.name).to_numpy(), _retracts(rows)
    if not spec.sequence and not retracts.any() and bool((numbers[1:] >= numbers[:-1]).all()):
        return  # they came from the oldest to the latest, and rows of one key have kept their order
    parts = table_parts(rows, spec.sequence)
    parts.append(number_part(numbers))
    parts.append(number_part(np.logical_not(retracts).view(np.uint8)))
    inner = Sorted(ordered.order, ordered.new.copy())
    for layer in normalize_columns(parts):
        inner.refine(layer)


def _nearest(ordered: Sorted, levels: UInt64Array) -> Sorted:
    """Keep of each key the rows of level 0 and the row of the lowest other level, which was merged with deeper ones."""
    in_order = levels.take(ordered.order)
    deep = in_order > 0
    if not deep.any():
        return ordered
    starts = np.flatnonzero(ordered.new)
    nearest = np.minimum.reduceat(np.where(deep, in_order, np.iinfo(in_order.dtype).max), starts)
    keep = ~deep
    keep |= in_order == np.repeat(nearest, np.diff(starts, append=len(in_order)))
    if keep.all():
        return ordered
    group = np.cumsum(ordered.new)[keep]
    new = np.ones(len(group), np.bool_)
    np.not_equal(group[1:], group[:-1], out=new[1:])
    return Sorted(ordered.order[keep], new)


def _winners(groups: KeyGroups, spec: MergeRules) -> UInt64Array:
    """Return the position of the row that wins each key; a key of several rows that are all ignored has none."""
    first_row = spec.engine.traits.keeps_first_row
    ignored = _ignored_retracts(groups, spec) if spec.ignore_delete or not spec.engine.traits.accepts_deletes else None
    if ignored is None:
        return groups.order.take(groups.starts if first_row else groups.ends - 1)
    at = np.flatnonzero(~ignored)
    group = np.searchsorted(groups.starts, at, side="right")
    edge = np.ones(len(at), np.bool_)
    np.not_equal(group[1:], group[:-1], out=edge[1:] if first_row else edge[:-1])
    return groups.order.take(at[edge])


def _ignored_retracts(groups: KeyGroups, spec: MergeRules) -> Flags | None:
    """Say which places in the order hold retracts that do not count; None where there are none."""
    retracts = _retracts(groups.rows)
    if not retracts.any():
        return None
    counts = groups.ends - groups.starts
    ignored = retracts.take(groups.order) & np.repeat(counts > 1, counts)
    if not ignored.any():
        return None
    if not spec.ignore_delete:
        raise _no_retracts(spec)
    return ignored


def _no_retracts(spec: MergeRules) -> InvalidInputError:
    return InvalidInputError(
        f"the merge engine {spec.engine} of the table {spec.table!r} accepts no deletes, but a row of kind -U or -D"
        " came: leave such rows out, or set 'ignore-delete' = true",
        table=spec.table,
        option="ignore-delete",
    )

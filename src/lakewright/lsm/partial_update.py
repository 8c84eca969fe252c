"""The merge engine partial-update and its sequence groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lakewright.errors import InvalidInputError
from lakewright.lsm.aggregation import aggregate_column, check_retractable, last_non_null, last_value
from lakewright.lsm.column_functions import (
    LAST_NON_NULL,
    ColumnFunction,
    check_takes_no_function,
    column_function,
    named_function,
    option_of,
)
from lakewright.lsm.key_groups import (
    ADD,
    LATE,
    RESET,
    RETRACT,
    ColumnSteps,
    KeyGroups,
    Ops,
    clear_deleted,
    merge_several,
    one_array,
    split_at_deletes,
    without_other_rows,
)
from lakewright.lsm.key_order import SortColumn, sort_layers, table_parts
from lakewright.lsm.normalized_keys import Flags, UInt64Array, normalize_columns
from lakewright.spec.option_table import FIELD_OPTION
from lakewright.spec.system_columns import DELETE, INSERT, RETRACTS, SEQUENCE_NUMBER, UPDATE_BEFORE, VALUE_KIND
from lakewright.spec.table_options import TableOptions
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import AtomicType, DataField

# ---- Sequence groups -------------------------------------------------------------------------------------------------
# A group has sequence fields of its own. A row whose sequence fields are all null does not touch the group. Otherwise
# it is compared with the newest so far, null being the oldest. A row that removes the whole record leaves its own
# sequence fields behind, in all groups, so what follows is compared with those.

_SHORT_BITS = 32  # numbers so short are ranks as they are, and leave room for the number of the key


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """Columns that follow sequence fields of their own."""

    fields: tuple[DataField, ...]  # which say how new a row is
    columns: frozenset[str]  # which follow them
    removes: bool  # whether a -D that is new enough removes the whole record

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sequence fields."""
        return tuple(field.name for field in self.fields)


@dataclass(frozen=True, slots=True)
class Recency:
    """How new each row of `groups.order` is beside the rows of its key before it, for one sequence group."""

    ranks: UInt64Array  # 0 where the row does not touch the group, else higher for newer rows
    newest: Flags  # whether a row is as new as all before it

    @property
    def touches(self) -> Flags:
        """Which rows have sequence fields at all."""
        return self.ranks > 0


def compare_recency(
    groups: KeyGroups, sequences: Sequence[SequenceGroup], ignored: Flags, deletes: Flags
) -> list[Recency]:
    """Compare every row with those before it; `ignored` rows change nothing, `deletes` may remove the record."""
    owners = np.repeat(np.arange(len(groups)), groups.ends - groups.starts)
    recencies = []
    for sequence in sequences:
        ranks = np.where(ignored, 0, _ranks(groups, sequence))
        recencies.append(Recency(ranks, ranks >= _highest_before(ranks, owners, groups.starts)))
    # The comparison is right up to the first removal of a key, so only keys with a removal are compared again.
    removed = removals(recencies, sequences, deletes)
    if removed.any():
        again = np.unique(owners[removed])
        _compare_again(recencies, sequences, deletes, groups.starts[again], groups.ends[again])
    return recencies


def removals(recencies: Sequence[Recency], sequences: Sequence[SequenceGroup], deletes: Flags) -> Flags:
    """Return which rows remove the whole record."""
    removed = np.zeros(len(deletes), np.bool_)
    for recency, sequence in zip(recencies, sequences, strict=True):
        if sequence.removes:
            removed |= deletes & recency.touches & recency.newest
    return removed


def _ranks(groups: KeyGroups, sequence: SequenceGroup) -> UInt64Array:
    """Return numbers that compare as the sequence fields of rows do, 0 where all are null."""
    columns = groups.rows.select(list(sequence.names)).take(pa.array(groups.order))
    layers = normalize_columns(table_parts(columns, [SortColumn(field) for field in sequence.fields]))
    if len(layers) == 1 and layers[0].bits <= _SHORT_BITS:
        ranks = layers[0].words().astype(np.int64) + 1
    else:
        ordered = sort_layers(layers, len(columns))
        ranks = np.empty(len(columns), np.int64)
        ranks[ordered.order] = np.cumsum(ordered.new)
    for name in sequence.names:
        if columns.column(name).null_count == 0:
            return ranks
    empty = np.logical_and.reduce([columns.column(name).is_null().to_numpy() for name in sequence.names])
    ranks[empty] = 0
    return ranks


def _highest_before(ranks: UInt64Array, owners: UInt64Array, starts: UInt64Array) -> UInt64Array:
    """Return the highest rank among the rows of the same key that come before each row, 0 for the first."""
    width = int(ranks.max(initial=0)) + 1
    highest = np.maximum.accumulate(owners * width + ranks)
    before = np.zeros(len(ranks), np.int64)
    before[1:] = highest[:-1] - owners[1:] * width
    before[starts] = 0
    return before


def _compare_again(
    recencies: Sequence[Recency],
    sequences: Sequence[SequenceGroup],
    deletes: Flags,
    starts: UInt64Array,
    ends: UInt64Array,
) -> None:
    """Compare the rows of some keys again, first the first of each key, then the second, and so on."""
    highest = np.zeros((len(recencies), len(starts)), np.int64)
    alive = np.arange(len(starts))
    for depth in range(int((ends - starts).max(initial=0))):
        alive = alive[starts[alive] + depth < ends[alive]]
        at = starts[alive] + depth
        removed = np.zeros(len(at), np.bool_)
        for recency, sequence, before in zip(recencies, sequences, highest, strict=True):
            recency.newest[at] = recency.ranks[at] >= before[alive]
            if sequence.removes:
                removed |= deletes[at] & recency.newest[at] & (recency.ranks[at] > 0)
        for recency, before in zip(recencies, highest, strict=True):
            ranks = recency.ranks[at]
            before[alive] = np.where(removed, ranks, np.maximum(before[alive], ranks))


# ---- The merge engine ------------------------------------------------------------------------------------------------
# Without sequence groups a value that is not null replaces the one before. With them each group of columns follows
# its own sequence fields: a row that is as new as the newest brings all columns of the group, nulls too, and one that
# is older brings only what functions make of it. Retracts are an error unless an option says what they mean; if the
# very first row of a key is one, the record begins with its values.

_REMOVE = TableOptions.partial_update_remove_record_on_delete
_REMOVE_GROUP = TableOptions.partial_update_remove_record_on_sequence_group
_EXACT = frozenset({"sum"})  # functions whose retracts are told by the merged value, also where it is late
_SKIP = -1  # of an op: the row does nothing to the column


@dataclass(frozen=True, slots=True)
class PartialUpdate:
    """How a table of the merge engine partial-update makes one row of several."""

    functions: Mapping[str, ColumnFunction]  # of columns that have one
    groups: tuple[SequenceGroup, ...]
    keys: frozenset[str]
    required: frozenset[str]  # columns that must not be null
    ignore_delete: bool
    remove_on_delete: bool
    clearable: frozenset[str]  # columns of which a row that removes the record needs no value

    @classmethod
    def of_schema(cls, schema: TableSchema) -> PartialUpdate:
        """Read groups and functions, and refuse what does not exist or does not fit."""
        options = schema.table_options
        groups = _sequence_groups(schema)
        functions = _functions(schema, groups)
        made = cls(
            functions=functions,
            groups=groups,
            keys=frozenset(schema.primary_keys),
            required=frozenset(f.name for f in schema.fields if not f.type.nullable) - {*schema.primary_keys},
            ignore_delete=options.ignore_delete,
            remove_on_delete=options.partial_update_remove_record_on_delete,
            clearable=frozenset(schema.field_names)
            - {*schema.primary_keys, *options.sequence_field}
            - {name for group in groups for name in group.names}
            - {*functions}
            - {field.name for field in schema.fields if not field.type.nullable},
        )
        made._check()
        return made

    def _check(self) -> None:
        """Refuse options that contradict each other."""
        removing = [_REMOVE.key()] if self.remove_on_delete else []
        removing += [_REMOVE_GROUP.key()] if any(group.removes for group in self.groups) else []
        if removing and self.ignore_delete:
            raise InvalidInputError(
                f"'ignore-delete' cannot be combined with {removing[0]!r}: remove one of them", option=removing[0]
            )
        if self.remove_on_delete and self.groups:
            raise InvalidInputError(
                f"{_REMOVE.key()!r} cannot be combined with sequence groups: use {_REMOVE_GROUP.key()!r}",
                option=_REMOVE.key(),
            )

    def needed_columns(self, columns: AbstractSet[str]) -> AbstractSet[str]:
        """Return the columns themselves and the sequence fields that say what happens to them."""
        out = set(columns)
        for group in self.groups:
            if group.removes or not columns.isdisjoint({*group.names, *group.columns}):
                out.update(group.names)
        return out

    def check_kinds(self, kinds: AbstractSet[int]) -> None:
        """Refuse rows that take something back where no option says what that means."""
        if not kinds.isdisjoint(RETRACTS) and not (self.ignore_delete or self.remove_on_delete or self.groups):
            raise InvalidInputError(
                "a row of kind -U or -D came, but a partial-update table cannot take it: leave such rows out"
                f" ('ignore-delete' = true), or let them remove the record ({_REMOVE.key()!r} = true), or give the"
                " columns sequence groups",
                option=_REMOVE.key(),
            )

    @property
    def keeps_apart(self) -> bool:
        """Whether a retract may say more than one merged row can express as long as older rows are missing."""
        return self.remove_on_delete or (bool(self.groups) and not self.ignore_delete)

    def merge_apart(self, groups: KeyGroups) -> list[pa.Table]:
        """Return rows that retract apart from those before and after them, where a merged row would not tell both."""
        groups = without_other_rows(groups)
        kinds = groups.rows.column(VALUE_KIND.name).to_numpy()[groups.order]
        if self.remove_on_delete or any(group.removes for group in self.groups):
            groups = replace(groups, rows=clear_deleted(groups.rows, self.clearable))
        if self.groups:
            self._check_retractable(groups, kinds)
            layers = groups.layers(self._cuts(groups, kinds))
        else:
            # A -U does nothing. Stored after a row that removes the record, it would bring back one without values, and
            # stored before all others, its values would be those the record begins with.
            keep = kinds != UPDATE_BEFORE
            layers = split_at_deletes(groups.only(keep), (kinds == DELETE)[keep])
        return [merge_several(layer, self.merge) for layer in layers]

    def _check_retractable(self, groups: KeyGroups, kinds: np.ndarray[tuple[int, ...], np.dtype[np.int8]]) -> None:
        """Refuse rows that a function cannot take back: once they are written, every merge of their keys would fail.

        So is a -D that may remove the record: if it is late, it is taken back from the columns instead, and only the
        rows that it meets later tell.
        """
        refused = (kinds == UPDATE_BEFORE) | (kinds == DELETE)
        for group in self.groups:
            rows = groups.rows.select(list(group.names)).take(pa.array(groups.order[refused]))
            if any(column.null_count < len(column) for column in rows.columns):
                for name in group.columns & self.functions.keys():
                    check_retractable(self.functions[name])

    def _cuts(self, groups: KeyGroups, kinds: np.ndarray[tuple[int, ...], np.dtype[np.int8]]) -> Flags:
        """Return which rows must not be merged with those before them."""
        retracts = (kinds == UPDATE_BEFORE) | (kinds == DELETE)
        alone = retracts
        if all(function.name in _EXACT or function.ignore_retract for function in self.functions.values()):
            removes = any(group.removes for group in self.groups)
            alone = kinds == DELETE if removes else np.zeros(len(kinds), np.bool_)
        cuts: Flags = alone.copy()
        cuts[groups.starts] = True
        cuts[1:] |= alone[:-1]
        # The merge of rows that begin with a retract would begin with its values.
        adds = np.cumsum(~retracts)
        segment = np.flatnonzero(cuts)
        before = np.repeat(adds[segment] - ~retracts[segment], np.diff(segment, append=len(cuts)))
        cuts[1:] |= (adds == before)[:-1]
        return cuts

    def merge(self, groups: KeyGroups) -> pa.Table:
        """Return one row per group."""
        groups = without_other_rows(groups)
        plan = self._plan(groups)
        columns = [self._column(name, groups, plan) for name in groups.rows.column_names]
        merged = pa.Table.from_arrays(columns, schema=groups.rows.schema)
        self._check_required(merged, plan.deleted)
        return merged

    def _column(self, name: str, groups: KeyGroups, plan: _Plan) -> pa.Array:
        column = one_array(groups.rows.column(name))
        if name == VALUE_KIND.name:
            return pa.array(np.where(plan.deleted, DELETE, INSERT).astype(np.int8))
        if name == SEQUENCE_NUMBER.name or name in self.keys:
            return column.take(pa.array(plan.latest))
        group = next((n for n, g in enumerate(plan.sequences) if name in g.names or name in g.columns), None)
        if group is None:
            return last_non_null(column, plan.steps_without_group())
        if name in plan.sequences[group].names:
            return last_value(column, plan.of_sequence(group))
        if name in self.functions:
            return aggregate_column(column, plan.of_aggregate(group), self.functions[name])
        return last_value(column, plan.of_plain(group))

    def _plan(self, groups: KeyGroups) -> _Plan:
        """Decide what each row does."""
        kinds = groups.rows.column(VALUE_KIND.name).to_numpy()[groups.order]
        sequences = tuple(g for g in self.groups if g.names[0] in groups.rows.column_names)
        retracts = (kinds == UPDATE_BEFORE) | (kinds == DELETE)
        deletes = kinds == DELETE
        if retracts.any():
            self.check_kinds(RETRACTS)
        first = np.zeros(len(kinds), np.bool_)
        first[groups.starts] = retracts[groups.starts]
        skipped = retracts if self.ignore_delete else np.zeros(len(kinds), np.bool_)
        recencies = compare_recency(groups, sequences, skipped & ~first, deletes & ~skipped)
        removed = removals(recencies, sequences, deletes & ~skipped)
        if self.remove_on_delete:
            removed |= deletes
        return _Plan.of(groups, sequences, recencies, _Rows(retracts, first, skipped, removed))

    def _check_required(self, merged: pa.Table, deleted: Flags) -> None:
        for name in self.required.intersection(merged.column_names):
            column = merged.column(name)
            if column.null_count and bool(np.any(column.is_null().to_numpy() & ~deleted)):
                raise InvalidInputError(
                    f"the column {name!r} is NOT NULL, but a merged row has no value for it: write the column with"
                    " every row, or make it nullable",
                    column=name,
                )


@dataclass(frozen=True, slots=True)
class _Rows:
    """What is known of the rows of `groups.order` before any column is looked at."""

    retracts: Flags
    first: Flags  # retracts that are the first row of their key
    skipped: Flags
    removed: Flags  # rows that remove the whole record


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the rows of each key do. A first row that is a retract stands here twice: as a reset, then as itself."""

    sequences: tuple[SequenceGroup, ...]
    recencies: tuple[Recency, ...]
    rows: UInt64Array
    owners: UInt64Array
    retracts: Flags
    idle: Flags  # rows that do nothing
    resets: Flags
    latest: UInt64Array  # the row of each key that gives the sequence number
    deleted: Flags  # keys whose record is removed

    @classmethod
    def of(
        cls, groups: KeyGroups, sequences: tuple[SequenceGroup, ...], recencies: Sequence[Recency], rows: _Rows
    ) -> _Plan:
        owners = np.repeat(np.arange(len(groups)), groups.ends - groups.starts)
        steps = ColumnSteps(groups.order, np.zeros(len(owners), np.int8), owners, len(groups))
        last = steps.last(~rows.skipped) if rows.skipped.any() else groups.ends - 1
        last = np.where(last < 0, groups.ends - 1, last)
        deleted = rows.removed[last] | (steps.last(~rows.retracts) < 0)
        twice = rows.first & ~rows.removed
        at = np.repeat(np.arange(len(owners)), 1 + twice) if twice.any() else np.arange(len(owners))
        resets = rows.removed[at]
        if twice.any():
            resets = resets | (twice[at] & np.append(True, at[1:] != at[:-1]))
        return cls(
            sequences,
            tuple(Recency(one.ranks[at], one.newest[at]) for one in recencies) if twice.any() else tuple(recencies),
            groups.order[at],
            owners[at],
            rows.retracts[at],
            rows.skipped[at],
            resets,
            groups.order[last],
            deleted,
        )

    def steps_without_group(self) -> ColumnSteps:
        """Return the steps of a column in no group: retracts do not touch it."""
        return self._steps(np.where(self.retracts, _SKIP, ADD))

    def of_sequence(self, group: int) -> ColumnSteps:
        """Return the steps of a sequence field: every row that is new enough brings its own."""
        recency = self.recencies[group]
        return self._steps(np.where(recency.newest, ADD, _SKIP), group)

    def of_plain(self, group: int) -> ColumnSteps:
        """Return the steps of a column without function: only rows that are new enough touch it."""
        recency = self.recencies[group]
        return self._steps(np.where(recency.newest, np.where(self.retracts, RETRACT, ADD), _SKIP), group)

    def of_aggregate(self, group: int) -> ColumnSteps:
        """Return the steps of a column with a function: older rows come too, before what is there."""
        recency = self.recencies[group]
        return self._steps(np.where(self.retracts, RETRACT, np.where(recency.newest, ADD, LATE)), group)

    def _steps(self, ops: np.ndarray[tuple[int, ...], np.dtype[np.int64]], group: int | None = None) -> ColumnSteps:
        if group is not None:
            ops = np.where(self.recencies[group].touches, ops, _SKIP)
        ops = np.where(self.idle, _SKIP, ops)
        done: Ops = np.where(self.resets, RESET, ops).astype(np.int8)
        count = len(self.latest)
        return ColumnSteps(self.rows, done, self.owners, count).only(done != _SKIP)


def _sequence_groups(schema: TableSchema) -> tuple[SequenceGroup, ...]:
    """Read `fields.<g1>[,<g2>].sequence-group` = columns."""
    removing = _names(schema.table_options.partial_update_remove_record_on_sequence_group or "")
    groups: list[SequenceGroup] = []
    owner: dict[str, str] = {}
    for key in sorted(schema.options):
        match = FIELD_OPTION.fullmatch(key)
        if match is None or match["what"] != "sequence-group":
            continue
        single = match["columns"] in schema.field_names
        fields = (match["columns"],) if single else _names(match["columns"])
        columns = _names(schema.options[key])
        for name in dict.fromkeys((*fields, *columns)):
            if name not in schema.field_names:
                raise InvalidInputError(
                    f"the option {key!r} = {schema.options[key]!r} names {name!r}, but there is no such column",
                    option=key,
                    column=name,
                )
            if name in owner:
                raise InvalidInputError(
                    f"the column {name!r} belongs to two sequence groups, {owner[name]!r} and {key!r}: leave it in one",
                    option=key,
                    column=name,
                )
            owner[name] = key
        named = tuple(schema.field(name) for name in fields)
        for field in named:
            if not isinstance(field.type, AtomicType):
                raise InvalidInputError(
                    f"the option {key!r} orders rows by {field.name!r}, but {field.type} has no order: use a scalar"
                    " column",
                    option=key,
                    column=field.name,
                )
        groups.append(SequenceGroup(named, frozenset(columns) - {*fields}, not set(removing).isdisjoint(fields)))
    _check_removing(removing, groups)
    return tuple(groups)


def _check_removing(removing: Sequence[str], groups: Sequence[SequenceGroup]) -> None:
    fields = {name for group in groups for name in group.names}
    for name in removing:
        if name not in fields:
            raise InvalidInputError(
                f"the option {_REMOVE_GROUP.key()!r} names {name!r}, which is no sequence field of a group: name one of"
                f" {', '.join(sorted(fields)) or 'those, and give the table sequence groups'}",
                option=_REMOVE_GROUP.key(),
                column=name,
            )


def _functions(schema: TableSchema, groups: Sequence[SequenceGroup]) -> dict[str, ColumnFunction]:
    """Return the functions of columns; key columns and sequence fields of groups never have one."""
    default = schema.table_options.fields_default_aggregate_function
    fields = {name for group in groups for name in group.names}
    grouped = {name for group in groups for name in group.columns}
    functions = {}
    for name in schema.field_names:
        asked = named_function(schema, name) or default
        if asked is None or name in schema.primary_keys or name in fields:
            continue
        functions[name] = column_function(schema, name, asked)
        if name not in grouped and asked != LAST_NON_NULL:
            raise InvalidInputError(
                f"the column {name!r} has the function {asked!r} but belongs to no sequence group: put it into one with"
                f" 'fields.<sequence field>.sequence-group', or use {LAST_NON_NULL!r}",
                column=name,
                option=option_of(name) if named_function(schema, name) else "fields.default-aggregate-function",
            )
    return functions


def check_partial_update(schema: TableSchema) -> None:
    """Refuse options of a new table that would have no effect, besides those that cannot work."""
    made = PartialUpdate.of_schema(schema)
    sequence = [name for group in made.groups for name in group.names]
    check_takes_no_function(schema, sequence, "the sequence fields of a group")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)

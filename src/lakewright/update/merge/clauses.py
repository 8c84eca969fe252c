"""The clauses of a merge: what the user gives in, a checked plan out that decides which rows change and how.

    merge(source, on)
        .when_matched_update(...) .when_matched_delete(...)                            pairs of rows
        .when_not_matched_insert(...)                                                  rows of the source alone
        .when_not_matched_by_source_update(...) .when_not_matched_by_source_delete()   rows of the target alone

Of the clauses of one kind the first whose condition is true applies; if none does, the row stays as it is. A row of the
target that two rows of the source would change is an error. Decisions are functions of Arrow data, which threads and
workers of an engine call alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from lakewright.errors import ColumnNotExistException, InvalidInputError
from lakewright.spec.arrow import from_arrow_type
from lakewright.spec.predicate.predicate import TRUE, Predicate
from lakewright.spec.types import DataField
from lakewright.update.merge.conditions import Condition, RowCondition, ScopedText, parse
from lakewright.update.merge.match import JoinPair, Longs, Matcher, Pairs, joined, true_rows
from lakewright.update.values import (
    Assignments,
    Scope,
    Side,
    check_assignments,
    refuse_names_as_text,
    source_col,
    target_col,
)
from lakewright.write.input.align import Aligner, align
from lakewright.write.input.frames import ArrowData, batches_of, in_process

On: TypeAlias = str | Sequence[str]
ConditionText: TypeAlias = str | Predicate | None


class When(Enum):
    """The rows that a clause is about; the value begins the name of its method."""

    MATCHED = "when_matched"
    NOT_MATCHED = "when_not_matched"
    NOT_MATCHED_BY_SOURCE = "when_not_matched_by_source"


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause as the user gave it."""

    when: When
    action: str  # update, delete or insert
    assignments: Mapping[str, object] | None = None
    condition: ConditionText | Condition = None
    may_lack: bool = False  # an insert may lack required columns; then it is an error only if there are rows to insert

    @property
    def name(self) -> str:
        """The name of the method that the user called."""
        return f"{self.when.value}_{self.action}"


@dataclass(frozen=True, slots=True)
class Rule:
    """One checked clause."""

    condition: RowCondition | None  # None: it applies to all rows
    assignments: Assignments | None  # None: the rows are deleted


@dataclass(frozen=True, slots=True)
class Decision:
    """Which of some rows of the target are deleted and updated, by their positions; the others stay as they are."""

    deleted: Longs  # ascending
    updated: Longs  # ascending, none of them deleted; a row occurs several times only if the plan folds
    values: pa.Table | None  # the columns that are set, a row for each of `updated`


class DecidesRows(Protocol):
    """Says which rows of a table change, and how: what tasks ask about the rows that they get."""

    @property
    def table(self) -> str:
        """The name of the table."""

    @property
    def by_source(self) -> Sequence[object]:
        """The rules for rows of the target without a match; without any, groups without matches are not read."""

    @property
    def upserts(self) -> bool:
        """Whether rows are added as by a write: see `update.primary_key.KeyedRules`."""

    @property
    def target_columns(self) -> tuple[str, ...]:
        """The columns of the target that are read to decide."""

    @property
    def source_columns(self) -> tuple[str, ...]:
        """The columns of the source that are needed."""

    @property
    def deletes(self) -> bool:
        """Whether some rows are deleted."""

    @property
    def assigned(self) -> tuple[str, ...]:
        """The columns that updates set, in the order of the table."""

    def decide(self, target: pa.Table, source: pa.Table, pairs: Pairs) -> Decision:
        """Return which rows of the target change and how, given the pairs of target and source rows that match."""

    def inserts(self, source: pa.Table, rows: Longs) -> pa.Table | None:
        """Return the rows to insert for source rows without a match, in their order; None: there are none."""


@dataclass(frozen=True, slots=True)
class MergePlan:
    """A merge whose names and types were checked against the table and the source."""

    table: str
    fields: tuple[DataField, ...]
    on: tuple[JoinPair, ...]
    residual: Condition | None
    prunes: Predicate  # every row of the target with a match fulfils it
    matched: tuple[Rule, ...] = ()
    not_matched: tuple[Rule, ...] = ()
    by_source: tuple[Rule, ...] = ()
    upserts: bool = False  # rows are added as by a write: see `update.primary_key.KeyedRules`
    folds: bool = False  # the merge engine folds all source rows of a key in, so several may match one row
    strict: bool = False  # a row that several source rows match is refused even if conditions leave one, as SQL does

    @property
    def finds_keys(self) -> bool:
        """Whether rows are found by the primary key, in which 0.0 and -0.0 differ, and not by a condition."""
        return self.upserts

    def matcher(self, source: pa.Table) -> Matcher:
        """Index the source."""
        return Matcher(source, self.on, self.residual, zeros_differ=self.finds_keys)

    @property
    def target_columns(self) -> tuple[str, ...]:
        """The columns of the target that conditions or assignments need."""
        names = dict.fromkeys(field.name for field, _ in self.on)
        rules = (*self.matched, *self.by_source)
        for condition in (self.residual, *(rule.condition for rule in rules)):
            refs = () if condition is None else condition.refs
            names |= dict.fromkeys(sorted(ref.name for ref in refs if ref.side is Side.TARGET))
        for rule in rules:
            names |= dict.fromkeys(() if rule.assignments is None else rule.assignments.target_columns)
        return tuple(names)

    @property
    def source_columns(self) -> tuple[str, ...]:
        """The columns of the source that conditions or assignments need."""
        names = dict.fromkeys(name for _, name in self.on)
        rules = (*self.matched, *self.not_matched)
        for condition in (self.residual, *(rule.condition for rule in rules)):
            refs = () if condition is None else condition.refs
            names |= dict.fromkeys(sorted(ref.name for ref in refs if ref.side is Side.SOURCE))
        for rule in rules:
            names |= dict.fromkeys(() if rule.assignments is None else rule.assignments.source_columns)
        return tuple(names)

    @property
    def deletes(self) -> bool:
        """Whether some clause deletes rows."""
        return any(rule.assignments is None for rule in (*self.matched, *self.by_source))

    @property
    def assigned(self) -> tuple[str, ...]:
        """The columns that updates set, in the order of the table."""
        names = {n for r in (*self.matched, *self.by_source) if r.assignments is not None for n in r.assignments.names}
        return tuple(field.name for field in self.fields if field.name in names)

    def decide(self, target: pa.Table, source: pa.Table, pairs: Pairs) -> Decision:
        """Return which rows of the target change and how, given the pairs of target and source rows that match."""
        chosen = list(_rows_by_rule(self.matched, target, source, pairs))
        if self.strict and self.matched and not self._only_deletes:
            self._check_matched_once(target, [pairs.target])
        elif not self.strict and not self.folds:
            self._check_matched_once(target, [some.target for _, some in chosen])
        if self.by_source:
            unmatched = np.ones(target.num_rows, np.bool_)
            unmatched[pairs.target] = False
            rows = np.flatnonzero(unmatched)
            chosen += _rows_by_rule(self.by_source, target, None, Pairs(rows, rows))
        deleted = np.unique(joined([some.target for rule, some in chosen if rule.assignments is None]))
        updates = [(rule.assignments, some) for rule, some in chosen if rule.assignments is not None]
        updated = joined([some.target for _, some in updates])
        values = [_evaluate(assignments, target, source, some) for assignments, some in updates]
        if not len(updated):
            return Decision(deleted, updated, None)
        order = np.argsort(updated, kind="stable")
        return Decision(deleted, updated[order], _in_order(pa.concat_tables(values), order))

    def inserts(self, source: pa.Table, rows: Longs) -> pa.Table | None:
        """Return the rows to insert for source rows without a match, in their order; None: there are none."""
        chosen = [
            (rule.assignments, some)
            for rule, some in _rows_by_rule(self.not_matched, None, source, Pairs(rows, rows))
            if rule.assignments is not None
        ]
        order = np.argsort(joined([some.source for _, some in chosen]), kind="stable")
        if not len(order):
            return None
        values = [
            align(_evaluate(assignments, None, source, some), self.fields, table=self.table)
            for assignments, some in chosen
        ]
        return _in_order(pa.concat_tables(values), order)

    @property
    def _only_deletes(self) -> bool:
        """Whether rows that match are deleted, all of them, so that it does not matter how often one matches."""
        return [(rule.condition, rule.assignments) for rule in self.matched] == [(None, None)]

    def _check_matched_once(self, target: pa.Table, changed: Iterable[Longs]) -> None:
        """Refuse rows of the target that several rows of the source would change."""
        rows = np.sort(joined(changed), kind="stable")
        again = np.flatnonzero(rows[1:] == rows[:-1])
        if not len(again):
            return
        first = int(rows[again[0]])
        times = int((rows == first).sum())
        key = {field.name: target.column(field.name)[first].as_py() for field, _ in self.on}
        shown = ", ".join(f"{name} = {value!r}" for name, value in key.items())
        what = "which would all change it" if not self.strict else "and it is not clear which one changes it"
        how = "in ON" if self.strict else "by a condition"
        raise InvalidInputError(
            f"table {self.table}: the row with {shown} is matched by {times} rows of the source, {what}; keep one "
            f"source row for each key, or tell them apart {how}. Nothing was changed.",
            table=self.table,
            key=key,
            times=times,
        )


# ---- checking --------------------------------------------------------------------------------------------------------


def plan_merge(
    table: str,
    fields: Sequence[DataField],
    both: Scope,
    on: On,
    clauses: Sequence[Clause],
) -> MergePlan:
    """Check a merge against the columns of the table and of the source, before a row is read.

    `both` are the columns that conditions can use, system columns of the target included.
    """
    if not clauses:
        raise InvalidInputError(
            f"table {table}: a merge without clauses changes nothing; say what happens, for example "
            "merge(source, on).when_matched_update().when_not_matched_insert()",
            table=table,
        )
    joined = _condition_on(table, both, on)
    pairs = _join_pairs(table, both, joined)
    same = frozenset(field.name for field, name in pairs if field.name == name)
    scopes = {
        When.MATCHED: both,
        When.NOT_MATCHED: replace(both, target=()),
        When.NOT_MATCHED_BY_SOURCE: replace(both, source=pa.schema([])),
    }
    keys = {field.name: name for field, name in reversed(pairs)}
    checker = _ClauseChecker(table, tuple(fields), scopes, same, keys, _assigned_columns(clauses, fields, same))
    rules = {when: tuple(checker.rule(clause) for clause in clauses if clause.when is when) for when in When}
    return MergePlan(
        table,
        tuple(fields),
        pairs,
        joined.residual(),
        joined.on_target(),
        rules[When.MATCHED],
        rules[When.NOT_MATCHED],
        rules[When.NOT_MATCHED_BY_SOURCE],
    )


def read_source(data: ArrowData, table: str) -> pa.Table:
    """Return a source as one Arrow table, with columns in the Arrow types of the format where it has such a type."""
    source = _as_table(data, table)
    twice = sorted({name for name in source.column_names if source.column_names.count(name) > 1})
    if twice:
        raise InvalidInputError(
            f"table {table}: the source has two columns named {twice[0]!r}; rename or drop one", column=twice[0]
        )
    columns = {name: _in_format_type(source.column(name), name) for name in source.column_names}
    return pa.table(columns).combine_chunks()


def _as_table(data: ArrowData, table: str) -> pa.Table:
    """Return a source as one table; a stream without batches still has its columns."""
    data = in_process(data, table)
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    if hasattr(data, "__arrow_c_stream__") and not isinstance(data, pa.Table):
        return _as_table(pa.RecordBatchReader.from_stream(data), table)
    parts = [p if isinstance(p, pa.Table) else pa.Table.from_batches([p]) for p in batches_of(data, table)]
    return pa.concat_tables(parts) if parts else pa.table({})


def _in_format_type(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    try:
        field = DataField(0, name, from_arrow_type(column.type, column=name))
        return Aligner([field], table="the source").align(pa.table({name: column})).column(0)
    except InvalidInputError:
        return column  # it is refused where it is used, if it is used at all


def _condition_on(table: str, scope: Scope, on: On) -> Condition:
    """Return the join condition of a merge, given as text or as names of columns."""
    source = list(scope.source.names) if scope.source is not None else []
    target = [field.name for field in scope.target]
    if isinstance(on, str) and not (on in {*target, *source} or on.isidentifier()):
        return parse(on, scope, f"table {table}: the condition of the merge")
    names = [on] if isinstance(on, str) else list(on) if isinstance(on, Sequence) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidInputError(
            f"table {table}: {on!r} joins nothing; give the names of columns that both have, or a condition such as "
            "'t.id = s.id'",
            table=table,
        )
    for name in names:
        for side, known in (("table", target), ("source", source)):
            if name not in known:
                raise ColumnNotExistException(
                    f"table {table}: the {side} has no column {name!r} to match by; it has {', '.join(known)}",
                    table=table,
                    column=name,
                )
    text = " AND ".join(f"t.{_quoted(name)} = s.{_quoted(name)}" for name in dict.fromkeys(names))
    return parse(text, scope, f"table {table}: the columns of the merge")


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _join_pairs(table: str, scope: Scope, condition: Condition) -> tuple[JoinPair, ...]:
    equal = condition.equalities()
    if not equal:
        raise InvalidInputError(
            f"table {table}: the condition of the merge ({condition.predicate}) compares every row with every other; "
            "join by at least one equality outside of OR and NOT, such as 't.id = s.id AND ...'",
            table=table,
        )
    known = {field.name: field for field in scope.target}
    return tuple((known[target], source) for target, source in equal)


def _assigned_columns(clauses: Sequence[Clause], fields: Sequence[DataField], same: frozenset[str]) -> frozenset[str]:
    """Return the columns that any update sets."""
    names: set[str] = set()
    for clause in clauses:
        if clause.action == "update":
            names |= _columns_from_source(fields, same) if clause.assignments is None else set(clause.assignments)
    return frozenset(names)


def _columns_from_source(fields: Sequence[DataField], same: frozenset[str]) -> set[str]:
    """Return the columns that an update of all columns sets: all but the join columns, which are equal already."""
    names = {field.name for field in fields}
    return names - same or names


@dataclass(frozen=True, slots=True)
class _ClauseChecker:
    """Checks clauses and turns them into rules."""

    table: str
    fields: tuple[DataField, ...]
    scopes: Mapping[When, Scope]
    same: frozenset[str]
    keys: Mapping[str, str]  # from join columns of the target to those of the source
    set_by_updates: frozenset[str]

    def rule(self, clause: Clause) -> Rule:
        scope = self.scopes[clause.when]
        condition = self._condition(clause, scope)
        if clause.action == "delete":
            return Rule(condition, None)
        refuse_names_as_text(clause.assignments or {}, self.scopes[When.MATCHED], table=self.table)
        given = self._inserted(clause) if clause.action == "insert" else self._updated(clause)
        try:
            return Rule(condition, check_assignments(given, scope, self.fields, table=self.table))
        except (InvalidInputError, ColumnNotExistException) as error:
            raise type(error)(f"{clause.name}: {error.message}", **error.facts) from error

    def _condition(self, clause: Clause, scope: Scope) -> RowCondition | None:
        """Return the condition of a clause; None: it applies to all rows."""
        what = f"table {self.table}: the condition of {clause.name}"
        if clause.condition is None:
            return None
        given = clause.condition
        if isinstance(given, Condition):
            return given
        condition = given.in_scope(scope, what) if isinstance(given, ScopedText) else parse(given, scope, what)
        return None if isinstance(condition, Condition) and condition.predicate == TRUE else condition

    def _updated(self, clause: Clause) -> Mapping[str, object]:
        """Return the assignments of an update; columns that only other updates set keep their values."""
        given = clause.assignments
        if given is None:
            names = _columns_from_source(self.fields, self.same)
            self._check_source_has(clause, [field for field in self.fields if field.name in names])
            given = {name: source_col(name) for name in names}
        return {**{name: target_col(name) for name in self.set_by_updates}, **given} if given else given

    def _inserted(self, clause: Clause) -> Mapping[str, object]:
        """Return the assignments of an insert; join columns come from the source, missing ones get default or null."""
        source = self.scopes[clause.when].source or pa.schema([])
        given = clause.assignments
        if given is None:
            given = {f.name: source_col(f.name) for f in self.fields if f.name in source.names}
        given = {**{f.name: source_col(self.keys[f.name]) for f in self.fields if f.name in self.keys}, **given}
        missing = [f for f in self.fields if f.name not in given and not f.type.nullable and f.default_value is None]
        if clause.may_lack:
            return given
        if missing and clause.assignments is None:
            self._check_source_has(clause, missing)
        if missing:
            raise InvalidInputError(
                f"table {self.table}: {clause.name} gives no value to {missing[0].name!r} ({missing[0].type}), which "
                "takes no null and has no default; assign one",
                table=self.table,
                column=missing[0].name,
            )
        return given

    def _check_source_has(self, clause: Clause, fields: Sequence[DataField]) -> None:
        """Raise ColumnNotExistException if the source lacks a column that a clause takes from it."""
        source = self.scopes[clause.when].source or pa.schema([])
        for field in fields:
            if field.name not in source.names:
                raise ColumnNotExistException(
                    f"table {self.table}: {clause.name} without assignments takes every column from the source, which "
                    f"lacks {field.name!r}; add it, or assign the columns that are to be set",
                    table=self.table,
                    column=field.name,
                )


# ---- evaluating ------------------------------------------------------------------------------------------------------


def _rows_by_rule(
    rules: Sequence[Rule], target: pa.Table | None, source: pa.Table | None, pairs: Pairs
) -> Iterable[tuple[Rule, Pairs]]:
    """Yield each rule with the pairs for which it is the first whose condition is true."""
    left = pairs
    for rule in rules:
        if not len(left.target):
            return
        if rule.condition is None:
            yield rule, left
            return
        names = {side: sorted({ref.name for ref in rule.condition.refs if ref.side is side}) for side in Side}
        sides = (
            _rows(target, left.target, names[Side.TARGET]),
            _rows(source, left.source, names[Side.SOURCE]),
        )
        hit = true_rows(rule.condition.mask(len(left.target), *sides))
        yield rule, Pairs(left.target[hit], left.source[hit])
        left = Pairs(np.delete(left.target, hit), np.delete(left.source, hit))


def _evaluate(assignments: Assignments, target: pa.Table | None, source: pa.Table | None, pairs: Pairs) -> pa.Table:
    return assignments.evaluate(
        len(pairs.target),
        _rows(target, pairs.target, assignments.target_columns),
        _rows(source, pairs.source, assignments.source_columns),
    )


def _rows(table: pa.Table | None, rows: Longs, columns: Sequence[str]) -> pa.Table | None:
    """Return some columns of some rows."""
    return None if table is None else _in_order(table.select(list(columns)), rows)


def _in_order(table: pa.Table, rows: Longs) -> pa.Table:
    if len(rows) == table.num_rows and np.array_equal(rows, np.arange(len(rows))):
        return table
    return table.take(pa.array(rows))

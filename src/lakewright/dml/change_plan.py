"""Plans of a merge: which rows change and how, decided by clauses or by the rows of a query.

merge(source, on)
        .when_matched_update(...) .when_matched_delete(...)                            pairs of rows
        .when_not_matched_insert(...)                                                  rows of the source alone
        .when_not_matched_by_source_update(...) .when_not_matched_by_source_delete()   rows of the target alone

Of the clauses of one kind the first whose condition is true applies; if none does, the row stays as it is. A row of the
target that two rows of the source would change is an error. Decisions are functions of Arrow data, which threads and
workers of an engine call alike.

The decision was made by the engine; here it is read, values are put into exactly the types of the table, and what is
ambiguous or forbidden is refused. Values of this module travel to workers, so they hold no text of the statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.dml.assignments import Assignments, MergeSide, without_defaults
from lakewright.dml.matching import (
    Condition,
    JoinPair,
    Longs,
    Matcher,
    Pairs,
    RowCondition,
    concat_positions,
    true_rows,
)
from lakewright.errors import InvalidInputError
from lakewright.spec.predicate import Predicate
from lakewright.spec.types import DataField
from lakewright.write.alignment import Aligner, align

# ---- Plans made of clauses -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClauseRule:
    """One checked clause."""

    condition: RowCondition | None  # None: it applies to all rows
    assignments: Assignments | None  # None: the rows are deleted


@dataclass(frozen=True, slots=True)
class Decision:
    """Which of some rows of the target are deleted and updated, by their positions; the others stay as they are."""

    deleted: Longs  # ascending
    updated: Longs  # ascending, none of them deleted; a row occurs several times only if the plan folds
    values: pa.Table | None  # the columns that are set, a row for each of `updated`


class RowDecider(Protocol):
    """Says which rows of a table change, and how: what tasks ask about the rows that they get."""

    @property
    def table(self) -> str:
        """The name of the table."""

    @property
    def by_source(self) -> Sequence[object]:
        """The rules for rows of the target without a match; without any, groups without matches are not read."""

    @property
    def upserts(self) -> bool:
        """Whether rows are added as by a write: see `dml.keyed_rules.KeyedChangeRules`."""

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
class ChangePlan:
    """A merge whose names and types were checked against the table and the source."""

    table: str
    fields: tuple[DataField, ...]
    on: tuple[JoinPair, ...]
    residual: Condition | None
    prunes: Predicate  # every row of the target with a match fulfils it
    matched: tuple[ClauseRule, ...] = ()
    not_matched: tuple[ClauseRule, ...] = ()
    by_source: tuple[ClauseRule, ...] = ()
    upserts: bool = False  # rows are added as by a write: see `dml.keyed_rules.KeyedChangeRules`
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
            names |= dict.fromkeys(sorted(ref.name for ref in refs if ref.side is MergeSide.TARGET))
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
            names |= dict.fromkeys(sorted(ref.name for ref in refs if ref.side is MergeSide.SOURCE))
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
        deleted = np.unique(concat_positions([some.target for rule, some in chosen if rule.assignments is None]))
        updates = [(rule.assignments, some) for rule, some in chosen if rule.assignments is not None]
        updated = concat_positions([some.target for _, some in updates])
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
        order = np.argsort(concat_positions([some.source for _, some in chosen]), kind="stable")
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
        rows = np.sort(concat_positions(changed), kind="stable")
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


# ---- evaluating ------------------------------------------------------------------------------------------------------


def _rows_by_rule(
    rules: Sequence[ClauseRule], target: pa.Table | None, source: pa.Table | None, pairs: Pairs
) -> Iterable[tuple[ClauseRule, Pairs]]:
    """Yield each rule with the pairs for which it is the first whose condition is true."""
    left = pairs
    for rule in rules:
        if not len(left.target):
            return
        if rule.condition is None:
            yield rule, left
            return
        names = {side: sorted({ref.name for ref in rule.condition.refs if ref.side is side}) for side in MergeSide}
        sides = (
            _rows(target, left.target, names[MergeSide.TARGET]),
            _rows(source, left.source, names[MergeSide.SOURCE]),
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


# ---- Plans made of a query -------------------------------------------------------------------------------------------

CLAUSE = "_lw_clause"  # the column with the number of the clause that applies to a row
NO_CLAUSE = -1  # the number of a source row that matches, and to which no clause applies


@dataclass(frozen=True, slots=True)
class DecidedRows:
    """What the columns of a change query mean: it takes the place of a merge's plan where rows are changed."""

    table: str
    fields: tuple[DataField, ...]  # of the table
    is_delete: tuple[bool, ...]  # of the clauses, by their numbers: whether rows are deleted
    values: Mapping[str, int]  # from columns that get values to the number of the value
    assigned: tuple[str, ...] = ()  # the columns that updates set, in the order of the table
    inserted: tuple[str, ...] = ()  # the columns that inserts set
    matches_once: bool = True  # False: several source rows may match a row, since all that happens is its delete
    keys: tuple[str, ...] = ()  # the columns of the target that equal columns of the source

    by_source = ()  # rows without a match are in the query as well
    upserts = False
    target_columns = ()  # nothing of the target is read again to decide

    @property
    def source_columns(self) -> tuple[str, ...]:
        """The columns of the change query beside group and position."""
        return (CLAUSE, *(value_name(at) for at in range(len(self.values))))

    @property
    def deletes(self) -> bool:
        """Whether some clause deletes rows."""
        return any(self.is_delete)

    def decide(self, target: pa.Table, source: pa.Table, pairs: Pairs) -> Decision:
        """Return which rows of the target change and how; `source` are rows of the change query."""
        del target  # nothing is read of it
        self._check_matched_once(pairs.target)
        clauses = source.column(CLAUSE).to_numpy()[pairs.source]
        changes = clauses != NO_CLAUSE
        deletes = np.array(self.is_delete)[clauses] & changes
        updates = ~deletes & changes
        rows = pairs.source[updates]
        values = self._new_values(source.take(pa.array(rows))) if len(rows) else None
        return Decision(np.unique(pairs.target[deletes]), pairs.target[updates], values)

    def inserts(self, source: pa.Table, rows: Longs) -> pa.Table | None:
        """Return the rows to insert; None: there are none."""
        if not len(rows):
            return None
        table = source if len(rows) == source.num_rows else source.take(pa.array(rows))
        return align(self._columns(table, self.inserted), self.fields, table=self.table)

    def _new_values(self, rows: pa.Table) -> pa.Table:
        fields = [field for field in self.fields if field.name in self.assigned]
        return Aligner(without_defaults(fields), table=self.table).align(self._columns(rows, self.assigned))

    def _columns(self, rows: pa.Table, names: tuple[str, ...]) -> pa.Table:
        if not names:
            return pa.table({"": pa.nulls(rows.num_rows)}).select([])
        return pa.table({name: rows.column(value_name(self.values[name])) for name in names})

    def _check_matched_once(self, target: Longs) -> None:
        """Refuse rows of the target that several rows of the source would change."""
        if not self.matches_once:
            return
        times = pc.value_counts(pa.array(target))
        most = pc.max(times.field("counts")).as_py() or 0
        if most > 1:
            keys = f" ({', '.join(self.keys)})" if self.keys else ""
            raise InvalidInputError(
                f"{self.table}: a row is matched by {most} rows of the source, and it is not clear which one changes "
                f"it; keep one source row for each key{keys}, or tell them apart in ON. Nothing was changed.",
                table=self.table,
                times=most,
            )


def value_name(number: int) -> str:
    """Return the name of the column of a change query that holds a value."""
    return f"_lw_v{number}"

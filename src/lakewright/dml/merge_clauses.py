"""Clauses of a merge, checked against table and source.

merge(source, on)
        .when_matched_update(...) .when_matched_delete(...)                            pairs of rows
        .when_not_matched_insert(...)                                                  rows of the source alone
        .when_not_matched_by_source_update(...) .when_not_matched_by_source_delete()   rows of the target alone

Of the clauses of one kind the first whose condition is true applies; if none does, the row stays as it is. A row of the
target that two rows of the source would change is an error. Decisions are functions of Arrow data, which threads and
workers of an engine call alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

import pyarrow as pa

from lakewright.dml.assignments import ColumnScope, check_assignments, refuse_names_as_text, source_col, target_col
from lakewright.dml.change_plan import ChangePlan, ClauseRule
from lakewright.dml.matching import Condition, JoinPair, RowCondition, ScopedText, parse
from lakewright.errors import ColumnNotExistException, InvalidInputError
from lakewright.spec.argument_checks import suggest_name
from lakewright.spec.arrow_types import from_arrow_type
from lakewright.spec.identifier import quote_identifier
from lakewright.spec.predicate import TRUE, Predicate
from lakewright.spec.types import DataField
from lakewright.write.alignment import Aligner
from lakewright.write.input_data import ArrowData, batches_of, to_local_data

On: TypeAlias = str | Sequence[str]
ConditionText: TypeAlias = str | Predicate | None


class ClauseKind(Enum):
    """The rows that a clause is about; the value begins the name of its method."""

    MATCHED = "when_matched"
    NOT_MATCHED = "when_not_matched"
    NOT_MATCHED_BY_SOURCE = "when_not_matched_by_source"


@dataclass(frozen=True, slots=True)
class MergeClause:
    """One clause as the user gave it."""

    when: ClauseKind
    action: str  # update, delete or insert
    assignments: Mapping[str, object] | None = None
    condition: ConditionText | Condition = None
    may_lack: bool = False  # an insert may lack required columns; then it is an error only if there are rows to insert

    @property
    def name(self) -> str:
        """The name of the method that the user called."""
        return f"{self.when.value}_{self.action}"


# ---- checking --------------------------------------------------------------------------------------------------------


def plan_merge(
    table: str,
    fields: Sequence[DataField],
    both: ColumnScope,
    on: On,
    clauses: Sequence[MergeClause],
) -> ChangePlan:
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
        ClauseKind.MATCHED: both,
        ClauseKind.NOT_MATCHED: replace(both, target=()),
        ClauseKind.NOT_MATCHED_BY_SOURCE: replace(both, source=pa.schema([])),
    }
    keys = {field.name: name for field, name in reversed(pairs)}
    checker = _ClauseChecker(table, tuple(fields), scopes, same, keys, _assigned_columns(clauses, fields, same))
    rules = {when: tuple(checker.rule(clause) for clause in clauses if clause.when is when) for when in ClauseKind}
    return ChangePlan(
        table,
        tuple(fields),
        pairs,
        joined.residual(),
        joined.on_target(),
        rules[ClauseKind.MATCHED],
        rules[ClauseKind.NOT_MATCHED],
        rules[ClauseKind.NOT_MATCHED_BY_SOURCE],
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
    data = to_local_data(data, table)
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


def _condition_on(table: str, scope: ColumnScope, on: On) -> Condition:
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
                    f"table {table}: the {side} has no column {name!r} to match by; {suggest_name(name, known)}",
                    table=table,
                    column=name,
                )
    text = " AND ".join(f"t.{quote_identifier(name)} = s.{quote_identifier(name)}" for name in dict.fromkeys(names))
    return parse(text, scope, f"table {table}: the columns of the merge")


def _join_pairs(table: str, scope: ColumnScope, condition: Condition) -> tuple[JoinPair, ...]:
    equal = condition.equalities()
    if not equal:
        raise InvalidInputError(
            f"table {table}: the condition of the merge ({condition.predicate}) compares every row with every other; "
            "join by at least one equality outside of OR and NOT, such as 't.id = s.id AND ...'",
            table=table,
        )
    known = {field.name: field for field in scope.target}
    return tuple((known[target], source) for target, source in equal)


def _assigned_columns(
    clauses: Sequence[MergeClause], fields: Sequence[DataField], same: frozenset[str]
) -> frozenset[str]:
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
    scopes: Mapping[ClauseKind, ColumnScope]
    same: frozenset[str]
    keys: Mapping[str, str]  # from join columns of the target to those of the source
    set_by_updates: frozenset[str]

    def rule(self, clause: MergeClause) -> ClauseRule:
        scope = self.scopes[clause.when]
        condition = self._condition(clause, scope)
        if clause.action == "delete":
            return ClauseRule(condition, None)
        refuse_names_as_text(clause.assignments or {}, self.scopes[ClauseKind.MATCHED], table=self.table)
        given = self._insert_assignments(clause) if clause.action == "insert" else self._update_assignments(clause)
        try:
            return ClauseRule(condition, check_assignments(given, scope, self.fields, table=self.table))
        except (InvalidInputError, ColumnNotExistException) as error:
            raise type(error)(f"{clause.name}: {error.message}", **error.facts) from error

    def _condition(self, clause: MergeClause, scope: ColumnScope) -> RowCondition | None:
        """Return the condition of a clause; None: it applies to all rows."""
        what = f"table {self.table}: the condition of {clause.name}"
        if clause.condition is None:
            return None
        given = clause.condition
        if isinstance(given, Condition):
            return given
        condition = given.in_scope(scope, what) if isinstance(given, ScopedText) else parse(given, scope, what)
        return None if isinstance(condition, Condition) and condition.predicate == TRUE else condition

    def _update_assignments(self, clause: MergeClause) -> Mapping[str, object]:
        """Return the assignments of an update; columns that only other updates set keep their values."""
        given = clause.assignments
        if given is None:
            names = _columns_from_source(self.fields, self.same)
            self._check_source_has(clause, [field for field in self.fields if field.name in names])
            given = {name: source_col(name) for name in names}
        return {**{name: target_col(name) for name in self.set_by_updates}, **given} if given else given

    def _insert_assignments(self, clause: MergeClause) -> Mapping[str, object]:
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

    def _check_source_has(self, clause: MergeClause, fields: Sequence[DataField]) -> None:
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

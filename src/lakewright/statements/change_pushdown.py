"""What a change prunes by and guards; statements that are a plain verb.

Both engines ask here, so that they read the same files and start again for the same reasons.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakewright.dml.assignments import ColumnRef, ColumnScope, LiteralValue, MergeSide, lit, source_col
from lakewright.dml.change_plan import ChangePlan
from lakewright.dml.change_tasks import scope_without
from lakewright.dml.keyed_strategy import guard_scope
from lakewright.dml.matching import Condition
from lakewright.dml.merge_clauses import ClauseKind, MergeClause, plan_merge
from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.spec.arrow_types import from_arrow_type
from lakewright.spec.identifier import quote_identifier
from lakewright.spec.predicate import TRUE, Predicate
from lakewright.spec.types import DataField
from lakewright.statements.bind_tables import BoundStatement, BoundTable
from lakewright.statements.change_query import ChangeClause, ChangeQuery, ColumnValue, conjuncts, source_column
from lakewright.statements.pushdown_filters import FilterTarget, condition_filter, constant_of
from lakewright.statements.spark_grammar import ParsedFragment
from lakewright.statements.sql_text import Args, Fragment
from lakewright.statements.statements import Action
from lakewright.statements.store_assignment import sql_type
from lakewright.statements.table_lookup import place_of
from lakewright.table.file_store_table import FileStoreTable

_SIMPLE_NAME = re.compile(r"\w+")  # names that need no quotes in the conditions of the library


def pruning(plan: ChangeQuery, bound: BoundStatement, args: Args, zone: str) -> Predicate:
    """Return what every row of the target fulfils that may change, as far as our statistics understand it."""
    piece = _piece(bound, plan.where or plan.on)
    if piece is None or plan.reaches_all:
        return TRUE
    found = condition_filter(piece, _target(plan), args, zone)
    return TRUE if found is None else found


def guard(table: FileStoreTable, plan: ChangeQuery, relations: Sequence[BoundTable], *, inserted: bool) -> str | None:
    """Return where no other commit may have written since the snapshot, so that what was found there still holds."""
    own = place_of(table)
    others = [relation.table for relation in relations if isinstance(relation.table, FileStoreTable)]
    if any(place_of(other) == own for other in others):
        return "table"
    absent = scope_without(plan.store, (name for name, _ in plan.equal)) if inserted else None
    if not plan.store.schema.primary_keys:
        return absent
    return guard_scope(absent or "bucket", plan.store.schema.bucket_mode)


@dataclass(frozen=True, slots=True)
class Verb:
    """A DELETE or an UPDATE of constants by a condition that we evaluate exactly as the engine does."""

    where: Predicate
    values: Mapping[str, LiteralValue] | None = None  # None: the rows are deleted


def verb_of(plan: ChangeQuery, bound: BoundStatement, args: Args, zone: str) -> Verb | None:
    """Return what a statement asks for if the verbs of the library can do it, else None.

    They need no query of the engine, and find and change rows in one task: about twice as fast.
    """
    if plan.source is not None:
        return None
    where: Predicate | None = TRUE
    if plan.where is not None:
        piece = _piece(bound, plan.where)
        where = None if piece is None else condition_filter(piece, _target(plan), args, zone, exact=True)
    if where is None:
        return None
    clause = plan.clauses[0]
    if clause.action is Action.DELETE:
        return Verb(where)
    values: dict[str, LiteralValue] = {}
    for name, value in clause.values.items():
        piece = _piece(bound, value.places[0]) if len(value.places) == 1 and not value.rebuilds else None
        constant = () if piece is None else constant_of(piece, _target(plan), args, value.field)
        if not constant:
            return None
        values[name] = lit(constant[0])
    return Verb(where, values)


def merge_of(plan: ChangeQuery, bound: BoundStatement, source: pa.Schema, args: Args, zone: str) -> ChangePlan | None:
    """Return what a MERGE asks for if the merge of the library does exactly that, else None.

    Rows are matched by equal columns alone. Values are columns of the source that are stored as they are, or constants;
    conditions ask one side, in a way in which we answer exactly as the engine does.
    """
    fields = _fields_of(source)
    if plan.source is None or plan.on is None or not _joins_by_columns(plan, fields):
        return None
    reader = _Sides(
        plan, bound, FilterTarget(plan.source.alias, tuple(fields.values()), plan.target.columns), args, zone
    )
    clauses = [reader.clause(clause) for clause in plan.clauses]
    if not all(clauses):
        return None
    both = ColumnScope(plan.store.schema.fields, source, zone)
    on = " AND ".join(f"t.{quote_identifier(name)} = s.{quote_identifier(other)}" for name, other in plan.equal)
    made = plan_merge(plan.store.name, plan.store.schema.fields, both, on, [one for one in clauses if one is not None])
    return replace(made, strict=True)


def _fields_of(source: pa.Schema) -> dict[str, DataField]:
    """Return the columns of a source whose types the format has."""
    fields = {}
    for at, given in enumerate(source):
        try:
            fields[given.name] = DataField(at, given.name, from_arrow_type(given.type, column=given.name))
        except InvalidInputError:
            continue
    return fields


def _joins_by_columns(plan: ChangeQuery, source: Mapping[str, DataField]) -> bool:
    """Return whether rows match if columns of one type are equal, and under no other condition."""
    if plan.on is None or not plan.equal or len(plan.equal) != len(tuple(conjuncts(plan.on.tree))):
        return False
    own = {field.name: field for field in plan.store.schema.fields}
    return all(
        name in own
        and other in source
        and _SIMPLE_NAME.fullmatch(name + other)
        and _stored_alike(source[other], own[name])
        for name, other in plan.equal
    )


def _stored_alike(given: DataField, field: DataField) -> bool:
    """Return whether a column takes the values of another one as they are."""
    try:
        return sql_type(given.type) == sql_type(field.type)
    except UnsupportedError:
        return False


@dataclass(frozen=True, slots=True)
class _Sides:
    """Reads clauses of a MERGE as those of the library's merge."""

    plan: ChangeQuery
    bound: BoundStatement
    source: FilterTarget
    args: Args
    zone: str

    def clause(self, given: ChangeClause) -> MergeClause | None:
        """Return a clause; None: it asks for more than the library's merge does."""
        condition = None if given.condition is None else self._condition(given)
        if given.condition is not None and condition is None:
            return None
        values: dict[str, object] = {}
        for name, value in given.values.items():
            term = self._value(value)
            if term is None:
                return None
            values[name] = term
        assignments = None if given.action is Action.DELETE else values
        return MergeClause(ClauseKind[given.when.name], given.action.name.lower(), assignments, condition)

    def _value(self, value: ColumnValue) -> ColumnRef | LiteralValue | None:
        """Return a value that is a column of the source, or a constant."""
        side = self.plan.source
        if side is None or value.rebuilds or value.is_typed:
            return None
        names = [field.name for field in self.source.fields]
        if value.places:
            name = source_column(value.places[0], self.plan.target, side)
        else:
            name = next(
                (one for one in names if value.text == (f"{quote_identifier(side.alias)}.{quote_identifier(one)}",)),
                None,
            )
        if name is not None:
            found = next((field for field in self.source.fields if field.name == name), None)
            return source_col(name) if found is not None and _stored_alike(found, value.field) else None
        piece = _piece(self.bound, value.places[0]) if len(value.places) == 1 else None
        constant = () if piece is None else constant_of(piece, _target(self.plan), self.args, value.field)
        return lit(constant[0]) if constant else None

    def _condition(self, given: ChangeClause) -> Condition | None:
        """Return a condition that asks one side alone."""
        piece = _piece(self.bound, given.condition)
        if piece is None:
            return None
        sides = {MergeSide.SOURCE: self.source, MergeSide.TARGET: _target(self.plan)}
        for side, columns in sides.items():
            # A name that both sides have is that of the side which the clause is about.
            about = {ClauseKind.NOT_MATCHED: MergeSide.SOURCE, ClauseKind.NOT_MATCHED_BY_SOURCE: MergeSide.TARGET}.get(
                ClauseKind[given.when.name]
            )
            if about not in {None, side}:
                continue
            found = condition_filter(
                piece, replace(columns, taken=() if about else columns.taken), self.args, self.zone, exact=True
            )
            if found is not None:
                return Condition.on(side, found)
        return None


def _target(plan: ChangeQuery) -> FilterTarget:
    return FilterTarget(plan.target.alias, plan.store.schema.fields, () if plan.source is None else plan.source.columns)


def _piece(bound: BoundStatement, fragment: Fragment | None) -> ParsedFragment | None:
    return next((piece for piece in bound.pieces if piece.fragment == fragment), None)

"""UPDATE, DELETE and MERGE as one query: a statement and its table in, the text of the query and its meaning out.

    statement -> clauses with expressions -> types of the expressions (the engine says them) -> the change query

The query reads the rows of the target with their places, and the source. It gives, for each row that changes, `group`,
`position` (both null for a new row), the number of the clause and the new values in the types of the table.
`rows.DecidedRows` says what these mean. Expressions are the user's own text, which an engine has to bind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakewright.errors import UnsupportedError
from lakewright.metadata.store import TableStore
from lakewright.spec.types import DataField
from lakewright.statements.change.assign import Storing, quoted
from lakewright.statements.change.clauses import (
    Clause,
    Clauses,
    Relation,
    Text,
    Value,
    bracketed,
    check_kept,
    listed,
)
from lakewright.statements.change.names import Side, equal_columns, has_subquery, mentioned, random_function
from lakewright.statements.change.rows import CLAUSE, NO_CLAUSE, DecidedRows, value_name
from lakewright.statements.model import Action, Delete, Merge, Update, When
from lakewright.statements.text import Fragment, Name
from lakewright.update.find import hidden_fields
from lakewright.update.primary_key import KeyedRules

GROUP, POSITION = "_lw_group", "_lw_position"  # the columns of the target relation that say where a row lies
_SOURCE_MARK = "_lw_source"


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """A statement that changes rows, checked against the columns of its table and source."""

    store: TableStore
    operation: str  # what the snapshot records
    target: Side
    clauses: tuple[Clause, ...]
    where: Fragment | None = None  # of UPDATE and DELETE
    on: Fragment | None = None  # of MERGE
    source: Side | None = None
    equal: tuple[tuple[str, str], ...] = ()  # columns of the target and the source that match by being equal

    # ---- what is read and written

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """The expressions of the user, in the order of the text; they may hold subqueries."""
        conditions = [one for one in (self.where, self.on, *(clause.condition for clause in self.clauses)) if one]
        values = [place for value in self._values() for place in value.places]
        return tuple(sorted({*conditions, *values}, key=lambda one: (one.start, one.end)))

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of the target that the query reads, in the order of the table, hidden ones last."""
        used = {*mentioned(self.fragments, self.target.columns)}
        for clause in self.clauses:
            if clause.action is Action.UPDATE:
                used |= {*self.assigned} - {*clause.values}
            used |= {name for name, value in clause.values.items() if value.rebuilds}
        return tuple(name for name in self.target.columns if name in used)

    @property
    def assigned(self) -> tuple[str, ...]:
        """The columns that updates set, in the order of the table."""
        return self._set_by(Action.UPDATE)

    @property
    def inserted(self) -> tuple[str, ...]:
        """The columns that inserts set, in the order of the table."""
        return self._set_by(Action.INSERT)

    @property
    def inserts(self) -> bool:
        """Whether rows may be inserted."""
        return any(clause.action is Action.INSERT for clause in self.clauses)

    @property
    def reaches_all(self) -> bool:
        """Whether rows of the target may change that fulfil no condition of the join."""
        return any(clause.when is When.NOT_MATCHED_BY_SOURCE for clause in self.clauses)

    @property
    def decided(self) -> DecidedRows:
        """What the rows of the query mean, for workers."""
        matched = [clause for clause in self.clauses if clause.when is When.MATCHED]
        is_one_delete = len(matched) == 1 and matched[0].action is Action.DELETE and matched[0].condition is None
        return DecidedRows(
            self.store.name,
            self.store.schema.fields,
            tuple(clause.action is Action.DELETE for clause in self.clauses),
            {field.name: at for at, field in enumerate(self._value_fields())},
            self.assigned,
            self.inserted,
            matches_once=self.source is not None and not is_one_delete,
            keys=tuple(name for name, _ in self.equal),
        )

    def _set_by(self, action: Action) -> tuple[str, ...]:
        names = {name for clause in self.clauses if clause.action is action for name in clause.values}
        return tuple(field.name for field in self.store.schema.fields if field.name in names)

    def _value_fields(self) -> list[DataField]:
        names = {*self.assigned, *self.inserted}
        return [field for field in self.store.schema.fields if field.name in names]

    def _values(self) -> Iterable[Value]:
        return (value for clause in self.clauses for value in clause.values.values())

    # ---- SQL

    def type_query(self) -> tuple[Text, tuple[Value, ...]]:
        """Return a query whose columns are all expressions that are assigned, so that the engine says their types.

        It also has every condition, so that the engine refuses what it cannot evaluate before a row is read. Each
        expression is in the scope of its clause: rows that are inserted have no row of the target.
        """
        values = [value for value in self._values() if not value.is_typed]
        number = {id(value): at for at, value in enumerate(values)}
        scopes: list[Text] = []
        for when in When:
            columns: list[Text] = [("1",)]
            for clause in (one for one in self.clauses if one.when is when):
                own = [value for value in clause.values.values() if not value.is_typed]
                columns += [(*value.text, f" AS {value_name(number[id(value)])}") for value in own]
                columns += [("CASE WHEN ", *clause.test, " THEN 1 END")] if clause.test else []
            if len(columns) > 1 or when is When.MATCHED:
                scopes.append(("(SELECT ", *listed(columns), *self._scope(when), ")"))
        joined = tuple(
            part
            for at, scope in enumerate(scopes)
            for part in ((" CROSS JOIN ",) if at else ()) + (*scope, f" AS q{at}")
        )
        names = ", ".join(value_name(at) for at in range(len(values))) or "1"
        return ("SELECT ", names, " FROM ", *joined, " LIMIT 0"), tuple(values)

    def _scope(self, when: When) -> Text:
        """Return the FROM of expressions of a kind of clauses."""
        if self.source is None or when is When.MATCHED:
            return self._from("INNER")
        if when is When.NOT_MATCHED:
            return (" FROM ", Relation.SOURCE, f" AS {quoted(self.source.alias)}")
        return (" FROM ", Relation.TARGET, f" AS {quoted(self.target.alias)}")

    def query(self, types: Sequence[pa.DataType], *, casts_fail: bool = True) -> Text:
        """Return the change query, given the types of the columns of `type_query`."""
        storing = Storing(self.store.name, casts_fail)
        untyped = iter(types)
        stored: dict[int, Text] = {}
        for value in self._values():
            stored[id(value)] = value.text if value.is_typed else _stored(storing, value, next(untyped))
        places: Text = (self._place(GROUP, "INT"), " AS `group`, ", self._place(POSITION, "BIGINT"), " AS `position`, ")
        columns = [
            (*self._value_of(field, stored), f" AS {value_name(at)}") for at, field in enumerate(self._value_fields())
        ]
        if self.source is None:
            clause: Text = (f"0 AS {CLAUSE}",)
            return ("SELECT ", *places, *listed([clause, *columns]), *self._from(""))
        names = ["`group`", "`position`", CLAUSE, *(value_name(at) for at in range(len(columns)))]
        number = (*self._number(), f" AS {CLAUSE}")
        inside: Text = ("SELECT ", *places, *listed([number, *columns]), *self._from(self._join))
        return ("SELECT ", ", ".join(names), " FROM (", *inside, f") AS _lw_changes WHERE {CLAUSE} IS NOT NULL")

    @property
    def _join(self) -> str:
        whens = {clause.when for clause in self.clauses}
        if When.NOT_MATCHED_BY_SOURCE in whens:
            return "FULL" if When.NOT_MATCHED in whens else "LEFT"
        if When.NOT_MATCHED in whens:
            return "RIGHT" if When.MATCHED in whens else "ANTI"
        return "INNER"

    def _place(self, column: str, kind: str) -> str:
        anti = self.source is not None and self._join == "ANTI"
        return f"CAST(NULL AS {kind})" if anti else f"{quoted(self.target.alias)}.{column}"

    def _from(self, join: str) -> Text:
        target: Text = (Relation.TARGET, f" AS {quoted(self.target.alias)}")
        if self.source is None or self.on is None:
            where = () if self.where is None else (" WHERE ", *bracketed(self.where))
            return (" FROM ", *target, *where)
        source: Text = (
            "(SELECT *, true AS ",
            _SOURCE_MARK,
            " FROM ",
            Relation.SOURCE,
            f") AS {quoted(self.source.alias)}",
        )
        on = (" ON ", *bracketed(self.on))
        match join:
            case "ANTI":
                return (" FROM ", *source, " LEFT ANTI JOIN ", *target, *on)
            case "RIGHT":
                return (" FROM ", *source, " LEFT JOIN ", *target, *on)
            case _:
                return (" FROM ", *target, f" {join} JOIN ", *source, *on)

    def _number(self) -> Text:
        """Return the number of the first clause that applies to a row."""
        parts: list[str | Fragment | Relation] = ["CASE"]
        for at, clause in enumerate(self.clauses):
            parts += [" WHEN ", *self._applies(clause), f" THEN {at}"]
        if self.decided.matches_once and self._may_leave_matches:
            # A row that two source rows match is ambiguous even if the conditions leave one, as in Spark and Delta.
            parts += [" WHEN ", *self._applies(Clause(When.MATCHED, Action.UPDATE, {})), f" THEN {NO_CLAUSE}"]
        return (*parts, " END")

    @property
    def _may_leave_matches(self) -> bool:
        matched = [clause for clause in self.clauses if clause.when is When.MATCHED]
        return bool(matched) and all(clause.condition is not None for clause in matched)

    def _applies(self, clause: Clause) -> Text:
        """Return the condition that a clause, if none before it does, applies to a row."""
        tests: list[Text] = []
        target, source = f"{quoted(self.target.alias)}.{POSITION}", ""
        if self.source is not None and self._join not in {"INNER", "ANTI"}:
            source = f"{quoted(self.source.alias)}.{_SOURCE_MARK}"
            kinds = {
                When.MATCHED: f"{target} IS NOT NULL AND {source} IS NOT NULL",
                When.NOT_MATCHED: f"{target} IS NULL",
                When.NOT_MATCHED_BY_SOURCE: f"{source} IS NULL",
            }
            tests.append((kinds[clause.when],))
        if clause.test:
            tests.append(clause.test)
        return tuple(part for at, test in enumerate(tests or [("true",)]) for part in ((" AND ",) if at else ()) + test)

    def _value_of(self, field: DataField, stored: Mapping[int, Text]) -> Text:
        """Return the new value of a column, whichever clause applies."""
        if self.source is None:
            return stored[id(self.clauses[0].values[field.name])]
        # Of a query inside an expression an engine may not see the number of the clause, so it gets the conditions.
        by_number = not any(has_subquery(fragment) for fragment in self.fragments)
        parts: list[str | Fragment | Relation] = [f"CASE {CLAUSE}" if by_number else "CASE"]
        for at, clause in enumerate(self.clauses):
            value = clause.values.get(field.name)
            kept = clause.action is Action.UPDATE and field.name in self.assigned
            text = stored[id(value)] if value is not None else (self._column(field.name),) if kept else ("NULL",)
            parts += [" WHEN ", *((str(at),) if by_number else self._applies(clause)), " THEN ", *text]
        return (*parts, " END")

    def _column(self, name: str) -> str:
        return f"{quoted(self.target.alias)}.{quoted(name)}"

    def write(self, text: Text, written: Callable[[str | Fragment], str], relation: Callable[[Relation], str]) -> str:
        """Return SQL text, given how the engine writes own text and expressions, and how it names relations."""
        sides = [side for side in (self.target, self.source) if side is not None]
        out = []
        for part in text:
            if isinstance(part, Relation):
                out.append(relation(part))
                continue
            own = written(part)
            for side in sides if isinstance(part, Fragment) else ():
                own = side.unqualified(own)
            out.append(own)
        return "".join(out)


# ---- statements ------------------------------------------------------------------------------------------------------


def plan_delete(store: TableStore, statement: Delete) -> ChangePlan:
    """Return the plan of a DELETE."""
    if store.schema.primary_keys:
        KeyedRules.of(store).check_delete()
    clause = Clause(When.MATCHED, Action.DELETE, {})
    return ChangePlan(store, "DELETE", _target(store, statement), (clause,), statement.where)


def plan_update(store: TableStore, statement: Update) -> ChangePlan:
    """Return the plan of an UPDATE."""
    target = _target(store, statement)
    clause = Clause(When.MATCHED, Action.UPDATE, Clauses(store, target).updated(statement.assignments))
    return _checked(ChangePlan(store, "UPDATE", target, (clause,), statement.where))


def plan_merge(store: TableStore, statement: Merge, source_columns: Sequence[str]) -> ChangePlan:
    """Return the plan of a MERGE, given the columns of its source."""
    target = _target(store, statement)
    name = Name(_name_parts(statement.source), statement.source) if _is_name(statement.source) else None
    source = Side.of(name, statement.source_alias, source_columns)
    if source.alias.casefold() == target.alias.casefold():
        message = f"the target and the source are both called {source.alias!r}; give one of them an alias"
        raise statement.source.error(message)
    for fragment in (statement.on, *(clause.condition for clause in statement.clauses)):
        random = None if fragment is None else random_function(fragment.tree)
        if fragment is not None and random is not None:
            message = f"a condition of MERGE has to say the same whenever it is asked, and {random}() does not"
            raise fragment.error(message, kind=UnsupportedError, function=random)
    equal = equal_columns(statement.on, target, source)
    made = Clauses(store, target, source, equal)
    clauses = tuple(made.clause(clause) for clause in statement.clauses)
    return _checked(ChangePlan(store, "MERGE", target, clauses, None, statement.on, source, equal))


def source_query(statement: Merge) -> tuple[str | Fragment, ...]:
    """Return the query of the source of a merge, whose columns `plan_merge` needs."""
    columns = f"({', '.join(map(quoted, statement.source_columns))})" if statement.source_columns else ""
    return ("SELECT * FROM ", statement.source, f" AS {quoted(statement.source_alias or '_lw_query')}{columns}")


def _target(store: TableStore, statement: Delete | Update | Merge) -> Side:
    names = [field.name for field in (*store.schema.fields, *hidden_fields(store))]
    return Side.of(statement.table, statement.alias, names)


def _is_name(source: Fragment) -> bool:
    return not source.text.startswith("(") and source.text[:6].upper() != "VALUES"


def _name_parts(source: Fragment) -> tuple[str, ...]:
    return tuple(part.name for part in source.tree.parts) if hasattr(source.tree, "parts") else (source.tree.name,)


def _checked(plan: ChangePlan) -> ChangePlan:
    """Refuse what the merge engine of a primary-key table does not allow, and what would lose values."""
    if plan.store.schema.primary_keys:
        rules = KeyedRules.of(plan.store)
        if plan.decided.deletes:
            rules.check_delete()
        if plan.assigned:
            rules.check_update(plan.assigned)
    updates = [clause for clause in plan.clauses if clause.action is Action.UPDATE]
    for field in plan.store.schema.fields:
        if field.name in plan.assigned and any(field.name not in clause.values for clause in updates):
            check_kept(plan.store.name, field)
    return plan


def _stored(storing: Storing, value: Value, dtype: pa.DataType) -> Text:
    """Return an expression in the type of its column."""
    mark = "\0"
    written = storing.value(mark, dtype, value.field, value.places[0] if value.places else None)
    first, *rest = written.split(mark)
    out: list[str | Fragment | Relation] = [first]
    for part in rest:
        out += [*value.text, part]
    return tuple(out)

"""UPDATE, DELETE, MERGE as one query whose rows feed a `ChangePlan`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum, auto
from typing import TypeAlias

import pyarrow as pa
from sqlglot import exp

from lakewright.dml.change_plan import CLAUSE, NO_CLAUSE, DecidedRows, value_name
from lakewright.dml.keyed_rules import KeyedChangeRules
from lakewright.dml.row_location import system_fields
from lakewright.errors import ColumnNotExistException, InvalidInputError, UnsupportedError
from lakewright.metadata.table_store import TableStore
from lakewright.spec.identifier import quote_identifier
from lakewright.spec.types import FLOAT_ROOTS, TIMESTAMP_ROOTS, AtomicType, DataField, DataType, RowType
from lakewright.statements.sql_text import Fragment, Name
from lakewright.statements.statements import Action, Assignment, Delete, MergeClause, MergeInto, Update, When
from lakewright.statements.store_assignment import StoreAssignment, default_of, literal
from lakewright.statements.token_cursor import words_of

# ---- Names of columns ------------------------------------------------------------------------------------------------
# Names compare without regard to upper and lower case, and may be qualified by an alias or by the name of the table.

_RANDOM = {"rand", "random", "randn", "uuid", "shuffle", "monotonically_increasing_id", "spark_partition_id", "randstr"}


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a change as the statement names it, with its columns."""

    alias: str
    columns: tuple[str, ...]
    name: tuple[str, ...] = ()  # the name of the table, if it has no alias: columns may be qualified by all of it

    @classmethod
    def of(cls, name: Name | None, alias: str | None, columns: Sequence[str]) -> Side:
        """Return the side that a name or a query with an alias is."""
        if alias is not None or name is None:
            return cls(alias or "_lw_query", tuple(columns))
        return cls(name.parts[-1], tuple(columns), name.parts)

    def column(self, name: str) -> str | None:
        """Return a column by its name in any case; None: there is none."""
        wanted = name.casefold()
        found = [own for own in self.columns if own.casefold() == wanted]
        return name if name in found else found[0] if found else None

    def path(self, parts: Sequence[str]) -> tuple[str, ...] | None:
        """Return a path without the qualifier, its first part the column; None: it names no column of this side."""
        at = self._qualifier_length(parts)
        column = self.column(parts[at])
        return None if column is None else (column, *parts[at + 1 :])

    def is_qualified(self, parts: Sequence[str]) -> bool:
        """Return whether a path begins with the name or alias of this side, which goes before a column of that name."""
        return self._qualifier_length(parts) > 0

    def _qualifier_length(self, parts: Sequence[str]) -> int:
        """Return how many parts at the front name this side, with one of its columns behind them."""
        for count in range(len(self.name) or 1, 0, -1):
            own = (self.name or (self.alias,))[-count:]
            if len(parts) > count and _same(parts[:count], own) and self.column(parts[count]) is not None:
                return count
        return 0

    def unqualify(self, text: str) -> str:
        """Return text in which columns are qualified by the last part of the table's name alone."""
        if len(self.name) <= 1 or self.name[0].casefold() not in text.casefold():
            return text
        words, out, last, at = words_of(text), [], 0, 0
        while at < len(words):
            count = self._qualifier_at([word.text for word in words[at : at + 2 * len(self.name)]])
            if count and not (at and words[at - 1].text == "."):
                out += [text[last : words[at].start], quote_identifier(self.alias)]
                last = words[at + 2 * count - 2].end
                at += 2 * count - 1
                continue
            at += 1
        return "".join([*out, text[last:]])

    def _qualifier_at(self, words: Sequence[str]) -> int:
        """Return how many parts of the table's name, more than one, stand here with a dot behind each; else 0."""
        for count in range(len(self.name), 1, -1):
            dots = words[1 : 2 * count : 2]
            if (
                len(dots) == count
                and all(dot == "." for dot in dots)
                and _same(words[: 2 * count : 2], self.name[-count:])
            ):
                return count
        return 0


def _same(one: Sequence[str], other: Sequence[str]) -> bool:
    return [part.casefold() for part in one] == [part.casefold() for part in other]


def assigned_path(
    table: str, side: Side, fields: Sequence[DataField], parts: Sequence[str], place: Fragment
) -> tuple[str, ...]:
    """Return the column, and the fields inside it, that an assignment sets, in the spelling of the table."""
    path = side.path(parts)
    if path is None:
        raise _unknown(table, ".".join(parts), [field.name for field in fields], place)
    field = next(one for one in fields if one.name == path[0])
    out = [field.name]
    for part in path[1:]:
        inside = field.type.fields if isinstance(field.type, RowType) else ()
        found = [one for one in inside if one.name.casefold() == part.casefold()]
        if not found:
            raise _unknown(table, ".".join((*out, part)), [one.name for one in inside], place)
        field = found[0]
        out.append(field.name)
    return tuple(out)


def _unknown(table: str, name: str, known: Sequence[str], place: Fragment) -> ColumnNotExistException:
    near = get_close_matches(name.rsplit(".", maxsplit=1)[-1], known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
    message = f"{table} has no column {name!r}; {hint}"
    return place.error(message, kind=ColumnNotExistException, table=table, column=name)


def equal_columns(on: Fragment, target: Side, source: Side) -> tuple[tuple[str, str], ...]:
    """Return the pairs of columns of the target and the source that a condition says are equal."""
    found = []
    for part in conjuncts(on.tree):
        if not isinstance(part, exp.EQ):
            continue
        sides = [_column_of(node, target, source) for node in (part.this, part.expression)]
        for one, other in (sides, sides[::-1]):
            if one is not None and other is not None and one[0] is target and other[0] is source:
                found.append((one[1], other[1]))
                break
    return tuple(found)


def conjuncts(tree: exp.Expr) -> Iterable[exp.Expr]:
    """Return the parts of a condition that must all be true."""
    tree = tree.unnest()
    if isinstance(tree, exp.And):
        return (*conjuncts(tree.this), *conjuncts(tree.expression))
    return (tree,)


def source_column(value: Fragment, target: Side, source: Side) -> str | None:
    """Return the column of the source that an expression is; None: it is more, or another one."""
    found = _column_of(value.tree, target, source)
    return found[1] if found is not None and found[0] is source else None


def _column_of(node: exp.Expr, target: Side, source: Side) -> tuple[Side, str] | None:
    """Return the side and the name of a plain column; None: it is something else, or it is not clear which."""
    node = node.unnest()
    if not isinstance(node, exp.Column):
        return None
    parts = [part.name for part in node.parts]
    found = [(side, path[0]) for side in (target, source) if (path := side.path(parts)) is not None and len(path) == 1]
    if len(found) > 1:
        found = [one for one in found if one[0].is_qualified(parts)] if len(parts) > 1 else []
    return found[0] if len(found) == 1 else None


def random_function(tree: exp.Expr) -> str | None:
    """Return a function of an expression whose result differs from call to call; None: there is none."""
    for node in tree.find_all(exp.Func):
        name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
        if name.lower() in _RANDOM:
            return name.lower()
    return None


def has_subquery(fragment: Fragment) -> bool:
    """Return whether an expression has a query in it."""
    return any(word.upper in {"SELECT", "VALUES", "TABLE"} for word in words_of(fragment.text))


def mentioned_columns(fragments: Iterable[Fragment], columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns whose names occur in some expressions; all of them if one has a star or a pattern."""
    words = [word for fragment in fragments for word in words_of(fragment.text)]
    if any(word.text in {"*", "EXCEPT"} and not word.is_text and _is_star(words, at) for at, word in enumerate(words)):
        return tuple(columns)
    used = {word.text.casefold() for word in words if not word.is_text}
    return tuple(name for name in columns if name.casefold() in used)


def _is_star(words: Sequence[object], at: int) -> bool:
    """Return whether a `*` stands for columns, and does not multiply."""
    before = getattr(words[at - 1], "text", "") if at else ""
    return before in {"", ",", "(", "."} or before.upper() in {"SELECT", "DISTINCT", "ALL"}


# ---- Clauses ---------------------------------------------------------------------------------------------------------
# Columns that an assignment names are those of the table, in any case. `*` takes the columns of the source by name. A
# field inside a struct is set by building the struct anew. Invariant: a column is set at most once by a
# clause, and a clause that inserts gives every column a value, a default, or a null that it takes.

_MICROS = 6  # digits of a second that an engine keeps


class RowSource(Enum):
    """A relation of the change query that the engine names."""

    TARGET = auto()
    SOURCE = auto()


# SQL in parts: own text, the user's expressions, and relations.
Text: TypeAlias = tuple["str | Fragment | RowSource", ...]


@dataclass(frozen=True, slots=True)
class ColumnValue:
    """An expression that a clause gives a column."""

    text: Text
    field: DataField
    places: tuple[Fragment, ...] = ()  # what the user wrote
    is_typed: bool = False  # it has the type of the column already
    rebuilds: bool = False  # it reads the other fields of the column


@dataclass(frozen=True, slots=True)
class ChangeClause:
    """What happens to some rows: the condition is None if it happens to all of them."""

    when: When
    action: Action
    values: Mapping[str, ColumnValue]
    condition: Fragment | None = None
    test: Text = ()  # the condition as text


def bracket_text(fragment: Fragment) -> Text:
    """Return an expression in brackets."""
    # A comment up to the end of a line may stand in the slice, so the bracket closes on a line of its own.
    return ("(", fragment, "\n)" if "--" in fragment.text else ")")


def join_texts(texts: Sequence[Text]) -> Text:
    """Return texts with commas between them."""
    return tuple(part for at, text in enumerate(texts) for part in ((", ",) if at else ()) + text)


@dataclass(frozen=True, slots=True)
class Clauses:
    """Turns assignments into values of columns."""

    store: TableStore
    target: Side
    source: Side | None = None
    equal: tuple[tuple[str, str], ...] = ()  # columns of the target and the source that match by being equal

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns of the table."""
        return self.store.schema.fields

    def clause(self, given: MergeClause) -> ChangeClause:
        """Return a clause of a merge."""
        values: dict[str, ColumnValue] = {}
        if given.action is Action.UPDATE:
            values = (
                self._all(given) if given.assignments is None else self.update_values(given.assignments, given.when)
            )
            values = self._changing(values)
        elif given.action is Action.INSERT:
            values = self._all(given) if given.assignments is None else self._insert_values(given)
        test = () if given.condition is None else self._scope_expression(given.condition, given.when)
        return ChangeClause(given.when, given.action, values, given.condition, test)

    def update_values(self, assignments: Sequence[Assignment], when: When = When.MATCHED) -> dict[str, ColumnValue]:
        """Return the values of the columns that assignments set; of a struct the other fields stay as they are."""
        paths: dict[tuple[str, ...], Fragment] = {}
        for one in assignments:
            path = assigned_path(self.store.name, self.target, self.fields, one.path, one.place)
            if any(path[: len(other)] == other or other[: len(path)] == path for other in paths):
                raise one.place.error(f"{'.'.join(path)} is assigned twice")
            paths[path] = one.value
        out = {}
        for field in self.fields:
            inside = {path[1:]: value for path, value in paths.items() if path[0] == field.name}
            if () in inside:
                out[field.name] = self._value(inside[()], field, when)
            elif inside:
                check_kept(self.store.name, field)
                column = f"{quote_identifier(self.target.alias)}.{quote_identifier(field.name)}"
                text = self._rebuilt(field, column, inside, when)
                out[field.name] = ColumnValue(text, field, tuple(inside.values()), rebuilds=True)
        return out

    def _value(self, given: Fragment, field: DataField, when: When) -> ColumnValue:
        if given.text.upper() == "DEFAULT":
            return ColumnValue((default_of(field),), field, is_typed=True)
        return ColumnValue(self._scope_expression(given, when), field, (given,))

    def _scope_expression(self, given: Fragment, when: When) -> Text:
        """Return an expression in which columns that both sides have are those of the side that the clause is about."""
        if when is When.MATCHED or self.source is None or has_subquery(given):
            return bracket_text(given)
        own, other = (self.source, self.target) if when is When.NOT_MATCHED else (self.target, self.source)
        changes = {}
        for column in given.tree.find_all(exp.Column):
            first = column.parts[0]
            is_plain = own.column(first.name) is not None and not own.is_qualified([part.name for part in column.parts])
            if is_plain and other.column(first.name) is not None and "start" in first.meta:
                changes[first.meta["start"], first.meta["start"]] = f"{quote_identifier(own.alias)}."
        return ("(", given.replace_at(changes), "\n)") if changes else bracket_text(given)

    def _all(self, given: MergeClause) -> dict[str, ColumnValue]:
        """Return the values of `*`: each column from the column of the source with its name."""
        out = {}
        for field in self.fields:
            name = None if self.source is None else self.source.column(field.name)
            if self.source is None or name is None:
                what = "UPDATE SET *" if given.action is Action.UPDATE else "INSERT *"
                message = (
                    f"{self.store.name}: {what} takes every column from the source, which lacks {field.name!r}; add "
                )
                message += "it to the source, or name the columns that are to be set"
                raise self._clause_error(given, message, field)
            out[field.name] = ColumnValue((f"{quote_identifier(self.source.alias)}.{quote_identifier(name)}",), field)
        return out

    def _insert_values(self, given: MergeClause) -> dict[str, ColumnValue]:
        values: dict[str, ColumnValue] = {}
        seen: set[str] = set()
        for one in given.assignments or ():
            path = assigned_path(self.store.name, self.target, self.fields, one.path, one.place)
            if len(path) > 1:
                raise one.place.error(f"{'.'.join(path)} lies inside a column; INSERT names whole columns")
            if path[0] in seen:
                raise one.place.error(f"the column {path[0]!r} is there twice")
            seen.add(path[0])
            field = next(field for field in self.fields if field.name == path[0])
            if one.value.text.upper() != "DEFAULT":  # a column without a value gets its default
                values[field.name] = self._value(one.value, field, given.when)
        for field in self.fields:
            if field.name not in values and not field.type.nullable and field.default_value is None:
                message = f"{self.store.name}: INSERT gives no value to {field.name!r} ({field.type}), which takes no "
                raise self._clause_error(given, f"{message}null and has no default; give it one", field)
        return values

    def _clause_error(self, given: MergeClause, message: str, field: DataField) -> InvalidInputError:
        place = given.place or Fragment("", 0, 0)
        return place.error(message, kind=InvalidInputError, table=self.store.name, column=field.name)

    def _changing(self, values: dict[str, ColumnValue]) -> dict[str, ColumnValue]:
        """Leave out columns that get the value which the condition of the merge says they have."""
        kept = {name: value for name, value in values.items() if not self._is_same(value)}
        return kept or values

    def _is_same(self, value: ColumnValue) -> bool:
        own = value.field.type
        if self.source is None or value.is_typed or value.rebuilds:
            return False
        if isinstance(own, AtomicType) and own.root in FLOAT_ROOTS:
            return False  # zero equals minus zero
        others = [other for name, other in self.equal if name == value.field.name]
        if value.places:
            return source_column(value.places[0], self.target, self.source) in others
        return any(
            value.text == (f"{quote_identifier(self.source.alias)}.{quote_identifier(other)}",) for other in others
        )

    def _rebuilt(self, field: DataField, column: str, inside: Mapping[tuple[str, ...], Fragment], when: When) -> Text:
        """Return a struct of which some fields get other values."""
        parts: list[Text] = []
        for one in field.type.fields if isinstance(field.type, RowType) else ():
            own = {path[1:]: value for path, value in inside.items() if path[0] == one.name}
            name = f"{column}.{quote_identifier(one.name)}"
            text: Text = (name,)
            if () in own:
                text = self._value(own[()], one, when).text
            elif own:
                text = self._rebuilt(one, name, own, when)
            parts.append((f"{literal(one.name)}, ", *text))
        return ("named_struct(", *join_texts(parts), ")")


def check_kept(table: str, field: DataField) -> None:
    """Refuse a column whose values lose something on their way through an engine, where they have to stay."""
    if _is_finer(field.type):
        raise UnsupportedError(
            f"{table}: the column {field.name!r} ({field.type}) holds times finer than microseconds, which would be "
            "lost; set the whole column in every clause that updates, or change it with table.new_update()",
            table=table,
            column=field.name,
        )


def _is_finer(dtype: DataType) -> bool:
    match dtype:
        case AtomicType():
            return dtype.root in TIMESTAMP_ROOTS and dtype.precision > _MICROS
        case RowType():
            return any(_is_finer(field.type) for field in dtype.fields)
    inside = [getattr(dtype, name, None) for name in ("element", "key", "value")]
    return any(_is_finer(one) for one in inside if one is not None)


# ---- The change query ------------------------------------------------------------------------------------------------
# statement -> clauses with expressions -> types of the expressions (the engine says them) -> the change query
#
# The query reads the rows of the target with their places, and the source. It gives, for each row that changes,
# `group`, `position` (both null for a new row), the number of the clause and the new values in the types of the
# table. `rows.DecidedRows` says what these mean. Expressions are the user's own text, which an engine has to bind.

GROUP, POSITION = "_lw_group", "_lw_position"  # the columns of the target relation that say where a row lies
_SOURCE_MARK = "_lw_source"


@dataclass(frozen=True, slots=True)
class ChangeQuery:
    """A statement that changes rows, checked against the columns of its table and source."""

    store: TableStore
    operation: str  # what the snapshot records
    target: Side
    clauses: tuple[ChangeClause, ...]
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
        used = {*mentioned_columns(self.fragments, self.target.columns)}
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

    def _values(self) -> Iterable[ColumnValue]:
        return (value for clause in self.clauses for value in clause.values.values())

    # ---- SQL

    def type_query(self) -> tuple[Text, tuple[ColumnValue, ...]]:
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
                scopes.append(("(SELECT ", *join_texts(columns), *self._scope(when), ")"))
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
            return (" FROM ", RowSource.SOURCE, f" AS {quote_identifier(self.source.alias)}")
        return (" FROM ", RowSource.TARGET, f" AS {quote_identifier(self.target.alias)}")

    def query(self, types: Sequence[pa.DataType], *, casts_fail: bool = True) -> Text:
        """Return the change query, given the types of the columns of `type_query`."""
        storing = StoreAssignment(self.store.name, casts_fail)
        untyped = iter(types)
        stored: dict[int, Text] = {}
        for value in self._values():
            stored[id(value)] = value.text if value.is_typed else _store_value(storing, value, next(untyped))
        places: Text = (self._place(GROUP, "INT"), " AS `group`, ", self._place(POSITION, "BIGINT"), " AS `position`, ")
        columns = [
            (*self._value_of(field, stored), f" AS {value_name(at)}") for at, field in enumerate(self._value_fields())
        ]
        if self.source is None:
            clause: Text = (f"0 AS {CLAUSE}",)
            return ("SELECT ", *places, *join_texts([clause, *columns]), *self._from(""))
        names = ["`group`", "`position`", CLAUSE, *(value_name(at) for at in range(len(columns)))]
        number = (*self._number(), f" AS {CLAUSE}")
        inside: Text = ("SELECT ", *places, *join_texts([number, *columns]), *self._from(self._join))
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
        return f"CAST(NULL AS {kind})" if anti else f"{quote_identifier(self.target.alias)}.{column}"

    def _from(self, join: str) -> Text:
        target: Text = (RowSource.TARGET, f" AS {quote_identifier(self.target.alias)}")
        if self.source is None or self.on is None:
            where = () if self.where is None else (" WHERE ", *bracket_text(self.where))
            return (" FROM ", *target, *where)
        source: Text = (
            "(SELECT *, true AS ",
            _SOURCE_MARK,
            " FROM ",
            RowSource.SOURCE,
            f") AS {quote_identifier(self.source.alias)}",
        )
        on = (" ON ", *bracket_text(self.on))
        match join:
            case "ANTI":
                return (" FROM ", *source, " LEFT ANTI JOIN ", *target, *on)
            case "RIGHT":
                return (" FROM ", *source, " LEFT JOIN ", *target, *on)
            case _:
                return (" FROM ", *target, f" {join} JOIN ", *source, *on)

    def _number(self) -> Text:
        """Return the number of the first clause that applies to a row."""
        parts: list[str | Fragment | RowSource] = ["CASE"]
        for at, clause in enumerate(self.clauses):
            parts += [" WHEN ", *self._applies(clause), f" THEN {at}"]
        if self.decided.matches_once and self._may_leave_matches:
            # A row that two source rows match is ambiguous even if the conditions leave one, as in Spark and Delta.
            parts += [" WHEN ", *self._applies(ChangeClause(When.MATCHED, Action.UPDATE, {})), f" THEN {NO_CLAUSE}"]
        return (*parts, " END")

    @property
    def _may_leave_matches(self) -> bool:
        matched = [clause for clause in self.clauses if clause.when is When.MATCHED]
        return bool(matched) and all(clause.condition is not None for clause in matched)

    def _applies(self, clause: ChangeClause) -> Text:
        """Return the condition that a clause, if none before it does, applies to a row."""
        tests: list[Text] = []
        target, source = f"{quote_identifier(self.target.alias)}.{POSITION}", ""
        if self.source is not None and self._join not in {"INNER", "ANTI"}:
            source = f"{quote_identifier(self.source.alias)}.{_SOURCE_MARK}"
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
        parts: list[str | Fragment | RowSource] = [f"CASE {CLAUSE}" if by_number else "CASE"]
        for at, clause in enumerate(self.clauses):
            value = clause.values.get(field.name)
            kept = clause.action is Action.UPDATE and field.name in self.assigned
            text = stored[id(value)] if value is not None else (self._column(field.name),) if kept else ("NULL",)
            parts += [" WHEN ", *((str(at),) if by_number else self._applies(clause)), " THEN ", *text]
        return (*parts, " END")

    def _column(self, name: str) -> str:
        return f"{quote_identifier(self.target.alias)}.{quote_identifier(name)}"

    def write(self, text: Text, written: Callable[[str | Fragment], str], relation: Callable[[RowSource], str]) -> str:
        """Return SQL text, given how the engine writes own text and expressions, and how it names relations."""
        sides = [side for side in (self.target, self.source) if side is not None]
        out = []
        for part in text:
            if isinstance(part, RowSource):
                out.append(relation(part))
                continue
            own = written(part)
            for side in sides if isinstance(part, Fragment) else ():
                own = side.unqualify(own)
            out.append(own)
        return "".join(out)


# ---- statements ------------------------------------------------------------------------------------------------------


def plan_delete(store: TableStore, statement: Delete) -> ChangeQuery:
    """Return the plan of a DELETE."""
    if store.schema.primary_keys:
        KeyedChangeRules.of(store).check_delete()
    clause = ChangeClause(When.MATCHED, Action.DELETE, {})
    return ChangeQuery(store, "DELETE", _target(store, statement), (clause,), statement.where)


def plan_update(store: TableStore, statement: Update) -> ChangeQuery:
    """Return the plan of an UPDATE."""
    target = _target(store, statement)
    clause = ChangeClause(When.MATCHED, Action.UPDATE, Clauses(store, target).update_values(statement.assignments))
    return _check_plan(ChangeQuery(store, "UPDATE", target, (clause,), statement.where))


def plan_merge(store: TableStore, statement: MergeInto, source_columns: Sequence[str]) -> ChangeQuery:
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
    return _check_plan(ChangeQuery(store, "MERGE", target, clauses, None, statement.on, source, equal))


def source_query(statement: MergeInto) -> tuple[str | Fragment, ...]:
    """Return the query of the source of a merge, whose columns `plan_merge` needs."""
    columns = f"({', '.join(map(quote_identifier, statement.source_columns))})" if statement.source_columns else ""
    return (
        "SELECT * FROM ",
        statement.source,
        f" AS {quote_identifier(statement.source_alias or '_lw_query')}{columns}",
    )


def _target(store: TableStore, statement: Delete | Update | MergeInto) -> Side:
    names = [field.name for field in (*store.schema.fields, *system_fields(store))]
    return Side.of(statement.table, statement.alias, names)


def _is_name(source: Fragment) -> bool:
    return not source.text.startswith("(") and source.text[:6].upper() != "VALUES"


def _name_parts(source: Fragment) -> tuple[str, ...]:
    return tuple(part.name for part in source.tree.parts) if hasattr(source.tree, "parts") else (source.tree.name,)


def _check_plan(plan: ChangeQuery) -> ChangeQuery:
    """Refuse what the merge engine of a primary-key table does not allow, and what would lose values."""
    if plan.store.schema.primary_keys:
        rules = KeyedChangeRules.of(plan.store)
        if plan.decided.deletes:
            rules.check_delete()
        if plan.assigned:
            rules.check_update(plan.assigned)
    updates = [clause for clause in plan.clauses if clause.action is Action.UPDATE]
    for field in plan.store.schema.fields:
        if field.name in plan.assigned and any(field.name not in clause.values for clause in updates):
            check_kept(plan.store.name, field)
    return plan


def _store_value(storing: StoreAssignment, value: ColumnValue, dtype: pa.DataType) -> Text:
    """Return an expression in the type of its column."""
    mark = "\0"
    written = storing.value(mark, dtype, value.field, value.places[0] if value.places else None)
    first, *rest = written.split(mark)
    out: list[str | Fragment | RowSource] = [first]
    for part in rest:
        out += [*value.text, part]
    return tuple(out)

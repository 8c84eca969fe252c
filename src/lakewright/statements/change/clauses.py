"""The clauses of a change: assignments of a statement in, the SQL text of each column's new value out.

Columns that an assignment names are those of the table, in any case. `*` takes the columns of the source by name. A
field inside a struct is set by building the struct anew. What always holds: a column is set at most once by a clause,
and a clause that inserts gives every column a value, a default, or a null that it takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from sqlglot import exp

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.metadata.store import TableStore
from lakewright.spec.types import FLOAT_ROOTS, TIMESTAMP_ROOTS, AtomicType, DataField, DataType, RowType
from lakewright.statements.change.assign import default_of, literal, quoted
from lakewright.statements.change.names import Side, assigned_path, has_subquery, source_column
from lakewright.statements.model import Action, Assignment, MergeClause, When
from lakewright.statements.text import Fragment

_MICROS = 6  # digits of a second that an engine keeps


class Relation(Enum):
    """A relation of the change query that the engine names."""

    TARGET = auto()
    SOURCE = auto()


# SQL in parts: own text, the user's expressions, and relations.
Text: TypeAlias = tuple["str | Fragment | Relation", ...]


@dataclass(frozen=True, slots=True)
class Value:
    """An expression that a clause gives a column."""

    text: Text
    field: DataField
    places: tuple[Fragment, ...] = ()  # what the user wrote
    is_typed: bool = False  # it has the type of the column already
    rebuilds: bool = False  # it reads the other fields of the column


@dataclass(frozen=True, slots=True)
class Clause:
    """What happens to some rows: the condition is None if it happens to all of them."""

    when: When
    action: Action
    values: Mapping[str, Value]
    condition: Fragment | None = None
    test: Text = ()  # the condition as text


def bracketed(fragment: Fragment) -> Text:
    """Return an expression in brackets."""
    # A comment up to the end of a line may stand in the slice, so the bracket closes on a line of its own.
    return ("(", fragment, "\n)" if "--" in fragment.text else ")")


def listed(texts: Sequence[Text]) -> Text:
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

    def clause(self, given: MergeClause) -> Clause:
        """Return a clause of a merge."""
        values: dict[str, Value] = {}
        if given.action is Action.UPDATE:
            values = self._all(given) if given.assignments is None else self.updated(given.assignments, given.when)
            values = self._changing(values)
        elif given.action is Action.INSERT:
            values = self._all(given) if given.assignments is None else self._inserted(given)
        test = () if given.condition is None else self._scoped(given.condition, given.when)
        return Clause(given.when, given.action, values, given.condition, test)

    def updated(self, assignments: Sequence[Assignment], when: When = When.MATCHED) -> dict[str, Value]:
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
                column = f"{quoted(self.target.alias)}.{quoted(field.name)}"
                text = self._rebuilt(field, column, inside, when)
                out[field.name] = Value(text, field, tuple(inside.values()), rebuilds=True)
        return out

    def _value(self, given: Fragment, field: DataField, when: When) -> Value:
        if given.text.upper() == "DEFAULT":
            return Value((default_of(field),), field, is_typed=True)
        return Value(self._scoped(given, when), field, (given,))

    def _scoped(self, given: Fragment, when: When) -> Text:
        """Return an expression in which columns that both sides have are those of the side that the clause is about."""
        if when is When.MATCHED or self.source is None or has_subquery(given):
            return bracketed(given)
        own, other = (self.source, self.target) if when is When.NOT_MATCHED else (self.target, self.source)
        changes = {}
        for column in given.tree.find_all(exp.Column):
            first = column.parts[0]
            is_plain = own.column(first.name) is not None and not own.is_qualified([part.name for part in column.parts])
            if is_plain and other.column(first.name) is not None and "start" in first.meta:
                changes[first.meta["start"], first.meta["start"]] = f"{quoted(own.alias)}."
        return ("(", given.replaced(changes), "\n)") if changes else bracketed(given)

    def _all(self, given: MergeClause) -> dict[str, Value]:
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
                raise self._refused(given, message, field)
            out[field.name] = Value((f"{quoted(self.source.alias)}.{quoted(name)}",), field)
        return out

    def _inserted(self, given: MergeClause) -> dict[str, Value]:
        values: dict[str, Value] = {}
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
                raise self._refused(given, f"{message}null and has no default; give it one", field)
        return values

    def _refused(self, given: MergeClause, message: str, field: DataField) -> InvalidInputError:
        place = given.place or Fragment("", 0, 0)
        return place.error(message, kind=InvalidInputError, table=self.store.name, column=field.name)

    def _changing(self, values: dict[str, Value]) -> dict[str, Value]:
        """Leave out columns that get the value which the condition of the merge says they have."""
        kept = {name: value for name, value in values.items() if not self._is_same(value)}
        return kept or values

    def _is_same(self, value: Value) -> bool:
        own = value.field.type
        if self.source is None or value.is_typed or value.rebuilds:
            return False
        if isinstance(own, AtomicType) and own.root in FLOAT_ROOTS:
            return False  # zero equals minus zero
        others = [other for name, other in self.equal if name == value.field.name]
        if value.places:
            return source_column(value.places[0], self.target, self.source) in others
        return any(value.text == (f"{quoted(self.source.alias)}.{quoted(other)}",) for other in others)

    def _rebuilt(self, field: DataField, column: str, inside: Mapping[tuple[str, ...], Fragment], when: When) -> Text:
        """Return a struct of which some fields get other values."""
        parts: list[Text] = []
        for one in field.type.fields if isinstance(field.type, RowType) else ():
            own = {path[1:]: value for path, value in inside.items() if path[0] == one.name}
            name = f"{column}.{quoted(one.name)}"
            text: Text = (name,)
            if () in own:
                text = self._value(own[()], one, when).text
            elif own:
                text = self._rebuilt(one, name, own, when)
            parts.append((f"{literal(one.name)}, ", *text))
        return ("named_struct(", *listed(parts), ")")


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

"""The names that an expression may use: parts of a name in, the column that it means out.

Names do not depend on case. What always holds: a name that means nothing, or two things, is an error that shows the
place and the nearest names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

import pyarrow as pa

from lakewright.errors import ColumnNotExistException, InvalidInputError
from lakewright.statements.embedded.dialect.values import Value


@dataclass(slots=True)
class Column:
    """A column that a query can use."""

    name: str
    sql: str
    type: pa.DataType

    def value(self, written: str) -> Value:
        """Return the column as an expression; a result column is named as the query writes it."""
        return Value(self.sql, self.type, written)


@dataclass(frozen=True, slots=True)
class Bound:
    """A query of DuckDB; its columns are named `c0`, `c1` ... there."""

    sql: str
    columns: list[Column]


@dataclass(slots=True)
class Relation:
    """A table, view or subquery in FROM."""

    qualifier: tuple[str, ...]  # `("t",)`, or `("catalog", "db", "t")` without an alias
    columns: list[Column]

    def matches(self, parts: Sequence[str]) -> bool:
        """Return whether parts of a name are this relation's name."""
        tail = self.qualifier[len(self.qualifier) - len(parts) :]
        return bool(parts) and len(parts) <= len(self.qualifier) and _lower(tail) == _lower(parts)

    def columns_named(self, name: str) -> list[Column]:
        """Return the columns of a name."""
        return [column for column in self.columns if column.name.lower() == name.lower()]


@dataclass(slots=True)
class Scope:
    """What one query block sees, and the block around it."""

    outer: Scope | None = None
    relations: list[Relation] = field(default_factory=list)
    merged: dict[str, Column] = field(default_factory=dict)  # columns of USING, which several relations have
    hidden: list[Column] = field(default_factory=list)  # those that they stand for
    locals: dict[str, Value] = field(default_factory=dict)  # variables of a lambda
    first: dict[str, Value] = field(default_factory=dict)  # aliases that win over columns
    last: dict[str, Value] = field(default_factory=dict)  # aliases that columns win over

    def resolve(self, parts: Sequence[str]) -> tuple[Value, list[str]]:
        """Return what a name means, and the fields inside it that are left."""
        scope: Scope | None = self
        while scope is not None:
            if (found := scope.own(parts)) is not None:
                return found
            scope = scope.outer
        known = [column.name for column in self.visible()]
        near = get_close_matches(parts[-1], known, n=3)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else f"; there are {', '.join(known[:20])}"
        written = ".".join(parts)
        raise ColumnNotExistException(
            f"there is no column {written!r}{hint if known else ''}", column=written, known=known
        )

    def visible(self) -> Iterator[Column]:
        """Yield the columns that `*` stands for."""
        yield from self.merged.values()
        for relation in self.relations:
            yield from (column for column in relation.columns if not any(column is one for one in self.hidden))

    def own(self, parts: Sequence[str]) -> tuple[Value, list[str]] | None:
        """Return what a name means in this block alone."""
        name, rest = parts[0].lower(), list(parts[1:])
        if name in self.locals:
            return self.locals[name], rest
        if name in self.first:
            return self.first[name], rest
        for length in range(len(parts) - 1, 0, -1):
            found = [
                one for relation in self._matching(parts[:length]) for one in relation.columns_named(parts[length])
            ]
            if found:
                return _only(found, parts).value(parts[length]), list(parts[length + 1 :])
        if name in self.merged:
            return self.merged[name].value(parts[0]), rest
        found = [column for column in self.visible() if column.name.lower() == name]
        if found:
            return _only(found, parts).value(parts[0]), rest
        return (self.last[name], rest) if name in self.last else None

    def _matching(self, parts: Sequence[str]) -> list[Relation]:
        return [relation for relation in self.relations if relation.matches(parts)]

    def named(self, parts: Sequence[str]) -> Relation:
        """Return the relation of a name, for `t.*`."""
        found = self._matching(parts)
        if len(found) == 1:
            return found[0]
        known = ", ".join(relation.qualifier[-1] for relation in self.relations if relation.qualifier)
        problem = "no table" if not found else "more than one table"
        raise InvalidInputError(f"there is {problem} {'.'.join(parts)!r} here; there are {known or 'none'}")


def inner_relation(alias: str, qualifier: tuple[str, ...], columns: Sequence[tuple[str, str, pa.DataType]]) -> Relation:
    """Return a relation whose columns DuckDB knows as `alias.internal name`."""
    return Relation(qualifier, [Column(name, f"{alias}.{inner}", kind) for name, inner, kind in columns])


def _only(found: Sequence[Column], parts: Sequence[str]) -> Column:
    if len(found) > 1:
        raise InvalidInputError(
            f"the column {'.'.join(parts)!r} is ambiguous: write the table before it, as in t.{parts[-1]}"
        )
    return found[0]


def _lower(parts: Sequence[str]) -> tuple[str, ...]:
    return tuple(part.lower() for part in parts)

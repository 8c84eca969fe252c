"""Conditions of a merge: text or a predicate in; the columns to join by, a predicate on the target, and a mask out.

The text is that of filters (`spec.predicate.text`), and columns may be compared with columns. Those of the target are
written `t.name` or `target.name`, those of the source `s.name` or `source.name`; a plain name is enough if only one of
them has such a column. The logic is SQL's with three values: only rows match for which the condition is true.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from lakewright.errors import ColumnNotExistException, InvalidInputError, UnsupportedError
from lakewright.spec.arrow import from_arrow_type
from lakewright.spec.predicate.builder import ColumnName, PredicateBuilder, resolve_path, spelled
from lakewright.spec.predicate.filters import Filter, to_predicate
from lakewright.spec.predicate.predicate import TRUE, Predicate, and_predicates, conjuncts, normalise, or_predicates
from lakewright.spec.predicate.text import parse_condition
from lakewright.spec.types import DataField, DataType
from lakewright.update.values import ColumnRef, Scope, Side

_SIDES = {"s": Side.SOURCE, "source": Side.SOURCE, "t": Side.TARGET, "target": Side.TARGET}


class RowCondition(Protocol):
    """What decides for which pairs of rows a clause applies."""

    @property
    def refs(self) -> frozenset[ColumnRef]:
        """The columns that it needs."""

    def mask(self, rows: int, target: pa.Table | None, source: pa.Table | None) -> pa.Array | pa.ChunkedArray:
        """Evaluate it on pairs of rows: true, false or null for each."""


class ScopedText(str):
    """The text of a condition in another language than that of filters; a subclass says how it is understood."""

    __slots__ = ()

    def in_scope(self, scope: Scope, what: str) -> RowCondition:
        """Return the condition on the columns of a scope; `what` names it in errors."""
        return parse(str(self), scope, what)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on pairs of rows, or on rows of one side. Each path of its predicate begins with `t` or `s`."""

    predicate: Predicate

    @classmethod
    def on(cls, side: Side, predicate: Predicate) -> Condition:
        """Return a condition on the rows of one side, given as a predicate on its columns."""
        return cls(_on_side(predicate, side))

    @property
    def refs(self) -> frozenset[ColumnRef]:
        """The columns that it needs."""
        return frozenset(ref for leaf in self.predicate.leaves() for ref in _refs(leaf))

    def equalities(self) -> tuple[tuple[str, str], ...]:
        """Return the pairs of target and source columns that must be equal: those joined by the outermost ANDs."""
        pairs = (_equality(part) for part in conjuncts(self.predicate))
        return tuple(dict.fromkeys(pair for pair in pairs if pair is not None))

    def residual(self) -> Condition | None:
        """Return the rest of the condition, for pairs whose equalities hold; None: there is no more."""
        left = [part for part in conjuncts(self.predicate) if _equality(part) is None]
        return Condition(and_predicates(left)) if left else None

    def on_target(self) -> Predicate:
        """Return the strongest predicate on the target's columns that every matching target row fulfils."""
        return _on_target(normalise(self.predicate))

    def mask(self, rows: int, target: pa.Table | None, source: pa.Table | None) -> pa.Array | pa.ChunkedArray:
        """Evaluate it on pairs of rows: true, false or null for each."""
        sides = {Side.TARGET: target, Side.SOURCE: source}

        def find(path: tuple[str, ...]) -> tuple[pa.ChunkedArray, tuple[str, ...]]:
            table = sides[Side(path[0])]
            if table is None:
                raise InvalidInputError(f"the column {'.'.join(path)} was not read", column=path[1])
            return table.column(path[1]), path[2:]

        return self.predicate.mask_of(rows, find)


def parse(given: Filter, scope: Scope, what: str) -> Condition:
    """Parse a condition; a predicate is one on the target, or on the source if there is no target.

    `what` names the condition in errors.
    """
    try:
        if isinstance(given, str):
            return Condition(parse_condition(given, _ScopedBuilder(scope)))
        side = Side.TARGET if scope.target else Side.SOURCE
        return Condition.on(side, to_predicate(given, list(_fields(scope, side).values()), scope.zone))
    except (InvalidInputError, ColumnNotExistException, UnsupportedError) as error:
        raise type(error)(f"{what}: {error.message}", **error.facts) from error


class _ScopedBuilder(PredicateBuilder):
    """Builds predicates on the columns of both sides."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope.target, scope.zone)
        self._scope = scope

    def resolve(self, field: ColumnName) -> tuple[tuple[str, ...], DataType]:
        """Return the side, the path and the type that a name stands for."""
        rest: ColumnName
        if isinstance(field, tuple):
            head, rest, dot = field[0], field[1:], len(field) > 1
        else:
            head, mark, rest = field.partition(".")
            dot = bool(mark)
        if dot and self._scope.source is not None and head.casefold() in _SIDES:
            return self._path_of(_SIDES[head.casefold()], rest)
        sides = [side for side in Side if not {head, field}.isdisjoint(_names(self._scope, side))]
        if len(sides) > 1:
            name = spelled(field)
            raise InvalidInputError(
                f"the column {name!r} is there on both sides; write t.{name} or s.{name}", column=name
            )
        return self._path_of(sides[0] if sides else Side.TARGET if self._scope.target else Side.SOURCE, field)

    def _path_of(self, side: Side, name: ColumnName) -> tuple[tuple[str, ...], DataType]:
        text = spelled(name)
        if not _names(self._scope, side):
            which = "target" if side is Side.TARGET else "source"
            raise ColumnNotExistException(
                f"{side}.{text} cannot be asked here, as there is no row of the {which}", column=text
            )
        path, dtype = resolve_path(_fields(self._scope, side, text), name)
        return (side.value, *path), dtype


def _names(scope: Scope, side: Side) -> list[str]:
    if side is Side.TARGET:
        return [field.name for field in scope.target]
    return [] if scope.source is None else list(scope.source.names)


def _fields(scope: Scope, side: Side, needed: str = "") -> dict[str, DataField]:
    """Return the columns of a side; a source column whose type the format lacks is an error only if it is needed."""
    if side is Side.TARGET:
        return {field.name: field for field in scope.target}
    fields = {}
    for number, field in enumerate(scope.source or ()):
        try:
            fields[field.name] = DataField(number, field.name, from_arrow_type(field.type, column=field.name))
        except (InvalidInputError, UnsupportedError):
            if needed in {field.name, ""} or needed.startswith(f"{field.name}."):
                raise
    return fields


def _on_side(p: Predicate, side: Side) -> Predicate:
    """Return a predicate whose paths begin with a side."""
    if p.children:
        return replace(p, children=tuple(_on_side(child, side) for child in p.children))
    return replace(p, path=(side.value, *p.path)) if p.path else p


def _refs(leaf: Predicate) -> Iterable[ColumnRef]:
    return (ColumnRef(Side(path[0]), path[1]) for path in (leaf.path, leaf.other) if path)


def _equality(p: Predicate) -> tuple[str, str] | None:
    """Return the columns, of the target and of the source, that a comparison asks to be equal."""
    if p.method != "equal" or len(p.path) != 2 or len(p.other) != 2:  # noqa: PLR2004 - a side and a column
        return None
    by_side = {p.path[0]: p.path[1], p.other[0]: p.other[1]}
    return (by_side[Side.TARGET], by_side[Side.SOURCE]) if len(by_side) > 1 else None


def _on_target(p: Predicate) -> Predicate:
    match p.method:
        case "and":
            return and_predicates(_on_target(child) for child in p.children)
        case "or":
            return or_predicates(_on_target(child) for child in p.children)
        case "not":
            inner = _on_target(p.children[0])
            return TRUE if inner == TRUE else ~inner
        case _ if not p.path:
            return p
        case _ if p.other or p.path[0] != Side.TARGET:
            return TRUE
        case _:
            return replace(p, field=".".join(p.path[1:]), path=p.path[1:])

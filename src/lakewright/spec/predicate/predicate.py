"""Conditions on rows as values: a `Predicate` is a frozen tree, evaluated on Arrow batches.

Leaves compare one column (or a path into a ROW, `a.b`) with literals, which are values of the column's type once the
predicate is bound; `and`, `or` and `not` join them. The logic is SQL's with three values: a comparison with null is
unknown, and a row is kept only where the whole is true, so `notEqual` and `notIn` never keep nulls. Floating-point
numbers compare as in Spark: NaN equals NaN and is above every other number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import ColumnNotExistException, InvalidInputError
from lakewright.spec import arguments
from lakewright.spec.predicate.comparison import (
    PATTERNS,
    SYMBOLS,
    compare_arrow,
    matches_arrow,
    show,
    show_name,
)
from lakewright.spec.types import DataType, Value

# For the path of a field: the column that holds it, and the path inside that column.
FindColumn: TypeAlias = Callable[[tuple[str, ...]], tuple[pa.Array | pa.ChunkedArray, tuple[str, ...]]]

_INVERSE = {
    "equal": "notEqual",
    "lessThan": "greaterOrEqual",
    "lessOrEqual": "greaterThan",
    "isNull": "isNotNull",
    "in": "notIn",
    "between": "notBetween",
    "alwaysTrue": "alwaysFalse",
}
_INVERSE |= {other: method for method, other in _INVERSE.items()}


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition on rows: an immutable value that can be pickled, compared and shown as SQL with `str`.

    Make one with a `PredicateBuilder`, and join predicates with `&`, `|` and `~`. Reads also take filters as text.

    >>> from lakewright.spec.types import AtomicType
    >>> id_is_1 = Predicate("equal", "id", (1,), dtype=AtomicType("INT"), path=("id",))
    >>> str(id_is_1 | ~id_is_1)
    'id = 1 OR NOT (id = 1)'
    """

    method: str
    field: str | None = None
    literals: tuple[Value, ...] = ()
    children: tuple[Predicate, ...] = ()
    dtype: DataType | None = None  # the type of the column, once the predicate is bound to a schema
    path: tuple[str, ...] = ()  # the column and the ROW fields below it, once bound
    other: tuple[str, ...] = ()  # the path of a column that it is compared with; only in conditions over two tables

    def __and__(self, other: Predicate) -> Predicate:
        return and_predicates((self, other))

    def __or__(self, other: Predicate) -> Predicate:
        return or_predicates((self, other))

    def __invert__(self) -> Predicate:
        return Predicate("not", children=(self,))

    def __str__(self) -> str:
        return _show(self)

    @property
    def column(self) -> str | None:
        """The column that it compares as a whole; None if it compares a field inside of a ROW, or nothing."""
        if not self.path:
            return self.field
        return self.path[0] if len(self.path) == 1 else None

    def fields(self) -> set[str]:
        """Return the columns that it compares; a path into a ROW is written `a.b`."""
        return {leaf.field for leaf in self.leaves() if leaf.field is not None}

    def columns(self) -> set[str]:
        """Return the top-level columns that it needs."""
        return {leaf.path[0] if leaf.path else leaf.field for leaf in self.leaves() if leaf.field is not None}

    def leaves(self) -> Iterable[Predicate]:
        """Yield the comparisons, left to right."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()

    def to_arrow(self, schema: pa.Schema | None = None) -> pc.Expression:
        """Return it as an Arrow expression; if a schema is given, literals have the types of its columns."""
        if schema is not None:
            arguments.instance("schema", schema, pa.Schema, "a pyarrow schema")

        def column(leaf: Predicate) -> tuple[Any, pa.DataType | None]:
            if schema is None:
                return pc.field(*leaf.path), None
            return pc.field(*leaf.path), _arrow_type_at(schema, leaf.path)

        return _translate(self, column, pc.scalar)

    def mask(self, batch: pa.RecordBatch | pa.Table) -> pa.Array:
        """Evaluate it on a batch: true, false or null for each row."""
        arguments.instance("batch", batch, pa.RecordBatch | pa.Table, "a batch or table of Arrow")
        return self.mask_of(batch.num_rows, lambda path: (batch.column(path[0]), path[1:]))

    def mask_of(
        self, rows: int, find: Callable[[tuple[str, ...]], tuple[pa.Array | pa.ChunkedArray, tuple[str, ...]]]
    ) -> pa.Array:
        """Evaluate it on rows whose columns `find` returns."""

        def column(leaf: Predicate) -> tuple[Any, pa.DataType | None]:
            array, inside = find(leaf.path)
            for name in inside:
                array = pc.struct_field(array, name)
            return array, array.type

        out = _translate(self, column, pa.scalar)
        return pa.repeat(out, rows) if isinstance(out, pa.Scalar) else out


TRUE = Predicate("alwaysTrue")


FALSE = Predicate("alwaysFalse")


def and_predicates(predicates: Iterable[Predicate]) -> Predicate:
    """Join predicates: all must hold. No predicate at all holds always."""
    return _join("and", predicates, TRUE, FALSE)


def or_predicates(predicates: Iterable[Predicate]) -> Predicate:
    """Join predicates: one must hold. No predicate at all never holds."""
    return _join("or", predicates, FALSE, TRUE)


def _join(method: str, predicates: Iterable[Predicate], neutral: Predicate, absorbing: Predicate) -> Predicate:
    flat: list[Predicate] = []
    for predicate in arguments.instances(
        "predicates", predicates, Predicate, "predicates that a PredicateBuilder made"
    ):
        flat.extend(predicate.children if predicate.method == method else (predicate,))
    if any(p.method == absorbing.method for p in flat):
        return absorbing
    flat = [p for p in flat if p.method != neutral.method]
    if len(flat) <= 1:
        return flat[0] if flat else neutral
    return Predicate(method, children=tuple(flat))


def normalise(p: Predicate) -> Predicate:
    """Move every `not` down into the comparisons; it stays only around patterns."""
    match p.method:
        case "and":
            return and_predicates(normalise(child) for child in p.children)
        case "or":
            return or_predicates(normalise(child) for child in p.children)
        case "not":
            return negate(p.children[0])
        case _:
            return p


def negate(p: Predicate) -> Predicate:
    """Return the predicate that is true exactly where this one is false."""
    match p.method:
        case "and":
            return or_predicates(negate(child) for child in p.children)
        case "or":
            return and_predicates(negate(child) for child in p.children)
        case "not":
            return normalise(p.children[0])
        case method if method in PATTERNS:
            return Predicate("not", children=(p,))
        case method:
            return replace(p, method=_INVERSE[method])


def conjuncts(p: Predicate) -> list[Predicate]:
    """Split a predicate into predicates that must all hold; an empty list if it always holds."""
    p = normalise(p)
    if p.method == "alwaysTrue":
        return []
    return list(p.children) if p.method == "and" else [p]


def _translate(
    p: Predicate, column: Callable[[Predicate], tuple[Any, pa.DataType | None]], scalar: Callable[..., Any]
) -> Any:  # noqa: ANN401 - an expression, or the values of the rows: pyarrow's functions take both
    match p.method:
        case "and":
            return reduce(pc.and_kleene, (_translate(child, column, scalar) for child in p.children))
        case "or":
            return reduce(pc.or_kleene, (_translate(child, column, scalar) for child in p.children))
        case "not":
            return pc.invert(_translate(p.children[0], column, scalar))
        case "alwaysTrue" | "alwaysFalse":
            return scalar(p.method == "alwaysTrue")
    if p.dtype is None:
        raise InvalidInputError(f"the predicate on {p.field!r} is not bound; make it with a PredicateBuilder")
    array, arrow_type = column(p)
    if p.other:
        second, _ = column(replace(p, path=p.other))
        return compare_arrow(p.method, array, second, p.dtype)
    return matches_arrow(p.method, p.literals, p.dtype, array, arrow_type)


def _arrow_type_at(schema: pa.Schema, path: tuple[str, ...]) -> pa.DataType:
    index = schema.get_field_index(path[0])
    if index < 0:
        raise ColumnNotExistException(f"the Arrow schema has no column {path[0]!r}", column=path[0])
    dtype = schema.field(index).type
    for name in path[1:]:
        dtype = dtype.field(name).type
    return dtype


def _show(p: Predicate) -> str:
    match p.method:
        case "and":
            return " AND ".join(f"({c})" if c.method == "or" else str(c) for c in p.children)
        case "or":
            return " OR ".join(str(c) for c in p.children)
        case "not":
            return f"NOT ({p.children[0]})"
        case "alwaysTrue":
            return "TRUE"
        case "alwaysFalse":
            return "FALSE"
        case method if p.other:
            return f"{show_name(p.path)} {SYMBOLS[method]} {show_name(p.other)}"
        case _:
            return show(p.method, show_name(p.path or (p.field or "",)), p.literals, p.dtype)

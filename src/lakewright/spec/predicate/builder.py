"""Columns and literals in, predicates out that are bound to the columns of a schema.

Each literal is checked against the type of its column, and becomes a value of that type.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from lakewright.errors import ColumnNotExistException, InvalidInputError
from lakewright.spec import arguments
from lakewright.spec.predicate.comparison import (
    PATTERNS,
    SYMBOLS,
    common_type,
    in_order,
)
from lakewright.spec.predicate.literals import UNKNOWN, check_comparable, check_text, compare, floor_of
from lakewright.spec.predicate.predicate import Predicate, and_predicates, negate, or_predicates
from lakewright.spec.stats import is_nan
from lakewright.spec.types import DataField, DataType, RowType, Value, with_nullable
from lakewright.spec.values import to_python

# A column, or a field inside of a ROW: text as users write it, or the names of the column and of each field below it.
ColumnName: TypeAlias = str | tuple[str, ...]


class PredicateBuilder:
    """Makes predicates on the columns of a schema; a table's `new_read_builder().new_predicate_builder()` returns one.

    A column is given by its name, a field of a ROW by a path such as `a.b`, or as a tuple of names, which are not read
    for dots: where a column is named `a.b`, the text means that column, and `("a", "b")` the field.

    Each literal is checked against the type of its column. It need not be a value of that type: a comparison with a
    literal between two values, or outside of all values, is replaced by the equal comparison with a value. As in SQL, a
    comparison with None or a null keeps no row.

    >>> from lakewright.spec.types import AtomicType
    >>> builder = PredicateBuilder([DataField(0, "id", AtomicType("INT"))])
    >>> str(builder.and_predicates([builder.greater_than("id", 2.5), builder.is_in("id", [4, 3, 3])]))
    'id > 2 AND id IN (3, 4)'
    """

    def __init__(self, fields: Sequence[DataField], zone: str = "UTC") -> None:
        checked = arguments.instances("fields", fields, DataField, "fields, such as those of a table")
        self._fields = {field.name: field for field in checked}
        self._zone = zone  # of text that names none, for columns WITH LOCAL TIME ZONE

    def equal(self, field: ColumnName, literal: object) -> Predicate:
        """Keep rows whose value equals the literal."""
        return self._compare("equal", field, literal)

    def not_equal(self, field: ColumnName, literal: object) -> Predicate:
        """Keep rows whose value is not null and differs from the literal."""
        return self._compare("notEqual", field, literal)

    def less_than(self, field: ColumnName, literal: object) -> Predicate:
        """Keep rows whose value is below the literal."""
        return self._compare("lessThan", field, literal)

    def less_or_equal(self, field: ColumnName, literal: object) -> Predicate:
        """Keep rows whose value is the literal or below it."""
        return self._compare("lessOrEqual", field, literal)

    def greater_than(self, field: ColumnName, literal: object) -> Predicate:
        """Keep rows whose value is above the literal."""
        return self._compare("greaterThan", field, literal)

    def greater_or_equal(self, field: ColumnName, literal: object) -> Predicate:
        """Keep rows whose value is the literal or above it."""
        return self._compare("greaterOrEqual", field, literal)

    def is_null(self, field: ColumnName) -> Predicate:
        """Keep rows whose value is null."""
        return self._leaf(field, "isNull")

    def is_not_null(self, field: ColumnName) -> Predicate:
        """Keep rows whose value is not null."""
        return self._leaf(field, "isNotNull")

    def startswith(self, field: ColumnName, pattern_literal: str) -> Predicate:
        """Keep rows whose text begins with the literal."""
        return self._pattern("startsWith", field, pattern_literal)

    def endswith(self, field: ColumnName, pattern_literal: str) -> Predicate:
        """Keep rows whose text ends with the literal."""
        return self._pattern("endsWith", field, pattern_literal)

    def contains(self, field: ColumnName, pattern_literal: str) -> Predicate:
        """Keep rows whose text contains the literal."""
        return self._pattern("contains", field, pattern_literal)

    def like(self, field: ColumnName, pattern_literal: str) -> Predicate:
        r"""Keep rows whose text matches: `%` is any text, `_` one character, `\` takes the next one literally."""
        return self._pattern("like", field, pattern_literal)

    def is_in(self, field: ColumnName, literals: Iterable[object]) -> Predicate:
        """Keep rows whose value is one of the literals."""
        return self._members("in", field, literals)

    def is_not_in(self, field: ColumnName, literals: Iterable[object]) -> Predicate:
        """Keep rows whose value is not null and none of the literals. If one is None, no row is kept, as in SQL."""
        return self._members("notIn", field, literals)

    def between(self, field: ColumnName, included_lower_bound: object, included_upper_bound: object) -> Predicate:
        """Keep rows whose value lies between the bounds, both included."""
        lower = self.greater_or_equal(field, included_lower_bound)
        upper = self.less_or_equal(field, included_upper_bound)
        if (lower.method, upper.method) == ("greaterOrEqual", "lessOrEqual"):
            return replace(lower, method="between", literals=(*lower.literals, *upper.literals))
        return and_predicates((lower, upper))

    def not_between(self, field: ColumnName, included_lower_bound: object, included_upper_bound: object) -> Predicate:
        """Keep rows whose value lies below or above the bounds."""
        return negate(self.between(field, included_lower_bound, included_upper_bound))

    def and_predicates(self, predicates: Iterable[Predicate]) -> Predicate:
        """Join predicates: all must hold."""
        return and_predicates(predicates)

    def or_predicates(self, predicates: Iterable[Predicate]) -> Predicate:
        """Join predicates: one must hold."""
        return or_predicates(predicates)

    def not_predicate(self, predicate: Predicate) -> Predicate:
        """Keep rows for which the predicate is false, not those for which it is unknown because of a null."""
        return ~and_predicates((predicate,))

    def resolve(self, field: ColumnName) -> tuple[tuple[str, ...], DataType]:
        """Return the path and the type of a column, or of a field of a ROW."""
        return resolve_path(self._fields, field)

    def compare_columns(self, method: str, field: ColumnName, other: ColumnName) -> Predicate:
        """Keep rows in which the comparison `method` holds between two columns; numbers compare exactly."""
        (path, dtype), (second, other_dtype) = self.resolve(field), self.resolve(other)
        name, other_name = spelled(field), spelled(other)
        common = common_type(check_comparable(dtype, name), check_comparable(other_dtype, other_name))
        if common is None:
            raise InvalidInputError(
                f"the columns {name!r} ({dtype}) and {other_name!r} ({other_dtype}) cannot be compared exactly; cast "
                "one of them to the type of the other",
                column=name,
            )
        return Predicate(method, name, (), (), common, path, second)

    def _compare(self, method: str, field: ColumnName, literal: object) -> Predicate:
        return self._leaf(field, *compare(method, literal, self.resolve(field)[1], spelled(field), self._zone))

    def _pattern(self, method: str, field: ColumnName, pattern: object) -> Predicate:
        dtype = self.resolve(field)[1]
        if pattern is None:
            return self._leaf(field, *UNKNOWN)
        return self._leaf(field, method, (check_text(dtype, pattern, spelled(field)),))

    def _members(self, method: str, field: ColumnName, literals: Iterable[object]) -> Predicate:
        name = spelled(field)
        if isinstance(literals, str | bytes) or not isinstance(literals, Iterable):
            raise InvalidInputError(f"IN on column {name!r} needs a list of literals, not {literals!r}", column=name)
        dtype = check_comparable(self.resolve(field)[1], name)
        has_null = False
        values: set[Value] = set()
        for literal in literals:
            if literal is None:
                has_null = True
                continue
            floor = floor_of(literal, dtype, name, self._zone)
            if floor.exact:
                values.add(math.nan if is_nan(floor.value) else floor.value)
        return self._leaf(field, method, (*sorted(values, key=in_order), *((None,) if has_null else ())))

    def _leaf(self, field: ColumnName, method: str, literals: tuple[Value, ...] = ()) -> Predicate:
        path, dtype = self.resolve(field)
        return Predicate(method, spelled(field), literals, (), dtype, path)


def spelled(name: ColumnName) -> str:
    """Return a column as messages show it."""
    return ".".join(map(str, name)) if isinstance(name, tuple) else name


def resolve_path(fields: Mapping[str, DataField], name: ColumnName) -> tuple[tuple[str, ...], DataType]:
    """Return the path and the type of a column, or of a field of a ROW.

    Text names a column, or else leads to a field by its dots; of a tuple each element is one name.
    """
    if isinstance(name, tuple) and all(isinstance(part, str) for part in name):
        found = _type_at(fields, name)
        if found is not None:
            return name, found
    elif not isinstance(name, str):
        raise arguments.wrong("a column", "its name as text, or the names that lead to a field of it", name)
    elif name in fields:
        return (name,), fields[name].type
    else:
        head, dot, rest = name.partition(".")
        if dot and head in fields:
            inner = fields[head].type
            if isinstance(inner, RowType):
                path, dtype = resolve_path({f.name: f for f in inner.fields}, rest)
                return (head, *path), dtype
    shown = spelled(name)
    raise ColumnNotExistException(
        f"there is no column {arguments.shown(shown)}; {arguments.did_you_mean(shown, fields)}", column=shown
    )


def _type_at(fields: Mapping[str, DataField], path: tuple[str, ...]) -> DataType | None:
    """Return the type at the end of a path; None if there is nothing."""
    if not path or path[0] not in fields:
        return None
    dtype = fields[path[0]].type
    if len(path) == 1:
        return dtype
    return _type_at({f.name: f for f in dtype.fields}, path[1:]) if isinstance(dtype, RowType) else None


def bind(predicate: Predicate, fields: Sequence[DataField]) -> Predicate:
    """Return the predicate with every leaf checked against a schema; it may be bound to an older schema already."""
    return _bind(predicate, PredicateBuilder(fields))


def _bind(p: Predicate, builder: PredicateBuilder) -> Predicate:
    if p.children:
        return Predicate(p.method, children=tuple(_bind(child, builder) for child in p.children))
    if p.field is None:
        return p
    name = p.path or p.field  # text that was bound before is not read anew: another column may have that name now
    path, dtype = builder.resolve(name)
    source = p.dtype
    if source is not None and with_nullable(source, True) == with_nullable(dtype, True):  # noqa: FBT003 - reads well
        return replace(p, path=path, dtype=dtype)
    literals = p.literals if source is None else tuple(to_python(v, source) for v in p.literals)
    match p.method:
        case "isNull" | "isNotNull":
            return builder._leaf(name, p.method)  # noqa: SLF001 - one module
        case "in" | "notIn":
            return builder._members(p.method, name, literals)  # noqa: SLF001 - one module
        case "between":
            return builder.between(name, literals[0], literals[1])
        case "notBetween":
            return builder.not_between(name, literals[0], literals[1])
        case method if method in PATTERNS:
            return builder._pattern(method, name, literals[0])  # noqa: SLF001 - one module
        case method if method in SYMBOLS:
            return builder._compare(method, name, literals[0])  # noqa: SLF001 - one module
        case method:
            raise InvalidInputError(f"there is no predicate method {method!r}")

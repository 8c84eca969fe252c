"""`Predicate`, `PredicateBuilder`, evaluation on statistics and values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import ColumnNotExistException, InvalidInputError
from lakewright.spec import argument_checks
from lakewright.spec.column_stats import ColumnStats, is_nan
from lakewright.spec.comparison import (
    PATTERNS,
    SYMBOLS,
    UNKNOWN,
    all_null,
    check_comparable,
    check_text,
    common_type,
    compare,
    compare_arrow,
    floor_of,
    in_order,
    is_float,
    matches_arrow,
    matches_value,
    may_match_stats,
    show,
    show_name,
)
from lakewright.spec.scalars import to_python
from lakewright.spec.types import DataField, DataType, RowType, Value, with_nullable

# ---- Predicates ------------------------------------------------------------------------------------------------------
# Leaves compare one column (or a path into a ROW, `a.b`) with literals, which are values of the column's type once
# the predicate is bound; `and`, `or` and `not` join them. The logic is SQL's with three values: a comparison with
# null is unknown, and a row is kept only where the whole is true, so `notEqual` and `notIn` never keep nulls.
# Floating-point numbers compare as in Spark: NaN equals NaN and is above every other number.

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
            argument_checks.check_instance("schema", schema, pa.Schema, "a pyarrow schema")

        def column(leaf: Predicate) -> tuple[Any, pa.DataType | None]:
            if schema is None:
                return pc.field(*leaf.path), None
            return pc.field(*leaf.path), _arrow_type_at(schema, leaf.path)

        return _translate(self, column, pc.scalar)

    def mask(self, batch: pa.RecordBatch | pa.Table) -> pa.Array:
        """Evaluate it on a batch: true, false or null for each row."""
        argument_checks.check_instance("batch", batch, pa.RecordBatch | pa.Table, "a batch or table of Arrow")
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
    for predicate in argument_checks.check_instances(
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


# ---- PredicateBuilder ------------------------------------------------------------------------------------------------
# Each literal is checked against the type of its column, and becomes a value of that type.

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
        checked = argument_checks.check_instances("fields", fields, DataField, "fields, such as those of a table")
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
        """Keep rows whose value is between the bounds, both included."""
        lower = self.greater_or_equal(field, included_lower_bound)
        upper = self.less_or_equal(field, included_upper_bound)
        if (lower.method, upper.method) == ("greaterOrEqual", "lessOrEqual"):
            return replace(lower, method="between", literals=(*lower.literals, *upper.literals))
        return and_predicates((lower, upper))

    def not_between(self, field: ColumnName, included_lower_bound: object, included_upper_bound: object) -> Predicate:
        """Keep rows whose value is below or above the bounds."""
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
        name, other_name = format_column(field), format_column(other)
        common = common_type(check_comparable(dtype, name), check_comparable(other_dtype, other_name))
        if common is None:
            raise InvalidInputError(
                f"the columns {name!r} ({dtype}) and {other_name!r} ({other_dtype}) cannot be compared exactly; cast "
                "one of them to the type of the other",
                column=name,
            )
        return Predicate(method, name, (), (), common, path, second)

    def _compare(self, method: str, field: ColumnName, literal: object) -> Predicate:
        return self._leaf(field, *compare(method, literal, self.resolve(field)[1], format_column(field), self._zone))

    def _pattern(self, method: str, field: ColumnName, pattern: object) -> Predicate:
        dtype = self.resolve(field)[1]
        if pattern is None:
            return self._leaf(field, *UNKNOWN)
        return self._leaf(field, method, (check_text(dtype, pattern, format_column(field)),))

    def _members(self, method: str, field: ColumnName, literals: Iterable[object]) -> Predicate:
        name = format_column(field)
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
        return Predicate(method, format_column(field), literals, (), dtype, path)


def format_column(name: ColumnName) -> str:
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
        raise argument_checks.argument_error(
            "a column", "its name as text, or the names that lead to a field of it", name
        )
    elif name in fields:
        return (name,), fields[name].type
    else:
        head, dot, rest = name.partition(".")
        if dot and head in fields:
            inner = fields[head].type
            if isinstance(inner, RowType):
                path, dtype = resolve_path({f.name: f for f in inner.fields}, rest)
                return (head, *path), dtype
    shown = format_column(name)
    raise ColumnNotExistException(
        f"there is no column {argument_checks.describe_value(shown)}; {argument_checks.suggest_name(shown, fields)}",
        column=shown,
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


# ---- Evaluation on known values and statistics -----------------------------------------------------------------------
# `may_match` uses bounds and null counts, and is False only when no row can match. All other answers are exact.


def project_columns(p: Predicate, keep_fields: Iterable[str]) -> Predicate:
    """Return the strongest predicate on only these columns that every matching row fulfils."""
    return _project(normalise(p), frozenset(keep_fields))


def _project(p: Predicate, keep: frozenset[str]) -> Predicate:
    match p.method:
        case "and":
            return and_predicates(_project(child, keep) for child in p.children)
        case "or":
            return or_predicates(_project(child, keep) for child in p.children)
        case _:
            return p if p.columns() <= keep else TRUE


def simplify(p: Predicate, values: Mapping[str, Value]) -> Predicate:
    """Return the predicate that remains for rows whose values of some columns are known, as those of a partition."""
    return _assume(normalise(p), values)


def _assume(p: Predicate, values: Mapping[str, Value]) -> Predicate:
    match p.method:
        case "and":
            return and_predicates(_assume(child, values) for child in p.children)
        case "or":
            return or_predicates(_assume(child, values) for child in p.children)
        case _:
            asked = {leaf.column for leaf in p.leaves()}
            if not asked <= values.keys():
                return p
            return TRUE if matches_values(p, values) else FALSE


def matches_values(p: Predicate, values: Mapping[str, Value]) -> bool:
    """Return whether a row of values fulfils the predicate, exactly; for partition rows."""
    return _evaluate(p, values) is True


def _evaluate(p: Predicate, values: Mapping[str, Value]) -> bool | None:
    """Return True, False, or None for unknown."""
    match p.method:
        case "and":
            results = [_evaluate(child, values) for child in p.children]
            return False if False in results else None if None in results else True
        case "or":
            results = [_evaluate(child, values) for child in p.children]
            return True if True in results else None if None in results else False
        case "not":
            result = _evaluate(p.children[0], values)
            return None if result is None else not result
        case "alwaysTrue" | "alwaysFalse":
            return p.method == "alwaysTrue"
        case _:
            return matches_value(p.method, p.literals, values[p.column or ""])


def may_match(
    p: Predicate,
    stats: Callable[[str], ColumnStats | None],
    row_count: int,
    numbers: frozenset[str] = frozenset(),
) -> bool:
    """Return whether a file with these statistics may hold a matching row. False is certain; True is not.

    `numbers` names columns that are known not to be NaN in a matching row, because of other conditions on them.
    """
    match p.method:
        case "and":
            numbers = numbers.union(child.column or "" for child in p.children if excludes_nan(child))
            return all(may_match(child, stats, row_count, numbers) for child in p.children)
        case "or":
            return any(may_match(child, stats, row_count, numbers) for child in p.children)
        case "not":
            inner = negate(p.children[0])
            if inner.method != "not":
                return may_match(inner, stats, row_count, numbers)
            known = stats(inner.children[0].column or "")
            return known is None or not all_null(known, row_count)
        case "alwaysTrue" | "alwaysFalse":
            return p.method == "alwaysTrue"
        case _:
            known = None if p.column is None else stats(p.column)
            if known is None or row_count <= 0:
                return row_count > 0
            return may_match_stats(p.method, p.literals, p.dtype, known, row_count, may_be_nan=p.column not in numbers)


def excludes_nan(p: Predicate) -> bool:
    """Return whether a predicate is a condition on one floating-point column that NaN does not fulfil."""
    return is_float(p.dtype) and matches_value(p.method, p.literals, math.nan) is not True

"""Types, values and scopes of the translation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import reduce
from typing import Protocol, TypeAlias

import pyarrow as pa
from sqlglot import exp

from lakewright.errors import ColumnNotExistException, InvalidInputError, UnsupportedError
from lakewright.spec.arrow_types import VARIANT_MARK, is_variant

# ---- Types -----------------------------------------------------------------------------------------------------------
# A type in this room is always in its plain form (`plain_type`): text is `string`, times count microseconds, unless
# they have nanoseconds. The rules are those of Spark with ANSI mode, which is its default.

PRECISION_MAX = 38
_SCALE_KEPT = 6  # digits after the point that a result keeps when it has more than 38
NULL, BOOLEAN, STRING, BINARY, DATE = pa.null(), pa.bool_(), pa.string(), pa.binary(), pa.date32()
BYTE, SHORT, INT, LONG, FLOAT, DOUBLE = pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()
TIMESTAMP, TIMESTAMP_NTZ, TIME = pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.time64("us")
DAYS, DAY_TIME, YEAR_MONTH = pa.duration("s"), pa.duration("us"), pa.month_day_nano_interval()  # intervals
VARIANT = pa.struct([("value", BINARY), pa.field("metadata", BINARY, metadata=VARIANT_MARK)])
INTEGRALS = (BYTE, SHORT, INT, LONG)
_NUMBERS = (*INTEGRALS, FLOAT, DOUBLE)
_DIGITS = {BYTE: 3, SHORT: 5, INT: 10, LONG: 20}
INTERVALS = (DAYS, DAY_TIME, YEAR_MONTH)

_NAMES = {
    NULL: ('"NULL"', "VOID"),
    BOOLEAN: ("BOOLEAN", "BOOLEAN"),
    STRING: ("VARCHAR", "STRING"),
    BINARY: ("BLOB", "BINARY"),
    DATE: ("DATE", "DATE"),
    BYTE: ("TINYINT", "TINYINT"),
    SHORT: ("SMALLINT", "SMALLINT"),
    INT: ("INTEGER", "INT"),
    LONG: ("BIGINT", "BIGINT"),
    FLOAT: ("FLOAT", "FLOAT"),
    DOUBLE: ("DOUBLE", "DOUBLE"),
    TIMESTAMP: ("TIMESTAMPTZ", "TIMESTAMP"),
    TIMESTAMP_NTZ: ("TIMESTAMP", "TIMESTAMP_NTZ"),
    TIME: ("TIME", "TIME(6)"),
    pa.timestamp("ns"): ("TIMESTAMP_NS", "TIMESTAMP_NTZ(9)"),
    DAYS: ("INTERVAL", "INTERVAL DAY"),
    DAY_TIME: ("INTERVAL", "INTERVAL DAY TO SECOND"),
    YEAR_MONTH: ("INTERVAL", "INTERVAL YEAR TO MONTH"),
}


def decimal(precision: int, scale: int) -> pa.DataType:
    """Return a decimal type; digits beyond 38 are taken from those after the point, as Spark does."""
    if precision > PRECISION_MAX:
        whole = precision - scale
        scale = max(PRECISION_MAX - whole, min(scale, _SCALE_KEPT))
        precision = PRECISION_MAX
    return pa.decimal128(precision, scale)


def bounded_decimal(precision: int, scale: int) -> pa.DataType:
    """Return a decimal type with at most 38 digits, before the point as well as after it."""
    return pa.decimal128(min(precision, PRECISION_MAX), min(scale, PRECISION_MAX))


def is_integral(kind: pa.DataType) -> bool:
    """Return whether a type is a whole number."""
    return kind in INTEGRALS


def is_decimal(kind: pa.DataType) -> bool:
    """Return whether a type is a decimal."""
    return bool(pa.types.is_decimal(kind))


def is_number(kind: pa.DataType) -> bool:
    """Return whether a type is a number."""
    return kind in _NUMBERS or is_decimal(kind)


def is_moment(kind: pa.DataType) -> bool:
    """Return whether a type is a timestamp, with or without a zone."""
    return bool(pa.types.is_timestamp(kind))


def as_decimal(kind: pa.DataType) -> pa.DataType:
    """Return the decimal type that holds every value of a whole number."""
    return kind if is_decimal(kind) else pa.decimal128(_DIGITS[kind], 0)


def plain_type(kind: pa.DataType, column: str) -> pa.DataType:  # noqa: C901 - one line for each type
    """Return the type in which the values of a column are calculated with; they are the same values."""
    types = pa.types
    if kind in _NAMES or types.is_decimal128(kind):
        return kind
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return plain_type(kind.value_type, column)
    if types.is_large_string(kind) or types.is_string_view(kind):
        return STRING
    if types.is_large_binary(kind) or types.is_fixed_size_binary(kind) or types.is_binary_view(kind):
        return BINARY
    if types.is_timestamp(kind) and (kind.unit != "ns" or kind.tz is None):
        return pa.timestamp("ns" if kind.unit == "ns" else "us", None if kind.tz is None else "UTC")
    if types.is_time(kind) and kind.unit != "ns":
        return TIME
    if types.is_date(kind):
        return DATE
    if types.is_map(kind):
        return pa.map_(plain_type(kind.key_type, column), plain_type(kind.item_type, column))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(plain_type(kind.value_type, column))
    if is_variant(kind):
        return VARIANT
    if types.is_struct(kind):
        return pa.struct([(field.name, plain_type(field.type, column)) for field in kind])
    msg = f"column {column!r} has the type {kind}, which queries in this process cannot calculate with: leave it out"
    raise UnsupportedError(msg, column=column)


def duckdb_type(kind: pa.DataType) -> str:
    """Return how DuckDB spells a type."""
    if kind in _NAMES:
        return _NAMES[kind][0]
    if is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if pa.types.is_map(kind):
        return f"MAP({duckdb_type(kind.key_type)}, {duckdb_type(kind.item_type)})"
    if pa.types.is_list(kind):
        return f"{duckdb_type(kind.value_type)}[]"
    fields = ", ".join(f"{quoted(field.name)} {duckdb_type(field.type)}" for field in kind)
    return f"STRUCT({fields})"


def spark_type(kind: pa.DataType) -> str:
    """Return how Spark spells a type."""
    if kind in _NAMES:
        return _NAMES[kind][1]
    if is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if pa.types.is_map(kind):
        return f"MAP<{spark_type(kind.key_type)}, {spark_type(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"ARRAY<{spark_type(kind.value_type)}>"
    if is_variant(kind):
        return "VARIANT"
    fields = ", ".join(f"{field.name}: {spark_type(field.type)}" for field in kind)
    return f"STRUCT<{fields}>"


def quoted(name: str) -> str:
    """Return a name as DuckDB quotes it."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(text: str) -> str:
    """Return a text as DuckDB quotes it."""
    return "'" + text.replace("'", "''") + "'"


# ---- the type of two values together


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the type to which Spark brings two values before it compares them or puts them into one column."""
    if right in {left, NULL}:
        return left
    if left == NULL:
        return right
    if is_number(left) and is_number(right):
        return _common_number(left, right)
    for one, other in ((left, right), (right, left)):
        if one == STRING and (found := _beside_text(other)) is not None:
            return found
        if is_moment(one) and (other == DATE or (other == TIMESTAMP_NTZ and one == TIMESTAMP)):
            return one
        if one == pa.timestamp("ns") and other == TIMESTAMP_NTZ:
            return one
        if one == DAY_TIME and other == DAYS:
            return one
    return _common_nested(left, right)


def common_of(kinds: Iterable[pa.DataType]) -> pa.DataType | None:
    """Return the common type of several values."""
    return reduce(lambda done, one: None if done is None else common_type(done, one), kinds, NULL)


def with_field_names(kind: pa.DataType, like: pa.DataType) -> pa.DataType:
    """Return a type in which the fields of structs are called as those of another type, in their order.

    >>> with_field_names(pa.struct({"a": INT}), pa.struct({"b": LONG}))
    StructType(struct<b: int32>)
    """
    types = pa.types
    if types.is_list(kind) and types.is_list(like):
        return pa.list_(with_field_names(kind.value_type, like.value_type))
    if types.is_struct(kind) and types.is_struct(like) and kind.num_fields == like.num_fields:
        pairs = zip(kind, like, strict=True)
        return pa.struct([(other.name, with_field_names(one.type, other.type)) for one, other in pairs])
    return kind


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if is_decimal(left) or is_decimal(right):
        if not {left, right}.isdisjoint({FLOAT, DOUBLE}):
            return DOUBLE
        one, other = as_decimal(left), as_decimal(right)
        scale = max(one.scale, other.scale)
        return bounded_decimal(max(one.precision - one.scale, other.precision - other.scale) + scale, scale)
    wider = max(left, right, key=_NUMBERS.index)
    return DOUBLE if wider == FLOAT else wider


def _beside_text(other: pa.DataType) -> pa.DataType | None:
    if is_integral(other):
        return LONG
    if is_number(other):
        return DOUBLE
    return other if other in {DATE, TIMESTAMP, TIMESTAMP_NTZ, BOOLEAN, BINARY, TIME} else None


def _common_nested(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    types = pa.types
    if types.is_list(left) and types.is_list(right):
        found = common_type(left.value_type, right.value_type)
        return None if found is None else pa.list_(found)
    if types.is_map(left) and types.is_map(right):
        key, item = common_type(left.key_type, right.key_type), common_type(left.item_type, right.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if types.is_struct(left) and types.is_struct(right) and left.num_fields == right.num_fields:
        found = [common_type(one.type, other.type) for one, other in zip(left, right, strict=True)]
        if None not in found and all(a.name.lower() == b.name.lower() for a, b in zip(left, right, strict=True)):
            return pa.struct([(field.name, kind) for field, kind in zip(left, found, strict=True)])
    return None


# ---- the type of arithmetic on decimals


def decimal_result(sign: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the type of `left sign right` for two decimals."""
    whole = (left.precision - left.scale, right.precision - right.scale)
    scale = max(left.scale, right.scale)
    match sign:
        case "*":
            return decimal(left.precision + right.precision + 1, left.scale + right.scale)
        case "/":
            scale = max(_SCALE_KEPT, left.scale + right.precision + 1)
            return decimal(whole[0] + right.scale + scale, scale)
        case "%":
            return decimal(min(whole) + scale, scale)
    return decimal(max(whole) + scale + 1, scale)


# ---- Typed SQL expressions -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TypedSql:
    """One expression."""

    sql: str
    type: pa.DataType
    name: str
    literal: object = None  # the value, of a literal

    def with_type(self, kind: pa.DataType) -> TypedSql:
        """Return it after a cast that DuckDB does as Spark does."""
        return self if kind == self.type else replace(self, sql=f"CAST({self.sql} AS {duckdb_type(kind)})", type=kind)

    def with_name(self, name: str) -> TypedSql:
        """Return it under another name."""
        return replace(self, name=name)


Constant: TypeAlias = str | int | bool | tuple[str, ...] | None
Key: TypeAlias = tuple[str, tuple[pa.DataType, ...], pa.DataType, tuple[Constant, ...]]


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A function that DuckDB calls with Arrow arrays."""

    name: str
    takes: tuple[pa.DataType, ...]
    gives: pa.DataType
    run: Callable[..., pa.Array]


@dataclass(slots=True)
class Functions:
    """The functions in Python that a query needs. The same call has the same name everywhere in a query."""

    needed: dict[Key, PythonFunction] = field(default_factory=dict)

    def call(
        self,
        rowwise: Callable[..., object],
        gives: pa.DataType,
        values: Sequence[TypedSql],
        *constants: Constant,
        safe: bool = False,
    ) -> str:
        """Return the call of a function that is given one row after the other; a null argument gives a null.

        The constants follow the values of the row. With `safe`, a row for which there is no result gives a null.
        """

        def one(row: tuple[object, ...]) -> object:
            try:
                return None if any(value is None for value in row) else rowwise(*row, *constants)
            except InvalidInputError:
                if safe:
                    return None
                raise

        def run(*columns: pa.ChunkedArray) -> pa.Array:
            return pa.array(map(one, zip(*(column.to_pylist() for column in columns), strict=True)), gives)

        return self.call_columns(rowwise.__name__, run, gives, values, *constants, safe)

    def call_columns(
        self,
        name: str,
        run: Callable[..., pa.Array],
        gives: pa.DataType,
        values: Sequence[TypedSql],
        *constants: Constant,
    ) -> str:
        """Return the call of a function that is given whole columns; its name and the constants say what it does."""
        takes = tuple(value.type for value in values)
        key = (name, takes, gives, constants)
        if key not in self.needed:
            self.needed[key] = PythonFunction(f"lw_{name}_{len(self.needed)}", takes, gives, run)
        return f"{self.needed[key].name}({', '.join(value.sql for value in values)})"


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """How an aggregate function is called: on distinct rows, on some rows, over a window, in an order."""

    distinct: bool = False
    condition: str = ""
    over: str = ""
    ignore_nulls: bool = False
    order: str = ""

    def of(self, call: str, *conditions: str) -> str:
        """Return an aggregate call of DuckDB on the rows that are meant."""
        wanted = [one for one in (self.condition, *conditions) if one]
        rows = f" FILTER (WHERE {' AND '.join(wanted)})" if wanted else ""
        return f"{call}{rows}{self.over}"

    @property
    def word(self) -> str:
        """`DISTINCT `, if only distinct rows count."""
        return "DISTINCT " if self.distinct else ""


class Binder(Protocol):
    """What functions ask of the translation of expressions, which calls them."""

    @property
    def functions(self) -> Functions:
        """The functions in Python of the query."""

    @property
    def zone(self) -> str:
        """The time zone of the session."""

    def bind(self, node: exp.Expr) -> TypedSql:
        """Return the value of an expression."""

    def cast(self, value: TypedSql, to: pa.DataType) -> TypedSql:
        """Return a value as another type."""

    def common(self, values: Sequence[TypedSql]) -> list[TypedSql]:
        """Return values as their common type."""

    def named_type(self, text: str) -> pa.DataType:
        """Return the type that a text names."""

    def unsupported_error(self, node: exp.Expr, message: str) -> UnsupportedError:
        """Return the error for something that does not run in this process."""

    def lambda_body(self, node: exp.Lambda, *kinds: pa.DataType) -> tuple[str, TypedSql]:
        """Return the head and the body of a lambda whose variables have these types."""


Function: TypeAlias = Callable[[Binder, list[TypedSql]], TypedSql]
Aggregate: TypeAlias = Callable[[Binder, list[TypedSql], AggregateCall], TypedSql]


# ---- Scopes of names -------------------------------------------------------------------------------------------------
# Names do not depend on case. Invariant: a name that means nothing, or two things, is an error that shows the
# place and the nearest names.


@dataclass(slots=True)
class ScopedColumn:
    """A column that a query can use."""

    name: str
    sql: str
    type: pa.DataType

    def value(self, written: str) -> TypedSql:
        """Return the column as an expression; a result column is named as the query writes it."""
        return TypedSql(self.sql, self.type, written)


@dataclass(frozen=True, slots=True)
class Bound:
    """A query of DuckDB; its columns are named `c0`, `c1` ... there."""

    sql: str
    columns: list[ScopedColumn]


@dataclass(slots=True)
class ScopedRelation:
    """A table, view or subquery in FROM."""

    qualifier: tuple[str, ...]  # `("t",)`, or `("catalog", "db", "t")` without an alias
    columns: list[ScopedColumn]

    def matches(self, parts: Sequence[str]) -> bool:
        """Return whether parts of a name are this relation's name."""
        tail = self.qualifier[len(self.qualifier) - len(parts) :]
        return bool(parts) and len(parts) <= len(self.qualifier) and _lower(tail) == _lower(parts)

    def columns_named(self, name: str) -> list[ScopedColumn]:
        """Return the columns of a name."""
        return [column for column in self.columns if column.name.lower() == name.lower()]


@dataclass(slots=True)
class QueryScope:
    """What one query block sees, and the block around it."""

    outer: QueryScope | None = None
    relations: list[ScopedRelation] = field(default_factory=list)
    merged: dict[str, ScopedColumn] = field(default_factory=dict)  # columns of USING, which several relations have
    hidden: list[ScopedColumn] = field(default_factory=list)  # those that they stand for
    locals: dict[str, TypedSql] = field(default_factory=dict)  # variables of a lambda
    first: dict[str, TypedSql] = field(default_factory=dict)  # aliases that win over columns
    last: dict[str, TypedSql] = field(default_factory=dict)  # aliases that columns win over

    def resolve(self, parts: Sequence[str]) -> tuple[TypedSql, list[str]]:
        """Return what a name means, and the fields inside it that are left."""
        scope: QueryScope | None = self
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

    def visible(self) -> Iterator[ScopedColumn]:
        """Yield the columns that `*` stands for."""
        yield from self.merged.values()
        for relation in self.relations:
            yield from (column for column in relation.columns if not any(column is one for one in self.hidden))

    def own(self, parts: Sequence[str]) -> tuple[TypedSql, list[str]] | None:
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

    def _matching(self, parts: Sequence[str]) -> list[ScopedRelation]:
        return [relation for relation in self.relations if relation.matches(parts)]

    def find_relation(self, parts: Sequence[str]) -> ScopedRelation:
        """Return the relation of a name, for `t.*`."""
        found = self._matching(parts)
        if len(found) == 1:
            return found[0]
        known = ", ".join(relation.qualifier[-1] for relation in self.relations if relation.qualifier)
        problem = "no table" if not found else "more than one table"
        raise InvalidInputError(f"there is {problem} {'.'.join(parts)!r} here; there are {known or 'none'}")


def inner_relation(
    alias: str, qualifier: tuple[str, ...], columns: Sequence[tuple[str, str, pa.DataType]]
) -> ScopedRelation:
    """Return a relation whose columns DuckDB knows as `alias.internal name`."""
    return ScopedRelation(qualifier, [ScopedColumn(name, f"{alias}.{inner}", kind) for name, inner, kind in columns])


def _only(found: Sequence[ScopedColumn], parts: Sequence[str]) -> ScopedColumn:
    if len(found) > 1:
        raise InvalidInputError(
            f"the column {'.'.join(parts)!r} is ambiguous: write the table before it, as in t.{parts[-1]}"
        )
    return found[0]


def _lower(parts: Sequence[str]) -> tuple[str, ...]:
    return tuple(part.lower() for part in parts)

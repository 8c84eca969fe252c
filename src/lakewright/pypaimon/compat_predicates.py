"""Predicates, conditions and casts as pypaimon has them."""

from __future__ import annotations

import importlib
import operator
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.dml.assignments import ColumnRef, ColumnScope, MergeSide, check_assignments, lit, without_defaults
from lakewright.dml.matching import RowCondition, ScopedText, parse
from lakewright.errors import ColumnNotExistException, InvalidInputError, LakewrightWarning, UnsupportedError
from lakewright.spec import predicate as core_builder
from lakewright.spec import predicate as core_predicate
from lakewright.spec.arrow_types import from_arrow_schema, to_arrow_schema, to_arrow_type
from lakewright.spec.types import DataField
from lakewright.write.alignment import Aligner

# ---- Casts -----------------------------------------------------------------------------------------------------------
# pypaimon casts with Arrow's checked casts, which round floats and turn text into numbers; lakewright keeps every
# value. What only pypaimon casts is cast with a LakewrightWarning.


def cast_table(data: pa.Table, fields: Sequence[DataField], table: str) -> pa.Table:
    """Cast the columns of some data that have the names of `fields`."""
    known = {field.name: field for field in fields}
    return cast_columns(data, {name: known[name] for name in data.column_names if name in known}, table)


def cast_columns(data: pa.Table, fields: Mapping[str, DataField], table: str) -> pa.Table:
    """Cast some columns of data to the types of fields, which may have other names."""
    for name, field in fields.items():
        at = data.schema.get_field_index(name)
        if at >= 0 and (column := cast_column(data.column(at), field, table)) is not data.column(at):
            data = data.set_column(at, name, column)
    return data


def cast_literal(value: object, field: DataField, table: str) -> object:
    """Return a value for every row: itself, or, with a warning, what Arrow makes of a value that lakewright refuses."""
    plain = value.as_py() if isinstance(value, pa.Scalar) else value
    try:
        check_assignments({field.name: lit(plain)}, ColumnScope((field,)), (field,), table=table)
    except InvalidInputError as refusal:
        try:
            made = pa.array([plain], to_arrow_type(field.type))[0].as_py()
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return value
        if made == plain:
            return value
        _warn(f"{table}: {plain!r} becomes {made!r} ({field.type}) in the column {field.name!r}", refusal)
        return lit(made)
    return value


def drop_unknown(data: pa.Table, names: Sequence[str], table: str) -> pa.Table:
    """Return data without the columns that the table lacks, which pypaimon ignores, with a warning."""
    unknown = [name for name in data.column_names if name not in names]
    if not unknown:
        return data
    warnings.warn(
        f"{table}: the columns {', '.join(unknown)} of the data are not in table schema; they are left out, as in "
        "pypaimon",
        LakewrightWarning,
        stacklevel=5,
    )
    return data.drop_columns(unknown)


def cast_column(column: pa.Array | pa.ChunkedArray, field: DataField, table: str) -> pa.Array | pa.ChunkedArray:
    """Return a column that lakewright takes: itself, or what Arrow's checked cast makes of it, with a warning.

    A column that neither takes is returned as it is, so that the write refuses it with its own words.
    """
    target = to_arrow_type(field.type)
    if column.type == target:
        return column
    try:
        Aligner(without_defaults([field]), table=table).align(pa.table({field.name: column}))
    except InvalidInputError as refusal:
        try:
            made = column.cast(target)
        except (pa.ArrowException, TypeError, ValueError):
            return column
        _warn(f"{table}: values of {column.type} become {field.type} in the column {field.name!r}", refusal)
        return made
    return column


def _warn(what: str, refusal: InvalidInputError) -> None:
    message = f"{what}, as in pypaimon; without lakewright.pypaimon they are refused ({refusal.message})"
    warnings.warn(message, LakewrightWarning, stacklevel=5)


# ---- Conditions of a merge -------------------------------------------------------------------------------------------
# Text that the core understands is left to it. Other text is evaluated by DuckDB, a name of a column with its side
# replaced by a plain one; whatever it refuses, and what is no truth value of each row, is refused before a row is
# read.

_TOKENS = re.compile(
    r"""'(?:[^']|'')*'                                          # a text
    | (?<![\w."`])(?P<side>s|t|source|target)\.               # a side, and a column of it
      (?:"(?P<quoted>(?:[^"]|"")*)" | `(?P<ticked>[^`]*)` | (?P<plain>\w+))""",
    re.IGNORECASE | re.VERBOSE,
)
_PAIRS = "lakewright_pairs"


class SqlText(ScopedText):
    """The text of a condition that may compute."""

    __slots__ = ()

    def in_scope(self, scope: ColumnScope, what: str) -> RowCondition:
        """Return the condition as the core understands it, else as SQL."""
        text = str(self)
        try:
            return parse(text, scope, what)
        except (InvalidInputError, ColumnNotExistException, UnsupportedError) as error:
            refused = error
        condition = _parse_computed(text, what)
        sides = {MergeSide.TARGET: to_arrow_schema(scope.target), MergeSide.SOURCE: scope.source or pa.schema([])}
        for ref in condition.columns:
            if ref.name not in sides[ref.side].names:
                if isinstance(refused, ColumnNotExistException) and ref.name in refused.message:
                    raise refused
                raise ColumnNotExistException(
                    f"{what}: there is no column {ref.side}.{ref.name}", column=ref.name
                ) from refused
        try:
            condition.mask(0, sides[MergeSide.TARGET].empty_table(), sides[MergeSide.SOURCE].empty_table())
        except InvalidInputError as error:
            raise type(refused)(f"{refused.message}; {error.message}", **refused.facts) from error
        return condition


@dataclass(frozen=True, slots=True)
class ComputedCondition:
    """A condition that DuckDB evaluates."""

    sql: str
    columns: tuple[ColumnRef, ...]  # in the SQL they are column_0, column_1 ...
    what: str

    @property
    def refs(self) -> frozenset[ColumnRef]:
        """The columns that it needs."""
        return frozenset(self.columns)

    def mask(self, rows: int, target: pa.Table | None, source: pa.Table | None) -> pa.Array | pa.ChunkedArray:
        """Evaluate it on pairs of rows: true, false or null for each."""
        duckdb = _duckdb(self.what)
        sides = {MergeSide.TARGET: target, MergeSide.SOURCE: source}
        columns = {f"column_{at}": _column(sides[ref.side], ref) for at, ref in enumerate(self.columns)}
        with duckdb.connect(config={"enable_external_access": "false"}) as connection:
            connection.execute("SET integer_division = true")  # as in DataFusion, which pypaimon uses
            connection.register(_PAIRS, pa.table({"pair": pa.nulls(rows, pa.int8()), **columns}))
            try:
                made = connection.sql(f"SELECT (\n{self.sql}\n) FROM {_PAIRS}").to_arrow_table()  # noqa: S608
            except duckdb.Error as error:
                raise InvalidInputError(f"{self.what}: {error}") from error
        if made.num_columns != 1 or made.num_rows != rows or not pa.types.is_boolean(made.schema.types[0]):
            raise InvalidInputError(f"{self.what}: a condition is true or false for each row")
        return made.column(0)


def _parse_computed(text: str, what: str) -> ComputedCondition:
    """Return a condition with plain names in its SQL."""
    columns: dict[ColumnRef, str] = {}

    def plain(token: re.Match[str]) -> str:
        if token["side"] is None:
            return token[0]
        quoted = token["quoted"]
        name = token["ticked"] or token["plain"] if quoted is None else quoted.replace('""', '"')
        return columns.setdefault(ColumnRef(MergeSide(token["side"][0].lower()), name), f"column_{len(columns)}")

    return ComputedCondition(_TOKENS.sub(plain, text), tuple(columns), what)


def _column(table: pa.Table | None, ref: ColumnRef) -> pa.ChunkedArray:
    if table is None:
        raise InvalidInputError(f"the column {ref.side}.{ref.name} was not read", column=ref.name)
    return table.column(ref.name)


def _duckdb(what: str) -> Any:  # noqa: ANN401 - a module
    try:
        return importlib.import_module("duckdb")
    except ImportError as error:
        raise UnsupportedError(
            f"{what} computes, which needs duckdb: pip install 'lakewright[duckdb]'", package="duckdb"
        ) from error


# ---- Predicates ------------------------------------------------------------------------------------------------------
# Lakewright checks the literals and binds the predicate to the columns of a table when a read or a change takes it.

_JOINS: dict[str, tuple[Callable[[Iterable[bool]], bool], Callable[[Any, Any], Any]]] = {
    "and": (all, operator.and_),
    "or": (any, operator.or_),
}
_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "equal": operator.eq,
    "notEqual": operator.ne,
    "lessThan": operator.lt,
    "lessOrEqual": operator.le,
    "greaterThan": operator.gt,
    "greaterOrEqual": operator.ge,
}
_PATTERNS: dict[str, tuple[Callable[[str, str], bool], Callable[[Any, str], Any]]] = {
    "startsWith": (str.startswith, pc.starts_with),
    "endsWith": (str.endswith, pc.ends_with),
    "contains": (str.__contains__, pc.match_substring),
    "like": (lambda text, pattern: re.fullmatch(_like(pattern), text) is not None, pc.match_like),
}
METHODS = ("in", "notIn", "between", "notBetween", "isNull", "isNotNull", *_JOINS, *_COMPARED, *_PATTERNS)


class PositionalRow(Protocol):
    """A row whose values are read by position."""

    def get_field(self, pos: int) -> object:
        """Return a value."""


class Stats(Protocol):
    """The bounds and null counts of the columns of a file."""

    min_values: Any
    max_values: Any
    null_counts: Any


class Predicate(core_predicate.Predicate):
    """A condition on rows, as pypaimon has it; `and` and `or` hold their parts as literals.

    >>> Predicate(method="equal", index=0, field="id", literals=[1])
    Predicate(method='equal', index=0, field='id', literals=[1])
    """

    index: int | None
    literals: list[Any] | None  # type: ignore[assignment]

    def __init__(
        self, method: str, index: int | None = None, field: str | None = None, literals: Sequence[Any] | None = None
    ) -> None:
        parts = tuple(literals or ()) if method in _JOINS else ()
        super().__init__(method, field, literals, parts)  # type: ignore[arg-type]
        object.__setattr__(self, "index", index)

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def new_index(self, index: int) -> Predicate:
        """Return it on the column at another position."""
        return _on_path(self.path, self.method, index, self.field, self.literals)

    def new_literals(self, literals: list[Any]) -> Predicate:
        """Return it with other literals."""
        return _on_path(self.path, self.method, self.index, self.field, literals)

    def test(self, record: PositionalRow) -> bool:
        """Return whether a row fulfils it."""
        if self.method in _JOINS:
            return _JOINS[self.method][0](part.test(record) for part in self.literals or ())
        if self.index is None:
            raise InvalidInputError(f"{self} names no position of a column")
        return _matches(self.method, record.get_field(self.index), self.literals or [])

    def test_by_simple_stats(self, stat: Stats, row_count: int) -> bool:
        """Return whether a file with these statistics may hold a row that fulfils it."""
        if self.method in _JOINS:
            return _JOINS[self.method][0](part.test_by_simple_stats(stat, row_count) for part in self.literals or ())
        low, high, nulls = _known_stats(stat, self.index)
        match self.method:
            case "isNull":
                return nulls != 0
            case "isNotNull":
                return nulls is None or nulls != row_count
        return low is None or high is None or _may_match(self.method, low, high, self.literals or [])

    def to_arrow(self, schema: pa.Schema | None = None) -> pc.Expression:
        """Return it as an Arrow expression; with a schema, literals have the types of its columns."""
        if schema is not None:
            return core_builder.bind(self, from_arrow_schema(schema)).to_arrow(schema)
        if self.method in _JOINS:
            parts: list[Any] = [part.to_arrow() for part in self.literals or ()]
            joined: pc.Expression = reduce(_JOINS[self.method][1], parts)
            return joined
        column = pc.field(*self.path) if self.path else pc.field(self.field or "")
        return _expression(self.method, column, self.literals or [])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Predicate):
            return NotImplemented
        return (self.path, *self._facts()) == (other.path, *other._facts())

    def __hash__(self) -> int:
        return hash(repr(self))

    def _facts(self) -> tuple[object, ...]:
        return self.method, self.index, self.field, self.literals

    def __repr__(self) -> str:
        return "Predicate(method={!r}, index={!r}, field={!r}, literals={!r})".format(*self._facts())

    __str__ = __repr__

    def __reduce__(self) -> tuple[object, ...]:
        return _on_path, (self.path, *self._facts())


def _on_path(
    path: tuple[str, ...], method: str, index: int | None, field: str | None, literals: Sequence[Any] | None
) -> Predicate:
    """Return a predicate; the path of a field inside of a ROW is kept where a column has the same name with a dot."""
    made = Predicate(method, index, field, literals)
    made.path = path  # type: ignore[misc] # pypaimon's predicates can be changed
    return made


def _known_stats(stat: Stats, index: int | None) -> tuple[Any, Any, int | None]:
    """Return the bounds and the count of nulls of a column; None for each that the statistics do not have."""

    def at(values: Any) -> Any:  # noqa: ANN401 - a row of bounds, or a list of counts
        if values is None or index is None or not 0 <= index < len(values):
            return None
        return values.get_field(index) if hasattr(values, "get_field") else values[index]

    return at(stat.min_values), at(stat.max_values), at(stat.null_counts)


class PredicateBuilder(core_builder.PredicateBuilder):
    """Makes predicates on columns by their names; `aliases` are more names, of fields inside a ROW.

    >>> from lakewright.spec.types import AtomicType
    >>> PredicateBuilder([DataField(0, "id", AtomicType("INT"))]).is_in("id", [1, 2])
    Predicate(method='in', index=0, field='id', literals=[1, 2])
    """

    def __init__(
        self, row_field: Sequence[DataField], zone: str = "UTC", aliases: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        super().__init__(row_field, zone)
        self.field_names = [field.name for field in row_field]
        self._aliases = {name: path for name, path in (aliases or {}).items() if name not in self.field_names}

    def _make_predicate(
        self, method: str, field: core_builder.ColumnName, literals: list[Any] | None = None
    ) -> Predicate:
        name = field if isinstance(field, tuple) else self._aliases.get(field, field)
        if isinstance(name, str) and name not in self.field_names and "." not in name:
            raise InvalidInputError(f"The field {name} is not in field list {self.field_names}.", column=name)
        path, _ = self.resolve(name)
        text = core_builder.format_column(name)
        if len(path) == 1:
            return Predicate(method, self.field_names.index(path[0]), path[0], literals)
        return _on_path(path if text in self.field_names else (), method, None, text, literals)

    def _compare(self, method: str, field: core_builder.ColumnName, literal: object) -> Predicate:
        return self._make_predicate(method, field, [literal])

    def _pattern(self, method: str, field: core_builder.ColumnName, pattern: object) -> Predicate:
        return self._make_predicate(method, field, [pattern])

    def is_null(self, field: core_builder.ColumnName) -> Predicate:
        """Keep rows whose value is null."""
        return self._make_predicate("isNull", field)

    def is_not_null(self, field: core_builder.ColumnName) -> Predicate:
        """Keep rows whose value is not null."""
        return self._make_predicate("isNotNull", field)

    def is_in(self, field: core_builder.ColumnName, literals: Iterable[object]) -> Predicate:
        """Keep rows whose value is one of the literals."""
        return self._make_predicate("in", field, list(literals))

    def is_not_in(self, field: core_builder.ColumnName, literals: Iterable[object]) -> Predicate:
        """Keep rows whose value is not null and none of the literals."""
        return self._make_predicate("notIn", field, list(literals))

    def between(
        self, field: core_builder.ColumnName, included_lower_bound: object, included_upper_bound: object
    ) -> Predicate:
        """Keep rows whose value is between the bounds, both included."""
        return self._make_predicate("between", field, [included_lower_bound, included_upper_bound])

    def not_between(
        self, field: core_builder.ColumnName, included_lower_bound: object, included_upper_bound: object
    ) -> Predicate:
        """Keep rows whose value is below or above the bounds."""
        return self._make_predicate("notBetween", field, [included_lower_bound, included_upper_bound])

    @staticmethod
    def and_predicates(predicates: Iterable[core_predicate.Predicate]) -> Predicate | None:  # type: ignore[override] # pypaimon's
        """Join predicates: all must hold. None joins nothing."""
        return _join_predicates("and", list(predicates))

    @staticmethod
    def or_predicates(predicates: Iterable[core_predicate.Predicate]) -> Predicate | None:  # type: ignore[override] # pypaimon's
        """Join predicates: one must hold. None joins nothing."""
        return _join_predicates("or", list(predicates))


def _join_predicates(method: str, predicates: list[Any]) -> Predicate | None:
    if len(predicates) <= 1:
        return predicates[0] if predicates else None
    return Predicate(method, literals=predicates)


def _matches(method: str, value: Any, literals: list[Any]) -> bool:  # noqa: ANN401 - a value of any column
    """Return whether a value fulfils a comparison; a null fulfils only `isNull`."""
    if method in {"isNull", "isNotNull"}:
        return (value is None) == (method == "isNull")
    if method not in METHODS:
        raise InvalidInputError(f"Unsupported predicate method: {method}")
    if value is None or (not literals and method != "notIn"):
        return False
    match method:
        case "in":
            return value in literals
        case "notIn":
            return None not in literals and value not in literals
        case "between":
            return bool(literals[0] <= value <= literals[1])
        case "notBetween":
            return bool(value < literals[0] or value > literals[1])
        case pattern if pattern in _PATTERNS:
            return isinstance(value, str) and _PATTERNS[pattern][0](value, literals[0])
        case _:
            return bool(_COMPARED[method](value, literals[0]))


def _may_match(method: str, low: Any, high: Any, literals: list[Any]) -> bool:  # noqa: ANN401 - values of any column
    """Return whether a value between two bounds may fulfil a comparison."""
    match method:
        case "equal" | "in":
            return any(low <= one <= high for one in literals if one is not None)
        case "notEqual" | "notIn":
            return None not in literals and not any(low == one == high for one in literals)
        case "lessThan" | "lessOrEqual":
            return bool(_COMPARED[method](low, literals[0]))
        case "greaterThan" | "greaterOrEqual":
            return bool(_COMPARED[method](high, literals[0]))
        case "between":
            return bool(literals[0] <= high and literals[1] >= low)
        case "notBetween":
            return bool(literals[0] > low or literals[1] < high)
        case "startsWith":
            prefix = literals[0]
            return bool((low.startswith(prefix) or low < prefix) and (high.startswith(prefix) or high > prefix))
        case known if known in METHODS:
            return True
        case _:
            raise InvalidInputError(f"Unsupported predicate method: {method}")


def _expression(method: str, column: Any, literals: list[Any]) -> pc.Expression:  # noqa: ANN401 - an expression
    never = column.is_valid() & column.is_null()
    match method:
        case "isNull":
            out = column.is_null()
        case "isNotNull":
            out = column.is_valid()
        case "in":
            known = [one for one in literals if one is not None]
            out = column.isin(known) & column.is_valid() if known else never
        case "notIn":
            out = never if None in literals else ~column.isin(literals) & column.is_valid()
        case "between":
            out = (column >= literals[0]) & (column <= literals[1])
        case "notBetween":
            out = (column < literals[0]) | (column > literals[1])
        case pattern if pattern in _PATTERNS:
            out = _PATTERNS[pattern][1](column.cast(pa.string()), literals[0])
        case compared if compared in _COMPARED:
            out = _COMPARED[compared](column, literals[0])
        case _:
            raise InvalidInputError(f"Unsupported predicate method: {method}")
    made: pc.Expression = out
    return made


def _like(pattern: str) -> str:
    r"""Return the regular expression of a LIKE pattern: `%` is any text, `_` one character, `\` quotes the next one."""
    out, at = "", 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
            if pattern[at : at + 1] not in {"_", "%", "\\"}:
                raise InvalidInputError(f"Invalid escape sequence '{pattern}' at position {at - 1}")
            out += re.escape(pattern[at])
        else:
            out += {"_": ".", "%": "(?s:.*)"}.get(char, re.escape(char))
        at += 1
    return out

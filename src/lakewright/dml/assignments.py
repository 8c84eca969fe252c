"""Assignments of an update or merge to Arrow columns of the table's types.

An assignment gives a column a plain value (text is a literal, never SQL), `lit(value)`, `target_col(name)`,
`source_col(name)`, an expression of Arrow or polars, `expr(text)` for SQL, or a function that gets the rows as an Arrow
table and returns one value each. Text that reads as an expression over columns is refused, unless given as `lit(text)`.
Where the caller fixes the order of the rows, it may be an Arrow array with one value for each of them.
All are checked against the schema before a row is read; an error that only the rows show (a null, a number too large)
names the column, and nothing is written. Values are converted as a write converts them, but a null stays null even if
the column has a default.

In an update, expressions and functions see the columns of the table by their names. In a merge they see those of the
target as `t.name`, those of the source as `s.name`, and by the plain name what only one of the two has.
"""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import ColumnNotExistException, InvalidInputError, pluralize
from lakewright.spec.arrow_types import to_arrow_type
from lakewright.spec.filters import is_polars_expression
from lakewright.spec.predicate import resolve_path
from lakewright.spec.scalars import to_array, to_value
from lakewright.spec.types import TEXT_ROOTS, TIMESTAMP_ROOTS, AtomicType, DataField
from lakewright.write.alignment import Aligner

Column: TypeAlias = pa.Array | pa.ChunkedArray
RowFunction: TypeAlias = Callable[[pa.Table], object]

_TYPES_FROM_TEXT = TEXT_ROOTS | TIMESTAMP_ROOTS | {"DATE", "TIME"}
_COLUMN_NAME_TEXT = re.compile(r"\s*(s|t|source|target)\.([`\"]?)(.+?)\2\s*([-+*/%|].*)?", re.IGNORECASE | re.DOTALL)
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>'(?:[^']|'')*')|(?P<quoted>`[^`]+`|"[^"]+")|(?P<number>\d+(?:\.\d+)?)|(?P<word>[^\W\d]\w*)"""
    r"""|(?P<operator>\|\||<=>|<=|>=|<>|!=|==|[-+*/%<>=])|(?P<mark>[(),.]))""",
    re.VERBOSE,
)
_CALL = re.compile(r"[^\W\d]\w*\(([^()]|\([^()]*\))*\)")
_KEYWORDS = frozenset("and or not is null in like between case when then else end cast as true false".split())
_FIELD_BY_NUMBER = "FieldPath("  # how Arrow shows a column that is named by its number


class MergeSide(StrEnum):
    """Which side of a merge a column belongs to."""

    SOURCE = "s"
    TARGET = "t"


@dataclass(frozen=True, slots=True)
class LiteralValue:
    """One value for every row."""

    value: object


@dataclass(frozen=True, slots=True)
class RowValues:
    """One value for each row that is set, in their order."""

    column: Column


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """The value of a column of the target row or of the source row."""

    side: MergeSide
    name: str


class ColumnExpression(ABC):
    """An expression over columns that another library evaluates."""

    @abstractmethod
    def needs(self, scope: ColumnScope) -> Iterable[ColumnRef]:
        """Return the columns that it reads; a column that is not in scope is an error."""

    @abstractmethod
    def evaluate(self, visible: pa.Table, sides: Mapping[MergeSide, pa.Table | None], rows: int) -> Column:
        """Return the value for each row: `visible` has the columns by all their names, `sides` has the two tables."""


@dataclass(frozen=True, slots=True)
class PolarsValues(ColumnExpression):
    """An expression of polars, evaluated batch by batch."""

    expression: Any

    def needs(self, scope: ColumnScope) -> Iterable[ColumnRef]:
        """Return the columns that it reads."""
        names = scope.names()
        read = self.expression.meta.root_names()
        unknown = [name for name in read if name not in names]
        if unknown:
            raise ColumnNotExistException(
                f"the expression {self.expression} reads the column {unknown[0]!r}, which is unknown; the columns are "
                f"{', '.join(names)}",
                column=unknown[0],
            )
        return [names[name] for name in read]

    def evaluate(self, visible: pa.Table, sides: Mapping[MergeSide, pa.Table | None], rows: int) -> Column:  # noqa: ARG002
        """Return the value for each row."""
        polars = sys.modules["polars"]  # loaded: there is an expression of it
        try:
            made = polars.from_arrow(visible).select(self.expression.alias("value"))["value"].to_arrow()
        except polars.exceptions.PolarsError as error:
            raise InvalidInputError(f"the expression {self.expression} cannot be evaluated: {error}") from error
        if len(made) == 1 != rows and not self.expression.meta.root_names():
            return pa.repeat(made[0], rows)
        if len(made) != rows:
            raise InvalidInputError(
                f"the expression {self.expression} has {pluralize(len(made), 'value')} for {pluralize(rows, 'row')}; "
                "give "
                "one that has a value for each row"
            )
        return made


def lit(value: object) -> LiteralValue:
    """Assign one value to every row; the same as giving the value itself, and the way to give a callable or a list."""
    return LiteralValue(value)


def source_col(name: str) -> ColumnRef:
    """Assign the value of a column of the matching source row."""
    return ColumnRef(MergeSide.SOURCE, name)


def target_col(name: str) -> ColumnRef:
    """Assign the value that a column of the row itself had before the change."""
    return ColumnRef(MergeSide.TARGET, name)


@dataclass(frozen=True, slots=True)
class ColumnScope:
    """The columns that a clause can see: of the target, and in a merge of the source."""

    target: tuple[DataField, ...] = ()
    source: pa.Schema | None = None  # None: no merge, so that plain names are those of the target
    zone: str = "UTC"  # of times in conditions that name none

    def names(self) -> dict[str, ColumnRef]:
        """Return the column of each name; a plain name only if one side alone has it."""
        target = [field.name for field in self.target]
        plain = {name: ColumnRef(MergeSide.TARGET, name) for name in target}
        if self.source is None:
            return plain
        source = list(self.source.names)
        plain |= {name: ColumnRef(MergeSide.SOURCE, name) for name in source}
        for name in set(target) & set(source):
            del plain[name]
        qualified = [ColumnRef(MergeSide.TARGET, name) for name in target] + [
            ColumnRef(MergeSide.SOURCE, n) for n in source
        ]
        return plain | {f"{ref.side}.{ref.name}": ref for ref in qualified}

    def refs(self) -> tuple[ColumnRef, ...]:
        """Return every column of both sides once."""
        source = () if self.source is None else self.source.names
        return (*(target_col(f.name) for f in self.target), *(source_col(n) for n in source))

    def type_of(self, ref: ColumnRef) -> pa.DataType:
        """Return the Arrow type of a column, or raise an error that names it."""
        if ref.side is MergeSide.TARGET:
            _, dtype = resolve_path({field.name: field for field in self.target}, ref.name)
            return to_arrow_type(dtype)
        if self.source is None or ref.name not in self.source.names:
            known = "there is no source here" if self.source is None else f"it has {', '.join(self.source.names)}"
            raise ColumnNotExistException(
                f"the source has no column {ref.name!r}; {known}", column=ref.name, side="source"
            )
        return self.source.field(ref.name).type

    def empty(self) -> pa.Table:
        """Return a table without rows that has every name an expression may use."""
        return pa.table({name: pa.array([], self.type_of(ref)) for name, ref in self.names().items()})

    def empty_sides(self) -> dict[MergeSide, pa.Table | None]:
        """Return the tables of both sides without rows; None for a side that is not in scope."""
        columns = {field.name: pa.array([], self.type_of(target_col(field.name))) for field in self.target}
        source = None if self.source is None else self.source.empty_table()
        return {MergeSide.TARGET: pa.table(columns) if self.target else None, MergeSide.SOURCE: source}


@dataclass(frozen=True, slots=True)
class Assignments:
    """Checked assignments: which columns they set, which they need, and how the values are computed."""

    fields: tuple[DataField, ...]  # the columns that are set, in the order of the table
    terms: tuple[
        LiteralValue | RowValues | ColumnRef | pc.Expression | ColumnExpression | RowFunction, ...
    ]  # one for each; literals hold Arrow scalars
    needs: frozenset[ColumnRef]
    scope: ColumnScope
    table: str

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are set."""
        return tuple(field.name for field in self.fields)

    @property
    def target_columns(self) -> tuple[str, ...]:
        """The columns of the target that must be read, in the order of the table."""
        return tuple(f.name for f in self.scope.target if ColumnRef(MergeSide.TARGET, f.name) in self.needs)

    @property
    def source_columns(self) -> tuple[str, ...]:
        """The columns of the source that must be read."""
        names = () if self.scope.source is None else self.scope.source.names
        return tuple(name for name in names if ColumnRef(MergeSide.SOURCE, name) in self.needs)

    @property
    def row_values(self) -> dict[str, Column]:
        """The columns that get one given value for each row."""
        given = zip(self.names, self.terms, strict=True)
        return {name: term.column for name, term in given if isinstance(term, RowValues)}

    def at(self, first: int, rows: int) -> Assignments:
        """Return the assignments of some of the rows: those from the `first` on."""
        cut = (RowValues(t.column.slice(first, rows)) if isinstance(t, RowValues) else t for t in self.terms)
        return replace(self, terms=tuple(cut))

    def evaluate(self, rows: int, target: pa.Table | None = None, source: pa.Table | None = None) -> pa.Table:
        """Return the new values of some rows: the columns that are set, of exactly their types.

        `target` and `source` are the rows side by side, with at least the columns that are needed.
        """
        names = self.scope.names() if any(_reads_rows(term) for term in self.terms) else {}
        sides = {MergeSide.TARGET: target, MergeSide.SOURCE: source}
        seen = {name: _column(sides, ref) for name, ref in names.items() if ref in self.needs}
        visible = pa.table(seen) if seen else pa.table({"": pa.nulls(rows)})
        columns = [
            _value(term, field, visible, sides, rows) for term, field in zip(self.terms, self.fields, strict=True)
        ]
        out = pa.Table.from_arrays(columns, names=list(self.names))
        return Aligner(without_defaults(self.fields), table=self.table).align(out)


def check_assignments(
    given: Mapping[str, object],
    scope: ColumnScope,
    fields: Sequence[DataField],
    *,
    table: str,
    read: Iterable[str] = (),
    in_order: bool = False,
) -> Assignments:
    """Check assignments against the `fields` of the table and the columns in scope, before anything is read.

    `read` names columns of the target that functions need; without it they get all of them. With `in_order` an Arrow
    array is one value for each row; otherwise it is one value of a column of arrays.
    """
    if not isinstance(given, Mapping) or not given:
        raise InvalidInputError(
            f"table {table}: there is nothing to assign; give a mapping from columns to values, not {given!r}",
            table=table,
        )
    known = {field.name: field for field in fields}
    for name in given:
        path, _ = resolve_path(known, name)
        if len(path) > 1:
            raise InvalidInputError(
                f"table {table}: {name!r} lies inside the column {path[0]!r}; assign the whole column", column=name
            )
    assigned = tuple(field for field in fields if field.name in given)
    terms = [_term(given[field.name], field, in_order=in_order) for field in assigned]
    needs = frozenset(ref for term in terms for ref in _needs(term, scope, tuple(read)))
    _check_types(terms, assigned, scope, table)
    return Assignments(assigned, tuple(terms), needs, scope, table)


def refuse_names_as_text(given: Mapping[str, object], scope: ColumnScope, *, table: str) -> None:
    """Refuse text that names a column of a side (`s.name`), or that reads as an expression over columns.

    Text is not read as SQL, and such a call most likely means the value; the text itself is given as `lit("s.name")`.
    """
    columns = frozenset(ref.name.casefold() for ref in scope.refs())
    for column, value in given.items():
        if not isinstance(value, str):
            continue
        match = _COLUMN_NAME_TEXT.fullmatch(value)
        if match is None or match[4] is not None:
            if reads_as_expression(value, columns):
                raise InvalidInputError(
                    f"table {table}: the column {column!r} would get the text {value!r} itself, as text is never read "
                    f"as SQL; give lw.expr({value!r}) for its value, or lw.lit({value!r}) if the text is meant",
                    table=table,
                    column=column,
                )
            continue
        side = MergeSide(match[1][0].lower())
        known = (
            [field.name for field in scope.target]
            if side is MergeSide.TARGET
            else (scope.source or pa.schema([])).names
        )
        if match[3] not in known:
            continue
        name = f"{'source_col' if side is MergeSide.SOURCE else 'target_col'}({match[3]!r})"
        raise InvalidInputError(
            f"table {table}: the column {column!r} would get the text {value!r} itself, as text is never read as SQL; "
            f"give {name}, or lit({value!r}) if the text is meant",
            table=table,
            column=column,
        )


def reads_as_expression(text: str, columns: Collection[str]) -> bool:
    """Return True if text has a call or an operator over columns, whose names are given in lower case.

    >>> reads_as_expression("upper(name)", {"name"}), reads_as_expression("name || '!'", {"name"})
    (True, True)
    >>> reads_as_expression("first-name", {"name"}), reads_as_expression("name", {"name"})
    (False, False)
    """
    calls = (word.casefold() for call in _CALL.finditer(text) for word in re.findall(r"\w+", call[0].partition("(")[2]))
    if any(word in columns for word in calls):
        return True
    tokens, at, stripped = list[re.Match[str]](), 0, text.strip()
    while at < len(stripped):
        token = _TOKEN.match(stripped, at)
        if token is None:
            return False
        tokens.append(token)
        at = token.end()
    names = 0
    for number, token in enumerate(tokens):
        word = token["word"] or (token["quoted"] or "")[1:-1]
        following = tokens[number + 1]["mark"] if number + 1 < len(tokens) else None
        if not word or following in {"(", "."}:
            continue
        names += word.casefold() in columns
        if word.casefold() not in columns and word.casefold() not in _KEYWORDS and token["quoted"] is None:
            return False
    return names > 0 and any(token["operator"] for token in tokens)


def _term(
    given: object, field: DataField, *, in_order: bool
) -> LiteralValue | RowValues | ColumnRef | pc.Expression | ColumnExpression | RowFunction:
    match given:
        case pa.Array() | pa.ChunkedArray() if in_order:
            return RowValues(given)
        case ColumnRef() | pc.Expression() | ColumnExpression():
            return given
        case _ if is_polars_expression(given):
            return PolarsValues(given)
        case LiteralValue(value):
            return LiteralValue(_scalar(value, field))
        case _ if callable(given):
            return given
        case _:
            return LiteralValue(_scalar(given, field))


def _scalar(value: object, field: DataField) -> pa.Scalar:
    """Return a plain value as one of the column's type, or raise an error that names the column."""
    dtype = field.type
    if value is None and not dtype.nullable:
        raise InvalidInputError(
            f"the column {field.name!r} is {dtype} and takes no null; assign a value", column=field.name
        )
    try:
        if isinstance(dtype, AtomicType):
            return to_array([to_value(_not_parsed(value, dtype), dtype)], dtype)[0]
        plain = value.as_py() if isinstance(value, pa.Scalar) else value
        return pa.array([plain], to_arrow_type(dtype))[0]
    except (InvalidInputError, pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"the column {field.name!r} ({dtype}) cannot take {value!r}: {error}",
            column=field.name,
            type=str(dtype),
        ) from error


def _not_parsed(value: object, dtype: AtomicType) -> object:
    """Refuse text for columns of numbers, booleans and bytes: writes do not parse text into them either."""
    if isinstance(value, str) and dtype.root not in _TYPES_FROM_TEXT:
        raise InvalidInputError("text is taken as it stands; give a value, an Arrow expression or a function")
    return value


def _needs(term: object, scope: ColumnScope, read: tuple[str, ...]) -> Iterable[ColumnRef]:
    """Return the columns that a term needs."""
    match term:
        case LiteralValue() | RowValues():
            return ()
        case ColumnRef():
            scope.type_of(term)
            return (term,)
        case pc.Expression():
            return _expression_needs(term, scope)
        case ColumnExpression():
            return term.needs(scope)
        case _ if read:
            source = [ref for ref in scope.refs() if ref.side is MergeSide.SOURCE]
            for name in read:
                scope.type_of(target_col(name))
            return (*map(target_col, read), *source)
        case _:
            return scope.refs()


def _expression_needs(expression: pc.Expression, scope: ColumnScope) -> list[ColumnRef]:
    """Return the columns of an expression. Arrow does not list them, but fails if one of them is missing."""
    if _FIELD_BY_NUMBER in str(expression):
        raise InvalidInputError(f"the expression {expression} names a column by its number; name it by its name")
    empty = scope.empty()
    _evaluate_expression(expression, empty)  # an error of the expression itself names what is wrong with it
    needed = []
    for name, ref in scope.names().items():
        try:
            _evaluate_expression(expression, empty.drop_columns([name]))
        except InvalidInputError:
            needed.append(ref)
    return needed


def _evaluate_expression(expression: pc.Expression, rows: pa.Table) -> pa.ChunkedArray:
    """Return the value of an expression for each row, in their order."""
    # A door: Arrow's engine of plans imports pandas, and few programs write expressions of Arrow.
    from pyarrow.acero import Declaration, ProjectNodeOptions, TableSourceNodeOptions  # noqa: PLC0415 - lazy

    plan = Declaration.from_sequence(
        [
            Declaration("table_source", TableSourceNodeOptions(rows)),
            Declaration("project", ProjectNodeOptions([expression], ["value"])),
        ]
    )
    try:
        return plan.to_table(use_threads=False).column(0)
    except (pa.ArrowException, KeyError, TypeError) as error:
        names = ", ".join(rows.column_names)
        raise InvalidInputError(
            f"the expression {expression} cannot be evaluated over the columns {names}: {error}"
        ) from error


def _check_types(terms: Sequence[object], fields: Sequence[DataField], scope: ColumnScope, table: str) -> None:
    """Refuse values whose type cannot become the column's; functions are called only once there are rows."""
    typed = any(isinstance(term, pc.Expression | ColumnExpression) for term in terms)
    empty = scope.empty() if typed else pa.table({})
    for term, field in zip(terms, fields, strict=True):
        match term:
            case LiteralValue(value):
                column: Column = pa.repeat(value, 1)
            case RowValues(column):
                pass
            case ColumnRef():
                column = pa.array([], scope.type_of(term))
            case pc.Expression():
                column = pa.array([], _evaluate_expression(term, empty).type)
            case ColumnExpression():
                column = pa.array([], term.evaluate(empty, scope.empty_sides(), 0).type)
            case _:
                continue
        Aligner(without_defaults([field]), table=table).align(pa.table({field.name: column}))


def without_defaults(fields: Iterable[DataField]) -> tuple[DataField, ...]:
    """Return columns without their defaults, so that an assigned null stays null."""
    return tuple(replace(field, default_value=None) for field in fields)


def _reads_rows(term: object) -> bool:
    return not isinstance(term, LiteralValue | RowValues | ColumnRef)


def _column(sides: Mapping[MergeSide, pa.Table | None], ref: ColumnRef) -> pa.ChunkedArray:
    table = sides[ref.side]
    if table is None:
        raise InvalidInputError(f"the column {ref.side}.{ref.name} was not read", column=ref.name)
    return table.column(ref.name)


def _value(
    term: object, field: DataField, visible: pa.Table, sides: Mapping[MergeSide, pa.Table | None], rows: int
) -> Column:
    match term:
        case ColumnExpression():
            return term.evaluate(visible, sides, rows)
        case LiteralValue(value):
            return pa.repeat(value, rows)
        case RowValues(column):
            return column
        case ColumnRef():
            return _column(sides, term)
        case pc.Expression():
            return _evaluate_expression(term, visible)
        case _:
            return _to_column(term(visible), field, rows)  # type: ignore[operator]


def _to_column(out: Any, field: DataField, rows: int) -> Column:  # noqa: ANN401 - whatever a user's function returns
    """Return the result of a user's function as a column: an Arrow array, a scalar for all rows, or a sequence."""
    try:
        if isinstance(out, pa.Scalar):
            column: Column = pa.repeat(out, rows)
        elif isinstance(out, pa.Array | pa.ChunkedArray):
            column = out
        elif hasattr(out, "__arrow_c_stream__"):
            column = pa.chunked_array(out)
        elif out is None or isinstance(out, str | bytes | int | float):
            column = pa.repeat(_scalar(out, field), rows)
        else:
            column = pa.array(out, None if hasattr(out, "__arrow_c_array__") else to_arrow_type(field.type))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"what the function for the column {field.name!r} ({field.type}) returned is no column of it: {error}",
            column=field.name,
        ) from error
    if len(column) != rows:
        raise InvalidInputError(
            f"the function for the column {field.name!r} returned {pluralize(len(column), 'value')} for "
            f"{pluralize(rows, 'row')}; return one for each",
            column=field.name,
        )
    return column

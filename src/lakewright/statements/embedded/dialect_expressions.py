"""Expressions of Spark SQL, translated to DuckDB."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lakewright.errors import InvalidInputError, LakewrightError, SQLSyntaxError, UnsupportedError
from lakewright.spec import argument_checks
from lakewright.spec.arrow_types import is_variant
from lakewright.statements.embedded import dialect_casts, dialect_values
from lakewright.statements.embedded.dialect_casts import Casts, double_text
from lakewright.statements.embedded.dialect_values import (
    BOOLEAN,
    INTERVALS,
    LONG,
    NULL,
    STRING,
    Aggregate,
    AggregateCall,
    Binder,
    Function,
    Functions,
    QueryScope,
    ScopedColumn,
    TypedSql,
    common_of,
    common_type,
    duckdb_type,
    is_integral,
    quoted,
    spark_type,
    text_literal,
)
from lakewright.statements.spark_grammar import place_of
from lakewright.statements.sql_text import Args, Fragment

# ---- Literals --------------------------------------------------------------------------------------------------------

_INT_MAX, _LONG_MAX = 2**31, 2**63
_D = exp.DType
_KINDS = {
    _D.BOOLEAN: dialect_values.BOOLEAN,
    _D.TINYINT: dialect_values.BYTE,
    _D.SMALLINT: dialect_values.SHORT,
    _D.INT: dialect_values.INT,
    _D.BIGINT: dialect_values.LONG,
    _D.FLOAT: dialect_values.FLOAT,
    _D.DOUBLE: dialect_values.DOUBLE,
    _D.TEXT: dialect_values.STRING,
    _D.VARCHAR: dialect_values.STRING,
    _D.CHAR: dialect_values.STRING,
    _D.BINARY: dialect_values.BINARY,
    _D.DATE: dialect_values.DATE,
    _D.TIMESTAMP: dialect_values.TIMESTAMP,
    _D.TIMESTAMPTZ: dialect_values.TIMESTAMP,
    _D.TIMESTAMPLTZ: dialect_values.TIMESTAMP,
    _D.TIMESTAMPNTZ: dialect_values.TIMESTAMP_NTZ,
    _D.NULL: dialect_values.NULL,
    _D.VARIANT: dialect_values.VARIANT,
}
_DECIMALS = {_D.DECIMAL}


def type_of(node: exp.DataType) -> pa.DataType:
    """Return the type that a text such as `DECIMAL(10, 2)` names."""
    kind, inner = node.this, node.expressions
    if kind in _KINDS:
        return _KINDS[kind]
    if kind in _DECIMALS:
        numbers = [int(one.this.name) for one in inner]
        precision, scale = (*numbers, 0)[:2] if numbers else (10, 0)
        if not 1 <= precision <= dialect_values.PRECISION_MAX or not 0 <= scale <= precision:
            raise InvalidInputError(f"DECIMAL({precision},{scale}) does not exist: at most 38 digits")
        return pa.decimal128(precision, scale)
    if kind in {_D.ARRAY, _D.LIST}:
        return pa.list_(type_of(inner[0]))
    if kind == _D.MAP:
        return pa.map_(type_of(inner[0]), type_of(inner[1]))
    if kind == _D.STRUCT:
        return pa.struct([(one.name, type_of(one.args["kind"])) for one in inner])
    raise UnsupportedError(f"the type {node.sql('spark')} is not known here")


# ---- literals


def literal(node: exp.Literal) -> TypedSql:
    """Return a text or a number."""
    return text(node.name) if node.is_string else number(node.name)


def text(content: str) -> TypedSql:
    """Return a text."""
    return TypedSql(text_literal(content), dialect_values.STRING, content, literal=content)


def binary(digits: str) -> TypedSql:
    """Return bytes."""
    content = bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}")
    shown = "".join(f"\\x{one:02X}" for one in content)
    return TypedSql(f"'{shown}'::BLOB", dialect_values.BINARY, f"X'{content.hex().upper()}'", literal=content)


def boolean(value: bool) -> TypedSql:  # noqa: FBT001 - the value itself
    """Return TRUE or FALSE."""
    return TypedSql(str(value).upper(), dialect_values.BOOLEAN, str(value).lower(), literal=value)


def number(written: str) -> TypedSql:
    """Return a number: INT, BIGINT or DECIMAL by its size, DECIMAL with a point, DOUBLE with an exponent."""
    if "e" in written.lower():
        found = float(written)
        return TypedSql(_double(found), dialect_values.DOUBLE, double_text(found), literal=found)
    value = Decimal(written)
    if "." not in written and -_LONG_MAX <= value < _LONG_MAX:
        kind = dialect_values.INT if -_INT_MAX <= value < _INT_MAX else dialect_values.LONG
        return TypedSql(f"CAST({int(value)} AS {duckdb_type(kind)})", kind, str(int(value)), literal=int(value))
    return decimal(value)


def decimal(value: Decimal) -> TypedSql:
    """Return a decimal with the digits that it has."""
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise InvalidInputError(f"{value} is no decimal")
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale, 1)
    if precision > dialect_values.PRECISION_MAX:
        raise InvalidInputError(f"{value} has more than 38 digits")
    kind = pa.decimal128(precision, scale)
    plain = f"{value:f}"
    return TypedSql(f"CAST('{plain}' AS {duckdb_type(kind)})", kind, plain, literal=value)


def _double(value: float) -> str:
    return f"CAST('{value!r}' AS DOUBLE)"


def is_plain(node: exp.Cast) -> bool:
    """Return whether a cast in the tree is a literal, such as `1L` or `DATE '2020-01-01'`."""
    return isinstance(node.this, exp.Literal) and "written" not in node.meta and type(node) is exp.Cast


def plain_name(node: exp.Cast, kind: pa.DataType) -> str:
    """Return Spark's name of a literal with a type."""
    words = {
        dialect_values.DATE: "DATE",
        dialect_values.TIMESTAMP: "TIMESTAMP",
        dialect_values.TIMESTAMP_NTZ: "TIMESTAMP_NTZ",
    }
    if node.this.is_string and not dialect_values.is_number(kind):
        return f"{words.get(kind, spark_type(kind))} '{node.this.name}'"
    return str(node.this.name)


# ---- intervals

_UNITS = {
    "year": (12, 0, 0),
    "month": (1, 0, 0),
    "week": (0, 7, 0),
    "day": (0, 1, 0),
    "hour": (0, 0, 3_600_000_000),
    "minute": (0, 0, 60_000_000),
    "second": (0, 0, 1_000_000),
    "millisecond": (0, 0, 1000),
    "microsecond": (0, 0, 1),
}
_YEAR_MONTH = re.compile(r"([+-]?)(\d+)-(\d+)")
_DAY_TIME = re.compile(r"([+-]?)(?:(\d+) )?(\d{1,2}):(\d{1,2})(?::(\d{1,2}(?:\.\d+)?))?")
_PART = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*([a-zA-Z]+)")


def interval(binder: Binder, node: exp.Interval) -> TypedSql:
    """Return an interval, which is of years and months, or of days and times."""
    written, unit = node.this, node.args.get("unit")
    if not isinstance(written, exp.Literal):
        raise binder.unsupported_error(
            node, "an interval of a calculated length does not run here: use make_interval on Spark"
        )
    content = written.name.strip()
    if isinstance(unit, exp.IntervalSpan):
        parts = _span(content)
    elif unit is not None:
        parts = _total([(content, unit.name)])
    else:
        parts = _total(_PART.findall(content.lower().removeprefix("interval")))
    if parts is None:
        raise InvalidInputError(f"{node.sql('spark')} is no interval")
    months, days, micros = parts
    if months and (days or micros):
        raise binder.unsupported_error(
            node, "an interval of months and days together does not run here: add them one by one"
        )
    name = f"INTERVAL '{content}'" + (f" {unit.sql('spark').upper()}" if unit is not None else "")
    if months:
        return TypedSql(f"to_months({months})", dialect_values.YEAR_MONTH, name)
    kind = dialect_values.DAY_TIME if micros or _has_time(node) else dialect_values.DAYS
    return TypedSql(f"(to_days({days}) + to_microseconds({micros}))", kind, name)


def _has_time(node: exp.Interval) -> bool:
    return bool(re.search(r"hour|minute|second", node.sql("spark").lower()))


def _total(parts: list[tuple[str, str]]) -> tuple[int, int, int] | None:
    sums = [Decimal(0)] * 3
    for amount, unit in parts:
        sizes = _UNITS.get(unit.lower().removesuffix("s"))
        if sizes is None or not re.fullmatch(r"[+-]?\d+(\.\d+)?", amount.strip()):
            return None
        sums = [done + Decimal(amount) * size for done, size in zip(sums, sizes, strict=True)]
    if not parts or any(one != int(one) for one in sums):
        return None
    return int(sums[0]), int(sums[1]), int(sums[2])


def _span(content: str) -> tuple[int, int, int] | None:
    if found := _YEAR_MONTH.fullmatch(content):
        months = int(found[2]) * 12 + int(found[3])
        return (-months if found[1] == "-" else months), 0, 0
    if found := _DAY_TIME.fullmatch(content):
        sign = -1 if found[1] == "-" else 1
        seconds = int(found[3]) * 3600 + int(found[4]) * 60 + Decimal(found[5] or 0)
        return 0, sign * int(found[2] or 0), sign * int(seconds * 1_000_000)
    return None


# ---- parameters


def argument(value: object, binder: Binder) -> TypedSql:  # noqa: C901 - one line for each type
    """Return the value of a parameter as a literal."""
    match value:
        case None:
            return TypedSql("NULL", dialect_values.NULL, "NULL")
        case bool() | np.bool_():
            return boolean(bool(value))
        case int() | np.integer():
            return number(str(int(value)))
        case float() | np.floating():
            return TypedSql(
                _double(float(value)), dialect_values.DOUBLE, double_text(float(value)), literal=float(value)
            )
        case Decimal():
            return decimal(value)
        case str() if not any("\ud800" <= char <= "\udfff" for char in value):
            return text(value)
        case bytes() | bytearray():
            return binary(bytes(value).hex())
        case datetime():
            kind = dialect_values.TIMESTAMP
            return binder.cast(text(value.isoformat(sep=" ")), kind).with_name(str(value))
        case date():
            return binder.cast(text(value.isoformat()), dialect_values.DATE)
        case time():
            return TypedSql(f"TIME '{value.isoformat()}'", dialect_values.TIME, str(value))
        case timedelta():
            return TypedSql(
                f"to_microseconds({value // timedelta(microseconds=1)})", dialect_values.DAY_TIME, str(value)
            )
        case list() | tuple() if value:
            items = binder.common([argument(one, binder) for one in value])
            return TypedSql(f"[{', '.join(one.sql for one in items)}]", pa.list_(items[0].type), "array")
    raise argument_checks.argument_error(
        "a value in args", "a number, text, boolean, bytes, date, time or a list of them", value
    )


# ---- Expressions -----------------------------------------------------------------------------------------------------
# Invariant: the result has the value and the type that Spark gives it, or the expression is refused by name.

Subqueries: TypeAlias = Callable[[exp.Expr, QueryScope], tuple[str, list[ScopedColumn]]]

_COMPARISONS = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_ARITHMETIC = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div"}
_BITS = {exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^"}


@dataclass(frozen=True, slots=True)
class TranslationContext:
    """What all expressions of a statement share."""

    fragment: Fragment
    args: Args
    casts: Casts
    functions: Functions
    scalar: Mapping[str, Function]
    aggregates: Mapping[str, Aggregate]


@dataclass(slots=True)
class Expressions:
    """Translates expressions in one scope."""

    env: TranslationContext
    scope: QueryScope
    subquery: Subqueries
    windows: Mapping[str, exp.Expr] = field(default_factory=dict)

    # ---- for all

    @property
    def functions(self) -> Functions:
        """The functions in Python of the query."""
        return self.env.functions

    @property
    def zone(self) -> str:
        """The time zone of the session."""
        return self.env.casts.zone

    def bind(self, node: exp.Expr) -> TypedSql:
        """Return the value of an expression."""
        bind = _BINDERS.get(type(node))
        if bind is None:
            raise self.unsupported_error(node, f"the expression {node.sql('spark')} is not known here")
        try:
            return bind(self, node)
        except LakewrightError as error:
            raise self.with_place(node, error) from None

    def with_place(self, node: exp.Expr, error: LakewrightError) -> LakewrightError:
        """Return an error with the place of an expression, unless it has one."""
        if "line" in error.facts:
            return error
        return self.env.fragment.error(error.message, place_of(node), type(error), **error.facts)

    def unsupported_error(self, node: exp.Expr, message: str) -> UnsupportedError:
        """Return the error for something that does not run in this process."""
        return self.env.fragment.error(message, place_of(node), UnsupportedError)

    def inside(self, scope: QueryScope) -> Expressions:
        """Return the same for another scope."""
        return replace(self, scope=scope)

    def cast(self, value: TypedSql, to: pa.DataType) -> TypedSql:
        """Return a value as another type."""
        return self.env.casts.cast(value, to)

    def named_type(self, text: str) -> pa.DataType:
        """Return the type that a text names."""
        try:
            return type_of(exp.DataType.build(text, dialect="spark"))
        except SqlglotError as error:
            raise InvalidInputError(f"{text!r} is not a type, such as 'int' or 'array<string>'") from error

    def condition(self, node: exp.Expr) -> str:
        """Return the SQL of a condition."""
        return self.bind_condition(node).sql

    def bind_condition(self, node: exp.Expr) -> TypedSql:
        """Return the value of a condition. Bind once: to bind each side twice is exponential in the depth of a tree."""
        return self._as_condition(node, self.bind(node))

    def _as_condition(self, node: exp.Expr, value: TypedSql) -> TypedSql:
        if value.type not in {BOOLEAN, NULL}:
            raise self.with_place(node, InvalidInputError(f"{value.name} is {spark_type(value.type)}, not a condition"))
        return self.cast(value, BOOLEAN).with_name(value.name)

    def common(self, values: Sequence[TypedSql]) -> list[TypedSql]:
        """Return values as their common type."""
        kind = common_of(value.type for value in values)
        if kind is None:
            shown = " and ".join(f"{value.name} ({spark_type(value.type)})" for value in values)
            raise InvalidInputError(f"the types of {shown} do not fit together: cast one of them")
        return [self.cast(value, kind) for value in values]

    # ---- leaves

    def column(self, node: exp.Column) -> TypedSql:
        """Return the value of a name."""
        parts = [part.name for part in node.parts]
        value, rest = self.scope.resolve(parts)
        for name in rest:
            value = self.field_of(value, name)
        return value

    def identifier(self, node: exp.Identifier) -> TypedSql:
        """Return the value of a variable of a lambda, or of a name."""
        return self.scope.resolve([node.name])[0]

    def field_of(self, value: TypedSql, name: str) -> TypedSql:
        """Return a field of a struct, or of each struct in an array."""
        kind = value.type
        if pa.types.is_struct(kind):
            for one in kind:
                if one.name.lower() == name.lower():
                    return TypedSql(f"struct_extract({value.sql}, {text_literal(one.name)})", one.type, name)
            known = ", ".join(one.name for one in kind)
            raise InvalidInputError(f"{value.name} has no field {name!r}; it has {known}")
        if pa.types.is_map(kind) and kind.key_type == STRING:
            return TypedSql(f"({value.sql})[{text_literal(name)}]", kind.item_type, f"{value.name}[{name}]")
        raise InvalidInputError(f"{value.name} is {spark_type(kind)}, which has no field {name!r}")

    def dot(self, node: exp.Dot) -> TypedSql:
        """Return a field of an expression."""
        return self.field_of(self.bind(node.this), node.expression.name)

    def placeholder(self, node: exp.Placeholder) -> TypedSql:
        """Return the value of a parameter."""
        args, name = self.env.args, node.name
        if isinstance(args, Mapping):
            if name not in args:
                raise InvalidInputError(f"args has no value for :{name}" if name else "? takes a list as args")
            return argument(args[name], self)
        number = int(node.meta.get("number", len(args)))
        if number >= len(args):
            raise InvalidInputError(f"args has {len(args)} values, and the statement has more parameters")
        return argument(args[number], self)

    # ---- operators

    def arithmetic(self, node: exp.Binary) -> TypedSql:
        """Return a sum, difference, product, quotient or rest."""
        return dialect_casts.calculate(self, _ARITHMETIC[type(node)], self.bind(node.this), self.bind(node.expression))

    def bits(self, node: exp.Binary) -> TypedSql:
        """Return a bitwise combination."""
        sign = _BITS[type(node)]
        left, right = self.common([self.bind(node.this), self.bind(node.expression)])
        name = f"({left.name} {sign} {right.name})"
        if not is_integral(left.type):
            raise InvalidInputError(f"{name} takes whole numbers, not {spark_type(left.type)}")
        sql = f"xor({left.sql}, {right.sql})" if sign == "^" else f"({left.sql} {sign} {right.sql})"
        return TypedSql(sql, left.type, name)

    def negative(self, node: exp.Neg) -> TypedSql:
        """Return a number with the other sign."""
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return number(f"-{node.this.name}")
        value = self.bind(node.this)
        if value.type in INTERVALS:
            return replace(value, sql=f"(-1 * {value.sql})", name=f"(- {value.name})", literal=None)
        return TypedSql(f"CAST(-({value.sql}) AS {duckdb_type(value.type)})", value.type, f"(- {value.name})")

    def comparison(self, node: exp.Binary) -> TypedSql:
        """Return whether two values are equal, less, greater."""
        sign = _COMPARISONS[type(node)]
        if isinstance(node.expression, exp.Any | exp.All):
            raise self.unsupported_error(node, "comparisons with ANY or ALL do not run here")
        return self._compare(sign, self.bind(node.this), self.bind(node.expression))

    def _compare(self, sign: str, left: TypedSql, right: TypedSql) -> TypedSql:
        spelled = {"<>": "="}.get(sign, sign)
        name = f"({left.name} {spelled} {right.name})"
        one, other = self._comparable(left, right)
        sql = f"({ordering_key(one, sign)} {sign} {ordering_key(other, sign)})"
        return TypedSql(sql, BOOLEAN, f"(NOT {name})" if sign == "<>" else name)

    def _comparable(self, first: TypedSql, *others: TypedSql) -> list[TypedSql]:
        """Return values as their common type; structs are compared by the order of their fields, not by name."""
        if _lacks_a_type(first.type, *(other.type for other in others)):
            raise InvalidInputError("a NULL inside a row or a struct needs a type here, such as CAST(NULL AS STRING)")
        return self.common([first, *(self.env.casts.with_field_names(other, first.type) for other in others)])

    def same(self, node: exp.NullSafeEQ) -> TypedSql:
        """Return whether two values are equal, where null equals null."""
        left, right = self.bind(node.this), self.bind(node.expression)
        one, other = self._comparable(left, right)
        return TypedSql(f"({one.sql} IS NOT DISTINCT FROM {other.sql})", BOOLEAN, f"({left.name} <=> {right.name})")

    def logical(self, node: exp.Connector) -> TypedSql:
        """Return AND, OR."""
        return self._join_conditions(node, "AND" if isinstance(node, exp.And) else "OR", self.bind_condition)

    def _join_conditions(self, node: exp.Connector, word: str, bind: Callable[[exp.Expr], TypedSql]) -> TypedSql:
        """Return AND or OR of a chain of conditions, without a recursion for each of them."""
        chain, left = list[exp.Expr](), node
        while type(left) is type(node):
            chain.append(left.expression)
            left = left.this
        done, shown = bind(left), "AND" if isinstance(node, exp.And) else "OR"
        for condition in reversed(chain):
            right = bind(condition)
            done = TypedSql(f"({done.sql} {word} {right.sql})", BOOLEAN, f"({done.name} {shown} {right.name})")
        return done

    def negation(self, node: exp.Not) -> TypedSql:
        """Return NOT, which goes inside of AND, OR and NOT to the conditions themselves, as in Spark.

        There the value of `NOT (a IN (SELECT ...))` is not the opposite of that of `a IN (SELECT ...)`: where nulls
        leave open whether there is a match, both are false.
        """
        value = self._negate(node.this)
        if isinstance(node.this, exp.Is) and value.name.endswith("IS NULL)"):
            return value.with_name(value.name[: -len("NULL)")] + "NOT NULL)")
        return value.with_name(f"(NOT {value.name})")

    def _negate(self, node: exp.Expr) -> TypedSql:
        """Return the SQL of the opposite of a condition, under the name of the condition."""
        inner = node
        while isinstance(inner, exp.Paren):
            inner = inner.this
        match inner:
            case exp.And() | exp.Or():
                return self._join_conditions(inner, "OR" if isinstance(inner, exp.And) else "AND", self._negate)
            case exp.Not():
                value = self.bind_condition(inner.this)
                return value.with_name(f"(NOT {value.name})")
            case exp.In() if inner.args.get("query") is not None:
                try:
                    return self._in_query(inner, inner.args["query"], negated=True)
                except LakewrightError as error:
                    raise self.with_place(inner, error) from None
        value = self.bind(node)
        return TypedSql(f"(NOT {self._as_condition(node, value).sql})", BOOLEAN, value.name)

    def is_what(self, node: exp.Is) -> TypedSql:
        """Return IS NULL, IS TRUE ..."""
        value = self.bind(node.this)
        word = "NULL" if isinstance(node.expression, exp.Null) else node.expression.sql().upper()
        if word not in {"NULL", "TRUE", "FALSE"}:
            raise self.unsupported_error(node, f"IS {word} is not known here")
        return TypedSql(f"({value.sql} IS {word})", BOOLEAN, f"({value.name} IS {word})")

    def between(self, node: exp.Between) -> TypedSql:
        """Return BETWEEN."""
        value, low, high = (self.bind(node.args[key]) for key in ("this", "low", "high"))
        at_least, at_most = self._compare(">=", value, low), self._compare("<=", value, high)
        name = f"between({value.name}, {low.name}, {high.name})"
        return TypedSql(f"({at_least.sql} AND {at_most.sql})", BOOLEAN, name)

    def membership(self, node: exp.In) -> TypedSql:
        """Return IN, of a list or a subquery."""
        query = node.args.get("query")
        if query is not None:
            return self._in_query(node, query)
        if isinstance(node.this, exp.Tuple):
            return self._in_rows(node)
        if not node.expressions:
            raise self.env.fragment.error("IN takes values or a query in brackets", place_of(node), SQLSyntaxError)
        value, *others = [self.bind(one) for one in [node.this, *node.expressions]]
        one, *list_ = self._comparable(value, *others)
        name = f"({value.name} IN ({', '.join(other.name for other in others)}))"
        return TypedSql(f"({one.sql} IN ({', '.join(item.sql for item in list_)}))", BOOLEAN, name)

    def row(self, node: exp.Tuple) -> TypedSql:
        """Return `(a, b)` as a struct."""
        values = [self.bind(one) for one in node.expressions]
        return self.env.scalar["struct"](self, values).with_name(self._row_name(values))

    def _row_name(self, values: list[TypedSql], quote: str = "") -> str:
        fields = self.env.scalar["struct"](self, values).type
        pairs = (f"{quote}{field.name}{quote}, {value.name}" for field, value in zip(fields, values, strict=True))
        return f"named_struct({', '.join(pairs)})"

    def _in_rows(self, node: exp.In) -> TypedSql:
        rows = [[self.bind(one) for one in row.expressions] for row in (node.this, *node.expressions)]
        if len({len(row) for row in rows}) != 1:
            raise self.with_place(node, InvalidInputError("the rows of IN have different numbers of values"))
        if any(_is_null_beside([value.type for value in column]) for column in zip(*rows, strict=True)):
            raise self.with_place(
                node, InvalidInputError("a NULL inside a row needs a type here: CAST(NULL AS STRING)")
            )
        across = [self.common(column) for column in zip(*rows, strict=True)]
        left, *others = (f"({', '.join(one.sql for one in row)})" for row in zip(*across, strict=True))
        return TypedSql(f"({left} IN ({', '.join(others)}))", BOOLEAN, f"({rows[0][0].name} IN (...))")

    def _in_query(self, node: exp.In, query: exp.Expr, *, negated: bool = False) -> TypedSql:
        """Return `values IN (query)`, or with `negated` NOT IN; both are false where nulls leave the answer open."""
        wanted = _values_of_row(node.this)
        values = [self.argument(one) for one in wanted]
        sql, columns = self.subquery(query, self.scope)
        if len(columns) != len(values):
            raise self.with_place(
                node, InvalidInputError(f"IN takes a query of {len(values)} columns, not {len(columns)}")
            )
        pairs = [
            self._comparable(value, TypedSql(column.sql, column.type, column.name))
            for value, column in zip(values, columns, strict=True)
        ]
        name = values[0].name if len(values) == 1 else self._row_name(values, quote="'")
        name = f"({name} IN (listquery()))"
        word = "NOT IN" if negated else "IN"
        if len(pairs) == 1:
            ((one, other),) = pairs
            inner = f"SELECT {other.sql} FROM ({sql}) AS q"  # noqa: S608 - made of parts that are bound
            return TypedSql(f"coalesce({one.sql} {word} ({inner}), false)", BOOLEAN, name)
        equal = [f"({one.sql} = {other.sql})" for one, other in pairs]
        if not negated:
            return TypedSql(_matches(sql, *equal), BOOLEAN, name)
        # Three joins, of which only the first, which compares values alone, is large: DuckDB hashes it.
        possible = [f"{one} IS NOT FALSE" for one in equal]
        sides = [" OR ".join(f"{value.sql} IS NULL" for value in side) for side in zip(*pairs, strict=True)]
        found = [_matches(sql, *equal), *(_matches(sql, f"({side})", *possible) for side in sides)]
        return TypedSql(f"(NOT ({' OR '.join(found)}))", BOOLEAN, name)

    def exists(self, node: exp.Exists) -> TypedSql:
        """Return EXISTS."""
        if not isinstance(node.this, exp.Query):
            raise self.unsupported_error(node, "exists with a lambda does not run here")
        sql, _ = self.subquery(node.this, self.scope)
        return TypedSql(f"EXISTS ({sql})", BOOLEAN, "exists()")

    def scalar_subquery(self, node: exp.Subquery) -> TypedSql:
        """Return a query of one column and at most one row as a value."""
        sql, columns = self.subquery(node, self.scope)
        if len(columns) != 1:
            raise self.with_place(node, InvalidInputError(f"a query as a value has one column, not {len(columns)}"))
        return TypedSql(f"({sql})", columns[0].type, "scalarsubquery()")

    def like(self, node: exp.Binary) -> TypedSql:
        """Return LIKE and ILIKE; a backslash is the default escape."""
        escape, negated = "\\", bool(node.args.get("negate"))
        if isinstance(node, exp.Escape):
            escape, node = node.expression.name, node.this
            negated = bool(node.args.get("negate"))
        word = "ILIKE" if isinstance(node, exp.ILike) else "LIKE"
        if isinstance(node.expression, exp.Any | exp.All):
            raise self.unsupported_error(node, f"{word} ANY and {word} ALL do not run here")
        left, right = (self.cast(self.bind(one), STRING) for one in (node.this, node.expression))
        name = f"{left.name} {word} {right.name}"
        sql = f"({left.sql} {word} {right.sql} ESCAPE {text_literal(escape)})"
        return TypedSql(f"(NOT {sql})" if negated else sql, BOOLEAN, f"(NOT {name})" if negated else name)

    # ---- CASE, casts, brackets

    def case(self, node: exp.Case) -> TypedSql:
        """Return CASE."""
        given = None if node.args.get("this") is None else self.bind(node.this)
        tests, results = [], []
        for branch in node.args["ifs"]:
            tests.append(self._case_test(given, branch.this))
            results.append(self.bind(branch.args["true"]))
        default = node.args.get("default")
        otherwise = self.bind(default) if default is not None else TypedSql("NULL", NULL, "NULL")
        *cast_results, last = self.common([*results, otherwise])
        sql = " ".join(f"WHEN {test.sql} THEN {value.sql}" for test, value in zip(tests, cast_results, strict=True))
        name = " ".join(f"WHEN {test.name} THEN {value.name}" for test, value in zip(tests, results, strict=True))
        end = f" ELSE {otherwise.name}" if default is not None else ""
        return TypedSql(f"CASE {sql} ELSE {last.sql} END", last.type, f"CASE {name}{end} END")

    def _case_test(self, given: TypedSql | None, node: exp.Expr) -> TypedSql:
        if given is None:
            return self.bind_condition(node)
        try:
            return self._compare("=", given, self.bind(node))
        except LakewrightError as error:
            raise self.with_place(node, error) from None

    def either(self, node: exp.If) -> TypedSql:
        """Return if(condition, one, other)."""
        test = self.bind_condition(node.this)
        chosen = [self.bind(node.args["true"]), self.bind(node.args.get("false") or exp.Null())]
        one, other = self.common(chosen)
        name = f"(IF({test.name}, {chosen[0].name}, {chosen[1].name}))"
        return TypedSql(f"CASE WHEN {test.sql} THEN {one.sql} ELSE {other.sql} END", one.type, name)

    def cast_to(self, node: exp.Cast) -> TypedSql:
        """Return CAST, `::`, DATE '...', and numbers with a suffix."""
        kind = type_of(node.to)
        value = self.bind(node.this)
        safe = isinstance(node, exp.TryCast)
        done = self.env.casts.cast(value, kind, safe=safe)
        if is_plain(node):
            return replace(done, name=plain_name(node, kind), literal=value.literal)
        return replace(done, name=f"{'TRY_CAST' if safe else 'CAST'}({value.name} AS {spark_type(kind)})", literal=None)

    def bracket(self, node: exp.Bracket) -> TypedSql:
        """Return `array[0]` and `map[key]`."""
        value, index = self.bind(node.this), self.bind(node.expressions[0])
        name = f"{value.name}[{index.name}]"
        if pa.types.is_map(value.type):
            kind = common_type(value.type.key_type, index.type)
            if kind != value.type.key_type:
                raise InvalidInputError(f"{name}: the keys are {spark_type(value.type.key_type)}")
            return TypedSql(f"({value.sql})[{self.cast(index, kind).sql}]", value.type.item_type, name)
        if pa.types.is_struct(value.type) and isinstance(index.literal, str):
            return self.field_of(value, index.literal)
        if not pa.types.is_list(value.type) or not is_integral(index.type):
            raise InvalidInputError(f"{name}: only arrays and maps have elements, by number or by key")
        at = self.cast(index, LONG).sql
        inside = f"{at} >= 0 AND {at} < len({value.sql})"
        wrong = f"error('the index ' || {at} || ' lies outside the array; get(...) gives NULL')"
        null = f"{value.sql} IS NULL OR {at} IS NULL"
        sql = f"CASE WHEN {null} THEN NULL WHEN {inside} THEN ({value.sql})[{at} + 1] ELSE {wrong} END"
        return TypedSql(sql, value.type.value_type, name)

    def variant_path(self, node: exp.JSONExtract) -> TypedSql:
        """Return `variant:key.key[0]`."""
        value, path = self.bind(node.this), node.expression
        steps = path.expressions[1:] if isinstance(path, exp.JSONPath) else [path]
        if not all(isinstance(step, exp.JSONPathKey | exp.JSONPathSubscript) for step in steps):
            raise self.unsupported_error(node, "a path into a variant has keys and positions, such as v:a.b[0]")
        text = "$" + "".join(f"[{step.this}]" if isinstance(step.this, int) else f"['{step.this}']" for step in steps)
        found = self.env.scalar["variant_get"](self, [value, TypedSql("", STRING, text, literal=text)])
        return found.with_name(f"variant_get({value.name}, {text})")

    def array(self, node: exp.Array) -> TypedSql:
        """Return an array of values."""
        if "value_constructor" in node.args:  # `array[0]`, which is read as another thing than a column
            raise self.unsupported_error(node, "a column called array takes backticks here: `array`[0]")
        return self.call("array", list(node.expressions), node)

    # ---- functions

    def anonymous(self, node: exp.Anonymous) -> TypedSql:
        """Return a call of a function by its name."""
        return self.call(node.name.lower(), list(node.expressions), node)

    def call(self, name: str, arguments: list[exp.Expr], node: exp.Expr, how: AggregateCall | None = None) -> TypedSql:
        """Return a call of a function."""
        if name in self.env.aggregates:
            return self._aggregate(name, arguments, how or AggregateCall())
        if name not in self.env.scalar:
            known = [*self.env.scalar, *self.env.aggregates]
            near = ", ".join(get_close_matches(name, known, n=4, cutoff=0.5))
            raise self.unsupported_error(
                node, f"the function {name} is not among those checked here" + f"; near are {near}" * bool(near)
            )
        values = [self.argument(one) for one in arguments]
        try:
            return self.env.scalar[name](self, values)
        except (IndexError, TypeError) as error:
            raise InvalidInputError(f"{name} does not take {len(values)} arguments like these") from error

    def argument(self, node: exp.Expr) -> TypedSql:
        """Return an argument of a function; one with a name keeps it, for struct."""
        if isinstance(node, exp.Alias):
            return self.bind(node.this).with_name(node.alias)
        if isinstance(node, exp.Lambda):
            return TypedSql("", NULL, "", literal=node)
        return self.bind(node)

    def lambda_body(self, node: exp.Lambda, *kinds: pa.DataType) -> tuple[str, TypedSql]:
        """Return the head and the body of a lambda whose variables have these types."""
        names = [one.name for one in node.expressions]
        if len(names) > len(kinds):
            raise InvalidInputError(f"the lambda takes up to {len(kinds)} variables, not {len(names)}")
        inner = QueryScope(self.scope)
        inner.locals = {
            name.lower(): TypedSql(quoted(f"v_{name}"), kind, name) for name, kind in zip(names, kinds, strict=False)
        }
        head = ", ".join(one.sql for one in inner.locals.values())
        return f"lambda {head}:", self.inside(inner).bind(node.this)

    def _aggregate(self, name: str, arguments: list[exp.Expr], how: AggregateCall) -> TypedSql:
        if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
            arguments, how = arguments[0].expressions, replace(how, distinct=True)
        if name == "count" and arguments and isinstance(arguments[0], exp.Star):
            arguments = [exp.Literal.number(1)]
        # Inside of an aggregate function the columns of the input come first.
        inner = self.inside(replace(self.scope, first={})) if self.scope.first else self
        return self.env.aggregates[name](inner, [inner.bind(one) for one in arguments], how)

    def bind_filter(self, node: exp.Filter) -> TypedSql:
        """Return an aggregate function on the rows of FILTER (WHERE ...)."""
        condition = self.bind_condition(node.expression.this)
        value = self._bind_aggregate(node.this, AggregateCall(condition=condition.sql))
        return value.with_name(f"{value.name} FILTER (WHERE {condition.name})")

    def null_treatment(self, node: exp.Expr) -> TypedSql:
        """Return a function with IGNORE NULLS or RESPECT NULLS."""
        return self._bind_aggregate(node.this, AggregateCall(ignore_nulls=isinstance(node, exp.IgnoreNulls)))

    def within_group(self, node: exp.WithinGroup) -> TypedSql:
        """Return percentile_cont(...) WITHIN GROUP (ORDER BY ...) and listagg."""
        ordered = node.expression.expressions[0]
        call = node.this
        name = call.name.lower()
        if name in {"listagg", "string_agg"}:
            return self._bind_aggregate(call, AggregateCall(order=f" ORDER BY {self.bind_order_item(ordered)[0]}"))
        if name != "percentile_cont" or ordered.args.get("desc"):
            raise self.unsupported_error(node, f"{name} WITHIN GROUP does not run here")
        return self._aggregate("percentile", [ordered.this, *call.expressions], AggregateCall())

    def _bind_aggregate(self, node: exp.Expr, how: AggregateCall) -> TypedSql:
        if isinstance(node, exp.Filter):
            return self._bind_aggregate(node.this, replace(how, condition=self.condition(node.expression.this)))
        if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
            return self._bind_aggregate(node.this, replace(how, ignore_nulls=isinstance(node, exp.IgnoreNulls)))
        if not isinstance(node, exp.Anonymous):
            raise self.unsupported_error(node, f"{node.sql('spark')} is no aggregate function")
        return self.call(node.name.lower(), list(node.expressions), node, how)

    # ---- windows and orders

    def bind_order_item(self, node: exp.Expr) -> tuple[str, str]:
        """Return one item of ORDER BY, in SQL and in Spark's words."""
        inner = node.this if isinstance(node, exp.Ordered) else node
        value = self.bind(inner)
        return ordering(node, value.sql), ordering(node, value.name)

    def window(self, node: exp.Window) -> TypedSql:
        """Return a function over a window."""
        spec: exp.Expr = node
        alias = node.args.get("alias")
        if alias is not None:
            if alias.name.lower() not in self.windows:
                raise InvalidInputError(f"there is no WINDOW {alias.name}")
            spec = self.windows[alias.name.lower()]
        parts = [self.bind(one) for one in spec.args.get("partition_by") or []]
        order = spec.args.get("order")
        orders = [self.bind_order_item(one) for one in order.expressions] if order is not None else []
        frame, shown = self._frame(spec.args.get("spec"), has_order=bool(orders))
        head = f"PARTITION BY {', '.join(part.sql for part in parts)}" if parts else ""
        sort = f"ORDER BY {', '.join(sql for sql, _ in orders)}" if orders else ""
        over = " ".join(part for part in (head, sort, frame) if part)
        value = self._bind_aggregate(node.this, AggregateCall(over=f" OVER ({over})"))
        told = [f"PARTITION BY {', '.join(part.name for part in parts)}"] if parts else []
        told += [f"ORDER BY {', '.join(text for _, text in orders)}"] if orders else []
        return value.with_name(f"{value.name} OVER ({' '.join([*told, shown])})")

    def _frame(self, spec: exp.Expr | None, *, has_order: bool) -> tuple[str, str]:
        if spec is None:
            end = "CURRENT ROW" if has_order else "UNBOUNDED FOLLOWING"
            return "", f"{'RANGE' if has_order else 'ROWS'} BETWEEN UNBOUNDED PRECEDING AND {end}"

        def edge(which: str) -> str:
            at, side = spec.args.get(which), spec.args.get(f"{which}_side") or ""
            if at is None or isinstance(at, str):
                return f"{at or 'CURRENT ROW'} {side}".strip()
            return f"{self.bind(at).sql} {side}"

        text = f"{spec.args['kind'].upper()} BETWEEN {edge('start')} AND {edge('end')}".upper()
        return text, text.replace("CAST(", "").replace(" AS INTEGER)", "")


def _values_of_row(node: exp.Expr) -> list[exp.Expr]:
    """Return what stands left of IN (query): the values of a row, which may be written as a struct, or one value."""
    match node:
        case exp.Tuple():
            return list(node.expressions)
        case exp.Anonymous() if node.name.lower() == "struct":
            return list(node.expressions)
        case exp.Anonymous() if node.name.lower() == "named_struct":
            return list(node.expressions[1::2])
    return [node]


def _matches(query: str, *conditions: str) -> str:
    return f"EXISTS (SELECT 1 FROM ({query}) AS q WHERE {' AND '.join(conditions)})"  # noqa: S608 - parts that are bound


def _lacks_a_type(*kinds: pa.DataType) -> bool:
    """Return whether a struct has a NULL of no type where another has a value; Spark refuses to compare them."""
    if all(map(pa.types.is_struct, kinds)) and len({kind.num_fields for kind in kinds}) == 1:
        fields = [[field.type for field in kind] for kind in kinds]
        return any(_lacks_a_type(*column) or _is_null_beside(column) for column in zip(*fields, strict=True))
    return False


def _is_null_beside(kinds: Sequence[pa.DataType]) -> bool:
    return NULL in kinds and any(kind != NULL for kind in kinds)


def ordering_key(value: TypedSql, sign: str) -> str:
    """Return the SQL of a value for a comparison in which a null inside an array or a struct is less than all else.

    In DuckDB it is greater than all else; nested values are equal in the same cases in both.
    """
    return value.sql if sign in {"=", "<>"} else _key(value.sql, value.type)


def _key(sql: str, kind: pa.DataType) -> str:
    if is_variant(kind):
        raise InvalidInputError("values of VARIANT have no order: compare what variant_get finds in them")
    if pa.types.is_list(kind):
        return f"list_transform({sql}, lambda e: {_key_inside('e', kind.value_type)})"
    if pa.types.is_struct(kind):
        fields = ", ".join(
            f'"f{n}" := {_key_inside(f"struct_extract({sql}, {text_literal(field.name)})", field.type)}'
            for n, field in enumerate(kind)
        )
        return f"CASE WHEN {sql} IS NOT NULL THEN struct_pack({fields}) END"
    return sql


def _key_inside(sql: str, kind: pa.DataType) -> str:
    return f"struct_pack(known := {sql} IS NOT NULL, value := {_key(sql, kind)})"


def ordering(node: exp.Expr, sql: str) -> str:
    """Return an item of ORDER BY; nulls come first in ascending order, and last in descending."""
    descending = bool(node.args.get("desc"))
    nulls_first = node.args.get("nulls_first", not descending)
    return f"{sql} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"


# Each takes its own kind of node.
_BINDERS: dict[type[exp.Expr], Callable[[Expressions, Any], TypedSql]] = {
    exp.Column: Expressions.column,
    exp.Identifier: Expressions.identifier,
    exp.Dot: Expressions.dot,
    exp.Placeholder: Expressions.placeholder,
    exp.Paren: lambda self, node: self.bind(node.this),
    exp.Neg: Expressions.negative,
    exp.NullSafeEQ: Expressions.same,
    exp.And: Expressions.logical,
    exp.Or: Expressions.logical,
    exp.Not: Expressions.negation,
    exp.Is: Expressions.is_what,
    exp.Between: Expressions.between,
    exp.In: Expressions.membership,
    exp.Exists: Expressions.exists,
    exp.Subquery: Expressions.scalar_subquery,
    exp.Select: Expressions.scalar_subquery,
    exp.Like: Expressions.like,
    exp.ILike: Expressions.like,
    exp.Escape: Expressions.like,
    exp.Case: Expressions.case,
    exp.If: Expressions.either,
    exp.Cast: Expressions.cast_to,
    exp.TryCast: Expressions.cast_to,
    exp.Bracket: Expressions.bracket,
    exp.JSONExtract: Expressions.variant_path,
    exp.Anonymous: Expressions.anonymous,
    exp.Filter: Expressions.bind_filter,
    exp.IgnoreNulls: Expressions.null_treatment,
    exp.RespectNulls: Expressions.null_treatment,
    exp.WithinGroup: Expressions.within_group,
    exp.Window: Expressions.window,
    exp.RegexpLike: lambda self, node: self.call("regexp_like", [node.this, node.expression], node),
    exp.DPipe: lambda self, node: self.call("concat", [node.this, node.expression], node),
    exp.Array: Expressions.array,
    exp.Concat: lambda self, node: self.call("concat", list(node.expressions), node),
    exp.CurrentDate: lambda self, node: self.call("current_date", [], node),
    exp.CurrentTimestamp: lambda self, node: self.call("current_timestamp", [], node),
    exp.Extract: lambda self, node: self.call("date_part", [exp.Literal.string(node.this.name), node.expression], node),
    exp.StrPosition: lambda self, node: self.call("locate", [node.args["substr"], node.this], node),
    exp.Substring: lambda self, node: self.call(
        "substring", [one for one in (node.this, node.args.get("start"), node.args.get("length")) if one], node
    ),
    exp.Trim: lambda self, node: self.call(
        {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim"),
        [one for one in (node.expression, node.this) if one],
        node,
    ),
    exp.Tuple: Expressions.row,
    exp.Transform: lambda self, node: self.call("transform", [node.this, node.expression], node),
    exp.Literal: lambda _, node: literal(node),
    exp.RawString: lambda _, node: text(node.name),
    exp.HexString: lambda _, node: binary(node.name),
    exp.Boolean: lambda _, node: boolean(bool(node.this)),
    exp.Null: lambda _, __: TypedSql("NULL", NULL, "NULL"),
    exp.Interval: interval,
    **dict.fromkeys(_COMPARISONS, Expressions.comparison),
    **dict.fromkeys(_ARITHMETIC, Expressions.arithmetic),
    **dict.fromkeys(_BITS, Expressions.bits),
}

"""Predicates as Spark columns.

Spark's logic has three values as ours has, and NaN compares the same. What cannot be said exactly gives None, and the
read then goes through the core's own reader. No column depends on the session's settings, not even on its zone: a time
that names no zone became a moment of the session's zone before (`session.in_session_zone`).

Spark hands simple comparisons on to its parquet reader, which skips row groups by their bounds. Bounds know no NaN and
tell the two zeros apart, so with some comparisons of floating-point columns the reader would skip rows that match; such
a comparison is spelled in a way that stays out of the scan.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import reduce
from operator import and_, or_
from typing import TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from lakewright.spark.spark_types import spark_type
from lakewright.spec.column_stats import is_nan
from lakewright.spec.comparison import PATTERNS, is_float, like_parts, matches_value
from lakewright.spec.identifier import quote_identifier
from lakewright.spec.predicate import Predicate
from lakewright.spec.scalars import to_text
from lakewright.spec.types import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    INTEGER_BITS,
    MICROS_PRECISION,
    TEXT_ROOTS,
    TIMESTAMP_ROOTS,
    AtomicType,
    DataField,
    DataType,
    Value,
)

_SPARK_NAMES = {"TINYINT": "byte", "SMALLINT": "short", "INT": "int", "BIGINT": "long", "FLOAT": "float"}
_SPARK_NAMES |= {"DOUBLE": "double"}
_MICRO_NANOS = 1000
_LONG_MAX = 2**63 - 1
_COMPARE: dict[str, Callable[[Column, Column], Column]] = {
    "equal": lambda column, literal: column == literal,
    "notEqual": lambda column, literal: column != literal,
    "lessThan": lambda column, literal: column < literal,
    "lessOrEqual": lambda column, literal: column <= literal,
    "greaterThan": lambda column, literal: column > literal,
    "greaterOrEqual": lambda column, literal: column >= literal,
}
Find: TypeAlias = Callable[[tuple[str, ...]], Column | None]


def to_column(predicate: Predicate, fields: Sequence[DataField]) -> Column | None:
    """Return the predicate as a column over a frame of these fields; None where Spark cannot say it exactly."""
    known = frozenset(field.name for field in fields)
    return translate_predicate(predicate, lambda path: column_at(path) if path[0] in known else None)


def is_exact(dtype: DataType | None) -> bool:
    """Return whether values of a type are the same in Spark."""
    return not (isinstance(dtype, AtomicType) and dtype.root in TIMESTAMP_ROOTS and dtype.precision > MICROS_PRECISION)


def _two_compared(method: str, left: Column, right: Column, dtype: DataType) -> Column | None:
    """Return how two columns compare, each as a value of a type that holds all of both."""
    if not isinstance(dtype, AtomicType) or dtype.root == "TIME" or not is_exact(dtype):
        return None  # columns of TIME compare only in sessions that switch it on
    one, other = (column.cast(spark_type(dtype)) for column in (left, right))
    return _COMPARE[method](one, other)


def column_at(path: Sequence[str]) -> Column:
    """Return a column, or the field of a struct below it, whatever characters the names have."""
    column = F.col(quote_identifier(path[0]))
    for name in path[1:]:
        column = column.getField(name)
    return column


def translate_predicate(p: Predicate, find: Find, *, negated: bool = False) -> Column | None:
    """Return the predicate as a column; `find` gives the columns of its paths, None where there is none."""
    match p.method:
        case "alwaysTrue" | "alwaysFalse":
            return F.lit(p.method == "alwaysTrue")
        case "and" | "or" | "not":
            children = [translate_predicate(child, find, negated=negated or p.method == "not") for child in p.children]
            kept = [child for child in children if child is not None]
            if len(kept) < len(children):
                return None
            return ~kept[0] if p.method == "not" else reduce(and_ if p.method == "and" else or_, kept)
        case _:
            column = find(p.path) if p.path else None
            if p.dtype is None or column is None:
                return None
            if p.other:
                other = find(p.other)
                return None if other is None else _two_compared(p.method, column, other, p.dtype)
            if is_float(p.dtype) and (negated or _bounds_may_hide(p)):
                column = hidden(column, p.dtype)
            return _leaf(p, p.dtype, column)


def _bounds_may_hide(p: Predicate) -> bool:
    """Return whether rows may match that are outside of the bounds of their row group: NaN, and the other zero."""
    return 0.0 in p.literals or any(map(is_nan, p.literals)) or bool(matches_value(p.method, p.literals, math.nan))


def hidden(column: Column, dtype: AtomicType) -> Column:
    """Return a floating-point column in a form that Spark does not push down to its parquet reader."""
    return F.nanvl(column, F.lit(math.nan).cast(_SPARK_NAMES[dtype.root]))


def _leaf(p: Predicate, dtype: DataType, column: Column) -> Column | None:
    if p.method == "isNull":
        return column.isNull()
    if p.method == "isNotNull":
        return column.isNotNull()
    if not isinstance(dtype, AtomicType):
        return None
    if p.method in PATTERNS:
        return _pattern(p.method, column, str(p.literals[0]))
    if p.method in {"in", "notIn"}:
        return _member(p, dtype, column)
    literals = [_literal(value, dtype) for value in p.literals]
    if any(literal is None for literal in literals):
        return None
    return _compare(p, column, [literal for literal in literals if literal is not None])


def _compare(p: Predicate, column: Column, literals: Sequence[Column]) -> Column:
    match p.method:
        case "between":
            return (column >= literals[0]) & (column <= literals[1])
        case "notBetween":
            return (column < literals[0]) | (column > literals[1])
        case _:
            return _COMPARE[p.method](column, literals[0])


def _constant_answer(column: Column, *, answer: bool) -> Column:
    """Return the same answer for every value, and null for null."""
    return F.when(column.isNotNull(), F.lit(answer))


def _member(p: Predicate, dtype: AtomicType, column: Column) -> Column | None:
    values = [value for value in p.literals if value is not None]
    if is_float(dtype) and 0.0 in values:
        values = [*(value for value in values if value != 0), 0.0, -0.0]  # sets of Spark tell the zeros apart
    literals = [_literal(value, dtype) for value in values]
    if any(literal is None for literal in literals):
        return None
    member = column.isin(literals) if literals else _constant_answer(column, answer=False)
    if None in p.literals:
        member = F.when(member, F.lit(True))  # noqa: FBT003 - a value, not a switch
    return member if p.method == "in" else ~member


def _pattern(method: str, column: Column, pattern: str) -> Column:
    match method:
        case "startsWith":
            return column.startswith(pattern)
        case "endsWith":
            return column.endswith(pattern)
        case "contains":
            return column.contains(pattern)
        case _:
            # Spark refuses a backslash before an ordinary character, so the pattern is spelled anew.
            parts = (kind or re.sub(r"([\\%_])", r"\\\1", text) for kind, text in like_parts(pattern))
            return column.like("".join(parts))


def _literal(value: Value, dtype: AtomicType) -> Column | None:
    """Return a literal that Spark folds and pushes into its scan; None where there is no exact one."""
    root = dtype.root
    if root in INTEGER_BITS or root in FLOAT_ROOTS:
        return F.lit(value).cast(_SPARK_NAMES[root])
    if root == "BOOLEAN" or root in TEXT_ROOTS:
        return F.lit(value)
    if root == "DECIMAL" and isinstance(value, Decimal):
        return F.lit(f"{value:f}").cast(f"decimal({dtype.precision},{dtype.scale})")
    if root in BINARY_ROOTS and isinstance(value, bytes):
        return F.unhex(F.lit(value.hex()))
    if root == "DATE" and isinstance(value, int):
        return F.date_from_unix_date(F.lit(value))
    if root in {"TIMESTAMP", "TIMESTAMP_LTZ"} and isinstance(value, int):
        return _timestamp(value, dtype)
    return None


def _timestamp(nanos: int, dtype: AtomicType) -> Column | None:
    micros, rest = divmod(nanos, _MICRO_NANOS)
    if rest or abs(micros) > _LONG_MAX:
        return None
    if dtype.root == "TIMESTAMP_LTZ":
        return F.timestamp_micros(F.lit(micros).cast("long"))
    text = to_text(nanos, AtomicType("TIMESTAMP(6)"))
    # Text of other centuries has other forms; that of four digits means the same whatever the session's zone is.
    return F.lit(text).cast("timestamp_ntz") if re.match(r"\d{4}-", text) else None

"""Literals, types and the values of parameters as Spark reads them."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
from sqlglot import exp

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.spec import arguments
from lakewright.statements.embedded.dialect import types
from lakewright.statements.embedded.dialect.conversions import double_text
from lakewright.statements.embedded.dialect.types import duckdb_type, spark_type, text_literal
from lakewright.statements.embedded.dialect.values import Binder, Value

_INT_MAX, _LONG_MAX = 2**31, 2**63
_D = exp.DType
_KINDS = {
    _D.BOOLEAN: types.BOOLEAN,
    _D.TINYINT: types.BYTE,
    _D.SMALLINT: types.SHORT,
    _D.INT: types.INT,
    _D.BIGINT: types.LONG,
    _D.FLOAT: types.FLOAT,
    _D.DOUBLE: types.DOUBLE,
    _D.TEXT: types.STRING,
    _D.VARCHAR: types.STRING,
    _D.CHAR: types.STRING,
    _D.BINARY: types.BINARY,
    _D.DATE: types.DATE,
    _D.TIMESTAMP: types.TIMESTAMP,
    _D.TIMESTAMPTZ: types.TIMESTAMP,
    _D.TIMESTAMPLTZ: types.TIMESTAMP,
    _D.TIMESTAMPNTZ: types.TIMESTAMP_NTZ,
    _D.NULL: types.NULL,
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
        if not 1 <= precision <= types.PRECISION_MAX or not 0 <= scale <= precision:
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


def literal(node: exp.Literal) -> Value:
    """Return a text or a number."""
    return text(node.name) if node.is_string else number(node.name)


def text(content: str) -> Value:
    """Return a text."""
    return Value(text_literal(content), types.STRING, content, literal=content)


def binary(digits: str) -> Value:
    """Return bytes."""
    content = bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}")
    shown = "".join(f"\\x{one:02X}" for one in content)
    return Value(f"'{shown}'::BLOB", types.BINARY, f"X'{content.hex().upper()}'", literal=content)


def boolean(value: bool) -> Value:  # noqa: FBT001 - the value itself
    """Return TRUE or FALSE."""
    return Value(str(value).upper(), types.BOOLEAN, str(value).lower(), literal=value)


def number(written: str) -> Value:
    """Return a number: INT, BIGINT or DECIMAL by its size, DECIMAL with a point, DOUBLE with an exponent."""
    if "e" in written.lower():
        found = float(written)
        return Value(_double(found), types.DOUBLE, double_text(found), literal=found)
    value = Decimal(written)
    if "." not in written and -_LONG_MAX <= value < _LONG_MAX:
        kind = types.INT if -_INT_MAX <= value < _INT_MAX else types.LONG
        return Value(f"CAST({int(value)} AS {duckdb_type(kind)})", kind, str(int(value)), literal=int(value))
    return decimal(value)


def decimal(value: Decimal) -> Value:
    """Return a decimal with the digits that it has."""
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise InvalidInputError(f"{value} is no decimal")
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale, 1)
    if precision > types.PRECISION_MAX:
        raise InvalidInputError(f"{value} has more than 38 digits")
    kind = pa.decimal128(precision, scale)
    plain = f"{value:f}"
    return Value(f"CAST('{plain}' AS {duckdb_type(kind)})", kind, plain, literal=value)


def _double(value: float) -> str:
    return f"CAST('{value!r}' AS DOUBLE)"


def is_plain(node: exp.Cast) -> bool:
    """Return whether a cast in the tree is a literal, such as `1L` or `DATE '2020-01-01'`."""
    return isinstance(node.this, exp.Literal) and "written" not in node.meta and type(node) is exp.Cast


def plain_name(node: exp.Cast, kind: pa.DataType) -> str:
    """Return Spark's name of a literal with a type."""
    words = {types.DATE: "DATE", types.TIMESTAMP: "TIMESTAMP", types.TIMESTAMP_NTZ: "TIMESTAMP_NTZ"}
    if node.this.is_string and not types.is_number(kind):
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


def interval(binder: Binder, node: exp.Interval) -> Value:
    """Return an interval, which is of years and months, or of days and times."""
    written, unit = node.this, node.args.get("unit")
    if not isinstance(written, exp.Literal):
        raise binder.refused(node, "an interval of a calculated length does not run here: use make_interval on Spark")
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
        raise binder.refused(node, "an interval of months and days together does not run here: add them one by one")
    name = f"INTERVAL '{content}'" + (f" {unit.sql('spark').upper()}" if unit is not None else "")
    if months:
        return Value(f"to_months({months})", types.YEAR_MONTH, name)
    kind = types.DAY_TIME if micros or _has_time(node) else types.DAYS
    return Value(f"(to_days({days}) + to_microseconds({micros}))", kind, name)


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


def argument(value: object, binder: Binder) -> Value:  # noqa: C901 - one line for each type
    """Return the value of a parameter as a literal."""
    match value:
        case None:
            return Value("NULL", types.NULL, "NULL")
        case bool() | np.bool_():
            return boolean(bool(value))
        case int() | np.integer():
            return number(str(int(value)))
        case float() | np.floating():
            return Value(_double(float(value)), types.DOUBLE, double_text(float(value)), literal=float(value))
        case Decimal():
            return decimal(value)
        case str() if not any("\ud800" <= char <= "\udfff" for char in value):
            return text(value)
        case bytes() | bytearray():
            return binary(bytes(value).hex())
        case datetime():
            kind = types.TIMESTAMP
            return binder.cast(text(value.isoformat(sep=" ")), kind).called(str(value))
        case date():
            return binder.cast(text(value.isoformat()), types.DATE)
        case time():
            return Value(f"TIME '{value.isoformat()}'", types.TIME, str(value))
        case timedelta():
            return Value(f"to_microseconds({value // timedelta(microseconds=1)})", types.DAY_TIME, str(value))
        case list() | tuple() if value:
            items = binder.common([argument(one, binder) for one in value])
            return Value(f"[{', '.join(one.sql for one in items)}]", pa.list_(items[0].type), "array")
    raise arguments.wrong("a value in args", "a number, text, boolean, bytes, date, time or a list of them", value)

"""Scalars: Python, Arrow and text to values of a type and back.

A conversion is exact, or it raises an `InvalidInputError` that names the value and the type; nothing is rounded,
wrapped or truncated. A decimal fraction becomes the nearest FLOAT or DOUBLE if that number prints as the same fraction.
The precision of TIME and TIMESTAMP limits a value only to the unit that files store (milliseconds; milli-, micro- or
nanoseconds), as in Java.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from typing import TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from lakewright.errors import InvalidInputError
from lakewright.spec.arrow_types import to_arrow_type
from lakewright.spec.types import (
    BYTES_ROOTS,
    INTEGER_BITS,
    TEXT_ROOTS,
    TIMESTAMP_ROOTS,
    UNIT_NANOS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    Value,
    VectorType,
    time_unit,
)

NestedValue: TypeAlias = "Value | Sequence[NestedValue] | Mapping[NestedValue, NestedValue]"

DAY_MILLIS = 86_400_000

_NANOS = {"D": 86_400 * 10**9, "h": 3_600 * 10**9, "m": 60 * 10**9, **UNIT_NANOS}
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - TIMESTAMP has no zone
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_CYCLE_DAYS = 146_097  # 400 years of the Gregorian calendar
_EXACT = Context(prec=100, Emax=999_999, Emin=-999_999, traps=[Inexact, InvalidOperation])
_WIDE = Context(prec=100, Emax=999_999, Emin=-999_999)
_TEMPORAL_RANGE = {"DATE": (-(2**31), 2**31 - 1), "TIME": (0, DAY_MILLIS - 1)}
_MILLIS_RANGE = (-(2**63), 2**63 - 1)  # rows store timestamps as milliseconds, and nanoseconds of the millisecond
_PLAIN_DIGITS_MIN, _PLAIN_DIGITS_MAX = 1e-3, 1e7  # between them, Java writes numbers without an exponent
_TRUE = frozenset({"t", "true", "y", "yes", "1"})
_FALSE = frozenset({"f", "false", "n", "no", "0"})
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?")
_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?)?"
_DATE = re.compile(r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})", re.ASCII)
_TIME = re.compile(_CLOCK, re.ASCII)
_TIMESTAMP = re.compile(
    rf"{_DATE.pattern}(?:[T ]{_CLOCK})?\s*(?P<zone>Z|UTC|(?P<sign>[+-])(?P<zh>\d{{2}}):?(?P<zm>\d{{2}}))?", re.ASCII
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<h>\d{1,2})(?::?(?P<m>\d{2}))?(?::?(?P<s>\d{2}))?", re.ASCII)


def to_value(obj: object, dtype: DataType) -> Value:
    """Return a Python, numpy or Arrow object as a value of a type, exactly.

    Naive datetimes are TIMESTAMP, aware ones TIMESTAMP WITH LOCAL TIME ZONE. Text of such a time without a zone is UTC.

    >>> to_value(date(2024, 10, 4), AtomicType("DATE"))
    20000
    >>> to_value("12.5", AtomicType("DECIMAL(10, 2)"))
    Decimal('12.50')
    """
    if obj is None:
        return None
    if isinstance(obj, pa.Scalar):
        return from_scalar(obj, dtype)
    if isinstance(obj, np.datetime64):
        return _from_datetime64(obj, dtype)
    if isinstance(obj, np.generic):
        return _from_numpy(obj, dtype)
    if isinstance(obj, str):
        return cast_text(obj, dtype)
    root = _scalar_root(dtype, obj)
    if root == "BOOLEAN" and isinstance(obj, bool):
        return obj
    if isinstance(obj, int | float | Decimal) and not isinstance(obj, bool):
        return _from_number(obj, dtype)
    if root in BYTES_ROOTS and isinstance(obj, bytes | bytearray | memoryview):
        return bytes(obj)
    if isinstance(obj, date | time):
        return _from_temporal(obj, dtype)
    raise _refusal(obj, dtype)


def from_scalar(scalar: pa.Scalar, dtype: DataType) -> Value:
    """Return an Arrow scalar as a value of a type, exactly.

    >>> from_scalar(pa.scalar(1_500, pa.timestamp("ms")), AtomicType("TIMESTAMP(3)"))
    1500000000
    """
    kind = scalar.type
    if not scalar.is_valid:
        return None
    if pa.types.is_dictionary(kind):
        return from_scalar(scalar.value, dtype)
    if pa.types.is_timestamp(kind):
        zone = "TIMESTAMP" if kind.tz is None else "TIMESTAMP_LTZ"
        return _from_nanos(scalar.value * _NANOS[kind.unit], dtype, zone, scalar)
    if pa.types.is_time(kind):
        return _from_nanos(scalar.value * _NANOS[kind.unit], dtype, "TIME", scalar)
    if pa.types.is_date(kind):
        unit = "D" if pa.types.is_date32(kind) else "ms"
        return _from_nanos(scalar.value * _NANOS[unit], dtype, "DATE", scalar)
    if pa.types.is_nested(kind) or pa.types.is_duration(kind) or pa.types.is_interval(kind):
        raise _refusal(scalar, dtype)
    return to_value(scalar.as_py(), dtype)


def to_python(value: Value, dtype: DataType) -> object:
    """Return a value as a Python object: date, time, datetime (aware and in UTC for LTZ), Decimal and so on.

    Times that Python's classes cannot hold (below a microsecond, years outside 1..9999) become `numpy.datetime64`.

    >>> to_python(20000, AtomicType("DATE"))
    datetime.date(2024, 10, 4)
    """
    root = _scalar_root(dtype, value)
    if value is None or not isinstance(value, int):
        return value
    if root == "DATE":
        ordinal = value + _EPOCH_ORDINAL
        return date.fromordinal(ordinal) if 1 <= ordinal <= date.max.toordinal() else np.datetime64(value, "D")
    if root == "TIME":
        return (_EPOCH + timedelta(milliseconds=value % DAY_MILLIS)).time()
    if root in TIMESTAMP_ROOTS:
        return _to_datetime(value, aware=root == "TIMESTAMP_LTZ")
    return value


def to_array(values: Sequence[NestedValue], dtype: DataType) -> pa.Array:
    """Return values as an Arrow array of the type's canonical Arrow type.

    Nested types take lists for ARRAY, tuples in field order for ROW, and mappings or lists of pairs for MAP.

    >>> to_array([20000, None], AtomicType("DATE")).to_pylist()
    [datetime.date(2024, 10, 4), None]
    """
    arrow = to_arrow_type(dtype)
    try:
        return pa.array([_to_arrow_object(v, dtype) for v in values], arrow)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise InvalidInputError(f"cannot hold the values in Arrow's {arrow} for the type {dtype}: {error}") from error


def cast_text(text: str, dtype: DataType, zone: str = "UTC") -> Value:
    """Return the value of a text: in a partition spec, a column default or a literal of SQL.

    `zone` is the zone of times WITH LOCAL TIME ZONE whose text has none.

    >>> cast_text("2024-10-04 01:02:03.5", AtomicType("TIMESTAMP(3)"))
    1728003723500000000
    """
    root = _scalar_root(dtype, text)
    if root in TEXT_ROOTS:
        return _checked_text(text, dtype)
    if root in BYTES_ROOTS:
        return _checked_text(text, dtype).encode()
    word = text.strip()
    if root == "BOOLEAN":
        if word.lower() not in _TRUE | _FALSE:
            raise _refusal(text, dtype, "write true or false")
        return word.lower() in _TRUE
    if root in {"FLOAT", "DOUBLE"}:
        return _float_text(word, text, dtype)
    if root in INTEGER_BITS or root == "DECIMAL":
        if not _NUMBER.fullmatch(word):
            raise _refusal(text, dtype, "it is no number")
        return _from_number(Decimal(word), dtype)
    return _temporal_text(word, dtype, zone)


def cast_default(text: str, dtype: DataType) -> Value:
    """Return the value of the default of a column. Java's connector for Spark stores the literal, quotes included.

    >>> cast_default("'x'", AtomicType("STRING")), cast_default("x", AtomicType("STRING"))
    ('x', 'x')
    """
    is_quoted = len(text) > 1 and text.startswith("'") and text.endswith("'")
    return cast_text(text[1:-1] if is_quoted else text, dtype)


def zone_of(name: str) -> tzinfo:
    """Return the time zone of a name: a region such as Europe/Berlin, UTC, or an offset such as +02:00.

    >>> zone_of("GMT+2").utcoffset(None)
    datetime.timedelta(seconds=7200)
    """
    if name in {"UTC", "Z"}:
        return UTC
    try:
        if match := _OFFSET.fullmatch(name):
            offset = timedelta(hours=int(match["h"]), minutes=int(match["m"] or 0), seconds=int(match["s"] or 0))
            return timezone(offset if match["sign"] == "+" else -offset)
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidInputError(
            f"there is no time zone {name!r}: give a region such as 'Europe/Berlin', UTC or an offset such as '+02:00'",
            zone=name,
        ) from None


def to_text(value: Value, dtype: DataType) -> str:
    """Return Java's canonical text of a value, as a cast to STRING gives it. LTZ values are shown in UTC.

    >>> to_text(1e10, AtomicType("DOUBLE")), to_text(Decimal("12.50"), AtomicType("DECIMAL(10, 2)"))
    ('1.0E10', '12.50')
    >>> to_text(1728003723500000000, AtomicType("TIMESTAMP(3)"))
    '2024-10-04 01:02:03.500'
    """
    root = _scalar_root(dtype, value)
    match value:
        case None:
            raise InvalidInputError(f"null has no text of its own (type {dtype})")
        case bool():
            return "true" if value else "false"
        case float():
            return java_float_text(value, single=root == "FLOAT")
        case Decimal():
            return f"{value:f}"
        case bytes():
            return value.decode(errors="replace")
        case str():
            return value
    if root == "DATE":
        return date_text(value)
    if root == "TIME":
        fraction = f"{value % 1000:03d}"[: _atomic(dtype).precision].rstrip("0") or "0"
        return clock_text(value // 1000) + (f".{fraction}" if _atomic(dtype).precision else "")
    if root in TIMESTAMP_ROOTS:
        seconds, nanos = divmod(value, 10**9)
        # At least as many digits as the precision says, more only where the value has them.
        digits = f"{nanos:09d}".rstrip("0").ljust(_atomic(dtype).precision, "0")
        return f"{date_text(seconds // 86_400)} {clock_text(seconds)}" + (f".{digits}" if digits else "")
    return str(value)


def date_text(days: int) -> str:
    """Return the ISO text of a day since 1970, for any year.

    >>> date_text(20000), date_text(2932897), date_text(-719529)
    ('2024-10-04', '+10000-01-01', '-0001-12-31')
    """
    # Python's calendar has years 1..9999; whole cycles of 400 years move any day into it.
    cycles, rest = divmod(days, _CYCLE_DAYS)
    day = date.fromordinal(_EPOCH_ORDINAL + rest)
    year = day.year + 400 * cycles
    sign = "+" if year > 9999 else "-" if year < 0 else ""  # noqa: PLR2004 - ISO writes four digits
    return f"{sign}{abs(year):04d}-{day.month:02d}-{day.day:02d}"


def clock_text(seconds: int) -> str:
    """Return `HH:mm:ss` of a second since 1970, or of a second of the day."""
    minutes, second = divmod(seconds % 86_400, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"


def java_float_text(number: float, *, single: bool) -> str:
    """Return Java's text of a FLOAT (`single`) or DOUBLE: the shortest digits that identify it, with `E` if far from 1.

    >>> java_float_text(1.5, single=False), java_float_text(0.0001, single=True), java_float_text(1e7, single=False)
    ('1.5', '1.0E-4', '1.0E7')
    """
    if not single and _PLAIN_DIGITS_MIN <= abs(number) < _PLAIN_DIGITS_MAX:
        return repr(float(number))  # the shortest digits, in the same form
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    sign, digits, exponent = Decimal(str(np.float32(number)) if single else repr(number)).as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        return "-0.0" if sign else "0.0"
    point = len(text) + int(exponent)  # the decimal point stands after that many digits
    text = text.rstrip("0")
    if -3 < point <= 7:  # noqa: PLR2004 - from 10^-3 to below 10^7 Java writes plain digits
        whole = text[: max(point, 0)].ljust(point, "0") or "0"
        body = f"{whole}.{'0' * -point}{text[max(point, 0) :] or '0'}"
    else:
        body = f"{text[0]}.{text[1:] or '0'}E{point - 1}"
    return f"-{body}" if sign else body


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """Return a decimal from its unscaled integer, whatever the decimal context of the thread is.

    >>> decimal_of(1250, 2)
    Decimal('12.50')
    """
    return _WIDE.scaleb(Decimal(unscaled), -scale)


def unscaled_of(number: Decimal, dtype: AtomicType) -> int:
    """Return the integer that a DECIMAL stores for a number; InvalidInputError where it does not fit exactly."""
    try:
        unscaled = int(_EXACT.to_integral_exact(_EXACT.scaleb(number, dtype.scale)))
    except (DecimalException, OverflowError, ValueError):
        raise _refusal(number, dtype, f"it needs more than {dtype.scale} digits after the point") from None
    if abs(unscaled) >= 10**dtype.precision:
        raise _refusal(number, dtype, f"it needs more than {dtype.precision - dtype.scale} digits before the point")
    return unscaled


def _refusal(obj: object, dtype: DataType, why: str = "") -> InvalidInputError:
    text = repr(obj)
    shown = text if len(text) <= 120 else text[:117] + "..."  # noqa: PLR2004 - a line of an error message
    reason = f": {why}" if why else ""
    return InvalidInputError(
        f"{shown} ({type(obj).__name__}) is no value of the type {dtype}{reason}", dtype=str(dtype)
    )


def _atomic(dtype: DataType) -> AtomicType:
    if not isinstance(dtype, AtomicType):
        raise InvalidInputError(f"{dtype} is no scalar type")
    return dtype


def _scalar_root(dtype: DataType, obj: object) -> str:
    if not isinstance(dtype, AtomicType) or dtype.root == "VARIANT":
        raise _refusal(obj, dtype, "values of this type cannot be written as a scalar")
    return dtype.root


def _checked_text(text: str, dtype: DataType) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _refusal(text, dtype, "it holds half of a surrogate pair") from None
    return text


def _from_number(number: float | Decimal, dtype: DataType) -> Value:
    """Return an int, float or Decimal as a value of a numeric type."""
    root = _scalar_root(dtype, number)
    if root in {"FLOAT", "DOUBLE"}:
        return _to_float(number, dtype)
    if root == "DECIMAL":
        # The shortest digits of a float are those that the user wrote.
        exact = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
        return decimal_of(unscaled_of(exact, _atomic(dtype)), _atomic(dtype).scale)
    if root not in INTEGER_BITS:
        raise _refusal(number, dtype)
    limit = 1 << (INTEGER_BITS[root] - 1)
    if not -limit <= number < limit:  # also refuses NaN, and huge exponents before they become digits
        raise _refusal(number, dtype, "it is out of range")
    if number != int(number):
        raise _refusal(number, dtype, "it has a fraction")
    return int(number)


def _to_float(number: float | Decimal, dtype: DataType) -> float:
    single = _scalar_root(dtype, number) == "FLOAT"
    try:
        nearest = float(number)
    except OverflowError:
        raise _refusal(number, dtype, "it is out of range") from None
    if not math.isfinite(nearest):
        if isinstance(number, float) or not Decimal(number).is_finite():
            return nearest
        raise _refusal(number, dtype, "it is out of range")
    if single:
        nearest = _nearest_single(nearest, dtype)
    shortest = str(np.float32(nearest)) if single else repr(nearest)
    written = repr(number) if isinstance(number, float) else number
    if nearest != number and Decimal(shortest) != Decimal(written):
        raise _refusal(number, dtype, "the nearest such number differs from it")
    return nearest


def _nearest_single(number: float, dtype: DataType) -> float:
    with np.errstate(over="ignore"):
        nearest = float(np.float32(number))
    if math.isinf(nearest):
        raise _refusal(number, dtype, "it is out of range")
    return nearest


def _float_text(word: str, text: str, dtype: DataType) -> float:
    named = {"nan": math.nan, "infinity": math.inf, "+infinity": math.inf, "-infinity": -math.inf}.get(word.lower())
    if named is not None:
        return named
    if not _NUMBER.fullmatch(word):
        raise _refusal(text, dtype, "it is no number")
    nearest = float(word)
    if math.isinf(nearest):
        raise _refusal(text, dtype, "it is out of range")
    return _nearest_single(nearest, dtype) if _scalar_root(dtype, text) == "FLOAT" else nearest


def _from_temporal(obj: date | time, dtype: DataType) -> Value:
    """Return a date, time or datetime (also pandas' Timestamp, which is one and carries nanoseconds)."""
    if isinstance(obj, time):
        if obj.tzinfo is not None:
            raise _refusal(obj, dtype, "TIME has no zone")
        micros = ((obj.hour * 60 + obj.minute) * 60 + obj.second) * 10**6 + obj.microsecond
        return _from_nanos(micros * 1000, dtype, "TIME", obj)
    if not isinstance(obj, datetime):
        return _from_nanos((obj.toordinal() - _EPOCH_ORDINAL) * _NANOS["D"], dtype, "DATE", obj)
    if obj != obj:  # noqa: PLR0124 - pandas' NaT, a datetime that equals nothing
        return None
    zone = "TIMESTAMP" if obj.tzinfo is None else "TIMESTAMP_LTZ"
    local = datetime(*obj.timetuple()[:6], obj.microsecond)  # noqa: DTZ001 - the zone is taken off below
    since = local - _EPOCH - (obj.utcoffset() or timedelta())
    micros = (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds
    return _from_nanos(micros * 1000 + int(getattr(obj, "nanosecond", 0)), dtype, zone, obj)


def _from_numpy(obj: np.generic, dtype: DataType) -> Value:
    plain = obj.item()
    # A timedelta becomes a bare number, and a long double stays what it was.
    if isinstance(obj, np.timedelta64) or isinstance(plain, np.generic):
        raise _refusal(obj, dtype)
    return to_value(plain, dtype)


def _from_datetime64(obj: np.datetime64, dtype: DataType) -> Value:
    if np.isnat(obj):
        return None
    unit, step = np.datetime_data(obj.dtype)
    if unit not in _NANOS:
        raise _refusal(obj, dtype, "its unit is not one of D, h, m, s, ms, us, ns")
    nanos = int(obj.astype(np.int64)) * step * _NANOS[unit]
    return _from_nanos(nanos, dtype, "DATE" if unit == "D" else "TIMESTAMP", obj)


def _from_nanos(nanos: int, dtype: DataType, kind: str, obj: object) -> Value:
    """Return a count of nanoseconds (of a `kind`: DATE, TIME, TIMESTAMP, TIMESTAMP_LTZ) as a value of a type."""
    root = _scalar_root(dtype, obj)
    if root != kind and {root, kind} != {"DATE", "TIMESTAMP"}:
        hints = {"TIMESTAMP": "it needs a time without a zone", "TIMESTAMP_LTZ": "it needs a time with a zone"}
        raise _refusal(obj, dtype, hints.get(root, "") if kind in TIMESTAMP_ROOTS else "")
    if root == "DATE":
        unit, unit_nanos = "days", _NANOS["D"]
    elif root == "TIME":
        unit, unit_nanos = "milliseconds", _NANOS["ms"]
    else:
        unit = time_unit(_atomic(dtype).precision)
        unit_nanos = _NANOS[unit]
    count, rest = divmod(nanos, unit_nanos)
    if rest:
        raise _refusal(obj, dtype, f"the type holds whole {unit}")
    low, high = _TEMPORAL_RANGE.get(root, _MILLIS_RANGE)
    if not low <= (count if root in _TEMPORAL_RANGE else nanos // _NANOS["ms"]) <= high:
        raise _refusal(obj, dtype, "it is out of range")
    return count if root in _TEMPORAL_RANGE else nanos


def _temporal_text(word: str, dtype: DataType, zone: str) -> Value:
    """Return a value from ISO text, or from the whole number that default partition names use for DATE and TIME."""
    root = _scalar_root(dtype, word)
    if root in {"DATE", "TIME"} and _INTEGER.fullmatch(word):
        limit = date.max.toordinal() - _EPOCH_ORDINAL if root == "DATE" else DAY_MILLIS - 1
        if not (0 if root == "TIME" else 1 - _EPOCH_ORDINAL) <= int(word) <= limit:
            raise _refusal(word, dtype, "write it in ISO form, such as 2024-10-04 or 12:30:00")
        return int(word)
    pattern = {"DATE": _DATE, "TIME": _TIME}.get(root, _TIMESTAMP)
    match = pattern.fullmatch(word)
    if match is None:
        raise _refusal(word, dtype, "write it in ISO form, such as 2024-10-04, 12:30:00 or 2024-10-04T12:30:00.5")
    parts = match.groupdict()
    if parts.get("zone") and root != "TIMESTAMP_LTZ":
        raise _refusal(word, dtype, "it needs a time without a zone")
    try:
        day = date(*(int(parts[p]) for p in ("year", "month", "day"))) if root != "TIME" else date(1970, 1, 1)
        clock = time(int(parts.get("hour") or 0), int(parts.get("minute") or 0), int(parts.get("second") or 0))
    except ValueError as error:
        raise _refusal(word, dtype, str(error)) from None
    seconds = (day.toordinal() - _EPOCH_ORDINAL) * 86_400 + clock.hour * 3600 + clock.minute * 60 + clock.second
    if parts.get("sign"):
        offset = int(parts["zh"]) * 3600 + int(parts["zm"]) * 60
        seconds -= offset if parts["sign"] == "+" else -offset
    elif root == "TIMESTAMP_LTZ" and not parts.get("zone"):
        # A time that clocks skip moves forward by what they skip; of two equal times the first is used.
        offset_there = datetime.combine(day, clock, zone_of(zone)).utcoffset()
        seconds -= 0 if offset_there is None else round(offset_there.total_seconds())
    nanos = seconds * 10**9 + int((parts.get("fraction") or "").ljust(9, "0"))
    return _from_nanos(nanos, dtype, root, word)


def _to_datetime(nanos: int, *, aware: bool) -> datetime | np.datetime64:
    micros, rest = divmod(nanos, 1000)
    if rest:
        return np.datetime64(nanos, "ns")
    try:
        moment = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return np.datetime64(micros // 1000, "ms") if micros % 1000 == 0 else np.datetime64(micros, "us")
    return moment.replace(tzinfo=UTC) if aware else moment


def _to_arrow_object(value: NestedValue, dtype: DataType) -> object:
    """Return a value as `pyarrow.array` takes it for the canonical Arrow type."""
    if value is None:
        return None
    match dtype:
        case AtomicType() if dtype.root in TIMESTAMP_ROOTS and isinstance(value, int):
            unit = time_unit(dtype.precision)
            count, rest = divmod(value, UNIT_NANOS[unit])
            if rest:
                raise _refusal(value, dtype, f"the type holds whole {unit}")
            return count
        case AtomicType() if dtype.root == "VARIANT":
            content, metadata = _items(value, dtype)
            return {"value": content, "metadata": metadata}
        case AtomicType():
            return value
        case ArrayType() | VectorType():
            return [_to_arrow_object(v, dtype.element) for v in _items(value, dtype)]
        case RowType():
            return tuple(_to_arrow_object(v, f.type) for v, f in zip(_items(value, dtype), dtype.fields, strict=True))
        case MapType() | MultisetType():
            return _arrow_pairs(value, dtype)


def _arrow_pairs(value: NestedValue, dtype: MapType | MultisetType) -> list[tuple[object, object]]:
    pairs = value.items() if isinstance(value, Mapping) else (_items(pair, dtype) for pair in _items(value, dtype))
    return [(_to_arrow_object(k, dtype.key), _to_arrow_object(v, dtype.value)) for k, v in pairs]


def _items(value: NestedValue, dtype: DataType) -> Sequence[NestedValue]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise _refusal(value, dtype)
    return value

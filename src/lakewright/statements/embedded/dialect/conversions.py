"""Texts to values and values to texts as Spark reads and writes them, one value at a time.

What always holds: a text that is no value of the type is an error, and so is a value that does not fit.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from zoneinfo import ZoneInfo

import numpy as np

from lakewright.errors import InvalidInputError

_SPACE = "".join(map(chr, range(33)))  # what Spark trims before it reads a value: controls and spaces
_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?")
_SPECIAL = {"nan": float("nan")} | {
    sign + name: float(sign + "inf") for sign in ("", "+", "-") for name in ("inf", "infinity")
}
_TRUE, _FALSE = {"t", "true", "y", "yes", "1"}, {"f", "false", "n", "no", "0"}
_DATE = re.compile(r"([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_MOMENT = re.compile(
    r"([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{0,9}))?)?)?\s*(.*)?)?)?)?",
    re.DOTALL,
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN_LOW, _PLAIN_HIGH = 1e-3, 1e7  # numbers between them are written without an exponent
_EXACT = Context(prec=120, rounding=ROUND_HALF_UP)


def _refused(value: object, kind: str) -> InvalidInputError:
    return InvalidInputError(f"the value {value!r} cannot be cast to {kind}; try_cast gives NULL for such values")


def integer_of(text: str, low: int, high: int, kind: str) -> int:
    """Return the whole number that a text shows."""
    plain = text.strip(_SPACE)
    if _INTEGER.fullmatch(plain) and low <= (found := int(plain)) <= high:
        return found
    raise _refused(text, kind)


def double_of(text: str) -> float:
    """Return the double that a text shows."""
    plain = text.strip(_SPACE)
    if plain.lower() in _SPECIAL:
        return _SPECIAL[plain.lower()]
    if not _FLOAT.fullmatch(plain):
        raise _refused(text, "DOUBLE")
    return float(plain.rstrip("fFdD"))


def float_of(text: str) -> float:
    """Return the float that a text shows."""
    return float(np.float32(double_of(text)))


def decimal_of(value: str | float, precision: int, scale: int) -> Decimal:
    """Return a text or a double as a decimal, rounded half up."""
    kind = f"DECIMAL({precision},{scale})"
    try:
        found = Decimal(value.strip(_SPACE) if isinstance(value, str) else repr(value))
    except InvalidOperation:
        raise _refused(value, kind) from None
    if not found.is_finite():
        raise _refused(value, kind)
    return fitted(found, precision, scale)


def fitted(value: Decimal, precision: int, scale: int) -> Decimal:
    """Return a decimal with that scale, rounded half up; one with too many digits is an error."""
    rounded = value.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    if rounded and rounded.adjusted() >= precision - scale:
        raise _refused(value, f"DECIMAL({precision},{scale})")
    return rounded


def boolean_of(text: str) -> bool:
    """Return the boolean that a text shows."""
    plain = text.strip(_SPACE).lower()
    if plain not in _TRUE | _FALSE:
        raise _refused(text, "BOOLEAN")
    return plain in _TRUE


def date_of(text: str) -> date:
    """Return the date that a text shows: a year, a month of it, or a day, after which a time may follow."""
    found = _DATE.fullmatch(text.strip(_SPACE))
    if found is None:
        raise _refused(text, "DATE")
    try:
        return date(*(int(part or 1) for part in found.groups()))
    except ValueError:
        raise _refused(text, "DATE") from None


def timestamp_of(text: str, zone: str | None) -> int:
    """Return the microseconds since 1970 of the moment that a text shows; without a zone, of the local time."""
    kind = "TIMESTAMP" if zone else "TIMESTAMP_NTZ"
    found = _MOMENT.fullmatch(text.strip(_SPACE))
    if found is None:
        raise _refused(text, kind)
    *parts, fraction, written = found.groups()
    year, month, day, hour, minute, second = (int(part or (at in {1, 2})) for at, part in enumerate(parts))
    micros = int(((fraction or "") + "000000")[:6])
    try:
        local = datetime(year, month, day, hour, minute, second, micros)  # noqa: DTZ001 - the zone follows
        offset = _zone_offset(local, written or "", zone)
    except (ValueError, KeyError, OSError):
        raise _refused(text, kind) from None
    return micros_of(local.replace(tzinfo=UTC) - offset)


def micros_of(moment: datetime) -> int:
    """Return the microseconds from 1970 to a moment."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _zone_offset(local: datetime, written: str, zone: str | None) -> timedelta:
    if zone is None:
        return timedelta(0)
    if written in {"Z", "z", "UTC", "GMT"}:
        return timedelta(0)
    if parts := _OFFSET.fullmatch(written):
        sign, hours, minutes = parts.groups()
        found = timedelta(hours=int(hours), minutes=int(minutes or 0))
        return -found if sign == "-" else found
    return local.replace(tzinfo=ZoneInfo(written or zone)).utcoffset() or timedelta(0)


# ---- numbers to texts


def double_text(value: float) -> str:
    """Return a double as Java writes it.

    >>> [double_text(one) for one in (1.0, 1e7, 0.00012, -0.0, float("inf"))]
    ['1.0', '1.0E7', '1.2E-4', '-0.0', 'Infinity']
    """
    return _float_text(value, repr(value))


def float_text(value: float) -> str:
    """Return a float as Java writes it."""
    return _float_text(value, str(np.float32(value)))


def _float_text(value: float, shortest: str) -> str:
    if value != value:  # noqa: PLR0124 - NaN
        return "NaN"
    if value in {float("inf"), float("-inf")}:
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(shortest).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + int(exponent)  # the value is 0.text * 10**point
    minus = "-" if sign else ""
    if not any(digits):
        return f"{minus}0.0"
    if _PLAIN_LOW <= abs(value) < _PLAIN_HIGH:
        whole, rest = (text[:point].ljust(point, "0"), text[point:]) if point > 0 else ("0", "0" * -point + text)
        return f"{minus}{whole}.{rest or '0'}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"


# ---- decimals


def divided(left: Decimal, right: Decimal, precision: int, scale: int) -> Decimal:
    """Return a quotient, rounded half up."""
    if not right:
        raise InvalidInputError("division by zero; try_divide gives NULL")
    return fitted(_EXACT.divide(left, right), precision, scale)


def multiplied(left: Decimal, right: Decimal, precision: int, scale: int) -> Decimal:
    """Return a product, rounded half up."""
    return fitted(_EXACT.multiply(left, right), precision, scale)


def added(left: Decimal, right: Decimal, precision: int, scale: int) -> Decimal:
    """Return a sum, rounded half up."""
    return fitted(_EXACT.add(left, right), precision, scale)


def rounded_half_even(value: Decimal, precision: int, scale: int) -> Decimal:
    """Return a decimal rounded to an even last digit where it lies in the middle."""
    return fitted(value.quantize(Decimal(1).scaleb(-scale), rounding="ROUND_HALF_EVEN"), precision, scale)


def rounded_double(value: float, digits: int, mode: str) -> float:
    """Return a double rounded by its decimal text."""
    if value != value or value in {float("inf"), float("-inf")}:  # noqa: PLR0124 - NaN
        return value
    exact = Decimal(repr(value))
    return float(exact.quantize(Decimal(1).scaleb(-digits), rounding=mode, context=Context(prec=400)))


def rounded_integer(value: int, digits: int, mode: str) -> int:
    """Return a whole number rounded to tens, hundreds ..."""
    return int(Decimal(value).quantize(Decimal(1).scaleb(-digits), rounding=mode, context=_EXACT))


def divided_down(left: Decimal, right: Decimal, precision: int, scale: int) -> Decimal:
    """Return a quotient without its digits after the point."""
    if not right:
        raise InvalidInputError("division by zero; try_divide gives NULL")
    return fitted(_EXACT.divide_int(left, right), precision, scale)

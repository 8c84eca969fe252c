"""Times as Java reads them from text: a pattern of Java's `DateTimeFormatter` in, a function from text to a time out.

The function returns None for a text that does not say a time of the pattern. What always holds: a text is read as Java
reads it, or the pattern is refused by the part that is not supported.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TypeAlias

from lakewright.errors import InvalidInputError

ReadTime: TypeAlias = Callable[[str], datetime | None]

_LENIENT = re.compile(
    r"(?P<year>[0-9]{1,10})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
    r"(?: (?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2}):(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]{1,9}))?)?"
)
_NAMES = {"y": "year", "u": "year", "M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second"}
_WIDTHS = {"year": (2, 4), "month": (1, 2), "day": (1, 2), "hour": (1, 2), "minute": (1, 2), "second": (1, 2)}
_DATE = frozenset({"year", "month", "day"})
_PART = re.compile(r"(?P<letters>(?P<letter>[A-Za-z])(?P=letter)*)|'(?P<quoted>(?:[^']|'')*)'|(?P<other>.)", re.DOTALL)
_RESERVED = frozenset("{}#'")
_SECONDS_MAX = 59
_HOURS = 24


def read_time(pattern: str | None) -> ReadTime:
    """Return the function that reads times of a pattern; without one those like `2026-01-31` and `2026-1-31 7:00:00`.

    >>> read_time("yyyyMMdd'T'HH")("20260109T07"), read_time(None)("2026-1-9"), read_time(None)("today")
    (datetime.datetime(2026, 1, 9, 7, 0), datetime.datetime(2026, 1, 9, 0, 0), None)
    """
    if pattern is None:
        return lenient_time
    expression, fields = _expression(pattern)
    if not fields >= _DATE:
        raise InvalidInputError(
            f"the format {pattern!r} says no date: it lacks {', '.join(sorted(_DATE - fields))}", format=pattern
        )
    try:
        compiled = re.compile(expression)
    except re.error:
        raise _unsupported(pattern, "[") from None

    def read(text: str) -> datetime | None:
        match = compiled.fullmatch(text)
        return None if match is None else _smart(match.groupdict())

    return read


def lenient_time(text: str) -> datetime | None:
    """Read a time without a pattern: months, days and hours beyond their range count on, as Java lets them.

    >>> lenient_time("2026-13-01"), lenient_time("2026-02-30 25:00:00")
    (datetime.datetime(2027, 1, 1, 0, 0), datetime.datetime(2026, 3, 3, 1, 0))
    """
    match = _LENIENT.fullmatch(text)
    if match is None:
        return None
    number = {name: int(value or 0) for name, value in match.groupdict().items()}
    micros = int(f"{match['fraction'] or '0':0<9}"[:6])
    years, month = divmod(number["month"] - 1, 12)
    rest = timedelta(
        days=number["day"] - 1,
        hours=number["hour"],
        minutes=number["minute"],
        seconds=number["second"],
        microseconds=micros,
    )
    try:
        return datetime(number["year"] + years, month + 1, 1) + rest  # noqa: DTZ001 - a wall time
    except (ValueError, OverflowError):  # beyond the years that Python knows
        return None


def _smart(fields: dict[str, str | None]) -> datetime | None:
    """Return the time of fields: a day beyond the end of its month is the last one, and 24:00 is the next midnight."""
    number = {name: int(fields.get(name) or 0) for name in _WIDTHS}
    year, month, day = number["year"], number["month"], number["day"]
    year += 2000 if len(fields["year"] or "") == 2 else 0  # noqa: PLR2004 - two digits
    hour, minute, second = number["hour"], number["minute"], number["second"]
    micros = int(f"{fields.get('fraction') or '0':0<9}"[:6])
    midnight = hour == _HOURS and not (minute or second or micros)
    if not (1 <= month <= 12 and 1 <= day <= 31 and max(minute, second) <= _SECONDS_MAX):  # noqa: PLR2004
        return None
    try:
        last = min(day, monthrange(year, month)[1])
        made = datetime(year, month, last, 0 if midnight else hour, minute, second, micros)  # noqa: DTZ001
        return made + timedelta(days=midnight)
    except (ValueError, OverflowError):
        return None


def _expression(pattern: str) -> tuple[str, frozenset[str]]:
    """Return the regular expression of a pattern, and the fields that it reads."""
    fields: list[str] = []
    parts = list(_PART.finditer(pattern))
    _check_apart(pattern, parts)
    return "".join(_piece(pattern, part, fields) for part in parts), frozenset(fields)


def _piece(pattern: str, part: re.Match[str], fields: list[str]) -> str:
    if (quoted := part["quoted"]) is not None:
        return re.escape(quoted.replace("''", "'") or "'")
    if (other := part["other"]) is not None:
        if other in _RESERVED:
            raise _unsupported(pattern, other)
        return {"[": "(?:", "]": ")?"}.get(other, re.escape(other))
    letter, width = part["letter"], len(part["letters"])
    name = "fraction" if letter == "S" else _NAMES.get(letter)
    allowed = range(1, 10) if letter == "S" else _WIDTHS.get(name or "", ())
    if name is None or width not in allowed or name in fields:
        raise _unsupported(pattern, part["letters"])
    fields.append(name)
    return f"(?P<{name}>[0-9]{'{1,19}' if width == 1 and letter != 'S' else f'{{{width}}}'})"


def _check_apart(pattern: str, parts: list[re.Match[str]]) -> None:
    """Raise InvalidInputError if a number without a fixed width stands beside another number."""
    for one, two in pairwise(parts):
        if one["letters"] and two["letters"]:
            loose = next((part["letters"] for part in (one, two) if len(part["letters"]) == 1), None)
            if loose is not None:
                raise _unsupported(pattern, loose)


def _unsupported(pattern: str, part: str) -> InvalidInputError:
    known = "yyyy, yy, MM, M, dd, d, HH, H, mm, m, ss, s, SSS, 'text' and [optional parts]"
    return InvalidInputError(
        f"{part!r} in the format {pattern!r} is not supported; there are {known}", format=pattern, part=part
    )

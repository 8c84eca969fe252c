"""Java's `DateTimeFormatter` patterns: parse and format dates and times."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

from lakewright.errors import InvalidInputError, UnsupportedError

# ---- Parsing ---------------------------------------------------------------------------------------------------------
# The function returns None for a text that does not say a time of the pattern. Invariant: a text is read as
# Java reads it, or the pattern is refused by the part that is not supported.

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
        raise _unsupported_pattern(pattern, "[") from None

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
            raise _unsupported_pattern(pattern, other)
        return {"[": "(?:", "]": ")?"}.get(other, re.escape(other))
    letter, width = part["letter"], len(part["letters"])
    name = "fraction" if letter == "S" else _NAMES.get(letter)
    allowed = range(1, 10) if letter == "S" else _WIDTHS.get(name or "", ())
    if name is None or width not in allowed or name in fields:
        raise _unsupported_pattern(pattern, part["letters"])
    fields.append(name)
    return f"(?P<{name}>[0-9]{'{1,19}' if width == 1 and letter != 'S' else f'{{{width}}}'})"


def _check_apart(pattern: str, parts: list[re.Match[str]]) -> None:
    """Raise InvalidInputError if a number without a fixed width stands beside another number."""
    for one, two in pairwise(parts):
        if one["letters"] and two["letters"]:
            loose = next((part["letters"] for part in (one, two) if len(part["letters"]) == 1), None)
            if loose is not None:
                raise _unsupported_pattern(pattern, loose)


def _unsupported_pattern(pattern: str, part: str) -> InvalidInputError:
    known = "yyyy, yy, MM, M, dd, d, HH, H, mm, m, ss, s, SSS, 'text' and [optional parts]"
    return InvalidInputError(
        f"{part!r} in the format {pattern!r} is not supported; there are {known}", format=pattern, part=part
    )


# ---- Formatting and parsing for SQL ----------------------------------------------------------------------------------
# A letter that is not known here is an error when the query is translated, not a text that looks right.

_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_MONTHS = "January February March April May June July August September October November December".split()
_SHORT, _LONG = 3, 4  # letters of MMM and MMMM
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_FORMATS = {
    "y": {1, 2, 4},
    "M": {1, 2, 3, 4},
    "L": {1, 2},
    "d": {1, 2},
    "D": {1, 2, 3},
    "E": {1, 2, 3, 4},
    "a": {1},
    "H": {1, 2},
    "h": {1, 2},
    "k": {1, 2},
    "K": {1, 2},
    "m": {1, 2},
    "s": {1, 2},
    "S": set(range(1, 10)),
    "Q": {1, 2},
    "q": {1, 2},
}


@lru_cache(maxsize=64)
def tokens(pattern: str) -> tuple[tuple[str, int], ...]:
    """Return the parts of a pattern: a letter and how often it stands there, or a text and 0."""
    out, at = [], 0
    for found in _TOKEN.finditer(pattern):
        if found.start() != at:
            break
        at = found.end()
        if found[1] is not None:
            out.append((found[1].replace("''", "'") or "'", 0))
        elif found[2] is None:
            out.append((found[0], 0))
        elif len(found[0]) not in _FORMATS.get(found[2], set()):
            raise UnsupportedError(f"{found[0]} in the pattern {pattern!r} does not run here")
        else:
            out.append((found[2], len(found[0])))
    if at != len(pattern):
        raise InvalidInputError(f"the pattern {pattern!r} has a quote that is not closed")
    return tuple(out)


def format_moment(moment: datetime | date, pattern: str) -> str:
    """Return a moment as a pattern says."""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001 - local time, as it is shown
    return "".join(_part(moment, letter, count) if count else letter for letter, count in tokens(pattern))


def _part(at: datetime, letter: str, count: int) -> str:
    if letter in "ML" and count >= _SHORT:
        name = _MONTHS[at.month - 1]
        return name if count == _LONG else name[:3]
    if letter == "E":
        name = _DAYS[at.weekday()]
        return name if count == _LONG else name[:3]
    if letter == "a":
        return "AM" if at.hour < 12 else "PM"  # noqa: PLR2004 - noon
    if letter == "S":
        return f"{at.microsecond:06d}000"[:count]
    if letter == "y":
        return f"{at.year % 100:02d}" if count == 2 else f"{at.year:0{count}d}"  # noqa: PLR2004 - yy
    numbers = {
        "M": at.month,
        "L": at.month,
        "d": at.day,
        "D": at.timetuple().tm_yday,
        "H": at.hour,
        "h": at.hour % 12 or 12,
        "k": at.hour or 24,
        "K": at.hour % 12,
        "m": at.minute,
        "s": at.second,
        "Q": (at.month + 2) // 3,
        "q": (at.month + 2) // 3,
    }
    return f"{numbers[letter]:0{count}d}"


@lru_cache(maxsize=64)
def _reader(pattern: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    text, letters = "", []
    for letter, count in tokens(pattern):
        if not count:
            text += re.escape(letter)
            continue
        if letter in "EQqD" or letter in letters:
            raise UnsupportedError(f"{letter} in the pattern {pattern!r} cannot be read here")
        letters.append(letter)
        if letter == "M" and count >= _SHORT:
            names = _MONTHS if count == _LONG else [name[:3] for name in _MONTHS]
            text += f"({'|'.join(names)})"
        elif letter == "a":
            text += "(AM|PM)"
        elif letter == "S":
            text += f"([0-9]{{{count}}})"
        else:
            text += (
                "([0-9]{1,2})" if count == 1 and letter != "y" else f"([0-9]{{{count}}})" if count > 1 else "([0-9]+)"
            )
    return re.compile(text, re.IGNORECASE), tuple(letters)


def check_readable(pattern: str) -> None:
    """Raise an error if texts of a pattern cannot be read."""
    _reader(pattern)


def moment_of(text: str, pattern: str) -> datetime:
    """Return the local time that a text of a pattern shows."""
    reader, letters = _reader(pattern)
    found = reader.fullmatch(text)
    if found is not None:
        with suppress(ValueError):
            return _moment(dict(zip(letters, found.groups(), strict=True)))
    raise InvalidInputError(f"the text {text!r} is not of the pattern {pattern!r}")


def date_by(text: str, pattern: str) -> date:
    """Return the date that a text of a pattern shows."""
    return moment_of(text, pattern).date()


def _moment(parts: dict[str, str]) -> datetime:
    year = int(parts.get("y", "1970"))
    if len(parts.get("y", "")) == 2:  # noqa: PLR2004 - yy
        year += 2000
    month = parts.get("M") or parts.get("L") or "1"
    number = int(month) if month.isdecimal() else [one[:3].lower() for one in _MONTHS].index(month[:3].lower()) + 1
    hour = int(parts.get("H", parts.get("k", "0"))) % 24
    if "h" in parts or "K" in parts:
        hour = int(parts.get("h", parts.get("K", "0"))) % 12 + (12 if parts.get("a", "AM").upper() == "PM" else 0)
    micros = int((parts.get("S", "") + "000000")[:6])
    minute, second = int(parts.get("m", "0")), int(parts.get("s", "0"))
    return datetime(year, number, int(parts.get("d", "1")), hour, minute, second, micros)  # noqa: DTZ001 - local


def months_between(later: datetime, earlier: datetime) -> float:
    """Return the months between two moments; a month has 31 days where it is divided."""
    months = (later.year - earlier.year) * 12 + later.month - earlier.month
    if later.day == earlier.day or (_is_last(later) and _is_last(earlier)):
        return float(months)
    seconds = (later.day - earlier.day) * 86_400 + _seconds(later) - _seconds(earlier)
    return round(months + seconds / (31 * 86_400), 8)


def _is_last(moment: datetime) -> bool:
    return (moment + timedelta(days=1)).month != moment.month


def _seconds(moment: datetime) -> int:
    return moment.hour * 3600 + moment.minute * 60 + moment.second

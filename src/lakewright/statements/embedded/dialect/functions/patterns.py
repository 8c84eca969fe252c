"""Patterns of dates and times such as `yyyy-MM-dd HH:mm`: moments to texts, and texts to moments.

A letter that is not known here is an error when the query is translated, not a text that looks right.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import date, datetime, timedelta
from functools import lru_cache

from lakewright.errors import InvalidInputError, UnsupportedError

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


def formatted(moment: datetime | date, pattern: str) -> str:
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

"""Values of options: texts in, what they mean out, or an error that says how to write them."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import click

from lakewright.errors import InvalidInputError
from lakewright.spec.units import parse_duration_millis

_ONE = r"\s*(?:`((?:[^`]|``)+)`|([^,`]*[^,`\s]))\s*"
_NAME, _NAMES = re.compile(_ONE), re.compile(rf"{_ONE}(?:,{_ONE})*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def pair(text: str) -> tuple[str, str]:
    """Parse `key=value`."""
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise click.BadParameter(f"{text!r} is not key=value")
    return key.strip(), value


def option_of_catalog(text: str) -> tuple[str, str]:
    """Parse `key=value` of a catalog, which may be a secret: an error does not repeat it."""
    try:
        return pair(text)
    except click.BadParameter:
        raise click.BadParameter("what was given is not key=value") from None


def names(text: str | Sequence[str]) -> list[str]:
    """Parse `a,b`; a name with a comma stands in back-quotes. A default is a list already.

    >>> names("id, `a,b`,`it``s`")
    ['id', 'a,b', 'it`s']
    """
    if not isinstance(text, str):
        return list(text)
    if not _NAMES.fullmatch(text):
        raise click.BadParameter(f"{text!r} is not a list of names such as a,b")
    found = (match[1] if match[1] is not None else match[2].strip() for match in _NAME.finditer(text))
    return [name.replace("``", "`") for name in found]


def count(text: str | int) -> int:
    """Parse a number of rows."""
    if isinstance(text, int):
        return text
    if not text.isdecimal():
        raise click.BadParameter(f"{text!r} is not a number of rows")
    return int(text)


def past(text: str) -> int:
    """Return the time that `moment` says, unless it is in the future."""
    millis = moment(text)
    if millis > time.time_ns() // 1_000_000:
        raise click.BadParameter(f"{text!r} is in the future")
    return millis


def moment(text: str) -> int:
    """Return the time, in epoch milliseconds, that an age (`7d`) or an ISO time says; without a zone it is UTC.

    >>> moment("1970-01-02"), moment("1970-01-01T01:00:00+01:00")
    (86400000, 0)
    """
    now = time.time_ns() // 1_000_000
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None and text.strip().isdigit():
        raise click.BadParameter(f"{text!r} has no unit: write an age such as 7d or '12 hours'")
    if found is None:
        try:
            return now - parse_duration_millis(text)
        except InvalidInputError:
            message = (
                f"{text!r} is neither an age such as 7d or '12 hours' nor an ISO time such as 2026-01-31T12:00:00Z"
            )
            raise click.BadParameter(message) from None
    return ((found if found.tzinfo else found.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)

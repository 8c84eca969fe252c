"""Sizes, durations and limits: text such as `64 mb`, `1 h` or `PT1H` in, bytes and milliseconds out."""

from __future__ import annotations

import re
from enum import StrEnum

from lakewright.errors import InvalidInputError

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1
KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40

_MEMORY_UNITS = {
    **dict.fromkeys(("", "b", "byte", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kib", "kibibyte", "kibibytes"), KIB),
    **dict.fromkeys(("m", "mb", "mib", "mebibyte", "mebibytes"), MIB),
    **dict.fromkeys(("g", "gb", "gib", "gibibyte", "gibibytes"), GIB),
    **dict.fromkeys(("t", "tb", "tib", "tebibyte", "tebibytes"), TIB),
}
_NANOS = {  # of one unit of time
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1),
    **dict.fromkeys(("us", "µs", "micro", "micros", "microsecond", "microseconds"), 10**3),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 10**6),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 10**9),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60 * 10**9),
    **dict.fromkeys(("h", "hour", "hours"), 3600 * 10**9),
    **dict.fromkeys(("d", "day", "days"), 86400 * 10**9),
}
_NUMBER_AND_UNIT = re.compile(r"\s*([0-9]+)\s*([a-zµ]*)\s*", re.IGNORECASE)
_ISO_DURATION = re.compile(
    r"\s*P(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)(?:\.([0-9]{1,9}))?S)?)?\s*", re.IGNORECASE
)


def parse_memory(text: str) -> int:
    """Return the number of bytes that a text such as `8 mb`, `64kb` or `1024` means.

    >>> parse_memory("8 mb"), parse_memory("1024"), parse_memory("2 kibibytes")
    (8388608, 1024, 2048)
    """
    match = _NUMBER_AND_UNIT.fullmatch(text)
    unit = None if match is None else _MEMORY_UNITS.get(match[2].lower())
    if match is None or unit is None or int(match[1]) * unit > MAX_LONG:
        raise InvalidInputError(f"{text!r} is not a size: write a whole number and b, kb, mb, gb or tb", value=text)
    return int(match[1]) * unit


def parse_duration_millis(text: str) -> int:
    """Return the milliseconds that a text such as `1 h`, `500 ms` or `PT1H30M` means; a bare number is milliseconds.

    >>> parse_duration_millis("1 h"), parse_duration_millis("250"), parse_duration_millis("PT1M")
    (3600000, 250, 60000)
    """
    return parse_duration_nanos(text) // 10**6


def parse_duration_nanos(text: str) -> int:
    """Return the nanoseconds that a text such as `1 h`, `500 ns` or `PT1H30M` means; a bare number is milliseconds.

    >>> parse_duration_nanos("7 ns"), parse_duration_nanos("250")
    (7, 250000000)
    """
    iso = _ISO_DURATION.fullmatch(text)
    if iso is not None and any(iso.groups()):
        days, hours, minutes, seconds = (int(part or 0) for part in iso.groups()[:4])
        return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 10**9 + int((iso[5] or "").ljust(9, "0"))
    match = _NUMBER_AND_UNIT.fullmatch(text)
    unit = None if match is None else _NANOS.get(match[2].lower())
    if match is None or unit is None or int(match[1]) * unit // 10**6 > MAX_LONG:
        raise InvalidInputError(
            f"{text!r} is not a duration: write a whole number and ms, s, min, h or d, or ISO text such as PT1H",
            value=text,
        )
    return int(match[1]) * unit


def option_text(key: str, value: object) -> str:
    """Return an option value as the schema file spells it: text; numbers and booleans of Python are converted.

    >>> option_text("bucket", 4), option_text("write-only", True)
    ('4', 'true')
    """
    match value:
        case bool():
            return "true" if value else "false"
        case StrEnum():
            return value.value
        case str():
            return value
        case int() | float() if abs(value) < 10**100:
            return str(value)
        case _:
            raise InvalidInputError(
                f"the option {key!r} needs a text, a number or a boolean as value, not a {type(value).__name__}",
                option=key,
                value=value,
            )

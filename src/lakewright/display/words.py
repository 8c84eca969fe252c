"""Numbers in words: sizes, times, shares and counts as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_STEP = 1024
_TEN = 10
_TIMES = (("day", 86_400_000), ("hour", 3_600_000), ("min", 60_000), ("s", 1_000))
_LARGE = (("E", 10**18), ("P", 10**15), ("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3))
_HUNDREDTH, _TENTH, _WHOLE_PERCENT = 0.0001, 0.001, 0.1
_PLAIN_MAX = 10_000


def in_size(count: float) -> str:
    """Return a number of bytes.

    >>> in_size(0), in_size(1023), in_size(1536), in_size(134217728), in_size(5 * 2**40)
    ('0 B', '1,023 B', '1.5 KiB', '128 MiB', '5.0 TiB')
    """
    value, unit = float(count), 0
    while abs(value) >= _STEP and unit + 1 < len(_UNITS):
        value, unit = value / _STEP, unit + 1
    return f"{value:,.1f} {_UNITS[unit]}" if unit and abs(value) < _TEN else f"{value:,.0f} {_UNITS[unit]}"


def in_count(count: float) -> str:
    """Return a number, a large one rounded.

    >>> in_count(7), in_count(9999), in_count(12_345), in_count(1_234_567_890)
    ('7', '9,999', '12.3 k', '1.23 G')
    """
    if abs(count) < _PLAIN_MAX:
        return f"{count:,.0f}"
    unit, size = next((unit, size) for unit, size in _LARGE if abs(count) >= size)
    return f"{count / size:.3g} {unit}"


def in_share(share: float) -> str:
    """Return a part of a whole; what is there is never shown as nothing.

    >>> in_share(0), in_share(0.00001), in_share(0.0123), in_share(0.5), in_share(1)
    ('0 %', '< 0.1 %', '1.2 %', '50 %', '100 %')
    """
    if 0 < share < _TENTH:
        return "< 0.1 %"
    return f"{share:.1%}".replace("%", " %") if 0 < share < _WHOLE_PERCENT else f"{share:.0%}".replace("%", " %")


def in_time(millis: float) -> str:
    """Return a duration, in its largest unit.

    >>> in_time(0), in_time(1500), in_time(3_600_000), in_time(10 * 86_400_000)
    ('0 ms', '1.5 s', '1 hour', '10 days')
    """
    for name, size in _TIMES:
        if abs(millis) >= size:
            number = f"{millis / size:,.1f}".removesuffix(".0")
            plural = "s" if name in ("day", "hour") and number != "1" else ""
            return f"{number} {name}{plural}"
    return f"{millis:.0f} ms"


def instant(millis: int, *, date_only: bool = False) -> str:
    """Return a time in UTC.

    >>> instant(0), instant(0, date_only=True), instant(10**18)
    ('1970-01-01 00:00 UTC', '1970-01-01', '1000000000000000000 ms')
    """
    try:
        moment = datetime.fromtimestamp(millis / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{millis} ms"
    return moment.strftime("%Y-%m-%d" if date_only else "%Y-%m-%d %H:%M UTC")

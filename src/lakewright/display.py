"""Sizes, counts and times as text; escaped markup; the card of a result in a notebook."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import ClassVar

# ---- HTML ------------------------------------------------------------------------------------------------------------
# Invariant: a text becomes part of a page only through `element`, which escapes it, so that a name or a comment
# with markup in it is shown as it is written. Only what these functions return is taken as markup.

# Characters that a page cannot hold: controls, halves of pairs, and what Unicode never assigns.
_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


class SafeHtml(str):
    """Text that is markup already."""

    __slots__ = ()


def escape_html(text: str) -> SafeHtml:
    """Return a text as markup that shows it.

    >>> escape_html("<script>alert('1')</script>")
    '&lt;script&gt;alert(&#x27;1&#x27;)&lt;/script&gt;'
    """
    return text if isinstance(text, SafeHtml) else SafeHtml(html.escape(_NOT_TEXT.sub("\ufffd", text)))


def html_element(tag: str, *children: str, **attributes: str | float | None) -> SafeHtml:
    """Return an element; children that are no markup are escaped, and attributes always are.

    The names of attributes are written as Python can: `class_`, `aria_hidden`. One that is None is left out.

    >>> html_element("td", "a < b", class_="number")
    '<td class="number">a &lt; b</td>'
    """
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape_html(str(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    inside = "".join(map(escape_html, children))
    return SafeHtml(f"<{tag}{given}>" if tag == "meta" else f"<{tag}{given}>{inside}</{tag}>")


def join_html(parts: Iterable[str]) -> SafeHtml:
    """Return several pieces of markup or text as one."""
    return SafeHtml("".join(map(escape_html, parts)))


def html_name(text: str, tag: str = "bdi") -> SafeHtml:
    """Return a name of the user's, set apart so that its direction of writing changes nothing around it."""
    return html_element(tag, text, dir="auto")


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], more: str = "") -> SafeHtml:
    """Return a table whose cells are texts or markup; those that look like numbers go to the right.

    A line below it says what was left out.
    """
    body = [list(row) for row in rows]
    right = [bool(body) and all(_is_number(row[at]) for row in body) for at in range(len(heads))]
    classes = ["number" if one else None for one in right]
    head = join_html(html_element("th", one, scope="col", class_=cls) for one, cls in zip(heads, classes, strict=True))
    lines = (
        html_element(
            "tr", join_html(html_element("td", cell, class_=cls) for cell, cls in zip(row, classes, strict=True))
        )
        for row in body
    )
    inside = (
        html_element("caption", caption),
        html_element("thead", html_element("tr", head)),
        html_element("tbody", join_html(lines)),
    )
    # A wide table scrolls by itself, also with the keyboard, so that the page never does.
    shown = html_element(
        "div", html_element("table", *inside), class_="scroll", tabindex=0, role="region", aria_label=caption
    )
    return join_html((shown, html_element("p", more, class_="more") if more else SafeHtml()))


def _is_number(cell: str) -> bool:
    return not isinstance(cell, SafeHtml) and (cell[:1].isdigit() or cell[:1] in ("<", "-"))


def render_remainder(left_out: int, what: str) -> str:
    """Return a line about what a list leaves out; empty if it is whole.

    >>> render_remainder(9980, "partitions"), render_remainder(0, "partitions")
    ('and 9,980 more partitions', '')
    """
    return f"and {left_out:,} more {what}" if left_out else ""


# ---- Numbers as text -------------------------------------------------------------------------------------------------

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_STEP = 1024
_TEN = 10
_TIMES = (("day", 86_400_000), ("hour", 3_600_000), ("min", 60_000), ("s", 1_000))
_LARGE = (("E", 10**18), ("P", 10**15), ("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3))
_HUNDREDTH, _TENTH, _WHOLE_PERCENT = 0.0001, 0.001, 0.1
_PLAIN_MAX = 10_000


def format_bytes(count: float) -> str:
    """Return a number of bytes.

    >>> format_bytes(0), format_bytes(1023), format_bytes(1536), format_bytes(134217728), format_bytes(5 * 2**40)
    ('0 B', '1,023 B', '1.5 KiB', '128 MiB', '5.0 TiB')
    """
    value, unit = float(count), 0
    while abs(value) >= _STEP and unit + 1 < len(_UNITS):
        value, unit = value / _STEP, unit + 1
    return f"{value:,.1f} {_UNITS[unit]}" if unit and abs(value) < _TEN else f"{value:,.0f} {_UNITS[unit]}"


def format_count(count: float) -> str:
    """Return a number, a large one rounded.

    >>> format_count(7), format_count(9999), format_count(12_345), format_count(1_234_567_890)
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


# ---- Values in a notebook --------------------------------------------------------------------------------------------
# Invariant: showing a value reads no file and never raises. Texts are escaped, and colours are those of the
# notebook, so that the same markup is good on a light and on a dark page.

GRID_ROWS = 20
_ITEMS_MAX = 8
_TEXT_MAX = 200
_SOFT = "opacity:.75"
_CELL = "text-align:left;padding:1px 16px 1px 0;vertical-align:top"
_FRAME = "border-left:4px solid #4c7fe0;padding:4px 14px;color:inherit;background:transparent;max-width:60em"
_SPLIT_SIZES = {f"split_size_{which}" for which in ("min", "max", "avg", "p50", "p95")}
_SIZES = frozenset({"bytes", "total_file_size", "bytes_before", "bytes_after", *_SPLIT_SIZES})


class HtmlRepr:
    """A value that a notebook shows as a table of its facts; those that say nothing are left out."""

    __slots__ = ()
    _title: ClassVar[str | None] = None

    def _shown_facts(self) -> Mapping[str, object]:
        """Return what is shown: the fields of a dataclass, unless a class says otherwise."""
        named = (one.name for one in fields(self) if not one.name.startswith("_"))  # type: ignore[arg-type]
        return {key: getattr(self, key) for key in named}

    def _repr_html_(self) -> str:
        """Show the value in a notebook."""
        facts = {key: value for key, value in self._shown_facts().items() if not _says_nothing(value)}
        return card(self._title or type(self).__name__, facts)


def card(title: str, facts: Mapping[str, object]) -> str:
    """Return facts as a small table below a title.

    >>> card("CommitResult", {"rows": 3, "note": "<b>"}).count("&lt;b&gt;")
    1
    """
    rows = join_html(
        html_element(
            "tr",
            html_element("td", _label(key), style=f"{_CELL};{_SOFT};white-space:nowrap"),
            html_element("td", html_name(_words(key, value)), style=_CELL),
        )
        for key, value in facts.items()
    )
    table = html_element("table", html_element("tbody", rows), style="border-collapse:collapse;margin:4px 0")
    return html_element("div", html_element("strong", title), table, style=_FRAME)


def grid(names: Sequence[str], rows: Sequence[Sequence[object]], row_count: int) -> str:
    """Return the first rows of a result as a table; below it stands how many rows there are.

    >>> grid(["id"], [[1], [None]], 2).count("<tr>")
    3
    """
    head = html_element("tr", join_html(html_element("th", html_name(one), style=_CELL) for one in names))
    lines = [
        html_element("tr", join_html(html_element("td", html_name(_cell(value)), style=_CELL) for value in row))
        for row in rows[:GRID_ROWS]
    ]
    body = join_html([html_element("thead", head), html_element("tbody", join_html(lines))])
    shown = html_element("table", body, style="border-collapse:collapse;margin:4px 0")
    count = "1 row" if row_count == 1 else f"{row_count} rows"
    about = f"{len(lines)} of {count}" if len(lines) < row_count else count
    return html_element("div", shown, html_element("div", about, style=_SOFT), style="max-width:100%;overflow:auto")


def _cell(value: object) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}..."


def _label(key: str) -> str:
    return key.removesuffix("_millis").replace("_", " ")


def _says_nothing(value: object) -> bool:
    return value is None or value is False or (isinstance(value, str | tuple | list | Mapping) and not value)


def _words(key: str, value: object) -> str:
    """Return one fact in words."""
    match value:
        case bool():
            return "yes"
        case int() | float() if key in _SIZES:
            return format_bytes(value)
        case int() if key.endswith("_millis"):
            return _instant(value)
        case int() if key.endswith("id") or key == "commit_identifier":
            return str(value)
        case int():
            return f"{value:,}"
        case float() if key == "seconds":
            return f"{value:,.3f} s"
        case float():
            return f"{value:,.1f}"
        case Mapping():
            return _several([f"{inner}: {_words('', one)}" for inner, one in value.items()])
        case tuple() | list():
            return _several([_words("", one) for one in value])
        case _:
            text = str(value)
            return text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 1]}…"


def _several(texts: list[str]) -> str:
    more = len(texts) - _ITEMS_MAX
    return ", ".join(texts if more <= 0 else [*texts[:_ITEMS_MAX], f"and {more:,} more"])


def _instant(millis: int) -> str:
    try:
        return f"{datetime.fromtimestamp(millis / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, OSError, ValueError):  # a foreign file may hold any number
        return str(millis)

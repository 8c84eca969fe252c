"""Results, plans and snapshots in a notebook: a frozen value in, a small table of its facts out.

Always holds: showing a value reads no file and never raises. Texts are escaped, and colours are those of the notebook,
so that the same markup is good on a light and on a dark page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import ClassVar

from lakewright.display.markup import element, joined, name
from lakewright.display.words import in_size

GRID_ROWS = 20
_ITEMS_MAX = 8
_TEXT_MAX = 200
_SOFT = "opacity:.75"
_CELL = "text-align:left;padding:1px 16px 1px 0;vertical-align:top"
_FRAME = "border-left:4px solid #4c7fe0;padding:4px 14px;color:inherit;background:transparent;max-width:60em"
_SPLIT_SIZES = {f"split_size_{which}" for which in ("min", "max", "avg", "p50", "p95")}
_SIZES = frozenset({"bytes", "total_file_size", "bytes_before", "bytes_after", *_SPLIT_SIZES})


class InNotebook:
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
    rows = joined(
        element(
            "tr",
            element("td", _label(key), style=f"{_CELL};{_SOFT};white-space:nowrap"),
            element("td", name(_words(key, value)), style=_CELL),
        )
        for key, value in facts.items()
    )
    table = element("table", element("tbody", rows), style="border-collapse:collapse;margin:4px 0")
    return element("div", element("strong", title), table, style=_FRAME)


def grid(names: Sequence[str], rows: Sequence[Sequence[object]], row_count: int) -> str:
    """Return the first rows of a result as a table; below it stands how many rows there are.

    >>> grid(["id"], [[1], [None]], 2).count("<tr>")
    3
    """
    head = element("tr", joined(element("th", name(one), style=_CELL) for one in names))
    lines = [
        element("tr", joined(element("td", name(_cell(value)), style=_CELL) for value in row))
        for row in rows[:GRID_ROWS]
    ]
    body = joined([element("thead", head), element("tbody", joined(lines))])
    shown = element("table", body, style="border-collapse:collapse;margin:4px 0")
    count = "1 row" if row_count == 1 else f"{row_count} rows"
    about = f"{len(lines)} of {count}" if len(lines) < row_count else count
    return element("div", shown, element("div", about, style=_SOFT), style="max-width:100%;overflow:auto")


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
            return in_size(value)
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

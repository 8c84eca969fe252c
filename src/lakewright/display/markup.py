"""HTML by small functions: texts in, markup out, and never the one in place of the other.

Always holds: a text becomes part of a page only through `element`, which escapes it, so that a name or a comment with
markup in it is shown as it is written. Only what these functions return is taken as markup.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

# Characters that a page cannot hold: controls, halves of pairs, and what Unicode never assigns.
_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """Return a text as markup that shows it.

    >>> escaped("<script>alert('1')</script>")
    '&lt;script&gt;alert(&#x27;1&#x27;)&lt;/script&gt;'
    """
    return text if isinstance(text, Markup) else Markup(html.escape(_NOT_TEXT.sub("\ufffd", text)))


def element(tag: str, *children: str, **attributes: str | float | None) -> Markup:
    """Return an element; children that are no markup are escaped, and attributes always are.

    The names of attributes are written as Python can: `class_`, `aria_hidden`. One that is None is left out.

    >>> element("td", "a < b", class_="number")
    '<td class="number">a &lt; b</td>'
    """
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escaped(str(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    inside = "".join(map(escaped, children))
    return Markup(f"<{tag}{given}>" if tag == "meta" else f"<{tag}{given}>{inside}</{tag}>")


def joined(parts: Iterable[str]) -> Markup:
    """Return several pieces of markup or text as one."""
    return Markup("".join(map(escaped, parts)))


def name(text: str, tag: str = "bdi") -> Markup:
    """Return a name of the user's, set apart so that its direction of writing changes nothing around it."""
    return element(tag, text, dir="auto")


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], more: str = "") -> Markup:
    """Return a table whose cells are texts or markup; those that look like numbers go to the right.

    A line below it says what was left out.
    """
    body = [list(row) for row in rows]
    right = [bool(body) and all(_is_number(row[at]) for row in body) for at in range(len(heads))]
    classes = ["number" if one else None for one in right]
    head = joined(element("th", one, scope="col", class_=cls) for one, cls in zip(heads, classes, strict=True))
    lines = (
        element("tr", joined(element("td", cell, class_=cls) for cell, cls in zip(row, classes, strict=True)))
        for row in body
    )
    inside = (
        element("caption", caption),
        element("thead", element("tr", head)),
        element("tbody", joined(lines)),
    )
    # A wide table scrolls by itself, also with the keyboard, so that the page never does.
    shown = element("div", element("table", *inside), class_="scroll", tabindex=0, role="region", aria_label=caption)
    return joined((shown, element("p", more, class_="more") if more else Markup()))


def _is_number(cell: str) -> bool:
    return not isinstance(cell, Markup) and (cell[:1].isdigit() or cell[:1] in ("<", "-"))


def and_more(left_out: int, what: str) -> str:
    """Return a line about what a list leaves out; empty if it is whole.

    >>> and_more(9980, "partitions"), and_more(0, "partitions")
    ('and 9,980 more partitions', '')
    """
    return f"and {left_out:,} more {what}" if left_out else ""

"""Charts as inline SVG: numbers in, markup out.

Places across are in per cent and places down in pixels, without a view box: a chart is as wide as its panel and its
texts keep their size, on a phone too. Colours are classes, which the style of the page gives for light and dark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakewright.display.markup import Markup, element, joined

_COLUMNS_HEIGHT = 120
_ROW_HEIGHT = 40
_LABEL_CHARS_MAX = 30
_GAP = 0.16  # of the width of a column
_SLIVER = 0.4  # per cent: what is there can be seen


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a bar: a class that colours it, how much it is, and what it is in words."""

    class_: str
    value: float
    title: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of one or more parts with a text before and behind it."""

    label: str
    value: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """A line across the columns, at a place between 0 and 1, with a text."""

    place: float
    label: str


def columns(
    title: str,
    description: str,
    stacks: Sequence[Sequence[Part]],
    *,
    ticks: Sequence[tuple[float, str]] = (),
    top: str = "",
    mark: Mark | None = None,
) -> Markup:
    """Return upright columns, each a stack of parts; `ticks` are texts below them, at places between 0 and 1."""
    head = 22
    highest = max((sum(part.value for part in stack) for stack in stacks), default=0) or 1
    width = 100 / max(len(stacks), 1)
    base = head + _COLUMNS_HEIGHT
    shapes = [
        element("line", x1="0%", x2="100%", y1=head, y2=head, class_="grid"),
        element(
            "line", x1="0%", x2="100%", y1=head + _COLUMNS_HEIGHT / 2, y2=head + _COLUMNS_HEIGHT / 2, class_="grid"
        ),
    ]
    for at, stack in enumerate(stacks):
        below = float(base)
        for part in (part for part in stack if part.value > 0):
            height = max(part.value / highest * _COLUMNS_HEIGHT, 2.0)
            below -= height
            shapes.append(_rect(at * width + width * _GAP / 2, below, width * (1 - _GAP), height, part))
    shapes.append(element("line", x1="0%", x2="100%", y1=base, y2=base, class_="axis"))
    if top:
        shapes.append(element("text", top, x="0%", y=head - 7, class_="tick"))
    if mark is not None:
        shapes += _mark(mark, head, base)
    shapes += [_tick(place, text, base + 16) for place, text in ticks]
    return _svg(title, description, base + 24, shapes)


def bars(title: str, description: str, rows: Sequence[Bar], *, whole: float | None = None) -> Markup:
    """Return lying bars, one below the other, each with its texts above it.

    The chart is as wide as `whole`, or as the longest bar.
    """
    longest = whole or max((sum(part.value for part in row.parts) for row in rows), default=0) or 1
    shapes: list[Markup] = []
    for at, row in enumerate(rows):
        top = at * _ROW_HEIGHT
        label = element("text", cut(row.label), element("title", row.label), x="0%", y=top + 15, class_="label")
        shapes += [label, element("text", row.value, x="100%", y=top + 15, class_="value", text_anchor="end")]
        shapes.append(element("rect", x="0%", y=top + 22, width="100%", height=10, rx=3, class_="track"))
        left = 0.0
        for part in row.parts:
            share = part.value / longest * 100
            if part.value > 0:
                shapes.append(_rect(left, top + 22, max(share, _SLIVER), 10, part))
            left += share
    return _svg(title, description, max(len(rows) * _ROW_HEIGHT, 1), shapes)


def legend(items: Iterable[tuple[str, str]]) -> Markup:
    """Return what colours mean: pairs of a class and a text."""
    swatch = (
        element(
            "li",
            element(
                "svg",
                element("rect", width=12, height=12, rx=3, class_=class_),
                width=12,
                height=12,
                aria_hidden="true",
            ),
            text,
        )
        for class_, text in items
    )
    return element("ul", joined(swatch), class_="legend")


def cut(text: str, most: int = _LABEL_CHARS_MAX) -> str:
    """Return a text that fits beside a number on a phone, without its middle if it is long.

    >>> cut("day=2026-01-01/hour=07/region=north", 20)
    'day=2026-0…gion=north'
    """
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


def _rect(left: float, top: float, width: float, height: float, part: Part) -> Markup:
    return element(
        "rect",
        element("title", part.title),
        x=f"{left:.3f}%",
        y=f"{top:.1f}",
        width=f"{width:.3f}%",
        height=f"{height:.1f}",
        rx=2,
        class_=part.class_,
    )


def _mark(mark: Mark, head: float, base: float) -> list[Markup]:
    place = f"{mark.place * 100:.2f}%"
    return [
        element("line", x1=place, x2=place, y1=head - 4, y2=base, class_="mark"),
        element("text", mark.label, x=place, y=head - 8, class_="tick strong", text_anchor=_anchor(mark.place)),
    ]


def _tick(place: float, text: str, y: float) -> Markup:
    return element("text", text, x=f"{place * 100:.2f}%", y=y, class_="tick", text_anchor=_anchor(place))


def _anchor(place: float) -> str:
    return "start" if place < 0.15 else "end" if place > 0.85 else "middle"  # noqa: PLR2004 - near the edges


def _svg(title: str, description: str, height: float, shapes: Iterable[str]) -> Markup:
    """Return the picture with its name and description, which a reader of screens reads out."""
    slug = re.sub("[^a-z0-9]+", "-", title.lower())
    return element(
        "svg",
        element("title", title, id=f"title-{slug}"),
        element("desc", description, id=f"desc-{slug}"),
        *shapes,
        role="img",
        aria_labelledby=f"title-{slug} desc-{slug}",
        width="100%",
        height=f"{height:.0f}",
        class_="chart",
    )

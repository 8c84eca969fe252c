"""Parameters by place (`?`) in, parameters by name out: an engine may get slices in another order, and some twice."""

from __future__ import annotations

from collections.abc import Mapping

from lakewright.statements.parse.cursor import words_of
from lakewright.statements.text import Args, Fragment


def args_by_name(args: Args) -> Mapping[str, object]:
    """Return the values of parameters by name; those by place have the names that `text_by_name` gives them."""
    return args if isinstance(args, Mapping) else {_name(number): value for number, value in enumerate(args)}


def text_by_name(text: str, part: Fragment, statement: Fragment, args: Args) -> str:
    """Return the text of a slice of a statement in which parameters by place are parameters by name."""
    return Fragment(text, 0, len(text)).replaced(marks_by_name(text, part, statement, args))


def marks_by_name(text: str, part: Fragment, statement: Fragment, args: Args) -> dict[tuple[int, int], str]:
    """Return the parameters by name that stand in the places of those by place."""
    if isinstance(args, Mapping) or "?" not in text:
        return {}
    before = words_of(part.whole, statement.start, part.start)
    number = sum(word.text == "?" and not word.is_text for word in before)
    marks = [word for word in words_of(text) if word.text == "?" and not word.is_text]
    return {(word.start, word.end): f":{_name(at)}" for at, word in enumerate(marks, number)}


def _name(number: int) -> str:
    return f"lw_{number}"

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
    if isinstance(args, Mapping) or "?" not in text:
        return text
    before = words_of(part.whole, statement.start, part.start)
    number = sum(word.text == "?" and not word.is_text for word in before)
    out, last = [], 0
    for word in words_of(text):
        if word.text == "?" and not word.is_text:
            out += [text[last : word.start], f":{_name(number)}"]
            number, last = number + 1, word.end
    return "".join([*out, text[last:]])


def _name(number: int) -> str:
    return f"lw_{number}"

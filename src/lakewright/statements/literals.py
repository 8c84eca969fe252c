"""Literals in a statement: a slice of its text in, the text of the value out; for partition values and defaults."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.spec.arguments import did_you_mean
from lakewright.statements.parse.cursor import words_of
from lakewright.statements.text import Args, Fragment


def literal_text(fragment: Fragment, args: Args | None = None, *, what: str = "a value") -> str | None:
    """Return the text of a literal, or of the parameter that stands for one; None is NULL.

    A text is returned without quotes, a date, time or typed number as the text of its value; anything that had to be
    computed is an error.

    >>> literal_text(Fragment("DATE '2026-01-31'", 0, 17)), literal_text(Fragment("-5L", 0, 3))
    ('2026-01-31', '-5')
    """
    tree = fragment.tree
    if isinstance(tree, exp.Placeholder):
        return _parameter_text(fragment, tree, args or {})
    text = _text(tree)
    if text is None and not isinstance(tree, exp.Null):
        raise fragment.error(f"{what} must be a literal, such as 5, 'x' or DATE '2026-01-31'", kind=UnsupportedError)
    return text


def _text(tree: exp.Expr) -> str | None:
    match tree:
        case exp.Literal() | exp.RawString():
            return str(tree.this)
        case exp.Concat():
            parts = [_text(part) for part in tree.expressions]
            return None if None in parts else "".join(part for part in parts if part is not None)
        case exp.Boolean():
            return "true" if tree.this else "false"
        case exp.Neg():
            inner = _text(tree.this)
            return None if inner is None else f"-{inner}"
        case exp.Paren() | exp.Cast():  # a typed literal is read as a cast of its text
            return _text(tree.this)
        case _:
            return None


def _parameter_text(fragment: Fragment, marker: exp.Placeholder, args: Args) -> str | None:
    name = marker.args.get("this") or ""
    if isinstance(args, Mapping):
        if name not in args:
            hint = did_you_mean(name, map(str, args)) if args else "args has no values"
            raise fragment.error(f"there is no value for :{name}; {hint}", kind=InvalidInputError)
        value = args[name]
    else:
        place = sum(word.text == "?" and not word.is_text for word in words_of(fragment.whole, 0, fragment.start))
        if name or place >= len(args):
            raise fragment.error("args has no value for this parameter", kind=InvalidInputError)
        value = args[place]
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)

"""The dialect of Spark as the embedded engine reads it: a call of a function keeps the name that is written.

sqlglot's own Spark dialect turns calls into its own functions, whose arguments are in another order and have other
meanings. Here only what has a syntax of its own (CAST, EXTRACT, TRIM ...) becomes more than a name with arguments.
"""

from __future__ import annotations

from typing import ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.parser import Parser
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

from lakewright.statements.parse.cursor import words_of
from lakewright.statements.text import Fragment

_SPECIAL = {"CAST", "TRY_CAST", "EXTRACT", "TRIM", "POSITION", "SUBSTRING", "SUBSTR", "OVERLAY"}


def _written_cast(parser: Parser) -> exp.Expr:
    """Return a CAST with a mark, because literals such as `1L` and DATE '2020-01-01' are casts in the tree as well."""
    cast: exp.Expr = SparkParser.FUNCTION_PARSERS["CAST"](parser)
    cast.meta["written"] = True
    return cast


def _placed_mark(parser: Parser) -> exp.Placeholder:
    """Return a `?` with its place, by which marks are numbered."""
    mark = exp.Placeholder()
    mark.meta["start"] = parser._prev.start  # noqa: SLF001 - what sqlglot's own functions of this kind use
    return mark


class EmbeddedSpark(Spark):
    """Spark's dialect without functions that sqlglot gives another meaning."""

    class Parser(SparkParser):
        """A parser that knows no functions by name."""

        # A bracket behind a function called `array` would be read as the type of an array.
        FUNCTIONS: ClassVar = {"ARRAY": exp.Array.from_arg_list}
        FUNCTION_PARSERS: ClassVar = {
            **{name: parse for name, parse in SparkParser.FUNCTION_PARSERS.items() if name in _SPECIAL},
            "CAST": _written_cast,
        }
        STRICT_CAST = True
        PLACEHOLDER_PARSERS: ClassVar = {
            **SparkParser.PLACEHOLDER_PARSERS,
            TokenType.PLACEHOLDER: _placed_mark,
        }


def _without_table(text: str) -> str:
    """Return text in which `TABLE t` as a query is `FROM t`, since sqlglot does not know it; places stay the same."""
    if "TABLE" not in text.upper():
        return text
    words, out = words_of(text), text
    for before, word, after in zip([None, *words], words, words[1:], strict=False):
        if word.upper == "TABLE" and after.text != "(" and (before is None or before.text == "("):
            out = f"{out[: word.start]}FROM {out[word.end :]}"
    return out


def _check_end_of_lists(fragment: Fragment) -> None:
    """Raise an error for a comma before FROM, GROUP BY or ORDER BY, which sqlglot takes as the end of a list."""
    words = words_of(fragment.text)
    for word, after, third in zip(words, words[1:], words[2:], strict=False):
        is_clause = after.upper in {"GROUP", "ORDER"} and third.upper == "BY"
        is_clause |= after.upper == "FROM" and third.upper not in {",", "FROM", "AS"}
        if word.text == "," and not word.is_text and is_clause:
            raise fragment.error("a comma with nothing behind it", word.start)


def parsed(fragment: Fragment) -> exp.Expr:
    """Return the tree of a query or an expression; places in its `meta` count from the start of the fragment."""
    text = _without_table(fragment.text)
    _check_end_of_lists(fragment)
    try:
        tree = sqlglot.parse_one(text, dialect=EmbeddedSpark)
    except SqlglotError:
        _ = fragment.tree  # raises the error that shows the place, if the dialect of all engines refuses it too
        raise fragment.error("this is not a query that can be read here") from None
    marks = sorted((one for one in tree.find_all(exp.Placeholder) if not one.name), key=place_of)
    for number, mark in enumerate(marks):
        mark.meta["number"] = number
    return tree


def place_of(node: exp.Expr) -> int:
    """Return where a part of a tree stands, as far as sqlglot knows."""
    for inner in node.walk():
        if (start := inner.meta.get("start")) is not None:
            return int(start)
    return 0

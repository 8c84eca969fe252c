"""sqlglot's Spark grammar, positions of nodes, parameters: the only module on sqlglot's internals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.parser import Parser
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

from lakewright.statements.sql_text import DIALECT, Args, Fragment, Name
from lakewright.statements.token_cursor import Word, words_of

# ---- The dialect for sqlglot -----------------------------------------------------------------------------------------
# sqlglot's own Spark dialect turns calls into its own functions, whose arguments are in another order and have other
# meanings. Here only what has a syntax of its own (CAST, EXTRACT, TRIM ...) becomes more than a name with arguments.

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
        COLON_IS_VARIANT_EXTRACT = True
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


def parse_fragment(fragment: Fragment) -> exp.Expr:
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


# ---- Parameters ------------------------------------------------------------------------------------------------------


def args_by_name(args: Args) -> Mapping[str, object]:
    """Return the values of parameters by name; those by place have the names that `text_by_name` gives them."""
    return args if isinstance(args, Mapping) else {_name(number): value for number, value in enumerate(args)}


def text_by_name(text: str, part: Fragment, statement: Fragment, args: Args) -> str:
    """Return the text of a slice of a statement in which parameters by place are parameters by name."""
    return Fragment(text, 0, len(text)).replace_at(marks_by_name(text, part, statement, args))


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


# ---- Syntax trees with positions -------------------------------------------------------------------------------------
# sqlglot lacks three forms of Spark (`TABLE t`, `FOR SYSTEM_VERSION AS OF`, and `t$files` without quotes). They are
# replaced by others of the same length before it reads the text, so that every place in the tree is a place in the
# slice.

_RELATION_PREFIX = "SELECT * FROM "
_BEFORE_TABLE = {"", "(", "ALL", "DISTINCT", "UNION", "INTERSECT", "EXCEPT", "MINUS", "AS", ")"}
_WORD = re.compile(r"\w+")


class FragmentKind(Enum):
    """What a slice of a statement is."""

    QUERY = auto()
    EXPRESSION = auto()  # of UPDATE, DELETE and MERGE, which may hold subqueries
    RELATION = auto()  # the source of MERGE: a name, or a query in brackets; its alias stands elsewhere


@dataclass(frozen=True, slots=True)
class ParsedFragment:
    """A slice with its tree; places count from the start of the slice."""

    fragment: Fragment
    kind: FragmentKind
    tree: exp.Expr
    words: tuple[Word, ...]  # their places count from the start of the slice
    dollars: frozenset[int]  # places of `$` in names without quotes
    offset: int = 0  # what the places in the tree are ahead of those in the slice

    def span(self, node: exp.Expr) -> tuple[int, int] | None:
        """Return where a name or literal stands, the end exclusive; None if the tree does not know."""
        start, end = node.meta.get("start"), node.meta.get("end")
        if start is None or end is None or start < self.offset:
            return None
        return start - self.offset, end + 1 - self.offset

    def spell_name(self, identifier: exp.Expr) -> str:
        """Return a name as it is written, without its quotes."""
        span = self.span(identifier)
        is_changed = span is not None and not identifier.args.get("quoted")
        return self.fragment.text[slice(*span)] if is_changed and span is not None else identifier.name

    def name(self, parts: list[exp.Expr]) -> Name | None:
        """Return a name of one or more parts with its place."""
        spans = [self.span(part) for part in parts]
        if not parts or spans[0] is None or spans[-1] is None:
            return None
        return Name(tuple(map(self.spell_name, parts)), self.fragment.slice(spans[0][0], spans[-1][1]))

    def word_at(self, place: int) -> int:
        """Return the number of the first word that starts at a place or behind it."""
        return next((number for number, word in enumerate(self.words) if word.start >= place), len(self.words))


def read_piece(fragment: Fragment, kind: FragmentKind = FragmentKind.QUERY) -> ParsedFragment:
    """Return a slice with its tree; a text that cannot be read is an error that shows the place."""
    text = fragment.text
    words = tuple(words_of(text))
    changed, dollars = _replace_unknown_words(text, words)
    prefix = _RELATION_PREFIX if kind is FragmentKind.RELATION else ""
    try:
        tree = sqlglot.parse_one(prefix + changed, dialect=DIALECT)
    except SqlglotError:
        if kind is not FragmentKind.RELATION:
            _ = fragment.tree  # raises the error with its place
        raise fragment.error("this cannot be read as SQL") from None
    return ParsedFragment(fragment, kind, tree, words, dollars, len(prefix))


def _replace_unknown_words(text: str, words: tuple[Word, ...]) -> tuple[str, frozenset[int]]:
    """Return the text with what sqlglot does not know in a form of the same length that it does."""
    out, dollars = list(text), set()
    for number, word in enumerate(words):
        before = words[number - 1] if number else None
        after = words[number + 1] if number + 1 < len(words) else None
        if word.upper == "TABLE" and after is not None and _begins_query(before) and after.text != "(":
            out[word.start : word.end] = "FROM "
        elif word.upper == "SYSTEM_VERSION":
            out[word.start : word.end] = "VERSION".ljust(len(word.text))
        elif word.text == "$" and before is not None and after is not None and _is_joined(before, word, after):
            out[word.start] = "_"
            dollars.add(word.start)
    return "".join(out), frozenset(dollars)


def _begins_query(before: Word | None) -> bool:
    return ("" if before is None else before.upper) in _BEFORE_TABLE


def _is_joined(before: Word, dollar: Word, after: Word) -> bool:
    touches = before.end == dollar.start and dollar.end == after.start
    return touches and _WORD.fullmatch(before.text) is not None and _WORD.fullmatch(after.text) is not None

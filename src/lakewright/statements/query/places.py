"""Slices of text as syntax trees whose nodes know their places: a fragment in, a tree and its words out.

sqlglot lacks three forms of Spark (`TABLE t`, `FOR SYSTEM_VERSION AS OF`, and `t$files` without quotes). They are
replaced by others of the same length before it reads the text, so that every place in the tree is a place in the slice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lakewright.statements.parse.cursor import Word, words_of
from lakewright.statements.text import DIALECT, Fragment, Name

_RELATION_PREFIX = "SELECT * FROM "
_BEFORE_TABLE = {"", "(", "ALL", "DISTINCT", "UNION", "INTERSECT", "EXCEPT", "MINUS", "AS", ")"}
_WORD = re.compile(r"\w+")


class Kind(Enum):
    """What a slice of a statement is."""

    QUERY = auto()
    EXPRESSION = auto()  # of UPDATE, DELETE and MERGE, which may hold subqueries
    RELATION = auto()  # the source of MERGE: a name, or a query in brackets; its alias stands elsewhere


@dataclass(frozen=True, slots=True)
class Piece:
    """A slice with its tree; places count from the start of the slice."""

    fragment: Fragment
    kind: Kind
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

    def spelled(self, identifier: exp.Expr) -> str:
        """Return a name as it is written, without its quotes."""
        span = self.span(identifier)
        is_changed = span is not None and not identifier.args.get("quoted")
        return self.fragment.text[slice(*span)] if is_changed and span is not None else identifier.name

    def name(self, parts: list[exp.Expr]) -> Name | None:
        """Return a name of one or more parts with its place."""
        spans = [self.span(part) for part in parts]
        if not parts or spans[0] is None or spans[-1] is None:
            return None
        return Name(tuple(map(self.spelled, parts)), self.fragment.slice(spans[0][0], spans[-1][1]))

    def word_at(self, place: int) -> int:
        """Return the number of the first word that starts at a place or behind it."""
        return next((number for number, word in enumerate(self.words) if word.start >= place), len(self.words))


def read_piece(fragment: Fragment, kind: Kind = Kind.QUERY) -> Piece:
    """Return a slice with its tree; a text that cannot be read is an error that shows the place."""
    text = fragment.text
    words = tuple(words_of(text))
    changed, dollars = _replaced(text, words)
    prefix = _RELATION_PREFIX if kind is Kind.RELATION else ""
    try:
        tree = sqlglot.parse_one(prefix + changed, dialect=DIALECT)
    except SqlglotError:
        if kind is not Kind.RELATION:
            _ = fragment.tree  # raises the error with its place
        raise fragment.error("this cannot be read as SQL") from None
    return Piece(fragment, kind, tree, words, dollars, len(prefix))


def _replaced(text: str, words: tuple[Word, ...]) -> tuple[str, frozenset[int]]:
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

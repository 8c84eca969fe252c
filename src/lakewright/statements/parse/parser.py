"""Text in, statements out: the first words of a statement say which part of the grammar reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from lakewright.errors import SQLSyntaxError
from lakewright.statements.model import Native, Query, Statement
from lakewright.statements.parse import alter, calls, changes, create, queries, shows
from lakewright.statements.parse.cursor import Cursor, words_of
from lakewright.statements.text import Fragment, placed_error

Parse: TypeAlias = Callable[[Cursor], Statement]

# The first words of a statement, and what reads it; a longer phrase comes before a shorter one with the same start.
GRAMMAR: dict[str, Parse] = {
    **calls.GRAMMAR,
    **changes.GRAMMAR,
    **create.GRAMMAR,
    **alter.GRAMMAR,
    **shows.GRAMMAR,
    **queries.GRAMMAR,
}
_QUERIES = ("SELECT", "WITH", "VALUES", "TABLE", "FROM", "(")


def parse_statement(text: str) -> Statement:
    """Return the one statement of a text, which may end with `;`."""
    statements = parse_script(text)
    if len(statements) == 1:
        return statements[0]
    if not statements:
        raise placed_error(SQLSyntaxError, "the text has no statement", text, 0)
    second = statements[1].text.start
    message = "the text has more than one statement: use script(...), or give them one by one"
    raise placed_error(SQLSyntaxError, message, text, second)


def parse_script(text: str) -> list[Statement]:
    """Return the statements of a text with `;` between them."""
    return [parse(fragment) for fragment in split_script(text)]


def split_script(text: str) -> Iterator[Fragment]:
    """Yield the slices of the statements of a text, without `;`."""
    first = last = None
    for word in words_of(text):
        if word.text == ";" and not word.is_text and not word.is_quoted:
            if first is not None and last is not None:
                yield Fragment(text, first.start, last.end)
            first = None
            continue
        first, last = first or word, word
    if first is not None and last is not None:
        yield Fragment(text, first.start, last.end)


def parse(fragment: Fragment) -> Statement:
    """Return the statement of a slice."""
    cursor = Cursor(fragment)
    for phrase, read in GRAMMAR.items():
        if cursor.sees(*phrase.split()):
            statement = read(cursor)
            cursor.expect_end()
            return statement
    if cursor.sees_any(*_QUERIES):
        return Query(text=fragment)
    return Native(text=fragment)

"""Text in, statements out: the first words of a statement say which part of the grammar reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from lakewright.errors import SQLSyntaxError
from lakewright.statements.model import Native, Query, Statement
from lakewright.statements.parse import alter, calls, changes, create, delta_grammar, queries, shows
from lakewright.statements.parse.cursor import Cursor, Word, words_of
from lakewright.statements.text import Fragment, placed_error

Parse: TypeAlias = Callable[[Cursor], Statement]

# The first words of a statement, and what reads it; a longer phrase comes before a shorter one with the same start.
GRAMMAR: dict[str, Parse] = {
    **calls.GRAMMAR,
    **changes.GRAMMAR,
    **create.GRAMMAR,
    **delta_grammar.GRAMMAR,
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


def _check_commas(cursor: Cursor) -> None:
    """Raise an error for a comma with nothing behind it, which sqlglot reads and Spark refuses."""
    for before, word, after in zip([None, *cursor.words], cursor.words, [*cursor.words[1:], None], strict=False):
        if word.text != "," or word.is_text or word.is_quoted:
            continue
        if before is None or _is_sign(before, "(", "[", ","):
            raise cursor.error("a comma with nothing before it", kind=SQLSyntaxError, word=word)
        if after is None or _is_sign(after, ")", "]", ","):
            raise cursor.error("a comma with nothing behind it", kind=SQLSyntaxError, word=word)


def _is_sign(word: Word, *signs: str) -> bool:
    return word.text in signs and not word.is_text and not word.is_quoted


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
    _check_commas(cursor)
    for phrase, read in GRAMMAR.items():
        if cursor.sees(*phrase.split()):
            statement = read(cursor)
            cursor.expect_end()
            return statement
    if cursor.sees_any(*_QUERIES):
        return Query(text=fragment)
    return Native(text=fragment)

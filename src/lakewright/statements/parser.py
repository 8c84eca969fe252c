"""Text to statements: dispatch, EXPLAIN, SET, views."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from lakewright.errors import SQLSyntaxError
from lakewright.statements import parse_ddl, parse_delta, parse_dml, parse_show
from lakewright.statements.sql_session import Session
from lakewright.statements.sql_text import Args, Fragment, error_at
from lakewright.statements.statements import CatalogCommand, CreateView, Explain, Native, Query, Statement
from lakewright.statements.token_cursor import TokenCursor, Word, words_of

# ---- EXPLAIN, temporary views, SET -----------------------------------------------------------------------------------

_MODES = ("EXTENDED", "CODEGEN", "COST", "FORMATTED")
_QUERIES = ("SELECT", "WITH", "VALUES", "TABLE", "FROM", "(")
_SETTINGS = pa.schema([("key", pa.string()), ("value", pa.string())])
_NOT_OURS = (
    "TIME ZONE",
    "ROLE",
    "VAR",
    "VARIABLE",
    "CATALOG",
    "PATH",
    "SESSION",
)  # what Spark's SET means besides keys


@dataclass(frozen=True, slots=True)
class ShowSettings(CatalogCommand):
    """SET, or SET key: what is set."""

    key: str | None = None

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - there are no parameters
        """Return what is set, by key."""
        settings = session.settings()
        if self.key is not None:
            settings = {self.key: settings.get(self.key, "<undefined>")}
        rows = [{"key": key, "value": value} for key, value in sorted(settings.items())]
        return pa.Table.from_pylist(rows, schema=_SETTINGS)


@dataclass(frozen=True, slots=True)
class ChangeSetting(CatalogCommand):
    """SET key = value, or RESET key."""

    key: str
    value: str | None

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - there are no parameters
        """Set the key, and return it."""
        session.set(self.key, self.value)
        rows = [] if self.value is None else [{"key": self.key, "value": self.value}]
        return pa.Table.from_pylist(rows, schema=_SETTINGS)


@dataclass(frozen=True, slots=True)
class ResetAll(CatalogCommand):
    """RESET: take back what is set for tables."""

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - there are no parameters
        """Take back every setting of this session that can be taken back."""
        for key in session.settings():
            if key.startswith("spark.paimon."):
                session.set(key, None)
        return _SETTINGS.empty_table()


def read_explain(cursor: TokenCursor) -> Statement:
    """Read EXPLAIN [EXTENDED | CODEGEN | COST | FORMATTED] query."""
    cursor.expect("EXPLAIN")
    mode = cursor.take().upper if cursor.sees_any(*_MODES) else ""
    is_query = cursor.sees_any(*_QUERIES)
    query = cursor.rest("a query")
    if not is_query:
        return Native(text=cursor.fragment)
    return Explain(text=cursor.fragment, query=query, mode=mode)


def read_view(cursor: TokenCursor) -> Statement:
    """Read CREATE [OR REPLACE] [GLOBAL] TEMP[ORARY] VIEW name [(columns)] AS query."""
    cursor.expect("CREATE")
    replace = cursor.accept("OR", "REPLACE")
    is_global = cursor.accept("GLOBAL")
    if not cursor.accept("TEMP"):
        cursor.expect("TEMPORARY")
    cursor.expect("VIEW")
    name = cursor.qualified_name("the name of a view")
    columns = _columns(cursor) if cursor.sees("(") else ()
    if cursor.accept("COMMENT"):
        cursor.string()
    if cursor.accept("TBLPROPERTIES"):
        cursor.take_bracket()
    if len(name.parts) != 1 or not cursor.accept("AS"):
        cursor.at = len(cursor.words)  # USING format, or a name that Spark refuses
        return Native(text=cursor.fragment)
    query = cursor.rest("a query")
    return CreateView(
        text=cursor.fragment, name=name.parts[0], query=query, replace=replace, columns=columns, is_global=is_global
    )


def _columns(cursor: TokenCursor) -> tuple[str, ...]:
    """Read the names of columns in brackets; comments of columns are left out."""
    inside = TokenCursor(cursor.take_bracket())
    names = [inside.name("the name of a column")]
    while not inside.is_done:
        if inside.accept("COMMENT"):
            inside.string()
        elif inside.accept(","):
            names.append(inside.name("the name of a column"))
        else:
            return ()  # columns with types, for USING
    return tuple(names)


def read_set(cursor: TokenCursor) -> Statement:
    """Read SET [key [= value]]; what else Spark's SET means is left to the engine."""
    cursor.expect("SET")
    if cursor.is_done:
        return ShowSettings(text=cursor.fragment)
    if cursor.sees_any(*_NOT_OURS) or cursor.sees("-"):
        cursor.at = len(cursor.words)
        return Native(text=cursor.fragment)
    key = cursor.until("=", what="a key").text.strip().strip("`")
    if not cursor.accept("="):
        return ShowSettings(text=cursor.fragment, key=key)
    value = cursor.fragment.whole[cursor.words[cursor.at - 1].end : cursor.fragment.end].strip()
    cursor.at = len(cursor.words)
    return ChangeSetting(text=cursor.fragment, key=key, value=_unquote_value(value))


def read_reset(cursor: TokenCursor) -> Statement:
    """Read RESET [key]."""
    cursor.expect("RESET")
    if cursor.is_done:
        return ResetAll(text=cursor.fragment)
    key: Fragment = cursor.rest("a key")
    return ChangeSetting(text=cursor.fragment, key=key.text.strip("`"), value=None)


def _unquote_value(value: str) -> str:
    """Return a value without backticks around it; other quotes are part of the value, as in Spark."""
    return value[1:-1].replace("``", "`") if len(value) > 1 and value[0] == value[-1] == "`" else value


QUERY_GRAMMAR = {
    "EXPLAIN": read_explain,
    "CREATE TEMP VIEW": read_view,
    "CREATE TEMPORARY VIEW": read_view,
    "CREATE GLOBAL TEMP VIEW": read_view,
    "CREATE GLOBAL TEMPORARY VIEW": read_view,
    "CREATE OR REPLACE TEMP VIEW": read_view,
    "CREATE OR REPLACE TEMPORARY VIEW": read_view,
    "CREATE OR REPLACE GLOBAL TEMP VIEW": read_view,
    "CREATE OR REPLACE GLOBAL TEMPORARY VIEW": read_view,
    "SET": read_set,
    "RESET": read_reset,
}


# ---- The parser ------------------------------------------------------------------------------------------------------

Parse: TypeAlias = Callable[[TokenCursor], Statement]

# The first words of a statement, and what reads it; a longer phrase comes before a shorter one with the same start.
GRAMMAR: dict[str, Parse] = {
    **parse_show.CALL_GRAMMAR,
    **parse_dml.GRAMMAR,
    **parse_ddl.CREATE_GRAMMAR,
    **parse_delta.GRAMMAR,
    **parse_ddl.ALTER_GRAMMAR,
    **parse_show.SHOW_GRAMMAR,
    **QUERY_GRAMMAR,
}


def parse_statement(text: str) -> Statement:
    """Return the one statement of a text, which may end with `;`."""
    statements = parse_script(text)
    if len(statements) == 1:
        return statements[0]
    if not statements:
        raise error_at(SQLSyntaxError, "the text has no statement", text, 0)
    second = statements[1].text.start
    message = "the text has more than one statement: use script(...), or give them one by one"
    raise error_at(SQLSyntaxError, message, text, second)


def _check_commas(cursor: TokenCursor) -> None:
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
    cursor = TokenCursor(fragment)
    _check_commas(cursor)
    for phrase, read in GRAMMAR.items():
        if cursor.sees(*phrase.split()):
            statement = read(cursor)
            cursor.expect_end()
            return statement
    if cursor.sees_any(*_QUERIES):
        return Query(text=fragment)
    return Native(text=fragment)

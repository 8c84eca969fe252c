"""The grammar of EXPLAIN, CREATE TEMPORARY VIEW, SET and RESET; queries themselves are left as they are written."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakewright.statements.model import Command, CreateView, Explain, Native, Statement
from lakewright.statements.parse.cursor import Cursor
from lakewright.statements.session import Session
from lakewright.statements.text import Args, Fragment

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
class ShowSettings(Command):
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
class ChangeSetting(Command):
    """SET key = value, or RESET key."""

    key: str
    value: str | None

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - there are no parameters
        """Set the key, and return it."""
        session.set(self.key, self.value)
        rows = [] if self.value is None else [{"key": self.key, "value": self.value}]
        return pa.Table.from_pylist(rows, schema=_SETTINGS)


@dataclass(frozen=True, slots=True)
class ResetAll(Command):
    """RESET: take back what is set for tables."""

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - there are no parameters
        """Take back every setting of this session that can be taken back."""
        for key in session.settings():
            if key.startswith("spark.paimon."):
                session.set(key, None)
        return _SETTINGS.empty_table()


def read_explain(cursor: Cursor) -> Statement:
    """Read EXPLAIN [EXTENDED | CODEGEN | COST | FORMATTED] query."""
    cursor.expect("EXPLAIN")
    mode = cursor.take().upper if cursor.sees_any(*_MODES) else ""
    is_query = cursor.sees_any(*_QUERIES)
    query = cursor.rest("a query")
    if not is_query:
        return Native(text=cursor.fragment)
    return Explain(text=cursor.fragment, query=query, mode=mode)


def read_view(cursor: Cursor) -> Statement:
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
        cursor.bracketed()
    if len(name.parts) != 1 or not cursor.accept("AS"):
        cursor.at = len(cursor.words)  # USING format, or a name that Spark refuses
        return Native(text=cursor.fragment)
    query = cursor.rest("a query")
    return CreateView(
        text=cursor.fragment, name=name.parts[0], query=query, replace=replace, columns=columns, is_global=is_global
    )


def _columns(cursor: Cursor) -> tuple[str, ...]:
    """Read the names of columns in brackets; comments of columns are left out."""
    inside = Cursor(cursor.bracketed())
    names = [inside.name("the name of a column")]
    while not inside.is_done:
        if inside.accept("COMMENT"):
            inside.string()
        elif inside.accept(","):
            names.append(inside.name("the name of a column"))
        else:
            return ()  # columns with types, for USING
    return tuple(names)


def read_set(cursor: Cursor) -> Statement:
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
    return ChangeSetting(text=cursor.fragment, key=key, value=_unquoted(value))


def read_reset(cursor: Cursor) -> Statement:
    """Read RESET [key]."""
    cursor.expect("RESET")
    if cursor.is_done:
        return ResetAll(text=cursor.fragment)
    key: Fragment = cursor.rest("a key")
    return ChangeSetting(text=cursor.fragment, key=key.text.strip("`"), value=None)


def _unquoted(value: str) -> str:
    """Return a value without backticks around it; other quotes are part of the value, as in Spark."""
    return value[1:-1].replace("``", "`") if len(value) > 1 and value[0] == value[-1] == "`" else value


GRAMMAR = {
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

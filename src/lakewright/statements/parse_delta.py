"""The grammar of the upkeep statements of Delta Lake, and of what no engine runs and is refused with what helps.

optimize := OPTIMIZE [TABLE] table [FULL] [WHERE condition] [ZORDER BY ['('] column (',' column)* [')']]
vacuum   := VACUUM [TABLE] table [RETAIN n HOURS] [DRY RUN]
restore  := RESTORE [TABLE] table TO (VERSION AS OF (n | 'tag') | TIMESTAMP AS OF expression)
history  := DESCRIBE | DESC HISTORY table [LIMIT n]
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from lakewright.errors import UnsupportedError
from lakewright.statements.delta_statements import DescribeHistory, Optimize, Restore, Vacuum
from lakewright.statements.parse_columns import column_name
from lakewright.statements.parse_show import read_describe
from lakewright.statements.statements import Statement
from lakewright.statements.token_cursor import TokenCursor

_RETAINED_HOURS = 168  # the default of Delta Lake: a week

_VIEW = "catalogs keep no views: use CREATE TEMPORARY VIEW, which lasts as long as the session"
_FUNCTION = "catalogs keep no functions: register it with the engine"
_CACHE = "a statement reads the newest snapshot: keep the rows of a query instead, on Spark with sql(...).cache()"
_REFUSED = {
    "CREATE VIEW": _VIEW,
    "CREATE OR REPLACE VIEW": _VIEW,
    "CREATE MATERIALIZED VIEW": _VIEW,
    "CREATE OR REPLACE MATERIALIZED VIEW": _VIEW,
    "ALTER VIEW": _VIEW,
    "CREATE FUNCTION": _FUNCTION,
    "CREATE OR REPLACE FUNCTION": _FUNCTION,
    "CACHE TABLE": _CACHE,
    "CACHE LAZY TABLE": _CACHE,
    "UNCACHE TABLE": _CACHE,
    "DESCRIBE DETAIL": "use DESCRIBE TABLE EXTENDED",
    "DESC DETAIL": "use DESCRIBE TABLE EXTENDED",
}


def _refuse_statement(cursor: TokenCursor) -> Statement:
    phrase = next(phrase for phrase in _REFUSED if cursor.sees(*phrase.split()))
    raise cursor.error(f"{phrase} is not supported: {_REFUSED[phrase]}", kind=UnsupportedError)


def _optimize(cursor: TokenCursor) -> Optimize:
    cursor.expect("OPTIMIZE")
    cursor.accept("TABLE")
    name, full = cursor.qualified_name(), cursor.accept("FULL")
    where = cursor.until("ZORDER BY", what="a condition") if cursor.accept("WHERE") else None
    if not cursor.accept("ZORDER", "BY"):
        return Optimize(name, full, where, text=cursor.fragment)
    in_brackets = cursor.accept("(")
    columns = [column_name(cursor)]
    while cursor.accept(","):
        columns.append(column_name(cursor))
    if in_brackets:
        cursor.expect(")")
    return Optimize(name, full, where, tuple(columns), text=cursor.fragment)


def _vacuum(cursor: TokenCursor) -> Vacuum:
    cursor.expect("VACUUM")
    cursor.accept("TABLE")
    name, hours = cursor.qualified_name(), _RETAINED_HOURS
    if cursor.accept("RETAIN"):
        hours = cursor.integer("a whole number of hours")
        if not cursor.accept("HOURS"):
            cursor.expect("HOUR")
    return Vacuum(name, timedelta(hours=hours), cursor.accept("DRY", "RUN"), text=cursor.fragment)


def _restore(cursor: TokenCursor) -> Restore:
    cursor.expect("RESTORE")
    cursor.accept("TABLE")
    name = cursor.qualified_name()
    cursor.accept("TO")
    if cursor.accept("TIMESTAMP", "AS", "OF"):
        return Restore(name, cursor.rest("a time"), text=cursor.fragment)
    cursor.expect("VERSION", "AS", "OF")
    target = cursor.string() if cursor.here.is_text else cursor.integer("the id of a snapshot, or a tag in quotes")
    return Restore(name, target, text=cursor.fragment)


def _describe_history(cursor: TokenCursor) -> Statement:
    if len(cursor.words) <= 2 or cursor.words[2].text == ".":  # noqa: PLR2004 - a table that is called history
        return read_describe(cursor)
    cursor.at += 2
    name = cursor.qualified_name()
    return DescribeHistory(name, cursor.integer() if cursor.accept("LIMIT") else None, text=cursor.fragment)


def _describe_detail(cursor: TokenCursor) -> Statement:
    if len(cursor.words) <= 2 or cursor.words[2].text == ".":  # noqa: PLR2004 - a table that is called detail
        return read_describe(cursor)
    return _refuse_statement(cursor)


GRAMMAR: dict[str, Callable[[TokenCursor], Statement]] = {
    "OPTIMIZE": _optimize,
    "VACUUM": _vacuum,
    "RESTORE": _restore,
    "DESCRIBE HISTORY": _describe_history,
    "DESC HISTORY": _describe_history,
    **dict.fromkeys(_REFUSED, _refuse_statement),
    "DESCRIBE DETAIL": _describe_detail,
    "DESC DETAIL": _describe_detail,
}

"""Grammar of SHOW, DESCRIBE, ANALYZE, CALL."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from itertools import count

from sqlglot.tokenizer_core import TokenType

from lakewright.errors import SQLSyntaxError, UnsupportedError
from lakewright.statements.call_statement import (
    CallArgument,
    CallProcedure,
    DescribeProcedure,
    Marker,
    ShowProcedures,
    make_call,
    make_description,
)
from lakewright.statements.catalog_commands import (
    Analyze,
    DescribeCatalog,
    DescribeDatabase,
    DescribeTable,
    Refresh,
    ShowCatalogs,
    ShowColumns,
    ShowCreateTable,
    ShowCurrent,
    ShowDatabases,
    ShowProperties,
    ShowTableExtended,
    ShowTables,
)
from lakewright.statements.parse_columns import (
    column_name,
    read_key,
    read_list,
    read_partition,
    read_pattern,
    read_place,
)
from lakewright.statements.sql_text import Fragment, Name
from lakewright.statements.statements import DescribeQuery, Native, Statement
from lakewright.statements.table_commands import ShowPartitions, ShowTags
from lakewright.statements.token_cursor import TokenCursor

# ---- CALL and procedures ---------------------------------------------------------------------------------------------
# call     := CALL name '(' [argument (',' argument)*] ')'
# argument := [name '=>'] (constant | ':' name | '?')
# constant := 'text' | [-] number | TRUE | FALSE | NULL | DATE 'text' | TIMESTAMP 'text'
#           | MAP '(' constants ')' | ARRAY '(' constants ')'

_WORDS = {"TRUE": True, "FALSE": False, "NULL": None}


def read_call(cursor: TokenCursor) -> CallProcedure:
    """Read CALL."""
    cursor.expect("CALL")
    name = cursor.qualified_name("the name of a procedure")
    cursor.expect("(")
    numbers, given = count(), list[CallArgument]()
    while not cursor.accept(")"):
        if given:
            cursor.expect(",")
        argument = _argument(cursor, numbers)
        if argument.name is None and given and given[-1].name is not None:
            raise argument.place.error("an argument without a name comes before those with one")
        given.append(argument)
    return make_call(name, given, cursor.fragment)


def _argument(cursor: TokenCursor, numbers: count[int]) -> CallArgument:
    name = None
    if len(cursor.words) > cursor.at + 1 and cursor.words[cursor.at + 1].text == "=>":
        start = cursor.at
        name = cursor.name("the name of an argument")
        cursor.expect("=>")
        value, place = _value(cursor, numbers)
        return CallArgument(value, Fragment(place.whole, cursor.words[start].start, place.end), name)
    value, place = _value(cursor, numbers)
    return CallArgument(value, place, name)


def _value(cursor: TokenCursor, numbers: count[int]) -> tuple[object, Fragment]:
    start = cursor.at
    if cursor.accept("?"):
        value: object = Marker(next(numbers))
    elif cursor.accept(":"):
        value = Marker(cursor.name("the name of a parameter"))
    else:
        value = read_constant(cursor)
    words = cursor.words
    return value, Fragment(cursor.fragment.whole, words[start].start, words[cursor.at - 1].end)


def read_constant(cursor: TokenCursor) -> object:
    """Read a constant: a text, a number, a boolean, NULL, a date or time, a map or an array of constants."""
    word = cursor.here
    if word.is_text:
        return cursor.take().text
    if word.upper in _WORDS:
        return _WORDS[cursor.take().upper]
    if cursor.accept("MAP", "("):
        flat = _constants(cursor)
        if len(flat) % 2:
            raise cursor.error("map takes pairs of a key and a value", kind=SQLSyntaxError, word=word)
        return dict(zip(flat[::2], flat[1::2], strict=True))
    if cursor.accept("ARRAY", "("):
        return _constants(cursor)
    if word.upper in {"DATE", "TIMESTAMP"}:
        return _time(cursor)
    sign = -1 if cursor.accept("-") else 1
    if cursor.here.kind is TokenType.NUMBER:
        return sign * _number(cursor)
    raise cursor.unexpected_word("a constant such as 'text', 5, true, map('k', 'v'), or a parameter such as :name")


def _constants(cursor: TokenCursor) -> list[object]:
    """Read constants up to the closing bracket."""
    found: list[object] = []
    while not cursor.accept(")"):
        if found:
            cursor.expect(",")
        found.append(read_constant(cursor))
    return found


def _time(cursor: TokenCursor) -> date:
    word = cursor.take()
    text = cursor.string(f"a text in quotes after {word.upper}")
    try:
        return date.fromisoformat(text) if word.upper == "DATE" else datetime.fromisoformat(text)
    except ValueError:
        message = (
            f"{text!r} is no {word.upper.lower()} such as '2026-01-31{'' if word.upper == 'DATE' else ' 12:00:00'}'"
        )
        raise cursor.error(message, kind=SQLSyntaxError, word=cursor.words[cursor.at - 1]) from None


def _number(cursor: TokenCursor) -> int | float | Decimal:
    text = cursor.take().text
    if text.isdecimal():
        return int(text)
    try:
        return float(text) if "e" in text.lower() else Decimal(text)
    except (ValueError, InvalidOperation):
        raise cursor.error(f"{text!r} is no number", kind=SQLSyntaxError) from None


def read_show_procedures(cursor: TokenCursor) -> ShowProcedures:
    """Read SHOW PROCEDURES [FROM | IN namespace]."""
    cursor.expect("SHOW", "PROCEDURES")
    inside = cursor.accept("IN") or cursor.accept("FROM")
    return ShowProcedures(cursor.qualified_name("a database") if inside else None, text=cursor.fragment)


def read_describe_procedure(cursor: TokenCursor) -> DescribeProcedure:
    """Read DESCRIBE | DESC PROCEDURE name."""
    cursor.take()
    cursor.expect("PROCEDURE")
    return make_description(cursor.qualified_name("the name of a procedure"), cursor.fragment)


CALL_GRAMMAR = {
    "CALL": read_call,
    "SHOW PROCEDURES": read_show_procedures,
    "DESCRIBE PROCEDURE": read_describe_procedure,
    "DESC PROCEDURE": read_describe_procedure,
}


# ---- SHOW, DESCRIBE, ANALYZE -----------------------------------------------------------------------------------------

_DATABASES = ("DATABASE", "SCHEMA", "NAMESPACE")
_REFUSED = {
    "MSCK REPAIR TABLE": "the snapshots of a table say which partitions there are",
    "REPAIR TABLE": "the snapshots of a table say which partitions there are",
}


def _grammar() -> dict[str, Callable[[TokenCursor], Statement]]:
    """Return what reads each phrase, the longer phrases first."""
    out: dict[str, Callable[[TokenCursor], Statement]] = {f"SHOW {kind}S": _show_databases for kind in _DATABASES}
    out |= {f"SHOW CURRENT {kind}": _show_current for kind in _DATABASES}
    out |= {"SHOW TABLE EXTENDED": _show_table_extended, "SHOW TABLES": _show_tables, "SHOW VIEWS": _show_tables}
    out |= {"SHOW CATALOGS": _show_catalogs, "SHOW COLUMNS": _show_columns, "SHOW PARTITIONS": _show_partitions}
    out |= {"SHOW CREATE TABLE": _show_create, "SHOW TBLPROPERTIES": _show_properties}
    out |= {"SHOW TAGS": _show_tags, "SHOW BRANCHES": _show_tags, "REFRESH TABLE": _refresh, "ANALYZE TABLE": _analyze}
    for verb in ("DESCRIBE", "DESC"):
        out |= {f"{verb} FUNCTION": _native, f"{verb} QUERY": _describe_query, verb: read_describe}
    return out | dict.fromkeys(_REFUSED, _refuse_statement)


def _native(cursor: TokenCursor) -> Native:
    cursor.at = len(cursor.words)
    return Native(text=cursor.fragment)


def _refuse_statement(cursor: TokenCursor) -> Statement:
    phrase = next(phrase for phrase in _REFUSED if cursor.sees_any(phrase))
    raise cursor.error(f"{phrase} is not supported: {_REFUSED[phrase]}", kind=UnsupportedError)


def _refresh(cursor: TokenCursor) -> Refresh:
    cursor.at += 2
    return Refresh(cursor.qualified_name(), text=cursor.fragment)


def _analyze(cursor: TokenCursor) -> Analyze:
    cursor.at += 2
    name = cursor.qualified_name()
    if cursor.sees("PARTITION"):
        why = "statistics are those of the whole table; leave PARTITION out"
        raise cursor.error(f"ANALYZE TABLE of a partition is not supported: {why}", kind=UnsupportedError)
    cursor.expect("COMPUTE", "STATISTICS")
    if cursor.sees("NOSCAN"):
        why = "nothing is known that needs no counting; leave NOSCAN out"
        raise cursor.error(f"NOSCAN is not supported: {why}", kind=UnsupportedError)
    if cursor.accept("FOR", "ALL", "COLUMNS"):
        return Analyze(name, all_columns=True, text=cursor.fragment)
    columns = read_list(cursor, column_name) if cursor.accept("FOR", "COLUMNS") else ()
    return Analyze(name, columns, text=cursor.fragment)


def _show_current(cursor: TokenCursor) -> ShowCurrent:
    cursor.at += 3
    return ShowCurrent(text=cursor.fragment)


def _show_catalogs(cursor: TokenCursor) -> ShowCatalogs:
    cursor.at += 2
    return ShowCatalogs(read_pattern(cursor), text=cursor.fragment)


def _show_databases(cursor: TokenCursor) -> ShowDatabases:
    cursor.at += 2
    return ShowDatabases(read_place(cursor, "the name of a catalog"), read_pattern(cursor), text=cursor.fragment)


def _show_tables(cursor: TokenCursor) -> ShowTables:
    cursor.take()
    views = cursor.take().upper == "VIEWS"
    return ShowTables(read_place(cursor), read_pattern(cursor), views, text=cursor.fragment)


def _show_table_extended(cursor: TokenCursor) -> ShowTableExtended:
    cursor.at += 3
    database = read_place(cursor)
    cursor.expect("LIKE")
    pattern = cursor.string("a pattern in quotes")
    partition = read_partition(cursor) if cursor.sees("PARTITION") else None
    return ShowTableExtended(database, pattern, partition, text=cursor.fragment)


def _show_columns(cursor: TokenCursor) -> ShowColumns:
    cursor.at += 2
    name = read_place(cursor, "the name of a table")
    if name is None:
        raise cursor.unexpected_word("FROM and the name of a table")
    database = read_place(cursor)
    if database is not None:
        name = Name((*database.parts, name.parts[-1]), name.place)
    return ShowColumns(name, text=cursor.fragment)


def _show_partitions(cursor: TokenCursor) -> ShowPartitions:
    cursor.at += 2
    name = cursor.qualified_name()
    partition = read_partition(cursor) if cursor.sees("PARTITION") else None
    return ShowPartitions(name, partition, text=cursor.fragment)


def _show_create(cursor: TokenCursor) -> ShowCreateTable:
    cursor.at += 3
    return ShowCreateTable(cursor.qualified_name(), text=cursor.fragment)


def _show_properties(cursor: TokenCursor) -> ShowProperties:
    cursor.at += 2
    name, key = cursor.qualified_name(), None
    if cursor.accept("("):
        key, _ = read_key(cursor)
        cursor.expect(")")
    return ShowProperties(name, key, text=cursor.fragment)


def _show_tags(cursor: TokenCursor) -> ShowTags:
    cursor.take()
    branches = cursor.take().upper == "BRANCHES"
    if not cursor.accept("IN"):
        cursor.accept("FROM")
    return ShowTags(cursor.qualified_name(), branches, text=cursor.fragment)


def _describe_query(cursor: TokenCursor) -> DescribeQuery:
    cursor.at += 2
    return DescribeQuery(cursor.rest("a query"), text=cursor.fragment)


def read_describe(cursor: TokenCursor) -> Statement:
    """Read DESCRIBE of a query, a table or a column, a database, a catalog."""
    cursor.take()
    if cursor.sees_any("SELECT", "WITH", "VALUES", "FROM", "("):
        return DescribeQuery(cursor.rest("a query"), text=cursor.fragment)
    more = len(cursor.words) - cursor.at > 1
    if more and any(cursor.accept(kind) for kind in _DATABASES):
        extended = cursor.accept("EXTENDED")
        return DescribeDatabase(cursor.qualified_name("the name of a database"), extended, text=cursor.fragment)
    if more and cursor.accept("CATALOG"):
        cursor.accept("EXTENDED")
        return DescribeCatalog(cursor.qualified_name("the name of a catalog"), text=cursor.fragment)
    if more:
        cursor.accept("TABLE")
    extended = len(cursor.words) - cursor.at > 1 and (cursor.accept("EXTENDED") or cursor.accept("FORMATTED"))
    name = cursor.qualified_name()
    partition = read_partition(cursor) if cursor.sees("PARTITION") else None
    column = None if cursor.is_done else column_name(cursor)
    return DescribeTable(name, extended, column, partition, text=cursor.fragment)


SHOW_GRAMMAR = _grammar()

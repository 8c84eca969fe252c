"""The grammar of SHOW, DESCRIBE, REFRESH, ANALYZE, and of what looks at or repairs a table and is refused."""

from __future__ import annotations

from collections.abc import Callable

from lakewright.errors import UnsupportedError
from lakewright.statements.definitions.databases import DescribeCatalog, DescribeDatabase
from lakewright.statements.definitions.describe import DescribeTable, ShowCreateTable
from lakewright.statements.definitions.partitions import ShowPartitions
from lakewright.statements.definitions.shows import (
    Analyze,
    Refresh,
    ShowCatalogs,
    ShowColumns,
    ShowCurrent,
    ShowDatabases,
    ShowProperties,
    ShowTableExtended,
    ShowTables,
)
from lakewright.statements.definitions.tags import ShowTags
from lakewright.statements.model import DescribeQuery, Native, Statement
from lakewright.statements.parse.clauses import column_name, listed, read_key, read_partition, read_pattern, read_place
from lakewright.statements.parse.cursor import Cursor
from lakewright.statements.text import Name

_DATABASES = ("DATABASE", "SCHEMA", "NAMESPACE")
_REFUSED = {
    "MSCK REPAIR TABLE": "the snapshots of a table say which partitions there are",
    "REPAIR TABLE": "the snapshots of a table say which partitions there are",
}


def _grammar() -> dict[str, Callable[[Cursor], Statement]]:
    """Return what reads each phrase, the longer phrases first."""
    out: dict[str, Callable[[Cursor], Statement]] = {f"SHOW {kind}S": _show_databases for kind in _DATABASES}
    out |= {f"SHOW CURRENT {kind}": _show_current for kind in _DATABASES}
    out |= {"SHOW TABLE EXTENDED": _show_table_extended, "SHOW TABLES": _show_tables, "SHOW VIEWS": _show_tables}
    out |= {"SHOW CATALOGS": _show_catalogs, "SHOW COLUMNS": _show_columns, "SHOW PARTITIONS": _show_partitions}
    out |= {"SHOW CREATE TABLE": _show_create, "SHOW TBLPROPERTIES": _show_properties}
    out |= {"SHOW TAGS": _show_tags, "SHOW BRANCHES": _show_tags, "REFRESH TABLE": _refresh, "ANALYZE TABLE": _analyze}
    for verb in ("DESCRIBE", "DESC"):
        out |= {f"{verb} FUNCTION": _native, f"{verb} QUERY": _describe_query, verb: read_describe}
    return out | dict.fromkeys(_REFUSED, _refused)


def _native(cursor: Cursor) -> Native:
    cursor.at = len(cursor.words)
    return Native(text=cursor.fragment)


def _refused(cursor: Cursor) -> Statement:
    phrase = next(phrase for phrase in _REFUSED if cursor.sees_any(phrase))
    raise cursor.error(f"{phrase} is not supported: {_REFUSED[phrase]}", kind=UnsupportedError)


def _refresh(cursor: Cursor) -> Refresh:
    cursor.at += 2
    return Refresh(cursor.qualified_name(), text=cursor.fragment)


def _analyze(cursor: Cursor) -> Analyze:
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
    columns = listed(cursor, column_name) if cursor.accept("FOR", "COLUMNS") else ()
    return Analyze(name, columns, text=cursor.fragment)


def _show_current(cursor: Cursor) -> ShowCurrent:
    cursor.at += 3
    return ShowCurrent(text=cursor.fragment)


def _show_catalogs(cursor: Cursor) -> ShowCatalogs:
    cursor.at += 2
    return ShowCatalogs(read_pattern(cursor), text=cursor.fragment)


def _show_databases(cursor: Cursor) -> ShowDatabases:
    cursor.at += 2
    return ShowDatabases(read_place(cursor, "the name of a catalog"), read_pattern(cursor), text=cursor.fragment)


def _show_tables(cursor: Cursor) -> ShowTables:
    cursor.take()
    views = cursor.take().upper == "VIEWS"
    return ShowTables(read_place(cursor), read_pattern(cursor), views, text=cursor.fragment)


def _show_table_extended(cursor: Cursor) -> ShowTableExtended:
    cursor.at += 3
    database = read_place(cursor)
    cursor.expect("LIKE")
    pattern = cursor.string("a pattern in quotes")
    partition = read_partition(cursor) if cursor.sees("PARTITION") else None
    return ShowTableExtended(database, pattern, partition, text=cursor.fragment)


def _show_columns(cursor: Cursor) -> ShowColumns:
    cursor.at += 2
    name = read_place(cursor, "the name of a table")
    if name is None:
        raise cursor.unexpected("FROM and the name of a table")
    database = read_place(cursor)
    if database is not None:
        name = Name((*database.parts, name.parts[-1]), name.place)
    return ShowColumns(name, text=cursor.fragment)


def _show_partitions(cursor: Cursor) -> ShowPartitions:
    cursor.at += 2
    name = cursor.qualified_name()
    partition = read_partition(cursor) if cursor.sees("PARTITION") else None
    return ShowPartitions(name, partition, text=cursor.fragment)


def _show_create(cursor: Cursor) -> ShowCreateTable:
    cursor.at += 3
    return ShowCreateTable(cursor.qualified_name(), text=cursor.fragment)


def _show_properties(cursor: Cursor) -> ShowProperties:
    cursor.at += 2
    name, key = cursor.qualified_name(), None
    if cursor.accept("("):
        key, _ = read_key(cursor)
        cursor.expect(")")
    return ShowProperties(name, key, text=cursor.fragment)


def _show_tags(cursor: Cursor) -> ShowTags:
    cursor.take()
    branches = cursor.take().upper == "BRANCHES"
    if not cursor.accept("IN"):
        cursor.accept("FROM")
    return ShowTags(cursor.qualified_name(), branches, text=cursor.fragment)


def _describe_query(cursor: Cursor) -> DescribeQuery:
    cursor.at += 2
    return DescribeQuery(cursor.rest("a query"), text=cursor.fragment)


def read_describe(cursor: Cursor) -> Statement:
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


GRAMMAR = _grammar()

"""The grammar of CREATE, REPLACE and DROP of databases and tables, ALTER DATABASE, COMMENT ON and USE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lakewright.errors import SQLSyntaxError, UnsupportedError
from lakewright.statements.definitions.alter import COMMENT, AlterTable, SetOptions
from lakewright.statements.definitions.columns import Column
from lakewright.statements.definitions.create import CreateTable, CreateTableLike, DropTable, TableClauses
from lakewright.statements.definitions.databases import AlterDatabase, CreateDatabase, DropDatabase, Use
from lakewright.statements.model import Command, CreateTableAs, Statement
from lakewright.statements.parse.clauses import (
    column_name,
    in_brackets,
    read_column,
    read_key,
    read_properties,
)
from lakewright.statements.parse.cursor import Cursor
from lakewright.statements.parse.types import starts_type
from lakewright.statements.text import Fragment, Name

_DATABASES = ("DATABASE", "SCHEMA", "NAMESPACE")
_OURS = ("paimon", "lakewright")
_QUERIES = ("SELECT", "WITH", "VALUES", "TABLE", "FROM", "(")
_REFUSED_CLAUSES = {
    "CLUSTERED BY": "rows are in buckets by the options: TBLPROPERTIES ('bucket' = '4', 'bucket-key' = 'id')",
    "CLUSTER BY": "rows are clustered by a compaction: set 'clustering.columns', or CALL sys.compact(...)",
    "LOCATION": "a catalog gives its tables their places; leave LOCATION out",
    "STORED": "the format of files is an option: TBLPROPERTIES ('file.format' = 'parquet')",
    "ROW FORMAT": "the format of files is an option: TBLPROPERTIES ('file.format' = 'parquet')",
    "SORTED BY": "rows of a table with a primary key are sorted by it",
}
_REFUSED_TABLES = {
    "CREATE EXTERNAL TABLE": "a catalog gives its tables their places; leave EXTERNAL out",
    "CREATE TEMPORARY TABLE": "tables stay: use CREATE TEMPORARY VIEW, or CREATE TABLE",
    "CREATE TEMP TABLE": "tables stay: use CREATE TEMPORARY VIEW, or CREATE TABLE",
}


def _grammar() -> dict[str, Callable[[Cursor], Statement]]:
    """Return what reads each phrase, the longer phrases first."""
    out: dict[str, Callable[[Cursor], Statement]] = dict.fromkeys(_REFUSED_TABLES, _refused_table)
    out |= {f"CREATE {kind}": _create_database for kind in _DATABASES}
    out |= {f"DROP {kind}": _drop_database for kind in _DATABASES}
    out |= {f"ALTER {kind}": _alter_database for kind in _DATABASES}
    out |= {"CREATE OR REPLACE TABLE": _create_table, "CREATE TABLE": _create_table, "REPLACE TABLE": _create_table}
    out |= {"DROP TABLE": _drop_table, "COMMENT ON": _comment_on, "SET CATALOG": _use, "USE": _use}
    return out


def _refused_table(cursor: Cursor) -> Statement:
    phrase = next(phrase for phrase in _REFUSED_TABLES if cursor.sees_any(phrase))
    raise cursor.error(f"{phrase} is not supported: {_REFUSED_TABLES[phrase]}", kind=UnsupportedError)


# ---- databases -------------------------------------------------------------------------------------------------------


def _database_name(cursor: Cursor) -> Name:
    return cursor.qualified_name("the name of a database")


def _create_database(cursor: Cursor) -> CreateDatabase:
    cursor.at += 2
    ignored = cursor.accept("IF", "NOT", "EXISTS")
    name = _database_name(cursor)
    properties: dict[str, str] = {}
    while not cursor.is_done:
        if cursor.accept(COMMENT):
            properties[COMMENT] = cursor.string()
        elif cursor.sees("LOCATION"):
            message = "a catalog gives its databases their places; leave LOCATION out"
            raise cursor.error(message, kind=UnsupportedError)
        elif cursor.accept("WITH", "DBPROPERTIES") or cursor.accept("WITH", "PROPERTIES"):
            properties |= read_properties(cursor)[0]
        else:
            raise cursor.unexpected("COMMENT, or WITH DBPROPERTIES (...)")
    return CreateDatabase(name, ignored, properties, text=cursor.fragment)


def _drop_database(cursor: Cursor) -> DropDatabase:
    cursor.at += 2
    ignored = cursor.accept("IF", "EXISTS")
    name = _database_name(cursor)
    cascade = cursor.accept("CASCADE")
    if not cascade:
        cursor.accept("RESTRICT")
    return DropDatabase(name, ignored, cascade, text=cursor.fragment)


def _alter_database(cursor: Cursor) -> AlterDatabase:
    cursor.at += 2
    name = _database_name(cursor)
    changes: dict[str, str | None] = {}
    if cursor.accept("SET", "DBPROPERTIES") or cursor.accept("SET", "PROPERTIES"):
        changes |= read_properties(cursor)[0]
    elif cursor.accept("UNSET", "DBPROPERTIES") or cursor.accept("UNSET", "PROPERTIES"):
        cursor.accept("IF", "EXISTS")
        changes |= dict.fromkeys(key for key, _ in in_brackets(cursor, read_key))
    elif cursor.sees("SET", "LOCATION"):
        raise cursor.error("a database cannot be moved: its place is the catalog's", kind=UnsupportedError)
    else:
        raise cursor.unexpected("SET or UNSET DBPROPERTIES (...)")
    return AlterDatabase(name, changes, text=cursor.fragment)


def _use(cursor: Cursor) -> Use:
    is_catalog = cursor.take().upper == "SET"
    rest = len(cursor.words) - cursor.at
    if rest > 1 and cursor.sees("CATALOG"):
        cursor.take()
        is_catalog = True
    elif rest > 1 and cursor.sees_any(*_DATABASES):
        cursor.take()
    if not cursor.here.is_text:
        return Use(cursor.qualified_name("the name of a database"), is_catalog, text=cursor.fragment)
    start = cursor.here.start
    text = cursor.string()
    return Use(
        Name((text,), Fragment(cursor.fragment.whole, start, cursor.fragment.end)), is_catalog, text=cursor.fragment
    )


def _comment_on(cursor: Cursor) -> Command:
    cursor.at += 2
    is_table = cursor.accept("TABLE")
    if not is_table and not any(cursor.accept(kind) for kind in _DATABASES):
        raise cursor.unexpected("TABLE or DATABASE; a column has ALTER TABLE ... ALTER COLUMN ... COMMENT")
    name = cursor.qualified_name()
    cursor.expect("IS")
    comment = None if cursor.accept("NULL") else cursor.string("a text in quotes, or NULL")
    if is_table:
        return AlterTable(name, (SetOptions({COMMENT: comment}),), text=cursor.fragment)
    return AlterDatabase(name, {COMMENT: comment}, text=cursor.fragment)


# ---- tables ----------------------------------------------------------------------------------------------------------


def _drop_table(cursor: Cursor) -> DropTable:
    cursor.at += 2
    ignored = cursor.accept("IF", "EXISTS")
    name = cursor.qualified_name()
    cursor.accept("PURGE")
    return DropTable(name, ignored, text=cursor.fragment)


@dataclass(slots=True)
class _Clauses:
    """The clauses of CREATE TABLE that are read so far."""

    options: dict[str, str] = field(default_factory=dict)
    places: dict[str, Fragment] = field(default_factory=dict)
    names: tuple[Name, ...] = ()
    columns: tuple[Column, ...] = ()
    comment: str | None = None

    def done(self) -> TableClauses:
        """Return them as a value; the property `comment` is the comment of the table."""
        comment = self.options.pop(COMMENT, None) if self.comment is None else self.comment
        return TableClauses(self.options, self.names, self.columns, comment, self.places)


def _create_table(cursor: Cursor) -> Statement:
    creates = cursor.accept("CREATE")
    replaces = cursor.accept("OR", "REPLACE") or cursor.accept("REPLACE")
    cursor.expect("TABLE")
    word = cursor.here
    ignored = cursor.accept("IF", "NOT", "EXISTS")
    if ignored and replaces:
        raise cursor.error("a table that is replaced cannot have IF NOT EXISTS", kind=SQLSyntaxError, word=word)
    name = cursor.qualified_name()
    if not replaces and cursor.accept("LIKE"):
        source = cursor.qualified_name()
        return CreateTableLike(name, source, _clauses(cursor).done(), ignored, text=cursor.fragment)
    bracket = cursor.here
    has_columns = cursor.sees("(") and not _is_query(cursor)
    columns, keys = _columns(cursor) if has_columns else ((), ())
    clauses = _clauses(cursor).done()
    create = CreateTable(name, columns, keys, clauses, ignored, replaces, creates, text=cursor.fragment)
    if cursor.accept("AS") or cursor.sees_any(*_QUERIES):
        if columns or clauses.partition_columns:
            message = "the columns of CREATE TABLE ... AS are those of the query: leave the list of columns out"
            raise cursor.error(message, kind=SQLSyntaxError, word=bracket)
        return CreateTableAs(create, cursor.rest("a query"), text=cursor.fragment)
    if not columns and not clauses.partition_columns:
        raise cursor.unexpected("the columns in brackets, or AS and a query")
    return create


def _is_query(cursor: Cursor) -> bool:
    """Say whether a bracket holds a query."""
    at = cursor.at
    while cursor.accept("("):
        pass
    found = cursor.sees_any("SELECT", "WITH")
    if cursor.sees_any("VALUES", "FROM"):  # these may be the names of columns too
        cursor.take()
        found = not starts_type(cursor)
    cursor.at = at
    return found


def _columns(cursor: Cursor) -> tuple[tuple[Column, ...], tuple[Name, ...]]:
    """Read the columns in brackets, and the names of PRIMARY KEY (...) among them."""
    keys: list[Name] = []
    columns: list[Column] = []

    def one(cursor: Cursor) -> None:
        named = cursor.sees("CONSTRAINT")
        if named:
            cursor.at += 2
        if cursor.accept("PRIMARY", "KEY"):
            keys.extend(in_brackets(cursor, column_name))
            cursor.accept("NOT", "ENFORCED")
        elif named or cursor.sees_any("UNIQUE (", "CHECK (", "FOREIGN KEY"):
            message = "of the constraints only PRIMARY KEY (...) is supported"
            raise cursor.error(message, kind=UnsupportedError)
        else:
            columns.append(_own_column(cursor))

    in_brackets(cursor, one)
    return tuple(columns), tuple(keys)


def _own_column(cursor: Cursor) -> Column:
    column = read_column(cursor)
    if len(column.path.parts) > 1:
        raise column.path.place.error(f"{column.path} has a dot: a column has one name, in backticks if need be")
    if column.move is not None:
        raise column.path.place.error("FIRST and AFTER are for ALTER TABLE: columns are in the order of the list")
    return column


def _clauses(cursor: Cursor) -> _Clauses:
    """Read the clauses behind the columns, in any order, each once."""
    found, seen = _Clauses(), set[str]()
    while not cursor.is_done:
        word = cursor.here
        phrase = next((p for p in _REFUSED_CLAUSES if cursor.sees_any(p)), None)
        if phrase is not None:
            raise cursor.error(f"{phrase} is not supported: {_REFUSED_CLAUSES[phrase]}", kind=UnsupportedError)
        if word.upper in seen:
            raise cursor.error(f"{word.text} is there twice", kind=SQLSyntaxError)
        if not _clause(cursor, found):
            break
        seen.add(word.upper)
    return found


def _clause(cursor: Cursor, found: _Clauses) -> bool:
    """Read one clause; False: none is there."""
    if cursor.accept("USING"):
        _check_provider(cursor)
    elif cursor.accept("COMMENT"):
        found.comment = cursor.string()
    elif cursor.accept("TBLPROPERTIES") or cursor.accept("OPTIONS"):
        options, places = read_properties(cursor)
        found.options |= options
        found.places |= places
    elif cursor.accept("PARTITIONED", "BY"):
        found.names, found.columns = _partitioning(cursor)
    else:
        return False
    return True


def _check_provider(cursor: Cursor) -> None:
    word = cursor.here
    provider = cursor.string() if word.is_text else cursor.name("paimon")
    if provider.lower() not in _OURS:
        message = (
            f"USING {provider} makes no table of a catalog of Paimon: leave USING out, or write USING paimon; on Spark,"
            " spark.sql(...) creates tables of other formats"
        )
        raise cursor.error(message, kind=UnsupportedError, word=word)


def _partitioning(cursor: Cursor) -> tuple[tuple[Name, ...], tuple[Column, ...]]:
    """Read the partition columns: names of columns, or columns with their types, which the table gets too."""
    names: list[Name] = []
    columns: list[Column] = []

    def one(cursor: Cursor) -> None:
        at, name = cursor.at, column_name(cursor)
        if cursor.sees("("):
            message = f"{name}(...) is not supported: name a column, which the query that writes rows can compute"
            raise name.place.error(message, kind=UnsupportedError)
        if cursor.sees(",") or cursor.sees(")"):
            names.append(name)
            return
        cursor.at = at
        columns.append(_own_column(cursor))

    in_brackets(cursor, one)
    if names and columns:
        raise names[0].place.error("give all partition columns a type, or none", kind=SQLSyntaxError)
    return tuple(names), tuple(columns)


GRAMMAR = _grammar()

"""Grammar of CREATE, ALTER, DROP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from lakewright.errors import SQLSyntaxError, UnsupportedError
from lakewright.statements.catalog_commands import AlterDatabase, CreateDatabase, DropDatabase, Use
from lakewright.statements.parse_columns import (
    column_name,
    fragment_of,
    in_brackets,
    maybe_in_brackets,
    read_column,
    read_default,
    read_key,
    read_list,
    read_move,
    read_partition,
    read_properties,
    read_type,
    starts_type,
)
from lakewright.statements.sql_text import Fragment, Name
from lakewright.statements.statements import CatalogCommand, CreateTableAs, Statement
from lakewright.statements.table_commands import (
    COMMENT,
    AddColumns,
    AlterColumn,
    AlterTable,
    ColumnDefinition,
    CreateTable,
    CreateTableLike,
    DeleteTags,
    DropColumns,
    DropPartitions,
    DropTable,
    RenameColumnAction,
    RenameTable,
    RenameTag,
    ReplaceColumns,
    SetOptions,
    SetTag,
    TableAction,
    TableClauses,
    Truncate,
)
from lakewright.statements.token_cursor import TokenCursor

# ---- ALTER TABLE, TRUNCATE TABLE -------------------------------------------------------------------------------------

_UNITS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86400, "WEEK": 604800}
_ENDS = (",", "TYPE", "COMMENT", "SET", "DROP", "FIRST", "AFTER")
_REFUSED = {
    "ADD PARTITION": "a partition is there as soon as it has rows: INSERT INTO writes them",
    "ADD IF NOT EXISTS PARTITION": "a partition is there as soon as it has rows: INSERT INTO writes them",
    "ADD CONSTRAINT": "of the constraints there is only the primary key, which a table gets when it is created",
    "DROP CONSTRAINT": "of the constraints there is only the primary key, which stays",
    "PARTITION": "a partition cannot be renamed: insert its rows with the new value, and DROP PARTITION the old one",
    "RENAME PARTITION": "insert its rows with the new value, and DROP PARTITION the old one",
    "RECOVER PARTITIONS": "the snapshots of a table say which partitions there are",
    "SET LOCATION": "a catalog gives its tables their places",
    "SET SERDE": "the format of files is an option: SET TBLPROPERTIES ('file.format' = 'parquet')",
    "SET SERDEPROPERTIES": "options are set with SET TBLPROPERTIES",
    "CLUSTER BY": "rows are clustered by a compaction: set 'clustering.columns', or CALL sys.compact(...)",
}


def _alter_grammar() -> dict[str, Callable[[TokenCursor], Statement]]:
    """Return what reads each phrase."""
    return {"ALTER TABLE": _alter_table, "TRUNCATE TABLE": _truncate}


def _truncate(cursor: TokenCursor) -> Truncate:
    cursor.at += 2
    name = cursor.qualified_name()
    partition = read_partition(cursor) if cursor.sees("PARTITION") else None
    return Truncate(name, partition, text=cursor.fragment)


def _alter_table(cursor: TokenCursor) -> CatalogCommand:
    cursor.at += 2
    name = cursor.qualified_name()
    refused = next((phrase for phrase in _REFUSED if cursor.sees_any(phrase)), None)
    if refused is not None:
        raise cursor.error(f"ALTER TABLE ... {refused} is not supported: {_REFUSED[refused]}", kind=UnsupportedError)
    if cursor.sees_any("CREATE", "REPLACE TAG"):
        return _set_tag(cursor, name)
    if cursor.accept("DELETE", "TAG"):
        ignored, place = cursor.accept("IF", "EXISTS"), fragment_of(cursor, cursor.here)
        return DeleteTags(name, _tag(cursor), place, ignored, text=cursor.fragment)
    if cursor.accept("RENAME", "TAG"):
        place, tag = fragment_of(cursor, cursor.here), _tag(cursor)
        cursor.expect("TO")
        return RenameTag(name, tag, _tag(cursor), place, text=cursor.fragment)
    if cursor.accept("RENAME", "TO"):
        return RenameTable(name, cursor.qualified_name(), text=cursor.fragment)
    if cursor.sees_any("DROP PARTITION", "DROP IF EXISTS PARTITION"):
        cursor.take()
        ignored = cursor.accept("IF", "EXISTS")
        partitions = read_list(cursor, read_partition)
        cursor.accept("PURGE")
        return DropPartitions(name, partitions, ignored, text=cursor.fragment)
    return AlterTable(name, _actions(cursor), text=cursor.fragment)


# ---- columns and properties ------------------------------------------------------------------------------------------


def _actions(cursor: TokenCursor) -> tuple[TableAction, ...]:
    """Read one action; ALTER COLUMN may name several columns."""
    if cursor.accept("ADD", "COLUMNS") or cursor.accept("ADD", "COLUMN"):
        return (AddColumns(maybe_in_brackets(cursor, _new_column)),)
    if cursor.accept("DROP", "COLUMNS") or cursor.accept("DROP", "COLUMN"):
        ignored = cursor.accept("IF", "EXISTS")
        return (DropColumns(maybe_in_brackets(cursor, column_name), ignored),)
    if cursor.accept("RENAME", "COLUMN"):
        path = column_name(cursor)
        cursor.expect("TO")
        return (RenameColumnAction(path, cursor.name("the new name of the column")),)
    if cursor.accept("REPLACE", "COLUMNS"):
        return (ReplaceColumns(in_brackets(cursor, _new_column)),)
    if cursor.accept("SET", "TBLPROPERTIES"):
        return (SetOptions(*read_properties(cursor)),)
    if cursor.accept("UNSET", "TBLPROPERTIES"):
        cursor.accept("IF", "EXISTS")
        places = dict(in_brackets(cursor, read_key))
        return (SetOptions(dict.fromkeys(places), places),)
    if cursor.accept("ALTER") or cursor.accept("CHANGE"):
        cursor.accept("COLUMN")
        return tuple(action for actions in read_list(cursor, _alter_column) for action in actions)
    raise cursor.unexpected_word(
        "ADD, DROP, RENAME, ALTER or REPLACE COLUMN, SET or UNSET TBLPROPERTIES, RENAME TO, DROP PARTITION,"
        " or CREATE, REPLACE, DELETE or RENAME TAG"
    )


def _new_column(cursor: TokenCursor) -> ColumnDefinition:
    """Read a column to be added. It has no default, as rows that exist would not have it, and Spark says they do."""
    column = read_column(cursor)
    if column.default is not None:
        message = (
            "a column is added without a default, and rows that exist have null in it: add it, then write ALTER COLUMN"
            f" {column.path} SET DEFAULT ... for the rows to come"
        )
        raise column.path.place.error(message, kind=UnsupportedError)
    return column


def _alter_column(cursor: TokenCursor) -> list[TableAction]:
    path = column_name(cursor)
    facts: dict[str, object] = {}
    while not cursor.is_done and not cursor.sees(","):
        word = cursor.here
        fact = _column_change(cursor)
        if fact is None:
            return _changed_as_hive(cursor, path) if not facts else _no_change(cursor)
        if fact[0] in facts:
            raise cursor.error(f"{word.text} is there twice", kind=SQLSyntaxError, word=word)
        facts.update([fact])
    if not facts:
        _no_change(cursor)
    return [AlterColumn(path, **facts)]  # type: ignore[arg-type]


def _no_change(cursor: TokenCursor) -> list[TableAction]:
    raise cursor.unexpected_word("TYPE, COMMENT, SET or DROP NOT NULL, SET or DROP DEFAULT, FIRST, or AFTER")


def _column_change(cursor: TokenCursor) -> tuple[str, object] | None:
    if cursor.accept("TYPE"):
        return "type", read_type(cursor)
    if cursor.accept("COMMENT"):
        return "comment", cursor.string()
    if cursor.accept("SET", "NOT", "NULL"):
        return "nullable", False
    if cursor.accept("DROP", "NOT", "NULL"):
        return "nullable", True
    if cursor.accept("SET", "DEFAULT"):
        text = read_default(cursor, *_ENDS)
        return ("drop_default", True) if text is None else ("default", text)
    if cursor.accept("DROP", "DEFAULT"):
        return "drop_default", True
    if cursor.sees_any("FIRST", "AFTER"):
        return "move", read_move(cursor)
    return None


def _changed_as_hive(cursor: TokenCursor, path: Name) -> list[TableAction]:
    """Read `CHANGE COLUMN old new type [COMMENT text] [FIRST | AFTER column]`."""
    if len(cursor.words) - cursor.at < 2:  # noqa: PLR2004 - a name and a type
        _no_change(cursor)
    column = read_column(cursor)
    new = column.path.parts[-1]
    default = {} if column.default is None else {"default": column.default}
    nullable = {} if column.type.nullable else {"nullable": False}
    changed = AlterColumn(path, column.type, comment=column.comment, move=column.move, **default, **nullable)  # type: ignore[arg-type]
    renamed: list[TableAction] = [] if new == path.parts[-1] else [RenameColumnAction(path, new)]
    return [changed, *renamed]


# ---- tags ------------------------------------------------------------------------------------------------------------


def _tag(cursor: TokenCursor) -> str:
    return cursor.string() if cursor.here.is_text else cursor.name("the name of a tag")


def _set_tag(cursor: TokenCursor, name: Name) -> SetTag:
    creates = cursor.accept("CREATE")
    replaces = cursor.accept("OR", "REPLACE") or cursor.accept("REPLACE")
    cursor.expect("TAG")
    word = cursor.here
    ignored = cursor.accept("IF", "NOT", "EXISTS")
    if ignored and replaces:
        raise cursor.error("a tag that is replaced cannot have IF NOT EXISTS", kind=SQLSyntaxError, word=word)
    place: Fragment = fragment_of(cursor, cursor.here)
    tag = _tag(cursor)
    snapshot = cursor.integer("the id of a snapshot") if cursor.accept("AS", "OF", "VERSION") else None
    retained = _read_retention(cursor) if cursor.accept("RETAIN") else None
    return SetTag(name, tag, place, snapshot, retained, creates, replaces, ignored, text=cursor.fragment)


def _read_retention(cursor: TokenCursor) -> timedelta:
    number = cursor.integer()
    unit = cursor.here.upper.removesuffix("S")
    if unit not in _UNITS:
        raise cursor.unexpected_word("DAYS, HOURS, MINUTES, SECONDS or WEEKS")
    cursor.take()
    return timedelta(seconds=number * _UNITS[unit])


ALTER_GRAMMAR = _alter_grammar()


# ---- CREATE, DROP, ALTER DATABASE, USE -------------------------------------------------------------------------------

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


def _create_grammar() -> dict[str, Callable[[TokenCursor], Statement]]:
    """Return what reads each phrase, the longer phrases first."""
    out: dict[str, Callable[[TokenCursor], Statement]] = dict.fromkeys(_REFUSED_TABLES, _refused_table)
    out |= {f"CREATE {kind}": _create_database for kind in _DATABASES}
    out |= {f"DROP {kind}": _drop_database for kind in _DATABASES}
    out |= {f"ALTER {kind}": _alter_database for kind in _DATABASES}
    out |= {"CREATE OR REPLACE TABLE": _create_table, "CREATE TABLE": _create_table, "REPLACE TABLE": _create_table}
    out |= {"DROP TABLE": _drop_table, "COMMENT ON": _comment_on, "SET CATALOG": _use, "USE": _use}
    return out


def _refused_table(cursor: TokenCursor) -> Statement:
    phrase = next(phrase for phrase in _REFUSED_TABLES if cursor.sees_any(phrase))
    raise cursor.error(f"{phrase} is not supported: {_REFUSED_TABLES[phrase]}", kind=UnsupportedError)


# ---- databases -------------------------------------------------------------------------------------------------------


def _database_name(cursor: TokenCursor) -> Name:
    return cursor.qualified_name("the name of a database")


def _create_database(cursor: TokenCursor) -> CreateDatabase:
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
            raise cursor.unexpected_word("COMMENT, or WITH DBPROPERTIES (...)")
    return CreateDatabase(name, ignored, properties, text=cursor.fragment)


def _drop_database(cursor: TokenCursor) -> DropDatabase:
    cursor.at += 2
    ignored = cursor.accept("IF", "EXISTS")
    name = _database_name(cursor)
    cascade = cursor.accept("CASCADE")
    if not cascade:
        cursor.accept("RESTRICT")
    return DropDatabase(name, ignored, cascade, text=cursor.fragment)


def _alter_database(cursor: TokenCursor) -> AlterDatabase:
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
        raise cursor.unexpected_word("SET or UNSET DBPROPERTIES (...)")
    return AlterDatabase(name, changes, text=cursor.fragment)


def _use(cursor: TokenCursor) -> Use:
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


def _comment_on(cursor: TokenCursor) -> CatalogCommand:
    cursor.at += 2
    is_table = cursor.accept("TABLE")
    if not is_table and not any(cursor.accept(kind) for kind in _DATABASES):
        raise cursor.unexpected_word("TABLE or DATABASE; a column has ALTER TABLE ... ALTER COLUMN ... COMMENT")
    name = cursor.qualified_name()
    cursor.expect("IS")
    comment = None if cursor.accept("NULL") else cursor.string("a text in quotes, or NULL")
    if is_table:
        return AlterTable(name, (SetOptions({COMMENT: comment}),), text=cursor.fragment)
    return AlterDatabase(name, {COMMENT: comment}, text=cursor.fragment)


# ---- tables ----------------------------------------------------------------------------------------------------------


def _drop_table(cursor: TokenCursor) -> DropTable:
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
    columns: tuple[ColumnDefinition, ...] = ()
    comment: str | None = None

    def to_clauses(self) -> TableClauses:
        """Return them as a value; the property `comment` is the comment of the table."""
        comment = self.options.pop(COMMENT, None) if self.comment is None else self.comment
        return TableClauses(self.options, self.names, self.columns, comment, self.places)


def _create_table(cursor: TokenCursor) -> Statement:
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
        return CreateTableLike(name, source, _clauses(cursor).to_clauses(), ignored, text=cursor.fragment)
    bracket = cursor.here
    has_columns = cursor.sees("(") and not _is_query(cursor)
    columns, keys = _columns(cursor) if has_columns else ((), ())
    clauses = _clauses(cursor).to_clauses()
    create = CreateTable(name, columns, keys, clauses, ignored, replaces, creates, text=cursor.fragment)
    if cursor.accept("AS") or cursor.sees_any(*_QUERIES):
        if columns or clauses.partition_columns:
            message = "the columns of CREATE TABLE ... AS are those of the query: leave the list of columns out"
            raise cursor.error(message, kind=SQLSyntaxError, word=bracket)
        return CreateTableAs(create, cursor.rest("a query"), text=cursor.fragment)
    if not columns and not clauses.partition_columns:
        raise cursor.unexpected_word("the columns in brackets, or AS and a query")
    return create


def _is_query(cursor: TokenCursor) -> bool:
    """Return whether a bracket holds a query."""
    at = cursor.at
    while cursor.accept("("):
        pass
    found = cursor.sees_any("SELECT", "WITH")
    if cursor.sees_any("VALUES", "FROM"):  # these may be the names of columns too
        cursor.take()
        found = not starts_type(cursor)
    cursor.at = at
    return found


def _columns(cursor: TokenCursor) -> tuple[tuple[ColumnDefinition, ...], tuple[Name, ...]]:
    """Read the columns in brackets, and the names of PRIMARY KEY (...) among them."""
    keys: list[Name] = []
    columns: list[ColumnDefinition] = []

    def one(cursor: TokenCursor) -> None:
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


def _own_column(cursor: TokenCursor) -> ColumnDefinition:
    column = read_column(cursor)
    if len(column.path.parts) > 1:
        raise column.path.place.error(f"{column.path} has a dot: a column has one name, in backticks if need be")
    if column.move is not None:
        raise column.path.place.error("FIRST and AFTER are for ALTER TABLE: columns are in the order of the list")
    return column


def _clauses(cursor: TokenCursor) -> _Clauses:
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


def _clause(cursor: TokenCursor, found: _Clauses) -> bool:
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


def _check_provider(cursor: TokenCursor) -> None:
    word = cursor.here
    provider = cursor.string() if word.is_text else cursor.name("paimon")
    if provider.lower() not in _OURS:
        message = (
            f"USING {provider} makes no table of a catalog of Paimon: leave USING out, or write USING paimon; on Spark,"
            " spark.sql(...) creates tables of other formats"
        )
        raise cursor.error(message, kind=UnsupportedError, word=word)


def _partitioning(cursor: TokenCursor) -> tuple[tuple[Name, ...], tuple[ColumnDefinition, ...]]:
    """Read the partition columns: names of columns, or columns with their types, which the table gets too."""
    names: list[Name] = []
    columns: list[ColumnDefinition] = []

    def one(cursor: TokenCursor) -> None:
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


CREATE_GRAMMAR = _create_grammar()

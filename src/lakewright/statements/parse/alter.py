"""The grammar of ALTER TABLE: columns, properties, partitions, tags and names; and of TRUNCATE TABLE."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from lakewright.errors import SQLSyntaxError, UnsupportedError
from lakewright.statements.definitions.alter import (
    AddColumns,
    AlterColumn,
    AlterTable,
    DropColumns,
    RenameColumn,
    ReplaceColumns,
    SetOptions,
    TableAction,
)
from lakewright.statements.definitions.columns import Column
from lakewright.statements.definitions.create import RenameTable
from lakewright.statements.definitions.partitions import DropPartitions, Truncate
from lakewright.statements.definitions.tags import DeleteTags, RenameTag, SetTag
from lakewright.statements.model import Command, Statement
from lakewright.statements.parse.clauses import (
    column_name,
    fragment_of,
    in_brackets,
    listed,
    maybe_in_brackets,
    read_column,
    read_default,
    read_key,
    read_move,
    read_partition,
    read_properties,
)
from lakewright.statements.parse.cursor import Cursor
from lakewright.statements.parse.types import read_type
from lakewright.statements.text import Fragment, Name

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


def _grammar() -> dict[str, Callable[[Cursor], Statement]]:
    """Return what reads each phrase."""
    return {"ALTER TABLE": _alter_table, "TRUNCATE TABLE": _truncate}


def _truncate(cursor: Cursor) -> Truncate:
    cursor.at += 2
    name = cursor.qualified_name()
    partition = read_partition(cursor) if cursor.sees("PARTITION") else None
    return Truncate(name, partition, text=cursor.fragment)


def _alter_table(cursor: Cursor) -> Command:
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
        partitions = listed(cursor, read_partition)
        cursor.accept("PURGE")
        return DropPartitions(name, partitions, ignored, text=cursor.fragment)
    return AlterTable(name, _actions(cursor), text=cursor.fragment)


# ---- columns and properties ------------------------------------------------------------------------------------------


def _actions(cursor: Cursor) -> tuple[TableAction, ...]:
    """Read one action; ALTER COLUMN may name several columns."""
    if cursor.accept("ADD", "COLUMNS") or cursor.accept("ADD", "COLUMN"):
        return (AddColumns(maybe_in_brackets(cursor, _new_column)),)
    if cursor.accept("DROP", "COLUMNS") or cursor.accept("DROP", "COLUMN"):
        ignored = cursor.accept("IF", "EXISTS")
        return (DropColumns(maybe_in_brackets(cursor, column_name), ignored),)
    if cursor.accept("RENAME", "COLUMN"):
        path = column_name(cursor)
        cursor.expect("TO")
        return (RenameColumn(path, cursor.name("the new name of the column")),)
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
        return tuple(action for actions in listed(cursor, _alter_column) for action in actions)
    raise cursor.unexpected(
        "ADD, DROP, RENAME, ALTER or REPLACE COLUMN, SET or UNSET TBLPROPERTIES, RENAME TO, DROP PARTITION,"
        " or CREATE, REPLACE, DELETE or RENAME TAG"
    )


def _new_column(cursor: Cursor) -> Column:
    """Read a column to be added. It has no default, as rows that exist would not have it, and Spark says they do."""
    column = read_column(cursor)
    if column.default is not None:
        message = (
            "a column is added without a default, and rows that exist have null in it: add it, then write ALTER COLUMN"
            f" {column.path} SET DEFAULT ... for the rows to come"
        )
        raise column.path.place.error(message, kind=UnsupportedError)
    return column


def _alter_column(cursor: Cursor) -> list[TableAction]:
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


def _no_change(cursor: Cursor) -> list[TableAction]:
    raise cursor.unexpected("TYPE, COMMENT, SET or DROP NOT NULL, SET or DROP DEFAULT, FIRST, or AFTER")


def _column_change(cursor: Cursor) -> tuple[str, object] | None:
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


def _changed_as_hive(cursor: Cursor, path: Name) -> list[TableAction]:
    """Read `CHANGE COLUMN old new type [COMMENT text] [FIRST | AFTER column]`."""
    if len(cursor.words) - cursor.at < 2:  # noqa: PLR2004 - a name and a type
        _no_change(cursor)
    column = read_column(cursor)
    new = column.path.parts[-1]
    default = {} if column.default is None else {"default": column.default}
    nullable = {} if column.type.nullable else {"nullable": False}
    changed = AlterColumn(path, column.type, comment=column.comment, move=column.move, **default, **nullable)  # type: ignore[arg-type]
    renamed: list[TableAction] = [] if new == path.parts[-1] else [RenameColumn(path, new)]
    return [changed, *renamed]


# ---- tags ------------------------------------------------------------------------------------------------------------


def _tag(cursor: Cursor) -> str:
    return cursor.string() if cursor.here.is_text else cursor.name("the name of a tag")


def _set_tag(cursor: Cursor, name: Name) -> SetTag:
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
    retained = _retained(cursor) if cursor.accept("RETAIN") else None
    return SetTag(name, tag, place, snapshot, retained, creates, replaces, ignored, text=cursor.fragment)


def _retained(cursor: Cursor) -> timedelta:
    number = cursor.integer()
    unit = cursor.here.upper.removesuffix("S")
    if unit not in _UNITS:
        raise cursor.unexpected("DAYS, HOURS, MINUTES, SECONDS or WEEKS")
    cursor.take()
    return timedelta(seconds=number * _UNITS[unit])


GRAMMAR = _grammar()

"""Parts that many commands have: words in; columns with their types, properties, partitions and patterns out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lakewright.errors import SQLSyntaxError, UnsupportedError
from lakewright.spec.schema.changes import Move
from lakewright.spec.types import with_nullable
from lakewright.statements.definitions.columns import Column, after
from lakewright.statements.definitions.partitions import PartitionSpec
from lakewright.statements.literals import literal_text
from lakewright.statements.parse.cursor import Cursor, Word
from lakewright.statements.parse.types import read_type
from lakewright.statements.text import Fragment, Name

T = TypeVar("T")
_COLUMN_ENDS = (",", "NOT NULL", "COMMENT", "FIRST", "AFTER", "GENERATED", "PRIMARY KEY", "DEFAULT")


def listed(cursor: Cursor, read: Callable[[Cursor], T]) -> tuple[T, ...]:
    """Read things with commas between them."""
    found = [read(cursor)]
    while cursor.accept(","):
        found.append(read(cursor))
    return tuple(found)


def in_brackets(cursor: Cursor, read: Callable[[Cursor], T]) -> tuple[T, ...]:
    """Read things in brackets, with commas between them."""
    cursor.expect("(")
    found = listed(cursor, read)
    cursor.expect(")")
    return found


def maybe_in_brackets(cursor: Cursor, read: Callable[[Cursor], T]) -> tuple[T, ...]:
    """Read things with commas between them, in brackets or not."""
    return in_brackets(cursor, read) if cursor.sees("(") else listed(cursor, read)


def column_name(cursor: Cursor) -> Name:
    """Read the name of a column, or the path to a field inside one."""
    return cursor.qualified_name("the name of a column")


def fragment_of(cursor: Cursor, word: Word) -> Fragment:
    """Return a word as a slice of the text."""
    return Fragment(cursor.fragment.whole, word.start, word.end)


def read_column(cursor: Cursor) -> Column:
    """Read the definition of a column."""
    path = column_name(cursor)
    dtype = read_type(cursor)
    facts: dict[str, object] = {}
    while True:
        word = cursor.here
        fact = _column_fact(cursor)
        if fact is None:
            break
        if fact[0] in facts:
            raise cursor.error(f"{word.text} is there twice", kind=SQLSyntaxError, word=word)
        facts.update([fact])
    nullable = bool(facts.pop("nullable", True))
    return Column(path, with_nullable(dtype, nullable), **facts)  # type: ignore[arg-type]


def _column_fact(cursor: Cursor) -> tuple[str, object] | None:
    """Read what may stand behind the type of a column; None: nothing of it."""
    if cursor.accept("NOT", "NULL"):
        return "nullable", False
    if cursor.accept("NULL"):
        return "nullable", True
    if cursor.accept("COMMENT"):
        return "comment", cursor.string()
    if cursor.accept("DEFAULT"):
        return "default", read_default(cursor, *_COLUMN_ENDS)
    if cursor.sees_any("FIRST", "AFTER"):
        return "move", read_move(cursor)
    if cursor.accept("PRIMARY", "KEY"):
        return "is_key", True
    if cursor.sees("GENERATED"):
        message = "the values of a column cannot be generated: compute them in the query that writes the rows"
        raise cursor.error(message, kind=UnsupportedError)
    return None


def read_default(cursor: Cursor, *ends: str) -> str | None:
    """Read the default of a column up to some phrases, as schemas store it; None is NULL, which is no default."""
    text = literal_text(cursor.until(*ends), what="a default")
    looks_quoted = text is not None and len(text) > 1 and text.startswith("'") and text.endswith("'")
    return f"'{text}'" if looks_quoted else text  # quotes around the text are no part of the value


def read_move(cursor: Cursor) -> Move:
    """Read FIRST or AFTER column."""
    if cursor.accept("FIRST"):
        return after(None)
    cursor.expect("AFTER")
    return after(cursor.name("the name of a column"))


def read_properties(cursor: Cursor) -> tuple[dict[str, str], dict[str, Fragment]]:
    """Read `('key' = 'value', other.key = 5)`, and return the values and the places of the keys."""
    cursor.expect("(")
    values: dict[str, str] = {}
    places: dict[str, Fragment] = {}
    while True:
        key, place = read_key(cursor)
        if key in values:
            raise place.error(f"the key {key!r} is there twice")
        cursor.accept("=")
        values[key], places[key] = _property_value(cursor), place
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return values, places


def read_key(cursor: Cursor) -> tuple[str, Fragment]:
    """Read the key of a property: a text, or names with dots or dashes between them."""
    word = cursor.here
    if word.is_text:
        return cursor.string(), fragment_of(cursor, word)
    key = cursor.name("the key of a property")
    end = word.end
    while cursor.here.text in {".", "-"} and cursor.here.start == end:
        key += cursor.take().text
        end = cursor.here.end
        key += cursor.name("the rest of the key")
    return key, Fragment(cursor.fragment.whole, word.start, end)


def _property_value(cursor: Cursor) -> str:
    if cursor.here.is_text:
        return cursor.string()
    if cursor.sees(",") or cursor.sees(")"):
        raise cursor.unexpected("a value: a text in quotes, a number, true or false")
    fragment = cursor.until(",", what="a value")
    value = literal_text(fragment, what="the value of a property")
    if value is None:
        raise fragment.error("a property cannot be NULL: leave it out, or use UNSET")
    return value


def read_partition(cursor: Cursor) -> PartitionSpec:
    """Read `PARTITION (day = '2026-01-31', hour)`."""
    start = cursor.here.start
    cursor.expect("PARTITION")
    values: dict[str, Fragment | None] = {}

    def one(cursor: Cursor) -> None:
        word = cursor.here
        name = cursor.name("the name of a partition column")
        if name in values:
            raise cursor.error(f"the column {name} is there twice", kind=SQLSyntaxError, word=word)
        if cursor.here.text in {"<", ">", "<=", ">=", "<>", "!="}:
            message = "a partition is named by equal values: use DELETE FROM ... WHERE for a range"
            raise cursor.error(message, kind=UnsupportedError)
        values[name] = cursor.until(",") if cursor.accept("=") else None

    in_brackets(cursor, one)
    return PartitionSpec(values, Fragment(cursor.fragment.whole, start, cursor.words[cursor.at - 1].end))


def read_pattern(cursor: Cursor) -> str | None:
    """Read `[LIKE] 'pattern'`, if it is there."""
    return cursor.string("a pattern in quotes") if cursor.accept("LIKE") or cursor.here.is_text else None


def read_place(cursor: Cursor, what: str = "the name of a database") -> Name | None:
    """Read `IN name` or `FROM name`, if it is there."""
    return cursor.qualified_name(what) if cursor.accept("IN") or cursor.accept("FROM") else None

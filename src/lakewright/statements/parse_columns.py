"""Columns, types, properties and partitions in statements."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TypeVar

from lakewright.errors import InvalidInputError, SQLSyntaxError, UnsupportedError
from lakewright.spec.argument_checks import suggest_name
from lakewright.spec.schema import Move
from lakewright.spec.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    with_nullable,
)
from lakewright.statements.sql_text import Fragment, Name
from lakewright.statements.table_commands import ColumnDefinition, PartitionSpec, after
from lakewright.statements.token_cursor import TokenCursor, Word, literal_text

# ---- Types -----------------------------------------------------------------------------------------------------------
# The names are Spark's and mean what they mean there: TIMESTAMP is a moment (WITH LOCAL TIME ZONE), TIMESTAMP_NTZ a
# time without a zone, BINARY has any length, keys of maps are never null. What Spark has no name for is written as
# `SHOW CREATE TABLE` shows it: TIMESTAMP_NTZ(3), BINARY(16), MULTISET<INT>, ARRAY<INT NOT NULL>.

# Spark's names, and the names of the format; `{}` is replaced by the parameters, which may be left out.
_ATOMIC = {
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "TINYINT",
    "BYTE": "TINYINT",
    "SMALLINT": "SMALLINT",
    "SHORT": "SMALLINT",
    "INT": "INT",
    "INTEGER": "INT",
    "BIGINT": "BIGINT",
    "LONG": "BIGINT",
    "FLOAT": "FLOAT",
    "REAL": "FLOAT",
    "DOUBLE": "DOUBLE",
    "STRING": "STRING",
    "BYTES": "BYTES",
    "DATE": "DATE",
    "VARIANT": "VARIANT",
    "BLOB": "BLOB",
    "DECIMAL": "DECIMAL{}",
    "DEC": "DECIMAL{}",
    "NUMERIC": "DECIMAL{}",
    "CHAR": "CHAR{}",
    "CHARACTER": "CHAR{}",
    "VARCHAR": "VARCHAR{}",
    "BINARY": "BINARY{}",
    "VARBINARY": "VARBINARY{}",
    "TIME": "TIME{}",
    "TIMESTAMP": "TIMESTAMP{} WITH LOCAL TIME ZONE",
    "TIMESTAMP_LTZ": "TIMESTAMP{} WITH LOCAL TIME ZONE",
    "TIMESTAMP_NTZ": "TIMESTAMP{}",
}
_WITHOUT_PARAMETER = {"BINARY": "BYTES", "VARBINARY": "BYTES", "TIME": "TIME(3)"}  # TIME: what the format stores
_NEEDS_LENGTH = {"CHAR", "CHARACTER", "VARCHAR"}
_NESTED = ("ARRAY", "MAP", "STRUCT", "ROW", "MULTISET", "VECTOR")


def starts_type(cursor: TokenCursor) -> bool:
    """Return whether the next word is the name of a type."""
    return cursor.here.upper in _ATOMIC or cursor.here.upper in _NESTED


def read_type(cursor: TokenCursor) -> DataType:
    """Read a type, which may hold nulls; a NOT NULL that follows is left to the caller."""
    word = cursor.here
    keyword = word.upper
    if keyword in _NESTED:
        return _read_nested_type(cursor)
    if keyword in {"INTERVAL", "VOID", "NULL"}:
        message = f"a table has no columns of the type {word.text}: use a number or a text"
        raise cursor.error(message, kind=UnsupportedError)
    if keyword not in _ATOMIC:
        if word.is_text or word.is_quoted or not word.text.isidentifier():
            raise cursor.unexpected_word("a type")
        hint = suggest_name(keyword, [*_ATOMIC, *_NESTED])
        raise cursor.error(f"there is no type {word.text}; {hint}", kind=SQLSyntaxError)
    cursor.take()
    cursor.accept("PRECISION") if keyword == "DOUBLE" else None
    return _atomic(cursor, word, _parameters(cursor, word))


def read_part(cursor: TokenCursor, *, nullable: bool) -> DataType:
    """Read the type of a part, with NULL or NOT NULL behind it if it says so."""
    dtype = read_type(cursor)
    if cursor.accept("NOT", "NULL"):
        nullable = False
    elif cursor.accept("NULL"):
        nullable = True
    return with_nullable(dtype, nullable)


def _atomic(cursor: TokenCursor, word: Word, parameters: str) -> DataType:
    keyword = word.upper
    if keyword in _NEEDS_LENGTH and not parameters:
        raise cursor.error(f"{word.text} needs a length, such as {word.text}(10); or use STRING", kind=SQLSyntaxError)
    text = _ATOMIC[keyword].format(parameters)
    if not parameters:
        text = _WITHOUT_PARAMETER.get(keyword, text)
    if keyword == "TIMESTAMP":
        text = _read_time_zone(cursor, text, parameters)
    try:
        return AtomicType(text)
    except InvalidInputError as error:
        raise cursor.error(error.message, kind=SQLSyntaxError, word=word) from None


def _read_time_zone(cursor: TokenCursor, text: str, parameters: str) -> str:
    if cursor.accept("WITHOUT", "TIME", "ZONE"):
        return f"TIMESTAMP{parameters}"
    cursor.accept("WITH", "LOCAL", "TIME", "ZONE")
    return text


def _parameters(cursor: TokenCursor, word: Word) -> str:
    if not cursor.sees("("):
        return ""
    if "{}" not in _ATOMIC[word.upper]:
        raise cursor.error(f"the type {word.text} has no parameters", kind=SQLSyntaxError)
    cursor.take()
    numbers = [cursor.integer()]
    while cursor.accept(","):
        numbers.append(cursor.integer())
    cursor.expect(")")
    return f"({', '.join(map(str, numbers))})"


def _read_nested_type(cursor: TokenCursor) -> DataType:
    keyword = cursor.take().upper
    if cursor.sees("<>"):
        raise cursor.error("a STRUCT needs at least one field", kind=SQLSyntaxError)
    cursor.expect("<")
    dtype: DataType
    if keyword == "ARRAY":
        dtype = ArrayType(nullable=True, element_type=read_part(cursor, nullable=True))
    elif keyword == "MULTISET":
        dtype = MultisetType(nullable=True, element_type=read_part(cursor, nullable=True))
    elif keyword == "VECTOR":
        dtype = _vector(cursor)
    elif keyword == "MAP":
        key = read_part(cursor, nullable=False)
        cursor.expect(",")
        dtype = MapType(nullable=True, key_type=key, value_type=read_part(cursor, nullable=True))
    else:
        dtype = RowType(nullable=True, fields=_fields(cursor))
    cursor.expect(">")
    return dtype


def _vector(cursor: TokenCursor) -> VectorType:
    word = cursor.here
    element = read_type(cursor)
    cursor.expect(",")
    try:
        return VectorType(nullable=True, element=element, length=cursor.integer())
    except InvalidInputError as error:
        raise cursor.error(error.message, kind=SQLSyntaxError, word=word) from None


def _fields(cursor: TokenCursor) -> list[DataField]:
    fields: list[DataField] = []
    for number in count():
        word = cursor.here
        name = cursor.name("the name of a field")
        if any(field.name == name for field in fields):
            raise cursor.error(f"the field {name} is there twice", kind=SQLSyntaxError, word=word)
        cursor.accept(":")
        dtype = read_part(cursor, nullable=True)
        comment = cursor.string() if cursor.accept("COMMENT") else None
        fields.append(DataField(number, name, dtype, comment))
        if not cursor.accept(","):
            break
    return fields


# ---- Columns, properties, partitions ---------------------------------------------------------------------------------

T = TypeVar("T")
_COLUMN_ENDS = (",", "NOT NULL", "COMMENT", "FIRST", "AFTER", "GENERATED", "PRIMARY KEY", "DEFAULT")


def read_list(cursor: TokenCursor, read: Callable[[TokenCursor], T]) -> tuple[T, ...]:
    """Read things with commas between them."""
    found = [read(cursor)]
    while cursor.accept(","):
        found.append(read(cursor))
    return tuple(found)


def in_brackets(cursor: TokenCursor, read: Callable[[TokenCursor], T]) -> tuple[T, ...]:
    """Read things in brackets, with commas between them."""
    cursor.expect("(")
    found = read_list(cursor, read)
    cursor.expect(")")
    return found


def maybe_in_brackets(cursor: TokenCursor, read: Callable[[TokenCursor], T]) -> tuple[T, ...]:
    """Read things with commas between them, in brackets or not."""
    return in_brackets(cursor, read) if cursor.sees("(") else read_list(cursor, read)


def column_name(cursor: TokenCursor) -> Name:
    """Read the name of a column, or the path to a field inside one."""
    return cursor.qualified_name("the name of a column")


def fragment_of(cursor: TokenCursor, word: Word) -> Fragment:
    """Return a word as a slice of the text."""
    return Fragment(cursor.fragment.whole, word.start, word.end)


def read_column(cursor: TokenCursor) -> ColumnDefinition:
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
    return ColumnDefinition(path, with_nullable(dtype, nullable), **facts)  # type: ignore[arg-type]


def _column_fact(cursor: TokenCursor) -> tuple[str, object] | None:
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


def read_default(cursor: TokenCursor, *ends: str) -> str | None:
    """Read the default of a column up to some phrases, as schemas store it; None is NULL, which is no default."""
    text = literal_text(cursor.until(*ends), what="a default")
    looks_quoted = text is not None and len(text) > 1 and text.startswith("'") and text.endswith("'")
    return f"'{text}'" if looks_quoted else text  # quotes around the text are no part of the value


def read_move(cursor: TokenCursor) -> Move:
    """Read FIRST or AFTER column."""
    if cursor.accept("FIRST"):
        return after(None)
    cursor.expect("AFTER")
    return after(cursor.name("the name of a column"))


def read_properties(cursor: TokenCursor) -> tuple[dict[str, str], dict[str, Fragment]]:
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


def read_key(cursor: TokenCursor) -> tuple[str, Fragment]:
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


def _property_value(cursor: TokenCursor) -> str:
    if cursor.here.is_text:
        return cursor.string()
    if cursor.sees(",") or cursor.sees(")"):
        raise cursor.unexpected_word("a value: a text in quotes, a number, true or false")
    fragment = cursor.until(",", what="a value")
    value = literal_text(fragment, what="the value of a property")
    if value is None:
        raise fragment.error("a property cannot be NULL: leave it out, or use UNSET")
    return value


def read_partition(cursor: TokenCursor) -> PartitionSpec:
    """Read `PARTITION (day = '2026-01-31', hour)`."""
    start = cursor.here.start
    cursor.expect("PARTITION")
    values: dict[str, Fragment | None] = {}

    def one(cursor: TokenCursor) -> None:
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


def read_pattern(cursor: TokenCursor) -> str | None:
    """Read `[LIKE] 'pattern'`, if it is there."""
    return cursor.string("a pattern in quotes") if cursor.accept("LIKE") or cursor.here.is_text else None


def read_place(cursor: TokenCursor, what: str = "the name of a database") -> Name | None:
    """Read `IN name` or `FROM name`, if it is there."""
    return cursor.qualified_name(what) if cursor.accept("IN") or cursor.accept("FROM") else None

"""Types of columns: words such as `STRUCT<a: INT NOT NULL, b: ARRAY<STRING>>` in, types of the format out.

The names are Spark's and mean what they mean there: TIMESTAMP is a moment (WITH LOCAL TIME ZONE), TIMESTAMP_NTZ a time
without a zone, BINARY has any length, keys of maps are never null. What Spark has no name for is written as
`SHOW CREATE TABLE` shows it: TIMESTAMP_NTZ(3), BINARY(16), MULTISET<INT>, ARRAY<INT NOT NULL>.
"""

from __future__ import annotations

from itertools import count

from lakewright.errors import InvalidInputError, SQLSyntaxError, UnsupportedError
from lakewright.spec.arguments import did_you_mean
from lakewright.spec.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    with_nullable,
)
from lakewright.statements.parse.cursor import Cursor, Word

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
_NESTED = ("ARRAY", "MAP", "STRUCT", "ROW", "MULTISET")


def starts_type(cursor: Cursor) -> bool:
    """Say whether the next word is the name of a type."""
    return cursor.here.upper in _ATOMIC or cursor.here.upper in _NESTED


def read_type(cursor: Cursor) -> DataType:
    """Read a type, which may hold nulls; NOT NULL behind it is left to whoever knows whether it may stand there."""
    word = cursor.here
    keyword = word.upper
    if keyword in _NESTED:
        return _nested(cursor)
    if keyword in {"INTERVAL", "VOID", "NULL"}:
        message = f"a table has no columns of the type {word.text}: use a number or a text"
        raise cursor.error(message, kind=UnsupportedError)
    if keyword not in _ATOMIC:
        if word.is_text or word.is_quoted or not word.text.isidentifier():
            raise cursor.unexpected("a type")
        hint = did_you_mean(keyword, [*_ATOMIC, *_NESTED])
        raise cursor.error(f"there is no type {word.text}; {hint}", kind=SQLSyntaxError)
    cursor.take()
    cursor.accept("PRECISION") if keyword == "DOUBLE" else None
    return _atomic(cursor, word, _parameters(cursor, word))


def read_part(cursor: Cursor, *, nullable: bool) -> DataType:
    """Read the type of a part, with NULL or NOT NULL behind it if it says so."""
    dtype = read_type(cursor)
    if cursor.accept("NOT", "NULL"):
        nullable = False
    elif cursor.accept("NULL"):
        nullable = True
    return with_nullable(dtype, nullable)


def _atomic(cursor: Cursor, word: Word, parameters: str) -> DataType:
    keyword = word.upper
    if keyword in _NEEDS_LENGTH and not parameters:
        raise cursor.error(f"{word.text} needs a length, such as {word.text}(10); or use STRING", kind=SQLSyntaxError)
    text = _ATOMIC[keyword].format(parameters)
    if not parameters:
        text = _WITHOUT_PARAMETER.get(keyword, text)
    if keyword == "TIMESTAMP":
        text = _zoned(cursor, text, parameters)
    try:
        return AtomicType(text)
    except InvalidInputError as error:
        raise cursor.error(error.message, kind=SQLSyntaxError, word=word) from None


def _zoned(cursor: Cursor, text: str, parameters: str) -> str:
    if cursor.accept("WITHOUT", "TIME", "ZONE"):
        return f"TIMESTAMP{parameters}"
    cursor.accept("WITH", "LOCAL", "TIME", "ZONE")
    return text


def _parameters(cursor: Cursor, word: Word) -> str:
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


def _nested(cursor: Cursor) -> DataType:
    keyword = cursor.take().upper
    if cursor.sees("<>"):
        raise cursor.error("a STRUCT needs at least one field", kind=SQLSyntaxError)
    cursor.expect("<")
    dtype: DataType
    if keyword == "ARRAY":
        dtype = ArrayType(nullable=True, element_type=read_part(cursor, nullable=True))
    elif keyword == "MULTISET":
        dtype = MultisetType(nullable=True, element_type=read_part(cursor, nullable=True))
    elif keyword == "MAP":
        key = read_part(cursor, nullable=False)
        cursor.expect(",")
        dtype = MapType(nullable=True, key_type=key, value_type=read_part(cursor, nullable=True))
    else:
        dtype = RowType(nullable=True, fields=_fields(cursor))
    cursor.expect(">")
    return dtype


def _fields(cursor: Cursor) -> list[DataField]:
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

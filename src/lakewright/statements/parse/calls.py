"""The grammar of CALL, SHOW PROCEDURES and DESCRIBE PROCEDURE, and of constants.

call     := CALL name '(' [argument (',' argument)*] ')'
argument := [name '=>'] (constant | ':' name | '?')
constant := 'text' | [-] number | TRUE | FALSE | NULL | DATE 'text' | TIMESTAMP 'text'
          | MAP '(' constants ')' | ARRAY '(' constants ')'
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from itertools import count

from sqlglot.tokenizer_core import TokenType

from lakewright.errors import SQLSyntaxError
from lakewright.statements.parse.cursor import Cursor
from lakewright.statements.procedures.call import (
    Argument,
    Call,
    DescribeProcedure,
    Marker,
    ShowProcedures,
    make_call,
    make_description,
)
from lakewright.statements.text import Fragment

_WORDS = {"TRUE": True, "FALSE": False, "NULL": None}


def read_call(cursor: Cursor) -> Call:
    """Read CALL."""
    cursor.expect("CALL")
    name = cursor.qualified_name("the name of a procedure")
    cursor.expect("(")
    numbers, given = count(), list[Argument]()
    while not cursor.accept(")"):
        if given:
            cursor.expect(",")
        argument = _argument(cursor, numbers)
        if argument.name is None and given and given[-1].name is not None:
            raise argument.place.error("an argument without a name comes before those with one")
        given.append(argument)
    return make_call(name, given, cursor.fragment)


def _argument(cursor: Cursor, numbers: count[int]) -> Argument:
    name = None
    if len(cursor.words) > cursor.at + 1 and cursor.words[cursor.at + 1].text == "=>":
        start = cursor.at
        name = cursor.name("the name of an argument")
        cursor.expect("=>")
        value, place = _value(cursor, numbers)
        return Argument(value, Fragment(place.whole, cursor.words[start].start, place.end), name)
    value, place = _value(cursor, numbers)
    return Argument(value, place, name)


def _value(cursor: Cursor, numbers: count[int]) -> tuple[object, Fragment]:
    start = cursor.at
    if cursor.accept("?"):
        value: object = Marker(next(numbers))
    elif cursor.accept(":"):
        value = Marker(cursor.name("the name of a parameter"))
    else:
        value = read_constant(cursor)
    words = cursor.words
    return value, Fragment(cursor.fragment.whole, words[start].start, words[cursor.at - 1].end)


def read_constant(cursor: Cursor) -> object:
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
    raise cursor.unexpected("a constant such as 'text', 5, true, map('k', 'v'), or a parameter such as :name")


def _constants(cursor: Cursor) -> list[object]:
    """Read constants up to the closing bracket."""
    found: list[object] = []
    while not cursor.accept(")"):
        if found:
            cursor.expect(",")
        found.append(read_constant(cursor))
    return found


def _time(cursor: Cursor) -> date:
    word = cursor.take()
    text = cursor.string(f"a text in quotes after {word.upper}")
    try:
        return date.fromisoformat(text) if word.upper == "DATE" else datetime.fromisoformat(text)
    except ValueError:
        message = (
            f"{text!r} is no {word.upper.lower()} such as '2026-01-31{'' if word.upper == 'DATE' else ' 12:00:00'}'"
        )
        raise cursor.error(message, kind=SQLSyntaxError, word=cursor.words[cursor.at - 1]) from None


def _number(cursor: Cursor) -> int | float | Decimal:
    text = cursor.take().text
    if text.isdecimal():
        return int(text)
    try:
        return float(text) if "e" in text.lower() else Decimal(text)
    except (ValueError, InvalidOperation):
        raise cursor.error(f"{text!r} is no number", kind=SQLSyntaxError) from None


def read_show_procedures(cursor: Cursor) -> ShowProcedures:
    """Read SHOW PROCEDURES [FROM | IN namespace]."""
    cursor.expect("SHOW", "PROCEDURES")
    inside = cursor.accept("IN") or cursor.accept("FROM")
    return ShowProcedures(cursor.qualified_name("a database") if inside else None, text=cursor.fragment)


def read_describe_procedure(cursor: Cursor) -> DescribeProcedure:
    """Read DESCRIBE | DESC PROCEDURE name."""
    cursor.take()
    cursor.expect("PROCEDURE")
    return make_description(cursor.qualified_name("the name of a procedure"), cursor.fragment)


GRAMMAR = {
    "CALL": read_call,
    "SHOW PROCEDURES": read_show_procedures,
    "DESCRIBE PROCEDURE": read_describe_procedure,
    "DESC PROCEDURE": read_describe_procedure,
}

"""Definitions of columns as texts: `id BIGINT NOT NULL COMMENT 'of the order'` in, fields out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lakewright.errors import InvalidInputError, SQLSyntaxError, UnsupportedError
from lakewright.spec.types import DataField, DataType, to_type

if TYPE_CHECKING:
    from lakewright.statements.definitions.columns import Column

_COLUMN = re.compile(
    r"\s*(?:`((?:[^`]|``)+)`|([^\s`]+))\s+(.+?)(?:\s+COMMENT\s+'((?:[^']|'')*)')?\s*", re.IGNORECASE | re.DOTALL
)


def column(text: str) -> DataField:
    """Return the column that a text defines; its id is 0.

    >>> found = column("`order id` DECIMAL(10, 2) NOT NULL COMMENT 'of it'")
    >>> found.name, str(found.type), found.description
    ('order id', 'DECIMAL(10, 2) NOT NULL', 'of it')
    """
    match = _COLUMN.fullmatch(text)
    if match is None:
        raise InvalidInputError(f"a column is written 'name TYPE', such as 'id BIGINT NOT NULL', not {text!r}")
    name = match[2] if match[1] is None else match[1].replace("``", "`")
    comment = None if match[4] is None else match[4].replace("''", "'")
    return DataField(0, name, data_type(match[3], name), comment)


def data_type(text: str, name: str) -> DataType:
    """Return a type that is written as text; nested types are read as in SQL."""
    if "<" in text:
        return _sql_column(f"`x` {text}", name).type
    try:
        return to_type("type", text)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"column {name!r}: {error}; types are such as INT, BIGINT, STRING, DECIMAL(10, 2), DATE, TIMESTAMP(3), "
            "ARRAY<INT>",
            column=name,
        ) from None


def _sql_column(text: str, name: str) -> Column:
    try:
        from lakewright.statements.parse.clauses import read_column  # noqa: PLC0415 - a door: it needs sqlglot
        from lakewright.statements.parse.cursor import Cursor  # noqa: PLC0415 - a door
        from lakewright.statements.text import Fragment  # noqa: PLC0415 - a door
    except ImportError as error:
        raise UnsupportedError(
            f"column {name!r}: nested types are read by {error.name}, which is not installed: pip install "
            "'lakewright[sql]'"
        ) from error
    cursor = Cursor(Fragment(text, 0, len(text)))
    try:
        found = read_column(cursor)
        cursor.expect_end()
    except SQLSyntaxError as error:
        reason = str(error).splitlines()[0]
        raise InvalidInputError(f"column {name!r}: the type cannot be read: {reason}", column=name) from None
    return found

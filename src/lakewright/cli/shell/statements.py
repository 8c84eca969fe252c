"""What a command and the prompt share about statements: values of parameters, and the rows of any engine as Arrow."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from lakewright.errors import SQLSyntaxError
from lakewright.statements.parse.calls import read_constant
from lakewright.statements.parse.cursor import Cursor
from lakewright.statements.text import Args, Fragment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def bound_args(given: Iterable[tuple[str, str]]) -> Args:
    """Return the values of parameters that are given as text."""
    return {name: argument(text) for name, text in given}


def argument(text: str) -> object:
    """Return what a text means: a constant of SQL is its value, anything else is the text itself.

    A number with leading zeros is a text, as it is more often a code than a number.

    >>> argument("5"), argument("'5'"), argument("05"), argument("2026-01-31"), argument("null")
    (5, '5', '05', '2026-01-31', None)
    """
    stripped = text.strip()
    if stripped.lstrip("-").startswith("0") and stripped.lstrip("-").isdecimal() and stripped != "0":
        return text
    try:
        cursor = Cursor(Fragment(text, 0, len(text)))
        value = read_constant(cursor)
        cursor.expect_end()
    except SQLSyntaxError:
        return text
    return value


def rows_of(rows: object, limit: int | None = None) -> tuple[pa.Table, bool]:
    """Return the rows that a context returned as an Arrow table, and whether a frame had more than a limit."""
    if isinstance(rows, pa.Table):
        return rows, False
    from lakewright.spark.jobs.frames import to_arrow  # noqa: PLC0415 - a door

    frame = cast("DataFrame", rows)
    if limit is None:
        return to_arrow(frame), False
    table = to_arrow(frame.limit(limit + 1))
    return table.slice(0, limit), table.num_rows > limit


def engine_message(error: Exception) -> str:
    """Return the message of an error of an engine without the plan and the stack that Spark adds."""
    return re.split(r"\n\nJVM stacktrace|;\n['+*]", str(error))[0].strip() or type(error).__name__

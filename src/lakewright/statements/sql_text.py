"""The text of a statement, its fragments, errors with their place.

A fragment is a slice of the user's own text. An engine that speaks the dialect gets it as it is written, with the names
of tables replaced; `tree` is the same as a syntax tree of sqlglot, to look things up in or to translate. What always
holds: a place is an offset into the whole text that the user gave, so that an error in the last statement of a script
shows the line and the column where it stands in the script.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias, TypeVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parsers.spark import SparkParser

from lakewright.errors import LakewrightError, SQLSyntaxError


class SparkSyntax(Spark):
    """Spark's dialect with paths into a VARIANT, such as `v:a.b[0]`."""

    class Parser(SparkParser):
        """A parser that reads a colon behind a value as the start of a path."""

        COLON_IS_VARIANT_EXTRACT = True


DIALECT = SparkSyntax
_SHOWN_MAX = 100  # characters of a line that an error shows before and after the place

E = TypeVar("E", bound=LakewrightError)
Args: TypeAlias = Mapping[str, object] | Sequence[object]  # values of `:name`, or of `?` in their order


def caret_at(text: str, at: int) -> tuple[int, int, str]:
    r"""Return the line and the column of a place, counted from 1, and the line with a caret below the place.

    >>> line, column, shown = caret_at("SELECT a\nFROM t", 14)
    >>> line, column
    (2, 6)
    >>> print(shown)
    FROM t
         ^
    """
    at = min(max(at, 0), len(text))
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    whole = text[start : len(text) if end < 0 else end].rstrip()
    column = at - start
    first = max(0, column - _SHOWN_MAX)
    shown = whole[first : column + _SHOWN_MAX].replace("\t", " ")
    return text.count("\n", 0, at) + 1, column + 1, f"{shown}\n{' ' * (column - first)}^"


def error_at(kind: type[E], message: str, text: str, at: int, **facts: object) -> E:
    """Return an error whose message shows a place of the text."""
    line, column, shown = caret_at(text, at)
    return kind(f"{message} (line {line}, column {column})\n{shown}", line=line, column_number=column, **facts)


@dataclass(frozen=True)
class Fragment:
    """A slice of the text that the user gave."""

    whole: str = field(repr=False)
    start: int
    end: int  # exclusive

    @property
    def text(self) -> str:
        """The slice as it is written."""
        return self.whole[self.start : self.end]

    @cached_property
    def tree(self) -> exp.Expr:
        """The slice as a syntax tree; places in its `meta` count from the start of the slice. Do not change it."""
        try:
            return sqlglot.parse_one(self.text, dialect=DIALECT)
        except ParseError as error:
            first = error.errors[0] if error.errors else {}
            raise self.error(_reason(first, error), self._offset(first)) from None
        except SqlglotError as error:
            raise self.error(f"the text cannot be read as SQL: {error}", 0) from None

    def error(self, message: str, at: int = 0, kind: type[E] = SQLSyntaxError, **facts: object) -> E:  # type: ignore[assignment]
        """Return an error that shows a place, which counts from the start of the slice."""
        return error_at(kind, message, self.whole, self.start + at, **facts)

    def slice(self, start: int, end: int) -> Fragment:
        """Return a slice of the slice."""
        return Fragment(self.whole, self.start + start, self.start + end)

    def replace_at(self, changes: Mapping[tuple[int, int], str], *, escape_braces: bool = False) -> str:
        """Return the text with other text at some places, which count from the start of the slice.

        With `escape_braces` the braces of the user's own text are doubled, as `str.format` wants them.
        """
        out, last = [], 0
        for (start, end), other in sorted(changes.items()):
            out += [self._own(last, start, escape_braces), other]
            last = end
        return "".join([*out, self._own(last, len(self.text), escape_braces)])

    def _own(self, start: int, end: int, escape: bool) -> str:  # noqa: FBT001 - handed through
        text = self.text[start:end]
        return text.replace("{", "{{").replace("}", "}}") if escape else text

    def _offset(self, error: Mapping[str, object]) -> int:
        """Return the place of an error of sqlglot, which has the line and the column of the token's end."""
        line, end = int(str(error.get("line") or 1)), int(str(error.get("col") or 1))
        lines = self.text.split("\n")
        before = sum(len(one) + 1 for one in lines[: line - 1])
        return before + max(end - len(str(error.get("highlight") or "")), 0)


def place_before(changes: Mapping[tuple[int, int], str], at: int) -> int:
    """Return where a place of the text that `Fragment.replaced` gives stood before.

    >>> place_before({(2, 3): "long"}, 7)
    4
    """
    moved = 0
    for (start, end), other in sorted(changes.items()):
        if at < start + moved:
            break
        if at < start + moved + len(other):
            return start
        moved += len(other) - (end - start)
    return at - moved


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a table, database or tag as it is written: one or more parts, and where they stand."""

    parts: tuple[str, ...]
    place: Fragment

    def __str__(self) -> str:
        return ".".join(self.parts)


def _reason(first: Mapping[str, object], error: ParseError) -> str:
    reason = str(first.get("description") or error).split(" but got <Token")[0]
    if "<class " in reason:  # sqlglot names the class of the tree that lacks a part
        reason = "an expression, a name or a type is missing"
    at = first.get("highlight")
    return f"{reason.rstrip('.')}, at {at!r}" if at else reason

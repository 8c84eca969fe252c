"""Csv as Spark writes and reads it by default: lines in, records out, and columns of texts in, lines out.

A quote inside a quoted value stands behind the escape character, which is a backslash unless the statement says
otherwise; in values without quotes a backslash is a character as any other. What always holds: a quote that does not
end, or text behind its end, is an error and not another value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import InvalidInputError

_RECORD_MAX = 16 << 20  # characters; a longer record is a quote that does not end


@dataclass(frozen=True)
class CsvText:
    """How values stand in lines."""

    sep: str = ","
    quote: str = '"'
    escape: str = "\\"
    null: str = ""

    # ---- reading

    @cached_property
    def _field(self) -> re.Pattern[str]:
        sep, quote, escape = map(re.escape, (self.sep, self.quote, self.escape))
        inner = (
            rf"[^{quote}]*(?:{quote}{quote}[^{quote}]*)*" if self._doubles else rf"(?:[^{quote}{escape}]+|{escape}.)*"
        )
        plain = rf"[^{sep}\r\n]*" if len(self.sep) == 1 else r"[^\r\n]*?"
        return re.compile(rf"(?:{quote}({inner}){quote}|(?!{quote})({plain}))({sep}|\r?\n\Z|\Z)", re.DOTALL)

    @property
    def _doubles(self) -> bool:
        return self.escape == self.quote

    def records(self, path: str, lines: Iterable[str]) -> Iterator[tuple[int, list[str | None]]]:
        """Yield the number of the first line and the values of each record; lines without text are left out."""
        first, pending = 1, ""
        for number, line in enumerate(lines, 1):
            first = first if pending else number
            whole = pending + line
            if not self.quote or self.quote not in whole:
                if not whole.isspace():
                    yield number, [self._plain(text) for text in whole.rstrip("\r\n").split(self.sep)]
                continue
            values = self._values(whole)
            pending = whole if values is None else ""
            if values is not None:
                yield first, values
            elif len(pending) > _RECORD_MAX:
                break
        if pending:
            message = f"{path}, line {first}: a value in quotes does not end, or text follows its end; if quotes inside"
            raise InvalidInputError(
                f"{message} of values are doubled, say ESCAPE = '{self.quote}'", source=path, line=first
            )

    def _plain(self, text: str) -> str | None:
        return None if text == self.null else text

    def _values(self, text: str) -> list[str | None] | None:
        """Return the values of a record; None: the text is no whole record."""
        out: list[str | None] = []
        at = 0
        while (found := self._field.match(text, at)) is not None:
            out.append(self._plain(found[2]) if found[1] is None else self._unescaped(found[1]))
            at = found.end()
            if found[3] != self.sep:
                return out
        return None

    def _unescaped(self, text: str) -> str:
        if self._doubles:
            return text.replace(self.quote * 2, self.quote)
        if self.escape not in text:
            return text
        quote, escape = re.escape(self.quote), re.escape(self.escape)
        return re.sub(rf"{escape}([{quote}{escape}])", r"\1", text)

    # ---- writing

    def lines(self, columns: list[pa.Array]) -> Iterator[str]:
        """Yield the lines of columns of texts."""
        ready = [self._written(column) for column in columns]
        yield from pc.binary_join_element_wise(*ready, self.sep).to_pylist()

    def header(self, names: Iterable[str]) -> str:
        """Return the line of the names of columns."""
        return next(self.lines([pa.array([name]) for name in names]))

    def _written(self, column: pa.Array) -> pa.Array:
        special = "".join(map(re.escape, (self.sep, self.quote)))
        needs = pc.match_substring_regex(column, rf"[{special}\r\n]|^\s*$")
        needs = pc.or_(needs, pc.equal(column, self.null))
        escaped = column
        for one in (self.quote,) if self._doubles else (self.escape, self.quote):
            escaped = pc.replace_substring(escaped, one, self.escape + one)
        in_quotes = pc.binary_join_element_wise(self.quote, escaped, self.quote, "")
        return pc.fill_null(pc.if_else(needs, in_quotes, column), self.null)

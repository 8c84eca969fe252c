"""Text that is made of slices of a statement: slices as they are written for a query in, errors in the user's text out.

What always holds: an error shows the text that the user wrote, never the names of relations that stand in the query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from lakewright.errors import SQLSyntaxError
from lakewright.statements.embedded.names import ROWS, relation_name
from lakewright.statements.query.bind import Bound
from lakewright.statements.query.parameters import marks_by_name
from lakewright.statements.text import Args, E, Fragment, caret_at, place_before

_SHOWN_MAX = 500  # characters of a statement that an error without a place shows


@dataclass(frozen=True)
class Part:
    """A slice of the user's text as it stands in a query: with the names of relations, then with named parameters."""

    own: Fragment
    text: str
    changes: tuple[Mapping[tuple[int, int], str], ...]

    def error(self, message: str, at: int, kind: type[E], **facts: object) -> E:
        """Return an error that shows the place of the user's text that a place of this text came from."""
        for changes in reversed(self.changes):
            at = place_before(changes, at)
        return self.own.error(message, at, kind, **facts)


def part_of(bound: Bound, number: int, statement: Fragment, args: Args) -> Part:
    """Return a slice of a statement as it is written for a query."""
    own = bound.pieces[number].fragment
    names = bound.changes(number, relation_name)
    text = own.replaced(names)
    marks = marks_by_name(text, own, statement, args)
    return Part(own, Fragment(text, 0, len(text)).replaced(marks), (names, marks))


@dataclass(frozen=True)
class Composed(Fragment):
    """The text of a query, whose errors show the slices of the user's text that it is made of."""

    statement: Fragment = field(kw_only=True)
    parts: tuple[Part, ...] = field(kw_only=True)

    @classmethod
    def of(cls, bound: Bound, statement: Fragment, args: Args, compose: Callable[[list[Part]], str]) -> Composed:
        """Return the text that `compose` makes of all slices."""
        parts = [part_of(bound, number, statement, args) for number in range(len(bound.pieces))]
        text = compose(parts)
        return cls(text, 0, len(text), statement=statement, parts=tuple(parts))

    def error(self, message: str, at: int = 0, kind: type[E] = SQLSyntaxError, **facts: object) -> E:  # type: ignore[assignment]
        """Return an error that shows the user's text, with the place where it is known."""
        plain = message.replace(ROWS, "")
        found = max(self._around(at), key=lambda one: len(one[0].text), default=None)
        if found is not None:
            part, start = found
            return part.error(plain, at - start, kind, **facts)
        text = self.statement.text.strip()
        line = caret_at(self.statement.whole, self.statement.start)[0]
        shown = f"{text[:_SHOWN_MAX]}{'...' if len(text) > _SHOWN_MAX else ''}"
        return kind(f"{plain}, in the statement on line {line}\n{shown}", line=line, **facts)

    def _around(self, at: int) -> Iterator[tuple[Part, int]]:
        """Yield the slices in which a place may stand, and where they begin."""
        for part in self.parts:
            start = self.whole.rfind(part.text, max(0, at - len(part.text)), at + len(part.text))
            if part.text and 0 <= start <= at:
                yield part, start

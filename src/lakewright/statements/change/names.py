"""Names of columns in a change: paths and trees in, the columns of the target and the source that they mean out.

Names compare without regard to upper and lower case, and may be qualified by an alias or by the name of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from sqlglot import exp

from lakewright.errors import ColumnNotExistException
from lakewright.spec.types import DataField, RowType
from lakewright.statements.change.assign import quoted
from lakewright.statements.parse.cursor import words_of
from lakewright.statements.text import Fragment, Name

_RANDOM = {"rand", "random", "randn", "uuid", "shuffle", "monotonically_increasing_id", "spark_partition_id", "randstr"}


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a change as the statement names it, with its columns."""

    alias: str
    columns: tuple[str, ...]
    name: tuple[str, ...] = ()  # the name of the table, if it has no alias: columns may be qualified by all of it

    @classmethod
    def of(cls, name: Name | None, alias: str | None, columns: Sequence[str]) -> Side:
        """Return the side that a name or a query with an alias is."""
        if alias is not None or name is None:
            return cls(alias or "_lw_query", tuple(columns))
        return cls(name.parts[-1], tuple(columns), name.parts)

    def column(self, name: str) -> str | None:
        """Return a column by its name in any case; None: there is none."""
        wanted = name.casefold()
        found = [own for own in self.columns if own.casefold() == wanted]
        return name if name in found else found[0] if found else None

    def path(self, parts: Sequence[str]) -> tuple[str, ...] | None:
        """Return a path without the qualifier, its first part the column; None: it names no column of this side."""
        at = self._qualifier_length(parts)
        column = self.column(parts[at])
        return None if column is None else (column, *parts[at + 1 :])

    def is_qualified(self, parts: Sequence[str]) -> bool:
        """Return whether a path begins with the name or alias of this side, which goes before a column of that name."""
        return self._qualifier_length(parts) > 0

    def _qualifier_length(self, parts: Sequence[str]) -> int:
        """Return how many parts at the front name this side, with one of its columns behind them."""
        for count in range(len(self.name) or 1, 0, -1):
            own = (self.name or (self.alias,))[-count:]
            if len(parts) > count and _same(parts[:count], own) and self.column(parts[count]) is not None:
                return count
        return 0

    def unqualified(self, text: str) -> str:
        """Return text in which columns are qualified by the last part of the table's name alone."""
        if len(self.name) <= 1 or self.name[0].casefold() not in text.casefold():
            return text
        words, out, last, at = words_of(text), [], 0, 0
        while at < len(words):
            count = self._qualifier_at([word.text for word in words[at : at + 2 * len(self.name)]])
            if count and not (at and words[at - 1].text == "."):
                out += [text[last : words[at].start], quoted(self.alias)]
                last = words[at + 2 * count - 2].end
                at += 2 * count - 1
                continue
            at += 1
        return "".join([*out, text[last:]])

    def _qualifier_at(self, words: Sequence[str]) -> int:
        """Return how many parts of the table's name, more than one, stand here with a dot behind each; else 0."""
        for count in range(len(self.name), 1, -1):
            dots = words[1 : 2 * count : 2]
            if (
                len(dots) == count
                and all(dot == "." for dot in dots)
                and _same(words[: 2 * count : 2], self.name[-count:])
            ):
                return count
        return 0


def _same(one: Sequence[str], other: Sequence[str]) -> bool:
    return [part.casefold() for part in one] == [part.casefold() for part in other]


def assigned_path(
    table: str, side: Side, fields: Sequence[DataField], parts: Sequence[str], place: Fragment
) -> tuple[str, ...]:
    """Return the column, and the fields inside it, that an assignment sets, in the spelling of the table."""
    path = side.path(parts)
    if path is None:
        raise _unknown(table, ".".join(parts), [field.name for field in fields], place)
    field = next(one for one in fields if one.name == path[0])
    out = [field.name]
    for part in path[1:]:
        inside = field.type.fields if isinstance(field.type, RowType) else ()
        found = [one for one in inside if one.name.casefold() == part.casefold()]
        if not found:
            raise _unknown(table, ".".join((*out, part)), [one.name for one in inside], place)
        field = found[0]
        out.append(field.name)
    return tuple(out)


def _unknown(table: str, name: str, known: Sequence[str], place: Fragment) -> ColumnNotExistException:
    near = get_close_matches(name.rsplit(".", maxsplit=1)[-1], known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
    message = f"{table} has no column {name!r}; {hint}"
    return place.error(message, kind=ColumnNotExistException, table=table, column=name)


def equal_columns(on: Fragment, target: Side, source: Side) -> tuple[tuple[str, str], ...]:
    """Return the pairs of columns of the target and the source that a condition says are equal."""
    found = []
    for part in conjuncts(on.tree):
        if not isinstance(part, exp.EQ):
            continue
        sides = [_column_of(node, target, source) for node in (part.this, part.expression)]
        for one, other in (sides, sides[::-1]):
            if one is not None and other is not None and one[0] is target and other[0] is source:
                found.append((one[1], other[1]))
                break
    return tuple(found)


def conjuncts(tree: exp.Expr) -> Iterable[exp.Expr]:
    """Return the parts of a condition that must all be true."""
    tree = tree.unnest()
    if isinstance(tree, exp.And):
        return (*conjuncts(tree.this), *conjuncts(tree.expression))
    return (tree,)


def source_column(value: Fragment, target: Side, source: Side) -> str | None:
    """Return the column of the source that an expression is; None: it is more, or another one."""
    found = _column_of(value.tree, target, source)
    return found[1] if found is not None and found[0] is source else None


def _column_of(node: exp.Expr, target: Side, source: Side) -> tuple[Side, str] | None:
    """Return the side and the name of a plain column; None: it is something else, or it is not clear which."""
    node = node.unnest()
    if not isinstance(node, exp.Column):
        return None
    parts = [part.name for part in node.parts]
    found = [(side, path[0]) for side in (target, source) if (path := side.path(parts)) is not None and len(path) == 1]
    if len(found) > 1:
        found = [one for one in found if one[0].is_qualified(parts)] if len(parts) > 1 else []
    return found[0] if len(found) == 1 else None


def random_function(tree: exp.Expr) -> str | None:
    """Return a function of an expression whose result differs from call to call; None: there is none."""
    for node in tree.find_all(exp.Func):
        name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
        if name.lower() in _RANDOM:
            return name.lower()
    return None


def has_subquery(fragment: Fragment) -> bool:
    """Return whether an expression has a query in it."""
    return any(word.upper in {"SELECT", "VALUES", "TABLE"} for word in words_of(fragment.text))


def mentioned(fragments: Iterable[Fragment], columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns whose names occur in some expressions; all of them if one has a star or a pattern."""
    words = [word for fragment in fragments for word in words_of(fragment.text)]
    if any(word.text in {"*", "EXCEPT"} and not word.is_text and _is_star(words, at) for at, word in enumerate(words)):
        return tuple(columns)
    used = {word.text.casefold() for word in words if not word.is_text}
    return tuple(name for name in columns if name.casefold() in used)


def _is_star(words: Sequence[object], at: int) -> bool:
    """Return whether a `*` stands for columns, and does not multiply."""
    before = getattr(words[at - 1], "text", "") if at else ""
    return before in {"", ",", "(", "."} or before.upper() in {"SELECT", "DISTINCT", "ALL"}

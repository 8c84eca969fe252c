"""How the columns of a source become columns of a table: names and types in, a mapping and a report out.

Names are matched exactly, then without regard to case; the caller's renames come first. Every column of the source has
a place in the table, is ignored because the caller said so, or is an error; every column of the table gets values,
nulls or its default, or is an error. Nothing is decided by position. Values are not looked at here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from lakewright.errors import InvalidInputError
from lakewright.spec.types import DataField
from lakewright.write.input.kinds import kind_column

RENAMED, WIDENED, FILLED, KEPT, IGNORED, ADDED = "renamed", "widened", "filled", "kept", "ignored", "added"


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that happens to a column on its way into the table."""

    kind: str  # renamed, widened, filled, kept, ignored or added
    column: str  # of the table; of the source where it is ignored
    detail: str

    def __str__(self) -> str:
        return f"{self.kind:<8} {self.column}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Wish:
    """What the caller said about columns."""

    columns: tuple[str, ...] | None = None  # of the source; the others do not count
    renames: Mapping[str, str] = field(default_factory=dict)  # from names of the source to names of the table
    constants: Mapping[str, object] = field(default_factory=dict)  # for columns that the source lacks
    ignore_extra: bool = False
    add_extra: bool = False  # the table takes columns that it lacks
    keys_only: bool = False  # only the columns of the keys are needed
    keeps: bool = False  # rows that are there keep the columns that the source lacks


@dataclass(frozen=True, slots=True)
class Fit:
    """The columns of one source, and where they go."""

    pairs: tuple[tuple[str, str], ...]  # (name in the source, name in the table)
    constants: Mapping[str, object]  # by column of the table
    changes: tuple[Change, ...]


def check_renames(columns: Sequence[Collection[str]], wish: Wish) -> None:
    """Refuse renames and choices of columns that no source has."""
    known = {name for names in columns for name in names}
    for name in (*wish.renames, *(wish.columns or ())):
        if name not in known:
            raise InvalidInputError(
                f"no source has a column {name!r}; there are {', '.join(sorted(known))}", column=name
            )


def fit(names: Sequence[str], table: Sequence[DataField], keys: Collection[str], wish: Wish, *, name: str) -> Fit:
    """Match the columns of one source to those of a table; `keys` are what a delete needs, `name` is the table's."""
    given = _chosen(names, wish, name)
    targets = _targets(given, [f.name for f in table], wish, name)
    kinds = kind_column(given, [f.name for f in table], table=name) if keys else None
    extra = [column for column in given if column not in targets and column != kinds]
    changes = [Change(RENAMED, target, f"was {column!r}") for column, target in targets.items() if column != target]
    pairs = dict(targets) if kinds is None else {**targets, kinds: kinds}
    if extra and not (wish.ignore_extra or wish.add_extra):
        raise InvalidInputError(
            f"table {name}: the source has the column {extra[0]!r}, which the table lacks (its columns: "
            f"{', '.join(f.name for f in table)}); rename it, ignore it or merge the schema "
            "(if a csv file has no header line, say so: header=False, --no-header)",
            table=name,
            column=extra[0],
        )
    for column in extra:
        if wish.add_extra and not wish.ignore_extra:
            pairs[column] = column
            changes.append(Change(ADDED, column, "new column of the table"))
        else:
            changes.append(Change(IGNORED, column, "the table has no such column"))
    there = set(pairs.values())
    filled = [_filled(column, keys, wish, name) for column in table if column.name not in there]
    changes += [change for change in filled if change is not None]
    constants = {column: value for column, value in wish.constants.items() if column not in there}
    return Fit(tuple(pairs.items()), constants, tuple(changes))


def _chosen(names: Sequence[str], wish: Wish, table: str) -> list[str]:
    twice = [column for column, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidInputError(
            f"table {table}: the source has two columns named {twice[0]!r}; rename or drop one",
            table=table,
            column=twice[0],
        )
    return [column for column in names if wish.columns is None or column in wish.columns]


def _targets(given: Sequence[str], known: Sequence[str], wish: Wish, table: str) -> dict[str, str]:
    """Return which column of the table each column of the source is, in the order of the table."""
    found: dict[str, str] = {}
    for column in given:
        target = wish.renames.get(column)
        if target is not None and target not in known and not wish.add_extra:
            raise InvalidInputError(
                f"table {table}: {column!r} cannot become {target!r}, which is no column; the table has "
                f"{', '.join(known)}",
                table=table,
                column=target,
            )
        if target is not None:
            _take(found, column, target, table)
    for column in given:
        if column in known and column not in found and column not in found.values():
            _take(found, column, column, table)
    for target in known:
        alike = [c for c in given if c not in found and c.casefold() == target.casefold()]
        if target not in found.values() and alike:
            for column in alike:
                _take(found, column, target, table)
    order = {target: number for number, target in enumerate(known)}
    return dict(sorted(found.items(), key=lambda pair: order.get(pair[1], len(order))))


def _take(found: dict[str, str], column: str, target: str, table: str) -> None:
    other = next((taken for taken, of in found.items() if of == target), None)
    if other is not None:
        raise InvalidInputError(
            f"table {table}: the columns {other!r} and {column!r} of the source would both become {target!r}; choose "
            "one by a rename or by naming the columns",
            table=table,
            column=target,
        )
    found[column] = target


def _filled(column: DataField, keys: Collection[str], wish: Wish, table: str) -> Change | None:
    """Say what a column gets that the source lacks; None: nobody will look at it."""
    if column.name in wish.constants:
        return Change(FILLED, column.name, f"with {wish.constants[column.name]!r} for every row")
    if wish.keys_only and column.name not in keys:
        return None
    if column.default_value is not None or column.type.nullable:
        value = "null" if column.default_value is None else f"its default {column.default_value!r}"
        kept = Change(KEPT, column.name, f"as it is; {value} in new rows")
        return kept if wish.keeps else Change(FILLED, column.name, f"with {value}")
    raise InvalidInputError(
        f"table {table}: the source lacks the column {column.name!r} ({column.type}), which has no default and may not "
        "be null; add it, or rename the column that holds it",
        table=table,
        column=column.name,
    )

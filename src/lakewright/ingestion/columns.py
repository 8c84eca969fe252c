"""Which column of the table each column of a source becomes: names and types in, a mapping and a report out.

Renames of the caller come first, then names that are equal, then names that differ only in case. Every column of the
source goes to a column of the table, is ignored because the caller asked for it, or is an error; every column of the
table gets values, nulls or its default, or is an error. Positions and values play no part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from lakewright.errors import InvalidInputError
from lakewright.spec.types import DataField
from lakewright.write.input.kinds import kind_column

RENAMED, WIDENED, NARROWED, FILLED = "renamed", "widened", "narrowed", "filled"
KEPT, IGNORED, ADDED = "kept", "ignored", "added"


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """One difference between a column of the source and the column of the table that it fills."""

    kind: str  # renamed, widened, narrowed, filled, kept, ignored or added
    column: str  # of the table; of the source where it is ignored
    detail: str

    def __str__(self) -> str:
        return f"{self.kind:<8} {self.column}: {self.detail}"


@dataclass(frozen=True, slots=True)
class ColumnRequest:
    """What the caller asked for about columns."""

    chosen: tuple[str, ...] | None = None  # columns of the source to load; None: all
    renames: Mapping[str, str] = field(default_factory=dict)  # from names of the source to names of the table
    constants: Mapping[str, object] = field(default_factory=dict)  # for columns that the source lacks
    ignore_extra: bool = False
    add_extra: bool = False  # the table gets the columns that it lacks
    keys_only: bool = False  # only the key columns are needed
    keeps_missing: bool = False  # rows of the table keep their values in columns that the source lacks


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """Which columns of one source become which columns of the table."""

    pairs: tuple[tuple[str, str], ...]  # (name in the source, name in the table)
    constants: Mapping[str, object]  # by column of the table
    changes: tuple[ColumnChange, ...]


def check_renames(columns: Sequence[Collection[str]], request: ColumnRequest) -> None:
    """Raise InvalidInputError if a rename or a choice names a column that no source has."""
    known = {name for names in columns for name in names}
    for name in (*request.renames, *(request.chosen or ())):
        if name not in known:
            raise InvalidInputError(
                f"no source has a column {name!r}; there are {', '.join(sorted(known))}", column=name
            )


def map_columns(
    names: Sequence[str], table: Sequence[DataField], keys: Collection[str], request: ColumnRequest, *, name: str
) -> ColumnMapping:
    """Map the columns of one source to those of the table `name`; `keys` are the columns that a delete needs."""
    chosen = _chosen_columns(names, request, name)
    targets = _targets(chosen, [f.name for f in table], request, name)
    kinds = kind_column(chosen, [f.name for f in table], table=name) if keys else None
    extra = [column for column in chosen if column not in targets and column != kinds]
    changes = [
        ColumnChange(RENAMED, target, f"was {column!r}") for column, target in targets.items() if column != target
    ]
    pairs = dict(targets) if kinds is None else {**targets, kinds: kinds}
    if extra and not (request.ignore_extra or request.add_extra):
        raise InvalidInputError(
            f"table {name}: the source has the column {extra[0]!r}, which the table lacks (its columns: "
            f"{', '.join(f.name for f in table)}); rename it (--rename), leave it out (--ignore-extra) "
            "or add it to the table (--schema-mode merge); if a csv file has no header line, say so (header=False, "
            "--no-header), and if its fields end with another sign than a comma, name it (--source-option 'sep=;')",
            table=name,
            column=extra[0],
        )
    for column in extra:
        if request.add_extra and not request.ignore_extra:
            pairs[column] = column
            changes.append(ColumnChange(ADDED, column, "new column of the table"))
        else:
            changes.append(ColumnChange(IGNORED, column, "the table has no such column"))
    mapped = set(pairs.values())
    fills = [_fill_change(column, keys, request, name) for column in table if column.name not in mapped]
    changes += [change for change in fills if change is not None]
    constants = {column: value for column, value in request.constants.items() if column not in mapped}
    return ColumnMapping(tuple(pairs.items()), constants, tuple(changes))


def _chosen_columns(names: Sequence[str], request: ColumnRequest, table: str) -> list[str]:
    twice = [column for column, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidInputError(
            f"table {table}: the source has two columns named {twice[0]!r}; rename or drop one",
            table=table,
            column=twice[0],
        )
    return [column for column in names if request.chosen is None or column in request.chosen]


def _targets(chosen: Sequence[str], known: Sequence[str], request: ColumnRequest, table: str) -> dict[str, str]:
    """Return the column of the table for each column of the source, in the order of the table."""
    targets: dict[str, str] = {}
    for column in chosen:
        target = request.renames.get(column)
        if target is not None and target not in known and not request.add_extra:
            raise InvalidInputError(
                f"table {table}: {column!r} cannot become {target!r}, which is no column; the table has "
                f"{', '.join(known)}",
                table=table,
                column=target,
            )
        if target is not None:
            _add_target(targets, column, target, table)
    for column in chosen:
        if column in known and column not in targets and column not in targets.values():
            _add_target(targets, column, column, table)
    for target in known:
        alike = [c for c in chosen if c not in targets and c.casefold() == target.casefold()]
        if target not in targets.values() and alike:
            for column in alike:
                _add_target(targets, column, target, table)
    order = {target: number for number, target in enumerate(known)}
    return dict(sorted(targets.items(), key=lambda pair: order.get(pair[1], len(order))))


def _add_target(targets: dict[str, str], column: str, target: str, table: str) -> None:
    other = next((taken for taken, of in targets.items() if of == target), None)
    if other is not None:
        raise InvalidInputError(
            f"table {table}: the columns {other!r} and {column!r} of the source would both become {target!r}; choose "
            "one by a rename or by naming the columns",
            table=table,
            column=target,
        )
    targets[column] = target


def _fill_change(column: DataField, keys: Collection[str], request: ColumnRequest, table: str) -> ColumnChange | None:
    """Return what a column is filled with that the source lacks; None: its values are not used."""
    if column.name in request.constants:
        return ColumnChange(FILLED, column.name, f"with {request.constants[column.name]!r} for every row")
    if request.keys_only and column.name not in keys:
        return None
    if column.default_value is not None or column.type.nullable:
        value = "null" if column.default_value is None else f"its default {column.default_value!r}"
        kept = ColumnChange(KEPT, column.name, f"as it is; {value} in new rows")
        return kept if request.keeps_missing else ColumnChange(FILLED, column.name, f"with {value}")
    raise InvalidInputError(
        f"table {table}: the source lacks the column {column.name!r} ({column.type}), which has no default and may not "
        "be null; add it, or rename the column that holds it",
        table=table,
        column=column.name,
    )

"""ALTER TABLE: what the text says about columns and options in, one change of the schema out.

All actions of a statement become one list of changes, so that they take effect together or not at all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakewright.catalog.base import Catalog
from lakewright.spec.identifier import Identifier
from lakewright.spec.schema.changes import Move, SchemaChange
from lakewright.spec.types import DataField, DataType, with_nullable
from lakewright.statements.definitions.columns import (
    Column,
    fields_inside,
    real_move,
    real_path,
    refuse_same_name,
)
from lakewright.statements.definitions.placing import NOTHING, placing
from lakewright.statements.model import Command
from lakewright.statements.session import Session
from lakewright.statements.text import Args, Fragment, Name
from lakewright.table.table import FileStoreTable

COMMENT = "comment"  # the property that is the comment of the table


class TableAction(ABC):
    """One part of ALTER TABLE."""

    __slots__ = ()

    @abstractmethod
    def changes(self, fields: Sequence[DataField]) -> list[SchemaChange]:
        """Return the changes of a table of these columns."""

    @abstractmethod
    def names(self, fields: Sequence[DataField]) -> dict[str, Fragment]:
        """Return where columns and options stand in the text."""


@dataclass(frozen=True, slots=True)
class AlterTable(Command):
    """ALTER TABLE name action, and COMMENT ON TABLE."""

    name: Name
    actions: tuple[TableAction, ...]

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Change the schema once."""
        catalog, identifier, table = changeable(session, self.name)
        changes = [change for action in self.actions for change in action.changes(table.fields)]
        names = {k: v for action in self.actions for k, v in action.names(table.fields).items()}
        place = next(iter(names.values())) if len(names) == 1 else self.name.place
        with placing(place, names):
            if changes:
                catalog.alter_table(identifier, changes)
        return NOTHING


def changeable(session: Session, name: Name) -> tuple[Catalog, Identifier, FileStoreTable]:
    """Return a table to be changed; a system table is refused."""
    return *session.resolve(name), session.changeable(name)


@dataclass(frozen=True, slots=True)
class AddColumns(TableAction):
    """ADD COLUMNS (...)."""

    columns: tuple[Column, ...]

    def changes(self, fields: Sequence[DataField]) -> list[SchemaChange]:
        """Add each column in its place; rows that exist have null in it."""
        out: list[SchemaChange] = []
        added: dict[tuple[str, ...], list[str]] = {}
        for column in self.columns:
            parents = real_path(fields, column.path.parts[:-1])
            siblings = fields_inside(fields, parents)
            new = added.setdefault(parents, [])
            refuse_same_name(column.name, [*(one.name for one in siblings), *new], column.path.place)
            new.append(column.name)
            path, move = (*parents, column.name), real_move(siblings, column.move, column.name)
            out.append(SchemaChange.add_column(path, column.type, column.comment, move))
        return out

    def names(self, fields: Sequence[DataField]) -> dict[str, Fragment]:
        """Return where the columns stand."""
        return _places(fields, [column.path for column in self.columns])


@dataclass(frozen=True, slots=True)
class DropColumns(TableAction):
    """DROP COLUMNS [IF EXISTS] (...)."""

    paths: tuple[Name, ...]
    if_exists: bool = False

    def changes(self, fields: Sequence[DataField]) -> list[SchemaChange]:
        """Drop each column."""
        paths = [real_path(fields, path.parts) for path in self.paths]
        if self.if_exists:
            paths = [p for p in paths if p[-1] in {one.name for one in fields_inside(fields, p[:-1])}]
        return [SchemaChange.drop_column(path) for path in paths]

    def names(self, fields: Sequence[DataField]) -> dict[str, Fragment]:
        """Return where the columns stand."""
        return _places(fields, self.paths)


@dataclass(frozen=True, slots=True)
class RenameColumn(TableAction):
    """RENAME COLUMN path TO name."""

    path: Name
    new_name: str

    def changes(self, fields: Sequence[DataField]) -> list[SchemaChange]:
        """Rename the column."""
        return [SchemaChange.rename_column(real_path(fields, self.path.parts), self.new_name)]

    def names(self, fields: Sequence[DataField]) -> dict[str, Fragment]:
        """Return where the column stands."""
        return _places(fields, [self.path])


@dataclass(frozen=True, slots=True)
class AlterColumn(TableAction):
    """ALTER COLUMN path TYPE ... COMMENT ... SET | DROP NOT NULL, FIRST | AFTER, SET | DROP DEFAULT."""

    path: Name
    type: DataType | None = None
    nullable: bool | None = None
    comment: str | None = None
    move: Move | None = None
    default: str | None = None
    drop_default: bool = False

    def changes(self, fields: Sequence[DataField]) -> list[SchemaChange]:
        """Change the type, the nullability, the comment, the default and the place, as far as they are named."""
        path = real_path(fields, self.path.parts)
        out: list[SchemaChange] = []
        if self.type is not None:
            out.append(SchemaChange.update_column_type(path, self.type, keep_nullability=True))
        if self.nullable is not None:
            out.append(SchemaChange.update_column_nullability(path, self.nullable))
        if self.comment is not None:
            out.append(SchemaChange.update_column_comment(path, self.comment))
        if self.default is not None or self.drop_default:
            out.append(SchemaChange.update_column_default_value(path, self.default))
        move = real_move(fields_inside(fields, path[:-1]), self.move, path[-1])
        if move is not None:
            out.append(SchemaChange.update_column_position(move, inside=path[:-1] or None))
        return out

    def names(self, fields: Sequence[DataField]) -> dict[str, Fragment]:
        """Return where the column stands."""
        return _places(fields, [self.path])


@dataclass(frozen=True, slots=True)
class ReplaceColumns(TableAction):
    """REPLACE COLUMNS (...): a column of the same name stays with its values, the others are dropped or added."""

    columns: tuple[Column, ...]

    def changes(self, fields: Sequence[DataField]) -> list[SchemaChange]:
        """Return what makes these the columns, in this order."""
        seen: list[str] = []
        out: list[SchemaChange] = []
        old = {one.name: one for one in fields}
        for column in self.columns:
            refuse_same_name(column.name, seen, column.path.place)
            seen.append(column.name)
        kept = {real_path(fields, (name,))[0] for name in seen}
        for number, column in enumerate(self.columns):
            name = real_path(fields, (column.name,))[0]
            move = Move.first(name) if number == 0 else Move.after(name, real_path(fields, (seen[number - 1],))[0])
            if name in old:
                out += _kept(old[name], column)
                out.append(SchemaChange.update_column_position(move))
            else:
                out.append(SchemaChange.add_column(name, column.type, column.comment, move))
        return [*out, *(SchemaChange.drop_column(name) for name in old if name not in kept)]

    def names(self, fields: Sequence[DataField]) -> dict[str, Fragment]:
        """Return where the columns stand."""
        return _places(fields, [column.path for column in self.columns])


def _kept(old: DataField, column: Column) -> list[SchemaChange]:
    """Return what makes a column of the table the one that REPLACE COLUMNS names."""
    out: list[SchemaChange] = []
    if with_nullable(old.type, column.type.nullable) != column.type and not _same_type(old.type, column.type):
        out.append(SchemaChange.update_column_type(old.name, column.type, keep_nullability=True))
    if old.type.nullable != column.type.nullable:
        out.append(SchemaChange.update_column_nullability(old.name, column.type.nullable))
    if old.description != column.comment:
        out.append(SchemaChange.update_column_comment(old.name, column.comment))
    return out


def _same_type(one: DataType, other: DataType) -> bool:
    """Say whether two types read the same; the ids of fields inside do not count."""
    return str(with_nullable(one, nullable=True)) == str(with_nullable(other, nullable=True))


@dataclass(frozen=True, slots=True)
class SetOptions(TableAction):
    """SET and UNSET TBLPROPERTIES; None removes an option, and `comment` is the comment of the table."""

    options: Mapping[str, str | None]
    places: Mapping[str, Fragment] = field(default_factory=dict)

    def changes(self, fields: Sequence[DataField]) -> list[SchemaChange]:  # noqa: ARG002 - options only
        """Set and remove the options."""
        return [
            SchemaChange.update_comment(value)
            if key == COMMENT
            else SchemaChange.remove_option(key)
            if value is None
            else SchemaChange.set_option(key, value)
            for key, value in self.options.items()
        ]

    def names(self, fields: Sequence[DataField]) -> dict[str, Fragment]:  # noqa: ARG002 - options only
        """Return where the options stand."""
        return dict(self.places)


def _places(fields: Sequence[DataField], paths: Sequence[Name]) -> dict[str, Fragment]:
    return {".".join(real_path(fields, path.parts)): path.place for path in paths}

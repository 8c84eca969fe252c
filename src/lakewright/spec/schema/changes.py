"""The changes of a schema that a user can request, as values: `SchemaChange` and `Move`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from lakewright.spec import arguments
from lakewright.spec.types import (
    DataType,
    to_type,
)
from lakewright.spec.units import option_text

FieldName: TypeAlias = str | Sequence[str]  # a column, or the path to a field inside one
Path: TypeAlias = tuple[str, ...]


class Position(StrEnum):
    """Where a column is moved: first, last, or next to another column."""

    FIRST = "FIRST"
    AFTER = "AFTER"
    BEFORE = "BEFORE"
    LAST = "LAST"


@dataclass(frozen=True, slots=True)
class Move:
    """A column and its new place among the columns, or among the fields of its ROW."""

    field_name: str
    reference_field_name: str | None
    position: Position

    def __post_init__(self) -> None:
        arguments.plain_text("field_name", self.field_name)
        arguments.instance("position", self.position, Position, "a Position")
        if self.position in {Position.AFTER, Position.BEFORE}:
            arguments.plain_text("reference_field_name", self.reference_field_name)

    @staticmethod
    def first(field_name: str) -> Move:
        """Move a column before all others."""
        return Move(field_name, None, Position.FIRST)

    @staticmethod
    def last(field_name: str) -> Move:
        """Move a column behind all others."""
        return Move(field_name, None, Position.LAST)

    @staticmethod
    def after(field_name: str, reference_field_name: str) -> Move:
        """Move a column right behind another."""
        return Move(field_name, reference_field_name, Position.AFTER)

    @staticmethod
    def before(field_name: str, reference_field_name: str) -> Move:
        """Move a column right before another."""
        return Move(field_name, reference_field_name, Position.BEFORE)


class SchemaChange:
    """One change of a schema, made by one of the static methods and applied by a catalog's `alter_table`.

    A `field_name` is the name of a column, or a list of segments that leads to a field inside one. Inside arrays and
    maps the segments are the literal names `element` and `value`. Data files are not rewritten: they are read through
    the newest schema.

    >>> SchemaChange.drop_column(["items", "element", "price"])
    DropColumn(path=('items', 'element', 'price'))
    """

    __slots__ = ()

    @staticmethod
    def add_column(
        field_name: FieldName, data_type: DataType | str, comment: str | None = None, move: Move | None = None
    ) -> SchemaChange:
        """Add a column, as the last one unless `move` names its place. It must be nullable: existing rows get null."""
        place = arguments.optional(_move, "move", move)
        return AddColumn(
            _path(field_name),
            _type(data_type),
            arguments.remark("comment", comment),
            place,
        )

    @staticmethod
    def drop_column(field_name: FieldName) -> SchemaChange:
        """Drop a column; its values in existing files are not read any more. Key columns cannot be dropped."""
        return DropColumn(_path(field_name))

    @staticmethod
    def rename_column(field_name: FieldName, new_name: str) -> SchemaChange:
        """Rename a column; options that name it follow. Partition columns cannot be renamed."""
        return RenameColumn(_path(field_name), arguments.plain_text("new_name", new_name))

    @staticmethod
    def update_column_type(
        field_name: FieldName,
        new_data_type: DataType | str,
        keep_nullability: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
        *,
        allow_lossy: bool = False,
    ) -> SchemaChange:
        """Give a column another type; values in existing files are cast when they are read.

        A type that does not hold every value of the table's rows is an error, unless `allow_lossy` is True: then
        integers wrap around, floats and times are truncated, decimals that do not fit read as null, and text that is no
        value of the new type cannot be read.
        """
        return UpdateType(_path(field_name), _type(new_data_type), keep_nullability, allow_lossy)

    @staticmethod
    def update_column_nullability(field_name: FieldName, new_nullability: bool) -> SchemaChange:  # noqa: FBT001 - pypaimon's signature
        """Change whether a column may hold nulls."""
        return UpdateNullability(_path(field_name), arguments.flag("new_nullability", new_nullability))

    @staticmethod
    def update_column_comment(field_name: FieldName, comment: str | None) -> SchemaChange:
        """Set the description of a column; None removes it."""
        return UpdateDescription(_path(field_name), arguments.remark("comment", comment))

    @staticmethod
    def update_column_default_value(field_name: FieldName, default_value: str | None) -> SchemaChange:
        """Set the value that later writes store in place of a null, as text; None removes it."""
        return UpdateDefault(_path(field_name), arguments.remark("default_value", default_value))

    @staticmethod
    def update_column_position(move: Move, *, inside: FieldName | None = None) -> SchemaChange:
        """Move a column to another place among the columns; `inside` is the path to the ROW whose field is moved."""
        return UpdatePosition(_move("move", move), () if inside is None else _path(inside))

    @staticmethod
    def set_option(key: str, value: object) -> SchemaChange:
        """Set an option of the table. Once it has data, options for where rows lie and how they merge are fixed."""
        return SetOption(arguments.text("key", key), option_text(key, value))

    @staticmethod
    def remove_option(key: str) -> SchemaChange:
        """Remove an option, so that its default holds."""
        return SetOption(arguments.text("key", key), None)

    @staticmethod
    def update_comment(comment: str | None) -> SchemaChange:
        """Set the comment of the table; None removes it."""
        return UpdateComment(arguments.remark("comment", comment))

    @staticmethod
    def drop_primary_key() -> SchemaChange:
        """Make a table that was never written an append table."""
        return DropPrimaryKey()


@dataclass(frozen=True, slots=True)
class AddColumn(SchemaChange):
    """See `SchemaChange.add_column`."""

    path: Path
    data_type: DataType
    comment: str | None
    move: Move | None


@dataclass(frozen=True, slots=True)
class DropColumn(SchemaChange):
    """See `SchemaChange.drop_column`."""

    path: Path


@dataclass(frozen=True, slots=True)
class RenameColumn(SchemaChange):
    """See `SchemaChange.rename_column`."""

    path: Path
    new_name: str


@dataclass(frozen=True, slots=True)
class UpdateType(SchemaChange):
    """See `SchemaChange.update_column_type`."""

    path: Path
    data_type: DataType
    keep_nullability: bool
    allow_lossy: bool = False


@dataclass(frozen=True, slots=True)
class UpdateNullability(SchemaChange):
    """See `SchemaChange.update_column_nullability`."""

    path: Path
    nullable: bool


@dataclass(frozen=True, slots=True)
class UpdateDescription(SchemaChange):
    """See `SchemaChange.update_column_comment`."""

    path: Path
    comment: str | None


@dataclass(frozen=True, slots=True)
class UpdateDefault(SchemaChange):
    """See `SchemaChange.update_column_default_value`."""

    path: Path
    default_value: str | None


@dataclass(frozen=True, slots=True)
class UpdatePosition(SchemaChange):
    """See `SchemaChange.update_column_position`."""

    move: Move
    inside: Path = ()


@dataclass(frozen=True, slots=True)
class SetOption(SchemaChange):
    """See `SchemaChange.set_option` and `SchemaChange.remove_option`."""

    key: str
    value: str | None


@dataclass(frozen=True, slots=True)
class UpdateComment(SchemaChange):
    """See `SchemaChange.update_comment`."""

    comment: str | None


@dataclass(frozen=True, slots=True)
class DropPrimaryKey(SchemaChange):
    """See `SchemaChange.drop_primary_key`."""


def _move(argument: str, value: object) -> Move:
    return arguments.instance(argument, value, Move, "a Move, such as Move.first('a')")


def _path(field_name: FieldName) -> Path:
    return arguments.path_of_names("field_name", field_name)


def _type(data_type: DataType | str) -> DataType:
    return to_type("data_type", data_type)

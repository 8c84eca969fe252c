# ruff: noqa: RUF009 - json_field is dataclasses.field with a name for JSON
"""pypaimon's changes of a schema: dataclasses with its fields and JSON; `to_core` returns lakewright's change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from lakewright.errors import InvalidInputError
from lakewright.pypaimon.values.json_util import json_field
from lakewright.pypaimon.values.types import DataType, to_core
from lakewright.spec.schema import changes as core


class Actions:
    """The names of the changes in JSON."""

    FIELD_ACTION = "action"
    SET_OPTION_ACTION = "setOption"
    REMOVE_OPTION_ACTION = "removeOption"
    UPDATE_COMMENT_ACTION = "updateComment"
    ADD_COLUMN_ACTION = "addColumn"
    RENAME_COLUMN_ACTION = "renameColumn"
    DROP_COLUMN_ACTION = "dropColumn"
    UPDATE_COLUMN_TYPE_ACTION = "updateColumnType"
    UPDATE_COLUMN_NULLABILITY_ACTION = "updateColumnNullability"
    UPDATE_COLUMN_COMMENT_ACTION = "updateColumnComment"
    UPDATE_COLUMN_DEFAULT_VALUE_ACTION = "updateColumnDefaultValue"
    UPDATE_COLUMN_POSITION_ACTION = "updateColumnPosition"


def _action(name: str) -> Any:  # noqa: ANN401 - a field of a dataclass
    return json_field(Actions.FIELD_ACTION, default=name)


def _names(field_name: str | list[str]) -> list[str]:
    return [field_name] if isinstance(field_name, str) else field_name


class MoveType(Enum):
    """Where a column is moved."""

    FIRST = "FIRST"
    AFTER = "AFTER"
    BEFORE = "BEFORE"
    LAST = "LAST"

    def to_dict(self) -> str:
        """Return the place as JSON."""
        return self.value


@dataclass
class Move:
    """A column and its new place."""

    FIELD_FIELD_NAME = "fieldName"
    FIELD_REFERENCE_FIELD_NAME = "referenceFieldName"
    FIELD_TYPE = "type"

    field_name: str = json_field(FIELD_FIELD_NAME)
    reference_field_name: str | None = json_field(FIELD_REFERENCE_FIELD_NAME)
    type: MoveType = json_field(FIELD_TYPE)

    @staticmethod
    def first(field_name: str) -> Move:
        """Move a column before all others."""
        return Move(field_name, None, MoveType.FIRST)

    @staticmethod
    def after(field_name: str, reference_field_name: str) -> Move:
        """Move a column right behind another."""
        return Move(field_name, reference_field_name, MoveType.AFTER)

    @staticmethod
    def before(field_name: str, reference_field_name: str) -> Move:
        """Move a column right before another."""
        return Move(field_name, reference_field_name, MoveType.BEFORE)

    @staticmethod
    def last(field_name: str) -> Move:
        """Move a column behind all others."""
        return Move(field_name, None, MoveType.LAST)

    def to_core(self) -> core.Move:
        """Return lakewright's move."""
        return core.Move(self.field_name, self.reference_field_name, core.Position(MoveType(self.type).value))


class SchemaChange:
    """One change of a schema, made by one of the static methods and applied by a catalog's `alter_table`."""

    def to_core(self) -> core.SchemaChange:
        """Return lakewright's change."""
        raise NotImplementedError

    @staticmethod
    def set_option(key: str, value: str) -> SetOption:
        """Set an option of the table."""
        return SetOption(key, value)

    @staticmethod
    def remove_option(key: str) -> RemoveOption:
        """Remove an option of the table."""
        return RemoveOption(key)

    @staticmethod
    def update_comment(comment: str | None) -> UpdateComment:
        """Set the comment of the table."""
        return UpdateComment(comment)

    @staticmethod
    def add_column(
        field_name: str | list[str], data_type: DataType, comment: str | None = None, move: Move | None = None
    ) -> AddColumn:
        """Add a column."""
        return AddColumn(_names(field_name), data_type, comment, move)

    @staticmethod
    def rename_column(field_name: str | list[str], new_name: str) -> RenameColumn:
        """Rename a column."""
        return RenameColumn(_names(field_name), new_name)

    @staticmethod
    def drop_column(field_name: str | list[str]) -> DropColumn:
        """Drop a column."""
        return DropColumn(_names(field_name))

    @staticmethod
    def update_column_type(
        field_name: str | list[str],
        new_data_type: DataType,
        keep_nullability: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> UpdateColumnType:
        """Give a column another type."""
        return UpdateColumnType(_names(field_name), new_data_type, keep_nullability)

    @staticmethod
    def update_column_nullability(field_name: str | list[str], new_nullability: bool) -> UpdateColumnNullability:  # noqa: FBT001 - pypaimon's signature
        """Change whether a column may hold nulls."""
        return UpdateColumnNullability(_names(field_name), new_nullability)

    @staticmethod
    def update_column_comment(field_name: str | list[str], comment: str) -> UpdateColumnComment:
        """Set the description of a column."""
        return UpdateColumnComment(_names(field_name), comment)

    @staticmethod
    def update_column_default_value(field_names: str | list[str], default_value: str) -> UpdateColumnDefaultValue:
        """Set the value that later writes store in place of a null."""
        return UpdateColumnDefaultValue(_names(field_names), default_value)

    @staticmethod
    def update_column_position(move: Move) -> UpdateColumnPosition:
        """Move a column."""
        return UpdateColumnPosition(move)


@dataclass
class SetOption(SchemaChange):
    """See `SchemaChange.set_option`."""

    FIELD_KEY = "key"
    FIELD_VALUE = "value"
    key: str = json_field(FIELD_KEY)
    value: str = json_field(FIELD_VALUE)
    action: str = _action(Actions.SET_OPTION_ACTION)

    def to_core(self) -> core.SchemaChange:
        """Return lakewright's change."""
        return core.SchemaChange.set_option(self.key, self.value)


@dataclass
class RemoveOption(SchemaChange):
    """See `SchemaChange.remove_option`."""

    FIELD_KEY = "key"
    key: str = json_field(FIELD_KEY)
    action: str = _action(Actions.REMOVE_OPTION_ACTION)

    def to_core(self) -> core.SchemaChange:
        """Return lakewright's change."""
        return core.SchemaChange.remove_option(self.key)


@dataclass
class UpdateComment(SchemaChange):
    """See `SchemaChange.update_comment`."""

    FIELD_COMMENT = "comment"
    comment: str | None = json_field(FIELD_COMMENT)
    action: str = _action(Actions.UPDATE_COMMENT_ACTION)

    def to_core(self) -> core.SchemaChange:
        """Return lakewright's change."""
        return core.SchemaChange.update_comment(self.comment)


@dataclass
class AddColumn(SchemaChange):
    """See `SchemaChange.add_column`."""

    FIELD_FIELD_NAMES = "fieldNames"
    FIELD_DATA_TYPE = "dataType"
    FIELD_COMMENT = "comment"
    FIELD_MOVE = "move"
    field_names: list[str] = json_field(FIELD_FIELD_NAMES)
    data_type: DataType = json_field(FIELD_DATA_TYPE)
    comment: str | None = json_field(FIELD_COMMENT)
    move: Move | None = json_field(FIELD_MOVE)
    action: str = _action(Actions.ADD_COLUMN_ACTION)

    def to_core(self) -> core.SchemaChange:
        """Return lakewright's change."""
        move = None if self.move is None else self.move.to_core()
        return core.SchemaChange.add_column(self.field_names, _core_type(self.data_type), self.comment, move)


@dataclass
class RenameColumn(SchemaChange):
    """See `SchemaChange.rename_column`."""

    FIELD_FIELD_NAMES = "fieldNames"
    FIELD_NEW_NAME = "newName"
    field_names: list[str] = json_field(FIELD_FIELD_NAMES)
    new_name: str = json_field(FIELD_NEW_NAME)
    action: str = _action(Actions.RENAME_COLUMN_ACTION)

    def to_core(self) -> core.SchemaChange:
        """Return lakewright's change."""
        return core.SchemaChange.rename_column(self.field_names, self.new_name)


@dataclass
class DropColumn(SchemaChange):
    """See `SchemaChange.drop_column`."""

    FIELD_FIELD_NAMES = "fieldNames"
    field_names: list[str] = json_field(FIELD_FIELD_NAMES)
    action: str = _action(Actions.DROP_COLUMN_ACTION)

    def to_core(self) -> core.SchemaChange:
        """Return lakewright's change."""
        return core.SchemaChange.drop_column(self.field_names)


@dataclass
class UpdateColumnType(SchemaChange):
    """See `SchemaChange.update_column_type`."""

    FIELD_FIELD_NAMES = "fieldNames"
    FIELD_NEW_DATA_TYPE = "newDataType"
    FIELD_KEEP_NULLABILITY = "keepNullability"
    field_names: list[str] = json_field(FIELD_FIELD_NAMES)
    new_data_type: DataType = json_field(FIELD_NEW_DATA_TYPE)
    keep_nullability: bool = json_field(FIELD_KEEP_NULLABILITY)
    action: str = _action(Actions.UPDATE_COLUMN_TYPE_ACTION)

    def to_core(self) -> core.SchemaChange:
        """Return lakewright's change."""
        return core.SchemaChange.update_column_type(
            self.field_names, _core_type(self.new_data_type), self.keep_nullability
        )


@dataclass
class UpdateColumnNullability(SchemaChange):
    """See `SchemaChange.update_column_nullability`."""

    FIELD_FIELD_NAMES = "fieldNames"
    FIELD_NEW_NULLABILITY = "newNullability"
    field_names: list[str] = json_field(FIELD_FIELD_NAMES)
    new_nullability: bool = json_field(FIELD_NEW_NULLABILITY)
    action: str = _action(Actions.UPDATE_COLUMN_NULLABILITY_ACTION)

    def to_core(self) -> core.SchemaChange:
        """Return lakewright's change."""
        return core.SchemaChange.update_column_nullability(self.field_names, self.new_nullability)


@dataclass
class UpdateColumnComment(SchemaChange):
    """See `SchemaChange.update_column_comment`."""

    FIELD_FIELD_NAMES = "fieldNames"
    FIELD_NEW_COMMENT = "newComment"
    field_names: list[str] = json_field(FIELD_FIELD_NAMES)
    new_comment: str = json_field(FIELD_NEW_COMMENT)
    action: str = _action(Actions.UPDATE_COLUMN_COMMENT_ACTION)

    def to_core(self) -> core.SchemaChange:
        """Return lakewright's change."""
        return core.SchemaChange.update_column_comment(self.field_names, self.new_comment)


@dataclass
class UpdateColumnDefaultValue(SchemaChange):
    """See `SchemaChange.update_column_default_value`."""

    FIELD_FIELD_NAMES = "fieldNames"
    FIELD_NEW_DEFAULT_VALUE = "newDefaultValue"
    field_names: list[str] = json_field(FIELD_FIELD_NAMES)
    new_default_value: str = json_field(FIELD_NEW_DEFAULT_VALUE)
    action: str = _action(Actions.UPDATE_COLUMN_DEFAULT_VALUE_ACTION)

    def to_core(self) -> core.SchemaChange:
        """Return lakewright's change."""
        return core.SchemaChange.update_column_default_value(self.field_names, self.new_default_value)


@dataclass
class UpdateColumnPosition(SchemaChange):
    """See `SchemaChange.update_column_position`."""

    FIELD_MOVE = "move"
    move: Move = json_field(FIELD_MOVE)
    action: str = _action(Actions.UPDATE_COLUMN_POSITION_ACTION)

    def to_core(self) -> core.SchemaChange:
        """Return lakewright's change."""
        return core.SchemaChange.update_column_position(self.move.to_core())


def core_changes(
    changes: SchemaChange | core.SchemaChange | Iterable[SchemaChange | core.SchemaChange],
) -> list[core.SchemaChange]:
    """Return changes of either kind as lakewright's."""
    given = [changes] if isinstance(changes, SchemaChange | core.SchemaChange) else list(changes)
    for change in given:
        if not isinstance(change, SchemaChange | core.SchemaChange):
            raise InvalidInputError(f"Unsupported schema change: {change!r}; make one with SchemaChange")
    return [change.to_core() if isinstance(change, SchemaChange) else change for change in given]


def _core_type(dtype: Any) -> Any:  # noqa: ANN401 - a type of either kind, or text
    return dtype if isinstance(dtype, str) else to_core(dtype)

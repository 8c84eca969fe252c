"""pypaimon's changes of a schema as values: a table of their members in; classes with its names and JSON out.

Every change has the members of its line in the table, and `to_core` hands them, in this order, to the function of
lakewright's `SchemaChange` that the line names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, make_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, cast

from lakewright.errors import InvalidInputError
from lakewright.pypaimon.values.types import DataType, to_core
from lakewright.spec import types
from lakewright.spec.schema import changes as core

# The class, the function of lakewright's SchemaChange, and the members.
_TABLE = """
SetOption                 set_option                   key value
RemoveOption              remove_option                key
UpdateComment             update_comment               comment
AddColumn                 add_column                   field_names data_type comment move
RenameColumn              rename_column                field_names new_name
DropColumn                drop_column                  field_names
UpdateColumnType          update_column_type           field_names new_data_type keep_nullability
UpdateColumnNullability   update_column_nullability    field_names new_nullability
UpdateColumnComment       update_column_comment        field_names new_comment
UpdateColumnDefaultValue  update_column_default_value  field_names new_default_value
UpdateColumnPosition      update_column_position       move
"""


def _camel(name: str) -> str:
    """Return a name as JSON has it.

    >>> _camel("new_data_type")
    'newDataType'
    """
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


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

    field_name: str
    reference_field_name: str | None
    type: MoveType

    FIELD_FIELD_NAME = "fieldName"
    FIELD_REFERENCE_FIELD_NAME = "referenceFieldName"
    FIELD_TYPE = "type"

    @classmethod
    def first(cls, field_name: str) -> Move:
        """Move a column before all others."""
        return cls(field_name, None, MoveType.FIRST)

    @classmethod
    def last(cls, field_name: str) -> Move:
        """Move a column behind all others."""
        return cls(field_name, None, MoveType.LAST)

    @classmethod
    def after(cls, field_name: str, reference_field_name: str) -> Move:
        """Move a column right behind another."""
        return cls(field_name, reference_field_name, MoveType.AFTER)

    @classmethod
    def before(cls, field_name: str, reference_field_name: str) -> Move:
        """Move a column right before another."""
        return cls(field_name, reference_field_name, MoveType.BEFORE)

    def to_dict(self) -> dict[str, object]:
        """Return the move as JSON."""
        return {_camel(name): value for name, value in asdict(self).items()} | {"type": MoveType(self.type).value}

    def to_core(self) -> core.Move:
        """Return lakewright's move."""
        return core.Move(self.field_name, self.reference_field_name, core.Position(MoveType(self.type).value))


class SchemaChange:
    """One change of a schema, made by one of the static methods and applied by a catalog's `alter_table`."""

    verb: ClassVar[str]  # the function of lakewright's SchemaChange
    action: str  # the name of the change in JSON

    if TYPE_CHECKING:

        def __init__(self, *members: object) -> None:
            """Make a change of its members; the classes of the table do so."""

    def to_dict(self) -> dict[str, object]:
        """Return the change as JSON."""
        members = {_camel(part.name): getattr(self, part.name) for part in fields(self)}  # type: ignore[arg-type]
        return {name: value.to_dict() if hasattr(value, "to_dict") else value for name, value in members.items()}

    def to_core(self) -> core.SchemaChange:
        """Return lakewright's change."""
        members = [part.name for part in fields(self) if part.name != "action"]  # type: ignore[arg-type]
        change: core.SchemaChange = getattr(core.SchemaChange, self.verb)(*(_core(getattr(self, m)) for m in members))
        return change

    @staticmethod
    def set_option(key: str, value: str) -> SchemaChange:
        """Set an option of the table."""
        return SetOption(key, value)

    @staticmethod
    def remove_option(key: str) -> SchemaChange:
        """Remove an option of the table."""
        return RemoveOption(key)

    @staticmethod
    def update_comment(comment: str | None) -> SchemaChange:
        """Set the comment of the table."""
        return UpdateComment(comment)

    @staticmethod
    def add_column(
        field_name: str | list[str], data_type: DataType, comment: str | None = None, move: Move | None = None
    ) -> SchemaChange:
        """Add a column."""
        return AddColumn(_path(field_name), data_type, comment, move)

    @staticmethod
    def rename_column(field_name: str | list[str], new_name: str) -> SchemaChange:
        """Rename a column."""
        return RenameColumn(_path(field_name), new_name)

    @staticmethod
    def drop_column(field_name: str | list[str]) -> SchemaChange:
        """Drop a column."""
        return DropColumn(_path(field_name))

    @staticmethod
    def update_column_type(
        field_name: str | list[str],
        new_data_type: DataType,
        keep_nullability: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> SchemaChange:
        """Give a column another type."""
        return UpdateColumnType(_path(field_name), new_data_type, keep_nullability)

    @staticmethod
    def update_column_nullability(field_name: str | list[str], new_nullability: bool) -> SchemaChange:  # noqa: FBT001 - pypaimon's signature
        """Change whether a column may hold nulls."""
        return UpdateColumnNullability(_path(field_name), new_nullability)

    @staticmethod
    def update_column_comment(field_name: str | list[str], comment: str) -> SchemaChange:
        """Set the description of a column."""
        return UpdateColumnComment(_path(field_name), comment)

    @staticmethod
    def update_column_default_value(field_names: str | list[str], default_value: str) -> SchemaChange:
        """Set the value that later writes store in place of a null."""
        return UpdateColumnDefaultValue(_path(field_names), default_value)

    @staticmethod
    def update_column_position(move: Move) -> SchemaChange:
        """Move a column."""
        return UpdateColumnPosition(move)


def _classes() -> dict[str, type[SchemaChange]]:
    """Return a dataclass for each line of the table."""
    classes: dict[str, type[SchemaChange]] = {}
    for line in _TABLE.strip().splitlines():
        name, verb, *members = line.split()
        spelled: dict[str, object] = {f"FIELD_{member.upper()}": _camel(member) for member in members}
        space = {"verb": verb, "__doc__": f"See `SchemaChange.{verb}`.", "__module__": __name__, **spelled}
        action = ("action", str, _camel(verb))
        classes[name] = make_dataclass(name, [*members, action], bases=(SchemaChange,), namespace=space)
    return classes


_CLASSES = _classes()
SetOption = _CLASSES["SetOption"]
RemoveOption = _CLASSES["RemoveOption"]
UpdateComment = _CLASSES["UpdateComment"]
AddColumn = _CLASSES["AddColumn"]
RenameColumn = _CLASSES["RenameColumn"]
DropColumn = _CLASSES["DropColumn"]
UpdateColumnType = _CLASSES["UpdateColumnType"]
UpdateColumnNullability = _CLASSES["UpdateColumnNullability"]
UpdateColumnComment = _CLASSES["UpdateColumnComment"]
UpdateColumnDefaultValue = _CLASSES["UpdateColumnDefaultValue"]
UpdateColumnPosition = _CLASSES["UpdateColumnPosition"]


class Actions:
    """The names of the changes in JSON: `SET_OPTION_ACTION` and its like."""

    FIELD_ACTION = "action"


for _change in _CLASSES.values():
    setattr(Actions, f"{_change.verb.upper()}_ACTION", _camel(_change.verb))


def core_changes(
    changes: SchemaChange | core.SchemaChange | Iterable[SchemaChange | core.SchemaChange],
) -> list[core.SchemaChange]:
    """Return changes of either kind as lakewright's."""
    given = [changes] if isinstance(changes, SchemaChange | core.SchemaChange) else list(changes)
    for change in given:
        if not isinstance(change, SchemaChange | core.SchemaChange):
            raise InvalidInputError(f"Unsupported schema change: {change!r}; make one with SchemaChange")
    return [change.to_core() if isinstance(change, SchemaChange) else change for change in given]


def _path(field_name: str | list[str]) -> list[str]:
    return [field_name] if isinstance(field_name, str) else field_name


def _core(value: Any) -> Any:  # noqa: ANN401 - a member of any change
    """Return a member of a change as lakewright takes it."""
    if isinstance(value, Move):
        return value.to_core()
    return to_core(cast("types.DataType", value)) if isinstance(value, DataType) else value

"""Columns as statements write them, found in the columns of a table: paths and capitals in, paths of the schema out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakewright.errors import ColumnAlreadyExistException
from lakewright.spec.schema.changes import Move, Position
from lakewright.spec.types import ArrayType, DataField, DataType, MapType, MultisetType, RowType
from lakewright.statements.definitions.placing import folded
from lakewright.statements.text import Fragment, Name


@dataclass(frozen=True, slots=True)
class Column:
    """The definition of a column: `path type [NOT NULL] [DEFAULT value] [COMMENT text] [FIRST | AFTER column]`."""

    path: Name
    type: DataType
    comment: str | None = None
    default: str | None = None
    move: Move | None = None
    is_key: bool = False  # PRIMARY KEY behind the column

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.parts[-1]


def real_path(fields: Sequence[DataField], path: Sequence[str]) -> tuple[str, ...]:
    """Return a path with the names as the table has them: names that differ only in capitals are the same."""
    out: list[str] = []
    for part in path:
        inner = fields_inside(fields, out)
        out.append(folded(part, [field.name for field in inner]))
    return tuple(out)


def fields_inside(fields: Sequence[DataField], path: Sequence[str]) -> Sequence[DataField]:
    """Return the fields that lie at a path: those of a STRUCT, or the one part of an array or a map; none elsewhere."""
    for part in path:
        found = next((field.type for field in fields if field.name == part), None)
        fields = () if found is None else _parts(found)
    return fields


def _parts(dtype: DataType) -> Sequence[DataField]:
    match dtype:
        case RowType():
            return dtype.fields
        case ArrayType() | MultisetType():
            return (DataField(-1, "element", dtype.element),)
        case MapType():
            return (DataField(-1, "key", dtype.key), DataField(-1, "value", dtype.value))
        case _:
            return ()


def real_move(siblings: Sequence[DataField], move: Move | None, name: str) -> Move | None:
    """Return a move with the names as the table has them."""
    if move is None or move.reference_field_name is None:
        return None if move is None else Move(name, None, move.position)
    return Move(name, folded(move.reference_field_name, [field.name for field in siblings]), move.position)


def after(reference: str | None) -> Move:
    """Return FIRST (None) or AFTER a column, of a column that is named later."""
    return Move("_", reference, Position.FIRST if reference is None else Position.AFTER)


def refuse_same_name(name: str, taken: Sequence[str], place: Fragment) -> None:
    """Raise an error if a column has the name already, capitals or not: Spark could not tell them apart."""
    if name.casefold() in {one.casefold() for one in taken}:
        message = f"the column {name!r} is there twice: choose another name"
        raise place.error(message, kind=ColumnAlreadyExistException, column=name)

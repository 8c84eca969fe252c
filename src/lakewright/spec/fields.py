"""Fields inside fields: finding, walking and numbering them.

A column may hold ROWs, and their fields have ids of the same counter as the columns. Here are the walks that schemas,
their rules and their evolution share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches

from lakewright.errors import ColumnNotExistException
from lakewright.spec.types import ArrayType, AtomicType, DataField, DataType, MapType, MultisetType, RowType, VectorType

SYSTEM_FIELD_ID_MIN = 1073741823  # ids from here on belong to the format itself


def column_not_found(name: str, columns: Sequence[str]) -> ColumnNotExistException:
    """Return the error for a column that is not there, with the columns there are."""
    close = get_close_matches(name, columns, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return ColumnNotExistException(
        f"there is no column {name!r}, only {', '.join(map(repr, columns))}{hint}", column=name, columns=tuple(columns)
    )


def numbered_fields(fields: Iterable[DataField], ids: Iterator[int]) -> tuple[DataField, ...]:
    """Return columns with new ids: a column first, then what is inside it."""
    return tuple(replace(field, id=next(ids), type=numbered_type(field.type, ids)) for field in fields)


def numbered_type(dtype: DataType, ids: Iterator[int]) -> DataType:
    """Return a type whose ROW fields have new ids; inside a ROW, what a field holds is numbered before the field."""
    match dtype:
        case AtomicType():
            return dtype
        case ArrayType():
            return ArrayType(dtype.nullable, numbered_type(dtype.element, ids))
        case MultisetType():
            return MultisetType(dtype.nullable, numbered_type(dtype.element, ids))
        case VectorType():
            return replace(dtype, element=numbered_type(dtype.element, ids))
        case MapType():
            key = numbered_type(dtype.key, ids)
            return MapType(dtype.nullable, key, numbered_type(dtype.value, ids))
        case RowType():
            return RowType(dtype.nullable, [_numbered_inside(field, ids) for field in dtype.fields])


def all_fields(fields: Iterable[DataField]) -> Iterator[DataField]:
    """Yield columns and every field inside them."""
    for field in fields:
        yield field
        yield from all_fields(_fields_of(field.type))


def highest_field_id(fields: Iterable[DataField]) -> int:
    """Return the highest id in use, -1 without fields; ids of the format itself do not count."""
    return max((f.id for f in all_fields(fields) if f.id < SYSTEM_FIELD_ID_MIN), default=-1)


def _numbered_inside(field: DataField, ids: Iterator[int]) -> DataField:
    inner = numbered_type(field.type, ids)
    return replace(field, id=next(ids), type=inner)


def _fields_of(dtype: DataType) -> Iterator[DataField]:
    match dtype:
        case RowType():
            yield from dtype.fields
        case ArrayType() | MultisetType() | VectorType():
            yield from _fields_of(dtype.element)
        case MapType():
            yield from _fields_of(dtype.key)
            yield from _fields_of(dtype.value)
        case AtomicType():
            pass


def types_inside(dtype: DataType) -> Iterator[DataType]:
    """Yield a type and every type inside it."""
    yield dtype
    match dtype:
        case RowType():
            for field in dtype.fields:
                yield from types_inside(field.type)
        case ArrayType() | MultisetType() | VectorType():
            yield from types_inside(dtype.element)
        case MapType():
            yield from types_inside(dtype.key)
            yield from types_inside(dtype.value)
        case AtomicType():
            pass

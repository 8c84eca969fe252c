"""The changes that let a table hold data with other columns: new columns and fields, and wider types.

A field inside a ROW, an ARRAY or a MAP is treated as a column is: it is added if the table lacks it, and its type is
widened if that of the data holds more values. Nothing is ever removed or narrowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from lakewright.spec.schema import Path, SchemaChange
from lakewright.spec.types import (
    WIDENED_BY_KIND,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    with_nullable,
)


def missing_changes(known: Mapping[str, DataField], given: Sequence[DataField]) -> Iterator[SchemaChange]:
    """Yield the changes of a schema that columns of data need; `known` are the columns of the table by name."""
    for field in given:
        if field.name not in known:
            yield SchemaChange.add_column(field.name, field.type)
        else:
            yield from _changes_inside((field.name,), field.type, known[field.name].type)


def _changes_inside(path: Path, new: DataType, old: DataType) -> Iterator[SchemaChange]:
    match new, old:
        case RowType(), RowType():
            known = {field.name: field.type for field in old.fields}
            for field in new.fields:
                inside = (*path, field.name)
                if field.name in known:
                    yield from _changes_inside(inside, field.type, known[field.name])
                else:  # rows that exist have null there
                    yield SchemaChange.add_column(inside, with_nullable(field.type, nullable=True))
        case ArrayType(), ArrayType():
            yield from _changes_inside((*path, "element"), new.element, old.element)
        case MapType(), MapType():
            yield from _changes_inside((*path, "value"), new.value, old.value)
        case _:
            if is_wider(new, old):
                yield SchemaChange.update_column_type(path, new, keep_nullability=True)


def is_wider(new: DataType, old: DataType) -> bool:
    """Return True if a type holds every value of another, and more."""
    if not isinstance(new, AtomicType) or not isinstance(old, AtomicType):
        return False
    if new.root != old.root:
        return any(old.root in order and new.root in order[order.index(old.root) + 1 :] for order in WIDENED_BY_KIND)
    sizes = [(t.length, t.precision - t.scale, t.scale) for t in (old, new)]
    return sizes[0] != sizes[1] and all(small <= large for small, large in zip(*sizes, strict=True))


def new_parts(given: DataType, known: DataType) -> DataType | None:
    """Return the part of a type whose fields another type lacks, to be merged into it; None: it lacks none.

    A ROW fills a MAP as JSON objects do: each of its fields is a value of the map.
    """
    match given, known:
        case RowType(), RowType():
            own = {field.name: field.type for field in known.fields}
            parts = [(f, new_parts(f.type, own[f.name]) if f.name in own else f.type) for f in given.fields]
            fields = [replace(field, type=part) for field, part in parts if part is not None]
            return RowType(known.nullable, fields) if fields else None
        case ArrayType(), ArrayType():
            element = new_parts(given.element, known.element)
            return None if element is None else ArrayType(known.nullable, element)
        case MapType(), MapType():
            value = new_parts(given.value, known.value)
            return None if value is None else MapType(known.nullable, known.key, value)
        case RowType(), MapType():
            values = [part for field in given.fields if (part := new_parts(field.type, known.value)) is not None]
            return MapType(known.nullable, known.key, reduce(_union, values)) if values else None
        case _:
            return None


def _union(one: DataType, other: DataType) -> DataType:
    """Return the fields of two parts of the same type; of a field that both have, the first type stays."""
    match one, other:
        case RowType(), RowType():
            names = {field.name for field in one.fields}
            return RowType(one.nullable, [*one.fields, *(field for field in other.fields if field.name not in names)])
        case ArrayType(), ArrayType():
            return ArrayType(one.nullable, _union(one.element, other.element))
        case MapType(), MapType():
            return MapType(one.nullable, one.key, _union(one.value, other.value))
        case _:
            return one


def fields_of_parts(path: str, part: DataType, known: DataType) -> Iterator[tuple[str, DataType]]:
    """Yield the path and the type of each field that `new_parts` found."""
    match part, known:
        case RowType(), RowType():
            own = {field.name: field.type for field in known.fields}
            for field in part.fields:
                inside = f"{path}.{field.name}"
                if field.name in own:
                    yield from fields_of_parts(inside, field.type, own[field.name])
                else:
                    yield inside, field.type
        case ArrayType(), ArrayType():
            yield from fields_of_parts(f"{path}.element", part.element, known.element)
        case MapType(), MapType():
            yield from fields_of_parts(f"{path}.value", part.value, known.value)
        case _:
            pass

"""From the schema a file was written with to the schema it is read with.

Columns are the same column if and only if they have the same id, whatever their names, on every level of ROWs; the
elements of arrays and the keys and values of maps correspond by their place. What the file lacks reads as null, a type
that has changed since is cast. Pure: file fields and read fields in, a plan out, which turns batches into batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.formats.conform import rebuild_list, rebuild_struct
from lakewright.read.casts import cast_array, nested_to_text
from lakewright.read.casts import stats_safe as scalar_stats_safe
from lakewright.spec.arrow import to_arrow_schema, to_arrow_type
from lakewright.spec.types import TEXT_ROOTS, ArrayType, AtomicType, DataField, DataType, MapType, MultisetType, RowType


@dataclass(frozen=True, slots=True)
class Evolution:
    """How batches of a file become batches of the read schema."""

    file_fields: tuple[DataField, ...]  # what to read of the file, in the file's own names and types
    read_fields: tuple[DataField, ...]
    places: tuple[int | None, ...]  # for each read field its place among the file fields; None where it is lacking
    schema: pa.Schema
    identity: bool

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of the file fields as one of the read fields."""
        if self.identity:
            return batch
        columns = []
        for field, target, place in zip(self.read_fields, self.schema, self.places, strict=True):
            if place is None:
                columns.append(pa.nulls(batch.num_rows, target.type))
                continue
            columns.append(_evolve(batch.column(place), self.file_fields[place].type, field))
        if not columns:
            return batch.select([])
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def plan_evolution(file_fields: Sequence[DataField], read_fields: Sequence[DataField]) -> Evolution:
    """Plan the reading of a file with other columns than it was written with.

    >>> old = [DataField(0, "id", AtomicType("INT")), DataField(1, "name", AtomicType("STRING"))]
    >>> new = [DataField(1, "title", AtomicType("STRING")), DataField(2, "size", AtomicType("INT"))]
    >>> plan = plan_evolution(old, new)
    >>> [field.name for field in plan.file_fields], plan.places
    (['name'], (0, None))
    """
    return _planned(tuple(file_fields), tuple(read_fields))


@lru_cache(maxsize=64)  # a table of many small files has few schemas
def _planned(file_fields: tuple[DataField, ...], read_fields: tuple[DataField, ...]) -> Evolution:
    by_id = {field.id: field for field in file_fields}
    kept: list[DataField] = []
    places: list[int | None] = []
    for field in read_fields:
        stored = by_id.get(field.id)
        if stored is None:
            places.append(None)
            continue
        places.append(len(kept))
        kept.append(_with_type(stored, _pruned(stored.type, field.type)))
    schema = to_arrow_schema(read_fields)
    identity = None not in places and all(
        file.name == read.name and _same(file.type, read.type) for file, read in zip(kept, read_fields, strict=True)
    )
    # Equal names and types still differ in a description, which lives in the Arrow schema.
    identity = identity and to_arrow_schema(kept).equals(schema, check_metadata=True)
    return Evolution(tuple(kept), read_fields, tuple(places), schema, identity)


def stats_safe(old: DataType, new: DataType) -> bool:
    """Say whether statistics of the old type hold for values read as the new one."""
    if isinstance(old, AtomicType) and isinstance(new, AtomicType):
        return scalar_stats_safe(old, new)
    return False


def _with_type(field: DataField, dtype: DataType) -> DataField:
    return DataField(field.id, field.name, dtype, field.description, field.default_value)


def _pruned(file: DataType, read: DataType) -> DataType:
    """Return the part of a file's type that is read. Of a ROW at least one field is kept, to know its nulls."""
    match file, read:
        case RowType(), RowType():
            types = {field.id: field.type for field in read.fields}
            kept = [_with_type(f, _pruned(f.type, types[f.id])) for f in file.fields if f.id in types]
            return RowType(file.nullable, kept or file.fields[:1])
        case ArrayType(), ArrayType():
            return ArrayType(file.nullable, _pruned(file.element, read.element))
        case MapType(), MapType():
            return MapType(file.nullable, _pruned(file.key, read.key), _pruned(file.value, read.value))
        case _:
            return file


def _same(file: DataType, read: DataType) -> bool:
    """Say whether values need no work: equal types, and ROW fields with equal ids and names in the same order."""
    match file, read:
        case RowType(), RowType():
            return len(file.fields) == len(read.fields) and all(
                a.id == b.id and a.name == b.name and _same(a.type, b.type)
                for a, b in zip(file.fields, read.fields, strict=True)
            )
        case ArrayType(), ArrayType():
            return _same(file.element, read.element)
        case MapType(), MapType():
            return _same(file.key, read.key) and _same(file.value, read.value)
        case AtomicType(), AtomicType():
            return file.type == read.type
        case _:
            return file == read


def _evolve(array: pa.Array, file: DataType, field: DataField) -> pa.Array:
    try:
        return _convert(array, file, field.type)
    except (InvalidInputError, UnsupportedError, pa.ArrowException) as error:
        kind = UnsupportedError if isinstance(error, UnsupportedError) else InvalidInputError
        raise kind(
            f"the column {field.name!r} was {file} in older files and is {field.type} now: {error}. Read it as it was, "
            "or change its type back",
            column=field.name,
        ) from error


def _convert(array: pa.Array, file: DataType, read: DataType) -> pa.Array:
    target = to_arrow_type(read)
    if array.type == target and _same(file, read):
        return array
    match file, read:
        case RowType(), RowType():
            return _convert_row(array, file, read)
        case ArrayType(), ArrayType():
            return rebuild_list(array, target, _convert(array.values, file.element, read.element))
        case MapType(), MapType():
            parts = [_convert(array.keys, file.key, read.key), _convert(array.items, file.value, read.value)]
            entries = pa.StructArray.from_arrays(parts, fields=[target.key_field, target.item_field])
            return rebuild_list(array, target, entries)
        case AtomicType(), AtomicType():
            return cast_array(array, file, read)
        case RowType() | ArrayType() | MapType(), AtomicType() if read.root in TEXT_ROOTS:
            return nested_to_text(array, file)
        case MultisetType(), MultisetType() if file.element == read.element:
            return array
        case _:
            raise UnsupportedError(f"{file} cannot be read as {read}", source=str(file), target=str(read))


def _convert_row(array: pa.Array, file: RowType, read: RowType) -> pa.Array:
    places = {field.id: index for index, field in enumerate(file.fields)}
    children = []
    for field in read.fields:
        place = places.get(field.id)
        if place is None:
            children.append(pa.nulls(len(array), to_arrow_type(field.type)))
        else:
            children.append(_convert(array.field(place), file.fields[place].type, field.type))
    return rebuild_struct(array, to_arrow_type(read), children)

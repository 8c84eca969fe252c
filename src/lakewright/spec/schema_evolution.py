"""A schema and its changes to the next schema; which type changes keep all values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import count
from typing import TypeAlias

from lakewright.errors import ColumnAlreadyExistException, InvalidInputError
from lakewright.spec.option_checks import (
    check_option_change,
    options_naming,
    options_naming_part,
    part_renamed_in_options,
    renamed_in_options,
)
from lakewright.spec.schema import (
    AddColumn,
    DropColumn,
    DropPrimaryKey,
    Move,
    Path,
    Position,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateComment,
    UpdateDefault,
    UpdateDescription,
    UpdateNullability,
    UpdatePosition,
    UpdateType,
)
from lakewright.spec.schema_checks import check_schema
from lakewright.spec.table_schema import TableSchema, column_not_found
from lakewright.spec.types import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    INTEGER_BITS,
    MICROS_PRECISION,
    TEXT_ROOTS,
    TIMESTAMP_ROOTS,
    UNBOUNDED,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    highest_field_id,
    numbered_type,
    row_parts,
    types_inside,
    with_nullable,
)

# ---- Changes of types ------------------------------------------------------------------------------------------------
# Old files are cast when they are read. A change of type without a cast is never applied to a schema; before one
# whose cast may change values is applied, the stored values are checked.

_INTEGERS = tuple(INTEGER_BITS)
_NUMERIC = FLOAT_ROOTS | {*_INTEGERS, "DECIMAL"}
_TEMPORAL = TIMESTAMP_ROOTS | {"DATE", "TIME"}
_SCALARS = _NUMERIC | TEXT_ROOTS | BINARY_ROOTS | _TEMPORAL | {"BOOLEAN"}
_MANTISSA_BITS = {"FLOAT": 24, "DOUBLE": 53}  # whole numbers of so many bits are exact

# An implicit cast keeps what the values mean; an explicit one may round, wrap or fail on some values.
_IMPLICIT = {
    *((narrow, wide) for i, narrow in enumerate(_INTEGERS) for wide in _INTEGERS[i:]),
    *((source, target) for source in _NUMERIC for target in ("DECIMAL", "DOUBLE")),
    *((source, "FLOAT") for source in (*_INTEGERS, "DECIMAL")),
    ("CHAR", "VARCHAR"),
    ("BINARY", "VARBINARY"),
    ("TIMESTAMP", "DATE"),
    ("TIMESTAMP", "TIME"),
    ("TIMESTAMP", "TIMESTAMP_LTZ"),
    ("TIMESTAMP_LTZ", "TIMESTAMP"),
}
_EXPLICIT = {
    *((source, target) for source in _SCALARS for target in TEXT_ROOTS),
    *((source, target) for source in TEXT_ROOTS for target in _SCALARS),
    *((source, target) for source in _NUMERIC for target in _NUMERIC),
    *(("BOOLEAN", target) for target in _NUMERIC),
    *((source, "BOOLEAN") for source in _NUMERIC),
    *((source, target) for source in TIMESTAMP_ROOTS for target in _NUMERIC),
    *((source, target) for source in _NUMERIC for target in TIMESTAMP_ROOTS),
    *((source, target) for source in _TEMPORAL for target in _TEMPORAL),
    ("VARBINARY", "BINARY"),
}


class Cast(StrEnum):
    """Whether the values of one type can be cast to another: always, perhaps not all of them, or not at all."""

    IMPLICIT = "implicit"
    EXPLICIT = "explicit"
    IMPOSSIBLE = "impossible"


def cast_between(source: DataType, target: DataType) -> Cast:
    """Return how values of one type are cast to another, whatever the nullability of the types.

    >>> cast_between(AtomicType("INT"), AtomicType("BIGINT")).value
    'implicit'
    """
    if with_nullable(source, nullable=True) == with_nullable(target, nullable=True):
        return Cast.IMPLICIT
    if not isinstance(target, AtomicType):
        return Cast.IMPOSSIBLE
    if not isinstance(source, AtomicType):
        return Cast.EXPLICIT if target.root in TEXT_ROOTS and _has_text(source) else Cast.IMPOSSIBLE
    pair = (source.root, target.root)
    if pair in _IMPLICIT or (source.root == target.root and source.root in _SCALARS):
        return Cast.IMPLICIT
    return Cast.EXPLICIT if pair in _EXPLICIT else Cast.IMPOSSIBLE


def _has_text(dtype: DataType) -> bool:
    """Return whether all parts of a type can be cast to text."""
    match dtype:
        case AtomicType():
            return dtype.root in _SCALARS
        case ArrayType():
            return _has_text(dtype.element)
        case MapType():
            return _has_text(dtype.key) and _has_text(dtype.value)
        case RowType():
            return all(_has_text(field.type) for field in dtype.fields)
        case _:
            return False


def keeps_all_values(source: DataType, target: DataType) -> bool:
    """Return whether all values of one type are exact in another, whatever the nullability of the types.

    >>> keeps_all_values(AtomicType("INT"), AtomicType("DOUBLE"))
    True
    >>> keeps_all_values(AtomicType("BIGINT"), AtomicType("DOUBLE"))
    False
    """
    if with_nullable(source, nullable=True) == with_nullable(target, nullable=True):
        return True
    if not isinstance(target, AtomicType):
        return False
    if target.root == "VARCHAR" and target.length == UNBOUNDED and not _is_binary(source):
        return True
    if not isinstance(source, AtomicType):
        return False
    if source.root == "FLOAT":
        return target.root == "DOUBLE"
    if source.root in TEXT_ROOTS | BINARY_ROOTS:
        return _keeps_length(source, target)
    if source.root in TIMESTAMP_ROOTS and target.root in TIMESTAMP_ROOTS:
        # Nanoseconds reach only from 1677 to 2262.
        return source.precision <= target.precision <= max(source.precision, MICROS_PRECISION)
    if source.root == target.root == "TIME":
        return True
    below = exact_below(source, target)
    return below is not None and _magnitude(source) <= below


def exact_below(source: AtomicType, target: AtomicType) -> int | None:
    """Return the magnitude below which values of one numeric type are exact in another; None if there is no such rule.

    >>> exact_below(AtomicType("BIGINT"), AtomicType("TINYINT"))
    128
    """
    if source.root not in {*_INTEGERS, "DECIMAL", "BOOLEAN"} or (target.root != "DECIMAL" and source.scale):
        return None
    if target.root == "DECIMAL":
        return int(10 ** (target.precision - target.scale)) if source.scale <= target.scale else None
    if target.root in INTEGER_BITS:
        return 1 << (INTEGER_BITS[target.root] - 1)
    return 1 << _MANTISSA_BITS[target.root] if target.root in _MANTISSA_BITS else None


def _magnitude(dtype: AtomicType) -> int:
    """Return a number that is greater than every value of a numeric type, whatever its sign."""
    if dtype.root == "DECIMAL":
        return int(10 ** (dtype.precision - dtype.scale))
    return 2 if dtype.root == "BOOLEAN" else (1 << (INTEGER_BITS[dtype.root] - 1)) + 1


def _is_binary(dtype: DataType) -> bool:
    return isinstance(dtype, AtomicType) and dtype.root in BINARY_ROOTS


def _keeps_length(source: AtomicType, target: AtomicType) -> bool:
    if source.root in TEXT_ROOTS:
        return target.root in TEXT_ROOTS and source.length <= target.length
    return target.root == "VARBINARY" and source.length <= target.length


# ---- Changes of a schema ---------------------------------------------------------------------------------------------
# A column is identified by its id: renaming, moving and retyping keep it, and a new column always gets an id that was
# never used, even under the name of a column that was dropped. Old data files are not changed; their columns are
# found by their ids.

Siblings: TypeAlias = tuple[DataField, ...]
_PART_DEPTH = 3  # of the path to a field of the rows inside an array or a map: column, `element` or `value`, field


def apply_changes(
    schema: TableSchema, changes: Sequence[SchemaChange], *, has_snapshot: bool, time_millis: int
) -> TableSchema:
    """Return the next schema, or the same object if the changes have no effect."""
    changed = schema
    for change in changes:
        changed = _apply(changed, change, has_snapshot=has_snapshot)
    if changed == schema:
        return schema
    _refuse_named_in_options(schema, changed)
    check_schema(changed)
    return replace(changed, id=schema.id + 1, time_millis=time_millis)


def without_lossy(changes: Sequence[SchemaChange]) -> list[SchemaChange]:
    """Return the changes whose effect on stored values must be checked: type changes with `allow_lossy` are left out.

    If such a change also changes nullability, that part of it stays.
    """
    kept: list[SchemaChange] = []
    for change in changes:
        if not (isinstance(change, UpdateType) and change.allow_lossy):
            kept.append(change)
        elif not change.keep_nullability:
            kept.append(UpdateNullability(change.path, change.data_type.nullable))
    return kept


def _apply(schema: TableSchema, change: SchemaChange, *, has_snapshot: bool) -> TableSchema:
    match change:
        case SetOption(key, value):
            return _with_option(schema, key, value, has_snapshot=has_snapshot)
        case UpdateComment(comment):
            return replace(schema, comment=comment or None)
        case DropPrimaryKey():
            return _without_primary_key(schema, has_snapshot=has_snapshot)
        case AddColumn():
            return _with_column(schema, change)
        case DropColumn(path):
            return _without_column(schema, path)
        case RenameColumn():
            return _rename_column(schema, change)
        case UpdatePosition(move, inside):
            return _rewrite(
                schema, (*inside, move.field_name), lambda siblings, path: _move_field(siblings, move, path)
            )
        case UpdateType():
            return _change_type(schema, change, has_snapshot=has_snapshot)
        case _:
            return _with_attribute(schema, change)


def _with_attribute(schema: TableSchema, change: SchemaChange) -> TableSchema:
    """Apply a change of one column that keeps its name, type and place."""
    match change:
        case UpdateNullability(path, nullable):
            if nullable:
                _refuse_key_column(path, "made nullable", schema.primary_keys)
            return _rewrite_field(schema, path, lambda field: _with_nullability(schema, field, path, nullable=nullable))
        case UpdateDescription(path, comment):
            return _rewrite_field(schema, path, lambda field: replace(field, description=comment or None))
        case UpdateDefault(path, default):
            if len(path) > 1:
                raise InvalidInputError(
                    f"only a column can have a default, not {_join_path(path)}", column=_join_path(path)
                )
            return _rewrite_field(schema, path, lambda field: replace(field, default_value=default))
        case _:
            raise InvalidInputError(f"not a change of a schema: {change!r}; use the constructors of SchemaChange")


def _with_option(schema: TableSchema, key: str, value: str | None, *, has_snapshot: bool) -> TableSchema:
    check_option_change(schema.options, key, value, has_snapshot=has_snapshot)
    options = {name: text for name, text in schema.options.items() if name != key}
    return replace(schema, options=options if value is None else {**schema.options, key: value})


def _without_primary_key(schema: TableSchema, *, has_snapshot: bool) -> TableSchema:
    if has_snapshot:
        raise InvalidInputError(
            f"the primary key {list(schema.primary_keys)} can only be dropped from a table that was never written",
            columns=schema.primary_keys,
        )
    return replace(schema, primary_keys=())


def _with_column(schema: TableSchema, change: AddColumn) -> TableSchema:
    name = _join_path(change.path)
    if not change.data_type.nullable:
        raise InvalidInputError(
            f"the new column {name!r} cannot be NOT NULL: rows that exist have no value for it", column=name
        )
    highest = max(schema.highest_field_id, highest_field_id(schema.fields))
    ids = count(highest + 1)
    number = next(ids)
    new = DataField(number, change.path[-1], numbered_type(change.data_type, ids), change.comment or None)

    def add(siblings: Siblings, path: Path) -> Siblings:
        _refuse_taken(siblings, path[-1], path)
        if change.move is None:
            place = _place_of_new(schema, siblings, path)
            return (*siblings[:place], new, *siblings[place:])
        if change.move.field_name != new.name:
            raise InvalidInputError(
                f"the move of the new column {name!r} names {change.move.field_name!r}", column=name
            )
        return _move_field((*siblings, new), change.move, path)

    return replace(_rewrite(schema, change.path, add), highest_field_id=max(highest, highest_field_id([new])))


def _place_of_new(schema: TableSchema, siblings: Siblings, path: Path) -> int:
    """Return how many columns come before a new one that names no place: all, or those before the partition columns."""
    if len(path) > 1 or not schema.table_options.add_column_before_partition:
        return len(siblings)
    places = (at for at, field in enumerate(siblings) if field.name in schema.partition_keys)
    return next(places, len(siblings))


def _without_column(schema: TableSchema, path: Path) -> TableSchema:
    _refuse_key_column(path, "dropped", (*schema.partition_keys, *schema.primary_keys, *schema.bucket_keys))
    return _rewrite(schema, path, _without)


def _refuse_named_in_options(old: TableSchema, new: TableSchema) -> None:
    """Raise InvalidInputError if a dropped column, or a dropped field of the rows inside one, is named in an option."""
    now = {field.id: field for field in new.fields}
    for field in old.fields:
        if field.id not in now:
            _refuse_drop(
                options_naming(new.options, field.name) if field.name not in new.field_names else [], field.name
            )
            continue
        column = now[field.id]
        parts = {part.id for part in row_parts(column.type)}
        for part in row_parts(field.type):
            if part.id not in parts:
                _refuse_drop(options_naming_part(new.options, column.name, part.name), f"{column.name}.{part.name}")


def _refuse_drop(keys: Sequence[str], column: str) -> None:
    if keys:
        raise InvalidInputError(
            f"the column {column!r} cannot be dropped: the option {keys[0]!r} names it; change or remove the option in"
            " the same call",
            column=column,
            option=keys[0],
        )


def _without(siblings: Siblings, path: Path) -> Siblings:
    index = _index(siblings, path)
    if len(siblings) == 1:
        raise InvalidInputError(
            f"the column {_join_path(path)!r} is the only one: drop the table or the column that contains it instead",
            column=_join_path(path),
        )
    return siblings[:index] + siblings[index + 1 :]


def _rename_column(schema: TableSchema, change: RenameColumn) -> TableSchema:
    _refuse_key_column(change.path, "renamed", schema.partition_keys)
    new_name = change.new_name

    def rename(siblings: Siblings, path: Path) -> Siblings:
        index = _index(siblings, path)
        if _has_blob(siblings[index].type):
            raise InvalidInputError(f"the BLOB column {_join_path(path)!r} cannot be renamed", column=_join_path(path))
        _refuse_taken(siblings, new_name, (*path[:-1], new_name))
        return (*siblings[:index], replace(siblings[index], name=new_name), *siblings[index + 1 :])

    renamed = _rewrite(schema, change.path, rename)
    old = change.path[0]
    if len(change.path) > 1:
        if len(change.path) != _PART_DEPTH:
            return renamed
        return replace(renamed, options=part_renamed_in_options(schema.options, old, change.path[-1], new_name))
    return replace(
        renamed,
        primary_keys=tuple(new_name if name == old else name for name in schema.primary_keys),
        options=renamed_in_options(schema.options, old, new_name),
    )


def _change_type(schema: TableSchema, change: UpdateType, *, has_snapshot: bool) -> TableSchema:
    _refuse_key_column(change.path, "retyped", (*schema.partition_keys, *schema.primary_keys))
    if has_snapshot:  # the buckets of existing rows follow from their old values
        _refuse_key_column(change.path, "retyped", schema.bucket_keys)
    return _rewrite_field(schema, change.path, lambda field: _cast_field(schema, field, change))


def _cast_field(schema: TableSchema, field: DataField, change: UpdateType) -> DataField:
    old, new, name = field.type, change.data_type, _join_path(change.path)
    if change.keep_nullability:
        new = with_nullable(new, old.nullable)
    _check_nullability(schema, name, old.nullable, new.nullable)
    cast = cast_between(old, new)
    forbidden = cast is Cast.EXPLICIT and schema.table_options.disable_explicit_type_casting
    if cast is Cast.IMPOSSIBLE or forbidden:
        remedy = (
            "the option 'disable-explicit-type-casting' forbids casts that may lose values"
            if forbidden
            else "there is no such cast; add a new column instead, or name the field inside it that is to change"
        )
        raise InvalidInputError(f"the column {name!r} cannot be converted from {old} to {new}: {remedy}", column=name)
    return replace(field, type=new)


def _with_nullability(schema: TableSchema, field: DataField, path: Path, *, nullable: bool) -> DataField:
    _check_nullability(schema, _join_path(path), field.type.nullable, nullable)
    return replace(field, type=with_nullable(field.type, nullable))


def _check_nullability(schema: TableSchema, name: str, old: bool, new: bool) -> None:  # noqa: FBT001 - a pair
    if old and not new and schema.table_options.alter_column_null_to_not_null_disabled:
        raise InvalidInputError(
            f"the column {name!r} may hold nulls already and cannot become NOT NULL; if you know that it holds none,"
            " set the option 'alter-column-null-to-not-null.disabled' to false",
            column=name,
        )


def _move_field(siblings: Siblings, move: Move, path: Path) -> Siblings:
    field = siblings[_index(siblings, path)]
    others = tuple(sibling for sibling in siblings if sibling is not field)
    if move.position is Position.FIRST:
        return (field, *others)
    if move.position is Position.LAST:
        return (*others, field)
    if move.reference_field_name is None or move.reference_field_name == field.name:
        raise InvalidInputError(f"the column {field.name!r} needs another column to move to", column=field.name)
    index = _index(others, (*path[:-1], move.reference_field_name)) + (move.position is Position.AFTER)
    return (*others[:index], field, *others[index:])


def _rewrite_field(schema: TableSchema, path: Path, edit: Callable[[DataField], DataField]) -> TableSchema:
    def edit_one(siblings: Siblings, path: Path) -> Siblings:
        index = _index(siblings, path)
        return (*siblings[:index], edit(siblings[index]), *siblings[index + 1 :])

    return _rewrite(schema, path, edit_one)


def _rewrite(schema: TableSchema, path: Path, edit: Callable[[Siblings, Path], Siblings]) -> TableSchema:
    """Return the schema with edited fields at the end of a path; `edit` gets these fields and the path."""

    def in_fields(fields: Siblings, depth: int) -> Siblings:
        if depth == len(path) - 1:
            return edit(fields, path)
        index = _index(fields, path[: depth + 1])
        inner = in_type(fields[index].type, depth + 1)
        return (*fields[:index], replace(fields[index], type=inner), *fields[index + 1 :])

    def in_part(name: str, dtype: DataType, depth: int) -> DataType:
        # The part of an array or a map is treated as the only field of a ROW; only its type can change.
        lone = DataField(-1, name, dtype)
        edited = in_fields((lone,), depth)
        if len(edited) != 1 or replace(edited[0], type=dtype) != lone:
            raise InvalidInputError(f"of {_join_path(path)!r} only the type can change", column=_join_path(path))
        return edited[0].type

    def in_type(dtype: DataType, depth: int) -> DataType:
        match dtype:
            case RowType():
                return RowType(dtype.nullable, in_fields(dtype.fields, depth))
            case ArrayType() | MultisetType():
                return type(dtype)(dtype.nullable, in_part("element", dtype.element, depth))
            case MapType():
                return MapType(dtype.nullable, dtype.key, in_part("value", dtype.value, depth))
            case _:
                raise column_not_found(_join_path(path), [_join_path(path[:depth])])

    return replace(schema, fields=in_fields(schema.fields, 0))


def _index(siblings: Siblings, path: Path) -> int:
    for index, sibling in enumerate(siblings):
        if sibling.name == path[-1]:
            return index
    raise column_not_found(_join_path(path), [_join_path((*path[:-1], sibling.name)) for sibling in siblings])


def _refuse_key_column(path: Path, verb: str, keys: Sequence[str]) -> None:
    if len(path) == 1 and path[0] in keys:
        raise InvalidInputError(
            f"the column {path[0]!r} cannot be {verb}: it is part of the partition, primary or bucket key",
            column=path[0],
        )


def _refuse_taken(siblings: Siblings, name: str, path: Path) -> None:
    if any(sibling.name == name for sibling in siblings):
        raise ColumnAlreadyExistException(
            f"the column {_join_path(path)!r} already exists: choose another name", column=_join_path(path)
        )


def _has_blob(dtype: DataType) -> bool:
    return any(isinstance(part, AtomicType) and part.root == "BLOB" for part in types_inside(dtype))


def _join_path(path: Path) -> str:
    return ".".join(path)

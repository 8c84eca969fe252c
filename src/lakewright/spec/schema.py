"""What users declare and request: `Schema`, `SchemaChange`, `Move`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count
from typing import TypeAlias

import pyarrow as pa

from lakewright.errors import InvalidInputError
from lakewright.spec import argument_checks
from lakewright.spec.arrow_types import from_arrow_schema
from lakewright.spec.option_checks import check_new_value
from lakewright.spec.option_values import ConfigOption, option_text
from lakewright.spec.schema_checks import check_partition_types, check_schema
from lakewright.spec.table_options import TableOptions, option_texts
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import DataField, DataType, highest_field_id, numbered_fields, to_type, with_nullable

# ---- Changes that users request --------------------------------------------------------------------------------------

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
        argument_checks.plain_text("field_name", self.field_name)
        argument_checks.check_instance("position", self.position, Position, "a Position")
        if self.position in {Position.AFTER, Position.BEFORE}:
            argument_checks.plain_text("reference_field_name", self.reference_field_name)

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
        place = argument_checks.check_optional(_move, "move", move)
        return AddColumn(
            _path(field_name),
            _type(data_type),
            argument_checks.remark("comment", comment),
            place,
        )

    @staticmethod
    def drop_column(field_name: FieldName) -> SchemaChange:
        """Drop a column; its values in existing files are not read any more. Key columns cannot be dropped."""
        return DropColumn(_path(field_name))

    @staticmethod
    def rename_column(field_name: FieldName, new_name: str) -> SchemaChange:
        """Rename a column; options that name it follow. Partition columns cannot be renamed."""
        return RenameColumn(_path(field_name), argument_checks.plain_text("new_name", new_name))

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
        return UpdateNullability(_path(field_name), argument_checks.check_bool("new_nullability", new_nullability))

    @staticmethod
    def update_column_comment(field_name: FieldName, comment: str | None) -> SchemaChange:
        """Set the description of a column; None removes it."""
        return UpdateDescription(_path(field_name), argument_checks.remark("comment", comment))

    @staticmethod
    def update_column_default_value(field_name: FieldName, default_value: str | None) -> SchemaChange:
        """Set the value that later writes store in place of a null, as text; None removes it."""
        return UpdateDefault(_path(field_name), argument_checks.remark("default_value", default_value))

    @staticmethod
    def update_column_position(move: Move, *, inside: FieldName | None = None) -> SchemaChange:
        """Move a column to another place among the columns; `inside` is the path to the ROW whose field is moved."""
        return UpdatePosition(_move("move", move), () if inside is None else _path(inside))

    @staticmethod
    def set_option(key: str, value: object) -> SchemaChange:
        """Set an option of the table. Once it has data, options for where rows lie and how they merge are fixed."""
        return SetOption(argument_checks.check_text("key", key), option_text(key, value))

    @staticmethod
    def remove_option(key: str) -> SchemaChange:
        """Remove an option, so that its default holds."""
        return SetOption(argument_checks.check_text("key", key), None)

    @staticmethod
    def update_comment(comment: str | None) -> SchemaChange:
        """Set the comment of the table; None removes it."""
        return UpdateComment(argument_checks.remark("comment", comment))

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
    return argument_checks.check_instance(argument, value, Move, "a Move, such as Move.first('a')")


def _path(field_name: FieldName) -> Path:
    return argument_checks.path_of_names("field_name", field_name)


def _type(data_type: DataType | str) -> DataType:
    return to_type("data_type", data_type)


# ---- Schemas of new tables -------------------------------------------------------------------------------------------


@dataclass(frozen=True, init=False)
class Schema:
    """The columns, keys, options and comment of a table to be created.

    Without primary keys it is an append table; with them, rows of one key are merged, and the key columns become NOT
    NULL. Keys are given as names of columns; one name is accepted as a list of one. Options are those of Apache Paimon;
    numbers and booleans are accepted as values. The ids of the fields are assigned anew when the table is created.

    >>> Schema.from_pyarrow_schema(pa.schema({"id": pa.int64(), "name": pa.string()}), primary_keys=["id"]).primary_keys
    ('id',)
    """

    fields: tuple[DataField, ...]
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: Mapping[str, str]
    comment: str | None

    def __init__(
        self,
        fields: Iterable[DataField] | None = None,
        partition_keys: str | Iterable[str] | None = None,
        primary_keys: str | Iterable[str] | None = None,
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
    ) -> None:
        put = object.__setattr__
        expected = "fields; Schema.from_pyarrow_schema takes an Arrow schema"
        put(
            self,
            "fields",
            () if fields is None else argument_checks.check_instances("fields", fields, DataField, expected),
        )
        put(self, "partition_keys", _key_names("partition_keys", partition_keys))
        put(self, "primary_keys", _key_names("primary_keys", primary_keys))
        put(self, "options", {} if options is None else option_texts(options))
        put(self, "comment", argument_checks.remark("comment", comment))

    @classmethod
    def from_pyarrow_schema(
        cls,
        pa_schema: pa.Schema,
        partition_keys: str | Iterable[str] | None = None,
        primary_keys: str | Iterable[str] | None = None,
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
    ) -> Schema:
        """Return a schema with the columns of an Arrow schema.

        Types without a counterpart are widened if that keeps every value (`uint32` is BIGINT), otherwise refused, all
        in one error. `large_binary` stands for BLOB.
        """
        argument_checks.check_instance("pa_schema", pa_schema, pa.Schema, "a pyarrow schema")
        return cls(from_arrow_schema(pa_schema, declared=True), partition_keys, primary_keys, options, comment)


def new_table_schema(schema: Schema, *, time_millis: int) -> TableSchema:
    """Return the first schema of a new table; InvalidInputError names the rule that the declaration breaks."""
    options = dict(schema.options)
    for key, value in options.items():
        check_new_value(options, key, value)
    primary_keys = _moved_keys(options, TableOptions.primary_key, schema.primary_keys)
    partition_keys = _moved_keys(options, TableOptions.partition, schema.partition_keys)
    if TableOptions.path.key() in options:
        raise InvalidInputError("the option 'path' is not stored in a schema: remove it", option="path")
    fields = numbered_fields(schema.fields, count())
    if not TableOptions(options).primary_key_nullable:
        fields = tuple(
            replace(field, type=with_nullable(field.type, nullable=False)) if field.name in primary_keys else field
            for field in fields
        )
    created = TableSchema(
        id=0,
        fields=fields,
        highest_field_id=highest_field_id(fields),
        partition_keys=partition_keys,
        primary_keys=primary_keys,
        options=options,
        comment=schema.comment,
        time_millis=time_millis,
    )
    check_schema(created)
    check_partition_types(created)
    return created


def _key_names(argument: str, names: object) -> tuple[str, ...]:
    return () if names is None else argument_checks.check_names(argument, names)


def _moved_keys(
    options: dict[str, str], option: ConfigOption[tuple[str, ...] | None], declared: tuple[str, ...]
) -> tuple[str, ...]:
    """Remove a key from the options, if it is declared as one, and return it."""
    text = options.pop(option.key(), None)
    if text is None:
        return declared
    keys = option.parse(text) or ()
    if declared and declared != keys:
        raise InvalidInputError(
            f"the keys {list(declared)} and the option {option.key()!r} = {text!r} contradict each other: give one",
            option=option.key(),
        )
    return keys

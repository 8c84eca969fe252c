"""Types, schema and schema changes in pypaimon's shapes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, make_dataclass
from dataclasses import field as dataclass_field
from dataclasses import fields as dataclass_fields
from enum import Enum
from types import UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, cast

import pyarrow as pa

from lakewright.errors import ColumnNotExistException, CorruptTableError, InvalidInputError, LakewrightError
from lakewright.pypaimon.compat_options import CoreOptions as OptionsCompat
from lakewright.spec import schema as core_schema
from lakewright.spec import table_schema as core_table_schema
from lakewright.spec import types
from lakewright.spec import types as core_types
from lakewright.spec.arrow_types import (
    from_arrow_schema,
    from_arrow_type,
    to_arrow_field,
    to_arrow_schema,
    to_arrow_type,
)
from lakewright.spec.table_options import TableOptions
from lakewright.spec.types import JSON
from lakewright.spec.variant_encoding import VARIANT_TYPE

# ---- Data types ------------------------------------------------------------------------------------------------------
# A type of lakewright, such as one of `table.fields`, is an instance of the class of the same name here, and equal
# types are equal whichever of the two classes they have. `to_core` returns the frozen type that schema files are
# written from.

SYSTEM_FIELD_ID_START = core_types.SYSTEM_FIELD_ID_MIN


class _Kind(type):
    """Makes `isinstance` true for lakewright's class as well."""

    _core: ClassVar[type | UnionType]

    def __instancecheck__(cls, value: object) -> bool:
        return super().__instancecheck__(value) or isinstance(value, cls._core)


class _Value(metaclass=_Kind):
    """A frozen value of lakewright that can be changed, and that equals lakewright's own."""

    _core: ClassVar[type | UnionType] = type(None)

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _parts(self, value: object) -> tuple[object, ...]:
        return tuple(getattr(value, part.name) for part in dataclass_fields(self) if part.compare)  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        return self._parts(self) == self._parts(other) if isinstance(other, self._core) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._parts(self))


class DataType(_Value):
    """The base of all data types."""

    _core: ClassVar[type | UnionType] = (
        core_types.AtomicType
        | core_types.ArrayType
        | core_types.MapType
        | core_types.MultisetType
        | core_types.RowType
        | core_types.VectorType
    )

    def to_dict(self) -> JSON:
        """Return the type as pypaimon's JSON, which repeats the nullability of types that are no scalars."""
        found: JSON = super().to_dict()  # type: ignore[misc]
        return {**found, "nullable": self.nullable} if isinstance(found, Mapping) else found  # type: ignore[attr-defined]

    @classmethod
    def from_dict(cls, data: JSON) -> Self:
        """Read a type from JSON."""
        found = DataTypeParser.parse_data_type(data)
        if not isinstance(found, cls):
            raise InvalidInputError(f"expected {cls.__name__}, found {found}")
        return found


class AtomicType(DataType, core_types.AtomicType):
    """A scalar type, given as text: `AtomicType("DECIMAL(10, 2)", nullable=False)`."""

    _core = core_types.AtomicType

    def __str__(self) -> str:
        text = f"TIMESTAMP_LTZ({self.precision})" if self.root == "TIMESTAMP_LTZ" else self.type
        return text if self.nullable else f"{text} NOT NULL"


class ArrayType(DataType, core_types.ArrayType):
    """A list: `ArrayType(True, AtomicType("INT"))`."""

    _core = core_types.ArrayType


class MultisetType(DataType, core_types.MultisetType):
    """A multiset: `MultisetType(True, AtomicType("INT"))`."""

    _core = core_types.MultisetType


class MapType(DataType, core_types.MapType):
    """A map: `MapType(True, AtomicType("STRING"), AtomicType("INT"))`."""

    _core = core_types.MapType


class VectorType(DataType, core_types.VectorType):
    """A list with a fixed number of numbers: `VectorType(True, AtomicType("FLOAT"), 128)`."""

    _core = core_types.VectorType
    VALID_ELEMENT_TYPES: ClassVar = {*core_types.INTEGER_BITS, *core_types.FLOAT_ROOTS, "BOOLEAN", "INTEGER"}

    def __init__(self, nullable: bool, element_type: core_types.DataType, length: int) -> None:  # noqa: FBT001 - pypaimon's order
        if length < 1:
            raise InvalidInputError(f"the length of a vector must be greater than or equal to 1, not {length}")
        if not self.is_valid_element_type(element_type):
            raise InvalidInputError(f"Invalid element type for vector: {element_type}")
        super().__init__(nullable, element_type, length)

    @classmethod
    def is_valid_element_type(cls, element_type: object) -> bool:
        """Return whether a vector can hold this type: numbers and booleans."""
        return isinstance(element_type, core_types.AtomicType) and element_type.root in cls.VALID_ELEMENT_TYPES


class DataField(_Value, core_types.DataField):
    """A column, or a field of a ROW."""

    _core = core_types.DataField
    FIELD_ID = "id"
    FIELD_NAME = "name"
    FIELD_TYPE = "type"
    FIELD_DESCRIPTION = "description"
    FIELD_DEFAULT_VALUE = "defaultValue"

    @classmethod
    def from_dict(cls, data: Mapping[str, JSON]) -> DataField:
        """Read a field from JSON."""
        return DataTypeParser.parse_data_field(data)


class RowType(DataType, core_types.RowType):
    """A struct: `RowType(True, [DataField(0, "a", AtomicType("INT"))])`."""

    _core = core_types.RowType

    def __str__(self) -> str:
        described = [f" COMMENT {field.description}" if field.description else "" for field in self.fields]
        inner = ", ".join(
            f"{field.name}: {field.type}{more}" for field, more in zip(self.fields, described, strict=True)
        )
        return f"ROW<{inner}>{'' if self.nullable else ' NOT NULL'}"

    def get_field_index(self, field_name: str) -> int:
        """Return the position of a field."""
        for index, field in enumerate(self.fields):
            if field.name == field_name:
                return index
        raise InvalidInputError(f"Field {field_name} not found in {self}", column=field_name)


def to_core(dtype: core_types.DataType) -> core_types.DataType:
    """Return lakewright's own type."""
    return core_types.parse_type(dtype.to_dict())


def core_field(field: core_types.DataField) -> core_types.DataField:
    """Return lakewright's own field."""
    return core_types.DataField(field.id, field.name, to_core(field.type), field.description, field.default_value)


def from_core(dtype: core_types.DataType) -> Any:  # noqa: ANN401 - the class follows from the type
    """Return a type of lakewright as pypaimon's."""
    match dtype:
        case core_types.UnknownType():
            return dtype
        case core_types.AtomicType():
            return AtomicType(dtype.type, dtype.nullable)
        case core_types.ArrayType():
            return ArrayType(dtype.nullable, from_core(dtype.element))
        case core_types.MultisetType():
            return MultisetType(dtype.nullable, from_core(dtype.element))
        case core_types.MapType():
            return MapType(dtype.nullable, from_core(dtype.key), from_core(dtype.value))
        case core_types.VectorType():
            return VectorType(dtype.nullable, from_core(dtype.element), dtype.length)
        case core_types.RowType():
            return RowType(dtype.nullable, [field_from_core(field) for field in dtype.fields])


def field_from_core(field: core_types.DataField) -> DataField:
    """Return a field of lakewright as pypaimon's."""
    return DataField(field.id, field.name, from_core(field.type), field.description, field.default_value)


class AtomicInteger:
    """A counter for the ids of fields."""

    def __init__(self, initial_value: int = 0) -> None:
        self._value = initial_value

    def get(self) -> int:
        """Return the number."""
        return self._value

    def set(self, value: int) -> None:
        """Set the number."""
        self._value = value

    def increment_and_get(self) -> int:
        """Add one and return the new number."""
        self._value += 1
        return self._value

    def get_and_increment(self) -> int:
        """Add one and return the number before."""
        return self.increment_and_get() - 1


class Keyword(Enum):
    """The words that scalar types begin with."""

    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    STRING = "STRING"
    BOOLEAN = "BOOLEAN"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    BYTES = "BYTES"
    BLOB = "BLOB"
    DECIMAL = "DECIMAL"
    NUMERIC = "NUMERIC"
    DEC = "DEC"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    INTEGER = "INTEGER"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    VARIANT = "VARIANT"


class DataTypeParser:
    """Reads types and fields from text or JSON."""

    @staticmethod
    def parse_nullability(type_string: str) -> bool:
        """Return whether the text of a type allows null."""
        return "NOT NULL" not in type_string.upper()

    @staticmethod
    def parse_atomic_type_sql_string(type_string: str) -> Any:  # noqa: ANN401 - as from_core
        """Read a scalar type from text."""
        return DataTypeParser.parse_data_type(type_string)

    @staticmethod
    def parse_data_type(json_data: JSON, field_id: AtomicInteger | None = None) -> Any:  # noqa: ANN401 - as from_core
        """Read a type from text or JSON; fields of a ROW without an id get the next of the counter."""
        return from_core(core_types.parse_type(_number_fields(json_data, field_id)))

    @staticmethod
    def parse_data_field(json_data: Mapping[str, JSON], field_id: AtomicInteger | None = None) -> DataField:
        """Read a field from JSON; one without an id gets the next of the counter."""
        return field_from_core(core_types.DataField.from_dict(_numbered_field(json_data, field_id)))


def _number_fields(data: JSON, ids: AtomicInteger | None) -> JSON:
    """Return the JSON of a type whose fields all have ids."""
    if not isinstance(data, Mapping):
        return data
    if "type" not in data:
        raise InvalidInputError(f"Missing 'type' field in JSON: {data}")
    out: dict[str, JSON] = {**data}
    for name in {"element", "key", "value"} & data.keys():
        out[name] = _number_fields(data[name], ids)
    if isinstance(fields := data.get("fields"), list | tuple):
        out["fields"] = [_numbered_field(field, ids) for field in fields]
    return out


def _numbered_field(data: Any, ids: AtomicInteger | None) -> Mapping[str, JSON]:  # noqa: ANN401 - checked by the core
    if not isinstance(data, Mapping):
        raise InvalidInputError(f"a field is a JSON object, not {data!r}")
    for name in ("name", "type"):
        if name not in data:
            raise InvalidInputError(f"Missing '{name}' field in JSON: {data}")
    number = data.get("id")
    if number is None and ids is None:
        raise InvalidInputError("Field ID is required when not provided in JSON")
    if number is not None and ids is not None and ids.get() != -1:
        raise InvalidInputError("Partial field id is not allowed.")
    if number is None and ids is not None:
        number = ids.increment_and_get()
    return {**data, "id": number, "type": _number_fields(data["type"], ids)}


class PyarrowFieldParser:
    """Turns types and fields of the format into Arrow's, and back."""

    @staticmethod
    def from_paimon_type(data_type: core_types.DataType) -> pa.DataType:
        """Return the Arrow type that a read returns."""
        if isinstance(data_type, core_types.VectorType):
            return pa.list_(to_arrow_type(data_type.element), data_type.length)
        return to_arrow_type(data_type)

    @staticmethod
    def from_paimon_field(data_field: core_types.DataField) -> pa.Field:
        """Return a column as an Arrow field."""
        return to_arrow_field(data_field)

    @staticmethod
    def from_paimon_schema(data_fields: Iterable[core_types.DataField]) -> pa.Schema:
        """Return columns as an Arrow schema."""
        return to_arrow_schema(tuple(data_fields))

    @staticmethod
    def to_paimon_type(pa_type: pa.DataType, nullable: bool) -> Any:  # noqa: ANN401, FBT001 - pypaimon's signature
        """Return the type of the format for an Arrow type."""
        if pa.types.is_fixed_size_list(pa_type):
            element = pa_type.value_field
            return VectorType(
                nullable, PyarrowFieldParser.to_paimon_type(element.type, element.nullable), pa_type.list_size
            )
        if pa.types.is_large_binary(pa_type):
            return AtomicType("BLOB", nullable)
        return from_core(from_arrow_type(_with_variant_types(pa_type), nullable=nullable))

    @staticmethod
    def to_paimon_field(field_idx: int, pa_field: pa.Field) -> DataField:
        """Return an Arrow field as a column."""
        (field,) = from_arrow_schema(_with_variants(pa.schema([pa_field])), declared=True)
        return DataField(field_idx, field.name, from_core(field.type), field.description)

    @staticmethod
    def to_paimon_schema(pa_schema: pa.Schema) -> list[DataField]:
        """Return Arrow fields as columns, numbered from 0."""
        return [field_from_core(field) for field in from_arrow_schema(_with_variants(pa_schema), declared=True)]


def is_system_field_id(field_id: int) -> bool:
    """Return whether an id belongs to the format itself."""
    return field_id >= SYSTEM_FIELD_ID_START


def is_blob_type(data_type: object) -> bool:
    """Return whether a type is BLOB."""
    return isinstance(data_type, core_types.AtomicType) and data_type.root == "BLOB"


def is_array_blob_type(data_type: object) -> bool:
    """Return whether a type is an array of BLOB."""
    return isinstance(data_type, core_types.ArrayType) and is_blob_type(data_type.element)


def is_map_blob_type(data_type: object) -> bool:
    """Return whether a type is a map whose values are BLOB."""
    return isinstance(data_type, core_types.MapType) and is_blob_type(data_type.value)


def is_blob_file_type(data_type: object) -> bool:
    """Return whether values of a type are in blob files."""
    return is_blob_type(data_type) or is_array_blob_type(data_type) or is_map_blob_type(data_type)


def is_blob_file_field(field: core_types.DataField) -> bool:
    """Return whether values of a column are in blob files."""
    return is_blob_file_type(field.type)


def is_variant_struct(pa_type: pa.StructType) -> bool:
    """Return whether an Arrow struct is how a VARIANT is stored: `value` and `metadata`, both binary and never null."""
    parts = {part.name: pa.types.is_binary(part.type) and not part.nullable for part in pa_type}
    return parts == {"value": True, "metadata": True}


def _with_variants(schema: pa.Schema) -> pa.Schema:
    """Return a schema in which every struct of `value` and `metadata` is marked as a VARIANT, as pypaimon takes it."""
    return pa.schema([field.with_type(_with_variant_types(field.type)) for field in schema], schema.metadata)


def _with_variant_types(pa_type: pa.DataType) -> pa.DataType:
    kinds = pa.types
    if kinds.is_struct(pa_type):
        if is_variant_struct(pa_type):
            return VARIANT_TYPE
        return pa.struct([field.with_type(_with_variant_types(field.type)) for field in pa_type])
    if kinds.is_map(pa_type):
        key, item = pa_type.key_field, pa_type.item_field
        return pa.map_(key.with_type(_with_variant_types(key.type)), item.with_type(_with_variant_types(item.type)))
    if kinds.is_list(pa_type):
        return pa.list_(pa_type.value_field.with_type(_with_variant_types(pa_type.value_type)))
    return pa_type


def reassign_field_id(data_type: core_types.DataType, field_id: AtomicInteger) -> Any:  # noqa: ANN401 - as from_core
    """Return a type whose fields have the next ids of a counter."""
    numbers = iter(field_id.increment_and_get, None)
    return from_core(core_types.numbered_type(data_type, numbers))


def collect_field_ids(data_type: core_types.DataType, field_ids: set[int]) -> None:
    """Add the ids of all fields inside a type to a set; an id that is in it already is an error."""
    for part in core_types.types_inside(data_type):
        for field in part.fields if isinstance(part, core_types.RowType) else ():
            if field.id in field_ids:
                raise InvalidInputError(f"Broken schema, field id {field.id} is duplicated.")
            field_ids.add(field.id)


def current_highest_field_id(fields: Iterable[core_types.DataField]) -> int:
    """Return the highest id of columns and the fields inside them, -1 without any."""
    columns = tuple(fields)
    collect_field_ids(core_types.RowType(True, columns), set())  # noqa: FBT003 - pypaimon's order
    return core_types.highest_field_id(columns)


# ---- Schema changes --------------------------------------------------------------------------------------------------
# Every change has the members of its line in the table, and `to_core` hands them, in this order, to the function of
# lakewright's `SchemaChange` that the line names.

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

    def to_core(self) -> core_schema.Move:
        """Return lakewright's move."""
        return core_schema.Move(
            self.field_name, self.reference_field_name, core_schema.Position(MoveType(self.type).value)
        )


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

    def to_core(self) -> core_schema.SchemaChange:
        """Return lakewright's change."""
        members = [part.name for part in fields(self) if part.name != "action"]  # type: ignore[arg-type]
        change: core_schema.SchemaChange = getattr(core_schema.SchemaChange, self.verb)(
            *(_core(getattr(self, m)) for m in members)
        )
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
    changes: SchemaChange | core_schema.SchemaChange | Iterable[SchemaChange | core_schema.SchemaChange],
) -> list[core_schema.SchemaChange]:
    """Return changes of either kind as lakewright's."""
    given = [changes] if isinstance(changes, SchemaChange | core_schema.SchemaChange) else list(changes)
    for change in given:
        if not isinstance(change, SchemaChange | core_schema.SchemaChange):
            raise InvalidInputError(f"Unsupported schema change: {change!r}; make one with SchemaChange")
    return [change.to_core() if isinstance(change, SchemaChange) else change for change in given]


def _path(field_name: str | list[str]) -> list[str]:
    return [field_name] if isinstance(field_name, str) else field_name


def _core(value: Any) -> Any:  # noqa: ANN401 - a member of any change
    """Return a member of a change as lakewright takes it."""
    if isinstance(value, Move):
        return value.to_core()
    return to_core(cast("types.DataType", value)) if isinstance(value, DataType) else value


# ---- Schemas of new tables -------------------------------------------------------------------------------------------


class Schema(core_schema.Schema):
    """The columns, keys, options and comment of a table to be created. Key columns become NOT NULL at once.

    >>> made = Schema.from_pyarrow_schema(pa.schema({"id": pa.int64(), "name": pa.string()}), primary_keys=["id"])
    >>> [str(field.type) for field in made.fields]
    ['BIGINT NOT NULL', 'STRING']
    """

    FIELD_FIELDS = "fields"
    FIELD_PARTITION_KEYS = "partitionKeys"
    FIELD_PRIMARY_KEYS = "primaryKeys"
    FIELD_OPTIONS = "options"
    FIELD_COMMENT = "comment"

    fields: list[types.DataField]  # type: ignore[assignment]
    partition_keys: list[str]  # type: ignore[assignment]
    primary_keys: list[str]  # type: ignore[assignment]
    options: dict[str, Any]

    def __init__(
        self,
        fields: Iterable[types.DataField] | None = None,
        partition_keys: Iterable[str] | None = None,
        primary_keys: Iterable[str] | None = None,
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
    ) -> None:
        self.fields = [field if type(field) is DataField else field_from_core(field) for field in fields or ()]
        self.partition_keys = list(partition_keys or ())
        self.primary_keys = list(primary_keys or ())
        self.options = options if isinstance(options, dict) else dict(options or {})
        self.comment = comment  # type: ignore[misc]
        nullable = str(self.options.get(TableOptions.primary_key_nullable.key(), "false")).lower() == "true"
        if nullable and not self.primary_keys:
            raise InvalidInputError("Option 'primary-key.nullable' can only be enabled for a table with primary keys.")
        for field in self.fields:
            if field.name in self.primary_keys:
                field.type = types.with_nullable(field.type, nullable)  # type: ignore[misc]
        producer = self.options.get(TableOptions.changelog_producer.key(), "none")
        if producer != "none" and not self.primary_keys:
            raise InvalidInputError(
                f"Cannot set 'changelog-producer' to '{producer}' on a table without primary keys: "
                "Changelog producer requires primary keys to be defined; give primary_keys, or leave the option out"
            )

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @classmethod
    def from_pyarrow_schema(
        cls,
        pa_schema: pa.Schema,
        partition_keys: Iterable[str] | None = None,
        primary_keys: Iterable[str] | None = None,
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
    ) -> Schema:
        """Return a schema with the columns of an Arrow schema."""
        return cls(PyarrowFieldParser.to_paimon_schema(pa_schema), partition_keys, primary_keys, options, comment)

    def to_core(self) -> core_schema.Schema:
        """Return lakewright's declaration."""
        fields = [core_field(field) for field in self.fields]
        return core_schema.Schema(fields, self.partition_keys, self.primary_keys, self.options, self.comment)

    def to_dict(self) -> dict[str, object]:
        """Return the declaration as JSON."""
        return {
            self.FIELD_FIELDS: [field.to_dict() for field in self.fields],
            self.FIELD_PARTITION_KEYS: self.partition_keys,
            self.FIELD_PRIMARY_KEYS: self.primary_keys,
            self.FIELD_OPTIONS: self.options,
            self.FIELD_COMMENT: self.comment,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schema:
        """Read a declaration from JSON."""
        fields = [DataField.from_dict(field) for field in data.get(cls.FIELD_FIELDS, ())]
        keys = data.get(cls.FIELD_PARTITION_KEYS), data.get(cls.FIELD_PRIMARY_KEYS)
        return cls(fields, *keys, data.get(cls.FIELD_OPTIONS), data.get(cls.FIELD_COMMENT))


# ---- Table schemas ---------------------------------------------------------------------------------------------------
# `to_core` returns the frozen schema that files are written from, `TableSchema.of` the way back. Changing the schema
# that a table shows changes neither the table nor a file.


class BucketMode(Enum):
    """How the bucket of a row is chosen, under pypaimon's names."""

    HASH_FIXED = 1
    HASH_DYNAMIC = 2
    CROSS_PARTITION = 3
    BUCKET_UNAWARE = 4
    POSTPONE_MODE = 5
    POSTPONE_BUCKET = -2

    @staticmethod
    def of(mode: core_table_schema.BucketMode) -> BucketMode:
        """Return pypaimon's name of a mode."""
        return _MODES[mode]


_MODES = {
    core_table_schema.BucketMode.HASH_FIXED: BucketMode.HASH_FIXED,
    core_table_schema.BucketMode.HASH_DYNAMIC: BucketMode.HASH_DYNAMIC,
    core_table_schema.BucketMode.KEY_DYNAMIC: BucketMode.CROSS_PARTITION,
    core_table_schema.BucketMode.UNAWARE: BucketMode.BUCKET_UNAWARE,
    core_table_schema.BucketMode.POSTPONE: BucketMode.POSTPONE_MODE,
}


class SchemaFileError(CorruptTableError, RuntimeError):
    """A file or a text is not a schema."""


class TextFiles(Protocol):
    """Something that reads a file as text: `table.file_io`."""

    def read_file_utf8(self, path: str) -> str:
        """Return the text of a file."""


def _now() -> int:
    return int(time.time() * 1000)


@dataclass
class TableSchema:
    """One version of a table's schema, as its file records it.

    >>> declared = Schema([types.DataField(0, "n", types.AtomicType("INT"))], options={"bucket": "1"})
    >>> made = TableSchema.from_schema(0, declared)
    >>> made.version, made.highest_field_id, made.primary_keys, made.copy({"bucket": "2"}).options
    (3, 0, [], {'bucket': '2'})
    """

    PAIMON_07_VERSION: ClassVar[int] = 1
    PAIMON_08_VERSION: ClassVar[int] = 2
    CURRENT_VERSION: ClassVar[int] = core_table_schema.VERSION
    FIELD_VERSION: ClassVar[str] = "version"
    FIELD_ID: ClassVar[str] = "id"
    FIELD_FIELDS: ClassVar[str] = "fields"
    FIELD_HIGHEST_FIELD_ID: ClassVar[str] = "highestFieldId"
    FIELD_PARTITION_KEYS: ClassVar[str] = "partitionKeys"
    FIELD_PRIMARY_KEYS: ClassVar[str] = "primaryKeys"
    FIELD_OPTIONS: ClassVar[str] = "options"
    FIELD_COMMENT: ClassVar[str] = "comment"
    FIELD_TIME_MILLIS: ClassVar[str] = "timeMillis"

    version: int = core_table_schema.VERSION
    id: int = 0
    fields: list[types.DataField] = dataclass_field(default_factory=list)
    highest_field_id: int = 0
    partition_keys: list[str] = dataclass_field(default_factory=list)
    primary_keys: list[str] = dataclass_field(default_factory=list)
    options: dict[str, str] = dataclass_field(default_factory=dict)
    comment: str | None = None
    time_millis: int = dataclass_field(default_factory=_now)

    @staticmethod
    def of(schema: core_table_schema.TableSchema, version: int = core_table_schema.VERSION) -> TableSchema:
        """Return a schema of lakewright in this form."""
        return TableSchema(
            version,
            schema.id,
            [field_from_core(field) for field in schema.fields],
            schema.highest_field_id,
            list(schema.partition_keys),
            list(schema.primary_keys),
            dict(schema.options),
            schema.comment,
            schema.time_millis,
        )

    def to_core(self) -> core_table_schema.TableSchema:
        """Return lakewright's own schema."""
        return core_table_schema.TableSchema(
            self.id,
            tuple(core_field(field) for field in self.fields),
            self.highest_field_id,
            tuple(self.partition_keys),
            tuple(self.primary_keys),
            {key: str(value) for key, value in self.options.items()},
            self.comment,
            self.time_millis,
        )

    @staticmethod
    def from_schema(schema_id: int, schema: Schema) -> TableSchema:
        """Make a schema of a declaration."""
        return TableSchema(
            id=schema_id,
            fields=schema.fields,
            highest_field_id=current_highest_field_id(schema.fields),
            partition_keys=schema.partition_keys,
            primary_keys=schema.primary_keys,
            options=schema.options,
            comment=schema.comment,
        )

    def to_schema(self) -> Schema:
        """Return the declaration of a table with this schema."""
        return Schema(self.fields, self.partition_keys, self.primary_keys, self.options, self.comment)

    @staticmethod
    def from_json(json_str: str) -> TableSchema:
        """Read the text of a schema file."""
        return _read(json_str, "the text")

    def to_dict(self) -> dict[str, object]:
        """Return the schema as JSON, as `pypaimon.common.json_util.JSON` writes it."""
        return {
            self.FIELD_VERSION: self.version,
            self.FIELD_ID: self.id,
            self.FIELD_FIELDS: [column.to_dict() for column in self.fields],
            self.FIELD_HIGHEST_FIELD_ID: self.highest_field_id,
            self.FIELD_PARTITION_KEYS: self.partition_keys,
            self.FIELD_PRIMARY_KEYS: self.primary_keys,
            self.FIELD_OPTIONS: self.options,
            self.FIELD_COMMENT: self.comment,
            self.FIELD_TIME_MILLIS: self.time_millis,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> TableSchema:
        """Read a schema from JSON."""
        return cls.from_json(json.dumps(data))

    @staticmethod
    def from_path(file_io: TextFiles, schema_path: str) -> TableSchema:
        """Read a schema file."""
        try:
            text = file_io.read_file_utf8(schema_path)
        except FileNotFoundError as error:
            raise SchemaFileError(f"Schema file not found: {schema_path}", path=schema_path) from error
        return _read(text, schema_path)

    def copy(self, new_options: Mapping[str, str] | None = None) -> TableSchema:
        """Return the same schema with these options instead of its own; None keeps its own."""
        options = dict(self.options if new_options is None else new_options)
        return TableSchema(
            self.version,
            self.id,
            self.fields,
            self.highest_field_id,
            self.partition_keys,
            self.primary_keys,
            options,
            self.comment,
            self.time_millis,
        )

    def cross_partition_update(self) -> bool:
        """Return whether an update may move a key to another partition."""
        return bool(self.primary_keys) and not set(self.partition_keys) <= set(self.primary_keys)

    @property
    def bucket_keys(self) -> list[str]:
        """The columns that decide the bucket: those of `bucket-key`, else the primary key without partition columns."""
        named = [name.strip() for name in self.options.get("bucket-key", "").split(",") if name.strip()]
        unknown = [name for name in named if name not in {field.name for field in self.fields}]
        if unknown:
            raise ColumnNotExistException(f"bucket-key references unknown columns: {unknown}", column=unknown[0])
        return named or [name for name in self.primary_keys if name not in self.partition_keys]

    @property
    def logical_bucket_key_fields(self) -> list[types.DataField]:
        """The columns of the bucket key, in its order."""
        known = {field.name: field for field in self.fields}
        return [known[name] for name in self.bucket_keys]

    def data_file_fields(self, write_cols: Sequence[str] | None) -> list[types.DataField]:
        """Return the columns that a data file holds, whose entry in a manifest names these columns or none."""
        if write_cols is not None:
            known = {field.name: field for field in self.fields}
            return [known[name] for name in write_cols if name in known]
        options = OptionsCompat(self.options)
        compact = "data-evolution.write-cols-optimization.enabled"
        if not (options.data_evolution_enabled() and str(self.options.get(compact, "false")).lower() == "true"):
            return list(self.fields)
        inline = options.blob_descriptor_fields() | options.blob_view_fields()
        return [field for field in self.fields if field.name in inline or not is_blob_file_field(field)]

    def partial_file_write_cols(self, write_cols: Sequence[str] | None) -> list[str] | None:
        """Return the names of the columns that a data file holds; None: all."""
        if write_cols is not None:
            return list(write_cols)
        held = self.data_file_fields(None)
        return None if len(held) == len(self.fields) else [field.name for field in held]


def _read(text: str, path: str) -> TableSchema:
    try:
        schema = core_table_schema.TableSchema.from_json(text, path=path)
    except LakewrightError as error:
        raise SchemaFileError(f"Failed to parse schema from JSON: {error}", path=path) from error
    return TableSchema.of(schema, json.loads(text).get(TableSchema.FIELD_VERSION, TableSchema.PAIMON_07_VERSION))


class ShownSchema(core_table_schema.TableSchema):
    """The schema of a table: `table.schema` as in lakewright, `table.schema()` as in pypaimon."""

    @classmethod
    def of(cls, schema: core_table_schema.TableSchema) -> ShownSchema:
        """Return a schema of lakewright that can also be called."""
        return cls(*(getattr(schema, part.name) for part in fields(core_table_schema.TableSchema)))

    def __call__(self) -> TableSchema:
        """Return the schema in pypaimon's form."""
        return TableSchema.of(self)

    def with_options(self, extra: Mapping[str, object]) -> core_table_schema.TableSchema:
        """Return lakewright's own schema with more options."""
        plain = core_table_schema.TableSchema(
            *(getattr(self, part.name) for part in fields(core_table_schema.TableSchema))
        )
        return plain.with_options(extra)

"""pypaimon's data types: lakewright's, which can be changed in place and print and become JSON as pypaimon's do.

A type of lakewright, such as one of `table.fields`, is an instance of the class of the same name here, and equal types
are equal whichever of the two classes they have. `to_core` returns the frozen type that schema files are written from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields as dataclass_fields
from enum import Enum
from types import UnionType
from typing import Any, ClassVar, Self

import pyarrow as pa

from lakewright.errors import InvalidInputError
from lakewright.spec import types as core
from lakewright.spec.arrow import from_arrow_schema, from_arrow_type, to_arrow_field, to_arrow_schema, to_arrow_type
from lakewright.spec.types import JSON

SYSTEM_FIELD_ID_START = core.SYSTEM_FIELD_ID_MIN


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
        core.AtomicType | core.ArrayType | core.MapType | core.MultisetType | core.RowType | core.VectorType
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


class AtomicType(DataType, core.AtomicType):
    """A scalar type, given as text: `AtomicType("DECIMAL(10, 2)", nullable=False)`."""

    _core = core.AtomicType

    def __str__(self) -> str:
        text = f"TIMESTAMP_LTZ({self.precision})" if self.root == "TIMESTAMP_LTZ" else self.type
        return text if self.nullable else f"{text} NOT NULL"


class ArrayType(DataType, core.ArrayType):
    """A list: `ArrayType(True, AtomicType("INT"))`."""

    _core = core.ArrayType


class MultisetType(DataType, core.MultisetType):
    """A multiset: `MultisetType(True, AtomicType("INT"))`."""

    _core = core.MultisetType


class MapType(DataType, core.MapType):
    """A map: `MapType(True, AtomicType("STRING"), AtomicType("INT"))`."""

    _core = core.MapType


class VectorType(DataType, core.VectorType):
    """A list with a fixed number of numbers: `VectorType(True, AtomicType("FLOAT"), 128)`."""

    _core = core.VectorType
    VALID_ELEMENT_TYPES: ClassVar = {*core.INTEGER_BITS, *core.FLOAT_ROOTS, "BOOLEAN", "INTEGER"}

    def __init__(self, nullable: bool, element_type: core.DataType, length: int) -> None:  # noqa: FBT001 - pypaimon's order
        if length < 1:
            raise InvalidInputError(f"the length of a vector must be greater than or equal to 1, not {length}")
        if not self.is_valid_element_type(element_type):
            raise InvalidInputError(f"Invalid element type for vector: {element_type}")
        super().__init__(nullable, element_type, length)

    @classmethod
    def is_valid_element_type(cls, element_type: object) -> bool:
        """Say whether a vector can hold this type: numbers and booleans."""
        return isinstance(element_type, core.AtomicType) and element_type.root in cls.VALID_ELEMENT_TYPES


class DataField(_Value, core.DataField):
    """A column, or a field of a ROW."""

    _core = core.DataField
    FIELD_ID = "id"
    FIELD_NAME = "name"
    FIELD_TYPE = "type"
    FIELD_DESCRIPTION = "description"
    FIELD_DEFAULT_VALUE = "defaultValue"

    @classmethod
    def from_dict(cls, data: Mapping[str, JSON]) -> DataField:
        """Read a field from JSON."""
        return DataTypeParser.parse_data_field(data)


class RowType(DataType, core.RowType):
    """A struct: `RowType(True, [DataField(0, "a", AtomicType("INT"))])`."""

    _core = core.RowType

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


def to_core(dtype: core.DataType) -> core.DataType:
    """Return lakewright's own type."""
    return core.parse_type(dtype.to_dict())


def core_field(field: core.DataField) -> core.DataField:
    """Return lakewright's own field."""
    return core.DataField(field.id, field.name, to_core(field.type), field.description, field.default_value)


def from_core(dtype: core.DataType) -> Any:  # noqa: ANN401 - the class follows from the type
    """Return a type of lakewright as pypaimon's."""
    match dtype:
        case core.AtomicType():
            return AtomicType(dtype.type, dtype.nullable)
        case core.ArrayType():
            return ArrayType(dtype.nullable, from_core(dtype.element))
        case core.MultisetType():
            return MultisetType(dtype.nullable, from_core(dtype.element))
        case core.MapType():
            return MapType(dtype.nullable, from_core(dtype.key), from_core(dtype.value))
        case core.VectorType():
            return VectorType(dtype.nullable, from_core(dtype.element), dtype.length)
        case core.RowType():
            return RowType(dtype.nullable, [field_from_core(field) for field in dtype.fields])


def field_from_core(field: core.DataField) -> DataField:
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
        """Say whether the text of a type allows null."""
        return "NOT NULL" not in type_string.upper()

    @staticmethod
    def parse_atomic_type_sql_string(type_string: str) -> Any:  # noqa: ANN401 - as from_core
        """Read a scalar type from text."""
        return DataTypeParser.parse_data_type(type_string)

    @staticmethod
    def parse_data_type(json_data: JSON, field_id: AtomicInteger | None = None) -> Any:  # noqa: ANN401 - as from_core
        """Read a type from text or JSON; fields of a ROW without an id get the next of the counter."""
        return from_core(core.parse_type(_numbered(json_data, field_id)))

    @staticmethod
    def parse_data_field(json_data: Mapping[str, JSON], field_id: AtomicInteger | None = None) -> DataField:
        """Read a field from JSON; one without an id gets the next of the counter."""
        return field_from_core(core.DataField.from_dict(_numbered_field(json_data, field_id)))


def _numbered(data: JSON, ids: AtomicInteger | None) -> JSON:
    """Return the JSON of a type whose fields all have ids."""
    if not isinstance(data, Mapping):
        return data
    if "type" not in data:
        raise InvalidInputError(f"Missing 'type' field in JSON: {data}")
    out: dict[str, JSON] = {**data}
    for name in {"element", "key", "value"} & data.keys():
        out[name] = _numbered(data[name], ids)
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
    return {**data, "id": number, "type": _numbered(data["type"], ids)}


class PyarrowFieldParser:
    """Turns types and fields of the format into Arrow's, and back."""

    @staticmethod
    def from_paimon_type(data_type: core.DataType) -> pa.DataType:
        """Return the Arrow type that a read returns."""
        if isinstance(data_type, core.VectorType):
            return pa.list_(to_arrow_type(data_type.element), data_type.length)
        return to_arrow_type(data_type)

    @staticmethod
    def from_paimon_field(data_field: core.DataField) -> pa.Field:
        """Return a column as an Arrow field."""
        return to_arrow_field(data_field)

    @staticmethod
    def from_paimon_schema(data_fields: Iterable[core.DataField]) -> pa.Schema:
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
        return from_core(from_arrow_type(pa_type, nullable=nullable))

    @staticmethod
    def to_paimon_field(field_idx: int, pa_field: pa.Field) -> DataField:
        """Return an Arrow field as a column."""
        (field,) = from_arrow_schema(pa.schema([pa_field]), declared=True)
        return DataField(field_idx, field.name, from_core(field.type), field.description)

    @staticmethod
    def to_paimon_schema(pa_schema: pa.Schema) -> list[DataField]:
        """Return Arrow fields as columns, numbered from 0."""
        return [field_from_core(field) for field in from_arrow_schema(pa_schema, declared=True)]


def is_system_field_id(field_id: int) -> bool:
    """Say whether an id belongs to the format itself."""
    return field_id >= SYSTEM_FIELD_ID_START


def is_blob_type(data_type: object) -> bool:
    """Say whether a type is BLOB."""
    return isinstance(data_type, core.AtomicType) and data_type.root == "BLOB"


def is_array_blob_type(data_type: object) -> bool:
    """Say whether a type is an array of BLOB."""
    return isinstance(data_type, core.ArrayType) and is_blob_type(data_type.element)


def is_map_blob_type(data_type: object) -> bool:
    """Say whether a type is a map whose values are BLOB."""
    return isinstance(data_type, core.MapType) and is_blob_type(data_type.value)


def is_blob_file_type(data_type: object) -> bool:
    """Say whether values of a type lie in blob files."""
    return is_blob_type(data_type) or is_array_blob_type(data_type) or is_map_blob_type(data_type)


def is_blob_file_field(field: core.DataField) -> bool:
    """Say whether values of a column lie in blob files."""
    return is_blob_file_type(field.type)


def is_variant_struct(pa_type: pa.StructType) -> bool:
    """Say whether an Arrow struct is how a VARIANT is stored: `value` and `metadata`, both binary and never null."""
    parts = {part.name: pa.types.is_binary(part.type) and not part.nullable for part in pa_type}
    return parts == {"value": True, "metadata": True}


def reassign_field_id(data_type: core.DataType, field_id: AtomicInteger) -> Any:  # noqa: ANN401 - as from_core
    """Return a type whose fields have the next ids of a counter."""
    numbers = iter(field_id.increment_and_get, None)
    return from_core(core.numbered_type(data_type, numbers))


def collect_field_ids(data_type: core.DataType, field_ids: set[int]) -> None:
    """Add the ids of all fields inside a type to a set; an id that is in it already is an error."""
    for part in core.types_inside(data_type):
        for field in part.fields if isinstance(part, core.RowType) else ():
            if field.id in field_ids:
                raise InvalidInputError(f"Broken schema, field id {field.id} is duplicated.")
            field_ids.add(field.id)


def current_highest_field_id(fields: Iterable[core.DataField]) -> int:
    """Return the highest id of columns and the fields inside them, -1 without any."""
    columns = tuple(fields)
    collect_field_ids(core.RowType(True, columns), set())  # noqa: FBT003 - pypaimon's order
    return core.highest_field_id(columns)

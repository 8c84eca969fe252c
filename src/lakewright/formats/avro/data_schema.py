"""Fields of a table in, the Avro schema of their data files out.

It follows Java: nullable means a union with null, small integers are `int`, decimals are bytes, maps with other than
text keys are arrays of key and value, and the names of the two kinds of timestamps are swapped against Avro's own
meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from lakewright.errors import UnsupportedError
from lakewright.spec.types import (
    MICROS_PRECISION,
    MILLIS_PRECISION,
    TEXT_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    with_nullable,
)

AvroType: TypeAlias = "str | Mapping[str, Any] | Sequence[Any]"
NAMESPACE = "org.apache.paimon.avro.generated"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = {
    "BOOLEAN": "boolean",
    "TINYINT": "int",
    "SMALLINT": "int",
    "INT": "int",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "CHAR": "string",
    "VARCHAR": "string",
    "BINARY": "bytes",
    "VARBINARY": "bytes",
}


def avro_schema(fields: Sequence[DataField]) -> dict[str, Any]:
    """Return the Avro schema of a data file."""
    return {"type": "record", "name": "record", "namespace": NAMESPACE, "fields": _fields(fields, "record")}


def _fields(fields: Sequence[DataField], path: str) -> list[dict[str, Any]]:
    out = []
    for field in fields:
        if not _NAME.fullmatch(field.name):
            raise UnsupportedError(
                f"Avro files cannot have a column named {field.name!r}: only letters, digits and _ are allowed; rename "
                "it or use another file.format",
                column=field.name,
            )
        entry: dict[str, Any] = {"name": field.name, "type": _nullable(field.type, f"{path}_{field.name}")}
        if field.type.nullable:
            entry["default"] = None
        out.append(entry)
    return out


def _nullable(dtype: DataType, path: str) -> AvroType:
    plain = _type(dtype, path)
    return ["null", plain] if dtype.nullable else plain


def _type(dtype: DataType, path: str) -> AvroType:
    match dtype:
        case AtomicType():
            return _atomic_type(dtype, path)
        case ArrayType():
            return {"type": "array", "items": _nullable(dtype.element, path)}
        case MapType() | MultisetType():
            return _map_type(dtype.key, dtype.value, path)
        case RowType():
            return {"type": "record", "name": path, "fields": _fields(dtype.fields, path)}
        case VectorType():
            raise UnsupportedError(f"Avro files cannot hold {dtype}; use another file.format", type=str(dtype))


def _map_type(key: DataType, value: DataType, path: str) -> AvroType:
    if is_text(key):
        return {"type": "map", "values": _nullable(value, path)}
    # Values of ROW type need names of their own beside that of the entry.
    entry: list[dict[str, Any]] = [
        {"name": "key", "type": _nullable(with_nullable(key, nullable=True), f"{path}_key")},
        {"name": "value", "type": _nullable(value, f"{path}_value")},
    ]
    if value.nullable:
        entry[1]["default"] = None
    return {"type": "array", "items": {"type": "record", "name": path, "fields": entry}, "logicalType": "map"}


def is_text(dtype: DataType) -> bool:
    """Say whether a type is one of text, whose maps are Avro's maps."""
    return isinstance(dtype, AtomicType) and dtype.root in TEXT_ROOTS


def _atomic_type(dtype: AtomicType, path: str) -> AvroType:
    if dtype.root in _PLAIN:
        return _PLAIN[dtype.root]
    match dtype.root:
        case "DECIMAL":
            return {"type": "bytes", "logicalType": "decimal", "precision": dtype.precision, "scale": dtype.scale}
        case "DATE":
            return {"type": "int", "logicalType": "date"}
        case "TIME" if dtype.precision <= MILLIS_PRECISION:
            return {"type": "int", "logicalType": "time-millis"}
        case "TIMESTAMP" | "TIMESTAMP_LTZ" if dtype.precision <= MICROS_PRECISION:
            unit = "millis" if dtype.precision <= MILLIS_PRECISION else "micros"
            local = "local-" if dtype.root == "TIMESTAMP_LTZ" else ""
            return {"type": "long", "logicalType": f"{local}timestamp-{unit}"}
        case _:
            raise UnsupportedError(
                f"Avro files cannot hold {dtype} (column {path.removeprefix('record_')!r}); lower its precision or use "
                "another file.format",
                type=str(dtype),
            )

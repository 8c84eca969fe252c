"""Names, types and texts as they are written in SQL: values in, the text that a statement would have out.

What always holds: a statement with these texts is read back to the same values.
"""

from __future__ import annotations

import re

from lakewright.spec.types import (
    UNBOUNDED,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
)

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPED = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_RENAMED = {"TIMESTAMP_LTZ": "TIMESTAMP_LTZ", "TIMESTAMP": "TIMESTAMP_NTZ"}
_MICROS = 6


def quoted_name(name: str) -> str:
    """Return a name as it is written, in backticks if it has to be.

    >>> quoted_name("day"), quoted_name("a b")
    ('day', '`a b`')
    """
    return name if _PLAIN.fullmatch(name) else f"`{name.replace('`', '``')}`"


def quoted_text(text: str) -> str:
    r"""Return a text in quotes.

    >>> quoted_text("it's")
    "'it\\'s'"
    """
    return f"'{''.join(_ESCAPED.get(character, character) for character in text)}'"


def type_text(dtype: DataType) -> str:
    """Return a type as CREATE TABLE has it, without its own NOT NULL.

    >>> type_text(ArrayType(True, "TIMESTAMP(6) WITH LOCAL TIME ZONE"))
    'ARRAY<TIMESTAMP>'
    """
    match dtype:
        case AtomicType():
            return _atomic_text(dtype)
        case ArrayType() | MultisetType():
            return f"{dtype.keyword}<{_part_text(dtype.element, nullable=True)}>"
        case MapType():
            return f"MAP<{_part_text(dtype.key, nullable=False)}, {_part_text(dtype.value, nullable=True)}>"
        case RowType():
            return f"STRUCT<{', '.join(_field_text(field) for field in dtype.fields)}>"
        case VectorType():
            return f"VECTOR<{type_text(dtype.element)}, {dtype.length}>"


def shown_type(dtype: DataType) -> str:
    """Return a type as DESCRIBE shows it: Spark's name, in small letters."""
    match dtype:
        case AtomicType():
            return _shown_atomic(dtype)
        case ArrayType():
            return f"array<{shown_type(dtype.element)}>"
        case MapType() | MultisetType():
            return f"map<{shown_type(dtype.key)},{shown_type(dtype.value)}>"
        case RowType():
            return f"struct<{','.join(f'{field.name}:{shown_type(field.type)}' for field in dtype.fields)}>"
        case VectorType():
            return type_text(dtype).lower()


def _shown_atomic(dtype: AtomicType) -> str:
    if dtype.root in {"BINARY", "VARBINARY"}:
        return "binary"
    if dtype.root in _RENAMED:
        return "timestamp" if dtype.root == "TIMESTAMP_LTZ" else "timestamp_ntz"
    return dtype.type.lower().replace(", ", ",")


def _atomic_text(dtype: AtomicType) -> str:
    if dtype.root == "VARBINARY" and dtype.length == UNBOUNDED:
        return "BINARY"
    if dtype.root == "TIMESTAMP_LTZ" and dtype.precision == _MICROS:
        return "TIMESTAMP"
    if dtype.root in _RENAMED:
        name = _RENAMED[dtype.root]
        return name if dtype.precision == _MICROS else f"{name}({dtype.precision})"
    return dtype.type.replace(", ", ",")


def _part_text(dtype: DataType, *, nullable: bool) -> str:
    if dtype.nullable == nullable:
        return type_text(dtype)
    return f"{type_text(dtype)}{' NULL' if dtype.nullable else ' NOT NULL'}"


def _field_text(field: DataField) -> str:
    comment = "" if field.description is None else f" COMMENT {quoted_text(field.description)}"
    return f"{quoted_name(field.name)}: {_part_text(field.type, nullable=True)}{comment}"

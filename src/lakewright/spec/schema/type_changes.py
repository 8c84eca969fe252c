"""The old and the new type of a column in; whether values can be cast, and whether all keep their value, out.

Old files are cast when they are read. A change of type without a cast is never applied to a schema; before one whose
cast may change values is applied, the stored values are checked.
"""

from __future__ import annotations

from enum import StrEnum

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
    DataType,
    MapType,
    RowType,
    with_nullable,
)

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
    """Say whether all parts of a type can be cast to text."""
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
    """Say whether all values of one type are exact in another, whatever the nullability of the types.

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

"""Which type may become which when a column's type changes.

An implicit cast keeps what the values mean; an explicit one may round, wrap or fail on some values. Old files are cast
when they are read, so a pair that is not listed here must never get into a schema.
"""

from __future__ import annotations

from enum import StrEnum

from lakewright.spec.types import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    INTEGER_BITS,
    TEXT_ROOTS,
    TIMESTAMP_ROOTS,
    AtomicType,
    DataType,
    with_nullable,
)

_INTEGERS = tuple(INTEGER_BITS)
_NUMERIC = FLOAT_ROOTS | {*_INTEGERS, "DECIMAL"}
_TEMPORAL = TIMESTAMP_ROOTS | {"DATE", "TIME"}
_SCALARS = _NUMERIC | TEXT_ROOTS | BINARY_ROOTS | _TEMPORAL | {"BOOLEAN"}

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
    """What a change of type means for the values there are."""

    IMPLICIT = "implicit"
    EXPLICIT = "explicit"
    IMPOSSIBLE = "impossible"


def cast_between(source: DataType, target: DataType) -> Cast:
    """Say how values of one type become values of another; nullability plays no part.

    >>> cast_between(AtomicType("INT"), AtomicType("BIGINT")).value
    'implicit'
    """
    if with_nullable(source, nullable=True) == with_nullable(target, nullable=True):
        return Cast.IMPLICIT
    if not isinstance(source, AtomicType) or not isinstance(target, AtomicType):
        return Cast.IMPOSSIBLE
    pair = (source.root, target.root)
    if pair in _IMPLICIT or (source.root == target.root and source.root in _SCALARS):
        return Cast.IMPLICIT
    return Cast.EXPLICIT if pair in _EXPLICIT else Cast.IMPOSSIBLE

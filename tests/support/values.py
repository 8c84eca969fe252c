"""Random types and values of the format, for property tests."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import strategies as st

from lakewright.spec.scalars import NestedValue, decimal_of
from lakewright.spec.types import (
    INTEGER_BITS,
    UNIT_NANOS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    time_unit,
)

SCALARS = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(5, 2)",
    "DECIMAL(18, 0)",
    "DECIMAL(19, 4)",
    "DECIMAL(38, 38)",
    "CHAR(5)",
    "VARCHAR(20)",
    "STRING",
    "BINARY(4)",
    "BYTES",
    "DATE",
    "TIME(0)",
    "TIME(3)",
    "TIMESTAMP(0)",
    "TIMESTAMP(3)",
    "TIMESTAMP(6)",
    "TIMESTAMP(9)",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE",
]

scalar_types = st.sampled_from(SCALARS).map(AtomicType)


def nested_types(depth: int = 2) -> st.SearchStrategy[DataType]:
    """Return types of any shape, with at most this many levels of nesting."""
    if depth == 0:
        return scalar_types
    inner = nested_types(depth - 1)
    return st.one_of(
        scalar_types,
        inner.map(lambda e: ArrayType(True, e)),  # noqa: FBT003 - the type's own order
        st.tuples(inner, inner).map(lambda kv: MapType(True, *kv)),  # noqa: FBT003
        inner.map(lambda e: MultisetType(True, e)),  # noqa: FBT003
        st.lists(inner, min_size=1, max_size=4).map(
            lambda types: RowType(True, [DataField(i, f"f{i}", t) for i, t in enumerate(types)])  # noqa: FBT003
        ),
    )


def values_of(dtype: DataType) -> st.SearchStrategy[NestedValue]:
    """Return values of a type, null among them, in the form that the row codec returns."""
    return st.none() | _present(dtype)


def _present(dtype: DataType) -> st.SearchStrategy[NestedValue]:
    match dtype:
        case AtomicType():
            return _scalar(dtype)
        case ArrayType():
            return st.lists(values_of(dtype.element), max_size=5)
        case MapType():
            return st.lists(st.tuples(_present(dtype.key), values_of(dtype.value)), max_size=3)
        case MultisetType():
            return st.lists(st.tuples(_present(dtype.element), st.integers(1, 9)), max_size=3)
        case RowType():
            return st.tuples(*(values_of(f.type) for f in dtype.fields))
        case _:
            raise AssertionError(dtype)


def _scalar(dtype: AtomicType) -> st.SearchStrategy[NestedValue]:
    root = dtype.root
    if root in INTEGER_BITS:
        limit = 1 << (INTEGER_BITS[root] - 1)
        return st.integers(-limit, limit - 1)
    if root == "DECIMAL":
        limit = 10**dtype.precision - 1
        return st.integers(-limit, limit).map(lambda n: _decimal(n, dtype.scale))
    if root in {"CHAR", "VARCHAR"}:
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    if root in {"TIMESTAMP", "TIMESTAMP_LTZ"}:
        unit = UNIT_NANOS[time_unit(dtype.precision)]
        return st.integers(-(2**62) // unit, 2**62 // unit).map(lambda n: n * unit)
    fixed: dict[str, st.SearchStrategy[NestedValue]] = {
        "BOOLEAN": st.booleans(),
        "FLOAT": st.floats(width=32, allow_nan=False),
        "DOUBLE": st.floats(allow_nan=False),
        "BINARY": st.binary(max_size=20),
        "VARBINARY": st.binary(max_size=20),
        "DATE": st.integers(-(2**31), 2**31 - 1),
        "TIME": st.integers(0, 86_399_999),
    }
    return fixed[root]


def _decimal(unscaled: int, scale: int) -> Decimal:
    return decimal_of(unscaled, scale)

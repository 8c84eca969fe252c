from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.errors import InvalidInputError
from lakewright.spec.arrow_types import to_arrow_type
from lakewright.spec.scalars import cast_text, from_scalar, java_float_text, to_array, to_python, to_text, to_value
from lakewright.spec.types import ArrayType, AtomicType, MapType, Value
from support.effort import examples
from support.values import scalar_types, values_of

EAST = timezone(timedelta(hours=8))
NOON = datetime(2024, 10, 4, 12, 0, 0, 5)  # noqa: DTZ001 - a local timestamp
NOON_NANOS = 1_728_043_200_000_005_000

ACCEPTED: list[tuple[object, str, Value]] = [
    (None, "INT", None),
    (True, "BOOLEAN", True),
    (np.bool_(False), "BOOLEAN", False),  # noqa: FBT003
    ("True", "BOOLEAN", True),
    (127, "TINYINT", 127),
    (np.int64(-128), "TINYINT", -128),
    (3.0, "INT", 3),
    (Decimal("3.00"), "INT", 3),
    (" 42 ", "INT", 42),
    ("1e3", "BIGINT", 1000),
    (2**63 - 1, "BIGINT", 2**63 - 1),
    (1.5, "FLOAT", 1.5),
    (np.float32(0.1), "FLOAT", float(np.float32(0.1))),
    (0.1, "FLOAT", float(np.float32(0.1))),
    ("0.1", "FLOAT", float(np.float32(0.1))),
    (2**24, "FLOAT", 2.0**24),
    (math.inf, "FLOAT", math.inf),
    ("-Infinity", "DOUBLE", -math.inf),
    (7, "DOUBLE", 7.0),
    (Decimal("0.1"), "DOUBLE", 0.1),
    (12, "DECIMAL(10,2)", Decimal("12.00")),
    (0.1, "DECIMAL(10,2)", Decimal("0.10")),
    ("-99999999.99", "DECIMAL(10,2)", Decimal("-99999999.99")),
    (Decimal("9" * 38), "DECIMAL(38,0)", Decimal("9" * 38)),
    ("text ", "STRING", "text "),
    (b"ab", "BYTES", b"ab"),
    (bytearray(b"ab"), "BINARY(2)", b"ab"),
    (date(2024, 10, 4), "DATE", 20000),
    ("2024-10-04", "DATE", 20000),
    ("20000", "DATE", 20000),
    (datetime(2024, 10, 4), "DATE", 20000),  # noqa: DTZ001
    (np.datetime64("2024-10-04"), "DATE", 20000),
    (date.min, "DATE", -719162),
    (time(1, 2, 3, 4000), "TIME(3)", 3723004),
    ("01:02:03.004", "TIME(3)", 3723004),
    ("01:02", "TIME(0)", 3720000),
    (NOON, "TIMESTAMP(6)", NOON_NANOS),
    (date(1970, 1, 2), "TIMESTAMP(3)", 86_400 * 10**9),
    ("2024-10-04 12:00:00.000005", "TIMESTAMP(6)", NOON_NANOS),
    ("2024-10-04T12:00:00.000005001", "TIMESTAMP(9)", NOON_NANOS + 1),
    (np.datetime64(NOON_NANOS + 7, "ns"), "TIMESTAMP(9)", NOON_NANOS + 7),
    (np.datetime64("NaT"), "TIMESTAMP(9)", None),
    (pd.Timestamp(NOON_NANOS + 7), "TIMESTAMP(9)", NOON_NANOS + 7),
    (pd.NaT, "TIMESTAMP(9)", None),
    (datetime(1969, 12, 31, 23, 59, 59, 999_999), "TIMESTAMP(6)", -1000),  # noqa: DTZ001
    (NOON.replace(tzinfo=UTC), "TIMESTAMP_LTZ(6)", NOON_NANOS),
    (NOON.replace(tzinfo=EAST), "TIMESTAMP_LTZ(6)", NOON_NANOS - 8 * 3600 * 10**9),
    (datetime.min.replace(tzinfo=EAST), "TIMESTAMP_LTZ(3)", (-719162 * 24 - 8) * 3600 * 10**9),
    ("2024-10-04T20:00:00.000005+08:00", "TIMESTAMP_LTZ(6)", NOON_NANOS),
    ("2024-10-04T12:00:00.000005Z", "TIMESTAMP_LTZ(6)", NOON_NANOS),
    ("2024-10-04 12:00:00.000005", "TIMESTAMP_LTZ(6)", NOON_NANOS),
    (pa.scalar(5, pa.int8()), "BIGINT", 5),
    (pa.scalar(None, pa.int8()), "BIGINT", None),
    (pa.scalar(NOON_NANOS, pa.timestamp("ns")), "TIMESTAMP(6)", NOON_NANOS),
    (pa.scalar(NOON_NANOS // 1000, pa.timestamp("us", "Asia/Shanghai")), "TIMESTAMP_LTZ(6)", NOON_NANOS),
    (pa.scalar(20000, pa.date32()), "DATE", 20000),
    (pa.scalar(3723004000, pa.time64("us")), "TIME(3)", 3723004),
    (pa.array(["x"]).dictionary_encode()[0], "STRING", "x"),
    (pa.scalar("view", pa.string_view()), "STRING", "view"),
]


@pytest.mark.parametrize(("obj", "text", "value"), ACCEPTED, ids=repr)
def test_what_users_write_becomes_a_value(obj: object, text: str, value: Value) -> None:
    found = to_value(obj, AtomicType(text))
    assert (type(found), found) == (type(value), value)


REFUSED: list[tuple[object, str]] = [
    (1, "BOOLEAN"),
    ("maybe", "BOOLEAN"),
    (True, "INT"),
    (128, "TINYINT"),
    (2**63, "BIGINT"),
    (1.5, "INT"),
    (math.nan, "INT"),
    ("1.5", "INT"),
    ("1e999999", "INT"),
    ("12x", "INT"),
    ("٣", "INT"),
    (np.timedelta64(5, "s"), "BIGINT"),
    (np.longdouble(1), "DOUBLE"),
    (0.1234567890123, "FLOAT"),
    (2**24 + 1, "FLOAT"),
    (1e300, "FLOAT"),
    (2**53 + 1, "DOUBLE"),
    (10**400, "DOUBLE"),
    ("1e400", "DOUBLE"),
    (Decimal("1.234"), "DECIMAL(10,2)"),
    (Decimal("1E+999999"), "DECIMAL(10,2)"),
    (Decimal("NaN"), "DECIMAL(10,2)"),
    (10**8, "DECIMAL(10,2)"),
    (math.inf, "DECIMAL(10,2)"),
    (5, "STRING"),
    (b"x", "STRING"),
    ("\ud800", "STRING"),
    (5, "BYTES"),
    (20000, "DATE"),
    ("20241004", "DATE"),
    ("2024-13-01", "DATE"),
    (datetime(2024, 10, 4, 1), "DATE"),  # noqa: DTZ001
    (time(1, 2, 3, 4), "TIME(3)"),
    ("25:00:00", "TIME(0)"),
    (5, "TIMESTAMP(3)"),
    (NOON, "TIMESTAMP(3)"),
    (NOON, "TIMESTAMP_LTZ(6)"),
    (date(2024, 10, 4), "TIMESTAMP_LTZ(6)"),
    (NOON.replace(tzinfo=UTC), "TIMESTAMP(6)"),
    ("2024-10-04T12:00:00Z", "TIMESTAMP(6)"),
    (pa.scalar(1, pa.timestamp("us", "UTC")), "TIMESTAMP(6)"),
    (pa.scalar(1, pa.duration("us")), "BIGINT"),
    (pa.scalar([1]), "INT"),
    (np.datetime64("2024-10"), "DATE"),
    ({"a": 1}, "INT"),
    ([1], "INT"),
    (1, "VARIANT"),
]


@pytest.mark.parametrize(("obj", "text"), REFUSED, ids=repr)
def test_what_is_lossy_or_of_another_kind_is_refused(obj: object, text: str) -> None:
    with pytest.raises(InvalidInputError, match="type"):
        to_value(obj, AtomicType(text))


def test_the_refusal_names_the_value_and_the_type() -> None:
    with pytest.raises(InvalidInputError, match=r"300 \(int\) is no value of the type TINYINT"):
        to_value(300, AtomicType("TINYINT"))
    with pytest.raises(InvalidInputError, match="ARRAY<INT>"):
        to_value([1], ArrayType(True, AtomicType("INT")))  # noqa: FBT003


@pytest.mark.parametrize(
    ("number", "single", "text"),
    [
        (0.0, False, "0.0"),
        (-0.0, False, "-0.0"),
        (1.0, False, "1.0"),
        (100.0, False, "100.0"),
        (1.5, True, "1.5"),
        (0.001, False, "0.001"),
        (0.00123, False, "0.00123"),
        (9.999e-4, False, "9.999E-4"),
        (1234567.0, False, "1234567.0"),
        (9999999.0, False, "9999999.0"),
        (1e7, False, "1.0E7"),
        (12345678.9, False, "1.23456789E7"),
        (-1.0e10, False, "-1.0E10"),
        (1e100, False, "1.0E100"),
        (3.4028234663852886e38, True, "3.4028235E38"),
        (float(np.float32(0.1)), True, "0.1"),
        (math.nan, False, "NaN"),
        (-math.inf, True, "-Infinity"),
    ],
)
def test_floats_are_written_as_java_does(number: float, single: bool, text: str) -> None:
    assert java_float_text(number, single=single) == text


@given(st.floats(allow_nan=False))
def test_float_text_names_the_number(number: float) -> None:
    assert cast_text(java_float_text(number, single=False), AtomicType("DOUBLE")) == number


@pytest.mark.parametrize(
    ("value", "text", "shown"),
    [
        (True, "BOOLEAN", "true"),
        (-5, "INT", "-5"),
        (Decimal("0.00"), "DECIMAL(10,2)", "0.00"),
        (Decimal("1E-10"), "DECIMAL(20,10)", "0.0000000001"),
        (20000, "DATE", "2024-10-04"),
        (-719529, "DATE", "-0001-12-31"),
        (3723004, "TIME(3)", "01:02:03.004"),
        (3723000, "TIME(3)", "01:02:03.0"),
        (3723004, "TIME(0)", "01:02:03"),
        (NOON_NANOS, "TIMESTAMP(6)", "2024-10-04 12:00:00.000005"),
        (NOON_NANOS, "TIMESTAMP(9)", "2024-10-04 12:00:00.000005000"),
        (0, "TIMESTAMP(0)", "1970-01-01 00:00:00"),
        (123_000_000, "TIMESTAMP(0)", "1970-01-01 00:00:00.123"),
        (-1_000_000, "TIMESTAMP_LTZ(3)", "1969-12-31 23:59:59.999"),
        (b"ab", "BYTES", "ab"),
        (1.5, "FLOAT", "1.5"),
    ],
)
def test_text_of_values(value: Value, text: str, shown: str) -> None:
    assert to_text(value, AtomicType(text)) == shown


@given(st.data())
@settings(max_examples=examples(200))
def test_values_survive_arrow_python_and_text(data: st.DataObject) -> None:
    dtype = data.draw(scalar_types)
    value: Value = data.draw(values_of(dtype))  # type: ignore[assignment]
    array = to_array([value], dtype)
    assert array.type == to_arrow_type(dtype)
    assert from_scalar(array[0], dtype) == value
    python = to_python(value, dtype)
    if not isinstance(python, np.datetime64):
        assert to_value(python, dtype) == value
    if (
        isinstance(value, bool | int | float | Decimal)
        and -(2**60) < value < 2**60
        and not isinstance(python, np.datetime64)
    ):
        precise = dtype.root != "TIME" or dtype.precision == 3
        assert not precise or cast_text(to_text(value, dtype), dtype) == value


def test_python_objects_of_values() -> None:
    assert to_python(NOON_NANOS, AtomicType("TIMESTAMP(6)")) == NOON
    assert to_python(NOON_NANOS, AtomicType("TIMESTAMP_LTZ(6)")) == NOON.replace(tzinfo=UTC)
    assert to_python(NOON_NANOS + 1, AtomicType("TIMESTAMP(9)")) == np.datetime64(NOON_NANOS + 1, "ns")
    assert to_python(3723004, AtomicType("TIME(3)")) == time(1, 2, 3, 4000)
    assert to_python(2**31 - 1, AtomicType("DATE")) == np.datetime64(2**31 - 1, "D")
    assert to_python(None, AtomicType("DATE")) is None


def test_arrays_that_arrow_cannot_hold_are_refused() -> None:
    with pytest.raises(InvalidInputError):
        to_array([10**30], AtomicType("TIMESTAMP(9)"))
    with pytest.raises(InvalidInputError):
        to_array([1], AtomicType("TIMESTAMP(6)"))
    with pytest.raises(InvalidInputError):
        to_array(["x"], AtomicType("INT"))
    mapping = MapType(True, AtomicType("STRING"), AtomicType("DATE"))  # noqa: FBT003
    assert to_array([{"k": 20000}, None], mapping).to_pylist() == [[("k", date(2024, 10, 4))], None]

"""One field of many serialised rows is what decoding row by row gives, or is left to it."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.spec.binary_row import RowColumns, decode_field, encode_row
from lakewright.spec.types import AtomicType, Value
from support.effort import examples

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES: dict[str, st.SearchStrategy[Value]] = {
    "TINYINT": st.integers(-(2**7), 2**7 - 1),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "BOOLEAN": st.booleans(),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "DATE": st.integers(-(2**31), 2**31 - 1),
    "STRING": TEXTS,
    "CHAR(20)": TEXTS,
    "BYTES": st.binary(max_size=20),
    "TIMESTAMP(3)": st.integers(-(10**12), 10**12).map(lambda millis: millis * 10**6),
    "TIMESTAMP(9)": st.integers(-(10**18), 10**18),
}
ONE_BY_ONE: dict[str, Value] = {"DECIMAL(10, 2)": Decimal("1.25"), "TIME(3)": 7, "DECIMAL(30, 2)": Decimal("1.25")}


@given(st.data())
def test_values_are_those_of_single_rows(data: st.DataObject) -> None:
    types = [AtomicType(text) for text in data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=70))]
    rows = st.tuples(*(st.none() | VALUES[str(dtype)] for dtype in types))
    stored = [encode_row(row, types) for row in data.draw(st.lists(rows, max_size=5))]
    columns = RowColumns(stored, len(types))
    for index, dtype in enumerate(types):
        assert columns.values(index, dtype) == [decode_field(row, index, dtype) for row in stored]


def test_nan_is_read_from_rows_as_nan() -> None:
    dtype = AtomicType("DOUBLE")
    values = RowColumns([encode_row([math.nan], [dtype])], 1).values(0, dtype)
    assert values is not None
    assert math.isnan(values[0])


@pytest.mark.parametrize("text", ONE_BY_ONE)
def test_other_types_are_left_to_the_decoding_of_single_rows(text: str) -> None:
    dtype = AtomicType(text)
    assert RowColumns([encode_row([ONE_BY_ONE[text]], [dtype])], 1).values(0, dtype) is None


@pytest.mark.parametrize(
    "row",
    [
        b"",
        encode_row(["a", "b"], [AtomicType("STRING")] * 2),
        encode_row(["long enough"], [AtomicType("STRING")])[:-8],
        encode_row(["ab"], [AtomicType("STRING")])[:-1] + b"\x88",
        encode_row([b"\xff"], [AtomicType("BYTES")]),
    ],
    ids=["empty", "more fields", "cut off", "more than a slot holds", "no text"],
)
def test_damage_is_left_to_the_decoding_of_single_rows(row: bytes) -> None:
    dtype = AtomicType("STRING")
    sound = encode_row(["a text of some length"], [dtype])
    assert RowColumns([sound, row], 1).values(0, dtype) is None


def test_moments_beyond_64_bits_of_nanoseconds_are_left_to_the_decoding_of_single_rows() -> None:
    dtype = AtomicType("TIMESTAMP(3)")
    for far in (2**63 - 1, -(2**63)):
        assert RowColumns([encode_row([far * 10**6], [dtype])], 1).values(0, dtype) is None


DAMAGED: dict[str, Value] = {
    "STRING": "a long enough text",
    "BYTES": b"more than seven bytes",
    "TIMESTAMP(9)": 10**15 + 1,
    "TIMESTAMP(3)": 10**18,
    "BOOLEAN": True,
    "INT": 5,
    "DOUBLE": 1.5,
    "CHAR(9)": "abc",
}


@given(st.data())
@settings(max_examples=examples(200))
def test_values_of_damaged_rows_are_those_of_single_rows(data: st.DataObject) -> None:
    """Whatever bytes are changed, added or cut off: no value that decoding row by row would refuse."""
    types = [AtomicType(text) for text in DAMAGED]
    sound = encode_row([*DAMAGED.values()], types)
    row = bytearray(sound)
    for at in data.draw(st.lists(st.integers(4, len(row) - 1), min_size=1, max_size=4)):
        row[at] = data.draw(st.sampled_from([0, 1, 127, 128, 135, 136, 255]))
    damaged = bytes(row)[: data.draw(st.none() | st.integers(0, len(row)))] + bytes(data.draw(st.integers(0, 8)))
    columns = RowColumns([sound, damaged], len(types))
    for index, dtype in enumerate(types):
        values = columns.values(index, dtype)
        assert values is None or repr(values) == repr([decode_field(one, index, dtype) for one in (sound, damaged)])

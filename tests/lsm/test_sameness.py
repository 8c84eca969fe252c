"""Codes are equal exactly where values are, to any depth."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from lakewright.lsm.nested_aggregates import codes

ROW = pa.struct({"a": pa.int32(), "b": pa.list_(pa.string())})


@pytest.mark.parametrize(
    ("values", "kind", "same"),
    [
        ([], pa.int64(), []),
        ([7, None, 9, 7, None], pa.int64(), [(0, 3), (1, 4)]),
        ([0.0, -0.0, math.nan, -math.nan, 0.0], pa.float64(), [(0, 4), (2, 3)]),
        (["a", "b", None, "a", ""], pa.string(), [(0, 3)]),
        ([[1], [1, None], [], None, [1, None], []], pa.list_(pa.int32()), [(1, 4), (2, 5)]),
        ([{"a": 1, "b": None}, {"a": 1, "b": []}, None, {"a": None, "b": None}, {"a": 1, "b": []}], ROW, [(1, 4)]),
        ([[("x", 1), ("y", 2)], [("y", 2), ("x", 1)], [("x", 2)]], pa.map_(pa.string(), pa.int8()), [(0, 1)]),
    ],
)
def test_equal_values_have_equal_codes(values: list[object], kind: pa.DataType, same: list[tuple[int, int]]) -> None:
    found = codes(pa.array(values, kind)).tolist()
    pairs = [(n, m) for m in range(len(found)) for n in range(m) if found[n] == found[m]]
    assert sorted(pairs) == same


def test_slices_have_the_codes_of_their_own_values() -> None:
    rows = pa.array([{"a": 9, "b": ["z"]}, {"a": 1, "b": ["x"]}, {"a": 2, "b": ["x"]}, {"a": 1, "b": ["x"]}], ROW)
    first, second, third = codes(rows.slice(1)).tolist()
    assert first == third != second

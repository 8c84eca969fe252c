"""Sameness of rows against Python's own comparison of the values, for every kind of type and any nesting."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakewright.lsm.changelog import equal_rows, equal_values
from support.rows import nested_fields, nested_rows, scalar_fields, scalar_rows

STRUCT = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.float64()))])
TYPES = [
    pa.int32(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.bool_(),
    pa.list_(pa.int32()),
    pa.list_(pa.float64(), 2),
    pa.large_list(pa.string()),
    pa.map_(pa.string(), pa.float64()),
    STRUCT,
    pa.list_(STRUCT),
    pa.map_(pa.int32(), pa.list_(STRUCT)),
]


def _value(rng: random.Random, kind: pa.DataType) -> Any:  # noqa: ANN401
    if rng.random() < 0.25:
        return None
    match kind:
        case _ if pa.types.is_struct(kind):
            return {field.name: _value(rng, field.type) for field in kind}
        case _ if pa.types.is_map(kind):
            keys = rng.sample([0, 1], rng.randrange(3))
            return [(k if pa.types.is_integer(kind.key_type) else str(k), _value(rng, kind.item_type)) for k in keys]
        case _ if pa.types.is_fixed_size_list(kind):
            return [_value(rng, kind.value_type) for _ in range(kind.list_size)]
        case _ if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return [_value(rng, kind.value_type) for _ in range(rng.randrange(3))]
        case _ if pa.types.is_floating(kind):
            return rng.choice([0.0, -0.0, 1.5, math.nan])
        case _ if pa.types.is_boolean(kind):
            return rng.random() < 0.5
        case _ if pa.types.is_string(kind):
            return rng.choice(["", "a"])
        case _:
            return rng.choice([0, 1])


def _spelled(value: Any) -> str:  # noqa: ANN401
    return repr(value)  # tells -0.0 from 0.0 and calls every NaN the same


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_sameness_is_that_of_the_spelled_values(kind: pa.DataType) -> None:
    rng = random.Random(7)
    left, right = ([_value(rng, kind) for _ in range(400)] for _ in range(2))
    want = [_spelled(a) == _spelled(b) for a, b in zip(left, right, strict=True)]
    mine, other = pa.array(left, kind), pa.array(right, kind)
    assert equal_values(mine, other).tolist() == want
    assert any(want)
    assert not all(want)
    # Slices begin somewhere inside the buffers.
    assert equal_values(mine.slice(13, 200), other.slice(13, 200)).tolist() == want[13:213]
    assert equal_values(mine.slice(1), other.slice(0, 399)).tolist() == [
        _spelled(a) == _spelled(b) for a, b in zip(left[1:], right[:-1], strict=True)
    ]


def test_rows_of_every_type_equal_themselves_and_no_other() -> None:
    for rows in (scalar_rows(scalar_fields()), nested_rows(nested_fields(multiset=True))):
        assert equal_rows(rows, rows).all()
        turned = rows.take(pa.array(np.roll(np.arange(rows.num_rows), 1)))
        assert not equal_rows(rows, turned).any()


def test_columns_in_pieces_and_dictionaries() -> None:
    left = pa.table({"a": pa.chunked_array([[1], [2, None]]), "b": pa.array(["x", "y", "x"]).dictionary_encode()})
    right = pa.table({"a": pa.chunked_array([[1, 3], [None]]), "b": pa.array(["x", "y", "z"]).dictionary_encode()})
    assert equal_rows(left, right).tolist() == [True, False, False]
    assert equal_rows(left.slice(0, 0), right.slice(0, 0)).tolist() == []
    assert equal_values(pa.nulls(2), pa.nulls(2)).tolist() == [True, True]

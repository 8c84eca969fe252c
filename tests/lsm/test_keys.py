from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import cmp_to_key
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.errors import UnsupportedError
from lakewright.lsm import key_order, normalized_keys
from lakewright.lsm.key_order import KeyOrder, SortColumn, sorted_rows
from lakewright.spec.scalars import to_array
from lakewright.spec.types import ArrayType, AtomicType, DataField, Value
from support.effort import examples
from support.merging import compare, first_difference
from support.values import SCALARS, values_of

TYPES = [*SCALARS, "TIMESTAMP(9) WITH LOCAL TIME ZONE"]
_TEXTS: dict[str, Callable[[str], Value]] = {"STRING": str, "BYTES": str.encode}
_NUL = "\0"


@dataclass(frozen=True)
class Sample:
    """Rows of one to three columns, many of them equal, and how to sort by these."""

    table: pa.Table
    columns: list[SortColumn]
    values: list[list[Value]]  # by column

    def compare(self, one: int, other: int) -> int:
        return first_difference(
            compare(values[one], values[other], descending=column.descending)
            for column, values in zip(self.columns, self.values, strict=True)
        )

    def order(self) -> list[int]:
        return sorted(range(len(self.table)), key=cmp_to_key(self.compare))


def _awkward(text: str) -> st.SearchStrategy[Value]:
    """Return values of a type, those that are easily misplaced more often."""
    plain: st.SearchStrategy[Any] = values_of(AtomicType(text))
    if text in {"FLOAT", "DOUBLE"}:
        return plain | st.sampled_from([math.nan, -math.nan, 0.0, -0.0, math.inf, -math.inf, 1.5, -1.5])
    if text in _TEXTS:
        # Texts that begin alike for long, that end in zeros, and that are as long as words.
        parts = st.sampled_from(["", _NUL, "a", "b", "a" * 7, "a" * 8, "ab" * 40, "\N{ROCKET}", _NUL * 9, "\x7f", "é"])
        return plain | st.lists(parts, max_size=4).map("".join).map(_TEXTS[text])
    return plain


@st.composite
def samples(draw: st.DrawFn, *, descending: bool = True) -> Sample:
    columns, arrays, values = [], [], []
    count = draw(st.integers(0, 40))
    for number in range(draw(st.integers(1, 3))):
        text = draw(st.sampled_from(TYPES))
        pool = draw(st.lists(_awkward(text), min_size=1, max_size=12))
        values.append(draw(st.lists(st.sampled_from(pool), min_size=count, max_size=count)))
        dtype = AtomicType(text)
        columns.append(SortColumn(DataField(number, f"c{number}", dtype), descending and draw(st.booleans())))
        arrays.append(_dressed(draw, _with_litter(values[-1], dtype)))
    return Sample(pa.table(arrays, names=[c.field.name for c in columns]), columns, values)


def _with_litter(values: list[Value], dtype: AtomicType) -> pa.Array:
    """Return values as an array whose nulls have something in their place, as Arrow allows."""
    litter = [value for value in values if value is not None]
    if not litter:
        return to_array(values, dtype)
    full = to_array([litter[n % len(litter)] if value is None else value for n, value in enumerate(values)], dtype)
    valid = pa.array([value is not None for value in values]).buffers()[1]
    return pa.Array.from_buffers(full.type, len(full), [valid, *full.buffers()[1:]])


def _dressed(draw: st.DrawFn, array: pa.Array) -> pa.ChunkedArray:
    """Return an array in other clothes: with wide offsets, sliced, chunked."""
    if draw(st.booleans()):
        array = array.cast({pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(array.type, array.type))
    if draw(st.booleans()):
        array = pa.concat_arrays([array[:2], array]).slice(len(array[:2]))
    cut = draw(st.integers(0, len(array)))
    return pa.chunked_array([array[:cut], array[cut:]])


class Path(Enum):
    """Which of its ways a sort takes."""

    FEW = "as few rows"
    RADIX = "as many rows, without vector instructions"
    PACKED = "as many rows, with them"


@contextmanager
def paths(path: Path) -> Iterator[None]:
    """Sort few rows the way many are sorted, and texts longer than one word the way very long ones are."""
    if path is Path.FEW:
        yield
        return
    with (
        patch.multiple(key_order, _FEW_ROWS=0, _FEW_RUNS=1, _FEW_RUNS_PACKED=1, _MANY=1),
        patch.object(key_order, "sorts_by_vectors", lambda: path is Path.PACKED),
        patch.multiple(normalized_keys, _TEXT_WORDS=1, _PREFIX_ROWS_MIN=1, _MANY=1),
    ):
        yield


@given(samples(), st.sampled_from(Path))
@settings(max_examples=examples(400))
def test_sorts_as_python_does(sample: Sample, path: Path) -> None:
    with paths(path):
        assert sorted_rows(sample.table, sample.columns).order.tolist() == sample.order()


@given(samples(descending=False), st.sampled_from(Path))
@settings(max_examples=examples(300))
def test_keys_begin_where_a_row_differs_from_the_one_before(sample: Sample, path: Path) -> None:
    key = KeyOrder([c.field for c in sample.columns])
    order = sample.order()
    starts = [at for at in range(len(order)) if at == 0 or sample.compare(order[at - 1], order[at])]
    with paths(path):
        assert key.starts(sample.table, np.array(order, np.int64)).tolist() == starts
        found = key.sort_rows(sample.table)
        assert np.flatnonzero(found.new).tolist() == starts
        in_order = sample.table.take(pa.array(order, pa.int64()))
        assert key.starts(in_order).tolist() == starts
        assert key.order(in_order).tolist() == list(range(len(order)))
        assert key.is_ascending(in_order) == (len(starts) == len(order))
        assert key.is_ascending(in_order.take(pa.array(starts, pa.int64())))


@given(samples(descending=False))
@settings(max_examples=examples(200))
def test_keys_of_rows_compare_as_rows_do(sample: Sample) -> None:
    key = KeyOrder([c.field for c in sample.columns])
    order = sample.order()
    in_order = sample.table.take(pa.array(order, pa.int64()))
    for one in range(0, len(order), 5):
        found = key.key_at(in_order, one)
        assert found == key.key_of([values[order[one]] for values in sample.values])
        assert key.count_up_to(in_order, found) == sum(sample.compare(row, order[one]) <= 0 for row in order)
    shuffled = bool(order) and any(sample.compare(row, row + 1) >= 0 for row in range(len(order) - 1))
    assert key.is_ascending(sample.table) == (not shuffled)


def _big(kind: str, rng: np.random.Generator, count: int) -> pa.Array:
    match kind:
        case "wide":
            return pa.array(rng.integers(-(2**63), 2**63 - 1, count))
        case "narrow":
            return pa.array(rng.integers(-50, 50, count))
        case "clustered":  # all but one agree in the upper half, so counting digits tells nothing
            return pa.array(np.append(rng.integers(0, 2**20, count - 1), 2**60))
        case "runs":
            return pa.array(np.sort(rng.integers(0, 2**40, (10, count // 10)), axis=1).ravel())
        case _:
            return pa.array([f"{'key-' * 5}{n:x}" for n in rng.integers(0, count, count)])


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("kind", ["wide", "narrow", "clustered", "runs", "text"])
def test_many_rows_sort_as_python_does(kind: str, vectors: bool) -> None:
    rng = np.random.default_rng(7)
    count = 30_000
    table = pa.table({"a": _big(kind, rng, count), "b": pa.array(rng.integers(0, 9, count))})
    first = AtomicType("STRING" if kind == "text" else "BIGINT")
    fields = [DataField(0, "a", first), DataField(1, "b", AtomicType("BIGINT"))]
    rows = list(zip(*(table.column(name).to_pylist() for name in "ab"), strict=True))
    expected = sorted(range(count), key=rows.__getitem__)
    with patch.object(key_order, "sorts_by_vectors", lambda: vectors):
        found = KeyOrder(fields).sort_rows(table)
    assert found.order.tolist() == expected
    assert found.new.tolist() == [n == 0 or rows[expected[n]] != rows[expected[n - 1]] for n in range(count)]


def test_small_columns_share_one_word() -> None:
    fields = {"a": "INT", "b": "STRING", "c": "BIGINT", "d": "DATE"}
    table = pa.table(
        {
            "a": pa.array([5, None, -5], pa.int32()),
            "b": ["de-1", "de-25", None],
            "c": [10**15, 10**15 + 7, 10**15],
            "d": pa.array([1, 2, 3], pa.date32()),
        }
    )
    key = KeyOrder([DataField(n, name, AtomicType(text)) for n, (name, text) in enumerate(fields.items())])
    assert len(key._layers(table)) == 1
    assert key.order(table).tolist() == [1, 2, 0]


def test_columns_without_order_are_refused() -> None:
    fields = [DataField(0, "a", ArrayType(True, AtomicType("INT"))), DataField(0, "a", AtomicType("VARIANT"))]  # noqa: FBT003
    for field in fields:
        with pytest.raises(UnsupportedError):
            KeyOrder([field]).order(pa.table({"a": [[1]]}))

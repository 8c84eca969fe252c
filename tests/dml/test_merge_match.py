"""Source rows meet exactly the target rows whose join columns are equal, whatever their types."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakewright.dml.assignments import ColumnScope
from lakewright.dml.matching import Matcher, parse
from lakewright.errors import InvalidInputError
from lakewright.spec.arrow_types import to_arrow_type
from lakewright.spec.types import ArrayType, AtomicType, DataField

Make = Callable[[Random], Any]
MOMENT = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - TIMESTAMP has no zone
VALUES: dict[str, Make] = {
    "BOOLEAN": lambda r: r.random() < 0.5,
    "TINYINT": lambda r: r.choice([-128, -1, 0, 1, 127]),
    "SMALLINT": lambda r: r.randint(-20, 20),
    "INT": lambda r: r.choice([-(2**31), 2**31 - 1, 0, 7, 8]),
    "BIGINT": lambda r: r.choice([-(2**63), 2**63 - 1, 0, -1, r.randint(-5, 5)]),
    "FLOAT": lambda r: r.choice([0.0, -0.0, 1.5, math.inf, math.nan]),
    "DOUBLE": lambda r: r.choice([0.0, -0.0, 1.5, -math.inf, math.nan, 1e300]),
    "DECIMAL(9, 2)": lambda r: r.choice([Decimal("-1.25"), Decimal("0.00"), Decimal("9.99")]),
    "DECIMAL(30, 2)": lambda r: r.choice([Decimal("-1.25"), Decimal("0.00"), Decimal("12345678901234567890.99")]),
    "STRING": lambda r: r.choice(["", "a", "b", "é", "a long text of more than eight bytes"]),
    "VARCHAR(3)": lambda r: r.choice(["", "abc", "xyz"]),
    "BYTES": lambda r: r.choice([b"", b"\x00", b"a\x00", b"a"]),
    "DATE": lambda r: dt.date(2026, 1, r.randint(1, 5)),
    "TIME": lambda r: dt.time(12, 0, r.randint(0, 3)),
    "TIMESTAMP(3)": lambda r: MOMENT + dt.timedelta(milliseconds=r.randint(0, 4)),
    "TIMESTAMP(9)": lambda r: MOMENT + dt.timedelta(microseconds=r.randint(0, 4)),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": lambda r: MOMENT.replace(tzinfo=dt.UTC) + dt.timedelta(r.randint(0, 4)),
}


def columns(types: list[str], rows: int, random: Random) -> pa.Table:
    """Make a table of random columns `c0`, `c1` and so on, with nulls."""
    made = {}
    for number, name in enumerate(types):
        values = [None if random.random() < 0.15 else VALUES[name](random) for _ in range(rows)]
        made[f"c{number}"] = pa.array(values, to_arrow_type(AtomicType(name)))
    return pa.table(made)


def expected(target: pa.Table, source: pa.Table, names: list[str]) -> list[tuple[int, int]]:
    """Return the pairs of rows whose columns are equal, by comparing every row with every other."""
    left, right = ([tuple(row[name] for name in names) for row in t.to_pylist()] for t in (target, source))
    return [(i, j) for i, a in enumerate(left) for j, b in enumerate(right) if equal(a, b)]


def equal(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return all(a is not None and (a == b or str(a) == str(b) == "nan") for a, b in zip(one, other, strict=True))


def fields(types: list[str]) -> list[DataField]:
    return [DataField(number, f"c{number}", AtomicType(name)) for number, name in enumerate(types)]


@pytest.mark.parametrize("name", VALUES)
def test_columns_of_every_type_match_equal_values(name: str) -> None:
    random = Random(name)
    target, source = columns([name], 80, random), columns([name], 30, random)
    matcher = Matcher(source, [(fields([name])[0], "c0")])
    pairs = matcher.match(target)
    assert list(zip(pairs.target, pairs.source, strict=True)) == expected(target, source, ["c0"])
    assert len(pairs.target) or name == "BIGINT"
    # What prunes the target must keep every row that matches.
    kept = matcher.pruning_predicate().mask(target).to_pylist()
    assert all(kept[row] for row in pairs.target)


@pytest.mark.parametrize("seed", range(40))
def test_rows_match_where_all_columns_are_equal(seed: int) -> None:
    random = Random(seed)
    types = random.sample(list(VALUES), random.randint(2, 4))
    target, source = columns(types, random.randint(0, 120), random), columns(types, random.randint(0, 60), random)
    on = [(field, field.name) for field in fields(types)]
    pairs = Matcher(source, on).match(target)
    assert list(zip(pairs.target, pairs.source, strict=True)) == expected(target, source, [f.name for f, _ in on])


@pytest.mark.parametrize("step", [1, 1_000_003, 2**40 + 1])
def test_narrow_and_wide_ranges_of_numbers(step: int) -> None:
    """Narrow ranges are looked up in a table, wide ones pass a sieve: both find the same."""
    random = np.random.default_rng(step)
    keys = random.choice(3000, 500, replace=False).astype(np.int64) * step - 1000 * step
    rows = random.integers(-2000, 3000, 4000).astype(np.int64) * step
    matcher = Matcher(pa.table({"k": keys}), [(DataField(0, "k", AtomicType("BIGINT")), "k")])
    pairs = matcher.match(pa.table({"k": rows}))
    place = {int(key): at for at, key in enumerate(keys)}
    assert [(int(i), int(j)) for i, j in zip(pairs.target, pairs.source, strict=True)] == [
        (at, place[int(row)]) for at, row in enumerate(rows) if int(row) in place
    ]
    assert len(pairs.target) > 100


def test_many_texts_are_pruned_by_their_bounds() -> None:
    source = pa.table({"k": [f"{n:05}" for n in range(100, 1400)]})
    matcher = Matcher(source, [(DataField(0, "k", AtomicType("STRING")), "k")])
    assert str(matcher.pruning_predicate()) == "k BETWEEN '00100' AND '01399'"
    assert str(Matcher(source.slice(0, 2), matcher.on).pruning_predicate()) == "k IN ('00100', '00101')"
    assert str(Matcher(pa.table({"k": pa.nulls(3, pa.string())}), matcher.on).pruning_predicate()) == "FALSE"


@pytest.mark.parametrize("name", ["FLOAT", "DOUBLE"])
def test_bounds_of_many_numbers_keep_rows_with_nan(name: str) -> None:
    dtype = to_arrow_type(AtomicType(name))
    source = pa.table({"k": pa.array([*map(float, range(1100)), math.nan], dtype)})
    matcher = Matcher(source, [(DataField(0, "k", AtomicType(name)), "k")])
    target = pa.table({"k": pa.array([math.nan, 5.0, -1.0], dtype)})
    assert matcher.match(target).target.tolist() == [0, 1]
    assert matcher.pruning_predicate().mask(target).to_pylist() == [True, True, False]


@pytest.mark.parametrize(
    ("own", "given", "matches"),
    [
        ("INT", pa.array([7, 2**40, None], pa.int64()), [0]),  # what does not fit matches nothing
        ("BIGINT", pa.array([7, 8], pa.uint64()), [0, 1]),
        ("TINYINT", pa.array([300, 7], pa.int16()), [1]),
        ("BIGINT", pa.array([7.0, 8.0], pa.float64()), [0, 1]),
        ("DOUBLE", pa.array([7, 2**31 - 1], pa.int32()), [0]),
        ("DECIMAL(9, 2)", pa.array([7, 9], pa.int64()), [0]),
        ("DECIMAL(9, 2)", pa.array([Decimal("7.000"), Decimal("7.001")], pa.decimal128(10, 3)), [0]),
        ("STRING", pa.array(["7", "x"]).dictionary_encode(), [0]),
        ("VARCHAR(2)", pa.array(["7", "long text"], pa.large_string()), [0]),
    ],
)
def test_sources_of_other_types(own: str, given: pa.Array, matches: list[int]) -> None:
    seven: Any = {"STRING": "7", "VARCHAR(2)": "7", "DECIMAL(9, 2)": Decimal(7)}.get(own, 7)
    eight: Any = {"STRING": "8", "VARCHAR(2)": "8", "DECIMAL(9, 2)": Decimal(8)}.get(own, 8)
    target = pa.table({"k": pa.array([seven, eight], to_arrow_type(AtomicType(own)))})
    pairs = Matcher(pa.table({"k": given}), [(DataField(0, "k", AtomicType(own)), "k")]).match(target)
    assert pairs.source.tolist() == matches


@pytest.mark.parametrize(
    ("own", "given"),
    [
        ("BIGINT", pa.array(["7"])),
        ("BIGINT", pa.array([7.5])),
        ("DATE", pa.array(["2026-01-01"])),
        ("TIMESTAMP(6)", pa.array([MOMENT.replace(tzinfo=dt.UTC)])),
    ],
)
def test_sources_that_cannot_be_compared(own: str, given: pa.Array) -> None:
    with pytest.raises(InvalidInputError, match="'given'") as caught:
        Matcher(pa.table({"given": given}), [(DataField(0, "k", AtomicType(own)), "given")])
    assert caught.value.column == "given"


def test_columns_without_an_order_join_nothing() -> None:
    field = DataField(0, "k", ArrayType(nullable=True, element_type=AtomicType("INT")))
    with pytest.raises(InvalidInputError, match="'k'"):
        Matcher(pa.table({"k": [[1]]}), [(field, "k")])


def test_further_conditions_leave_out_pairs_of_equal_keys() -> None:
    target = pa.table({"k": [1, 1, 2, 3], "n": [5, None, 6, 7]})
    source = pa.table({"k": [1, 2, 3, 1], "m": [5, 5, 8, 4]})
    own = [DataField(0, "k", AtomicType("BIGINT")), DataField(1, "n", AtomicType("BIGINT"))]
    condition = parse(
        "t.k = s.k AND (t.n >= s.m OR s.m = 8) AND t.n <> 100", ColumnScope(tuple(own), source.schema), "on"
    )
    matcher = Matcher(source, [(own[0], "k")], condition.residual())
    pairs = matcher.match(target)
    assert list(zip(pairs.target.tolist(), pairs.source.tolist(), strict=True)) == [(0, 0), (0, 3), (2, 1), (3, 2)]
    assert matcher.columns == ("k", "n")


def test_the_last_row_of_each_key_is_found() -> None:
    source = pa.table({"a": [1, 2, 1, None, None, 2], "b": ["x", "x", "x", "x", "x", "y"]})
    own = [DataField(0, "a", AtomicType("BIGINT")), DataField(1, "b", AtomicType("STRING"))]
    assert Matcher(source, [(own[0], "a")]).last_rows().tolist() == [2, 3, 4, 5]
    assert Matcher(source, [(own[0], "a"), (own[1], "b")]).last_rows().tolist() == [1, 2, 3, 4, 5]
    assert Matcher(source.slice(0, 0), [(own[0], "a")]).last_rows().tolist() == []


@pytest.mark.parametrize("name", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("zeros_differ", [False, True])
def test_the_two_zeros_match_unless_they_are_keys(name: str, *, zeros_differ: bool) -> None:
    kind = to_arrow_type(AtomicType(name))
    rows = pa.table({"k": pa.array([0.0, -0.0, math.nan, None, -0.0], kind)})
    matcher = Matcher(rows, [(DataField(0, "k", AtomicType(name)), "k")], zeros_differ=zeros_differ)
    pairs = matcher.match(rows.slice(0, 4))
    zeros = [(0, 0), (1, 1), (1, 4)] if zeros_differ else [(a, b) for a in (0, 1) for b in (0, 1, 4)]
    assert list(zip(pairs.target.tolist(), pairs.source.tolist(), strict=True)) == [*zeros, (2, 2)]
    assert matcher.last_rows().tolist() == ([0, 2, 3, 4] if zeros_differ else [2, 3, 4])

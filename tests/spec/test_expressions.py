"""Expressions of Arrow and polars as filters: each keeps exactly the rows that its own library keeps."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakewright.errors import ColumnNotExistException, InvalidInputError, UnsupportedError
from lakewright.spec.arrow_types import from_arrow_schema
from lakewright.spec.filters import to_predicate

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, None, 5], pa.int32()),
        "s": pa.array(["a", "ab", None, "x_y", "b%"]),
        "f": pa.array([1.5, None, 3.0, -2.0, 0.0], pa.float64()),
        "b": pa.array([True, False, None, True, False]),
        "day": pa.array([date(2026, 1, 1), None, date(2026, 1, 3), date(2026, 1, 4), date(2025, 1, 1)]),
        "ts": pa.array([datetime(2026, 1, 1), None, *[datetime(2026, 1, 3, 4, 5)] * 3], pa.timestamp("us")),  # noqa: DTZ001
        "at": pa.array([datetime(2026, 1, d, tzinfo=UTC) for d in (1, 2, 3, 4, 5)], pa.timestamp("us", "UTC")),
        "d": pa.array([Decimal("1.20"), None, Decimal("3.00"), Decimal("-1.00"), Decimal("9.99")], pa.decimal128(5, 2)),
        "bin": pa.array([b"a", None, b"b", b"c", b""]),
        "r": pa.array([{"x": 1}, {"x": None}, None, {"x": 4}, {"x": 5}], pa.struct({"x": pa.int64()})),
        "a b": pa.array([1, 2, 3, 4, None], pa.int64()),
    }
)
FIELDS = from_arrow_schema(ROWS.schema)

ARROW = [
    pc.field("id") > 3,
    pc.field("id") < 3,
    pc.field("id") >= 2.5,
    pc.field("id") == pa.scalar(3, pa.int8()),
    pc.field("id") == pa.scalar(None, pa.int32()),
    pc.field("s") == "ab",
    pc.field("s") != "ab",
    pc.field("a b") < 3,
    pc.field("r", "x") > 1,
    pc.field("b"),
    ~pc.field("b"),
    pc.field("b") == False,  # noqa: E712 - an expression
    pc.field("f") <= 1.5,
    pc.field("day") >= date(2026, 1, 3),
    pc.field("ts") > datetime(2026, 1, 2),  # noqa: DTZ001
    pc.field("at") > datetime(2026, 1, 2, tzinfo=UTC),
    pc.field("d") > Decimal("1.1"),
    pc.field("bin") == b"b",
    pc.field("id").is_null(),
    pc.field("id").is_valid(),
    pc.field("id").isin([1, 3, 9]),
    pc.field("id").isin([1, None]),
    pc.field("id").isin([]),
    pc.field("s").isin(["a", "b%"]),
    pc.is_in(pc.field("id"), value_set=pa.array([1, None]), skip_nulls=True),
    pc.starts_with(pc.field("s"), "a"),
    pc.ends_with(pc.field("s"), "b"),
    pc.match_substring(pc.field("s"), "_"),
    pc.match_like(pc.field("s"), "a%"),
    pc.scalar(True),  # noqa: FBT003
]


def _kept(expression: object) -> list[bool]:
    mask = to_predicate(expression, FIELDS).mask(ROWS)
    return [value is True for value in mask.to_pylist()]


def _by_arrow(expression: pc.Expression) -> list[bool]:
    numbered = ROWS.append_column("#", pa.array(range(ROWS.num_rows)))
    found = set(numbered.filter(expression)["#"].to_pylist())
    return [number in found for number in range(ROWS.num_rows)]


@pytest.mark.parametrize("expression", ARROW, ids=str)
def test_arrow_expressions_keep_the_rows_that_arrow_keeps(expression: pc.Expression) -> None:
    assert _kept(expression) == _by_arrow(expression)
    assert _kept(~expression) == _by_arrow(~expression)


def test_random_trees_of_arrow_expressions() -> None:
    rng = random.Random(7)

    def tree(depth: int) -> pc.Expression:
        if depth == 0:
            return rng.choice(ARROW)
        match rng.randrange(3):
            case 0:
                return tree(depth - 1) & tree(depth - 1)
            case 1:
                return tree(depth - 1) | tree(depth - 1)
            case _:
                return ~tree(depth - 1)

    for _ in range(300):
        expression = tree(rng.randrange(4))
        assert _kept(expression) == _by_arrow(expression), str(expression)


POLARS = [
    pl.col("id") > 3,
    pl.lit(3) > pl.col("id"),
    pl.col("id") >= 2.5,
    pl.col("id") == pl.lit(3, pl.Int8),
    pl.col("s") == "ab",
    pl.col("s") != "ab",
    pl.col("r").struct.field("x") > 1,
    pl.col("b"),
    pl.col("f") <= 1.5,
    pl.col("day") >= date(2026, 1, 3),
    pl.col("ts") > datetime(2026, 1, 2),  # noqa: DTZ001
    pl.col("at") > datetime(2026, 1, 2, tzinfo=UTC),
    pl.col("bin") == b"b",
    pl.col("id").is_null(),
    pl.col("id").is_not_null(),
    pl.col("id").is_in([1, 3, 9]),
    pl.col("id").is_in([1, None]),
    pl.col("s").is_in(["a", "b%"]),
    pl.col("id").is_between(2, 3),
    pl.col("id").is_between(2, 3, closed="none"),
    pl.col("s").str.starts_with("a"),
    pl.col("s").str.ends_with("b"),
    pl.col("s").str.contains("_", literal=True),
    (pl.col("id") > 1) & (pl.col("s") != "a") | pl.col("b"),
    ~((pl.col("id") > 1) | pl.col("b")),
]


@pytest.mark.parametrize("expression", POLARS, ids=str)
def test_polars_expressions_keep_the_rows_that_polars_keeps(expression: pl.Expr) -> None:
    frame = pl.from_arrow(ROWS)
    assert isinstance(frame, pl.DataFrame)
    for one in (expression, ~expression):
        found = set(frame.with_row_index("#").filter(one)["#"])
        assert _kept(one) == [number in found for number in range(ROWS.num_rows)]


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        (pc.field("id") + 1 > 3, "add"),
        (pc.utf8_lower(pc.field("s")) == "a", "utf8_lower"),
        (pc.field("id").cast("int64") > 3, "cast"),
        (pc.field("f").is_nan(), "is_nan"),
        (pc.field("f").is_null(nan_is_null=True), "is_null"),
        (pc.field("id") > pc.field("a b"), "two columns"),
        (pc.field(0) > 1, "FieldPath"),
        (pc.match_substring(pc.field("s"), "a", ignore_case=True), "match_substring"),
        (pc.and_(pc.field("b"), pc.field("b")), "and"),
        (pl.col("s").str.to_lowercase() == "a", "StringExpr"),
        (pl.col("s").str.contains("a.*"), "Contains"),
        (pl.col("id") + 1 > 3, "Plus"),
        (pl.col("id").cast(pl.Int64) > 3, "Cast"),
        (pl.col("id").eq_missing(3), "EqValidity"),
        (pl.col("id") > pl.col("id").mean(), "Agg"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_its_name(expression: object, name: str) -> None:
    with pytest.raises(UnsupportedError, match=name):
        to_predicate(expression, FIELDS)


def test_expressions_with_unknown_columns_or_wrong_types_are_refused() -> None:
    with pytest.raises(ColumnNotExistException, match="did you mean 'id'"):
        to_predicate(pc.field("ID") > 3, FIELDS)
    with pytest.raises(InvalidInputError, match="cannot be compared"):
        to_predicate(pc.field("id") > "a", FIELDS)
    with pytest.raises(InvalidInputError, match="no condition"):
        to_predicate(pc.scalar(5), FIELDS)
    for wrong in (5, pl.DataFrame(), ["id > 3"], True, b"id"):
        with pytest.raises(InvalidInputError, match="a filter takes text"):
            to_predicate(wrong, FIELDS)

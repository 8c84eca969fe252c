from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.errors import CorruptTableError, InvalidInputError
from lakewright.spec.binary_row import decode_row, encode_row
from lakewright.spec.column_stats import (
    COUNTS,
    FULL,
    NONE,
    ColumnStats,
    StatsMode,
    column_stats,
    field_stats,
    merge_column_stats,
    parse_stats_mode,
    partition_stats,
    to_simple_stats,
    truncate,
)
from lakewright.spec.manifest import EMPTY_ROW, EMPTY_STATS, DataFile, SimpleStats
from lakewright.spec.scalars import to_array
from lakewright.spec.types import ArrayType, AtomicType, DataField, Value
from support.effort import examples
from support.values import scalar_types, values_of

INT, TEXT, DOUBLE, CHAR = AtomicType("INT"), AtomicType("STRING"), AtomicType("DOUBLE"), AtomicType("CHAR(5)")
FIELDS = (DataField(0, "a", INT), DataField(1, "b", TEXT), DataField(2, "c", ArrayType(True, INT)))  # noqa: FBT003
FILE = DataFile(
    "data-1.parquet", 10, 4, EMPTY_ROW, EMPTY_ROW, EMPTY_STATS, EMPTY_STATS, 0, 0, 0, 0,
    (), None, 0, None, 0, (), None, None, None,
)  # fmt: skip


def test_modes_are_parsed() -> None:
    assert [parse_stats_mode(t) for t in ("none", "COUNTS", " full ")] == [NONE, COUNTS, FULL]
    assert parse_stats_mode("Truncate( 16 )") == StatsMode("truncate", 16)
    for wrong in ("", "all", "truncate(0)", "truncate(-1)", "truncate"):
        with pytest.raises(InvalidInputError):
            parse_stats_mode(wrong)


@given(st.data())
@settings(max_examples=examples(150))
def test_bounds_are_the_extremes_of_the_values(data: st.DataObject) -> None:
    dtype = data.draw(scalar_types)
    values = data.draw(st.lists(values_of(dtype), max_size=12))
    array = to_array(values, dtype)
    known = [v for v in values if v is not None]
    low, high = min(known, default=None), max(known, default=None)  # type: ignore[type-var]
    wanted = ColumnStats(low, high, len(values) - len(known))  # type: ignore[arg-type]
    assert column_stats(array, dtype, FULL) == wanted
    assert column_stats(pa.chunked_array([array[:3], array[3:]]), dtype, FULL) == wanted
    parts = merge_column_stats(column_stats(array[:5], dtype, FULL), column_stats(array[5:], dtype, FULL))
    assert parts == wanted
    assert column_stats(array, dtype, COUNTS) == ColumnStats(None, None, wanted.null_count)
    assert column_stats(array, dtype, NONE) == ColumnStats(None, None, None)


def test_nan_takes_the_bounds_away_for_good_and_nulls_do_not() -> None:
    nan = column_stats(pa.array([1.0, math.nan, None]), DOUBLE, FULL)
    assert nan == ColumnStats(None, None, 1)
    good = column_stats(pa.array([1.0, 2.0]), DOUBLE, FULL)
    assert merge_column_stats(nan, good) == ColumnStats(None, None, 1)
    assert merge_column_stats(column_stats(pa.array([None], pa.float64()), DOUBLE, FULL), good) == ColumnStats(
        1.0, 2.0, 1
    )


def test_zero_bounds_cover_both_zeros() -> None:
    stats = column_stats(pa.array([0.0, 0.0]), DOUBLE, FULL)
    assert isinstance(stats.min, float)
    assert isinstance(stats.max, float)
    assert (math.copysign(1, stats.min), math.copysign(1, stats.max)) == (-1.0, 1.0)
    stats = column_stats(pa.array([-0.0, -0.0]), DOUBLE, FULL)
    assert isinstance(stats.max, float)
    assert math.copysign(1, stats.max) == 1.0


def test_nested_columns_have_only_a_null_count() -> None:
    assert column_stats(pa.array([[1], None]), FIELDS[2].type, FULL) == ColumnStats(None, None, 1)


@pytest.mark.parametrize(
    ("low", "high", "length", "cut_low", "cut_high"),
    [
        ("abcd", "abce", 4, "abcd", "abce"),
        ("abcde", "abcde", 4, "abcd", "abce"),
        ("a", "ab\ud7ffz", 3, "a", "ac"),  # the next code point would be a surrogate
        ("a", "ab\U0010ffffz", 3, "a", "ac"),
        ("a", "\U0010ffff" * 4, 3, None, None),
        ("日本語", "日本語", 2, "日本", "日札"),
        (b"abc", b"ab\xff\xff", 3, b"abc", b"ac"),
        (b"abc", b"\xff\xff\xff", 2, None, None),
        (b"abc", b"\xff\xff", 2, b"ab", b"\xff\xff"),
        (1, 2, 1, 1, 2),
        (None, None, 3, None, None),
    ],
)
def test_bounds_are_truncated_to_a_length(
    low: Value, high: Value, length: int, cut_low: Value, cut_high: Value
) -> None:
    assert truncate(ColumnStats(low, high, 0), length) == ColumnStats(cut_low, cut_high, 0)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), min_size=1), st.integers(1, 4))
@settings(max_examples=examples(200))
def test_truncated_bounds_still_surround_the_values(texts: list[str], length: int) -> None:
    stats = column_stats(pa.array(texts), TEXT, StatsMode("truncate", length))
    if stats.max is None:
        assert stats.min is None
        return
    assert isinstance(stats.min, str)
    assert isinstance(stats.max, str)
    assert len(stats.min) <= length
    assert len(stats.max) <= length
    assert all(stats.min.encode() <= text.encode() <= stats.max.encode() for text in texts)


def test_dense_statistics_leave_out_columns_without_bounds() -> None:
    stats = [ColumnStats(1, 5, 0), ColumnStats("a", "b", 2), None]
    dense, columns = to_simple_stats(stats, FIELDS, dense=True)
    assert columns == ("a", "b")
    assert decode_row(dense.min_values, [INT, TEXT]) == (1, "a")
    assert dense.null_counts == (0, 2)
    full, columns = to_simple_stats(stats, FIELDS, dense=False)
    assert columns is None
    assert decode_row(full.max_values, [f.type for f in FIELDS]) == (5, "b", None)
    assert full.null_counts == (0, 2, None)
    assert to_simple_stats(stats[:2], FIELDS[:2], dense=True)[1] is None
    assert to_simple_stats([None, None, ColumnStats(None, None, None)], FIELDS, dense=True) == (EMPTY_STATS, ())


def _file(stats: SimpleStats, columns: tuple[str, ...] | None, written: tuple[str, ...] | None = None) -> DataFile:
    return replace(FILE, value_stats=stats, value_stats_cols=columns, write_cols=written)


def test_the_statistics_of_a_field_are_found_by_its_name() -> None:
    simple, columns = to_simple_stats([ColumnStats(1, 5, 0), ColumnStats("a", "b", 2), None], FIELDS, dense=True)
    file = _file(simple, columns)
    assert field_stats(file, "a", FIELDS) == ColumnStats(1, 5, 0)
    assert field_stats(file, "b", FIELDS) == ColumnStats("a", "b", 2)
    assert field_stats(file, "c", FIELDS) is None
    assert field_stats(file, "missing", FIELDS) is None
    assert field_stats(_file(EMPTY_STATS, ()), "a", FIELDS) is None
    assert field_stats(_file(EMPTY_STATS, None), "a", FIELDS) is None
    written = _file(SimpleStats(*_rows(["x", 3], [TEXT, INT]), (7, 8)), None, ("b", "_ROW_ID"))
    assert field_stats(written, "b", FIELDS) == ColumnStats("x", "x", 7)
    assert field_stats(written, "a", FIELDS) is None
    nested, _ = to_simple_stats([None, None, ColumnStats(None, None, 3)], FIELDS, dense=False)
    assert field_stats(_file(nested, None), "c", FIELDS) == ColumnStats(None, None, 3)


def _rows(values: list[Value], types: list[AtomicType]) -> tuple[bytes, bytes]:
    row = encode_row(values, types)
    return row, row


def _one(low: Value, high: Value, dtype: AtomicType) -> ColumnStats | None:
    stats = SimpleStats(encode_row([low], [dtype]), encode_row([high], [dtype]), (0,))
    return field_stats(_file(stats, ("x",)), "x", [DataField(0, "x", dtype)])


def test_bounds_known_to_lie_are_mended() -> None:
    assert _one(1.0, math.nan, DOUBLE) == ColumnStats(None, None, 0)
    assert _one("abc", "abcdefghijklmno?", TEXT) == ColumnStats("abc", None, 0)
    assert _one("     ", "ab   ", CHAR) == ColumnStats("", "ab   ", 0)
    assert _one("a\t   ", "b", CHAR) == ColumnStats("a", "b", 0)
    assert _one("a ", "b ", TEXT) == ColumnStats("a ", "b ", 0)


@given(st.lists(st.text("a\t b!", max_size=4), min_size=1, max_size=6), st.booleans())
def test_char_bounds_surround_values_padded_or_not(texts: list[str], padded: bool) -> None:
    stored = [t.ljust(5) for t in texts] if padded else texts
    seen = [t.rstrip(" ") for t in texts] if padded else texts
    stats = _one(min(stored), max(stored), CHAR)
    assert stats is not None
    assert all(stats.min <= t <= stats.max for t in seen)  # type: ignore[operator]


def test_damaged_stats_are_reported_with_the_file() -> None:
    row = encode_row([1, "long enough for the variable part"], [INT, TEXT])
    short = SimpleStats(row, row, (0,))
    cut = SimpleStats(row[:28], row[:28], (0, 0))
    for stats, name in ((short, "a"), (cut, "b"), (replace(cut, min_values=b"abc"), "a")):
        with pytest.raises(CorruptTableError, match=r"data-1\.parquet"):
            field_stats(_file(stats, ("a", "b")), name, FIELDS)


def test_partition_stats_count_entries_and_never_truncate() -> None:
    types = [AtomicType("STRING"), AtomicType("DECIMAL(20, 2)"), DOUBLE]
    long = "a very long partition value, longer than sixteen"
    rows = [
        encode_row([long, Decimal("1.50"), 1.0], types),
        encode_row([long, Decimal("1.50"), 1.0], types),
        encode_row([None, Decimal("-2.00"), math.nan], types),
    ]
    stats = partition_stats(rows, types)
    assert decode_row(stats.min_values, types) == (long, Decimal("-2.00"), None)
    assert decode_row(stats.max_values, types) == (long, Decimal("1.50"), None)
    assert stats.null_counts == (1, 0, 0)
    assert partition_stats([EMPTY_ROW, EMPTY_ROW], []) == EMPTY_STATS

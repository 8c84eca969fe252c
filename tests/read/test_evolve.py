"""Old files read with a newer schema: columns by id, casts as Java casts."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.read.file_evolution import cast_array, plan_evolution, stats_safe
from lakewright.spec.arrow_types import to_arrow_schema, to_arrow_type
from lakewright.spec.scalars import to_array, to_text
from lakewright.spec.schema_evolution import Cast, cast_between
from lakewright.spec.types import ArrayType, AtomicType, DataField, DataType, MapType, RowType
from support.effort import examples
from support.values import SCALARS, values_of

INT, TEXT, LONG = AtomicType("INT"), AtomicType("STRING"), AtomicType("BIGINT")
INF, NAN = math.inf, math.nan


def row(*fields: DataField) -> RowType:
    return RowType(True, fields)  # noqa: FBT003


def array_of(dtype: DataType) -> ArrayType:
    return ArrayType(True, dtype)  # noqa: FBT003


def batch(fields: list[DataField], **columns: list[Any]) -> pa.RecordBatch:
    schema = to_arrow_schema(fields)
    return pa.RecordBatch.from_arrays([pa.array(columns[f.name], f.type) for f in schema], schema=schema)


def test_columns_are_found_by_id() -> None:
    old = [DataField(0, "a", INT), DataField(1, "b", TEXT), DataField(2, "c", INT)]
    new = [DataField(3, "b", TEXT), DataField(1, "name", TEXT), DataField(0, "a", LONG)]
    plan = plan_evolution(old, new)
    assert [f.name for f in plan.file_fields] == ["b", "a"]
    got = plan.apply(batch(list(plan.file_fields), b=["x", None], a=[1, 2]))
    assert got.schema.equals(to_arrow_schema(new))
    assert got.to_pylist() == [{"b": None, "name": "x", "a": 1}, {"b": None, "name": None, "a": 2}]


def test_an_unchanged_schema_costs_nothing() -> None:
    fields = [DataField(0, "a", INT), DataField(1, "r", row(DataField(2, "x", INT)))]
    plan = plan_evolution(fields, fields)
    rows = batch(fields, a=[1], r=[{"x": 1}])
    assert plan.identity
    assert plan.apply(rows) is rows
    assert not plan_evolution(fields, [DataField(0, "other", INT)]).identity


def test_rows_inside_arrays_and_maps() -> None:
    old_row = row(DataField(10, "x", INT), DataField(11, "y", TEXT), DataField(12, "z", INT))
    new_row = row(DataField(13, "w", TEXT), DataField(11, "yy", TEXT), DataField(10, "x", LONG))
    old = [
        DataField(0, "r", old_row),
        DataField(1, "l", array_of(array_of(old_row))),
        DataField(2, "m", MapType(True, TEXT, old_row)),  # noqa: FBT003
    ]
    new = [
        DataField(0, "r", new_row),
        DataField(1, "l", array_of(array_of(new_row))),
        DataField(2, "m", MapType(True, TEXT, new_row)),  # noqa: FBT003
    ]
    plan = plan_evolution(old, new)
    assert str(plan.file_fields[0].type) == "ROW<`x` INT, `y` STRING>"
    one, two = {"x": 1, "y": "a"}, {"w": None, "yy": "a", "x": 1}
    for cut in (0, 1):
        got = plan.apply(
            batch(
                list(plan.file_fields),
                r=[None, one],
                l=[[[one, None], None, []], None],
                m=[None, [("k", one), ("n", None)]],
            ).slice(cut)
        )
        want = [
            {"r": None, "l": [[[two, None], None, []][0], None, []], "m": None},
            {"r": two, "l": None, "m": [("k", two), ("n", None)]},
        ]
        assert got.to_pylist() == want[cut:]
        got.validate(full=True)


def test_fields_of_a_row_that_have_the_name_of_another_one_are_told_apart() -> None:
    old = [DataField(0, "r", row(DataField(10, "x", INT), DataField(11, "y", INT)))]
    swapped = [DataField(0, "r", row(DataField(11, "x", INT), DataField(10, "y", INT)))]
    plan = plan_evolution(old, swapped)
    got = plan.apply(batch(list(plan.file_fields), r=[{"x": 1, "y": 2}]))
    assert got.to_pylist() == [{"r": {"x": 2, "y": 1}}]
    added_again = [DataField(0, "r", row(DataField(12, "x", INT)))]
    plan = plan_evolution(old, added_again)
    got = plan.apply(batch(list(plan.file_fields), r=[{"x": 1}, None]))
    assert got.to_pylist() == [{"r": {"x": None}}, {"r": None}]


def test_a_row_of_which_nothing_is_left_keeps_its_nulls() -> None:
    old = [DataField(0, "r", row(DataField(1, "x", INT), DataField(2, "y", INT)))]
    new = [DataField(0, "r", row(DataField(3, "z", TEXT)))]
    plan = plan_evolution(old, new)
    got = plan.apply(batch(list(plan.file_fields), r=[{"x": 1}, None]))
    assert got.to_pylist() == [{"r": {"z": None}}, {"r": None}]


def test_rows_without_columns_of_the_file_are_null() -> None:
    plan = plan_evolution([DataField(0, "a", INT)], [])
    assert plan.file_fields == ()
    assert plan.identity
    only_new = plan_evolution([DataField(0, "a", INT)], [DataField(1, "b", INT)])
    empty = pa.RecordBatch.from_arrays([pa.nulls(3)], names=["x"]).select([])
    assert only_new.apply(empty).to_pylist() == [{"b": None}] * 3


def ts(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


CASES: list[tuple[str, str, list[Any], list[Any]]] = [
    ("INT", "TINYINT", [300, -129, 5, None], [44, 127, 5, None]),
    ("BIGINT", "INT", [2**31, -(2**40) - 7], [-(2**31), -7]),
    ("TINYINT", "BIGINT", [-5], [-5]),
    ("DOUBLE", "INT", [1.9, -1.9, 1e300, -INF, NAN, None], [1, -1, 2**31 - 1, -(2**31), 0, None]),
    ("DOUBLE", "BIGINT", [9.3e18, -9.3e18, 2.5], [2**63 - 1, -(2**63), 2]),
    ("FLOAT", "TINYINT", [300.5, 1e20], [44, -1]),
    ("INT", "DOUBLE", [7], [7.0]),
    ("DOUBLE", "FLOAT", [1e300, 0.5], [INF, 0.5]),
    ("INT", "DECIMAL(5, 2)", [123, 1000, -999, None], [Decimal("123.00"), None, Decimal("-999.00"), None]),
    ("BIGINT", "DECIMAL(38, 2)", [2**63 - 1], [Decimal(2**63 - 1).quantize(Decimal("0.01"))]),
    (
        "DECIMAL(10, 3)",
        "DECIMAL(5, 1)",
        [Decimal("1.250"), Decimal("-1.250"), Decimal("99999.000")],
        [Decimal("1.3"), Decimal("-1.3"), None],
    ),
    ("DECIMAL(38, 0)", "DECIMAL(38, 10)", [Decimal(10**37), Decimal(5)], [None, Decimal("5.0000000000")]),
    ("DECIMAL(4, 2)", "DECIMAL(3, 1)", [Decimal("99.99"), Decimal("99.94")], [None, Decimal("99.9")]),
    ("DECIMAL(10, 2)", "INT", [Decimal("-3.99"), Decimal("3.99")], [-3, 3]),
    ("DECIMAL(38, 0)", "BIGINT", [Decimal(2**64 + 5)], [5]),
    ("DECIMAL(10, 2)", "DOUBLE", [Decimal("0.10")], [0.1]),
    ("DOUBLE", "DECIMAL(5, 2)", [1.005, -2.675, 1e10, 0.1], [Decimal("1.01"), Decimal("-2.68"), None, Decimal("0.10")]),
    ("BOOLEAN", "INT", [True, False, None], [1, 0, None]),
    ("BOOLEAN", "DECIMAL(3, 1)", [True], [Decimal("1.0")]),
    ("INT", "BOOLEAN", [0, 2, None], [False, True, None]),
    ("DECIMAL(3, 1)", "BOOLEAN", [Decimal("0.0"), Decimal("0.1")], [False, True]),
    ("INT", "STRING", [-5, None], ["-5", None]),
    ("DOUBLE", "STRING", [1e10, 0.5, NAN, -0.0, -INF], ["1.0E10", "0.5", "NaN", "-0.0", "-Infinity"]),
    ("DECIMAL(10, 7)", "STRING", [Decimal("0.0000001")], ["0.0000001"]),
    ("DATE", "STRING", [dt.date(2024, 10, 4)], ["2024-10-04"]),
    ("TIMESTAMP(3)", "STRING", [ts("2024-10-04T01:02:03.500")], ["2024-10-04 01:02:03.500"]),
    ("BYTES", "STRING", [b"abc"], ["abc"]),
    ("STRING", "INT", ["12", "-7.9", " 5 ", None], [12, -7, 5, None]),
    ("STRING", "DECIMAL(5, 2)", ["1.005", "1e9", "-2.5"], [Decimal("1.01"), None, Decimal("-2.50")]),
    ("STRING", "DOUBLE", ["1.5", "NaN"], [1.5, NAN]),
    ("STRING", "BOOLEAN", ["true", "N"], [True, False]),
    ("STRING", "DATE", ["2024-10-04"], [dt.date(2024, 10, 4)]),
    ("STRING", "TIMESTAMP(3)", ["2024-10-04 01:02:03.123456"], [ts("2024-10-04T01:02:03.123")]),
    ("STRING", "BYTES", ["ab"], [b"ab"]),
    ("STRING", "VARCHAR(3)", ["日本語だ", "a"], ["日本語", "a"]),
    ("VARCHAR(3)", "CHAR(5)", ["ab"], ["ab   "]),
    ("VARCHAR(3)", "STRING", ["ab"], ["ab"]),
    ("BYTES", "VARBINARY(2)", [b"abc", b""], [b"ab", b""]),
    ("BYTES", "BINARY(2)", [b"abc", b"a"], [b"ab", b"a\0"]),
    (
        "TIMESTAMP(6)",
        "TIMESTAMP(3)",
        [ts("1969-12-31T23:59:59.999999"), ts("2024-01-01T00:00:00.123999")],
        [ts("1969-12-31T23:59:59.999"), ts("2024-01-01T00:00:00.123")],
    ),
    (
        "TIMESTAMP(3)",
        "TIMESTAMP(0)",
        [ts("2024-01-01T00:00:01.999"), ts("1969-12-31T23:59:58.500")],
        [ts("2024-01-01T00:00:01"), ts("1969-12-31T23:59:59")],
    ),
    (
        "TIMESTAMP(6)",
        "TIMESTAMP(4)",
        [ts("2024-01-01T00:00:00.123999"), ts("1969-12-31T23:59:59.999999")],
        [ts("2024-01-01T00:00:00.123900"), ts("1969-12-31T23:59:59.999900")],
    ),
    ("TIMESTAMP(3)", "TIMESTAMP(6)", [ts("9999-12-31T23:59:59.999")], [ts("9999-12-31T23:59:59.999")]),
    (
        "TIMESTAMP(6)",
        "DATE",
        [ts("1969-12-31T23:59:59.000001"), ts("2024-10-04T23:00:00"), ts("1969-12-30T00:00:00")],
        [dt.date(1970, 1, 1), dt.date(2024, 10, 4), dt.date(1969, 12, 30)],
    ),
    ("TIMESTAMP(3)", "TIME(3)", [ts("2024-10-04T01:02:03.004")], [dt.time(1, 2, 3, 4000)]),
    ("DATE", "TIMESTAMP(6)", [dt.date(2024, 10, 4), None], [ts("2024-10-04T00:00:00"), None]),
    (
        "TIMESTAMP(3)",
        "TIMESTAMP(3) WITH LOCAL TIME ZONE",
        [ts("2024-10-04T01:02:03")],
        [ts("2024-10-04T01:02:03+00:00")],
    ),
    ("BIGINT", "TIMESTAMP(3)", [60], [ts("1970-01-01T00:01:00")]),
    ("TIMESTAMP(3)", "BIGINT", [ts("1970-01-01T00:01:00.999")], [60]),
]


@pytest.mark.parametrize(("source", "target", "values", "want"), CASES, ids=[f"{c[0]}-{c[1]}" for c in CASES])
def test_casts_give_the_values_that_java_gives(source: str, target: str, values: list[Any], want: list[Any]) -> None:
    old, new = AtomicType(source), AtomicType(target)
    # A slice has an offset, which every cast must mind.
    array = pa.array([values[0], *values], to_arrow_type(old)).slice(1)
    got = cast_array(array, old, new)
    got.validate(full=True)
    assert got.type == to_arrow_type(new)
    assert repr(got.to_pylist()) == repr(pa.array(want, to_arrow_type(new)).to_pylist())


@pytest.mark.parametrize(
    ("text", "target"), [("abc", "INT"), ("1e5", "INT"), ("300", "TINYINT"), ("x", "DATE"), ("?", "BOOLEAN")]
)
def test_text_that_names_no_value_is_an_error(text: str, target: str) -> None:
    old, new = [DataField(0, "c", TEXT)], [DataField(0, "c", AtomicType(target))]
    with pytest.raises(InvalidInputError, match="'c' was STRING") as caught:
        plan_evolution(old, new).apply(batch(old, c=[text]))
    assert caught.value.column == "c"


def test_rows_lists_and_maps_become_text() -> None:
    inner = RowType(True, [DataField(1, "x", INT), DataField(2, "y", TEXT)])  # noqa: FBT003 - nullable
    pairs = MapType(True, TEXT, array_of(INT))  # noqa: FBT003
    old = [DataField(0, "r", inner), DataField(3, "a", array_of(inner)), DataField(4, "m", pairs)]
    new = [DataField(field.id, field.name, TEXT) for field in old]
    rows = [{"x": 1, "y": "x"}, None, {"x": None, "y": ""}]
    lists = [[{"x": 1, "y": "a"}, None], [], None]
    maps: list[Any] = [[("k", [7, None])], None, [("a", None), ("b", [])]]
    whole = batch(old, r=[rows[0], *rows], a=[lists[0], *lists], m=[maps[0], *maps])
    got = plan_evolution(old, new).apply(whole.slice(1))
    got.validate(full=True)
    assert got.to_pydict() == {
        "r": ["{1, x}", None, "{null, }"],
        "a": ["[{1, a}, null]", "[]", None],
        "m": ["{k -> [7, null]}", None, "{a -> null, b -> []}"],
    }


def test_impossible_changes_are_refused() -> None:
    for old, new in ((INT, array_of(INT)), (AtomicType("BOOLEAN"), AtomicType("DATE"))):
        fields = [DataField(0, "c", old)]
        with pytest.raises(UnsupportedError, match="'c'"):
            plan_evolution(fields, [DataField(0, "c", new)]).apply(batch(fields, c=[None]))


@settings(max_examples=examples(150), derandomize=True)
@given(st.data())
def test_every_change_that_a_schema_allows_can_be_read(data: st.DataObject) -> None:
    old, new = (AtomicType(data.draw(st.sampled_from(SCALARS))) for _ in range(2))
    if cast_between(old, new) is Cast.IMPOSSIBLE:
        return
    values = data.draw(st.lists(values_of(old), min_size=1, max_size=5))
    try:
        got = cast_array(to_array(values, old), old, new)
    except (InvalidInputError, pa.ArrowInvalid):  # text that names no value, times that do not fit
        return
    assert got.type == to_arrow_type(new)
    got.validate(full=True)
    assert all(not cell.is_valid for value, cell in zip(values, got, strict=True) if value is None)
    if new == TEXT and old.root not in {"CHAR", "VARCHAR"}:
        assert got.to_pylist() == [None if v is None else to_text(v, old) for v in values]  # type: ignore[arg-type]


def test_which_statistics_survive() -> None:
    safe = [("INT", "BIGINT"), ("TINYINT", "TINYINT"), ("STRING", "STRING"), ("DECIMAL(5, 2)", "DECIMAL(5, 2)")]
    unsafe = [
        ("BIGINT", "INT"),
        ("INT", "DOUBLE"),
        ("STRING", "INT"),
        ("TIMESTAMP(6)", "TIMESTAMP(3)"),
        ("DECIMAL(5, 2)", "DECIMAL(6, 2)"),
    ]
    assert all(stats_safe(AtomicType(a), AtomicType(b)) for a, b in safe)
    assert not any(stats_safe(AtomicType(a), AtomicType(b)) for a, b in unsafe)
    assert stats_safe(AtomicType("INT"), AtomicType("INT", nullable=False))
    assert not stats_safe(array_of(INT), array_of(INT))

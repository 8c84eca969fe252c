"""Every kind of input comes out exact or is refused with an error that names the column."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lakewright.errors import InvalidInputError, LakewrightError
from lakewright.spec.arrow_types import from_arrow_schema
from lakewright.spec.types import ArrayType, AtomicType, DataField, DataType, MapType, MultisetType, RowType
from lakewright.write.alignment import Aligner, align

D = Decimal
NAN = float("nan")
INF = float("inf")
NOON = dt.datetime(2026, 1, 2, 12, 30, 15, 123456)  # noqa: DTZ001 - a TIMESTAMP has no zone


def atomic(text: str) -> AtomicType:
    return AtomicType(text)


def row(**fields: DataType) -> RowType:
    return RowType(True, [DataField(10 + i, name, dtype) for i, (name, dtype) in enumerate(fields.items())])  # noqa: FBT003


def array_of(element: DataType) -> ArrayType:
    return ArrayType(True, element)  # noqa: FBT003


def map_of(key: DataType, value: DataType) -> MapType:
    return MapType(True, key, value)  # noqa: FBT003


def column(dtype: DataType, default: str | None = None) -> tuple[DataField, ...]:
    return (DataField(0, "c", dtype, None, default),)


def hostile_text() -> pa.Array:
    offsets = np.array([0, 1, 3], dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(b"a\xff\xfe")])


def hostile_decimal() -> pa.Array:
    number = (10**9).to_bytes(16, "little", signed=True)
    return pa.Array.from_buffers(pa.decimal128(5, 2), 1, [None, pa.py_buffer(number)])


def hostile_index() -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int32()), pa.array(["a"]), safe=False)


def hostile_list() -> pa.Array:
    offsets = pa.py_buffer(np.array([0, 9, 1], dtype=np.int32))
    return pa.Array.from_buffers(pa.list_(pa.int32()), 2, [None, offsets], children=[pa.array([1], pa.int32())])


BIG = 2**53
DECIMAL32 = pa.decimal32(5, 1) if hasattr(pa, "decimal32") else pa.decimal128(5, 1)  # Arrow 18 has none
# (id, type of the column, input, what comes out or None for "the same values")
EXACT: list[tuple[str, DataType, pa.Array, list[object] | None]] = [
    ("bool", atomic("BOOLEAN"), pa.array([True, None, False]), None),
    ("int8", atomic("TINYINT"), pa.array([-128, 127, None], pa.int8()), None),
    ("int32-to-bigint", atomic("BIGINT"), pa.array([1, None, -5], pa.int32()), None),
    ("int8-to-int", atomic("INT"), pa.array([1, -5], pa.int8()), None),
    ("int64-fits-int", atomic("INT"), pa.array([2**31 - 1, -(2**31), None]), None),
    ("int64-fits-tinyint", atomic("TINYINT"), pa.array([127, -128]), None),
    ("uint8-to-smallint", atomic("SMALLINT"), pa.array([255], pa.uint8()), None),
    ("uint16-to-int", atomic("INT"), pa.array([65535], pa.uint16()), None),
    ("uint32-to-bigint", atomic("BIGINT"), pa.array([2**32 - 1], pa.uint32()), None),
    ("uint64-fits-bigint", atomic("BIGINT"), pa.array([2**63 - 1, None], pa.uint64()), None),
    ("float-integral-to-int", atomic("INT"), pa.array([1.0, -3.0, None]), [1, -3, None]),
    ("float-edge-to-bigint", atomic("BIGINT"), pa.array([-(2.0**63)]), [-(2**63)]),
    ("half-to-int", atomic("INT"), pa.array([np.float16(2.0)], pa.float16()), [2]),
    ("decimal-to-int", atomic("INT"), pa.array([D("12.00")], pa.decimal128(8, 2)), [12]),
    ("float-to-double", atomic("DOUBLE"), pa.array([1.5, NAN, -0.0], pa.float32()), None),
    ("half-to-float", atomic("FLOAT"), pa.array([np.float16(0.5)], pa.float16()), [0.5]),
    ("double-exact-to-float", atomic("FLOAT"), pa.array([1.5, -0.0, NAN, INF, -INF, None]), None),
    ("int-to-double", atomic("DOUBLE"), pa.array([1, None, -7]), [1.0, None, -7.0]),
    ("int-large-exact-double", atomic("DOUBLE"), pa.array([BIG, BIG * 4, -(2**63)]), [BIG, BIG * 4, -(2**63)]),
    ("uint64-exact-double", atomic("DOUBLE"), pa.array([2**63], pa.uint64()), [2.0**63]),
    ("int-exact-float", atomic("FLOAT"), pa.array([2**24, 3], pa.int32()), [2.0**24, 3.0]),
    ("decimal-wider", atomic("DECIMAL(20, 4)"), pa.array([D("1.25")], pa.decimal128(5, 2)), [D("1.2500")]),
    ("decimal-narrower-fits", atomic("DECIMAL(4, 1)"), pa.array([D("1.50")], pa.decimal128(10, 2)), [D("1.5")]),
    ("decimal256", atomic("DECIMAL(38, 0)"), pa.array([D(10**37)], pa.decimal256(50, 0)), None),
    ("decimal32", atomic("DECIMAL(10, 2)"), pa.array([D("1.5")], DECIMAL32), [D("1.50")]),
    ("int-to-decimal", atomic("DECIMAL(10, 2)"), pa.array([5, None]), [D("5.00"), None]),
    ("int-to-full-decimal", atomic("DECIMAL(38, 30)"), pa.array([5], pa.int8()), [D("5." + "0" * 30)]),
    ("uint64-to-decimal", atomic("DECIMAL(20, 0)"), pa.array([2**64 - 1], pa.uint64()), [D(2**64 - 1)]),
    ("string", atomic("STRING"), pa.array(["a", None, "ü", ""]), None),
    ("large-string", atomic("STRING"), pa.array(["a", None], pa.large_string()), None),
    ("string-view", atomic("STRING"), pa.array(["a", None, "long enough to be out of line"], pa.string_view()), None),
    ("dictionary", atomic("STRING"), pa.array(["a", None, "a"]).dictionary_encode(), None),
    ("dictionary-of-ints", atomic("BIGINT"), pa.array([5, 6, 5], pa.int32()).dictionary_encode(), None),
    ("run-ends", atomic("INT"), pa.RunEndEncodedArray.from_arrays([2, 3], [7, 8]), [7, 7, 8]),
    ("varchar-fits", atomic("VARCHAR(3)"), pa.array(["abc", "äöü", None]), None),
    ("varchar-emoji", atomic("VARCHAR(1)"), pa.array(["😀"]), None),
    ("char-fits", atomic("CHAR(2)"), pa.array(["ab", "a"]), None),
    ("binary", atomic("BYTES"), pa.array([b"\x00\xff", None]), None),
    ("large-binary", atomic("BYTES"), pa.array([b"ab"], pa.large_binary()), None),
    ("binary-view", atomic("BYTES"), pa.array([b"ab", b"x" * 40], pa.binary_view()), None),
    ("fixed-binary", atomic("BINARY(2)"), pa.array([b"ab", None], pa.binary(2)), None),
    ("varbinary-fits", atomic("VARBINARY(3)"), pa.array([b"abc", b""]), None),
    ("uuid", atomic("BINARY(16)"), pa.array([b"0123456789abcdef"], pa.uuid()), [b"0123456789abcdef"]),
    ("date32", atomic("DATE"), pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31)]), None),
    ("date64", atomic("DATE"), pa.array([dt.date(2026, 1, 1), None], pa.date64()), None),
    (
        "midnight-to-date",
        atomic("DATE"),
        pa.array([20_454 * 86_400_000_000], pa.timestamp("us")),
        [dt.date(2026, 1, 1)],
    ),
    ("time32s", atomic("TIME(3)"), pa.array([1], pa.time32("s")), [dt.time(0, 0, 1)]),
    ("time64us-exact", atomic("TIME(3)"), pa.array([1000, None], pa.time64("us")), [dt.time(0, 0, 0, 1000), None]),
    ("time64ns-exact", atomic("TIME(0)"), pa.array([10**9], pa.time64("ns")), [dt.time(0, 0, 1)]),
    ("timestamp-coarser", atomic("TIMESTAMP(6)"), pa.array([1, None], pa.timestamp("s")), None),
    ("timestamp-ms-to-ns", atomic("TIMESTAMP(9)"), pa.array([NOON.replace(microsecond=0)], pa.timestamp("ms")), None),
    (
        "timestamp-finer-exact",
        atomic("TIMESTAMP(3)"),
        pa.array([NOON.replace(microsecond=5000)], pa.timestamp("us")),
        None,
    ),
    ("timestamp-old", atomic("TIMESTAMP(3)"), pa.array([dt.datetime(1, 1, 1)], pa.timestamp("us")), None),  # noqa: DTZ001
    ("ltz-utc", atomic("TIMESTAMP_LTZ(6)"), pa.array([NOON], pa.timestamp("us", "UTC")), None),
    (
        "ltz-other-zone",
        atomic("TIMESTAMP_LTZ(3)"),
        pa.array([0, 3_600_000], pa.timestamp("ms", "+05:30")),
        [dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(1970, 1, 1, 1, tzinfo=dt.UTC)],
    ),
    ("null-type", atomic("DECIMAL(5, 2)"), pa.nulls(2), [None, None]),
    ("null-type-to-row", row(a=atomic("INT")), pa.nulls(1), [None]),
    ("list", array_of(atomic("INT")), pa.array([[1, None], None, []], pa.list_(pa.int32())), None),
    ("list-wider", array_of(atomic("BIGINT")), pa.array([[1], None, []], pa.list_(pa.int8())), None),
    ("list-large", array_of(atomic("INT")), pa.array([[1], None], pa.large_list(pa.int32())), None),
    ("list-fixed", array_of(atomic("INT")), pa.array([[1, 2], None], pa.list_(pa.int32(), 2)), None),
    ("list-view", array_of(atomic("INT")), pa.array([[1, 2], None, [3]], pa.list_view(pa.int32())), None),
    ("list-sliced", array_of(atomic("INT")), pa.array([[9], [1], None, [2, 3]], pa.list_(pa.int64())).slice(1), None),
    ("list-of-views", array_of(atomic("STRING")), pa.array([["a", None]], pa.list_(pa.string_view())), None),
    (
        "list-of-rows-by-name",
        array_of(row(a=atomic("INT"), b=atomic("STRING"))),
        pa.array([[{"b": "x", "a": 1}], None], pa.list_(pa.struct({"b": pa.string(), "a": pa.int64()}))),
        [[{"a": 1, "b": "x"}], None],
    ),
    (
        "map",
        map_of(atomic("STRING"), atomic("INT")),
        pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int32())),
        None,
    ),
    (
        "map-wider",
        map_of(atomic("STRING"), atomic("BIGINT")),
        pa.array([[("z", 9)], [("a", 1), ("b", None)], None], pa.map_(pa.large_string(), pa.int8())).slice(1),
        None,
    ),
    (
        "multiset",
        MultisetType(True, atomic("STRING")),  # noqa: FBT003
        pa.array([[("a", 2)]], pa.map_(pa.string(), pa.int64())),
        None,
    ),
    ("row", row(a=atomic("INT")), pa.array([{"a": 1}, None, {"a": None}], pa.struct({"a": pa.int32()})), None),
    (
        "row-reordered-filled",
        row(a=atomic("BIGINT"), b=atomic("STRING"), c=atomic("DATE")),
        pa.array([{"b": "x", "a": 1}, None], pa.struct({"b": pa.string(), "a": pa.int32()})),
        [{"a": 1, "b": "x", "c": None}, None],
    ),
    (
        "row-not-null-under-null",
        row(a=AtomicType("INT", nullable=False)),
        pa.array([{"a": 1}, None], pa.struct({"a": pa.int32()})),
        None,
    ),
    (
        "row-deep",
        row(a=row(b=array_of(row(c=atomic("DOUBLE"))))),
        pa.array([{"a": {"b": [{"c": 1}]}}]),
        [{"a": {"b": [{"c": 1.0}]}}],
    ),
    (
        "row-sliced",
        row(a=atomic("INT")),
        pa.array([{"a": 0}, {"a": 1}, None], pa.struct({"a": pa.int64()})).slice(1),
        None,
    ),
]


@pytest.mark.parametrize(("dtype", "given", "wanted"), [case[1:] for case in EXACT], ids=[case[0] for case in EXACT])
def test_exact_input_comes_out_unchanged(dtype: DataType, given: pa.Array, wanted: list[object] | None) -> None:
    fields = column(dtype)
    out = align(pa.table({"c": given}), fields, table="db.t")
    out.validate(full=True)
    assert out.schema.equals(Aligner(fields, table="db.t").schema)
    expected = given.to_pylist() if wanted is None else wanted
    assert repr(_pairs(out["c"].to_pylist())) == repr(_pairs(expected))


def _pairs(values: list[object]) -> list[object]:
    """Numbers compare by value (the schema tells 5 from 5.0), times by their ISO text."""
    return [_plain(value) for value in values]


def _plain(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value.isoformat() if isinstance(value, dt.datetime) else value


# (id, type of the column, input, the offending row or None where the type itself is refused)
REFUSED: list[tuple[str, DataType, Callable[[], pa.Array], int | None]] = [
    ("int64-over-int", atomic("INT"), lambda: pa.array([1, 2, 2**31]), 2),
    ("int64-under-tinyint", atomic("TINYINT"), lambda: pa.array([-129]), 0),
    ("uint64-over-bigint", atomic("BIGINT"), lambda: pa.array([1, 2**63], pa.uint64()), 1),
    ("negative-none-uint8", atomic("TINYINT"), lambda: pa.array([200], pa.uint8()), 0),
    ("float-fraction", atomic("INT"), lambda: pa.array([1.0, 1.5]), 1),
    ("float-nan-to-int", atomic("INT"), lambda: pa.array([NAN]), 0),
    ("float-inf-to-int", atomic("BIGINT"), lambda: pa.array([1.0, INF]), 1),
    ("float-edge", atomic("BIGINT"), lambda: pa.array([2.0**63]), 0),
    ("decimal-fraction-to-int", atomic("INT"), lambda: pa.array([D("1.5")]), 0),
    ("bool-to-int", atomic("INT"), lambda: pa.array([True]), None),
    ("int-to-bool", atomic("BOOLEAN"), lambda: pa.array([1]), None),
    ("string-to-int", atomic("INT"), lambda: pa.array(["1"]), None),
    ("int-to-string", atomic("STRING"), lambda: pa.array([1]), None),
    ("double-to-float", atomic("FLOAT"), lambda: pa.array([0.5, 0.1]), 1),
    ("double-over-float", atomic("FLOAT"), lambda: pa.array([1e300]), 0),
    ("int-inexact-double", atomic("DOUBLE"), lambda: pa.array([1, BIG + 1]), 1),
    ("int-max-double", atomic("DOUBLE"), lambda: pa.array([2**63 - 1]), 0),
    ("uint-max-double", atomic("DOUBLE"), lambda: pa.array([2**64 - 1], pa.uint64()), 0),
    ("int-inexact-float", atomic("FLOAT"), lambda: pa.array([2**24 + 1]), 0),
    ("decimal-to-double", atomic("DOUBLE"), lambda: pa.array([D("0.1")]), None),
    ("float-to-decimal", atomic("DECIMAL(10, 2)"), lambda: pa.array([1.5]), None),
    ("decimal-digits", atomic("DECIMAL(4, 2)"), lambda: pa.array([D("1.25"), D("123.45")]), 1),
    ("decimal-scale", atomic("DECIMAL(10, 1)"), lambda: pa.array([D("1.25")]), 0),
    ("int-over-decimal", atomic("DECIMAL(4, 2)"), lambda: pa.array([99, 100]), 1),
    ("decimal-hostile", atomic("DECIMAL(5, 2)"), hostile_decimal, 0),
    ("bytes-to-string", atomic("STRING"), lambda: pa.array([b"a"]), None),
    ("string-to-bytes", atomic("BYTES"), lambda: pa.array(["a"]), None),
    ("string-bad-utf8", atomic("STRING"), hostile_text, 1),
    ("varchar-long", atomic("VARCHAR(3)"), lambda: pa.array(["abc", "abcd"]), 1),
    ("varchar-long-accents", atomic("VARCHAR(2)"), lambda: pa.array(["äöü"]), 0),
    ("char-long", atomic("CHAR(1)"), lambda: pa.array([None, "ab"]), 1),
    ("binary-long", atomic("BINARY(2)"), lambda: pa.array([b"abc"]), 0),
    ("varbinary-long", atomic("VARBINARY(2)"), lambda: pa.array([b"ab", b"abc"]), 1),
    ("uuid-to-short-binary", atomic("BINARY(4)"), lambda: pa.array([b"0123456789abcdef"], pa.uuid()), 0),
    ("dictionary-bad-index", atomic("STRING"), hostile_index, None),
    ("date64-part", atomic("DATE"), lambda: pa.array([86_400_000, 1], pa.int64()).view(pa.date64()), 1),
    ("timestamp-part-to-date", atomic("DATE"), lambda: pa.array([NOON]), 0),
    ("zoned-to-date", atomic("DATE"), lambda: pa.array([0], pa.timestamp("s", "UTC")), None),
    ("date-to-timestamp", atomic("TIMESTAMP(6)"), lambda: pa.array([dt.date(2026, 1, 1)]), None),
    ("int-to-date", atomic("DATE"), lambda: pa.array([1], pa.int32()), None),
    ("time-finer", atomic("TIME(3)"), lambda: pa.array([1000, 1001], pa.time64("us")), 1),
    ("time-outside", atomic("TIME(3)"), lambda: pa.array([86_400_000], pa.int32()).view(pa.time32("ms")), 0),
    ("time-negative", atomic("TIME(3)"), lambda: pa.array([-1], pa.int32()).view(pa.time32("ms")), 0),
    ("timestamp-finer", atomic("TIMESTAMP(3)"), lambda: pa.array([NOON], pa.timestamp("us")), 0),
    ("timestamp-overflow", atomic("TIMESTAMP(9)"), lambda: pa.array([2**62], pa.timestamp("ms")), 0),
    ("naive-to-ltz", atomic("TIMESTAMP_LTZ(6)"), lambda: pa.array([NOON]), None),
    ("zoned-to-timestamp", atomic("TIMESTAMP(6)"), lambda: pa.array([NOON], pa.timestamp("us", "UTC")), None),
    ("duration", atomic("BIGINT"), lambda: pa.array([1], pa.duration("s")), None),
    ("struct-to-int", atomic("INT"), lambda: pa.array([{"a": 1}]), None),
    ("null-in-not-null", AtomicType("INT", nullable=False), lambda: pa.array([1, 2, None], pa.int32()), 2),
    ("null-type-in-not-null", AtomicType("INT", nullable=False), lambda: pa.nulls(2), 0),
    (
        "dictionary-null-not-null",
        AtomicType("STRING", nullable=False),
        lambda: pa.array(["a", None]).dictionary_encode(),
        1,
    ),
    ("list-hostile", array_of(atomic("INT")), hostile_list, 0),
    ("list-element-null", array_of(AtomicType("INT", nullable=False)), lambda: pa.array([[1], [None]]), 1),
    ("list-element-overflow", array_of(atomic("TINYINT")), lambda: pa.array([[1], None, [300]]), 2),
    ("list-to-int", atomic("INT"), lambda: pa.array([[1]]), None),
    ("int-to-list", array_of(atomic("INT")), lambda: pa.array([1]), None),
    ("list-to-map", map_of(atomic("STRING"), atomic("INT")), lambda: pa.array([[1]]), None),
    (
        "map-value-null",
        map_of(atomic("STRING"), AtomicType("INT", nullable=False)),
        lambda: pa.array([[("a", 1)], [("a", None)]], pa.map_(pa.string(), pa.int32())),
        1,
    ),
    ("row-extra", row(a=atomic("INT")), lambda: pa.array([{"a": 1, "b": 2}]), None),
    ("row-missing-not-null", row(a=AtomicType("INT", nullable=False)), lambda: pa.array([{}], pa.struct([])), None),
    (
        "row-field-null",
        row(a=AtomicType("INT", nullable=False)),
        lambda: pa.array([None, {"a": None}], pa.struct({"a": pa.int32()})),
        1,
    ),
    ("row-field-long", row(a=atomic("VARCHAR(1)")), lambda: pa.array([{"a": "x"}, {"a": "xy"}]), 1),
    ("row-field-type", row(a=atomic("INT")), lambda: pa.array([{"a": "x"}]), None),
    ("row-null-not-null", RowType(False, [DataField(1, "a", atomic("INT"))]), lambda: pa.array([{"a": 1}, None]), 1),  # noqa: FBT003
    (
        "row-twice",
        row(a=atomic("INT")),
        lambda: pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]),
        None,
    ),
    ("deep-null", row(a=array_of(AtomicType("STRING", nullable=False))), lambda: pa.array([{"a": ["x", None]}]), 0),
]


@pytest.mark.parametrize(
    ("dtype", "make", "bad_row"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_what_cannot_be_kept_exactly_is_refused(
    dtype: DataType, make: Callable[[], pa.Array], bad_row: int | None
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        align(pa.table({"c": make()}), column(dtype), table="db.t", first_row=0)
    assert caught.value.column == "c"
    assert "db.t" in str(caught.value)
    assert "'c'" in str(caught.value)
    if bad_row is not None:
        assert caught.value.row == bad_row, str(caught.value)
        assert f"row {bad_row}" in str(caught.value)


PEOPLE = (
    DataField(0, "id", AtomicType("BIGINT", nullable=False)),
    DataField(1, "name", atomic("STRING")),
    DataField(2, "city", atomic("STRING"), None, "Ulm"),
    DataField(3, "level", AtomicType("INT", nullable=False), None, "3"),
)


def test_columns_are_matched_by_name() -> None:
    data = pa.table({"level": [1], "city": ["Köln"], "id": pa.array([7], pa.int32()), "name": ["x"]})
    out = align(data, PEOPLE, table="t")
    assert out.to_pylist() == [{"id": 7, "name": "x", "city": "Köln", "level": 1}]


def test_missing_columns_take_their_default_or_null() -> None:
    out = align(pa.record_batch({"id": [1, 2]}), PEOPLE, table="t")
    assert out.to_pylist() == [{"id": i, "name": None, "city": "Ulm", "level": 3} for i in (1, 2)]


def test_a_null_cell_takes_the_default() -> None:
    out = align(pa.table({"id": [1, 2], "city": ["a", None]}), PEOPLE, table="t")
    assert out["city"].to_pylist() == ["a", "Ulm"]


def test_a_null_cell_of_a_not_null_column_is_refused_even_with_a_default() -> None:
    with pytest.raises(InvalidInputError, match="level"):
        align(pa.table({"id": [1], "level": pa.array([None], pa.int32())}), PEOPLE, table="t")


@pytest.mark.parametrize(
    ("data", "column_name", "words"),
    [
        (pa.table({"name": ["x"]}), "id", "lacks"),
        (pa.table({"id": [1], "nmae": ["x"]}), "nmae", "drop it"),
        (pa.table({"id": [1], "Name": ["x"]}), "Name", "did you mean 'name'"),
        (pa.table([pa.array([1]), pa.array([2])], names=["id", "id"]), "id", "two columns"),
        (pa.table({"id": [1], "": ["x"]}), "", "no column ''"),
        (pa.table({"id": [1], "_ROW_ID": [1]}), "_ROW_ID", "no column"),
        (pa.table({"id": [1], "na\0me": [1]}), "na\0me", "no column"),
    ],
)
def test_wrong_sets_of_columns_are_named(data: pa.Table, column_name: str, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words) as caught:
        align(data, PEOPLE, table="t")
    assert caught.value.column == column_name


def test_a_field_in_another_case_is_suggested() -> None:
    inner = RowType(True, [DataField(2, "a", AtomicType("INT"))])  # noqa: FBT003 - as everywhere
    fields = [DataField(0, "d", ArrayType(True, inner))]  # noqa: FBT003
    with pytest.raises(InvalidInputError, match=r"did you mean 'd\.element\.a'\? names are case sensitive"):
        align(pa.table({"d": [[{"A": 1}]]}), fields, table="t")


def test_odd_names_are_only_names() -> None:
    names = ["a.b", "ü", "select", "a b", "ROW", "x" * 300, "a/../b", "'"]
    fields = tuple(DataField(i, name, atomic("INT")) for i, name in enumerate(names))
    out = align(pa.table({name: pa.array([1], pa.int32()) for name in reversed(names)}), fields, table="t")
    assert out.column_names == names


def test_write_cols_limit_what_the_input_may_bring() -> None:
    out = align(pa.table({"id": [1]}), PEOPLE, table="t", write_cols=["id", "name"])
    assert out.column_names == ["id", "name", "city", "level"]
    with pytest.raises(InvalidInputError, match="city"):
        align(pa.table({"id": [1], "city": ["x"]}), PEOPLE, table="t", write_cols=["id", "name"])


def test_a_default_that_does_not_fit_its_column_is_named() -> None:
    with pytest.raises(LakewrightError, match="'c'"):
        align(pa.table({"c": pa.nulls(1)}), column(atomic("INT"), "seven"), table="t")


def test_rows_are_counted_over_chunks_and_from_the_first_row() -> None:
    chunks = pa.chunked_array([[1, 2], [3], [4, 2**40]])
    with pytest.raises(InvalidInputError) as caught:
        align(pa.table({"c": chunks}), column(atomic("INT")), table="t", first_row=100)
    assert caught.value.row == 104
    assert str(2**40) in str(caught.value)


def test_long_and_unprintable_values_do_not_flood_the_message() -> None:
    with pytest.raises(InvalidInputError) as caught:
        align(pa.table({"c": ["x" * 10_000]}), column(atomic("VARCHAR(5)")), table="t")
    assert len(str(caught.value)) < 400


def test_empty_input_keeps_the_schema() -> None:
    out = align(pa.table({"c": pa.array([], pa.int64())}), column(atomic("INT")), table="t")
    assert out.num_rows == 0
    assert out.schema.field("c").type == pa.int32()


def test_matching_input_is_not_copied_and_costs_little() -> None:
    fields = tuple(DataField(i, f"c{i}", atomic("BIGINT")) for i in range(10))
    batch = pa.record_batch({f.name: pa.array(np.arange(1000)) for f in fields})
    aligner = Aligner(fields, table="t")
    out = aligner.align(batch)
    for name in batch.schema.names:
        assert out[name].chunk(0).buffers()[1].address == batch.column(name).buffers()[1].address
    best = min(_seconds(lambda: aligner.align(batch)) for _ in range(50))
    assert best < 200e-6  # about 20 microseconds on a calm machine


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def test_one_aligner_follows_a_changing_input_schema() -> None:
    aligner = Aligner(column(atomic("BIGINT")), table="t")
    for data in (pa.table({"c": pa.array([1], pa.int8())}), pa.table({"c": pa.array([2], pa.uint32())})):
        assert aligner.align(data)["c"].type == pa.int64()


def test_fields_of_null_rows_hold_nothing_that_a_writer_would_refuse() -> None:
    """Others, Spark among them, leave nulls in the NOT NULL fields of a row that is null itself."""
    inner = pa.struct([pa.field("i", pa.int32(), nullable=False)])
    types = {
        "x": pa.int32(),
        "s": pa.string(),
        "l": pa.list_(pa.int32()),
        "m": pa.map_(pa.string(), pa.int8()),
        "r": inner,
    }
    fields = [pa.field(name, dtype, nullable=False) for name, dtype in types.items()]
    whole = {"x": 1, "s": "a", "l": [1, None], "m": [("k", 1)], "r": {"i": 1}}
    rows = [whole, None, whole]
    children = [pa.array([one and one[field.name] for one in rows], field.type) for field in fields]
    array = pa.StructArray.from_arrays(children, fields=fields, mask=pa.array([one is None for one in rows]))
    columns = from_arrow_schema(pa.schema([("row", array.type)]))
    for part in (array, array.slice(1)):
        out = align(pa.table({"row": part}), columns, table="d.t").column("row").combine_chunks()
        assert out.to_pylist() == part.to_pylist()
        assert [out.field(at).null_count for at in range(len(fields))] == [0] * len(fields)
    with pytest.raises(InvalidInputError, match="of row 1: a null in the field 'x'"):
        align(pa.table({"row": pa.StructArray.from_arrays(children, fields=fields)}), columns, table="d.t")

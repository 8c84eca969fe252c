"""Rows of every type: nulls, extremes, unicode, nested; the same rows for every peer that is asked to read them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.types import ArrayType, AtomicType, DataField, DataType, MapType, MultisetType, RowType

NANOSECONDS = ("TIMESTAMP(9)", "TIMESTAMP(9) WITH LOCAL TIME ZONE")  # which Avro cannot hold
_LONG_TEXT = "a string that is rather longer than sixteen characters \N{ROCKET}"


def _scalars() -> dict[str, list[Any]]:
    moment = dt.datetime(2024, 5, 6, 7, 8, 9, 123456)  # noqa: DTZ001 - a local timestamp
    utc = moment.replace(tzinfo=dt.UTC)
    early = dt.datetime(1969, 12, 31, 23, 59, 58)  # noqa: DTZ001
    nanos = [1_714_979_289_123_456_789, -2_000_000_000]  # since 1970: a datetime has no room for them
    return {
        "BOOLEAN": [True, False],
        "TINYINT": [127, -128],
        "SMALLINT": [32767, -32768],
        "INT": [2**31 - 1, -(2**31)],
        "BIGINT": [2**63 - 1, -(2**63)],
        "FLOAT": [1.5, -3.4028234663852886e38],
        "DOUBLE": [3.14, -1.0e10],
        "DECIMAL(5, 2)": [Decimal("999.99"), Decimal("-0.01")],
        "DECIMAL(18, 6)": [Decimal("999999999999.999999"), Decimal("-1.500000")],
        "DECIMAL(38, 10)": [Decimal("9999999999999999999999999999.9999999999"), Decimal("-12345.6789012345")],
        "CHAR(6)": ["abcdef", "xyz123"],
        "VARCHAR(20)": ["ÿ€😀 end", ""],
        "STRING": [_LONG_TEXT, "日本語"],
        "BINARY(4)": [b"\xff\x00\x10\x7f", b"\x00\x00\x00\x00"],
        "VARBINARY(12)": [b"\xff" * 12, b""],
        "BYTES": [b"\x00\xff\x10", b"0123456789"],
        "DATE": [dt.date(9999, 12, 31), dt.date(1970, 1, 1)],
        "TIME(3)": [dt.time(23, 59, 59, 999000), dt.time(1, 2, 3, 4000)],
        "TIMESTAMP(3)": [moment.replace(microsecond=123000), early],
        "TIMESTAMP(6)": [moment, dt.datetime(1969, 6, 30, 23, 59, 59, 999999)],  # noqa: DTZ001
        "TIMESTAMP(9)": nanos,
        "TIMESTAMP(3) WITH LOCAL TIME ZONE": [utc.replace(microsecond=123000), early.replace(tzinfo=dt.UTC)],
        "TIMESTAMP(6) WITH LOCAL TIME ZONE": [utc, early.replace(tzinfo=dt.UTC)],
        "TIMESTAMP(9) WITH LOCAL TIME ZONE": nanos,
    }


def scalar_fields(skip: Sequence[str] = ()) -> list[DataField]:
    """Return one nullable column per scalar type, named after it, behind an id."""
    types = [AtomicType("INT", nullable=False), *(AtomicType(text) for text in _scalars() if text not in skip)]
    return [DataField(n, "id" if n == 0 else f"c{n}", dtype) for n, dtype in enumerate(types)]


def scalar_rows(fields: Sequence[DataField], file_format: str = "parquet") -> pa.Table:
    """Return four rows for the scalar columns: all null, both samples, and a mixture."""
    samples = _scalars()
    if file_format == "orc":  # which holds no fraction of a second before 1970 that everybody reads
        samples["TIMESTAMP(6)"][1] = samples["TIMESTAMP(6)"][1].replace(microsecond=0)
    columns: list[list[Any]] = [[1, 2, 3, 4]]
    for number, field in enumerate(fields[1:]):
        first, second = samples[str(field.type)]
        columns.append([None, first, second, first if number % 2 else None])
    schema = to_arrow_schema(fields)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def nested_fields(*, multiset: bool = False) -> list[DataField]:
    """Return columns of arrays, maps, rows and deeper nesting."""
    text, number = AtomicType("STRING"), AtomicType("INT")
    row = RowType(True, [DataField(101, "x", number), DataField(102, "y", text)])  # noqa: FBT003
    deep = RowType(True, [DataField(103, "m", MapType(True, text, ArrayType(True, AtomicType("BIGINT"))))])  # noqa: FBT003
    types: list[DataType] = [
        AtomicType("INT", nullable=False),
        ArrayType(True, number),  # noqa: FBT003
        ArrayType(True, text),  # noqa: FBT003
        MapType(True, text, number),  # noqa: FBT003
        row,
        ArrayType(True, row),  # noqa: FBT003
        ArrayType(True, deep),  # noqa: FBT003
    ]
    if multiset:
        types.append(MultisetType(True, text))  # noqa: FBT003
    return [DataField(n, "id" if n == 0 else f"n{n}", dtype) for n, dtype in enumerate(types)]


def nested_rows(fields: Sequence[DataField]) -> pa.Table:
    """Return rows with nulls and empties at every depth."""
    columns: list[list[Any]] = [
        [1, 2, 3, 4],
        [None, [], [1, None, 3], [2**31 - 1]],
        [None, [], ["a", None, _LONG_TEXT], ["日本語"]],
        [None, [], [("a", 1), ("b", None)], [("long key, longer than seven", -1)]],
        [None, {"x": None, "y": None}, {"x": 1, "y": "one"}, {"x": -1, "y": ""}],
        [None, [], [{"x": 1, "y": "one"}, None, {"x": None, "y": "two"}], [{"x": 7, "y": None}]],
        [None, [], [{"m": [("k", [1, None, 2**63 - 1])]}, {"m": None}, None], [{"m": []}]],
        [None, [], [("a", 1), ("b", 2)], [("日本語", 3)]],
    ]
    schema = to_arrow_schema(fields)
    arrays = [pa.array(c, f.type) for c, f in zip(columns[: len(fields)], schema, strict=True)]
    return pa.table(arrays, schema=schema)

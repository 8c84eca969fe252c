"""Bounds of columns: those that the encoder tells are those that a second look at the values finds."""

from __future__ import annotations

import io
import math
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.formats.file_format import StatsCollector, WriteOptions, WrittenFile
from lakewright.formats.parquet_writer import ParquetFileWriter
from lakewright.spec.arrow_types import to_arrow_schema, to_arrow_type
from lakewright.spec.column_stats import COUNTS, FULL, StatsMode, parse_stats_mode
from lakewright.spec.types import AtomicType, DataField, DataType, RowType, parse_type
from support.effort import examples

FIELDS = (DataField(0, "t", AtomicType("STRING")), DataField(1, "b", AtomicType("BYTES")))
TEXT = st.text(max_size=6) | st.sampled_from(["", "é", "\U0001f600", "\U0010ffff" * 20, "x" * 5000, "y" * 1024])
ROWS = st.lists(
    st.tuples(st.none() | TEXT, st.none() | st.binary(max_size=5) | st.just(b"\xff" * 5000)), min_size=1, max_size=12
)


class _Output(io.BytesIO):
    def discard(self) -> None:
        """Do nothing: it is memory."""


def _write(tables: list[pa.Table], mode: StatsMode, row_group_bytes: int = 1 << 27) -> WrittenFile:
    options = WriteOptions(stats=(mode, mode), row_group_bytes=row_group_bytes)
    writer = ParquetFileWriter(_Output(), FIELDS, options)
    for table in tables:
        writer.write(table)
    return writer.close()


def _table(rows: list[tuple[str | None, bytes | None]]) -> pa.Table:
    texts, binaries = zip(*rows, strict=True)
    return pa.table({"t": pa.array(texts, pa.string()), "b": pa.array(binaries, pa.binary())})


@settings(max_examples=examples(50))
@given(st.lists(ROWS, min_size=1, max_size=4), st.sampled_from(["full", "truncate(3)", "counts", "none"]))
def test_the_encoder_s_bounds_are_the_computed_ones(
    calls: list[list[tuple[str | None, bytes | None]]], text: str
) -> None:
    mode = parse_stats_mode(text)
    tables = [_table(rows) for rows in calls]
    expected = StatsCollector(FIELDS, (mode, mode))
    for table in tables:
        expected.add(table)
    assert _write(tables, mode).stats == expected.result()
    assert _write(tables, mode, row_group_bytes=16).stats == expected.result()


def test_bounds_that_the_encoder_leaves_out_are_computed() -> None:
    long = "x" * 5000
    stats = _write([_table([("a", b"a")]), _table([(long, b"b"), (None, None)])], FULL).stats
    assert [(s.min, s.max, s.null_count) for s in stats if s is not None] == [("a", long, 1), (b"a", b"b", 1)]


NUMBERS = {
    "TINYINT": st.integers(-(2**7), 2**7 - 1),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "DATE": st.integers(-700_000, 2_900_000),
    "FLOAT": st.floats(width=32),
    "DOUBLE": st.floats(),
    "TIMESTAMP(6)": st.integers(-(10**12), 10**12),
    "DECIMAL(9, 2)": st.decimals(-9_999_999, 9_999_999, places=2),
    "BOOLEAN": st.booleans(),
}


@settings(max_examples=examples(60))
@given(st.data(), st.sampled_from(sorted(NUMBERS)), st.integers(1, 3))
def test_the_bounds_of_numbers_are_the_computed_ones(data: st.DataObject, text: str, calls: int) -> None:
    dtype = parse_type(text)
    field = DataField(0, "n", dtype)
    expected = StatsCollector([field], (FULL,))
    writer = ParquetFileWriter(_Output(), [field], WriteOptions(stats=(FULL,), row_group_bytes=40))
    for _ in range(calls):
        values = data.draw(st.lists(st.none() | NUMBERS[text], min_size=1, max_size=20))
        table = pa.table({"n": pa.array(values, to_arrow_type(dtype))})
        expected.add(table)
        writer.write(table)
    assert repr(writer.close().stats) == repr(expected.result())  # -0.0 equals 0.0


def test_counts_stay_counts() -> None:
    stats = _write([_table([("a", b"a"), (None, b"b")])], COUNTS).stats
    assert [(s.min, s.max, s.null_count) for s in stats if s is not None] == [(None, None, 1), (None, None, 0)]


INT, STRING = AtomicType("INT"), AtomicType("STRING")


def row_of(*types: DataType) -> RowType:
    return RowType(nullable=True, fields=[DataField(100 + n, f"f{n}", dtype) for n, dtype in enumerate(types)])


NESTED: list[tuple[DataType, object]] = [
    (parse_type({"type": "ARRAY", "element": "INT"}), [7, 9]),
    (parse_type({"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}), [("m", 3)]),
    (row_of(INT, STRING, parse_type({"type": "ARRAY", "element": "STRING"})), {"f0": 5, "f1": "t", "f2": ["u", "v"]}),
    (row_of(row_of(INT, INT), INT), {"f0": {"f0": 1, "f1": 2}, "f1": 3}),
]
FLAT: dict[str, st.SearchStrategy[object]] = {
    "TINYINT": NUMBERS["TINYINT"],
    "BIGINT": NUMBERS["BIGINT"],
    "STRING": TEXT,
    "BYTES": st.binary(max_size=3),
    "DOUBLE": st.sampled_from([math.inf, -math.inf, 1e308, -1e308, 0.0, 5.5]),
}


@settings(max_examples=examples(80))
@given(st.data())
def test_bounds_belong_to_their_columns(data: st.DataObject) -> None:
    """Nested columns have several leaves, or none of their own: bounds of those behind them are their own."""
    kinds = data.draw(st.lists(st.sampled_from([*FLAT, *range(len(NESTED))]), min_size=1, max_size=6))
    types = [NESTED[kind][0] if isinstance(kind, int) else AtomicType(kind) for kind in kinds]
    fields = [DataField(n, f"c{n}", dtype) for n, dtype in enumerate(types)]
    schema = to_arrow_schema(fields)
    options = WriteOptions(stats=(FULL,) * len(fields), row_group_bytes=data.draw(st.sampled_from([100, 1 << 27])))
    writer = ParquetFileWriter(_Output(), fields, options)
    written: list[list[object]] = [[] for _ in fields]
    for _ in range(data.draw(st.integers(1, 3))):
        rows = data.draw(st.integers(0, 9))
        one = [st.just(NESTED[kind][1]) if isinstance(kind, int) else FLAT[kind] for kind in kinds]
        columns = [data.draw(st.lists(st.none() | some, min_size=rows, max_size=rows)) for some in one]
        writer.write(pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema))
        written = [known + more for known, more in zip(written, columns, strict=True)]
    for values, stats, dtype in zip(written, writer.close().stats, types, strict=True):
        known: list[Any] = [value for value in values if value is not None]
        bounds = (min(known), max(known)) if known and isinstance(dtype, AtomicType) else (None, None)
        assert stats is not None
        assert (stats.min, stats.max, stats.null_count) == (*bounds, len(values) - len(known))

"""Bounds of columns: those that the encoder tells are those that a second look at the values finds."""

from __future__ import annotations

import io

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.formats.base import StatsCollector, WriteOptions, WrittenFile
from lakewright.formats.parquet.writer import ParquetFileWriter
from lakewright.spec.arrow import to_arrow_type
from lakewright.spec.stats import COUNTS, FULL, StatsMode, parse_stats_mode
from lakewright.spec.types import AtomicType, DataField, parse_type
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

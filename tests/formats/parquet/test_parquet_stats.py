"""Bounds of text columns: those that the encoder tells are those that a second look at the values finds."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.formats.base import StatsCollector, WriteOptions, WrittenFile
from lakewright.formats.parquet.writer import ParquetFileWriter
from lakewright.spec.stats import COUNTS, FULL, StatsMode, parse_stats_mode
from lakewright.spec.types import AtomicType, DataField
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


def test_bounds_that_the_encoder_keeps_to_itself_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    # As if an encoder left out bounds of values that are not even long.
    monkeypatch.setattr("lakewright.formats.parquet.writer._BOUND_BYTES_MAX", 1 << 20)
    stats = _write([_table([("a", b"a")]), _table([("x" * 5000, b"b"), (None, None)])], FULL).stats
    assert stats[0] is not None
    assert stats[1] is not None
    assert (stats[0].min, stats[0].max, stats[0].null_count) == (None, None, 1)
    assert (stats[1].min, stats[1].max, stats[1].null_count) == (b"a", b"b", 1)


def test_counts_stay_counts() -> None:
    stats = _write([_table([("a", b"a"), (None, b"b")])], COUNTS).stats
    assert [(s.min, s.max, s.null_count) for s in stats if s is not None] == [(None, None, 1), (None, None, 0)]

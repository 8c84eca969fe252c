"""Ranges of a file that is far away, asked for before they are read."""

from __future__ import annotations

import io
import threading
from concurrent.futures import wait
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.errors import CorruptTableError
from lakewright.formats import parquet_reader as ahead_module
from lakewright.formats.file_format import WriteOptions
from lakewright.formats.format_registry import open_writer
from lakewright.formats.parquet_reader import AheadInput, ParquetFileReader, Wanted, coalesce_ranges, end_bytes
from lakewright.spec.arrow_types import from_arrow_schema
from lakewright.spec.column_stats import NONE
from lakewright.spec.predicate import PredicateBuilder
from lakewright.storage import object_storage
from lakewright.storage.object_storage import ObjectInput

ROWS = 5_000


@dataclass
class Far:
    """An object in memory that tells which ranges were asked for."""

    data: bytes
    asked: list[tuple[int, int]] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)
    fails_from: int | None = None

    def get_tail(self, key: str, length: int, size: int | None, /) -> tuple[int, bytes]:
        del key, size
        self.asked.append((max(0, len(self.data) - length), len(self.data)))
        return len(self.data), self.data[-length:]

    def get_range(self, key: str, start: int, end: int, /) -> bytes:
        self.asked.append((start, end))
        self.threads.add(threading.current_thread().name)
        if self.fails_from is not None and end > self.fails_from:
            raise OSError(5, "the store does not answer", key)
        return self.data[start:end]

    def path(self, key: str, /) -> str:
        return f"far://{key}"


ranges = st.builds(
    lambda start, length, group: Wanted(start, start + length, group), *[st.integers(1, 90)] * 2 + [st.integers(0, 5)]
)


@given(wanted=st.lists(ranges, max_size=8), hole=st.integers(0, 30))
def test_coalesced_ranges_hold_all_that_is_wanted(wanted: list[Wanted], hole: int) -> None:
    joined = coalesce_ranges(wanted, hole)
    assert all(
        any(big.start <= one.start and one.end <= big.end and big.group >= one.group for big in joined)
        for one in wanted
    )
    assert all(first.end + hole < second.start for first, second in pairwise(joined))
    assert {big.start for big in joined} <= {one.start for one in wanted}


@given(
    wanted=st.lists(ranges, max_size=6),
    reads=st.lists(st.tuples(st.integers(0, 260), st.integers(0, 200)), max_size=12),
    before=st.integers(0, 5),
)
def test_what_is_read_does_not_depend_on_what_was_asked_for(
    wanted: list[Wanted], reads: list[tuple[int, int]], before: int
) -> None:
    data = bytes(range(250))
    source = AheadInput(ObjectInput(Far(data), "x", size=2**30, end_bytes=1))
    source.ask(wanted)
    for number, (start, length) in enumerate(reads):
        if number == len(reads) // 2:
            source.forget(before)
        source.seek(start)
        assert source.read(length) == data[start : start + length]
    source.close()


def test_long_ranges_are_cut_into_parts_that_are_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead_module, "_PART_BYTES", 100)
    monkeypatch.setattr(object_storage, "TAIL_BYTES", 10)
    far = Far(bytes(range(256)) * 4)
    source = AheadInput(ObjectInput(far, "x"))
    source.ask([Wanted(5, 955, 0)])
    source.seek(5)
    assert source.read(950) == far.data[5:955]
    assert sorted(far.asked[1:]) == [(5 + 95 * n, 100 + 95 * n) for n in range(10)]
    assert all(name.startswith("lakewright-ahead") for name in far.threads)
    source.close()


def test_an_error_of_the_store_reaches_who_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_storage, "TAIL_BYTES", 10)
    monkeypatch.setattr(ahead_module, "HOLE_BYTES", 0)
    far = Far(bytes(1000), fails_from=500)
    source = AheadInput(ObjectInput(far, "x"))
    source.ask([Wanted(0, 10, 0), Wanted(600, 700, 0)])
    assert source.read(10) == bytes(10)
    source.seek(600)
    with pytest.raises(OSError, match="does not answer"):
        source.read(100)
    source.close()


def test_many_open_files_share_a_few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_storage, "TAIL_BYTES", 10)
    monkeypatch.setattr(ahead_module, "HOLE_BYTES", 0)
    files = [AheadInput(ObjectInput(Far(bytes(1000)), "x")) for _ in range(40)]
    for source in files:
        source.ask([Wanted(start, start + 10, 0) for start in range(0, 900, 100)])
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("lakewright-ahead")]
    assert 0 < len(threads) <= 32
    for source in files:
        source.close()


@dataclass
class _File:
    far: Far
    size: int
    table: pa.Table


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch) -> _File:
    """Return a file of 20 columns and 10 row groups, of another writer, whose columns are not close to each other."""
    for module, name, value in (
        (ahead_module, "HOLE_BYTES", 100),
        (object_storage, "WHOLE_BYTES", 0),
        (object_storage, "BLOCK_BYTES", 0),
        (object_storage, "TAIL_BYTES", 22_000),
    ):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr("lakewright.formats.parquet_reader.SINGLE_READ_BYTES", 0)
    monkeypatch.setattr("lakewright.formats.parquet_reader._TAIL_BYTES", 22_000)
    dice = np.random.default_rng(3)
    table = pa.table({f"c{n:02}": dice.permutation(ROWS) for n in range(20)})
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=ROWS // 10, compression="none", use_dictionary=False)
    return _File(Far(out.getvalue()), len(out.getvalue()), table)


def opened(file: _File, columns: list[str]) -> ParquetFileReader:
    fields = from_arrow_schema(file.table.select(columns).schema)
    source = ObjectInput(file.far, "x", size=file.size)
    return ParquetFileReader(source, path="x", size=file.size, fields=fields)


def test_columns_that_lie_apart_are_asked_for_at_once_and_fetched_once(file: _File) -> None:
    columns = ["c02", "c10", "c17"]
    reader = opened(file, columns)
    read = pa.Table.from_batches([batch for _, batch in reader.batches()])
    reader.close()
    assert read.equals(file.table.select(columns))
    footer, *chunks = file.far.asked
    assert footer[1] == file.size
    assert len(chunks) == len(set(chunks)) <= 30
    assert sum(end - start for start, end in chunks) < file.table.select(columns).nbytes * 1.1
    assert file.far.threads
    assert all(name.startswith("lakewright-ahead") for name in file.far.threads)  # nothing was read one by one


def test_row_groups_are_asked_for_while_one_is_decoded(file: _File, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakewright.formats.parquet_reader.AHEAD_BYTES", 15_000)
    reader = opened(file, ["c02", "c10"])
    batches = reader.batches(batch_rows=ROWS // 10)
    seen = []
    for _, _ in batches:
        held = reader._ahead._held if reader._ahead else []
        for one in held:
            wait(one.parts)
        seen.append(len(file.far.asked) - 1)
    reader.close()
    assert seen[0] == 4  # two columns of this group and of the next, which fits the budget
    assert seen[-1] == 20
    assert seen == sorted(seen)


@pytest.mark.parametrize("value", [2_500, -1])
def test_a_filter_asks_for_its_column_in_many_row_groups(
    file: _File, monkeypatch: pytest.MonkeyPatch, value: int
) -> None:
    monkeypatch.setattr("lakewright.formats.parquet_reader.LATENCY_BYTES", 0)
    columns = ["c02", "c10", "c17"]
    builder = PredicateBuilder(from_arrow_schema(file.table.select(columns).schema))
    condition = builder.equal("c02", value)
    if value < 0:  # no statistics exclude it
        condition = builder.and_predicates([builder.greater_than("c02", 2_000), builder.less_than("c02", 2_001)])
    reader = opened(file, columns)
    found = [batch for _, batch in reader.batches(skip=condition)]
    reader.close()
    kept = sum(condition.mask(pa.Table.from_batches([batch])).to_pylist().count(True) for batch in found)
    assert kept == (1 if value >= 0 else 0)
    assert all(name.startswith("lakewright-ahead") for name in file.far.threads)
    assert len(file.far.asked) == len(set(file.far.asked))
    assert len(found) <= 1  # row groups without a match are left out
    assert len(file.far.asked) == 1 + 10 + 2 * len(found)


def test_a_small_answer_is_asked_for_with_its_filter(file: _File) -> None:
    columns = ["c02", "c10", "c17"]
    builder = PredicateBuilder(from_arrow_schema(file.table.select(columns).schema))
    reader = opened(file, columns)
    assert len(list(reader.batches(skip=builder.equal("c02", 2_500)))) == 1
    reader.close()
    assert len(file.far.asked) > 1 + 10 + 2  # those of the other groups too; threads may still ask for the last ones


def test_a_store_that_fails_is_no_damage(file: _File) -> None:
    file.far.fails_from = file.size // 2
    reader = opened(file, ["c02", "c10"])
    with pytest.raises(OSError, match="the store does not answer"):
        list(reader.batches())
    reader.close()


def test_a_footer_that_points_outside_of_the_file_is_damage(file: _File) -> None:
    file.far.data = file.far.data[:4] + file.far.data[100_000:]  # the chunks that the footer names are not there
    file.size = len(file.far.data)
    reader = opened(file, ["c19"])
    with pytest.raises(CorruptTableError):
        list(reader.batches())
    reader.close()


def test_the_end_is_guessed_long_enough() -> None:
    """The footers of our own files fit into the guess, whatever their shape."""
    for column, count, rows in (("number", 200, 3_000), ("text", 60, 3_000), ("number", 5, 400_000)):
        values = pa.array(range(rows)) if column == "number" else pa.array([f"{column} {n}" * 3 for n in range(rows)])
        table = pa.table({f"{column}_{n:03}": values for n in range(count)})
        fields = from_arrow_schema(table.schema)
        out = _Sink()
        writer = open_writer("parquet", out, fields, WriteOptions(stats=(NONE,) * count))
        writer.write(table.cast(table.schema))
        writer.close()
        footer = int.from_bytes(bytes(out.data[-8:-4]), "little")
        assert footer + 24 <= end_bytes(fields, rows)


class _Sink:
    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes, /) -> int:
        self.data += memoryview(data).cast("B")
        return len(data)

    def close(self) -> None:
        """Do nothing."""

    def discard(self) -> None:
        """Do nothing."""

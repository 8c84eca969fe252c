"""Input order is kept: whatever the threads, rows are in files, and come back, in the order in which they came."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakewright as lw
from lakewright.spec.column_stats import field_stats
from lakewright.spec.manifest import DataFile
from lakewright.table.file_store_table import FileStoreTable
from lakewright.write import write_buffer as buffer_module
from support.effort import examples

SCHEMA = pa.schema({"k": pa.int64(), "p": pa.int32(), "s": pa.string()})


def rows(count: int, parts: int, first: int = 0) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {"k": list(numbers), "p": [n % parts for n in numbers], "s": [f"text {n * 7919}" for n in numbers]},
        schema=SCHEMA,
    )


def new_table(root: Path, partitions: tuple[str, ...] = (), **options: str) -> FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(root)})
    catalog.create_database("db", ignore_if_exists=True)
    catalog.drop_table("db.t", ignore_if_not_exists=True)
    options = {"write_buffer_size": "1 mb", **options}  # so that rows are handed on in small parts
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    schema = lw.Schema.from_pyarrow_schema(SCHEMA, partition_keys=list(partitions), options=named)
    catalog.create_table("db.t", schema)
    return catalog.get_table("db.t")


def spans(table: FileStoreTable) -> list[tuple[int, int]]:
    """Return the bounds of `k` in the files of a table, in the order in which they are read."""
    read = table.new_read_builder()
    return [_span(table, file) for split in read.new_scan().plan().splits() for file in split.files]


def _span(table: FileStoreTable, file: DataFile) -> tuple[int, int]:
    found = field_stats(file, "k", table.store.schema.fields)
    assert found is not None
    assert isinstance(found.min, int)
    assert isinstance(found.max, int)
    return found.min, found.max


def are_disjoint(found: list[tuple[int, int]]) -> bool:
    return all(high < low for (_, high), (low, _) in pairwise(found))


def numbers(table: FileStoreTable) -> list[int]:
    found: list[int] = lw.read_table(table)["k"].to_pylist()
    return found


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer_module, "ROW_GROUP_BYTES", 16 << 10)
    monkeypatch.setattr(buffer_module, "_ROW_GROUP_BYTES_MIN", 4 << 10)
    monkeypatch.setattr(buffer_module, "_SPILLED_BYTES", 64 << 10)


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    threads=st.integers(1, 5),
    batch=st.integers(1, 9000),
    parts=st.sampled_from([0, 1, 5]),
    row_num=st.sampled_from([None, 1000, 7001]),
    size=st.sampled_from([None, "40 kb"]),
    spills=st.booleans(),
    file_format=st.sampled_from(["parquet", "parquet", "orc", "avro"]),
    block=st.sampled_from([None, "8 kb"]),
)
def test_rows_keep_their_order(
    tmp_path: Path,
    *,
    threads: int,
    batch: int,
    parts: int,
    row_num: int | None,
    size: str | None,
    spills: bool,
    file_format: str,
    block: str | None,
) -> None:
    options = {
        "lakewright.write-threads": str(threads),
        "write-buffer-spillable": str(spills).lower(),
        "file.format": file_format,
    }
    options |= {} if row_num is None else {"target-file-row-num": str(row_num)}
    options |= {} if size is None else {"target-file-size": size}
    options |= {} if block is None else {"file.block-size": block}
    table = new_table(tmp_path, ("p",) if parts else (), **options)
    count = 30_000
    whole = rows(count, max(1, parts))
    builder = table.new_batch_write_builder()
    with builder.new_write() as write:
        for start in range(0, count, max(batch, 300)):
            write.write_arrow(whole.slice(start, max(batch, 300)))
        messages = write.prepare_commit()
    for message in messages:
        found = list(message.new_files)
        assert are_disjoint([_span(table, file) for file in found])
        assert all(file.row_count <= (row_num or count) for file in found)
        assert found[0].min_sequence_number == 0
        for one, following in pairwise(found):
            assert one.max_sequence_number + 1 == following.min_sequence_number
        for file in found:
            assert file.max_sequence_number - file.min_sequence_number + 1 == file.row_count
    builder.new_commit().commit(messages)
    out = lw.read_table(table)
    for part in range(max(1, parts)):
        mine = [k for k, p in zip(out["k"].to_pylist(), out["p"].to_pylist(), strict=True) if p == part]
        assert mine == list(range(part, count, max(1, parts)))
    assert out.sort_by("k").select(SCHEMA.names).combine_chunks().equals(whole.combine_chunks())


def batches(count: int, size: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, count, size):
        yield from rows(min(size, count - start), 1, start).to_batches()


def test_row_ids_count_up_in_the_order_of_the_input(tmp_path: Path) -> None:
    table = new_table(tmp_path, row_tracking__enabled="true", target_file_row_num="7000", lakewright__write_threads="4")
    for first in (0, 20_000):
        lw.write_table(rows(20_000, 1, first), table)
    found = lw.read_table(table, columns=["_ROW_ID", "k"])
    assert found["k"].to_pylist() == found["_ROW_ID"].to_pylist() == list(range(40_000))
    assert are_disjoint(spans(table))


def test_a_stream_of_batches_keeps_its_order(tmp_path: Path) -> None:
    table = new_table(tmp_path, target_file_size="60 kb", lakewright__write_threads="3")
    reader = pa.RecordBatchReader.from_batches(SCHEMA, batches(50_000, 777))
    lw.write_table(reader, table)
    assert numbers(table) == list(range(50_000))
    assert len(spans(table)) > 3
    assert are_disjoint(spans(table))
    read = table.new_read_builder()
    streamed = read.new_read().to_arrow_batch_reader(read.new_scan().plan().splits()).read_all()
    assert streamed["k"].to_pylist() == list(range(50_000))


def test_commits_of_several_files_follow_each_other(tmp_path: Path) -> None:
    table = new_table(tmp_path, target_file_row_num="1000")
    for first in range(0, 12_000, 4_000):
        lw.write_table(rows(4_000, 1, first), table)
    assert numbers(table) == list(range(12_000))
    assert are_disjoint(spans(table))


def test_a_compaction_keeps_the_order_of_its_files(tmp_path: Path) -> None:
    table = new_table(tmp_path, target_file_row_num="3000")
    for first in range(0, 12_000, 1_500):
        lw.write_table(rows(1_500, 1, first), table)
    table.compact(full=True)
    assert numbers(table) == list(range(12_000))
    assert len(spans(table)) == 4
    assert are_disjoint(spans(table))


def test_row_groups_of_several_threads_are_one_sound_file(tmp_path: Path) -> None:
    table = new_table(tmp_path, lakewright__write_threads="4")
    lw.write_table(rows(60_000, 1), table)
    (path,) = tmp_path.rglob("*.parquet")
    file = pq.ParquetFile(path, page_checksum_verification=True)
    assert file.read()["k"].to_pylist() == list(range(60_000))
    groups = [file.metadata.row_group(at) for at in range(file.metadata.num_row_groups)]
    assert len(groups) > 10
    assert sum(group.num_rows for group in groups) == file.metadata.num_rows == 60_000
    bounds = [(g.column(0).statistics.min, g.column(0).statistics.max) for g in groups]
    assert are_disjoint(bounds)
    assert all(g.column(0).has_offset_index and g.column(0).has_column_index for g in groups)
    starts = [g.column(c).dictionary_page_offset or g.column(c).data_page_offset for g in groups for c in range(3)]
    assert starts == sorted(set(starts))
    some = lw.read_table(table, filter="k between 31000 and 31010")
    assert some["k"].to_pylist() == list(range(31_000, 31_011))

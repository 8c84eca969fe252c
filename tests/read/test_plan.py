"""Packing files, grouping them by row ids, cutting plans: decisions without a disk."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakewright as lw
from lakewright.errors import CorruptTableError, InvalidInputError
from lakewright.read.data_split import DataSplit, DeletionFile
from lakewright.read.split_planning import (
    Packing,
    in_sequence,
    limit_splits,
    pack,
    row_id_groups,
    shard_splits,
    shuffle_splits,
    slice_splits,
)
from support.facts import data_file


def _split(*rows: int, **more: object) -> DataSplit:
    files = tuple(data_file(f"data-{n}.parquet", rows=count) for n, count in enumerate(rows))
    return DataSplit(1, 0, -1, files, tuple(f"/t/{f.file_name}" for f in files), **more)  # type: ignore[arg-type]


@given(st.lists(st.integers(0, 20)), st.integers(1, 30))
def test_bins_keep_the_order_and_the_bound(weights: list[int], target: int) -> None:
    bins = list(pack(weights, lambda weight: weight, target))
    assert [item for some in bins for item in some] == weights
    assert all(sum(some) <= target or len(some) == 1 for some in bins)
    for some, following in itertools.pairwise(bins):
        assert sum(some) + following[0] > target


def test_opening_a_file_has_a_price() -> None:
    assert Packing(128, 4).weight([replace(data_file(), file_size=1), replace(data_file(), file_size=9)]) == 13


def test_files_are_read_in_the_order_they_were_written() -> None:
    files = [replace(data_file(str(n)), min_sequence_number=s) for n, s in enumerate([5, 0, 3, 0])]
    assert [file.file_name for file in in_sequence(files)] == ["1", "3", "2", "0"]


def test_files_of_the_same_rows_stay_together() -> None:
    def numbered(name: str, first: int | None, rows: int, sequence: int) -> object:
        return replace(data_file(name, rows=rows), first_row_id=first, max_sequence_number=sequence)

    files = [
        numbered("a.parquet", 3, 2, 1),
        numbered("b.parquet", 0, 3, 1),
        numbered("c.parquet", 0, 3, 7),
        numbered("d.blob", 0, 3, 1),
        numbered("e.vector.parquet", 0, 1, 1),
        numbered("f.parquet", None, 1, 1),
    ]
    groups = row_id_groups(files)  # type: ignore[arg-type]
    assert [[file.file_name[0] for file in group] for group in groups] == [["f"], ["c", "b", "d", "e"], ["a"]]
    with pytest.raises(CorruptTableError, match="share some row ids but not all"):
        row_id_groups([numbered("a", 0, 3, 1), numbered("b", 1, 2, 1)])  # type: ignore[list-item]
    with pytest.raises(CorruptTableError, match="share some row ids but not all"):
        row_id_groups([numbered("a", 0, 3, 2), numbered("b", 0, 2, 1)])  # type: ignore[list-item]


def _rows_of(splits: list[DataSplit]) -> list[tuple[str, int]]:
    """List every row of a plan as file and position."""
    rows = []
    for split in splits:
        for group in split.row_groups():
            start, end = split.range_of(group)
            rows += [(f"{split.bucket}/{split.files[group[0]].file_name}", at) for at in range(start, end)]
    return rows


plans = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=4), max_size=4).map(
    lambda some: [replace(_split(*rows), bucket=n) for n, rows in enumerate(some)]
)


@given(plans, st.integers(1, 7), st.integers(0, 30), st.integers(0, 30))
def test_cutting_a_plan_gives_exactly_the_rows(plan: list[DataSplit], count: int, a: int, b: int) -> None:
    rows = _rows_of(plan)
    start, end = min(a, b), max(a, b)
    assert _rows_of(slice_splits(plan, start, end)) == rows[start:end]
    shares = [_rows_of(shard_splits(plan, index, count)) for index in range(count)]
    assert [row for share in shares for row in share] == rows
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    chunks = shuffle_splits(plan, a, count)
    assert sorted(_rows_of(chunks)) == sorted(rows)
    assert all(chunk.row_count <= count for chunk in chunks)
    assert chunks == shuffle_splits(plan, a, count)
    # Cutting what was cut counts from the cut.
    assert _rows_of(slice_splits(slice_splits(plan, start, end), 1, 3)) == rows[start:end][1:3]
    kept = limit_splits(plan, end)
    assert len(_rows_of(kept)) >= min(end, len(rows))
    assert kept == plan[: len(kept)]


def test_wrong_slices_shards_and_chunks_are_refused() -> None:
    for start, end in ((-1, 3), (3, 2)):
        with pytest.raises(InvalidInputError, match="slice"):
            slice_splits([], start, end)
    for index, count in ((3, 3), (-1, 3), (0, 0)):
        with pytest.raises(InvalidInputError, match="shard"):
            shard_splits([], index, count)
    with pytest.raises(InvalidInputError, match="chunk"):
        shuffle_splits([], 1, 0)


def test_rows_that_are_known_to_be_left() -> None:
    vector = DeletionFile("/t/index/i", 1, 24, 2)
    assert _split(5, 7).merged_row_count() == 12
    assert _split(5, 7, deletion_files=(None, vector)).merged_row_count() == 10
    assert _split(5, 7, deletion_files=(None, replace(vector, cardinality=None))).merged_row_count() is None
    assert _split(5, 7, raw_convertible=False).merged_row_count() is None
    cut = _split(5, 7, deletion_files=(None, vector)).slice_rows(0, 8)
    assert cut is not None
    assert cut.row_count == 8
    assert cut.merged_row_count() is None
    group = replace(_split(5, 5), raw_convertible=False, deletion_files=(vector, None))
    group = replace(group, files=tuple(replace(f, first_row_id=0) for f in group.files))
    assert group.row_count == 5
    assert group.merged_row_count() == 3


def test_explain_counts_records_of_files_and_rows_after_merging(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, primary_keys=["id"], options={"bucket": 1}))
    table = catalog.get_table("d.t")
    for _ in range(2):
        lw.write_table(pa.table({"id": [1]}, schema=columns), table)
    shown = str(table.new_read_builder().explain(verbose=True))
    assert "Estimated rows:     2\n" in shown
    assert "rows=2" in shown
    with pytest.raises(lw.errors.DatabaseNotEmptyException, match=r"holds 1 table \(t\)"):
        catalog.drop_database("d")

"""Limits, slices, shards and shuffles of a plan at their edges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lakewright as lw

COLUMNS = pa.schema({"id": pa.int64(), "n": pa.int64()})


def _table(root: Path, name: str, **arguments: object) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": root})
    catalog.create_database("d", ignore_if_exists=True)
    catalog.create_table(f"d.{name}", lw.Schema.from_pyarrow_schema(COLUMNS, **arguments))  # type: ignore[arg-type]
    table = catalog.get_table(f"d.{name}")
    for _ in range(2):
        lw.write_table(pa.table({"id": [1, 2, 3], "n": [1, 2, 3]}), table)
    return table


def test_limits_are_whole_numbers(tmp_path: Path) -> None:
    table = _table(tmp_path, "t")
    for limit, rows in ((0, 0), (1, 1), (4, 4), (6, 6), (10**12, 6), (int(np.int16(2)), 2)):
        assert lw.read_table(table, limit=limit).num_rows == rows
        assert lw.read_table(table, filter="id > 0", limit=limit).num_rows == rows
    for wrong in (-1, "3", 1.0, True, 2**70, [1]):
        with pytest.raises(lw.InvalidInputError, match="limit takes a whole number"):
            lw.read_table(table, limit=wrong)  # type: ignore[arg-type]


def test_slices_and_shards_out_of_range_are_refused(tmp_path: Path) -> None:
    scan = _table(tmp_path, "t").new_read_builder().new_scan()
    for start, end in ((-1, 2), (2, 1), ("0", 1), (0, None), (0, 2**70), (False, 2)):
        with pytest.raises(lw.InvalidInputError):
            scan.with_slice(start, end)  # type: ignore[arg-type]
    for index, count in ((-1, 2), (2, 2), (0, 0), (0, -1), (0.0, 1), ("0", 1), (0, True)):
        with pytest.raises(lw.InvalidInputError):
            scan.with_shard(index, count)  # type: ignore[arg-type]
    for seed, size in ((1, 0), (1, -1), (1, 1.5), ("a", 2), (None, 2), (1, True)):
        with pytest.raises(lw.InvalidInputError):
            scan.with_chunk_shuffle(seed, size)  # type: ignore[arg-type]
    assert sum(split.row_count for split in scan.with_slice(4, 100).plan().splits()) == 2


def test_rows_that_must_merge_are_not_shuffled(tmp_path: Path) -> None:
    table = _table(tmp_path, "k", primary_keys="id", options={"bucket": 1, "write-only": True})
    builder = table.new_read_builder()
    with pytest.raises(lw.UnsupportedError, match=r"d\.k.*compact"):
        builder.new_scan().with_chunk_shuffle(1, 2).plan()
    table.copy({"write-only": False}).compact(full=True)
    splits = builder.new_scan().with_chunk_shuffle(1, 2).plan().splits()
    assert sorted(builder.new_read().to_arrow(splits)["id"].to_pylist()) == [1, 2, 3]

"""Compaction tasks are spread over shares by their bytes, and large sorts are divided; nothing is read or written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

import lakewright as lw
from lakewright.compact import sort_compaction
from lakewright.compact.compaction_plan import CompactTask
from lakewright.compact.distributed_compaction import shares_of

MB = 1 << 20


def tasks_of(root: Path, sizes: list[int], options: dict[str, str]) -> tuple[lw.FileStoreTable, list[CompactTask]]:
    """Return tasks with one file of each size in MB."""
    catalog = lw.CatalogFactory.create({"warehouse": str(root)})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"x": pa.int64()}), options=options))
    table = catalog.get_table("d.t")
    lw.write_table(pa.table({"x": [1]}), table)
    snapshot = table.snapshot()
    assert snapshot is not None
    (entry,) = table.store.manifests.live(snapshot)
    files = [replace(entry.file, file_size=size * MB, row_count=size * 1000) for size in sizes]
    return table, [CompactTask(b"%d" % at, 0, -1, 1, (file,), (), order_by=("x",)) for at, file in enumerate(files)]


def test_shares_have_about_as_many_bytes(tmp_path: Path) -> None:
    sizes = [900, 400, 300, 100, *[20] * 45]
    table, tasks = tasks_of(tmp_path, sizes, {})
    shares = shares_of(table.store, tasks, 1)
    weights = [sum(task.files[0].file_size for task in share) // MB for share in shares]
    assert weights == [900, 580, 560, 560]  # the largest task alone, and first
    assert sorted(task.partition for share in shares for task in share) == sorted(task.partition for task in tasks)
    assert len(shares_of(table.store, tasks[:2], 8)) == 2


def test_large_shares_are_more_than_workers_need(tmp_path: Path) -> None:
    table, tasks = tasks_of(tmp_path, [500] * 40, {})
    shares = shares_of(table.store, tasks, 1)
    assert len(shares) == 20  # a share that fails is repeated, so it is not larger than 1 GB


def test_partitions_are_divided_by_their_bytes(tmp_path: Path) -> None:
    table, tasks = tasks_of(tmp_path, [2000, 400, 10], {"target-file-size": "50 mb"})
    assert sort_compaction.part_counts(table.store, tasks, 1) == [2, 1, 1]
    assert sort_compaction.part_counts(table.store, tasks, 4) == [7, 1, 1]
    assert sort_compaction.part_counts(table.store, tasks, 100) == [8, 2, 1]  # none is smaller than 256 MB
    plain = [replace(task, order_by=()) for task in tasks]
    assert sort_compaction.part_counts(table.store, plain, 100) == [1, 1, 1]


def test_no_part_is_smaller_than_a_file(tmp_path: Path) -> None:
    table, tasks = tasks_of(tmp_path, [2000, 400, 10], {"target-file-size": "512 mb"})
    assert sort_compaction.part_counts(table.store, tasks, 100) == [4, 1, 1]

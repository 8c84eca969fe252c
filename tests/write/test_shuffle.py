"""Rows that travel: what must come together does, and whoever receives it writes what one writer would have written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.errors import InvalidInputError
from lakewright.spec.table_schema import BucketMode
from lakewright.table.file_store_table import FileStoreTable
from lakewright.write.row_shuffle import ShuffleTargets, join_batches, receivers_for, send
from lakewright.write.table_writer import WriteJob

COLUMNS = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("p", pa.string(), nullable=False),
        pa.field("v", pa.int64()),
    ]
)


def new_table(path: Path, keys: list[str], partitions: list[str], **options: object) -> FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(path)})
    catalog.create_database("d", ignore_if_exists=True)
    named = {name.replace("_", "-"): value for name, value in options.items()}
    name = f"d.t{len(catalog.list_tables('d'))}"
    catalog.create_table(name, lw.Schema.from_pyarrow_schema(COLUMNS, partitions, keys, named), ignore_if_exists=False)
    return catalog.get_table(name)


def batches(count: int = 1000, *, keys: int = 300, size: int = 100) -> list[pa.RecordBatch]:
    ids = range(count)
    table = pa.table({"k": [i % keys for i in ids], "p": [f"p{i % keys % 4}" for i in ids], "v": list(ids)})
    return list(table.cast(COLUMNS).to_batches(max_chunksize=size))


MODES = {
    "fixed": (["k"], [], {"bucket": 3}),
    "fixed, partitions": (["k", "p"], ["p"], {"bucket": 3}),
    "dynamic": (["k"], [], {}),
    "dynamic, partitions": (["k", "p"], ["p"], {}),
    "across partitions": (["k"], ["p"], {}),
    "append": ([], ["p"], {}),
}


@pytest.mark.parametrize("mode", MODES)
def test_what_is_sent_is_written_as_by_one_writer(tmp_path: Path, mode: str) -> None:
    keys, partitions, options = MODES[mode]
    table, one = (new_table(tmp_path, keys, partitions, **options) for _ in range(2))
    job = WriteJob.new(table.store)
    assigners = 2 if mode.startswith("dynamic") else 1
    receivers = ShuffleTargets(1 if mode == "across partitions" else 4, assigners)
    bucket_mode = table.schema.bucket_mode
    groups = list(send(batches(), job, receivers, stage_bytes=1 << 12))
    assert len(groups) > 4
    owners: dict[tuple[int, str], set[int]] = {}
    messages = []
    for number in range(receivers.count):
        with job.open_writer(number, assigner=receivers.assigner(number)) as writer:
            for group in groups:
                if receivers.of(group, bucket_mode) == number:
                    writer.take(group.rows)
                    pairs = zip(group.rows["k"].to_pylist(), group.rows["p"].to_pylist(), strict=True)
                    for pair in pairs:
                        owners.setdefault(pair, set()).add(number)
            messages += writer.prepare()
    assert all(len(numbers) == 1 for numbers in owners.values())
    table.new_batch_write_builder().new_commit().commit(messages)
    lw.write_table(pa.Table.from_batches(batches()), one)
    order = [("k", "ascending"), ("v", "ascending")]
    assert lw.read_table(table).sort_by(order) == lw.read_table(one).sort_by(order)
    if bucket_mode is BucketMode.HASH_DYNAMIC:
        lw.write_table(pa.Table.from_batches(batches()), table)  # finds every key where the assigners put it
        assert lw.read_table(table).num_rows == 300


def test_small_batches_are_looked_at_together() -> None:
    tables = list(join_batches(batches(1000, size=10)))
    assert [table.num_rows for table in tables] == [1000]
    wide = [pa.record_batch({"b": pa.array([b"x" * (3 << 20)])}) for _ in range(5)]
    assert [table.num_rows for table in join_batches(wide)] == [2, 2, 1]
    assert list(join_batches([])) == []


def test_settled_buckets_are_files_at_once_and_what_follows_is_newer(tmp_path: Path) -> None:
    for keys, options in ((["k"], {"bucket": 1}), ([], {"bucket": 1, "bucket_key": "k"})):
        in_order = {"write-only": True, "lakewright.write-threads": 1}
        table = new_table(tmp_path, keys, [], **in_order, **options)
        with WriteJob.new(table.store).open_writer() as writer:
            first, second = batches(600, keys=300, size=300)
            writer.write(first)
            assert writer.held_bytes > 0
            writer.flush()
            assert writer.held_bytes == 0
            writer.write(second)
            messages = writer.prepare()
        assert [len(message.new_files) for message in messages] == [2]
        table.new_batch_write_builder().new_commit().commit(messages)
        read = lw.read_table(table).to_pylist()
        assert [row["v"] for row in read if row["k"] == 5] == ([305] if keys else [5, 305])


def test_tasks_that_share_buckets_number_in_strides(tmp_path: Path) -> None:
    table = new_table(tmp_path, ["k"], [], bucket=1, write_only=True)
    job = WriteJob(table.store, "w" * 16, table.store.identity, sequence_stride=1000)
    messages = []
    for task in (2, 0, 1):  # whenever they run, and in whatever order their messages come
        with job.open_writer(task) as writer:
            writer.write(pa.table({"k": [1, 2], "p": ["a", "a"], "v": [task, task]}))
            messages += writer.prepare()
    assert [m.new_files[0].min_sequence_number for m in messages] == [2000, 0, 1000]
    # Another commit comes first: all are numbered again and keep their order.
    lw.write_table(pa.table({"k": [1], "p": ["a"], "v": [-1]}), table)
    table.new_batch_write_builder().new_commit().commit(messages)
    assert lw.read_table(table)["v"].to_pylist() == [2, 2]
    # And the next write goes on above all of them.
    lw.write_table(pa.table({"k": [2], "p": ["a"], "v": [9]}), table)
    assert lw.read_table(table)["v"].to_pylist() == [2, 9]


def test_more_rows_than_a_stride_has_numbers_are_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path, ["k"], [], bucket=1)
    job = WriteJob(table.store, "w" * 16, table.store.identity, sequence_stride=100)
    with job.open_writer(1) as writer:
        writer.write(batches(100)[0])
        writer.flush()
        writer.write(batches(100)[0])
        with pytest.raises(InvalidInputError, match="write with more tasks"):
            writer.prepare()


@pytest.mark.parametrize(
    ("mode", "options", "rows", "expected"),
    [
        ("fixed", {}, 10, ShuffleTargets(3)),  # not more than there are buckets
        ("fixed, partitions", {}, 10, ShuffleTargets(8)),
        ("across partitions", {}, 10, ShuffleTargets(1)),
        ("append", {}, 10, ShuffleTargets(8)),
        ("dynamic", {"dynamic_bucket.target_row_num": 5}, 11, ShuffleTargets(3, 3)),  # as many as the rows fill
        ("dynamic", {"dynamic_bucket.target_row_num": 5}, None, ShuffleTargets(8, 8)),
        ("dynamic", {"dynamic_bucket.target_row_num": 5, "dynamic_bucket.max_buckets": 2}, 100, ShuffleTargets(2, 2)),
        ("dynamic", {"dynamic_bucket.initial_buckets": 4}, 1, ShuffleTargets(4, 4)),
        ("dynamic, partitions", {}, 10**9, ShuffleTargets(8, 1)),
        ("dynamic, partitions", {"dynamic_bucket.initial_buckets": 4}, 1, ShuffleTargets(8, 4)),
    ],
)
def test_there_are_no_more_receivers_than_there_is_work_for(
    tmp_path: Path, mode: str, options: dict[str, int], rows: int | None, expected: ShuffleTargets
) -> None:
    keys, partitions, given = MODES[mode]
    job = WriteJob.new(new_table(tmp_path, keys, partitions, **{**given, **options}).store)
    assert receivers_for(job, writers=8, rows=rows) == expected

"""Options that tables of other implementations have and that are cheap to honour: each one does what it says."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.errors import InvalidInputError
from lakewright.read import table_read as read_builder
from lakewright.storage.concurrency import in_order

COLUMNS = pa.schema([pa.field("k", pa.int64(), nullable=False), ("p", pa.string()), ("v", pa.string())])
FILE_TIME, TIME = "scan.file-creation-time-millis", "scan.creation-time-millis"
IGNORED = "changelog-producer.row-deduplicate-ignore-fields"


@pytest.fixture
def catalog(tmp_path: Path) -> lw.Catalog:
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    made.create_database("d")
    return made


def _table(catalog: lw.Catalog, options: dict[str, str] | None = None, **schema: list[str]) -> lw.FileStoreTable:
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, options=options or {}, **schema))  # type: ignore[arg-type]
    return catalog.get_table("d.t")


def _rows(*keys: int, p: str = "x", v: str = "a") -> pa.Table:
    return pa.table({"k": keys, "p": [p] * len(keys), "v": [v] * len(keys)}, COLUMNS)


def _three_snapshots(table: lw.FileStoreTable) -> list[int]:
    """Write three snapshots, each with one key, and return their times."""
    times = []
    for key in range(3):
        made = lw.write_table(_rows(key), table)
        snapshot = table.snapshot(made.snapshot_id)
        assert snapshot is not None
        times.append(snapshot.time_millis)
        time.sleep(0.02)
    return times


def _keys(table: lw.FileStoreTable) -> list[int]:
    return sorted(lw.read_table(table)["k"].to_pylist())


def test_files_since_a_time(catalog: lw.Catalog) -> None:
    table = _table(catalog)
    first, second, third = _three_snapshots(table)
    for since, want in ((first - 1000, [0, 1, 2]), (first + 1, [1, 2]), (second + 1, [2]), (third + 1, [])):
        assert _keys(table.copy({FILE_TIME: str(since)})) == want
        mode = {"scan.mode": "from-file-creation-time", FILE_TIME: str(since)}
        assert _keys(table.copy(mode)) == want
        builder = table.copy({FILE_TIME: str(since)}).new_stream_read_builder()
        scan = builder.new_streaming_scan()
        plan = scan.plan()
        assert plan is not None
        assert sorted(builder.new_read().to_arrow(plan.splits())["k"].to_pylist()) == want
        assert scan.plan() is None


def test_the_first_snapshot_since_a_time(catalog: lw.Catalog) -> None:
    table = _table(catalog)
    first, second, third = _three_snapshots(table)
    # Before the first snapshot and after the last one only files can tell.
    for since, want in ((first - 1000, [0, 1, 2]), (first + 1, [0, 1]), (second + 1, [0, 1, 2]), (third + 1, [])):
        assert _keys(table.copy({TIME: str(since)})) == want
        assert _keys(table.copy({"scan.mode": "from-creation-timestamp", TIME: str(since)})) == want
    builder = table.copy({TIME: str(first + 1)}).new_stream_read_builder()
    scan = builder.new_streaming_scan()
    found: list[int] = []
    while (plan := scan.plan()) is not None:
        found += builder.new_read().to_arrow(plan.splits())["k"].to_pylist()
    assert found == [1, 2]


def test_times_of_creation_do_not_go_together_with_others(catalog: lw.Catalog) -> None:
    table = _table(catalog)
    lw.write_table(_rows(1), table)
    for options in (
        {FILE_TIME: "1", TIME: "1"},
        {FILE_TIME: "1", "scan.snapshot-id": "1"},
        {"scan.mode": "from-creation-timestamp"},
        {"scan.mode": "from-creation-timestamp", FILE_TIME: "1"},
        {"scan.mode": "latest-full", TIME: "1"},
    ):
        with pytest.raises(InvalidInputError):
            lw.read_table(table.copy(options))
    with pytest.raises(InvalidInputError, match="a whole number"):
        table.copy({TIME: "yesterday"})
    with pytest.raises(InvalidInputError, match="cannot be changed"):
        table.copy({FILE_TIME: "1"}).delete("k = 1")


def test_new_columns_come_before_the_partition_columns(catalog: lw.Catalog) -> None:
    table = _table(catalog, {"add-column-before-partition": "true"}, partition_keys=["p", "v"])
    lw.write_table(_rows(1), table)
    change = lw.SchemaChange
    catalog.alter_table("d.t", [change.add_column("one", "INT"), change.add_column("two", "INT")])
    catalog.alter_table("d.t", [change.add_column("last", "INT", move=lw.Move.last("last"))])
    assert catalog.get_table("d.t").field_names == ["k", "one", "two", "p", "v", "last"]
    assert lw.read_table(catalog.get_table("d.t")).to_pylist() == [
        {"k": 1, "one": None, "two": None, "p": "x", "v": "a", "last": None}
    ]
    catalog.create_table(
        "d.plain", lw.Schema.from_pyarrow_schema(COLUMNS, options={"add-column-before-partition": "true"})
    )
    catalog.alter_table("d.plain", [change.add_column("one", "INT")])
    assert catalog.get_table("d.plain").field_names == ["k", "p", "v", "one"]


def test_a_nullable_key_has_one_row_without_a_value(catalog: lw.Catalog) -> None:
    columns = pa.schema({"k": pa.int64(), "v": pa.string()})
    options = {"bucket": "1", "primary-key.nullable": "true"}
    catalog.create_table("d.n", lw.Schema.from_pyarrow_schema(columns, primary_keys=["k"], options=options))
    table = catalog.get_table("d.n")
    for v in "ab":
        lw.write_table(pa.table({"k": [None, 1], "v": [v, v]}, columns), table)
    table.compact(full=True)
    assert lw.read_table(table).to_pylist() == [{"k": None, "v": "b"}, {"k": 1, "v": "b"}]


@pytest.mark.parametrize(
    ("options", "buckets"),
    [
        ({"postpone.target-row-num-per-bucket": "10"}, 5),
        ({"postpone.target-row-num-per-bucket": "1000"}, 1),
        ({"postpone.target-row-num-per-bucket": "2", "postpone.batch-write-fixed-bucket.max-parallelism": "3"}, 3),
        ({"postpone.target-size-per-bucket": "1 b", "postpone.batch-write-fixed-bucket.max-parallelism": "4"}, 4),
        ({"postpone.target-row-num-per-bucket": "2", "postpone.default-bucket-num": "7"}, 7),
    ],
    ids=str,
)
@pytest.mark.parametrize("postponed", [False, True], ids=["at once", "compacted later"])
def test_buckets_of_postponed_rows(catalog: lw.Catalog, options: dict[str, str], buckets: int, postponed: bool) -> None:
    table = _table(catalog, {"bucket": "-2", **options}, primary_keys=["k"])
    if postponed:
        lw.write_table(_rows(*range(50)), table)
        table.compact(full=True)
    else:
        builder = table.new_postpone_fixed_bucket_write_builder()
        with builder.new_write() as write, builder.new_commit() as commit:
            write.write_arrow(_rows(*range(50)))
            commit.commit(write.prepare_commit())
    assert _keys(table) == list(range(50))
    assert {split.total_buckets for split in table.new_read_builder().new_scan().plan().splits()} == {buckets}


def test_bad_numbers_are_refused(catalog: lw.Catalog) -> None:
    table = _table(catalog, {"bucket": "-2"}, primary_keys=["k"])
    for key in (
        "postpone.target-row-num-per-bucket",
        "postpone.batch-write-fixed-bucket.max-parallelism",
        "read.parallelism",
    ):
        with pytest.raises(InvalidInputError, match=key):
            table.copy({key: "0"})


def test_the_threads_of_a_read(catalog: lw.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(catalog)
    lw.write_table(_rows(1), table)
    asked: list[int] = []
    before = threading.active_count() + 16  # the pools of Arrow and of reads may start theirs

    def noted(sources: object, *, threads: int, ahead_max: int | None) -> object:
        asked.append(threads)
        return in_order(sources, threads=threads, ahead_max=ahead_max)  # type: ignore[arg-type]

    monkeypatch.setattr(read_builder, "in_order", noted)
    for options in ({"read.parallelism": "7"}, {"read.parallelism": "1", "lakewright.read-threads": "5"}):
        table.copy(options).new_read_builder().new_read().to_arrow()
    table.copy({"read.parallelism": "7"}).new_read_builder().new_read().to_arrow(parallelism=2)
    assert asked == [7, 1, 2]
    assert threading.active_count() <= before


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_columns_that_a_changelog_does_not_compare(catalog: lw.Catalog, producer: str) -> None:
    options = {
        "bucket": "1",
        "changelog-producer": producer,
        "changelog-producer.row-deduplicate": "true",
        IGNORED: "v",
    }
    table = _table(catalog, options, primary_keys=["k"])
    for rows in (_rows(1, 2), _rows(1, v="b"), _rows(2, p="y", v="b")):
        lw.write_table(rows, table)
        table.compact(full=True)
    newest = table.snapshot()
    assert newest is not None
    changes = lw.read_table(table, incremental=(0, newest.id), incremental_mode="changelog", row_kinds=True)
    found = [tuple(row.values()) for row in changes.to_pylist()]
    assert found == [
        ("+I", 1, "x", "a"),
        ("+I", 2, "x", "a"),
        ("-U", 2, "x", "a"),
        ("+U", 2, "y", "b"),
    ]
    assert sorted(lw.read_table(table)["v"].to_pylist()) == ["b", "b"]
    catalog.alter_table("d.t", [lw.SchemaChange.rename_column("v", "w")])
    assert catalog.get_table("d.t").schema.options[IGNORED] == "w"


def test_a_column_that_is_none_cannot_be_ignored(catalog: lw.Catalog) -> None:
    with pytest.raises(InvalidInputError, match="'nothing'"):
        _table(catalog, {IGNORED: "nothing", "bucket": "1"}, primary_keys=["k"])


@pytest.mark.parametrize("more", [{}, {"snapshot.ignore-empty-commit": "true"}], ids=["alone", "against the other"])
def test_an_empty_commit_makes_a_snapshot(catalog: lw.Catalog, more: dict[str, str]) -> None:
    table = _table(catalog, {"commit.force-create-snapshot": "true", **more})
    for builder in (table.new_batch_write_builder(), table.copy({}).new_batch_write_builder()):
        with builder.new_write() as write, builder.new_commit() as commit:
            commit.commit(write.prepare_commit())
    newest = table.snapshot()
    assert newest is not None
    assert newest.id == 2
    assert newest.total_record_count == 0


def test_rows_that_wait_count_for_the_buckets_of_a_partition(catalog: lw.Catalog) -> None:
    options = {"bucket": "-2", "postpone.target-row-num-per-bucket": "10"}
    table = _table(catalog, options, primary_keys=["k"])
    lw.write_table(_rows(*range(25)), table)  # they wait
    builder = table.new_postpone_fixed_bucket_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(_rows(*range(25, 40)))
        commit.commit(write.prepare_commit())
    assert {split.total_buckets for split in table.new_read_builder().new_scan().plan().splits()} == {4}
    table.compact(full=True)
    assert _keys(table) == list(range(40))

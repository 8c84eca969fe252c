"""System tables show what the metadata of a table says, and are read with the calls that read any table."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.errors import TableNotExistException
from lakewright.table.table_views import SystemTable

COLUMNS = pa.schema([pa.field("day", pa.string()), pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])


@pytest.fixture
def catalog(tmp_path: Path) -> lw.Catalog:
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    made.create_database("d")
    return made


def _table(catalog: lw.Catalog, **options: str) -> lw.FileStoreTable:
    schema = lw.Schema.from_pyarrow_schema(COLUMNS, partition_keys=["day"], options=options)
    catalog.create_table("d.t", schema)
    table = catalog.get_table("d.t")
    for day, ids in (("a", [1, 2]), ("b", [3]), (None, [4]), ("a", [5, 6])):
        lw.write_table(pa.table({"day": [day] * len(ids), "id": ids, "v": ["x"] * len(ids)}, schema=COLUMNS), table)
    return table


def _rows(catalog: lw.Catalog, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = lw.read_table(catalog.get_table(f"d.t${name}")).to_pylist()
    return rows


def test_partitions_and_buckets_count_their_files(catalog: lw.Catalog) -> None:
    _table(catalog, bucket="1", **{"bucket-key": "id"})
    partitions = {row["partition"]: row for row in _rows(catalog, "partitions")}
    assert {name: (row["record_count"], row["file_count"]) for name, row in partitions.items()} == {
        "day=a": (4, 2),
        "day=b": (1, 1),
        "day=__DEFAULT_PARTITION__": (1, 1),
    }
    files = _rows(catalog, "files")
    sizes = sum(row["file_size_in_bytes"] for row in files if row["partition"] == "day=a")
    assert partitions["day=a"]["file_size_in_bytes"] == sizes
    assert partitions["day=a"]["last_update_time"] == max(
        r["creation_time"] for r in files if r["partition"] == "day=a"
    )
    assert {(row["total_buckets"], row["done"], row["created_by"]) for row in partitions.values()} == {(1, False, None)}
    buckets = _rows(catalog, "buckets")
    assert [(row["partition"], row["bucket"], row["record_count"], row["file_count"]) for row in buckets] == [
        ("day=__DEFAULT_PARTITION__", 0, 1, 1),
        ("day=a", 0, 4, 2),
        ("day=b", 0, 1, 1),
    ]


def test_deleted_rows_of_a_partition_are_counted(catalog: lw.Catalog) -> None:
    table = _table(catalog, **{"deletion-vectors.enabled": "true"})
    table.delete("id IN (1, 5)")
    counts = {row["partition"]: row["deleted_record_count"] for row in _rows(catalog, "partitions")}
    assert counts == {"day=a": 2, "day=b": 0, "day=__DEFAULT_PARTITION__": 0}
    [index] = _rows(catalog, "table_indexes")
    assert (index["partition"], index["index_type"], index["row_count"]) == ("day=a", "DELETION_VECTORS", 2)
    files = {row["file_path"] for row in _rows(catalog, "files")}
    assert {place["f0"] for place in index["dv_ranges"]} <= files
    assert [place["_CARDINALITY"] for place in index["dv_ranges"]] == [1, 1]
    assert index["row_range_start"] is None


def test_manifests_show_the_bounds_of_their_partitions(catalog: lw.Catalog) -> None:
    _table(catalog)
    rows = _rows(catalog, "manifests")
    assert [(row["num_added_files"], row["num_deleted_files"]) for row in rows] == [(1, 0)] * 4
    assert [(row["min_partition_stats"], row["max_partition_stats"]) for row in rows] == [
        ("{a}", "{a}"),
        ("{b}", "{b}"),
        ("{null}", "{null}"),
        ("{a}", "{a}"),
    ]
    lake = Path(catalog.get_table("d.t").table_path)
    assert all((lake / "manifest" / row["file_name"]).stat().st_size == row["file_size"] for row in rows)


def test_key_ranges_name_whole_paths(catalog: lw.Catalog) -> None:
    schema = lw.Schema.from_pyarrow_schema(
        COLUMNS, partition_keys=["day"], primary_keys=["day", "id"], options={"bucket": "1"}
    )
    catalog.create_table("d.t", schema)
    rows = pa.table({"day": ["a"] * 3, "id": [3, 1, 2], "v": ["x"] * 3}, schema=COLUMNS)
    lw.write_table(rows, catalog.get_table("d.t"))
    [row] = _rows(catalog, "file_key_ranges")
    assert (row["min_key"], row["max_key"], row["record_count"]) == ("[1]", "[3]", 3)
    assert Path(row["file_path"]).stat().st_size == row["file_size_in_bytes"]


def test_tags_branches_and_consumers(catalog: lw.Catalog) -> None:
    table = _table(catalog)
    begin = datetime.now()  # noqa: DTZ005 - tags have the wall clock
    table.create_tag("kept", 2, time_retained=timedelta(days=1, minutes=1))
    table.create_tag("plain")
    kept, plain = _rows(catalog, "tags")
    assert (kept["tag_name"], kept["snapshot_id"], kept["record_count"], kept["time_retained"]) == (
        "kept",
        2,
        3,
        "PT24H1M",
    )
    assert abs(kept["create_time"] - begin) < timedelta(minutes=1)
    assert (plain["snapshot_id"], plain["create_time"], plain["time_retained"]) == (4, None, None)
    assert _rows(catalog, "branches") == []
    table.store.consumers.record("reader", 3)
    assert _rows(catalog, "consumers") == [{"consumer_id": "reader", "next_snapshot_id": 3}]


def test_a_branch_is_as_old_as_its_first_schema_file(catalog: lw.Catalog) -> None:
    root = Path(_table(catalog).table_path)
    copied = root / "branch" / "branch-b" / "schema"
    copied.mkdir(parents=True)
    (copied / "schema-0").write_bytes((root / "schema" / "schema-0").read_bytes())
    [row] = _rows(catalog, "branches")
    made = (copied / "schema-0").stat().st_mtime
    assert row["branch_name"] == "b"
    assert abs((row["create_time"] - datetime(1970, 1, 1)).total_seconds() - made) < 1  # noqa: DTZ001 - UTC


def test_a_builder_changes_in_place_and_splits_hold_the_rows(catalog: lw.Catalog) -> None:
    _table(catalog)
    source: object = catalog.get_table("d.t$snapshots")
    assert isinstance(source, SystemTable)
    builder = source.new_read_builder()
    builder.with_filter("snapshot_id > 1")
    builder.with_projection(["commit_kind", "snapshot_id"])
    builder.with_limit(2)
    assert [field.name for field in builder.read_type()] == ["commit_kind", "snapshot_id"]
    [split] = builder.new_scan().plan().splits()
    assert (split.row_count, split.files, split.partition, split.bucket) == (4, [], None, -1)
    read = builder.new_read()
    rows = read.to_arrow(pickle.loads(pickle.dumps([split])))  # noqa: S301 - our own bytes
    assert rows.to_pylist() == [{"commit_kind": "APPEND", "snapshot_id": number} for number in (2, 3)]
    assert list(read.to_iterator([split])) == rows.to_pylist()
    assert read.to_arrow_batch_reader([split]).read_all() == rows
    assert pa.Table.from_batches(read.to_record_batch_iterator([split])) == rows
    assert read.to_arrow([]).num_rows == 0
    assert read.to_arrow([]).column_names == rows.column_names
    found = read.to_duckdb([split], "s").execute("select sum(snapshot_id) from s").fetchone()
    assert found == (5,)
    assert read.to_pandas().snapshot_id.tolist() == [2, 3]


@pytest.mark.parametrize("verb", ["new_batch_write_builder", "new_stream_write_builder", "new_stream_read_builder"])
def test_system_tables_are_not_written_and_not_followed(catalog: lw.Catalog, verb: str) -> None:
    _table(catalog)
    with pytest.raises(lw.UnsupportedError, match="System table is read-only"):
        getattr(catalog.get_table("d.t$files"), verb)()


def test_an_empty_table_has_empty_system_tables(catalog: lw.Catalog) -> None:
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS))
    for name in ("snapshots", "manifests", "files", "partitions", "buckets", "file_key_ranges", "table_indexes"):
        rows = lw.read_table(catalog.get_table(f"d.t${name}"))
        assert rows.num_rows == 0
        assert rows.schema.names == catalog.get_table(f"d.t${name}").field_names
    with pytest.raises(TableNotExistException, match=r"there are \$snapshots"):
        catalog.get_table("d.t$nothing")

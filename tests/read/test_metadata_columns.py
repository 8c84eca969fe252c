"""Metadata columns: where each row is stored, in reads that name them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakewright as lw
from lakewright.errors import ColumnNotExistException, UnsupportedError

_COLUMNS = pa.schema({"id": pa.int64(), "day": pa.string()})
_ALL = ["__paimon_file_path", "__paimon_row_index", "__paimon_partition", "__paimon_bucket"]


def _table(
    root: Path,
    columns: pa.Schema = _COLUMNS,
    *,
    keys: list[str] | None = None,
    partitions: list[str] | None = None,
    options: dict[str, str] | None = None,
) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(root)})
    catalog.create_database("d")
    schema = lw.Schema.from_pyarrow_schema(columns, partition_keys=partitions, primary_keys=keys, options=options or {})
    catalog.create_table("d.t", schema)
    return catalog.get_table("d.t")


def test_each_row_says_where_it_is_stored(tmp_path: Path) -> None:
    options = {"deletion-vectors.enabled": "true", "bucket": "3", "bucket-key": "id"}
    table = _table(tmp_path, partitions=["day"], options=options)
    for start in (0, 100):
        ids = range(start, start + 100)
        lw.write_table(pa.table({"id": list(ids), "day": ["a" if i % 3 else "b" for i in ids]}), table)
    table.delete("id < 50")
    rows = lw.read_table(table, columns=["id", "day", *_ALL]).to_pylist()
    assert {row["id"] for row in rows} == {*range(50, 200)}
    for row in rows:
        path = row["__paimon_file_path"]
        assert pq.read_table(path, partitioning=None)["id"][row["__paimon_row_index"]].as_py() == row["id"]
        assert row["__paimon_partition"] == {"day": row["day"]}
        assert f"/day={row['day']}/bucket-{row['__paimon_bucket']}/" in path


def test_metadata_columns_come_only_where_they_are_named(tmp_path: Path) -> None:
    table = _table(tmp_path, partitions=["day"])
    lw.write_table(pa.table({"id": [1, 2], "day": ["a", "b"]}), table)
    assert lw.read_table(table).column_names == ["id", "day"]
    read = lw.read_table(table, columns={"at": "__paimon_row_index", "day": "__paimon_partition.day"}, filter="id = 2")
    assert read.to_pylist() == [{"at": 0, "day": "b"}]
    fields = table.new_read_builder().with_projection(_ALL).read_type()
    assert [str(field.type) for field in fields] == [
        "STRING NOT NULL",
        "BIGINT NOT NULL",
        "ROW<`day` STRING> NOT NULL",
        "INT NOT NULL",
    ]
    with pytest.raises(ColumnNotExistException, match=r"there are id, day$"):
        lw.read_table(table, columns=["nothing"])


def test_positions_do_not_depend_on_how_a_file_is_shared(tmp_path: Path) -> None:
    table = _table(tmp_path, options={"parquet.block.size": "1000"})
    lw.write_table(pa.table({"id": list(range(50_000)), "day": ["a"] * 50_000}), table)
    builder = table.new_read_builder().with_projection(["id", "__paimon_row_index"]).with_filter("id >= 777")
    rows = builder.new_read().to_arrow(parallelism=4)
    assert rows["id"].equals(rows["__paimon_row_index"])
    assert rows["id"].to_pylist() == list(range(777, 50_000))


def test_merged_rows_have_no_place(tmp_path: Path) -> None:
    table = _table(tmp_path, keys=["id"], options={"bucket": "1"})
    for day in ("a", "b"):
        lw.write_table(pa.table({"id": [1, 2], "day": [day, day]}), table)
    for name in ("__paimon_file_path", "__paimon_row_index", "__paimon_bucket"):
        with pytest.raises(UnsupportedError, match=name):
            lw.read_table(table, columns=["id", name])
        with pytest.raises(UnsupportedError, match=name):
            lw.read_table(table, columns=["id", name], incremental=(1, 2))
    table.compact(full=True)
    raw = lw.read_table(table, columns=["id", "__paimon_row_index", "__paimon_bucket"]).to_pylist()
    assert raw == [{"id": i, "__paimon_row_index": i - 1, "__paimon_bucket": 0} for i in (1, 2)]


def test_rows_in_several_files_have_a_position_but_no_file(tmp_path: Path) -> None:
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    table = _table(tmp_path, options=options)
    lw.write_table(pa.table({"id": [1, 2], "day": ["a", "b"]}), table)
    assert len(lw.read_table(table, columns=["__paimon_file_path"])) == 2
    table.update_by_row_id(pa.table({"_ROW_ID": [1], "day": ["c"]}))
    rows = lw.read_table(table, columns=["day", "__paimon_row_index"]).to_pylist()
    assert rows == [{"day": "a", "__paimon_row_index": 0}, {"day": "c", "__paimon_row_index": 1}]
    with pytest.raises(UnsupportedError, match="__paimon_file_path is the file of a row"):
        lw.read_table(table, columns=["__paimon_file_path"])


def test_a_column_of_the_table_keeps_its_name(tmp_path: Path) -> None:
    table = _table(tmp_path, pa.schema({"__paimon_bucket": pa.string()}))
    lw.write_table(pa.table({"__paimon_bucket": ["mine"]}), table)
    assert lw.read_table(table, columns=["__paimon_bucket"]).to_pylist() == [{"__paimon_bucket": "mine"}]
    with pytest.raises(ColumnNotExistException, match="__paimon_partition"):
        lw.read_table(table, columns=["__paimon_partition"])  # there are no partitions


def test_rows_of_a_fallback_branch_say_where_they_are_stored(tmp_path: Path) -> None:
    table = _table(tmp_path, partitions=["day"])
    table.create_branch("other")
    lw.write_table(pa.table({"id": [1], "day": ["a"]}), table)
    branch = lw.CatalogFactory.create({"warehouse": str(tmp_path)}).get_table("d.t$branch_other")
    lw.write_table(pa.table({"id": [2], "day": ["b"]}), branch)
    both = table.copy({"scan.fallback-branch": "other"})
    rows = lw.read_table(both, columns=["id", "__paimon_partition", "__paimon_file_path"]).to_pylist()
    assert [(row["id"], row["__paimon_partition"]) for row in rows] == [(1, {"day": "a"}), (2, {"day": "b"})]
    for row in rows:
        assert pq.read_table(row["__paimon_file_path"], partitioning=None)["id"].to_pylist() == [row["id"]]

"""Reads of two branches: each partition comes from one of them; writes, changes and streams keep to their own."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import lakewright as lw
from lakewright.errors import BranchNotExistException, InvalidInputError, UnsupportedError
from lakewright.read.data_split import DataSplit
from support.branch_tables import COLUMNS, fallback_table, make_branch, rows_of
from support.java_splits import to_java

FALLBACK, PRIMARY = "scan.fallback-branch", "scan.primary-branch"


def _read(table: lw.FileStoreTable, **what: object) -> list[str]:
    rows = lw.read_table(table, **what).to_pylist()  # type: ignore[arg-type] # as the caller gives it
    return sorted(" ".join(str(value) for name, value in row.items() if name in "pkv") for row in rows)


@pytest.fixture
def catalog(tmp_path: Path) -> lw.Catalog:
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    made.create_database("d")
    return made


@pytest.fixture
def table(catalog: lw.Catalog) -> lw.FileStoreTable:
    return fallback_table(catalog)


ALL = ["x 1 own", "x 2 own", "y 1 own", "z 1 other", "z 2 newer"]


def test_partitions_that_the_table_lacks_come_from_the_branch(table: lw.FileStoreTable) -> None:
    assert _read(table) == ALL
    assert _read(table.copy({FALLBACK: ""})) == ALL[:3]
    assert _read(table.copy({FALLBACK: " "})) == ALL[:3]
    assert _read(table.copy({FALLBACK: "", PRIMARY: "b"})) == ["x 9 other", "y 1 own", "z 1 other", "z 2 newer"]


def test_filters_projections_and_limits(table: lw.FileStoreTable) -> None:
    assert _read(table, filter="p = 'z'") == ALL[3:]
    assert _read(table, filter="v = 'other'") == ["z 1 other"]  # x has no such row, and is still the table's
    assert _read(table, filter="k = 9") == []
    assert _read(table, filter="k = 2 AND r.a = 2") == ["x 2 own", "z 2 newer"]
    assert lw.read_table(table, columns=["r.a"])["r_a"].to_pylist() == [1, 2, 1, 1, 2]
    assert lw.read_table(table, columns=["v"], filter="p = 'z'").to_pylist() == [{"v": "other"}, {"v": "newer"}]
    for limit in range(7):
        assert lw.read_table(table, limit=limit).num_rows == min(limit, 5)


def test_splits_go_to_other_processes(table: lw.FileStoreTable) -> None:
    builder = table.new_read_builder().with_filter("k < 3")
    splits = [DataSplit.deserialize(split.serialize()) for split in builder.new_scan().plan().splits()]
    assert {split.branch for split in splits} == {None, "b"}
    read = pickle.loads(pickle.dumps(builder.new_read()))  # noqa: S301 - our own bytes
    assert sorted(read.to_arrow(splits)["v"].to_pylist()) == ["newer", "other", "own", "own", "own"]
    assert pickle.loads(pickle.dumps(splits)) == splits  # noqa: S301 - our own bytes
    alone = table.copy({FALLBACK: ""}).new_read_builder().new_read()
    with pytest.raises(InvalidInputError, match="is of the branch b"):
        alone.to_arrow(splits)
    with pytest.raises(UnsupportedError, match="branch b"):
        to_java(next(split for split in splits if split.branch))


def test_shards_and_slices_are_parts_of_the_whole(table: lw.FileStoreTable) -> None:
    found: list[str] = []
    for index in range(3):
        builder = table.new_read_builder().with_shard(index, 3)
        found += builder.new_read().to_arrow(builder.new_scan().plan().splits())["v"].to_pylist()
    assert sorted(found) == sorted(row.split()[2] for row in ALL)


def test_the_plan_shows_both_branches(table: lw.FileStoreTable) -> None:
    shown = table.new_read_builder().with_filter("p <> 'y'").explain(verbose=True)
    assert shown.snapshot_id == 1
    assert shown.splits is not None
    assert {split.branch for split in shown.splits} == {None, "b"}
    assert shown.file_skipping is not None
    assert shown.file_skipping.after == shown.file_count


def test_changes_of_rows_keep_to_the_table(table: lw.FileStoreTable, catalog: lw.Catalog) -> None:
    before = _read(catalog.get_table("d.t$branch_b"))
    assert table.delete("p = 'z'").rows == 0
    table.update({"v": "changed"}, "k = 1")
    assert _read(table) == ["x 1 changed", "x 2 own", "y 1 changed", "z 1 other", "z 2 newer"]
    table.delete("p = 'y'")
    table.compact(full=True)
    lw.write_table(rows_of("z 7 own"), table)
    assert _read(table) == ["x 1 changed", "x 2 own", "z 7 own"]
    assert _read(catalog.get_table("d.t$branch_b")) == before


def test_streams_and_changes_keep_to_one_branch(table: lw.FileStoreTable) -> None:
    builder = table.new_stream_read_builder()
    plan = builder.new_streaming_scan().plan()
    assert plan is not None
    assert builder.new_read().to_arrow(plan.splits()).num_rows == 3
    lw.write_table(rows_of("y 5 own"), table)
    with pytest.raises(UnsupportedError, match="of one branch alone"):
        lw.read_table(table, incremental=(1, 2))
    assert _read(table.copy({FALLBACK: ""}), incremental=(1, 2)) == ["y 5 own"]


def test_row_ids_of_two_branches_are_not_mixed(catalog: lw.Catalog) -> None:
    schema = lw.Schema.from_pyarrow_schema(COLUMNS, partition_keys=["p"], options={"row-tracking.enabled": "true"})
    catalog.create_table("d.t", schema)
    make_branch(catalog, "d.t", "b", schema)
    table = catalog.get_table("d.t").copy({FALLBACK: "b"})
    lw.write_table(rows_of("x 1 own"), table)
    lw.write_table(rows_of("z 1 other"), catalog.get_table("d.t$branch_b"))
    assert _read(table) == ["x 1 own", "z 1 other"]
    with pytest.raises(InvalidInputError, match="numbers the rows of one branch"):
        lw.read_table(table, columns=["k", "_ROW_ID"])
    assert lw.read_table(table.copy({FALLBACK: ""}), columns=["_ROW_ID"]).num_rows == 1


def test_a_branch_is_not_read_beside_itself(table: lw.FileStoreTable, catalog: lw.Catalog) -> None:
    catalog.alter_table("d.t$branch_b", [lw.SchemaChange.set_option(FALLBACK, "b")])
    assert _read(catalog.get_table("d.t$branch_b")) == ["x 9 other", "z 1 other", "z 2 newer"]
    catalog.alter_table("d.t$branch_b", [lw.SchemaChange.set_option(FALLBACK, "main")])
    assert _read(catalog.get_table("d.t$branch_b")) == ["x 9 other", "y 1 own", "z 1 other", "z 2 newer"]
    assert _read(table) == ALL


def test_a_branch_that_cannot_be_read_beside_the_table_is_refused(
    table: lw.FileStoreTable, catalog: lw.Catalog
) -> None:
    with pytest.raises(BranchNotExistException, match="'nowhere'"):
        lw.read_table(table.copy({FALLBACK: "nowhere"}))
    with pytest.raises(InvalidInputError, match="only one of"):
        lw.read_table(table.copy({PRIMARY: "b"}))
    with pytest.raises(InvalidInputError, match="only one of"):
        catalog.alter_table("d.t", [lw.SchemaChange.set_option(PRIMARY, "b")])
    with pytest.raises(InvalidInputError, match="cannot name a branch"):
        lw.read_table(table.copy({FALLBACK: "../x"}))
    catalog.alter_table("d.t$branch_b", [lw.SchemaChange.rename_column("v", "w")])
    with pytest.raises(InvalidInputError, match="differ in their columns"):
        lw.read_table(table)
    lw.write_table(rows_of("z 7 own"), table)  # writes do not look at the other branch


def test_a_handle_learns_of_the_option(table: lw.FileStoreTable, catalog: lw.Catalog) -> None:
    catalog.alter_table("d.t", [lw.SchemaChange.remove_option(FALLBACK)])
    assert _read(table) == ALL[:3]
    catalog.alter_table("d.t", [lw.SchemaChange.set_option(FALLBACK, "b")])
    assert _read(table) == ALL

"""Rows are changed and read by their ids on Ray's workers, as embedded, also where updates have moved them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
import ray.data
from ray.data import Dataset

import lakewright as lw
import lakewright.ray as lwr
from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.ray import row_joins
from support.effort import some
from support.ray_rows import arrow_of
from support.row_changes import KINDS, SCHEMA, bag, frame, new_table
from support.spark_writes import assert_tidy

pytestmark = pytest.mark.usefixtures("ray_session")
TRACKED = [kind for kind in KINDS if "tracked" in kind or "evolution" in kind]


@pytest.fixture(params=some(["in every task", "by hash"], 1), autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "by hash":
        monkeypatch.setattr(row_joins, "_SMALL_BYTES", -1)
        monkeypatch.setattr(row_joins, "_SHARE_BYTES", 100)


def table_of(root: Path, kind: str) -> lw.FileStoreTable:
    """Make a table of three files, of which some rows were moved and some deleted."""
    table = new_table(kind, root)
    for first in (0, 10, 20):
        ids = range(first, first + 10)
        columns = [list(ids), [i % 3 for i in ids], [i % 7 for i in ids], [f"a{i}" for i in ids], list(ids)]
        lw.write_table(pa.table(columns, schema=SCHEMA), table)
    table.update({"n": 100}, "id IN (4, 15, 16)")
    if "vectors" in kind:
        table.delete("id IN (5, 27)")
    return table


def dataset_of(rows: pa.Table) -> Dataset:
    return ray.data.from_arrow([rows.slice(at, 2) for at in range(0, max(1, rows.num_rows), 2)])


def ids_of(table: lw.FileStoreTable, where: str) -> pa.Table:
    return lw.read_table(table, filter=where, columns=["_ROW_ID", "id"])


@pytest.mark.parametrize("kind", some(TRACKED, -1))
def test_rows_are_updated_deleted_and_read_as_embedded(tmp_path: Path, kind: str) -> None:
    ours, theirs = (table_of(tmp_path / name, kind) for name in ("ours", "theirs"))
    picked = ids_of(ours, "id IN (1, 4, 15, 22, 29)")
    new = pa.table({"_ROW_ID": picked["_ROW_ID"], "n": pa.array(range(70, 75), pa.int16()), "other": ["x"] * 5})
    done, wanted = (table.update_by_row_id(data, ["n"]) for table, data in ((ours, dataset_of(new)), (theirs, new)))
    assert (
        (done.updated, done.method, done.snapshot_id)
        == (wanted.updated, wanted.method, wanted.snapshot_id)
        == (
            5,
            wanted.method,
            wanted.snapshot_id,
        )
    )
    again = pa.table({"_ROW_ID": pa.concat_arrays([*picked["_ROW_ID"].chunks, *picked["_ROW_ID"].chunks])})
    read = arrow_of(lwr.read_by_row_id(dataset_of(again), ours, ["n", "id"]))
    assert read.column_names == ["n", "id", "_ROW_ID"]
    assert sorted(zip(read["id"].to_pylist(), read["_ROW_ID"].to_pylist(), strict=True)) == sorted(
        zip(picked["id"].to_pylist(), picked["_ROW_ID"].to_pylist(), strict=True)
    )
    assert bag(frame(lw.read_table(ours))) == bag(frame(lw.read_table(theirs)))
    gone, gone_there = (
        table.delete_by_row_id(data)
        for table, data in ((ours, dataset_of(picked.slice(0, 3))), (theirs, picked.slice(0, 3)))
    )
    assert gone.deleted == gone_there.deleted == 3
    assert bag(frame(lw.read_table(ours))) == bag(frame(lw.read_table(theirs)))
    assert_tidy(ours)


def test_ids_that_are_not_there_are_refused(tmp_path: Path) -> None:
    table = table_of(tmp_path, "tracked, vectors, partitions")
    before = table.store.snapshots.latest_id()
    live = ids_of(table, "id = 1")["_ROW_ID"][0].as_py()
    deleted = next(
        i for i in range(30) if i not in set(lw.read_table(table, columns=["_ROW_ID"])["_ROW_ID"].to_pylist())
    )
    for ids, message in (([live, 999], "999"), ([live, None], "1 row ids are null|null"), ([live, live], "twice")):
        given = pa.table({"_ROW_ID": pa.array(ids, pa.int64()), "n": pa.array([1, 2], pa.int64())})
        with pytest.raises(InvalidInputError, match=message):
            lwr.update_by_row_id(dataset_of(given), table)
    both = pa.table({"_ROW_ID": [live, deleted], "n": [1, 2]})
    with pytest.raises(InvalidInputError, match="is deleted"):
        lwr.update_by_row_id(dataset_of(both), table)
    assert arrow_of(lwr.read_by_row_id(dataset_of(both), table))["_ROW_ID"].to_pylist() == [live]
    with pytest.raises(InvalidInputError, match="999"):
        lwr.read_by_row_id(dataset_of(pa.table({"_ROW_ID": [999]})), table)
    with pytest.raises(InvalidInputError, match="'_ROW_ID'"):
        lwr.delete_by_row_id(dataset_of(pa.table({"id": [1]})), table)
    assert table.store.snapshots.latest_id() == before
    assert lwr.delete_by_row_id(dataset_of(both), table).deleted == 1
    assert_tidy(table)


@pytest.mark.nightly
def test_tables_without_ids_or_rows(tmp_path: Path) -> None:
    empty = new_table("tracked", tmp_path / "empty")
    with pytest.raises(InvalidInputError, match="the row id 3 is unknown"):
        lwr.update_by_row_id(dataset_of(pa.table({"_ROW_ID": [3], "n": [1]})), empty)
    none = arrow_of(lwr.read_by_row_id(dataset_of(pa.table({"_ROW_ID": pa.array([], pa.int64())})), empty, "n"))
    assert (none.num_rows, none.column_names) == (0, ["n", "_ROW_ID"])
    with pytest.raises(UnsupportedError, match="row-tracking"):
        lwr.delete_by_row_id(dataset_of(pa.table({"_ROW_ID": [3]})), new_table("plain", tmp_path / "plain"))

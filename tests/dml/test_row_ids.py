"""Row ids and sequence numbers: projected, filtered, and used to leave out files that cannot hold what is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.errors import ColumnNotExistException
from support.golden import WAREHOUSE, expected, expected_rows

TRACKED = {"row-tracking.enabled": "true"}
EVOLVING = {**TRACKED, "data-evolution.enabled": "true"}
COLUMNS = pa.schema({"k": pa.int64(), "v": pa.int64(), "s": pa.string()})
SYSTEM = ["_ROW_ID", "_SEQUENCE_NUMBER"]
GOLDEN = ["track.evolution", "track.evolution_schema", "track.row_tracking", "track.row_tracking_compacted"]


def _table(tmp_path: Path, options: dict[str, str]) -> lw.FileStoreTable:
    """Return a table of three files with ten rows each: v is ten times k, and k is the row id."""
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, options=options))
    table = catalog.get_table("d.t")
    for low in (0, 10, 20):
        keys = list(range(low, low + 10))
        lw.write_table(pa.table({"k": keys, "v": [10 * k for k in keys], "s": [str(k) for k in keys]}), table)
    return table


@pytest.fixture(scope="module", params=[TRACKED, EVOLVING], ids=["tracked", "evolving"])
def unchanged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> lw.FileStoreTable:
    """Return a table that no test changes."""
    return _table(tmp_path_factory.mktemp("row-ids"), request.param)


@pytest.mark.parametrize(
    ("where", "ids", "files"),
    [
        ("_ROW_ID = 5", [5], 1),
        ("_ROW_ID >= 8 AND _ROW_ID < 12", [8, 9, 10, 11], 2),
        ("_ROW_ID IN (3, 27, 99)", [3, 27], 2),
        ("_ROW_ID BETWEEN 19 AND 20", [19, 20], 2),
        ("_ROW_ID > 29", [], 0),
        ("_ROW_ID = 1 OR v = 290", [1, 29], 2),
        ("NOT (_ROW_ID > 0)", [0], 1),
        ("_SEQUENCE_NUMBER = 2 AND k < 12", [10, 11], 1),
        ("_SEQUENCE_NUMBER > 2", list(range(20, 30)), 1),
        ("_ROW_ID IS NULL", [], 0),
    ],
)
def test_filters_on_system_columns_prune_files(
    unchanged: lw.FileStoreTable, where: str, ids: list[int], files: int
) -> None:
    builder = unchanged.new_read_builder().with_filter(where)
    assert builder.explain().file_count == files
    assert builder.new_read().to_arrow()["k"].to_pylist() == ids  # a column that the filter does not name
    read = builder.with_projection(["_ROW_ID", "k"]).new_read().to_arrow()
    assert read.to_pylist() == [{"_ROW_ID": k, "k": k} for k in ids]


def test_a_predicate_builder_knows_the_system_columns(tmp_path: Path) -> None:
    builder = _table(tmp_path, TRACKED).new_read_builder()
    ask = builder.new_predicate_builder()
    builder.with_filter(ask.is_in("_ROW_ID", [4, 14]))
    assert builder.new_read().to_arrow()["k"].to_pylist() == [4, 14]


@pytest.mark.parametrize("name", GOLDEN)
def test_every_golden_row_is_found_by_its_id_and_sequence(name: str) -> None:
    table = lw.CatalogFactory.create({"warehouse": str(WAREHOUSE)}).get_table(name)
    names = [*table.field_names, *SYSTEM]
    tracked = expected_rows(expected()[name], expected()[name]["rowTracking"])
    for row in tracked:
        for where in (f"_ROW_ID = {row[-2]}", f"_ROW_ID = {row[-2]} AND _SEQUENCE_NUMBER = {row[-1]}"):
            builder = table.new_read_builder().with_filter(where)
            assert builder.with_projection(SYSTEM).new_read().to_arrow().num_rows == 1
            found = builder.with_projection(names).new_read().to_arrow()
            assert found.select(SYSTEM).to_pylist() == [dict(zip(SYSTEM, row[-2:], strict=True))]
    for sequence in {row[-1] for row in tracked}:
        builder = table.new_read_builder().with_filter(f"_SEQUENCE_NUMBER = {sequence}").with_projection(["_ROW_ID"])
        ids = sorted(builder.new_read().to_arrow()["_ROW_ID"].to_pylist())
        assert ids == sorted(row[-2] for row in tracked if row[-1] == sequence)


def test_untracked_tables_have_no_system_columns(tmp_path: Path) -> None:
    builder = _table(tmp_path, {}).new_read_builder()
    with pytest.raises(lw.errors.LakewrightError, match="_ROW_ID"):
        builder.with_filter("_ROW_ID = 5")


# Verbs.

KINDS = {
    "copied": TRACKED,
    "vectors": {**TRACKED, "deletion-vectors.enabled": "true"},
    "vectors of 64 bits": {**TRACKED, "deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"},
    "columns": {**EVOLVING, "deletion-vectors.enabled": "true"},
}


def _ids(table: lw.FileStoreTable) -> dict[int, tuple[int, int, str]]:
    """Return what the table holds, by row ids."""
    rows = lw.read_table(table, columns=["_ROW_ID", "k", "v", "s"]).to_pylist()
    found = {row["_ROW_ID"]: (row["k"], row["v"], row["s"]) for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_updated_and_deleted_by_their_ids(tmp_path: Path, kind: str) -> None:
    table = _table(tmp_path, KINDS[kind])
    want = _ids(table)
    for step, ids in enumerate(([3, 14, 15], [15, 29, 3], [0])):
        result = table.update_by_row_id(pa.table({"_ROW_ID": ids, "v": [-step] * len(ids)}))
        assert (result.updated, result.rows) == (len(ids), len(ids))
        want |= {n: (n, -step, str(n)) for n in ids}
        assert _ids(table) == want  # rows that were moved are found by the ids that they carry
    assert table.delete_by_row_id([14, 15, 20]).deleted == 3
    want = {n: row for n, row in want.items() if n not in {14, 15, 20}}
    assert _ids(table) == want
    assert table.compact(full=True).rows
    assert _ids(table) == want
    table.update_by_row_id(pa.table({"_ROW_ID": [3, 21], "s": ["x", "y"], "v": [1, 2]}), columns=["s"])
    want |= {3: (3, -1, "x"), 21: (21, 210, "y")}
    table.delete_by_row_id(np.array([0, 29]))
    assert _ids(table) == {n: row for n, row in want.items() if n not in {0, 29}}


@pytest.mark.parametrize("options", [TRACKED, EVOLVING], ids=["tracked", "evolving"])
def test_ids_come_in_many_shapes(tmp_path: Path, options: dict[str, str]) -> None:
    table = _table(tmp_path, options)
    found = lw.read_table(table, filter="k IN (4, 5)", columns=["_ROW_ID", "k"])
    batch = pa.record_batch({"_ROW_ID": pa.array([1, 1], pa.int32())})
    shapes: list[Any] = [[0], range(2, 4), {6}, found, batch, pa.chunked_array([[7], [7]])]
    shapes += [pl.Series([8]), pl.DataFrame({"_ROW_ID": [9]}), []]
    for ids in shapes:
        table.delete_by_row_id(ids)
        left = lw.read_table(table, columns=["k"])["k"].to_pylist()
        if options is EVOLVING:
            return  # the rest of the group has other ids now
    assert left == list(range(10, 30))
    reader = pa.RecordBatchReader.from_batches(batch.schema, iter([]))
    assert table.delete_by_row_id(reader).is_empty
    empty = pa.table({"_ROW_ID": pa.array([], pa.int64()), "v": pa.array([], pa.int64())})
    for data in (empty, empty.to_reader(), pl.DataFrame(empty)):
        assert table.update_by_row_id(data).is_empty


@pytest.mark.parametrize("kind", KINDS)
def test_ids_that_cannot_be_are_named(tmp_path: Path, kind: str) -> None:
    table = _table(tmp_path, KINDS[kind])
    snapshot = table.snapshot()

    def refused(message: str, data: dict[str, list[object]]) -> None:
        with pytest.raises(lw.InvalidInputError, match=message) as caught:
            table.update_by_row_id(pa.table(data))
        assert caught.value.table == "d.t"

    refused("the row id 30 is unknown", {"_ROW_ID": [3, 30], "v": [1, 2]})
    refused(
        "the row ids -1, 30, 31, 32, 33 and 2 more are unknown: each does not belong to any valid range",
        {"_ROW_ID": [-1, *range(30, 36)], "v": [0] * 7},
    )
    refused("the row id 5 is there twice", {"_ROW_ID": [5, 4, 5], "v": [1, 2, 3]})
    refused("1 of 2 row ids are null", {"_ROW_ID": [5, None], "v": [1, 2]})
    refused("row ids are integers, not", {"_ROW_ID": ["a"], "v": [1]})
    refused("lacks the column '_ROW_ID'", {"v": [1]})
    refused("name each column to update once, and at least one", {"_ROW_ID": [1]})
    refused("'v'", {"_ROW_ID": [1], "v": ["text"]})
    with pytest.raises(ColumnNotExistException, match="column 'w' to update is not in table schema"):
        table.update_by_row_id(pa.table({"_ROW_ID": [1], "w": [1]}))
    with pytest.raises(lw.InvalidInputError, match="must have the column 's' to update once"):
        table.update_by_row_id(pa.table({"_ROW_ID": [1], "v": [1]}), columns=["s"])
    for ids, message in (([30], "30 is unknown"), ([1, None], "are null"), (["x"], "integers"), ([1.5], "integers")):
        with pytest.raises(lw.InvalidInputError, match=message):
            table.delete_by_row_id(ids)  # type: ignore[arg-type]
    with pytest.raises(lw.InvalidInputError) as caught:
        table.delete_by_row_id([2**62, 1])
    assert caught.value.row_ids == (2**62,)
    assert table.snapshot() == snapshot
    assert len(_ids(table)) == 30


def test_tables_without_tracking_say_what_to_call_instead(tmp_path: Path) -> None:
    table = _table(tmp_path, {})
    with pytest.raises(lw.UnsupportedError, match=r"use delete\(where\).*row-tracking.enabled"):
        table.delete_by_row_id([1])
    with pytest.raises(lw.UnsupportedError, match=r"update\(...\).*row-tracking.enabled"):
        table.update_by_row_id(pa.table({"_ROW_ID": [1]}))


def test_a_table_that_was_never_written_knows_no_id(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, options=TRACKED))
    table = catalog.get_table("d.t")
    assert table.delete_by_row_id([]).is_empty
    with pytest.raises(lw.InvalidInputError, match="0 is unknown"):
        table.delete_by_row_id([0])


def test_files_of_moved_rows_are_left_out_by_the_ids_in_them(tmp_path: Path) -> None:
    table = _table(tmp_path, TRACKED)
    table.update({"v": 0}, "k IN (1, 11, 21)")  # every file is written again, with the ids of its rows
    builder = table.new_read_builder().with_filter("_ROW_ID BETWEEN 12 AND 13")
    assert builder.explain().file_count == 1
    assert builder.new_read().to_arrow()["k"].to_pylist() == [12, 13]
    assert table.delete_by_row_id([13, 25]).deleted == 2
    assert builder.new_read().to_arrow()["k"].to_pylist() == [12]

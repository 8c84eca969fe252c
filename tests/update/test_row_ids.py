"""Row ids and sequence numbers: projected, filtered, and used to leave out files that cannot hold what is asked for."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
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


@pytest.mark.parametrize("options", [TRACKED, EVOLVING], ids=["tracked", "evolving"])
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
    tmp_path: Path, options: dict[str, str], where: str, ids: list[int], files: int
) -> None:
    builder = _table(tmp_path, options).new_read_builder().with_filter(where)
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

"""Finding rows: which files are read, which are not, and that positions count what is in the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.dml.row_location import bind_condition, locate_rows, select_groups
from lakewright.formats.file_format import FileReader
from lakewright.read.data_file_reader import BucketReader
from lakewright.read.file_evolution import Evolution
from lakewright.spec.manifest import DataFile

ROWS = pa.table(
    {
        "id": pa.array(range(40), pa.int64()),
        "x": pa.array([None if i % 10 == 3 else i for i in range(40)], pa.int64()),
        "f": pa.array([float("nan") if i == 12 else float(i) for i in range(40)]),
        "s": pa.array([f"s{i:02}" for i in range(40)]),
        "p": pa.array([i // 20 for i in range(40)], pa.int32()),
    }
)


def new_table(root: Path) -> lw.FileStoreTable:
    """Return a table of four files, two in each partition."""
    catalog = lw.CatalogFactory.create({"warehouse": str(root)})
    catalog.create_database("d")
    options = {"deletion-vectors.enabled": "true"}
    wanted = lw.Schema.from_pyarrow_schema(ROWS.schema, partition_keys=["p"], options=options)
    catalog.create_table("d.t", wanted)
    made = catalog.get_table("d.t")
    for start in range(0, 40, 10):
        lw.write_table(ROWS.slice(start, 10), made)
    return made


@pytest.fixture
def table(tmp_path: Path) -> lw.FileStoreTable:
    return new_table(tmp_path)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> lw.FileStoreTable:
    """Return a table that no test changes."""
    return new_table(tmp_path_factory.mktemp("find"))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note every data file that is opened."""
    seen: list[str] = []
    real = BucketReader._open

    def noted(self: BucketReader, file: DataFile, evolution: Evolution) -> FileReader:
        seen.append(file.file_name)
        return real(self, file, evolution)

    monkeypatch.setattr(BucketReader, "_open", noted)
    return seen


def found(table: lw.FileStoreTable, where: str | None, columns: tuple[str, ...] = ()) -> list[int]:
    """Return the positions of the rows that are found, file by file."""
    snapshot = table.snapshot()
    assert snapshot is not None
    predicate = bind_condition(table.store, where)
    out: list[int] = []
    for part in select_groups(table.store, snapshot, predicate):
        for located in locate_rows(table.store, part, columns, predicate):
            assert located.rows.num_rows == len(located.positions)
            assert (np.diff(located.positions) > 0).all()
            out += located.positions.tolist()
    return out


@pytest.mark.parametrize(
    ("where", "rows", "files"),
    [
        (None, 40, 0),
        ("p = 1", 20, 0),
        ("p = 1 AND id >= 20", 20, 0),
        ("id >= 0", 40, 0),
        ("id >= 15", 25, 1),
        ("id < 5", 5, 1),
        ("s >= 's'", 40, 0),
        ("id IS NOT NULL", 40, 0),
        ("x IS NOT NULL", 36, 4),  # there are nulls
        ("x >= 0", 36, 4),
        ("f >= 0.0", 40, 4),  # NaN is in no bounds, and above all numbers
        ("f > 100", 1, 4),
        ("f < 10", 10, 2),  # the file with NaN has no bounds
        ("id NOT IN (77, NULL)", 0, 0),  # what is unknown has no opposite
        ("NOT (id > 100)", 40, 0),
        ("id < 10 OR p = 1", 30, 0),
        ("s LIKE 's%'", 40, 4),
    ],
)
def test_only_files_whose_statistics_leave_a_doubt_are_read(
    unchanged: lw.FileStoreTable, opened: list[str], where: str | None, rows: int, files: int
) -> None:
    assert len(found(unchanged, where)) == rows
    assert len(opened) == files


def test_deleted_rows_are_not_found_again_and_keep_their_positions(table: lw.FileStoreTable) -> None:
    table.delete("id IN (0, 1, 5, 17)")
    assert found(table, "id < 20") == [2, 3, 4, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 8, 9]
    assert found(table, "id < 10 AND x < 8", ("s", "p")) == [2, 4, 6, 7]


def test_columns_come_with_the_positions(table: lw.FileStoreTable) -> None:
    snapshot = table.snapshot()
    assert snapshot is not None
    predicate = bind_condition(table.store, "id IN (21, 39)")
    rows = [
        (row["s"], row["p"], position)
        for part in select_groups(table.store, snapshot, predicate)
        for located in locate_rows(table.store, part, ("s", "p"), predicate)
        for row, position in zip(located.rows.to_pylist(), located.positions.tolist(), strict=True)
    ]
    assert rows == [("s21", 1, 1), ("s39", 1, 9)]


def test_a_column_that_is_not_there_is_named(table: lw.FileStoreTable) -> None:
    for where in ("nope = 1", "_ROW_ID = 1"):  # the table does not track its rows
        with pytest.raises(lw.errors.ColumnNotExistException, match=r"d\.t: .*there is no column"):
            bind_condition(table.store, where)

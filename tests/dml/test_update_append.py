"""Deletes and updates of append tables of every kind, against rows that plain Python changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakewright as lw
from lakewright.errors import ColumnNotExistException
from lakewright.spec.snapshot import CommitKind
from support.effort import each_once
from support.row_changes import new_table

VECTORS = {"deletion-vectors.enabled": "true"}
TRACKED = {"row-tracking.enabled": "true"}
KINDS: dict[str, dict[str, str]] = {
    "plain": {},
    "tracked": TRACKED,
    "bucketed": {"bucket": "3", "bucket-key": "id"},
    "vectors": VECTORS,
    "vectors-64": {**VECTORS, "deletion-vectors.bitmap64": "true"},
    "vectors-tracked": {**VECTORS, **TRACKED},
    "vectors-bucketed": {**VECTORS, "bucket": "3", "bucket-key": "id"},
    "orc": {"file.format": "orc", **VECTORS},
}
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("p", pa.int32()),
        pa.field("n", pa.int64(), nullable=False),
        pa.field("s", pa.string()),
        pa.field("tags", pa.list_(pa.string())),
    ]
)
Row = dict[str, Any]


def rows_of(first: int, count: int) -> list[Row]:
    numbers = range(first, first + count)
    return [
        {"id": i, "p": i % 2, "n": 10 * i, "s": None if i % 5 == 0 else f"s{i}", "tags": [f"t{i}"]} for i in numbers
    ]


def make(path: Path, options: Mapping[str, str], partitions: list[str] | None = None) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(path)})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, partition_keys=partitions, options=options))
    table = catalog.get_table("d.t")
    for first in (0, 12, 24):
        lw.write_table(pa.Table.from_pylist(rows_of(first, 12), COLUMNS), table)
    return table


def read(table: lw.FileStoreTable) -> list[Row]:
    return sorted(lw.read_table(table).to_pylist(), key=lambda row: row["id"])


def read_ids(table: lw.FileStoreTable) -> dict[int, tuple[int, int]]:
    """Return the row id and the sequence number of every row."""
    found = lw.read_table(table, columns=["id", "_ROW_ID", "_SEQUENCE_NUMBER"]).to_pylist()
    return {row["id"]: (row["_ROW_ID"], row["_SEQUENCE_NUMBER"]) for row in found}


def changed(rows: list[Row], test: Callable[[Row], bool], change: Callable[[Row], Row]) -> list[Row]:
    return [{**row, **change(row)} if test(row) else row for row in rows]


@pytest.mark.parametrize(("kind", "partitions"), each_once(list(KINDS), [None, ["p"]]))
def test_deletes_and_updates_equal_the_same_changes_of_plain_rows(
    tmp_path: Path, kind: str, partitions: list[str] | None
) -> None:
    table = make(tmp_path, KINDS[kind], partitions)
    expected = rows_of(0, 36)
    tracked = "row-tracking.enabled" in KINDS[kind]
    ids = read_ids(table) if tracked else {}

    result = table.delete("n >= 100 AND n < 130 OR id = 30")
    expected = [row for row in expected if not (100 <= row["n"] < 130 or row["id"] == 30)]
    assert (result.deleted, result.updated, result.inserted, result.attempts) == (4, 0, 0, 1)
    assert read(table) == expected

    result = table.update({"s": "new", "n": pc.field("n") + 1, "tags": ["x", "y"]}, "id IN (1, 13, 14, 31)")
    hit = {1, 13, 14, 31}
    expected = changed(
        expected, lambda row: row["id"] in hit, lambda row: {"s": "new", "n": row["n"] + 1, "tags": ["x", "y"]}
    )
    assert (result.deleted, result.updated, result.rows) == (0, 4, 4)
    assert read(table) == expected
    snapshot = table.snapshot()
    assert snapshot is not None
    assert (snapshot.id, snapshot.commit_kind, snapshot.operation) == (5, CommitKind.OVERWRITE, "UPDATE")

    table.delete("id = 13")
    table.update({"n": 0}, "s = 'new'")
    expected = changed([row for row in expected if row["id"] != 13], lambda row: row["s"] == "new", lambda _: {"n": 0})
    assert read(table) == expected
    if tracked:
        now = read_ids(table)
        assert {id_: row_id for id_, (row_id, _) in now.items()} == {row["id"]: ids[row["id"]][0] for row in expected}
        numbers = {id_: 7 if id_ in {1, 14, 31} else ids[id_][1] for id_ in now}
        assert {id_: number for id_, (_, number) in now.items()} == numbers


@pytest.mark.parametrize("kind", ["plain", "tracked", "vectors", "vectors-tracked", "bucketed", "vectors-bucketed"])
def test_rows_move_to_the_partition_and_bucket_that_is_assigned(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, KINDS[kind], ["p"])
    ids = read_ids(table) if "tracked" in kind else {}
    assert table.update({"p": 7, "id": pc.field("id") + 100}, "id < 4 AND p = 1").updated == 2
    moved = {1: 101, 3: 103}
    expected = changed(rows_of(0, 36), lambda row: row["id"] in moved, lambda row: {"p": 7, "id": row["id"] + 100})
    assert read(table) == sorted(expected, key=lambda row: row["id"])
    assert sorted(lw.read_table(table, filter="p = 7")["id"].to_pylist()) == [101, 103]
    assert sorted(lw.read_table(table, filter="id = 103")["n"].to_pylist()) == [30]  # found through its bucket
    if ids:
        assert {id_: found[0] for id_, found in read_ids(table).items()} == {
            moved.get(id_, id_): found[0] for id_, found in ids.items()
        }


@pytest.mark.parametrize("kind", KINDS)
def test_where_every_row_of_a_file_goes_the_file_goes(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, KINDS[kind])
    table.delete("id = 13")
    result = table.delete("id >= 12 AND id < 24")
    assert result.deleted == 11
    assert result.files == 0
    files = [file for split in table.new_read_builder().new_scan().plan().splits() for file in split.files]
    assert sum(file.row_count for file in files) == 24
    assert table.delete("true").deleted == 24
    assert read(table) == []
    assert not table.new_read_builder().new_scan().plan().splits()


def test_nothing_to_change_makes_no_snapshot(tmp_path: Path) -> None:
    table = make(tmp_path, {})
    for result in (table.delete("id = 77"), table.update({"n": 1}, "id = 77")):
        assert result.snapshot_id is None
        assert result.is_empty
        assert (result.rows, result.files, result.method) == (0, 0, "copied files")
    assert table.snapshot().id == 3  # type: ignore[union-attr]


def test_a_table_that_was_never_written_has_nothing_to_change(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS))
    table = catalog.get_table("d.t")
    assert table.delete("true").rows == table.update({"n": 1}).rows == 0
    assert table.snapshot() is None


def test_mistakes_are_named_before_anything_is_written(tmp_path: Path) -> None:
    table = make(tmp_path, TRACKED)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(lw.errors.ColumnNotExistException, match="no column 'nam'"):
        table.delete("nam = 1")
    with pytest.raises(lw.errors.ColumnNotExistException, match="no column 'x'"):
        table.update({"x": 1})
    with pytest.raises(lw.errors.ColumnNotExistException, match="_ROW_ID"):
        table.update({"_ROW_ID": 1})
    with pytest.raises(lw.errors.InvalidInputError, match=r"'n'.*takes no null"):
        table.update({"n": None})
    with pytest.raises(lw.errors.InvalidInputError, match="'n'"):
        table.update({"n": "many"})
    with pytest.raises(lw.errors.InvalidInputError, match="'n'"):
        table.update({"n": lambda rows: pa.nulls(rows.num_rows, pa.int64())})
    assert sorted(tmp_path.rglob("*")) == before


def test_rows_are_found_by_their_ids(tmp_path: Path) -> None:
    table = make(tmp_path, TRACKED)
    assert table.delete("_ROW_ID >= 30 AND id < 34").deleted == 4
    assert table.update({"s": "by id"}, "_ROW_ID = 3").updated == 1
    assert [row["id"] for row in read(table) if row["s"] == "by id"] == [3]


def test_older_snapshots_keep_their_rows(tmp_path: Path) -> None:
    table = make(tmp_path, VECTORS)
    table.delete("id < 20")
    table.update({"s": "x"}, "id = 25")
    assert lw.read_table(table, snapshot_id=3).num_rows == 36
    assert lw.read_table(table, snapshot_id=4).num_rows == 16


@pytest.mark.parametrize("kind", ["plain", "tracked", "vectors"])
def test_columns_that_came_after_the_table_was_opened_are_not_lost(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, KINDS[kind])
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.alter_table("d.t", [lw.SchemaChange.add_column("more", lw.AtomicType("STRING"))])
    newer = catalog.get_table("d.t")
    rows = pa.Table.from_pylist(rows_of(50, 2), COLUMNS).append_column("more", pa.array(["a", "b"]))
    lw.write_table(rows, newer)
    assert table.update({"s": "x"}, "id >= 50 OR id = 1").updated == 3
    assert table.delete("id = 50").deleted == 1
    assert [row["more"] for row in read(newer) if row["s"] == "x"] == [None, "b"]
    catalog.alter_table("d.t", [lw.SchemaChange.rename_column("s", "t")])
    lw.write_table(pa.table({**{name: rows[name][:1] for name in ("id", "p", "n")}}), catalog.get_table("d.t"))
    with pytest.raises(ColumnNotExistException, match="'s'"):  # as a new handle would say it
        table.update({"s": "y"}, "id >= 50")


def test_rows_of_the_past_cannot_be_changed(tmp_path: Path) -> None:
    table = make(tmp_path, VECTORS).copy({"scan.snapshot-id": "1"})
    with pytest.raises(lw.errors.InvalidInputError, match="rows of the past"):
        table.delete("id = 1")


@pytest.mark.parametrize("kind", ["plain", "vectors"])
def test_a_failure_in_one_file_leaves_nothing_of_the_others(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, KINDS[kind])
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())

    def no_twenties(rows: pa.Table) -> pa.Table:
        return pc.if_else(pc.equal(rows["id"], 20), None, rows["n"])

    with pytest.raises(lw.errors.InvalidInputError, match="'n'"):
        table.update({"n": no_twenties})
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before


@pytest.mark.parametrize("kind", ["plain", "vectors", "evolution", "keyed"])
def test_a_delete_without_a_condition_is_refused(kind: str) -> None:
    table = new_table(kind)
    lw.write_table(pa.table({"id": [1, 2], "p": [0, 0]}), table)
    update = table.new_batch_write_builder().new_update()
    stream = table.new_stream_write_builder().new_update()
    verbs: list[Callable[[Any], object]] = [
        table.delete,
        update.delete_by_predicate,
        lambda where: stream.delete_by_predicate(where, 1),
    ]
    for delete in verbs:
        with pytest.raises(lw.InvalidInputError, match=r"delete\('true'\), or truncate"):
            delete(None)
    assert table.delete("false").is_empty
    assert table.delete("TRUE").deleted == 2
    assert lw.read_table(table).num_rows == 0

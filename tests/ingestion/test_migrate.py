"""Directories of data files become tables: rows, types, partitions, statistics, refusals, calls that were cut short."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.orc as pa_orc
import pyarrow.parquet as pq
import pytest

import lakewright as lw
from lakewright.errors import TableAlreadyExistException
from lakewright.ingestion import migrate_table as room
from lakewright.storage.local_storage import LocalStorage

Write = Callable[[pa.Table, Path], None]


def write_parquet(rows: pa.Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path, row_group_size=2)


def write_orc(rows: pa.Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pa_orc.write_table(rows, str(path))


def write_avro(rows: pa.Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    kinds = {pa.int32(): "int", pa.int64(): "long", pa.string(): "string"}
    fields = [{"name": one.name, "type": ["null", kinds[one.type]]} for one in rows.schema]
    with path.open("wb") as out:
        fastavro.writer(out, {"type": "record", "name": "r", "fields": fields}, rows.to_pylist())


@pytest.fixture
def catalog(tmp_path: Path) -> lw.Catalog:
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path / "lake")})
    made.create_database("d")
    return made


WRITERS: dict[str, Write] = {"parquet": write_parquet, "orc": write_orc, "avro": write_avro}


def rows_of(table: lw.FileStoreTable, *keys: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = lw.read_table(table).to_pylist()
    return sorted(rows, key=lambda row: [str(row[key]) for key in keys])


@pytest.mark.parametrize("kind", WRITERS)
def test_files_move_in_with_partitions_missing_columns_and_wider_types(
    catalog: lw.Catalog, tmp_path: Path, kind: str
) -> None:
    source, write = tmp_path / "old", WRITERS[kind]
    write(pa.table({"id": pa.array([1, 2, None], pa.int32())}), source / "day=2026-01-30/city=a%2Fb" / "000000_0")
    write(
        pa.table({"id": [2**40], "note": ["x"]}), source / "day=2026-01-31/city=__HIVE_DEFAULT_PARTITION__" / "part-1"
    )
    (source / "_SUCCESS").touch()
    planned = lw.migrate(catalog, "d.t", source, dry_run=True)
    assert catalog.list_tables("d") == []
    result = lw.migrate(catalog, "d.t", source, format=kind)
    assert (planned.files, planned.rows, planned.columns) == (result.files, result.rows, result.columns)
    assert result.columns == ("id BIGINT", "note STRING", "day DATE", "city STRING")
    assert (result.files, result.rows, result.partitions, result.snapshot_id) == (2, 4, 2, 1)
    assert [path for path in source.rglob("*") if path.is_file()] == [source / "_SUCCESS"]
    table = catalog.get_table("d.t")
    older, newer = dt.date(2026, 1, 30), dt.date(2026, 1, 31)
    assert rows_of(table, "id") == [
        {"id": 1, "note": None, "day": older, "city": "a/b"},
        {"id": 2**40, "note": "x", "day": newer, "city": None},
        {"id": 2, "note": None, "day": older, "city": "a/b"},
        {"id": None, "note": None, "day": older, "city": "a/b"},
    ]
    assert len(lw.read_table(table, filter="day = '2026-01-31' AND city IS NULL")) == 1
    assert len(lw.read_table(table, filter="id = 2")) == 1
    lw.write_table(pa.table({"id": [7], "note": ["n"], "day": [newer], "city": ["c"]}), table)
    table.compact(full=True)
    table.delete("id = 1")
    assert table.snapshot() is not None
    assert len(rows_of(table, "id")) == 4


def test_statistics_are_those_of_the_footers(catalog: lw.Catalog, tmp_path: Path) -> None:
    rows = pa.table(
        {"n": [5, None, 9], "s": ["b" * 40, "a", "c"], "f": [1.0, float("nan"), 2.0], "day": [dt.date(2026, 1, 1)] * 3}
    )
    write_parquet(rows, tmp_path / "old" / "a")
    lw.migrate(catalog, "d.t", tmp_path / "old")
    table = catalog.get_table("d.t")
    snapshot = table.snapshot()
    assert snapshot is not None
    (entry,) = table.store.manifests.live(snapshot)
    assert entry.file.row_count == 3
    assert entry.file.value_stats_cols == ("n", "s", "day")
    shown = lw.read_table(catalog.get_table("d.t$files")).to_pylist()[0]
    assert shown["min_value_stats"] == '{"n":"5","s":"a","f":null,"day":"2026-01-01"}'
    assert shown["max_value_stats"] == '{"n":"9","s":"c","f":null,"day":"2026-01-01"}'
    assert shown["null_value_counts"] == '{"n":1,"s":0,"f":null,"day":0}'
    assert len(lw.read_table(table, filter="n > 9")) == 0
    assert len(lw.read_table(table, filter="f > 2.5")) == 1  # NaN is above all numbers, which footers do not say


def test_files_that_cannot_be_one_table_are_refused_before_anything_moves(catalog: lw.Catalog, tmp_path: Path) -> None:
    source = tmp_path / "old"
    write_parquet(pa.table({"n": [1]}), source / "a.parquet")
    cases: list[tuple[str, Callable[[], object], str]] = [
        ("text", lambda: write_parquet(pa.table({"n": ["x"]}), source / "b"), r"'n' is STRING in .*/b and BIGINT in"),
        ("junk", lambda: (source / "b").write_bytes(b"id,n\n"), r"/b is no data file"),
        ("empty", (source / "b").touch, r"/b is empty"),
        ("cut", lambda: (source / "b").write_bytes(b"PAR1 and then"), r"/b is not a whole parquet file"),
        ("parts", lambda: write_parquet(pa.table({"n": [1]}), source / "p=1/b"), "is in partitions by p"),
        (
            "unsigned",
            lambda: write_parquet(pa.table({"n": pa.array([1], pa.uint8()), "m": pa.nulls(1)}), source / "b"),
            "column 'n' is.*column 'm' is.*lakewright ingest",
        ),
        ("delta", (source / "_delta_log").mkdir, "belongs to a Delta Lake table"),
    ]
    for name, spoil, message in cases:
        spoil()
        with pytest.raises((lw.InvalidInputError, lw.UnsupportedError), match=message):
            lw.migrate(catalog, "d.t", source)
        assert catalog.list_tables("d") == [], name
        assert (source / "a.parquet").exists()
        for path in (source / "b", source / "p=1/b"):
            path.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"partition_types": {"x": "INT"}}, "partition_types names 'x'"),
        ({"partition_types": {"k": "INT"}}, "the partition value 'a' is not of the type INT"),
        ({"partition_types": {"k": "ARRAY<INT>"}}, "not a data type"),
        ({"format": "csv"}, "format"),
        ({"format": "orc"}, "is parquet, not orc"),
        ({"options": {"bucket": "4"}}, "without buckets"),
        ({"options": {"primary-key": "n"}}, "no primary key"),
    ],
)
def test_wrong_arguments_are_named(catalog: lw.Catalog, tmp_path: Path, more: dict[str, object], message: str) -> None:
    write_parquet(pa.table({"n": [1]}), tmp_path / "old/k=a/x")
    with pytest.raises(lw.LakewrightError, match=message):
        lw.migrate(catalog, "d.t", tmp_path / "old", **more)  # type: ignore[arg-type]
    with pytest.raises(lw.InvalidInputError, match="no data files"):
        lw.migrate(catalog, "d.t", tmp_path / "absent")
    assert catalog.list_tables("d") == []


def test_a_column_of_the_directory_may_not_be_in_the_file_too(catalog: lw.Catalog, tmp_path: Path) -> None:
    write_parquet(pa.table({"n": [1], "k": ["b"]}), tmp_path / "old/k=a/x")
    with pytest.raises(lw.InvalidInputError, match="holds the column 'k'"):
        lw.migrate(catalog, "d.t", tmp_path / "old")


def test_types_that_widen_in_different_directions_are_refused(catalog: lw.Catalog, tmp_path: Path) -> None:
    write_parquet(pa.table({"a": pa.array([1], pa.int32()), "b": [1]}), tmp_path / "old/x")
    write_parquet(pa.table({"a": [1], "b": pa.array([1], pa.int32())}), tmp_path / "old/y")
    with pytest.raises(lw.InvalidInputError, match=r"the column '[ab]' is INT in .* and BIGINT in"):
        lw.migrate(catalog, "d.t", tmp_path / "old")


def test_a_copy_leaves_the_files(catalog: lw.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_parquet(pa.table({"n": [1, 2]}), tmp_path / "old/x")

    def elsewhere(_self: LocalStorage, source: str, target: str) -> None:
        raise lw.UnsupportedError(f"no link from {source} to {target}")

    monkeypatch.setattr(LocalStorage, "link", elsewhere)
    with pytest.raises(lw.UnsupportedError, match="copy=True"):
        lw.migrate(catalog, "d.t", tmp_path / "old")
    result = lw.migrate(catalog, "d.t", tmp_path / "old", copy=True)
    assert (result.copied, result.rows) == (True, 2)
    assert (tmp_path / "old/x").exists()
    assert len(lw.read_table(catalog.get_table("d.t"))) == 2


def test_a_call_that_was_killed_after_its_commit_is_finished(
    catalog: lw.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("x", "y"):
        write_parquet(pa.table({"n": [1]}), tmp_path / "old" / name)
    with monkeypatch.context() as patch:
        patch.setattr(room, "_remove_old_names", lambda *_: 0)
        lw.migrate(catalog, "d.t", tmp_path / "old")
    (tmp_path / "old/x").unlink()  # as if the kill had come in the middle
    write_parquet(pa.table({"n": [9]}), tmp_path / "old/new")  # not one of the table's
    again = lw.migrate(catalog, "d.t", tmp_path / "old")
    assert (again.files, again.rows, again.snapshot_id) == (1, 1, None)
    assert again.left == (str(tmp_path / "old/new"),)
    assert [path.name for path in (tmp_path / "old").iterdir()] == ["new"]
    assert len(lw.read_table(catalog.get_table("d.t"))) == 2
    with pytest.raises(TableAlreadyExistException, match="none of its files"):
        lw.migrate(catalog, "d.t", tmp_path / "old")
    assert (tmp_path / "old/new").exists()


def test_two_calls_at_once_add_the_rows_once(
    catalog: lw.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parquet(pa.table({"n": [1, 2]}), tmp_path / "old/x")
    place = room._place

    def overtaken(migration: room._Migration, store: object) -> None:
        place(migration, store)  # type: ignore[arg-type]
        monkeypatch.setattr(room, "_place", place)
        lw.migrate(catalog, "d.t", tmp_path / "old")

    monkeypatch.setattr(room, "_place", overtaken)
    with pytest.raises(lw.CommitConflictError):
        lw.migrate(catalog, "d.t", tmp_path / "old")
    assert lw.read_table(catalog.get_table("d.t"))["n"].to_pylist() == [1, 2]


def test_columns_of_two_files_that_differ_in_case_alone_are_refused(catalog: lw.Catalog, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    for name in ("id", "ID"):
        pq.write_table(pa.table({name: [1]}), tmp_path / f"old/{name}-1.parquet")
    with pytest.raises(lw.InvalidInputError, match=r"a column is named 'id' in .* and 'ID' in .*, and most engines"):
        lw.migrate(catalog, "d.t", tmp_path / "old")
    assert catalog.list_tables("d") == []

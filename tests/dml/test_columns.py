"""Data evolution: changed columns are in files of their own over all rows of a group, deletes on its oldest file."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.spec.manifest import DataFile, GlobalIndex, IndexFile
from support.effort import examples

EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
VECTORS = {**EVOLVING, "deletion-vectors.enabled": "true"}
COLUMNS = pa.schema({"k": pa.int64(), "v": pa.int64(), "s": pa.string()})
SYSTEM = ["_ROW_ID", "_SEQUENCE_NUMBER"]


def _table(
    tmp_path: Path, options: dict[str, str], columns: pa.Schema = COLUMNS, keys: list[str] | None = None
) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, partition_keys=keys, options=options))
    return catalog.get_table("d.t")


def _rows(low: int, high: int) -> pa.Table:
    k = np.arange(low, high)
    return pa.table({"k": k, "v": 10 * k, "s": [f"s{n}" for n in k]})


def _filled(tmp_path: Path, options: dict[str, str]) -> lw.FileStoreTable:
    """Return a table of three groups with ten rows each; k is the row id, v ten times k."""
    table = _table(tmp_path, options)
    for low in (0, 10, 20):
        lw.write_table(_rows(low, low + 10), table)
    return table


def _read(table: lw.FileStoreTable) -> list[dict[str, Any]]:
    names = [*table.field_names, *SYSTEM]
    found: list[dict[str, Any]] = lw.read_table(table, columns=names).sort_by("_ROW_ID").to_pylist()
    return found


def _files(table: lw.FileStoreTable) -> list[DataFile]:
    return [file for split in table.new_read_builder().new_scan().plan().splits() for file in split.files]


def test_an_update_writes_one_file_of_the_changed_columns_for_each_touched_group(tmp_path: Path) -> None:
    table = _filled(tmp_path, EVOLVING)
    before = {file.file_name for file in _files(table)}
    result = table.update_by_row_id(pa.table({"_ROW_ID": [21, 3], "v": [-21, -3]}))
    assert (result.updated, result.files, result.method, result.snapshot_id) == (2, 2, "column files", 4)
    new = sorted((f for f in _files(table) if f.file_name not in before), key=lambda f: f.first_row_id or 0)
    assert [(f.first_row_id, f.row_count, f.write_cols) for f in new] == [(0, 10, ("v",)), (20, 10, ("v",))]
    assert {(f.min_sequence_number, f.max_sequence_number, f.schema_id) for f in new} == {(4, 4, 0)}
    assert before < {file.file_name for file in _files(table)}
    want = [{"k": k, "v": -k if k in {3, 21} else 10 * k, "s": f"s{k}", "_ROW_ID": k} for k in range(30)]
    sequence = {0: 4, 1: 2, 2: 4}
    assert _read(table) == [{**row, "_SEQUENCE_NUMBER": sequence[n // 10]} for n, row in enumerate(want)]
    snapshot = table.snapshot()
    assert snapshot is not None
    assert (snapshot.commit_kind, snapshot.next_row_id) == ("APPEND", 30)


def test_groups_that_no_file_can_match_are_left_out_by_their_newest_values(tmp_path: Path) -> None:
    table = _filled(tmp_path, EVOLVING)
    table.update_by_row_id(pa.table({"_ROW_ID": np.arange(10, 20), "v": [-7] * 10}))

    def files(where: str) -> tuple[int, list[int]]:
        builder = table.new_read_builder().with_filter(where)
        return builder.explain().file_count, builder.new_read().to_arrow()["k"].to_pylist()

    assert files("v = 150") == (0, [])  # that is what row 15 had
    assert files("v = -7") == (2, list(range(10, 20)))
    assert files("v > 150 AND k < 25") == (1, list(range(20, 25)))
    assert files("k = 12") == (2, [12])
    assert files("_ROW_ID = 12 AND v = -7") == (2, [12])


def test_deletes_hang_on_the_oldest_file_and_survive_later_updates(tmp_path: Path) -> None:
    table = _filled(tmp_path, VECTORS)
    anchors = {file.first_row_id: file.file_name for file in _files(table)}
    table.update_by_row_id(pa.table({"_ROW_ID": [1, 12], "s": ["a", "b"]}))
    result = table.delete_by_row_id([1, 2, 25])
    assert (result.deleted, result.files) == (3, 0)
    table.update_by_row_id(pa.table({"_ROW_ID": [0, 24], "v": [5, 6]}))
    splits = table.new_read_builder().new_scan().plan().splits()
    marked = {f.file_name for s in splits for f, d in zip(s.files, s.deletion_files, strict=False) if d is not None}
    assert marked == {anchors[0], anchors[20]}
    got = {row["_ROW_ID"]: (row["v"], row["s"]) for row in _read(table)}
    want = {k: (10 * k, f"s{k}") for k in range(30) if k not in {1, 2, 25}}
    assert got == want | {12: (120, "b"), 0: (5, "s0"), 24: (6, "s24")}
    # Columns that only newer files hold: the anchor is asked for its vector all the same.
    assert lw.read_table(table, columns=["v"]).num_rows == 27
    assert table.delete_by_row_id([1, 2]).is_empty  # they are gone already
    with pytest.raises(lw.InvalidInputError, match="the row ids 1, 2 are deleted"):
        table.update_by_row_id(pa.table({"_ROW_ID": [1, 2, 3], "v": [0, 0, 0]}))


def test_without_vectors_the_rows_that_stay_keep_their_ids(tmp_path: Path) -> None:
    table = _filled(tmp_path, EVOLVING)
    table.update_by_row_id(pa.table({"_ROW_ID": [4], "v": [-4]}))
    result = table.delete_by_row_id([3, 5, 29])
    assert (result.deleted, result.files) == (3, 4)  # 0 to 2, 4, 6 to 9; 20 to 28
    got = {row["_ROW_ID"]: (row["k"], row["v"]) for row in _read(table)}
    assert got == {k: (k, -4 if k == 4 else 10 * k) for k in range(30) if k not in {3, 5, 29}}
    table.update_by_row_id(pa.table({"_ROW_ID": [4, 6], "v": [1, 2]}))
    table.update({"v": 3}, "k = 2")
    table.delete("k = 7")
    table.compact(full=True)
    got = {row["_ROW_ID"]: (row["k"], row["v"]) for row in _read(table)}
    new = {2: 3, 4: 1, 6: 2}
    assert got == {k: (k, new.get(k, 10 * k)) for k in range(30) if k not in {3, 5, 7, 29}}
    with pytest.raises(lw.InvalidInputError, match="the row id 5 is unknown"):
        table.delete_by_row_id([5])


def test_without_vectors_too_many_gaps_are_refused(tmp_path: Path) -> None:
    table = _filled(tmp_path, EVOLVING)
    lw.write_table(pa.table({"k": range(1000, 2000), "v": range(1000)}), table)
    before = table.store.snapshots.latest_id()
    with pytest.raises(lw.UnsupportedError, match=r"'deletion-vectors.enabled' = 'true'"):
        table.delete_by_row_id(range(100, 700, 2))
    with pytest.raises(lw.UnsupportedError, match=r"'deletion-vectors.enabled' = 'true'"):
        table.merge(pa.table({"k": range(1000, 1600, 2)}), "k").when_matched_delete().execute()
    assert table.store.snapshots.latest_id() == before
    assert table.delete("k < 1990 AND k >= 1000").deleted == 990  # one stretch


def test_groups_without_live_rows_go(tmp_path: Path) -> None:
    for options in (EVOLVING, VECTORS):
        table = _filled(tmp_path / str(len(options)), options)
        table.delete_by_row_id(range(10, 20))
        assert {file.first_row_id for file in _files(table)} == {0, 20}
        assert table.delete("true").deleted == 20
        assert _files(table) == []


def test_a_group_is_deleted_from_and_updated_in_one_merge(tmp_path: Path) -> None:
    for options in (EVOLVING, VECTORS):
        table = _filled(tmp_path / str(len(options)), options)
        source = pa.table({"k": [3, 4, 5], "v": [1, 2, 3]})
        merged = (
            table.merge(source, ["k"]).when_matched_delete("s.v = 2").when_matched_update({"v": lw.source_col("v")})
        )
        result = merged.execute()
        assert (result.deleted, result.updated) == (1, 2)
        got = {row["k"]: row["v"] for row in _read(table)}
        assert got == {k: 10 * k for k in range(30) if k != 4} | {3: 1, 5: 3}


def test_one_file_whatever_the_target_size_and_many_row_groups(tmp_path: Path) -> None:
    options = {**EVOLVING, "target-file-size": "64 kb", "target-file-row-num": "300000"}
    table = _table(tmp_path, options)
    k = np.arange(300_000)
    lw.write_table(pa.table({"k": k, "v": k, "s": pa.array(k % 7).cast(pa.string())}), table)
    count = len(_files(table))
    ids = np.arange(0, 300_000, 3)
    result = table.update_by_row_id(pa.table({"_ROW_ID": ids[::-1], "v": -ids[::-1], "s": ["x"] * len(ids)}))
    assert result.files == count
    read = lw.read_table(table, columns=["_ROW_ID", "v", "s"]).sort_by("_ROW_ID")
    assert np.array_equal(read["v"].to_numpy(), np.where(k % 3 == 0, -k, k))
    assert read["s"].to_pylist()[:7] == ["x", "1", "2", "x", "4", "5", "x"]


NESTED = pa.schema(
    {
        "k": pa.int64(),
        "b": pa.bool_(),
        "d": pa.decimal128(12, 3),
        "t": pa.timestamp("us", "UTC"),
        "y": pa.binary(),
        "l": pa.list_(pa.int32()),
        "m": pa.map_(pa.string(), pa.int32()),
        "r": pa.struct({"x": pa.int32(), "z": pa.string()}),
    }
)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_every_type_can_be_put_between_others(tmp_path: Path, file_format: str) -> None:
    table = _table(tmp_path, {**EVOLVING, "file.format": file_format}, NESTED)
    moment = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
    rows = [
        {"k": n, "b": n % 2 == 0, "d": Decimal(n) / 8, "t": moment, "y": b"y" * n}
        | {"l": [n, None], "m": [("a", n)], "r": {"x": n, "z": None}}
        for n in range(5)
    ]
    lw.write_table(pa.Table.from_pylist(rows, NESTED), table)
    new = [
        {"k": 10, "b": None, "d": None, "t": None, "y": None, "l": None, "m": None, "r": None},
        {
            "k": 13,
            "b": True,
            "d": Decimal("7.125"),
            "t": moment,
            "y": b"",
            "l": [],
            "m": [],
            "r": {"x": None, "z": "z"},
        },
    ]
    data = pa.Table.from_pylist(new, NESTED).add_column(0, "_ROW_ID", pa.array([0, 3]))
    table.update_by_row_id(data)
    assert lw.read_table(table).to_pylist() == [new[0], *rows[1:3], new[1], rows[4]]


def test_nulls_and_columns_that_were_added_later(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    table = _filled(tmp_path, EVOLVING)
    catalog.alter_table("d.t", [lw.SchemaChange.add_column("n", lw.AtomicType("INT"))])
    catalog.alter_table("d.t", [lw.SchemaChange.rename_column("v", "w")])
    table = catalog.get_table("d.t")
    table.update_by_row_id(pa.table({"_ROW_ID": [1, 2], "n": [11, None]}))
    table.update_by_row_id(pa.table({"_ROW_ID": [2], "w": pa.array([None], pa.int64())}))
    got = [(row["w"], row["n"]) for row in _read(table)[:4]]
    assert got == [(0, None), (10, 11), (None, None), (30, None)]
    assert lw.read_table(table, filter="n = 11")["k"].to_pylist() == [1]
    assert lw.read_table(table, filter="w IS NULL")["k"].to_pylist() == [2]


def test_partition_columns_cannot_be_updated(tmp_path: Path) -> None:
    table = _table(tmp_path, EVOLVING, keys=["s"])
    lw.write_table(_rows(0, 4), table)
    with pytest.raises(lw.UnsupportedError, match="'s' is a partition column"):
        table.update_by_row_id(pa.table({"_ROW_ID": [0], "s": ["x"]}))
    with pytest.raises(lw.UnsupportedError, match="'s' is a partition column"):
        table.update({"s": "x"}, "k = 1")
    table.update_by_row_id(pa.table({"_ROW_ID": [0, 1, 2, 3], "v": [4, 3, 2, 1]}))
    assert sorted(lw.read_table(table)["v"].to_pylist()) == [1, 2, 3, 4]


def test_a_source_may_repeat_the_partition_of_a_row_but_not_move_it(tmp_path: Path) -> None:
    table = _table(tmp_path, VECTORS, keys=["s"])
    lw.write_table(_rows(0, 4), table)
    result = table.upsert(pa.table({"k": [1, 9], "v": [-1, -9], "s": ["s1", "s1"]}), keys=["k"])
    assert (result.updated, result.inserted) == (1, 1)
    got = {row["k"]: (row["v"], row["s"]) for row in _read(table)}
    assert got == {0: (0, "s0"), 1: (-1, "s1"), 2: (20, "s2"), 3: (30, "s3"), 9: (-9, "s1")}
    again = table.upsert(pa.table({"k": [2], "s": ["s2"]}), keys=["k"])  # nothing is left to be written
    assert (again.updated, again.files) == (1, 0)
    with pytest.raises(lw.UnsupportedError, match="'s' is a partition column"):
        table.upsert(pa.table({"k": [2], "v": [5], "s": ["s0"]}), keys=["k"])
    assert {row["k"]: row["v"] for row in _read(table)}[2] == 20


def test_columns_of_new_rows_can_be_written_alone(tmp_path: Path) -> None:
    table = _filled(tmp_path, EVOLVING)
    builder = table.new_batch_write_builder()
    with builder.new_write().with_write_type(["v", "k"]) as write, builder.new_commit() as commit:
        write.write_arrow(pa.table({"k": [30, 31], "v": [300, 310]}))
        commit.commit(write.prepare_commit())
    assert [f.write_cols for f in _files(table)][-1] == ("k", "v")
    assert _read(table)[-1] == {"k": 31, "v": 310, "s": None, "_ROW_ID": 31, "_SEQUENCE_NUMBER": 4}
    table.update_by_row_id(pa.table({"_ROW_ID": [30, 0], "s": ["late", "early"]}))
    assert [row["s"] for row in (*_read(table)[-2:], _read(table)[0])] == ["late", None, "early"]


def test_a_failed_update_leaves_no_file(tmp_path: Path) -> None:
    table = _filled(tmp_path, VECTORS)
    table.delete_by_row_id([29])
    before = sorted(path.name for path in Path(table.table_path).rglob("*") if path.is_file())
    with pytest.raises(lw.InvalidInputError, match="deleted"):
        table.update_by_row_id(pa.table({"_ROW_ID": [1, 11, 29], "v": [0, 0, 0]}))
    assert sorted(path.name for path in Path(table.table_path).rglob("*") if path.is_file()) == before


@pytest.mark.parametrize("options", [EVOLVING, VECTORS], ids=["anew", "vectors"])
@pytest.mark.parametrize("seed", range(examples(20)))
def test_random_changes_equal_polars(tmp_path: Path, options: dict[str, str], seed: int) -> None:
    table = _filled(tmp_path, options)
    rng = random.Random(seed)
    model = pl.DataFrame(_rows(0, 30))
    for step in range(12):
        ids = {row["k"]: row["_ROW_ID"] for row in _read(table)}
        keys = rng.sample(sorted(ids), k=min(len(ids), rng.randint(1, 9)))
        chosen = pl.col("k").is_in(keys)
        match rng.randrange(4):
            case 0 if len(ids) > 10:
                table.delete_by_row_id([ids[k] for k in keys])
                model = model.filter(~chosen)
            case 1:
                low = 100 * (step + 1)
                lw.write_table(_rows(low, low + 5), table)
                model = pl.concat([model, pl.DataFrame(_rows(low, low + 5))])
            case 2:
                table.update_by_row_id(pl.DataFrame({"_ROW_ID": [ids[k] for k in keys], "s": [f"{step}"] * len(keys)}))
                model = model.with_columns(s=pl.when(chosen).then(pl.lit(f"{step}")).otherwise("s"))
            case _:
                data = pa.table({"_ROW_ID": [ids[k] for k in keys], "v": [-k for k in keys], "s": ["b"] * len(keys)})
                table.update_by_row_id(data, ["v"])
                model = model.with_columns(v=pl.when(chosen).then(-pl.col("k")).otherwise("v"))
        assert pl.DataFrame(lw.read_table(table)).sort("k").equals(model.sort("k"))


def test_columns_under_a_global_index_are_not_changed(tmp_path: Path) -> None:
    table = _filled(tmp_path, VECTORS)
    (v,) = (field for field in table.fields if field.name == "v")
    path = Path(table.table_path) / "index" / "global-index-1"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"sorted")
    index = IndexFile("btree", path.name, 6, 30, global_index=GlobalIndex(0, 29, v.id, None, None, None))
    message = lw.CommitMessage(
        partition_bytes=bytes(12), bucket=0, total_buckets=-1, new_index_files=(index,), table=table.store.identity
    )
    with table.new_batch_write_builder().new_commit() as commit:
        commit.commit([message])
    with pytest.raises(lw.UnsupportedError, match=r"'v' has a global index.* table.drop_global_index\('v'\)"):
        table.update_by_row_id(pa.table({"_ROW_ID": [1], "v": [1]}))
    table.update_by_row_id(pa.table({"_ROW_ID": [1], "s": ["other"]}))
    table.delete_by_row_id([2])
    assert len(_read(table)) == 29
    with pytest.raises(lw.NotFoundError, match="'s' has no global index"):
        table.drop_global_index("s")
    with pytest.raises(lw.NotFoundError, match="'v' has no global index of the type 'bitmap'"):
        table.drop_global_index("v", "bitmap")
    assert table.drop_global_index("v", dry_run=True).files == (path.name,)
    dropped = table.drop_global_index("v", "btree")
    assert (dropped.files, dropped.columns, dropped.snapshot_id is not None) == ((path.name,), ("v",), True)
    table.update_by_row_id(pa.table({"_ROW_ID": [1], "v": [1]}))
    assert len(_read(table)) == 29
    assert table.verify(full=True).is_sound

"""Manifest compaction, deletion vectors that become files without deleted rows, and whole databases."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw

COLUMNS = pa.schema({"id": pa.int64(), "n": pa.int64()})
VECTORS = {"deletion-vectors.enabled": "true"}


def made(root: Path, options: dict[str, str], **more: object) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(root)})
    catalog.create_database("d", ignore_if_exists=True)
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, options=options, **more))  # type: ignore[arg-type]
    return catalog.get_table("d.t")


def fill(table: lw.FileStoreTable, commits: int = 4) -> None:
    for number in range(commits):
        ids = [10 * number + n for n in range(10)]
        lw.write_table(pa.table({"id": ids, "n": ids}, COLUMNS), table)


def vectors(table: lw.FileStoreTable) -> int:
    snapshot = table.snapshot()
    assert snapshot is not None
    index = [] if snapshot.index_manifest is None else table.store.manifests.read_index(snapshot.index_manifest)
    return sum(len(entry.file.deletion_ranges or ()) for entry in index)


def test_manifests_become_few_and_the_files_stay(tmp_path: Path) -> None:
    table = made(tmp_path, {})
    fill(table, 6)
    table.delete("id < 5")
    before = table.snapshot()
    assert before is not None
    files = {entry.file.file_name for entry in table.store.manifests.live(before)}
    result = table.compact_manifests()
    after = table.snapshot()
    assert after is not None
    assert (result.snapshot_id, result.manifests_after) == (after.id, 1)
    assert after.commit_kind.value == "COMPACT"
    assert (after.delta_record_count, after.total_record_count) == (0, before.total_record_count)
    assert {entry.file.file_name for entry in table.store.manifests.live(after)} == files
    (manifest,) = table.store.manifests.files_of(after)
    assert (manifest.num_added_files, manifest.num_deleted_files) == (len(files), 0)
    assert lw.read_table(table).num_rows == 55
    assert table.compact_manifests().is_empty
    lw.write_table(pa.table({"id": [1], "n": [1]}, COLUMNS), table)
    assert lw.read_table(table).num_rows == 56


def test_a_table_without_snapshots_has_no_manifests(tmp_path: Path) -> None:
    assert made(tmp_path, {}).compact_manifests().is_empty


@pytest.mark.parametrize("options", [VECTORS, {**VECTORS, "bucket": "1", "bucket-key": "id"}], ids=["any", "buckets"])
def test_only_files_with_deleted_rows_are_rewritten(tmp_path: Path, options: dict[str, str]) -> None:
    table = made(tmp_path, options)
    fill(table)
    table.delete("id = 3 OR id = 25")
    assert vectors(table) == 2
    result = table.materialize_deletion_vectors()
    assert result.files_before == 2
    assert vectors(table) == 0
    assert sorted(lw.read_table(table)["id"].to_pylist()) == [n for n in range(40) if n not in {3, 25}]
    assert table.materialize_deletion_vectors().is_empty


def test_vectors_of_a_primary_key_table(tmp_path: Path) -> None:
    table = made(tmp_path, {**VECTORS, "bucket": "1"}, primary_keys=["id"])
    fill(table)
    lw.write_table(pa.table({"id": [3, 25], "n": [0, 0]}, COLUMNS), table)
    table.compact()
    before = sorted(map(str, lw.read_table(table).to_pylist()))
    table.materialize_deletion_vectors()
    assert vectors(table) == 0
    assert sorted(map(str, lw.read_table(table).to_pylist())) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "'deletion-vectors.enabled' is not true"),
        ({**VECTORS, "row-tracking.enabled": "true", "data-evolution.enabled": "true"}, "data-evolution.enabled"),
    ],
)
def test_tables_without_vectors_to_write_out_are_refused(tmp_path: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(lw.UnsupportedError, match=message):
        made(tmp_path, options).materialize_deletion_vectors()


def test_a_database_is_compacted_table_by_table(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    for name, keys, options in (("a", [], {}), ("b", [], {}), ("odd", ["id"], {"bucket": "1"})):
        catalog.create_table(f"d.{name}", lw.Schema.from_pyarrow_schema(COLUMNS, primary_keys=keys, options=options))
        fill(catalog.get_table(f"d.{name}"), 2)
    done = lw.compact_database(catalog, "d", excluding=r"d\.b", full=True)
    assert {name: result.files_after for name, result in done.tables.items()} == {"d.a": 1, "d.odd": 1}
    assert done.failed == {}
    assert list(lw.compact_database(catalog, including=r"d\..", full=True).tables) == ["d.a", "d.b"]
    with pytest.raises(lw.InvalidInputError, match="no regular expression"):
        lw.compact_database(catalog, including="(")

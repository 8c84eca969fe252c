"""Tables that lost files, hints or tags: what is found, what is repaired, what is left alone."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from contract.fault_enumerator import Operation, enumerate_faults
from lakewright.metadata import snapshot_files
from support.effort import is_thin

COLUMNS = pa.schema({"k": pa.int64(), "p": pa.string()})


@pytest.fixture
def table(tmp_path: Path) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    options = {"deletion-vectors.enabled": "true"}
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, partition_keys=["p"], options=options))
    made = catalog.get_table("d.t")
    for low in (0, 10, 20):
        lw.write_table(pa.table({"k": range(low, low + 10), "p": ["a", "b"] * 5}), made)
    return made


def files_of(table: lw.FileStoreTable) -> list[Path]:
    return sorted(Path(table.table_path).glob("p=*/bucket-0/data-*"))


def test_missing_files_are_listed_and_then_removed_with_their_vectors(table: lw.FileStoreTable) -> None:
    table.delete("k IN (0, 10, 11)")
    assert table.remove_unexisting_files().paths == ()
    assert table.remove_unexisting_files(dry_run=False).snapshot_id is None
    rows = {row["k"]: row for row in lw.read_table(table).to_pylist()}
    snapshot = table.snapshot()
    assert snapshot is not None
    lost = next(e for e in table.store.manifests.live(snapshot) if e.file.min_sequence_number == 0)
    path = table.store.layout.data_file(table.store.partition_directory(lost.partition), 0, lost.file)
    content = Path(path).read_bytes()
    Path(path).unlink()
    planned = table.remove_unexisting_files()
    assert (planned.paths, planned.rows, planned.dry_run) == ((path,), 5, True)
    with pytest.raises(lw.CorruptTableError):
        lw.read_table(table)
    done = table.remove_unexisting_files(dry_run=False)
    assert (done.paths, done.snapshot_id) == ((path,), snapshot.id + 1)
    Path(path).write_bytes(content)
    gone = {k for k in rows if k not in lw.read_table(table)["k"].to_pylist()}
    assert 4 <= len(gone) <= 5
    index = table.store.manifests.read_index(table.snapshot().index_manifest)  # type: ignore[union-attr,arg-type]
    assert lost.file.file_name not in {one.data_file for entry in index for one in entry.file.deletion_ranges or ()}
    assert len(lw.read_table(table, snapshot_id=snapshot.id)) == len(rows)


def test_a_missing_file_of_vectors_is_an_error(table: lw.FileStoreTable) -> None:
    table.delete("k IN (0, 10)")
    for path in Path(table.table_path, "index").iterdir():
        path.unlink()
    assert table.remove_unexisting_files(dry_run=False).count == 0
    for path in files_of(table):
        path.unlink()
    with pytest.raises(lw.CorruptTableError, match="come back"):
        table.remove_unexisting_files(dry_run=False)


def test_hints_and_lost_tags_are_repaired(table: lw.FileStoreTable) -> None:
    root = Path(table.table_path)
    for name, snapshot_id in (("whole", 3), ("cut", 2), ("lost", 1), ("part", 2)):
        table.create_tag(name, snapshot_id)
    table.repair()
    assert table.repair().is_empty
    (root / "snapshot/LATEST").write_text("2")
    (root / "snapshot/EARLIEST").unlink()
    (root / "tag/tag-cut").write_text("{")
    lost = table.store.tags.get("lost").snapshot
    for name in (lost.base_manifest_list, lost.delta_manifest_list):
        (root / "manifest" / name).unlink()
    planned = table.repair(dry_run=True)
    assert (root / "snapshot/LATEST").read_text() == "2"
    done = table.repair()
    assert [(step.kind, step.repaired) for step in planned.steps] == [(s.kind, s.repaired) for s in done.steps]
    assert [(s.kind, Path(s.path).name) for s in done.steps] == [
        ("hint", "LATEST"),
        ("hint", "EARLIEST"),
        ("tag", "tag-cut"),
        ("tag", "tag-lost"),
    ]
    assert (root / "snapshot/LATEST").read_text() == "3"
    assert (root / "snapshot/EARLIEST").read_text() == "1"
    assert table.list_tags() == ["part", "whole"]
    files_of(table)[0].unlink()
    steps = table.repair().steps
    assert {step.repaired for step in steps} == {False}
    assert "delete_tag removes it" in steps[0].message
    assert table.list_tags() == ["part", "whole"]


def test_left_overs_of_branches_go_when_they_are_old(table: lw.FileStoreTable) -> None:
    table.create_branch("kept")
    left = Path(table.table_path, "branch/.branch-1/schema")
    left.mkdir(parents=True)
    (left / "schema-0").write_text("{}")
    assert [step.repaired for step in table.repair().steps if step.kind == "branch"] == [False]
    os.utime(left / "schema-0", (0, 0))
    assert [step.repaired for step in table.repair().steps if step.kind == "branch"] == [True]
    assert not left.parent.exists()
    assert table.list_branches() == ["kept"]


def _prepare(catalog: lw.Catalog) -> None:
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS))
    made = catalog.get_table("d.t")
    for n in (1, 2):
        lw.write_table(pa.table({"k": [n], "p": ["a"]}), made)
    snapshot = made.snapshot(1)
    assert snapshot is not None
    (entry,) = made.store.manifests.live(snapshot)
    made.store.storage.delete(made.store.layout.data_file("", 0, entry.file))


def _observe(catalog: lw.Catalog) -> list[int]:
    try:
        found: list[int] = lw.read_table(catalog.get_table("d.t"))["k"].to_pylist()
    except lw.CorruptTableError:
        return []
    return found


@pytest.mark.long
def test_every_fault_leaves_the_missing_file_named_or_not() -> None:
    def run(catalog: lw.Catalog) -> None:
        catalog.get_table("d.t").remove_unexisting_files(dry_run=False)

    report = enumerate_faults(Operation("remove unexisting", _prepare, run), _observe, thin=is_thin())
    assert report.calls > 5
    assert [failure for failure in report.failures if "clean-up" not in failure] == []


def test_a_damaged_newest_snapshot_is_reported_and_can_be_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_files, "BODY_WAIT_SECONDS", 0)  # no writer is about to finish the file
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", pa.schema({"n": pa.int64()}))
    table = catalog.get_table("d.t")
    for number in range(3):
        lw.write_table(pa.table({"n": [number]}), table)
    newest = Path(table.table_path, "snapshot", "snapshot-3")
    newest.write_text('{"ver')
    [step] = [step for step in table.repair().steps if step.kind == "snapshot"]
    assert (step.path, step.repaired) == (str(newest), False)
    assert "delete the file and call table.repair()" in step.message
    with pytest.raises(lw.CorruptTableError, match=r"delete the file and call table.repair\(\)"):
        lw.read_table(table)
    newest.unlink()
    assert [step.message for step in table.repair().steps] == ["LATEST says '3'; it is 2"]
    assert sorted(lw.read_table(table)["n"].to_pylist()) == [0, 1]
    lw.write_table(pa.table({"n": [9]}), table)
    assert lw.read_table(table).num_rows == 3

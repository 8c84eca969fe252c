"""Tables with deleted rows kept healthy: expiry, orphans, overwrites, tags, and changes that race with each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from contract.fault_enumerator import stray_files
from lakewright.commit.committer import Committer
from lakewright.dml import delete_update, row_changes
from lakewright.dml.row_location import bind_condition
from lakewright.spec.manifest import IndexFile
from lakewright.spec.snapshot import Snapshot

VECTORS = {"deletion-vectors.enabled": "true"}
BUCKETS = {"bucket": "2", "bucket-key": "id"}
KINDS: dict[str, dict[str, str]] = {
    "vectors": VECTORS,
    "vectors in buckets": {**VECTORS, **BUCKETS},
    "copies": {},
    "copies in buckets": BUCKETS,
    "tracked copies": {"row-tracking.enabled": "true"},
}


def make(path: Path, options: dict[str, str], partitions: list[str] | None = None) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(path)})
    catalog.create_database("d")
    columns = pa.schema({"id": pa.int64(), "p": pa.int64(), "n": pa.int64()})
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, partition_keys=partitions, options=options))
    table = catalog.get_table("d.t")
    for first in (0, 10):
        rows = range(first, first + 10)
        lw.write_table(pa.table({"id": rows, "p": [i % 2 for i in rows], "n": [0] * 10}), table)
    return table


def ids(table: lw.FileStoreTable, **at: str) -> list[int]:
    found: list[int] = lw.read_table(table, **at)["id"].to_pylist()  # type: ignore[arg-type]
    return sorted(found)


def index_files(table: lw.FileStoreTable) -> list[IndexFile]:
    snapshot = table.snapshot()
    assert snapshot is not None
    if snapshot.index_manifest is None:
        return []
    return [entry.file for entry in table.store.manifests.read_index(snapshot.index_manifest)]


def on_disk(table: lw.FileStoreTable) -> set[str]:
    return {path.name for path in (Path(table.table_path) / "index").iterdir()}


# ---- upkeep ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_expiry_removes_what_only_old_snapshots_name(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, KINDS[kind])
    table.delete("id = 1")
    table.create_tag("kept")
    table.delete("id = 2 OR id = 12")
    table.update({"n": 1}, "id < 4")
    table.delete("id = 13")
    left = [i for i in range(20) if i not in {1, 2, 12, 13}]
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert ids(table) == left
    assert ids(table, tag="kept") == [i for i in range(20) if i != 1]
    assert stray_files(table.store) == set()
    table.delete_tag("kept")
    table.delete("id = 0")
    table.expire_snapshots(retain_max=1, retain_min=1)
    table.remove_orphan_files(older_than=0)  # nothing is that old: it only has to agree on what is in use
    assert ids(table) == left[1:]
    if "vectors" in kind:
        assert {file.file_name for file in index_files(table)} <= on_disk(table)


def test_an_overwrite_of_a_partition_drops_its_vectors(tmp_path: Path) -> None:
    for number, buckets in enumerate(({}, BUCKETS)):
        table = make(tmp_path / str(number), {**VECTORS, **buckets}, ["p"])
        table.delete("id < 4 OR id >= 18")
        lw.write_table(pa.table({"id": [100], "p": [1], "n": [0]}), table, mode="overwrite")
        assert ids(table) == [4, 6, 8, 10, 12, 14, 16, 100]
        names = {r.data_file for file in index_files(table) for r in file.deletion_ranges or ()}
        live = {f.file_name for split in table.new_read_builder().new_scan().plan().splits() for f in split.files}
        assert names <= live
        assert table.delete("p = 1").deleted == 1
        assert table.delete("id = 4").deleted == 1
        assert ids(table) == [6, 8, 10, 12, 14, 16]


def test_a_table_without_vectors_forgets_those_it_had(tmp_path: Path) -> None:
    """Where the option was switched off, files with vectors are copied without the deleted rows."""
    table = make(tmp_path, {**VECTORS, "deletion-vectors.modifiable": "true"})
    table.delete("id = 3")
    schema = table.schema.with_options({"deletion-vectors.enabled": "false"})
    plain = lw.FileStoreTable(table.identifier, table.store.with_schema(schema))
    result = plain.delete("id = 4")
    assert (result.deleted, result.method) == (1, "copied files")
    assert ids(plain) == [i for i in range(20) if i not in {3, 4}]
    assert [r.data_file for file in index_files(plain) for r in file.deletion_ranges or ()] == []


# ---- races -----------------------------------------------------------------------------------------------------------


def racing(
    monkeypatch: pytest.MonkeyPatch, table: lw.FileStoreTable, meanwhile: Callable[[], object], times: int = 1
) -> None:
    """Let something else happen right before the next commits."""
    real = Committer.commit
    left = [times]

    def commit(self: Committer, *args: object, **kwargs: object) -> Snapshot | None:
        if left[0]:
            left[0] -= 1
            before, left[0] = left[0], 0
            meanwhile()
            left[0] = before
        return real(self, *args, **kwargs)  # type: ignore[arg-type]

    assert table.snapshot() is not None
    monkeypatch.setattr(Committer, "commit", commit)


@pytest.mark.parametrize("kind", KINDS)
def test_of_two_deletes_of_one_file_both_get_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    table = make(tmp_path, KINDS[kind])
    racing(monkeypatch, table, lambda: table.delete("id = 3 OR id = 5"))
    result = table.delete("id = 4 OR id = 5")
    assert (result.deleted, result.attempts) == (1, 2)
    assert ids(table) == [i for i in range(20) if i not in {3, 4, 5}]
    assert stray_files(table.store) == set()


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_sees_what_was_updated_in_the_meantime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    table = make(tmp_path, KINDS[kind])
    racing(monkeypatch, table, lambda: table.update({"n": 5}, "id < 2"))
    result = table.update({"n": 7}, "n = 5 OR id = 1")
    assert (result.updated, result.attempts) == (2, 2)
    assert sorted(row["id"] for row in lw.read_table(table).to_pylist() if row["n"] == 7) == [0, 1]
    assert stray_files(table.store) == set()


def test_a_delete_that_meets_an_overwrite_deletes_of_what_is_there_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path, VECTORS)
    rows = pa.table({"id": [1, 50], "p": [0, 0], "n": [0, 0]})
    racing(monkeypatch, table, lambda: lw.write_table(rows, table, mode="overwrite"))
    assert table.delete("id < 10").deleted == 1
    assert ids(table) == [50]


def test_a_delete_that_meets_an_append_or_a_delete_elsewhere_needs_no_second_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path, VECTORS)
    racing(monkeypatch, table, lambda: lw.write_table(pa.table({"id": [4], "p": [0], "n": [9]}), table))
    assert table.delete("id = 4").attempts == 1
    racing(monkeypatch, table, lambda: table.delete("id = 15"))
    assert table.delete("id = 5").attempts == 1
    assert ids(table) == [i for i in range(20) if i not in {5, 15}]


def test_whoever_always_loses_says_so_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path, {**VECTORS, "commit.max-retries": "2"})
    victims = iter(range(10))
    racing(monkeypatch, table, lambda: delete_update.delete(table.store, f"id = {next(victims)}"), times=9)
    with pytest.raises(lw.errors.CommitConflictError, match=r"d\.t"):
        table.delete("id >= 0 AND id < 10")
    assert ids(table) == list(range(3, 20))
    assert stray_files(table.store) == set()


def test_what_is_in_doubt_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path, VECTORS)

    def unknown(*_: object, **__: object) -> None:
        raise lw.errors.CommitUnknownError("nobody can say")

    monkeypatch.setattr(Committer, "commit", unknown)
    with pytest.raises(lw.errors.CommitUnknownError):
        table.delete("id = 1")
    assert len(on_disk(table)) == 1


def test_messages_can_be_had_without_a_commit(tmp_path: Path) -> None:
    """What is prepared knows what it was planned on, so that a late commit is refused."""
    table = make(tmp_path, VECTORS)
    base = table.snapshot()
    prepared = delete_update.prepare_delete(table.store, bind_condition(table.store, "id = 1"), base)
    messages = prepared.planned_on(base)
    table.delete("id = 2")
    with pytest.raises(lw.errors.CommitConflictError):
        Committer(table.store).commit(messages)
    assert isinstance(prepared, row_changes.PreparedChange)
    assert ids(table) == [i for i in range(20) if i != 2]

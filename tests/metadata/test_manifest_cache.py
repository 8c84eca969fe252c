"""Decoded manifests that a process keeps: right values, bounded, and never instead of a file that must be missed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from contract.faulty_storage import FaultyStorage, MemoryStorage
from lakewright.catalog.filesystem_catalog import FileSystemCatalog
from lakewright.commit.committer import Committer
from lakewright.errors import CorruptTableError, NotFoundError
from lakewright.metadata.manifest_columns import EntryColumns
from lakewright.metadata.manifest_files import CACHE, ManifestCache, is_random
from lakewright.read.manifest_scan import scan
from lakewright.read.time_travel import resolve_snapshot

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
MANIFEST = "/manifest/"


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    CACHE.clear()
    yield
    CACHE.clear()


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "p": ["x"] * len(ids)}, schema=SCHEMA)


def new_table(root: Path, options: dict[str, str] | None = None) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(root)})
    catalog.create_database("d", ignore_if_exists=True)
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(SCHEMA, options=options or {}))
    table = catalog.get_table("d.t")
    assert isinstance(table, lw.FileStoreTable)
    return table


def ids(table: lw.FileStoreTable) -> list[int]:
    return sorted(lw.read_table(table)["id"].to_pylist())


def watched(table: lw.FileStoreTable) -> tuple[lw.FileStoreTable, FaultyStorage]:
    """Return the table with a storage that counts."""
    storage = FaultyStorage(table.store.storage)
    counted = FileSystemCatalog(storage, table.store.layout.root.rpartition("/d.db/")[0]).get_table("d.t")
    assert isinstance(counted, lw.FileStoreTable)
    return counted, storage


def manifest_reads(storage: FaultyStorage) -> list[str]:
    found = [call.path.rpartition("/")[2] for call in storage.calls if call.verb == "read" and MANIFEST in call.path]
    storage.calls.clear()
    return found


def test_a_file_is_read_once(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    for number in range(3):
        lw.write_table(rows(number), table)
    counted, storage = watched(table)
    assert ids(counted) == [0, 1, 2]
    assert len(manifest_reads(storage)) == 2 + 3  # two lists, three manifests
    assert ids(counted) == [0, 1, 2]
    assert manifest_reads(storage) == []


def test_a_new_snapshot_costs_its_own_files(tmp_path: Path) -> None:
    """A manifest with a random name is read once; of one that is named after a write job, the bytes are compared."""
    table = new_table(tmp_path)
    lw.write_table(rows(1), table)
    table.compact_manifests()
    lw.write_table(rows(2), table)
    lw.write_table(rows(3), table)
    table.compact_manifests()  # one manifest with a random name
    counted, storage = watched(table)
    assert ids(counted) == [1, 2, 3]
    merged = {name for name in manifest_reads(storage) if is_random(name) and "list" not in name}
    assert len(merged) == 1
    lw.write_table(rows(4), table)
    assert ids(counted) == [1, 2, 3, 4]
    read = manifest_reads(storage)
    assert merged.isdisjoint(read)
    assert len(read) == 3  # two lists, one manifest


def test_a_table_made_anew_at_the_same_place_shows_its_own_rows(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    lw.write_table(rows(1), table)
    assert ids(table) == [1]
    lw.CatalogFactory.create({"warehouse": str(tmp_path)}).drop_table("d.t")
    anew = new_table(tmp_path)
    lw.write_table(rows(2), anew)
    assert ids(anew) == [2]


@pytest.mark.parametrize("columns", [False, True])
def test_a_name_that_comes_again_shows_the_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, columns: bool
) -> None:
    """The manifest of a write job has the same name in a table that was made anew, or after a rollback."""
    if columns:
        monkeypatch.setattr("lakewright.metadata.manifest_files._COLUMNS_MIN", 1)
        monkeypatch.setattr("lakewright.formats.avro_columns.LANES_MIN", 0)

    def written(table: lw.FileStoreTable, id_: int) -> str:
        builder = table.new_stream_write_builder()
        with builder.new_write() as write:
            messages = [replace(m, write_id="job") for m in write.write_arrow(rows(id_)).prepare_commit(7)]
        Committer(table.store, commit_user="job").commit(messages, 7)
        snapshot = resolve_snapshot(table.store)
        assert snapshot is not None
        return table.store.manifests.files_of(snapshot)[-1].file_name

    table = new_table(tmp_path)
    lw.write_table(rows(0), table)
    first = written(table, 1)
    assert ids(table) == [0, 1]
    table.rollback_to(1)
    assert ids(table) == [0]
    (tmp_path / "d.db" / "t" / "manifest" / first).unlink()  # as the removal of orphans does
    assert written(table, 2) == first
    assert ids(table) == [0, 2]
    lw.write_table(rows(3), table)
    assert ids(table) == [0, 2, 3]  # by way of the base list
    lw.CatalogFactory.create({"warehouse": str(tmp_path)}).drop_table("d.t")
    anew = new_table(tmp_path)
    assert written(anew, 4) == first
    assert ids(anew) == [4]


def test_an_expired_snapshot_is_missed(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    lw.write_table(rows(1), table)
    old = table.copy({"scan.snapshot-id": "1"})
    builder = old.new_read_builder()
    read, splits = builder.new_read(), builder.new_scan().plan().splits()
    assert ids(old) == [1]
    lw.write_table(rows(2), table, mode="overwrite")
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=2**60)
    with pytest.raises(NotFoundError, match="it has expired"):
        ids(old)
    with pytest.raises(NotFoundError, match="snapshot 1 has expired"):
        read.to_arrow(splits)


def test_checks_see_what_is_stored(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    lw.write_table(rows(1), table)
    assert ids(table) == [1]
    manifest = next(
        path for path in (tmp_path / "d.db" / "t" / "manifest").glob("manifest-*-0") if "list" not in path.name
    )
    data = manifest.read_bytes()
    manifest.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert not table.verify().is_sound
    with pytest.raises(CorruptTableError):
        table.store.manifests.without_cache().live(table.store.snapshots.get(1))


def test_the_option_turns_it_off(tmp_path: Path) -> None:
    table = new_table(tmp_path, {"lakewright.manifest-cache": "0 b"})
    lw.write_table(rows(1), table)
    counted, storage = watched(table)
    for _ in range(2):
        assert ids(counted) == [1]
        assert len(manifest_reads(storage)) == 3
    assert CACHE.size == 0


def test_two_sizes_of_one_file_are_damage(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    lw.write_table(rows(1), table)
    manifests, snapshot = table.store.manifests, table.store.snapshots.get(1)
    (manifest,) = manifests.files_of(snapshot)
    assert len(manifests.read(manifest, snapshot=snapshot)) == 1
    with pytest.raises(CorruptTableError, match="bytes, but the file that names it says"):
        manifests.read(replace(manifest, file_size=manifest.file_size + 1), snapshot=snapshot)
    with pytest.raises(CorruptTableError, match="adds 1 files"):
        manifests.read(replace(manifest, num_added_files=2), snapshot=snapshot)


def test_the_bound_holds_and_what_was_used_last_stays() -> None:
    cache = ManifestCache()
    for number in range(10):
        cache.put(("s", f"/m/{number}"), b"%d" % number, "state", (number, 30), 100)
        cache.get(("s", "/m/0"), None, "state")
        assert cache.size <= 100
    assert [cache.get(("s", f"/m/{number}"), 1, "state") for number in (0, 7, 8, 9)] == [0, None, 8, 9]
    cache.put(("s", "/m/large"), b"", "state", (1, 101), 100)
    assert cache.get(("s", "/m/large"), None, "state") is None
    cache.put(("s", "/m/9"), b"9", "state", (90, 10), 100)
    assert cache.size == 70
    cache.drop(("s", "/m/9"))
    cache.drop(("s", "/m/9"))
    assert cache.size == 60
    cache.put(("s", "/m/small"), b"", "state", ("small", 10), 10)
    assert cache.size == 10


def test_other_credentials_share_nothing() -> None:
    stores = [MemoryStorage("a"), MemoryStorage("b")]
    CACHE.put((stores[0], "/m/x"), b"", "state", (1, 1), 10)
    assert CACHE.get((stores[1], "/m/x"), None, "state") is None
    assert CACHE.get((MemoryStorage("a"), "/m/x"), None, "state") == 1


def test_many_threads_plan_at_once(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    for number in range(4):
        lw.write_table(rows(number), table)
    failures: list[BaseException] = []

    def plan(number: int) -> None:
        try:
            for _ in range(5):
                assert ids(table.copy({"lakewright.manifest-cache": f"{number * 4} kb"})) == [0, 1, 2, 3]
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test fails with it
            failures.append(error)

    threads = [threading.Thread(target=plan, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_child_process_begins_with_nothing() -> None:
    CACHE.put(("s", "/m/x"), b"", "state", (1, 1), 10)
    child = os.fork()
    if child == 0:
        os._exit(CACHE.size)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert CACHE.size == 1


def test_what_was_decoded_as_columns_serves_small_reads_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path)
    lw.write_table(rows(1), table)
    snapshot = table.store.snapshots.get(1)
    with monkeypatch.context() as patch:
        patch.setattr("lakewright.metadata.manifest_files._COLUMNS_MIN", 1)
        patch.setattr("lakewright.formats.avro_columns.LANES_MIN", 0)
        chosen = table.store.manifests.live_of(table.store.manifests.files_of(snapshot), snapshot)
    assert not isinstance(chosen, list)
    assert isinstance(chosen.parts[0], EntryColumns)
    assert table.store.manifests.live(snapshot) == chosen.entries()
    assert list(scan(table.store, snapshot).entries) == chosen.entries()

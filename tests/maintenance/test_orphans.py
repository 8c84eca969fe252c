from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lakewright.errors import CorruptTableError, InvalidInputError, LakewrightError
from lakewright.maintenance import orphan_files
from lakewright.maintenance.orphan_files import DAY_MILLIS, find_orphans, remove_orphans
from lakewright.metadata.table_store import TableStore
from lakewright.spec.snapshot import to_json
from lakewright.table.open_table import open_table
from support.commits import committer, data_file, live_names, message, new_store
from support.golden import WAREHOUSE, expected

LATER = int(time.time() * 1000) + 10 * DAY_MILLIS  # everything the tests write is old by then


def files_in(root: Path) -> Iterator[str]:
    yield from (str(p) for p in root.rglob("*") if p.is_file())


def table(tmp_path: Path) -> tuple[TableStore, list[str]]:
    """Return a table with three snapshots and, beside it, the paths of files that nothing names."""
    store = new_store(tmp_path, partition_keys=["dt"])
    for name in "abc":
        committer(store).commit([message(store, name, partition=("x",))])
    layout = store.layout
    strays = [
        f"{layout.bucket_directory('dt=x', 0)}/stray.parquet",
        f"{layout.bucket_directory('dt=never', 3)}/stray.parquet",
        layout.manifest_file("manifest-stray-0"),
        layout.manifest_file("manifest-list-stray-0"),
        layout.index_file("index-stray-0"),
        layout.statistics_file("stat-stray-0"),
        f"{layout.snapshot_directory}/.snapshot-9.tmp",
        f"{layout.snapshot_directory}/snapshot-9.tmp-x",
        f"{layout.schema_directory}/.schema-1.5f0c.tmp",
        f"{layout.tag_directory}/.create-once-{uuid.uuid4()}",
        f"{layout.consumer_directory}/.consumer-c.5f0c.tmp",
    ]
    for path in strays:
        store.storage.create(path, b"12345")
    return store, sorted(strays)


def test_exactly_what_nothing_names_is_removed(tmp_path: Path) -> None:
    store, strays = table(tmp_path)
    others = [
        f"{store.layout.tag_directory}/.notes",
        f"{store.layout.root}/dt=x/notes.txt",
        f"{store.layout.root}/README",
        f"{store.layout.root}/my/data.txt",
    ]
    for path in others:
        store.storage.create(path, b"mine")
    before = set(files_in(tmp_path))
    found = find_orphans(store, now=LATER)
    assert sorted(found.paths) == strays
    assert (found.count, found.bytes, found.dry_run) == (len(strays), 5 * len(strays), True)
    assert set(files_in(tmp_path)) == before
    removed = remove_orphans(store, now=LATER)
    assert sorted(removed.paths) == strays
    assert set(files_in(tmp_path)) == before - set(strays)
    assert live_names(store) == ["a", "b", "c"]
    assert remove_orphans(store, now=LATER).count == 0


def test_young_files_are_left_to_the_writers_at_work(tmp_path: Path) -> None:
    store, strays = table(tmp_path)
    assert remove_orphans(store).count == 0
    old = strays[0]
    os.utime(old, (1, 1))
    assert remove_orphans(store).paths == (old,)
    os.utime(strays[1], (5, 5))
    assert remove_orphans(store, older_than_millis=5000).count == 0  # changed at that time, not before it
    assert remove_orphans(store, older_than_millis=5001).paths == (strays[1],)
    assert remove_orphans(store, older_than_millis=LATER - 1, now=LATER).count == len(strays) - 2
    with pytest.raises(InvalidInputError, match="future"):
        remove_orphans(store, older_than_millis=LATER)


def test_files_of_a_commit_after_the_snapshots_were_read_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, strays = table(tmp_path)
    read = orphan_files.while_named

    def read_and_commit(store: TableStore, names: Callable[[], None]) -> None:
        read(store, names)
        committer(store).commit([message(store, "d", partition=("x",))])

    monkeypatch.setattr(orphan_files, "while_named", read_and_commit)
    assert sorted(remove_orphans(store, now=LATER).paths) == strays
    assert live_names(store) == ["a", "b", "c", "d"]


def test_tags_branches_and_changelogs_keep_files_alive(tmp_path: Path) -> None:
    store, strays = table(tmp_path)
    tagged = store.snapshots.get(3)
    store.tags.create("keep", tagged)
    branch = replace(store, layout=store.layout.for_branch("dev"))
    assert branch.schemas.create(store.schema)
    on_branch = message(store, "on-branch", partition=("x",))
    committer(branch).commit([replace(on_branch, table="")])
    only_tag = message(branch, "on-branch-tag", partition=("x",))
    committer(branch).commit([replace(only_tag, table="")])
    branch.tags.create("deep", branch.snapshots.get(2))
    store.storage.delete(branch.layout.snapshot_file(2))
    with_log = replace(message(store, "d", partition=("x",)), changelog_files=(data_file("log.parquet"),))
    store.storage.create(f"{store.layout.bucket_directory('dt=x', 0)}/log.parquet", b"0123456789")
    committer(store).commit([with_log])
    kept = store.snapshots.get(4)
    store.storage.create(store.layout.changelog_file(4), to_json(kept).encode())
    for snapshot_id in (3, 4):
        store.storage.delete(store.layout.snapshot_file(snapshot_id))
    for name in (kept.base_manifest_list, kept.delta_manifest_list):  # a kept changelog has lost these
        store.storage.delete(store.layout.manifest_file(name))

    removed = set(remove_orphans(store, now=LATER).paths)
    left = {path.rpartition("/")[2] for path in files_in(tmp_path)}
    assert removed > set(strays)
    assert {"a.parquet", "b.parquet", "c.parquet", "on-branch.parquet", "on-branch-tag.parquet", "log.parquet"} <= left
    assert "d.parquet" not in left  # only its changelog was kept
    assert live_names(store, tagged) == ["a", "b", "c"]
    assert live_names(branch, branch.tags.get("deep").snapshot) == ["on-branch", "on-branch-tag"]


@pytest.mark.parametrize("victim", ["snapshot", "list", "manifest", "tag", "branch"])
def test_nothing_is_deleted_when_anything_cannot_be_read(tmp_path: Path, victim: str) -> None:
    store, _ = table(tmp_path)
    newest = store.snapshots.get(3)
    store.tags.create("t", newest)
    paths = {
        "snapshot": store.layout.snapshot_file(2),
        "list": store.layout.manifest_file(newest.base_manifest_list),
        "manifest": store.layout.manifest_file(store.manifests.files_of(newest)[0].file_name),
        "tag": store.layout.tag_file("t"),
        "branch": f"{store.layout.branch_directory('half')}/schema/not-a-schema",
    }
    if victim == "branch":
        store.storage.create(paths[victim], b"")
    else:
        store.storage.replace(paths[victim], b"damaged}")
    before = set(files_in(tmp_path))
    with pytest.raises(LakewrightError) as caught:
        remove_orphans(store, now=LATER)
    assert isinstance(caught.value, CorruptTableError)
    assert set(files_in(tmp_path)) == before


def test_links_are_never_followed(tmp_path: Path) -> None:
    store, strays = table(tmp_path)
    outside = tmp_path / "outside" / "bucket-0"
    outside.mkdir(parents=True)
    (outside / "precious.parquet").write_bytes(b"x")
    Path(f"{store.layout.root}/dt=link").symlink_to(tmp_path / "outside")
    Path(f"{store.layout.root}/dt=x/bucket-7").symlink_to(outside)
    Path(f"{store.layout.root}/dt=x/bucket-0/link.parquet").symlink_to(outside / "precious.parquet")
    assert sorted(remove_orphans(store, now=LATER).paths) == strays
    assert (outside / "precious.parquet").exists()


def test_only_a_rollback_left_orphans_in_the_golden_tables() -> None:
    found = {}
    for name in expected():
        database, table_name = name.split(".")
        store = open_table(f"{WAREHOUSE}/{database}.db/{table_name}").store
        found[name] = find_orphans(store, now=LATER).count
    assert {name: count for name, count in found.items() if count} == {"meta.rollback": 4}

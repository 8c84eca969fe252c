"""Rollback: a table goes back to a snapshot, a tag or a time."""

from __future__ import annotations

import warnings
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.errors import TagNotExistException

COLUMNS = pa.schema({"k": pa.int64(), "v": pa.string()})


def write(table: lw.FileStoreTable, key: int) -> None:
    lw.write_table(pa.table({"k": [key], "v": ["x"]}, schema=COLUMNS), table)


def keys(table: lw.FileStoreTable, **travel: object) -> list[int]:
    return sorted(lw.read_table(table, **travel)["k"].to_pylist())  # type: ignore[arg-type]


@pytest.fixture
def catalog(tmp_path: Path) -> lw.Catalog:
    return lw.CatalogFactory.create({"warehouse": str(tmp_path)})


@pytest.fixture
def table(catalog: lw.Catalog) -> lw.FileStoreTable:
    """Return a table with the snapshots 1 to 5, of which 2 and 4 are tagged."""
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS))
    made = catalog.get_table("d.t")
    for key in range(1, 6):
        write(made, key)
        if key in {2, 4}:
            made.create_tag(f"v{key}")
    return made


def test_back_to_a_snapshot(table: lw.FileStoreTable) -> None:
    table.rollback_to(3)
    assert (keys(table), table.store.snapshots.ids(), table.list_tags()) == ([1, 2, 3], [1, 2, 3], ["v2"])
    assert table.store.storage.read(table.store.layout.latest_hint) == b"3"
    write(table, 9)
    assert (keys(table), keys(table, tag="v2")) == ([1, 2, 3, 9], [1, 2])
    table.remove_orphan_files(older_than=timedelta(milliseconds=1))
    assert (keys(table), keys(table, snapshot_id=1)) == ([1, 2, 3, 9], [1])


def test_back_to_a_tag_whose_snapshot_has_expired(table: lw.FileStoreTable) -> None:
    table.expire_snapshots(retain_max=1, retain_min=1)
    table.rollback_to("v2")
    assert (keys(table), table.store.snapshots.ids(), table.list_tags()) == ([1, 2], [2], ["v2"])
    assert table.store.snapshots.earliest_id() == 2
    write(table, 9)
    assert keys(table) == [1, 2, 9]


def test_back_to_the_id_of_an_expired_snapshot_that_a_tag_keeps(table: lw.FileStoreTable) -> None:
    table.expire_snapshots(retain_max=1, retain_min=1)
    table.rollback_to(4)
    assert (keys(table), table.store.snapshots.ids()) == ([1, 2, 3, 4], [4])


def test_back_to_a_time(table: lw.FileStoreTable) -> None:
    third = table.snapshot(3)
    assert third is not None
    table.rollback_to_timestamp(third.time_millis)
    assert keys(table) == [1, 2, 3]
    with pytest.raises(lw.NotFoundError, match="No snapshot found with timestamp earlier"):
        table.rollback_to_timestamp(1)


def test_a_target_that_does_not_exist_names_its_neighbours(table: lw.FileStoreTable, catalog: lw.Catalog) -> None:
    table.expire_snapshots(retain_max=1, retain_min=1)
    for target, near in ((3, "2 and 4"), (9, "5"), (0, "2")):
        with pytest.raises(lw.NotFoundError, match=f"snapshot {target} doesn't exist; the nearest: {near}$") as missing:
            catalog.rollback_to("d.t", target)
        assert missing.value.snapshot_id == target
    with pytest.raises(TagNotExistException, match="its tags are v2, v4") as unknown:
        table.rollback_to("v3")
    assert unknown.value.tag == "v3"
    for wrong in (True, None, 2.5, ["v2"], " "):
        with pytest.raises(lw.InvalidInputError):
            table.rollback_to(wrong)  # type: ignore[arg-type]
    assert keys(table) == [1, 2, 3, 4, 5]


def test_only_from_the_snapshot_that_the_caller_has_seen(table: lw.FileStoreTable, catalog: lw.Catalog) -> None:
    with pytest.raises(lw.CommitConflictError, match="its newest snapshot is 5, not 4"):
        catalog.rollback_to("d.t", 2, from_snapshot=4)
    assert keys(table) == [1, 2, 3, 4, 5]
    catalog.rollback_to("d.t", 2, from_snapshot=5)
    assert keys(table) == [1, 2]


def test_a_target_that_cannot_be_read_removes_nothing(table: lw.FileStoreTable) -> None:
    target = table.snapshot(2)
    assert target is not None
    table.store.storage.delete(table.store.layout.manifest_file(target.base_manifest_list))
    with pytest.raises((lw.CorruptTableError, lw.NotFoundError)):
        table.rollback_to(2)
    assert table.store.snapshots.ids() == [1, 2, 3, 4, 5]


def test_a_stale_handle_rolls_nothing_back(table: lw.FileStoreTable, catalog: lw.Catalog) -> None:
    catalog.drop_table("d.t")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS))
    again = catalog.get_table("d.t")
    write(again, 1)
    write(again, 2)
    with pytest.raises(lw.TableReplacedError):
        table.rollback_to(1)
    assert keys(again) == [1, 2]


def test_consumers_beyond_the_target_are_named(table: lw.FileStoreTable) -> None:
    table.store.consumers.record("fine", 3)
    table.store.consumers.record("beyond", 6)
    with pytest.warns(lw.LakewrightWarning, match="the consumers beyond wait for snapshots after 3"):
        table.rollback_to(2)
    assert table.store.consumers.all() == {"fine": 3, "beyond": 6}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.store.consumers.delete("beyond")
        table.rollback_to(2)


@pytest.mark.filterwarnings("ignore:.*a commit does nothing about:lakewright.LakewrightWarning")
def test_long_lived_changelogs_after_the_target_go(catalog: lw.Catalog) -> None:
    catalog.create_database("d")
    columns = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])
    options = {"bucket": "1", "changelog-producer": "input", "changelog.num-retained.max": "99"}
    catalog.create_table("d.c", lw.Schema.from_pyarrow_schema(columns, primary_keys=["k"], options=options))
    table = catalog.get_table("d.c")
    for key in range(1, 7):
        write(table, key)
        if key == 2:
            table.create_tag("v2")
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert max(table.store.changelogs.ids()) > 2
    table.rollback_to("v2")
    assert (table.store.changelogs.ids(), table.store.snapshots.ids()) == ([1, 2], [2])
    assert table.store.storage.read(f"{table.store.layout.changelog_directory}/LATEST") == b"2"
    assert keys(table) == [1, 2]


def test_a_branch_goes_back_by_itself(table: lw.FileStoreTable, catalog: lw.Catalog) -> None:
    table.create_branch("dev", "v2")
    branch = catalog.get_table("d.t$branch_dev")
    write(branch, 10)
    branch.rollback_to("v2")
    assert (keys(branch), keys(table)) == ([1, 2], [1, 2, 3, 4, 5])


def test_a_reader_that_has_planned_finishes(table: lw.FileStoreTable) -> None:
    builder = table.new_read_builder()
    splits = builder.new_scan().plan().splits()
    table.rollback_to(1)
    assert sorted(builder.new_read().to_arrow(splits)["k"].to_pylist()) == [1, 2, 3, 4, 5]


def test_commits_after_a_rollback_are_found_by_their_own_ids(table: lw.FileStoreTable) -> None:
    builder = table.new_stream_write_builder().with_commit_user("stream")

    def commit(identifier: int, key: int) -> int:
        with builder.new_write() as writer, builder.new_commit() as committer:
            data = pa.table({"k": [key], "v": ["x"]}, schema=COLUMNS)
            return committer.filter_and_commit({identifier: writer.write_arrow(data).prepare_commit(identifier)})

    assert commit(1, 10) == 1
    table.rollback_to(5)
    assert commit(1, 10) == 1
    assert commit(1, 10) == 0
    assert keys(table) == [1, 2, 3, 4, 5, 10]


def test_a_tag_of_what_was_rolled_back_is_no_damage(table: lw.FileStoreTable) -> None:
    """A call that was killed may have left such a tag, and another engine does not remove them."""
    table.create_tag("lost", 5)
    path = table.store.layout.tag_file("lost")
    data = table.store.storage.read(path)
    table.rollback_to(2)
    write(table, 30)
    lw.write_table(pa.table({"k": [40], "v": ["x"]}, schema=COLUMNS), table, mode="overwrite")
    table.store.storage.create(path, data)
    assert table.verify(full=True, snapshots="all").is_sound


def test_a_restored_state_is_tagged_if_it_brings_files_back(table: lw.FileStoreTable) -> None:
    table.rollback_to_as_latest(3)
    assert not [tag for tag in table.list_tags() if tag.startswith("rollback-to-as-latest-")]
    table.rollback_to_as_latest(5)
    [tag] = [tag for tag in table.list_tags() if tag.startswith("rollback-to-as-latest-5-")]
    assert (keys(table), keys(table, tag=tag)) == ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5])

"""pypaimon's managers and catalog verbs for tags, branches, consumers, schemas and rollbacks."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright.pypaimon as face
from lakewright.errors import InvalidInputError, LakewrightWarning, NotFoundError, UnsupportedError
from lakewright.pypaimon.compat_table import iso_duration

COLUMNS = pa.schema({"dt": pa.string(), "n": pa.int64()})


@pytest.fixture
def catalog(tmp_path: Path) -> face.FileSystemCatalog:
    made = face.CatalogFactory.create({"warehouse": str(tmp_path)})
    assert isinstance(made, face.FileSystemCatalog)
    made.create_database("d")
    made.create_table("d.t", face.Schema.from_pyarrow_schema(COLUMNS, partition_keys=["dt"]))
    return made


@pytest.fixture
def table(catalog: face.FileSystemCatalog) -> face.FileStoreTable:
    made = catalog.get_table("d.t")
    for n in (1, 2, 3):
        write(made, f"2024-0{n}-01", n)
    return made


def write(table: face.FileStoreTable, dt: str, n: int) -> None:
    builder = table.new_batch_write_builder()
    with builder.new_write() as writer, builder.new_commit() as commit:
        commit.commit(writer.write_arrow(pa.table({"dt": [dt], "n": [n]}, schema=COLUMNS)).prepare_commit())


def numbers(table: face.FileStoreTable) -> list[int]:
    builder = table.new_read_builder()
    return sorted(builder.new_read().to_arrow(builder.new_scan().plan().splits())["n"].to_pylist())


def test_managers_follow_the_branch_of_the_table(catalog: face.FileSystemCatalog, table: face.FileStoreTable) -> None:
    table.create_tag("v1", 1)
    table.branch_manager().create_branch("dev", "v1")
    branch = catalog.get_table("d.t$branch_dev")
    assert branch.current_branch() == "dev"
    write(branch, "x", 10)
    branch.consumer_manager().reset_consumer("c", face.Consumer(2))
    assert [s.id for s in branch.snapshot_manager().list_snapshots()] == [1, 2]
    assert table.consumer_manager().list_all_ids() == []
    assert table.consumer_manager().with_branch("dev").consumers() == {"c": 2}
    assert [s.id for s in table.snapshot_manager().copy_with_branch("dev").list_snapshots()] == [1, 2]
    assert table.schema_manager.copy_with_branch("dev").branch_path == table.branch_manager().branch_path("dev")
    branch.branch_manager().create_branch("second", "v1")
    assert sorted(table.branch_manager().branches()) == ["dev", "second"]
    with pytest.warns(LakewrightWarning, match="removed the changes of .* which the branch did not have"):
        table.branch_manager().fast_forward("dev")
    assert numbers(catalog.get_table("d.t")) == [1, 10]
    with pytest.raises(ValueError, match="from the current branch"):
        branch.branch_manager().fast_forward("dev")


def test_managers_of_an_empty_table(catalog: face.FileSystemCatalog) -> None:
    table = catalog.get_table("d.t")
    snapshots, changelogs = table.snapshot_manager(), table.changelog_manager()
    assert snapshots.get_latest_snapshot() is None
    assert snapshots.try_get_earliest_snapshot() is None
    assert snapshots.earlier_or_equal_time_mills(9) is None
    assert snapshots.later_or_equal_watermark(9) is None
    assert snapshots.list_snapshots() == []
    assert changelogs.earliest_long_lived_changelog_id() is None
    assert table.tag_manager().list_tags() == []
    with pytest.raises(NotFoundError, match="No snapshot content"):
        snapshots.read_latest_file()
    with pytest.raises(NotFoundError, match="no long-lived changelog 3"):
        changelogs.changelog(3)


def test_the_changelog_manager_keeps_snapshots(table: face.FileStoreTable) -> None:
    manager = table.changelog_manager()
    snapshot = table.snapshot_manager().get_snapshot_by_id(2)
    assert snapshot is not None
    manager.commit_changelog(face.Changelog.from_snapshot(snapshot), 2)
    manager.commit_long_lived_changelog_latest_hint(2)
    manager.commit_long_lived_changelog_earliest_hint(2)
    assert (manager.latest_long_lived_changelog_id(), manager.long_lived_changelog_exists(2)) == (2, True)
    assert [(type(c), c.id) for c in manager.changelogs()] == [(face.Changelog, 2)]
    manager.delete_latest_hint()
    manager.delete_earliest_hint()
    names = [info.path.rpartition("/")[2] for info in table.store.storage.list(manager.changelog_directory())]
    assert names == ["changelog-2"]


def test_tags_have_their_time_to_live(catalog: face.FileSystemCatalog, table: face.FileStoreTable) -> None:
    before = time.time() * 1000
    catalog.create_tag("d.t", "day", time_retained="1 d")
    catalog.create_tag("d.t", "ever", snapshot_id=1)
    day, ever = catalog.get_tag("d.t", "day"), catalog.get_tag("d.t", "ever")
    assert (day.tag_name, day.tag_time_retained) == ("day", "PT24H")
    assert day.tag_create_time is not None
    assert before - 1 <= day.tag_create_time <= time.time() * 1000 + 1
    assert (ever.tag_create_time, ever.tag_time_retained) == (None, None)
    tag = table.tag_manager().get_or_throw("day")
    assert tag.tag_time_retained == timedelta(days=1)
    assert tag.trim_to_snapshot() == day.snapshot
    with pytest.raises(face.TagNotExistException) as missing:
        catalog.get_tag("d.t", "no")
    assert missing.value.tag == "no"
    assert table.delete_tag("no") is False


def test_a_catalog_rolls_back_to_instants(catalog: face.FileSystemCatalog, table: face.FileStoreTable) -> None:
    table.create_tag("v1", 1)
    catalog.rollback_to("d.t", face.Instant.snapshot(2), from_snapshot=3)
    assert numbers(table) == [1, 2]
    catalog.rollback_to("d.t", face.Instant.from_dict({"type": "tag", "tagName": "v1"}))
    assert numbers(table) == [1]
    with pytest.raises(InvalidInputError, match="Instant"):
        catalog.rollback_to("d.t", 2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Unknown instant type: 'day'"):
        face.Instant.from_dict({"type": "day"})


def test_partitions_come_in_pages(catalog: face.FileSystemCatalog, table: face.FileStoreTable) -> None:
    first = catalog.list_partitions_paged("d.t", max_results=2)
    assert ([p.spec["dt"] for p in first.elements], first.next_page_token) == (["2024-01-01", "2024-02-01"], "2")
    rest = catalog.list_partitions_paged("d.t", 2, first.next_page_token)
    assert ([p.spec["dt"] for p in rest.elements], rest.next_page_token) == (["2024-03-01"], None)
    found = catalog.list_partitions_paged("d.t", partition_name_pattern="dt=2024-02*").elements
    assert [(p.record_count, p.file_count, p.total_buckets, p.done) for p in found] == [(1, 1, 1, False)]
    catalog.drop_partitions("d.t", [{"dt": "2024-02-01"}])
    assert numbers(table) == [1, 3]


def test_what_a_filesystem_catalog_does_not_do(catalog: face.FileSystemCatalog) -> None:
    change = face.PropertyChange.set_property("owner", "ada")
    for call in (
        lambda: catalog.alter_database("d", [change]),
        lambda: catalog.create_partitions("d.t", [{"dt": "x"}]),
        lambda: catalog.load_snapshot("d.t"),
    ):
        with pytest.raises(NotImplementedError) as refused:
            call()  # type: ignore[no-untyped-call]
        assert isinstance(refused.value, UnsupportedError)
    assert catalog.supports_version_management() is False
    assert catalog.get_table_path("d.t") == f"{catalog.get_database_path('d')}/t"
    assert catalog.get_table_schema("d.t").id == 0
    both = face.PropertyChange.get_set_properties_to_remove_keys([change, face.PropertyChange.remove_property("x")])
    assert both == ({"owner": "ada"}, {"x"})


def test_a_schema_manager_makes_and_changes_a_table(catalog: face.FileSystemCatalog) -> None:
    table = catalog.get_table("d.t")
    path = catalog.get_table_path("d.new")
    manager = face.SchemaManager(table.file_io, path)
    assert manager.latest() is None
    manager.create_table(face.Schema.from_pyarrow_schema(COLUMNS))
    with pytest.raises(ValueError, match="creation is not allowed"):
        manager.create_table(face.Schema.from_pyarrow_schema(COLUMNS))
    changed = manager.commit_changes([face.SchemaChange.set_option("snapshot.num-retained.max", "5")])
    assert (changed.id, [schema.id for schema in manager.list_all()]) == (1, [0, 1])
    assert manager.commit(changed) is False
    assert numbers(catalog.get_table("d.new")) == []


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(0), "PT0S"),
        (timedelta(hours=25), "PT25H"),
        (timedelta(minutes=90), "PT1H30M"),
        (timedelta(seconds=61, milliseconds=500), "PT1M1.5S"),
        (timedelta(microseconds=1), "PT0.000001S"),
    ],
)
def test_durations_are_written_as_java_writes_them(duration: timedelta, text: str) -> None:
    assert iso_duration(duration) == text

"""Branches: made, written, tagged, compacted, expired, renamed, dropped, and taken over into the table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from contract.faulty_storage import MemoryStorage
from lakewright.errors import (
    BranchAlreadyExistException,
    BranchNotExistException,
    TableNotExistException,
    TagNotExistException,
)
from lakewright.maintenance import branches, rollback
from lakewright.metadata.table_store import TableStore
from lakewright.spec.snapshot import Snapshot

COLUMNS = pa.schema({"k": pa.int64(), "v": pa.string()})


def write(table: lw.FileStoreTable, *keys: int) -> None:
    lw.write_table(pa.table({"k": list(keys), "v": [f"v{key}" for key in keys]}, schema=COLUMNS), table)


def keys(table: lw.FileStoreTable, **travel: object) -> list[int]:
    return sorted(lw.read_table(table, **travel)["k"].to_pylist())  # type: ignore[arg-type]


def two_snapshots(catalog: lw.Catalog) -> lw.FileStoreTable:
    """Return a table with the snapshots 1 and 2, of which 1 is tagged `v1`."""
    catalog.create_database("d", ignore_if_exists=True)
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS))
    table = catalog.get_table("d.t")
    write(table, 1)
    table.create_tag("v1")
    write(table, 2)
    return table


@pytest.fixture(params=["disk", "object store"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> lw.Catalog:
    if request.param == "disk":
        return lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    storage = MemoryStorage(f"branches-{tmp_path.name}", renames=False)
    storage.clear()
    return lw.FileSystemCatalog(storage, f"{storage.root}/warehouse")


def test_a_branch_of_a_tag_goes_its_own_way(catalog: lw.Catalog) -> None:
    table = two_snapshots(catalog)
    table.create_branch("dev", "v1")
    branch = catalog.get_table("d.t$branch_dev")
    assert (keys(table), keys(branch)) == ([1, 2], [1])
    write(branch, 10)
    write(table, 3)
    assert (keys(table), keys(branch)) == ([1, 2, 3], [1, 10])
    assert branch.list_tags() == ["v1"]
    assert table.list_branches() == branch.list_branches() == catalog.list_branches("d.t") == ["dev"]
    assert branch.store.snapshots.ids() == [1, 2]


def test_a_branch_without_a_tag_is_empty_and_has_the_newest_schema(catalog: lw.Catalog) -> None:
    table = two_snapshots(catalog)
    catalog.alter_table("d.t", [lw.SchemaChange.add_column("more", lw.AtomicType("INT"))])
    catalog.create_branch("d.t", "empty")
    branch = catalog.get_table("d.t$branch_empty")
    assert (branch.field_names, branch.snapshot(), branch.store.schemas.ids()) == (["k", "v", "more"], None, [0, 1])
    write_more = pa.table({"k": [7], "v": ["x"], "more": pa.array([1], pa.int32())})
    lw.write_table(write_more, branch)
    assert (keys(branch), keys(table)) == ([7], [1, 2])


def test_a_branch_of_a_tag_has_no_later_schema_and_a_tag_whose_snapshot_has_expired(
    catalog: lw.Catalog,
) -> None:
    table = two_snapshots(catalog)
    catalog.alter_table("d.t", [lw.SchemaChange.add_column("more", lw.AtomicType("INT"))])
    table.expire_snapshots(retain_max=1, retain_min=1)
    catalog.create_branch("d.t", "old", "v1")
    branch = catalog.get_table("d.t$branch_old")
    assert (branch.field_names, branch.store.schemas.ids(), keys(branch)) == (["k", "v"], [0], [1])


def test_a_branch_does_what_a_table_does(catalog: lw.Catalog) -> None:
    columns = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, primary_keys=["k"], options={"bucket": "1"}))
    table = catalog.get_table("d.t")
    write(table, 1, 2)
    table.create_tag("v1")
    table.create_branch("b", "v1")
    branch = catalog.get_table("d.t$branch_b")
    for key in (3, 4, 5):
        write(branch, key)
    branch.create_tag("mine")
    assert branch.compact(full=True).files_after == 1
    assert branch.delete("k = 1").deleted == 1
    catalog.alter_table("d.t$branch_b", [lw.SchemaChange.add_column("w", lw.AtomicType("INT"))])
    catalog.delete_tag("d.t", "v1")
    branch.delete_tag("v1")
    for key in (6, 7):
        lw.write_table(
            pa.table({"k": [key], "v": ["x"], "w": pa.array([key], pa.int32())}), catalog.get_table("d.t$branch_b")
        )
    branch.expire_snapshots(retain_max=1, retain_min=1)
    branch.remove_orphan_files(older_than=timedelta(milliseconds=1))
    assert keys(branch) == [2, 3, 4, 5, 6, 7]
    assert keys(branch, tag="mine") == [1, 2, 3, 4, 5]
    assert (keys(table), table.list_tags(), table.field_names) == ([1, 2], [], ["k", "v"])


def test_expiry_keeps_what_branches_need(catalog: lw.Catalog) -> None:
    table = two_snapshots(catalog)
    table.create_branch("dev", "v1")
    branch = catalog.get_table("d.t$branch_dev")
    for name in (table, branch):
        name.delete_tag("v1")
    write_table = table.new_batch_write_builder().overwrite()
    with write_table.new_write() as writer, write_table.new_commit() as commit:
        commit.commit(writer.write_arrow(pa.table({"k": [9], "v": ["x"]})).prepare_commit())
    expired = table.expire_snapshots(retain_max=1, retain_min=1)
    assert expired.snapshot_ids == (1, 2)
    assert "branch 'dev' keeps files of snapshot 1" in expired.held_by
    table.remove_orphan_files(older_than=timedelta(milliseconds=1))
    assert (keys(table), keys(branch)) == ([9], [1])
    table.drop_branch("dev")


@pytest.mark.parametrize("name", ["main", "12", "", " ", "a/b", ".."])
def test_impossible_branch_names_are_refused(catalog: lw.Catalog, name: str) -> None:
    table = two_snapshots(catalog)
    table.create_branch("dev")
    calls: list[Callable[[], object]] = [
        lambda: table.create_branch(name),
        lambda: table.rename_branch("dev", name),
        lambda: table.drop_branch(name),
        lambda: table.fast_forward(name),
        lambda: table.rename_branch(name, "other"),
    ]
    for call in calls:
        with pytest.raises(lw.InvalidInputError):
            call()
    assert table.list_branches() == ["dev"]


def test_errors_say_which_branch_and_tag(catalog: lw.Catalog) -> None:
    table = two_snapshots(catalog)
    table.create_branch("dev")
    with pytest.raises(BranchAlreadyExistException, match="already exists") as taken:
        catalog.create_branch("d.t", "dev", "v1")
    assert (taken.value.branch, taken.value.table) == ("dev", "d.t")
    with pytest.raises(TagNotExistException, match="v1") as missing:
        catalog.create_branch("d.t", "other", "nope")
    assert missing.value.tag == "nope"
    calls: list[Callable[[], object]] = [
        lambda: catalog.drop_branch("d.t", "no"),
        lambda: catalog.rename_branch("d.t", "no", "x"),
        lambda: catalog.fast_forward("d.t", "no"),
    ]
    for call in calls:
        with pytest.raises(BranchNotExistException, match="doesn't exist; its branches are dev") as unknown:
            call()
        assert unknown.value.branch == "no"
    table.create_branch("second")
    with pytest.raises(BranchAlreadyExistException) as target:
        table.rename_branch("dev", "second")
    assert target.value.branch == "second"
    with pytest.raises(lw.InvalidInputError, match="no snapshot to forward to"):
        table.fast_forward("dev", allow_loss=True)
    with pytest.raises(lw.InvalidInputError, match="itself"):
        catalog.get_table("d.t$branch_dev").fast_forward("dev")
    assert table.list_branches() == ["dev", "second"]


def test_a_renamed_branch_keeps_its_rows(catalog: lw.Catalog) -> None:
    table = two_snapshots(catalog)
    table.create_branch("dev", "v1")
    write(catalog.get_table("d.t$branch_dev"), 10)
    catalog.rename_branch("d.t", "dev", "prod")
    assert table.list_branches() == ["prod"]
    assert keys(catalog.get_table("d.t$branch_prod")) == [1, 10]
    with pytest.raises(BranchNotExistException):
        catalog.get_table("d.t$branch_dev")


def test_a_dropped_branch_leaves_only_orphans(catalog: lw.Catalog) -> None:
    table = two_snapshots(catalog)
    table.create_branch("dev", "v1")
    late = catalog.get_table("d.t$branch_dev")
    write(late, 10)
    builder = late.new_batch_write_builder()
    with builder.new_write() as writer:
        messages = writer.write_arrow(pa.table({"k": [11], "v": ["x"]})).prepare_commit()
    table.drop_branch("dev")
    with pytest.raises(TableNotExistException), builder.new_commit() as commit:
        commit.commit(messages)
    assert table.list_branches() == []
    assert table.remove_orphan_files(older_than=timedelta(milliseconds=1)).count > 0
    assert keys(table) == [1, 2]
    table.create_branch("dev", "v1")
    assert keys(catalog.get_table("d.t$branch_dev")) == [1]


def test_a_branch_that_the_table_falls_back_to_is_not_dropped(catalog: lw.Catalog) -> None:
    two_snapshots(catalog).create_branch("dev", "v1")
    catalog.alter_table("d.t", [lw.SchemaChange.set_option("scan.fallback-branch", "dev")])
    with pytest.raises(lw.InvalidInputError, match=r"scan\.fallback-branch"):
        catalog.drop_branch("d.t", "dev")


def test_fast_forward_keeps_the_schemas_of_tags_that_it_keeps(catalog: lw.Catalog) -> None:
    table = two_snapshots(catalog)
    table.create_branch("dev", "v1")
    write(catalog.get_table("d.t$branch_dev"), 10)
    catalog.alter_table("d.t", [lw.SchemaChange.add_column("more", "INT")])
    table = catalog.get_table("d.t")
    write(table, 3)
    table.create_tag("rollback-of-3-0a1b2c3d", 3)  # as a rollback names the tag that keeps its target
    table.fast_forward("dev", allow_loss=True)
    table = catalog.get_table("d.t")
    assert (keys(table), table.field_names, table.store.schemas.ids()) == ([1, 10], ["k", "v"], [0, 1, 2])
    assert keys(table, tag="rollback-of-3-0a1b2c3d") == [1, 2, 3]
    assert table.verify(full=True, snapshots="all").findings == ()
    table.fast_forward("dev", allow_loss=True)
    assert table.store.schemas.ids() == [0, 1, 2]


def test_fast_forward_takes_the_history_of_the_branch(catalog: lw.Catalog) -> None:
    table = two_snapshots(catalog)
    write(table, 3)
    table.create_tag("late")
    table.create_branch("dev", "v1")
    branch = catalog.get_table("d.t$branch_dev")
    write(branch, 10)
    branch.create_tag("good")
    write(branch, 11)
    write(branch, 12)
    catalog.fast_forward("d.t", "dev", allow_loss=True)
    assert table.store.snapshots.ids() == [1, 2, 3, 4]
    assert keys(table) == keys(branch) == [1, 10, 11, 12]
    assert sorted(table.list_tags()) == ["good", "v1"]
    assert keys(table, tag="good") == [1, 10]
    write(table, 13)
    assert (keys(table), keys(branch)) == ([1, 10, 11, 12, 13], [1, 10, 11, 12])
    table.remove_orphan_files(older_than=timedelta(milliseconds=1))
    assert keys(table) == [1, 10, 11, 12, 13]


def test_fast_forward_takes_the_schema_of_the_branch(catalog: lw.Catalog) -> None:
    table = two_snapshots(catalog)
    catalog.create_branch("d.t", "dev", "v1")
    catalog.alter_table("d.t", [lw.SchemaChange.add_column("here", lw.AtomicType("INT"))])
    catalog.alter_table("d.t", [lw.SchemaChange.add_column("here2", lw.AtomicType("INT"))])
    catalog.alter_table("d.t$branch_dev", [lw.SchemaChange.add_column("there", lw.AtomicType("INT"))])
    branch = catalog.get_table("d.t$branch_dev")
    lw.write_table(pa.table({"k": [5], "v": ["x"], "there": pa.array([5], pa.int32())}), branch)
    catalog.fast_forward("d.t", "dev", allow_loss=True)
    forwarded = catalog.get_table("d.t")
    assert (forwarded.field_names, forwarded.store.schemas.ids()) == (["k", "v", "there"], [0, 1, 2, 3])
    assert lw.read_table(forwarded).sort_by("k")["there"].to_pylist() == [None, 5]
    assert keys(table) == [1, 5]
    assert forwarded.verify(full=True, snapshots="all").findings == ()
    before = table.store.snapshots.ids(), table.store.snapshots.latest()
    catalog.fast_forward("d.t", "dev", allow_loss=True)
    assert (table.store.snapshots.ids(), table.store.snapshots.latest()) == before
    assert forwarded.store.schemas.ids() == [0, 1, 2, 3]


def test_columns_that_two_branches_gave_one_id_stay_apart(catalog: lw.Catalog) -> None:
    """Also in rows that were written with a schema of the table before a fast-forward, and committed after it."""
    table = two_snapshots(catalog)
    table.create_branch("dev", "v1")
    inner = lw.RowType(True, [lw.DataField(0, "a", lw.AtomicType("INT"))])  # noqa: FBT003 - pypaimon's order
    catalog.alter_table("d.t", [lw.SchemaChange.add_column("here", lw.AtomicType("INT"))])
    catalog.alter_table("d.t$branch_dev", [lw.SchemaChange.add_column("there", inner)])
    branch = catalog.get_table("d.t$branch_dev")
    lw.write_table(
        pa.table({"k": [5], "v": ["x"], "there": pa.array([{"a": 5}], pa.struct({"a": pa.int32()}))}), branch
    )
    branch.create_tag("five")
    branch.analyze()
    here = catalog.get_table("d.t").new_batch_write_builder()
    with here.new_write() as writer:
        writer.write_arrow(pa.table({"k": [6], "v": ["x"], "here": pa.array([6], pa.int32())}))
        messages = writer.prepare_commit()
    table.fast_forward("dev", allow_loss=True)
    with here.new_commit() as commit:
        commit.commit(messages)
    forwarded = catalog.get_table("d.t")
    rows = lw.read_table(forwarded).sort_by("k").to_pylist()
    assert [(row["k"], row["there"]) for row in rows] == [(1, None), (5, {"a": 5}), (6, None)]
    assert lw.read_table(forwarded, tag="five").sort_by("k")["there"].to_pylist() == [None, {"a": 5}]
    assert lw.read_table(forwarded, filter="k = 5")["there"].to_pylist() == [{"a": 5}]
    assert forwarded.statistics() is None
    assert forwarded.verify(full=True, snapshots="all").findings == ()
    assert lw.read_table(branch).sort_by("k")["there"].to_pylist() == [None, {"a": 5}]
    catalog.alter_table("d.t", [lw.SchemaChange.add_column("new", lw.AtomicType("INT"))])
    assert lw.read_table(catalog.get_table("d.t")).sort_by("k")["new"].to_pylist() == [None, None, None]


def test_a_schema_number_is_not_given_to_another_schema_by_a_fast_forward(catalog: lw.Catalog) -> None:
    table = two_snapshots(catalog)
    table.create_branch("dev", "v1")
    write(catalog.get_table("d.t$branch_dev"), 2)
    catalog.alter_table("d.t", [lw.SchemaChange.add_column("price", lw.AtomicType("INT"))])
    late = catalog.get_table("d.t").new_batch_write_builder()
    with late.new_write() as writer:
        writer.write_arrow(pa.table({"k": [3], "v": ["x"], "price": pa.array([4711], pa.int32())}))
        messages = writer.prepare_commit()
    table.fast_forward("dev", allow_loss=True)
    catalog.alter_table("d.t", [lw.SchemaChange.add_column("age", lw.AtomicType("INT"))])
    with catalog.get_table("d.t").new_batch_write_builder().new_commit() as commit:
        commit.commit([lw.CommitMessage.deserialize(message.serialize()) for message in messages])
    rows = lw.read_table(catalog.get_table("d.t")).sort_by("k").to_pylist()
    assert [(row["k"], row["age"]) for row in rows] == [(1, None), (2, None), (3, None)]


def test_a_branch_of_a_state_before_a_change_of_columns_has_all_schemas_that_its_manifests_name(
    catalog: lw.Catalog,
) -> None:
    table = two_snapshots(catalog)
    catalog.alter_table("d.t", [lw.SchemaChange.add_column("more", lw.AtomicType("INT"))])
    later = pa.table({"k": [3], "v": ["x"], "more": pa.array([7], pa.int32())})
    lw.write_table(later, catalog.get_table("d.t"))
    restored = table.rollback_to_as_latest(1)
    table.create_branch("dev", snapshot_id=restored.id)
    table.create_tag("back", restored.id)
    table.create_branch("tagged", "back")
    for name in ("dev", "tagged"):
        branch = catalog.get_table(f"d.t$branch_{name}")
        assert (keys(branch), branch.field_names) == ([1], ["k", "v"])
        assert lw.read_table(branch, filter="k > 0")["k"].to_pylist() == [1]
        assert branch.verify(full=True, snapshots="all").findings == ()
        write(branch, 4)
        branch.compact(full=True)
        assert keys(branch) == [1, 4]
    assert table.verify(full=True, snapshots="all").findings == ()
    table.fast_forward("dev", allow_loss=True)
    assert (keys(table), catalog.get_table("d.t").field_names) == ([1, 4], ["k", "v"])


def test_fast_forward_to_a_branch_without_a_common_snapshot(catalog: lw.Catalog) -> None:
    table = two_snapshots(catalog)
    table.create_branch("fresh")
    write(catalog.get_table("d.t$branch_fresh"), 7)
    table.fast_forward("fresh", allow_loss=True)
    assert (keys(table), table.store.snapshots.ids(), table.list_tags()) == ([7], [1], [])


def test_fast_forward_when_the_common_snapshot_has_expired(catalog: lw.Catalog) -> None:
    table = two_snapshots(catalog)
    table.create_branch("dev", "v1")
    write(table, 3)
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert table.store.snapshots.ids() == [3]
    table.fast_forward("dev", allow_loss=True)
    assert (keys(table), table.store.snapshots.ids()) == ([1], [1])
    write(table, 4)
    assert keys(table) == [1, 4]


def test_fast_forward_leaves_one_line_of_history(catalog: lw.Catalog) -> None:
    """Snapshots of the table that are not the past of the branch go: between them and the branch was something else."""
    table = two_snapshots(catalog)
    table.create_branch("dev", "v1")
    branch = catalog.get_table("d.t$branch_dev")
    for key in (10, 11, 12):
        write(branch, key)
    branch.expire_snapshots(retain_max=1, retain_min=1)
    assert branch.store.snapshots.ids() == [4]
    table.fast_forward("dev", allow_loss=True)
    assert (keys(table), table.store.snapshots.ids()) == ([1, 10, 11, 12], [4])
    assert keys(table, tag="v1") == [1]
    assert table.verify(full=True, snapshots="all").is_sound


def test_fast_forward_after_a_rollback_below_the_branch(catalog: lw.Catalog) -> None:
    table = two_snapshots(catalog)
    catalog.alter_table("d.t", [lw.SchemaChange.add_column("new", lw.AtomicType("INT"))])
    table = catalog.get_table("d.t")
    table.create_branch("dev", snapshot_id=2)  # with the first schema
    table.rollback_to(1)
    later = pa.table({"k": [5], "v": ["x"], "new": pa.array([5], pa.int32())})
    lw.write_table(later, table)
    table.create_tag("later")
    table.rename_tag("later", "renamed")
    write(catalog.get_table("d.t$branch_dev"), 3)
    table.fast_forward("dev", allow_loss=True)
    forwarded = catalog.get_table("d.t")
    assert (keys(forwarded), forwarded.store.snapshots.ids()) == ([1, 2, 3], [2, 3])
    assert forwarded.list_tags() == ["v1"]
    assert forwarded.verify(full=True, snapshots="all").is_sound


def test_a_stale_handle_makes_no_branch_of_another_table(catalog: lw.Catalog) -> None:
    table = two_snapshots(catalog)
    table.create_branch("dev")
    catalog.drop_table("d.t")
    again = two_snapshots(catalog)
    again.create_branch("own", "v1")
    calls: list[Callable[[], object]] = [
        lambda: table.create_branch("other"),
        lambda: table.create_branch("other", "v1"),
        lambda: table.drop_branch("own"),
        lambda: table.rename_branch("own", "mine"),
        lambda: table.fast_forward("own"),
    ]
    for call in calls:
        with pytest.raises(lw.TableReplacedError):
            call()
    assert again.list_branches() == ["own"]


def test_a_branch_cut_short_on_an_object_store_can_be_made_or_dropped(tmp_path: Path) -> None:
    storage = MemoryStorage(f"cut-{tmp_path.name}", renames=False)
    catalog = lw.FileSystemCatalog(storage, f"{storage.root}/warehouse")
    table = two_snapshots(catalog)
    table.create_branch("dev", "v1")
    marker = table.store.layout.for_branch("dev").schema_file(0)
    storage.delete(marker)
    table.create_branch("dev", "v1")
    assert keys(catalog.get_table("d.t$branch_dev")) == [1]
    storage.delete(marker)
    table.create_tag("v2")
    with pytest.raises(lw.InvalidInputError, match="drop it first"):
        table.create_branch("dev", "v2")
    table.drop_branch("dev")
    table.create_branch("dev", "v2")
    assert keys(catalog.get_table("d.t$branch_dev")) == [1, 2]


def test_fast_forward_refuses_to_lose_rows_and_tags(catalog: lw.Catalog) -> None:
    table = two_snapshots(catalog)
    table.create_branch("fresh")
    write(catalog.get_table("d.t$branch_fresh"), 7)
    with pytest.raises(
        lw.InvalidInputError, match=r"2 snapshots \(1, 2\) and 1 tag \(v1\).*allow_loss=True"
    ) as refused:
        table.fast_forward("fresh")
    assert (refused.value.snapshot_ids, refused.value.tags) == ((1, 2), ("v1",))
    plan = catalog.fast_forward("d.t", "fresh", dry_run=True)
    assert (plan.snapshot_ids, plan.lost_snapshot_ids, plan.tags, plan.dry_run) == ((1, 2), (1, 2), ("v1",), True)
    assert (keys(table), table.list_tags()) == ([1, 2], ["v1"])
    result = table.fast_forward("fresh", allow_loss=True)
    assert (result.snapshot_id, result.snapshot_ids, result.tags, result.has_loss) == (1, (1, 2), ("v1",), True)
    assert (keys(table), table.list_tags()) == ([7], [])


def test_fast_forward_without_a_loss_needs_no_leave(catalog: lw.Catalog) -> None:
    """Other tags of the common snapshot stay; compactions of the table may go."""
    table = two_snapshots(catalog)
    table.create_tag("here")
    table.create_tag("same", 2)
    table.create_branch("dev", "here")
    branch = catalog.get_table("d.t$branch_dev")
    write(branch, 3)
    table.compact(full=True)
    result = table.fast_forward("dev")
    assert (result.snapshot_ids, result.lost_snapshot_ids, result.tags, result.has_loss) == ((3,), (), (), False)
    assert (keys(table), sorted(table.list_tags())) == ([1, 2, 3], ["here", "same", "v1"])
    assert not table.fast_forward("dev").snapshot_ids
    write(table, 4)
    table.create_tag("late")
    assert table.fast_forward("dev", dry_run=True).lost_snapshot_ids == (4,)
    table.rollback_to(3)
    write(branch, 5)
    branch.expire_snapshots(retain_max=1, retain_min=1)
    branch.create_tag("late")
    assert table.fast_forward("dev", dry_run=True).has_loss  # its past is not known to the branch any more
    table.create_tag("base")
    table.drop_branch("dev")
    table.create_branch("dev", "base")
    write(branch, 6)
    branch.expire_snapshots(retain_max=1, retain_min=1)
    assert table.fast_forward("dev").snapshot_ids == (1, 2, 3)
    assert keys(table) == [1, 2, 3, 6]


def test_fast_forward_loses_no_row_that_is_committed_while_it_runs(
    catalog: lw.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = two_snapshots(catalog)
    table.create_branch("dev", snapshot_id=2)
    write(catalog.get_table("d.t$branch_dev"), 3)
    publish = rollback.publish_above

    def write_first(store: TableStore, target: Snapshot, since: Snapshot | None, above: int, **more: bool) -> Snapshot:
        monkeypatch.setattr(branches, "publish_above", publish)
        write(table, 9)
        return publish(store, target, since, above, **more)

    monkeypatch.setattr(branches, "publish_above", write_first)
    with pytest.raises(lw.InvalidInputError, match=r"1 snapshot \(3\)"):
        table.fast_forward("dev")
    assert keys(table) == [1, 2, 9]

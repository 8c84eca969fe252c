"""The home of a table on a server: what becomes of calls whose answers are lost, refused or wrong."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.catalog import rest_authority
from lakewright.catalog.rest_authority import RestAuthority, RestTable, carry_out
from lakewright.commit.commit_loop import ServerCommits
from lakewright.commit.committer import Committer
from lakewright.errors import (
    CatalogServerError,
    LakewrightError,
    NotAuthorizedError,
    TableNoPermissionException,
    TagAlreadyExistException,
)
from lakewright.metadata.authority import LostRace, Outcome, Published, Unknown
from lakewright.spec.manifest import ManifestEntry
from lakewright.spec.snapshot import Snapshot
from support.effort import each_once
from support.rest_server import RestServer, running_rest

ROWS = pa.table({"id": pa.array([1], pa.int64())})
ALTER = r"^POST .*/tables/t$"


@dataclass
class World:
    server: RestServer
    catalog: lw.Catalog
    table: lw.FileStoreTable

    @property
    def home(self) -> RestTable:
        home = self.table.store.home
        assert isinstance(home, RestAuthority)
        return home.table

    def rows(self) -> int:
        return int(lw.read_table(self.table).num_rows)


SERVERS = ("1.4.2", "2.0.0")


@pytest.fixture(params=SERVERS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with running_rest(str(tmp_path), like=request.param) as server:
        catalog = lw.CatalogFactory.create(server.options)
        catalog.create_database("d")
        catalog.create_table("d.t", pa.schema({"id": pa.int64()}))
        table = catalog.get_table("d.t")
        lw.write_table(ROWS, table)
        yield World(server, catalog, table)


@pytest.mark.parametrize("commits_after", [0, 5], ids=["gap", "same id"])
def test_a_commit_whose_base_was_rolled_back_is_taken_back(
    world: World, monkeypatch: pytest.MonkeyPatch, commits_after: int
) -> None:
    """A server that compares only ids would bring back the removed rows, and lose those committed since."""
    rows = [pa.table({"id": pa.array([n], pa.int64())}) for n in range(20)]
    for n in (2, 3, 4, 5, 6):
        lw.write_table(rows[n], world.table)
    original = ServerCommits.publish

    def slow(
        self: ServerCommits, snapshot: Snapshot, base: Snapshot | None, entries: Sequence[ManifestEntry] = ()
    ) -> Outcome:
        monkeypatch.setattr(ServerCommits, "publish", original)
        world.table.rollback_to(1)
        for n in range(commits_after):
            lw.write_table(rows[10 + n], world.table)
        return original(self, snapshot, base, entries)

    monkeypatch.setattr(ServerCommits, "publish", slow)
    kept = [1, *range(10, 10 + commits_after)]
    with suppress(lw.CommitContentionError):  # a server may have deleted the files of the snapshot that it took back
        lw.write_table(rows[19], world.table)
        kept.append(19)
    assert sorted(lw.read_table(world.table)["id"].to_pylist()) == kept
    assert world.table.store.snapshots.ids() == list(range(1, len(kept) + 1))


@pytest.mark.parametrize("expired", [5, 6], ids=["the next id is taken", "gap"])
def test_a_commit_beside_a_forward_to_higher_ids_is_made_again_on_top(
    world: World, monkeypatch: pytest.MonkeyPatch, expired: int
) -> None:
    """A server that compares only ids takes the commit below the forwarded snapshots, and the forward would be lost."""
    rows = [pa.table({"id": pa.array([n], pa.int64())}) for n in range(30)]
    world.table.create_tag("v1")
    world.table.create_branch("b", "v1")
    branch = world.catalog.get_table("d.t$branch_b")
    for n in range(21, 28):
        lw.write_table(rows[n], branch)
    for n in (2, 3, 4):
        lw.write_table(rows[n], world.table)
    branch.expire_snapshots(retain_max=8 - expired, retain_min=1)
    original = ServerCommits.publish

    def slow(
        self: ServerCommits, snapshot: Snapshot, base: Snapshot | None, entries: Sequence[ManifestEntry] = ()
    ) -> Outcome:
        monkeypatch.setattr(ServerCommits, "publish", original)
        world.table.fast_forward("b", allow_loss=True)
        return original(self, snapshot, base, entries)

    monkeypatch.setattr(ServerCommits, "publish", slow)
    lw.write_table(rows[19], world.table)
    assert sorted(lw.read_table(world.table)["id"].to_pylist()) == [1, 19, *range(21, 28)]
    assert world.table.store.snapshots.ids() == [*range(expired + 1, 9), 9]


def _next(world: World, **changes: object) -> tuple[Snapshot, Snapshot]:
    """Return the newest snapshot, and one to follow it whose manifests are those of the newest."""
    base = world.home.latest()
    assert base is not None
    made = replace(base, id=base.id + 1, base_manifest_list="b-new", delta_manifest_list="d-new", uuid="u-new")
    return base, replace(made, **changes)  # type: ignore[arg-type]


def test_an_uncontended_commit_makes_two_calls(world: World) -> None:
    with world.server.counting() as calls:
        lw.write_table(ROWS, world.table)
    table = "/v1/paimon/databases/D/tables/T"
    assert calls == [f"GET {table}/snapshot", f"POST {table}/commit"]


@pytest.mark.parametrize(
    ("world", "how"),
    each_once(SERVERS, ("500", "502", "503", "429", "cut", "reset", "half", "garbage")),
    indirect=["world"],
)
def test_a_commit_whose_answer_is_lost_is_found(world: World, how: str) -> None:
    base, snapshot = _next(world)
    world.server.lose(1, how)
    assert world.home.commit(snapshot, base, ()) == Published(2)


def test_a_commit_that_was_not_carried_out_is_unknown_until_another_has_its_id(world: World) -> None:
    base, snapshot = _next(world)
    world.server.fail(1, "500", r"/commit$")
    assert isinstance(world.home.commit(snapshot, base, ()), Unknown)
    lw.write_table(ROWS, world.table)
    world.server.fail(1, "500", r"/commit$")
    assert world.home.commit(snapshot, base, ()) == LostRace(2)


def test_a_refusal_of_our_own_commit_is_a_success(world: World) -> None:
    base, snapshot = _next(world)
    assert world.home.commit(snapshot, base, ()) == Published(2)
    assert world.home.commit(snapshot, base, ()) == Published(2)
    assert world.home.commit(replace(snapshot, base_manifest_list="other"), base, ()) == LostRace(2)


def test_what_cannot_be_looked_up_is_unknown(world: World) -> None:
    base, snapshot = _next(world)
    world.server.lose(1, "500")
    world.server.fail(1, "500", r"^GET .*/snapshots/2$")
    assert isinstance(world.home.commit(snapshot, base, ()), Unknown)


def test_a_commit_that_was_never_sent_is_an_os_error(world: World) -> None:
    base, snapshot = _next(world)
    gone = replace(world.home, api=replace(world.home.api, server=replace(world.home.api.server, port=9)))
    quick = replace(gone.api.server, patience=replace(gone.api.server.patience, unsent_repeats_max=0))
    with pytest.raises(CatalogServerError) as caught:
        replace(gone, api=replace(gone.api, server=quick)).commit(snapshot, base, ())
    assert caught.value.perhaps_done is False
    assert isinstance(caught.value, OSError)


def test_refusals_are_final_and_leave_no_file(world: World) -> None:
    files = {info.path for info in world.table.store.storage.walk(world.table.table_path)}
    world.server.fail(1, "401", r"/commit$")
    with pytest.raises(NotAuthorizedError):
        lw.write_table(ROWS, world.table)
    assert {info.path for info in world.table.store.storage.walk(world.table.table_path)} == files
    world.server.deny("d.t")
    with pytest.raises(TableNoPermissionException):
        lw.write_table(ROWS, world.table)
    world.server.allow("d.t")
    assert world.rows() == 1


def test_a_table_made_again_refuses_commits_of_the_old_handle(world: World) -> None:
    with world.table.new_batch_write_builder().new_write() as write:
        write.write_arrow(ROWS)
        messages = write.prepare_commit()
    world.catalog.drop_table("d.t")
    world.catalog.create_table("d.t", pa.schema({"id": pa.int64()}))
    with pytest.raises(lw.TableReplacedError):
        Committer(world.table.store).commit(messages)
    assert lw.read_table(world.catalog.get_table("d.t")).num_rows == 0


def test_files_of_a_rolled_back_snapshot_are_no_snapshots(world: World) -> None:
    """A server may leave the files of the snapshots after the one it went back to."""
    lw.write_table(ROWS, world.table)
    layout = world.table.store.layout
    left = world.table.store.storage.read(layout.snapshot_file(2))
    assert world.table.rollback_to(1).snapshot_ids == (2,)
    world.table.store.storage.create(layout.snapshot_file(2), left)
    assert world.table.store.snapshots.ids() == [1]
    assert world.rows() == 1


def test_hints_are_left_to_the_server(world: World) -> None:
    world.table.store.storage.delete(world.table.store.layout.latest_hint)
    world.table.store.snapshots.write_latest_hint(7)
    assert not world.table.store.storage.exists(world.table.store.layout.latest_hint)


# Schemas.


@pytest.mark.parametrize(("world", "how"), each_once(SERVERS, ("500", "cut", "garbage")), indirect=["world"])
def test_changes_whose_answer_is_lost_are_made_once(world: World, how: str) -> None:
    world.server.lose(1, how, ALTER)
    world.catalog.alter_table("d.t", lw.SchemaChange.add_column("x", lw.AtomicType("INT")))
    table = world.catalog.get_table("d.t")
    assert (table.field_names, table.schema.id) == (["id", "x"], 1)


def test_changes_that_were_not_made_are_sent_again(world: World) -> None:
    world.server.fail(1, "503", ALTER)
    world.catalog.alter_table("d.t", lw.SchemaChange.add_column("x", lw.AtomicType("INT")))
    assert world.catalog.get_table("d.t").schema.id == 1


def test_changes_that_never_get_an_answer_are_unknown(world: World) -> None:
    world.server.fail(3, "500", ALTER)
    with pytest.raises(lw.CommitUnknownError, match=r"d\.t"):
        world.catalog.alter_table("d.t", lw.SchemaChange.add_column("x", lw.AtomicType("INT")))
    assert world.catalog.get_table("d.t").field_names == ["id"]


LOST = CatalogServerError("lost", perhaps_done=True)
UNSENT = CatalogServerError("unsent", perhaps_done=False)
REFUSED = TagAlreadyExistException("refused")


@pytest.mark.parametrize(
    ("answers", "look", "raised"),
    [
        ([UNSENT], False, "unsent"),
        ([REFUSED], True, "refused"),
        ([LOST, LOST], False, "it is unknown"),
        ([LOST, UNSENT], False, "it is unknown"),  # the first request may still be carried out
        ([LOST, UNSENT], UNSENT, "it is unknown"),
        ([LOST, REFUSED], False, "refused"),  # not by what this call made
        ([LOST], True, None),
        ([LOST, None], False, None),
    ],
)
def test_a_doubt_ends_only_by_a_look_or_by_an_answer_that_decides(
    monkeypatch: pytest.MonkeyPatch, answers: list[LakewrightError | None], look: bool | LakewrightError, raised: str
) -> None:
    monkeypatch.setattr(rest_authority, "_PAUSE_SECONDS", 0)
    left = iter(answers)

    def call() -> None:
        if (error := next(left)) is not None:
            raise error

    def is_done() -> bool:
        if isinstance(look, LakewrightError):
            raise look
        return look

    if raised is None:
        carry_out("whether", call, is_done, attempts=2)
    else:
        with pytest.raises(LakewrightError, match=raised):
            carry_out("whether", call, is_done, attempts=2)
    assert next(left, "none") == "none"


# Tags, branches, rollbacks.


def test_a_tag_of_another_snapshot_is_not_taken_for_the_own_one(world: World) -> None:
    lw.write_table(ROWS, world.table)
    world.table.create_tag("v1", 1)
    world.server.fail(1, "500", r"^POST .*/tags")
    with pytest.raises(TagAlreadyExistException):
        world.table.store.tags.create("v1", world.table.store.snapshots.get(2))


def test_lost_answers_about_tags_and_branches_are_looked_up(world: World) -> None:
    world.server.lose(4, "500", r"^(POST|DELETE) .*/(tags|branches)")
    world.table.create_tag("v1")
    world.table.create_branch("b")
    assert (world.table.list_tags(), world.table.list_branches()) == (["v1"], ["b"])
    world.table.delete_tag("v1")
    world.table.drop_branch("b")
    assert (world.table.list_tags(), world.table.list_branches()) == ([], [])
    assert world.server.faults_left() == 0


def test_tags_cannot_be_renamed_or_replaced(world: World) -> None:
    world.table.create_tag("v1")
    with pytest.raises(lw.UnsupportedError, match="renamed"):
        world.table.rename_tag("v1", "v2")
    with pytest.raises(lw.UnsupportedError, match="replaced"):
        world.table.replace_tag("v1")
    with pytest.raises(TagAlreadyExistException):
        world.table.create_tag("v1")
    world.table.create_tag("v1", ignore_if_exists=True)


def test_a_server_that_renames_no_branches_is_found_out(world: World) -> None:
    world.table.create_branch("old")
    if world.server.like == "1.4.2":
        world.table.rename_branch("old", "new")
        assert world.table.list_branches() == ["new"]
        return
    with pytest.raises(lw.UnsupportedError, match="does not rename"):
        world.table.rename_branch("old", "new")
    assert world.table.list_branches() == ["old"]


def test_a_rollback_from_another_snapshot_is_a_conflict(world: World) -> None:
    lw.write_table(ROWS, world.table)
    with pytest.raises(lw.CommitConflictError):
        world.table.rollback_to(1, from_snapshot=1)
    world.server.lose(1, "500", r"/rollback$")
    world.table.rollback_to(1, from_snapshot=2)
    assert world.rows() == 1


def test_a_home_travels_without_its_secrets_in_sight(world: World) -> None:
    assert world.server.token not in repr(world.table.store)
    there = pickle.loads(pickle.dumps(world.table))  # noqa: S301 - our own bytes
    lw.write_table(ROWS, there)
    assert world.rows() == 2

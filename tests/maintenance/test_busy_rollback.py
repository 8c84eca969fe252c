"""Rollback and fast-forward while others commit, or cut short: no gap in the ids, and no commit is lost."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import pytest

import lakewright as lw
from contract.faulty_storage import Crash, Fault, FaultKind, FaultyStorage, MemoryStorage
from support.effort import thinned

pytestmark = pytest.mark.filterwarnings("ignore::lakewright.LakewrightWarning")

OPTIONS = {"lakewright.write-threads": "1", "lakewright.read-threads": "1"}
VERBS: dict[str, Callable[[lw.FileStoreTable], object]] = {
    "rollback": lambda table: table.rollback_to(2),
    "rollback to a tag that has expired": lambda table: table.rollback_to("old"),
    "fast-forward": lambda table: table.fast_forward("b", allow_loss=True),
    "fast-forward to fewer columns": lambda table: table.fast_forward("b", allow_loss=True),
    "fast-forward to other columns": lambda table: table.fast_forward("b", allow_loss=True),
}
WANTED = {
    "rollback": [1, 2],
    "rollback to a tag that has expired": [1],
    "fast-forward": [1, 20],
    "fast-forward to fewer columns": [1, 20],
    "fast-forward to other columns": [1, 20],
}
_numbers = itertools.count()


class Scene:
    """A table with six snapshots, of which a verb goes back or over to another state."""

    def __init__(self, verb: str) -> None:
        self.verb = verb
        self.memory = MemoryStorage(f"busy-rollback-{next(_numbers)}")
        self.catalog = lw.FileSystemCatalog(self.memory, f"{self.memory.root}/w", {})
        self.catalog.create_database("d")
        self.catalog.create_table(
            "d.t", lw.Schema.from_pyarrow_schema(pa.schema([("id", pa.int64())]), options=OPTIONS)
        )
        self.write(1)
        self.open().create_tag("old")
        self.open().create_branch("b", "old")
        if "columns" in verb:
            self.catalog.alter_table("d.t", [lw.SchemaChange.add_column("here", "INT")])
        if "other columns" in verb:
            self.catalog.alter_table("d.t$branch_b", [lw.SchemaChange.add_column("there", "STRING")])
        self.write(20, "d.t$branch_b")
        for number in range(2, 7):
            self.write(number)
        if "expired" in verb:
            self.open().expire_snapshots(retain_max=4, retain_min=1)
        self.start = self.memory.image()

    def open(self, name: str = "d.t") -> lw.FileStoreTable:
        table = self.catalog.get_table(name)
        assert isinstance(table, lw.FileStoreTable)
        return table

    def write(self, number: int, name: str = "d.t") -> None:
        lw.write_table(pa.table({"id": pa.array([number], pa.int64())}), self.open(name))

    def write_and_tag(self, number: int) -> None:
        self.write(number)
        self.open().create_tag("mine")

    def run(self, storage: FaultyStorage) -> None:
        table = self.open()
        VERBS[self.verb](replace(table, store=replace(table.store, storage=storage)))

    def calls(self) -> int:
        self.memory.restore(self.start)
        counted = FaultyStorage(self.memory)
        self.run(counted)
        return len(counted.calls)

    def rows(self) -> list[int]:
        return sorted(lw.read_table(self.open())["id"].to_pylist())

    def has_gap(self) -> bool:
        ids = [snapshot_id for snapshot_id in self.open().store.snapshots.ids() if snapshot_id > 1]
        return ids != list(range(ids[0], ids[-1] + 1)) if ids else False


@pytest.mark.parametrize("verb", VERBS)
def test_a_commit_at_any_moment_leaves_no_gap(verb: str) -> None:
    scene = Scene(verb)
    for stop in thinned(list(range(1, scene.calls() + 1))):
        scene.memory.restore(scene.start)
        scene.run(FaultyStorage(scene.memory, [Fault(stop, FaultKind.SLOW)], pause=lambda: scene.write_and_tag(100)))
        rows = scene.rows()
        assert rows in (WANTED[verb], [*WANTED[verb], 100]), (stop, rows)
        if 100 in rows:
            assert sorted(lw.read_table(scene.open(), tag="mine")["id"].to_pylist()) == rows, stop
        assert not scene.has_gap(), stop
        errors = [finding for finding in scene.open().verify(snapshots="all").findings if finding.severity == "error"]
        assert errors == [], stop
        scene.write(101)
        assert scene.rows() == [*rows, 101], stop


@pytest.mark.parametrize("verb", [verb for verb in VERBS if "expired" not in verb and "columns" not in verb])
def test_a_commit_and_an_expiry_at_any_moment_leave_no_gap(verb: str) -> None:
    """The expiry removes the target and copies above it, the commit keeps those that are left."""
    scene = Scene(verb)

    def commit_and_expire() -> None:
        scene.write(100)
        scene.open().expire_snapshots(retain_max=3, retain_min=1)

    for stop in thinned(list(range(1, scene.calls() + 1))):
        scene.memory.restore(scene.start)
        with suppress(lw.NotFoundError):  # the snapshot was gone before it was found
            scene.run(FaultyStorage(scene.memory, [Fault(stop, FaultKind.SLOW)], pause=commit_and_expire))
        rows = scene.rows()
        assert rows in ([*range(1, 7), 100], WANTED[verb], [*WANTED[verb], 100]), (stop, rows)
        assert not scene.has_gap(), (stop, scene.open().store.snapshots.ids())
        errors = [finding for finding in scene.open().verify(snapshots="all").findings if finding.severity == "error"]
        assert errors == [], stop


@pytest.mark.parametrize("verb", VERBS)
def test_cut_short_at_any_moment_readers_see_the_state_before_or_the_wanted_one(verb: str) -> None:
    scene = Scene(verb)
    for stop in thinned(list(range(1, scene.calls() + 1))):
        scene.memory.restore(scene.start)
        before = scene.rows()
        with suppress(Crash):
            scene.run(FaultyStorage(scene.memory, [Fault(stop, FaultKind.CRASH_AFTER)]))
        rows = scene.rows()
        assert rows in (before, WANTED[verb]), stop
        if "expired" not in verb:
            assert not scene.has_gap(), stop
        scene.write(101)
        assert scene.rows() == sorted([*rows, 101]), stop

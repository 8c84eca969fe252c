"""Two operations on the history of a table, one stopped in the middle of the other: as if one came after the other.

The first is stopped at one of its storage calls, the second runs from beginning to end, then the first goes on. What is
right is not modelled: the same two operations run one after the other, in both orders, and what readers then see of the
table, its tags and its branches is what they may see after the race. An operation that raised an error of the library
has not happened. A call that goes back to a snapshot means the one that has the id when the call begins: a
fast-forward may give the id to another one. Every snapshot, tag and branch that is left can be read, before and after
the removal of orphans.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.maintenance.restore import is_pin, publish_state
from lakewright.maintenance.rollback import RESTORED
from lakewright.spec.snapshot import Snapshot, state_of
from lakewright.testing.enumerator import stray_files
from lakewright.testing.storage import Fault, FaultKind, FaultyStorage, MemoryImage, MemoryStorage
from support.effort import thinned

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::lakewright.LakewrightWarning")]

WEEK = 7 * 24 * 60 * 60 * 1000
FIELDS = [lw.DataField(0, "k", lw.AtomicType("INT", nullable=False)), lw.DataField(1, "v", lw.AtomicType("STRING"))]
Rows = list[tuple[int, str]]
State = dict[str, Rows]
Verb = Callable[[lw.FileStoreTable], object]
_names = itertools.count()


def rows_of(*keys: int, value: str = "x") -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int32()), "v": pa.array([value] * len(keys))})


VERBS: dict[str, Verb] = {
    "append": lambda t: lw.write_table(rows_of(7), t),
    "upsert": lambda t: t.upsert(rows_of(1, 8, value="new"), None if t.primary_keys else ["k"]),
    "overwrite": lambda t: lw.write_table(rows_of(9), t, mode="overwrite"),
    "delete": lambda t: t.delete("k = 2"),
    "compact": lambda t: t.compact(full=True),
    "expire": lambda t: t.expire_snapshots(retain_max=1, retain_min=1),
    "rollback": lambda t: t.rollback_to(2),
    "restore": lambda t: t.rollback_to_as_latest(2),
    "forward": lambda t: t.fast_forward("b", allow_loss=True),
    "branch of a tag": lambda t: t.create_branch("new", "v1"),
    "branch of a snapshot": lambda t: t.create_branch("new", snapshot_id=2),
    "rename a branch": lambda t: t.rename_branch("b", "c"),
    "drop a branch": lambda t: t.drop_branch("b"),
    "tag": lambda t: t.create_tag("new", 2),
    "delete a tag": lambda t: t.delete_tag("v1"),
    "rename a tag": lambda t: t.rename_tag("v1", "w1"),
    "orphans": lambda t: t.remove_orphan_files(),
}
PAIRS = [(first, second) for first in VERBS for second in VERBS if {first, second} - {"append", "upsert", "overwrite"}]


class Scene:
    """A table with four snapshots, a tag of the first and a branch of it, on which two operations are tried."""

    def __init__(self, keys: list[str] | None) -> None:
        self.memory = MemoryStorage(f"history-races-{next(_names)}")
        self.catalog = lw.FileSystemCatalog(self.memory, f"{self.memory.root}/w", {})
        self.catalog.create_database("d")
        options = {"lakewright.write-threads": "1", "lakewright.read-threads": "1", "commit.max-retries": "3"}
        more = {"bucket": "1", "write-only": "true"} if keys else {}
        self.catalog.create_table("d.t", lw.Schema(FIELDS, None, keys, {**options, **more}))
        self.table = self.catalog.get_table("d.t")
        lw.write_table(rows_of(1, 2), self.table)
        self.table.create_tag("v1")
        self.table.create_branch("b", "v1")
        lw.write_table(rows_of(20, value="b"), self.catalog.get_table("d.t$branch_b"))
        lw.write_table(rows_of(3), self.table)
        lw.write_table(rows_of(4, 2, value="over"), self.table, mode="overwrite")
        lw.write_table(rows_of(5), self.table)
        self.memory.age(WEEK)  # the files of the beginning are old, those of the operations young
        self.start: MemoryImage = self.memory.image()
        self.calls: dict[str, int] = {}
        self.orders: dict[tuple[str, ...], State] = {}

    def reset(self) -> None:
        self.memory.restore(self.start)
        self.memory.age(WEEK)

    def act(self, name: str, table: lw.FileStoreTable) -> bool:
        """Run an operation; False if it raised an error that says that it did not happen."""
        try:
            VERBS[name](table)
        except (lw.CommitConflictError, lw.CommitContentionError, lw.NotFoundError, lw.AlreadyExistsError):
            return False
        except lw.InvalidInputError:
            assert name == "forward", name  # the branch was dropped while it was read
            return False
        return True

    def observe(self) -> State:
        """Return the rows of the table, its tags and branches, after every snapshot has been read as well."""
        seen: State = {}
        states: dict[tuple[str, str], Rows] = {}
        table = self.catalog.get_table("d.t")
        for branch in ("main", *table.list_branches()):
            one = table if branch == "main" else self.catalog.get_table(f"d.t$branch_{branch}")
            for snapshot_id in one.store.snapshots.ids():
                self._rows(one, one.store.snapshots.get(snapshot_id), states)
            newest = one.store.snapshots.latest()
            seen[branch] = [] if newest is None else self._rows(one, newest, states)
            for tag in one.store.tags.all():
                if is_pin(tag.name) or tag.name.startswith(RESTORED):
                    continue  # a branch was renamed while it was pinned; or a restored state is protected
                seen[f"{branch} {tag.name}"] = self._rows(one, tag.snapshot, states)
        return seen

    @staticmethod
    def _rows(table: lw.FileStoreTable, snapshot: Snapshot, states: dict[tuple[str, str], Rows]) -> Rows:
        """Return the rows of a snapshot; one that several names have is read once."""
        key = state_of(snapshot)
        if key not in states:
            is_there = table.store.snapshots.holds(snapshot)
            tag = next((tag.name for tag in table.store.tags.all() if tag.snapshot == snapshot), None)
            rows = lw.read_table(table, snapshot_id=snapshot.id) if is_there else lw.read_table(table, tag=tag)
            states[key] = sorted(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))
        return states[key]

    def after(self, *names: str) -> State:
        """Return what readers see when some operations run one after the other."""
        if names not in self.orders:
            self.reset()
            for name in names:
                self.act(name, self.table)
            self.orders[names] = self.observe()
        return self.orders[names]

    def named_before(self) -> State:
        """Return what readers see after a fast-forward, and then going back to a snapshot that it has replaced."""
        if ("named before",) not in self.orders:
            self.reset()
            target = self.table.store.snapshots.get(2)
            self.act("forward", self.table)
            publish_state(self.table.store, target, None)
            self.orders["named before",] = self.observe()
        return self.orders["named before",]

    def stops(self, name: str) -> int:
        if name not in self.calls:
            self.reset()
            counted = FaultyStorage(self.memory)
            self.act(name, self.through(counted))
            self.calls[name] = len(counted.calls)
        return self.calls[name]

    def through(self, storage: FaultyStorage) -> lw.FileStoreTable:
        return replace(self.table, store=replace(self.table.store, storage=storage))

    def check(self, first: str, second: str, stop: int) -> None:
        """Stop the first operation at a call, run the second, and judge what came of it."""
        allowed = [self.after(first, second), self.after(second, first)]
        if {first, second} in ({"forward", "restore"}, {"forward", "rollback"}):
            allowed.append(self.named_before())
        if {first, second} == {"forward", "rename a tag"}:  # a renamed tag may have both names
            named = self.after("forward")
            allowed.append({**named, "main w1": named["main v1"]})
        alone = {first: self.after(second), second: self.after(first)}
        self.reset()
        lost: list[str] = []

        def interrupt() -> None:
            if not self.act(second, self.table):
                lost.append(second)

        stopping = FaultyStorage(self.memory, [Fault(stop, FaultKind.SLOW)], pause=interrupt)
        if not self.act(first, self.through(stopping)):
            lost.append(first)
        if lost:
            allowed += [alone[name] for name in lost]
        seen = self.observe()
        assert seen in allowed, (first, second, stop, lost, seen, allowed)
        self.memory.age(WEEK)
        if self.table.remove_orphan_files().paths:
            assert self.observe() == seen, (first, second, stop)
        assert stray_files(self.table.store) == set(), (first, second, stop)


@pytest.mark.parametrize("keys", [None, ["k"]], ids=["append", "keyed"])
def test_two_operations_on_a_history_are_one_after_the_other(keys: list[str] | None) -> None:
    scene = Scene(keys)
    schedules = [(*pair, stop) for pair in PAIRS for stop in range(1, scene.stops(pair[0]) + 1)]
    few = schedules if thinned(schedules) is schedules else schedules[1 + bool(keys) :: 401]
    for first, second, stop in few:
        scene.check(first, second, stop)
    scene.memory.clear()

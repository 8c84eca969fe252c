"""Operations that change the history of a table, run at the same time: what readers may see afterwards.

What is right is not modelled: the same operations run one after the other, in all orders, and what readers then see of
the table, its tags and its branches is what they may see after the race. An operation that raised an error of the
library has not happened. A call that goes back to a snapshot means the one that has the id when the call begins: a
fast-forward may give the id to another one. Every snapshot, tag and branch that is left can be read, before and after
the removal of orphans.

Two operations: the first is stopped at one of its storage calls, the second runs from beginning to end, then the first
goes on. Three: each runs in a thread, one of them at a time, and they take turns at storage calls as a schedule says.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import permutations

import pyarrow as pa

import lakewright as lw
from contract.fault_enumerator import stray_files
from contract.faulty_storage import Fault, FaultKind, FaultyStorage, MemoryImage, MemoryStorage
from lakewright.maintenance.rollback import RESTORED, is_pin, publish_state
from lakewright.spec.snapshot import Snapshot, state_of

WEEK = 7 * 24 * 60 * 60 * 1000
FIELDS = [lw.DataField(0, "k", lw.AtomicType("INT", nullable=False)), lw.DataField(1, "v", lw.AtomicType("STRING"))]
Rows = list[tuple[int, str]]
State = dict[str, Rows]
Verb = Callable[[lw.FileStoreTable], object]
_names = itertools.count()


def _alter(table: lw.FileStoreTable) -> None:
    warehouse = table.store.layout.root.rpartition("/d.db/")[0]
    changes = [lw.SchemaChange.add_column("c", "INT")]
    lw.FileSystemCatalog(table.store.storage, warehouse, {}).alter_table("d.t", changes)


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
    "rollback to a tag": lambda t: t.rollback_to("v1"),
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
    "alter": _alter,
}
PATIENCE_SECONDS = 60


class Scene:
    """A table with four snapshots, a tag of the first and a branch of it, on which operations are tried.

    If it is old, it has eight, of which the first six have expired, and the branch is below those that are left.
    """

    def __init__(self, keys: list[str] | None, *, is_old: bool = False) -> None:
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
        if is_old:
            for key in range(30, 34):
                lw.write_table(rows_of(key), self.table)
            lw.write_table(rows_of(21, value="b"), self.catalog.get_table("d.t$branch_b"))
            self.table.expire_snapshots(retain_max=2, retain_min=2)
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

    def after(self, *names: str, named_before: bool = False) -> State:
        """Return what readers see when some operations run one after the other.

        With `named_before` those that go back mean the snapshot that had the id at the beginning.
        """
        key = (*names, "named before") if named_before else names
        if key not in self.orders:
            self.reset()
            target = self.table.store.snapshots.find(2)
            for number, name in enumerate(names):
                if (
                    target is not None
                    and named_before
                    and name in {"restore", "rollback"}
                    and not {"forward", "rollback to a tag"}.isdisjoint(names[:number])
                ):
                    publish_state(self.table.store, target, self.table.store.snapshots.latest())
                else:
                    self.act(name, self.table)
            self.orders[key] = self.observe()
        return self.orders[key]

    def after_any_order(self, names: Sequence[str]) -> list[State]:
        """Return what readers may see when some operations have run one after the other."""
        orders = [*permutations(names)]
        allowed = [self.after(*order) for order in orders]
        rewound = not {"forward", "rollback to a tag"}.isdisjoint(names)
        if rewound and not {"restore", "rollback"}.isdisjoint(names):
            allowed += [self.after(*order, named_before=True) for order in orders]
        if {"forward", "rename a tag"} <= {*names}:  # a renamed tag may have both names
            allowed += [{**state, "main w1": state["main v1"]} for state in allowed if "main v1" in state]
        return allowed

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
        allowed = self.after_any_order([first, second])
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

    def take_turns(self, names: Sequence[str], schedule: Sequence[tuple[int, int]]) -> None:
        """Run operations at the same time: each pair says which goes on, and for how many storage calls."""
        self.reset()
        turns = _Turns(len(names))
        lost: list[str] = []

        def run(number: int, name: str) -> None:
            if not self.act(name, self.through(turns.storage(self.memory, number))):
                lost.append(name)

        turns.run([partial(run, n, name) for n, name in enumerate(names)], schedule)
        seen, files = self.observe(), self.memory.image()
        happened = [name for name in names if name not in lost]
        allowed = self.after_any_order(happened)
        self.memory.restore(files)
        assert seen in allowed, (names, schedule, lost, seen, allowed)
        ids = self.table.store.snapshots.ids()
        assert ids == list(range(ids[0], ids[-1] + 1)), (names, schedule, lost, ids)
        self.memory.age(WEEK)
        if self.table.remove_orphan_files().paths:
            assert self.observe() == seen, (names, schedule)
        assert stray_files(self.table.store) == set(), (names, schedule)


@dataclass
class _Turns:
    """Lets one of some threads run at a time; each stops before every storage call until it is its turn."""

    count: int
    current: int | None = None
    calls_left: int = 0
    ended: set[int] = field(default_factory=set)
    changed: threading.Condition = field(default_factory=threading.Condition)
    errors: list[BaseException] = field(default_factory=list)

    def storage(self, inner: MemoryStorage, number: int) -> FaultyStorage:
        """Return the storage of a thread."""
        return FaultyStorage(inner, [Fault(n, FaultKind.SLOW) for n in range(1, 2000)], pause=lambda: self.stop(number))

    def stop(self, number: int) -> None:
        """Wait for the turn of a thread."""
        with self.changed:
            if self.current == number and self.calls_left:
                self.calls_left -= 1
                return
            if self.current == number:
                self.current = None
                self.changed.notify_all()
            assert self.changed.wait_for(lambda: self.current == number, PATIENCE_SECONDS)
            self.calls_left -= 1

    def run(self, acts: Sequence[Callable[[], None]], schedule: Sequence[tuple[int, int]]) -> None:
        """Run functions in threads as a schedule says, and then, in order, to their ends."""
        threads = [threading.Thread(target=self._thread, args=(n, act)) for n, act in enumerate(acts)]
        for number, calls in [*schedule, *((number, 10**9) for number in range(len(acts)))]:
            with self.changed:
                if number in self.ended:
                    continue
                self.current, self.calls_left = number, calls
                self.changed.notify_all()
                if threads[number].ident is None:
                    threads[number].start()
                assert self.changed.wait_for(lambda: self.current is None, PATIENCE_SECONDS)
        for thread in threads:
            thread.join()
        if self.errors:
            raise self.errors[0]

    def _thread(self, number: int, act: Callable[[], None]) -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - it is raised where all threads have ended
            self.errors.append(error)
        with self.changed:
            self.ended.add(number)
            self.current = None
            self.changed.notify_all()

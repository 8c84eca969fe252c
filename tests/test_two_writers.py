"""Two writers of a primary-key table, one stopped in the middle of the other: as if one came after the other.

The first writer is stopped at one of its storage calls, the second runs from beginning to end, then the first goes on.
Afterwards the rows are those of the two operations in the order of their snapshots; an operation that raised a named
conflict has not happened at all.
"""

from __future__ import annotations

import itertools
import multiprocessing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from contract.fault_enumerator import stray_files
from contract.faulty_storage import Fault, FaultKind, FaultyStorage, MemoryStorage
from lakewright.spec.snapshot import CommitKind
from support.effort import is_thin, pairwise

pytestmark = pytest.mark.filterwarnings("ignore::lakewright.LakewrightWarning")

Rows = dict[int, str]
_names = itertools.count()
START: Rows = {1: "start", 2: "start", 3: "start", 4: "start"}
FIELDS = [lw.DataField(0, "k", lw.AtomicType("INT", nullable=False)), lw.DataField(1, "v", lw.AtomicType("STRING"))]
TABLES = {
    "plain": {"bucket": "1", "write-only": "true"},
    "compacting": {"bucket": "1", "num-sorted-run.compaction-trigger": "2"},
    "vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "dynamic": {"bucket": "-1", "write-only": "true"},
}


def table_of(rows: Rows) -> pa.Table:
    return pa.table({"k": pa.array(rows.keys(), pa.int32()), "v": pa.array(rows.values(), pa.string())})


@dataclass(frozen=True)
class Verb:
    """Something that a writer does, and what it means for the rows."""

    name: str
    run: Callable[[lw.FileStoreTable, str], object]
    model: Callable[[Rows, str], Rows]

    def __str__(self) -> str:
        return self.name


def _upserted(who: str) -> Rows:
    return {1: who, 2: who, 10: who}


def _added(who: str) -> Rows:
    return {100 + ord(who): who}


VERBS = [
    Verb(
        "upsert",
        lambda table, who: lw.write_table(table_of(_upserted(who)), table, mode="upsert"),
        lambda rows, who: {**rows, **_upserted(who)},
    ),
    Verb(
        "delete",
        lambda table, _: lw.write_table(table_of({1: "", 10: ""}).select(["k"]), table, mode="delete"),
        lambda rows, _: {k: v for k, v in rows.items() if k not in {1, 10}},
    ),
    Verb(
        "append",
        lambda table, who: lw.write_table(table_of(_added(who)), table, mode="upsert"),
        lambda rows, who: {**rows, **_added(who)},
    ),
    Verb(
        "overwrite",
        lambda table, who: lw.write_table(table_of({1: who, 7: who}), table, mode="overwrite"),
        lambda _, who: {1: who, 7: who},
    ),
    Verb("compact", lambda table, _: table.compact(full=True), lambda rows, _: rows),
    Verb("expire", lambda table, _: table.expire_snapshots(retain_max=1), lambda rows, _: rows),
]
FIRST = [verb for verb in VERBS if verb.name != "expire"]


def read(table: lw.FileStoreTable) -> Rows:
    visible = table.copy({"deletion-vectors.merge-on-read": "true"})
    rows = lw.read_table(visible).to_pylist()
    assert len({row["k"] for row in rows}) == len(rows), "a key is there twice"
    return {row["k"]: row["v"] for row in rows}


class Scene:
    """A table at its beginning, on which the same two operations are tried again and again."""

    def __init__(self, options: dict[str, str]) -> None:
        self.memory = MemoryStorage(f"two-writers-{next(_names)}")
        catalog = lw.FileSystemCatalog(self.memory, f"{self.memory.root}/w", {})
        catalog.create_database("d")
        catalog.create_table("d.t", lw.Schema(FIELDS, None, ["k"], {"lakewright.write-threads": "1", **options}))
        self.table = catalog.get_table("d.t")
        lw.write_table(table_of(START), self.table, mode="upsert")
        lw.write_table(table_of({2: "start", 3: "start"}), self.table, mode="upsert")
        self.start = self.memory.image()
        self.stops: dict[str, list[int]] = {}

    def through(self, storage: FaultyStorage) -> lw.FileStoreTable:
        return replace(self.table, store=replace(self.table.store, storage=storage))

    def stopping_points(self, verb: Verb) -> list[int]:
        """Return three calls: an early one, the one that publishes the snapshot, and the one after it."""
        if verb.name not in self.stops:
            self.stops[verb.name] = self._stopping_points(verb)
        return self.stops[verb.name]

    def _stopping_points(self, verb: Verb) -> list[int]:
        self.memory.restore(self.start)
        counted = FaultyStorage(self.memory)
        verb.run(self.through(counted), "A")
        made = counted.calls
        published = [n for n, c in enumerate(made, 1) if c.verb == "create" and "/snapshot/snapshot-" in c.path]
        last = published[0] if published else len(made) // 2
        return sorted({max(1, last // 2), last, min(last + 1, len(made))})

    def check(self, first: Verb, second: Verb, stop: int) -> None:
        """Stop the first operation at a call, run the second, and judge what came of it."""
        self.memory.restore(self.start)
        started_id = self.table.store.snapshots.latest_id()
        happened: list[tuple[Verb, str]] = []
        first_is_published: list[bool] = []

        def act(verb: Verb, who: str, table: lw.FileStoreTable) -> bool:
            try:
                verb.run(table, who)
            except lw.CommitConflictError:
                return False
            return True

        def interrupt() -> None:
            first_is_published.append(self.table.store.snapshots.latest_id() != started_id)
            if act(second, "B", self.table):
                happened.append((second, "B"))

        stopping = FaultyStorage(self.memory, [Fault(stop, FaultKind.SLOW)], pause=interrupt)
        if act(first, "A", self.through(stopping)):
            # Whoever was stopped before its snapshot comes second, whoever was stopped after it comes first.
            happened.insert(0 if first_is_published == [True] else len(happened), (first, "A"))
        assert happened, "one of two must succeed"
        assert len(first_is_published) == 1
        expected = START
        for verb, who in happened:
            expected = verb.model(expected, who)
        rows = read(self.table)
        assert rows == expected, (first.name, second.name, stop, [(v.name, w) for v, w in happened])
        self.memory.age(7 * 24 * 60 * 60 * 1000)
        self.table.remove_orphan_files()
        assert read(self.table) == rows
        assert stray_files(self.table.store) == set()


@pytest.fixture(scope="module")
def scene_of() -> Iterator[Callable[[str], Scene]]:
    """Return how the scene of a kind of tables is found; each is made once."""
    scenes: dict[str, Scene] = {}

    def find(kind: str) -> Scene:
        if kind not in scenes:
            scenes[kind] = Scene(TABLES[kind])
        return scenes[kind]

    yield find
    for scene in scenes.values():
        scene.memory.clear()


@pytest.mark.parametrize(("first", "second", "kind"), pairwise(FIRST, VERBS, ["plain", "compacting"]), ids=str)
def test_concurrent_operations_have_the_result_of_one_after_the_other(
    scene_of: Callable[[str], Scene], first: Verb, second: Verb, kind: str
) -> None:
    scene = scene_of(kind)
    for stop in scene.stopping_points(first):
        scene.check(first, second, stop)


TWICE = [verb for verb in VERBS if verb.name in {"upsert", "delete", "overwrite", "compact"}]


@pytest.mark.parametrize("kind", ["vectors", "dynamic"])
@pytest.mark.parametrize("verb", TWICE, ids=str)
def test_the_same_operation_run_twice_concurrently_has_the_result_of_one_after_the_other(
    scene_of: Callable[[str], Scene], verb: Verb, kind: str
) -> None:
    scene = scene_of(kind)
    for stop in scene.stopping_points(verb):
        scene.check(verb, verb, stop)


def test_two_upserts_stopped_at_every_call_are_one_after_the_other(scene_of: Callable[[str], Scene]) -> None:
    upsert, scene = VERBS[0], scene_of("plain")
    scene.memory.restore(scene.start)
    counted = FaultyStorage(scene.memory)
    upsert.run(scene.through(counted), "A")
    for stop in range(1, len(counted.calls) + 1):
        scene.check(upsert, upsert, stop)


UPSERTS = 8
WRITERS = 2 if is_thin() else 3
KEYS = 20


def upsert_again_and_again(location: str, who: int) -> None:
    """Be one process that upserts the same keys over and over."""
    table = lw.open_table(location)
    for number in range(UPSERTS):
        rows = dict.fromkeys(range(KEYS), f"{who}/{number}")
        lw.write_table(table_of(rows), table, mode="upsert")


@pytest.mark.processes
@pytest.mark.parametrize("kind", [pytest.param("plain", marks=pytest.mark.nightly), "compacting"])
def test_of_processes_that_upsert_the_same_keys_the_later_commit_wins(tmp_path: Path, kind: str) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema(FIELDS, None, ["k"], TABLES[kind]))
    table = catalog.get_table("d.t")
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=upsert_again_and_again, args=(table.table_path, n)) for n in range(WRITERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0] * WRITERS
    seen: list[str] = []
    for snapshot_id in table.store.snapshots.ids():
        values = set(lw.read_table(table, snapshot_id=snapshot_id).column("v").to_pylist())
        assert len(values) == 1, "a commit is visible whole, or not at all"
        (value,) = values
        if table.store.snapshots.get(snapshot_id).commit_kind is CommitKind.COMPACT:
            assert value == seen[-1], "a compaction changed rows"
        else:
            assert value not in seen, "an earlier commit won"
            seen.append(value)
    assert sorted(seen) == sorted(f"{who}/{number}" for who in range(WRITERS) for number in range(UPSERTS))
    for who in range(WRITERS):
        numbers = [int(value.split("/")[1]) for value in seen if value.startswith(f"{who}/")]
        assert numbers == sorted(numbers)

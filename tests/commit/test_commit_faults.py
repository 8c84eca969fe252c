"""Every storage call of every kind of commit fails once, in every way: the table stays whole, the caller informed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from contract.faulty_storage import Crash, Fault, FaultKind, FaultyStorage, MemoryStorage
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.committer import Committer
from lakewright.errors import CommitConflictError, CommitContentionError, CommitUnknownError, InvalidInputError
from lakewright.maintenance.orphan_files import DAY_MILLIS, remove_orphans
from lakewright.metadata.table_store import TableStore
from lakewright.spec.manifest import COMPACT, DELETION_VECTORS, DeletionRange, IndexFile
from support.commits import NOW, Ticks, live_names, message, new_store, used_metadata_names
from support.effort import is_thin

pytestmark = pytest.mark.long

KINDS = [
    FaultKind.ERROR_BEFORE,
    FaultKind.ERROR_AFTER,
    FaultKind.CRASH_BEFORE,
    FaultKind.CRASH_AFTER,
    FaultKind.DISK_FULL,
    FaultKind.CONFLICT,
    FaultKind.PRECONDITION,
    FaultKind.STALE_LISTING,
]
# Where a fault makes a difference; None stands for all calls.
VERBS = {
    FaultKind.ERROR_AFTER: {"create", "replace", "delete"},
    FaultKind.CRASH_AFTER: {"create", "replace", "delete"},
    FaultKind.DISK_FULL: {"create", "replace"},
    FaultKind.CONFLICT: {"create"},
    FaultKind.PRECONDITION: {"create"},
    FaultKind.STALE_LISTING: {"list"},
}
_names = itertools.count()


@dataclass(frozen=True)
class Scenario:
    options: dict[str, str]
    messages: Callable[[TableStore], list[CommitMessage]]
    run: Callable[[Committer, list[CommitMessage]], object]
    after: list[str]
    snapshots: int = 1


def _append(store: TableStore) -> list[CommitMessage]:
    return [message(store, "new")]


def _compaction(store: TableStore) -> list[CommitMessage]:
    made = message(store, "new")
    newest = store.snapshots.latest()
    assert newest is not None
    old = tuple(e.file for e in store.manifests.live(newest))
    after = tuple(replace(f, file_source=COMPACT, row_count=len(old)) for f in made.new_files)
    return [replace(made, new_files=(), rows_in=None, compact_before=old, compact_after=after)]


def _vectors(store: TableStore) -> list[CommitMessage]:
    index = IndexFile(DELETION_VECTORS, "index-1", 10, 1, (DeletionRange("a0.parquet", 1, 2, 1),))
    store.storage.create(store.layout.index_file(index), b"0123456789")
    return [replace(message(store), new_index_files=(index,))]


OLD = ["a0", "a1"]
SCENARIOS = {
    "append": Scenario({}, _append, lambda c, m: c.commit(m), [*OLD, "new"]),
    "append that merges": Scenario({"manifest.merge-min-count": "2"}, _append, lambda c, m: c.commit(m), [*OLD, "new"]),
    "append with row ids": Scenario({"row-tracking.enabled": "true"}, _append, lambda c, m: c.commit(m), [*OLD, "new"]),
    "stream": Scenario({}, _append, lambda c, m: replace(c, commit_user="s").commit(m, 3), [*OLD, "new"]),
    "overwrite": Scenario({}, _append, lambda c, m: c.overwrite(m), ["new"]),
    "compaction": Scenario({}, _compaction, lambda c, m: c.commit(m), ["new"]),
    "delete rows": Scenario({"deletion-vectors.enabled": "true"}, _vectors, lambda c, m: c.commit(m), OLD),
}


def _committer(store: TableStore) -> Committer:
    ticks = Ticks(next(_names))
    return Committer(store, clock=ticks.clock, sleep=ticks.sleep, random=ticks.dice.random, new_uuid=ticks.uuid)


def _check(store: TableStore, scenario: Scenario, *, happened: bool | None) -> None:
    names, count = live_names(store), len(store.snapshots.ids()) - len(OLD)
    assert count in {0, scenario.snapshots}
    assert names == (scenario.after if count else OLD)
    if happened is not None:
        assert bool(count) == happened


def _run(scenario: Scenario, store: TableStore, messages: list[CommitMessage]) -> bool | None:
    """Return whether the commit says that it happened, None where it cannot say."""
    try:
        scenario.run(_committer(store), messages)
    except (Crash, CommitUnknownError):
        return None
    except (CommitContentionError, CommitConflictError, InvalidInputError):
        return False
    return True


def _cases() -> list[tuple[str, FaultKind]]:
    """Return every fault of one kind of commit, and one fault of each other kind; at night, all of them."""
    if not is_thin():
        return list(itertools.product(SCENARIOS, KINDS))
    others = [name for name in SCENARIOS if name != "append that merges"]
    return [*(("append that merges", kind) for kind in KINDS), *zip(others, KINDS[1:], strict=False)]


@pytest.mark.parametrize(("name", "kind"), _cases())
def test_whatever_call_fails_the_commit_happened_or_did_not(name: str, kind: FaultKind) -> None:
    scenario = SCENARIOS[name]
    memory = MemoryStorage(f"commit-faults-{next(_names)}")
    plain = new_store(memory.root, storage=memory, options={"commit.max-retries": "3", **scenario.options})
    for old in OLD:
        _committer(plain).commit([message(plain, old)])
    messages = scenario.messages(plain)
    start = memory.image()
    counted = FaultyStorage(memory)
    assert _run(scenario, replace(plain, storage=counted), messages)
    verbs = VERBS.get(kind)
    for call in [n for n, made in enumerate(counted.calls, 1) if verbs is None or made.verb in verbs]:
        memory.restore(start)
        faulty = FaultyStorage(memory, [Fault(call, kind)])
        happened = _run(scenario, replace(plain, storage=faulty), messages)
        if happened is None:
            memory.crash(call)
        _check(plain, scenario, happened=happened)
        for _ in range(1 if happened else 2):
            assert _run(scenario, plain, messages), (call, counted.calls[call - 1])
            _check(plain, scenario, happened=True)
        remove_orphans(plain, now=4 * NOW, older_than_millis=4 * NOW - DAY_MILLIS)
        left = {info.path.rpartition("/")[2] for info in memory.list(plain.layout.manifest_directory)}
        assert left == used_metadata_names(plain)
        _check(plain, scenario, happened=True)
    memory.clear()


@pytest.mark.parametrize("kind", [FaultKind.ERROR_BEFORE, FaultKind.CONFLICT, FaultKind.UNAVAILABLE])
def test_errors_without_effect_leave_nothing_but_the_marker_of_a_failed_commit(kind: FaultKind) -> None:
    scenario = SCENARIOS["append that merges"]
    memory = MemoryStorage(f"commit-faults-{next(_names)}")
    plain = new_store(memory.root, storage=memory, options={"commit.max-retries": "3", **scenario.options})
    for old in OLD:
        _committer(plain).commit([message(plain, old)])
    messages = scenario.messages(plain)
    start = memory.image()
    counted = FaultyStorage(memory)
    _run(scenario, replace(plain, storage=counted), messages)
    for call in range(1, len(counted.calls) + 1):
        memory.restore(start)
        happened = _run(scenario, replace(plain, storage=FaultyStorage(memory, [Fault(call, kind)])), messages)
        left = {info.path.rpartition("/")[2] for info in memory.list(plain.layout.manifest_directory)}
        if counted.calls[call - 1].verb != "delete":
            stray = left - used_metadata_names(plain)
            assert len(stray) <= (0 if happened else 1), (call, counted.calls[call - 1], stray)
            assert all(name.startswith("manifest-") and name.endswith("-0") for name in stray), stray
    memory.clear()

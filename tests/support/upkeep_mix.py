"""One table of a kind under a random mix of operations, with kills, beside a model of what it must hold.

A kind and a seed in; a table on which every operation was judged out. The operations are those of `upkeep_verbs`; here
they are run, cut off at random storage calls, and judged: no state that is kept ever changes, every new one has the
rows that the model computed with polars, and nothing is lost or kept but what the operation's documentation says.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import polars as pl

import lakewright as lw
from contract.fault_enumerator import OPTIONS
from contract.faulty_storage import Crash, Fault, FaultKind, FaultyStorage, MemoryStorage
from lakewright.errors import InvalidInputError, NotFoundError, UnsupportedError
from support.row_changes import BUCKETS, EVOLUTION, TRACKED, VECTORS, create_table, random_rows
from support.upkeep_book import MAIN, Line, State, lines_of, projected, read, same_rows
from support.upkeep_files import UsedFiles

# Of each kind: partition columns, primary key, options.
KINDS: dict[str, tuple[list[str], list[str], dict[str, str]]] = {
    "plain": ([], [], {}),
    "plain, buckets": ([], [], BUCKETS),
    "vectors, partitions": (["p"], [], VECTORS),
    "tracked, vectors, partitions": (["p"], [], TRACKED | VECTORS),
    "evolution": ([], [], EVOLUTION),
    "keyed": ([], ["id"], {"bucket": "2"}),
    "keyed, partitions, vectors": (["p"], ["p", "id"], {"bucket": "1"} | VECTORS),
    "keyed, dynamic": ([], ["id"], {"bucket": "-1", "dynamic-bucket.target-row-num": "5"}),
    "keyed, partitions, input": (["p"], ["p", "id"], {"bucket": "1", "changelog-producer": "input"}),
    "keyed, lookup": ([], ["id"], {"bucket": "1", "changelog-producer": "lookup"}),
    "keyed, full compaction": ([], ["id"], {"bucket": "1", "changelog-producer": "full-compaction"}),
}
_names = itertools.count()

Lines = Mapping[str, Line]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One operation: the call, what it may make of the table, and how it is brought to its end after a kill.

    `judge` gets all branches as they are afterwards, and whether the call, or what finishes it, has returned. Without
    `finish` a killed call is left as it is.
    """

    what: str
    call: Callable[[lw.Catalog], object]
    judge: Callable[[Lines, bool], None]
    finish: Callable[[lw.Catalog], object] | None = None
    killable: bool = True


class Mix:
    """A table, the states that it has had, and its branches as they were after the last operation."""

    def __init__(self, kind: str, seed: int, *, kills: float = 0.25) -> None:
        self.kind, self.seed, self.kills = kind, seed, kills
        self.partition_keys, self.keys, own = KINDS[kind]
        self.random = Random(f"{kind} {seed}")
        self.memory = MemoryStorage(f"mix-{next(_names)}", renames=self.random.random() < 0.5)
        self.root = f"{self.memory.root}/warehouse/d.db/t"
        options = {"num-sorted-run.compaction-trigger": "4", "manifest.merge-min-count": "5"}
        create_table(self.open(), self.partition_keys, self.keys, own, options)
        # Rows of a primary-key table with deletion vectors are seen once they are compacted.
        self.defers = bool(self.keys) and "deletion-vectors.enabled" in own
        self.states: dict[str, State] = {}
        self.lines: Lines = self.observe()
        self.done: Counter[str] = Counter()
        self.killed: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.verified = 0
        self.log: list[str] = []
        self.calls: dict[str, int] = {}  # how many storage calls an operation made the last time
        self.tags = 0  # the number of the next row

    # The table.

    def open(self, storage: FaultyStorage | None = None) -> lw.Catalog:
        """Return a new catalog."""
        return lw.FileSystemCatalog(storage or self.memory, f"{self.memory.root}/warehouse", OPTIONS)

    def table(self, branch: str, catalog: lw.Catalog | None = None) -> lw.FileStoreTable:
        """Return a new handle of a branch."""
        name = "d.t" if branch == MAIN else f"d.t$branch_{branch}"
        return (catalog or self.open()).get_table(name)

    def files(self) -> dict[str, bytes]:
        """Return all files of the table."""
        return {path: data for path, data in self.memory.image().files.items() if path.startswith(f"{self.root}/")}

    def observe(self) -> Lines:
        """Return the branches as their files say they are."""
        return lines_of(self.files(), self.root)

    def state(self, branch: str) -> State:
        """Return the newest state of a branch."""
        line = self.lines[branch]
        if not line.snapshots:
            return State(random_rows(self.random, 0, None, nulls=False), line.columns)
        return self.states[line.snapshots[line.newest]]

    # Running.

    def run(self, verbs: Iterator[tuple[str, Attempt]], count: int, every: int) -> None:
        """Run so many operations, and look at everything after some of them and at the end."""
        try:
            for number, (name, attempt) in enumerate(itertools.islice(verbs, count), 1):
                self.step(name, attempt)
                if number % every == 0:
                    self.inspect()
            self.finish()
        except Exception as error:
            told = "\n".join(self.log)
            raise AssertionError(
                f"{self.kind!r}, seed {self.seed}: {error}\nafter these operations:\n{told}"
            ) from error

    def step(self, name: str, attempt: Attempt) -> None:
        """Run one operation."""
        self.log.append(f"{len(self.log) + 1}. {name}: {attempt.what}")
        faults = []
        if attempt.killable and self.random.random() < self.kills:
            call = self.random.randint(1, self.calls.get(name, 40))
            faults = [Fault(call, self.random.choice([FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER]))]
        storage = FaultyStorage(self.memory, faults)
        if cuts_power := bool(faults) and self.random.random() < 0.3:
            self.memory.restore(self.memory.image())  # what earlier operations left unsynced is not in question
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                attempt.call(self.open(storage))
            except Crash:
                self._go_on(name, attempt, storage, cuts_power=cuts_power)
            except (UnsupportedError, InvalidInputError) as error:
                self.refused[f"{name}: {error}"[:160]] += 1
                self.log[-1] += f" (refused: {error})"
                assert self.observe() == self.lines, "a refused call has changed something"
            else:
                self.calls[name] = len(storage.calls)
                self.done[name] += 1
                self._judge(attempt, done=True)

    def _go_on(self, name: str, attempt: Attempt, storage: FaultyStorage, *, cuts_power: bool) -> None:
        """Judge what a killed call left, by a new handle, and bring it to its end if that is how it is done."""
        self.killed[name] += 1
        call = storage.calls[-1]
        self.log[-1] += f" (killed at call {len(storage.calls)}: {call.verb} {call.path.removeprefix(self.root)})"
        if cuts_power:
            self.log[-1] += ", power cut"
            self.memory.crash(self.random.getrandbits(16))
        if attempt.finish is not None:
            attempt.finish(self.open())
        self._judge(attempt, done=attempt.finish is not None)

    def _judge(self, attempt: Attempt, *, done: bool) -> None:
        after = self.observe()
        attempt.judge(after, done)
        self.lines = after
        for branch in [name for name in after if after[name].snapshots and self.state(name).waiting is not None]:
            self.table(branch).compact(full=True)  # a killed write left rows that nobody sees yet
            settled = self.observe()
            self.judge_commit(branch, [], settled, done=True)
            self.lines = settled

    # Judging.

    def judge_others(self, after: Lines, *changed: str) -> None:
        """Check that no other branch has changed."""
        for name in {*self.lines, *after} - set(changed):
            assert after.get(name) == self.lines.get(name), f"branch {name} has changed"

    def judge_commit(
        self, branch: str, wanted: Sequence[pl.DataFrame], after: Lines, *, done: bool, expires: bool = False
    ) -> None:
        """Check the snapshots that a commit made, which must have one of the wanted frames of rows; keep them.

        Compactions among them have the rows of the snapshot before. A call that is done has made its commit.
        """
        self.judge_others(after, branch)
        before, now = self.lines[branch], after[branch]
        gone = [number for number in before.snapshots if number not in now.snapshots]
        assert not gone or (expires and max(gone) < min(now.snapshots)), f"snapshots {gone} are gone"
        assert {number: key for number, key in before.snapshots.items() if number not in gone} == {
            number: key for number, key in now.snapshots.items() if number <= before.newest
        }
        assert (now.tags, now.columns) == (before.tags, before.columns)
        new = [number for number in now.snapshots if number > before.newest]
        assert new == list(range(before.newest + 1, before.newest + 1 + len(new)))
        state, changes = self.state(branch), 0
        for number in new:
            is_change = now.texts[number]["commitKind"] not in {"COMPACT", "ANALYZE"}
            changes += is_change
            state = self._next_state(branch, number, now, state, wanted if is_change else ())
            self.states[now.snapshots[number]] = state
        assert changes <= 1, f"{changes} commits of one operation"
        if done:
            assert state.waiting is None
            allowed = [projected(rows, now.columns) for rows in wanted] or [state.seen_with(now.columns)]
            assert any(same_rows(read(self.table(branch)), rows) for rows in allowed), "the newest rows are others"

    def _next_state(self, branch: str, number: int, now: Line, before: State, wanted: Sequence[pl.DataFrame]) -> State:
        """Return the state of a new snapshot; `wanted` is empty for a compaction."""
        columns = now.schemas[now.texts[number]["schemaId"]]
        found = read(self.table(branch), snapshot_id=number)
        unseen = before.rows if before.waiting is None else before.waiting
        if self.defers and now.texts[number]["commitKind"] == "APPEND":
            assert same_rows(found, before.seen_with(columns)), f"snapshot {number} has other rows than the one before"
            return State(before.rows, columns, wanted[0])
        for rows in wanted or [unseen]:
            if same_rows(found, projected(rows, columns)):
                return State(rows, columns)
        raise AssertionError(f"snapshot {number} has other rows than it must have: {found.rows()}")

    # Looking at everything.

    def inspect(self) -> None:
        """Verify the table, and read every snapshot and tag of every branch."""
        result = self.table(MAIN).verify(full=True, snapshots="all")
        errors = [one for one in result.findings if one.severity == "error"]
        assert result.is_sound, errors
        self.verified += 1
        for branch, line in self.lines.items():
            table = self.table(branch)
            for number, key in line.snapshots.items():
                self._check(read(table, snapshot_id=number), self.states[key], f"{branch}: snapshot {number}")
            for name, (_, key) in line.tags.items():
                self._check(read(table, tag=name), self.states[key], f"{branch}: tag {name}")
            if line.snapshots:
                newest = self.states[line.snapshots[line.newest]]
                assert same_rows(read(table), newest.seen_with(line.columns)), f"{branch}: the newest rows are others"

    def _check(self, found: pl.DataFrame, state: State, what: str) -> None:
        assert same_rows(found, state.seen_with(state.columns)), f"{what} reads {found.rows()}"

    def finish(self) -> None:
        """Expire what may go and remove orphans: then the files of the table are those in use."""
        for branch in self.lines:
            self.table(branch).expire_snapshots(retain_max=3, retain_min=1)
        time.sleep(0.002)  # a file of this millisecond is not older than now
        self.table(MAIN).remove_orphan_files(older_than=int(time.time() * 1000))
        for branch in self.lines:
            self.table(branch).repair()  # hints that a killed call left
        self.lines = self.observe()
        self.inspect()
        used = UsedFiles(self.files(), self.root)
        strays = used.strays()
        assert not strays, strays
        result = self.table(MAIN).verify(full=True, snapshots="all")
        findings = [one for one in result.findings if one.kind != "consumer"]  # one may wait for what was rolled back
        assert not findings, findings


def accepting(call: Callable[[lw.Catalog], object], *errors: type[Exception]) -> Callable[[lw.Catalog], None]:
    """Return a call that is made again after a kill, when its first run may have come to its end."""

    def again(catalog: lw.Catalog) -> None:
        with suppress(NotFoundError, *errors):
            call(catalog)

    return again

"""What a table may hold after many processes have used it, given what was acknowledged to them.

The state of a table is a map from keys to values; a value is the name of the operation that wrote the row, so that no
two operations write the same. What a history allows is a set of values for each key, None for no row. These rules make
the sets; each allows too much rather than too little.

- An acknowledged commit has happened once, at the id of its snapshot; commits take effect in the order of their ids. A
  refused one has never happened. An unknown one has happened once or not, at any place that its time allows.
- A delete or update by a condition may miss a row that another commit adds meanwhile.
- `rollback_to(T)` that was acknowledged removes every commit above T that had ended before it began. Commits that were
  under way may be removed or not; those that began after it ended stay. A rollback to a tag also puts the state of the
  tag in the place of the snapshot with its id.
- `rollback_to_as_latest(T)` is a commit that puts the state of T in the place of all that was there. Where a rewind ran
  while T was looked up, or its outcome is unknown, so is which state T was.
- `fast_forward(B)` removes as a rollback to the first snapshot of B does, and puts the state of B there. What is
  committed to B meanwhile may be in it or not.
- A tag has the state of the table up to its snapshot at the time when it was made; a branch begins with that state, and
  has commits of its own. Where a rewind ran meanwhile the state is unknown: it must be readable and made of whole
  commits, no more is asked.
- A rewind of unknown outcome has happened or not.
- Replays, by messages or by a job id, change nothing if the first commit is there. If that was refused or unknown, a
  replay may be the one that commits. On tables whose history is rewound it may also bring back a commit that was
  removed.

After each epoch what was found, if it was allowed, is what the next one begins with. So an operation that is missing at
the end of its epoch and is seen in a later one is a failure, as is everything else without an explanation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from support.chaos.journal import DONE, FAILED, Operation

Rows: TypeAlias = dict[int, str]
Allowed: TypeAlias = dict[int, frozenset[str | None]]

ABSENT: frozenset[str | None] = frozenset({None})
SLOT_KEYS = 10**9  # keys of one slot; its number is the partition
COMMITS = frozenset({"append", "messages", "job", "upsert", "delete", "update", "merge", "overwrite", "truncate"})
REWINDS = frozenset({"rollback", "restore", "forward"})


def allowed_rows(rows: Rows) -> Allowed:
    """Return the sets of values of known rows."""
    return {key: frozenset({value}) for key, value in rows.items()}


@dataclass(frozen=True, slots=True)
class Element:
    """Something that changed the rows: a commit, or a state that was put in the place of all rows."""

    uid: str
    begin: float
    end: float
    id: int | None  # None: it is unknown whether and where
    is_certain: bool
    puts: tuple[int, ...] = ()
    drops: tuple[int, ...] = ()
    updates: tuple[int, ...] = ()  # puts of keys that are there
    finds: bool = False  # it changes the rows that it finds, and not those that others add meanwhile
    clear: int | None = None  # a slot whose keys go first, or -1 for all
    state: Allowed | None = None
    is_reset: bool = False  # puts `state` in the place of all rows; without a state it is unknown which

    @staticmethod
    def of(one: Operation) -> Element:
        """Return the element of a commit."""
        facts = one.facts
        puts, drops, updates = (tuple(facts.get(name, ())) for name in ("puts", "drops", "updates"))
        certain = one.outcome == DONE
        found_at = one.snapshot_id if certain else None
        finds, clear = facts.get("finds", False) or bool(updates), facts.get("clear")
        return Element(one.uid, one.begin, one.end, found_at, certain, puts, drops, updates, finds, clear)

    def apply(self, state: Allowed, added: dict[int, float]) -> None:
        """Change the sets of values; `added` tells when keys were added that may have been absent before."""
        for key, values in list(self._changes(state)):
            before = state.get(key, ABSENT)
            is_missed = self.finds and added.get(key, self.begin) > self.begin
            if key in self.puts and None in before:
                added[key] = max(self.end, added.get(key, self.end))
            state[key] = values if self.is_certain and not is_missed else values | before

    def _changes(self, state: Allowed) -> Iterator[tuple[int, frozenset[str | None]]]:
        if self.is_reset:
            wanted = self.state or {}
            for key in {*state, *wanted}:
                yield key, wanted.get(key, ABSENT)
            return
        puts = set(self.puts)
        if self.clear is not None:
            for key in state:
                if key not in puts and self.clear in (-1, key // SLOT_KEYS):
                    yield key, ABSENT
        for key in self.drops:
            yield key, ABSENT
        for key in self.puts:
            yield key, frozenset({self.uid})
        for key in self.updates:
            yield key, frozenset(None if value is None else self.uid for value in state.get(key, ABSENT))


def fold(base: Allowed | None, elements: Iterable[Element]) -> Allowed | None:
    """Return what may be there after some elements; None if it is unknown."""
    known = list(elements)
    if base is None or any(one.is_reset and one.state is None for one in known):
        return None
    state, added = dict(base), dict[int, float]()
    placed = sorted((one for one in known if one.id is not None), key=lambda one: (one.id, one.is_reset))
    floating = [one for one in known if one.id is None]
    before: Element | None = None
    for after in [*placed, None]:
        for one in floating:
            if (before is None or before.begin <= one.end) and (after is None or after.end >= one.begin):
                one.apply(state, added)
        if after is not None:
            after.apply(state, added)
        before = after
    return state


@dataclass(slots=True)
class Branch:
    """A branch: the id of its first snapshot, a state, the id of the snapshot that had it, and what came since."""

    first_id: int
    base_id: int
    base: Allowed | None
    elements: list[Element] = field(default_factory=list)

    def state(self) -> Allowed | None:
        """Return what the branch may hold."""
        return fold(self.base, self.elements)


@dataclass(slots=True)
class Past:
    """A table with its tags and branches as an epoch finds them."""

    rows: Rows = field(default_factory=dict)
    latest_id: int = 0
    tags: dict[str, tuple[int, Rows]] = field(default_factory=dict)
    branches: dict[str, tuple[int, int, Rows]] = field(default_factory=dict)  # the first id, the newest, its rows


class History:
    """What operations may have made of a table, its tags and its branches."""

    def __init__(
        self, past: Past, operations: Sequence[Operation], acknowledged: AbstractSet[str] = frozenset()
    ) -> None:
        self.base, self.base_id = allowed_rows(past.rows), past.latest_id
        self.acknowledged = acknowledged  # names of commits of earlier epochs
        self.tags: dict[str, tuple[int, Allowed | None]] = {
            name: (number, allowed_rows(rows)) for name, (number, rows) in past.tags.items()
        }
        self.branches = {
            name: Branch(first_id, newest_id, allowed_rows(rows))
            for name, (first_id, newest_id, rows) in past.branches.items()
        }
        known = self.known = [one for one in operations if one.outcome != FAILED]
        self.rewinds = [one for one in known if one.verb in REWINDS]
        self.main = list(self._commits(operations, ""))
        self.gone: set[str] = set()  # names of tags and branches that somebody tried to remove
        self.forwarded: list[range] = []  # ids of snapshots that came from branches, below the newest of each
        for one in known:
            self._take(one)
            if (name := one.facts.get("branch")) is not None and one.verb in COMMITS and name in self.branches:
                element = Element.of(one)
                if element.id is not None or not element.is_certain:
                    self.branches[name].elements.append(element)

    def _commits(self, operations: Sequence[Operation], branch: str) -> Iterator[Element]:
        replays: dict[str, list[Operation]] = {}
        for one in operations:
            if one.verb == "replay" and one.outcome != FAILED:
                replays.setdefault(one.facts["of"], []).append(one)
        for one in operations:
            if one.verb in COMMITS and one.facts.get("branch", "") == branch:
                element, runs = Element.of(one), replays.pop(one.uid, [])
                if one.outcome == FAILED and not runs:
                    continue
                if element.is_certain and element.id is None:
                    continue  # there was nothing to change
                yield from self._with_replays(element, runs)
        for of, runs in replays.items():  # of operations of earlier epochs, whose outcome was seen then
            if self.rewinds or of not in self.acknowledged:
                for run in runs:
                    yield Element(of, run.begin, run.end, None, is_certain=False, puts=tuple(run.facts["puts"]))

    def _with_replays(self, first: Element, runs: Sequence[Operation]) -> Iterator[Element]:
        """Yield a commit that was tried again: the first acknowledgement says where it is."""
        sure = next((run for run in runs if run.outcome == DONE and run.snapshot_id is not None), None)
        if not first.is_certain and sure is not None:
            first = replace(first, end=sure.end, id=sure.snapshot_id, is_certain=True)
        elif not first.is_certain and runs:
            first = replace(first, end=max(first.end, *(run.end for run in runs)))
        yield first
        if self.rewinds and runs:
            again = max(run.end for run in runs)
            yield replace(first, begin=min(run.begin for run in runs), end=again, id=None, is_certain=False)

    def _take(self, one: Operation) -> None:
        facts = one.facts
        match one.verb:
            case "tag":
                self.tags[facts["name"]] = (facts["of"], self._state_at(facts["of"], one))
            case "branch":
                source = facts["of"]
                if isinstance(source, str):
                    number, state = self.tags.get(source, (0, None))
                else:
                    number, state = source, self._state_at(source, one)
                self.branches[facts["name"]] = Branch(number, number, state)
            case "drop tag" | "drop branch":
                self.gone.add(facts["name"])
            case "rollback" | "restore":
                target = facts["of"]
                if isinstance(target, str):
                    number, state = self.tags.get(target, (0, None))
                else:
                    number, state = target, self._state_at(target, one)
                    # Where the snapshot has expired the call takes a tag with its id, maybe one of a removed line.
                    if any(tag[0] == target and tag[1] != state for tag in self.tags.values()):
                        state = None
                if one.verb == "restore":
                    self._reset(one, one.snapshot_id, state)
                else:
                    self._remove(one, number)
                    if isinstance(target, str) or state is None:
                        self._reset(one, number, state)
            case "forward":
                branch = self._branch_as_seen_by(one)
                ids = [(each.id or 0, each.is_certain) for each in branch.elements]
                newest = max((number for number, is_certain in ids if is_certain), default=branch.base_id)
                self._remove(one, branch.first_id - 1)
                self._reset(one, max(newest, branch.base_id), branch.state())
                self.forwarded.append(range(branch.first_id, max(newest, *(number for number, _ in ids), 0)))

    def _branch_as_seen_by(self, call: Operation) -> Branch:
        """Return a branch with the commits that a forward may have read: those at the same time are uncertain."""
        branch = self.branches.get(call.facts["name"], Branch(0, 0, None))
        later = [one for one in self.known if call.begin < one.begin <= call.end and one.verb in COMMITS]
        meanwhile = [Element.of(one) for one in later if one.facts.get("branch") == call.facts["name"]]
        elements = [replace(one, is_certain=one.is_certain and one.end < call.begin) for one in branch.elements]
        return replace(branch, elements=[*elements, *(replace(one, is_certain=False) for one in meanwhile)])

    def _state_at(self, snapshot_id: int, call: Operation) -> Allowed | None:
        """Return the state that a snapshot had when an operation looked it up."""
        if snapshot_id < self.base_id or any(snapshot_id in ids for ids in self.forwarded):
            return None
        others = (one for one in self.rewinds if one is not call)
        if any(one.begin <= call.end and one.end >= call.begin for one in others):
            return None
        below = [one for one in self.main if one.begin <= call.end and (one.id is None or one.id <= snapshot_id)]
        return fold(self.base, [self._as_seen_by(call, one) for one in below])

    def _as_seen_by(self, call: Operation, one: Element) -> Element:
        """Return a commit as uncertain if its id may be one that a rewind gave back after the call."""
        again = any(call.end < rewind.begin <= one.end for rewind in self.rewinds)
        return replace(one, is_certain=False) if again else one

    def _remove(self, call: Operation, kept_id: int) -> None:
        """Let a rewind remove what is above a snapshot."""
        kept = []
        for one in self.main:
            if one.id is None or one.id <= kept_id or one.begin > call.end:
                kept.append(one)
            elif one.end >= call.begin or call.outcome != DONE:
                kept.append(replace(one, is_certain=False))
        self.main = kept

    def _reset(self, call: Operation, snapshot_id: int | None, state: Allowed | None) -> None:
        certain = call.outcome == DONE
        number = snapshot_id if certain else None
        self.main.append(
            Element(call.uid, call.begin, call.end, number, is_certain=certain, state=state, is_reset=True)
        )

    def state(self) -> Allowed | None:
        """Return what the table may hold at the end."""
        return fold(self.base, self.main)

    def lasting(self, operations: Sequence[Operation], verb: str) -> set[str]:
        """Return the tags or branches that were made and that nothing may have removed since; rewinds remove tags."""
        made = {one.facts["name"]: one for one in operations if one.verb == verb and one.outcome == DONE}
        ends = [one.end for one in self.rewinds] if verb == "tag" else []
        return {name for name, one in made.items() if name not in self.gone and all(end < one.begin for end in ends)}


def check_rows(what: str, found: Rows, allowed: Allowed | None) -> list[str]:
    """Return the keys with a value that is not allowed."""
    if allowed is None:
        return []
    bad = []
    for key in {*found, *allowed}:
        values = allowed.get(key, ABSENT)
        if found.get(key) not in values:
            bad.append(f"{what}: key {key} is {found.get(key)}, not {_listed(values)}")
    return bad[:20] + ([f"{what}: {len(bad)} keys in all"] if len(bad) > 20 else [])


def _listed(values: frozenset[str | None]) -> str:
    return " or ".join(sorted(str(value) for value in values))


class Commits:
    """All operations of an epoch by name, to look at rows of any state: whole commits only, and none that failed."""

    def __init__(self, past: Past, operations: Sequence[Operation], earlier: AbstractSet[str] = frozenset()) -> None:
        self.by_uid = {one.uid: one for one in operations if one.verb in COMMITS}
        retried = {one.facts["of"] for one in operations if one.verb == "replay" and one.outcome != FAILED}
        self.failed = {uid for uid, one in self.by_uid.items() if one.outcome == FAILED and uid not in retried}
        known = [past.rows, *(rows for _, rows in past.tags.values()), *(rows for *_, rows in past.branches.values())]
        self.old = {value for rows in known for value in rows.values()} | earlier | (retried - self.by_uid.keys())
        touched: Counter[int] = Counter()
        self.clears = False
        for one in self.by_uid.values():
            if one.outcome != FAILED:
                touched.update({*one.facts.get("puts", ()), *one.facts.get("drops", ()), *one.facts.get("updates", ())})
                self.clears |= one.facts.get("clear") is not None
        self.touched = touched

    def check(self, what: str, found: Rows) -> list[str]:
        """Return the rows of commits that were refused or never made, and commits that are there in part."""
        bad = []
        seen = set(found.values())
        for uid in seen - self.old:
            if uid not in self.by_uid:
                bad.append(f"{what}: rows of {uid}, which nobody wrote")
            elif uid in self.failed:
                bad.append(f"{what}: rows of {uid}, which was refused: {self.by_uid[uid].error}")
        for uid in seen & set(self.by_uid):
            puts = self.by_uid[uid].facts.get("puts", ())
            torn = [key for key in puts if key not in found and self.touched[key] == 1]
            if torn and not self.clears:
                bad.append(f"{what}: {uid} lacks the keys {torn}")
        return bad

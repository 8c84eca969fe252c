"""The hand over the processes: it starts them, stops and kills them at random, and starts others in their places."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from support.chaos.roles import SPARK, Plan, TableKind, play
from support.warm_processes import LOADED, Running

WAIT_SECONDS_MAX = 240  # for a process whose time is over: it may be in the middle of a long operation
CLOCKS = (0.0, 0.0, 3600.0, -3600.0, 6 * 3600.0, -8 * 3600.0)  # less than the day that orphans are kept


@dataclass(slots=True)
class _Place:
    """A role and the process that plays it now."""

    role: str
    slot: int
    process: Running
    life: int
    stack: ExitStack
    stopped_until: float | None = None
    born_at: float = 0.0  # when the next process starts, if this one was killed


@dataclass
class Crew:
    """All processes of a run, one epoch after the other."""

    roles: Sequence[str]
    catalog: Mapping[str, str]
    tables: Sequence[TableKind]
    directory: Path
    seed: str
    stop_seconds: float  # longer than every timeout
    lateness: float  # how long after its sender's death a request may be carried out
    pause: float = 0.15
    lives: int = 0
    deaths: dict[int, float] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.dice = random.Random(f"{self.seed} crew")

    def run(self, seconds: float) -> list[str]:
        """Let all roles work for a time, with kills and stops; return what went wrong with the processes."""
        until = time.monotonic() + seconds
        with ExitStack() as stack:
            plan = Plan("", 0, 0, self.seed, self.catalog, self.tables, str(self.directory), until, 0.0, self.pause)
            places = [self._start(stack, plan, role, slot) for slot, role in enumerate(self.roles, 1)]
            next_fault = time.monotonic() + 2
            wrong: list[str] = []
            while (now := time.monotonic()) < until:
                for place in places:
                    if place.stopped_until is not None and place.stopped_until < now:
                        self._go_on(place)
                    if place.process.code is not None and place.life not in self.deaths:
                        self._note_end(place, wrong)
                    if place.born_at and place.born_at < now < until - 1:
                        replacement = self._start(stack, plan, place.role, place.slot)
                        places[places.index(place)] = replacement
                if now >= next_fault:
                    self._harm(self.dice.choice(places), now)
                    next_fault = now + self.dice.expovariate(1 / 0.8)
                time.sleep(0.05)
            for place in places:
                self._go_on(place)
            for place in places:
                if place.process.is_running(WAIT_SECONDS_MAX):
                    wrong.append(f"the process {place.role} does not end: {self._errors(place)}")
                self._note_end(place, wrong)
            time.sleep(self.lateness)
        return wrong

    def _start(self, stack: ExitStack, plan: Plan, role: str, slot: int) -> _Place:
        self.lives += 1
        own = stack.enter_context(ExitStack())
        mine = replace(plan, role=role, slot=slot, life=self.lives, clock=self.dice.choice(CLOCKS))
        process = own.enter_context(LOADED.running(play, mine))
        return _Place(role, slot, process, self.lives, own)

    def _harm(self, place: _Place, now: float) -> None:
        """Kill a process, or stop it for a while."""
        if place.born_at or place.stopped_until is not None or not place.process.is_running():
            return
        if place.role == SPARK and self.dice.random() < 0.7:
            return  # a session that has started shall do something
        if self.dice.random() < 0.5:
            self.counts["killed"] += 1
            self._kill(place)
            place.born_at = now + self.lateness + self.dice.uniform(0.0, 1.0)
            return
        long = self.dice.random() < 0.25
        self.counts["stopped for long" if long else "stopped"] += 1
        place.process.signal(signal.SIGSTOP)
        place.stopped_until = now + (self.stop_seconds if long else self.dice.uniform(0.1, self.stop_seconds / 2))

    def _kill(self, place: _Place) -> None:
        place.process.signal(signal.SIGKILL)
        assert not place.process.is_running(30)
        self.deaths[place.life] = time.monotonic()

    def _go_on(self, place: _Place) -> None:
        if place.stopped_until is not None:
            place.process.signal(signal.SIGCONT)
            place.stopped_until = None

    def _note_end(self, place: _Place, wrong: list[str]) -> None:
        if place.life in self.deaths:
            return
        self.deaths[place.life] = time.monotonic()
        if place.process.code not in {0, -signal.SIGKILL}:
            wrong.append(f"the process {place.role} ended with {place.process.code}: {self._errors(place)}")

    def _errors(self, place: _Place) -> str:
        place.process.signal(signal.SIGKILL)
        return place.process.wait(30).err[-3000:]

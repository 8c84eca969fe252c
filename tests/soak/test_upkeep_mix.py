"""Tables of every kind under a random mix of 2,000 operations, with kills, and Java's reading of how they end.

The environment gives another seed, another number of operations, and after how many of them everything is looked at.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.java import JAVA, Java
from support.upkeep_java import check_with_java
from support.upkeep_mix import KINDS, Mix
from support.upkeep_verbs import UpkeepVerbs

SEED = int(os.environ.get("LAKEWRIGHT_MIX_SEED", "18"))
OPERATIONS = int(os.environ.get("LAKEWRIGHT_MIX_OPERATIONS", "2000"))
EVERY = int(os.environ.get("LAKEWRIGHT_MIX_EVERY", "10"))


@dataclass(slots=True)
class Tally:
    """What all tables went through."""

    done: Counter[str] = field(default_factory=Counter)
    killed: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    verified: int = 0
    by_java: int = 0
    started: float = field(default_factory=time.monotonic)

    def tell(self) -> None:
        """Print it."""
        total = self.done.total() + self.killed.total() + self.refused.total()
        print(f"\n{total} operations, {self.killed.total()} of them killed, {self.refused.total()} refused,")
        print(f"{self.verified} runs of verify, {self.by_java} branches and tags read by Java,", end=" ")
        print(f"{time.monotonic() - self.started:.0f} s")
        for name, count in (self.done + self.killed).most_common():
            print(f"  {count:4} {name}, {self.killed[name]} killed")
        for text, count in self.refused.items():
            print(f"  {count:4} {text}")


@pytest.fixture(scope="module")
def tally() -> Iterator[Tally]:
    one = Tally()
    yield one
    one.tell()


@pytest.fixture(scope="module")
def java() -> Iterator[Java | None]:
    if not (JAVA / "classes").exists():  # `make nightly PART=interop-java` makes it
        yield None
        return
    started = Java()
    yield started
    started.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_under_a_random_mix_of_operations(kind: str, tally: Tally, java: Java | None, tmp_path: Path) -> None:
    mix = Mix(kind, SEED)
    try:
        mix.run(iter(UpkeepVerbs(mix)), -(-OPERATIONS // len(KINDS)), EVERY)
        if java is not None:
            tally.by_java += check_with_java(java, mix, tmp_path)
    finally:
        tally.done += mix.done
        tally.killed += mix.killed
        tally.refused += mix.refused
        tally.verified += mix.verified
        mix.memory.clear()

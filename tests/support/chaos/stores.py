"""The stores that chaos runs on: how a catalog reaches them, and what goes wrong with them meanwhile."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Store:
    """A place for a warehouse."""

    name: str
    options: Mapping[str, str]
    stop_seconds: float = 12.0  # longer than every timeout
    lateness: float = 0.0  # how long after its sender's death a request may be carried out
    removes_orphans_after: float = 0.01
    counts: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Let the store fail at random until the block is left."""
        yield

    def keep(self, directory: Path) -> None:
        """Bring what only this process has into a directory that stays."""


@contextmanager
def disk(directory: Path, seed: str) -> Iterator[Store]:
    """Lend a directory."""
    durable = random.Random(f"{seed} disk").choice(["true", "false"])
    yield Store("disk", {"warehouse": str(directory / "warehouse"), "lakewright.durable": durable})


STORES: dict[str, Callable[[Path, str], AbstractContextManager[Store]]] = {"disk": disk}

"""What waits for what: a storage in, the chain of its requests out, as rounds of requests that are under way together.

A slow store is simulated by a clock that stands still: no call is answered before every thread either waits for an
answer or has nothing to do. Then all calls that wait are answered; they are one round. So the number of rounds is how
many latencies an operation takes on a store that answers side by side, whatever the machine.

Whether threads still work is not known, only guessed from a while without a new call. On a busy machine the guess may
be wrong, which splits a round in two: a chain may seem longer than it is, never shorter.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Self, TypeVar

from contract.faulty_storage import Call, FaultyStorage
from lakewright.storage.object_storage import ObjectInput, Ranges
from lakewright.storage.storage import Storage

T = TypeVar("T")
QUIET_SECONDS = 0.01
TRIES_MAX = 5
_MANIFEST = re.compile(r"index-manifest|manifest-list|manifest|.*")
_FREE = frozenset({"open_output", "write", "discard"})  # they are no request while a file is small


class ChainStorage(FaultyStorage):
    """A storage that records its requests in rounds while it is entered.

    >>> from lakewright.storage.object_storage import ObjectStorage
    >>> storage = ChainStorage(ObjectStorage("memory://"))
    >>> with storage:
    ...     storage.replace("memory:///a", b"1")
    ...     storage.exists("memory:///a")
    True
    >>> [[call.verb for call in calls] for calls in storage.rounds]
    [['replace'], ['exists']]
    """

    def __init__(self, inner: Storage, *, quiet_seconds: float = QUIET_SECONDS) -> None:
        super().__init__(inner)
        self.rounds: list[list[Call]] = []
        self.quiet_seconds = quiet_seconds
        self._state = threading.Condition()
        self._waiting: list[Call] = []
        self._last = 0.0  # when the last call came
        self._recording = False

    def __enter__(self) -> Self:
        """Begin to record; until `__exit__` calls are held back until their round is complete."""
        self.rounds, self._recording = [], True
        self._clock = threading.Thread(target=self._tick, name="chain-clock", daemon=True)
        self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._state:
            self._recording = False
            self._state.notify_all()
        self._clock.join()

    def open_input(self, path: str, *, size: int | None = None, end_bytes: int = 0) -> BinaryIO:
        """Open a file for random access; each range that is asked of the store later is a call too."""
        source = super().open_input(path, size=size, end_bytes=end_bytes)
        if isinstance(source, ObjectInput):
            source.ranges = _RecordedRanges(self, source.ranges)
        return source

    def run(self, verb: str, path: str, effect: Callable[[], T], half: Callable[[], object] | None = None) -> T:
        """Make one call, and return its answer when the round that it belongs to is complete."""
        if not self._recording or verb in _FREE:
            return super().run(verb, path, effect, half)
        with self._state:
            number = len(self.rounds)
            self._waiting.append(Call(verb, path))
            self._last = time.monotonic()
            self._state.notify_all()
            self._state.wait_for(lambda: len(self.rounds) > number or not self._recording)
        # The effect comes at the end of the round, as on a store that waits before it answers.
        return super().run(verb, path, effect, half)

    def _tick(self) -> None:
        while self._recording:
            with self._state:
                self._state.wait_for(lambda: self._waiting or not self._recording)
                left = self._last + self.quiet_seconds - time.monotonic()
                if self._waiting and left <= 0:
                    self.rounds.append(self._waiting)
                    self._waiting = []
                    self._state.notify_all()
                    continue
            if self._recording:
                time.sleep(max(left, 0))


@dataclass(frozen=True)
class _RecordedRanges:
    """The ranges of an open file, each of which is a call of the storage that opened it."""

    storage: ChainStorage
    inner: Ranges

    def get_tail(self, key: str, length: int, size: int | None, /) -> tuple[int, bytes]:
        """Return the size of an object and some of its last bytes."""
        return self.storage.run("get_tail", self.path(key), lambda: self.inner.get_tail(key, length, size))

    def get_range(self, key: str, start: int, end: int, /) -> bytes:
        """Return the bytes from `start` up to but not including `end`."""
        return self.storage.run("get_range", self.path(key), lambda: self.inner.get_range(key, start, end))

    def path(self, key: str, /) -> str:
        """Return the full location of a key."""
        return self.inner.path(key)


def shortest_chain(
    storage: ChainStorage, prepare: Callable[[], object], run: Callable[[], object], goal: int
) -> list[list[Call]]:
    """Run an operation until its chain has no more than `goal` rounds, and return the shortest chain that was seen.

    Each further run waits twice as long for the rest of a round. `prepare` comes before each run and is not recorded.
    """
    best: list[list[Call]] = []
    for attempt in range(TRIES_MAX):
        prepare()
        storage.quiet_seconds = QUIET_SECONDS * 2**attempt
        with storage:
            run()
        best = storage.rounds if not best or len(storage.rounds) < len(best) else best
        if len(best) <= goal:
            break
    return best


def drawn(rounds: Sequence[Sequence[Call]]) -> str:
    """Return a chain as text, one line for each round: verbs, kinds of files, and how many there are."""
    lines = []
    for number, calls in enumerate(rounds, start=1):
        counts = Counter(f"{call.verb} {_kind(call.path)}" for call in calls)
        lines.append(f"{number:3} " + ", ".join(what if n == 1 else f"{n} x {what}" for what, n in counts.items()))
    return "\n".join(lines)


def _kind(path: str) -> str:
    """Return the name of a file without what differs from run to run."""
    *_, directory, name = path.rstrip("/").split("/")
    if directory == "manifest":
        return _MANIFEST.match(name)[0]  # type: ignore[index]
    return f"{directory}/*.{name.rpartition('.')[2]}" if directory.startswith("bucket-") else name

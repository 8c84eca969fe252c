"""Several lazy sequences: sources that threads read side by side in, their items in the order of the sources out.

Each source runs in a thread of its own and may be a bounded number of items ahead of its reader, so memory stays
bounded while decoding overlaps with the work of the reader. Leaving early stops every thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from threading import Condition
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class _Lane(Generic[T]):
    """One source: a thread fills it, the reader empties it."""

    def __init__(self, ahead_max: int | None) -> None:
        self._items: deque[T] = deque()
        self._ahead_max = ahead_max
        self._changed = Condition()
        self._ended = False
        self._stopped = False
        self._error: BaseException | None = None

    def run(self, source: Callable[[], Iterator[T]]) -> None:
        """Fill the lane until the source ends or the reader leaves."""
        try:
            items = iter(()) if self._stopped else source()
            all(self._put(item) for item in items)  # ends with the first item that is not wanted any more
        except BaseException as error:  # noqa: BLE001 - it is raised again where the reader is
            self._error = error
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _put(self, item: T) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._has_room())
            if self._stopped:
                return False
            self._items.append(item)
            self._changed.notify_all()
            return True

    def _has_room(self) -> bool:
        return self._ahead_max is None or len(self._items) < self._ahead_max

    def items(self) -> Iterator[T]:
        """Yield the items in order; an error of the source is raised after the items before it."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._items or self._ended)
                if not self._items:
                    break
                item = self._items.popleft()
                self._changed.notify_all()
            yield item
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Make the thread stop, and drop the items that were not read."""
        with self._changed:
            self._stopped = True
            self._items.clear()
            self._changed.notify_all()


def in_order(
    sources: Sequence[Callable[[], Iterator[T]]], *, threads: int, ahead_max: int | None = None
) -> Generator[T]:
    """Yield the items of all sources in order while up to `threads` of them are worked on.

    >>> list(in_order([lambda: iter([1, 2]), lambda: iter([3])], threads=2))
    [1, 2, 3]
    """
    if threads <= 1 or len(sources) <= 1:
        for source in sources:
            yield from source()
        return
    waiting = iter(sources)
    with ThreadPoolExecutor(threads, thread_name_prefix="lakewright-read") as pool:
        lanes = deque(_started(pool, source, ahead_max) for source in islice(waiting, threads))
        try:
            while lanes:
                yield from lanes[0].items()
                lanes.popleft()
                lanes.extend(_started(pool, source, ahead_max) for source in islice(waiting, 1))
        finally:
            for lane in lanes:
                lane.stop()


def mapped(threads: int, work: Callable[[T], R], items: Iterable[T]) -> Generator[R]:
    """Yield `work(item)` of each item, in order; items are taken while threads work on those before them.

    >>> list(mapped(2, str.upper, ["a", "b", "c"]))
    ['A', 'B', 'C']
    """
    if threads <= 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="lakewright-merge") as pool:
        yield from _worked(pool, threads, work, items)


def _worked(pool: ThreadPoolExecutor, ahead_max: int, work: Callable[[T], R], items: Iterable[T]) -> Generator[R]:
    under_way: deque[Future[R]] = deque()
    try:
        for item in items:
            under_way.append(pool.submit(work, item))
            while len(under_way) > ahead_max or (under_way and under_way[0].done()):
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        for left in under_way:
            left.cancel()


def _started(pool: ThreadPoolExecutor, source: Callable[[], Iterator[T]], ahead_max: int | None) -> _Lane[T]:
    lane: _Lane[T] = _Lane(ahead_max)
    pool.submit(lane.run, source)
    return lane

"""Independent calls run concurrently on remote stores; ordered parallel iteration."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from threading import Condition, Thread
from typing import Generic, Self, TypeVar

from lakewright.storage.storage import Storage

# ---- Ordered parallel iteration --------------------------------------------------------------------------------------
# Each source runs in a thread of its own and may be a bounded number of items ahead of its reader, so memory stays
# bounded while decoding overlaps with the work of the reader. Leaving early stops every thread.

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
        lanes = deque(_start_lane(pool, source, ahead_max) for source in islice(waiting, threads))
        try:
            while lanes:
                yield from lanes[0].items()
                lanes.popleft()
                lanes.extend(_start_lane(pool, source, ahead_max) for source in islice(waiting, 1))
        finally:
            for lane in lanes:
                lane.stop()


def map_in_order(threads: int, work: Callable[[T], R], items: Iterable[T]) -> Generator[R]:
    """Yield `work(item)` of each item, in order; items are taken while threads work on those before them.

    >>> list(map_in_order(2, str.upper, ["a", "b", "c"]))
    ['A', 'B', 'C']
    """
    if threads <= 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="lakewright-merge") as pool:
        yield from _run_ahead(pool, threads, work, items)


def _run_ahead(pool: ThreadPoolExecutor, ahead_max: int, work: Callable[[T], R], items: Iterable[T]) -> Generator[R]:
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


def _start_lane(pool: ThreadPoolExecutor, source: Callable[[], Iterator[T]], ahead_max: int | None) -> _Lane[T]:
    lane: _Lane[T] = _Lane(ahead_max)
    pool.submit(lane.run, source)
    return lane


# ---- Concurrent calls ------------------------------------------------------------------------------------------------
# An object store answers after 30 to 100 ms, however little is asked, so that calls which do not need each other's
# answers are made at the same time, by threads. On a disk a thread costs more than it saves: there every call is made
# where its answer is asked for, in the order of the code, which also makes tests of faults repeatable.
#
# Invariant: when a block of `Errands` is left, all of its calls that were begun have ended, also after an error,
# so that the cleanup knows what was written.


class DeferredCall(Generic[T]):
    """A call that was asked for early: it runs in a thread of its own, or once its answer is asked for."""

    def __init__(self, call: Callable[[], T], *, at_once: bool) -> None:
        self._call: Callable[[], T] | None = call
        self._error: BaseException | None = None
        self._answer: list[T] = []
        self._thread = Thread(target=self._run, name="lakewright-errand") if at_once else None
        if self._thread is not None:
            self._thread.start()

    def result(self) -> T:
        """Wait for the call, and return its answer or raise its error."""
        self.wait()
        self._run()
        if self._error is not None:
            raise self._error
        return self._answer[0]

    def wait(self) -> None:
        """Wait until the call has ended, if it was begun."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        call, self._call = self._call, None
        if call is None:
            return
        try:
            self._answer.append(call())
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is asked for
            self._error = error


class CallGroup:
    """The calls of one block. Only who asks for an answer learns of an error; nearby, only calls asked for are made.

    >>> from lakewright.storage.local_storage import LocalStorage
    >>> with CallGroup(LocalStorage()) as errands:
    ...     first = errands.start(lambda: 1)
    ...     second = errands.start(lambda: 2)
    ...     first.result() + second.result()
    3
    """

    def __init__(self, storage: Storage) -> None:
        self._at_once = storage.requests_at_once > 1
        self._errands: list[DeferredCall[object]] = []

    def start(self, call: Callable[[], T]) -> DeferredCall[T]:
        """Start a call, or keep it until its answer is asked for."""
        errand = DeferredCall(call, at_once=self._at_once)
        self._errands.append(errand)  # type: ignore[arg-type]
        return errand

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for errand in self._errands:
            errand.wait()


def map_concurrently(storage: Storage, call: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return the answer to a call for each item, in order; as many calls at a time as the storage likes.

    >>> from lakewright.storage.local_storage import LocalStorage
    >>> map_concurrently(LocalStorage(), str.upper, ["a", "b"])
    ['A', 'B']
    """
    items = list(items)
    threads = min(storage.requests_at_once, len(items))
    if threads <= 1:
        return [call(item) for item in items]
    with ThreadPoolExecutor(threads, thread_name_prefix="lakewright-errand") as pool:
        return list(pool.map(call, items))

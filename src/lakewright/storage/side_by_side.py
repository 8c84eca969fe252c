"""Calls side by side on a storage that is far away, one after the other on one that is near: calls in, answers out.

An object store answers after 30 to 100 ms, however little is asked, so that calls which do not need each other's
answers are made at the same time, by threads. On a disk a thread costs more than it saves: there every call is made
where its answer is asked for, in the order of the code, which also makes tests of faults repeatable.

Always holds: when a block of `Errands` is left, all of its calls that were begun have ended, also after an error, so
that whoever cleans up knows what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import Generic, Self, TypeVar

from lakewright.storage.base import Storage

T = TypeVar("T")
R = TypeVar("R")


class Errand(Generic[T]):
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


class Errands:
    """The calls of one block. Only who asks for an answer learns of an error; nearby, only calls asked for are made.

    >>> from lakewright.storage.local import LocalStorage
    >>> with Errands(LocalStorage()) as errands:
    ...     first = errands.start(lambda: 1)
    ...     second = errands.start(lambda: 2)
    ...     first.result() + second.result()
    3
    """

    def __init__(self, storage: Storage) -> None:
        self._at_once = storage.requests_at_once > 1
        self._errands: list[Errand[object]] = []

    def start(self, call: Callable[[], T]) -> Errand[T]:
        """Start a call, or keep it until its answer is asked for."""
        errand = Errand(call, at_once=self._at_once)
        self._errands.append(errand)  # type: ignore[arg-type]
        return errand

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for errand in self._errands:
            errand.wait()


def each(storage: Storage, call: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return the answer to a call for each item, in order; as many calls at a time as the storage likes.

    >>> from lakewright.storage.local import LocalStorage
    >>> each(LocalStorage(), str.upper, ["a", "b"])
    ['A', 'B']
    """
    items = list(items)
    threads = min(storage.requests_at_once, len(items))
    if threads <= 1:
        return [call(item) for item in items]
    with ThreadPoolExecutor(threads, thread_name_prefix="lakewright-errand") as pool:
        return list(pool.map(call, items))

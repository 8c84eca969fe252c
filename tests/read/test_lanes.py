"""Sequences worked on side by side: order, errors, bounds, and no thread left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from lakewright.storage.concurrency import in_order, map_in_order


def _count(start: int, stop: int) -> Iterator[int]:
    yield from range(start, stop)


def _names() -> list[str]:
    """Return the threads of lanes; others of this process, such as those that wait for ranges of files, may last."""
    return [t.name for t in threading.enumerate() if t.name.startswith(("lakewright-read", "lakewright-merge"))]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("ahead", [None, 1, 3])
def test_order_is_kept(threads: int, ahead: int | None) -> None:
    sources = [partial(_count, n * 10, n * 10 + n) for n in range(8)]
    want = [item for source in sources for item in source()]
    assert list(in_order(sources, threads=threads, ahead_max=ahead)) == want
    assert not _names()


def test_an_error_comes_after_the_items_before_it() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    sources: list[Callable[[], Iterator[int]]] = [partial(_count, 7, 9), broken, partial(_count, 0, 100)]
    items = in_order(sources, threads=2, ahead_max=1)
    assert [next(items) for _ in range(3)] == [7, 8, 1]
    with pytest.raises(ValueError, match="broken"):
        next(items)
    assert not _names()


def test_leaving_early_stops_the_threads_and_closes_the_sources() -> None:
    closed = []

    def source(number: int) -> Iterator[int]:
        try:
            yield from range(10_000)
        finally:
            closed.append(number)

    lanes = in_order([partial(source, n) for n in range(6)], threads=3, ahead_max=2)
    assert next(lanes) == 0
    lanes.close()
    assert not _names()
    assert sorted(closed) in ([0, 1, 2], [0, 1], [0])


def test_no_source_runs_further_ahead_than_allowed() -> None:
    made = []

    def source(number: int) -> Iterator[int]:
        for at in range(50):
            made.append((number, at))
            yield at

    lanes = in_order([partial(source, n) for n in range(4)], threads=2, ahead_max=2)
    for _ in range(10):
        next(lanes)
    assert not [number for number, _ in made if number > 1]
    assert max(at for number, at in made if number == 1) <= 2
    assert max(at for number, at in made if number == 0) <= 12
    lanes.close()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_mapped_items_keep_their_order(threads: int) -> None:
    assert list(map_in_order(threads, lambda n: n * n, range(20))) == [n * n for n in range(20)]
    assert list(map_in_order(threads, str, [])) == []
    assert not _names()


@pytest.mark.parametrize("threads", [1, 3])
def test_mapped_items_are_taken_a_few_ahead_at_most(threads: int) -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for n in range(100):
            taken.append(n)
            yield n

    results = map_in_order(threads, str, items())
    assert next(results) == "0"
    assert len(taken) <= threads + 1
    results.close()
    assert not _names()


def test_an_error_of_mapped_work_is_raised_in_its_place() -> None:
    results = map_in_order(2, lambda n: 6 // n, [3, 2, 0, 1])
    assert [next(results), next(results)] == [2, 3]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert not _names()

"""How much of a proof runs: a sample in `make quick` and `make test`, everything in `make nightly`.

The profile of hypothesis that is loaded decides. Tests that run at night only are marked `nightly`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, TypeVar

from allpairspy import AllPairs  # type: ignore[import-untyped]
from hypothesis import settings

T = TypeVar("T")


def is_thin() -> bool:
    """Return True if only a sample runs, as in `make quick` and `make test`."""
    return settings().max_examples < 100


def examples(full: int) -> int:
    """Return the number of examples of a property that has `full` of them at night."""
    return max(1, full * settings().max_examples // 100)


def pairwise(*axes: Sequence[object]) -> list[tuple[Any, ...]]:
    """Return combinations in which every two values of different axes meet at least once; at night, all of them."""
    if not is_thin():
        return list(product(*axes))
    places = AllPairs([list(range(len(axis))) for axis in axes])
    return [tuple(axis[place] for axis, place in zip(axes, row, strict=True)) for row in places]


def each_once(*axes: Sequence[object]) -> list[tuple[Any, ...]]:
    """Return combinations in which every value of every axis occurs; at night, all of them."""
    if not is_thin():
        return list(product(*axes))
    return [tuple(axis[at % len(axis)] for axis in axes) for at in range(max(map(len, axes)))]


def thinned(values: Sequence[T], start: int = 0) -> Sequence[T]:
    """Return every n-th value, and all at night; n is odd, so that all bits of a byte are met."""
    step = 100 // settings().max_examples
    return values if step == 1 else values[start % (step | 1) :: step | 1]


def some(values: Sequence[T], *places: int) -> Sequence[T]:
    """Return the values at the given places, and all at night."""
    return [values[place] for place in places] if is_thin() else values


def every_second(values: Sequence[T]) -> Sequence[T]:
    """Return half of the values, and all at night."""
    return values[::2] if is_thin() else values

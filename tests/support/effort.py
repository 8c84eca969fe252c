"""How much of a long proof runs: the figures of `make soak` in, those of the loaded profile of hypothesis out.

`make quick` and `make test` run the same proofs with fewer examples and fewer combinations; `make soak` runs all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")


def examples(full: int) -> int:
    """Return how many examples a property gets, when `make soak` tries `full` of them."""
    return max(1, full * settings().max_examples // 100)


def thinned(values: Sequence[T], start: int = 0) -> Sequence[T]:
    """Return every n-th value, or all for `make soak`; n is odd, so that bits of all places in a byte are met."""
    step = 100 // settings().max_examples
    return values if step == 1 else values[start % (step | 1) :: step | 1]


def some(values: Sequence[T], *places: int) -> Sequence[T]:
    """Return the values at some places, which are the telling ones, or all for `make soak`."""
    return values if settings().max_examples >= 100 else [values[place] for place in places]


def every_second(values: Sequence[T]) -> Sequence[T]:
    """Return half of the values, or all for `make soak`."""
    return values[::2] if is_thin() else values


def is_thin() -> bool:
    """Return whether less than everything is tried, as in `make quick` and `make test`."""
    return settings().max_examples < 100

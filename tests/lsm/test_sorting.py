"""Sorts of words: whatever their bits and their number, all ways give the order of numpy's stable sort."""

from __future__ import annotations

import numpy as np
import pytest

from lakewright.lsm.key_order import packed_order, radix_order, sort_layers
from lakewright.lsm.normalized_keys import Layer, Words, number_part
from support.effort import every_second

COUNTS = [1, 2, 3, 4, 5, 8, 9, 16, 17, 255, 256, 257, 1024, 1025, 65_536, 65_537]
BITS = [1, 8, 16, 31, 32, 33, 47, 48, 49, 63, 64]


def _words(count: int, bits: int, low: int, chance: np.random.Generator) -> list[Words]:
    """Return words in no order: most are different, most are equal, they fall, and most agree in their upper bits."""
    high = low + (1 << bits) - 1
    free: Words = chance.integers(low, high, count, dtype=np.uint64, endpoint=True)
    falling = np.sort(free)[::-1].copy()
    falling[0], falling[-1] = high, low
    near = np.uint64(low) + chance.permutation(count).astype(np.uint64) % np.uint64(min(1 << bits, 2**63))
    near[-1] = high  # all but one agree in their upper bits
    return [free, chance.choice(free[: max(1, count // 4)], count), falling, near]


@pytest.mark.parametrize("sort", [packed_order, radix_order])
@pytest.mark.parametrize("count", every_second(COUNTS))
def test_words_are_sorted_as_numpy_does(sort: object, count: int) -> None:
    assert callable(sort)
    chance = np.random.default_rng(count)
    for bits in every_second(BITS):
        for low in {0, 1 if bits < 64 else 0, 2**64 - 2**bits}:
            for words in _words(count, bits, low, chance):
                kept = words.copy()
                assert np.array_equal(sort(words), np.argsort(words, kind="stable"))
                assert np.array_equal(words, kept)


@pytest.mark.parametrize("groups", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("bits", [8, 60, 61, 62, 63, 64])  # with the number of a group in front, more or less than 64
def test_rows_that_tie_are_ordered_by_the_next_word(groups: int, bits: int) -> None:
    chance = np.random.default_rng(bits * groups)
    first = np.repeat(np.arange(groups, dtype=np.uint64), 20)
    then = chance.integers(0, (1 << bits) - 1, len(first), dtype=np.uint64, endpoint=True)
    then[:2] = (1 << bits) - 1, 0
    layers = [Layer((number_part(words),)) for words in (first, then)]
    assert np.array_equal(sort_layers(layers, len(first)).order, np.lexsort((then, first)))

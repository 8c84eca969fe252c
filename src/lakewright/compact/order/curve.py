"""Curves through several columns: words of each column in, one number per row out, which is near for near rows.

Each column first becomes its rank among 4096 quantiles of a sample. Without that, a column whose values lie in a small
part of their range (ids, prices, times) would have the same high bits in all rows and take no part in the order. The
ranks are then mixed: bit by bit (z-order), or as steps of a Hilbert curve, whose neighbours always touch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lakewright.compact.order.words import Words

RANK_BITS = 12  # 4096 quantiles fit the fastest cache of a processor, and no table has so many files per column
_KEY_BITS = 64
_BYTE_BITS = 8
_TABLE_BITS = 16
_TABLE_WORDS_MIN = 1 << 17  # a table is worth its making for so many words
_Ranks: TypeAlias = npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Where the values of a column lie: distinct words of a sample, and the rank of the values from each on."""

    cuts: Words  # ascending
    ranks: _Ranks  # one more: of values below the first cut, from the first on ...

    @classmethod
    def of(cls, sample: Words) -> Quantiles:
        """Return the quantiles of a sample; a value that fills many of them gets the rank in their middle.

        >>> quantiles = Quantiles.of(np.array([5] * 50 + [9] * 50, np.uint64))
        >>> quantiles.rank(np.array([5, 9], np.uint64)).tolist()
        [1024, 3071]
        """
        count = 1 << RANK_BITS
        ordered = np.sort(sample)
        at = np.arange(1, count) * len(ordered) // count
        cuts, first, filled = np.unique(ordered[at] if len(ordered) else ordered, return_index=True, return_counts=True)
        middle = first + (filled + 1) // 2
        return cls(cuts, np.concatenate([np.zeros(1, np.int64), middle]).astype(np.uint16))

    def rank(self, words: Words) -> _Ranks:
        """Return the ranks of values, which never fall as the values rise."""
        return self.ranks.take(_places(self.cuts, words))


def _places(cuts: Words, words: Words) -> npt.NDArray[np.intp]:
    """Return how many of the ascending cuts are not above each word; the same as a binary search, but faster.

    The words between the first and the last cut are divided into parts of equal width. Most parts hold no cut, so all
    words of such a part have the same place; only the others are searched for.
    """
    if len(words) < _TABLE_WORDS_MIN or len(cuts) < 2:  # noqa: PLR2004 - one cut leaves nothing to divide
        return np.searchsorted(cuts, words, side="right")
    first, span = cuts[0], int(cuts[-1] - cuts[0])
    shift = np.uint64(max(0, span.bit_length() - _TABLE_BITS))
    starts = (np.arange((span >> int(shift)) + 2, dtype=np.uint64) << shift) + first
    starts[-1] = np.uint64((1 << _KEY_BITS) - 1)  # the part of the last cut goes on to the greatest word
    below = np.searchsorted(cuts, starts, side="right")
    has_cut = below[1:] > below[:-1]
    part = np.minimum((np.maximum(words, first) - first) >> shift, np.uint64(len(has_cut) - 1)).astype(np.intp)
    places: npt.NDArray[np.intp] = below.take(part)
    places[words < first] = 0
    searched = np.flatnonzero(has_cut.take(part))
    places[searched] = np.searchsorted(cuts, words.take(searched), side="right")
    return places


def bits_of(columns: int) -> int:
    """Return how many bits of each rank a number along a curve through so many columns has."""
    return min(RANK_BITS, _KEY_BITS // columns)


def zorder(ranks: Sequence[_Ranks]) -> Words:
    """Return numbers whose bits are those of all ranks in turn, the highest of the first column first.

    >>> ranks = [np.array([0, 4095], np.uint16), np.array([4095, 0], np.uint16)]
    >>> [f"{number:024b}" for number in zorder(ranks)]
    ['010101010101010101010101', '101010101010101010101010']
    """
    bits = bits_of(len(ranks))
    return _mixed([rank >> np.uint16(RANK_BITS - bits) for rank in ranks], bits)


def hilbert(ranks: Sequence[_Ranks]) -> Words:
    """Return places on a Hilbert curve: numbers that differ by one belong to ranks that differ by one in one column."""
    bits = bits_of(len(ranks))
    axes = [rank >> np.uint16(RANK_BITS - bits) for rank in ranks]
    for bit in range(bits - 1, 0, -1):
        low = np.uint16((1 << bit) - 1)
        for place, axis in enumerate(axes):
            # Where the bit is set, the lower half is mirrored; elsewhere the axis changes places with the first.
            is_set = (axis >> np.uint16(bit)) & np.uint16(1) == 1
            swap = np.where(is_set, np.uint16(0), (axes[0] ^ axis) & low)
            axes[0] = axes[0] ^ np.where(is_set, low, swap)
            if place:
                axes[place] = axis ^ swap
    for place in range(1, len(axes)):
        axes[place] = axes[place] ^ axes[place - 1]
    flips = np.zeros(len(axes[0]), np.uint16)
    for bit in range(bits - 1, 0, -1):
        flips ^= np.where((axes[-1] >> np.uint16(bit)) & np.uint16(1) == 1, np.uint16((1 << bit) - 1), np.uint16(0))
    return _mixed([axis ^ flips for axis in axes], bits)


def _mixed(numbers: Sequence[_Ranks], bits: int) -> Words:
    """Return numbers with the bits of all numbers in turn."""
    out = np.zeros(len(numbers[0]), np.uint64)
    count = len(numbers)
    for place, number in enumerate(numbers):
        for first in range(0, bits, _BYTE_BITS):
            byte = ((number >> np.uint16(first)) & np.uint16(0xFF)).astype(np.intp)
            out |= _spread(count).take(byte) << np.uint64(first * count + count - 1 - place)
    return out


@lru_cache(maxsize=64)
def _spread(step: int) -> Words:
    """Return for each byte a word in which its bits stand so many places apart; what goes beyond a word is cut off."""
    table = [sum((byte >> bit & 1) << bit * step for bit in range(_BYTE_BITS)) for byte in range(1 << _BYTE_BITS)]
    return np.array([entry % (1 << _KEY_BITS) for entry in table], np.uint64)


def aligned_cuts(words: Words, most: int) -> Words:
    """Return where ascending numbers of a curve are cut into ranges of up to `most`, most of them 3/4 as many at least.

    A cut lies where the highest bit changes among those that are possible. So most ranges are whole cells of the grid
    that the curve walks through, and the bounds of their columns overlap little.

    >>> aligned_cuts(np.arange(64, dtype=np.uint64), 18).tolist()
    [16, 32, 48]
    """
    changed = _highest_bits(words[1:] ^ words[:-1])  # between each number and the next
    places = np.flatnonzero(changed)
    cuts: list[int] = []
    start = 0
    while start + most < len(words):
        low, high = np.searchsorted(places, [start + max(0, most * 3 // 4 - 1), start + most])
        if low == high:  # equal numbers, which stay together
            high = low + 1
        if low >= len(places):
            break
        window = places[low:high]
        bits = changed.take(window)
        at = int(window[len(bits) - 1 - int(np.argmax(bits[::-1]))])
        start = at + 1
        cuts.append(int(words[start]) & -int(changed[at]))
    return np.array(cuts, np.uint64)


def _highest_bits(words: Words) -> Words:
    """Return numbers with the highest bit of each word alone."""
    out = words.copy()
    for step in (1, 2, 4, 8, 16, 32):
        out |= out >> np.uint64(step)
    return out ^ (out >> np.uint64(1))

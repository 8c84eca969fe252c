"""How rows are ordered: a sample of rows in, a sort key out that says of any rows in which order and range they are.

The key is a small value that can be sent to workers. Rows of an earlier range come before all rows of a later one, so
ranges can be sorted one by one, by different workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakewright.compact.order.curve import Quantiles, aligned_cuts, hilbert, zorder
from lakewright.compact.order.words import ColumnWords, Words
from lakewright.lsm.keys import KeyOrder
from lakewright.spec.types import DataField

_Longs: TypeAlias = npt.NDArray[np.int64]
_RANGES_MAX = 1 << 15
_STEP_ROWS = 1 << 18  # so many rows are compared with cuts at a time, because that takes several times their memory
_CURVES = {"zorder": zorder, "hilbert": hilbert}


@dataclass(frozen=True, slots=True)
class OrderKey:
    """The order of rows by some columns, where one range of rows ends and the next begins, and where files end."""

    strategy: str
    columns: tuple[ColumnWords, ...]
    quantiles: tuple[Quantiles, ...] = ()  # of each column, for a curve
    cuts: tuple[Words, ...] = ()  # the first rows of all ranges but the first: words of each column, or of the curve
    counts: _Longs = field(default_factory=lambda: np.ones(1, np.int64))  # rows of the sample in each range
    files: Words = field(default_factory=lambda: np.zeros(0, np.uint64))  # those of the cuts at which files end

    @classmethod
    def of_sample(cls, strategy: str, fields: Sequence[DataField], sample: pa.Table, files: float = 1) -> OrderKey:
        """Return a key with ranges that are as small as the rows of a sample allow.

        `files` says how many files of the greatest size the rows fill. Along a curve they end at cells of its grid;
        otherwise where they are full, and `files` of the key are none.
        """
        columns = tuple(ColumnWords.of_sample(field, sample.column(field.name)) for field in fields)
        if strategy not in _CURVES or len(fields) == 1:
            key = cls("order", columns)
            return key._cut(_sorted(key._words(sample)))
        quantiles = tuple(Quantiles.of(column.words(sample.column(column.field.name))) for column in columns)
        key = cls(strategy, columns, quantiles)
        words = _sorted(key._words(sample))
        most = max(1, int(len(sample) / min(max(1, files), _RANGES_MAX // 2)))
        key = cls(strategy, columns, quantiles, files=aligned_cuts(words[0], most))
        return key._cut(words)

    def coarser(self, ranges: int) -> OrderKey:
        """Return a key with about so many ranges of about equally many rows; each consists of ranges of this key."""
        at = self._even_places(ranges, np.arange(self.ranges - 1))
        counts = np.add.reduceat(self.counts, np.concatenate([[0], at + 1]))
        return replace(self, cuts=tuple(cut.take(at) for cut in self.cuts), counts=counts)

    def parts(self, count: int) -> list[OrderKey]:
        """Return a key with the ranges of each part, for about so many parts of the rows that are sorted apart.

        No file has rows of two parts. Along a curve a part ends where a file does, so there may be fewer parts.
        """
        at = self._part_ends(count)
        bounds = pairwise([-1, *at.tolist(), self.ranges - 1])
        return [
            replace(self, cuts=tuple(cut[low + 1 : high] for cut in self.cuts), counts=self.counts[low + 1 : high + 1])
            for low, high in bounds
        ]

    def part_key(self, count: int) -> OrderKey:
        """Return a key whose ranges are the parts that `parts` returns for this number."""
        return replace(self, cuts=tuple(cut.take(self._part_ends(count)) for cut in self.cuts))

    def arranged(self, rows: pa.Table) -> tuple[_Longs, list[int]]:
        """Return the positions of the rows in order, equal rows as they came; and where in this order files end."""
        if not self.quantiles:
            return KeyOrder([column.field for column in self.columns]).order(rows), []
        steps = range(0, len(rows), _STEP_ROWS)
        words = np.concatenate([np.zeros(0, np.uint64), *(self._words(rows.slice(at, _STEP_ROWS))[0] for at in steps)])
        order = _order_of(words)
        return order, np.searchsorted(words.take(order), self.files, side="left").tolist()

    def order(self, rows: pa.Table) -> _Longs:
        """Return the positions of the rows in order; equal rows keep theirs."""
        return self.arranged(rows)[0]

    def range_of(self, rows: pa.Table) -> npt.NDArray[np.uint16]:
        """Return the number of the range of each row."""
        if self.ranges == 1:
            return np.zeros(len(rows), np.uint16)
        steps = range(0, len(rows), _STEP_ROWS)
        found = [np.zeros(0, np.uint16), *(self._range_of(rows.slice(at, _STEP_ROWS)) for at in steps)]
        return np.concatenate(found)

    @property
    def ranges(self) -> int:
        """How many ranges there are."""
        return 1 + (len(self.cuts[0]) if self.cuts else 0)

    def _range_of(self, rows: pa.Table) -> npt.NDArray[np.uint16]:
        words = self._words(rows)
        if len(words) == 1:
            return np.searchsorted(self.cuts[0], words[0], side="right").astype(np.uint16)

        def is_further(cuts: _Longs) -> npt.NDArray[np.bool_]:
            return _not_below(words, [cut.take(cuts) for cut in self.cuts])

        return _searched(len(rows), len(self.cuts[0]), is_further).astype(np.uint16)

    def _words(self, rows: pa.Table) -> list[Words]:
        """Return what tells ranges apart: the place on the curve, or the columns up to the first that is not exact."""
        if self.quantiles:
            ranks = [
                quantiles.rank(column.words(rows.column(column.field.name)))
                for column, quantiles in zip(self.columns, self.quantiles, strict=True)
            ]
            return [_CURVES[self.strategy](ranks)]
        words: list[Words] = []
        for column in self.columns:
            words += column.all_words(rows.column(column.field.name))
            if not column.is_exact:
                break
        return words

    def _cut(self, words: Sequence[Words]) -> OrderKey:
        """Return the key with cuts between the words of a sample, which are in order, and at the ends of files."""
        rows = len(words[0])
        ranges = min(_RANGES_MAX // 2, rows)
        if ranges <= 1:
            return self
        at = np.arange(1, ranges) * rows // ranges
        cuts = np.stack([column.take(at) for column in words], axis=1)
        if self.quantiles:
            cuts = np.concatenate([cuts, self.files[:, None]])
        cuts = np.unique(cuts, axis=0)
        kept = tuple(np.ascontiguousarray(cuts[:, place]) for place in range(len(words)))
        return replace(self, cuts=kept, counts=np.diff([0, *_places_of(kept, words).tolist(), rows]))

    def _even_places(self, ranges: int, allowed: _Longs) -> _Longs:
        """Return which of some cuts divide the rows of the sample most evenly into so many ranges, in order."""
        before = np.cumsum(self.counts)[:-1].take(allowed)
        if ranges <= 1 or len(before) == 0:
            return np.zeros(0, np.int64)
        wanted = np.arange(1, ranges) * int(self.counts.sum()) / ranges
        after = np.minimum(np.searchsorted(before, wanted), len(before) - 1)
        nearer = (after > 0) & (wanted - before.take(after - 1) < before.take(after) - wanted)
        return allowed.take(np.unique(after - nearer))

    def _part_ends(self, count: int) -> _Longs:
        is_curve = self.quantiles and self.cuts
        allowed = np.searchsorted(self.cuts[0], self.files) if is_curve else np.arange(self.ranges - 1)
        return self._even_places(count, allowed)


def _sorted(words: Sequence[Words]) -> list[Words]:
    order = np.lexsort(list(words)[::-1])
    return [column.take(order) for column in words]


def _places_of(cuts: Sequence[Words], words: Sequence[Words]) -> _Longs:
    """Return how many of some rows, which are in order, come before each cut."""

    def is_further(rows: _Longs) -> npt.NDArray[np.bool_]:
        return ~_not_below([column.take(rows) for column in words], cuts)

    return _searched(len(cuts[0]), len(words[0]), is_further)


def _searched(count: int, length: int, is_further: Callable[[_Longs], npt.NDArray[np.bool_]]) -> _Longs:
    """Search by halves for the places of many things at a time: every step compares each with one of the length."""
    low, high = np.zeros(count, np.int64), np.full(count, length, np.int64)
    for _ in range(length.bit_length()):
        middle = np.minimum((low + high) // 2, length - 1)
        further, is_open = is_further(middle), low < high
        low = np.where(is_open & further, middle + 1, low)
        high = np.where(is_open & ~further, middle, high)
    return low


def _not_below(words: Sequence[Words], cuts: Sequence[Words]) -> npt.NDArray[np.bool_]:
    """Say of each row whether its words are those of the cut or come after them."""
    result = words[-1] >= cuts[-1]
    for word, cut in zip(words[-2::-1], cuts[-2::-1], strict=True):
        result = (word > cut) | ((word == cut) & result)
    return result


def _order_of(words: Words) -> _Longs:
    """Return the positions of words in order, equal ones as they came."""
    places = max(1, (len(words) - 1).bit_length())
    if int(words.max(initial=0)).bit_length() + places > 64:  # noqa: PLR2004 - the bits of a word
        return np.argsort(words, kind="stable")
    # With the position in its low bits each number is unique, and a plain sort is the fastest.
    both = (words << np.uint64(places)) | np.arange(len(words), dtype=np.uint64)
    both.sort()
    return (both & np.uint64((1 << places) - 1)).astype(np.int64)

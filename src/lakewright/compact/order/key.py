"""How rows are ordered: a sample of rows in, a sort key out that says of any rows in which order and range they are.

The key is a small value that can be sent to workers. Rows of an earlier range come before all rows of a later one, so
ranges can be sorted one by one, by different workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakewright.compact.order.curve import Quantiles, aligned_cuts, hilbert, zorder
from lakewright.compact.order.words import ColumnWords, Words
from lakewright.lsm.keys import KeyOrder
from lakewright.spec.types import DataField

_Longs: TypeAlias = npt.NDArray[np.int64]
_RANGES_MAX = 1 << 16
_CURVES = {"zorder": zorder, "hilbert": hilbert}


@dataclass(frozen=True, slots=True)
class OrderKey:
    """The order of rows by some columns, and where one range of rows ends and the next begins."""

    strategy: str
    columns: tuple[ColumnWords, ...]
    quantiles: tuple[Quantiles, ...] = ()  # of each column, for a curve
    cuts: tuple[Words, ...] = ()  # the first rows of all ranges but the first: words of each column, or of the curve

    @classmethod
    def of_sample(
        cls, strategy: str, fields: Sequence[DataField], sample: pa.Table, ranges: int = 1, files: float = 1
    ) -> OrderKey:
        """Return a key with so many ranges, about equal by the rows of a sample; or with more, at most one per file.

        `files` says how many files of the greatest size the rows fill. Along a curve each range becomes a file.
        """
        columns = tuple(ColumnWords.of_sample(field, sample.column(field.name)) for field in fields)
        if strategy not in _CURVES or len(fields) == 1:
            key = cls("order", columns)
            return replace(key, cuts=key._even_cuts(sample, min(ranges, _RANGES_MAX)))
        quantiles = tuple(Quantiles.of(column.words(sample.column(column.field.name))) for column in columns)
        key = cls(strategy, columns, quantiles)
        most = max(1, int(len(sample) / min(max(ranges, files), _RANGES_MAX // 2)))
        return replace(key, cuts=(aligned_cuts(np.sort(key._words(sample)[0]), most),))

    def coarser(self, ranges: int) -> OrderKey:
        """Return a key with about so many ranges, each of which is some ranges of this key that follow each other."""
        step = -(-self.ranges // max(1, ranges))
        return self if step == 1 else replace(self, cuts=tuple(cut[step - 1 :: step] for cut in self.cuts))

    def arranged(self, rows: pa.Table) -> tuple[_Longs, list[int]]:
        """Return the positions of the rows in order, equal rows as they came; and where in this order files end."""
        if not self.quantiles:
            return KeyOrder([column.field for column in self.columns]).order(rows), []
        (words,) = self._words(rows)
        order = _order_of(words)
        return order, np.searchsorted(words.take(order), self.cuts[0], side="left").tolist()

    def order(self, rows: pa.Table) -> _Longs:
        """Return the positions of the rows in order; equal rows keep theirs."""
        return self.arranged(rows)[0]

    def range_of(self, rows: pa.Table) -> npt.NDArray[np.uint16]:
        """Return the number of the range of each row."""
        if self.ranges == 1:
            return np.zeros(len(rows), np.uint16)
        words = self._words(rows)
        if len(words) == 1:
            return np.searchsorted(self.cuts[0], words[0], side="right").astype(np.uint16)
        # A search by halves for all rows at a time: every step compares each row with one cut.
        low, high = np.zeros(len(rows), np.int64), np.full(len(rows), len(self.cuts[0]), np.int64)
        for _ in range(len(self.cuts[0]).bit_length()):
            middle = np.minimum((low + high) // 2, len(self.cuts[0]) - 1)
            is_after = _not_below(words, [cut.take(middle) for cut in self.cuts])
            open_ = low < high
            low = np.where(open_ & is_after, middle + 1, low)
            high = np.where(open_ & ~is_after, middle, high)
        return low.astype(np.uint16)

    @property
    def ranges(self) -> int:
        """How many ranges there are."""
        return 1 + (len(self.cuts[0]) if self.cuts else 0)

    def _words(self, rows: pa.Table) -> list[Words]:
        """Return what tells ranges apart: the place on the curve, or the columns up to the first that is not exact."""
        if self.quantiles:
            ranks = [
                quantiles.rank(column.words(rows.column(column.field.name)))
                for column, quantiles in zip(self.columns, self.quantiles, strict=True)
            ]
            return [_CURVES[self.strategy](ranks)]
        words = []
        for column in self.columns:
            words.append(column.words(rows.column(column.field.name)))
            if not column.is_exact:
                break
        return words

    def _even_cuts(self, sample: pa.Table, ranges: int) -> tuple[Words, ...]:
        """Return cuts between ranges of equally many rows of a sample."""
        if ranges <= 1 or len(sample) == 0:
            return ()
        words = self._words(sample)
        order = np.lexsort(words[::-1])
        at = order.take(np.arange(1, ranges) * len(order) // ranges)
        cuts = np.unique(np.stack([column.take(at) for column in words], axis=1), axis=0)
        return tuple(np.ascontiguousarray(cuts[:, place]) for place in range(len(words)))


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

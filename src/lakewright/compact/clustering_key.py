"""Sort keys: order, z-order, Hilbert."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.lsm.key_order import KeyOrder
from lakewright.lsm.normalized_keys import COMPACT_DECIMAL_MAX, WORD_BYTES, raw_values, shared_prefix, text_words
from lakewright.spec.binary_row import null_mask, plain_column
from lakewright.spec.types import BYTES_ROOTS, TEXT_ROOTS, AtomicType, DataField

# ---- Columns as unsigned words ---------------------------------------------------------------------------------------
# Unlike `lsm.normalized_keys`, whose words only compare within one table, these compare between all tables of one
# `ColumnWords`, so rows of many files can be told apart by them. Nulls are 0 and come first, -0.0 is below 0.0 and
# NaN above everything. A text is represented by eight bytes, those after the beginning that all texts of a sample
# share, or by 32; a decimal of more than 18 digits by its nearest double. Such words may be equal for different
# values (`is_exact` is False); they are never in the wrong order.

Words: TypeAlias = npt.NDArray[np.uint64]

_SIGN = np.uint64(1 << 63)
_DOUBLE = AtomicType("DOUBLE")
_TEXT_WORDS = 4  # of a text that are compared with the ends of ranges
_HIGHEST = np.uint64((1 << 64) - 1)


@dataclass(frozen=True, slots=True)
class ColumnWords:
    """How the values of one column become words."""

    field: DataField
    type: AtomicType
    prefix: bytes = b""  # what texts begin with; those that do not are below or above all others

    @classmethod
    def of_sample(cls, field: DataField, sample: pa.ChunkedArray) -> ColumnWords:
        """Return the words of a column of which some rows are known."""
        if not isinstance(field.type, AtomicType):
            raise TypeError(f"{field.name}: {field.type} has no order")
        prefix = b""
        if _is_text(field.type):
            column = _bytes(plain_column(sample, field.type))
            length = shared_prefix(column)
            least = pc.min(column).as_py() if length else None
            prefix = b"" if least is None else least[:length]
        return cls(field, field.type, prefix)

    @property
    def is_exact(self) -> bool:
        """Whether different values always have different words."""
        return not _is_text(self.type) and not _is_wide_decimal(self.type)

    def words(self, column: pa.Array | pa.ChunkedArray) -> Words:
        """Return the words of a column."""
        plain = plain_column(column, self.type)
        nulls = null_mask(plain)
        if _is_text(self.type):
            out = self._text_words(plain)
        else:
            dtype = self.type
            if _is_wide_decimal(dtype):
                plain, dtype = plain.cast(pa.float64()), _DOUBLE
            (values,) = raw_values(plain, dtype, self.field.name)
            out = values.astype(np.int64).view(np.uint64) ^ _SIGN
        np.maximum(out, np.uint64(1), out=out)
        if nulls is not None:
            out[nulls] = 0
        return out

    def all_words(self, column: pa.Array | pa.ChunkedArray) -> list[Words]:
        """Return the words of a column and, of texts, those of the bytes that follow, which order texts further."""
        first = self.words(column)
        if not _is_text(self.type):
            return [first]
        texts = _bytes(plain_column(column, self.type))
        more = [text_words(texts, len(self.prefix) + at * WORD_BYTES) for at in range(1, _TEXT_WORDS)]
        # These are nulls and texts that do not begin as the others do: what follows must not order them.
        unordered = (first <= 1) | (first == _HIGHEST)
        for words in more:
            words[unordered] = 0
        return [first, *more]

    def _text_words(self, column: pa.Array) -> Words:
        column = _bytes(column)
        out = text_words(column, len(self.prefix))
        if self.prefix:
            others = pc.fill_null(pc.invert(pc.starts_with(column, pattern=self.prefix)), fill_value=False)
            below = pc.fill_null(pc.less(column, pa.scalar(self.prefix, column.type)), fill_value=False)
            strange = np.asarray(others)
            if strange.any():
                out[strange] = np.where(np.asarray(below)[strange], np.uint64(1), _HIGHEST)
        return out


def _is_text(dtype: AtomicType) -> bool:
    return dtype.root in TEXT_ROOTS or dtype.root in BYTES_ROOTS


def _is_wide_decimal(dtype: AtomicType) -> bool:
    return dtype.root == "DECIMAL" and dtype.precision > COMPACT_DECIMAL_MAX


def _bytes(column: pa.Array) -> pa.Array:
    return column.cast({pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}.get(column.type, column.type))


# ---- Space-filling curves --------------------------------------------------------------------------------------------
# Each column first becomes its rank among 4096 quantiles of a sample. Without that, a column whose values are in a
# small part of their range (ids, prices, times) would have the same high bits in all rows and take no part in the
# order. The ranks are then mixed: bit by bit (z-order), or as steps of a Hilbert curve, whose neighbours always
# touch.

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
    return _interleave_bits([rank >> np.uint16(RANK_BITS - bits) for rank in ranks], bits)


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
    return _interleave_bits([axis ^ flips for axis in axes], bits)


def _interleave_bits(numbers: Sequence[_Ranks], bits: int) -> Words:
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

    A cut is where the highest bit changes among those that are possible. So most ranges are whole cells of the grid
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


# ---- Sort keys -------------------------------------------------------------------------------------------------------
# The key is a small value that can be sent to workers. Rows of an earlier range come before all rows of a later one,
# so ranges can be sorted one by one, by different workers.

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
            return key._cut(_sort_words(key._words(sample)))
        quantiles = tuple(Quantiles.of(column.words(sample.column(column.field.name))) for column in columns)
        key = cls(strategy, columns, quantiles)
        words = _sort_words(key._words(sample))
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

    def order_rows(self, rows: pa.Table) -> tuple[_Longs, list[int]]:
        """Return the positions of the rows in order, equal rows as they came; and where in this order files end."""
        if not self.quantiles:
            return KeyOrder([column.field for column in self.columns]).order(rows), []
        steps = range(0, len(rows), _STEP_ROWS)
        words = np.concatenate([np.zeros(0, np.uint64), *(self._words(rows.slice(at, _STEP_ROWS))[0] for at in steps)])
        order = _order_of(words)
        return order, np.searchsorted(words.take(order), self.files, side="left").tolist()

    def order(self, rows: pa.Table) -> _Longs:
        """Return the positions of the rows in order; equal rows keep theirs."""
        return self.order_rows(rows)[0]

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

        return _binary_search(len(rows), len(self.cuts[0]), is_further).astype(np.uint16)

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


def _sort_words(words: Sequence[Words]) -> list[Words]:
    order = np.lexsort(list(words)[::-1])
    return [column.take(order) for column in words]


def _places_of(cuts: Sequence[Words], words: Sequence[Words]) -> _Longs:
    """Return how many of some rows, which are in order, come before each cut."""

    def is_further(rows: _Longs) -> npt.NDArray[np.bool_]:
        return ~_not_below([column.take(rows) for column in words], cuts)

    return _binary_search(len(cuts[0]), len(words[0]), is_further)


def _binary_search(count: int, length: int, is_further: Callable[[_Longs], npt.NDArray[np.bool_]]) -> _Longs:
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

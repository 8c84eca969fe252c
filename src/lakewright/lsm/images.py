"""Order images: columns in, unsigned 64-bit words out that compare as the rows do; and the sort that uses them.

A column becomes parts: numbers of a known width whose order is the order of the column (nulls first, bytes unsigned,
floats as Java compares them). Neighbouring parts that fit 64 bits together share a word, so most keys are one word per
row. Of the later words only those rows are ever made that the earlier ones could not tell apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import UnsupportedError
from lakewright.spec.rows import fixed_values, null_mask, plain_column, text_layout
from lakewright.spec.types import BYTES_ROOTS, FLOAT_ROOTS, TEXT_ROOTS, AtomicType, DataType

Words: TypeAlias = npt.NDArray[np.uint64]
Longs: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

WORD_BITS = 64
WORD_BYTES = 8
COMPACT_DECIMAL_MAX = 18  # decimals up to this precision fit 64 bits
_TEXT_WORDS = 4  # texts that are equal so far are left to Arrow
_INTEGERS = {
    "TINYINT": "<i1",
    "SMALLINT": "<i2",
    "INT": "<i4",
    "BIGINT": "<i8",
    "DATE": "<i4",
    "TIME": "<i4",
    "TIMESTAMP": "<i8",
    "TIMESTAMP_LTZ": "<i8",
}
_LOW_MASKS = np.array([(0xFFFFFFFFFFFFFFFF << 8 * (8 - kept)) & 0xFFFFFFFFFFFFFFFF for kept in range(9)], np.uint64)


class Part(Protocol):
    """Numbers of so many bits, one per row."""

    @property
    def bits(self) -> int:
        """How many bits the largest takes; 0 where all rows are the same."""

    def words(self, rows: Longs | None) -> Words:
        """Return the numbers of some rows, None for all, in memory that the caller may change."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Parts that share one word, the first of them highest."""

    parts: tuple[Part, ...]

    @property
    def bits(self) -> int:
        """How many bits the largest word takes."""
        return sum(part.bits for part in self.parts)

    def words(self, rows: Longs | None = None) -> Words:
        """Return the words of some rows, None for all."""
        out = self.parts[0].words(rows)
        for part in self.parts[1:]:
            out <<= np.uint64(part.bits)
            out |= part.words(rows)
        return out


def layers_of(parts: Sequence[Part]) -> list[Layer]:
    """Put parts that fit one word together."""
    groups: list[list[Part]] = []
    for part in parts:
        if part.bits == 0:
            continue
        if groups and sum(p.bits for p in groups[-1]) + part.bits <= WORD_BITS:
            groups[-1].append(part)
        else:
            groups.append([part])
    return [Layer(tuple(group)) for group in groups]


def column_parts(
    column: pa.Array | pa.ChunkedArray, dtype: DataType, *, descending: bool = False, name: str = ""
) -> list[Part]:
    """Return the parts of a column, nulls first in both directions."""
    if not isinstance(dtype, AtomicType):
        raise UnsupportedError(f"the column {name!r} of the type {dtype} has no order", column=name)
    plain = plain_column(column, dtype)
    nulls = null_mask(plain)
    head: list[Part] = [] if nulls is None else [_numbers(np.logical_not(nulls).view(np.uint8))]
    if dtype.root in TEXT_ROOTS or dtype.root in BYTES_ROOTS:
        return [*head, *_text_parts(plain, descending=descending)]
    values = _raw_values(plain, dtype, name)
    if nulls is not None:
        values = [np.where(nulls, np.zeros(1, v.dtype), v) for v in values]
    return [*head, *(_numbers(v, descending=descending) for v in values)]


def _raw_values(column: pa.Array, dtype: AtomicType, name: str) -> list[npt.NDArray[np.generic]]:
    """Return a column of fixed width as integers, high ones first, that order as its values do."""
    root = dtype.root
    if root == "BOOLEAN":
        return [fixed_values(column.cast(pa.uint8()), np.uint8)]
    if root in _INTEGERS:
        return [fixed_values(column, _INTEGERS[root])]
    if root in FLOAT_ROOTS:
        return [_float_image(fixed_values(column, "<f4" if root == "FLOAT" else "<f8"))]
    if root == "DECIMAL":
        halves = fixed_values(column, "<u8", 2).reshape(-1, 2)
        low = halves[:, 0]
        if dtype.precision <= COMPACT_DECIMAL_MAX:
            return [low.view(np.int64)]
        return [halves[:, 1].view(np.int64), low]
    raise UnsupportedError(f"the column {name!r} of the type {dtype} has no order", column=name)


def _float_image(values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Return signed integers in the order of Java's compare: -0.0 below 0.0, one NaN above everything."""
    nan = np.isnan(values)
    whole: npt.NDArray[np.signedinteger] = values.view(f"<i{values.dtype.itemsize}")
    if nan.any():
        whole = np.where(nan, np.full(1, np.nan, values.dtype).view(whole.dtype), whole)
    mask = np.array(np.iinfo(whole.dtype).max, whole.dtype)
    return np.where(whole < 0, whole ^ mask, whole)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Integers of any width, counted from their least, or from their greatest where descending."""

    values: npt.NDArray[np.generic]
    origin: int
    bits: int
    descending: bool

    def words(self, rows: Longs | None) -> Words:
        found = self.values if rows is None else self.values[rows]
        out = found.astype(np.uint64)
        origin = np.uint64(self.origin % (1 << WORD_BITS))
        return np.subtract(origin, out, out=out) if self.descending else np.subtract(out, origin, out=out)


def _numbers(values: npt.NDArray[np.generic], *, descending: bool = False) -> _Numbers:
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    return _Numbers(values, high if descending else low, (high - low).bit_length(), descending)


@dataclass(frozen=True, slots=True)
class _TextWord:
    """Up to eight bytes of each text, from one position on."""

    starts: Longs
    lengths: Longs
    data: npt.NDArray[np.uint8]
    skip: int
    size: int
    descending: bool

    @property
    def bits(self) -> int:
        return 8 * self.size

    def words(self, rows: Longs | None) -> Words:
        starts, lengths = (self.starts, self.lengths) if rows is None else (self.starts[rows], self.lengths[rows])
        anywhere = np.ndarray((len(self.data) - 7,), ">u8", self.data, strides=(1,))
        found = anywhere[np.minimum(starts + self.skip, len(self.data) - 8)]
        out = found.astype(np.uint64)
        out &= _LOW_MASKS[np.clip(lengths - self.skip, 0, WORD_BYTES)]
        if self.descending:
            np.invert(out, out=out)
        if self.size < WORD_BYTES:
            out >>= np.uint64(WORD_BITS - self.bits)
        return out


@dataclass(frozen=True, slots=True)
class _TextRank:
    """The place of each text among those asked for."""

    column: pa.Array
    bits: int
    descending: bool

    def words(self, rows: Longs | None) -> Words:
        texts = self.column if rows is None else self.column.take(pa.array(rows))
        ranks = pc.rank(texts, "descending" if self.descending else "ascending", tiebreaker="dense")
        out: Words = ranks.to_numpy().astype(np.uint64)
        return out


def _text_parts(column: pa.Array, *, descending: bool) -> list[Part]:
    starts, lengths, data = text_layout(column)
    longest = int(lengths.max()) if len(lengths) else 0
    parts: list[Part] = []
    for skip in range(0, min(longest, _TEXT_WORDS * WORD_BYTES), WORD_BYTES):
        size = min(WORD_BYTES, longest - skip)
        parts.append(_TextWord(starts, lengths, data, skip, size, descending))
    if longest <= _TEXT_WORDS * WORD_BYTES:
        return [*parts, _numbers(lengths, descending=descending)]
    binary = pa.large_binary() if column.type in (pa.large_string(), pa.large_binary()) else pa.binary()
    return [*parts, _TextRank(column.cast(binary), len(column).bit_length(), descending)]


@dataclass(slots=True)
class Sorted:
    """Rows in order: their positions, and which of them differ from the one before."""

    order: Longs
    new: Flags

    def refine(self, layer: Layer) -> None:
        """Order the rows that are equal so far by one more word; rows that are still equal keep their order."""
        at = _tied(self.new)
        if len(at) == 0:
            return
        rows, first = self.order[at], self.new[at]
        words = layer.words(rows)
        if not bool(np.all((words[1:] >= words[:-1]) | first[1:])):
            inner = np.lexsort((words, np.cumsum(first)))
            rows, words = rows[inner], words[inner]
            self.order[at] = rows
        self.new[at[1:]] |= words[1:] != words[:-1]


def _tied(new: Flags) -> Longs:
    """Return the places of the rows that have an equal neighbour."""
    tied = np.logical_not(new)
    tied[:-1] |= tied[1:]
    return np.flatnonzero(tied)


def sort_layers(layers: Sequence[Layer], count: int) -> Sorted:
    """Sort rows by words, the most significant first; equal rows keep their order."""
    new = np.zeros(count, np.bool_)
    new[:1] = True
    if not layers or count == 0:
        return Sorted(np.arange(count), new)
    words = layers[0].words()
    if bool(np.all(words[1:] >= words[:-1])):
        order = np.arange(count)
    else:
        order = np.argsort(words, kind="stable")
        words = words[order]
    new[1:] = words[1:] != words[:-1]
    out = Sorted(order, new)
    for layer in layers[1:]:
        out.refine(layer)
    return out

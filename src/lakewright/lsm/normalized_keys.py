"""Columns as unsigned words that compare as the values do.

A column becomes parts: numbers of a known width whose order is the order of the column (nulls first, bytes unsigned,
floats as Java compares them). Neighbouring parts that fit 64 bits together share a word, so most keys are one word per
row. A part makes the words of any rows it is asked for, so a sort asks for later words only of those rows whose earlier
words are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import UnsupportedError
from lakewright.spec.binary_row import fixed_values, null_mask, plain_column
from lakewright.spec.types import BYTES_ROOTS, FLOAT_ROOTS, TEXT_ROOTS, AtomicType, DataType

Words: TypeAlias = npt.NDArray[np.uint64]
UInt64Array: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
_Bytes: TypeAlias = npt.NDArray[np.uint8]
_Offsets: TypeAlias = npt.NDArray[np.int32] | npt.NDArray[np.int64]
_Values: TypeAlias = npt.NDArray[np.generic]

WORD_BITS = 64
WORD_BYTES = 8
COMPACT_DECIMAL_MAX = 18  # decimals up to this precision fit 64 bits
_TEXT_WORDS = 16  # texts that are equal for so many words are compared by Arrow
_SAMPLES = 32
_PREFIX_MAX = 1 << 12
_PREFIX_ROWS_MIN = 1 << 10  # fewer are sorted before their common beginning is found
_MANY = 8  # one row of so many is many
_ALL_BITS = (1 << WORD_BITS) - 1
_LEADING = np.array([_ALL_BITS ^ (_ALL_BITS >> 8 * kept) for kept in range(WORD_BYTES + 1)], np.uint64)
INTEGERS = {
    "TINYINT": "<i1",
    "SMALLINT": "<i2",
    "INT": "<i4",
    "BIGINT": "<i8",
    "DATE": "<i4",
    "TIME": "<i4",
    "TIMESTAMP": "<i8",
    "TIMESTAMP_LTZ": "<i8",
}


class KeyPart(Protocol):
    """Numbers of so many bits, one per row."""

    @property
    def bits(self) -> int:
        """How many bits the largest takes; 0 where all rows are the same."""

    def words(self, rows: UInt64Array | None) -> Words:
        """Return the numbers of some rows, None for all, in memory that the caller may change.

        Only numbers that were asked for together can be compared.
        """


@dataclass(frozen=True, slots=True)
class Layer:
    """Parts that share one word, the first of them highest."""

    parts: tuple[KeyPart, ...]

    @property
    def bits(self) -> int:
        """How many bits the largest word takes."""
        return sum(part.bits for part in self.parts)

    def words(self, rows: UInt64Array | None = None) -> Words:
        """Return the words of some rows, None for all."""
        out = self.parts[0].words(rows)
        for part in self.parts[1:]:
            out <<= np.uint64(part.bits)
            out |= part.words(rows)
        return out


def normalize_columns(parts: Sequence[KeyPart]) -> list[Layer]:
    """Put neighbouring parts that fit one word together."""
    layers: list[Layer] = []
    for part in parts:
        if part.bits == 0:
            continue
        if layers and layers[-1].bits + part.bits <= WORD_BITS:
            layers[-1] = Layer((*layers[-1].parts, part))
        else:
            layers.append(Layer((part,)))
    return layers


def column_parts(
    column: pa.Array | pa.ChunkedArray, dtype: DataType, *, descending: bool = False, name: str = ""
) -> list[KeyPart]:
    """Return the parts of a column; its nulls come first in both directions."""
    if not isinstance(dtype, AtomicType):
        raise UnsupportedError(f"the column {name!r} of the type {dtype} has no order", column=name)
    plain = plain_column(column, dtype)
    nulls = null_mask(plain)
    head: list[KeyPart] = [] if nulls is None else [number_part(np.logical_not(nulls).view(np.uint8))]
    if dtype.root in TEXT_ROOTS or dtype.root in BYTES_ROOTS:
        return [*head, *_text_parts(plain, nulls, descending=descending)]
    values = raw_values(plain, dtype, name)
    if nulls is not None:
        values = [np.where(nulls, np.zeros(1, v.dtype), v) for v in values]
    return [*head, *(number_part(v, descending=descending) for v in values)]


def raw_values(column: pa.Array, dtype: AtomicType, name: str) -> list[_Values]:
    """Return a column of fixed width as integers, high ones first, that order as its values do."""
    root = dtype.root
    if root == "BOOLEAN":
        return [fixed_values(column.cast(pa.uint8()), np.uint8)]
    if root in INTEGERS:
        return [fixed_values(column, INTEGERS[root])]
    if root in FLOAT_ROOTS:
        return [_float_image(fixed_values(column, "<f4" if root == "FLOAT" else "<f8"))]
    if root == "DECIMAL":
        halves = fixed_values(column, "<u8", 2).reshape(-1, 2)
        if dtype.precision <= COMPACT_DECIMAL_MAX:
            return [halves[:, 0].view(np.int64)]
        return [halves[:, 1].view(np.int64), halves[:, 0]]
    raise UnsupportedError(f"the column {name!r} of the type {dtype} has no order", column=name)


def _float_image(values: _Values) -> _Values:
    """Return signed integers in the order of Java's compare: -0.0 below 0.0, one NaN above everything."""
    bits: npt.NDArray[np.signedinteger] = values.view(f"<i{values.dtype.itemsize}")
    nan = np.isnan(values)
    if nan.any():
        bits = np.where(nan, np.full(1, np.nan, values.dtype).view(bits.dtype), bits)
    return np.where(bits < 0, bits ^ np.array(np.iinfo(bits.dtype).max, bits.dtype), bits)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Integers of any width, counted from their least, or from their greatest where descending."""

    values: _Values
    origin: int
    bits: int
    descending: bool

    def words(self, rows: UInt64Array | None) -> Words:
        values = self.values if rows is None else self.values.take(rows)
        unsigned = values.view(np.uint64) if values.itemsize == WORD_BYTES else values.astype(np.uint64)
        origin = np.uint64(self.origin % (1 << WORD_BITS))
        return origin - unsigned if self.descending else unsigned - origin


def number_part(values: _Values, *, descending: bool = False) -> KeyPart:
    """Return the part that integers of any width make."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    return _Numbers(values, high if descending else low, (high - low).bit_length(), descending)


@dataclass(frozen=True, slots=True)
class _Texts:
    """Where texts lie: text `i` is `data[ends[i]:ends[i + 1]]`, or empty where it is null."""

    ends: _Offsets
    lengths: _Offsets
    data: _Bytes  # at least eight bytes
    shortest: int
    longest: int

    @classmethod
    def of(cls, column: pa.Array, nulls: Flags | None) -> _Texts:
        large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
        ends = _view(column.buffers()[1], np.int64 if large else np.int32, column.offset, len(column) + 1)
        lengths = np.diff(ends)
        if nulls is not None:
            lengths[nulls] = 0
        data = _view(column.buffers()[2], np.uint8, 0, int(ends[-1]) if len(ends) else 0)
        if len(data) < WORD_BYTES:
            data = np.append(data, np.zeros(WORD_BYTES, np.uint8))
        bounds = (int(lengths.min()), int(lengths.max())) if len(lengths) else (0, 0)
        return cls(ends, lengths, data, *bounds)

    def words(self, skip: int, rows: UInt64Array | None) -> Words:
        """Return eight bytes of each text from a position on, those behind its end as zeros."""
        count = len(self.lengths)
        if rows is not None and len(rows) > count // _MANY:
            return self.words(skip, None).take(rows)  # bytes are read faster in order than at random places
        last = len(self.data) - WORD_BYTES
        if rows is None and self.shortest == self.longest and int(self.ends[count - 1]) + skip <= last:
            at_once = np.ndarray((count,), ">u8", self.data, int(self.ends[0]) + skip, (self.longest,))
            out = at_once.astype(np.uint64)
        else:
            at = (self.ends[:-1] if rows is None else self.ends.take(rows)).astype(np.int64) + skip
            out = self._words_at(at, last)
        if self.shortest < skip + WORD_BYTES:
            lengths = self.lengths if rows is None else self.lengths.take(rows)
            out &= _LEADING[np.clip(lengths - skip, 0, WORD_BYTES)]
        return out

    def _words_at(self, at: UInt64Array, last: int) -> Words:
        """Return the bytes at positions; near the end of all data, those that would be behind it are zeros."""
        anywhere = np.ndarray((last + 1,), ">u8", self.data, strides=(1,))
        over = np.flatnonzero(at > last)
        if len(over) == 0:
            return anywhere[at].astype(np.uint64)
        out = anywhere[np.minimum(at, last)].astype(np.uint64)
        out[over] <<= np.minimum(8 * (at[over] - last), WORD_BITS - 1).astype(np.uint64)
        return out


def _view(buffer: pa.Buffer | None, dtype: npt.DTypeLike, offset: int, count: int) -> npt.NDArray[Any]:
    """Return a part of a buffer as numpy sees it; Arrow leaves out the buffers of an array without rows."""
    size = np.dtype(dtype).itemsize
    if buffer is None or buffer.size < (offset + count) * size:
        return np.zeros(count, dtype)
    return np.frombuffer(buffer.slice(offset * size, count * size), dtype)


@dataclass(frozen=True, slots=True)
class _TextWord:
    """Up to eight bytes of each text, from one position on."""

    texts: _Texts
    skip: int
    size: int
    descending: bool

    @property
    def bits(self) -> int:
        return 8 * self.size

    def words(self, rows: UInt64Array | None) -> Words:
        out = self.texts.words(self.skip, rows)
        if self.descending:
            np.invert(out, out=out)
        if self.size < WORD_BYTES:
            out >>= np.uint64(WORD_BITS - self.bits)
        return out


@dataclass(frozen=True, slots=True)
class _TextRank:
    """The place of each text among those that are asked for."""

    column: pa.Array
    descending: bool

    @property
    def bits(self) -> int:
        return len(self.column).bit_length()

    def words(self, rows: UInt64Array | None) -> Words:
        texts = self.column if rows is None else self.column.take(pa.array(rows))
        ranks = pc.rank(texts, "descending" if self.descending else "ascending", tiebreaker="dense")
        out: Words = ranks.to_numpy().astype(np.uint64)
        return out


def _text_parts(column: pa.Array, nulls: Flags | None, *, descending: bool) -> list[KeyPart]:
    texts = _Texts.of(column, nulls)
    begin = shared_prefix(column) if len(column) >= _PREFIX_ROWS_MIN else 0
    end = min(texts.longest, begin + _TEXT_WORDS * WORD_BYTES)
    parts: list[KeyPart] = [
        _TextWord(texts, skip, min(WORD_BYTES, end - skip), descending) for skip in range(begin, end, WORD_BYTES)
    ]
    if end < texts.longest:
        return [*parts, _TextRank(_binary(column), descending)]
    # A text that is the beginning of another differs from it only in its length: zeros may follow in both.
    return [*parts, number_part(texts.lengths, descending=descending)]


def text_words(column: pa.Array, skip: int) -> Words:
    """Return eight bytes of each text from a position on; those behind its end, and those of nulls, are zeros."""
    return _Texts.of(column, null_mask(column)).words(skip, None)


def _binary(column: pa.Array) -> pa.Array:
    """Return texts as bytes, which is what orders them."""
    return column.cast({pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}.get(column.type, column.type))


def shared_prefix(column: pa.Array) -> int:
    """Return how many bytes all texts have in common at their beginning, which therefore order nothing."""
    column = _binary(column)
    at = np.linspace(0, len(column) - 1, min(_SAMPLES, len(column))).astype(np.int64)
    seen = [text for text in column.take(pa.array(at)).to_pylist() if text is not None]
    if not seen or _common_bytes(min(seen), max(seen)) == 0:
        return 0  # as in most columns; a sample is enough to see it
    bounds = pc.min_max(column).as_py()
    return _common_bytes(bounds["min"], bounds["max"])


def _common_bytes(one: bytes, other: bytes) -> int:
    pairs = zip(one[:_PREFIX_MAX], other[:_PREFIX_MAX], strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other), _PREFIX_MAX))

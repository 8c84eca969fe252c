"""Sorting rows by normalized keys; the order of keys."""

from __future__ import annotations

import struct
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lakewright.lsm.normalized_keys import (
    WORD_BITS,
    Flags,
    KeyPart,
    Layer,
    UInt64Array,
    Words,
    column_parts,
    normalize_columns,
)
from lakewright.spec.scalars import from_scalar
from lakewright.spec.types import DataField, Value

# ---- Sorting normalized keys -----------------------------------------------------------------------------------------
# The first word orders all rows, each later one the rows that are equal so far; equal rows keep the order they came
# in. Sorted rows cost a comparison per row, and a few sorted runs behind each other cost little more than their
# merge: a sort that finds runs (numpy's stable one) is best there. For rows in no order numpy's sort of plain words
# is best where it uses vector instructions, with the position of each row in the low bits of its word; elsewhere
# radix passes of 16 bits.

_FEW_ROWS = 1 << 13  # so few are sorted by comparison
_TRIAL_ROWS = 1 << 14
_FEW_RUNS = 48  # so many sorted runs merge faster than they are sorted anew by radix passes
_FEW_RUNS_PACKED = 8  # the same where packed words are sorted by vector instructions
_MANY = 8  # one row of so many is many
_DIGIT_BITS = 16
_RADIX_BITS = 2 * _DIGIT_BITS
_INT32_ROWS = 1 << 31


@dataclass(slots=True)
class Sorted:
    """Rows in order: their positions, and which of them differ from the one before."""

    order: UInt64Array
    new: Flags

    def refine(self, layer: Layer) -> None:
        """Order the rows that are equal so far by one more word; rows that are still equal keep their order."""
        at = _tied_rows(self.new)
        if len(at) == 0:
            return
        rows, first = self.order.take(at), self.new.take(at)
        words = layer.words(rows)
        wrong = _find_disorder(words, first)
        if len(wrong):
            inner = wrong.take(_order_inside(words.take(wrong), first.take(wrong)))
            words[wrong] = words.take(inner)
            self.order[at.take(wrong)] = rows.take(inner)
        self.new[at[1:]] |= words[1:] != words[:-1]


def sort_layers(layers: Sequence[Layer], count: int) -> Sorted:
    """Sort rows by words, the most significant first; equal rows keep their order."""
    if not layers or count == 0:
        return Sorted(np.arange(count), _first_alone(count))
    words = layers[0].words()
    order = _argsort(words)
    if order is None:
        order = np.arange(count)
    else:
        words = words.take(order)
    new = _first_alone(count)
    np.not_equal(words[1:], words[:-1], out=new[1:])
    out = Sorted(order, new)
    for layer in layers[1:]:
        out.refine(layer)
    return out


def differ_from_previous(layers: Sequence[Layer], count: int, order: UInt64Array | None) -> Flags:
    """Say which rows, in an order that brings equal ones together, differ from the one before."""
    new = _first_alone(count)
    same = np.arange(1, count)  # the places of rows that are equal to the one before so far
    for depth, layer in enumerate(layers):
        below, above = _neighbours(layer, same, order, all_rows=depth == 0)
        differs = above != below
        new[same[differs]] = True
        same = same[~differs]
    return new


def ascends(layers: Sequence[Layer], count: int) -> bool:
    """Return whether each row is above the one before."""
    same = np.arange(1, count)
    for depth, layer in enumerate(layers):
        below, above = _neighbours(layer, same, None, all_rows=depth == 0)
        if bool((above < below).any()):
            return False
        same = same[above == below]
        if len(same) == 0:
            return True
    return len(same) == 0


def _neighbours(layer: Layer, places: UInt64Array, order: UInt64Array | None, *, all_rows: bool) -> tuple[Words, Words]:
    """Return the words of the rows before some places, and at them; `all_rows`: the places are all but the first."""
    if all_rows:
        words = layer.words(order)
        return words[:-1], words[1:]
    pairs = np.concatenate([places - 1, places])  # asked for together: only such words can be compared
    words = layer.words(pairs if order is None else order.take(pairs))
    return words[: len(places)], words[len(places) :]


def _first_alone(count: int) -> Flags:
    new = np.zeros(count, np.bool_)
    new[:1] = True
    return new


def _tied_rows(new: Flags) -> UInt64Array:
    """Return the places of the rows that have an equal neighbour."""
    tied = np.logical_not(new)
    tied[:-1] |= tied[1:]
    return np.flatnonzero(tied)


def _find_disorder(words: Words, first: Flags) -> UInt64Array:
    """Return the places in groups whose words do not ascend; `first` marks where a group begins."""
    falls = words[1:] < words[:-1]
    falls &= ~first[1:]
    if not falls.any():
        return np.zeros(0, np.int64)
    starts = np.flatnonzero(first)
    at = np.flatnonzero(falls)
    if len(at) > len(words) // _MANY:
        return np.arange(len(words))
    group = np.unique(np.searchsorted(starts, at, side="right")) - 1
    marks = np.zeros(len(words) + 1, np.int8)
    marks[starts[group]] = 1
    marks[np.append(starts, len(words))[group + 1]] -= 1
    return np.flatnonzero(np.cumsum(marks[:-1], dtype=np.int8))


def _order_inside(words: Words, first: Flags) -> UInt64Array:
    """Return the order that sorts groups of rows each by its words."""
    group = np.cumsum(first, dtype=np.uint64)
    low = words.min()
    bits = int(words.max() - low).bit_length()
    if bits + int(group[-1]).bit_length() <= WORD_BITS:
        group <<= np.uint64(bits)
        group |= words - low
        return np.argsort(group, kind="stable")  # groups are in order already, which makes this sort fast
    by_word = _argsort(words)
    if by_word is None:
        return np.arange(len(words))
    by_group = _argsort(group.take(by_word))
    return by_word if by_group is None else by_word.take(by_group)


def _argsort(words: Words) -> UInt64Array | None:
    """Return the positions of words in ascending order, equal ones in the order they came in; None: they are sorted."""
    runs = 1 + int(np.count_nonzero(words[1:] < words[:-1]))
    if runs == 1:
        return None
    packs = sorts_by_vectors()
    if runs <= (_FEW_RUNS_PACKED if packs else _FEW_RUNS) or len(words) <= _FEW_ROWS:
        return np.argsort(words, kind="stable")
    return packed_order(words) if packs else radix_order(words)


def packed_order(words: Words) -> UInt64Array:
    """Sort words that have the positions of their rows in the low bits, so that equal ones keep their order."""
    low, count = words.min(), len(words)
    place_bits = (count - 1).bit_length()
    lost = max(0, int(words.max() - low).bit_length() + place_bits - WORD_BITS)
    packed = words - low
    packed >>= np.uint64(lost)
    packed <<= np.uint64(place_bits)
    packed |= np.arange(count, dtype=np.uint64)
    packed.sort()
    packed &= np.uint64((1 << place_bits) - 1)
    order = packed.view(np.int64)
    return _repair_order(order, words) if lost else order


def radix_order(words: Words) -> UInt64Array:
    """Sort words by the highest bits that vary, digit by digit; then by the bits below them, if there are more."""
    # The bits in front of the first one that varies are the same in all words.
    bits = (int(words.max()) ^ int(words.min())).bit_length()
    if bits <= _RADIX_BITS:
        return _by_digits(words.astype(np.uint32), bits)
    return _repair_order(_by_digits((words >> np.uint64(bits - _RADIX_BITS)).astype(np.uint32), _RADIX_BITS), words)


def _repair_order(order: UInt64Array, words: Words) -> UInt64Array:
    """Return the order of words by all of their bits, from an order by the highest ones."""
    nearly = words.take(order)
    if not bool((nearly[1:] < nearly[:-1]).any()):
        return order
    # Only rows near each other are out of order: numpy's stable sort is fast on those.
    return order.take(np.argsort(nearly, kind="stable"))


@cache
def sorts_by_vectors() -> bool:
    """Tell whether packed words are sorted faster than by radix passes here: it depends on the processor and numpy."""
    words = np.arange(_TRIAL_ROWS, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # in no order
    words >>= np.uint64(WORD_BITS - _RADIX_BITS)
    return _fastest(packed_order, words) < _fastest(radix_order, words)


def _fastest(sort: Callable[[Words], UInt64Array], words: Words) -> float:
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        sort(words)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _by_digits(words: np.ndarray[tuple[int], np.dtype[np.uint32]], bits: int) -> UInt64Array:
    """Sort by the lower bits of words, digit by digit: numpy sorts 16-bit numbers by counting them."""
    order = np.argsort(words.astype(np.uint16), kind="stable")
    if bits <= _DIGIT_BITS:
        return order
    high = (words >> np.uint32(_DIGIT_BITS)).astype(np.uint16)
    after = np.argsort(high.take(order), kind="stable")
    if len(words) < _INT32_ROWS:  # half the memory for random access
        return order.astype(np.int32).take(after).astype(np.int64)
    return order.take(after)


# ---- The order of keys -----------------------------------------------------------------------------------------------
# Nulls come first, texts and bytes compare as unsigned bytes, -0.0 is below 0.0 and NaN above everything. Two keys
# are the same exactly when neither is below the other. No row is compared in Python: see `lsm.normalized_keys`.

Key: TypeAlias = tuple[tuple[object, ...], ...]  # of one row: per column () for null, else (value,)


@dataclass(frozen=True, slots=True)
class SortColumn:
    """A column to sort by; its nulls come first in both directions."""

    field: DataField
    descending: bool = False


def sorted_rows(table: pa.Table, columns: Sequence[SortColumn]) -> Sorted:
    """Return the rows sorted by some columns, equal ones as they came, and where one differs from the one before."""
    return sort_layers(normalize_columns(table_parts(table, columns)), len(table))


def table_parts(table: pa.Table, columns: Sequence[SortColumn]) -> list[KeyPart]:
    """Return the order image of some columns of a table."""
    parts: list[KeyPart] = []
    for column in columns:
        name = column.field.name
        parts += column_parts(table.column(name), column.field.type, descending=column.descending, name=name)
    return parts


class KeyOrder:
    """The order of the rows of a table by some columns.

    >>> from lakewright.spec.types import AtomicType
    >>> key = KeyOrder([DataField(0, "k", AtomicType("STRING"))])
    >>> key.order(pa.table({"k": ["b", None, "a", "b"]})).tolist()
    [1, 2, 0, 3]
    """

    def __init__(self, fields: Sequence[DataField]) -> None:
        self.fields = tuple(fields)
        self.columns = tuple(SortColumn(field) for field in fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the key columns."""
        return tuple(field.name for field in self.fields)

    def sort_rows(self, table: pa.Table) -> Sorted:
        """Return the rows in key order, and which of them begin a new key."""
        return sorted_rows(table, self.columns)

    def order(self, table: pa.Table) -> UInt64Array:
        """Return the positions of the rows in key order; rows of one key keep their order."""
        return self.sort_rows(table).order

    def starts(self, table: pa.Table, order: UInt64Array | None = None) -> UInt64Array:
        """Return where each key begins in rows that are sorted, or that `order` sorts."""
        return np.flatnonzero(differ_from_previous(self._layers(table), len(table), order))

    def is_ascending(self, table: pa.Table) -> bool:
        """Return whether each row has a higher key than the one before."""
        return ascends(self._layers(table), len(table))

    def key_at(self, table: pa.Table, row: int) -> Key:
        """Return the key of one row."""
        return self.key_of([from_scalar(table.column(f.name)[row], f.type) for f in self.fields])

    def key_of(self, values: Sequence[Value]) -> Key:
        """Return the key that values make, one per key column."""
        return tuple(() if value is None else (_comparable(value),) for value in values)

    def count_up_to(self, table: pa.Table, key: Key) -> int:
        """Return how many rows of a sorted table have a key that is not above the given one."""
        return bisect_right(range(len(table)), key, key=lambda row: self.key_at(table, row))

    def count_below(self, table: pa.Table, key: Key) -> int:
        """Return how many rows of a sorted table have a key below the given one."""
        return bisect_left(range(len(table)), key, key=lambda row: self.key_at(table, row))

    def _layers(self, table: pa.Table) -> list[Layer]:
        return normalize_columns(table_parts(table, self.columns))


def _comparable(value: Value) -> object:
    """Return what Python compares as the format does."""
    match value:
        case str():
            return value.encode("utf-8", "surrogatepass")
        case float():
            (bits,) = struct.unpack("<q", struct.pack("<d", float("nan") if value != value else value))  # noqa: PLR0124
            return bits if bits >= 0 else bits ^ 0x7FFFFFFFFFFFFFFF
        case _:
            return value

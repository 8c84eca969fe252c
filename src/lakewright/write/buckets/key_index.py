"""Keys in, slots out: every key of a table gets a number (its slot), always the same one.

The index holds the keys themselves, so two keys never share a slot. Keys are looked up by their hashes, in sorted pairs
of a hash and a slot, for a whole array of keys at a time. Keys with equal hashes are compared. No Python code runs per
row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.spec.buckets import row_hashes
from lakewright.spec.types import DataField

Slots: TypeAlias = npt.NDArray[np.int64]
_Flags: TypeAlias = npt.NDArray[np.bool_]

_LOW = np.int64(0xFFFFFFFF)
_NOTHING: Slots = np.empty(0, np.int64)
_RECENT_MIN = 1 << 16  # so many new keys are kept in an array of their own before they are merged into the large one
_BITS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}


class KeyIndex:
    """The slots of keys, counted from 0 in the order in which the keys were added."""

    def __init__(self, fields: Sequence[DataField]) -> None:
        self._fields = tuple(fields)
        self._keys: list[pa.Table] = []  # by slot
        self._base = _NOTHING  # pairs of hash and slot, sorted
        self._recent = _NOTHING
        self._loaded: list[Slots] = []  # pairs that are not sorted yet
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def load(self, keys: pa.Table) -> None:
        """Add keys that are known to be new; they get the next slots."""
        plain = self._plain(keys)
        self._loaded.append(self._add(plain, self._hashes(keys)))

    def slots(self, keys: pa.Table) -> Slots:
        """Return the slots of keys, each given once; keys that are new get the next slots."""
        self._sort_loaded()
        hashes, plain = self._hashes(keys), self._plain(keys)
        slots = self._look_up(self._base, hashes, plain)
        left = np.flatnonzero(slots < 0)
        if len(left) and len(self._recent):
            slots[left] = self._look_up(self._recent, hashes[left], plain.take(pa.array(left)))
            left = left[slots[left] < 0]
        if len(left):
            new = self._add(plain if len(left) == len(slots) else plain.take(pa.array(left)), hashes[left])
            slots[left] = new & _LOW
            self._recent = _merged(self._recent, np.sort(new))
            if len(self._recent) > max(_RECENT_MIN, len(self._base) // 8):
                self._base, self._recent = _merged(self._base, self._recent), _NOTHING
        return slots

    def _hashes(self, keys: pa.Table) -> Slots:
        """Return the hash of each key, in the high half of a number."""
        types = [field.type for field in self._fields]
        return row_hashes([keys.column(field.name) for field in self._fields], types).astype(np.int64) << 32

    def _plain(self, keys: pa.Table) -> pa.Table:
        """Return the columns of the key, floats as their bits, because 0.0 and -0.0 are different keys."""
        columns = [keys.column(field.name).combine_chunks() for field in self._fields]
        columns = [column.view(_BITS[column.type]) if column.type in _BITS else column for column in columns]
        return pa.table(columns, names=[field.name for field in self._fields])

    def _add(self, plain: pa.Table, hashes: Slots) -> Slots:
        """Give keys the next slots, and return them as pairs."""
        pairs = hashes | np.arange(self._size, self._size + len(hashes), dtype=np.int64)
        self._size += len(hashes)
        self._keys.append(plain)
        # A table is joined to the one before it once it is as large, so that there are few tables and few copies.
        while len(self._keys) > 1 and len(self._keys[-1]) >= len(self._keys[-2]):
            last = self._keys.pop()
            self._keys[-1] = pa.concat_tables([self._keys[-1], last]).combine_chunks()
        return pairs

    def _sort_loaded(self) -> None:
        """Merge the pairs of loaded keys into the sorted ones."""
        if self._loaded:
            self._base = np.sort(np.concatenate([self._base, *self._loaded]))
            self._loaded = []

    def _look_up(self, pairs: Slots, hashes: Slots, plain: pa.Table) -> Slots:
        """Return the slots of keys among some pairs, -1 for keys that have none among them."""
        out = np.full(len(hashes), -1, np.int64)
        rows = np.arange(len(hashes))
        at = np.searchsorted(pairs, hashes)
        # Each turn looks at the next of the pairs with a key's hash; more than one is rare.
        while len(rows):
            inside = at < len(pairs)
            rows, at = rows[inside], at[inside]
            equal = pairs[at] & ~_LOW == hashes[rows]
            rows, at = rows[equal], at[equal]
            slots = pairs[at] & _LOW
            same = self._same(slots, plain, rows)
            out[rows[same]] = slots[same]
            rows, at = rows[~same], at[~same] + 1
        return out

    def _same(self, slots: Slots, plain: pa.Table, rows: Slots) -> _Flags:
        """Say where the key of a slot is the key of a row."""
        same = np.ones(len(rows), np.bool_)
        if len(rows) == 0:
            return same
        known = pa.concat_tables(self._keys).take(pa.array(slots))
        given = plain if len(rows) == len(plain) else plain.take(pa.array(rows))
        for left, right in zip(known.columns, given.columns, strict=True):
            equal = pc.fill_null(pc.equal(left, right), pc.and_(pc.is_null(left), pc.is_null(right)))
            same &= equal.to_numpy()
        return same


def _merged(left: Slots, right: Slots) -> Slots:
    # A stable sort finds the two sorted runs and merges them in linear time.
    return np.sort(np.concatenate((left, right)), kind="stable")

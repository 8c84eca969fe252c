"""One field of many serialised rows: rows in, their values out, decoded together with numpy.

Always holds: the values are those that `decode_field` gives, row by row. Where that is not sure, because a row is
damaged or the type is decoded row by row only, the answer is None; `decode_field` then says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakewright.spec.rows.binary_row import ARITY_BYTES
from lakewright.spec.rows.slots import INLINE_BYTES_MAX, INLINE_MARK, MILLI_NANOS, SLOT_BYTES, header_bytes
from lakewright.spec.types import BYTES_ROOTS, MILLIS_PRECISION, TEXT_ROOTS, TIMESTAMP_ROOTS, AtomicType, DataType

Longs: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_NUMBERS = {"TINYINT": "<i1", "SMALLINT": "<i2", "INT": "<i4", "DATE": "<i4", "BIGINT": "<i8", "FLOAT": "<f4"}
_NUMBERS |= {"DOUBLE": "<f8"}
_MILLIS_MAX = (2**63 - 1) // MILLI_NANOS  # beyond it, nanoseconds do not fit 64 bits
_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)


class RowColumns:
    """Serialised rows of scalars, all with as many fields.

    >>> from lakewright.spec.rows.binary_row import encode_row
    >>> types = [AtomicType("INT"), AtomicType("STRING")]
    >>> rows = RowColumns([encode_row([7, "seven"], types), encode_row([None, "a longer text"], types)], 2)
    >>> [rows.values(index, dtype) for index, dtype in enumerate(types)]
    [[7, None], ['seven', 'a longer text']]
    """

    def __init__(self, rows: Sequence[bytes], arity: int) -> None:
        self._data = b"".join([*rows, bytes(2 * SLOT_BYTES)])
        self._words = np.ndarray((len(self._data) - SLOT_BYTES,), "<u8", self._data, strides=(1,))
        self._bytes = np.frombuffer(self._data, np.uint8)
        sizes = np.fromiter(map(len, rows), np.int64, len(rows))
        self._ends = np.cumsum(sizes)
        self._bodies = self._ends - sizes + ARITY_BYTES
        self._arity = arity
        self.is_sound = self._are_sound(sizes)  # whether every row has as many fields, and room for them

    def _are_sound(self, sizes: Longs) -> bool:
        least = ARITY_BYTES + header_bytes(self._arity) + SLOT_BYTES * self._arity
        stored = int.from_bytes(self._arity.to_bytes(ARITY_BYTES, "big"), "little")
        return bool((sizes >= least).all() and ((self._word(self._bodies - ARITY_BYTES) & _LOW_HALF) == stored).all())

    def values(self, index: int, dtype: DataType) -> list[Any] | None:
        """Return the values of a field, None for null; or None instead of all: take `decode_field`."""
        if not self.is_sound or not isinstance(dtype, AtomicType) or not 0 <= index < self._arity:
            return None
        read = self._reader(dtype)
        if read is None:
            return None
        at, bit = divmod(8 + index, 8)
        nulls = (self._bytes[self._bodies + at] >> bit) & 1 != 0
        found = read(self._bodies + header_bytes(self._arity) + SLOT_BYTES * index, nulls)
        if found is not None and nulls.any():
            for row in np.flatnonzero(nulls).tolist():
                found[row] = None
        return found

    def _reader(self, dtype: AtomicType) -> Callable[[Longs, Mask], list[Any] | None] | None:
        """Return what reads the values from the places of their slots."""
        if form := _NUMBERS.get(dtype.root):
            return lambda at, _: (
                self._word(at).astype("<u8").view(form)[:: SLOT_BYTES // np.dtype(form).itemsize].tolist()
            )
        if dtype.root == "BOOLEAN":
            return lambda at, _: (self._bytes[at] != 0).tolist()
        if dtype.root in TIMESTAMP_ROOTS:
            return self._millis if dtype.precision <= MILLIS_PRECISION else self._nanos
        if dtype.root in TEXT_ROOTS:
            return self._texts
        return self._pieces if dtype.root in BYTES_ROOTS else None

    def _word(self, at: Longs) -> Words:
        return self._words[np.clip(at, 0, len(self._words) - 1)]

    def _millis(self, at: Longs, nulls: Mask) -> list[Any] | None:
        return _in_nanos(self._word(at).view(np.int64), np.zeros(len(at), np.int64), nulls)

    def _nanos(self, at: Longs, nulls: Mask) -> list[Any] | None:
        slots = self._word(at)
        places = self._bodies + (slots >> _HALF).astype(np.int64)
        rest = (slots & _LOW_HALF).astype(np.int64)
        if ((places + SLOT_BYTES > self._ends) | (rest >= MILLI_NANOS))[~nulls].any():
            return None
        return _in_nanos(self._word(places).view(np.int64), rest, nulls)

    def _texts(self, at: Longs, nulls: Mask) -> list[Any] | None:
        pieces = self._pieces(at, nulls)
        try:
            return None if pieces is None else [piece.decode() for piece in pieces]
        except UnicodeDecodeError:
            return None

    def _pieces(self, at: Longs, nulls: Mask) -> list[bytes] | None:
        """Return the bytes of a field: inside of the slot if they are few, and else where the slot says."""
        slots = self._word(at)
        marks = (slots >> np.uint64(56)).astype(np.int64)
        is_inline = marks >= INLINE_MARK
        sizes = np.where(is_inline, marks & ~INLINE_MARK, (slots & _LOW_HALF).astype(np.int64))
        starts = np.where(is_inline, at, self._bodies + (slots >> _HALF).astype(np.int64))
        if (np.where(is_inline, sizes > INLINE_BYTES_MAX, starts + sizes > self._ends) & ~nulls).any():
            return None
        starts, sizes = np.where(nulls, 0, starts), np.where(nulls, 0, sizes)
        data = self._data
        return [data[start:end] for start, end in zip(starts.tolist(), (starts + sizes).tolist(), strict=True)]


def _in_nanos(millis: Longs, rest: Longs, nulls: Mask) -> list[Any] | None:
    """Return moments in nanoseconds; None: some are too far away for 64 bits."""
    known = np.where(nulls, 0, millis)
    if (known >= _MILLIS_MAX).any() or (known <= -_MILLIS_MAX).any():
        return None
    found: list[Any] = (known * MILLI_NANOS + rest).tolist()
    return found

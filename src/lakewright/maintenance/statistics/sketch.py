"""Distinct values: columns in, how many distinct values they have out, in memory that does not grow with the rows.

Every value has a 64-bit hash, and the sketch keeps the smallest `KEPT` of them. A column with fewer distinct values is
counted exactly (but for two values with one hash, which is as good as impossible below that number). With more of them,
the largest hash that is kept says how densely hashes lie: the standard error is 1 / sqrt(KEPT), 0.8 percent. Sketches
of parts merge into the sketch of the whole, so that workers can count.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

KEPT = 1 << 14
_WORD = 8
_LONG = 256  # bytes; longer values are hashed one by one, because few rows share their last words
_RANGE = 2.0**64
_STEP, _MIX_1, _MIX_2 = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))

Hashes = npt.NDArray[np.uint64]


@dataclass(slots=True)
class DistinctSketch:
    """The smallest hashes of the values seen so far, in order."""

    hashes: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))

    def add(self, values: pa.Array) -> None:
        """Take values without nulls into account."""
        self._add(value_hashes(values))

    def merge(self, other: DistinctSketch) -> None:
        """Take the values of another sketch into account."""
        self._add(other.hashes)

    def _add(self, hashes: Hashes) -> None:
        if len(self.hashes) == KEPT:
            hashes = hashes[hashes < self.hashes[-1]]
        if len(hashes):
            self.hashes = np.union1d(self.hashes, hashes)[:KEPT]

    @property
    def count(self) -> int:
        """How many distinct values there are: exact below `KEPT`, else an estimate."""
        if len(self.hashes) < KEPT:
            return len(self.hashes)
        return round((KEPT - 1) * _RANGE / (float(self.hashes[-1]) + 1))


def value_hashes(values: pa.Array) -> Hashes:
    """Return a 64-bit hash of each value of an array without nulls; equal values, such as both zeros, have one hash."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _byte_hashes(values.cast(pa.large_binary()))
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _byte_hashes(values.cast(pa.large_binary()))
    if pa.types.is_decimal(kind):
        words = np.frombuffer(values.buffers()[1], np.uint64).reshape(-1, kind.byte_width // _WORD)
        words = words[values.offset : values.offset + len(values)]
        mixed = np.zeros(len(values), np.uint64)
        for column in words.T:
            mixed = _mixed(mixed ^ column)
        return mixed
    if pa.types.is_floating(kind):
        numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0  # -0.0 becomes 0.0
        return _mixed(np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64))
    if pa.types.is_boolean(kind):
        values = values.cast(pa.uint8())
    elif pa.types.is_temporal(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())  # noqa: PLR2004 - bits of a number
    return _mixed(values.cast(pa.int64()).to_numpy(zero_copy_only=False).view(np.uint64))


def _byte_hashes(values: pa.Array) -> Hashes:
    """Return the hashes of byte strings: word by word, of all rows that have another word."""
    offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
    starts, lengths = offsets[:-1], np.diff(offsets)
    stored = values.buffers()[2]
    data = np.frombuffer(stored, np.uint8) if stored is not None and stored.size else np.zeros(1, np.uint8)
    hashes = _mixed(lengths.astype(np.uint64))
    active = np.flatnonzero((lengths > 0) & (lengths <= _LONG))
    for first in range(0, _LONG, _WORD):
        active = active[lengths[active] > first]
        if not len(active):
            break
        at = np.arange(first, first + _WORD)
        inside = at < lengths[active, None]
        places = np.where(inside, starts[active, None] + at, 0)
        words = np.where(inside, data[places], 0).astype(np.uint8).view(np.uint64)[:, 0]
        hashes[active] = _mixed(hashes[active] ^ words)
    for row in np.flatnonzero(lengths > _LONG).tolist():
        digest = hashlib.blake2b(data[starts[row] : offsets[row + 1]].tobytes(), digest_size=_WORD).digest()
        hashes[row] = int.from_bytes(digest, "little")
    return hashes


def _mixed(words: Hashes) -> Hashes:
    """Spread the bits of each word over the whole of it, one to one; overflow wraps, as it shall."""
    mixed = words + _STEP
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX_1
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX_2
    return mixed ^ (mixed >> np.uint64(31))


def lengths_of(values: pa.Array) -> pa.Array:
    """Return the length of each text in characters, of each binary value in bytes."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return pc.utf8_length(values)
    return pc.binary_length(values)

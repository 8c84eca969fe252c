"""Bucket numbers of new keys in dynamic buckets.

A key stays in its bucket. New keys go into the first bucket with free space, then into a new bucket with the smallest
free number. Several writers may assign buckets at the same time if every key always goes to the same writer
(`channels_of`) and each writer adds keys only to buckets of its own (`Assigner`). Nothing here reads or writes files.
Python code runs per bucket, never per row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lakewright.errors import InvalidInputError
from lakewright.spec.table_options import TableOptions

BUCKETS_MAX = 32767  # as many as the format has, numbered from 0
_OVERLAY_MIN = 1 << 16  # so many new hashes are kept in an array of their own before they are merged into the large one

HashArray: TypeAlias = npt.NDArray[np.int32]
Buckets: TypeAlias = npt.NDArray[np.int32]
_Pairs: TypeAlias = npt.NDArray[np.int64]  # a hash in the high half, a bucket or a position in the low half


@dataclass(frozen=True, slots=True)
class Assigner:
    """One of several writers that give buckets to new keys: it uses buckets whose number modulo `count` is its own."""

    number: int = 0
    count: int = 1

    def owns(self, bucket: int) -> bool:
        """Return whether the writer may put new keys into a bucket."""
        return bucket % self.count == self.number

    def check(self, hashes: HashArray) -> None:
        """Raise InvalidInputError for keys of another writer, which may have put them into another bucket."""
        if self.count > 1 and not bool((_remainders(hashes, self.count) == self.number).all()):
            raise InvalidInputError(
                f"assigner {self.number} of {self.count} got keys of another; route rows by `channels_of` first"
            )


def channels_of(partition_hash: int, hashes: HashArray, *, channels: int, assigners: int) -> npt.NDArray[np.int32]:
    """Return the channel (the number of a writer) of each key of a partition; equal keys get the same channel.

    Each partition has as many channels as `assigners`; a key gets the one with the number |hash mod assigners|.

    >>> channels_of(-7, np.array([5, -5, 4], np.int32), channels=4, assigners=2)
    array([0, 0, 3], dtype=int32)
    """
    start = np.abs(np.fmod(np.int32(partition_hash), np.int32(channels)))
    chosen: npt.NDArray[np.int32] = (start + _remainders(hashes, assigners)) % np.int32(channels)
    return chosen


def _remainders(hashes: HashArray, count: int) -> npt.NDArray[np.int32]:
    return np.abs(np.fmod(hashes, np.int32(count)))


@dataclass(frozen=True, slots=True)
class BucketLimits:
    """How many keys a bucket takes, how many buckets a partition may have, and which of them the writer may fill."""

    keys: int
    buckets: int = BUCKETS_MAX
    assigner: Assigner = Assigner()

    @classmethod
    def of_options(cls, options: TableOptions, assigner: Assigner) -> BucketLimits:
        """Read the limits from a table's options."""
        buckets_max = options.dynamic_bucket_max_buckets
        buckets = min(buckets_max, BUCKETS_MAX) if buckets_max > 0 else BUCKETS_MAX
        if not 0 <= assigner.number < assigner.count <= buckets:
            raise InvalidInputError(
                f"there is no assigner {assigner.number} of {assigner.count} where a partition has at most {buckets} "
                "buckets: each needs a bucket of its own"
            )
        return cls(max(1, options.dynamic_bucket_target_row_num), buckets, assigner)


class BucketFill:
    """How many keys each bucket of one partition has."""

    def __init__(self, limits: BucketLimits, counts: Mapping[int, int]) -> None:
        self._limits = limits
        self.counts = dict(counts)

    def place(self, hashes: HashArray) -> Buckets:
        """Return buckets for new keys, given by their hashes in order of arrival, and add them to the counts."""
        buckets = np.empty(len(hashes), np.int32)
        placed = 0  # how many keys have a bucket
        for bucket in self._open_buckets():
            if placed == len(buckets):
                break
            count = self.counts.get(bucket, 0)
            added = min(self._limits.keys - count, len(buckets) - placed)
            buckets[placed : placed + added] = bucket
            self.counts[bucket] = count + added
            placed += added
        if placed < len(buckets):
            buckets[placed:] = self._assign_by_hash(hashes[placed:])
        return buckets

    def _open_buckets(self) -> Iterator[int]:
        """Yield the buckets with free space, in the order in which they are filled."""
        assigner, numbers = self._limits.assigner, sorted(self.counts)
        yield from (b for b in numbers if assigner.owns(b) and self.counts[b] < self._limits.keys)
        taken = frozenset(numbers)
        yield from (b for b in range(assigner.number, self._limits.buckets, assigner.count) if b not in taken)

    def _assign_by_hash(self, hashes: HashArray) -> Buckets:
        """Return buckets for keys when all buckets are full: the hash of a key picks one of them."""
        owned = np.array([b for b in sorted(self.counts) if self._limits.assigner.owns(b)], np.int32)
        chosen: Buckets = owned[hashes.view(np.uint32) % np.uint32(len(owned))]
        for bucket, added in zip(*np.unique(chosen, return_counts=True), strict=True):
            self.counts[int(bucket)] += int(added)
        return chosen


class KeyHashes:
    """The hashes of the keys of one partition, each with its bucket."""

    def __init__(
        self, known: Mapping[int, HashArray], limits: BucketLimits, *, others: Mapping[int, int] | None = None
    ) -> None:
        """Begin with the hashes of some buckets; of `others` the number of keys is enough: none of theirs will come."""
        self._limits = limits
        counts = {bucket: len(hashes) for bucket, hashes in known.items()}
        self._fill = BucketFill(limits, {**counts, **(others or {})})
        # Sorted by hash. New hashes go into a small array of their own, which is cheap to keep sorted.
        self._base = np.sort(np.concatenate([_NO_PAIRS, *(_pairs(h, b) for b, h in known.items())]))
        self._overlay = _NO_PAIRS
        self._held = {bucket: [hashes] for bucket, hashes in known.items()}  # in parts, in order of arrival
        self._grown: set[int] = set()

    def assign(self, hashes: HashArray) -> Buckets:
        """Return the bucket of each key; keys that are new get one."""
        self._limits.assigner.check(hashes)
        ordered = np.sort(_pairs(hashes, np.arange(len(hashes), dtype=np.int64)))
        values, positions = ordered >> 32, ordered & _LOW
        first = values[1:] != values[:-1]
        if first.all():
            group, distinct, firsts = None, values, positions
        else:
            first = np.concatenate(([True], first))
            group, distinct, firsts = np.cumsum(first) - 1, values[first], positions[first]
        known = _look_up(self._base, distinct)
        if len(self._overlay):
            known = np.where(known < 0, _look_up(self._overlay, distinct), known)
        new = np.flatnonzero(known < 0)
        if len(new):
            known[new] = self._add(hashes, distinct[new], firsts[new])
        buckets = np.empty(len(hashes), np.int32)
        buckets[positions] = known if group is None else known[group]
        return buckets

    def grown_buckets(self) -> dict[int, HashArray]:
        """Return all known hashes, in any order, of each bucket that got new ones since `mark_written`."""
        for bucket in self._grown:
            self._held[bucket] = [np.concatenate(self._held[bucket])]
        return {bucket: self._held[bucket][0] for bucket in sorted(self._grown)}

    def mark_written(self) -> None:
        """Forget which buckets got new hashes, because their index files are written."""
        self._grown.clear()

    def _add(
        self, batch: HashArray, hashes: npt.NDArray[np.int64], firsts: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Give buckets to new hashes, in the order of their first positions in the batch."""
        at = np.zeros(len(batch), np.bool_)
        at[firsts] = True
        arrived = batch[at]
        placed = self._fill.place(arrived)
        self._hold(arrived, placed)
        by_position = np.empty(len(batch), np.int64)
        by_position[at] = placed
        buckets = by_position[firsts]
        self._overlay = _merge_pairs(self._overlay, hashes << 32 | buckets)
        if len(self._overlay) > max(_OVERLAY_MIN, len(self._base) // 8):
            self._base = _merge_pairs(self._base, self._overlay)
            self._overlay = _NO_PAIRS
        return buckets

    def _hold(self, hashes: HashArray, buckets: Buckets) -> None:
        """Keep new hashes by bucket, for the index files."""
        if (buckets[1:] < buckets[:-1]).any():
            order = np.argsort(buckets, kind="stable")
            hashes, buckets = hashes[order], buckets[order]
        cuts = np.flatnonzero(buckets[1:] != buckets[:-1]) + 1
        for bucket, part in zip(buckets[[0, *cuts]].tolist(), np.split(hashes, cuts), strict=True):
            self._held.setdefault(bucket, []).append(part)
            self._grown.add(bucket)


_LOW = np.int64(0xFFFFFFFF)
_NO_PAIRS: _Pairs = np.empty(0, np.int64)


def _pairs(hashes: HashArray, low: int | npt.NDArray[np.integer]) -> _Pairs:
    pairs: _Pairs = hashes.astype(np.int64) << 32 | low
    return pairs


def _look_up(pairs: _Pairs, hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the low half of the pair of each hash, -1 where there is none; the hashes are sorted, as the pairs are."""
    if len(pairs) == 0:
        return np.full(len(hashes), -1, np.int64)
    at = np.minimum(np.searchsorted(pairs, hashes << 32), len(pairs) - 1)
    pair = pairs[at]
    return np.where(pair >> 32 == hashes, pair & _LOW, -1)


def _merge_pairs(left: _Pairs, right: _Pairs) -> _Pairs:
    # A stable sort finds the two sorted runs and merges them in linear time.
    return np.sort(np.concatenate((left, right)), kind="stable")

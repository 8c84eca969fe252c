"""Where the keys of a snapshot are: hashes of keys in, the buckets that they have out.

Senders look up the keys of the rows that they send to the writers of dynamic buckets. There are far more keys in the
index files than rows to look up, so the index is neither sorted nor kept as pairs: one pass over it leaves out nearly
all hashes that nobody asked for, by a table of the low bits of those that are asked for.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakewright.metadata.store import TableStore
from lakewright.spec.snapshot import Snapshot
from lakewright.write.buckets.assign import Buckets, Hashes
from lakewright.write.buckets.dynamic import HashFiles

NEW = -1  # the bucket of keys that no index file has
_LOW_BITS = (16, 22)  # of the table, at least and at most: it has about 16 places for each hash that is asked for


class KeyLookup:
    """Finds the buckets of keys in one snapshot; index files of a partition are read when it is first asked for."""

    def __init__(self, store: TableStore, snapshot: Snapshot | None) -> None:
        self._files = HashFiles.of_snapshot(store, snapshot)
        self._read: dict[bytes, dict[int, Hashes]] = {}

    def buckets(self, partition: bytes, hashes: Hashes) -> Buckets:
        """Return the bucket of each key of a partition, `NEW` for keys that have none."""
        if partition not in self._read:
            self._read[partition] = self._files.read(self._files.of_partition(partition))
        return _buckets_of(hashes, self._read[partition])


def _buckets_of(hashes: Hashes, index: dict[int, Hashes]) -> Buckets:
    """Return the lowest bucket of an index that has each of some hashes, `NEW` where none has.

    >>> _buckets_of(np.array([5, -3, 5, 7], np.int32), {1: np.array([5, 9], np.int32), 0: np.array([-3], np.int32)})
    array([ 1,  0,  1, -1], dtype=int32)
    """
    asked, of_row = np.unique(hashes, return_inverse=True)
    found: Buckets = np.full(len(asked), NEW, np.int32)
    low, high = _LOW_BITS
    mask = np.uint32((1 << min(high, max(low, (16 * len(asked)).bit_length()))) - 1)
    is_asked = np.zeros(int(mask) + 1, np.bool_)
    is_asked[_low(asked, mask)] = True
    for bucket in sorted(index, reverse=True):
        kept = index[bucket][is_asked[_low(index[bucket], mask)]]
        at = np.searchsorted(asked, kept)
        at[at == len(asked)] = 0
        found[at[asked[at] == kept]] = bucket
    buckets: Buckets = found[of_row]
    return buckets


def _low(hashes: Hashes, mask: np.uint32) -> npt.NDArray[np.uint32]:
    return hashes.view(np.uint32) & mask

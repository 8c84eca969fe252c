"""Where the keys of a snapshot are: hashes of keys in, the buckets that they have out.

Senders look up the keys of the rows that they send to the writers of dynamic buckets. There are far more keys in the
index files than rows to look up, so the index is neither sorted nor kept as pairs: one pass over it leaves out nearly
all hashes that nobody asked for, by a table of the low bits of those that are asked for. Index files that were read
stay in memory only up to a bound, so that the size of the table does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lakewright.metadata.store import TableStore
from lakewright.spec.manifest import IndexEntry
from lakewright.spec.snapshot import Snapshot
from lakewright.write.buckets.assign import Buckets, Hashes
from lakewright.write.buckets.dynamic import HashFiles

NEW = -1  # the bucket of keys that no index file has
_KEPT_BYTES_MAX = 64 << 20  # of index files, by one sender
_READ_AT_ONCE = 8  # index files
_LOW_BITS = (16, 22)  # of the table, at least and at most: it has about 16 places for each hash that is asked for


class KeyLookup:
    """Finds the buckets of keys in one snapshot; index files are read when keys of their partition are asked for."""

    def __init__(self, store: TableStore, snapshot: Snapshot | None, *, kept_bytes_max: int = _KEPT_BYTES_MAX) -> None:
        self._files = HashFiles.of_snapshot(store, snapshot)
        self._kept: dict[tuple[bytes, int], Hashes] = {}  # the first that were read, up to so many bytes
        self._left = kept_bytes_max

    def buckets(self, partition: bytes, hashes: Hashes) -> Buckets:
        """Return the lowest bucket of a partition that has each key, `NEW` for keys that none has."""
        asked = _Asked(hashes)
        entries = sorted(self._files.of_partition(partition), key=lambda entry: entry.bucket, reverse=True)
        for first in range(0, len(entries), _READ_AT_ONCE):
            some = entries[first : first + _READ_AT_ONCE]
            for bucket, known in self._read(partition, some).items():
                asked.look_in(bucket, known)
        return asked.buckets()

    def _read(self, partition: bytes, entries: Sequence[IndexEntry]) -> dict[int, Hashes]:
        """Return the hashes of some buckets, in the order in which they are given."""
        new = self._files.read([entry for entry in entries if (partition, entry.bucket) not in self._kept])
        read = {e.bucket: new[e.bucket] if e.bucket in new else self._kept[partition, e.bucket] for e in entries}
        for bucket, hashes in new.items():
            if hashes.nbytes <= self._left:
                self._left -= hashes.nbytes
                self._kept[partition, bucket] = hashes
        return read


class _Asked:
    """Hashes whose buckets are asked for.

    >>> asked = _Asked(np.array([5, -3, 5, 7], np.int32))
    >>> asked.look_in(1, np.array([5, 9], np.int32))
    >>> asked.look_in(0, np.array([-3], np.int32))
    >>> asked.buckets()
    array([ 1,  0,  1, -1], dtype=int32)
    """

    def __init__(self, hashes: Hashes) -> None:
        self._distinct, self._of_row = np.unique(hashes, return_inverse=True)
        self._found: Buckets = np.full(len(self._distinct), NEW, np.int32)
        low, high = _LOW_BITS
        self._mask = np.uint32((1 << min(high, max(low, (16 * len(self._distinct)).bit_length()))) - 1)
        self._is_asked = np.zeros(int(self._mask) + 1, np.bool_)
        self._is_asked[_low(self._distinct, self._mask)] = True

    def look_in(self, bucket: int, known: Hashes) -> None:
        """Note which of the hashes a bucket has."""
        kept = known[self._is_asked[_low(known, self._mask)]]
        at = np.searchsorted(self._distinct, kept)
        inside = at < len(self._distinct)
        at, kept = at[inside], kept[inside]
        self._found[at[self._distinct[at] == kept]] = bucket

    def buckets(self) -> Buckets:
        """Return the bucket that was noted last for each hash, `NEW` where none was."""
        buckets: Buckets = self._found[self._of_row]
        return buckets


def _low(hashes: Hashes, mask: np.uint32) -> npt.NDArray[np.uint32]:
    return hashes.view(np.uint32) & mask

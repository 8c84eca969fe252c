"""Rows of one key side by side: what a merge function is handed, and the seam it is plugged in by.

A merge function sees only keys that have two rows or more, each in merge order: the oldest first, the latest last. It
is made once per table from its schema, where it also refuses what it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa

from lakewright.lsm.images import Longs


@dataclass(frozen=True, slots=True)
class Groups:
    """Keyed rows grouped by key: group `i` is the rows at `order[starts[i]:ends[i]]`, in merge order."""

    rows: pa.Table  # all rows of the merge, in any order and without `_LEVEL`; some belong to no group
    order: Longs
    starts: Longs
    ends: Longs

    def __len__(self) -> int:
        return len(self.starts)

    def parts(self, rows_max: int) -> Iterator[Groups]:
        """Cut the groups into ranges of about equal size, of about so many rows at most."""
        count = len(self.order)
        wanted = np.linspace(0, count, -(-count // rows_max) + 1).astype(np.int64)
        firsts = np.unique(np.searchsorted(self.starts, wanted))
        for first, last in pairwise(firsts.tolist()):
            start, end = int(self.starts[first]), int(self.ends[last - 1])
            yield Groups(
                self.rows, self.order[start:end], self.starts[first:last] - start, self.ends[first:last] - start
            )

    def gathered(self) -> Groups:
        """Return the same groups with their rows, and no others, in order."""
        order = np.arange(len(self.order), dtype=np.int64)
        return Groups(self.rows.take(pa.array(self.order)), order, self.starts, self.ends)


class MergeFunction(Protocol):
    """What a merge engine does with the rows of one key, for all keys at once."""

    def needed(self, columns: AbstractSet[str]) -> AbstractSet[str]:
        """Return the columns a merge must read, besides key and sequence fields, to give these."""

    def merge(self, groups: Groups) -> pa.Table:
        """Return one row per group, in their order, with the columns of `groups.rows`."""

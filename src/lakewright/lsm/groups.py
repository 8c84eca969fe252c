"""Rows of one key side by side: what a merge function is handed, and the seam it is plugged in by.

A merge function sees only keys that have two rows or more, each in merge order: the oldest first, the latest last. It
is made once per table from its schema, where it also refuses what it does not know.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

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


class MergeFunction(Protocol):
    """What a merge engine does with the rows of one key, for all keys at once."""

    def needed(self, columns: AbstractSet[str]) -> AbstractSet[str]:
        """Return the columns a merge must read, besides key and sequence fields, to give these."""

    def merge(self, groups: Groups) -> pa.Table:
        """Return one row per group, in their order, with the columns of `groups.rows`."""

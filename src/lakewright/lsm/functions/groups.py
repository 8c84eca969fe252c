"""Rows of one key side by side: what a merge function gets, and the protocol of merge functions.

A merge function sees only keys that have two rows or more, each in merge order: the oldest first, the latest last. It
is made once per table from its schema; options that it does not support are refused then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa

from lakewright.lsm.images import Longs
from lakewright.spec.gather import gather

_TAKE_BYTES_MAX = 1 << 30  # texts of one array have 2 GB at most
_FEW = 16  # one row of so many is few


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
        bounds = np.linspace(0, count, -(-count // rows_max) + 1).astype(np.int64)
        firsts = np.unique(np.searchsorted(self.starts, bounds))
        for first, last in pairwise(firsts.tolist()):
            start, end = int(self.starts[first]), int(self.ends[last - 1])
            yield Groups(
                self.rows, self.order[start:end], self.starts[first:last] - start, self.ends[first:last] - start
            )

    def gathered(self) -> Groups:
        """Return the same groups with their rows, and no others, in order."""
        order = np.arange(len(self.order), dtype=np.int64)
        return Groups(take_rows(self.rows, self.order), order, self.starts, self.ends)


class MergeFunction(Protocol):
    """What a merge engine does with the rows of one key, for all keys at once."""

    def needed(self, columns: AbstractSet[str]) -> AbstractSet[str]:
        """Return the columns a merge must read, besides key and sequence fields, to give these."""

    def check_kinds(self, kinds: AbstractSet[int]) -> None:
        """Refuse kinds of rows that every merge would fail on."""

    def merge(self, groups: Groups) -> pa.Table:
        """Return one row per group, in their order, with the columns of `groups.rows`."""


def take_rows(rows: pa.Table, positions: Longs) -> pa.Table:
    """Return the rows at positions, without a copy where they follow each other."""
    if len(positions) == 0:
        return rows.slice(0, 0)
    first, last = int(positions[0]), int(positions[-1])
    if last - first == len(positions) - 1 and bool(np.all(positions[1:] > positions[:-1])):
        return rows.slice(first, len(positions))
    # Arrow puts the chunks of a table together before it takes rows, which costs too much for few of them, and which
    # cannot be done with very many bytes.
    wide = rows.nbytes > _TAKE_BYTES_MAX
    if not wide and (len(positions) > len(rows) // _FEW or all(c.num_chunks == 1 for c in rows.columns)):
        return gather(rows, positions)
    batches = rows.to_batches()
    parts = np.array_split(positions, 1 + rows.nbytes // _TAKE_BYTES_MAX if wide else 1)
    return pa.concat_tables([_take_by_chunk(batches, part) for part in parts if len(part)])


def _take_by_chunk(batches: Sequence[pa.RecordBatch], positions: Longs) -> pa.Table:
    """Take the rows of each batch, then put them in order."""
    bounds = np.cumsum([0, *(len(batch) for batch in batches)])
    batch_of = np.searchsorted(bounds, positions, side="right") - 1
    by_batch = np.argsort(batch_of.astype(np.uint16) if len(batches) < 1 << 16 else batch_of, kind="stable")
    sorted_positions = positions.take(by_batch)
    cuts = np.searchsorted(batch_of.take(by_batch), np.arange(len(batches) + 1))
    taken = [
        gather(pa.Table.from_batches([batch]), sorted_positions[start:end] - bound)
        for batch, bound, (start, end) in zip(batches, bounds.tolist(), pairwise(cuts.tolist()), strict=False)
        if end > start
    ]
    back = np.empty(len(positions), np.int64)
    back[by_batch] = np.arange(len(positions))
    return gather(pa.concat_tables(taken), back)

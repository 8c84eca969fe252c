"""Sequence groups: for each row and group of columns, whether the row is as new as what the key has already.

A group has sequence fields of its own. A row whose sequence fields are all null does not touch the group. Otherwise it
is compared with the newest so far, null being the oldest. A row that removes the whole record leaves its own sequence
fields behind, in all groups, so what follows is compared with those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakewright.lsm.functions.groups import Groups
from lakewright.lsm.images import Flags, Longs, layers_of
from lakewright.lsm.keys import SortColumn, table_parts
from lakewright.lsm.sorting import sort_layers
from lakewright.spec.types import DataField

_SHORT_BITS = 32  # numbers so short are ranks as they are, and leave room for the number of the key


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """Columns that follow sequence fields of their own."""

    fields: tuple[DataField, ...]  # which say how new a row is
    columns: frozenset[str]  # which follow them
    removes: bool  # whether a -D that is new enough removes the whole record

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sequence fields."""
        return tuple(field.name for field in self.fields)


@dataclass(frozen=True, slots=True)
class Recency:
    """How new each row of `groups.order` is beside the rows of its key before it, for one sequence group."""

    ranks: Longs  # 0 where the row does not touch the group, else higher for newer rows
    newest: Flags  # whether a row is as new as all before it

    @property
    def touches(self) -> Flags:
        """Which rows have sequence fields at all."""
        return self.ranks > 0


def compare_recency(
    groups: Groups, sequences: Sequence[SequenceGroup], ignored: Flags, deletes: Flags
) -> list[Recency]:
    """Compare every row with those before it; `ignored` rows change nothing, `deletes` may remove the record."""
    owners = np.repeat(np.arange(len(groups)), groups.ends - groups.starts)
    recencies = []
    for sequence in sequences:
        ranks = np.where(ignored, 0, _ranks(groups, sequence))
        recencies.append(Recency(ranks, ranks >= _highest_before(ranks, owners, groups.starts)))
    # The comparison is right up to the first removal of a key, so only keys with a removal are compared again.
    removed = removals(recencies, sequences, deletes)
    if removed.any():
        again = np.unique(owners[removed])
        _compare_again(recencies, sequences, deletes, groups.starts[again], groups.ends[again])
    return recencies


def removals(recencies: Sequence[Recency], sequences: Sequence[SequenceGroup], deletes: Flags) -> Flags:
    """Return which rows remove the whole record."""
    removed = np.zeros(len(deletes), np.bool_)
    for recency, sequence in zip(recencies, sequences, strict=True):
        if sequence.removes:
            removed |= deletes & recency.touches & recency.newest
    return removed


def _ranks(groups: Groups, sequence: SequenceGroup) -> Longs:
    """Return numbers that compare as the sequence fields of rows do, 0 where all are null."""
    columns = groups.rows.select(list(sequence.names)).take(pa.array(groups.order))
    layers = layers_of(table_parts(columns, [SortColumn(field) for field in sequence.fields]))
    if len(layers) == 1 and layers[0].bits <= _SHORT_BITS:
        ranks = layers[0].words().astype(np.int64) + 1
    else:
        ordered = sort_layers(layers, len(columns))
        ranks = np.empty(len(columns), np.int64)
        ranks[ordered.order] = np.cumsum(ordered.new)
    for name in sequence.names:
        if columns.column(name).null_count == 0:
            return ranks
    empty = np.logical_and.reduce([columns.column(name).is_null().to_numpy() for name in sequence.names])
    ranks[empty] = 0
    return ranks


def _highest_before(ranks: Longs, owners: Longs, starts: Longs) -> Longs:
    """Return the highest rank among the rows of the same key that come before each row, 0 for the first."""
    width = int(ranks.max(initial=0)) + 1
    highest = np.maximum.accumulate(owners * width + ranks)
    before = np.zeros(len(ranks), np.int64)
    before[1:] = highest[:-1] - owners[1:] * width
    before[starts] = 0
    return before


def _compare_again(
    recencies: Sequence[Recency], sequences: Sequence[SequenceGroup], deletes: Flags, starts: Longs, ends: Longs
) -> None:
    """Compare the rows of some keys again, first the first of each key, then the second, and so on."""
    highest = np.zeros((len(recencies), len(starts)), np.int64)
    alive = np.arange(len(starts))
    for depth in range(int((ends - starts).max(initial=0))):
        alive = alive[starts[alive] + depth < ends[alive]]
        at = starts[alive] + depth
        removed = np.zeros(len(at), np.bool_)
        for recency, sequence, before in zip(recencies, sequences, highest, strict=True):
            recency.newest[at] = recency.ranks[at] >= before[alive]
            if sequence.removes:
                removed |= deletes[at] & recency.newest[at] & (recency.ranks[at] > 0)
        for recency, before in zip(recencies, highest, strict=True):
            ranks = recency.ranks[at]
            before[alive] = np.where(removed, ranks, np.maximum(before[alive], ranks))

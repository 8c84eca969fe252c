"""Keys that may be in any partition: a batch of rows in, the partition that each row goes to out. Reads no files.

Rows of one key are handled in order of arrival. For the first of them the key is where the table has it, for each later
one where the row before it put it. `MovePolicy`, which follows from the merge engine, says what becomes of a row that
names another partition than its key has. All rows are decided together on arrays, however often a key occurs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lakewright.spec.keyed_rows import DELETE, INSERT, UPDATE_AFTER

Longs: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

NOWHERE = -1


class MovePolicy(Enum):
    """What becomes of a row that names another partition than its key has."""

    MOVE = "the old row is deleted, the new one goes to its own partition"
    STAY = "the new row goes to the partition of the old one"
    DROP = "the new row is dropped"


@dataclass(frozen=True, slots=True)
class SortedRows:
    """Rows sorted by key, those of one key in order of arrival."""

    new: Flags  # where a new key begins
    kinds: npt.NDArray[np.int8]
    partitions: Longs  # that the row itself names, by number
    homes: Longs  # the partition in which the table has the row's key, by number, or NOWHERE


@dataclass(frozen=True, slots=True)
class Moves:
    """What to do with each row."""

    gets_bucket: Flags  # the row's key gets a bucket in the row's own partition
    source: Longs  # the row whose new bucket this row goes to; NOWHERE: it goes where the table has the key
    leaves_old: Flags  # the key must be deleted in the partition that the row before put it into
    removes: Flags  # the row removes its key from the table
    dropped: Flags
    ends: Longs  # the last row of each key
    gone: Flags  # of each key, whether the table is without it in the end


def plan_moves(rows: SortedRows, moving: MovePolicy, *, deletes_remove: bool) -> Moves:
    """Decide for sorted rows; `deletes_remove` says whether a delete (-D) takes the key out of the table."""
    count = len(rows.new)
    positions = np.arange(count, dtype=np.int64)
    first = _filled(np.where(rows.new, positions, NOWHERE))  # the first row of each row's key
    adds = (rows.kinds == INSERT) | (rows.kinds == UPDATE_AFTER)
    removes = (rows.kinds == DELETE) & deletes_remove
    # A delete of a key that the table lacks counts for later rows: from then on the key has that row's partition.
    lasts = np.ones_like(adds) if moving is MovePolicy.STAY and not deletes_remove else adds
    # The last row before this one, of the same key, that decides whether the table has the key.
    event = _before(np.where(lasts | removes, positions, NOWHERE), first)
    seen = event != NOWHERE
    exists = np.where(seen, lasts[event], rows.homes != NOWHERE)
    if moving is MovePolicy.MOVE:
        lives_in = np.where(seen, rows.partitions[event], rows.homes)
        gets_bucket = adds & ~(exists & (lives_in == rows.partitions))
    else:
        gets_bucket = adds & ~exists
    # A delete of a key that the table lacks goes to the partition that it names.
    gets_bucket |= rows.new & ~adds & (rows.homes == NOWHERE)
    source = _since(np.where(gets_bucket, positions, NOWHERE), first)
    dropped = np.zeros(count, np.bool_)
    if moving is MovePolicy.DROP:
        home = np.where(source == NOWHERE, rows.homes, rows.partitions[source])
        dropped = adds & exists & (home != rows.partitions)
    ends = np.flatnonzero(np.append(rows.new[1:], [True] * min(1, count)))
    last = _since(np.where(lasts | removes, positions, NOWHERE), first)[ends]
    gone = np.where(last == NOWHERE, rows.homes[ends] == NOWHERE, removes[last])
    return Moves(gets_bucket, source, gets_bucket & adds & exists, removes & exists, dropped, ends, gone)


def _filled(positions: Longs) -> Longs:
    """Return of each row the last position up to it."""
    return np.maximum.accumulate(positions) if len(positions) else positions


def _since(positions: Longs, first: Longs) -> Longs:
    """Return of each row the last position up to it that is not before the first row of its key."""
    filled = _filled(positions)
    return np.where(filled >= first, filled, NOWHERE)


def _before(positions: Longs, first: Longs) -> Longs:
    """Return of each row the last position before it that is not before the first row of its key."""
    filled = np.append([NOWHERE], _filled(positions)[:-1]) if len(positions) else positions
    return np.where(filled >= first, filled, NOWHERE)

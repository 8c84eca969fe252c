"""Splits spread over tasks: a plan in, shares of about equal size out, each for one task of an engine.

What always holds: every row of the plan is in exactly one share; files that hold versions of one key, or columns of one
row, stay together; the events of a stream stay in order. Nothing here opens a file.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeAlias

from lakewright.lsm.runs import sections
from lakewright.metadata.store import TableStore
from lakewright.read.splits.plan import Packing
from lakewright.read.splits.split import DataSplit

Share: TypeAlias = tuple[DataSplit, ...]


def pieces(store: TableStore, split: DataSplit) -> list[DataSplit]:
    """Cut a split into parts that can be read apart: files, or sections of files that share keys."""
    if split.before is not None or split.streaming or split.branch is not None:
        return [split]  # another branch may have another key than the table
    if not split.needs_merge:
        return [part_of(split, group) for group in split.row_groups()]
    number_of = {file: at for at, file in enumerate(split.files)}
    types = [field.type for field in store.schema.trimmed_primary_key_fields]
    return [part_of(split, [number_of[file] for file in part.files]) for part in sections(split.files, types)]


def part_of(split: DataSplit, numbers: Sequence[int]) -> DataSplit:
    """Return a split with some of its files alone."""
    return replace(
        split,
        files=tuple(split.files[at] for at in numbers),
        file_paths=tuple(split.file_paths[at] for at in numbers),
        deletion_files=tuple(split.deletion_files[at] for at in numbers) if split.deletion_files else (),
        row_ranges=tuple(split.row_ranges[at] for at in numbers) if split.row_ranges else (),
    )


def shares(store: TableStore, splits: Sequence[DataSplit], *, at_least: int, exactly: int | None = None) -> list[Share]:
    """Spread splits over tasks: as many as their bytes ask for, where they can be cut so far, or as many as are wanted.

    The largest pieces are placed first, each where the least is; a share keeps the order of the plan.
    """
    parts = [(part,) for split in splits for part in pieces(store, split)]
    return _spread(store, parts, at_least, exactly)


def bucket_shares(store: TableStore, splits: Sequence[DataSplit], *, at_least: int) -> list[Share]:
    """Spread splits over tasks as `shares` does, but those of one bucket to one task."""
    buckets: dict[tuple[bytes, int], list[DataSplit]] = {}
    for split in splits:
        buckets.setdefault((split.partition_bytes, split.bucket), []).append(split)
    return _spread(store, [tuple(some) for some in buckets.values()], at_least, None)


def stretches(sizes: Sequence[int], count: int) -> list[range]:
    """Cut a row of pieces into `count` stretches of neighbours whose largest is as small as it can be.

    No stretch is empty while there are pieces for it.

    >>> stretches([10, 11], 2), stretches([10, 1, 1], 3), stretches([1, 1], 3)
    ([range(0, 1), range(1, 2)], [range(0, 1), range(1, 2), range(2, 3)], [range(0, 1), range(1, 2), range(2, 2)])
    """
    low, high = max(sizes, default=0), sum(sizes)
    while low < high:
        limit = (low + high) // 2
        low, high = (low, limit) if len(_ends(sizes, count, limit)) <= count else (limit + 1, high)
    ends = _ends(sizes, count, high)
    ends += [len(sizes)] * (count - len(ends))
    return [range(start, end) for start, end in pairwise([0, *ends])]


def _ends(sizes: Sequence[int], count: int, limit: int) -> list[int]:
    """Return where stretches end that are as long as a limit allows, or shorter so that none of the others is empty."""
    ends: list[int] = []
    held = 0
    for at, size in enumerate(sizes):
        if at and (held + size > limit or len(sizes) - at < count - len(ends)) and held:
            ends.append(at)
            held = 0
        held += size
    return [*ends, len(sizes)] if sizes else ends


def _spread(store: TableStore, parts: Sequence[Share], at_least: int, exactly: int | None) -> list[Share]:
    packing = Packing.of(store.options)
    weights = [sum(_weight(split, packing) for split in part) for part in parts]
    tasks = max(at_least, -(-sum(weights) // packing.target_bytes)) if exactly is None else exactly
    return [tuple(split for at in some for split in parts[at]) for some in sorted(spread(weights, tasks))]


def _weight(split: DataSplit, packing: Packing) -> int:
    """Return what a split weighs among others; of files that are read in part only that part counts."""
    weight, rows = packing.weight(split.files), sum(file.row_count for file in split.files)
    kept = sum(file.row_count if some is None else some[1] - some[0]
               for file, some in zip(split.files, split.row_ranges, strict=False))  # fmt: skip
    return weight * kept // max(rows, 1) if split.row_ranges else weight


def spread(weights: Sequence[int], count: int) -> list[list[int]]:
    """Spread things over so many groups, or one for each: the heaviest first, each to the group that weighs least.

    The groups hold the numbers of the things in order; the heaviest group comes first.

    >>> spread([1, 5, 2, 2], 2)
    [[1], [0, 2, 3]]
    """
    count = max(1, min(count, len(weights)))
    loads = [(0, number) for number in range(count)]
    members: list[list[int]] = [[] for _ in range(count)]
    for at in sorted(range(len(weights)), key=lambda at: -weights[at]):
        load, number = heapq.heappop(loads)
        members[number].append(at)
        heapq.heappush(loads, (load + weights[at], number))
    heaviest_first = sorted(loads, key=lambda load: (-load[0], load[1]))
    return [sorted(members[number]) for _, number in heaviest_first if members[number]]

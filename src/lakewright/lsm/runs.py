"""Levels, sorted runs and sections: the facts of one bucket's files in, what must be read together out.

A *sorted run* is a list of files whose key ranges ascend and do not overlap: every file of level 0 alone, all files of
a higher level together. A *section* holds files whose key ranges overlap, directly or through others, cut into as few
runs as possible; sections never share a key, so each can be merged by itself. Nothing here opens a file.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lakewright.errors import CorruptTableError
from lakewright.lsm.keys import Key, KeyOrder
from lakewright.spec.datafile import DataFile
from lakewright.spec.options import CoreOptions
from lakewright.spec.rows.binary_row import decode_row
from lakewright.spec.types import DataField, DataType


@dataclass(frozen=True, slots=True)
class SortedRun:
    """One file of level 0, or all files of a higher level."""

    level: int
    files: tuple[DataFile, ...]

    @property
    def size(self) -> int:
        """How many bytes the files have."""
        return sum(file.file_size for file in self.files)


@dataclass(frozen=True, slots=True)
class Section:
    """Files whose keys overlap, directly or through others, as runs in which no two files overlap.

    The oldest run comes first, so that a stable sort by key mostly leaves nothing to be sorted by age.
    """

    runs: tuple[tuple[DataFile, ...], ...]

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The files of all runs."""
        return tuple(file for run in self.runs for file in run)

    @property
    def size(self) -> int:
        """How many bytes the files have."""
        return sum(file.file_size for file in self.files)

    @property
    def ages_are_apart(self) -> bool:
        """Whether every row of a run is older or younger than every row of another, by the files' numbers alone."""
        spans = sorted(
            (min(f.min_sequence_number for f in run), max(f.max_sequence_number for f in run)) for run in self.runs
        )
        return all(before[1] < after[0] for before, after in pairwise(spans))


def runs_of(files: Iterable[DataFile]) -> list[SortedRun]:
    """Return the sorted runs of a bucket, youngest first; files of a level stay in the order they are given in."""
    levels: dict[int, list[DataFile]] = {}
    for file in files:
        levels.setdefault(file.level, []).append(file)
    fresh = sorted(levels.pop(0, []), key=_age)
    deeper = (SortedRun(level, tuple(members)) for level, members in sorted(levels.items()))
    return [*(SortedRun(0, (file,)) for file in fresh), *deeper]


def _age(file: DataFile) -> tuple[int, int, int, str]:
    return -file.max_sequence_number, file.min_sequence_number, file.creation_time or 0, file.file_name


def sections(files: Iterable[DataFile], key_types: Sequence[DataType]) -> list[Section]:
    """Cut the files of one bucket into sections, in key order; files of bucket -2 have no key bounds and no sections.

    Equal bounds overlap: the two files may both hold that key.
    """
    # The bounds of a file are its own first and last key, so they are all that is needed to tell files apart.
    order = KeyOrder([DataField(at, f"key_{at}", dtype) for at, dtype in enumerate(key_types)])
    bounded = sorted(
        ((*_bounds(file, key_types, order), file) for file in files),
        key=lambda bounds: (bounds[0], bounds[1], bounds[2].level, _age(bounds[2])),
    )
    made: list[Section] = []
    current: list[tuple[Key, Key, DataFile]] = []
    highest: Key | None = None
    for low, high, file in bounded:
        if highest is not None and low > highest:
            made.append(_section(current))
            current, highest = [], None
        current.append((low, high, file))
        highest = high if highest is None else max(highest, high)
    return [*made, _section(current)] if current else made


def _bounds(file: DataFile, key_types: Sequence[DataType], order: KeyOrder) -> tuple[Key, Key]:
    try:
        low, high = decode_row(file.min_key, key_types), decode_row(file.max_key, key_types)
    except CorruptTableError as error:
        raise CorruptTableError(
            f"the first or the last key of the data file {file.file_name} is damaged: {error}", files=(file.file_name,)
        ) from error
    return order.key_of(low), order.key_of(high)


def _section(bounded: Sequence[tuple[Key, Key, DataFile]]) -> Section:
    """Put files that are ordered by their lower bound into as few runs as possible."""
    runs: list[list[DataFile]] = []
    ends: list[tuple[Key, int]] = []  # a heap: the last key of each run, and which run it is
    for low, high, file in bounded:
        if ends and low > ends[0][0]:
            number = ends[0][1]
            runs[number].append(file)
            heapq.heapreplace(ends, (high, number))
        else:
            heapq.heappush(ends, (high, len(runs)))
            runs.append([file])
    runs.sort(key=lambda run: min(file.min_sequence_number for file in run))
    return Section(tuple(tuple(run) for run in runs))


def max_level(options: CoreOptions, files: Iterable[DataFile]) -> int:
    """Return the deepest level of a bucket: what `num-levels` says, or deeper where files lie deeper."""
    return max((options.num_levels() - 1, *(file.level for file in files)))

"""pypaimon's ranges of row ids: ranges in, those that overlap, remain or merge out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakewright.errors import InvalidInputError


@dataclass(frozen=True, slots=True, order=True, repr=False)
class Range:
    """Row ids from one to another, both included.

    >>> Range(0, 9).exclude([Range(2, 3)]), Range.to_ranges([5, 1, 2]), Range.and_([Range(0, 5)], [Range(4, 9)])
    ([Range(0, 1), Range(4, 9)], [Range(1, 2), Range(5, 5)], [Range(4, 5)])
    """

    from_: int
    to: int

    def __post_init__(self) -> None:
        if self.from_ > self.to:
            raise InvalidInputError(f"Invalid range: from ({self.from_}) > to ({self.to})")

    def __repr__(self) -> str:
        return f"Range({self.from_}, {self.to})"

    def contains(self, value: int) -> bool:
        """Say whether an id lies in the range."""
        return self.from_ <= value <= self.to

    def count(self) -> int:
        """Return how many ids the range has."""
        return self.to - self.from_ + 1

    def overlaps(self, other: Range) -> bool:
        """Say whether two ranges have an id in common."""
        return Range.intersect(self.from_, self.to, other.from_, other.to)

    def exclude(self, ranges: Iterable[Range]) -> list[Range]:
        """Return what remains of the range without others."""
        left, start = [], self.from_
        for one in sorted(ranges):
            if start < one.from_ and start <= self.to:
                left.append(Range(start, min(one.from_ - 1, self.to)))
            start = max(start, one.to + 1)
        return [*left, Range(start, self.to)] if start <= self.to else left

    @staticmethod
    def intersect(start1: int, end1: int, start2: int, end2: int) -> bool:
        """Say whether two ranges, given by their ends, have an id in common."""
        return start1 <= end2 and start2 <= end1

    @staticmethod
    def to_ranges(values: Iterable[int]) -> list[Range]:
        """Return ids as ranges of neighbours."""
        made: list[Range] = []
        for value in sorted(values):
            if made and value == made[-1].to + 1:
                made[-1] = Range(made[-1].from_, value)
            else:
                made.append(Range(value, value))
        return made

    @staticmethod
    def and_(ranges1: Iterable[Range], ranges2: Iterable[Range]) -> list[Range]:
        """Return what two lists of ranges have in common."""
        common, left, right = [], sorted(ranges1), sorted(ranges2)
        at = other = 0
        while at < len(left) and other < len(right):
            one, two = left[at], right[other]
            if one.overlaps(two):
                common.append(Range(max(one.from_, two.from_), min(one.to, two.to)))
            at += one.to <= two.to
            other += two.to <= one.to
        return common

    @staticmethod
    def sort_and_merge_overlap(
        ranges: Sequence[Range],
        merge: bool = True,  # noqa: FBT001, FBT002 - pypaimon's signature
        adjacent: bool = True,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> list[Range]:
        """Return ranges in order; with `merge` those that overlap as one, with `adjacent` neighbours too."""
        merged: list[Range] = []
        for one in sorted(ranges):
            if merge and merged and one.from_ <= merged[-1].to + adjacent:
                merged[-1] = Range(merged[-1].from_, max(merged[-1].to, one.to))
            else:
                merged.append(one)
        return merged

    @staticmethod
    def merge_sorted_as_possible(ranges: Sequence[Range]) -> list[Range]:
        """Return ranges in order, those that overlap or are neighbours as one."""
        return Range.sort_and_merge_overlap(ranges)

"""Merge engines, and what the rest of the library asks about them.

Code asks an engine for its traits and never which engine it is, so that a new engine that keeps one row of each key is
one member of `MergeEngine`. One that computes a row from several needs a merge function besides, in
`lsm.merge_rows.MERGE_FUNCTIONS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Literal, Self

from lakewright.spec.option_values import ChangelogProducer


class MovePolicy(Enum):
    """What happens to a new row whose key already has a row in another partition."""

    MOVE = "move"  # the old row is deleted, and the new one goes to the partition that it names
    STAY = "stay"  # the new row goes to the partition of the old one
    DROP = "drop"  # the new row is dropped


@dataclass(frozen=True, slots=True)
class MergeTraits:
    """What a merge engine does with the rows of one key, and what a table with it accepts."""

    keeps: Literal["last row", "first row", "fold"]  # fold: a merge function computes the row
    combines_values: bool = False  # the values of all rows count, as in a sum; they are not picked from single rows
    needs_lookup: bool = False  # rows of level 0 are hidden until a compaction has looked up their keys
    accepts_deletes: bool = True
    delete_option: str | None = None  # only if this option is true does a delete remove the row
    accepts_sequence_field: bool = True
    accepts_deletion_vectors: bool = True
    changelog_producers: frozenset[ChangelogProducer] = frozenset(ChangelogProducer)
    on_partition_change: MovePolicy = MovePolicy.STAY

    @property
    def keeps_last_row(self) -> bool:
        """Whether the newest row of a key is the result, so that a write replaces the old row."""
        return self.keeps == "last row"

    @property
    def keeps_first_row(self) -> bool:
        """Whether the oldest row of a key is the result, so that a write has no effect on existing keys."""
        return self.keeps == "first row"

    @property
    def keeps_one_row(self) -> bool:
        """Whether one row of each key is kept unchanged, and the others are only left out."""
        return self.keeps != "fold"

    @property
    def accepts_updates(self) -> bool:
        """Whether a newer row can set single columns to given values."""
        return not (self.keeps_first_row or self.combines_values)


class MergeEngine(StrEnum):
    """How a primary-key table merges the rows of one key.

    >>> MergeEngine("first-row").traits.keeps_first_row
    True
    """

    _value_: str
    traits: MergeTraits

    def __new__(cls, name: str, traits: MergeTraits) -> Self:
        """Make a member whose value is the name that the option `merge-engine` has."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.traits = traits
        return member

    DEDUPLICATE = "deduplicate", MergeTraits("last row", on_partition_change=MovePolicy.MOVE)
    PARTIAL_UPDATE = "partial-update", MergeTraits("fold", delete_option="partial-update.remove-record-on-delete")
    AGGREGATION = (
        "aggregation",
        MergeTraits("fold", combines_values=True, delete_option="aggregation.remove-record-on-delete"),
    )
    FIRST_ROW = (
        "first-row",
        MergeTraits(
            "first row",
            needs_lookup=True,
            accepts_deletes=False,
            accepts_sequence_field=False,
            accepts_deletion_vectors=False,
            changelog_producers=frozenset({ChangelogProducer.NONE, ChangelogProducer.LOOKUP}),
            on_partition_change=MovePolicy.DROP,
        ),
    )

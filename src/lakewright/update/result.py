"""The result of a row-level change: counts, and how it was done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakewright.display.notebook import InNotebook


@dataclass(frozen=True, slots=True)
class UpdateResult(InNotebook):
    """What one delete, update, upsert or merge did to the table.

    If no row had to change there is no new snapshot. The counts are None if the rows of the table were not looked up:
    an upsert that writes whole rows into a primary-key table, or whose merge engine folds rows. `written`, `files` and
    `bytes` are those of the data files it wrote; deletes by deletion vectors write none.
    """

    snapshot_id: int | None  # None: nothing had to be changed
    deleted: int | None = 0
    updated: int | None = 0
    inserted: int | None = 0
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    partitions: int = 0  # that got, lost or changed rows
    way: str = ""  # how rows were changed: one of the texts of `update.methods.ChangeMethod`
    attempts: int = 1  # how often the change was planned; more than once if others changed the same rows meanwhile
    written: int = 0  # rows in the data files, copied rows and rows that delete others included
    replayed: bool = False  # an earlier run of the same job made the snapshot; this run wrote nothing
    # Where the time went: `prepare` finds and changes rows, the rest are the stages of the commit.
    stages_ms: Mapping[str, float] = field(default_factory=dict, repr=False, compare=False)

    @property
    def rows(self) -> int | None:
        """How many rows were deleted, updated or inserted."""
        if self.deleted is None or self.updated is None or self.inserted is None:
            return None
        return self.deleted + self.updated + self.inserted

    @property
    def is_empty(self) -> bool:
        """Whether nothing had to be changed."""
        return self.snapshot_id is None
